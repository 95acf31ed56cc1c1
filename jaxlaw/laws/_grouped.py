"""Several recipes in one law: parameters that all groups share, and others each group's own.

A group is a corpus, an optimiser, a tokeniser, a pipeline: whatever the runs of one table differ in
beside their inputs. The law of the groups is any law with one more input, ``group``, that says
which values of the own parameters hold for a row: a law like any other, so that fits, folds,
bootstraps, weights and plans treat it as such.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxlaw._jit import in_float64
from jaxlaw.errors import UsageError
from jaxlaw.laws._base import Chart, Law, derived, get
from jaxlaw.laws._parameters import Input

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
    if len(labels) < 2:
        raise UsageError(f"groups of law {base.name} are two or more labels, not {labels}")
    for label in labels:
        if not label.strip() or set(_MARKS) & set(label) or label != label.strip():
            raise UsageError(
                f"group '{label}': a label is not empty, has no space around it and none of "
                f"{' '.join(_MARKS)}; rename it in the table"
            )
    if not own:
        raise UsageError(f"own is empty: name parameters of law {base.name}, such as own=['E']")
    if "group" in base.input_names or base.constraint is not None:
        raise UsageError(f"law {base.name} has groups or a constraint already: give the plain law")
    return _make_law(base, labels, tuple(name for name in base.parameter_names if name in own))


@cache
def _make_law(base: Law, labels: tuple[str, ...], own: tuple[str, ...]) -> Law:
    def full(name, label):
        """What a parameter of the base law is called in one group."""
        return f"{name}[{label}]" if name in own else name

    def called(names):
        """What parameters of the base law are called here: once, or in each group."""
        return tuple(dict.fromkeys(full(name, label) for name in names for label in labels))

    def of_group(params, label):
        """The parameters of the base law for one group."""
        return {name: params[full(name, label)] for name in base.parameter_names}

    def at(params, group):
        """The parameters of the base law at codes of groups, which a program may trace."""
        nearest = jnp.round(group)
        masks = {label: jnp.abs(nearest - k) < 0.5 for k, label in enumerate(labels)}
        values = {name: params[name] for name in base.parameter_names if name not in own}
        for name in own:
            parts = [jnp.where(mask, params[full(name, label)], 0.0)
                     for label, mask in masks.items()]  # fmt: skip
            values[name] = sum(parts[1:], parts[0])
        return values

    def formula(*inputs, **params):
        """The base law at each row's own parameters; linear in whatever that is linear in."""
        *inputs, group = inputs
        return base.function(*inputs, **at(params, group))

    def terms_of_group(params, inputs):
        others = {name: value for name, value in inputs.items() if name != "group"}
        return base.power_law_terms(at(params, inputs["group"]), others)

    parameters = []
    for spec in base.parameters:
        # One coefficient has one centre, whichever group's exponent it takes.
        for label in labels if spec.name in own else labels[:1]:
            centre = spec.centre and {
                name: ("-" * power.startswith("-") + full(power.lstrip("-"), label))
                if isinstance(power, str)
                else power
                for name, power in spec.centre.items()
            }
            grid = None if spec.name in own else spec.grid
            name = full(spec.name, label)
            parameters.append(replace(spec, name=name, centre=centre, grid=grid))

    chart = base.chart if base.chart is not None and _splits(base, own) else None
    if chart is not None:

        def each(values):
            return {one: value for name, value in values.items() for one in called([name])}

        def for_each(function, values, context):
            return {
                full(name, label): value
                for label in labels
                for name, value in function(of_group(values, label), context).items()
            }

        chart = Chart(
            each(chart.low),
            each(chart.high),
            partial(for_each, chart.to_natural),
            partial(for_each, chart.from_natural),
            {(one, side): text for (name, side), text in chart.limits.items()
             for one in called([name])},
        )  # fmt: skip

    known, scale_free = base.scale_free, None
    if known is not None and not known.open:  # what a prior of all groups would leave open

        def of_params(params):
            every = [known.of_params(of_group(params, label)) for label in labels]
            return {name: jnp.stack([one[name] for one in every]) for name in every[0]}

        def to_params(target, values):
            each = known.to_params(target, values)
            # A shared parameter of groups whose coordinates differ is that of the first.
            return {
                full(name, label): value[k]
                for k, label in reversed([*enumerate(labels)])
                for name, value in each.items()
            }

        parts = known.parts or (base.name,)
        scale_free = known._replace(of_params=of_params, to_params=to_params, parts=parts)

    return derived(
        base,
        f"{base.name}[{','.join(own)} of {'|'.join(labels)}]",
        formula,
        grouped,
        (base, labels, own),
        inputs=(*base.inputs, Input("group", f"one of {', '.join(labels)}", levels=labels)),
        parameters=tuple(parameters),
        formula=f"{base.formula}, {', '.join(own)} of each group",
        scale_free=scale_free,
        of_groups={label: tuple(full(name, label) for name in own) for label in labels},
        settings_parameters=called(base.settings_parameters),
        from_base=tuple(name for name in base.from_base if name not in own),
        chart=chart,
        components={part: called(names) for part, names in base.components.items()},
        power_law_terms=None if base.power_law_terms is None else terms_of_group,
        best_settings={},
    )


def _splits(base: Law, own: tuple[str, ...]) -> bool:
    """Whether the chart of the base law keeps shared parameters shared.

    It does not where a shared parameter stands for another number with another group's own ones:
    then the law is searched without the chart.
    """
    rows = {
        spec.name: np.array([0.2, 0.4, 0.7] if spec.domain == "fraction" else [1.0, 2, 5])
        for spec in base.inputs
    }
    with in_float64():
        context = base.context(rows)
        for share in (0.3, 0.6):
            first = {
                spec.name: spec.start[0] + share * (spec.start[1] - spec.start[0])
                for spec in base.parameters
            }
            other = {k: 1.1 * value if k in own else value for k, value in first.items()}
            for function in (base.chart.to_natural, base.chart.from_natural):
                there, here = function(other, context), function(first, context)
                if any(not np.array_equal(here[k], there[k]) for k in here if k not in own):
                    return False
    return True
