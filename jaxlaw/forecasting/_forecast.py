"""The forecast of a larger run: estimate, interval, sources of its width, and a file.

All of it are sums over the draws of a posterior (:mod:`jaxlaw.forecasting.posterior`): a new run
lies where a draw's law and its misfit put it, and by the draw's noise off that.
"""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Unpack

import jax
import numpy as np
import pandas as pd

from jaxlaw import _json as records
from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE, times, written, written_range
from jaxlaw._result import TARGET, Result
from jaxlaw._rounding import SAME
from jaxlaw._typed import Between, Seed, checked
from jaxlaw._version import __version__
from jaxlaw.data import ReadingOptions
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import (
    Prior,
    Residuals,
    experiment_notes,
    outside_range,
    range_message,
    residual_notes,
    runs_for,
)
from jaxlaw.forecasting import _backtest
from jaxlaw.forecasting._backtest import Backtest, frame_of
from jaxlaw.forecasting._question import (
    OVERRULED,
    Question,
    ask,
    draws_each,
    in_own_units,
    interval_at,
    logs_of,
    quantiles_of,
)
from jaxlaw.forecasting.posterior import NU, resolve_prior
from jaxlaw.laws import growing_inputs, without_misfit
from jaxlaw.notes import COLUMNS_TAKEN, Note, largest_run_step, remedy_of
from jaxlaw.uncertainty import Draws

