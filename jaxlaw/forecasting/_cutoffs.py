"""Cut-offs: laws fitted to the runs up to each cut-off, all cut-offs of a law in one batch.

A cut-off is a row of 0/1 weights over the same runs, as a fold is; the last row has all of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from jaxlaw import _progress
from jaxlaw import laws as all_laws
from jaxlaw._arrays import real_numbers
from jaxlaw._rounding import ROUNDING, first_least, merged
from jaxlaw.data import (
    Observations,
    RunFlops,
    Runs,
    missing_column,
    numbers,
    read_for,
    training_flops,
)
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import (
    NOISE_DEGREES,
    Refits,
    compiled_ahead,
    fit_many,
    folder_name,
    posterior_draws,
    prior_evidence,
    with_noise,
)
from jaxlaw.forecasting._calibration import PER_E_FOLD
from jaxlaw.notes import Note
from jaxlaw.uncertainty import group_numbers, resampled_weights
from jaxlaw.validation import Candidate, DataSet, notes_of_folds
from jaxlaw.validation.folds import Folds

_OF_SIZE_AND_TOKENS = ("chinchilla", "kaplan", "kaplan-e", "skaling", "farseer")
#: Laws that are tried where none is named: the first row whose inputs are all columns of the runs.
DEFAULT_LAWS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("N", "D", "r"), ("dcpt", "dcpt-l1", "dcpt-l2", "dcpt-l4")),
    (("N", "D", "U"), ("repetition", "repetition-geometric", *_OF_SIZE_AND_TOKENS)),
    (("N", "D", "experts"), ("routed-chinchilla", "routed-skaling")),
    (("N", "experts"), ("routed-loss-size", "clark")),
    (("N", "D"), _OF_SIZE_AND_TOKENS),
    (("C",), ("loss-compute", "loss-compute-e")),
    (("Df",), ("rectified",)),
    (("S1", "S2"), ("annealing",)),
)
#: Runs for each parameter of a default law without a prior, beside laws that have one.
RUNS_EACH = 4
N_CUTOFFS = 6
#: Cut-offs below which a back-test is hardly evidence.
FEW_CUTOFFS = 3
MOST_CUTOFFS = 1000
_ROWS_EACH = 2  # rows for each parameter below the first automatic cut-off
_SHARE = 8  # one in so many of the rows lies below it, too
#: Rows below a cut-off of laws that have a prior: on fewer the prior decides, and errors at
#: the short distances that such a cut-off reaches say nothing of it. (With three, 90 % intervals
#: from six to eight runs held 75 %.)
_FEWEST_ROWS = 8
_FEWEST_VALUES = 3  # of an input, below it: two do not show how a power law bends
_FEWEST_BEYOND = 2  # rows beyond the last one
_OF_A_KIND = 3  # rows of one value of a column of text, for it to be looked at
_BY_CHANCE = 1e-3  # probability of the F below which the law misses the values apart
_SPARE = 2  # rows more than parameters, where these allow fewer than FEW_CUTOFFS
_JITTER = 0.15  # of compute within one budget, in logs
#: Noise over the prior's, and drift over the least, that are tried where runs scatter.
_FACTORS, _DRIFTS = np.exp(np.linspace(-1.5, 3.0, 91)), np.exp(np.linspace(0.0, 3.5, 71))
_ROUNDS = 3  # of a fit and an estimate of what it misses

Along = str | Callable[[pd.DataFrame], Any]


@dataclass(frozen=True, eq=False)
class CutoffFits:
    """Laws fitted up to each of J cut-offs, and to all of the n runs.

    Attributes:
        candidates: the laws.
        data: rows that are valid for all laws; its folds are the cut-offs.
        along: what the cut-offs are of, in a word.
        z: (n,) its values; those of a run are the largest of its rows.
        cutoffs: (J,) the largest value fitted.
        observed: (n,) the target.
        weight: (n,) weights of the rows.
        refits: label → fits of the J cut-offs, then that of all runs.
        predicted: label → (J + 1, n) the target by these fits; NaN where one failed.
        members: (n,) number of the run each row belongs to.
        n_spare: number of the cut-offs that the runs do not allow of those requested.
        notes: what was found on the way.
        drift: label of a law with a prior → what it errs by backwards, for each factor e of
            distance below the largest run.
    """

    candidates: list[Candidate]
    data: DataSet
    along: str
    z: np.ndarray
    cutoffs: np.ndarray
    observed: np.ndarray
    weight: np.ndarray
    refits: dict[str, Refits]
    predicted: dict[str, np.ndarray]
    members: np.ndarray
    n_spare: int
    notes: tuple[Note, ...]
    drift: dict[str, float]

    @property
    def fitted(self) -> np.ndarray:
        """(J, n) whether a cut-off has the row among those fitted."""
        return self.z <= self.cutoffs[:, None]

    @property
    def distance(self) -> np.ndarray:
        """(J, n) log of the ratio of a row's value to the cut-off; 0 for those fitted."""
        return np.log(np.maximum(self.z / self.cutoffs[:, None], 1.0))

    def refit_weights(self) -> np.ndarray:
        """(J + 1, n) weights of the rows, those of all runs last."""
        return np.vstack([self.fitted, np.ones_like(self.z)]) * self.weight

    def observations(self, label: str) -> Observations:
        """The rows as a law takes them."""
        return self.data.observations[label]


