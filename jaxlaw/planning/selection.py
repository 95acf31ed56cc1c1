"""Which of several models, or corpora, is best with all data, from losses or scores on little."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jaxlaw import _json as records
from jaxlaw import laws
from jaxlaw._typed import ConfidenceLevel, ResampleCount, Seed, checked
from jaxlaw.data._columns import missing_column
from jaxlaw.data._runs import read_runs
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting._fit_many import Refits, refit, refit_near
from jaxlaw.fitting.solvers._status import CONVERGED
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    LEVEL,
    SAME,
    Answer,
    in_domain,
    on_resamples,
    percentiles_of,
    with_ends,
)

FAR = 10  # times the most data seen: an extrapolation to doubt
APART = 0.05  # of the resamples: who is ahead in more may be the better model
CHANCE = 0.01  # that of models of one scatter some is told to have its own
_SEARCH = {"n_starts": 512, "screen": 32}
_SHOWN = 5  # models named in a note
FALLS = 0.01  # of the highest score: a larger fall is none of the noise
_COLUMNS = {"model": ", which tells models apart", "D": ", the amount of data"}


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelChoice(Answer):
    """The model that a law has best at the full size, and how sure that is.

    The best is the lowest loss or, by a law of a score, the highest score.

    Attributes:
        chosen: its name.
        at: the full size, in the unit of D.
        predicted: its loss (or score) there, by its law.
        corrected: the same without the optimism of a best prediction: of many, the one that
            errs that way is chosen. The interval of ``predicted`` is moved by as much.
        probability: share of the resamples in which it is the best.
        regret: mean over the resamples of what it is behind the best; interval: likewise.
        table: the models, the best first: ``model``, ``rows``, ``D`` (the largest seen),
            ``predicted`` at the full size (``predicted_low``, ``predicted_high``), ``best``
            (share of the resamples in which it is), ``scatter`` (RMS of log residuals, by the
            degrees of freedom).
        data: rows that were fitted: ``model``, ``D``, ``loss`` (or ``score``).
        law: the law's name.
        target: what it predicts.
    """

    chosen: str
    at: float
    predicted: float
    corrected: float
    probability: float
    regret: float
    table: pd.DataFrame
    data: pd.DataFrame
    law: str
    target: str
    _fits: _Fitted

    def curves(self, D: Any) -> pd.DataFrame:
        """Losses or scores by the laws at (points,) D: a column a model, the best first; ``D``."""
        D = np.atleast_1d(np.asarray(D, float))
        found = dict(zip(self._fits.models, self._fits.predict(D), strict=True))
        return pd.DataFrame({"D": D} | {name: found[name] for name in self.table["model"]})

    def summary(self) -> str:
        """The choice, the first models of the table, the numbers and the notes, for people."""
        there = {name: v for name, v in self.quantities.items() if not math.isnan(v)}
        shown = self.table.head(2 * _SHOWN).to_string(index=False, float_format="{:.4g}".format)
        rest = len(self.table) - 2 * _SHOWN
        return "\n".join(
            [
                f"choice: {self.chosen}",
                *(self._line(name, value) for name, value in there.items()),
                shown,
                *([f"and {rest} more"] if rest > 0 else []),
                *map(str, self.notes),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings; the table as rows."""
        rows = records.plain(self.table.to_dict("records"))
        return {"choice": self.chosen, "law": self.law} | super().to_dict() | {"models": rows}


class _Fitted(NamedTuple):
    """A law fitted to every model; K models, n rows of the table of all sizes."""

    law: Law
    models: list[str]
    sizes: np.ndarray  # (n,) D
    unit: float  # what 1 of D is worth in the law's input as it was fitted
    seen: np.ndarray  # (K, n) whether a model has a loss there
    losses: np.ndarray  # (K, n), or scores
    found: Refits

    @property
    def sign(self) -> int:
        """What makes the better of two predictions the lower one."""
        return -1 if self.law.better == "high" else 1

    def predict(self, D: np.ndarray) -> np.ndarray:
        """(K, points) losses."""
        return self.found.predict(**{self.law.input_names[0]: np.asarray(D) * self.unit})

    def residuals(self) -> np.ndarray:
        """(K, n) log of seen over predicted loss; 0 where there is none."""
        return np.where(self.seen, np.log(self.losses / self.predict(self.sizes)), 0.0)


