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
the best, and then Hamiltonian moves of many chains at once, whose steps and metric are adapted over
the chains.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp

from jaxlaw import laws
from jaxlaw._jit import compiled, in_float64, size_class
from jaxlaw.data import Observations, Runs, read_runs
from jaxlaw.fitting import FittedLaw, Prior, field_prior, joint_ranges, prior_of
from jaxlaw.fitting._prior import FLOOR, SPREAD, WITHIN
from jaxlaw.fitting._starts import sobol
from jaxlaw.fitting._transform import centred_inputs, in_own_units
from jaxlaw.laws import Law, beyond, end_of, growing_inputs, slope_of, top_of
from jaxlaw.notes import Note
from jaxlaw.uncertainty import Draws

NU = 5.0  # degrees of freedom of a run's error
PRIOR_NU = 8.0  # … and of the prior's coordinates, so that runs can overrule it
LEAST_NOISE = 5e-4  # which no law holds to
NOISE_SD = 2.0  # of log σ about the prior's noise
MISFIT, MISFIT_SD = 0.004, 0.8  # median of a, per e-fold below the largest run, and sd of log a
MOST_RUNS = 40.0  # that count as such: what a law errs by does not average out
#: Scale τ and mean of the misfit's slopes beyond the runs, per e-fold: of laws of size, tokens or
#: compute alone, which lie high beyond their runs, and of those of a mixture or of a whole curve.
SLOPES = {"size": (0.002, -0.0025), "other": (0.008, 0.0)}
SLOPE_SD, SLOPE_NU = 0.6, 5.0  # sd of log τ, and the slopes' degrees of freedom
SLOPE_OF_NOISE = 1.0  # scale, in those of the runs' noise, of what it adds to all slopes
LEVEL_SD = 2.0  # of the log of the target at the reference point, about the runs'
GROUP_SD = 0.7  # of the log of how much groups of runs differ, about a third of what sources do
SHARED = 0.5  # correlation of the errors of a run's checkpoints

_STARTS, _CLIMBS, _LONGEST = 8, 40, 5.0  # starts, steps of each, and the longest of these
_ROUNDS, _PROPOSED = 2, 2000  # of importance sampling
_FAR, _NEAR_STRETCH, _FAR_STRETCH = 0.2, 1.1, 2.0  # share and widths of its two proposals
_CHAINS, _MOVES, _BLOCKS = 512, 25, 40  # chains, moves of each in a block, and blocks at most
ENOUGH, _WANTED = 400.0, 420.0  # effective draws


class Space(NamedTuple):
    """What is sampled; static, so that one program serves all runs of its shape.

    Attributes:
        law: the law.
        known: its scale-free coordinates, if the prior knows them; empty otherwise.
        open: the parameters in search coordinates under weak normals, in the law's order.
        scales: for each of these, whether its coordinate is its ``log`` or ``linear``.
        groups: number of groups of runs that are pooled; 0 of a law without groups. The known
            coordinates are then those of one group after another, each with its level, and the
            logs of the standard deviations between groups follow.
    """

    law: Law
    known: tuple[str, ...]
    open: tuple[str, ...]
    scales: tuple[str, ...]
    groups: int = 0

    @property
    def each(self) -> int:
        """Number of known coordinates of a law or group, its level among them."""
        return len(self.known) // self.groups if self.groups else 1 + len(self.known)

    @property
    def levels(self) -> np.ndarray:
        """(q,) 1 for the coordinates that together are the log of the target's unit."""
        if self.known:
            groups = np.tile(np.eye(self.each)[0], max(self.groups, 1))
            return np.pad(groups, (0, self.size - len(groups)))
        units = [self.law.parameter(name).unit for name in self.open]
        return np.array([float(unit.startswith("nats")) for unit in units])

    @property
    def size(self) -> int:
        """Number of coordinates."""
        if self.groups:
            return len(self.known) + self.each
        return len(self.open) + (self.each if self.known else 0)

    def natural(self, at: jax.Array, data: Any) -> dict[str, jax.Array]:
        """Natural parameters in the law's own units, from coordinates (q,)."""
        law, first = self.law, self.size - len(self.open)
        values = {
            name: jnp.exp(u) if scale == "log" else u
            for name, scale, u in zip(self.open, self.scales, at[first:], strict=True)
        }
        if self.known:
            level = jnp.ones(()) if self.groups else jnp.exp(at[0])
            named = dict(zip(self.known, at[0 if self.groups else 1 :], strict=False))
            values = {**law.scale_free.to_params(level, named), **values}
        moved = law.chart.to_natural(values, data.context) if law.chart and self.open else {}
        values |= {name: moved[name] for name in moved if name in self.open}
        own = in_own_units(law, values, data.centre)
        values |= {name: own[name] for name in self.open}
        if law.constraint is not None:
            raised = law.constraint.raises
            values[raised] = values[raised] + law.constraint.least(values, data.context)
        return values


