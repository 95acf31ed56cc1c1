"""The bootstrap: the law fitted to thousands of resamples of its runs, by one call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from jaxlaw._jit import in_float64, programs_in
from jaxlaw._typed import ResampleCount, Seed, StartCount, checked
from jaxlaw.data._dependence import unanswered
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._fit import solver_named
from jaxlaw.fitting._fit_many import Refits, fewest_for, refit
from jaxlaw.fitting._objective import LARGEST_DELTA, kernel_width
from jaxlaw.fitting._result import Fit
from jaxlaw.fitting.solvers._status import CONVERGED
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note
from jaxlaw.uncertainty._covariance import moved_by_leaving_out
from jaxlaw.uncertainty._fit_problem import Fitted, fitted
from jaxlaw.uncertainty._identifiability import open_notes
from jaxlaw.uncertainty._influence import leave_each_out
from jaxlaw.uncertainty._intervals import (
    Interval,
    Method,
    at_points,
    expanded_tail,
    interval_of,
    of_parameters,
)
from jaxlaw.uncertainty._resampling import (
    centre_of,
    few_groups,
    group_numbers,
    kernel_draws,
    names_of,
    resampled_counts,
    resampled_residuals,
    reweighted_residuals,
)

Kind = Literal["case", "residual", "wild"]
LONE = 0.05  # share of resamples whose best optimum one start alone found: say so
WALL = 0.05  # share of resamples in which a parameter ends at its wall: say so
LEVEL = 0.95  # of the intervals that are given where none is asked for


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """What R resamples of the runs came to.

    Attributes:
        fit: the fit of the runs as they are.
        params: name → (R,) natural values in the law's own units; NaN in a resample that came
            to no finite objective, so that paired bootstraps stay paired.
        refits: the same as the search had it, with objective, status and agreement (R,).
        kind: ``case``, ``residual`` or ``wild``.
        n_groups: how many rows, or groups of rows, were resampled.
        notes: what to know before relying on the intervals.
        problem: of the fit.
        members: (n,) the group of every observation.
        held: parameter → (R,) what each resample took over from its resample of the base.
        groups: columns that told the groups of rows apart, or ``("labels",)`` where every row
            was given its own; None where rows were resampled one by one.
    """

    fit: Fit
    params: dict[str, np.ndarray]
    refits: Refits
    kind: Kind
    n_groups: int
    notes: tuple[Note, ...]
    problem: Fitted
    members: np.ndarray
    held: Mapping[str, np.ndarray] = field(default_factory=dict)
    groups: tuple[str, ...] | None = None

    @cached_property
    def left_out(self) -> Refits:
        """Refits without each row, or group of rows, that ``bca`` intervals rest on.

        Raises:
            UsageError: the base was resampled too, and its runs are not here to be left out.
        """
        if self.held:
            raise UsageError(
                "bca leaves out one run after another, and those of the resampled base are not "
                "here: use method='percentile'"
            )
        groups = np.unique(self.members[self.problem.active])
        return leave_each_out(self.problem, self.members, groups)

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the intervals: G−1 of groups, n−p of ``wild`` single rows.

        Few groups, or rows that keep their own residual, say roughly how wide the noise is.
        Infinite for ``case``, whose draws bring that doubt with them, and for ``residual``: left
        out, residuals are wider than the noise by as much as Student's t than the normal.
        """
        return degrees_of(self.problem, self.kind, self.members)

    def __len__(self) -> int:
        """The number of resamples R."""
        return len(self.refits.objective)

    def predict(self, table: Any = None, /, **inputs: Any) -> np.ndarray:
        """The target at new points from every resample, (R, …).

        Args:
            table, **inputs: as for :meth:`jaxlaw.Fit.predict`, in units of the fitted runs.

        Returns:
            float64 of the resamples and the broadcast shape of the inputs.
        """
        return self._predicted(self.refits, table, inputs)

    def _predicted(self, refits: Refits, table: Any, inputs: Mapping[str, Any]) -> np.ndarray:
        values = self.fit.checked_inputs(table, inputs)
        scaled = [value * self.fit.units[name] for name, value in values.items()]
        arrays = np.broadcast_arrays(*scaled)
        flat = {name: array.ravel() for name, array in zip(values, arrays, strict=True)}
        return refits.predict(**flat).reshape(len(refits.objective), *arrays[0].shape)

    def of(self, function: Callable[[Mapping[str, Any]], Any]) -> np.ndarray:
        """Any function of the parameters from every resample, (R, …).

        Args:
            function: of a dict name → (R,) natural values in the law's own units, to (R, …).
        """
        return _in_float64(function, self.params)

    def intervals(self, level: float = LEVEL, method: Method = "percentile") -> pd.DataFrame:
        """Every fitted parameter's interval.

        Args:
            level: share of such intervals that should hold the truth.
            method: ``percentile``; ``basic`` and ``normal`` take parameters that are positive
                by nature on the log scale; ``bca`` fits once more for every row or group left
                out. See :func:`interval_of`. ``basic`` warns that it is too short.

        Returns:
            One row a parameter: ``parameter``, ``estimate``, ``standard error``, ``low``,
            ``high``.
        """

        def of(name: str, log: bool) -> Interval:
            left = self.left_out.params[name] if method == "bca" else None
            return interval_of(
                self.fit.params[name], self.params[name], level, method, log, left, self.degrees
            )

        _warn_of_basic(method)
        return of_parameters(self.fit, of)

    def prediction(
        self, table: Any = None, /, *, level: float = LEVEL, method: Method = "percentile",
        **inputs: Any,
    ) -> pd.DataFrame:  # fmt: skip
        """The law's interval at new points: of the mean, without the noise of a new run.

        Args:
            table, **inputs: as for :meth:`jaxlaw.Fit.predict`, in units of the fitted runs.
            level, method: as for :meth:`intervals`.

        Returns:
            One row a point: the inputs, then as :meth:`intervals`.
        """

        def at(points: dict[str, np.ndarray]) -> Interval:
            estimate, draws = self.fit.predict(**points), self.predict(**points)
            left = self._predicted(self.left_out, None, points) if method == "bca" else None
            log = self.fit.law.space == "log"
            return interval_of(estimate, draws, level, method, log, left, self.degrees)

        _warn_of_basic(method)
        return at_points(self.fit, table, inputs, at)

    def interval(
        self,
        function: Callable[[Mapping[str, Any]], Any],
        level: float = LEVEL,
        method: Method = "percentile",
    ) -> Interval:
        """The interval of any function of the parameters, as for :meth:`of`."""
        _warn_of_basic(method)
        one = {name: np.array([value]) for name, value in self.fit.params.items()}
        left = _in_float64(function, self.left_out.params) if method == "bca" else None
        estimate = _in_float64(function, one)[0]
        return interval_of(
            estimate, self.of(function), level, method, left_out=left, degrees=self.degrees
        )

    def table(self) -> pd.DataFrame:
        """The draws, one row a resample: parameters, objective, agreement of the starts."""
        return pd.DataFrame(
            {
                **self.params,
                "objective": self.refits.objective,
                "agreement": self.refits.agreement,
            }
        )


