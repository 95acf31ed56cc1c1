"""What to know of a fit before its numbers are used, as notes; and its standard errors.

Of the *fit*: whether the search came to one optimum, whether the runs determine the parameters,
and whether the law lacks a term. A high R² and starts that agree say that the optimum was found,
not that the law is right. Where a law lacks a term, its residuals are a smooth function of the
inputs, and a polynomial in them predicts rows that it has not seen. Noise cannot be predicted.

Of the *experiment*: a table may mix corpora, tokenizers, evaluations or versions of the code, its
columns may be swapped, capped or rounded, and a law fits all of that smoothly. What is left to see
are values that no healthy experiment has, and residuals that fall into groups: by a column the law
does not use, by the order of the rows, by size, or by nothing in the table. Whatever the fit and a
smooth function of the inputs can take up is removed from the groups before they are judged.
``benchmarks/bad_experiments.md`` has how often each defect is seen, and that no healthy table of
252 is doubted.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy  # scipy.special takes 0.3 s to import, and scipy imports it where it is used

from jaxlaw._arrays import number_in
from jaxlaw._quantities import single_things
from jaxlaw._rounding import ROUNDING, first_largest, ranks
from jaxlaw.data import AREAS, Observations, RunGroups, dependence_note, known_columns
from jaxlaw.errors import listed, name_rows
from jaxlaw.fitting._multistart import Optimum
from jaxlaw.fitting._objective import AGREE, smoothed_score
from jaxlaw.fitting._problem import FitProblem, Linearisation
from jaxlaw.fitting._result import StandardErrors
from jaxlaw.fitting._standard_errors import sandwich_root, standard_errors
from jaxlaw.fitting.solvers import Status
from jaxlaw.laws import Law
from jaxlaw.notes import DEPENDENT_ROWS, Note

# ---------------------------------------------------------------- of the optimum
FEW = 0.1  # of the starts agree: warn
NEARLY_ALL = 0.9  # of the scatter that is left: so slight a bend gets no note
EXACT = 1e-9  # residuals of the log that are rounding
FLOOR = 1e-3  # chance of a bend that calls for an irreducible loss, where there is none
WEAK = 0.8  # R²: noise and random walks reach 0.5, seldom this
SAME = 1e-2  # relative distance of parameters that count as the same place
LOOSE = 0.5  # relative standard error: 0 or infinity is then within two of them
# ---------------------------------------------------------------- of residuals
FOLDS = 10
SHARE = 0.1  # of the residual variance predicted out of fold from which on the law is in doubt
SURE = 3.0  # standard errors by which that share must exceed zero
CHANCE = 1e-3  # probability below which means of repeated rows, or of groups, are no chance
FAR = 6.0  # robust standard deviations from which on a row is an outlier
_CLIP = 3.0  # robust standard deviations at which residuals are clipped: one row is no surface
_NOTHING = 1e-5  # of the target: too small to matter, and within reach of rounding
_RANK = 1e-6  # of a column: less of it is what the columns before it hold already, and rounding
_NORMAL = 1.4826  # median absolute deviation → standard deviation of a normal distribution
# ---------------------------------------------------------------- of the experiment
VOCABULARY = 1_000_000  # tokens, more than any tokenizer has
RATES = ("lr", "learning_rate", "peak_lr", "max_lr", "peak_learning_rate")
COARSE = 0.5  # of the scatter: rounding by as much hides what the law leaves
PILED = 2  # times as many rows at the largest D as at any other: a cap, or a design
WIDE = 10.0  # factor in N from which on one learning rate cannot be best for all sizes
FOLLOWS = 0.25  # of its variance at most is left of what rises and falls with inputs
APART = 0.1  # of the residual variance that a group must explain
# Of the residual variance, within the two groups that leave least: the most that is left of two
# kinds. Normal residuals leave 36%, evenly spread ones 25%, the two ends of a smooth misfit 19%;
# by chance fewer rows leave less, 0.33 − 1/√spare in 1 of 1,000 tables.
ONE_KIND = 0.17
ALIKE = 0.7  # of the largest sum of squares: an explanation about as good
FEWEST = 0.15  # of the rows, below which what is far off is a matter of outliers
_ROUNDS = 20
_STARTS = 8  # of the search for two groups, beside the residuals themselves
_MANY = 2000  # rows, from which on the residuals themselves are start enough
_EACH = 3  # rows each side of a difference
_LEVELS = 8  # of a column, more are no groups
_MOST = 5000  # rows in which groups are looked for
_COLUMNS = 100  # the first so many of a wide table


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals of a fit with what they are judged by; all rows in one order.

    Attributes:
        target, off: (n,) what is fitted, and what of it the law leaves; logarithms where ``log``.
        slopes: (n, k) slopes of the law in the free coordinates; no misfit shows along them.
        inputs: name → (n,), or (n, K) for an input per LR drop, which is left out.
        weight: (n,) weight of each row; rows of weight 0 do not count.
        rows: (n,) what the rows are called.
        word: word for a row: ``line``, ``record``, ``row``.
        log: whether residuals are of logarithms.
        runs: the runs that rows may be checkpoints of, or None.
        others: (n rows) columns of the user's table that the law does not use, or None.
        order: (n,) where in the user's table the rows are, or None.
    """

    target: np.ndarray
    off: np.ndarray
    slopes: np.ndarray
    inputs: Mapping[str, np.ndarray]
    weight: np.ndarray
    rows: np.ndarray
    word: str
    log: bool
    runs: RunGroups | None = None
    others: pd.DataFrame | None = None
    order: np.ndarray | None = None

    @classmethod
    def of(
        cls, seen: Observations, target: np.ndarray, off: np.ndarray, slopes: np.ndarray, log: bool
    ) -> Residuals:
        """Those of observations, with the columns of their table that the law does not use."""
        made = cls(
            target, off, slopes, seen.inputs, seen.weight, seen.rows, seen.word, log, seen.runs,
            seen.others, np.asarray(seen.positions),
        )  # fmt: skip
        return made.at(made.weight > 0)

    def at(self, kept: np.ndarray) -> Residuals:
        """Those of the rows of a mask."""
        if kept.all():
            return self
        arrays = ("target", "off", "slopes", "weight", "rows", "others", "order")
        return replace(
            self,
            inputs={name: values[kept] for name, values in self.inputs.items()},
            runs=None if self.runs is None else self.runs.rows(np.flatnonzero(kept)),
            **{k: v[kept] for k in arrays if (v := getattr(self, k)) is not None},
        )

    @property
    def spare(self) -> int:
        """How many rows there are beyond the free parameters."""
        return len(self.off) - self.slopes.shape[1]

    @property
    def finite(self) -> bool:
        """Whether there is anything to judge."""
        return bool(np.isfinite(self.off).all() and np.isfinite(self.slopes).all())

    @cached_property
    def scatter(self) -> float:
        """Robust standard deviation of the noise.

        A fit with a small Huber threshold passes through as many rows as it has parameters:
        these say nothing of the noise and are left out.
        """
        count, free = self.slopes.shape
        distances = np.sort(np.abs(self.off - np.median(self.off)))[min(free, count - 1) :]
        return max(_NORMAL * float(np.median(distances)), self.negligible)

    @cached_property
    def clipped(self) -> np.ndarray:
        """(n,) what the law leaves, but for the size of outliers."""
        middle, reach = float(np.median(self.off)), _CLIP * self.scatter
        return np.clip(self.off, middle - reach, middle + reach)

    @property
    def negligible(self) -> float:
        """A negligible residual."""
        return _NOTHING * (1.0 if self.log else float(np.mean(np.abs(self.target))))

    @cached_property
    def ranks(self) -> dict[str, np.ndarray]:
        """Input → (n,) ranks of its values, of those with one value a row."""
        return {name: ranks(v) for name, v in self.inputs.items() if np.ndim(v) == 1}

    @cached_property
    def axes(self) -> dict[str, np.ndarray]:
        """Input → (n,) on −1 to 1, logarithmic where it spans a factor of three; none if constant.

        These are what polynomials are made of.
        """
        axes = {}
        for name in (name for name, rank in self.ranks.items() if rank.any()):
            values = np.asarray(self.inputs[name], float)
            low, high = values.min(), values.max()
            if low > 0 and high > 3 * (1 + ROUNDING) * low:
                values, low, high = np.log(values), np.log(low), np.log(high)
            axes[name] = 2 * (values - low) / (high - low) - 1
        return axes

    @cached_property
    def points(self) -> np.ndarray:
        """(n,) the number, from 0, of the point of the design that each row is at."""
        per_drop = (column for name, values in self.inputs.items() if name not in self.ranks
                    for column in np.asarray(values, float).T)  # fmt: skip
        rows = np.stack([*self.ranks.values(), *map(ranks, per_drop)], axis=1)
        return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)

    @cached_property
    def root(self) -> np.ndarray:
        """(n,) roots of the weights, whose mean is 1."""
        return np.sqrt(self.weight / self.weight.mean())

    def polynomials(self, most: int) -> np.ndarray:
        """Powers and products of the axes, (n, m) with m ≤ ``most``; m is 0 where none are so few.

        Of total degree 3 if these are few enough, else of degree 2, else powers alone.
        """
        axes = [*self.axes.values()]
        terms = _terms(len(axes), most)
        columns = [math.prod([axes[k] for k in term[1:]], start=axes[term[0]]) for term in terms]
        return np.stack(columns, axis=1) if columns else np.empty((len(self.off), 0))

    @cached_property
    def _bases(self) -> dict[int, np.ndarray]:
        """Number of polynomials → basis; of none, what the fit can take up."""
        of_fit = np.column_stack([np.ones(len(self.off)), self.slopes])
        return {0: _orthonormal(_of_unit_length(of_fit * self.root[:, None]))}

    def basis(self, most: int = 0) -> np.ndarray:
        """Orthonormal (n, m), of rows times √weight: what the fit takes up, then polynomials."""
        count = len(_terms(len(self.axes), most))
        if count not in self._bases:
            basis = self._bases[0]
            beyond = _of_unit_length(self.polynomials(most) * self.root[:, None])
            for _ in range(2):  # once leaves rounding of what it removes, twice leaves none
                beyond = _orthonormal(beyond - basis @ (basis.T @ beyond))
            self._bases[count] = np.column_stack([basis, beyond])
        return self._bases[count]

    def follows(self, values: np.ndarray) -> bool:
        """Whether (n,) values rise or fall with the inputs, so that they are nothing of their own.

        Rows sorted by one of few sizes, then by tokens, are a staircase: so ranks as well.
        """
        varying = [self.ranks[name] for name in self.axes]
        columns = np.column_stack([np.ones(len(values)), *self.axes.values(), *varying])
        left, singular, _ = np.linalg.svd(columns, full_matrices=False)
        left = left[:, singular > 1e-9 * singular[0]]
        return bool((values - left @ (left.T @ values)).var() < FOLLOWS * values.var())

    def size(self, value: float) -> str:
        """A residual in words: a percentage of the target, or a number in its unit."""
        with np.errstate(over="ignore"):  # of losses that do not occur
            return f"{np.expm1(value):+.2%}" if self.log else f"{value:+.2g}"


