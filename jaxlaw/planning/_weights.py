"""The mixture of many corpora that makes losses least: weights on the simplex."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._jit import compiled, in_float64
from jaxlaw._quantities import SHARE, written, written_range
from jaxlaw._result import TARGET
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.data import read_columns, refuse_rows
from jaxlaw.errors import DataError, UsageError
from jaxlaw.laws import Law, mixing
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    AnswerTable,
    context_of,
    fewest_degrees,
    law_inputs,
    missing_draws_notes,
    numbers_by_name,
    range_notes,
)
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, interval_columns, intervals

STARTS = 6  # mixtures that the search starts from, beside the natural one
_TOLERANCE = 1e-6  # within which a mixture keeps its constraints
_TINY = 1e-12
_INSIDE = 1e-4  # share at least that a search starts from
_NAMED = 4  # shares that the headline names
_LEAST = 1e-9  # share of a corpus without which a law is infinite


@dataclass(frozen=True, eq=False, repr=False)
class OptimalWeights(AnswerTable):
    """The best mixture and what it is worth.

    Attributes:
        table: a row for each corpus: ``share``, ``weight``, and, where given, ``natural`` and
            ``cap``; with draws ``weight_low`` and ``weight_high``.
        loss: weighted loss of the best mixture.
        losses: loss name → predicted loss there.
        gain: loss of what it is compared with, less its own, by name: of the ``natural`` mixture
            and of the best ``observed`` one, as the law predicts both.
        interval: intervals of ``loss`` and of each gain; empty without draws.
        kl: Kullback–Leibler divergence from the natural mixture, in nats; NaN without one.

    Example:
        >>> law = jl.laws.mixing(["web", "code"])
        >>> fit = (law, {"c": 1.0, "t[web]": 0.5, "t[code]": -0.5})
        >>> jl.planning.optimal_weights({"loss": fit}, caps={"code": 0.3}).loss.__round__(3)
        2.221
    """

    loss: float = field(metadata={"unit": TARGET})
    losses: Mapping[str, float]
    gain: Mapping[str, float]
    interval: Mapping[str, tuple[float, float]]
    kl: float = field(metadata={"unit": "nats"})
    picture = "mixture_weights"
    column_units: ClassVar[Mapping[str, str]] = {
        "weight": SHARE, "natural": SHARE, "cap": SHARE, "gain": TARGET, "losses": TARGET,
    }  # fmt: skip

    @property
    def quantities(self) -> dict[str, float]:
        """The loss, and what is gained over other mixtures."""
        return {"loss": self.loss, **{f"gain[{name}]": v for name, v in self.gain.items()}}

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of a number or a column; of a gain that of all."""
        return self.units.get(name.partition("[")[0])

    def _between(self, name: str, field: str = "interval") -> str:
        key = name.removeprefix("gain[").removesuffix("]")
        if field != "interval" or key not in self.interval:
            return ""
        return written_range(*self.interval[key], *self.units["loss"])

    def sentence(self) -> str:
        """The largest shares, the loss, and what is gained over the best mixture that was run."""
        rows = self.table.sort_values("weight", ascending=False).head(_NAMED)
        shares = [f"{written(row.weight, SHARE)} {row.share}" for row in rows.itertuples()]
        rest = len(self.table) - len(rows)
        shares += [f"{rest} more"] if rest else []
        sentence = f"{', '.join(shares)}: loss {self.written('loss', level=True)}"
        for name in self.gain:
            gain = self.written(f"gain[{name}]")
            sentence += f", {gain} less than the {'best ' * (name == 'observed')}{name} mixture"
        return sentence


