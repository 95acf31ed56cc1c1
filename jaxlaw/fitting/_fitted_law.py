"""A law with its parameters: what predicts, plans, and goes through JAX.

A :class:`FittedLaw` knows what its parameters mean: the law, the units of its inputs, the ranges
they were fitted in, how areas of learning rates were counted. It knows nothing of a search: that
evidence belongs to a :class:`jaxlaw.Fit`, which is a fitted law too.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self, Unpack

import jax
import numpy as np
import pandas as pd
from jax.tree_util import GetAttrKey

from jaxlaw import laws
from jaxlaw._arrays import LEVEL, is_number, real_numbers
from jaxlaw._jit import in_float64
from jaxlaw._json import plain
from jaxlaw._quantities import (
    SHARE,
    UNKNOWN,
    Quantity,
    in_unit,
    mistaken_unit,
    says_unit,
    two_readings,
)
from jaxlaw._result import Result, table_lines
from jaxlaw._tables import read_table
from jaxlaw._typed import Between, Finite, NotNegative, load, only
from jaxlaw.data import (
    ReadingOptions,
    RunFlops,
    area_options,
    input_columns,
    name_rows,
    training_flops,
)
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting._extrapolation import outside_range
from jaxlaw.laws import Input, Law, check_requirements
from jaxlaw.notes import Note

if TYPE_CHECKING:
    from jaxlaw._answer import Answer

_SAME_LAW = 1e-9  # relative difference of predictions by one formula, wherever they are computed
_LOSSES = ("loss", "cross-entropy", "unigram_normalized_loss")  # targets in nats
_BITS = re.compile(r"bpb|bits?.?per.?byte", re.IGNORECASE)  # columns of such losses
_NO_UNIT = re.compile(r"ppl|perplex|accuracy|(^|_)acc(_|$)|score|bleu", re.IGNORECASE)


@dataclass(frozen=True, eq=False, repr=False)
class FittedLaw(Result):
    """A law with its parameters: it predicts, plans and is saved, with or without a fit's evidence.

    To JAX it is a tree whose leaves are the parameters; all else is its structure. It comes back
    from ``jax.device_get``, ``jax.vmap`` or ``jax.jit`` as it went in, and only the parameters
    can be other ones. Trees of other units or ranges have another structure: to stack fits of
    different runs, stack their ``params``.

    Attributes:
        law: law, or its name.
        params: name → value, natural, in the law's own units.
        units: input → what one unit of the user's is worth in the law's own unit (1.0 where it
            is not given).
        ranges: input → (lowest, highest) fitted, in the user's units; NaN where it is unknown.
        joint_ranges: product or ratio of two inputs (``N*D``, ``D/N``) → (lowest, highest)
            fitted, in the user's units; None where it is unknown.
        fixed: parameters that were not fitted: name → value they were held at.
        area_options: options of the areas of learning rates (``decay``, ``carry_momentum``,
            ``count_warmup``, ``epsilon``), or None.
        columns: input or target → column of the fitted runs that held it, where that has another
            name; None where it is unknown.
        source: origin of the parameters: a paper, or the table of the runs.
        notes: findings to know before relying on the numbers.
        delta: Huber threshold of its scores; the law's own if None.
        flops: FLOPs as the column counts them that the runs have for C; None for 6·N·D.

    Raises:
        UsageError: parameters that are not the law's.

    Example:
        >>> hoffmann = jl.FittedLaw(
        ...     "chinchilla", {"E": 1.69, "A": 406.4, "B": 410.7, "alpha": 0.34, "beta": 0.28}
        ... )
        >>> float(hoffmann.predict(N=70e9, D=1.4e12).round(3))
        1.937
    """

    law: Law
    params: dict[str, Finite]
    _: KW_ONLY
    units: dict[str, Annotated[float, Between(1e-300, sys.float_info.max)]] = field(
        default_factory=dict
    )
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    joint_ranges: dict[str, tuple[float, float]] | None = None
    fixed: dict[str, Finite] = field(default_factory=dict)
    area_options: dict[str, Any] | None = None
    columns: dict[str, str] | None = None
    source: str = ""
    notes: tuple[Note, ...] = ()
    # The law's own unless given, see __post_init__.
    delta: NotNegative = None  # type: ignore[assignment]
    flops: RunFlops | None = None

    def __post_init__(self) -> None:
        """Fill in what follows from the law."""
        law = laws.get(self.law)
        if set(self.params) != set(law.parameter_names):
            raise UsageError(f"law {law.name} has the parameters {', '.join(law.parameter_names)}")
        filled = {
            "law": law,
            "units": {name: self.units.get(name, 1.0) for name in law.input_names},
            "ranges": {name: self.ranges.get(name, UNKNOWN) for name in law.input_names},
            "delta": law.delta if self.delta is None else self.delta,
        }
        for name, value in filled.items():
            object.__setattr__(self, name, value)

    def predict(self, table: Any = None, /, **inputs: Any) -> np.ndarray:
        """Predict the target at new points.

        Args:
            table: DataFrame, dict or other table in memory with a column per input, or nothing.
                An input that the fitted runs had in a column of another name is taken from
                either; where the table has both, and they differ, that is an error. An input
                given by name goes before the table's.
            **inputs: arrays by name that broadcast with each other; units of the fitted runs.
                A text says its own unit, whatever that of the runs: ``N="70B"``,
                ``D="15 T tokens"``. Those per drop of the learning rate may have one axis more,
                (…, K).

        Returns:
            float64 array of the broadcast shape (a scalar array for scalars).

        Raises:
            UsageError: an input is missing or unknown.
            DataError: an input is not a number, or outside its domain, or surely meant in another
                unit than that of the runs.

        Example:
            >>> fit = jl.published()["besiroglu-2024"]
            >>> fit.predict(N="70B", D=[1e11, 1.4e12]).round(2).tolist()
            [2.09, 1.97]
        """
        return self._evaluated(self.checked_inputs(table, inputs))

    def _evaluated(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The target at checked inputs, in the user's units."""
        with in_float64():
            arrays = {name: np.asarray(value * self.units[name]) for name, value in values.items()}
            return np.asarray(self.law.evaluate(self.params, **arrays))

    def is_extrapolation(self, table: Any = None, /, **inputs: Any) -> np.ndarray:
        """Whether points lie outside the fitted runs.

        That is outside the fitted range of some input, or of the product or ratio of two of them:
        D/N of 1,000 is one for runs at 20, where N and D each are inside. Of an area of learning
        rates 2% of its range count as inside still.

        Args:
            table, **inputs: as for :meth:`predict`.

        Returns:
            Boolean array of the shape that :meth:`predict` has. An unknown range (NaN, of
            published coefficients) has no inside.

        Raises:
            UsageError, DataError: as :meth:`predict` raises.

        Example:
            >>> jl.published()["hoffmann-2022"].is_extrapolation(N=[1e9, 1e12], D=2e10).tolist()
            [False, True]
        """
        values = self.checked_inputs(table, inputs)
        flags = outside_range(self.ranges, self.joint_ranges or {}, values)
        per_drop = self.law.inputs_per_drop
        points = max((flag.ndim for name, flag in flags.items() if name not in per_drop), default=0)
        flags = [flag.any(axis=-1) if flag.ndim > points else flag for flag in flags.values()]
        return np.logical_or.reduce(np.broadcast_arrays(*flags))

    def score(self, runs: Any, **reading: Unpack[ReadingOptions]) -> Answer:
        """Score the predictions on runs, such as those that were kept from the fit.

        Args:
            runs: anything that :func:`jaxlaw.read_runs` takes or returns, with the target; or
                LossCurves, whose areas are counted as for the fit.
            **reading: handed to :func:`jaxlaw.read_runs`. A column whose unit is not declared
                counts as in the fitted runs.

        Returns:
            Answer with ``r2``, ``rmse``, ``mean_huber`` and the others of
            :attr:`jaxlaw.Fit.metrics`, and of the relative errors
            ``mean_absolute_relative_error``, ``mean_relative_error`` (signed: the bias) and
            ``max_absolute_relative_error``. Means are weighted as the runs are. Table ``table``, a
            row a run: ``row``, what the row is called; the law's inputs in the runs' own units; the
            observed target under its name; ``predicted``, ``residual`` (observed − predicted),
            ``relative_error`` (residual / observed) and ``outside`` (the fitted ranges).

        Raises:
            UsageError, DataError: as :func:`jaxlaw.read_runs` raises; the target or an input is
                missing, or not valid.

        Example:
            >>> runs = jl.simulate.experiment("chinchilla", noise=0.0).table
            >>> scores = jl.published()["besiroglu-2024"].score(runs, where="6 * N * D >= 1e21")
            >>> bool(scores.mean_absolute_relative_error < 0.05), "predicted" in scores.table
            (True, True)
        """
        # The readers of tables come with it, which neither predictions nor plans need.
        from jaxlaw.fitting._scores import score_fit

        return score_fit(self, runs, reading)

    def requirements(self) -> pd.DataFrame:
        """Check what Que 2024 asks of a law of mixtures (§3.1, eq. 4 and 5; §4.2).

        Returns:
            One row a requirement, such as ``trend in D`` and ``consistency``: its ``formula``;
            whether it is met at the ``observed`` mixture ratios, and ``everywhere`` from 0 to 1,
            both over the fitted ranges of N and D; ``where`` it is not, in words.

        Raises:
            UsageError: the law takes no mixture ratio r.

        Example:
            >>> truth = jl.FittedLaw("dcpt-l1", jl.simulate.TRUTHS["dcpt-l1"])
            >>> bool(truth.requirements()["everywhere"]["implicit trend"])
            False
        """
        if "r" not in self.law.input_names:
            raise UsageError(f"law {self.law.name} takes no r: this is for laws of mixtures")
        unknown = {"r": (0.0, 1.0)}  # of coefficients whose ranges are not printed
        ranges = {}
        for name, ends in self.ranges.items():
            known = [end * self.units[name] for end in ends]
            ranges[name] = known if math.isfinite(sum(ends)) else unknown.get(name, (1.0, 1.0))
        checks = check_requirements(self.law, self.numbers(), ranges)
        return pd.DataFrame(checks).set_index("name").rename_axis("requirement")

    def predict_curve(
        self,
        schedule: Any,
        at: Any = None,
        *,
        first_step: int = 0,
        S1_before: float = 0.0,
        area_options: Mapping[str, Any] | None = None,
        batch: Any = None,
        **inputs: Any,
    ) -> pd.DataFrame:
        """Predict the target over the steps of a schedule, and what it is made of.

        Args:
            schedule: Schedule, spec string (:func:`jaxlaw.schedules.parse`), or (steps,) rates.
            at: (points,) steps; all of the schedule's if None.
            first_step: step after which the schedule begins, as ``at`` counts.
            S1_before: sum of the learning rates up to there.
            area_options: options of the areas, as in :meth:`jaxlaw.LossCurves.runs`, for a law
                that does not know (``fit.area_options`` is None).
            batch: batch size relative to the reference batch: a number, of the continual phase,
                or a pair for both phases; see :func:`jaxlaw.read_loss_curves`.
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

        Example:
            >>> wang = jl.published()["wang-2025-pt"]
            >>> line = "cosine:peak=2e-4,steps=40000 + constant:lr=2e-4,steps=10000"
            >>> curve = wang.predict_curve(line, at=[40_000, 50_000], r=0.5)
            >>> list(curve.columns)
            ['step', 'lr', 'phase', 'loss', 'base', 'annealing', 'shift', 'outside']
        """
        # A fit reads no schedules.
        from jaxlaw.fitting._schedule_areas import areas_of_schedule

        columns, areas = areas_of_schedule(
            self, schedule, at, first_step=first_step, S1_before=S1_before,
            area_options=area_options, batch=batch,
        )  # fmt: skip
        target = self.predict(areas, **inputs)
        unshifted = self.without("shift").predict(areas, **inputs)
        base = self.without("shift", "annealing").predict(areas, **inputs)
        columns |= {self.law.target: target, "base": base, "annealing": unshifted - base}
        columns["shift"] = target - unshifted
        return pd.DataFrame(columns | {"outside": self.is_extrapolation(areas, **inputs)})

    def without(self, *components: str) -> FittedLaw:
        """Take components out of the law, such as ``shift``: Wang's hidden curve (2025, eq. 2).

        Args:
            *components: names of :attr:`jaxlaw.Law.components`; one that the law does not have
                takes nothing out.

        Returns:
            The law with the coefficients of these components at 0.

        Example:
            >>> hidden = jl.published()["wang-2025-pt"].without("shift")
            >>> hidden.params["B"]
            0.0
        """
        names = [name for one in components for name in self.law.components.get(one, ())]
        return self.with_params(self.params | dict.fromkeys(names, 0.0))

    def with_params(self, params: Mapping[str, Any]) -> FittedLaw:
        """The same law, units and ranges with other parameters, and so without evidence.

        Args:
            params: name → value, in the law's own units.

        Raises:
            UsageError: parameters that are not the law's.

        Example:
            >>> known = jl.published()["hoffmann-2022"]
            >>> known.with_params(known.params | {"E": 1.8}).params["E"]
            1.8
        """
        return FittedLaw(**{**_fields(self), "params": dict(params)})

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the law along one of its inputs, with the runs of a fit; needs matplotlib.

        Args:
            ax: axes to draw on; new ones if None.
            **options: options of :func:`jaxlaw.plots.loss_over_input`, such as ``runs=``,
                ``along=``, or a target run: ``at={"N": "13B", "D": "2T"}``.

        Example:
            >>> fit = jl.published()["hoffmann-2022"]
            >>> fit.plot(along="D", at={"N": 7e9}).get_ylabel()
            'loss (nats)'
        """
        # By name, for pictures stand above all results.
        return importlib.import_module("jaxlaw.plots").loss_over_input(self, ax=ax, **options)

    @property
    def headline(self) -> str:
        """The law and where its parameters come from."""
        return f"{self.law.name}: {self.origin()}"

    def shown(self) -> dict[str, pd.DataFrame]:
        """The parameters with their units; of a fit with standard errors and intervals.

        Raises:
            UsageError: a stack of parameters, which is not one law's.
        """
        spreads = self._spreads()
        rows = []
        for name, one in self.quantities.items():
            error, between = spreads.get(name, ("", ""))
            between = "fixed" if name in self.fixed else between
            rows.append((name, f"{one.value:.6g}", error, between, one.unit))
        heads = ["parameter", "value", "std err", f"{LEVEL:.0%} interval", "unit"]
        table = pd.DataFrame(rows, columns=heads)
        return {"parameters": table.loc[:, (table != "").any()]}

    def _all_shown(self) -> list[pd.DataFrame]:
        return [*self.shown().values()]

    def lines(self) -> list[str]:
        """The formula, the parameters, and the evidence for them.

        Example:
            >>> print(jl.published()["kaplan-2020"].summary().splitlines()[0])
            kaplan: parameters from: Kaplan 2020, eq. 1.5 and table 2
        """
        formula = f"{self.law.target} = {self.law.formula}"
        return [formula, "", *table_lines(self.shown()["parameters"])]

    def _spreads(self) -> dict[str, tuple[str, str]]:
        """Parameter → its standard error and its interval in words, which only a fit has."""
        return {}

    def origin(self) -> str:
        """Where the parameters come from, in words."""
        return f"parameters from: {self.source}" if self.source else "parameters without runs"

    def details(self) -> list[str]:
        """Lines of the summary on how good the fit is, and how areas are counted."""
        counted = self.area_options
        return [] if counted is None else [f"areas counted with λ {counted['decay']:.6g}"]

    def __repr__(self) -> str:
        """The summary; of parameters that are no numbers (stacked, traced) their names."""
        try:
            return self.summary()
        except (UsageError, TypeError):
            return f"{type(self).__name__} of law {self.law.name} with params {self.params}"

    def numbers(self) -> dict[str, float]:
        """The parameters of one law, as floats; raises UsageError for a stack of them."""
        shapes = {np.shape(value) for value in self.params.values()}
        if shapes != {()}:
            raise UsageError(
                f"this fit holds parameters of the shapes {', '.join(map(str, sorted(shapes)))}, "
                "not one law's: take one, with jax.tree.map(lambda leaf: leaf[0], fit)"
            )
        return {name: float(value) for name, value in self.params.items()}

    def _file_record(self) -> dict:
        # With one point and what the law gives there, so that another formula is found out.
        point = {}
        for spec in self.law.inputs:
            (low, high), inside = self.ranges[spec.name], 0.5
            if spec.domain == "positive":
                inside = math.sqrt(low) * math.sqrt(high) if math.isfinite(low + high) else 1.0
            elif math.isfinite(low + high):
                inside = low + (high - low) / 2
            point[spec.name] = inside
        probe = {"inputs": point, self.law.target: float(self.at_point(point))}
        return {**self.to_dict(), "probe": plain(probe)}

    def at_point(self, point: Mapping[str, float]) -> float:
        """The target at one point, whole mixture or not; of inputs per drop it has one."""
        values, checked = self.law.labelled(point), {}
        for spec in self.law.inputs:
            value = [values[spec.name]] if spec.per_drop else values[spec.name]
            checked[spec.name] = _checked(spec, value, self.units[spec.name])
        return self._evaluated(checked).item()

    @property
    def target_unit(self) -> str:
        """The unit of what it predicts: nats of a loss, unless the runs' column says otherwise.

        Example:
            >>> jl.published()["hoffmann-2022"].target_unit
            'nats'
        """
        column = (self.columns or {}).get(self.law.target, "")
        if _BITS.search(column):
            return "bits per byte"
        if self.law.target == "best_batch":
            return "tokens"
        return "nats" if self.law.target in _LOSSES and not _NO_UNIT.search(column) else ""

    @property
    def quantities(self) -> dict[str, Quantity]:
        """The parameters, in the law's own units."""
        of_loss = self.target_unit or "1"  # laws say nats for whatever unit their loss has
        units = {spec.name: re.sub(r"\bnats\b", of_loss, spec.unit) for spec in self.law.parameters}
        return {
            name: Quantity(value, "" if units[name] == "1" else units[name])
            for name, value in self.numbers().items()
        }

    def input_units(self) -> dict[str, tuple[str, float]]:
        """Input and target → its unit (empty where it has none), and what one is worth."""
        units = {}
        for spec in self.law.inputs:
            noun = SHARE if spec.domain == "fraction" else spec.counts
            units[spec.name] = noun, self.units[spec.name] * spec.unit
        return units | {self.law.target: (self.target_unit, 1.0)}

    def largest_compute(self) -> float:
        """The compute of the largest fitted run in FLOPs, C or 6·N·D; NaN where it is unknown."""
        if self.flops or "C" in self.ranges:
            return self.flops.largest if self.flops else self._compute({"C": self.ranges["C"][1]})
        joint = (self.joint_ranges or {}).get("N*D")
        return self._compute({"N": joint[1], "D": 1.0}) if joint else math.nan

    def times_beyond(self, at: Mapping[str, Any]) -> float:
        """How many times the largest fitted run a run is, in compute.

        Of inputs in the units of the fitted runs. 1.0 up to the largest run, and where no compute
        is known; NaN where no range is.
        """
        if not any(math.isfinite(sum(self.ranges.get(name, UNKNOWN))) for name in at):
            return math.nan
        with np.errstate(invalid="ignore"):
            return float(np.fmax(self._compute(at) / self.largest_compute(), 1.0))

    def _compute(self, at: Mapping) -> float:
        """The compute of a run in FLOPs, C or 6·N·D; NaN where it is unknown."""
        worth = {name: unit[1] for name, unit in self.input_units().items()}
        raw = {name: float(at[name]) * worth.get(name, 1.0) for name in "CND" if name in at}
        return float(training_flops(raw, self.flops))

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain numbers and strings; infinities and NaN as strings.

        Raises:
            UsageError: a stack of parameters, which is not one law's.
        """
        self.numbers()
        return super().to_dict()

    @classmethod
    def _read_fields(cls, record: dict) -> Self:
        fields = {name: value for name, value in record.items() if name != "probe"}
        fitted = super()._read_fields(fields)
        if "probe" not in record:
            return fitted
        law, target = fitted.law, fitted.law.target
        probe = load(record["probe"], dict[str, Any], "probe")
        only(probe, ("inputs", target), "probe.")
        point = load(probe["inputs"], dict[str, float], "probe.inputs")
        only(point, law.input_names, "probe.inputs.")
        then, now = load(probe[target], float, f"probe.{target}"), fitted.at_point(point)
        if not np.isclose(now, then, rtol=_SAME_LAW, atol=0.0, equal_nan=True):
            at = ", ".join(f"{name} {value:.6g}" for name, value in point.items())
            raise ValueError(
                f"law {law.name} gives {now:.10g} at {at}, and gave {then:.10g} when the fit was "
                "written: its formula has changed; fit again"
            )
        return fitted

    @classmethod
    def _consistent(cls, values: dict) -> dict:
        """Names are those of the law's parameters and inputs, as the law writes them."""
        law, inputs = values["law"], values["law"].input_names
        of_law = {"params": law.parameter_names, "units": inputs, "ranges": inputs}
        for name, keys in of_law.items():
            only(values[name], keys, f"{name}.")
        options = values["area_options"]
        areas = None if options is None else area_options(**options)
        return values | {"area_options": areas, "fixed": of_parameters(law, values["fixed"])}

    def checked_inputs(self, table: Any, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """What :meth:`predict` was given, checked as it says: (…) in the user's units, by input."""
        law, given = self.law, dict(inputs)
        if table is not None:
            if not hasattr(table, "keys"):
                table = read_table(table).frame
            names = [name for name in law.input_names if name not in inputs]
            named = input_columns(self, table, names)
            given |= {name: table[column] for name, column in named.items()}
        for name in given:
            if name not in law.input_names:
                hint = nearest(name, law.input_names)
                if name.lower() in ("c", "compute", "flops") and {"N", "D"} <= {*law.input_names}:
                    hint = " Give N and D: jaxlaw plan allocation --compute finds the best of both"
                raise UsageError(
                    f"law {law.name} has no input '{name}'; it takes {', '.join(law.input_names)}."
                    f"{hint}"
                )
        missing = [name for name in law.input_names if name not in given]
        if missing:
            raise UsageError(f"input {', '.join(missing)} is missing for law {law.name}")
        values = {}
        for spec in law.inputs:
            value, unit = given[spec.name], self.units[spec.name]
            values[spec.name] = _checked(spec, value, unit)
            self._check_unit(spec, value, values[spec.name])
        try:  # an input per drop has an axis of its own, the last
            drops = [values[name].shape for name in law.inputs_per_drop]
            others = [values[name].shape for name in law.inputs_per_row]
            np.broadcast_shapes(*others, *(shape[:-1] for shape in drops))
            np.broadcast_shapes(*(shape[-1:] for shape in drops))
        except ValueError:
            shapes = ", ".join(f"{name} {value.shape}" for name, value in values.items())
            raise DataError(
                f"inputs have incompatible shapes: {shapes}; give each one value per point, or one"
            ) from None
        labels = table.index if isinstance(table, pd.DataFrame) else None
        return law.whole_mixtures(values, partial(_not_whole, law, labels))

    def in_unit_of_runs(self, name: str, value: Any) -> Any:
        """A quantity of an input as a number in the unit of the fitted runs.

        Args:
            name: name of an input.
            value: number in the unit of the runs, or a text that says its unit.

        Returns:
            The number; what is no number and no quantity stays as it is.

        Raises:
            UsageError, DataError: as :meth:`predict` raises.

        Example:
            >>> jl.published()["hoffmann-2022"].in_unit_of_runs("D", "1.4T")
            1400000000000.0
        """
        spec = self.law.specs[name]
        if not spec.counts:
            return value
        number = in_unit(value, self.units[name] * spec.unit, spec.counts)
        if is_number(number):
            self._check_unit(spec, value, np.asarray(float(number)))
        return number

    def _check_unit(self, spec: Input, given, values: np.ndarray) -> None:
        """Refuse bare numbers that were surely meant in another unit; raises DataError."""
        if spec.plausible is None or says_unit(given):
            return
        if isinstance(given, list | tuple) and len(given) == values.size:
            values = values[[not says_unit(one) for one in given]]
        unit = self.units[spec.name] * spec.unit
        mistaken = mistaken_unit(values, unit, spec.plausible, self.ranges[spec.name])
        if mistaken:
            value, meant = mistaken
            raise DataError(two_readings(spec.name, value, meant, unit, spec.counts))


def digits(value: float, count: int) -> str:
    """A number to so many significant digits, zeros too; powers of ten where it is far from 1."""
    text = f"{value:.{count - 1}e}"
    if not math.isfinite(value):
        return text
    power = int(text.partition("e")[2])
    return text if not -5 < power < 6 else f"{float(text):.{max(count - 1 - power, 0)}f}"


def of_parameters(law: Law, values: dict) -> dict:
    """Values by the law's own names of its parameters, which may be written in other ways too."""
    return {law.parameter(name).name: value for name, value in values.items()}


# To JAX: the leaves are the parameters. A Fit comes back as a FittedLaw, for its evidence was true
# of its own parameters and would be false of any that a transformation has changed.
MAPPED = Note("mapped", "info", "parameters returned by JAX, without the evidence of their fit")


def _fields(fitted: FittedLaw) -> dict:
    """What makes a fitted law, the evidence of a fit left out if its class has more."""
    return {field.name: getattr(fitted, field.name) for field in dataclasses.fields(FittedLaw)}


@dataclass(frozen=True, repr=False)
class _Structure:
    """All of a fitted law but its parameters; equal where every field is."""

    law: Law
    others: str  # text compares NaN ranges as equal, and hashes what dicts hold
    fields: dict = field(compare=False)

    def __repr__(self) -> str:
        """Short, for JAX's messages."""
        shown = ("units", "ranges", "area_options")
        fields = ", ".join(f"{name} {self.fields[name]}" for name in shown)
        return f"law {self.law.name}, {fields}"


def register_as_tree(kind: type[FittedLaw], **changes) -> None:
    """Make a class a tree of JAX that is put together again as a :class:`FittedLaw`.

    Args:
        kind: the class.
        **changes: fields that the new object has in place of the old one's.
    """

    def flatten(fitted):
        fields = _fields(fitted) | changes
        leaves = ((GetAttrKey("params"), fields.pop("params")),)
        others = repr({name: value for name, value in fields.items() if name != "law"})
        return leaves, _Structure(fitted.law, others, fields)

    def unflatten(structure, children):
        # Not through the constructor: JAX also builds trees whose leaves are placeholders.
        made = object.__new__(FittedLaw)
        for name, value in {**structure.fields, "params": children[0]}.items():
            object.__setattr__(made, name, value)
        return made

    jax.tree_util.register_pytree_with_keys(kind, flatten, unflatten)


register_as_tree(FittedLaw)


_DOMAINS = {
    "positive": "finite and positive",
    "nonnegative": "finite and not negative",
    "fraction": "in [0, {:g}]",
    "real": "finite",
}


def _checked(spec, values, unit: float) -> np.ndarray:
    if spec.counts:
        try:
            values = in_unit(values, unit * spec.unit, spec.counts)
        except UsageError as error:
            raise DataError(f"input {spec.name}: {error}") from None
    try:
        values = real_numbers(spec.codes(values) if spec.levels else values)
    except DataError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"input {spec.name} is not numeric: {error}") from None
    bad = ~np.isfinite(values)
    if spec.domain == "positive":
        bad |= values <= 0
    elif spec.domain == "nonnegative":
        bad |= values < 0
    elif spec.domain == "fraction":
        above = values * unit > 1 if not spec.mixture else False  # of a mixture, the sum is checked
        bad |= (values < 0) | above | (spec.above_zero & (values == 0))
    if bad.any():
        must = _DOMAINS[spec.domain].format(1 / unit) + " and above 0" * spec.above_zero
        raise DataError(
            f"input {spec.name} must be {must}: {int(bad.sum())} of "
            f"{bad.size} values are not, the first {values[bad].flat[0]}"
        )
    return values


def _not_whole(law: Law, labels, wrong: np.ndarray, sums: np.ndarray, remedy: str) -> DataError:
    """Shares that do not add up to 1, at points of any shape, which a table may name."""
    at = np.flatnonzero(np.ravel(wrong))
    named = labels is not None and len(labels) == np.size(sums)
    rows = [labels[k] if named else int(k) for k in at]
    total = np.ravel(sums)[at]
    where = name_rows("row" if named else "point", rows, [f"sum {value:.6g}" for value in total])
    return DataError(
        f"inputs {', '.join(law.shares)}: mixture ratios do not add up to 1: {where}; {remedy}",
        row=rows[0],
        column=", ".join(law.shares),
        value=float(total[0]),
    )
