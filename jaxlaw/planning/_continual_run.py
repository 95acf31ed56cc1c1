"""The best continual run of a number of tokens, from logs or fits (Wang 2025, §5)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jaxlaw._quantities import (
    SHARE,
    Quantity,
    checked_number,
    exponential,
    in_unit,
    readable,
    written,
)
from jaxlaw._result import TARGET
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.data import LossCurves, as_schedule, optimizer_steps
from jaxlaw.errors import DataError, UsageError, listed, nearest
from jaxlaw.fitting import Fit, fit
from jaxlaw.notes import Note
from jaxlaw.planning._answers import Answer, missing_draws_notes, units_of
from jaxlaw.planning._continual import best_settings, losses_of
from jaxlaw.planning._continual_pretraining import (
    SEARCHED,
    ContinualPretraining,
    Shape,
)
from jaxlaw.planning._flat import as_good
from jaxlaw.schedules import Schedule, cosine
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, bootstrap, interval_columns, with_intervals

_CORPORA = {"pt": "general", "cpt": "domain"}
_NUMBERS = (
    "tokens", "steps", "replay", "peak", "decay", "loss_pt", "loss_cpt", "weighted",
    "change_pt", "change_cpt",
)  # fmt: skip
_RUNS = ["run", "replay", "peak", "steps", "tokens", "loss_pt", "loss_cpt"]
_WORDS = {"replay": "replay", "peak": "peak rate", "steps": "steps", "decay": "decay"}
# What others call the columns of both losses and of replay.
_USUAL = {
    "loss_g": ("loss_pt", "general_loss", "pt_loss", "loss_general"),
    "loss_d": ("loss_cpt", "domain_loss", "cpt_loss", "loss_domain"),
    "r_g": ("replay", "r_pt", "replay_ratio", "general_ratio"),
}
_WEIGHTS = tuple(np.linspace(0, 1, 21))
_LINE = 257  # points along a setting at which the loss is looked at
_LEAST = 0.05  # of the tokens, and of the steps after the warm-up: the least that is searched
_WARMUP = 0.01  # of the tokens
_AT_EDGE = 1e-3  # of a range
_ALL = 0.995  # share of the steps from which on a rate falls all the way
_FLAT = "as good"  # beginning of the name of the table of what costs nothing
_SAME_RATE = 1e-3  # of the peak, within which a logged schedule is a cosine
_BEST_RUNS = 5  # that a summary shows


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ContinualRun(Answer):
    """The continual run of a number of tokens with the least λ1·L_pt + λ2·L_cpt at its end.

    Attributes:
        weight: λ1, the weight of the loss on the pre-training corpus; λ2 is 1 − λ1.
        tokens: tokens of the run, those of replay included.
        steps: its updates.
        replay: share of the pre-training corpus.
        peak: highest learning rate.
        decay: share of the steps after the warm-up in which the rate falls, on a straight line.
        loss_pt, loss_cpt: losses at its end, in nats.
        weighted: λ1·loss_pt + λ2·loss_cpt, in nats.
        change_pt, change_cpt: changes of the losses since its start, in nats.
        batch_tokens: tokens of an update.
        searched: range of each setting that was searched.
        table: the trade-off, a row for each weight: best settings and both losses.
        runs: the continual runs behind the fits at their last logged step: ``run``, ``replay``,
            ``peak``, ``steps``, ``tokens``, ``loss_pt``, ``loss_cpt``, ``weighted`` (λ1·loss_pt +
            λ2·loss_cpt); without rows where only fits are known.
        schedule: rates of the best run, after those of its base where they are known.
    """

    weight: float = field(metadata={"unit": "", "setting": True})
    tokens: float = field(metadata={"unit": "tokens"})
    steps: float = field(metadata={"unit": "steps"})
    replay: float = field(metadata={"unit": SHARE})
    peak: float = field(metadata={"unit": ""})
    decay: float = field(metadata={"unit": SHARE})
    loss_pt: float = field(metadata={"unit": TARGET})
    loss_cpt: float = field(metadata={"unit": TARGET})
    weighted: float = field(metadata={"unit": TARGET})
    change_pt: float = field(metadata={"unit": TARGET})
    change_cpt: float = field(metadata={"unit": TARGET})
    batch_tokens: float = field(metadata={"unit": "tokens", "setting": True})
    searched: dict[str, tuple[float, float]]
    table: pd.DataFrame
    runs: pd.DataFrame
    schedule: Any = field(default=None, metadata={"saved": False})
    picture = "continual_run"
    limited_by = "over"

    def sentence(self) -> str:
        """The run: its settings, both losses with intervals, what binds."""
        if math.isnan(self.weighted):
            return ""
        falling = f"falling over the last {written(self.decay, SHARE)} of it"
        falling = "falling all the way" if self.decay > _ALL else falling
        return (
            f"{readable(self.tokens, 'tokens')} ({self.steps:,.0f} steps): replay "
            f"{self.written('replay', level=True)}, peak rate {exponential(self.peak)}, {falling}; "
            f"losses {self.written('loss_pt')} on the pre-training corpus and "
            f"{self.written('loss_cpt')} on the new one; what binds: {self.binding}"
        )

    def shown(self) -> dict[str, pd.DataFrame]:
        """A few rows of the trade-off, and of the runs those with the lowest weighted loss."""
        settings = [name for name in self.table if not name.endswith(("_low", "_high"))]
        every = max(1, (len(self.table) - 1) // 5)
        shown = {"trade-off over λ1": self.table[settings].iloc[::every]}
        if len(self.runs):
            head = self.runs.sort_values("weighted").head(_BEST_RUNS)
            shown[f"the best {len(head)} of {len(self.runs)} runs by the weighted loss"] = head
        flat = {name: rows for name, rows in super().shown().items() if name.startswith(_FLAT)}
        return shown | flat

    def lines(self) -> list[str]:
        """Numbers with their intervals, what binds, the trade-off and the best runs."""
        lines = super().lines()
        for name, table in self.shown().items():
            if not name.startswith(_FLAT):  # which are lines already
                lines += [f"{name}:", *self.readable(table).to_string(index=False).split("\n")]
        return lines


@checked
def continual_run(
    pt: Any,
    cpt: Any = None,
    *,
    tokens: Quantity,
    batch_tokens: Quantity,
    weight: float,
    base: Schedule | str | None = None,
    over: Mapping[str, tuple[float, float]] | None = None,
    warmup_tokens: Quantity | None = None,
    final: float | None = None,
    curves: Any = None,
    n_resamples: int = 100,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> ContinualRun:
    """The best replay, peak rate, length and decay of a continual run of so many tokens.

    From the loss curves of runs at several replay ratios, or from fits of them, to the settings
    with the least λ1·L_pt + λ2·L_cpt at the end (Wang 2025, §5.1), the trade-off over λ1, and how
    far each setting may move at no cost. The rate warms up, stays at its peak, and falls on a
    straight line.

    Args:
        pt: fit of the loss on the pre-training corpus; or the loss curves of runs with both losses
            (``loss_g`` and ``loss_d``, share ``r_g``), which are then fitted.
        cpt: fit of the loss on the new corpus; none with loss curves.
        tokens: most tokens that the run may have, replay included.
        batch_tokens: tokens of an update, by which tokens are steps.
        weight: weight λ1 of the loss on the pre-training corpus, in [0, 1]; λ2 is 1 − λ1.
        base: how the base was trained: a Schedule, a line such as
            ``wsd:peak=2e-4,steps=40000,final=2e-5``, or the name of one of the curves that has it.
            Left out: that of the curves, if all share one; laws of an unknown base need none.
        over: ranges to search, setting → (lowest, highest), of ``replay``, ``peak``, ``steps`` and
            ``decay``; equal ones hold a setting. Left out: what the curves had of replay and peak;
            of fits, replay in their range and peaks of a tenth of the base's to all of it; steps
            from a twentieth of the tokens on; decay from 0.05 on. Curves of one schedule show
            nothing of steps and decay, whose defaults are then those of that schedule.
        warmup_tokens: tokens of the warm-up to the peak; a hundredth of the tokens by default.
        final: last rate as a share of the peak; 0, or of curves of one schedule what it had.
        curves: loss curves of fits, for the trade-off's picture and for draws of the fits.
        n_resamples: number of resamples for intervals, by the wild bootstrap with runs as groups,
            where curves are given; 0 is none. Bootstraps in place of the fits bring their own.
        at: values of what the laws take beside areas and r, in units of the fitted runs.
        level: confidence level of the intervals.

    Returns:
        ContinualRun. ``flat`` has the range of each setting, the others held, in which the
        weighted loss rises by no more than a single run's noise, that is the residuals' of the
        fits.

    Raises:
        UsageError: curves without both losses, several bases or sizes, a range that is none, or
            fits that do not belong to such a run.
        DataError: the curves do not carry the laws.

    Example:
        >>> pt, cpt = (jl.published()[name] for name in ("wang-2025-pt", "wang-2025-cpt"))
        >>> plan = jl.planning.continual_run(
        ...     pt, cpt, tokens="20B", batch_tokens="2M", weight=0.6,
        ...     base="wsd:peak=2e-4,steps=40000", over={"steps": (10_000, 10_000)},
        ... )
        >>> round(plan.replay, 2), plan.binding
        (0.67, 'peak rate at its highest (0.0002)')

    Shell:
        jaxlaw plan continual published:wang-2025-pt published:wang-2025-cpt --tokens 20e9
            --batch-tokens 2e6 --weight 0.6 --base wsd:peak=2e-4,steps=40000
    """
    total, batch, warmup = _tokens(tokens, batch_tokens, warmup_tokens)
    if not 0 <= weight <= 1:
        raise UsageError(f"weight is {weight}; λ1 lies in [0, 1], and λ2 is 1 − λ1")
    seen, fits, known = _given(pt, cpt, curves, base, batch)
    draws = _draws_of(fits, seen, n_resamples)
    steps, over = float(total // batch), dict(over or {})
    limits, held = _limits(over, seen, draws[0], known, steps, warmup / batch)
    shape, last = _shape(seen, over, final)
    # What is searched needs some value here as well.
    first = {"steps": steps, "peak": limits.get("peak", (0.0, 1.0))[1]}
    run = ContinualPretraining(
        known, shape=shape, final=last, warmup=warmup / batch, **{**first, **held}
    )
    losses = losses_of(draws, run, at, None)
    found = _optima(losses, limits, weight, batch, seen)
    values = {name: rows[0] for name, rows in found.items()}
    best = {name: float(values[name][0]) for name in SEARCHED}
    binding, edges = _binding(limits, best, steps)
    notes = [*edges, *losses.notes({name: np.array([value]) for name, value in best.items()})]
    notes += missing_draws_notes(values["objective"], "optimum")
    settings = {name: value for name, value in best.items() if name != "loss_potential"}
    return ContinualRun(
        **with_intervals({name: values[name] for name in _NUMBERS}, level, losses.degrees),
        weight=float(weight), batch_tokens=batch, searched=limits, binding=binding,
        flat=_flat(losses, limits, best, weight, batch),
        table=_trade_off({name: found[name][1:] for name in _NUMBERS}, level, losses.degrees),
        runs=_weighted(seen, float(weight)),
        schedule=run.schedule(**settings), notes=tuple(dict.fromkeys(notes)),
        units=units_of(ContinualRun, draws[0]), beyond=_times_beyond(best["steps"], seen),
    )  # fmt: skip


def _tokens(tokens: Any, batch_tokens: Any, warmup_tokens: Any) -> tuple[float, float, float]:
    """Tokens of the run, of an update and of the warm-up, as numbers."""
    total, batch = (
        checked_number(name, in_unit(value, 1.0, "tokens"))
        for name, value in (("tokens", tokens), ("batch_tokens", batch_tokens))
    )
    if total < 2 * batch:
        raise UsageError(
            f"tokens are {total:g}, which is less than two updates of {batch:g}",
            argument="tokens",
            value=tokens,
        )
    if warmup_tokens is None:
        return total, batch, batch * round(_WARMUP * total / batch)
    warmup = checked_number("warmup_tokens", in_unit(warmup_tokens, 1.0, "tokens"), "nonnegative")
    if warmup > total / 2:
        raise UsageError(
            f"warmup_tokens are {warmup:g}, more than half of the {total:g} tokens",
            argument="warmup_tokens",
            value=warmup_tokens,
        )
    return total, batch, warmup


def _given(
    pt: Any, cpt: Any, curves: Any, base: Any, batch: float
) -> tuple[_Seen | None, tuple[Any, Any], Schedule | None]:
    """The runs, as far as there are curves, both fits, and how the base was trained."""
    if isinstance(pt, LossCurves):
        if cpt is not None or curves is not None:
            raise UsageError("loss curves have both losses: give no cpt= and no curves= with them")
        seen = _seen(pt, batch)
        known = _known_base(base, seen, seen.known)  # before the fits, which take a while
        return seen, _fits_of(seen), known
    if cpt is None:
        raise UsageError("give fits of both losses, or loss curves that have both", argument="cpt")
    seen = None if curves is None else _seen(curves, batch)
    needed = "S1_pt" in as_draws(pt)[0].law.input_names
    return seen, (pt, cpt), _known_base(base, seen, needed)


# ---------------------------------------------------------------- what the curves had


class _Seen(NamedTuple):
    """The continual runs of loss curves."""

    curves: LossCurves
    ends: pd.DataFrame  # a row for each: columns _RUNS
    bases: dict[str, Schedule | None]  # run → its pre-training; None where nobody describes it
    shapes: int  # number of different schedules of the continual phase, peaks apart

    @property
    def known(self) -> bool:
        """Whether the pre-training is known."""
        return None not in self.bases.values()

    @property
    def shares(self) -> int:
        """Number of different shares of replay."""
        return self.ends["replay"].nunique()

    def of(self, corpus: str) -> LossCurves:
        """The curves of one of the losses, ``pt`` or ``cpt``."""
        return dataclasses.replace(self.curves, rows=self.curves.rows.for_corpus(_CORPORA[corpus]))


def _seen(curves: Any, batch: float) -> _Seen:
    """The continual runs of loss curves, each at its last logged step.

    Raises:
        UsageError: these are no loss curves, or of several sizes.
        DataError: a loss is missing, or no run has a continual phase.
    """
    _check_curves(curves)
    table = curves.table
    done = optimizer_steps(table, curves.run_schedules)
    rows, bases, shapes = [], {}, set()
    for run, followed in curves.run_schedules.items():
        schedule, boundary = followed.schedule, followed.schedule.boundary
        if boundary is None and followed.phase == "pt":
            continue  # a base by itself
        own = schedule.rates[boundary or 0 :]
        last = int(np.flatnonzero(table["run"] == run)[-1])
        steps = float(done[last] - (boundary or 0))
        bases[run] = Schedule(schedule.rates[:boundary], schedule.initial_lr) if boundary else None
        shapes.add((own / own.max()).round(9).tobytes())
        cells = table.iloc[last]
        rows.append((run, _replay(curves, cells), own.max(), steps, steps * batch,
                     float(cells["loss_g"]), float(cells["loss_d"])))  # fmt: skip
    if not rows:
        raise DataError(
            f"{curves.rows.source}: no run has a continual phase: give schedules of both phases, "
            "first+second, or a column phase that says cpt",
            file=curves.rows.source,
        )
    return _Seen(curves, pd.DataFrame(rows, columns=_RUNS), bases, len(shapes))


def _check_curves(curves: Any) -> None:
    """Refuse what has not both losses of one size."""
    if not isinstance(curves, LossCurves):
        raise UsageError(
            f"curves are what jl.read_loss_curves returns, not {type(curves).__name__}",
            argument="curves",
        )
    table, source = curves.table, curves.rows.source
    if not {"loss_g", "loss_d"} <= set(table):
        raise _without_losses(table, source)
    if "N" in table and table["N"].nunique() > 1:
        raise UsageError(f"{source}: the curves are of several sizes N; choose one with where=")


def _without_losses(table: pd.DataFrame, source: str) -> DataError:
    """The error on curves that lack one of both losses, with a guess of their columns."""
    columns = {}
    for name, usual in _USUAL.items():
        if name not in table:
            columns[name] = next((column for column in usual if column in table), "…")
    error = DataError(
        f"{source}: a continual run balances the loss on the pre-training corpus (loss_g) and on "
        f"the new one (loss_d), and r_g is the share of the first; columns: {listed(table)}. "
        f"Perhaps, guessed from names: columns={columns}",
        file=source,
        column=next(iter(columns)),
    )
    error.guess = {"columns": columns}
    return error


def _times_beyond(steps: float, seen: _Seen | None) -> float:
    """Times the longest run; 1 up to it, NaN where no run is known."""
    return math.nan if seen is None else max(steps / seen.ends["steps"].max(), 1.0)


def _weighted(seen: _Seen | None, weight: float) -> pd.DataFrame:
    """The runs with λ1·L_pt + λ2·L_cpt at their ends."""
    ends = pd.DataFrame(columns=_RUNS, dtype=float) if seen is None else seen.ends
    return ends.assign(weighted=weight * ends["loss_pt"] + (1 - weight) * ends["loss_cpt"])


def _replay(curves: LossCurves, cells: pd.Series) -> float:
    """The share of the pre-training corpus in a row; 0 where no column has it."""
    for name, own in (("r_g", True), ("r_d", False)):
        if name in cells:
            share = float(cells[name]) * curves.rows.units.get(name, 1.0)
            return share if own else 1 - share
    return 0.0


def _known_base(base: Schedule | str | None, seen: _Seen | None, needed: bool) -> Schedule | None:
    """The pre-training that the run goes on from; None where nobody describes it."""
    if base is None and not needed:
        return None
    if isinstance(base, str) and ":" not in base and seen is not None:
        schedules = seen.curves.schedules
        if base not in schedules:
            raise UsageError(
                f"base: there is no run '{base}'; runs: {listed(schedules)}."
                f"{nearest(base, schedules)}",
                argument="base",
                value=base,
            )
        base = schedules[base]
    if base is None and seen is not None:
        base = _only_base(seen)
    if base is None:
        raise UsageError(
            "say how the base was trained: base='wsd:peak=2e-4,steps=40000', or a Schedule",
            argument="base",
        )
    schedule = as_schedule(base, "base")
    return Schedule(schedule.rates[: schedule.boundary], schedule.initial_lr, None, schedule.name)


def _only_base(seen: _Seen) -> Schedule | None:
    """The pre-training that all continual runs share; raises UsageError where they do not."""
    several = {run: known.rates.tobytes() if known else b"" for run, known in seen.bases.items()}
    runs = list({rates: run for run, rates in reversed(several.items())}.values())
    if len(runs) > 1:
        raise UsageError(
            f"the curves have {len(runs)} bases; say which the run goes on from: "
            f"base='{runs[0]}', or another run that has it ({listed(runs)})",
            argument="base",
        )
    return next(iter(seen.bases.values()))


def _fits_of(seen: _Seen) -> tuple[Fit, Fit]:
    """Fits of both losses of the curves."""
    end = "" if seen.known else "-unknown-base"
    names = [f"cpt-curve-replay-{corpus}{end}" for corpus in _CORPORA]
    if seen.shares < 2:
        names = [f"cpt-curve{end}"] * 2
    pt, cpt = (fit(name, seen.of(corpus)) for name, corpus in zip(names, _CORPORA, strict=True))
    return pt, cpt


def _draws_of(fits: tuple[Any, Any], seen: _Seen | None, n_resamples: int) -> tuple[Draws, ...]:
    """Both fits with draws: their own, or by the wild bootstrap where their runs are known.

    The wild one leaves every run in: without a base, or the only run of a share, the laws would be
    open. One seed for both losses, so that row k of either is of the same resample.
    """
    if seen is None or not n_resamples:
        return as_draws(*fits)
    groups = "run" if len(seen.curves) > 1 else None
    return as_draws(
        *(
            bootstrap(each, seen.of(corpus), n_resamples, kind="wild", groups=groups)
            if isinstance(each, Fit)
            else each
            for corpus, each in zip(_CORPORA, fits, strict=True)
        )
    )


# ---------------------------------------------------------------- the search


def _limits(
    over: Mapping[str, tuple[float, float]], seen: _Seen | None, pt: Draws, base: Schedule | None,
    steps: float, warmup: float,
) -> tuple[dict[str, tuple[float, float]], dict[str, float]]:  # fmt: skip
    """Setting → range that is searched, and the settings that are held."""
    known = (*_WORDS,)
    for name in over:
        if name not in known:
            raise UsageError(
                f"over: '{name}' is none of {', '.join(known)}.{nearest(name, known)}",
                argument="over",
                value=over,
            )
    limits = _usual_limits(seen, pt, base, steps, warmup) | {
        name: (float(low), float(high)) for name, (low, high) in over.items()
    }
    if limits["steps"][1] > steps * (1 + 1e-9):
        raise UsageError(
            f"over: steps of {limits['steps'][1]:,.0f} are more than the tokens make, {steps:,.0f}",
            argument="over",
            value=over,
        )
    if "peak" not in limits:
        raise UsageError("say which peaks to search: over={'peak': (1e-5, 1e-4)}", argument="over")
    held = {name: low for name, (low, high) in limits.items() if low == high}
    return {name: limits[name] for name in SEARCHED if name in set(limits) - set(held)}, held


def _usual_limits(
    seen: _Seen | None, pt: Draws, base: Any, steps: float, warmup: float
) -> dict[str, tuple[float, float]]:
    """What the runs had; of fits alone, what is near their base."""
    limits = {"steps": (max(_LEAST * steps, 2 * warmup, 1.0), steps), "decay": (_LEAST, 1.0)}
    if seen is not None:
        for name in ("replay", "peak"):
            limits[name] = (float(seen.ends[name].min()), float(seen.ends[name].max()))
        if seen.shapes == 1:  # nothing tells annealing from training
            limits |= {"steps": (steps, steps), "decay": (_decay_of(seen),) * 2}
    else:
        low, high = pt.ranges.get("r", (0.0, 1.0))
        limits["replay"] = (max(low, 0.0), min(high, 1.0)) if low < high else (0.0, 1.0)
        if base is not None:
            peak = float(base.rates.max())
            limits["peak"] = (0.1 * peak, peak)
    return limits if "r" in pt.law.input_names else limits | {"replay": (0.0, 0.0)}


def _one_schedule(seen: _Seen) -> np.ndarray:
    """The rates of the first run after its warm-up, over their peak."""
    schedule = seen.curves.schedules[next(iter(seen.bases))]
    own = schedule.rates[schedule.boundary or 0 :]
    highest = int(np.flatnonzero(own >= own.max() * (1 - 1e-9))[0])
    return own[highest:] / own.max()


def _shape(seen: _Seen | None, over: Mapping[str, Any], final: float | None) -> tuple[Shape, float]:
    """The shape of a run's rates, and its last one over the peak.

    ``cosine`` where all runs had one; else ``wsd``, which is a straight line at a decay of 1.
    """
    if seen is None or seen.shapes > 1:
        return "wsd", final or 0.0
    own = _one_schedule(seen)
    final = float(own[-1]) if final is None else final
    line = np.append(1.0, cosine(1.0, max(len(own) - 1, 1), own[-1]).rates)[: len(own)]
    as_cosine = "decay" not in over and np.abs(own - line).max() < _SAME_RATE
    return "cosine" if as_cosine else "wsd", final


def _decay_of(seen: _Seen) -> float:
    """The share of the steps after the warm-up in which the one schedule of the runs falls."""
    own = _one_schedule(seen)
    still = np.flatnonzero(own >= 1 - 1e-9)[-1]
    return max((len(own) - 1 - still) / max(len(own) - 1, 1), _LEAST)


def _optima(
    losses: Any, limits: Mapping[str, tuple[float, float]], weight: float, batch: float,
    seen: _Seen | None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Each number at the weight and then along the trade-off, (1 + weights, 1 + R)."""
    _, found = best_settings(losses, limits, [weight, *_WEIGHTS], known=SEARCHED)
    found |= {"tokens": found["steps"] * batch, "weighted": found["objective"]}
    found.setdefault("decay", np.full(found["steps"].shape, losses.run.decay))
    if seen is not None and "r" not in losses.sources[0].law.input_names:
        # Laws without a share are of the one that all runs had.
        found["replay"] = np.full(found["steps"].shape, seen.ends["replay"].iloc[0])
    return found


