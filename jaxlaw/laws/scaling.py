"""Laws of the final loss in model size, tokens and compute."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw.laws._base import Chart, PowerLawTerms, ScaleFree, law, power
from jaxlaw.laws._parameters import Input, exponent, positive, real

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


def _terms(params, inputs):
    names = ("A", "B", "alpha", "beta")
    return PowerLawTerms(*(params[name] for name in names), params.get("gamma", 0.0))


# The point at which experiments are compared: about the middle of the public ones, in logs.
_REFERENCE = {"N": 1e8, "D": 2e9}
_TINY = 1e-12  # stands for a term that is 0, whose logarithm the coordinates hold
_SHARE = "log-odds of the floor's share of the loss at the reference point"


def _coupled_scale_free(params):
    kappa = params.get("kappa", 1.0)
    size = params["A"] * power(_REFERENCE["N"], -params["alpha"])
    data = params["B"] * power(_REFERENCE["D"], -params["beta"])
    log_floor, size, data = (
        jnp.log(jnp.maximum(term, least))
        for term, least in ((params["E"], _TINY), (size, 1e-300), (data, 1e-300))
    )
    values = {
        "log_floor": log_floor,
        "share": log_floor - kappa * jnp.logaddexp(size, data),
        "balance": size - data,
        "alpha": jnp.log(kappa * params["alpha"]),
        "beta": jnp.log(kappa * params["beta"]),
    }
    return values | ({"kappa": jnp.log(kappa)} if "kappa" in params else {})


def _coupled_from_scale_free(target, values):
    xp = jnp if isinstance(values["alpha"], jax.Array) else np
    kappa = xp.exp(values.get("kappa", 0.0))
    alpha, beta = xp.exp(values["alpha"]) / kappa, xp.exp(values["beta"]) / kappa
    floor, of_size = (1 / (1 + xp.exp(-xp.asarray(values[k]))) for k in ("share", "balance"))
    terms = (target * (1 - floor)) ** (1 / kappa)
    params = {
        "E": target * floor,
        "A": terms * of_size * _REFERENCE["N"] ** alpha,
        "B": terms * (1 - of_size) * _REFERENCE["D"] ** beta,
        "alpha": alpha,
        "beta": beta,
    }
    return params | ({"kappa": kappa} if "kappa" in values else {})


_COUPLED_WORDS = {
    "share": _SHARE,
    "balance": "log of the ratio of the terms of size and data there",
    "alpha": "log of the exponent with which the size's term falls",
    "beta": "log of the exponent with which the data's term falls",
    "kappa": "log of the coupling of the two terms",
}


@law(
    formula="E + A/N^α + B/D^β",
    source="Hoffmann 2022, eq. 2 and App. D.2; Que 2024, eq. 3; Zheng 2024, eq. 1",
    power_law_terms=_terms,
    scale_free=ScaleFree(
        _REFERENCE,
        {name: words for name, words in _COUPLED_WORDS.items() if name != "kappa"},
        _coupled_scale_free,
        _coupled_from_scale_free,
    ),
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


# As κ falls or rises, A, B, α and β go with it: what the runs see are the sizes of the two terms
# under κ at the centre, and the exponents κ·α and κ·β that the loss falls with.
def _coupled_to_natural(values, context):
    kappa = values["kappa"]
    return {
        "A": power(values["A"], 1.0 / kappa),
        "B": power(values["B"], 1.0 / kappa),
        "alpha": values["alpha"] / kappa,
        "beta": values["beta"] / kappa,
    }


def _coupled_from_natural(values, context):
    kappa = values["kappa"]
    return {
        "A": power(values["A"], kappa),
        "B": power(values["B"], kappa),
        "alpha": values["alpha"] * kappa,
        "beta": values["beta"] * kappa,
    }


_COUPLED = Chart(
    low={"A": 1e-8, "B": 1e-8, "alpha": 1e-3, "beta": 1e-3},
    high={"A": 1e4, "B": 1e4, "alpha": 5.0, "beta": 5.0},
    to_natural=_coupled_to_natural,
    from_natural=_coupled_from_natural,
)


@law(
    formula="E + (A/N^α + B/D^β)^κ",
    source="Videau 2026, arXiv 2608.07222 (κ = 1 is chinchilla)",
    power_law_terms=_terms,
    chart=_COUPLED,
    scale_free=ScaleFree(_REFERENCE, _COUPLED_WORDS, _coupled_scale_free, _coupled_from_scale_free),
)
def skaling(
    N,
    D,
    *,
    E=positive(0.3, 3.0, unit="nats", doc="loss of an ideal model"),
    A=positive(0.01, 10.0, low=1e-30, high=1e30, centre={"N": "alpha"}, unit="nats^(1/κ)·N^α"),
    B=positive(0.01, 10.0, low=1e-30, high=1e30, centre={"D": "beta"}, unit="nats^(1/κ)·D^β"),
    alpha=exponent(high=100.0),
    beta=exponent(high=100.0),
    kappa=exponent(0.2, 2.0, low=0.05, high=20.0, doc="coupling of the terms of size and data"),
):
    """Size and data under one exponent: what more data give depends on the size."""
    return E + power(A * power(N, -alpha) + B * power(D, -beta), kappa)


def _kaplan_terms(params, inputs):
    ratio = params["alpha"] / params["beta"]
    return PowerLawTerms(params["A"] ** ratio, params["B"], ratio, 1.0)


# A and B are sizes of models and data at which a term is 1: what the runs see are the terms.
_KAPLAN_TERMS = Chart(
    low={"A": 1e-8, "B": 1e-8},
    high={"A": 1e4, "B": 1e4},
    to_natural=lambda values, context: {
        "A": power(values["A"], 1.0 / values["alpha"]),
        "B": power(values["B"], 1.0 / values["beta"]),
    },
    from_natural=lambda values, context: {
        "A": power(values["A"], values["alpha"]),
        "B": power(values["B"], values["beta"]),
    },
)


@law(
    name="kaplan-e",
    formula="E + [ (A/N)^(α/β) + B/D ]^β",
    source="Brandfonbrener 2024, arXiv 2411.12925 (kaplan with a floor; form as in its code)",
    power_law_terms=_kaplan_terms,
    chart=_KAPLAN_TERMS,
)
def kaplan_e(
    N,
    D,
    *,
    E=positive(0.3, 3.0, unit="nats", doc="loss of an ideal model"),
    A=positive(1e-2, 1e2, low=1e-20, high=1e40, centre={"N": 1}, unit="parameters·nats^(1/α)"),
    B=positive(1e-2, 1e2, low=1e-20, high=1e40, centre={"D": 1}, unit="tokens·nats^(1/β)"),
    alpha=exponent(),
    beta=exponent(),
):
    """Kaplan's law above an irreducible loss."""
    return E + power(power(A / N, alpha / beta) + B / D, beta)


