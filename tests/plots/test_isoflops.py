"""Runs of equal compute: parabolas, the law, and where each budget's loss is lowest."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from tests.conftest import DATA, needs_data, texts

pictures = pytest.importorskip("jaxlaw.plots")
pytestmark = pytest.mark.usefixtures("closed")

BUDGETS = np.array([1e19, 1e20, 1e21])


def parabolas(best, noise=0.0, sizes=9, unit=1.0):
    """Losses that are parabolas over log N, lowest at the given sizes."""
    draw = np.random.default_rng(0)
    rows = []
    for k, (C, lowest) in enumerate(zip(BUDGETS, best, strict=True)):
        N = np.geomspace(lowest / 6, lowest * 6, sizes)
        loss = 3 - 0.2 * k + 0.05 * np.log(N / lowest) ** 2 + noise * draw.normal(size=sizes)
        rows.append(pd.DataFrame({"N": N / unit, "D": C / (6 * N) / unit, "loss": loss}))
    return pd.concat(rows, ignore_index=True)


def diamonds(ax):
    """Lowest points: N, loss, and whether each is hollow."""
    marks = [one for one in ax.collections if len(one.get_sizes()) and one.get_sizes()[0] == 34]
    at = np.concatenate([np.asarray(one.get_offsets()) for one in marks])
    return at, [bool((one.get_facecolors()[0, :3] == 1).all()) for one in marks]


def bars(ax):
    """The intervals, (k, 2)."""
    return np.array([line.get_xdata() for line in ax.lines if line.get_linewidth() == 4])


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_parabolas_find_the_best_sizes(ax, unit):
    best = [4e8, 1.2e9, 4e9]
    runs = jl.read_runs(parabolas(best, unit=unit), units={"N": unit, "D": unit})
    assert pictures.isoflops(runs, ax) is ax
    at, hollow = diamonds(ax)
    np.testing.assert_allclose(at, np.transpose([best, [3.0, 2.8, 2.6]]), rtol=1e-9)
    assert not any(hollow) and {"10¹⁹", "10²⁰", "10²¹"} <= set(texts(ax))
    assert ax.get_xlabel() == "model parameters N"


def test_intervals_of_parabolas_hold_the_truth_as_often_as_they_say(ax):
    """The delta method against its own claim, over many repetitions of the noise."""
    held, draw = [], np.random.default_rng(1)
    for _ in range(60):
        table = parabolas([1e9] * 3)
        table["loss"] += 0.004 * draw.normal(size=len(table))
        ax.clear()
        pictures.isoflops(table, ax, level=0.9)
        held += [(low <= 1e9 <= high) for low, high in bars(ax)]
    assert len(held) == 180 and 0.84 < np.mean(held) < 0.96
    assert "bars: 90% of the best size" in ax.get_title()


def test_a_lowest_point_beyond_the_runs_is_a_bound(ax):
    """A sweep that ends before the minimum has no best size, only a run that is best so far."""
    table = parabolas([1e9] * 3)
    first = table["D"] * table["N"] * 6 < 2e19
    table = table[~first | (table["N"] < 6e8)]
    pictures.isoflops(table, ax)
    at, hollow = diamonds(ax)
    assert hollow == [True, False, False] and "hollow: beyond its runs" in ax.get_title()
    assert at[0, 0] == pytest.approx(table["N"][first].max())
    assert len(bars(ax)) == 2


@needs_data
def test_real_runs_of_equal_compute(ax):
    """Llama 3's eight budgets are found among their runs, and their best sizes grow as C^0.5."""
    table = pd.read_csv(Path(DATA) / "isoflops.csv").query("source == 'llama_3' and not outlier")
    runs = jl.read_runs(table, columns={"N": "params", "D": "tokens"}, units={"N": 1, "D": 1})
    pictures.isoflops(runs, ax)
    at, hollow = diamonds(ax)
    assert len(at) == table["budget"].nunique() == 8 and not any(hollow)
    slope = np.polyfit(np.log(np.sort(table["budget"].unique())), np.log(at[:, 0]), 1)[0]
    assert 0.4 < slope < 0.6