def fit_cutoffs(
    candidates: list[Candidate],
    data: DataSet,
    along: Along,
    cutoffs: int | Sequence[float],
    groups: Any,
    needed: bool = True,
) -> CutoffFits:
    """Fit every law up to each cut-off.

    Args:
        candidates: the laws.
        data: rows that are valid for all of them.
        along: what the cut-offs are of, as :func:`jaxlaw.backtest` takes it.
        cutoffs: the largest values fitted, or how many to choose.
        groups: columns whose rows are of one run, or a label for each row; None: each row is one.
        needed: whether there must be a cut-off; otherwise runs too few for any have none.

    Raises:
        UsageError, DataError: as :func:`jaxlaw.backtest` raises.
    """
    runs, first = data.runs, data.observations[candidates[0].label]
    if (first.target <= 0).any():
        raise DataError(
            f"{runs.source}: errors are ratios of targets, which must be positive; "
            f"{first.columns[first.target_name]} is not in some rows"
        )
    name, z = values_along(data, candidates, along)
    members = np.arange(len(z)) if groups is None else group_numbers(data.runs, first, groups)
    # Budgets of 6·N·D are equal on paper: a cut-off divides none by its rounding.
    z = merged(pd.Series(z).groupby(members).transform("max"))
    try:
        at = _cutoffs(data, candidates, name, z, cutoffs)
    except DataError:
        if needed or not isinstance(cutoffs, int):
            raise
        at = np.empty(0)
    candidates, drift = _noise_of_runs(candidates, data, z)
    fitted = z <= at[:, None]
    label = [f"{name} ≤ {value:.3g}" for value in at]
    data = dataclasses.replace(data, folds=Folds("rolling-origin", tuple(label), fitted, ~fitted))
    refits, predicted = {}, {}
    notes = [note for candidate in candidates for note in notes_of_folds(candidate, [data])]
    notes += [
        _note_of_drift(one, drift[one.label])
        for one in candidates
        if drift.get(one.label, 0.0) > PER_E_FOLD
    ]
    # Of a single fit more starts would be solved than of one of several.
    weights = np.vstack([fitted, np.ones((1 if len(at) else 2, len(z)))]) * first.weight
    with compiled_ahead([(c.law, data.observations[c.label], c.options) for c in candidates]):
        for candidate in _progress.parts(candidates, lambda one: one.label, "cut-offs of law"):
            rows = data.observations[candidate.label]
            search = candidate.options.within(folder_name(candidate.label), "cutoffs")
            if candidate.prior is None:
                own = weights
            else:
                own = _faded(weights, z, candidate.prior.noise, drift[candidate.label])
            refit = _only(fit_many(candidate.law, rows, weights=own, options=search), len(at) + 1)
            values = np.array(refit.predict(**rows.inputs))
            values[~np.isfinite(refit.objective)] = np.nan
            values[~(values > 0)] = np.nan
            refits[candidate.label], predicted[candidate.label] = refit, values
            notes += [*rows.notes, *refit.notes]
            failed = ~np.isfinite(values).all(axis=1)
            if failed.any():
                notes.append(Note(
                    "cutoffs-failed", "warning",
                    f"{candidate.label}: {failed.sum()} of {len(failed)} fits have no finite "
                    "prediction for some row, and are left out",
                    inherited=False,
                ))  # fmt: skip
    notes += _mixed_notes(data, predicted, first, groups)
    return CutoffFits(
        candidates, data, name, z, at, first.target, first.weight, refits, predicted, members,
        max(cutoffs - len(at), 0) if isinstance(cutoffs, int) else 0,
        tuple(dict.fromkeys(notes)), drift,
    )  # fmt: skip


