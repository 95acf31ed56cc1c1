"""Pictures of plans; every function takes and returns a matplotlib Axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from jaxlaw.planning.answers import held, sources
from jaxlaw.planning.budgets import Frontier, frontier
from jaxlaw.planning.domains import DomainShares
from jaxlaw.planning.mixture import Mixture, optimal_mixture_limited
from jaxlaw.planning.replays import ReplayComparison

INK = "#333333"
FAINT = "#8a8a8a"
BLUE = "#2b6cb0"
GREEN = "#2f855a"
RED = "#c05621"


def trade_off(plan: Mixture, ax: Axes | None = None) -> Axes:
    """Domain loss over general loss along the domain share, and where the limit cuts it.

    Args:
        plan: what :func:`jaxlaw.planning.optimal_mixture` returned.
        ax: where to draw; a new figure if None.
    """
    ax, curve = ax or _new_axes(), plan.curve
    ax.plot(curve["general_loss"], curve["domain_loss"], color=BLUE, linewidth=1.6)
    if "domain_loss_low" in curve:
        ax.fill_between(
            curve["general_loss"], curve["domain_loss_low"], curve["domain_loss_high"],
            color=BLUE, alpha=0.15, linewidth=0,
        )  # fmt: skip
    ax.axvspan(plan.limit, curve["general_loss"].max(), color=RED, alpha=0.08, linewidth=0)
    ax.axvline(plan.limit, color=RED, linewidth=0.9, linestyle="--")
    ax.annotate(
        f"limit {plan.limit:.4g}", (plan.limit, 0.98), xycoords=("data", "axes fraction"),
        xytext=(4, 0), textcoords="offset points", va="top", color=RED, fontsize="small",
    )  # fmt: skip
    shown = curve[np.isclose(curve["share"] * 10 % 2, 0) | (curve["share"] == 1)]
    ax.scatter(shown["general_loss"], shown["domain_loss"], s=12, color=BLUE, zorder=3)
    for _, row in shown.iterrows():
        ax.annotate(
            f"{row['share']:.0%}", (row["general_loss"], row["domain_loss"]), xytext=(5, 4),
            textcoords="offset points", color=FAINT, fontsize="small",
        )  # fmt: skip
    if np.isfinite(plan.share):
        ax.scatter(plan.general_loss, plan.domain_loss, s=44, color=RED, zorder=4)
        ax.annotate(
            f"r_d = {_with_ends(plan.share, plan.interval.get('share'), '.3f')}",
            (plan.general_loss, plan.domain_loss), xytext=(7, 7), textcoords="offset points",
            color=RED,
        )  # fmt: skip
    ax.set_xlabel("general loss")
    ax.set_ylabel("domain loss")
    ax.set_title("domain share along the curve", fontsize="medium", color=INK)
    return _tidy(ax)


def limited_domain(
    domain: Any, corpus_tokens: float | Sequence[float], ax: Axes | None = None, **options: float
) -> Axes:
    """Domain loss over the domain share, all of the domain data used, and its best share.

    Args:
        domain, corpus_tokens, **options: as for
            :func:`jaxlaw.planning.optimal_mixture_limited`; several numbers of tokens draw a
            curve each.
        ax: where to draw; a new figure if None.
    """
    ax = ax or _new_axes()
    (source,) = sources(domain)
    inputs = {name: v for name, v in options.items() if name not in ("total", "level")}
    given = held(source, inputs, ("D", "r"))
    r = np.linspace(0.02, 1, 400)
    amounts = np.atleast_1d(corpus_tokens)
    for color, tokens in zip(_shades(len(amounts)), amounts, strict=True):
        plan = optimal_mixture_limited(domain, float(tokens), **options)
        point = {name: values[0] for name, values in source.params.items()}
        loss = source.law(point, D=tokens * source.units["D"] / r, r=r, **given)
        ax.plot(r, loss, color=color, linewidth=1.5, label=f"{_count(tokens, source, 'D')} tokens")
        if np.isfinite(plan.share):
            ends = plan.interval.get("share")
            if ends is not None:
                ax.plot(ends, [plan.loss] * 2, color=color, linewidth=4, alpha=0.3)
            ax.scatter(plan.share, plan.loss, s=36, color=color, zorder=3)
            ax.annotate(
                f"{plan.share:.3f}", (plan.share, plan.loss), xytext=(0, -12), color=color,
                textcoords="offset points", ha="right" if plan.share > 0.95 else "center",
                fontsize="small",
            )  # fmt: skip
    ax.set_xlabel("domain share r_d")
    ax.set_ylabel("domain loss")
    ax.legend(frameon=False, fontsize="small", title="of the domain", title_fontsize="small")
    ax.margins(y=0.12)
    return _tidy(ax)


def domain_shares(plan: DomainShares, ax: Axes | None = None) -> Axes:
    """Shares of several domains and of the general corpus, with their intervals.

    Args:
        plan: what :func:`jaxlaw.planning.optimal_shares` returned.
        ax: where to draw; a new figure if None.
    """
    ax = ax or _new_axes()
    shares = plan.shares | {"general": plan.general_share}
    rows = np.arange(len(shares))[::-1]
    colors = [BLUE] * len(plan.shares) + [FAINT]
    ax.barh(rows, list(shares.values()), color=colors, height=0.55)
    for row, (name, share) in zip(rows, shares.items(), strict=True):
        ends = plan.interval.get(f"r[{name}]")
        if ends is not None:
            ax.plot(ends, [row, row], color=INK, linewidth=1.2, marker="|", markersize=7)
        loss = f"   loss {plan.losses[name]:.4g}" if name in plan.losses else ""
        ax.annotate(
            f"{share:.1%}{loss}", (max(share, ends[1] if ends else share), row), xytext=(6, 0),
            textcoords="offset points", va="center", color=INK, fontsize="small",
        )  # fmt: skip
    ax.set_yticks(rows, list(shares))
    ax.tick_params(left=False)
    ax.set_xlim(0, min(1.35 * np.nanmax([*shares.values(), 1e-6]), 1.3))
    ax.set_xlabel("share of the mixture")
    return _tidy(ax)


def isoloss(
    fit: Any,
    computes: tuple[float, float],
    ax: Axes | None = None,
    *,
    color: str = BLUE,
    label: str | None = None,
    levels: int | Sequence[float] = 9,
    **options: Any,
) -> Axes:
    """Contours of equal loss over compute and size, with the best size (Zheng's figure 5).

    Args:
        fit: as for :func:`jaxlaw.planning.allocation`; with replicates the best size has a
            band.
        computes: (least, largest) FLOPs, counted as 6·N·D.
        ax: where to draw; a second law drawn there with another color compares.
        color, label: of the line; levels: of the contours.
        **options: what :func:`jaxlaw.planning.frontier` takes.
    """
    ax = ax or _new_axes()
    (source,) = sources(fit)
    C = np.geomspace(*computes, 121)
    best = frontier(fit, C, **options).table
    low, high = best["N"].min() / 8, best["N"].max() * 8
    ends = [*ax.get_ylim(), low, high] if ax.has_data() else [low, high]  # of another law too
    N = np.geomspace(min(ends), max(ends), 160)
    given = held(source, {k: v for k, v in options.items() if k == "r"}, ("N", "D"))
    point = {name: values[0] for name, values in source.params.items()}
    tokens = C[None, :] / (6 * N[:, None] * source.single("N"))  # single ones
    spec = {one.name: one.unit for one in source.law.inputs}
    at = {"N": N[:, None] * source.units["N"], "D": tokens / spec["D"]}
    losses = np.asarray(source.law(point, **at, **given), float)
    if isinstance(levels, int):
        ends = best["loss"].min() * 1.01, best["loss"].max() * 1.05
        levels = np.unique(np.geomspace(*ends, levels).round(1))  # the same for two laws
    # Before the contours: labels cut their lines in the scale they find.
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(*computes)
    ax.set_ylim(N[0], N[-1])
    drawn = ax.contour(C, N, losses, levels=levels, colors=color, linewidths=0.6, alpha=0.55)
    ax.clabel(drawn, fmt="%.2f", fontsize="x-small")
    ax.plot(best["compute"], best["N"], color=color, linewidth=2, label=label or "best size")
    if "N_low" in best:
        ax.fill_between(
            best["compute"], best["N_low"], best["N_high"], color=color, alpha=0.2, linewidth=0
        )
    ax.set_xlabel("compute (FLOPs)")
    ax.set_ylabel("parameters N")
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    return _tidy(ax)


def loss_frontier(
    found: Frontier, ax: Axes | None = None, *, observed: Any = None, label: str | None = None
) -> Axes:
    """The lowest loss over compute.

    Args:
        found: what :func:`jaxlaw.planning.frontier` returned.
        ax: where to draw; a new figure if None.
        observed: a table with ``C`` and ``loss``, such as
            :func:`jaxlaw.planning.lowest_losses` returns, or nothing.
        label: of the line.
    """
    ax, table = ax or _new_axes(), found.table
    if observed is not None:
        ax.scatter(
            observed["C"], observed["loss"], s=12, color=INK, alpha=0.6, linewidths=0,
            label="lowest of the runs",
        )  # fmt: skip
    ax.plot(table["compute"], table["loss"], color=BLUE, linewidth=1.6, label=label or "best run")
    if "loss_low" in table:
        ax.fill_between(
            table["compute"], table["loss_low"], table["loss_high"], color=BLUE, alpha=0.18,
            linewidth=0,
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_xlabel("compute (FLOPs)")
    ax.set_ylabel("loss")
    ax.legend(frameon=False, fontsize="small")
    return _tidy(ax)


def compute_saved(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Share of compute that a base saves, over the tokens of the continual run (Zheng's fig. 2).

    Args:
        table: what :func:`jaxlaw.planning.transfer_table` returned.
        ax: where to draw; a new figure if None.
    """
    ax = ax or _new_axes()
    sizes = np.unique(table["N"])
    for color, N in zip(_shades(len(sizes)), sizes, strict=True):
        rows = table[table["N"] == N]
        ax.plot(rows["D"], rows["saved"], color=color, linewidth=1.5, label=f"N = {_short(N)}")
        if "saved_low" in rows:
            ax.fill_between(
                rows["D"], rows["saved_low"], rows["saved_high"], color=color, alpha=0.12,
                linewidth=0,
            )  # fmt: skip
    ax.axhline(0, color=INK, linewidth=0.8)
    ax.set_xscale("log")
    ax.set_ylim(max(-1.05, ax.get_ylim()[0]), 1.0)
    ax.yaxis.set_major_formatter(plt.matplotlib.ticker.PercentFormatter(1.0))
    ax.set_xlabel("tokens of the continual run")
    ax.set_ylabel("compute saved against scratch")
    ax.legend(frameon=False, fontsize="small")
    return _tidy(ax)


def replay_losses(plan: ReplayComparison, ax: Axes | None = None) -> Axes:
    """Loss of a corpus over the compute spent on it, a line for each share (Zheng's fig. 4).

    Args:
        plan: what :func:`jaxlaw.planning.compare_replay` returned.
        ax: where to draw; a new figure if None.
    """
    ax, table = ax or _new_axes(), plan.table
    by = "corpus_compute" if table["corpus_compute"].notna().all() else "corpus_tokens"
    shares = np.unique(table["r"])
    for color, r in zip(_shades(len(shares)), shares, strict=True):
        rows = table[table["r"] == r]
        ax.plot(rows[by], rows["loss"], color=color, linewidth=1.5, label=f"r = {r:.3g}")
    if 0 < plan.meet < np.inf:
        at = plan.meet * (table[by] / table["corpus_tokens"]).iloc[0]
        ax.axvline(at, color=INK, linewidth=0.8, linestyle="--")
        ax.annotate(
            "meet", (at, 0.98), xycoords=("data", "axes fraction"), xytext=(4, 0),
            textcoords="offset points", va="top", color=INK, fontsize="small",
        )  # fmt: skip
    ax.set_xscale("log")
    names = {"corpus_compute": "compute on this corpus (FLOPs)", "corpus_tokens": "its tokens"}
    ax.set_xlabel(names[by])
    ax.set_ylabel("loss of this corpus")
    ax.legend(frameon=False, fontsize="small", title="its share", title_fontsize="small")
    return _tidy(ax)


def _with_ends(value: float, ends: tuple[float, float] | None, form: str) -> str:
    if ends is None:
        return format(value, form)
    return f"{value:{form}} ({ends[0]:{form}} to {ends[1]:{form}})"


def _shades(count: int) -> np.ndarray:
    return plt.cm.viridis(np.linspace(0.8, 0.1, count) if count > 1 else [0.35])


def _count(value: float, source: Any, name: str) -> str:
    return _short(value * source.single(name))


def _short(value: float) -> str:
    """A count in words: 4 B, 131 M."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= 0.9995 * size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"


def _new_axes() -> Axes:
    return plt.subplots(layout="constrained")[1]


def _tidy(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    return ax
