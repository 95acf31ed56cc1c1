"""Several recipes in one law: parameters that all groups share, and others each group's own.

A group is a corpus, an optimiser, a tokeniser, a pipeline: whatever the runs of one table differ in
beside their inputs. The law of the groups is any law with one more input, ``group``, that says
which values of the own parameters hold for a row: a law like any other, so that fits, folds,
bootstraps, weights and plans treat it as such.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxlaw._jit import in_float64
from jaxlaw.errors import UsageError
from jaxlaw.laws._base import Chart, Derived, Law, Values, derived, get
from jaxlaw.laws._parameters import Input, Parameter

_MARKS = "|,[]"  # of a law's name, which says how it is made


def grouped(law: str | Law, groups: Iterable[Any], own: Iterable[str] | None = None) -> Law:
    """A law of several groups of runs, such as corpora: some parameters shared, others own.

    Fits of it compare groups by one fit: the own parameters of each take their values from its own
    runs, the shared ones from all. :func:`jaxlaw.planning.compute_multiplier` says what one group
    is worth against another.

    Between shared and own is pooled: :func:`jaxlaw.posterior` draws the groups of skaling,
    chinchilla or loss-compute-e together, by as much as the runs show that they vary.

    Args:
        law: law or its name.
        groups: labels of the groups; repeats count once, so that a table's column may be given.
        own: names of the parameters that are each group's own; the others are shared. None for
            all of them.

    Returns:
        A law with the input ``group``, which takes labels, and the parameter ``A[label]`` of each
        group for each own parameter ``A``. It is named as it is made,
        ``chinchilla[A of c4|pile]``, and ``jl.laws.get`` finds it by that name.

    Raises:
        UsageError: fewer than two groups, labels that a name cannot hold, an unknown parameter,
            or a law that has groups or a constraint already.

    Example:
        >>> law = jl.laws.grouped("chinchilla", ["c4", "pile"], own=["E"])
        >>> law.name, law.parameter_names
        ('chinchilla[E of c4|pile]', ('E[c4]', 'E[pile]', 'A', 'B', 'alpha', 'beta'))
        >>> runs = jl.simulate.experiment("chinchilla", noise=0.004).table
        >>> more = runs.assign(group="pile", loss=runs["loss"] + 0.1)
        >>> both = pd.concat([runs.assign(group="c4"), more])
        >>> fit = jl.fit(law, both)
        >>> round(fit.params["E[pile]"] - fit.params["E[c4]"], 2)
        0.1
    """
    base = get(law)
    labels = tuple(dict.fromkeys(map(str, [groups] if isinstance(groups, str) else groups)))
    own = base.parameter_names if own is None else (own,) if isinstance(own, str) else tuple(own)
    for name in own:
        base.parameter(name)
    _check_labels(base, labels)
    if not own:
        raise UsageError(f"own is empty: name parameters of law {base.name}, such as own=['E']")
    if "group" in base.input_names or base.constraint is not None:
        raise UsageError(f"law {base.name} has groups or a constraint already: give the plain law")
    return _make_law(base, labels, tuple(name for name in base.parameter_names if name in own))


def _check_labels(base: Law, labels: tuple[str, ...]) -> None:
    if len(labels) < 2:
        raise UsageError(f"groups of law {base.name} are two or more labels, not {labels}")
    for label in labels:
        if not label.strip() or set(_MARKS) & set(label) or label != label.strip():
            raise UsageError(
                f"group '{label}': a label is not empty, has no space around it and none of "
                f"{' '.join(_MARKS)}; rename it in the table"
            )


@dataclass(frozen=True)
class _Groups:
    """The groups of a law, and what its parameters are called in each."""

    base: Law
    labels: tuple[str, ...]
    own: tuple[str, ...]

    def at(self, params: Values, group: Any) -> dict[str, Any]:
        """The parameters of the base law at codes of groups, which a program may trace."""
        nearest = jnp.round(group)
        masks = [jnp.abs(nearest - k) < 0.5 for k in range(len(self.labels))]
        values = {name: params[name] for name in self.base.parameter_names if name not in self.own}
        for name in self.own:
            parts = [
                jnp.where(mask, params[_name(name, label)], 0.0)
                for mask, label in zip(masks, self.labels, strict=True)
            ]
            values[name] = sum(parts[1:], parts[0])
        return values

    def of(self, params: Values, label: str) -> dict[str, Any]:
        """The parameters of the base law for one group."""
        return {
            name: params[_name(name, label) if name in self.own else name]
            for name in self.base.parameter_names
        }

    def for_each(
        self, function: Callable[[Values, Values], dict[str, Any]]
    ) -> Callable[[Values, Values], dict[str, Any]]:
        """Of a function of the base law's chart, the same for every group's parameters."""

        def of_all(values: Values, context: Values) -> dict[str, Any]:
            return {
                _name(name, label) if name in self.own else name: value
                for label in self.labels
                for name, value in function(self.of(values, label), context).items()
            }

        return of_all

    def names(self, name: str) -> list[str]:
        """What a parameter of the base law is called here: once, or in each group."""
        return [_name(name, label) for label in self.labels] if name in self.own else [name]

    def every_name(self, names: Iterable[str]) -> tuple[str, ...]:
        """What several parameters of the base law are called here."""
        return tuple(full for name in names for full in self.names(name))


def _name(name: str, label: str) -> str:
    return f"{name}[{label}]"


@cache
def _make_law(base: Law, labels: tuple[str, ...], own: tuple[str, ...]) -> Law:
    groups, terms = _Groups(base, labels, own), base.power_law_terms

    def formula(*inputs: Any, **params: Any) -> Any:
        """The base law at each row's own parameters; linear in whatever that is linear in."""
        *inputs, group = inputs
        return base.function(*inputs, **groups.at(params, group))

    def terms_of_group(params: Values, inputs: Values) -> Any:
        others = {name: value for name, value in inputs.items() if name != "group"}
        return terms(groups.at(params, inputs["group"]), others)

    return derived(
        base,
        f"{base.name}[{','.join(own)} of {'|'.join(labels)}]",
        Derived(formula, grouped, (base, labels, own)),
        inputs=(*base.inputs, Input("group", f"one of {', '.join(labels)}", levels=labels)),
        parameters=tuple(
            spec for parameter in base.parameters for spec in _specs(parameter, labels, own)
        ),
        formula=f"{base.formula}, {', '.join(own)} of each group",
        of_groups={label: tuple(_name(name, label) for name in own) for label in labels},
        settings_parameters=groups.every_name(base.settings_parameters),
        from_base=tuple(name for name in base.from_base if name not in own),
        chart=_chart_of(groups) if base.chart is not None and _splits(groups) else None,
        own_grid=base.own_grid,
        components={part: groups.every_name(names) for part, names in base.components.items()},
        power_law_terms=None if terms is None else terms_of_group,
        best_settings={},
    )


