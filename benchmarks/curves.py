"""Laws of whole loss curves on real ones: other schedules, and replay ratios left out.

    JAXLAW_DATA=… python benchmarks/curves.py [schedules] [replay]

``schedules``: laws of one phase fitted on three schedules of lr_loss_curves.csv, asked for the six
others, for three model sizes; beside them the multi-power law at its published parameters
(thu-yao-01-luo/MultiPowerLaw @8da9f190: src/config.py, figures in its README). ``replay``: eq. 8 of
Wang 2025 on continual_70m.csv, its base unknown and its rate taken as constant, fitted on four of
five mixture ratios and asked for the fifth; beside it the exponential mixing law, which knows the
last step alone.
"""

import dataclasses
import os
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

import jaxlaw as jl
from jaxlaw.schedules import Schedule

PUBLISHED = {25: (0.9988, 0.00376), 100: (0.9983, 0.00435), 400: (0.9978, 0.00484)}
NAMES = ("L0", "A", "alpha", "B", "C", "beta", "gamma")
PARAMETERS = {
    25: (3.04045406, 0.52468604, 0.50786857, 363.78751622, 2.06560812, 0.58279013, 0.64142257),
    100: (2.6514477, 0.60115152, 0.45295811, 437.9464276, 2.13245612, 0.59785199, 0.65523644),
    400: (2.37474466, 0.65421216, 0.42878731, 523.42464371, 2.02462735, 0.59350493, 0.63472457),
}
LAST = 10_000
CONSTANT = f"constant:lr=1e-4,steps={LAST}"
CORPORA = {
    "Pile": ("PILE_WEIGHTED", "pile_ratio", "cpt-curve-replay-pt-unknown-base"),
    "Python": ("python", "python_ratio", "cpt-curve-replay-cpt-unknown-base"),
}


def read(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(os.environ["JAXLAW_DATA"]) / name)


@cache
def schedules_of_data() -> dict[str, Schedule]:
    """Those of lr_schedules.csv from step 1 on, by name; row ``step`` has the rate of that step."""
    return {row.schedule: _schedule(row) for row in read("lr_schedules.csv").itertuples()}


def _schedule(row) -> Schedule:
    step = np.arange(row.warmup_steps, row.total_steps)
    peak, final, stable = row.peak_lr, row.final_lr, row.stable_end_step
    way = (step - row.warmup_steps) / (row.total_steps - row.warmup_steps)
    falling = np.maximum((step - stable) / (row.total_steps - stable), 0)
    rates = {
        "constant": lambda: np.full(len(step), peak),
        "cosine": lambda: final + (peak - final) * (1 + np.cos(np.pi * way)) / 2,
        "two_stage_constant": lambda: np.where(step < stable, peak, final),
        "wsd_exponential_decay": lambda: peak * (final / peak) ** falling,
        "wsd_linear_decay": lambda: peak + (final - peak) * falling,
    }[row.kind]()
    warmup = np.linspace(0, peak, row.warmup_steps)
    return Schedule(np.concatenate([warmup, rates])[1:], 0.0, None, row.schedule)


@cache
def curves_of(size: int) -> jl.LossCurves:
    """The nine curves of one model size."""
    table = read("lr_loss_curves.csv").rename(columns={"schedule": "run"})
    table["schedule"] = table["run"].map(schedules_of_data())
    return jl.read_loss_curves(table, where=f"model_params_millions == {size}")


def fitted_on(size: int) -> jl.LossCurves:
    """The three curves that the published law was fitted on."""
    return curves_of(size).only(where="split == 'fit'")


def held_out(fit: jl.Fit, size: int) -> tuple[float, float]:
    """R² and mean absolute error on the six others, each the mean over the curves."""
    scores = []
    for run, curve in curves_of(size).only(where="split == 'heldout'").table.groupby("run"):
        predicted = fit.predict_curve(schedules_of_data()[run], curve["step"])["loss"].to_numpy()
        loss, error = curve["loss"], curve["loss"] - predicted
        scores.append(
            (1 - (error**2).sum() / ((loss - loss.mean()) ** 2).sum(), error.abs().mean())
        )
    return tuple(np.mean(scores, axis=0))


# One phase alone of Wang's eq. 10: nothing shifts, and S2_cpt is 0.
_ONE_PHASE = {"B": 0.0, "E": 1.0, "beta": 1.0, "C2": 0.0, "zeta2": 1.0}
LAWS = {
    "annealing": ("annealing", {}, {}),
    "annealing, warm-up counted": ("annealing", {"count_warmup": True}, {}),
    "annealing, λ fitted": ("annealing", {"decay": "fit"}, {}),
    "annealing, ε = 0.1": ("annealing", {"epsilon": 0.1}, {}),
    "annealing, ε = 0.2": ("annealing", {"epsilon": 0.2}, {}),
    "annealing, S2^ζ": ("cpt-curve-power", {}, _ONE_PHASE),
    "multi-power": ("multi-power", {}, {}),
    "multi-power, warm-up counted": ("multi-power", {"count_warmup": True}, {}),
}


