"""Laws of the final loss in model size, tokens and compute."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw.laws._base import Chart, PowerLawTerms, ScaleFree, law, mirrored, power
from jaxlaw.laws._parameters import Input, exponent, positive, real

#: The terms of most laws.
FLOOR = positive(0.3, 3.0, unit="nats", doc="irreducible loss")
OF_SIZE = positive(0.01, 10.0, centre={"N": "alpha"}, unit="nats·N^α")
OF_DATA = positive(0.01, 10.0, centre={"D": "beta"}, unit="nats·D^β")
EXPONENT = exponent()

# Hoffmann et al. start E, A, B from e, a, b on these grids, and the exponents as they are.
_E_GRID = tuple(math.exp(e) for e in (-1.0, -0.5, 0.0, 0.5, 1.0))
_COEFFICIENT_GRID = tuple(math.exp(a) for a in (0, 5, 10, 15, 20, 25))
_EXPONENT_GRID = (0.0, 0.5, 1.0, 1.5, 2.0)


@law(
    formula="[ (Nc/N)^(αN/αD) + Dc/D ]^αD",
    source="Kaplan 2020, eq. 1.5; Que 2024, App. D",
    with_floor="kaplan-e",
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


def sum_of_terms(params: Any, inputs: Any) -> PowerLawTerms:
    """A/N^α + B/D^β, or B/(D^β·N^γ), of a law that names them so."""
    names = ("A", "B", "alpha", "beta")
    return PowerLawTerms(*(params[name] for name in names), params.get("gamma", 0.0))


# The point at which experiments are compared: about the middle of the public ones, in logs.
_REFERENCE = {"N": 1e8, "D": 2e9}
_REFERENCE_COMPUTE = {"C": 6.0 * _REFERENCE["N"] * _REFERENCE["D"]}
_TINY = 1e-12  # stands for a term that is 0, whose logarithm the coordinates hold
_WORDS = {
    "share": "log-odds of the floor's fraction of the loss at the reference point",
    "balance": "log of the ratio of the terms of size and data there",
    "alpha": "log of the exponent with which the size's term falls",
    "beta": "log of the exponent with which the data's term falls",
    "gamma": "log of the exponent with which the loss falls",
    "kappa": "log of the coupling of the two terms",
}


def _scale_free(reference, terms, coupled=False):
    """Coordinates of E + (Σ coefficient/input^exponent)^κ, κ = 1 unless it is a parameter.

    Args:
        reference: input → its value at the reference point.
        terms: coefficient → its input and its exponent; one or two.
        coupled: whether kappa is a parameter.
    """

    def of_params(params):
        kappa = params["kappa"] if coupled else 1.0
        log_floor = jnp.log(jnp.maximum(params["E"], _TINY))
        logs = [
            jnp.log(jnp.maximum(params[name] * power(reference[at], -params[falls]), 1e-300))
            for name, (at, falls) in terms.items()
        ]
        values = {"log_floor": log_floor, "share": log_floor - kappa * reduce(jnp.logaddexp, logs)}
        values |= {"balance": logs[0] - logs[1]} if len(logs) == 2 else {}
        values |= {falls: jnp.log(kappa * params[falls]) for _, falls in terms.values()}
        return values | ({"kappa": jnp.log(kappa)} if coupled else {})

    def to_params(target, values):
        xp = jnp if isinstance(values["share"], jax.Array) else np
        kappa = xp.exp(values["kappa"]) if coupled else 1.0
        floor, first = (
            1 / (1 + xp.exp(-xp.asarray(values.get(k, np.inf)))) for k in ("share", "balance")
        )
        whole = (target * (1 - floor)) ** (1 / kappa)
        params = {"E": target * floor} | ({"kappa": kappa} if coupled else {})
        for (name, (at, falls)), part in zip(terms.items(), (first, 1 - first), strict=False):
            params[falls] = xp.exp(values[falls]) / kappa
            params[name] = whole * part * reference[at] ** params[falls]
        return params

    falls = [name for _, name in terms.values()]
    names = ["share", *["balance"] * (len(terms) == 2), *falls, *["kappa"] * coupled]
    return ScaleFree(reference, {name: _WORDS[name] for name in names}, of_params, to_params)


_BOTH = {"A": ("N", "alpha"), "B": ("D", "beta")}


@law(
    formula="E + A/N^α + B/D^β",
    source="Hoffmann 2022, eq. 2 and App. D.2; Que 2024, eq. 3; Zheng 2024, eq. 1",
    power_law_terms=sum_of_terms,
    scale_free=_scale_free(_REFERENCE, _BOTH),
)
def chinchilla(
    N,
    D,
    *,
    E=replace(FLOOR, grid=_E_GRID),
    A=replace(OF_SIZE, grid=_COEFFICIENT_GRID),
    B=replace(OF_DATA, grid=_COEFFICIENT_GRID),
    alpha=exponent(grid=_EXPONENT_GRID),
    beta=exponent(grid=_EXPONENT_GRID),
):
    """Irreducible loss, a term of the size, a term of the data."""
    return E + A * power(N, -alpha) + B * power(D, -beta)


# As κ falls or rises, A, B, α and β go with it: what the runs see are the sizes of the two terms
# under κ at the centre, and the exponents κ·α and κ·β that the loss falls with.
def _coupled(values, context, sign):
    kappa = values["kappa"]
    if sign > 0:
        sizes = {name: power(values[name], 1.0 / kappa) for name in ("A", "B")}
        return sizes | {name: values[name] / kappa for name in ("alpha", "beta")}
    sizes = {name: power(values[name], kappa) for name in ("A", "B")}
    return sizes | {name: values[name] * kappa for name in ("alpha", "beta")}


@law(
    formula="E + (A/N^α + B/D^β)^κ",
    source="Videau 2026, arXiv 2608.07222 (κ = 1 is chinchilla)",
    power_law_terms=sum_of_terms,
    chart=mirrored(
        {"A": 1e-8, "B": 1e-8, "alpha": 1e-3, "beta": 1e-3},
        {"A": 1e4, "B": 1e4, "alpha": 5.0, "beta": 5.0},
        _coupled,
    ),
    scale_free=_scale_free(_REFERENCE, _BOTH, coupled=True),
)
def skaling(
    N,
    D,
    *,
    E=FLOOR,
    A=replace(OF_SIZE, low=1e-30, high=1e30, unit="nats^(1/κ)·N^α"),
    B=replace(OF_DATA, low=1e-30, high=1e30, unit="nats^(1/κ)·D^β"),
    alpha=exponent(high=100.0),
    beta=exponent(high=100.0),
    kappa=exponent(0.2, 2.0, low=0.05, high=20.0, doc="coupling of the terms of size and data"),
):
    """Size and data under one exponent: what more data give depends on the size."""
    return E + power(A * power(N, -alpha) + B * power(D, -beta), kappa)


# A and B are sizes of models and data at which a term is 1: what the runs see are the terms.
def _kaplan(values, context, sign):
    powers = {"A": values["alpha"], "B": values["beta"]}
    return {k: power(values[k], 1.0 / p if sign > 0 else p) for k, p in powers.items()}


@law(
    name="kaplan-e",
    formula="E + [ (A/N)^(α/β) + B/D ]^β",
    source="Brandfonbrener 2024, arXiv 2411.12925 (kaplan with a floor; form as in its code)",
    power_law_terms=lambda p, inputs: PowerLawTerms(
        p["A"] ** (p["alpha"] / p["beta"]), p["B"], p["alpha"] / p["beta"], 1.0
    ),
    chart=mirrored({"A": 1e-8, "B": 1e-8}, {"A": 1e4, "B": 1e4}, _kaplan),
)
def kaplan_e(
    N,
    D,
    *,
    E=FLOOR,
    A=positive(1e-2, 1e2, low=1e-20, high=1e40, centre={"N": 1}, unit="parameters·nats^(1/α)"),
    B=positive(1e-2, 1e2, low=1e-20, high=1e40, centre={"D": 1}, unit="tokens·nats^(1/β)"),
    alpha=EXPONENT,
    beta=EXPONENT,
):
    """Kaplan's law above an irreducible loss."""
    return E + power(power(A / N, alpha / beta) + B / D, beta)


