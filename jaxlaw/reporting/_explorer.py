"""The explorer of a page: sliders over a grid of a law's inputs, on which Python has predicted.

A slider goes from node to node, so that every number of the page is one of Python's, of any law.
"""

from __future__ import annotations

import json
import math
from importlib.resources import files

import numpy as np
from scipy.stats import norm

from jaxlaw.fitting import FittedLaw, predict_each
from jaxlaw.forecasting import Forecast
from jaxlaw.laws import Input
from jaxlaw.reporting._html import Html, element
from jaxlaw.uncertainty import Draws, as_draws

_MOVED = 4  # inputs that have a slider; the others are held
_DRAWS = 200
_POINTS = 15_000  # of the grid
#: The nodes of a decade, and those of an axis that is not logarithmic; the finest that fits.
_NODES = (((1, 1.5, 2, 3, 5, 7), 41), ((1, 2, 5), 21), ((1, 3), 11), ((1,), 6))


def explorer(source: FittedLaw | Draws | Forecast, level: float) -> tuple:
    """The controls, the picture and the script.

    Args:
        source: what predicts. The band of draws is of the law, that of a forecast of a new run: at
            the forecast's points its own interval, elsewhere stretched as at the nearest of them.
        level: confidence level of the band.
    """
    (draws,) = as_draws(source)
    fit, law = draws.fit, draws.law
    points = source.table[list(law.input_names)] if isinstance(source, Forecast) else {}
    noise = draws.noise if len(points) else 0.0
    size = min(len(law.inputs), _MOVED)
    for how in _NODES:
        axes = [_axis(fit, spec, *how, points) for spec in law.inputs]
        if math.prod(len(axis["nodes"]) for axis in axes[:size]) < _POINTS:
            break
    values = [axis["nodes"] for axis in axes[:size]] + [axis["start"] for axis in axes[size:]]
    grid = map(np.ravel, np.meshgrid(*values, indexing="ij"))
    nodes = dict(zip(law.input_names, grid, strict=True))
    whole = sum(nodes[name] * fit.units[name] for name in law.shares)
    nodes |= {name: nodes[name] / whole for name in law.shares}
    estimate, band = _predicted(draws, nodes, level, noise)
    if len(points):
        there = {s.name: np.asarray(s.codes(points[s.name]), float) for s in law.inputs}
        known, around = _predicted(draws, there, level, noise)
        own = source.table[["low", "high"]].to_numpy(float).T
        stretch = np.log(own / known) / np.log(around / known)
        far = sum(np.log(nodes[name][:, None] / there[name]) ** 2 for name in there)
        band = estimate * (band / estimate) ** stretch[:, far.argmin(axis=1)]
    given = {n: v[:, None] if n in law.inputs_per_drop else v for n, v in nodes.items()}
    data = {
        "target": law.target, "unit": fit.target_unit, "level": level, "axes": axes[:size],
        "values": _plain(estimate), "low": _plain(band[0]), "high": _plain(band[1]),
        "outside": fit.is_extrapolation(law.labelled(given)).astype(int).tolist(),
        "known": bool(np.isfinite(list(fit.ranges.values())).all()),
    }  # fmt: skip
    of = "of a new run, as in the forecast" if len(points) else "of draws, without run-to-run noise"
    words = ["No interval: there are no draws." if np.isnan(band).all() else f"{level:.0%} {of}."]
    if size < len(axes):
        words.append(f"Fixed: {', '.join(law.input_names[size:])}.")
    if law.shares:
        words.append("Sliders of mixture ratios are weights, scaled to sum to 1.")
    controls = []
    for k, axis in enumerate(axes[:size]):
        slider = element("input", type="range", id=f"x-{k}", min=0, max=len(axis["nodes"]) - 1,
                         value=axis["nodes"].index(axis["start"]))  # fmt: skip
        label = element("label", axis["label"], for_=f"x-{k}")
        controls.append(element("div", label, slider, element("output", id=f"o-{k}")))
    picture = element("svg", id="explorer-picture", role="img", viewBox="0 0 640 280",
                      aria_label=f"{law.target} over the input that moved last")  # fmt: skip
    answer = element("p", element("output", id="explorer-answer"), class_="headline")
    markup = element(
        "div", answer, element("p", id="explorer-outside"),
        element("div", *controls, class_="controls"), picture,
        element("p", element("output", id="explorer-over"), " ".join(words), class_="lead"),
        id="explorer", hidden="",
    )  # fmt: skip
    # "</script" and "<!--" mean something in a script wherever they stand.
    text = json.dumps(data, allow_nan=False, ensure_ascii=False).replace("<", "\\u003c")
    script = files("jaxlaw.reporting").joinpath("explorer.js").read_text("utf-8")
    without = element("noscript", "The explorer needs scripts; this page runs only its own.")
    return markup, without, Html(f"<script>\nconst data = {text};\n{script}</script>")


