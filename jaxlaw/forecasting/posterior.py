"""The posterior of a law given runs: what forecasts, plans of them and scores are made of.

Of the runs i = 1..n of one experiment, with y the log of the target (or the target itself, where
the law's residuals are linear),

    y_i = log f(θ; x_i) + e_i,    e_i ~ Student t_5 of scale (σ² + (a·d_i)²)^½

d_i is how many e-folds of compute run i lies below the largest: small runs fade by as much as they
must. θ is in a free level and the law's scale-free coordinates, with a prior over sources, where
the prior knows the law, and else in search coordinates under weak normals over the law's own ranges
of starts. log σ and log a have normal priors, learned over sources. Beyond the runs the law's
misfit is a plane (:func:`jaxlaw.laws.beyond`) whose slopes are drawn.

Draws come of one program: modes by Fisher scoring from several starts, importance sampling around
the best, and then moves of many chains at once by the differences between them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special
from scipy.special import gammaln

from jaxlaw import laws
from jaxlaw._jit import compiled, in_float64, many_rows, padded
from jaxlaw.data import Observations, read_runs
from jaxlaw.fitting import (
    FitOptions,
    FittedLaw,
    Prior,
    field_prior,
    joint_ranges,
    prior_of,
    run_hashes,
)
from jaxlaw.fitting._prior import SPREAD, WITHIN
from jaxlaw.fitting._problem import problem_of
from jaxlaw.fitting._starts import sobol
from jaxlaw.fitting._transform import centred_inputs, from_excess, in_own_units
from jaxlaw.laws import Law, beyond, end_of, growing_inputs, repeats, slope_of, top_of
from jaxlaw.notes import Note
from jaxlaw.uncertainty import Draws, group_numbers

NU = 5.0  # degrees of freedom of a run's error
PRIOR_NU = 8.0  # … and of the prior's coordinates, so that runs can overrule it
LEAST_NOISE = 5e-4  # which no law holds to
NOISE_SD = 2.0  # of log σ about the prior's noise
MISFIT, MISFIT_SD = 0.004, 0.8  # median of a, per e-fold below the largest run, and sd of log a
MOST_RUNS = 40.0  # that count as such: what a law errs by does not average out
#: Scale τ and mean of the misfit's slopes beyond the runs, per e-fold: of laws of size, tokens or
#: compute alone, which lie high beyond their runs, and of those of a mixture or of a whole curve.
SLOPES = {"size": (0.002, -0.0025), "other": (0.008, 0.0)}
EPOCHS_SLOPE = 0.03  # τ per e-fold of epochs beyond those of any run
SLOPE_SD, SLOPE_NU = 0.6, 5.0  # sd of log τ, and the slopes' degrees of freedom
SLOPE_OF_NOISE = 1.0  # scale, in those of the runs' noise, of what it adds to all slopes
LEVEL_SD = 2.0  # of the log of the target at the reference point, about the runs'
GROUP_SD = 0.7  # of the log of how much groups of runs differ, about a third of what sources do
SHARED = 0.5  # correlation of the errors of a run's checkpoints

_STARTS, _CLIMBS, _LONGEST = 8, 40, 5.0  # starts, steps of each, and the longest of these
_ROUNDS, _PROPOSED = 2, 2000  # of importance sampling
_STRETCH = 1.25  # of its proposal, beyond the spread that it is of
_CHAINS, _MOVES, _BLOCKS = 512, 10, 100  # chains, moves of each in a block, and blocks at most
ENOUGH, _WANTED = 400.0, 420.0  # effective draws
_DRAWS = 1000  # that are kept
_BLOCK = 32  # rows that are looked at together


def posterior(
    law: str | Law,
    runs: Any,
    *,
    prior: Any = "field",
    groups: Any = None,
    seed: int = 0,
    **reading: Any,
) -> Draws:
    """Draws of a law's parameters given runs, with the noise of the runs and the law's misfit.

    Args:
        law: law or its name.
        runs: anything that :func:`jaxlaw.read_runs` takes or returns.
        prior: ``"field"``, public experiments; fits of earlier experiments or a folder of
            them; a :class:`jaxlaw.fitting.Prior`; None for weak priors over the law's own ranges.
            Whatever the prior does not know of the law has these.
        groups: columns whose rows are checkpoints of one run, which share an error, or a label for
            each row.
        seed: seed of the draws.
        **reading: options of :func:`jaxlaw.read_runs`.

    Returns:
        :class:`jaxlaw.uncertainty.Draws` of the law with its misfit beyond the runs
        (:func:`jaxlaw.laws.beyond`): ``params`` name → (1000,), ``sigma`` (1000,) relative
        run-to-run noise.

    Raises:
        UsageError, DataError: the runs cannot be read for this law.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table[:12]
        >>> draws = jl.posterior("chinchilla", runs)
        >>> len(draws.params["alpha"]), draws.effective >= 400
        (1000, True)
    """
    law = laws.get(law)
    read = read_runs(runs, **reading)
    seen = read.observations(law, free=())
    members = None if groups is None else group_numbers(read, seen, groups)
    weight = seen.weight * shared_weights(seen, members)
    prior = resolve_prior(prior, seen)
    return posteriors(law, seen, weight[None], prior=prior, seed=seed)[0]


def resolve_prior(given: Any, seen: Observations) -> Prior | None:
    """The prior that a user means, without experiments of these very runs."""
    prior = prior_of(given)
    return None if prior is None else prior.without_runs(run_hashes(seen))


def shared_weights(seen: Observations, members: np.ndarray | None) -> np.ndarray:
    """(n,) what a row counts beside the other checkpoints of its run, which share an error.

    Of m checkpoints whose errors correlate by ρ each counts 1/(1 + (m − 1)·ρ).
    """
    if members is None:
        return np.ones(len(seen))
    _, code, count = np.unique(members, return_inverse=True, return_counts=True)
    return 1.0 / (1.0 + (count[code] - 1) * SHARED)


def posteriors(
    law: str | Law,
    observations: Observations,
    weights: np.ndarray,
    *,
    prior: Prior | None,
    seed: int = 0,
) -> list[Draws]:
    """Posteriors of P problems, such as cutoffs, in one program.

    Args:
        law: law or its name.
        observations: the n runs.
        weights: (P, n); those of rows multiply their log-likelihood, 0 leaves one out.
        prior: a :class:`Prior`, or None.
        seed: seed of the draws.
    """
    law, seen = laws.get(law), observations
    space = Space(law, prior is not None and prior.knows(law))
    with in_float64():
        random = _random_numbers(len(space.levels), seed)
        each = jax.device_get(_sample_each(space, _problems(space, seen, weights, prior), random))
    fit = unfitted(law, seen)
    made = []
    for k, weight in enumerate(weights):
        noise, params, centre, known, effective, evidence = jax.tree.map(itemgetter(k), each)
        sigma = np.hypot(np.exp(noise[:_DRAWS]), LEAST_NOISE)
        params = {name: values[:_DRAWS] for name, values in params.items()}
        misfit, at_rest = _misfit(law, seen, weight > 0, sigma, seed)
        params |= misfit
        centre = {name: float(centre[name]) for name in law.parameter_names} | at_rest
        notes = []
        if effective < ENOUGH:
            notes.append(Note(
                "few-effective-draws", "warning",
                f"the posterior of {law.name} has {effective:.0f} effective draws of {len(sigma)}, "
                "so its intervals are uncertain: use another seed= or a law of fewer parameters",
                inherited=True,
            ))  # fmt: skip
        made.append(Draws(
            dataclasses.replace(fit, law=beyond(law), params=centre),
            {name: params[name] for name in beyond(law).parameter_names},
            tuple(notes), kind="posterior", groups=(), noise=float(np.median(sigma)), sigma=sigma,
            effective=float(effective), conflict=_tail_probability(known),
            log_evidence=float(evidence),
        ))  # fmt: skip
    return made


def unfitted(law: Law, seen: Observations) -> FittedLaw:
    """A law without parameters yet, with what is known of it from its runs."""
    users = {name: values / seen.scale[name] for name, values in seen.inputs.items()}
    return FittedLaw(
        law,
        dict.fromkeys(law.parameter_names, np.nan),
        units=dict(seen.scale),
        ranges={name: tuple(map(float, seen.ranges[name])) for name in law.input_names},
        joint_ranges=dict(joint_ranges(law.inputs, users)),
        area_options=None if seen.area_options is None else dict(seen.area_options),
        columns=dict(seen.mapped),
        source=seen.source,
        flops=seen.flops,
        notes=seen.notes,
    )


def _misfit(
    law: Law, seen: Observations, active: np.ndarray, sigma: np.ndarray, seed: int
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Draws of the parameters of the misfit beyond the runs that count, and their means."""
    names, count = growing_inputs(law), len(sigma)
    if not names:
        return {}, {}
    rng = np.random.default_rng([seed, 1])
    along_size = {*law.input_names} <= {"N", "D", "C", "group"} or law.continual_tokens
    scale, mean = SLOPES["size" if along_size else "other"]
    # Noise adds to the slopes along all inputs alike.
    common = mean + SLOPE_OF_NOISE * sigma * rng.standard_t(SLOPE_NU, count)

    def own(scale: float) -> np.ndarray:
        scales = scale * np.exp(SLOPE_SD * rng.standard_normal(count))
        return scales * rng.standard_t(SLOPE_NU, count)

    slopes = {slope_of(name): common + own(scale) for name in names}
    rows = {name: values[active] for name, values in seen.inputs.items()}
    largest, centre = np.argmax(sum(np.log(rows[name]) for name in names)), {}
    for name in names:
        centre |= {slope_of(name): mean, top_of(name): float(rows[name][largest])}
        centre[end_of(name)] = float(rows[name].max())
    if repeats(law):
        slopes[slope_of("U")] = own(EPOCHS_SLOPE)
        centre |= {slope_of("U"): 0.0, end_of("U"): float((rows["D"] / rows["U"]).max())}
    if tokens := law.continual_tokens:
        slopes[slope_of(tokens)] = own(SLOPES["other"][0])
        centre |= {slope_of(tokens): 0.0, end_of(tokens): float(rows[tokens].max())}
    return {name: np.full(count, value) for name, value in centre.items()} | slopes, centre


