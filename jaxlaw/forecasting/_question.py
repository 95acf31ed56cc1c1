"""Runs, laws and points of a forecast; draws of the law of most evidence; its quantiles."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from jaxlaw import laws as all_laws
from jaxlaw._jit import padded
from jaxlaw._tables import is_table, read_table
from jaxlaw.data import (
    Observations,
    Runs,
    known_columns,
    missing_column,
    read_runs,
    training_flops,
)
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import FittedLaw, Prior, predict_each
from jaxlaw.forecasting.posterior import NU, posteriors, shared_weights, unfitted
from jaxlaw.laws import Law, growing_inputs, slope_of
from jaxlaw.uncertainty import Draws, group_numbers
from jaxlaw.validation import named_laws

#: Levels of the quantiles that a forecast keeps, close together in the tails.
LEVELS = special.ndtr(np.linspace(-3.3, 3.3, 265))
#: Tail probabilities of the posterior under the prior: where the two are said to disagree, and
#: where the answer is without the prior.
CONFLICT, OVERRULED = 0.05, 0.01
_TOGETHER = 6  # problems of several, or a multiple of it
_REPEATS = 4  # draws of the noise for each of the posterior

#: Laws that are taken where none is named: the first row whose inputs are all columns of the runs.
DEFAULT_LAWS: dict[tuple[str, ...], str] = {
    ("N", "D", "r"): "dcpt",
    ("N", "D", "U"): "repetition",
    ("N", "D", "experts"): "routed-skaling",
    ("N", "experts"): "routed-loss-size",
    ("N", "D"): "skaling",
    ("C",): "loss-compute-e",
    ("Df",): "rectified",
    ("S1", "S2"): "annealing",
}


def default_law(runs: Runs) -> str:
    """The law of :data:`DEFAULT_LAWS` that these runs have the columns of; else that of N, D."""
    present = {str(name) for name in runs.table} | {*known_columns(runs.table)}
    if runs.corpus:
        present |= {name[:-2] for name in present if name.endswith(("_d", "_g"))}
    return next((law for names, law in DEFAULT_LAWS.items() if {*names} <= present), "skaling")


@dataclass(frozen=True, eq=False)
class Question:
    """Runs and laws, all of the same inputs, that a forecast or a back-test is asked of.

    Attributes:
        runs: the table.
        law: the first law.
        seen: the n rows as it takes them.
        laws: label → a law, and the rows as it takes them.
        members: (n,) number of the run that a row is a checkpoint of; None where each is a run.
    """

    runs: Runs
    law: Law
    seen: Observations
    laws: dict[str, tuple[Law, Observations]]
    members: np.ndarray | None

    @cached_property
    def fit(self) -> FittedLaw:
        """The first law without parameters yet: the inputs of all, and their units."""
        return unfitted(self.law, self.seen)

    def table(self) -> pd.DataFrame:
        """The n rows: inputs in the units of the runs, labels as they are, and the target."""
        columns = {
            spec.name: spec.labels_of(self.seen.inputs[spec.name] / self.fit.units[spec.name])
            for spec in self.law.inputs
        }
        return pd.DataFrame(columns | {self.seen.target_name: self.seen.target})

    def fitted(self) -> pd.DataFrame:
        """The rows of :meth:`table` that count."""
        return self.table()[self.seen.weight > 0].reset_index(drop=True)

    def size(self, points: Mapping[str, Any]) -> np.ndarray:
        """(m,) log of how large runs are: of their FLOPs, or of what else they grow by."""
        own, names = in_own_units(self.fit, points), growing_inputs(self.law)
        raw = {spec.name: own[spec.name] * spec.unit for spec in self.law.inputs}
        if len(names) > 1:
            return np.log(training_flops({name: raw[name] for name in names}, self.seen.flops))
        return np.log(raw[names[0]]) if names else np.zeros(len(next(iter(raw.values()))))

    def points(self, at: Any) -> dict[str, np.ndarray]:
        """Input → (m,) of the points of ``at=``, in the units of the runs; labels as they are.

        Raises:
            UsageError: no points, an input is missing, or one that no law takes.
            DataError: a value outside its domain.
        """
        if not is_table(at):
            names = ", ".join(self.law.input_names)
            raise UsageError(f"at is a dict or a table of {names}: at={{'N': 7e10, 'D': 1.4e12}}")
        given = at if isinstance(at, Mapping) else read_table(at).frame
        name_of = {column: name for name, column in self.fit.columns.items()}
        given = {name_of.get(str(name), str(name)): value for name, value in given.items()}
        values = self.fit.checked_inputs(None, given)
        every = np.broadcast_arrays(*values.values())
        if not every[0].size:
            raise UsageError("at has no point: give a number, or several")
        return {
            spec.name: spec.labels_of(each.ravel())
            for spec, each in zip(self.law.inputs, every, strict=True)
        }


def ask(runs: Any, laws: Any, groups: Any, reading: Mapping[str, Any]) -> Question:
    """The question of an entry point.

    Raises:
        UsageError, DataError: as :func:`jaxlaw.forecast` raises.
    """
    runs = read_runs(runs, **reading)
    given = named_laws(default_law(runs) if laws is None else laws)
    named = {label: all_laws.get(law) for label, law in given.items()}
    for label, law in named.items():
        if law.inputs_per_drop:
            raise UsageError(
                f"law {label} takes every drop of a learning rate, which points cannot carry: "
                "forecast by a law of areas: annealing"
            )
    inputs = {label: ", ".join(sorted(law.input_names)) for label, law in named.items()}
    if len({*inputs.values()}) > 1:
        each = "; ".join(f"{label} takes {names}" for label, names in inputs.items())
        raise UsageError(f"laws of one forecast have the same inputs: {each}")
    found = {label: (law, runs.observations(law, free=())) for label, law in named.items()}
    law, seen = next(iter(found.values()))
    if (seen.target <= 0).any():
        raise DataError(
            f"{runs.source}: {seen.columns[seen.target_name]} must be positive in every row: "
            "errors are ratios"
        )
    members = None if groups is None else group_numbers(runs, seen, groups)
    return Question(runs, law, seen, found, members)


def named_column(runs: Runs, name: str, argument: str) -> Any:
    """The column of the table that an argument names, by its canonical name or the user's own."""
    own = {str(runs.user_name(column)): column for column in runs.table}
    names = own | {str(column): column for column in runs.table}
    if name not in names:
        is_input = name == "C"  # whose column the call may name
        where = "" if is_input else f" ({argument}=)"
        raise missing_column(name, where, name, own, runs.source, is_input)
    return names[name]


