"""Solvers: methods that take one start of one problem to its optimum, an iteration at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxlaw.fitting.solvers import _lbfgs as lbfgs, _newton as newton
from jaxlaw.fitting.solvers._newton import Status as Status


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

#: L-BFGS from a candidate optimum. Every reported optimum has gone through it, so that two
#: independent methods agree on it.
POLISH = Solver(
    "polish", lbfgs.init_near, lbfgs.step_near, lbfgs.Settings(patience=3), True, brief=True
)
