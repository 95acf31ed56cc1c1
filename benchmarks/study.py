"""Cross-validation of the D-CPT law and its rivals: simulated, where the truth is known, and real.

    JAXLAW_DATA=… python benchmarks/study.py [truth] [rivals]
                                             [slimpajama [CORPUS …]]

``truth``: Que's design, six domains, general and domain losses, made by dcpt with
0.4 % noise; the four studies of Que 2024 (§4.2; tables 1–4, 14–21). ``rivals``: the same runs
made by each other law. ``slimpajama``: seven corpora of real mixtures, or those named.
"""

import os
import sys
import time

import jax
import scale
import slimpajama

import jaxlaw as jl
from jaxlaw import folds, simulate

LAWS = ("dcpt-l1", "dcpt-l2", "dcpt", "dcpt-l4", "dcpt-l5")
STUDIES = {
    "all points fitted (tables 1, 14, 15)": folds.in_sample(),
    "model sizes, 3 folds (tables 2, 16, 17)": folds.leave_one_group_out("N"),
    "data sizes, 3 folds (tables 3, 18, 19)": folds.contiguous_blocks("D", 3),
    "mixture ratios, 36 folds (tables 4, 20, 21)": folds.leave_p_groups_out("r", 2),
}
REAL = {
    "size": folds.leave_one_group_out("N"),
    "last ⅓ of D": folds.hold_out("D", "last", "1/3"),
    "2 weights": folds.leave_p_groups_out("r", 2),
}
#: Studies whose tables by domain are printed too.
HEADLINES = ("all points", "mixture ratios")
SHORT = {"best": "best", "tie": "tie", "worse": "", "untested": "", "failed": "failed"}


def together(designs: dict[str, folds.Design]) -> folds.Design:
    """All folds of several designs, so that a law is compiled and run once."""

    def cut(table):
        for name, design in designs.items():
            for label, *parts in design.cut(table):
                yield f"{name}: {label}", *parts

    return folds.Design("together", cut)


def part(study: jl.Study, name: str) -> jl.Study:
    return study.only(study.frame["held_out"].str.startswith(f"{name}: ").to_numpy(bool))


def score(value: float, metric: str) -> str:
    if metric == "r2":
        return f"{value:.4f}" if abs(value) < 1e4 else f"{value:.0e}"
    return f"{value:.2e}"


def markdown(head: list[str], rows: list[list[str]]) -> None:
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print(flush=True)


def averages(study: jl.Study) -> None:
    """As in tables 1 to 4: means over domains, with medians and verdicts."""
    mean, median = study.score_table(average=True), study.score_table(average=True, centre="median")
    corpora = list(study.frame["corpus"].unique())
    ranks = {corpus: study.only(f"corpus == '{corpus}'").ranking for corpus in corpora}
    head = ["law"]
    for name in ("mean Huber", "median", "R²", "median"):
        head += [f"{name} {corpus}" for corpus in corpora]
    head += [f"verdict {corpus}" for corpus in corpora]
    rows = []
    for law in study.laws:
        row = [law]
        for metric in ("mean_huber", "r2"):
            for table in (mean, median):
                row += [score(table.loc[law, (metric, corpus)], metric) for corpus in corpora]
        for corpus in corpora:
            scores = ranks[corpus].loc[law]
            sure = "" if scores["verdict"] == "best" else f" × {scores['ratio']:.3g}"
            row.append(
                f"{scores['verdict']}{sure}"
                + (f", p {scores['p']:.1g}" if scores["p"] >= 0 else "")
            )
        rows.append(row)
    markdown(head, rows)


def whole(study: jl.Study, metric: str) -> None:
    """As in tables 14 to 21: a column for each domain and corpus."""
    table = study.score_table((metric,))[metric]
    rows = [[law, *(score(v, metric) for v in table.loc[law])] for law in study.laws]
    markdown([{"mean_huber": "mean Huber", "r2": "R²"}[metric], *table.columns], rows)


def notes(study: jl.Study, name: str) -> None:
    for note in study.notes:
        elsewhere = " left to fit" in note.message and f"({name}, " not in note.message
        if note.severity != "info" and not elsewhere:
            print(f"- {note.code}: {note.message}".replace(f"{name}: ", ""))
    print(flush=True)


