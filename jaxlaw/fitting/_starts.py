"""Where lanes start: a grid, a Sobol sample or the user's values; linear coefficients solved for.

Starts are natural values at the centre of the data, one row per start, one column per parameter of
the law; a parameter that a constraint raises is given by its excess.

At each start the coefficients that the law is linear in are solved for, by Golub and Pereyra's
variable projection. With the exponents constant, the best coefficients are those of a small
least-squares problem with lower bounds (NNLS where the bounds are 0). Its solution is found by
enumeration of active sets: for each of the 2^k sets of coefficients that may stand at their bounds
the others are solved for, and of the solutions that keep all bounds the best is taken. With
k ≤ ``MOST_SOLVED`` that is at most 64 tiny systems, no loop that waits for the slowest lane, and
the answer is exact. Residuals are relative where the law is fitted to logarithms:
log f − log y ≈ (f − y)/y.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import scipy

from jaxlaw import _cache
from jaxlaw._arrays import real_numbers
from jaxlaw._cse import share_across_cases
from jaxlaw._jit import traced_once
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting._objective import Problem, huber, predict, residual, scale_of, stack_rows
from jaxlaw.fitting._transform import Array, Model, at_centre, linear_coordinates
from jaxlaw.laws import Law

if TYPE_CHECKING:
    from jaxlaw.fitting._problem import FitProblem

LEAST_STARTS = 64  # of a fit by default: times two for each nonlinear parameter, …
MOST_STARTS = 2048  # … and no more
UNSCREENED = 4096  # starts of a fit that solves all of them
MOST_SOLVED = 6  # coefficients at a start; of more there are too many sets
ORDERS = 50  # a starting range whose bounds have a larger ratio is drawn in its logarithm


def first_starts(problem: FitProblem) -> np.ndarray:
    """Search coordinates (S, p) of the starts that the options of a problem name.

    Raises:
        UsageError: another word, or no values for this law.
    """
    law, starts = problem.law, problem.options.starts
    if not isinstance(starts, str):
        natural = from_user(law, starts, problem.means)
    elif starts == "grid":
        natural = grid_of(law, problem.means)
    elif starts == "sobol":
        count = problem.options.n_starts or default_count(problem)
        natural = sobol(law, count, problem.options.seed)
    else:
        hint = nearest(starts, ("sobol", "grid"))
        raise UsageError(f"starts is 'sobol', 'grid' or values, not '{starts}'.{hint}")
    return problem.coordinates_of_starts(natural)


def default_count(problem: FitProblem) -> int:
    """How many starts a search needs, by the number of coordinates that they have to cover.

    Linear coefficients are solved for at every start, so that of chinchilla's five parameters two
    are left. Of 31 laws none missed its optimum more often with 64 starts than with 4,096, on
    simulated experiments and, of five laws, on real runs: where fewer starts lose an optimum,
    4,096 lose it as often, and what counts is how many are solved.
    Where nothing is screened, nothing is solved for either.
    """
    if not problem.options.n_local:
        return UNSCREENED
    free = problem.data.low < problem.data.high
    nonlinear = int(free.sum() - free[list(solved_coordinates(problem.model))].sum())
    return min(MOST_STARTS, LEAST_STARTS * 2**nonlinear)


def grid_of(law: Law, centre: Mapping[str, float]) -> np.ndarray:
    """Every combination of the starting values of the law's parameters, (S, p).

    Args:
        law: the law.
        centre: input name → its geometric mean.

    Raises:
        UsageError: the law has no grid.
    """
    missing = [spec.name for spec in law.parameters if spec.grid is None]
    if missing:
        raise UsageError(
            f"the source of law {law.name} gives no starting grid (none for "
            f"{', '.join(missing)}); use starts='sobol', or a dict of your own values"
        )
    return to_centre(law, _product([spec.grid for spec in law.parameters]), centre)


def sobol(law: Law, count: int, seed: int) -> np.ndarray:
    """A scrambled Sobol sample of the law's starting ranges, (count, p).

    Positive parameters, and others whose range lies on one side of 0 and spans orders of
    magnitude, are drawn evenly in their logarithm.

    Args:
        law: the law.
        count: size of the sample; the next power of two is drawn, and its first rows are taken.
        seed: seed of the Sobol sequence.
    """
    unit = _sobol_of_unit_cube(len(law.parameters), count, seed)
    columns = []
    for spec, share in zip(law.parameters, unit.T, strict=True):
        low, high = spec.start
        if spec.scale == "log" or (low * high > 0 and not 1 / ORDERS < low / high < ORDERS):
            columns.append(low * (high / low) ** share)
        else:
            columns.append(low + share * (high - low))
    return np.stack(columns, axis=-1)


@functools.lru_cache(4)
def _sobol_of_unit_cube(dimensions: int, count: int, seed: int) -> np.ndarray:
    """A scrambled Sobol sample of the unit cube, (count, dimensions).

    It is scipy's, and is not to be changed: a fit ends with the same bits wherever it is made.
    Importing scipy.stats takes longer than all the rest of a fit whose programs are kept, and
    reading its direction numbers a third as long as such a fit: the sample is kept, too.
    """
    power = max(0, math.ceil(math.log2(max(count, 1))))
    points = f"2**{power} points, seed {seed}"
    key = f"sobol of scipy {scipy.__version__}: {dimensions} dimensions, {points}"
    kept = _cache.read(key) or b""
    if len(kept) == 8 * dimensions * 2**power:
        sample = np.frombuffer(kept).reshape(-1, dimensions)
        if ((sample >= 0) & (sample <= 1)).all():
            return sample[:count]
    numbers = Path(scipy.__file__).parent / "stats" / "_sobol_direction_numbers.npz"
    if numbers.exists():
        sample = _sobol_by_numpy(dimensions, power, seed, numbers)
    else:  # a version of scipy that has them elsewhere
        from scipy.stats import qmc

        sample = qmc.Sobol(dimensions, seed=seed).random_base2(power)
    _cache.write(key, sample.tobytes())
    return sample[:count]


def _sobol_by_numpy(dimensions: int, power: int, seed: int, numbers: Path) -> np.ndarray:
    """The sample of ``scipy.stats.qmc.Sobol``, (2**power, dimensions), to the last bit.

    Joe and Kuo's direction numbers, scrambled by a random linear map of their digits and a shift.

    Args:
        dimensions, power, seed: of the sample.
        numbers: scipy's file of direction numbers: a polynomial and its first numbers each.
    """
    with np.load(numbers) as table:
        polynomials, first = table["poly"].tolist(), table["vinit"]
    places, random = np.arange(30), np.random.default_rng(seed)
    directions = np.ones((dimensions, len(places)), np.int64)
    for row, polynomial, given in zip(directions[1:], polynomials[1:], first[1:], strict=False):
        degree = polynomial.bit_length() - 1
        row[:degree] = given[:degree]
        for k in range(degree, len(row)):
            row[k] = row[k - degree]
            for back in range(1, degree + 1):
                if polynomial >> (degree - back) & 1:
                    row[k] ^= row[k - back] << back
    shift = random.integers(2, size=directions.shape, dtype=np.uint32) @ (1 << places)
    square = (*directions.shape, len(places))
    mixing = np.tril(random.integers(2, size=square, dtype=np.uint32), -1) + np.eye(30, dtype=int)
    # Digits of the directions, the first the largest, and back.
    digits = (directions << places[::-1])[:, None] >> places[::-1, None] & 1
    directions = np.sum(mixing @ digits % 2 << places[::-1, None], axis=1)
    points = shift[None]
    for k in range(power):  # in the order of Gray's code
        points = np.concatenate([points, points[::-1] ^ directions[:, k]])
    return points / 2.0**30


def from_user(law: Law, given, centre: Mapping[str, float]) -> np.ndarray:
    """The user's starts, in the law's own units, (S, p).

    Args:
        law: the law.
        given: (S, p) array; DataFrame, one row per start; or dict of the values to combine.
        centre: input name → its geometric mean.

    Raises:
        UsageError: wrong shape, unknown or missing parameter, or values that are not finite.
    """
    names = law.parameter_names
    if isinstance(given, Mapping | pd.DataFrame):
        for name in given:
            law.parameter(name)
        if missing := [name for name in names if name not in given]:
            raise UsageError(
                f"starts lack {', '.join(missing)}; law {law.name} needs {', '.join(names)}"
                f"{nearest(missing[0], given)}"
            )
    try:
        if isinstance(given, Mapping):
            given = _product([np.atleast_1d(real_numbers(given[name])) for name in names])
        elif isinstance(given, pd.DataFrame):
            given = given[list(names)]
        values = np.atleast_2d(real_numbers(given))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"starts are numbers, one column per parameter: {error}") from None
    if values.ndim != 2 or values.shape[1] != len(names) or not len(values):
        raise UsageError(
            f"starts have shape {values.shape}; law {law.name} needs (starts, {len(names)}), "
            f"columns in the order {', '.join(names)}"
        )
    if not np.isfinite(values).all():
        row = int(np.argmax(~np.isfinite(values).all(axis=1)))
        raise UsageError(f"start {row} is not finite: {values[row]}")
    return to_centre(law, values, centre)


def to_centre(law: Law, values: np.ndarray, centre: Mapping[str, float]) -> np.ndarray:
    """Starts (S, p) in the law's own units, moved to the centre of the data."""
    values = at_centre(law, dict(zip(law.parameter_names, values.T, strict=True)), centre)
    return np.stack([values[name] for name in law.parameter_names], axis=-1)


