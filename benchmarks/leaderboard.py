"""Which law predicts what it has not seen: data sets × laws, the expensive end held out.

    JAXLAW_DATA=… python benchmarks/leaderboard.py [--out leaderboard.md] [--picture board.png]
        [--page leaderboard.md: draw the picture of a page that was written before]
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import curves
import numpy as np
import pandas as pd

import jaxlaw as jl
from jaxlaw._axes import BLUE, FAINT, GREEN, INK, RED
from jaxlaw._jit import size_class
from jaxlaw.fitting import _problem, field_prior
from jaxlaw.forecasting import default_law

HERE = Path(__file__).parent
# Columns that are no single law: the forecast as users have it, but for the set's own source, which
# its prior leaves out; least squares.
FORECAST, REGRESSION = "forecast", "regression"
# The law of vocabularies as its authors have it.
ADDITIVE = "vocabulary, γ = 0"
OF_COLUMN = {ADDITIVE: "vocabulary"}
FIXED = {ADDITIVE: {"gamma": 0.0}}
#: Kinds of data whose sources publish R² on the held-out runs.
WITH_R2 = ("experts", "settings", "vocabularies")
#: Kind of data → columns of its table.
COLUMNS = {
    "size and data": [
        "chinchilla", "skaling", "farseer", "overtraining", "kaplan-e", "kaplan", FORECAST,
    ],
    "repetition": ["chinchilla", "repetition", "repetition-geometric", FORECAST],
    "experts": ["clark", "routed-loss-size", FORECAST],
    "schedules": ["annealing", "multi-power"],
    "mixtures": ["mixing", "additive", "bimix", "dcpt", REGRESSION],
    "settings": ["chinchilla", "skaling", "tuned-chinchilla", "tuned-skaling"],
    "vocabularies": [ADDITIVE, "vocabulary"],
}  # fmt: skip
FLOORS = {"mixing": ["c"], "additive": ["E"]}  # of each group its own, where runs have groups
LEVEL = 0.9
ROWS = 448  # that every table is padded to, so that each law is compiled once for all of them


class Cell(NamedTuple):
    """How a law did on a split: errors and interval scores are relative, in per cent."""

    error: float
    bias: float
    worst: float
    inside: float | None = None
    interval_score: float | None = None
    seconds: float | None = None
    r2: float | None = None


class Row(NamedTuple):
    """A split: its data, the number of rows fitted and scored, column → cell, published R²."""

    data: str
    split: str
    fitted: int
    held: int
    cells: dict[str, Cell]
    published: str = ""


def table_of(about: dict[str, Any], folder: Path) -> pd.DataFrame:
    """The rows of a data set, with the names that splits use."""
    table = pd.read_csv(folder / about["file"])
    columns = about.get("columns", {})
    for name, column in columns.items():  # a column, or a formula of those before it
        known = column in table
        table[name] = table[column] if known else table.eval(column, engine="python")
    if "where" in about:
        table = table.query(about["where"], engine="python")
    return table.assign(C=6 * table["N"] * table["D"]) if {"N", "D"} <= {*table} else table


def cell_of(predicted: Any, observed: Any, seconds: float | None = None) -> Cell:
    """The errors of predictions, all numbers of them together."""
    observed = np.asarray(observed, float)  # unigram-normalised losses are negative
    off = 100 * ((np.asarray(predicted, float) / observed - 1) * np.sign(observed)).ravel()
    return Cell(np.abs(off).mean(), off.mean(), np.abs(off).max(), seconds=seconds)


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    """A fit and the seconds it took."""
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about a fit are in its notes
        return fit(), time.perf_counter() - begun


def scored(law: Any, fitted: pd.DataFrame, held: pd.DataFrame, fixed: dict[str, float]) -> Cell:
    """A law fitted to some runs, and its errors on others."""
    columns = [*law.input_names, law.target]
    fit, seconds = timed(lambda: jl.fit(law, fitted[columns], fixed=fixed))
    predicted, observed = fit.predict(held[columns]), held[law.target]
    r2 = 1 - ((observed - predicted) ** 2).sum() / ((observed - observed.mean()) ** 2).sum()
    return cell_of(predicted, observed, seconds)._replace(r2=r2)


def forecast_of(
    fitted: pd.DataFrame, held: pd.DataFrame, about: dict[str, Any], inputs: list[str], target: str
) -> Cell:
    """The forecast of the default law, with what the field knows without the set's own source."""
    source = about.get("source")  # runs of one's own are of none that the field has
    prior = field_prior(without=(source,) if source else ())
    runs = jl.read_runs(fitted[[*inputs, target]], units=dict.fromkeys(inputs, 1))
    names = list(jl.laws.get(default_law(runs)).input_names)
    table = jl.forecast(runs, held[names], prior=prior, level=LEVEL).table
    observed = held[target].to_numpy(float)
    low, high = table["low"].to_numpy(), table["high"].to_numpy()
    missed = np.maximum(low - observed, 0) + np.maximum(observed - high, 0)
    return cell_of(table["estimate"], observed)._replace(
        inside=100 * (missed == 0).mean(),
        interval_score=100 * ((high - low + 2 / (1 - LEVEL) * missed) / observed).mean(),
    )


