"""Where lanes start: a grid, a Sobol sample of the law's ranges, or the user's own values.

Starts are natural values at the centre of the data, one row a start, one column a parameter of
the law; a parameter that a constraint raises is given by its excess.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy

from jaxlaw import _cache
from jaxlaw._arrays import real_numbers
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting._problem import FitProblem
from jaxlaw.fitting._transform import at_centre
from jaxlaw.fitting._variable_projection import solved_coordinates
from jaxlaw.laws import Law

LEAST_STARTS = 64  # of a fit by default: times two for each nonlinear parameter, …
MOST_STARTS = 2048  # … and no more
UNSCREENED = 4096  # starts of a fit that solves all of them
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
    free = np.asarray(problem.data.low) < np.asarray(problem.data.high)
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


def _sobol_of_unit_cube(dimensions: int, count: int, seed: int) -> np.ndarray:
    """A scrambled Sobol sample of the unit cube, (count, dimensions).

    Importing scipy.stats takes as long as the rest of a fit whose programs are kept, so that the
    sample is kept, too.
    """
    power = max(0, math.ceil(math.log2(max(count, 1))))
    points = f"2**{power} points, seed {seed}"
    key = f"sobol of scipy {scipy.__version__}: {dimensions} dimensions, {points}"
    kept = _cache.read(key) or b""
    if len(kept) == 8 * dimensions * 2**power:
        sample = np.frombuffer(kept).reshape(-1, dimensions)
        if ((sample >= 0) & (sample <= 1)).all():
            return sample[:count]
    from scipy.stats import qmc

    sample = qmc.Sobol(dimensions, seed=seed).random_base2(power)
    _cache.write(key, sample.tobytes())
    return sample[:count]


def from_user(law: Law, given: Any, centre: Mapping[str, float]) -> np.ndarray:
    """The user's starts, in the law's own units, (S, p).

    Args:
        law: the law.
        given: (S, p) array; DataFrame, one row a start; or dict of the values to combine.
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
        raise UsageError(f"starts are numbers, one column a parameter: {error}") from None
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
    params = dict(zip(law.parameter_names, values.T, strict=True))
    values = at_centre(law, params, centre)
    return np.stack([values[name] for name in law.parameter_names], axis=-1)


def _product(values: Sequence[Any]) -> np.ndarray:
    """Every combination of some values of each parameter, (S, p)."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*values, indexing="ij")], axis=-1)
