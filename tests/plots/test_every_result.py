"""Every result can be drawn; those of a question are drawn again from their files."""

import importlib

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import fitting, forecasting, papers, planning
from jaxlaw._result import _PACKAGES, RESULTS, Result
from tests.conftest import named, texts
from tests.fixtures.drawn_laws import DOMAIN, GENERAL, SCRATCH, drawn

plots = pytest.importorskip("jaxlaw.plots")
pytestmark = pytest.mark.usefixtures("closed")

#: Result without a picture → why it has none.
WITHOUT = {
    "answer": "what all plans share, never an answer by itself",
    "answer table": "the same of tables",
}


def test_every_result_has_a_picture():
    for package in _PACKAGES:
        face = importlib.import_module(f"jaxlaw.{package}")
        for name in face.__all__:
            getattr(face, name)
    own = {kind: one for kind, one in RESULTS.items() if one.__module__.startswith("jaxlaw.")}
    without = [k for k, one in own.items() if not one.picture and one.plot is Result.plot]
    assert sorted(without) == sorted(WITHOUT)
    assert [
        one.picture for one in own.values() if one.picture and one.picture not in dir(plots)
    ] == []


def from_its_file(result, folder):
    """What is written in the picture of a result, as made and as read; the former's axes."""
    result.save(folder / "result.json")
    ax, read = result.plot(), jl.load(folder / "result.json").plot()
    assert seen(read) == seen(ax)
    return ax


def seen(ax):
    limits = np.round([*ax.get_xlim(), *ax.get_ylim()], 12).tolist()
    return ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), limits, texts(ax)


def last_dot(ax):
    return tuple([c.get_offsets()[0] for c in ax.collections if len(c.get_offsets()) == 1][-1])


BUDGET = planning.Budget(1e21)


def test_a_budget_is_a_curve_of_equal_compute_with_the_best_size(tmp_path):
    fit = drawn(SCRATCH)
    plan = planning.minimise(fit, {"N": None, "D": None}, subject_to=[BUDGET])
    ax = from_its_file(plan, tmp_path)
    x, y = ax.lines[0].get_data()
    tokens = 1e21 / 6 / x
    np.testing.assert_allclose(y, fit.fit.predict(N=x, D=tokens), rtol=1e-9)
    assert last_dot(ax) == pytest.approx((plan.best["N"], plan.loss))
    assert "band: 95% of draws" in ax.get_title() and "binding: compute" in ax.get_title()
    assert f"N {plan.written('N')}" in texts(ax)[0] and "parameters" in texts(ax)[0]
    assert ax.get_xlim() == pytest.approx((x[0], x[-1]))


@pytest.mark.full
def test_the_least_compute_to_a_loss_ends_where_the_loss_is_out_of_reach(tmp_path):
    fit = drawn(SCRATCH).fit
    goal, limit = planning.Compute(served_tokens=1e11), planning.AtMost(fit, 2.3)
    plan = planning.minimise(goal, {"N": None, "D": None}, subject_to=[limit])
    ax = from_its_file(plan, tmp_path)
    x, y = ax.lines[0].get_data()
    assert np.isnan(y[0]) or y[0] > 5 * plan.compute
    tokens = (y - 2 * x * 1e11) / 6 / x  # what is left for the training
    np.testing.assert_allclose(
        fit.predict(N=x[~np.isnan(y)], D=tokens[~np.isnan(y)]), 2.3, rtol=1e-6
    )
    assert last_dot(ax) == pytest.approx((plan.best["N"], plan.compute))
    assert ax.get_ylabel() == "compute (FLOPs)"


def test_a_share_is_drawn_up_to_the_limit_of_the_other_loss(tmp_path):
    limit = planning.AtMost(GENERAL, 2.884, rest=("r",), label="general")
    at = {"N": 1.8, "D": 2.0}
    plan = planning.minimise(DOMAIN, {"r": None}, subject_to=[limit], at=at)
    ax = from_its_file(plan, tmp_path)
    x, y = ax.lines[0].get_data()
    assert x[~np.isnan(y)].max() == pytest.approx(plan.best["r"], abs=0.01)
    assert ax.get_xlim() == (0, 1) and ax.get_xscale() == "linear"


