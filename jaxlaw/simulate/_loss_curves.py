"""Simulated loss curves: designs and true parameters of Wang 2025, setting A.

40,000 steps of pre-training and 10,000 continual ones at a peak rate of 2e-4, WSD and cosine,
λ = 0.999 (table 1, App. C). Where the rates end, which continual schedule follows which base
and which steps are evaluated is only drawn in the paper: these are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pandas as pd

from jaxlaw._areas import areas, phase_areas
from jaxlaw.data._row_areas import area_options, areas_along
from jaxlaw.schedules import Schedule, constant, cosine, join, two_stage, warmup, wsd

Inputs = dict[str, np.ndarray]

_PEAK, _LOW = 2e-4, 2e-5
_PT_STEPS, _CPT_STEPS = 40_000, 10_000
_SIZES = (106e6, 594e6, 1720e6)  # table 1, settings A, C and D
_SHARES = (0.0, 0.2, 0.33, 0.5, 0.67, 0.8)  # of the pre-training corpus


def _pretraining() -> dict[str, Schedule]:
    return {
        "stable": constant(_PEAK, _PT_STEPS),
        "wsd": wsd(_PEAK, _PT_STEPS, final=_LOW),
        "cosine": cosine(_PEAK, _PT_STEPS, _LOW),
    }


def _continued() -> tuple[Schedule, ...]:
    """Both phases. The last two warm up again, so that S2 begins below 0."""
    base, rewarmed = _pretraining(), _CPT_STEPS - 500
    return (
        join(base["stable"], wsd(_PEAK, _CPT_STEPS)),
        join(base["stable"], constant(_PEAK / 2, _CPT_STEPS)),
        join(base["wsd"], warmup(cosine(_PEAK, rewarmed), 500)),
        join(base["cosine"], warmup(cosine(_PEAK / 2, rewarmed, _LOW), 500)),
    )


#: The same as lines of text, by name.
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


def annealing() -> Inputs:
    """The curves of pre-training: 88 points."""
    steps = np.arange(1000, _PT_STEPS + 1, 1000)
    found = areas(list(_pretraining().values()), at=steps)
    # Until it anneals, a WSD run is the stable one.
    used = np.stack([steps > (0.8 * _PT_STEPS if name == "wsd" else 0) for name in _pretraining()])
    return {"S1": found.S1[used], "S2": found.S2[used]}


def stages() -> Inputs:
    """A constant rate, and falls to lower ones at step 8,000: at most one drop at a point."""
    steps = np.arange(500, 24_001, 500)
    base = constant(3e-4, 24_000)
    flat = areas(base, at=steps).S1
    parts = [np.stack([flat, np.zeros(len(flat)), np.full(len(flat), 3e-4), flat])]
    after = 8_000 + np.unique(np.geomspace(10, 16_000, 18).astype(int))
    for low in (2e-4, 9e-5, 3e-5, 3e-6):
        S1 = areas(two_stage(3e-4, low, 24_000, 8_000), at=after).S1
        since = S1 - 8_000 * 3e-4
        one = np.ones(len(S1))
        parts.append(np.stack([S1, (3e-4 - low) * one, low * one, since]))
    return dict(zip(("S1", "drop", "eta_k", "S_k"), np.concatenate(parts, axis=1), strict=True))


def continual(points: int = 20) -> Inputs:
    """Four continual curves: ``points`` steps each, from the 10th on in equal ratios."""
    steps = np.unique(np.geomspace(10, _CPT_STEPS, points).astype(int))
    found = phase_areas(list(_continued()), at=_PT_STEPS + steps)
    return {name: area.ravel() for name, area in found._asdict().items()}


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


def shift_alone() -> Inputs:
    """S1 of the continual curves: all that the shift depends on."""
    area = continual()["S1_cpt"]
    # Schedules that agree so far have the same areas but for rounding.
    return {"S1_cpt": area[np.unique(area.round(12), return_index=True)[1]]}


def replay(own: str, points: int = 20) -> Inputs:
    """Replay ratios r_pt of 0 to 0.8; r is r_pt (``own="pt"``) or r_cpt = 1 − r_pt."""
    before = both_phases()
    started = before["S1_cpt"] > 0
    before = {name: column[~started] for name, column in before.items()}
    after = _crossed(continual(points), "r", _SHARES)
    before["r"] = np.ones(len(before["S1_pt"]))
    runs = {name: np.concatenate([before[name], after[name]]) for name in before}
    return runs if own == "pt" else runs | {"r": np.round(1 - runs["r"], 12)}


def unknown_base(own: str | None) -> Inputs:
    """Two continual curves of one base, with nothing said of it: seen at many more steps.

    They warm up from a rate of 0, the last of the base (Wang 2025, App. G). At 20 steps a curve,
    fits to noisy losses stall where S1_pt and alpha run off.
    """
    rewarmed = _CPT_STEPS - 500
    shapes = wsd(_PEAK, rewarmed), constant(_PEAK / 2, rewarmed)
    runs = (warmup(shape, 500) for shape in shapes)
    at = np.unique(np.geomspace(10, _CPT_STEPS, 100 if own is None else 60).astype(int))
    found = pd.concat(
        [pd.DataFrame(areas_along(one, at, area_options(), alone="cpt")) for one in runs]
    )
    inputs = {name: found[name].to_numpy() for name in ("S1_cpt", "S2_cpt")}
    if own is None:
        return inputs
    inputs = _crossed(inputs, "r", _SHARES)
    return inputs if own == "pt" else inputs | {"r": np.round(1 - inputs["r"], 12)}


def _crossed(inputs: Inputs, name: str, values: tuple[float, ...]) -> Inputs:
    count, length = len(values), len(next(iter(inputs.values())))
    repeated = {key: np.tile(column, count) for key, column in inputs.items()}
    return repeated | {name: np.repeat(np.asarray(values, float), length)}


DESIGNS: Mapping[str, Callable[[], Inputs]] = {
    "annealing": annealing,
    "multi-power": stages,
    "cpt-curve": both_phases,
    "cpt-curve-exp": both_phases,
    "cpt-curve-power": both_phases,
    "cpt-curve-n": sizes,
    "cpt-curve-batch": batches,
    "shift": shift_alone,
    "shift-exp": shift_alone,
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
    "multi-power": {"L0": 3.040, "A": 0.525, "B": 363.788, "C": 2.066}
    | {"alpha": 0.508, "beta": 0.583, "gamma": 0.641},
    "cpt-curve": _CURVE,
    "cpt-curve-exp": _HIDDEN_PT | {"C1": 0.280, "C2": 0.263, "B": 0.276, "E": 3.0},
    "cpt-curve-power": _CURVE | {"zeta1": 0.9, "zeta2": 1.1},
    "cpt-curve-n": _CURVE
    | {"L0": 2.0, "C1": 0.0022, "C2": 0.0021, "F": 40.0}
    | {"gamma1": 0.26, "gamma2": 0.25, "gamma3": 0.2},
    "cpt-curve-batch": _CURVE | {"B_b": 0.31, "E_b": 40.0, "beta_b": 0.3},
    "shift": _SHIFT_PT,
    "shift-exp": {"B": 0.276, "E": 3.0},
    "cpt-curve-replay-pt": _HIDDEN_PT | {"C1": 0.280} | _SHIFT_PT | _REPLAY_PT,
    "cpt-curve-replay-cpt": _HIDDEN_CPT | {"C1": 0.285} | _SHIFT_CPT | _REPLAY_CPT,
    "cpt-curve-unknown-base": _HIDDEN_PT | {"C2": 0.263, "S1_pt": 1.0} | _SHIFT_PT,
    "cpt-curve-replay-pt-unknown-base": _HIDDEN_PT | {"S1_pt": 1.0} | _SHIFT_PT | _REPLAY_PT,
    "cpt-curve-replay-cpt-unknown-base": _HIDDEN_CPT | {"S1_pt": 1.0} | _SHIFT_CPT | _REPLAY_CPT,
}