def _warn_of_basic(method: Method) -> None:
    """Basic intervals do not hold as often as they say, whatever is drawn."""
    if method == "basic":
        warnings.warn(
            "basic intervals are too short: of 30 to 144 rows those of 95 % held the truth in 87 "
            "to 94 %; method='percentile' holds",
            stacklevel=3,
        )


def _in_float64(function: Callable[[Mapping[str, Any]], Any], params: Any) -> np.ndarray:
    """A user's function of parameters, which may be of ``jax.numpy``."""
    with in_float64():
        return np.asarray(function(params))


@checked
def bootstrap(
    law: str | Law | Fit,
    runs: Any,
    n: ResampleCount = 1000,
    *,
    kind: Kind = "case",
    groups: Any = None,
    base: Any = None,
    seed: Seed = 0,
    n_starts: StartCount = 64,
    screen: int = 8,
    solver: str = "newton",
    work_dir: str | Path | None = None,
    progress: bool | None = None,
    distributed: bool = False,
    compile_cache: str | Path | None = None,
    **options: Any,
) -> Bootstrap:
    """Fit a law to resamples of its runs.

    Resamples depend on the number of rows, their groups and the seed alone: two bootstraps of
    the same runs (of general and domain loss, or of two laws) are paired, draw by draw.

    Args:
        law: a law or its name, fitted first as :func:`jaxlaw.fit` does; or a fit of these runs,
            which brings its settings.
        runs: what :func:`jaxlaw.read_runs` takes or returns.
        n: number of resamples R; below 39 an interval of 95 % is too narrow.
        kind: ``case``, rows drawn with replacement: nothing is taken for granted but that rows
            (or groups) are independent. ``residual``, residuals drawn with replacement and put
            on the fitted curve: the design stays as it is, noise is taken to be the same
            everywhere. ``wild``, every residual stays where it is and is multiplied by a random
            number of mean 0 and variance 1: noise may differ from row to row. Residuals are
            what they would be if their row or group had not been fitted, and where δ is small
            beside them, smoothed by a kernel; intervals of ``wild``,
            and of groups, take Student's t (see :attr:`Bootstrap.degrees`).
        groups: columns (such as ``"run"`` or ``["N", "r"]``), or a label for each run: rows that
            share noise, such as the checkpoints of one run. ``case`` draws whole groups,
            ``wild`` multiplies whole groups by one number.
        base: what cpt-chinchilla takes E, A and alpha from: a from-scratch fit, whose values every
            resample holds; or a bootstrap of it (an object with ``fit`` and ``params``), and
            resample k holds those of resample k there, as plans that compare the two need it.
        seed: of the draws, and of the starts.
        n_starts, screen: starts tried and solved in each resample, the fit's own optimum being
            one more.
        solver: as in :func:`jaxlaw.fit`.
        work_dir, progress, distributed, compile_cache: as in :func:`jaxlaw.fit`.
        **options: what else :func:`jaxlaw.fit` takes: columns, units, delta, fixed …

    Returns:
        The :class:`Bootstrap`.

    Raises:
        UsageError: the call makes no sense, or the base has another number of resamples; the
            message says what would.
        DataError: the runs cannot carry the law, or are all of one group.
    """
    _check(n, kind, groups)
    drawn = hasattr(base, "fit") and hasattr(base, "params")
    if drawn:
        _check_paired(n, base)
    if base is not None and not (drawn and isinstance(law, Fit)):  # such a fit has its base's
        options["base"] = base.fit if drawn else base
    folder = None if work_dir is None else Path(work_dir)
    if not isinstance(law, Fit):
        options |= {
            "solver": solver, "progress": progress, "distributed": distributed,
            "compile_cache": compile_cache, "work_dir": folder and folder / "fit",
        }  # fmt: skip
    problem = fitted(law, runs, **options)
    held = _held(problem.fit, base) if drawn else {}
    members = np.arange(len(problem.observations))
    if groups is not None:
        members = group_numbers(problem.runs, problem.observations, groups)
    weights, targets = resamples(problem, n, kind, members, seed)
    with programs_in(compile_cache):
        found = refit(
            problem.fit.law, problem.observations, weights, targets, held=held,
            options=problem.options, method=solver_named(solver), n_starts=n_starts,
            screen=screen, seed=seed, also=np.array([[*problem.fit.params.values()]]),
            work=Work(folder and folder / "resamples", progress, distributed),
        )  # fmt: skip
    failed = ~np.isfinite(found.objective)
    params = {name: np.where(failed, np.nan, values) for name, values in found.params.items()}
    count = len(np.unique(members[problem.active]))
    notes = (
        # The bootstrap's own say on loose directions is the fuller one.
        *(note for note in unanswered(problem.notes, groups) if note.code != "loose"),
        *found.notes,
        *open_notes(problem, members),
        *_notes(found, failed, kind, groups, count, screen, degrees_of(problem, kind, members)),
    )
    return Bootstrap(
        problem.fit, params, found, kind, count, notes, problem, members, held,
        names_of(groups, len(problem.runs)),
    )  # fmt: skip


