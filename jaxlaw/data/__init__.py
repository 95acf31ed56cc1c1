"""Tables, runs and loss curves in: columns found, units applied, rows checked, areas computed."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw._areas import Areas as Areas
    from jaxlaw._areas import PhaseAreas as PhaseAreas
    from jaxlaw._areas import phase_areas as phase_areas
    from jaxlaw.data._aliases import OF_SCHEDULES as OF_SCHEDULES
    from jaxlaw.data._aliases import SIDES as SIDES
    from jaxlaw.data._aliases import input_columns as input_columns
    from jaxlaw.data._aliases import known_columns as known_columns
    from jaxlaw.data._aliases import usual_columns as usual_columns
    from jaxlaw.data._columns import Corpus as Corpus
    from jaxlaw.data._columns import ReadingOptions as ReadingOptions
    from jaxlaw.data._columns import missing_column as missing_column
    from jaxlaw.data._columns import numbers as numbers
    from jaxlaw.data._dependence import RunGroups as RunGroups
    from jaxlaw.data._dependence import dependence_note as dependence_note
    from jaxlaw.data._dependence import without_dependence_note as without_dependence_note
    from jaxlaw.data._join_scores import join_scores as join_scores
    from jaxlaw.data._learnability import learnability_coefficients as learnability_coefficients
    from jaxlaw.data._loss_curves import LossCurves as LossCurves
    from jaxlaw.data._loss_curves import read_loss_curves as read_loss_curves
    from jaxlaw.data._row_areas import AREAS as AREAS
    from jaxlaw.data._row_areas import MOST_DROPS as MOST_DROPS
    from jaxlaw.data._row_areas import UNKNOWN_BASE_RATE as UNKNOWN_BASE_RATE
    from jaxlaw.data._row_areas import area_options as area_options
    from jaxlaw.data._row_areas import areas_along as areas_along
    from jaxlaw.data._row_areas import drops_along as drops_along
    from jaxlaw.data._row_areas import for_unknown_base as for_unknown_base
    from jaxlaw.data._row_areas import relative_batch as relative_batch
    from jaxlaw.data._run_flops import RunFlops as RunFlops
    from jaxlaw.data._run_flops import counted_flops as counted_flops
    from jaxlaw.data._run_flops import training_flops as training_flops
    from jaxlaw.data._run_schedules import RunSchedule as RunSchedule
    from jaxlaw.data._run_schedules import as_schedule as as_schedule
    from jaxlaw.data._run_schedules import optimizer_steps as optimizer_steps
    from jaxlaw.data._runs import Observations as Observations
    from jaxlaw.data._runs import Reading as Reading
    from jaxlaw.data._runs import Runs as Runs
    from jaxlaw.data._runs import read_columns as read_columns
    from jaxlaw.data._runs import read_runs as read_runs
    from jaxlaw.data._runs import refuse_rows as refuse_rows
    from jaxlaw.data.formats import read_source as read_source
    from jaxlaw.errors import name_rows as name_rows
else:
    __getattr__, __dir__, __all__ = face(__name__)
