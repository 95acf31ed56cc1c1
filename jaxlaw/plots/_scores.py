"""Picture of the scores of folds."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from jaxlaw._axes import BLUE, INK, RED, dots, finish, log_axis, new_axes, what_is_drawn
from jaxlaw._typed import checked
from jaxlaw.validation import Study


@checked
def fold_scores(study: Study, ax: Axes | None = None, *, data: str | None = None) -> Axes:
    """The Huber of every fold, a row a law; the bar is the median, hollow asks for unseen ranges.

    Args:
        study: study that :func:`jaxlaw.cross_validate` returned.
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
        score = rows["huber"].to_numpy(float)
        far = rows["extrapolates"].to_numpy(bool)
        height = row + 0.5 * (np.arange(len(score)) % 9 / 8 - 0.5)
        dots(ax, score[~far], height[~far], color=BLUE, s=20, alpha=0.7, zorder=3)
        dots(ax, score[far], height[far], facecolors="none", edgecolors=RED, s=20, alpha=1,
             linewidths=0.9, zorder=3)  # fmt: skip
        if np.isfinite(score).any():
            ax.vlines(np.nanmedian(score), row - 0.38, row + 0.38, color=INK, linewidth=1.6)
    ax.set_yticks(range(len(laws)), reversed(laws), parse_math=False)
    ax.set_ylim(-0.6, len(laws) - 0.4)
    ax.tick_params(left=False)
    said = {"○ beyond the fitted range": frame["extrapolates"].any(), "bar: median": True}
    log_axis(ax.xaxis, words=False)
    return finish(ax, "Huber of held-out points, a dot a fold", "", what_is_drawn(said))
