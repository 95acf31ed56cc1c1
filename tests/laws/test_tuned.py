"""Laws tuned over learning rate and batch: a base law times a bowl whose centre moves."""

import math
from fractions import Fraction

import jax
import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.laws import _tuned as bowls

LAW = jl.laws.tuned("skaling")
TRUTH = dict(simulate.TRUTHS["tuned-skaling"])
AT = {"N": 3e8, "D": 4e10, "lr": 4e-3, "batch": 1.5e6}


def phi(s, z):
    return (np.exp(s * z) - 1 - s * z) / s**2


def best(p, N, D):
    n, d = N / 1e9, D / 2e10
    return (p[f"{x}_0"] * n ** p[f"{x}_N"] * d ** p[f"{x}_D"] for x in ("lr", "batch"))


def by_hand(p, N, D, lr, batch):
    """The formula once more, as its docstring has it."""
    base = p["E"] + (p["A"] / N ** p["alpha"] + p["B"] / D ** p["beta"]) ** p["kappa"]
    best_lr, best_batch = best(p, N, D)
    u, v = np.log(lr / best_lr), np.log(batch / best_batch)
    q = p["h_lr"] * phi(p["s_lr"], u) + p["h_batch"] * phi(p["s_batch"], v)
    q = q + p["h_noise"] * phi(p["s_noise"], u - p["g"] * v)
    return base * (1 + (N / 1e9 * D / 2e10) ** p["k"] * q)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("changed", [{}, {"lr": 2e-5}, {"lr": 0.3, "batch": 3e4}, {"N": 7e10}])
def test_formula(changed):
    at = AT | changed
    assert float(LAW(TRUTH, **at)) == pytest.approx(by_hand(TRUTH, **at), rel=1e-12)


def test_at_the_best_settings_it_is_the_base_law_and_nowhere_lower():
    lr, batch = best(TRUTH, AT["N"], AT["D"])
    here = float(LAW(TRUTH, **AT | {"lr": lr, "batch": batch}))
    base = jl.laws.get("skaling")
    own = {name: TRUTH[name] for name in base.parameter_names}
    assert here == pytest.approx(float(base(own, N=AT["N"], D=AT["D"])), rel=1e-14)
    away = np.geomspace(0.01, 100, 41)
    around = LAW(TRUTH, N=AT["N"], D=AT["D"], lr=lr * away[:, None], batch=batch * away)
    assert around.min() == pytest.approx(here) and (np.asarray(around) >= here * (1 - 1e-12)).all()
    # A rate ten times too high costs more than one ten times too low.
    assert LAW(TRUTH, **AT | {"lr": 10 * lr}) > LAW(TRUTH, **AT | {"lr": lr / 10})


def test_without_skew_it_is_a_parabola_with_smooth_slopes():
    flat = TRUTH | {"s_lr": 0.0, "s_batch": 0.0, "s_noise": 0.0}
    near = TRUTH | {"s_lr": 1e-7, "s_batch": 1e-7, "s_noise": 1e-7}
    assert float(LAW(flat, **AT)) == pytest.approx(float(LAW(near, **AT)), rel=1e-6)
    slope = jax.grad(lambda s: LAW(flat | {"s_lr": s}, **AT))
    assert float(slope(0.0)) == pytest.approx(float(slope(1e-6)), rel=1e-4)
    # Where the series takes over from the exponential, values and slopes go on.
    u = np.log(AT["lr"] / next(iter(best(TRUTH, AT["N"], AT["D"]))))
    below, above = (slope(edge * 0.1 / u) for edge in (1 - 1e-9, 1 + 1e-9))
    assert float(below) == pytest.approx(float(above), rel=1e-6)


@pytest.mark.parametrize("kind", [float, np.float32])
def test_finite_far_away(kind):
    with jax.enable_x64(kind is float):
        for lr in (1e-8, 1e2):
            for batch in (1e3, 1e11):
                at = {"N": 1e12, "D": 1e5, "lr": lr, "batch": batch}
                at = {name: kind(value) for name, value in at.items()}
                value, slopes = jax.value_and_grad(lambda p, at=at: LAW(p, **at))(
                    {name: kind(x) for name, x in TRUTH.items()}
                )
                assert np.isfinite([float(value), *map(float, slopes.values())]).all()


def test_found_by_name_and_by_file(tmp_path):
    assert jl.laws.tuned("skaling", ["batch", "lr"]) is LAW and LAW.linear_parameters == ("E",)
    jl.FittedLaw(LAW, TRUTH).save(tmp_path / "fit.json")
    again = jl.load(tmp_path / "fit.json")
    assert again.law is LAW and float(again.predict(**AT)) == pytest.approx(by_hand(TRUTH, **AT))
    only = jl.laws.get("tuned-lr-loss-compute-e")
    assert only.input_names == ("C", "lr") and "batch_0" not in only.parameter_names
    assert {"lr_0", "lr_C", "k"} <= {*only.parameter_names} and "g" not in only.parameter_names
    assert only.linear_parameters == ("E", "A")


def test_units_of_the_runs_and_of_the_law():
    # Batches of sequences, sizes in millions; and dcpt, which counts in billions.
    table = {"N": [300.0], "D": [40.0], "lr": [4e-3], "batch": [1.5e6 / 2048]}
    units = {"N": 1e6, "D": 1e9, "batch": 2048}
    fit = jl.FittedLaw(LAW, TRUTH, units=units)
    assert fit.predict(table)[0] == pytest.approx(by_hand(TRUTH, **AT), rel=1e-12)
    mixture = jl.laws.tuned("dcpt", "lr")
    params = dict(simulate.TRUTHS["dcpt"]) | {"h_lr": 0.01, "s_lr": 0.9, "k": 0.0}
    params |= {"lr_0": 1e-3, "lr_N": -0.5, "lr_D": 0.2}
    alone = float(mixture(params, N=1.0, D=20.0, r=0.5, lr=1e-3))
    assert alone == pytest.approx(
        float(jl.laws.get("dcpt")(simulate.TRUTHS["dcpt"], N=1.0, D=20.0, r=0.5))
    )


