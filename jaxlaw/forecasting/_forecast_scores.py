"""From runs to the scores of models not yet made: two steps joined, and a mean over tasks.

For each task the loss on it is forecast (:func:`jaxlaw.forecast`), and its score is a law of that
loss (:mod:`jaxlaw.forecasting._score_step`). A draw of the score is that law, fitted to resampled
runs, at a draw of the loss, and the noise of a run. All tasks have the same resampled runs, and
their noise goes together as it does in the runs, so that a mean over tasks has an interval.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Unpack

import numpy as np
import pandas as pd
from scipy import stats

from jaxlaw import _progress
from jaxlaw._arrays import numbers_of
from jaxlaw._quantities import SHARE, in_unit, written
from jaxlaw._result import Result
from jaxlaw._tables import is_table, read_table
from jaxlaw._typed import Between, Seed, checked
from jaxlaw._version import __version__
from jaxlaw.data import ReadingOptions, Runs, missing_column, numbers, read_runs, refuse_rows
from jaxlaw.data._dependence import run_groups
from jaxlaw.errors import UsageError, listed, nearest
from jaxlaw.fitting import FittedLaw
from jaxlaw.forecasting._forecast import LEVELS, Forecast, forecast
from jaxlaw.forecasting._score_step import (
    N_RESAMPLES,
    NO_TREND,
    WIDE_SCORE,
    ScoreStep,
    TaskRuns,
    error_factors,
    fit_score_step,
    late_weights,
)
from jaxlaw.notes import Note

#: Scores of guesses at random: one over the number of answers that the task offers, as in
#: lm-evaluation-harness. Whole names of tasks, letters and digits alone.
CHANCE = dict.fromkeys(
    ("mmlu", "mmlustem", "mmluhumanities", "mmlusocialsciences", "mmluother", "hellaswag",
     "arcchallenge", "arceasy", "arcc", "arce", "openbookqa", "obqa", "sciq", "race", "logiqa",
     "gpqa", "gpqadiamond", "gpqamain", "gpqaextended"), 0.25,
) | {
    "mmlupro": 0.1, "csqa": 0.2, "commonsenseqa": 0.2, "socialiqa": 1 / 3, "siqa": 1 / 3,
    "piqa": 0.5, "winogrande": 0.5, "boolq": 0.5, "copa": 0.5, "wic": 0.5,
}  # fmt: skip
#: Words in names of tasks and columns that say nothing of the task: split, form, shots, metric.
_NO_TASK = re.compile(r"test|val|validation|dev|train|mc|rc|cf|\d+shot|acc|len|norm")
#: Words that a metric's name goes on with: ``acc_*`` is not the pattern of ``acc_norm_piqa``.
_METRIC_GOES_ON = r"(?!(?:norm|bytes|stderr|mutual_info|per_char|per_token|per_byte|uncond|raw)_)"
SHARES = ("from_loss", "from_law", "from_noise")
_COLUMNS = {"task": str, "note": str} | dict.fromkeys(
    ("loss", "score", "low", "high", "chance", *SHARES), float
)
_N_DRAWS = 4000
_GRID = 49  # losses at which the curves of the resamples are evaluated
_TOGETHER = 8.0  # runs that no correlation among tasks counts as


def compute_of(inputs: Mapping[str, np.ndarray], source: str) -> np.ndarray:
    """Training compute in FLOPs: C, or 6·N·D.

    Raises:
        UsageError: neither can be had of these inputs.
    """
    if "C" in inputs:
        return np.asarray(inputs["C"], float)
    if {"N", "D"} <= inputs.keys():
        return 6.0 * np.asarray(inputs["N"], float) * np.asarray(inputs["D"], float)
    raise UsageError(f"{source}: compute needs C, or N and D; there are {', '.join(inputs)}")


@dataclass(frozen=True, eq=False, repr=False)
class ScoreForecast(Result):
    """Scores of models that were not yet made; :func:`jaxlaw.load` reads its file.

    Attributes:
        table: one row a task and point: ``task``; the inputs, in the units of the runs; ``loss``,
            the forecast of the loss on the task; ``score``; ``low`` and ``high``, the interval for
            a new run at ``level``; ``chance`` (NaN if unknown); the shares of the variance, of sum
            1, ``from_loss`` (the forecast of the loss), ``from_law`` (how the score follows it) and
            ``from_noise`` (what runs of one loss differ by); ``note``, why there is no forecast, or
            what to know of it.
        mean: one row a point: the inputs; ``score``, the mean over the tasks that have a forecast;
            ``low`` and ``high``, from draws in which the tasks' errors go together as they do in
            the runs.
        choices: one row a loss that was tried where several were given for a task: ``task``,
            ``loss``, ``error`` (root mean square of the score's errors beyond the cut-offs of the
            back-test; NaN without one) and ``chosen``.
        level: share of such intervals that should hold the score.
        fits: task → the law of its score in its loss.
        forecasts: task → the forecast of its loss.
        noise: task → standard deviation of the scores of runs of one loss.
        curves: the second step for pictures: one row a task and loss, ``score`` by the law,
            ``score_low`` and ``score_high`` for a run of that loss.
        observed: task → ``loss`` and ``score`` (n,) of the checkpoints, and ``final``, 1 of those
            that are a run's last.
        created: date and time, UTC, in ISO 8601.
        package_versions: package → version.
        notes: what to know before betting on it.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.003).table.iloc[::9]
        >>> runs["acc"] = 0.25 + 0.6 / (1 + np.exp(4 * (runs["loss"] - 2.4)))
        >>> found = jl.forecast_scores(
        ...     runs, {"mmlu": ("loss", "acc")}, at={"N": 1e10, "D": 4e11}, n_starts=64
        ... )
        >>> row = found.table.iloc[0]
        >>> bool(row["chance"] < row["low"] < row["score"] < row["high"] < 1)
        True
    """

    picture = "score_forecasts"

    table: pd.DataFrame = field(metadata={"columns": _COLUMNS})
    mean: pd.DataFrame
    choices: pd.DataFrame = field(
        metadata={"columns": {"task": str, "loss": str, "error": float, "chosen": bool}}
    )
    level: float = field(metadata={"unit": SHARE})
    fits: dict[str, FittedLaw]
    forecasts: dict[str, Forecast]
    noise: dict[str, float]
    curves: pd.DataFrame
    observed: dict[str, dict[str, np.ndarray]]
    created: str
    package_versions: dict[str, str]
    notes: tuple[Note, ...]

    @property
    def inputs(self) -> list[str]:
        """Names of the columns that say where the points are."""
        return list(self.table.columns[1 : list(self.table).index("loss")])

    @property
    def quantities(self) -> dict[str, float]:
        """None: its numbers are those of its tasks, in the table."""
        return {}

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of an input or of a share; a loss has that of its column, a score none."""
        if name in SHARES:
            return SHARE, 1.0
        if name not in self.inputs:
            return "", 1.0
        return next((one.unit_of(name) for one in self.forecasts.values()), None)

    @property
    def headline(self) -> str:
        """The mean over tasks at the last point, with its interval."""
        if self.table["score"].isna().all():
            return "no task has a forecast"
        return self._point(self.mean.iloc[-1])

    def _point(self, row: pd.Series) -> str:
        """A point, and the mean over its tasks, or the score of its only one."""
        where = [f"{name} {written(row[name], *self.unit_of(name))}" for name in self.inputs]
        tasks = list(self.forecasts)
        of = tasks[0] if len(tasks) == 1 else f"mean of {len(tasks)} tasks"
        return (
            f"{', '.join(where)}: {of} {row['score']:.3f} ({100 * self.level:g} %: "
            f"{row['low']:.3f} to {row['high']:.3f})"
        )

    def lines(self) -> list[str]:
        """Every point with its tasks, their intervals, and what the width comes from."""
        wide = max(map(len, [*self.table["task"], "task"]))
        head = f"{'task':{wide}}  loss  score  {100 * self.level:g} %".ljust(wide + 31)
        lines = []
        for k, point in self.mean.iterrows():
            lines += [self._point(point)] * (len(self.mean) > 1)
            lines.append(f"{head}chance  width from loss, law, noise")
            lines += [
                f"{row.task:{wide}}  {row.note}"
                if np.isnan(row.score)
                else f"{row.task:{wide}} {row.loss:5.3f}  {row.score:5.3f}  {row.low:5.3f} to "
                f"{row.high:5.3f}  {_number(row.chance):6}  {row.from_loss:4.0%} "
                f"{row.from_law:4.0%} {row.from_noise:4.0%}  {_in_brief(row.note)}".rstrip()
                for row in self.table.iloc[k :: len(self.mean)].itertuples()
            ]
        best = self.choices[self.choices["chosen"].astype(bool)]
        return lines + [f"{row.task}: predicted by {row.loss}" for row in best.itertuples()]


