"""From runs to the scores of models not yet made: two posteriors joined, and a mean over tasks.

For each task the loss on it is forecast (:func:`jaxlaw.forecast`), and its score is a sigmoid of
that loss, of which there are draws, too (:func:`jaxlaw.forecasting.posteriors`). A draw of the
score is a draw of that law at a draw of the loss, and the noise of a run. The noise of tasks goes
together as it does in the runs, so that a mean over tasks has an interval.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy import special, stats

from jaxlaw import _progress, laws
from jaxlaw._answer import Answer
from jaxlaw._arrays import numbers_of
from jaxlaw._quantities import SHARE, in_unit, written, written_range
from jaxlaw._tables import is_table, read_table
from jaxlaw._typed import Between, Seed, checked
from jaxlaw.data import ReadingOptions, Runs, missing_column, numbers, read_runs, refuse_rows
from jaxlaw.data._dependence import run_groups
from jaxlaw.errors import UsageError, listed, nearest
from jaxlaw.forecasting._forecast import LEVELS, Forecast, forecast
from jaxlaw.forecasting.posterior import NU, SHARED, posteriors
from jaxlaw.laws import Input, positive, real
from jaxlaw.notes import Note
from jaxlaw.uncertainty import Draws

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
#: Power of the share of a run's tokens that a checkpoint has: what it weighs. Measured on OLMo's
#: ladder, 190 M and 370 M against 760 M.
LATE = 8.0
_LEAST_WEIGHT = 0.01  # of a checkpoint, to be among the rows
_OFF_CHANCE = 0.05  # standard deviation of a floor about the score by chance
#: Between 0 and 2.6, what the cheaper budgets of two sets of ladders show.
_MISFIT = 1.0  # scale of the log odds that the law misses per e-fold of loss below the runs
_USUAL_NOISE = 0.01  # standard deviation of the scores of runs of one loss
#: Width of an interval, as a share of what lies between chance and 1, from which it says little.
_WIDE = 1 / 3
_REPEATS = 4  # draws of losses and noise for each of the law
_TOGETHER = 8.0  # runs that no correlation among tasks counts as
_POINTS = 25  # of compute, at which scores are forecast
#: What to know of forecasts, in words.
NO_TREND = "the score hardly follows the loss; its interval is of noise"
WIDE_SCORE = "little is known: the interval takes a third or more of what lies above chance"
#: What inputs of a point count.
_COUNTED = {"N": "parameters", "D": "tokens", "C": "FLOPs"}


@checked
def forecast_scores(
    runs: Any,
    tasks: Mapping[str, tuple[Any, str]] | str | Sequence[str],
    at: Any,
    *,
    groups: str | Sequence[str] | None = None,
    level: Annotated[float, Between(0.01, 0.999)] = 0.9,
    chance: Mapping[str, float] | float | None = None,
    questions: Mapping[str, float] | None = None,
    prior: Any = "field",
    seed: Seed = 0,
    **reading: Unpack[ReadingOptions],
) -> Answer:
    """The scores that models not yet made will have on tasks, each with an interval.

    The loss on each task is forecast from the final models, and the score is a law of that loss,
    fitted to final models and checkpoints. A task at chance, and one whose score falls as the loss
    falls, has no forecast and says so. The chapter ``jaxlaw/forecasting/README.md`` has the method
    and its limits.

    Args:
        runs: what :func:`jaxlaw.read_runs` takes or returns: a row a model or checkpoint, with the
            inputs, and a column for each loss and score; scores are shares of 1.
        tasks: task → columns of its loss (bits per byte of the right answers, a cross-entropy) and
            of its score. In place of the first, a list of columns: the one is taken of which there
            is most evidence. Or texts: ``"acc_*:bpb_*"`` for every column ``acc_…`` that has a
            ``bpb_…``, ``"mmlu=acc_mmlu:bpb_a,bpb_b"`` for one task.
        at: points: a dict of numbers or arrays that broadcast, or a table, with N and D, or with C
            alone (FLOPs; 6·N·D of the runs where they have none), in the units of the runs.
        groups: column or columns that name the run of a checkpoint. By default the column ``run``
            (or ``run_id`` …) where several rows share a value of it, which a note says, else every
            row is a run; ``[]``: every row is a run.
        level: share of such intervals that should hold the score of a new run.
        chance: task → score by chance, or one for all; known tasks need none
            (``jaxlaw.forecasting.CHANCE``).
        questions: task → number of its questions: the noise that a share of so many has counts
            where a task is held against chance.
        prior: what is known beforehand of the laws of the loss, as :func:`jaxlaw.forecast` takes
            it.
        seed: seed of the draws.
        **reading: options of :func:`jaxlaw.read_runs`: columns, units, where …

    Returns:
        Answer of tables. ``table``, a row a task and point: ``task``; the inputs, in the units of
        the runs; ``loss``, the forecast of the loss on the task; ``score``; ``low`` and ``high``,
        the interval for a new run; ``chance`` (NaN if unknown); the shares of the variance, of sum
        1, ``from_loss`` (the forecast of the loss), ``from_law`` (how the score follows it) and
        ``from_noise`` (what runs of one loss differ by); ``note``, why there is no forecast, or
        what to know of it. ``mean``, a row a point: ``score``, the mean over the tasks that have a
        forecast, ``low`` and ``high``, from draws in which the tasks' errors go together as they do
        in the runs. ``choices``, where several losses were given for a task: ``task``, ``loss``,
        ``probability`` by the evidence of both steps, ``chosen``.

    Raises:
        UsageError: the call makes no sense; the message says what would.
        DataError: a column is missing, a score is no share of 1, or the runs are too few.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.003).table.iloc[::9]
        >>> runs["acc"] = 0.25 + 0.6 / (1 + np.exp(4 * (runs["loss"] - 2.4)))
        >>> points = {"N": [7e9, 13e9], "D": 4e11}
        >>> found = jl.forecast_scores(runs, {"mmlu": ("loss", "acc")}, at=points)
        >>> found.table.columns[:4].tolist(), len(found.table)
        (['task', 'N', 'D', 'loss'], 2)

    Shell:
        jaxlaw forecast-scores ladder.csv --tasks 'acc_*:bpb_*' --groups run --at N=7e9,D=4e12
    """
    source = read_runs(runs, **reading)
    named = tasks if isinstance(tasks, Mapping) else _tasks_of(tasks, source)
    if not named:
        raise UsageError("tasks is a dict, task to columns: {'mmlu': ('bpb_mmlu', 'acc_mmlu')}")
    for what, by_task in (("chance", chance), ("questions", questions)):
        for task in by_task if isinstance(by_task, Mapping) else ():
            if task not in named:
                message = f"{what} names task {task}; tasks are {listed(list(named))}."
                raise UsageError(message + nearest(task, list(named)), argument=what)
    ladder = Ladder.of(source, groups, at)
    read = {
        task: {loss: ladder.task(task, loss, score, chance, questions) for loss in _listed(losses)}
        for task, (losses, score) in named.items()
    }

    @functools.cache  # tasks that are predicted by one loss share its forecast
    def of_loss(loss: str) -> tuple[Forecast, np.ndarray]:
        """The forecast of a loss, and (G,) losses of the final models by its law."""
        finals = ladder.finals(loss)
        made = forecast(finals, ladder.at, prior=prior, level=level, seed=seed)
        return made, made.posterior.fit.predict(finals.table[list(ladder.at)])

    chains: dict[str, _Chain] = {}
    tried: list[dict[str, Any]] = []
    for task in _progress.parts(list(read), str, "task"):
        good = {loss: seen for loss, seen in read[task].items() if not seen.trouble()}
        best = next(iter(good), None)
        if len(good) > 1:
            shares = special.softmax(
                [_evidence(seen, of_loss(loss)[1], seed) for loss, seen in good.items()]
            )
            best = list(good)[int(np.argmax(shares))]
            tried += [
                {"task": task, "loss": loss, "probability": share, "chosen": loss == best}
                for loss, share in zip(good, shares, strict=True)
            ]
        if best is not None:
            chains[task] = _chain(*of_loss(best), good[best], seed)
    runs_of = {
        task: chains[task].runs if task in chains else next(iter(seen.values()))
        for task, seen in read.items()
    }
    return _answer(ladder, runs_of, chains, tried, level, seed)


# ---------------------------------------------------------------- the table


@dataclass(frozen=True, eq=False)
class Ladder:
    """The runs, and which rows are of one run.

    Attributes:
        runs: as read, with the inputs of the points.
        at: input → its values at the points.
        final: (G,) row of the last checkpoint of each run.
        weight: (n,) what a row counts in the second step.
        notes: which column was taken for the runs' names.
    """

    runs: Runs
    at: dict[str, Any]
    final: np.ndarray
    weight: np.ndarray
    notes: tuple[Note, ...]

    @classmethod
    def of(cls, runs: Runs, groups: Any, at: Any) -> Ladder:
        """The table with the inputs of the points; compute is 6·N·D where it has no column."""
        runs = dataclasses.replace(runs, table=runs.table.reset_index(drop=True))
        points = _points_of(at, runs)
        if "C" in points and "C" not in runs.table:
            runs = dataclasses.replace(runs, table=runs.table.assign(C=_compute(runs)))
        for name in points:
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
        seen = _column(runs, "D" if "D" in runs.table else next(iter(points)))
        order = np.lexsort([np.arange(len(seen)), seen])
        final = np.zeros(members.max() + 1, int)
        final[members[order]] = order  # the last write is that of the largest
        weight = (seen / seen[final][members]) ** LATE
        weight = np.where(weight >= _LEAST_WEIGHT, weight, 0.0)
        # Checkpoints of a run share its error: m of them are 1/(1/m + ρ) runs or so.
        whole, squares = np.bincount(members, weight), np.bincount(members, weight**2)
        weight = weight / (whole * (squares / whole**2 * (1 - SHARED) + SHARED))[members]
        weight = weight if runs.weight is None else weight * runs.weight
        return cls(runs, points, final, weight, notes)

    def task(
        self, task: str, loss: str, score: str, chance: Any, questions: Mapping[str, float] | None
    ) -> TaskRuns:
        """Losses and scores of a task."""
        x, y = _column(self.runs, loss), _column(self.runs, score)
        column = _name(self.runs, score, "tasks")
        bad = (y < 0) | (y > 1)
        refuse_rows(self.runs, column, bad, "scores are shares of 1; divide percent by 100")
        refuse_rows(self.runs, _name(self.runs, loss, "tasks"), x <= 0, "a loss is positive")
        known = chance.get(task) if isinstance(chance, Mapping) else chance
        known = chance_of(task) if known is None else float(known)
        count = float((questions or {}).get(task, np.nan))
        return TaskRuns(task, x, y, self.weight, self.final, known, count)

    def finals(self, loss: str) -> Runs:
        """The final models, as runs whose target is a loss."""
        column = _name(self.runs, loss, "tasks")
        frame = self.runs.table.loc[self.final, [*self.at, column]].reset_index(drop=True)
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
        if "*" not in score:
            found[name or score] = (losses.split(","), score)
            continue
        pattern = re.compile(re.escape(score).replace(r"\*", f"{_METRIC_GOES_ON}(.+)", 1))
        for column in columns:
            if match := pattern.fullmatch(column):
                # Not every task has a loss of its own; one without a star is for all.
                own = [
                    loss.replace("*", match[1])
                    for loss in losses.split(",")
                    if "*" not in loss or loss.replace("*", match[1]) in columns
                ]
                found |= {match[1]: (own, column)} if own else {}
    if not found:
        wanted = f"no two columns fit {' or '.join(_listed(texts))}, a score and the loss of a task"
        message = f"{runs.source}: {wanted}; columns: {listed(columns)}"
        raise UsageError(message, argument="tasks")
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
    for inputs in (("N", "D"), ("C",)):
        if set(inputs) == set(points):
            numbers = {
                name: in_unit(points[name], runs.units.get(name, 1.0), _COUNTED[name])
                for name in inputs
            }
            return {name: numbers_of(f"at: {name}", value) for name, value in numbers.items()}
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
class TaskRuns:
    """Losses and scores of one task.

    Attributes:
        task: its name.
        loss, score: (n,) of every checkpoint.
        weight: (n,) what it counts.
        final: (G,) row of the last checkpoint of each run.
        chance: score by chance; NaN if unknown.
        questions: how many the task has; NaN if unknown.
    """

    task: str
    loss: np.ndarray
    score: np.ndarray
    weight: np.ndarray
    final: np.ndarray
    chance: float
    questions: float

    def item_variance(self) -> float:
        """Variance of the score by chance by the number of questions alone; 0 if unknown."""
        return float(np.nan_to_num(self.chance * (1 - self.chance) / self.questions))

    def trouble(self) -> str:
        """Why there can be no forecast of this task, in words; empty where there can."""
        loss, score = self.loss[self.final], self.score[self.final]
        if len(loss) >= 3 and np.ptp(loss) > 0 and np.ptp(score) > 0:
            found = stats.spearmanr(loss, score, alternative="greater")
            if found.pvalue < 0.01 or found.statistic > 0.999:
                return "broken: the score falls as the loss falls; no forecast"
        # The questions are the same for all runs: their noise does not average out.
        best = score[np.argsort(loss)[: max(3, len(loss) // 3)]]
        error = best.var(ddof=1) / len(best) if len(best) > 1 else 0.0
        error = np.sqrt(error + self.item_variance())
        # Nothing is below a chance that is unknown.
        return "no run is above chance; no forecast" * bool(best.mean() < self.chance + 2 * error)

    @property
    def floor(self) -> tuple[float, float]:
        """Where the floor of the law is, and its standard deviation."""
        if np.isfinite(self.chance):
            return self.chance, _OFF_CHANCE
        lowest = self.score[self.final].min()
        return lowest / 2, lowest / 3 + 1e-3

    def below_chance(self) -> int:
        """How many runs are further below chance than three errors of a score."""
        error = np.sqrt(_USUAL_NOISE**2 + self.item_variance())
        return int(np.sum(self.score[self.final] < self.chance - 3 * error))

    def has_trend(self) -> bool:
        """Whether the score follows the loss at all, by the ranks of the final models."""
        loss, score = self.loss[self.final], self.score[self.final]
        if len(loss) < 4:
            return True  # too few to say
        return bool(stats.spearmanr(loss, score, alternative="less").pvalue < 0.05)

    def doubt(self, width: float) -> str:
        """What to know of a forecast whose interval is so wide, in words; empty of most."""
        if not self.has_trend():
            return NO_TREND
        room = 1.0 - (self.chance if np.isfinite(self.chance) else 0.0)
        return WIDE_SCORE if width > _WIDE * room else ""


def _by_loss(task_loss: Any, guess: Any, spread: Any, **p: Any) -> Any:
    """The score, from coordinates of about the same size for every task."""
    floor = guess + spread * p["off"]
    risen = jax.nn.sigmoid(-p["steep"] * jnp.log(task_loss / p["middle"]))
    return floor + (1.0 - floor) / (1.0 + p["lapse"]) * risen


# The log odds of a score between floor and ceiling are linear in the log of the loss, here that
# over the best run's. What few runs leave open has weak priors: the floor is about chance, or below
# the lowest score where that is unknown; the ceiling is near 1 until runs show it, for a fitted one
# lies just above the best run; and the rise has no cliff.
_LAW = dataclasses.replace(
    laws.get("sigmoid"),
    name="score-of-loss",
    function=_by_loss,
    inputs=(
        Input("task_loss", "loss over that of the best run", domain="positive"),
        Input("guess", "score by chance"),
        Input("spread", "standard deviation of the floor about it"),
    ),
    parameters=tuple(
        dataclasses.replace(spec, name=name)
        for name, spec in {
            "off": real(-(3**0.5), 3**0.5),
            "lapse": positive(0.003, 0.3),
            "steep": positive(1.5, 16.0),
            "middle": positive(0.4, 1.6),
        }.items()
    ),
)


@dataclass(frozen=True, eq=False)
class _Chain:
    """Both steps of a task.

    Attributes:
        runs: losses and scores.
        forecast: of its loss.
        params: parameter of the law, and misfit → (R,) draws.
        noise: (R,) scale of a run's final score around it, of t_5.
        loss_errors, score_errors: (G,) of the final models, of the log loss and of the score.
    """

    runs: TaskRuns
    forecast: Forecast
    params: dict[str, np.ndarray]
    noise: np.ndarray
    loss_errors: np.ndarray
    score_errors: np.ndarray

    def law(self, loss: Any, params: Mapping[str, Any] | None = None) -> np.ndarray:
        """Scores at losses, by the draws unless by other parameters."""
        p = self.params if params is None else params
        logs = np.log(loss / self.runs.loss[self.runs.weight > 0].min())
        risen = p["steep"] * (np.log(p["middle"]) - logs) + p["misfit"] * np.maximum(-logs, 0.0)
        return p["floor"] + (1.0 - p["floor"]) / (1.0 + p["lapse"]) * special.expit(risen)

    def draws(self, k: int, of_loss: np.ndarray, of_run: np.ndarray) -> dict[str, np.ndarray]:
        """(S,) draws of the score at point k, and of the parts that it is made of.

        What a task's loss differs by from run to run is in both steps where the score does not
        follow it: such a run has a score that is too high for its loss, and the two errors cancel.

        Args:
            k: number of the point.
            of_loss, of_run: (S,) normal draws of the error of the loss and of a run's score.
        """
        point = self.forecast.table.iloc[k]
        logs = np.log(self.forecast.quantiles[:, k])
        losses = np.exp(np.interp(of_loss, stats.norm.ppf(LEVELS), logs))
        params = {name: np.tile(values, _REPEATS) for name, values in self.params.items()}
        # Of the loss's error the noise of a run is a part, and that alone goes with the score's.
        share = _correlation(np.array([self.loss_errors, self.score_errors]))[0, 1]
        share *= np.sqrt(point["from_noise"])
        of_run = stats.norm.cdf(share * of_loss + np.sqrt(1.0 - share**2) * of_run)
        noise = np.tile(self.noise, _REPEATS) * stats.t.ppf(of_run, NU)
        return {
            "score": np.clip(self.law(losses, params) + noise, 0.0, 1.0),
            "from_loss": self.law(losses, {n: np.median(v) for n, v in self.params.items()}),
            "from_law": np.tile(self.law(point["estimate"]), _REPEATS),
            "from_noise": noise,
        }


def _posterior(runs: TaskRuns, loss: np.ndarray, weight: np.ndarray, seed: int) -> Draws:
    """Draws of the law of a task's score, in its own coordinates."""
    guess, spread = runs.floor
    table = {"task_loss": loss / loss[weight > 0].min(), "guess": guess, "spread": spread}
    table = pd.DataFrame(table | {_LAW.target: runs.score})[runs.weight > 0]
    seen = read_runs(table, name=runs.task).observations(_LAW, free=())
    return posteriors(_LAW, seen, weight[None, runs.weight > 0], prior=None, seed=seed)[0]


