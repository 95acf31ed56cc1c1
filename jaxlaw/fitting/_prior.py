"""Priors: what earlier experiments say of a law before this one has its first run.

A law's scale-free coordinates (:class:`jaxlaw.laws.ScaleFree`) of an experiment e of a source s are
taken as

    z_e = μ + b_s + w_e,    b_s ~ N(0, B),  w_e ~ N(0, W),    ẑ_e ~ N(z_e, V_e)

with ẑ_e the fit of the experiment and V_e its covariance: sources differ by B, the experiments of
one source by W, and a fit errs by V. This is the random-effects model of a meta-analysis
(DerSimonian and Laird 1986; Higgins, Thompson and Spiegelhalter 2009), estimated by EM. A new
experiment of a new source is N(μ, B + W), wider by the error of μ. One of a source whose
experiments are known, with the same evaluation, is drawn towards these by how much experiments of
one source vary (partial pooling). An experiment counts once, however many copies there are of its
fit or of its runs, which are known by their hashes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.linalg import block_diag

from jaxlaw import _json as records, laws
from jaxlaw._jit import compiled, in_float64
from jaxlaw._result import Result, load
from jaxlaw._typed import load as load_typed
from jaxlaw.data import Observations
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting._result import LAWS, Experiment, Fit
from jaxlaw.laws import Law
from jaxlaw.notes import Note

#: Covariances of fits count so many times: residuals of one experiment are not independent, and
#: no law holds exactly.
INFLATION = 4.0
#: Standard deviations between experiments before any is known, by coordinate, and sources' worth of
#: them. Eight sources alone do not determine a covariance of five coordinates.
SPREAD = {"log_floor": 0.3, "level": 0.3, "share": 0.5, "balance": 0.4, "alpha": 0.3, "beta": 0.3,
          "kappa": 0.4, "gamma": 0.3, "lr_N": 0.2, "lr_D": 0.2, "batch_N": 0.2,
          "batch_D": 0.2}  # fmt: skip
SPREAD_SOURCES = 2.0
#: The same within a source, of one evaluation: a third of it, as if two experiments had shown it.
WITHIN, WITHIN_EXPERIMENTS = 1 / 3, 2.0
#: Degrees of freedom that the field's noise counts as beside the residuals of one's own fits.
NOISE_DEGREES = 4.0
TUNED = "tuned"  # what is known of how the best LR and batch move, whatever the law below
FLOOR = "log_floor"  # the coordinate with the target's unit: for experiments of one evaluation
OWN_SOURCE = "own"  # of the experiments of a ledger
_ITERATIONS = 200  # of EM
_HASHES = 32  # of an experiment: the lowest of those of its runs, a sample that is alike for copies
_FIELD = Path(__file__).with_name("field.json")


@dataclass(frozen=True, eq=False, repr=False)
class Prior(Result):
    """A distribution over a law's scale-free coordinates, before its runs.

    Attributes:
        coordinates: law → names of the k coordinates.
        means: law → (k,).
        covariances: law → (k, k).
        noise: relative standard deviation of single runs about the law.
        experiments: one row an experiment that it was made of: source, name, evaluation, runs.
        evaluation: evaluation whose earlier experiments it rests on; empty for the field alone.
        basis: coordinates' name (a law's, or ``tuned``) → what they rest on, in words.
        made_of: the experiments themselves; empty of one that was made otherwise.
        notes: what to know before relying on it.

    Example:
        >>> prior = jl.fitting.field_prior()
        >>> prior.coordinates["chinchilla"]
        ('share', 'balance', 'alpha', 'beta')
        >>> bool(0.2 < np.exp(prior.mean_of(jl.laws.get("chinchilla"))[2]) < 0.5)
        True
    """

    coordinates: dict[str, tuple[str, ...]]
    means: dict[str, np.ndarray]
    covariances: dict[str, np.ndarray]
    noise: float
    experiments: pd.DataFrame
    evaluation: str = ""
    basis: dict[str, str] = field(default_factory=dict)
    made_of: tuple[Experiment, ...] = ()
    notes: tuple[Note, ...] = ()

    def knows(self, law: Law) -> bool:
        """Whether it covers a law, or each group of a law of groups."""
        return law.scale_free is not None and all(name in self.means for name in _parts(law))

    def coordinates_of(self, law: Law) -> list[str]:
        """Names of the k coordinates of a law that it knows, or of a group."""
        return [name for part in _parts(law) for name in self.coordinates[part]]

    def mean_of(self, law: Law) -> np.ndarray:
        """(k,) mean of the coordinates of a law that it knows, or of a group."""
        return np.concatenate([self.means[part] for part in _parts(law)])

    def covariance_of(self, law: Law) -> np.ndarray:
        """(k, k) covariance of the same; the parts of a law are apart."""
        return block_diag(*(self.covariances[part] for part in _parts(law)))

    def rests_on(self, law: Law) -> str:
        """What it knows of a law rests on, in words."""
        return " and ".join(dict.fromkeys(self.basis[name] for name in _parts(law)))

    @property
    def headline(self) -> str:
        """The experiments it rests on, and the run-to-run noise."""
        rests = ", ".join(dict.fromkeys(self.basis.values()))
        return f"prior: {rests}; run-to-run noise {self.noise:.2%}"

    def without_runs(self, hashes: Iterable[int]) -> Prior:
        """The same without experiments of certain runs, so that what they say counts once.

        Args:
            hashes: those of the runs that are forecast, see :func:`run_hashes`.
        """
        kept = [one for one in self.made_of if not same_runs(one.hashes, hashes)]
        return self if len(kept) == len(self.made_of) else _prior_from(kept)

    def lines(self) -> list[str]:
        """Mean and standard deviation of every coordinate, in the law's own words."""
        lines, words = [], _words()
        for name, mean in self.means.items():
            spread = np.sqrt(np.diag(self.covariances[name]))
            rows = zip(self.coordinates[name], mean, spread, strict=True)
            lines += [
                f"  {name:<15} {one:<9} {value:6.2f} ± {size:.2f}  {words[one]}"
                for one, value, size in rows
            ]
        return lines


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _parts(law: Law) -> tuple[str, ...]:
    """The names of its coordinates' parts: of a tuned law its base, and what recipes share."""
    return law.scale_free.parts or (law.name,)


