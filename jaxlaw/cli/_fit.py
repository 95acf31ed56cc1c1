"""The commands ``laws``, ``fit``, ``predict`` and ``demo``; needs typer, which is an extra."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import jaxlaw as jl
from jaxlaw._json import write_atomic
from jaxlaw.cli import _curves as curves
from jaxlaw.cli import _options as opt
from jaxlaw.cli._inputs import (
    law_named,
    observed_target,
    one_fit,
    other_columns,
    points_of,
    read_points,
)
from jaxlaw.cli._options import combinations, pairs
from jaxlaw.cli._output import (
    CSV,
    JSON,
    PICTURE,
    check_out,
    conclude_result,
    print_frame,
    print_json,
    print_notes,
    print_summary,
    print_table,
    print_wrapped,
    write_table,
)
from jaxlaw.errors import UsageError, nearest
from jaxlaw.notes import FAR, beyond_step, in_words

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


def laws_command(
    law: Annotated[
        str | None,
        typer.Argument(
            help="One law: what it takes and what it is fitted by; all of them if left out.",
            autocompletion=opt.completed(opt.law_names),
        ),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Coefficients that papers print.")
    ] = False,
    field: Annotated[bool, typer.Option("--field", help="Fits of public experiments.")] = False,
    name: Annotated[
        str | None,
        typer.Option(
            help="One of them: its notes; --out writes it as a fit.",
            autocompletion=opt.completed(opt.published_names),
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the whole table (CSV).")] = None,
    as_json: opt.Json = False,
) -> None:
    """List the laws, or coefficients that papers print.

    Example: jaxlaw laws --published --name hoffmann-2022 --out fit.json
    """
    if published or field or name is not None:
        _show_published(name, field, out, as_json)
        return
    table = jl.law_table()
    check_out(out, CSV, JSON)
    if law is None:
        _show_laws(table, out, as_json, lambda: _print_families(table))
        return
    found = jl.laws.get(law)
    row = table[table["name"] == found.name]
    _show_laws(row, out, as_json, lambda: _print_law(found))


def _show_laws(
    table: pd.DataFrame, out: Path | None, as_json: bool, show: Callable[[], None]
) -> None:
    """A table of laws, written and printed: as JSON, or for people."""
    if out is not None:
        write_table(out, table, table.to_dict(orient="records"))
    if as_json:
        print_json(table.to_dict(orient="records"))
    else:
        show()


def _print_law(law: jl.Law) -> None:
    """A law: its formula and source, its inputs with their units, and the line that fits it."""
    from jaxlaw._quantities import exponential
    from jaxlaw.data import AREAS

    print_wrapped(f"{law.name}: {law.target} = {law.formula}")
    if law.source:
        print_wrapped(f"source: {law.source}")
    rows = [
        [spec.name, spec.doc, "" if spec.unit == 1 else f"counted in {exponential(spec.unit)}"]
        for spec in law.inputs
    ]
    print_table(["input", "what it is", "unit"], rows)
    print_wrapped(f"parameters: {', '.join(law.parameter_names)}")
    # Areas under learning rates are no columns: they are made of the rates.
    own = [name for name in law.input_names if name not in AREAS]
    curves = ["step", "lr"] if len(own) < len(law.input_names) else []
    columns = " ".join(f"-c {name}=COLUMN" for name in (*own, *curves, law.target))
    rates = "--schedules lr " if curves else ""
    print_wrapped(f"fit it: jaxlaw fit {law.name} runs.csv {rates}{columns} --out fit.json")


def _print_families(table: pd.DataFrame) -> None:
    """The laws by family: which to begin with, which columns each needs, its formula."""
    from jaxlaw._law_families import FAMILIES, MADE

    known, columns = table.set_index("name"), ["inputs", "formula"]
    own = tuple(known.index[known["family"] == ""])
    for family, names in [*FAMILIES.items(), ("your own", own)]:
        if not names:
            continue
        begin = f": begin with {names[0]}" if len(names) > 1 and names is not own else ""
        print(f"{family[0].upper()}{family[1:]}{begin}")
        print_table(["law", *columns], known.loc[list(names), columns].reset_index())
        print()
    print("Made of any law of size, by its name, with further inputs:")
    print_table(["law", "inputs beside"], list(MADE.items()))
    print()
    print("--json and --out add parameters, units, size of the source's grid, and source.")


@opt.works_long
@opt.sets_objective
@opt.reads_runs
@curves.reads_curves
def fit_command(
    law: Annotated[
        str,
        typer.Argument(
            help=f"Name of a law (see `jaxlaw laws`), or {opt.OWN_LAW}.",
            autocompletion=opt.completed(opt.law_names),
        ),
    ],
    data: Annotated[str, typer.Argument(help="CSV, JSON lines or Parquet file; - for stdin.")],
    decay: Annotated[
        str | None, typer.Option(help="Curves: λ of the annealing area [0.999], or fit.")
    ] = None,
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
    n_starts: opt.Starts = None,
    n_local: opt.Local = 64,
    no_screen: opt.NoScreen = False,
    solver: opt.Solver = "newton",
    asymmetry: Annotated[float, typer.Option(help="Factor below the curve.")] = 1.0,
    no_base: Annotated[
        bool, typer.Option("--no-base", help="cpt-chinchilla: fit all parameters.")
    ] = False,
    seed: opt.Seed = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on a poor fit.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the fit (JSON).")] = None,
    as_json: opt.Json = False,
    *,
    along: dict[str, Any],
    reading: dict[str, Any],
    objective: dict[str, Any],
    working: dict[str, Any],
) -> None:
    """Fit a law to runs.

    Example: jaxlaw fit chinchilla runs.csv -c N=n_params -c D=n_tokens --out fit.json
    """
    check_out(out, JSON, instead="`jaxlaw report FIT --data FILE` draws a fit")
    options = {
        "starts": starts,
        "n_starts": n_starts,
        "n_local": False if no_screen else n_local,
        "solver": solver,
        "asymmetry": asymmetry,
        "seed": seed,
        "strict": strict,
        **({"fixed": {}} if no_base else {}),
        **objective,
        **working,
    }
    if along:
        loss_curves = curves.curves_of(data, **along, law=law_named(law), **reading)
        counted = {"carry_momentum": carry_momentum, "count_warmup": count_warmup,
                   "epsilon": epsilon}  # fmt: skip
        result = curves.fit_curves(law_named(law), loss_curves, decay, counted, **options)
    elif (decay, epsilon) != (None, None) or carry_momentum or count_warmup:
        raise UsageError(
            "--decay, --epsilon, --carry-momentum and --count-warmup apply to loss curves only; "
            "give their learning rates with --schedules FILE, or --schedules lr for a column"
        )
    else:
        result = jl.fit(law_named(law), data, **reading, **options)
    if not opt.is_silent(working):
        conclude_result(result, out, as_json)


def predict_command(
    fit: Annotated[Path, opt.fit_argument("A fit that `jaxlaw fit --out` wrote; - for stdin.")],
    data: Annotated[str | None, typer.Argument(help="File of points; - for stdin.")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(help="N=7e9 or N=1e9,7e9, all combinations, repeatable; or a file of points."),
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
    import numpy as np
    import pandas as pd

    from jaxlaw._quantities import SHARE
    from jaxlaw._result import readable
    from jaxlaw.fitting import errors, score_lines

    check_out(out, CSV, JSON)
    loaded = one_fit(fit, "predict")
    if (data is None) == (not at):
        raise UsageError("say where to predict: a file, or --at NAME=VALUE for each input")
    columns, runs = pairs(column, "--column"), None
    if data is not None:
        runs = read_points(loaded, data, columns, corpus, where)
    # Values of --at are a grid, and rows of a file are a list of points: both are made flat, so
    # that the answer has one row for each point.
    points = _points_at(loaded, at) if runs is None else points_of(loaded, runs)
    outside = loaded.is_extrapolation(**points)
    predicted = np.broadcast_to(loaded.predict(**points), outside.shape).ravel()
    arrays = {k: np.broadcast_to(v, outside.shape).ravel() for k, v in points.items()}
    # A file that has the target, too, is scored: then errors stand beside the predictions.
    seen = None if runs is None else observed_target(loaded, runs)
    computed = {loaded.law.target: predicted} if seen is None else errors(seen[1], predicted)
    computed["outside"] = outside.ravel()
    measured = None if seen is None else _measured(loaded, seen[1], predicted)
    others = {} if runs is None else other_columns(runs, arrays, {*computed, "scores"})
    record = arrays | others | computed
    table = pd.DataFrame(record)
    units = {**loaded.input_units(), "relative_error": (SHARE, 1.0)}
    units |= dict.fromkeys(("predicted", "residual"), units[loaded.law.target])
    units |= {} if seen is None else {seen[0]: units[loaded.law.target]}
    printed = record | {"units": {name: units[name] for name in record if name in units}}
    printed |= {} if measured is None else {"scores": measured}
    printed["next_step"] = _next_step(loaded, table)
    if out is not None:
        write_table(out, table, printed)
    if as_json:
        print_json(printed)
        return
    if out is None:
        hidden = [name for name in others if seen is None or name != seen[0]]
        shown = table.drop(columns=hidden)
        same = shown["outside"].nunique() == 1  # the sentence says it of all points
        shown["outside"] = np.where(shown["outside"], "outside", "")
        shown = shown.drop(columns="outside") if same else shown
        one = len(table) == 1 and seen is None
        print_wrapped(_headline(loaded, table) if one else _headline_of_many(loaded, table))
        if step := printed["next_step"]:
            print_wrapped(f"Next: {in_words(step)}")
        if not one:
            print_frame(readable(shown.rename(columns={"outside": "fitted range"}), units.get))
    if measured is not None:
        print("\n".join(score_lines(measured)))


def _points_at(fit: jl.FittedLaw, at: list[str] | None) -> dict[str, Any]:
    """The points of --at in the units of the fitted runs, labels as they are."""
    points = combinations(at, "--at")
    numbers = fit.checked_inputs(None, points)
    labels = {spec.name for spec in fit.law.inputs if spec.levels}
    return {name: points[name] if name in labels else numbers[name] for name in points}


def _headline(fit: jl.FittedLaw, table: pd.DataFrame) -> str:
    """Of a single point: its inputs, the prediction, and how far it is from the runs."""
    from jaxlaw._quantities import times, with_unit, written

    units = fit.input_units()
    row = table.iloc[0]
    where = [
        f"{spec.name} {row[spec.name]}"
        if spec.levels
        else with_unit(spec.name, float(row[spec.name]), units[spec.name][1], spec.counts)
        for spec in fit.law.inputs
    ]
    factor = fit.times_beyond(
        {n: row[n] for n in fit.law.input_names if not isinstance(row[n], str)}
    )
    far = f"{times(factor)} beyond the largest run" if factor > 1 else "outside the fitted range"
    loss = written(float(row[fit.law.target]), *units[fit.law.target])
    inside = "within the fitted range" if factor == factor else "no fitted range is known"
    return f"{', '.join(where)}: {fit.law.target} {loss}; {far if row['outside'] else inside}"


def _headline_of_many(fit: jl.FittedLaw, table: pd.DataFrame) -> str:
    """Of several points: from which to which prediction they go, and how far from the runs."""
    from jaxlaw._quantities import SHARE, times, written_range

    name = "predicted" if "predicted" in table else fit.law.target
    unit = fit.input_units()[fit.law.target]
    between = written_range(float(table[name].min()), float(table[name].max()), *unit)
    noun = "" if unit[0] in ("", SHARE) else f" {unit[0]}"
    count = int(table["outside"].sum())
    many = "none" if not count else "all" if count == len(table) else f"{count:,}"
    point = _largest(fit, table)
    factor = fit.times_beyond(point) if point else 1.0
    far = f", the largest {times(factor)} beyond the largest run" if factor > 1 else ""
    return (
        f"{len(table):,} points: {fit.law.target} {between}{noun}; {many} of them outside the "
        f"fitted range{far}"
    )


def _largest(fit: jl.FittedLaw, table: pd.DataFrame) -> dict[str, float]:
    """The point of most compute; empty where that is unknown, and of a law with labels."""
    names = list(fit.law.input_names)
    if not {"N", "D"} <= {*names} or any(spec.levels for spec in fit.law.inputs):
        return {}
    return table.loc[(table["N"] * table["D"]).idxmax(), names].astype(float).to_dict()


def _next_step(fit: jl.FittedLaw, table: pd.DataFrame) -> str:
    """Of the point of most compute, where it is far beyond the runs: what gives its interval."""
    point = _largest(fit, table)
    far = bool(point) and fit.times_beyond(point) >= FAR
    return beyond_step(point, intervals=False) if far else ""


def _measured(fit: jl.Fit, observed: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Scores of the rows that have been observed; others, of runs to come, have no target."""
    import numpy as np

    from jaxlaw.fitting import measure

    seen = np.isfinite(observed)
    return measure(fit.delta, observed[seen], predicted[seen], np.ones(seen.sum()))