@pytest.mark.full
def test_two_inputs_are_contours_and_no_answer_is_said(tmp_path, ax):
    fit, over = ("tuned-skaling", jl.simulate.TRUTHS["tuned-skaling"]), {"lr": (1e-5, 0.1)}
    over |= {"batch": (1e4, 1e8)}
    plan = planning.minimise(fit, over, at={"N": 1e9, "D": 2e10})
    drawn_ax = from_its_file(plan, tmp_path)
    assert last_dot(drawn_ax) == pytest.approx((plan.best["lr"], plan.best["batch"]))
    limit = planning.AtMost(GENERAL, 1.0, rest=("r",))
    none = planning.minimise(DOMAIN, {"r": None}, subject_to=[limit], at={"N": 1.8, "D": 2.0})
    assert "none-allowed" in {note.code for note in none.notes}
    assert "no values keep all limits" in none.plot(ax).get_title() and not ax.lines
    goal = planning.Compute()
    unreached = planning.minimise(
        goal, {"N": (1e8, 1e9), "D": (1e9, 1e10)}, subject_to=[planning.AtMost(SCRATCH, 2.0)]
    )
    assert "no values keep all limits" in unreached.plot().get_title()
    paid = planning.minimise(
        goal, {"D": None}, subject_to=[planning.AtMost(SCRATCH, 2.3)], at={"N": 7e9}
    )
    with pytest.raises(jl.UsageError, match="a limit determines D: there is nothing to draw over"):
        paid.plot()


def test_a_solution_is_where_the_curve_meets_the_loss(tmp_path):
    fit = drawn(SCRATCH)
    plan = planning.solve(fit, "D", 2.3, at={"N": 7e9})
    ax = from_its_file(plan, tmp_path)
    assert last_dot(ax) == pytest.approx((plan.value, 2.3))
    x, y = ax.lines[0].get_data()
    assert np.interp(np.log(plan.value), np.log(x), y) == pytest.approx(2.3, rel=1e-4)
    assert "loss 2.3 nats" in texts(ax) and f"D {plan.written('D')}" in texts(ax)
    runs = {"N": [7e9, 7e9, 1e9], "D": [1e10, 1e11, 1e10], "loss": [2.6, 2.4, 2.9]}
    ax = plan.plot(runs=runs)  # of this size
    assert [len(c.get_offsets()) for c in ax.collections].count(2) == 1
    beyond = planning.solve(fit, "D", 1.0, at={"N": 7e9}).plot()
    assert "never reached" in beyond.get_title()


def test_larger_batches_need_more_tokens_and_fewer_steps(tmp_path):
    source = drawn(("tuned-skaling", jl.simulate.TRUTHS["tuned-skaling"]))
    plan = planning.critical_batch_size(source, at={"N": 7e9, "D": 1e12})
    ax = from_its_file(plan, tmp_path)
    assert last_dot(ax) == pytest.approx((plan.batch, 1.2))
    (x, tokens), (_, steps), (_, at_no_cost) = (line.get_data() for line in ax.lines[:3])
    assert np.interp(plan.batch, x, tokens) == pytest.approx(1.2)
    assert np.interp(plan.batch, x, steps) == pytest.approx(plan.steps / plan.best_steps)
    assert (steps[1:] > at_no_cost[1:]).all() and {"tokens", "steps"} <= {*named(ax)}
    law = jl.laws.tuned("skaling", "batch")
    flat = {n: source.fit.params[n] for n in law.parameter_names} | {"h_batch": 1e-7, "s_batch": -5}
    none = planning.critical_batch_size((law, flat), at={"N": 7e9, "D": 1e12})
    assert np.isinf(none.batch) and not texts(none.plot())


@pytest.mark.full
def test_tokens_per_parameter_is_the_bottom_of_the_compute(tmp_path):
    plan = planning.tokens_per_parameter(drawn(SCRATCH), 2.3, served_tokens=1e11)
    ax = from_its_file(plan, tmp_path)
    ratio, compute = ax.lines[0].get_data()
    assert np.nanmin(compute) == pytest.approx(plan.compute, rel=2e-3)
    assert ratio[np.nanargmin(compute)] == pytest.approx(plan.ratio, rel=0.1)
    assert last_dot(ax) == pytest.approx((plan.ratio, plan.compute))
    nowhere = planning.tokens_per_parameter(SCRATCH, 1.0).plot()
    assert "out of reach" in nowhere.get_title() and "loss of 1 nats" in nowhere.get_title()


PT, CPT = (jl.published()[f"wang-2025-{name}"] for name in ("pt", "cpt"))


@pytest.mark.full
def test_a_continual_run_is_drawn_from_its_file(tmp_path):
    base = planning.Pretraining(steps=40_000, peak=2e-4)
    run = planning.ContinualPretraining(base, steps=10_000, peak=1e-4, warmup=500)
    best = planning.optimal_training(PT, CPT, run, 0.6, {"replay": (0, 1)})
    ax = from_its_file(best, tmp_path)
    assert last_dot(ax) == pytest.approx((0.6, best.replay))
    given = planning.ContinualPretraining(
        jl.schedules.constant(1e-3, 50), 1, 1e-3, shape="constant"
    )
    back = planning.turning_length(PT, given)
    assert from_its_file(back, tmp_path).get_xlabel() == "continual steps"
    both = planning.turning_length(PT, given, cpt=CPT, weight=0.9)
    ax = from_its_file(both, tmp_path)
    assert any(text.startswith("λ1 = 0.9: ") for text in texts(ax))


