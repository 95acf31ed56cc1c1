"""Each law: its formula against numpy, safe corners, transformations, the papers' grids."""

import functools
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.errors import UsageError
from jaxlaw.laws import _base as base, _parameters as specs
from jaxlaw.laws._linear import linear_parameters
from tests.conftest import jitted_for_once
from tests.fixtures.solver_problems import problem

# The formulas once more, for numpy, as the papers print them.
_CHINCHILLA = "E + A/N**alpha + B/D**beta"
_DCPT = "E + A/N**alpha + B*r**eta/D**beta + C/(r + eps)**gamma"
# Wang 2025, eq. 2, 1 and 3.
_HIDDEN = "L0 + A*(S1_pt + S1_cpt)**-alpha"
_ANNEALED = f"{_HIDDEN} - C1*S2_pt - C2*S2_cpt"
_SHIFT = "B*(1 - (1 + E*S1_cpt)**-beta)"
# Eq. 8; r is the share of the loss's own corpus.
_PT, _CPT = f"{_SHIFT}*(1 - exp(-a2*(1 - r)))", f"{_SHIFT}*(exp(a2*r) - 1)"
_REPLAYED = "C2*S2_cpt*exp(a1*r)"
# Hoffmann 2022, eq. 4, for the data alone; Clark 2022, eq. 11.
_G = "(alpha*A/(beta*B))**(1/(alpha + beta))"
_COUNT = "(1/(1/(experts - 1 + 1/(1/E_start - 1/E_max)) + 1/E_max))"
FORMULAS = {
    "kaplan": "((Nc/N)**(alpha_N/alpha_D) + Dc/D)**alpha_D",
    "chinchilla": _CHINCHILLA,
    "skaling": "E + (A/N**alpha + B/D**beta)**kappa",
    "kaplan-e": "E + ((A/N)**(alpha/beta) + B/D)**beta",
    "overtraining": "E + (a*(D/N)**eta + b*(D/N)**-eta)*(6*N*D)**-eta",
    "farseer": "exp(s*N**q + S) + exp(B*N**b + Q)*D**-exp(A*N**a + E)",
    "repetition": f"E + A/decayed(N, {_G}*({_G}*minimum(U, D))**(beta/alpha), R_N)**alpha"
    " + B/decayed(D, U, R_D)**beta",
    "repetition-geometric": "E + A/N**alpha + B/(U*(1 - (1 - delta)**(D/U))/delta)**beta",
    "cpt-chinchilla": "E + A/N**alpha + B/(D**beta*N**gamma)",
    "loss-compute": "a*C**-b",
    "optimum-compute": "a*C**b",
    "loss-compute-e": "E + A/C**gamma",
    "loss-size": "E + A/N**alpha",
    "best-lr": "lr_0*(N/1e9)**lr_N*(D/2e10)**lr_D",
    "best-batch": "batch_0*(N/1e9)**batch_N*(D/2e10)**batch_D",
    "vocabulary": "E + A/N**alpha + A_v/N_v**alpha_v + B*N_v**gamma/D**beta",
    "clark": f"10**(a*log10(N) + b*log10({_COUNT}) + c*log10(N)*log10({_COUNT}) + d)",
    "dcpt": _DCPT,
    "dcpt-l1": f"{_CHINCHILLA} + C/(r + eps)**gamma",
    "dcpt-l2": "E + A/N**alpha + (B/D**beta + C/(r + eps)**gamma)**eta",
    "dcpt-l4": "E + A/N**alpha + B*b**r/D**beta + C/c**r",
    "dcpt-l5": "E + A/N**alpha + B/(r*D + (1 - r)*sigma)**beta",
    "bimix": "(B/D**beta + C)/r**alpha",
    "dcpt-cross-k1": f"{_DCPT} + F/(1/k1)**mu",
    "dcpt-cross-k2": f"{_DCPT} + F/k2**mu",
    "dcpt-cross": f"{_DCPT} + F/(1/k1 + w2*k2)**mu",
    "dcpt-cross-k4": f"{_DCPT} + F/(1/k1 + w2*k2 + w3/k3)**mu",
    "annealing": "L0 + A/S1**alpha - C*S2",
    "multi-power": "L0 + A/S1**alpha - B*drop*(1 - (1 + C*S_k/eta_k**gamma)**-beta)",
    "cpt-curve": f"{_ANNEALED} + {_SHIFT}",
    "cpt-curve-exp": f"{_ANNEALED} + B*(1 - exp(-E*S1_cpt))",
    "cpt-curve-power": f"{_HIDDEN} - C1*sign(S2_pt)*abs(S2_pt)**zeta1"
    f" - C2*sign(S2_cpt)*abs(S2_cpt)**zeta2 + {_SHIFT}",
    "cpt-curve-n": f"{_HIDDEN} - C1*S2_pt*N**gamma1 - C2*S2_cpt*N**gamma2 + {_SHIFT} + F/N**gamma3",
    "cpt-curve-batch": f"{_ANNEALED} + (1 - b)*{_SHIFT} + b*B_b*(1 - (1 + E_b*S1_cpt)**-beta_b)",
    "shift": _SHIFT,
    "shift-exp": "-B*expm1(-E*S1_cpt)",
    "cpt-curve-replay-pt": f"{_HIDDEN} - C1*S2_pt - {_REPLAYED} + {_PT}",
    "cpt-curve-replay-cpt": f"{_HIDDEN} - C1*S2_pt - {_REPLAYED} + {_CPT}",
    "cpt-curve-unknown-base": f"{_HIDDEN} - C2*S2_cpt + {_SHIFT}",
    "cpt-curve-replay-pt-unknown-base": f"{_HIDDEN} - {_REPLAYED} + {_PT}",
    "cpt-curve-replay-cpt-unknown-base": f"{_HIDDEN} - {_REPLAYED} + {_CPT}",
    "downstream-ce": "E + A/Dp**alpha",
    "downstream-bleu": "(log_A + alpha*log(Dp))**beta",
    "downstream-bleu-ce": "C*exp(-k*cross_entropy)",
    "sigmoid": "floor + (ceiling - floor)/(1 + exp(k*(task_loss - L0)))",
    "score-exponential": "floor + C*exp(-k*task_loss)",
    "score-log-linear": "a - b*log(task_loss)",
    "rectified": "B/(D_l + Df**beta) + E",
}


