"""What a prior does in a fit: what the runs determine beside it, and whether they contradict it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from jaxlaw._jit import compiled, in_float64
from jaxlaw.fitting._objective import Problem, prior_pull
from jaxlaw.fitting._prior import FLOOR, NOISE_DEGREES, Prior
from jaxlaw.fitting._problem import FitProblem, linearise
from jaxlaw.fitting._transform import Model
from jaxlaw.notes import Note

#: Share of conforming experiments that are noted as a conflict: half of it by each of two checks,
#: of the coordinates and of the noise.
CONFLICT = 0.05
_CODE = "prior-conflict"
_SINGULAR = 1e-12  # ratio of eigenvalues from which on a combination of parameters is open
_MOSTLY = 0.5  # share of a coordinate's variance from which on the prior decides it
_NAMED = 3  # coordinates in one note, at most


class PriorEvidence(NamedTuple):
    """Runs and prior at the optimum of a fit, both to second order.

    Attributes:
        covariance: (p, p) of the search coordinates, by runs and prior.
        of_runs: (p, p) information of the runs.
        of_prior: (p, p) information of the prior.
        pull: what heavy tails leave of the prior's information at the optimum: 1 near its mean.
        determined: degrees of freedom that the runs determine.
        left: coordinate → share of the prior's variance that the runs leave of it: 1 where they say
            nothing, 0 where they say it all.
        p_value: probability of coordinates as far from the prior's mean, if the prior is right.
        coordinate: the one that lies the farthest out.
        off: by how much, in standard deviations of what runs of the prior would show.
    """

    covariance: np.ndarray
    of_runs: np.ndarray
    of_prior: np.ndarray
    pull: float
    determined: float
    left: dict[str, float]
    p_value: float
    coordinate: str
    off: float

    def noise_degrees(self, rows: int) -> float:
        """Degrees of freedom of the noise: the prior's own, and those that the fit leaves of rows.

        Args:
            rows: number of rows, or of groups that share an error.
        """
        return NOISE_DEGREES + max(rows - self.determined, 0.0)

    def root_of_covariance(self, moving: np.ndarray) -> np.ndarray | None:
        """(k, k) whose product with itself is the covariance of coordinates, by their numbers (k,).

        None where runs and prior together leave some combination of these open.
        """
        value, vector, size = self._information(moving)
        if not (len(value) and value[0] > _SINGULAR * value[-1]):
            return None
        return (vector / np.sqrt(value)).T / size

    def root_of_information(self, moving: np.ndarray) -> np.ndarray:
        """(k, k) whose product with itself is what runs and prior say of coordinates (k,)."""
        value, vector, size = self._information(moving)
        return (vector * np.sqrt(np.maximum(value, 0.0))).T * size

    def _information(self, moving: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Eigenvalues, vectors and units of it, in units that make its diagonal 1."""
        inside = np.ix_(moving, moving)
        known = self.of_runs[inside] + self.pull * self.of_prior[inside]
        size = np.sqrt(np.diagonal(known))
        unit = np.where(size > 0, size, 1.0)
        return (*np.linalg.eigh(known / np.outer(unit, unit)), size)

    def share_of_prior(self, slopes: np.ndarray) -> np.ndarray:
        """(m,) share of the variance of predictions that is the prior's, by their slopes (m, p).

        Draws perturb the runs and the prior apart, and each moves the prediction by its part.
        """
        moved = slopes @ self.covariance
        of_prior = np.einsum("mi,ij,mj->m", moved, self.of_prior, moved)
        return of_prior / np.maximum(np.einsum("mi,mi->m", moved, slopes), 1e-300)


def prior_evidence(problem: FitProblem, at: np.ndarray) -> PriorEvidence:
    """What the prior does at the optimum (p,) of a problem that has one.

    The prior's squared distance from the optimum, in its own standard deviations, is a sum of χ² of
    one degree, each times the share λ/(1 + λ) that the runs determine of a direction: λ are the
    eigenvalues of the runs' information in the prior's coordinates. Its distribution is taken as a
    scaled χ² of the same mean and variance (Satterthwaite 1946). It is a prior predictive check
    (Box 1980; Evans and Moshonov 2006) that needs no simulation.
    """
    data, linear = problem.in_numpy, linearise(problem, at)
    prior = data.prior
    variance = float(prior.variance)
    of_runs = linear.jacobian.T @ (data.weight[:, None] * linear.jacobian) / variance
    names = problem.model.prior
    off, slopes = off_prior(problem, at)
    whitened = prior.whiten @ slopes
    of_prior = whitened.T @ whitened
    covariance = np.linalg.pinv(of_runs + of_prior, hermitian=True)
    # Of the coordinates: what the runs alone leave of the prior's covariance.
    before = np.linalg.inv(prior.whiten.T @ prior.whiten)
    after = slopes @ covariance @ slopes.T
    shown = np.clip(1 - np.linalg.eigvalsh(prior.whiten @ after @ prior.whiten.T), 0.0, 1.0)
    square = float(np.sum((prior.whiten @ off) ** 2))
    mean, spread = shown.sum(), (shown**2).sum()
    p_value = float(stats.chi2.sf(square * mean / spread, mean**2 / spread)) if mean > 0 else 1.0
    expected = np.sqrt(np.maximum(np.diag(before) - np.diag(after), 1e-12))
    farthest = int(np.argmax(np.abs(off) / expected))
    return PriorEvidence(
        covariance, of_runs, of_prior, prior_pull(square, len(off)),
        float(np.trace(covariance @ of_runs)),
        dict(zip(names, (np.diag(after) / np.diag(before)).tolist(), strict=True)), p_value,
        names[farthest], float(off[farthest] / expected[farthest]),
    )  # fmt: skip


