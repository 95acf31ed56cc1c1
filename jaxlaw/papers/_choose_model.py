"""The choice of a model, or of a corpus, to finetune: which is best with all data (Lin 2024).

The same by corpora is Isik 2024, figure 3.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._arrays import numbers_of
from jaxlaw._quantities import SHARE, checked_number, exponential
from jaxlaw._result import TARGET
from jaxlaw._rounding import SAME
from jaxlaw._typed import ConfidenceLevel, ResampleCount, Seed, checked
from jaxlaw.data import Runs, read_columns, read_runs, refuse_rows
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import FitOptions, Refits, fit_many, refit_near
from jaxlaw.fitting.solvers import Status
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning import Answer
from jaxlaw.uncertainty import (
    LEVEL,
    check_resamples,
    few_resamples_notes,
    interval_columns,
    percentile_interval,
    student_scales,
)

_FAR = 10  # times the most data seen: an extrapolation to doubt
_CLOSE = 0.05  # of the resamples: a model ahead in more may be the better one
_CHANCE = 0.01  # of calling scatters different where all models have the same
_TOLERATED_DROP = 0.01  # of the highest score: a larger fall is not noise
_CHOICE_SEARCH = FitOptions(n_starts=512, n_local=32)
_SHOWN = 5  # models named in a note


class _ModelFits(NamedTuple):
    """A law fitted to every model; K models, n rows of the table of all sizes."""

    law: Law
    models: list[str]
    sizes: np.ndarray  # (n,) D
    unit: float  # 1 of D in the law's input as it was fitted
    seen: np.ndarray  # (K, n) whether a model has a loss there
    losses: np.ndarray  # (K, n), or scores
    refits: Refits

    @property
    def sign(self) -> int:
        """What makes the better of two predictions the lower one."""
        return -1 if self.law.better == "high" else 1

    def predict(self, D: Any) -> np.ndarray:
        """(K, points) losses."""
        return self.refits.predict(**{self.law.input_names[0]: np.asarray(D) * self.unit})

    def residuals(self) -> np.ndarray:
        """(K, n) log of seen over predicted loss; 0 where there is none."""
        return np.where(self.seen, np.log(self.losses / self.predict(self.sizes)), 0.0)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ModelChoice(Answer):
    """The model that a law has best at the full size, and how sure that is.

    The best is the lowest loss or, by a law of a score, the highest score.

    Attributes:
        chosen: name of the model.
        at: full size, in the unit of D.
        predicted: its loss (or score) there, by its law.
        corrected: the same without the optimism of a best prediction: of many, the one that
            errs that way is chosen. The interval of ``predicted`` is moved by as much.
        probability: share of the resamples in which it is the best.
        regret: mean over the resamples of what it is behind the best; interval: likewise.
        table: models, the best first: ``model``, ``rows``, ``predicted`` at the full size
            (``predicted_low``, ``predicted_high``), ``best`` (share of the resamples in which it
            is), ``scatter`` (RMS of log residuals, by the degrees of freedom).
        data: rows that were fitted: ``model``, ``D``, ``loss`` (or ``score``).
        law: name of the law.
        target: quantity that the law predicts.

    Example:
        >>> sizes = [100.0, 400.0, 1600.0, 6400.0]
        >>> data = {"model": ["a"] * 4 + ["b"] * 4, "D": sizes * 2}
        >>> data["loss"] = [1 + 8 / D**0.3 for D in sizes] + [1.4 + 5 / D**0.3 for D in sizes]
        >>> choice = jl.papers.choose_model(data, at=1e6, n_resamples=0)
        >>> choice.curves([1e4]).columns.tolist()
        ['D', 'a', 'b']
    """

    chosen: str
    at: float = field(metadata={"unit": ""})
    predicted: float = field(metadata={"unit": TARGET})
    corrected: float = field(metadata={"unit": TARGET})
    probability: float = field(metadata={"unit": SHARE})
    regret: float = field(metadata={"unit": TARGET})
    table: pd.DataFrame
    data: pd.DataFrame
    law: str
    target: str
    _fits: _ModelFits | None = field(default=None, metadata={"saved": False})
    picture = "model_losses"
    csv = "table"
    column_units: ClassVar[Mapping[str, str]] = {
        "D": "",
        "rows": "",
        "score": "",
        "loss": TARGET,
        "best": SHARE,
        "scatter": "",
    }

    def sentence(self) -> str:
        """The model, its loss or score, and how sure the choice is."""
        known = not math.isnan(self.probability)
        sure = f", the best in {self.written('probability')} of resamples" if known else ""
        return (
            f"{self.chosen}: {self.target} {self.written('predicted', level=True)} at "
            f"{exponential(self.at)}{sure}"
        )

    def curves(self, D: Any) -> pd.DataFrame:
        """Losses or scores by the laws at (points,) D: a column a model, the best first; ``D``.

        Raises:
            UsageError: the choice was read from a file, which does not hold the fits.
        """
        if self._fits is None:
            raise UsageError(
                "a choice that was read from a file has no curves, as it does not hold the fits; "
                "choose_model makes it again"
            )
        D = np.atleast_1d(numbers_of("D", D))
        curves = dict(zip(self._fits.models, self._fits.predict(D), strict=True))
        return pd.DataFrame({"D": D} | {name: curves[name] for name in self.table["model"]})

    def lines(self) -> list[str]:
        """The choice, the numbers, and the first models of the table."""
        shown = self.readable(self.table.head(2 * _SHOWN)).to_string(index=False)
        rest = len(self.table) - 2 * _SHOWN
        more = [f"and {rest} more"] if rest > 0 else []
        return [*self._known_lines(), *shown.split("\n"), *more]


@checked
def choose_model(
    runs: Any,
    *,
    at: float,
    law: str | Law = "downstream-ce",
    columns: Mapping[str, str] | None = None,
    where: Any = None,
    n_resamples: ResampleCount = 400,
    seed: Seed = 0,
    level: ConfidenceLevel = LEVEL,
) -> ModelChoice:
    """Which of several pretrained models to finetune on all data, from samples of it.

    With a law of a score, such as ``law="downstream-bleu"`` and D the tokens of pretraining, it
    says on which of several corpora to continue pre-training (Isik 2024, figure 3); one whose score
    falls is named, as there the law does not hold (§3.4).

    A law is fitted to the losses of each model (all models in one batch) and predicts its loss
    at the full size. In the resamples every loss is drawn anew around its law, with the scatter
    of all models together, or a model's own where that is larger beyond chance.

    For the 30 models of Lin 2024, predicted at 8 to 512 times the data seen, the choice of the
    default law was 2 % worse than the best on average, that of ``rectified`` 19 %, or 9 % with
    the loss before finetuning (D = 0). Intervals take the law to be right: there they held the
    losses of 13 to 63 % of the models, that of the chosen one in 10 cases of 12.

    Args:
        runs: file, table or dict with ``model``, ``D`` (data finetuned on, in any unit, such as
            samples) and ``loss`` (nats), or ``score`` by a law of one; several at one D are
            fine. Each model needs as many sizes as the law has parameters.
        at: full size, in the unit of D.
        law: law of one input: ``downstream-ce`` (E + A/D^α), ``rectified``, ``downstream-bleu``
            (of a score), your own (of a score with ``better="high"``).
        columns: name → column, where they are called otherwise.
        where: rows to keep, as for :func:`jaxlaw.read_runs`.
        n_resamples: number of resamples, for intervals and shares; 0 for none.
        seed: seed of the resamples.
        level: confidence level of the intervals.

    Returns:
        ModelChoice.

    Raises:
        UsageError: an argument is none of its kind, or the law is not of one input.
        DataError: a column is missing, one model only, a model with too few sizes.

    Example:
        >>> sizes = [100.0, 400.0, 1600.0, 6400.0]
        >>> data = {"model": ["a"] * 4 + ["b"] * 4, "D": sizes * 2}
        >>> data["loss"] = [1 + 8 / D**0.3 for D in sizes] + [1.4 + 5 / D**0.3 for D in sizes]
        >>> jl.papers.choose_model(data, at=1e6, n_resamples=0).chosen
        'a'

    Shell:
        jaxlaw plan choose-model samples.csv --at 1e6
    """
    law, at = _law_of_one_input(laws.get(law)), checked_number("at", at)
    check_resamples(n_resamples)
    read = _read_models(runs, columns or {}, where, law)
    fits, notes = _fit_models(read.table, law), [*read.notes]
    scatter, freedom, apart = _scatter(fits)
    random = np.random.default_rng(seed)
    values = fits.predict([at]).T  # (1 + R, K)
    if freedom.any() and n_resamples:
        scales = _scales(scatter, freedom, apart, n_resamples, random)
        values = np.concatenate([values, _resampled_losses(fits, scales, at, random)])
    answer, table = _chosen(fits, values, level)
    table["scatter"] = scatter[table.pop("k")]
    notes += [*_data_notes(fits, at, apart), *_fall_notes(fits)]
    notes += [*_rival_notes(table, values, fits), *few_resamples_notes(len(values) - 1, level)]
    return ModelChoice(
        **answer, at=at, table=table, data=read.table, law=law.name, target=law.target, level=level,
        notes=tuple(notes), _fits=fits, units=ModelChoice.single_units(_target_unit(law)),
        binding=f"the {'lowest' if fits.sign > 0 else 'highest'} prediction of {len(table)} models",
    )  # fmt: skip


def _law_of_one_input(law: Law) -> Law:
    if len(law.inputs) != 1 or law.inputs_per_drop:
        raise UsageError(
            f"law {law.name} predicts {law.target} from {', '.join(law.input_names)}; a choice of "
            "models needs a loss or a score from the amount of data alone: downstream-ce, "
            "rectified or downstream-bleu"
        )
    return law


def _target_unit(law: Law) -> str:
    return "" if law.better == "high" else "nats"


def _measure(law: Law) -> str:
    """The column of what a law predicts."""
    return "score" if law.better == "high" else "loss"


def _read_models(runs: Any, columns: Mapping[str, str], where: Any, law: Law) -> Runs:
    """The rows that the law can take: model, D, loss or score; enough of them."""
    measure = _measure(law)
    needed = {"model": ", which distinguishes models", "D": ", the amount of data"}
    needed[measure] = f", which law {law.name} predicts"
    read = read_columns(runs, needed, (), columns, texts=("model",), where=where)
    data = read.table
    for name, least in (("D", data["D"] >= 0), (measure, data[measure] > 0)):
        bad = ~(np.isfinite(data[name]) & least).to_numpy()
        refuse_rows(read, name, bad, f"D and {measure} must be finite and positive")
    refuse_rows(read, "model", data["model"].isna().to_numpy(), "every row needs a model")
    data, notes = data.assign(model=data["model"].astype(str)), [*read.notes]
    before = data["D"] == 0
    if before.any() and law.inputs[0].domain == "positive":
        message = f"{before.sum()} rows before finetuning (D = 0) are not for law {law.name}"
        notes.append(Note("before-finetuning", "info", message))
        data = data[~before]
    sizes, least = data.groupby("model")["D"].nunique(), len(law.parameters)
    if len(sizes) < 2:
        raise DataError(f"{read.source}: {len(sizes)} models; a choice needs two or more")
    few = sizes[sizes < least]
    if len(few):
        raise DataError(
            f"{read.source}: {_names(few.index)} of fewer than {least} sizes D cannot determine "
            f"the {least} parameters of law {law.name}; finetune on more sizes, or leave these "
            "models out (where=…)"
        )
    return dataclasses.replace(read, table=data.reset_index(drop=True), notes=tuple(notes))


def _fit_models(data: pd.DataFrame, law: Law) -> _ModelFits:
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
    # The law's unit is not the user's; as no coefficient is reported, any plausible one serves.
    middle = math.exp(np.log(sizes[sizes > 0]).mean())
    unit = 1.0 if spec.plausible is None else math.sqrt(math.prod(spec.plausible)) / middle
    rows = pd.DataFrame({spec.name: sizes * unit, law.target: np.linspace(1, 2, len(sizes))})
    observations = read_runs(rows).observations(law)
    refits = fit_many(law, observations, seen.astype(float), losses, _CHOICE_SEARCH)
    return _ModelFits(law, models, sizes, unit, seen, losses, refits)


def _scatter(fits: _ModelFits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(K,) RMS of log residuals, degrees of freedom, and whose scatter is beyond the others'."""
    from scipy.stats import chi2

    squares = (fits.residuals() ** 2).sum(axis=1)
    freedom = np.maximum(fits.seen.sum(axis=1) - len(fits.law.parameters), 0)
    spare = np.where(freedom > 0, freedom, np.nan)
    scatter = np.sqrt(squares / spare)
    if not freedom.any():
        return scatter, freedom, freedom > 0
    usual = np.nanmedian(squares / chi2.median(spare))  # variance
    apart = squares > usual * chi2.ppf(1 - _CHANCE / len(squares), spare)
    return scatter, freedom, apart & (scatter > SAME) & ~apart.all()