class _Runs(NamedTuple):
    """The arrays of one problem, rows padded with weight 0."""

    inputs: dict[str, Any]
    target: Any  # (n,), its logarithm where residuals are
    weight: Any  # (n,)
    size: Any  # (n,) log of compute, or of what grows in its place
    tops: Any  # (n, k) logs of the growing inputs
    scale: Any  # of residuals that are linear; else 1
    centre: dict[str, Any]
    context: dict[str, Any]
    starts: Any  # (S, open) of the law's ranges of starts, at the centre
    mean: Any  # (1 + known,), of the log of the floor and the known coordinates
    whiten: Any  # (1 + known, 1 + known)
    between: Any  # (each,) logs of standard deviations between groups
    hyper: Any  # log σ and log a: mean and sd of each


class _Randomness(NamedTuple):
    """Random numbers, drawn on the host: the same for every problem, and on every device."""

    starts: Any
    normal: Any
    chi: Any
    far: Any
    picked: Any
    moves: Any


def posterior(
    law: str | Law,
    runs: Any,
    *,
    prior: Any = "field",
    groups: Any = None,
    n_draws: int = 1000,
    seed: int = 0,
    **reading: Any,
) -> Draws:
    """Draws of a law's parameters given runs, with the noise of the runs and the law's misfit.

    Args:
        law: law or its name.
        runs: anything that :func:`jaxlaw.read_runs` takes or returns.
        prior: ``"field"``, what public experiments say; fits of earlier experiments or a folder of
            them; a :class:`jaxlaw.fitting.Prior`; None for weak priors over the law's own ranges.
            Whatever the prior does not know of the law has these.
        groups: column whose equal values mark rows as checkpoints of one run, which share an error.
        n_draws: number of draws.
        seed: seed of the draws.
        **reading: options of :func:`jaxlaw.read_runs`.

    Returns:
        :class:`jaxlaw.uncertainty.Draws` of the law with its misfit beyond the runs
        (:func:`jaxlaw.laws.beyond`): ``params`` name → (n_draws,), ``sigma`` (n_draws,) relative
        noise of single runs.

    Raises:
        UsageError, DataError: the runs cannot be read for this law.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.005).table[:12]
        >>> draws = jl.posterior("chinchilla", runs)
        >>> len(draws.params["alpha"]), draws.effective >= 400
        (1000, True)
    """
    law = laws.get(law)
    given = {name: value for name, value in reading.items() if value is not None}
    read = runs if isinstance(runs, Runs) and not given else read_runs(runs, **given)
    seen = read.observations(law, free=())
    weight = seen.weight * shared_weights(seen, groups)
    found = posteriors(law, seen, weight[None], prior=prior_of(prior), seed=seed, n_draws=n_draws)
    return draws_of(law, seen, found, 0)


def shared_weights(seen: Observations, groups: Any = None) -> np.ndarray:
    """(n,) what a row counts beside the other checkpoints of its run, which share an error.

    Of m checkpoints whose errors correlate by ρ each counts 1/(1 + (m − 1)·ρ).
    """
    if groups is None:
        return np.ones(len(seen))
    labels = np.asarray(seen.others[groups]) if isinstance(groups, str) else np.asarray(groups)
    _, code, count = np.unique(labels, return_inverse=True, return_counts=True)
    return 1.0 / (1.0 + (count[code] - 1) * SHARED)


class Posteriors(NamedTuple):
    """Draws of P problems of one law.

    Attributes:
        params: parameter of the law → (P, R).
        middle: parameter of the law → (P,), at the mean of the coordinates.
        sigma, misfit: (P, R) relative noise of a run, and misfit per e-fold below the largest run.
        slopes: (P, R, k) of the misfit beyond the runs, along each growing input.
        places: parameter of the misfit that says where the runs are → (P,).
        effective: (P,) effective number of draws.
        log_evidence: (P,) log of the probability density of the runs.
        conflict: (P,) tail probability of the posterior's mass under the prior; 1 without one.
    """

    params: dict[str, np.ndarray]
    middle: dict[str, np.ndarray]
    sigma: np.ndarray
    misfit: np.ndarray
    slopes: np.ndarray
    places: dict[str, np.ndarray]
    effective: np.ndarray
    log_evidence: np.ndarray
    conflict: np.ndarray


