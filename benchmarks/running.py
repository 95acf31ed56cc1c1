"""Where runs that are under way end: errors and coverage by the share of the run that is done.

    JAXLAW_DATA=… python benchmarks/running.py [schedules] [olmo] [continual] [simulated] [varied]

Each complete run is cut at a share of its steps and its last loss is forecast by
:func:`jaxlaw.forecast_run` with several choices of siblings; beside it the last loss carried on,
and a power law in steps with a floor, fitted to the same losses. ``schedules``: 27 runs of
lr_loss_curves.csv (cosine and WSD forecast); ``olmo``: 25 runs of olmo_ladder.csv, loss on C4;
``continual``: five replay ratios of continual_70m.csv on both corpora, the rate taken as constant;
``simulated``: continual runs whose truth is Wang's eq. 8; ``varied``: runs by the annealing law,
whose coefficients have nothing to do with each other.
"""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

import jaxlaw as jl

sys.path.insert(0, __file__.rpartition("/")[0])
from curves import CONSTANT, read, schedules_of_data

SHARES = (0.25, 0.5, 0.65, 0.8, 0.9)
DECAYING = ("cosine_24000", "cosine_72000", "wsd_20000_24000", "wsdld_20000_24000")


def schedules():
    """27 runs; a run is its size and its schedule."""
    table = read("lr_loss_curves.csv").rename(columns={"model_params_millions": "size"})
    table["run"] = table["size"].astype(str) + " " + table["schedule"]
    table = table.drop(columns="lr").assign(schedule=table["schedule"].map(schedules_of_data()))
    curves = jl.read_loss_curves(table)
    of = {run: run.split() for run in curves.run_schedules}
    choices = {
        "all others": lambda a, b: True,
        "smaller sizes": lambda a, b: int(b[0]) < int(a[0]),
        "same size": lambda a, b: a[0] == b[0],
        "other schedules and sizes": lambda a, b: a[0] != b[0] and a[1] != b[1],
    }
    yield "schedules", curves, of, choices, [r for r in of if of[r][1] in DECAYING]


def olmo():
    """25 runs; a run is its size and its length."""
    table = read("olmo_ladder.csv").rename(columns={"loss_c4_en": "loss"})
    table = table[~table["run"].str.contains("rerun")][["run", "step", "lr", "loss", "N"]]
    curves = jl.read_loss_curves(table.dropna(), fill="linear", first_step=0)
    sizes = table.groupby("run")["N"].first()
    of = {run: (sizes[run], float(run.split("-")[1][:-2])) for run in curves.run_schedules}
    choices = {
        "all others": lambda a, b: True,
        "smaller sizes": lambda a, b: b[0] < a[0],
        "shorter, same size": lambda a, b: a[0] == b[0] and b[1] < a[1],
    }
    yield "olmo", curves, of, choices, [*of]


def continual():
    """Five replay ratios of a 70 M model, on the Pile and on Python."""
    table = read("continual_70m.csv").query("run_id != 'base'")
    for domain in ("PILE_WEIGHTED", "python"):
        own = table[table["domain"] == domain].rename(columns={"run_id": "run"})
        own = own[["run", "step", "loss"]].assign(phase="cpt", schedule=CONSTANT)
        curves = jl.read_loss_curves(own)
        of = dict.fromkeys(curves.run_schedules)
        yield domain, curves, of, {"other ratios": lambda a, b: True}, [*of]


def simulated():
    """Continual runs of three bases at five replay ratios, noise 0.2 %."""
    table = jl.simulate.continual_curves().table
    for name in ("loss_pt", "loss_cpt"):
        own = table[["run", "step", "schedule"]].assign(loss=table[name])
        curves = jl.read_loss_curves(own[own["run"].str.contains("replay")])
        of = {run: run.rsplit(" replay ") for run in curves.run_schedules}
        choices = {
            "same schedule": lambda a, b: a[0] == b[0],
            "same ratio": lambda a, b: a[1] == b[1],
        }
        yield f"simulated {name}", curves, of, choices, [*of]


