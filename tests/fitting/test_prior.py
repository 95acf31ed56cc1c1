"""Priors: coordinates without units, the library of the field, one's own ledger, the objective."""

import dataclasses

import jax
import numpy as np
import pandas as pd
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

import jaxlaw as jl
from jaxlaw.fitting import _prior, field_prior, ledger_prior
from jaxlaw.fitting._diagnostics import _undetermined
from jaxlaw.fitting._fit_many import with_noise
from jaxlaw.fitting._objective import evaluate, prior_around, scaled_prior, scaled_value
from jaxlaw.fitting._options import law_and_options
from jaxlaw.fitting._prior import FLOOR, LAWS, SPREAD, Experiment
from jaxlaw.fitting._prior_evidence import PriorEvidence, prior_evidence, scatter_notes
from jaxlaw.fitting._problem import build_problem
from tests.conftest import DATA, needs_data

TRUTH = {"E": 1.7, "A": 400.0, "B": 410.0, "alpha": 0.34, "beta": 0.30}
N, D = np.array([1e8, 4e8, 1.5e9]), np.array([2e9, 5e9, 4e10])


def chinchilla(N, D, p=TRUTH):
    return p["E"] + p["A"] * N ** -p["alpha"] + p["B"] * D ** -p["beta"]


def table(n=3, noise=0.0, seed=0, p=TRUTH):
    """So many runs of a known law."""
    random = np.random.default_rng(seed)
    N = np.geomspace(5e7, 3e9, n)[random.permutation(n)]
    D = N * random.uniform(10, 60, n)
    loss = chinchilla(N, D, p) * np.exp(noise * random.standard_normal(n))
    return pd.DataFrame({"N": N, "D": D, "loss": loss})


# --- coordinates


@pytest.mark.parametrize("name", LAWS)
@given(seed=st.integers(0, 1000), unit=st.floats(0.1, 10.0))
def test_coordinates_have_an_inverse_and_no_unit(name, seed, unit):
    law, random = jl.laws.get(name), np.random.default_rng(seed)
    values = {
        key: random.normal(0.0 if key != "gamma" else -2.0, 0.7) for key in law.scale_free.words
    }
    with jax.enable_x64(True):
        params = law.scale_free.to_params(3.1, values)
        back = law.scale_free.of_params(params)
        for key, value in values.items():
            assert float(back[key]) == pytest.approx(value, abs=1e-9)
        assert float(law(params, **law.scale_free.reference)) == pytest.approx(3.1)
        # The same runs in another unit of the loss: other E, A, B, the same coordinates.
        other = law.scale_free.of_params(law.scale_free.to_params(3.1 * unit, values))
    for key, value in values.items():
        assert float(other[key]) == pytest.approx(value, abs=1e-9)
    assert float(other[FLOOR] - back[FLOOR]) == pytest.approx(np.log(unit), abs=1e-9)


@pytest.mark.parametrize("name", ["repetition", "repetition-geometric"])
def test_laws_of_repetition_are_chinchillas_while_tokens_are_new(name):
    law, base = jl.laws.get(name), jl.laws.get("chinchilla")
    values = {"share": 0.4, "balance": -0.2, "alpha": -1.0, "beta": -1.1}
    rest = {"R_D": 15.0, "R_N": 1e11} if name == "repetition" else {"delta": 0.1}
    assert set(law.scale_free.open) == set(rest)
    with jax.enable_x64(True):
        params = law.scale_free.to_params(3.1, values)
        back = law.scale_free.of_params(params | rest)
        new = law(params | rest, **law.scale_free.reference)
        once = law(params | rest, N=7e8, D=3e10, U=3e10)
        again = law(params | rest, N=7e8, D=3e10, U=1e10)
        assert float(new) == pytest.approx(3.1, rel=1e-6)
        assert float(once) == pytest.approx(float(base(params, N=7e8, D=3e10)), rel=1e-6)
        assert float(again) > float(once)
    assert {key: float(back[key]) for key in values} == pytest.approx(values)
    known = field_prior()
    np.testing.assert_array_equal(known.mean_of(law), known.mean_of(base))


