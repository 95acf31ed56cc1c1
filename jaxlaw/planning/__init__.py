"""The questions a fitted law answers."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.planning._allocation import Allocation as Allocation
    from jaxlaw.planning._allocation import AllocationLaw as AllocationLaw
    from jaxlaw.planning._allocation import Frontier as Frontier
    from jaxlaw.planning._allocation import allocation as allocation
    from jaxlaw.planning._allocation import allocation_law as allocation_law
    from jaxlaw.planning._allocation import frontier as frontier
    from jaxlaw.planning._allocation import min_compute as min_compute
    from jaxlaw.planning._allocation import tokens_or_size_for as tokens_or_size_for
    from jaxlaw.planning._answers import Answer as Answer
    from jaxlaw.planning._answers import AnswerTable as AnswerTable
    from jaxlaw.planning._best_run import BestRun as BestRun
    from jaxlaw.planning._best_run import best_run as best_run
    from jaxlaw.planning._best_settings import BestSettings as BestSettings
    from jaxlaw.planning._best_settings import best_settings as best_settings
    from jaxlaw.planning._compare_replay import ReplayComparison as ReplayComparison
    from jaxlaw.planning._compare_replay import compare_replay as compare_replay
    from jaxlaw.planning._constraints import AtMost as AtMost
    from jaxlaw.planning._constraints import Budget as Budget
    from jaxlaw.planning._constraints import Compute as Compute
    from jaxlaw.planning._constraints import Corpus as Corpus
    from jaxlaw.planning._continual import FinalLosses as FinalLosses
    from jaxlaw.planning._continual import OptimalTraining as OptimalTraining
    from jaxlaw.planning._continual import TradeoffCurve as TradeoffCurve
    from jaxlaw.planning._continual import final_losses as final_losses
    from jaxlaw.planning._continual import optimal_training as optimal_training
    from jaxlaw.planning._continual import tradeoff_curve as tradeoff_curve
    from jaxlaw.planning._continual_pretraining import ContinualPretraining as ContinualPretraining
    from jaxlaw.planning._continual_pretraining import Pretraining as Pretraining
    from jaxlaw.planning._continual_run import ContinualRun as ContinualRun
    from jaxlaw.planning._continual_run import continual_run as continual_run
    from jaxlaw.planning._critical_batch_size import CriticalBatchSize as CriticalBatchSize
    from jaxlaw.planning._critical_batch_size import critical_batch_size as critical_batch_size
    from jaxlaw.planning._minimise import Minimum as Minimum
    from jaxlaw.planning._minimise import minimise as minimise
    from jaxlaw.planning._mixture import CriticalRatio as CriticalRatio
    from jaxlaw.planning._mixture import LimitedMixture as LimitedMixture
    from jaxlaw.planning._mixture import Mixture as Mixture
    from jaxlaw.planning._mixture import critical_ratio as critical_ratio
    from jaxlaw.planning._mixture import optimal_mixture as optimal_mixture
    from jaxlaw.planning._mixture import (
        optimal_mixture_data_limited as optimal_mixture_data_limited,
    )
    from jaxlaw.planning._optimal_inputs import OptimalInputs as OptimalInputs
    from jaxlaw.planning._optimal_inputs import optimal_inputs as optimal_inputs
    from jaxlaw.planning._recipes import ComputeMultiplier as ComputeMultiplier
    from jaxlaw.planning._recipes import compute_multiplier as compute_multiplier
    from jaxlaw.planning._schedule import OptimalSchedule as OptimalSchedule
    from jaxlaw.planning._schedule import optimal_schedule as optimal_schedule
    from jaxlaw.planning._solution import Solution as Solution
    from jaxlaw.planning._solution import solve as solve
    from jaxlaw.planning._tokens_per_parameter import TokensPerParameter as TokensPerParameter
    from jaxlaw.planning._tokens_per_parameter import tokens_per_parameter as tokens_per_parameter
    from jaxlaw.planning._transfer import BreakEven as BreakEven
    from jaxlaw.planning._transfer import FrontierSavings as FrontierSavings
    from jaxlaw.planning._transfer import Saving as Saving
    from jaxlaw.planning._transfer import Transfer as Transfer
    from jaxlaw.planning._transfer import break_even as break_even
    from jaxlaw.planning._transfer import compute_savings as compute_savings
    from jaxlaw.planning._transfer import data_transferred as data_transferred
    from jaxlaw.planning._transfer import frontier_savings as frontier_savings
    from jaxlaw.planning._transfer import transfer_table as transfer_table
    from jaxlaw.planning._turning_length import TurningLength as TurningLength
    from jaxlaw.planning._turning_length import TurningLengths as TurningLengths
    from jaxlaw.planning._turning_length import turning_length as turning_length
    from jaxlaw.planning._turning_length import turning_lengths as turning_lengths
    from jaxlaw.planning._weights import OptimalWeights as OptimalWeights
    from jaxlaw.planning._weights import optimal_weights as optimal_weights
else:
    __getattr__, __dir__, __all__ = face(__name__)
