"""The ``jaxlaw`` command: its options are the arguments of the functions that it calls.

Exit codes: 0 done, 1 the answer is not to be used or the data cannot carry one, 2 wrong usage.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import sys
import warnings
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jaxlaw import __version__, _cache
from jaxlaw._faces import listed
from jaxlaw.errors import ColumnError, DataError, JaxlawError, WorkError
from jaxlaw.notes import FitWarning

#: Group of the help → command → the function that it calls.
COMMANDS = {
    "Fit and predict": {
        "laws": "jaxlaw.cli._commands:laws",
        "fit": "jaxlaw.cli._commands:fit",
        "predict": "jaxlaw.uncertainty:prediction",
        "curve": "jaxlaw.uncertainty:predicted_curve",
        "demo": "jaxlaw.cli._commands:demo",
    },
    "Forecast": {
        "forecast": "jaxlaw:forecast",
        "backtest": "jaxlaw:backtest",
        "score": "jaxlaw.forecasting:score",
        "forecast-scores": "jaxlaw:forecast_scores",
        "ladder": "jaxlaw:compare_resources",
        "forecast-run": "jaxlaw:forecast_run",
        "watch": "jaxlaw.cli._commands:watch",
    },
    "Uncertainty and comparison": {
        "study": "jaxlaw:cross_validate",
        "bootstrap": "jaxlaw:bootstrap",
        "covariance": "jaxlaw:covariance",
        "profile": "jaxlaw:profile",
        "influence": "jaxlaw.cli._commands:influence",
        "identifiability": "jaxlaw:identifiability",
    },
    "Show": {"plot": "jaxlaw.cli._commands:plot", "report": "jaxlaw.cli._commands:report"},
    "Next runs": {
        "design steps": "jaxlaw.design:evaluation_steps",
        "design next": "jaxlaw.design:next_runs",
        "inflection": "jaxlaw.papers:inflection_ratio",
    },
    "Plan": {
        "plan allocation": "jaxlaw.planning:allocation",
        "plan allocation-law": "jaxlaw.planning:allocation_law",
        "plan frontier": "jaxlaw.planning:frontier",
        "plan min-compute": "jaxlaw.planning:min_compute",
        "plan minimise": "jaxlaw.planning:minimise",
        "plan solve": "jaxlaw.planning:solve",
        "plan hyperparameters": "jaxlaw.planning:optimal_inputs",
        "plan best-settings": "jaxlaw.planning:best_settings",
        "plan critical-batch-size": "jaxlaw.planning:critical_batch_size",
        "plan optimal-mixture": "jaxlaw.planning:optimal_mixture",
        "plan optimal-mixture-data-limited": "jaxlaw.planning:optimal_mixture_data_limited",
        "plan critical-ratio": "jaxlaw.planning:critical_ratio",
        "plan optimal-weights": "jaxlaw.planning:optimal_weights",
        "plan data-transferred": "jaxlaw.planning:data_transferred",
        "plan frontier-savings": "jaxlaw.planning:frontier_savings",
        "plan break-even": "jaxlaw.planning:break_even",
        "plan compute-multiplier": "jaxlaw.planning:compute_multiplier",
        "plan observed-transfer": "jaxlaw.papers:observed_transfer",
        "plan continual": "jaxlaw.planning:continual_run",
        "plan optimal-training": "jaxlaw.planning:optimal_training",
        "plan final-losses": "jaxlaw.planning:final_losses",
        "plan turning-length": "jaxlaw.planning:turning_length",
        "plan optimal-schedule": "jaxlaw.planning:optimal_schedule",
        "plan loss-envelope": "jaxlaw.papers:loss_envelope",
        "plan out-of-domain": "jaxlaw.papers:out_of_domain",
        "plan pretraining-value": "jaxlaw.papers:pretraining_value",
    },
}
_FUNCTIONS = {name: path for group in COMMANDS.values() for name, path in group.items()}
_PACKAGE = Path(__file__).parents[1]
_HELP = (
    "Fit scaling laws of (continual) pre-training.\n\n"
    "Start: jaxlaw fit chinchilla runs.csv --out fit.json"
)
_GROUPS = {
    "plan": "Plan size, data, mixture or schedule with a fitted law",
    "design": "Choose the next runs, or the steps at which to evaluate a run",
}


def main() -> None:
    """Run the command; an error that jaxlaw knows of is one line and an exit code."""
    try:
        import cyclopts  # an extra
    except ModuleNotFoundError:
        print("The jaxlaw command needs its extra: pip install 'jaxlaw[cli]'", file=sys.stderr)
        sys.exit(2)
    warnings.simplefilter("ignore", FitWarning)  # commands print a fit's notes
    if isinstance(sys.stdout, io.TextIOWrapper):  # a stream of ASCII has no α and no ²
        sys.stdout.reconfigure(errors="replace")
    try:
        call = _print_help if {"--help", "-h"} & {*sys.argv} else _call
        code = call(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # nobody reads on, as of `jaxlaw laws | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 0
    except KeyboardInterrupt:
        kept = any(word.startswith("--work-dir") for word in sys.argv)
        resume = "; --work-dir keeps finished chunks: repeat the command to resume" * kept
        print(f"jaxlaw: interrupted{resume}", file=sys.stderr)
        code = 130
    except cyclopts.UnusedCliTokensError as error:
        extra = shlex.join(error.unused_tokens or ())
        print(f"jaxlaw: unexpected {extra}: quote file names that have spaces", file=sys.stderr)
        code = 2
    except (JaxlawError, cyclopts.CycloptsError, OSError) as error:
        needs = r'Command "(.+?)" parameter (\S+) requires an argument'
        path = _FUNCTIONS.get(" ".join(getattr(error, "command_chain", None) or ()))
        text = re.sub(needs, r"\1 needs \2", f"jaxlaw: {error}")
        print(f"{text} Example: {_example(path)}" if path else text, file=sys.stderr)
        of_data = isinstance(error, DataError | WorkError) and not isinstance(error, ColumnError)
        code = 1 if of_data else 2
    sys.exit(code if isinstance(code, int) else 0)


def _call(words: list[str], **options):
    return make_app()(
        words, result_action="return_value", print_error=False, exit_on_error=False, **options
    )


def _print_help(words: list[str]) -> None:
    """Print a help as it was made before: to make a command's takes the import of JAX, 2 s.

    Other sources, words or another terminal make it anew.
    """
    terminal = (shutil.get_terminal_size((80, 24)).columns, sys.stdout.isatty())
    sources = [(str(file), file.stat().st_mtime_ns) for file in sorted(_PACKAGE.rglob("*.py"))]
    key = repr(("help", words, terminal, sources))
    kept = _cache.read(key)
    if kept is None:
        from rich.console import Console  # comes with the extra

        console = Console(file=io.StringIO(), width=terminal[0], force_terminal=terminal[1])
        _call(words, console=console)
        kept = console.file.getvalue().encode()  # type: ignore[attr-defined]
        _cache.write(key, kept)
    print(kept.decode(), end="")


def make_app() -> Any:
    """The app: a command's function is imported when it is used, and for its own help."""
    from cyclopts import App, Group  # an extra

    app = App(
        name="jaxlaw", help=_HELP, help_format="plaintext", suppress_keyboard_interrupt=False,
        version=lambda: f"jaxlaw {__version__}, jax {version('jax')}",
    )  # fmt: skip
    settings = Group("Options", sort_key=9)
    app.command(lambda: _call(["--version"]), name="version", show=False)
    app.register_install_completion_command(group=settings)
    app["--help"].group = app["--version"].group = settings
    apps = {"": app}
    for order, (title, commands) in enumerate(COMMANDS.items()):
        group = Group(title, sort_key=order)
        for place, (name, path) in enumerate(commands.items()):
            *inside, own = name.split()
            if (first := "".join(inside)) not in apps:
                apps[first] = App(name=first, help=_GROUPS[first], group=group)
                app.command(apps[first])
            lead = _docstring(path).partition("\n")[0]
            lead = re.sub(r":\w+:`([^`]*)`|[`*]", r"\1", lead).strip(' ."')
            apps[first].command(
                f"{__name__}:{name}", name=own, help=lead, sort_key=place,
                **({} if inside else {"group": group}),
            )  # fmt: skip
    return app


def __getattr__(name: str) -> Any:
    """The command of a name, made of its function: this is where the app looks for it."""
    if name not in _FUNCTIONS:
        raise AttributeError(name)
    from jaxlaw.cli._command import as_command  # needs JAX

    module, _, function = _FUNCTIONS[name].partition(":")
    return as_command(name.split()[-1], getattr(import_module(module), function))


def _example(path: str) -> str:
    """The command line of a function's docstring."""
    _, _, lines = _docstring(path).partition("Shell:\n")
    return " ".join(line.strip(" \\") for line in lines.strip().splitlines())


def _docstring(path: str) -> str:
    """A function's docstring, from its source: to import it would import JAX."""
    module, _, name = path.partition(":")
    while find_spec(module).submodule_search_locations and name in listed(  # type: ignore[union-attr]
        import_module(module).__name__
    ):
        module, name = listed(module)[name]
    source = Path(find_spec(module).origin).read_text("utf-8")  # type: ignore[union-attr, arg-type]
    found = re.search(rf'^def {name}\b.*?"""(.*?)"""', source, re.M | re.S)
    return found[1] if found else ""
