"""The command ``jaxlaw demo``; needs typer, which is an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import jaxlaw as jl
from jaxlaw._json import write_whole
from jaxlaw.cli._options import Json
from jaxlaw.cli._terminal import (
    PICTURE,
    check_out,
    print_json,
    print_notes,
    print_table,
)
from jaxlaw.fitting._result import Fit


def demo_command(
    out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("jaxlaw_demo.png"),
    seed: Annotated[int, typer.Option(min=0, help="Of the simulated noise.")] = 0,
    as_json: Json = False,
) -> None:
    """Simulate a D-CPT experiment (Que 2024: 540 runs), fit both corpora, compare.

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
        print_notes(fit)
        print()
    print(f"picture: {out}" if drawn else "no picture: pip install 'jaxlaw[plot]'")


def _compare(fit: Fit, truth: dict[str, float], runs: Any) -> dict[str, Any]:
    """What the demo says of one corpus."""
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


def _demo_picture(fits: dict[str, Fit], runs: Any, out: Path) -> bool:
    """Whether it could be drawn: matplotlib is an extra."""
    try:
        from jaxlaw import plots
    except ModuleNotFoundError:
        return False
    write_whole(out, lambda path: plots.demo_figure(fits, runs).savefig(path, dpi=150))
    return True
