"""Plots of a study: its tables as heat maps, the scores of every fold."""

from __future__ import annotations

from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from jaxlaw._axes import BLUE, FAINT, INK, RED, log_axis, new_axes, tidy
from jaxlaw._typed import checked
from jaxlaw.fitting import SCORES, score_text
from jaxlaw.validation import Study

_FAR = 10.0  # times the best score of a column: as dark as it gets


@checked
def score_table(
    study: Study,
    metric: str = "huber",
    ax: Axes | None = None,
    *,
    centre: Literal["mean", "median"] = "mean",
    average: bool = False,
) -> Axes:
    """A table of the study as a heat map: laws down, data sets across.

    Each cell is as dark as its score is behind the best of its column (of R², what it leaves
    unexplained); the best is set in bold.

    Args:
        study: study that :func:`jaxlaw.cross_validate` returned.
        metric: ``huber``, ``mean_huber``, ``r2``, ``huber_linear``, ``mean_huber_linear`` or
            ``rmse``.
        ax: axes to draw on; a new figure if None.
        centre, average: as for :meth:`jaxlaw.Study.score_table`.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> folds = jl.folds.k_fold(2)
        >>> study = jl.cross_validate(["chinchilla", "kaplan"], runs, folds, n_starts=64)
        >>> plots.score_table(study).get_ylabel()
        'law (parameters)'
    """
    table = study.score_table((metric,), centre=centre, average=average)[metric]
    scores = table.to_numpy(float)
    ax = ax or new_axes()
    behind = _behind(scores, metric)
    ax.imshow(
        np.log(behind), cmap=plt.get_cmap("Oranges"), vmin=0, vmax=np.log(4 * _FAR), aspect="auto"
    )
    for (row, column), value in np.ndenumerate(scores):
        best = behind[row, column] == 1
        text = score_text(metric, value) if np.isfinite(value) else "failed"
        ax.text(
            column, row, text, ha="center", va="center", fontweight="bold" if best else "normal",
            fontsize="medium" if scores.shape[1] < 6 else "small", color="black",
        )  # fmt: skip
    # One data set alone need not be named; of a DataFrame it had its type.
    sets = table.columns if scores.shape[1] > 1 else [""]
    ax.set_xticks(range(scores.shape[1]), sets, parse_math=False)
    laws = [f"{law} ({study.sizes[law]})" for law in table.index]
    ax.set_yticks(range(len(table)), laws, parse_math=False)
    if max(map(len, map(str, table.columns))) * scores.shape[1] > 60:
        plt.setp(ax.get_xticklabels(), rotation=30, ha="right", rotation_mode="anchor")
    title = f"{SCORES.get(metric, metric)} of held-out points, {centre} over folds"
    ax.set_title(f"{title}\ndarker: further behind the best of the column", fontsize="medium",
                 color=INK)  # fmt: skip
    ax.spines[:].set_visible(False)
    ax.tick_params(left=False, bottom=False)
    ax.set_ylabel("law (parameters)")
    return ax


def _behind(scores: np.ndarray, metric: str) -> np.ndarray:
    """How many times worse than the best of its column, at most 10; NaN where there is none."""
    loss = 1 - scores if metric == "r2" else scores
    loss = np.where(np.isfinite(loss), np.maximum(loss, 1e-300), np.nan)
    best = np.nanmin(loss, axis=0, keepdims=True, initial=np.inf)
    return np.minimum(loss / best, _FAR)


@checked
def fold_scores(
    study: Study, metric: Any = "huber", ax: Axes | None = None, *, data: str | None = None
) -> Axes:
    """The score of every fold, a row a law; the bar is the median, hollow asks for unseen ranges.

    Args:
        study: study that :func:`jaxlaw.cross_validate` returned.
        metric: one of the scores, as for :func:`score_table`; of ``r2`` what it leaves
            unexplained.
        ax: axes to draw on; a new figure if None.
        data: one of the study's data sets; all if None.

    Example:
        >>> from jaxlaw import plots
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> folds = jl.folds.k_fold(2)
        >>> study = jl.cross_validate(["chinchilla", "kaplan"], runs, folds, n_starts=64)
        >>> plots.fold_scores(study).get_xlabel()
        'Huber of held-out points, a dot a fold'
    """
    ax = ax or new_axes()
    frame = study.frame if data is None else study.frame[study.frame["data"] == data]
    laws = list(study.laws)
    for row, law in enumerate(reversed(laws)):
        rows = frame[(frame["law"] == law) & ~frame["failed"]]
        score = (1 - rows["r2"] if metric == "r2" else rows[metric]).to_numpy(float)
        far = rows["extrapolates"].to_numpy(bool)
        height = row + 0.5 * (np.arange(len(score)) % 9 / 8 - 0.5)
        style = {"s": 20, "linewidths": 0.9, "zorder": 3}
        ax.scatter(score[~far], height[~far], color=BLUE, alpha=0.7, **style)
        ax.scatter(score[far], height[far], facecolors="none", edgecolors=RED, **style)
        if np.isfinite(score).any():
            ax.vlines(np.nanmedian(score), row - 0.38, row + 0.38, color=INK, linewidth=1.6)
    ax.set_yticks(range(len(laws)), reversed(laws), parse_math=False)
    ax.set_ylim(-0.6, len(laws) - 0.4)
    log_axis(ax.xaxis, words=False)
    what = "1 − R²" if metric == "r2" else SCORES.get(metric, metric)
    ax.set_xlabel(f"{what} of held-out points, a dot a fold")
    if frame["extrapolates"].any():
        legend = "● inside the fitted range   ○ beyond it   | median"
        ax.set_title(legend, fontsize="small", color=FAINT, loc="right")
    ax.tick_params(left=False)
    return tidy(ax)
