"""The explorer of a page: controls that move a law's inputs, and what it predicts there.

The page computes by itself, without a server: the law is written as JavaScript
(:mod:`jaxlaw.reporting._javascript`), its parameters and draws stand beside it, and
``explorer.js`` does the rest. Of a law of loss curves the controls are those of the schedule, whose
areas are summed in the page.
"""

from __future__ import annotations

import json
import math
from importlib.resources import files
from typing import Any

import numpy as np
from scipy import stats

from jaxlaw._jit import in_float64
from jaxlaw.data import AREAS, MOST_DROPS, LossCurves
from jaxlaw.errors import UsageError
from jaxlaw.fitting import FittedLaw
from jaxlaw.forecasting import Forecast
from jaxlaw.laws import Input, Law
from jaxlaw.reporting._html import Html, element
from jaxlaw.reporting._javascript import javascript_of
from jaxlaw.uncertainty import as_draws

_DRAWS = 200  # in the page: 2.5 and 97.5 % are then 5 draws from the ends
_DIGITS = 12  # of a draw
_BEYOND = 1e3  # how far a control goes beyond the runs
_PEAK = 3e-4  # where the page knows no curve
SHAPES = ("cosine", "wsd", "linear", "constant")
_WORDS = {
    "shape": "shape", "peak": "peak rate", "steps": "steps", "warmup": "steps of warm-up",
    "final": "last rate / peak", "decay": "share that decays (wsd)",
}  # fmt: skip
_PHASES = {"pt": "pre-training", "cpt": "continual"}


def explorer(
    fit: FittedLaw, uncertain: Any = None, level: float = 0.95, curves: LossCurves | None = None
) -> tuple[Any, ...]:
    """What the section of the page holds.

    Args:
        fit: law with its parameters.
        uncertain: draws of them, or what gives draws; None for no band.
        level: confidence level of the band.
        curves: curves of the fit, for the first schedule shown.

    Returns:
        Pieces of markup: the controls, the picture and the script; or why there are none.
    """
    law, areas = fit.law, [name for name in fit.law.input_names if name in AREAS]
    if areas and fit.area_options is None:
        return ("This fit does not know how its areas are counted, so no schedule is tried here.",)
    try:
        function = javascript_of(law)
    except UsageError as error:
        return (f"There is nothing to try here: {error}.",)
    data = _data(fit, uncertain, level, areas, curves)
    return _pieces(law, function, data, _band(data))


def forecast_explorer(forecast: Forecast) -> tuple[Any, ...]:
    """What the section of a forecast's page holds: its weighted laws, with its own intervals.

    The band is that of a new run: the draws of the laws, with their common error, and the noise of
    single runs. At the points of the forecast it is stretched to the intervals that the forecast
    has there, and elsewhere as at the nearest of them.

    Args:
        forecast: forecast of laws that take numbers.
    """
    try:
        draws = forecast.draws()
        function = javascript_of(draws.law)
    except UsageError as error:
        return (f"There is nothing to try here: {error}.",)
    if any(name in AREAS for name in draws.law.input_names):
        return ("These laws take areas under a schedule: no schedule is tried here.",)
    data = _data(draws.fit, draws, forecast.level, [], None)
    names = draws.law.input_names
    points = forecast.table[list(names)].to_numpy(float)
    for control in data["controls"]:
        if control["id"] in names and "choices" not in control:
            control["value"] = float(points[0, names.index(control["id"])])
    # Quantiles of the noise, one for each draw, in an order that has nothing to do with theirs.
    count = len(data["draws"])
    normal = stats.norm.ppf((np.arange(count) + 0.5) / count)
    noise = float(np.mean(forecast.error_model["noise"]))
    data["noise"] = np.exp(noise * np.random.default_rng(0).permutation(normal)).tolist()
    data["points"] = [
        {"x": point.tolist(), "stretch": _stretch(draws.fit, data, point, row)}
        for point, row in zip(points, forecast.table.itertuples(), strict=True)
    ]
    words = (
        f"Band: the forecast's interval of {forecast.level:.0%} for a new run, at its points, and "
        "elsewhere by the draws of its laws, their common error and the noise of single runs, "
        "stretched as at the nearest point. Laws weigh as they do on the mean of these points. "
        "Grey: beyond the runs; striped: far."
    )
    return _pieces(draws.law, function, data, words)


def _stretch(fit: FittedLaw, data: dict[str, Any], point: np.ndarray, row: Any) -> list[float]:
    """By how much the logs of the band at a point are to be multiplied to give its interval."""
    names = fit.law.input_names
    given = {name: value * fit.units[name] for name, value in zip(names, point, strict=True)}
    rows = np.array([data["params"], *data["draws"]])
    params = {name: rows[:, k] for k, name in enumerate(fit.law.parameter_names)}
    with in_float64():
        values = np.asarray(fit.law.evaluate(params, **given), float)
    tail = (1 - data["level"]) / 2
    band = np.nanquantile(values[1:] * data["noise"], [tail, 1 - tail])
    factors = np.log(np.array([row.low, row.high]) / values[0]) / np.log(band / values[0])
    return [float(one) if np.isfinite(one) and one > 0 else 1.0 for one in factors]


