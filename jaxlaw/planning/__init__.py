"""The questions a fitted law answers."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.planning._constraints import AtMost as AtMost
    from jaxlaw.planning._constraints import Budget as Budget
    from jaxlaw.planning._constraints import Compute as Compute
    from jaxlaw.planning._constraints import Corpus as Corpus
    from jaxlaw.planning.continual import ContinualPretraining as ContinualPretraining
    from jaxlaw.planning.continual import Pretraining as Pretraining
    from jaxlaw.planning.continual import continual_run as continual_run
    from jaxlaw.planning.continual import final_losses as final_losses
    from jaxlaw.planning.continual import optimal_training as optimal_training
    from jaxlaw.planning.continual import turning_length as turning_length
    from jaxlaw.planning.mixture import critical_ratio as critical_ratio
    from jaxlaw.planning.mixture import optimal_mixture as optimal_mixture
    from jaxlaw.planning.mixture import optimal_mixture_data_limited as optimal_mixture_data_limited
    from jaxlaw.planning.mixture import optimal_weights as optimal_weights
    from jaxlaw.planning.schedule import optimal_schedule as optimal_schedule
    from jaxlaw.planning.settings import best_settings as best_settings
    from jaxlaw.planning.settings import critical_batch_size as critical_batch_size
    from jaxlaw.planning.settings import minimise as minimise
    from jaxlaw.planning.settings import optimal_inputs as optimal_inputs
    from jaxlaw.planning.settings import solve as solve
    from jaxlaw.planning.size_and_data import BestRun as BestRun
    from jaxlaw.planning.size_and_data import allocation as allocation
    from jaxlaw.planning.size_and_data import allocation_law as allocation_law
    from jaxlaw.planning.size_and_data import best_run as best_run
    from jaxlaw.planning.size_and_data import frontier as frontier
    from jaxlaw.planning.size_and_data import min_compute as min_compute
    from jaxlaw.planning.transfer import break_even as break_even
    from jaxlaw.planning.transfer import compute_multiplier as compute_multiplier
    from jaxlaw.planning.transfer import data_transferred as data_transferred
    from jaxlaw.planning.transfer import frontier_savings as frontier_savings
else:
    __getattr__, __dir__, __all__ = face(__name__)