@needs_data
@pytest.mark.full
def test_a_law_of_repetition_takes_what_is_known_from_eight_runs():
    """Muennighoff's: with it eight runs predict the twenty largest better than alone."""
    t = pd.read_csv(f"{DATA}/data_constrained.csv")
    t = t.assign(N=t.params, D=t.tokens, U=t.unique_tokens, C=t.params * t.tokens)
    t = t.sort_values("C")[["N", "D", "U", "loss"]]
    few, later = t.iloc[60:140:10], t.iloc[-20:]
    error = {}
    for prior in (None, field_prior(without="datablations")):
        fit = jl.fit("repetition-geometric", few, prior=prior)
        error[prior is None] = np.median(np.abs(np.log(fit.predict(later[["N", "D", "U"]])
                                                       / later.loss)))  # fmt: skip
    assert error[False] < error[True]


# --- the library


def test_the_field_leaves_sources_out_by_name():
    whole, without = field_prior(), field_prior(without=["olmo", "kempner"])
    gone = {"olmo", "kempner"}
    assert gone <= set(whole.experiments["source"])
    assert not gone & set(without.experiments["source"])
    assert (without.means["skaling"] != whole.means["skaling"]).all()
    for prior in (whole, without):
        for law in LAWS:
            spread = np.sqrt(np.diag(prior.covariances[law]))
            assert np.linalg.eigvalsh(prior.covariances[law]).min() > 0
            assert (spread > 0.1).all() and (spread < 1.0).all()
    with pytest.raises(jl.UsageError, match="no source 'olmoo'.*olmo"):
        field_prior(without="olmoo")
    with pytest.raises(jl.UsageError, match="no source is left"):
        field_prior(without=set(whole.experiments["source"]))


def made_up(mean, covariance, noise, count, seed, errors):
    """Experiments whose coordinates are drawn from a known distribution, one of each source."""
    random = np.random.default_rng(seed)
    names = _prior._names("chinchilla")
    found = []
    for k in range(count):
        true = random.multivariate_normal(mean, covariance)
        error = errors * np.eye(5)
        seen = np.concatenate([[0.5], true]) + random.multivariate_normal(np.zeros(5), error)
        found.append(Experiment(f"s{k}", f"e{k}", "", "chinchilla", seen,
                                error / _prior.INFLATION, noise, 50, {}, ""))  # fmt: skip
    return found, names


def test_random_effects_recover_a_known_distribution():
    mean = np.array([0.3, -0.1, -1.0, -0.9])
    covariance = np.diag([0.3, 0.4, 0.2, 0.25]) ** 2
    covariance[0, 1] = covariance[1, 0] = 0.05
    # Errors of fits as large as the spread: their variance must not count as spread.
    known, names = made_up(mean, covariance, 0.004, 400, 0, 0.09)
    found, spread, sources = _prior._random_effects(known, names)
    assert sources == 400
    np.testing.assert_allclose(found, mean, atol=0.1)  # four standard errors
    np.testing.assert_allclose(np.diag(spread), np.diag(covariance), rtol=0.35)


def test_experiments_of_a_source_count_as_one():
    """Ten copies of one experiment teach no more than it alone."""
    known, names = made_up(np.zeros(4), np.eye(4) * 0.04, 0.004, 6, 1, 1e-4)
    copies = [dataclasses.replace(known[0], name=f"copy {k}") for k in range(9)]
    once = _prior._random_effects(known, names)
    again = _prior._random_effects([*known, *copies], names)
    np.testing.assert_allclose(once[0], again[0], atol=1e-9)
    np.testing.assert_allclose(once[1], again[1], atol=1e-9)


