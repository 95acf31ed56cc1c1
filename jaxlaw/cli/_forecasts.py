"""The commands that test laws on runs held out: studies, back-tests, forecasts; needs typer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import jaxlaw as jl
from jaxlaw._json import add_digest
from jaxlaw.cli import _options as opt
from jaxlaw.cli._inputs import laws_and_fits, runs_as_fitted
from jaxlaw.cli._output import (
    CSV,
    JSON,
    PICTURE,
    check_out,
    conclude,
    conclude_result,
    is_picture,
    print_summary,
    write_picture,
)
from jaxlaw.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

Laws = Annotated[
    list[str] | None,
    typer.Option(
        help=f"A law, {opt.OWN_LAW}, or the fit (JSON) of a law; repeatable: several count by "
        "their evidence. Left out, one that suits the columns.",
        autocompletion=opt.completed(opt.law_names),
    ),
]
Prior = Annotated[
    str,
    typer.Option(
        help="What is known beforehand: field (public experiments), a folder of your own fits, a "
        "saved prior, none."
    ),
]
SeedOfDraws = Annotated[int, typer.Option(min=0, help="Seed of the draws.")]
OutOfScores = Annotated[
    Path | None, typer.Option(help="Write the table (CSV), all of it (JSON), or draw it (PNG, …).")
]
OutForScore = Annotated[
    Path | None,
    typer.Option(help="Write it: for `jaxlaw score` (JSON), the table (CSV); or draw it (PNG, …)."),
]


@opt.reads_runs
def backtest_command(
    data: opt.Data,
    laws: Laws = None,
    along: Annotated[
        str, typer.Option(help="What runs are cut along: compute (C, or 6·N·D), or a column.")
    ] = "compute",
    cutoffs: Annotated[
        str, typer.Option(help="How many cut-offs; or the largest values fitted: 1e20,1e21.")
    ] = "6",
    first: Annotated[
        int | None,
        typer.Option(min=1, help="The first so many runs, then one budget more at a time."),
    ] = None,
    groups: opt.Groups = None,
    prior: Prior = "field",
    level: opt.Level = 0.9,
    seed: SeedOfDraws = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Write every prediction (CSV), all of it (JSON), or draw it (PNG, …)."),
    ] = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Forecast from the runs below cut-offs, test on those beyond.

    Example: jaxlaw backtest runs.csv -c N=n_params -c D=n_tokens --cutoffs 3
    """
    check_out(out, JSON, CSV, PICTURE)
    law, runs = _laws_and_runs(laws, data, reading)
    result = jl.backtest(
        runs, law, along=along, cutoffs=_cutoffs(cutoffs), first=first,
        groups=opt.columns_named(groups), prior=_prior(prior), level=level, seed=seed,
    )  # fmt: skip
    conclude(
        result.to_dict(), result, result.frame, lambda: print_summary(result), out,
        as_json, lambda plots: plots.backtest_errors(result),
    )  # fmt: skip


