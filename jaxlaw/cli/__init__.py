"""The ``jaxlaw`` command: parses, calls the public API, prints.

Exit codes: 0 done, 1 the fit or the data cannot be used, 2 wrong usage, 130 interrupted, 141 the
output is no longer read.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from jaxlaw import __version__
from jaxlaw.errors import ColumnError, DataError, JaxlawError, WorkError
from jaxlaw.notes import FitWarning

UNREAD = 141  # the exit code that shells give to a command ended by a closed pipe
#: A device that takes no more, or a pipe that nobody reads.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)
INTERRUPTED = 130  # what a shell says of a command that Ctrl-C ended

try:
    import rich  # noqa: F401
    import typer
except ModuleNotFoundError:  # the command is there without its extra, and says what is missing

    def main() -> None:
        """Say how to install what the command needs."""
        print("The jaxlaw command needs its extra: pip install 'jaxlaw[cli]'", file=sys.stderr)
        sys.exit(2)

else:
    from jaxlaw.cli._guard import guard_every
    from jaxlaw.cli._help import Commands, Plans

    #: Module here → its commands, each of which is a function NAME_command.
    _MODULES = {
        "_fit": ("laws", "fit", "predict", "demo"),
        "_curves": ("areas", "curve"),
        "_uncertainty": ("bootstrap", "covariance", "profile", "influence", "identifiability"),
        "_forecasts": (
            "study",
            "backtest",
            "forecast",
            "scores",
            "compute-for-score",
            "score",
        ),
        "_experiments": ("inflection",),
        "_reports": ("plot", "report"),
    }

    def main() -> None:
        """Run the command; every error jaxlaw knows of is one line and an exit code."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # terminals without Greek letters
        out = sys.stdout
        try:
            code = _run(sys.argv[1:])
            if sys.stdout is not out:  # typer puts its own in place of one that is closed
                sys.exit(UNREAD)
            if out is not None:
                out.flush()
        except OSError as error:
            # Files are written elsewhere, by name: an error without one is that of a stream.
            if error.filename is not None or error.errno not in FULL:
                raise
            code = _refused(out, error)
        sys.exit(code)

    def _run(arguments: list[str]) -> Any:
        """Run a command line; its exit code."""
        first, rest = _first_the_apps(arguments)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FitWarning)  # commands print a fit's notes
                _commands(rest[0] if rest else "")([*first, *rest], prog_name="jaxlaw")
        except SystemExit as stop:
            if stop.code == INTERRUPTED:
                print("jaxlaw: interrupted; --work-dir keeps what is finished", file=sys.stderr)
            return stop.code
        except JaxlawError as error:
            print(f"jaxlaw: {error}", file=sys.stderr)
            of_data = isinstance(error, DataError | WorkError)
            return 1 if of_data and not isinstance(error, ColumnError) else 2
        except (RuntimeError, AssertionError) as error:
            from jaxlaw._typed import no_platform

            if (reason := no_platform(error)) is None:
                raise
            print(f"jaxlaw: {reason}", file=sys.stderr)
            return 2

    def _first_the_apps(arguments: list[str]) -> tuple[list[str], list[str]]:
        """The options of every command, which the app takes in front, and all other arguments."""
        first, rest, words = [], [], iter(arguments)
        for word in words:
            if word == "--law-file":
                first += [word, *islice(words, 1)]
            elif word == "--verbose" or word.startswith("--law-file="):
                first.append(word)
            else:
                rest.append(word)
        return first, rest

    def _commands(name: str = "") -> Any:
        """What runs a command line that begins with this name; of an unknown one the whole app."""
        groups = {"plan", "design"}
        return _made(name if name in groups.union(*_MODULES.values()) else "")

    @cache
    def _made(only: str) -> Any:
        return typer.main.get_command(make_app(only))

    def make_app(only: str = "") -> typer.Typer:
        """The app.

        Args:
            only: command or group that is used: modules of others are then not imported, nor
                their options made, which take longer than most commands. Empty for all.
        """
        app = typer.Typer(
            cls=Commands,
            help="Fit scaling laws of (continual) pre-training.\n\n"
            "Begin with: jaxlaw fit chinchilla runs.csv --out fit.json",
            no_args_is_help=True,
            add_completion=True,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
        )
        app.callback()(_every_command)
        for module, names in _MODULES.items():
            for name in names:
                if only in ("", name):
                    home = import_module(f"jaxlaw.cli.{module}")
                    made = getattr(home, f"{name.replace('-', '_')}_command")
                    app.command(name)(made)
        if only in ("", "design"):
            from jaxlaw.cli._experiments import design

            app.add_typer(design, name="design")
        guard_every(app)
        plans = typer.Typer(
            cls=_Plans, help="Answer a question with a fitted law.", no_args_is_help=True,
            rich_markup_mode=None,
        )  # fmt: skip
        app.add_typer(plans, name="plan")
        return app

    def _refused(out: Any, error: OSError) -> int:
        """The exit code of output that is refused: without a message where it is no longer read."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())  # Python flushes once more
        if isinstance(error, BrokenPipeError):
            return UNREAD
        with suppress(OSError):  # standard error may be the same device
            reason = error.strerror or error
            print(f"jaxlaw: cannot write to standard output: {reason}", file=sys.stderr)
        return 2

    def _version(wanted: bool) -> None:
        if wanted:
            print(f"jaxlaw {__version__}, jax {version('jax')}")
            raise typer.Exit

    def _every_command(
        context: typer.Context,
        verbose: Annotated[
            bool, typer.Option("--verbose", help="Say on stderr what is done, in any command.")
        ] = False,
        law_file: Annotated[
            list[Path] | None,
            typer.Option(
                metavar="FILE.py",
                help="Run this Python file first, which defines laws of your own: fits of them are "
                "then read, in any command. Repeatable.",
            ),
        ] = None,
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
        ] = False,
    ) -> None:
        for path in law_file or ():
            from jaxlaw.laws import run_file

            run_file(path)
        if verbose:
            from jaxlaw.cli import _verbosity as verbosity

            context.call_on_close(partial(verbosity.finish, verbosity.begin()))

    class _Plans(Plans):
        """The group ``plan``: its commands are made when one is used, that one alone.

        Reading the signatures of all plans takes as long as all the rest of ``jaxlaw --help``.
        """

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """The command of a plan; of an unknown one None."""
            made = self._made or self._make(cmd_name)
            return made.get(cmd_name) or super().get_command(ctx, cmd_name)

        @property
        def commands(self) -> dict[str, Any]:  # type: ignore[override]
            if not self._made:
                self._made.update(self._make(""))
            return self._made

        @commands.setter
        def commands(self, made: dict[str, Any]) -> None:
            self._made = dict(made)

        def _make(self, only: str) -> dict[str, Any]:
            from jaxlaw.cli._plans import make_plans

            return dict(typer.main.get_group(make_plans(only)).commands)
