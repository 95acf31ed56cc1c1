"""Figures of a report: drawn by :mod:`jaxlaw.plots`, put into the page as SVG."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._answer import Answer
from jaxlaw.data import AREAS, LossCurves, Runs, optimizer_steps
from jaxlaw.fitting import Fit, FittedLaw
from jaxlaw.forecasting import Backtest, Forecast
from jaxlaw.reporting._html import Html, element
from jaxlaw.uncertainty import as_draws
from jaxlaw.validation import Study

_ALONG = ("N", "D", "C", "Dp", "r")  # inputs to draw a law along: areas mean little to the eye
_SETS = 4  # data sets whose folds are drawn
_CURVES = 4  # loss curves that are drawn, and the points of each
_POINTS = 400
_SIZE, _FONT_SIZE = (4.8, 3.4), 11  # inches, points: readable on a telephone, and two in a row
_WIDE = (5.0, 3.6)  # inches: of the picture of an answer, which stands alone
_FONTS = '"DejaVu Sans", Verdana, sans-serif'


def can_draw() -> bool:
    """Whether there are figures: matplotlib is an extra."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def figure(
    draw: Callable[[Any], Any],
    alt: str,
    caption: str,
    rows: int | None = None,
    size: tuple[float, float] = _SIZE,
) -> Html:
    """A figure with its caption.

    Args:
        draw: function that draws on Axes.
        alt: text that says what it shows, for those who do not see it.
        caption: caption below it.
        rows: number of rows of the figure, one below the other; a few need less room.
        size: width and height in inches.
    """
    import matplotlib
    from matplotlib.figure import Figure

    width, height = size
    height = height if rows is None else min(height, 1.0 + 0.4 * rows)
    drawn = Figure(figsize=(width, height), layout="constrained")
    text = io.StringIO()
    # Names of clips and markers must differ between the figures of a page, not between runs.
    settings = {"svg.fonttype": "none", "svg.hashsalt": caption, "font.size": _FONT_SIZE}
    with matplotlib.rc_context(settings):
        draw(drawn.subplots())
        drawn.savefig(
            text, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None}
        )
    caption = element("figcaption", caption)
    return element("figure", _inline(text.getvalue(), alt), caption, class_="plot")