def decayed(total, first, R):
    """Muennighoff 2023, eq. 5: what ``total`` is worth of which ``first`` counts in full."""
    first = np.minimum(first, total)
    return first + first * R * (1 - np.exp(-(total / first - 1) / R))


def by_hand(name, params, inputs):
    return eval(FORMULAS[name], vars(np) | {"decayed": decayed} | params | dict(inputs))


every_law = pytest.mark.parametrize("name", FORMULAS)
mixture_laws = pytest.mark.parametrize("name", [n for n in FORMULAS if n.startswith("dcpt")])


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def case(name):
    """A law, its true parameters, and the inputs of its experiment, {name: (n,)}."""
    known = problem(name)
    return known.law, dict(known.truth), known.arrays()[0]


@functools.cache
def _slopes(law):
    return jitted_for_once(jax.value_and_grad(lambda params, inputs: law(params, **inputs), (0, 1)))


def slopes(law, params, inputs):
    """Value, and its derivatives in every parameter and input, at one point."""
    value, (by_param, by_input) = _slopes(law)(
        {name: jnp.asarray(value, float) for name, value in params.items()},
        {name: jnp.asarray(value, float) for name, value in inputs.items()},
    )
    return value, by_param | {f"d{name}": slope for name, slope in by_input.items()}


def assert_finite(law, params, inputs):
    value, derivatives = slopes(law, params, inputs)
    assert np.isfinite(value), (params, inputs)
    for name, slope in derivatives.items():
        assert np.isfinite(slope), (name, params, inputs)


def test_every_law_of_jaxlaw_is_checked_here():
    # Other tests may have registered laws of their own.
    own = {name for name in laws.names() if laws.get(name).program_name}
    assert set(FORMULAS) == own


@pytest.mark.full
@every_law
def test_formula(name):
    law, params, inputs = case(name)
    expected = by_hand(name, params, inputs)
    np.testing.assert_allclose(law(params, **inputs), expected, rtol=1e-12)
    shifted = {key: value * (1 + 0.03 * i) for i, (key, value) in enumerate(params.items())}
    if name == "downstream-bleu":
        shifted["log_A"] = params["log_A"] * 0.9
    expected = by_hand(name, shifted, inputs)
    np.testing.assert_allclose(law(shifted, **inputs), expected, rtol=1e-12)