def _specs(spec: Parameter, labels: tuple[str, ...], own: tuple[str, ...]) -> list[Parameter]:
    """A parameter as it is, or for each group, in the unit of that group's own exponents."""

    def centre(power: str | float, label: str) -> str | float:
        if not isinstance(power, str) or power.lstrip("-") not in own:
            return power
        return ("-" if power.startswith("-") else "") + _name(power.lstrip("-"), label)

    def at(label: str, **changes: Any) -> Parameter:
        units = spec.centre and {name: centre(power, label) for name, power in spec.centre.items()}
        return dataclasses.replace(spec, centre=units, **changes)

    if spec.name not in own:
        return [
            at(labels[0])
        ]  # one coefficient has one centre, whichever group's exponent it takes
    return [at(label, name=_name(spec.name, label), grid=None) for label in labels]


def _splits(groups: _Groups) -> bool:
    """Whether the chart of the base law keeps shared parameters shared.

    It does not where a shared parameter stands for another number with another group's own ones:
    then the law is searched without the chart.
    """
    base = groups.base
    rows = {
        spec.name: np.array([0.2, 0.4, 0.7]) if spec.domain == "fraction" else np.array([1.0, 2, 5])
        for spec in base.inputs
    }
    with in_float64():
        context = base.context(rows)
        for share in (0.3, 0.6):
            first = {
                spec.name: spec.start[0] + share * (spec.start[1] - spec.start[0])
                for spec in base.parameters
            }
            other = {k: 1.1 * value if k in groups.own else value for k, value in first.items()}
            for function in (base.chart.to_natural, base.chart.from_natural):
                there, here = function(other, context), function(first, context)
                if not _agrees_on_shared(here, there, groups.own):
                    return False
    return True


def _agrees_on_shared(here: Values, there: Values, own: tuple[str, ...]) -> bool:
    return all(np.array_equal(here[name], there[name]) for name in here if name not in own)


def _chart_of(groups: _Groups) -> Chart:
    chart = groups.base.chart

    def each(ranges: Mapping[str, float]) -> dict[str, float]:
        return {full: value for name, value in ranges.items() for full in groups.names(name)}

    return Chart(
        each(chart.low),
        each(chart.high),
        groups.for_each(chart.to_natural),
        groups.for_each(chart.from_natural),
        {
            (full, side): sentence
            for (name, side), sentence in chart.limits.items()
            for full in each({name: 0.0})
        },
    )