def test_what_a_fit_leaves_open_weighs_little():
    known, names = made_up(np.zeros(4), np.eye(4) * 0.01, 0.004, 8, 2, 1e-4)
    mean, _, _ = _prior._random_effects(known, names)
    odd = dataclasses.replace(known[0], source="odd", mean=known[0].mean + 5.0,
                              covariance=np.eye(5) * 1e4)  # fmt: skip
    moved, _, _ = _prior._random_effects([*known, odd], names)
    np.testing.assert_allclose(moved, mean, atol=0.05)


def test_what_a_prior_rests_on_is_said_of_each_law():
    """Experiments of runs say nothing of how best settings move, recipes nothing of the rest."""
    prior, fewer = field_prior(), field_prior(without=["kempner", "lingle"])
    assert prior.rests_on(jl.laws.get("skaling")) == "27 experiments of 8 sources"
    of_settings = prior.rests_on(jl.laws.tuned("skaling"))
    assert of_settings == "27 experiments of 8 sources and 5 published recipes"
    assert fewer.rests_on(jl.laws.tuned("chinchilla")) == (
        "21 experiments of 7 sources and 4 published recipes"
    )
    assert prior.headline.startswith("27 experiments of 8 sources, 5 published recipes; a run")
    own = ledger_prior([Fitted(ladder(1.5))])
    assert own.rests_on(jl.laws.get("chinchilla")) == "1 experiment of 1 source, evaluation paloma"
    assert own.rests_on(jl.laws.get("skaling")) == "27 experiments of 8 sources"


def test_a_file_of_before_there_were_groups_and_recipes_is_read():
    record = field_prior().to_dict()
    for name in ("spread", "basis"):
        del record[name]
    prior = jl.fitting.Prior.from_dict(record)
    assert prior.spread == {} and prior.rests_on(jl.laws.get("skaling")).startswith("27 exp")
    del record["noise"]
    with pytest.raises(jl.DataError, match="noise"):
        jl.fitting.Prior.from_dict(record)


# --- one's own ledger


def ladder(floor, name="mine", size=0.02):
    mean = np.array([np.log(floor), 0.2, 0.0, -1.0, -1.0])
    return Experiment("lab", name, "paloma", "chinchilla", mean, np.eye(5) * size**2, 0.003, 30, {},
                      "")  # fmt: skip


class Fitted:
    def __init__(self, experiment):
        self.experiment = experiment


def test_a_ledger_draws_towards_its_own_and_tightens_with_each():
    wide = field_prior().covariances["chinchilla"]
    one = ledger_prior([Fitted(ladder(1.5))])
    two = ledger_prior([Fitted(ladder(1.5)), Fitted(ladder(1.52, "other"))])
    assert one.evaluation == "paloma" and one.coordinates["chinchilla"][0] == FLOOR
    assert one.means["chinchilla"][0] == pytest.approx(np.log(1.5), abs=0.01)
    assert one.means["chinchilla"][3] == pytest.approx(-1.0, abs=0.05)  # not the field's −0.9
    spread = [np.diag(p.covariances["chinchilla"]) for p in (one, two)]
    assert (spread[0][1:] < np.diag(wide)).all() and (spread[1] < spread[0]).all()
    # Laws of which the ledger has none are as the field has them.
    np.testing.assert_array_equal(one.means["skaling"], field_prior().means["skaling"])
    apart = ledger_prior([Fitted(ladder(1.3)), Fitted(ladder(1.8, "other"))])
    assert apart.covariances["chinchilla"][0, 0] > 1.5 * two.covariances["chinchilla"][0, 0]


