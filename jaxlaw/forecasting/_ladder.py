"""Ladders of bases: which resources decide, what a larger base will reach, and whether to trust it.

Every combination of resources and families is a law (:func:`jaxlaw.laws.continual`). Its posterior
given the smaller bases is scored on the larger ones, and the forecast is a mixture of the laws, by
the probability that each is the best on bases that it has not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Unpack

import numpy as np
import pandas as pd
from scipy import stats

from jaxlaw import laws
from jaxlaw._answer import Answer, Tables
from jaxlaw._quantities import SHARE, Quantity, in_unit, written
from jaxlaw._tables import is_table, read_table
from jaxlaw._typed import Between, Seed, checked
from jaxlaw._where import evaluate
from jaxlaw.data import ReadingOptions, Runs, read_runs
from jaxlaw.errors import DataError, UsageError
from jaxlaw.forecasting._backtest import FEWEST, frame_of
from jaxlaw.forecasting._forecast import experiment_notes_of
from jaxlaw.forecasting._question import (
    Question,
    ask,
    draws_each,
    interval_at,
    logs_of,
    named_column,
    quantiles_of,
)
from jaxlaw.forecasting.posterior import resolve_prior
from jaxlaw.notes import COLUMNS_TAKEN, Note
from jaxlaw.uncertainty import Draws

RESOURCES = ("C", "N", "N,D")
FAMILIES = ("interaction", "additive")
_OF_BASE = {"C": "base_compute", "D": "D_base"}  # names of a table, beside the canonical ones
_CUTOFFS = 5
_RESAMPLES = 4000
_BEYOND = 100.0  # times the most tokens of any run, to which a budget is searched
_LEFT = 0.02  # share of the variance of log tokens that the base leaves; less is none
_ODD = 0.01  # probability that a clean ladder has a row as far off
_SEVERAL = 7  # bases: the scatter about a parabola through all but two has two degrees of freedom
_BY_CHANCE = 0.05  # probability that any evaluation of a clean ladder falls faster
_TOO_LOW = 0.025  # probability of a loss as low, from which on an evaluation is doubted
_COUNTED = {"N": "parameters", "D": "tokens", "D_cpt": "tokens", "C": "FLOPs", "loss": "nats"}
_UNITS = {name: (unit, 1.0) for name, unit in _COUNTED.items()}
_UNITS |= dict.fromkeys(("error", "largest", "inside", "best"), (SHARE, 1.0))


@checked
def compare_resources(
    runs: Any,
    at: Any = None,
    *,
    resources: Sequence[str | Sequence[str]] | None = None,
    families: Sequence[str] = FAMILIES,
    hold_out: str = "largest base",
    evaluations: Sequence[str] = (),
    prior: Any = "field",
    level: Annotated[float, Between(0.01, 0.999)] = 0.9,
    seed: Seed = 0,
    **reading: Unpack[ReadingOptions],
) -> Answer:
    """Which resources of a base decide its continual run's loss, and what a larger base reaches.

    Each combination of resources and families is a law, :func:`jaxlaw.laws.continual`. Laws are
    ranked by their errors on bases that are larger than those that they are given.

    Args:
        runs: table of the runs: a file, a DataFrame or dict of columns, or what
            :func:`jaxlaw.read_runs` returns, with a row for each base and budget: ``loss``,
            ``D_cpt`` (continual tokens), and of the base N, D (or ``D_base``) and C (or
            ``base_compute``; else 6·N·D). ``r``, the share of the corpus in the mixture, and ``lr``
            are inputs too where they vary.
        at: runs to forecast: a dict of numbers or arrays, or a table, with the same names.
        resources: of ``"C"``, ``"N"`` and ``"N,D"``; None for those that the table has.
        families: of ``"interaction"`` and ``"additive"``.
        hold_out: ``"largest base"``, the bases beyond each of up to five cutoffs, with three bases
            or more below; or a condition that names the rows held out: ``"base_compute > 3e20"``.
        evaluations: two or more columns of losses of the same runs, of seven bases or more; the
            note ``falls-faster`` names those that fall faster than the others do.
        prior: as :func:`jaxlaw.forecast` takes it.
        level: share of the intervals that should hold a new run.
        seed: seed of the draws.
        **reading: options of :func:`jaxlaw.read_runs`: columns, units, where …

    Returns:
        Answer. ``laws``, a row a law, the best first: ``error``, the mean size of its relative
        errors, and ``largest`` of them; ``inside``, the share of its intervals that hold their run;
        ``best``, the probability that no other law has a smaller error. ``forecast``, a row a point
        of ``at``: the inputs, ``distance`` (log of the ratio to the largest base), ``loss``,
        ``loss_low``, ``loss_high``. Quantities, of the largest point: ``loss``; ``lr``, the best
        learning rate where it was swept; and ``D_cpt_enough``, the tokens at which the next
        doubling lowers the loss by less than runs differ by, if that is within 100 times the most
        tokens of any run.

    Raises:
        UsageError: the call makes no sense; the message says what would.
        DataError: the runs cannot carry the laws, or have too few bases.

    Example:
        >>> C, D = np.meshgrid(np.geomspace(1e18, 1e20, 5), [1e9, 4e9])
        >>> truth = dict(E=0.7, A=150, gamma=0.13, g_cpt=0.6, beta_cpt=0.2)
        >>> law = jl.laws.continual(family="additive")
        >>> runs = jl.simulate.simulate_runs(law, truth, {"C": C, "D_cpt": D}, noise=0.003)
        >>> found = jl.compare_resources(runs, {"C": 1e21, "D_cpt": 4e9}, families=["additive"])
        >>> bool(found.laws["error"][0] < 0.01), round(found.loss, 1)
        (True, 0.9)

    Shell:
        jaxlaw ladder bases.csv --at N=9.7e9,D_base=1.6e11,D_cpt=4e9
    """
    read = _read(runs, reading)
    held = {*map(str, read.table)}
    varies = {n: n if n in held and read.table[n].nunique() > 1 else None for n in ("r", "lr")}
    of_base, asked = [name for name in ("N", "D", "C") if name in held], {}
    for given in resources or [one for one in RESOURCES if {*one.split(",")} <= held]:
        base = given.split(",") if isinstance(given, str) else given
        for family in families:
            law = laws.continual(base, "D_cpt", varies["r"], varies["lr"], family)
            asked[law.name] = ask(read, {law.name: law}, of_base, {})
    if not asked:
        raise UsageError(f"{read.source} has none of N, D_base and base_compute: pass columns=")
    first = next(iter(asked.values()))
    seen, size = first.seen, first.size(first.table())
    fitted = _fitted(first, size, hold_out)
    weights = np.vstack([fitted, np.ones(len(size))]) * seen.weight
    prior = resolve_prior(prior, seen)
    # Of each law the draws at each cutoff, and last those of all runs.
    found = {
        name: [draws for draws, *_ in draws_each(one, weights, prior, seed)]
        for name, one in asked.items()
    }
    frames = []
    for name, one in asked.items():
        for k, (draws, given) in enumerate(zip(found[name], fitted, strict=False)):
            rows = np.flatnonzero(~given & (seen.weight > 0))
            logs = logs_of(draws, one.table().iloc[rows])
            frame = frame_of(
                name, seen.rows[rows], size[rows], seen.target[rows],
                np.exp(np.median(logs, axis=0)), quantiles_of(logs, draws.sigma, seed), level,
            )  # fmt: skip
            frames.append(frame.assign(cutoff=k, base=first.members[rows]))
    frame = pd.concat(frames, ignore_index=True)
    frame["off"] = frame["error"].abs()
    shares = _shares(frame.pivot_table("off", "base", "forecast"), seed)
    table = frame.groupby("forecast").agg(
        error=("off", "mean"), largest=("off", "max"), inside=("inside", "mean")
    )
    table = table.assign(best=shares).sort_values("error").rename_axis("law").reset_index()
    best = table["law"][0]
    one, draws = asked[best], found[best][-1]
    notes = _doubts(frame[frame["forecast"] == best], one, size)
    notes += _falling_faster(one, size, evaluations) if evaluations else []
    notes += [*experiment_notes_of(one, draws), *draws.notes]
    notes += [note for note in read.notes if note.code == COLUMNS_TAKEN]
    said = (
        f"{best} predicts {frame['base'].nunique()} held-out bases best (mean error "
        f"{table['error'][0]:.2%}; of {len(table)} laws with probability {table['best'][0]:.0%})"
    )
    quantities, tables, point, beyond = {}, {"laws": table}, {}, np.nan
    points = {} if at is None else _points(read, at)
    if points:
        # A mixture of the laws: draws of each by its share.
        counts = np.diff(np.round(np.cumsum([0.0, *shares[[*asked]]]) * len(draws.sigma)))
        parts = [
            (
                logs_of(found[name][-1], own.points(_of(own, points)))[:count],
                found[name][-1].sigma[:count],
            )
            for (name, own), count in zip(asked.items(), counts.astype(int), strict=True)
        ]
        logs, sigma = (np.concatenate(each) for each in zip(*parts, strict=True))
        low, high = interval_at(quantiles_of(logs, sigma, seed), level)
        distance = np.maximum(one.size(_of(one, points)) - one.size(one.table()).max(), 0.0)
        forecast = pd.DataFrame(points | {
            "distance": distance, "loss": np.exp(np.median(logs, axis=0)),
            "loss_low": low, "loss_high": high,
        })  # fmt: skip
        far = int(distance.argmax())
        point = {name: float(v[far]) for name, v in points.items()}
        middle, *ends = map(float, forecast.iloc[far][["loss", "loss_low", "loss_high"]])
        quantities["loss"] = Quantity(middle, "nats", 1.0, *ends)
        tables, beyond = {"forecast": forecast, **tables}, float(np.exp(distance[far]))
        where = [f"{k} {written(v, *_UNITS.get(k, ('', 1.0)))}" for k, v in point.items()]
        said = f"loss {{loss}} at {', '.join(where)}; {said}"
    more, of_settings = _settings(one, draws, point, level)
    return Answer(
        kind="ladder", sentence=said, quantities=quantities | more, tables=tables, units=_UNITS,
        facts={"forecast": True}, level=level, notes=[*notes, *of_settings], beyond=beyond,
        point=point, curves=lambda: _curves(one, draws, points),
    )  # fmt: skip


def _read(runs: Any, reading: ReadingOptions) -> Runs:
    """The runs, with the columns of the base's resources that are called otherwise."""
    if isinstance(runs, Runs):
        return read_runs(runs, **reading)
    present, given = {str(name) for name in read_table(runs).frame}, reading.get("columns") or {}
    columns = {k: own for k, own in _OF_BASE.items() if own in present and k not in present}
    columns |= given
    if "C" not in {*columns, *present} and {"N", "D"} <= {*columns, *present}:
        columns["C"] = f"6 * {columns.get('N', 'N')} * {columns.get('D', 'D')}"
    return read_runs(runs, **{**reading, "columns": columns})


