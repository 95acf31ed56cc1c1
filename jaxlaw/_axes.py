"""What all plots share: colours, axes, curves with bands, names of curves, counts in words.

Colours are near Okabe and Ito's, which the colour-blind distinguish, and differ in lightness, so
that they differ in grey, too; ordered curves take shades of one ramp, dark to bright. Each has a
contrast of 3 or more on white (tests/plots/test_palette.py).
"""

from __future__ import annotations

import colorsys
import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_rgba_array
from matplotlib.contour import ContourSet
from matplotlib.text import Annotation, Text
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    ScalarFormatter,
)

if TYPE_CHECKING:
    from jaxlaw._answer import Answer
    from jaxlaw.fitting import FittedLaw
    from jaxlaw.laws import Input

from jaxlaw._quantities import number_of, readable
from jaxlaw.errors import UsageError

INK = "#222222"
FAINT = "#6f6f6f"  # of what stands behind: runs, ground, what is not the answer
BLUE = "#00538a"
GREEN = "#009e73"
RED = "#c24e00"
SIZE = (6.4, 4.2)  # inches; at 150 dots each as wide as a README
SHADE = 0.1  # opacity of what lies beyond the runs
MANY = 2000  # dots, above which a vector graphic would be slow: they become pixels
PANEL = (0, -0.31, 1, 0.24)  # of a second, lower pair of axes, in fractions of the first

# Behind words on a drawing.
VEIL: dict[str, Any] = {"facecolor": "white", "linewidth": 0, "alpha": 0.75, "pad": 1}

_SEEN = 2e-3  # of a value: a distance of less is rounding of the units


def new_axes() -> Axes:
    """Axes in a figure of their own."""
    return plt.subplots(figsize=SIZE, layout="constrained")[1]


def need_columns(table, names: Iterable[str], made_by: str) -> None:
    """Raise a UsageError where a table lacks a column, with the function whose table has it."""
    missing = [name for name in names if name not in table]
    if missing:
        raise UsageError(f"no column {missing[0]}: give what {made_by} returned")