def draws_each(
    asked: Question, weights: np.ndarray, prior: Prior | None, seed: int
) -> list[tuple[Draws, dict[str, float], Draws | None]]:
    """Draws of P problems, of all in one program for each law.

    Args:
        asked: runs and laws.
        weights: (P, n) of the rows: 0 leaves one out.
        prior: a :class:`Prior`, or None.
        seed: seed of the draws.

    Returns:
        Of each the draws of the law of most evidence; label of a law → its posterior probability;
        and, where runs and prior disagree, draws of the other answer: the draws are those under
        the prior, or, where the runs overrule it, those without.
    """
    weights = weights * shared_weights(asked.seen, asked.members)

    def under(prior, weights):
        """Of each problem the draws of the law of most evidence, and the weights of all."""
        count = len(weights)
        if count > 1:  # one program serves so many cutoffs and fewer
            weights = padded(weights, -(-count // _TOGETHER) * _TOGETHER)
        each = [posteriors(law, seen, weights, prior=prior, seed=seed)[:count]
                for law, seen in asked.laws.values()]  # fmt: skip
        best = []
        for of_laws in zip(*each, strict=True):
            logs = np.array([draws.log_evidence for draws in of_laws])
            shares = np.exp(logs - np.logaddexp.reduce(logs)).tolist()
            best.append((of_laws[np.argmax(logs)], dict(zip(asked.laws, shares, strict=True))))
        return best

    found = [(*one, None) for one in under(prior, weights)]
    odd = [k for k, (draws, *_) in enumerate(found) if draws.conflict < CONFLICT]
    for k, (without, shares) in zip(odd, under(None, weights[odd]) if odd else [], strict=True):
        draws, *_ = found[k]
        without = dataclasses.replace(without, conflict=draws.conflict)
        overruled = draws.conflict < OVERRULED
        found[k] = (without, shares, draws) if overruled else (*found[k][:2], without)
    return found


def in_own_units(fit: FittedLaw, points: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Input → (m,) of points in the units of the runs, as the law of a fit takes them."""
    return {
        spec.name: np.asarray(spec.codes(points[spec.name]) if spec.levels else points[spec.name])
        * fit.units[spec.name]
        for spec in fit.law.inputs
    }


def logs_of(draws: Draws, points: Mapping[str, Any], *, misfit: bool = True) -> np.ndarray:
    """(R, m) logs of the target at points in the units of the runs, with and without misfit."""
    slope = slope_of("")
    params = {
        name: values if misfit or not name.startswith(slope) else np.zeros(len(values))
        for name, values in draws.params.items()
    }
    return np.log(predict_each(draws.law, params, in_own_units(draws.fit, points)))


def quantiles_of(logs: np.ndarray, sigma: np.ndarray, seed: int) -> np.ndarray:
    """(265, m) quantiles of a new run, from draws (R, m) of its log and (R,) of its noise."""
    count = len(sigma) * _REPEATS
    # Evenly spread over Student's t: few draws of noise would move the quantiles.
    noise = special.stdtrit(NU, (np.arange(count) + 0.5) / count)
    noise = np.random.default_rng([seed, 2]).permutation(noise) * np.tile(sigma, _REPEATS)
    drawn = np.sort(np.tile(logs, (_REPEATS, 1)) + noise[:, None], axis=0)
    place = LEVELS * (count - 1)
    below, part = np.floor(place).astype(int), (place % 1)[:, None]
    return np.exp(drawn[below] * (1 - part) + drawn[below + 1] * part)


def interval_at(quantiles: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """(m,) low and high of the target, from its quantiles (265, m) at :data:`LEVELS`."""
    at, normal = special.ndtri([(1 - level) / 2, (1 + level) / 2]), special.ndtri(LEVELS)
    ends = [np.exp(np.interp(at, normal, np.log(point))) for point in quantiles.T]
    return tuple(np.array(ends).reshape(-1, 2).T)


def probability_below(quantiles: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """(m,) probability of a lower target, from quantiles (265, m); uniform if they hold."""
    normal = special.ndtri(LEVELS)
    each = zip(quantiles.T, observed, strict=True)
    return special.ndtr([np.interp(np.log(y), np.log(point), normal) for point, y in each])
