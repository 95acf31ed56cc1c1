"""Solvers: methods that take one start of one problem to its optimum, an iteration at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from jaxlaw.fitting.solvers import _lbfgs as lbfgs
from jaxlaw.fitting.solvers import _newton as newton
from jaxlaw.fitting.solvers import _optax_lbfgs as optax_lbfgs
from jaxlaw.fitting.solvers._lbfgs import NoJaxoptError as NoJaxoptError
from jaxlaw.fitting.solvers._status import Status as Status
from jaxlaw.notes import Note

Result = TypeVar("Result")


class Solver(NamedTuple):
    """A method for one lane, which is one start of one problem; the engine batches it.

    A lane is a pytree that the solver chooses, with ``coordinates`` (p,), ``value``, ``status``
    and ``iterations`` among its fields. An iteration has no inner loop over evaluations, so that
    lanes that run side by side do not wait for each other.

    Attributes:
        name: name by which users choose it, and of its chunks in a work folder.
        init: ``init(model, problem, start) -> lane``.
        step: ``step(model, problem, lane, settings) -> lane``, one iteration.
        settings: default tolerances; dynamic, so that others need no other program.
        linear_coefficients: whether it moves the coefficients a law is linear in as they are, or
            as logarithms like the papers.
    """

    name: str
    init: Callable[..., Any]
    step: Callable[..., Any]
    settings: Any
    linear_coefficients: bool
    brief: bool = False


SOLVERS = {
    "newton": Solver("newton", newton.init, newton.step, newton.Settings(), True),
    "lbfgs": Solver("lbfgs", lbfgs.init, lbfgs.step, lbfgs.Settings(), False),
    "lbfgs-optax": Solver(
        "lbfgs-optax", optax_lbfgs.init, optax_lbfgs.step, lbfgs.Settings(), False
    ),
}

#: L-BFGS from a candidate optimum, jaxopt's and optax's. Every reported optimum has gone through
#: one of them, so that two independent methods agree on it.
_POLISHING = {"linear_coefficients": True, "settings": lbfgs.Settings(patience=3), "brief": True}
POLISH = Solver("polish", lbfgs.init_near, lbfgs.step_near, **_POLISHING)
POLISH_BY_OPTAX = Solver("polish-optax", optax_lbfgs.init_near, optax_lbfgs.step_near, **_POLISHING)

_BY_OPTAX = {"polish": POLISH_BY_OPTAX, "lbfgs": SOLVERS["lbfgs-optax"]}
_missing: list[str] = []  # why jaxopt cannot be used in this process


def with_usable(method: Solver, work: Callable[[Solver], Result]) -> Result:
    """``work(method)``, or by optax's L-BFGS where jaxopt's is wanted and cannot be imported."""
    if not (_missing and method.name in _BY_OPTAX):
        try:
            return work(method)
        except NoJaxoptError as error:
            _missing.append(str(error))
    return work(_BY_OPTAX[method.name]._replace(settings=method.settings))


def notes() -> tuple[Note, ...]:
    """The note of a fit in a process without jaxopt."""
    if not _missing:
        return ()
    message = f"{_missing[0]}: optax's L-BFGS is used in its place, with the same tolerances"
    return (Note("polished-by-optax", "info", message),)
