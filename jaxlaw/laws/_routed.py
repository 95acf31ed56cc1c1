"""Laws of routed models: any law of size, in the size of the dense model that is as good."""

from __future__ import annotations

import dataclasses
from functools import cache

from jaxlaw.errors import UsageError
from jaxlaw.laws._base import Chart, Law, derived, get
from jaxlaw.laws._parameters import INPUTS
from jaxlaw.laws.experts import LIMITS, OF_ROUTING, saturated


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
            *(dataclasses.replace(spec, name=name) for name, spec in OF_ROUTING.items()),
        ),
        formula=f"{base.formula}, N → N·(Ê/E_start)^ρ",
        source=f"{base.source}; Ê: Clark 2022, arXiv 2202.01169",
        chart=dataclasses.replace(chart, limits={**chart.limits, **LIMITS}),
    )