def _in_brief(note: str) -> str:
    return re.split("[:;]", note)[0]


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3g}"


@checked
def forecast_scores(
    runs: Any,
    tasks: Mapping[str, tuple[Any, str]] | str | Sequence[str],
    at: Any,
    *,
    groups: str | Sequence[str] | None = None,
    level: Annotated[float, Between(0.01, 0.999)] = 0.9,
    law: Any = "sigmoid",
    chance: Mapping[str, float] | float | None = None,
    questions: Mapping[str, float] | None = None,
    prior: Any = "field",
    seed: Seed = 0,
    n_starts: Annotated[int, Between(1, 1_000_000)] = 1024,
    **reading: Unpack[ReadingOptions],
) -> ScoreForecast:
    """The scores that models not yet made will have on tasks, each with an interval.

    The loss on each task is forecast from the final models, and the score is a law of that loss,
    fitted to final models and checkpoints. A task at chance, and one whose score falls as the loss
    falls, has no forecast and says so. The chapter ``jaxlaw/forecasting/README.md`` has the method
    and its limits.

    Args:
        runs: what :func:`jaxlaw.read_runs` takes or returns: a row a model or checkpoint, with the
            inputs, and a column for each loss and score; scores are shares of 1.
        tasks: task → columns of its loss (bits per byte of the right answers, a cross-entropy) and
            of its score. In place of the first, a list of columns: the one is taken whose forecasts
            at the cut-offs of a back-test erred least. Or texts: ``"acc_*:bpb_*"`` for every column
            ``acc_…`` that has a ``bpb_…``, ``"mmlu=acc_mmlu:bpb_a,bpb_b"`` for one task.
        at: points: a dict of numbers or arrays that broadcast, or a table, with N and D, or with C
            alone (FLOPs; 6·N·D of the runs where they have none), in the units of the runs.
        groups: column or columns that name the run of a checkpoint. By default the column ``run``
            (or ``run_id`` …) where several rows share a value of it, which a note says, else every
            row is a run; ``[]``: every row is a run.
        level: share of such intervals that should hold the score of a new run.
        law: law of the score in the loss: ``sigmoid``, ``score-exponential``, ``score-log-linear``
            or one's own of ``task_loss``.
        chance: task → score by chance, or one for all; known tasks need none
            (``jaxlaw.forecasting.CHANCE``).
        questions: task → number of its questions: the noise that a share of so many has counts as
            such, in the weights and where a task is held against chance.
        prior: what is known beforehand of the laws of the loss, as :func:`jaxlaw.forecast` takes
            it.
        seed: seed of resamples, draws and starts.
        n_starts: size of the Sobol sample of the laws of the loss.
        **reading: options of :func:`jaxlaw.read_runs`: columns, units, where …

    Returns:
        The :class:`ScoreForecast`.

    Raises:
        UsageError: the call makes no sense; the message says what would.
        DataError: a column is missing, a score is no share of 1, or the runs are too few.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.003).table.iloc[::9]
        >>> runs["acc"] = 0.25 + 0.6 / (1 + np.exp(4 * (runs["loss"] - 2.4)))
        >>> points = {"N": [7e9, 13e9], "D": 4e11}
        >>> found = jl.forecast_scores(runs, {"mmlu": ("loss", "acc")}, at=points, n_starts=64)
        >>> found.table.columns[:4].tolist(), len(found.table)
        (['task', 'N', 'D', 'loss'], 2)
    """
    given = {name: value for name, value in reading.items() if value is not None}
    source = runs if isinstance(runs, Runs) and not given else read_runs(runs, **given)
    named = tasks if isinstance(tasks, Mapping) else _tasks_of(tasks, source)
    if not named:
        raise UsageError("tasks is a dict, task to columns: {'mmlu': ('bpb_mmlu', 'acc_mmlu')}")
    for what, by_task in (("chance", chance), ("questions", questions)):
        for task in by_task if isinstance(by_task, Mapping) else ():
            if task not in named:
                message = f"{what} names task {task}; tasks are {listed(list(named))}."
                raise UsageError(message + nearest(task, list(named)), argument=what)
    table = _Table.of(source, groups, at)
    read = table.tasks(named, chance, questions or {})
    options = {"level": level, "seed": seed, "n_starts": n_starts, "prior": prior}

    @functools.cache  # tasks that are predicted by one loss share its forecast
    def of_loss(loss: str) -> Forecast:
        return forecast(None, table.finals(loss), table.at, **options)

    chains: dict[str, _Chain] = {}
    tried: list[dict[str, Any]] = []
    for task in _progress.parts(list(read), str, "task"):
        runs_by_loss = dict(zip(_listed(named[task][0]), read[task], strict=True))
        best, compared = _best_chain(table, of_loss, runs_by_loss, law, seed)
        chains |= {} if best is None else {task: best}
        tried += compared
    return _result(table, read, chains, tried, options)


