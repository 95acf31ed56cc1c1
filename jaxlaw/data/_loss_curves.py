"""Loss curves in: every run's losses with the learning rates behind them.

The step of a row counts the updates that were done when its loss was taken. A run of two phases
has a schedule with a boundary (``schedules.join``), and its steps count over both; or a column
``phase`` (pt, cpt), and those of the second phase count from the boundary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from jaxlaw._rounding import ROUNDING
from jaxlaw._tables import Table
from jaxlaw._typed import checked
from jaxlaw._where import rows_where
from jaxlaw.data._aliases import known_columns
from jaxlaw.data._columns import (
    Corpus,
    Location,
    has_loss,
    missing_column,
    numbers,
    parts_of,
    raw_units,
)
from jaxlaw.data._row_areas import AREAS, DROPS, Batch, area_options, areas_along, drops_along
from jaxlaw.data._run_schedules import (
    Fill,
    RunSchedule,
    compare_rates,
    optimizer_steps,
    run_schedules_of,
)
from jaxlaw.data._runs import Reading, Runs, RunsSource, read_runs, refuse_rows
from jaxlaw.data.formats import read_source, with_values
from jaxlaw.errors import DataError, UsageError, listed, nearest
from jaxlaw.notes import Note, by_weight
from jaxlaw.schedules import Schedule

Spacing = Literal["log", "linear"]
_LOSSES = ("loss", "loss_d", "loss_g")
_SHOWN = 8  # runs that a representation names


@dataclass(frozen=True, eq=False)
class LossCurves(RunsSource):
    """Loss curves and the schedules of their runs; what :func:`read_loss_curves` returns.

    Attributes:
        rows: the table, its weights and what is known of them; see :class:`jaxlaw.Runs`.
        run_schedules: run → the schedule it followed, from which step on, in which phase.

    Example:
        >>> table = jl.simulate.continual_curves().table
        >>> columns = {"r_g": "replay", "loss_d": "loss_cpt"}
        >>> curves = jl.read_loss_curves(table, columns, corpus="domain")
        >>> len(curves), len(curves.only("wsd")), len(curves.thinned(every=4).table)
        (23, 1, 160)
        >>> curves.only("wsd")
        1 loss curve, 80 points from DataFrame
          steps    500 to 40000
          runs     wsd
          columns  run, schedule, step, r_g, loss_pt, loss_d
    """

    rows: Runs
    run_schedules: Mapping[str, RunSchedule]

    def __repr__(self) -> str:
        """How many curves and points there are, of which sizes, and in which columns."""
        table, runs = self.table, list(self.run_schedules)
        steps = table["step"]
        sizes = {f"{size:.4g}" for size in table["N"]} if "N" in table else set()
        of_sizes = f" of {len(sizes)} sizes N" if len(sizes) > 1 else ""
        lines = [
            f"{len(self)} loss curve{'s' if len(self) != 1 else ''}{of_sizes}, {len(table)} points "
            f"from {self.rows.source}",
            f"  steps    {steps.min():.0f} to {steps.max():.0f}",
            f"  runs     {', '.join(runs[:_SHOWN])}{', …' if len(runs) > _SHOWN else ''}",
            f"  columns  {listed(table)}",
        ]
        return "\n".join([*lines, *(f"  {note}" for note in by_weight(self.rows.notes))])

    def __len__(self) -> int:
        """The number of curves."""
        return len(self.run_schedules)

    @property
    def table(self) -> pd.DataFrame:
        """The rows, columns under their canonical names."""
        return self.rows.table

    @property
    def schedules(self) -> dict[str, Schedule]:
        """Run → its schedule."""
        return {run: run_schedule.schedule for run, run_schedule in self.run_schedules.items()}

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
            carry_momentum: whether momentum goes on over the boundary; see
                :func:`jaxlaw.data.phase_areas`.
            count_warmup: whether rises of pre-training's warm-up count in S2; those of a
                continual phase always do. By default they do not, so that runs whose log contains
                the warm-up and runs that leave it to S1_before have the same areas.
            epsilon: exponent of the rate that weights momentum (Wang 2025, App. J).

        Returns:
            :class:`jaxlaw.Runs` with columns S1, S2, S1_pt, S1_cpt, S2_pt, S2_cpt (learning
            rate × steps) and the options in ``area_options``. A law per drop of the rate gets
            its drops when it needs them.

        Example:
            >>> line = "constant:lr=1e-3,steps=100"
            >>> table = {"step": [10, 100], "loss": [3.2, 3.0]}
            >>> runs = jl.read_loss_curves(table, schedules=line).runs(decay=0.99)
            >>> runs.table["S1"].round(6).tolist(), runs.area_options["decay"]
            ([0.01, 0.1], 0.99)
        """
        options = area_options(decay, carry_momentum, count_warmup, epsilon)
        columns = {name: np.empty(len(self.table)) for name in AREAS}
        for run_schedule, index, at, back in _by_schedule(self.table, self.run_schedules):
            areas = areas_along(
                run_schedule.schedule,
                at,
                options,
                run_schedule.S1_before,
                run_schedule.phase,
                run_schedule.batch,
            )
            for name, values in areas.items():
                columns[name][index] = values[back]
        return dataclasses.replace(
            self.rows,
            table=self.table.assign(**columns),
            area_options=options,
            drops=partial(_drops, self.run_schedules, options),
        )

    def only(self, *runs: str, where: str | None = None) -> LossCurves:
        """Some runs, and of them the rows that ``where`` (a condition) keeps.

        Raises:
            UsageError: there is no such run, or ``where`` is no condition.
            DataError: no row is left.

        Example:
            >>> curves = jl.read_loss_curves(jl.simulate.continual_curves().table)
            >>> len(curves), len(curves.only("wsd", "cosine"))
            (23, 2)
        """
        keep, notes = self._chosen(runs, where)
        return self._kept(keep, notes)

    def without(self, *runs: str, where: str | None = None) -> LossCurves:
        """What :meth:`only` would leave out; arguments and errors as there.

        Example:
            >>> curves = jl.read_loss_curves(jl.simulate.continual_curves().table)
            >>> len(curves.without("wsd", "cosine"))
            21
        """
        return self._kept(~self._chosen(runs, where)[0])

    def thinned(
        self,
        every: int | None = None,
        *,
        points: int | None = None,
        spacing: Spacing = "log",
        design: str | None = None,
    ) -> LossCurves:
        """Fewer points of every curve (of each phase of it), with the weight of all of them.

        A point left out gives its weight to the nearest one kept, so that curves, and stretches
        of them, keep their weights; the last point is always kept.

        Args:
            every: distance in logged points; every k-th point is kept.
            points: number of points, about, their steps in equal ratios (``spacing="log"``) or
                differences (``"linear"``).
            spacing: spacing of ``points``.
            design: name of a sampling method of Que 2024, App. I.1, ``M1`` to ``M4``.

        Raises:
            UsageError: none or several of the three are given, or one makes no sense.

        Example:
            >>> curves = jl.read_loss_curves(jl.simulate.continual_curves().table)
            >>> few = curves.only("wsd").thinned(points=10)
            >>> len(curves.only("wsd").table), len(few.table), float(few.rows.weight.sum())
            (80, 10, 80.0)
        """
        _check_thinning(every, points, spacing, design)
        old = np.ones(len(self.table)) if self.rows.weight is None else self.rows.weight
        weight, keep = np.zeros(len(old)), np.zeros(len(old), bool)
        for index in self._phases():
            steps = self.table["step"].to_numpy()[index]
            if every is not None:
                kept = keep_every(steps, int(every))
            elif points is not None:
                kept = keep_spaced(steps, int(points), spacing)
            else:
                kept = keep_design(steps, design)
            keep[index[kept]] = True
            weight[index[kept]] = inherited_weight(steps, kept, old[index])
        message = f"{int(keep.sum())} of {len(keep)} points kept; they have the weight of all"
        rows = dataclasses.replace(self.rows, weight=weight)
        return dataclasses.replace(self, rows=_noted(rows, "thinned", message))._kept(keep)

    def smoothed(self, window: int) -> LossCurves:
        """Centred moving means of the losses, within each phase of each curve.

        Errors of neighbours are then alike: a fit looks better than it is, and a drop of the
        rate is smeared. The runs say so in a note.

        Args:
            window: number of logged points of a mean, odd; fewer at the ends of a phase.

        Raises:
            UsageError: the window is even, or below 3.

        Example:
            >>> curves = jl.read_loss_curves(jl.simulate.continual_curves().table.rename(
            ...     columns={"loss_pt": "loss"}))
            >>> [note.code for note in curves.smoothed(5).rows.notes]
            ['smoothed']
        """
        if not (window >= 3 and window % 2 == 1):
            raise UsageError(
                f"window is an odd number of points, 3 or more, not {window}",
                argument="window",
                value=window,
            )
        table = self.table.copy()
        for column in [name for name in _LOSSES if name in table]:
            losses = numbers(table[column], self.rows.location(column))
            for index in self._phases():
                losses[index] = moving_average(losses[index], int(window))
            table[column] = losses
        message = (
            f"losses are means of {int(window)} neighbouring points: their errors are correlated, "
            "and R² and residuals look better than the curves are"
        )
        rows = dataclasses.replace(
            self.rows,
            table=table,
            reading=(self.rows.reading or Reading()).incomplete("smoothed()"),
        )
        return dataclasses.replace(self, rows=_noted(rows, "smoothed", message))

    def _phases(self) -> Iterator[np.ndarray]:
        """Positions of the rows of each phase of each run."""
        done, runs = optimizer_steps(self.table, self.run_schedules), self.table["run"].to_numpy()
        for run, run_schedule in self.run_schedules.items():
            boundary = run_schedule.schedule.boundary
            late = done > (np.inf if boundary is None else boundary)
            for phase in (~late, late):
                if len(index := np.flatnonzero((runs == run) & phase)):
                    yield index

    def _chosen(
        self, runs: tuple[str, ...], where: str | None
    ) -> tuple[np.ndarray, tuple[Note, ...]]:
        """(rows,) mask of the rows of some runs that a condition keeps, and a note on others."""
        if not runs and where is None:
            raise UsageError("name the runs, or say where=, a query such as \"split == 'fit'\"")
        for run in runs:
            if run not in self.run_schedules:
                known = list(self.run_schedules)
                raise UsageError(
                    f"there is no run '{run}'; runs: {listed(known)}.{nearest(str(run), known)}",
                    argument="runs",
                    value=run,
                )
        keep = self.table["run"].isin(runs or self.run_schedules).to_numpy()
        if where is None:
            return keep, ()
        source, table = self.rows.source, dict(self.table.items())
        fulfilled, left_out = rows_where(where, table, source, self.rows.word)
        message = (
            f"{source}: where ({where}) keeps {int(fulfilled.sum()) or 'none'} of the {len(keep)} "
            f"rows{left_out}"
        )
        if not fulfilled.any():
            raise DataError(message, file=source, argument="where", value=where)
        return keep & fulfilled, (Note("filtered", "info", message),) * bool(left_out)

    def _kept(self, keep: np.ndarray, notes: tuple[Note, ...] = ()) -> LossCurves:
        if not keep.any():
            raise DataError(
                f"{self.rows.source}: no row is left of {len(keep)}", file=self.rows.source
            )
        weight = self.rows.weight
        rows = dataclasses.replace(
            self.rows,
            table=self.table[keep],
            weight=None if weight is None else weight[keep],
            notes=(*self.rows.notes, *notes),
            reading=(self.rows.reading or Reading()).incomplete(
                "rows chosen by only(), without() or thinned()"
            ),
        )
        left = set(rows.table["run"])
        schedules = {
            run: run_schedule for run, run_schedule in self.run_schedules.items() if run in left
        }
        return dataclasses.replace(self, rows=rows, run_schedules=schedules)


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
        source: anything that :func:`jaxlaw.read_runs` reads, one row a logged point with columns
            ``step``, ``loss``, ``run`` (one curve if there is none) and, as there are, ``lr``,
            ``schedule`` (a name or a line), ``phase`` (pt or cpt), and other inputs of the law;
            or a list of files of one run each. A run has the name of its file, with as many
            folders before it as make the names differ.
        columns, units, weight, where, corpus, drop_invalid, name, format, values: see
            :func:`jaxlaw.read_runs`; ``columns`` also maps ``run``, ``step``, ``lr``,
            ``schedule`` and ``phase``, and ``run`` to several columns that name it together:
            ``{"run": ["size", "seed"]}``. ``units`` takes the steps of one of ``step`` too, whose
            steps are then rounded: ``{"step": 1 / 4194304}`` of a column of tokens. Rates that
            are logged in rows which ``where`` leaves out count where they are of the same run.
        schedules: run or name of schedule → Schedule, line for ``schedules.parse``, or (steps,)
            rates; a single one of these serves all runs. Or the name of the column that says
            which schedule each row belongs to: its cells are lines, or names of schedules whose
            rates the rows log in column ``lr``; without a column ``run``, the rows of one
            schedule are a curve. By default the lines are in column ``schedule``. Runs that have
            no schedule by then need column ``lr``, the rate that each update used.
        first_step: number of steps before the schedule begins, such as a warm-up that it leaves
            out: a number, a dict by run, or a column. By default a schedule of logged rates
            begins with the first of them; from 0 with ``fill="linear"``, their unlogged first
            steps are a linear warm-up from a rate of 0.
        S1_before: sum of the rates of those steps, in the same forms; required if there are any.
        fill: rule for unlogged steps between logged rates: ``"hold"`` or ``"linear"``.
        batch: tokens of an update over those of a reference batch, in which areas count steps
            (Wang 2025, App. F): 0.25 for a continual phase of a quarter of the pre-training's
            batch, (2, 1) for both phases; or a dict by run, or a column. Learning rates are
            given as they were.
        lr_tolerance: largest difference of logged rates from a declared schedule, relative to its
            highest rate; three digits logged are within 5e-3.

    Returns:
        :class:`LossCurves`; ``jl.fit`` takes them as they are. The source is never changed.

    Raises:
        DataError: steps that are not whole or do not increase within a run, or lie outside its
            schedule; logged rates with gaps, or not those of the schedule; what
            :func:`jaxlaw.read_runs` raises.
        UsageError: a run without schedule, a schedule without run, no S1_before, or a text that
            is neither a line nor a column.

    Example:
        >>> table = {"run": ["a", "a", "b"], "step": [50, 100, 100], "loss": [3.4, 3.1, 3.0]}
        >>> lines = {"a": "constant:lr=1e-3,steps=100", "b": "cosine:peak=2e-3,steps=100"}
        >>> curves = jl.read_loss_curves(table, schedules=lines)
        >>> curves.runs().table[["run", "step", "S1"]].round(4).values.tolist()
        [['a', 50.0, 0.05], ['a', 100.0, 0.1], ['b', 100.0, 0.099]]
        >>> table = {"plan": [lines["a"], lines["a"], lines["b"]], "step": [50, 100, 100],
        ...          "loss": [3.4, 3.1, 3.0]}
        >>> len(jl.read_loss_curves(table, schedules="plan"))
        2
    """
    table = with_values(read_source(source, name, format), values)
    kept = {"weight": weight, "where": where, "corpus": corpus, "drop_invalid": drop_invalid}
    rows, every = _rows_of_curves(table, columns, units, schedules, kept)
    # A column that these name may have been taken for another quantity.
    own = {column: name for name, column in rows.columns.items()}
    first_step, S1_before, batch = (
        own.get(one, one) if isinstance(one, str) else one for one in (first_step, S1_before, batch)
    )
    own = run_schedules_of(
        rows.table,
        every.table,
        every.location("lr"),
        None if _is_column(schedules) else schedules,
        first_step=first_step,
        S1_before=S1_before,
        fill=fill,
        batch=batch,
    )
    _check_order(rows)
    if format is not None or values:
        reading = rows.reading or Reading()
        reading = dataclasses.replace(reading, format=format, values=dict(values or {}))
        rows = dataclasses.replace(rows, reading=reading)
    done = optimizer_steps(rows.table, own)
    for run in own:
        of_run = (rows.table["run"] == run).to_numpy()
        _check_reach(rows, of_run, done[of_run], run, own[run])
        if "lr" in rows.table:
            logged, labels = rows.table["lr"].to_numpy()[of_run], rows.table.index[of_run]
            compare_rates(
                own[run], run, done[of_run], logged, labels, rows.location("lr"), lr_tolerance
            )
    return LossCurves(rows, own)


def _is_column(schedules: Any) -> bool:
    """Whether ``schedules`` is the name of a column, and no line."""
    return isinstance(schedules, str) and ":" not in schedules


def _rows_of_curves(
    table: Table,
    columns: Mapping[str, Any] | None,
    units: Mapping[str, Any] | None,
    schedules: Any,
    kept: Mapping[str, Any],
) -> tuple[Runs, Runs]:
    """The rows that are kept, and all of them, which may log more rates of the same runs."""
    table, columns = _with_run(table, columns)
    units, named = dict(units or {}), _is_column(schedules)
    step_unit = raw_units("step", units.pop("step")) if "step" in units else None
    if named:
        columns = _with_schedule_column(table, columns, schedules)
    runs = _with_losses(read_runs(table, columns, units, **kept))
    rows = _curve_columns(runs, named, step_unit)
    if step_unit is not None:
        reading = rows.reading or Reading()
        reading = dataclasses.replace(reading, units={**reading.units, "step": step_unit})
        rows = dataclasses.replace(rows, reading=reading)
    if len(rows) == len(table.frame):
        return rows, rows
    return rows, _curve_columns(read_runs(table, columns), named, step_unit)


def _with_losses(runs: Runs) -> Runs:
    """The rows that have a loss: trainers log other metrics in rows of their own, at any step."""
    if not {*_LOSSES} & {*runs.table}:
        for several in known_columns(runs.table, ["loss"]).values():
            raise DataError(
                f"{runs.source}: the loss may be {' or '.join(map(str, several))}; say which it "
                "is: columns={'loss': '…'}",
                file=runs.source,
                column="loss",
            )
    keep = has_loss(runs.table, _LOSSES)
    if keep.all():
        return runs
    message = (
        f"{int((~keep).sum())} of {len(keep)} rows have no loss, as of other metrics, and are left "
        "out; rates that they log count"
    )
    weight = None if runs.weight is None else runs.weight[keep]
    runs = dataclasses.replace(runs, table=runs.table[keep], weight=weight)
    return _noted(runs, "no-loss", message)


def _with_run(
    table: Table, columns: Mapping[str, Any] | None
) -> tuple[Table, Mapping[str, Any] | None]:
    """The table with one column that names the runs, where several do so together."""
    parts = parts_of((columns or {}).get("run"), table.frame.columns)
    if len(parts) < 2:
        return table, columns
    frame, name = table.frame, ",".join(map(str, parts))
    for part in parts:
        if part not in frame:
            raise missing_column("run", " (for run)", part, frame.columns, table.source)
    cells = frame[parts].astype(object)
    # A run of which one part is missing has no name, which is refused with its row.
    made = cells.map(str).agg(" ".join, axis=1).where(cells.notna().all(axis=1), None)
    return Table(frame.assign(**{name: made}), table.source, table.word), {**columns, "run": name}


def _with_schedule_column(
    table: Table, columns: Mapping[str, Any] | None, column: str
) -> dict[str, Any]:
    """The mapping of columns, with the one that says which schedule each row belongs to."""
    columns = dict(columns or {})
    present = [str(name) for name in table.frame]
    column = columns.get(column, column)
    if column not in present:
        raise UsageError(
            f"schedules: '{column}' is neither a line such as 'cosine:peak=3e-4,steps=24000' nor "
            f"a column of {table.source}; columns: {listed(present)}."
            f"{nearest(column, present)}",
            argument="schedules",
            value=column,
        )
    if column in (columns.get("lr", "lr"), *known_columns(table.frame, ["lr"]).get("lr", ())):
        return columns  # the rates themselves, which are read where nothing is declared
    if columns.get("schedule", column) != column:
        raise UsageError(
            f"schedules: column {column}, but columns maps schedule to {columns['schedule']}; "
            "give one of them",
            argument="schedules",
            value=column,
        )
    return columns if column == "schedule" else columns | {"schedule": column}


def _check_schedule_names(runs: Runs) -> None:
    """Refuse runs of several schedules, and names of schedules that nothing says the rates of."""
    location, cells = runs.location("schedule"), runs.table["schedule"]
    refuse_rows(runs, "schedule", cells.isna().to_numpy(), "every row needs its schedule")
    first = cells.groupby(runs.table["run"].to_numpy(), sort=False).transform("first")
    other = (cells != first).to_numpy()
    if other.any():
        k = int(other.argmax())
        raise location.error(
            f"{location}: run {runs.table['run'].iloc[k]}: "
            f"{location.rows(cells.index[k : k + 1])}: {cells.iloc[k]} after {first.iloc[k]}; a "
            "run has one schedule (two phases are one, first+second), so give each curve its own "
            "name in column run",
            cells.index[k],
            cells.iloc[k],
        )
    for label, cell in cells.items() if "lr" not in runs.table else ():
        if ":" not in str(cell):
            raise location.error(
                f"{location}: {location.rows([label])}: '{cell}' names a schedule, and neither a "
                f"line nor a column lr says its rates; pass schedules={{'{cell}': …}}",
                label,
                cell,
            )


def _curve_columns(runs: Runs, by_schedule: bool = False, step_unit: float | None = None) -> Runs:
    """The runs with checked columns run (strings), step (whole numbers), lr, phase (pt, cpt).

    Without a column run all rows are one curve, or each schedule is one if ``by_schedule``. Steps
    in a unit of their own, such as tokens, are rounded to whole ones.
    """
    table = runs.table.rename(columns={name: f"{name} (as in the file)" for name in AREAS})
    runs = dataclasses.replace(runs, table=table)
    if "step" not in table:
        shown = [runs.user_name(column) for column in table.columns]
        raise missing_column("step", ", the updates done at each loss", "step", shown, runs.source)

    step = numbers(table["step"], runs.location("step"))
    if step_unit is not None:
        step = np.rint(step * step_unit)
    near = np.rint(step)  # steps of tokens over the batch are whole but for rounding
    step = np.where(np.abs(step - near) <= ROUNDING * np.abs(near), near, step)
    bad = ~(step == np.floor(step)) | ~np.isfinite(step)
    refuse_rows(runs, "step", bad, "steps are whole numbers of updates", step)
    by_schedule = by_schedule and "schedule" in table
    whole = table["schedule"].map(str) if by_schedule else Path(runs.source).stem
    if "file" in table and not by_schedule:  # a run a file, called so without its ending
        files = table["file"].map(str)
        whole = files.str.replace(r"\.\w+(\.gz)?$", "", regex=True)
        whole = whole if whole.nunique() == files.nunique() else files
    made = {"step": step, "run": whole}
    if "run" in table:
        refuse_rows(runs, "run", table["run"].isna().to_numpy(), "every row needs its run")
        made["run"] = table["run"].map(str)
    if "lr" in table:
        made["lr"] = lr = numbers(table["lr"], runs.location("lr"))
        with np.errstate(invalid="ignore"):
            bad = (lr < 0) | np.isinf(lr)
        refuse_rows(runs, "lr", bad, "rates are finite and not negative", lr)
    if "phase" in table:
        made["phase"] = table["phase"].map(lambda text: str(text).strip().lower())
        remedy = "phases are pt (pre-training) and cpt; rename the column if it says something else"
        refuse_rows(runs, "phase", ~made["phase"].isin(["pt", "cpt"]).to_numpy(), remedy)
    runs = dataclasses.replace(runs, table=table.assign(**made))
    if by_schedule:
        _check_schedule_names(runs)
    return runs


def _check_order(rows: Runs) -> None:
    """Refuse steps that do not increase, in a run or in a phase that counts its own."""
    table, keys = rows.table, [name for name in ("run", "phase") if name in rows.table]
    location = rows.location("step")
    for key, part in table.groupby(keys, sort=False):
        steps = part["step"].to_numpy()
        back = np.flatnonzero(np.diff(steps) <= 0)
        if not len(back):
            continue
        k = back[0]
        before, after = steps[k : k + 2]
        remedy = (
            "one curve has one loss a step: give each curve its own name in column run, and "
            "choose one of several losses with where="
            if after in steps[: k + 1]
            else "sort the rows, or give each curve its own name in column run"
        )
        raise location.error(
            f"{location}: run {key[0]}: {location.rows(part.index[k : k + 2])}: step {after:.0f} "
            f"after {before:.0f}; {remedy}",
            part.index[k + 1],
            after,
        )


def _check_reach(
    rows: Runs, of_run: np.ndarray, done: np.ndarray, run: str, run_schedule: RunSchedule
) -> None:
    """Refuse rows of a run outside its schedule; names the first, and what may be missing."""
    part, last = rows.table[of_run], len(run_schedule.schedule)
    location, steps = rows.location("step"), part["step"].to_numpy()
    restarts = "phase" in part and run_schedule.schedule.boundary is not None
    if restarts:
        _check_restart(part, location, run)
    beyond = int(steps.max()) - last
    hint = "; steps of phase cpt count from the boundary" if restarts else ""
    if not restarts and run_schedule.first_step < beyond <= steps[0]:
        hint = (
            "; does it leave out a warm-up before the log? Then pass first_step= (such as "
            f"{beyond}) and S1_before=, or add warmup= to its line, whose steps count it"
        )
    for outside, what in (
        (done < 0, f"before its schedule, which begins after step {run_schedule.first_step}; "
                   "leave it out with where="),
        (done > last, f"beyond its schedule, which ends at step {run_schedule.last_step}{hint}"),
    ):  # fmt: skip
        if outside.any():
            raise location.error(
                f"{location}: run {run}: {location.rows(part.index[outside][:1])}: step "
                f"{steps[outside][0]:.0f} lies {what}",
                part.index[outside][0],
                steps[outside][0],
            )


def _check_restart(part: pd.DataFrame, location: Location, run: str) -> None:
    """Refuse steps of a second phase that go on from those of the first."""
    first, second = (part.loc[part["phase"] == name, "step"] for name in ("pt", "cpt"))
    if len(first) and len(second) and second.min() > first.max():
        raise location.error(
            f"{location}: run {run}: {location.rows(second.index[:1])}: step "
            f"{second.iloc[0]:.0f} of phase cpt goes on from those of pt; with a column phase "
            "its steps count from the boundary. Where steps count over both phases leave the "
            "column out: the schedule has the boundary",
            second.index[0],
            second.iloc[0],
        )


def _by_schedule(
    table: pd.DataFrame, run_schedules: Mapping[str, RunSchedule]
) -> Iterator[tuple[RunSchedule, np.ndarray, np.ndarray, np.ndarray]]:
    """Each schedule once: where its rows are, the steps they need, and which of these is whose.

    Areas of a long schedule cost more than all else here; runs that share one share its areas.
    """
    groups: dict[Any, list[str]] = {}
    for run, run_schedule in run_schedules.items():
        key = (
            id(run_schedule.schedule),
            run_schedule.S1_before,
            run_schedule.phase,
            run_schedule.batch,
        )
        groups.setdefault(key, []).append(run)
    done, runs = optimizer_steps(table, run_schedules), table["run"]
    for members in groups.values():
        index = np.flatnonzero(runs.isin(members))
        if len(index):
            yield run_schedules[members[0]], index, *np.unique(done[index], return_inverse=True)


def _drops(
    run_schedules: Mapping[str, RunSchedule], options: Mapping[str, Any], table: pd.DataFrame
) -> dict[str, np.ndarray]:
    """The drops before each row, name → (rows, K), with as many columns as the fullest needs."""
    parts = [
        (index, {name: values[back] for name, values in drops.items()})
        for run_schedule, index, at, back in _by_schedule(table, run_schedules)
        for drops in [
            drops_along(run_schedule.schedule, at, options, _batch_for_drops(run_schedule))
        ]
    ]
    most = max(len(drops["drop"].T) for _, drops in parts)
    columns = {name: np.empty((len(table), most)) for name in DROPS}
    for index, drops in parts:
        for name, values in drops.items():
            missing = ((0, 0), (0, most - len(values.T)))
            padding = {"mode": "constant"} if name == "drop" else {"mode": "edge"}
            columns[name][index] = np.pad(values, missing, **padding)
    return columns


def _batch_for_drops(run_schedule: RunSchedule) -> Batch:
    """Relative batch sizes for drops: a continual phase alone has its own for both phases."""
    alone = run_schedule.schedule.boundary is None and run_schedule.phase == "cpt"
    return (run_schedule.batch[1],) * 2 if alone else run_schedule.batch


def _noted(rows: Runs, code: str, message: str) -> Runs:
    note = Note(code, "info", f"{rows.source}: {message}")
    return dataclasses.replace(rows, notes=(*rows.notes, note))


# ---------------------------------------------------------------- thinning and smoothing


def keep_every(steps: np.ndarray, every: int) -> np.ndarray:
    """Indices of every k-th point, counted from the last, which stays."""
    return np.arange(len(steps) - 1, -1, -every)[::-1]


def keep_spaced(steps: np.ndarray, points: int, spacing: Spacing) -> np.ndarray:
    """Indices of the points nearest to ``points`` steps in equal ratios or differences.

    Fewer where one is the nearest to several.
    """
    first, last = steps[0], steps[-1]
    space = np.geomspace if spacing == "log" else np.linspace
    return _nearest(steps, space(max(first, 1) if spacing == "log" else first, last, points))


def keep_design(steps: np.ndarray, design: str) -> np.ndarray:
    """Indices of the points nearest to a sampling method of Que 2024, App. I.1.

    Their runs have 200,000 steps; taken as shares of the last step: M1 every 1,000; M2 every
    5,000; M3 every 4,000 up to 60 % and every 8,000 after it; M4, of the points of M1 with a
    density e^(−0.02·x) at the x-th, 48 of them (theirs, drawn by a rule that is not printed, are
    45). The last point is always kept.
    """
    return np.union1d(_nearest(steps, DESIGNS[design] * steps[-1]), len(steps) - 1)


def decaying(count: int, rate: float) -> np.ndarray:
    """Which of so many evaluations, counted from 1, a density e^(−rate·x) keeps (M4).

    Those at which the summed density passes a whole number.
    """
    with np.errstate(over="ignore"):  # e^−∞ is what is meant
        density = np.cumsum(np.exp(-rate * np.arange(1, count + 1)))
    return 1 + np.searchsorted(density, np.arange(1, np.floor(density[-1]) + 1))


DESIGNS = {
    "M1": np.arange(1, 201) / 200,
    "M2": np.arange(1, 41) / 40,
    "M3": np.concatenate([np.arange(1, 31) / 50, 0.6 + np.arange(1, 11) / 25]),
    "M4": decaying(200, 0.02) / 200,
}


def _check_thinning(
    every: int | None, points: int | None, spacing: str, design: str | None
) -> None:
    if sum(option is not None for option in (every, points, design)) != 1:
        raise UsageError("say how to thin: every=k, points=n or design='M4', one of them")
    for name, count, least in (("every", every, 1), ("points", points, 2)):
        if count is not None and not (count >= least and count == int(count)):
            message = f"{name} is a whole number, {least} or more, not {count}"
            raise UsageError(message, argument=name, value=count)
    if spacing not in ("log", "linear"):
        message = f"spacing is 'log' or 'linear', not {spacing!r}"
        raise UsageError(message, argument="spacing", value=spacing)
    if design is not None and design not in DESIGNS:
        hint = nearest(str(design), DESIGNS)
        message = f"there is no design {design!r}; designs: {', '.join(DESIGNS)}.{hint}"
        raise UsageError(message, argument="design", value=design)


def inherited_weight(steps: np.ndarray, kept: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(kept,) weights: each kept point's own and that of the points nearest to it.

    A curve then weighs what it did, and so does every stretch of it: points that were close
    together early do not count for more.
    """
    nearest_kept = _nearest(steps[kept], steps, unique=False)
    return np.bincount(nearest_kept, weight, minlength=len(kept))


def moving_average(values: np.ndarray, window: int) -> np.ndarray:
    """Centred means of ``window`` values; towards the ends of fewer, still centred.

    NaN stays NaN, and takes no part in the means around it.
    """
    count, half = len(values), window // 2
    known = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    i = np.arange(count)
    reach = np.minimum(half, np.minimum(i, count - 1 - i))
    low, high = i - reach, i + reach + 1
    with np.errstate(invalid="ignore"):
        means = (sums[high] - sums[low]) / (counts[high] - counts[low])
    return np.where(known & (reach > 0), means, values)


def _nearest(steps: np.ndarray, wanted: np.ndarray, unique: bool = True) -> np.ndarray:
    """Indices of the steps (increasing) nearest to those wanted, the later one of two."""
    right = np.searchsorted(steps, wanted).clip(1, max(len(steps) - 1, 1))
    right = np.minimum(right, len(steps) - 1)
    left = np.maximum(right - 1, 0)
    index = np.where(wanted - steps[left] < steps[right] - wanted, left, right)
    return np.unique(index) if unique else index
