"""What to know of a study before relying on its scores, as notes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from jaxlaw.fitting._diagnostics import FEW
from jaxlaw.laws._structural_identifiability import inseparable
from jaxlaw.notes import Note
from jaxlaw.validation._contenders import Contender
from jaxlaw.validation._data_sets import DataSet

OPEN = 1e-3  # relative difference of predictions that agreeing starts should not have
FAR = 100  # times the median Huber: such a fold makes the mean
_FEW_VALUES = 3  # of an input in what a fold fits: asked whether they suffice


def all_notes(
    frame: pd.DataFrame,
    parameters: pd.DataFrame,
    contenders: list[Contender],
    sets: list[DataSet],
) -> list[Note]:
    """Every finding on a study.

    Args:
        frame: one row a law, data set and fold.
        parameters: one row a parameter of each.
        contenders: the laws.
        sets: the data.
    """
    found = on_frame(frame, parameters)
    for contender in contenders:
        found += _on_folds(contender, sets)
    for data in sets:
        for one in data.observations.values():
            found += one.notes
    return list(dict.fromkeys(found))


def on_frame(frame: pd.DataFrame, parameters: pd.DataFrame) -> list[Note]:
    """What can be told from the numbers alone; these notes have the codes ``FROM_FRAME``."""
    return [
        *_on_fits(frame),
        *_on_bounds(parameters),
        *_on_outliers(frame),
        *_on_scores(frame),
    ]


FROM_FRAME = frozenset(
    {
        "folds-failed",
        "not-converged",
        "few-starts-agree",
        "undetermined",
        "at-bound",
        "far-folds",
        "constant-held-out",
        "one-fold",
    }
)


def _on_fits(frame: pd.DataFrame) -> Iterator[Note]:
    for law, rows in frame.groupby("law", sort=False):
        failed, rest = rows[rows["failed"]], rows[~rows["failed"]]
        if len(failed):
            message = (
                f"{law}: {len(failed)} of {len(rows)} fits failed ({_first(failed)}); they have no "
                "scores, and means are over the others"
            )
            yield Note("folds-failed", "warning", message)
        short = rest[rest["status"] != "converged"]
        if len(short):
            message = f"{law}: {len(short)} of {len(rows)} fits did not converge ({_first(short)})"
            yield Note("not-converged", "warning", message)
        lonely = rest[rest["agreement"] < FEW]
        if len(lonely):
            message = (
                f"{law}: in {len(lonely)} of {len(rows)} fits less than {FEW:.0%} of the starts "
                f"agree ({_first(lonely)}): a better optimum may exist; try more starts (n_starts)"
            )
            yield Note("few-starts-agree", "warning", message)
        loose = rest[rest["spread"] > OPEN]
        if len(loose):
            worst = loose.loc[[loose["spread"].idxmax()]]
            message = (
                f"{law}: starts that agree on the objective differ by up to "
                f"{float(worst['spread'].iloc[0]):.2g} of the loss at held-out points, in "
                f"{len(loose)} of {len(rows)} fits ({_first(worst)}): what was fitted does not "
                "determine what was asked"
            )
            yield Note("undetermined", "warning", message)


def _on_bounds(parameters: pd.DataFrame) -> Iterator[Note]:
    """Parameters that ended where their range does."""
    for law, rows in parameters.groupby("law", sort=False):
        total = len(rows[["data", "fold"]].drop_duplicates())
        ended = rows[rows["at_bound"] != ""]
        counts = ended.groupby("parameter", sort=False).size()
        if len(counts):
            named = ", ".join(f"{name} in {count}" for name, count in counts.items())
            message = (
                f"{law}: of {total} fits, {named} end at an end of the parameter's range "
                f"({_first(ended)}): its term is not needed, or its optimum lies beyond"
            )
            yield Note("at-bound", "warning", message)


def _on_outliers(frame: pd.DataFrame) -> Iterator[Note]:
    """Folds whose score is far from the others', so that they alone make the mean."""
    for (law, data), rows in frame.groupby(["law", "data"], sort=False):
        if len(rows) < 3:
            continue
        lost = 1 - rows["r2"]
        typical = {"Huber": rows["huber"].median(), "1 − R²": lost.median()}
        for name, values in (("Huber", rows["huber"]), ("1 − R²", lost)):
            far = rows[values > FAR * typical[name]]
            if far.empty:
                continue
            worst = far.loc[[values[far.index].idxmax()]]
            outside = int(far["extrapolates"].sum())
            message = (
                f"{law}, {data}: {len(far)} of {len(rows)} folds make the mean: their {name} is "
                f"more than {FAR} times the median of {typical[name]:.2g}; the worst is "
                f"{_first(worst)}, at {float(values[worst.index[0]]):.2g}; "
                f"{'all' if outside == len(far) else f'{outside} of them'} ask outside the fitted "
                "range"
            )
            yield Note("far-folds", "warning", message)
            break


def _on_scores(frame: pd.DataFrame) -> Iterator[Note]:
    flat = frame[frame["r2"].isna() & ~frame["failed"]]
    if len(flat):
        message = (
            f"R² has no meaning in {len(flat)} of {len(frame)} fits, whose held-out targets are "
            f"all equal ({_first(flat)}); it is left out of means"
        )
        yield Note("constant-held-out", "info", message)
    if frame["fold"].max() == 1:
        message = "one fold: differences between laws are not tested against noise over folds"
        yield Note("one-fold", "info", message)


def _on_folds(contender: Contender, sets: list[DataSet]) -> Iterator[Note]:
    """Folds that fit too few values of an input to tell the law's parameters apart."""
    found: dict[tuple[str, int, tuple[str, ...]], list[str]] = {}
    for data in sets:
        inputs = data.observations[contender.label].inputs
        for spec in contender.law.inputs:
            for label, mask in zip(data.folds.labels, data.folds.fitted, strict=True):
                values = np.unique(inputs[spec.name][mask])
                if len(values) > _FEW_VALUES:
                    continue
                held = (len(values),) if spec.domain == "positive" else tuple(values)
                mixed = inseparable(contender.law, spec.name, held, contender.free)
                if mixed:
                    found.setdefault((spec.name, len(values), mixed), []).append(label)
    for (name, count, mixed), labels in found.items():
        distinct = dict.fromkeys(labels)
        more = f" and {len(distinct) - 1} more" if len(distinct) > 1 else ""
        message = (
            f"{contender.label}: with {next(iter(distinct))}{more}, {name} has {count} "
            f"value{'s' if count > 1 else ''} left to fit, so {', '.join(mixed)} cannot be told "
            f"apart: predictions for another {name} rest on where the search ended"
        )
        yield Note("fold-few-values", "warning", message)


def _first(rows: pd.DataFrame) -> str:
    one = rows.iloc[0]
    return f"{one['data']}, {one['held_out']}" + (", …" if len(rows) > 1 else "")