def _check(n: int, kind: str, groups: Any) -> None:
    if n < 2:
        raise UsageError(f"n, the number of resamples, must be at least 2, not {n}")
    if kind not in (kinds := ("case", "residual", "wild")):
        hint = nearest(str(kind), kinds)
        raise UsageError(f"kind is 'case', 'residual' or 'wild', not {kind!r}.{hint}")
    if kind == "residual" and groups is not None:
        raise UsageError(
            "residuals drawn one by one do not keep groups together: use kind='case' or 'wild'"
        )


def _check_paired(n: int, base: Any) -> None:
    size = len(next(iter(base.params.values())))
    if size != n:
        raise UsageError(
            f"the base has {size} resamples, and n is {n}: give both the same number (n={size})"
        )


def _held(fit: Fit, base: Any) -> dict[str, np.ndarray]:
    """What the fit holds of its base, as each resample of the base has it."""
    theirs, ours = base.fit.params, fit.fixed
    names = [one for one in fit.law.from_base if one in ours and ours[one] == theirs.get(one)]
    if not names:
        raise UsageError(
            f"the fit of law {fit.law.name} holds nothing of this base; give the bootstrap of the "
            "fit it took its values from"
        )
    return {name: np.asarray(base.params[name], float) for name in names}


def resamples(
    problem: Fitted, n: int, kind: Kind, members: np.ndarray, seed: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Weights and targets (R, n) of the resamples; None where they are the runs' own."""
    seen, active = problem.observations, problem.active
    if kind == "case":
        weights = np.zeros((n, len(seen)))
        weights[:, active] = resampled_counts(members[active], n, seed) * seen.weight[active]
        return weights, None
    predicted = problem.linear.prediction
    log = problem.posed.model.space == "log"
    residuals = predicted - (np.log(seen.target) if log else seen.target)
    # A fit bends towards its points: its own residuals are smaller than the noise.
    residuals = residuals[active] + moved_by_leaving_out(problem, members[active])
    delta = min(problem.fit.delta, LARGEST_DELTA)
    if kind == "residual":
        residuals = residuals - centre_of(residuals, delta, problem.fit.asymmetry)
        drawn = resampled_residuals(residuals, n, seed)
    else:
        drawn = reweighted_residuals(residuals, members[active], n, seed)
    if delta < residuals.std():
        # How far such a fit moves rests on the density of the noise at 0, which a few residuals
        # there tell badly: they are spread by the kernel that the sandwich has for it.
        drawn = drawn + kernel_width(residuals) * kernel_draws(drawn.shape, seed)
    targets = np.tile(predicted, (n, 1))
    targets[:, active] -= drawn
    return None, np.exp(targets) if log else targets


def degrees_of(problem: Fitted, kind: str, members: np.ndarray) -> float:
    """As :attr:`Bootstrap.degrees`."""
    rows, groups = len(problem.active), len(np.unique(members[problem.active]))
    if groups < rows:
        return float(groups - 1)
    return float(max(rows - len(problem.moving), 1)) if kind == "wild" else float("inf")


def _notes(
    found: Refits,
    failed: np.ndarray,
    kind: str,
    groups: Any,
    count: int,
    screen: int,
    degrees: float,
) -> list[Note]:
    notes, total = [], len(failed)
    if failed.any():
        message = f"{failed.sum()} of {total} resamples came to no finite objective: left out"
        notes.append(Note("resamples-failed", "warning", message))
    ended, needed = int(total - failed.sum()), fewest_for(1 - 2 * expanded_tail(LEVEL, degrees))
    if ended < needed:
        message = (
            f"{ended} resamples: a {LEVEL:.0%} interval of fewer than {needed:.3g} is too narrow; "
            "ask for more (n)"
        )
        if degrees < np.inf:
            message += (
                f", or for method='normal': with {degrees:g} degrees of freedom the ends lie among "
                "the outermost resamples"
            )
        notes.append(Note("few-resamples", "warning", message))
    unfinished = (found.status != CONVERGED) & ~failed
    if unfinished.any():
        message = (
            f"{unfinished.sum()} of {total} resamples ended before their optimum; they count as "
            "they ended"
        )
        notes.append(Note("resamples-not-converged", "info", message))
    lone = (found.agreement * screen < 1.5) & ~failed
    if screen > 1 and lone.mean() > LONE:
        message = (
            f"in {lone.sum()} of {total} resamples one start alone found the best optimum: some "
            "may have missed theirs, and widen the intervals; solve more starts (n_starts, screen)"
        )
        notes.append(Note("resamples-disagree", "warning", message))
    notes += _on_walls(found, failed)
    if groups is not None:
        remedy = "kind='wild' needs fewer" if kind == "case" else "add groups"
        notes += few_groups(count, f"how far groups differ is known roughly; {remedy}")
    return notes


def _on_walls(found: Refits, failed: np.ndarray) -> list[Note]:
    posed, notes = found.posed, []
    low, high = np.asarray(posed.problem.low), np.asarray(posed.problem.high)
    for k, name in enumerate(posed.model.law.parameter_names):
        if low[k] == high[k]:
            continue
        there = (found.coordinates[:, k] <= low[k]) | (found.coordinates[:, k] >= high[k])
        share = np.mean(there & ~failed)
        if share > WALL:
            message = (
                f"{name} ends at a wall of its range in {share:.0%} of the resamples: its "
                "interval reaches there because the range does"
            )
            notes.append(Note("resamples-at-bound", "warning", message))
    return notes