def _evidence(runs: TaskRuns, by_law: np.ndarray, seed: int) -> float:
    """Log probability density of the scores, given (G,) losses by their law: of both steps."""
    loss, final = runs.loss.copy(), np.zeros(len(runs.loss))
    loss[runs.final], final[runs.final] = by_law, 1.0
    return float(_posterior(runs, loss, final, seed).log_evidence)


def _chain(known: Forecast, by_law: np.ndarray, runs: TaskRuns, seed: int) -> _Chain:
    """Both steps of a task, from the forecast of its loss, and (G,) losses by the law of that."""
    found = _posterior(runs, runs.loss, runs.weight, seed)
    params = dict(found.params)
    guess, spread = runs.floor
    params["floor"] = guess + spread * params["off"]
    random = np.random.default_rng([seed, 3])  # the same misfit for all tasks
    params["misfit"] = _MISFIT * random.standard_t(NU, len(params["off"]))
    noise = found.sigma * np.median(np.abs(runs.score[runs.weight > 0]))
    observed, score = runs.loss[runs.final], runs.score[runs.final]
    errors = np.log(observed / by_law)
    chain = _Chain(runs, known, params, noise, errors, score)
    middle = np.median(chain.law(observed[:, None]), axis=1)
    return dataclasses.replace(chain, score_errors=score - middle)


