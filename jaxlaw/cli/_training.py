"""The commands ``jaxlaw plan …`` of a continual run; needs typer, which is an extra."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from jaxlaw import planning
from jaxlaw.cli._curves import CarryMomentum, CountWarmup
from jaxlaw.cli._options import Columns, Json, Level, completed, fit_argument
from jaxlaw.cli._plan_output import (
    ANSWER,
    Draws,
    Out,
    show,
    tell,
)
from jaxlaw.cli._saved import loaded_fits
from jaxlaw.cli._terminal import (
    check_out,
    is_picture,
    number,
    numbers_of,
    pairs,
    print_frame,
    ranges_of,
)
from jaxlaw.data._run_schedules import as_schedule
from jaxlaw.errors import UsageError, nearest
from jaxlaw.planning import ContinualRun, Pretraining

_SHOWN = 20  # steps of a predicted curve

PtFile = Annotated[str, fit_argument("Fit of the loss on the pre-training corpus.")]
CptFile = Annotated[str, fit_argument("Fit of the loss on the new corpus.")]
Base = Annotated[
    str,
    typer.Option(
        "--pretraining",
        help="wsd:steps=40000,peak=2e-4[,decay=0.2][,warmup=…]; or cosine, linear, constant; "
        "or unknown.",
    ),
]
Run = Annotated[
    str,
    typer.Option(
        "--run",
        help="cosine:steps=10000[,peak=1e-4][,warmup=500][,start=0][,final=0]; without a peak "
        "it goes on from the last rate.",
    ),
]
Potential = Annotated[
    float, typer.Option("--loss-potential", help="Last rate of pre-training over its peak.")
]
Replay = Annotated[float, typer.Option(help="Share of the pre-training corpus.")]
Decay = Annotated[float | None, typer.Option(help="λ of the areas, for fits that do not know.")]
Epsilon = Annotated[
    float | None, typer.Option(help="ε of areas whose momentum is weighted with the rate.")
]
Others = Annotated[
    list[str] | None, typer.Option("--input", help="Other inputs: N=1e9; repeatable.")
]


def training_command(
    pt: PtFile,
    cpt: CptFile,
    pretraining: Base,
    run: Run,
    weight: Annotated[
        str | None, typer.Option(help="λ1 of the first loss, λ2 is 1 − λ1: 0.7; or several.")
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(help="To search: replay=0:1; loss_potential, peak, steps; repeatable."),
    ] = None,
    vary: Annotated[
        list[str] | None, typer.Option(help="To tabulate: steps=5000,20000; repeatable.")
    ] = None,
    minimise: Annotated[
        str,
        typer.Option(
            help="losses; or changes, as Wang's eq. 5 is printed.",
            autocompletion=completed(("losses", "changes")),
        ),
    ] = "losses",
    loss_potential: Potential = 0.0,
    replay: Replay = 0.0,
    value: Others = None,
    decay: Decay = None,
    epsilon: Epsilon = None,
    bootstrap: Draws = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Losses at the end of a continual run, or its best settings (Wang 2025, §4 and §5).

    Fits are files of `jaxlaw fit --out`, or published:NAME (`jaxlaw laws --published`).

    Example: jaxlaw plan training published:wang-2025-pt published:wang-2025-cpt
    --pretraining wsd:steps=40000,peak=2e-4 --run cosine:steps=10000,peak=2e-5,warmup=500
    --weight 0.5 --over replay=0:1
    """
    check_out(out, *ANSWER)
    if (weight is None) != (over is None) or (over is None) == (vary is None):
        raise UsageError("give --vary for a table, or --weight and --over for the best settings")
    fits = loaded_fits([pt, cpt], bootstrap)
    plan = _run(pretraining, run, loss_potential, replay)
    options: dict[str, Any] = {
        "inputs": numbers_of(value, "--input"),
        "area_options": _areas(decay, epsilon),
    }
    if vary is not None:
        settings = {
            name: [number(one, "--vary") for one in text.split(",")]
            for name, text in pairs(vary, "--vary").items()
        }
        found = planning.final_losses(*fits, plan, **settings, **options)
        drawn = next(iter(settings))
        _table(found, out, as_json, lambda plots: plots.losses_over(found, drawn))
        return
    ranges = ranges_of(over, "--over")
    for name, ends in ranges.items():
        if None in ends:
            raise UsageError(f"--over {name}= takes LOW:HIGH, both of them")
    weights = [number(one, "--weight") for one in weight.split(",")]
    options["minimise"] = minimise
    curve = planning.tradeoff_curve(*fits, plan, ranges, weights, **options)
    if len(weights) > 1:
        first = next(iter(ranges))
        _table(curve, out, as_json, lambda plots: plots.balance(curve, first))
        return
    best = planning.optimal_training(*fits, plan, weights[0], ranges, **options)
    whole = partial(planning.tradeoff_curve, *fits, plan, ranges, **options)
    tell(best, out, as_json, draw=lambda plots: plots.balance(whole(), next(iter(ranges))))