def truth() -> None:
    sets = {}
    for side, inputs, made in scale.domains():
        for k, (_, loss) in enumerate(made):
            sets[(str(k + 1), side[0].upper())] = inputs | {"loss": loss}
    begun = time.perf_counter()
    everything = jl.cross_validate(LAWS, sets, together(STUDIES), progress=False)
    seconds = time.perf_counter() - begun
    print(f"\n{len(everything.frame)} fits in one call, {everything.n_failed} failed, "
          f"{seconds:.0f} s with compiling.")  # fmt: skip
    for title in STUDIES:
        study = part(everything, title)
        print(f"\n## Truth dcpt: {title}\n")
        averages(study)
        inside = ~study.frame["extrapolates"]
        if 0 < inside.sum() < len(study.frame):
            within = study.only("not extrapolates")
            print("Folds that ask within the fitted range only, "
                  f"{len(within.frame) / len(study.frame):.0%} of them:\n")  # fmt: skip
            averages(within)
        for metric in ("mean_huber", "r2") if title.startswith(HEADLINES) else ():
            whole(study, metric)
        notes(study, title)


def rivals() -> None:
    print("\n## Other laws as truth: ratio of each law's Huber to the best's, p\n")
    rows = []
    for law in ("dcpt-l1", "dcpt-l2", "dcpt-l4", "dcpt-l5"):
        table = simulate.experiment(law).table
        for design in ("contiguous-blocks:D:3", "leave-p-groups-out:r:2"):
            study = jl.cross_validate(LAWS, table, design, progress=False)
            ranked = study.ranking
            cells = []
            for name in LAWS:
                scores = ranked.loc[name]
                p = f", p {scores['p']:.1g}" if scores["p"] >= 0 else ""
                cells.append(
                    scores["verdict"] + ("" if p == "" else f" × {scores['ratio']:.3g}{p}")
                )
            verdict = ranked.loc[law, "verdict"]
            rows.append(
                [law, design, {"best": "truth", "tie": "tie"}.get(verdict, "WRONG"), *cells]
            )
            print(f"{rows[-1]}", file=sys.stderr, flush=True)
    markdown(["truth", "folds", "picks", *LAWS], rows)


def rows_of(corpus: str, everything: jl.Study) -> list[list[str]]:
    rows = []
    for name in REAL:
        study = part(everything, name)
        mean, median, ranked = study.table, study.score_table(centre="median"), study.ranking
        row = [f"{name}, {study.n_folds} fold{'s' * (study.n_folds > 1)}", corpus]
        for law in LAWS:
            r2 = [score(t.loc[law, ("r2", corpus)], "r2") for t in (mean, median)]
            verdict = SHORT[ranked.loc[law, "verdict"]]
            row.append(f"{r2[0]} ({r2[1]}) {f'**{verdict}**' if verdict else ''}")
        codes = {n.code for n in study.notes if n.severity != "info"} - {"dropped-invalid"}
        rows.append([*row, ", ".join(sorted(codes))])
    return rows


def real() -> None:
    print("\n## SlimPajama: seven corpora, mean R² of held-out points (median), verdict\n")
    rows, studies = [], {}
    named = [name for name in slimpajama.CORPORA if name in sys.argv[1:]]
    for corpus in named or slimpajama.CORPORA:
        runs, begun = {corpus: slimpajama.read(corpus)}, time.perf_counter()
        studies[corpus] = jl.cross_validate(LAWS, runs, together(REAL), progress=False)
        rows += rows_of(corpus, studies[corpus])
        print(f"{corpus}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
        for row in rows[-len(REAL) :]:
            print(row, file=sys.stderr, flush=True)
    rows.sort(key=lambda row: [name in row[0] for name in REAL], reverse=True)
    markdown(["held out", "corpus", *LAWS, "warnings"], rows)
    for corpus in {"c4"} & set(studies):
        print("Warnings in full, of c4:\n")
        for name in REAL:
            print(f"{name}:\n")
            notes(part(studies[corpus], name), name)


def main() -> None:
    cases = {"truth": truth, "rivals": rivals, "slimpajama": real}
    chosen = [name for name in cases if name in sys.argv[1:]] or list(cases)
    print(f"{os.cpu_count()} CPU cores, {jax.default_backend()}, jax {jax.__version__}")
    for name in chosen:
        cases[name]()


if __name__ == "__main__":
    main()