def prior_decides_notes(problem: FitProblem, evidence: PriorEvidence, by_runs: bool) -> list[Note]:
    """A note that names what the prior decides rather than the runs; none where they decide all.

    It is information: both together determine the law.

    Args:
        problem: the problem.
        evidence: what the prior does at its optimum.
        by_runs: whether the runs alone determine every parameter, if loosely.
    """
    words = {FLOOR: "log of the floor"} | dict(problem.law.scale_free.words)
    most = sorted(evidence.left, key=lambda name: -evidence.left[name])
    named = [name for name in most if evidence.left[name] > _MOSTLY]
    if not named and by_runs:
        return []
    named = named or most[:1]
    shown = [f"the {words[name]} ({evidence.left[name]:.0%})" for name in named[:_NAMED]]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    message = (
        "the prior decides more than the runs (share of its variance that the runs leave) of "
        f"{', '.join(shown)}{more}"
    )
    return [Note("prior-decides", "info", message)]


def off_prior(problem: FitProblem, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the prior's coordinates lie off its mean at (p,): (k,), and their slopes (k, p)."""
    values, slopes = scale_free_slopes(problem, at)
    all_names = (FLOOR, *problem.law.scale_free.words)
    rows = [all_names.index(name) for name in problem.model.prior]
    return values[rows] - problem.in_numpy.prior.mean, slopes[rows]


def conflict_notes(problem: FitProblem, evidence: PriorEvidence | None) -> list[Note]:
    """Notes where the runs could hardly have come of the prior, or it knows nothing of the law."""
    if evidence is None:
        message = f"the prior knows nothing of law {problem.law.name}: these are the runs alone"
        asked = problem.options.prior is not None
        return [Note("no-prior", "warning", message, inherited=False)] * asked
    of_noise = list(problem.options.prior.notes)
    if evidence.p_value >= CONFLICT / 2:
        return of_noise
    words = {FLOOR: "the log of the floor"} | dict(problem.law.scale_free.words)
    side = "above" if evidence.off > 0 else "below"
    message = (
        f"{problem.law.name}: of experiments like the earlier ones {_rarely(evidence.p_value)} are "
        f"so unlike them; the {words[evidence.coordinate]} lies {abs(evidence.off):.1f} standard "
        f"deviations {side} what they say. The prior pulls less here, and more runs, larger "
        "ones first, are needed; prior=None leaves it out"
    )
    return [Note(_CODE, "warning", message, inherited=True), *of_noise]


def scatter_notes(prior: Prior, residuals: np.ndarray, determined: float) -> list[Note]:
    """The prior's notes, and one where conforming runs would hardly scatter so much.

    Noise that varies between experiments as a scaled inverse χ² makes the ratio of the variance of
    residuals to the prior's Snedecor's F (Box 1980). An outlier counts in full, for the smallest
    runs of an experiment that no single law fits look like a few of them.

    Args:
        prior: the prior, with the noise of earlier experiments.
        residuals: (n,) relative errors of a fit of the runs by it.
        determined: number of degrees of freedom that the fit took from them.
    """
    earlier = [note for note in prior.notes if note.code != _CODE]
    spare = len(residuals) - determined
    if spare <= 0:
        return earlier
    size = float(np.sqrt(residuals @ residuals / spare))
    p_value = float(stats.f.sf((size / prior.noise) ** 2, spare, NOISE_DEGREES))
    if p_value >= CONFLICT / 2:
        return earlier
    message = (
        f"the runs lie {size:.2%} off the law, those of earlier experiments {prior.noise:.2%}: of "
        f"experiments like these {_rarely(p_value)} scatter so much. One law may not hold for all "
        "of the runs: leave out the smallest and any that are wrong, and make larger ones; "
        "prior=None leaves the prior out"
    )
    return [*earlier, Note(_CODE, "warning", message, inherited=True)]


def _rarely(p_value: float) -> str:
    return f"{p_value:.1%}" if p_value >= 0.001 else "under 0.1%"


def scale_free_slopes(problem: FitProblem, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values (k,) of the floor's log and the scale-free coordinates at (p,), and slopes (k, p)."""
    data = problem.data._replace(prior=None)
    with in_float64():
        return jax.device_get(_scale_free(problem.model, data, np.asarray(at, float)))


@compiled(optimised=False, static_argnames="model")
def _scale_free(model: Model, problem: Problem, coordinates: jax.Array) -> tuple[Any, Any]:
    def values(at: jax.Array) -> Any:
        params: Mapping[str, Any] = problem.transform(model).to_natural(tuple(at))
        known = model.law.scale_free.of_params(params)
        stacked = jnp.stack([known[name] for name in (FLOOR, *model.law.scale_free.words)])
        return stacked, stacked

    slopes, here = jax.jacfwd(values, has_aux=True)(coordinates)
    return here, slopes
