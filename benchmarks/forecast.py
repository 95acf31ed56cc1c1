"""Forecasts of real runs that were held out: how often intervals hold, how wide, how wrong.

    JAXLAW_DATA=… python -m benchmarks.forecast [--keep FILE] [--constants] [set …]

For each set three cut-offs (fewer of loss curves and simulated runs): laws see the runs below and
forecast those beyond (40 of them where there are more), with the default prior, of all sources but
the set's own. Beside the forecast stand, without a prior, the forecast; (a) the law that fits the
runs below best, with the interval of its mean from resamples; (b) the same law with the scatter of
its residuals on top; (c) chinchilla alone as (b). All numbers are relative (logs of ratios), those
of a set are means over its cut-offs. ``--keep`` goes on where an earlier call stopped;
``--constants`` halves and doubles each constant of the prior width.
"""

import argparse
import os
import pickle
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxlaw.forecasting._cutoffs import fit_resamples

from benchmarks.curves import curves_of
from jaxlaw._jit import size_class
from jaxlaw.fitting import _problem, field_prior
from jaxlaw.forecasting import Forecast, _forecast
from jaxlaw.forecasting import _calibration as calibration
from jaxlaw.forecasting._backtest import fit_at_cutoffs

ONES = {"N": 1, "D": 1}
_ROWS = 448  # that every table is padded to
_POINTS = 40  # held-out runs that are scored at one cut-off, at most
Z90, Z50 = 1.6449, 0.6745
CONSTANTS = (
    "PER_E_FOLD", "OF_RESIDUALS", "OF_DISAGREEMENT", "PRIOR_CUTOFFS", "PRIOR_MEAN_CUTOFFS", "FADES",
    "EVEN", "SCATTER", "SCATTER_RUNS",
)  # fmt: skip


#: Start of a set's, an experiment's or a truth's name → its source in the library of the field. The
#: numbers of two of the simulated truths are Hoffmann's own, changed, and one law is Farseer's.
SOURCES = {"farseer": "stepfun", "step_law": "stepfun", "loss_to_loss": "kempner",
           "chinchilla": "hoffmann", "data_constrained": "datablations", "epochai": "hoffmann",
           "ml": "hoffmann", "llama": "llama", "marin": "marin", "misfitting": "misfitting",
           "broken power": "hoffmann", "worse tuned": "hoffmann"}  # fmt: skip


class Case(NamedTuple):
    """A table, and what it is cut along: rows up to the cut-off are seen, the others forecast."""

    data: str
    name: str
    table: pd.DataFrame
    along: str
    cutoff: float
    inputs: tuple[str, ...] = ("N", "D")

    @property
    def source(self) -> tuple[str, ...]:
        """Its source in the library of the field, if it is there."""
        both = (self.data, self.name)
        known = [of for start, of in SOURCES.items() if any(n.startswith(start) for n in both)]
        return (known[0],) if known else ()


def read(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(os.environ["JAXLAW_DATA"]) / f"{name}.csv")


def beyond_levels(table: pd.DataFrame, along: str, budgets: pd.Series, numbers: Any) -> list[float]:
    """The largest value up to each of some budgets, counted from the last."""
    levels = np.sort(budgets.unique())
    return [float(table[along][budgets <= levels[k]].max()) for k in numbers]


