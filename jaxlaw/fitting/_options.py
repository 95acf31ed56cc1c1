"""Options of a fit: declared once, made at an entry point, and then passed on as they are.

:class:`FitOptions` declares name, type and default of every option, and the docstring of
:func:`jaxlaw.fit` says what it does. :class:`FitKeywords` repeats names and types by hand, because
editors and type checkers run no code and cannot derive keywords from a dataclass. A test holds the
two, the docstring and the options of the command equal.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar

import numpy as np

from jaxlaw import laws
from jaxlaw._typed import Seed, StartCount, option_kinds
from jaxlaw.data import ReadingOptions, read_runs
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._result import StandardErrors
from jaxlaw.fitting.solvers import SOLVERS, Solver
from jaxlaw.laws import Law

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class FitOptions:
    """Options of objective, search and work; an entry point has checked them.

    A parameter that is not named in ``fixed``, ``tied`` or ``bounds`` is free.
    """

    delta: float | None = None
    residuals: Literal["log", "linear"] | None = None
    asymmetry: float = 1.0
    evaluation: str = ""
    base: Any = (
        None  # the StandardErrors of its values, once an entry point has read what was given
    )
    fixed: Mapping[str, float] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    starts: Any = "sobol"
    n_starts: StartCount | None = None
    n_local: int | Literal[False] | None = 64
    solver: str = "newton"
    seed: Seed = 0
    work_dir: str | Path | None = None
    progress: bool | None = None
    executor: Any = None
    compile_cache: str | Path | Literal[False] | None = None

    @property
    def method(self) -> Solver:
        """The batch solver."""
        return SOLVERS[self.solver]

    def work(self, *folders: str) -> Work:
        """Devices, processes, bar, and a folder inside the work folder, if there is one."""
        folder = None if self.work_dir is None else Path(self.work_dir, *folders)
        return Work(folder, self.progress, self.executor, self.compile_cache)

    def within(self, *folders: str) -> FitOptions:
        """The same options, with a folder inside the work folder in its place."""
        folder = None if self.work_dir is None else Path(self.work_dir, *folders)
        return dataclasses.replace(self, work_dir=folder)

    def free(self, law: Law) -> tuple[str, ...]:
        """Names of the parameters that are fitted."""
        return tuple(
            name for name in law.parameter_names if name not in self.fixed and name not in self.tied
        )

    def check(self, law: Law) -> None:
        """Refuse options that make no sense for a law.

        Raises:
            UsageError: unknown parameters, contradictions, thresholds that are not positive.
        """
        self._check_parameters(law)
        self._check_objective()
        self._check_search()
        self._check_work()

    def _check_objective(self) -> None:
        if self.residuals not in (None, "log", "linear"):
            hint = nearest(str(self.residuals), ("log", "linear"))
            raise UsageError(
                f"residuals is 'log' or 'linear', not {self.residuals!r}.{hint}",
                argument="residuals",
                value=self.residuals,
            )
        if self.delta is not None and not self.delta > 1e-100:  # its square must not vanish
            raise UsageError(
                f"delta must be positive, not {self.delta}", argument="delta", value=self.delta
            )
        if not self.asymmetry > 0:
            raise UsageError(
                f"asymmetry must be positive, not {self.asymmetry}",
                argument="asymmetry",
                value=self.asymmetry,
            )

    def _check_search(self) -> None:
        if self.n_starts is not None and self.n_starts < 1:
            raise UsageError(
                f"n_starts must be at least 1, not {self.n_starts}",
                argument="n_starts",
                value=self.n_starts,
            )
        if self.n_local is not None and self.n_local is not False and self.n_local < 1:
            raise UsageError(
                f"n_local must be at least 1, or False to solve all, not {self.n_local}",
                argument="n_local",
                value=self.n_local,
            )
        if self.solver not in SOLVERS:
            raise UsageError(
                f"there is no solver '{self.solver}'; solvers: {', '.join(SOLVERS)}."
                f"{nearest(self.solver, SOLVERS)}"
            )

    def _check_work(self) -> None:
        if self.executor is not None and not hasattr(self.executor, "submit"):
            raise UsageError(
                f"executor is a {type(self.executor).__name__}; it must have a method submit, as "
                "an executor of concurrent.futures or dask's client.get_executor()",
                argument="executor",
                value=self.executor,
            )

    def _check_parameters(self, law: Law) -> None:
        """Refuse unknown parameters, and those that two options claim."""
        for name in (*self.fixed, *self.tied, *self.tied.values(), *self.bounds):
            law.parameter(name)
        if law.constraint is not None and law.constraint.raises in (*self.fixed, *self.bounds):
            raise UsageError(
                f"under constraint '{law.constraint.name}' parameter {law.constraint.raises} is "
                "raised above a least value, and cannot be fixed or bounded; drop the constraint"
            )
        for name, value in self.fixed.items():
            self._check_fixed(law, name, value)
        for name, other in self.tied.items():
            if name == other or other in self.tied:
                raise UsageError(f"parameter {name} is tied to {other}, which is itself tied")
        for name, limits in self.bounds.items():
            if None not in limits and not limits[0] < limits[1]:
                raise UsageError(f"bounds of {name} are not in order: {limits[0]}, {limits[1]}")

    def _check_fixed(self, law: Law, name: str, value: float) -> None:
        if name in self.tied or name in self.bounds:
            raise UsageError(f"parameter {name} is fixed and cannot be tied or bounded too")
        if not np.isfinite(value):
            raise UsageError(f"parameter {name} is fixed at {value}")
        if law.parameter(name).scale == "log" and value < 0:
            raise UsageError(f"parameter {name} must be positive; fixed at {value}")


class WorkKeywords(TypedDict, total=False):
    """Keywords of :func:`jaxlaw.fit` about how it is done, whatever is fitted."""

    solver: str
    work_dir: str | Path | None
    progress: bool | None
    executor: Any
    compile_cache: str | Path | Literal[False] | None


class SharedKeywords(ReadingOptions, WorkKeywords, total=False):
    """Keywords of :func:`jaxlaw.fit` that all entry points hand on."""

    constraint: Literal["paper", "observed"] | None
    delta: float | None
    residuals: Literal["log", "linear"] | None
    asymmetry: float
    evaluation: str
    fixed: Mapping[str, float] | None
    tied: Mapping[str, str] | None
    bounds: Mapping[str, tuple[float | None, float | None]] | None
    starts: Any


class FitKeywords(SharedKeywords, total=False):
    """Keywords of :func:`jaxlaw.fit`, for whatever fits: studies, covariances."""

    base: Any
    n_starts: StartCount | None
    n_local: int | Literal[False] | None
    seed: Seed


def lists_options(keywords: type, **own: Any) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator: the signature names each of these keywords of ``**options`` with its default.

    So ``help`` and a notebook's completion show what type checkers read from the annotation. Of
    ``own`` options the function has another default.
    """

    def list_them(function: Callable[P, T]) -> Callable[P, T]:
        signature, kinds = inspect.signature(function), option_kinds(keywords)
        reading = inspect.signature(read_runs).parameters.values()
        # None in a call stands for what a factory makes, too.
        of_fit = {f.name: f.default for f in dataclasses.fields(FitOptions)}
        defaults = {p.name: p.default for p in reading} | {"constraint": None}
        defaults |= {n: None if d is dataclasses.MISSING else d for n, d in of_fit.items()} | own
        named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        one = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
        listed = [
            one(name, default=default, annotation=kinds[name])
            for name, default in defaults.items()
            if name in kinds
        ]
        function.__signature__ = signature.replace(parameters=[*named, *listed])  # type: ignore[attr-defined]
        return function

    return list_them


