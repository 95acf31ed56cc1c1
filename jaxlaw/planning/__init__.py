"""The questions a fitted law answers."""

from jaxlaw.planning.schedule import OptimalSchedule, optimal_schedule

__all__ = ["OptimalSchedule", "optimal_schedule"]
