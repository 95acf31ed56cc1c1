"""Programs of a question of any inputs: the lowest loss, or the least compute, of every draw.

The inputs that are searched are coordinates of the unit box: N, D and shares first, in this order.
D is no coordinate where something else determines it: with N and D both free the budget pays for
it, and where compute is made least, it is what the loss needs.

One coordinate is searched by a grid and the root of the derivative; what a constraint allows cuts
off the end of the coordinate. More of them are searched by Newton's method from a grid. There a cut
that moves with another coordinate would put a kink into the loss, with the optimum in it, where
Newton's method stops short. So such a limit is a smooth inequality then, as that on another loss
is, and enters by an augmented Lagrangian.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlaw.laws import Law
from jaxlaw.planning._budgets import (
    AT_LIMIT,
    SEARCH_LIMITS,
    Limits,
    log_cost,
    log_size,
    log_tokens,
)
from jaxlaw.planning._solve import (
    first_root,
    for_each_draw,
    minimise,
    minimise_in_box,
    minimise_under_limits,
    root,
    root_or_infinity,
)

#: Points of the first grid along each coordinate, by their number.
GRIDS = {2: (97, 17), 3: (33, 9, 9), 4: (13, 7, 7, 5)}
LINE = 257  # points of the grid on one coordinate
LIMITED_LINE = 1025  # where another loss is limited
KEPT = 1e-8  # relative: a limited loss that exceeds its limit by less keeps it


class Form(NamedTuple):
    """What the programs of a question are made of.

    Attributes:
        law: law whose loss is made least; None for the compute.
        limits: law of each limited loss, and the inputs of which it takes the rest to 1.
        free: inputs that are coordinates of the box, in order.
        logs: inputs whose logarithms are searched.
        paid: what determines D: ``budget``, ``loss`` (the first limited one), or nothing.
        budget, corpus: whether there is one.
        capped: whether D has a limit where something else than a coordinate determines it.
        share: input that is the corpus's share of D.
        priced: inputs that the cost takes beside N and D.
    """

    law: Law | None
    limits: tuple[tuple[Law, tuple[str, ...]], ...]
    free: tuple[str, ...]
    logs: tuple[str, ...]
    paid: str
    budget: bool
    corpus: bool
    capped: bool
    share: str
    priced: tuple[str, ...]

    @property
    def in_box(self) -> bool:
        """Whether there are several coordinates."""
        return len(self.free) > 1


class Given(NamedTuple):
    """The numbers of a question, as its programs take them: raw, logarithms of :attr:`Form.logs`.

    Attributes:
        low, high: input → least and largest value.
        open_low, open_high: input → whether the search ends there without a limit.
        held: N, D and the corpus's share, where they are given.
        others: inputs of each law that are given, in its own units.
        cost: cost as :func:`log_cost` takes it.
        log_C: budget; infinite without one.
        log_corpus: tokens of the corpus times its epochs; infinite without one.
        targets: largest value of each limited loss.
        near: D/N in the middle of those that were run; NaN where none is known.
    """

    low: dict[str, float]
    high: dict[str, float]
    open_low: dict[str, bool]
    open_high: dict[str, bool]
    held: dict[str, float]
    others: tuple[dict[str, float], ...]
    cost: Any
    log_C: float
    log_corpus: float
    targets: tuple[float, ...]
    near: float


class Best(NamedTuple):
    """The best point of every draw.

    Attributes:
        raw: input → (draws,) values, raw.
        losses: (draws, laws) losses there.
        ended: (draws,) whether it is the end of a search that nothing limits.
        kept: (draws,) whether it keeps all limits.
        point: (draws, d) coordinates in the box.
    """

    raw: dict[str, Any]
    losses: Any
    ended: Any
    kept: Any
    point: Any


def cost_with(form: Form, given: Given, raw: Mapping[str, Any]) -> Any:
    """The cost of N and D, with what else it takes at its raw values."""
    return partial(given.cost, **{n: raw[n] for n in form.priced}) if form.priced else given.cost


@for_each_draw("form")
def minimum(form: Form, params: Any, given: Given) -> Best:
    """The best point."""

    def value(point: Any) -> Any:
        return _value(form, params, given, _placed(form, params, given, point))

    def excess(point: Any) -> Any:
        return _excess(form, params, given, _placed(form, params, given, point))

    def ended(point: Any) -> Any:
        return _placed(form, params, given, point).ended

    count = len(form.free)
    if count == 0:
        point = jnp.zeros(0)
    elif count == 1:
        point = _on_line(form, params, given, value, excess)[None]
    else:
        axes = [jnp.linspace(0.0, 1.0, points) for points in GRIDS[count]]
        grid = jnp.stack([axis.ravel() for axis in jnp.meshgrid(*axes, indexing="ij")], axis=1)
        many = jnp.vectorize(value, signature="(d)->()")
        if jax.eval_shape(excess, grid[0]).shape[0]:
            over = jnp.vectorize(excess, signature="(d)->(k)")
            point = minimise_under_limits(many, over, grid)
        else:
            point = minimise_in_box(many, grid, ended)
    at = _placed(form, params, given, point)
    losses = _losses(form, params, given, at.raw)
    kept = at.inside & jnp.all(excess(point) <= KEPT) & jnp.isfinite(value(point))
    return Best(at.raw, jnp.stack(losses), at.ended, kept, point)


@for_each_draw("form")
def values_at(form: Form, params: Any, given: Given, points: Any) -> Any:
    """What is least at (K, d) points, infinite where a limit is broken, and the raw values."""

    def at(point: Any) -> Any:
        placed = _placed(form, params, given, point)
        value = _value(form, params, given, placed)
        kept = jnp.all(_excess(form, params, given, placed) <= KEPT) & jnp.isfinite(value)
        value = jnp.exp(value) if form.law is None else value
        return jnp.where(kept, value, jnp.inf), placed.raw

    return jax.vmap(at)(points)


def _on_line(form: Form, params: Any, given: Given, value: Any, excess: Any) -> Any:
    """The best point of a single coordinate."""
    name = form.free[0]
    limited = len(form.limits) > (form.paid == "loss")
    where = (lambda u: jnp.all(excess(u[None]) <= 0)) if limited else None
    low, high = given.low[name], given.high[name]
    top = jnp.minimum(high, _most(form, given, name, given.held))
    # Where the budget cuts off the size, the model that is left has the least tokens.
    by_tokens = given.open_low.get("D", False) if form.paid == "budget" else False
    open_sides = given.open_low[name], jnp.where(top < high, by_tokens, given.open_high[name])
    near = (jnp.clip(_near(form, params, given), low, top) - low) / (top - low)
    point = minimise(
        lambda u: value(u[None]), 0.0, 1.0, LIMITED_LINE if limited else LINE,
        open_sides=open_sides, where=where, near=near,
    )  # fmt: skip
    # At an end itself, which the bisection only comes close to; but not beyond the runs' valley.
    tried = jnp.stack([jnp.zeros(()), jnp.ones(()), point])
    values = jax.vmap(lambda u: value(u[None]))(tried)
    allowed = jnp.stack([~jnp.asarray(open_sides[0]), ~jnp.asarray(open_sides[1]), jnp.isnan(near)])
    allowed = (allowed & jnp.isnan(near)).at[2].set(True)
    if where is not None:
        allowed &= jax.vmap(where)(tried).at[2].set(True)
    return tried[jnp.argmin(jnp.where(allowed & ~jnp.isnan(values), values, jnp.inf))]


def _near(form: Form, params: Any, given: Given) -> Any:
    """Log size of a run with a D/N as the runs had, where D is determined by the size; or NaN."""
    if form.free[0] != "N" or not form.paid:
        return jnp.nan
    if form.paid == "budget":
        limits = Limits((0.0, 0.0), (0.0, 0.0), near=given.near)
        return limits.size_near(given.log_C)

    def rising(log_N: Any) -> Any:
        raw = {**given.held, "N": jnp.exp(log_N)}
        return log_N + given.near - _needed(form, params, given, raw, given.high["D"])

    return jnp.where(jnp.isnan(given.near), jnp.nan, root(rising, given.low["N"], given.high["N"]))


class _Placed(NamedTuple):
    """A point's raw values, whether its box is not empty, whether a search without limit ended."""

    raw: dict[str, Any]
    inside: Any
    ended: Any