def posteriors(
    law: str | Law,
    observations: Observations,
    weights: np.ndarray,
    *,
    prior: Prior | None,
    targets: np.ndarray | None = None,
    seed: int = 0,
    n_draws: int = 1000,
) -> Posteriors:
    """Posteriors of P problems in one program: cut-offs, resamples, other targets.

    Args:
        law: law or its name.
        observations: the n runs.
        weights: (P, n); those of rows multiply their log-likelihood, 0 leaves one out.
        prior: what is known beforehand.
        targets: (P, n) in place of the runs' own.
        seed: seed of the draws.
        n_draws: R.
    """
    law = laws.get(law)
    space = _space(law, prior)
    weights = np.atleast_2d(np.asarray(weights, float))
    count = len(weights)
    with in_float64():
        one = _problem(space, observations, prior)
        rows = len(one.target)
        pad = ((0, 0), (0, rows - weights.shape[1]))
        many = one._replace(weight=np.pad(weights, pad))
        if targets is not None:
            logs = np.log(targets) if law.residuals == "log" else np.asarray(targets, float)
            many = many._replace(target=np.pad(logs, pad, mode="edge"))
        else:
            many = many._replace(target=np.broadcast_to(one.target, (count, rows)))
        found = jax.device_get(_sample_each(space, many, _randomness(space.size + 2, seed)))
    at, params, middle, effective, (values, theirs, centres, factors, constant), known = found
    off = np.linalg.solve(factors, (at - centres[:, None]).swapaxes(1, 2)).swapaxes(1, 2)
    spread = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)[:, None]
    evidence = _bridge(values - _log_proposal(off, spread, np), theirs) - constant
    keep = slice(None, n_draws)
    sigma, misfit = np.hypot(np.exp(at[:, keep, -2]), LEAST_NOISE), np.exp(at[:, keep, -1])
    slopes = _slopes(law, sigma, seed)
    conflict = np.array([_tail_probability(one, _count(space)) for one in known])
    places = _places(law, one.tops[: weights.shape[1]], weights > 0)
    params = {name: np.broadcast_to(params[name], at.shape[:2])[:, keep] for name in params}
    return Posteriors(params, middle, sigma, misfit, slopes, places, effective, evidence, conflict)


def _places(law: Law, logs: np.ndarray, active: np.ndarray) -> dict[str, np.ndarray]:
    """Where the runs (P, n) that count are, from logs (n, k) of the growing inputs."""
    largest = np.argmax(np.where(active, logs.sum(axis=1), -np.inf), axis=1)
    found = {}
    for name, values in zip(growing_inputs(law), logs.T, strict=True):
        found[top_of(name)] = np.exp(values[largest])
        found[end_of(name)] = np.exp(np.where(active, values, -np.inf).max(axis=1))
    return found


def _tail_probability(known: np.ndarray, size: int) -> float:
    """Tail probability, before the runs, of where they have moved the prior's mean to (Box 1980).

    Before its runs the posterior's mean has the covariance I − V, with V the posterior's, in
    whitened coordinates; directions that the runs say nothing of do not count.

    Args:
        known: (R, k) draws of the whitened coordinates.
        size: number of those that the prior is over; 0 without any.
    """
    if not size:
        return 1.0
    known = known[:, known.std(axis=0) > 0]
    left, axes = np.linalg.eigh(np.cov(known.T, ddof=0))
    told = left < 0.9
    if not told.any():
        return 1.0
    moved = (known.mean(axis=0) @ axes)[told] ** 2 / (1 - left[told])
    return float(stats.f.sf(moved.mean(), told.sum(), PRIOR_NU))


def slopes_of(law: Law) -> tuple[float, float]:
    """Scale and mean of the slopes of a law's misfit beyond its runs, per e-fold."""
    return SLOPES["size" if {*law.input_names} <= {"N", "D", "C", "group"} else "other"]


def _slopes(law: Law, sigma: np.ndarray, seed: int) -> np.ndarray:
    """(P, R, k) slopes of the misfit beyond the runs, per e-fold of each growing input."""
    rng, shape = np.random.default_rng([seed, 1]), (*sigma.shape[1:], len(growing_inputs(law)))
    scale, mean = slopes_of(law)
    own = scale * np.exp(SLOPE_SD * rng.standard_normal(shape)) * rng.standard_t(SLOPE_NU, shape)
    common = rng.standard_t(SLOPE_NU, (len(own), 1))  # of the noise, along all inputs alike
    return mean + own + SLOPE_OF_NOISE * sigma[..., None] * common


