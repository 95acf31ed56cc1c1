"""Experiments whose truth is known, each of its paper's own design; the demo's data.

A simulated experiment answers what no real one can: whether a fit recovers what is there.
Everything is computed when asked for, and the same seed gives the same numbers.
"""

from jaxlaw.simulate._designs import TRUTHS, early_curves
from jaxlaw.simulate._experiments import (
    ContinualCurves,
    Demo,
    Experiment,
    continual_curves,
    demo,
    experiment,
    simulate_runs,
)

__all__ = [
    "TRUTHS",
    "ContinualCurves",
    "Demo",
    "Experiment",
    "continual_curves",
    "demo",
    "early_curves",
    "experiment",
    "simulate_runs",
]
