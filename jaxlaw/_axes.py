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
from matplotlib.collections import Collection
from matplotlib.colors import to_rgba_array
from matplotlib.contour import ContourSet
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
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

_LETTER = 0.5  # width of a small letter, of the height of others
_SEEN = 2e-3  # of a value: a distance of less is rounding of the units
_WORDS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))


def new_axes() -> Axes:
    """Axes in a figure of their own."""
    return plt.subplots(figsize=SIZE, layout="constrained")[1]


def need_columns(table: Any, names: Iterable[str], made_by: str) -> None:
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
                axis.set_major_formatter(FuncFormatter(lambda value, _: count_in_words(value)))
            else:  # no offset such as +2.5 or ×10⁻⁴ apart from the ticks
                axis.set_major_formatter(whole := ScalarFormatter(useOffset=False))
                whole.set_scientific(False)
    if colorsys.rgb_to_hls(*to_rgba_array(ax.get_facecolor())[0, :3])[1] < 0.5:
        for artist in ax.findobj():
            _brighten(artist, ax)
    return ax


def _brighten(artist: Artist, ax: Axes) -> None:
    """Dark colours of an artist on dark axes made bright, and faces of white made as the ground.

    Styles such as ``dark_background`` colour labels and ticks, not what is drawn in own colours.
    """
    ground = to_rgba_array(ax.get_facecolor())[0, :3]

    def on_dark(colors: Any, face: bool = False) -> np.ndarray:
        rgba = to_rgba_array(colors)
        for color in rgba:
            hue, light, saturation = colorsys.rgb_to_hls(*color[:3])
            if face and light == 1:
                color[:3] = ground
            elif light < 0.5 and not (face and (color[:3] == ground).all()):
                color[:3] = colorsys.hls_to_rgb(hue, 1 - light, saturation)
        return rgba

    if isinstance(artist, ContourSet) and artist.colors is not None:
        artist.set_array(None)  # of one colour: its levels have no colours of a map
        (artist.set_facecolor if artist.filled else artist.set_edgecolor)(on_dark(artist.colors))
    elif isinstance(artist, Collection) and artist.get_array() is None:
        artist.set_edgecolor(on_dark(artist.get_edgecolor()))
        artist.set_facecolor(on_dark(artist.get_facecolor(), face=True))
    elif isinstance(artist, Patch) and artist not in (ax.patch, *ax.spines.values()):
        artist.set_edgecolor(on_dark(artist.get_edgecolor())[0])
        artist.set_facecolor(on_dark(artist.get_facecolor(), face=True)[0])
    elif isinstance(artist, Line2D | Text):
        artist.set_color(on_dark(artist.get_color())[0])
        if isinstance(artist, Text) and (veil := artist.get_bbox_patch()):
            _brighten(veil, ax)


def panel_below(ax: Axes, label: str) -> Axes:
    """Low axes under the given ones, with the same x; these lose their tick labels."""
    below = ax.inset_axes(PANEL, sharex=ax)
    below.set_ylabel(label)
    ax.tick_params(labelbottom=False)
    return tidy(below)


def shades(count: int) -> list[Any]:
    """Colours of ordered curves, the first the brightest."""
    where = np.linspace(0.58, 0.0, count) if count > 1 else [0.3] * count
    return list(plt.get_cmap("plasma")(where))


def dots(ax: Axes, x: Any, y: Any, **details: Any) -> Any:
    """Points: small and see-through where they are many."""
    count = np.size(x)
    style: dict[str, Any] = {
        "s": 24 if count < 60 else 14 if count < 300 else 8,
        "alpha": 0.9 if count < 60 else 0.5, "linewidths": 0, "rasterized": count > MANY,
    }  # fmt: skip
    return ax.scatter(x, y, **(style | details))


