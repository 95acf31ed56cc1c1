"""Which law predicts what it has not seen: data sets × laws, the dear end held out.

    JAXLAW_DATA=… python benchmarks/leaderboard.py [--out leaderboard.md] [--picture board.png]
        [--law mylaw.py:mine …] [--data farseer …]
        [--runs runs.csv --map N=n_params --map D=n_tokens --fit "C < 1e21" --score "C >= 1e21"]

Data sets and splits are those of leaderboard.toml, fixed before laws are scored. Every law is
fitted with its defaults to the rows of ``fit`` and predicts those of ``score``. A law of your own
joins by ``--law``, and takes part wherever it knows the inputs; runs of your own by ``--runs``,
with the columns that are called otherwise and the two conditions.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import jaxlaw as jl

HERE = Path(__file__).parent
LAWS = {
    "size and data": ["chinchilla", "skaling", "farseer", "overtraining", "kaplan-e", "kaplan"],
    "repetition": ["chinchilla", "repetition", "repetition-geometric"],
}
ALL = list(dict.fromkeys(name for names in LAWS.values() for name in names))


class Cell(NamedTuple):
    """How a law did on a split: errors are relative, in per cent."""

    error: float
    bias: float
    worst: float
    r2: float
    seconds: float
    notes: str


def table_of(about: dict[str, Any], folder: Path) -> pd.DataFrame:
    """The rows of a data set, with the names that splits use."""
    table = pd.read_csv(folder / about["file"])
    table = table.assign(**{name: table[column] for name, column in about["columns"].items()})
    if "where" in about:
        table = table.query(about["where"], engine="python")
    return table.assign(C=6 * table["N"] * table["D"]) if {"N", "D"} <= {*table} else table


def scored(law: Any, fitted: pd.DataFrame, held: pd.DataFrame) -> Cell:
    """A law fitted to some runs, and its errors on others."""
    law = jl.laws.get(law)
    columns = [*law.input_names, law.target]
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a fit says of itself is in its notes
        fit = jl.fit(law, fitted[columns])
    seconds = time.perf_counter() - begun
    off = 100 * (fit.predict(held[columns]) / held[law.target].to_numpy() - 1)
    codes = sorted({note.code for note in fit.notes if note.severity != "info"})
    return Cell(
        np.abs(off).mean(), off.mean(), np.abs(off).max(), fit.r2, seconds, ", ".join(codes)
    )


def score_all(sets: dict[str, Any], folder: Path, more: list[Any]) -> Iterator[tuple]:
    """(data set's title, split, rows fitted, rows scored, {law: cell}) of every split."""
    for about in sets.values():
        table = table_of(about, folder)
        known = {*about["columns"]}
        laws = [*LAWS[about["laws"]]]
        laws += [law for law in more if {*jl.laws.get(law).input_names} <= known]
        for split in about["split"]:
            fitted, held = (table.query(split[end], engine="python") for end in ("fit", "score"))
            if not len(fitted) or not len(held):
                sys.exit(f"{about['title']}: '{split['name']}' leaves no rows on one end")
            cells = {jl.laws.get(law).name: scored(law, fitted, held) for law in laws}
            yield about["title"], split["name"], len(fitted), len(held), cells


def published(folder: Path) -> list[str]:
    """Numbers of the sources, reproduced."""
    lines = ["| what | published | here |", "|---|---|---|"]
    runs = jl.read_runs(
        folder / "chinchilla_points.csv", {"N": "n_params", "D": "n_tokens"},
        where="excluded_in_paper_fit == 0",
    )  # fmt: skip
    fit = jl.fit("chinchilla", runs)
    lines.append(
        "| Chinchilla, summed Huber of log residuals (δ 1e-3), 240 points | 0.00101827 "
        f"| {fit.objective:.8f} |"
    )
    repeated = pd.read_csv(folder / "data_constrained.csv").rename(
        columns={"params": "N", "tokens": "D", "unique_tokens": "U"}
    )
    score = jl.published()["muennighoff-2023"].score(repeated)
    lines.append(f"| Muennighoff's numbers on the 182 runs, R² | 0.7722 | {score.r2:.4f} |")
    table = pd.read_csv(folder / "isoflops.csv").rename(columns={"params": "N", "tokens": "D"})
    for name, objective in (("ml_scalefit", 13.1), ("llama_3", 2.3)):
        own = table[table["experiment"].str.startswith(name) & ~table["outlier"].astype(bool)]
        fit = jl.fit("chinchilla", own[["N", "D", "loss"]], residuals="linear")
        lines.append(
            f"| {name}, summed Huber of the loss (δ 1e-3) × 1e6 a run, {len(own)} runs; published "
            f"with exponents on a grid of 0.01 and another cut of outliers | {objective} "
            f"| {fit.objective / len(own) * 1e6:.1f} |"
        )
    return lines


def ranks(folder: Path) -> list[str]:
    """RegMix: the order of unseen mixtures, by a mixing law of 512 others."""
    table = pd.read_csv(folder / "regmix.csv")
    shares = [name for name in table if name.startswith("share_")]
    losses = [name for name in table if name.startswith("loss_")]
    law, found = jl.laws.mixing(shares), {"1m": [], "60m": []}
    fitted = table[(table["model"] == "1m") & (table["split"] == "train")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for loss in losses:
            fit = jl.fit(law, fitted[shares].assign(loss=fitted[loss]), n_starts=256, n_local=8)
            for model, values in found.items():
                held = table[(table["model"] == model) & (table["split"] == "test")]
                both = pd.DataFrame({"law": fit.predict(held[shares]), "real": held[loss]})
                values.append(both.corr("spearman").iloc[0, 1])
    lines = ["| mixing law, 512 mixtures of 17 corpora (1 M models) → 256 unseen | mean rank "
             "correlation of 13 losses | least |", "|---|---|---|"]  # fmt: skip
    for model, values in found.items():
        lines.append(f"| models of {model.upper()} | {np.mean(values):.4f} | {min(values):.4f} |")
    return [*lines, "", "RegMix's LightGBM has 0.9895 on the first (arXiv 2407.01492)."]


def page(rows: list[tuple], laws: list[str]) -> list[str]:
    """The tables of errors, of bias and of seconds, the best of a row in bold."""
    lines = []
    for title, field, digits in (
        ("Mean absolute error on the held-out runs, per cent", "error", 2),
        ("Bias: mean signed error there, per cent", "bias", 2),
        ("Largest error there, per cent", "worst", 2),
        (
            "Seconds of a fit on a shared machine, compiling included where a shape is new",
            "seconds",
            1,
        ),
    ):
        lines += ["", f"## {title}", "", f"| data | split | rows | {' | '.join(laws)} |"]
        lines.append("|---|---|---|" + "---|" * len(laws))
        for data, split, fitted, held, cells in rows:
            values = {name: getattr(cell, field) for name, cell in cells.items()}
            best = min(values, key=lambda name: abs(values[name]))
            shown = [
                "" if name not in values
                else f"**{values[name]:.{digits}f}**" if name == best and field != "seconds"
                else f"{values[name]:.{digits}f}"
                for name in laws
            ]  # fmt: skip
            lines.append(f"| {data} | {split} | {fitted} → {held} | {' | '.join(shown)} |")
    return lines


def draw(rows: list[tuple], laws: list[str], path: Path) -> None:
    """Errors as points, a line for each split, a colour for each law."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(9, 0.36 * len(rows) + 1.2), layout="constrained")
    colours = plt.get_cmap("tab10")
    for k, law in enumerate(laws):
        at = [(cells[law].error, y) for y, (*_, cells) in enumerate(rows) if law in cells]
        ax.scatter(*zip(*at, strict=True), s=36, color=colours(k % 10), label=law, zorder=3)
    for y in range(len(rows)):
        errors = [cell.error for cell in rows[y][4].values()]
        ax.plot([min(errors), max(errors)], [y, y], color="0.85", zorder=1)
    ax.set_yticks(range(len(rows)), [f"{data}: {split}" for data, split, *_ in rows], fontsize=7)
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlabel("mean absolute error on held-out runs, per cent")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(ncols=4, fontsize=7, frameon=False, loc="lower center", bbox_to_anchor=(0.3, 1.0))
    fig.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="page to write; printed otherwise")
    parser.add_argument("--picture", type=Path, help="picture to draw")
    parser.add_argument("--law", action="append", default=[], help="law of your own, FILE.py:LAW")
    parser.add_argument("--data", nargs="*", help="data sets of leaderboard.toml; all by default")
    parser.add_argument("--runs", type=Path, help="CSV of your own runs, in place of those")
    parser.add_argument("--map", action="append", default=[], help="N=column, likewise D, U, loss")
    parser.add_argument("--fit", help="condition of the rows to fit")
    parser.add_argument("--score", help="condition of the rows to score")
    asked = parser.parse_args()
    more = [jl.laws.from_file(text) for text in asked.law]
    if asked.runs is not None:
        if not (asked.fit and asked.score):
            parser.error("--runs needs --fit and --score, conditions such as 'C < 1e21'")
        columns = {"N": "N", "D": "D", "loss": "loss"}
        columns |= dict(text.split("=", 1) for text in asked.map)
        split = {"name": f"{asked.fit} → {asked.score}", "fit": asked.fit, "score": asked.score}
        kind = "repetition" if "U" in columns else "size and data"
        sets = {
            "own": {
                "title": asked.runs.name, "file": asked.runs.name, "columns": columns,
                "laws": kind, "split": [split],
            }
        }  # fmt: skip
        folder, lines = asked.runs.resolve().parent, ["# Your runs"]
    else:
        sets = tomllib.loads((HERE / "leaderboard.toml").read_text("utf-8"))
        unknown = {*(asked.data or ())} - {*sets}
        if unknown:
            parser.error(f"no data set {', '.join(unknown)}; there are {', '.join(sets)}")
        sets = {name: sets[name] for name in asked.data or sets}
        if "JAXLAW_DATA" not in os.environ:
            parser.error("set JAXLAW_DATA to the folder of the files (README.md, Data)")
        folder, lines = Path(os.environ["JAXLAW_DATA"]), [HEAD]
    rows, laws, tables = [], [], []
    for row in score_all(sets, folder, more):
        rows.append(row)
        print(f"{row[0]} | {row[1]}", file=sys.stderr, flush=True)
        laws = [
            name for name in [*ALL, *(law.name for law in more)] if any(name in r[4] for r in rows)
        ]
        tables = page(rows, laws)
        if asked.out is not None:  # what is done stays, however the rest goes
            asked.out.write_text("\n".join([*lines, *tables]) + "\n", "utf-8")
    lines += tables
    if asked.runs is None and not asked.data:
        lines += ["", "## Published cells, reproduced", "", *published(folder)]
        lines += ["", "## Unseen mixtures", "", *ranks(folder)]
    if asked.picture is not None:
        draw(rows, laws, asked.picture)
    text = "\n".join(lines) + "\n"
    if asked.out is None:
        print(text)
    else:
        asked.out.write_text(text, "utf-8")


HEAD = """# Which law predicts what it has not seen

`JAXLAW_DATA=… python benchmarks/leaderboard.py --out leaderboard.md --picture board.png` writes
this page. Data sets and splits are in [leaderboard.toml](leaderboard.toml): every law is fitted,
with its defaults, to the cheap end of a data set and predicts the dear end. Splits are the
sources' own or round numbers; none was changed after a law had been scored on it. N is counted as
the source counts it; losses are in nats per token, Farseer's per byte. Where the files come from is
in the [README](README.md#data). Your own law joins by `--law mylaw.py:mine`, your own runs by
`--runs runs.csv --fit "C < 1e21" --score "C >= 1e21"`.

No law wins everywhere. A mean over a handful of held-out runs is itself uncertain: where two errors
are close, the table does not say which law is better. Not in it yet: how often a forecast's
interval holds the run.

![Errors of every law on every split](../.github/leaderboard.png)"""


if __name__ == "__main__":
    main()
