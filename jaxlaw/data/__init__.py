"""Tables, runs and loss curves in: columns found, units applied, rows checked, areas computed."""

from jaxlaw.data._columns import (
    SIDES,
    ReadingOptions,
    RowOptions,
    missing_column,
    name_rows,
    numbers,
    usual_columns,
)
from jaxlaw.data._dependence import without_dependence_note
from jaxlaw.data._learnability import learnability_coefficients
from jaxlaw.data._loss_curves import LossCurves, decaying, read_loss_curves
from jaxlaw.data._row_areas import (
    AREAS,
    UNKNOWN_BASE_RATE,
    area_options,
    areas_along,
    batch_of,
    chosen_options,
    of_unknown_base,
)
from jaxlaw.data._run_schedules import as_schedule, optimizer_steps, read_schedules
from jaxlaw.data._runs import (
    Observations,
    Runs,
    read_columns,
    read_runs,
    refuse_rows,
    target_column,
)

__all__ = [
    "AREAS",
    "ReadingOptions",
    "RowOptions",
    "SIDES",
    "UNKNOWN_BASE_RATE",
    "area_options",
    "areas_along",
    "as_schedule",
    "batch_of",
    "chosen_options",
    "decaying",
    "missing_column",
    "name_rows",
    "numbers",
    "of_unknown_base",
    "optimizer_steps",
    "read_columns",
    "read_schedules",
    "refuse_rows",
    "target_column",
    "usual_columns",
    "without_dependence_note",
    "LossCurves",
    "Observations",
    "Runs",
    "learnability_coefficients",
    "read_loss_curves",
    "read_runs",
]
