"""Whether a user's law computes every row from that row's inputs alone.

A law that takes a mean over its rows, or a cumulative sum, is another law on other rows: what is
fitted on all of them predicts other numbers for one. Nothing in such a formula fails, so it is
evaluated on all rows, on a few of them in another order and with repeats, and on each alone.
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
from jaxlaw.laws import Law

_ORDER = np.array([2, 0, 3, 1, 0])  # of the picked rows: sorting them shows, and counting them
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
    law, spread = problem.law, {}
    if law.program_name:  # the tests check these
        return
    for spec in law.inputs:
        # Five rows or more, no two alike: runs may share their value. They stay within its domain.
        values = np.asarray(inputs[spec.name])
        values = values[np.arange(max(len(values), len(_ORDER))) % len(values)]
        step = np.linspace(0.0, -0.04 if spec.domain == "fraction" else 0.04, len(values))
        spread[spec.name] = values * (1 + step.reshape(-1, *(1,) * (values.ndim - 1)))
    size = max(map(len, spread.values()))
    # As many as the fit sees, which the law may count; then some of them, and each alone.
    every = np.arange(max(problem.data.target.shape[-1], size)) % size
    picked = np.linspace(0, size - 1, _ORDER.max() + 1).round().astype(int)[_ORDER]
    rows = {name: values[picked] for name, values in spread.items()}
    many = {name: values[every] for name, values in spread.items()}
    points = problem.params(problem.coordinates_of_starts(sobol(law, _POINTS, 0)))
    for k in range(_POINTS):
        params = {name: float(values[k]) for name, values in points.items()}
        of_many, of_few, alone = map(np.asarray, _three_ways(law, params, many, rows))
        for values, count in ((of_few, len(picked)), (of_many, len(every))):
            if values.shape != (count,):
                raise UsageError(
                    f"law {law.name} gives an array of shape {values.shape} for {count} rows: it "
                    "is to give one value a row"
                )
            together = values if values is of_few else values[picked]
            scale = np.abs(together[np.isfinite(together)]).max(initial=0.0)
            same = np.isclose(together, alone, _SAME, 1e-9 * scale, equal_nan=True)
            if not same.all():
                row = int(np.argmin(same))
                at = ", ".join(f"{name}={rows[name][row]:.6g}" for name in law.inputs_per_row)
                raise UsageError(
                    f"law {law.name} is not elementwise: at {at} it gives {alone[row]:.6g} for "
                    f"that row alone and {together[row]:.6g} for the same row among {count}, so a "
                    "fit would hold for the table as a whole and predict no run. A law computes a "
                    "row from that row's inputs: replace what goes over rows (mean, max, sum, "
                    "cumsum, sort, shape) by a constant or by an input of its own"
                )


@compiled(optimised=False, static_argnames="law")
def _three_ways(
    law: Law, params: dict[str, Any], many: dict[str, Any], rows: dict[str, Any]
) -> tuple[Any, Any, Any]:
    """The law on many rows, on a few together, and on each of the few alone."""
    each = [
        law(params, **{name: values[k : k + 1] for name, values in rows.items()}).reshape(())
        for k in range(len(_ORDER))
    ]
    return law(params, **many), law(params, **rows), jnp.stack(each)