@cache
def _words() -> dict[str, str]:
    """Coordinate → what it is: every law has the same words for it."""
    known = [*(laws.get(name) for name in LAWS), laws.tuned()]
    return {FLOOR: "log of the irreducible loss"} | {
        k: v for law in known for k, v in law.scale_free.words.items()
    }


def _names(law: str) -> tuple[str, ...]:
    """The coordinates of a law beside the floor; of tuned ones those that their base has not."""
    if law != TUNED:
        return tuple(laws.get(law).scale_free.words)
    return tuple(k for k in laws.tuned().scale_free.words if k not in _names("skaling"))


def field_prior(*, without: str | Iterable[str] = ()) -> Prior:
    """The prior learned from public experiments.

    The library holds numbers alone: coordinates and covariances of fitted experiments.

    Args:
        without: sources that are left out, so that what is tested on them has not seen them.

    Raises:
        UsageError: there is no such source, or none is left.

    Example:
        >>> jl.fitting.field_prior(without="olmo").experiments["source"].nunique()
        7
    """
    return _field_prior(frozenset((without,) if isinstance(without, str) else tuple(without)))


@cache
def _field_prior(without: frozenset[str]) -> Prior:
    known = [*field_experiments(), *recipes()]
    sources = sorted({one.source for one in known})
    if unknown := sorted(without - {*sources}):
        raise UsageError(
            f"the field prior has no source '{unknown[0]}'; it has "
            f"{', '.join(sources)}.{nearest(unknown[0], sources)}"
        )
    if {one.source for one in field_experiments()} <= without:
        raise UsageError("without= leaves no source of the field prior")
    return _prior_from([one for one in known if one.source not in without])


@cache
def field_experiments() -> tuple[Experiment, ...]:
    """The public experiments that ship with jaxlaw."""
    return _shipped("experiments")


@cache
def recipes() -> tuple[Experiment, ...]:
    """Published recipes: how the best learning rate and batch scale with N and D.

    Of what a source leaves open it says something wide, as a fit of too few runs does. Formulas for
    a batch that is held (Bjorck 2024) are of another optimum, and Step Law's runs are what tuned
    laws are tested on: neither is here.
    """
    return _shipped("recipes")


