"""Tables read as a fit's runs were: the same runs again, or others of the same columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jaxlaw._tables import Table
from jaxlaw.data import LossCurves, Runs, read_runs, usual_columns
from jaxlaw.data._aliases import SAME
from jaxlaw.data._runs import RunsSource
from jaxlaw.data.formats import read_source
from jaxlaw.errors import DataError, JaxlawError, listed
from jaxlaw.notes import COLUMNS_TAKEN, Note


def runs_of(fit: Any, runs: Any, given: Mapping[str, Any] | None = None) -> Runs:
    """The runs that a fit was made from: read as they were for it, rows and weights too.

    Args:
        fit: a :class:`jaxlaw.FittedLaw`; one without ``reading`` says nothing.
        runs: anything that :func:`jaxlaw.read_runs` takes; Runs are read already; areas of
            LossCurves are counted as for the fit.
        given: options of :func:`jaxlaw.read_runs`, which win.

    Returns:
        :class:`jaxlaw.Runs`, with a note (``columns-taken``) on what was taken over.

    Raises:
        UsageError, DataError: as :func:`jaxlaw.read_runs` raises; the table lacks columns that
            the fit's runs had.
    """
    given = given or {}
    if isinstance(runs, RunsSource) and fit.area_options is not None:
        runs = runs.runs(**fit.area_options)
    if isinstance(runs, Runs | RunsSource) or getattr(fit, "reading", None) is None:
        return read_runs(runs, **given)
    table, options, taken = read_as_fitted(fit, runs, given)
    try:
        read = read_runs(table, **options)
    except JaxlawError as error:
        error.args = (f"{error} ({taken})" if taken else str(error),)
        raise
    notes = [Note(COLUMNS_TAKEN, "info", f"{read.source}: {taken}")] if taken else []
    return replace(read, notes=(*notes, *read.notes))


def read_as_fitted(
    fit: Any, source: Any, given: Mapping[str, Any]
) -> tuple[Table, dict[str, Any], str]:
    """A table, the options to read it by, and in words what of them the fit has brought.

    Raises:
        DataError: the table lacks columns that the fit's runs had.
    """
    table = read_source(source, given.get("name"), given.get("format") or fit.reading.format)
    options, taken = fit.reading.options({**given, "format": None}, table.frame.columns)
    options.pop("format", None)
    # All columns that the fit's runs had and this table lacks, in one message.
    present, mapped = table.frame.columns, options.get("columns") or {}
    needed = [SAME.get(name, {name}) for name in (*fit.law.input_names, fit.law.target)]
    lacking = {
        name: column
        for name, column in fit.reading.columns.items()
        if any(name in names and not names & {*present, *mapped} for names in needed)
    }
    if lacking:
        were = ", ".join(f"{column} for {name}" for name, column in lacking.items())
        first = next(iter(lacking))
        raise DataError(
            f"{table.source}: the fit's data had {were}, and this table has no such column; "
            f"columns: {listed(present)}. Pass columns={{'{first}': '…'}}.",
            file=table.source,
            column=lacking[first],
        )
    return table, options, taken and f"options taken from the fit: {taken}"


def runs_for(fit: Any, runs: Any, reading: Mapping[str, Any] | None = None) -> Runs:
    """Runs in the columns and units of those of a fit, unless options name others.

    They may be others, such as were held out: ``where`` and weights of the fit's are not theirs.

    Args:
        fit: a :class:`jaxlaw.FittedLaw`, or what has its law and units.
        runs: anything that :func:`jaxlaw.read_runs` takes or returns; or LossCurves, whose areas
            are counted as for the fit.
        reading: options of :func:`jaxlaw.read_runs`. Columns that are not named there have
            the names that the fitted runs gave them, and units not declared are theirs.

    Raises:
        UsageError, DataError: as :func:`jaxlaw.read_runs` raises.
    """
    reading = dict(reading or {})
    options, curves = getattr(fit, "area_options", None), isinstance(runs, LossCurves)
    if curves and options is not None:
        runs = runs.runs(**options)
    elif not curves and not isinstance(runs, Runs) and not reading.get("format"):
        runs = read_source(runs, reading.get("name"))
        columns = reading.get("columns") or {}
        reading["columns"] = usual_columns(fit, runs.frame, columns, reading.get("corpus"))
    read = read_runs(runs, **reading)
    fitted_in = {spec.name: fit.units[spec.name] * spec.unit for spec in fit.law.inputs}
    return replace(read, units=fitted_in | dict(read.units))