def _noise_of_runs(
    candidates: Sequence[Candidate], data: DataSet, z: np.ndarray
) -> tuple[list[Candidate], dict[str, float]]:
    """Laws whose priors have the noise of these runs; label → drift of those with a prior.

    Where runs scatter beyond what those of earlier experiments did, one reason is that small runs
    follow another law than large ones: the farther below, the farther off. How much of the scatter
    that is, is estimated then, with the noise. Laws that do not know an input of other laws err for
    another reason, and are left as they are.
    """
    taken, drift, all_known = [], {}, known_beforehand(candidates)
    for candidate in candidates:
        seen = data.observations[candidate.label]
        options = with_noise(candidate.law, seen, candidate.options)
        if options.prior is not None:
            drift[candidate.label] = PER_E_FOLD
            if all_known and any(note.code == "prior-conflict" for note in options.prior.notes):
                found = _noise_and_drift(candidate, seen, z)
                if found is not None:
                    noise, drift[candidate.label] = found
                    prior = dataclasses.replace(options.prior, noise=noise)
                    options = dataclasses.replace(options, prior=prior)
        taken.append(dataclasses.replace(candidate, options=options))
    return taken, drift


def _noise_and_drift(
    candidate: Candidate, seen: Observations, z: np.ndarray
) -> tuple[float, float] | None:
    """Noise σ and drift a of a law whose residual at a distance d below has variance σ² + a²·d².

    The mode of a likelihood that counts the degrees of freedom which the fit leaves (as restricted
    maximum likelihood does), of the prior of the noise, and of a log-normal one of the drift. None
    where that is less than one: it cannot be divided between the two.

    Args:
        candidate: the law, with the noise of earlier experiments.
        seen: the rows.
        z: (n,) what distances are of.
    """
    prior, active = candidate.prior, seen.weight > 0
    noise, drift = prior.noise, PER_E_FOLD
    below = np.log(z[active].max() / np.maximum(z[active], z[z > 0].min()))
    noises, drifts = prior.noise * _FACTORS[:, None, None], PER_E_FOLD * _DRIFTS[:, None]
    variance = noises**2 + (drifts * below) ** 2
    of_priors = NOISE_DEGREES * (1 / _FACTORS**2 + 2 * np.log(_FACTORS))[:, None]
    of_priors = of_priors + np.log(_DRIFTS) ** 2
    # What a fit misses depends on how the runs weigh in it, and that on what it misses.
    for _ in range(_ROUNDS):
        own = dataclasses.replace(
            candidate.options, prior=dataclasses.replace(prior, noise=noise), work_dir=None,
            progress=False,
        )  # fmt: skip
        weights = _faded(seen.weight[None], z, noise, drift)
        fit = fit_many(candidate.law, seen, weights, options=own)
        missed = (np.log(seen.target) - np.log(fit.predict(**seen.inputs)[0]))[active]
        spare = len(missed) - prior_evidence(fit.problem, fit.coordinates[0]).determined
        if not (spare >= 1 and np.isfinite(missed).all()):
            return None
        terms = spare / len(missed) * np.log(variance) + missed**2 / variance
        total = terms.sum(axis=2) + of_priors
        row, column = np.unravel_index(np.argmin(total), total.shape)
        noise, drift = float(prior.noise * _FACTORS[row]), float(PER_E_FOLD * _DRIFTS[column])
    return noise, drift


