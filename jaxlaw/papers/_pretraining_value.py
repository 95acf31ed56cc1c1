"""The value of a corpus by downstream scores: when to stop pretraining (Isik 2024, §3.4)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._arrays import numbers_of
from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE, checked_number
from jaxlaw._typed import Between, ConfidenceLevel, ResampleCount, Seed, checked
from jaxlaw.data import read_columns, read_runs, refuse_rows
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import Fit, FitOptions, fit, fit_many
from jaxlaw.notes import FitWarning, Note
from jaxlaw.planning import OldAnswer
from jaxlaw.uncertainty import (
    LEVEL,
    check_resamples,
    few_resamples_notes,
    interval_columns,
    resampled_residuals,
    with_intervals,
)

MISALIGNED = "suspect misalignment"


REACHED = "stop: target reached"


ALONE = "finetuning data alone suffice"


SATURATED = "stop: the score is saturated"


CONTINUE = "continue"


FEWEST = 3  # checkpoints that determine the law's three parameters


FIRST = 4  # checkpoints whose law the later ones are compared with, as in Isik 2024, §4


LEVEL_OF_ORDER = 0.01  # of the test whether scores fall, and of that whether they rise


PRIOR_DEGREES = 4  # of the scatter that the user knows, beside those of the rows


_BLEU = "downstream-bleu"


_VALUE_SEARCH = FitOptions(n_starts=256, n_local=8)  # 16 move no interval by more than 0.5 %


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Valuation(OldAnswer):
    """What to think of a pretraining corpus, by checkpoints finetuned on the task.

    Attributes:
        advice: ``continue``, ``stop: target reached``, ``stop: gains below …``, ``stop: the score
            is saturated``, ``suspect misalignment`` or ``finetuning data alone suffice``.
        reasons: grounds of the advice, in sentences.
        monotone: whether the score never falls by more than its scatter explains.
        scatter: share of the highest score by which one score scatters, of the rows and of the
            ``noise`` that is known beforehand.
        broken_at: Dp of the first checkpoint that falls short of what the law of the first four
            predicts; NaN: none does, or there are too few to decide.
        best: highest score so far.
        at: larger Dp at which the score is predicted.
        predicted: score there; NaN where the law does not apply.
        gain: predicted score there less that of the law at the last checkpoint.
        tokens_to_target: Dp at which the law reaches the target; infinite: at none that a
            number can hold; NaN without a target or a law.
        baseline: score without pretraining; NaN if not given.
        fit: fit of the score law on the checkpoints before a break, or None.
        cross_entropy_fit: fit of the downstream-ce law, where there is a cross-entropy.
        checkpoints: data in order: ``Dp``, ``score``, ``predicted`` from the first four,
            ``cross_entropy``; ``disagree`` where that fell while the score fell too.
        param_draws: parameters of the law on resampled residuals, name → (R,).

    Example:
        >>> data = {"Dp": [1e9, 4e9, 2e10, 8e10], "score": [10.0, 12.5, 10.1, 9.0]}
        >>> jl.papers.pretraining_value(data, n_resamples=0).monotone
        False
    """

    advice: str
    reasons: tuple[str, ...]
    monotone: bool
    scatter: float = field(metadata={"unit": SHARE})
    broken_at: float = field(metadata={"unit": "tokens"})
    best: float = field(metadata={"unit": ""})
    at: float = field(metadata={"unit": "tokens"})
    predicted: float = field(metadata={"unit": ""})
    gain: float = field(metadata={"unit": ""})
    tokens_to_target: float = field(metadata={"unit": "tokens"})
    baseline: float = field(metadata={"unit": ""})
    fit: Fit | None
    cross_entropy_fit: Fit | None
    checkpoints: pd.DataFrame
    param_draws: dict[str, np.ndarray] = field(default_factory=dict, metadata={"saved": False})
    picture = "value"
    column_units: ClassVar[Mapping[str, str]] = {
        "Dp": "tokens",
        "score": "",
        "cross_entropy": "nats",
    }

    def sentence(self) -> str:
        """The advice, and the score that it rests on."""
        if math.isnan(self.predicted):
            return f"{self.advice}; best score so far {self.written('best')}"
        score, best = self.written("predicted", level=True), self.written("best")
        return f"{self.advice}; score {score} at {self.written('at')}, {best} so far"

    def curve(self, Dp: Any) -> pd.DataFrame:
        """The law over (points,) Dp: ``Dp``, ``predicted``, and ``low``, ``high``.

        Raises:
            DataError: the law does not apply to these checkpoints.
        """
        if self.fit is None:
            raise DataError("the score is not monotone, so there is no law to draw")
        Dp = np.atleast_1d(numbers_of("Dp", Dp))
        params = {
            k: np.append(v, self.param_draws.get(k, ()))[:, None]
            for k, v in self.fit.params.items()
        }
        columns = interval_columns("predicted", _scores(params, Dp), self.level)
        return pd.DataFrame(
            {"Dp": Dp} | {k.removeprefix("predicted_"): v for k, v in columns.items()}
        )

    def lines(self) -> list[str]:
        """What the advice rests on, and the numbers there are."""
        return [*(f"  {reason}" for reason in self.reasons), *self._known_lines()]


@checked
def pretraining_value(
    checkpoints: Any,
    *,
    at: float | None = None,
    target: float | None = None,
    least_gain: float | None = None,
    baseline: float | None = None,
    columns: Mapping[str, str] | None = None,
    noise: Annotated[float, Between(0, 10)] = 0.01,
    shortfall: float = 0.1,
    n_resamples: ResampleCount = 400,
    seed: Seed = 0,
    level: ConfidenceLevel = LEVEL,
) -> Valuation:
    """Whether to go on pretraining on a corpus, for the sake of a task.

    The score law (log(A·Dp^α))^β is fitted to checkpoints finetuned on the task. Where the score
    falls as pretraining goes on, or a checkpoint falls short of what the law of the first four
    predicts (§4), the corpus is suspect; where it is constant, as with much finetuning data, more
    of the corpus is not needed (§5); else the law of all says what more of it would bring.

    Falls and rises are judged against scores that are constant and scatter as these do: they
    count where fewer than 1 in 100 of such corpora fall or rise as far.

    Args:
        checkpoints: file, table or dict with ``Dp`` (pretraining tokens) and ``score`` (BLEU or
            another that grows); ``cross_entropy`` where there is one. Three rows or more.
        at: larger Dp to predict; left out, twice the last one.
        target: score that is wanted.
        least_gain: least gain, from the last checkpoint to ``at``, that is worth the tokens.
        baseline: score of the same model without pretraining, trained on the task alone.
        columns: name → column, where they are called otherwise.
        noise: share of the highest score by which one score scatters, as known beforehand
            (finetuned again, say); it weighs as much as four further checkpoints. Where scores
            scatter by more, give it: four of 2 % are taken for falling in 3 of 10 corpora.
        shortfall: log of predicted over observed score beyond which the law breaks. At 0.1,
            scores that obey the law break it by chance in at most 3 of 100 corpora where they
            scatter by 1 %, in 6 to 21 where by 2 % (eight checkpoints over two decades).
        n_resamples: number of resamples of the residuals, for intervals; 0 for none.
        seed: seed of the resamples.
        level: confidence level of the intervals.

    Returns:
        Valuation.

    Raises:
        UsageError: an argument is none of its kind.
        DataError: a column is missing, fewer than three checkpoints, or numbers that are none.

    Example:
        >>> data = {"Dp": [1e9, 4e9, 2e10, 8e10], "score": [10.0, 12.5, 10.1, 9.0]}
        >>> jl.papers.pretraining_value(data, n_resamples=0).advice
        'suspect misalignment'

    Shell:
        jaxlaw plan pretraining-value checkpoints.csv --target 25 --baseline 12 --at 1e12
    """
    for name, value in (("target", target), ("least_gain", least_gain), ("baseline", baseline)):
        if value is not None:
            checked_number(name, value, "positive" if name == "target" else "nonnegative")
    if not noise < 1:
        raise UsageError(
            f"noise is {noise:g}; it must be a share of the highest score, below 1",
            argument="noise",
            value=noise,
        )
    if not shortfall >= 0:
        raise UsageError(
            f"shortfall is {shortfall:g}; it must be 0 or more",
            argument="shortfall",
            value=shortfall,
        )
    check_resamples(n_resamples)
    table = _read_checkpoints(checkpoints, columns or {})
    last = float(table["Dp"].iloc[-1])
    at = checked_number("at", 2 * last if at is None else at)
    if at <= last:
        raise UsageError(
            f"at is {at:g}; it must be more than the last checkpoint's {last:g}",
            argument="at",
            value=at,
        )

    scores = table["score"].to_numpy()
    drops = np.maximum.accumulate(scores) - scores
    order = _order(np.log(table["Dp"].to_numpy()), scores / scores.max(), noise)
    monotone = not order.falls
    best = float(scores.max())
    kept, draws, law_fit, broken = table, {}, None, math.nan
    if monotone:
        versions = _Versions(table)
        table["predicted"] = versions.by_first(n_resamples)
        short = np.log(table["predicted"] / table["score"]).to_numpy() > shortfall
        if short.any() and not order.flat:  # else the first four rose by scatter
            broken = float(table["Dp"].iloc[int(np.argmax(short))])
            kept = table[table["Dp"] < broken]
        with warnings.catch_warnings():
            if order.flat:  # no law explains what is scatter alone
                warnings.simplefilter("ignore", FitWarning)
            law_fit = fit(laws.built_in(_BLEU), _as_bleu(kept))
        draws = versions.resampled(law_fit, len(kept), n_resamples, seed)
    values = _value_numbers(law_fit, draws, last, at, target)
    ce_fit = _fit_cross_entropy(table, math.inf if monotone else noise * best)
    advice, reasons = _advice(table, order, drops, broken, values, at, target, least_gain, baseline)
    return Valuation(
        **with_intervals(values, level), advice=advice, reasons=tuple(reasons), monotone=monotone,
        scatter=order.scatter, broken_at=broken, best=best, at=at,
        baseline=math.nan if baseline is None else float(baseline),
        fit=law_fit, cross_entropy_fit=ce_fit, checkpoints=table, param_draws=draws, binding=advice,
        units=Valuation.single_units(),
        notes=(
            *_value_notes(law_fit, table, kept, draws, at, order.flat),
            *few_resamples_notes(len(next(iter(draws.values()), ())), level),
        ),
    )  # fmt: skip


def _read_checkpoints(checkpoints: Any, columns: Mapping[str, str]) -> pd.DataFrame:
    """Checkpoints by Dp."""
    needed = dict.fromkeys(("Dp", "score"), ", of the finetuned checkpoints")
    runs = read_columns(checkpoints, needed, ("cross_entropy",), columns, name="checkpoints")
    for name, values in runs.table.items():
        bad = ~(np.isfinite(values) & (values > 0)).to_numpy()
        refuse_rows(runs, str(name), bad, "checkpoints need finite numbers above 0")
    table = runs.table.sort_values("Dp", kind="stable", ignore_index=True)
    if len(table) < FEWEST:
        raise DataError(
            f"{len(table)} checkpoints cannot determine the law's three parameters; finetune "
            f"{FEWEST} or more"
        )
    if table["Dp"].duplicated().any():
        again = table["Dp"][table["Dp"].duplicated()].iloc[0]
        raise DataError(
            "several checkpoints have the same Dp; give their mean score once",
            file=runs.source,
            row=runs.table.index[runs.table["Dp"] == again][1],
            column=runs.columns["Dp"],
            value=again,
        )
    return table


class _Order(NamedTuple):
    """Whether scores fall and rise by more than their scatter, which is a share of one score."""

    falls: bool
    rises: bool
    scatter: float

    @property
    def flat(self) -> bool:
        return not (self.falls or self.rises)


def _order(x: np.ndarray, y: np.ndarray, noise: float, versions: int = 1000) -> _Order:
    """A Monte Carlo test of scores (n,) over x against constants that scatter as they do.

    They fall by what the closest curve that never falls leaves of them, and rise by how far that
    curve moves, both in units of the scatter.
    """
    scales = _Scatter(x, noise)
    fall, rise = _moves(y[None])
    variance = scales.variance(y[None])
    null = np.sqrt(variance) * np.random.default_rng(0).standard_normal((versions, len(y)))
    usual = scales.variance(null)
    falls, rises = (
        bool((of_null / usual >= of_scores / variance).mean() < LEVEL_OF_ORDER)
        for of_null, of_scores in zip(_moves(null), (fall, rise), strict=True)
    )
    return _Order(falls, rises, float(np.sqrt(variance[0])))


def _moves(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of squares of (versions, n) rows: off their isotonic curve, and of that curve."""
    from scipy.optimize import isotonic_regression

    curves = np.array([isotonic_regression(row).x for row in rows])
    return ((rows - curves) ** 2).sum(axis=1), curves.var(axis=1) * rows.shape[1]


