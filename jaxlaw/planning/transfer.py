"""From scratch against continual: data transferred, compute saved, where it stops paying.

Zheng 2024, §4.3 and figure 2. The base's own training is not counted, as there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw.laws.base import Law
from jaxlaw.notes import Note, UsageError
from jaxlaw.planning.answers import (
    LEVEL,
    MISSING,
    Answer,
    Source,
    in_domain,
    interval_of,
    measured,
    need,
    on_replicates,
    on_source,
    sources,
)
from jaxlaw.planning.extrema import root
from jaxlaw.planning.placing import (
    WALLS,
    Cost,
    Limits,
    log_cost,
    log_tokens,
    loss_at,
    other_input,
    place,
)
from jaxlaw.planning.targets import smallest_compute

GRID = 129  # points at which two losses are compared, before the root between two of them
BUDGETS = (1e10, 1e36)  # FLOPs among which the frontiers are compared
TIE = 1e-13  # relative difference of losses that rounding may make


@dataclass(frozen=True, eq=False, kw_only=True)
class Transfer(Answer):
    """What a base saves one run, against training from scratch to the same loss.

    Attributes:
        N, D: size and tokens of the continual run, in the units of its fitted runs.
        loss: of both.
        scratch_D: tokens from scratch to that loss; infinite where scratch never gets there.
        transferred: scratch_D − D.
        saved: share of the compute saved, (C_scratch − C_continual) / C_scratch.
    """

    N: float
    D: float
    loss: float
    scratch_D: float
    transferred: float
    saved: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Saving(Answer):
    """Least compute to a loss from scratch and from a base, each with its own best size.

    Attributes:
        loss: in nats.
        scratch_compute, continual_compute: FLOPs.
        saved: (C_scratch − C_continual) / C_scratch.
    """

    loss: float
    scratch_compute: float
    continual_compute: float
    saved: float


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


def transferred(
    scratch: Any,
    continual: Any,
    *,
    N: float,
    D: float | None = None,
    loss: float | None = None,
    cost: Cost | None = None,
    level: float = LEVEL,
) -> Transfer:
    """Effectively transferred data and saved compute of one continual run.

    Args:
        scratch, continual: of the loss over N and D, from scratch and from a base: each a
            Fit, (law, params), or a bootstrap.
        N: size, in the units of the continual fit's runs.
        D, loss: one of them: the continual run's tokens, in those units, or its loss.
        cost: as for :func:`jaxlaw.planning.allocation`.
        level: of the intervals.

    Returns:
        Transfer. Where scratch never comes to the loss at this size, ``scratch_D`` and
        ``transferred`` are infinite, ``saved`` is 1, and the note ``no-finite-answer`` says
        where it ends.
    """
    both = sources(scratch, continual)
    ours = both[1]
    if (D is None) == (loss is None):
        raise UsageError("give one of D, the continual run's tokens, and loss")
    log_N = math.log(in_domain("N", N) * _checked(both)[1].single("N"))
    with jax.enable_x64(True):
        if D is None:
            target = np.full(_rows(ours), in_domain("loss", loss))
            log_D = np.asarray(other_input(
                ours.law, None, "D", "loss", ours.params, log_N, target[0], {},
            )[0])  # fmt: skip
        else:
            log_D = np.full(_rows(ours), math.log(in_domain("D", D) * ours.single("D")))
            target = np.asarray(_losses(ours.law, ours.params, log_N, log_D))
        values = _compared(both, cost, log_N, log_D, target)
    notes = _on_scratch(values, _floor(both[0], log_N))
    answer = measured(values, level)
    for name in ("N", "D" if loss is None else "loss"):
        answer["interval"].pop(name, None)  # given, not found
    here = {"N": answer["N"] * ours.single("N"), "D": answer["D"] * ours.single("D")}
    there = here | {"D": answer["scratch_D"] * ours.single("D")}
    for one, what, at in ((both[0], "from-scratch", there), (ours, "continual", here)):
        notes += on_source(one, what, **{k: v / one.single(k) for k, v in at.items()})
    notes += on_replicates(values["saved"], "answer")
    return Transfer(**answer, binding="equal loss at equal size", notes=tuple(notes))


def transfer_table(
    scratch: Any,
    continual: Any,
    N: Sequence[float],
    D: Sequence[float],
    *,
    cost: Cost | None = None,
    level: float = LEVEL,
) -> pd.DataFrame:
    """Transferred data and saved compute for every N and D (Zheng's figure 2).

    Returns:
        One row each: ``N``, ``D``, ``loss``, ``scratch_D``, ``transferred``, ``saved``; with
        replicates ``…_low`` and ``…_high`` of the last two.
    """
    both = sources(scratch, continual)
    ours, rows = _checked(both)[1], []
    sizes, tokens = (np.atleast_1d(np.asarray(v, float)) for v in (N, D))
    with jax.enable_x64(True):
        for size in sizes:
            for one in tokens:
                log_N, log_D = math.log(size * ours.single("N")), math.log(one * ours.single("D"))
                here = np.full(_rows(ours), log_D)
                loss = np.asarray(_losses(ours.law, ours.params, log_N, here))
                values = _compared(both, cost, log_N, here, loss)
                row = {name: column[0] for name, column in values.items()}
                for name in ("transferred", "saved"):
                    if (ends := interval_of(values[name], level)) is not None:
                        row[f"{name}_low"], row[f"{name}_high"] = ends
                rows.append(row)
    return pd.DataFrame(rows)


def saved_compute(
    scratch: Any, continual: Any, loss: float, *, cost: Cost | None = None, level: float = LEVEL
) -> Saving:
    """Compute saved at equal loss where either way takes the size that suits it best.

    At equal size :func:`transferred` tells. Out of reach of scratch, ``scratch_compute`` is
    infinite and ``saved`` is 1; out of reach of both, ``saved`` is NaN.
    """
    one, two = (
        smallest_compute(given, loss, cost=cost, level=level) for given in (scratch, continual)
    )
    rows = _paired(one, two)
    with np.errstate(invalid="ignore"):
        saved = np.where(np.isinf(rows[0]) & np.isfinite(rows[1]), 1.0, 1 - rows[1] / rows[0])
    values = {"scratch_compute": rows[0], "continual_compute": rows[1], "saved": saved}
    notes = [
        Note(note.code, note.severity, f"{way}: {note.message}")
        for way, found in (("from scratch", one), ("continual", two))
        for note in found.notes
    ]
    answer = measured({"loss": np.full(rows.shape[1], loss), **values}, level)
    answer["interval"].pop("loss", None)
    return Saving(**answer, binding="equal loss, each at its best size", notes=tuple(notes))


def break_even(
    scratch: Any,
    continual: Any,
    *,
    N: float | None = None,
    compute: float | None = None,
    cost: Cost | None = None,
    level: float = LEVEL,
) -> BreakEven:
    """Where a base stops paying.

    Args:
        scratch, continual: as for :func:`transferred`.
        N: at this size, over the tokens.
        compute: at this budget in FLOPs, over the size. With neither, over the budget, where
            either way takes its own best size.
        cost: as for :func:`jaxlaw.planning.allocation`.
        level: of the intervals.

    Returns:
        BreakEven. Intervals are of the replicates that break even on the same side.
    """
    both = _checked(sources(scratch, continual))
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
    with jax.enable_x64(True):
        log_N, log_D, loss, side = map(
            np.asarray, _crossings(laws, cost, along, params, fixed, tuple(map(math.log, ends)))
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
    notes = _on_sides(pays, side, along)
    for one, what in zip(both, ("from-scratch", "continual"), strict=True):
        at = {k: answer[k] * ours.single(k) / one.single(k) for k in ("N", "D")}
        notes += on_source(one, what, **at)
    binding = f"equal loss; continual training pays {_PAYS[pays].format(along)}"
    return BreakEven(**answer, pays=pays, binding=binding, notes=tuple(notes))


def _checked(both: tuple[Source, ...]) -> tuple[Source, ...]:
    for one in both:
        need(one, "N", "D")
        others = set(one.law.input_names) - {"N", "D"}
        if others:
            raise UsageError(
                f"law {one.law.name} also takes {', '.join(sorted(others))}; transfer compares "
                "laws of N and D"
            )
    return both


def _rows(source: Source) -> int:
    return len(next(iter(source.params.values())))


def _paired(one: Any, two: Any) -> np.ndarray:
    """Compute of two answers, (2, 1 + R); one without replicates stays as it is."""
    rows = [np.append(a.compute, a.replicates.get("compute", ())) for a in (one, two)]
    size = max(map(len, rows))
    return np.stack([row if len(row) == size else np.full(size, row[0]) for row in rows])


@partial(jax.jit, static_argnames="law")
def _losses(law: Law, params: Any, log_N: Any, log_D: Any) -> Any:
    return loss_at(law, params, log_N, log_D, {})


@partial(jax.jit, static_argnames="law")
def _tokens_to(law: Law, params: Any, log_N: Any, target: Any) -> Any:
    """(P,) log tokens at which a law comes down to (P,) targets; infinite where it does not."""

    def one(params: Any, target: Any) -> Any:
        def short_of(log_D: Any) -> Any:
            return target - loss_at(law, params, log_N, log_D, {})

        walls = tuple(map(math.log, WALLS["D"]))
        found = jnp.where(short_of(walls[1]) <= 0, jnp.inf, root(short_of, *walls))
        return jnp.where(short_of(walls[0]) >= 0, -jnp.inf, found)

    return jax.vmap(one)(params, target)


def _compared(
    both: tuple[Source, ...], cost: Cost | None, log_N: float, log_D: np.ndarray, loss: np.ndarray
) -> dict[str, np.ndarray]:
    scratch, ours = both
    far = np.asarray(_tokens_to(scratch.law, scratch.params, log_N, loss))
    flops = [np.exp(np.asarray(log_cost(cost, np.array(log_N), at))) for at in (far, log_D)]
    unreached = ~np.isfinite(log_D)
    values = {
        "N": np.full(len(log_D), math.exp(log_N) / ours.single("N")),
        "D": np.exp(log_D) / ours.single("D"),
        "loss": loss,
        "scratch_D": np.exp(far) / ours.single("D"),
    }
    with np.errstate(invalid="ignore"):
        values["transferred"] = values["scratch_D"] - values["D"]
        values["saved"] = np.where(np.isinf(far), 1.0, 1 - flops[1] / flops[0])
    for name in ("transferred", "saved"):
        values[name] = np.where(unreached, np.nan, values[name])
    return values


def _floor(scratch: Source, log_N: float) -> float:
    """What the law from scratch tends to at a size."""
    point = {name: column[:1] for name, column in scratch.params.items()}
    with jax.enable_x64(True):
        return float(_losses(scratch.law, point, log_N, math.log(WALLS["D"][1]))[0])


def _on_scratch(values: dict[str, np.ndarray], floor: float) -> list[Note]:
    if np.isinf(values["D"][0]):
        message = f"the continual runs do not come to a loss of {values['loss'][0]:.5g}"
        return [Note("no-finite-answer", "error", message)]
    notes = []
    if np.isinf(values["scratch_D"][0]):
        message = (
            f"from scratch no number of tokens comes to a loss of {values['loss'][0]:.5g} at this "
            f"size: it ends at {floor:.5g}"
        )
        notes.append(Note("no-finite-answer", "error", message))
    elif values["transferred"][0] < 0:
        message = "scratch comes to this loss with fewer tokens: the base costs more than it gives"
        notes.append(Note("negative-transfer", "warning", message))
    share = np.isinf(values["scratch_D"][1:]).mean() if len(values["D"]) > 1 else 0.0
    if share and np.isfinite(values["scratch_D"][0]):
        message = f"in {share:.1%} of the replicates scratch never comes to this loss"
        notes.append(Note("replicates-out-of-reach", "warning", message))
    return notes


@partial(jax.jit, static_argnames=("laws", "cost", "along"))
def _crossings(
    laws: tuple[Law, Law], cost: Cost | None, along: str, params: Any, fixed: Any, ends: Any
) -> Any:
    """(P,) log N, log D and loss of the crossing, and its side.

    Side 0: continual is lower throughout; 1: below the crossing; 2: above it; 3: nowhere.
    Where the two cross more than once, the first place at which continual stops being lower.
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
        cell = jnp.where(stops.any(), jnp.argmax(stops), jnp.argmax(begins))
        sign = jnp.where(stops.any(), 1.0, -1.0)
        x = root(lambda x: sign * behind(x), grid[cell], grid[cell + 1])
        none = jnp.where((gaps < 0).any(), 0, 3)
        side = jnp.where(stops.any(), 1, jnp.where(begins.any(), 2, none))
        return *run(laws[1], params[1], x), side

    return jax.vmap(one)(params)


# In the order of the sides that _crossings tells.
_PAYS = {"always": "always", "below": "below this {}", "above": "above this {}", "never": "never"}


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