def _centre_of_runs(inputs):
    """Logarithms of the geometric means of N and D."""
    return {f"log_{name}": jnp.mean(jnp.log(jnp.asarray(inputs[name]))) for name in ("N", "D")}


# In N and D the two terms are a/(6^η·N^2η) and b/(6^η·D^2η): their sizes at the centre.
def _overtraining(values, context, sign):
    return {
        name: values[name]
        * jnp.exp(sign * values["eta"] * (math.log(6.0) + 2 * context[f"log_{of}"]))
        for name, of in (("a", "N"), ("b", "D"))
    }


@law(
    formula="E + (a·M^η + b·M^−η)·C^−η, M = D/N, C = 6·N·D",
    source="Gadre 2024, arXiv 2403.08540 (form as in its code)",
    power_law_terms=lambda p, inputs: PowerLawTerms(
        p["a"] * 6.0 ** -p["eta"], p["b"] * 6.0 ** -p["eta"], 2 * p["eta"], 2 * p["eta"]
    ),
    chart=mirrored({"a": 1e-8, "b": 1e-8}, {"a": 1e6, "b": 1e6}, _overtraining),
    context=_centre_of_runs,
)
def overtraining(
    N,
    D,
    *,
    E=FLOOR,
    a=positive(0.1, 1e6, low=1e-8, high=1e30, unit="nats·FLOP^η"),
    b=positive(0.1, 1e6, low=1e-8, high=1e30, unit="nats·FLOP^η"),
    eta=exponent(0.02, 0.3),
):
    """Compute at a number of tokens a parameter, M: one exponent for size and data."""
    return E + power(6.0, -eta) * (a * power(N, -2 * eta) + b * power(D, -2 * eta))