class _Scatter:
    """The scatter of rows around two straight lines, the best break between them searched.

    Around one line a sudden fall would be scatter itself. The two and their break are five
    parameters, which leave n − 5 degrees of freedom; what is known beforehand adds its own.
    """

    def __init__(self, x: np.ndarray, noise: float) -> None:
        x, steps = x - x.mean(), np.arange(len(x))
        self.known = PRIOR_DEGREES * noise**2
        self.degrees = PRIOR_DEGREES + max(len(x) - 5, 0)
        breaks = [steps < k for k in range(2, len(x) - 1)]
        lines = [(left, left * x, ~left, ~left * x) for left in breaks]
        self.bases = [np.linalg.qr(np.array(columns, float).T)[0] for columns in lines]

    def variance(self, rows: np.ndarray) -> np.ndarray:
        """(versions,) variances of one score, of (versions, n) rows."""
        left = [((rows - rows @ basis @ basis.T) ** 2).sum(axis=1) for basis in self.bases]
        least = np.min(left, axis=0) if left else 0.0
        return np.maximum((self.known + least) / self.degrees, 1e-18) * np.ones(len(rows))


def _as_bleu(table: pd.DataFrame) -> pd.DataFrame:
    return table[["Dp", "score"]].rename(columns={"score": "BLEU"})


