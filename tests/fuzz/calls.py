"""Sound calls of public functions, and values that have no business in their arguments.

Each argument in turn is replaced by each of ``VALUES``.
"""

from __future__ import annotations

import datetime
import decimal
import inspect
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

import jaxlaw as jl
from jaxlaw import design, folds, papers, planning, schedules, simulate
from jaxlaw.schedules import constant, cosine

MODULES = {"": jl, "papers.": papers, "planning.": planning, "folds.": folds, "design.": design,
           "schedules.": schedules, "simulate.": simulate}  # fmt: skip
#: For users too, of packages whose other functions are what packages take from each other.
ALSO = {"data": ["join_scores", "learnability_coefficients", "phase_areas"],
        "fitting": ["observed_shift"],
        "laws": ["exponent", "positive", "real"]}  # fmt: skip
#: They register what they are given, or are what answers are made with.
LEFT_OUT = {
    "law", "planning.checked_number",
    "planning.few_resamples_notes", "planning.interval_columns", "planning.measured",
}  # fmt: skip

VALUES: list[Any] = [
    None, True, 0, -1, 1, 2.5, -0.0, float("nan"), float("inf"), -float("inf"), 1e308, 5e-324,
    10**400,
    1j, "", "7B", "1e9 tokens", "nan", "x", "é\0", b"x", [], [1.0], ["x"], [None], [[1.0], [1.0,
    2.0]],
    (1, 2), (), {}, {"x": 1}, {"N": "x"}, {1: 2}, {"N", "D"}, object(), len, int, range(3),
    np.array([]), np.array([np.nan]), np.array("x"), np.ones((2, 2)), np.array([1, "x"], object),
    pd.DataFrame(), pd.DataFrame({"N": [1.0], "loss": ["x"]}), pd.Series([1.0]), pd.NaT, pd.NA,
    pd.Timestamp("2024-01-01"), datetime.timedelta(1), decimal.Decimal("NaN"), iter(()), 3.7e9,
]  # fmt: skip

_TRUTHS = simulate.TRUTHS
_CURVE = {"N": [1e9] * 3, "D": [1e9, 2e9, 4e9], "loss": [3.0, 2.8, 2.7]}
_TRANSFERS = pd.DataFrame(
    [
        {"N": N, "D": D, "loss": 2.5, "scratch_D": D + 30 * D**0.6 * N**0.2}
        for N in (1e8, 4e8, 1.6e9)
        for D in (1e9, 4e9, 1.6e10)
    ]
).assign(transferred=lambda t: t["scratch_D"] - t["D"], saved=0.1)
_SCRATCH = ("chinchilla", _TRUTHS["from-scratch"])
_TUNED = ("tuned-skaling", _TRUTHS["tuned-skaling"])
_GROUPED = jl.laws.grouped("chinchilla", ["a", "b"], own=["B"])
_RECIPES = (
    _GROUPED,
    {n: _TRUTHS["chinchilla"][n.partition("[")[0]] for n in _GROUPED.parameter_names},
)
_MIXING = jl.laws.mixing(["web", "code"])
_MIXED = (_MIXING, {spec.name: 0.5 for spec in _MIXING.parameters})
_QUICK = {"n_starts": 32, "n_local": 4}


@cache
def runs() -> pd.DataFrame:
    """36 runs of chinchilla."""
    return simulate.experiment("chinchilla").table.iloc[::7][["N", "D", "loss"]]


@cache
def fitted() -> jl.Fit:
    """A law fitted to them."""
    return jl.fit("chinchilla", runs(), **_QUICK)


@cache
def evaluated():
    """A folder as lm-evaluation-harness leaves it, of a model "a"."""
    folder = Path(tempfile.mkdtemp())
    record = {"model_name": "a", "results": {"piqa": {"acc,none": 0.6}}}
    (folder / "results_1.json").write_text(json.dumps(record))
    return folder


def curve() -> pd.DataFrame:
    """One loss curve with its rates."""
    step = np.arange(1, 41)
    return pd.DataFrame({"step": step, "loss": 3 + step**-0.5, "lr": np.full(40, 1e-3)})


def _design(name: str) -> Callable[..., Any]:
    """A design made, and cut: what it is made of is refused at the latest there."""

    def made(**given: Any) -> Any:
        return getattr(folds, name)(**given).split(runs())

    return made


