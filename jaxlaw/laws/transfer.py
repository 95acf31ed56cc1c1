"""What the laws of whole loss curves share: their terms, and the chart they are solved in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from jaxlaw.laws._base import Array, Chart, mirrored, power


def trained(S1: Any, L0: Any, A: Any, alpha: Any) -> Array:
    """The hidden pre-training curve without annealing, L0 + A·S1^−α (Wang 2025, eq. 2)."""
    return L0 + A * power(S1, -alpha)


def shift(S1_cpt: Any, B: Any, E: Any, beta: Any) -> Array:
    """B·(1 − (1 + E·S1_cpt)^−β), exact where E·S1_cpt is small (Wang 2025, eq. 3)."""
    return -B * jnp.expm1(-beta * jnp.log1p(E * S1_cpt))


def exponential_shift(S1_cpt: Any, B: Any, E: Any) -> Array:
    """B·(1 − e^(−E·S1_cpt)), what :func:`shift` tends to as β grows and E falls."""
    return -B * jnp.expm1(-E * S1_cpt)


# What the solvers move. With s the mean S1 of the runs and s0 their mean S1_cpt after the
# start, A stands for its term at s, and B for the shift at s0 on the new corpus alone: what the
# data see, where B itself runs off as β goes to 0 (the shift becomes a logarithm) or a2 does
# (linear in the mixture ratio). As β grows while E falls the shift tends to an exponential;
# straight along that valley run E·s0 and β·E·s0/(1 + E·s0), the slope of log(1 − shift/B) at s0.
def context(inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Mean S1 and mean S1_cpt."""
    S1_cpt = jnp.asarray(inputs["S1_cpt"])
    s0 = jnp.sum(S1_cpt) / jnp.maximum(jnp.sum(S1_cpt > 0), 1)
    s = jnp.mean(S1_cpt + jnp.asarray(inputs.get("S1_pt", 0.0)))
    return {"s": s, "s0": jnp.where(s0 > 0, s0, 1.0)}


def chart(
    share: Callable[[Any], Any] | None = None,
    shifts: tuple[str, ...] = ("",),
    base_known: bool = True,
    hidden: bool = True,
) -> Chart:
    """The chart of a law.

    Args:
        mixture ratio: dependence of its shift on a2 where the new corpus is alone, if any.
        shifts: endings of the names of the parameters of its shifts.
        base_known: whether S1_pt is an input, rather than a parameter.
        hidden: whether the law has a hidden pre-training curve beside its shifts.
    """

    def move(values, context, sign):
        moved = {}
        if hidden and base_known:
            moved = {"A": values["A"] * power(context["s"], sign * values["alpha"])}
        elif hidden:
            moved = (_base_to_natural if sign > 0 else _base_from_natural)(values, context)
        move_shift = _shift_to_natural if sign > 0 else _shift_from_natural
        for end in shifts:
            moved |= move_shift(values, end, share, context["s0"])
        return moved

    low, high = ({"A": 0.0}, {"A": 1e8}) if hidden else ({}, {})
    if not base_known:
        low, high = low | {"L0": -1e8, "S1_pt": 1e-4}, high | {"L0": 1e8, "S1_pt": 1e4}
    for end in shifts:
        low |= {"B" + end: -1e8, "E" + end: 1e-6, "beta" + end: 1e-3}
        high |= {"B" + end: 1e8, "E" + end: 1e8, "beta" + end: 50.0}
    return mirrored(low, high, move)


# Continual curves of one base see the loss they start from, how far the hidden curve falls by
# s0, and hardly more: L0, A and S1_pt stand for these two and for α·s0/S1_pt.
def _base_to_natural(values, context):
    S1_pt = values["alpha"] * context["s0"] / values["S1_pt"]
    at_start = power(S1_pt, -values["alpha"])
    A = values["A"] / (at_start * shift(context["s0"], 1.0, 1 / S1_pt, values["alpha"]))
    return {"L0": values["L0"] - A * at_start, "A": A, "S1_pt": S1_pt}


def _base_from_natural(values, context):
    alpha, S1_pt, s0 = values["alpha"], values["S1_pt"], context["s0"]
    at_start = values["A"] * power(S1_pt, -alpha)
    fall = at_start * shift(s0, 1.0, 1 / S1_pt, alpha)
    return {"L0": values["L0"] + at_start, "A": fall, "S1_pt": alpha * s0 / S1_pt}


def _shift_to_natural(values, end, share, s0):
    E, beta = "E" + end, "beta" + end
    natural = {E: values[E] / s0}
    if beta in values:
        natural[beta] = values[beta] * (1 + values[E]) / values[E]
    if share is not None:
        natural["a2"] = _away_from_zero(values["a2"])
    return natural | {"B" + end: values["B" + end] / _whole(values | natural, end, share, s0)}


def _shift_from_natural(values, end, share, s0):
    E, beta = "E" + end, "beta" + end
    if share is not None:
        values = values | {"a2": _away_from_zero(values["a2"])}
    speed = values[E] * s0
    moved = {E: speed, "B" + end: values["B" + end] * _whole(values, end, share, s0)}
    if beta in values:
        moved[beta] = values[beta] * speed / (1 + speed)
    return moved


def _whole(values, end, share, s0):
    """The shift at s0 on the new corpus alone, for B = 1."""
    E, beta = values["E" + end], values.get("beta" + end)
    whole = exponential_shift(s0, 1.0, E) if beta is None else shift(s0, 1.0, E, beta)
    return whole if share is None else whole * share(values["a2"])


def _away_from_zero(a2):
    return jnp.where(jnp.abs(a2) < 1e-6, 1e-6, a2)