@every_law
def test_linear_parameters_are_linear(name):
    law, params, inputs = case(name)
    for held in law.linear_parameters:
        value, twice, thrice = (
            np.asarray(law({**params, held: factor * params[held]}, **inputs))
            for factor in (1, 2, 3)
        )
        np.testing.assert_allclose(thrice - twice, twice - value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "formula,expected",
    [
        (lambda x, *, a, b: a + b * x, "a b"),
        (lambda x, *, a, b: a * (x + b), "a"),  # a multiplies b: one of the two
        (lambda x, *, a, b: a * b * x, "a"),
        (lambda x, *, a, b: a * a * x + b, "b"),
        (lambda x, *, a, b: a / (1 + b * x), "a"),
        (lambda x, *, a, b: (a - b * x) / 3 - jnp.sum(x), "a b"),
        (lambda x, *, a, b: jnp.abs(a) * x + jnp.maximum(b, 0.5), ""),
        (lambda x, *, a, b: jnp.where(a > 1, b * x, 2 * b), "b"),
        (lambda x, *, a, b: jnp.floor(a) * x + jax.lax.stop_gradient(b), ""),
        (lambda x, *, a, b: a.astype(int) * x + jnp.stack([b, b]).sum(), "b"),
        (lambda x, *, a, b: x, ""),
        (lambda x, *, a, b: float(a) + b * x, ""),  # cannot be traced: the fit says so
    ],
)
def test_linearity_is_never_seen_where_there_is_none(formula, expected):
    assert linear_parameters(formula, {"x": False}, ("a", "b")) == tuple(expected.split())


@pytest.mark.full
@every_law
def test_transformations_agree(name):
    law, params, inputs = case(name)
    rows = np.linspace(0, len(next(iter(inputs.values()))) - 1, 8).astype(int)
    inputs = {key: jnp.asarray(column[rows]) for key, column in inputs.items()}
    plain = law(params, **inputs)
    np.testing.assert_allclose(
        jitted_for_once(lambda p, x: law(p, **x))(params, inputs), plain, rtol=1e-13
    )
    mapped = jitted_for_once(jax.vmap(lambda p, x: law(p, **x), in_axes=(None, 0)))(params, inputs)
    np.testing.assert_allclose(mapped, plain, rtol=1e-13)
    forward, reverse = (
        jitted_for_once(jac(lambda p: law(p, **inputs)))(params) for jac in (jax.jacfwd, jax.jacrev)
    )
    for key in params:
        np.testing.assert_allclose(forward[key], reverse[key], rtol=1e-9, atol=1e-12)


@every_law
def test_gradients_are_those_of_the_formula(name):
    law, params, inputs = case(name)
    # In the middle of the design, against central differences of the formula in numpy.
    point = {key: np.mean(column) for key, column in inputs.items()}
    _, derivatives = slopes(law, params, point)
    for key in (*params, *point):
        step = 1e-5 * abs((params | point)[key])
        up, down = (
            by_hand(name, params | point | {key: (params | point)[key] + way * step}, {})
            for way in (1, -1)
        )
        slope = derivatives[key if key in params else f"d{key}"]
        np.testing.assert_allclose(slope, (up - down) / (2 * step), rtol=1e-6, err_msg=key)


@pytest.mark.full
@every_law
def test_float32_stays_float32(name):
    law, params, inputs = case(name)
    narrow = {key: jnp.asarray(column, jnp.float32) for key, column in inputs.items()}
    value = law({key: jnp.asarray(v, jnp.float32) for key, v in params.items()}, **narrow)
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, law(params, **inputs), rtol=1e-4)


@every_law
@pytest.mark.parametrize("end", [0, 1], ids=["smallest", "largest"])
def test_finite_over_the_whole_plausible_range(name, end):
    law, params, inputs = case(name)
    # Areas have no range of their own: learning rate × steps of anything ever trained.
    widest = {"fraction": (0.0, 1.0), "positive": (1e-8, 1e6), "nonnegative": (0.0, 1e6),
              "real": (-1e3, 1e3)}  # fmt: skip
    extreme = {
        spec.name: (spec.plausible or widest[spec.domain])[end] / spec.unit for spec in law.inputs
    }
    assert_finite(law, params, extreme)


@every_law
def test_finite_with_tiny_exponents(name):
    law, params, inputs = case(name)
    tiny = {
        spec.name: max(spec.low, 1e-6)
        for spec in law.parameters
        if spec.scale == "linear" and spec.low >= 0 and not spec.centre
    }
    for point in (0, -1):
        assert_finite(law, params | tiny, {key: column[point] for key, column in inputs.items()})