def _scales(
    scatter: np.ndarray, freedom: np.ndarray, apart: np.ndarray, count: int,
    random: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """(R, K) scatter to draw with: of all models together, or of those apart their own."""
    shared = freedom * ~apart
    pooled = math.sqrt(np.nansum(scatter**2 * shared) / shared.sum())
    together = pooled * student_scales(shared.sum(), (count, 1), random)
    alone = student_scales(freedom, (count, len(freedom)), random)
    return np.where(apart, np.nan_to_num(scatter) * alone, together)


def _resampled_losses(
    fits: _ModelFits, scales: np.ndarray, at: float, random: np.random.Generator
) -> np.ndarray:
    """(R, K) losses at the full size of laws fitted to losses drawn around the laws."""
    predicted = fits.losses / np.exp(fits.residuals())
    noise = random.standard_normal((len(scales), *predicted.shape)) * scales[..., None]
    targets = np.moveaxis(predicted * np.exp(noise), 0, 1)
    refits = refit_near(fits.refits, fits.seen.astype(float), targets)
    return fits._replace(refits=refits).predict([at]).reshape(len(fits.models), -1).T


def _chosen(
    fits: _ModelFits, values: np.ndarray, level: float
) -> tuple[dict[str, Any], pd.DataFrame]:
    """The numbers of the choice, and the table of all models; values are (1 + R, K)."""
    sign = fits.sign
    first = int((sign * values[0]).argmin())
    ahead = (sign * values[1:]).argmin(axis=1)
    share = np.bincount(ahead, minlength=values.shape[1]) / max(len(ahead), 1)
    regret = sign * values[:, first] - (sign * values).min(axis=1)
    drawn = len(ahead) > 0
    # What a resample chooses misses the law that made it as our choice misses the truth.
    misses = values[np.arange(1, len(values)), ahead] / values[0, ahead]
    optimism = float(np.median(misses)) if drawn else math.nan
    moved = {"predicted": values[1:, first] / optimism, "regret": regret[1:]} if drawn else {}
    numbers = {
        "chosen": fits.models[first],
        "predicted": float(values[0, first]),
        "corrected": float(values[0, first] / optimism),
        "probability": float(share[first]) if drawn else math.nan,
        "regret": float(regret[1:].mean()) if drawn else math.nan,
        "draws": moved,
        "interval": {
            name: tuple(map(float, percentile_interval(draws, level)))
            for name, draws in moved.items()
        },
    }
    data = {"model": fits.models, "k": np.arange(len(fits.models)), "rows": fits.seen.sum(axis=1)}
    table = pd.DataFrame(data | interval_columns("predicted", values, level))
    table["best"] = share if drawn else math.nan
    order = {"ascending": sign > 0, "kind": "stable", "ignore_index": True}
    return numbers, table.sort_values("predicted", **order)


def _data_notes(fits: _ModelFits, at: float, apart: np.ndarray) -> list[Note]:
    """Whose fit, scatter or range not to rely on."""
    notes, models, most = [], np.array(fits.models, object), fits.sizes.max()
    if at > _FAR * most:
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
            "there is unknown; their scatter is taken from the others"
        )
        notes.append(Note("no-spare-rows", "warning", message))
    if apart.any():
        message = (
            f"{_names(models[apart])}: the losses scatter about the law more than those of the "
            "others, beyond chance: it may not hold there"
        )
        notes.append(Note("scatter", "warning", message))
    stuck = fits.refits.status != Status.CONVERGED
    if stuck.any():
        message = f"the fit of {_names(models[stuck])} has not converged"
        notes.append(Note("not-converged", "warning", message))
    return notes


