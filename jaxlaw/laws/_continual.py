"""Laws of ladders: continual runs of several bases, in the base's resources and in its own tokens.

A ladder trains bases of several sizes on for several budgets. At one budget it is a ladder like any
other, over the resources of the base; what other budgets gain or lose is a term of their tokens,
which falls as the base grows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

from jaxlaw.errors import UsageError
from jaxlaw.laws._base import Law, derived, get, power
from jaxlaw.laws._parameters import INPUTS, Input, Parameter, exponent, positive, real
from jaxlaw.laws._tuned import tuned
from jaxlaw.laws.best_settings import REFERENCE

#: Resources of the base → the law of the loss over them.
BASES = {("C",): "loss-compute-e", ("N",): "loss-size", ("N", "D"): "chinchilla"}
BUDGET = 1e9  # continual tokens at which a ladder is its base's law
# Published: 0.04 in compute or N·D, and 0.08 in N (Zheng); and 0, no interaction.
_DELTA = {name: real(-top / 4, top) for name, top in (("C", 0.08), ("N", 0.16), ("N,D", 0.08))}
_OWN: dict[str, Any] = {
    "g_cpt": positive(0.1, 1.0, doc="share of the floor that more than 1 B tokens could remove"),
    "beta_cpt": exponent(0.05, 0.6, doc="exponent of the continual tokens"),
    "delta": _DELTA["C"],
    "eta_cpt": exponent(0.1, 2.0, doc="power of the ratio by which tokens gain"),
    "F_cpt": positive(0.01, 1.0, unit="nats", doc="size of the ratio's own term"),
    "mu_cpt": exponent(0.05, 1.0, doc="exponent of the ratio's own term"),
    "eps_cpt": real(0.001, 0.5, low=0.0, high=10.0, doc="keeps a ratio of 0 finite"),
}


def continual(
    base: str | Sequence[str] = "C",
    tokens: str = "D_cpt",
    ratio: str | None = None,
    lr: str | None = None,
    family: Literal["interaction", "additive"] = "interaction",
) -> Law:
    """A law of the loss after continual runs of several bases.

    loss = base + E·g·m^−δ·((D_cpt/1e9)^−β_cpt − 1).

    The base term, the loss after 1 B continual tokens, is E + A/C^γ, E + A/N^α or
    E + A/N^α + B/D^β, with D the tokens of pre-training. By m, which is C/1.2e20, N/1e9 or
    (N/1e9)·(D/2e10), more tokens gain less on a larger base. With δ = 0 (``additive``) it is
    E' + A/C^γ + B'/D_cpt^β_cpt with B' = E·g·1e9^β_cpt and E' = E·(1 − g).

    With a ratio r the gain is r^η times as large, and F·((r + ε)^−μ − (1 + ε)^−μ) is added.

    E, A and the exponents of C, and of N and D, have the field's prior
    (:func:`jaxlaw.fitting.field_prior`), which is of ladders like this one is at one budget. The
    others have weak ones about published values: β_cpt 0.05 to 0.6 (0.20 in Zheng; 0.3 to 0.45 from
    scratch), δ −0.02 to 0.08 (0.04 in Zheng, whose 0.08 is in N), of N twice that.

    Args:
        base: resources of the base: ``"C"`` (FLOPs of its pre-training), ``"N"`` or ``("N", "D")``.
        tokens: name of the input that is the tokens of the continual run.
        ratio: name of the input that is the share of the corpus in its mixture; None without one.
        lr: ``"lr"`` where the learning rate was swept (:func:`tuned`); None without it.
        family: ``interaction``, or ``additive``: a budget gains as much on every base.

    Returns:
        A law with these inputs after those of the base. It is named as it is made,
        ``continual[C;D_cpt]``, and ``jl.laws.get`` finds it by that name.

    Raises:
        UsageError: another base, or an input of a name that is taken.

    Source:
        Zheng 2024, eq. 4 (tokens and the size of their base); Que 2024, eq. 6 (ratio).

    Example:
        >>> law = jl.laws.continual(("N", "D"))
        >>> law.name, law.input_names, law.parameter_names[5:]
        ('continual[N,D;D_cpt]', ('N', 'D', 'D_cpt'), ('g_cpt', 'beta_cpt', 'delta'))
    """
    names = (base,) if isinstance(base, str) else tuple(base)
    if names not in BASES:
        raise UsageError(f"base is 'C', 'N' or ('N', 'D'), not {base!r}")
    if lr not in (None, "lr"):
        raise UsageError(f"lr is 'lr' or None, not {lr!r}: columns={{'lr': {lr!r}}} reads it")
    own = get(BASES[names])
    taken = {*own.input_names, *own.parameter_names, *_OWN, "lr"} & {tokens, ratio}
    if taken or tokens == ratio:
        raise UsageError(f"tokens={tokens!r}, ratio={ratio!r}: a name is taken; rename the column")
    return _make_law(names, tokens, ratio, lr, family)


@cache
def _make_law(
    names: tuple[str, ...], tokens: str, ratio: str | None, lr: str | None, family: str
) -> Law:
    base, fades = get(BASES[names]), family == "interaction"

    def formula(*inputs, **params):
        """The base's law, moved by other budgets and ratios than 1 B tokens of the corpus alone."""
        own = dict(zip(names, inputs, strict=False))
        gain = params["E"] * params["g_cpt"]
        for name, value in own.items() if fades else ():
            gain *= power(value / REFERENCE[name], -params["delta"])
        moved = power(inputs[len(own)] / BUDGET, -params["beta_cpt"]) - 1.0
        if ratio is None:
            moved *= gain
        else:
            r, eps, mu = inputs[-1], params["eps_cpt"], params["mu_cpt"]
            moved *= gain * power(r, params["eta_cpt"])
            moved += params["F_cpt"] * (power(r + eps, -mu) - power(1.0 + eps, -mu))
        return base.function(**own, **{k: params[k] for k in base.parameter_names}) + moved

    left_out = ({"delta"} if not fades else set()) | ({*list(_OWN)[3:]} if ratio is None else set())
    own = _OWN | {"delta": dataclasses.replace(_DELTA[",".join(names)], doc="fall of the gain")}
    specs: list[Parameter] = [
        dataclasses.replace(spec, name=name) for name, spec in own.items() if name not in left_out
    ]
    added = [Input(tokens, "continual tokens", 1.0, "positive", (1e4, 1e17), counts="tokens")]
    added += [dataclasses.replace(INPUTS["r"], name=ratio)] if ratio else []
    kind = "continual" if fades else "continual-additive"
    inside = ";".join([",".join(names), *(spec.name for spec in added)])
    made_of = (names if len(names) > 1 else names[0], tokens, ratio, lr, family)
    moved = f"E·g·[({tokens}/10⁹)^−β − 1]" + "·m^−δ" * fades
    law = derived(
        base, f"{kind}[{inside}]", formula, continual, made_of,
        inputs=(*base.inputs, *added), parameters=(*base.parameters, *specs),
        formula=f"{base.formula} + {moved}" + f", and of {ratio}" * bool(ratio),
        source="jaxlaw, after Zheng 2024, eq. 4, and Que 2024, eq. 6",
        continual_tokens=tokens,
    )  # fmt: skip
    if lr:
        swept = tuned(law, lr)
        law = derived(
            swept, f"{kind}[{inside};lr]", swept.function.formula, continual, made_of,
            chart=swept.chart,
        )  # fmt: skip
    # The prior knows the base's law by its name; whatever is added is open.
    known = base.scale_free
    opened = tuple(name for name in law.parameter_names if name not in base.parameter_names)
    known = known and known._replace(parts=(base.name,), open=opened)
    return dataclasses.replace(law, scale_free=known)
