"""How CPU time and memory grow with rows, starts, problems, laws, steps; what a process keeps.

    python benchmarks/growth.py [NAME …]      # all: some twenty CPU minutes and 4 GB
    python benchmarks/growth.py --quick       # small sizes, all in one process, to see that it runs
    python benchmarks/growth.py --keep FILE   # what is measured is kept there, and not done again

Every size is measured in a process of its own, so that its peak of memory is its own, with an empty
folder of compiled programs. The first call compiles; the same call again is what grows with the
size. A slope is that of the logarithm of CPU seconds, or of the memory above what imports and data
take, from one size to the next: 1 is linear. A size that would take more CPU seconds than
``--limit``, if time grew by the last slope or linearly, is left out and named.

The largest programs of an axis, at its largest size, are listed with the bytes of their arguments,
of their results, and of all arrays in between that are held at once.

Loops make many different calls in one process: memory, open files, threads and programs after
them. The CPU seconds are of all threads of a process, and those of the memory are megabytes.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

# Nothing large is imported here: a process begins with the peak of the one that starts it.

AGAIN = 400  # CPU seconds of a first call beyond which it is not repeated: compiling hardly counts
LEAST = {"time": 0.2, "memory": 20}  # CPU seconds and MB: what is below them is mostly constant


def runs(rows: int, seed: int = 0) -> Any:
    """A table of runs of chinchilla's law, N and D at random, noise 0.4 %."""
    import numpy as np
    import pandas as pd

    draw = np.random.default_rng(seed)
    N = np.exp(draw.uniform(np.log(5e7), np.log(1e10), rows))
    D = np.exp(draw.uniform(np.log(1e9), np.log(3e11), rows))
    loss = (1.7 + 400 / N**0.34 + 400 / D**0.28) * np.exp(draw.normal(0, 0.004, rows))
    return pd.DataFrame({"N": N, "D": D, "loss": loss})


def runs_of_size(rows: int, seed: int = 0) -> Any:
    """The same where D is always 1e11."""
    table = runs(rows, seed)
    table["loss"] += 400 / 1e11**0.28 - 400 / table["D"] ** 0.28
    return table[["N", "loss"]]


def own_law(k: int) -> Any:
    """A law of a user's own, whose programs no other law shares."""
    import jaxlaw as jl

    return jl.law(
        lambda N, *, E=jl.laws.positive(0.5, 3), a=jl.laws.exponent(): (
            E + (500 + k) * jl.laws.power(N, -a)
        ),
        name=f"own {k}", formula="E + (500 + k)/N^a", source="",
    )  # fmt: skip


# ---------------------------------------------------------------- what grows


def fit_of_rows(rows: int) -> Callable[[], Any]:
    import jaxlaw as jl

    table = runs(rows)
    return lambda: jl.fit("chinchilla", table)


def bootstrap_of_rows(rows: int) -> Callable[[], Any]:
    import jaxlaw as jl

    table = runs(rows)
    return lambda: jl.bootstrap("chinchilla", table, n_resamples=100)


def forecast_of_rows(rows: int) -> Callable[[], Any]:
    import jaxlaw as jl

    table, point = runs(rows), {"N": 7e10, "D": 1.4e12}
    return lambda: jl.forecast(["chinchilla"], table, at=point, prior=None)


def screened_starts(starts: int) -> Callable[[], Any]:
    import jaxlaw as jl

    table = runs(240)
    return lambda: jl.fit("chinchilla", table, n_starts=starts)


def solved_starts(starts: int) -> Callable[[], Any]:
    import jaxlaw as jl

    table = runs(240)
    return lambda: jl.fit("chinchilla", table, n_starts=starts, n_local=False)


def resamples(problems: int) -> Callable[[], Any]:
    import jaxlaw as jl

    table = runs(240)
    if problems == 1:
        return lambda: jl.fit("chinchilla", table)
    return lambda: jl.bootstrap("chinchilla", table, n_resamples=problems)


def folds(problems: int) -> Callable[[], Any]:
    import jaxlaw as jl

    table = runs(240)
    design = jl.folds.shuffle_split(n_splits=problems)
    return lambda: jl.cross_validate(["chinchilla"], table, design).summary()