def fit_law(size: int, law: str, counted: dict, fixed: dict) -> jl.Fit:
    curves = fitted_on(size)
    if counted.get("decay") == "fit":
        return jl.fit_decay(law, curves, (0.99, 0.9997))
    return jl.fit(law, curves.runs(**counted), fixed=fixed)


def published(size: int, counted: jl.Fit) -> jl.Fit:
    """The multi-power law at its published parameters; drops are those of a fit."""
    return dataclasses.replace(counted, params=dict(zip(NAMES, PARAMETERS[size], strict=True)))


def objective(fit: jl.Fit, size: int) -> float:
    """Summed Huber on the curves it was fitted on."""
    observed = fitted_on(size).runs(**fit.area_options).observations(fit.law)
    off = np.abs(np.log(fit.predict(observed.inputs) / observed.target))
    small = np.minimum(off, fit.delta)
    return float(np.sum(small**2 / 2 + fit.delta * (off - small)))


def replay_curves(corpus: str) -> jl.LossCurves:
    """One corpus of continual_70m.csv: r is its share; its rate is taken as constant."""
    domain, share, _ = CORPORA[corpus]
    table = read("continual_70m.csv").query("domain == @domain")
    # Before the first step, where the base is, the share makes no difference.
    table = table.assign(r=table[share].fillna(1.0), phase="cpt")
    return jl.read_loss_curves(table, columns={"run": "run_id"}, schedule=CONSTANT)


def left_out(curves: jl.LossCurves, r: float) -> tuple[jl.LossCurves, jl.LossCurves]:
    """The curves without one share, and those of it."""
    condition = f"r == {r!r} and step > 0"
    return curves.without(where=condition), curves.only(where=condition)


def fit_replay(law: str, curves: jl.LossCurves) -> jl.Fit:
    """With a constant rate nothing anneals."""
    return jl.fit(law, curves, fixed={"C2": 0.0, "a1": 0.0})


def replay_errors(fit: jl.Fit, curves: jl.LossCurves, r: float) -> np.ndarray:
    """Loss less prediction, (rows,)."""
    predicted = fit.predict_curve(CONSTANT, curves.table["step"], r=r)["loss"]
    return curves.table["loss"].to_numpy() - predicted.to_numpy()


def mixing_law(table: pd.DataFrame, r: float) -> float:
    """L = c + k·exp(b·r) by least squares, asked for at r."""
    shares, loss = table["r"].to_numpy(), table["loss"].to_numpy()

    def solved(b: float) -> tuple[float, np.ndarray]:
        columns = np.stack([np.ones_like(shares), np.exp(b * shares)], axis=1)
        result = np.linalg.lstsq(columns, loss)[0]
        return float(np.sum((columns @ result - loss) ** 2)), result

    b = min(np.arange(-19.999, 20, 0.002), key=lambda b: solved(b)[0])
    c, k = solved(b)[1]
    return c + k * np.exp(b * r)


def schedules() -> None:
    print("| size | law | fitted | objective | R² | MAE | agree | s | notes |")
    print("|---|---|---|---|---|---|---|---|---|")
    for size in PARAMETERS:
        for name, (law, counted, fixed) in LAWS.items():
            begun = time.perf_counter()
            fit = fit_law(size, law, counted, fixed)
            seconds = f"{time.perf_counter() - begun:.1f}"
            notes = {note.code for note in fit.notes} - {"filtered"}
            count = str(len(fit.params) - len(fixed) + (counted.get("decay") == "fit"))
            end = f"{fit.agreement:.0%} | {seconds} | {', '.join(sorted(notes))}"
            _row(size, name, count, fit, end)
        _row(size, "multi-power, published parameters", "", published(size, fit), " |  | ")
        r2, error = PUBLISHED[size]
        print(f"| {size} M | the same, published figures | | | {r2} | {error} | | | |", flush=True)


def _row(size: int, name: str, count: str, fit: jl.Fit, end: str) -> None:
    r2, error = held_out(fit, size)
    print(
        f"| {size} M | {name} | {count} | {objective(fit, size):.3g} | {r2:.4f} | {error:.5f} "
        f"| {end} |", flush=True,
    )  # fmt: skip


def replay() -> None:
    print("| loss on | left out: r | MAE of the curve | last step | mixing law | agree | notes |")
    print("|---|---|---|---|---|---|---|")
    for corpus, (_, _, law) in CORPORA.items():
        curves = replay_curves(corpus)
        last = curves.table[curves.table["step"] == LAST]
        for r in sorted(map(float, last["r"])):
            others, own = left_out(curves, r)
            fit = fit_replay(law, others)
            error = replay_errors(fit, own, r)
            (loss,) = last.loc[last["r"] == r, "loss"]
            mixed = loss - mixing_law(last[last["r"] != r], r)
            notes = ", ".join(sorted({note.code for note in fit.notes}))
            print(
                f"| {corpus} | {r:.3f} | {np.abs(error).mean():.4f} | {abs(error[-1]):.4f} "
                f"| {abs(mixed):.4f} | {fit.agreement:.0%} | {notes} |",
                flush=True,
            )


if __name__ == "__main__":
    for table in sys.argv[1:] or ("schedules", "replay"):
        {"schedules": schedules, "replay": replay}[table]()
        print()
