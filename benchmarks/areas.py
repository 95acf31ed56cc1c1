"""S1 and S2 of a schedule: `jaxlaw.areas` against numpy's cumsum and scipy's lfilter.

    python benchmarks/areas.py [1e4] [1e6] [1e8] [batch]     # all: some two minutes, 4 GB

Two baselines, both float64 on one core. "as defined": cumsum of the rates, lfilter of their
drops, cumsum of that. "one filter": the recurrence that jaxlaw found to be the same, one
cumsum and one lfilter; nobody would have to, but it is the fairer bar. A plain Python loop is
timed on 100,000 steps and scaled, the baselines on a tenth of the batch. Medians of repeats
that take turns, after a warm-up; compiling apart. "of a copy": the bytes of the rates and of
both areas over time, as a share of what `numpy.copyto` moves in the same run between arrays of
that size.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import sys
import time

import jax
import numpy as np
from scipy.signal import lfilter

import jaxlaw as jl
from jaxlaw import _areas as lr_areas

DECAY = 0.999
LOOP = 100_000


def as_defined(lr, at=None):
    momentum = lfilter([1.0], [1.0, -DECAY], -np.diff(lr, prepend=0.0))
    S1, S2 = np.cumsum(lr, axis=-1), np.cumsum(momentum, axis=-1)
    return (S1, S2) if at is None else (S1[..., at - 1], S2[..., at - 1])


def one_filter(lr, at=None):
    S1, S2 = np.cumsum(lr, axis=-1), lfilter([1.0], [1.0, -DECAY], -lr)
    return (S1, S2) if at is None else (S1[..., at - 1], S2[..., at - 1])


def ours(lr, at=None):
    return jl.areas(lr, DECAY, at=at)


def python_loop(lr):
    S1 = S2 = momentum = previous = 0.0
    forward, annealing = [], []
    for rate in lr.tolist():
        S1 += rate
        momentum = DECAY * momentum + (previous - rate)
        S2 += momentum
        previous = rate
        forward.append(S1)
        annealing.append(S2)
    return np.array(forward), np.array(annealing)


def seconds(call):
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def medians(calls, repeats):
    """Median seconds of each, taking turns so that other work on the machine hits all alike."""
    times = [[seconds(call) for call in calls] for _ in range(repeats)]
    return np.median(times, axis=0)


def copy_rate(steps, repeats):
    """Bytes a second that a copy moves, reads and writes counted."""
    source, target = np.random.rand(steps), np.empty(steps)
    np.copyto(target, source)
    return 16 * steps / medians([lambda: np.copyto(target, source)], repeats)[0]


def apart(found, expected):
    """Largest relative difference, piece by piece: no further arrays of full length."""
    worst = 0.0
    for one, other in zip(found, expected, strict=True):
        for first in range(0, one.shape[-1], 10**6):
            a, b = one[..., first : first + 10**6], other[..., first : first + 10**6]
            worst = max(worst, np.max(np.abs(a - b) / np.abs(b)))
    return worst


def row(name, calls, repeats, moved, copy, difference, compiling):
    mine, defined, filtered, loop = *medians(calls, repeats), LOOP_NS
    steps = moved[0]
    print(f"| {name} | {ns(mine, steps)} | {ns(defined, steps)} | {ns(filtered, steps)} "
          f"| {loop:.0f} | **{defined / mine:.1f}** | {filtered / mine:.1f} | {difference:.0e} "
          f"| {moved[1] / mine / copy:.0%} | {compiling:.1f} |", flush=True)  # fmt: skip


def ns(time_taken, steps):
    return f"{time_taken / steps * 1e9:.2f}"


def every_step(steps):
    lr = np.array(jl.schedules.warmup(jl.schedules.cosine(3e-4, steps - steps // 10), steps // 10))
    repeats = 101 if steps <= 10**5 else 15 if steps <= 10**6 else 3
    compiling = seconds(lambda: ours(lr))
    difference = apart(ours(lr), one_filter(lr))
    copy = copy_rate(steps, repeats)
    calls = [lambda: ours(lr), lambda: as_defined(lr), lambda: one_filter(lr)]
    row(f"{steps:.0e} steps", calls, repeats, (steps, 24 * steps), copy, difference, compiling)


def batch(schedules=10_000, steps=100_000, group=100):
    """All schedules at 100 steps each: whole areas would be 16 GB. Groups are made in between."""
    draw, at = np.random.default_rng(0), np.arange(1, 101) * (steps // 100)
    t = np.arange(1, steps + 1) / steps
    times, difference, compiling = np.zeros(3), 0.0, 0.0
    copy = copy_rate(group * steps, 3)
    for first in range(0, schedules, group):
        peak, final = draw.uniform(1e-4, 1e-3, (group, 1)), draw.uniform(0, 1e-4, (group, 1))
        lr = peak + (final - peak) * t
        if first == 0:
            compiling = seconds(lambda: ours(lr, at))  # noqa: B023
        contenders = (ours,) if first % (group * 10) else (ours, as_defined, one_filter)
        parts = []
        for k, contender in enumerate(contenders):
            begun = time.perf_counter()
            parts.append(contender(lr, at))
            times[k] += time.perf_counter() - begun
        if len(parts) > 1:
            difference = max(difference, apart(parts[0], parts[2]))
    times[1:] *= 10  # the baselines saw a tenth of the schedules
    total = schedules * steps
    mine, defined, filtered = times
    print(f"| {schedules:,} × {steps:.0e}, at 100 steps | {ns(mine, total)} "
          f"| {ns(defined, total)} | {ns(filtered, total)} | {LOOP_NS:.0f} "
          f"| **{defined / mine:.1f}** | {filtered / mine:.1f} | {difference:.0e} "
          f"| {8 * total / mine / copy:.0%} | {compiling:.1f} |", flush=True)  # fmt: skip


def main() -> None:
    global LOOP_NS
    chosen = sys.argv[1:] or ["1e4", "1e6", "1e8", "batch"]
    lr = np.random.default_rng(0).random(LOOP)
    LOOP_NS = medians([lambda: python_loop(lr)], 3)[0] / LOOP * 1e9
    print(f"{os.cpu_count()} CPU cores, {jax.default_backend()}, jax {jax.__version__}, "
          f"blocks of {lr_areas.BLOCK} rates\n")  # fmt: skip
    print("| | jaxlaw, ns a step | as defined | one filter | Python loop | as defined / jaxlaw "
          "| one filter / jaxlaw | difference | of a copy | compiling, s |\n"
          "|---|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    for one in chosen:
        batch() if one == "batch" else every_step(int(float(one)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\nAt most {peak:.1f} GiB of host memory, contenders and all.")


if __name__ == "__main__":
    main()
