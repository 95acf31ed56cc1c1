"""Groups pooled, shared or alone: ``JAXLAW_DATA=… python -m benchmarks.groups [LAW …]``.

Groups are the experiments of one lab (``benchmarks/field.py``): corpora, evaluations, or read-offs
of one paper. Of each n runs are drawn from those up to half of the log of its compute, and the runs
of at least eight times that compute are predicted (up to six of them). The prior knows all *other*
sources. Ways:

- ``own``: each group by its own runs alone, where they determine the law;
- ``shared``: one law of groups, exponents shared, coefficients each group's own;
- ``field``: each group by its own runs and the prior of the field;
- ``pooled``: one law of groups, all parameters each group's own, with the same prior.

Errors are of a group's mean over its later runs; ``between`` is their standard deviation over the
groups of a family: what a comparison of groups is off by.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import jaxlaw as jl
from benchmarks.few_runs import UNITS, markdown
from benchmarks.field import experiments
from jaxlaw.fitting import field_prior

COUNTS = (3, 6, 12)
FAMILIES = ("kempner", "olmo", "hoffmann")
WAYS = ("own", "shared", "field", "pooled")
MOST_GROUPS, MOST_POINTS = 4, 6
LEVEL = 0.9
OF_RUN = 1.645  # standard deviations of a single run about the law, beside the law's own interval


class Case(NamedTuple):
    source: str
    count: int
    seed: int
    seen: pd.DataFrame
    later: pd.DataFrame


def cases(seeds: int, counts: tuple[int, ...]) -> Iterator[Case]:
    known = list(experiments())
    for source in FAMILIES:
        family = [runs for runs in known if runs.source == source]
        family = family[:: -(-len(family) // MOST_GROUPS)]  # every other, or every third
        for count in counts:
            for seed in range(seeds):
                seen, later = [], []
                for number, runs in enumerate(family):
                    table = runs.table.assign(group=runs.name.replace(",", ";"))
                    compute = 6.0 * table.N * table.D
                    limit = compute.min() * (compute.max() / compute.min()) ** 0.5
                    pool = np.flatnonzero(compute <= limit)
                    far = table[compute >= 8 * limit * 0.999].sort_values(["N", "D"])
                    if len(pool) < count or not len(far):
                        continue
                    random = np.random.default_rng([number, count, seed])
                    seen.append(table.iloc[random.choice(pool, count, replace=False)])
                    few = np.linspace(0, len(far) - 1, min(len(far), MOST_POINTS)).round()
                    later.append(far.iloc[few.astype(int)])
                if len(seen) > 1:
                    yield Case(source, count, seed, pd.concat(seen), pd.concat(later))


def predictions(way: str, law: str, case: Case) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Errors of each group's later runs, and half-widths of their intervals, both in logarithms."""
    labels, names = list(dict.fromkeys(case.seen.group)), jl.laws.get(law).parameter_names
    if way in ("own", "field"):
        each = [(law, case.seen[case.seen.group == label]) for label in labels]
    else:
        own = [name for name in names if name in "EAB" or way == "pooled"]
        each = [(jl.laws.grouped(law, labels, own=own), case.seen)]
    prior = field_prior(without=case.source) if way in ("field", "pooled") else None
    for one, seen in each:
        fit = jl.fit(one, seen, prior=prior, units=UNITS)
        near = None if prior is None else jl.covariance(fit, seen)
        for label in dict.fromkeys(seen.group):
            later = case.later[case.later.group == label]
            points = later[[*fit.law.input_names]]
            error = np.log(later.loss.to_numpy() / np.asarray(fit.predict(points)))
            half = np.full(len(error), np.nan)
            if near is not None:
                table = near.prediction(points, confidence_level=LEVEL)
                half = np.log(table["high"] / table["low"]).to_numpy() / 2
                half = np.hypot(half, OF_RUN * fit.prior.noise)
            yield error, half


def row_of(way: str, law: str, case: Case) -> dict[str, Any]:
    head = {"law": law, "groups": case.source, "n": case.count, "seed": case.seed, "way": way}
    try:
        found = list(predictions(way, law, case))
    except jl.DataError:  # too few runs for a law without a prior
        return {**head, "error": np.nan}
    off = np.array([error.mean() for error, _ in found])
    errors, halves = (np.concatenate(each) for each in zip(*found, strict=True))
    known = np.isfinite(halves).all()
    return {
        **head, "error": float(np.abs(off).mean()), "bias": float(off.mean()),
        "between": float(off.std(ddof=1)), "half": float(np.median(halves)) if known else np.nan,
        "held": float((np.abs(errors) <= halves).mean()) if known else np.nan,
    }  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("laws", nargs="*", default=["skaling", "chinchilla"])
    arguments.add_argument("--ways", nargs="*", default=WAYS)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--counts", type=int, nargs="*", default=COUNTS)
    arguments.add_argument("--keep", type=Path, default=Path("groups.jsonl"))
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    with given.keep.open("a") as out:
        for law in given.laws:
            for case in cases(given.seeds, tuple(given.counts)):
                for way in given.ways:
                    print(json.dumps(row_of(way, law, case)), file=out, flush=True)
    rows = pd.DataFrame(map(json.loads, given.keep.read_text().splitlines()))
    rows = rows[np.isfinite(rows["error"])]
    for law, part in rows.groupby("law"):
        for what in ("error", "between", "bias", "half", "held"):
            table = part.groupby(["groups", "n", "way"])[what].mean().unstack("way")
            print(f"\n{law}, {what}\n\n{markdown(table.dropna(axis=1, how='all').reset_index())}")


if __name__ == "__main__":
    main()
