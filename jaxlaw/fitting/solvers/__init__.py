"""Methods that take one start of one problem to its optimum, a tick at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxlaw.fitting._objective import Problem, to_level
from jaxlaw.fitting._transform import Array, Model
from jaxlaw.fitting.solvers import _lbfgs as lbfgs
from jaxlaw.fitting.solvers import _newton as newton
from jaxlaw.fitting.solvers._views import view


class Solver(NamedTuple):
    """A method, for one lane of one problem.

    Attributes:
        name: how it is called for.
        init: ``init(view, start) -> lane``.
        step: ``step(view, lane, settings) -> lane``, one tick. A lane has ``coordinates``,
            ``value``, ``status`` and ``ticks``.
        settings: default tolerances.
        evaluations: of the law that a lane usually takes, to a factor of two or three.
        levelled: whether starts are brought to the level of the data first.
        single: whether a tick is one evaluation, and ``init`` one at most.
        linear_coefficients: whether it moves the coefficients a law is linear in as they
            are, or as logarithms like the papers.
    """

    name: str
    init: Callable[..., Any]
    step: Callable[..., Any]
    settings: Any
    evaluations: int
    levelled: bool
    single: bool
    linear_coefficients: bool


SOLVERS = {
    "newton": Solver(
        "newton", newton.init, newton.step, newton.Settings(),
        evaluations=64, levelled=True, single=True, linear_coefficients=True,
    ),
    "lbfgs": Solver(
        "lbfgs", lbfgs.init, lbfgs.step, lbfgs.Settings(),
        evaluations=2048, levelled=False, single=False, linear_coefficients=False,
    ),
}  # fmt: skip

#: jaxopt's L-BFGS from a candidate optimum: every reported optimum has gone through it.
FINISHER = Solver(
    "finisher", lbfgs.init_near, lbfgs.step_near, lbfgs.Settings(patience=3),
    evaluations=8, levelled=False, single=True, linear_coefficients=True,
)  # fmt: skip


def begin(solver: Solver, model: Model, problem: Problem, start: Array) -> Any:
    """The lane of a start (p,)."""
    start = to_level(model, problem, start) if solver.levelled else start
    return solver.init(view(model, problem), start)


def advance(solver: Solver, model: Model, problem: Problem, lane: Any, settings: Any) -> Any:
    """The lane one tick on."""
    return solver.step(view(model, problem), lane, settings)