@checked
def choose_model(
    runs: Any,
    *,
    at: float,
    law: str | Law = "downstream-ce",
    columns: Mapping[str, str] | None = None,
    where: Any = None,
    resamples: ResampleCount = 400,
    seed: Seed = 0,
    level: ConfidenceLevel = LEVEL,
) -> ModelChoice:
    """Which of several pretrained models to finetune on all data, from samples of it.

    With a law of a score, such as ``law="downstream-bleu"`` and D the tokens of pretraining, it
    tells which of several corpora to go on pretraining on (Isik 2024, figure 3); one whose score
    falls is named, as there the law does not hold (§3.4).

    A law is fitted to the losses of each model (all models in one batch) and asked for its loss
    at the full size. In the resamples every loss is drawn anew around its law, with the scatter
    of all models together, or a model's own where that is larger beyond chance.

    For the 30 models of Lin 2024, asked for 8 to 512 times the data seen, the choice of the
    default law was 2 % worse than the best on average, that of ``rectified`` 19 %, or 9 % with
    the loss before finetuning (D = 0). Intervals take the law to be right: there they held the
    losses of 13 to 63 % of the models, that of the chosen one in 10 cases of 12.

    Args:
        runs: file, table or dict with ``model``, ``D`` (data finetuned on, in any unit, such as
            samples) and ``loss`` (nats), or ``score`` by a law of one; several at one D are
            fine. Each model needs as many sizes as the law has parameters.
        at: the full size, in the unit of D.
        law: of one input: ``downstream-ce`` (E + A/D^α), ``rectified``, ``downstream-bleu`` (of
            a score), your own (of a score with ``better="high"``).
        columns: name → column, where they are called otherwise.
        where: rows to keep, as for :func:`jaxlaw.read_runs`.
        resamples: for intervals and shares; seed: of them.
        level: of the intervals.

    Raises:
        UsageError: an argument is none of its kind, or the law is not of one input.
        DataError: a column is missing, one model only, a model with too few sizes.
    """
    law, at = _law_of_one(laws.get(law)), in_domain("at", at)
    if resamples == 1:
        raise UsageError("one resample has no spread: use 0, for no interval, or hundreds")
    percentiles_of(np.zeros(2), level)  # refuses a level that is none
    data, notes = _read(runs, columns or {}, where, law)
    fits = _fitted(data, law)
    scatter, freedom, own = _scatter(fits)
    random = np.random.default_rng(seed)
    values = fits.predict([at]).T  # (1 + R, K)
    if freedom.any() and resamples:
        draws = _draws(fits, _scales(scatter, freedom, own, resamples, random), at, random)
        values = np.concatenate([values, draws])
    found, table = _chosen(fits, values, level)
    table["scatter"] = scatter[table.pop("k")]
    notes += [*_on_data(fits, at, own), *_on_falls(fits), *_on_choice(table, values, fits)]
    notes += on_resamples(len(values) - 1, level)
    return ModelChoice(
        **found, at=at, table=table, data=data, law=law.name, target=law.target, level=level,
        notes=tuple(notes), _fits=fits,
        binding=f"the {'lowest' if fits.sign > 0 else 'highest'} prediction of {len(table)} models",
    )  # fmt: skip


def _law_of_one(law: Law) -> Law:
    if len(law.inputs) != 1 or law.inputs[0].per_drop:
        raise UsageError(
            f"law {law.name} predicts {law.target} from {', '.join(law.input_names)}; a choice of "
            "models needs a loss or a score from the amount of data alone: downstream-ce, "
            "rectified or downstream-bleu"
        )
    return law


def _measure(law: Law) -> str:
    """The column of what a law predicts."""
    return "score" if law.better == "high" else "loss"


def _read(
    runs: Any, columns: Mapping[str, str], where: Any, law: Law
) -> tuple[pd.DataFrame, list[Note]]:
    """The rows that the law can take: model, D, loss or score."""
    measure = _measure(law)
    wanted = _COLUMNS | {measure: f", which law {law.name} predicts"}
    for name in columns:
        if name not in wanted:
            raise UsageError(
                f"the columns are {', '.join(wanted)}, not '{name}'.{nearest(name, wanted)}"
            )
    read = read_runs(runs) if where is None else read_runs(runs, where=where)
    table, source, found = read.table, read.source, {}
    for name, doc in wanted.items():
        column = columns.get(name, name)
        if column not in table:
            raise missing_column(name, doc, column, table.columns, source)
        found[name] = table[column].to_numpy()
    data = pd.DataFrame(found)
    for name in ("D", measure):
        data[name] = pd.to_numeric(data[name], errors="coerce").astype(float)
    wrong = ~np.isfinite(data[["D", measure]]).all(axis=1)
    wrong |= (data[measure] <= 0) | (data["D"] < 0)
    wrong |= data["model"].isna()
    if wrong.any():
        row = data[wrong].iloc[0].to_dict()
        raise DataError(f"{source}: D and {measure} must be finite and positive; a row has {row}")
    data["model"], notes = data["model"].astype(str), list(read.notes)
    before = data["D"] == 0
    if before.any() and law.inputs[0].domain == "positive":
        message = f"{before.sum()} rows before finetuning (D = 0) are not for law {law.name}"
        notes.append(Note("before-finetuning", "info", message))
        data = data[~before].reset_index(drop=True)
    _enough(data, law, source)
    return data, notes


