"""Laws of a downstream metric: in pretraining tokens (Isik 2024), in fine-tuning samples (Lin)."""

from __future__ import annotations

import jax.numpy as jnp

from jaxlaw.laws.base import Chart, law, power
from jaxlaw.laws.specs import Input, exponent, positive, real


@law(
    name="downstream-ce",
    formula="E + A/Dp^α",
    source="Isik 2024, eq. 2",
    target="cross-entropy",
    linear=("E", "A"),
)
def downstream_ce(
    Dp,
    *,
    E=positive(0.1, 5.0, unit="nats"),
    A=positive(0.01, 10.0, centre={"Dp": "alpha"}, unit="nats·Dp^α"),
    alpha=exponent(),
):
    """Cross-entropy after finetuning."""
    return E + A * power(Dp, -alpha)


@law(
    name="downstream-bleu",
    formula="( log(A·Dp^α) )^β",
    source="Isik 2024, eq. 1 (log A is the parameter: A itself underflows)",
    target="BLEU",
    delta=0.1,
)
def downstream_bleu(
    Dp,
    *,
    log_A=real(0.1, 100.0, low=1e-6, high=1e9, centre={"Dp": "-alpha"}),
    alpha=positive(0.01, 100.0, low=1e-6, high=1e9),
    beta=exponent(0.1, 2.0, low=1e-4),
):
    """BLEU after finetuning; zero where log(A·Dp^α) is not positive."""
    return power(jnp.maximum(log_A + alpha * jnp.log(Dp), 0.0), beta)


# Data begin at no sample at all, so that there is no geometric mean to centre on: with s that of
# the others, solvers move B/s^β and D_l/s^β.
def _in_units_of_s(values, context, sign):
    unit = power(context["s"], sign * values["beta"])
    return {name: values[name] * unit for name in ("B", "D_l")}


def _samples(inputs):
    """Geometric mean of the sample counts above 0."""
    Df = jnp.asarray(inputs["Df"])
    logs = jnp.where(Df > 0, jnp.log(jnp.where(Df > 0, Df, 1.0)), 0.0)
    return {"s": jnp.exp(jnp.sum(logs) / jnp.maximum(jnp.sum(Df > 0), 1))}


@law(
    name="rectified",
    inputs={"Df": Input("Df", "fine-tuning samples", domain="nonnegative")},
    formula="B/(D_l + Df^β) + E",
    source="Lin 2024, rectified scaling law",
    linear=("B", "E"),
    chart=Chart(
        {"B": 1e-8, "D_l": 1e-8},
        {"B": 1e8, "D_l": 1e8},
        lambda values, context: _in_units_of_s(values, context, 1),
        lambda values, context: _in_units_of_s(values, context, -1),
    ),
    context=_samples,
)
def rectified(
    Df,
    *,
    B=positive(0.01, 10.0, high=1e30, unit="nats·Df^β"),
    D_l=positive(0.01, 10.0, high=1e30, unit="Df^β", doc="what pretraining is worth in data"),
    E=positive(0.1, 5.0, unit="nats"),
    beta=exponent(),
):
    """Loss after fine-tuning: flat until the samples outweigh what was learned before."""
    return B / (D_l + power(Df, beta)) + E
