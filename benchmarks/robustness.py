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
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jaxlaw as jl
from jaxlaw.data._columns import Location, numbers

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fuzz import calls as hostile_calls  # noqa: E402
from fuzz import files as hostile_files  # noqa: E402
from fuzz import tables as hostile  # noqa: E402

PARTS = ("tables", "fits", "lawless", "calls", "files", "sizes")
FAULTS = ("broken", "wrong", "changed")
REFUSED_AS_THEY_ARE = {"load", "fit_decay"}  # no file there, no curves


def settled(count, derandomize=False):
    return settings(max_examples=count, deadline=None, database=None, derandomize=derandomize,
                    suppress_health_check=list(HealthCheck))  # fmt: skip


def read(case):
    """What comes of a table: ``refused``, ``read``, ``wrong: …`` or ``broken: …``."""
    source, options, cells = case
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            runs = jl.read_runs(source, **options)
            for name in {"N", "D", "loss"} & set(cells or ()) & set(runs.table):
                try:
                    values = numbers(runs.table[name], Location("", "row", name, name))
                except jl.DataError:
                    continue
                meant = cells[name]
                if None in meant or not np.array_equal(np.array(meant), values, equal_nan=True):
                    return f"wrong: {name} read as {values[:3]}, says {meant[:3]}"
            runs.observations("chinchilla")
        except jl.JaxlawError as error:
            return "refused" if len(str(error)) > 20 else f"broken: says only {error}"
        except Exception as error:  # what must not be
            return f"broken: {error!r}"
    return "read"


@st.composite
def losses(draw):
    """36 losses that a table may hold, and nobody's law has."""
    sound = hostile_calls.runs()["loss"].to_numpy()
    values = st.one_of(st.floats(0.01, 100), st.floats(1e-3, 1e3), st.floats(1e-300, 1e300))
    ways = {
        "in reach": st.lists(st.floats(0.1, 10), min_size=len(sound), max_size=len(sound)),
        "any": st.lists(values, min_size=len(sound), max_size=len(sound)),
        "few": st.lists(st.floats(0.5, 5), min_size=2, max_size=4),
        "one odd": st.tuples(st.integers(0, len(sound) - 1), values),
        "equal": values,
        "power": st.one_of(st.floats(-10, 10), st.floats(-300, 300)),
    }
    way = draw(st.sampled_from([*ways]))
    what, drawn = draw(ways[way]), sound.copy()
    if way == "one odd":
        drawn[what[0]] = what[1]
    elif way == "power":
        with np.errstate(over="ignore", under="ignore"):
            drawn = sound**what
    elif way == "few":
        drawn = np.resize(what, len(sound))
    else:
        drawn[:] = what
    return drawn


def summed_huber(residual, delta):
    """The objective, written once more."""
    size = np.abs(residual)
    return np.where(size <= delta, size**2 / 2, delta * (size - delta / 2)).sum()


def fitted(loss):
    """What comes of a fit to such losses, and of the same rows in another order."""
    table = hostile_calls.runs().assign(loss=loss)
    try:
        fit = jl.fit("chinchilla", table, n_starts=64, n_local=8)
        again = jl.fit("chinchilla", table.sample(frac=1, random_state=0), n_starts=64, n_local=8)
    except jl.JaxlawError:
        return "refused"
    except Exception as error:  # what must not be
        return f"broken: {error!r}"
    if fit.params != again.params:
        return "wrong: other numbers for the same rows"
    predicted = fit.predict(table[["N", "D"]])
    if (
        not np.isfinite([*fit.params.values(), fit.objective]).all()
        or not np.isfinite(predicted).all()
    ):
        return "wrong: not finite"
    own = summed_huber(np.log(predicted / loss), fit.delta)
    if not np.isclose(fit.objective, own, rtol=1e-9, atol=1e-20):
        return f"wrong: objective {fit.objective}, its residuals give {own}"
    return "fitted, with warnings" if fit.notes else "fitted"


def tables(count):
    counted = Counter()
    settled(count)(given(hostile.tables())(lambda case: counted.update([read(case)])))()
    return counted


def fits(count):
    counted = Counter()
    settled(count)(given(losses())(lambda loss: counted.update([fitted(loss)])))()
    return counted


def without_law(rows):
    """Runs, and ways to draw losses that N and D do not explain, by name."""
    table = pd.DataFrame(hostile.sound(rows), columns=[*hostile.NAMES]).drop(columns="note")
    loss, random = table["loss"].to_numpy(), np.random.default_rng(0)
    normal, uniform = partial(random.standard_normal, rows), partial(random.uniform, size=rows)
    return table, {
        "lognormal": lambda: 3 * np.exp(0.1 * normal()),
        "uniform": lambda: uniform(2, 5),
        "shuffled": lambda: random.permutation(loss),
        "random walk": lambda: 3 * np.exp(0.05 * np.cumsum(normal())),
        "Cauchy": lambda: 3 * np.exp(np.clip(0.1 * random.standard_cauchy(rows), -20, 20)),
        "two levels": lambda: random.choice([2.0, 4.0], rows),
        "six decades": lambda: 10 ** uniform(-3, 3),
        "upside down": lambda: loss.max() + loss.min() - loss,
        "a law under 10 % noise": lambda: loss * np.exp(0.1 * normal()),
    }


def lawless(count):
    """How grave the gravest note is of fits to losses that follow no law."""
    counted = Counter()
    for rows in (36, 12, 8, 6):
        table, ways = without_law(rows)
        for k in range(count // 4):
            way = list(ways)[k % len(ways)]
            try:
                fit = jl.fit("chinchilla", table.assign(loss=ways[way]()), n_starts=64, n_local=8)
                grave = {note.severity for note in fit.notes}
                worst = next((one for one in ("error", "warning") if one in grave), "none")
                label = f" {way}, R² {fit.r2:.2f}" if worst == "none" else ""
            except jl.JaxlawError:
                worst, label = "refused", ""
            except Exception as error:  # what must not be
                worst, label = f"broken: {error!r}", ""
            counted[f"{worst} ({rows} rows){label}"] += 1
    return counted


def calls(count):
    counted = Counter()
    # A work folder called '7B' is a good one: not here.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, (sound, _) in list(hostile_calls.CALLS.items())[:count]:
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
