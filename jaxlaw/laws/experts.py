"""Laws of models that route each token to one of several experts, in the size that a token uses.

N counts the parameters that a token uses, those of the dense model into which the experts are put;
``experts`` counts the experts of a routed layer, 1 for a dense model.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jaxlaw.laws._base import Chart, law
from jaxlaw.laws._parameters import positive, real

# As how many experts a dense model counts, and all experts together at most.
E_START = positive(1.0, 5.0, low=0.2, high=25.0, doc="effective experts of a dense model")
E_MAX = positive(50.0, 2000.0, low=30.0, high=1e7, doc="maximum effective experts")

LIMITS = {
    (
        "E_max",
        "high",
    ): "E_max grows without end: experts help up to the largest number "
    "in these runs, with no limit in sight",
    ("E_max", "low"): "E_max is at its lowest: beyond a few dozen, more experts bring nothing, or "
    "the runs have too few to show it",
}


def saturated(experts: Any, E_start: Any, E_max: Any) -> Any:
    """Ê of Clark 2022: 1/Ê = 1/(E − 1 + (1/E_start − 1/E_max)^−1) + 1/E_max."""
    offset = 1.0 / (1.0 / E_start - 1.0 / E_max)
    return 1.0 / (1.0 / (experts - 1.0 + offset) + 1.0 / E_max)


@law(
    formula="10^d·N^(a + c·log(Ê)/log(10))·Ê^b, "
    "Ê = 1/(1/(E − 1 + 1/(1/E_start − 1/E_max)) + 1/E_max), E experts",
    source="Clark 2022, arXiv 2202.01169, eq. 12 (no floor: too low beyond its runs)",
    chart=Chart(limits=LIMITS),
)
def clark(
    N,
    experts,
    *,
    a=real(-0.15, -0.03, low=-2.0, high=1.0, doc="slope of log loss in log N"),
    b=real(-0.2, -0.05, low=-3.0, high=2.0, doc="the same in log Ê, at N = 1"),
    c=real(0.0, 0.02, low=-0.5, high=0.5, doc="how much less experts help a larger model"),
    d=real(0.8, 1.5, low=-10.0, high=20.0, doc="log loss of one parameter"),
    E_start=E_START,
    E_max=E_MAX,
):
    """A power law in size and in experts whose exponents depend on each other."""
    log_N, log_E = jnp.log10(N), jnp.log10(saturated(experts, E_start, E_max))
    return jnp.power(10.0, a * log_N + b * log_E + c * log_N * log_E + d)


#: The parameters by which a routed law differs from its base.
OF_ROUTING = {
    "rho": positive(0.1, 1.0, low=1e-3, high=5.0, doc="power of Ê that size gains"),
    "E_start": E_START,
    "E_max": E_MAX,
}
