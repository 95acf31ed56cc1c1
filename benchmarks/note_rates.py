"""How often a bootstrap's note on its search is right: resamples that missed their optimum.

    python benchmarks/note_rates.py [LAW:ROWS …]      # minutes a law

Each law is fitted to evenly spaced rows of its own experiment (noise 0.4 %, three seeds) and
bootstrapped twice: as by default, and with 512 starts, all solved wherever a resample is searched
at all. A resample has missed its optimum where any of the two is better by more than 1e-6. What the
note warns of is that intervals are not those of the optima: by how much of their width the ends of
95 % intervals of two predictions move, at most.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import warnings

import numpy as np

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.fitting import _multistart as search

RESAMPLES, SEEDS, STARTS = 60, 3, 512
CASES = (
    "chinchilla:12", "chinchilla:30", "kaplan:20", "dcpt:30", "dcpt-l2:30", "cpt-curve:30",
    "cpt-curve-unknown-base:30", "cpt-curve-replay-cpt-unknown-base:40", "rectified:12",
)  # fmt: skip
DEFAULT = (search.CHEAP, search.SURE)


def bootstraps(fit, table):
    """The default one, and the one that solves all starts of what it searches."""
    for (search.CHEAP, search.SURE), starts in ((DEFAULT, 64), ((2**40, 2.0), STARTS)):
        yield jl.bootstrap(fit, table, n_resamples=RESAMPLES, n_starts=starts, progress=False)
    search.CHEAP, search.SURE = DEFAULT


def row(law, rows, seed):
    """What came of one experiment, as cells."""
    made = simulate.experiment(law, noise=0.004, seed=seed)
    table = made.table
    rows = min(rows, len(table))
    few = table.iloc[np.linspace(0, len(table) - 1, rows).round().astype(int)]
    both = list(bootstraps(jl.fit(law, few, progress=False), few))
    own, objective = both[0].refits, np.stack([boot.refits.objective for boot in both])
    missed = own.objective > objective.min(axis=0) * (1 + search.AGREE) + 1e-30
    again = own.n_solved > search.OWN_STARTS
    points = {k: np.array([table[k].median(), table[k].max()]) for k in made.law.input_names}
    one, other = (np.nanpercentile(b.predict(**points), [2.5, 97.5], axis=0) for b in both)
    moved = (np.abs(one - other).max(axis=0) / (other[1] - other[0])).max()
    noted = any(note.code == "resamples-disagree" for note in both[0].notes)
    return (
        law, rows, seed, f"{missed.mean():.0%}", f"{missed[again].sum()} of {again.sum()}",
        f"{missed[~again].sum()} of {(~again).sum()}", f"{moved:.1%}", "yes" if noted else "",
    )  # fmt: skip


def main() -> None:
    """Print one row an experiment."""
    warnings.simplefilter("ignore")
    print("| law | rows | seed | missed | if searched again | if not | ends moved | noted |")
    print("|---|---|---|---|---|---|---|---|")
    for case in sys.argv[1:] or CASES:
        law, rows = case.split(":")
        for seed in range(SEEDS):
            print(f"| {' | '.join(map(str, row(law, int(rows), seed)))} |", flush=True)


if __name__ == "__main__":
    main()