# ---------------------------------------------------------------- all tasks


def _answer(
    ladder: Ladder, read: Mapping[str, TaskRuns], chains: Mapping[str, _Chain],
    tried: list[dict[str, Any]], level: float, seed: int,
) -> Answer:  # fmt: skip
    low, high = 50 - 50 * level, 50 + 50 * level
    points = np.broadcast_arrays(*ladder.at.values())
    points = pd.DataFrame({n: np.ravel(x) for n, x in zip(ladder.at, points, strict=True)})
    draws = [_draws(chains, k, seed) for k in points.index]
    parts, curves, finals = {}, [], []
    for task, runs in read.items():
        rows = points.assign(
            **dict.fromkeys(("loss", "score", "low", "high"), np.nan), chance=runs.chance,
            **dict.fromkeys(SHARES, np.nan), note=runs.trouble(),
        )  # fmt: skip
        seen = {"task": task, "loss": runs.loss[runs.final], "score": runs.score[runs.final]}
        finals.append(pd.DataFrame(seen))
        if task in chains:
            chain = chains[task]
            score, *shares = np.array([list(one[task].values()) for one in draws]).swapaxes(0, 1)
            rows["loss"] = chain.forecast.table["estimate"]
            rows[["low", "score", "high"]] = np.percentile(score, (low, 50, high), axis=1).T
            shares = np.var(shares, axis=2)
            rows[[*SHARES]] = (shares / shares.sum(axis=0)).T
            rows["note"] = [runs.doubt(width) for width in rows["high"] - rows["low"]]
            # The law with its band, from the runs' highest loss to the lowest forecast.
            highest = runs.loss[runs.weight > 0].max()
            loss = np.geomspace(highest, chain.forecast.quantiles.min(), 40)
            noise = chain.noise * np.random.default_rng(seed).standard_t(NU, len(chain.noise))
            each = np.clip(chain.law(loss[:, None]) + noise, 0.0, 1.0)
            band = zip(
                ("score_low", "score", "score_high"),
                np.percentile(each, (low, 50, high), axis=1), strict=True,
            )  # fmt: skip
            curves.append(pd.DataFrame({"task": task, "loss": loss, **dict(band)}))
        parts[task] = rows
    frame = pd.concat(parts, names=["task"]).reset_index("task").reset_index(drop=True)
    mean = frame.groupby(frame.index % len(points))["score"].mean()
    mean = points.assign(score=mean, low=np.nan, high=np.nan)
    units = {name: (_COUNTED[name], ladder.runs.units.get(name, 1.0)) for name in ladder.at}
    sentence = "no task has a forecast"
    if chains:
        scores = [np.mean([parts["score"] for parts in one.values()], axis=0) for one in draws]
        mean[["low", "high"]] = np.percentile(scores, (low, high), axis=1).T
        row, tasks = mean.iloc[-1], list(chains)
        where = [f"{name} {written(row[name], *unit)}" for name, unit in units.items()]
        of = tasks[0] if len(tasks) == 1 else f"mean of {len(tasks)} tasks"
        sentence = (
            f"{', '.join(where)}: {of} {row['score']:.3f} ({100 * level:g} %: {row['low']:.3f} to "
            f"{row['high']:.3f})"
        )
    tables = {"table": frame, "mean": mean, "choices": pd.DataFrame(tried)}
    return Answer(
        kind="score forecast",
        sentence=sentence,
        tables={name: table for name, table in tables.items() if len(table)},
        units=dict.fromkeys(("loss", "score", "low", "high", "chance", "probability"), ("", 1.0))
        | dict.fromkeys(SHARES, (SHARE, 1.0)) | units,
        level=level,
        notes=(*ladder.notes, *_notes(frame, read, chains)),
        curves={"finals": pd.concat(finals), **({"laws": pd.concat(curves)} if curves else {})},
    )  # fmt: skip