def _inline(svg: str, alt: str) -> Html:
    """A figure's SVG as part of a page: no prolog, no metadata, no size of its own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    start, _, rest = svg.partition(">")
    box = re.search(r'viewBox="[\d. -]+"', start)[0]
    label = element("svg", role="img", aria_label=alt)[: -len("></svg>")]
    rest = re.sub(r"'DejaVu Sans'[^;\"]*", _FONTS.replace('"', "'"), rest)
    return Html(f"{label} {box}>{rest}")


def along_figures(fit: FittedLaw, runs: Any) -> list[Html]:
    """The fitted curves along each input, with the runs where they are given."""
    from jaxlaw import plots

    if np.isnan([*fit.ranges.values()]).any() or _others_are_areas(fit):
        return []  # of coefficients of a paper nobody knows the ranges
    target = fit.law.target
    through = ", with the runs they go through." if runs is not None else "."
    return [
        figure(
            lambda ax, along=along: plots.loss_over_input(fit, runs, along, ax),
            f"Fitted curves of {target} along {along}{through}",
            f"{target.capitalize()} along {along}; striped: beyond the runs",
        )
        for along in fit.law.input_names
        if along in _ALONG
    ]


def evidence_figures(fit: FittedLaw, runs: Any, intervals: pd.DataFrame | None) -> list[Html]:
    """What a fit rests on: observed against predicted, intervals, where its starts ended."""
    from jaxlaw import plots

    figures, target = [], fit.law.target
    if runs is not None:
        figures.append(
            figure(
                lambda ax: plots.observed_against_predicted(fit, runs, ax, residual_panel=True),
                f"Observed over predicted {target} of {fit.n_observations} runs, with the line "
                f"where both are equal, R² {fit.r2:.4f}; below, the residuals in percent.",
                f"Observed against predicted {target}, and what is left",
            )
        )
    if intervals is not None:
        figures.append(
            figure(
                lambda ax: plots.parameter_intervals(intervals, ax),
                "Intervals of the parameters relative to their estimates; the numbers are in "
                "the table of parameters.",
                "How sure each parameter is",
                len(intervals),
            )
        )
    # Where all starts ended at one optimum the picture is one bar, and the table says as much.
    if isinstance(fit, Fit) and (len(fit.optima) > 1 or (fit.optima and fit.agreement < 1)):
        figures.append(
            figure(
                lambda ax: plots.starts_agreement(fit, ax),
                f"{fit.agreement:.0%} of {fit.n_solved} solved starts ended at the best of "
                f"{len(fit.optima)} distinct optima.",
                "Where the starts of the search ended",
                max(len(fit.optima), 4),
            )
        )
    return figures


def _others_are_areas(fit: FittedLaw) -> bool:
    return any(name not in _ALONG for name in fit.law.input_names)


def profile_figure(profile: Answer) -> Html:
    """The figure of a profile, with its interval."""
    from jaxlaw import plots

    (between,), name = profile.interval.values(), profile.quantity
    return figure(
        lambda ax: plots.objective_profile(profile, ax),
        f"How much worse the fit gets as {name} is fixed elsewhere than at {profile.estimate:.4g} "
        f"(standard error {profile.std_err:.3g}): its {profile.level:.0%} interval goes from "
        "{:.4g} to {:.4g}.".format(*between),
        f"The profile of {name}: the {profile.level:.0%} interval from refits that hold it",
    )


def curve_figures(fit: FittedLaw, curves: LossCurves, runs: Runs) -> list[Html]:
    """The loss curves that the fit is worst at, over their steps.

    Args:
        fit: one of a law that takes areas.
        curves: the curves that it was fitted to.
        runs: their rows with the areas of the fit.
    """
    from jaxlaw import plots

    seen = runs.observations(fit.law)
    inputs = {name: values / fit.units[name] for name, values in seen.inputs.items()}
    table = runs.table.iloc[seen.positions]
    done = optimizer_steps(table, curves.run_schedules)
    rows = pd.DataFrame(
        {"run": table["run"].to_numpy(), "done": done, "loss": seen.target}
        | {name: inputs[name] for name in _other_inputs(fit)}
    ).assign(error=np.log(fit.predict(fit.law.labelled(inputs)) / seen.target) ** 2)
    rms = rows.groupby("run").agg({"error": "mean"})["error"].pow(0.5).sort_values(ascending=False)
    figures = []
    for k, run in enumerate(rms.index[:_CURVES]):
        seen_rows = rows.loc[rows["run"] == run].sort_values("done")
        first = curves.run_schedules[run].first_step
        predicted = _predicted(fit, curves, run, seen_rows)
        observed = pd.DataFrame({"step": seen_rows["done"] + first, "loss": seen_rows["loss"]})
        rank = "" if len(rms) == 1 else f" ({k + 1} of {len(rms)}, the worst fitted first)"
        figures.append(
            figure(
                lambda ax, p=predicted, o=observed: plots.loss_curve(p, o, ax),
                f"Observed and predicted {fit.law.target} of {run} over its steps, what annealing "
                "and shift add to its base, and the learning rates below.",
                f"Curve {run}{rank}: off by {rms[run]:.2%} (root mean square)",
            )
        )
    return figures


def _other_inputs(fit: FittedLaw) -> list[str]:
    """Inputs of a law of curves that no schedule gives."""
    return [name for name in fit.law.inputs_per_row if name not in AREAS]


def _predicted(fit: FittedLaw, curves: LossCurves, run: str, rows: pd.DataFrame) -> pd.DataFrame:
    """The fitted curve of a run from its first row to the end of its schedule."""
    run_schedule = curves.run_schedules[run]
    done = np.linspace(rows["done"].iloc[0], len(run_schedule.schedule), _POINTS)
    done = np.unique(done.astype(int))
    others: dict[str, Any] = {
        name: np.interp(done, rows["done"], rows[name]) for name in _other_inputs(fit)
    }
    return fit.predict_curve(
        run_schedule.schedule, done + run_schedule.first_step, first_step=run_schedule.first_step,
        S1_before=run_schedule.S1_before, batch=run_schedule.batch, **others,
    )  # fmt: skip


def plan_figures(plan: Any, source: Any, runs: Any = None) -> list[Html]:
    """The figure of a plan, if there is one.

    Args:
        plan: answer of :mod:`jaxlaw.planning`.
        source: fit, or its bootstrap, for contours.
        runs: runs of the fit, drawn beside the target; or None.
    """
    from jaxlaw import plots

    law = as_draws(source)[0].law
    if plan.kind_name == "allocation" and {"N", "D"} <= set(law.input_names) <= {"N", "D", "r"}:
        share = {"r": plan.r} if "r" in law.input_names else {}
        return [
            element("div", figure(
                lambda ax: plots.isoloss(source, None if _has_ranges(source) else (
                    plan.compute / 100, plan.compute * 10), ax, at=share, mark=plan, runs=runs,
                    level=plan.level),
                "Contours of equal loss over compute and model size, with the runs, the best size "
                "of every budget, and the answer.",
                "The runs and the answer; beyond the runs the ground is striped",
                size=_WIDE,
            ), class_="main")
        ]  # fmt: skip
    if plan.picture:
        kind = plan.kind_name.capitalize()
        drawn = figure(plan.plot, f"{kind}; the numbers are beside it.", kind, size=_WIDE)
        return [element("div", drawn, class_="main")]
    return []


def _has_ranges(source: Any) -> bool:
    """Whether it is known where the runs of a law of N and D lie."""
    ranges = as_draws(source)[0].ranges
    return bool(np.isfinite([ranges.get(name, (np.nan, np.nan)) for name in ("N", "D")]).all())


def forecast_figure(forecast: Forecast) -> Html:
    """The figure of a forecast: the runs, where they are here, and its intervals."""
    from jaxlaw import plots

    return figure(
        lambda ax: plots.forecast_intervals(forecast, ax),
        f"Forecasts of {forecast.target} with intervals of {forecast.level:.0%} and 50%, the runs, "
        "and the curve of the law; the numbers are in the table.",
        f"{forecast.target.capitalize()} of new runs, with their intervals, and of the runs before",
        size=_WIDE,
    )


def backtest_figure(backtest: Backtest) -> Html:
    """The figure of a back-test."""
    from jaxlaw import plots

    return figure(
        lambda ax: plots.backtest_errors(backtest, ax),
        f"Relative errors of {backtest.target} over the distance from the cut-off.",
        "What forecasts from the runs below each cut-off missed of those beyond",
    )


def study_figures(study: Study) -> list[Html]:
    """The figures of a study."""
    from jaxlaw import plots

    centres = ("mean", "median") if study.n_folds > 2 else ("mean",)
    figures = [
        figure(
            lambda ax, m=metric, c=centre: plots.score_table(study, m, ax, centre=c),
            f"Heat map of {name} on held-out points, {centre} over folds, laws down and data "
            "sets across; the numbers are in the tables of scores.",
            f"{name} of held-out points, {centre} over folds",
            len(study.laws) + 1,
        )
        for centre in centres
        for metric, name in (("huber", "Huber"), ("r2", "R²"))
    ]
    for data in study.frame["data"].unique()[:_SETS]:
        figures.append(
            figure(
                lambda ax, d=data: plots.fold_scores(study, "huber", ax, data=d),
                f"Held-out Huber of every fold of {data}, a row a law.",
                f"Every fold: {data}",
                2 * len(study.laws),
            )
        )
    return figures
