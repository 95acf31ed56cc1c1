"""The cross-domain D-CPT law (Que 2024, eq. 7 and 12): one fit for many domains.

A domain enters by its learnable coefficient K alone, made of what the start of its own loss
curve shows: k1, k2 and k3 (:func:`jaxlaw.data.learnability_coefficients`). F/K^μ stays as it is
when all weights of K are multiplied by s and F by s^μ, so one of them has to be held: here the
first weight in K is 1, and F is fitted. The other weights are positive, as k1, k2 and k3 must be,
so that K is positive on every domain. All else is the D-CPT law's.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from jaxlaw.errors import UsageError
from jaxlaw.laws._base import Law, get, law, power
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


def _weight(centre):
    return positive(0.03, 30.0, centre=centre, doc="weight in K, where its first term has 1")


# Que 2024, eq. 12, the first weight held at 1.
def _K1(k1):
    return 1.0 / k1


def _K2(k2):
    return k2


def _K3(k1, k2, *, w2=_weight({"k1": -1, "k2": -1})):
    return 1.0 / k1 + w2 * k2


def _K4(k1, k2, k3, *, w2=_weight({"k1": -1, "k2": -1}), w3=_weight({"k1": -1, "k3": 1})):
    return 1.0 / k1 + w2 * k2 + w3 / k3


_K_OF: dict[Law, Callable[..., Any]] = {}


def _cross_domain(name: str, K: Callable[..., Any], formula: str, unit: dict[str, str]) -> Law:
    """Register dcpt + F/K^μ; its inputs and parameters are dcpt's and those of K."""
    arguments = inspect.signature(K).parameters.values()
    weights = {spec.name for spec in arguments if spec.kind is spec.KEYWORD_ONLY}

    def function(N, D, r, *coefficients, F, mu, **params):
        of_K = {name: params.pop(name) for name in weights}
        return dcpt.function(N, D, r, **params) + F * power(K(*coefficients, **of_K), -mu)

    added = [
        ("F", positive(0.01, 10.0, centre=unit, unit="nats·K^μ", doc="what K takes off at K = 1")),
        ("mu", exponent(0.1, 4.0, high=20.0, doc="how the loss falls with K")),
    ]
    named = inspect.signature(dcpt.function).parameters.values()
    positional = [spec for spec in (*named, *arguments) if spec.kind is not spec.KEYWORD_ONLY]
    keywords = [spec for spec in (*named, *arguments) if spec.kind is spec.KEYWORD_ONLY]
    keywords += [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d) for n, d in added]
    function.__signature__ = inspect.Signature([*positional, *keywords])
    made = law(
        function,
        name=name,
        inputs={spec.name: spec for spec in dcpt.inputs} | COEFFICIENTS,
        formula=f"{dcpt.formula} + F/K^μ, K = {formula}",
        source=f"Que 2024, eq. 7 and 12 ({K.__name__[1:]}, its first weight 1)",
        requirements=_unmet_trends,
        chart=dcpt.chart,
        context=dcpt.context,
    )
    _K_OF[made] = K
    return made


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
    arguments = inspect.signature(_K_OF[law]).parameters.values()
    try:
        values = {
            spec.name: (params if spec.kind is spec.KEYWORD_ONLY else coefficients)[spec.name]
            for spec in arguments
        }
    except KeyError as error:
        raise UsageError(
            f"K of law {law.name} needs {error}; see jaxlaw.learnability_coefficients"
        ) from None
    return _K_OF[law](**values)


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


dcpt_cross_k1: Law = _cross_domain("dcpt-cross-k1", _K1, "1/k1", {"k1": "-mu"})
dcpt_cross_k2: Law = _cross_domain("dcpt-cross-k2", _K2, "k2", {"k2": "mu"})
dcpt_cross: Law = _cross_domain("dcpt-cross", _K3, "1/k1 + w2·k2", {"k1": "-mu"})
dcpt_cross_k4: Law = _cross_domain("dcpt-cross-k4", _K4, "1/k1 + w2·k2 + w3/k3", {"k1": "-mu"})