def _points(read: Runs, at: Any) -> dict[str, np.ndarray]:
    """Input → (m,) of the points, by canonical names; compute is 6·N·D where it is not given."""
    if not is_table(at):
        raise UsageError("at is a dict or a table: at={'N': 7e9, 'D': 1.4e11, 'D_cpt': 4e9}")
    name_of = {str(read.user_name(name)): str(name) for name in read.table}
    name_of |= {own: name for name, own in _OF_BASE.items()}
    table = at if isinstance(at, Mapping) else read_table(at).frame
    given = {name_of.get(str(k), str(k)): np.array(in_unit(v, 1.0)) for k, v in table.items()}
    if {"N", "D"} <= given.keys():
        given.setdefault("C", 6 * given["N"] * given["D"])
    kept = {k: given[k] for k in ("N", "D", "C", "D_cpt", "r", "lr") if k in given}
    return dict(zip(kept, map(np.ravel, np.broadcast_arrays(*kept.values())), strict=True))


def _of(asked: Question, points: dict[str, Any]) -> dict[str, Any]:
    """Of points the inputs of a law."""
    return {name: points[name] for name in asked.law.input_names if name in points}


def _fitted(asked: Question, size: np.ndarray, hold_out: str) -> np.ndarray:
    """(P, n) the rows that a law is given, at each cutoff."""
    if hold_out != "largest base":
        read = asked.runs
        named = {str(read.user_name(name)): column for name, column in read.table.items()}
        table = {**named, **read.table}
        later, empty = evaluate(hold_out, table, read.source)
        fitted = ~(later.astype(bool) | empty)[asked.seen.positions][None]
    else:
        levels = np.unique(np.round(size, 6))[FEWEST - 1 : -1]
        fitted = size <= levels[-_CUTOFFS:, None] + 1e-5
    if fitted.all() or not fitted.any():
        raise DataError(f"{asked.runs.source}: too few bases to hold one out; add smaller ones")
    return fitted


