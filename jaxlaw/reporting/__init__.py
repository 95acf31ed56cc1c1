"""A fit or a study as one page of HTML that stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jaxlaw._json import write_whole
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.data import LossCurves
from jaxlaw.data._runs import read_runs
from jaxlaw.errors import UsageError
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.reporting.fits import fit_parts
from jaxlaw.reporting.page import whole_page
from jaxlaw.reporting.studies import study_parts
from jaxlaw.uncertainty._intervals import check_level
from jaxlaw.validation import Study

__all__ = ["report"]


@checked
def report(
    result: FittedLaw | Study,
    out: str | Path | None = None,
    *,
    runs: Any = None,
    intervals: Any = None,
    groups: Any = None,
    plans: Sequence[Any] = (),
    profiles: Sequence[Any] = (),
    level: ConfidenceLevel = 0.95,
    title: str | None = None,
    **reading: Any,
) -> str:
    """A fit or a study as one page of HTML: nothing in it is fetched or run.

    Args:
        result: a :class:`jaxlaw.Fit` or a :class:`jaxlaw.Study`.
        out: file to write; None writes none.
        runs: of a fit, what :func:`jaxlaw.read_runs` takes or returns: the runs it was made
            from. They give the sandwich intervals, and pictures with data. Of a fit to loss
            curves, the :class:`jaxlaw.LossCurves`: they are drawn over their steps.
        intervals: of a fit, a :class:`jaxlaw.Bootstrap` or :class:`jaxlaw.Covariance`, the
            table of their ``intervals()``, or draws (an object with ``params``). The page then
            shows no other intervals of the parameters.
        groups: with ``runs``, rows that share noise, as for :func:`jaxlaw.covariance`; what
            ``intervals`` holds was grouped, or not, when it was made.
        plans: of a fit, answers of :mod:`jaxlaw.planning`, such as ``allocation(…)``.
        profiles: of a fit, what :func:`jaxlaw.profile` found: a picture each, and the interval
            of its parameter where ``intervals`` gives none.
        level: of the intervals.
        title: of the page; says law and source if None.
        **reading: handed to :func:`jaxlaw.read_runs`.

    Returns:
        The page. Numbers are those of ``summary()`` and ``save``.

    Raises:
        UsageError: the call makes no sense, or these are not the runs of the fit.
        DataError: the runs cannot be read.
    """
    check_level(level)
    plans, profiles = tuple(plans), tuple(profiles)
    if isinstance(result, Study):
        asked = (runs, intervals, groups) != (None,) * 3
        if asked or plans or profiles or reading:
            raise UsageError(
                "runs, intervals, groups, plans and profiles belong to a fit; a study has its folds"
            )
        parts = study_parts(result)
    else:
        if groups is not None and (runs is None or intervals is not None):
            raise UsageError(
                "groups is about intervals from runs: give runs= and no intervals=; a bootstrap "
                "or a covariance takes groups= itself"
            )
        if runs is None and reading:
            raise UsageError(f"{', '.join(reading)}: how to read runs, and there are none: runs=")
        curves = runs if isinstance(runs, LossCurves) else None
        if curves is not None and result.area_options is not None:
            runs = curves.runs(**result.area_options)  # counted as for the fit
        read = None if runs is None else read_runs(runs, **reading)
        parts = fit_parts(result, read, curves, intervals, plans, profiles, level, groups)
    heading, *rest = parts
    text = whole_page(title or heading, *rest, f"Made by jaxlaw {version('jaxlaw')}.")
    if out is not None:
        write_whole(out, lambda file: file.write_text(text, "utf-8"))
    return text