def _shipped(key: str) -> tuple[Experiment, ...]:
    given = records.parse_json(_FIELD.read_text("utf-8"))
    return load_typed(given[key], tuple[Experiment, ...], key)


def prior_of(given: Any) -> Prior | None:
    """The prior that a user means.

    Args:
        given: None; a :class:`Prior`; ``"field"``; a saved prior; a folder of saved fits, or fits,
            all of one evaluation.

    Raises:
        UsageError: it is none of these.
        DataError: a file holds something else, or the fits make no prior.
    """
    if given is None or isinstance(given, Prior):
        return given
    if isinstance(given, str) and given == "field":
        return field_prior()
    if isinstance(given, str | Path):
        path = Path(given)
        if path.is_dir():
            return ledger_prior(path)
        read = load(path)
        return read if isinstance(read, Prior) else ledger_prior([read])
    if isinstance(given, Sequence):
        return ledger_prior(given)
    raise UsageError(
        f"prior is a {type(given).__name__}; give 'field', a Prior, fits of earlier experiments, a "
        "folder of them, or None"
    )


def ledger_prior(fits: str | Path | Sequence[Fit], evaluation: str | None = None) -> Prior:
    """The prior learned from your own earlier experiments, on top of the public ones.

    Experiments of one evaluation share more than experiments at large: the floor itself, not only
    its fraction of the loss. How much they vary is learned from them, and of few from those of the
    field that have one evaluation.

    Args:
        fits: fits made with ``evaluation=``, or a folder that holds them.
        evaluation: whose fits are taken; None if all are of one.

    Raises:
        UsageError: no such folder, or fits of several evaluations.
        DataError: none of the fits can say anything.

    Example:
        >>> made = jl.simulate.experiment("chinchilla", noise=0.004).table
        >>> fit = jl.fit("chinchilla", made, evaluation="c4")
        >>> prior = jl.fitting.ledger_prior([fit])
        >>> prior.evaluation, bool(abs(prior.means["chinchilla"][0] - np.log(1.69)) < 0.1)
        ('c4', True)
    """
    if isinstance(fits, str | Path):
        if not Path(fits).is_dir():
            raise UsageError(f"there is no folder {fits}")
        paths, fits = sorted(Path(fits).glob("*.json")), []
        for path in paths:
            with contextlib.suppress(DataError):  # another file: what it is does not matter here
                fits.append(load(path))
    known = [fit.experiment for fit in fits if getattr(fit, "experiment", None) is not None]
    known = [one for one in known if evaluation in (None, one.evaluation)]
    names = sorted({one.evaluation for one in known})
    if not known or names == [""]:
        raise DataError(
            "these fits make no prior: fit chinchilla, skaling or loss-compute-e with "
            "evaluation='name of the validation set'"
        )
    if len(names) > 1:
        raise UsageError(
            f"these fits have several evaluations, {', '.join(map(repr, names))}: pass evaluation="
        )
    # Whatever files they were read from, they are of one source, and each is an experiment.
    own = _distinct([
        replace(one, source=OWN_SOURCE, name=f"{k + 1}: {one.source}, {one.name}")
        for k, one in enumerate(known)
    ])  # fmt: skip
    public = [one for one in field_experiments() if not any(_is_same(one, o) for o in own)]
    return _prior_from([*public, *recipes(), *own])


