"""The questions a fitted law answers."""

from jaxlaw.planning.answers import Replicates
from jaxlaw.planning.continual_run import ContinualRun, Pretraining
from jaxlaw.planning.ood import OutOfDomain, out_of_domain
from jaxlaw.planning.schedule import OptimalSchedule, optimal_schedule
from jaxlaw.planning.training import (
    BalanceCurve,
    FinalLosses,
    OptimalTraining,
    balance_curve,
    final_losses,
    optimal_training,
)
from jaxlaw.planning.turning import TurningLength, turning_length
from jaxlaw.planning.valuation import Valuation, pretraining_value

__all__ = [
    "BalanceCurve",
    "ContinualRun",
    "FinalLosses",
    "OptimalSchedule",
    "OptimalTraining",
    "OutOfDomain",
    "Pretraining",
    "Replicates",
    "TurningLength",
    "Valuation",
    "balance_curve",
    "final_losses",
    "optimal_schedule",
    "optimal_training",
    "out_of_domain",
    "pretraining_value",
    "turning_length",
]
