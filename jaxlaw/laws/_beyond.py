"""A law with its misfit beyond the runs: what all of its predictions err by together there.

No law holds exactly. Beyond the largest run what it errs by is taken as a plane in the logs of
size, tokens or compute, whose slopes are unknown: draws of a posterior have draws of them. So
predictions, plans and scores follow from the draws alone: the level of a forecast moves by the
slopes, and the best size moves with their difference.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import jax.numpy as jnp

from jaxlaw.laws._base import Derived, Law, derived, get
from jaxlaw.laws._parameters import positive, real

#: Inputs along which runs grow, those first that say it best.
_GROWING = (("N", "D"), ("C",), ("N",), ("D",), ("S1_cpt",), ("S1",))


def growing_inputs(law: Law) -> tuple[str, ...]:
    """The inputs of a law along which runs grow, and misfits with them; none of a ratio alone."""
    return next((names for names in _GROWING if {*names} <= {*law.input_names}), ())


def repeats(law: Law) -> bool:
    """Whether a law is of unique tokens, which runs go over in epochs."""
    return {"D", "U"} <= {*law.input_names}


def slope_of(name: str) -> str:
    """The parameter that is the misfit's slope along an input."""
    return f"slope_{name}"


def top_of(name: str) -> str:
    """The parameter that is an input's value at the largest run."""
    return f"top_{name}"


def end_of(name: str) -> str:
    """The parameter that is an input's largest value in any run."""
    return f"end_{name}"


def beyond(law: str | Law) -> Law:
    """The law f(x)·exp(Σ slope_k·(g·d_k + (1 − g)·e_k)) over the inputs k that runs grow along.

    d_k = log(x_k/top_k), with top the largest run, and g = min(max(Σ d_k, 0), 1): from one e-fold
    of compute beyond the runs on the misfit is a plane. e_k = max(log(x_k/end_k), 0), with end_k
    the largest value of the input in any run: a small model that is trained for longer than any
    was is beyond them, too. Within the runs the law is itself. A law of unique tokens U misses
    repetition as well: by slope_U·max(log((D/U)/end_U), 0), with end_U the most epochs of any run;
    one of continual tokens likewise, along these.

    Args:
        law: law or its name.

    Returns:
        A law with the inputs of its base, and ``slope_k``, ``top_k`` and ``end_k`` of each growing
        input after its parameters; of one of unique tokens ``slope_U`` and ``end_U``, too. It is
        named as it is made, ``beyond(skaling)``. The same object for the same law; a law without
        any such input is returned as it is.

    Example:
        >>> law = jl.laws.beyond("chinchilla")
        >>> law.parameter_names[5:]
        ('slope_N', 'slope_D', 'top_N', 'top_D', 'end_N', 'end_D')
    """
    base = get(law)
    return _make_law(base) if growing_inputs(base) else base


def without_misfit(law: Law) -> Law:
    """The law that :func:`beyond` was given; any other law as it is."""
    of_misfit = isinstance(law.function, Derived) and law.function.maker is beyond
    return law.function.made_of[0] if of_misfit else law


@cache
def _make_law(base: Law) -> Law:
    def formula(*inputs, **params):
        """The base law at each row, moved by the plane."""
        own = {name: params[name] for name in base.parameter_names}
        given = dict(zip(base.input_names, inputs, strict=True))
        logs = {name: jnp.log(given[name]) for name in names}
        away = {name: logs[name] - jnp.log(params[top_of(name)]) for name in names}
        ends = {name: jnp.maximum(logs[name] - jnp.log(params[end_of(name)]), 0) for name in names}
        gate = jnp.clip(sum(away.values()), 0.0, 1.0)
        misfit = sum(
            params[slope_of(name)] * (gate * away[name] + (1 - gate) * ends[name]) for name in names
        )
        if repeats(base):
            epochs = jnp.log(given["D"] / given["U"]) - jnp.log(params[end_of("U")])
            misfit += params[slope_of("U")] * jnp.maximum(epochs, 0)
        if tokens := base.continual_tokens:
            more = jnp.log(given[tokens]) - jnp.log(params[end_of(tokens)])
            misfit += params[slope_of(tokens)] * jnp.maximum(more, 0)
        return base.function(*inputs, **own) * jnp.exp(misfit)

    specs = base.specs
    plain, size, names = real(-0.01, 0.01), positive(1.0, 10.0), growing_inputs(base)
    words = {name: specs[name].doc for name in names}
    every = words | {"U": "epochs"} if repeats(base) else words
    every = every | {name: specs[name].doc for name in [base.continual_tokens] if name}
    slopes = [
        replace(plain, name=slope_of(name), doc=f"misfit per e-fold of {doc}")
        for name, doc in every.items()
    ]
    places = [
        replace(size, name=of(name), low=1e-30, high=1e30, doc=f"{doc} {where}")
        for of, docs, where in ((top_of, words, "of the largest run"), (end_of, every, "at most"))
        for name, doc in docs.items()
    ]
    return derived(
        base,
        f"beyond({base.name})",
        formula,
        beyond,
        (base,),
        parameters=(*base.parameters, *slopes, *places),
        formula=f"({base.formula})·exp(misfit)",
    )