def _note_of_drift(candidate: Candidate, drift: float) -> Note:
    """What the smallest runs still count as."""
    tenth = _faded(np.ones((1, 2)), np.array([0.1, 1.0]), candidate.prior.noise, drift)[0, 0]
    message = (
        f"{candidate.label}: the smaller runs are, the farther off: one a tenth of the largest "
        f"counts as {tenth:.2f} of a run, and smaller ones as less"
    )
    return Note("runs-fade", "info", message)


def _faded(weights: np.ndarray, z: np.ndarray, noise: float, drift: float) -> np.ndarray:
    """(P, n) weights, of which those of rows far below the largest fitted are less.

    A law errs more the farther it predicts (:mod:`jaxlaw.forecasting._calibration`), and so it does
    the farther back it looks: what is to be predicted lies beyond the largest run.
    """
    logs = np.log(np.maximum(z, z[z > 0].min()))
    latest = np.where(weights > 0, logs, -np.inf).max(axis=1, keepdims=True)
    off = drift * np.maximum(latest - logs, 0.0)
    return weights * noise**2 / (noise**2 + off**2)


def _mixed_notes(
    data: DataSet, predicted: Mapping[str, np.ndarray], first: Observations, groups: Any
) -> list[Note]:
    """Columns of text, such as the name of an experiment, by which the law misses rows apart.

    Runs of several corpora or recipes in one table are fitted as if they were of one.
    """
    known = [groups] if isinstance(groups, str) else groups if groups is not None else []
    known = {str(value) for value in known}
    active = np.flatnonzero(first.weight > 0)
    rows = data.runs.table.iloc[first.positions[active]]
    missed = {
        label: np.log(first.target[active]) - np.log(values[-1][active])
        for label, values in predicted.items()
    }
    missed = {label: errors for label, errors in missed.items() if np.isfinite(errors).all()}
    if not missed:
        return []
    label = min(missed, key=lambda label: float(missed[label].std()))
    notes = []
    for column in rows:
        values = rows[column]
        if str(column) in known or pd.api.types.is_numeric_dtype(values):
            continue
        parts = pd.Series(missed[label]).groupby(values.astype(str).to_numpy())
        parts = {name: part.to_numpy() for name, part in parts if len(part) >= _OF_A_KIND}
        if len(parts) < 2:
            continue
        with np.errstate(all="ignore"):
            chance = stats.f_oneway(*parts.values()).pvalue
        if not chance < _BY_CHANCE:
            continue
        off = {name: float(np.expm1(part.mean())) for name, part in parts.items()}
        low, high = min(off, key=off.__getitem__), max(off, key=off.__getitem__)
        # With many rows a difference far below the noise is significant, and of no consequence.
        within = np.sqrt(np.mean([part.var() for part in parts.values()]))
        if off[high] - off[low] < within:
            continue
        notes.append(Note(
            "mixed-runs", "warning",
            f"rows differ by {column}: {label} misses those of {low} by {off[low]:+.2%} and those "
            f"of {high} by {off[high]:+.2%}. Where these are corpora or recipes, forecast each "
            f"from its own rows; where they are runs with checkpoints, give groups={column!r}",
            inherited=True,
        ))  # fmt: skip
    return notes


def _only(refits: Refits, count: int) -> Refits:
    """The first refits, so many."""
    arrays = ("coordinates", "objective", "status", "agreement")
    return dataclasses.replace(
        refits,
        params={name: values[:count] for name, values in refits.params.items()},
        agreeing=refits.agreeing[:count],
        **{name: getattr(refits, name)[:count] for name in arrays},
    )


def fit_resamples(cutoff_fits: CutoffFits, label: str, n_resamples: int, seed: int) -> Refits:
    """The fits again on resampled runs: J·R of the cut-offs, in order, then R of all runs.

    Exponential weights for every run (Rubin 1981) leave none out, so that a law stays determined
    where few runs lie below a cut-off. The searches start from the optima of all cut-offs.
    """
    candidate = next(c for c in cutoff_fits.candidates if c.label == label)
    refit, own_weights = cutoff_fits.refits[label], cutoff_fits.refit_weights()
    if candidate.prior is not None:
        return _draws_with_prior(cutoff_fits, candidate, n_resamples, seed)
    factors = resampled_weights(cutoff_fits.members, n_resamples, seed, "bayesian")
    weights = (own_weights[:, None] * factors).reshape(-1, len(cutoff_fits.z))
    starts = np.where(np.isfinite(refit.objective), np.arange(len(own_weights)), -1)
    points = np.stack(
        [refit.params[name][starts] for name in candidate.law.parameter_names], axis=1
    )
    search = dataclasses.replace(
        candidate.options, n_starts=1, n_local=4, starts="sobol"
    ).within(folder_name(label), "resamples")  # fmt: skip
    return fit_many(
        candidate.law, cutoff_fits.observations(label), weights, options=search, extra_starts=points
    )


