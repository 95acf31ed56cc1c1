"""What a user may say about a fit, made once at an entry point and then passed on as it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np

from jaxlaw import laws
from jaxlaw._typed import Seed, StartCount, checked
from jaxlaw.data._columns import ReadingOptions, RowOptions
from jaxlaw.errors import UsageError, nearest
from jaxlaw.fitting._checkpoint import Work
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting.solvers import SOLVERS, Solver
from jaxlaw.laws._base import Law


@dataclass(frozen=True, eq=False)
class FitOptions:
    """Options of the objective, of the search and of the work.

    :func:`jaxlaw.fit` documents them one by one; :func:`jaxlaw.cross_validate`,
    :func:`jaxlaw.bootstrap` and the others take the same keywords.

    Attributes:
        delta: Huber threshold; the law's own if None, least squares if infinite.
        residuals: residuals in ``log`` or ``linear``; the law's own if None.
        asymmetry: factor on the loss of points below the curve; above 1 the curve is drawn
            towards the lower envelope of the data.
        fixed: parameter → the value it has.
        tied: parameter → the parameter whose value it takes.
        bounds: parameter → (lowest, highest), either None.
        starts: ``"sobol"``, ``"grid"`` or values.
        n_starts: size of the Sobol sample; None for one that grows with the nonlinear parameters.
        n_local: number of the best starts that are solved, at first; None or False for all.
        solver: name of the batch solver.
        seed: seed of the Sobol sample.
        work_dir: folder that keeps finished parts of a long fit.
        progress: whether to show a bar; None for terminals and notebooks only.
        distributed: whether the processes of ``jax.distributed`` share the work.
        executor: executor whose workers do the work; None does it in this process.
        compile_cache: folder that keeps compiled programs; False for none.
    """

    delta: float | None = None
    residuals: Literal["log", "linear"] | None = None
    asymmetry: float = 1.0
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
    distributed: bool = False
    executor: Executor | None = None
    compile_cache: str | Path | Literal[False] | None = None

    @property
    def method(self) -> Solver:
        """The batch solver."""
        return SOLVERS[self.solver]

    def work(self, *folders: str) -> Work:
        """Devices, processes, bar, and a folder inside the work folder, if there is one."""
        folder = None if self.work_dir is None else Path(self.work_dir, *folders)
        return Work(folder, self.progress, self.distributed, self.executor, self.compile_cache)

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
        if not isinstance(self.executor, Executor | None):
            raise UsageError(
                f"executor is a {type(self.executor).__name__}; it must be a "
                "concurrent.futures.Executor, such as client.get_executor() of a dask Client",
                argument="executor",
                value=self.executor,
            )
        if self.executor is not None and self.distributed:
            raise UsageError(
                "distributed= and executor= are two ways to share the work: pass one of them",
                argument="executor",
            )
        if self.solver not in SOLVERS:
            raise UsageError(
                f"there is no solver '{self.solver}'; solvers: {', '.join(SOLVERS)}."
                f"{nearest(self.solver, SOLVERS)}"
            )

    def _check_parameters(self, law: Law) -> None:
        for name in (*self.fixed, *self.tied, *self.tied.values(), *self.bounds):
            law.parameter(name)
        if law.constraint is not None and law.constraint.raises in (*self.fixed, *self.bounds):
            raise UsageError(
                f"under constraint '{law.constraint.name}' parameter {law.constraint.raises} is "
                "raised above a least value, and cannot be fixed or bounded; drop the constraint"
            )
        for name in self.fixed:
            if name in self.tied or name in self.bounds:
                raise UsageError(f"parameter {name} is fixed and cannot be tied or bounded too")
            if not np.isfinite(self.fixed[name]):
                raise UsageError(f"parameter {name} is fixed at {self.fixed[name]}")
            if law.parameter(name).scale == "log" and self.fixed[name] < 0:
                raise UsageError(f"parameter {name} must be positive; fixed at {self.fixed[name]}")
        for name, other in self.tied.items():
            if name == other or other in self.tied:
                raise UsageError(f"parameter {name} is tied to {other}, which is itself tied")
        for name, (low, high) in self.bounds.items():
            if low is not None and high is not None and not low < high:
                raise UsageError(f"bounds of {name} are not in order: {low}, {high}")


# The generated constructor checks the kinds of its arguments like every entry point.
FitOptions.__init__.__name__ = "fit"
FitOptions.__init__ = checked(FitOptions.__init__)  # type: ignore[method-assign]


class ObjectiveKeywords(TypedDict, total=False):
    """Keywords of :func:`jaxlaw.fit` that say what is fitted."""

    constraint: Literal["paper", "observed"] | None
    delta: float | None
    residuals: Literal["log", "linear"] | None
    asymmetry: float
    fixed: Mapping[str, float] | None
    tied: Mapping[str, str] | None
    bounds: Mapping[str, tuple[float | None, float | None]] | None


class BootstrapKeywords(ObjectiveKeywords, ReadingOptions, total=False):
    """Keywords of :func:`jaxlaw.fit` that :func:`jaxlaw.bootstrap` hands on."""

    starts: Any
    strict: bool


class SearchKeywords(ObjectiveKeywords, total=False):
    """Keywords of :func:`jaxlaw.fit` without those about reading."""

    base: FittedLaw | Mapping[str, float] | None
    starts: Any
    n_starts: int | None
    n_local: int | Literal[False] | None
    solver: str
    seed: int
    work_dir: str | Path | None
    progress: bool | None
    distributed: bool
    executor: Executor | None
    compile_cache: str | Path | Literal[False] | None


class StudyKeywords(SearchKeywords, RowOptions, total=False):
    """Keywords of :func:`jaxlaw.fit` that :func:`jaxlaw.cross_validate` hands on."""


class FitKeywords(SearchKeywords, ReadingOptions, total=False):
    """All keywords of :func:`jaxlaw.fit`, for functions that fit before they do their own."""

    strict: bool


#: Options that say what is fitted; a fit knows its own.
OBJECTIVE = ("delta", "residuals", "asymmetry", "fixed", "tied", "bounds")
#: Keywords that say what is fitted: those that a law of a study may have of its own.
OF_LAW = ("constraint", *OBJECTIVE, "base")
_NAMES = {*OF_LAW, *(field.name for field in dataclasses.fields(FitOptions))}


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
        base: a from-scratch fit, or parameters, that a continual law takes values from.
        **options: fields of :class:`FitOptions`; None for ``fixed``, ``tied`` and ``bounds``
            stands for none.

    Raises:
        UsageError: options that make no sense; the message says what would.
    """
    law = laws.get(law, constraint)
    options["fixed"] = _with_base(law, options.get("fixed"), base)
    for name in ("tied", "bounds"):
        options[name] = options.get(name) or {}
    checked_options = FitOptions(**options)
    checked_options.check(law)
    return law, checked_options


def _with_base(
    law: Law, fixed: Mapping[str, float] | None, base: FittedLaw | Mapping[str, float] | None
) -> Mapping[str, float]:
    """Fixed values, those that a continual law takes from its base among them."""
    if base is None:
        if law.from_base and fixed is None:
            raise UsageError(
                f"law {law.name} takes {', '.join(law.from_base)} from a from-scratch fit: pass "
                "base=, a fit of law chinchilla, or fixed={} to fit all its parameters",
                argument="base",
            )
        return fixed or {}
    if not isinstance(base, FittedLaw | Mapping):
        raise UsageError(
            f"base is a {type(base).__name__}; it must be a Fit or a dict",
            argument="base",
            value=base,
        )
    params = base.params if isinstance(base, FittedLaw) else base
    missing = [name for name in law.from_base if name not in params]
    if missing or not law.from_base:
        raise UsageError(
            f"base has no parameter {', '.join(missing)}"
            if missing
            else f"law {law.name} takes no base; use fixed="
        )
    return {name: float(params[name]) for name in law.from_base} | dict(fixed or {})