def _fall_notes(fits: _ModelFits) -> list[Note]:
    """Whose score falls with more data, by more than noise: there no law of scores holds."""
    if fits.law.better == "low":
        return []
    scores = pd.DataFrame(np.where(fits.seen, fits.losses, np.nan), fits.models, fits.sizes)
    scores = scores.T.groupby(level=0).mean()  # those at one size are one
    falling = scores.columns[(scores.cummax() - scores).max() > _TOLERATED_DROP * scores.max()]
    if not len(falling):
        return []
    message = (
        f"{_names(falling)}: the score falls by more than {_TOLERATED_DROP:.0%} of its highest as "
        "the data grow, which the law cannot; a corpus that does so is suspect (Isik 2024, §3.4)"
    )
    return [Note("not-monotone", "warning", message)]


def _rival_notes(table: pd.DataFrame, values: np.ndarray, fits: _ModelFits) -> list[Note]:
    """Who else may be the best."""
    models, values = fits.models, fits.sign * values
    first, order = values[:, [values[0].argmin()]], values[0].argsort(kind="stable")
    limit = first + SAME * np.abs(first)
    close = (values <= limit)[1:].mean(axis=0) if len(values) > 1 else values[0] * 0
    close = close + (values[0] <= limit[0])
    others = [models[k] for k in order if close[k] > _CLOSE and models[k] != table["model"][0]]
    if not others:
        return []
    message = (
        f"{_names(others)} cannot be distinguished from {table['model'][0]}: each is ahead of it "
        f"in more than {_CLOSE:.0%} of the resamples; finetune these on more data before choosing"
    )
    return [Note("indistinguishable", "warning", message)]


def _names(models: Any) -> str:
    """The first few by name."""
    shown = [str(model) for model in models[:_SHOWN]]
    rest = len(models) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")