def _product(values: Sequence) -> np.ndarray:
    """Every combination of some values of each parameter, (S, p)."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*values, indexing="ij")], axis=-1)


# ---------------------------------------------------------------- linear coefficients


def solved_coordinates(model: Model) -> tuple[int, ...]:
    """Which coordinates are solved for: all linear ones, unless they are too many."""
    linear = linear_coordinates(model)
    return linear if len(linear) <= MOST_SOLVED else ()


def terms(model: Model, problem: Problem, coordinates: Array) -> Array:
    """The prediction without its coefficients, and what each adds per unit: (1 + k, n).

    Depends on the inputs, not on target or weight: problems that share inputs share it.
    """
    linear = solved_coordinates(model)

    def at(values, problem, coordinates):
        """The prediction with linear coefficients of these values."""
        us = list(coordinates)
        for k, value in zip(linear, values, strict=True):
            us[k] = value
        return predict(model, problem, us)

    # All coefficients at 0, then each at 1 with the others at 0; the powers of the law are
    # computed once for all of these predictions.
    values = np.eye(1 + len(linear), len(linear), -1, coordinates.dtype)
    rest, *each = share_across_cases(at, [(tuple(row), problem, coordinates) for row in values])
    return stack_rows([rest, *(term - rest for term in each)], len(rest))


def solve_coefficients(model: Model, problem: Problem, parts: Array) -> tuple[Array, Array]:
    """Objective of a start with such :func:`terms`, its offset profiled out; its coefficients (k,).

    Of residuals in logarithms the weighted mean is taken off.
    """
    coefficients = best_coefficients(model, problem, parts)
    difference = residual(model.residuals, problem, parts[0] + coefficients @ parts[1:])
    if model.residuals == "log":  # a start that is only too high or too low is no worse for it
        difference -= (difference @ problem.weight) / jnp.sum(problem.weight)
    return huber(problem, difference, problem.delta) / scale_of(problem.delta), coefficients


def best_coefficients(model: Model, problem: Problem, parts: Array) -> Array:
    """The best coefficients (k,) for :func:`terms`, none below its lower bound.

    Fixed coefficients keep their value. Upper bounds are kept by clipping at the end.
    """
    solved = np.array(solved_coordinates(model), int)
    if not len(solved):
        return jnp.zeros(0, parts.dtype)
    low, high = problem.low[solved], problem.high[solved]
    # Coefficients that may have either sign have bounds far away: they are free in every set, and
    # their bounds are kept by clipping too.
    signed = problem.transform(model).bounds()[0][solved] < 0
    base = jnp.where(signed & (low < high), 0.0, low)
    target = jnp.exp(problem.target) if model.residuals == "log" else problem.target
    weight = problem.weight / target**2 if model.residuals == "log" else problem.weight
    # Normal equations of the excess over the lower bounds, with a diagonal of ones. Their
    # condition number is the square of the problem's, which starts can live with; the ridge keeps
    # coefficients of proportional terms finite.
    rest, each = parts[0] + base @ parts[1:], parts[1:]
    weighted = each * weight
    matrix, right = weighted @ each.T, weighted @ (target - rest)
    size = jnp.sqrt(jnp.diagonal(matrix))
    size = jnp.where(size > 0, size, 1.0)
    matrix = matrix / (size[:, None] * size) + 1e-12 * jnp.eye(len(signed))
    right = right / size

    def solve(free):
        """The excess (k,) with some coefficients free, and its value; infinite if not allowed."""
        free = free * (low < high)  # fixed coefficients are in no set
        identity = jnp.diag(1.0 - free)  # in place of the rows of the others
        excess = _solve(matrix * (free[:, None] * free) + identity, right * free)
        value = 0.5 * excess @ (matrix @ excess) - right @ excess
        allowed = jnp.all(signed | (excess >= 0)) & jnp.isfinite(value)
        return excess, jnp.where(allowed, value, jnp.inf)

    choices = [(1.0,) if either_sign else (0.0, 1.0) for either_sign in signed]
    sets = np.array(list(itertools.product(*choices)))
    excess, value = jax.vmap(solve)(jnp.asarray(sets, parts.dtype))
    return jnp.clip(base + excess[jnp.argmin(value)] / size, low, high)


@traced_once()  # for every number of equations
def _solve(matrix: Array, right: Array) -> Array:
    """Solve a few positive definite equations by Gauss and Jordan's elimination.

    A loop over the pivots: written out, it compiles for longer than the law.
    ``jnp.linalg.solve`` calls LAPACK for each of these tiny systems.
    """
    size = len(right)

    def eliminate(k, table):
        column = jnp.where(jnp.arange(size) == k, 0.0, table[:, k])
        return table - column[:, None] * (table[k] / jnp.maximum(table[k, k], 1e-14))

    table = jnp.concatenate([matrix, right[:, None]], axis=1)
    table = jax.lax.fori_loop(0, size, eliminate, table)
    return table[:, -1] / jnp.maximum(jnp.diagonal(table), 1e-14)
