"""The bootstrap: the law fitted to thousands of resamples of its runs, by one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

import numpy as np

from jaxlaw._typed import Between, Seed, StartCount, checked
from jaxlaw.data import without_dependence_note
from jaxlaw.errors import UsageError
from jaxlaw.fitting import (
    Fit,
    FittedLaw,
    Refits,
    SharedKeywords,
    fit_many,
    lists_options,
    moved_params,
)
from jaxlaw.fitting._multistart import OWN_STARTS
from jaxlaw.fitting._objective import LARGEST_DELTA, kernel_width
from jaxlaw.fitting._options import OF_WORK
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.uncertainty._covariance import moved_by_leaving_out
from jaxlaw.uncertainty._draws import DrawnParameters, Draws, has_draws
from jaxlaw.uncertainty._fit_problem import FitWithData, fit_with_data
from jaxlaw.uncertainty._groups import few_groups, group_numbers, names_of
from jaxlaw.uncertainty._identifiability import open_notes
from jaxlaw.uncertainty._intervals import LEVEL, ParameterIntervals, expanded_tail, fewest_for
from jaxlaw.uncertainty._resampling import resampled_weights, wild_residuals

Kind = Literal["case", "wild"]
ONE_START = 0.05  # fraction of resamples whose best optimum a single start reached: noted beyond
AT_BOUND = 0.05  # fraction of resamples in which a parameter is at an active bound: noted beyond


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Bootstrap(DrawnParameters, ParameterIntervals):
    """R resamples of the runs, each with the law fitted to it.

    Attributes:
        fit: fit of the runs as they are.
        params: name → (R,) natural values in the law's own units; NaN in a resample that came
            to no finite objective, so that paired bootstraps stay paired.
        objective: (R,) summed Huber loss of each resample; infinite where it failed.
        agreement: (R,) fraction of a resample's own starts that ended at its optimum.
        kind: ``case`` or ``wild``.
        n_groups: number of rows, or groups of rows, that were resampled.
        degrees: degrees of freedom of the intervals: G−1 of groups, n−p of ``wild`` single rows.
            Few groups, or rows that keep their own residual, say roughly how wide the noise is.
            Infinite for ``case``, whose draws bring that doubt with them.
        notes: what to know before relying on the intervals.
        base_params: parameter → (R,) value that each resample took over from its resample, or
            its draw, of the base.
        groups: columns that name the groups of rows, or ``("labels",)`` where every row was
            given a label; None where rows were resampled one by one.
        problem: the fit with its data; None where it was read from a file, as ``refits``.
        refits: the fits of the resamples, as the search left them.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> boot = jl.bootstrap("chinchilla", table, n_resamples=40, progress=False)
        >>> boot.params["alpha"].shape
        (40,)
        >>> list(boot.conf_int())
        ['parameter', 'estimate', 'std_err', 'low', 'high']
    """

    fit: Fit
    params: dict[str, np.ndarray]
    objective: np.ndarray
    agreement: np.ndarray
    kind: Kind
    n_groups: int
    degrees: float
    notes: tuple[Note, ...]
    base_params: Mapping[str, np.ndarray] = field(default_factory=dict)
    groups: tuple[str, ...] | None = None
    problem: FitWithData | None = field(default=None, compare=False)
    refits: Refits | None = field(default=None, compare=False)

    def how(self) -> str:
        """How many resamples there are, and of what."""
        by = "" if self.groups is None else f" groups by {', '.join(self.groups)}"
        return f"{len(self)} resamples ({self.kind}) of {self.n_groups}{by}"

    def draws(self) -> Draws:
        """The fit and its draws, without the runs and the refits: what plans take.

        Plans take the bootstrap itself, too. :meth:`Draws.save` writes the draws to a file.

        Example:
            >>> table = jl.simulate.experiment("chinchilla").table
            >>> boot = jl.bootstrap("chinchilla", table, n_resamples=40, progress=False)
            >>> boot.draws().rows
            41
        """
        return Draws(self.fit, self.params, self.notes, self.kind, self.groups, self.degrees)

    def __len__(self) -> int:
        """The number of resamples R."""
        return len(self.objective)


@lists_options
@checked
def bootstrap(
    law: str | Law | FittedLaw,
    runs: Any,
    n_resamples: Annotated[int, Between(2, 10**6)] = 1000,
    *,
    kind: Kind = "case",
    groups: Any = None,
    base: Any = None,
    seed: Seed = 0,
    n_starts: StartCount = 64,
    n_local: int = 8,
    **options: Unpack[SharedKeywords],
) -> Bootstrap:
    """Fit a law to resamples of its runs; the law is assumed correct.

    Its intervals are of the parameters of a law that is assumed correct: the interval of a new run
    is that of :func:`jaxlaw.forecast`, which adds what laws miss beyond their runs.

    Resamples depend on the number of rows, their groups and the seed alone: two bootstraps of
    the same runs (of general and domain loss, or of two laws) are paired, draw by draw. All
    resamples are solved as one batch.

    Args:
        law: law or its name, fitted first as :func:`jaxlaw.fit` does; or a fit of these runs,
            which brings its settings.
        runs: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns.
        n_resamples: number of resamples R; with fewer than 19 a 90% interval is too narrow.
        kind: ``case`` draws rows with replacement: nothing is taken for granted but that rows
            (or groups) are independent. ``wild`` keeps the design: it leaves every residual where
            it is and multiplies it by a random number of mean 0 and variance 1, so that noise may
            differ from row to row. Residuals are those of a fit without the row or its group, and
            where δ is small beside them they are smoothed by a kernel; intervals of ``wild``, and
            of groups, take Student's t (see :attr:`Bootstrap.degrees`).
        groups: columns (such as ``"run"`` or ``["N", "r"]``), or a label for each run: rows that
            share noise, such as the checkpoints of one run. ``case`` draws whole groups,
            ``wild`` multiplies whole groups by one number.
        base: fit from which cpt-chinchilla takes E, A and alpha: every resample then holds a draw
            of their covariance, and their values where that is not known; or a bootstrap of that
            fit: resample k then holds the values of resample k there, as plans that compare the
            two need it.
        seed: seed of the draws, and of the starts.
        n_starts, n_local: numbers of starts tried and solved in each resample whose optimum is not
            near the fit's. A resample begins at the optima of the runs as they are, and at three
            screened starts of its own: where the two disagree, so many are solved.
        **options: other options of :func:`jaxlaw.fit`: columns, units, delta, fixed, work_dir …

    Returns:
        The :class:`Bootstrap`.

    Raises:
        UsageError: the call makes no sense, or the base has another number of resamples; the
            message says what would.
        DataError: the runs cannot carry the law, or are all of one group.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> boot = jl.bootstrap("chinchilla", table, n_resamples=40, progress=False)
        >>> len(boot), boot.n_groups, boot.kind
        (40, 243, 'case')

    Shell:
        jaxlaw bootstrap fit.json runs.csv --groups run --out boot.json
    """
    drawn = has_draws(base)
    if drawn:
        base = base.draws()
        if (size := base.rows - 1) != n_resamples:
            raise UsageError(
                f"the base has {size} resamples, and n_resamples is {n_resamples}: give both the "
                f"same number (n_resamples={size})"
            )
    of_fit = dict(options)
    work = {name: of_fit.pop(name) for name in OF_WORK if name in of_fit}
    if base is not None and not (drawn and isinstance(law, FittedLaw)):  # such a fit has its base's
        of_fit["base"] = base
    if not isinstance(law, FittedLaw):
        folder = work.get("work_dir")
        of_fit |= work | {"work_dir": None if folder is None else Path(folder, "fit")}
    problem = fit_with_data(law, runs, **of_fit)
    fit = problem.fit
    # What the fit takes from its base: each resample's own values, or drawn ones. These are of
    # Student's t by the covariance of the base: they bring the doubt about its noise with them.
    base_params = {}
    if drawn:
        held = [name for name in fit.law.from_base if name in fit.fixed]
        names = [name for name in held if fit.fixed[name] == base.fit.params.get(name)]
        if not names:
            raise UsageError(
                f"the fit of law {fit.law.name} holds nothing of this base; give the bootstrap of "
                "the fit it took its values from"
            )
        base_params = {name: np.asarray(base.params[name], float) for name in names}
    elif fit.base is not None and fit.base.values:
        random, degrees = np.random.default_rng([seed, 1]), fit.base.degrees
        normal = random.standard_normal((len(fit.base.values), n_resamples))
        steps = fit.base.root() @ normal / np.sqrt(random.chisquare(degrees, n_resamples) / degrees)
        moved = dict(zip(fit.base.values, steps, strict=True))
        base_params = moved_params(fit.law, fit.params, moved)
    members = group_numbers(problem.runs, problem.observations, groups)
    search = replace(problem.options, n_starts=n_starts, n_local=n_local, seed=seed, **work)
    search = search.within("resamples")
    weights, targets = resamples(problem, n_resamples, kind, members, seed)
    refits = fit_many(
        problem.fit.law, problem.observations, weights, targets, search, fixed=base_params,
        extra_starts=np.array([[*problem.fit.params.values()]]),
    )  # fmt: skip
    failed = ~np.isfinite(refits.objective)
    params = {name: np.where(failed, np.nan, values) for name, values in refits.params.items()}
    count, degrees = len(np.unique(members[problem.active])), degrees_of(problem, kind, members)
    notes = (
        # The fit's own note on loose directions says less than open_notes.
        *(note for note in without_dependence_note(problem.notes, groups) if note.code != "loose"),
        *open_notes(problem, members),
        *_notes(refits, failed, degrees),
    )
    if groups is not None:
        remedy = "kind='wild' needs fewer" if kind == "case" else "add groups"
        effect = f"the variance between groups is only roughly estimated; {remedy}"
        notes += (*few_groups(count, effect),)
    return Bootstrap(
        fit=problem.fit, params=params, objective=refits.objective, agreement=refits.agreement,
        kind=kind, n_groups=count, degrees=degrees, notes=notes, base_params=base_params,
        groups=names_of(groups, len(problem.runs)), problem=problem, refits=refits,
    )  # fmt: skip


def resamples(
    problem: FitWithData, n_resamples: int, kind: Kind, members: np.ndarray, seed: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Weights and targets (R, n) of the resamples; None where they are the runs' own.

    Residuals are used as if their row or group had not been fitted. A fit bends towards its
    points, so that its own residuals are smaller than the noise: in least squares by the factor
    1 − h, h the leverage, which is p/n on average and nearly 1 for a row that alone decides a
    parameter. Draws of such residuals make intervals too short, most where rows are few. Dividing
    by 1 − h undoes it: that is the residual of a fit without the row (HC3); of groups the whole
    block of the hat matrix counts (CR3).
    """
    observations, active = problem.observations, problem.active
    if kind == "case":
        weights = np.zeros((n_resamples, len(observations)))
        counts = resampled_weights(members[active], n_resamples, seed)
        weights[:, active] = counts * observations.weight[active]
        return weights, None
    residuals = problem.linear.residuals[active] + moved_by_leaving_out(problem, members[active])
    drawn = wild_residuals(residuals, n_resamples, seed, members[active])
    if min(problem.fit.delta, LARGEST_DELTA) < residuals.std():
        # How far such a fit moves rests on the density of the noise at 0, which a few residuals
        # there are poor estimates: they are spread by the kernel that the sandwich has for it.
        # The numbers are independent of those that multiply the residuals.
        normal = np.random.default_rng([seed, 1]).standard_normal(drawn.shape)
        drawn = drawn + kernel_width(residuals) * normal
    targets = np.tile(problem.linear.prediction, (n_resamples, 1))
    targets[:, active] -= drawn
    return None, np.exp(targets) if problem.fit_problem.model.residuals == "log" else targets


