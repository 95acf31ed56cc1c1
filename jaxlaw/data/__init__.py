"""Tables, runs and loss curves in: columns found, units applied, rows checked, areas computed."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw._areas import Areas as Areas, PhaseAreas as PhaseAreas, phase_areas as phase_areas
    from jaxlaw.data._aliases import (
        OF_SCHEDULES as OF_SCHEDULES,
        SIDES as SIDES,
        input_columns as input_columns,
        known_columns as known_columns,
        usual_columns as usual_columns,
    )
    from jaxlaw.data._columns import (
        Corpus as Corpus,
        ReadingOptions as ReadingOptions,
        missing_column as missing_column,
        numbers as numbers,
    )
    from jaxlaw.data._dependence import (
        RunGroups as RunGroups,
        dependence_note as dependence_note,
        without_dependence_note as without_dependence_note,
    )
    from jaxlaw.data._join_scores import join_scores as join_scores
    from jaxlaw.data._learnability import learnability_coefficients as learnability_coefficients
    from jaxlaw.data._loss_curves import (
        LossCurves as LossCurves,
        read_loss_curves as read_loss_curves,
    )
    from jaxlaw.data._row_areas import (
        AREAS as AREAS,
        MOST_DROPS as MOST_DROPS,
        UNKNOWN_BASE_RATE as UNKNOWN_BASE_RATE,
        area_options as area_options,
        areas_along as areas_along,
        drops_along as drops_along,
        for_unknown_base as for_unknown_base,
        relative_batch as relative_batch,
    )
    from jaxlaw.data._run_flops import (
        RunFlops as RunFlops,
        counted_flops as counted_flops,
        training_flops as training_flops,
    )
    from jaxlaw.data._run_schedules import (
        RunSchedule as RunSchedule,
        as_schedule as as_schedule,
        optimizer_steps as optimizer_steps,
    )
    from jaxlaw.data._runs import (
        Observations as Observations,
        Reading as Reading,
        Runs as Runs,
        read_columns as read_columns,
        read_runs as read_runs,
        refuse_rows as refuse_rows,
    )
    from jaxlaw.data.formats import read_source as read_source
    from jaxlaw.errors import name_rows as name_rows
else:
    __getattr__, __dir__, __all__ = face(__name__)