def _enough(data: pd.DataFrame, law: Law, source: str) -> None:
    """Refuse fewer than two models, and those that do not determine the law."""
    sizes, least = data.groupby("model")["D"].nunique(), len(law.parameters)
    if len(sizes) < 2:
        raise DataError(f"{source}: {len(sizes)} models; a choice needs two or more")
    few = sizes[sizes < least]
    if len(few):
        raise DataError(
            f"{source}: {_names(few.index)} of fewer than {least} sizes D cannot determine the "
            f"{least} parameters of law {law.name}; finetune on more sizes, or leave these models "
            "out (where=…)"
        )


def _fitted(data: pd.DataFrame, law: Law) -> _Fitted:
    """The law on every model: a row of 0/1 weights over all sizes each, in one call."""
    repeat = data.groupby(["model", "D"]).cumcount()
    wide = data.assign(repeat=repeat).pivot(
        index="model", columns=["D", "repeat"], values=_measure(law)
    )
    wide = wide.sort_index(axis=1)
    models = list(dict.fromkeys(data["model"]))
    losses = wide.loc[models].to_numpy()
    seen, sizes = ~np.isnan(losses), wide.columns.get_level_values(0).to_numpy(float)
    losses = np.where(seen, losses, 1.0)
    (spec,) = law.inputs
    # The law's unit is not the user's; its coefficients are not told, so any that is plausible.
    middle = math.exp(np.log(sizes[sizes > 0]).mean())
    unit = 1.0 if spec.plausible is None else math.sqrt(math.prod(spec.plausible)) / middle
    rows = pd.DataFrame({spec.name: sizes * unit, law.target: np.linspace(1, 2, len(sizes))})
    observations = read_runs(rows).observations(law)
    found = refit(law, observations, seen.astype(float), losses, **_SEARCH)
    return _Fitted(law, models, sizes, unit, seen, losses, found)


def _scatter(fits: _Fitted) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(K,) RMS of log residuals, degrees of freedom, and whose own is beyond that of the others."""
    from scipy.stats import chi2

    squares = (fits.residuals() ** 2).sum(axis=1)
    freedom = np.maximum(fits.seen.sum(axis=1) - len(fits.law.parameters), 0)
    spare = np.where(freedom > 0, freedom, np.nan)
    scatter = np.sqrt(squares / spare)
    if not freedom.any():
        return scatter, freedom, freedom > 0
    usual = np.nanmedian(squares / chi2.median(spare))  # variance
    own = squares > usual * chi2.ppf(1 - CHANCE / len(squares), spare)
    return scatter, freedom, own & (scatter > SAME) & ~own.all()


def _scales(
    scatter: np.ndarray, freedom: np.ndarray, own: np.ndarray, count: int,
    random: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """(R, K) scatter to draw with: as the quantiles of Student's t, wider for few rows."""
    shared = freedom * ~own
    pooled = math.sqrt(np.nansum(scatter**2 * shared) / shared.sum())
    wider = np.sqrt(shared.sum() / random.chisquare(shared.sum(), (count, 1)))
    mine = np.sqrt(freedom / random.chisquare(np.maximum(freedom, 1), (count, len(freedom))))
    return np.where(own, np.nan_to_num(scatter) * mine, pooled * wider)


def _draws(fits: _Fitted, scales: np.ndarray, at: float, random: np.random.Generator) -> np.ndarray:
    """(R, K) losses at the full size of laws fitted to losses drawn around the laws."""
    predicted = fits.losses / np.exp(fits.residuals())
    noise = random.standard_normal((len(scales), *predicted.shape)) * scales[..., None]
    targets = np.moveaxis(predicted * np.exp(noise), 0, 1)
    found = refit_near(fits.found, fits.seen.astype(float), targets)
    return fits._replace(found=found).predict([at]).reshape(len(fits.models), -1).T