def degrees_of(problem: FitWithData, kind: str, members: np.ndarray) -> float:
    """Degrees of freedom of intervals: see :class:`Bootstrap`."""
    rows, groups = len(problem.active), len(np.unique(members[problem.active]))
    if groups < rows:
        return float(groups - 1)
    return float(max(rows - len(problem.free_and_inside), 1)) if kind == "wild" else float("inf")


def _notes(refits: Refits, failed: np.ndarray, degrees: float) -> list[Note]:
    """What the resamples were short of."""
    found, total = [], len(failed)
    if failed.any():
        message = f"{failed.sum()} of {total} resamples reached no finite objective: left out"
        found.append(("resamples-failed", message))
    valid, needed = int(total - failed.sum()), fewest_for(1 - 2 * expanded_tail(LEVEL, degrees))
    if valid < needed:
        message = (
            f"{valid} resamples are too few for a {LEVEL:.0%} interval: at least {needed:.3g} "
            "(n_resamples=)"
        )
        found.append(("few-resamples", message))
    # Where few starts were solved, one of them and the fit's optimum led to the same point.
    single = (refits.agreement * refits.n_solved < 1.5) & (refits.n_solved > OWN_STARTS) & ~failed
    if single.mean() > ONE_START:
        message = (
            f"in {single.sum()} of {total} resamples only one start reached the best optimum, so "
            "some may have missed it and widen the intervals: raise n_starts= or n_local="
        )
        found.append(("few-starts-agree", message))
    solved, at = refits.problem, refits.coordinates
    low, high = np.asarray(solved.data.low), np.asarray(solved.data.high)
    at_bound = ((at <= low) | (at >= high)) & (low < high) & ~failed[:, None]
    for name, share in zip(solved.law.parameter_names, at_bound.mean(axis=0), strict=True):
        if share > AT_BOUND:
            message = (
                f"{name} is at a bound of its range in {share:.0%} of the resamples: its interval "
                "ends where the range does"
            )
            found.append(("at-bound", message))
    return [Note(code, "warning", message, inherited=True) for code, message in found]