_OOD = pd.DataFrame({"loss_pt": [2.0, 2.1, 2.3, 2.2], "loss_cpt": [3.0, 2.8, 2.6, 2.7],
                     "loss_ood": [2.5, 2.45, 2.46, 2.44]})  # fmt: skip


def _phases(continued: bool = False) -> jl.LossCurves:
    """A base's curve, or one that another corpus lifts after 20 steps."""
    step = np.arange(21, 41) if continued else np.arange(1, 41)
    loss = 3 + 1 / np.sqrt(step) + (0.1 if continued else 0.0)
    line = "constant:lr=1e-3,steps=20+constant:lr=1e-3,steps=20"
    return jl.read_loss_curves(
        {"step": step, "loss": loss},
        schedule=line if continued else "constant:lr=1e-3,steps=40",
    )


def _rates() -> dict[str, Any]:
    return {"lr": np.full(20, 1e-3), "decay": 0.9, "initial_lr": 0.0, "at": [5, 20],
            "boundary": 10, "epsilon": 0.5, "S1_before": 0.1}  # fmt: skip


def _range() -> dict[str, Any]:
    return {"start_low": 0.1, "start_high": 1.0, "low": 1e-3, "high": 10.0}


#: name → sound arguments, beside the defaults, of functions whose call takes no more than a moment.
CALLS: dict[str, Callable[[], dict[str, Any]]] = {
    "areas": _rates,
    "data.phase_areas": _rates,
    "laws.exponent": lambda: {"start_low": 0.1},
    "laws.positive": _range,
    "laws.real": lambda: {"start_low": -1.0, "low": -10.0, "high": 10.0},
    "fit_decay": lambda: {"law": "annealing", "curves": None, "decays": (0.9, 0.99)},
    "fitting.observed_shift": lambda: {
        "continual": _phases(continued=True),
        "hidden": _phases(),
    },
    "law_table": dict,
    "data.join_scores": lambda: {
        "models": {"model": ["a"], "N": [1e9]},
        "results": evaluated(),
    },
    "data.learnability_coefficients": lambda: {
        "curves": pd.DataFrame(
            {"step": [0, 1000, 5000, 10000, 11000], "loss": [4.0, 3.0, 2.5, 2.3, 2.25]}
        ),
        "law": "dcpt-cross",
    },
    "forecast_run": lambda: {"curve": curve(), "schedule": "constant:lr=1e-3,steps=60"},
    "load": lambda: {"path": "no-such-file.json"},
    "published": dict,
    "published_table": dict,
    "read_loss_curves": lambda: {
        "source": curve(),
        "first_step": 0,
        "S1_before": 0.0,
    },
    "read_runs": lambda: {
        "source": runs(),
    },
    "planning.allocation": lambda: {
        "fit": _SCRATCH,
        "compute": 1e21,
        "level": 0.9,
    },
    "planning.min_compute": lambda: {"fit": _SCRATCH, "loss": 2.5, "level": 0.9},
    "planning.allocation_law": lambda: {"fit": _SCRATCH, "level": 0.9},
    "planning.frontier": lambda: {
        "fit": _SCRATCH,
        "computes": [1e20, 1e21],
        "level": 0.9,
    },
    "planning.minimise": lambda: {
        "fit": _SCRATCH,
        "over": {"N": None, "D": (1e8, None)},
        "subject_to": [planning.Budget(1e21)],
        "level": 0.9,
    },
    "planning.optimal_inputs": lambda: {
        "fit": _SCRATCH,
        "over": {"D": (1e8, 1e10)},
        "at": {"N": 1e9},
        "level": 0.9,
    },
    "planning.critical_batch_size": lambda: {
        "fit": _TUNED,
        "at": {"N": 1e9, "D": 2e10},
        "level": 0.9,
    },
    "planning.best_settings": lambda: {
        "runs": runs().assign(lr=1e-3),
        "over": ["lr"],
    },
    "planning.solve": lambda: {
        "fit": _SCRATCH,
        "for_": "D",
        "loss": 2.5,
        "between": (1e8, None),
        "at": {"N": 1e9},
        "level": 0.9,
    },
    "planning.compute_multiplier": lambda: {
        "fit": _RECIPES,
        "compute": [1e20, 1e21],
        "reference": {"group": "a"},
        "level": 0.9,
        "at": {"group": "b"},
    },
    "planning.optimal_weights": lambda: {
        "fits": {"loss": _MIXED},
        "level": 0.9,
    },
    "papers.transfer_law": lambda: {"transfers": _TRANSFERS, "level": 0.9},
    "papers.observed_transfer": lambda: {
        "scratch": _CURVE,
        "continual": _CURVE,
    },
    "papers.loss_envelope": lambda: {"table": runs(), "levels": 3},
    "papers.out_of_domain": lambda: {
        "observed": _OOD,
        "n_resamples": 4,
        "level": 0.9,
    },
    "folds.in_sample": dict,
    "folds.as_design": lambda: {"folds": "leave-one-group-out:N"},
    "folds.contiguous_blocks": lambda: {"column": "D", "n_blocks": 2},
    "folds.from_sklearn": lambda: {"splitter": _Halves()},
    "folds.hold_out": lambda: {"column": "D", "which": "last", "amount": "1/3"},
    "folds.k_fold": lambda: {"n_splits": 3},
    "folds.leave_p_groups_out": lambda: {"column": "N", "p": 1},
    "folds.leave_one_group_out": lambda: {"column": "N"},
    "folds.predefined_split": lambda: {"masks": np.arange(len(runs())) % 2},
    "design.evaluation_steps": lambda: {
        "budget": 5,
        "steps": 20_000,
    },
    "schedules.constant": lambda: {"lr": 1e-3, "steps": 20},
    "schedules.linear": lambda: {"peak": 1e-3, "steps": 20},
    "schedules.cosine": lambda: {"peak": 1e-3, "steps": 20},
    "schedules.inverse_sqrt": lambda: {"peak": 1e-3, "steps": 20, "offset": 5},
    "schedules.two_stage": lambda: {"first": 1e-3, "second": 1e-4, "steps": 20, "switch": 5},
    "schedules.wsd": lambda: {
        "peak": 1e-3,
        "steps": 20,
        "final": 1e-4,
    },
    "schedules.warmup": lambda: {"schedule": constant(1e-3, 20), "steps": 5},
    "schedules.join": lambda: {"pretraining": constant(1e-3, 20), "continued": cosine(1e-3, 5)},
    "schedules.from_optax": lambda: {
        "schedule": lambda count: 1e-3 + 0.0 * count,
        "steps": 20,
    },
    "schedules.parse": lambda: {"text": "cosine:peak=1e-3,steps=20"},
    "simulate.continual_curves": lambda: {"noise": 0.0, "every": 2000},
    "simulate.early_curves": lambda: {"noise": 0.0, "steps": 2000},
    "simulate.experiment": lambda: {"name": "chinchilla", "noise": 0.0},
    "simulate.simulate_runs": lambda: {
        "law": "chinchilla",
        "params": _TRUTHS["chinchilla"],
        "inputs": {"N": [1e9, 2e9], "D": 1e10},
    },
}