def varied():
    """25 runs of one WSD schedule; their coefficients vary by 11 to 20 %, each by itself."""
    line, step = "wsd:peak=3e-4,steps=20000,warmup=1000", np.arange(200, 20_001, 200)
    areas = jl.read_loss_curves({"step": step, "loss": step / step}, schedule=line).runs().table
    middle, random = {"L0": 2.6, "A": 0.6, "C": 0.4, "alpha": 0.45}, np.random.default_rng(0)
    parts = []
    for k in range(25):
        factors = np.exp([0.15, 0.2, 0.2, 0.11] * random.standard_normal(4))
        params = dict(zip(middle, factors * [*middle.values()], strict=True))
        run = jl.simulate.simulate_runs("annealing", params, areas[["S1", "S2"]], 0.001, k)
        parts.append(run[["loss"]].assign(run=str(k), step=step, schedule=line))
    curves = jl.read_loss_curves(pd.concat(parts, ignore_index=True))
    choices = {
        "3 others": lambda a, b: 0 < (b - a) % 25 <= 3,
        "8 others": lambda a, b: 0 < (b - a) % 25 <= 8,
    }
    of = {run: int(run) for run in curves.run_schedules}
    yield "varied", curves, of, choices, [*of]


def power_law(step, loss, last):
    """E + A·t^−α, least squares, at the last step."""
    law = lambda p, x: p[0] + p[1] * (x / step[-1]) ** -abs(p[2])  # noqa: E731
    found = least_squares(lambda p: law(p, step) - loss, [loss[-1] - 0.1, 1.0, 0.5])
    return law(found.x, last)


def main(source):
    for label, curves, of, choices, asked in source():
        rows = []
        for run in asked:
            whole = curves.only(run)
            one = whole.run_schedules[run]
            first, last = one.schedule.boundary or 0, one.last_step
            end = whole.table["loss"].iloc[-1]
            for share in SHARES:
                cut = first + share * (last - first)
                seen = whole.only(where=f"step <= {cut}")
                step, loss = (seen.table[n].to_numpy(float) for n in ("step", "loss"))
                at = int(whole.table["step"].iloc[-1])
                if len(step) < 4:
                    continue
                later = step > max(1.5 * np.argmax(one.schedule.rates[first:]), 0.02 * last) + first
                shared = {"share": share}
                rows.append(shared | {"way": "last loss", "error": loss[-1] - end})
                fitted = power_law(step[later] - first, loss[later], at - first)
                rows.append(shared | {"way": "power law in steps", "error": fitted - end})
                for way, choose in ({"none": lambda a, b: False} | choices).items():
                    names = [r for r in of if r != run and choose(of[run], of[r])]
                    if not names and way != "none":
                        continue
                    siblings = curves.only(*names) if names else None
                    found = jl.forecast_run(seen, at=[at], siblings=siblings)
                    low, high = found.interval["loss"]
                    # One percent of the loss more, over the last tenth of what was seen.
                    odd = loss * np.where(step > first + 0.9 * (cut - first), 1.01, 1.0)
                    odd = replace(seen.rows, table=seen.table.assign(loss=odd))
                    moved = jl.forecast_run(replace(seen, rows=odd), at=[at], siblings=siblings)
                    rows.append(shared | {
                        "way": f"siblings: {way}", "error": found.loss - end,
                        "seen": "left-interval" in {note.code for note in moved.notes},
                        "inside": low <= end <= high, "width": (high - low) / 2,
                        "left": "left-interval" in {note.code for note in found.notes},
                    })  # fmt: skip
        table = pd.DataFrame(rows).astype({"inside": float})
        table["error"] = table["error"].abs()
        heads = ["mean error (nats), inside 90%, half-width", *(f"{s:.0%}" for s in SHARES)]
        head = f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}"
        print(f"\n## {label}: {len(asked)} runs\n\n{head}")
        for way, own in table.groupby("way", sort=False):
            means = own.groupby("share")[["error", "inside", "width"]].mean().reindex(SHARES)
            cells = [
                "" if np.isnan(error) else f"{error:.4f}" if np.isnan(inside)
                else f"{error:.4f}, {inside:.0%}, {width:.4f}"
                for error, inside, width in means.to_numpy()
            ]  # fmt: skip
            print(f"| {way} | {' | '.join(cells)} |")
        made = table.dropna(subset="left")
        print(f"\n`left-interval` on {made['left'].sum()} of {len(made)} forecasts; with 1% added "
              f"to the last tenth of the losses on {made['seen'].sum()}")  # fmt: skip


SOURCES = {one.__name__: one for one in (schedules, olmo, continual, simulated, varied)}
if __name__ == "__main__":
    for name in sys.argv[1:] or SOURCES:
        main(SOURCES[name])
