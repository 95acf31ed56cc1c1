"""A centre moves what is searched, never the law: whatever it declares, the same law is fitted."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.fitting import _fit as fitting
from jaxlaw.fitting._fit_many import fit_many
from jaxlaw.fitting._options import FitOptions
from jaxlaw.notes import FitWarning

pytestmark = pytest.mark.usefixtures("own_laws")

DRAW = np.random.default_rng(0)
RUNS = {
    name: np.exp(DRAW.uniform(np.log(low), np.log(high), 60))
    for name, low, high in (("N", 3e7, 3e10), ("D", 1e9, 1e12), ("U", 5e9, 2e11))
}
E, ALPHA = jl.laws.positive(0.5, 3), jl.laws.exponent()


def coefficient(centre):
    return jl.laws.positive(0.1, 10, centre=centre)


def repeated(centre):
    def law(D, U, *, E=E, B=coefficient(centre), beta=ALPHA):
        return E + B * jl.laws.power(jnp.minimum(D, U), -beta)

    return law, {"E": 1.7, "B": 400.0, "beta": 0.28}


def ratio(centre):
    def law(N, D, U, *, E=E, A=coefficient({"N": "alpha"}), B=coefficient(centre), alpha=ALPHA,
            beta=ALPHA, k=jl.laws.real()):  # fmt: skip
        return E + A * jl.laws.power(N, -alpha) + B * jl.laws.power(D, -beta) * (1 + k * D / U)

    return law, {"E": 1.7, "A": 400.0, "B": 400.0, "alpha": 0.34, "beta": 0.28, "k": 0.01}


def of_a_unit(centre):
    def law(N, *, E=E, A=coefficient(centre), alpha=ALPHA):
        return E + A * jl.laws.power(1 + N / 3e8, -alpha)

    return law, {"E": 1.7, "A": 0.9, "alpha": 0.34}


def plain(centre):
    def law(N, *, E=E, A=coefficient(centre), alpha=ALPHA):
        return E + A * jl.laws.power(N, -alpha)

    return law, {"E": 1.7, "A": 400.0, "alpha": 0.34}


CASES = {
    "another input shares the unit": (repeated, {"D": "beta"}),
    "a ratio of two inputs of one unit": (ratio, {"D": "beta"}),
    "a constant in the formula": (of_a_unit, {"N": "alpha"}),
    "the other sign": (plain, {"N": "-alpha"}),
    "a number for an exponent": (plain, {"N": 1}),
}


def made(which, centre):
    """A law, its true parameters and runs that obey it."""
    function, truth = which(centre)
    law = jl.law(function, name="own")
    table = {name: RUNS[name] for name in law.input_names}
    with jax.enable_x64(True):
        return law, truth, pd.DataFrame(table | {"loss": np.asarray(law(truth, **table))})


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_a_centre_that_does_not_suit_the_formula_fits_the_law_all_the_same(case):
    law, truth, table = made(*CASES[case])
    fit = jl.fit(law, table)
    assert fit.params == pytest.approx(truth, rel=1e-6)
    assert fit.r2 == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(fit.predict(table), table["loss"], rtol=1e-9)
    assert not [note for note in fit.notes if note.severity == "error"]


@pytest.mark.full
def test_an_input_of_either_sign_or_zero_can_be_centred():
    """The centre is a size to count in; any will do."""

    def law(x, *, E=E, A=coefficient({"x": 1})):
        return E + A * x

    law = jl.law(law, name="own", inputs={"x": jl.laws.Input("x")})
    table = pd.DataFrame({"x": np.linspace(-2e-3, 4e-3, 13)})
    table["loss"] = 1.7 + 100 * table["x"]
    assert jl.fit(law, table).params == pytest.approx({"E": 1.7, "A": 100.0}, rel=1e-6)


def objective_at(law, params, table, weight, delta):
    """The objective that a law has at parameters, by its formula alone."""
    inputs = {name: table[name].to_numpy() for name in law.input_names}
    off = np.log(np.asarray(law(params, **inputs)) / table["loss"].to_numpy())
    small = np.minimum(np.abs(off), delta)
    return float(np.sum(weight * (0.5 * small**2 + delta * (np.abs(off) - small))))


@pytest.mark.full
def test_refits_and_batches_tell_the_objective_of_their_parameters():
    law, _, table = made(*CASES["another input shares the unit"])
    table["loss"] *= np.exp(0.004 * DRAW.standard_normal(len(table)))
    weight = np.ones((3, len(table)))
    weight[1, ::4], weight[2, 1::4] = 0, 2
    with jax.enable_x64(True):
        found = fit_many(law, jl.read_runs(table).observations(law), weight, options=FitOptions())
        single = jl.fit_batch(law, table, table["loss"].to_numpy(), weight)
        for many in (found, single):
            for k in range(3):
                one = {name: float(values[k]) for name, values in many.params.items()}
                there = objective_at(law, one, table, weight[k], law.delta)
                assert float(many.objective[k]) == pytest.approx(there, rel=1e-9)


def test_a_fit_whose_parameters_have_another_objective_says_error(monkeypatch):
    law, _, table = made(*CASES["the other sign"])
    table["loss"] *= np.exp(0.004 * DRAW.standard_normal(len(table)))
    honest = jl.fit(law, table)
    assert "objective-disagrees" not in [note.code for note in honest.notes]

    def searched(*given):
        (optimum,) = find(*given)
        return [optimum._replace(objective=optimum.objective * 0.99)]

    find = fitting.find_optima
    monkeypatch.setattr(fitting, "find_optima", searched)
    with pytest.warns(FitWarning, match="objective-disagrees"):
        fit = jl.fit(law, table)
    assert [note.severity for note in fit.notes if note.code == "objective-disagrees"] == ["error"]
    with pytest.raises(jl.DataError, match="objective"):
        jl.fit(law, table, strict=True)
