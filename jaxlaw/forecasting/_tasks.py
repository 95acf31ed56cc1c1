"""From runs to the task scores of larger models: two posteriors joined, and a mean over tasks.

For each task the loss on it is forecast (:func:`jaxlaw.forecast`), and its score is a sigmoid of
that loss, of which there are draws, too (:func:`jaxlaw.forecasting.posteriors`). A draw of the
score is a draw of that law at a draw of the loss, and run-to-run noise. The noise of tasks goes
together as it does in the runs, so that a mean over tasks has an interval.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Unpack

import jax.numpy as jnp
import numpy as np
import pandas as pd
import scipy  # scipy.stats takes long to import, and scipy imports it where it is used

from jaxlaw import _progress, laws
from jaxlaw._answer import Answer
from jaxlaw._quantities import SHARE, written
from jaxlaw._typed import Between, Seed, checked
from jaxlaw.data import ReadingOptions, Runs, numbers, read_runs, refuse_rows
from jaxlaw.data._dependence import run_groups
from jaxlaw.errors import UsageError, listed, nearest
from jaxlaw.forecasting._forecast import Forecast, forecast
from jaxlaw.forecasting._question import LEVELS, ask, named_column
from jaxlaw.forecasting.posterior import NU, SHARED, posteriors
from jaxlaw.laws import Input, positive, real
from jaxlaw.notes import COLUMNS_TAKEN, Note

#: Scores of guesses at random: one over the number of answers that the task offers, as in
#: lm-evaluation-harness. Full names of tasks, only letters and digits.
CHANCE = {
    task: chance
    for chance, tasks in {
        0.1: "mmlupro",
        0.2: "csqa commonsenseqa",
        0.25: "mmlu mmlustem mmluhumanities mmlusocialsciences mmluother hellaswag arcchallenge "
        "arceasy arcc arce openbookqa obqa sciq race logiqa gpqa gpqadiamond gpqamain gpqaextended",
        1 / 3: "socialiqa siqa",
        0.5: "piqa winogrande boolq copa wic",
    }.items()
    for task in tasks.split()
}
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
_REPEATS = 4  # draws of losses and noise for each of the law
_TOGETHER = 8.0  # runs that no correlation among tasks counts as


@checked
def forecast_scores(
    runs: Any,
    tasks: Mapping[str, tuple[str, str]] | str | Sequence[str],
    at: Any,
    *,
    groups: str | Sequence[str] | None = None,
    level: Annotated[float, Between(0.01, 0.999)] = 0.9,
    chance: Mapping[str, float] | float | None = None,
    prior: Any = "field",
    seed: Seed = 0,
    **reading: Unpack[ReadingOptions],
) -> Answer:
    """Forecast the task scores of larger models, each with an interval.

    The loss on each task is forecast from the final models, and the score is a law of that loss,
    fitted to final models and checkpoints. A task at chance, and one whose score falls as the loss
    falls, has no forecast and says so. The chapter ``jaxlaw/forecasting/README.md`` has the method
    and its limits.

    Args:
        runs: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns: a row a model or checkpoint, with N and D, or else C,
            and a column for each loss and score; scores are fractions of 1.
        tasks: task → columns of its loss (bits per byte of the right answers, a cross-entropy) and
            of its score. Or texts ``"score:loss"``: ``"acc_*:bpb_*"`` for every column ``acc_…``
            that has a ``bpb_…``, ``"acc_*:loss_c4"`` for all by one loss.
        at: points, as :func:`jaxlaw.forecast` takes them: N and D, or C of runs without these.
        groups: column or columns that name the run of a checkpoint. By default the column ``run``
            (or ``run_id`` …) where several rows share a value of it, which a note says, else every
            row is a run; ``[]``: every row is a run.
        level: nominal coverage of the intervals for a new run's score.
        chance: task → score by chance, or one for all; known tasks need none
            (``jaxlaw.forecasting.CHANCE``).
        prior: the prior of the laws of the loss, as :func:`jaxlaw.forecast` takes it.
        seed: seed of the draws.
        **reading: options of :func:`jaxlaw.read_runs`: columns, units, where …

    Returns:
        Answer of tables. ``table``, a row a task and point: ``task``; the inputs, in the units of
        the runs; ``loss``, the forecast of the loss on the task; ``score``; ``low`` and ``high``,
        the interval for a new run; ``chance`` (NaN if unknown); fractions of the variance, of sum
        1, ``from_loss`` (the forecast of the loss), ``from_law`` (how the score follows it) and
        ``from_noise`` (what runs of one loss differ by); ``note``, why there is no forecast, or
        that the score hardly follows the loss. ``mean``, a row a point: ``score``, the mean over
        the tasks that have a forecast, ``low`` and ``high``, from draws in which the tasks' errors
        go together as they do in the runs.

    Raises:
        UsageError: the call makes no sense; the message says what would.
        DataError: a column is missing, a score is not between 0 and 1, or the runs are too few.

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
    for task in chance if isinstance(chance, Mapping) else ():
        if task not in named:
            message = f"chance names task {task}; tasks are {listed(list(named))}."
            raise UsageError(message + nearest(task, list(named)))
    inputs = ["N", "D"] if {"N", "D"} <= {*source.table} else ["C"]
    final, weight, notes = _ladder(source, inputs[-1], groups)
    left, read = "or leave the row out (where=)", {}
    for task, (loss, score) in named.items():
        x = _column(source, loss, 1e-12, np.inf, f"a loss is a positive number, {left}")
        y = _column(source, score, 0, 1, f"scores are from 0 to 1: divide percent by 100, {left}")
        known = chance.get(task) if isinstance(chance, Mapping) else chance
        known = chance_of(task) if known is None else float(known)
        read[task] = TaskRuns(task, x, y, weight, final, known)

    def finals(loss: str) -> Runs:
        """The final models, as runs whose target is a loss."""
        column = named_column(source, loss, "tasks")
        few = dataclasses.replace(
            source, table=source.table.iloc[final][[*inputs, column]], corpus=None, reading=None,
            weight=None if source.weight is None else source.weight[final],
        )  # fmt: skip
        return read_runs(few, target=column)

    asked = ask(finals(next(iter(named.values()))[0]), None, None, {})
    points = pd.DataFrame(asked.points(at))

    @functools.cache  # tasks that are predicted by one loss share its forecast
    def of_loss(loss: str) -> tuple[Forecast, np.ndarray]:
        """The forecast of a loss, and (G,) losses of the final models by its law."""
        runs = finals(loss)
        made = forecast(runs, points, prior=prior, level=level, seed=seed)
        return made, made.posterior.fit.predict(runs.table[inputs])

    chains = {
        task: _Chain.of(read[task], *of_loss(named[task][0]), seed)
        for task in _progress.parts(list(read), str, "task")
        if not read[task].trouble()
    }

    limits, sentence = (50, 50 - 50 * level, 50 + 50 * level), "no task has a forecast"
    mean = points.assign(score=np.nan, low=np.nan, high=np.nan)
    parts, units = {}, asked.fit.input_units()
    for task, runs in read.items():
        parts[task] = points.assign(
            **dict.fromkeys(("loss", "score", "low", "high"), np.nan),
            chance=runs.chance,
            **dict.fromkeys(SHARES, np.nan),
            note=runs.trouble() or runs.doubt(),
        )
        parts[task].insert(0, "task", task)
    if chains:
        # Tasks, points, the score and its three parts, draws.
        draws = np.stack([_draws([*chains.values()], k, seed) for k in points.index], axis=1)
        for drawn, (task, chain) in zip(draws, chains.items(), strict=True):
            shares = drawn[:, 1:].var(axis=2)
            parts[task]["loss"] = chain.forecast.table["estimate"]
            parts[task][["score", "low", "high"]] = np.percentile(drawn[:, 0], limits, axis=1).T
            parts[task][[*SHARES]] = shares / shares.sum(axis=1, keepdims=True)
        of_mean = np.percentile(draws[:, :, 0].mean(axis=0), limits, axis=1)
        mean[["score", "low", "high"]] = of_mean.T
        mean["score"] = sum(parts[task]["score"] for task in chains) / len(chains)
        row, count = mean.iloc[-1], len(chains)
        where = [f"{name} {written(row[name], *units[name])}" for name in points]
        of = next(iter(chains)) if count == 1 else f"mean of {count} tasks"
        without = f"; {len(read) - count} without a forecast" if count < len(read) else ""
        sentence = (
            f"{', '.join(where)}: {of} {row['score']:.3f} ({100 * level:g}%: {row['low']:.3f} to "
            f"{row['high']:.3f}){without}"
        )
    plain = ("loss", "score", "low", "high", "chance")
    return Answer(
        kind="score forecast",
        sentence=sentence,
        tables={"table": pd.concat(parts.values(), ignore_index=True), "mean": mean},
        units=dict.fromkeys(plain, ("", 1.0)) | dict.fromkeys(SHARES, (SHARE, 1.0)) | units,
        level=level,
        notes=(*notes, *_notes(read, chains)),
    )


