"""The bootstrap of a law that takes parameters from a base: each resample from its own."""

from dataclasses import replace

import jax
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import simulate, uncertainty
from jaxlaw.uncertainty._bootstrap import resamples
from tests.fixtures.drawn_laws import SCRATCH, drawn

TABLE = simulate.experiment("cpt-chinchilla", noise=0.004).table
SIZE, LOST = 12, 5  # resamples, and the one in which the base came to nothing
HELD = ["E", "A", "alpha"]


@pytest.fixture(scope="module")
def base() -> uncertainty.Draws:
    """As if from runs from scratch: draws around the truth, one of them NaN."""
    result = drawn(SCRATCH, SIZE)
    lost = np.arange(SIZE) == LOST
    return replace(result, params={k: np.where(lost, np.nan, v) for k, v in result.params.items()})


@pytest.fixture(scope="module")
def continual(base) -> jl.Bootstrap:
    return jl.bootstrap("cpt-chinchilla", TABLE, SIZE, base=base, progress=False)


@pytest.mark.full
def test_each_resample_holds_what_its_resample_of_the_base_came_to(base, continual):
    for name in HELD:
        assert continual.params[name].tolist() == pytest.approx(
            base.params[name].tolist(), rel=0, abs=0, nan_ok=True
        )
        assert continual.fit.params[name] == base.fit.params[name]
    lost = {name: np.flatnonzero(np.isnan(v)).tolist() for name, v in continual.params.items()}
    assert lost == dict.fromkeys(lost, [LOST])
    (note,) = [one for one in continual.notes if one.code == "resamples-failed"]
    assert "1 of 12" in note.message
    assert list(continual.conf_int()["parameter"]) == ["B", "beta", "gamma"]


@pytest.mark.parametrize("k", [0, 7])
def test_a_resample_is_the_fit_of_its_rows_on_its_base(base, continual, k):
    weights, _ = resamples(continual.problem, SIZE, "case", np.arange(len(TABLE)), 0)
    rows = TABLE.iloc[np.repeat(np.arange(len(TABLE)), weights[k].astype(int))]
    own = {name: base.params[name][k] for name in HELD}
    alone = jl.fit("cpt-chinchilla", rows, base=own, progress=False)
    assert continual.refits.objective[k] == pytest.approx(alone.objective, rel=1e-9)
    for name, value in alone.params.items():
        assert continual.params[name][k] == pytest.approx(value, rel=1e-6), name
    elsewhere = continual.params["B"][k] / continual.fit.params["B"] - 1
    assert abs(elsewhere) > 1e-4  # its own, not that of the runs as they are


def test_held_values_mean_the_same_at_any_centre():
    """A held A goes with its own α: their term is what it is in the law's own units."""
    bootstrap = jl.bootstrap(
        "cpt-chinchilla", TABLE, SIZE, fixed={"A": 400.0}, base=drawn(SCRATCH, SIZE), progress=False
    )
    assert set(bootstrap.params["A"]) == {400.0} and set(bootstrap.base_params) == {"E", "alpha"}
    seen, law = bootstrap.problem.observations, bootstrap.fit.law
    with jax.enable_x64(True):
        for k in (0, 7):
            params = {name: column[k] for name, column in bootstrap.params.items()}
            off = np.log(np.asarray(law(params, **seen.inputs))) - np.log(seen.target)
            weights, _ = resamples(bootstrap.problem, SIZE, "case", np.arange(len(TABLE)), 0)
            size = np.abs(off)
            losses = np.where(size <= 1e-3, off**2 / 2, 1e-3 * (size - 5e-4))
            assert weights[k] @ losses == pytest.approx(bootstrap.refits.objective[k], rel=1e-6)


def test_a_fit_of_the_base_is_resampled_as_its_law_is(base, continual):
    again = jl.bootstrap(continual.fit, TABLE, SIZE, base=base, progress=False)
    for name, column in continual.params.items():
        np.testing.assert_array_equal(again.params[name], column)


