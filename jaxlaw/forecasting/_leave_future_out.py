"""Leave-future-out: what the first few runs would have said of the runs that came after them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Unpack

import numpy as np
import pandas as pd

from jaxlaw import _progress
from jaxlaw._arrays import numbers_of
from jaxlaw._quantities import SHARE, written, written_range
from jaxlaw._result import Result
from jaxlaw._rounding import merged
from jaxlaw._typed import Between, Seed, checked
from jaxlaw.data import Observations, Runs, missing_column, numbers
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import ForecastKeywords, lists_options, split_options
from jaxlaw.forecasting._backtest import SEARCH
from jaxlaw.forecasting._cutoffs import compute_of, default_laws, levels_of, runs_read
from jaxlaw.forecasting._forecast import Forecast, forecast
from jaxlaw.forecasting._score import RTOL, runs_at
from jaxlaw.notes import Note
from jaxlaw.uncertainty import group_numbers
from jaxlaw.validation import candidates_of

FEWEST = 3  # runs that the first forecast has
MOST = 12  # forecasts, unless counts are given
_COLUMNS = {"n_runs": int, "row": Any} | dict.fromkeys(
    ("distance", "estimate", "low", "high", "observed", "error"), float
)


@dataclass(frozen=True, eq=False, repr=False)
class LeaveFutureOut(Result):
    """What the first runs would have said of later ones, or of a target, and what came.

    Attributes:
        table: one row a forecast, point and run made there: ``n_runs`` that the forecast was made
            from, the inputs of the point in the units of the runs, ``distance`` (log of the ratio
            to the largest of these runs), ``estimate``, ``low``, ``high``, ``row`` of the run that
            came, ``observed``, ``error`` (estimate over observed, less 1); None and NaN where no
            run was made there.
        order: what the runs are put in order by.
        level: share of such intervals that should hold the run.
        forecasts: "3 runs" … → the forecast, for :func:`jaxlaw.forecasting.score`.
        notes: what to know before relying on the numbers.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.004).table
        >>> few = runs[runs["D"] == 20 * runs["N"]].iloc[:5]
        >>> said = jl.forecasting.leave_future_out("chinchilla", few, ahead=1)
        >>> said.table["n_runs"].tolist(), list(said.forecasts)
        ([3, 4], ['3 runs', '4 runs'])
    """

    picture = "leave_future_out"
    computed: ClassVar[tuple[str, ...]] = ("by_count",)

    table: pd.DataFrame = field(metadata={"columns": _COLUMNS})
    order: str
    level: float = field(metadata={"unit": SHARE})
    forecasts: dict[str, Forecast]
    notes: tuple[Note, ...]

    @property
    def inside(self) -> np.ndarray:
        """Whether the interval holds the run, for each row of the table; False without a run."""
        low, high, observed = (self.table[name].to_numpy() for name in ("low", "high", "observed"))
        return (low <= observed) & (observed <= high)

    @property
    def by_count(self) -> pd.DataFrame:
        """One row a forecast.

        Columns: ``n_runs``, ``points``, ``came`` (number of points where a run was made),
        ``inside`` (number of these that the interval holds), ``bias`` (mean error), ``off``
        (median of the errors' sizes) and ``half_width`` (median, relative to the estimate).
        """
        table = self.table.assign(
            inside=self.inside,
            off=self.table["error"].abs(),
            half_width=(self.table["high"] - self.table["low"]) / 2 / self.table["estimate"],
        )
        return table.groupby("n_runs", as_index=False).agg(
            points=("estimate", "size"), came=("observed", "count"), inside=("inside", "sum"),
            bias=("error", "mean"), off=("off", "median"), half_width=("half_width", "median"),
        )  # fmt: skip

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of an input, of what is predicted, or of a share."""
        if name in ("error", "bias", "off", "half_width"):
            return SHARE, 1.0
        return next(iter(self.forecasts.values())).unit_of(
            "estimate" if name in ("observed", "said", "came") else name
        )

    @property
    def target(self) -> str:
        """What is predicted."""
        return next(iter(self.forecasts.values())).target

    @property
    def headline(self) -> str:
        """How many later runs the intervals held; of a target what first and last runs say."""
        made = self.table["observed"].notna()
        came, counts = self.table[made], self.table["n_runs"]
        if len(came) > 1 or (len(came) and counts.nunique() == 1):
            worst = came.loc[came["error"].abs().idxmax()]
            return (
                f"{int(self.inside.sum())} of {len(came)} later runs inside the {self.level:.0%} "
                f"intervals of {counts.nunique()} forecasts, from {counts.min()} runs on; off by "
                f"{came['error'].abs().median():.2%} (median), most {worst['error']:+.2%} from "
                f"{worst['n_runs']} runs"
            )
        far = self.table.loc[self.table["distance"].idxmax()]
        inputs = next(iter(self.forecasts.values())).inputs
        where = ", ".join(f"{name} {written(far[name], *self.unit_of(name))}" for name in inputs)
        same = (self.table[inputs] == far[inputs]).all(axis=1)
        said = [self.table[same & (counts == n)].iloc[0] for n in (counts.min(), counts.max())]
        return f"{where}: " + ", ".join(
            f"{row['n_runs']} runs say {written(row['estimate'], *self.unit_of('estimate'))} "
            f"({written_range(row['low'], row['high'], *self.unit_of('estimate'))})"
            for row in said[: counts.nunique()]
        )

    def shown(self) -> dict[str, pd.DataFrame]:
        """A row a forecast where many runs came later, else every point."""
        if (self.by_count["points"] > 3).any():
            return {"by_count": self.by_count}
        # Names that fit 80 columns, with the interval in one.
        names = {"n_runs": "runs", "estimate": "said", "low": "said_low", "high": "said_high"}
        table = self.table.drop(columns=["row", "distance"])
        return {"table": table.rename(columns=names | {"observed": "came"})}

    @classmethod
    def _consistent(cls, values: dict[str, Any]) -> dict[str, Any]:
        names = {_name(n) for n in values["table"]["n_runs"]}
        if not names or names != set(values["forecasts"]):
            raise ValueError("field 'forecasts' is not that of the table's n_runs")
        return values


def _name(count: int) -> str:
    return f"{count} runs"


@lists_options(ForecastKeywords, **SEARCH)
@checked
def leave_future_out(
    laws: Any,
    runs: Any,
    at: Any = None,
    *,
    order: str = "compute",
    counts: Any = None,
    ahead: Annotated[int, Between(1, 100_000)] | None = None,
    level: Annotated[float, Between(0.01, 0.999)] = 0.9,
    along: str = "compute",
    groups: Any = None,
    n_resamples: Annotated[int, Between(2, 10_000)] = 16,
    seed: Seed = 0,
    prior: Any = "field",
    per_law: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Unpack[ForecastKeywords],
) -> LeaveFutureOut:
    """What the first 3, 4, 5, … runs would have said of those that came later, or of a target.

    Each row of the answer is :func:`jaxlaw.forecast` of the first runs alone, made as it would have
    been made at the time (leave-future-out validation: Bürkner, Gabry and Vehtari 2020). It shows
    how soon a ladder settled what it is to say, and how honest its intervals were on the way. Its
    file is a pre-registration: :func:`jaxlaw.forecasting.score` takes it as one of forecasts.

    Args:
        laws: as :func:`jaxlaw.forecast` takes them; None for those that suit the columns and the
            number of runs.
        runs: what :func:`jaxlaw.read_runs` takes or returns.
        at: points of a target, as :func:`jaxlaw.forecast` takes them; None for the later runs.
        order: what the runs came in order of: ``"compute"``, or a column, such as a date. Runs that
            are equal in it, such as those of one budget, come together.
        counts: numbers of first runs, 3 or more; raised to the end of runs that come together. None
            for all there are, of which twelve are chosen evenly in their logarithm if more.
        ahead: number of next runs that are predicted; None for all that came later.
        level, along, n_resamples, seed, prior, per_law: as :func:`jaxlaw.forecast` takes them.
        groups: columns whose rows are of one run.
        **options: options of :func:`jaxlaw.fit` for every law; the rest (columns, units …) is
            handed to :func:`jaxlaw.read_runs`.

    Returns:
        The :class:`LeaveFutureOut`.

    Raises:
        UsageError: the call makes no sense; the message says what would.
        DataError: the runs cannot carry a law, or there are too few of them.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.004).table
        >>> few = runs[runs["D"] == 20 * runs["N"]].iloc[:5]
        >>> target = {"N": 7e10, "D": 1.4e12}
        >>> said = jl.forecasting.leave_future_out("chinchilla", few, target, counts=[3, 5])
        >>> wide = said.by_count["half_width"]
        >>> bool(wide[1] < wide[0])
        True
    """
    of_fit, reading = split_options(options)
    read = runs_read(runs, reading)
    ladder = _in_order(laws, read, order, along, groups)
    # Of the later runs there must be one; a target may be predicted from all runs.
    allowed = ladder.counts if at is not None else ladder.counts[:-1]
    made: dict[str, Forecast] = {}
    tables, notes, refused = [], [], None
    for count in _progress.parts(_chosen(allowed, counts, read.source), _name, "forecast from"):
        first, later = ladder.split(count)
        next_runs = later if at is not None else later[:ahead]
        try:
            said = forecast(
                laws, _only(read, first), ladder.points(next_runs) if at is None else at,
                level=level, along=along, groups=groups, n_resamples=n_resamples, seed=seed,
                prior=prior, per_law=per_law, **_within(of_fit, _name(count)),
            )  # fmt: skip
        except DataError as error:  # from more runs there may be one
            refused = error
            notes.append(Note("no-forecast", "info", f"{_name(count)}: {error}"))
            continue
        made[_name(count)] = said
        tables.append(_table(count, said, _only(read, next_runs)))
        notes += _conflicts(count, said)
    if refused is not None and not made:
        raise refused
    return LeaveFutureOut(pd.concat(tables, ignore_index=True), order, level, made, tuple(notes))


def _conflicts(count: int, said: Forecast) -> list[Note]:
    """The notes of a forecast on its prior, which say how many runs it had."""
    kept = [note for note in said.notes if note.code == "prior-conflict"]
    return [dataclasses.replace(n, message=f"{_name(count)}: {n.message}") for n in kept]


class _Ladder(NamedTuple):
    """The runs in the order in which they came.

    Attributes:
        positions: (n,) rows of the table, in order.
        level: (n,) which of those that come together each is of, from 0.
        counts: (L,) number of runs there are with each level.
        inputs: name → (n,) of each row, in the units of the runs.
    """

    positions: np.ndarray
    level: np.ndarray
    counts: np.ndarray
    inputs: dict[str, np.ndarray]

    def split(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the first so many runs' rows, in their order here, and of the later ones."""
        last = int(np.searchsorted(self.counts, count))
        return self.positions[self.level <= last], self.positions[self.level > last]

    def points(self, rows: np.ndarray) -> pd.DataFrame:
        """Inputs of some rows, each point once."""
        kept = np.isin(self.positions, rows)
        table = pd.DataFrame({name: values[kept] for name, values in self.inputs.items()})
        return table.drop_duplicates(ignore_index=True)


def _in_order(laws: Any, runs: Runs, order: str, along: str, groups: Any) -> _Ladder:
    """The rows that all laws can take, in order; those of weight 0 left out."""
    seen = _observations(laws, runs)
    valid = [one.positions[one.weight > 0] for one in seen]
    kept = np.array(sorted(set(valid[0]).intersection(*valid[1:])))
    members = np.arange(len(seen[0])) if groups is None else group_numbers(runs, seen[0], groups)
    members = members[np.isin(seen[0].positions, kept)]
    inputs, raw = _inputs(seen, kept)
    if order == "compute":
        came = _levels_of(compute_of(raw, runs.source, "order= a column"))
    else:
        came = pd.factorize(_column(runs, order, "order").iloc[kept], sort=True)[0]
    if along not in ("compute", *inputs):
        column = _column(runs, along, "along").iloc[kept]
        inputs[along] = numbers(column, runs.location(along))
    # A run is there with its last row.
    came = pd.Series(came).groupby(members).transform("max").to_numpy()
    level = pd.factorize(came, sort=True)[0]
    order_of_rows = np.argsort(level, kind="stable")
    last = pd.Series(level).groupby(members).first()
    counts = np.cumsum(np.bincount(last, minlength=level.max() + 1))
    return _Ladder(
        kept[order_of_rows], level[order_of_rows], counts,
        {name: values[order_of_rows] for name, values in inputs.items()},
    )  # fmt: skip


def _observations(laws: Any, runs: Runs) -> list[Observations]:
    """The rows as each law takes them, however few they are."""
    given = default_laws(runs) if laws is None else laws
    return [runs.observations(one.law, free=()) for one in candidates_of(given, {"fixed": {}}, {})]


def _inputs(
    seen: Sequence[Observations], kept: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs of the kept rows, in the units of the runs, and in single ones."""
    own, raw = {}, {}
    for one in seen:
        rows = np.isin(one.positions, kept)
        for name, values in one.inputs.items():
            own[name] = values[rows] / one.scale[name]
            raw[name] = own[name] * one.units[name]
    return own, raw


def _levels_of(compute: np.ndarray) -> np.ndarray:
    """Which budget each run is of; of budgets written with a little jitter, too."""
    compute = merged(pd.Series(compute))
    return np.searchsorted(levels_of(compute), compute)


def _column(runs: Runs, name: str, argument: str) -> pd.Series:
    known = {str(runs.user_name(column)): column for column in runs.table}
    known |= {str(column): column for column in runs.table}
    if name not in known:
        raise missing_column(argument, f" ({argument}=)", name, runs.table, runs.source, False)
    column = runs.table[known[name]]
    if column.isna().any():
        row = column.index[column.isna()][0]
        raise DataError(f"{runs.source}, {runs.word} {row}: no value of {name}; give it one")
    return column


def _chosen(allowed: np.ndarray, counts: Any, source: str) -> list[int]:
    """The numbers of first runs, in order.

    Raises:
        UsageError: counts are no such numbers.
        DataError: there are too few runs.
    """
    allowed = allowed[allowed >= FEWEST]
    if not len(allowed):
        raise DataError(
            f"{source}: {FEWEST} runs and a later one are needed, or a target with at=; runs that "
            "are equal in the order come together"
        )
    if counts is None:
        if len(allowed) <= MOST:
            return allowed.tolist()
        even = np.geomspace(allowed[0], allowed[-1], MOST)
        return sorted({int(allowed[np.argmin(np.abs(np.log(allowed / one)))]) for one in even})
    wanted = numbers_of("counts", counts).ravel()
    if not len(wanted) or not ((wanted >= FEWEST) & (wanted <= allowed[-1])).all():
        raise UsageError(
            f"counts are numbers of first runs, {FEWEST} to {allowed[-1]}, not {counts}",
            argument="counts",
            value=counts,
        )
    return sorted({int(allowed[np.searchsorted(allowed, one)]) for one in wanted})


def _only(runs: Runs, positions: np.ndarray) -> Runs:
    """Some rows of the runs, in the order of the table."""
    rows = np.sort(positions)
    weight = None if runs.weight is None else runs.weight[rows]
    return dataclasses.replace(runs, table=runs.table.iloc[rows], weight=weight)


def _within(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The options, with a folder of its own for what a forecast keeps."""
    folder = options.get("work_dir")
    return dict(options) | ({"work_dir": Path(folder, name)} if folder is not None else {})


def _table(count: int, said: Forecast, later: Runs) -> pd.DataFrame:
    """A row for each point of a forecast and run that came there, or for the point alone."""
    points = said.table[[*said.inputs, "distance", "estimate", "low", "high"]]
    points = points.assign(point=np.arange(len(points)))
    came = runs_at(said, later, RTOL)[0] if len(later) else pd.DataFrame({"point": []})
    table = points.merge(came, on="point", how="left")
    for name in ("row", "observed"):
        table[name] = table.get(name, np.nan)
    table["row"] = table["row"].astype(object).where(table["observed"].notna(), None)
    table["error"] = table["estimate"] / table["observed"] - 1
    kept = [*said.inputs, "distance", "estimate", "low", "high", "row", "observed", "error"]
    return table[kept].assign(n_runs=count)[["n_runs", *kept]]
