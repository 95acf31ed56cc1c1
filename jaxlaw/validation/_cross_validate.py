"""Laws × data sets × folds: every fold of every data set of a law in as few calls as can be."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from jaxlaw import _progress
from jaxlaw import laws as all_laws
from jaxlaw._tables import is_table
from jaxlaw._typed import check_options, checked
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
from jaxlaw.fitting._options import OF_LAW
from jaxlaw.fitting.solvers import Status
from jaxlaw.laws import Law
from jaxlaw.laws._structural_identifiability import inseparable
from jaxlaw.notes import Note
from jaxlaw.validation._study import FRAME, PARAMETERS, Study, frame_notes
from jaxlaw.validation.folds import Design, Folds, as_design

_MEMBERS = 8  # agreeing starts whose predictions are compared
_OWN_STARTS = 7  # of a fold's own: how far apart those end that agree is a score, too
_FEW_VALUES = 3  # of an input in what a fold fits: checked whether they suffice


@lists_options(FitKeywords)
@checked
def cross_validate(
    laws: Any,
    runs: Any,
    folds: Any,
    *,
    per_law: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Unpack[FitKeywords],
) -> Study:
    """Fit laws on parts of the runs and score them on the rest.

    All folds of all data sets with the same inputs are fitted by one call for each law, as rows
    of 0/1 weights: a study of 36 folds compiles no more than one fit does.

    Args:
        laws: law or its name, a list of them, or a dict label → law.
        runs: what :func:`jaxlaw.read_runs` takes or returns, or a dict name → such: several
            data sets. A name may be a pair, such as ``("code", "domain")``.
        folds: design of :mod:`jaxlaw.folds` or its name (``"leave-p-groups-out:r:2"``), a
            scikit-learn splitter, or (folds, rows) masks of 0 and 1.
        per_law: label of a law → options of its own, such as
            ``{"dcpt": {"constraint": "paper"}}``: those of :func:`jaxlaw.fit` that say what is
            fitted.
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
    candidates = candidates_of(laws, of_fit, per_law or {})
    design, delta = as_design(folds), common_delta(candidates)
    sets = [data_set(n, source, design, candidates, reading) for n, source in sources_of(runs)]
    frames, parameters, work_notes = [], [], []
    # Data sets with the same inputs differ in targets and weights alone, as folds do: all folds of
    # all of them are one call for each law.
    with compiled_ahead([(c.law, sets[0].observations[c.label], c.options) for c in candidates]):
        for candidate in _progress.parts(candidates, lambda one: one.label, "law"):
            for number, group in enumerate(_sharing_inputs(sets, candidate)):
                search = candidate.options.within(folder_name(candidate.label), str(number))
                rows = _refit_rows(group, candidate)
                first = group[0].observations[candidate.label]
                of = np.repeat(np.arange(len(group)), [len(data.folds) for data in group])
                refits = fit_many(
                    candidate.law, first, **rows, options=search, data_sets=of,
                    n_own_starts=_OWN_STARTS,
                )  # fmt: skip
                frames.append(_score_folds(candidate, group, rows, refits, delta))
                parameters.append(_parameters(candidate, group, refits))
                work_notes += refits.notes
    frame, values = _concatenate(frames, sets), _concatenate(parameters, sets)
    notes = [
        *frame_notes(frame, values),
        *(note for candidate in candidates for note in notes_of_folds(candidate, sets)),
        *(note for data in sets for rows in data.observations.values() for note in rows.notes),
        *work_notes,
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


def _sharing_inputs(sets: list[DataSet], candidate: Candidate) -> list[list[DataSet]]:
    """Data sets by their inputs: those that share them differ in targets and weights alone."""
    groups: dict[Any, list[DataSet]] = {}
    for data in sets:
        inputs = data.observations[candidate.label].inputs
        key = tuple(np.asarray(values).tobytes() for values in inputs.values())
        groups.setdefault(key, []).append(data)
    return list(groups.values())


def _refit_rows(group: list[DataSet], candidate: Candidate) -> dict[str, np.ndarray]:
    """(P, n) weights and targets: the folds of one data set after those of another."""
    weights, targets = [], []
    for data in group:
        rows = data.observations[candidate.label]
        weights.append(data.folds.weights * rows.weight)
        targets.append(np.broadcast_to(rows.target, data.folds.fitted.shape))
    return {"weights": np.concatenate(weights), "targets": np.concatenate(targets)}


def _score_folds(
    candidate: Candidate,
    group: list[DataSet],
    rows: dict[str, np.ndarray],
    refits: Refits,
    delta: float,
) -> pd.DataFrame:
    """One row a data set and fold."""
    first = group[0].observations[candidate.label]
    predicted = refits.predict(**first.inputs)
    held_out = np.concatenate([data.folds.held_out for data in group])
    weights = np.concatenate(
        [
            np.broadcast_to(data.observations[candidate.label].weight, data.folds.fitted.shape)
            for data in group
        ]
    )
    test, train = (
        metrics(rows["targets"], predicted, weight, delta)
        for weight in (weights * held_out, rows["weights"])
    )
    if (rows["targets"][rows["weights"] > 0] <= 0).any():  # without logs: residuals are linear
        test, train = (
            found | {name: found[f"{name}_linear"] for name in ("huber", "mean_huber")}
            for found in (test, train)
        )
    failed = ~np.isfinite(refits.objective) | ~np.isfinite(test["huber"])
    columns = {
        **_keys(candidate, group),
        "n_fitted": (rows["weights"] > 0).sum(axis=1),
        "n_held_out": held_out.sum(axis=1),
        "extrapolates": _extrapolates(first.inputs, rows["weights"] > 0, held_out),
        **{name: np.where(failed, np.nan, test[name]) for name in SCORES},
        **{f"train_{name}": np.where(failed, np.nan, train[name]) for name in SCORES},
        "objective": refits.objective,
        "status": [Status(code).label if code >= 0 else "failed" for code in refits.status],
        "agreement": refits.agreement,
        "spread": _disagreement(refits, first.inputs, held_out),
        "failed": failed,
    }
    return pd.DataFrame(columns, columns=list(FRAME))


def _disagreement(
    refits: Refits, inputs: dict[str, np.ndarray], held_out: np.ndarray
) -> np.ndarray:
    """How far predictions differ between starts that agree on the objective, (P,).

    The largest relative difference at the held-out points: what the fitted points leave open.

    Args:
        refits: fits of P folds.
        inputs: name → (n,) in the law's own units.
        held_out: (P, n) True where a fold is scored.
    """
    chosen = [
        members[np.linspace(0, len(members) - 1, _MEMBERS).astype(int)]
        for members in refits.agreeing
    ]
    params = refits.problem.params(np.stack(chosen))
    low, high = np.full(held_out.shape, np.inf), np.full(held_out.shape, -np.inf)
    for k in range(_MEMBERS):
        member = {name: values[:, k] for name, values in params.items()}
        predicted = dataclasses.replace(refits, params=member).predict(**inputs)
        low, high = np.fmin(low, predicted), np.fmax(high, predicted)
    with np.errstate(invalid="ignore"):
        return np.where(held_out, (high - low) / np.abs(low + high) * 2, 0.0).max(axis=1)


def _extrapolates(
    inputs: dict[str, np.ndarray], fitted: np.ndarray, held_out: np.ndarray
) -> np.ndarray:
    """Whether some held-out point lies outside the fitted range of an input, (P,)."""
    outside = np.zeros(len(fitted), bool)
    for values in inputs.values():
        low = np.where(fitted, values, np.inf).min(axis=1, keepdims=True)
        high = np.where(fitted, values, -np.inf).max(axis=1, keepdims=True)
        outside |= (held_out & ((values < low) | (values > high))).any(axis=1)
    return outside


def _keys(candidate: Candidate, group: list[DataSet]) -> dict[str, Any]:
    """The columns that say which fit a row is of."""
    counts = [len(data.folds) for data in group]
    return {
        "law": candidate.label,
        "data": np.repeat([" ".join(data.name) for data in group], counts),
        "corpus": np.repeat([data.name[-1] for data in group], counts),
        "fold": np.concatenate([np.arange(1, count + 1) for count in counts]),
        "held_out": [label for data in group for label in data.folds.labels],
    }


def _parameters(candidate: Candidate, group: list[DataSet], refits: Refits) -> pd.DataFrame:
    """One row a data set, fold and parameter; natural values in the law's own units."""
    keys = pd.DataFrame(_keys(candidate, group))
    bounds = [
        refits.problem.active_bounds(at) if np.isfinite(at).all() else {}
        for at in refits.coordinates
    ]
    return pd.concat(
        keys.assign(parameter=name, value=values, at_bound=[at.get(name, "") for at in bounds])
        for name, values in refits.params.items()
    )[list(PARAMETERS)]


def _concatenate(frames: list[pd.DataFrame], sets: list[DataSet]) -> pd.DataFrame:
    """All laws together, laws and data sets in the order they were given."""
    whole = pd.concat(frames, ignore_index=True)
    given = {"law": whole["law"].unique(), "data": [" ".join(data.name) for data in sets]}
    order = {name: {label: k for k, label in enumerate(labels)} for name, labels in given.items()}
    return whole.sort_values(
        ["law", "data", "fold"], kind="stable", ignore_index=True,
        key=lambda column: column.map(order[column.name]) if column.name in order else column,
    )  # fmt: skip


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


def candidates_of(
    laws: Any, own: Mapping[str, Any], per_law: Mapping[str, Mapping[str, Any]]
) -> list[Candidate]:
    """The laws of a study.

    Args:
        laws: as :func:`jaxlaw.cross_validate` takes them.
        own: keywords of every law, as :func:`jaxlaw.fit` takes them.
        per_law: label → keywords in place of those, of what is fitted.

    Raises:
        UsageError: a law or an option is unknown, or a law is there twice.
    """
    given = laws if isinstance(laws, Mapping) else _label_laws(laws)
    if not given:
        raise UsageError("give a law, or several, to study")
    for label in per_law:
        if label not in given:
            raise UsageError(f"per_law names '{label}', which is not studied: {', '.join(given)}")
        if unknown := set(per_law[label]) - set(OF_LAW):
            raise UsageError(
                f"per_law: '{sorted(unknown)[0]}' is no option of a law; options: "
                f"{', '.join(OF_LAW)}",
                argument="per_law",
                value=per_law,
            )
        check_options(f"per_law[{label!r}]", per_law[label], FitKeywords)
    return [
        Candidate(str(label), *law_and_options(law, **{**own, **per_law.get(label, {})}))
        for label, law in given.items()
    ]


def _label_laws(laws: Any) -> dict[str, str | Law]:
    """A law, or several, by what each is called."""
    try:
        listed = [laws] if isinstance(laws, str | Law) else list(laws)
    except TypeError:
        raise UsageError(
            f"laws is a law, its name, a list or dict of them, not {type(laws).__name__}",
            argument="laws",
            value=laws,
        ) from None
    given = {label_of(law): law for law in listed}
    if len(given) != len(listed):
        raise UsageError("a law is listed twice; give a dict, {'one': law, 'other': law}")
    return given


def label_of(law: str | Law) -> str:
    """What a law is called beside others."""
    if isinstance(law, str):
        return law
    law = all_laws.get(law)
    return law.name if law.constraint is None else f"{law.name} ({law.constraint.name})"


def common_delta(candidates: list[Candidate]) -> float:
    """The Huber threshold of the scores: one for all laws, or they could not be compared."""
    deltas = {c.law.delta if c.options.delta is None else c.options.delta for c in candidates}
    if len(deltas) > 1:
        raise UsageError(
            f"these laws have Huber thresholds of their own ({', '.join(map(str, sorted(deltas)))})"
            "; pass delta= to compare them by one"
        )
    return float(min(deltas.pop(), LARGEST_DELTA))


@dataclass(frozen=True, eq=False)
class DataSet:
    """One set of runs: its folds, and the observations of the same m rows for each law.

    ``folds`` have one column for each of these rows.
    """

    name: tuple[str, ...]
    runs: Runs
    folds: Folds
    observations: dict[str, Observations]


def sources_of(runs: Any) -> list[tuple[tuple[str, ...] | None, Any]]:
    """Names and sources of the data sets; None for one that is not named."""
    kinds = (Runs, str, Path)
    several = isinstance(runs, Mapping) and all(
        isinstance(v, kinds) or is_table(v) or isinstance(v, RunsSource) for v in runs.values()
    )
    if not several:
        return [(None, runs)]
    if not runs:
        raise UsageError("there is no data set to study")
    return [
        (tuple(map(str, name)) if isinstance(name, tuple) else (str(name),), source)
        for name, source in runs.items()
    ]


def data_set(
    name: tuple[str, ...] | None,
    source: Any,
    design: Design,
    candidates: list[Candidate],
    reading: Mapping[str, Any],
) -> DataSet:
    """The rows that are valid for all laws, and their folds.

    Args:
        name: name of the data set; that of its runs if None.
        source: what :func:`jaxlaw.read_runs` takes or returns.
        design: design of the folds.
        candidates: the laws.
        reading: options for :func:`jaxlaw.read_runs`.

    Raises:
        DataError: the runs cannot carry a law, or the folds.
        UsageError: the laws predict different columns.
    """
    given = {key: value for key, value in reading.items() if value is not None}
    read = isinstance(source, Runs) and not given
    runs = source if read else read_runs(source, **given)
    name = (runs.corpus or runs.source,) if name is None else name
    if not runs.table.index.is_unique:
        runs = dataclasses.replace(runs, table=runs.table.reset_index(drop=True))
    seen = {c.label: runs.observations(c.law, free=c.free) for c in candidates}
    usable = _usable(runs, seen)
    folds = design.split(dataclasses.replace(runs, table=_with_inputs(runs, seen)), usable)
    folds = dataclasses.replace(
        folds, fitted=folds.fitted[:, usable], held_out=folds.held_out[:, usable]
    )
    labels = runs.table.index[usable]
    same = {label: one.at(pd.Index(one.rows).get_indexer(labels)) for label, one in seen.items()}
    data = DataSet(name, runs, folds, same)
    _check_sizes(data, candidates)
    return data


def _usable(runs: Runs, seen: Mapping[str, Observations]) -> np.ndarray:
    """(n,) which rows are valid for all laws, whose target has to be one."""
    targets = {observations.columns[observations.target_name] for observations in seen.values()}
    if len(targets) > 1:
        raise UsageError(
            f"laws of different targets ({', '.join(map(str, sorted(targets)))}) have no scores "
            "that could be compared; study them apart"
        )
    usable = np.ones(len(runs.table), bool)
    for observations in seen.values():
        usable &= runs.table.index.isin(observations.rows[observations.weight > 0])
    if not usable.any():
        raise DataError(f"{runs.source}: no row is valid for all of these laws")
    return usable


def _with_inputs(runs: Runs, seen: Mapping[str, Observations]) -> pd.DataFrame:
    """The table that designs read, with inputs as the laws have them: r of the corpus in use.

    In reversed order, so that where two laws have an input of one name the first law's stays.
    Units are those of the table; inputs for every drop of a rate are left out, no design asks for
    them.
    """
    table = runs.table.copy(deep=False)
    for observations in reversed(seen.values()):
        for column, values in observations.inputs.items():
            if values.ndim == 1:
                own_unit = pd.Series(values / observations.scale[column], observations.rows)
                table[column] = own_unit.reindex(table.index)
    return table


def _check_sizes(data: DataSet, candidates: list[Candidate]) -> None:
    fitted = data.folds.fitted.sum(axis=1)
    least = int(fitted.argmin())
    for candidate in candidates:
        if fitted[least] < len(candidate.free):
            raise DataError(
                f"{data.runs.source}: fold '{data.folds.labels[least]}' leaves "
                f"{fitted[least]} rows to fit, which cannot determine the {len(candidate.free)} "
                f"parameters of law {candidate.label}; hold out less, or take a smaller law"
            )


def notes_of_folds(candidate: Candidate, sets: list[DataSet]) -> Iterator[Note]:
    """Folds that fit too few values of an input to identify the law's parameters."""
    by_cause: dict[tuple[str, int, tuple[str, ...]], list[str]] = {}
    for data in sets:
        inputs = data.observations[candidate.label].inputs
        for spec in candidate.law.inputs:
            for label, mask in zip(data.folds.labels, data.folds.fitted, strict=True):
                values = np.unique(inputs[spec.name][mask])
                if len(values) > _FEW_VALUES:
                    continue
                known = (len(values),) if spec.domain == "positive" else tuple(values)
                mixed = inseparable(candidate.law, spec.name, known, candidate.free)
                if mixed:
                    by_cause.setdefault((spec.name, len(values), mixed), []).append(label)
    for (name, count, mixed), labels in by_cause.items():
        distinct = dict.fromkeys(labels)
        more = f" and {len(distinct) - 1} more" if len(distinct) > 1 else ""
        message = (
            f"{candidate.label}: with {next(iter(distinct))}{more}, {name} has {count} "
            f"value{'s' if count > 1 else ''} left to fit, so {', '.join(mixed)} cannot be "
            f"distinguished: predictions for another {name} rest on where the search ended"
        )
        yield Note("fold-few-values", "warning", message)