def _overtraining_terms(params, inputs):
    eta = params["eta"]
    a, b = (params[name] * 6.0**-eta for name in ("a", "b"))
    return PowerLawTerms(a, b, 2 * eta, 2 * eta)


def _centre_of_runs(inputs):
    """Logarithms of the geometric means of N and D."""
    return {f"log_{name}": jnp.mean(jnp.log(jnp.asarray(inputs[name]))) for name in ("N", "D")}


# In N and D the two terms are a/(6^η·N^2η) and b/(6^η·D^2η): their sizes at the centre.
_OVERTRAINING_TERMS = Chart(
    low={"a": 1e-8, "b": 1e-8},
    high={"a": 1e6, "b": 1e6},
    to_natural=lambda values, context: {
        "a": values["a"] * jnp.exp(values["eta"] * (math.log(6.0) + 2 * context["log_N"])),
        "b": values["b"] * jnp.exp(values["eta"] * (math.log(6.0) + 2 * context["log_D"])),
    },
    from_natural=lambda values, context: {
        "a": values["a"] * jnp.exp(-values["eta"] * (math.log(6.0) + 2 * context["log_N"])),
        "b": values["b"] * jnp.exp(-values["eta"] * (math.log(6.0) + 2 * context["log_D"])),
    },
)


@law(
    formula="E + (a·M^η + b·M^−η)·C^−η, M = D/N, C = 6·N·D",
    source="Gadre 2024, arXiv 2403.08540 (form as in its code)",
    power_law_terms=_overtraining_terms,
    chart=_OVERTRAINING_TERMS,
    context=_centre_of_runs,
)
def overtraining(
    N,
    D,
    *,
    E=positive(0.3, 3.0, unit="nats", doc="loss of an ideal model"),
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
        values["Q"] + exponent * log_D,
        values["B"] + exponent * values["A"] * log_D,
        values["b"],
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
    name="loss-size",
    formula="E + A/N^α",
    source="Kaplan 2020, eq. 1.1, with a floor as in Henighan 2020, eq. 1.1; runs of equal tokens",
)
def loss_size(
    N,
    *,
    E=positive(0.3, 3.0, unit="nats", doc="loss of an ideal model on these tokens"),
    A=positive(0.01, 10.0, centre={"N": "alpha"}, unit="nats·N^α"),
    alpha=exponent(),
):
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
    E=real(-7.0, -3.0, low=-50.0, high=50.0, unit="nats", doc="loss of an ideal model"),
    A=positive(0.01, 10.0, centre={"N": "alpha"}, unit="nats·N^α"),
    A_v=positive(0.001, 10.0, centre={"N_v": "alpha_v"}, unit="nats·N_v^α_v"),
    B=positive(0.01, 10.0, centre={"D": "beta", "N_v": "-gamma"}, unit="nats·D^β/N_v^γ"),
    alpha=exponent(),
    alpha_v=exponent(),
    beta=exponent(),
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


_REFERENCE_COMPUTE = {"C": 6.0 * _REFERENCE["N"] * _REFERENCE["D"]}


def _frontier_scale_free(params):
    term = params["A"] * power(_REFERENCE_COMPUTE["C"], -params["gamma"])
    log_floor = jnp.log(jnp.maximum(params["E"], _TINY))
    return {
        "log_floor": log_floor,
        "share": log_floor - jnp.log(jnp.maximum(term, 1e-300)),
        "gamma": jnp.log(params["gamma"]),
    }


def _frontier_from_scale_free(target, values):
    xp = jnp if isinstance(values["gamma"], jax.Array) else np
    floor, gamma = 1 / (1 + xp.exp(-xp.asarray(values["share"]))), xp.exp(values["gamma"])
    term = target * (1 - floor) * _REFERENCE_COMPUTE["C"] ** gamma
    return {"E": target * floor, "A": term, "gamma": gamma}


@law(
    name="loss-compute-e",
    formula="E + A/C^γ",
    source="Zheng 2024, eq. 3 (E, A are its E′, A′; on the lowest loss at each compute level)",
    scale_free=ScaleFree(
        _REFERENCE_COMPUTE,
        {"share": _SHARE, "gamma": "log of the exponent with which the loss falls"},
        _frontier_scale_free,
        _frontier_from_scale_free,
    ),
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