def _draws(chains: Mapping[str, _Chain], k: int, seed: int) -> dict[str, dict[str, np.ndarray]]:
    """Task → part → (S,) draws at point k; draw s of all tasks is of one model."""
    if not chains:
        return {}
    random, every = np.random.default_rng(seed), list(chains.values())
    # What laws of losses miss beyond the runs is the same draw for all; the rest comes of noise.
    common = np.array([chain.forecast.table["from_misfit"].iloc[k] for chain in every])
    together = _correlation(np.array([chain.loss_errors for chain in every]))
    together *= np.sqrt(np.outer(1 - common, 1 - common))
    of_losses = _normal(random, together + np.sqrt(np.outer(common, common)))
    of_runs = _normal(random, _correlation(np.array([chain.score_errors for chain in every])))
    return {
        task: chain.draws(k, of_losses[:, t], of_runs[:, t])
        for t, (task, chain) in enumerate(chains.items())
    }


def _correlation(errors: np.ndarray) -> np.ndarray:
    """(T, T) correlation of tasks' errors (T, n) about 0, drawn towards none where they are few."""
    size = np.sqrt((errors**2).mean(axis=1, keepdims=True))
    scaled = errors / np.where(size > 0, size, 1.0)
    found = scaled @ scaled.T / (errors.shape[1] + _TOGETHER)
    np.fill_diagonal(found, 1.0)
    return found