def curve(
    ax: Axes,
    table: Any,
    x: Any,
    y: str,
    color: Any,
    name: str = "",
    width: float = 1.6,
    **style: Any,
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
    *,
    margins: dict[str, float] | None = None,
    log_x: dict[str, Any] | None = None,
) -> Axes:
    """Limits, ticks, labels and names of curves, once all data are drawn.

    Args:
        ax: axes to finish, which are returned.
        xlabel, ylabel, title: labels; no title where it is empty.
        end_labels: labels of curves as for :func:`label_curves`.
        margins: room around the data, as for ``Axes.margins``.
        log_x: options of :func:`log_axis` where x is logarithmic.
    """
    # Names lie where the limits put them, and ticks depend on the limits too: the order counts.
    if margins:
        ax.margins(**margins)
    if log_x is not None:
        log_axis(ax.xaxis, **log_x)
    if end_labels := list(end_labels):
        label_curves(ax, end_labels)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if title:
        words = ax.set_title(title, fontsize="medium", color=INK)
        if layout := ax.figure.get_layout_engine():
            layout.execute(ax.figure)  # how wide the axes will be
        if (share := ax.get_window_extent().width / words.get_window_extent().width) < 1:
            # Lines end after what ends with a semicolon, where that fits into a line.
            width, lines = int(share * max(map(len, title.split("\n")))), []
            for line in title.split("\n"):
                parts = line.replace("; ", ";\n").split("\n")
                whole = [p.replace(" ", "\xa0") if len(p) < width else p for p in parts]
                lines += textwrap.wrap(" ".join(whole), width)
            words.set_text("\n".join(lines).replace("\xa0", " "))
    return tidy(ax)


def vertical(ax: Axes, x: float, text: str, height: float = 0.98, **details: Any) -> None:
    """A vertical line with small text beside it, at a height in fractions of the axes."""
    style = {"color": RED, "linewidth": 0.9, "linestyle": ":", "zorder": 2}
    style |= {name: details.pop(name) for name in style.keys() & details.keys()}
    ax.axvline(x, **style)
    beside = {"xytext": (4, 0), "va": "top", "color": style["color"]} | details
    write(ax, text, (x, height), xycoords=("data", "axes fraction"), **beside)


def shade_outside(
    ax: Axes, low: float, high: float, text: str = "beyond the runs", axis: str = "x"
) -> bool:
    """A light shade where there were no runs, with small text above; whether there is any.

    The limits of the axes stay as they are.

    Args:
        ax: axes, their limits as they will stay.
        low, high: lowest and highest value of the runs; NaN where they are unknown.
        text: what is shaded; empty for no words.
        axis: ``x`` or ``y``, the axis of these values.
    """
    limits = {"xlim": ax.get_xlim(), "ylim": ax.get_ylim()}
    first, last = limits[f"{axis}lim"]
    span, sides = ax.axvspan if axis == "x" else ax.axhspan, []
    for start, end, side in ((first, low, "left"), (high, last, "right")):
        if start < end and not np.isclose(start, end, rtol=_SEEN):  # false where one is unknown
            span(start, end, color=FAINT, alpha=SHADE, linewidth=0, zorder=0)
            sides.append(side)
    if sides and text and axis == "x":
        write(ax, text, (sides[-1] == "right", 1), xycoords="axes fraction", ha=sides[-1],
              va="bottom", color=FAINT, xytext=(0, 2))  # fmt: skip
    ax.set(**limits)
    return bool(sides)


def answer(ax: Axes, x: float, y: float, text: str, **details: Any) -> None:
    """The answer of a plan: a red dot with small text beside it, on a veil of white."""
    details.setdefault("bbox", VEIL)
    size, order = details.pop("s", 36), details.pop("zorder", 3)
    color = details.setdefault("color", RED)
    dots(ax, x, y, color=[color], s=size, alpha=1, zorder=order)
    write(ax, text, (x, y), zorder=order + 1, **details)  # above the labels of contours


def answer_below(ax: Axes, x: float, y: float, text: str) -> None:
    """An answer at the bottom of a curve: a red dot, and its text at the top, where no curve is.

    Args:
        ax: axes, the curve drawn and their scales set.
        x, y: where the dot is.
        text: what it is, in lines.
    """
    dots(ax, x, y, color=[RED], s=36, alpha=1, zorder=4)
    place, _ = ax.transLimits.transform(ax.transScale.transform((x, y)))
    right = place > 0.5
    points = 72 * ax.get_position().width * ax.figure.get_figwidth()
    letters = points * max(place, 1 - place) / (_LETTER * plt.rcParams["font.size"])
    if max(map(len, text.split("\n"))) > letters:
        text = text.replace(" (", "\n(")  # an interval on a line of its own
    vertical(
        ax, x, text, bbox=VEIL, xytext=(-5 if right else 5, 0), ha="right" if right else "left"
    )


def what_is_drawn(said: Mapping[str, Any]) -> str:
    """A title of those words that hold: what band, dashes and shade mean."""
    return "; ".join(words for words, there in said.items() if there and words)


