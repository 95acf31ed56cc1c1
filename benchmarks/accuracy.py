"""Digits of agreement with NIST's certified results: 27 least-squares problems.

    JAXLAW_DATA=… python benchmarks/accuracy.py [--problems NAME …]

Every problem of ``tests/fixtures/nist.py`` is fitted from its file's first start alone and from
its second alone, by both solvers, and by a default fit, which is given the law and its ranges
only. Digits are −log10 |found − certified| / |certified|, the least over the parameters, from 0
to 11, as many as are certified. Marks:

- ``~``: digits after like terms (peaks, exponentials) have changed places, which changes
  nothing about the model; as found, the parameters agree in fewer digits;
- ``*``: the fit itself says not to rely on it (status, solvers that differ, poor-fit).
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import jaxlaw as jl

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fixtures.nist import (  # noqa: E402
    LAWS,
    SQUARES,
    Problem,
    digits,
    fit_default,
    folder,
    in_order,
    law_of,
    parameters,
    read,
    squares_and_deviations,
)

ENOUGH = 6  # digits that count as a hit
COLUMNS = (
    "newton, start 1", "newton, start 2", "lbfgs, start 1", "lbfgs, start 2", "default",
    "deviations", "squares",
)  # fmt: skip


def fit_from(law: jl.Law, problem: Problem, start: int, solver: str) -> jl.Fit:
    """A fit from one of the file's two starts (0 or 1) alone."""
    starts = problem.starts[start : start + 1]
    return jl.fit(law, problem.data, starts=starts, n_local=False, solver=solver, **SQUARES)


def attempt(fit: Callable[..., jl.Fit], *arguments) -> jl.Fit | str:
    """The fit, or the first words of what it failed with."""
    try:
        return fit(*arguments)
    except Exception as error:  # whatever it is, the other problems go on
        return " ".join(f"{type(error).__name__}: {error}".split()[:8])


def doubted(fit: jl.Fit) -> bool:
    """Whether the fit itself says not to rely on it."""
    poor = any(note.code == "poor-fit" for note in fit.notes)
    return fit.status != "converged" or poor or "L-BFGS differ" in str(fit.notes)


def measure(problem: Problem) -> tuple[list[float], list[str], str]:
    """Digits by column, their marks, and the status and notes of the default fit."""
    law = law_of(problem)
    fits = [
        attempt(fit_from, law, problem, start, solver)
        for solver in ("newton", "lbfgs")
        for start in (0, 1)
    ]
    fits.append(attempt(fit_default, law, problem))
    matched, marks, at = [], [], None
    for fit in fits:
        if isinstance(fit, str):
            matched.append(0.0)
            marks.append(f" ({fit})")
            continue
        at = in_order(problem, parameters(fit))
        matched.append(digits(at, problem.certified))
        moved = not np.array_equal(at, parameters(fit))
        marks.append("~" * moved + "*" * doubted(fit))
    if isinstance(fit, str):
        return [*matched, 0.0, 0.0], [*marks, "", ""], "failed"
    squares, deviations = squares_and_deviations(law, problem, at)
    matched += [digits(deviations, problem.deviations), digits(squares, problem.squares)]
    status = ", ".join([fit.status, *sorted({note.code for note in fit.notes})])
    return matched, [*marks, "", ""], status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", nargs="+", choices=LAWS, default=list(LAWS), metavar="NAME")
    chosen = parser.parse_args().problems
    heads = ["problem", "level", "p", "n", *COLUMNS, "status"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    hits = np.zeros(len(COLUMNS), int)
    for name in chosen:
        problem = read(folder() / f"{name}.dat")
        found, marks, status = measure(problem)
        hits += np.array(found) >= ENOUGH
        cells = [f"{value:.1f}{mark}" for value, mark in zip(found, marks, strict=True)]
        size = [str(len(problem.certified)), str(len(problem.data["y"]))]
        print(f"| {' | '.join([name, problem.level, *size, *cells, status])} |", flush=True)
    totals = [f"{hit} of {len(chosen)}" for hit in hits]
    print(f"| ≥ {ENOUGH} digits | | | | {' | '.join(totals)} | |")


if __name__ == "__main__":
    main()
