"""Design of experiments: which runs to make next, and at which steps to evaluate them."""

from jaxlaw.design._evaluation_steps import EvaluationSteps, decay_rate, evaluation_steps
from jaxlaw.design._next_runs import NextRuns, next_runs

__all__ = ["EvaluationSteps", "NextRuns", "decay_rate", "evaluation_steps", "next_runs"]