def _draws_with_prior(
    cutoff_fits: CutoffFits, candidate: Candidate, n_resamples: int, seed: int
) -> Refits:
    """Draws of the posterior of each cut-off, and of all runs: J·R, then R."""
    own_weights, label = cutoff_fits.refit_weights(), candidate.label
    # What is drawn for all runs is the same, however many of the requested cut-offs they allow.
    missing = cutoff_fits.n_spare * n_resamples
    refit, names = cutoff_fits.refits[label], candidate.law.parameter_names
    points = np.stack([refit.params[name] for name in names], axis=1)
    return posterior_draws(
        candidate.law, cutoff_fits.observations(label),
        _faded(own_weights, cutoff_fits.z, candidate.prior.noise, cutoff_fits.drift[label]),
        n_resamples,
        candidate.options.within(folder_name(label), "resamples"),
        members=cutoff_fits.members, seed=seed, points=points[np.isfinite(refit.objective)],
        missing=missing,
    )  # fmt: skip


def runs_read(runs: Any, reading: Mapping[str, Any], laws: Sequence[Any] = ()) -> Runs:
    """The runs of an entry point, by those keywords of :func:`jaxlaw.read_runs` that are given."""
    given = {name: value for name, value in reading.items() if value is not None}
    return runs if isinstance(runs, Runs) and not given else read_for(laws, runs, given)


def default_laws(runs: Runs) -> tuple[str, ...]:
    """The laws of :data:`DEFAULT_LAWS` that these runs have the columns of.

    Raises:
        DataError: columns of size and tokens are called otherwise; the message has the call.
        UsageError: there are none.
    """
    present = {str(name) for name in runs.table}
    if runs.corpus:
        present |= {name[:-2] for name in present if name.endswith(("_d", "_g"))}
    for inputs, names in DEFAULT_LAWS:
        if set(inputs) <= present:
            return tuple(name for name in names if name in all_laws.names())
    _refuse_other_names(runs)
    known = "; ".join(", ".join(inputs) for inputs, _ in DEFAULT_LAWS)
    raise UsageError(
        f"{runs.source}: no laws are tried by default for these columns (there are some for "
        f"{known}): name laws, or say with columns= which column is what"
    )


def _refuse_other_names(runs: Runs) -> None:
    """Raise the error that proposes a call, where size and tokens can be guessed from names."""
    try:
        runs.observations(_OF_SIZE_AND_TOKENS[0], free=())
    except DataError as error:
        columns = (error.guess or {}).get("columns", {})
        if columns and all(columns.get(name) != "…" for name in ("N", "D")):
            raise


def known_beforehand(candidates: Sequence[Candidate]) -> bool:
    """Whether the laws with a prior take all inputs that any of the laws takes.

    Otherwise what is known says nothing of what some laws know of, such as experts, and these must
    not stand back behind the others.
    """
    inputs = {name for one in candidates if one.prior is not None for name in one.law.input_names}
    return bool(inputs) and all(inputs.issuperset(one.law.input_names) for one in candidates)


