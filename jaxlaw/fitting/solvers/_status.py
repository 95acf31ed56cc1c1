"""How the search from one start ends."""

from __future__ import annotations

from enum import IntEnum

#: A lane that goes no further has converged if it expects to gain less than this share of the
#: objective.
PROMISE = 1e-7


class Status(IntEnum):
    """How a lane ended; ``label`` is what results say, ``message`` what it means and what to do."""

    RUNNING = (
        0,
        "running",
        "The search is not over.",
    )
    CONVERGED = (
        1,
        "converged",
        "The solver stands at an optimum: a further step would gain next to nothing.",
    )
    STEP_LIMIT = (
        2,
        "step limit",
        "The largest number of iterations was reached before an optimum: solve more starts "
        "(n_local), or fix a parameter that the data do not determine.",
    )
    NON_FINITE = (
        3,
        "non-finite",
        "The law is infinite or NaN at the start: check units, bounds and fixed values, and solve "
        "more starts (n_local).",
    )
    STALLED = (
        4,
        "stalled",
        "No step lowers the objective any more, though its slope says that one should: solve more "
        "starts (n_local); the law may have a kink there, or be computed with much rounding.",
    )
    INVALID = (
        5,
        "invalid data",
        "Some target or input that counts is NaN, infinite or out of its domain, a weight is "
        "negative, or all are 0: correct them.",
    )

    label: str
    message: str

    def __new__(cls, value: int, label: str, message: str) -> Status:
        """A member that is a number, with its texts."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.label, member.message = label, message
        return member
