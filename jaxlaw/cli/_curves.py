"""The commands about schedules and loss curves; needs typer, which is an extra."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import jaxlaw as jl
from jaxlaw.cli._inputs import loaded_fit, runs_as_fitted
from jaxlaw.cli._options import Json, completed, fit_argument, number, numbers_of, with_options
from jaxlaw.cli._output import (
    CSV,
    JSON,
    PICTURE,
    check_out,
    is_picture,
    print_frame,
    print_json,
    print_wrapped,
    write_picture,
    write_table,
)
from jaxlaw.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

_SHOWN = 20  # steps of a table, where none are named
_AT = "Steps: 1000,2000; all; left out, 20 of them."

Decay = Annotated[str | None, typer.Option(help="λ of the annealing area [0.999].")]
FirstStep = Annotated[
    int | None, typer.Option(help="Steps before the schedule: a warm-up it leaves out.")
]
S1Before = Annotated[float | None, typer.Option(help="Sum of the rates of those steps.")]
_BY_RUN = "A number, RUN:NUMBER,RUN:NUMBER, or a column."
FirstSteps = Annotated[
    str | None,
    typer.Option(
        help="Steps before the schedule: a warm-up it leaves out; 0 with --fill linear: a warm-up "
        f"from 0 to the first logged rate. {_BY_RUN}"
    ),
]
SumsBefore = Annotated[str | None, typer.Option(help=f"Sum of the rates of those steps. {_BY_RUN}")]
CarryMomentum = Annotated[
    bool, typer.Option("--carry-momentum", help="Momentum goes on over the boundary.")
]
CountWarmup = Annotated[
    bool, typer.Option("--count-warmup", help="Rises of pre-training's warm-up count in S2.")
]
Schedules = Annotated[
    str | None,
    typer.Option(
        help="The data are loss curves: file of schedules (JSON, CSV), one for all "
        "(cosine:peak=3e-4,…); or the column that has them: lines, names of schedules, or the "
        "logged rates (lr)."
    ),
]
Epsilon = Annotated[
    float | None, typer.Option(help="Weights momentum in S2 with the rate to this power.")
]
Batch = Annotated[
    str | None,
    typer.Option(
        help="Tokens of an update over those of a reference: 0.25, or pt,cpt, such as 1,0.25; "
        "for data also a column."
    ),
]
Fill = Annotated[
    str | None,
    typer.Option(
        help="Rates between logged ones: hold (the last) or linear.",
        autocompletion=completed(("hold", "linear")),
    ),
]


def areas_command(
    schedule: Annotated[str, typer.Argument(help="Such as wsd:peak=2e-4,steps=50000,warmup=500.")],
    at: Annotated[str | None, typer.Option(help=_AT)] = None,
    decay: Decay = None,
    carry_momentum: CarryMomentum = False,
    count_warmup: CountWarmup = False,
    epsilon: Epsilon = None,
    batch: Batch = None,
    out: Annotated[Path | None, typer.Option(help="Write the table (CSV).")] = None,
    as_json: Json = False,
) -> None:
    """The areas S1 and S2 under a learning-rate schedule.

    Example: jaxlaw areas cosine:peak=3e-4,steps=24000,warmup=2000 --at 2000,24000
    """
    import numpy as np
    import pandas as pd

    from jaxlaw.data import AREAS, area_options, areas_along, as_schedule, relative_batch

    check_out(out, CSV, JSON)
    parsed = as_schedule(schedule)
    options = area_options(
        number(decay or "0.999", "--decay"), carry_momentum, count_warmup, epsilon
    )
    steps = _steps(at, parsed)
    _check_steps(steps, parsed)
    worth = relative_batch(_batch(batch), parsed.boundary is None)
    areas = areas_along(parsed, steps, options, batch=worth)
    shown = AREAS[:2] if parsed.boundary is None else AREAS[2:]
    rates = np.append(parsed.initial_lr, parsed.rates)[steps]
    _show(
        pd.DataFrame({"step": steps, "lr": rates} | {name: areas[name] for name in shown}),
        out,
        as_json,
    )


def curve_command(
    fit: Annotated[Path, fit_argument("A fit that `jaxlaw fit --out` wrote.")],
    schedule: Annotated[str, typer.Option(help="Such as wsd:peak=2e-4,steps=50000,warmup=500.")],
    at: Annotated[str | None, typer.Option(help=_AT)] = None,
    value: Annotated[
        list[str] | None, typer.Option("--input", help="Other inputs: r=0.5; repeatable.")
    ] = None,
    first_step: FirstStep = None,
    s1_before: S1Before = None,
    decay: Decay = None,
    batch: Batch = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the table (CSV) or draw it (PNG, PDF, SVG).")
    ] = None,
    as_json: Json = False,
) -> None:
    """The loss over the steps of a schedule not yet run.

    Example: jaxlaw curve curve-fit.json --schedule wsd:peak=3e-4,steps=24000,warmup=2000
    """
    from jaxlaw.data import as_schedule

    check_out(out, CSV, JSON, PICTURE)
    loaded, parsed, first = loaded_fit(fit), as_schedule(schedule), first_step or 0
    inputs, draw = numbers_of(value, "--input"), is_picture(out)
    table = loaded.predict_curve(
        parsed,
        None if draw else _steps(at, parsed, first),
        first_step=first,
        S1_before=s1_before or 0.0,
        area_options=None if decay is None else {"decay": number(decay, "--decay")},
        batch=_batch(batch),
        **inputs,
    )
    if draw:
        write_picture(out, lambda plots: plots.loss_curve(table))
        print_json({"picture": str(out)}) if as_json else print(f"picture: {out}")
        return
    if out is None and not as_json:
        print_wrapped(_headline(loaded, table))
    _show(table, out, as_json)


def _headline(fit: jl.FittedLaw, table: pd.DataFrame) -> str:
    """The loss after the last step, what it is made of, and how much is an extrapolation."""
    from jaxlaw._quantities import written

    last, unit = table.loc[table["step"].idxmax()], (fit.target_unit, 1.0)
    parts = [f"{fit.law.target} {written(float(last[fit.law.target]), *unit)}"]
    parts += [
        f"{name} {written(float(last[name]), *unit)}"
        for name in ("annealing", "shift")
        if last[name]
    ]
    share = table["outside"].mean()
    where = (
        f"{share:.0%} of these steps lie beyond what was fitted on" if share else "within the runs"
    )
    return f"after {last['step']:,} steps: {', '.join(parts)}; {where}"


def _along(
    schedules: Schedules = None,
    first_step: FirstSteps = None,
    s1_before: SumsBefore = None,
    fill: Fill = None,
    batch: Batch = None,
) -> dict[str, Any]:
    """How loss curves are read, and along which schedules; empty for other data."""
    others = {"first_step": first_step, "s1_before": s1_before, "fill": fill, "batch": batch}
    if schedules is not None:
        return {"schedules": schedules, **others}
    if given := [
        f"--{name.replace('_', '-')}" for name, value in others.items() if value is not None
    ]:
        raise UsageError(
            f"{' and '.join(given)} applies to loss curves only; give their learning rates with "
            "--schedules FILE, or --schedules lr for a column"
        )
    return {}


#: As in Python, where nothing says how: schedules are in a column, or rates are.
AS_LOGGED = {
    "schedules": None, "first_step": None, "s1_before": None, "fill": None, "batch": None
}  # fmt: skip
reads_curves = functools.partial(with_options, into="along", made_by=_along)


def curves_of(
    data: Any,
    schedules: str | None,
    first_step: str | None,
    s1_before: str | None,
    batch: str | None,
    target: str | None = None,
    law: Any = None,
    **reading: Any,
) -> jl.LossCurves:
    """The curves that ``--schedules`` says the data are.

    A target is the column of the losses; ``law`` is as of ``read_loss_curves``.
    """
    from jaxlaw.data import as_schedule, read_schedules

    declared: Any = schedules  # a column
    if schedules is None:
        pass
    elif Path(schedules).is_file() or Path(schedules).suffix in (".json", ".csv"):
        declared = read_schedules(schedules)
    elif ":" in schedules:
        declared = as_schedule(schedules)
    if reading.pop("last_of", None) is not None:
        raise UsageError("--last-of keeps one row a run, and loss curves have many: leave it out")
    if target is not None:
        reading["columns"] = {"loss": target} | reading.get("columns", {})
    return jl.read_loss_curves(
        data,
        schedules=declared,
        first_step=_by_run(first_step, "--first-step"),
        S1_before=_by_run(s1_before, "--s1-before"),
        batch=_batch(batch, column=True),
        **reading,
    )


def runs_along(
    data: str, along: dict[str, Any], reading: dict[str, Any], law: Any
) -> tuple[Any, dict[str, Any]]:
    """The runs, read as a fit's were; of a law to be fitted the file, and how it is read."""
    if not along:
        fitted = isinstance(law, jl.FittedLaw)
        return (runs_as_fitted(law, data, reading), {}) if fitted else (data, reading)
    counted = getattr(law, "area_options", None) or {}
    return curves_as_fitted(law, data, along, reading).runs(**counted), {}