# ---------------------------------------------------------------- the table


def _ladder(runs: Runs, along: str, groups: Any) -> tuple[np.ndarray, np.ndarray, tuple[Note, ...]]:
    """(G,) row of the last checkpoint of each run, and (n,) what a row counts in the second step.

    Args:
        runs: the rows.
        along: the column that is largest in the last checkpoint.
        groups: columns that name the run of a row; None for the one that is called so.

    Returns:
        Both, and a note on the column that was taken.
    """
    members, notes = np.arange(len(runs)), ()
    if groups is None and (named := run_groups(runs.table, {}, runs.columns)):
        groups = named.columns
        message = (
            f"{len(runs)} rows are checkpoints of {named.count} runs by column {groups[0]}; "
            "groups= names another"
        )
        notes = (Note(COLUMNS_TAKEN, "info", message, inherited=False),)
    if groups:
        frame = runs.table[[named_column(runs, name, "groups") for name in _listed(groups)]]
        members = frame.groupby(list(frame), sort=False, dropna=False).ngroup().to_numpy()
    size = _column(runs, along, 1e-12, np.inf, "give a positive number")
    order = np.argsort(size, kind="stable")
    final = np.zeros(members.max() + 1, int)
    final[members[order]] = order  # the last write is that of the largest
    weight = (size / size[final][members]) ** LATE
    weight = np.where(weight >= _LEAST_WEIGHT, weight, 0.0)
    # Checkpoints of a run share its error: m of them are 1/(1/m + ρ) runs or so.
    whole, squares = np.bincount(members, weight), np.bincount(members, weight**2)
    weight = weight / (whole * (squares / whole**2 * (1 - SHARED) + SHARED))[members]
    return final, weight if runs.weight is None else weight * runs.weight, notes


