"""Several laws of one target as one law: their weighted geometric mean.

It is what a forecast by several laws says of a run (:mod:`jaxlaw.forecasting`), as a law like any
other: so that every plan can be made with it. With the weight 1 of one law and 0 of all others it
is that law, which is how the draws of a plan go from law to law.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any

import jax.numpy as jnp

from jaxlaw.errors import UsageError
from jaxlaw.laws._base import Derived, Law, Values
from jaxlaw.laws._parameters import Input, real


def weight_of(label: str) -> str:
    """The parameter that weighs a law."""
    return f"weight[{label}]"


def parameter_of(name: str, label: str) -> str:
    """The parameter of a law, among those of all of them."""
    return f"{name}[{label}]"


def weighted(laws: Mapping[str, Law]) -> Law:
    """The law exp(Σ weight_k·log f_k) of the laws f_k.

    Args:
        laws: label → law. All are of the same target.

    Returns:
        A law of all their inputs. Its parameters are ``weight[label]`` of each law, of
        sum 1, and ``name[label]`` of each parameter. The same object for the same laws.

    Raises:
        UsageError: laws of several targets, or inputs per drop of the learning rate.
    """
    if len({(law.target, law.better) for law in laws.values()}) != 1:
        targets = ", ".join(f"{label}: {law.target}" for label, law in laws.items())
        raise UsageError(f"laws that are weighted are of the same target, not {targets}")
    for label, law in laws.items():
        if law.inputs_per_drop:
            raise UsageError(
                f"law {label} takes a value for every drop of the learning rate, and cannot be "
                "weighted with others: plan with its own fit"
            )
    return _make_law(tuple(laws.items()))


def _rebuild_law(labels: tuple[str, ...], *laws: Law) -> Law:
    return weighted(dict(zip(labels, laws, strict=True)))


def _label_law(label: str, law: Law) -> str:
    name = law.program_name or law.name
    return label if label == name else f"{label}: {name}"


@cache
def _make_law(laws: tuple[tuple[str, Law], ...]) -> Law:
    first = laws[0][1]
    specs = _inputs(law for _, law in laws)
    plain = real(-1.0, 1.0)
    parameters = []
    for label, law in laws:
        share = dataclasses.replace(plain, name=weight_of(label), doc="weight of the law")
        parameters.append(share)
        parameters += [
            dataclasses.replace(spec, name=parameter_of(spec.name, label), centre=None, grid=None)
            for spec in law.parameters
        ]
    units = {spec.name: spec.unit for spec in specs}

    def formula(*inputs: Any, **params: Any) -> Any:
        """The weighted mean at inputs in the unit of the first law that has them."""
        given = dict(zip(units, inputs, strict=True))
        total = 0.0
        for label, law in laws:
            weight = params[weight_of(label)]
            values = {name: params[parameter_of(name, label)] for name in law.parameter_names}
            at = [given[spec.name] * (units[spec.name] / spec.unit) for spec in law.inputs]
            value = law.function(*at, **values)
            # A law that does not count may have no value here: neither it nor its slope may
            # make the others' sum NaN.
            counted = jnp.where(weight > 0, value, 1.0)
            total = total + weight * jnp.log(counted)
        return jnp.exp(total)

    labels, plain_laws = zip(*laws, strict=True)
    return Law(
        # Programs are kept by the name, so that it says which laws these are, whatever the labels.
        name=f"weighted laws ({', '.join(_label_law(*law) for law in laws)})",
        # Its laws by themselves, for the names of programs to see them.
        function=Derived(formula, _rebuild_law, (labels, *plain_laws)),
        inputs=specs,
        parameters=tuple(parameters),
        formula="exp(Σ weight·log law)",
        target=first.target,
        better=first.better,
        linear=(),
        best_settings=_best_settings(*laws[0]) if len(laws) == 1 else {},
    )


def _best_settings(label: str, law: Law) -> dict[str, Callable[[Values, Values], Any]]:
    """Those of a law that is weighted alone, as in its forecast; of several there is no formula."""

    def renamed(best: Callable[[Values, Values], Any], params: Values, inputs: Values) -> Any:
        own = {name: params[parameter_of(name, label)] for name in law.parameter_names}
        return best(own, inputs)

    return {name: partial(renamed, best) for name, best in law.best_settings.items()}


def _inputs(laws: Iterable[Law]) -> tuple[Input, ...]:
    """The inputs of all laws, each once."""
    specs: dict[str, Input] = {}
    for law in laws:
        for spec in law.inputs:
            specs.setdefault(spec.name, spec)
    return tuple(specs.values())
