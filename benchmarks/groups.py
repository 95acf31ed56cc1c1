"""Groups pooled, shared or alone: ``JAXLAW_DATA=… python -m benchmarks.groups [LAW …]``.

Groups are the experiments of one lab (``benchmarks/field.py``): corpora, evaluations, or read-offs
of one paper. Of each n runs are drawn from those up to half of the log of its compute, and the runs
of at least eight times that compute are predicted (up to six of them). The prior knows all *other*
sources. Ways:

- ``own``: each group by its own runs alone, where they determine the law;
- ``shared``: one law of groups, exponents shared, coefficients each group's own;
- ``field``: each group by its own runs and the prior of the field;
- ``pooled``: one law of groups, all parameters each group's own, with the same prior;
- ``field-forecast``, ``pooled-forecast``: the same by ``jl.forecast``.

Errors are of a group's mean over its later runs; ``between`` is their standard deviation over the
groups of a family: what a comparison of groups is off by. Intervals are of 90 % for single runs:
those of ``field`` and ``pooled`` are ``jl.covariance``'s with the noise of a run beside them.

``simulated`` in place of laws draws groups of chinchilla whose spread is a multiple of that of
public experiments: whether the interval of the pooled law holds the true one at 1e10 parameters.
"""

from __future__ import annotations

import argparse
import json
import time
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
from jaxlaw.fitting._prior import SPREAD

COUNTS = (3, 6, 12)
FAMILIES = ("kempner", "olmo", "hoffmann")
WAYS = ("own", "shared", "field", "pooled", "field-forecast", "pooled-forecast")
MOST_GROUPS, MOST_POINTS = 4, 6
LEVEL = 0.9
OF_RUN = 1.645  # standard deviations of a single run about the law, beside the law's own interval
KEYS = ("law", "groups", "n", "seed", "way")
SPREADS = (0.0, 1 / 3, 1.0)  # of simulated groups, in those of public experiments
SIMULATED = ((2, 3), (2, 8), (5, 3), (5, 8))  # groups, and runs of each


class Case(NamedTuple):
    source: str
    count: int
    seed: int
    seen: pd.DataFrame
    later: pd.DataFrame


