"""What a target loss takes: the least compute, the tokens of a model, the model for its tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from jaxlaw._jit import in_float64
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    LEVEL,
    Source,
    held,
    in_domain,
    measured,
    need,
    on_replicates,
    on_source,
    sources,
)
from jaxlaw.planning.budgets import (
    Allocation,
    checked_limits,
    given_share,
    log_limits,
    searched,
)
from jaxlaw.planning.placing import COMPUTES, Cost, least_compute, log_cost, other_input

NEAR_END = 1e-3  # of the searched range of log compute
REACHED = 1e-9  # of the loss asked for: farther away a search has not ended


@checked
def smallest_compute(
    fit: Any,
    loss: float,
    *,
    limits: Mapping[str, tuple[float | None, float | None]] | None = None,
    cost: Cost | None = None,
    corpus_tokens: float | None = None,
    level: ConfidenceLevel = LEVEL,
    **inputs: float | Literal["best"],
) -> Allocation:
    """The least compute whose best run reaches a loss, and that run.

    Args and units as :func:`jaxlaw.planning.allocation`, ``r="best"`` included; ``loss`` in nats.

    Returns:
        Allocation. Where the law never comes down to the loss, ``compute`` is infinite, N and
        D are NaN, and the note ``out-of-reach`` says how low it comes.
    """
    (source,) = sources(fit)
    need(source, "N", "D")
    target = in_domain("loss", loss)
    free, given = searched(source, inputs, corpus_tokens)
    box = log_limits(source, checked_limits(limits, free), corpus_tokens)
    share = "r" in free
    with in_float64():
        targets = np.array([target])
        found = least_compute(source.law, cost, share, source.params, targets, box, given)
    log_C, log_N, log_D, *shares, reached = (np.asarray(column)[:, 0] for column in found)
    never = log_C >= math.log(COMPUTES[1]) * (1 - NEAR_END)
    lost = ~never & ~(reached <= target * (1 + REACHED))
    values = {
        "N": np.where(never, np.nan, np.exp(log_N) / source.single("N")),
        "D": np.where(never, np.nan, np.exp(log_D) / source.single("D")),
        "loss": np.full(len(log_C), target),
        "compute": np.where(lost, np.nan, np.where(never, np.inf, np.exp(log_C))),
    }
    if share:
        values["r"] = np.where(never, np.nan, shares[0])
    lowest = f"{reached[0]:.5g}" + ("" if share else f" with {COMPUTES[1]:.0e} FLOPs")
    notes = _reach(values["compute"], target, lowest)
    return _told(source, values, given_share(inputs), "loss", notes, level)


@checked
def allocation_at(
    fit: Any,
    *,
    N: float | None = None,
    D: float | None = None,
    loss: float | None = None,
    compute: float | None = None,
    cost: Cost | None = None,
    level: ConfidenceLevel = LEVEL,
    **inputs: float,
) -> Allocation:
    """The tokens for a given model, or the model for given tokens.

    A model alone asks for no number of tokens: more is always better. So one more thing is
    given, the ``loss`` to reach or the ``compute`` to spend.

    Args:
        fit: a Fit, (law, params), or a bootstrap.
        N, D: one of them, in the units of the fitted runs.
        loss, compute: one of them, in nats or FLOPs.
        cost: as for :func:`jaxlaw.planning.allocation`.
        level: of the intervals.
        **inputs: the law's other inputs.

    Returns:
        Allocation. A loss that no number of tokens (no size) reaches makes it infinite, with
        the note ``out-of-reach``.

    Raises:
        UsageError: not one of N and D, or not one of loss and compute.
    """
    (source,) = sources(fit)
    need(source, "N", "D")
    if (N is None) == (D is None) or (loss is None) == (compute is None):
        raise UsageError("give one of N and D, and one of loss and compute")
    known, name = ("N", "D") if D is None else ("D", "N")
    by, value = ("loss", loss) if compute is None else ("compute", compute)
    size = in_domain(known, N if D is None else D)
    value = in_domain(by, value)
    log_known = math.log(size * source.single(known))
    given = held(source, inputs, ("N", "D"))
    with in_float64():
        log_x, reached = other_input(
            source.law, cost, name, by, source.params, log_known,
            math.log(value) if by == "compute" else value, given,
        )  # fmt: skip
        log_x, reached = np.asarray(log_x), np.asarray(reached)
        pair = (log_known, log_x) if name == "D" else (log_x, log_known)
        flops = np.exp(np.asarray(log_cost(cost, *map(np.asarray, pair))))
    values = {
        name: np.exp(log_x) / source.single(name),
        known: np.full(len(log_x), size),
        "loss": np.full(len(log_x), value) if by == "loss" else reached,
        "compute": flops,
    }
    notes = []
    if by == "loss":
        (far,) = _limit(source, name, log_known, given)
        notes = _reach(values[name], value, f"{far:.5g} however large {name} is")
    ordered = {key: values[key] for key in ("N", "D", "loss", "compute")}
    return _told(source, ordered, given_share(inputs), f"{known} and {by}", notes, level)


def _limit(source: Source, name: str, log_known: float, given: dict) -> np.ndarray:
    """The loss at the far wall of N or D: what it tends to."""
    point = {key: column[:1] for key, column in source.params.items()}
    with in_float64():
        _, lowest = other_input(
            source.law, None, name, "compute", point, log_known, math.log(COMPUTES[1]), given
        )
    return np.asarray(lowest)


def _reach(found: np.ndarray, target: float, lowest: str) -> list[Note]:
    notes = []
    if np.isinf(found[0]):
        message = f"the law does not reach a loss of {target:g}; it comes down to {lowest}"
        notes.append(Note("out-of-reach", "error", message))
    elif np.isnan(found[0]):
        notes.append(Note("not-converged", "error", "the search ended before the loss was met"))
    elif np.isinf(found[1:]).any():
        share = np.isinf(found[1:]).mean()
        message = f"{share:.1%} of {found.size - 1} replicates never reach a loss of {target:g}"
        notes.append(Note("replicates-out-of-reach", "warning", message))
    return notes


def _told(
    source: Source, values: dict, share: float | None, binding: str, notes: list, level: float
) -> Allocation:  # fmt: skip
    answer = measured(values, level)
    for name, column in values.items():
        if len(set(column.tolist())) == 1:
            answer["interval"].pop(name, None)  # given, not found
    if share is not None:
        answer["r"] = share
    at = {name: answer[name] for name in ("N", "D", "r") if name in answer}
    notes += [*on_source(source, **at), *on_replicates(values["compute"], "answer")]
    return Allocation(**answer, binding=binding, notes=tuple(notes))