@mixture_laws
def test_finite_at_the_ends_of_the_share(name):
    law, params, inputs = case(name)
    domain = {k: inputs[k][0] for k in law.input_names if k.startswith("k")}
    changes = [{}]
    if "eps" in params:
        changes = [{"eps": eps} for eps in (0.0, 1e-12, 0.5)]
    if "eta" in params:
        changes += [change | {"eta": 0.05} for change in changes]
    for change in changes:
        for r in (0.0, 1e-12, 1.0):
            assert_finite(law, params | change, {"N": 0.5, "D": 0.131, "r": r} | domain)
            assert_finite(law, params | change, {"N": 1e6, "D": 1e8, "r": r} | domain)


def test_bleu_is_zero_where_its_logarithm_is_not_positive():
    law, params, _ = case("downstream-bleu")
    assert law(params, Dp=1e6) == 0.0
    assert_finite(law, params, {"Dp": 1e6})


def test_power_at_zero():
    assert base.power(0.0, 2.0) == 0.0 and base.power(0.0, 0.0) == 1.0
    assert base.power(0.0, -1.0) == 1e30
    np.testing.assert_allclose(base.power(3.0, -0.7), 3.0**-0.7, rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "constraint", "starts"),
    [("chinchilla", None, 4_500), ("dcpt", "paper", 277_830), ("dcpt", None, 277_830)],
)
def test_grids_of_the_papers(name, constraint, starts):
    grids = [spec.grid for spec in laws.get(name, constraint=constraint).parameters]
    assert math.prod(len(grid) for grid in grids) == starts


def test_chinchilla_grid_is_hoffmanns():
    law = laws.get("chinchilla")
    for name, printed in {"A": range(0, 30, 5), "B": range(0, 30, 5)}.items():
        np.testing.assert_allclose(np.log(law.parameter(name).grid), list(printed), atol=1e-12)
    np.testing.assert_allclose(np.log(law.parameter("E").grid), [-1, -0.5, 0, 0.5, 1], atol=1e-12)
    for name in ("alpha", "beta"):
        assert law.parameter(name).grid == (0.0, 0.5, 1.0, 1.5, 2.0)


def test_dcpt_grid_is_ques_mapped_into_the_domain():
    law = laws.get("dcpt", constraint="paper")
    for name in "ABC":
        np.testing.assert_allclose(np.log(law.parameter(name).grid), range(-1, 6), atol=1e-12)
    np.testing.assert_allclose(
        np.log(np.array(law.parameter("eta").grid) - 1), [-0.5, 0, 0.5], atol=1e-12
    )
    for spec in law.parameters:
        assert all(spec.low < value <= spec.high for value in spec.grid), spec.name


def shares_in(constraint):
    return np.linspace(1e-6, 1, 101) if constraint == "paper" else np.linspace(0.1, 0.8, 101)


@pytest.mark.parametrize("constraint", ["paper", "observed"])
def test_constraint_makes_the_loss_fall_with_the_share(constraint):
    """C above the least value: ∂L/∂r < 0 wherever it is asked; below it: not everywhere."""
    law = laws.get("dcpt", constraint=constraint)
    r = shares_in(constraint)
    context = law.context({"N": [1.0], "D": [0.131, 2.6], "r": [0.0, 0.1, 0.8]})
    slope = jitted_for_once(
        jax.vmap(jax.grad(lambda r, params, D: law(params, N=1.8, D=D, r=r)), (0, None, None))
    )
    generator = np.random.default_rng(0)
    for _ in range(50):
        params = {
            "E": 1.0,
            "A": 0.5,
            "B": generator.uniform(0.01, 3),
            "alpha": 0.5,
            "beta": generator.uniform(0.05, 2),
            "gamma": generator.uniform(0.05, 2),
            "eta": generator.uniform(1.01 if constraint == "paper" else 0.1, 4),
            "eps": generator.uniform(0.001, 0.5),
        }
        least = float(law.constraint.least(params, context))
        for D in (0.131, 0.5, 2.6):
            assert (slope(r, params | {"C": least * 1.001}, D) < 0).all(), params
        assert (slope(r, params | {"C": least * 0.9}, 0.131) > 0).any(), params


def test_paper_constraint_is_ques_formula():
    law = laws.get("dcpt", constraint="paper")
    p = dict(problem("dcpt").truth)
    C0 = p["B"] * p["eta"] * (1 + p["eps"]) ** (p["gamma"] + 1) / (p["gamma"] * 0.1311 ** p["beta"])
    assert float(law.constraint.least(p, {"D": 0.1311})) == pytest.approx(C0, rel=1e-12)