# ---------------------------------------------------------------- the table


@dataclass(frozen=True, eq=False)
class _Table:
    """The runs, and which rows are of one run.

    Attributes:
        runs: as read, with the inputs of the points.
        at: input → its values at the points.
        members: (n,) number of each row's run, from 0.
        final: (G,) row of the last checkpoint of each run.
        weight: (n,) what a row counts in the second step.
        notes: which column was taken for the runs' names.
    """

    runs: Runs
    at: dict[str, Any]
    members: np.ndarray
    final: np.ndarray
    weight: np.ndarray
    notes: tuple[Note, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(self.at)

    @classmethod
    def of(cls, runs: Runs, groups: Any, at: Any) -> _Table:
        """The table with the inputs of the points; compute is 6·N·D where it has no column."""
        runs = dataclasses.replace(runs, table=runs.table.reset_index(drop=True))
        points = _points_of(at, runs)
        inputs = tuple(points)
        if "C" in inputs and "C" not in runs.table:
            raw = {name: _column(runs, name) * runs.units.get(name, 1.0) for name in ("N", "D")}
            frame = runs.table.assign(C=compute_of(raw, runs.source))
            runs = dataclasses.replace(runs, table=frame)
        for name in inputs:
            _column(runs, name)
        members, notes = np.arange(len(runs)), ()
        if groups is None and (named := run_groups(runs.table, {}, runs.columns)):
            groups = named.columns
            message = (
                f"{len(runs)} rows are checkpoints of {named.count} runs by column {groups[0]}; "
                "groups= names another"
            )
            notes = (Note("grouped-by-run", "info", message, inherited=False),)
        if groups:
            names = _listed(groups)
            frame = runs.table[[_name(runs, name, "groups") for name in names]]
            members = frame.groupby(list(frame), sort=False, dropna=False).ngroup().to_numpy()
        seen = _column(runs, "D" if "D" in runs.table else inputs[0])
        order = np.lexsort([np.arange(len(seen)), seen])
        final = np.zeros(members.max() + 1, int)
        final[members[order]] = order  # the last write is that of the largest
        weight = late_weights(seen / seen[final][members])
        weight = weight if runs.weight is None else weight * runs.weight
        return cls(runs, points, members, final, weight, notes)

    def tasks(
        self, named: Mapping[str, tuple[Any, str]], chance: Any, questions: Mapping[str, float]
    ) -> dict[str, list[TaskRuns]]:
        """Task → its losses and scores, by each of the losses that were named for it."""
        return {
            task: [self.task(task, loss, score, chance, questions) for loss in _listed(losses)]
            for task, (losses, score) in named.items()
        }

    def task(
        self, task: str, loss: str, score: str, chance: Any, questions: Mapping[str, float]
    ) -> TaskRuns:
        """Losses and scores of a task."""
        x, y = _column(self.runs, loss), _column(self.runs, score)
        column = _name(self.runs, score, "tasks")
        bad = (y < 0) | (y > 1)
        refuse_rows(self.runs, column, bad, "scores are shares of 1; divide percent by 100")
        refuse_rows(self.runs, _name(self.runs, loss, "tasks"), x <= 0, "a loss is positive")
        known = chance.get(task) if isinstance(chance, Mapping) else chance
        known = chance_of(task) if known is None else float(known)
        return TaskRuns(
            task, x, y, self.weight, self.members, self.final, known,
            float(questions.get(task, np.nan)),
        )  # fmt: skip

    def finals(self, loss: str) -> Runs:
        """The final models, as runs whose target is a loss."""
        column = _name(self.runs, loss, "tasks")
        kept = [*self.inputs, *([column] if column not in self.inputs else [])]
        frame = self.runs.table.loc[self.final, kept].reset_index(drop=True)
        mapped = {k: v for k, v in self.runs.columns.items() if k in frame}
        weight = None if self.runs.weight is None else self.runs.weight[self.final]
        few = dataclasses.replace(
            self.runs, table=frame, columns=mapped, weight=weight, corpus=None, reading=None
        )
        return read_runs(few, target=column)


def _name(runs: Runs, column: str, argument: str) -> Any:
    """The column of the table, by its canonical name or the user's own."""
    names = {runs.user_name(name): name for name in runs.table}
    if column in runs.table:
        return column
    if column in names:
        return names[column]
    mapped = column in ("N", "D", "C")  # inputs, whose columns the call may name
    where = "" if mapped else f" ({argument}=)"
    raise missing_column(column, where, column, names, runs.source, mapped)


def _column(runs: Runs, column: str) -> np.ndarray:
    name = _name(runs, column, "tasks")
    values = numbers(runs.table[name], runs.location(name))
    refuse_rows(runs, name, ~np.isfinite(values), "give a number, or leave the row out (where=)")
    return values


def _tasks_of(texts: str | Sequence[str], runs: Runs) -> dict[str, tuple[list[str], str]]:
    """Tasks of texts such as ``acc_*:bpb_*``: what a star stands for is the task's name."""
    columns = [str(runs.user_name(name)) for name in runs.table]
    found: dict[str, tuple[list[str], str]] = {}
    for text in _listed(texts):
        name, _, pair = text.rpartition("=")
        score, _, losses = pair.partition(":")
        if not (score and losses):
            message = f"name columns as 'acc_*:bpb_*' or 'TASK=SCORE:LOSS', not '{text}'"
            raise UsageError(message, argument="tasks")
        if "*" in score:
            found |= _fitting(columns, score, losses.split(","))
        else:
            found[name or score] = (losses.split(","), score)
    if not found:
        wanted = " or ".join(_listed(texts))
        message = (
            f"{runs.source}: no two columns fit {wanted}, a score and the loss of the same task; "
            f"columns: {listed(columns)}"
        )
        raise UsageError(message, argument="tasks")
    return found


def _fitting(columns: list[str], score: str, losses: list[str]) -> dict[str, tuple[list[str], str]]:
    """Tasks of a pattern: columns that fit the score's, with those of the losses that there are.

    Not every task has a loss of its own; a loss without a star is one for all, and not left out.
    """
    pattern = re.compile(re.escape(score).replace(r"\*", f"{_METRIC_GOES_ON}(.+)", 1))
    names = {column: match[1] for column in columns if (match := pattern.fullmatch(column))}
    found = {}
    for column, task in names.items():
        named = [(loss, loss.replace("*", task)) for loss in losses]
        if own := [name for loss, name in named if name in columns or name == loss]:
            found[task] = (own, column)
    return found


def _listed(losses: Any) -> list[str]:
    return [losses] if isinstance(losses, str) else list(losses)


def _points_of(at: Any, runs: Runs) -> dict[str, Any]:
    """Input → its values at the points, in the order of the laws that take them."""
    if is_table(at) and not isinstance(at, Mapping):
        at = dict(read_table(at).frame.items())
    if not isinstance(at, Mapping):
        raise UsageError("at is a dict, at={'N': 7e9, 'D': 4e12}, or a table")
    canonical = {str(column): name for name, column in runs.columns.items()}
    points = {canonical.get(str(name), str(name)): values for name, values in at.items()}
    for inputs in ({"N": "parameters", "D": "tokens"}, {"C": "FLOPs"}):
        if set(inputs) == set(points):
            return {
                name: numbers_of(
                    f"at: {name}", in_unit(points[name], runs.units.get(name, 1.0), of)
                )
                for name, of in inputs.items()
            }
    raise UsageError(
        f"at has {', '.join(points)}; scores are forecast from N and D, or from C alone"
    )


def chance_of(task: str) -> float:
    """The score that guesses have on a task that is known by its name; NaN of any other.

    Args:
        task: whole name, in which only letters and digits count, and no split, number of shots or
            metric: ``arc_challenge_test``, ``ARC-C``, ``acc_mmlu_5shot``.

    Example:
        >>> jl.forecasting.chance_of("arc_easy_test"), jl.forecasting.chance_of("PIQA")
        (0.25, 0.5)
    """
    words = re.findall("[a-z0-9]+", task.lower())
    plain = "".join(word for word in words if not _NO_TASK.fullmatch(word))
    return CHANCE.get(plain, np.nan)


# ---------------------------------------------------------------- one task


@dataclass(frozen=True, eq=False)
class _Chain:
    """Both steps of a task.

    Attributes:
        forecast: of its loss.
        step: the law of its score.
        loss_errors: (J·G,) log of observed over predicted loss, of every cut-off and run; NaN of
            those fitted.
        score_errors: (J, G) observed less predicted scores by the chain; NaN of those fitted.
        together: correlation of the runs' residuals of both steps. Where the score does not follow
            what a loss differs by from run to run, a run whose loss is too high has a score that is
            too high for its loss, and the two errors cancel.
    """

    forecast: Forecast
    step: ScoreStep
    loss_errors: np.ndarray
    score_errors: np.ndarray
    together: float

    @property
    def error(self) -> float:
        """Root mean square of the errors of the score, each cut-off counting once; NaN of none."""
        with np.errstate(invalid="ignore"):
            squares = [np.nanmean(row**2) for row in self.score_errors if np.isfinite(row).any()]
        return float(np.sqrt(np.mean(squares))) if squares else np.nan


def _best_chain(
    table: _Table, of_loss: Callable[[str], Forecast], runs_by_loss: Mapping[str, TaskRuns],
    law: Any, seed: int,
) -> tuple[_Chain | None, list[dict[str, Any]]]:  # fmt: skip
    """The chain by the loss that predicted best beyond the cut-offs, and how all of them did."""
    found = {
        loss: _chain(table, of_loss(loss), runs, law, seed)
        for loss, runs in runs_by_loss.items()
        if not runs.trouble()
    }
    if not found:
        return None, []
    errors = {loss: chain.error for loss, chain in found.items()}
    best = min(errors, key=lambda loss: (not np.isfinite(errors[loss]), errors[loss]))
    compared = [
        {"loss": loss, "error": error, "chosen": loss == best} for loss, error in errors.items()
    ]
    task = found[best].step.runs.task
    return found[best], [{"task": task} | one for one in compared if len(found) > 1]


def _chain(table: _Table, known: Forecast, runs: TaskRuns, law: Any, seed: int) -> _Chain:
    cutoffs = np.empty(0) if known.backtest is None else known.backtest.cutoffs
    z = known.observed["along"]
    step = fit_score_step(law, runs, np.log(z / cutoffs[:, None]), seed)
    losses = _backtested(known, cutoffs, len(z))
    scores = np.full(losses.shape, np.nan)
    observed = runs.loss[runs.final]
    for j, row in enumerate(losses):
        there = np.isfinite(row)
        if there.any():
            scores[j, there] = runs.score[runs.final][there] - step.below_cutoff(j, row[there])
    fitted = _by_laws(known, {n: _column(table.runs, n)[table.final] for n in table.inputs})
    both = np.array([np.log(observed) - fitted, step.residuals])
    return _Chain(known, step, np.log(observed) - np.log(losses), scores, _correlation(both)[0, 1])


def _by_laws(known: Forecast, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """(G,) logs of the loss of runs by the weighted laws that are fitted to all of them."""
    each = [np.log(fit.predict(inputs)) for fit in known.fits.values()]
    return np.average(each, axis=0, weights=[w.mean() for w in known.weights.values()])


def _backtested(known: Forecast, cutoffs: np.ndarray, count: int) -> np.ndarray:
    """(J, G) losses that the weighted laws fitted below each cut-off predicted beyond it."""
    found = np.full((len(cutoffs), count), np.nan)
    if known.backtest is None:
        return found
    frame = known.backtest.frame
    weights = {label: float(values.mean()) for label, values in known.weights.items()}
    frame = frame[frame["law"].isin(weights)]
    frame = frame.assign(w=frame["law"].map(weights), logs=np.log(frame["predicted"]))
    frame = frame[np.isfinite(frame["logs"])]
    for (cutoff, row), part in frame.groupby(["cutoff", "row"]):
        j = int(np.argmin(np.abs(cutoffs - cutoff)))
        found[j, int(row)] = np.exp(np.average(part["logs"], weights=part["w"]))
    return found


# ---------------------------------------------------------------- all tasks


def _result(
    table: _Table, read: Mapping[str, list[TaskRuns]], chains: Mapping[str, _Chain],
    tried: list[dict[str, Any]], options: Mapping[str, Any],
) -> ScoreForecast:  # fmt: skip
    level = options["level"]
    limits = (50 - 50 * level, 50 + 50 * level)
    factors = _factors(chains)
    points = _points(table, chains)
    draws = _draws(chains, factors, options["seed"])
    made = {
        task: [
            _row(chain, k, factors[task][k], draws[task][k], limits)
            for k in range(len(factors[task]))
        ]
        for task, chain in chains.items()
    }
    rows = [
        {"task": task}
        | {name: values[k] for name, values in points.items()}
        | dict.fromkeys(("loss", "score", "low", "high"), np.nan)
        | {"chance": runs.chance}
        | dict.fromkeys(SHARES, np.nan)
        | {"note": runs.trouble()}
        | (made[task][k] if task in chains else {})
        for task, (runs, *_) in read.items()
        for k in range(len(next(iter(points.values()))))
    ]
    frame = pd.DataFrame(rows)
    mean = frame.groupby(frame.index % len(points[table.inputs[0]]))["score"].mean()
    mean = pd.DataFrame(points | {"score": mean.to_numpy(), "low": np.nan, "high": np.nan})
    if chains:
        together = np.mean(list(draws.values()), axis=0)  # (points, draws)
        mean["low"], mean["high"] = np.percentile(together, limits, axis=1)
    return ScoreForecast(
        table=frame,
        mean=mean,
        choices=pd.DataFrame(tried, columns=["task", "loss", "error", "chosen"]),
        level=level,
        **_by_task(chains),
        curves=_curves(chains, factors, level),
        observed={
            task: _observed(chains[task].step.runs if task in chains else runs[0])
            for task, runs in read.items()
        },
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        package_versions={"jaxlaw": __version__, "numpy": np.__version__},
        notes=(*table.notes, *_below_chance(read), *_notes(frame, chains)),
    )


def _factors(chains: Mapping[str, _Chain]) -> dict[str, np.ndarray]:
    """Task → (m,) by how much its errors exceed what its resamples and noise say, at each point."""
    steps = [chain.step for chain in chains.values()]
    far = next((chain.forecast.table["distance"] for chain in chains.values()), ())
    every = np.array([error_factors(steps, reach) for reach in far])
    return {task: every[:, t] for t, task in enumerate(chains)}


def _by_task(chains: Mapping[str, _Chain]) -> dict[str, dict[str, Any]]:
    """Field → task → its value, of what each task has one."""
    return {
        "fits": {task: chain.step.fitted() for task, chain in chains.items()},
        "forecasts": {task: chain.forecast for task, chain in chains.items()},
        "noise": {task: chain.step.noise for task, chain in chains.items()},
    }


def _points(table: _Table, chains: Mapping[str, _Chain]) -> dict[str, np.ndarray]:
    """The inputs (m,) of the points, in the units of the runs."""
    for chain in chains.values():
        return {name: chain.forecast.table[name].to_numpy() for name in table.inputs}
    every = np.broadcast_arrays(*table.at.values())
    return dict(zip(table.inputs, map(np.ravel, every), strict=True))


def _draws(
    chains: Mapping[str, _Chain], factors: Mapping[str, np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """Task → (m, S) draws of its scores at the points; draw s of all tasks is of the same runs."""
    if not chains:
        return {}
    random = np.random.default_rng(seed)
    every = list(chains.values())
    errors = np.array([chain.loss_errors.ravel() for chain in every])
    of_losses = _normal(random, _correlation(errors))
    of_runs = _normal(random, _correlation(np.array([chain.step.residuals for chain in every])))
    which = random.integers(N_RESAMPLES, size=_N_DRAWS)
    return {
        task: np.array([
            _score_draws(chain, k, of_losses[:, t], which, of_runs[:, t], factors[task][k])
            for k in range(len(chain.forecast.table))
        ])
        for t, (task, chain) in enumerate(chains.items())
    }  # fmt: skip


def _correlation(errors: np.ndarray) -> np.ndarray:
    """(T, T) correlation of tasks' errors (T, n) about 0, drawn towards none where they are few."""
    good = errors[:, np.isfinite(errors).all(axis=0)]
    if not good.shape[1]:
        return np.eye(len(errors))
    size = np.sqrt((good**2).mean(axis=1))
    size = np.where(size > 0, size, 1.0)
    scaled = good / size[:, None]
    count = good.shape[1]
    share = count / (count + _TOGETHER)
    found = share * (scaled @ scaled.T) / count
    np.fill_diagonal(found, 1.0)
    return found


def _normal(random: np.random.Generator, correlation: np.ndarray) -> np.ndarray:
    """(S, T) normal draws, each task's evenly spread: their ranks alone are drawn."""
    drawn = random.standard_normal((_N_DRAWS, len(correlation))) @ np.linalg.cholesky(correlation).T
    ranks = drawn.argsort(axis=0).argsort(axis=0)
    return stats.norm.ppf((ranks + 0.5) / _N_DRAWS)


def _score_draws(
    chain: _Chain, k: int, of_loss: np.ndarray, which: np.ndarray, of_run: np.ndarray, factor: float
) -> np.ndarray:
    """(S,) draws of a task's score at point k."""
    quantiles = chain.forecast.quantiles[:, k]
    losses = np.exp(np.interp(of_loss, stats.norm.ppf(LEVELS), np.log(quantiles)))
    middle, each = _curves_at(chain, quantiles, losses, which)
    # Of the loss's error the noise of a run is a part, and that alone goes with the score's.
    share = chain.together * np.sqrt(chain.forecast.table["from_noise"].iloc[k])
    of_run = share * of_loss + np.sqrt(1.0 - share**2) * of_run
    of_run = stats.t.ppf(stats.norm.cdf(of_run), chain.step.degrees)
    return np.clip(middle + factor * (each - middle + chain.step.noise * of_run), 0.0, 1.0)


def _curves_at(
    chain: _Chain, quantiles: np.ndarray, losses: np.ndarray, which: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(S,) scores at losses (S,): by the fit of all runs, and by the resample of each draw."""
    grid = np.geomspace(quantiles[0], quantiles[-1], _GRID)
    middle, each = chain.step.curves(grid)
    at = np.interp(np.log(losses), np.log(grid), np.arange(_GRID))
    left = np.minimum(at.astype(int), _GRID - 2)
    rest = at - left
    by_resample = each[which, left] * (1 - rest) + each[which, left + 1] * rest
    return np.interp(np.log(losses), np.log(grid), middle), by_resample


def _row(
    chain: _Chain, k: int, factor: float, draws: np.ndarray, limits: tuple[float, float]
) -> dict[str, Any]:
    """Loss, score, interval and shares of the variance of a task at point k."""
    point = chain.forecast.table.iloc[k]
    losses = chain.forecast.quantiles[:, k]
    middle, each = chain.step.curves(np.array([point["estimate"]]))
    evenly = np.exp(np.interp(
        stats.norm.ppf((np.arange(64) + 0.5) / 64), stats.norm.ppf(LEVELS), np.log(losses)
    ))  # fmt: skip
    parts = np.array([
        chain.step.curves(evenly)[0].var(), factor**2 * each.var(),
        factor**2 * chain.step.noise**2,
    ])  # fmt: skip
    low, high = np.percentile(draws, limits)
    return {
        "loss": float(point["estimate"]),
        "score": float(middle[0]),
        "low": low,
        "high": high,
        **dict(zip(SHARES, (parts / parts.sum()).tolist(), strict=True)),
        "note": chain.step.runs.doubt(high - low),
    }


def _curves(
    chains: Mapping[str, _Chain], factors: Mapping[str, np.ndarray], level: float
) -> pd.DataFrame:
    """The laws of all tasks with bands, from the runs' highest loss to the lowest forecast."""
    rows = [pd.DataFrame(columns=["task", "loss", "score", "score_low", "score_high"])]
    for task, chain in chains.items():
        runs, step = chain.step.runs, chain.step
        loss = np.geomspace(runs.loss[runs.weight > 0].max(), chain.forecast.quantiles.min(), 40)
        middle, each = step.curves(loss)
        spread = factors[task].max() * np.sqrt(each.var(axis=0) + step.noise**2)
        half = stats.t.ppf((1 + level) / 2, step.degrees) * spread
        low, high = np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)
        columns = {"task": task, "loss": loss, "score": middle}
        rows.append(pd.DataFrame(columns | {"score_low": low, "score_high": high}))
    return pd.concat(rows if len(rows) == 1 else rows[1:], ignore_index=True)


def _observed(runs: TaskRuns) -> dict[str, np.ndarray]:
    final = np.zeros(len(runs.loss))
    final[runs.final] = 1.0
    return {"loss": runs.loss, "score": runs.score, "final": final}


def _below_chance(read: Mapping[str, list[TaskRuns]]) -> list[Note]:
    """Which tasks have runs below their chance, which may then be that of another task."""
    below = {task: runs.below_chance() for task, (runs, *_) in read.items()}
    said = [
        f"{task} ({count} of {len(read[task][0].final)} runs below {read[task][0].chance:.3g})"
        for task, count in below.items()
        if count
    ]
    if not said:
        return []
    message = f"{', '.join(said)}: check the score by chance, and give the right one in chance="
    return [Note("below-chance", "warning", message, inherited=False)]


def _notes(table: pd.DataFrame, chains: Mapping[str, _Chain]) -> tuple[Note, ...]:
    """What is to be known of the tasks, by what the table says of them, then of their losses."""
    of_rows = {NO_TREND: "no-trend", WIDE_SCORE: "wide-score"}
    notes = [
        Note(
            of_rows.get(text, "no-forecast"),
            "warning",
            f"{', '.join(rows.unique())}: {text}",
            inherited=False,
        )
        for text, rows in table.groupby("note", sort=False)["task"]
        if text
    ]
    by_code: dict[str, list[tuple[str, Note]]] = {}
    for task, chain in chains.items():
        for note in chain.forecast.notes:
            by_code.setdefault(note.code, []).append((task, note))
    for code, found in by_code.items():
        names = ", ".join(dict.fromkeys(task for task, _ in found))
        note = found[0][1]
        message = f"loss of {names}: {note.message}"
        notes.append(Note(code, note.severity, message, inherited=note.inherited))
    return tuple(notes)
