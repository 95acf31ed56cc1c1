"""Solvers: methods that take one start of one problem to its optimum, an iteration at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from jaxlaw.fitting.solvers import _lbfgs as lbfgs
from jaxlaw.fitting.solvers import _newton as newton
from jaxlaw.fitting.solvers._newton import Status as Status
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
        brief: whether it is soon done, so that a program without optimisation will do.
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
}

#: L-BFGS from a candidate optimum, jaxopt's or optax's. Every reported optimum has gone through one
#: of them, so that two independent methods agree on it.
POLISH = Solver(
    "polish", lbfgs.init_near, lbfgs.step_near, lbfgs.Settings(patience=3), True, brief=True
)
POLISH_BY_OPTAX = POLISH._replace(
    name="polish-optax",
    init=partial(lbfgs.init_near, remember=lbfgs.optax_memory),
    step=partial(lbfgs.step_near, advance=lbfgs.optax_advanced),
)
_missing: list[str] = []  # why jaxopt cannot be used in this process


def with_usable(method: Solver, work: Callable[[Solver], Result]) -> Result:
    """``work(method)``; a polish by optax's L-BFGS where jaxopt cannot be imported."""
    if method.name != POLISH.name:
        return work(method)
    if not _missing:
        try:
            return work(method)
        except lbfgs.NoJaxoptError as error:
            _missing.append(str(error))
    return work(POLISH_BY_OPTAX._replace(settings=method.settings))


def notes() -> tuple[Note, ...]:
    """The note of a fit in a process without jaxopt."""
    if not _missing:
        return ()
    message = (
        f"{_missing[0]}: optax's L-BFGS is used in its place, with the same tolerances; install "
        "a jaxopt that knows this version of JAX"
    )
    return (Note("polished-by-optax", "info", message),)
