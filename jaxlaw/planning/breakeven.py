"""Where a base stops paying: the size, the tokens and the budget of equal loss.

Zheng 2024, §4.2 and §4.3, whose two laws cross; the base's own training is not counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._jit import compiled, in_float64
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    LEVEL,
    MISSING,
    Answer,
    Source,
    in_domain,
    measured,
    on_source,
    sources,
)
from jaxlaw.planning._solve import root
from jaxlaw.planning.placing import WALLS, Cost, Limits, log_cost, log_tokens, loss_at, place
from jaxlaw.planning.transfer import nd_laws, on_held

GRID = 129  # points at which two losses are compared, before the root between two of them
BUDGETS = (1e10, 1e36)  # FLOPs among which the frontiers are compared
TIE = 1e-13  # relative difference of losses that rounding may make


@dataclass(frozen=True, eq=False, kw_only=True)
class BreakEven(Answer):
    """Where training from scratch and from a base come to the same loss.

    Attributes:
        N, D: size and tokens there, in the units of the continual fit's runs (each budget's
            best continual run, where the frontiers are compared).
        compute: FLOPs there; infinite for ``always`` or ``never``.
        loss: in nats.
        pays: where continual training has the lower loss: ``below`` or ``above`` this point
            (of D, N or compute), ``always`` or ``never``.
    """

    N: float
    D: float
    compute: float
    loss: float
    pays: str


@checked
def break_even(
    scratch: Any,
    continual: Any,
    *,
    N: float | None = None,
    compute: float | None = None,
    cost: Cost | None = None,
    level: ConfidenceLevel = LEVEL,
) -> BreakEven:
    """Where a base stops paying.

    Args:
        scratch, continual: as for :func:`jaxlaw.planning.transferred`.
        N: at this size, over the tokens.
        compute: at this budget in FLOPs, over the size. With neither, over the budget, where
            either way takes its own best size.
        cost: as for :func:`jaxlaw.planning.allocation`.
        level: of the intervals.

    Returns:
        BreakEven. Intervals are of the replicates that break even on the same side. Where the
        two cross more than once, it is the crossing nearest the fitted range of the continual
        runs, and the note ``several-crossings`` tells; within it, or where no range is known,
        the first at which continual training stops paying.
    """
    both = nd_laws(sources(scratch, continual))
    if N is not None and compute is not None:
        raise UsageError("give N or compute, not both: the two fix the run")
    ours = both[1]
    if N is not None:
        along, fixed = "D", math.log(in_domain("N", N) * ours.single("N"))
        ends = WALLS["D"]
    elif compute is not None:
        along, fixed = "N", math.log(in_domain("compute", compute))
        ends = (WALLS["N"][0], min(WALLS["N"][1], compute / (6 * WALLS["D"][0])))
    else:
        along, fixed, ends = "compute", 0.0, BUDGETS
    laws = tuple(one.law for one in both)
    params = tuple(one.params for one in both)
    with in_float64():
        walls = tuple(map(math.log, ends))
        log_N, log_D, loss, side, count = map(
            np.asarray, _crossings(laws, cost, along, params, fixed, walls, _seen(ours, along))
        )
        flops = np.exp(np.asarray(log_cost(cost, log_N, log_D)))
    same = side == side[0]
    values = {
        "N": np.exp(log_N) / ours.single("N"),
        "D": np.exp(log_D) / ours.single("D"),
        "compute": flops,
        "loss": loss,
    }
    crosses = np.isin(side, (1, 2))
    values = {name: np.where(crosses & same, column, np.nan) for name, column in values.items()}
    if not crosses[0]:
        values["compute"] = np.where(same, np.inf, np.nan)
    pays = tuple(_PAYS)[int(side[0])]
    answer = measured(values, level)
    given = {"N": N is not None, "compute": compute is not None or pays in ("always", "never")}
    for name in (name for name, was in given.items() if was):
        answer["interval"].pop(name, None)
    notes = [*_on_sides(pays, side, along), *_on_count(count)]
    for one, what in zip(both, ("from-scratch", "continual"), strict=True):
        at = {k: answer[k] * ours.single(k) / one.single(k) for k in ("N", "D")}
        notes += on_source(one, what, **at)
    notes += on_held(scratch, continual)
    binding = f"equal loss; continual training pays {_PAYS[pays].format(along)}"
    return BreakEven(**answer, pays=pays, binding=binding, notes=tuple(notes))


def _seen(ours: Source, along: str) -> tuple[float, float]:
    """Logarithms between which runs were fitted; everything where that is not known."""
    N, D = (np.array(ours.ranges.get(k, (0, np.inf))) * ours.single(k) for k in ("N", "D"))
    with np.errstate(all="ignore"):
        low, high = np.log({"N": N, "D": D, "compute": 6 * N * D}[along])
    return (low, high) if np.isfinite([low, high]).all() else (-math.inf, math.inf)


@compiled(static_argnames=("laws", "cost", "along"))
def _crossings(
    laws: tuple[Law, Law], cost: Cost | None, along: str, params: Any, fixed: Any, ends: Any,
    seen: Any,
) -> Any:  # fmt: skip
    """(P,) log N, log D and loss of the crossing nearest to ``seen``, its side, and how many.

    Side 0: continual is lower throughout; 1: below the crossing; 2: above it; 3: nowhere.
    """
    wide = Limits(*(tuple(map(math.log, WALLS[name])) for name in ("N", "D")), (0.0, 1.0), jnp.inf)

    def run(law: Law, params: Any, x: Any) -> Any:
        if along == "compute":
            return place(law, cost, params, x, wide, {}, points=65)
        at = (fixed, x) if along == "D" else (x, log_tokens(cost, x, fixed))
        return *at, loss_at(law, params, *at, {})

    def one(params: Any) -> Any:
        def behind(x: Any) -> Any:
            """How far continual is above scratch, beyond rounding."""
            from_scratch, ours = (run(law, p, x)[2] for law, p in zip(laws, params, strict=True))
            gap = ours - from_scratch
            return jnp.where(jnp.abs(gap) <= TIE * jnp.abs(ours), 0.0, gap)

        grid = jnp.linspace(*ends, GRID)
        gaps = jax.vmap(behind)(grid)
        stops = (gaps[:-1] < 0) & (gaps[1:] > 0)
        begins = (gaps[:-1] > 0) & (gaps[1:] < 0)
        # Two laws fitted apart cross once more where one of their terms is all that counts: at
        # sizes of a few thousand parameters, say. That is no answer to anybody.
        middle = (grid[:-1] + grid[1:]) / 2
        away = jnp.maximum(jnp.maximum(seen[0] - middle, middle - seen[1]), 0.0)
        # Of equally near ones, where continual stops being lower.
        away = jnp.where(stops, away, jnp.where(begins, away + 1e-6, jnp.inf))
        cell = jnp.argmin(away)
        sign = jnp.where(stops[cell], 1.0, -1.0)
        x = root(lambda x: sign * behind(x), grid[cell], grid[cell + 1])
        none = jnp.where((gaps < 0).any(), 0, 3)
        side = jnp.where(stops[cell], 1, jnp.where(begins[cell], 2, none))
        return *run(laws[1], params[1], x), side, (stops | begins).sum()

    return jax.vmap(one)(params)


# In the order of the sides that _crossings tells.
_PAYS = {"always": "always", "below": "below this {}", "above": "above this {}", "never": "never"}


def _on_count(count: np.ndarray) -> list[Note]:
    if count[0] < 2:
        return []
    message = f"the two cross {count[0]} times over all that was searched: this is the crossing"
    message += " nearest the fitted runs"
    return [Note("several-crossings", "warning", message)]


def _on_sides(pays: str, side: np.ndarray, along: str) -> list[Note]:
    notes = []
    if pays in ("always", "never"):
        message = f"continual training is {pays} the better one, over all that was searched"
        notes.append(Note(f"{pays}-pays", "info", message))
    elsewhere = (side[1:] != side[0]).mean() if len(side) > 1 else 0.0
    if elsewhere:
        words = [text.format(along) for text in _PAYS.values()]
        seen = ", ".join(f"{words[k]}: {np.mean(side[1:] == k):.1%}" for k in np.unique(side[1:]))
        severity = "warning" if elsewhere > MISSING else "info"
        message = f"of the replicates, continual training pays {seen}"
        notes.append(Note("replicates-disagree", severity, message))
    return notes