def turning_command(
    pt: PtFile,
    pretraining: Base,
    run: Run,
    cpt: Annotated[
        str | None, typer.Option(help="Fit of the loss on the new corpus, for a weight.")
    ] = None,
    weight: Annotated[float, typer.Option(help="λ1 of the first loss.")] = 1.0,
    loss_potential: Potential = 0.0,
    replay: Replay = 0.0,
    value: Others = None,
    decay: Decay = None,
    epsilon: Epsilon = None,
    bootstrap: Draws = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """The steps after which a loss is back at its start, or never (Wang 2025, §4.4).

    Example: jaxlaw plan turning published:wang-2025-pt --replay 0.9
    --pretraining wsd:steps=10000,peak=2e-4 --run cosine:steps=10000,peak=2e-4,warmup=500
    """
    check_out(out, *ANSWER)
    fits = loaded_fits([pt] if cpt is None else [pt, cpt], bootstrap)
    plan = _run(pretraining, run, loss_potential, replay)
    found = planning.turning_length(
        fits[0], plan, cpt=None if cpt is None else fits[1], weight=weight,
        inputs=numbers_of(value, "--input"), area_options=_areas(decay, epsilon),
    )  # fmt: skip
    draw = None if cpt else lambda plots: plots.way_back(fits[0], plan, found)
    tell(found, out, as_json, draw=draw)


def out_of_domain_command(
    data: Annotated[
        str, typer.Argument(help="File with loss_pt, loss_cpt, loss_ood[, run, step].")
    ],
    column: Columns = None,
    free: Annotated[bool, typer.Option("--free", help="Weights may be negative.")] = False,
    pt: Annotated[
        str | None, typer.Option(help="With --cpt, --schedule: predict the curve from these fits.")
    ] = None,
    cpt: Annotated[str | None, typer.Option(help="Fit of the loss on the new corpus.")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="wsd:peak=2e-4,steps=40000+cosine:peak=1e-4,steps=10000")
    ] = None,
    replay: Annotated[float | None, typer.Option(help="Of that run.")] = None,
    level: Level = 0.95,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Another validation loss as a mixture of the two: its weights, its balance, its curve.

    Training it best is `jaxlaw plan training` at --weight BALANCE (Wang 2025, eq. 6).

    Example: jaxlaw plan out-of-domain losses.csv -c loss_ood=code_loss
    """
    check_out(out, *ANSWER)
    given = [one is not None for one in (pt, cpt, schedule)]
    if any(given) and not all(given) or replay is not None and not any(given):
        raise UsageError("a curve is predicted from --pt, --cpt and --schedule, all of them")
    found = planning.out_of_domain(
        data, nonnegative=not free, columns=pairs(column, "--column"), level=level
    )
    curve, more = None, {}
    if all(given):
        fits = loaded_fits([pt, cpt], None)
        curve = found.predict_curve(*fits, as_schedule(schedule), replay=replay)
        more = {"curve": {name: one.tolist() for name, one in curve.items()}}
    table = found.table if curve is None else curve
    tell(found, out, as_json, table, lambda plots: plots.ood_losses(found, curve), more)
    if curve is not None and not as_json and (out is None or is_picture(out)):
        rows = np.unique(np.linspace(0, len(curve) - 1, _SHOWN).astype(int))
        print_frame(curve.iloc[rows].drop(columns="outside"))


def schedule_command(
    fits: Annotated[list[str], fit_argument("A fit of loss curves; several are balanced.")],
    steps: Annotated[int, typer.Option(help="Of the run, warm-up included.")],
    peak: Annotated[float, typer.Option(help="The highest rate.")],
    weight: Annotated[
        str | None, typer.Option(help="Of two losses λ1 of the first; or one each: 0.7,0.3.")
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option("--input", help="Other inputs: N=1e9; r=0.2,0.8 one each; repeatable."),
    ] = None,
    floor: Annotated[float, typer.Option(help="The lowest rate after the warm-up.")] = 0.0,
    warmup: Annotated[int, typer.Option(help="Steps of a straight line up.")] = 0,
    start: Annotated[float | None, typer.Option(help="Rate where the warm-up begins.")] = None,
    after: Annotated[
        str | None, typer.Option(help="What went before: wsd:peak=2e-4,steps=40000,final=2e-5.")
    ] = None,
    shortest_decay: Annotated[int, typer.Option(help="Steps from peak to floor, at least.")] = 1,
    decay: Decay = None,
    epsilon: Epsilon = None,
    carry_momentum: CarryMomentum = False,
    count_warmup: CountWarmup = False,
    n_starts: Annotated[int, typer.Option(min=1, help="Schedules to begin from.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Of the random ones.")] = 0,
    bootstrap: Draws = None,
    level: Level = 0.95,
    out: Annotated[
        Path | None, typer.Option(help="Write it (JSON), its rates (CSV) or draw it (PNG, …).")
    ] = None,
    as_json: Json = False,
) -> None:
    """The rates of a run at whose end the predicted loss is lowest, under the limits given.

    Example: jaxlaw plan schedule curve-fit.json --steps 24000 --peak 3e-4 --floor 3e-5
    --shortest-decay 5000
    """
    check_out(out, *ANSWER)
    loaded = loaded_fits(fits, bootstrap)
    options = {"decay": decay, "epsilon": epsilon, "floor": floor, "warmup": warmup}
    found = planning.optimal_schedule(
        loaded if len(loaded) > 1 else loaded[0], steps, peak,
        weights=_weights(weight, len(loaded)), inputs=_inputs(value, len(loaded)), start=start,
        after=None if after is None else as_schedule(after), shortest_decay=shortest_decay,
        carry_momentum=carry_momentum or None, count_warmup=count_warmup or None,
        n_starts=n_starts, seed=seed, level=level, **options,
    )  # fmt: skip
    rates = pd.DataFrame(
        {"step": np.arange(1, len(found.schedule) + 1), "lr": found.schedule.rates}
    )
    tell(found, out, as_json, rates, lambda plots: plots.best_rates(found))


def _weights(text: str | None, losses: int) -> list[float] | None:
    """``0.7,0.3``; of two losses ``0.7`` says the same."""
    if text is None:
        return None
    found = [number(one, "--weight") for one in text.split(",")]
    return [*found, 1 - found[0]] if losses == 2 and len(found) == 1 else found


def _inputs(items: list[str] | None, losses: int) -> list[dict[str, float]]:
    """Other inputs of each loss, from ``N=1e9`` for all and ``r=0.2,0.8``."""
    each: list[dict[str, float]] = [{} for _ in range(losses)]
    for name, text in pairs(items, "--input").items():
        values = [number(one, "--input") for one in text.split(",")]
        if len(values) not in (1, losses):
            raise UsageError(f"--input {name}= has {len(values)} numbers for {losses} losses: one "
                             "for all, or one each")  # fmt: skip
        for one, own in zip(each, values * (losses // len(values)), strict=True):
            one[name] = own
    return each


def _areas(decay: float | None, epsilon: float | None) -> dict[str, float]:
    said = {"decay": decay, "epsilon": epsilon}
    return {name: value for name, value in said.items() if value is not None}


def _run(pretraining: str, run: str, loss_potential: float, replay: float) -> ContinualRun:
    base = None
    if pretraining != "unknown":
        shape, given = _phase(pretraining, "--pretraining", ("steps", "peak", "decay", "warmup"))
        if not {"steps", "peak"} <= set(given):
            raise UsageError("--pretraining needs steps= and peak=")
        base = Pretraining(shape=shape, **given)
    keys = ("steps", "peak", "decay", "warmup", "start", "final")
    shape, given = _phase(run, "--run", keys)
    if "steps" not in given:
        raise UsageError("--run needs steps=")
    return ContinualRun(base, shape=shape, loss_potential=loss_potential, replay=replay, **given)


def _phase(text: str, option: str, keys: tuple[str, ...]) -> tuple[str, dict[str, float]]:
    """The shape and the numbers of ``wsd:steps=40000,peak=2e-4``."""
    shape, _, rest = text.partition(":")
    given = numbers_of([part for part in rest.split(",") if part], option)
    for name in given:
        if name not in keys:
            raise UsageError(f"{option} takes {', '.join(keys)}, not {name}.{nearest(name, keys)}")
    return shape, given


def _table(found: Any, out: Path | None, as_json: bool, draw: Any) -> None:
    """Print without the ends of intervals, for which there is no room; files have them."""
    ends = [name for name in found.table if name.endswith(("_low", "_high"))]
    show(found.table, found.notes, out, as_json, draw, [*ends, "change_pt", "change_cpt"])