def diagnosed(
    problem: FitProblem,
    observations: Observations,
    optimum: Optimum,
    linear: Linearisation,
    natural: Mapping[str, np.ndarray],
    metrics: Mapping[str, float],
) -> tuple[list[Note], StandardErrors]:
    """Every note on an optimum, and the standard errors of its parameters.

    Args:
        problem: the problem.
        observations: its rows, in its order.
        optimum: the optimum, and the evidence for it.
        linear: the problem linear around it.
        natural: parameter → (1 + k,) values of the optimum, and of starts that agree with it.
        metrics: of the fit, as :func:`jaxlaw.fitting.metrics` has them.
    """
    law, data, status = problem.law, problem.unpadded, Status(optimum.status)
    params = {name: float(values[0]) for name, values in natural.items()}
    bound = problem.active_bounds(optimum.coordinates)
    moving = problem.free_and_inside(optimum.coordinates)
    residuals = Residuals.of(
        observations, data.target, -linear.residuals, linear.jacobian[:, moving],
        problem.model.residuals == "log",
    )  # fmt: skip
    # Why there may be a better optimum: the remedy of all three is more starts.
    doubts = []
    if status != Status.CONVERGED:
        doubts.append(f"the best start ended with status '{status.label}'. {status.message}")
    if optimum.agreement < FEW:
        doubts.append(
            f"only {optimum.agreement:.1%} of the solved starts reached the best objective, so a "
            "better optimum may exist: try more starts (n_starts=)"
        )
    if optimum.disagreement > AGREE:
        doubts.append(
            "the batch solver's optimum and jaxopt's L-BFGS differ by "
            f"{optimum.disagreement:.1e} of the objective; the better one is reported"
        )
    notes = [Note("few-starts-agree", "warning", text, True) for text in doubts]
    if not metrics["r2"] > 0.5:
        message = f"R² is {metrics['r2']:.3g}: the law does not describe these runs"
        notes.append(Note("poor-fit", "error", message, True))
    elif metrics["r2"] < WEAK:
        # In the pass of benchmarks/robustness.md over random walks, 10 of 13 lie below this.
        message = (
            f"R² is {metrics['r2']:.3g}: the law leaves much of the variance between runs "
            "unexplained; look for outliers or a missing input, and report intervals"
        )
        notes.append(Note("poor-fit", "warning", message, True))
    notes += [
        Note("at-bound", "warning", text, True) for text in _at_bounds(problem, bound, params)
    ]
    agreeing = np.stack([*natural.values()])[:, 1:]
    relative = np.ptp(agreeing, axis=1) / np.maximum(np.abs(np.median(agreeing, axis=1)), 1e-12)
    free = {*problem.options.free(law)} - {*bound}
    spread = {k: size for k, size in zip(natural, relative.tolist(), strict=True) if k in free}
    ridge = [name for name, size in spread.items() if size > SAME]
    together, unseen = _undetermined(problem, residuals, moving)
    if ridge:
        together.append(
            f"starts with the same objective differ in {', '.join(ridge)} (by up to "
            f"{100 * max(spread[name] for name in ridge):.2g}%): rely on predictions alone"
        )
    if together:
        notes.append(Note("unidentifiable", "warning", "; ".join(together), True))
    if not unseen:
        notes += _loose_notes(problem, residuals, moving, params, linear)
    notes += _floor_notes(law, residuals)
    ranges = {name: (v.min(), v.max()) for name, v in observations.inputs.items()}
    for note, size in law.requirements(law, params, ranges) if law.requirements else ():
        if size <= metrics["rmse_log"]:
            of_runs = f"this is within the run-to-run scatter, {metrics['rmse_log']:.2%}"
            note = replace(note, severity="info", message=f"{note.message}; {of_runs}")
        notes.append(note)
    of_residuals = residual_notes(residuals)
    codes = {note.code for note in of_residuals}
    errors = standard_errors(
        problem, optimum.coordinates, linear, status, {*ridge, *unseen},
        observations.runs if DEPENDENT_ROWS in codes else None,
    )  # fmt: skip
    of_experiment = experiment_notes(law, residuals, misfit="lack-of-fit" in codes)
    return [*notes, *of_residuals, *of_experiment], errors