def _pieces(law: Law, function: str, data: dict[str, Any], words: str) -> tuple[Any, ...]:
    """The controls, the picture and the script."""
    source = files("jaxlaw.reporting").joinpath("explorer.js").read_text("utf-8")
    # "</script" and "<!--" mean something in a script wherever they stand.
    text = json.dumps(_plain(data), allow_nan=False, ensure_ascii=False).replace("<", "\\u003c")
    script = f"const data = {text};\nconst law = {function};\n{source}"
    markup = element(
        "div",
        element("p", element("output", id="explorer-answer"), class_="headline"),
        element("p", id="explorer-outside"),
        element("p", id="explorer-optimum"),
        element("div", *map(_markup, data["controls"]), class_="controls"),
        *([] if "areas" in data else [_over(law)]),
        element("svg", id="explorer-picture", role="img", viewBox="0 0 640 300",
                aria_label=f"{law.target} as the law predicts it, over the input that is chosen"),
        element("p", words, class_="lead"),
        id="explorer",
        hidden="",
    )  # fmt: skip
    without = element("noscript", "The explorer needs scripts; this page runs only its own.")
    return markup, without, Html(f"<script>\n{script}</script>")


def _data(
    fit: FittedLaw, uncertain: Any, level: float, areas: list[str], curves: LossCurves | None
) -> dict[str, Any]:
    """All that the script of the page knows of the fit."""
    law = fit.law
    summed = (*areas, *law.inputs_per_drop)
    controls = [_control(fit, spec) for spec in law.inputs if spec.name not in summed]
    data: dict[str, Any] = {
        "target": law.target,
        "unit": fit.target_unit,
        "level": level,
        "inputs": [_input(fit, spec) for spec in law.inputs],
        "joint": _joint(fit),
        "params": [fit.numbers()[name] for name in law.parameter_names],
        "draws": _rows(fit, uncertain),
        "controls": controls,
    }
    if areas:
        phases = _phases(areas)
        data |= {"areas": fit.area_options, "phases": phases, "alone": phases == ["cpt"]}
        data |= {"most_drops": MOST_DROPS} if law.inputs_per_drop else {}
        controls[:0] = [one for p in phases for one in _schedule(fit, p, areas, curves)]
    elif {"N", "D"} <= set(law.input_names) and law.better == "low":
        controls.append(_compute(fit))
    return data


def _over(law: Law) -> Html:
    """The input that the picture goes over."""
    names = [spec.name for spec in law.inputs if not spec.levels]
    return _choice("explorer-over", "picture over", names, names[0])


def _band(data: dict[str, Any]) -> str:
    if not data["draws"]:
        return "No interval: the page was made without draws and without the runs of the fit."
    return (
        f"Band: {data['level']:.0%} of {len(data['draws'])} draws of the parameters; it takes the "
        "law to be right, and holds no noise of a new run. Grey: beyond the runs; striped: far."
    )


def _rows(fit: FittedLaw, uncertain: Any) -> list[list[float]]:
    """Parameters of each draw, at most so many as the page carries, spread over all."""
    if uncertain is None:
        return []
    (draws,) = as_draws(uncertain)
    values = np.stack([draws.values[name] for name in fit.law.parameter_names], axis=1)[1:]
    kept = np.unique(np.linspace(0, len(values) - 1, min(_DRAWS, len(values))).astype(int))
    return [[float(f"{value:.{_DIGITS}g}") for value in values[k]] for k in kept]


def _input(fit: FittedLaw, spec: Input) -> dict[str, Any]:
    known = fit.source or any(low == low for low, _ in fit.ranges.values())
    return {
        "name": spec.name, "doc": spec.doc, "worth": fit.units[spec.name],
        "single": fit.units[spec.name] * spec.unit, "unit": spec.counts,
        "range": fit.ranges[spec.name] if known and not spec.levels else None,
        "levels": spec.levels or None, "area": spec.name in AREAS,
        "annealed": spec.name.startswith("S2") and spec.name in AREAS,
    }  # fmt: skip


def _joint(fit: FittedLaw) -> dict[str, tuple[float, float]]:
    """The products and ratios that bound the runs, of inputs that are known to be positive."""
    known = fit.joint_ranges or {}
    return {
        label: limits
        for label, limits in known.items()
        if all(fit.ranges[name][0] > 0 for name in label.replace("/", "*").split("*"))
    }


