"""What a pretraining corpus is worth for a task: the guide of Isik 2024, §3.4, as one call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._jit import in_float64
from jaxlaw._typed import Between, ConfidenceLevel, ResampleCount, Seed, checked
from jaxlaw.data._columns import missing_column
from jaxlaw.data._runs import read_runs
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting._fit import fit
from jaxlaw.fitting._fit_many import refit
from jaxlaw.fitting._result import Fit
from jaxlaw.notes import Note
from jaxlaw.planning._answers import LEVEL, Answer, in_domain, measured, on_resamples

MISALIGNED = "suspect misalignment"
REACHED = "stop: target reached"
ALONE = "finetuning data alone suffice"
CONTINUE = "continue"
FEWEST = 3  # checkpoints that determine the law's three parameters
FIRST = 4  # checkpoints whose law the later ones are held against, as in Isik 2024, §4
_SEARCH = {"n_starts": 256, "screen": 8}  # 16 move no interval by more than 0.5 %


@dataclass(frozen=True, eq=False, kw_only=True)
class Valuation(Answer):
    """What to think of a pretraining corpus, by checkpoints finetuned on the task.

    Attributes:
        advice: ``continue``, ``stop: target reached``, ``stop: gains below …``, ``suspect
            misalignment`` or ``finetuning data alone suffice``.
        reasons: what it rests on, in sentences.
        monotone: whether the score never falls by more than the noise.
        broken_at: Dp of the first checkpoint that falls short of what the law of the first four
            predicts; NaN: none does, or there are too few to tell.
        best: the highest score so far.
        at: the larger Dp asked about.
        predicted: score there; NaN where the law does not apply.
        gain: by which it exceeds the law at the last checkpoint.
        tokens_to_target: Dp at which the law reaches the target; infinite: at none that a
            number can hold; NaN without a target or a law.
        baseline: score without pretraining; NaN if not given.
        fit: of the score law on the checkpoints before a break, or None.
        cross_entropy_fit: of the downstream-ce law, where there is a cross-entropy.
        checkpoints: the data in order: ``Dp``, ``score``, ``predicted`` from the first four,
            ``cross_entropy``; ``disagree`` where that fell while the score fell too.
        draws: the law's parameters on resampled residuals, name → (R,).
    """

    advice: str
    reasons: tuple[str, ...]
    monotone: bool
    broken_at: float
    best: float
    at: float
    predicted: float
    gain: float
    tokens_to_target: float
    baseline: float
    fit: Fit | None
    cross_entropy_fit: Fit | None
    checkpoints: pd.DataFrame
    draws: dict[str, np.ndarray]

    def curve(self, Dp: Any) -> pd.DataFrame:
        """The law over (points,) Dp: ``Dp``, ``predicted``, and ``low``, ``high``.

        Raises:
            DataError: the law does not apply to these checkpoints.
        """
        if self.fit is None:
            raise DataError("the score is not monotone, so there is no law to draw")
        Dp = np.atleast_1d(np.asarray(Dp, float))
        table = pd.DataFrame({"Dp": Dp, "predicted": self.fit.predict(Dp=Dp)})
        if self.draws:
            each = _scores({k: v[:, None] for k, v in self.draws.items()}, Dp)
            ends = ((1 - self.level) / 2, (1 + self.level) / 2)
            table["low"], table["high"] = np.quantile(each, ends, axis=0)
        return table

    def summary(self) -> str:
        """The advice, what it rests on, and the numbers there are, for people."""
        head = [f"advice: {self.advice}", *(f"  {one}" for one in self.reasons)]
        there = {name: v for name, v in self.quantities.items() if not math.isnan(v)}
        lines = [self._line(name, value) for name, value in there.items()]
        return "\n".join([*head, *lines, *map(str, self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings."""
        own = {"advice": self.advice, "reasons": [*self.reasons], "monotone": self.monotone}
        return own | super().to_dict()


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
    resamples: ResampleCount = 400,
    seed: Seed = 0,
    level: ConfidenceLevel = LEVEL,
) -> Valuation:
    """Whether to go on pretraining on a corpus, for the sake of a task.

    The score law (log(A·Dp^α))^β is fitted to checkpoints finetuned on the task. Where the score
    falls as pretraining goes on, or a checkpoint falls short of what the law of the first four
    predicts (§4), the corpus is suspect; else the law of all says what more of it would bring.

    Args:
        checkpoints: file, table or dict with ``Dp`` (pretraining tokens) and ``score`` (BLEU or
            another that grows); ``cross_entropy`` where there is one. Three rows or more.
        at: a larger Dp to predict; twice the last one if None.
        target: the score that is wanted.
        least_gain: the least gain from the last checkpoint to ``at`` that is worth the tokens.
        baseline: score of the same model without pretraining, trained on the task alone.
        columns: name → column, where they are called otherwise.
        noise: falls of the score up to this share of the highest are taken for noise.
        shortfall: log of predicted over observed score beyond which the law breaks. At 0.1,
            scores that obey the law break it by chance in at most 3 of 100 corpora where they
            scatter by 1 %, in 6 to 21 where by 2 % (eight checkpoints over two decades).
        resamples: of the residuals, for intervals; seed: of them.
        level: of the intervals.

    Raises:
        UsageError: an argument is none of its kind.
        DataError: a column is missing, fewer than three checkpoints, or numbers that are none.
    """
    _check(target, least_gain, baseline, noise, shortfall, resamples)
    table = _read(checkpoints, columns or {})
    last = float(table["Dp"].iloc[-1])
    at = in_domain("at", 2 * last if at is None else at)
    if at <= last:
        raise UsageError(f"at is {at:g}; it must be more than the last checkpoint's {last:g}")
    scores = table["score"].to_numpy()
    best, slack = float(scores.max()), noise * float(scores.max())
    falls = np.maximum.accumulate(scores) - scores
    monotone = bool(falls.max() <= slack)
    kept, draws, law_fit, broken = table, {}, None, math.nan
    if monotone:
        table["predicted"], model = _from_first(table, resamples)
        short = np.log(table["predicted"] / table["score"]).to_numpy() > shortfall
        if short.any():
            broken = float(table["Dp"].iloc[int(np.argmax(short))])
            kept = table[table["Dp"] < broken]
        law_fit = fit(laws.built_in("downstream-bleu"), model.renamed(kept))
        draws = _draws(model, law_fit, len(kept), resamples, seed)
    values = _numbers(law_fit, draws, last, at, target)
    ce_fit = _cross_entropy(table, slack)
    notes = [*_on_law(law_fit, kept, draws, at), *_on_metrics(table)]
    advice, reasons = _advice(
        table, monotone, falls, broken, values, best, slack, at, target, least_gain, baseline
    )
    found = measured(values, level)
    notes += on_resamples(len(next(iter(draws.values()), ())), level)
    return Valuation(
        **found, advice=advice, reasons=tuple(reasons), monotone=monotone, broken_at=broken,
        best=best, at=at, baseline=math.nan if baseline is None else float(baseline),
        fit=law_fit, cross_entropy_fit=ce_fit, checkpoints=table, draws=draws,
        binding=advice, notes=tuple(notes),
    )  # fmt: skip


