"""The questions a fitted law answers."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.planning._constraints import (
        AtMost as AtMost,
        Budget as Budget,
        Compute as Compute,
        Corpus as Corpus,
    )
    from jaxlaw.planning.continual import (
        ContinualPretraining as ContinualPretraining,
        Pretraining as Pretraining,
        continual_run as continual_run,
        final_losses as final_losses,
        optimal_training as optimal_training,
        turning_length as turning_length,
    )
    from jaxlaw.planning.mixture import (
        critical_ratio as critical_ratio,
        optimal_mixture as optimal_mixture,
        optimal_mixture_data_limited as optimal_mixture_data_limited,
        optimal_weights as optimal_weights,
    )
    from jaxlaw.planning.schedule import optimal_schedule as optimal_schedule
    from jaxlaw.planning.settings import (
        best_settings as best_settings,
        critical_batch_size as critical_batch_size,
        minimise as minimise,
        optimal_inputs as optimal_inputs,
        solve as solve,
    )
    from jaxlaw.planning.size_and_data import (
        BestRun as BestRun,
        allocation as allocation,
        allocation_law as allocation_law,
        best_run as best_run,
        frontier as frontier,
        min_compute as min_compute,
    )
    from jaxlaw.planning.transfer import (
        break_even as break_even,
        compute_multiplier as compute_multiplier,
        data_transferred as data_transferred,
        frontier_savings as frontier_savings,
    )
else:
    __getattr__, __dir__, __all__ = face(__name__)