def test_other_bases_are_refused(base, continual):
    ask = {"runs": TABLE, "progress": False}
    with pytest.raises(
        jl.UsageError, match=r"base has 12 resamples, and n_resamples is 1000.*\(n_resamples=12\)"
    ):
        jl.bootstrap("cpt-chinchilla", base=base, **ask)
    other = replace(base, fit=replace(base.fit, params={**base.fit.params, "E": 1.0, "A": 1.0,
                                                        "alpha": 0.3}))  # fmt: skip
    with pytest.raises(jl.UsageError, match="holds nothing of this base"):
        jl.bootstrap(continual.fit, n_resamples=SIZE, base=other, **ask)
    with pytest.raises(jl.UsageError, match="chinchilla takes no base"):
        jl.bootstrap("chinchilla", n_resamples=SIZE, base=base, **ask)
    with pytest.raises(jl.UsageError, match="base is .*it must be a Fit or a dict"):
        jl.bootstrap("cpt-chinchilla", n_resamples=SIZE, base=continual.problem, **ask)


@pytest.mark.full
def test_saved_draws_of_a_base_are_one(base, continual, command):
    TABLE.to_csv("runs.csv", index=False)
    base.save("base.json")
    asked = ["bootstrap", "cpt-chinchilla", "runs.csv", "--base", "base.json", "--quiet",
             "--out", "boot.json", "--n-resamples"]  # fmt: skip
    assert command(*asked, SIZE)[0] == 0
    kept = jl.load("boot.json").draws()
    for name, column in continual.params.items():
        np.testing.assert_array_equal(kept.params[name], column)
    assert "same number (n_resamples=12)" in command(*asked, 9)[2]


@pytest.mark.full
def test_the_covariance_of_a_base_is_in_everything_that_is_made_of_its_values(tmp_path):
    """Fits on bases moved by what they are uncertain of move as the covariance says."""
    scratch = jl.fit("chinchilla", simulate.experiment("from-scratch", noise=0.004).table)
    fit = jl.fit("cpt-chinchilla", TABLE, base=scratch, delta=np.inf)
    fit.save(tmp_path / "fit.json")
    known = jl.fit("cpt-chinchilla", TABLE, base=scratch.params, delta=np.inf)
    covariance = jl.covariance(jl.load(tmp_path / "fit.json"), TABLE)
    matrix, own = covariance.matrix, jl.covariance(known, TABLE).matrix
    of_base = jl.covariance(scratch, simulate.experiment("from-scratch", noise=0.004).table).matrix
    np.testing.assert_allclose(matrix.loc[HELD, HELD], of_base.loc[HELD, HELD], rtol=1e-8)

    def optimum(name: str, step: float) -> np.ndarray:
        moved = {**scratch.params, name: scratch.params[name] + step}
        found = jl.fit("cpt-chinchilla", TABLE, base=moved, delta=np.inf, n_starts=16).params
        return np.array([found[free] for free in own])

    steps = {name: 0.1 * scratch.standard_errors.values[name] for name in HELD}
    slopes = [(optimum(k, step) - optimum(k, -step)) / (2 * step) for k, step in steps.items()]
    follows = np.transpose(slopes) @ of_base.loc[HELD, HELD].to_numpy()
    errors = pd.Series(np.sqrt(np.diagonal(matrix)), matrix.index)
    off = matrix.loc[[*own], HELD] - follows
    assert (abs(off) / np.outer(errors[[*own]], errors[HELD])).max(axis=None) < 0.02
    off = matrix.loc[[*own], [*own]] - own - np.transpose(slopes) @ follows.T
    assert (abs(off) / np.outer(errors[[*own]], errors[[*own]])).max(axis=None) < 0.02

    assert fit.conf_int()["std_err"].tolist() == pytest.approx(errors[[*own]].tolist(), rel=1e-6)
    boot = jl.bootstrap(fit, TABLE, 100, kind="wild", progress=False)
    for draws in (covariance.draws(), boot):
        spread = pd.Series({name: draws.params[name].std() for name in matrix})
        np.testing.assert_allclose(spread / errors, 1.0, atol=0.25)
    codes = [[note.code for note in one.notes] for one in (known, fit)]
    assert ["base-held" in one for one in codes] == [True, False]