@checked
def optimal_weights(
    fits: Mapping[str, Any],
    *,
    targets: Mapping[str, float] | None = None,
    natural: Mapping[str, float] | None = None,
    max_kl: float | None = None,
    caps: Mapping[str, float] | None = None,
    observed: Any = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> OptimalWeights:
    """Shares of many corpora that make a weighted sum of losses least.

    The shares lie between 0 and their caps and add up to 1. A corpus of T tokens that may be gone
    over k times in a run of D tokens has the cap k·T/D, 1 at most. Far from all mixtures that were
    run a law is not to be relied on: no share goes beyond the largest that was run unless ``caps``
    allows it, and ``max_kl`` keeps the answer near the natural mixture.

    Args:
        fits: loss name → fit over the shares, such as of :func:`jaxlaw.laws.mixing`: a Fit, (law,
            params) or a bootstrap. All of them take the same shares: their inputs that are
            fractions. Or corpus → fit over its own share ``r``, such as of ``bimix`` or ``dcpt``:
            the shares are then called as the corpora.
        targets: loss name → weight in the sum, of every loss, 0 for one that does not count; all
            alike by default.
        natural: share → its size in the natural mixture, such as the corpora's own, of every
            corpus; they are scaled to add up to 1.
        max_kl: largest Kullback–Leibler divergence from the natural mixture, in nats.
        caps: share → its largest value, 0 to 1; where none is given, the largest share in the
            fitted runs, and 1 where no runs are known.
        observed: table with the shares' columns, whole mixtures that were run: the answer is
            compared with the best of them that keeps caps and divergence.
        at: values of the laws' other inputs.
        level: confidence level of the intervals.

    Returns:
        :class:`OptimalWeights`. The note ``no-better-than-observed`` says where the interval of the
        gain over the best observed mixture holds 0, ``held-at-tried`` which shares end at the
        largest that was run.

    Raises:
        UsageError: laws of different shares, unknown names, targets or natural shares of some
            names only, caps above 1 or that leave no mixture, or max_kl without a natural mixture.
        DataError: no mixture keeps caps and divergence together, or rows of ``observed`` are no
            whole mixtures.

    Example:
        >>> law = jl.laws.mixing(["web", "code", "math"])
        >>> low = {"c": 1.0, "t[web]": 0.5, "t[code]": -0.5, "t[math]": 0.2}
        >>> high = low | {"t[web]": -0.5, "t[code]": 0.9}
        >>> plan = jl.planning.optimal_weights(
        ...     {"python": (law, low), "wiki": (law, high)}, caps={"web": 0.5}
        ... )
        >>> plan.table["weight"].round(3).tolist()
        [0.5, 0.357, 0.143]

    Shell:
        jaxlaw plan optimal-weights python=python.json wiki=wiki.json --cap code=0.3
            --natural web=8 --natural code=1 --natural math=1 --max-kl 0.15
    """
    names, inputs = list(fits), at or {}
    if not names:
        raise UsageError("give the fit of a loss or more, by name")
    every = as_draws(*fits.values())
    shares, columns = _shares(names, every, inputs)
    weights = np.ones(len(names))
    if targets is not None:
        weights = numbers_by_name(names, targets, "targets")
    tried = _tried(shares, every, columns)
    cap = numbers_by_name(shares, caps or {}, "caps", tried, domain="fraction")
    if cap.sum() < 1 - _TOLERANCE:
        raise UsageError(
            f"caps add up to {cap.sum():.4g}: shares below them cannot add up to 1. A corpus that "
            "is not in caps= has the largest share that was run",
            argument="caps",
            value=caps,
        )
    if max_kl is not None and (natural is None or not max_kl > 0):
        raise UsageError("max_kl is positive, and needs natural=, the mixture it is counted from")
    natural_shares = None
    if natural is not None:
        natural_shares = numbers_by_name(shares, natural, "natural")
        natural_shares = natural_shares / natural_shares.sum()
    others = tuple(
        law_inputs(source, source.inputs_taken(inputs), [*of])
        for source, of in zip(every, columns, strict=True)
    )
    weights = weights / weights.sum()
    least = _least_shares(
        shares, every, columns, cap, natural_shares if max_kl is not None else None
    )
    problem = _Problem(
        tuple(shares), every, columns, others, weights, least, cap, natural_shares, max_kl
    )
    best_shares = problem.solved()
    # Of the fit's own best mixture in every draw: the best mixture of each draw is better there
    # than any other, so that a gain of these would never be none.
    values = {"loss": problem.losses_at(best_shares[0]) @ problem.weights}
    compared = {} if natural_shares is None else {"natural": natural_shares[None, :]}
    notes: list[Note] = []
    if observed is not None:
        run = _observed(observed, shares, every[0].law)
        run = run[[problem.allows(r) for r in run]]
        if len(run):
            compared["observed"] = run
        else:
            message = "no observed mixture keeps the caps and max_kl: there is none to compare with"
            notes.append(Note("none-observed-allowed", "info", message))
    for name, mixtures in compared.items():
        # The best of them by the fit itself, the same mixture in every draw.
        predicted = np.array([problem.losses_at(r)[0] @ problem.weights for r in mixtures])
        best = mixtures[int(np.argmin(predicted))]
        values[name] = problem.losses_at(best) @ problem.weights - values["loss"]
    interval = intervals(values, level, fewest_degrees(every)) if len(best_shares) > 1 else {}
    table = {"share": shares} | interval_columns(
        "weight", best_shares, level, fewest_degrees(every)
    )
    if natural_shares is not None:
        table["natural"] = natural_shares
    if caps or (cap < 1).any():
        table["cap"] = cap
    notes += _tried_notes(shares, best_shares[0], np.where(cap < tried, np.nan, tried), caps or {})
    notes += _notes(problem, best_shares, values, interval)
    numbers = {name: value for name, value in inputs.items() if not isinstance(value, str)}
    for name, source, of in zip(names, every, columns, strict=True):
        what = name if "r" in of else ""  # of the corpus's own share, which others do not have
        there = numbers | {share: best_shares[0][k] for share, k in of.items()}
        notes += range_notes(source, what, **source.inputs_taken(there))
    notes += _doubts(names, every)
    losses = problem.losses_at(best_shares[0])[0]
    first = numbers | {share: best_shares[0][k] for share, k in columns[0].items()}
    return OptimalWeights(
        pd.DataFrame(table),
        level,
        tuple(dict.fromkeys(notes)),
        **context_of(OptimalWeights, every[0], every[0].inputs_taken(first)),
        loss=float(values["loss"][0]),
        losses=dict(zip(names, map(float, losses), strict=True)),
        gain={name: float(values[name][0]) for name in compared},
        interval=interval,
        kl=math.nan if natural_shares is None else _divergence(best_shares[0], natural_shares),
    )


def _shares(
    names: Sequence[str], every: Sequence[Draws], inputs: Mapping[str, Any]
) -> tuple[list[str], tuple[dict[str, int], ...]]:
    """Names of the shares, and of each law its inputs that are shares → which of them.

    They are the inputs that are fractions, the same of every law, or the names of the losses,
    where each law takes the share of its own corpus.
    """
    of_each = [
        [s.name for s in source.law.inputs if s.domain == "fraction" and s.name not in inputs]
        for source in every
    ]
    if len(names) > 1 and all(own == ["r"] for own in of_each):
        return list(names), tuple({"r": k} for k in range(len(names)))
    for name, own in zip(names, of_each, strict=True):
        if len(own) < 2 or set(own) != set(of_each[0]):
            raise UsageError(
                f"the fit of {name} takes the shares {', '.join(own) or '—'}, that of {names[0]} "
                f"{', '.join(of_each[0])}: give fits over the same shares, two or more, or of two "
                "corpora or more fits over the own share r of each"
            )
    return of_each[0], tuple({n: k for k, n in enumerate(of_each[0])} for _ in every)


def _tried(
    shares: Sequence[str], every: Sequence[Draws], columns: Sequence[Mapping[str, int]]
) -> np.ndarray:
    """(k,) the largest share of each corpus that the runs of every law had; 1 where unknown."""
    tried = np.ones(len(shares))
    for source, of in zip(every, columns, strict=True):
        for name, k in of.items():
            high = source.ranges.get(name, (math.nan, math.nan))[1] * source.units[name]
            tried[k] = min(tried[k], high) if high > 0 else tried[k]
    return tried


def _tried_notes(
    shares: Sequence[str], best: np.ndarray, tried: np.ndarray, caps: Mapping[str, float]
) -> list[Note]:
    """Which shares end at the largest that was run, for want of a wider cap."""
    at = [
        f"{name} ({limit:.4g})"
        for name, share, limit in zip(shares, best, tried, strict=True)
        if name not in caps and limit < 1 and share >= limit - _TOLERANCE
    ]
    if not at:
        return []
    message = (
        f"held at the largest share that was run: {', '.join(at)}; more may do better, which no "
        "run shows. caps= allows more"
    )
    return [Note("held-at-tried", "warning", message)]


def _least_shares(
    shares: Sequence[str],
    every: Sequence[Draws],
    columns: Sequence[Mapping[str, int]],
    cap: np.ndarray,
    natural: np.ndarray | None,
) -> np.ndarray:
    """(k,) the least share of each corpus: above 0 where a law is infinite without it."""
    least = np.zeros(len(shares))
    for source, of in zip(every, columns, strict=True):
        for spec in source.law.inputs:
            if spec.above_zero and spec.name in of:
                least[of[spec.name]] = _LEAST
    without = least > (cap if natural is None else np.where(natural > 0, cap, 0.0))
    if without.any():
        raise UsageError(
            f"without {shares[int(np.argmax(without))]} its law has an infinite loss: allow a "
            "share of it above 0"
        )
    return least


def _observed(table: Any, shares: Sequence[str], law: Law) -> np.ndarray:
    """(n, k) mixtures that were run, each whole; raises DataError where a row is none."""
    runs = read_columns(table, dict.fromkeys(shares, ", the share of a corpus"), name="observed")
    for name in shares:
        bad = ~(runs.table[name].to_numpy() >= 0)
        refuse_rows(runs, name, bad, "give a share of 0 or more, or leave the row out")
    law = law if law.shares else mixing(shares)
    whole = law.whole_mixtures(runs.table, partial(runs.mixture_error, law))
    return np.stack([whole[name] for name in shares], axis=1)


def _divergence(r: np.ndarray, natural: np.ndarray) -> float:
    """Σ r·log(r/natural), in nats; infinite where a share has no natural one."""
    with np.errstate(divide="ignore"):
        terms = np.where(r > _TINY, r * (np.log(np.maximum(r, _TINY)) - np.log(natural)), 0.0)
    return float(terms.sum())


@dataclass(frozen=True, eq=False)
class _Problem:
    """The question, checked: laws with draws, and what mixtures are allowed."""

    shares: tuple[str, ...]
    every: tuple[Draws, ...]
    columns: tuple[dict[str, int], ...]
    others: tuple[dict[str, float], ...]
    weights: np.ndarray
    least: np.ndarray
    cap: np.ndarray
    natural: np.ndarray | None
    max_kl: float | None

    @property
    def laws(self) -> tuple[Law, ...]:
        return tuple(source.law for source in self.every)

    def params(self, draw: int) -> tuple[dict[str, float], ...]:
        return tuple({k: v[draw] for k, v in source.values.items()} for source in self.every)

    def allows(self, r: np.ndarray, slack: float = 0.01) -> bool:
        """Whether a mixture keeps caps and divergence, to the rounding of shares in a table."""
        near = self.max_kl is None or _divergence(r / r.sum(), self.natural) <= self.max_kl + slack
        return bool(near and (r <= self.cap + slack).all())

    def losses_at(self, r: np.ndarray) -> np.ndarray:
        """Losses (draws, L) at one mixture (k,)."""
        with in_float64():
            return np.stack(
                [
                    np.asarray(
                        source.law.evaluate(
                            source.values, **{name: r[k] for name, k in of.items()}, **others
                        )
                    )
                    for source, of, others in zip(
                        self.every, self.columns, self.others, strict=True
                    )
                ],
                axis=1,
            )

    def solved(self) -> np.ndarray:
        """The best mixture of every draw, (draws, k); NaN where the search fails."""
        first = self._best_of(0, self._starts())
        if first is None:
            raise DataError(
                "no mixture was found that keeps the caps and the divergence together: allow a "
                "larger max_kl, or larger caps",
                argument="max_kl",
                value=self.max_kl,
            )
        of_draws = [first]
        for draw in range(1, self.every[0].rows):
            best = self._best_of(draw, [first, self._starts()[0]])
            of_draws.append(np.full(len(first), np.nan) if best is None else best)
        return np.stack(of_draws)

    def _starts(self) -> list[np.ndarray]:
        """The natural or an even mixture, and others all over the simplex, within the caps."""
        even = self.cap / self.cap.sum()
        first = even if self.natural is None else self._within(self.natural)
        random = np.random.default_rng(0).dirichlet(np.ones(len(self.cap)), STARTS)
        if self.max_kl is not None:  # near what the divergence allows
            random = 0.7 * first + 0.3 * random
        return [first, even, *(self._within(r) for r in random)]

    def _within(self, r: np.ndarray) -> np.ndarray:
        """A mixture cut to the caps, what is cut spread over the room that is left."""
        cut = np.minimum(r / r.sum(), self.cap)
        room = self.cap - cut
        return cut if room.sum() == 0 else cut + room * (1 - cut.sum()) / room.sum()

    def _best_of(self, draw: int, starts: Sequence[np.ndarray]) -> np.ndarray | None:
        # Importing scipy.optimize takes long, and no other plan needs it.
        from scipy.optimize import minimize

        params = self.params(draw)
        columns = tuple(tuple(of.items()) for of in self.columns)

        # Searched are the roots u of the shares r = u². A law with a power of a share below 1, such
        # as the additive one, has an endless slope at a share of 0, where SLSQP on the shares
        # themselves used up its 300 iterations short of the optimum; on the roots it takes 20.
        def value(u: np.ndarray) -> tuple[float, np.ndarray]:
            with in_float64():
                loss, slope = _value_and_slope(
                    self.laws, columns, params, self.others, self.weights, u**2
                )
            return float(loss), 2 * u * np.asarray(slope)

        limits = [{"type": "eq", "fun": lambda u: (u**2).sum() - 1.0, "jac": lambda u: 2 * u}]
        cap = self.cap
        if self.max_kl is not None:
            log_own = np.log(np.maximum(self.natural, 1e-300))
            cap = np.where(self.natural > 0, cap, 0.0)
            limits.append(
                {
                    "type": "ineq",
                    "fun": lambda u: self.max_kl - _divergence(u**2, np.exp(log_own)),
                    "jac": lambda u: -2 * u * (np.log(np.maximum(u**2, _TINY)) - log_own + 1.0),
                }
            )
        best, least = None, math.inf
        for start in starts:
            # From 0 no slope leads away: it is 2·u times that in the share.
            inside = np.sqrt(np.clip(start, np.minimum(_INSIDE, cap), cap))
            result = minimize(
                value, inside, jac=True, method="SLSQP",
                bounds=list(zip(np.sqrt(self.least), np.sqrt(cap), strict=True)),
                constraints=limits, options={"maxiter": 300, "ftol": 1e-12},
            )  # fmt: skip
            r = np.clip(result.x**2, self.least, cap)
            if abs(r.sum() - 1) > _TOLERANCE or not np.isfinite(result.fun) or result.fun >= least:
                continue
            if self.max_kl is not None and (
                _divergence(r, self.natural) > self.max_kl * (1 + 1e-4) + _TOLERANCE
            ):
                continue
            best, least = r / r.sum(), result.fun
        return best


@compiled(static_argnames=("laws", "columns"))
def _value_and_slope(
    laws: tuple[Law, ...],
    columns: tuple[tuple[tuple[str, int], ...], ...],
    params: Any,
    others: Any,
    weights: Any,
    r: Any,
) -> Any:
    """The weighted loss of a mixture (k,), and its slopes."""

    def total(r: Any) -> Any:
        losses = [
            law(own, **{name: r[k] for name, k in of}, **more)
            for law, of, own, more in zip(laws, columns, params, others, strict=True)
        ]
        return jnp.dot(weights, jnp.stack(losses))

    return jax.value_and_grad(total)(r)


def _doubts(names: Sequence[str], every: Sequence[Draws]) -> list[Note]:
    """The codes of the fits' warnings, in one note for all of them."""
    codes: dict[str, list[str]] = {}
    for name, source in zip(names, every, strict=True):
        for note in source.warnings:
            codes.setdefault(note.code, []).append(name)
    if not codes:
        return []
    message = "; ".join(f"{code} of {', '.join(of)}" for code, of in codes.items())
    message = f"the fits have warnings, which their own notes explain: {message}"
    return [Note("doubtful-fit", "warning", message)]


def _notes(
    problem: _Problem,
    best_shares: np.ndarray,
    values: Mapping[str, np.ndarray],
    interval: Mapping[str, Any],
) -> list[Note]:
    notes = missing_draws_notes(best_shares[:, 0], "best mixture")
    if "observed" in values:
        low, high = interval.get("observed", (math.nan, math.nan))
        gain = float(values["observed"][0])
        if not interval:
            message = (
                f"it is predicted to be {gain:.4g} better than the best observed mixture; without "
                "the draws of a bootstrap nothing says whether that is more than noise"
            )
            notes.append(Note("gain-without-interval", "info", message))
        elif low <= 0:
            message = (
                f"the gain over the best observed mixture, {gain:.4g}, has the interval {low:.4g} "
                f"to {high:.4g}: it may be none"
            )
            notes.append(Note("no-better-than-observed", "warning", message))
    pure = best_shares[0] > 1 - 1e-6
    if pure.any():
        message = (
            f"all of the mixture is {problem.shares[int(np.argmax(pure))]}: caps, or max_kl with a "
            "natural mixture, keep the answer near what was run"
        )
        notes.append(Note("one-corpus", "warning", message))
    return notes
