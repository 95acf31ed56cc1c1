"""The questions a fitted law answers."""

from jaxlaw.planning.answers import Replicates
from jaxlaw.planning.budgets import allocation, allocation_law, frontier
from jaxlaw.planning.schedule import OptimalSchedule, optimal_schedule

__all__ = [
    "OptimalSchedule",
    "Replicates",
    "allocation",
    "allocation_law",
    "frontier",
    "optimal_schedule",
]
