"""Experiments whose truth is known, each of its paper's own design; the demo's data.

A simulated experiment answers what no real one can: whether a fit recovers what is there.
Everything is computed when it is called, and the same seed gives the same numbers.
"""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.simulate._designs import TRUTHS as TRUTHS
    from jaxlaw.simulate._designs import early_curves as early_curves
    from jaxlaw.simulate._experiments import ContinualCurves as ContinualCurves
    from jaxlaw.simulate._experiments import Demo as Demo
    from jaxlaw.simulate._experiments import Experiment as Experiment
    from jaxlaw.simulate._experiments import continual_curves as continual_curves
    from jaxlaw.simulate._experiments import demo as demo
    from jaxlaw.simulate._experiments import experiment as experiment
    from jaxlaw.simulate._experiments import simulate_runs as simulate_runs
else:
    __getattr__, __dir__, __all__ = face(__name__)
