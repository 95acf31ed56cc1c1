"""Laws × data sets × folds: every fold of every data set of a law in as few calls as can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._deprecated import renamed_arguments
from jaxlaw._typed import checked
from jaxlaw.fitting._checkpoint import folder_name
from jaxlaw.fitting._diagnostics import at_walls
from jaxlaw.fitting._fit_many import Refits, fit_many
from jaxlaw.fitting._options import OLD_NAMES, split_options
from jaxlaw.fitting.solvers._status import Status
from jaxlaw.validation._contenders import Contender, contenders_of, threshold_of
from jaxlaw.validation._data_sets import DataSet, data_set, sources_of
from jaxlaw.validation._diagnostics import all_notes
from jaxlaw.validation._scoring import SCORES, disagreement, score
from jaxlaw.validation._study import Study
from jaxlaw.validation.folds import as_design


@renamed_arguments(**OLD_NAMES)
@checked
def cross_validate(
    laws: Any,
    runs: Any,
    folds: Any,
    *,
    columns: Mapping[str, Any] | None = None,
    units: Mapping[str, Any] | None = None,
    per_law: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Any,
) -> Study:
    """Fit laws on parts of the runs and ask each for the rest.

    Args:
        laws: a law or its name, a list of them, or a dict of what to call them → law.
        runs: what :func:`jaxlaw.read_runs` takes or returns, or a dict name → such: several
            data sets. A name may be a pair, such as ``("code", "domain")``.
        folds: a design of :mod:`jaxlaw.folds` or its name (``"leave-p-groups-out:r:2"``), a
            scikit-learn splitter, or (folds, rows) masks of 0 and 1.
        columns, units: as :func:`jaxlaw.read_runs` takes them.
        per_law: what a law is called → options of its own, such as
            ``{"dcpt": {"constraint": "paper"}}``: those of :func:`jaxlaw.fit` that say what is
            fitted.
        **options: options of :func:`jaxlaw.fit` for every law, the same in every fold; the rest
            is handed to :func:`jaxlaw.read_runs`.

    Returns:
        The :class:`Study`. Laws are compared on the same rows: those valid for all of them.

    Raises:
        UsageError: the call makes no sense; the message says what would.
        DataError: the runs cannot carry a law or the folds; names the fold.
    """
    of_fit, reading = split_options(options)
    contenders = contenders_of(laws, of_fit, per_law or {})
    reading |= {"columns": columns, "units": units}
    design, threshold = as_design(folds), threshold_of(contenders)
    sets = [data_set(n, source, design, contenders, reading) for n, source in sources_of(runs)]
    frames, parameters, of_work = [], [], {}
    for contender in contenders:
        for number, group in enumerate(_sharing_inputs(sets, contender)):
            search = contender.options.within(folder_name(contender.label), str(number))
            versions = _versions(group, contender)
            first = group[0].observations[contender.label]
            found = fit_many(contender.law, first, **versions, options=search)
            frames.append(_scored(contender, group, versions, found, threshold))
            parameters.append(_parameters(contender, group, found))
            of_work |= dict.fromkeys(found.notes)
    frame, values = _in_order(frames, sets), _in_order(parameters, sets)
    return Study(
        design=design.name,
        laws={
            c.label: (c.law.name, c.law.constraint and c.law.constraint.name) for c in contenders
        },
        sizes={c.label: len(c.free) for c in contenders},
        target=sets[0].observations[contenders[0].label].target_name,
        delta=threshold,
        frame=frame,
        parameters=values,
        notes=(*all_notes(frame, values, contenders, sets), *of_work),
    )


def _sharing_inputs(sets: list[DataSet], contender: Contender) -> list[list[DataSet]]:
    """Data sets by their inputs: those that share them differ in targets and weights alone."""
    groups: dict[Any, list[DataSet]] = {}
    for data in sets:
        inputs = data.observations[contender.label].inputs
        key = tuple(np.asarray(values).tobytes() for values in inputs.values())
        groups.setdefault(key, []).append(data)
    return list(groups.values())


def _versions(group: list[DataSet], contender: Contender) -> dict[str, np.ndarray]:
    """(P, n) weights and targets: the folds of one data set after those of another."""
    weights, targets = [], []
    for data in group:
        one = data.observations[contender.label]
        weights.append(data.folds.weights * one.weight)
        targets.append(np.broadcast_to(one.target, data.folds.fitted.shape))
    return {"weights": np.concatenate(weights), "targets": np.concatenate(targets)}


def _scored(
    contender: Contender,
    group: list[DataSet],
    versions: dict[str, np.ndarray],
    found: Refits,
    delta: float,
) -> pd.DataFrame:
    """One row a data set and fold."""
    first = group[0].observations[contender.label]
    predicted = found.predict(**first.inputs)
    asked = np.concatenate([data.folds.held_out for data in group])
    own = np.concatenate(
        [
            np.broadcast_to(data.observations[contender.label].weight, data.folds.fitted.shape)
            for data in group
        ]
    )
    held = score(versions["targets"], predicted, own * asked, delta)
    train = score(versions["targets"], predicted, versions["weights"], delta)
    failed = ~np.isfinite(found.objective) | ~np.isfinite(held["huber"])
    records = {
        **_names(contender, group),
        "n_fitted": (versions["weights"] > 0).sum(axis=1),
        "n_held_out": asked.sum(axis=1),
        "extrapolates": _extrapolates(first.inputs, versions["weights"] > 0, asked),
        **{name: np.where(failed, np.nan, held[name]) for name in SCORES},
        **{f"train_{name}": np.where(failed, np.nan, train[name]) for name in SCORES},
        "objective": found.objective,
        "status": [Status(status).label if status >= 0 else "failed" for status in found.status],
        "agreement": found.agreement,
        "spread": disagreement(found, first.inputs, asked),
        "failed": failed,
    }
    return pd.DataFrame(records)


def _extrapolates(
    inputs: dict[str, np.ndarray], fitted: np.ndarray, asked: np.ndarray
) -> np.ndarray:
    """Whether some point asked for lies outside the fitted range of an input, (P,)."""
    found = np.zeros(len(fitted), bool)
    for values in inputs.values():
        low = np.where(fitted, values, np.inf).min(axis=1, keepdims=True)
        high = np.where(fitted, values, -np.inf).max(axis=1, keepdims=True)
        found |= (asked & ((values < low) | (values > high))).any(axis=1)
    return found


def _names(contender: Contender, group: list[DataSet]) -> dict[str, Any]:
    counts = [len(data.folds) for data in group]
    return {
        "law": contender.label,
        "data": np.repeat([" ".join(data.name) for data in group], counts),
        "corpus": np.repeat([data.name[-1] for data in group], counts),
        "fold": np.concatenate([np.arange(1, count + 1) for count in counts]),
        "held_out": [label for data in group for label in data.folds.labels],
    }


def _parameters(contender: Contender, group: list[DataSet], found: Refits) -> pd.DataFrame:
    """One row a data set, fold and parameter; natural values in the law's own units."""
    names = pd.DataFrame(_names(contender, group))
    walls = [
        at_walls(found.problem, at) if np.isfinite(at).all() else {} for at in found.coordinates
    ]
    return pd.concat(
        [
            names.assign(
                parameter=name, value=values, at_bound=[wall.get(name, "") for wall in walls]
            )
            for name, values in found.params.items()
        ]
    )


def _in_order(frames: list[pd.DataFrame], sets: list[DataSet]) -> pd.DataFrame:
    """All laws together, data sets in the order they were given."""
    whole = pd.concat(frames, ignore_index=True)
    place = {" ".join(data.name): k for k, data in enumerate(sets)}
    laws = {law: k for k, law in enumerate(whole["law"].unique())}
    keys = pd.DataFrame(
        {"law": whole["law"].map(laws), "data": whole["data"].map(place), "fold": whole["fold"]}
    )
    order = keys.sort_values(["law", "data", "fold"], kind="stable").index
    return whole.loc[order].reset_index(drop=True)