def _shares(each: pd.DataFrame, seed: int) -> pd.Series:
    """Law → probability that it has the smallest error, from errors (bases, laws).

    The bases are resampled (Bayesian bootstrap), with one more on which any law may have any of the
    errors: few bases are no proof.
    """
    rng, (bases, count) = np.random.default_rng([seed, 4]), each.shape
    weights = rng.dirichlet(np.ones(bases + 1), _RESAMPLES)
    unknown = rng.choice(each.to_numpy().ravel(), (_RESAMPLES, count))
    means = weights[:, :-1] @ each.to_numpy() + weights[:, -1:] * unknown
    return pd.Series(np.bincount(means.argmin(axis=1), minlength=count) / _RESAMPLES, each.columns)


def _doubts(frame: pd.DataFrame, asked: Question, size: np.ndarray) -> list[Note]:
    """What makes the ladder or its evaluation doubtful, also from the errors of the best law."""
    notes, t, count = [], np.log(asked.seen.inputs["D_cpt"]), len(size)
    left = np.polyfit(size, t, 1, full=True)[1] if np.ptp(t) > 0 else [np.inf]
    if left[0] < _LEFT * t.var() * count:
        notes.append(Note(
            "inputs-move-together", "warning",
            "D_cpt moves with the base along this ladder: what each of them brings cannot be told "
            "apart; add a second budget on one base", inherited=True,
        ))  # fmt: skip
    # Beside its base and budget, a row is judged by the scatter of all others (Student's t).
    t, x = t - t.mean(), size - size.mean()
    smooth = np.stack([t, t**2, x * t], axis=1)
    design = np.hstack([pd.get_dummies(asked.members), smooth]).astype(float)
    basis, values, _ = np.linalg.svd(design, full_matrices=False)
    basis = basis[:, values > 1e-6 * values[0]]
    own, free = np.maximum(1 - (basis**2).sum(axis=1), 0), count - basis.shape[1] - 1
    if free > 1:
        logs = np.log(asked.seen.target)
        # A base of one row says nothing of it.
        off = np.where(own > 0.05, logs - basis @ (basis.T @ logs), 0.0) / np.maximum(own, 0.05)
        scatter = np.sqrt(np.maximum(((off * own) ** 2).sum() - off**2 * own, 1e-20) / free)
        p = 2 * count * stats.t.sf(np.abs(off) * np.sqrt(own) / scatter, free)
        if p.min() < _ODD:
            k = int(p.argmin())
            notes.append(Note(
                "outliers", "warning",
                f"{asked.runs.word} {asked.seen.rows[k]} is {np.expm1(off[k]):+.1%} off its "
                f"neighbours, which scatter by {scatter[k]:.2%}: check that run, or leave it out "
                "with where=", inherited=True,
            ))  # fmt: skip
    for _, later in frame.groupby("cutoff"):
        bases = later.groupby("distance")[["error", "below"]].agg({"error": "mean", "below": "max"})
        off = bases["error"]
        if (off > 0).all() and off.is_monotonic_increasing and bases["below"].iloc[-1] < _TOO_LOW:
            notes.append(Note(
                "falls-too-fast", "warning",
                f"the largest base is {off.iloc[-1]:.1%} below what the smaller ones lead any law "
                "with a floor to expect, and the errors grow with the base: check the evaluation "
                "for contamination", inherited=True,
            ))  # fmt: skip
            break
    return notes