def test_groups_of_a_tuned_law():
    law = jl.laws.grouped("tuned-lr-chinchilla", ["adamw", "muon"], own=["lr_0"])
    assert jl.laws.get(law.name) is law and law.chart is not None
    params = {"E": 1.7, "A": 400.0, "B": 400.0, "alpha": 0.34, "beta": 0.28, "lr_N": -0.5}
    params |= {"lr_D": 0.2, "h_lr": 0.02, "s_lr": 0.8, "k": 0.0}
    params |= {"lr_0[adamw]": 1e-3, "lr_0[muon]": 1e-2}
    at = {"N": 1e9, "D": 2e10, "lr": 1e-2}
    assert law(params, **at, group=1.0) < law(params, **at, group=0.0)


@pytest.mark.full
@pytest.mark.parametrize("largest", [8e-3, 2e-3])
def test_what_was_true_is_fitted_again(largest):
    """Also where the best rate of five of nine cells lies beyond the largest that was tried."""
    law = jl.laws.tuned("chinchilla", "lr")
    truth = {name: TRUTH[name] for name in law.parameter_names if name in TRUTH}
    truth |= dict(simulate.TRUTHS["chinchilla"])
    design = simulate.experiment("tuned-skaling").table.query("batch == 2**18")
    runs = simulate.simulate_runs(law, truth, design[list(law.input_names)])
    assert runs["lr"].max() <= 8e-3
    runs = runs[runs["lr"] <= largest]
    n, d = (np.log(runs[x] / c) for x, c in (("N", 1e9), ("D", 2e10)))
    beyond = np.exp(np.log(truth["lr_0"]) + truth["lr_N"] * n + truth["lr_D"] * d) > largest
    assert runs[beyond].groupby(["N", "D"]).ngroups == (0 if largest > 2e-3 else 5)
    fit = jl.fit(law, runs, n_starts=16, n_local=2)
    assert fit.params == pytest.approx(truth, rel=1e-4)
    assert fit.agreement == 1.0 and "at-bound" not in [note.code for note in fit.notes]


def test_coordinates_of_a_prior_are_those_of_the_base_and_the_exponents():
    known, base = LAW.scale_free, jl.laws.get("skaling").scale_free
    assert set(known.words) == {*base.words, "lr_N", "lr_D", "batch_N", "batch_D"}
    values = known.of_params(TRUTH)
    back = known.to_params(3.0, values)
    assert {*back, *known.open} == {*LAW.parameter_names} and not {*back} & {*known.open}
    for name, value in known.of_params(TRUTH | back).items():
        if name != "log_floor":  # which has the level
            assert float(value) == pytest.approx(float(values[name]), abs=1e-9)
    # At a batch that is held the best rate moves in another way; a law of C has other exponents.
    assert jl.laws.tuned("skaling", "lr").scale_free is None
    assert jl.laws.tuned("loss-compute-e").scale_free is None
    assert jl.laws.tuned("kaplan").scale_free is None
    assert {"R_D", "R_N"} < set(jl.laws.tuned("repetition").scale_free.open)


def test_the_best_settings_are_those_of_the_base_law():
    own = {"h_lr": 0.02, "s_lr": 0.9, "k": 0.0, "lr_0": 1e-3, "lr_N": -0.5, "lr_D": 0.2}
    mixture = jl.laws.tuned("dcpt", "lr"), simulate.TRUTHS["dcpt"] | own, {"N": 3.0, "D": 40.0}
    for law, params, inputs in ((LAW, TRUTH, {"N": 3e9, "D": 4e10}), mixture):
        base = jl.laws.get(law.name.removeprefix("tuned-").removeprefix("lr-"))
        inputs |= {"r": 0.5} if base.name == "dcpt" else {}
        best = {name: float(of(params, inputs)) for name, of in law.best_settings.items()}
        assert set(best) == set(law.input_names) - set(base.input_names)
        known = {name: params[name] for name in base.parameter_names}
        lowest = float(law(params, **inputs, **best))
        assert lowest == pytest.approx(float(base(known, **inputs)), rel=1e-12)
        assert float(law(params, **inputs, **best | {"lr": 2 * best["lr"]})) > lowest
    assert jl.laws.grouped(LAW, ["a", "b"]).best_settings == {}


@pytest.mark.parametrize("t", [-9.0, -0.501, -0.499, -1e-6, 0.0, 0.499, 0.501, 3.0, 40.0])
def test_the_bowl_and_its_derivatives_are_those_of_its_series(t):
    """(e^t − 1 − t)/t² through 0, where its digits cancel, and on both sides of the switch."""

    def series(derivative):
        exact, first = Fraction(t), 2 + derivative
        terms = (
            Fraction(math.perm(k - 2, derivative), math.factorial(k)) * exact ** (k - first)
            for k in range(first, 220)
        )
        return float(sum(terms))

    functions = [lambda t: bowls._phi(2, t)]
    functions += [jax.grad(functions[0]), jax.grad(jax.grad(functions[0]))]
    found = [float(function(t)) for function in functions]
    np.testing.assert_allclose(found, [series(k) for k in range(3)], rtol=1e-11)
