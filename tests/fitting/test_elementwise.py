"""Laws whose rows depend on each other are refused; laws that ignore an input are laws."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import laws
from jaxlaw.errors import UsageError
from jaxlaw.fitting._problem import _together_and_alone

FEW = {"n_starts": 16, "n_local": 4}


@pytest.fixture
def runs():
    size = np.geomspace(1e7, 1e9, 12)
    return pd.DataFrame({"N": size, "x": 1.0, "loss": 1.5 + 0.4 * (size / 1e8) ** -0.3})


def of_rows(change):
    """A law of N / ``change``(N, x)."""

    @jl.law(name="own-rows")
    def own(
        N, x, *, E=jl.laws.positive(0.5, 3), A=jl.laws.positive(0.1, 10), alpha=jl.laws.exponent()
    ):
        return E + A * jl.laws.power(change(N, x), -alpha)

    return own


ACROSS = {
    "mean": lambda N, x: N / jnp.mean(N),
    "first": lambda N, x: N / N[0],
    "cumsum": lambda N, x: jnp.cumsum(N) / 1e8,
    "reversed": lambda N, x: N[::-1] / 1e8,
    "count where there are many": lambda N, x: N / (1e8 if len(N) < 10 else 2e8),
    "mean of a constant": lambda N, x: N / 1e8 * x / x.mean(),
}


@pytest.mark.parametrize("name", ACROSS)
def test_a_law_across_rows_is_refused(own_laws, runs, name):
    with pytest.raises(UsageError, match="law own-rows is not elementwise: at N=.*that row alone"):
        jl.fit(of_rows(ACROSS[name]), runs, **FEW)


def test_folds_and_resamples_refuse_it_too(own_laws, runs):
    with pytest.raises(UsageError, match="not elementwise"):
        jl.cross_validate(of_rows(ACROSS["mean"]), runs, "in-sample", **FEW)


def test_a_law_for_one_number_of_rows_is_refused(own_laws, runs):
    offsets = np.linspace(0.9, 1.1, len(runs))
    with pytest.raises(UsageError, match="law own-rows fails on inputs of the shapes.*any number"):
        jl.fit(of_rows(lambda N, x: N / 1e8 * offsets), runs, **FEW)
    for formula, remedy in {
        lambda N, x: N if N > 1e8 else x: "use jnp.where in place of if",
        lambda N, x: np.power(N, x): "use jax.numpy",
        lambda N, x: float(N[0]): "leave out float",
    }.items():
        with pytest.raises(UsageError, match=f"law own-rows .*{remedy}"):
            jl.fit(of_rows(formula), runs, **FEW)
    runs["x"] = np.linspace(1.0, 2.0, len(runs))
    with pytest.raises(UsageError, match=r"array of shape \(64, 64\) for 64 rows"):
        jl.fit(of_rows(lambda N, x: N[:, None] / N), runs, **FEW)


@pytest.mark.parametrize("returned", [(1.0, 2.0), None])
def test_a_law_that_returns_no_array_is_refused(own_laws, returned):
    def own_rows(N, *, E=jl.laws.positive(0.5, 3)):
        return returned

    with pytest.raises(UsageError, match="law own-rows must return one array"):
        jl.law(own_rows)({"E": 1.0}, N=1e9)


@pytest.mark.parametrize("name", laws.names())
def test_built_in_laws_are_elementwise(name):
    import jax

    from tests.fixtures.solver_problems import experiment

    law, draw = laws.get(name), np.random.default_rng(0)
    made = next(
        experiment(one, 0.0) for one in jl.simulate.TRUTHS if experiment(one, 0.0).law is law
    )
    rows = made.table.sample(5, random_state=0)
    given = {one: rows[one].to_numpy() for one in law.input_names if one in rows}
    for spec in law.inputs:
        given.setdefault(spec.name, draw.uniform(0.1, 1, (5, 3)))
    with jax.enable_x64(True):
        together, alone = _together_and_alone(law, dict(made.truth), given)
    np.testing.assert_allclose(together, alone, rtol=1e-12)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::jaxlaw.notes.FitWarning")  # a level describes no runs
def test_a_law_that_ignores_inputs_has_a_value_for_each_row(own_laws, runs):
    @jl.law(name="own-level")
    def level(N, x, *, E=jl.laws.positive(0.5, 3)):
        return E

    @jl.law(name="own-one-input")
    def one_input(N, x, *, E=jl.laws.positive(0.5, 3), A=jl.laws.positive(0.1, 10)):
        return E + A / x

    table = runs.assign(x=np.linspace(1.0, 3.0, len(runs)))
    for law in (level, one_input):
        fit = jl.fit(law, table, **FEW)
        assert fit.predict(table).shape == (12,)
        assert fit.predict(N=np.full((2, 1), 1e7), x=np.ones(3)).shape == (2, 3)
        drawn = jl.bootstrap(fit, table, 4)
        assert drawn.predict(table).shape == (4, 12)
        study = jl.cross_validate(law, table, "leave-one-group-out:x", **FEW)
        assert np.isfinite(study.frame["huber"]).all()
    best = jl.fit(level, table, delta=np.inf, **FEW).params["E"]
    assert np.log(best) == pytest.approx(np.log(table["loss"]).mean(), rel=1e-8)
