"""Laws × data sets × folds: every fold of every data set of a law in as few calls as can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from jaxlaw import _progress, laws as all_laws
from jaxlaw._tables import is_table
from jaxlaw._typed import checked
from jaxlaw.data import Observations, Runs, read_runs
from jaxlaw.data._runs import RunsSource
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import (
    SCORES,
    FitKeywords,
    FitOptions,
    Refits,
    compiled_ahead,
    fit_many,
    folder_name,
    law_and_options,
    lists_options,
    metrics,
    split_options,
)
from jaxlaw.fitting._objective import LARGEST_DELTA
from jaxlaw.fitting.solvers import Status
from jaxlaw.laws import Law
from jaxlaw.laws._structural_identifiability import inseparable
from jaxlaw.validation._study import FRAME, PARAMETERS, Study, frame_notes
from jaxlaw.validation.folds import Design, Folds, as_design

_MEMBERS = 8  # agreeing starts whose predictions are compared
_OWN_STARTS = 7  # of a fold's own: how far apart those end that agree is a score, too
_FEW_VALUES = 3  # of an input in what a fold fits: checked whether they suffice


@lists_options
@checked
def cross_validate(laws: Any, runs: Any, folds: Any, **options: Unpack[FitKeywords]) -> Study:
    """Fit laws on parts of the runs and score them on the rest.

    All folds of all data sets with the same inputs are fitted by one call for each law, as rows
    of 0/1 weights: a study of 36 folds compiles no more than one fit does.

    Args:
        laws: law or its name, a list of them, or a dict label → law.
        runs: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns, or a dict name → such: several data sets. A name may
            be a pair, such as ``("code", "domain")``.
        folds: design of :mod:`jaxlaw.folds` or its name (``"leave-p-groups-out:r:2"``), a
            scikit-learn splitter, or (folds, rows) masks of 0 and 1.
        **options: options of :func:`jaxlaw.fit` for every law, the same in every fold; the rest
            (columns, units …) is handed to :func:`jaxlaw.read_runs`.

    Returns:
        The :class:`Study`. Laws are compared on the same rows: those valid for all of them.

    Raises:
        UsageError: the call makes no sense; the message says what would.
        DataError: the runs cannot carry a law or the folds; names the fold.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> folds = jl.folds.hold_out("N", "last", 1 / 4)
        >>> study = jl.cross_validate(["chinchilla", "kaplan"], table, folds, n_starts=64)
        >>> study.frame["law"].tolist(), bool(study.frame["extrapolates"].all())
        (['chinchilla', 'kaplan'], True)

    Shell:
        jaxlaw study dcpt,dcpt-l1 mixtures.csv --folds leave-p-groups-out:r:2
    """
    of_fit, reading = split_options(options)
    candidates, design = candidates_of(laws, of_fit), as_design(folds)
    # One Huber threshold of the scores for all laws, or they could not be compared.
    deltas = {c.law.delta if c.options.delta is None else c.options.delta for c in candidates}
    if len(deltas) > 1:
        raise UsageError(
            f"these laws have Huber thresholds of their own ({', '.join(map(str, sorted(deltas)))})"
            "; pass delta= to compare them by one"
        )
    delta = float(min(deltas.pop(), LARGEST_DELTA))
    sets = [data_set(n, source, design, candidates, reading) for n, source in sources_of(runs)]
    frames, parameters = [], []
    # Data sets with the same inputs differ in targets and weights alone, as folds do: all folds of
    # all of them are one call.
    groups = {}
    for c in candidates:
        alike = {}
        for data in sets:
            inputs = data.observations[c.label].inputs
            key = tuple(np.asarray(values).tobytes() for values in inputs.values())
            alike.setdefault(key, []).append(data)
        groups[c.label] = [*alike.values()]
    later = () if candidates[0].options.executor else candidates[1:]
    with compiled_ahead([_refits(c, groups[c.label][0], c.options) for c in later]):
        for candidate in _progress.parts(candidates, lambda one: one.label, "law"):
            for number, group in enumerate(groups[candidate.label]):
                search = candidate.options.within(folder_name(candidate.label), str(number))
                frame, values = _refit(candidate, group, search, delta)
                frames.append(frame)
                parameters.append(values)
    frame, values = _concatenate(frames, sets), _concatenate(parameters, sets)
    notes = [
        *frame_notes(frame, values),
        *(note for data in sets for rows in data.observations.values() for note in rows.notes),
    ]
    return Study(
        design=design.name,
        laws={
            c.label: (c.law.name, c.law.constraint and c.law.constraint.name) for c in candidates
        },
        sizes={c.label: len(c.free) for c in candidates},
        target=sets[0].observations[candidates[0].label].target_name,
        delta=delta,
        frame=frame,
        parameters=values,
        notes=tuple(dict.fromkeys(notes)),
    )


def _refits(candidate: Candidate, group: list[DataSet], search: FitOptions) -> partial[Refits]:
    """The call that fits a law to all folds of data sets with the same inputs."""
    of = np.repeat(np.arange(len(group)), [len(data.folds) for data in group])
    seen = [data.observations[candidate.label] for data in group]
    targets, weights = (
        np.array([getattr(one, name) for one in seen])[of] for name in ("target", "weight")
    )
    fitted = np.concatenate([data.folds.fitted for data in group])
    return partial(
        fit_many, candidate.law, seen[0], weights=fitted * weights, targets=targets,
        options=search, data_sets=of, n_own_starts=_OWN_STARTS,
    )  # fmt: skip


def _refit(
    candidate: Candidate, group: list[DataSet], search: FitOptions, delta: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A law on all folds of data sets with the same inputs: a study's frame and parameters."""
    label, call = candidate.label, _refits(candidate, group, search)
    of, targets, fitting = (call.keywords[name] for name in ("data_sets", "targets", "weights"))
    fitted, held_out = (
        np.concatenate([getattr(data.folds, name) for data in group])
        for name in ("fitted", "held_out")
    )
    weights = np.array([data.observations[label].weight for data in group])[of]
    inputs, counts = group[0].observations[label].inputs, [len(data.folds) for data in group]
    refits = call()
    predicted = refits.predict(**inputs)
    test, train = (
        metrics(targets, predicted, weight, delta) for weight in (weights * held_out, fitting)
    )
    if (targets[fitting > 0] <= 0).any():  # without logs: residuals are linear
        for scores in (test, train):
            scores |= {name: scores[f"{name}_linear"] for name in ("huber", "mean_huber")}
    failed = ~np.isfinite(refits.objective) | ~np.isfinite(test["huber"])
    outside = np.zeros(len(of), bool)  # some held-out point is, of the fitted range of an input
    for values in inputs.values():
        low = np.where(fitting > 0, values, np.inf).min(axis=1, keepdims=True)
        high = np.where(fitting > 0, values, -np.inf).max(axis=1, keepdims=True)
        outside |= (held_out & ((values < low) | (values > high))).any(axis=1)
    # How far predictions differ between starts that agree on the objective, at most, at the
    # held-out points: what the fitted points leave open.
    chosen = [
        members[np.linspace(0, len(members) - 1, _MEMBERS).astype(int)]
        for members in refits.agreeing
    ]
    params = refits.problem.params(np.stack(chosen))
    least, most = np.full(held_out.shape, np.inf), np.full(held_out.shape, -np.inf)
    for k in range(_MEMBERS):
        member = {name: values[:, k] for name, values in params.items()}
        by_member = replace(refits, params=member).predict(**inputs)
        least, most = np.fmin(least, by_member), np.fmax(most, by_member)
    with np.errstate(invalid="ignore"):
        spread = np.where(held_out, (most - least) / np.abs(least + most) * 2, 0.0).max(axis=1)
    keys = {
        "law": label,
        "data": [" ".join(group[k].name) for k in of],
        "corpus": [group[k].name[-1] for k in of],
        "fold": np.concatenate([np.arange(1, count + 1) for count in counts]),
        "held_out": [text for data in group for text in data.folds.labels],
    }
    frame = pd.DataFrame(
        keys
        | {
            "n_fitted": (fitting > 0).sum(axis=1),
            "n_held_out": held_out.sum(axis=1),
            "extrapolates": outside,
            **{name: np.where(failed, np.nan, test[name]) for name in SCORES},
            **{f"train_{name}": np.where(failed, np.nan, train[name]) for name in SCORES},
            "objective": refits.objective,
            "status": [Status(code).label if code >= 0 else "failed" for code in refits.status],
            "agreement": refits.agreement,
            "spread": spread,
            "undetermined": [_undetermined(candidate, inputs, mask) for mask in fitted],
            "failed": failed,
        },
        columns=list(FRAME),
    )
    bounds = [
        refits.problem.active_bounds(at) if np.isfinite(at).all() else {}
        for at in refits.coordinates
    ]
    return frame, pd.concat(
        pd.DataFrame(keys).assign(
            parameter=name, value=values, at_bound=[at.get(name, "") for at in bounds]
        )
        for name, values in refits.params.items()
    )[list(PARAMETERS)]


