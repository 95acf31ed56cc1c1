"""Intervals of the real chinchilla points, against the published bootstrap's.

    JAXLAW_DATA=… python benchmarks/uncertainty.py        # a minute

Besiroglu 2024 fitted 240 runs read off a figure of Hoffmann 2022 and resampled them 4,000 times.
"""

import numpy as np
from multistart import chinchilla_runs

import jaxlaw as jl

PUBLISHED = {
    "E": (0.0257, 1.769, 1.871),
    "A": (124.5, 285.2, 743.6),
    "B": (1293, 1042, 5810),
    "alpha": (0.0154, 0.317, 0.373),
    "beta": (0.0206, 0.331, 0.415),
}


def compared(found):
    """Standard errors as ratios, ends of intervals as shares of the published width."""
    print("\n| | standard error | published | ratio | 95 % interval | published | ends off by |")
    print("|---|---|---|---|---|---|---|")
    for row in found.to_dict("records"):
        error, *ends = PUBLISHED[row["parameter"]]
        mine, theirs = np.array([row["low"], row["high"]]), np.array(ends)
        if row["parameter"] in "AB":
            mine, theirs = np.log(mine), np.log(theirs)
        off = np.abs(mine - theirs).max() / np.ptp(theirs)
        print(f"| {row['parameter']} | {row['std_err']:.4g} | {error:g} | "
              f"{row['std_err'] / error:.2f} | {row['low']:.4g}, {row['high']:.4g} | "
              f"{ends[0]:g}, {ends[1]:g} | {off:.1%} |")  # fmt: skip


def main():
    runs, kind = chinchilla_runs()
    fit = jl.fit("chinchilla", runs, progress=False)
    print(f"# {kind}, {len(runs)} runs; A and B compared on the log scale")
    for way in ("case", "wild"):
        print(f"\n## Bootstrap, {way}, 4,000 resamples", end="")
        found = jl.bootstrap(fit, runs, 4000, kind=way, progress=False)
        print(f" ({np.mean(found.refits.agreement == 1):.1%} with all starts at one optimum)")
        compared(found.conf_int(0.95))
    print("\n## Sandwich")
    compared(jl.covariance(fit, runs).conf_int(0.95))
    print("\n## Profile\n\n| | 95 % interval | published |\n|---|---|---|")
    for name, (_, low, high) in PUBLISHED.items():
        found = jl.profile(fit, runs, name, level=0.95).interval[name]
        print(f"| {name} | {found[0]:.4g}, {found[1]:.4g} | {low:g}, {high:g} |")


if __name__ == "__main__":
    main()
