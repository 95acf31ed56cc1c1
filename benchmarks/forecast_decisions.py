"""Decisions by a forecast of simulated runs: whether plans' intervals hold, and what to run next.

    python -m benchmarks.forecast_decisions [plans] [mixtures] [break-even] [next]

``plans``: best size at a budget, its loss, and the least compute to a loss. ``mixtures``: the
largest share a general loss allows. ``break-even``: from which tokens on training from scratch is
better. Each in three ways: draws as plans take them, with the laws' disagreement in full; with
half of it in the level of the loss, as in the forecast; with half of it in everything. ``next``:
a forecast made again with the runs that several rules choose for the same FLOPs. The sections
``Plans by a forecast`` and ``What to run next`` of forecast.md have the tables. Forecasts are made
without a prior: two of the truths are published laws, which the field knows.
"""

import dataclasses
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats
from scipy.optimize import brentq

import jaxlaw as jl
from benchmarks.forecast import KNOWN, TRUTHS
from jaxlaw._jit import in_float64, size_class
from jaxlaw.fitting import _problem
from jaxlaw.forecasting import Forecast
from jaxlaw.forecasting._calibration import OF_DISAGREEMENT
from jaxlaw.laws._weighted import SHIFT, weight_of
from jaxlaw.uncertainty import Draws, intervals

ONES = {"N": 1, "D": 1}
NOISES = (0.001, 0.003, 0.01)
LEVELS = (0.5, 0.8, 0.9, 0.95)
_ROWS = 64  # that every table is padded to
WAYS = ("as plans draw", "half of the level", "half of everything")

#: Forty runs on five budgets up to 1e20 FLOPs.
_C, _ratio = (
    v.ravel()
    for v in np.meshgrid(np.geomspace(1e18, 3e21, 8)[:5], np.geomspace(1 / 5, 5, 8), indexing="ij")
)
_N = np.sqrt(_C / 120) * _ratio
RUNS = pd.DataFrame({"N": _N, "D": _C / (6 * _N)})


def noisy(truth: Callable[..., Any], table: pd.DataFrame, noise: float, random: Any) -> Any:
    clean = truth(*(table[name].to_numpy() for name in table))
    return table.assign(loss=clean * np.exp(noise * random.standard_normal(len(table))))