def cases(seeds: int, counts: tuple[int, ...]) -> Iterator[Case]:
    known = list(experiments())
    for count in counts:
        for source in FAMILIES:
            family = [runs for runs in known if runs.source == source]
            family = family[:: -(-len(family) // MOST_GROUPS)]  # every other, or every third
            for seed in range(seeds):
                seen, later = [], []
                for number, runs in enumerate(family):
                    # Labels of no family: its programs are those of the next, of as many groups.
                    table = runs.table.assign(group=f"g{number}")
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


def predictions(way: str, law: str, case: Case) -> Iterator[tuple[np.ndarray, ...]]:
    """Logs of observed over predicted of each group's later runs, and of both ends over it."""
    way, _, forecast = way.partition("-")
    labels, names = list(dict.fromkeys(case.seen.group)), jl.laws.get(law).parameter_names
    if way in ("own", "field"):
        each = [(law, case.seen[case.seen.group == label]) for label in labels]
    else:
        own = [name for name in names if name in "EAB" or way == "pooled"]
        each = [(jl.laws.grouped(law, labels, own=own), case.seen)]
    prior = field_prior(without=case.source) if way in ("field", "pooled") else None
    for one, seen in each:
        later = case.later[case.later.group.isin(seen.group)]
        points = later[[*jl.laws.get(one).input_names]]
        low = high = np.full(len(later), np.nan)
        if forecast:
            table = jl.forecast(one, seen, at=points, prior=prior, units=UNITS, level=LEVEL).table
            centre = np.log(table["estimate"].to_numpy())
            low, high = (np.log(table[side]).to_numpy() - centre for side in ("low", "high"))
        else:
            fit = jl.fit(one, seen, prior=prior, units=UNITS)
            centre = np.log(np.asarray(fit.predict(points)))
            if prior is not None:
                table = jl.covariance(fit, seen).prediction(points, confidence_level=LEVEL)
                half = np.log(table["high"] / table["low"]).to_numpy() / 2
                high = np.hypot(half, OF_RUN * fit.prior.noise)
                low = -high
        error = np.log(later.loss.to_numpy()) - centre
        for label in dict.fromkeys(later.group):
            rows = (later.group == label).to_numpy()
            yield error[rows], low[rows], high[rows]


def row_of(way: str, law: str, case: Case) -> dict[str, Any]:
    begun = time.process_time()
    try:
        found = list(predictions(way, law, case))
    except jl.DataError:  # too few runs for a law without a prior
        return {"error": np.nan}
    off = np.array([error.mean() for error, *_ in found])
    errors, low, high = (np.concatenate(each) for each in zip(*found, strict=True))
    missed = np.maximum(low - errors, 0) + np.maximum(errors - high, 0)
    known = np.isfinite(low).all()
    return {
        "error": float(np.abs(off).mean()), "bias": float(off.mean()),
        "between": float(off.std(ddof=1)),
        "half": float(np.median(high - low) / 2) if known else np.nan,
        "held": float((missed == 0).mean()) if known else np.nan,
        "score": float((high - low + 2 / (1 - LEVEL) * missed).mean()) if known else np.nan,
        "cpu": time.process_time() - begun,
    }  # fmt: skip


def simulated(law: str, groups: int, count: int, spread: float, seed: int) -> dict[str, Any]:
    """Whether intervals of pooled groups hold the law's value, of groups that are drawn."""
    random, base = np.random.default_rng([groups, count, seed]), jl.laws.get(law)
    prior, labels = field_prior(), [f"g{k}" for k in range(groups)]
    names = prior.coordinates[law]
    common = prior.sample(base, 2, seed + 1)[1]
    level = 1.2 + 0.2 * random.standard_normal()
    tables, true, at = [], [], {"N": 1e10, "D": 2e11}
    for label in labels:
        sizes = np.array([SPREAD["level"], *(SPREAD[name] for name in names)])
        moved = spread * sizes * random.standard_normal(len(sizes))
        values = dict(zip(names, common + moved[1:], strict=True))
        params = base.scale_free.to_params(np.exp(level + moved[0]), values)
        N = np.exp(random.uniform(np.log(3e7), np.log(1e9), count))
        D = N * np.exp(random.uniform(np.log(10), np.log(100), count))
        loss = np.asarray(base(params, N=N, D=D)) * np.exp(
            prior.noise * random.standard_normal(count)
        )
        tables.append(pd.DataFrame({"N": N, "D": D, "loss": loss, "group": label}))
        true.append(float(base(params, **at)))
    seen = pd.concat(tables, ignore_index=True)
    fit = jl.fit(jl.laws.grouped(law, labels), seen, prior=prior, units=UNITS)
    table = jl.covariance(fit, seen).prediction(**at, group=labels, confidence_level=LEVEL)
    low, high, true = np.log(table["low"]), np.log(table["high"]), np.log(true)
    missed = np.maximum(low - true, 0) + np.maximum(true - high, 0)
    return {
        "error": float(np.abs(np.log(table["estimate"]) - true).mean()),
        "held": float((missed == 0).mean()), "half": float((high - low).median() / 2),
        "score": float((high - low + 2 / (1 - LEVEL) * missed).mean()),
    }  # fmt: skip


def tasks(given: argparse.Namespace) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """A key of each row, and the function that makes it; the same programs one after another."""
    if "simulated" in given.laws:
        for groups, count in SIMULATED:
            for spread in SPREADS:
                for seed in range(given.seeds):
                    key = (f"chinchilla, {groups} groups", f"spread {spread:.2g}", count, seed)
                    yield (
                        (*key, "pooled"),
                        lambda a=("chinchilla", groups, count, spread, seed): simulated(*a),
                    )
        return
    for case in cases(given.seeds, tuple(given.counts)):
        for law in given.laws:
            for way in given.ways:
                key = (law, case.source, case.count, case.seed, way)
                yield key, lambda a=(way, law, case): row_of(*a)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("laws", nargs="*", default=["skaling", "chinchilla"])
    arguments.add_argument("--ways", nargs="*", default=WAYS)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--counts", type=int, nargs="*", default=COUNTS)
    arguments.add_argument("--keep", type=Path, default=Path("groups.jsonl"))
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    given.keep.touch()
    done = [json.loads(line) for line in given.keep.read_text().splitlines()]
    keys = {tuple(row[name] for name in KEYS) for row in done}
    with given.keep.open("a") as out:
        for key, make in tasks(given):
            if key not in keys:
                row = dict(zip(KEYS, key, strict=True)) | make()
                print(json.dumps(row), file=out, flush=True)
    rows = pd.DataFrame(map(json.loads, given.keep.read_text().splitlines()))
    rows = rows[np.isfinite(rows["error"])]
    for law, part in rows.groupby("law"):
        for what in ("error", "between", "bias", "half", "held", "score"):
            if what in part:
                table = part.groupby(["groups", "n", "way"])[what].mean().unstack("way")
                table = table.dropna(axis=1, how="all").reset_index()
                print(f"\n{law}, {what}\n\n{markdown(table)}")


if __name__ == "__main__":
    main()