class _Versions:
    """Refits of the score law to all checkpoints; versions of one shape share their programs."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.law = laws.built_in(_BLEU)
        self.observations = read_runs(_as_bleu(table)).observations(self.law)

    def refitted(self, weights: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
        """Parameters (versions,) for weights and targets (versions, n)."""
        return fit_many(self.law, self.observations, weights, targets, _VALUE_SEARCH).params

    def by_first(self, versions: int) -> np.ndarray:
        """The later scores as the law of the first few predicts them; NaN for the first.

        That one law is fitted as often as there will be resamples, so that both are one program.
        """
        Dp, score = self.observations.inputs["Dp"], self.observations.target
        predicted, every = np.full(len(Dp), np.nan), np.ones((max(versions, 1), 1))
        if len(Dp) > FIRST:
            params = self.refitted(every * (np.arange(len(Dp)) < FIRST), every * score)
            predicted[FIRST:] = _scores({k: v[0] for k, v in params.items()}, Dp[FIRST:])
        return predicted

    def resampled(self, law_fit: Fit, kept: int, count: int, seed: int) -> dict[str, np.ndarray]:
        """Parameters on residuals resampled around the law, as wide as if it had not seen them."""
        spare = kept - len(law_fit.params)
        if spare < 1 or count < 1:
            return {}
        predicted = np.log(law_fit.predict(Dp=self.observations.inputs["Dp"]))
        residuals = (np.log(self.observations.target) - predicted)[:kept]
        residuals = (residuals - residuals.mean()) * math.sqrt(kept / spare)
        # jaxlaw.bootstrap would compile for every number of rows kept: these are versions of one
        # shape, refitted by the program that has fitted the first checkpoints.
        drawn = resampled_residuals(residuals, count, seed, size=len(predicted), degrees=spare)
        weights = np.tile(np.arange(len(predicted)) < kept, (count, 1)).astype(float)
        return self.refitted(weights, np.exp(predicted + drawn))


def _scores(params: Mapping[str, np.ndarray], Dp: Any) -> np.ndarray:
    with in_float64():
        return np.asarray(laws.built_in(_BLEU)(dict(params), Dp=jnp.asarray(Dp, float)))


def _value_numbers(
    law_fit: Fit | None, draws: Mapping[str, np.ndarray], last: float, at: float,
    target: float | None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Score at the larger Dp, gain and tokens to the target, each (1 + R,)."""
    if law_fit is None:
        return dict.fromkeys(("predicted", "gain", "tokens_to_target"), np.array([np.nan]))
    params = {name: np.append(v, draws.get(name, ())) for name, v in law_fit.params.items()}
    predicted, now = _scores(params, at), _scores(params, last)
    tokens = np.full(len(predicted), np.nan)
    if target is not None:
        with np.errstate(over="ignore"):
            logarithm = target ** (1 / params["beta"])  # of A·Dp^α
            tokens = np.exp((logarithm - params["log_A"]) / params["alpha"])
    return {"predicted": predicted, "gain": predicted - now, "tokens_to_target": tokens}