def of_runs(about: dict[str, Any], split: dict[str, str], folder: Path, more: list[Any]) -> Row:
    """Laws of the inputs of single runs, beyond those that they are fitted to."""
    table = table_of(about, folder)
    fitted, held = (table.query(split[end], engine="python") for end in ("fit", "score"))
    if not len(fitted) or not len(held):
        sys.exit(f"{about['title']}: '{split['name']}' leaves no rows on one end")
    names = COLUMNS[about["laws"]]
    laws = {name: jl.laws.get(OF_COLUMN.get(name, name)) for name in names if name != FORECAST}
    laws |= {law.name: law for law in more if {*law.input_names, law.target} <= {*table}}
    cells = {name: scored(law, fitted, held, FIXED.get(name, {})) for name, law in laws.items()}
    if FORECAST in names:
        inputs = list(dict.fromkeys(name for law in laws.values() for name in law.input_names))
        cells[FORECAST] = forecast_of(fitted, held, about, inputs, laws[names[0]].target)
    return Row(
        about["title"], split["name"], len(fitted), len(held), cells, split.get("published", "")
    )


def schedules(
    about: dict[str, Any], split: dict[str, Any], folder: Path, more: list[Any]
) -> Row:  # fmt: skip
    """Laws of loss curves, on schedules that none of the fitted curves followed."""
    known = {name for law in COLUMNS["schedules"] for name in jl.laws.get(law).input_names}
    more = [law for law in more if {*law.input_names} <= known]
    size, cells = split["size"], {}
    held = curves.curves_of(size).only(where=split["score"]).table
    data = curves.curves_of(size).only(where=split["fit"])
    for law in [*map(jl.laws.get, COLUMNS["schedules"]), *more]:
        fit, seconds = timed(lambda law=law: jl.fit(law, data))
        predicted = [
            fit.predict_curve(curves.schedules_of_data()[run], curve["step"])["loss"].to_numpy()
            for run, curve in held.groupby("run")
        ]
        observed = [curve["loss"].to_numpy() for _, curve in held.groupby("run")]
        cells[law.name] = cell_of(np.concatenate(predicted), np.concatenate(observed), seconds)
    return Row(about["title"], split["name"], len(data.table), len(held), cells)


