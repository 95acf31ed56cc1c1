"""The value of a corpus by downstream scores: when to stop pretraining (Isik 2024, §3.4)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from jaxlaw import laws
from jaxlaw._answer import Answer
from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE, Quantity, checked_number
from jaxlaw._typed import ConfidenceLevel, Fraction, NotNegative, ResampleCount, Seed, checked
from jaxlaw.data import read_columns, read_runs, refuse_rows
from jaxlaw.errors import DataError, UsageError
from jaxlaw.fitting import FitOptions, fit, fit_many
from jaxlaw.notes import FitWarning, Note
from jaxlaw.uncertainty import (
    LEVEL,
    few_resamples_notes,
    interval_columns,
    intervals,
    resampled_residuals,
)

MISALIGNED = "suspect misalignment"
REACHED = "stop: target reached"
ALONE = "finetuning data alone suffice"
SATURATED = "stop: the score is saturated"
BELOW = "stop: gains below the target"
CONTINUE = "continue"

FEWEST = 3  # checkpoints that determine the law's three parameters
FIRST = 4  # checkpoints whose law the later ones are compared with, as in Isik 2024, §4
#: Log of predicted over observed score beyond which the law breaks. Scores that obey the law break
#: it by chance in at most 3 of 100 corpora where they scatter by 1%, in 6 to 21 where by 2%
#: (eight checkpoints over two decades).
SHORTFALL = 0.1
LEVEL_OF_ORDER = 0.01  # of the test whether scores fall, and of that whether they rise
PRIOR_DEGREES = 4  # of the scatter that the user knows, beside those of the rows

_VALUE_SEARCH = FitOptions(n_starts=256, n_local=8)  # 16 move no interval by more than 0.5%


@checked
def pretraining_value(
    checkpoints: Any,
    *,
    at: float | None = None,
    target: float | None = None,
    baseline: NotNegative | None = None,
    columns: Mapping[str, str] | None = None,
    noise: Fraction = 0.01,
    n_resamples: ResampleCount = 400,
    seed: Seed = 0,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
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
        baseline: score of the same model without pretraining, trained on the task alone.
        columns: name → column, where they are called otherwise.
        noise: fraction of the highest score by which one score scatters, if known
            (finetuned again, say); it weighs as much as four further checkpoints. Where scores
            scatter by more, give it: four of 2% are taken for falling in 3 of 10 corpora.
        n_resamples: number of resamples of the residuals, for intervals; 0 for none.
        seed: seed of the resamples.
        level: confidence level of the intervals.

    Returns:
        Answer with the facts ``advice`` (``continue``, ``stop: target reached``,
        ``stop: gains below the target``, ``stop: the score is saturated``,
        ``suspect misalignment`` or ``finetuning data alone suffice``), ``reasons``, its grounds in
        sentences, ``monotone``, whether the score never falls by more than its scatter explains,
        and ``params`` of the law
        ``downstream-bleu`` on the checkpoints before a break. Quantities: ``predicted``, the score
        at ``at`` tokens, and ``gain``, that less the law's score at the last checkpoint;
        ``tokens_to_target``, the Dp at which the law reaches the ``target`` (infinite: at none
        that a number can hold); ``best``, the highest score so far; ``scatter`` of one score, a
        fraction of the highest; ``broken_at``, the Dp of the first checkpoint that falls short of
        what the law of the first four predicts; the ``baseline``. What was not given, or has no
        law, is left out. Table ``checkpoints``: the data in order, ``Dp``, ``score``,
        ``predicted`` by the law of the first four, ``cross_entropy``, and ``disagree`` where that
        fell while the score fell too.

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
    if target is not None:
        checked_number("target", target)
    needed = dict.fromkeys(("Dp", "score"), ", of the finetuned checkpoints")
    runs = read_columns(checkpoints, needed, ("cross_entropy",), columns or {}, name="checkpoints")
    for name, column in runs.table.items():
        bad = ~(np.isfinite(column) & (column > 0)).to_numpy()
        refuse_rows(runs, str(name), bad, "checkpoints need finite numbers above 0")
    again = runs.table["Dp"].duplicated().to_numpy()
    refuse_rows(runs, "Dp", again, "several checkpoints have it; give their mean score once")
    if len(runs.table) < FEWEST:
        raise DataError(
            f"{len(runs.table)} checkpoints cannot determine the law's three parameters; finetune "
            f"{FEWEST} or more"
        )
    table = runs.table.sort_values("Dp", kind="stable", ignore_index=True)
    Dp, scores = table["Dp"].to_numpy(), table["score"].to_numpy()
    at = checked_number("at", 2 * Dp[-1] if at is None else at)
    if at <= Dp[-1]:
        raise UsageError(f"at is {at:g}; it must be more than the last checkpoint's {Dp[-1]:g}")
    best = float(scores.max())
    falls, rises, scatter = _order(np.log(Dp), scores / best, noise)
    flat = not (falls or rises)
    values, band, facts, notes, broken = {}, {}, {}, [], None
    if not falls:
        # 1. What the law of the first few says of the others. It is fitted as often as there will
        # be resamples, so that both are one program.
        law, count = laws.built_in("downstream-bleu"), max(n_resamples, 1)
        renamed = table[["Dp", "score"]].rename(columns={"score": "BLEU"})
        seen, here = read_runs(renamed).observations(law), np.arange(len(Dp))
        predicted, every = np.full(len(Dp), np.nan), np.ones((count, 1))
        if len(Dp) > FIRST:
            few = fit_many(law, seen, every * (here < FIRST), every * scores, _VALUE_SEARCH).params
            few = {name: column[0] for name, column in few.items()}
            predicted[FIRST:] = _scores(few, Dp[FIRST:])
        table["predicted"] = predicted
        kept, short = len(Dp), np.log(predicted / scores) > SHORTFALL
        if short.any() and not flat:  # else the first four rose by scatter
            kept = int(np.argmax(short))
            broken = float(Dp[kept])
        # 2. The law of all before a break, and its draws.
        with warnings.catch_warnings():
            if flat:  # no law explains what is scatter alone
                warnings.simplefilter("ignore", FitWarning)
            law_fit = fit(law, renamed[:kept])
        facts["params"] = law_fit.params
        params = {name: np.array([value]) for name, value in law_fit.params.items()}
        if not flat:  # the parameters of a constant are loose, and its R² is nothing
            notes += [note for note in law_fit.notes if note.severity != "info"]
        if (spare := kept - len(params)) < 1:
            message = f"{kept} checkpoints determine the law exactly: no interval; add checkpoints"
            notes.append(Note("few-resamples", "warning", message))
        elif n_resamples:
            # Residuals resampled around the law, as wide as if it had not seen them.
            middle = np.log(law_fit.predict(Dp=Dp))
            residuals = (np.log(scores) - middle)[:kept]
            residuals = (residuals - residuals.mean()) * math.sqrt(kept / spare)
            # jaxlaw.bootstrap would compile for every number of rows kept: these are versions of
            # one shape, refitted by the program that has fitted the first checkpoints.
            drawn = resampled_residuals(residuals, n_resamples, seed, size=len(Dp), degrees=spare)
            weights = np.tile(here < kept, (n_resamples, 1)).astype(float)
            refits = fit_many(law, seen, weights, np.exp(middle + drawn), _VALUE_SEARCH)
            params = {name: np.append(x, refits.params[name]) for name, x in params.items()}
            notes += few_resamples_notes(n_resamples, level)
        # 3. What it predicts.
        if at > 10 * Dp[kept - 1]:
            ends = f"{Dp[0]:.3g} to {Dp[kept - 1]:.3g}"
            message = f"Dp = {at:.3g} is far beyond the checkpoints ({ends})"
            notes.append(Note("extrapolation", "warning", message))
        values["predicted"] = _scores(params, at)
        values["gain"] = values["predicted"] - _scores(params, Dp[-1])
        if target is not None:
            with np.errstate(over="ignore"):
                logarithm = target ** (1 / params["beta"])  # of A·Dp^α
                tokens = np.exp((logarithm - params["log_A"]) / params["alpha"])
            values["tokens_to_target"] = tokens
        along = np.geomspace(Dp[0], at, 99)
        each = _scores({name: column[:, None] for name, column in params.items()}, along)
        band = {"law": pd.DataFrame({"Dp": along, **interval_columns("predicted", each, level)})}
    # 4. The cross-entropy, the advice, and all numbers.
    if "cross_entropy" in table:
        worse = np.append(False, np.diff(scores) < -(noise * best if falls else math.inf))
        table["disagree"] = worse & np.append(False, np.diff(table["cross_entropy"]) < 0)
        if table["disagree"].any():
            listed = ", ".join(f"{value:.3g}" for value in Dp[table["disagree"]])
            message = (
                f"the cross-entropy fell and the score with it at Dp = {listed}: by the "
                "cross-entropy alone the corpus would seem to help (Isik 2024, §3.2); rely on the "
                "score"
            )
            notes.append(Note("metrics-disagree", "warning", message))
    first = {name: float(column[0]) for name, column in values.items()}
    reasons, advice = [], CONTINUE
    # Of constant scores the highest is so by chance.
    reached, what = (scores.mean(), "the mean score") if flat else (best, "the best checkpoint")
    slack = 2 * scatter * best  # two standard errors of one score
    alone = baseline is not None and reached <= baseline + slack
    if baseline is not None:
        word = "no better than" if alone else f"{reached - baseline:.4g} above"
        reasons.append(f"{what} ({reached:.4g}) is {word} no pretraining at all ({baseline:.4g})")
    if falls:
        drops = np.maximum.accumulate(scores) - scores
        worst = int(drops.argmax())
        reasons.append(
            f"the score is not monotone: at Dp = {Dp[worst]:.3g} it is {drops[worst]:.4g} below "
            f"an earlier one, more than a scatter of {scatter:.1%} explains, so the law does "
            "not apply"
        )
    elif flat:
        reasons.append(
            f"the score is constant within its scatter ({scatter:.1%}): more of "
            "the corpus is not needed, and with enough finetuning data none is"
            + ("; baseline= would show it" if baseline is None else "")
        )
    elif broken is not None:
        reasons.append(
            f"the law breaks at Dp = {broken:.3g}: the score falls short of what the law of "
            f"the first {FIRST} checkpoints predicts"
        )
    else:
        gain = first["gain"]
        reasons.append(f"the law holds, and predicts a gain of {gain:.4g} up to Dp = {at:.3g}")
    if target is not None and best >= target:
        advice = REACHED
        reasons.insert(0, f"the score of {best:.4g} is at the target, {target:g}")
    elif falls or broken is not None:
        advice = MISALIGNED
    elif alone and (flat or first["predicted"] <= baseline + slack):
        advice = ALONE
    elif flat:
        advice = SATURATED
    elif target is not None and first["predicted"] < target:
        reasons.append(f"the target {target:g} would take Dp = {first['tokens_to_target']:.3g}")
        if at > 2 * Dp[-1]:
            advice = BELOW
    bounds = intervals(values, level)
    quantities = {
        name: Quantity(
            first[name], "tokens" if name == "tokens_to_target" else "", 1.0,
            *bounds.get(name, ()), draws=column[1:],
        )
        for name, column in values.items()
    }  # fmt: skip
    others = {
        "best": (best, ""), "at": (at, "tokens"), "scatter": (scatter, SHARE),
        "broken_at": (broken, "tokens"), "target": (target, ""), "baseline": (baseline, ""),
    }  # fmt: skip
    for name, (value, unit) in others.items():
        if value is not None:
            quantities[name] = Quantity(float(value), unit)
    score = "score {predicted} at {at}, {best} so far" if values else "best score so far {best}"
    return Answer(
        kind="valuation", sentence=f"{advice}; {score}: {'; '.join(reasons)}",
        quantities=quantities, tables={"checkpoints": table}, level=level, notes=notes,
        facts={"advice": advice, "reasons": reasons, "monotone": not falls, **facts},
        units={"Dp": ("tokens", 1.0), "cross_entropy": ("nats", 1.0),
               "score": ("", 1.0), "predicted": ("", 1.0)},
        curves=band,
    )  # fmt: skip


class _Order(NamedTuple):
    """Whether scores fall and rise by more than their scatter, which is a fraction of one score."""

    falls: bool
    rises: bool
    scatter: float


def _order(x: np.ndarray, y: np.ndarray, noise: float) -> _Order:
    """A Monte Carlo test of scores (n,) over x against constants that scatter as they do.

    They fall by what the closest curve that never falls leaves of them, and rise by how far that
    curve moves, both in units of the scatter. That is what is left around two straight lines, the
    best break between them searched: around one line a sudden fall would be scatter itself. The two
    and their break are five parameters, which leave n − 5 degrees of freedom; what is known
    beforehand adds its own.
    """
    x, steps = x - x.mean(), np.arange(len(x))
    breaks = [steps < k for k in range(2, len(x) - 1)]
    lines = [(left, left * x, ~left, ~left * x) for left in breaks]
    bases = [np.linalg.qr(np.array(columns, float).T)[0] for columns in lines]

    def variance(rows):
        """(versions,) variances of one score, of (versions, n) rows."""
        left = [((rows - rows @ basis @ basis.T) ** 2).sum(axis=1) for basis in bases]
        least = np.min(left, axis=0) if left else np.zeros(len(rows))
        degrees = PRIOR_DEGREES + max(len(x) - 5, 0)
        return np.maximum((PRIOR_DEGREES * noise**2 + least) / degrees, 1e-18)

    def moves(rows):
        """Sums of squares of (versions, n) rows: off their isotonic curve, and of that curve."""
        curves = np.array([isotonic_regression(row).x for row in rows])
        return ((rows - curves) ** 2).sum(axis=1), curves.var(axis=1) * rows.shape[1]

    own = variance(y[None])
    null = np.sqrt(own) * np.random.default_rng(0).standard_normal((1000, len(y)))
    usual = variance(null)
    falls, rises = (
        bool((of_null / usual >= of_scores / own).mean() < LEVEL_OF_ORDER)
        for of_null, of_scores in zip(moves(null), moves(y[None]), strict=True)
    )
    return _Order(falls, rises, float(np.sqrt(own[0])))


def _scores(params: Mapping, Dp) -> np.ndarray:
    with in_float64():
        return np.asarray(laws.built_in("downstream-bleu")(dict(params), Dp=jnp.asarray(Dp, float)))
