"""From scratch against continual: data transferred, compute saved, where it stops paying.

Zheng 2024, §4.3 and figure 2. The base's own training is not counted, as there.

The paper sees 25 to 50 % of the compute saved throughout. Its two fits of the lowest losses (§4.2)
say so: 48 to 43 % at equal loss from 1e17 to 1e23 FLOPs. The coefficients of its table 2 do not:
at 20 tokens a parameter, as its models were trained, they put the continual runs behind. Exponents
are printed to two digits, and half a unit of the last one moves what is saved by 1 B parameters on
20 B tokens between −500 % and 36 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import compiled, in_float64
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    LEVEL,
    SAME,
    Answer,
    Source,
    in_domain,
    measured,
    need,
    on_replicates,
    on_source,
    percentiles_of,
    sources,
)
from jaxlaw.planning._solve import root
from jaxlaw.planning.placing import (
    WALLS,
    Cost,
    log_cost,
    loss_at,
    other_input,
)
from jaxlaw.planning.targets import smallest_compute


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


@checked
def transferred(
    scratch: Any,
    continual: Any,
    *,
    N: float,
    D: float | None = None,
    loss: float | None = None,
    cost: Cost | None = None,
    level: ConfidenceLevel = LEVEL,
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
    log_N = math.log(in_domain("N", N) * nd_laws(both)[1].single("N"))
    with in_float64():
        if D is None:
            target = np.full(ours.rows, in_domain("loss", loss))
            log_D = np.asarray(other_input(
                ours.law, None, "D", "loss", ours.params, log_N, target[0], {},
            )[0])  # fmt: skip
        else:
            log_D = np.full(ours.rows, math.log(in_domain("D", D) * ours.single("D")))
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
    notes += [*on_replicates(values["saved"], "answer"), *on_held(scratch, continual)]
    return Transfer(**answer, binding="equal loss at equal size", notes=tuple(notes))


@checked
def transfer_table(
    scratch: Any,
    continual: Any,
    N: Sequence[float],
    D: Sequence[float],
    *,
    cost: Cost | None = None,
    level: ConfidenceLevel = LEVEL,
) -> pd.DataFrame:
    """Transferred data and saved compute for every N and D (Zheng's figure 2).

    Returns:
        One row each: ``N``, ``D``, ``loss``, ``scratch_D``, ``transferred``, ``saved``; with
        replicates ``…_low`` and ``…_high`` of the last two.
    """
    both = sources(scratch, continual)
    ours, rows = nd_laws(both)[1], []
    sizes, tokens = (
        [in_domain(name, one) for one in np.atleast_1d(values)]
        for name, values in (("N", N), ("D", D))
    )
    with in_float64():
        for size in sizes:
            for one in tokens:
                log_N, log_D = math.log(size * ours.single("N")), math.log(one * ours.single("D"))
                here = np.full(ours.rows, log_D)
                loss = np.asarray(_losses(ours.law, ours.params, log_N, here))
                values = _compared(both, cost, log_N, here, loss)
                row = {name: column[0] for name, column in values.items()}
                for name in ("transferred", "saved"):
                    if (ends := percentiles_of(values[name], level)) is not None:
                        row[f"{name}_low"], row[f"{name}_high"] = ends
                rows.append(row)
    return pd.DataFrame(rows)


@checked
def saved_compute(
    scratch: Any,
    continual: Any,
    loss: float,
    *,
    cost: Cost | None = None,
    level: ConfidenceLevel = LEVEL,
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
    notes += on_held(scratch, continual)
    answer = measured({"loss": np.full(rows.shape[1], loss), **values}, level)
    answer["interval"].pop("loss", None)
    return Saving(**answer, binding="equal loss, each at its best size", notes=tuple(notes))


def nd_laws(both: tuple[Source, ...]) -> tuple[Source, ...]:
    """Laws of N and D alone, or UsageError."""
    for one in both:
        need(one, "N", "D")
        others = set(one.law.input_names) - {"N", "D"}
        if others:
            raise UsageError(
                f"law {one.law.name} also takes {', '.join(sorted(others))}; transfer compares "
                "laws of N and D"
            )
    return both


def on_held(scratch: Any, continual: Any) -> list[Note]:
    """Two bootstraps of which one holds what the other was free to fit, and not as that has it."""
    if not (hasattr(scratch, "fit") and hasattr(continual, "fit")):
        return []
    fit = continual.fit
    held = [
        name
        for name in fit.law.from_base
        if name in (fit.fixed or {})
        and not _same_draws(continual.params[name], scratch.params.get(name))
    ]
    if not held:
        return []
    message = (
        f"the resamples of the continual fit do not hold {', '.join(held)} of those from scratch: "
        "intervals of sizes, tokens and savings come out too wide, those of losses too narrow; "
        "for right ones resample the continual runs with base= the bootstrap from scratch"
    )
    return [Note("base-held", "warning", message)]


def _same_draws(ours: Any, theirs: Any) -> bool:
    """Whether every resample that came to something has the other's value."""
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    return ours.shape == theirs.shape and bool(
        np.all(np.isnan(ours) | np.isclose(ours, theirs, rtol=SAME, atol=0.0))
    )


def _paired(one: Any, two: Any) -> np.ndarray:
    """Compute of two answers, (2, 1 + R); one without replicates stays as it is."""
    rows = [np.append(a.compute, a.replicates.get("compute", ())) for a in (one, two)]
    size = max(map(len, rows))
    return np.stack([row if len(row) == size else np.full(size, row[0]) for row in rows])


@compiled(static_argnames="law")
def _losses(law: Law, params: Any, log_N: Any, log_D: Any) -> Any:
    return loss_at(law, params, log_N, log_D, {})


@compiled(static_argnames="law")
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
    with in_float64():
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
