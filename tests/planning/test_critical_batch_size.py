"""How large a batch may be: tokens, steps and rate of a run by its batch."""

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import planning, simulate
from jaxlaw.errors import UsageError
from tests.fixtures.drawn_laws import drawn

TRUTH = simulate.TRUTHS["tuned-skaling"]
LAW = ("tuned-skaling", TRUTH)
AT = {"N": 1e9, "D": 2e10}


def of_batch_alone():
    """A law whose bowl has the batch and no rate."""
    law = jl.laws.tuned("skaling", "batch")
    return law, {name: TRUTH[name] for name in law.parameter_names}


def test_at_the_critical_batch_so_many_more_tokens_are_the_least():
    """By the least compute to the same loss, which searches rate and tokens on its own."""
    plan = planning.critical_batch_size(LAW, at=AT, overhead=0.3)
    best = planning.optimal_inputs(LAW, {"lr": (1e-5, 0.1), "batch": (1e4, 1e8)}, at=AT)
    assert (plan.best_lr, plan.best_batch) == pytest.approx((best.lr, best.batch), rel=1e-5)
    assert plan.loss == pytest.approx(best.loss, rel=1e-9)
    least = planning.minimise(
        planning.Compute(), {"lr": (1e-5, 0.1), "D": None},
        subject_to=[planning.AtMost(LAW, plan.loss)], at={"N": AT["N"], "batch": plan.batch},
    )  # fmt: skip
    assert least.best["D"] == pytest.approx(1.3 * AT["D"], rel=1e-6)
    assert least.best["lr"] == pytest.approx(plan.lr, rel=1e-4)
    assert plan.D == pytest.approx(1.3 * AT["D"], rel=1e-9)
    assert plan.steps == pytest.approx(plan.D / plan.batch, rel=1e-12)
    beside = planning.minimise(
        planning.Compute(), {"lr": (1e-5, 0.1), "D": None},
        subject_to=[planning.AtMost(LAW, plan.loss)], at={"N": AT["N"], "batch": 1.5 * plan.batch},
    )  # fmt: skip
    assert beside.best["D"] > 1.35 * AT["D"]


def test_near_the_best_batch_the_rate_grows_with_the_power_of_the_bowl():
    """There both terms are parabolas: the best rate is where their slopes cancel."""
    plan = planning.critical_batch_size(LAW, at=AT, overhead=1e-7)
    share = TRUTH["h_noise"] / (TRUTH["h_lr"] + TRUTH["h_noise"])
    assert plan.lr_power == pytest.approx(TRUTH["g"] * share, rel=0.01)
    rows = planning.critical_batch_size(LAW, at=AT).table
    assert (np.diff(rows["batch"]) > 0).all() and (np.diff(rows["steps"]) < 0).all()
    assert (np.diff(rows["lr_power"][1:]) < 0).all()  # s_lr is larger than s_noise
    at = {"N": 1e9, "D": rows["D"].iloc[5], "batch": rows["batch"].iloc[5]}
    best = planning.optimal_inputs(LAW, {"lr": (1e-5, 0.1)}, at=at)
    assert best.lr == pytest.approx(rows["lr"].iloc[5], rel=1e-5)


def test_runs_in_other_units_have_the_same_critical_batch():
    runs = simulate.experiment("tuned-skaling").table
    whole = planning.critical_batch_size(LAW, at=AT)
    scaled = runs.assign(N=runs["N"] / 1e9, D=runs["D"] / 1e9, batch=runs["batch"] / 2048)
    units = {"N": 1e9, "D": 1e9, "batch": 2048}
    fit = jl.fit("tuned-skaling", scaled, units=units, fixed=TRUTH)
    plan = planning.critical_batch_size(fit, at={"N": 1.0, "D": 20.0})
    assert plan.batch * 2048 == pytest.approx(whole.batch, rel=1e-9)
    assert plan.D == pytest.approx(24.0, rel=1e-9)
    assert plan.steps == pytest.approx(whole.steps, rel=1e-9)
    for name in ("batch", "D"):
        assert plan.quantities[name].number == whole.quantities[name].number
    assert "within the fitted runs" in plan.headline


def test_a_law_without_a_rate_and_one_that_no_batch_is_too_large_for():
    law, params = of_batch_alone()
    plan = planning.critical_batch_size((law, params), at=AT)
    assert "lr" not in plan.quantities and "lr" not in plan.table
    reached = jl.FittedLaw(law, params).predict(N=1e9, D=plan.D, batch=plan.batch)
    assert reached == pytest.approx(plan.loss, rel=1e-9)
    flat = planning.critical_batch_size((law, params | {"h_batch": 1e-7, "s_batch": -5.0}), at=AT)
    assert flat.batch == np.inf and flat.notes[0].code == "out-of-reach"
    assert flat.headline.startswith("no batch up to a million times")


def test_each_draw_has_its_own_loss_and_the_same_tokens():
    source = drawn(LAW)
    plan = planning.critical_batch_size(source, at=AT)
    low, high = plan.interval["batch"]
    assert low < plan.batch < high and "D" not in plan.interval
    k = 3
    params = TRUTH | {name: float(values[k]) for name, values in source.draws().params.items()}
    alone = planning.critical_batch_size(("tuned-skaling", params), at=AT)
    for name in ("batch", "lr", "steps", "best_batch", "lr_power", "loss"):
        assert plan.draws[name][k] == pytest.approx(getattr(alone, name), rel=1e-9)
    loss = jl.FittedLaw("tuned-skaling", params).predict(
        N=1e9, D=1.2 * AT["D"], lr=alone.lr, batch=alone.batch
    )
    assert loss == pytest.approx(alone.loss, rel=1e-9)


@pytest.mark.parametrize(
    "fit,options,message",
    [
        (("chinchilla", simulate.TRUTHS["chinchilla"]), {}, "has no input batch"),
        (LAW, {"at": AT | {"lr": 1e-3}}, "takes no input 'lr' here"),
    ],
)
def test_what_has_no_critical_batch_is_said(fit, options, message):
    with pytest.raises(UsageError, match=message):
        planning.critical_batch_size(fit, **({"at": AT} | options))