def mixtures(about: dict[str, Any], split: dict[str, Any], folder: Path, more: list[Any]) -> Row:
    """Laws of several shares, on mixtures that were not run; all losses of a table together.

    Beside them stands least squares of the log loss on the shares. A law that does not know what
    the runs differ in takes it for a group, with a floor of its own.
    """
    table = table_of(about, folder)
    shares, losses = (
        [name for name in table if name.startswith(about[what])] for what in ("shares", "losses")
    )
    table, groups = table.dropna(subset=losses), about.get("groups")
    if groups:
        table = table.assign(group=table[groups])
    fitted, held = (table.query(split[end], engine="python") for end in ("fit", "score"))
    labels = sorted(fitted[groups].unique()) if groups else []

    def regressors(rows: pd.DataFrame) -> np.ndarray:
        own = [rows[groups] == label for label in labels] or [np.ones(len(rows))]
        return np.column_stack([*own, rows[shares[1:]]]).astype(float)

    observed, cells = held[losses].to_numpy().T, {}
    own_laws = {law.name: law for law in more if {*law.input_names} <= {*fitted, "r"}}
    for name in [*split["compared"], *own_laws]:
        if name == REGRESSION:
            logs = np.log(fitted[losses].to_numpy())
            lines = np.linalg.lstsq(regressors(fitted), logs)[0]
            cells[name] = cell_of(np.exp(regressors(held) @ lines).T, observed)
            continue
        scale = "N" in fitted and fitted["N"].nunique() > 1
        law = own_laws.get(name) or law_of_shares(name, shares, scale)
        if groups and groups not in law.input_names and name in FLOORS:
            law = jl.laws.grouped(law, labels, own=FLOORS[name])
        predicted, seconds = [], 0.0
        for loss in losses:
            share = about["shares"] + loss.removeprefix(about["losses"])
            runs, points = (
                rows.assign(r=rows.get(share))[[*law.input_names]] for rows in (fitted, held)
            )
            runs = jl.read_runs(
                runs.assign(loss=fitted[loss]), units={n: 1 for n in ("N", "D") if n in runs}
            )
            fit, of_loss = timed(
                lambda runs=runs, law=law: jl.fit(law, runs, n_starts=256, n_local=8)
            )
            predicted.append(fit.predict(points))
            seconds += of_loss
        cells[name] = cell_of(predicted, observed, seconds)
    return Row(about["title"], split["name"], len(fitted), len(held), cells)


def law_of_shares(name: str, shares: list[str], scale: bool = False) -> Any:
    """A law of several shares, with size and tokens where these differ."""
    if name == "additive":
        return jl.laws.additive(shares, scale=scale)
    return jl.laws.mixing(shares) if name == "mixing" else jl.laws.get(name)


SCORERS = {
    **dict.fromkeys(COLUMNS, of_runs), "schedules": schedules, "mixtures": mixtures,
}  # fmt: skip


