"""Losses on other validation sets: a mixture of the two that laws predict (Wang 2025, §5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import nnls

from jaxlaw._answer import Answer
from jaxlaw._quantities import Quantity
from jaxlaw._typed import ConfidenceLevel, ResampleCount, Seed, checked
from jaxlaw.data import read_columns, refuse_rows
from jaxlaw.errors import DataError
from jaxlaw.notes import Note
from jaxlaw.uncertainty import LEVEL, intervals, resampled_weights

_OBSERVED = ("loss_pt", "loss_cpt", "loss_ood")
_BLOCKS = 12  # of one curve, where no runs are named
_POOR = 0.9  # R² below which the mixture describes little


@checked
def out_of_domain(
    observed: Any,
    *,
    columns: Mapping[str, str] | None = None,
    n_resamples: ResampleCount = 1000,
    seed: Seed = 0,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The weights λ1', λ2' of a validation loss, L_ood = λ1'·L_pt + λ2'·L_cpt (Wang 2025, eq. 6).

    Args:
        observed: file, table or dict with the losses ``loss_pt``, ``loss_cpt`` and ``loss_ood``
            at the same points, in nats, and ``run`` where they are of several.
        columns: name → column, where they are called otherwise.
        n_resamples: number of resamples for the intervals, of whole runs where there are 8 or
            more, else of consecutive pieces of the curves: neighbours are not independent.
        seed: seed of the resamples.
        level: confidence level of the intervals.

    Returns:
        Answer with ``weight_pt`` and ``weight_cpt``, λ1' and λ2', 0 or more; ``balance``, λ1 of the
        equivalent balance problem, λ1'/(λ1' + λ2'): what is best for it is best for L_ood;
        ``r2`` and ``rmse`` in nats of the observed
        losses. Fact ``binding`` names a weight that is held at 0.

    Raises:
        UsageError: ``columns`` maps another name.
        DataError: a column is missing, fewer than three points, losses that are no numbers, or
            two losses so alike along the curves that weights are not determined.

    Example:
        >>> observed = {"loss_pt": [3.2, 3.3, 3.4, 3.3], "loss_cpt": [3.1, 2.9, 2.7, 2.8]}
        >>> observed["loss_ood"] = [0.3 * a + 0.6 * b for a, b in zip(*observed.values())]
        >>> round(jl.papers.out_of_domain(observed).weight_cpt, 6)
        0.6

    Shell:
        jaxlaw plan out-of-domain losses.csv -c loss_ood=code_loss
    """
    needed = dict.fromkeys(_OBSERVED, ", a loss at every point")
    runs = read_columns(observed, needed, ("run",), columns or {}, texts=("run",), name="observed")
    table = runs.table.reset_index(drop=True)
    for name in _OBSERVED:
        refuse_rows(runs, name, ~np.isfinite(table[name].to_numpy()), "leave such rows out")
    if len(table) < 3:
        raise DataError(f"{len(table)} points cannot determine two weights; give three or more")
    # Runs together, and where one piece to resample ends and the next begins.
    cuts = [0, len(table)]
    if "run" in table:
        table = table.sort_values("run", kind="stable", ignore_index=True)
        cuts = [0, *table.groupby("run", sort=False).size().cumsum()]
    if len(cuts) <= 8:
        each = max(-(-_BLOCKS // (len(cuts) - 1)), 2)
        pieces = [
            np.linspace(a, b, min(each, b - a) + 1).round().astype(int)[1:]
            for a, b in zip(cuts, cuts[1:], strict=False)
        ]
        cuts = [0, *np.concatenate(pieces)]
    losses = table[list(_OBSERVED)].to_numpy()
    both, target = losses[:, :2], losses[:, 2]
    correlation = both[:, 0] @ both[:, 1] / np.sqrt(np.prod((both**2).sum(axis=0)))
    if 1 - correlation**2 < 1e-12:
        raise DataError(
            "the two losses are proportional along these curves, so weights are not determined; "
            "add curves of other learning rates, replay ratios or steps"
        )
    # The triangular factor of a piece has the same least-squares problem in three rows.
    factors = [np.linalg.qr(piece, mode="r") for piece in np.split(losses, cuts[1:-1])]
    member = np.repeat(np.arange(len(factors)), [len(factor) for factor in factors])
    drawn = resampled_weights(np.arange(len(factors)), n_resamples, seed)
    counts = np.vstack([np.ones(len(factors)), drawn])
    rows = np.concatenate(factors)
    scaled = (rows * np.sqrt(each)[member, None] for each in counts)
    weights = np.array([nnls(each[:, :2], each[:, 2])[0] for each in scaled])
    pt, cpt = weights.T
    with np.errstate(invalid="ignore"):  # both may be 0
        values = {"weight_pt": pt, "weight_cpt": cpt, "balance": pt / (pt + cpt)}
    square = np.mean((target - both @ weights[0]) ** 2)
    r2, rmse = float(1 - square / np.var(target)), float(np.sqrt(square))
    bounds = intervals(values, level)
    quantities = {
        name: Quantity(float(column[0]), "", 1.0, *bounds.get(name, ()), draws=column[1:])
        for name, column in values.items()
        if not np.isnan(column[0])
    }
    notes = []
    if r2 < _POOR:
        message = (
            f"the mixture explains little of these losses (R² {r2:.3f}, RMSE {rmse:.3g}); the "
            "paper too warns that not every validation set is one: plan by its own curves"
        )
        notes.append(Note("poor-mixture", "warning", message))
    zero = [name for name, w in zip(("λ1'", "λ2'"), weights[0], strict=True) if w == 0]
    return Answer(
        kind="out of domain",
        sentence="the loss is {weight_pt} of that on the pre-training corpus and {weight_cpt} of "
        "that on the new one, R² {r2}, RMSE {rmse}",
        quantities=quantities | {"r2": Quantity(r2), "rmse": Quantity(rmse, "nats")},
        notes=notes,
        facts={"binding": f"{zero[0]} at 0"} if zero else {},
        level=level,
    )  # fmt: skip
