"""Options of a fit: declared once, made at an entry point, and then passed on as they are.

:class:`FitOptions` declares every option with its type and its default; :func:`jaxlaw.fit` says
what it does. Signatures, help, and the options of the command follow (:func:`lists_options`). Type
checkers and editors run no code: for them alone :class:`FitKeywords` has names and types again,
and a test holds the two equal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

import numpy as np

from jaxlaw import laws
from jaxlaw._devices import Device
from jaxlaw._typed import Between, Seed, StartCount, option_kinds
from jaxlaw.data import ReadingOptions, read_runs
from jaxlaw.errors import UsageError
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._result import StandardErrors
from jaxlaw.fitting.solvers import SOLVERS, Solver
from jaxlaw.laws import Law

P = ParamSpec("P")
T = TypeVar("T")
#: Its square must not vanish.
Positive = Annotated[float, Between(1e-100, must="above 0")]
LocalCount = Annotated[int, Between(1)]


@dataclass(frozen=True, eq=False)
class FitOptions:
    """Options of objective, search and work; an entry point has checked them.

    A parameter that is not named in ``fixed``, ``tied`` or ``bounds`` is free. ``base`` is the
    :class:`StandardErrors` of its values, once an entry point has read what was given.
    """

    delta: Positive | None = None
    residuals: Literal["log", "linear"] | None = None
    asymmetry: Positive = 1.0
    evaluation: str = ""
    base: Any = None
    fixed: Mapping[str, float] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    starts: Any = "sobol"
    n_starts: Annotated[StartCount, Between(1)] | None = None
    n_local: LocalCount | Literal[False] | None = 64
    solver: Literal["newton", "lbfgs"] = "newton"
    seed: Seed = 0
    work_dir: str | Path | None = None
    progress: bool | None = None
    executor: Any = None
    device: Device = "auto"

    @property
    def method(self) -> Solver:
        """The batch solver."""
        return SOLVERS[self.solver]

    def within(self, *folders: str) -> FitOptions:
        """The same options, with a folder inside the work folder in its place."""
        folder = None if self.work_dir is None else Path(self.work_dir, *folders)
        return replace(self, work_dir=folder)

    def work(self) -> Work:
        """Devices, processes, bar, and the work folder, if there is one."""
        folder = None if self.work_dir is None else Path(self.work_dir)
        return Work(folder, self.progress, self.executor, self.device)

    def free(self, law: Law) -> tuple[str, ...]:
        """Names of the parameters that are fitted."""
        return tuple(
            name for name in law.parameter_names if name not in self.fixed and name not in self.tied
        )

    def check(self, law: Law) -> None:
        """Refuse options that make no sense for a law.

        Raises:
            UsageError: unknown parameters, contradictions.
        """
        for name in (*self.fixed, *self.tied, *self.tied.values(), *self.bounds):
            law.parameter(name)
        if law.constraint is not None and law.constraint.raises in (*self.fixed, *self.bounds):
            raise UsageError(
                f"under constraint '{law.constraint.name}' parameter {law.constraint.raises} is "
                "kept above a minimum, so it cannot be fixed or bounded: drop the constraint"
            )
        for name, value in self.fixed.items():
            if name in self.tied or name in self.bounds:
                raise UsageError(f"parameter {name} is fixed and cannot be tied or bounded too")
            if not np.isfinite(value) or law.parameter(name).scale == "log" and value < 0:
                kind = "positive" if law.parameter(name).scale == "log" else "a finite number"
                raise UsageError(f"parameter {name} must be {kind}; fixed at {value}")
        for name, other in self.tied.items():
            if name == other or other in self.tied:
                raise UsageError(f"parameter {name} is tied to {other}, which is itself tied")
        for name, limits in self.bounds.items():
            if None not in limits and not limits[0] < limits[1]:
                raise UsageError(f"bounds of {name} are not in order: {limits[0]}, {limits[1]}")


class SharedKeywords(ReadingOptions, total=False):
    """Keywords of :func:`jaxlaw.fit` that all that fits hands on."""

    constraint: Literal["paper", "observed"] | None
    delta: Positive | None
    residuals: Literal["log", "linear"] | None
    asymmetry: Positive
    evaluation: str
    fixed: Mapping[str, float] | None
    tied: Mapping[str, str] | None
    bounds: Mapping[str, tuple[float | None, float | None]] | None
    starts: Any
    solver: Literal["newton", "lbfgs"]
    work_dir: str | Path | None
    progress: bool | None
    executor: Any
    device: Device


class FitKeywords(SharedKeywords, total=False):
    """Keywords of :func:`jaxlaw.fit`, and of studies and covariances."""

    base: Any
    n_starts: Annotated[StartCount, Between(1)] | None
    n_local: LocalCount | Literal[False] | None
    seed: Seed


#: Options that say what is fitted; a fit knows its own.
OBJECTIVE = ("delta", "residuals", "asymmetry", "base", "fixed", "tied", "bounds")
#: Options that say how it is done, whatever is fitted.
OF_WORK = ("solver", "work_dir", "progress", "executor", "device")
_NAMES = {"constraint", *OBJECTIVE, *(field.name for field in fields(FitOptions))}


def lists_options(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with each option of a fit and of reading in its signature, with its default.

    So ``help`` and a notebook's completion show what type checkers read from :class:`FitKeywords`.
    """
    signature, reading = inspect.signature(function), inspect.signature(read_runs).parameters
    defaults = {field.name: field.default for field in fields(FitOptions)}
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    listed = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=reading[name].default if name in reading else defaults.get(name),
            annotation=kind,
        )
        for name, kind in option_kinds(FitKeywords).items()
        if name not in signature.parameters
    ]
    # None in a call stands for what a factory makes, too.
    listed = [p.replace(default=None) if p.default is MISSING else p for p in listed]
    function.__signature__ = signature.replace(parameters=[*own, *listed])  # type: ignore[attr-defined]
    return function


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keywords of an entry point: those of the fit, and those of :func:`jaxlaw.read_runs`."""
    of_fit = {name: value for name, value in options.items() if name in _NAMES}
    return of_fit, {name: value for name, value in options.items() if name not in _NAMES}


def law_and_options(
    law: str | Law, *, constraint: str | None = None, base: Any = None, **options: Any
) -> tuple[Law, FitOptions]:
    """A law and the checked options of its fit, from the keywords of an entry point.

    Args:
        law: a law or its name.
        constraint: name of the law's constraint, if any.
        base: what a continual law takes values from: a from-scratch fit, its draws, or parameters.
        **options: fields of :class:`FitOptions`; None for ``fixed``, ``tied`` and ``bounds``
            stands for none.

    Raises:
        UsageError: options that make no sense; the message says what would.
    """
    law = laws.get(law, constraint)
    if base is None and law.from_base and options.get("fixed") is None:
        raise UsageError(
            f"law {law.name} takes {', '.join(law.from_base)} from a from-scratch fit: pass "
            "base=, a fit of law chinchilla, or fixed={} to fit all its parameters"
        )
    for name in ("fixed", "tied", "bounds"):
        options[name] = dict(options.get(name) or {})
    # The standard errors are of a fit, which holds the values already.
    if base is not None and not isinstance(base, StandardErrors):
        values, base = _from_base(law, base, options["fixed"])
        options["fixed"] = values | options["fixed"]
    checked_options = FitOptions(base=base, **options)
    checked_options.check(law)
    return law, checked_options


def _from_base(
    law: Law, base, fixed: Mapping[str, float]
) -> tuple[dict[str, float], StandardErrors]:
    """Values that a continual law takes from its base, but for the fixed ones, and their errors."""
    drawn = base.draws() if hasattr(base, "draws") else base
    source = drawn.fit if hasattr(base, "draws") else base
    if not isinstance(source, FittedLaw | Mapping):
        raise UsageError(f"base is a {type(base).__name__}; it must be a Fit or a dict")
    if not law.from_base:
        raise UsageError(f"law {law.name} takes no base; use fixed=")
    params = source.params if isinstance(source, FittedLaw) else source
    if missing := [name for name in law.from_base if name not in params]:
        raise UsageError(f"base has no parameter {', '.join(missing)}")
    held = [name for name in law.from_base if name not in fixed]
    errors = getattr(drawn, "standard_errors", None) or StandardErrors()
    known = [name for name in held if name in errors.covariance]
    errors = replace(
        errors,
        values={name: errors.values[name] for name in known},
        missing={
            name: errors.missing.get(name, errors.reason) for name in held if name not in known
        },
        covariance={one: {name: errors.covariance[one][name] for name in known} for one in known},
    )
    return {name: float(params[name]) for name in held}, errors
