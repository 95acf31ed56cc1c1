"""Fits and data shared between tests; real data through JAXLAW_DATA."""

import gc
import io
import os
import sys
import tempfile
from functools import cache
from pathlib import Path

import hypothesis

# Tests are of the CPU unless asked: of several processes on one GPU the first takes its memory.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import _jit as programs, simulate
from jaxlaw._jit import UNOPTIMISED, Program, compiled, memory_maps
from jaxlaw.fitting import _engine as engine
from jaxlaw.laws import _base as base

# An example that takes 0.2 s on a busy machine is no failure: no test is timed.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
DATA = os.environ.get("JAXLAW_DATA")
_compiled_with = ""
needs_data = pytest.mark.skipif(DATA is None, reason="JAXLAW_DATA is not set")


def forget_programs():
    """Make every program anew when it is called next."""
    for program in list(programs._programs):
        program._made.clear()
    jax.clear_caches()


def pytest_configure(config):
    """Most of the time goes into compiling: what one process has compiled, the others read.

    Programs of tests are small and used once, so that optimising them takes more than half as long
    again (measured in CPU seconds: fits 15.6 and 30.4, bootstraps 20.0 and 30.6, forecasts 48.5 and
    86.0), and last bits are all that changes. So they are compiled without, unless ``XLA_FLAGS`` is
    set: with ``XLA_FLAGS=`` the tests compile as users' processes do, and CI runs the quick ones so
    too. Processes that the tests begin are as users' own.
    """
    global _compiled_with
    os.environ["JAXLAW_QUIET"] = "1"  # on a busy machine any command takes two seconds
    gc.set_threshold(50_000, 20, 20)  # traces are many small objects that stay
    unoptimised = " ".join(f"--{name}={value}" for name, value in UNOPTIMISED.items())
    os.environ.setdefault("XLA_FLAGS", unoptimised)
    worker = hasattr(config, "workerinput")
    if worker or not config.getoption("numprocesses", 0):
        # The flags are read once, and are a part of what tells kept programs apart.
        programs._surroundings(jax.default_backend())
        _compiled_with = os.environ.pop("XLA_FLAGS", "")
    if not worker and "JAXLAW_CACHE" not in os.environ:  # a folder of one's own outlives the run
        folder = tempfile.TemporaryDirectory(prefix="jaxlaw-cache-")
        config.add_cleanup(folder.cleanup)
        os.environ["JAXLAW_CACHE"] = folder.name


def compiled_with() -> str:
    """The ``XLA_FLAGS`` of this process, for one that is to give the same last bits."""
    return _compiled_with


#: Begins a script that Ctrl-C must end, also where the tests run in the background, deaf to it.
HEEDS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


#: ``jax.jit`` without optimisation: compiles in a third of the time, and runs slowly.
jitted_for_once = compiled(optimised=False)


@cache
def chinchilla_runs() -> jl.Runs:
    """The 240 runs of the published replication."""
    return jl.read_runs(
        Path(DATA) / "chinchilla_points.csv",
        columns={"N": "n_params", "D": "n_tokens"},
        where="excluded_in_paper_fit == 0",
    )


@cache
def slimpajama(corpus: str) -> jl.Runs:
    columns = {
        "N": "n_params", "D": "n_tokens", "r": f"weight_{corpus}", "loss": f"{corpus}_loss",
    }  # fmt: skip
    path = Path(DATA) / "slimpajama_mixtures.csv"
    return jl.read_runs(path, columns, {"N": 1, "D": 1}, drop_invalid=True)


#: Rows whose programs are not worth optimising.
FEW = 250


def some_rows(table: pd.DataFrame, most: int | None) -> pd.DataFrame:
    """Of a table of more rows than ``most`` so many, drawn at random."""
    if most is None or len(table) <= most:
        return table
    return table.sample(most, random_state=0).sort_index()


@cache
def simulated_fit(name: str, noise: float = 0.004, most: int | None = None, **options) -> jl.Fit:
    """A fit of a law to its own simulated experiment, or to ``most`` rows of it.

    Of cpt-chinchilla with all six parameters free.
    """
    experiment = simulate.experiment(name, noise=noise)
    if experiment.law.from_base:
        options.setdefault("fixed", ())
    options = {key: dict(value) if key == "fixed" else value for key, value in options.items()}
    return jl.fit(experiment.law, some_rows(experiment.table, most), **options)


def numbers(answer) -> dict[str, float]:
    """The numbers of a result, by name."""
    return {name: one.value for name, one in answer.quantities.items()}


def kept_programs() -> int:
    """How many programs of solvers and of screening this process has compiled and kept."""
    programs = [one for one in vars(engine).values() if isinstance(one, Program)]
    return sum(program._cache_size() for program in programs)


@pytest.fixture
def own_laws(monkeypatch):
    """Laws that a test registers are gone after it."""
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Run ``jaxlaw …`` in an empty folder: exit code, stdout, stderr."""
    cli = pytest.importorskip("jaxlaw.cli")
    pytest.importorskip("cyclopts")
    monkeypatch.chdir(tmp_path)

    def run(*arguments, stdin=None):
        monkeypatch.setattr(sys, "argv", ["jaxlaw", *map(str, arguments)])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as stop:
            cli.main()
        seen = capsys.readouterr()
        assert "Traceback" not in seen.err
        return stop.value.code or 0, seen.out, seen.err

    return run


@pytest.fixture(scope="session")
def chinchilla_fit() -> jl.Fit:
    return simulated_fit("chinchilla")


@pytest.fixture(scope="session")
def ladder() -> pd.DataFrame:
    """Some 30 runs of the experiment of chinchilla, up to 1e21 FLOPs, with noise."""
    runs = jl.simulate.experiment("chinchilla", noise=0.004).table
    return runs[6 * runs["N"] * runs["D"] <= 1e21].iloc[::7]


@pytest.fixture(scope="session")
def made_forecast(ladder) -> jl.Forecast:
    return jl.forecast(ladder, {"N": [5e9, 2e10], "D": [1e11, 4e11]})


@pytest.fixture(autouse=True, scope="module")
def room_for_programs():
    """Tests compile far more programs than a process has memory maps for, on Linux."""
    if memory_maps() > programs.MOST_MAPS:
        forget_programs()


@pytest.fixture
def closed():
    """Figures are closed after the test; for modules of pictures, by ``usefixtures``."""
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture
def ax(closed):
    import matplotlib.pyplot as plt

    return plt.subplots()[1]


def texts(ax) -> list[str]:
    """What is written on a picture beside its axes: names of curves and points."""
    return [text.get_text() for text in ax.texts]


def named(ax) -> list[str]:
    """Names of curves at the right edge, from top to bottom."""
    ends = [text for text in ax.texts if hasattr(text, "curve_end")]
    return [text.get_text() for text in sorted(ends, key=lambda text: -text.xy[1])]
