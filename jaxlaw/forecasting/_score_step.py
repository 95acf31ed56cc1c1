"""The second step from runs to scores: the score of a task as a law of the loss on it.

Checkpoints count as well as final models, the later the more: what they weigh is the share of the
run's tokens to a power. Checkpoints of one run share its noise, so that runs are what is resampled
and held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from jaxlaw.data import Observations, read_runs
from jaxlaw.fitting import FittedLaw, Refits, fit_many, law_and_options
from jaxlaw.laws import Law
from jaxlaw.uncertainty import resampled_weights

#: Power of the share of a run's tokens that a checkpoint has: what it weighs. Measured on OLMo's
#: ladder, 190 M and 370 M against 760 M.
LATE = 8.0
#: Runs a parameter from which on it is fitted; before, the floor is chance and the ceiling 1.
RUNS_EACH = 3
#: Highest k·L of a sigmoid, L the lowest loss of the runs. Measured on the cheaper budgets of runs
#: that are fitted, as is that the ceiling is 1 until runs show it: no task rises more steeply.
STEEPEST = 16.0
N_RESAMPLES = 64
_OF_CUTOFF = 16  # resamples of the fit below a cut-off
_LEAST_WEIGHT = 0.01  # of a checkpoint, to be among the rows
USUAL_NOISE = 0.01  # standard deviation of the scores of runs of one loss
#: Errors beyond cut-offs, in standard deviations, that the prior factor 1 counts as.
PRIOR_ERRORS = 8.0
_SEARCH = {"n_starts": 256, "n_local": 16}
#: Width of an interval, as a share of what lies between chance and 1, from which it says little.
_WIDE = 1 / 3
#: What to know of forecasts, in words.
NO_TREND = "the score hardly follows the loss; its interval is of noise"
WIDE_SCORE = "little is known: the interval takes a third or more of what lies above chance"


@dataclass(frozen=True, eq=False)
class TaskRuns:
    """Losses and scores of one task.

    Attributes:
        task: its name.
        loss, score: (n,) of every checkpoint.
        weight: (n,) what it counts.
        members: (n,) number of its run, from 0.
        final: (G,) row of the last checkpoint of each run.
        chance: score by chance; NaN if unknown.
        questions: how many the task has; NaN if unknown.
    """

    task: str
    loss: np.ndarray
    score: np.ndarray
    weight: np.ndarray
    members: np.ndarray
    final: np.ndarray
    chance: float
    questions: float

    def item_variance(self, score: Any) -> Any:
        """Variance of a score by the number of questions alone: that of a binomial share."""
        share = np.clip(score, 0.02, 0.98)
        return share * (1 - share) / self.questions if np.isfinite(self.questions) else 0.0 * share

    def trouble(self) -> str:
        """Why there can be no forecast of this task, in words; empty where there can."""
        loss, score = self.loss[self.final], self.score[self.final]
        if len(loss) >= 3 and np.ptp(loss) > 0 and np.ptp(score) > 0:
            found = stats.spearmanr(loss, score, alternative="greater")
            if found.pvalue < 0.01 or found.statistic > 0.999:
                return "broken: the score falls as the loss falls; no forecast"
        if np.isfinite(self.chance) and self._at_chance(loss, score):
            return "no run is above chance; no forecast"
        return ""

    def _at_chance(self, loss: np.ndarray, score: np.ndarray) -> bool:
        """Whether the best runs are within two errors of chance.

        The questions are the same for all runs: their noise does not average out.
        """
        best = _of_lowest_losses(loss, score)
        error = best.var(ddof=1) / len(best) if len(best) > 1 else 0.0
        return bool(
            best.mean() < self.chance + 2 * np.sqrt(error + self.item_variance(self.chance))
        )

    def below_chance(self) -> int:
        """How many runs are further below chance than three errors of a score."""
        error = np.hypot(USUAL_NOISE, np.sqrt(self.item_variance(self.chance)))
        return int(np.sum(self.score[self.final] < self.chance - 3 * error))

    def shows_ceiling(self) -> bool:
        """Whether the best runs are past the middle between chance, or the worst run, and 1."""
        loss, score = self.loss[self.final], self.score[self.final]
        floor = self.chance if np.isfinite(self.chance) else score.min()
        return bool(_of_lowest_losses(loss, score).mean() > (1.0 + floor) / 2)

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


def _of_lowest_losses(loss: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Scores of the third of the runs with the lowest losses."""
    return score[np.argsort(loss)[: max(3, len(loss) // 3)]]


@dataclass(frozen=True, eq=False)
class ScoreStep:
    """The law of a task's score in its loss, and what it errs by.

    Attributes:
        runs: what it was fitted to.
        law: the law.
        refits: the fit to all runs, those below J cut-offs, then R resamples of all runs, and of
            each cut-off.
        n_cutoffs: J.
        noise: standard deviation of a run's final score around the law, of ``degrees`` of freedom.
        residuals: (G,) of the final scores.
        cutoff_errors: (J, G) errors of the runs beyond each cut-off, in standard deviations of what
            resamples and noise say; NaN of those fitted.
        distance: (J, G) log of how far a run lies beyond a cut-off.
    """

    runs: TaskRuns
    law: Law
    refits: Refits
    n_cutoffs: int
    noise: float
    degrees: int
    residuals: np.ndarray
    cutoff_errors: np.ndarray
    distance: np.ndarray

    def errors_within(self, reach: float) -> np.ndarray:
        """Root mean square of the errors beyond each cut-off, of runs no further than ``reach``."""
        near = np.isfinite(self.cutoff_errors) & (self.distance <= reach * (1 + 1e-6))
        return np.array([
            np.sqrt(np.mean(row[kept] ** 2))
            for row, kept in zip(self.cutoff_errors, near, strict=True)
            if kept.any()
        ])  # fmt: skip

    def curves(self, loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores (m,) at losses (m,), and (R, m) by the resamples."""
        each = self.refits.predict(task_loss=np.asarray(loss, float))
        first = 1 + self.n_cutoffs
        return each[0], each[first : first + N_RESAMPLES]

    def below_cutoff(self, number: int, loss: np.ndarray) -> np.ndarray:
        """Scores (m,) at losses (m,) by the fit below a cut-off."""
        return self.refits.predict(task_loss=np.asarray(loss, float))[1 + number]

    def fitted(self) -> FittedLaw:
        """The law with its parameters, as plans and pictures take it."""
        loss = self.runs.loss[self.runs.weight > 0]
        return FittedLaw(
            self.law,
            {name: float(values[0]) for name, values in self.refits.params.items()},
            units={"task_loss": 1.0},
            ranges={"task_loss": (float(loss.min()), float(loss.max()))},
            source=self.runs.task,
        )


def late_weights(share: np.ndarray) -> np.ndarray:
    """(n,) what checkpoints count that have seen a share of their run's tokens."""
    weight = np.clip(share, 0.0, 1.0) ** LATE
    return np.where(weight >= _LEAST_WEIGHT, weight, 0.0)


def fit_score_step(law: str | Law, runs: TaskRuns, distance: np.ndarray, seed: int) -> ScoreStep:
    """Fit the score of a task to its loss: to all runs, below cut-offs, and on resamples.

    Args:
        law: law of ``task_loss``.
        runs: losses and scores.
        distance: (J, G) log of how far a run lies beyond a cut-off; 0 or less of those fitted.
        seed: seed of the resamples: of one seed, the same runs for every task.
    """
    known, options = law_and_options(law, **_options(law, runs), **_SEARCH, seed=seed)
    # Early checkpoints weigh nothing, and would cost as much as the others.
    kept = np.flatnonzero(runs.weight > 0)
    seen, members = _observations(known, runs, kept), runs.members[kept]
    items = runs.item_variance(runs.score[kept]) / _typical(runs)
    weight = runs.weight[kept] / (1.0 + items)
    beyond = distance > 1e-9
    below = ~beyond[:, members]
    count = int(runs.members.max()) + 1
    factors = resampled_weights(np.arange(count), N_RESAMPLES, seed, "bayesian")[:, members]
    few = factors[:_OF_CUTOFF]
    weights = np.vstack([
        np.ones((1, len(weight))), below, factors, *(row * few for row in below)
    ]) * weight  # fmt: skip
    refits = fit_many(known, seen, weights, options=options)
    predicted = refits.predict(task_loss=runs.loss[runs.final])
    residuals = runs.score[runs.final] - predicted[0]
    # Residuals of few runs say little of their noise: one of usual size counts as one more.
    degrees = 1 + max(len(residuals) - len(options.free(known)), 0)
    noise = float(np.sqrt((USUAL_NOISE**2 + residuals @ residuals) / degrees))
    errors = _cutoff_errors(runs, predicted, beyond, noise)
    return ScoreStep(runs, known, refits, len(beyond), noise, degrees, residuals, errors, distance)


def _typical(runs: TaskRuns) -> float:
    """Mean variance by the questions, of the final models; 1 where their number is unknown."""
    return float(np.mean(runs.item_variance(runs.score[runs.final]))) or 1.0


def _cutoff_errors(
    runs: TaskRuns, predicted: np.ndarray, beyond: np.ndarray, noise: float
) -> np.ndarray:
    """(J, G) errors beyond each cut-off in standard deviations; NaN of the runs fitted.

    The losses are those observed, so that the errors are of this step alone.
    """
    first = 1 + len(beyond) + N_RESAMPLES
    found = np.full(beyond.shape, np.nan)
    for j, rows in enumerate(beyond):
        again = predicted[first + j * _OF_CUTOFF : first + (j + 1) * _OF_CUTOFF, rows]
        error = runs.score[runs.final][rows] - predicted[1 + j, rows]
        found[j, rows] = error / np.sqrt(again.var(axis=0, ddof=1) + noise**2)
    return found


def _options(law: str | Law, runs: TaskRuns) -> dict[str, Any]:
    """Options of the fit: what runs cannot determine is held.

    Runs below the middle of the rise do not show the ceiling: least squares puts it just above the
    highest score of the runs, and all later scores come out too low. With a ceiling of 1 a score
    that hardly rises is fitted best by a cliff just below the lowest loss, which is what the bound
    of the steepness is for.
    """
    known, _ = law_and_options(law)
    if not {"floor", "ceiling", "k"} <= set(known.parameter_names):
        return {}
    few = len(runs.final) < RUNS_EACH * len(known.parameters)
    fixed = {"ceiling": 1.0} if few or not runs.shows_ceiling() else {}
    fixed |= {"floor": runs.chance} if few and np.isfinite(runs.chance) else {}
    steepest = STEEPEST / float(runs.loss[runs.weight > 0].min())
    return {"fixed": fixed, "bounds": {"k": (None, steepest)}}


def _observations(law: Law, runs: TaskRuns, rows: np.ndarray) -> Observations:
    table = {"task_loss": runs.loss[rows], law.target: runs.score[rows]}
    return read_runs(table, name=runs.task).observations(law, free=())


def error_factors(steps: Sequence[ScoreStep], reach: float) -> np.ndarray:
    """(T,) by how much errors beyond cut-offs exceed what resamples and noise say, task by task.

    A cut-off of a task is one error. All tasks together begin at a factor of 1, and each task at
    that of all, which counts as :data:`PRIOR_ERRORS` of its own: of a single task the factor would
    be noise.

    Args:
        steps: of all tasks.
        reach: log of how far the point lies beyond the runs. Laws err more the further they go, so
            that runs further beyond a cut-off than that say nothing of it.
    """
    errors = [step.errors_within(reach) for step in steps]
    every = np.concatenate([*errors, np.empty(0)])
    of_all = max((PRIOR_ERRORS + every @ every) / (PRIOR_ERRORS + len(every)), 1.0)
    squares = [(PRIOR_ERRORS * of_all + own @ own) / (PRIOR_ERRORS + len(own)) for own in errors]
    return np.sqrt(np.maximum(squares, 1.0))
