"""The commands that are more than a call of one function; their arguments are options as well."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

import jaxlaw as jl
from jaxlaw import plots
from jaxlaw._answer import Answer
from jaxlaw._json import write_atomic
from jaxlaw._law_families import FAMILIES
from jaxlaw._quantities import exponential
from jaxlaw.cli._values import is_saved, saved
from jaxlaw.data import AREAS, ReadingOptions
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting import FitKeywords, lists_options
from jaxlaw.forecasting import run_line


class _Listing(Answer):
    """An answer whose lines are already text."""

    def lines(self) -> list[str]:
        return list(self.facts["lines"])


def laws(law: str | None = None, *, published: bool = False, field: bool = False) -> Any:
    """List the laws, describe one, or list published coefficients.

    Args:
        law: one law: its formula, source and inputs; all of them if left out. Or coefficients
            that a paper prints, by ``published:NAME``, which --out keeps as a fit.
        published: list coefficients that papers print, each a fit by ``published:NAME``.
        field: list fits of public experiments.

    Shell:
        jaxlaw laws chinchilla
    """
    if published or field:
        table = jl.published_table()
        table = table[table["name"].str.startswith("field-") == field]
        lines = []
        for row in table.to_dict("records"):
            lines += [f"  {row['name']} ({row['law']})", *_wrapped(row["parameters"])]
        return _Listing(kind="published coefficients", tables={"published": table},
                        sentence="published:NAME stands for a fit in every command",
                        facts={"lines": lines})  # fmt: skip
    table = jl.law_table()
    if law is None:
        known, lines = table.set_index("name"), []
        own = tuple(known.index[known["family"] == ""])
        for family, names in [*FAMILIES.items(), *([("your own", own)] if own else [])]:
            lines += ["", f"{family[0].upper()}{family[1:]}:"]
            for name in names:
                row = known.loc[name]
                lines += [f"  {name} ({row['inputs']})", *_wrapped(row["formula"])]
        return _Listing(kind="laws", tables={"laws": table}, facts={"lines": lines},
                        sentence=f"{len(table)} laws, by family")  # fmt: skip
    if is_saved(law):
        return saved(law)
    found = jl.laws.get(law)
    own = [name for name in found.input_names if name not in AREAS]
    columns = ",".join(f"{name}=COLUMN" for name in (*own, found.target))
    lines = [
        f"source: {found.source}",
        *(
            f"  {spec.name:<6} {spec.doc}"
            + (f", counted in {exponential(spec.unit)}" if spec.unit != 1 else "")
            for spec in found.inputs
        ),
        f"parameters: {', '.join(found.parameter_names)}",
        f"fit it: jaxlaw fit {found.name} runs.csv -c {columns}",
    ]
    return _Listing(
        kind="law", sentence=f"{found.name}: {found.target} = {found.formula}",
        tables={"law": table[table["name"] == found.name]}, facts={"lines": lines},
    )  # fmt: skip


def _wrapped(text: str) -> list[str]:
    """A text below its head, in lines of a page."""
    indent = " " * 4
    return textwrap.wrap(text, 80, initial_indent=indent, subsequent_indent=indent)


@lists_options
def fit(
    law: Any,
    runs: Any,
    *,
    decay: Any = None,
    carry_momentum: bool = False,
    count_warmup: bool = False,
    epsilon: float | None = None,
    strict: bool = False,
    **options: Unpack[FitKeywords],
) -> jl.Fit:
    """Fit a law to runs, or to loss curves.

    Args:
        law: name of a law (``jaxlaw laws``), or ``FILE.py:LAW`` for one of your own.
        runs: table of the runs: CSV, JSON lines or Parquet; - for standard input.
        decay: of loss curves, λ of the annealing area (0.999), or ``fit``.
        carry_momentum: whether momentum goes on over the boundary of two phases.
        count_warmup: whether the rises of pre-training's warm-up count in S2.
        epsilon: power of the learning rate with which momentum is weighted in S2.

    Shell:
        jaxlaw fit chinchilla runs.csv -c N=n_params,D=n_tokens --out fit.json
    """
    if not isinstance(runs, jl.LossCurves):
        if decay is not None or epsilon is not None or carry_momentum or count_warmup:
            raise UsageError(
                "decay, epsilon, carry_momentum and count_warmup are for laws of loss curves"
            )
        return jl.fit(law, runs, strict=strict, **options)
    counted = {
        "carry_momentum": carry_momentum, "count_warmup": count_warmup, "epsilon": epsilon
    }  # fmt: skip
    if decay == "fit":
        return jl.fit_decay(law, runs, strict=strict, **counted, **options)
    decay = 0.999 if decay is None else decay
    return jl.fit(law, runs.runs(decay, **counted), strict=strict, **options)


def watch(
    curve: Any,
    schedule: str | None = None,
    *,
    siblings: Any = None,
    every: float = 30.0,
    **reading: Unpack[ReadingOptions],
) -> Answer:
    """Forecast the end of a run that is under way at each of its evaluations.

    Args:
        curve: log of the run, such as trainer_state.json, which is read until its last step; its
            eval_loss is the loss if --columns names none.
        schedule: the whole schedule: linear:peak=5e-5,steps=20000.
        siblings: table of complete runs on the same evaluation.
        every: seconds between two looks at the log; 0 for one look.

    Shell:
        jaxlaw watch trainer_state.json --schedule linear:peak=5e-5,steps=20000
    """
    step, said = -1, ""
    while True:
        try:
            if "columns" not in reading and "eval_loss" in jl.read_runs(curve, **reading).table:
                reading["columns"] = {"loss": "eval_loss"}
            found = jl.forecast_run(curve, schedule, siblings=siblings, **reading)
        except DataError as error:
            if not every:  # else the run may have just begun, or its log be half written
                raise
            if said != str(error):
                print(f"waiting: {error}", file=sys.stderr, flush=True)
            said = str(error)
        else:
            if every and found.step > step:
                print(run_line(found), flush=True)
            step = found.step
            if not every or step >= found.steps:
                return found
        time.sleep(every)


@lists_options
def influence(
    law: Any,
    runs: Any,
    *,
    on: Mapping[str, Any] | None = None,
    groups: Any = None,
    **options: Unpack[FitKeywords],
) -> Answer:
    """Influence of each run on the parameters or a prediction.

    Args:
        law: saved fit of these runs, or a law, which is fitted first.
        runs: table of the runs.
        on: prediction that moves, such as N=7e9,D=1e12; every parameter if left out.
        groups: columns whose rows are left out together, such as run or N,r.

    Shell:
        jaxlaw influence fit.json runs.csv --on N=7e9,D=1e12
    """
    table = jl.influence(law, runs, on, groups=groups, **options)
    order = (table / table.abs().max()).abs().max(axis=1).sort_values(ascending=False).index
    return Answer(
        kind="influence",
        sentence=f"the estimates move most without {', '.join(table.index.names)} {order[0]}",
        tables={"influence": table.loc[order].reset_index()},
    )  # fmt: skip


def demo(*, seed: int = 0, out: Path = Path("jaxlaw_demo.png")) -> Answer:
    """Simulate a D-CPT experiment of 540 runs, fit both corpora and plot the fits.

    The experiment is that of Que 2024; the fits are compared with the truth.

    Args:
        seed: seed of the simulated noise.

    Shell:
        jaxlaw demo --out demo.png
    """
    made = jl.simulate.demo(seed=seed)
    columns = {
        "N": "n_params", "D": "n_tokens", "r_d": "domain_ratio", "loss_d": "domain_loss",
        "loss_g": "general_loss",
    }  # fmt: skip
    runs = jl.read_runs(made.table, columns, {"N": 1, "D": 1}, name="simulated runs")
    fits, tables = {}, {}
    for side, truth in (("general", made.general), ("domain", made.domain)):
        corpus = runs.for_corpus(side)
        fits[side] = found = jl.fit("dcpt", corpus)
        pairs = {"true": dict(truth), "fitted": dict(found.params)}
        tables[side] = pd.DataFrame(pairs).rename_axis(f"parameter ({side})").reset_index()
    try:
        import matplotlib.pyplot as plt  # an extra

        figure, panels = plt.subplots(2, 2, figsize=(10, 7.6), layout="constrained")
        for (side, found), (left, right) in zip(fits.items(), panels, strict=True):
            corpus = runs.for_corpus(side)
            found.plot(left, runs=corpus, along="r", by="D")
            left.set_title(f"{side} corpus, {left.get_title()}", fontsize="medium")
            plots.observed_against_predicted(found, corpus, right)
        write_atomic(out, lambda path: figure.savefig(path, dpi=150))
        picture = str(out)
    except ModuleNotFoundError:
        picture = "none: pip install 'jaxlaw[plot]'"
    sentence = f"dcpt fitted to the losses of {len(runs)} simulated runs on both corpora"
    return Answer(kind="demo", sentence=sentence, tables=tables, facts={"picture": picture})


def plot(
    result: Any,
    runs: Any = None,
    *,
    kind: str | None = None,
    options: Mapping[str, Any] | None = None,
    at: Mapping[str, Any] | None = None,
    out: Path = Path("plot.png"),
    **reading: Unpack[ReadingOptions],
) -> Answer:
    """Plot a saved result.

    Args:
        result: what a command wrote by --out: a fit, draws, a study, a plan.
        runs: table of the runs, for pictures that show them; a fit keeps its own.
        kind: which picture: a function of ``jaxlaw.plots``, such as isoflops; its own by default.
        options: options of the picture, such as along=D.
        at: inputs that are held, such as N=7e9; all of a fit's inputs are a target run.

    Shell:
        jaxlaw plot fit.json runs.csv --out fit.png
    """
    said = {}
    try:
        options = {**(options or {}), **({"at": at} if at else {})}
        if runs is not None and not isinstance(runs, jl.LossCurves):
            made_of = getattr(getattr(result, "posterior", None), "fit", result)
            runs = jl.fitting.runs_of(made_of, runs, reading)
        name = (kind or "").replace("-", "_")
        if runs is not None and not name:
            shown_as = {"forecast": "later", "mixture": "runs"}.get(result.kind_name)
            if isinstance(result, jl.FittedLaw):
                name = "loss_over_input"
            elif shown_as:
                runs, options = None, {shown_as: runs, **options}
            else:
                said["runs"] = (
                    "not drawn, this picture has none: jaxlaw plot fit.json "
                    f"{runs.source} --kind isoloss"
                )
                runs = None
        elif isinstance(result, str) and not name:
            raise UsageError(
                f"plot draws a saved result: first fit a law to the runs, jaxlaw fit chinchilla "
                f"{result} --out fit.json, or draw them alone by --kind isoflops"
            )
        if name and name not in plots.__all__:
            raise UsageError(f"there is no picture '{kind}'.{nearest(name, plots.__all__)}")
        given = [result] if runs is None else [result, runs]
        axes = getattr(plots, name)(*given, **options) if name else result.plot(**options)
    except ModuleNotFoundError as missing:
        raise UsageError(str(missing)) from None
    except TypeError as error:
        raise UsageError(f"plot {kind or ''}: {error}") from None
    write_atomic(out, lambda path: axes.figure.savefig(path, dpi=150, bbox_inches="tight"))
    return Answer(kind="picture", facts={"picture": str(out), **said})


def report(
    result: Any,
    runs: Any = None,
    *,
    intervals: Any = None,
    plans: Any = (),
    level: float | None = None,
    title: str | None = None,
    out: Path = Path("report.html"),
    **reading: Unpack[ReadingOptions],
) -> Answer:
    """Write a fit, a study or a forecast as one self-contained HTML page.

    Args:
        result: what a command wrote by --out.
        runs: table of the runs of a fit, for pictures.
        intervals: saved bootstrap or covariance of the fit.
        plans: saved answers to show first, such as plan.json,forecast.json,profile.json.
        level: confidence level of all intervals.
        title: title of the page.

    Shell:
        jaxlaw report fit.json runs.csv -c N=n_params --plans plan.json -o report.html
    """
    if isinstance(result, jl.uncertainty.Draws | jl.Bootstrap):
        result, intervals = result.fit, result
    jl.report(
        result, out, runs=runs, intervals=intervals, plans=plans, level=level, title=title,
        **reading,
    )  # fmt: skip
    return Answer(kind="report", facts={"report": str(out)})
