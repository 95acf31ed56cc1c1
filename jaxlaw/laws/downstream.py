"""Laws of a downstream metric in the pretraining tokens Dp (Isik 2024)."""

from __future__ import annotations

import jax.numpy as jnp

from jaxlaw.laws.base import exponent, law, positive, power, real


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