def _placed(form: Form, params: Any, given: Given, point: Any) -> _Placed:
    raw: dict[str, Any] = dict(given.held)
    inside, ended = jnp.asarray(True), jnp.asarray(False)

    def end(name: str, x: Any, top: Any) -> Any:
        at_high = (x >= top - AT_LIMIT) & (top >= given.high[name]) & given.open_high[name]
        return at_high | (x <= given.low[name] + AT_LIMIT) & given.open_low[name]

    # What the cost takes comes first: the tokens that a budget buys depend on it.
    for k, name in sorted(enumerate(form.free), key=lambda one: one[1] not in form.priced):
        top = jnp.minimum(given.high[name], _most(form, given, name, raw))
        x = given.low[name] + point[k] * (top - given.low[name])
        raw[name] = jnp.exp(x) if name in form.logs else x
        inside &= top >= given.low[name]
        ended |= end(name, x, top)
        if name == "N" and form.paid == "budget":
            top = _most_tokens(form, given, raw)
            log_D = log_tokens(cost_with(form, given, raw), x, given.log_C)
            log_D = jnp.maximum(log_D if form.in_box else jnp.minimum(log_D, top), given.low["D"])
            raw["D"], inside = jnp.exp(log_D), inside & (top >= given.low["D"])
            ended |= end("D", log_D, top)
    if form.paid == "loss":
        top = _most_tokens(form, given, raw)
        log_D = _needed(form, params, given, raw, math.log(SEARCH_LIMITS["D"][1]))
        log_D = log_D if form.in_box else jnp.where(log_D <= top, log_D, jnp.inf)
        raw["D"] = jnp.exp(log_D)
        ended |= end("D", log_D, top) & jnp.isfinite(log_D)
    return _Placed({name: raw[name] for name in raw if name not in given.held}, inside, ended)


