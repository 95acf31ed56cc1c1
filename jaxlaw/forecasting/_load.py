"""Saved results of every kind, read again by one function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jaxlaw import _json as records
from jaxlaw._result import RESULTS, Result
from jaxlaw._typed import checked
from jaxlaw.errors import DataError
from jaxlaw.fitting import Fit, FittedLaw, from_dict
from jaxlaw.forecasting._forecast import Forecast
from jaxlaw.uncertainty import Draws
from jaxlaw.validation import Study

#: Kind of record → what reads it; all other results read themselves.
_READERS = {
    "fit": from_dict,
    "forecast": Forecast.from_dict,
    "study": Study.from_dict,
    "bootstrap": Draws.from_dict,
}


@checked
def load(path: str | Path) -> Fit | FittedLaw | Study | Forecast | Draws | Result:
    """Read any saved result: of fits, studies, draws, forecasts and plans.

    Nothing in the file is executed. It is checked as a whole (its digest), field by field, and,
    of a fit, by a prediction it holds, which the law in this process must give again.

    Args:
        path: name of the file, or ``-`` for standard input.

    Returns:
        What was saved: :class:`jaxlaw.Fit`; a :class:`jaxlaw.FittedLaw` where the file holds no
        search; :class:`jaxlaw.Study`, :class:`jaxlaw.Forecast`, :class:`jaxlaw.planning.Draws`;
        the result of a plan.

    Raises:
        UsageError: no such file, or a law is not registered in this process.
        DataError: it holds no result, was changed since it was written, is of a newer schema or
            another formula, or a field is missing or malformed (named).

    Example:
        >>> jl.published()["hoffmann-2022"].save("hoffmann.json")
        >>> jl.load("hoffmann.json").params["E"]
        1.69
        >>> plan = jl.planning.allocation(jl.load("hoffmann.json"), 1e21)
        >>> plan.save("plan.json")
        >>> jl.load("plan.json").N == plan.N
        True
    """
    return read_result(records.read_record(path), records.source_name(path))


def read_result(record: dict[str, Any], source: str) -> Any:
    """The result of a record that :func:`jaxlaw._json.read_record` has checked."""
    kind = str(records.kind_of(record))
    if kind in _READERS:
        return _READERS[kind](record, source)
    from jaxlaw import design, planning  # noqa: F401  their results are known once imported

    if kind not in RESULTS:
        raise DataError(f"{source} holds a {kind}, which this jaxlaw does not know")
    return RESULTS[kind].from_dict(record, source)