def _check(
    target: float | None, least_gain: float | None, baseline: float | None, noise: float,
    shortfall: float, resamples: int,
) -> None:  # fmt: skip
    """Refuse what is no score, no gain, no share, or no sample."""
    for name, value in (("target", target), ("least_gain", least_gain), ("baseline", baseline)):
        if value is not None:
            in_domain(name, value, "positive" if name == "target" else "nonnegative")
    if not noise < 1:
        raise UsageError(f"noise is {noise:g}; it must be a share of the highest score, below 1")
    if not shortfall >= 0:
        raise UsageError(f"shortfall is {shortfall:g}; it must be 0 or more")
    if resamples == 1:
        raise UsageError("one resample has no spread: use 0, for no interval, or hundreds")


def _read(checkpoints: Any, columns: Mapping[str, str]) -> pd.DataFrame:
    """Checkpoints by Dp."""
    table = read_runs(checkpoints).table if not isinstance(checkpoints, Mapping) else checkpoints
    if isinstance(table, Mapping):
        try:
            table = pd.DataFrame(dict(table))
        except (TypeError, ValueError) as error:
            raise DataError(f"checkpoints are no table: {error}") from None
    wanted, found = ("Dp", "score", "cross_entropy"), {}
    for name in columns:
        if name not in wanted:
            raise UsageError(
                f"checkpoints take the columns {', '.join(wanted)}, not '{name}'."
                f"{nearest(name, wanted)}"
            )
    for name in wanted:
        column = columns.get(name, name)
        if column in table:
            found[name] = np.asarray(pd.to_numeric(table[column], errors="coerce"), float)
        elif name != "cross_entropy" or name in columns:
            doc = ", of the finetuned checkpoints"
            raise missing_column(name, doc, column, table.columns, "checkpoints")
    table = pd.DataFrame(found).sort_values("Dp", kind="stable", ignore_index=True)
    bad = ~(np.isfinite(table.to_numpy()) & (table.to_numpy() > 0)).all(axis=1)
    if bad.any():
        row = table[bad].iloc[0].to_dict()
        raise DataError(f"checkpoints need finite numbers above 0; one has {row}")
    if len(table) < FEWEST:
        raise DataError(
            f"{len(table)} checkpoints cannot determine the law's three parameters; finetune "
            f"{FEWEST} or more"
        )
    if table["Dp"].duplicated().any():
        raise DataError("several checkpoints have the same Dp; give their mean score once")
    return table


