"""Fisher information of runs about a law's parameters, near its fit: JᵀWJ, and the noise.

J is the Jacobian of the (log) loss at the runs. The variance of what has the gradient g is
τ²·gᵀ(JᵀWJ)⁻¹g. The noise τ is measured by the sandwich
(:mod:`jaxlaw.uncertainty._covariance`) and by nothing else: τ² is the variance that the sandwich
gives to the prediction, over gᵀ(JᵀWJ)⁻¹g, as the profile is calibrated. The standard deviation
before any new run is therefore :func:`jaxlaw.covariance`'s standard error, with noise that differs
from row to row and groups that share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._repr import short_repr
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import Fit, FitProblem, linearise
from jaxlaw.notes import Note
from jaxlaw.uncertainty import covariance_of, fit_with_data, pooled_noise

_SINGULAR = 1e-10  # least eigenvalue of the matrix; below, a direction is not determined at all


@dataclass(frozen=True, eq=False)
class Information:
    """A fit and its runs, linear in the coordinates that are free and at no bound.

    Attributes:
        problem: the problem.
        at: (p,) the optimum.
        free: (q,) numbers of the coordinates that move.
        matrix: (q, q) JᵀWJ, in units that make its diagonal 1.
        scale: (q,) those units.
        covariance: (q, q) the sandwich covariance in the same units. Where the runs leave some
            direction open there is none, and it is the pooled noise of the sandwich times M⁻¹.
        notes: findings to know before relying on it.
    """

    problem: FitProblem
    at: np.ndarray
    free: np.ndarray
    matrix: np.ndarray
    scale: np.ndarray
    covariance: np.ndarray
    notes: list[Note]

    __repr__ = short_repr

    def slopes(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """(m, q) Jacobian at points in the law's own units."""
        return self._scaled_jacobian(linearise(self.problem, self.at, inputs).jacobian)

    def gradients_of(self, fit: Fit, wanted: Any) -> np.ndarray:
        """(k, q) gradients of the predictions."""
        if isinstance(wanted, Mapping):
            table = {name: np.atleast_1d(values) for name, values in wanted.items()}
            slopes = self.slopes(own_units(fit, table))
            if not len(slopes):
                raise UsageError("predict has no point; give a number, or several, for each input")
            return slopes
        transform = self.problem.transform

        def quantity(at: jax.Array) -> jax.Array:
            return jnp.atleast_1d(wanted(transform.to_natural(tuple(at))))

        try:
            slopes = self._scaled_jacobian(jax.jacfwd(quantity)(jnp.asarray(self.at)))
        except (TypeError, ValueError) as error:
            raise UsageError(
                "predict must be a function of a dict of parameters to a number, in jax.numpy; it "
                f"ended in {type(error).__name__}: {' '.join(str(error).split())[:200]}"
            ) from error
        if not slopes.any(axis=1).all():
            raise UsageError("predict does not move with any parameter: nothing can narrow it")
        return slopes

    def noise(self, gradients: np.ndarray | None) -> float:
        """τ of the predictions with the gradients (k, q); of all coordinates, where None.

        The root of their mean sandwich variance over their mean gᵀM⁻¹g.
        """
        gradients = np.eye(len(self.free)) if gradients is None else gradients
        plain = np.einsum("ki,ik->", gradients, np.linalg.solve(self.matrix, gradients.T))
        return float(
            np.sqrt(np.einsum("ki,ij,kj->", gradients, self.covariance, gradients) / plain)
        )

    def _scaled_jacobian(self, jacobian: Any) -> np.ndarray:
        scaled = np.asarray(jacobian)[:, self.free] / self.scale
        if not np.isfinite(scaled).all():
            row = int(np.argmin(np.isfinite(scaled).all(axis=1)))
            raise DataError(f"the law has no derivatives at point {row}; leave it out")
        return scaled


def information_of(fit: Fit, runs: Any, groups: Any = None) -> Information:
    """What the runs a fit was made from say of its parameters; call inside a float64 context.

    Args:
        fit: the fit.
        runs: the runs that it was made from.
        groups: rows that share noise, as for :func:`jaxlaw.covariance`.

    Raises:
        UsageError: they are not the runs of the fit.
    """
    problem = fit_with_data(fit, runs)
    at, free, seen = problem.coordinates, problem.free_and_inside, problem.observations
    jacobian = problem.linear.jacobian[:, free]
    scale = np.sqrt(seen.weight @ jacobian**2)
    scale = np.where(scale > 0, scale, 1.0)
    jacobian = jacobian / scale
    matrix = (jacobian.T * seen.weight) @ jacobian
    notes = [note for note in fit.notes if note.code == "at-bound"]  # these are taken as known
    if np.linalg.eigvalsh(matrix)[0] < _SINGULAR:
        message = (
            "the runs do not determine some combination of the parameters: the standard deviations "
            "before the new runs mean nothing, and the choice favours runs that determine it"
        )
        notes.append(Note("unidentifiable", "warning", message))
        matrix = matrix + _SINGULAR * np.eye(len(free))
    try:
        variance = covariance_of(problem, groups).coordinates[: len(free), : len(free)] * np.outer(
            scale, scale
        )
    except DataError:  # an open direction: the choice looks for runs that close it
        variance = pooled_noise(problem) ** 2 * np.linalg.inv(matrix)
    return Information(problem.fit_problem, at, free, matrix, scale, variance, notes)


def own_units(fit: Fit, table: Any) -> dict[str, np.ndarray]:
    """Inputs (m,) in the law's own units; the fit checks them."""
    values = fit.checked_inputs(table, {})
    columns = np.broadcast_arrays(*(np.atleast_1d(value) for value in values.values()))
    return {
        name: column.ravel() * fit.units[name] for name, column in zip(values, columns, strict=True)
    }