def _most_tokens(form: Form, given: Given, raw: Mapping[str, Any]) -> Any:
    """Log of the most tokens, where something else than a coordinate determines them."""
    return jnp.minimum(given.high["D"], _most(form, given, "D", raw))


def _most(form: Form, given: Given, name: str, raw: Mapping[str, Any]) -> Any:
    """The largest value of an input that budget and corpus allow beside those that are known."""
    if name == form.share and form.corpus and not form.in_box:
        return jnp.exp(given.log_corpus) / raw["D"]
    if name == "N" and form.budget:
        log_D = jnp.log(raw["D"]) if "D" in raw else given.low["D"]
        return log_size(cost_with(form, given, raw), log_D, given.log_C)
    if name != "D":
        return jnp.inf
    by_budget = form.budget and form.paid != "budget"
    cost = cost_with(form, given, raw)
    paid = log_tokens(cost, jnp.log(raw["N"]), given.log_C) if by_budget else jnp.inf
    if form.share in form.free:  # beside a share that is searched the corpus limits that instead
        return paid
    return jnp.minimum(paid, given.log_corpus - jnp.log(raw.get(form.share, 1.0)))


def _needed(form: Form, params: Any, given: Given, raw: Mapping[str, Any], top: Any) -> Any:
    """Log tokens at which the first limited loss is reached; infinite where none up to ``top`` are.

    Two Newton steps from the root move nothing and carry its first three derivatives, which the
    search takes: the bisection has none.
    """
    raw = {name: value for name, value in raw.items() if name != "D"}

    def shortfall(log_D: Any) -> Any:
        return -_excess_of(form, params, given, {**raw, "D": jnp.exp(log_D)}, 0)

    # The first crossing costs twice as much, and only tuned laws have several.
    crossing = first_root if form.limits[0][0].best_settings else root_or_infinity
    log_D = jax.lax.stop_gradient(crossing(shortfall, given.low["D"], top))
    start = jnp.where(jnp.isfinite(log_D), log_D, given.low["D"])
    moved = start
    for _ in range(2):
        moved = moved - shortfall(moved) / jax.grad(shortfall)(moved)
    inner = jnp.isfinite(log_D)
    return jnp.where(inner, moved, jnp.where(log_D > 0, jnp.inf, given.low["D"]))


def _losses(form: Form, params: Any, given: Given, raw: Mapping[str, Any]) -> list[Any]:
    """The losses of all laws, the one that is made least first."""
    own = [] if form.law is None else [(form.law, ())]
    losses = []
    for k, (law, rest) in enumerate([*own, *form.limits]):
        taken = {}
        for spec in law.inputs:
            if spec.name in raw and spec.name not in given.others[k]:
                value = raw[spec.name]
                taken[spec.name] = (1 - value if spec.name in rest else value) / spec.unit
        losses.append(law(params[k], **taken, **given.others[k]))
    return losses


def _value(form: Form, params: Any, given: Given, placed: _Placed) -> Any:
    """What is made least: a loss, or the logarithm of the compute."""
    if form.law is not None:
        value = _losses(form, params, given, placed.raw)[0]
    else:
        known = {**given.held, **placed.raw}
        cost = cost_with(form, given, known)
        value = log_cost(cost, jnp.log(known["N"]), jnp.log(known["D"]))
    return jnp.where(placed.inside, value, jnp.inf)


def _excess(form: Form, params: Any, given: Given, placed: _Placed) -> Any:
    """By how much, relative, what is no end of the box exceeds its limit; (limits,)."""
    raw = {**given.held, **placed.raw}
    every = [_excess_of(form, params, given, raw, k) for k in range(len(form.limits))]
    if form.in_box and form.corpus and form.share in form.free:
        every.append(raw["D"] * raw[form.share] / jnp.exp(given.log_corpus) - 1)
    if form.in_box and form.capped:
        every.append(jnp.log(raw["D"]) - _most_tokens(form, given, raw))
    return jnp.stack(every) if every else jnp.zeros(0)


def _excess_of(form: Form, params: Any, given: Given, raw: Mapping[str, Any], k: int) -> Any:
    loss = _losses(form, params, given, raw)[k + (form.law is not None)]
    return (loss - given.targets[k]) / jnp.abs(given.targets[k])