# ---------------------------------------------------------------------------- the optimum


def _at_bounds(
    problem: FitProblem, bound: Mapping[str, str], params: Mapping[str, float]
) -> Iterator[str]:
    law = problem.law
    for name, side in bound.items():
        by_user, chart = name in problem.options.bounds, law.chart if problem.model.chart else None
        if law.constraint is not None and name == law.constraint.raises:
            continue  # reported with its cost as an active constraint
        if chart and (limit := chart.limits.get((name, side))):
            yield limit
        elif law.parameter(name).scale == "log" and side == "low" and not by_user:
            yield f"{name} has gone to zero ({params[name]:.3g}): its term is not needed"
        else:
            # A chart may turn a range round.
            end = "an end" if chart and name in chart.low else f"the {side} end"
            whose = "your bound" if by_user else f"{end} of its range"
            yield f"{name} is at {whose} ({params[name]:.6g}); its true optimum may lie beyond"


def _undetermined(
    problem: FitProblem, residuals: Residuals, moving: np.ndarray
) -> tuple[list[str], list[str]]:
    """Directions the data hardly see, by the spectrum of the Gauss–Newton Hessian; their names."""
    names = [problem.law.parameter_names[k] for k in moving]
    jacobian = residuals.slopes * np.sqrt(residuals.weight)[:, None]
    size = np.linalg.norm(jacobian, axis=0)
    if not names or not np.isfinite(jacobian).all():
        return [], []
    unseen = [name for name, norm in zip(names, size, strict=True) if norm <= 1e-9 * size.max()]
    if unseen:
        return [f"the data do not determine {', '.join(unseen)}: fix it, or drop its term"], unseen
    _, singular, rotation = np.linalg.svd(jacobian / size, full_matrices=False)
    if len(singular) == len(names) and singular[-1] > 1e-5 * singular[0]:
        return [], []
    unseen = [name for name, part in zip(names, np.abs(rotation[-1]), strict=True) if part > 0.2]
    message = (
        f"the data determine only a combination of {', '.join(unseen)} (condition number "
        f"{singular[0] / max(singular[-1], 1e-300):.0e}): fix one, or add runs that separate them"
    )
    return [message], unseen