def _tail_probability(known: np.ndarray) -> float:
    """Tail probability, before the runs, of where they have moved the prior's mean to (Box 1980).

    Before its runs the posterior's mean has the covariance I − V, with V the posterior's, in
    whitened coordinates; directions that the runs say nothing of do not count.

    Args:
        known: (R, k) draws of the whitened coordinates that the prior is over.
    """
    left, axes = np.linalg.eigh(np.cov(known.T, ddof=0).reshape(known.shape[1:] * 2))
    told = left < 0.9
    if not told.any():
        return 1.0
    moved = (known.mean(axis=0) @ axes)[told] ** 2 / (1 - left[told])
    return float(special.fdtrc(told.sum(), PRIOR_NU, moved.mean()))


# ---------------------------------------------------------------- the problem


class Space(NamedTuple):
    """What is sampled; static, so that one program serves all runs of its shape.

    The coordinates (q,) are those of the law, or of one group after another, each its level and
    what the prior knows; the logs of the standard deviations between groups; the open parameters;
    log σ and log a.

    Attributes:
        law: the law.
        known: whether the prior knows it.
    """

    law: Law
    known: bool

    @property
    def groups(self) -> int:
        """Number of groups of runs that are pooled; 0 of a law without groups."""
        return len(self.law.of_groups) if self.known else 0

    @property
    def names(self) -> tuple[str, ...]:
        """Coordinates of the law, or of each group: the level, and those that the prior is over."""
        return ("level", *self.law.scale_free.words) if self.known else ()

    @property
    def first(self) -> int:
        """Number of the coordinates of the law, or of all groups."""
        return len(self.names) * max(self.groups, 1)

    @property
    def open(self) -> tuple[str, ...]:
        """The parameters in search coordinates under weak normals."""
        return self.law.scale_free.open if self.known else self.law.parameter_names

    @property
    def levels(self) -> np.ndarray:
        """(q,) 1 for the coordinates that together are the log of the target's unit."""
        units = [self.law.parameter(name).unit for name in self.open]
        opened = [unit.startswith("nats") and not self.known for unit in units]
        each = [name == "level" for name in self.names]
        each = each * self.groups + [False] * len(each) if self.groups else each
        return np.array([*each, *opened, 0, 0], float)

    def to_natural(self, at: jax.Array, data: _Runs) -> dict[str, jax.Array]:
        """Natural parameters in the law's own units, from coordinates (q,)."""
        law = self.law
        values = {
            name: jnp.exp(u) if law.parameter(name).low >= 0 else u
            for name, u in zip(self.open, at[len(at) - 2 - len(self.open) : -2], strict=True)
        }
        if self.known:
            each = at[: self.first]
            each = each.reshape(-1, len(self.names)).T if self.groups else each
            words = zip(self.names[1:], each[1:], strict=True)
            values |= law.scale_free.to_params(jnp.exp(each[0]), dict(words))
        moved = law.chart.to_natural(values, data.context) if law.chart and self.open else {}
        values |= {name: moved[name] for name in moved if name in self.open}
        own = in_own_units(law, values, data.centre)
        values |= {name: own[name] for name in self.open}
        return from_excess(law, values, data.context)


