"""Laws of the loss over learning rate and batch: any law of size and tokens, times a bowl.

Away from the best settings the loss rises, and the best settings move with the size and the tokens.
So such a law is a law of its own base, from which it takes the loss at the best settings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp

from jaxlaw.errors import UsageError, nearest
from jaxlaw.laws._base import Chart, Law, ScaleFree, derived, get, mirrored
from jaxlaw.laws._parameters import Input, Parameter, positive, real
from jaxlaw.laws.best_settings import BEST, POWERS, REFERENCE

#: Inputs that a law is tuned over.
TUNED = {
    "lr": Input("lr", "peak learning rate", 1.0, "positive", (1e-8, 1e2)),
    "batch": Input("batch", "tokens a step", 1.0, "positive", (1e3, 1e11), counts="tokens"),
}
_STEEPEST = 50.0  # exponent beyond which the loss rises no further: its exponential stays finite
_SERIES = 0.5  # below it (e^t − 1 − t)/t² loses its digits, and is summed


def tuned(law: str | Law = "skaling", over: Sequence[str] = ("lr", "batch")) -> Law:
    """A law of size and tokens with the learning rate, the batch, or both as inputs.

    loss = base·(1 + m^k·q), where q is 0 at the best LR lr* and the best batch B*, and rises away
    from them. With u = log(lr/lr*) and v = log(batch/B*),

    q = h_lr·φ(s_lr, u) + h_batch·φ(s_batch, v) + h_noise·φ(s_noise, u − g·v),

    φ(s, z) = (e^(s·z) − 1 − s·z)/s², which is z²/2 where s is 0, and else steeper on one side than
    on the other. The terms are of a learning rate that is too high, of a batch that is too large
    (too few steps), and of steps too noisy: a learning rate too high for its batch. lr* =
    lr_0·n^lr_N·d^lr_D, B* = batch_0·n^batch_N·d^batch_D and m = n·d, with n = N/1e9 and d = D/2e10:
    lr_0 and batch_0 are the best settings of a run of 1 B parameters and 20 B tokens.

    How well it predicts cells of Step Law's sweeps that were not fitted, and what runs lose by the
    settings that it proposes, is in ``benchmarks/tuning.md``.

    Args:
        law: law of the loss at the best settings, or its name; of N, D or both, or of C, with any
            other inputs.
        over: inputs of the bowl: ``lr``, ``batch`` or both. Of one alone q has that one's term.

    Returns:
        A law with these inputs after those of its base. ``batch`` is in tokens a step;
        ``units={"batch": 2048}`` reads batches of sequences of 2,048 tokens. It is named as it is
        made, ``tuned-skaling``, ``tuned-lr-chinchilla``, and ``jl.laws.get`` finds it by that name.

    Raises:
        UsageError: the law has none of N, D and C, has such an input already, has groups, a
            constraint or an input per drop of the learning rate, or predicts a score; or ``over``
            names something else.

    Example:
        >>> law = jl.laws.tuned("chinchilla", over=["lr"])
        >>> law.name, law.input_names
        ('tuned-lr-chinchilla', ('N', 'D', 'lr'))
        >>> law.parameter_names[5:]
        ('lr_0', 'lr_N', 'lr_D', 'h_lr', 's_lr', 'k')
    """
    base = get(law)
    names = (over,) if isinstance(over, str) else tuple(over)
    for name in names:
        if name not in TUNED:
            raise UsageError(
                f"over: a law is tuned over {' and '.join(TUNED)}, not over '{name}'."
                f"{nearest(name, TUNED)}"
            )
    if not names:
        raise UsageError("over is empty: name lr, batch or both")
    known = (*base.input_names, *base.parameter_names)
    own = {*TUNED, *(spec.name for spec in _specs(tuple(TUNED), "NDC"))}
    taken = [name for name in known if name in own]
    wrong = {
        "has none of the inputs N, D and C, with which the best settings could move": not (
            {*REFERENCE} & {*base.input_names}
        ),
        f"has {', '.join(taken)} already": bool(taken),
        "has groups: tune the plain law, and group that": "group" in base.input_names,
        "has a constraint: give the plain law": base.constraint is not None,
        "takes a value for every drop of the learning rate": bool(base.inputs_per_drop),
        "predicts a score, and a bowl is of a loss": base.better == "high",
        "is called as one that is tuned over less": base.name.startswith(("lr-", "batch-")),
    }
    for reason, holds in wrong.items():
        if holds:
            raise UsageError(f"law {base.name} cannot be tuned: it {reason}")
    return _make_law(base, tuple(name for name in TUNED if name in names))


# Differentiated operation by operation, the series is one more series for each parameter in t and
# for each pair of them: half of the solver's program, and of the time that it compiles.
@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _phi(order: int, t):
    """φ_n(t) = (e^t − Σ_{k<n} t^k/k!)/t^n of n = 2, 3, 4, where φ_n' = φ_n − n·φ_{n+1}."""
    small = jnp.abs(t) < _SERIES
    near, far = jnp.where(small, t, 0.0), jnp.where(small, 1.0, t)
    series, value = jnp.zeros_like(near), (jnp.expm1(far) - far) / far**2
    for k in range(16, order - 1, -1):
        series = series * near + 1.0 / math.factorial(k)
    for n in range(2, order):
        value = (value - 1.0 / math.factorial(n)) / far
    return jnp.where(small, series, value)


