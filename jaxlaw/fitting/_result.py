"""What a fit gives back: numbers with the evidence for them, predictions, files."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw._jit import in_float64
from jaxlaw._json import plain, write_record
from jaxlaw._tables import is_table, read_table
from jaxlaw.data._columns import input_columns
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting._extrapolation import beyond
from jaxlaw.fitting._predict_curve import predict_curve
from jaxlaw.fitting._scores import Scores, score_fit
from jaxlaw.laws._base import Law
from jaxlaw.laws._requirements import check_requirements
from jaxlaw.notes import Note

SCHEMA = 5
METRICS = (
    "r2", "rmse", "huber_linear", "mean_huber_linear",
    "r2_log", "rmse_log", "huber", "mean_huber",
)  # fmt: skip


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
    """A fitted law. To JAX a tree of its ``params``; mapped, it has them and no evidence.

    Attributes:
        law: the law.
        params: name → value, natural, in the law's own units.
        objective: summed Huber loss of residuals at the optimum.
        metrics: ``r2``, ``rmse``, ``huber_linear`` in the target, ``r2_log``, ``rmse_log``,
            ``huber`` in its logarithm. Huber losses are summed over the observations, as in the
            tables of Que 2024; ``mean_huber`` and ``mean_huber_linear`` are per observation.
        status: how the best lane ended: ``converged``, or with something left to gain
            ``stalled`` or ``step limit``; ``published`` where coefficients are a paper's,
            ``mapped`` where the parameters went through JAX, ``piece`` where the law is one of the
            two of a :class:`jaxlaw.PiecewiseLaw`.
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
            ``count_warmup``, ``epsilon``), where :func:`jaxlaw.read_loss_curves` counted them.
        ends: (objective, share of the solved starts) of the distinct optima where starts ended,
            the best first, eight at most; None where a file does not say.
        joint_ranges: product or ratio of two inputs (``N*D``, ``D/N``) → (lowest, highest) fitted,
            in the runs' units; None where nobody knows.
        columns: input → the column of the fitted runs that held it, where that has another name;
            None where a file does not say.
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
    columns: dict[str, str] | None = None
    joint_ranges: dict[str, tuple[float, float]] | None = None

    @property
    def has_evidence(self) -> bool:
        """Whether runs stand behind it; not behind a paper's coefficients, or mapped ones."""
        return self.status not in ("published", "mapped", "piece")

    @property
    def r2(self) -> float:
        """R² in the target."""
        return self.metrics["r2"]

    @property
    def huber(self) -> float:
        """Huber loss of log residuals, summed over the observations (Que 2024, tables 1 to 4)."""
        return self.metrics["huber"]

    @property
    def mean_huber(self) -> float:
        """Huber loss of log residuals per observation."""
        return self.metrics["mean_huber"]

    @property
    def rmse(self) -> float:
        """Root mean square error in the target."""
        return self.metrics["rmse"]

    def predict(self, table: Any = None, /, **inputs: Any) -> np.ndarray:
        """The target at new points.

        Args:
            table: DataFrame, dict or other table in memory with a column per input, or nothing.
                An input that the fitted runs had in a column of another name is taken from
                either; where the table has both, and they differ, that is an error. An input
                given by name goes before the table's.
            **inputs: arrays by name that broadcast with each other; units of the fitted runs.
                Those per drop of the learning rate may have one axis more, (…, K).

        Returns:
            float64 array of the broadcast shape (a scalar array for scalars).

        Raises:
            UsageError: an input is missing or unknown.
            DataError: an input is not a number, or outside its domain.
        """
        values = self.checked_inputs(table, inputs)
        with in_float64():
            arrays = {name: np.asarray(value * self.units[name]) for name, value in values.items()}
            return np.asarray(self.law.at_once(self.params, **arrays))

    def outside(self, table: Any = None, /, **inputs: Any) -> np.ndarray:
        """Whether points lie outside the fitted runs: an extrapolation.

        That is outside the fitted range of some input, or of the product or ratio of two of them:
        D/N of 1,000 is one for runs at 20, where N and D each are inside. Of an area of learning
        rates 2 % of its range count as inside still.

        Args and shape as :meth:`predict`; boolean. An unknown range (NaN, of published
        coefficients) has no inside.
        """
        values = self.checked_inputs(table, inputs)
        flags = beyond(self.ranges, self.joint_ranges or {}, values)
        drops = {spec.name for spec in self.law.inputs if spec.per_drop}
        points = max((flag.ndim for name, flag in flags.items() if name not in drops), default=0)
        flags = [one.any(axis=-1) if one.ndim > points else one for one in flags.values()]
        return np.logical_or.reduce(np.broadcast_arrays(*flags))

    def score(self, runs: Any, **reading: Any) -> Scores:
        """How well the law predicts runs, such as those that were kept from the fit.

        It serves coefficients that a paper prints as well (:func:`jaxlaw.published`).

        Args:
            runs: what :func:`jaxlaw.read_runs` takes or returns, with the target; or Curves,
                whose areas are counted as for the fit.
            **reading: handed to :func:`jaxlaw.read_runs`. A column whose unit is not declared
                counts as in the fitted runs.

        Returns:
            :class:`jaxlaw.Scores`: metrics, relative errors, and a table of residuals.

        Raises:
            UsageError, DataError: as :func:`jaxlaw.read_runs` raises; the target or an input is
                missing, or not valid.

        Example:
            >>> fit = jl.fit("chinchilla", runs, where="6 * N * D < 1e21")
            >>> held_out = fit.score(runs, where="6 * N * D >= 1e21")
            >>> held_out.relative_error, held_out.table
        """
        return score_fit(self, runs, reading)

    def requirements(self) -> pd.DataFrame:
        """Whether a law of mixtures has what Que 2024 asks of one (§3.1, eq. 4 and 5; §4.2).

        Returns:
            One row a requirement: ``adaptability`` (finite losses), ``trend in N``, ``trend in
            D``, ``trend in r``, ``implicit trend`` and ``consistency`` (a Chinchilla law at a
            fixed r). Columns: ``formula``; ``observed``, whether it is met at the fitted shares,
            and ``everywhere``, at all shares from 0 to 1, both over the fitted ranges of N and
            D; ``where`` it is not, in words.

        Raises:
            UsageError: the law is not one of N, D and r.

        Example:
            >>> jl.fit("dcpt-l1", runs).requirements()["everywhere"]
        """
        lacking = {"N", "D", "r"} - set(self.law.input_names)
        if lacking:
            raise UsageError(
                f"law {self.law.name} takes no {', '.join(sorted(lacking))}: Que's requirements "
                "are on a law of N, D and the share r, such as dcpt"
            )
        unknown = {"r": (0.0, 1.0)}  # of coefficients whose ranges nobody printed
        ranges = {
            name: ends if math.isfinite(sum(ends)) else unknown.get(name, (1.0, 1.0))
            for name, ends in self.ranges.items()
        }
        own = {name: [end * self.units[name] for end in ends] for name, ends in ranges.items()}
        found = check_requirements(self.law, self.numbers(), own)
        return pd.DataFrame(found).set_index("name").rename_axis("requirement")

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
            areas: how they are counted, as in :meth:`jaxlaw.LossCurves.runs`, for a fit that does
                not know (``fit.areas`` is None).
            batch: what an update counts as, in steps of the reference batch: a number, of the
                continual phase, or one for either phase; see :func:`jaxlaw.read_loss_curves`.
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
        params = self.numbers()
        data = f"{self.n_observations} observations"
        data += f" ({self.n_dropped} dropped)" if self.n_dropped else ""
        data += f" from {self.source}" if self.source else ""
        head = [
            f"{self.law.name}: {self.law.target} = {self.law.formula}",
            data if self.has_evidence else self.origin(),
            "",
        ]
        rows = []
        for spec in self.law.parameters:
            held = "  (fixed)" if spec.name in self.fixed else ""
            unit = "" if spec.unit == "1" else f"  {spec.unit}"
            rows.append(f"  {spec.name:<8} {params[spec.name]:>13.6g}{unit}{held}")
        evidence = self._evidence() if self.has_evidence else [""]
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

    def origin(self) -> str:
        """Where parameters without evidence come from."""
        return f"as printed: {self.source}" if self.source else "parameters without runs"

    def numbers(self) -> dict[str, float]:
        """The parameters of one law, as floats; raises UsageError for a stack of them."""
        shapes = {np.shape(value) for value in self.params.values()}
        if shapes != {()}:
            raise UsageError(
                f"this fit holds parameters of the shapes {', '.join(map(str, sorted(shapes)))}, "
                "not one law's: take one, with jax.tree.map(lambda leaf: leaf[0], fit)"
            )
        return {name: float(value) for name, value in self.params.items()}

    def save(self, path: str | Path) -> None:
        """Write the fit as JSON; :func:`jaxlaw.load` gives bit-equal predictions."""
        write_record(path, {**self.to_dict(), "probe": plain(self._probe())}, indent=2)

    def _probe(self) -> dict[str, Any]:
        """One point and what the law gives there, so that another formula is found out."""
        ends = {name: self.ranges[name] for name in self.law.input_names}
        point = {
            spec.name: _middle(*ends[spec.name], spec.domain == "positive")
            for spec in self.law.inputs
        }
        return {"inputs": point, self.law.target: float(self.at_point(point))}

    def at_point(self, point: Mapping[str, float]) -> float:
        """The target at one point; of inputs per drop it has one."""
        drops = {spec.name for spec in self.law.inputs if spec.per_drop}
        return self.predict({k: [v] if k in drops else v for k, v in point.items()}).item()

    def to_dict(self) -> dict[str, Any]:
        """The fit as plain numbers and strings; infinities and NaN as strings."""
        record = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        record |= {"law": self.law.name, "params": self.numbers()}
        record["constraint"] = self.law.constraint.name if self.law.constraint else None
        record["runner_up"] = dataclasses.asdict(self.runner_up) if self.runner_up else None
        record["notes"] = [dataclasses.asdict(note) for note in self.notes]
        return {"schema": SCHEMA, **plain(record)}

    def checked_inputs(self, table: Any, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """What :meth:`predict` was given, by input, in the runs' units; raises as it does."""
        given = dict(inputs)
        if table is not None:
            if not hasattr(table, "keys"):
                if not is_table(table):
                    raise UsageError("predict takes a DataFrame, a dict, or inputs by name")
                table = read_table(table).frame
            names = [name for name in self.law.input_names if name not in inputs]
            named = input_columns(self, table, names)
            given |= {name: table[column] for name, column in named.items()}
        for name in given:
            if name not in self.law.input_names:
                raise UsageError(
                    f"law {self.law.name} has no input '{name}'; it takes "
                    f"{', '.join(self.law.input_names)}.{nearest(name, self.law.input_names)}"
                )
        missing = [name for name in self.law.input_names if name not in given]
        if missing:
            raise UsageError(f"input {', '.join(missing)} is missing for law {self.law.name}")
        values = {spec.name: _checked(spec, given[spec.name]) for spec in self.law.inputs}
        try:  # an input per drop has an axis of its own, the last one
            drops = [values[one.name].shape for one in self.law.inputs if one.per_drop]
            others = [values[one.name].shape for one in self.law.inputs if not one.per_drop]
            np.broadcast_shapes(*others, *(shape[:-1] for shape in drops))
            np.broadcast_shapes(*(shape[-1:] for shape in drops))
        except ValueError:
            shapes = ", ".join(f"{name} {value.shape}" for name, value in values.items())
            raise DataError(
                f"inputs of shapes that do not belong together: {shapes}; give each a value per "
                "point, or one value"
            ) from None
        return values


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


def _middle(low: float, high: float, positive: bool) -> float:
    """A value well inside a range; of one not known, 1 or 0.5."""
    if not math.isfinite(low + high):
        return 1.0 if positive else 0.5
    return math.sqrt(low) * math.sqrt(high) if positive else low + (high - low) / 2
