"""Which of a forecast's notes tell forecasts that hold from those that do not.

    JAXLAW_DATA=… python -m benchmarks.forecast_notes FILE [--prior] [--minutes M] [set …]

Runs of the sets of ``benchmarks.forecast`` beyond each cut-off are forecast from those below, with
few starts: the notes do not depend on the optimum's last digits. Each cut-off gives two forecasts,
of the nearer and of the farther half of the runs held out, each with its own notes; of N and D also
those of chinchilla alone; and many cut-offs all of that again from 14 or 24 of the runs. FILE has
one line a forecast; a second call goes on where the first stopped. ``--prior`` takes what the field
knows, less the set's own sources; otherwise there is no prior.
"""

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import forecast as held_out
from benchmarks.forecast import Case, names_of, read
from jaxlaw._jit import size_class
from jaxlaw.fitting import _problem, field_prior
from jaxlaw.forecasting import _forecast
from jaxlaw.forecasting._backtest import fit_at_cutoffs
from jaxlaw.forecasting._cutoffs import fit_resamples

ALONE = "chinchilla"
CHEAP = {"n_starts": 64, "n_local": 8}
ROWS, POINTS = 112, 12  # that tables are thinned and padded to; that are scored at once
FEW = (14, 24)  # rows of tables thinned further, in turn
KEY = ["set", "name", "along", "cutoff"]
#: Notes of severity "warning" that the forecast makes of its own interval.
WARNINGS = {
    "few-rows", "prior-width", "farther-than-tested", "one-law", "intervals-failed",
    "unseen-input", "unseen-ratio", "mixed-runs", "prior-conflict",
}  # fmt: skip
MIXED = ("hoffmann", "llama", "marin", "misfitting")  # sources of the six experiments in one table


def every(table: pd.DataFrame, count: int) -> pd.DataFrame:
    """So many of the rows, evenly spaced."""
    return table.iloc[np.unique(np.linspace(0, len(table) - 1, count).round().astype(int))]


def mixed() -> Iterator[Case]:
    """Runs of several corpora or teams in one table, with the column that says which."""
    t = read("loss_to_loss")
    t = t.assign(N=t.params, D=t.tokens, loss=t.c4_val_loss, kind=t["data"])
    yield from _by_compute("loss_to_loss, six corpora", t)
    t = read("isoflops")
    t = t[~t.outlier]
    t = t.assign(N=t.params, D=t.tokens, kind=t.experiment)
    yield from _by_compute("isoflops, six experiments", t)
    yield from _by_compute("lr_batch_optima", read("lr_batch_optima").assign(kind="one"))


def _by_compute(data: str, table: pd.DataFrame) -> Iterator[Case]:
    table = table[["N", "D", "loss", "kind"]].assign(C=lambda t: 6.0 * t.N * t.D)
    for share in (0.5, 0.65, 0.8):
        yield Case(data, "", table, "C", float(table.C.quantile(share)))


def cases() -> list[Case]:
    """One cut-off of each table in turn; experiments and corpora are sets of their own."""
    found: dict[tuple[str, ...], list[Case]] = {}
    for case in itertools.chain(held_out.cases(), mixed()):
        if case.data == "slimpajama":
            continue
        data = f"{case.data} {case.name}" if case.data == "isoflops" else case.data
        case = case._replace(data=data, inputs=tuple(n for n in case.inputs if n != "U"))
        found.setdefault((data, case.name, case.along), []).append(case)
    order = [case for turn in itertools.zip_longest(*found.values()) for case in turn if case]
    many = [one for one in order if one.inputs == ("N", "D") and len(below(one)) > 2 * max(FEW)]
    thinned = [
        one._replace(name=f"{one.name}, {count} rows")
        for one, count in zip(many, itertools.cycle(FEW), strict=False)
    ]
    both = itertools.zip_longest(order, thinned)
    return [case for pair in both for case in pair if case]


