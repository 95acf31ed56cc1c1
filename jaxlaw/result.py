"""What a fit gives back: numbers with the evidence for them, predictions, files."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw.curves.counting import area_options
from jaxlaw.curves.predicting import predict_curve
from jaxlaw.laws.base import Law
from jaxlaw.notes import DataError, Note, UsageError, nearest, nearest_file

_log = logging.getLogger(__name__)

SCHEMA = 4
#: Fields that older files lack, by the schema that brought them; they are None there.
_SINCE = {"areas": 2, "tied": 3, "bounds": 3, "ends": 4}


@dataclass(frozen=True)
class RunnerUp:
    """The next best optimum.

    Attributes:
        objective: its summed Huber loss.
        share: of starts that ended there.
        params: where it is.
    """

    objective: float
    share: float
    params: dict[str, float]


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted law.

    Attributes:
        law: the law.
        params: name → value, natural, in the law's own units.
        objective: summed Huber loss of residuals at the optimum.
        metrics: ``r2``, ``rmse``, ``huber_linear`` in the target, ``r2_log``, ``rmse_log``,
            ``huber`` in its logarithm; Huber means are per observation.
        status: how the best lane ended: ``converged``, or with something left to gain
            ``stalled`` or ``step limit``; ``published`` where coefficients are a paper's.
        agreement: share of the solved starts that ended at the best objective (to 1e-6).
        n_starts: starts tried; n_solved: of them, solved to the end.
        runner_up: the next best optimum, or None.
        notes: what to know before relying on the numbers.
        units: input → what one unit of the fitted runs is worth in the law's own unit.
        ranges: input → (lowest, highest) fitted, in the runs' units.
        n_observations: rows fitted; n_dropped: rows dropped on request.
        delta, space, asymmetry: the objective's settings.
        fixed: parameters that were held.
        tied, bounds: as they were given; None in files that older versions wrote.
        solver: what solved the starts.
        source: where the runs came from.
        areas: how areas of learning rates were counted (``decay``, ``carry_momentum``,
            ``count_warmup``, ``epsilon``), where :func:`jaxlaw.read_curves` counted them.
        ends: (objective, share of the solved starts) of the distinct optima where starts ended,
            the best first, eight at most; None where a file does not say.
    """

    law: Law
    params: dict[str, float]
    objective: float
    metrics: dict[str, float]
    status: str
    agreement: float
    n_starts: int
    n_solved: int
    runner_up: RunnerUp | None
    notes: tuple[Note, ...]
    units: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    n_observations: int
    n_dropped: int
    delta: float
    space: str
    asymmetry: float
    fixed: dict[str, float] = field(default_factory=dict)
    solver: str = "newton"
    source: str = ""
    areas: dict[str, Any] | None = None
    tied: dict[str, str] | None = None
    bounds: dict[str, tuple[float | None, float | None]] | None = None
    ends: tuple[tuple[float, float], ...] | None = None

    @property
    def r2(self) -> float:
        """R² in the target."""
        return self.metrics["r2"]

    @property
    def huber(self) -> float:
        """Mean Huber loss of log residuals."""
        return self.metrics["huber"]

    @property
    def rmse(self) -> float:
        """Root mean square error in the target."""
        return self.metrics["rmse"]

    def predict(self, table: Any = None, /, **inputs: Any) -> np.ndarray:
        """The target at new points.

        Args:
            table: DataFrame or dict with a column per input, or nothing.
            **inputs: arrays by name that broadcast with each other; units of the fitted runs.
                Those per drop of the learning rate may have one axis more, (…, K).

        Returns:
            float64 array of the broadcast shape (a scalar array for scalars).

        Raises:
            UsageError: an input is missing or unknown.
            DataError: an input is not a number, or outside its domain.
        """
        values = self.checked_inputs(table, inputs)
        with jax.enable_x64(True):
            arrays = {name: jnp.asarray(value * self.units[name]) for name, value in values.items()}
            return np.asarray(self.law(self.params, **arrays))

    def outside(self, table: Any = None, /, **inputs: Any) -> np.ndarray:
        """Whether points lie outside the fitted range of some input: an extrapolation.

        Args and shape as :meth:`predict`; boolean. An unknown range (NaN, of published
        coefficients) has no inside.
        """
        values = self.checked_inputs(table, inputs)
        flags = {
            name: ~((value >= self.ranges[name][0]) & (value <= self.ranges[name][1]))
            for name, value in values.items()
        }
        drops = {spec.name for spec in self.law.inputs if spec.per_drop}
        points = max((flag.ndim for name, flag in flags.items() if name not in drops), default=0)
        flags = [one.any(axis=-1) if one.ndim > points else one for one in flags.values()]
        return np.logical_or.reduce(np.broadcast_arrays(*flags))

    def predict_curve(
        self,
        schedule: Any,
        at: Any = None,
        *,
        first_step: int = 0,
        S1_before: float = 0.0,
        areas: Mapping[str, Any] | None = None,
        batch: Any = None,
        **inputs: Any,
    ) -> pd.DataFrame:
        """The target over the steps of a schedule, and what it is made of.

        Args:
            schedule: Schedule, a line for :func:`jaxlaw.schedules.parse`, or (steps,) rates.
            at: (points,) steps; all of the schedule's if None.
            first_step: the step after which the schedule begins, as ``at`` counts.
            S1_before: sum of the rates of the steps up to there.
            areas: how they are counted, as in :meth:`jaxlaw.Curves.runs`, for a fit that does
                not know (``fit.areas`` is None).
            batch: what an update counts as, in steps of the reference batch: a number, of the
                continual phase, or one for either phase; see :func:`jaxlaw.read_curves`.
            **inputs: the law's other inputs, numbers or (points,), in units of the fitted runs.

        Returns:
            One row a step: ``step``; ``lr``; ``phase`` (pt, cpt), where there are two; the
            target; its parts ``base`` (no annealing, no shift), ``annealing`` and ``shift``,
            which add up to it; ``outside``, whether areas or inputs lie outside the fitted
            ranges: an extrapolation.

        Raises:
            UsageError: the law takes no areas, an input is missing, or a step is not the
                schedule's.
            DataError: an input is not a number, or outside its domain.
        """
        return predict_curve(self, schedule, at, first_step, S1_before, areas, batch, inputs)

    def summary(self) -> str:
        """The fit as a table for people."""
        printed = self.status == "published"
        data = f"{self.n_observations} observations"
        data += f" ({self.n_dropped} dropped)" if self.n_dropped else ""
        data += f" from {self.source}" if self.source else ""
        head = [
            f"{self.law.name}: {self.law.target} = {self.law.formula}",
            f"as printed: {self.source}" if printed else data,
            "",
        ]
        rows = []
        for spec in self.law.parameters:
            held = "  (fixed)" if spec.name in self.fixed else ""
            unit = "" if spec.unit == "1" else f"  {spec.unit}"
            rows.append(f"  {spec.name:<8} {self.params[spec.name]:>13.6g}{unit}{held}")
        evidence = [""] if printed else self._evidence()
        if self.areas is not None:
            evidence.append(f"  areas counted with λ {self.areas['decay']:.6g}")
        return "\n".join([*head, *rows, *evidence, *(f"  {note}" for note in self.notes)])

    def _evidence(self) -> list[str]:
        """Lines of the summary on how good the fit is."""
        get = self.metrics
        evidence = [
            "",
            f"  objective {self.objective:.8g} (sum of Huber, δ {self.delta:g}, {self.space})",
            f"  R² {get['r2']:.5f}, RMSE {get['rmse']:.4g}, in log: R² {get['r2_log']:.5f}, "
            f"RMSE {get['rmse_log']:.4g}",
            f"  {self.status}; {self.agreement:.0%} of {self.n_solved} solved starts agree "
            f"({self.n_starts} tried)",
        ]
        if self.runner_up is not None:
            evidence.append(
                f"  runner-up objective {self.runner_up.objective:.8g} "
                f"({self.runner_up.share:.0%} of starts)"
            )
        return evidence

    def save(self, path: str | Path) -> None:
        """Write the fit as JSON; :func:`load` gives bit-equal predictions."""
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"
        Path(path).write_text(text, "utf-8")

    def to_dict(self) -> dict[str, Any]:
        """The fit as plain numbers and strings; infinities and NaN as strings."""
        record = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        record["law"] = self.law.name
        record["constraint"] = self.law.constraint.name if self.law.constraint else None
        record["runner_up"] = dataclasses.asdict(self.runner_up) if self.runner_up else None
        record["notes"] = [dataclasses.asdict(note) for note in self.notes]
        return {"schema": SCHEMA, **_plain(record)}

    def checked_inputs(self, table: Any, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """What :meth:`predict` was given, by input, in the runs' units; raises as it does."""
        given = dict(inputs)
        if table is not None:
            if not hasattr(table, "keys"):
                raise UsageError("predict takes a DataFrame, a dict, or inputs by name")
            given |= {name: table[name] for name in table.keys() if name in self.law.input_names}
        for name in given:
            if name not in self.law.input_names:
                raise UsageError(
                    f"law {self.law.name} has no input '{name}'; it takes "
                    f"{', '.join(self.law.input_names)}.{nearest(name, self.law.input_names)}"
                )
        missing = [name for name in self.law.input_names if name not in given]
        if missing:
            raise UsageError(f"input {', '.join(missing)} is missing for law {self.law.name}")
        return {spec.name: _checked(spec, given[spec.name]) for spec in self.law.inputs}


_DOMAINS = {
    "positive": "finite and positive",
    "nonnegative": "finite and not negative",
    "fraction": "in [0, 1]",
    "real": "finite",
}


def _checked(spec: Any, values: Any) -> np.ndarray:
    try:
        values = np.asarray(values, float)
    except (TypeError, ValueError) as error:
        raise DataError(f"input {spec.name} is not numeric: {error}") from None
    bad = ~np.isfinite(values)
    if spec.domain == "positive":
        bad |= values <= 0
    elif spec.domain == "nonnegative":
        bad |= values < 0
    elif spec.domain == "fraction":
        bad |= (values < 0) | (values > 1)
    if bad.any():
        raise DataError(
            f"input {spec.name} must be {_DOMAINS[spec.domain]}: {int(bad.sum())} of "
            f"{bad.size} values are not, the first {values[bad].flat[0]}"
        )
    return values


def load(path: str | Path) -> Fit:
    """Read a fit that :meth:`Fit.save` wrote; ``-`` is standard input.

    Raises:
        UsageError: no such file, or the law is not registered in this process.
        DataError: not a fit, of a newer schema, or a field missing or malformed (named).
    """
    piped = str(path) == "-"
    source, text = "standard input" if piped else str(path), None
    _log.info("reading a fit from %s", source)
    try:
        text = sys.stdin.read() if piped else Path(path).read_text("utf-8")
        record = json.loads(text)
    except OSError as error:
        hint = nearest_file(path) if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"cannot read {path}: {error.strerror}.{hint}") from None
    except ValueError as error:
        empty = "it is empty; it holds one fit, for which '-' stands once"
        what = empty if piped and text == "" else error
        raise DataError(f"{source} is not a jaxlaw fit: {what}") from None
    return from_dict(record, source)


