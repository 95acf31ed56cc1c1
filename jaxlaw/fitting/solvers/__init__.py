"""Methods that take one start of one problem to its optimum, a tick at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxlaw.fitting.solvers import _lbfgs as lbfgs
from jaxlaw.fitting.solvers import _newton as newton


class Solver(NamedTuple):
    """A method, for one lane of one problem.

    Attributes:
        name: how it is called for.
        init: ``init(model, problem, start) -> lane``.
        step: ``step(model, problem, lane, settings) -> lane``, one tick. A lane has
            ``coordinates``, ``value``, ``status`` and ``ticks``.
        settings: default tolerances.
        linear_coefficients: whether it moves the coefficients a law is linear in as they
            are, or as logarithms like the papers.
    """

    name: str
    init: Callable[..., Any]
    step: Callable[..., Any]
    settings: Any
    linear_coefficients: bool


SOLVERS = {
    "newton": Solver(
        "newton", newton.init, newton.step, newton.Settings(),
        linear_coefficients=True,
    ),
    "lbfgs": Solver(
        "lbfgs", lbfgs.init, lbfgs.step, lbfgs.Settings(),
        linear_coefficients=False,
    ),
}  # fmt: skip

#: jaxopt's L-BFGS from a candidate optimum: every reported optimum has gone through it.
FINISHER = Solver(
    "finisher", lbfgs.init_near, lbfgs.step_near, lbfgs.Settings(patience=3),
    linear_coefficients=True,
)  # fmt: skip