def _prior_from(known: Sequence[Experiment]) -> Prior:
    """The prior that experiments make: the field's, recipes, and one's own of one evaluation."""
    ours = [one for one in known if one.source == OWN_SOURCE]
    field_ = [one for one in known if one.source != OWN_SOURCE and one.law != TUNED]
    evaluation = ours[0].evaluation if ours else ""
    made, basis = {}, {}
    for name in (*LAWS, TUNED):
        public = [one for one in known if one.source != OWN_SOURCE and one.law == name]
        own = [one for one in ours if one.law == name]
        if not own and not public:
            continue
        if own:
            made[name] = _ledger(own, public, name)
        else:  # of an experiment of a new source
            mean, spread, sources = _random_effects(public, _names(name))
            made[name] = _names(name), mean, spread * (1 + 1 / sources)
        if name == TUNED:
            basis[name] = _counted(len(public), "published recipe")
        else:
            shown = own or public
            sources = _counted(len({one.source for one in shown}), "source")
            of = f", evaluation {evaluation}" * bool(own and evaluation)
            kind = f"{'public ' * (not own)}experiment"
            basis[name] = f"{_counted(len(shown), kind)} ({sources}{of})"
    # A source counts as one: the median over sources of the median over their experiments.
    noise = pd.Series({(one.source, one.name): one.noise for one in field_})
    noise = float(noise.groupby(level=0).median().median())
    if ours:
        # Few runs of a clean ladder lie closer to their law than those of the next one will.
        apart = _distinct([replace(one, law="") for one in ours])
        spare = np.array([max(one.runs - len(one.mean), 0) for one in apart])
        squares = NOISE_DEGREES * noise**2 + spare @ np.square([one.noise for one in apart])
        noise = float(np.sqrt(squares / (NOISE_DEGREES + spare.sum())))
    columns = ("source", "name", "evaluation", "runs")
    rows = {(one.source, one.name): one for one in ours or field_}.values()
    return Prior(
        coordinates={name: each[0] for name, each in made.items()},
        means={name: each[1] for name, each in made.items()},
        covariances={name: each[2] for name, each in made.items()},
        noise=noise,
        experiments=pd.DataFrame(
            [[getattr(one, name) for name in columns] for one in rows], columns=columns
        ),
        evaluation=evaluation,
        basis=basis,
        made_of=tuple(known),
    )


def run_hashes(observations: Observations) -> tuple[int, ...]:
    """The lowest hashes of runs, by which copies and larger or smaller tables of them are known.

    A run is its compute, C or 6·N·D, and its target, to five digits: in whatever unit, order and
    file, and whatever law is fitted.

    Args:
        observations: observations of a law of C, or of N and D.

    Returns:
        At most 32 numbers, in order; none where the compute is not known.
    """
    seen = observations
    raw = {name: seen.inputs[name] / seen.scale[name] * seen.units[name]
           for name in ("C", "N", "D") if name in seen.inputs}  # fmt: skip
    if "C" not in raw and len(raw) < 2:
        return ()
    compute = raw["C"] if "C" in raw else 6 * raw["N"] * raw["D"]
    rows = np.stack([compute, observations.target], axis=1)[observations.weight > 0]
    digits = pd.DataFrame(np.rint(1e5 * np.log(rows)).astype(int))
    # 48 bits are whole numbers to every reader of JSON.
    hashed = pd.util.hash_pandas_object(digits, index=False).to_numpy() >> np.uint64(16)
    return tuple(np.unique(hashed)[:_HASHES].tolist())


def same_runs(one: Iterable[int], other: Iterable[int]) -> bool:
    """Whether half of the runs of the smaller of two tables, or more, are in the other."""
    both = [sorted(one), sorted(other)]
    # Beyond its highest hash nothing is known of a table with more runs than hashes.
    known_to = min((each[-1] for each in both if len(each) == _HASHES), default=np.inf)
    here, there = ({number for number in each if number <= known_to} for each in both)
    return 2 * len(here & there) >= min(len(here), len(there)) > 0


def _is_same(one: Experiment, other: Experiment) -> bool:
    """Whether two are one experiment by one law."""
    return one.law == other.law and same_runs(one.hashes, other.hashes)


def _distinct(known: Sequence[Experiment]) -> list[Experiment]:
    """Each experiment once, by the fit of most runs."""
    kept = []
    for one in sorted(known, key=lambda one: -one.runs):
        if not any(_is_same(one, other) for other in kept):
            kept.append(one)
    return kept


def _random_effects(
    known: Sequence[Experiment], names: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray, float]:
    """μ, B + W and the number of sources, by EM; the experiments of a source count as one."""
    of_source = pd.Series([one.source for one in known])
    weight = 1.0 / of_source.map(of_source.value_counts()).to_numpy(float)
    means = np.array([one.mean[1:] for one in known])
    precisions = [np.linalg.inv(one.covariance[1:, 1:] * INFLATION) for one in known]
    before = np.diag([SPREAD[name] ** 2 for name in names])
    mean, spread = np.median(means, axis=0), before.copy()
    for _ in range(_ITERATIONS):
        inverse = np.linalg.inv(spread)
        # Of every experiment what its fit and the others say of it, and how well that is known.
        errors = [np.linalg.inv(precision + inverse) for precision in precisions]
        each = np.array([
            error @ (precision @ own + inverse @ mean)
            for error, precision, own in zip(errors, precisions, means, strict=True)
        ])  # fmt: skip
        mean = weight @ each / weight.sum()
        off = each - mean
        total = SPREAD_SOURCES * before
        for w, o, error in zip(weight, off, errors, strict=True):
            total = total + w * (np.outer(o, o) + error)
        spread = total / (weight.sum() + SPREAD_SOURCES)
    return mean, spread, float(weight.sum())


