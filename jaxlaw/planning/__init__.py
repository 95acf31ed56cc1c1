"""The questions a fitted law answers."""

from jaxlaw.planning._allocation import (
    Allocation,
    allocation,
    allocation_law,
    frontier,
    min_compute,
    tokens_or_size_for,
)
from jaxlaw.planning._answers import Answer, AnswerTable
from jaxlaw.planning._best_run import BestRun, best_run
from jaxlaw.planning._choose_model import ModelChoice, choose_model
from jaxlaw.planning._compare_replay import compare_replay
from jaxlaw.planning._continual import (
    FinalLosses,
    OptimalTraining,
    TradeoffCurve,
    final_losses,
    optimal_training,
    tradeoff_curve,
)
from jaxlaw.planning._continual_run import ContinualRun, Pretraining
from jaxlaw.planning._domain_weights import optimal_domain_weights
from jaxlaw.planning._inflection import loss_slopes
from jaxlaw.planning._mixture import (
    Mixture,
    critical_ratio,
    optimal_mixture,
    optimal_mixture_data_limited,
)
from jaxlaw.planning._observed import (
    TransferLaw,
    loss_envelope,
    observed_transfer,
    transfer_law,
)
from jaxlaw.planning._out_of_domain import OutOfDomain, out_of_domain
from jaxlaw.planning._pretraining_value import Valuation, pretraining_value
from jaxlaw.planning._recipes import compute_multiplier
from jaxlaw.planning._schedule import OptimalSchedule, optimal_schedule
from jaxlaw.planning._transfer import (
    break_even,
    compute_savings,
    data_transferred,
    frontier_savings,
    transfer_table,
)
from jaxlaw.planning._turning_length import (
    TurningLength,
    TurningLengths,
    turning_length,
    turning_lengths,
)
from jaxlaw.planning._weights import OptimalWeights, optimal_weights
from jaxlaw.uncertainty import Draws

__all__ = [
    "Allocation",
    "Answer",
    "AnswerTable",
    "Mixture",
    "loss_slopes",
    "BestRun",
    "ContinualRun",
    "FinalLosses",
    "ModelChoice",
    "OptimalSchedule",
    "OptimalTraining",
    "OptimalWeights",
    "OutOfDomain",
    "Pretraining",
    "Draws",
    "TradeoffCurve",
    "TransferLaw",
    "TurningLength",
    "TurningLengths",
    "Valuation",
    "allocation",
    "tokens_or_size_for",
    "allocation_law",
    "best_run",
    "break_even",
    "choose_model",
    "compare_replay",
    "critical_ratio",
    "final_losses",
    "frontier",
    "frontier_savings",
    "loss_envelope",
    "observed_transfer",
    "optimal_mixture",
    "optimal_mixture_data_limited",
    "optimal_schedule",
    "optimal_domain_weights",
    "optimal_training",
    "optimal_weights",
    "out_of_domain",
    "pretraining_value",
    "compute_multiplier",
    "compute_savings",
    "min_compute",
    "tradeoff_curve",
    "transfer_law",
    "transfer_table",
    "data_transferred",
    "turning_length",
    "turning_lengths",
]
