"""Whether a user's law computes every row from that row's inputs alone.

A law that takes a mean over its rows, or a cumulative sum, is another law on other rows: what is
fitted on all of them predicts other numbers for one. Nothing in such a formula fails, so it is
evaluated on a few rows together and on each of them alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxlaw._jit import compiled
from jaxlaw.errors import UsageError
from jaxlaw.fitting._problem import FitProblem
from jaxlaw.fitting._starts import sobol
from jaxlaw.laws._base import Law, is_built_in

_ORDER = np.array([2, 0, 4, 1, 3])  # of the rows, so that sorting them shows too
_POINTS = 4  # sets of parameters that the law is evaluated at
_SAME = 1e-6  # relative difference that is none: one row may be rounded otherwise than many


def check_elementwise(problem: FitProblem, inputs: Mapping[str, Any]) -> None:
    """Refuse a law whose value at a row depends on the other rows; call inside float64.

    Args:
        problem: the problem, of which the law, and parameters in its starting ranges.
        inputs: name → (n,), or (n, K) of inputs per drop, in the law's own units.

    Raises:
        UsageError: the law is not elementwise, or fails on some of the rows.
    """
    law = problem.law
    if is_built_in(law):  # the tests check these
        return
    rows = {spec.name: _spread_rows(spec, np.asarray(inputs[spec.name])) for spec in law.inputs}
    points = problem.params(problem.coordinates_of_starts(sobol(law, _POINTS, 0)))
    for k in range(_POINTS):
        params = {name: float(values[k]) for name, values in points.items()}
        together, alone = _evaluated(law, params, rows)
        size = np.abs(together[np.isfinite(together)]).max(initial=0.0)
        same = np.isclose(together, alone, _SAME, 1e-9 * size, equal_nan=True)
        if not same.all():
            row = int(np.argmin(same))
            at = ", ".join(f"{name}={rows[name][row]:.6g}" for name in law.inputs_per_row)
            raise UsageError(
                f"law {law.name} is not elementwise: at {at} it gives {alone[row]:.6g} for that "
                f"row alone and {together[row]:.6g} for the same row among {len(_ORDER)}, so a "
                "fit would hold for the table as a whole and predict no run. A law computes a row "
                "from that row's inputs: replace what goes over rows (mean, max, sum, cumsum, "
                "sort, shape) by a constant or by an input of its own"
            )


def _spread_rows(spec: Any, values: np.ndarray) -> np.ndarray:
    """Five rows of an input, from all over the data and no two alike, (5,) or (5, K)."""
    at = np.linspace(0, len(values) - 1, len(_ORDER)).round().astype(int)[_ORDER]
    # Runs may share their value: these rows do not, and stay within an input's domain.
    step = (-0.01 if spec.domain == "fraction" else 0.01) * np.arange(len(_ORDER))
    return values[at] * (1 + step.reshape(-1, *(1,) * (values.ndim - 1)))


def _evaluated(
    law: Law, params: dict[str, float], rows: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The law on all rows together and on each alone, (5,) both."""
    together, alone = map(np.asarray, _both_ways(law, params, rows))
    if together.shape != (len(_ORDER),):
        raise UsageError(
            f"law {law.name} gives an array of shape {together.shape} for {len(_ORDER)} rows: it "
            "is to give one value a row"
        )
    return together, alone


@compiled(optimised=False, static_argnames="law")
def _both_ways(law: Law, params: dict[str, Any], rows: dict[str, Any]) -> tuple[Any, Any]:
    each = [
        law(params, **{name: values[k : k + 1] for name, values in rows.items()}).reshape(())
        for k in range(len(_ORDER))
    ]
    return law(params, **rows), jnp.stack(each)