def _undetermined(candidate: Candidate, inputs: Mapping[str, np.ndarray], mask: np.ndarray) -> str:
    """Which parameters the fitted values of an input cannot tell apart, in words."""
    for spec in candidate.law.inputs:
        values = np.unique(inputs[spec.name][mask])
        if len(values) > _FEW_VALUES:
            continue
        known = (len(values),) if spec.domain == "positive" else tuple(values)
        if mixed := inseparable(candidate.law, spec.name, known, candidate.free):
            s = "s" if len(values) > 1 else ""
            return (
                f"{spec.name} has {len(values)} value{s} left to fit, so {', '.join(mixed)} cannot "
                "be distinguished"
            )
    return ""


def _concatenate(frames: list[pd.DataFrame], sets: list[DataSet]) -> pd.DataFrame:
    """All laws together, laws and data sets in the order they were given."""
    whole = pd.concat(frames)
    rank = {" ".join(data.name): k for k, data in enumerate(sets)}
    keys = whole["fold"], whole["data"].map(rank), pd.factorize(whole["law"])[0]
    return whole.iloc[np.lexsort(keys)].reset_index(drop=True)


@dataclass(frozen=True)
class Candidate:
    """A law of a study: its label there, the law, the options of its fits."""

    label: str
    law: Law
    options: FitOptions

    @property
    def free(self) -> tuple[str, ...]:
        """Names of the parameters that the runs have to determine."""
        return self.options.free(self.law)