def _ledger(
    own: Sequence[Experiment], known: Sequence[Experiment], law: str
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Coordinates, mean and covariance of a further experiment of one's own evaluation."""
    names = (FLOOR, *_names(law))
    mean, spread, _ = _random_effects(known, names[1:])
    # W: how the experiments of one source and evaluation vary, floor included.
    groups = {}
    for one in (*known, *own):
        if one.evaluation:
            groups.setdefault((one.source, one.evaluation), []).append(one.mean)
    within = WITHIN_EXPERIMENTS * np.diag([(WITHIN * SPREAD[name]) ** 2 for name in names])
    degrees = WITHIN_EXPERIMENTS
    for means in groups.values():
        off = np.array(means) - np.mean(means, axis=0)
        within, degrees = within + off.T @ off, degrees + len(means) - 1
    within /= degrees
    # Between sources nothing is known of the floor, whose unit is the target's.
    between = np.diag([25.0, *np.zeros(len(mean))])
    values, vectors = np.linalg.eigh(spread - within[1:, 1:])
    # The nearest matrix whose variances are positive.
    between[1:, 1:] = (vectors * np.maximum(values, 1e-3 * values.max())) @ vectors.T
    centre = np.concatenate([[np.mean([one.mean[0] for one in own])], mean])
    precision = np.linalg.inv(between)
    shift = precision @ centre
    for one in own:
        inverse = np.linalg.inv(within + one.covariance * INFLATION)
        precision, shift = precision + inverse, shift + inverse @ one.mean
    family = np.linalg.inv(precision)
    return names, family @ shift, family + within


def experiment_of(
    law: Law,
    jacobian: np.ndarray,
    params: np.ndarray,
    params_jacobian: np.ndarray,
    noise: float,
    **words,
) -> Experiment | None:
    """What a fit says of a next experiment; None where its runs determine too little.

    Args:
        law: a law with scale-free coordinates.
        jacobian: (n, p) slopes of the weighted log residuals in the search coordinates.
        params: (p,) natural parameters.
        params_jacobian: (p, p) their slopes in the search coordinates.
        noise: relative standard deviation of the runs.
        **words: the other fields of the :class:`Experiment`.
    """
    with in_float64():
        values, slopes = jax.device_get(_scale_free(law, params))
    slopes = slopes @ params_jacobian
    information = jacobian.T @ jacobian / noise**2
    size = np.sqrt(np.maximum(np.diag(information), 1e-300))
    scaled = information / np.outer(size, size)
    # What the runs leave open is wide, not infinite: ten standard deviations between experiments.
    ridge = np.diag(1e-12 + 1e-9 / np.maximum(size, 1e-150) ** 2)
    covariance = slopes / size @ np.linalg.pinv(scaled + ridge, hermitian=True) @ (slopes / size).T
    widest = np.diag([(10 * SPREAD[name]) ** 2 for name in (FLOOR, *_names(law.name))])
    if not (np.isfinite(covariance).all() and np.isfinite(values).all()):
        return None
    precision = np.linalg.inv(covariance + 1e-12 * widest) + np.linalg.inv(widest)
    return Experiment(
        law=law.name, mean=values, covariance=np.linalg.inv(precision), noise=noise, **words
    )


@compiled(optimised=False, static_argnames="law")
def _scale_free(law: Law, params: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Values (k,) of the floor's log and the scale-free coordinates at (p,), and slopes (k, p)."""

    def values(params):
        known = law.scale_free.of_params(dict(zip(law.parameter_names, params, strict=True)))
        stacked = jnp.stack([known[name] for name in (FLOOR, *law.scale_free.words)])
        return stacked, stacked

    slopes, here = jax.jacfwd(values, has_aux=True)(params)
    return here, slopes
