"""Designs and true parameters of the simulated experiments, by name."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._areas import areas, phase_areas
from jaxlaw._typed import LogNoise, Seed, StepCount, checked
from jaxlaw.data import area_options, areas_along, learnability_coefficients
from jaxlaw.schedules import constant, parse, two_stage, warmup, wsd

Inputs = dict[str, np.ndarray]


def _cross(**axes: Any) -> Inputs:
    """All combinations of the axes, the last one fastest."""
    grids = np.meshgrid(*(np.asarray(axis, float) for axis in axes.values()), indexing="ij")
    return {name: grid.ravel() for name, grid in zip(axes, grids, strict=True)}


# Que 2024, §4.1: three sizes of Qwen-1.5, 20,000 steps of 64 sequences of 2,048 tokens,
# evaluated every 1,000, at nine mixture ratios: 540 points for either corpus.
_QUE = {
    "N": [0.5, 1.8, 4.0],
    "D": np.arange(1, 21) * 1000 * 64 * 2048 * 1e-9,
    "r": [0.0, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1.0],
}


def _que() -> Inputs:
    return _cross(**_QUE)


# Ge 2024 draws its shares and steps only: these are ours.
def _bimix() -> Inputs:
    return _cross(D=np.geomspace(0.5, 50, 12), r=[0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5])


def _que_general() -> Inputs:
    domain = _que()
    return domain | {"r": np.round(1 - domain["r"], 12)}


# Hoffmann 2022, figure 3: nine compute budgets, and on each a range of sizes around the
# best one (near 20 tokens a parameter). 9 × 27 runs; the size of the range is ours.
def _hoffmann() -> Inputs:
    runs = _cross(
        C=[6e18, 1e19, 3e19, 6e19, 1e20, 3e20, 6e20, 1e21, 3e21],
        ratio=np.geomspace(1 / 6, 6, 27),
    )
    N = np.sqrt(runs["C"] / 120) * runs["ratio"]
    return {"N": N, "D": runs["C"] / (6 * N)}


# Farseer 2025: dense models from 0.2 to 6.4 billion parameters, and tokens, in steps of √2.
def _farseer() -> Inputs:
    return _cross(N=2e8 * 2 ** (np.arange(11) / 2), D=2e9 * 2 ** (np.arange(15) / 2))


# Step Law 2025, arXiv 2503.04715, sweeps rates and batches in steps of √2 at many sizes and tokens;
# nine cells of 20 settings are ours.
def _sweeps() -> Inputs:
    settings = {"lr": 5e-4 * 2.0 ** np.arange(5), "batch": 2.0 ** np.arange(16, 23, 2)}
    return _cross(N=[1e8, 3e8, 1e9], D=[4e9, 2e10, 1e11], **settings)


# Muennighoff 2023: corpora of 0.1 to 44 billion unique tokens, gone over up to 60 times, and sizes
# from far below to far beyond what these need. The grid is ours.
def _repeated_tokens() -> Inputs:
    runs = _cross(
        N=[5e7, 2e8, 8e8, 3e9, 8e9], U=[1e8, 5e8, 2e9, 9e9, 4.4e10], epochs=[1, 2, 4, 8, 20, 60]
    )
    return {"N": runs["N"], "D": runs["U"] * runs["epochs"], "U": runs["U"]}


# Clark 2022, figure 1: dense sizes of 15 to 1300 million parameters with up to 512 experts, here
# those that its published data have.
_CLARK_SIZES = [16.5e6, 27.3e6, 57.4e6, 132e6, 368e6]


def _clark() -> Inputs:
    return _cross(N=_CLARK_SIZES, experts=2.0 ** np.arange(10))


# Tao 2024: six sizes without the vocabulary, with the width of each and the tokens of its longest
# run. It has ten vocabularies of 4 to 96 thousand, and twenty checkpoints of a run; these are ours.
_TAO = (
    (33.2e6, 512, 1.2e9), (84.8e6, 768, 3e9), (151e6, 768, 5.3e9), (316e6, 1024, 11.7e9),
    (632e6, 1536, 27.7e9), (1.13e9, 2048, 54.8e9),
)  # fmt: skip


def _vocabularies() -> Inputs:
    runs = _cross(size=range(6), words=[4096, 12288, 32768, 98304], seen=[0.05, 0.2, 0.5, 1.0])
    N, width, tokens = np.array(_TAO)[runs["size"].astype(int)].T
    return {"N": N, "N_v": width * runs["words"], "D": tokens * runs["seen"]}


# The tokens are ours.
def _clark_tokens() -> Inputs:
    return _cross(N=_CLARK_SIZES, D=[2e9, 1e10, 5e10, 2.5e11], experts=2.0 ** np.arange(0, 10, 3))


# Zheng 2024, table 4: it lists 42 sizes (the text counts 40), in millions of parameters.
# fmt: off
_ZHENG_SIZES = (
    49, 66, 86, 105, 125, 137, 166, 194, 208, 234, 259, 301, 334, 368, 512, 591, 616, 670,
    711, 766, 806, 879, 992, 1085, 1239, 1393, 1542, 1736, 1743, 1944, 1963, 2112, 2191,
    2452, 2791, 2808, 3227, 3647, 4016, 4248, 4657, 5534,
)
# fmt: on


# §2.1: every model sees 20 tokens a parameter. Ten points along each curve are ours.
def _zheng() -> Inputs:
    runs = _cross(N=np.asarray(_ZHENG_SIZES) * 1e6, seen=np.geomspace(0.02, 1.0, 10))
    return {"N": runs["N"], "D": 20 * runs["N"] * runs["seen"]}


# §4.2: the lowest loss at each level of compute, from the smallest run to the largest.
def _zheng_frontier() -> Inputs:
    smallest, largest = (120 * (size * 1e6) ** 2 for size in (_ZHENG_SIZES[0], _ZHENG_SIZES[-1]))
    return {"C": np.geomspace(smallest, largest, 30)}


# Kaplan 2020, figure 9: sizes without embeddings, and subsets of the data.
def _kaplan() -> Inputs:
    return _cross(
        N=[393.2e3, 3e6, 25e6, 85e6, 302e6, 708e6],
        D=[21e6, 43e6, 86e6, 172e6, 344e6, 688e6, 1.4e9, 22e9],
    )


# Isik 2024, §4: up to a million steps of 256 sequences of 512 tokens. Which checkpoints
# were finetuned is only drawn, not printed: these, one doubling apart, are ours.
def _isik() -> Inputs:
    steps = np.array([10, 20, 40, 80, 160, 320, 640, 1000]) * 1000
    return {"Dp": steps * 256.0 * 512.0}


# The losses that downstream-ce has there.
def _isik_losses() -> Inputs:
    p = TRUTHS["downstream-ce"]
    return {"cross_entropy": p["E"] + p["A"] / _isik()["Dp"] ** p["alpha"]}


# Losses on a task, in bits per byte, of the size of those of OLMo's ladder (Bhagia 2024, figure 2).
def _task_losses() -> Inputs:
    return {"task_loss": np.geomspace(1.8, 0.7, 32)}


# Lin 2024, §4: no sample, 200, and on by doubling.
def _lin() -> Inputs:
    return {"Df": np.concatenate([[0.0], 200.0 * 2.0 ** np.arange(14)])}


# ---------------------------------------------------------------- several domains

# Domain: floor and drop in nats, rate. They are ours, chosen so that neither k1 nor k2 alone orders
# the domains as K does.
_PROBES = {
    "code": (0.75, 0.30, 0.9),
    "math": (0.95, 0.62, 0.7),
    "law": (1.20, 0.95, 0.8),
    "music": (0.55, 0.80, 1.2),
    "chemistry": (1.45, 0.42, 0.6),
    "medical": (1.75, 1.30, 1.0),
}


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
    normal = np.random.default_rng(seed).standard_normal((len(_PROBES), len(step)))
    parts = [
        pd.DataFrame(
            {
                "domain": domain,
                "step": step,
                "loss": (floor + drop * (1 + step / 1000) ** -rate) * np.exp(noise * drawn),
            }
        )
        for (domain, (floor, drop, rate)), drawn in zip(_PROBES.items(), normal, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


@cache
def _learnabilities() -> pd.DataFrame:
    return learnability_coefficients(early_curves(), by="domain", law="dcpt-cross-k4")


def several_domains(law: str, steps: Sequence[int] = (1000, 2000, 5000, 10_000, 20_000)) -> Inputs:
    """Six domains × the runs of Que 2024, §4.1, at some of its 20 evaluations: 810 points."""
    names = [name for name in laws.get(law).input_names if name in _learnabilities()]
    axes = _QUE | {"D": np.asarray(steps) * 64 * 2048 * 1e-9}
    runs = _cross(domain=np.arange(len(_PROBES)), **axes)
    domain = runs.pop("domain").astype(int)
    return runs | {name: _learnabilities()[name].to_numpy()[domain] for name in names}


# ---------------------------------------------------------------- loss curves

# Wang 2025, setting A: 40,000 steps of pre-training and 10,000 continual ones at a peak rate of
# 2e-4, WSD and cosine, λ = 0.999 (table 1, App. C). The final rates, which continual schedule
# follows which base, and which steps are evaluated are only drawn in the paper: these are ours.
_PEAK = 2e-4
_PT_STEPS, _CPT_STEPS = 40_000, 10_000
_SIZES = (106e6, 594e6, 1720e6)  # table 1, settings A, C and D
_SHARES = (0.0, 0.2, 0.33, 0.5, 0.67, 0.8)  # of the pre-training corpus

#: Schedules of the loss curves by name, as lines for :func:`jaxlaw.schedules.parse`. The last two
#: warm up again, so that S2 begins below 0.
LINES: Mapping[str, str] = {
    "stable": "constant:lr=2e-4,steps=40000",
    "wsd": "wsd:peak=2e-4,steps=40000,final=2e-5",
    "cosine": "cosine:peak=2e-4,steps=40000,final=2e-5",
    "stable then wsd": "constant:lr=2e-4,steps=40000+wsd:peak=2e-4,steps=10000",
    "stable then constant": "constant:lr=2e-4,steps=40000+constant:lr=1e-4,steps=10000",
    "wsd then cosine": "wsd:peak=2e-4,steps=40000,final=2e-5"
    "+cosine:peak=2e-4,steps=10000,warmup=500",
    "cosine then cosine": "cosine:peak=2e-4,steps=40000,final=2e-5"
    "+cosine:peak=1e-4,steps=10000,final=2e-5,warmup=500",
}


def _annealing_design() -> Inputs:
    """The curves of pre-training: 88 points."""
    steps = np.arange(1000, _PT_STEPS + 1, 1000)
    names = ("stable", "wsd", "cosine")
    S1, S2 = areas([parse(LINES[name]) for name in names], at=steps)
    # Until it anneals, a WSD run is the stable one.
    used = np.stack([steps > (0.8 * _PT_STEPS if name == "wsd" else 0) for name in names])
    return {"S1": S1[used], "S2": S2[used]}


def _stages() -> Inputs:
    """A constant rate, and falls to lower ones at step 8,000: at most one drop at a point."""
    steps = np.arange(500, 24_001, 500)
    base = constant(3e-4, 24_000)
    flat = areas(base, at=steps).S1
    parts = [np.stack([flat, np.zeros(len(flat)), np.full(len(flat), 3e-4), flat])]
    after = 8_000 + np.unique(np.geomspace(10, 16_000, 18).astype(int))
    for low in (2e-4, 9e-5, 3e-5, 3e-6):
        S1 = areas(two_stage(3e-4, low, 24_000, 8_000), at=after).S1
        since = S1 - 8_000 * 3e-4
        ones = np.ones(len(S1))
        parts.append(np.stack([S1, (3e-4 - low) * ones, low * ones, since]))
    return dict(zip(("S1", "drop", "eta_k", "S_k"), np.concatenate(parts, axis=1), strict=True))


def _continual(points: int = 20) -> Inputs:
    """Four continual curves: ``points`` steps each, from the 10th on in equal ratios."""
    steps = np.unique(np.geomspace(10, _CPT_STEPS, points).astype(int))
    both = [parse(line) for name, line in LINES.items() if " then " in name]
    areas_of_phases = phase_areas(both, at=_PT_STEPS + steps)._asdict()
    return {name: area.ravel() for name, area in areas_of_phases.items()}


def _both_phases() -> Inputs:
    """Pre-training and continual curves together."""
    before, after = _annealing_design(), _continual()
    none = np.zeros(len(before["S1"]))
    first = {"S1_pt": before["S1"], "S1_cpt": none, "S2_pt": before["S2"], "S2_cpt": none}
    return {name: np.concatenate([first[name], after[name]]) for name in first}


def _sizes() -> Inputs:
    """Three model sizes on all curves."""
    return _repeat(_both_phases(), "N", _SIZES)


def _batches() -> Inputs:
    """Continual curves at two batch sizes, areas counted in tokens of the first."""
    runs = _both_phases()
    again = _repeat(_continual(), "b", (1.0,))
    runs["b"] = np.zeros(len(runs["S1_pt"]))
    return {name: np.concatenate([runs[name], again[name]]) for name in runs}


def _shift_alone() -> Inputs:
    """S1 of the continual curves: all that the shift depends on."""
    area = _continual()["S1_cpt"]
    # Schedules that agree so far have the same areas but for rounding.
    return {"S1_cpt": area[np.unique(area.round(12), return_index=True)[1]]}


def _replay(own: str, points: int = 20) -> Inputs:
    """Replay ratios r_pt of 0 to 0.8; r is r_pt (``own="pt"``) or r_cpt = 1 − r_pt."""
    before = _both_phases()
    started = before["S1_cpt"] > 0
    before = {name: column[~started] for name, column in before.items()}
    after = _repeat(_continual(points), "r", _SHARES)
    before["r"] = np.ones(len(before["S1_pt"]))
    runs = {name: np.concatenate([before[name], after[name]]) for name in before}
    return runs if own == "pt" else runs | {"r": np.round(1 - runs["r"], 12)}


def _unknown_base(own: str | None) -> Inputs:
    """Two continual curves of one base, of which nothing else is known: seen at many more steps.

    They warm up from a rate of 0, the last of the base (Wang 2025, App. G). At 20 steps a curve,
    fits to noisy losses stall where S1_pt and alpha diverge jointly.
    """
    rewarmed = _CPT_STEPS - 500
    shapes = wsd(_PEAK, rewarmed), constant(_PEAK / 2, rewarmed)
    runs = (warmup(shape, 500) for shape in shapes)
    at = np.unique(np.geomspace(10, _CPT_STEPS, 100 if own is None else 60).astype(int))
    parts = [areas_along(run, at, area_options(), alone="cpt") for run in runs]
    inputs = {name: np.concatenate([part[name] for part in parts]) for name in ("S1_cpt", "S2_cpt")}
    if own is None:
        return inputs
    inputs = _repeat(inputs, "r", _SHARES)
    return inputs if own == "pt" else inputs | {"r": np.round(1 - inputs["r"], 12)}


def _repeat(inputs: Inputs, name: str, values: tuple[float, ...]) -> Inputs:
    count, length = len(values), len(next(iter(inputs.values())))
    repeated = {key: np.tile(column, count) for key, column in inputs.items()}
    return repeated | {name: np.repeat(np.asarray(values, float), length)}


# ---------------------------------------------------------------- the tables

_CROSS = ("-k1", "-k2", "", "-k4")

#: Experiment → its design.
DESIGNS: Mapping[str, Callable[[], Inputs]] = MappingProxyType(
    {
        "kaplan": _kaplan,
        "chinchilla": _hoffmann,
        "skaling": _hoffmann,
        "tuned-skaling": _sweeps,
        "best-lr": _hoffmann,
        "best-batch": _hoffmann,
        "kaplan-e": _hoffmann,
        "overtraining": _hoffmann,
        "farseer": _farseer,
        "loss-size": lambda: {"N": np.geomspace(1e7, 3e9, 20)},
        "clark": _clark,
        "routed-chinchilla": _clark_tokens,
        "vocabulary": _vocabularies,
        "repetition": _repeated_tokens,
        "repetition-geometric": _repeated_tokens,
        "from-scratch": _zheng,
        "cpt-chinchilla": _zheng,
        "loss-compute": _zheng_frontier,
        "loss-compute-e": _zheng_frontier,
        "optimum-compute": _zheng_frontier,
        "dcpt": _que,
        "dcpt-general": _que_general,
        "dcpt-l1": _que,
        "dcpt-l2": _que,
        "dcpt-l4": _que,
        "dcpt-l5": _que,
        "bimix": _bimix,
        **{f"dcpt-cross{k}": partial(several_domains, f"dcpt-cross{k}") for k in _CROSS},
        "downstream-ce": _isik,
        "downstream-bleu": _isik,
        "downstream-bleu-ce": _isik_losses,
        "sigmoid": _task_losses,
        "score-exponential": _task_losses,
        "score-log-linear": _task_losses,
        "rectified": _lin,
        "annealing": _annealing_design,
        "multi-power": _stages,
        "cpt-curve": _both_phases,
        "cpt-curve-exp": _both_phases,
        "cpt-curve-power": _both_phases,
        "cpt-curve-n": _sizes,
        "cpt-curve-batch": _batches,
        "shift": _shift_alone,
        "shift-exp": _shift_alone,
        "cpt-curve-replay-pt": partial(_replay, "pt"),
        "cpt-curve-replay-cpt": partial(_replay, "cpt"),
        "cpt-curve-unknown-base": partial(_unknown_base, None),
        "cpt-curve-replay-pt-unknown-base": partial(_unknown_base, "pt"),
        "cpt-curve-replay-cpt-unknown-base": partial(_unknown_base, "cpt"),
    }
)

#: Experiments that are not named after their law.
OTHER_LAW = {"dcpt-general": "dcpt", "from-scratch": "chinchilla"}

#: Experiment → its true parameters, in the law's own units; the file says where they are from.
TRUTHS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        name: MappingProxyType(params)
        for name, params in tomllib.loads(
            Path(__file__).with_name("truths.toml").read_text("utf-8")
        ).items()
    }
)