# Each of the three parts is c·N^p + C, whose coefficients run off together as p nears 0: what the
# runs see are the values and the slopes in log N, at the centre of the runs, of the log floor, of
# the log of the data's term there, and of the log of its exponent.
def _farseer_to_natural(values, context):
    log_N, log_D = context["log_N"], context["log_D"]

    def part(value, slope, power):
        coefficient = slope / power * jnp.exp(-power * log_N)
        return coefficient, value - slope / power

    s, S = part(values["S"], values["s"], values["q"])
    A, E = part(values["E"], values["A"], values["a"])
    exponent = jnp.exp(values["E"])
    # The term's log is B·N^b + Q − exponent·log D, and the last falls with N as well.
    B, Q = part(
        values["Q"] + exponent * log_D, values["B"] + exponent * values["A"] * log_D, values["b"]
    )
    return {"s": s, "S": S, "A": A, "E": E, "B": B, "Q": Q}


def _farseer_from_natural(values, context):
    log_N, log_D = context["log_N"], context["log_D"]

    def part(coefficient, constant, power):
        size = coefficient * jnp.exp(power * log_N)
        return size + constant, size * power

    S, s = part(values["s"], values["S"], values["q"])
    E, A = part(values["A"], values["E"], values["a"])
    Q, B = part(values["B"], values["Q"], values["b"])
    exponent = jnp.exp(E)
    return {
        "s": s, "S": S, "A": A, "E": E,
        "B": B - exponent * A * log_D, "Q": Q - exponent * log_D,
    }  # fmt: skip


_FARSEER = Chart(
    low={"s": -2.0, "S": -20.0, "B": -20.0, "Q": -80.0, "A": -5.0, "E": -7.0},
    high={"s": 2.0, "S": 10.0, "B": 20.0, "Q": 30.0, "A": 5.0, "E": 2.0},
    to_natural=_farseer_to_natural,
    from_natural=_farseer_from_natural,
    limits={
        ("q", "low"): "q nears 0: the floor tends to a power of N; predictions stand, s, q and S "
        "mean nothing one by one",
        ("b", "high"): "b nears 0: the data's term tends to a power of N; predictions stand, B, b "
        "and Q mean nothing one by one",
        ("a", "low"): "a nears 0: the exponent of D tends to a power of N; predictions stand, A, a "
        "and E mean nothing one by one",
    },
)


