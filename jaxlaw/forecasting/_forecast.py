"""The forecast of a run not yet made: estimate, interval, what its width comes from, and a file.

All of it are sums over the draws of a posterior (:mod:`jaxlaw.forecasting.posterior`): a new run
lies where a draw's law and its misfit put it, and by the draw's noise off that.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import jax
import numpy as np
import pandas as pd
from scipy import stats

from jaxlaw._quantities import SHARE, times, written, written_range
from jaxlaw._result import TARGET, Result
from jaxlaw._typed import Between, Seed, checked
from jaxlaw._version import __version__
from jaxlaw.data import ReadingOptions
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import (
    FittedLaw,
    Residuals,
    experiment_notes,
    outside_range,
    range_message,
    residual_notes,
)
from jaxlaw.forecasting._ensemble import Ensemble, Question, ask, ensemble
from jaxlaw.forecasting.posterior import NU
from jaxlaw.laws import growing_inputs
from jaxlaw.notes import Note, largest_run_step, remedy_of
from jaxlaw.uncertainty import Draws

if TYPE_CHECKING:
    from jaxlaw.forecasting._backtest import Backtest
else:
    Backtest = Any

#: Levels of the quantiles that a forecast keeps, close together in the tails.
LEVELS = stats.norm.cdf(np.linspace(-3.3, 3.3, 265))
PARTS = ("from_parameters", "from_prior", "from_misfit", "from_noise")
_COLUMNS = dict.fromkeys(("distance", "estimate", "low", "high", *PARTS), float)
CONFLICT = 0.01  # tail probability of the posterior under the prior, below which they disagree
_REPEATS = 8  # draws of the noise for each of the posterior
_ROUNDING = 1e-6  # of a distance
_SLOPES = 64  # draws that show in which directions a law varies
_FARTHER = 1.5  # times the e-folds that the runs themselves span
_WIDE = 0.05  # half-width of an interval, relative, from which on a larger run is worth its price


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Result):
    """A forecast of runs that were not yet made; :func:`jaxlaw.load` reads its file.

    Attributes:
        table: one row a point: the inputs, in the units of the runs, groups by their labels;
            ``distance``, the log of the ratio to the largest run (0 inside the runs);
            ``estimate``, the median; ``low`` and ``high``, the interval for a new run at ``level``;
            and the shares of the variance, of sum 1: ``from_parameters``, what runs and prior leave
            open of the laws; ``from_prior``, the part of that for which the prior stands and not
            the runs; ``from_misfit``, what laws miss beyond the runs; ``from_noise`` of a run.
        level: share of such intervals that should hold the run.
        target: name of what is predicted.
        posterior: draws of the laws, their misfit and the noise.
        weights: label of a law → its posterior probability.
        quantiles: (265, m) quantiles of the target at Φ(z), z even from −3.3 to 3.3.
        observed: the fitted runs: inputs as in ``table``, and the target.
        source: name of the runs' file, and ``fingerprint``, SHA-256 of the runs.
        created: date and time, UTC, in ISO 8601.
        package_versions: package → version.
        prior: what the prior rests on, in words; empty without one.
        notes: what to know before betting on it, what decides first.
        backtest: forecasts at earlier cut-offs, where they were asked for.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> forecast = jl.forecast(runs, at={"N": 1e10, "D": 4e11})
        >>> row = forecast.table.iloc[0]
        >>> bool(row["low"] < row["estimate"] < row["high"])
        True
        >>> float(row.filter(like="from_").sum().round(6))
        1.0
    """

    picture = "forecast_intervals"

    table: pd.DataFrame = field(metadata={"columns": _COLUMNS})
    level: float = field(metadata={"unit": SHARE})
    target: str
    posterior: Draws
    weights: dict[str, float]
    quantiles: np.ndarray
    observed: pd.DataFrame
    source: str
    fingerprint: str
    created: str
    package_versions: dict[str, str]
    notes: tuple[Note, ...]
    prior: str = ""
    backtest: Backtest | None = None

    @property
    def inputs(self) -> list[str]:
        """Names of the columns that say where the points are."""
        return list(self.table.columns[: list(self.table).index("distance")])

    def draws(self) -> Draws:
        """The draws of the posterior, as plans take them; they take a forecast, too.

        Example:
            >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
            >>> forecast = jl.forecast(runs, at={"N": 1e10, "D": 4e11})
            >>> sorted(jl.planning.allocation(forecast, 2e22).interval)
            ['D', 'N', 'loss']
        """
        return self.posterior

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """The interval for a new run at another level: (m,) low and high.

        Args:
            level: between 0 and 0.999.

        Raises:
            UsageError: another level.

        Example:
            >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
            >>> forecast = jl.forecast(runs, at={"N": 1e10, "D": 4e11})
            >>> low, high = forecast.interval(0.5)
            >>> bool((forecast.table["low"] < low).all() and (high < forecast.table["high"]).all())
            True
        """
        if not 0 < level <= 0.999:
            raise UsageError(f"level is between 0 and 0.999, not {level}")
        return interval_at(self.quantiles, level)

    def below(self, points: Any, observed: Any) -> np.ndarray:
        """(k,) probability of a lower target: evenly spread over (0, 1) if forecasts are good.

        Args:
            points: (k,) numbers of the table's rows.
            observed: (k,) target of a run made there.
        """
        normal = stats.norm.ppf(LEVELS)
        logs = [np.interp(np.log(y), np.log(self.quantiles[:, k]), normal)
                for k, y in zip(points, observed, strict=True)]  # fmt: skip
        return stats.norm.cdf(logs)

    def score(
        self, runs: Any, *, rtol: float = 0.02, **reading: Unpack[ReadingOptions]
    ) -> Backtest:
        """How the forecast went, by the runs that were made since: see :func:`jaxlaw.forecasting.score`.

        Example:
            >>> table = jl.simulate.experiment("chinchilla", noise=0.005).table
            >>> before, later = table[table["D"] < 5e10], table[table["D"] >= 5e10]
            >>> jl.forecast(before, at=later[["N", "D"]]).score(later).frame["inside"].mean() > 0.7
            True
        """
        from jaxlaw.forecasting._backtest import score  # which is built on forecasts

        return score(self, runs, rtol=rtol, **reading)

    @property
    def quantities(self) -> dict[str, float]:
        """None: its numbers are those of its points, in the table."""
        return {}

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of an input, of what is predicted, or of a share."""
        if name in ("estimate", "low", "high", TARGET):
            return self.posterior.fit.target_unit, 1.0
        if name in PARTS:
            return SHARE, 1.0
        return self.posterior.fit.input_units().get(name, ("", 1.0))

    def shown(self) -> dict[str, pd.DataFrame]:
        """Each point with its interval, its distance, and most of what its width comes from."""
        table = self.table
        columns = {name: table[name] for name in [*self.inputs, "estimate"]}
        columns |= {f"estimate_{side}": table[side] for side in ("low", "high")}
        beyond = [times(one) if one > 1 else "inside" for one in np.exp(table["distance"])]
        return {"table": pd.DataFrame(columns | {
            "beyond the runs": beyond, "width from": [_width(row, 2) for _, row in table.iterrows()]
        })}  # fmt: skip

    @property
    def headline(self) -> str:
        """The run farthest from the others, with its interval."""
        if self.table.empty:
            return ""
        more = f"; {len(self.table) - 1} more below" if len(self.table) > 1 else ""
        return self._point(self.table.loc[self.table["distance"].idxmax()]) + more

    @property
    def next_step(self) -> str:
        """The largest run that can be paid for, where it narrows the interval; or a remedy."""
        step = remedy_of(self.notes)
        if step or self.table.empty or not {"N", "D"} <= {*self.inputs}:
            return step
        row = self.table.loc[self.table["distance"].idxmax()]
        wide = (row["high"] - row["low"]) / 2 >= _WIDE * row["estimate"]
        if not (wide and row["distance"] > 0) or row["from_noise"] > 0.5:
            return ""
        tokens, size = (row[name] * self.posterior.scale(name) for name in ("D", "N"))
        return largest_run_step(tokens / size)

    def _point(self, row: pd.Series) -> str:
        """A run, its estimate and interval, and how far it is from the runs."""
        inputs = [
            f"{name} {row[name] if isinstance(row[name], str) else written(row[name], *self.unit_of(name))}"
            for name in self.inputs
        ]
        unit, far = self.unit_of("estimate"), np.exp(row["distance"])
        return (
            f"{self.target} {written(row['estimate'], *unit)} ({self.level:.4g} interval of a new run: "
            f"{written_range(row['low'], row['high'], *unit)}) at {', '.join(inputs)}, "
            f"{f'{times(far)} beyond the largest run' if far > 1 else 'within the runs'}"
        )

    def lines(self) -> list[str]:
        """What it rests on, and each point with what its width comes from."""
        laws = ", ".join(
            law + f" {weight:.0%}" * (len(self.weights) > 1)
            for law, weight in sorted(self.weights.items(), key=lambda item: -item[1])
        )
        lines = [
            f"{len(self.observed)} runs from {self.source}; law {laws}; run-to-run noise "
            f"{self.posterior.noise:.2%}",
        ]
        lines += [f"prior: {self.prior}"] if self.prior else []
        lines += [f"backtest: {self.backtest.headline}"] if self.backtest is not None else []
        for _, row in self.table.iterrows():
            lines += [self._point(row)] * (len(self.table) > 1)
            lines.append(f"interval width: {_width(row)}")
        return lines

    @classmethod
    def _consistent(cls, values: dict[str, Any]) -> dict[str, Any]:
        if values["quantiles"].shape != (len(LEVELS), len(values["table"])):
            raise ValueError(f"field 'quantiles' has shape {values['quantiles'].shape}")
        return values