def cases() -> Iterator[Case]:
    f = read("farseer").assign(C=lambda t: 6.0 * t.N * t.D)
    for cut in (1e9, 2.5e9, 6.4e9):
        yield Case("farseer", "sizes", f, "N", cut)
    for cut in (3e20, 1e21, 2.5e21):
        yield Case("farseer", "compute", f, "C", cut)
    table = read("isoflops")
    table = table[~table.outlier]
    for experiment, rows in table.groupby("experiment"):
        t = pd.DataFrame({"N": rows.params, "D": rows.tokens, "loss": rows.loss})
        t["C"] = 6.0 * t.N * t.D
        many = rows.budget.nunique() > 10
        for cut in beyond_levels(t, "C", rows.budget, (-7, -5, -3) if many else (-4, -3, -2)):
            yield Case("isoflops", experiment.split("__")[0] + "/" + experiment.split("__")[1], t,
                       "C", cut)  # fmt: skip
    for corpus, rows in read("loss_to_loss").groupby("data"):
        t = pd.DataFrame({"N": rows.params, "D": rows.tokens, "loss": rows.c4_val_loss})
        t["C"] = 6.0 * t.N * t.D
        for cut in beyond_levels(t, "C", rows.iso_flop, (-4, -3, -2)):
            yield Case("loss_to_loss", corpus, t, "C", cut)
    t = read("chinchilla_points").rename(columns={"n_params": "N", "n_tokens": "D"})
    t = t[t.excluded_in_paper_fit == 0].assign(C=lambda t: 6.0 * t.N * t.D)
    for cut in (8e19, 3e20, 1e21):
        yield Case("chinchilla_points", "", t, "C", cut)
    t = read("data_constrained").rename(columns={"params": "N", "tokens": "D"})
    t = t.rename(columns={"unique_tokens": "U"}).assign(C=lambda t: 6.0 * t.N * t.D)
    for cut in (5e19, 2e20, 9e20):
        yield Case("data_constrained", "", t, "C", cut, ("N", "D", "U"))
    t = read("step_law_dense").groupby(["N", "D"], as_index=False).loss.min()
    t = t.assign(C=lambda t: 6.0 * t.N * t.D)
    for count in (9, 11, 13):
        yield Case("step_law", "best of each cell", t, "C", float(np.sort(t.C)[count - 1]))
    t = read("finetune_transfer").rename(columns={"n_finetune_samples": "Df"})
    for corpus, of_corpus in t.groupby("dataset"):
        for model in sorted(of_corpus.model.unique())[::10]:
            rows = of_corpus[of_corpus.model == model]
            for cut in (25600, 102400, 409600):
                yield Case("finetune_transfer", f"{corpus} {model}", rows, "Df", cut, ("Df",))
    t = read("slimpajama_mixtures")
    t = pd.DataFrame({"N": t.n_params, "D": t.n_tokens, "r": t.weight_c4, "loss": t.c4_loss})
    # Two of the eleven checkpoints of every run: the fifth and the last.
    t = t[t.groupby("N").D.rank("dense").isin((5, 11))].dropna()
    for cut in (6.8e8, 9.37e8, 1.235e9):
        yield Case("slimpajama", "c4", t, "N", cut, ("N", "D", "r"))
    yield from curves()
    yield from simulated()


def curves() -> Iterator[Case]:
    """Loss curves, every fourth point: the rest of each from its first 40 %; schedules unseen."""
    for size in (25, 100, 400):
        t = curves_of(size).runs().table
        t = t[t.groupby("run").cumcount() % 4 == 0]
        t = t.assign(unseen=np.where(t.split == "fit", 1.0, 2.0))
        yield Case("lr_loss_curves", f"{size} M, six schedules", t, "unseen", 1.0, ("S1", "S2"))
        for run, rows in t.groupby("run") if size == 25 else ():
            cutoff = float(0.4 * rows.step.max())
            yield Case("lr_loss_curves", f"{size} M, {run}", rows, "step", cutoff, ("S1", "S2"))


def chinchilla(N: np.ndarray, D: np.ndarray) -> np.ndarray:
    return 1.69 + 406.4 * N**-0.34 + 410.7 * D**-0.28


def farseer(N: np.ndarray, D: np.ndarray) -> np.ndarray:
    b, a = np.exp(230.73 * N**-0.1729 - 1.5442), np.exp(-1.6656 * N**0.0459 + 3.1333)
    return np.exp(-0.06247 * N**0.13 + 0.1285) + b * D**-a


#: Name → truth: of the first three the default laws have one each, of the others none.
TRUTHS = {
    "chinchilla": chinchilla,
    "skaling": lambda N, D: 0.6 + (60 * N**-0.2 + 40 * D**-0.19) ** 0.6,
    "farseer": farseer,
    "broken power":
        lambda N, D: 1.69 + 406.4 * N**-0.34 + 410.7 * D**-0.28 * (1 + D / 2e10) ** -0.1,
    "two terms of N": lambda N, D: 1.2 + 4000 * N**-0.5 + 12 * N**-0.15 + 900 * D**-0.33,
    "worse tuned as it grows":
        lambda N, D: chinchilla(N, D) * (1 + 0.004 * np.maximum(np.log(6 * N * D / 1e19), 0)),
}  # fmt: skip
KNOWN = 3
#: Notes that say not to bet on an interval.
DOUBTS = {"few-rows", "prior-width", "intervals-failed", "mixed-runs", "unseen-input"}


