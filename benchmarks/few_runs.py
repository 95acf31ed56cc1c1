"""Forecasts from few runs: ``JAXLAW_DATA=… python -m benchmarks.few_runs [WAY …] [--keep FILE]``.

Of every experiment of the library of the field (``benchmarks/field.py``) n runs are drawn from
those up to a half, or two thirds, of the log of its compute; the runs of at least eight times the
compute of that cut are forecast (up to six of them, evenly spread). ``--counts 40 0`` takes forty
runs, and all where there are forty or more. Ways:

- ``field``: ``jl.forecast`` with the prior of all *other* sources;
- ``ledger``: the prior of the other experiments of the same evaluation, on top of the field without
  that source (experiments of one evaluation: kempner's six corpora);
- ``free``: ``jl.forecast`` without a prior, where its laws are determined;
- ``chinchilla``: a free fit of chinchilla alone, without an interval;
- ``conflict``: a fit of skaling with the prior of ``field``, for its notes of a conflict (seconds).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import jaxlaw as jl
from benchmarks.field import Runs, experiments
from jaxlaw.errors import JaxlawError
from jaxlaw.fitting import _prior, field_prior
from jaxlaw.forecasting._calibration import KNOWN_DRIFT

ALL = 0  # stands for all runs up to the cut, where there are MANY
MANY = 40
COUNTS = (3, 4, 6, 8, 12, 20, 24, 40, ALL)
DETERMINED = 12  # runs from which laws show what they overestimate by
LEVELS = (0.5, 0.8, 0.9, 0.95)
CUTS = (1 / 2, 2 / 3)
MOST_POINTS = 6
UNITS = {"N": 1, "D": 1}


class Case(NamedTuple):
    runs: Runs
    count: int
    cut: float
    seed: int
    seen: pd.DataFrame
    later: pd.DataFrame


def cases(seeds: int, counts: tuple[int, ...]) -> Iterator[Case]:
    for number, runs in enumerate(experiments()):
        compute = 6.0 * runs.table.N * runs.table.D
        for cut in CUTS:
            limit = compute.min() * (compute.max() / compute.min()) ** cut
            pool = np.flatnonzero(compute <= limit)
            later = runs.table[compute >= 8 * limit * 0.999]
            later = later.iloc[np.argsort((later.N * later.D).to_numpy(), kind="stable")]
            # Always as many points, some of them twice: programs are compiled for their number.
            few = (
                np.linspace(0, len(later) - 1, MOST_POINTS).round().astype(int)
                if len(later)
                else []
            )
            for count in counts:
                draws = seeds if count else 1
                for seed in range(draws) if len(later) and len(pool) >= (count or MANY) else ():
                    random = np.random.default_rng([number, int(100 * cut), count, seed])
                    rows = random.choice(pool, count or len(pool), replace=False)
                    yield Case(runs, count, cut, seed, runs.table.iloc[rows], later.iloc[few])


def prior_for(way: str, case: Case) -> Any:
    prior = field_prior(without=case.runs.source)
    if way == "field":
        return prior
    own = [
        one for one in _prior.field_experiments()
        if one.evaluation == case.runs.evaluation and one.name != case.runs.name
    ]  # fmt: skip
    other = tuple(o for o in _prior.field_experiments() if o.source != case.runs.source)
    means, covariances, names = dict(prior.means), dict(prior.covariances), dict(prior.coordinates)
    for law in ("skaling", "chinchilla"):
        names[law], means[law], covariances[law] = _prior._ledger(
            [one for one in own if one.law == law], other, law
        )
    return _prior.dataclasses.replace(
        prior, coordinates=names, means=means, covariances=covariances
    )


def forecast(way: str, case: Case) -> dict[str, Any]:
    points, observed = case.later[["N", "D"]], np.log(case.later.loss.to_numpy())
    begun = time.process_time()
    if way == "chinchilla":
        if case.count < 6:
            raise jl.DataError("too few")
        fit = jl.fit("chinchilla", case.seen, units=UNITS)
        error = observed - np.log(np.asarray(fit.predict(points)))
        return {"error": float(np.median(np.abs(error))), "bias": float(error.mean())}
    if way == "conflict":
        fit = jl.fit("skaling", case.seen, units=UNITS, prior=prior_for("field", case))
        error = observed - np.log(np.asarray(fit.predict(points)))
        said = [note.message for note in fit.notes if note.code == "prior-conflict"]
        return {"error": float(np.median(np.abs(error))), "bias": float(error.mean()),
                "of noise": any("scatter" in text for text in said),
                "of coordinates": any("scatter" not in text for text in said)}  # fmt: skip
    prior = None if way == "free" else prior_for(way, case)
    made = jl.forecast(None, case.seen, at=points, units=UNITS, prior=prior)
    estimate = np.log(made.table["estimate"].to_numpy())
    error = observed - estimate
    row: dict[str, Any] = {
        "error": float(np.median(np.abs(error))),
        "bias": float(error.mean()),
        "conflict": any(note.code == "prior-conflict" for note in made.notes),
        "prior_share": float(made.table["prior_share"].mean()),
        "weights": {label: float(w.mean()) for label, w in made.weights.items()},
        "errors": error.tolist(),
        "distances": made.table["distance"].tolist(),
        "cpu": time.process_time() - begun,
    }
    for level in LEVELS:
        low, high = (np.log(side) - estimate for side in made.interval(level))
        missed = np.maximum(low - error, 0) + np.maximum(error - high, 0)
        row[f"in {level:g}"] = float((missed == 0).mean())
        row[f"half {level:g}"] = float(np.median(high - low) / 2)
        row[f"score {level:g}"] = float((high - low + 2 / (1 - level) * missed).mean())
    return row


def report(rows: pd.DataFrame) -> None:
    """Tables: by number of runs, then by source."""
    counted = rows[np.isfinite(rows["error"])]
    by = counted.groupby(["way", "n"])
    of_source = counted.groupby(["way", "n", "source"])
    table = pd.DataFrame({
        "cases": by.size(),
        "median error": by["error"].median(),
        "median error, mean over sources":
            of_source["error"].median().groupby(["way", "n"]).mean(),
        "bias": of_source["bias"].mean().groupby(["way", "n"]).mean(),
        **{f"in {level:.0%}": of_source[f"in {level:g}"].mean().groupby(["way", "n"]).mean()
           for level in LEVELS},
        "half-width 90%": by["half 0.9"].median(),
        "score 90%": by["score 0.9"].median(),
        "conflicts": by["conflict"].mean(),
    })  # fmt: skip
    table.index = table.index.set_levels(
        ["all" if n == ALL else str(n) for n in table.index.levels[1]], level="n"
    )
    for way, part in table.groupby(level="way"):
        print(f"\n{way}\n")
        print(markdown(part.droplevel("way").reset_index()))
    field = counted[counted.way == "field"]
    by_source = field.groupby(["source", "n"])
    for what, name in (("error", "Median error"), ("in 0.9", "Share in 90 %"),
                       ("conflict", "Notes of a conflict")):  # fmt: skip
        each = by_source[what].median() if what == "error" else by_source[what].mean()
        print(f"\n{name}, with the field, by source\n")
        print(markdown(each.unstack().rename(columns={ALL: "all"}).reset_index()))


def report_conflicts(rows: pd.DataFrame) -> None:
    """Shares of cases that are noted, by source; errors of those that are and are not."""
    fits = rows[(rows.way == "conflict") & np.isfinite(rows["error"])].copy()
    fits["of either"] = fits["of noise"] | fits["of coordinates"]
    for what in ("of noise", "of coordinates", "of either"):
        fits[what] = fits[what].astype(float)
        shares = fits.groupby(["source", "n"])[what].mean().unstack().rename(columns={ALL: "all"})
        errors = fits.groupby(what)["error"].median().to_dict()
        print(f"\nNotes of a conflict {what}, by source; median errors {errors}\n")
        print(markdown(shares.reset_index()))


def report_many(rows: pd.DataFrame) -> None:
    """Forecasts from forty and more runs with the field's prior, and without: by set."""
    many = rows[np.isfinite(rows["error"]) & ((rows.n == ALL) | (rows.n >= MANY))]
    keys = ["name", "n", "cut", "seed"]
    both = many[many.way == "field"].merge(many[many.way == "free"], on=keys)
    columns = {"score 0.9": "mean", "in 0.9": "mean", "half 0.9": "median", "error": "median"}
    by = both.groupby("name").agg({f"{k}_{s}": v for k, v in columns.items() for s in "yx"})
    by.columns = [f"{k}, {way}" for k in columns for way in ("without", "with the field")]
    by["ratio of scores"] = by.iloc[:, 1] / by.iloc[:, 0]
    by.insert(0, "cases", both.groupby("name").size())
    print("\nForty and more runs, by set\n")
    print(markdown(by.reset_index()))