@law(
    formula="e^(s·N^q+S) + e^(B·N^b+Q)·D^(−e^(A·N^a+E))",
    source="Farseer 2025, arXiv 2506.10972 (tokens counted one by one: D's unit is in its form)",
    chart=_FARSEER,
    context=_centre_of_runs,
)
def farseer(
    N,
    D,
    *,
    s=real(-0.1, -0.02),
    q=exponent(0.05, 0.15, low=0.01, high=1.0),
    S=real(-1.0, 2.0),
    B=real(50.0, 500.0),
    b=real(-0.3, -0.12, low=-1.0, high=-0.01),
    Q=real(-5.0, 1.0),
    A=real(-2.0, -0.8),
    a=exponent(0.03, 0.06, low=0.01, high=1.0),
    E=real(1.0, 3.5),
):
    """A floor, a size and an exponent of the data's term, each with the model's size."""
    exponent = jnp.exp(A * power(N, a) + E)
    return jnp.exp(s * power(N, q) + S) + jnp.exp(B * power(N, b) + Q - exponent * jnp.log(D))


@law(
    name="cpt-chinchilla",
    formula="E + A/N^α + B/(D^β·N^γ)",
    source="Zheng 2024, eq. 4 (B, β are their B', β')",
    from_base=("E", "A", "alpha"),
    power_law_terms=sum_of_terms,
)
def cpt_chinchilla(
    N,
    D,
    *,
    E=FLOOR,
    A=OF_SIZE,
    B=positive(0.01, 10.0, centre={"D": "beta", "N": "gamma"}, unit="nats·D^β·N^γ"),
    alpha=EXPONENT,
    beta=EXPONENT,
    gamma=real(-0.1, 0.5, low=-2.0, high=10.0),
):
    """Continual pre-training: what a larger base transfers shortens its way through data."""
    return E + A * power(N, -alpha) + B * power(D, -beta) * power(N, -gamma)


@law(
    name="loss-size",
    formula="E + A/N^α",
    source="Kaplan 2020, eq. 1.1, with a floor as in Henighan 2020, eq. 1.1; runs of equal tokens",
)
def loss_size(N, *, E=FLOOR, A=OF_SIZE, alpha=EXPONENT):
    """Size alone: all runs have seen the same tokens."""
    return E + A * power(N, -alpha)


# As in the code of its authors, D counts tokens and N_v the vocabulary times the width of the
# model. In theirs γ is 0, so that a larger vocabulary costs nothing but compute: such fits have
# A_v near 0 or α_v at its lower bound, and are too low on vocabularies that were not fitted.
@law(
    inputs={
        "N": Input("N", "parameters without those of the vocabulary", 1.0, "positive",
                   (1e3, 1e15), counts="parameters"),
        "N_v": Input("N_v", "parameters of the vocabulary: its size times the width of the model",
                     1.0, "positive", (1e2, 1e13), counts="parameters"),
    },
    formula="E + A/N^α + A_v/N_v^α_v + B·N_v^γ/D^β",
    source="Tao 2024, arXiv 2407.13623, approach 3 (its E is −E here; γ is 0 there)",
    target="unigram_normalized_loss",
    residuals="linear",
)  # fmt: skip
def vocabulary(
    N,
    N_v,
    D,
    *,
    E=real(-7.0, -3.0, low=-50.0, high=50.0, unit="nats", doc="irreducible loss"),
    A=OF_SIZE,
    A_v=positive(0.001, 10.0, centre={"N_v": "alpha_v"}, unit="nats·N_v^α_v"),
    B=positive(0.01, 10.0, centre={"D": "beta", "N_v": "-gamma"}, unit="nats·D^β/N_v^γ"),
    alpha=EXPONENT,
    alpha_v=EXPONENT,
    beta=EXPONENT,
    gamma=real(0.0, 0.5, low=-2.0, high=5.0, doc="power with which a vocabulary needs more data"),
):
    """A term of the vocabulary, which needs data to be learned; may be negative."""
    of_data = B * power(N_v, gamma) * power(D, -beta)
    return E + A * power(N, -alpha) + A_v * power(N_v, -alpha_v) + of_data


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
    scale_free=_scale_free(_REFERENCE_COMPUTE, {"A": ("C", "gamma")}),
)
def loss_compute_e(
    C,
    *,
    E=FLOOR,
    A=positive(0.01, 10.0, centre={"C": "gamma"}, unit="nats·FLOP^γ"),
    gamma=exponent(0.01, 0.5),
):
    """The frontier of loss over compute, down to an irreducible loss."""
    return E + A * power(C, -gamma)
