"""Pictures of plans; every function takes and returns a matplotlib Axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from jaxlaw._jit import in_float64
from jaxlaw.fitting._scores import runs_for
from jaxlaw.planning._allocation import Allocation, Frontier, frontier
from jaxlaw.planning._answers import Source, held, sources
from jaxlaw.planning._mixture import (
    DomainShares,
    Mixture,
    ReplayComparison,
    optimal_mixture_data_limited,
)
from jaxlaw.plots.style import (
    BLUE,
    FAINT,
    INK,
    RED,
    band,
    count_in_words,
    dots,
    log_axis,
    name_ends,
    new_axes,
    percent,
    shades,
    tidy,
    write,
)

_COMPUTE = "training compute (FLOPs)"
_NAMED = 5  # lines of a picture of many


def trade_off(plan: Mixture, ax: Axes | None = None) -> Axes:
    """Domain loss over general loss along the domain share, and where the limit cuts it.

    Args:
        plan: what :func:`jaxlaw.planning.optimal_mixture` returned.
        ax: where to draw; a new figure if None.
    """
    ax, curve = ax or new_axes(), plan.curve
    general, domain = curve["general_loss"], curve["domain_loss"]
    ax.plot(general, domain, color=BLUE, linewidth=1.6)
    if "domain_loss_low" in curve:
        band(ax, general, curve["domain_loss_low"], curve["domain_loss_high"], BLUE)
    ax.margins(x=0.1, y=0.12)
    ax.set_xlim(min(ax.get_xlim()[0], plan.limit), max(ax.get_xlim()[1], plan.limit))
    ax.axvspan(plan.limit, ax.get_xlim()[1], color=RED, alpha=0.08, linewidth=0, zorder=0)
    ax.axvline(plan.limit, color=RED, linewidth=0.9, linestyle="--", zorder=1)
    late = np.mean(ax.transAxes.inverted().transform(ax.transData.transform((plan.limit, 0)))[0])
    write(
        ax, f"limit {plan.limit:.4g}", (plan.limit, 0.98), xycoords=("data", "axes fraction"),
        xytext=(-4 if late > 0.8 else 4, 0), ha="right" if late > 0.8 else "left", va="top",
        color=RED,
    )  # fmt: skip
    shown = curve[np.isclose(curve["share"] * 10 % 2, 0) | (curve["share"] == 1)]
    dots(ax, shown["general_loss"], shown["domain_loss"], color=BLUE, s=14, alpha=1, zorder=3)
    for _, row in shown.iterrows():
        at = row["general_loss"], row["domain_loss"]
        write(ax, percent(row["share"]), at, xytext=(5, 4), color=FAINT)
    if np.isfinite(plan.share):
        at = plan.general_loss, plan.domain_loss
        dots(ax, *at, color=RED, s=44, alpha=1, zorder=4)
        share = f"r_d = {_with_ends(plan.share, plan.interval.get('share'), '.3f')}"
        left = at[0] < np.mean(ax.get_xlim())  # where there is room for words
        side, shift = ("left", 7) if left else ("right", -7)
        write(ax, share, at, xytext=(shift, -7), ha=side, va="top", color=RED, fontsize="medium")
    ax.set_xlabel("general loss (nats)")
    ax.set_ylabel("domain loss (nats)")
    ax.set_title("domain share along the curve", fontsize="medium", color=INK)
    return tidy(ax)


def limited_domain(
    domain: Any, corpus_tokens: float | Sequence[float], ax: Axes | None = None, **options: float
) -> Axes:
    """Domain loss over the domain share, all of the domain data used, and its best share.

    Args:
        domain, corpus_tokens, **options: as for
            :func:`jaxlaw.planning.optimal_mixture_data_limited`; several numbers of tokens draw a
            curve each.
        ax: where to draw; a new figure if None.
    """
    ax = ax or new_axes()
    (source,) = sources(domain)
    inputs = {name: v for name, v in options.items() if name not in ("total", "level")}
    given = held(source, inputs, ("D", "r"))
    r = np.linspace(0.02, 1, 400)
    amounts, ends = np.atleast_1d(corpus_tokens), []
    for color, tokens in zip(shades(len(amounts)), amounts, strict=True):
        plan = optimal_mixture_data_limited(domain, float(tokens), **options)
        point = {name: values[0] for name, values in source.params.items()}
        with in_float64():
            loss = source.law.at_once(point, D=tokens * source.units["D"] / r, r=r, **given)
        ax.plot(r, loss, color=color, linewidth=1.5)
        name = f"{count_in_words(tokens * source.single('D'))} tokens"
        ends.append((float(loss[-1]), name, color))
        if np.isfinite(plan.share):
            interval = plan.interval.get("share")
            if interval is not None:
                ax.plot(interval, [plan.loss] * 2, color=color, linewidth=4, alpha=0.3)
            dots(ax, plan.share, plan.loss, s=36, alpha=1, color=[color], zorder=3)
            late, at = plan.share > 0.95, (plan.share, plan.loss)
            beside = {"xytext": (-3, 5), "ha": "right"} if late else {"xytext": (0, 6)}
            write(ax, f"{plan.share:.3f}", at, color=color, **({"ha": "center"} | beside))
    ax.margins(x=0.02, y=0.12)
    ax.set_xlim(right=1)
    name_ends(ax, ends)
    ax.set_title("a curve for each size of the domain's corpus", fontsize="medium", color=INK)
    ax.set_xlabel("domain share r_d, all of the domain's tokens used")
    ax.set_ylabel("domain loss (nats)")
    return tidy(ax)


def domain_shares(plan: DomainShares, ax: Axes | None = None) -> Axes:
    """Shares of several domains and of the general corpus, with their intervals.

    Args:
        plan: what :func:`jaxlaw.planning.optimal_domain_weights` returned.
        ax: where to draw; a new figure if None.
    """
    ax = ax or new_axes()
    shares = plan.shares | {"general": plan.general_share}
    rows = np.arange(len(shares))[::-1]
    colors = [BLUE] * len(plan.shares) + [FAINT]
    ax.barh(rows, list(shares.values()), color=colors, height=0.55)
    for row, (name, share) in zip(rows, shares.items(), strict=True):
        ends = plan.interval.get(f"r[{name}]")
        if ends is not None:
            ax.plot(ends, [row, row], color=INK, linewidth=1.2, marker="|", markersize=7)
        loss = f"   loss {plan.losses[name]:.4g}" if name in plan.losses else ""
        edge = max(share, ends[1]) if ends else share
        write(ax, f"{share:.1%}{loss}", (edge, row), xytext=(6, 0), va="center")
    ax.set_yticks(rows, list(shares), parse_math=False)
    ax.tick_params(left=False)
    ax.set_xlim(0, min(1.35 * np.nanmax([*shares.values(), 1e-6]), 1.3))
    ax.xaxis.set_major_formatter(percent)
    ax.set_xlabel("share of the mixture")
    return tidy(ax)


def isoloss(
    fit: Any,
    computes: tuple[float, float],
    ax: Axes | None = None,
    *,
    color: str = BLUE,
    label: str | None = None,
    levels: int | Sequence[float] = 9,
    mark: Allocation | None = None,
    runs: Any = None,
    **options: Any,
) -> Axes:
    """Contours of equal loss over compute and size, with the best size (Zheng's figure 5).

    The dotted outline is the fitted range of N and D: what lies outside of it is an extrapolation.

    Args:
        fit: as for :func:`jaxlaw.planning.allocation`; with replicates the best size has a
            band.
        computes: (least, largest) FLOPs, counted as 6·N·D.
        ax: where to draw; a second law drawn there with another color compares.
        color, label: of the line; levels: of the contours.
        mark: one answer, such as of :func:`jaxlaw.planning.allocation`, as a point.
        runs: the fitted runs, as points: what :func:`jaxlaw.read_runs` takes or returns.
        **options: what :func:`jaxlaw.planning.frontier` takes.
    """
    ax = ax or new_axes()
    (source,) = sources(fit)
    C = np.geomspace(*computes, 121)
    best = frontier(fit, C, **options).table
    low, high = best["N"].min() / 8, best["N"].max() * 8
    ends = [*ax.get_ylim(), low, high] if ax.has_data() else [low, high]  # of another law too
    N = np.geomspace(min(ends), max(ends), 160)
    searched = options.get("r") == "best"
    given = {"r": options["r"]} if "r" in options and not searched else {}
    given = held(source, given, ("N", "D", "r") if searched else ("N", "D"))
    point = {name: values[0] for name, values in source.params.items()}
    tokens = C[None, :] / (6 * N[:, None] * source.single("N"))  # single ones
    spec = {one.name: one.unit for one in source.law.inputs}
    at = {"N": N[:, None] * source.units["N"], "D": tokens / spec["D"]}
    if searched:
        shares = _shares_at(tokens / source.single("D"), options)
        with np.errstate(invalid="ignore"), in_float64():
            losses = np.asarray(source.law.at_once(point, **at, r=shares, **given), float)
        losses = np.where(np.isnan(shares), np.inf, losses).min(axis=0)
        losses = np.where(np.isfinite(losses), losses, np.nan)
    else:
        with in_float64():
            losses = np.asarray(source.law.at_once(point, **at, **given), float)
    if isinstance(levels, int):
        lowest, highest = best["loss"].min() * 1.03, best["loss"].max() * 1.05
        digits = 1 if highest - lowest > 1 else 2
        levels = np.unique(np.geomspace(lowest, highest, levels).round(digits))  # of two laws, too
    # Before the contours: labels cut their lines in the scale they find.
    ax.set_xlim(*computes)
    ax.set_ylim(N[0], N[-1])
    log_axis(ax.xaxis, words=False)
    log_axis(ax.yaxis, source.single("N"))
    drawn = ax.contour(C, N, losses, levels=levels, colors=color, linewidths=0.7, alpha=0.6)
    ax.clabel(drawn, fmt="%.2f", fontsize="x-small")
    ax.plot(best["compute"], best["N"], color=color, linewidth=2)
    if "N_low" in best:
        band(ax, best["compute"], best["N_low"], best["N_high"], color)
    _outline_fitted(ax, source, color)
    if runs is not None:
        read = runs_for(source, runs)
        observed = read.observations(source.law, free=()).inputs  # in the law's own units
        size, tokens = (observed[name] / source.units[name] for name in ("N", "D"))
        spent = 6 * size * source.single("N") * tokens * source.single("D")
        dots(ax, spent, size, color=INK, s=9, zorder=3)
    if mark is not None and np.isfinite([mark.compute, mark.N]).all():
        dots(ax, mark.compute, mark.N, color=RED, s=36, alpha=1, zorder=4)
        write(ax, f"loss {mark.loss:.4g}", (mark.compute, mark.N), color=RED, xytext=(6, -4),
              va="top")  # fmt: skip
    name_ends(ax, [(best["N"].iloc[-1], label or "best size", color)])
    ax.set_xlabel(_COMPUTE)
    ax.set_ylabel("model parameters N")
    share = ", each run at its best share" if searched else ""
    ax.set_title(f"contours of equal loss (nats){share}", fontsize="medium", color=INK)
    return tidy(ax)


def _outline_fitted(ax: Axes, source: Source, color: Any) -> None:
    """The fitted range of N and D, over compute and N: a parallelogram on logarithmic axes."""
    ranges = [source.ranges.get(name) for name in ("N", "D")]
    if None in ranges or not np.isfinite(ranges).all():
        return  # coefficients that a paper prints have no ranges
    (least_N, most_N), (least_D, most_D) = ranges
    N = np.array([least_N, least_N, most_N, most_N, least_N])
    D = np.array([least_D, most_D, most_D, least_D, least_D])
    compute = 6 * N * source.single("N") * D * source.single("D")
    ax.plot(compute, N, color=color, linewidth=1.1, linestyle=":", zorder=2)
    inside = (compute >= ax.get_xlim()[0]) & (compute <= ax.get_xlim()[1])
    if inside.any():
        at = int(np.argmax(np.where(inside, N, -np.inf)))
        write(ax, "fitted range", (compute[at], N[at]), color=color, xytext=(4, 3))


def _shares_at(tokens: np.ndarray, options: Mapping[str, Any], count: int = 65) -> np.ndarray:
    """(count, …) shares that are allowed at (…) tokens, from least to most; NaN where none is."""
    low, high = (options.get("limits") or {}).get("r", (None, None))
    low, high = 0.0 if low is None else low, 1.0 if high is None else high
    corpus = options.get("corpus_tokens")
    most = np.minimum(high, np.inf if corpus is None else corpus / tokens)
    most = np.where(most < low, np.nan, most)
    return low + np.linspace(0, 1, count)[:, None, None] * (most - low)


def loss_frontier(
    found: Frontier,
    ax: Axes | None = None,
    *,
    observed: Any = None,
    label: str | None = None,
    fit: Any = None,
) -> Axes:
    """The lowest loss over compute.

    Args:
        found: what :func:`jaxlaw.planning.frontier` returned.
        ax: where to draw; a new figure if None.
        observed: a table with ``C`` and ``loss``, such as
            :func:`jaxlaw.planning.loss_envelope` returns, or nothing.
        label: name of the line.
        fit: the fit that was planned with, if the ground outside of its fitted N and D is to be
            shaded.
    """
    ax, table = ax or new_axes(), found.table
    if observed is not None:
        dots(ax, observed["C"], observed["loss"], color=INK, s=14)
        lowest = int(np.argmin(observed["loss"]))
        at = np.asarray(observed["C"])[lowest], np.asarray(observed["loss"])[lowest]
        write(ax, "lowest of the runs", at, xytext=(6, 6))
    ax.plot(table["compute"], table["loss"], color=BLUE, linewidth=1.6)
    if "loss_low" in table:
        band(ax, table["compute"], table["loss_low"], table["loss_high"], BLUE)
    ax.margins(x=0.02)
    log_axis(ax.xaxis, words=False)
    if fit is not None:
        _shade_extrapolation(ax, table, fit)
    name_ends(ax, [(table["loss"].iloc[-1], label or "best run", BLUE)])
    ax.set_xlabel(_COMPUTE)
    ax.set_ylabel("loss (nats)")
    return tidy(ax)


def _shade_extrapolation(ax: Axes, table: pd.DataFrame, fit: Any) -> None:
    """Grey ground under the budgets whose best N or D lies outside of the fitted ranges."""
    (source,) = sources(fit)
    inside = np.ones(len(table), bool)
    for name in ("N", "D"):
        low, high = source.ranges.get(name, (-np.inf, np.inf))
        inside &= table[name].between(low, high).to_numpy()
    left, right = ax.get_xlim()
    compute = table["compute"].to_numpy()
    ends = (compute[inside].min(), compute[inside].max()) if inside.any() else (right, right)
    for low, high in ((left, ends[0]), (ends[1], right)):
        if low < high and not (low == left and inside[0]) and not (high == right and inside[-1]):
            ax.axvspan(low, high, color=FAINT, alpha=0.12, linewidth=0, zorder=0)
            middle = np.sqrt(low * high)
            write(ax, "not fitted", (middle, 1), xycoords=("data", "axes fraction"), ha="center",
                  va="bottom", color=FAINT, xytext=(0, 2))  # fmt: skip
    ax.set_xlim(left, right)


def lowest_of_runs(lowest: pd.DataFrame, points: Any, ax: Axes | None = None) -> Axes:
    """The lowest loss at each level of compute, among the points of all curves.

    Args:
        lowest: what :func:`jaxlaw.planning.loss_envelope` returned.
        points: the table it was given, with ``loss`` and ``C``, or ``N`` and ``D``.
        ax: where to draw; a new figure if None.
    """
    ax, names = ax or new_axes(), list(points)
    compute = points["C"] if "C" in names else 6 * np.asarray(points["N"]) * points["D"]
    dots(ax, compute, points["loss"], color=FAINT, s=8, alpha=0.5)
    ax.plot(lowest["C"], lowest["loss"], color=BLUE, linewidth=1.6)
    ax.margins(x=0.02)
    log_axis(ax.xaxis, words=False)
    name_ends(ax, [(lowest["loss"].iloc[-1], "lowest", BLUE)])
    ax.set_xlabel(_COMPUTE)
    ax.set_ylabel("loss (nats)")
    return tidy(ax)


def compute_saved(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Share of compute that a base saves, over the tokens of the continual run (Zheng's fig. 2).

    Args:
        table: what :func:`jaxlaw.planning.transfer_table`,
            :func:`jaxlaw.planning.observed_transfer` or
            :func:`jaxlaw.planning.frontier_savings` (its ``table``; over compute) returned.
        ax: where to draw; a new figure if None.
    """
    ax = _against_scratch(table, "saved", ax or new_axes())
    ax.set_ylim(max(-1.05, min(table["saved"].min(), 0.0) - 0.05), 1.0)
    ax.yaxis.set_major_formatter(percent)
    ax.set_ylabel("compute saved against scratch")
    return tidy(ax)


def data_transferred(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Tokens that a base stands for, over the tokens of the continual run (Zheng's figure 2).

    Args:
        table: what :func:`jaxlaw.planning.transfer_table` or
            :func:`jaxlaw.planning.observed_transfer` returned.
        ax: where to draw; a new figure if None.
    """
    ax = _against_scratch(table, "transferred", ax or new_axes())
    ax.yaxis.set_major_formatter(_signed_count)
    ax.set_ylabel("tokens transferred")
    return tidy(ax)


def _signed_count(value: float, _: Any) -> str:
    return f"{'−' if value < 0 else ''}{count_in_words(abs(value))}" if value else "0"


def _against_scratch(table: pd.DataFrame, name: str, ax: Axes) -> Axes:
    """A line for each size over the tokens of the continual run; one over compute without sizes."""
    by, over = (table.columns[0], "D") if "D" in table else (None, "compute")
    seen = table[np.isfinite(table[name])]
    groups = [("", seen)] if by is None else list(seen.groupby(by))
    every = max(1, -(-(len(groups) - 1) // (_NAMED - 1)))  # of many sizes only some are named
    for k, (color, (size, rows)) in enumerate(zip(shades(len(groups)), groups, strict=True)):
        ax.plot(rows[over], rows[name], color=color, linewidth=1.5)
        if by is not None and (len(groups) - 1 - k) % every == 0:
            told = f"N = {count_in_words(size)}" if by == "N" else f"{by} {size}"
            start = rows.iloc[0]  # the other ends may lie far below
            write(ax, told, (start[over], start[name]), color=color, xytext=(2, 5))
        if f"{name}_low" in rows:
            band(ax, rows[over], rows[f"{name}_low"], rows[f"{name}_high"], color)
    ax.axhline(0, color=INK, linewidth=0.8, zorder=0)
    log_axis(ax.xaxis, words=by is not None)
    ax.set_xlabel(_COMPUTE + " from scratch" if by is None else "tokens of the continual run")
    return ax


def replay_losses(plan: ReplayComparison, ax: Axes | None = None) -> Axes:
    """Loss of a corpus over the compute spent on it, a line for each share (Zheng's fig. 4).

    Args:
        plan: what :func:`jaxlaw.planning.compare_replay` returned.
        ax: where to draw; a new figure if None.
    """
    ax, table = ax or new_axes(), plan.table
    by = "corpus_compute" if table["corpus_compute"].notna().all() else "corpus_tokens"
    shares, ends = np.unique(table["r"]), []
    for color, r in zip(shades(len(shares)), shares, strict=True):
        rows = table[table["r"] == r]
        ax.plot(rows[by], rows["loss"], color=color, linewidth=1.5)
        ends.append((rows["loss"].iloc[-1], f"r = {r:.3g}", color))
    if 0 < plan.meet < np.inf:
        at = plan.meet * (table[by] / table["corpus_tokens"]).iloc[0]
        ax.axvline(at, color=INK, linewidth=0.8, linestyle="--")
        write(ax, "meet", (at, 0.98), xycoords=("data", "axes fraction"), xytext=(4, 0), va="top")
    ax.margins(x=0.02)
    log_axis(ax.xaxis, words=False)
    name_ends(ax, ends)
    names = {"corpus_compute": "compute on this corpus (FLOPs)", "corpus_tokens": "its tokens"}
    ax.set_xlabel(names[by])
    ax.set_ylabel("loss of this corpus (nats)")
    return tidy(ax)


def _with_ends(value: float, ends: tuple[float, float] | None, form: str) -> str:
    if ends is None:
        return format(value, form)
    return f"{value:{form}} ({ends[0]:{form}} to {ends[1]:{form}})"