class _Halves:
    def split(self, table: Any, y: Any = None, groups: Any = None) -> Iterator[Any]:
        half = len(table) // 2
        yield np.arange(half), np.arange(half, len(table))


def public_functions() -> dict[str, Callable[..., Any]]:
    """Every public function, by the name CALLS has for it."""
    functions = {}
    for prefix, module in MODULES.items():
        for name in _names(module):
            value = getattr(module, name)
            if inspect.isfunction(value):
                functions[prefix + name] = value
    for package, names in ALSO.items():
        module = getattr(jl, package)
        functions |= {f"{package}.{name}": getattr(module, name) for name in names}
    return {name: value for name, value in functions.items() if name not in LEFT_OUT}


def _names(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = [name for name in dir(module) if not name.startswith("_")]
    return [
        name for name in own if getattr(getattr(module, name), "__module__", "") == module.__name__
    ]


def outcomes(name: str, values: list[Any]) -> Iterator[tuple[str, int, str, Any]]:
    """(argument, number of the value, what came of it, the error or the answer)."""
    function, sound = public_functions()[name], CALLS[name]
    of_folds = name.startswith("folds.") and name != "folds.as_design"
    call = _design(name.removeprefix("folds.")) if of_folds else function
    arguments = [p for p in inspect.signature(function).parameters.values()]
    named = [p.name for p in arguments if p.kind is not p.VAR_KEYWORD]
    extra = [key for key in sound() if key not in named]
    for argument in [*named, *extra]:
        for k, value in enumerate(values):
            given = {**sound(), argument: value}
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    yield argument, k, "answered", call(**given)
                except jl.JaxlawError as error:
                    yield argument, k, "refused", error
                except Exception as error:  # what must not be
                    yield argument, k, "broken", error
