"""The ``jaxlaw`` command: parses, calls the public API, prints.

Exit codes: 0 done, 1 the fit or the data is no good, 2 wrong usage, 130 interrupted, 141 nobody
reads the output any more.
"""

from __future__ import annotations

import io
import os
import sys
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import pandas as pd

import jaxlaw as jl
from jaxlaw._interrupts import INTERRUPTED, SAID
from jaxlaw._typed import no_platform
from jaxlaw.cli._saved import law_named, loaded_fit
from jaxlaw.cli._terminal import (
    CSV,
    JSON,
    check_out,
    combinations,
    in_options,
    keeps_inputs,
    pairs,
    print_frame,
    print_json,
    print_table,
    print_wrapped,
    write_table,
)
from jaxlaw.errors import DataError, JaxlawError, UsageError, WorkError
from jaxlaw.fitting._result import Fit
from jaxlaw.fitting._scores import errors, measure, score_lines
from jaxlaw.laws._files import run_file

UNREAD = 141  # what a shell says of a command that a closed pipe ended

try:
    import rich  # noqa: F401
    import typer
except ModuleNotFoundError:  # the command is there without its extra, and says what is missing

    def main() -> None:
        """Say how to install what the command needs."""
        print("The jaxlaw command needs its extra: pip install 'jaxlaw[cli]'", file=sys.stderr)
        sys.exit(2)