def _column(runs: Runs, column: str, low: float, high: float, remedy: str) -> np.ndarray:
    name = named_column(runs, column, "tasks")
    values = numbers(runs.table[name], runs.location(name))
    refuse_rows(runs, name, ~((low <= values) & (values <= high)), remedy)
    return values


def _tasks_of(texts: str | Sequence[str], runs: Runs) -> dict[str, tuple[str, str]]:
    """Tasks of texts such as ``acc_*:bpb_*``: what a star stands for is the task's name."""
    columns = [str(runs.user_name(name)) for name in runs.table]
    found: dict[str, tuple[str, str]] = {}
    for text in _listed(texts):
        score, _, loss = text.partition(":")
        pattern = re.compile(re.escape(score).replace(r"\*", f"{_METRIC_GOES_ON}(.+)", 1))
        for match in filter(None, map(pattern.fullmatch, columns)):
            task = match[pattern.groups]  # the whole column where there is no star
            own = loss.replace("*", task)
            if own in columns or "*" not in loss:  # not every task has a loss of its own
                found[task] = own, match[0]
    if not found:
        raise UsageError(
            f"{runs.source}: no columns are called {' or '.join(_listed(texts))}, which are a "
            f"score and a loss, as in 'acc_*:bpb_*'; columns: {listed(columns)}",
        )
    return found