def draws_of(law: Law, seen: Observations, found: Posteriors, k: int) -> Draws:
    """The draws of problem k of several, as a law with its misfit that plans and predicts."""
    law, names = laws.get(law), growing_inputs(law)
    full = beyond(law)
    params = {name: found.params[name][k] for name in law.parameter_names}
    centre = {name: float(found.middle[name][k]) for name in law.parameter_names}
    for j, name in enumerate(names):
        params[slope_of(name)] = found.slopes[k, :, j]
        centre[slope_of(name)] = slopes_of(law)[1]
    for name, values in found.places.items():
        params[name] = np.full(len(found.sigma[k]), values[k])
        centre[name] = float(values[k])
    users = {name: values / seen.scale[name] for name, values in seen.inputs.items()}
    fit = FittedLaw(
        full,
        centre,
        units=dict(seen.scale),
        ranges={name: tuple(map(float, seen.ranges[name])) for name in law.input_names},
        joint_ranges=dict(joint_ranges(law.inputs, users)),
        area_options=None if seen.area_options is None else dict(seen.area_options),
        columns=dict(seen.mapped),
        source=seen.source,
        flops=seen.flops,
        notes=seen.notes,
    )
    notes, effective = [], float(found.effective[k])
    if effective < ENOUGH:
        notes.append(Note(
            "few-effective-draws", "warning",
            f"the posterior of {law.name} has {effective:.0f} effective draws of "
            f"{len(found.sigma[k])}: its intervals are uncertain themselves",
            inherited=True,
        ))  # fmt: skip
    return Draws(
        fit, params, tuple(notes), kind="posterior", groups=(),
        noise=float(np.median(found.sigma[k])), sigma=found.sigma[k], effective=effective,
        conflict=float(found.conflict[k]), log_evidence=float(found.log_evidence[k]),
    )  # fmt: skip


# ---------------------------------------------------------------- the problem


@cache
def _space(law: Law, prior: Prior | None) -> Space:
    known = prior is not None and prior.knows(law)
    coordinates = tuple(law.scale_free.words) if known else ()
    names = law.scale_free.open if known else law.parameter_names
    scales = ("log" if law.parameter(name).low >= 0 else "linear" for name in names)
    groups = len(law.of_groups) if known and law.scale_free.of is not None else 0
    return Space(law, coordinates, tuple(names), tuple(scales), groups)


def _problem(space: Space, seen: Observations, prior: Prior | None) -> _Runs:
    """The arrays of a problem, of the length that programs are compiled for."""
    law, active = space.law, seen.weight > 0
    widths = [values.reshape(len(values), -1).shape[1] for values in seen.inputs.values()]
    rows = size_class(len(seen), max(widths))
    at = np.minimum(np.arange(rows), len(seen) - 1)
    inputs = {name: np.asarray(values, float)[at] for name, values in seen.inputs.items()}
    log = law.residuals == "log"
    scale = 1.0 if log else float(np.median(np.abs(seen.target[active]))) or 1.0
    tops = (
        np.stack([np.log(inputs[name]) for name in growing_inputs(law)] or [], axis=1)
        if growing_inputs(law)
        else np.zeros((rows, 0))
    )
    centre = {}
    for name in centred_inputs(law):
        values = seen.inputs[name][active]
        values = np.abs(values[values != 0])
        centre[name] = np.exp(np.mean(np.log(values))) if len(values) else 1.0
    context = {}
    if law.constraint or (law.chart and space.open):
        context = _context(law, {name: values[: len(seen)] for name, values in inputs.items()})
    order = [law.parameter_names.index(name) for name in space.open]
    mean, whiten = np.zeros(space.each), np.zeros((space.each, space.each))
    between = np.zeros(0)
    noise = field_prior().noise if prior is None else prior.noise
    if space.known:
        first = 0 if prior.coordinates_of(law)[0] == FLOOR else 1
        covariance = prior.covariance_of(law)
        if space.groups:
            names = ("level", *law.scale_free.of.scale_free.words)
            between = np.log([WITHIN * SPREAD[name] for name in names])
            covariance = covariance + np.diag(np.exp(2 * between[first:])) / space.groups
        mean[first:] = prior.mean_of(law)
        whiten[first:, first:] = np.linalg.inv(np.linalg.cholesky(covariance))
    return _Runs(
        inputs,
        (np.log(seen.target) if log else np.asarray(seen.target, float))[at],
        np.pad(seen.weight, (0, rows - len(seen))),
        tops.sum(axis=1),
        tops,
        np.array(scale),
        {name: np.asarray(value) for name, value in centre.items()},
        {name: np.asarray(value) for name, value in context.items()},
        sobol(law, 64, 0)[:, order],
        mean,
        whiten,
        between,
        np.array([np.log(noise), NOISE_SD, np.log(MISFIT), MISFIT_SD]),
    )


