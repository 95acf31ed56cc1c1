"""The Python call beside the example of every command: both must give the same numbers.

The files are those of :mod:`prepared`, in the working folder.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from planned import CONTINUAL, DOMAIN, GENERAL, SCRATCH, drawn
from prepared import PAIRS

import jaxlaw as jl
from jaxlaw import design, planning, simulate
from jaxlaw.planning import ContinualRun, Pretraining

#: Commands without such a call, and why.
NO_NUMBERS = {
    "schema": "prints the schemas themselves, which have a test of their own",
    "forecast": "says when it was made; a test of its own compares its numbers",
}
COLUMNS = {"N": "n_params", "D": "n_tokens"}

WANG = ContinualRun(
    Pretraining(shape="wsd", steps=40000, peak=2e-4),
    shape="cosine", steps=10000, peak=2e-5, warmup=500,
)  # fmt: skip
BACK = ContinualRun(
    Pretraining(shape="wsd", steps=10000, peak=2e-4),
    shape="cosine", steps=10000, peak=2e-4, warmup=500, replay=0.9,
)  # fmt: skip


def fit_of(pair):
    return drawn(pair).fit


def areas_expected():
    schedule = jl.schedules.parse("cosine:peak=3e-4,steps=24000,warmup=2000")
    at = np.array([2000, 24000])
    areas = jl.areas(schedule, at=at, count_warmup=False)
    return {"step": at, "lr": schedule.rates[at - 1], "S1": areas.S1, "S2": areas.S2}


def predicted():
    fit, N, D = fit_of(PAIRS["fit"]), np.array([1e9, 7e9]), np.array([1e12, 1e12])
    outside = fit.is_extrapolation(N=N, D=D)
    return {"N": N, "D": D, "loss": fit.predict(N=N, D=D), "outside": outside}


def study_expected():
    study = jl.cross_validate(
        ["dcpt", "dcpt-l1"], "mixtures.csv", jl.folds.leave_p_groups_out("r", 2),
        n_starts=64, n_local=4, fixed={"alpha": 0.5, "beta": 0.5},
    )  # fmt: skip
    ranking = study.ranking().reset_index().astype(object)
    rows = ranking.where(ranking.notna(), None).to_dict(orient="records")
    return study.to_dict() | {"ranking": rows}


def backtest_expected():
    found = jl.backtest(
        "chinchilla", "runs.csv", columns=COLUMNS, cutoffs=3, n_starts=64, n_local=4
    )
    return found.to_dict() | {"notes": notes_of(found)}


def bootstrap_expected():
    found = jl.bootstrap("chinchilla", "runs.csv", 20, columns=COLUMNS, n_starts=16, n_local=4)
    return {
        "law": "chinchilla", "kind": "case", "groups": None, "resamples": 20, "resampled": 243,
        "level": 0.95,
        "method": "percentile", "parameters": found.conf_int().to_dict("records"),
        "predictions": found.prediction(N=[7e9], D=[1e12]).to_dict("records"),
        "notes": notes_of(found),
    }  # fmt: skip


def notes_of(found):
    return [vars(note) for note in found.notes]


def covariance_expected():
    found = jl.covariance(jl.load("fit.json"), "runs.csv", groups=["N", "r"])
    return {
        "law": "chinchilla", "level": 0.95, "parameters": found.conf_int().to_dict("records"),
        "predictions": found.prediction(FAR).to_dict("records"),
        "covariance": found.matrix.to_dict(), "notes": notes_of(found),
    }  # fmt: skip


def profile_expected():
    found = jl.profile(jl.load("fit.json"), "runs.csv", "alpha")
    estimate, error, low, high = found.interval()
    row = {"estimate": estimate, "std_err": error, "low": low, "high": high}
    return {
        "law": "chinchilla", "level": 0.95, "interval": [{"quantity": "alpha", **row}],
        "profile": found.table.to_dict("records"), "notes": notes_of(found),
    }  # fmt: skip


def influence_expected():
    fit = jl.load("fit.json")
    rows = jl.influence(fit, "runs.csv", FAR).reset_index().to_dict("records")
    return {"law": "chinchilla", "influence": rows, "notes": notes_of(fit)}


def identifiability_expected():
    runs = jl.read_runs("runs.csv", COLUMNS)
    fit = jl.fit("chinchilla", runs)
    rows = jl.identifiability(fit, runs).to_dict("records")
    return {"law": "chinchilla", "directions": rows, "notes": notes_of(fit)}


def next_expected():
    candidates = pd.read_csv("candidates.csv")
    asked = {"N": np.array([7e10]), "D": np.array([1e12])}
    found = design.next_runs(
        jl.load("fit.json"), jl.read_runs("runs.csv"), candidates, predict=asked, n=4
    )
    return {
        "criterion": "c", "before": found.before, "after": found.after, "noise": found.noise,
        "chosen": found.table.to_dict("records"), "notes": notes_of(found),
    }  # fmt: skip


def plan_expected():
    found = design.evaluation_steps(10, 20_000)
    return {"method": found.method, "rate": found.rate, "steps": found.steps}


def inflection_expected():
    columns = {"r_d": "domain_ratio", "loss_g": "general_loss"}
    found = jl.inflection_ratio(
        jl.read_runs("shares.csv", columns, corpus="general"),
        n_resamples=2,
        n_starts=16,
        n_local=4,
    )
    assert found.bracket[0] < found.ratio < found.bracket[1]  # there is one to compare
    numbers = {
        "ratio": found.ratio, "interval": found.interval, "level": found.level,
        "bracket": found.bracket, "flat": found.flat, "split": found.split,
    }  # fmt: skip
    return absent(numbers) | {
        "below": found.below, "above": found.above, "trends": found.trends.to_dict("records"),
        "notes": notes_of(found),
    }  # fmt: skip


def absent(value):
    """None for NaN: a ratio that is not there."""
    if isinstance(value, dict):
        return {name: absent(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [absent(item) for item in value]
    return None if np.isnan(value) else value


def learnability_expected():
    table = jl.learnability_coefficients("curves.csv", "domain")
    return {"law": "dcpt-cross", "domains": table.reset_index().to_dict("records")}


def demo_expected():
    demo = jl.simulate.demo()
    columns = COLUMNS | {"r_d": "domain_ratio", "loss_d": "domain_loss", "loss_g": "general_loss"}
    runs = jl.read_runs(demo.table, columns, units={"N": 1, "D": 1})
    truths = {"general": demo.general, "domain": demo.domain}
    return {side: corpus_expected(runs.for_corpus(side), truths[side]) for side in truths} | {
        "picture": "demo.png"
    }


def corpus_expected(runs, truth):
    fit, inputs = jl.fit("dcpt", runs), runs.observations("dcpt").inputs
    clean = simulate.simulate_runs("dcpt", truth, inputs)["loss"].to_numpy()
    own = {name: values / fit.units[name] for name, values in inputs.items()}
    error = np.sqrt(np.mean(np.log(fit.predict(own) / clean) ** 2))
    return {
        "true": dict(truth), "fitted": fit.params, "rms_error": error, "r2": fit.r2,
        "objective": fit.objective, "agreement": fit.agreement,
    }  # fmt: skip


def report_expected():
    """The page, letter for letter."""
    fit = jl.load("fit.json")
    plans = [planning.allocation(fit, 1e21)]
    page = jl.report(fit, runs="runs.csv", columns={"N": "n_params"}, plans=plans)
    assert Path("report.html").read_text("utf-8") == page
    return {"report": "report.html", "bytes": len(page.encode()), "of": "Fit"}


FAR = {"N": 7e9, "D": 1e12}
TARGET = {"N": 7e9}
SHARES = {"code": fit_of(DOMAIN), "law": fit_of(DOMAIN)}
AT = {"N": 2e9, "D": 1e10}

#: Command → the Python call of its example, or its numbers.
PYTHON = {
    "laws": lambda: jl.published()["hoffmann-2022"].to_dict(),
    "fit": lambda: jl.fit("chinchilla", "runs.csv", columns=COLUMNS).to_dict(),
    "predict": predicted,
    "areas": areas_expected,
    "curve": lambda: jl.load("curve-fit.json")
    .predict_curve("wsd:peak=3e-4,steps=24000,warmup=2000", np.arange(1200, 24001, 1200))
    .to_dict("list"),
    "bootstrap": bootstrap_expected,
    "study": study_expected,
    "backtest": backtest_expected,
    "score": lambda: jl.forecasting.score(
        {"forecast.json": jl.load("forecast.json")}, "later.csv"
    ).to_dict(),
    "plan mixture": lambda: planning.optimal_mixture(
        fit_of(GENERAL), fit_of(DOMAIN), start=2.86, **AT
    ).to_dict(),
    "plan critical": lambda: planning.critical_ratio(
        fit_of(GENERAL), start=2.86, N=1.8e9, D=1e10
    ).to_dict(),
    "plan limited": lambda: planning.optimal_mixture_data_limited(
        fit_of(DOMAIN), 5e7, N=1.8e9
    ).to_dict(),
    "plan shares": lambda: planning.optimal_domain_weights(
        SHARES, general=fit_of(GENERAL), start=2.9, **AT
    ).to_dict(),
    "plan allocation": lambda: planning.allocation(fit_of(PAIRS["fit"]), 1e21).to_dict(),
    "plan allocation-law": lambda: planning.allocation_law(fit_of(PAIRS["fit"])).to_dict(),
    "plan frontier": lambda: planning.frontier(
        fit_of(PAIRS["fit"]), np.geomspace(1e19, 1e23, 13)
    ).to_dict(),
    "plan target": lambda: planning.tokens_or_size_for(
        fit_of(PAIRS["fit"]), loss=2.1, **TARGET
    ).to_dict(),
    "plan transfer": lambda: planning.data_transferred(
        fit_of(SCRATCH), fit_of(CONTINUAL), N=1.4e9, D=1e10
    ).to_dict(),
    "plan savings": lambda: planning.frontier_savings(
            *(jl.published()[f"zheng-2024-frontier-{one}"] for one in ("scratch", "cpt")),
            [1e17, 1e20, 1e23],
        ).to_dict(),
    "plan observed-transfer": lambda: planning.observed_transfer(
        "scratch.csv", "continual.csv"
    ).to_dict("list")
    | {"notes": []},
    "plan breakeven": lambda: planning.break_even(
        fit_of(SCRATCH), fit_of(CONTINUAL), N=1.4e9
    ).to_dict(),
    "plan compute-multiplier": lambda: planning.compute_multiplier(
            fit_of(PAIRS["groups"]), [1e19, 1e21], reference={"group": "c4"}, group="pile"
        ).to_dict(),
    "plan optimal-weights": lambda: planning.optimal_weights(
        {name: fit_of(PAIRS[name]) for name in ("python", "wiki")},
        caps={"code": 0.3}, natural={"web": 8, "code": 1, "math": 1}, max_kl=0.15,
    ).to_dict(),
    "plan replay": lambda: planning.compare_replay(
        fit_of(DOMAIN), [0.2, 0.5, 0.8], N=1.8e9
    ).to_dict(),
    "plan envelope": lambda: planning.loss_envelope(pd.read_csv("runs.csv")).to_dict("list")
    | {"notes": []},
    "plan training": lambda: planning.optimal_training(
        jl.published()["wang-2025-pt"], jl.published()["wang-2025-cpt"], WANG, 0.5,
        {"replay": (0, 1)},
    ).to_dict(),
    "plan turning": lambda: planning.turning_length(
        jl.published()["wang-2025-pt"], BACK
    ).to_dict(),
    "plan out-of-domain": lambda: planning.out_of_domain(
        "losses.csv", columns={"loss_ood": "code_loss"}
    ).to_dict(),
    "plan schedule": lambda: planning.optimal_schedule(
        jl.load("curve-fit.json"), 24_000, 3e-4, floor=3e-5, shortest_decay=5_000
    ).to_dict(),
    "plan model": lambda: planning.choose_model("samples.csv", at=1e6).to_dict(),
    "plan valuation": lambda: planning.pretraining_value(
        "checkpoints.csv", at=1e12, target=25, baseline=12
    ).to_dict(),
    "covariance": covariance_expected,
    "profile": profile_expected,
    "influence": influence_expected,
    "identifiability": identifiability_expected,
    "design steps": plan_expected,
    "design next": next_expected,
    "inflection": inflection_expected,
    "slopes": lambda: {"slopes": jl.loss_slopes(
        "shares.csv", columns={"r_d": "domain_ratio", "loss_g": "general_loss"}, corpus="general"
    ).to_dict("records"), "notes": []},
    "requirements": lambda: {
        "law": "dcpt", "notes": [],
        "requirements": fit_of(DOMAIN).requirements().reset_index().to_dict("records"),
    },
    "learnability": learnability_expected,
    "demo": demo_expected,
    "report": report_expected,
}  # fmt: skip


def plain(value):
    """As JSON has it: infinities and NaN are strings."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else str(float(value))
    return value.item() if isinstance(value, np.generic) else value