def _normal(random: np.random.Generator, correlation: np.ndarray) -> np.ndarray:
    """(S, T) normal draws, each task's evenly spread: their ranks alone are drawn."""
    count = 1000 * _REPEATS
    drawn = random.standard_normal((count, len(correlation))) @ np.linalg.cholesky(correlation).T
    return stats.norm.ppf((drawn.argsort(axis=0).argsort(axis=0) + 0.5) / count)


def _notes(
    table: pd.DataFrame, read: Mapping[str, TaskRuns], chains: Mapping[str, _Chain]
) -> list[Note]:
    """What is to be known of the tasks, by what the table says of them, then of their losses."""
    below = [
        f"{task} ({count} of {len(runs.final)} runs below {runs.chance:.3g})"
        for task, runs in read.items()
        if (count := runs.below_chance())
    ]
    message = f"{', '.join(below)}: check the score by chance, and give the right one in chance="
    notes = [Note("below-chance", "warning", message, inherited=False)] * bool(below)
    of_rows = {NO_TREND: "no-trend", WIDE_SCORE: "wide-score"}
    for text, rows in table[table["note"] != ""].groupby("note", sort=False)["task"]:
        code, message = of_rows.get(text, "no-forecast"), f"{', '.join(rows.unique())}: {text}"
        notes.append(Note(code, "warning", message, inherited=False))
    of_losses: dict[str, list[tuple[str, Note]]] = {}
    for task, chain in chains.items():
        for note in chain.forecast.notes:
            of_losses.setdefault(note.code, []).append((task, note))
    for found in of_losses.values():
        names, note = ", ".join(dict.fromkeys(task for task, _ in found)), found[0][1]
        notes.append(dataclasses.replace(note, message=f"loss of {names}: {note.message}"))
    return notes


