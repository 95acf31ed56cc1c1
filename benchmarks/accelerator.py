"""Every promise on an accelerator, beside the CPU of the same machine and scipy there.

    python benchmarks/accelerator.py               # under eight minutes
    python benchmarks/accelerator.py tick grid     # some rows

The rows run in a process of their own on the default device, then on the CPU, where the long ones
take a sample of the starts or problems and are scaled; scipy takes a smaller sample still, on one
core, with the gradient written in numpy. "first" is a call that compiles its programs (none are
kept), "seconds" the median of later calls. The optima of both devices are compared. All data but
the chinchilla points (``JAXLAW_DATA``) are simulated.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # scipy's L-BFGS-B is lost otherwise
os.environ.setdefault("JAXLAW_CACHE", "off")

import json
import resource
import statistics
import subprocess
import sys
import time

MARK = "row: "


def timed(call, repeats):
    """Result, seconds of the first call, and the median of ``repeats`` later ones."""
    seconds = []
    for _ in range(1 + repeats):
        begun = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - begun)
    return result, seconds[0], statistics.median(seconds[1:] or seconds)


def show(row, first, seconds, share=1.0, **more):
    """Print a row; ``share``: how much of the whole was timed."""
    more |= {"row": row, "first": first, "seconds": seconds / share, "share": share}
    print(MARK + json.dumps(more), flush=True)


class Rows:
    """The rows of the table, a method each.

    Args:
        size: ``whole``; ``small`` for the CPU.
    """

    def __init__(self, size):
        from multistart import NEWTON, chinchilla_runs, fit_problem
        from scale import SILENT

        from jaxlaw import simulate

        self.size, self.newton, self.silent = size, NEWTON, SILENT
        self.runs = {
            "chinchilla": chinchilla_runs()[0],
            "dcpt": simulate.experiment("dcpt").table,
        }
        self.problems = {name: fit_problem(name, runs) for name, runs in self.runs.items()}

    def of(self, share):
        """How much of a row is done, if it is so much on the CPU."""
        return 1.0 if self.size == "whole" else share

    def starts(self, problem, count):
        from jaxlaw.fitting import _starts

        return problem.coordinates_of_starts(_starts.sobol(problem.model.law, count, 0))

    def search(self, problem, first, n_local=False, solver=None, **many):
        """Objectives of the optima of one problem, or of those of ``many`` weights, targets."""
        from jaxlaw.fitting._multistart import Batch, find_optima

        fields = problem.many(**many) if many else {}
        batch = Batch(problem.model, problem.data._replace(**fields), frozenset(fields))
        found = find_optima(solver or self.newton, batch, first, n_local, self.silent)
        return [one.objective for one in found]

    def fit(self):
        import jax

        import jaxlaw as jl

        here = jax.default_backend()
        for name, runs in self.runs.items():
            for device in ("auto", here):  # auto is the CPU of the host
                call = lambda: jl.fit(name, runs, device=device)  # noqa: B023, E731
                fit, first, seconds = timed(call, 7)
                row = f"default fit of {name}" + ", device auto" * (device == "auto")
                show(row, first, seconds, optimum=fit.objective)

    def forecast(self):
        import jaxlaw as jl

        runs = self.runs["chinchilla"]
        for count in (20, len(runs)):
            few, at = runs.iloc[:: len(runs) // count][:count], {"N": 7e10, "D": 1.4e12}
            made, first, seconds = timed(lambda: jl.forecast(few, at=at), 1)  # noqa: B023
            show(f"forecast of {count} runs", first, seconds, optimum=float(made.table.estimate[0]))

    def tick(self):
        """One iteration: the difference of calls that make 72 and 8."""
        from jaxlaw.fitting import _engine

        for name, problem in self.problems.items():
            for lanes in (64, 2**15):
                share = self.of(1 / 16) if lanes > 64 else 1.0
                starts = self.starts(problem, int(lanes * share))

                def call(iterations):
                    settings = self.newton.settings._replace(
                        max_iterations=iterations, tolerance=0.0
                    )
                    solver = self.newton._replace(settings=settings)
                    begun = time.perf_counter()
                    _engine.solve(solver, problem.model, problem.data, starts)  # noqa: B023
                    return time.perf_counter() - begun

                first = call(8)
                few, many = (min(call(count) for _ in range(3)) for count in (8, 72))
                show(f"one iteration of {lanes:,} lanes of {name}", first, (many - few) / 64, share)

    def multistart(self):
        problem = self.problems["chinchilla"]
        for count in (4_500, 100_000):
            share = self.of(0.1) if count > 4_500 else 1.0
            first = self.starts(problem, int(count * share))
            found, cold, seconds = timed(lambda: self.search(problem, first), 3)  # noqa: B023
            show(f"{count:,} starts of chinchilla, all solved", cold, seconds, share,
                 optimum=found[0])  # fmt: skip

    def grid(self):
        from jaxlaw.fitting import _starts

        problem = self.problems["dcpt"]
        first = problem.coordinates_of_starts(_starts.grid_of(problem.model.law, problem.means))
        count = len(first)
        first = first[:: round(1 / self.of(1 / 64))]
        found, cold, seconds = timed(lambda: self.search(problem, first), 1)
        show(f"the paper's grid of dcpt, {count:,} starts, all solved", cold, seconds,
             len(first) / count, optimum=found[0])  # fmt: skip

    def study(self):
        import numpy as np
        from multistart import fit_problem
        from scale import domains, held_out_pairs

        names = ("dcpt-l1", "dcpt-l2", "dcpt", "dcpt-l4", "dcpt-l5")
        names = names if self.size == "whole" else ("dcpt",)
        first, later, count = 0.0, 0.0, 0
        for name in names:
            for _, inputs, made in domains():
                masks = held_out_pairs(inputs)
                targets = np.repeat(np.log([loss for _, loss in made]), len(masks), axis=0)
                problem = fit_problem(name, inputs | {"loss": made[0][1]})
                many = {"targets": targets, "weights": np.tile(masks, (len(made), 1))}
                starts = self.starts(problem, 4096)
                found, cold, seconds = timed(
                    lambda: self.search(problem, starts, 64, **many),  # noqa: B023
                    1,
                )
                first, later, count = first + cold, later + seconds, count + len(found)
        show("the paper's study: 2,160 problems, 4,096 starts each, 64 solved", first, later,
             count / 2160)  # fmt: skip

    def bootstrap(self):
        import numpy as np

        import jaxlaw as jl

        runs, problem = self.runs["chinchilla"], self.problems["chinchilla"]
        for count in (4_000, 100_000):
            share = self.of(0.04) if count > 4_000 else 1.0
            rows = len(runs)
            drawn = np.random.default_rng(0).multinomial(
                rows, np.full(rows, 1 / rows), size=int(count * share)
            )
            starts = self.starts(problem, 64)
            found, cold, seconds = timed(
                lambda: self.search(problem, starts, 8, weights=drawn.astype(float)),  # noqa: B023
                1,
            )
            show(f"{count:,} resamples of chinchilla, 8 of 64 starts solved", cold, seconds, share,
                 optimum=float(np.median(found[:4000])))  # fmt: skip
        _, cold, seconds = timed(lambda: jl.bootstrap("chinchilla", runs, n_resamples=4000), 1)
        show("jaxlaw.bootstrap of 4,000", cold, seconds)

    def areas(self):
        import jax
        import jax.numpy as jnp
        import numpy as np

        import jaxlaw as jl

        at = np.arange(1, 101) * 1000
        for kind, passes in ((jnp.float32, 1), (jnp.float32, 3), (jnp.float64, 1)):
            count = 10_000 if kind == jnp.float32 else 5_000
            several = int(count * self.of(0.01))
            share = several / count
            lr = jax.random.uniform(jax.random.key(0), (several, 100_000), kind, 1e-5, 1e-3)
            add, copied = jax.jit(lambda x: x + 1), 2 * lr.nbytes
            _, _, copy = timed(lambda: add(lr).block_until_ready(), 5)  # noqa: B023
            points = at if passes == 1 else None
            _, cold, seconds = timed(
                lambda: jax.block_until_ready(jl.areas(lr, 0.999, at=points)),  # noqa: B023
                5,
            )
            where = "after 100 steps" if passes == 1 else "after every step"
            show(f"areas of {count:,} × 100,000 steps, {where}, {lr.dtype}", cold,
                 seconds, share, bandwidth=passes * lr.nbytes / seconds / (copied / copy),
                 copy=copied / copy)  # fmt: skip

    def screening(self):
        """Objectives of starts in both precisions, and whether the best are the same."""
        import jax
        import numpy as np

        from jaxlaw.fitting import _engine

        problem, count = self.problems["dcpt"], int(2**18 * self.of(1 / 64))
        starts = self.starts(problem, count)
        best = {}
        for kind in (np.float64, np.float32):
            cast = lambda leaf: np.asarray(leaf, kind) if np.ndim(leaf) else kind(leaf)  # noqa: B023, E731
            data = jax.tree.map(cast, problem.data)
            chunk = _engine.Chunk((0, 1), (0, count), {}, starts.astype(kind), (1, count))
            with jax.enable_x64(kind == np.float64):
                ((values, _),), cold, seconds = timed(
                    lambda: _engine.evaluate_chunks(problem.model, data, [chunk]),  # noqa: B023
                    3,
                )
            value = np.nan_to_num(values[0], nan=np.inf)
            best[kind] = np.argsort(value, kind="stable")[:64]
            same = len(np.intersect1d(best[kind], best[np.float64])) / 64
            show(f"262,144 starts of dcpt screened in {kind.__name__}", cold, seconds,
                 count / 2**18, best=same)  # fmt: skip

    def lanes(self):
        """Ten million lanes, two iterations each: what the host's memory comes to."""
        import numpy as np

        from jaxlaw.fitting import _starts

        if self.size == "small":
            return
        problem = self.problems["dcpt"]
        first = problem.coordinates_of_starts(_starts.grid_of(problem.model.law, problem.means))
        short = self.newton._replace(settings=self.newton.settings._replace(max_iterations=2))
        _, cold, _ = timed(
            lambda: self.search(problem, first, False, short, weights=np.ones((36, 540))), 0
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        show(f"two iterations of {36 * len(first):,} lanes", cold, cold, host_gib=peak)

    def scipy(self):
        """Milliseconds of a start by scipy's L-BFGS-B on one core; only beside the CPU."""
        if self.size == "whole":
            return
        from multistart import DELTA, case_of, numpy_chinchilla, numpy_dcpt, scipy_loop

        from jaxlaw.fitting import _starts

        for name, function, count in (
            ("chinchilla", numpy_chinchilla, 200),
            ("dcpt", numpy_dcpt, 40),
        ):
            case = case_of(name, self.runs[name], function)
            first = case.coordinates(_starts.sobol(case.law, count, 0))
            function = function(case.problem)
            values, _, seconds = timed(lambda: scipy_loop(case, function, first), 0)  # noqa: B023
            show(f"scipy, one start of {name}", seconds / count, seconds / count,
                 optimum=float(values.min()) * DELTA)  # fmt: skip


ROWS = [name for name, method in vars(Rows).items() if callable(method) and name[0] != "_"]
ROWS = [name for name in ROWS if name not in ("of", "starts", "search")]


def child(size, chosen):
    """Run the rows in this process, and print them."""
    import jax

    device = jax.local_devices()[0]
    print(MARK + json.dumps({"device": device.device_kind, "jax": jax.__version__}), flush=True)
    with jax.enable_x64(True):
        rows = Rows(size)
        for name in chosen:
            getattr(rows, name)()


def run(platform, chosen, size="whole"):
    """The rows of a process of their own; without a platform on the default device."""
    environment = os.environ | ({"JAX_PLATFORMS": platform} if platform else {})
    command = [sys.executable, __file__, "--child", size, *chosen]
    rows = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith(MARK):
                rows.append(json.loads(line.removeprefix(MARK)))
    if process.returncode:
        print(f"the process ended with {process.returncode}: later rows are missing", flush=True)
    return rows[0], {row["row"]: row for row in rows[1:]}


def page(about, device, beside):
    """The table, as Markdown."""
    (here, rows), (_, others) = device, beside
    lines = [
        f"{here['device']}, beside {os.cpu_count()} cores of its host; jax {here['jax']}; {about}.",
        "",
        "| | first call, s | seconds | on the CPU | CPU / device | optimum | |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        other = others.get(name, {})
        cpu, ratio, same, more = "", "", "", ""
        if other:
            cpu = f"{other['seconds']:.3g}" + (" (scaled)" if other["share"] < 1 else "")
            ratio = f"**{other['seconds'] / row['seconds']:.3g}**"
        if "optimum" in row and "optimum" in other:
            same = f"{abs(row['optimum'] / other['optimum'] - 1):.0e} apart"
        if "bandwidth" in row:
            more = f"{row['bandwidth']:.0%} of a copy ({row['copy'] / 1e12:.2f} TB/s)"
        if "best" in row:
            more = f"{row['best']:.0%} of the best 64 are float64's"
        if "host_gib" in row:
            more = f"at most {row['host_gib']:.1f} GiB of host memory"
        lines.append(f"| {name} | {row['first']:.3g} | {row['seconds']:.3g} | {cpu} | {ratio} "
                     f"| {same} | {more} |")  # fmt: skip
    for name, row in others.items():
        if name not in rows:
            lines.append(f"| {name} | | | {row['seconds']:.3g} | | | |")
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
        return
    chosen = sys.argv[1:] or ROWS
    begun = time.perf_counter()
    device, beside = run(None, chosen), run("cpu", chosen, "small")
    print(page(f"{time.perf_counter() - begun:.0f} s in all", device, beside))


if __name__ == "__main__":
    main()
