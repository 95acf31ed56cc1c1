"""What the start of a domain's loss curve shows: k1, k2, k3 of the cross-domain law.

Que 2024, App. H. The curve is of one continual run on the domain, its loss that of the domain;
compare domains by runs of one base model, one mixture and one schedule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._typed import checked
from jaxlaw.data._runs import read_columns, refuse_rows
from jaxlaw.errors import DataError, UsageError
from jaxlaw.laws import Law
from jaxlaw.laws.cross_domain import COEFFICIENTS

# Thousands of steps whose loss a coefficient needs; k1 may be of the start as well.
_STEPS = {"k1": (), "k2": (0, 5), "k3": (0, 1, 10, 11)}
_NOT_POSITIVE = {
    "k2": "its loss does not fall over the first 5,000 steps",
    "k3": "the fall of its loss does not slacken",
}


@checked
def learnability_coefficients(
    curves: Any, by: str | None = None, *, law: str | Law = "dcpt-cross", k1_step: int = 1000
) -> pd.DataFrame:
    """The coefficients a cross-domain law needs, from domains' own early curves.

    k1 is the loss after 1,000 steps; k2 = L(0) − L(5,000 steps); k3 the mean over i = 0…9 of
    ΔL_(i+1) − ΔL_i, with ΔL_i = L((i+1)·1,000) − L(i·1,000) (Que 2024, App. H). The differences
    cancel within the sum of k3: it is (ΔL_10 − ΔL_0)/10.

    Args:
        curves: file, DataFrame or dict with columns ``step`` (updates done) and ``loss`` (nats).
        by: column that names the domain; None: all rows are of one domain.
        law: law whose coefficients are needed: dcpt-cross needs k1 and k2, dcpt-cross-k4 k3 too.
        k1_step: step of k1: 1000 as in App. H, or 0, since the main text calls k1 the initial
            loss.

    Returns:
        A row for each domain, in order of appearance, a column for each coefficient: for a merge
        with a table of runs, or for ``fit.predict``.

    Raises:
        DataError: a step is missing or there twice, a loss is no positive number, or a
            coefficient is not positive: the law then has no K for the domain.
        UsageError: the law takes no coefficients.

    Example:
        >>> early = jl.simulate.early_curves(steps=5000)
        >>> jl.data.learnability_coefficients(early, by="domain").loc["math"].round(3).to_dict()
        {'k1': 1.332, 'k2': 0.443}
    """
    law = laws.get(law)
    needed = [name for name in law.input_names if name in COEFFICIENTS]
    if not needed:
        raise UsageError(f"law {law.name} takes none of {', '.join(COEFFICIENTS)}; try dcpt-cross")
    labels = {} if by is None else {by: ", which names the domain"}
    runs = read_columns(curves, {"step": ", the updates done", "loss": ""} | labels, texts=labels)
    parts = [("the curve", runs.table)] if by is None else runs.table.groupby(by, sort=False)
    wanted = sorted({1000 * k for name in needed for k in _STEPS[name]} | {k1_step})
    rows = {}
    for domain, part in parts:
        what, at = f"{runs.source}: {domain}", part[part["step"].isin(wanted)]
        if missing := [step for step in wanted if step not in {*at["step"]}]:
            raise DataError(
                f"{what}: {', '.join(needed)} need the loss after {', '.join(map(str, wanted))} "
                f"steps; there is none after {', '.join(map(str, missing))}. Evaluate there, or "
                "give the losses between evaluations yourself",
                file=runs.source,
                column="step",
            )
        of_domain = replace(runs, table=at)
        bad = ~((at["loss"] > 0) & (at["loss"] < np.inf)).to_numpy()
        refuse_rows(of_domain, "loss", bad, f"losses of {domain} must be positive")
        remedy = f"several losses of {domain}; keep one, or say by= which column names the domain"
        refuse_rows(of_domain, "step", at["step"].duplicated().to_numpy(), remedy)
        loss = at.set_index("step")["loss"].reindex([0, 1000, 5000, 10_000, 11_000])
        # ΔL_i is minus the fall from i to i + 1 thousand.
        k3 = (loss[0] - loss[1000] - (loss[10_000] - loss[11_000])) / 10
        known = {"k1": loss[k1_step], "k2": loss[0] - loss[5000], "k3": k3}
        rows[domain] = [known[name] for name in needed]
        for name in needed:
            if not known[name] > 0:
                raise DataError(
                    f"{what}: {name} is {known[name]:.3g}: {_NOT_POSITIVE[name]}, and K would not "
                    "be positive; take its curve from a run with more of the domain, or "
                    "leave the domain out",
                    file=runs.source,
                    column="loss",
                )
    table = pd.DataFrame.from_dict(rows, orient="index", columns=needed)
    return table.reset_index(drop=True) if by is None else table.rename_axis(by)