def simulated() -> Iterator[Case]:
    """Eight budgets of eight sizes, 1e18 to 3e21 FLOPs: the lower five are seen."""
    budgets = np.geomspace(1e18, 3e21, 8)
    C, ratio = (v.ravel() for v in np.meshgrid(budgets, np.geomspace(1 / 5, 5, 8), indexing="ij"))
    N = np.sqrt(C / 120) * ratio
    t = pd.DataFrame({"N": N, "D": C / (6 * N), "C": C})
    for k, (name, truth) in enumerate(TRUTHS.items()):
        for seed, noise in enumerate((0.001, 0.003, 0.01)):
            random = np.random.default_rng([k, seed])
            loss = truth(t.N, t.D) * np.exp(noise * random.standard_normal(len(t)))
            data = "simulated, known law" if k < KNOWN else "simulated, no such law"
            cutoff = float(budgets[4]) * 1.01
            yield Case(data, f"{name} {noise:.1%}", t.assign(loss=loss), "C", cutoff)


def names_of(case: Case) -> list[str]:
    """Inputs, and what the table is cut along if that is none."""
    return [*dict.fromkeys([*case.inputs, *([] if case.along == "C" else [case.along])])]


def forecast(case: Case, prior: Any = None) -> dict[str, Any]:
    """Fits of the runs up to the cut-off; what is held out."""
    below = case.table[case.table[case.along] <= case.cutoff]
    rest = case.table[case.table[case.along] > case.cutoff].sort_values(case.along)
    rest = rest.iloc[np.unique(np.linspace(0, len(rest) - 1, _POINTS).round().astype(int))]
    along = "compute" if case.along == "C" else case.along
    table = below[[*names_of(case), "loss"]]
    units = {name: 1 for name in case.inputs if name in ONES}
    options = {"units": units, "prior": prior}
    at_cutoffs = fit_at_cutoffs(None, table, along, 6, None, None, options, needed=False)
    refits = {c.label: fit_resamples(at_cutoffs, c.label, 16, 0) for c in at_cutoffs.candidates}
    return {"at_cutoffs": at_cutoffs, "refits": refits, "along": along, "rest": rest}


def made(case: Case, fits: dict[str, Any], rest: pd.DataFrame) -> Forecast:
    """The forecast of the runs held out."""
    points = {name: rest[name].to_numpy(float) for name in names_of(case)}
    return _forecast.make_forecast(
        fits["at_cutoffs"], fits["refits"], points, level=0.9, along=fits["along"]
    )


def relative(found: Forecast, observed: np.ndarray) -> tuple[np.ndarray, ...]:
    """Logs of observed, low, high, and low and high of 50 %, over the estimate."""
    estimate = np.log(found.table["estimate"])
    limits = (found.table["low"], found.table["high"], *found.interval(0.5))
    return observed - estimate, *(np.log(v) - estimate for v in limits)


def scored(case: Case, fits: dict[str, Any], by_field: dict[str, Any]) -> dict[str, Any]:
    """Log of observed over estimate, and half widths, of the forecast and of its rivals.

    Args:
        case: the table and its cut-off.
        fits, by_field: what :func:`forecast` gives without a prior and with the field's.
    """
    points = {name: fits["rest"][name].to_numpy(float) for name in case.inputs}
    found = made(case, fits, fits["rest"])
    known = made(case, by_field, fits["rest"])
    observed = np.log(fits["rest"].loss.to_numpy())
    table = known.table
    rows = {"forecast": relative(known, observed), "without": relative(found, observed)}
    residual, errors = {}, {}
    at_cutoffs = fits["at_cutoffs"]
    active = at_cutoffs.weight > 0
    for label, fit in found.fits.items():
        predicted = np.log(fit.predict({name: points[name] for name in fit.law.input_names}))
        errors[label] = observed - predicted
        inside = np.log(at_cutoffs.observed) - np.log(at_cutoffs.predicted[label][-1])
        free = len(fit.law.parameter_names)
        residual[label] = np.sqrt((inside[active] ** 2).sum() / max(active.sum() - free, 1))
        draws = fits["refits"][label].predict(**{
            name: points[name] * fit.units[name] for name in fit.law.input_names
        })[-16:]  # fmt: skip
        spread = np.nanstd(np.log(draws), axis=0, ddof=1)
        wide = np.sqrt(spread**2 + residual[label] ** 2)
        for name, size in (("mean", spread), ("residuals", wide)):
            rows[f"{label}: {name}"] = (
                errors[label], -Z90 * size, Z90 * size, -Z50 * size, Z50 * size,
            )  # fmt: skip
    best = min(residual, key=residual.get)
    return {
        "case": (case.data, case.name, case.along, case.cutoff),
        "cutoffs": len(at_cutoffs.cutoffs),
        "runs": int(active.sum()),
        "distance": float(np.median(table.distance)),
        "laws": float(np.median(np.abs(observed - np.log(table.laws)))),
        "hindsight": min(float(np.median(np.abs(e))) for e in errors.values()),
        "weights": {label: float(w.mean()) for label, w in known.weights.items()},
        "held": known.backtest_coverage,
        "notes": sorted({note.code for note in known.notes}),
        "forecast": measures(rows["forecast"]),
        "forecast without a prior": measures(rows["without"]),
        "(a) best fit, interval of the mean": measures(rows[f"{best}: mean"]),
        "(b) best fit, with residuals": measures(rows[f"{best}: residuals"]),
        "(c) chinchilla, with residuals":
            measures(rows["chinchilla: residuals"]) if "chinchilla" in errors else None,
    }  # fmt: skip