def _falling_faster(asked: Question, size: np.ndarray, names: Sequence[str]) -> list[Note]:
    """Which evaluations are too low at the two largest bases, beside the smaller and the others.

    A parabola over the log of the bases' size sees that an evaluation accelerates, but not that
    better bases lower all; one over the mean of the others sees that, but takes another floor or
    exponent for a fall. So both have to be too high.
    """
    read, rows = asked.runs, asked.seen.positions
    columns = [named_column(read, name, "evaluations") for name in names]
    losses = read.table[columns].set_axis([*names], axis=1).iloc[rows]
    losses = losses.apply(pd.to_numeric, errors="coerce")
    each = losses.groupby(np.round(size - size.mean(), 6))
    uneven = each.size().nunique() > 1 or len(each) < _SEVERAL
    if len(names) < 2 or not (losses > 0).all(axis=None) or uneven:
        raise DataError(
            f"{read.source}: evaluations are two or more columns of positive losses, of {_SEVERAL} "
            "or more bases with equally many runs"
        )
    bases, faster = each.agg(lambda loss: np.log(loss).mean()), []
    for name in names:
        loss, others = bases[name], bases.drop(columns=name).mean(axis=1)
        if max(_tail(loss, bases.index), _tail(loss, others)) < _BY_CHANCE / len(names):
            faster.append(name)
    return [Note(
        "falls-faster", "warning",
        f"{', '.join(faster)} at the two largest bases: lower than the smaller bases and the other "
        "evaluations lead to expect; check for contamination", inherited=True,
    )] if faster else []  # fmt: skip