def test_ladders_of_several_files_are_of_one_source_and_each_counts():
    """Each fit names its own file: how they vary is learned from all of them."""
    files = [dataclasses.replace(ladder(floor), source=f"{floor}.csv") for floor in (1.3, 1.8)]
    same = [dataclasses.replace(one, source="runs.csv") for one in files]
    several, one_name = (ledger_prior([Fitted(one) for one in each]) for each in (files, same))
    assert len(several.experiments) == len(one_name.experiments) == 2
    assert set(several.experiments["source"]) == {"own"}
    np.testing.assert_allclose(
        several.covariances["chinchilla"], one_name.covariances["chinchilla"], rtol=1e-9
    )
    near = ledger_prior([Fitted(ladder(1.5)), Fitted(ladder(1.52))])
    assert several.covariances["chinchilla"][0, 0] > 1.5 * near.covariances["chinchilla"][0, 0]


def test_ledgers_that_make_no_sense_are_refused(tmp_path):
    other = dataclasses.replace(ladder(1.5), evaluation="c4")
    with pytest.raises(jl.UsageError, match="several evaluations, 'c4', 'paloma'"):
        ledger_prior([Fitted(ladder(1.5)), Fitted(other)])
    assert ledger_prior([Fitted(ladder(1.5)), Fitted(other)], "c4").evaluation == "c4"
    with pytest.raises(jl.DataError, match="evaluation="):
        ledger_prior([])
    with pytest.raises(jl.UsageError, match="no folder"):
        ledger_prior(tmp_path / "none")
    (tmp_path / "notes.json").write_text("{}")
    with pytest.raises(jl.DataError, match="say nothing of a next experiment"):
        ledger_prior(tmp_path)
    with pytest.raises(jl.UsageError, match="prior is a float"):
        jl.fit("chinchilla", table(), prior=3.0)


@pytest.mark.full
def test_a_ledger_is_a_folder_of_saved_fits(tmp_path):
    fit = jl.fit("chinchilla", table(40, 0.004), evaluation="c4")
    assert fit.experiment.evaluation == "c4" and fit.experiment.runs == 40
    assert fit.experiment.ranges["N"] == pytest.approx(fit.ranges["N"])
    fit.save(tmp_path / "first.json")
    jl.fit("kaplan", table(40, 0.004), evaluation="c4").save(tmp_path / "kaplan.json")
    prior = _prior.prior_of(tmp_path)
    assert prior.evaluation == "c4" and len(prior.experiments) == 1
    assert np.exp(prior.means["chinchilla"][0]) == pytest.approx(TRUTH["E"], rel=0.1)
    assert prior.means["chinchilla"][3] == pytest.approx(np.log(TRUTH["alpha"]), abs=0.15)
    # In another unit of N: the same experiment.
    billions = table(40, 0.004).assign(N=lambda t: t.N / 1e9)
    again = jl.fit("chinchilla", billions, units={"N": 1e9, "D": 1}, evaluation="c4").experiment
    np.testing.assert_allclose(again.mean, fit.experiment.mean, atol=1e-4)
    np.testing.assert_allclose(again.covariance, fit.experiment.covariance, rtol=0.02)


# --- the objective


def problem_of(law="chinchilla", rows=3, **options):
    law, options = law_and_options(law, prior="field", **options)
    data = table(rows)
    inputs = {name: data[name].to_numpy() for name in ("N", "D")}
    return build_problem(law, inputs, data["loss"].to_numpy(), np.ones(rows), options)


@pytest.mark.parametrize("law", ["chinchilla", "skaling"])
def test_the_priors_gradient_and_hessian_are_those_of_its_value(law):
    with jax.enable_x64(True):
        problem = problem_of(law)
        start = problem.law.scale_free.to_params(3.0, dict(zip(
            problem.model.prior, problem.options.prior.means[law] + 0.1, strict=True)))  # fmt: skip
        at = problem.coordinates({k: np.asarray(v) for k, v in start.items()})
        value, gradient, hessian = prior_around(problem.model, problem.data, at)
        exact = scaled_prior(problem.model, problem.data, at)
        slope = jax.grad(lambda u: scaled_prior(problem.model, problem.data, u))(at)
    assert float(value) == pytest.approx(float(exact)) and float(value) > 0
    np.testing.assert_allclose(gradient, slope, rtol=1e-9)
    assert np.linalg.eigvalsh(np.asarray(hessian)).min() > -1e-9  # Gauss and Newton's