@_phi.defjvp
def _phi_jvp(order: int, primals: tuple, tangents: tuple) -> tuple:
    value = _phi(order, *primals)
    return value, (value - order * _phi(order + 1, *primals)) * tangents[0]


_DEPTH = positive(3e-3, 0.05, low=1e-7, high=10.0, doc="curvature along the learning rate")
_SKEW = real(0.2, 1.5, low=-5.0, high=8.0, doc="skew: how much steeper above the best LR")
_SHAPES = {
    "h_lr": _DEPTH,
    "s_lr": _SKEW,
    "h_batch": replace(_DEPTH, doc="curvature along the batch"),
    "s_batch": replace(_SKEW, doc="the same along the batch"),
    "h_noise": replace(_DEPTH, start=(1e-3, 0.05), doc="curvature along lr/batch^g"),
    "s_noise": replace(_SKEW, start=(0.1, 0.8), doc="the same along lr/batch^g"),
    "g": real(0.5, 2.0, low=-1.0, high=6.0, doc="power of the batch that an LR goes with"),
    "k": real(-0.2, 0.1, low=-2.0, high=2.0, doc="power of N·D with which the bowl deepens"),
}


def _specs(over: Sequence[str], scale: Sequence[str]) -> list[Parameter]:
    """The parameters of the bowl, in order."""
    known, both = POWERS | _SHAPES | {f"{name}_0": BEST[name] for name in BEST}, len(over) == 2
    names = [f"{name}_{one}" for name in over for one in ("0", *scale)]
    names += [f"{one}_{name}" for name in (*over, *["noise"] * both) for one in "hs"]
    names += [*["g"] * both, "k"]
    return [replace(known[name], name=name) for name in names]


#: Coordinates, beside those of the base, that recipes share: what a prior knows as ``tuned``.
EXPONENTS = {
    "lr_N": "power of N with which the best LR moves",
    "lr_D": "power of D with which the best LR moves",
    "batch_N": "power of N with which the best batch moves",
    "batch_D": "power of D with which the best batch moves",
}


