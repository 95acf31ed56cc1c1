"""Laws, runs and points of a forecast, and the draws of one or several laws together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from jaxlaw import laws as all_laws
from jaxlaw._arrays import real_numbers
from jaxlaw._jit import in_float64, padded
from jaxlaw._tables import is_table, read_table
from jaxlaw.data import Observations, Runs, known_columns, read_runs, training_flops
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import FittedLaw, Prior, predict_each, prior_of
from jaxlaw.forecasting.posterior import NU, Posteriors, draws_of, posteriors, shared_weights
from jaxlaw.laws import (
    Law,
    beyond,
    growing_inputs,
    parameter_of,
    slope_of,
    weight_of,
    weighted,
)
from jaxlaw.uncertainty import Draws, group_numbers
from jaxlaw.validation import label_of

#: Levels of the quantiles that a forecast keeps, close together in the tails.
LEVELS = stats.norm.cdf(np.linspace(-3.3, 3.3, 265))
_TOGETHER = 6  # problems of several, or a multiple of it
_REPEATS = 4  # draws of the noise for each of the posterior

#: Laws that are taken where none is named: the first row whose inputs are all columns of the runs.
DEFAULT_LAWS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("N", "D", "r"), ("dcpt",)),
    (("N", "D", "U"), ("repetition",)),
    (("N", "D", "experts"), ("routed-skaling",)),
    (("N", "experts"), ("routed-loss-size",)),
    (("N", "D"), ("skaling",)),
    (("C",), ("loss-compute-e",)),
    (("Df",), ("rectified",)),
    (("S1", "S2"), ("annealing",)),
)


def default_laws(runs: Runs) -> tuple[str, ...]:
    """The laws of :data:`DEFAULT_LAWS` that these runs have the columns of.

    Raises:
        DataError: several columns may be the size, or the tokens.
        UsageError: there are none.
    """
    present = {str(name) for name in runs.table}
    if runs.corpus:
        present |= {name[:-2] for name in present if name.endswith(("_d", "_g"))}
    for inputs, names in DEFAULT_LAWS:
        if {*inputs} <= present:
            return names
    if known_columns(runs.table, ("N", "D")):  # more than one may be meant
        runs.observations("skaling", free=())
    known = "; ".join(", ".join(inputs) for inputs, _ in DEFAULT_LAWS)
    raise UsageError(
        f"{runs.source}: no law suits these columns by default (there are some for {known}): name "
        "laws=, or say with columns= which column is what"
    )


@dataclass(frozen=True, eq=False)
class Question:
    """Runs and laws that a forecast or a back-test is asked of; rows that are valid for all laws.

    Attributes:
        runs: the table.
        laws: label → law.
        seen: label → the n rows as that law takes them.
        members: (n,) number of the run that a row is a checkpoint of; None where each is a run.
    """

    runs: Runs
    laws: dict[str, Law]
    seen: dict[str, Observations]
    members: np.ndarray | None

    @property
    def first(self) -> Observations:
        """The rows as the first law takes them."""
        return next(iter(self.seen.values()))

    @property
    def inputs(self) -> dict[str, tuple[str, Any]]:
        """Input of any law → label of the first law that takes it, and its specification."""
        found: dict[str, tuple[str, Any]] = {}
        for label, law in self.laws.items():
            for spec in law.inputs:
                found.setdefault(spec.name, (label, spec))
        return found

    def table(self) -> pd.DataFrame:
        """The n rows: inputs in the units of the runs, labels as they are, and the target."""
        columns = {}
        for name, (label, spec) in self.inputs.items():
            seen = self.seen[label]
            columns[name] = spec.labels_of(seen.inputs[name]) if spec.levels else (
                seen.inputs[name] / seen.scale[name]
            )  # fmt: skip
        return pd.DataFrame(columns | {self.first.target_name: self.first.target})

    def fitted(self) -> pd.DataFrame:
        """The rows of :meth:`table` that count."""
        return self.table()[self.first.weight > 0].reset_index(drop=True)

    def in_own_units(self, points: Mapping[str, Any]) -> dict[str, dict[str, np.ndarray]]:
        """Label → input → (m,) of points in the units of the runs, as that law takes them."""
        return {
            label: {
                spec.name: spec.codes(points[spec.name])
                if spec.levels
                else np.asarray(points[spec.name], float) * self.seen[label].scale[spec.name]
                for spec in law.inputs
            }
            for label, law in self.laws.items()
        }

    def size(self, points: Mapping[str, Any]) -> np.ndarray:
        """(m,) log of how large runs are: of their FLOPs, or of what else they grow by."""
        label, law = next(iter(self.laws.items()))
        own, names = self.in_own_units(points)[label], growing_inputs(law)
        raw = {spec.name: own[spec.name] * spec.unit for spec in law.inputs if spec.name in names}
        if len(names) > 1:
            return np.log(training_flops(raw, self.first.flops))
        return np.log(raw[names[0]]) if names else np.zeros(len(points[law.input_names[0]]))

    def points(self, at: Any) -> dict[str, np.ndarray]:
        """Input → (m,) of the points of ``at=``, in the units of the runs; labels as they are.

        Raises:
            UsageError: no points, an input is missing, or one that no law takes.
            DataError: a value outside its domain.
        """
        if is_table(at) and not isinstance(at, Mapping):
            at = dict(read_table(at).frame.items())
        names = ", ".join(self.inputs)
        if not isinstance(at, Mapping) or not at:
            raise UsageError(f"at is a dict or a table of {names}: at={{'N': 7e10, 'D': 1.4e12}}")
        column_of = {c: n for seen in self.seen.values() for n, c in seen.mapped.items()}
        given = {column_of.get(str(name), str(name)): value for name, value in at.items()}
        for name in (*given, *self.inputs):
            if name not in self.inputs:
                raise UsageError(f"at has '{name}', which no law takes; they take {names}")
            if name not in given:
                raise UsageError(f"at lacks {name}, an input of the laws; they take {names}")
        laws = {label: self._unfitted(label) for label in self.laws}
        arrays = {}
        for name, (label, spec) in self.inputs.items():
            value = given[name]
            try:
                arrays[name] = spec.codes(value) if spec.levels else real_numbers(
                    laws[label].in_unit_of_runs(name, value)
                )  # fmt: skip
            except (TypeError, ValueError) as error:
                raise UsageError(f"at: {name} takes numbers ({error})") from None
        try:
            every = np.broadcast_arrays(*arrays.values())
        except ValueError as error:
            raise UsageError(f"at: numbers, or arrays of them that broadcast ({error})") from None
        if not every[0].size:
            empty = ", ".join(name for name, value in arrays.items() if not value.size)
            raise UsageError(f"at has no point: {empty} is empty; give a number, or several")
        points = {
            name: self.inputs[name][1].labels_of(values.ravel())
            for name, values in zip(arrays, every, strict=True)
        }
        for label, law in self.laws.items():
            laws[label].checked_inputs(None, {name: points[name] for name in law.input_names})
        return points

    def _unfitted(self, label: str) -> FittedLaw:
        """A law without parameters yet, by which points are checked."""
        law, seen = self.laws[label], self.seen[label]
        params = dict.fromkeys(law.parameter_names, np.nan)
        return FittedLaw(law, params, units=dict(seen.scale), columns=dict(seen.mapped))


def ask(runs: Any, laws: Any, groups: Any, reading: Mapping[str, Any]) -> Question:
    """The question of an entry point: laws, and the rows that are valid for all of them.

    Raises:
        UsageError, DataError: as :func:`jaxlaw.forecast` raises.
    """
    given = {name: value for name, value in reading.items() if value is not None}
    named = None if laws is None else _by_label(laws)
    if not isinstance(runs, Runs) or given:
        runs = read_runs(runs, **given)
    named = named or _by_label(default_laws(runs))
    for label, law in named.items():
        if law.inputs_per_drop:
            raise UsageError(
                f"law {label} takes every drop of a learning rate, which points cannot carry: "
                "forecast by a law of areas: annealing"
            )
    seen = {label: runs.observations(law, free=()) for label, law in named.items()}
    rows = [pd.Index(one.rows[one.weight > 0]) for one in seen.values()]
    common = rows[0]
    for more in rows[1:]:
        common = common.intersection(more, sort=False)
    if not len(common):
        raise DataError(f"{runs.source}: no row is valid for all of these laws")
    if len(seen) > 1:
        seen = {
            label: one.at(pd.Index(one.rows).get_indexer(common)) for label, one in seen.items()
        }
    first = next(iter(seen.values()))
    if (first.target <= 0).any():
        raise DataError(
            f"{runs.source}: {first.columns[first.target_name]} must be positive in every row: "
            "errors are ratios"
        )
    members = None if groups is None else group_numbers(runs, first, groups)
    return Question(runs, named, seen, members)


def _by_label(laws: Any) -> dict[str, Law]:
    if not isinstance(laws, Mapping):
        listed = [laws] if isinstance(laws, str | Law) else list(laws)
        laws = {label_of(law): law for law in listed}
        if len(laws) != len(listed):
            raise UsageError("a law is listed twice; give a dict, {'one': law, 'other': law}")
    if not laws:
        raise UsageError("laws is empty: name one, or leave it out")
    return {str(label): all_laws.get(law) for label, law in laws.items()}


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Posteriors of one or several laws, for P problems, as draws of all of them together.

    A draw is of one of the laws, as often as its evidence says.

    Attributes:
        asked: runs and laws.
        found: label → posteriors of the P problems.
        prior: what is known beforehand.
    """

    asked: Question
    found: dict[str, Posteriors]
    prior: Prior | None

    def weights(self, k: int) -> dict[str, float]:
        """Label → posterior probability of the law, in problem k."""
        logs = np.array([one.log_evidence[k] for one in self.found.values()])
        likely = np.exp(logs - logs.max())
        return dict(zip(self.found, (likely / likely.sum()).tolist(), strict=True))

    def _chosen(self, k: int) -> np.ndarray:
        """(R,) number of the law that each draw of problem k is of."""
        count = next(iter(self.found.values())).sigma.shape[1]
        ends = np.cumsum([*self.weights(k).values()])
        evenly = np.searchsorted(ends, (np.arange(count) + 0.5) / count)
        return np.minimum(evenly, len(ends) - 1)

    def logs(self, points: Mapping[str, Any]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Problem by problem the logs of the target (R, m) at points, without and with misfit."""
        own, each = self.asked.in_own_units(points), []
        for label, one in self.found.items():
            law, (count, draws) = beyond(self.asked.laws[label]), one.sigma.shape
            names = growing_inputs(law)
            params = {
                name: one.params[name].ravel() for name in self.asked.laws[label].parameter_names
            }
            params |= {name: np.repeat(values, draws) for name, values in one.places.items()}
            none = {slope_of(name): np.zeros(count * draws) for name in names}
            drawn = {slope_of(n): one.slopes[..., j].ravel() for j, n in enumerate(names)}
            with np.errstate(invalid="ignore", divide="ignore"):
                each.append([
                    np.log(predict_each(law, params | slopes, own[label])).reshape(count, draws, -1)
                    for slopes in (none, drawn)
                ])  # fmt: skip
        for k in range(count):
            chosen = self._chosen(k)
            plain, moved = (
                np.choose(chosen[:, None], [logs[kind][k] for logs in each]) for kind in (0, 1)
            )
            yield plain, moved

    def sigma(self, k: int) -> np.ndarray:
        """(R,) relative noise of a run, in problem k."""
        return np.choose(self._chosen(k), [one.sigma[k] for one in self.found.values()])

    def of_prior(self, k: int, plain: np.ndarray) -> np.ndarray:
        """(m,) share of the variance of logs (R, m), without misfit, for which the prior stands.

        With c the covariance of a draw's coordinates z and its log at a point, and P that of the
        prior, cᵀP⁻¹c is the part that the prior's term of the posterior's precision has.
        """
        total, chosen = np.zeros(plain.shape[1]), self._chosen(k)
        for j, (label, one) in enumerate(self.found.items()):
            law, of = self.asked.laws[label], chosen == j
            known = self.prior is not None and self.prior.knows(law) and law.scale_free.of is None
            if not known or of.sum() < 2:
                continue
            params = {name: values[k][of] for name, values in one.params.items()}
            with in_float64():
                found = law.scale_free.of_params(params)
            z = np.stack([found[name] for name in self.prior.coordinates_of(law)], axis=1)
            logs = plain[of]
            c = (z - z.mean(axis=0)).T @ (logs - logs.mean(axis=0)) / of.sum()
            part = (c * np.linalg.solve(self.prior.covariance_of(law), c)).sum(axis=0)
            total += of.mean() * np.minimum(part / np.maximum(logs.var(axis=0), 1e-300), 1.0)
        return total

    def draws(self, k: int) -> Draws:
        """The draws of problem k as a law with draws, as plans take it."""
        each = {
            label: draws_of(self.asked.laws[label], self.asked.seen[label], one, k)
            for label, one in self.found.items()
        }
        if len(each) == 1:
            return next(iter(each.values()))
        law, chosen = weighted({label: draws.law for label, draws in each.items()}), self._chosen(k)
        params: dict[str, np.ndarray] = {}
        centre = {}
        merged: dict[str, dict[str, Any]] = {
            "units": {},
            "ranges": {},
            "joint_ranges": {},
            "columns": {},
        }
        for j, (label, draws) in enumerate(each.items()):
            params[weight_of(label)] = (chosen == j).astype(float)
            centre[weight_of(label)] = self.weights(k)[label]
            for name, values in draws.params.items():
                centre[parameter_of(name, label)] = draws.fit.params[name]
                params[parameter_of(name, label)] = np.where(
                    chosen == j, values, draws.fit.params[name]
                )
            for name, known in merged.items():
                known |= {**(getattr(draws.fit, name) or {}), **known}
        first = next(iter(each.values()))
        fit = dataclasses.replace(first.fit, law=law, params=centre, **merged)
        sigma = self.sigma(k)
        notes = dict.fromkeys(note for draws in each.values() for note in draws.notes)
        return dataclasses.replace(
            first, fit=fit, params=params, sigma=sigma, noise=float(np.median(sigma)),
            effective=min(draws.effective for draws in each.values()),
            conflict=min(draws.conflict for draws in each.values()), notes=tuple(notes),
        )  # fmt: skip


def ensemble(asked: Question, weights: np.ndarray, prior: Any, seed: int) -> Ensemble:
    """Posteriors of P problems: of each law those of all problems in one program.

    Args:
        asked: runs and laws.
        weights: (P, n) of the rows: 0 leaves one out.
        prior: as :func:`jaxlaw.posterior` takes it.
        seed: seed of the draws.
    """
    prior = prior_of(prior)
    weights = weights * shared_weights(asked.first, asked.members)
    if len(weights) > 1:  # one program serves so many cut-offs and fewer
        weights = padded(weights, -(-len(weights) // _TOGETHER) * _TOGETHER)
    found = {
        label: posteriors(law, asked.seen[label], weights, prior=prior, seed=seed)
        for label, law in asked.laws.items()
    }
    return Ensemble(asked, found, prior)


def quantiles_of(logs: np.ndarray, sigma: np.ndarray, seed: int) -> np.ndarray:
    """(265, m) quantiles of a new run, from draws (R, m) of its log and (R,) of its noise."""
    count = len(sigma) * _REPEATS
    # Evenly spread over Student's t: few draws of noise would move the quantiles.
    noise = stats.t.ppf((np.arange(count) + 0.5) / count, NU)
    noise = np.random.default_rng([seed, 2]).permutation(noise) * np.tile(sigma, _REPEATS)
    drawn = np.sort(np.tile(logs, (_REPEATS, 1)) + noise[:, None], axis=0)
    place = LEVELS * (count - 1)
    below, part = np.floor(place).astype(int), (place % 1)[:, None]
    return np.exp(drawn[below] * (1 - part) + drawn[below + 1] * part)


def interval_at(quantiles: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """(m,) low and high of the target, from its quantiles (265, m) at :data:`LEVELS`."""
    at, normal = stats.norm.ppf([(1 - level) / 2, (1 + level) / 2]), stats.norm.ppf(LEVELS)
    ends = [np.exp(np.interp(at, normal, np.log(point))) for point in quantiles.T]
    return tuple(np.array(ends).reshape(-1, 2).T)


def probability_below(quantiles: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """(m,) probability of a lower target, from quantiles (265, m); uniform if they hold."""
    normal = stats.norm.ppf(LEVELS)
    each = zip(quantiles.T, observed, strict=True)
    return stats.norm.cdf([np.interp(np.log(y), np.log(point), normal) for point, y in each])
