"""Simulated loss curves: designs and true parameters of Wang 2025, setting A.

40,000 steps of pre-training and 10,000 continual ones at a peak rate of 2e-4, WSD and cosine,
λ = 0.999 (table 1, App. C). Where the rates end, which continual schedule follows which base
and which steps are evaluated is only drawn in the paper: these are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

Inputs = dict[str, np.ndarray]

_PEAK, _LOW = 2e-4, 2e-5
_PT_STEPS, _CPT_STEPS = 40_000, 10_000
_SIZES = (106e6, 594e6, 1720e6)  # table 1, settings A, C and D


def _wsd(steps: int, peak: float, final: float) -> np.ndarray:
    """Stable for four fifths of the steps, then a straight line down."""
    left = (steps - np.arange(1, steps + 1)) / (0.2 * steps)
    return final + (peak - final) * np.minimum(left, 1.0)


def _cosine(steps: int, peak: float, final: float, warmup: int = 0) -> np.ndarray:
    step = np.arange(1, steps + 1)
    fallen = np.clip((step - warmup) / (steps - warmup), 0, 1)
    rates = final + (peak - final) * (1 + np.cos(np.pi * fallen)) / 2
    return np.where(step < warmup, peak * step / max(warmup, 1), rates)


def _areas(rates: np.ndarray, before: float) -> tuple[np.ndarray, np.ndarray]:
    """S1 and S2 after every step, ``before`` the rate before the first."""
    from scipy.signal import lfilter  # slow to import, only where it is needed

    drops = -np.diff(rates, prepend=before)
    return np.cumsum(rates), np.cumsum(lfilter([1.0], [1.0, -0.999], drops))


_PT_SCHEDULES = {
    "stable": np.full(_PT_STEPS, _PEAK),
    "wsd": _wsd(_PT_STEPS, _PEAK, _LOW),
    "cosine": _cosine(_PT_STEPS, _PEAK, _LOW),
}
# Each with the base it goes on from. The last two warm up again, so that S2 begins below 0.
_CPT_SCHEDULES = (
    ("stable", _wsd(_CPT_STEPS, _PEAK, 0.0)),
    ("stable", np.full(_CPT_STEPS, _PEAK / 2)),
    ("wsd", _cosine(_CPT_STEPS, _PEAK, 0.0, warmup=500)),
    ("cosine", _cosine(_CPT_STEPS, _PEAK / 2, _LOW, warmup=500)),
)


def annealing() -> Inputs:
    """The curves of pre-training: 88 points."""
    steps = np.arange(1000, _PT_STEPS + 1, 1000)
    parts = []
    for name, rates in _PT_SCHEDULES.items():
        # Until it anneals, a WSD run is the stable one.
        evaluated = steps[steps > 0.8 * _PT_STEPS] if name == "wsd" else steps
        parts.append(np.stack(_areas(rates, rates[0]))[:, evaluated - 1])
    S1, S2 = np.concatenate(parts, axis=1)
    return {"S1": S1, "S2": S2}


def continual(points: int = 20) -> Inputs:
    """Four continual curves: ``points`` steps each, from the 10th on in equal ratios."""
    steps = np.unique(np.geomspace(10, _CPT_STEPS, points).astype(int))
    columns = []
    for base, rates in _CPT_SCHEDULES:
        before = _PT_SCHEDULES[base]
        S1, S2 = np.stack(_areas(rates, before[-1]))[:, steps - 1]
        S1_pt, S2_pt = (np.full(len(steps), area[-1]) for area in _areas(before, before[0]))
        columns.append((S1_pt, S1, S2_pt, S2))
    names = ("S1_pt", "S1_cpt", "S2_pt", "S2_cpt")
    return dict(zip(names, np.concatenate(columns, axis=1), strict=True))


def both_phases() -> Inputs:
    """Pre-training and continual curves together."""
    before, after = annealing(), continual()
    none = np.zeros(len(before["S1"]))
    first = {"S1_pt": before["S1"], "S1_cpt": none, "S2_pt": before["S2"], "S2_cpt": none}
    return {name: np.concatenate([first[name], after[name]]) for name in first}


def sizes() -> Inputs:
    """Three model sizes on all curves."""
    return _crossed(both_phases(), "N", _SIZES)


def batches() -> Inputs:
    """Continual curves at two batch sizes, areas counted in tokens of the first."""
    runs = both_phases()
    again = _crossed(continual(), "b", (1.0,))
    runs["b"] = np.zeros(len(runs["S1_pt"]))
    return {name: np.concatenate([runs[name], again[name]]) for name in runs}


def replay(own: str) -> Inputs:
    """Replay ratios r_pt of 0 to 0.8; r is r_pt (``own="pt"``) or r_cpt = 1 − r_pt."""
    before = both_phases()
    started = before["S1_cpt"] > 0
    before = {name: column[~started] for name, column in before.items()}
    after = _crossed(continual(), "r", (0.0, 0.2, 0.33, 0.5, 0.67, 0.8))
    before["r"] = np.ones(len(before["S1_pt"]))
    runs = {name: np.concatenate([before[name], after[name]]) for name in before}
    return runs if own == "pt" else runs | {"r": np.round(1 - runs["r"], 12)}


def unknown_base(own: str | None) -> Inputs:
    """The continual curves of one base, with nothing said of it."""
    inputs = both_phases() if own is None else replay(own)
    known = (inputs["S1_cpt"] > 0) & (inputs["S1_pt"] == np.max(inputs["S1_pt"]))
    return {name: c[known] for name, c in inputs.items() if name not in ("S1_pt", "S2_pt")}


def _crossed(inputs: Inputs, name: str, values: tuple[float, ...]) -> Inputs:
    count, length = len(values), len(next(iter(inputs.values())))
    repeated = {key: np.tile(column, count) for key, column in inputs.items()}
    return repeated | {name: np.repeat(np.asarray(values, float), length)}


DESIGNS: Mapping[str, Callable[[], Inputs]] = {
    "annealing": annealing,
    "cpt-curve": both_phases,
    "cpt-curve-exp": both_phases,
    "cpt-curve-power": both_phases,
    "cpt-curve-n": sizes,
    "cpt-curve-batch": batches,
    "cpt-curve-replay-pt": partial(replay, "pt"),
    "cpt-curve-replay-cpt": partial(replay, "cpt"),
    "cpt-curve-unknown-base": partial(unknown_base, None),
    "cpt-curve-replay-pt-unknown-base": partial(unknown_base, "pt"),
    "cpt-curve-replay-cpt-unknown-base": partial(unknown_base, "cpt"),
}

# Figure 19, the loss on either corpus. It does not print β (0.4 is ours), and for the new corpus
# it prints B = −0.526 and a2 = 5.696, a shift beyond 100 nats: with both signs turned it is half
# a nat.
_HIDDEN_PT = {"L0": 3.067, "A": 0.480, "alpha": 0.510}
_HIDDEN_CPT = {"L0": 2.992, "A": 0.456, "alpha": 0.510}
_SHIFT_PT = {"B": 0.276, "E": 99.35, "beta": 0.4}
_SHIFT_CPT = {"B": 0.526, "E": 100.34, "beta": 0.4}
_REPLAY_PT = {"C2": 0.263, "a1": 0.055, "a2": 3.238}
_REPLAY_CPT = {"C2": 0.279, "a1": 0.037, "a2": -5.696}
_CURVE = _HIDDEN_PT | {"C1": 0.280, "C2": 0.263} | _SHIFT_PT

#: The other numbers are ours: of the exponential shift, of the powers, of N and the second batch
#: size; and the amount of training of the unknown base, S1 of 5,000 steps. Its own 40,000 would
#: leave nothing but a straight line to be seen of it.
TRUTHS: Mapping[str, dict[str, float]] = {
    "annealing": _HIDDEN_PT | {"C": 0.280},
    "cpt-curve": _CURVE,
    "cpt-curve-exp": _HIDDEN_PT | {"C1": 0.280, "C2": 0.263, "B": 0.276, "E": 3.0},
    "cpt-curve-power": _CURVE | {"zeta1": 0.9, "zeta2": 1.1},
    "cpt-curve-n": _CURVE
    | {"L0": 2.0, "C1": 0.0022, "C2": 0.0021, "F": 40.0}
    | {"gamma1": 0.26, "gamma2": 0.25, "gamma3": 0.2},
    "cpt-curve-batch": _CURVE | {"B_b": 0.31, "E_b": 40.0, "beta_b": 0.3},
    "cpt-curve-replay-pt": _HIDDEN_PT | {"C1": 0.280} | _SHIFT_PT | _REPLAY_PT,
    "cpt-curve-replay-cpt": _HIDDEN_CPT | {"C1": 0.285} | _SHIFT_CPT | _REPLAY_CPT,
    "cpt-curve-unknown-base": _HIDDEN_PT | {"C2": 0.263, "S1_pt": 1.0} | _SHIFT_PT,
    "cpt-curve-replay-pt-unknown-base": _HIDDEN_PT | {"S1_pt": 1.0} | _SHIFT_PT | _REPLAY_PT,
    "cpt-curve-replay-cpt-unknown-base": _HIDDEN_CPT | {"S1_pt": 1.0} | _SHIFT_CPT | _REPLAY_CPT,
}
