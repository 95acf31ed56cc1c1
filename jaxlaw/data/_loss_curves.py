"""Loss curves in: every run's losses with the learning rates behind them.

The step of a row counts the updates that were done when its loss was taken. A run of two phases
has a schedule with a boundary (``schedules.join``), and its steps count over both; or a column
``phase`` (pt, cpt), and those of the second phase count from the boundary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._rounding import ROUNDING
from jaxlaw._typed import checked
from jaxlaw._where import rows_where
from jaxlaw.data._aliases import known_columns
from jaxlaw.data._columns import Corpus, missing_column, numbers
from jaxlaw.data._row_areas import (
    AREAS,
    DROPS,
    Batch,
    area_options,
    areas_along,
    drops_along,
    relative_batch,
)
from jaxlaw.data._run_schedules import (
    Fill,
    RunSchedule,
    as_schedule,
    compare_rates,
    logged_schedule,
    optimizer_steps,
)
from jaxlaw.data._runs import Reading, Runs, RunsSource, has_loss, read_runs, refuse_rows
from jaxlaw.errors import ColumnError, DataError, UsageError, listed, nearest
from jaxlaw.notes import Note, by_weight
from jaxlaw.schedules import Schedule

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
        >>> len(curves), len(curves.only("wsd"))
        (23, 1)
        >>> curves.only("wsd")
        1 loss curve, 80 points from DataFrame
          steps    500 to 40000
          runs     wsd
          columns  run, schedule, step, r_g, loss_pt, loss_d
    """

    rows: Runs
    run_schedules: Mapping[str, RunSchedule]

    def __repr__(self) -> str:
        """How many curves and points there are, and in which columns."""
        steps, runs = self.table["step"], [*self.run_schedules]
        lines = [
            f"{len(self)} loss curve{'s' * (len(self) != 1)}, {len(steps)} points from "
            f"{self.rows.source}",
            f"  steps    {steps.min():.0f} to {steps.max():.0f}",
            f"  runs     {listed(runs, _SHOWN)}",
            f"  columns  {listed(self.table)}",
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
            epsilon: exponent of the learning rate that weights momentum (Wang 2025, App. J).

        Returns:
            :class:`jaxlaw.Runs` with columns S1, S2, S1_pt, S1_cpt, S2_pt, S2_cpt (learning
            learning rate × steps) and the options in ``area_options``. A law per drop of the
            learning rate gets its drops when it needs them.

        Example:
            >>> line = "constant:lr=1e-3,steps=100"
            >>> table = {"step": [10, 100], "loss": [3.2, 3.0]}
            >>> runs = jl.read_loss_curves(table, schedule=line).runs(decay=0.99)
            >>> runs.table["S1"].round(6).tolist(), runs.area_options["decay"]
            ([0.01, 0.1], 0.99)
        """
        options = area_options(decay, carry_momentum, count_warmup, epsilon)
        columns = {name: np.empty(len(self.table)) for name in AREAS}
        for one, index, at, back in _by_schedule(self.table, self.run_schedules):
            areas = areas_along(one.schedule, at, options, one.S1_before, one.phase, one.batch)
            for name, values in areas.items():
                columns[name][index] = values[back]
        return replace(
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

    def _chosen(
        self, runs: tuple[str, ...], where: str | None
    ) -> tuple[np.ndarray, tuple[Note, ...]]:
        """(rows,) mask of the rows of some runs that a condition keeps, and a note on others."""
        known = [*self.run_schedules]
        for run in runs:
            if run not in known:
                message = f"there is no run '{run}'; runs: {listed(known)}.{nearest(run, known)}"
                raise UsageError(message)
        keep = self.table["run"].isin(runs or known).to_numpy()
        if where is None:
            return keep, ()
        source, table = self.rows.source, dict(self.table.items())
        fulfilled, left_out = rows_where(where, table, source, self.rows.word)
        message = (
            f"{source}: where ({where}) keeps {fulfilled.sum()} of the {len(keep)} rows{left_out}"
        )
        return keep & fulfilled, (Note("filtered", "info", message),) * bool(left_out)

    def _kept(self, keep: np.ndarray, notes: tuple[Note, ...] = ()) -> LossCurves:
        source = self.rows.source
        if not keep.any():
            raise DataError(f"{source}: none of {len(keep)} rows is kept", file=source)
        weight, reading = self.rows.weight, self.rows.reading or Reading()
        lost = dict.fromkeys((*reading.lost, "rows chosen by only() or without()"))
        rows = replace(
            self.rows,
            table=self.table[keep],
            weight=None if weight is None else weight[keep],
            notes=(*self.rows.notes, *notes),
            reading=replace(reading, lost=tuple(lost)),
        )
        left = {*rows.table["run"]}
        return LossCurves(rows, {r: one for r, one in self.run_schedules.items() if r in left})


@checked
def read_loss_curves(
    source: Any,
    columns: Mapping[str, Any] | None = None,
    units: Mapping[str, Any] | None = None,
    *,
    schedule: Any = None,
    first_step: Any = None,
    S1_before: Any = None,
    fill: Fill | None = None,
    batch: Any = None,
    weight: Any = None,
    where: Any = None,
    corpus: Corpus | None = None,
    drop_invalid: bool = False,
    name: str | None = None,
    format: str | None = None,
    values: Mapping[str, Any] | None = None,
) -> LossCurves:
    """Read loss curves and their learning rates.

    The learning rates are those of ``schedule``, one line for all runs; else of the lines in a
    column ``schedule``; else those that the runs logged, step by step, in a column ``lr``. Logged
    learning rates are compared with a line, where there are both.

    Args:
        source: anything that :func:`jaxlaw.read_runs` reads, one row a logged point with columns
            ``step``, ``loss``, ``run`` and, as there are, ``lr``, ``schedule``, ``phase`` (pt or
            cpt), and other inputs of the law; or a list of files of one run each. Without a column
            ``run`` each file is a run, or each line, or all rows are one.
        columns, units, weight, where, corpus, drop_invalid, name, format, values: see
            :func:`jaxlaw.read_runs`; ``columns`` also maps ``run``, ``step``, ``lr``,
            ``schedule`` and ``phase``, and ``run`` to several columns that name it together:
            ``{"run": ["size", "seed"]}``. ``units`` takes the steps of one of ``step`` too, whose
            steps are then rounded: ``{"step": 1 / 4194304}`` of a column of tokens.
        schedule: a line such as ``cosine:peak=3e-4,steps=24000`` (``schedules.parse``), or a
            Schedule; so may be the cells of the column.
        first_step: number of steps before the schedule begins, such as a warm-up that it leaves
            out: a number, or a column. By default a schedule of logged learning rates begins with
            the first of them; from 0 with ``fill="linear"``, their unlogged first steps are a
            linear warm-up from a learning rate of 0.
        S1_before: sum of the learning rates of those steps, number or column; required if there are
            any.
        fill: rule for unlogged steps between logged learning rates: ``"hold"`` or ``"linear"``.
        batch: tokens of an update over those of a reference batch, in which areas count steps
            (Wang 2025, App. F): 0.25 for a continual phase of a quarter of the pre-training's
            batch, (2, 1) for both phases, or a column. Learning rates are given as they were.

    Returns:
        :class:`LossCurves`; ``jl.fit`` takes them as they are. The source is never changed.

    Raises:
        DataError: steps that are not whole or do not increase within a run, or lie outside its
            schedule; logged learning rates with gaps, or not those of the schedule; what
            :func:`jaxlaw.read_runs` raises.
        UsageError: a run without schedule, no S1_before, or a text that is no line.

    Example:
        >>> lines = ["constant:lr=1e-3,steps=100"] * 2 + ["cosine:peak=2e-3,steps=100"]
        >>> table = {"run": ["a", "a", "b"], "step": [50, 100, 100], "loss": [3.4, 3.1, 3.0]}
        >>> curves = jl.read_loss_curves({**table, "schedule": lines})
        >>> curves.runs().table[["run", "step", "S1"]].round(4).values.tolist()
        [['a', 50.0, 0.05], ['a', 100.0, 0.1], ['b', 100.0, 0.099]]
    """
    # All rows, which may log learning rates, and those with a loss: trainers log other metrics in
    # rows of their own, at any step.
    every = _curve_columns(read_runs(
        source, columns, units, weight=weight, where=where, corpus=corpus,
        drop_invalid=drop_invalid, name=name, format=format, values=values,
    ))  # fmt: skip
    several = {} if {*_LOSSES} & {*every.table} else known_columns(every.table, ["loss"])
    if several:
        raise DataError(
            f"{every.source}: the loss may be {' or '.join(map(str, several['loss']))}; pass "
            "columns={'loss': '…'}",
            file=every.source,
            column="loss",
        )
    # A trainer's own loss is of no use to whoever maps those of two corpora.
    of_corpora, rows = {"loss_d", "loss_g"} & {*every.columns}, every
    keep = has_loss(every.table, of_corpora or _LOSSES)
    if not keep.all():
        message = (
            f"{every.source}: {int((~keep).sum())} of {len(keep)} rows have no loss, as of other "
            "metrics, and are left out; learning rates that they log count"
        )
        rows = replace(
            every, table=every.table[keep],
            weight=None if every.weight is None else every.weight[keep],
            notes=(*every.notes, Note("filtered", "info", message)),
        )  # fmt: skip
    file, at_step, rates = rows.source, rows.location("step"), rows.location("lr")
    # Parsed once, so that runs of one line share it, and their areas are computed once.
    schedule = None if schedule is None else as_schedule(schedule)
    cells = every.table["schedule"] if "schedule" in every.table and schedule is None else []
    parsed = {cell: as_schedule(cell) for cell in dict.fromkeys(filter(_is_line, cells))}
    own_names = {column: canonical for canonical, column in every.columns.items()}
    first_step, S1_before, batch = (
        own_names.get(one, one) if isinstance(one, str) else one
        for one in (first_step, S1_before, batch)
    )
    followed, logs = {}, dict(list(every.table.groupby("run", sort=False)))
    for run, own in rows.table.groupby("run", sort=False):
        phases = [own]
        if "phase" in own:
            phases = [own[own["phase"] == name] for name in ("pt", "cpt")]
        for part in phases:
            if len(back := np.flatnonzero(np.diff(part["step"]) <= 0)):
                before, step = part["step"].iloc[back[0] : back[0] + 2]
                raise at_step.of_run(
                    run, part, back[0] + 1,
                    f"step {step:.0f} after {before:.0f}; one curve has one loss a step, in order: "
                    "sort the rows, give each curve its own name in column run, and choose one of "
                    "several losses with where=",
                )  # fmt: skip
        first = _number("first_step", first_step, own, rows)
        before = _number("S1_before", S1_before, own, rows)
        if schedule is not None:
            one = RunSchedule(schedule, first or 0)
        elif parsed:
            one = RunSchedule(parsed[_of_run("schedule", "schedule", own, rows)], first or 0)
        else:
            one = logged_schedule(logs[run], rates, run, fill, first)
        if one is None:
            raise UsageError(
                f"{file}: no schedule for run {run}; pass a line, schedule='cosine:peak=…,steps=…',"
                " or one for each run in a column schedule, or log the LR of every step in a "
                "column lr"
            )
        if before is None and one.first_step > 0:
            raise UsageError(
                f"{file}: run {run}: its schedule begins after step {one.first_step}: pass "
                "first_step=0 with fill='linear' for a linear warm-up from 0, or S1_before=, the "
                "sum of the learning rates up to there"
            )
        alone = "phase" in own and one.schedule.boundary is None
        phase = _of_run("phase", "phase", own, rows) if alone else "pt"
        one = replace(one, S1_before=before or 0.0, phase=phase)
        one = replace(one, batch=_batch(batch, one, logs[run], rows))
        done = one.steps_done(own)
        if len(phases) == 2 and one.schedule.boundary is not None and all(map(len, phases)):
            if phases[1]["step"].min() > phases[0]["step"].max():
                raise at_step.of_run(
                    run, phases[1], 0,
                    "its step continues those of phase pt; with a column phase the steps of cpt "
                    "count from the boundary. Where steps count over both phases leave the column "
                    "out: the schedule has the boundary",
                )  # fmt: skip
        if len(outside := np.flatnonzero((done < 0) | (done > len(one.schedule)))):
            raise at_step.of_run(
                run, own, outside[0],
                f"step {own['step'].iloc[outside[0]]:.0f} lies outside its schedule, which is of "
                f"the steps after {one.first_step} up to {one.last_step}; does it leave out a "
                "warm-up before the log? Then pass first_step= and S1_before=, or add warmup= to "
                "its line, whose steps count it",
            )  # fmt: skip
        if "lr" in own:
            compare_rates(one, run, own, done, rates)
        followed[run] = one
    return LossCurves(rows, followed)


def _is_line(cell) -> bool:
    """Whether a cell of a column ``schedule`` says the learning rates, and is no mere name."""
    return isinstance(cell, Schedule) or (isinstance(cell, str) and ":" in cell)


def _curve_columns(runs: Runs) -> Runs:
    """The runs with checked columns run (strings), step (whole numbers), lr, phase (pt, cpt).

    Steps in a unit of their own, such as tokens, are rounded to whole ones.
    """
    table = runs.table.rename(columns={name: f"{name} (as in the file)" for name in AREAS})
    runs = replace(runs, table=table)
    refuse = partial(refuse_rows, runs)
    if "step" not in table:
        shown = map(runs.user_name, table.columns)
        raise missing_column("step", ", the updates done at each loss", "step", shown, runs.source)
    unit = runs.units.get("step")
    step = numbers(table["step"], runs.location("step")) * (unit or 1.0)
    near = np.rint(step)  # steps of tokens over the batch are whole but for rounding
    step = np.where((np.abs(step - near) <= ROUNDING * np.abs(near)) | bool(unit), near, step)
    bad = ~((step == np.floor(step)) & np.isfinite(step))
    refuse("step", bad, "steps are whole numbers of updates", step)
    made = {"step": step}
    lines = "schedule" in table and table["schedule"].map(_is_line)
    if np.any(lines):
        refuse("schedule", ~np.asarray(lines, bool), "every row needs its schedule, a line")
    if "run" in table:
        refuse("run", table["run"].isna().to_numpy(), "every row needs its run")
        made["run"] = table["run"].map(str)
    elif "file" in table:  # a run a file, called so without its ending
        files = table["file"].map(str)
        short = files.str.replace(r"\.\w+(\.gz)?$", "", regex=True)
        made["run"] = short if short.nunique() == files.nunique() else files
    elif np.any(lines):
        made["run"] = table["schedule"].map(lambda one: getattr(one, "name", one))
    else:
        made["run"] = Path(runs.source).stem
    if "lr" in table:
        made["lr"] = lr = numbers(table["lr"], runs.location("lr"))
        bad = ~(np.isnan(lr) | ((lr >= 0) & (lr < np.inf)))
        refuse("lr", bad, "learning rates are finite and not negative", lr)
    if "phase" in table:
        made["phase"] = table["phase"].map(lambda text: str(text).strip().lower())
        remedy = "phases are pt (pre-training) and cpt; rename it if it means something else"
        refuse("phase", ~made["phase"].isin(["pt", "cpt"]).to_numpy(), remedy)
    return replace(runs, table=table.assign(**made))


def _of_run(argument: str, value, own: pd.DataFrame, runs: Runs):
    """The value of a run: as it is, or, of the name of a column, the one that its rows have."""
    if not isinstance(value, str):
        return value
    if value not in own:
        raise ColumnError(
            f"{argument}: there is no column {value}; columns: {listed(own)}."
            f"{nearest(value, map(str, own))}",
            column=value,
        )
    several = own[value].drop_duplicates()
    if len(several) > 1:
        raise runs.location(value).error(
            f"{argument}: column {runs.user_name(value)} has several values for run "
            f"{own['run'].iloc[0]} ({several.iloc[0]}, {several.iloc[1]}); a run has one (two "
            "phases are one schedule, first+second): give each its own name in column run",
            several.index[1],
            several.iloc[1],
        )
    return several.iloc[0]


def _number(argument: str, value, own: pd.DataFrame, runs: Runs):
    """A run's whole number of steps, or sum of learning rates; None where it is not given."""
    if value is None:
        return None
    value, what = _of_run(argument, value, own, runs), "a sum of learning rates, ≥ 0"
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if argument == "first_step":
        what = "a whole number of steps"
        if number.is_integer() and abs(number) < 2**53:  # beyond it floats leave numbers out
            return int(number)
    elif 0 <= number < np.inf:
        return number
    raise UsageError(f"{argument} is {what}, not {value!r}")


def _batch(batch, followed: RunSchedule, log: pd.DataFrame, runs: Runs) -> Batch:
    """Relative batch sizes of a run, from a number or pair, or a column with one a phase."""
    boundary = followed.schedule.boundary
    if not isinstance(batch, str):
        return relative_batch(batch, boundary is None)
    if batch in log:
        log = log.assign(**{batch: numbers(log[batch], runs.location(batch))})
    late = followed.steps_done(log) > (boundary or (0 if followed.phase == "cpt" else np.inf))
    of_phase = [log[phase] for phase in (~late, late)]
    return relative_batch(
        [_of_run("batch", batch, part, runs) if len(part) else 1.0 for part in of_phase], False
    )


def _by_schedule(
    table: pd.DataFrame, run_schedules: Mapping[str, RunSchedule]
) -> Iterator[tuple[RunSchedule, np.ndarray, np.ndarray, np.ndarray]]:
    """Each schedule once: where its rows are, the steps they need, and which of these is whose.

    Areas of a long schedule cost more than all else here; runs that share one share its areas.
    """
    numbered = {one: k for k, one in enumerate(dict.fromkeys(run_schedules.values()))}
    of_run = {run: numbered[one] for run, one in run_schedules.items()}
    done, which = optimizer_steps(table, run_schedules), table["run"].map(of_run).to_numpy()
    for one, k in numbered.items():
        if len(index := np.flatnonzero(which == k)):
            yield one, index, *np.unique(done[index], return_inverse=True)


def _drops(
    run_schedules: Mapping[str, RunSchedule], options: Mapping, table: pd.DataFrame
) -> dict[str, np.ndarray]:
    """The drops before each row, name → (rows, K), with as many columns as the fullest needs."""
    parts = []
    for one, index, at, back in _by_schedule(table, run_schedules):
        # A continual phase alone is the first of its schedule, and has the batch of the second.
        alone = one.schedule.boundary is None and one.phase == "cpt"
        batch = (one.batch[1],) * 2 if alone else one.batch
        parts.append((index, back, drops_along(one.schedule, at, options, batch)))
    most = max(len(drops["drop"].T) for _, _, drops in parts)
    columns = {name: np.empty((len(table), most)) for name in DROPS}
    for index, back, drops in parts:
        for name, values in drops.items():
            missing, mode = most - len(values.T), "constant" if name == "drop" else "edge"
            columns[name][index] = np.pad(values, ((0, 0), (0, missing)), mode=mode)[back]
    return columns
