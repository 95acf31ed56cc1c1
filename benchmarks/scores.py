"""Scores beyond the runs: ``JAXLAW_DATA=… python -m benchmarks.scores [WAY …] [--keep FILE]``.

A split fits the cheap end of a data set and forecasts the scores of all runs of the other one, by
``jl.forecast_scores``. Each result is a line of JSON in the file of ``--keep``; what is there
already is not made again. Without ways the page's tables are printed of what the file has. Ways:

- ``two-steps``: ``jl.forecast_scores`` as it is, its prior being made of the other sources;
- ``c4``: each task by the loss on C4 in place of its own;
- ``plain``: ``jl.fit`` of chinchilla and of a sigmoid to the final models, without intervals;
- ``published``: OLMo's two steps as its authors fit them (arXiv 2412.04403 and their code).

``--targets`` forecasts the two models that those authors forecast, ``--tasks`` prints which tasks
are at chance or broken.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import jaxlaw as jl

DATA = Path(os.environ.get("JAXLAW_DATA", "."))
SCORES = ("test_acc", "test_len_norm")  # ends of the columns of scores of loss_to_tasks.csv
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
#: Size and tokens of the models that OLMo's authors forecast from 190 M to 1 B.
TARGETS = {"7B": (6887575552, 3945065873408), "13B": (13202396160, 5000088518656)}
#: The loss on C4, of both sets.
C4 = {"olmo": "loss_c4_en", "kempner": "eval/c4_val/CrossEntropyLoss"}
CORPORA = ("fineweb-100b", "fineweb-edu-100b", "slimpajama-chunk1", "smollm-corpus")


class Split(NamedTuple):
    """Runs to fit, runs to forecast, task → columns of loss and score, and who made the runs."""

    fitted: pd.DataFrame
    later: pd.DataFrame
    tasks: dict[str, tuple[str, str]]
    groups: str | None
    source: str


def splits() -> Iterator[tuple[str, Split]]:
    table = pd.read_csv(DATA / "olmo_ladder.csv")
    final = table.loc[table.groupby("run")["step"].idxmax()]
    tasks = {task: (f"bpb_{name}", f"acc_{name}") for task, name in OLMO.items()}
    for count, later in ((2, ["760M"]), (3, ["1B", "3B"]), (4, ["3B"])):
        fitted = table[table["model"].isin(SIZES[:count])]
        name = f"OLMo, 190 M to {SIZES[count - 1]}"
        yield name, Split(fitted, final[final["model"].isin(later)], tasks, "run", "olmo")
    table = pd.read_csv(DATA / "loss_to_tasks.csv").rename(columns={"params": "N", "tokens": "D"})
    tasks = {
        task: (f"eval/downstream/{task}_test_ctx_ce_loss", f"eval/downstream/{column}")
        for task, column in KEMPNER.items()
    }
    for corpus in CORPORA:
        rows = table[table["data"] == corpus]
        top = rows["iso_flop"].max()
        fitted, later = rows[rows["iso_flop"] < 0.3 * top], rows[rows["iso_flop"] == top]
        yield f"Kempner, {corpus}", Split(fitted, later, tasks, None, "kempner")


def forecasts(way: str, split: Split) -> pd.DataFrame:
    """(tasks × runs) task, score, low, high, chance and observed."""
    later = split.later
    at: dict[str, Any] = {"N": later["N"].to_numpy(), "D": later["D"].to_numpy()}
    observed = np.concatenate([later[score] for _, score in split.tasks.values()])
    if way in ("plain", "published"):
        steps = _plain if way == "plain" else _published
        return steps(split, at).assign(observed=observed)
    # The field's library holds fits of these very experiments, later runs included.
    prior, tasks = jl.fitting.field_prior(without=split.source), split.tasks
    if way == "c4":
        tasks = {task: (C4[split.source], score) for task, (_, score) in tasks.items()}
    made = jl.forecast_scores(split.fitted, tasks, at, groups=split.groups, prior=prior)
    mean = made.mean.assign(task="mean", chance=np.nan)
    known = made.table.loc[made.table["score"].notna(), "task"].unique()
    good = [split.tasks[task][1] for task in known]
    every = pd.concat([made.table, mean], ignore_index=True)
    row = later[good].mean(axis=1).to_numpy()
    return every.assign(observed=np.concatenate([observed, row]))


def _plain(split: Split, at: dict[str, Any]) -> pd.DataFrame:
    fitted = split.fitted
    last = fitted if split.groups is None else fitted.loc[fitted.groupby("run")["step"].idxmax()]
    parts = []
    for task, (loss, score) in split.tasks.items():
        first = jl.fit("chinchilla", last[["N", "D", loss]], target=loss)
        second = jl.fit("sigmoid", last, columns={"task_loss": loss}, target=score)
        made = second.predict(task_loss=first.predict(**at))
        parts.append(pd.DataFrame({"task": task, "score": made}))
    return pd.concat(parts).assign(low=np.nan, high=np.nan)


def _published(split: Split, at: dict[str, Any]) -> pd.DataFrame:
    """OLMo's own steps: runs of 1 to 10 times 20 tokens a parameter, each once.

    The loss of a run is the mean of its last five checkpoints. The sigmoid is fitted by least
    squares to running means of five checkpoints, the first tenth of each run left out, and to a
    perfect model: score 1 at loss 0.
    """
    runs = split.fitted[~split.fitted["run"].str.contains("0.5xC|rerun")].sort_values("step")
    parts = []
    for task, (loss, score) in split.tasks.items():
        each = [rows for _, rows in runs.groupby("run")]
        ends = [(r["N"].iloc[-1], r["D"].iloc[-1], r[loss].iloc[-5:].mean()) for r in each]
        late = [r[[loss, score]].iloc[int(np.ceil(0.1 * len(r))) :] for r in each]
        means = pd.concat([rows.rolling(5, min_periods=1).mean() for rows in late]).to_numpy()
        first = jl.fit("chinchilla", pd.DataFrame(ends, columns=["N", "D", "loss"]))
        x, y = np.vstack([means, [1e-6, 1.0]]).T
        second = jl.fit("sigmoid", {"task_loss": x, "accuracy": y}, delta=10.0)
        losses = first.predict(**at)
        made = {"task": task, "loss": losses, "score": second.predict(task_loss=losses)}
        parts.append(pd.DataFrame(made))
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
    # All ways over the same tasks: those of which ``two-steps`` has a forecast.
    good = records[records["error"].notna() & (records["task"] != "mean")]
    forecast = {*good.loc[good["way"] == "two-steps", ["split", "task"]].itertuples(index=False)}
    good = good[[(row.split, row.task) in forecast for row in good.itertuples()]]
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


def targets() -> None:
    """Print what the two ways say of the models of 7 and 13 B parameters."""
    split = dict(splits())["OLMo, 190 M to 1B"]
    N, D = np.array(list(TARGETS.values()), float).T
    theirs = _published(split, {"N": N, "D": D})
    made = jl.forecast_scores(
        split.fitted, split.tasks, {"N": N, "D": D}, groups="run",
        prior=jl.fitting.field_prior(without=split.source),
    )  # fmt: skip
    rows = [made.table, made.mean.assign(task="mean")]
    print("| task | model | published: loss | score | forecast | 90 % |\n|---|---|---|---|---|---|")
    for k, row in pd.concat(rows, ignore_index=True).iterrows():
        cells = [row["task"], list(TARGETS)[k % 2]]
        published = [""] * 2 if row["task"] == "mean" else theirs.iloc[k][["loss", "score"]]
        cells += [f"{number:.4f}" if number else "" for number in published]
        cells += [f"{row['score']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}"]
        print(f"| {' | '.join(cells)} |")


def tasks_in_trouble() -> None:
    """Print which tasks of both sets are refused, and which are at chance in the later runs.

    A task without a loss of its own is held against the loss on c4.
    """
    counts: dict[tuple[str, str], list[str]] = {}
    for name, split in splits():
        tasks = {}
        for score in (c for c in split.fitted if c.startswith("acc_") or c.endswith(SCORES)):
            loss = score.replace("acc_", "bpb_")
            if split.groups is None:
                own = re.sub("_(acc|len_norm)$", "_ctx_ce_loss", score)
                loss = own if own in split.fitted else C4["kempner"]
            task = score.rpartition("/")[2]
            if np.isfinite(jl.forecasting.chance_of(task)):
                tasks[task] = loss, score
        at = {"N": split.later["N"].max(), "D": split.later["D"].max()}
        made = jl.forecast_scores(split.fitted, tasks, at, groups=split.groups).table
        for row in made.itertuples():
            above = split.later[tasks[row.task][1]].mean() - row.chance
            later = "at chance later" if above < 0.01 else "above chance later"
            way = row.note.partition(":")[0].partition(";")[0]
            if np.isfinite(row.score):
                way = f"forecast, noted: {way}" if way else "forecast"
            counts.setdefault((way, later), []).append(f"{row.task} of {name} ({above:+.3f})")
    for (way, later), found in sorted(counts.items()):
        few = f": {', '.join(found)}" if len(found) < 25 else ""
        print(f"- {way}, {later}: {len(found)}{few}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ways", nargs="*")
    parser.add_argument("--keep", default="build/scores.jsonl")
    parser.add_argument("--targets", action="store_true")
    parser.add_argument("--tasks", action="store_true")
    options = parser.parse_args()
    file = Path(options.keep)
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = pd.read_json(file, lines=True) if file.exists() else pd.DataFrame({"split": []})
    warnings.simplefilter("ignore")
    for way in options.ways:
        for name, split in splits():
            if way == "published" and split.groups is None:
                continue
            there = len(kept) and ((kept["split"] == name) & (kept["way"] == way)).any()
            if there:
                continue
            frame = forecasts(way, split)
            with file.open("a", encoding="utf-8") as lines:
                lines.writelines(json.dumps(row) + "\n" for row in measured(name, way, frame))
            print(f"{name}, {way}: done", flush=True)
    if options.targets:
        targets()
    if options.tasks:
        tasks_in_trouble()
    if not (options.ways or options.targets or options.tasks):
        page(pd.read_json(file, lines=True))


if __name__ == "__main__":
    main()
