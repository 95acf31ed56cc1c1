"""Loss curves that the tests of curves share: two short runs of known truth, and real ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from conftest import DATA

import jaxlaw as jl
from jaxlaw import schedules

TRUTH = {"L0": 3.1, "A": 0.5, "C": 0.4, "alpha": 0.5}
SPECS = {
    "fall": "cosine:peak=3e-4,steps=4000,final=3e-5,warmup=200",
    "hold": "wsd:peak=3e-4,steps=3000,warmup=200,decay_steps=600",
}
TWO = "wsd:peak=3e-4,steps=3000,decay_steps=600,final=3e-5+cosine:peak=1e-4,steps=1000,warmup=100"


def logged(specs: dict[str, str] = SPECS, every: int = 100) -> pd.DataFrame:
    """Rows run, step, lr and the loss of the annealing law at every 100th step."""
    parts = []
    for run, line in specs.items():
        schedule = schedules.parse(line)
        step = np.arange(every, len(schedule) + 1, every)
        S1, S2 = jl.areas(schedule, at=step, count_warmup=False)
        loss = TRUTH["L0"] + TRUTH["A"] * S1 ** -TRUTH["alpha"] - TRUTH["C"] * S2
        lr = schedule.rates[step - 1]
        parts.append(pd.DataFrame({"run": run, "step": step, "lr": lr, "loss": loss}))
    return pd.concat(parts, ignore_index=True)


def read(frame: pd.DataFrame | None = None, **options) -> jl.LossCurves:
    options.setdefault("schedules", SPECS)
    return jl.read_loss_curves(logged() if frame is None else frame, **options)


@cache
def real_schedules() -> dict[str, schedules.Schedule]:
    """Those of lr_loss_curves.csv after their warm-up, by name."""
    table = pd.read_csv(Path(DATA) / "lr_schedules.csv")
    return {row.schedule: _after_warmup(row) for row in table.itertuples()}


def _after_warmup(row) -> schedules.Schedule:
    peak, final, steps = row.peak_lr, row.final_lr, row.total_steps - row.warmup_steps
    if row.kind == "constant":
        return schedules.constant(peak, steps)
    if row.kind == "cosine":
        return schedules.cosine(peak, steps, final)
    falling = int(row.total_steps - row.stable_end_step)
    if row.kind == "two_stage_constant":  # the last step of the first stage has the second's rate
        return schedules.two_stage(peak, final, steps, steps - falling - 1)
    shape = {"wsd_exponential_decay": "exponential", "wsd_linear_decay": "linear"}[row.kind]
    return schedules.wsd(peak, steps, final=final, shape=shape, decay_steps=falling)


BEFORE = {"first_step": 2160, "S1_before": 0.324}


@cache
def real_curves() -> jl.LossCurves:
    """The nine curves of 25 M parameters."""
    return jl.read_loss_curves(
        Path(DATA) / "lr_loss_curves.csv",
        columns={"run": "schedule"},
        schedules=real_schedules(),
        where="model_params_millions == 25",
        **BEFORE,
    )


@cache
def real_fit() -> jl.Fit:
    return jl.fit("annealing", real_curves().only(where="split == 'fit'"))


def held_out(fit: jl.Fit) -> tuple[float, float]:
    """R² and mean absolute error on the six other schedules, each the mean over curves."""
    scores = []
    for run, curve in real_curves().only(where="split == 'heldout'").table.groupby("run"):
        predicted = fit.predict_curve(real_schedules()[run], curve["step"], **BEFORE)["loss"]
        loss, error = curve["loss"], curve["loss"].to_numpy() - predicted.to_numpy()
        spread = ((loss - loss.mean()) ** 2).sum()
        scores.append((1 - (error**2).sum() / spread, np.abs(error).mean()))
    return tuple(np.mean(scores, axis=0))