def _tail(y: Any, x: Any) -> float:
    """Probability that the last two are as low about a parabola through the rest (Student's t)."""
    # Each of the two has a term of its own, which is how far it is off.
    terms = np.hstack([np.vander(x, 3), np.eye(len(x))[:, -2:]])
    spread = np.linalg.inv(terms.T @ terms)
    found, free = spread @ terms.T @ y, len(x) - 5
    # An evaluation that accelerates is further off at the largest base: it counts twice.
    both = np.array([0, 0, 0, 1, 2])
    scatter = ((y - terms @ found) ** 2).sum() / free * (both @ spread @ both)
    return stats.t.cdf(both @ found / np.sqrt(scatter), free)


def _settings(
    asked: Question, draws: Draws, point: dict[str, float], level: float
) -> tuple[dict[str, Quantity], list[Note]]:
    """The tokens from which a doubling buys less than noise, and the best rate, at a point."""
    table, quantities, notes = asked.fitted(), {}, []
    at = _of(asked, table.iloc[int(asked.size(table).argmax())].to_dict() | point)
    ends = [0.5, (1 - level) / 2, (1 + level) / 2]
    grid = np.geomspace(table["D_cpt"].min(), _BEYOND * table["D_cpt"].max(), 200)
    rows = {name: np.full(len(grid), value) for name, value in at.items()}
    once, twice = (logs_of(draws, rows | {"D_cpt": k * grid}, misfit=False) for k in (1, 2))
    enough = once - twice < draws.sigma[:, None]
    tokens = np.where(enough.any(axis=1), grid[enough.argmax(axis=1)], np.inf)
    middle, *bounds = np.quantile(tokens, ends, method="nearest")
    if np.isfinite(middle):
        quantities["D_cpt_enough"] = Quantity(float(middle), "tokens", 1.0, *map(float, bounds))
    if best := asked.law.best_settings.get("lr"):
        middle, *bounds = np.quantile(best(draws.params, at), ends)
        if table["lr"].min() < middle < table["lr"].max():
            quantities["lr"] = Quantity(float(middle), "", 1.0, *map(float, bounds))
        else:
            message = f"the best learning rate, {middle:.3g}, is at an edge of the sweep: widen it"
            notes.append(Note("optimum-at-limit", "warning", message))
    return quantities, notes


def _curves(asked: Question, draws: Draws, points: dict[str, np.ndarray]) -> Tables:
    """The runs, and the law at every base and point, for each budget."""
    runs = asked.fitted()
    bases = pd.concat([runs, pd.DataFrame(_of(asked, points))])
    runs["size"], bases["size"] = (np.exp(asked.size(one)) for one in (runs, bases))
    path, curves = bases.drop_duplicates("size").sort_values("size"), []
    for D in bases["D_cpt"].unique():
        curve = path.assign(D_cpt=D)
        curves.append(curve.assign(loss=np.exp(np.median(logs_of(draws, curve), axis=0))))
    return {"runs": runs, "curves": pd.concat(curves)[["size", "D_cpt", "loss"]]}
