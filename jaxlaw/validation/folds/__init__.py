"""Fold designs: which points are fitted and which are held out."""

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
from jaxlaw.validation.folds._masks import Design, Folds
from jaxlaw.validation.folds._naming import as_design, parse

__all__ = [
    "Design",
    "Folds",
    "all_points",
    "as_design",
    "first",
    "k_fold",
    "largest",
    "last",
    "leave_k_out",
    "leave_one_out",
    "own_masks",
    "parse",
    "random_split",
    "segments",
    "splitter",
]