@cache
def _make_law(base: Law, over: tuple[str, ...]) -> Law:
    # The inputs that the best settings move with → the logs of the reference.
    scale = {
        spec.name: math.log(REFERENCE[spec.name] / spec.unit)
        for spec in base.inputs
        if spec.name in REFERENCE
    }
    bowl = _specs(over, tuple(scale))
    own_names = tuple(spec.name for spec in bowl)

    def logs_of(inputs):
        """How far, in logs, sizes and tokens are from the reference."""
        return {name: jnp.log(inputs[name]) - at for name, at in scale.items()}

    def moved(params, name, logs):
        """Log of the factor by which a setting moves with the size and the tokens."""
        parts = [params[f"{name}_{of}"] * log for of, log in logs.items()]
        return sum(parts[1:], parts[0])

    def formula(*inputs, **params):
        """The base law at each row, raised by the bowl."""
        given, settings = inputs[: len(base.inputs)], inputs[len(base.inputs) :]
        own = {name: params[name] for name in base.parameter_names}
        logs = logs_of(dict(zip(base.input_names, given, strict=True)))
        z = {
            name: jnp.log(value) - jnp.log(params[f"{name}_0"]) - moved(params, name, logs)
            for name, value in zip(over, settings, strict=True)
        }
        if len(z) == 2:
            z["noise"] = z["lr"] - params["g"] * z["batch"]
        # (e^(s·z) − 1 − s·z)/s²: z²/2 where s is 0, and then steeper on the side of s.
        terms = [
            params[f"h_{name}"]
            * (at**2 * _phi(2, jnp.minimum(params[f"s_{name}"] * at, _STEEPEST)))
            for name, at in z.items()
        ]
        rise = jnp.exp(params["k"] * sum(logs.values())) * sum(terms[1:], terms[0])
        return base.function(*given, **own) * (1.0 + rise)

    def best(name, params, inputs):
        """The bottom of the bowl at sizes and tokens."""
        return params[f"{name}_0"] * jnp.exp(moved(params, name, logs_of(inputs)))

    def context(inputs):
        return base.context(inputs) | {
            f"log_{name}_of_reference": jnp.mean(jnp.log(jnp.asarray(inputs[name]))) - at
            for name, at in scale.items()
        }

    # The runs see best settings and depth at their own centre: at a reference far from it both move
    # with every exponent.
    chart = base.chart or Chart()
    depths = [name for name in own_names if name.startswith("h_")]
    charted = [spec for spec in bowl if spec.name in (*depths, *(f"{name}_0" for name in over))]

    def move(values, context, sign):
        logs = {name: context[f"log_{name}_of_reference"] for name in scale}
        powers = {f"{name}_0": moved(values, name, logs) for name in over}
        powers |= dict.fromkeys(depths, values["k"] * sum(logs.values()))
        return (chart.to_natural if sign > 0 else chart.from_natural)(values, context) | {
            name: values[name] * jnp.exp(-sign * log) for name, log in powers.items()
        }

    # Best settings and depths are a recipe's own, how the best settings move is alike. At a batch
    # that is held the best LR falls with D instead of rising: a law of one setting has other
    # exponents.
    known, scale_free = base.scale_free, None
    if known is not None and len(over) == len(TUNED) and "C" not in base.input_names:

        def of_params(params):
            own = known.of_params({name: params[name] for name in base.parameter_names})
            return own | {name: params[name] for name in EXPONENTS}

        def to_params(target, values):
            own = known.to_params(target, {name: values[name] for name in known.words})
            return own | {name: values[name] for name in EXPONENTS}

        scale_free = ScaleFree(
            known.reference,
            {**known.words, **EXPONENTS},
            of_params,
            to_params,
            (*(known.parts or (base.name,)), "tuned"),
            (*known.open, *(name for name in own_names if name not in EXPONENTS)),
        )

    only = f"{over[0]}-" if len(over) == 1 else ""
    return derived(
        base,
        f"tuned-{only}{base.name}",
        formula,
        tuned,
        (base, over),
        inputs=(*base.inputs, *(TUNED[name] for name in over)),
        parameters=(*base.parameters, *bowl),
        formula=f"({base.formula})·(1 + m^k·q({', '.join(over)}))",
        source=f"{base.source}; bowl: jaxlaw (benchmarks/tuning.md)",
        chart=mirrored(
            {**chart.low, **{spec.name: spec.low for spec in charted}},
            {**chart.high, **{spec.name: spec.high for spec in charted}},
            move,
            chart.limits,
        ),
        context=context,
        scale_free=scale_free,
        best_settings={name: partial(best, name) for name in over},
        settings_parameters=own_names,
    )