def levels(found: Forecast, points: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Logs of what laws (K, m) and their resamples (K, R, m) say at points."""
    own, again = [], []
    with in_float64():
        for label, fit in found.fits.items():
            at = {name: np.asarray(points[name]) * fit.units[name] for name in fit.law.input_names}
            resampled = found.resamples[label]
            columns = {name: np.asarray(v, float)[:, None] for name, v in resampled.items()}
            own.append(np.log(np.asarray(fit.law.evaluate(fit.numbers(), **at))))
            again.append(np.log(np.asarray(fit.law.evaluate(columns, **at))))
    return np.stack(own), np.stack(again)


def in_ways(forecasts: list[Forecast]) -> Iterator[tuple[str, list[Draws]]]:
    """The draws of forecasts in three ways."""
    yield WAYS[0], [one.draws() for one in forecasts]
    moved, halves = [], []
    for one in forecasts:
        draws = one.draws()
        weights = {label: float(np.mean(values)) for label, values in one.weights.items()}
        said, _ = levels(one, one.table)
        off = (said - np.array([*weights.values()]) @ said).mean(axis=1)
        rest = (OF_DISAGREEMENT - 1) * off
        shift = draws.params[SHIFT] + sum(
            draws.params[weight_of(label)] * more for label, more in zip(weights, rest, strict=True)
        )
        moved.append(dataclasses.replace(draws, params={**draws.params, SHIFT: shift}))
        half = {
            weight_of(label): OF_DISAGREEMENT * draws.params[weight_of(label)]
            + (1 - OF_DISAGREEMENT) * weight
            for label, weight in weights.items()
        }
        halves.append(dataclasses.replace(draws, params={**draws.params, **half}))
    yield WAYS[1], moved
    yield WAYS[2], halves


def row(way: str, name: str, draws: Any, right: float, degrees: float, **more: Any) -> dict:
    """Whether intervals of draws hold the truth, their widths and scores."""
    drawn = np.clip(np.asarray(draws, float), -99.0, 99.0)
    found = {"way": way, "quantity": name, **more}
    for level in LEVELS:
        low, high = intervals({"": np.append(0.0, drawn)}, level, degrees)[""]
        missed = max(low - right, 0.0) + max(right - high, 0.0)
        found |= {f"in {level:.0%}": low <= right <= high, f"width {level:.0%}": high - low}
        found[f"score {level:.0%}"] = high - low + 2 / (1 - level) * missed
    return found


def best_size(truth: Callable[..., Any], budget: float) -> tuple[float, float]:
    """Log of the best size, and its loss, within a factor of 150 of 20 tokens a parameter."""
    log_N = np.log(np.sqrt(budget / 120)) + np.linspace(-5, 5, 100_001)
    loss = truth(np.exp(log_N), budget / 6 / np.exp(log_N))
    return float(log_N[loss.argmin()]), float(loss.min())


def plans(seeds: int = 9) -> pd.DataFrame:
    rows = []
    for seed in range(seeds):
        for k, (name, truth) in enumerate(TRUTHS.items()):
            random, noise = np.random.default_rng([7, k, seed]), NOISES[seed % 3]
            table = noisy(truth, RUNS, noise, random)
            N = np.sqrt(np.array([1e21, 1e22]) / 120)
            for budget, size in zip((1e21, 1e22), N, strict=True):
                at = {"N": [size], "D": [budget / 6 / size]}
                found = jl.forecast(None, table, at, units=ONES, prior=None)
                log_N, least = best_size(truth, budget)
                for way, (draws,) in in_ways([found]):
                    answer = jl.planning.allocation(draws, budget)
                    reach = jl.planning.min_compute(draws, least)
                    there = float(truth(answer.N, answer.D))
                    low, high = np.log(answer.flat["N"])
                    more = {"truth": name, "known": k < KNOWN, "budget": budget,
                            "regret": there / least - 1, "flat": low <= log_N <= high}  # fmt: skip
                    for what, drawn, right in (
                        ("size", answer.draws["N"], log_N),
                        ("loss", answer.draws["loss"], np.log(there)),
                        ("compute", reach.draws["compute"], np.log(budget)),
                    ):
                        rows.append(row(way, what, np.log(drawn), right, draws.degrees, **more))
    return pd.DataFrame(rows)


def _exponential(E: float, A: float, B: float, k: float, t: float) -> Callable[..., Any]:
    return lambda N, D, r: (E + A / N**0.4 + B / D**0.4) * (1 + k * np.exp(-t * r))


def _effective(E: float, A: float, B: float, b: float) -> Callable[..., Any]:
    return lambda N, D, r: E + A / N**0.45 + B / (D * (r + 0.03)) ** b


def _law(name: str, params: Mapping[str, float]) -> Callable[..., Any]:
    def truth(N: Any, D: Any, r: Any) -> np.ndarray:
        with in_float64():
            return np.asarray(jl.laws.get(name)(params, N=N, D=D, r=r))

    return truth


_DCPT, _L2 = jl.simulate.TRUTHS["dcpt"], jl.simulate.TRUTHS["dcpt-l2"]
#: Name → truths of the general and of the domain's loss: of the first two the laws have one each.
MIXTURES = {
    "dcpt": (_law("dcpt", jl.simulate.TRUTHS["dcpt-general"]), _law("dcpt", _DCPT)),
    "dcpt-l2": (_law("dcpt-l2", {**_L2, "E": 1.8, "C": 0.3, "gamma": 0.5}), _law("dcpt-l2", _L2)),
    "exponential in r":
        (_exponential(1.9, 0.7, 0.1, 0.25, 4), _exponential(0.9, 0.6, 0.15, 0.6, 3)),
    "tokens that count": (_effective(1.9, 0.7, 0.25, 0.25), _effective(0.9, 0.6, 0.4, 0.3)),
}  # fmt: skip


def mixtures(seeds: int = 6) -> pd.DataFrame:
    """Sixty runs of up to 2e9 parameters on 2e9 tokens; the mixture is of 6e9 on 6e9."""
    rows, axes = [], ([0.25, 0.5, 1.0, 2.0], [0.5, 1.0, 2.0], [0.1, 0.3, 0.5, 0.7, 0.9])
    design = (v.ravel() for v in np.meshgrid(*axes, indexing="ij"))
    design = pd.DataFrame(dict(zip(("N", "D", "r"), design, strict=True)))
    at = {"N": 6.0, "D": 6.0}
    for seed in range(seeds):
        share, noise = (0.5, 0.7, 0.85)[seed % 3], (0.002, 0.006)[seed % 2]
        for k, (name, (general, domain)) in enumerate(MIXTURES.items()):
            random = np.random.default_rng([9, k, seed])
            found = []
            for truth, own in ((general, 1 - share), (domain, share)):
                table = noisy(truth, design, noise, random)
                points = {"N": [6.0], "D": [6.0], "r": [own]}
                found.append(jl.forecast(None, table, points, units={"N": 1e9, "D": 1e9},
                                         prior=None))  # fmt: skip
            limit, right = float(general(6.0, 6.0, 1 - share)), float(domain(6.0, 6.0, share))
            for way, both in in_ways(found):
                answer = jl.planning.optimal_mixture(*both, start=limit, threshold=0.0, at=at)
                low, high = answer.flat.get("share", (np.nan, np.nan))
                more = {"truth": name, "known": k < 2, "error": answer.share - share,
                        "flat": low <= share <= high}  # fmt: skip
                for what, value in (("share", share), ("domain_loss", right)):
                    drawn = answer.draws[what]
                    rows.append(row(way, what, drawn, value, both[0].degrees, **more))
    return pd.DataFrame(rows)


def break_even(seeds: int = 6) -> pd.DataFrame:
    """Continued training begins 2e10 tokens ahead, and stays 0.4 % worse: 3e9 parameters."""
    rows, N = [], 3e9
    for seed in range(seeds):
        for k, (name, truth) in enumerate(TRUTHS.items()):
            random, noise = np.random.default_rng([13, k, seed]), NOISES[seed % 3]

            def continued(N: Any, D: Any, truth: Callable = truth) -> Any:
                return 1.004 * truth(N, D + 2e10)

            def gap(log_D: float, continued=continued, truth=truth) -> float:
                return float(np.log(continued(N, np.exp(log_D)) / truth(N, np.exp(log_D))))

            right = brentq(gap, np.log(3e10), np.log(1e14))
            found = [
                jl.forecast(None, noisy(one, RUNS, noise, random), {"N": [N], "D": [2e11]},
                            units=ONES, prior=None)
                for one in (truth, continued)
            ]  # fmt: skip
            for way, both in in_ways(found):
                drawn = np.asarray(jl.planning.break_even(*both, N=N).draws["D"], float)
                drawn = np.log(np.maximum(drawn, 1.0))
                rows.append(row(way, "tokens", drawn, right, both[0].degrees, truth=name,
                                known=k < KNOWN))  # fmt: skip
    return pd.DataFrame(rows)


# What to run next.


TARGET = 1e22  # FLOPs of the run that is forecast
BUDGET = 1e21  # FLOPs that may be spent before
_C, _ratio = (
    v.ravel()
    for v in np.meshgrid([1e19, 3e19, 1e20, 3e20, 1e21], [1 / 4, 1 / 2, 1, 2, 4], indexing="ij")
)
_N = np.sqrt(_C / 120) * _ratio
CANDIDATES = pd.DataFrame({"N": _N, "D": _C / 6 / _N})
COST = _C
AT = {"N": [np.sqrt(TARGET / 120)], "D": [TARGET / 6 / np.sqrt(TARGET / 120)]}


def expected_left(found: Forecast, largest: float) -> Callable[[list[int]], float]:
    """Candidates → expected variance of the forecast once they are run: preposterior analysis.

    Each law is normal, by its resamples and the common error; outcomes are drawn of the weighted
    laws, and weigh them anew (Lindley 1956; Box and Hill 1967; Chaloner and Verdinelli 1995, §2).
    The common error is correlated so that a run at a distance leaves of it what a forecast from
    there would have.
    """
    points = pd.concat([CANDIDATES, pd.DataFrame(AT)], ignore_index=True)
    columns = {name: points[name].to_numpy() for name in points}
    weights = np.array([found.weights[label][0] for label in found.fits])
    errors = {name: float(values[0]) for name, values in found.error_model.items()}
    distance = np.log(np.maximum(6 * points.N * points.D / largest, 1)).to_numpy()
    low, high = np.minimum.outer(distance, distance), np.maximum.outer(distance, distance)
    common = errors["per_e_fold"] ** 2 * errors["degrees"] / (errors["degrees"] - 2)
    common = common * low * np.sqrt(low * (2 * high - low))
    means, again = levels(found, columns)
    spread = np.stack([np.cov(one.T) + common for one in again])
    among = weights @ (means - weights @ means) ** 2
    scale = errors["per_e_fold"] ** 2 * distance**2 + among / 4
    noise = errors["noise"] ** 2 + errors["scatter"] * scale
    target, laws = means[:, -1], range(len(weights))

    def left(rows: list[int]) -> float:
        if not rows:
            return float(weights @ (spread[:, -1, -1] + (target - weights @ target) ** 2))
        seen = spread[:, rows][:, :, rows] + np.diag(noise[rows])
        factor, inverse = np.linalg.cholesky(seen), np.linalg.inv(seen)
        gain = np.einsum("kij,kj->ki", inverse, spread[:, rows, -1])
        after = spread[:, -1, -1] - np.einsum("ki,ki->k", gain, spread[:, rows, -1])
        sample = stats.qmc.Sobol(len(rows), rng=0).random(64)
        normal, total = stats.norm.ppf(np.clip(sample, 1e-6, 1 - 1e-6)), 0.0
        for true in laws:
            missed = (means[true, rows] + normal @ factor[true].T)[None] - means[:, None, rows]
            score = np.log(weights) - np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
            score = score[:, None] - 0.5 * np.einsum("kni,kij,knj->kn", missed, inverse, missed)
            share = special.softmax(score, axis=0)
            says = target[:, None] + np.einsum("kni,ki->kn", missed, gain)
            off = after[:, None] + (says - (share * says).sum(axis=0)) ** 2
            total += weights[true] * (share * off).sum(axis=0).mean()
        return float(total)

    return left


def chosen(left: Callable[[list[int]], float]) -> list[int]:
    """The better of two greedy sets for the budget, by gain and by gain per FLOP."""
    found = []
    for price in (np.ones(len(COST)), COST):
        rows: list[int] = []
        while len(rows) < 10 and (more := affordable(rows)):
            now = left(rows)
            rows.append(max(more, key=lambda i: (now - left([*rows, i])) / price[i]))
        found.append(rows)
    return min(found, key=left)


def affordable(rows: list[int]) -> list[int]:
    spare = BUDGET * (1 + 1e-9) - COST[rows].sum()
    return [i for i in range(len(COST)) if i not in rows and COST[i] <= spare]


def at_random(random: np.random.Generator) -> list[int]:
    rows: list[int] = []
    while more := affordable(rows):
        rows.append(int(random.choice(more)))
    return rows


def next_runs(seeds: int = 4) -> pd.DataFrame:
    rows = []
    for seed in range(seeds):
        for k, (name, truth) in enumerate(TRUTHS.items()):
            random, noise = np.random.default_rng([11, k, seed]), (0.003, 0.01)[seed % 2]
            table, made = (noisy(truth, one, noise, random) for one in (RUNS, CANDIDATES))
            right = float(np.log(truth(AT["N"][0], AT["D"][0])))
            seen = right + noise * stats.norm.ppf((np.arange(9) + 0.5) / 9)
            first = jl.forecast(None, table, AT, units=ONES, prior=None)
            heaviest = max(first.weights, key=lambda label: first.weights[label][0])
            far = {name: value[0] for name, value in AT.items()}
            one_law = jl.design.next_runs(
                jl.fit(heaviest, table, units=ONES), table, CANDIDATES,
                predict=far, cost=COST, budget=BUDGET,
            )  # fmt: skip
            largest = float((6 * table.N * table.D).max())
            rules = {
                "none": [],
                "at random": at_random(random),
                "at random, again": at_random(random),
                "`next_runs` of the heaviest law": [int(i) for i in one_law.table.index],
                "three of 3e20": [16, 17, 18],
                "the largest, at the target's D/N": [22],
                "least variance expected": chosen(expected_left(first, largest)),
            }
            known: dict[tuple[int, ...], dict[str, float]] = {}
            for rule, picked in rules.items():
                key = tuple(sorted(picked))
                if key not in known:
                    more = made.iloc[list(key)]
                    again = jl.forecast(None, pd.concat([table, more]), AT, units=ONES, prior=None)
                    of = again.table.iloc[0]
                    low, high = np.log(of["low"]), np.log(of["high"])
                    missed = np.maximum(low - seen, 0) + np.maximum(seen - high, 0)
                    known[key] = {
                        "error": abs(float(np.log(of["estimate"])) - right),
                        "in 90%": float(((low <= seen) & (seen <= high)).mean()),
                        "width": high - low,
                        "score": float((high - low + 20 * missed).mean()),
                    }
                rows.append({"truth": name, "known": k < KNOWN, "seed": seed, "rule": rule,
                             "runs": len(picked), "same": key == (22,), **known[key]})  # fmt: skip
    return pd.DataFrame(rows)


def shown(table: pd.DataFrame, *keys: str) -> None:
    """Shares inside and scores as means, widths as medians."""
    grouped = table.groupby(list(keys), sort=False)
    inside = [name for name in table if name.startswith(("in ", "flat", "same"))]
    other = [
        n for n in ("score 90%", "score 95%", "regret", "error", "score", "runs") if n in table
    ]
    widths = [name for name in ("width 90%", "width 95%", "width") if name in table]
    parts = [grouped[inside].mean(), grouped[widths].median(), grouped[other].mean()]
    print(pd.concat([*parts, grouped.size().rename("count")], axis=1).round(4).to_string(), "\n")


def main() -> None:
    warnings.simplefilter("ignore")
    # All tables are padded to one length, so that each law is compiled once for all of them.
    _problem.size_class = lambda rows, width=1: max(size_class(rows, width), _ROWS)
    made = {"plans": plans, "mixtures": mixtures, "break-even": break_even, "next": next_runs}
    for part in sys.argv[1:] or made:
        table = made[part]()
        keys = ("rule",) if part == "next" else ("quantity", "way")
        shown(table, *keys)
        shown(table, *keys, "known")
        shown(table if part == "next" else table[table.way == WAYS[0]], *keys, "truth")


if __name__ == "__main__":
    main()