def below(case: Case) -> pd.DataFrame:
    return case.table[case.table[case.along] <= case.cutoff]


def prior_for(case: Case) -> Any:
    """What the field knows without the sources of a case; nothing of laws of other inputs."""
    if not {"N", "D"} <= {*case.inputs} or "r" in case.inputs:
        return None
    return field_prior(without=MIXED if case.data.startswith("isoflops, six") else case.source)


def measured(case: Case, known: bool) -> list[dict[str, Any]]:
    """One line a forecast: its notes, and what became of it."""
    rest = case.table[case.table[case.along] > case.cutoff].sort_values(case.along)
    halves = {"near": rest[: (len(rest) + 1) // 2], "far": rest[(len(rest) + 1) // 2 :]}
    kept = [*names_of(case), "loss", *({"kind"} & {*case.table})]
    seen = below(case).sort_values(case.along, kind="stable")
    count = int(case.name.split()[-2]) if case.name.endswith(" rows") else ROWS
    table = every(seen, min(len(seen), count))[kept]
    along = "compute" if case.along == "C" else case.along
    units = {name: 1 for name in case.inputs if name in held_out.ONES}
    options = CHEAP | {"units": units, "prior": prior_for(case) if known else None}
    made = fit_at_cutoffs(None, table, along, 6, None, None, options, needed=False)
    refits = {one.label: fit_resamples(made, one.label, 8, 0) for one in made.candidates}
    laws, lines = [one.label for one in made.candidates], []
    for of in (laws, [ALONE]) if ALONE in laws else (laws,):
        less = made.__class__(**{
            **{name: getattr(made, name) for name in made.__dataclass_fields__},
            "candidates": [one for one in made.candidates if one.label in of],
        })  # fmt: skip
        for half, runs in halves.items():
            if not len(runs):
                continue
            runs = every(runs, min(len(runs), POINTS))
            points = {name: runs[name].to_numpy(float) for name in names_of(case)}
            found = _forecast.make_forecast(less, refits, points, level=0.9, along=along)
            error, low, high, *_ = held_out.relative(found, np.log(runs.loss.to_numpy()))
            lines.append({
                "set": case.data, "name": case.name, "along": case.along, "cutoff": case.cutoff,
                "half": half, "laws": len(of), "rows": len(table), "runs": len(runs),
                "notes": sorted({f"{note.code}" for note in found.notes}),
                "backtested": len(made.cutoffs),
                "distance": float(found.table["distance"].median()),
                "inside": float(((error >= low) & (error <= high)).mean()),
                "error": float(np.median(np.abs(error))),
                "ratio": float(np.median(np.abs(error) / ((high - low) / 2))),
                "width": float(np.median(high - low)),
            })  # fmt: skip
    return lines


def judged(lines: pd.DataFrame, code: str) -> dict[str, Any]:
    """A note's forecasts against all others, and by how much they differ within a set.

    Forecasts of a set share its runs, so that the set counts: in each that has the note on some and
    not on all, the difference of the means; by chance, that difference has either sign.
    """
    noted = lines.notes.map(lambda codes: code in codes).to_numpy()
    # Forecasts that carry no other note of doubt.
    alone = noted & lines.notes.map(lambda codes: not ({*codes} & WARNINGS - {code})).to_numpy()
    apart = np.array([
        group.inside[~noted[group.index]].mean() - group.inside[noted[group.index]].mean()
        for _, group in lines.groupby("set") if 0 < noted[group.index].mean() < 1
    ])  # fmt: skip
    signs = np.array(list(itertools.product((-1, 1), repeat=len(apart))))
    chance = (signs @ apart >= apart.sum() - 1e-12).mean() if len(apart) else np.nan
    of = {True: lines[noted], False: lines[~noted], None: lines[alone]}
    return {
        "sets": lines["set"][noted].nunique(), "counts": {k: len(rows) for k, rows in of.items()},
        "inside": {k: rows.inside.mean() for k, rows in of.items()},
        "failed": {k: (rows.inside < 0.5).mean() for k, rows in of.items()},
        "error": {k: rows.error.median() for k, rows in of.items()},
        "ratio": {k: rows.ratio.median() for k, rows in of.items()},
        "apart": apart.mean() if len(apart) else np.nan, "both": len(apart), "chance": chance,
    }  # fmt: skip


def report(lines: pd.DataFrame) -> None:
    """The table of codes, over all sets and over each half of them."""
    sets = sorted(lines["set"].unique())
    halves = {"all sets": sets, "first half": sets[::2], "second half": sets[1::2]}
    # Chinchilla alone, where there are five laws, is there for the note that a law stands alone.
    several = lines.groupby("set").laws.transform("max")
    for part, of in halves.items():
        every_law = lines[lines["set"].isin(of)].reset_index(drop=True)
        default = (lines.laws > 1) | (several == 1)  # of few rows, with a prior, fewer laws
        some = lines[lines["set"].isin(of) & default].reset_index(drop=True)
        print(f"\n{part}: {len(some)} forecasts at {len(some.drop_duplicates(KEY))} cut-offs of "
              f"{len(of)} sets; inside {some.inside.mean():.0%}")  # fmt: skip
        for what, rows in (("default laws", some), (f"and {ALONE} alone", every_law)):
            doubted = rows.notes.map(lambda codes: bool({*codes} & WARNINGS))
            for flag, which in rows.groupby(doubted):
                print(f"{what}, {'some' if flag else 'no'} note of doubt: {len(which)}, inside "
                      f"{which.inside.mean():.1%}, under half inside "
                      f"{(which.inside < 0.5).mean():.0%}, error {which.error.median():.2%}, over "
                      f"half-width {which.ratio.median():.2f}")  # fmt: skip
        print("\n| note | sets | forecasts | inside, with | without | with no other | under half "
              "inside, with | without | error, with | without | error over half-width, with "
              "| without | apart within sets | chance |")  # fmt: skip
        print("|" + "---|" * 14)
        for code in sorted({code for codes in some.notes for code in codes}):
            j = judged(every_law if code == "one-law" else some, code)
            pairs = [f"{j[of][flag]:{form}}" for of, form in
                     (("inside", ".0%"), ("failed", ".0%"), ("error", ".2%"), ("ratio", ".2f"))
                     for flag in (True, False)]  # fmt: skip
            pairs.insert(2, f"{j['inside'][None]:.0%} of {j['counts'][None]}")
            print(f"| `{code}` | {j['sets']} | {j['counts'][True]} | {' | '.join(pairs)} "
                  f"| {j['apart']:+.0%} ({j['both']}) | {j['chance']:.3f} |")  # fmt: skip


def kept(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def go_on(file: Path, minutes: float, sets: Iterable[str], known: bool) -> None:
    """Forecast what FILE lacks, until the processor has worked so long."""
    done = {tuple(one[name] for name in KEY) for one in kept(file)}
    for case in cases():
        key = (case.data, case.name, case.along, case.cutoff)
        if key in done or (sets and not any(case.data.startswith(s) for s in sets)):
            continue
        if time.process_time() > 60 * minutes:
            return
        begun = time.process_time()
        lines = measured(case, known)
        with file.open("a") as out:
            out.writelines(json.dumps(line) + "\n" for line in lines)
        print(*key, [round(one["inside"], 2) for one in lines], lines[0]["notes"],
              f"{time.process_time() - begun:.0f} s", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--prior", action="store_true", help="what the field knows")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("sets", nargs="*")
    given = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    # All tables are padded to one length, as in benchmarks.forecast.
    _problem.size_class = lambda rows, width=1: max(size_class(rows, width), ROWS)
    go_on(given.file, given.minutes, given.sets, given.prior)
    report(pd.DataFrame(kept(given.file)))


if __name__ == "__main__":
    main()