def _loose_notes(
    problem: FitProblem, residuals: Residuals, moving: np.ndarray, params: Mapping[str, float],
    linear: Linearisation,
) -> list[Note]:  # fmt: skip
    """Parameters that the data bound on one side at most: zero, or infinity, fits as well.

    By slopes of log |parameter|, a coefficient counted at the geometric mean of the data: how well
    A is known in A/N^α depends on the unit of N; how well A/N0^α is known does not.
    """
    data, some, count = problem.unpadded, residuals, len(residuals.off)
    score, score_slope = smoothed_score(-some.off, float(data.delta), float(data.asymmetry))
    if not len(moving) or not some.finite or not np.isfinite(score).all():
        return []
    root, _ = sandwich_root(some.slopes, some.weight, score, score_slope, np.arange(count))
    slopes = dict(zip(problem.law.parameter_names, linear.params_jacobian, strict=True))
    loose = {}
    for k in moving:
        spec = problem.law.parameters[k]
        shift, moved = 0.0, np.zeros(len(slopes))
        for name, exponent in (spec.centre or {}).items():
            if isinstance(exponent, str):
                middle = np.log(residuals.inputs[name]).mean()
                middle = -middle if exponent.startswith("-") else middle
                shift += middle * params[exponent.lstrip("-")]
                moved += middle * slopes[exponent.lstrip("-")]
        value, slope = params[spec.name], slopes[spec.name]
        if spec.scale == "linear":  # it is a logarithm itself: its unit adds
            relative = (slope - moved) / (abs(value - shift) or 1.0)
        else:
            relative = slope / (abs(value) or 1.0) - moved
        error = float(np.linalg.norm(root @ relative[moving]))
        if error > LOOSE and spec.domain != "signed":
            loose[spec.name] = error
    if not loose:
        return []
    named = ", ".join(f"{name} (±{error:.0%})" for name, error in loose.items())
    message = (
        f"these runs barely constrain {named}, from above or below: fix it, or see "
        "jl.identifiability"
    )
    return [Note("loose", "warning" if max(loose.values()) > 1 else "info", message)]


def _floor_notes(law: Law, residuals: Residuals) -> list[Note]:
    """Whether the residuals of a law that falls to zero ask for an irreducible loss.

    A score test: a constant added to the law moves the log of a prediction by one over that
    prediction. What of this the law's own parameters cannot do is held against the residuals,
    those of outliers shortened.
    """
    if not law.with_floor:
        return []
    logs, target = residuals.target - residuals.off, residuals.target
    if not residuals.log:
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes, logs, target = residuals.slopes / logs[:, None], np.log(logs), np.log(target)
        residuals = replace(residuals, target=target, off=target - logs, slopes=slopes, log=True)
    if not residuals.finite or residuals.spare < 3:
        return []
    left = _Projected.of(residuals)
    bend, spare = left.apart(np.exp(-logs) * residuals.root), left.spare - 1
    size, before, along = bend @ bend, left.y @ left.y, left.y @ bend
    if size <= 0 or before <= EXACT**2 * len(logs):
        return []
    after = max(before - along**2 / size, 1e-12 * before)
    certainty = along / np.sqrt(size * after / spare)
    if scipy.special.stdtr(spare, -certainty) > FLOOR or after > NEARLY_ALL**2 * before:
        return []
    message = (
        f"the loss levels off as in law {law.with_floor}: an irreducible loss, which law "
        f"{law.name} lacks, would cut the residual scatter to "
        f"{np.sqrt(after / before):.0%} or less; the two laws differ most beyond the runs"
    )
    return [Note("no-floor", "warning", message, True)]


# ---------------------------------------------------------------------------- residuals