def curves_as_fitted(
    law: Any, data: str, along: dict[str, Any], reading: dict[str, Any]
) -> jl.LossCurves:
    """The curves of a command, in the columns of a fit where there is one, as a line says."""
    from jaxlaw.fitting import read_as_fitted

    if getattr(law, "reading", None) is None:
        return curves_of(data, **along, law=getattr(law, "law", law), **reading)
    table, options, taken = read_as_fitted(law, data, reading)
    if taken:
        print(f"{table.source}: {taken}", file=sys.stderr)
    return curves_of(table, **along, **options)


def fit_curves(
    law: str | jl.Law,
    curves: jl.LossCurves,
    decay: str | None,
    counted: dict[str, Any],
    **options: Any,
) -> jl.Fit:
    """The fit at a decay, or with the decay fitted; ``counted`` are other options of areas."""
    if decay == "fit":
        return jl.fit_decay(law, curves, **counted, **options)
    return jl.fit(law, curves.runs(number(decay or "0.999", "--decay"), **counted), **options)


def _by_run(text: str | None, option: str) -> Any:
    """A number, ``a:100,b:200`` as numbers by run, or the name of a column."""
    if text is None:
        return None
    if ":" in text:
        by_run = [item.rpartition(":") for item in text.split(",")]
        return {run: number(value, option) for run, _, value in by_run}
    try:
        return float(text)
    except ValueError:
        return text


