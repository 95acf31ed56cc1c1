"""Losses on other validation sets: a mixture of the two that laws predict (Wang 2025, §5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from jaxlaw._arrays import numbers_of
from jaxlaw._result import TARGET
from jaxlaw._typed import ConfidenceLevel, ResampleCount, Seed, checked
from jaxlaw.data import read_columns, refuse_rows
from jaxlaw.errors import DataError, UsageError
from jaxlaw.notes import Note
from jaxlaw.planning import OldAnswer
from jaxlaw.uncertainty import LEVEL, has_draws, resampled_weights, with_intervals

_OBSERVED = ("loss_pt", "loss_cpt", "loss_ood")
_OPTIONAL = ("run", "step")
_BLOCKS = 12  # of one curve, where no runs are named
_POOR = 0.9  # R² below which the mixture describes little


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OutOfDomain(OldAnswer):
    """A validation loss as a mixture of two, L_ood = λ1'·L_pt + λ2'·L_cpt (Wang 2025, §5.2).

    Attributes:
        weight_pt, weight_cpt: weights λ1' and λ2'.
        balance: λ1 of the equivalent balance problem, λ1'/(λ1' + λ2'): what is best for it
            is best for L_ood; NaN where a weight is negative, so that there is none.
        r2, rmse: R² and RMSE of the observed losses.
        table: losses as observed (``loss_pt``, ``loss_cpt``, ``loss_ood``; ``run`` and ``step``
            where they were given) and ``mixture``, what the weights make of them.

    Example:
        >>> observed = {"loss_pt": [3.2, 3.3, 3.4, 3.3], "loss_cpt": [3.1, 2.9, 2.7, 2.8]}
        >>> observed["loss_ood"] = [0.3 * a + 0.6 * b for a, b in zip(*observed.values())]
        >>> round(float(jl.papers.out_of_domain(observed).predict(3.0, 2.0)), 6)
        2.1
    """

    weight_pt: float = field(metadata={"unit": ""})
    weight_cpt: float = field(metadata={"unit": ""})
    balance: float = field(metadata={"unit": ""})
    r2: float = field(metadata={"unit": ""})
    rmse: float = field(metadata={"unit": TARGET})
    table: pd.DataFrame
    picture = "ood_losses"
    column_units: ClassVar[Mapping[str, str]] = {
        "loss_pt": "nats",
        "loss_cpt": "nats",
        "loss_ood": "nats",
        "mixture": "nats",
    }

    def shown(self) -> dict[str, pd.DataFrame]:
        """None: the losses are what was observed."""
        return {}

    def sentence(self) -> str:
        """The two weights, and how good the mixture is."""
        return (
            f"the loss is {self.written('weight_pt', level=True)} of that on the pre-training "
            f"corpus and {self.written('weight_cpt')} of that on the new one, R² "
            f"{self.written('r2')}, RMSE {self.written('rmse')}"
        )

    @classmethod
    def _read_fields(cls, record: dict[str, Any]) -> Any:
        # The command writes a predicted curve beside the answer, which is none of its fields.
        return super()._read_fields({k: v for k, v in record.items() if k != "curve"})

    def predict(self, loss_pt: Any, loss_cpt: Any) -> np.ndarray:
        """The loss for losses on the two corpora, predicted or observed; arrays broadcast."""
        return self.weight_pt * numbers_of("loss_pt", loss_pt) + self.weight_cpt * numbers_of(
            "loss_cpt", loss_cpt
        )

    def predict_curve(
        self, pt: Any, cpt: Any, schedule: Any, at: Any = None, *, replay: float | None = None,
        **options: Any,
    ) -> pd.DataFrame:  # fmt: skip
        """The curve under a schedule, from the fits of the two losses.

        Args:
            pt: fit of the loss on the pre-training corpus, or a bootstrap of it.
            cpt: fit of the loss on the new corpus, or a bootstrap of it.
            schedule: rates of the run, as for :meth:`jaxlaw.Fit.predict_curve`.
            at: steps, as for :meth:`jaxlaw.Fit.predict_curve`.
            replay: share of the pre-training corpus, for laws that take r.
            **options: other options of :meth:`jaxlaw.Fit.predict_curve`.

        Returns:
            ``step``, ``lr``, ``phase``; ``loss_pt``, ``loss_cpt``, ``loss_ood``; ``outside``.

        Raises:
            UsageError: a law needs ``replay``.
        """
        curves = []
        pt, cpt = (x.draws().fit if has_draws(x) else x for x in (pt, cpt))
        for fit, share in ((pt, replay), (cpt, None if replay is None else 1 - replay)):
            takes = "r" in fit.law.input_names
            if takes and share is None:
                raise UsageError(f"law {fit.law.name} needs replay=, the share of replay")
            more = {"r": share} if takes else {}
            curves.append(fit.predict_curve(schedule, at, **options, **more))
        first, second = curves
        table = first[[name for name in ("step", "lr", "phase") if name in first]].copy()
        table["loss_pt"], table["loss_cpt"] = first[pt.law.target], second[cpt.law.target]
        table["loss_ood"] = self.predict(table["loss_pt"], table["loss_cpt"])
        table["outside"] = first["outside"] | second["outside"]
        return table


@checked
def out_of_domain(
    observed: Any,
    *,
    nonnegative: bool = True,
    columns: Mapping[str, str] | None = None,
    n_resamples: ResampleCount = 1000,
    seed: Seed = 0,
    level: ConfidenceLevel = LEVEL,
) -> OutOfDomain:
    """The weights λ1', λ2' of a validation loss, from observed curves (Wang 2025, eq. 6).

    Args:
        observed: file, table or dict with the losses ``loss_pt``, ``loss_cpt`` and ``loss_ood``
            at the same points, in nats, and ``run`` where they are of several.
        nonnegative: whether weights are 0 or more; else any.
        columns: name → column, where they are called otherwise.
        n_resamples: number of resamples for the intervals, of whole runs where there are 8 or
            more, else of consecutive pieces of the curves: neighbours are not independent.
        seed: seed of the resamples.
        level: confidence level of the intervals.

    Returns:
        OutOfDomain.

    Raises:
        UsageError: ``columns`` maps another name.
        DataError: a column is missing, fewer than three points, losses that are no numbers, or
            two losses so alike along the curves that weights are not determined.

    Example:
        >>> observed = {"loss_pt": [3.2, 3.3, 3.4, 3.3], "loss_cpt": [3.1, 2.9, 2.7, 2.8]}
        >>> observed["loss_ood"] = [0.3 * a + 0.6 * b for a, b in zip(*observed.values())]
        >>> round(jl.papers.out_of_domain(observed).weight_cpt, 6)
        0.6
    """
    table, cuts = _read_losses(observed, columns or {})
    losses = table[list(_OBSERVED)].to_numpy()
    both, target = losses[:, :2], losses[:, 2]
    correlation = both[:, 0] @ both[:, 1] / np.sqrt(np.prod((both**2).sum(axis=0)))
    if 1 - correlation**2 < 1e-12:
        raise DataError(
            "the two losses are proportional along these curves, so weights are not determined; "
            "add curves of other rates, replay ratios or steps"
        )
    # The triangular factor of a piece has the same least-squares problem in three rows.
    factors = [np.linalg.qr(piece, mode="r") for piece in np.split(losses, cuts)]
    member = np.repeat(np.arange(len(factors)), [len(factor) for factor in factors])
    drawn = resampled_weights(np.arange(len(factors)), n_resamples, seed)
    counts = np.vstack([np.ones(len(factors)), drawn])
    rows = np.concatenate(factors)
    weights = np.array(
        [_least_squares(rows * np.sqrt(each)[member, None], nonnegative) for each in counts]
    )
    left = target - both @ weights[0]
    r2 = float(1 - np.sum(left**2) / np.sum((target - target.mean()) ** 2))
    total = weights.sum(axis=1)
    valid = (weights >= 0).all(axis=1) & (total > 0)
    balance = np.where(valid, weights[:, 0] / np.where(valid, total, 1.0), np.nan)
    values = {"weight_pt": weights[:, 0], "weight_cpt": weights[:, 1], "balance": balance}
    rmse = float(np.sqrt(np.mean(left**2)))
    zero = [name for name, w in zip(("λ1'", "λ2'"), weights[0], strict=True) if w == 0]
    return OutOfDomain(
        **with_intervals(values, level),
        r2=r2,
        rmse=rmse,
        binding=f"{zero[0]} at 0" if zero else "none",
        table=table.assign(mixture=both @ weights[0]),
        notes=tuple(_mixture_notes(weights[0], r2, rmse)),
        units=OutOfDomain.single_units(),
    )  # fmt: skip


def _read_losses(observed: Any, columns: Mapping[str, str]) -> tuple[pd.DataFrame, list[int]]:
    """The losses, runs together, and where one piece to resample ends and the next begins."""
    needed = dict.fromkeys(_OBSERVED, ", a loss at every point")
    runs = read_columns(observed, needed, _OPTIONAL, columns, texts=("run",), name="observed")
    table = runs.table.reset_index(drop=True)
    for name in _OBSERVED:
        refuse_rows(runs, name, ~np.isfinite(table[name].to_numpy()), "leave such rows out")
    if len(table) < 3:
        raise DataError(f"{len(table)} points cannot determine two weights; give three or more")
    if "run" not in table:
        return table, _cuts(0, len(table), _BLOCKS)
    table = table.sort_values("run", kind="stable", ignore_index=True)
    bounds = [0, *table.groupby("run", sort=False).size().cumsum()]
    if len(bounds) > 8:
        return table, bounds[1:-1]
    each = max(-(-_BLOCKS // (len(bounds) - 1)), 2)
    inner = [c for a, b in zip(bounds, bounds[1:], strict=False) for c in [*_cuts(a, b, each), b]]
    return table, inner[:-1]


def _cuts(start: int, stop: int, count: int) -> list[int]:
    edges = np.linspace(start, stop, min(count, stop - start) + 1).round().astype(int)
    return edges[1:-1].tolist()


def _least_squares(rows: np.ndarray, nonnegative: bool) -> np.ndarray:
    """The (2,) weights of the first two columns that come nearest to the third."""
    from scipy.optimize import nnls

    if nonnegative:
        return nnls(rows[:, :2], rows[:, 2])[0]
    return np.linalg.lstsq(rows[:, :2], rows[:, 2])[0]


def _mixture_notes(weights: np.ndarray, r2: float, rmse: float) -> list[Note]:
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