@pytest.mark.full
def test_a_fit_with_a_prior_is_the_optimum_that_scipy_finds():
    fit = jl.fit("chinchilla", table(4, 0.01), prior="field")
    law, options = law_and_options("chinchilla", prior=fit.prior)
    data = table(4, 0.01)
    with jax.enable_x64(True):
        problem = build_problem(law, {"N": data.N.to_numpy(), "D": data.D.to_numpy()},
                                data.loss.to_numpy(), np.ones(4), options)  # fmt: skip
        objective = jax.jit(lambda u: scaled_value(problem.model, problem.data, tuple(u)))
        at = problem.coordinates({k: np.asarray(v) for k, v in fit.params.items()})
        best = scipy.optimize.minimize(objective, at + 0.05, jac=jax.jit(jax.grad(objective)),
                                       method="BFGS", options={"gtol": 1e-10})  # fmt: skip
        evaluated = evaluate(problem.model, problem.data, at, problem.data.delta,
                             problem.data.delta)  # fmt: skip
        here = float(objective(at))
    assert here <= best.fun * (1 + 1e-9)
    np.testing.assert_allclose(at, best.x, atol=1e-4)
    np.testing.assert_allclose(evaluated[1].gradient, 0.0, atol=1e-6)
    # The objective that is reported is that of runs and prior together.
    scale = min(fit.delta, 1.0)
    assert fit.objective == pytest.approx(here * scale, rel=1e-6)


@pytest.mark.full
def test_three_runs_are_enough_and_many_outweigh_the_prior():
    few = jl.fit("chinchilla", table(3), prior="field")
    assert few.status == "converged" and few.agreement > 0.9
    assert np.exp(field_prior().means["chinchilla"][2]) * 0.7 < few.params["alpha"] < 0.55
    many = table(200, 0.003)
    free, held = jl.fit("chinchilla", many), jl.fit("chinchilla", many, prior="field")
    at = {"N": 7e9, "D": 2e11}
    assert float(held.predict(at)) == pytest.approx(float(free.predict(at)), rel=3e-3)
    assert held.prior.noise == pytest.approx(0.003, rel=0.2)
    with pytest.raises(jl.DataError, match="3 rows"):
        jl.fit("chinchilla", table(3))


@needs_data
@pytest.mark.full
@pytest.mark.parametrize("count", [3, 4, 6])
def test_what_few_runs_leave_open_and_the_prior_does_not_is_information(count):
    """Llama's runs of 20 tokens a parameter or so: alone they say nothing of two of six numbers."""
    t = pd.read_csv(f"{DATA}/isoflops.csv")
    t = t[t.experiment.str.startswith("llama") & ~t.outlier]
    t = t.assign(N=t.params, D=t.tokens, C=t.params * t.tokens).sort_values("C")
    near = t[(t.D / t.N - 20).abs() < 8]
    few = near.iloc[np.linspace(0, len(near) - 1, count).round().astype(int)][["N", "D", "loss"]]
    fit = jl.fit("skaling", few, prior=field_prior(without="llama"))
    notes = {note.code: note for note in fit.notes}
    assert not {"unidentifiable", "loose"} & set(notes) and fit.success
    decides = notes["prior-decides"]
    assert decides.severity == "info" and not decides.inherited
    assert "log of the coupling of the two terms" in decides.message
    plan = jl.planning.allocation(jl.bootstrap(fit, few, 60), 1e22)
    assert "doubtful-fit" not in {note.code for note in plan.notes}
    assert plan.interval["N"][0] < plan.N < plan.interval["N"][1]


