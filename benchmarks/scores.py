"""Scores beyond the runs: ``JAXLAW_DATA=… python -m benchmarks.scores [WAY …] [--keep FILE]``.

A split fits the cheap end of a data set and forecasts the scores of all runs of the other one, by
``jl.forecast_scores``. Each result is a line of JSON in the file of ``--keep``; what is there
already is not made again. Without ways the page's tables are printed of what the file has. Ways:

- ``two-steps``: ``jl.forecast_scores`` as it is;
- ``free``: the same without a prior of the losses;
- ``flops``: from FLOPs alone, the laws of the loss being those of compute;
- ``plain``: ``jl.fit`` of chinchilla and of a sigmoid to the final models, without intervals.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import jaxlaw as jl

DATA = Path(os.environ.get("JAXLAW_DATA", "."))
SIZES = ["190M", "370M", "760M", "1B", "3B"]
OLMO = {
    "mmlu": "mmlu_test", "hellaswag": "hellaswag_val", "arc_challenge": "arc_challenge_test",
    "arc_easy": "arc_easy_test", "piqa": "piqa_val", "csqa": "csqa_val",
    "winogrande": "winogrande_val", "boolq": "boolq_val",
}  # fmt: skip
KEMPNER = {
    "hellaswag": "hellaswag_test_len_norm", "arc_easy": "arc_easy_test_acc",
    "arc_challenge": "arc_challenge_test_len_norm", "piqa": "piqa_test_len_norm",
    "sciq": "sciq_test_acc", "openbook_qa": "openbook_qa_test_len_norm",
}  # fmt: skip
CORPORA = ("fineweb-100b", "fineweb-edu-100b", "slimpajama-chunk1", "smollm-corpus")


class Split(NamedTuple):
    """Runs to fit, runs to forecast, and task → columns of loss and score."""

    fitted: pd.DataFrame
    later: pd.DataFrame
    tasks: dict[str, tuple[str, str]]
    groups: str | None


def splits() -> Iterator[tuple[str, Split]]:
    table = pd.read_csv(DATA / "olmo_ladder.csv")
    final = table.loc[table.groupby("run")["step"].idxmax()]
    tasks = {task: (f"bpb_{name}", f"acc_{name}") for task, name in OLMO.items()}
    for count, later in ((2, ["760M"]), (3, ["1B", "3B"]), (4, ["3B"])):
        fitted = table[table["model"].isin(SIZES[:count])]
        name = f"OLMo, 190 M to {SIZES[count - 1]}"
        yield name, Split(fitted, final[final["model"].isin(later)], tasks, "run")
    table = pd.read_csv(DATA / "loss_to_tasks.csv").rename(columns={"params": "N", "tokens": "D"})
    tasks = {
        task: (f"eval/downstream/{task}_test_ctx_ce_loss", f"eval/downstream/{column}")
        for task, column in KEMPNER.items()
    }
    for corpus in CORPORA:
        rows = table[table["data"] == corpus]
        top = rows["iso_flop"].max()
        fitted, later = rows[rows["iso_flop"] < 0.3 * top], rows[rows["iso_flop"] == top]
        yield f"Kempner, {corpus}", Split(fitted, later, tasks, None)


def forecasts(way: str, split: Split, save: Path) -> pd.DataFrame:
    """(tasks × runs) task, score, low, high, chance and observed; the forecast is saved."""
    later = split.later
    at: dict[str, Any] = {"N": later["N"].to_numpy(), "D": later["D"].to_numpy()}
    observed = np.concatenate([later[score] for _, score in split.tasks.values()])
    if way == "plain":
        return _plain(split).assign(observed=observed)
    if way == "flops":
        at = {"C": 6 * at["N"] * at["D"]}
    prior = None if way == "free" else "field"
    made = jl.forecast_scores(split.fitted, split.tasks, at, groups=split.groups, prior=prior)
    made.save(save)
    mean = made.mean.assign(task="mean", chance=np.nan)
    good = [split.tasks[task][1] for task in made.fits]
    every = pd.concat([made.table, mean], ignore_index=True)
    row = later[good].mean(axis=1).to_numpy()
    return every.assign(observed=np.concatenate([observed, row]))


def _plain(split: Split) -> pd.DataFrame:
    fitted = split.fitted
    last = fitted if split.groups is None else fitted.loc[fitted.groupby("run")["step"].idxmax()]
    parts = []
    for task, (loss, score) in split.tasks.items():
        first = jl.fit("chinchilla", last[["N", "D", loss]], target=loss)
        second = jl.fit("sigmoid", last, columns={"task_loss": loss}, target=score)
        there = first.predict(N=split.later["N"].to_numpy(), D=split.later["D"].to_numpy())
        parts.append(pd.DataFrame({"task": task, "score": second.predict(task_loss=there)}))
    return pd.concat(parts).assign(low=np.nan, high=np.nan)


def measured(name: str, way: str, frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """A record for each task: mean relative error, share inside, median relative width."""
    for task, rows in frame.groupby("task", sort=False):
        error = (rows["score"] / rows["observed"] - 1).abs()
        inside = (rows["low"] <= rows["observed"]) & (rows["observed"] <= rows["high"])
        width = (rows["high"] - rows["low"]) / rows["score"]
        yield {
            "split": name, "way": way, "task": task, "runs": len(rows), "error": error.mean(),
            "inside": inside.mean() if rows["low"].notna().all() else None,
            "width": width.median(),
        }  # fmt: skip


def page(records: pd.DataFrame) -> None:
    """Print the tables."""
    good = records[records["error"].notna() & (records["task"] != "mean")]
    print("| fitted → forecast | way | tasks | mean error | inside 90 % | median width |")
    print("|---|---|---|---|---|---|")
    for (split, way), rows in good.groupby(["split", "way"], sort=False):
        inside = rows["inside"].astype(float).mean()
        cells = [split, way, str(len(rows)), f"{rows['error'].mean():.2%}"]
        cells += ["" if np.isnan(inside) else f"{inside:.0%}"]
        cells += ["" if np.isnan(inside) else f"{rows['width'].median():.1%}"]
        print(f"| {' | '.join(cells)} |")
    print("\n| task | " + " | ".join(records["split"].unique()) + " |")
    print("|---|" + "---|" * records["split"].nunique())
    ours = records[records["way"] == "two-steps"]
    for task in ours["task"].unique():
        cells = []
        for split in records["split"].unique():
            row = ours[(ours["split"] == split) & (ours["task"] == task)]
            if row.empty:
                cells.append("")
            elif row["error"].isna().all():
                cells.append("no forecast")
            else:
                cells.append(
                    f"{row['error'].iloc[0]:.2%}, {row['inside'].astype(float).iloc[0]:.0%}"
                )
        print(f"| {task} | {' | '.join(cells)} |")


def decisions(file: Path) -> None:
    """Print how often the corpora are ranked as the top budget ranks them."""
    made, observed = {}, {}
    for name, split in splits():
        path = file.with_suffix(f".two-steps.{name}.json")
        if split.groups is None and path.exists():
            made[name] = jl.load(path)
            observed[name] = {task: split.later[score] for task, (_, score) in split.tasks.items()}
    if len(made) > 1:
        found = jl.forecasting.decision_accuracy(made, observed)
        print(f"\n{found.headline}\n\n{found.table.to_string(index=False)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ways", nargs="*")
    parser.add_argument("--keep", default="build/scores.jsonl")
    parser.add_argument("--only", default="", help="a part of the split's name")
    options = parser.parse_args()
    file = Path(options.keep)
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = pd.read_json(file, lines=True) if file.exists() else pd.DataFrame({"split": []})
    warnings.simplefilter("ignore")
    for way in options.ways:
        for name, split in splits():
            there = len(kept) and ((kept["split"] == name) & (kept["way"] == way)).any()
            if there or options.only not in name:
                continue
            frame = forecasts(way, split, file.with_suffix(f".{way}.{name}.json"))
            with file.open("a", encoding="utf-8") as lines:
                lines.writelines(json.dumps(row) + "\n" for row in measured(name, way, frame))
            print(f"{name}, {way}: done", flush=True)
    if not options.ways:
        page(pd.read_json(file, lines=True))
        decisions(file)


if __name__ == "__main__":
    main()
