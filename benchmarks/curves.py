"""Laws of whole loss curves on real ones: other schedules, and replay ratios left out.

    JAXLAW_DATA=… python benchmarks/curves.py [schedules] [replay]

``schedules``: the annealing law fitted on three schedules of lr_loss_curves.csv, asked for the
six others, for three model sizes. ``replay``: eq. 8 of Wang 2025 on continual_70m.csv, its base
unknown and its rate taken as constant, fitted on four of five mixture ratios and asked for the
fifth; beside it the exponential mixing law, which knows the last step alone.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from scipy.signal import lfilter

import jaxlaw as jl

PUBLISHED = {25: (0.9988, 0.00376), 100: (0.9983, 0.00435), 400: (0.9978, 0.00484)}
LAST = 10_000
CORPORA = {
    "Pile": ("PILE_WEIGHTED", "pile_ratio", "cpt-curve-replay-pt-unknown-base"),
    "Python": ("python", "python_ratio", "cpt-curve-replay-cpt-unknown-base"),
}


def read(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(os.environ["JAXLAW_DATA"]) / name)


def areas(rates: np.ndarray, before: float, decay: float = 0.999) -> tuple[np.ndarray, np.ndarray]:
    """S1 and S2 after every step."""
    drops = -np.diff(rates, prepend=before)
    return np.cumsum(rates), np.cumsum(lfilter([1.0], [1.0, -decay], drops))


def rates_after_warmup(schedule: pd.Series) -> np.ndarray:
    """Learning rate of every step from the end of the warm-up on."""
    step = np.arange(schedule.warmup_steps, schedule.total_steps)
    peak, final, stable = schedule.peak_lr, schedule.final_lr, schedule.stable_end_step
    falling = (step - stable) / (schedule.total_steps - stable)
    way = (step - schedule.warmup_steps) / (schedule.total_steps - schedule.warmup_steps)
    return {
        "constant": lambda: np.full(len(step), peak),
        "cosine": lambda: final + (peak - final) * (1 + np.cos(np.pi * way)) / 2,
        "two_stage_constant": lambda: np.where(step < stable, peak, final),
        "wsd_exponential_decay": lambda: peak * (final / peak) ** np.maximum(falling, 0),
        "wsd_linear_decay": lambda: peak + (final - peak) * np.maximum(falling, 0),
    }[schedule.kind]()


def curves_with_areas() -> pd.DataFrame:
    """lr_loss_curves.csv with S1, which includes the warm-up, and S2, which does not."""
    schedules, parts = read("lr_schedules.csv").set_index("schedule"), []
    for name, curve in read("lr_loss_curves.csv").groupby("schedule"):
        schedule = schedules.loc[name]
        rates = rates_after_warmup(schedule)
        S1, S2 = areas(rates, rates[0])
        at = curve["step"].to_numpy() - schedule.warmup_steps
        parts.append(curve.assign(S1=S1[at] + schedule.sum_lr_warmup, S2=S2[at]))
    return pd.concat(parts, ignore_index=True)


def held_out(fit: jl.Fit, curves: pd.DataFrame) -> tuple[float, float]:
    """R² and mean absolute error, each the mean over the curves."""
    scores = []
    for _, curve in curves.groupby("schedule"):
        loss, error = curve["loss"], curve["loss"] - fit.predict(curve)
        scores.append(
            (1 - (error**2).sum() / ((loss - loss.mean()) ** 2).sum(), error.abs().mean())
        )
    return tuple(np.mean(scores, axis=0))


def replay_runs(corpus: str) -> pd.DataFrame:
    """One corpus of continual_70m.csv: r is its share; S1_cpt counts 1e-4 a step."""
    domain, share, _ = CORPORA[corpus]
    table = read("continual_70m.csv").query("domain == @domain")
    # Before the first step the share makes no difference.
    return table.assign(r=table[share].fillna(1.0), S1_cpt=table["step"] * 1e-4, S2_cpt=0.0)


def fit_replay(law: str, table: pd.DataFrame) -> jl.Fit:
    """With a constant rate nothing anneals."""
    return jl.fit(law, table, fixed={"C2": 0.0, "a1": 0.0})


def mixing_law(table: pd.DataFrame, r: float) -> float:
    """L = c + k·exp(b·r) by least squares, asked for at r."""
    shares, loss = table["r"].to_numpy(), table["loss"].to_numpy()

    def residual(p):
        return p[0] + p[1] * np.exp(p[2] * shares) - loss

    starts = [(loss.mean(), 0.1, b) for b in (-6.0, -3.0, -1.0, -0.3, 0.3, 1.0, 3.0)]
    fits = [least_squares(residual, s, xtol=1e-14, ftol=1e-14, gtol=1e-14) for s in starts]
    c, k, b = min(fits, key=lambda fit: fit.cost).x
    return c + k * np.exp(b * r)


def schedules() -> None:
    print(
        "| size | L0 | A | α | C | R² | MAE | multi-power law, as published: R² | MAE | s | notes |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for size, curves in curves_with_areas().groupby("model_params_millions"):
        begun = time.perf_counter()
        fit = jl.fit("annealing", curves[curves["split"] == "fit"])
        seconds = time.perf_counter() - begun
        r2, error = held_out(fit, curves[curves["split"] == "heldout"])
        values = " | ".join(f"{fit.params[name]:.3f}" for name in ("L0", "A", "alpha", "C"))
        notes = ", ".join(sorted({note.code for note in fit.notes}))
        theirs = " | ".join(map(str, PUBLISHED[size]))
        print(
            f"| {size} M | {values} | {r2:.4f} | {error:.4f} | {theirs} | {seconds:.1f} | {notes} |"
        )


def replay() -> None:
    print("| loss on | left out: r | MAE of the curve | last step | mixing law | agree | notes |")
    print("|---|---|---|---|---|---|---|")
    for corpus, (_, _, law) in CORPORA.items():
        table = replay_runs(corpus)
        for r in sorted(table.loc[table["step"] > 0, "r"].unique()):
            left_out = (table["step"] > 0) & (table["r"] == r)
            fit = fit_replay(law, table[~left_out])
            error = table.loc[left_out, "loss"] - fit.predict(table[left_out])
            last = table[table["step"] == LAST]
            (loss,) = last.loc[last["r"] == r, "loss"]
            mixed = loss - mixing_law(last[last["r"] != r], r)
            final = error[table.loc[left_out, "step"] == LAST].item()
            notes = ", ".join(sorted({note.code for note in fit.notes}))
            print(
                f"| {corpus} | {r:.3f} | {error.abs().mean():.4f} | {abs(final):.4f} "
                f"| {abs(mixed):.4f} | {fit.agreement:.0%} | {notes} |",
                flush=True,
            )


if __name__ == "__main__":
    for table in sys.argv[1:] or ("schedules", "replay"):
        {"schedules": schedules, "replay": replay}[table]()
        print()