def test_a_direction_that_neither_runs_nor_prior_see_is_still_a_warning():
    of_runs, of_prior = np.diag([4.0, 0.0, 0.0]), np.diag([0.0, 9.0, 0.0])
    known = PriorEvidence(np.eye(3), of_runs, of_prior, 1.0, 1.0, {}, 0.5, "alpha", 0.0)
    names, every = ["A", "B", "z"], np.arange(3)
    assert known.root_of_covariance(every) is None
    assert _undetermined(known.root_of_information(every), names)[0] == ["z"]
    assert _undetermined(known.root_of_information(every[:2]), names[:2]) == ([], "")
    root = known.root_of_covariance(every[:2])
    np.testing.assert_allclose(root.T @ root, np.diag([1 / 4, 1 / 9]))


def test_a_prior_that_knows_nothing_of_the_law_says_so_and_changes_nothing():
    runs = jl.simulate.experiment("loss-size", noise=0.003).table
    alone = jl.fit("loss-size", runs, n_starts=64)
    asked = jl.fit("loss-size", runs, n_starts=64, prior="field")
    assert [note.code for note in asked.notes] == [*(n.code for n in alone.notes), "no-prior"]
    assert (asked.params, asked.delta, asked.prior) == (alone.params, alone.delta, None)
    assert "no-prior: the prior knows nothing of law loss-size" in asked.summary()


def test_what_a_prior_cannot_go_with_is_refused():
    with pytest.raises(jl.UsageError, match="alpha is fixed or tied"):
        jl.fit("chinchilla", table(), prior="field", fixed={"alpha": 0.3})
    with pytest.raises(jl.UsageError, match="relative noise"):
        jl.fit("chinchilla", table(), prior="field", residuals="linear")


@pytest.mark.full
def test_runs_that_contradict_the_prior_are_noted_and_outweigh_it():
    steep = TRUTH | {"alpha": 1.1, "A": 400.0 * 1e8**0.76}
    near = jl.fit("chinchilla", table(12, 0.003), prior="field")
    far = jl.fit("chinchilla", table(12, 0.003, p=steep), prior="field")
    assert "prior-conflict" not in {note.code for note in near.notes}
    (note,) = (note for note in far.notes if note.code == "prior-conflict")
    assert "exponent with which the size's term falls" in note.message and "above" in note.message
    assert far.params["alpha"] > 0.75


@pytest.mark.full
def test_the_check_for_a_conflict_is_calibrated():
    """Experiments drawn from the prior itself are noted in about 5 %."""
    law, prior = jl.laws.get("chinchilla"), field_prior()
    p_values = []
    draws = prior.sample(law, 41, seed=5)[1:]
    random = np.random.default_rng(0)
    data = table(10)
    for values in draws:
        named = dict(zip(prior.coordinates["chinchilla"], values, strict=True))
        params = {k: float(v) for k, v in law.scale_free.to_params(3.0, named).items()}
        loss = chinchilla(data.N, data.D, params) * np.exp(0.005 * random.standard_normal(10))
        runs = jl.read_runs(data.assign(loss=loss), units={"N": 1, "D": 1})
        _, options = law_and_options("chinchilla", prior=prior)
        seen = runs.observations(law, free=())
        options = with_noise(law, seen, options)
        fit = jl.fit("chinchilla", runs, prior=prior)
        with jax.enable_x64(True):
            problem = build_problem(law, seen.inputs, seen.target, seen.weight, options)
            at = problem.coordinates({k: np.asarray(v) for k, v in fit.params.items()})
        p_values.append(prior_evidence(problem, at).p_value)
    assert np.mean(np.array(p_values) < 0.05) <= 0.15
    assert 0.3 < np.mean(p_values) < 0.75


