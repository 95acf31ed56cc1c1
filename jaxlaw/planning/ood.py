"""Losses on other validation sets: a mixture of the two that laws predict (Wang 2025, §5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._tables import read_table
from jaxlaw._typed import ConfidenceLevel, ResampleCount, Seed, checked
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.notes import Note
from jaxlaw.planning._answers import LEVEL, Answer, measured

_NAME = "observed"  # what the table is called in messages
_COLUMNS = ("loss_pt", "loss_cpt", "loss_ood")
_MORE = ("run", "step")  # kept where they are
_BLOCKS = 12  # of one curve, where no runs are named
_POOR = 0.9  # R² below which the mixture describes little


@dataclass(frozen=True, eq=False, kw_only=True)
class OutOfDomain(Answer):
    """L_ood = λ1'·L_pt + λ2'·L_cpt.

    Attributes:
        weight_pt, weight_cpt: λ1', λ2'.
        balance: λ1 of the balance problem this comes to, λ1'/(λ1' + λ2'): what is best for it
            is best for L_ood; NaN where a weight is negative, so that there is none.
        r2, rmse: of the observed losses.
        table: the losses as observed (``loss_pt``, ``loss_cpt``, ``loss_ood``; ``run`` and
            ``step`` where they were given) and ``mixture``, what the weights make of them.
    """

    weight_pt: float
    weight_cpt: float
    balance: float
    r2: float
    rmse: float
    table: pd.DataFrame

    def predict(self, loss_pt: Any, loss_cpt: Any) -> np.ndarray:
        """The loss for losses on the two corpora, predicted or observed; arrays broadcast."""
        return self.weight_pt * np.asarray(loss_pt) + self.weight_cpt * np.asarray(loss_cpt)

    def predict_curve(
        self, pt: Any, cpt: Any, schedule: Any, at: Any = None, *, replay: float | None = None,
        **options: Any,
    ) -> pd.DataFrame:  # fmt: skip
        """The curve under a schedule, from the fits of the two losses.

        Args:
            pt, cpt: the fits, or bootstraps of them.
            schedule, at, **options: as for :meth:`jaxlaw.Fit.predict_curve`.
            replay: share of the pre-training corpus, for laws that take r.

        Returns:
            ``step``, ``lr``, ``phase``; ``loss_pt``, ``loss_cpt``, ``loss_ood``; ``outside``.
        """
        tables = []
        pt, cpt = (getattr(one, "fit", one) for one in (pt, cpt))
        for fit, share in ((pt, replay), (cpt, None if replay is None else 1 - replay)):
            takes = "r" in fit.law.input_names
            if takes and share is None:
                raise UsageError(f"law {fit.law.name} needs replay=, the share of replay")
            more = {"r": share} if takes else {}
            tables.append(fit.predict_curve(schedule, at, **options, **more))
        mine, other = tables
        table = mine[[name for name in ("step", "lr", "phase") if name in mine]].copy()
        table["loss_pt"], table["loss_cpt"] = mine[pt.law.target], other[cpt.law.target]
        table["loss_ood"] = self.predict(table["loss_pt"], table["loss_cpt"])
        table["outside"] = mine["outside"] | other["outside"]
        return table


@checked
def out_of_domain(
    observed: Any, *, nonnegative: bool = True, columns: Mapping[str, str] | None = None,
    resamples: ResampleCount = 1000, seed: Seed = 0, level: ConfidenceLevel = LEVEL,
) -> OutOfDomain:  # fmt: skip
    """The weights λ1', λ2' of a validation loss, from observed curves (Wang 2025, eq. 6).

    Args:
        observed: file, table or dict with the losses ``loss_pt``, ``loss_cpt`` and ``loss_ood``
            at the same points, and ``run`` where they are of several.
        nonnegative: weights of 0 or more; else any.
        columns: name → column, where they are called otherwise.
        resamples: for the intervals, of whole runs where there are 8 or more, else of
            consecutive pieces of the curves: neighbours of a curve are not independent.
        seed: of them.
        level: of the intervals.

    Raises:
        UsageError: a column is missing.
        DataError: fewer than three points, losses that are no numbers, or two losses so alike
            along the curves that weights are not determined.
    """
    table, pieces = _read(observed, columns or {})
    losses = table[list(_COLUMNS)].to_numpy()
    grams = [piece.T @ piece for piece in np.split(losses, pieces)]
    whole = np.sum(grams, axis=0)
    correlation = whole[0, 1] / np.sqrt(whole[0, 0] * whole[1, 1])
    if 1 - correlation**2 < 1e-12:
        raise DataError(
            "the two losses are proportional along these curves, so weights are not determined; "
            "add curves of other rates, replay ratios or steps"
        )
    draws = np.random.default_rng(seed).multinomial(
        len(grams), np.full(len(grams), 1 / len(grams)), resamples
    )
    drawn = np.tensordot(draws, np.stack(grams), 1)
    weights = _solved(np.concatenate([whole[None], drawn]), nonnegative)
    both, target = losses[:, :2], losses[:, 2]
    left = target - both @ weights[0]
    r2 = 1 - np.sum(left**2) / np.sum((target - target.mean()) ** 2)
    total = weights.sum(axis=1)
    valid = (weights >= 0).all(axis=1) & (total > 0)
    balance = np.where(valid, weights[:, 0] / np.where(valid, total, 1.0), np.nan)
    values = {"weight_pt": weights[:, 0], "weight_cpt": weights[:, 1], "balance": balance}
    rmse = float(np.sqrt(np.mean(left**2)))
    return OutOfDomain(
        **measured(values, level), r2=float(r2), rmse=rmse, binding=_binding(weights[0]),
        table=table.assign(mixture=both @ weights[0]), notes=tuple(_notes(weights[0], r2, rmse)),
    )  # fmt: skip


def _read(observed: Any, columns: Mapping[str, str]) -> tuple[pd.DataFrame, list[int]]:
    """The losses, runs together, and where one piece ends and the next begins."""
    table = _columns_of(read_table(observed, _NAME).frame, columns)
    losses = table[list(_COLUMNS)].apply(pd.to_numeric, errors="coerce").astype(float)
    bad = ~np.isfinite(losses.to_numpy()).all(axis=1)
    if bad.any():
        raise DataError(f"losses that are no numbers in row {int(np.argmax(bad)) + 1}; leave such "
                        "rows out")  # fmt: skip
    if len(losses) < 3:
        raise DataError(f"{len(losses)} points cannot tell two weights; give three or more")
    table[list(_COLUMNS)] = losses
    if "run" not in table:
        return table, _cuts(0, len(losses), _BLOCKS)
    table = table.sort_values("run", kind="stable", ignore_index=True)
    ends = [0, *table.groupby("run", sort=False).size().cumsum()]
    if len(ends) > 8:
        return table, ends[1:-1]
    each = max(-(-_BLOCKS // (len(ends) - 1)), 2)
    inner = [c for a, b in zip(ends, ends[1:], strict=False) for c in [*_cuts(a, b, each), b]]
    return table, inner[:-1]


def _columns_of(given: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """The columns there is use for, by their names here."""
    for name in columns:
        if name not in (*_COLUMNS, *_MORE):
            every = (*_COLUMNS, *_MORE)
            raise UsageError(
                f"{_NAME} takes the columns {', '.join(every)}, not '{name}'.{nearest(name, every)}"
            )
    found = {}
    for name in (*_COLUMNS, *_MORE):
        column = columns.get(name, name)
        if column in given:
            found[name] = given[column].to_numpy()
        elif name in _COLUMNS or name in columns:
            names = [str(one) for one in given.columns]
            raise UsageError(f"{_NAME} has no column '{column}'.{nearest(column, names)}")
    return pd.DataFrame(found)


def _cuts(start: int, stop: int, count: int) -> list[int]:
    edges = np.linspace(start, stop, min(count, stop - start) + 1).round().astype(int)
    return edges[1:-1].tolist()


def _solved(grams: np.ndarray, nonnegative: bool) -> np.ndarray:
    """(problems, 2) least squares from (problems, 3, 3) sums of products."""
    a, b, c = grams[:, 0, 0], grams[:, 0, 1], grams[:, 1, 1]
    p, q = grams[:, 0, 2], grams[:, 1, 2]
    determinant = a * c - b * b
    safe = np.where(determinant > 0, determinant, np.nan)
    free = np.stack([(p * c - q * b) / safe, (q * a - p * b) / safe], -1)
    if not nonnegative:
        return free
    # With two weights the best on the edge is either alone.
    alone = np.stack([np.stack([p / a, 0 * q], -1), np.stack([0 * p, q / c], -1)])
    gains = np.stack([p**2 / a, q**2 / c])
    edge = alone[gains.argmax(axis=0), np.arange(len(a))]
    inside = (free >= 0).all(axis=1, keepdims=True)
    return np.where(inside, free, edge)


def _binding(weights: np.ndarray) -> str:
    zero = [name for name, w in zip(("λ1'", "λ2'"), weights, strict=True) if w == 0]
    return f"{zero[0]} at 0" if zero else "none"


def _notes(weights: np.ndarray, r2: float, rmse: float) -> list[Note]:
    notes = []
    if r2 < _POOR:
        message = (
            f"the mixture explains little of these losses (R² {r2:.3f}, RMSE {rmse:.3g}); the "
            "paper too warns that not every validation set is one"
        )
        notes.append(Note("poor-mixture", "warning", message))
    if (weights < 0).any():
        message = (
            "a weight is negative: this is no balance of the two losses, and what lowers one of "
            "them lifts this one"
        )
        notes.append(Note("negative-weight", "warning", message))
    return notes