def test_unmet_trends_are_reported_for_a_law_that_rises_and_not_for_the_truth():
    law, params, _ = case("dcpt")
    ranges = {"N": (0.5, 4.0), "D": (0.131, 2.6), "r": (0.0, 1.0)}
    assert law.requirements(law, params, ranges) == []
    rising = law.requirements(law, params | {"C": 0.01}, ranges)
    assert [note.code for note, _ in rising] == ["trend-observed"]
    infinite = law.requirements(law, params | {"eps": 0.0}, ranges)
    assert "infinite-at-zero" in [note.code for note, _ in infinite]


def test_a_law_of_ones_own(monkeypatch):
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))

    @base.law
    def shifted_power(N, x, *, E=specs.positive(0.5, 3), alpha=specs.exponent(), c=specs.real()):
        """E + N^−α + c·x."""
        return E + base.power(N, -alpha) + c * x

    assert laws.get("shifted-power") is shifted_power
    assert shifted_power.input_names == ("N", "x")
    assert shifted_power.parameter_names == ("E", "alpha", "c")
    assert shifted_power.formula == "E + N^−α + c·x."
    assert [spec.domain for spec in shifted_power.inputs] == ["positive", "real"]
    assert [spec.domain for spec in shifted_power.parameters][2] == "signed"
    value = shifted_power({"E": 1.0, "alpha": 0.5, "c": -2.0}, N=4.0, x=1.0)
    assert float(value) == pytest.approx(-0.5)


@pytest.mark.parametrize(
    "name",
    [
        "chinchilla[E,B of c4|pile]", "mixing[web|code|math]", "additive[web|code]",
        "additive-of-shares[web|code]",
        "tuned-skaling", "tuned-lr-chinchilla", "routed-chinchilla", "beyond(skaling)",
        "continual[C;D_cpt]", "continual-additive[N,D;D_cpt;r;lr]",
        "mixing[web|code][c of 70M|410M]",
    ],
)  # fmt: skip
def test_laws_made_of_others_are_found_by_name_and_pickle(name):
    law = laws.get(name)
    assert law.name == law.program_name == name
    assert laws.get(name) is law is pickle.loads(pickle.dumps(law))


def rival(**details):
    """A law under a name of the caller's, the same function every time."""
    return jl.law(lambda N, *, E=jl.laws.positive(): E + 150 + 0 * N, **details)


def test_a_name_taken_by_a_built_in_law_is_refused_without_replace(own_laws):
    before = jl.published()["hoffmann-2022"].predict(N=70e9, D=1.4e12)
    with pytest.raises(UsageError, match="'chinchilla' is that of a built-in law.*replace=True"):
        rival(name="chinchilla")
    with pytest.raises(UsageError, match="'loss-compute' is that of"):  # the function's own name

        @jl.law
        def loss_compute(N, *, E=jl.laws.positive()):
            return E + 0 * N

    assert laws.get("chinchilla") is laws.built_in("chinchilla")
    mine = rival(name="chinchilla", replace=True)
    assert laws.get("chinchilla") is mine
    # What jaxlaw computes with its own law is not a matter of names.
    assert jl.published()["hoffmann-2022"].predict(N=70e9, D=1.4e12) == before
    assert simulate.experiment("chinchilla").law is laws.built_in("chinchilla")


def test_ones_own_law_may_be_defined_again_but_not_another_under_its_name(own_laws):
    first = rival(name="mine")
    again = rival(name="mine")
    assert laws.get("mine") is again is not first
    with pytest.raises(UsageError, match=r"'mine' is that of another law, defined as .*rival"):
        jl.law(lambda N, *, E=jl.laws.positive(): E * N, name="mine")
    assert laws.get("mine") is again


@pytest.mark.parametrize("asked", ["__call__", "evaluate"])
def test_whole_numbers_beyond_32_bits_are_numbers(asked):
    """Outside float64 JAX has no place for them: it raised, or took another number instead."""
    params = {"E": 1.69, "A": 406.4, "B": 411, "alpha": 0.34, "beta": 0.28}
    law = getattr(jl.laws.get("chinchilla"), asked)
    expected = float(law(params, N=7e10, D=1.4e12))
    whole = 70_000_000_000
    for N in (whole, np.int64(whole), np.array([whole]), [whole], pd.Series([whole])):
        assert float(np.squeeze(law(params, N=N, D=1_400_000_000_000))) == expected
    assert float(law(params | {"B": 10**12}, N=7e10, D=1.4e12)) > expected
    with pytest.raises(jl.UsageError, match="1e308"):
        law(params, N=10**400, D=1e12)
    runs = jl.planning.best_run("chinchilla", params, 10**21)
    assert float(runs.N) == float(jl.planning.best_run("chinchilla", params, 1e21).N)