# ---------------------------------------------------------------- compute


@checked
def compute_for_score(
    runs: Any,
    tasks: Any,
    score: Mapping[str, float] | float,
    *,
    ratio: Annotated[float, Between(1e-3, 1e6)] = 20.0,
    beyond: Annotated[float, Between(1.0, 1e6)] = 1e3,
    level: Annotated[float, Between(0.01, 0.999)] = 0.9,
    **options: Any,
) -> Answer:
    """The compute at which models of one ratio of tokens to parameters reach a score.

    Args:
        runs, tasks: as :func:`jaxlaw.forecast_scores` takes them, with N and D.
        score: score to reach, a share of 1, or task → score.
        ratio: tokens a parameter.
        beyond: how many times the compute of the largest run is looked at.
        level: share of new runs between the two limits.
        **options: options of :func:`jaxlaw.forecast_scores`: ``groups``, ``columns`` …

    Returns:
        Answer whose ``table`` has a row a task: ``task``; the ``score`` to reach; ``compute``
        (FLOPs) at which every second new run reaches it; ``compute_low`` and ``compute_high``, at
        which (1 − level)/2 and (1 + level)/2 of them do; infinite where that is beyond what was
        looked at. Facts: ``ratio``, and ``largest``, the compute of the largest run in FLOPs.

    Raises:
        UsageError, DataError: as :func:`jaxlaw.forecast_scores` raises; a task has no score.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.003).table.iloc[::9]
        >>> runs["acc"] = 0.25 + 0.6 / (1 + np.exp(4 * (runs["loss"] - 2.4)))
        >>> found = jl.forecasting.compute_for_score(
        ...     runs, {"mmlu": ("loss", "acc")}, 0.6
        ... )
        >>> row = found.table.iloc[0]
        >>> bool(row["compute_low"] < row["compute"] < row["compute_high"])
        True

    Shell:
        jaxlaw compute-for-score ladder.csv --tasks 'acc_*:bpb_*' --score 0.6
    """
    reading = {k: options.pop(k) for k in list(options) if k in ("columns", "units", "where")}
    read = read_runs(runs, **reading)
    compute = _compute(read)
    grid = np.geomspace(np.median(compute), beyond * compute.max(), _POINTS)
    N = np.sqrt(grid / 6 / ratio)
    at = {"N": N / read.units.get("N", 1.0), "D": ratio * N / read.units.get("D", 1.0)}
    found = forecast_scores(read, tasks, at, level=level, **options)
    looked = found.table.assign(compute=np.tile(grid, len(found.table) // _POINTS))
    looked = looked.loc[looked["score"].notna(), ["task", "compute", "score", "low", "high"]]
    rows, sentence = [], "no score is reached by what was looked at"
    for task, curve in looked.groupby("task", sort=False):
        goal = score.get(task) if isinstance(score, Mapping) else score
        if goal is None:
            raise UsageError(f"score says nothing of task {task}: score={{'{task}': 0.5}}")
        # What few runs reach already is the lower limit of the compute, and the other way round.
        at, first, last = (
            _first(grid, curve[column].to_numpy(), goal) for column in ("score", "high", "low")
        )
        if np.isfinite(at) and not np.isfinite([row["compute"] for row in rows]).any():
            between = written_range(first, last, "FLOPs")
            sentence = (
                f"{task} {goal:g} at {written(at, 'FLOPs')} ({100 * level:g} %: {between}), "
                f"{ratio:.3g} tokens a parameter"
            )
        columns = {"compute": at, "compute_low": first, "compute_high": last}
        rows.append({"task": task, "score": goal, **columns})
    return Answer(
        kind="score compute",
        sentence=sentence,
        tables={"table": pd.DataFrame(rows)},
        units={"score": ("", 1.0), "compute": ("FLOPs", 1.0)},
        facts={"ratio": ratio, "largest": float(compute.max())},
        level=level,
        notes=found.notes,
        curves={"scores": looked.reset_index(drop=True)},
    )


def _compute(runs: Runs) -> np.ndarray:
    """Compute 6·N·D of the runs in FLOPs."""
    size, tokens = (_column(runs, name) * runs.units.get(name, 1.0) for name in ("N", "D"))
    return 6.0 * size * tokens


def _first(compute: np.ndarray, scores: np.ndarray, goal: float) -> float:
    """The compute at which scores (k,) first reach a goal; infinite where they do not."""
    reached = np.maximum.accumulate(scores)
    return float(np.exp(np.interp(goal, reached, np.log(compute), right=np.inf)))
