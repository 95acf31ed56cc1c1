"""How a lane ends."""

RUNNING, CONVERGED, STEP_LIMIT, NON_FINITE, STALLED = range(5)
NAMES = ("running", "converged", "step limit", "non-finite", "stalled")

#: A lane that goes no further has converged if it promises to gain less than this share.
PROMISE = 1e-7