@compiled(optimised=False, static_argnames="law")
def _context(law: Law, inputs: dict[str, Any]) -> dict[str, Any]:
    return law.context(inputs)


@cache
def _randomness(size: int, seed: int) -> _Randomness:
    rng = np.random.default_rng([seed, 0])
    many, half = (_BLOCKS, 2 * _MOVES), _CHAINS // 2
    return _Randomness(
        starts=rng.standard_normal((_STARTS, size)) * (np.arange(_STARTS) > 0)[:, None],
        normal=rng.standard_normal((_ROUNDS, _PROPOSED, size)),
        chi=np.sqrt(NU / rng.chisquare(NU, (_ROUNDS, _PROPOSED))),
        far=rng.random((_ROUNDS, _PROPOSED)) < _FAR,
        picked=rng.permutation(np.arange(_CHAINS) + rng.random(_CHAINS)) / _CHAINS,
        moves=(
            np.broadcast_to(np.arange(2 * _MOVES) % 2, many),
            rng.integers(0, half, (*many, 2)),
            rng.standard_normal((*many, half)),
            np.log(rng.random((*many, half))),
            np.broadcast_to(np.arange(2 * _MOVES) // 2 % 10 == 5, many),
        ),
    )


# ---------------------------------------------------------------- the density


class _Weak(NamedTuple):
    """Centre of the level and weak normals of the open coordinates, from the runs and starts."""

    level: Any
    mean: Any
    sd: Any


def _weak(space: Space, data: _Runs) -> _Weak:
    law = space.law
    values = dict(zip(space.open, data.starts.T, strict=True))
    if law.chart and space.open:
        # A chart may need parameters that the coordinates know: of any size, for moments.
        rest = {n: jnp.ones(len(data.starts)) for n in law.parameter_names if n not in values}
        moved = law.chart.from_natural(values | rest, data.context)
        values |= {name: moved[name] for name in moved if name in values}
    columns = [
        jnp.log(jnp.maximum(values[name], 1e-12)) if scale == "log" else values[name]
        for name, scale in zip(space.open, space.scales, strict=True)
    ]
    columns = jnp.stack(columns, axis=1) if columns else jnp.zeros((2, 0))
    mean, sd = columns.mean(axis=0), columns.std(axis=0)
    # The level at which the law under the prior's mean goes through the middle of the runs.
    at = _middle(space, data, mean, 0.0)
    level = jnp.where(space.levels.any(), _offset(space, data, at), 0.0)
    shift = 0.0 if space.known else level * space.levels
    return _Weak(level, mean + shift, sd)


def _middle(space: Space, data: _Runs, mean: Any, level: Any) -> Any:
    """(q,) the prior's mean at a level."""
    if not space.known:
        return mean
    known = jnp.concatenate([jnp.reshape(level, 1), data.mean[1:]])
    return jnp.concatenate([jnp.tile(known, max(space.groups, 1)), data.between, mean])


def _offset(space: Space, data: _Runs, at: Any) -> Any:
    """By how much the log of the law has to rise at a point of the coordinates, on average."""
    if space.law.residuals != "log":
        return jnp.zeros(())
    counted = data.weight > 0
    found = jnp.sum(jnp.where(counted, _residuals(space, data, at), 0.0)) / counted.sum()
    return jnp.where(jnp.isfinite(found), found, 0.0)


def _residuals(space: Space, data: _Runs, at: Any) -> Any:
    """(n,) target minus law."""
    law = space.law
    value = law.function(*(data.inputs[n] for n in law.input_names), **space.natural(at, data))
    value = jnp.log(value) if law.residuals == "log" else value
    return (data.target - jnp.broadcast_to(value, data.target.shape)) / data.scale


def _of_groups(space: Space, at: Any) -> Any:
    """(groups, each) known coordinates of each group; one row of a law without groups."""
    count = max(space.groups, 1)
    return at[: count * space.each].reshape(count, space.each)


def _known(space: Space, data: _Runs, at: Any) -> Any:
    """(each,) coordinates that the prior is over, whitened; of groups of their mean."""
    if not space.known:
        return jnp.zeros(1)
    level, *rest = _of_groups(space, at).mean(axis=0)
    names = space.known[1 : space.each] if space.groups else space.known
    shares = [value for name, value in zip(names, rest, strict=True) if name.startswith("share")]
    floor = level - jnp.logaddexp(0.0, -shares[0]) if shares else level
    return data.whiten @ (jnp.stack([floor, *rest]) - data.mean)


def _plain(space: Space, data: _Runs, weak: _Weak, at: Any) -> Any:
    """Coordinates under normal priors, whitened."""
    opened = (at[space.size - len(space.open) :] - weak.mean) / weak.sd
    if not space.known:
        return opened
    groups = _of_groups(space, at)
    centre = groups.mean(axis=0)
    level = (centre[:1] - weak.level) / LEVEL_SD
    if not space.groups:
        return jnp.concatenate([level, opened])
    between = at[-space.each :]
    off = (groups - centre) / jnp.exp(between)
    return jnp.concatenate([level, off.ravel(), (between - data.between) / GROUP_SD])


def _weights(data: _Runs) -> Any:
    """(n,) weights of the runs' log-likelihoods: of many runs each counts less."""
    weight = jnp.where(data.weight > 0, data.weight, 0.0)
    return weight / jnp.hypot(1.0, weight.sum() / MOST_RUNS)


def _below(data: _Runs) -> Any:
    top = jnp.max(jnp.where(data.weight > 0, data.size, -jnp.inf))
    return jnp.maximum(top - data.size, 0.0)


def _scales(data: _Runs, at: Any) -> tuple[Any, Any, Any]:
    """Squares of the scale of each run's error: of the noise, of the misfit, and their sum."""
    noise, misfit = jnp.exp(2 * at[-2]), jnp.exp(2 * at[-1]) * _below(data) ** 2
    return noise, misfit, noise + misfit + LEAST_NOISE**2


def _log_likelihood(data: _Runs, at: Any, rows: Any) -> Any:
    *_, square = _scales(data, at)
    each = _LOG_T - 0.5 * jnp.log(square) - (NU + 1) / 2 * jnp.log1p(rows**2 / (NU * square))
    return jnp.sum(jnp.where(data.weight > 0, _weights(data) * each, 0.0))


def _log_prior(space: Space, data: _Runs, at: Any, known: Any, plain: Any) -> Any:
    size, noise = _count(space), (at[-2:] - data.hyper[::2]) / data.hyper[1::2]
    heavy = -(PRIOR_NU + size) / 2 * jnp.log1p(known @ known / PRIOR_NU) if size else 0.0
    between = (space.groups - 1) * jnp.sum(at[-2 - space.each : -2]) if space.groups else 0.0
    return heavy - between - 0.5 * (plain @ plain + noise @ noise)


def _count(space: Space) -> int:
    """Number of coordinates that the prior is over; the level is flat."""
    return space.each - 1 if space.known else 0


_LOG_T = gammaln((NU + 1) / 2) - gammaln(NU / 2) - 0.5 * np.log(np.pi * NU)


def _parts(space: Space, data: _Runs, weak: _Weak, theta: Any) -> tuple[Any, Any, Any]:
    """Residuals of the runs and of the prior, at (q,) coordinates without those of the noise."""
    known, plain = _known(space, data, theta), _plain(space, data, weak, theta)
    return _residuals(space, data, theta), known, plain


def _density(space: Space, data: _Runs, weak: _Weak, at: Any) -> Any:
    """Log of the posterior's density up to the prior's constant, at (q + 2,) coordinates."""
    rows, known, plain = _parts(space, data, weak, at[:-2])
    total = _log_likelihood(data, at, rows) + _log_prior(space, data, at, known, plain)
    return jnp.where(jnp.isfinite(total), total, -jnp.inf)


def _curvature(space: Space, data: _Runs, weak: _Weak, at: Any) -> tuple[Any, Any, Any]:
    """The log density, its gradient, and its expected curvature (q + 2, q + 2)."""

    def parts(theta: Any) -> Any:
        found = _parts(space, data, weak, theta)
        return found, found

    (of_rows, of_known, of_plain), (rows, known, plain) = jax.jacfwd(parts, has_aux=True)(at[:-2])
    noise, misfit, square = _scales(data, at)
    weight = _weights(data)
    pull = weight * (NU + 1) / (NU * square + rows**2)
    held = (PRIOR_NU + _count(space)) / (PRIOR_NU + known @ known)
    gradient = -(of_rows.T @ (pull * rows)) - held * of_known.T @ known - of_plain.T @ plain
    bent = (of_rows.T * pull) @ of_rows + held * of_known.T @ of_known + of_plain.T @ of_plain
    shares = jnp.stack([jnp.broadcast_to(noise, square.shape), misfit], axis=1) / square[:, None]
    excess = pull * rows**2 - weight
    tight = 1 / data.hyper[1::2] ** 2
    of_noise = shares.T @ excess - tight * (at[-2:] - data.hyper[::2])
    of_noise_bent = 2 * NU / (NU + 3) * (shares.T * weight) @ shares + jnp.diag(tight)
    whole = jax.scipy.linalg.block_diag(bent, of_noise_bent)
    value = _log_likelihood(data, at, rows) + _log_prior(space, data, at, known, plain)
    if space.groups:
        gradient = gradient.at[-space.each :].add(1.0 - space.groups)
    gradient = jnp.concatenate([gradient, of_noise])
    fine = jnp.isfinite(value) & jnp.isfinite(gradient).all() & jnp.isfinite(whole).all()
    return jnp.where(fine, value, -jnp.inf), gradient, whole


# ---------------------------------------------------------------- the sampler


def _climb(space: Space, data: _Runs, weak: _Weak, start: Any) -> tuple[Any, Any, Any]:
    """A mode, the log density and the curvature there, by damped Fisher scoring."""
    size = len(start)

    def step(_: Any, state: Any) -> Any:
        at, value, gradient, bent, damping = state
        damped = bent + damping * jnp.diag(jnp.diag(bent))
        new = at + jnp.clip(_solve(damped, gradient), -_LONGEST, _LONGEST)
        there = (new, *_curvature(space, data, weak, new))
        better = there[1] > value
        kept = jax.tree.map(lambda a, b: jnp.where(better, a, b), there, state[:-1])
        return *kept, jnp.where(better, damping / 5, jnp.minimum(damping * 4, 1e6))

    # Before the first step nothing is known: with no gradient it evaluates the start.
    state = (start, -jnp.inf, jnp.zeros(size), jnp.eye(size), jnp.array(1e-2))
    at, value, _, bent, _ = jax.lax.fori_loop(0, _CLIMBS, step, state)
    return at, value, bent


def _solve(matrix: Any, values: Any) -> Any:
    return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(matrix), True), values)


