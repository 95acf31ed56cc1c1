"""The D-CPT law, its constraints and its rivals on seven real corpora.

    JAXLAW_DATA=… python benchmarks/slimpajama.py [corpus …]

For each corpus of slimpajama_mixtures.csv (r = its weight in the mixture): objective, R²,
agreement of starts, whether two seeds find the same objective (to 1e-6), and the notes that
matter. "scipy" is the objective a scipy fit from 24 screened starts reached.
"""

import os
import sys
import time
from pathlib import Path

import jaxlaw as jl

CORPORA = ("arxiv", "book", "c4", "github", "commoncrawl", "stackexchange", "wikipedia")
VARIANTS = (
    ("dcpt", None), ("dcpt", "observed"), ("dcpt", "paper"), ("dcpt-l1", None),
    ("dcpt-l2", None), ("dcpt-l4", None), ("dcpt-l5", None),
)  # fmt: skip
SCIPY = {
    ("c4", None): 0.02790, ("c4", "paper"): 0.1098, ("github", None): 0.06095,
    ("github", "paper"): 0.2280, ("book", None): 0.02680, ("book", "paper"): 0.1122,
}  # fmt: skip
QUIET = {"dropped-invalid", "trend-everywhere"}


def read(corpus: str) -> jl.Runs:
    columns = {
        "N": "n_params", "D": "n_tokens", "r": f"weight_{corpus}", "loss": f"{corpus}_loss",
    }  # fmt: skip
    path = Path(os.environ["JAXLAW_DATA"]) / "slimpajama_mixtures.csv"
    return jl.read_runs(path, columns, {"N": 1, "D": 1}, drop_invalid=True)


def main() -> None:
    print("| corpus | law | constraint | objective | scipy | R² | agree | seeds | s | notes |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for corpus in sys.argv[1:] or CORPORA:
        runs = read(corpus)
        for law, constraint in VARIANTS:
            begun = time.perf_counter()
            fits = [jl.fit(law, runs, constraint=constraint, seed=seed) for seed in (0, 1)]
            seconds = (time.perf_counter() - begun) / len(fits)
            first, best = fits[0], min(fit.objective for fit in fits)
            apart = (max(fit.objective for fit in fits) - best) / best
            same = "same" if apart <= 1e-6 else f"{apart:.0e} apart"
            notes = ", ".join(sorted({n.code for n in first.notes if n.severity != "info"} - QUIET))
            known = SCIPY.get((corpus, constraint)) if law == "dcpt" else None
            print(
                f"| {corpus} | {law} | {constraint or '–'} | {best:.6g} | {known or ''} "
                f"| {first.r2:.4f} | {first.agreement:.0%} | {same} | {seconds:.1f} | {notes} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