def _batch(text: str | None, column: bool = False) -> Any:
    """A number, two of them, or the name of a column."""
    if text is None:
        return None
    try:
        return [float(item) for item in text.split(",")]
    except ValueError:
        return text if column else [number(item, "--batch") for item in text.split(",")]


def _steps(at: str | None, schedule: jl.Schedule, first: int = 0) -> np.ndarray:
    """(points,) steps that the user names."""
    import numpy as np

    if at == "all":
        return first + np.arange(1, len(schedule) + 1)
    if at is None:
        last = len(schedule)
        return first + np.unique(np.linspace(last / min(_SHOWN, last), last, _SHOWN).astype(int))
    steps = np.array([number(item, "--at") for item in at.split(",")])
    if (steps != np.floor(steps)).any():
        raise UsageError(f"--at takes whole numbers of steps, or all, not {at}")
    return steps.astype(int)


def _check_steps(steps: np.ndarray, schedule: jl.Schedule) -> None:
    if steps.min() < 0 or steps.max() > len(schedule):
        raise UsageError(f"--at: the steps of this schedule are 0 to {len(schedule)}")


def _show(table: pd.DataFrame, out: Path | None, as_json: bool) -> None:
    record = {name: column.tolist() for name, column in table.items()}
    if out is not None:
        write_table(out, table, record)
    if as_json:
        print_json(record)
    elif out is None:
        if "outside" in table:
            table = table.assign(
                outside=["outside" if outside else "" for outside in table["outside"]]
            )
        print_frame(table)