def _listed(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


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
    """

    task: str
    loss: np.ndarray
    score: np.ndarray
    weight: np.ndarray
    final: np.ndarray
    chance: float

    def trouble(self) -> str:
        """Why there can be no forecast of this task, in words; empty where there can."""
        loss, score = self.loss[self.final], self.score[self.final]
        if len(loss) >= 3 and np.ptp(loss) > 0 and np.ptp(score) > 0:
            found = scipy.stats.spearmanr(loss, score, alternative="greater")
            if found.pvalue < 0.01 or found.statistic > 0.999:
                return "broken: the score falls as the loss falls; no forecast"
        best = score[np.argsort(loss)[: max(3, len(loss) // 3)]]
        error = np.sqrt(best.var(ddof=1) / len(best)) if len(best) > 1 else 0.0
        # Nothing is below a chance that is unknown.
        return "no run is above chance; no forecast" * bool(best.mean() < self.chance + 2 * error)

    def doubt(self) -> str:
        """Whether the score follows the loss at all, by the ranks of the final models, in words."""
        loss, score = self.loss[self.final], self.score[self.final]
        if len(loss) < 4 or scipy.stats.spearmanr(loss, score, alternative="less").pvalue < 0.05:
            return ""  # of fewer it is too early to say
        return "the score hardly follows the loss; its interval is mostly noise"

    @property
    def floor(self) -> tuple[float, float]:
        """Where the floor of the law is, and its standard deviation."""
        if np.isfinite(self.chance):
            return self.chance, _OFF_CHANCE
        lowest = self.score[self.final].min()
        return lowest / 2, lowest / 3 + 1e-3

    @property
    def best(self) -> float:
        """The lowest loss of those that count, which losses are over in the law."""
        return float(self.loss[self.weight > 0].min())

    def law(self, loss: Any, params: Mapping[str, Any]) -> np.ndarray:
        """Scores at losses."""
        return _by_loss(loss / self.best, *self.floor, xp=np, **params)


def _by_loss(
    task_loss: Any, guess: Any, spread: Any, *, misfit: Any = 0.0, xp: Any = jnp, **p: Any
) -> Any:
    """The score, from coordinates of about the same size for every task."""
    floor = guess + spread * p["off"]
    odds = -p["steep"] * xp.log(task_loss / p["middle"])
    odds = odds + misfit * xp.maximum(-xp.log(task_loss), 0.0)
    return floor + (1.0 - floor) / (1.0 + p["lapse"]) * xp.exp(-xp.logaddexp(0.0, -odds))


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

    @classmethod
    def of(cls, runs: TaskRuns, known: Forecast, by_law: np.ndarray, seed: int) -> _Chain:
        """Of the forecast of a task's loss, and (G,) losses of its runs by the law of that."""
        counts, (guess, spread) = runs.weight > 0, runs.floor
        table = {"task_loss": runs.loss / runs.best, "guess": guess, "spread": spread}
        table = pd.DataFrame(table | {_LAW.target: runs.score})[counts]
        seen = read_runs(table, name=runs.task).observations(_LAW, free=())
        weight = runs.weight[None, counts]
        found = posteriors(_LAW, seen, weight, prior=None, seed=seed)[0]
        random = np.random.default_rng([seed, 3])  # the same misfit for all tasks
        misfit = _MISFIT * random.standard_t(NU, len(found.sigma))
        params = {**found.params, "misfit": misfit}
        loss, score = runs.loss[runs.final], runs.score[runs.final]
        return cls(
            runs, known, params, found.sigma * np.median(np.abs(runs.score[counts])),
            np.log(loss / by_law), score - np.median(runs.law(loss[:, None], params), axis=1),
        )  # fmt: skip

    def draws(self, k: int, of_loss: np.ndarray, of_run: np.ndarray) -> np.ndarray:
        """(4, S) draws of the score at point k, and of the parts :data:`SHARES` that make it.

        What a task's loss differs by from run to run is in both steps where the score does not
        follow it: such a run has a score that is too high for its loss, and the two errors cancel.

        Args:
            k: number of the point.
            of_loss, of_run: (S,) normal draws of the error of the loss and of a run's score.
        """
        point = self.forecast.table.iloc[k]
        logs = np.log(self.forecast.quantiles[:, k])
        losses = np.exp(np.interp(of_loss, scipy.special.ndtri(LEVELS), logs))
        params = {name: np.tile(values, _REPEATS) for name, values in self.params.items()}
        # Of the loss's error run-to-run noise is a part, and that alone goes with the score's.
        share = _correlation(np.array([self.loss_errors, self.score_errors]))[0, 1]
        share *= np.sqrt(point["from_noise"])
        of_run = scipy.special.ndtr(share * of_loss + np.sqrt(1.0 - share**2) * of_run)
        noise = np.tile(self.noise, _REPEATS) * scipy.special.stdtrit(NU, of_run)
        law, middle = self.runs.law, {n: np.median(v) for n, v in self.params.items()}
        return np.stack([
            np.clip(law(losses, params) + noise, 0.0, 1.0),
            law(losses, middle),
            np.tile(law(point["estimate"], self.params), _REPEATS),
            noise,
        ])  # fmt: skip


# ---------------------------------------------------------------- all tasks


def _draws(chains: Sequence[_Chain], k: int, seed: int) -> np.ndarray:
    """(T, 4, S) draws at point k, see :meth:`_Chain.draws`; draw s of all tasks is of one model."""
    random = np.random.default_rng(seed)
    # What laws of losses miss beyond the runs is the same draw for all; the rest comes of noise.
    common = np.array([chain.forecast.table["from_misfit"].iloc[k] for chain in chains])
    together = _correlation(np.array([chain.loss_errors for chain in chains]))
    together *= np.sqrt(np.outer(1 - common, 1 - common))
    of_losses = _normal(random, together + np.sqrt(np.outer(common, common)))
    of_runs = _normal(random, _correlation(np.array([chain.score_errors for chain in chains])))
    both = zip(chains, of_losses.T, of_runs.T, strict=True)
    return np.stack([chain.draws(k, of_loss, of_run) for chain, of_loss, of_run in both])


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
    return scipy.special.ndtri((drawn.argsort(axis=0).argsort(axis=0) + 0.5) / count)


def _notes(read: Mapping[str, TaskRuns], chains: Mapping[str, _Chain]) -> list[Note]:
    """Tasks whose chance level is implausible, then the notes on the forecasts of losses."""
    notes, below = [], []
    for task, runs in read.items():
        if count := int(np.sum(runs.score[runs.final] < runs.chance - 3 * _USUAL_NOISE)):
            below.append(f"{task} ({count} of {len(runs.final)} runs below {runs.chance:.3g})")
    if below:
        message = f"{', '.join(below)}: pass the chance-level score in chance="
        notes.append(Note("below-chance", "warning", message, inherited=False))
    of_losses: dict[str, list[tuple[str, Note]]] = {}
    for task, chain in chains.items():
        for note in chain.forecast.notes:
            of_losses.setdefault(note.code, []).append((task, note))
    for found in of_losses.values():
        names, note = ", ".join(dict.fromkeys(task for task, _ in found)), found[0][1]
        notes.append(dataclasses.replace(note, message=f"loss of {names}: {note.message}"))
    return notes