class _Model:
    """The score law's problem on all checkpoints; versions of one shape share its programs."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.law = laws.built_in("downstream-bleu")
        self.observations = read_runs(self.renamed(table)).observations(self.law)

    @staticmethod
    def renamed(table: pd.DataFrame) -> pd.DataFrame:
        return table[["Dp", "score"]].rename(columns={"score": "BLEU"})

    def refitted(self, weights: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
        return refit(self.law, self.observations, weights, targets, **_SEARCH).params


def _from_first(table: pd.DataFrame, versions: int) -> tuple[np.ndarray, _Model]:
    """The later scores as the law of the first few predicts them; NaN where there are none later.

    That one law is fitted as often as there will be resamples, so that both are one program.
    """
    model, size = _Model(table), len(table)
    predicted = np.full(size, np.nan)
    if size > FIRST:
        every = np.ones((max(versions, 1), 1))
        params = model.refitted(
            every * (np.arange(size) < FIRST), every * table["score"].to_numpy()
        )
        mine = {name: values[0] for name, values in params.items()}
        predicted[FIRST:] = _scores(mine, table["Dp"].to_numpy()[FIRST:])
    return predicted, model


def _draws(model: _Model, law_fit: Fit, kept: int, count: int, seed: int) -> dict[str, np.ndarray]:
    """Parameters on residuals resampled around the law, widened for those it has fitted away.

    Each resample has a scale of its own besides: a few checkpoints do not tell the noise, and as
    the quantiles of Student's t are to those of the normal, so are these wider.
    :func:`jaxlaw.bootstrap` draws residuals without such a scale, and would compile for the
    checkpoints kept; these run in the program that has fitted the first checkpoints.
    """
    spare = kept - len(law_fit.params)
    if spare < 1 or count < 1:
        return {}
    seen = model.observations
    predicted = np.log(law_fit.predict(Dp=seen.inputs["Dp"]))
    left = (np.log(seen.target) - predicted)[:kept]
    left = (left - left.mean()) * math.sqrt(kept / spare)
    random = np.random.default_rng(seed)
    picked = random.integers(kept, size=(count, len(seen)))
    scale = np.sqrt(spare / random.chisquare(spare, (count, 1)))
    weights = np.tile(np.arange(len(seen)) < kept, (count, 1)).astype(float)
    return model.refitted(weights, np.exp(predicted + scale * left[picked]))


def _scores(params: Mapping[str, np.ndarray], Dp: Any) -> np.ndarray:
    with in_float64():
        return np.asarray(laws.built_in("downstream-bleu")(dict(params), Dp=jnp.asarray(Dp, float)))


def _numbers(
    law_fit: Fit | None, draws: Mapping[str, np.ndarray], last: float, at: float,
    target: float | None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Score at the larger Dp, gain and tokens to the target, each (1 + R,)."""
    if law_fit is None:
        return dict.fromkeys(("predicted", "gain", "tokens_to_target"), np.array([np.nan]))
    params = {
        name: np.append(value, draws.get(name, np.zeros(0)))
        for name, value in law_fit.params.items()
    }
    predicted, now = _scores(params, at), _scores(params, last)
    tokens = np.full(len(predicted), np.nan)
    if target is not None:
        with np.errstate(over="ignore"):
            logarithm = target ** (1 / params["beta"])  # of A·Dp^α
            tokens = np.exp((logarithm - params["log_A"]) / params["alpha"])
    return {"predicted": predicted, "gain": predicted - now, "tokens_to_target": tokens}