def _width(row: pd.Series, most: int = len(PARTS)) -> str:
    """What a width comes from, most of it first."""
    parts = row[list(PARTS)].astype(float).nlargest(most)
    return ", ".join(f"{n.removeprefix('from_')} {share:.0%}" for n, share in parts.items())


def interval_at(quantiles: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """(m,) low and high of the target, from its quantiles (265, m) at :data:`LEVELS`."""
    at, normal = stats.norm.ppf([(1 - level) / 2, (1 + level) / 2]), stats.norm.ppf(LEVELS)
    ends = [np.exp(np.interp(at, normal, np.log(point))) for point in quantiles.T]
    return tuple(np.array(ends).reshape(-1, 2).T)


@checked
def forecast(
    runs: Any,
    at: Any,
    laws: Any = None,
    *,
    prior: Any = "field",
    level: Annotated[float, Between(0.01, 0.999)] = 0.9,
    groups: Any = None,
    backtest: bool = False,
    seed: Seed = 0,
    **reading: Unpack[ReadingOptions],
) -> Forecast:
    """The target of runs that were not yet made, with an interval for a **new run**.

    The interval holds what the runs and the prior leave open of the law, what the law misses beyond
    the runs, and the noise of a run; see the chapter ``jaxlaw/forecasting/README.md``. Three runs
    are enough: what they leave open is wide.

    Args:
        runs: what :func:`jaxlaw.read_runs` takes or returns.
        at: points: a dict of numbers or arrays that broadcast, or a table, with every input of the
            laws, in the units of the runs.
        laws: law or its name, a list of them or a dict label → law, which count by how well they
            predict; None takes the one of :data:`jaxlaw.forecasting.DEFAULT_LAWS` that suits the
            columns.
        prior: as :func:`jaxlaw.posterior` takes it: ``"field"``, what public experiments say; one's
            own earlier fits, or a folder of them; a :class:`jaxlaw.fitting.Prior`; or None.
        level: share of such intervals that should hold the run.
        groups: columns whose rows are checkpoints of one run, or a label for each row.
        backtest: whether forecasts at earlier cut-offs are made too (:func:`jaxlaw.backtest`).
        seed: seed of the draws.
        **reading: options of :func:`jaxlaw.read_runs`: columns, units, where …

    Returns:
        The :class:`Forecast`.

    Raises:
        UsageError: the call makes no sense; the message says what would.
        DataError: the runs cannot carry a law, or a point is no number.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> forecast = jl.forecast(runs, at={"N": [1e10, 2e10], "D": 4e11}, laws="chinchilla")
        >>> forecast.table[["N", "D"]].to_numpy().tolist()
        [[10000000000.0, 400000000000.0], [20000000000.0, 400000000000.0]]
    """
    asked = ask(runs, laws, groups, reading)
    points = asked.points(at)
    found = ensemble(asked, asked.first.weight[None], prior, seed)
    table, quantiles = _predicted(found, points, level, seed)
    draws = found.draws(0)
    notes = _experiment_notes(found)
    if draws.conflict < CONFLICT:
        without = ensemble(asked, asked.first.weight[None], None, seed)
        notes.append(_conflict_note(table, _predicted(without, points, level, seed)[0], draws))
    notes += [*_notes_of_points(draws.fit, asked, points, table), *draws.notes]
    tested = None
    if backtest:
        from jaxlaw.forecasting._backtest import backtest_of  # which is built on forecasts

        tested = backtest_of(asked, prior=prior, level=level, seed=seed)
    known = found.prior is not None and [l for l in asked.laws.values() if found.prior.knows(l)]
    return Forecast(
        table=table, level=level, target=asked.first.target_name, posterior=draws,
        weights=found.weights(0), quantiles=quantiles, observed=asked.fitted(),
        source=asked.runs.source, fingerprint=fingerprint(asked.fitted()),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        package_versions={"jaxlaw": __version__, "jax": jax.__version__, "numpy": np.__version__},
        notes=tuple(dict.fromkeys(notes)),
        prior=found.prior.rests_on(known[0]) if known else "", backtest=tested,
    )  # fmt: skip


def fingerprint(runs: pd.DataFrame) -> str:
    """SHA-256 of inputs and targets, whatever the order of the rows."""
    rows = sorted(runs.itertuples(index=False, name=None), key=repr)
    return hashlib.sha256(repr((list(runs), rows)).encode()).hexdigest()


def _predicted(
    found: Ensemble, points: dict[str, np.ndarray], level: float, seed: int
) -> tuple[pd.DataFrame, np.ndarray]:
    """The table of a forecast, and the quantiles (265, m) of new runs at its points."""
    ((plain, moved),) = found.logs(points)
    if not np.isfinite(moved).all():
        raise DataError("the law has no positive finite prediction at some of these points")
    sigma = found.sigma(0)
    quantiles = quantiles_of(moved, sigma, seed)
    low, high = interval_at(quantiles, level)
    parameters, noise = plain.var(axis=0), np.mean(sigma**2) * NU / (NU - 2)
    of_prior = found.of_prior(0, plain) * parameters
    parts = np.stack([
        parameters - of_prior, of_prior, (moved - plain).var(axis=0), np.full(len(low), noise)
    ])  # fmt: skip
    size = found.asked.size(points)
    largest = found.asked.size(found.asked.fitted()).max()
    distance = np.where(size > largest + _ROUNDING, size - largest, 0.0)
    return pd.DataFrame(points | {
        "distance": distance, "estimate": np.exp(np.median(moved, axis=0)),
        "low": low, "high": high, **dict(zip(PARTS, parts / parts.sum(axis=0), strict=True)),
    }), quantiles  # fmt: skip


def quantiles_of(logs: np.ndarray, sigma: np.ndarray, seed: int) -> np.ndarray:
    """(265, m) quantiles of a new run, from draws (R, m) of its log and (R,) of its noise."""
    count = len(sigma) * _REPEATS
    # Evenly spread over Student's t: few draws of noise would move the quantiles.
    noise = stats.t.ppf((np.arange(count) + 0.5) / count, NU)
    noise = np.random.default_rng([seed, 2]).permutation(noise) * np.tile(sigma, _REPEATS)
    return np.exp(np.quantile(np.tile(logs, (_REPEATS, 1)) + noise[:, None], LEVELS, axis=0))


def _conflict_note(table: pd.DataFrame, other: pd.DataFrame, draws: Draws) -> Note:
    """What the runs say against the prior, and the answer without it."""
    far, unit = table["distance"].idxmax(), draws.fit.target_unit
    with_prior, without = (
        f"{written(one['estimate'][far], unit)} "
        f"({written_range(one['low'][far], one['high'][far], unit)})"
        for one in (table, other)
    )
    return Note(
        "prior-conflict", "warning",
        f"these runs contradict the prior (p = {draws.conflict:.2g}): the forecast is {with_prior} "
        f"with it and {without} without it; if nothing explains the conflict, use prior=None",
        inherited=True,
    )  # fmt: skip


def _notes_of_points(
    fit: FittedLaw, asked: Question, points: dict[str, np.ndarray], table: pd.DataFrame
) -> Iterator[Note]:
    """Points that lie beyond the runs by more than these show, or where the misfit says nothing."""
    size = asked.size(asked.fitted())
    span, far = size.max() - size.min(), table["distance"].max()
    if far > _FARTHER * span:
        yield Note(
            "farther-than-tested", "warning",
            f"the farthest point is {times(np.exp(far))} beyond the largest run, and the runs span "
            f"{times(np.exp(span))}: no back-test on them reaches that far, and the width there "
            "rests on the prior",
            inherited=True,
        )  # fmt: skip
    growing = {n for law in asked.laws.values() for n in growing_inputs(law)}
    label = {name: spec for name, (_, spec) in asked.inputs.items() if spec.levels}
    inputs = {n: label[n].codes(v) if n in label else v for n, v in points.items()}
    for name, out in outside_range(fit.ranges, {}, inputs).items():
        if name not in growing and out.any():
            where = {n: float(v[np.argmax(out)]) for n, v in inputs.items()}
            yield Note(
                "unseen-input", "warning",
                f"{range_message(name, fit.ranges, {}, where, fit.input_units())}: the interval "
                "has no term for what the law misses in that direction; add a run there",
                inherited=False,
            )  # fmt: skip


def _experiment_notes(found: Ensemble) -> list[Note]:
    """What the runs say against the experiment: the checks that a fit runs, about the draws."""
    seen = found.asked.first
    ((logs, _),) = found.logs(found.asked.table())
    centre = logs.mean(axis=0)
    # The directions in which draws vary are the slopes of the law, which take up no group of rows.
    count = min(len(found.asked.laws[next(iter(found.asked.laws))].parameters), len(seen))
    slopes = np.linalg.svd((logs[:_SLOPES] - centre).T, full_matrices=False)[0][:, :count]
    residuals = Residuals(
        np.log(seen.target), np.log(seen.target) - centre, slopes, seen.inputs, seen.weight,
        seen.rows, seen.word, True, seen.runs,
    )  # fmt: skip
    law = next(iter(found.asked.laws.values()))
    misfit = any(note.code == "lack-of-fit" for note in residual_notes(residuals))
    return experiment_notes(law, residuals, seen.others, seen.positions, misfit=misfit)
