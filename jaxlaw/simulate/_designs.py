"""Designs and true parameters of the simulated experiments, by name."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, reduce
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._areas import areas, phase_areas
from jaxlaw._typed import LogNoise, Seed, StepCount, checked
from jaxlaw.data import area_options, areas_along, drops_along, learnability_coefficients
from jaxlaw.schedules import constant, parse, two_stage, warmup, wsd

Inputs = dict[str, np.ndarray]


def _read(name: str) -> dict:
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


#: Experiment → its true parameters, in the law's own units; the file says where they are from.
TRUTHS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {name: MappingProxyType(params) for name, params in _read("truths.toml").items()}
)


def _cross(**axes) -> Inputs:
    """All combinations of the axes, the last one fastest."""
    grids = np.meshgrid(*(np.asarray(axis, float) for axis in axes.values()), indexing="ij")
    return {name: grid.ravel() for name, grid in zip(axes, grids, strict=True)}


def _table(design: Mapping) -> Inputs:
    """The runs of a design of designs.toml, which says what its keys mean."""
    axes = {
        name: np.geomspace(*axis["geom"]) if isinstance(axis, dict) else axis
        for name, axis in design["axes"].items()
    }
    runs = pd.DataFrame(_cross(**axes))
    for axis, columns in design.get("of", {}).items():
        for name, values in columns.items():
            runs[name] = np.asarray(values, float)[runs[axis].astype(int)]
    for name, formula in design.get("columns", {}).items():
        runs[name] = runs.eval(formula, engine="python")
    return {name: runs[name].to_numpy() for name in runs if not name.startswith("_")}


_DESIGNS = _read("designs.toml")
_PROBES: dict[str, list[float]] = _DESIGNS["probes"]
_TABLES = {
    name: partial(_table, design) for design in _DESIGNS["design"] for name in design["names"]
}


# ---------------------------------------------------------------- several domains


@checked
def early_curves(noise: LogNoise = 0.0, seed: Seed = 0, steps: StepCount = 20_000) -> pd.DataFrame:
    """The probe runs of the six domains, from which their k's are computed.

    Que 2024 prints neither the k's of its six domains nor the run they are of. Here every domain
    has a probe run of its own, L(t) = floor + drop·(1 + t/1,000 steps)^−rate, and its k's are those
    of that curve; its other runs obey the law with these k's.

    Args:
        noise: standard deviation of the noise on the log of the loss.
        seed: seed of the noise.
        steps: the last step; evaluated every 1,000, from 0 on.

    Returns:
        Columns ``domain``, ``step``, ``loss`` (nats).

    Example:
        >>> curves = jl.simulate.early_curves(steps=2000)
        >>> len(curves), sorted(curves["domain"].unique())[:2]
        (18, ['chemistry', 'code'])
    """
    step = np.arange(0, steps + 1, 1000)
    floor, drop, rate = np.array([*_PROBES.values()]).T[:, :, None]
    normal = np.random.default_rng(seed).standard_normal((len(_PROBES), len(step)))
    loss = (floor + drop * (1 + step / 1000) ** -rate) * np.exp(noise * normal)
    columns = {"domain": np.repeat([*_PROBES], len(step)), "step": np.tile(step, len(_PROBES))}
    return pd.DataFrame(columns | {"loss": loss.ravel()})


@cache
def _learnabilities() -> pd.DataFrame:
    return learnability_coefficients(early_curves(), by="domain", law="dcpt-cross-k4")


def several_domains(law: str, steps: Sequence[int] = (1000, 2000, 5000, 10_000, 20_000)) -> Inputs:
    """Six domains × the runs of Que 2024, §4.1, at some of its 20 evaluations: 810 points."""
    names = [name for name in laws.get(law).input_names if name in _learnabilities()]
    que = _TABLES["dcpt"]()
    axes = {"N": np.unique(que["N"]), "D": np.asarray(steps) * 64 * 2048 * 1e-9}
    runs = _cross(domain=np.arange(len(_PROBES)), **axes, r=np.unique(que["r"]))
    domain = runs.pop("domain").astype(int)
    return runs | {name: _learnabilities()[name].to_numpy()[domain] for name in names}


# ---------------------------------------------------------------- loss curves

# Wang 2025, setting A: 40,000 steps of pre-training and 10,000 continual ones at a peak LR of
# 2e-4, WSD and cosine, λ = 0.999 (table 1, App. C). The final learning rates, which
# continual schedule follows which base, and which steps are evaluated are only drawn in the paper:
# these are ours.
_PEAK = 2e-4
_PT_STEPS, _CPT_STEPS = 40_000, 10_000
_SIZES = (106e6, 594e6, 1720e6)  # table 1, settings A, C and D
_SHARES = (0.0, 0.2, 0.33, 0.5, 0.67, 0.8)  # of the pre-training corpus

#: Schedules of the loss curves by name, as lines for :func:`jaxlaw.schedules.parse`.
LINES: Mapping[str, str] = _DESIGNS["lines"]


def _annealing_design() -> Inputs:
    """The curves of pre-training: 88 points."""
    steps = np.arange(1000, _PT_STEPS + 1, 1000)
    names = ("stable", "wsd", "cosine")
    S1, S2 = areas([parse(LINES[name]) for name in names], at=steps)
    # Until it anneals, a WSD run is the stable one.
    used = np.stack([steps > (0.8 * _PT_STEPS if name == "wsd" else 0) for name in names])
    return {"S1": S1[used], "S2": S2[used]}


def _stages() -> Inputs:
    """A constant LR, and falls to lower ones at step 8,000: at most one drop at a point."""
    after = 8_000 + np.unique(np.geomspace(10, 16_000, 18).astype(int))
    parts = []
    for low in (3e-4, 2e-4, 9e-5, 3e-5, 3e-6):
        schedule = two_stage(3e-4, low, 24_000, 8_000)
        at = np.arange(500, 24_001, 500) if low == 3e-4 else after
        drops = drops_along(schedule, at, area_options())
        parts.append({"S1": areas(schedule, at=at).S1} | {k: v[:, 0] for k, v in drops.items()})
    return reduce(_together, parts)


def _continual() -> Inputs:
    """Four continual curves: 20 steps each, from the 10th on in equal ratios."""
    steps = np.unique(np.geomspace(10, _CPT_STEPS, 20).astype(int))
    both = [parse(line) for name, line in LINES.items() if " then " in name]
    areas_of_phases = phase_areas(both, at=_PT_STEPS + steps)._asdict()
    return {name: area.ravel() for name, area in areas_of_phases.items()}


def _together(first: Inputs, then: Inputs) -> Inputs:
    return {name: np.concatenate([first[name], then[name]]) for name in first}


def _base_alone() -> Inputs:
    """The curves of pre-training, by the areas of both phases."""
    S1, S2 = _annealing_design().values()
    none = np.zeros(len(S1))
    return {"S1_pt": S1, "S1_cpt": none, "S2_pt": S2, "S2_cpt": none}


def _both_phases() -> Inputs:
    """Pre-training and continual curves together."""
    return _together(_base_alone(), _continual())


def _shift_alone() -> Inputs:
    """S1 of the continual curves: all that the shift depends on."""
    area = _continual()["S1_cpt"]
    # Schedules that agree so far have the same areas but for rounding.
    return {"S1_cpt": area[np.unique(area.round(12), return_index=True)[1]]}


def _replay() -> Inputs:
    """Replay ratios r_pt of 0 to 0.8."""
    return _together(_repeat(_base_alone(), "r", (1.0,)), _repeat(_continual(), "r", _SHARES))


def _unknown_base(points: int = 100) -> Inputs:
    """Two continual curves of one base, of which nothing else is known: seen at many more steps.

    They warm up from an LR of 0, the last of the base (Wang 2025, App. G). At 20 steps per curve,
    fits to noisy losses stall where S1_pt and alpha diverge jointly.
    """
    rewarmed = _CPT_STEPS - 500
    shapes = wsd(_PEAK, rewarmed), constant(_PEAK / 2, rewarmed)
    runs = (warmup(shape, 500) for shape in shapes)
    at = np.unique(np.geomspace(10, _CPT_STEPS, points).astype(int))
    both = _together(*(areas_along(run, at, area_options(), alone="cpt") for run in runs))
    return {name: both[name] for name in ("S1_cpt", "S2_cpt")}


def _unknown_base_replay() -> Inputs:
    return _repeat(_unknown_base(60), "r", _SHARES)


def _turned(inputs: Inputs) -> Inputs:
    """The same runs by the mixture ratio of the other corpus."""
    return inputs | {"r": np.round(1 - inputs["r"], 12)}


def _repeat(inputs: Inputs, name: str, values: tuple[float, ...]) -> Inputs:
    count, length = len(values), len(next(iter(inputs.values())))
    repeated = {key: np.tile(column, count) for key, column in inputs.items()}
    return repeated | {name: np.repeat(np.asarray(values, float), length)}


# ---------------------------------------------------------------- the tables

_OF_ISIK = TRUTHS["downstream-ce"]

#: Experiment → its design.
DESIGNS: Mapping[str, Callable[[], Inputs]] = {
    **_TABLES,
    "dcpt-general": lambda: _turned(_TABLES["dcpt"]()),
    **{
        f"dcpt-cross{k}": partial(several_domains, f"dcpt-cross{k}")
        for k in ("-k1", "-k2", "", "-k4")
    },
    # The losses that downstream-ce has there.
    "downstream-bleu-ce": lambda: {
        "cross_entropy": _OF_ISIK["E"]
        + _OF_ISIK["A"] / _TABLES["downstream-ce"]()["Dp"] ** _OF_ISIK["alpha"]
    },
    "annealing": _annealing_design,
    "multi-power": _stages,
    **{f"cpt-curve{form}": _both_phases for form in ("", "-exp", "-power")},
    "cpt-curve-n": lambda: _repeat(_both_phases(), "N", _SIZES),
    # Continual curves at two batch sizes, areas counted in tokens of the first.
    "cpt-curve-batch": lambda: _together(
        _repeat(_both_phases(), "b", (0.0,)), _repeat(_continual(), "b", (1.0,))
    ),
    "shift": _shift_alone,
    "shift-exp": _shift_alone,
    # r is r_pt, or r_cpt = 1 − r_pt.
    "cpt-curve-replay-pt": _replay,
    "cpt-curve-replay-cpt": lambda: _turned(_replay()),
    "cpt-curve-unknown-base": _unknown_base,
    "cpt-curve-replay-pt-unknown-base": _unknown_base_replay,
    "cpt-curve-replay-cpt-unknown-base": lambda: _turned(_unknown_base_replay()),
}

#: Experiments that are not named after their law.
OTHER_LAW = {"dcpt-general": "dcpt", "from-scratch": "chinchilla"}