def without_blind_priors(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The laws, without the prior of those that lack an input of another law with a prior.

    The field's experiments have new tokens alone. Where tokens are repeated, laws of repetition
    take what is known of the shape, and a law that does not know of it would be held to a shape
    that its runs do not have.
    """
    known = [{*one.law.input_names} for one in candidates if one.prior is not None]
    blind = [any({*one.law.input_names} < inputs for inputs in known) for one in candidates]
    return [
        dataclasses.replace(one, options=dataclasses.replace(one.options, prior=None))
        if lacks
        else one
        for one, lacks in zip(candidates, blind, strict=True)
    ]


def determined(candidates: list[Candidate], runs: Runs) -> list[Candidate]:
    """The default laws that these runs determine, where some are known beforehand.

    A law without a prior takes part from :data:`RUNS_EACH` runs a parameter on: on fewer, one of
    nine parameters follows the noise, and its share of the interval is thousands of percent wide.
    Otherwise all stay (:func:`known_beforehand`): which runs are too few is then an error.
    """
    if not known_beforehand(candidates):
        return candidates
    rows = len(runs.table)
    return [one for one in candidates if rows >= RUNS_EACH * len(one.free)]


def values_along(
    data: DataSet, candidates: list[Candidate], along: Along
) -> tuple[str, np.ndarray]:
    """The axis along which cut-offs are set: its name and its (n,) values.

    Raises:
        UsageError: there is no such column, or no compute.
        DataError: a value is missing, or none is positive.
    """
    runs, first = data.runs, data.observations[candidates[0].label]
    table = runs.table.iloc[first.positions]
    if callable(along):
        name = getattr(along, "__name__", "along")
        try:
            values = np.asarray(along(table), float)
        except (TypeError, ValueError, KeyError) as error:
            raise UsageError(
                f"along={name} gives no numbers for a table: {type(error).__name__} {error}",
                argument="along",
            ) from None
        if values.shape != (len(table),):
            raise UsageError(
                f"along returned shape {values.shape} for {len(table)} rows; return one number "
                "for each row"
            )
    elif along == "compute":
        hint = "along='step'" if "step" in table else "along= a column, such as the tokens"
        name, values = along, compute_of(_raw(data), runs.source, hint)
    else:
        column = next((column for name, column in _names(runs) if name == along), None)
        if column is None:
            raise missing_column("along", " (along=)", along, runs.table, runs.source, False)
        name, values = along, numbers(runs.table[column], runs.location(column))[first.positions]
    if not np.isfinite(values).all():
        row = first.rows[~np.isfinite(values)][0]
        raise DataError(f"{runs.source}, {runs.word} {row}: {name} has no finite value there")
    if (values < 0).any() or not (values > 0).any():
        raise DataError(
            f"{runs.source}: distances are ratios of {name}, which must not be negative; give "
            "along= a function of the table that is positive"
        )
    return name, values


def _names(runs: Runs) -> list[tuple[str, Any]]:
    """Canonical names of the columns, then the user's own."""
    return [(str(c), c) for c in runs.table] + [(str(runs.user_name(c)), c) for c in runs.table]


def _raw(data: DataSet) -> dict[str, np.ndarray]:
    """Inputs of the laws in single parameters, tokens and FLOPs, (n,) each."""
    raw = {}
    for seen in data.observations.values():
        for name, values in seen.inputs.items():
            raw.setdefault(name, values / seen.scale[name] * seen.units[name])
    if "C" not in raw and "C" in data.runs.table:
        first = next(iter(data.observations.values()))
        column = numbers(data.runs.table["C"], data.runs.location("C"))[first.positions]
        raw["C"] = column * data.runs.units.get("C", 1.0)
    return raw


def compute_of(
    inputs: Mapping[str, np.ndarray], source: str, hint: str = "along= a column",
    own: RunFlops | None = None,
) -> np.ndarray:  # fmt: skip
    """Training compute in FLOPs: C, or that of N and D, as the runs' own table counts it or 6·N·D.

    Raises:
        UsageError: neither can be had of these inputs.
    """
    if "C" in inputs or {"N", "D"} <= {*inputs}:
        return training_flops(inputs, own)
    raise UsageError(
        f"{source}: along='compute' needs C, or N and D; there are {', '.join(inputs)}: give "
        f"{hint}, or a function of the table"
    )


def _cutoffs(
    data: DataSet, candidates: list[Candidate], name: str, z: np.ndarray,
    given: int | Sequence[float],
) -> np.ndarray:  # fmt: skip
    """(J,) the largest values fitted, in order: values that runs have.

    Raises:
        UsageError: they are no numbers, or nothing lies below or beyond one.
        DataError: too few rows lie below one, or the runs allow none.
    """
    levels = np.unique(z[z > 0])
    if isinstance(given, bool) or (isinstance(given, int) and not 1 <= given <= MOST_CUTOFFS):
        raise UsageError(
            f"cutoffs is a number of them, 1 to {MOST_CUTOFFS:,}, or their values, not {given}"
        )
    if isinstance(given, int):
        return _automatic(data, candidates, name, z, given)
    try:
        values = np.unique(real_numbers(given).ravel())
    except (TypeError, ValueError):
        raise UsageError(f"cutoffs is a number of them, or their values, not {given!r}") from None
    if not len(values) or not np.isfinite(values).all():
        raise UsageError("cutoffs has no number, or one that is not finite")
    for value in values:
        if not levels[0] <= value * (1 + ROUNDING) < levels[-1]:
            raise UsageError(
                f"cut-off {value:g} leaves nothing to {'fit' if value < levels[0] else 'predict'}: "
                f"{name} of the runs is {levels[0]:.6g} to {levels[-1]:.6g}"
            )
    values = np.unique([levels[levels <= value * (1 + ROUNDING)].max() for value in values])
    active = data.observations[candidates[0].label].weight > 0
    for candidate in candidates:
        count = int(((z <= values[0]) & active).sum())
        if count < len(candidate.free):
            raise DataError(
                f"{data.runs.source}: {count} rows with {name} up to {values[0]:.4g} cannot "
                f"determine the {len(candidate.free)} parameters of law {candidate.label}; raise "
                "the cut-off, or take a smaller law"
            )
    return values


def _automatic(
    data: DataSet, candidates: list[Candidate], name: str, z: np.ndarray, count: int
) -> np.ndarray:
    """So many cut-offs, evenly spread over the log of what they are of, or fewer."""
    first = data.observations[candidates[0].label]
    active = first.weight > 0
    levels = levels_of(z[active & (z > 0)])
    largest = max(len(candidate.free) for candidate in candidates)
    inputs = [values for seen in data.observations.values() for values in seen.inputs.values()]
    inputs = [values for values in inputs if values.ndim == 1]

    # All levels at once: of 10,000 rows, each a level, half a forecast's time went into counting
    # the values of the inputs below each. An input has k of them from where it meets the k-th.
    held = z[active]
    enough_values = -math.inf
    for input_values in inputs:
        values, which = np.unique(input_values[active], return_inverse=True)
        met = np.full(len(values), math.inf)
        np.minimum.at(met, which, held)
        enough_values = max(enough_values, np.sort(met)[min(_FEWEST_VALUES, len(values)) - 1])
    below = np.searchsorted(np.sort(held), levels, side="right")
    fewest = _FEWEST_ROWS if any(one.prior is not None for one in candidates) else 0

    # Few runs allow few cut-offs with rows to spare. Cut-offs with hardly any are evidence still,
    # and better than none: what their fits do not know is in the spread of their resamples.
    for least, beyond in ((_ROWS_EACH * largest, _FEWEST_BEYOND), (largest + _SPARE, 1)):
        rows_enough = below >= max(least, fewest, math.ceil(len(held) / _SHARE))
        allowed = levels[rows_enough & (len(held) - below >= beyond) & (levels >= enough_values)]
        if len(allowed) >= FEW_CUTOFFS:
            break
    if not len(allowed):
        raise DataError(
            f"{data.runs.source}: no value of {name} leaves {least} rows (with "
            f"{_FEWEST_VALUES} values of every input) below it and some beyond: {active.sum()} "
            f"rows with {len(levels)} values are too few to be held out in turn; give cutoffs=, "
            "or smaller laws"
        )
    logs = np.log(allowed)
    targets = np.linspace(logs[0], logs[-1], count)
    return np.unique([allowed[first_least(np.abs(logs - target))] for target in targets])


def levels_of(values: np.ndarray) -> np.ndarray:
    """Values in order, each once; budgets written with a little jitter are a value each.

    They are budgets where most of the range (in logs) is gaps between them. Otherwise a cut-off
    could divide one, and distances would begin at the jitter.
    """
    levels = np.unique(values)
    gaps = np.diff(np.log(levels))
    wide = gaps > _JITTER
    if gaps[~wide].sum() > gaps.sum() / 3:
        return levels
    return levels[np.append(wide, True)]
