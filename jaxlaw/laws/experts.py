"""Laws of models that route each token to one of several experts, in the size that a token uses.

N counts the parameters that a token uses, those of the dense model into which the experts are put;
``experts`` counts the experts of a routed layer, 1 for a dense model.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax.numpy as jnp

from jaxlaw.errors import UsageError
from jaxlaw.laws._base import Chart, Law, derived, get, law
from jaxlaw.laws._parameters import INPUTS, positive, real

# As how many experts a dense model counts, and all experts together at most.
E_START = positive(1.0, 5.0, low=0.2, high=25.0, doc="effective experts of a dense model")
E_MAX = positive(50.0, 2000.0, low=30.0, high=1e7, doc="maximum effective experts")

LIMITS = {
    ("E_max", "high"): "E_max grows without end: experts help up to the largest number "
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


def routed(law: str | Law = "skaling") -> Law:
    """A law of size with the number of experts as an input.

    A routed model of N parameters, those that a token uses, and E experts is as good as a dense one
    of N_eff = N·(Ê/E_start)^ρ parameters, and loss = base(N_eff, …). Ê is Clark's count of experts,
    which starts at E_start for a dense model (E = 1, so that N_eff = N) and saturates at E_max:
    1/Ê = 1/(E − 1 + (1/E_start − 1/E_max)^−1) + 1/E_max.

    Clark's own law (``clark``) has no irreducible loss, and predicts larger models too low: fitted
    to the models of at most 3e8 parameters of its data, those above are missed by 1.8 to 2.0% in
    the mean, by ``routed("loss-size")`` by 0.5 to 1.1% (tests/laws/test_routed.py).

    Args:
        law: law of N and any other inputs, or its name.

    Returns:
        A law with ``experts`` after the inputs of its base and ρ, E_start, E_max after its
        parameters. It is named as it is made, ``routed-skaling``, and ``jl.laws.get`` finds it by
        that name. ``experts`` counts them in single experts, from 1; N is in the unit of the base.

    Raises:
        UsageError: the law has no N, has experts already, or has groups.

    Source:
        Clark 2022, arXiv 2202.01169 (Ê); the size of an equally good dense model is its effective
        parameter count.

    Example:
        >>> law = jl.laws.routed("chinchilla")
        >>> law.name, law.input_names, law.parameter_names[5:]
        ('routed-chinchilla', ('N', 'D', 'experts'), ('rho', 'E_start', 'E_max'))
        >>> params = dict(E=1.7, A=400, B=400, alpha=0.34, beta=0.28, rho=0.5, E_start=2, E_max=300)
        >>> [round(float(law(params, N=1e9, D=2e10, experts=k)), 2) for k in (1, 8, 64)]
        [2.57, 2.49, 2.42]
    """
    base = get(law)
    wrong = {
        "has no N, the size that a token uses": "N" not in base.input_names,
        "has experts, or a parameter of routing, already": bool(
            {"experts", *OF_ROUTING} & {*base.input_names, *base.parameter_names}
        ),
        "has groups: take the routed law of the plain one, and group that": "group"
        in base.input_names,
    }
    for reason, holds in wrong.items():
        if holds:
            raise UsageError(f"law {base.name} cannot be routed: it {reason}")
    return _make_law(base)


@cache
def _make_law(base: Law) -> Law:
    def formula(*inputs, **params):
        """The base law at the size of the dense model that is as good."""
        *given, experts = inputs
        rho, start, most = (params.pop(name) for name in OF_ROUTING)
        place = base.input_names.index("N")
        given[place] = given[place] * (saturated(experts, start, most) / start) ** rho
        return base.function(*given, **params)

    chart = base.chart or Chart()
    return derived(
        base,
        f"routed-{base.name}",
        formula,
        routed,
        (base,),
        inputs=(*base.inputs, INPUTS["experts"]),
        parameters=(
            *base.parameters,
            *(replace(spec, name=name) for name, spec in OF_ROUTING.items()),
        ),
        formula=f"{base.formula}, N → N·(Ê/E_start)^ρ",
        source=f"{base.source}; Ê: Clark 2022, arXiv 2202.01169",
        chart=replace(chart, limits={**chart.limits, **LIMITS}),
    )