def held_inputs(plan: Answer, *names: str) -> str:
    """Inputs of the run that a plan is about, such as its size and tokens: ``N = 4 B, D = 2 B``."""
    known = {name: plan.unit_of(name) for name in names if name in plan.point}
    return ", ".join(
        f"{name} = {count_in_words(plan.point[name] * unit[1])}"
        for name, unit in known.items()
        if unit
    )


def with_interval(value: float, interval: tuple[float, float] | None, form: str) -> str:
    """``0.321 (0.300 to 0.341)``; the value alone without an interval."""
    if interval is None:
        return format(value, form)
    return f"{value:{form}} ({interval[0]:{form}} to {interval[1]:{form}})"


def write(ax: Axes, text: str, at: tuple[float, float], **details: Any) -> Annotation:
    """Small text at a point of the data, or of ``xycoords``, moved by ``xytext`` points."""
    style = {"fontsize": "small", "color": INK, "xytext": (0, 0), "textcoords": "offset points"}
    return ax.annotate(text, at, **(style | details))


def text_room(ax: Axes, lines: int) -> float:
    """How much of the height of axes so many lines of small text take, with air around them."""
    if layout := ax.figure.get_layout_engine():
        layout.execute(ax.figure)  # how high the axes will be
    height = 72 * ax.get_window_extent().height / ax.figure.dpi
    return min((12 * lines + 12) / height, 0.5)


def label_curves(ax: Axes, end_labels: Iterable[tuple[float, str, Any]]) -> None:
    """Names of curves beside the right edge, moved apart where they would touch.

    Args:
        ax: axes, their limits as they will stay; names from before are moved as well.
        end_labels: height (in data) at which a curve leaves, its name, its colour.
    """
    end_labels = list(end_labels)
    for old in [text for text in ax.texts if hasattr(text, "curve_end")]:
        end_labels.append(old.curve_end)
        old.remove()
    end_labels.sort(key=lambda end: end[0], reverse=bool(ax.yaxis_inverted()))
    if layout := ax.figure.get_layout_engine():
        layout.execute(ax.figure)  # how high the axes will be
    points = ax.transData.transform([(ax.get_xlim()[1], height) for height, *_ in end_labels])
    heights = np.clip(ax.transAxes.inverted().transform(points)[:, 1], 0, 1)
    gap = 1.3 * 8.5 / 72 * ax.figure.dpi / ax.get_window_extent().height
    for height, end in zip(_apart(heights, gap), end_labels, strict=True):
        beside = {"xycoords": "axes fraction", "va": "center", "xytext": (5, 0)}
        write(ax, end[1], (1, height), color=end[2], **beside).curve_end = end


def _apart(heights: np.ndarray, gap: float) -> np.ndarray:
    """Ascending heights in [0, 1], moved as little as makes every step a gap or more."""
    placed = heights.copy()
    for k in range(1, len(placed)):
        placed[k] = max(placed[k], placed[k - 1] + gap)
    placed[-1] = min(placed[-1], 1.0)
    for k in range(len(placed) - 2, -1, -1):
        placed[k] = min(placed[k], placed[k + 1] - gap)
    return placed


def count_in_words(value: float) -> str:
    """4 B, 131 M, 10²¹."""
    if value >= 1e15:
        return power_of_ten(value)
    for size, letter in _WORDS:
        if value >= 0.9995 * size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"


def percent(share: float, _: Any = None) -> str:
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
    form = count_in_words if words else power_of_ten
    # Over less than a factor of 5 there may be a single 1, 2 or 5.
    logs = LogLocator(subs=steps, numticks=7 if len(steps) == 1 else 12)
    axis.set_major_locator(logs if decades > 0.7 else MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: form(value * single)))
    axis.set_minor_locator(LogLocator(subs=range(2, 10)) if decades > 2.2 else NullLocator())
    axis.set_minor_formatter(NullFormatter())


def step_axis(axis: Axis) -> None:
    """A linear axis of training steps, its labels few and short enough that none touch."""
    axis.set_major_locator(MaxNLocator(5, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: count_in_words(value)))


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
        return f"{spec.name} = {count_in_words(value * single)}"
    return f"{spec.name} = {value:.3g}"


def target_label(fit: FittedLaw, before: str = "") -> str:
    """What a fit predicts, on an axis, with its unit."""
    unit = f" ({fit.target_unit})" if fit.target_unit else ""
    return f"{before} {fit.law.target}{unit}".strip()