def measures(row: tuple[np.ndarray, ...]) -> dict[str, float]:
    """Shares inside 90 % and 50 %, Winkler score of 90 %, width, error and bias."""
    error, low, high, low50, high50 = (np.asarray(one, float) for one in row)
    missed = np.maximum(low - error, 0) + np.maximum(error - high, 0)
    return {
        "in90": float(((error >= low) & (error <= high)).mean()),
        "in50": float(((error >= low50) & (error <= high50)).mean()),
        "winkler": float((high - low + 2 / 0.1 * missed).mean()),
        "width": float(np.median(high - low)),
        "error": float(np.median(np.abs(error))),
        "bias": float(error.mean()),
    }


WAYS = ("forecast", "forecast without a prior", "(a) best fit, interval of the mean",
        "(b) best fit, with residuals", "(c) chinchilla, with residuals")  # fmt: skip


def report(results: list[dict[str, Any]]) -> None:
    sets = list(dict.fromkeys(one["case"][0] for one in results))
    print("| set | cut-offs | way | in 90 % | in 50 % | Winkler | width | median error | bias |")
    print("|---|---|---|---|---|---|---|---|---|")
    means: dict[str, list[dict[str, float]]] = {}
    for data in sets:
        rows = [one for one in results if one["case"][0] == data]
        for way in WAYS:
            found = [one[way] for one in rows if one[way]]
            if not found:
                continue
            mean = {name: float(np.mean([m[name] for m in found])) for name in found[0]}
            means.setdefault(way, []).append(mean)
            print(line(data if way == "forecast" else "", len(found), way, mean))
    for way, found in means.items():
        mean = {name: float(np.mean([m[name] for m in found])) for name in found[0]}
        print(line("**all sets**", len(found), way, mean))
    print("\n| set | interval score without | with | ratio | in 90 % without | with "
          "| width without | with | median error without | with |")  # fmt: skip
    print("|" + "---|" * 10)
    both = list(zip(sets, means[WAYS[1]], means[WAYS[0]], strict=True))
    all_sets = [pd.DataFrame(means[way]).mean().to_dict() for way in (WAYS[1], WAYS[0])]
    for data, free, known in [*both, ("**mean**", *all_sets)]:
        of_each = (f"{free[name]:{form}} | {known[name]:{form}}" for name, form in
                   (("in90", ".0%"), ("width", ".2%"), ("error", ".2%")))  # fmt: skip
        print(f"| {data} | {free['winkler']:.2%} | {known['winkler']:.2%} "
              f"| {known['winkler'] / free['winkler']:.2f} | {' | '.join(of_each)} |")  # fmt: skip
    ratios = [known["winkler"] / free["winkler"] for _, free, known in both]
    print(f"\nratio of scores, geometric mean over sets: {np.exp(np.mean(np.log(ratios))):.3f}")
    for noted, label in ((False, "no note in doubt"), (True, "notes in doubt")):
        of = [one["forecast"]["in90"] for one in results if bool({*one["notes"]} & DOUBTS) == noted]
        if of:
            low = sum(share < 0.5 for share in of)
            print(f"\n{label}: {len(of)} cut-offs, in 90 % {np.mean(of):.0%}, "
                  f"of which {low} held less than half")  # fmt: skip
    print("\n| set | least in 90 % of a cut-off | weighted laws' error | best law in hindsight |"
          " back-test's cut-offs | weights |")  # fmt: skip
    print("|---|---|---|---|---|---|")
    for data in sets:
        rows = [one for one in results if one["case"][0] == data]
        weights = pd.DataFrame([one["weights"] for one in rows]).mean().sort_values()[::-1]
        print(
            f"| {data} | {min(one['forecast']['in90'] for one in rows):.0%} "
            f"| {np.mean([one['laws'] for one in rows]):.2%} "
            f"| {np.mean([one['hindsight'] for one in rows]):.2%} "
            f"| {min(one['cutoffs'] for one in rows)} to {max(one['cutoffs'] for one in rows)} "
            f"| {', '.join(f'{law} {w:.2f}' for law, w in weights.items() if w > 0.05)} |"
        )