def report_drift(rows: pd.DataFrame) -> None:
    """What laws overestimate by for each factor e, by source; errors by the others'."""
    field = rows[(rows.way == "field") & np.isfinite(rows["error"])].copy()
    raw = [
        np.array(errors) - KNOWN_DRIFT * np.array(far)  # of the laws, before they were moved
        for errors, far in zip(field.errors, field.distances, strict=True)
    ]
    field["drift"] = [
        -np.mean(e / np.array(far)) for e, far in zip(raw, field.distances, strict=True)
    ]
    by_source = field.groupby(["source", "n"])["drift"].mean()
    print("\nWhat laws overestimate by for each factor e of distance, by source\n")
    print(markdown(by_source.unstack().rename(columns={ALL: "all"}).reset_index()))
    shown = field[(field.n == ALL) | (field.n >= DETERMINED)].groupby("source")["drift"].mean()
    others = {source: float(shown.drop(source, errors="ignore").median()) for source in
              field.source.unique()}  # fmt: skip
    print(
        f"\nMedian of the other sources, from {DETERMINED} runs on: "
        + ", ".join(f"{k} {v:.2%}" for k, v in others.items())
    )
    ways = {"not moved": lambda _: 0.0, "moved by that of the others": others.get,
            "moved as they are": lambda _: KNOWN_DRIFT}  # fmt: skip
    for what, of in ways.items():
        field["moved"] = [
            np.median(np.abs(e + of(source) * np.array(far)))
            for e, far, source in zip(raw, field.distances, field.source, strict=True)
        ]
        print(f"\nmedian error, {what}: " + ", ".join(
            f"{'all' if n == ALL else n} {v:.2%}"
            for n, v in field.groupby("n")["moved"].median().items()
        ))  # fmt: skip


