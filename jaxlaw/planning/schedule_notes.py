"""What to know of a best schedule before relying on it."""

from __future__ import annotations

import numpy as np

from jaxlaw.lr_areas import Areas, PhaseAreas
from jaxlaw.notes import Note
from jaxlaw.planning.answers import on_source
from jaxlaw.planning.descent import Target
from jaxlaw.planning.falls import Run, by_name

FEW = 0.5  # of the starts agree: warn
SUDDEN = 0.05  # share of the steps; a fall within fewer is a cliff
IDLE = 0.05  # share of the steps; more of them without a rate are worth a warning

BEYOND = Note(
    "beyond-the-law",
    "info",
    "the law knows S1 and S2 only: not the stability of training at high rates, its noise, or "
    "schedules unlike those it was fitted to; try this one at small scale first",
)


_WHICH = ("first", "second", "third")


def on_sources(targets: tuple[Target, ...], ends: Areas | PhaseAreas) -> list[Note]:
    """Where the best schedule is outside what a fit has seen; the fits' own doubts."""
    notes = []
    for k, target in enumerate(targets):
        which = "" if len(targets) == 1 else _WHICH[k] if k < len(_WHICH) else f"{k + 1}th"
        values, source = by_name(ends) | target.inputs, target.source
        at = {name: values[name] / source.units[name] for name in source.law.input_names}
        notes += on_source(source, which, **at)
    return notes


def on_shape(free: np.ndarray, run: Run) -> list[Note]:
    """Falls that are cliffs and tails that train nothing."""
    notes, fall = [], free[0] - free[-1]
    begun, ended = ((free >= free[0] - share * fall).sum() for share in (0.1, 0.9))
    if fall > 0.1 * run.peak and ended - begun < SUDDEN * len(free):
        message = (
            f"the rate falls from {free[0]:.3g} to {free[-1]:.3g} within {ended - begun + 1} steps "
            f"near step {run.first + begun}: the law, fitted to smooth schedules, says nothing "
            "against it; shortest_decay= does"
        )
        notes.append(Note("cliff", "warning", message))
    idle = int((free <= 1e-3 * run.peak).sum())
    if idle > IDLE * len(free):
        message = (
            f"the last {idle} steps have a rate below a thousandth of the peak, where nothing is "
            "trained; the law credits their annealing area all the same: use a floor above 0"
        )
        notes.append(Note("idle-tail", "warning", message))
    return notes


def on_search(agreement: float, gap: float, loss: float) -> list[Note]:
    """Starts that disagree, and a gap that is left."""
    notes = []
    if agreement < FEW:
        message = (
            f"only {agreement:.0%} of the starts end at the best loss: a better schedule may "
            "exist; try more starts (n_starts) or iterations"
        )
        notes.append(Note("few-starts-agree", "warning", message))
    if not gap <= 1e-4 * abs(loss):
        message = f"up to {gap:.1g} nats may be left to gain; try more iterations"
        notes.append(Note("not-converged", "warning", message))
    return notes
