"""What Que 2024 demands of a law of N, D and mixture ratio r (§3.1, App. E.3), checked on numbers.

Adaptability: the loss is finite for r in [0, 1]. Explicit trends: it falls with N, with D and with
r. Implicit trend: ∂²L/∂D∂r < 0. Consistency: at a fixed r it is a Chinchilla law,
E0 + A0/N^α + B0/D^β. The paper chose L3 by them: L1 has no implicit trend, L4 need not have the
explicit ones, L2 is not consistent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxlaw._jit import compiled, in_float64
from jaxlaw.laws._base import Law

_SHARES = 257
_LEVELS = 4  # of N and of D: three differences distinguish a power law from another curve
_FIXED = (0.1, 0.25, 0.5, 0.75, 1.0)  # mixture ratios at which the law should be a Chinchilla law
_LARGE = 1e20  # value of a power of 0, in place of infinity
_TINY = 1e-9  # relative size of a change that counts as none
_SAME = 1e-6  # relative difference of ratios that a power law makes equal


class Requirement(NamedTuple):
    """One requirement, checked.

    Attributes:
        name: name of it.
        formula: the condition.
        observed: whether it is met at the mixture ratios observed.
        everywhere: whether it is met at all mixture ratios from 0 to 1.
        where: mixture ratios at which it is not met, in words.
    """

    name: str
    formula: str
    observed: bool
    everywhere: bool
    where: str


@compiled(optimised=False, static_argnames="law")
def along_share(law: Law, params, shares, N, D, others) -> tuple[jax.Array, jax.Array]:
    """Loss (m,) and its slope in r (m,), at (m,) mixture ratios and one value of other inputs."""
    return jax.vmap(jax.value_and_grad(lambda r: law(params, N=N, D=D, r=r, **others)))(shares)


def shares_of(low: float, high: float) -> np.ndarray:
    """(2 + 257,) the mixture ratios 0, one next to it, and some between, at least 1e-4."""
    return np.concatenate([[0.0, 1e-9], np.linspace(max(low, 1e-4), high, _SHARES)])


def check_requirements(
    law: Law, params: Mapping[str, float], ranges: Mapping[str, Any]
) -> list[Requirement]:
    """Check the four requirements, the explicit trends one by one.

    Args:
        law: a law with the inputs N, D and r; others are held in the middle of their ranges.
        params: its natural parameters.
        ranges: input → (lowest, highest) observed, in the law's own units.

    Returns:
        One :class:`Requirement` each, in the order of the paper.
    """
    at = {
        name: np.sqrt(low) * np.sqrt(high)
        for name, (low, high) in ranges.items()
        if name not in ("N", "D", "r")
    }
    # In equal ratios over a range; of one too narrow to show a trend, beyond it.
    sizes, tokens = (
        np.geomspace(low, high if high > 1.5 * low else 1.5 * low, _LEVELS)
        for low, high in (ranges[name] for name in ("N", "D"))
    )
    # Rows 0 to 3 go along D, rows 0 and 4 to 6 along N; row 7 is the opposite corner.
    pairs = [*((sizes[0], D) for D in tokens), *((N, tokens[0]) for N in sizes[1:])]
    pairs.append((sizes[-1], tokens[-1]))

    def unmet(first, last):
        """Where each requirement is not met, over a range of mixture ratios, in words."""
        shares = shares_of(first, last)
        with in_float64():  # differences of differences need it
            rows = [along_share(law, dict(params), shares, N, D, at) for N, D in pairs]
        loss, slope = (np.stack([np.asarray(row[k]) for row in rows]) for k in (0, 1))
        with np.errstate(invalid="ignore", over="ignore"):  # a loss may be infinite
            infinite = ~(np.abs(loss) < _LARGE).all(axis=0)
            infinite[: 0 if first == 0 else 2] = False
            form = _not_chinchilla_at(shares, loss) if (first, last) == (0, 1) else ""
            found = {
                "adaptability": f"the loss is infinite {_share_range(shares[infinite])}"
                if infinite.any()
                else ""
            }
            # A trend is kept where nothing rises, beyond rounding, and something falls.
            shares, loss, slope = shares[2:], loss[:, 2:], slope[:, 2:]
            size, steep = np.abs(loss[0]), np.abs(slope[_ALONG_D]).max(axis=0)
            for name, change, scale, least in (
                ("trend in N", np.diff(loss[_ALONG_N], axis=0), size, _TINY),
                ("trend in D", np.diff(loss[_ALONG_D], axis=0), size, _TINY),
                ("trend in r", slope, size, _TINY),
                # Of slopes in r from one D to the next; their own size is what rounding goes by.
                ("implicit trend", np.diff(slope[_ALONG_D], axis=0), steep, _SAME),
            ):
                rising = (change > 1e-12 * scale).any(axis=0)
                flat = "" if (change < -least * scale).any() else "it is 0 throughout"
                found[name] = (
                    f"it is positive {_share_range(shares[rising])}" if rising.any() else flat
                )
        return found | {"consistency": form}

    observed, everywhere = unmet(*map(float, ranges["r"])), unmet(0.0, 1.0)
    observed["consistency"] = everywhere["consistency"]  # a matter of the form, not of a range
    # What is not met at the observed mixture ratios is not met at all of them, even where a term
    # that the data do not need is felt next to r = 0 alone.
    for name, where in observed.items():
        everywhere[name] = everywhere[name] or where and f"at the observed mixture ratios {where}"
    return [
        Requirement(name, formula, not observed[name], not everywhere[name], everywhere[name])
        for name, formula in _FORMULAS.items()
    ]


_FORMULAS = {
    "adaptability": "L is finite",
    "trend in N": "∂L/∂N < 0",
    "trend in D": "∂L/∂D < 0",
    "trend in r": "∂L/∂r < 0",
    "implicit trend": "∂²L/∂D∂r < 0",
    "consistency": "L = E0 + A0/N^α + B0/D^β at a fixed r",
}
_ALONG_D, _ALONG_N = slice(0, 4), [0, 4, 5, 6]


def _not_chinchilla_at(shares: np.ndarray, loss: np.ndarray) -> str:
    """At which mixture ratios the loss is no sum of a power of N and one of D, in words."""
    bad = []
    for share in _FIXED:
        column = loss[:, np.argmin(np.abs(shares - share))]
        rounding = 1e-14 * np.abs(column[0])
        steps = -np.diff(column[_ALONG_D])
        both = abs(column[7] - column[6] - column[3] + column[0])
        odd = both > _SAME * np.abs(steps).sum() + rounding
        # Over equal ratios the steps of E + B/D^β fall in equal ratios.
        for step in (steps, -np.diff(column[_ALONG_N])):
            off = abs(step[0] * step[2] - step[1] ** 2)
            odd |= off > _SAME * step[1] ** 2 + 2 * rounding * np.abs(step).sum()
        if odd or not np.isfinite(column).all():
            bad.append(share)
    return f"not at r = {', '.join(f'{share:g}' for share in bad)}" if bad else ""


def _share_range(shares: np.ndarray) -> str:
    low, high = shares.min(), shares.max()
    return f"at r = {low:.3g}" if low == high else f"between r = {low:.3g} and {high:.3g}"