def from_dict(record: Any, source: str = "record") -> Fit:
    """The fit of :meth:`Fit.to_dict`; raises as :func:`load`."""
    if not isinstance(record, dict) or "schema" not in record:
        raise DataError(f"{source} is not a jaxlaw fit: field 'schema' is missing")
    if not isinstance(record["schema"], int) or record["schema"] > SCHEMA:
        raise DataError(
            f"{source} has schema {record['schema']}; this jaxlaw reads up to {SCHEMA}: "
            "install a newer jaxlaw"
        )
    names = [f.name for f in dataclasses.fields(Fit)] + ["constraint"]
    for name in names:
        if _SINCE.get(name, 1) > record["schema"]:
            record = {**record, name: None}
        if name not in record:
            raise DataError(f"{source} is not a whole jaxlaw fit: field '{name}' is missing")
    try:
        law = laws.get(record["law"], record["constraint"])
    except UsageError as error:
        raise UsageError(f"{source}: {error} Import the module that defines it first.") from None
    try:
        return _rebuild(law, {name: record[name] for name in names if name != "constraint"})
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise DataError(f"{source} is not a whole jaxlaw fit: {error}") from None


def _rebuild(law: Law, values: dict[str, Any]) -> Fit:
    def numbers(field_: str) -> dict[str, float]:
        return {name: _number(value, f"{field_}.{name}") for name, value in values[field_].items()}

    for field_, needed in (
        ("params", law.parameter_names),
        ("units", law.input_names),
        ("ranges", law.input_names),
    ):
        for name in needed:
            if name not in values[field_]:
                raise KeyError(f"field '{field_}.{name}' is missing")
    runner_up = values["runner_up"]
    return Fit(
        **values
        | {
            "law": law,
            **{name: numbers(name) for name in ("params", "metrics", "units", "fixed")},
            **{
                name: _number(values[name], name)
                for name in ("objective", "agreement", "delta", "asymmetry")
            },
            "ranges": {
                name: (_number(low, name), _number(high, name))
                for name, (low, high) in values["ranges"].items()
            },
            "notes": tuple(Note(**note) for note in values["notes"]),
            "runner_up": RunnerUp(**runner_up) if runner_up else None,
            "areas": None if values["areas"] is None else area_options(**values["areas"]),
            "bounds": None
            if values["bounds"] is None
            else {name: _range(ends, name) for name, ends in values["bounds"].items()},
            "ends": None
            if values["ends"] is None
            else tuple((_number(v, "ends"), _number(s, "ends")) for v, s in values["ends"]),
        }
    )


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(f"field '{name}' is not a number: {value!r}")
    return float(value)


def _range(ends: Any, name: str) -> tuple[float | None, ...]:
    low, high = ends
    return tuple(None if end is None else _number(end, f"bounds.{name}") for end in (low, high))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else str(float(value))
    return value