def line(data: str, count: int, way: str, mean: dict[str, float]) -> str:
    return (
        f"| {data} | {count} | {way} | {mean['in90']:.0%} | {mean['in50']:.0%} "
        f"| {mean['winkler']:.2%} | {mean['width']:.2%} | {mean['error']:.2%} "
        f"| {mean['bias']:+.2%} |"
    )


def constants(kept: list[tuple[Case, dict[str, Any]]]) -> None:
    """Each constant of the prior halved and doubled; then the best by all other sets.

    Of every case four runs held out, and what does not depend on the constants is worked out once.
    """
    settings = [(None, 1.0)] + [(name, factor) for name in CONSTANTS for factor in (0.5, 2.0)]
    worked_out, known = _forecast._errors, {}

    def errors(at_cutoffs: Any, *rest: Any) -> Any:
        if id(at_cutoffs) not in known:
            known[id(at_cutoffs)] = worked_out(at_cutoffs, *rest)
        return known[id(at_cutoffs)]

    _forecast._errors = errors
    _forecast.backtest_coverage = lambda errors, *_: np.full(len(errors), np.nan)
    tables = {}
    for name, factor in settings:
        before = getattr(calibration, name) if name else None
        if name:
            setattr(calibration, name, before * factor)
        found: dict[str, list[dict[str, float]]] = {}
        for case, fits in kept:
            few = np.unique(np.linspace(0, len(fits["rest"]) - 1, 4).round().astype(int))
            rest = fits["rest"].iloc[few]
            one = made(case, fits, rest)
            observed = np.log(rest.loss.to_numpy())
            found.setdefault(case.data, []).append(measures(relative(one, observed)))
        if name:
            setattr(calibration, name, before)
        tables[name, factor] = {
            data: (np.mean([m["in90"] for m in ms]), np.mean([np.log(m["winkler"]) for m in ms]))
            for data, ms in found.items()
        }
    print("\n| constant | × | in 90 %, all sets | lowest set | Winkler, geometric mean |")
    print("|---|---|---|---|---|")
    for (name, factor), of_sets in tables.items():
        inside = [one[0] for one in of_sets.values()]
        print(f"| {name or 'as they are'} | {factor:g} | {np.mean(inside):.0%} | {min(inside):.0%} "
              f"| {np.exp(np.mean([one[1] for one in of_sets.values()])):.2%} |")  # fmt: skip
    print("\n| set left out | best setting by the others | in 90 % of the set left out |")
    print("|---|---|---|")
    for data in next(iter(tables.values())):
        best = min(tables, key=lambda s: np.mean([v[1] for d, v in tables[s].items() if d != data]))
        print(
            f"| {data} | {best[0] or 'as they are'} × {best[1]:g} | {tables[best][data][0]:.0%} |"
        )


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--keep", type=Path)
    arguments.add_argument("--constants", action="store_true")
    arguments.add_argument("sets", nargs="*")
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    # All tables are padded to one length, with rows of weight 0: fits are the same, and each law is
    # compiled once for all of them.
    _problem.size_class = lambda rows, width=1: max(size_class(rows, width), _ROWS)
    kept: dict[Any, tuple[Case, dict[str, Any], dict[str, Any]]] = {}
    results = []
    if given.keep and given.keep.exists():
        kept = pickle.loads(given.keep.read_bytes())
    for case in cases():
        if given.sets and case.data not in given.sets:
            continue
        key, begun = (case.data, case.name, case.along, case.cutoff), time.perf_counter()
        if key not in kept:
            fits = forecast(case)
            # Of other inputs than size and tokens the field says nothing: the forecast is the same.
            known = {"N", "D"} <= {*case.inputs} and "r" not in case.inputs
            by_field = forecast(case, field_prior(without=case.source)) if known else fits
            kept[key] = (case, fits, by_field)
            if given.keep:
                given.keep.write_bytes(pickle.dumps(kept))
        results.append(scored(*kept[key]))
        one = results[-1]
        print(f"{' '.join(map(str, key))}: {one['runs']} runs, {one['cutoffs']} cut-offs, "
              f"×{np.exp(one['distance']):.3g}, in 90 % {one['forecast']['in90']:.0%}, error "
              f"{one['forecast']['error']:.2%}, {time.perf_counter() - begun:.0f} s",
              file=sys.stderr, flush=True)  # fmt: skip
    report(results)
    if given.constants:
        # Those of forecasts without a prior, on which they were set.
        constants([kept[one["case"]][:2] for one in results])


if __name__ == "__main__":
    main()