def _show_published(save: str | None, field: bool, out: Path | None, as_json: bool) -> None:
    """What ``jaxlaw laws --published`` does, and ``--field``."""
    table = jl.published_table()
    table = table[table["name"].str.startswith(opt.OF_FIELD) == field]
    check_out(out, *((JSON,) if save is not None else (CSV, JSON)))
    if save is not None:
        known = jl.published()
        if save not in known:
            raise UsageError(f"nothing is published as {save}.{nearest(save, known)}")
        if out is not None:
            known[save].save(out)
        print_json(known[save].to_dict()) if as_json else print_summary(known[save])
        return
    columns = ["name", "law", "parameters"]

    def show() -> None:
        print_table(columns, table[columns])
        print("--name shows one with its source, uncertainty and gaps; --out keeps it as a fit.")
        if not field:
            print("--field lists the fits of public experiments.")

    _show_laws(table, out, as_json, show)


def demo_command(
    out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("jaxlaw_demo.png"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated noise.")] = 0,
    as_json: opt.Json = False,
) -> None:
    """Simulate a D-CPT experiment of 540 runs, fit it, draw it.

    It is the experiment of Que 2024; both corpora are fitted, and compared with the truth.

    Example: jaxlaw demo --out demo.png
    """
    check_out(out, PICTURE)
    demo = jl.simulate.demo(seed=seed)
    columns = {"N": "n_params", "D": "n_tokens", "r_d": "domain_ratio"}
    columns |= {"loss_d": "domain_loss", "loss_g": "general_loss"}
    runs = jl.read_runs(demo.table, columns, {"N": 1, "D": 1}, name="simulated runs")
    fits, truths = {}, {"general": demo.general, "domain": demo.domain}
    for side in truths:
        fits[side] = jl.fit("dcpt", runs.for_corpus(side))
    pages = {side: _compare(fits[side], truths[side], runs.for_corpus(side)) for side in truths}
    drawn = _demo_picture(fits, runs, out)
    if as_json:
        print_json({**pages, "picture": str(out) if drawn else None})
        return
    for side, page in pages.items():
        fit = fits[side]
        print(f"{side} corpus: {fit.law.target} = {fit.law.formula}")
        rows = [
            (name, f"{page['true'][name]:.4g}", f"{value:.4g}")
            for name, value in fit.params.items()
        ]
        print_table(["parameter", "true", "fitted"], rows)
        print(
            f"  predictions differ from the noise-free truth by {page['rms_error']:.2%} rms "
            f"(noise 0.40%)\n  R² {fit.r2:.5f}; {fit.agreement:.0%} of {fit.n_solved} "
            "starts agree"
        )
        print_notes(fit.notes)
        print()
    print(f"picture: {out}" if drawn else "no picture: pip install 'jaxlaw[plot]'")


def _compare(fit: jl.Fit, truth: dict[str, float], runs: Any) -> dict[str, Any]:
    """What the demo says of one corpus."""
    import numpy as np

    observed = runs.observations("dcpt")
    clean = jl.simulate.simulate_runs("dcpt", truth, observed.inputs)["loss"].to_numpy()
    predicted = fit.predict(
        **{name: values / fit.units[name] for name, values in observed.inputs.items()}
    )
    error = float(np.sqrt(np.mean(np.log(predicted / clean) ** 2)))
    return {
        "true": dict(truth),
        "fitted": fit.params,
        "rms_error": error,
        "r2": fit.r2,
        "objective": fit.objective,
        "agreement": fit.agreement,
    }


def _demo_picture(fits: dict[str, jl.Fit], runs: Any, out: Path) -> bool:
    """Whether it could be drawn: matplotlib is an extra."""
    try:
        from jaxlaw import plots
    except ModuleNotFoundError:
        return False
    write_atomic(out, lambda path: plots.demo_figure(fits, runs).savefig(path, dpi=150))
    return True