PARTS = ("from_parameters", "from_prior", "from_misfit", "from_noise")
_ROUNDING = 1e-6  # of a distance
_SLOPES = 32  # draws that show in which directions a law varies; of 64 numpy's threads take .5 s
_FARTHER = 1.5  # times the e-folds that the runs themselves span
_WIDE = 0.05  # half-width of an interval, relative, from which on a larger run is worth its price


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Result):
    """A forecast of larger runs; :func:`jaxlaw.load` reads its file.

    Attributes:
        table: one row a point: the inputs, in the units of the runs, groups by their labels;
            ``distance``, the log of the ratio to the largest run (0 inside the runs);
            ``estimate``, the median; ``low`` and ``high``, the interval for a new run at ``level``;
            and fractions of the variance, of sum 1: ``from_parameters``, what runs and prior leave
            open of the laws; ``from_prior``, the part of that for which the prior stands and not
            the runs; ``from_misfit``, what laws miss beyond the runs; ``from_noise`` of a run.
        level: nominal coverage of the intervals.
        target: name of what is predicted.
        posterior: draws of the law of most evidence, its misfit and the noise.
        weights: label of a law → its posterior probability.
        quantiles: (265, m) quantiles of the target at Φ(z), z even from −3.3 to 3.3.
        observed: the fitted runs: inputs as in ``table``, and the target.
        source: name of the runs' file, and ``fingerprint``, SHA-256 of the runs.
        created: date and time, UTC, in ISO 8601.
        package_versions: package → version.
        prior: what the prior rests on, in words; empty without one.
        notes: what to check before using it, the gravest first.
        backtest: the backtest, where one was asked for.

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

    table: pd.DataFrame
    level: float
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

    def score(
        self, runs: Any, *, rtol: float = 0.02, **reading: Unpack[ReadingOptions]
    ) -> Backtest:
        """Score it against the finished runs: see :func:`jaxlaw.forecasting.score`.

        Example:
            >>> table = jl.simulate.experiment("chinchilla", noise=0.005).table
            >>> before, later = table[table["D"] < 5e10], table[table["D"] >= 5e10]
            >>> scores = jl.forecast(before, at=later[["N", "D"]]).score(later)
            >>> bool(scores.frame["inside"].mean() > 0.7)
            True
        """
        return score(self, runs, rtol=rtol, **reading)

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
        """The largest affordable run, where it would narrow the interval; or a fix."""
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
            f"{name} "
            + (row[name] if isinstance(row[name], str) else written(row[name], *self.unit_of(name)))
            for name in self.inputs
        ]
        unit, far = self.unit_of("estimate"), np.exp(row["distance"])
        between = written_range(row["low"], row["high"], *unit)
        where = f"{times(far)} beyond the largest run" if far > 1 else "within the runs"
        return (
            f"{self.target} {written(row['estimate'], *unit)} ({100 * self.level:.4g}% for a new "
            f"run: {between}) at {', '.join(inputs)}, {where}"
        )

    def made_of(self) -> str:
        """The runs, the law and the noise, in words."""
        laws = ", ".join(
            law + f" {weight:.0%}" * (len(self.weights) > 1)
            for law, weight in sorted(self.weights.items(), key=lambda item: -item[1])
        )
        return (
            f"{len(self.observed)} runs from {self.source}; law {laws}; run-to-run noise "
            f"{self.posterior.noise:.2%}"
        )

    def lines(self) -> list[str]:
        """What the interval rests on, and each point with what its width comes from."""
        lines = []
        if self.backtest is not None:
            far = np.exp(self.table["distance"].max())
            run = f"the {'farthest' if len(self.table) > 1 else 'forecast'} run is "
            run += f"{times(far)} beyond" if far > 1 else "within the runs"
            reached = times(np.exp(self.backtest.frame["distance"].max()))
            lines.append(
                f"backtest: {self.backtest.coverage()}; {run}, the backtest reached {reached}"
            )
        lines += [self.made_of(), *[f"prior: {self.prior}"] * bool(self.prior)]
        for _, row in self.table.iterrows():
            lines += [self._point(row)] * (len(self.table) > 1)
            lines.append(f"interval width: {_width(row)}")
        return lines


def _width(row: pd.Series, most: int = len(PARTS)) -> str:
    """What a width comes from, most of it first."""
    parts = row[list(PARTS)].astype(float).nlargest(most)
    return ", ".join(f"{n.removeprefix('from_')} {share:.0%}" for n, share in parts.items())


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
    """Forecast the target of larger runs, with an interval for a **new run**.

    The interval holds what the runs and the prior leave open of the law, what the law misses beyond
    the runs, and run-to-run noise; see the chapter ``jaxlaw/forecasting/README.md``. Three runs
    are enough: what they leave open is wide.

    Args:
        runs: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns.
        at: points: a dict of numbers or arrays that broadcast, or a table, with every input of the
            laws, in the units of the runs.
        laws: law or its name; of a list of them or a dict label → law, all of the same inputs, the
            one is taken of which there is most evidence; None takes the one of
            :data:`jaxlaw.forecasting.DEFAULT_LAWS` that suits the columns.
        prior: as :func:`jaxlaw.posterior` takes it: ``"field"``, public experiments; one's
            own earlier fits, or a folder of them; a :class:`jaxlaw.fitting.Prior`; or None.
        level: nominal coverage of the intervals.
        groups: columns whose rows are checkpoints of one run, or a label for each row.
        backtest: whether to backtest too (:func:`jaxlaw.backtest`).
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

    Shell:
        jaxlaw forecast runs.csv --at N=7e9,D=1e12 --out forecast.json
    """
    asked = ask(runs, laws, groups, reading)
    points = asked.points(at)
    prior = resolve_prior(prior, asked.seen)
    ((draws, weights, other),) = draws_each(asked, asked.seen.weight[None], prior, seed)
    notes = experiment_notes_of(asked, draws)
    counts = None if draws.conflict < OVERRULED else prior
    table, quantiles = _predicted(asked, draws, counts, points, level, seed)
    far, unit, fitted = table["distance"].idxmax(), draws.fit.target_unit, asked.fitted()
    if other is not None:
        instead, _ = _predicted(asked, other, None, points, level, seed)
        where, elsewhere = ("without", "with") if counts is None else ("with", "without")
        answer, opposite = (
            f"{written(one['estimate'][far], unit)} "
            f"({written_range(one['low'][far], one['high'][far], unit)})"
            for one in (table, instead)
        )
        notes.append(Note(
            "prior-conflict", "warning",
            f"these runs contradict the prior (p = {draws.conflict:.2g}): the forecast is {answer} "
            f"{where} it, and would be {opposite} {elsewhere} it; check runs, or use prior=None",
            inherited=True,
        ))  # fmt: skip
    away, span = table["distance"][far], np.ptp(asked.size(fitted))
    if away > _FARTHER * span:
        notes.append(Note(
            "farther-than-tested", "warning",
            f"the farthest point is {times(np.exp(away))} beyond the largest run, and the runs "
            f"span {times(np.exp(span))}: no backtest on them reaches that far, so the width there "
            "rests on the prior: make a larger run first",
            inherited=True,
        ))  # fmt: skip
    # The misfit is along the inputs by which runs grow, along epochs and continual tokens.
    growing = {"U", draws.law.continual_tokens, *growing_inputs(draws.law)}
    inputs = {n: v / draws.fit.units[n] for n, v in in_own_units(draws.fit, points).items()}
    for name, out in outside_range(draws.fit.ranges, {}, inputs).items():
        if name not in growing and out.any():
            at_worst = {n: float(v[np.argmax(out)]) for n, v in inputs.items()}
            seen = range_message(name, draws.fit.ranges, {}, at_worst, draws.fit.input_units())
            notes.append(Note(
                "unseen-input", "warning",
                f"{seen}: the interval leaves out model error in that direction; add a run there",
                inherited=False,
            ))  # fmt: skip
    notes += draws.notes
    notes += [note for note in asked.runs.notes if note.code == COLUMNS_TAKEN]
    law, tested = without_misfit(draws.law), None
    if backtest:
        tested = _backtest.backtest(
            asked.runs, laws, groups=groups, prior=prior, level=level, seed=seed
        )
    rows = sorted(fitted.itertuples(index=False, name=None), key=repr)  # in whatever order
    return Forecast(
        table=table, level=level, target=asked.seen.target_name, posterior=draws,
        weights=weights, quantiles=quantiles, observed=fitted, source=asked.runs.source,
        fingerprint=hashlib.sha256(repr((list(fitted), rows)).encode()).hexdigest(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        package_versions={"jaxlaw": __version__, "jax": jax.__version__, "numpy": np.__version__},
        notes=tuple(dict.fromkeys(notes)),
        prior=counts.rests_on(law) if counts and counts.knows(law) else "", backtest=tested,
    )  # fmt: skip


def _predicted(
    asked: Question, draws: Draws, prior: Prior | None, points: dict[str, np.ndarray],
    level: float, seed: int,
) -> tuple[pd.DataFrame, np.ndarray]:  # fmt: skip
    """The table of a forecast, and the quantiles (265, m) of new runs at its points."""
    plain, moved = (logs_of(draws, points, misfit=misfit) for misfit in (False, True))
    if not np.isfinite(moved).all():
        raise DataError("the law has no positive finite prediction at some of these points")
    quantiles = quantiles_of(moved, draws.sigma, seed)
    low, high = interval_at(quantiles, level)
    parameters, noise = plain.var(axis=0), np.mean(draws.sigma**2) * NU / (NU - 2)
    of_prior, law = np.zeros(len(low)), without_misfit(draws.law)
    if prior is not None and prior.knows(law) and not law.of_groups:
        # With c the covariance of a draw's coordinates z and its log at a point, and P that of the
        # prior, cᵀP⁻¹c is the part that the prior's term of the posterior's precision has.
        with in_float64():
            found = law.scale_free.of_params(draws.params)
        z = np.stack([found[name] for name in prior.coordinates_of(law)])
        c = (z - z.mean(axis=1, keepdims=True)) @ (plain - plain.mean(axis=0)) / len(plain)
        of_prior = (c * np.linalg.solve(prior.covariance_of(law), c)).sum(axis=0)
        of_prior = np.minimum(of_prior, parameters)
    parts = np.stack([
        parameters - of_prior, of_prior, (moved - plain).var(axis=0), np.full(len(low), noise)
    ])  # fmt: skip
    size = asked.size(points)
    largest = asked.size(asked.fitted()).max()
    distance = np.where(size > largest + _ROUNDING, size - largest, 0.0)
    return pd.DataFrame(points | {
        "distance": distance, "estimate": np.exp(np.median(moved, axis=0)),
        "low": low, "high": high, **dict(zip(PARTS, parts / parts.sum(axis=0), strict=True)),
    }), quantiles  # fmt: skip


def experiment_notes_of(asked: Question, draws: Draws) -> list[Note]:
    """What the runs say against the experiment: the checks that a fit runs, about the draws."""
    seen, law = asked.seen, without_misfit(draws.law)
    logs = logs_of(draws, asked.table(), misfit=False)
    centre = logs.mean(axis=0)
    # The directions in which draws vary are the slopes of the law, which take up no group of rows.
    count = min(len(law.parameters), len(seen))
    slopes = np.linalg.svd((logs[:_SLOPES] - centre).T, full_matrices=False)[0][:, :count]
    target = np.log(seen.target)
    residuals = Residuals.of(seen, target, target - centre, slopes, log=True)
    misfit = any(note.code == "lack-of-fit" for note in residual_notes(residuals))
    return experiment_notes(law, residuals, misfit=misfit)


# ---------------------------------------------------------------- finished runs


@checked
def score(
    forecasts: Any,
    runs: Any,
    *,
    rtol: Annotated[float, Between(0.0, 0.5)] = 0.02,
    **reading: Unpack[ReadingOptions],
) -> Backtest:
    """Score saved forecasts against the finished runs.

    Args:
        forecasts: forecast, its file (:meth:`jaxlaw.Forecast.save`), a folder of files, or a list
            of these.
        runs: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns, with the inputs of the forecasts and the target, in
            the forecasts' units unless ``units`` says otherwise.
        rtol: relative difference of each input up to which a run is one that was forecast: what
            was planned is rarely hit to the token.
        **reading: options of :func:`jaxlaw.read_runs`: columns, units, where …

    Returns:
        :class:`Backtest`, without cutoffs. A run that a forecast was fitted to is left out of it;
        a run that stands in the table twice, or a forecast that is given twice, counts once.

    Raises:
        UsageError: no forecast is given.
        DataError: a file is not a complete forecast, a column is missing, or no run is at a
            forecast's point.

    Example:
        >>> table = jl.simulate.experiment("chinchilla", noise=0.005).table
        >>> before, later = table[table["D"] < 5e10], table[table["D"] >= 5e10]
        >>> forecast = jl.forecast(before, at=later[["N", "D"]])
        >>> len(jl.forecasting.score(forecast, later).frame) == len(later)
        True

    Shell:
        jaxlaw score forecast.json later.csv
    """
    named = _named(forecasts)
    if not named:
        raise UsageError("there is no forecast to score")
    frames, fitted, seen_before = [], 0, set()
    for name, forecast in named.items():
        made = (forecast.fingerprint, forecast.quantiles.tobytes())
        if made in seen_before:
            continue
        seen_before.add(made)
        fit = forecast.posterior.fit
        seen = runs_for(fit, runs, reading).observations(fit.law, free=())
        points, own = (in_own_units(fit, one) for one in (forecast.table, forecast.observed))
        points = np.stack([*points.values()], axis=1)
        own = np.stack([*own.values(), forecast.observed[forecast.target]], axis=1)
        rows = np.stack([*(seen.inputs[name] for name in fit.law.input_names), seen.target], axis=1)
        off = _apart(rows[:, :-1], points)
        known = (_apart(rows, own) < SAME).any(axis=1)
        again = pd.DataFrame(rows).duplicated().to_numpy()
        at = (off.min(axis=1) <= rtol) & (seen.weight > 0) & ~again
        fitted += int((at & known).sum())
        kept = np.flatnonzero(at & ~known)
        point = off.argmin(axis=1)[kept]
        table = forecast.table.iloc[point]
        frames.append(frame_of(
            name, seen.rows[kept], table["distance"].to_numpy(), seen.target[kept],
            table["estimate"].to_numpy(), forecast.quantiles[:, point], forecast.level,
        ))  # fmt: skip
    frame = pd.concat(frames, ignore_index=True)
    if frame.empty:
        message = f"{fitted} runs are those that the forecasts were fitted to"
        if not fitted:
            message = (
                f"no run was made where there is a forecast, within {rtol:.0%} of every input: "
                "pass columns= and units=, or a larger rtol="
            )
        raise DataError(f"{seen.source}: {message}")
    notes = []
    if fitted:
        message = f"{fitted} runs that a forecast was fitted to are no forecasts and left out"
        notes.append(Note("fitted-runs", "info", message))
    return Backtest(frame, forecast.level, forecast.target, "", tuple(notes))


def _apart(rows: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(n, m) largest relative difference of (n, k) rows from (m, k) points."""
    size = np.maximum(np.abs(points), 1e-300)
    return (np.abs(rows[:, None] - points) / size).max(axis=2)


def _named(given: Any) -> dict[str, Forecast]:
    """Forecasts by their names: the numbers of those given, or the names of files."""
    found: dict[str, Forecast] = {}
    for k, one in enumerate([given] if isinstance(given, str | Path | Forecast) else given, 1):
        if isinstance(one, Forecast):
            found[str(k)] = one
            continue
        files = [Path(one)]
        if Path(one).is_dir():  # those files that are forecasts
            files = sorted(Path(one).glob("*.json"))
            files = [f for f in files if records.kind_of(records.read_record(f)) == "forecast"]
        found |= {str(file): Forecast.load(file) for file in files}
    return found