def _fit_cross_entropy(table: pd.DataFrame, slack: float) -> Fit | None:
    """The law of the cross-entropy; marks where it fell while the score fell too."""
    if "cross_entropy" not in table:
        return None
    worse = np.append(False, np.diff(table["score"]) < -slack)
    table["disagree"] = worse & np.append(False, np.diff(table["cross_entropy"]) < 0)
    renamed = table[["Dp", "cross_entropy"]].rename(columns={"cross_entropy": "cross-entropy"})
    return fit(laws.built_in("downstream-ce"), renamed)


def _value_notes(
    law_fit: Fit | None, table: pd.DataFrame, kept: pd.DataFrame, draws: Mapping[str, np.ndarray],
    at: float, flat: bool,
) -> list[Note]:  # fmt: skip
    notes = []
    if law_fit is not None:
        if not flat:  # the parameters of a constant are loose, and its R² is nothing
            notes += [note for note in law_fit.notes if note.severity != "info"]
        low, high = kept["Dp"].iloc[0], kept["Dp"].iloc[-1]
        if len(kept) <= len(law_fit.params):
            message = f"{len(kept)} checkpoints determine the law exactly: there is no interval"
            notes.append(Note("no-interval", "warning", message))
        if at > 10 * high:
            message = f"Dp = {at:.3g} is far beyond the checkpoints ({low:.3g} to {high:.3g})"
            notes.append(Note("extrapolation", "warning", message))
    if "disagree" in table and table["disagree"].any():
        listed = ", ".join(f"{value:.3g}" for value in table["Dp"][table["disagree"]])
        message = (
            f"the cross-entropy fell and the score with it at Dp = {listed}: by the cross-entropy "
            "alone the corpus would seem to help (Isik 2024, §3.2)"
        )
        notes.append(Note("metrics-disagree", "warning", message))
    return notes