def markdown(table: pd.DataFrame) -> str:
    def cell(name: Any, value: Any) -> str:
        if isinstance(value, str) or name in ("n", "cases"):
            return str(value)
        return "" if value != value else f"{value:.2%}" if abs(value) < 0.2 else f"{value:.0%}"

    lines = [f"| {' | '.join(map(str, table.columns))} |", "|" + "---|" * len(table.columns)]
    for record in table.itertuples(index=False):
        cells = (cell(name, value) for name, value in zip(table.columns, record, strict=True))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("ways", nargs="*", default=["field", "ledger", "free", "chinchilla"])
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--counts", type=int, nargs="*", default=list(COUNTS))
    arguments.add_argument("--keep", type=Path, default=Path("few_runs.jsonl"))
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    done = {}
    if given.keep.exists():
        lines = [json.loads(line) for line in given.keep.read_text().splitlines()]
        done = {(one["way"], one["name"], one["n"], one["cut"], one["seed"]): one for one in lines}
    with given.keep.open("a") as out:
        for case in cases(given.seeds, tuple(given.counts)):
            for way in given.ways:
                key = (way, case.runs.name, case.count, round(case.cut, 3), case.seed)
                if key in done or (way == "ledger" and case.runs.source != "kempner"):
                    continue
                row = {"error": np.nan}
                with contextlib.suppress(JaxlawError):
                    row = forecast(way, case)
                head = dict(zip(("way", "name", "n", "cut", "seed"), key, strict=True))
                done[key] = {**head, "source": case.runs.source, **row}
                print(json.dumps(done[key]), file=out, flush=True)
    rows = pd.DataFrame(list(done.values()))
    if "field" in set(rows.way):
        report(rows[rows.way != "conflict"])
        report_drift(rows)
    if "conflict" in set(rows.way):
        report_conflicts(rows)
    if {"field", "free"} <= set(rows.way):
        report_many(rows)


if __name__ == "__main__":
    main()
