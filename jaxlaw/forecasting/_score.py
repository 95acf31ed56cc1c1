"""How forecasts went: each point against the run that was made there, and all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Unpack

import numpy as np
import pandas as pd

from jaxlaw import _json as records
from jaxlaw._result import Result
from jaxlaw._typed import Between, checked
from jaxlaw.data import ReadingOptions, Runs, missing_column, name_rows, numbers
from jaxlaw.errors import DataError, UsageError
from jaxlaw.forecasting._cutoffs import runs_read
from jaxlaw.forecasting._forecast import Forecast
from jaxlaw.notes import Note

#: Relative difference of inputs up to which a run is one that was forecast.
RTOL = 0.02
LEVELS = (0.5, 0.8, 0.9, 0.95)
_SAME = 1e-6  # relative difference of inputs of one point
_FEW = 10  # forecasts below which shares are hardly evidence
_SEVERAL = "leave future out"  # kind of record that holds forecasts by name
_KINDS = ("forecast", _SEVERAL)
#: Fields of a record that differ where the same forecast is made again.
_OF_THE_DAY = ("created", "package_versions", "notes")
_COLUMNS = {"forecast": str, "row": Any, "inside": bool} | dict.fromkeys(
    ("observed", "estimate", "low", "high", "error", "interval_score", "below", "surprise"), float
)
_CALIBRATION = {"level": float, "forecasts": int, "runs": int, "inside": float, "std_err": float}


@dataclass(frozen=True, eq=False, repr=False)
class ForecastScores(Result):
    """How forecasts went.

    Attributes:
        table: one row a forecast's point and run made there: ``forecast`` (its number or file),
            the inputs of the point, ``row`` of the run, ``observed``, ``estimate``, ``low``,
            ``high``, ``error`` (estimate over observed, less 1), ``inside`` (whether the interval
            holds the run), ``interval_score`` (width, and 2/(1 − level) times what the run lies
            outside by; Gneiting and Raftery 2007, eq. 43; smaller is better), ``below``
            (probability that the forecast gave to a lower target) and ``surprise`` (bits: −log2 of
            the probability of a run as far out or farther, on either side).
        calibration: one row a ``level``: how many ``forecasts`` and ``runs``; the share ``inside``
            the interval, over the runs of all forecasts; its ``std_err``, each forecast counting
            once, since the runs of one err together (NaN of a single one).
        notes: what to know before relying on the numbers.
    """

    picture = "forecast_calibration"

    table: pd.DataFrame = field(metadata={"columns": _COLUMNS})
    calibration: pd.DataFrame = field(metadata={"columns": _CALIBRATION})
    notes: tuple[Note, ...]

    @property
    def headline(self) -> str:
        """How many runs were inside, and how far the estimates were off."""
        inside, count = int(self.table["inside"].sum()), len(self.table)
        return (
            f"{inside} of {count} run{'' if count == 1 else 's'} inside the interval; mean error "
            f"{self.table['error'].mean():+.2%}, largest {self.table['error'].abs().max():.2%}"
        )

    def lines(self) -> list[str]:
        """Every run, and the share inside by level."""
        shown = self.table[["estimate", "low", "high", "observed", "error", "inside", "surprise"]]
        return [
            f"mean interval score {self.table['interval_score'].mean():.4g}",
            "",
            *shown.to_string(
                index=False,
                formatters={"error": "{:+.2%}".format, "surprise": "{:.1f}".format},
                float_format="{:.5g}".format,
            ).splitlines(),
            "",
            *self.calibration.to_string(
                index=False,
                formatters=dict.fromkeys(("level", "inside", "std_err"), "{:.0%}".format),
                na_rep="",
            ).splitlines(),
        ]


@checked
def score(
    forecasts: Any,
    runs: Any,
    *,
    rtol: Annotated[float, Between(0.0, 0.5)] = RTOL,
    **reading: Unpack[ReadingOptions],
) -> ForecastScores:
    """Score forecasts by the runs that were made since.

    Args:
        forecasts: forecast, or a list of them, or a dict name → forecast; or the name of a file of
            one (:meth:`jaxlaw.Forecast.save`) or of a :class:`jaxlaw.forecasting.LeaveFutureOut`,
            of a folder with such files, or a list of names.
        runs: what :func:`jaxlaw.read_runs` takes or returns, with the inputs of the forecasts and
            the target; in the forecasts' units unless ``units`` says otherwise.
        rtol: relative difference of each input up to which a run is one that was forecast: what
            was planned is rarely hit to the token.
        **reading: options of :func:`jaxlaw.read_runs`: columns, units, where …

    Returns:
        :class:`ForecastScores`, over all forecasts; a run that stands in the table twice, or a
        forecast that is given twice, counts once, and a note says so.

    Raises:
        UsageError: no forecast is given, or there is no such file.
        DataError: a file is no whole forecast, a column is missing, or no run was made where there
            is a forecast.

    Example:
        >>> table = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> compute = 6 * table["N"] * table["D"]
        >>> later = table[compute > 1e21]
        >>> before, at = table[compute <= 1e21], later[["N", "D"]]
        >>> forecast = jl.forecast("chinchilla", before, at, n_starts=64)
        >>> scores = jl.forecasting.score(forecast, later)
        >>> len(scores.table) == len(later), scores.calibration["level"].tolist()
        (True, [0.5, 0.8, 0.9, 0.95])
    """
    named = _named(forecasts)
    read = runs_read(runs, reading)
    named, same = _each_once(named)
    rows, pairs, nearly, shares, copies = [], [], 0, [], set()
    for name, forecast in named.items():
        matches, copied = runs_at(forecast, read, rtol)
        copies |= copied
        nearly += int((matches["away"] > _SAME).sum())
        # The probability integral transform of each run: evenly spread over (0, 1) where forecasts
        # hold. Tails are those of both sides, since a run may be too high or too low.
        below = forecast.probability_below_at(matches["point"], matches["observed"])
        tails = np.maximum(2 * np.minimum(below, 1 - below), 1e-12)
        for k, match in enumerate(matches.itertuples()):
            point = forecast.table.iloc[match.point]
            low, high, y = float(point["low"]), float(point["high"]), float(match.observed)
            missed = max(low - y, 0.0) + max(y - high, 0.0)
            rows.append({
                "forecast": name,
                **{column: float(point[column]) for column in forecast.inputs},
                "row": match.row,
                "observed": y,
                "estimate": float(point["estimate"]),
                "low": low,
                "high": high,
                "error": float(point["estimate"]) / y - 1,
                "inside": bool(low <= y <= high),
                "interval_score": high - low + 2 / (1 - forecast.level) * missed,
                "below": float(below[k]),
                "surprise": float(-np.log2(tails[k])),
            })  # fmt: skip
            pairs.append(below[k])
        # A central interval at a level holds a run whose ``below`` is within level/2 of one half.
        # One share a forecast: its runs err together, so that forecasts are what is counted.
        if len(below):
            shares.append([np.mean(np.abs(2 * below - 1) <= level) for level in LEVELS])
    if not rows:
        raise DataError(_nothing(named, read, rtol))
    # Of all runs the share inside, and of the shares of forecasts its standard error.
    outside, count = np.abs(2 * np.array(pairs) - 1), len(shares)
    spread = np.std(shares, axis=0, ddof=1) if count > 1 else np.full(len(LEVELS), np.nan)
    calibration = pd.DataFrame({
        "level": LEVELS,
        "forecasts": count,
        "runs": len(pairs),
        "inside": [float((outside <= level).mean()) for level in LEVELS],
        "std_err": spread / np.sqrt(count),
    })  # fmt: skip
    notes = []
    if same:
        notes.append(Note(
            "same-forecast", "warning",
            f"counted once: {'; '.join(f'{name} is the forecast {of}' for name, of in same)}",
            inherited=False,
        ))  # fmt: skip
    if copies:
        labels = read.table.index[read.table.index.isin(copies)].unique()
        notes.append(Note(
            "duplicate-rows", "warning",
            f"{read.source}: inputs and {next(iter(named.values())).target} equal to an earlier "
            f"row's, counted once: {name_rows(read.word, labels)}",
            inherited=False,
        ))  # fmt: skip
    if count < len(named):
        waiting = len(named) - count
        notes.append(Note(
            "not-made-yet", "info",
            f"{waiting} of {len(named)} forecasts {'have' if waiting > 1 else 'has'} no run yet",
        ))  # fmt: skip
    if nearly:
        notes.append(Note(
            "matched-nearly", "info",
            f"{nearly} run{'s were' if nearly > 1 else ' was'} made near the point forecast and "
            f"not at it, within {rtol:.0%} of every input",
        ))  # fmt: skip
    if count < _FEW:
        notes.append(Note(
            "few-forecasts", "info",
            f"{len(pairs)} run{'s' if len(pairs) > 1 else ''} of {count} "
            f"forecast{'s' if count > 1 else ''}: the runs of a forecast err together, and shares "
            "inside say little yet",
        ))  # fmt: skip
    return ForecastScores(pd.DataFrame(rows), calibration, tuple(notes))


def _named(forecasts: Any) -> dict[str, Forecast]:
    if isinstance(forecasts, Forecast | str | Path):
        forecasts = [forecasts]
    if not isinstance(forecasts, Mapping):
        try:
            listed = list(forecasts)
        except TypeError:
            listed = [forecasts]
        named = load_all([item for item in listed if isinstance(item, str | Path)])
        others = enumerate(listed, 1)
        forecasts = named | {str(k): i for k, i in others if not isinstance(i, str | Path)}
    for item in forecasts.values():
        if not isinstance(item, Forecast):
            raise UsageError(
                f"score takes forecasts, not {type(item).__name__}; jl.load reads them"
            )
    if not forecasts:
        raise UsageError("there is no forecast to score")
    return {str(name): forecast for name, forecast in forecasts.items()}


def _each_once(named: dict[str, Forecast]) -> tuple[dict[str, Forecast], list[tuple[str, str]]]:
    """The forecasts without repetitions, and the names of these with what they repeat.

    One that was made again, of the same runs in the same way, says nothing new.
    """
    first: dict[str, str] = {}
    same = []
    for name, forecast in named.items():
        record = forecast.to_dict()
        made = {field: value for field, value in record.items() if field not in _OF_THE_DAY}
        if (of := first.setdefault(records.digest_of(made), name)) != name:
            same.append((name, of))
    return {name: named[name] for name in first.values()}, same


def runs_at(forecast: Forecast, runs: Runs, rtol: float) -> tuple[pd.DataFrame, set[Any]]:
    """One row a run and the nearest point within ``rtol`` of every input: point, row, observed.

    Rows whose inputs and target are all an earlier one's are left out; their labels come second.
    """
    table = runs.table
    values = {}
    for name in [*forecast.inputs, forecast.target]:
        columns = {fit.columns.get(name) for fit in forecast.fits.values() if fit.columns}
        column_name = next((c for c in (name, *columns) if c is not None and c in table), None)
        if column_name is None:
            raise missing_column(name, " (of the forecast)", name, table, runs.source)
        values[name] = numbers(table[column_name], runs.location(column_name))
    observed = values.pop(forecast.target)
    off = np.zeros((len(table), len(forecast.table)))
    for name, column in values.items():
        scaled = column * runs.units.get(name, forecast.units.get(name, 1.0))
        point = forecast.table[name].to_numpy(float) * forecast.units.get(name, 1.0)
        size = np.maximum(np.abs(point), 1e-300)
        off = np.maximum(off, np.abs(scaled[:, None] - point) / size)
    nearest = off.argmin(axis=1)
    least = off[np.arange(len(table)), nearest]
    kept = (least <= rtol) & np.isfinite(observed) & (observed > 0)
    again = pd.DataFrame({**values, " target": observed}).duplicated().to_numpy() & kept
    copies, kept = set(table.index[again]), kept & ~again
    return pd.DataFrame({
        "point": nearest[kept], "row": table.index[kept], "observed": observed[kept],
        "away": least[kept],
    }), copies  # fmt: skip


def _nothing(named: Mapping[str, Forecast], runs: Runs, rtol: float) -> str:
    first = next(iter(named.values()))
    point = first.table.iloc[0]
    where = ", ".join(f"{name} {point[name]:.4g}" for name in first.inputs)
    return (
        f"{runs.source}: none of {len(runs)} runs was made where there is a forecast ({where}, …; "
        f"within {rtol:.0%} of every input); say with columns= and units= which column is what, or "
        "raise rtol="
    )


def load_all(paths: Iterable[str | Path]) -> dict[str, Forecast]:
    """Forecasts of files, by the names of these; of a folder those files that are forecasts.

    A file that is named again is there again, for :func:`score` to say so. Of a file of
    :func:`jaxlaw.forecasting.leave_future_out` its forecasts are taken, a file each.
    """
    found: dict[str, Forecast] = {}
    for path in paths:
        for file, record in _records(path):
            several = record["forecasts"] if records.kind_of(record) == _SEVERAL else {"": record}
            for part, one in several.items():
                name = f"{file}, {part}" if part else str(file)
                while name in found:
                    name += " (again)"
                found[name] = Forecast.from_dict(one, records.source_name(file))
    return found


def _records(path: str | Path) -> list[tuple[str | Path, dict[str, Any]]]:
    """A file and its record; of a folder those of its forecasts, among other saved results."""
    if not Path(path).is_dir():
        return [(path, records.read_record(path, *_KINDS))]
    files = sorted(Path(path).glob("*.json"))
    every = [(f, records.read_record(f)) for f in files]
    kept = [(file, record) for file, record in every if records.kind_of(record) in _KINDS]
    if not kept:
        raise UsageError(f"folder {path} has no forecast among its {len(files)} files *.json")
    return kept