def _advice(
    table: pd.DataFrame, order: _Order, drops: np.ndarray, broken: float,
    values: Mapping[str, np.ndarray], at: float, target: float | None, least_gain: float | None,
    baseline: float | None,
) -> tuple[str, list[str]]:  # fmt: skip
    """The advice, and why."""
    reasons, scores = [], table["score"].to_numpy()
    predicted, gain = float(values["predicted"][0]), float(values["gain"][0])
    # Of constant scores the highest is so by chance.
    level, what = (
        (scores.mean(), "the mean score") if order.flat else (scores.max(), "the best checkpoint")
    )
    slack = 2 * order.scatter * scores.max()  # two standard errors of one score
    alone = baseline is not None and level <= baseline + slack
    if baseline is not None:
        word = "no better than" if alone else f"{level - baseline:.4g} above"
        reasons.append(f"{what} ({level:.4g}) is {word} no pretraining at all ({baseline:.4g})")
    if order.falls:
        worst = int(drops.argmax())
        reasons.append(
            f"the score is not monotone: at Dp = {table['Dp'][worst]:.3g} it is "
            f"{drops[worst]:.4g} below an earlier one, more than a scatter of {order.scatter:.1%} "
            "explains, so the law does not apply"
        )
    elif order.flat:
        reasons.append(
            f"the score is constant within its scatter ({order.scatter:.1%}): more of "
            "the corpus is not needed, and with enough finetuning data none is"
            + ("; baseline= would show it" if baseline is None else "")
        )
    elif not math.isnan(broken):
        reasons.append(
            f"the law breaks at Dp = {broken:.3g}: the score falls short of what the law of the "
            f"first {FIRST} checkpoints predicts"
        )
    else:
        reasons.append(
            f"the law holds, and predicts {predicted:.4g} at Dp = {at:.3g}, a gain of {gain:.4g}"
        )
    if target is not None and scores.max() >= target:
        return REACHED, [f"the score of {scores.max():.4g} is at the target, {target:g}", *reasons]
    if order.falls or not math.isnan(broken):
        return MISALIGNED, reasons
    if alone and (order.flat or predicted <= baseline + slack):
        return ALONE, reasons
    if order.flat:
        return SATURATED, reasons
    if target is not None and predicted < target:
        tokens = values["tokens_to_target"][0]
        reasons.append(f"the target {target:g} would take Dp = {tokens:.3g}")
        if least_gain is None and at > 2 * table["Dp"].iloc[-1]:
            return "stop: gains below the target", reasons
    if least_gain is not None and gain < least_gain:
        return f"stop: gains below {least_gain:g}", reasons
    return CONTINUE, reasons
