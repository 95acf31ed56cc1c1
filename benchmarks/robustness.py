"""What is tried to break jaxlaw, how often, and what came of it.

    python benchmarks/robustness.py [tables | fits | lawless | calls | files | sizes] [N]

Nothing may end in another error than jaxlaw's own, no table may be read as other numbers than an
independent reading gives, no fit may depend on the order of its rows. Ends with exit code 1 where
something does.
"""

import contextlib
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import pandas as pd
from hypothesis import given

import jaxlaw as jl

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fuzz import (
    calls as hostile_calls,  # noqa: E402
    files as hostile_files,  # noqa: E402
    tables as hostile,  # noqa: E402
)
from tests.fuzz.trials import (  # noqa: E402
    REFUSED_AS_THEY_ARE,
    fitted,
    lawless,  # noqa: F401 - a part, by its name
    losses,
    read,
    settled,
)

PARTS = ("tables", "fits", "lawless", "calls", "files", "sizes")
FAULTS = ("broken", "wrong", "changed")


def tables(count):
    counted = Counter()
    settled(count)(given(hostile.tables())(lambda case: counted.update([read(case)])))()
    return counted


def fits(count):
    counted = Counter()
    settled(count)(given(losses())(lambda loss: counted.update([fitted(loss)])))()
    return counted


def calls(count):
    counted = Counter()
    # A work folder called '7B' is a good one: not here.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, sound in list(hostile_calls.CALLS.items())[:count]:
            if name not in REFUSED_AS_THEY_ARE:  # else nothing of it would be tried
                hostile_calls.public_functions()[name](**sound())
            for argument, k, what, answer in hostile_calls.outcomes(name, hostile_calls.VALUES):
                shown = f": {name}({argument}={hostile_calls.VALUES[k]!r:.30}): {answer!r:.80}"
                counted[what + (shown if what == "broken" else "")] += 1
    return counted


def files(count):
    with tempfile.TemporaryDirectory() as folder:
        path, fit = Path(folder, "fit.json"), hostile_calls.fitted()
        fit.save(path)
        text = path.read_text("utf-8")
        counted = Counter()
        for what, content in hostile_files.broken(text, max(1, len(text) // count)):
            came = hostile_files.outcome(path, content, fit)
            counted[came if came in ("refused", "same") else f"broken: {what}: {came}"] += 1
        return counted


def sizes(count):
    """A million rows: seconds and megabytes of every form."""
    frame = pd.DataFrame(hostile.sound(count), columns=[*hostile.NAMES]).drop(columns="note")
    with tempfile.TemporaryDirectory() as folder:
        frame.to_csv(Path(folder, "runs.csv"), index=False)
        frame.to_csv(Path(folder, "runs.csv.gz"), index=False)
        frame.to_json(Path(folder, "runs.jsonl"), orient="records", lines=True, double_precision=15)
        sources = {"DataFrame": frame, **{p.name: p for p in sorted(Path(folder).iterdir())}}
        for name, source in sources.items():
            tracemalloc.start()
            begun = time.perf_counter()
            observed = jl.read_runs(source).observations("chinchilla")
            seconds, (_, peak) = time.perf_counter() - begun, tracemalloc.get_traced_memory()
            tracemalloc.stop()
            print(f"| {name} | {len(observed):,} rows | {seconds:.1f} s | {peak / 2**20:.0f} MiB |")
    return Counter({"read": len(sources)})


def main() -> int:
    chosen = [one for one in sys.argv[1:] if one in PARTS] or PARTS
    counts = dict(tables=10_000, fits=1_000, lawless=1_000, calls=10**6, files=200, sizes=10**6)
    counts |= {one: int(sys.argv[-1]) for one in chosen if sys.argv[-1].isdigit()}
    faults = 0
    for part in chosen:
        begun = time.perf_counter()
        counted = globals()[part](counts[part])
        print(f"\n{part}: {sum(counted.values()):,} tried, {time.perf_counter() - begun:.0f} s")
        for what, times in counted.most_common():
            print(f"| {what} | {times:,} |")
            faults += times if what.startswith(FAULTS) else 0
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