def laws(count: int) -> Callable[[], Any]:
    import jaxlaw as jl

    table, candidates = runs_of_size(64), [own_law(k) for k in range(count)]
    return lambda: jl.cross_validate(candidates, table, jl.folds.k_fold(4), n_starts=64, n_local=8)


def areas_of_steps(steps: int) -> Callable[[], Any]:
    import numpy as np

    import jaxlaw as jl

    schedule = jl.schedules.wsd(2e-4, steps=steps, decay_steps=steps // 5)
    return lambda: np.asarray(jl.areas(schedule, 0.999).S2)


def log_of_steps(steps: int) -> Callable[[], Any]:
    """A log with every step is read and thinned; its fit predicts every step."""
    import numpy as np
    import pandas as pd

    import jaxlaw as jl

    schedule = jl.schedules.wsd(2e-4, steps=steps, decay_steps=steps // 5)
    forward, annealing = (np.asarray(one) for one in jl.areas(schedule, 0.999))
    noise = np.random.default_rng(0).normal(0, 0.004, steps)
    loss = (2.5 + 0.5 * (forward + 1e-4) ** -0.3 - 0.1 * annealing) * np.exp(noise)
    log = pd.DataFrame({"step": np.arange(1, steps + 1), "lr": schedule.rates, "loss": loss})

    def call() -> Any:
        curves = jl.read_loss_curves(log).thinned(points=100)
        return jl.fit("annealing", curves).predict_curve(schedule)

    return call


class Axis(NamedTuple):
    """What grows: a function of a size that returns the call to measure."""

    title: str
    make: Callable[[int], Callable[[], Any]]
    sizes: tuple[float, ...]
    quick: tuple[int, ...]


AXES = {
    "areas": Axis("steps of a schedule, `jl.areas` at all of them", areas_of_steps,
                  (1e3, 1e4, 1e5, 1e6, 1e7), (1000, 4000)),
    "log": Axis("steps of a log: read, thinned to 100, fitted (`annealing`), every step predicted",
                log_of_steps, (1e3, 1e4, 1e5, 1e6, 1e7), (1000, 4000)),
    "rows": Axis("rows of a default fit", fit_of_rows, (1e2, 1e3, 1e4, 1e5, 1e6), (70, 200)),
    "starts": Axis("starts of a fit, 64 of them solved", screened_starts,
                   (1e2, 1e3, 1e4, 1e5, 1e6), (32, 64)),
    "solved": Axis("starts of a fit, all solved", solved_starts,
                   (1e2, 1e3, 1e4, 1e5, 1e6), (32, 64)),
    "resamples": Axis("problems: resamples of a bootstrap (1: a fit)", resamples,
                      (1, 10, 1e2, 1e3, 1e4, 1e5), (1, 10)),
    "folds": Axis("problems: folds of a study of one law, with its summary", folds,
                  (10, 1e2, 1e3, 1e4), (3, 6)),
    "resampled-rows": Axis("rows of a bootstrap of 100 resamples", bootstrap_of_rows,
                           (1e2, 1e3, 1e4, 1e5), (70, 200)),
    "forecast-rows": Axis("rows of a forecast by one law", forecast_of_rows,
                          (1e2, 1e3, 1e4), (70,)),
    "laws": Axis("laws of a user's own in a study of 4 folds", laws, (1, 5, 20, 40), (1, 2)),
}  # fmt: skip


def peak() -> float:
    """The most memory that this process has had so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cpu_seconds(call: Callable[[], Any]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def measure(name: str, size: int) -> dict[str, Any]:
    """CPU seconds of a first call and of the same again, and the peak of memory."""
    import jax

    call = AXES[name].make(size)
    jax.device_put(0.0).block_until_ready()  # the backend starts
    before, first = peak(), cpu_seconds(call)
    again = cpu_seconds(call) if first < AGAIN else None
    return {"size": size, "first": first, "again": again, "before": before, "peak": peak(),
            "programs": largest_programs()}  # fmt: skip


def largest_programs(count: int = 4) -> list[tuple[str, list[float]]]:
    """Names of this process's programs, and MB of arguments, results and arrays in between."""
    from jaxlaw import _jit

    largest: dict[str, list[float]] = {}
    for program in list(_jit._programs):
        for (static, *_), made in program._made.items():
            solver, of = dict(static).get("solver"), made.program.memory_analysis()
            name = program.__name__ + (f", {solver.name}" if solver else "")
            sizes = [of.argument_size_in_bytes, of.output_size_in_bytes, of.temp_size_in_bytes]
            largest[name] = max([each / 2**20 for each in sizes], largest.get(name, []), key=sum)
    return sorted(largest.items(), key=lambda row: -sum(row[1]))[:count]


# ---------------------------------------------------------------- loops in one process


def different_fit(k: int) -> None:
    """Other runs, of another number of rows, by one of four laws and one of three thresholds."""
    import jaxlaw as jl

    law = ("chinchilla", "kaplan-e", "skaling", "overtraining")[k % 4]
    jl.fit(law, runs(40 + 7 * k % 200, seed=k), delta=(1e-3, 2e-3, 5e-3)[k % 3])


def different_forecast(k: int) -> None:
    import jaxlaw as jl

    at = {"N": 2e10 * (1 + k % 5), "D": 1e12}
    table = runs(20 + 7 * k % 44, seed=k)
    jl.forecast(None, table, at=at, prior=None, n_starts=64, n_local=8)


def different_law(k: int) -> None:
    import jaxlaw as jl

    jl.fit(own_law(k), runs_of_size(64, seed=k), n_starts=16, n_local=4)


LOOPS = {
    "fits": ("different fits: other runs, rows and options, four laws", different_fit, 500),
    "forecasts": ("forecasts of other runs by the default laws", different_forecast, 100),
    "own-laws": ("laws of a user's own, a fit each", different_law, 100),
}  # fmt: skip
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


def loop(name: str, most: int, limit: float) -> Iterator[dict[str, Any]]:
    """What this process holds after so many calls; Linux says how many files and threads."""
    from jaxlaw import _jit

    _, call, _ = LOOPS[name]
    for k in range(most):
        call(k)
        if k + 1 in COUNTS:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            yield {
                "calls": k + 1,
                "cpu": time.process_time(),
                "memory": pages * resource.getpagesize() / 2**20,
                "peak": peak(),
                "files": len(os.listdir("/proc/self/fd")),
                "threads": len(os.listdir("/proc/self/task")),
                "programs": sum(program._cache_size() for program in list(_jit._programs)),
            }
        if time.process_time() > limit:
            return


# ---------------------------------------------------------------- processes, tables


def in_a_process(*command: Any) -> list[dict[str, Any]]:
    """What this script prints for a point or a loop, in a process with an empty cache folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = (sys.executable, __file__, *map(str, command))
        environment = os.environ | {"JAXLAW_CACHE": folder}
        printed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in printed.stdout.splitlines()]


def slope(one: dict[str, Any], other: dict[str, Any], key: str) -> float:
    if min(one[key], other[key]) <= 0:
        return math.nan
    return math.log(other[key] / one[key]) / math.log(other["size"] / one["size"])


def with_slopes(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Points with their time, memory above imports and data, and slopes from the one before."""
    made = []
    for k, point in enumerate(points):
        time_ = point["first"] if point["again"] is None else point["again"]
        row = point | {"time": time_, "memory": point["peak"] - point["before"]}
        if k:
            row |= {f"slope of {key}": slope(made[-1], row, key) for key in ("time", "memory")}
        made.append(row)
    return made


def steepest(rows: list[dict[str, Any]], key: str) -> float:
    """The largest slope between neighbours, where the later is more than constants."""
    slopes = (row[f"slope of {key}"] for row in rows[1:] if row[key] >= LEAST[key])
    return max(slopes, default=0.0)


def table_of(title: str, rows: list[dict[str, Any]], left_out: str) -> str:
    columns = ("size", "first call, CPU s", "again, CPU s", "slope", "peak, MB",
               "of it imports and data", "slope of the rest")  # fmt: skip
    lines = [
        f"\n### {title[0].upper()}{title[1:]}\n",
        f"| {' | '.join(columns)} |",
        "|---" * 7 + "|",
    ]
    for row in rows:
        again = "·" if row["again"] is None else f"{row['again']:.3g}"
        slopes = [f"{row[key]:.2f}" if key in row else "" for key in
                  ("slope of time", "slope of memory")]  # fmt: skip
        lines.append(f"| {row['size']:,} | {row['first']:.3g} | {again} | {slopes[0]} "
                     f"| {row['peak']:.0f} | {row['before']:.0f} | {slopes[1]} |")  # fmt: skip
    return "\n".join([*lines, *([f"\n{left_out}"] if left_out else [])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*AXES, *LOOPS]))
    parser.add_argument("--quick", action="store_true", help="small sizes, in one process")
    parser.add_argument("--limit", type=float, default=100, help="CPU seconds of a size or a loop")
    parser.add_argument("--keep", type=Path, help="file of what is measured, a line each")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--loop", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.point:
        print(json.dumps(measure(asked.point[0], int(asked.point[1]))))
    elif asked.loop:
        name, most = asked.loop
        for line in loop(name, int(most), asked.limit):
            print(json.dumps(line), flush=True)
    else:
        report(asked.names or [*AXES, *LOOPS], asked.quick, asked.limit, asked.keep)


def report(names: list[str], quick: bool, limit: float, keep: Path | None) -> None:
    """Measure what is named, and print the tables."""
    kept = {}
    if keep is not None and keep.exists():
        kept = {tuple(key): value for key, value in map(json.loads, keep.read_text().splitlines())}

    def once(key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if key not in kept:
            kept[key] = make()
            if keep is not None:
                with keep.open("a") as file:
                    file.write(json.dumps([key, kept[key]]) + "\n")
        return kept[key]

    tables, summary, programs = [], [], []
    for name in (name for name in names if name in AXES):
        axis, points, left_out = AXES[name], [], ""
        for size in map(int, axis.quick if quick else axis.sizes):
            if len(points) > 1:
                last = with_slopes(points)[-1]
                grown = (size / last["size"]) ** max(1.0, last["slope of time"])
                if last["first"] - last["time"] + last["time"] * grown > limit:
                    left_out = f"Left out: {size:,}, some {last['time'] * grown:.0f} CPU s."
                    break
            measured = measure if quick else lambda *one: in_a_process("--point", *one)[0]
            points.append(once((name, size), lambda one=(name, size), m=measured: m(*one)))
        rows = with_slopes(points)
        tables.append(table_of(axis.title, rows, left_out))
        summary.append(f"| {axis.title} | {rows[0]['size']:,} to {rows[-1]['size']:,} "
                       f"| {rows[0]['first'] - rows[0]['time']:.1f} | {rows[0]['time']:.3g} "
                       f"| {rows[-1]['time']:.3g} | {steepest(rows, 'time'):.2f} "
                       f"| {rows[0]['peak']:.0f} | {rows[-1]['peak']:.0f} "
                       f"| {steepest(rows, 'memory'):.2f} |")  # fmt: skip
        programs += [
            f"| {axis.title} | {rows[-1]['size']:,} | `{program}` | {sizes[0]:.1f} "
            f"| {sizes[1]:.1f} | {sizes[2]:.1f} |"
            for program, sizes in rows[-1].get("programs", [])
            if quick or sum(sizes) >= LEAST["memory"]
        ]
        print(tables[-1], flush=True)
    if summary:
        print("\n| what grows | sizes | compiling, CPU s (constant) | least size, CPU s "
              "| largest, CPU s | steepest slope | least, MB | largest, MB | steepest slope |"
              "\n|---|---|---|---|---|---|---|---|---|", *summary, sep="\n")  # fmt: skip
        print("\n### Memory of the largest programs, MB\n\n| what grows | size | program "
              "| arguments | results | in between |\n|---|---|---|---|---|---|", *programs,
              sep="\n")  # fmt: skip
    for name in (name for name in names if name in LOOPS):
        title, _, most = LOOPS[name]
        if quick:
            rows = list(loop(name, 1, limit))
        else:
            command = ("--loop", name, most, "--limit", limit)
            rows = once((name, most), lambda one=command: in_a_process(*one))
        print(f"\n### {title[0].upper()}{title[1:]}\n\n| calls | CPU s | memory, MB | peak, MB "
              "| open files | threads | programs |\n|---|---|---|---|---|---|---|")  # fmt: skip
        for row in rows:
            print(f"| {row['calls']} | {row['cpu']:.0f} | {row['memory']:.0f} | {row['peak']:.0f} "
                  f"| {row['files']} | {row['threads']} | {row['programs']} |")  # fmt: skip


if __name__ == "__main__":
    main()
