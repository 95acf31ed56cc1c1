"""Saved fits and forecasts, read again by one function."""

from __future__ import annotations

from pathlib import Path

from jaxlaw import _json as records
from jaxlaw._typed import checked
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._result import Fit
from jaxlaw.fitting._saved_fits import from_dict
from jaxlaw.forecasting._forecast import Forecast


@checked
def load(path: str | Path) -> Fit | FittedLaw | Forecast:
    """Read what :meth:`jaxlaw.FittedLaw.save` or :meth:`jaxlaw.Forecast.save` wrote.

    Nothing in the file is executed. It is checked as a whole (its digest), field by field, and
    by a prediction it holds, which the law in this process must give again.

    Args:
        path: name of the file, or ``-`` for standard input.

    Returns:
        :class:`jaxlaw.Fit`; a :class:`jaxlaw.FittedLaw` where the file holds no search; a
        :class:`jaxlaw.Forecast`. ``isinstance(one, jl.Fit)`` tells
        which (a type checker, too).

    Raises:
        UsageError: no such file, or a law is not registered in this process.
        DataError: neither, changed since it was written, of a newer schema, of another formula,
            or a field missing or malformed (named).

    Example:
        >>> jl.published()["hoffmann-2022"].save("hoffmann.json")
        >>> jl.load("hoffmann.json").params["E"]
        1.69
    """
    record, source = records.read_record(path, "fit", "forecast"), records.source_name(path)
    if records.kind_of(record) == "forecast":
        return Forecast.from_dict(record, source)
    return from_dict(record, source)
