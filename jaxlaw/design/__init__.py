"""Design of experiments: which runs to make next, and at which steps to evaluate them."""

from jaxlaw.design._evaluation_steps import NextRuns, Plan, decay_rate, next_runs, plan

__all__ = ["NextRuns", "Plan", "decay_rate", "next_runs", "plan"]
