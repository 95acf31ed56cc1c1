"""Methods that take one start of one problem to its optimum, a tick at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxlaw.solvers import lbfgs, newton


class Solver(NamedTuple):
    """A method, for one lane of one problem.

    Attributes:
        name: how it is called for.
        init: ``init(model, problem, start) -> lane``.
        step: ``step(model, problem, lane, settings) -> lane``, one tick. A lane has
            ``coordinates``, ``value``, ``status`` and ``ticks``.
        settings: default tolerances.
        evaluations: of the law that a lane usually takes, to a factor of two or three.
        linear_coefficients: whether it moves the coefficients a law is linear in as they
            are, or as logarithms like the papers.
    """

    name: str
    init: Callable[..., Any]
    step: Callable[..., Any]
    settings: Any
    evaluations: int
    linear_coefficients: bool


SOLVERS = {
    "newton": Solver("newton", newton.init, newton.step, newton.Settings(), 64, True),
    "lbfgs": Solver("lbfgs", lbfgs.init, lbfgs.step, lbfgs.Settings(), 2048, False),
}

#: jaxopt's L-BFGS from a candidate optimum: every reported optimum has gone through it.
FINISHER = Solver("finisher", lbfgs.init_near, lbfgs.step_near, lbfgs.Settings(patience=3), 8, True)
