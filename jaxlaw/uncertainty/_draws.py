"""Draws: a fitted law with the values that its parameters took on resampled runs.

Every uncertain law is one: a bootstrap, the weighted laws of a forecast, draws of a file, and a
fit without any. Plans take nothing else, by :func:`as_draws`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from jaxlaw import _json as records
from jaxlaw import laws
from jaxlaw._repr import short_repr
from jaxlaw._typed import load
from jaxlaw.data._dependence import CODE
from jaxlaw.errors import UsageError
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._saved_fits import from_dict
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note

# Codes of a fit's warnings that a plan made with it repeats.
_INHERITED = {
    "at-bound", "badly-converged", "base-extrapolated", "decay-held", "doubtful-values",
    "farther-than-tested", "few-groups", "few-resamples", "few-rows", "few-spare-rows",
    "few-starts-agree", "intervals-failed", "lack-of-fit", "limiting-form", "misprint",
    "mixed-runs", "no-floor", "not-converged", "not-printed", "poor-fit", "prior-width",
    "resamples-at-bound", "resamples-disagree", "resamples-failed", "ridge", "solvers-disagree",
    "trend-observed", "unidentifiable", "weak-fit",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Draws:
    """A fit and its parameters on resampled runs: all that a plan needs of a bootstrap.

    Attributes:
        fit: fit of the runs as they are.
        params: parameter → (R,) natural values in the law's own units; empty for a law without
            draws. Row k of two bootstraps of the same runs belongs together.
        notes: notes of the bootstrap.
        kind: what was resampled, such as ``case`` or ``wild``; empty where nobody knows.
        groups: columns by which rows were resampled in groups, as a :class:`jaxlaw.Bootstrap` has
            them; None where rows were resampled one by one.
        degrees: degrees of freedom of the draws' spread (:attr:`jaxlaw.Bootstrap.degrees`).
        noise: relative standard deviation of single runs; NaN where nobody knows.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> boot = jl.bootstrap("chinchilla", table, n_resamples=20, n_starts=16)
        >>> boot.draws().save("draws.json")
        >>> draws = jl.planning.Draws.load("draws.json")
        >>> sorted(jl.planning.allocation(draws, 1e21).interval)
        ['D', 'N', 'loss']
    """

    fit: FittedLaw
    params: Mapping[str, np.ndarray]
    notes: tuple[Note, ...] = ()
    kind: str = ""
    groups: tuple[str, ...] | None = None
    degrees: float = math.inf
    noise: float = math.nan

    __repr__ = short_repr

    def draws(self) -> Draws:
        """The draws themselves, as a bootstrap and a forecast give theirs."""
        return self

    @property
    def law(self) -> Law:
        """The law."""
        return self.fit.law

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """Parameter → (1 + R,) natural values: of the fit itself, then of its R draws.

        Raises:
            UsageError: a parameter of the law has no draws, or the fit is a stack of several.
        """
        law, own = self.law, self.fit.numbers()
        if not self.params:
            return {name: np.array([own[name]]) for name in law.parameter_names}
        missing = [name for name in law.parameter_names if name not in self.params]
        if missing:
            raise UsageError(f"the draws lack the parameter {', '.join(missing)} of {law.name}")
        return {
            name: np.concatenate([[own[name]], np.asarray(self.params[name], float)])
            for name in law.parameter_names
        }

    @property
    def rows(self) -> int:
        """1 + R."""
        return len(next(iter(self.values.values())))

    @property
    def units(self) -> dict[str, float]:
        """Input → one of the user's units in the law's own."""
        return self.fit.units

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Input → (lowest, highest) fitted, in the user's units; NaN where a paper prints none.

        Parameters that come from nowhere have none: nobody fitted them.
        """
        known = self.fit.source or any(low == low for low, _ in self.fit.ranges.values())
        return self.fit.ranges if known else {}

    @property
    def joint(self) -> Mapping[str, tuple[float, float]]:
        """Product or ratio of two inputs → (lowest, highest) fitted; empty if unknown."""
        return self.fit.joint_ranges or {}

    @property
    def warnings(self) -> tuple[Note, ...]:
        """The notes, of the fit and of its draws, that a plan repeats."""
        # Dependent rows make intervals too short where single rows were drawn.
        codes = _INHERITED | ({CODE} if self.params and self.groups is None else set())
        notes = dict.fromkeys((*self.fit.notes, *self.notes))
        return tuple(note for note in notes if note.code in codes)

    def without(self) -> Draws:
        """The fit alone, without draws."""
        return dataclasses.replace(self, params={})

    def inputs_taken(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the inputs, given for several laws, that this law takes."""
        return {name: v for name, v in inputs.items() if name in self.law.input_names}

    def scale(self, name: str) -> float:
        """Raw counts (parameters, tokens, FLOPs) in one of the user's units of an input."""
        (spec,) = (spec for spec in self.law.inputs if spec.name == name)
        return self.units[name] * spec.unit

    def save(self, path: str | Path) -> None:
        """Write fit, draws and notes as one JSON file, from which plans start again."""
        records.write_record(path, self.to_dict(), None)

    def to_dict(self) -> dict[str, Any]:
        """Fit, draws and notes as plain numbers and strings; infinities and NaN as strings."""
        record = {
            "fit": self.fit.to_dict(),
            "draws": dict(self.params),
            "notes": [dataclasses.asdict(note) for note in self.notes],
            "kind": self.kind,
            "groups": None if self.groups is None else list(self.groups),
            "degrees": self.degrees,
            "noise": self.noise,
        }
        return records.plain(record)

    @classmethod
    def load(cls, path: str | Path) -> Draws:
        """Read what :meth:`save` wrote.

        Raises:
            UsageError: no such file.
            DataError: it holds something else, or was changed since.
        """
        return cls.from_dict(records.read_record(path, "bootstrap"), records.source_name(path))

    @classmethod
    def from_dict(cls, record: Any, source: str = "record") -> Draws:
        """The fit and draws of :meth:`to_dict`; raises as :meth:`load`."""
        with records.whole(source, "bootstrap"):
            draws = {name: np.array(column, float) for name, column in record["draws"].items()}
            notes = load(record["notes"], tuple[Note, ...], "notes")
            kind = load(record["kind"], str, "kind")
            groups = load(record["groups"], tuple[str, ...] | None, "groups")
            degrees = load(record["degrees"], float, "degrees")
            noise = load(record["noise"], float, "noise")
            fit = record["fit"]
        return cls(from_dict(fit, source), draws, notes, kind, groups, degrees, noise)


def has_draws(given: Any) -> bool:
    """Whether a value gives draws by a method ``draws()``: a bootstrap, a forecast, draws."""
    return callable(getattr(type(given), "draws", None))


def as_draws(*given: Any) -> tuple[Draws, ...]:
    """The uncertain laws that a plan was given, with as many draws each.

    Args:
        *given: each a fit, (law, params), draws, or what gives draws: a bootstrap, a forecast.
            With (law, params) inputs and answers are in the law's own units, with the others in
            those of the fitted runs. The parameters of one without draws are repeated beside the
            draws of another.

    Raises:
        UsageError: something else, parameters that are not the law's, or two bootstraps of
            different length.

    Example:
        >>> from jaxlaw.uncertainty import as_draws
        >>> (law,) = as_draws(jl.published()["besiroglu-2024"])
        >>> law.rows, float(law.values["alpha"][0])
        (1, 0.34781)
    """
    every = [_draws_of(one) for one in given]
    counts = {draws.rows for draws in every} - {1}
    if len(counts) > 1:
        words = " and ".join(str(count - 1) for count in sorted(counts))
        raise UsageError(f"the bootstraps have {words} draws; give them the same number")
    size = counts.pop() - 1 if counts else 0
    return tuple(_repeated(draws, size) if draws.rows == 1 and size else draws for draws in every)


def _draws_of(given: Any) -> Draws:
    if isinstance(given, FittedLaw):
        return Draws(given, {})
    if has_draws(given):
        return given.draws()
    try:
        law, params = given
    except (TypeError, ValueError):
        raise UsageError(
            f"give a Fit, (law, params), a bootstrap or a forecast, not {type(given).__name__}"
        ) from None
    law = laws.get(law)
    if not isinstance(params, Mapping):
        raise UsageError(f"law {law.name} has the parameters {', '.join(law.parameter_names)}")
    return Draws(FittedLaw(law, dict(params)), {})


def _repeated(draws: Draws, count: int) -> Draws:
    """A law without draws beside others: each of its draws is the fit itself."""
    params = {name: np.repeat(values, count) for name, values in draws.values.items()}
    # Nothing was resampled, so that no rows were resampled one by one.
    return dataclasses.replace(draws, params=params, groups=())