class _Rows(NamedTuple):
    """Rows of runs: arrays (n, …)."""

    inputs: dict[str, Any]
    target: Any  # its logarithm where residuals are
    weight: Any  # of the log-likelihood; 0 of rows that are left out, and of padding
    below: Any  # e-folds of compute, or of what grows in its place, below the largest run


class _Runs(NamedTuple):
    """The arrays of one problem."""

    rows: _Rows
    blocks: Any  # number of blocks of rows that hold any
    scale: Any  # of residuals that are linear; else 1
    centre: dict[str, Any]
    context: dict[str, Any]
    starts: Any  # (S, open) of the law's ranges of starts, at the centre
    mean: Any  # (k,) of the coordinates that the prior is over
    whiten: Any  # (k, k)
    between: Any  # (each,) logs of standard deviations between groups
    noise: Any  # log of the noise that the prior expects


def _problems(space: Space, seen: Observations, weights: np.ndarray, prior: Prior | None) -> _Runs:
    """The arrays of P problems, of a length for which one program serves nearly all tables.

    Only weights (P, n) and what follows from them differ. Of rows of numbers there is room for
    thousands: a program goes over the blocks that hold any.
    """
    law, count, active = space.law, len(seen), seen.weight > 0
    wide = any(values.ndim > 1 for values in seen.inputs.values())
    length = -(-count // _BLOCK) * _BLOCK if wide else many_rows(count)
    inputs = {name: padded(values, length).astype(float) for name, values in seen.inputs.items()}
    log = law.residuals == "log"
    centre, context = {}, {}
    for name in centred_inputs(law):
        values = np.abs(seen.inputs[name][active & (seen.inputs[name] != 0)])
        centre[name] = np.exp(np.mean(np.log(values))) if len(values) else 1.0
    # It is a program of each number of rows: a chart that moves, or a constraint, alone has it.
    if law.constraint or (law.chart and space.open):
        context = problem_of(law, seen, FitOptions()).data.context
    mean, whiten, between = np.zeros(0), np.zeros((0, 0)), np.zeros(0)
    if space.known:
        mean, covariance = prior.mean_of(law), prior.covariance_of(law)
        if space.groups:
            between = np.log([WITHIN * SPREAD[name] for name in space.names])
            # Of the groups' mean, which is off that of their source by what groups differ.
            covariance = covariance + np.diag(np.exp(2 * between[-len(mean) :]) / space.groups)
        whiten = np.linalg.inv(np.linalg.cholesky(covariance))
    weights = np.pad(weights, ((0, 0), (0, length - count)))
    size = sum((np.log(inputs[name]) for name in growing_inputs(law)), np.zeros(length))
    largest = np.where(weights > 0, size, -np.inf).max(axis=1, keepdims=True)
    return _Runs(
        rows=_Rows(
            inputs,
            padded(np.log(seen.target) if log else np.asarray(seen.target, float), length),
            # Of many runs each counts less.
            weights / np.hypot(1.0, weights.sum(axis=1, keepdims=True) / MOST_RUNS),
            np.where(weights > 0, largest - size, 0.0),
        ),
        blocks=np.array(-(-count // _BLOCK)),
        scale=np.array(1.0 if log else np.median(np.abs(seen.target[active])) or 1.0),
        centre=centre,
        context=context,
        starts=sobol(law, 64, 0)[:, [law.parameter_names.index(name) for name in space.open]],
        mean=mean,
        whiten=whiten,
        between=between,
        noise=np.log((prior or field_prior()).noise),
    )


# ---------------------------------------------------------------- the density


def _over_rows(data: _Runs, each: Callable[[_Rows], Any], zero: Any) -> Any:
    """The sum of a function of blocks of rows."""

    def add(k: Any, total: Any) -> Any:
        cut = partial(jax.lax.dynamic_slice_in_dim, start_index=k * _BLOCK, slice_size=_BLOCK)
        return jax.tree.map(jnp.add, total, each(jax.tree.map(cut, data.rows)))

    return jax.lax.fori_loop(0, data.blocks, add, zero)


def _errors(space: Space, data: _Runs, at: Any, rows: _Rows) -> tuple[Any, Any]:
    """(n,) target minus law, and logs of the scales of the errors."""
    law, (noise, misfit) = space.law, at[-2:]
    value = law.function(*(rows.inputs[n] for n in law.input_names), **space.to_natural(at, data))
    value = jnp.log(value) if law.residuals == "log" else value
    off = (rows.target - jnp.broadcast_to(value, rows.target.shape)) / data.scale
    square = jnp.exp(2 * noise) + (jnp.exp(misfit) * rows.below) ** 2 + LEAST_NOISE**2
    return off, jnp.log(square) / 2


def _middle(space: Space, data: _Runs) -> tuple[Any, Any]:
    """Means and standard deviations of the coordinates before the runs, at any level."""
    law = space.law
    values = dict(zip(space.open, data.starts.T, strict=True))
    if law.chart and space.open:
        # A chart may need parameters that the coordinates know: of any size, for moments.
        rest = {n: jnp.ones(len(data.starts)) for n in law.parameter_names if n not in values}
        values |= law.chart.from_natural(values | rest, data.context)
    columns = [
        jnp.log(jnp.maximum(values[name], 1e-12)) if law.parameter(name).low >= 0 else values[name]
        for name in space.open
    ]
    columns = jnp.stack(columns, axis=1) if columns else jnp.zeros((2, 0))
    each = data.mean[len(data.mean) - len(space.names) + 1 :]
    each = jnp.concatenate([jnp.zeros(1), each]) if space.known else jnp.zeros(0)
    each = jnp.tile(each, max(space.groups, 1))
    hyper = jnp.stack([data.noise, jnp.log(MISFIT)])
    mean = jnp.concatenate([each, data.between, columns.mean(axis=0), hyper])
    spread = jnp.where(space.levels[: space.first] > 0, LEVEL_SD, 0.4)
    between, hyper = jnp.full(len(data.between), GROUP_SD), jnp.array([NOISE_SD, MISFIT_SD])
    return mean, jnp.concatenate([spread, between, columns.std(axis=0), hyper])


def _known(space: Space, data: _Runs, middle: Any, spread: Any, at: Any) -> tuple[Any, Any, Any]:
    """Whitened coordinates under the prior, those under normals, and the log of the volume (1,)."""
    normal, known, first, each = (at - middle) / spread, jnp.zeros(0), space.first, space.names
    levels, normal = normal[:first], normal[first:]
    volume = -jnp.sum(jnp.log(spread[first:]))
    if space.known:
        groups = at[:first].reshape(-1, len(each))
        centre = groups.mean(axis=0)
        floor = centre[:1]
        if "share" in each:
            floor = floor - jnp.logaddexp(0.0, -centre[each.index("share")])
        known = jnp.concatenate([floor, centre[1:]])[len(each) - len(data.mean) :]
        known = data.whiten @ (known - data.mean)
        normal = jnp.concatenate([levels[:: len(each)].mean()[None], normal])
        volume += jnp.sum(jnp.log(jnp.diag(data.whiten))) - jnp.log(LEVEL_SD)
    if space.groups:
        # Groups vary about their mean by a spread that is unknown itself.
        between = at[first:-2]
        normal = jnp.concatenate([((groups - centre) / jnp.exp(between)).ravel(), normal])
        volume -= (space.groups - 1) * jnp.sum(between)
        volume += len(each) / 2 * np.log(2 * np.pi / space.groups)
    return known, normal, volume[None]


def _log_t(square: Any, size: int, nu: float) -> Any:
    """Log density of a standard Student t in so many dimensions, from the square of its length."""
    constant = gammaln((nu + size) / 2) - gammaln(nu / 2) - size / 2 * np.log(nu * np.pi)
    return constant - (nu + size) / 2 * jnp.log1p(square / nu)


def _prior(known: Any, normal: Any, volume: Any) -> tuple[Any, Any, Any]:
    """Log density before the runs, its slopes in the parts, and its expected curvature there."""
    bend = (PRIOR_NU + len(known)) / (PRIOR_NU + known @ known)
    value = _log_t(known @ known, len(known), PRIOR_NU) + volume[0]
    value = value - 0.5 * (normal @ normal + len(normal) * np.log(2 * np.pi))
    return value, (-bend * known, -normal, jnp.ones_like(volume)), (bend, 1.0, 0.0)


def _likelihood(weight: Any, off: Any, scales: Any) -> tuple[Any, Any, Any]:
    """The same of rows, in their errors and the logs of the scales of these."""
    each = _log_t((off * jnp.exp(-scales)) ** 2, 1, NU) - scales
    value = jnp.sum(jnp.where(weight > 0, weight * each, 0.0))
    bend = weight * (NU + 1) / (NU * jnp.exp(2 * scales) + off**2)
    return value, (-bend * off, bend * off**2 - weight), (bend, weight * 2 * NU / (NU + 3))


# ---------------------------------------------------------------- the sampler


def _curved(density: Callable[..., Any], parts: Callable[[Any], Any], at: Any) -> Any:
    """The log density of some parts at a point, its gradient and its curvature."""
    slopes, found = jax.jacfwd(lambda at: (parts(at),) * 2, has_aux=True)(at)
    value, pulls, bends = density(*found)
    gradient = sum(slope.T @ pull for slope, pull in zip(slopes, pulls, strict=True))
    return value, gradient, sum((s.T * bend) @ s for s, bend in zip(slopes, bends, strict=True))


def _climb(
    space: Space, data: _Runs, known: Callable[[Any], tuple[Any, ...]], start: Any
) -> tuple[Any, Any, Any]:
    """A mode, the log density and its expected curvature there, by damped Fisher scoring."""
    size = len(start)
    zero = jnp.zeros(()), jnp.zeros(size), jnp.zeros((size, size))

    def look(at: Any) -> tuple[Any, Any, Any, Any]:
        def of_rows(rows: _Rows) -> Any:
            errors = lambda at: _errors(space, data, at, rows)  # noqa: E731
            return _curved(partial(_likelihood, rows.weight), errors, at)

        value, gradient, bent = jax.tree.map(
            jnp.add, _over_rows(data, of_rows, zero), _curved(_prior, known, at)
        )
        fine = jnp.isfinite(value) & jnp.isfinite(gradient).all() & jnp.isfinite(bent).all()
        return at, jnp.where(fine, value, -jnp.inf), gradient, bent

    def step(_: Any, state: Any) -> Any:
        at, value, gradient, bent, damping = state
        damped = bent + damping * jnp.diag(jnp.diag(bent))
        there = look(at + jnp.clip(_solve(damped, gradient), -_LONGEST, _LONGEST))
        better = there[1] > value
        kept = jax.tree.map(lambda a, b: jnp.where(better, a, b), there, state[:-1])
        return *kept, jnp.where(better, damping / 5, jnp.minimum(damping * 4, 1e6))

    # Before the first step nothing is known: with no gradient it evaluates the start.
    state = (start, -jnp.inf, jnp.zeros(size), jnp.eye(size), jnp.array(1e-2))
    at, value, _, bent, _ = jax.lax.fori_loop(0, _CLIMBS, step, state)
    return at, value, bent


def _solve(matrix: Any, values: Any) -> Any:
    return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(matrix), True), values)


def _sample(space: Space, data: _Runs, random: dict[str, Any]) -> tuple[Any, ...]:
    middle, spread = _middle(space, data)

    # The first of the starts is the middle itself, at the level of the runs.
    @jax.vmap
    def at_level(at: Any) -> Any:
        if space.law.residuals != "log":
            return at
        off = lambda rows: jnp.sum(  # noqa: E731
            jnp.where(rows.weight > 0, _errors(space, data, at, rows)[0], 0.0)
        )
        mean = _over_rows(data, off, jnp.zeros(())) / (data.rows.weight > 0).sum()
        return at + jnp.where(jnp.isfinite(mean), mean, 0.0) * space.levels

    starts = at_level(middle + spread * random["starts"])
    known = partial(_known, space, data, starts[0], spread)
    size = len(middle)

    @jax.vmap
    def density(at: Any) -> Any:
        likely = lambda rows: _likelihood(rows.weight, *_errors(space, data, at, rows))[0]  # noqa: E731
        total = _over_rows(data, likely, jnp.zeros(())) + _prior(*known(at))[0]
        return jnp.where(jnp.isfinite(total), total, -jnp.inf)

    at, values, bent = jax.vmap(partial(_climb, space, data, known))(starts)
    best = jnp.argmax(values)
    inverse = _solve(bent[best] + 1e-6 * jnp.eye(size), jnp.eye(size))
    factor = jnp.linalg.cholesky((inverse + inverse.T) / 2)

    # Adaptive importance sampling around the best mode, tempered while few points decide.
    def improve(carry: Any, off: Any) -> Any:
        centre, factor = carry
        points = centre + _STRETCH * off @ factor.T
        values = density(points)
        volume = jnp.sum(jnp.log(_STRETCH * jnp.diag(factor)))
        logs = values - _log_t(jnp.sum(off**2, axis=1), size, NU) + volume
        # To a power at most 1 that leaves a twentieth of them effective.
        weights = jax.nn.softmax(0.75 ** jnp.arange(16)[:, None] * logs, axis=1)
        weights = weights[jnp.argmax(1 / jnp.sum(weights**2, axis=1) > 0.05 * len(logs))]
        centre = weights @ points
        off = points - centre
        covariance = (off.T * weights) @ off
        ridge = jnp.diag(1e-9 * jnp.diag(covariance) + 1e-16)
        return (centre, jnp.linalg.cholesky(covariance + ridge)), (points, values, logs, weights)

    _, rounds = jax.lax.scan(improve, (at[best], factor), random["proposed"])
    points, values, logs, weights = jax.tree.map(lambda a: a[-1], rounds)
    evidence = jax.nn.logsumexp(logs) - jnp.log(len(logs))

    # Differential evolution of many chains, until they have forgotten where they began.
    least = 1 / jnp.sum(jax.nn.softmax(logs) ** 2)
    picked = jnp.searchsorted(jnp.cumsum(weights), random["picked"]).reshape(2, -1)
    start = points[picked], values[picked]
    reach = 2.38 / np.sqrt(2 * size)

    def move(both: Any, numbers: Any) -> Any:
        # Half of the chains move by differences of the other half, and then these by theirs.
        number, shifts, normal, log_uniform = numbers
        side, leap = number % 2, number // 2 % 10 == 5
        own, other = both[0][side], both[0][1 - side]
        between = jnp.roll(other, shifts[0], axis=0) - jnp.roll(other, shifts[1], axis=0)
        # Every tenth move leaps from where one chain is to where another is.
        new = own + jnp.where(leap, 1.0, reach * jnp.exp(0.3 * normal))[:, None] * between
        value, there = both[1][side], density(new)
        taken = log_uniform < there - value
        own, value = jnp.where(taken[:, None], new, own), jnp.where(taken, there, value)
        return (both[0].at[side].set(own), both[1].at[side].set(value)), None

    def block(state: Any) -> Any:
        k, both, _, _ = state
        numbers = jnp.arange(2 * _MOVES), *(each[k] for each in random["moves"])
        new, _ = jax.lax.scan(move, both, numbers)
        # Draws start as good as those of importance sampling, and end independent of these: what
        # they keep of their start is beyond the correlation of _CHAINS pairs by chance.
        off, then = (x - x.mean(axis=(0, 1)) for x in (new[0], start[0]))
        kept = jnp.sum(off * then, axis=(0, 1)) ** 2
        kept = jnp.max(kept / (jnp.sum(off**2, axis=(0, 1)) * jnp.sum(then**2, axis=(0, 1))))
        kept = jnp.maximum(kept - 4 / _CHAINS, 0.0)
        return k + 1, new, both, 1 / (kept / least + (1 - kept) / _CHAINS)

    def undone(state: Any) -> Any:
        return (state[0] < 2) | ((state[0] < _BLOCKS) & (state[-1] < _WANTED))

    state = (0, start, start, jnp.zeros(()))
    blocks, last, before, effective = jax.lax.while_loop(undone, block, state)
    draws = jnp.concatenate([last[0], before[0]]).reshape(-1, size)
    natural = jax.vmap(lambda at: space.to_natural(at, data))(draws)
    centre = space.to_natural(draws.mean(axis=0), data)
    return draws[:, -2], natural, centre, jax.vmap(known)(draws)[0], effective, evidence


@compiled(static_argnames="space")
def _sample_each(space: Space, many: _Runs, random: dict[str, Any]) -> tuple[Any, ...]:
    axes = _Runs(*(None,) * len(_Runs._fields))._replace(rows=_Rows(None, None, 0, 0))
    return jax.vmap(lambda data: _sample(space, data, random), in_axes=(axes,))(many)


@cache
def _random_numbers(size: int, seed: int) -> dict[str, Any]:
    """Drawn on the host: the same for every problem, and on every device."""
    rng, half = np.random.default_rng([seed, 0]), _CHAINS // 2
    many = _BLOCKS, 2 * _MOVES
    proposed = rng.standard_normal((_ROUNDS, _PROPOSED, size))
    return {
        "starts": rng.standard_normal((_STARTS, size)) * (np.arange(_STARTS) > 0)[:, None],
        "proposed": proposed * np.sqrt(NU / rng.chisquare(NU, (_ROUNDS, _PROPOSED, 1))),
        "picked": rng.permutation(np.arange(_CHAINS) + rng.random(_CHAINS)) / _CHAINS,
        "moves": (
            rng.integers(0, half, (*many, 2)),
            rng.standard_normal((*many, half)),
            np.log(rng.random((*many, half))),
        ),
    }