def residual_notes(residuals: Residuals) -> list[Note]:
    """Notes ``dependent-rows``, ``lack-of-fit`` and ``outliers``, where residuals give reason."""
    if not residuals.finite:
        return []
    notes, members, runs = [], residuals.points, residuals.runs
    if runs is not None and runs.count > 1 and residuals.clipped.std() >= residuals.negligible:
        unexplained, smooth = (
            _Projected.of(residuals, most).off for most in (0, (residuals.spare - 1) // 4)
        )
        if note := dependence_note(runs, unexplained, smooth):
            notes.append(note)
            # What rows of a run share would be "predicted" by other rows of it: held out whole.
            _, members = np.unique(runs.members, return_inverse=True)
    parts = _smooth_part(residuals, members.reshape(-1)), _off_repeated_rows(residuals)
    if any(parts):
        message = (
            f"{'; '.join(filter(None, parts))}; the error may be larger beyond these runs: try a "
            "law with another term, or fit runs closer to the target"
        )
        notes.append(Note("lack-of-fit", "warning", message, True))
    count, spare, scatter = len(residuals.off), residuals.spare, residuals.scatter
    if spare < 5:
        return notes
    # The median of few absolute deviations is uncertain itself: it is worth 37% of as many
    # degrees of freedom, and what is far is a matter of Student's t.
    usual = float(scipy.special.stdtrit(max(0.37 * spare, 1.0), 1 - CHANCE / (2 * count)))
    out = np.flatnonzero(np.abs(residuals.off) > max(FAR, usual) * scatter)
    if len(out):
        out = out[np.argsort(-ranks(np.abs(residuals.off[out])), kind="stable")]
        sizes = [residuals.size(residuals.off[k]) for k in out]
        message = (
            f"outliers against a robust scatter of {residuals.size(scatter).lstrip('+')}: "
            f"{name_rows(residuals.word, residuals.rows[out], sizes)}; check what is different "
            "about them, and drop the ones that do not belong with where="
        )
        notes.append(Note("outliers", "warning", message))
    return notes


def _terms(count: int, most: int) -> list[tuple[int, ...]]:
    """Which of so many axes the polynomials multiply, see :meth:`Residuals.polynomials`."""
    every = itertools.combinations_with_replacement
    first, second, third = ([*every(range(count), degree)] for degree in (1, 2, 3))
    choices = (first + second + third, first + second, first + [(k, k) for k in range(count)])
    return next((terms for terms in choices if 0 < len(terms) <= most), [])


def _of_unit_length(columns: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(columns, axis=0)
    return columns / np.where(size > 0, size, 1.0)


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    # By singular values: a QR without pivoting goes on from directions that are rounding, and
    # what it makes orthogonal to them no longer spans the later columns.
    basis, singular, _ = np.linalg.svd(columns, full_matrices=False)
    return basis[:, singular > _RANK]


def _smooth_part(residuals: Residuals, members: np.ndarray) -> str:
    """What a polynomial in the inputs predicts of the residuals of rows it has not seen.

    Args:
        residuals: the residuals.
        members: (n,) number of the point of the design, or of the run, that each row is of.
    """
    points, root = int(members.max()) + 1, residuals.root
    basis, of_fit = (
        residuals.basis((points - residuals.slopes.shape[1] - 1) // 4),
        residuals.basis(),
    )
    first = of_fit.shape[1]
    if points < FOLDS or basis.shape[1] == first:
        return ""
    target = residuals.clipped * root
    # Rows of one point of the design, or of one run, stay together.
    fold = (np.random.default_rng(0).permutation(points) % FOLDS)[members]
    folds = [fold == k for k in range(FOLDS)]

    def square(basis):
        """(n,) squares of what least squares by the other folds leave of each row."""
        parts, targets = [basis[rows] for rows in folds], [target[rows] for rows in folds]
        # The Gram matrix of all rows is the identity; a fold is subtracted from it.
        grams = np.eye(basis.shape[1]) * (1 + 1e-9) - np.array([part.T @ part for part in parts])
        sums = np.array([part.T @ own for part, own in zip(parts, targets, strict=True)])
        by_others = np.linalg.solve(grams, (basis.T @ target - sums)[..., None])[..., 0]
        predicted = np.zeros(len(target))
        for rows, part, found in zip(folds, parts, by_others, strict=True):
            predicted[rows] = part @ found
        return (target - predicted) ** 2

    plain = square(of_fit)
    gain = np.bincount(members, plain - square(basis))
    spread = np.sqrt(np.sum((gain - gain.mean()) ** 2))
    share = gain.sum() / max(np.sum(plain), 1e-300)
    whole = basis[:, first:] @ (basis[:, first:].T @ target) / root
    most = first_largest(np.abs(whole))
    typical = float(np.sqrt(np.average(whole**2, weights=residuals.weight)))
    if not (share > SHARE and gain.sum() > SURE * spread and typical >= residuals.negligible):
        return ""
    mean, worst = residuals.size(typical).lstrip("+"), residuals.size(whole[most])
    return (
        f"a smooth function of {', '.join(residuals.axes)} predicts {share:.0%} of the residual "
        f"variance of held-out rows: the runs deviate from the law by {mean} on average, by "
        f"{worst} near {residuals.word} {residuals.rows[most]}"
    )


def _off_repeated_rows(residuals: Residuals) -> str:
    """The classical lack-of-fit F: means of rows of equal inputs, against their own scatter."""
    members, (count, free) = residuals.points, residuals.slopes.shape
    points = int(members.max()) + 1
    between, within = points - free, count - points
    if between < 1 or within < 3:
        return ""
    off, weight = residuals.off, residuals.weight
    means = np.bincount(members, weight * off) / np.bincount(members, weight)
    inner = float(np.sum(weight * (off - means[members]) ** 2))
    outer = float(np.sum(weight * means[members] ** 2))
    if not inner > within * residuals.negligible**2:  # copies, which are no repeats
        return ""
    ratio = (outer / between) / (inner / within)
    chance = float(scipy.special.fdtrc(between, within, ratio))
    if chance > CHANCE or ratio < 2:
        return ""
    sizes = [np.sqrt(inner / within / weight.mean()), np.sqrt(outer / weight.sum())]
    pure, lack = (residuals.size(size).lstrip("+") for size in sizes)
    return (
        f"rows of equal inputs scatter by {pure}, and their means deviate from the law by {lack} "
        f"(F = {ratio:.3g} with {between} and {within} degrees of freedom, p = {chance:.0e})"
    )


# ---------------------------------------------------------------------------- the experiment


class _Projected(NamedTuple):
    """What the fit leaves: residuals y (n,) orthogonal to the columns of Q (n, m), by √weight."""

    Q: np.ndarray
    y: np.ndarray
    root: np.ndarray

    @classmethod
    def of(cls, residuals: Residuals, most: int = 0) -> _Projected:
        """Beyond the fit, and beyond at most so many polynomials in the inputs."""
        basis, target = residuals.basis(most), residuals.clipped * residuals.root
        return cls(basis, target - basis @ (basis.T @ target), residuals.root)

    @property
    def spare(self) -> int:
        return len(self.y) - self.Q.shape[1]

    @property
    def off(self) -> np.ndarray:
        return self.y / self.root

    def apart(self, columns: np.ndarray) -> np.ndarray:
        """What of columns (n, q) the fit cannot take up."""
        return columns - self.Q @ (self.Q.T @ columns)

    def group(self, columns: np.ndarray, tried: int, text: str) -> _Group:
        """What columns (n, q) explain, which are one of so many that were tried."""
        columns = columns * self.root[:, None]
        left, singular, _ = np.linalg.svd(self.apart(columns), full_matrices=False)
        left = left[:, singular > 1e-3 * np.linalg.norm(columns)]
        part, count = left @ (left.T @ self.y), left.shape[1]
        share, spare = float(part @ part / (self.y @ self.y)), self.spare - count
        chance = 1.0
        if count and spare >= _EACH:  # the probability of F that noise has such a share
            ratio = share / count / max((1 - share) / spare, 1e-300)
            chance = float(scipy.special.fdtrc(count, spare, ratio))
        return _Group(chance * tried, float(part @ part), text, (self.y - part) / self.root)


class _Group(NamedTuple):
    """Rows whose residuals differ from the others'.

    Attributes:
        chance: probability that noise alone does as much, for all that was tried of the kind.
        square: sum of squares that it explains.
        text: what the rows are, and by how much they are off.
        rest: (n,) residuals without the difference.
    """

    chance: float
    square: float
    text: str
    rest: np.ndarray


def experiment_notes(law: Law, residuals: Residuals, *, misfit: bool = False) -> list[Note]:
    """Notes ``doubtful-values`` and ``mixed-runs``, where the runs give reason.

    Args:
        law: the law.
        residuals: of its fit.
        misfit: whether the law lacks a term, whose two ends are no groups.
    """
    if not residuals.finite:
        return []
    notes = [
        Note("doubtful-values", "warning", text, True) for text in _doubtful_values(law, residuals)
    ]
    every = -(-len(residuals.off) // _MOST)
    if every > 1:  # of very many rows a sample shows groups as well
        residuals = residuals.at(np.arange(len(residuals.off)) % every == 0)
    if text := _mixed(law, residuals, misfit):
        message = (
            f"{text}; one law cannot describe both: check what differs (corpus, tokenizer, "
            "evaluation, schedule, code), and fit them separately"
        )
        notes.append(Note("mixed-runs", "warning", message, True))
    return notes


def _sizes(law: Law, residuals: Residuals) -> dict[str, np.ndarray]:
    """N and D of a law that has both, in parameters and tokens; else nothing."""
    units = {spec.name: spec.unit for spec in law.inputs if spec.name in ("N", "D")}
    return {k: residuals.inputs[k] * units[k] for k in ("N", "D")} if len(units) == 2 else {}


def _doubtful_values(law: Law, residuals: Residuals) -> Iterator[str]:
    """Values that no healthy experiment has."""
    target, others = residuals.target, residuals.others
    target = np.exp(target) if residuals.log else target
    count, spare, sizes = len(target), residuals.spare, _sizes(law, residuals)
    # Losses above that of a guess among all tokens.
    if law.target == "loss" and target.min() > math.log(VOCABULARY):
        yield (
            f"the lowest loss is {target.min():.4g}, above the {math.log(VOCABULARY):.1f} nats of "
            f"a uniform guess over {VOCABULARY:,} tokens: are these percent, perplexities or sums? "
            "Pass nats per token"
        )
    continual = law.from_base or any(spec.domain == "fraction" for spec in law.inputs)
    if sizes and not continual:  # whose tokens may be few
        below = int((sizes["D"] < sizes["N"]).sum())
        if 2 * below > count:
            yield (
                f"D is below N in {below} of {count} rows, fewer tokens than parameters: are "
                "the two columns swapped, or is D counted in sequences or steps?"
            )
    # The coarsest decimal or binary grid that all values lie on. A law with nearly as many
    # parameters as rows passes through them and leaves no scatter to compare it with.
    steps = np.sort([*(10.0**-k for k in range(4)), *(2.0**-k for k in range(1, 11))])[::-1]
    multiples = target[:, None] / steps
    on_grid = (np.abs(multiples - np.rint(multiples)) < 1e-6).all(axis=0)
    if spare >= 2 * _EACH and on_grid.any():
        step = float(steps[on_grid][0])
        relative = step / (float(np.mean(np.abs(target))) if residuals.log else 1.0)
        if relative / np.sqrt(12) >= COARSE * float(np.std(residuals.off)):
            yield (
                f"the target is rounded to {step:g}, {residuals.size(relative).lstrip('+')} of it, "
                "which is most of the residual scatter: export the runs with more digits"
            )
    if not sizes:
        return
    # Many rows at the largest D, whose losses differ by what D does not say.
    rank = residuals.ranks["D"]
    rows = np.bincount(rank)
    piled = len(rows) > 1 and rows[-1] >= max(_EACH, PILED * rows[:-1].max())
    if piled and spare >= 2 * _EACH:
        left, at = _Projected.of(residuals), rank == rank.max()
        ratio = np.mean(left.y[at] ** 2) / max(np.mean(left.y[~at] ** 2), residuals.negligible**2)
        free = [max(1.0, k.sum() * left.spare / count) for k in (at, ~at)]
        if ratio > 2 and scipy.special.fdtrc(*free, ratio) < 0.01:
            yield (
                f"{rows[-1]} of {count} rows have the same largest D, {sizes['D'].max():.3g}, and "
                f"residuals {np.sqrt(ratio):.1f} times the others': is D capped in the log?"
            )
    factor = sizes["N"].max() / sizes["N"].min()
    for name, values in others.items() if others is not None and factor >= WIDE else ():
        if str(name).lower() not in RATES or not pd.api.types.is_numeric_dtype(values):
            continue
        if values.nunique(dropna=False) == 1 and values.notna().all():
            yield (
                f"column {name} is {values.iloc[0]} in every row, for sizes that differ by a "
                f"factor of {factor:.0f}: unless the learning rate is scaled elsewhere (μP), it is "
                "too high for the largest runs and raises their loss"
            )


def _mixed(law: Law, residuals: Residuals, misfit: bool) -> str:
    """What distinguishes runs of two kinds; empty where they are of one."""
    if residuals.spare < 2 * _EACH:
        return ""
    left = _Projected.of(residuals, (residuals.spare - 1) // 4)
    if left.spare < 2 * _EACH or left.y.std() < residuals.negligible:
        return ""
    everything, runs = _Projected.of(residuals), residuals.runs
    found = [*_by_column(residuals, left), *_by_order(residuals, left)]
    found += [] if misfit else _by_size(residuals, left, _sizes(law, residuals))
    least = APART * (everything.y @ everything.y)
    found = [group for group in found if group.chance < CHANCE and group.square > least]
    if runs is not None and runs.count > 1:
        # Rows that may be of one run must be independent once the group is accounted for.
        found = [group for group in found if not dependence_note(runs, group.rest, group.rest)]
    # In the target's own unit the noise differs from row to row, which looks like groups.
    if not found and residuals.log:
        return _two_clusters(residuals, left if misfit else everything)
    # What a column names comes first, and is more than a place that explains it about as well.
    most = max((group.square for group in found), default=0.0)
    return next((group.text for group in found if group.square > ALIKE * most), "")


def _by_column(residuals: Residuals, left: _Projected) -> Iterator[_Group]:
    """Columns of few values, each in several rows, that do not rise and fall with the inputs."""
    columns = {}
    others = {} if residuals.others is None else residuals.others
    for name, values in itertools.islice(others.items(), _COLUMNS):
        try:
            codes, labels = pd.factorize(values, use_na_sentinel=False)
        except TypeError:  # lists and the like
            continue
        if not 2 <= len(labels) <= _LEVELS or np.bincount(codes).min() < _EACH:
            continue
        labels = np.asarray(labels)
        in_order = (codes[np.lexsort((codes, rank))] for rank in residuals.ranks.values())
        if any(np.sum(rows[1:] != rows[:-1]) < len(labels) for rows in in_order):
            continue  # levels that are ranges of one input, such as classes of size
        if labels.dtype.kind in "iuf" and np.isfinite(labels).all():
            if residuals.follows(np.argsort(np.argsort(labels))[codes].astype(float)):
                continue
        columns[name] = codes, labels
    single = [residuals.inputs[name] for name in residuals.ranks]
    axes = [np.log(values) for values in single if values.min() > 0]
    axes = [(axis - axis.mean()) / axis.std() for axis in axes if axis.std() > 0]
    for name, (codes, labels) in columns.items():
        of_level = np.eye(len(labels))[codes][:, 1:]
        means = np.bincount(codes, left.off) / np.bincount(codes)
        high, low = int(np.argmax(means)), int(np.argmin(means))
        text = (
            f"residuals depend on column {name}, which the law does not use: {labels[high]} "
            f"differs by {residuals.size(means[high] - means[low])} from {labels[low]}"
        )
        for kind in (of_level, np.hstack([of_level, *(of_level * a[:, None] for a in axes)])):
            yield left.group(kind, 2 * len(columns), text)


def _by_order(residuals: Residuals, left: _Projected) -> Iterator[_Group]:
    """A step in the order of the table, where that is nothing of the inputs'."""
    if residuals.order is None:
        return
    ranked = np.argsort(residuals.order, kind="stable")
    place = np.argsort(ranked).astype(float)
    if residuals.follows(place):
        return
    best = _best_split(left, ranked, np.arange(_EACH, len(place) - _EACH + 1))
    if best is None:
        return
    split, tried = best
    later = place >= split
    means = [float(left.off[side].mean()) for side in (later, ~later)]
    text = (
        f"rows from {residuals.word} {residuals.rows[ranked[split]]} on differ by "
        f"{residuals.size(means[0] - means[1])} from the rows before, in table order"
    )
    yield left.group(later[:, None].astype(float), tried, text)


def _by_size(
    residuals: Residuals, left: _Projected, sizes: dict[str, np.ndarray]
) -> Iterator[_Group]:
    """A step in N or D: no law has one, and a bend at the same size does not explain it."""
    if len(residuals.inputs) > len(sizes):  # laws of more inputs may bend in more ways
        return
    for name, values in sizes.items():
        rank = residuals.ranks[name]
        ranked = np.argsort(rank, kind="stable")
        at = np.flatnonzero(np.diff(rank[ranked])) + 1
        best = _best_split(left, ranked, at[(at >= _EACH) & (at <= len(values) - _EACH)])
        if best is None:
            continue
        split, tried = best
        larger, beyond = rank >= rank[ranked[split]], left
        bend = np.maximum(np.log(values / values[ranked[split]]), 0)[:, None] * left.root[:, None]
        apart = left.apart(bend)
        if (length := np.linalg.norm(apart)) > 1e-3 * np.linalg.norm(bend):
            unit = apart / length
            beyond = _Projected(
                np.hstack([left.Q, unit]), left.y - unit @ (unit.T @ left.y), left.root
            )
        means = [float(left.off[side].mean()) for side in (larger, ~larger)]
        text = (
            f"runs with {name} ≥ {values[ranked[split]]:.3g} are "
            f"{'higher' if means[0] > means[1] else 'lower'} than the smaller ones predict, by a "
            "step that no smooth law has"
        )
        step = larger[:, None].astype(float)
        both = (of.group(step, tried, text) for of in (left, beyond))
        yield max(both, key=lambda group: group.chance)


def _best_split(left: _Projected, ranked: np.ndarray, at: np.ndarray) -> tuple[int, int] | None:
    """Where a step explains most, rows in an order; and how many places were tried."""
    if not len(at):
        return None
    Q, y, root = left.Q[ranked], left.y[ranked], left.root[ranked]
    # A step from k on has the sums of the rows before k as its products, but for the sign.
    sums = (Q * root[:, None]).cumsum(axis=0)[at - 1]
    size = (root**2).cumsum()[at - 1]
    apart = size - (sums**2).sum(axis=1)
    seen = apart > 0.02 * size * (1 - size / (root @ root))
    if not seen.any():
        return None
    share = np.where(seen, (y * root).cumsum()[at - 1] ** 2 / np.where(seen, apart, 1.0), 0.0)
    return int(at[share.argmax()]), int(seen.sum())


def _two_clusters(residuals: Residuals, left: _Projected) -> str:
    """Residuals of two kinds that nothing in the table distinguishes; empty where there is one.

    Rows are put in two groups, the law fitted beside their difference, until none changes its
    group.
    """
    count, free = left.Q.shape
    starts, random = [left.y], np.random.default_rng(0)
    # The residuals of fits to half of the rows, too: one search ends at a poor division.
    for _ in range(_STARTS if count <= _MANY else 0):
        half = random.permutation(count)[: max(free + 2, count // 2)]
        of_half, *_ = np.linalg.lstsq(left.Q[half], left.y[half], rcond=None)
        starts.append(left.y - left.Q @ of_half)
    upper = _upper(np.stack(starts) / left.root)
    for _ in range(_ROUNDS):
        columns = upper * left.root
        apart = columns - columns @ left.Q @ left.Q.T
        length = (apart**2).sum(axis=1)
        seen = length > 0.01 * count  # else the law takes up the difference itself
        size = np.where(seen, apart @ left.y / np.where(seen, length, 1.0), 0.0)
        rest = left.y - size[:, None] * apart
        again = _upper(rest / left.root + size[:, None] * upper)
        if (again == upper)[seen].all():
            break
        upper = again
    best = int((rest**2).sum(axis=1).argmin())
    within = float(rest[best] @ rest[best] / (left.y @ left.y))
    if within > min(ONE_KIND, 0.33 - left.spare**-0.5):
        return ""
    above = columns[best] > 0
    fewer = np.flatnonzero(above == (above.mean() < 0.5))
    named = name_rows(residuals.word, residuals.rows[fewer])
    return (
        f"residuals fall into two groups {residuals.size(abs(size[best])).lstrip('+')} apart, of "
        f"{len(fewer)} and {count - len(fewer)} rows; the smaller: {named}"
    )


def _upper(off: np.ndarray) -> np.ndarray:
    """(S, n) whether a row is of the upper of the two groups that leave least within them."""
    count = off.shape[1]
    ranked = np.sort(off, axis=1)
    sums = (ranked - ranked.mean(axis=1, keepdims=True)).cumsum(axis=1)[:, :-1]
    below = np.arange(1, count)
    between = sums**2 / (below * below[::-1])
    fewest = max(_EACH, int(np.ceil(FEWEST * count)))
    between[:, : fewest - 1] = between[:, count - fewest :] = 0.0
    highest = ranked[np.arange(len(off)), between.argmax(axis=1)]
    return off > highest[:, None]


def several_sizes(law: Law, observations: Observations) -> list[Note]:
    """A note ``mixed-runs`` where a law that knows no size is fitted to curves of several."""
    grouped = any(spec.levels for spec in law.inputs)
    if "N" in law.input_names or grouped or not {*AREAS} & {*law.input_names}:
        return []

    def size_in(cell):
        """A number, or that of the size in a name such as pythia-70m."""
        said = re.search(r"(?<![a-z\d.])\d+(\.\d+)?[kmb](?![a-z\d])", str(cell), re.IGNORECASE)
        return number_in(cell) if said is None else single_things(said[0])

    table = observations.others[observations.weight > 0]
    named = [column for column in table if re.search("model|size", str(column), re.IGNORECASE)]
    for column in ["N"] if "N" in table else [*known_columns(table, ("N",)).get("N", named)]:
        cells = list(table[column].dropna().unique())
        sizes = {size_in(cell): cell for cell in cells}
        if len(sizes) < 2 or None in sizes:
            continue
        shown, largest = [sizes[size] for size in sorted(sizes)], sizes[max(sizes)]
        largest = largest.item() if hasattr(largest, "item") else largest
        message = (
            f"{len(sizes)} sizes in one fit ({column} is {listed(shown, 6)}), and law {law.name} "
            f'has no N: fit one of them, where="`{column}` == {largest!r}", or use a law with N'
        )
        return [Note("mixed-runs", "warning", message, True)]
    return []
