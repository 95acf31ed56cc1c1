"""Digits of agreement with NIST's certified results: 27 least-squares problems.

    JAXLAW_DATA=… python benchmarks/accuracy.py [--problems NAME …]

Every problem of :mod:`nist` is fitted from its file's first start alone and from its second
alone, by both solvers, and by a default fit, which is told the law and its ranges only. Digits
are −log10 |found − certified| / |certified|, the least over the parameters, from 0 to 11, as
many as are certified. Marks:

- ``~``: digits after like terms (peaks, exponentials) have changed places, which changes
  nothing about the model; as found, the parameters agree in fewer digits;
- ``*``: the fit itself says not to rely on it (status, solvers-disagree, poor-fit).
"""

import argparse
import itertools
from collections.abc import Callable

import jax
import numpy as np
from nist import LAWS, TERMS, Problem, folder, law_of, read

import jaxlaw as jl

SQUARES = {"delta": float("inf"), "residuals": "linear"}
ALL, ENOUGH = 11, 6  # digits certified; digits that count as a hit
COLUMNS = (
    "newton, start 1", "newton, start 2", "lbfgs, start 1", "lbfgs, start 2", "default",
    "deviations", "squares",
)  # fmt: skip


def digits(found: np.ndarray, certified: np.ndarray) -> float:
    """Decimal digits that agree, of the worst of some numbers."""
    with np.errstate(divide="ignore"):
        each = -np.log10(np.abs((np.asarray(found) - certified) / certified))
    return float(np.clip(np.nan_to_num(each, nan=0.0), 0, ALL).min())


def fit_from(law: jl.Law, problem: Problem, start: int, solver: str) -> jl.Fit:
    """A fit from one of the file's two starts (0 or 1) alone."""
    starts = problem.starts[start : start + 1]
    return jl.fit(law, problem.data, starts=starts, n_local=False, solver=solver, **SQUARES)


def fit_default(law: jl.Law, problem: Problem) -> jl.Fit:
    """A fit that is told nothing but to minimise squares."""
    return jl.fit(law, problem.data, **SQUARES)


def parameters(fit: jl.Fit) -> np.ndarray:
    """The fitted parameters (p,), in NIST's order."""
    return np.array([fit.params[name] for name in fit.law.parameter_names])


def in_order(problem: Problem, values: np.ndarray) -> np.ndarray:
    """Values (p,) with like terms of the model in the order that agrees best."""
    terms = np.array(TERMS.get(problem.name, ()), int)
    candidates = [values]
    for order in itertools.permutations(range(len(terms))):
        candidates.append(values.copy())
        candidates[-1][terms] = values[terms[list(order)]]
    return max(candidates, key=lambda candidate: digits(candidate, problem.certified))


def squares_and_deviations(law: jl.Law, problem: Problem, at: np.ndarray) -> tuple:
    """Residual sum of squares and the parameters' standard deviations (p,), at values (p,)."""
    inputs = {name: problem.data[name] for name in law.input_names}

    def predict(values: jax.Array) -> jax.Array:
        return law(dict(zip(law.parameter_names, values, strict=True)), **inputs)

    with jax.enable_x64(True):
        both = jax.jit(lambda at: (predict(at), jax.jacfwd(predict)(at)))
        predicted, jacobian = map(np.asarray, both(at))
    residual = predicted - problem.data["y"]
    squares = float(residual @ residual)
    # The diagonal of s² (JᵀJ)⁻¹, from J = QR with columns of unit length.
    length = np.linalg.norm(jacobian, axis=0)
    inverse = np.linalg.inv(np.linalg.qr(jacobian / length, mode="r"))
    spread = np.sqrt(squares / (len(residual) - len(at)))
    return squares, spread * np.linalg.norm(inverse, axis=1) / length


def attempt(fit: Callable[..., jl.Fit], *arguments) -> jl.Fit | str:
    """The fit, or the first words of what it failed with."""
    try:
        return fit(*arguments)
    except Exception as error:  # whatever it is, the other problems go on
        return " ".join(f"{type(error).__name__}: {error}".split()[:8])


def doubted(fit: jl.Fit) -> bool:
    """Whether the fit itself says not to rely on it."""
    codes = {note.code for note in fit.notes}
    return fit.status != "converged" or bool(codes & {"solvers-disagree", "poor-fit"})


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