@opt.reads_runs
def forecast_command(
    data: opt.Data,
    at: Annotated[
        list[str],
        typer.Option(
            help="A run not yet made: N=70B,D=1.4T, repeatable, a run each; or a file of them."
        ),
    ],
    laws: Laws = None,
    level: opt.Level = 0.9,
    groups: opt.Groups = None,
    prior: Prior = "field",
    backtest: Annotated[
        bool, typer.Option("--backtest", help="Test it at earlier cut-offs, too.")
    ] = False,
    seed: SeedOfDraws = 0,
    out: OutForScore = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Predict runs not yet made, with intervals.

    Example: jaxlaw forecast runs.csv --at N=7e9,D=1e12 --out forecast.json
    """
    check_out(out, JSON, CSV, PICTURE)
    points = points_at(at)
    law, runs = _laws_and_runs(laws, data, reading)
    result = jl.forecast(
        runs, points, law, prior=_prior(prior), level=level,
        groups=opt.columns_named(groups), backtest=backtest, seed=seed,
    )  # fmt: skip
    if out is not None and not is_picture(out):
        result.save(out)
    elif out is not None:
        write_picture(out, lambda plots: plots.forecast_intervals(result))
    conclude(
        add_digest(result.to_dict()), result, result.table,
        lambda: print_summary(result), None, as_json,
    )  # fmt: skip


@opt.reads_runs
def scores_command(
    data: Annotated[str, typer.Argument(metavar="DATA", help="The runs, - for stdin.")],
    score: Annotated[
        list[str],
        typer.Option(
            help="Columns of score and loss, a task each: 'acc_*:bpb_*', or "
            "mmlu=acc_mmlu:bpb_a,bpb_b, of whose losses the best is chosen; repeatable."
        ),
    ],
    at: Annotated[
        list[str],
        typer.Option(
            help="A run not yet made: N=7e9,D=4e12, repeatable, a run each; or a file of them."
        ),
    ],
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Results of lm-evaluation-harness, whose scores (acc_piqa …) join DATA.",
        ),
    ] = None,
    model: Annotated[
        str, typer.Option(help="Column of DATA with the models' names, for --results.")
    ] = "model",
    level: opt.Level = 0.9,
    groups: opt.Groups = None,
    chance: Annotated[
        list[str] | None, typer.Option(help="Score by chance of a task: mmlu=0.25; repeatable.")
    ] = None,
    questions: Annotated[
        list[str] | None, typer.Option(help="Questions of a task: mmlu=14042; repeatable.")
    ] = None,
    prior: Annotated[
        str, typer.Option(help="What is known beforehand of the losses: field, none, or a folder.")
    ] = "field",
    seed: SeedOfDraws = 0,
    out: OutOfScores = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Predict scores on tasks of models not yet made.

    Example: jaxlaw scores ladder.csv --score 'acc_*:bpb_*' --groups run --at N=7e9,D=4e12
    """
    check_out(out, JSON, CSV, PICTURE)
    table = data if results is None else jl.data.join_scores(data, results, model=model)
    result = jl.forecast_scores(
        jl.read_runs(table, **reading), score, points_at(at), groups=opt.columns_named(groups),
        level=level, chance=opt.numbers_of(chance, "--chance") or None,
        questions=opt.numbers_of(questions, "--questions") or None,
        prior=_prior(prior), seed=seed,
    )  # fmt: skip
    conclude(
        result.to_dict(), result, result.table, lambda: print_summary(result), out,
        as_json, lambda plots: plots.score_forecasts(result),
    )  # fmt: skip


@opt.reads_runs
def compute_for_score_command(
    data: Annotated[str, typer.Argument(metavar="DATA", help="The runs, - for stdin.")],
    score: Annotated[
        list[str],
        typer.Option(help="Columns of score and loss of a task, as `jaxlaw scores` takes them."),
    ],
    reach: Annotated[
        list[str],
        typer.Option(help="Score to reach: 0.6 for all tasks, or mmlu=0.6, repeatable."),
    ],
    ratio: Annotated[float, typer.Option(help="Tokens a parameter.")] = 20.0,
    beyond: Annotated[
        float, typer.Option(help="Times the largest run's compute that is looked at.")
    ] = 1e3,
    level: opt.Level = 0.9,
    groups: opt.Groups = None,
    seed: SeedOfDraws = 0,
    out: OutOfScores = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """The compute at which models not yet made reach a score.

    Example: jaxlaw compute-for-score ladder.csv --score 'acc_*:bpb_*' --reach 0.6 --groups run
    """
    check_out(out, JSON, CSV, PICTURE)
    named = "=" in reach[0]
    goal = opt.numbers_of(reach, "--reach") if named else opt.number(reach[0], "--reach")
    result = jl.forecasting.compute_for_score(
        jl.read_runs(data, **reading), score, goal, ratio=ratio, beyond=beyond, level=level,
        groups=opt.columns_named(groups), seed=seed,
    )  # fmt: skip
    conclude_result(result, out, as_json)


@opt.reads_runs
def score_command(
    forecasts_and_data: Annotated[
        list[str],
        typer.Argument(
            metavar="FORECAST... DATA",
            help="Files of forecasts (JSON), or folders with them, then the runs that were made "
            "since, - for stdin.",
        ),
    ],
    rtol: Annotated[
        float, typer.Option(help="How far a run's inputs may lie from the point, relative.")
    ] = 0.02,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the scores (CSV), all of it (JSON), or draw the calibration."),
    ] = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Score saved forecasts against the finished runs.

    Example: jaxlaw score forecast.json later.csv
    """
    check_out(out, JSON, CSV, PICTURE)
    *files, data = forecasts_and_data
    if not files:
        raise UsageError("name one forecast or more, then the data: jaxlaw score f.json runs.csv")
    from jaxlaw.forecasting import load_all, score

    result = score(load_all(files), jl.read_runs(data, **reading), rtol=rtol)
    conclude(
        result.to_dict(), result, result.frame, lambda: print_summary(result), out,
        as_json, lambda plots: plots.forecast_calibration(result),
    )  # fmt: skip


def points_at(items: list[str]) -> dict[str, np.ndarray]:
    """``["N=1e9,2e9,D=1e12"]`` → arrays (k,) by name; a name that comes again begins a new run.

    An item may be a file of points instead.
    """
    if "=" not in items[0]:
        return opt.combinations(items, "--at")
    runs: list[list[str]] = [[]]
    for item in items:
        parts = opt.split_pairs(item)
        names = {part.partition("=")[0] for part in parts}
        if names & {part.partition("=")[0] for part in runs[-1]}:
            runs.append([])
        runs[-1] += parts
    import numpy as np

    points = [opt.combinations(parts, "--at") for parts in runs]
    for columns in points[1:]:
        if set(columns) != set(points[0]):
            raise UsageError(f"--at: every run needs {', '.join(points[0])}")
    return {name: np.concatenate([columns[name] for columns in points]) for name in points[0]}


def _laws_and_runs(
    words: list[str] | None, data: str, reading: dict[str, Any]
) -> tuple[list[Any] | None, jl.Runs]:
    """The laws, and the runs, read as those of a fit among the laws were."""
    laws, _, fit = laws_and_fits(words or [], {})
    return laws or None, runs_as_fitted(fit, data, reading, laws)


def _prior(text: str) -> str | None:
    return None if text == "none" else text


def _cutoffs(text: str) -> int | list[float]:
    if text.isdigit() and len(text) < 4:
        return int(text)
    return [opt.number(item, "--cutoffs") for item in text.split(",")]


@opt.works_long
@opt.sets_objective
@opt.reads_runs
def study_command(
    laws_and_data: Annotated[
        list[str],
        typer.Argument(
            metavar="LAW... DATA",
            help=f"Names of laws, {opt.OWN_LAW}, or fits (JSON); then the data, - for stdin.",
            autocompletion=opt.completed(opt.law_names),
        ),
    ],
    folds: Annotated[
        str | None,
        typer.Option(
            help="What is held out: hold-out:N:largest:1, hold-out:D:last:1/3, "
            "hold-out:Dp:after:4, leave-one-group-out:N, leave-p-groups-out:r:2, "
            "contiguous-blocks:D:3, k-fold:5:groups=run, shuffle-split:0.2:10, in-sample. Left "
            "out: k-fold:5, of whole runs where a column run names them.",
            autocompletion=opt.completed(opt.DESIGNS),
        ),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            "--corpus",
            "--share",
            help="Whose share and loss: general, domain; repeated, a data set each.",
            autocompletion=opt.completed(("general", "domain")),
        ),
    ] = None,
    constraint: Annotated[
        list[str] | None, typer.Option(help="Constraint of a law: dcpt=paper; repeatable.")
    ] = None,
    n_starts: opt.Starts = None,
    n_local: opt.Local = 64,
    no_screen: opt.NoScreen = False,
    solver: opt.Solver = "newton",
    seed: opt.Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write every fold: a table (CSV), all of it (JSON), or draw it (PNG, …)."
        ),
    ] = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
    objective: dict[str, Any],
    working: dict[str, Any],
) -> None:
    """Compare laws: fit parts of the runs, score the rest.

    Example: jaxlaw study dcpt dcpt-l1 mixtures.csv --folds leave-p-groups-out:r:2 --out folds.csv
    """
    check_out(out, JSON, CSV, PICTURE)
    if len(laws_and_data) < 2:
        raise UsageError("name one law or more, then the data: jaxlaw study dcpt dcpt-l1 runs.csv")
    *laws, data = laws_and_data
    design = None if folds is None else jl.folds.parse(folds)
    laws, own, fit = laws_and_fits(laws, objective)
    runs = runs_as_fitted(fit, data, reading, laws)
    if design is None:
        folds = f"k-fold:5{':groups=run' if 'run' in runs.table else ''}"
        first = jl.laws.get(laws[0]).input_names[0]
        print(f"--folds {folds}; hold-out:{first} would test what lies beyond", file=sys.stderr)
        design = jl.folds.parse(folds)
    for law, name in opt.pairs(constraint, "--constraint").items():
        own[law] = own.get(law, {}) | {"constraint": name}
    study = jl.cross_validate(
        laws,
        {side: runs.for_corpus(side) for side in corpus} if corpus else runs,
        design,
        per_law=own,
        n_starts=n_starts,
        n_local=False if no_screen else n_local,
        solver=solver,
        seed=seed,
        **objective,
        **working,
    )
    if opt.is_silent(working):
        return
    conclude_result(study, out, as_json)
    if study.n_failed == len(study.frame):
        raise typer.Exit(1)