def tidy(ax: Axes) -> Axes:
    """The axes, with what says nothing taken off, ticks whole, and colours for a dark ground."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    ax.tick_params(which="both", color=FAINT)
    for axis in (ax.xaxis, ax.yaxis):
        if isinstance(axis.get_major_formatter(), ScalarFormatter):
            if np.abs(axis.get_view_interval()).max() >= 1e5:
                axis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))
            else:  # no offset such as +2.5 or ×10⁻⁴ apart from the ticks
                ax.ticklabel_format(axis=axis.axis_name, style="plain", useOffset=False)
    ground = to_rgba_array(ax.get_facecolor())[0, :3]
    if ground.mean() < 0.5:
        for artist in ax.findobj():
            _brighten(artist, ground)
    return ax


def _brighten(artist: Artist, ground: np.ndarray) -> None:
    """Dark colours of an artist on dark axes made bright, and faces of white made as the ground.

    Styles such as ``dark_background`` colour labels and ticks, not what is drawn in own colours.
    """
    if isinstance(artist, ContourSet):  # of one colour, which it keeps as that of its levels
        artist.update_scalarmappable()
        artist.set_array(None)
    if isinstance(artist, Text) and (veil := artist.get_bbox_patch()):
        _brighten(veil, ground)
    if getattr(artist, "get_array", lambda: None)() is not None:  # colours of a map
        return
    for what in ("color", "edgecolor", "facecolor"):
        if not hasattr(artist, f"get_{what}"):
            continue
        colors = to_rgba_array(getattr(artist, f"get_{what}")())
        for color in colors:
            hue, light, saturation = colorsys.rgb_to_hls(*color[:3])
            if what == "facecolor" and (light == 1 or (color[:3] == ground).all()):
                color[:3] = ground
            elif light < 0.5:
                color[:3] = colorsys.hls_to_rgb(hue, 1 - light, saturation)
        getattr(artist, f"set_{what}")(colors[0] if len(colors) == 1 else colors)


def panel_below(ax: Axes, label: str) -> Axes:
    """Low axes under the given ones, with the same x; these lose their tick labels."""
    below = ax.inset_axes(PANEL, sharex=ax)
    below.set_ylabel(label)
    ax.tick_params(labelbottom=False)
    return tidy(below)


def shades(count: int) -> list:
    """Colours of ordered curves, the first the brightest."""
    where = np.linspace(0.58, 0.0, count) if count > 1 else [0.3] * count
    return list(plt.get_cmap("plasma")(where))


def distinct(values: np.ndarray, same: float, most: int, shown: int) -> np.ndarray:
    """Ascending values (k,), those closer than ``same`` as one; of more than ``most`` so many.

    Those shown are the nearest to evenly spaced ones.
    """
    values = np.sort(values)
    groups = np.split(values, np.flatnonzero(np.diff(values) > same) + 1)
    found = np.array([np.median(one) for one in groups])
    if len(found) > most:
        even = np.linspace(found[0], found[-1], shown)
        found = found[np.unique(np.abs(found[:, None] - even).argmin(axis=0))]
    return found


def dots(ax: Axes, x, y, **details):
    """Points: small and see-through where they are many."""
    count = np.size(x)
    style = {
        "s": 24 if count < 60 else 14 if count < 300 else 8,
        "alpha": 0.9 if count < 60 else 0.5, "linewidths": 0, "rasterized": count > MANY,
    }  # fmt: skip
    return ax.scatter(x, y, **(style | details))


def curve(
    ax: Axes, table, x, y: str, color, name: str = "", width: float = 1.6, **style
) -> tuple[float, str, Any]:
    """A curve, with the band of its interval where the table has one; its end for :func:`finish`.

    Args:
        ax: axes to draw on.
        table: columns by name, ``y`` and perhaps ``y_low`` and ``y_high``.
        x: name of a column, or the values themselves.
        y: name of a column.
        color: colour of the curve and its band.
        name: name of the curve.
        width: line width in points.
        **style: other properties of the line.
    """
    x = table[x] if isinstance(x, str) else x
    ax.plot(x, table[y], color=color, linewidth=width, **style)
    if f"{y}_low" in table:
        low, high = table[f"{y}_low"], table[f"{y}_high"]
        ax.fill_between(x, low, high, color=color, alpha=0.16, linewidth=0)
    return float(np.asarray(table[y])[-1]), name, color


def finish(
    ax: Axes,
    xlabel: str,
    ylabel: str,
    title: str = "",
    end_labels: Iterable[tuple[float, str, Any]] = (),
) -> Axes:
    """Labels, title and names of curves, once all data are drawn and the limits are set.

    Names are beside the right edge, moved apart where they would touch, those from before as well.

    Args:
        ax: axes to finish, which are returned.
        xlabel, ylabel, title: labels; no title where it is empty.
        end_labels: height (in data) at which a curve leaves, its name, its colour.
    """
    ax.set(xlabel=xlabel, ylabel=ylabel)
    layout, names = ax.figure.get_layout_engine(), list(end_labels)
    for old in [text for text in ax.texts if hasattr(text, "curve_end")]:
        names.append(old.curve_end)
        old.remove()
    if names:
        if layout:
            layout.execute(ax.figure)  # how high the axes will be
        names.sort(key=lambda end: end[0], reverse=bool(ax.yaxis_inverted()))
        points = ax.transData.transform([(ax.get_xlim()[1], height) for height, *_ in names])
        heights = np.clip(ax.transAxes.inverted().transform(points)[:, 1], 0, 1)
        gap = 1.3 * 8.5 / 72 * ax.figure.dpi / ax.get_window_extent().height
        # Moved as little as makes every step a gap or more: up first, then down from the top.
        for k in range(1, len(heights)):
            heights[k] = max(heights[k], heights[k - 1] + gap)
        heights[-1] = min(heights[-1], 1.0)
        for k in range(len(heights) - 2, -1, -1):
            heights[k] = min(heights[k], heights[k + 1] - gap)
        for height, end in zip(heights, names, strict=True):
            beside = {"xycoords": "axes fraction", "va": "center", "xytext": (5, 0)}
            write(ax, end[1], (1, height), color=end[2], **beside).curve_end = end
    words = ax.set_title(title, fontsize="medium", color=INK)
    if layout:
        layout.execute(ax.figure)  # how wide the axes will be, beside the names
    if title and (room := ax.get_window_extent().width / words.get_window_extent().width) < 1:
        width, lines = int(room * max(map(len, title.split("\n")))), []
        for line in title.split("\n"):  # broken after a semicolon, where that is enough
            parts = line.split("; ")
            whole = [p.replace(" ", "\xa0") if len(p) < width else p for p in parts]
            lines.append(textwrap.fill("; ".join(whole), width))
        words.set_text("\n".join(lines).replace("\xa0", " "))
    return tidy(ax)


def vertical(ax: Axes, x: float, text: str, height: float = 0.98, **details) -> None:
    """A vertical line with small text beside it, at a height in fractions of the axes."""
    beside = {"xytext": (4, 0), "va": "top", "color": RED} | details
    ax.axvline(x, color=beside["color"], linewidth=0.9, linestyle=":", zorder=2)
    write(ax, text, (x, height), xycoords=("data", "axes fraction"), **beside)


def shade_outside(ax: Axes, low: float, high: float) -> bool:
    """A light shade where there were no runs; whether there is any. The limits of x stay.

    Args:
        ax: axes, the limits of x as they will stay.
        low, high: lowest and highest x of the runs; NaN where they are unknown.
    """
    first, last = ax.get_xlim()
    beyond = [
        (start, end)
        for start, end in ((first, low), (high, last))
        if start < end and not np.isclose(start, end, rtol=_SEEN)  # false where one is unknown
    ]
    for ends in beyond:
        ax.axvspan(*ends, color=FAINT, alpha=SHADE, linewidth=0, zorder=0)
    ax.set_xlim(first, last)
    return bool(beyond)


def answer_below(ax: Axes, x: float, y: float, text: str, color: Any = RED) -> None:
    """An answer at the bottom of a curve: a dot, and its text at the top, where no curve is.

    Args:
        ax: axes, the curve drawn and their scales set.
        x, y: where the dot is.
        text: what it is, in lines; below that of an answer drawn before.
        color: colour of both.
    """
    dots(ax, x, y, color=[color], s=36, alpha=1, zorder=4)
    before = sum(line.get_linestyle() == ":" for line in ax.lines)
    right = ax.transAxes.inverted().transform(ax.transData.transform((x, y)))[0] > 0.5
    side = -1 if right else 1
    details = {"bbox": VEIL, "xytext": (5 * side, 0), "ha": "right" if right else "left"}
    vertical(ax, x, text, 0.98 - 0.08 * before, color=color, **details)


def what_is_drawn(said: Mapping) -> str:
    """A title of those words that hold: what band, dashes and shade mean."""
    return "; ".join(words for words, there in said.items() if there and words)


def held_inputs(plan: Answer, *names: str) -> str:
    """Inputs of the run that a plan is about, such as its size and tokens: ``N = 4 B, D = 2 B``."""
    return ", ".join(
        f"{name} = {number_of(plan.point[name], *(plan.unit_of(name) or ()))}"
        for name in names
        if name in plan.point
    )


def write(ax: Axes, text: str, at: tuple[float, float], **details) -> Annotation:
    """Small text at a point of the data, or of ``xycoords``, moved by ``xytext`` points."""
    style = {"fontsize": "small", "color": INK, "xytext": (0, 0), "textcoords": "offset points"}
    return ax.annotate(text, at, **(style | details))


def percent(share: float, _=None) -> str:
    """20%, of a share; a formatter of ticks."""
    return f"{100 * share:.3g}%".replace("-", "−")


def power_of_ten(value: float) -> str:
    """10²¹, 3·10²¹."""
    exponent = int(np.floor(np.log10(value) + 1e-9))
    digit = f"{value / 10.0**exponent:.3g}"
    power = f"10{str(exponent).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    return power if digit == "1" else f"{digit}·{power}"


def log_axis(axis: Axis, single: float = 1.0, words: bool = True) -> None:
    """A logarithmic axis whose ticks can be read.

    Args:
        axis: ``ax.xaxis`` or ``ax.yaxis``, its data drawn: the ticks depend on how far it goes.
        single: raw units (parameters, tokens) in 1 of the axis.
        words: whether ticks read 100 M rather than 10⁸.
    """
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    decades = np.log10(np.divide(*axis.get_view_interval()[::-1]))
    steps = (1,) if decades > 2.2 else (1, 3) if decades > 1.2 else (1, 2, 5)
    form = readable if words else power_of_ten
    # Over less than a factor of 5 there may be a single 1, 2 or 5.
    logs = LogLocator(subs=steps, numticks=7 if len(steps) == 1 else 12)
    axis.set_major_locator(logs if decades > 0.7 else MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: form(value * single)))
    axis.set_minor_locator(LogLocator(subs=range(2, 10)) if decades > 2.2 else NullLocator())
    axis.set_minor_formatter(NullFormatter())


def rate_axis(axis: Axis, ticks: int = 4) -> None:
    """A linear axis of learning rates from 0, each tick with its own power of ten."""
    axis.axes.set(**{f"{axis.axis_name}lim": (0, None)})
    axis.set_major_locator(MaxNLocator(ticks, steps=(1, 2, 5, 10)))
    axis.set_major_formatter(FuncFormatter(lambda rate, _: power_of_ten(rate) if rate else "0"))


def input_label(spec: Input) -> str:
    """An input on an axis."""
    doc, unit, _ = spec.doc.partition(" in FLOPs")
    return f"{doc} {spec.name}".strip() + (" (FLOPs)" if unit else "")


def value_label(spec: Input, value: float, single: float) -> str:
    """``N = 4 B``, ``r = 0.2``; ``single`` is the number of raw units in 1."""
    if spec.counts:
        return f"{spec.name} = {readable(value * single)}"
    return f"{spec.name} = {value:.3g}"


def target_label(fit: FittedLaw) -> str:
    """What a fit predicts, on an axis, with its unit."""
    return f"{fit.law.target} ({fit.target_unit})".removesuffix(" ()")