def test_a_law_of_the_data_transferred_goes_through_its_points(tmp_path):
    D, N = np.tile(np.geomspace(1e8, 1e10, 5), 3), np.repeat([1e8, 3e8, 1e9], 5)
    transferred = 2 * D**0.6 * N**0.3
    transferred[0] = -1.0
    law = papers.transfer_law({"N": N, "D": D, "transferred": transferred})
    ax = from_its_file(law, tmp_path)
    assert [len(c.get_offsets()) for c in ax.collections] == [4, 5, 5]
    assert named(ax) == ["N = 1 B", "N = 300 M", "N = 100 M"]
    assert "1 points that transfer nothing are not shown" in ax.get_title()


def test_scores_over_compute_and_corpora_ranked(tmp_path):
    compute = np.geomspace(1e20, 1e24, 9)
    score = 0.3 + 0.1 * np.arange(9) / 2
    columns = {"compute": compute, "score": score, "low": score - 0.05, "high": score + 0.05}
    curves = pd.DataFrame({"task": "mmlu", **columns})
    table = pd.DataFrame({"task": ["mmlu", "arc"], "score": 0.5, "compute": [1e22, np.inf]})
    table = table.assign(compute_low=[5e21, 1e24], compute_high=[2e22, np.inf])
    found = forecasting.ScoreCompute(table, 0.9, 20.0, (), curves, 1e21)
    ax = from_its_file(found, tmp_path)
    assert last_dot(ax) == pytest.approx((1e22, 0.5)) and named(ax) == ["mmlu"]
    assert "0.5 at 1e22 FLOPs" in texts(ax) and "beyond the runs" in texts(ax)
    # Numbers of many tasks would lie over one another.
    names = list("abcde")
    curves = pd.concat([curves.assign(task=name) for name in names])
    many = pd.concat([table[:1].assign(task=name) for name in names], ignore_index=True)
    ax = from_its_file(forecasting.ScoreCompute(many, 0.9, 20.0, (), curves, 1e21), tmp_path)
    assert sorted(named(ax)) == names and "bands" not in ax.get_title()
    assert not any("0.5 at" in text for text in texts(ax))
    shares = {"by_forecast": [0.9, 0.4], "by_largest_run": [0.7, 0.6]}
    made = {"task": ["mmlu", "arc"], "pairs": [10, 10], "clear": [6, 3], **shares}
    made |= {f"clear_{name}": values for name, values in shares.items()}
    ax = from_its_file(forecasting.DecisionAccuracy(pd.DataFrame(made)), tmp_path)
    assert (
        ax.get_xlim()[0] < 0.4
        and [t.get_text() for t in ax.get_yticklabels()][0] == "mmlu (10 pairs)"
    )


# --- the prior


def test_a_prior_alone_shows_what_earlier_experiments_say(tmp_path):
    prior = fitting.field_prior()
    ax = from_its_file(prior, tmp_path)
    assert len(ax.get_yticklabels()) == len(prior.coordinates["skaling"])
    assert "27 experiments of 8 sources" in ax.get_title() and "blue" not in ax.get_title()
    assert "N\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}100" in ax.get_yticklabels()[0].get_text()
    with pytest.raises(jl.UsageError, match="nothing of law kaplan"):
        prior.plot(law="kaplan")


def test_a_fit_beside_the_prior_has_its_natural_values():
    """Of draws the interval is theirs; of a fit of parameters alone there is none."""
    made = drawn(SCRATCH)
    ax = plots.prior_and_runs(made)
    prior, params = fitting.field_prior(), made.values
    alpha = np.quantile(params["alpha"][1:], [0.025, 0.975])
    assert f"{params['alpha'][0]:.3g}  ({alpha[0]:.3g} to {alpha[1]:.3g})" in texts(ax)
    assert "these runs alone" in ax.get_title()
    row = prior.coordinates["chinchilla"].index("alpha")
    centre, spread = prior.means["chinchilla"], np.sqrt(np.diag(prior.covariances["chinchilla"]))
    z = (np.log(params["alpha"][0]) - centre[row]) / spread[row]
    dots = next(c.get_offsets() for c in ax.collections if len(c.get_offsets()) == 4)
    assert tuple(dots[row]) == pytest.approx((z, row))
    assert f"{params['alpha'][0]:.3g}" in texts(plots.prior_and_runs(made.fit))


def test_powers_with_which_best_settings_move_are_drawn_as_they_are():
    prior = jl.fitting.field_prior()
    ax = plots.prior_and_runs(prior, law="tuned-chinchilla")
    rows = [label.get_text().replace("\n", " ") for label in ax.get_yticklabels()]
    assert rows[-4] == "power of N with which the best rate moves (lr_N)"
    mean = prior.means["tuned"][0]
    assert "5 published recipes" in ax.get_title()
    assert len(rows) == 8 and any(text.startswith(f"{mean:.3g}  (") for text in texts(ax))
    assert mean < 0