def _chosen(fits: _Fitted, values: np.ndarray, level: float) -> tuple[dict[str, Any], pd.DataFrame]:
    """The numbers of the choice, and the table of all models; values are (1 + R, K)."""
    sign = fits.sign
    first = int((sign * values[0]).argmin())
    ahead = (sign * values[1:]).argmin(axis=1)
    share = np.bincount(ahead, minlength=values.shape[1]) / max(len(ahead), 1)
    regret = sign * values[:, first] - (sign * values).min(axis=1)
    there = len(ahead) > 0
    # What a resample chooses misses the law that made it as our choice misses the truth.
    misses = values[np.arange(1, len(values)), ahead] / values[0, ahead]
    optimism = float(np.median(misses)) if there else math.nan
    numbers = {
        "chosen": fits.models[first],
        "predicted": float(values[0, first]),
        "corrected": float(values[0, first] / optimism),
        "probability": float(share[first]) if there else math.nan,
        "regret": float(regret[1:].mean()) if there else math.nan,
        "replicates": {},
    }
    if there:
        moved = values[1:, first] / optimism
        numbers["replicates"] = {"predicted": moved, "regret": regret[1:]}
    numbers["interval"] = {
        name: percentiles_of(np.append(np.nan, draws), level)
        for name, draws in numbers["replicates"].items()
    }
    data = {"model": fits.models, "k": np.arange(len(fits.models)), "rows": fits.seen.sum(axis=1)}
    table = pd.DataFrame(data | with_ends("predicted", values, level))
    table["best"] = share if there else math.nan
    order = {"ascending": sign > 0, "kind": "stable", "ignore_index": True}
    return numbers, table.sort_values("predicted", **order)


def _on_data(fits: _Fitted, at: float, own: np.ndarray) -> list[Note]:
    """Whose fit, scatter or range not to rely on."""
    notes, models, most = [], np.array(fits.models, object), fits.sizes.max()
    if at > FAR * most:
        message = (
            f"at = {at:.4g} is {at / most:.3g} times the largest D seen, {most:.4g}; intervals "
            "take the law to hold that far"
        )
        notes.append(Note("extrapolation", "warning", message))
    exact = fits.seen.sum(axis=1) <= len(fits.law.parameters)
    if exact.all():
        message = f"as many losses as law {fits.law.name} has parameters: there is no interval"
        notes.append(Note("no-interval", "warning", message))
    elif exact.any():
        message = (
            f"the law passes through all losses of {_names(models[exact])}: whether it holds "
            "there cannot be told; their scatter is taken from the others"
        )
        notes.append(Note("no-spare-rows", "warning", message))
    if own.any():
        message = (
            f"{_names(models[own])}: the losses scatter about the law more than those of the "
            "others, beyond chance: it may not hold there"
        )
        notes.append(Note("scatter", "warning", message))
    stuck = fits.found.status != CONVERGED
    if stuck.any():
        message = f"the fit of {_names(models[stuck])} has not converged"
        notes.append(Note("not-converged", "warning", message))
    return notes


def _on_falls(fits: _Fitted) -> list[Note]:
    """Whose score falls with more data, by more than noise: there no law of scores holds."""
    if fits.law.better == "low":
        return []
    scores = pd.DataFrame(np.where(fits.seen, fits.losses, np.nan), fits.models, fits.sizes)
    scores = scores.T.groupby(level=0).mean()  # those at one size are one
    falling = scores.columns[(scores.cummax() - scores).max() > FALLS * scores.max()]
    if not len(falling):
        return []
    message = (
        f"{_names(falling)}: the score falls by more than {FALLS:.0%} of its highest as the data "
        "grow, which the law cannot; a corpus that does so is suspect (Isik 2024, §3.4)"
    )
    return [Note("not-monotone", "warning", message)]


def _on_choice(table: pd.DataFrame, values: np.ndarray, fits: _Fitted) -> list[Note]:
    """Who else may be the best."""
    models, values = fits.models, fits.sign * values
    first, order = values[:, [values[0].argmin()]], values[0].argsort(kind="stable")
    limit = first + SAME * np.abs(first)
    close = (values <= limit)[1:].mean(axis=0) if len(values) > 1 else values[0] * 0
    close = close + (values[0] <= limit[0])
    others = [models[k] for k in order if close[k] > APART and models[k] != table["model"][0]]
    if not others:
        return []
    message = (
        f"{_names(others)} cannot be told from {table['model'][0]}: each is ahead of it in more "
        f"than {APART:.0%} of the resamples; finetune these on more data before choosing"
    )
    return [Note("not-told-apart", "warning", message)]


def _names(models: Any) -> str:
    """The first few by name."""
    shown = [str(one) for one in models[:_SHOWN]]
    rest = len(models) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")