def _moments(points: Any, weights: Any) -> tuple[Any, Any]:
    """Mean and Cholesky factor of the covariance of weighted points (M, q)."""
    centre = weights @ points
    off = points - centre
    spread = (off.T * weights) @ off
    ridge = jnp.diag(1e-9 * jnp.diag(spread) + 1e-16)
    return centre, jnp.linalg.cholesky(spread + ridge)


def _log_proposal(off: Any, spread: Any, xp: Any = jnp) -> Any:
    """Log density of the mixture of a near and a far Student's t at whitened points (…, M, q).

    Args:
        off: points less the centre, in units of the factor of the covariance.
        spread: (…, 1) log of that factor's determinant.
        xp: ``numpy`` or ``jax.numpy``.
    """
    size = off.shape[-1]
    constant = gammaln((NU + size) / 2) - gammaln(NU / 2) - size / 2 * np.log(NU * np.pi)
    square = xp.sum(off**2, axis=-1) / NU
    near, far = (
        np.log(share) - size * np.log(stretch)
        - (NU + size) / 2 * xp.log1p(square / stretch**2)
        for share, stretch in ((1 - _FAR, _NEAR_STRETCH), (_FAR, _FAR_STRETCH))
    )  # fmt: skip
    return constant - spread + xp.logaddexp(near, far)