def _predicted(
    draws: Draws, inputs: dict[str, np.ndarray], level: float, noise: float
) -> tuple[np.ndarray, np.ndarray]:
    """The estimate (n,) at inputs in the units of the runs; its band (2, n), NaN without draws."""
    law, rows = draws.law, draws.rows
    kept = np.unique(np.linspace(0, rows - 1, min(rows, 1 + _DRAWS)).astype(int))
    params = {name: values[kept] for name, values in draws.values.items()}
    given = {name: values * draws.units[name] for name, values in inputs.items()}
    given |= {name: given[name][:, None] for name in law.inputs_per_drop}
    every = np.array(predict_each(law, params, given))
    if rows == 1:
        return every[0], np.full((2, every.shape[1]), np.nan)
    # Quantiles of a run's noise, one for each draw, in an order that has nothing to do with theirs.
    normal = norm.ppf((np.arange(len(kept) - 1) + 0.5) / (len(kept) - 1))
    every[1:] *= np.exp(noise * np.random.default_rng(0).permutation(normal))[:, None]
    return every[0], np.nanquantile(every[1:], [(1 - level) / 2, (1 + level) / 2], axis=0)


def _axis(fit: FittedLaw, spec: Input, decade, count: int, points) -> dict:
    """A slider: its nodes, from below the runs to far beyond them, and the one it starts at."""
    unit = fit.units[spec.name]
    single = unit * spec.unit
    axis = {"label": spec.name if spec.counts else f"{spec.name}: {spec.doc}", "single": single,
            "unit": spec.counts, "levels": spec.levels}  # fmt: skip
    if spec.levels:
        return axis | {"nodes": list(range(len(spec.levels))), "start": 0}
    low, high = fit.ranges[spec.name]
    share, least, most = spec.domain == "fraction", low / 10, high * 100
    if not math.isfinite(low + high):  # no ranges are printed
        ends = spec.plausible or (1e-3, 1e3)
        low, high = least, most = (0.0, 1 / unit) if share else [end / single for end in ends]
    room = (high - low) / 2 or 1.0
    shown = points[spec.name].to_numpy(float)[:8] if len(points) else [high]
    if share:
        least = 1e-3 / unit if spec.above_zero or spec.mixture else 0.0
        nodes = np.clip(np.linspace(0, 1 / unit, count), least, None)
        shown = [nodes[np.abs(nodes - (low + high) / 2).argmin()]] if not len(points) else shown
    elif low > 0:
        first, last = (math.floor(math.log10(end * single)) for end in (least, most))
        nodes = np.outer(10.0 ** np.arange(first, last + 1), decade).ravel() / single
        nodes = np.append(nodes[(nodes >= least) & (nodes <= most)], [low, high])
    else:
        nodes = np.linspace(0.0 if spec.domain == "nonnegative" else low - room, high + room, count)
    nodes = np.unique([*nodes, *shown])
    return axis | {"nodes": nodes.tolist(), "start": float(shown[0])}


def _plain(values: np.ndarray) -> list[float | None]:
    """JSON has no NaN and no infinity: null."""
    return [float(f"{value:.9g}") if math.isfinite(value) else None for value in values]
