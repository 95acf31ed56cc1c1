"""Loss curves in: every run's losses with the learning rates behind them.

The step of a row counts the updates that were done when its loss was taken. A run of two phases
has a schedule with a boundary (``schedules.join``), and its steps count over both; or a column
``phase`` (pt, cpt), and those of the second phase count from the boundary.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._deprecated import renamed_arguments
from jaxlaw._tables import Table, is_table, read_table
from jaxlaw._typed import checked
from jaxlaw.data import _thinning as sampling
from jaxlaw.data._columns import Location, missing_column, numbers
from jaxlaw.data._curve_checks import check_order, check_rates, check_reach
from jaxlaw.data._drops import DROPS, drops_along
from jaxlaw.data._logged_rates import Fill
from jaxlaw.data._row_areas import AREAS, Batch, area_options, areas_along
from jaxlaw.data._run_schedules import Course, courses_of, updates
from jaxlaw.data._runs import Corpus, Runs, read_runs
from jaxlaw.data.formats import read_format, short_names, with_values
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.notes import Note
from jaxlaw.schedules import Schedule

_LOSSES = ("loss", "loss_d", "loss_g")


@dataclass(frozen=True, eq=False)
class LossCurves:
    """Loss curves and the courses they took; what :func:`read_loss_curves` returns.

    Attributes:
        rows: the table, its weights and what is known of them; see :class:`jaxlaw.Runs`.
        courses: run → its :class:`~jaxlaw.data._run_schedules.Course`.
    """

    rows: Runs
    courses: Mapping[str, Course]

    def __len__(self) -> int:
        """The number of curves."""
        return len(self.courses)

    @property
    def table(self) -> pd.DataFrame:
        """The rows, columns under their canonical names."""
        return self.rows.table

    @property
    def schedules(self) -> dict[str, Schedule]:
        """Run → its schedule."""
        return {run: course.schedule for run, course in self.courses.items()}

    def runs(
        self,
        decay: float = 0.999,
        *,
        carry_momentum: bool = False,
        count_warmup: bool = False,
        epsilon: float | None = None,
    ) -> Runs:
        """The rows with the areas under their learning rates: what a law of curves is fitted on.

        Args:
            decay: λ.
            carry_momentum: momentum goes on over the boundary; see :func:`jaxlaw.phase_areas`.
            count_warmup: rises of pre-training's warm-up count in S2; those of a continual
                phase always do. By default they do not, so that runs whose log contains the
                warm-up and runs that leave it to S1_before have the same areas.
            epsilon: weights momentum with the rate (Wang 2025, App. J).

        Returns:
            :class:`jaxlaw.Runs` with columns S1, S2, S1_pt, S1_cpt, S2_pt, S2_cpt (learning
            rate × steps) and the options in ``area_options``. A law per drop of the rate gets its
            drops when it asks for them.
        """
        options = area_options(decay, carry_momentum, count_warmup, epsilon)
        columns = {name: np.empty(len(self.table)) for name in AREAS}
        for course, index, at, back in _by_course(self.table, self.courses):
            found = areas_along(
                course.schedule, at, options, course.S1_before, course.phase, course.batch
            )
            for name, values in found.items():
                columns[name][index] = values[back]
        table, drops = self.table.assign(**columns), partial(_drops, self.courses, options)
        return dataclasses.replace(self.rows, table=table, area_options=options, drops=drops)

    def only(self, *runs: str, where: str | None = None) -> LossCurves:
        """Some runs, and of them the rows that ``where`` (a condition) keeps.

        Raises:
            UsageError: there is no such run, or the query is none.
            DataError: no row is left.
        """
        return self._kept(self._chosen(runs, where))

    def without(self, *runs: str, where: str | None = None) -> LossCurves:
        """What :meth:`only` would leave out; args and errors as there."""
        return self._kept(~self._chosen(runs, where))

    def thinned(
        self,
        every: int | None = None,
        *,
        points: int | None = None,
        spacing: sampling.Spacing = "log",
        design: str | None = None,
    ) -> LossCurves:
        """Fewer points of every curve (of each phase of it), which weigh as much as before.

        A point left out gives its weight to the nearest one kept, so that curves, and stretches
        of them, keep their weights; the last point is always kept.

        Args:
            every: every k-th point.
            points: about so many, their steps in equal ratios (``spacing="log"``) or
                differences (``"linear"``).
            design: ``M1`` to ``M4``, the sampling methods of Que 2024, App. I.1.

        Raises:
            UsageError: not one of the three, or it makes no sense.
        """
        sampling.check_thinning(every, points, spacing, design)
        old = np.ones(len(self.table)) if self.rows.weight is None else self.rows.weight
        weight, keep = np.zeros(len(old)), np.zeros(len(old), bool)
        for index in self._stretches():
            steps = self.table["step"].to_numpy()[index]
            if every is not None:
                kept = sampling.keep_every(steps, int(every))
            elif points is not None:
                kept = sampling.keep_spaced(steps, int(points), spacing)
            else:
                kept = sampling.keep_design(steps, design)
            keep[index[kept]] = True
            weight[index[kept]] = sampling.inherited_weight(steps, kept, old[index])
        message = f"{int(keep.sum())} of {len(keep)} points kept; they have the weight of all"
        rows = dataclasses.replace(self.rows, weight=weight)
        return dataclasses.replace(self, rows=_noted(rows, "thinned", message))._kept(keep)

    def smoothed(self, window: int) -> LossCurves:
        """Centred moving means of the losses, within each phase of each curve.

        Errors of neighbours are then alike: a fit looks better than it is, and a drop of the
        rate is smeared. The runs say so in a note.

        Args:
            window: logged points of a mean, an odd number; fewer at the ends of a phase.
        """
        if not (window >= 3 and window % 2 == 1):
            raise UsageError(f"window is an odd number of points, 3 or more, not {window}")
        table = self.table.copy()
        for column in [name for name in _LOSSES if name in table]:
            place = Location(self.rows.source, self.rows.word, self.rows.user_name(column), column)
            losses = numbers(table[column], place)
            for index in self._stretches():
                losses[index] = sampling.moving_average(losses[index], int(window))
            table[column] = losses
        message = (
            f"losses are means of {int(window)} neighbouring points: their errors are correlated, "
            "and R² and residuals look better than the curves are"
        )
        rows = dataclasses.replace(self.rows, table=table)
        return dataclasses.replace(self, rows=_noted(rows, "smoothed", message))

    def _stretches(self) -> Iterator[np.ndarray]:
        """Positions of the rows of each phase of each run."""
        done, runs = updates(self.table, self.courses), self.table["run"].to_numpy()
        for run, course in self.courses.items():
            mine = runs == run
            boundary = course.schedule.boundary
            late = done > (np.inf if boundary is None else boundary)
            for phase in (mine & ~late, mine & late):
                if phase.any():
                    yield np.flatnonzero(phase)

    def _chosen(self, runs: tuple[str, ...], where: str | None) -> np.ndarray:
        """(rows,) mask of the rows of some runs that a query keeps."""
        if not runs and where is None:
            raise UsageError("name the runs, or say where=, a query such as \"split == 'fit'\"")
        for run in runs:
            if run not in self.courses:
                names = ", ".join(list(self.courses)[:30])
                raise UsageError(
                    f"there is no run '{run}'; runs: {names}.{nearest(str(run), self.courses)}"
                )
        keep = self.table["run"].isin(runs or self.courses).to_numpy()
        if where is not None:
            table = Table(self.table.reset_index(drop=True), self.rows.source, self.rows.word)
            left = read_runs(table, where=where).table.index
            keep = keep & np.isin(np.arange(len(keep)), left)
        return keep

    def _kept(self, keep: np.ndarray) -> LossCurves:
        if not keep.any():
            raise DataError(f"{self.rows.source}: no row is left of {len(keep)}")
        weight = self.rows.weight
        rows = dataclasses.replace(
            self.rows, table=self.table[keep], weight=None if weight is None else weight[keep]
        )
        left = set(rows.table["run"])
        courses = {run: course for run, course in self.courses.items() if run in left}
        return dataclasses.replace(self, rows=rows, courses=courses)


@renamed_arguments(share="corpus")
@checked
def read_loss_curves(
    source: Any,
    columns: Mapping[str, Any] | None = None,
    units: Mapping[str, Any] | None = None,
    *,
    schedules: Any = None,
    first_step: Any = None,
    S1_before: Any = None,
    fill: Fill | None = None,
    batch: Any = None,
    lr_tolerance: float = 5e-3,
    weight: Any = None,
    where: Any = None,
    corpus: Corpus | None = None,
    drop_invalid: bool = False,
    name: str | None = None,
    format: str | None = None,
    values: Mapping[str, Any] | None = None,
) -> LossCurves:
    """Read loss curves and their learning rates.

    Args:
        source: what :func:`jaxlaw.read_runs` reads, one row a logged point with columns
            ``step``, ``loss``, ``run`` (one curve if there is none) and, as there are, ``lr``,
            ``schedule`` (a name or a line), ``phase`` (pt or cpt), and other inputs of the law;
            or a list of files of one run each, named by the file, and by its folders as
            far as these tell files of one name apart.
        columns, units, weight, where, corpus, drop_invalid, name, format, values: see
            :func:`jaxlaw.read_runs`; ``columns`` also maps ``run``, ``step``, ``lr``,
            ``schedule`` and ``phase``.
        schedules: run or name of schedule → Schedule, line for ``schedules.parse``, or (steps,)
            rates; one of these alone is that of all runs. Left out, column ``schedule`` has the
            lines; for runs not named, column ``lr`` the rate that each update used, step by step.
        first_step: steps before a schedule, a warm-up say that it leaves out: a number, a dict
            by run, or a column. Of a logged one, left out: the step before the first.
        S1_before: sum of the rates of those steps, in the same forms. Needed where there are any.
        fill: what unlogged steps between logged rates had: ``"hold"`` or ``"linear"``.
        batch: tokens of an update over those of a reference batch, in which areas count steps
            (Wang 2025, App. F): 0.25 for a continual phase of a quarter of the pre-training's
            batch, (2, 1) for either phase; or a dict by run, or a column. Learning rates are
            given as they were.
        lr_tolerance: how far logged rates may be from a declared schedule, relative to its
            highest rate; three digits logged are within 5e-3.

    Returns:
        :class:`LossCurves`; ``jl.fit`` takes them as they are. The source is never changed.

    Raises:
        DataError: steps that are not whole or do not increase within a run, or lie outside its
            schedule; logged rates with gaps, or not those of the schedule; what
            :func:`jaxlaw.read_runs` finds.
        UsageError: a run without schedule, a schedule without run, or no S1_before.
    """
    table = _one_table(source, columns, name) if format is None else read_format(source, format)
    table = with_values(table, values)
    rows = _with_courses_columns(
        read_runs(
            table, columns, units,
            weight=weight, where=where, corpus=corpus, drop_invalid=drop_invalid,
        )
    )  # fmt: skip
    every = rows if where is None else _with_courses_columns(read_runs(table, columns))
    place = Location(table.source, table.word, rows.user_name("lr"), "lr")
    kept = list(dict.fromkeys(rows.table["run"]))
    courses = courses_of(every.table, kept, place, schedules, first_step, S1_before, fill, batch)
    check_order(rows)
    check_reach(rows, courses)
    if "lr" in rows.table:
        check_rates(rows, courses, lr_tolerance)
    return LossCurves(rows, courses)


def _one_table(source: Any, columns: Mapping[str, Any] | None, name: str | None) -> Table:
    """The table of a source; files of a list one below the other, named in column run."""
    if not isinstance(source, list | tuple) or is_table(source):
        return read_table(source, name)
    if not source or not all(isinstance(one, str | os.PathLike) for one in source):
        raise UsageError("give a list of files, one run each, or one table")
    paths = [Path(one).absolute() for one in source]
    if len(set(paths)) < len(paths):
        again = next(path for path in paths if paths.count(path) > 1)
        raise UsageError(f"{again} is in the list twice; give every run's file once")
    stems = [(*path.parent.parts, path.stem) for path in paths]
    runs = stems if len(set(stems)) == len(stems) else [path.parts for path in paths]
    names, files = short_names(runs), short_names(path.parts for path in paths)
    run, frames = (columns or {}).get("run", "run"), []
    for path, key in zip(paths, runs, strict=True):
        table = read_table(path, files[path.parts])
        labels = [f"{files[path.parts]}:{label}" for label in table.frame.index]
        frames.append(table.frame.set_axis(labels, axis=0))
        if run not in table.frame:
            frames[-1] = frames[-1].assign(**{run: names[key]})
    return Table(pd.concat(frames), name or f"{len(source)} files", table.word)


def _with_courses_columns(runs: Runs) -> Runs:
    """Columns run (strings), step (whole numbers), lr and phase (pt, cpt) as they must be."""
    table = runs.table.rename(columns={one: f"{one} (as in the file)" for one in AREAS})
    shown = [runs.user_name(column) for column in table.columns]

    def place(column: str) -> Location:
        return Location(runs.source, runs.word, runs.user_name(column), column)

    if "step" not in table:
        raise missing_column("step", ", the updates done at each loss", "step", shown, runs.source)
    made = {"step": numbers(table["step"], place("step"))}
    bad = ~(made["step"] == np.floor(made["step"])) | ~np.isfinite(made["step"])
    _refuse(place("step"), table, bad, made["step"], "steps are whole numbers of updates")
    if "run" in table:
        unnamed = table["run"].isna().to_numpy()
        _refuse(place("run"), table, unnamed, table["run"].to_numpy(), "every row needs its run")
        made["run"] = table["run"].map(str)
    else:
        made["run"] = Path(runs.source).stem
    if "lr" in table:
        made["lr"] = numbers(table["lr"], place("lr"))
        with np.errstate(invalid="ignore"):
            bad = (made["lr"] < 0) | np.isinf(made["lr"])
        _refuse(place("lr"), table, bad, made["lr"], "rates are finite and not negative")
    if "phase" in table:
        made["phase"] = table["phase"].map(lambda one: str(one).strip().lower())
        bad = ~made["phase"].isin(["pt", "cpt"]).to_numpy()
        remedy = "phases are pt (pre-training) and cpt; rename the column if it says something else"
        _refuse(place("phase"), table, bad, table["phase"].to_numpy(), remedy)
    return dataclasses.replace(runs, table=table.assign(**made))


def _refuse(
    place: Location, table: pd.DataFrame, bad: np.ndarray, values: np.ndarray, remedy: str
) -> None:
    if bad.any():
        raise DataError(f"{place}: {place.rows(table.index[bad], values[bad])}: {remedy}")


def _by_course(
    table: pd.DataFrame, courses: Mapping[str, Course]
) -> Iterator[tuple[Course, np.ndarray, np.ndarray, np.ndarray]]:
    """Each course once: where its rows are, the steps they need, and which of these is whose."""
    groups: dict[Any, list[str]] = {}
    for run, course in courses.items():
        key = id(course.schedule), course.S1_before, course.phase, course.batch
        groups.setdefault(key, []).append(run)
    done, runs = updates(table, courses), table["run"]
    for members in groups.values():
        index = np.flatnonzero(runs.isin(members))
        if len(index):
            yield courses[members[0]], index, *np.unique(done[index], return_inverse=True)


def _drops(
    courses: Mapping[str, Course], options: Mapping[str, Any], table: pd.DataFrame
) -> dict[str, np.ndarray]:
    """The drops before each row, name → (rows, K), with as many columns as the fullest needs."""
    found = [
        (index, {name: values[back] for name, values in drops.items()})
        for course, index, at, back in _by_course(table, courses)
        for drops in [drops_along(course.schedule, at, options, _worth(course))]
    ]
    most = max(len(drops["drop"].T) for _, drops in found)
    columns = {name: np.empty((len(table), most)) for name in DROPS}
    for index, drops in found:
        for name, values in drops.items():
            missing = ((0, 0), (0, most - len(values.T)))
            padding = {"mode": "constant"} if name == "drop" else {"mode": "edge"}
            columns[name][index] = np.pad(values, missing, **padding)
    return columns


def _worth(course: Course) -> Batch:
    """What updates count as in drops: of a continual phase alone that of its own, twice."""
    lone = course.schedule.boundary is None and course.phase == "cpt"
    return (course.batch[1],) * 2 if lone else course.batch


def _noted(rows: Runs, code: str, message: str) -> Runs:
    note = Note(code, "info", f"{rows.source}: {message}")
    return dataclasses.replace(rows, notes=(*rows.notes, note))