def _tempered(logs: Any) -> Any:
    """Weights (M,) to a power at most 1 that leaves a twentieth of them effective."""

    def weights(power: Any) -> Any:
        w = jnp.exp(power * logs)
        return w / w.sum()

    powers = 0.75 ** jnp.arange(16)
    counts = jax.vmap(lambda power: 1 / jnp.sum(weights(power) ** 2))(powers)
    return weights(powers[jnp.argmax(counts > 0.05 * len(logs))])


def _sample(space: Space, data: _Runs, random: _Randomness) -> tuple[Any, ...]:
    size = space.size + 2
    weak = _weak(space, data)
    density = lambda at: _density(space, data, weak, at)  # noqa: E731

    # Modes, from starts of the prior at the level of the runs.
    middle = jnp.concatenate([_middle(space, data, weak.mean, weak.level), data.hyper[::2]])
    known = jnp.full(space.size - len(space.open), 0.1 if space.groups else 0.4)
    spread = jnp.concatenate([known, weak.sd, jnp.ones(2)])

    def begin(normal: Any) -> Any:
        start = middle + spread * normal
        level = _offset(space, data, start[: space.size])
        return start.at[: space.size].add(space.levels * level)

    at, values, bent = jax.vmap(lambda n: _climb(space, data, weak, begin(n)))(random.starts)
    best = jnp.argmax(values)
    inverse = _solve(bent[best] + 1e-6 * jnp.eye(size), jnp.eye(size))
    factor = jnp.linalg.cholesky((inverse + inverse.T) / 2)

    # Adaptive importance sampling around the best mode, tempered while few points decide.
    stretch = jnp.where(random.far, _FAR_STRETCH, _NEAR_STRETCH)[..., None]

    def round_of(carry: Any, normal: Any) -> Any:
        centre, factor = carry
        points = centre + normal @ factor.T
        values = jax.vmap(density)(points)
        logs = values - _log_proposal(normal, jnp.sum(jnp.log(jnp.diag(factor))))
        weights = _tempered(logs - jnp.max(logs))
        return _moments(points, weights), (points, values, logs, weights, centre, factor)

    normal = random.normal * random.chi[..., None] * stretch
    _, rounds = jax.lax.scan(round_of, (at[best], factor), normal)
    points, values, logs, weights, centre, factor = jax.tree.map(lambda a: a[-1], rounds)

    # Differential evolution of many chains, until they have forgotten where they began.
    least = 1 / jnp.sum(jax.nn.softmax(logs) ** 2)
    picked = jnp.searchsorted(jnp.cumsum(weights), random.picked)
    start = points[picked], values[picked]
    start = jax.tree.map(lambda a: a.reshape(2, _CHAINS // 2, *a.shape[1:]), start)
    reach = 2.38 / np.sqrt(2 * size)

    def move(both: Any, numbers: Any) -> Any:
        # Half of the chains move by differences of the other half, and then these by theirs.
        side, shifts, normal, log_uniform, leap = numbers
        own, other = both[0][side], both[0][1 - side]
        between = jnp.roll(other, shifts[0], axis=0) - jnp.roll(other, shifts[1], axis=0)
        # Every tenth move leaps from where one chain is to where another is.
        new = own + jnp.where(leap, 1.0, reach * jnp.exp(0.3 * normal))[:, None] * between
        value, there = both[1][side], jax.vmap(density)(new)
        taken = log_uniform < there - value
        own, value = jnp.where(taken[:, None], new, own), jnp.where(taken, there, value)
        return (both[0].at[side].set(own), both[1].at[side].set(value)), None

    def block(state: Any) -> Any:
        k, both, _, _ = state
        new, _ = jax.lax.scan(move, both, jax.tree.map(lambda a: a[k], random.moves))
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
    _, last, before, effective = jax.lax.while_loop(undone, block, state)
    draws = jnp.concatenate([last[0], before[0]]).reshape(-1, size)
    values = jnp.concatenate([last[1], before[1]]).reshape(-1)

    known = jax.vmap(lambda at: _known(space, data, at[:-2]))(draws)
    params = jax.vmap(lambda at: space.natural(at[:-2], data))(draws)
    middle = space.natural(draws.mean(axis=0)[:-2], data)
    constant = _log_constant(space, data, weak)
    return draws, params, middle, effective, (values, logs, centre, factor, constant), known


def _bridge(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """(P,) log of the integral of a density, from its log ratio to a proposal at draws of both.

    The estimator of Meng and Wong (1996).

    Args:
        ours: (P, R) at draws of the density.
        theirs: (P, M) at draws of the proposal.
    """
    a, b = (np.log(len(x.T) / (len(ours.T) + len(theirs.T))) for x in (ours, theirs))
    found = logsumexp(theirs, axis=1) - np.log(len(theirs.T))
    for _ in range(50):
        z = b + found[:, None]
        above = logsumexp(theirs - np.logaddexp(a + theirs, z), axis=1) - np.log(len(theirs.T))
        found = above - logsumexp(-np.logaddexp(a + ours, z), axis=1) + np.log(len(ours.T))
    return found


def _log_constant(space: Space, data: _Runs, weak: _Weak) -> Any:
    """Log of the normalising constant of the prior's density."""
    of_groups = space.each * space.groups  # deviations from their mean, and how much they vary
    normals = len(space.open) + 2 + bool(space.known) + of_groups
    total = normals / 2 * np.log(2 * np.pi) + jnp.sum(jnp.log(weak.sd))
    total += jnp.sum(jnp.log(data.hyper[1::2])) + bool(space.known) * np.log(LEVEL_SD)
    if space.groups:
        total += space.each * (np.log(space.groups) / 2 + np.log(GROUP_SD))
    size = _count(space)
    if size:
        total += gammaln(PRIOR_NU / 2) - gammaln((PRIOR_NU + size) / 2)
        total += size / 2 * np.log(PRIOR_NU * np.pi)
        diagonal = jnp.diag(data.whiten)
        total -= jnp.sum(jnp.log(jnp.where(diagonal > 0, diagonal, 1.0)))
    return total


@compiled(static_argnames="space")
def _sample_each(space: Space, many: _Runs, random: _Randomness) -> tuple[Any, ...]:
    axes = _Runs(*(None,) * len(_Runs._fields))._replace(weight=0, target=0)
    return jax.vmap(lambda data: _sample(space, data, random), in_axes=(axes,))(many)