def test_scatter_beyond_that_of_earlier_experiments_is_noted_as_seldom_as_promised():
    """Noise that varies as the prior takes it: half of 5 % are noted, by this check."""
    prior, random = field_prior(), np.random.default_rng(0)
    draws = 4000
    for rows, determined in ((4, 3.2), (12, 5.0), (60, 6.0)):
        noise = prior.noise * np.sqrt(4 / random.chisquare(4, draws))
        # Residuals of so many free rows: what a fit leaves of the noise has this sum of squares.
        size = noise * np.sqrt(random.chisquare(rows - determined, draws) / rows)
        noted = [bool(scatter_notes(prior, np.full(rows, s), determined)) for s in size]
        assert np.mean(noted) == pytest.approx(0.025, abs=0.008)
    (note,) = scatter_notes(prior, np.full(12, 0.03), 5.0)
    assert "scatter so much" in note.message and "3.93% off the law" in note.message
    assert scatter_notes(prior, np.full(3, 0.03), 3.0) == []  # no row is left to show it
    # A prior that was used before says nothing here of the runs it was used for.
    again = dataclasses.replace(prior, notes=(note,))
    assert scatter_notes(again, np.full(12, 0.001), 5.0) == []


def test_runs_that_scatter_are_noted_in_a_fit():
    noisy = jl.fit("chinchilla", table(12, 0.05), prior="field")
    (note,) = (note for note in noisy.notes if note.code == "prior-conflict")
    assert "scatter so much" in note.message and note.inherited
    clean = jl.fit("chinchilla", table(12, 0.003), prior="field")
    assert "prior-conflict" not in {note.code for note in clean.notes}


@pytest.mark.full
def test_a_bootstrap_with_a_prior_draws_from_the_posterior():
    boot = jl.bootstrap("chinchilla", table(3), n_resamples=64, prior="field", progress=False)
    assert boot.kind == "posterior" and len(boot) == 64
    spread = np.std(np.log(boot.params["alpha"]))
    wide = np.sqrt(np.diag(field_prior().covariances["chinchilla"]))[2]
    assert 0.3 * wide < spread < 1.2 * wide  # three runs determine a little of it
    many = jl.bootstrap("chinchilla", table(60, 0.003), n_resamples=64, prior="field")
    assert np.std(np.log(many.params["alpha"])) < spread / 3
    with pytest.raises(jl.UsageError, match="posterior"):
        jl.bootstrap("chinchilla", table(3), n_resamples=40, prior="field", kind="wild")
    with pytest.raises(jl.UsageError, match=r"this fit has a prior"):
        jl.identifiability("chinchilla", table(8, 0.003), prior="field")


@pytest.mark.full
def test_gradients_through_a_batch_with_a_prior():
    data = table(3)
    inputs = {"N": data.N.to_numpy(), "D": data.D.to_numpy()}

    def exponent(loss):
        return jl.fit_batch("chinchilla", inputs, loss, starts=8, prior="field").params["alpha"][0]

    with jax.enable_x64(True):
        loss = data.loss.to_numpy()
        slope = jax.grad(exponent)(loss)
        step = 1e-4 * np.eye(3)[1]
        measured = (exponent(loss + step) - exponent(loss - step)) / 2e-4
    assert float(slope[1]) == pytest.approx(float(measured), rel=1e-4)


def test_noise_is_the_priors_and_the_runs():
    prior = field_prior()
    clean = prior.with_noise(np.full(3, 1e-4), 2.9)
    assert 0.8 * prior.noise < clean.noise <= prior.noise
    noisy = prior.with_noise(np.random.default_rng(0).normal(0, 0.03, 300), 5)
    assert noisy.noise == pytest.approx(0.03, rel=0.1)
    outlier = prior.with_noise(np.r_[np.full(30, 0.004), 0.5], 5)
    assert outlier.noise < 0.01


def test_every_coordinate_has_a_spread_before_any_experiment():
    for law in LAWS:
        assert {FLOOR, *_prior._names(law)} <= set(SPREAD)


# --- how best settings move