#: Options that say what is fitted; a fit knows its own.
OBJECTIVE = ("delta", "residuals", "asymmetry", "base", "fixed", "tied", "bounds")
#: Keywords that say what is fitted: those that a law of a study may have of its own.
OF_LAW = ("constraint", *OBJECTIVE)
_NAMES = {*OF_LAW, *(field.name for field in dataclasses.fields(FitOptions))}


def fitted_by(fit: FittedLaw) -> dict[str, Any]:
    """What a fit was fitted by, as keywords of :func:`jaxlaw.fit`, where that is not the law's own.

    Of a continual law its values from a base are among those that are fixed.
    """
    own = {"delta": fit.law.delta, "residuals": fit.law.residuals, "asymmetry": 1.0}
    values = {name: getattr(fit, name) for name in OBJECTIVE if hasattr(fit, name)}
    differs = {name: value for name, value in values.items() if value != own.get(name, {})}
    return differs | ({"fixed": fit.fixed} if fit.law.from_base else {})


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
    options["fixed"], options["base"] = _with_base(law, options.get("fixed"), base)
    for name in ("tied", "bounds"):
        options[name] = options.get(name) or {}
    checked_options = FitOptions(**options)
    checked_options.check(law)
    return law, checked_options


def _with_base(
    law: Law, fixed: Mapping[str, float] | None, base: Any
) -> tuple[Mapping[str, float], StandardErrors | None]:
    """Fixed values, those that a continual law takes from its base among them, and their errors."""
    if base is None and law.from_base and fixed is None:
        raise UsageError(
            f"law {law.name} takes {', '.join(law.from_base)} from a from-scratch fit: pass "
            "base=, a fit of law chinchilla, or fixed={} to fit all its parameters",
            argument="base",
        )
    fixed = dict(fixed or {})
    if base is None or isinstance(base, StandardErrors):  # of a fit, which holds the values already
        return fixed, base
    drawn = base.draws() if hasattr(base, "draws") else base
    source = drawn.fit if hasattr(base, "draws") else base
    if not isinstance(source, FittedLaw | Mapping):
        raise UsageError(
            f"base is a {type(base).__name__}; it must be a Fit or a dict",
            argument="base",
            value=base,
        )
    if not law.from_base:
        raise UsageError(f"law {law.name} takes no base; use fixed=")
    params = source.params if isinstance(source, FittedLaw) else source
    missing = [name for name in law.from_base if name not in params]
    if missing:
        raise UsageError(f"base has no parameter {', '.join(missing)}")
    held = [name for name in law.from_base if name not in fixed]
    errors = getattr(drawn, "standard_errors", None) or StandardErrors()
    known = [name for name in held if name in errors.covariance]
    errors = dataclasses.replace(
        errors,
        values={name: errors.values[name] for name in known},
        missing={
            name: errors.missing.get(name, errors.reason) for name in held if name not in known
        },
        covariance={one: {name: errors.covariance[one][name] for name in known} for one in known},
    )
    return {name: float(params[name]) for name in held} | fixed, errors
