"""Laws of the loss where training tokens are repeated: in size, tokens and unique tokens.

U counts the unique tokens of the corpus: a run of D tokens goes over them D/U times (its epochs).
A run that ends within the first epoch has seen D unique tokens, however large the corpus.
"""

import jax.numpy as jnp

from jaxlaw.laws._base import Chart, law, power
from jaxlaw.laws._parameters import positive
from jaxlaw.laws.scaling import EXPONENT, FLOOR, OF_DATA, OF_SIZE, chinchilla

# Runs that show no decay leave R_D, R_N or δ without a bound on one side. The charts of these laws
# replace no coordinate: they hold the sentences that a fit which ends at such a side has as a note.
_NO_DECAY = (
    "as far as these runs show, repeated tokens are worth as much as new ones, with no limit in "
    "sight: do not plan on more epochs than the runs have"
)


# While tokens are new these laws are chinchilla's: what experiments of one epoch say of its shape
# holds here, too. How the worth of repetition decays is left to the runs.
def _known_but(*open_):
    reference = {**chinchilla.scale_free.reference, "U": chinchilla.scale_free.reference["D"]}
    return chinchilla.scale_free._replace(reference=reference, parts=(chinchilla.name,), open=open_)


def _worth(first, times, most):
    """What tokens and their repetitions are worth: each one less, all of them first·most at most.

    Of parameters it is the same: what U tokens need is the first, what is beyond it repetition.
    """
    return first * (1.0 - most * jnp.expm1(-times / most))


@law(
    formula="E + A/N'^α + B/D'^β, D' = U + U·R_D·(1 − e^(−(D/U−1)/R_D)), N' = N_U + "
    "N_U·R_N·(1 − e^(−(N/N_U−1)/R_N)), N_U the best N for U tokens",
    source="Muennighoff 2023, arXiv 2305.16264",
    chart=Chart(
        limits={
            ("R_D", "high"): f"R_D grows without end: {_NO_DECAY}",
            ("R_N", "high"): "R_N grows without end: the term of the size tends to A/N^α; "
            "predictions stand, R_N means nothing",
        }
    ),
    scale_free=_known_but("R_D", "R_N"),
)
def repetition(
    N,
    D,
    U,
    *,
    E=FLOOR,
    A=OF_SIZE,
    B=OF_DATA,
    alpha=EXPONENT,
    beta=EXPONENT,
    R_D=positive(1.0, 60.0, low=0.05, high=1e5, doc="maximum value of repetition, in epochs"),
    R_N=positive(1.0, 60.0, low=0.05, high=1e12, doc="the same of N beyond what U tokens need"),
):
    """Repeated tokens, and parameters beyond what the unique ones need, decay in worth."""
    unique = jnp.minimum(U, D)
    # The size that these tokens are best for once (Hoffmann 2022, eq. 4), or N if that is smaller.
    log_G = (jnp.log(alpha * A) - jnp.log(beta * B)) / (alpha + beta)
    log_best = log_G + (log_G + jnp.log(unique)) * beta / alpha
    # At exponents near 0 the best size leaves the floating-point numbers.
    log_N = jnp.log(N)
    needed = jnp.exp(jnp.clip(log_best, log_N - 60.0, log_N))
    parameters = _worth(needed, N / needed - 1.0, R_N)
    tokens = _worth(unique, D / unique - 1.0, R_D)
    return E + A * power(parameters, -alpha) + B * power(tokens, -beta)


@law(
    name="repetition-geometric",
    formula="E + A/N^α + B/D'^β, D' = U·(1 − (1−δ)^(D/U))/δ",
    source="Muennighoff 2023, arXiv 2305.16264 (each epoch worth 1−δ of the one before)",
    chart=Chart(limits={("delta", "low"): f"delta has gone to zero: {_NO_DECAY}"}),
    scale_free=_known_but("delta"),
)
def repetition_geometric(
    N,
    D,
    U,
    *,
    E=FLOOR,
    A=OF_SIZE,
    B=OF_DATA,
    alpha=EXPONENT,
    beta=EXPONENT,
    delta=positive(0.005, 0.3, low=1e-6, high=0.99, doc="value lost per epoch"),
):
    """Each epoch is worth a little less than the one before."""
    unique = jnp.minimum(U, D)
    tokens = -unique / delta * jnp.expm1(D / unique * jnp.log1p(-delta))
    return E + A * power(N, -alpha) + B * power(tokens, -beta)
