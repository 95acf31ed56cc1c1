"""Laws of the final loss in model size, tokens and compute."""

from __future__ import annotations

import math

from jaxlaw.laws._base import PowerLawTerms, law, power
from jaxlaw.laws._parameters import exponent, positive, real

# Hoffmann et al. start E, A, B from e, a, b on these grids, and the exponents as they are.
_E_GRID = tuple(math.exp(e) for e in (-1.0, -0.5, 0.0, 0.5, 1.0))
_COEFFICIENT_GRID = tuple(math.exp(a) for a in (0, 5, 10, 15, 20, 25))
_EXPONENT_GRID = (0.0, 0.5, 1.0, 1.5, 2.0)


@law(
    formula="[ (Nc/N)^(αN/αD) + Dc/D ]^αD",
    source="Kaplan 2020, eq. 1.5; Que 2024, App. D",
    with_floor="chinchilla",
)
def kaplan(
    N,
    D,
    *,
    Nc=positive(1e-2, 1e6, low=1e-20, high=1e40, centre={"N": 1}, unit="parameters"),
    Dc=positive(1e-2, 1e6, low=1e-20, high=1e40, centre={"D": 1}, unit="tokens"),
    alpha_N=exponent(0.05, 1.0),
    alpha_D=exponent(0.05, 1.0),
):
    """Limited by size at one end and by data at the other."""
    return power(power(Nc / N, alpha_N / alpha_D) + Dc / D, alpha_D)


def _terms(params, inputs):
    names = ("A", "B", "alpha", "beta")
    return PowerLawTerms(*(params[name] for name in names), params.get("gamma", 0.0))


@law(
    formula="E + A/N^α + B/D^β",
    source="Hoffmann 2022, eq. 2 and App. D.2; Que 2024, eq. 3; Zheng 2024, eq. 1",
    power_law_terms=_terms,
)
def chinchilla(
    N,
    D,
    *,
    E=positive(0.3, 3.0, grid=_E_GRID, unit="nats", doc="loss of an ideal model"),
    A=positive(0.01, 10.0, grid=_COEFFICIENT_GRID, centre={"N": "alpha"}, unit="nats·N^α"),
    B=positive(0.01, 10.0, grid=_COEFFICIENT_GRID, centre={"D": "beta"}, unit="nats·D^β"),
    alpha=exponent(grid=_EXPONENT_GRID),
    beta=exponent(grid=_EXPONENT_GRID),
):
    """Irreducible loss, a term of the size, a term of the data."""
    return E + A * power(N, -alpha) + B * power(D, -beta)


@law(
    name="cpt-chinchilla",
    formula="E + A/N^α + B/(D^β·N^γ)",
    source="Zheng 2024, eq. 4 (B, β are their B', β')",
    from_base=("E", "A", "alpha"),
    power_law_terms=_terms,
)
def cpt_chinchilla(
    N,
    D,
    *,
    E=positive(0.3, 3.0, unit="nats"),
    A=positive(0.01, 10.0, centre={"N": "alpha"}, unit="nats·N^α"),
    B=positive(0.01, 10.0, centre={"D": "beta", "N": "gamma"}, unit="nats·D^β·N^γ"),
    alpha=exponent(),
    beta=exponent(),
    gamma=real(-0.1, 0.5, low=-2.0, high=10.0),
):
    """Continual pre-training: what a larger base transfers shortens its way through data."""
    return E + A * power(N, -alpha) + B * power(D, -beta) * power(N, -gamma)


@law(
    name="loss-compute",
    formula="a·C^−b",
    source="Zheng 2024, §4.2 (eq. 3 without its E′, on the lowest loss at each compute level); "
    "Kaplan 2020, eq. 1.3",
    with_floor="loss-compute-e",
)
def loss_compute(
    C,
    *,
    a=positive(0.1, 10.0, centre={"C": "b"}, unit="nats·FLOP^b"),
    b=exponent(0.005, 0.5, low=1e-5),
):
    """The frontier of loss over compute, down to nothing."""
    return a * power(C, -b)


@law(
    name="loss-compute-e",
    formula="E + A/C^γ",
    source="Zheng 2024, eq. 3 (E, A are its E′, A′; on the lowest loss at each compute level)",
)
def loss_compute_e(
    C,
    *,
    E=positive(0.3, 3.0, unit="nats", doc="loss of an ideal model"),
    A=positive(0.01, 10.0, centre={"C": "gamma"}, unit="nats·FLOP^γ"),
    gamma=exponent(0.01, 0.5),
):
    """The frontier of loss over compute, down to an irreducible loss."""
    return E + A * power(C, -gamma)
