"""The laws; importing the package registers them."""

from __future__ import annotations

import math

import pandas as pd

from jaxlaw._law_families import FAMILIES
from jaxlaw.laws import (  # noqa: F401
    annealing,
    best_settings,
    cross_domain,
    downstream,
    experts,
    mixture,
    repetition,
    scaling,
)
from jaxlaw.laws._base import Law, PowerLawTerms, built_in, get, keep_as_built_in, names, power
from jaxlaw.laws._beyond import (
    beyond,
    end_of,
    growing_inputs,
    repeats,
    slope_of,
    top_of,
    without_misfit,
)
from jaxlaw.laws._continual import continual
from jaxlaw.laws._files import from_file, names_a_file, run_file
from jaxlaw.laws._grouped import grouped
from jaxlaw.laws._mixing import additive, mixing
from jaxlaw.laws._parameters import Input, Parameter, exponent, positive, real
from jaxlaw.laws._requirements import check_requirements
from jaxlaw.laws._tuned import tuned
from jaxlaw.laws.experts import routed

__all__ = [
    "Input",
    "Law",
    "Parameter",
    "PowerLawTerms",
    "additive",
    "beyond",
    "built_in",
    "check_requirements",
    "continual",
    "exponent",
    "end_of",
    "from_file",
    "get",
    "growing_inputs",
    "grouped",
    "law_table",
    "mixing",
    "names",
    "names_a_file",
    "positive",
    "power",
    "real",
    "repeats",
    "routed",
    "run_file",
    "slope_of",
    "top_of",
    "tuned",
    "without_misfit",
]

keep_as_built_in()


def law_table() -> pd.DataFrame:
    """Every registered law, one row each: name, family, formula, inputs, parameters, source.

    ``family`` says what a law is of (empty for those that are not built in);
    ``units`` what it counts its inputs in; ``grid`` how many starts its grid has (0: none).

    Example:
        >>> table = jl.law_table().set_index("name")
        >>> table.loc["chinchilla", "formula"], int(table.loc["chinchilla", "grid"])
        ('E + A/N^α + B/D^β', 4500)
    """
    records, families = [], {law: family for family, own in FAMILIES.items() for law in own}
    for name in names():
        law = get(name)
        records.append(
            {
                "name": name,
                "family": families.get(name, ""),
                "formula": law.formula,
                "inputs": ", ".join(law.input_names),
                "parameters": ", ".join(law.parameter_names),
                "units": units_of(law),
                "grid": math.prod(len(spec.grid or ()) for spec in law.parameters),
                "source": law.source,
            }
        )
    return pd.DataFrame(records)


def units_of(law: Law) -> str:
    """What a law counts its positive inputs in, for people."""
    units = {1.0: "1", 1e9: "10⁹"}
    return ", ".join(
        f"{spec.name} in {units.get(spec.unit, format(spec.unit, 'g'))}"
        for spec in law.inputs
        if spec.domain == "positive"
    )