def _binding(
    limits: Mapping[str, tuple[float, float]], best: Mapping[str, float], steps: float
) -> tuple[str, list[Note]]:
    """What binds, in words, and notes on optima that are only a bound of the best."""
    active, notes = [], []
    for name, (low, high) in limits.items():
        share = (best[name] - low) / (high - low)
        if _AT_EDGE < share < 1 - _AT_EDGE:
            continue
        side = "lowest" if share < 0.5 else "highest"
        if name == "steps" and side == "highest" and high >= steps * (1 - 1e-9):
            active.append("the tokens")
            continue
        active.append(f"{_WORDS[name]} at its {side} ({best[name]:.3g})")
        natural = {"replay": (0.0, 1.0), "decay": (0.0, 1.0)}.get(name, ())
        if limits[name][share >= 0.5] not in natural:
            bound = "an upper" if side == "lowest" else "a lower"
            message = (
                f"{name} is at the {side} that was searched, {best[name]:.3g}: this is {bound} "
                f"bound of the best {_WORDS[name]}, not the best"
            )
            notes.append(Note("optimum-at-limit", "warning", message))
    return " and ".join(active) or "nothing: the optimum is inside its ranges", notes


def _flat(
    losses: Any, limits: Mapping[str, tuple[float, float]], best: Mapping[str, float],
    weight: float, batch: float,
) -> dict[str, tuple[float, float]]:  # fmt: skip
    """Setting → range in which the weighted loss, the others held, rises by no more than noise."""
    fits = [source.fit for source in losses.sources]
    known = [each.metrics for each in fits if isinstance(each, Fit)]
    noise = max((metrics.get("rmse_log", 0.0) for metrics in known), default=0.0)
    flat = {}
    for name, (low, high) in limits.items() if noise else ():
        spread = np.geomspace if name in ("peak", "steps") else np.linspace
        line = np.unique([*spread(low, high, _LINE), best[name]])
        at = {key: np.full(len(line), value) for key, value in best.items()} | {name: line}
        pt, cpt = losses.evaluate(at)[:, 1, 0]
        first, last = as_good(
            weight * pt + (1 - weight) * cpt, int(np.searchsorted(line, best[name])), noise
        )
        flat[name] = (float(line[first]), float(line[last]))
    if "steps" in flat:
        low, high = flat.pop("steps")
        flat["tokens"] = (low * batch, high * batch)
    return flat


def _trade_off(found: Mapping[str, np.ndarray], level: float, degrees: float) -> pd.DataFrame:
    """The best settings and both losses over λ1, from (weights, 1 + R) of each."""
    columns: dict[str, Any] = {"weight": _WEIGHTS}
    for name, values in found.items():
        if name not in ("weighted", "change_pt", "change_cpt"):  # another sum at each weight
            columns |= interval_columns(name, values.T, level, degrees)
    return pd.DataFrame(columns)
