"""Designs by name, as the command line has them, and what else stands for a design."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxlaw._typed import checked
from jaxlaw.errors import UsageError, nearest
from jaxlaw.validation.folds._designs import (
    all_points,
    first,
    k_fold,
    largest,
    last,
    leave_k_out,
    leave_one_out,
    own_masks,
    random_split,
    segments,
    splitter,
)
from jaxlaw.validation.folds._masks import Design

DESIGNS: dict[str, Callable[..., Design]] = {
    "leave-one-out": leave_one_out,
    "leave-k-out": leave_k_out,
    "segments": segments,
    "largest": largest,
    "last": last,
    "first": first,
    "k-fold": k_fold,
    "random-split": random_split,
    "all-points": all_points,
}


@checked
def parse(text: str) -> Design:
    """A design from its name, as on the command line.

    Args:
        text: ``leave-k-out:r:2``, ``segments:D:3:within=N+r``, ``last:D:1/3``,
            ``k-fold:5:groups=run``: arguments in order or by name, columns joined by ``+``.

    Raises:
        UsageError: no such design, or arguments it does not take.
    """
    name, *rest = text.split(":")
    if name not in DESIGNS:
        raise UsageError(
            f"there is no fold design '{name}'; designs: {', '.join(DESIGNS)}."
            f"{nearest(name, DESIGNS)}"
        )
    build = DESIGNS[name]
    named = dict(part.split("=", 1) for part in rest if "=" in part)
    try:
        bound = inspect.signature(build).bind(*(p for p in rest if "=" not in p), **named)
    except TypeError as error:
        wanted = ":".join([name, *(p.upper() for p in inspect.signature(build).parameters)])
        raise UsageError(f"folds {text}: {error}; write {wanted}") from None
    return build(**{key: _argument(key, value, text) for key, value in bound.arguments.items()})


@checked
def as_design(folds: Any) -> Design:
    """A design, its name, a scikit-learn splitter or masks as a design."""
    if isinstance(folds, Design):
        return folds
    if isinstance(folds, str):
        return parse(folds)
    if callable(getattr(folds, "split", None)) and hasattr(folds, "get_n_splits"):
        return splitter(folds)
    if isinstance(folds, np.ndarray | list | tuple):
        return own_masks(folds)
    raise UsageError(
        f"folds is a design such as folds.leave_one_out('N'), its name, a scikit-learn splitter "
        f"or (folds, rows) masks, not {type(folds).__name__}"
    )


def _argument(key: str, value: str, text: str) -> Any:
    if key in ("column", "within", "groups"):
        return value.split("+") if "+" in value else value
    if key == "share":
        return value
    try:
        return int(value)
    except ValueError:
        raise UsageError(f"folds {text}: {key} is a whole number, not '{value}'") from None
