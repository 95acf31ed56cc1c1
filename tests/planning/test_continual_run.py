"""The best continual run of so many tokens: against the truth, step by step, and in tokens."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import DataError, UsageError, simulate
from jaxlaw.data import areas_along
from jaxlaw.data._row_areas import area_options
from jaxlaw.planning import ContinualPretraining, continual_run, optimal_training
from jaxlaw.planning.continual import _after, _seen
from tests.conftest import DATA, needs_data
from tests.planning.test_continual import CPT, PT, as_fit, bootstrap

BASE = "wsd:peak=2e-4,steps=40000,final=2e-5"
COLUMNS = {"r_g": "replay", "loss_g": "loss_pt", "loss_d": "loss_cpt"}
# A single searched setting, so that the program is small.
ONE = {"peak": (2e-4, 2e-4), "steps": (10_000, 10_000), "decay": (0.5, 0.5)}
GIVEN = {"tokens": 20e9, "batch_tokens": 2e6, "weight": 0.6, "base": BASE}


def log(every=5_000, noise=0.0):
    return simulate.continual_curves(noise=noise, every=every).table


def curves(table=None, **options):
    table = log() if table is None else table
    return jl.read_loss_curves(table, COLUMNS, corpus="general", **options)


def plan_of_truth(**more):
    return continual_run(PT, CPT, **{**GIVEN, "over": ONE, **more})


def lowest(given, schedule, replay, weight=0.6):
    """λ1·L_pt + λ2·L_cpt at the end of a schedule, step by step."""
    areas = areas_along(schedule, np.array([len(schedule)]), area_options())
    losses = []
    for (name, truth), share in zip(given, (replay, 1 - replay), strict=True):
        law = jl.laws.get(name)
        inputs = {key: float(values[0]) for key, values in areas.items()} | {"r": share}
        losses.append(float(law(truth, **{key: inputs[key] for key in law.input_names})))
    return losses, weight * losses[0] + (1 - weight) * losses[1]


def test_the_answer_is_that_of_the_plan_with_a_run_by_numbers():
    plan = plan_of_truth()
    run = ContinualPretraining(
        jl.data.as_schedule(BASE), 10_000, 2e-4, shape="wsd", decay=0.5, warmup=100
    )
    best = optimal_training(PT, CPT, run, 0.6, {"replay": (0, 1)})
    for name in ("replay", "peak", "steps", "loss_pt", "loss_cpt", "change_pt", "change_cpt"):
        assert getattr(plan, name) == pytest.approx(getattr(best, name), rel=1e-6), name
    assert plan.weighted == pytest.approx(best.objective, rel=1e-9)
    assert plan.binding == "none: the optimum is inside its ranges"
    # The losses are those of the rates, step by step, which nothing else gives.
    schedule = jl.schedules.parse(f"{BASE}+{plan.schedule}")
    losses, weighted = lowest((PT, CPT), schedule, plan.replay)
    assert [plan.loss_pt, plan.loss_cpt] == pytest.approx(losses, rel=1e-5)
    assert plan.weighted == pytest.approx(weighted, rel=1e-5)
    assert schedule.boundary == 40_000 and len(schedule) == 50_000


def test_tokens_are_steps_of_a_batch():
    plan = plan_of_truth()
    twice = plan_of_truth(tokens="40B", batch_tokens="4M")
    assert (twice.steps, twice.tokens) == (plan.steps, 2 * plan.tokens) == (10_000, 40e9)
    assert twice.replay == plan.replay and twice.loss_pt == plan.loss_pt
    assert plan.quantities["tokens"].unit == "tokens"
    # Tokens that are no whole number of updates are not exceeded.
    odd = plan_of_truth(tokens=20e9 + 1.9e6, over={**ONE, "steps": (10_000, 10_000)})
    assert odd.tokens == 20e9
    tiny = plan_of_truth(tokens=1e7, batch_tokens=512)  # sequences
    assert "small-batch" in tiny.summary() and "small-batch" not in odd.summary()


def test_the_trade_off_and_the_picture():
    pytest.importorskip("matplotlib")
    plan = plan_of_truth()
    assert list(plan.table["weight"]) == pytest.approx(list(np.linspace(0, 1, 21)))
    assert plan.table["replay"].is_monotonic_increasing
    assert plan.table["loss_pt"].is_monotonic_decreasing
    row = plan.table.iloc[12]
    assert row["weight"] == pytest.approx(0.6) and row["replay"] == pytest.approx(plan.replay)
    assert "runs" not in plan.tables and not plan.interval and not plan.flat
    ax = plan.plot()
    assert "new corpus" in ax.get_ylabel()
    assert any("20 B tokens, 67.2% replay" in text.get_text() for text in ax.texts)


def test_the_runs_stand_beside_the_trade_off():
    seen = curves()
    plan = continual_run(PT, CPT, curves=seen, **{**GIVEN, "over": ONE, "base": "wsd"})
    assert len(plan.runs) == 20  # three runs are bases alone
    run = plan.runs.set_index("run").loc["wsd then cosine replay 0.2"]
    last = seen.table[seen.table["run"] == run.name].iloc[-1]
    assert (run["replay"], run["peak"], run["steps"], run["tokens"]) == (0.2, 2e-4, 1e4, 2e10)
    assert (run["loss_pt"], run["loss_cpt"]) == (last["loss_g"], last["loss_d"])
    assert run["weighted"] == pytest.approx(0.6 * last["loss_g"] + 0.4 * last["loss_d"])
    # Shares outside those of the runs are not searched.
    assert plan.searched == {"replay": (0.0, 0.8)}
    text = plan.summary()
    assert "20 B tokens (10,000 steps)" in text and plan.runs["run"].iloc[0] in text
    percent = curves(log().assign(replay=lambda t: t["replay"] * 100), units={"r_g": 0.01})
    assert continual_run(PT, CPT, curves=percent, **{**GIVEN, "over": ONE, "base": "wsd"}).runs[
        "replay"
    ].max() == pytest.approx(0.8)


def test_draws_give_intervals():
    plan = continual_run(
        bootstrap(PT, 40, 0.002), bootstrap(CPT, 40, 0.002, 1), **{**GIVEN, "over": ONE}
    )
    low, high = plan.interval["loss_pt"]
    assert low < plan.loss_pt < high and {"replay", "loss_cpt", "weighted"} <= set(plan.interval)
    assert "replay 67.2% (90%: " in " ".join(plan.headline.split())
    assert {"loss_pt_low", "loss_pt_high", "replay_low"} <= set(plan.table)


def test_no_resamples_give_no_intervals_of_fits():
    covariance = {"L0": {"L0": 1e-4}}
    errors = jl.fitting.StandardErrors(values={"L0": 0.01}, covariance=covariance, degrees=30)
    fit, given = dataclasses.replace(as_fit(PT), standard_errors=errors), {**GIVEN, "over": ONE}
    assert continual_run(fit, CPT, **given).interval
    assert not continual_run(fit, CPT, n_resamples=0, **given).interval


def test_how_far_a_setting_may_move_at_no_cost():
    noise = 0.002
    fits = [dataclasses.replace(as_fit(each), metrics={"rmse_log": noise}) for each in (PT, CPT)]
    plan = continual_run(*fits, **{**GIVEN, "over": ONE})
    low, high = plan.flat["replay"]
    assert low < plan.replay < high

    def rise(replay):
        schedule = ContinualPretraining(
            jl.data.as_schedule(BASE), 10_000, 2e-4, replay=replay, shape="wsd", decay=0.5,
            warmup=100,
        ).schedule()  # fmt: skip
        return lowest((PT, CPT), schedule, replay)[1] / plan.weighted - 1

    assert max(rise(low), rise(high)) < noise < min(rise(low - 0.02), rise(high + 0.02))
    assert (
        f"replay {100 * low:.3g} to {100 * high:.3g}% lies within a run's noise" in plan.summary()
    )


@pytest.mark.full
def test_no_run_near_it_is_better():
    plan = plan_of_truth(over={})
    assert plan.binding == "peak LR at its upper bound (0.0002) and the tokens"
    base, random = jl.data.as_schedule(BASE), np.random.default_rng(0)
    for _ in range(200):
        near = {
            "replay": np.clip(plan.replay + 0.1 * random.standard_normal(), 0, 1),
            "peak": min(plan.peak * np.exp(0.2 * random.standard_normal()), 2e-4),
            "steps": min(round(plan.steps * np.exp(0.2 * random.standard_normal())), 10_000),
            "decay": np.clip(plan.decay + 0.1 * random.standard_normal(), 0.05, 1),
        }
        run = ContinualPretraining(base, shape="wsd", warmup=100, **near)
        assert lowest((PT, CPT), run.schedule(), near["replay"])[1] > plan.weighted - 1e-5


@pytest.mark.night
def test_logs_bring_back_the_plan_of_the_truth():
    logs = curves(log(every=1_000, noise=0.002))
    given = {**GIVEN, "base": "wsd"}
    plan = continual_run(logs, n_resamples=60, level=0.95, **given)
    truth = continual_run(PT, CPT, curves=logs, **given)
    assert plan.binding == truth.binding and plan.searched == truth.searched
    assert plan.replay == pytest.approx(truth.replay, abs=0.03)
    for name in ("loss_pt", "loss_cpt", "weighted"):
        low, high = plan.interval[name]
        assert low < getattr(truth, name) < high and high - low < 0.03
    assert set(plan.flat) == {"replay", "peak", "decay", "tokens"}
    assert plan.flat["replay"][0] < truth.replay < plan.flat["replay"][1]


@needs_data
@pytest.mark.night
def test_real_runs_at_five_shares():
    table = pd.read_csv(f"{DATA}/continual_70m.csv")
    table = table[table["domain"].isin(["PILE_WEIGHTED", "python"]) & (table["step"] > 0)]
    wide = table.pivot(index=["run_id", "step", "pile_ratio"], columns="domain", values="loss")
    columns = {"run": "run_id", "r_g": "pile_ratio", "loss_g": "PILE_WEIGHTED", "loss_d": "python"}
    logs = jl.read_loss_curves(
        wide.reset_index().assign(phase="cpt"), columns,
        schedule="cosine:peak=1e-3,steps=10000,warmup=100",
    )  # fmt: skip
    plan = continual_run(logs, tokens="10.4B", batch_tokens=2**20, weight=0.5, n_resamples=60)
    # One schedule: nothing but the share can be searched, and it is a cosine as in the runs.
    assert plan.searched == {"replay": (0.125, 0.5)} and plan.decay == 1.0
    assert 0.125 < plan.replay < 0.5
    assert plan.weighted < plan.runs["weighted"].min() + 0.002
    assert plan.interval["loss_pt"][1] - plan.interval["loss_pt"][0] < 0.04


def alone(line="cosine:peak=1e-3,steps=4000,warmup=100,final=1e-4"):
    """Runs of a base that nobody describes, all of one schedule and share."""
    step = np.arange(400, 4001, 400)
    loss = pd.DataFrame({"step": step, "loss_g": 3 + step * 1e-6, "loss_d": 3 - step * 1e-5})
    return jl.read_loss_curves(loss.assign(phase="cpt", r_g=0.25), schedule=line, name="log")


def test_what_runs_of_one_schedule_say():
    seen = _seen(alone(), 1e6)
    assert seen.bases == {"log": None} and seen.shape is not None
    assert seen.ends[["replay", "peak", "steps", "tokens"]].values.tolist() == [
        [0.25, pytest.approx(1e-3, rel=1e-6), 4000.0, 4e9]
    ]
    laws = [("cpt-curve-unknown-base", simulate.TRUTHS["cpt-curve-unknown-base"])] * 2
    plan = continual_run(
        *laws, curves=alone(), tokens=3e9, batch_tokens=1e6, weight=0.5, over={"peak": (5e-4, 1e-3)}
    )
    # The share and the shape of the runs, whose last rate is a tenth of the peak.
    assert (plan.replay, plan.steps, plan.decay) == (0.25, 3000, 1.0)
    rates = jl.schedules.parse(plan.schedule).rates / plan.peak
    assert rates[-1] == pytest.approx(0.1)
    middle, quarter = rates[30 + 2970 // 2 - 1], rates[30 + 2970 // 4 - 1]
    assert middle == pytest.approx(0.55, abs=1e-3)  # of a cosine, and of a line
    assert quarter == pytest.approx(0.1 + 0.9 * (0.5 + 0.5 * np.cos(np.pi / 4)), abs=1e-3)
    linear = _seen(alone("wsd:peak=1e-3,steps=4000,warmup=100,decay_steps=975"), 1e6)
    assert linear.shape is not None


def test_logs_of_the_continual_phase_alone_continue_from_the_base_that_is_given():
    both = curves().only("wsd then cosine replay 0", "wsd then cosine replay 0.5")
    (line,) = both.table["schedule"].unique()
    base, _, own = line.partition("+")
    base = jl.schedules.parse(base)
    table = log().query("run in ['wsd then cosine replay 0', 'wsd then cosine replay 0.5']")
    logs = curves(table.assign(schedule=own, step=table["step"] - len(base), phase="cpt"))
    joined = _after(base, logs, _seen(logs, 2e6).bases)
    areas = ["S1_pt", "S1_cpt", "S2_pt", "S2_cpt"]
    assert joined.runs().table[areas].to_numpy() == pytest.approx(
        both.runs().table[areas].to_numpy(), rel=1e-12
    )
    late = {run: dataclasses.replace(one, first_step=9) for run, one in logs.run_schedules.items()}
    with pytest.raises(UsageError, match="starts after step 9"):
        _after(base, dataclasses.replace(logs, run_schedules=late), late)


def test_what_is_unknown_of_both_losses_is_said_once():
    printed = (jl.published()[f"wang-2025-{corpus}"] for corpus in ("pt", "cpt"))
    notes = continual_run(*printed, **GIVEN, over=ONE).notes
    (unknown,) = (note.message for note in notes if note.code == "range-unknown")
    assert "is known of the pt and cpt losses: " in unknown


def test_curves_that_carry_no_continual_run_are_refused():
    given = {"tokens": 20e9, "batch_tokens": 2e6, "weight": 0.5}
    with pytest.raises(DataError, match="r_g is the mixture ratio of the first"):
        continual_run(jl.read_loss_curves(log()), **given)
    with pytest.raises(DataError, match="no run has a continual phase"):
        continual_run(curves().only("wsd", "cosine"), **given)
    sizes = curves(log().assign(N=lambda t: np.where(t["replay"] > 0.1, 1e9, 2e9)))
    with pytest.raises(UsageError, match="several sizes N"):
        continual_run(sizes, base="wsd", **given)
    unknown = [(f"{law}-unknown-base", simulate.TRUTHS[f"{law}-unknown-base"]) for law, _ in
               (PT, CPT)]  # fmt: skip
    with pytest.raises(UsageError, match="say which peaks to search"):
        continual_run(*unknown, **given)
