"""Design of experiments: which runs to make next, and at which steps to evaluate them."""

from typing import Any

from jaxlaw._deprecated import renamed_names
from jaxlaw.design._evaluation_steps import EvaluationSteps, decay_rate, evaluation_steps
from jaxlaw.design._next_runs import NextRuns, next_runs

__all__ = ["EvaluationSteps", "NextRuns", "decay_rate", "evaluation_steps", "next_runs"]

__getattr__: Any = renamed_names(
    "jaxlaw.design", globals(), {"plan": "evaluation_steps", "Plan": "EvaluationSteps"}
)
