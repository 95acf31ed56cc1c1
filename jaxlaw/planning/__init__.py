"""The questions a fitted law answers."""

from jaxlaw._deprecated import renamed_names
from jaxlaw.planning._answers import Replicates
from jaxlaw.planning._continual import (
    FinalLosses,
    OptimalTraining,
    TradeoffCurve,
    TurningLength,
    final_losses,
    optimal_training,
    tradeoff_curve,
    turning_length,
)
from jaxlaw.planning._continual_run import ContinualRun, Pretraining
from jaxlaw.planning._downstream import ModelChoice, Valuation, choose_model, pretraining_value
from jaxlaw.planning._out_of_domain import OutOfDomain, out_of_domain
from jaxlaw.planning._schedule import OptimalSchedule, optimal_schedule
from jaxlaw.planning.breakeven import break_even
from jaxlaw.planning.budgets import allocation, allocation_law, frontier
from jaxlaw.planning.domains import optimal_shares
from jaxlaw.planning.envelope import lowest_losses
from jaxlaw.planning.mixture import critical_ratio, optimal_mixture, optimal_mixture_limited
from jaxlaw.planning.pipelines import BestRun, best_run
from jaxlaw.planning.replays import compare_replay
from jaxlaw.planning.savings import frontier_savings, observed_transfer
from jaxlaw.planning.targets import allocation_at, smallest_compute
from jaxlaw.planning.transfer import saved_compute, transfer_table, transferred

__all__ = [
    "BestRun",
    "ContinualRun",
    "FinalLosses",
    "ModelChoice",
    "OptimalSchedule",
    "OptimalTraining",
    "OutOfDomain",
    "Pretraining",
    "Replicates",
    "TradeoffCurve",
    "TurningLength",
    "Valuation",
    "allocation",
    "allocation_at",
    "allocation_law",
    "best_run",
    "break_even",
    "choose_model",
    "compare_replay",
    "critical_ratio",
    "final_losses",
    "frontier",
    "frontier_savings",
    "lowest_losses",
    "observed_transfer",
    "optimal_mixture",
    "optimal_mixture_limited",
    "optimal_schedule",
    "optimal_shares",
    "optimal_training",
    "out_of_domain",
    "pretraining_value",
    "saved_compute",
    "smallest_compute",
    "tradeoff_curve",
    "transfer_table",
    "transferred",
    "turning_length",
]

__getattr__ = renamed_names(
    __name__, globals(), {"BalanceCurve": "TradeoffCurve", "balance_curve": "tradeoff_curve"}
)