def _cross_entropy(table: pd.DataFrame, slack: float) -> Fit | None:
    """The law of the cross-entropy; marks where it fell while the score fell too."""
    if "cross_entropy" not in table:
        return None
    worse = np.append(False, np.diff(table["score"]) < -slack)
    table["disagree"] = worse & np.append(False, np.diff(table["cross_entropy"]) < 0)
    renamed = table[["Dp", "cross_entropy"]].rename(columns={"cross_entropy": "cross-entropy"})
    return fit(laws.built_in("downstream-ce"), renamed)


def _on_law(
    law_fit: Fit | None, kept: pd.DataFrame, draws: Mapping[str, np.ndarray], at: float
) -> list[Note]:
    if law_fit is None:
        return []
    notes = [note for note in law_fit.notes if note.severity != "info"]
    if not draws:
        message = f"{len(kept)} checkpoints determine the law exactly: there is no interval"
        notes.append(Note("no-interval", "warning", message))
    low, high = kept["Dp"].iloc[0], kept["Dp"].iloc[-1]
    if at > 10 * high:
        message = f"Dp = {at:.3g} is far beyond the checkpoints ({low:.3g} to {high:.3g})"
        notes.append(Note("extrapolation", "warning", message))
    return notes


def _on_metrics(table: pd.DataFrame) -> list[Note]:
    if "disagree" not in table or not table["disagree"].any():
        return []
    at = ", ".join(f"{value:.3g}" for value in table["Dp"][table["disagree"]])
    message = (
        f"the cross-entropy fell and the score with it at Dp = {at}: by the cross-entropy alone "
        "the corpus would seem to help (Isik 2024, §3.2)"
    )
    return [Note("metrics-disagree", "warning", message)]


def _advice(
    table: pd.DataFrame, monotone: bool, falls: np.ndarray, broken: float,
    values: Mapping[str, np.ndarray], best: float, slack: float, at: float,
    target: float | None, least_gain: float | None, baseline: float | None,
) -> tuple[str, list[str]]:  # fmt: skip
    """The advice, and why."""
    reasons = []
    predicted, gain = float(values["predicted"][0]), float(values["gain"][0])
    alone = baseline is not None and best <= baseline + slack
    if baseline is not None:
        word = "no better than" if alone else f"{best - baseline:.4g} above"
        reasons.append(f"the best checkpoint ({best:.4g}) is {word} no pretraining at all "
                       f"({baseline:.4g})")  # fmt: skip
    if not monotone:
        worst = int(falls.argmax())
        reasons.append(
            f"the score is not monotone: at Dp = {table['Dp'][worst]:.3g} it is "
            f"{falls[worst]:.4g} below an earlier one, so the law does not apply"
        )
    elif not math.isnan(broken):
        reasons.append(f"the law breaks at Dp = {broken:.3g}: the score falls short of what the "
                       f"law of the first {FIRST} checkpoints predicts")  # fmt: skip
    else:
        reasons.append(f"the law holds, and predicts {predicted:.4g} at Dp = {at:.3g}, a gain of "
                       f"{gain:.4g}")  # fmt: skip
    if target is not None and best >= target:
        return REACHED, [f"the score of {best:.4g} is at the target, {target:g}", *reasons]
    if not monotone or not math.isnan(broken):
        return MISALIGNED, reasons
    if alone and predicted <= baseline + slack:
        return ALONE, reasons
    if target is not None and predicted < target:
        tokens = values["tokens_to_target"][0]
        reasons.append(f"the target {target:g} would take Dp = {tokens:.3g}")
        if least_gain is None and at > 2 * table["Dp"].iloc[-1]:
            return "stop: gains below the target", reasons
    if least_gain is not None and gain < least_gain:
        return f"stop: gains below {least_gain:g}", reasons
    return CONTINUE, reasons
