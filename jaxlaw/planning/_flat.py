"""How well an optimum is determined: near-optimal values, and optima that lie on a bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxlaw._quantities import written
from jaxlaw.notes import Note
from jaxlaw.planning._budgets import AT_LIMIT
from jaxlaw.planning._search_space import tried_ratios
from jaxlaw.uncertainty import Draws


def relative_excess(losses: Any, lowest: Any) -> Any:
    """How far losses lie above the lowest, as shares of its size; a loss may be negative."""
    return (losses / lowest - 1) * np.sign(lowest)


def as_good(losses: np.ndarray, best: int, noise: float) -> tuple[int, int]:
    """First and last point around the best whose losses differ from its own by less than noise.

    Args:
        losses: (n,) losses along a line; NaN and infinity where there is no run.
        best: number of the best point.
        noise: relative standard deviation of single runs.
    """
    far = ~(losses <= losses[best] * math.exp(noise))
    far[best] = False
    below, above = np.flatnonzero(far[:best]), np.flatnonzero(far[best:])
    low = below[-1] + 1 if len(below) else 0
    return int(low), int(best + above[0] - 1 if len(above) else len(losses) - 1)


def bound_notes(
    source: Draws, limits: Mapping[str, tuple[Any, Any]], at: Mapping[str, float]
) -> list[Note]:
    """An optimum at a limit, or of a ratio that no run had, is no more than a bound of the best.

    Args:
        source: the law, with the ratios D/N that were run.
        limits: input → (least, largest) as the user gave them, None for an open side.
        at: the optimum, in the units of the runs; of its ratio D/N only where it has both.
    """
    notes, units = [], source.fit.input_units()
    for name, (low, high) in limits.items():
        for limit, word, further in ((low, "an upper", "less"), (high, "a lower", "more")):
            if limit is not None and abs(at[name] - limit) <= AT_LIMIT * max(limit, AT_LIMIT):
                message = (
                    f"{name} is at its limit of {written(limit, *units[name])}, where {further} of "
                    f"it would do better: this is {word} bound of the best {name}, not the best"
                )
                notes.append(Note("optimum-at-limit", "warning", message))
    if not {"N", "D"} <= set(at):
        return notes
    unit = source.scale("D") / source.scale("N")
    low, high = np.exp(tried_ratios(source))  # of single things, as they are said below
    if not np.isfinite([low, high, at["N"] * at["D"]]).all():
        return notes
    ratio = unit * at["D"] / at["N"]
    if not low * (1 - AT_LIMIT) <= ratio <= high * (1 + AT_LIMIT):
        side, edge, word = ("below", low, "a lower") if ratio < low else ("above", high, "an upper")
        # The size at the same compute 6·N·D and the last ratio that was run.
        size = at["N"] * math.sqrt(ratio / edge)
        message = (
            f"the best D/N, {ratio:.3g}, lies {side} all that were run ({low:.3g} to {high:.3g}): "
            f"the runs speak for N = {written(size, *units['N'])} as {word} bound of the best "
            "size, and for none beyond it"
        )
        notes.append(Note("optimum-beyond-tried", "warning", message))
    return notes