else:
    from jaxlaw.cli import _curves as curves
    from jaxlaw.cli import _demonstration as demonstration
    from jaxlaw.cli import _experiments as experiments
    from jaxlaw.cli import _mixtures as mixtures  # noqa: F401
    from jaxlaw.cli import _one_fit as one_fit
    from jaxlaw.cli import _options as opt
    from jaxlaw.cli import _plan_output as plan_output
    from jaxlaw.cli import _plans as plans  # noqa: F401
    from jaxlaw.cli import _reports as reports
    from jaxlaw.cli import _schemas as schemas
    from jaxlaw.cli import _studies as studies
    from jaxlaw.cli import _training as training
    from jaxlaw.cli import _uncertainty as uncertainty
    from jaxlaw.cli import _valuations as valuations
    from jaxlaw.cli import _verbosity as verbosity

    app = typer.Typer(
        help="Fit scaling laws of (continual) pre-training.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    def main() -> None:
        """Run the command; every error jaxlaw knows of is one line and an exit code."""
        _open_streams()
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # terminals without Greek letters
        out, arguments = sys.stdout, sys.argv[1:]
        arguments = _first_the_apps(arguments)
        try:
            _commands()(arguments, prog_name="jaxlaw")
        except SystemExit as stop:
            if stop.code == INTERRUPTED:
                print(SAID, file=sys.stderr)
            code = stop.code
        except JaxlawError as error:
            print(f"jaxlaw: {in_options(str(error))}", file=sys.stderr)
            code = 1 if isinstance(error, DataError | WorkError) else 2
        except (RuntimeError, AssertionError) as error:
            if (reason := no_platform(error)) is None:
                raise
            print(f"jaxlaw: {reason}", file=sys.stderr)
            code = 2
        sys.exit(code if _is_read(out) else UNREAD)

    def _first_the_apps(arguments: list[str]) -> list[str]:
        """The arguments, with the options of every command in front, where the app takes them."""
        first, rest, words = [], [], iter(arguments)
        for word in words:
            if word == "--law-file":
                first += [word, *islice(words, 1)]
            elif word == "--verbose" or word.startswith("--law-file="):
                first.append(word)
            else:
                rest.append(word)
        return first + rest

    @cache
    def _commands() -> Any:
        """The app, made of every command's signature: that takes as long as many a command."""
        return typer.main.get_command(app)

    class _Unread(io.TextIOWrapper):
        """Stands in for a stream that was closed before the command began."""

        def __init__(self) -> None:
            super().__init__(io.BytesIO(), encoding="utf-8")

    def _open_streams() -> None:
        """Give a command whose streams are closed, as a daemon's may be, some to write to."""
        # A file opened later must not get the number of a closed stream, or what libraries
        # write to standard error would go into it.
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(number)
        sys.stdout, sys.stderr = (
            _Unread() if stream is None or stream.closed else stream
            for stream in (sys.stdout, sys.stderr)
        )

    def _is_read(out: Any) -> bool:
        """Whether all was written; if not, nothing more is, and no word of it."""
        if isinstance(out, _Unread):
            out.flush()
            return not out.buffer.getvalue()
        if sys.stdout is not out:  # typer puts its own in place of one that nobody reads
            return False
        try:
            out.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())  # Python flushes once more
            return False
        return True

    def _version(wanted: bool) -> None:
        if wanted:
            print(f"jaxlaw {jl.__version__}, jax {jax.__version__}")
            raise typer.Exit

    @app.callback()
    def _every_command(
        context: typer.Context,
        verbose: Annotated[
            bool, typer.Option("--verbose", help="Say on stderr what is done, in any command.")
        ] = False,
        law_file: Annotated[
            list[Path] | None,
            typer.Option(
                help="Run this Python file first, which defines laws of your own: fits of them are "
                "then read, in any command. Repeatable.",
            ),
        ] = None,
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
        ] = False,
    ) -> None:
        for path in law_file or ():
            run_file(path)
        if verbose:
            context.call_on_close(partial(verbosity.finish, verbosity.begin()))

    @app.command("laws")
    def laws_command(
        published: Annotated[
            bool, typer.Option("--published", help="Coefficients that papers print.")
        ] = False,
        name: Annotated[
            str | None,
            typer.Option(
                help="One of them: its notes; --out writes it as a fit.",
                autocompletion=opt.completed(jl.published),
            ),
        ] = None,
        out: Annotated[Path | None, typer.Option(help="Write the whole table (CSV).")] = None,
        as_json: opt.Json = False,
    ) -> None:
        """List the laws, or the coefficients that papers print for them.

        Example: jaxlaw laws --published --name hoffmann-2022 --out fit.json
        """
        if published or name is not None:
            valuations.show_published(name, out, as_json)
            return
        table = jl.law_table()
        check_out(out, CSV, JSON)
        if out is not None:
            write_table(out, table, table.to_dict(orient="records"))
        if as_json:
            print_json(table.to_dict(orient="records"))
            return
        print_table(["law", "formula", "parameters"], table[["name", "formula", "parameters"]])
        print("--json and --out add inputs, units, size of the source's grid, and source.")

    @app.command("fit")
    @opt.works_long
    @opt.poses_fits
    @opt.reads_runs
    def fit_command(
        law: Annotated[
            str,
            typer.Argument(
                help=f"Name of a law (see `jaxlaw laws`), or {opt.OWN_LAW}.",
                autocompletion=opt.completed(jl.laws.names),
            ),
        ],
        data: Annotated[str, typer.Argument(help="CSV, JSON lines or Parquet file; - for stdin.")],
        schedules: curves.Schedules = None,
        decay: Annotated[
            str | None, typer.Option(help="Curves: λ of the annealing area [0.999], or fit.")
        ] = None,
        first_step: curves.FirstStep = None,
        s1_before: curves.S1Before = None,
        fill: curves.Fill = None,
        batch: curves.Batch = None,
        carry_momentum: curves.CarryMomentum = False,
        count_warmup: curves.CountWarmup = False,
        epsilon: curves.Epsilon = None,
        starts: Annotated[
            str,
            typer.Option(
                help="sobol, or grid (the source's; a note names jaxlaw's own).",
                autocompletion=opt.completed(("sobol", "grid")),
            ),
        ] = "sobol",
        n_starts: opt.Starts = 4096,
        screen: opt.Screen = 64,
        no_screen: opt.NoScreen = False,
        solver: opt.Solver = "newton",
        asymmetry: Annotated[float, typer.Option(help="Factor below the curve.")] = 1.0,
        no_base: Annotated[
            bool, typer.Option("--no-base", help="cpt-chinchilla: fit all parameters.")
        ] = False,
        seed: Annotated[int, typer.Option(min=0, help="Of the Sobol sample.")] = 0,
        strict: Annotated[bool, typer.Option("--strict", help="Fail on a poor fit.")] = False,
        out: Annotated[Path | None, typer.Option(help="Write the fit (JSON).")] = None,
        as_json: opt.Json = False,
        *,
        reading: dict[str, Any],
        posing: dict[str, Any],
        working: dict[str, Any],
    ) -> None:
        """Fit a law to runs.

        Example: jaxlaw fit chinchilla runs.csv -c N=n_params -c D=n_tokens --out fit.json
        """
        check_out(out, JSON, instead="`jaxlaw report FIT --data FILE` draws a fit")
        options = {
            "starts": starts,
            "n_starts": n_starts,
            "screen": False if no_screen else screen,
            "solver": solver,
            "asymmetry": asymmetry,
            "seed": seed,
            "strict": strict,
            **({"fixed": {}} if no_base else {}),
            **posing,
            **working,
        }
        if schedules is not None:
            loss_curves = curves.curves_of(
                data, schedules, first_step, s1_before, batch, fill=fill, **reading
            )
            counted = {"carry_momentum": carry_momentum, "count_warmup": count_warmup,
                       "epsilon": epsilon}  # fmt: skip
            result = curves.fit_curves(law_named(law), loss_curves, decay, counted, **options)
        elif (decay, first_step, s1_before, fill, batch, epsilon) != (None,) * 6 or (
            carry_momentum or count_warmup
        ):
            raise UsageError(
                "--decay, --first-step, --s1-before, --fill, --batch, --epsilon, --carry-momentum "
                "and --count-warmup are about loss curves; say where their learning rates are: "
                "--schedules FILE, or --schedules lr"
            )
        else:
            result = jl.fit(law_named(law), data, **reading, **options)
        if opt.is_silent(working):
            return
        if out is not None:
            result.save(out)
        if as_json:
            print_json(result.to_dict())
        else:
            print_wrapped(result.summary())
        if any(note.severity == "error" for note in result.notes):
            raise typer.Exit(1)

    @app.command("predict")
    def predict_command(
        fit: Annotated[Path, opt.fit_argument("A fit that `jaxlaw fit --out` wrote; - for stdin.")],
        data: Annotated[str | None, typer.Argument(help="File of points; - for stdin.")] = None,
        at: Annotated[
            list[str] | None,
            typer.Option(help="N=7e9 or N=1e9,7e9; all combinations; repeatable."),
        ] = None,
        column: opt.Columns = None,
        corpus: opt.Corpus = None,
        where: opt.Where = None,
        out: Annotated[Path | None, typer.Option(help="Write the table (CSV).")] = None,
        as_json: opt.Json = False,
    ) -> None:
        """Predict at new points, in the units of the fitted runs.

        A file keeps its columns. Where it has the target too, as runs have that were kept from
        the fit, the errors of the predictions are shown.

        Example: jaxlaw predict fit.json --at N=1e9,7e9 --at D=1e12
        """
        check_out(out, CSV, JSON)
        loaded = loaded_fit(fit)
        if (data is None) == (not at):
            raise UsageError("say where to predict: a file, or --at NAME=VALUE for each input")
        columns, runs = pairs(column, "--column"), None
        if data is not None:
            runs = opt.read_points(loaded, data, columns, corpus, where)
        points = combinations(at, "--at") if runs is None else opt.points_of(loaded, runs)
        outside = loaded.is_extrapolation(**points)
        predicted = np.broadcast_to(loaded.predict(**points), outside.shape).ravel()
        arrays = {k: np.broadcast_to(v, outside.shape).ravel() for k, v in points.items()}
        seen = None if runs is None else opt.observed_target(loaded, runs)
        found = {loaded.law.target: predicted} if seen is None else errors(seen[1], predicted)
        found["outside"] = outside.ravel()
        measured = None if seen is None else _measured(loaded, seen[1], predicted)
        others = {} if runs is None else opt.other_columns(runs, arrays, {*found, "scores"})
        record = arrays | others | found
        table = pd.DataFrame(record)
        told = record if measured is None else record | {"scores": measured}
        if out is not None:
            write_table(out, table, told)
        if as_json:
            print_json(told)
            return
        if out is None:
            hidden = [name for name in others if seen is None or name != seen[0]]
            shown = table.drop(columns=hidden)
            shown["outside"] = np.where(shown["outside"], "outside", "")
            print_frame(shown.rename(columns={"outside": "fitted range"}), 6)
        if measured is not None:
            print("\n".join(score_lines(measured)))

    app.command("demo")(demonstration.demo_command)
    app.command("areas")(curves.areas_command)
    app.command("curve")(curves.curve_command)
    app.command("bootstrap")(uncertainty.bootstrap_command)
    app.command("covariance")(one_fit.covariance_command)
    app.command("profile")(one_fit.profile_command)
    app.command("influence")(one_fit.influence_command)
    app.command("identifiability")(one_fit.identifiability_command)
    app.command("study")(studies.study_command)
    app.add_typer(experiments.sampling, name="sampling")
    app.command("inflection")(experiments.inflection_command)
    app.command("slopes")(experiments.slopes_command)
    app.command("requirements")(experiments.requirements_command)
    app.command("learnability")(experiments.learnability_command)
    app.command("report")(reports.report_command)
    app.add_typer(plan_output.plan, name="plan")
    plan_output.plan.command("training")(training.training_command)
    plan_output.plan.command("turning")(training.turning_command)
    plan_output.plan.command("out-of-domain")(training.out_of_domain_command)
    plan_output.plan.command("schedule")(training.schedule_command)
    plan_output.plan.command("model")(valuations.model_command)
    plan_output.plan.command("valuation")(valuations.valuation_command)
    app.command("schema")(schemas.schema_command)

    def _in_every_command(group: typer.Typer) -> None:
        for one in group.registered_commands:
            one.callback = keeps_inputs(one.callback)
            one.epilog = (
                "--verbose says on stderr what is done. --law-file FILE.py runs a file of yours "
                "first, so that fits of the laws it defines can be read."
            )
        for inner in group.registered_groups:
            _in_every_command(inner.typer_instance)

    _in_every_command(app)


def _measured(fit: Fit, observed: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Scores of the rows that have been observed; others, of runs to come, have no target."""
    seen = np.isfinite(observed)
    return measure(fit.delta, observed[seen], predicted[seen], np.ones(seen.sum()))
