"""The first line of every kind of answer, side by side: their words, whatever the numbers."""

import functools
import re

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import papers, planning
from jaxlaw.simulate import TRUTHS, experiment
from tests.conftest import simulated_fit

FIT = functools.partial(simulated_fit, "chinchilla")
RUNS = experiment("chinchilla", noise=0.004).table
AT = {"N": 7e9, "D": 1e12}
SCORES = RUNS[::9].assign(acc=lambda runs: 0.25 + 0.6 / (1 + np.exp(4 * (runs["loss"] - 2.4))))
TUNED = ("tuned-skaling", TRUTHS["tuned-skaling"])
GENERAL, DOMAIN = (("dcpt", TRUTHS[name]) for name in ("dcpt-general", "dcpt"))
PUBLISHED = jl.published()
WANG = [PUBLISHED[name] for name in ("wang-2025-pt", "wang-2025-cpt")]
ZHENG = [PUBLISHED[f"zheng-2024-{base}"] for base in ("scratch", "cpt")]
FRONTIERS = [PUBLISHED[f"zheng-2024-frontier-{base}"] for base in ("scratch", "cpt")]
D, N = np.tile(np.geomspace(1e8, 1e10, 5), 4), np.repeat([1e8, 3e8, 1e9, 3e9], 5)
RUN = planning.ContinualPretraining(
    planning.Pretraining(steps=40_000, peak=2e-4), steps=10_000, peak=1e-4, warmup=500
)
#: First line of an answer → how it is made.
HEADLINES = {
    "chinchilla: RMSE 0.4%, R² 0.9988 on 243 rows up to 3e21 FLOPs; 64 of 64 restarts agree":
        FIT,
    "chinchilla, sandwich covariance; best determined: E 1.67 nats (90%: 1.642 to 1.698); "
    "least: A (±10%)": lambda: jl.covariance(FIT(), RUNS),
    "chinchilla, 50 resamples (case) of 243; best determined: E 1.67 nats (90%: 1.635 to 1.696); "
    "least: A (±10%)": lambda: jl.bootstrap(FIT(), RUNS, n_resamples=50),
    "alpha: 0.3307 (90%: 0.3179 to 0.3418), standard error 0.005968":
        lambda: jl.profile(FIT(), RUNS, "alpha"),
    "prior: 27 public experiments (8 sources), 5 published recipes; run-to-run noise 0.57%":
        lambda: jl.fitting.field_prior(),
    "chinchilla on DataFrame: mean absolute error 0.304% over 243 observations":
        lambda: FIT().score(RUNS),
    "N 7 B parameters, D 1 T tokens: loss 2.033 nats (90%: 1.998 to 2.058); 14 × "
    "beyond the largest run":
        lambda: jl.uncertainty.prediction(FIT(), at=AT),
    "3 runs: the standard deviation of the prediction falls from 0.126% to 0.123%":
        lambda: jl.design.next_runs(FIT(), RUNS, RUNS[-9:], predict=AT, n=3),
    "chinchilla: median held-out R² 0.9987 over 4 folds":
        lambda: jl.cross_validate("chinchilla", RUNS, jl.folds.k_fold(4)),
    "1e22 FLOPs: 5.28 B parameters (90%: 5.15 to 5.51 B) and 316 B tokens (303 to 323 B), 59.8 "
    "tokens/parameter, loss 2.134 nats (2.129 to 2.139); 3.3 × beyond the largest run":
        lambda: planning.allocation(FIT(), 1e22),
    "loss 2.045 nats (90% for a new run: 2 to 2.088) at N 7 B parameters, D 1 T tokens, 14 × "
    "beyond the largest run": lambda: jl.forecast(RUNS[::9], at=AT),
    "after 50,000 steps: loss 3.452 nats, annealing -0.00176, shift +0.195; 100% of these steps "
    "lie beyond the fitted curves":
        lambda: jl.uncertainty.predicted_curve(
            WANG[0], "cosine:peak=2e-4,steps=40000 + constant:lr=2e-4,steps=10000", steps=[50_000],
            at={"r": 0.5}),
    "M4, λ = 0.07469: 10 evaluations of 20,000 steps, the first after 2,000":
        lambda: jl.design.evaluation_steps(budget=10, steps=20_000),
    "1e20 FLOPs: 644 M parameters and 25.9 B tokens, loss 2.601 nats; 1e22 FLOPs: 5.28 B "
    "parameters and 316 B tokens, loss 2.134 nats; 3.3 × beyond the largest run":
        lambda: planning.frontier(FIT(), [1e20, 1e22]),
    "the best size grows as compute to the power of 0.4568 (90%: 0.4507 to 0.4643), the tokens as "
    "that of 0.5432 (0.5357 to 0.5493)": lambda: planning.allocation_law(FIT()),
    "loss 2.2 nats: 4.16e21 FLOPs (90%: 4.03e21 to 4.32e21), by 3.54 B parameters (3.4 to 3.71 B) "
    "and 196 B tokens (188 to 204 B), 55.4 tokens/parameter; 1.4 × beyond the largest run":
        lambda: planning.min_compute(FIT(), loss=2.2),
    "89.3% of the domain: its loss 1.747 nats, the general loss 2.884 nats, +3% from its start":
        lambda: planning.optimal_mixture(GENERAL, DOMAIN, start=2.8, at={"N": 1.8, "D": 2.0}),
    "12.3% of the general corpus: its loss 2.86 nats":
        lambda: planning.critical_ratio(GENERAL, start=2.86, at={"N": 1.8, "D": 2.0}),
    "85% of the domain in 118 M tokens: loss 1.864 nats, 1.872 nats without a mixture":
        lambda: planning.optimal_mixture_data_limited(DOMAIN, 0.1, at={"N": 1.8}),
    "1 B parameters and 1 B tokens from a base: worth 362 M tokens more from scratch, 26.6% of "
    "the compute; how far that is from the runs is unknown":
        lambda: planning.data_transferred(*ZHENG, N=1e9, D=1e9),
    "1e17 FLOPs from scratch, loss 3.494 nats: 47.8% saved from a base; 1e23 FLOPs from scratch, "
    "loss 1.57 nats: 42.5% saved from a base; how far that is from the runs is unknown":
        lambda: planning.frontier_savings(*FRONTIERS, [1e17, 1e23]),
    "continual training pays below 2.53 B tokens (1 B parameters, 1.52e19 FLOPs, loss 2.743 nats); "
    "how far that is from the runs is unknown": lambda: planning.break_even(*ZHENG, N=1e9),
    "lowest losses 3.364 nats on the old corpus and 2.689 nats on the new one; how far that is "
    "from the runs is unknown": lambda: planning.final_losses(*WANG, RUN, replay=[0, 0.5]),
    "no inflection within the data: the loss falls with D at every mixture ratio down to 10%":
        lambda: papers.inflection_ratio(experiment("dcpt").table),
    "suspect misalignment; best score so far 12.5: the score is not monotone: at Dp = 8e+10 it is "
    "3.5 below an earlier one, more than a scatter of 1.0% explains, so the law does not apply":
        lambda: papers.pretraining_value(
            {"Dp": [1e9, 4e9, 2e10, 8e10], "score": [10.0, 12.5, 10.1, 9.0]}, n_resamples=0),
    "the loss is 0.2905 (90%: 0.1972 to 0.8182) of that on the pre-training corpus and 0.6057 "
    "(0.1754 to 0.7172) of that on the new one, R² 0.8562, RMSE 0.02682 nats":
        lambda: papers.out_of_domain({
            "loss_pt": [3.2, 3.3, 3.4, 3.3], "loss_cpt": [3.1, 2.9, 2.7, 2.8],
            "loss_ood": [2.8, 2.7, 2.6, 2.7]}),
    "tokens transferred = 2 (90%: 2 to 2) · D^0.6 (0.6 to 0.6) · N^0.3 (0.3 to 0.3)":
        lambda: papers.transfer_law({
            "N": N, "D": D, "transferred": 2 * D**0.6 * N**0.3}),
}  # fmt: skip
#: Those that take longer.
SLOW = {
    "annealing: RMSE 0.369%, R² 0.9953 on 88 rows; 64 of 64 restarts agree":
        lambda: simulated_fit("annealing"),
    "90% intervals covered 134 of 135 later runs at 2 cutoffs; median error 0.53%, largest -2.07%":
        lambda: jl.backtest(RUNS, "chinchilla", cutoffs=[1e20, 1e21]),
    "90% intervals covered 1 of 1 later run at 1 forecast; median error 0.72%, largest +0.72%":
        lambda: jl.forecasting.score(
            jl.forecast(RUNS[::9], at=AT), {"N": [7e9], "D": [1e12], "loss": [2.03]}),
    "N 7 B parameters, D 1 T tokens: mmlu 0.725 (90%: 0.706 to 0.743)":
        lambda: jl.forecast_scores(SCORES, {"mmlu": ("loss", "acc")}, at=AT),
    "loss 2.1 nats: D 395 B tokens (90%: 372 to 428 B), 1.66e22 FLOPs (1.56e22 to 1.8e22); 5.5 × "
    "beyond the largest run": lambda: planning.solve(FIT(), for_="D", loss=2.1, at={"N": 7e9}),
    "best lr 0.001, batch 350 K tokens: loss 2.069 nats, compute 1.2e20 FLOPs":
        lambda: planning.optimal_inputs(
            TUNED, {"lr": (1e-4, 1e-2), "batch": (6e4, 4e6)}, at={"N": 1e9, "D": 2e10}),
    "9 cells of N and D; lr at an edge in 0, batch at an edge in 0":
        lambda: planning.best_settings(experiment("tuned-skaling", noise=0.001).table),
    "critical batch 7.21 M tokens, 3 × the best one, 2.38 M tokens: 20% more tokens reach the loss "
    "1.758 nats in 2.5 × fewer steps, at lr 0.001003":
        lambda: planning.critical_batch_size(TUNED, at=AT),
    "weight 0.6 of the old loss: replay 67.2%, peak LR 0.0001, 10,000 steps; losses 3.332 nats on "
    "the old corpus and 2.752 nats on the new one; how far that is from the runs is unknown":
        lambda: planning.optimal_training(*WANG, RUN, 0.6, {"replay": (0, 1)}),
    "20 B tokens (10,000 steps): replay 67.2%, peak LR 0.0002, falling over its last 67.2%; losses "
    "3.342 nats on the pre-training corpus and 2.721 nats on the new one; active bounds: peak LR "
    "at its upper bound (0.0002) and the tokens; how far that is from the runs is unknown":
        lambda: planning.continual_run(
            *WANG, tokens=2e10, batch_tokens=2e6, weight=0.6, base="wsd:peak=2e-4,steps=40000"),
    "loss -0.1516 nats after 200 steps, 0.9229 nats below the best usual schedule (cosine): the "
    "fall begins after 5 steps and ends after 37 steps":
        lambda: planning.optimal_schedule(
            ("annealing", {"L0": 2.0, "A": 0.5, "alpha": 0.5, "C": 2.0}), 200, 0.01, floor=1e-3,
            shortest_decay=40),
}  # fmt: skip


def words(sentence: str) -> str:
    """A sentence without its numbers."""
    return re.sub(r"[-−+±]?\d[\d.,]*\d(e-?\d+)?|\d", "#", sentence).replace(" %", "%")


@pytest.mark.parametrize(
    "expected", [*HEADLINES, *(pytest.param(one, marks=pytest.mark.full) for one in SLOW)]
)
def test_the_first_line_says_the_answer(expected):
    assert words({**HEADLINES, **SLOW}[expected]().headline) == words(expected)