def _control(fit: FittedLaw, spec: Input) -> dict[str, Any]:
    """A slider from a tenth of the smallest run to a thousand times the largest."""
    label = f"{spec.name}: {spec.doc}" if spec.doc and not spec.counts else spec.name
    worth = fit.units[spec.name] * spec.unit
    one = {"id": spec.name, "label": label, "worth": worth, "unit": spec.counts, "log": False}
    if spec.levels:
        return one | {"choices": spec.levels, "value": spec.levels[0]}
    return one | _slider(fit, spec)


def _slider(fit: FittedLaw, spec: Input) -> dict[str, Any]:
    """The two ends of a slider and where it begins, in the unit of the runs."""
    low, high = fit.ranges[spec.name]
    if spec.domain == "fraction":
        most = 1 / fit.units[spec.name]  # 100 of a share in percent
        least = 1e-3 * most if spec.above_zero else 0.0
        middle = (low + high) / 2 if math.isfinite(low + high) else most / 2
        return {"low": least, "high": most, "value": max(middle, least)}
    if spec.domain == "positive" or low > 0:
        if 0 < low <= high < math.inf:
            return {"low": low / 10, "high": high * _BEYOND, "log": True, "value": high}
        worth = fit.units[spec.name] * spec.unit  # no ranges are printed
        low, high = (end / worth for end in spec.plausible or (1e-3, 1e3))
        return {"low": low, "high": high, "log": True, "value": math.sqrt(low * high)}
    low, high = (low, high) if math.isfinite(low + high) else (0.0, 1.0)
    room = max(high - low, 1e-300)
    least = 0.0 if spec.domain == "nonnegative" else low - room / 2
    return {"low": least, "high": high + room / 2, "value": high}


def _compute(fit: FittedLaw) -> dict[str, Any]:
    specs = {spec.name: _control(fit, spec) for spec in fit.law.inputs if spec.name in ("N", "D")}
    worth = 6.0 * specs["N"]["worth"] * specs["D"]["worth"]
    low, high, value = (
        specs["N"][end] * specs["D"][end] * worth for end in ("low", "high", "value")
    )
    return {"id": "compute", "label": "compute 6·N·D, for the best N and D", "worth": 1.0,
            "unit": "FLOPs", "log": True, "low": low, "high": high, "value": value}  # fmt: skip


def _phases(areas: list[str]) -> list[str]:
    """The phases whose areas the law takes."""
    if {"S1_pt", "S2_pt"} & set(areas):
        return ["pt", "cpt"]
    return ["cpt"] if {"S1_cpt", "S2_cpt"} & set(areas) else ["pt"]


def _schedule(
    fit: FittedLaw, phase: str, areas: list[str], curves: LossCurves | None
) -> list[dict[str, Any]]:
    """The controls of a phase: a schedule whose S1 is about the largest that was fitted."""
    name = f"S1_{phase}" if f"S1_{phase}" in areas else "S1"
    most = fit.ranges[name][1] * fit.units[name]
    peak = _PEAK
    if curves is not None:
        peak = max(float(one.schedule.rates.max()) for one in curves.run_schedules.values())
    steps = round(most / peak) if math.isfinite(most) else 20_000
    steps = min(max(steps, 100), 1_000_000)
    before = "" if len(_phases(areas)) == 1 else f"{_PHASES[phase]}: "
    own = {
        "shape": {"choices": SHAPES, "value": "cosine"},
        "peak": {"low": peak / 30, "high": peak * 30, "log": True, "value": peak},
        "steps": {"low": 1, "high": 10 * steps, "log": True, "whole": True, "value": steps},
        "warmup": {"low": 0, "high": max(steps // 5, 10), "whole": True, "value": steps // 100},
        "final": {"low": 0.0, "high": 1.0, "value": 0.1},
        "decay": {"low": 0.0, "high": 1.0, "value": 0.2},
    }
    shared = {"worth": 1.0, "unit": "", "log": False}
    return [
        shared | {"id": f"{phase}-{key}", "label": before + _WORDS[key]} | more
        for key, more in own.items()
    ]


def _choice(name: str, label: str, choices: Any, chosen: str) -> Html:
    options = [
        element("option", choice, value=choice, selected="" if choice == chosen else None)
        for choice in choices
    ]
    return element("label", f"{label} ", element("select", *options, id=name))


def _markup(control: dict[str, Any]) -> Html:
    """A slider with a field for the number, or a list of choices."""
    name = control["id"]
    if "choices" in control:
        return element(
            "div", _choice(f"n-{name}", control["label"], control["choices"], control["value"])
        )
    unit = f" ({control['unit']})" if control["unit"] else ""
    return element(
        "div",
        element("label", control["label"] + unit, for_=f"n-{name}"),
        element("input", type="range", min=0, max=1000, step="any", id=f"x-{name}",
                aria_label=control["label"]),
        element("input", type="text", id=f"n-{name}"),
    )  # fmt: skip


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: null."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
