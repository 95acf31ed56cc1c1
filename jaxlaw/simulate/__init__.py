"""Experiments whose truth is known, each of its paper's own design; the demo's data.

A simulated experiment answers what no real one can: whether a fit recovers what is there.
Everything is computed when it is called, and the same seed gives the same numbers.
"""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.simulate._designs import TRUTHS as TRUTHS, early_curves as early_curves
    from jaxlaw.simulate._experiments import (
        ContinualCurves as ContinualCurves,
        Demo as Demo,
        Experiment as Experiment,
        continual_curves as continual_curves,
        demo as demo,
        experiment as experiment,
        simulate_runs as simulate_runs,
    )
else:
    __getattr__, __dir__, __all__ = face(__name__)