def score_all(sets: dict[str, Any], folder: Path, more: list[Any]) -> Iterator[tuple[str, Row]]:
    """(kind of data, row) of every split."""
    for about in sets.values():
        for split in about["split"]:
            yield about["laws"], SCORERS[about["laws"]](about, split, folder, more)


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
    # Published of all rows, those that its curators leave out of their own analysis as well.
    for name, objective in (("ml_scalefit", 13.1), ("llama_3", 2.3)):
        own = table[table["experiment"].str.startswith(name)]
        fit = jl.fit("chinchilla", own[["N", "D", "loss"]], residuals="linear")
        lines.append(
            f"| {name}, summed Huber of the loss (δ 1e-3) × 1e6 a run, all {len(own)} runs; "
            f"published with exponents on a grid of 0.01 | {objective} "
            f"| {fit.objective / len(own) * 1e6:.1f} |"
        )
    for size, (r2, error) in curves.PUBLISHED.items():
        counted = curves.fitted_on(size).runs(count_warmup=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its optimum is of no interest here
            any_fit = jl.fit("multi-power", counted, n_starts=16, n_local=2)
        here = curves.held_out(curves.published(size, any_fit), size)
        lines.append(
            f"| Multi-power law at its published numbers, {size} M, six unseen schedules: R², mean "
            f"absolute error | {r2}, {error} | {here[0]:.4f}, {here[1]:.5f} |"
        )
    return lines


def ranks(folder: Path) -> list[str]:
    """RegMix: the order of unseen mixtures, by laws of 512 others."""
    table = pd.read_csv(folder / "regmix.csv")
    shares = [name for name in table if name.startswith("share_")]
    losses = [name for name in table if name.startswith("loss_")]
    fitted = table[(table["model"] == "1m") & (table["split"] == "train")]
    lines = ["| 512 mixtures of 17 corpora (1 M models) → 256 unseen: mean rank correlation of 13 "
             "losses (least) | models of 1M | models of 60M |", "|---|---|---|"]  # fmt: skip
    for name in ("mixing", "additive"):
        law, values = law_of_shares(name, shares), {"1m": [], "60m": []}
        for loss in losses:
            runs = fitted[shares].assign(loss=fitted[loss])
            fit, _ = timed(lambda runs=runs, law=law: jl.fit(law, runs, n_starts=256, n_local=8))
            for model, correlations in values.items():
                unseen = table[(table["model"] == model) & (table["split"] == "test")]
                both = pd.DataFrame({"law": fit.predict(unseen[shares]), "real": unseen[loss]})
                correlations.append(both.corr("spearman").iloc[0, 1])
        shown = (f"{np.mean(each):.4f} ({min(each):.4f})" for each in values.values())
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return [*lines, "", "RegMix's LightGBM has 0.9895 on the first (arXiv 2407.01492)."]


def of_tasks() -> list[str]:
    """Scores of tasks: the mean errors on the page of scores, a column a way, a row a split."""
    page = (HERE / "scores.md").read_text("utf-8")
    cells = [line.strip("| ").split(" | ") for line in page.splitlines()]
    errors = {(row[0], row[1]): row[3].rstrip("%") for row in cells if row[1:2] and row[1] in WAYS}
    lines = [f"| fitted → forecast | {' | '.join(WAYS)} |", "|---|" + "---|" * len(WAYS)]
    for split in dict.fromkeys(split for split, _ in errors):
        own = [errors.get((split, way), "") for way in WAYS]
        best = min(filter(None, own), key=float)
        shown = (f"**{error}**" if error == best else error for error in own)
        lines.append(f"| {split} | {' | '.join(shown)} |")
    return lines


#: Ways from runs to scores, as the page of scores has them.
WAYS = ("plain", "published", "two-steps")
METRICS = (
    ("Mean absolute error on the held-out runs, per cent", "error", 2),
    ("Bias: mean signed error there, per cent", "bias", 2),
    ("Largest error there, per cent", "worst", 2),
    ("R² there, where the sources publish it", "r2", 3),
    ("Share of the held-out runs inside the 90 % interval of the forecast, per cent", "inside", 0),
    ("Interval score of these intervals, per cent of the loss", "interval_score", 2),
    ("Seconds of a fit on a shared machine, compiling included where a law is new", "seconds", 1),
)


def page(rows: list[tuple[str, Row]], more: list[str]) -> list[str]:
    """A section for each metric, in it a table for each kind of data; the best of a row in bold."""
    lines = []
    for title, field, digits in METRICS:
        lines += ["", f"## {title}"]
        for kind, columns in COLUMNS.items():
            own = [row for one, row in rows if one == kind]
            if field == "r2" and kind not in WITH_R2:
                continue
            have = {name for row in own for name, cell in row.cells.items()
                    if getattr(cell, field) is not None}  # fmt: skip
            names = [name for name in [*columns, *more] if name in have]
            extra = ["published"] if field == "r2" else []
            if names:
                lines += ["", f"| data | split | rows | {' | '.join([*names, *extra])} |"]
                lines.append("|---|---|---|" + "---|" * len([*names, *extra]))
            for row in own if names else []:
                values = {
                    name: value
                    for name, cell in row.cells.items()
                    if (value := getattr(cell, field)) is not None
                }
                best = min(values.values(), key=abs, default=None)
                if field == "r2":
                    best = max(values.values(), default=None)
                shown = [
                    "" if name not in values
                    else f"**{values[name]:.{digits}f}**"
                    if values[name] == best and field not in ("inside", "seconds")
                    else f"{values[name]:.{digits}f}"
                    for name in names
                ]  # fmt: skip
                shown += [row.published] if extra else []
                lines.append(
                    f"| {row.data} | {row.split} | {row.fitted} → {row.held} "
                    f"| {' | '.join(shown)} |"
                )
    return lines


#: Law → how it is marked: told apart by shape, and by lightness, in grey too.
MARKS = (
    ("o", BLUE), ("s", RED), ("^", GREEN), ("v", FAINT), ("P", BLUE), ("X", RED), ("<", GREEN),
    (">", BLUE),
)  # fmt: skip


OF_FORECASTS = {FORECAST: ("D", INK)}


def draw(text: str, path: Path) -> None:
    """Errors as points, from the first section of the page: a panel for each family of laws.

    Args:
        text: page as :func:`page` writes it.
        path: file of the picture.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    section = text.split("\n## ", 2)[1].split("\n## ")[0]
    tables = [block.splitlines() for block in section.split("\n\n") if block.startswith("| data")]
    cells = [[line.strip("| ").split(" | ") for line in table] for table in tables]
    counts = [len(rows) - 2 for rows in cells]
    fig, panels = plt.subplots(
        len(cells), figsize=(6.4, 0.36 * sum(counts) + 0.75 * len(cells) + 0.4), sharex=True,
        height_ratios=[count + 1 for count in counts], layout="constrained",
    )  # fmt: skip
    for (head, _, *rows), ax, family in zip(cells, np.atleast_1d(panels), COLUMNS, strict=True):
        for k, law in enumerate(head[3:]):
            column = [row[k + 3].strip(" *") if k + 3 < len(row) else "" for row in rows]
            at = [(float(cell), y) for y, cell in enumerate(column) if cell]
            marker, color = OF_FORECASTS.get(law, MARKS[k])
            ax.scatter(*zip(*at, strict=True), s=26, marker=marker, color=color, label=law,
                       zorder=3, alpha=0.9, linewidths=0)  # fmt: skip
        for y, row in enumerate(rows):
            errors = [float(cell.strip(" *")) for cell in row[3:] if cell.strip(" *")]
            ax.plot([min(errors), max(errors)], [y, y], color="0.85", zorder=1)
        labels = [f"{shortened(row[0].split(' (')[0])}\n{shortened(row[1])}" for row in rows]
        ax.set_yticks(range(len(rows)), labels, fontsize=7)
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g} %")
        ax.tick_params(left=False)
        ax.set_title(family, loc="left", fontsize=9, fontweight="bold", color=INK, x=-0.42)
        ax.legend(ncols=4, fontsize=7, frameon=False, loc="lower left", handletextpad=0.1,
                  columnspacing=0.9, bbox_to_anchor=(-0.08, 0.99))  # fmt: skip
        ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel("mean absolute error on runs that were held out")
    fig.savefig(path, dpi=150)


def shortened(text: str, most: int = 42) -> str:
    """A text of at most so many letters."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="page to write; printed otherwise")
    parser.add_argument("--picture", type=Path, help="picture to draw")
    parser.add_argument("--page", type=Path, help="page written before, of which to draw it")
    parser.add_argument("--law", action="append", default=[], help="law of your own, FILE.py:LAW")
    parser.add_argument("--data", nargs="*", help="data sets of leaderboard.toml; all by default")
    parser.add_argument("--runs", type=Path, help="CSV of your own runs, in place of those")
    parser.add_argument("--map", action="append", default=[], help="N=column, likewise D, U, loss")
    parser.add_argument("--fit", help="condition of the rows to fit")
    parser.add_argument("--score", help="condition of the rows to score")
    asked = parser.parse_args()
    if asked.page is not None:
        draw(asked.page.read_text("utf-8"), asked.picture)
        return
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
    # The same fits, and each law is compiled for one length of table instead of a dozen.
    _problem.size_class = lambda rows, width=1: max(size_class(rows, width), ROWS)
    rows, tables, own = [], [], [law.name for law in more]
    for kind, row in score_all(sets, folder, more):
        rows.append((kind, row))
        print(f"{row.data} | {row.split}", file=sys.stderr, flush=True)
        tables = page(rows, own)
        if asked.out is not None:  # what is done stays, however the rest goes
            asked.out.write_text("\n".join([*lines, *tables]) + "\n", "utf-8")
    lines += tables
    if asked.runs is None and not asked.data:
        lines += ["", "## Rank correlations on unseen mixtures", "", *ranks(folder)]
        lines += ["", "## Published cells, reproduced", "", *published(folder)]
        lines += ["", OF_TASKS, "", *of_tasks()]
    text = "\n".join(lines) + "\n"
    if asked.picture is not None:
        draw(text, asked.picture)
    if asked.out is None:
        print(text)
    else:
        asked.out.write_text(text, "utf-8")


OF_TASKS = """## Scores of tasks: mean relative error of the runs forecast, per cent

From the losses and scores of small models to the scores of larger ones. The ways, tasks and
intervals are those of [scores.md](scores.md), and the numbers are that page's."""

HEAD = """# Which law predicts what it has not seen

`JAXLAW_DATA=… python benchmarks/leaderboard.py --out leaderboard.md --picture board.png` writes
this page. Data sets and splits are in [leaderboard.toml](leaderboard.toml): every law is fitted,
with its defaults, to the cheap end of a data set and predicts the expensive end. Splits are the
sources' own or round numbers; none was changed after a law had been scored on it. N is counted as
the source counts it; losses are in nats per token, Farseer's per byte. Where the files come from is
in the [README](README.md#data). Your own law joins by `--law mylaw.py:mine`, your own runs by
`--runs runs.csv --fit "C < 1e21" --score "C >= 1e21"`.

No law wins everywhere. A mean over a handful of held-out runs is itself uncertain: where two
errors are close, the table does not say which law is better. Over the 15 splits
of size and data the forecast errs by 0.66 % in the mean (skaling 0.89, chinchilla 1.69); its 90 %
intervals hold 89 % of the runs (mean of the splits), with an interval score of 3.9 %. They fail
where tokens per parameter are held out (Farseer, longest D: 17 % inside), and on many more
repetitions of the tokens than were fitted, of which no law knows (7 to 14 % of error; 23 % inside).

- **forecast** is `jl.forecast` as users have it, with the default law and `prior="field"`, but
  for the set's own source, which the prior leaves out. The interval score (Gneiting and Raftery
  2007) is the width, and 20 times what a run lies outside by: low is good, and a wide interval
  that holds all is not.
- **Experts** (ScaleBench's split of Clark's routed models; no D, and no prior for these laws):
  routed-loss-size, which has a floor, explains 81 % of the variance of the held-out losses, clark
  64 %.
- **Settings** are the sweeps of learning rate and batch of [tuning.md](tuning.md), which has
  more cells and regret. ScaleBench's own target, another cell of 1.07 B parameters, is not
  public: of it R² of 0.04 (all data) and 0.22 (its own method) are published. Laws without
  these inputs are fitted to all settings. The 17 cells, which are 17 of the 41 with all their
  runs, hold runs that diverged: of the 165 that are scored 14 lie 20 % and more above the
  lowest of their cell, up to a loss of 7.2, which no law of this kind predicts.
- **Vocabularies** (Tao's runs): γ = 0 is the authors' form, and its fit does not settle: the
  ends of the ranges of E and α are as good. Which form the law has was decided by vocabularies
  and sizes of the fitted part. Losses lie near 0 at the beginning of small runs, so that the
  largest relative errors there mean little.
- The column **forecast** was made later than the rest of this page.
- Unseen schedules and unseen mixtures are no matter of distance, and have no such intervals.
- The loss curves are real runs (Luo 2025): laws are fitted to three schedules and predict the
  points of six others.
- On mixtures a law has size and tokens as inputs where the runs differ in them and it knows them;
  otherwise each group of runs has a floor of its own. **bimix** and **dcpt** know the share of the
  loss's own corpus alone; bimix is infinite without it, which is why it stands in one row.
  **regression** is least squares of the log loss on the shares. The additive law is the best on
  mixtures that were not run, by a factor of 3 on RegMix and on the four sizes; of models twice as
  large as the largest that were fitted it errs by 2.35 %, mostly upwards, and dcpt by 3.11 %.

![Errors of every law on every split](../.github/leaderboard.png)"""


if __name__ == "__main__":
    main()