def candidates_of(laws, options: Mapping) -> list[Candidate]:
    """The laws of a study, with the same options of their fits."""
    return [
        Candidate(label, *law_and_options(law, **options))
        for label, law in named_laws(laws).items()
    ]


def named_laws(laws: Any) -> dict[str, Any]:
    """Label → law, of a law or its name, a list of them, or a dict of labels.

    Raises:
        UsageError: there is none, or one is there twice.
    """
    if not isinstance(laws, Mapping):
        every = [laws] if isinstance(laws, str | Law) else list(laws)
        laws = {label_of(law): law for law in every}
        if len(laws) != len(every):
            raise UsageError("a law is listed twice; give a dict, {'one': law, 'other': law}")
    if not laws:
        raise UsageError("laws is empty: give a law, or several")
    return {str(label): law for label, law in laws.items()}


def label_of(law: str | Law) -> str:
    """What a law is called beside others."""
    if isinstance(law, str):
        return law
    law = all_laws.get(law)
    return law.name if law.constraint is None else f"{law.name} ({law.constraint.name})"


@dataclass(frozen=True, eq=False)
class DataSet:
    """One set of runs: its folds, and the observations of the same m rows for each law.

    ``folds`` have one column for each of these rows.
    """

    name: tuple[str, ...]
    folds: Folds
    observations: dict[str, Observations]


def sources_of(runs) -> list[tuple[tuple[str, ...] | None, Any]]:
    """Names and sources of the data sets; None for one that is not named."""
    kinds = (Runs, str, Path, RunsSource)
    if not isinstance(runs, Mapping) or not all(  # a dict of columns
        isinstance(source, kinds) or is_table(source) for source in runs.values()
    ):
        return [(None, runs)]
    if not runs:
        raise UsageError("there is no data set to study")
    return [
        (tuple(map(str, name)) if isinstance(name, tuple) else (str(name),), source)
        for name, source in runs.items()
    ]


def data_set(
    name: tuple[str, ...] | None,
    source,
    design: Design,
    candidates: list[Candidate],
    reading: Mapping,
) -> DataSet:
    """The rows that are valid for all laws, and their folds.

    Args:
        name: name of the data set; that of its runs if None.
        source: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns.
        design: design of the folds.
        candidates: the laws.
        reading: options for :func:`jaxlaw.read_runs`.

    Raises:
        DataError: the runs cannot carry a law, or the folds.
        UsageError: the laws predict different columns.
    """
    runs = read_runs(source, **reading)
    if not runs.table.index.is_unique:
        runs = replace(runs, table=runs.table.reset_index(drop=True))
    seen = {c.label: runs.observations(c.law, free=c.free) for c in candidates}
    targets = {one.columns[one.target_name] for one in seen.values()}
    if len(targets) > 1:
        raise UsageError(
            f"laws of different targets ({', '.join(map(str, sorted(targets)))}) have no scores "
            "that could be compared; study them apart"
        )
    usable = np.ones(len(runs.table), bool)
    for one in seen.values():
        usable &= runs.table.index.isin(one.rows[one.weight > 0])
    if not usable.any():
        raise DataError(f"{runs.source}: no row is valid for all of these laws")
    # Designs read inputs as the laws have them (r of the corpus in use), in the units of the table,
    # under the user's names, too. In reversed order, so that where two laws have an input of one
    # name the first law's stays. Inputs for every LR drop are left out: no design asks.
    table = runs.table.copy(deep=False)
    for one in reversed(seen.values()):
        for column, values in one.inputs.items():
            if values.ndim == 1:
                table[column] = pd.Series(values / one.scale[column], one.rows).reindex(table.index)
    for column, own in runs.columns.items():
        if column in table and own not in table:
            table[str(own)] = table[column]
    folds = design.split(table, usable)
    folds = Folds(folds.labels, folds.fitted[:, usable], folds.held_out[:, usable])
    fitted = folds.fitted.sum(axis=1)
    least = int(fitted.argmin())
    for candidate in candidates:
        if fitted[least] < len(candidate.free):
            raise DataError(
                f"{runs.source}: fold '{folds.labels[least]}' leaves {fitted[least]} rows to fit, "
                f"which cannot determine the {len(candidate.free)} parameters of law "
                f"{candidate.label}; hold out less, or use a law with fewer parameters"
            )
    labels = runs.table.index[usable]
    same = {label: one.at(pd.Index(one.rows).get_indexer(labels)) for label, one in seen.items()}
    return DataSet((runs.corpus or runs.source,) if name is None else name, folds, same)
