"""The commands ``jaxlaw plan training`` and ``turning``; needs typer, which is an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from jaxlaw import planning
from jaxlaw.commands.options import Json, fit_argument
from jaxlaw.commands.plan_output import Draws, Out, show, tell
from jaxlaw.commands.saved import loaded_fits
from jaxlaw.commands.terminal import check_folder, number, numbers_of, pairs, ranges_of
from jaxlaw.notes import UsageError, nearest
from jaxlaw.planning import ContinualRun, Pretraining

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
    check_folder(out)
    if (weight is None) != (over is None) or (over is None) == (vary is None):
        raise UsageError("give --vary for a table, or --weight and --over for the best settings")
    fits = loaded_fits([pt, cpt], bootstrap)
    plan = _run(pretraining, run, loss_potential, replay)
    options: dict[str, Any] = {
        "inputs": numbers_of(value, "--input"),
        "areas": _areas(decay, epsilon),
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
    curve = planning.balance_curve(*fits, plan, ranges, weights, **options)
    if len(weights) > 1:
        first = next(iter(ranges))
        _table(curve, out, as_json, lambda plots: plots.balance(curve, first))
        return
    best = planning.optimal_training(*fits, plan, weights[0], ranges, **options)
    tell(best, out, as_json)


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
    check_folder(out)
    fits = loaded_fits([pt] if cpt is None else [pt, cpt], bootstrap)
    plan = _run(pretraining, run, loss_potential, replay)
    found = planning.turning_length(
        fits[0], plan, cpt=None if cpt is None else fits[1], weight=weight,
        inputs=numbers_of(value, "--input"), areas=_areas(decay, epsilon),
    )  # fmt: skip
    draw = None if cpt else lambda plots: plots.way_back(fits[0], plan, found)
    tell(found, out, as_json, draw=draw)


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
