"""Laws of the best learning rate and batch, and the formulas that papers print of them."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import planning, simulate
from jaxlaw.errors import UsageError

PUBLISHED = jl.published()


@pytest.mark.parametrize(
    "name,of_run",
    [
        ("li-2025-lr", lambda N, D: 1.79 * N**-0.713 * D**0.307),
        ("li-2025-batch", lambda N, D: 0.58 * D**0.571),
        ("deepseek-2024-lr", lambda N, D: 0.3118 * (6 * N * D) ** -0.125),
        ("deepseek-2024-batch", lambda N, D: 0.2920 * (6 * N * D) ** 0.3271),
        ("porian-2024-lr", lambda N, D: 3.7 * N**-0.36),
        ("porian-2024-batch", lambda N, D: 0.7576 * N**0.703),
    ],
)
def test_published_formulas_are_what_papers_print(name, of_run):
    N, D = np.array([1e8, 7e9, 7e10]), np.array([2e9, 2e12, 1.5e13])
    predicted = PUBLISHED[name].predict(N=N, D=D)
    np.testing.assert_allclose(predicted, of_run(N, D), rtol=5e-3)  # 1.79 is rounded


def test_the_settings_of_deepseeks_own_model_are_those_of_its_formula():
    """7 B parameters, 2 T tokens: 2,304 sequences of 4,096 tokens at a rate of 4.2e-4."""
    run = {"N": 7e9, "D": 2e12}
    assert PUBLISHED["deepseek-2024-lr"].predict(**run) == pytest.approx(4.2e-4, rel=0.02)
    assert PUBLISHED["deepseek-2024-batch"].predict(**run) == pytest.approx(2304 * 4096, rel=0.03)


def test_a_formula_is_a_set_of_values_of_a_tuned_law():
    known = PUBLISHED["li-2025-lr"].params | PUBLISHED["li-2025-batch"].params
    runs = simulate.experiment("tuned-skaling", noise=0.001)
    fit = jl.fit("tuned-skaling", runs.table, fixed=known, n_starts=8, n_local=2)
    assert {name: fit.params[name] for name in known} == pytest.approx(known)
    best = fit.law.best_settings["lr"](fit.params, {"N": 7e9, "D": 1e12})
    assert float(best) == pytest.approx(PUBLISHED["li-2025-lr"].predict(N=7e9, D=1e12))


def test_the_best_of_each_cell_gives_the_law_back():
    runs = simulate.experiment("tuned-skaling").table
    best = planning.best_settings(runs).table
    truth = simulate.TRUTHS["tuned-skaling"]
    for setting in ("lr", "batch"):
        fit = jl.fit(f"best-{setting}", best)
        assert fit.law.target == f"best_{setting}"
        predicted = fit.predict(N=1e9, D=2e10)
        assert 0.5 < predicted / truth[f"{setting}_0"] < 2  # a grid of twofold steps
    with pytest.warns(UserWarning, match="poor-fit"):  # all runs of a sweep are no optima
        jl.fit("best-lr", runs)


def test_a_batch_is_predicted_in_tokens():
    made = simulate.experiment("best-batch", noise=0.05)
    fit = jl.fit("best-batch", made.table)
    for name, value in simulate.TRUTHS["best-batch"].items():
        assert fit.params[name] == pytest.approx(value, rel=0.05, abs=0.03)
    assert fit.target_unit == "tokens"
    # Predictions could not be set against a column of sequences: it is to be one of tokens.
    in_sequences = made.table.rename(columns={"best_batch": "bsz"})
    runs = jl.read_runs(in_sequences, {"batch": "bsz"}, {"batch": 2048})
    with pytest.raises(
        UsageError, match="bsz: law best-batch predicts .* multiply the column by 2048"
    ):
        jl.fit("best-batch", runs)


@pytest.mark.parametrize(
    "plan",
    [
        lambda fit: planning.allocation(fit, 1e21),
        lambda fit: planning.min_compute(fit, 1e-3),
        lambda fit: planning.minimise(fit, {"N": None}, at={"D": 1e12}),
        lambda fit: planning.optimal_inputs(fit, {"D": (1e9, 1e12)}, at={"N": 1e9}),
        lambda fit: planning.frontier(fit, [1e20, 1e21]),
    ],
)
def test_a_plan_of_a_loss_takes_no_law_of_a_setting(plan):
    with pytest.raises(UsageError, match="predicts best_lr, and this plan is of a loss"):
        plan(PUBLISHED["li-2025-lr"])
    size = planning.solve(PUBLISHED["li-2025-lr"], "N", 1e-3, at={"D": 1e12}).N
    assert PUBLISHED["li-2025-lr"].predict(N=size, D=1e12) == pytest.approx(1e-3)


def test_minima_of_any_column_are_a_power_of_compute(command):
    noise = np.exp(0.01 * np.random.default_rng(0).normal(size=12))
    C = np.geomspace(1e18, 1e21, 12)
    pd.DataFrame({"budget": C, "opt_tokens": 0.5 * C**0.542 * noise}).to_csv("minima.csv")
    read = {"columns": {"C": "budget"}, "target": "opt_tokens"}
    fit = jl.fit("optimum-compute", "minima.csv", **read)
    assert fit.params["b"] == pytest.approx(0.542, abs=0.005)
    boot = jl.bootstrap(fit, "minima.csv", 40)
    low, high = np.quantile(boot.predict(C=1e23), [0.025, 0.975])
    assert low < 0.5 * 1e23**0.542 < high
    asked = ["optimum-compute", "minima.csv", "-c", "C=budget", "--target", "opt_tokens"]
    assert command("fit", *asked, "--out", "fit.json", "--quiet")[0] == 0
    assert jl.load("fit.json").predict(C=1e23) == pytest.approx(fit.predict(C=1e23))
    with pytest.raises(UsageError, match="predicts optimum, and this plan is of a loss"):
        planning.frontier_savings(fit, fit, [1e20, 1e21])
