"""How a lane ends."""

RUNNING, CONVERGED, STEP_LIMIT, NON_FINITE = range(4)
NAMES = ("running", "converged", "step limit", "non-finite")
