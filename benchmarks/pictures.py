"""The figures of the chapters: ``[JAXLAW_DATA=…] python benchmarks/pictures.py [NAME…]``.

They are drawn into .github/. A figure of a chapter shows what the snippet of its section
computes: the section's Python is run, and the figure is drawn from the names it leaves behind.
That of the README is made from real runs, and needs their folder.
"""

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import jaxlaw as jl
from jaxlaw import planning, plots
from jaxlaw._axes import BLUE, INK, RED, tidy, write

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".github"
CHAPTERS = ROOT / "jaxlaw"
DPI = 150
Names = Mapping[str, Any]


def mixture(made: Names) -> Figure:
    """The trade-off and its limit; the domain loss over the share, of little domain data."""
    figure, (left, right) = _two()
    made["plan"].plot(left, runs=made["runs"])
    for tokens, color in ((5e7, RED), (1.5e8, BLUE)):
        plan = planning.optimal_mixture_data_limited(
            made["fits"]["domain"], tokens, at={"N": 1.8e9}
        )
        plan.plot(right, color=color)
    return figure


def curve(made: Names) -> Figure:
    """Both losses over the replay ratio; the best ratio over the weight of the old corpus."""
    figure, (left, right) = _two()
    run, fits = made["run"], made["fits"]
    table = planning.final_losses(*fits, run, replay=np.linspace(0, 1, 41)).table
    for corpus, label, color in (("pt", "old corpus", RED), ("cpt", "new corpus", BLUE)):
        change = table[f"change_{corpus}"]
        left.plot(table["replay"], change, color=color, linewidth=1.6)
        place = (0.1, change.iloc[4])
        write(left, label, place, xytext=(0, 5), color=color, fontsize="medium")
    left.axhline(0, color=INK, linewidth=0.8)
    left.set_xlabel("replay ratio")
    left.set_ylabel("change of the loss over the run (nats)")
    tidy(left)
    weights = np.linspace(0, 1, 21)
    planning.optimal_training(*fits, run, weights, {"replay": (0, 1)}).plot(right)
    return figure


def corpus(made: Names) -> Figure:
    """Scores over pretraining tokens, the law, its band and the target."""
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    made["valuation"].plot(ax)
    return figure


def language(made: Names) -> Figure:
    """Contours of equal loss, with the best size, from scratch and from a base."""
    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    plots.isoloss(made["scratch"], (1e18, 1e22), ax, label="from scratch")
    plots.isoloss(made["continual"], (1e18, 1e22), ax, color=RED, label="continual")
    return figure


def turn(made: Names) -> Figure:
    """The trend of the loss with D at every share, and where it turns."""
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    made["turn"].plot(ax)
    return figure


def llama_3() -> pd.DataFrame:
    """Its isoFLOP runs."""
    table = pd.read_csv(Path(os.environ["JAXLAW_DATA"], "isoflops.csv"))
    table = table[(table["source"] == "llama_3") & ~table["outlier"].astype(bool)]
    return table.rename(columns={"params": "N", "tokens": "D"})


def runs_of(table: pd.DataFrame) -> jl.Runs:
    """Runs of them."""
    return jl.read_runs(table[["N", "D", "loss"]], units={"N": 1, "D": 1}, name="isoflops.csv")


def forecast() -> Figure:
    """Llama 3's isoFLOP runs of up to 1e20 FLOPs, a forecast from them, and larger runs.

    What is known beforehand is of the other sources: these runs are in the field's library, too.
    """
    table = llama_3()
    before, later = (
        runs_of(part) for part in (table[table["budget"] <= 1e20], table[table["budget"] > 1e20])
    )
    best = planning.allocation(jl.fit("chinchilla", before), table["budget"].max())
    known = jl.fitting.field_prior(without="llama")
    found = jl.forecast(before, at={"N": best.N, "D": best.D}, prior=known)
    figure, ax = plt.subplots(figsize=(7.2, 3.9), layout="constrained")
    plots.forecast_intervals(found, ax, later=later)
    return figure


#: File → the chapter and the section whose snippet it shows, and what draws it.
PICTURES: dict[str, tuple[str, str, Callable[[Names], Figure]]] = {
    "mixture.png": ("simulate", "Domain mixture ratio", mixture),
    "curve.png": ("simulate", "Replay ratio and peak LR", curve),
    "corpus.png": ("simulate", "Value of a pre-training corpus", corpus),
    "language.png": ("simulate", "Continual pre-training in a new language", language),
    "turn.png": ("papers", "Inflection ratio", turn),
    "run.png": ("forecasting", "A run under way", lambda made: made["found"].plot().figure),
}


#: File → what draws it from the runs in JAXLAW_DATA.
FROM_DATA: dict[str, Callable[[], Figure]] = {"forecast.png": forecast}


def names_of(chapter: str, section: str) -> dict[str, Any]:
    """What the Python of a section of a chapter leaves behind."""
    names: dict[str, Any] = {}
    text = (CHAPTERS / chapter / "README.md").read_text("utf-8").split(f"## {section}\n")[1]
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        try:
            exec(compile(code, section, "exec"), names)
        finally:
            os.chdir(here)
    return names


def _two() -> tuple[Figure, Any]:
    return plt.subplots(1, 2, figsize=(11, 4), layout="constrained")


if __name__ == "__main__":
    matplotlib.use("Agg")
    for name in sys.argv[1:] or [*PICTURES, *FROM_DATA]:
        if name in FROM_DATA:
            figure = FROM_DATA[name]()
        else:
            chapter, section, draw = PICTURES[name]
            figure = draw(names_of(chapter, section))
        figure.savefig(FOLDER / name, dpi=DPI)
        print(FOLDER / name)
