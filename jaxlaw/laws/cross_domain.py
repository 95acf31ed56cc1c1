"""The cross-domain D-CPT law (Que 2024, eq. 7 and 12): one fit for many domains.

A domain enters by its learnable coefficient K alone, made of what the start of its own loss
curve shows: k1, k2 and k3 (:func:`jaxlaw.data.learnability_coefficients`). F/K^μ stays as it is
when all weights of K are multiplied by s and F by s^μ, so one of them has to be held: here the
first weight in K is 1, and F is fitted. The other weights are positive, as k1, k2 and k3 must be,
so that K is positive on every domain. All else is the D-CPT law's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from jaxlaw.errors import UsageError
from jaxlaw.laws._base import Law, add_law, get, power
from jaxlaw.laws._parameters import Input, exponent, positive
from jaxlaw.laws.mixture import dcpt

#: What K is made of, one value a domain.
COEFFICIENTS = {
    spec.name: spec
    for spec in (
        Input("k1", "loss of the domain after 1,000 steps", 1.0, "positive"),
        Input("k2", "fall of its loss over the first 5,000 steps", 1.0, "positive"),
        Input("k3", "mean slackening of that fall, per 1,000 steps", 1.0, "positive"),
    )
}


# Law → its inputs and weights in K, and K of them.
_K_OF: dict[Law, tuple[tuple[str, ...], Callable]] = {}


def _cross_domain(kind: str, formula: str, unit: str, K: Callable, *names: str, **centres) -> None:
    """Register dcpt + F/K^μ; its inputs and parameters are dcpt's and those of K."""
    weight = positive(0.03, 30.0, doc="weight in K, where its first term has 1")
    weights = {name: replace(weight, centre=centre) for name, centre in centres.items()}
    weights["F"] = positive(
        0.01, 10.0, centre={names[0]: unit}, unit="nats·K^μ", doc="what K takes off at K = 1"
    )
    weights["mu"] = exponent(0.1, 4.0, high=20.0, doc="how the loss falls with K")

    def function(N, D, r, *coefficients, F, mu, **params):
        of_K = [params.pop(name) for name in centres]
        return dcpt.function(N, D, r, **params) + F * power(K(*coefficients, *of_K), -mu)

    made = replace(
        dcpt,
        name=f"dcpt-cross{kind if kind != '-k3' else ''}",
        function=function,
        inputs=(*dcpt.inputs, *(COEFFICIENTS[name] for name in names)),
        parameters=(
            *dcpt.parameters,
            *(replace(spec, name=name) for name, spec in weights.items()),
        ),
        formula=f"{dcpt.formula} + F/K^μ, K = {formula}",
        source=f"Que 2024, eq. 7 and 12 ({kind[1:].upper()}, its first weight 1)",
        requirements=_unmet_trends,
        power_law_terms=None,
    )
    _K_OF[add_law(made)] = (*names, *centres), K


def learnable_coefficient(law: str | Law, params: Mapping[str, Any], **coefficients: Any) -> Any:
    """K of a domain, or of many: up to a constant factor, which domain is the easier to learn.

    Args:
        law: a cross-domain law or its name.
        params: a fit's parameters.
        **coefficients: k1, k2, k3, as the law needs them; numbers or arrays.

    Raises:
        UsageError: no cross-domain law, or a coefficient is missing.
    """
    law = get(law)
    if law not in _K_OF:
        known = ", ".join(each.name for each in _K_OF)
        raise UsageError(f"law {law.name} has no learnable coefficient; {known} have")
    names, K = _K_OF[law]
    values = coefficients | {name: params[name] for name in law.parameter_names if name in params}
    try:
        return K(*(values[name] for name in names))
    except KeyError as error:
        raise UsageError(
            f"K of law {law.name} needs {error}; see jaxlaw.learnability_coefficients"
        ) from None


def in_domain(law: str | Law, params: Mapping[str, Any], **coefficients: Any) -> dict[str, Any]:
    """Parameters of the D-CPT law that a cross-domain law is in one domain.

    E0 = E + F/K^μ, the others as they are (Que 2024, §3.2): what plans for the domain take.
    Arguments and errors as :func:`learnable_coefficient`.
    """
    K = learnable_coefficient(law, params, **coefficients)
    values = {name: params[name] for name in dcpt.parameter_names}
    return values | {"E": params["E"] + params["F"] * K ** -params["mu"]}


def _unmet_trends(law, params, ranges):
    """The D-CPT law's own requirements, in the middle of the domains seen."""
    middle = {k: math.sqrt(math.prod(ranges[k])) for k in law.input_names if k in COEFFICIENTS}
    return dcpt.requirements(dcpt, in_domain(law, params, **middle), ranges)


# Que 2024, eq. 12, the first weight held at 1.
_OF_K2, _OF_K3 = {"k1": -1, "k2": -1}, {"k1": -1, "k3": 1}
_cross_domain("-k1", "1/k1", "-mu", lambda k1: 1.0 / k1, "k1")
_cross_domain("-k2", "k2", "mu", lambda k2: k2, "k2")
_cross_domain(
    "-k3", "1/k1 + w2·k2", "-mu", lambda k1, k2, w2: 1.0 / k1 + w2 * k2, "k1", "k2", w2=_OF_K2
)
_cross_domain(
    "-k4", "1/k1 + w2·k2 + w3/k3", "-mu",
    lambda k1, k2, k3, w2, w3: 1.0 / k1 + w2 * k2 + w3 / k3,
    "k1", "k2", "k3", w2=_OF_K2, w3=_OF_K3,
)  # fmt: skip