def test_recipes_say_what_they_printed_and_leave_open_what_they_did_not():
    of_recipe = {one.source: one for one in _prior.recipes()}
    names = list(_prior.field_prior().coordinates["tuned"])
    assert names == ["lr_N", "lr_D", "batch_N", "batch_D"] and "stepfun" not in of_recipe
    deepseek, along = of_recipe["deepseek"], np.array([0.524, 0.476, 0.0, 0.0])
    assert along @ deepseek.mean[1:] == pytest.approx(-0.125, abs=1e-3)
    spread = deepseek.covariance[1:, 1:]
    assert along @ spread @ along < 0.06**2  # of a power of C it knows the sum, and no more
    across = np.array([1.0, -1.0, 0.0, 0.0])
    assert across @ spread @ across > 1.0
    assert (np.sqrt(np.diag(of_recipe["cerebras"].covariance[1:, 1:]))[:2] > 1.0).all()


def test_a_tuned_law_is_known_by_its_base_and_its_recipes():
    prior, law = field_prior(), jl.laws.tuned("chinchilla")
    assert prior.knows(law) and prior.coordinates_of(law)[4:] == prior.coordinates["tuned"]
    mean, spread = prior.mean_of(law), prior.covariance_of(law)
    assert mean[:4] == pytest.approx(prior.means["chinchilla"])
    assert spread[4:, 4:] == pytest.approx(prior.covariances["tuned"]) and not spread[:4, 4:].any()
    fewer = field_prior(without=["lingle", "openeurollm"])
    assert np.diag(fewer.covariances["tuned"])[0] > np.diag(prior.covariances["tuned"])[0]
    assert fewer.means["chinchilla"] == pytest.approx(prior.means["chinchilla"])
    assert not prior.knows(jl.laws.tuned("chinchilla", "lr"))
    # Each group has exponents of its own, of which no recipe speaks.
    assert not prior.knows(jl.laws.get("tuned-chinchilla[lr_0 of a|b]"))
    with pytest.raises(jl.UsageError, match="a fit of law tuned-chinchilla with a prior"):
        jl.fit(law, {"N": [1e8]}, prior="field", fixed={"g": 2.0})


@pytest.mark.full
def test_where_one_size_was_swept_recipes_say_how_the_best_settings_move():
    """Four cells of one size say nothing of the power of N: alone, it went to a bound."""
    truth, random = jl.simulate.TRUTHS["tuned-skaling"], np.random.default_rng(0)
    lr, batch, D = (
        axis.ravel()
        for axis in np.meshgrid(
            np.geomspace(3e-4, 8e-3, 6), 2.0 ** np.arange(17, 22), [4e9, 1e10, 3e10, 1e11]
        )
    )
    # Each cell has a bowl of its own, some 20 % off the law's.
    lr_off = np.exp(0.2 * random.standard_normal(4))[np.unique(D, return_inverse=True)[1]]
    law = jl.laws.tuned("chinchilla")
    own = jl.laws.get("tuned-skaling")
    with jax.enable_x64(True):
        loss = np.asarray(own(truth, N=np.full(len(D), 3e8), D=D, lr=lr * lr_off, batch=batch))
    loss = loss * np.exp(0.001 * random.standard_normal(len(D)))
    runs = pd.DataFrame({"N": 3e8, "D": D, "lr": lr, "batch": batch, "loss": loss})
    fit = jl.fit(law, runs, prior="field")
    assert fit.success and "at-bound" not in {note.code for note in fit.notes}
    prior = field_prior()
    for name, mean in zip(prior.coordinates["tuned"], prior.means["tuned"], strict=True):
        if name.endswith("_N"):
            assert fit.params[name] == pytest.approx(mean, abs=0.05)
    apart, cells = (
        jl.covariance(fit, runs, groups=groups).conf_int().set_index("parameter")["std_err"]
        for groups in (None, ["N", "D"])
    )
    assert apart["lr_N"] == pytest.approx(np.sqrt(prior.covariances["tuned"][0, 0]), rel=0.1)
    # Rows of a cell miss the law together: how the best rate moves with D is known from four cells.
    assert apart["lr_D"] < 0.03 < cells["lr_D"] < 0.3
