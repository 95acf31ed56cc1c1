"""A device out of memory: the same work, fewer lanes at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax

from jaxlaw.errors import WorkError
from jaxlaw.notes import Note

Result = TypeVar("Result")


class Memory:
    """How many lanes a device takes at once, by stage; fewer once it had no memory for more."""

    def __init__(self) -> None:
        self._most: dict[str, int] = {}
        self._wanted: dict[str, int] = {}

    def within(self, stage: str, work: Callable[[int], Result], lanes: int) -> Result:
        """``work(lanes)``, or of half as many where the device's memory does not do, and so on.

        Raises:
            WorkError: it does not do for a single lane.
        """
        wanted = lanes
        lanes = min(lanes, self._most.get(stage, lanes))
        while True:
            try:
                return work(lanes)
            except jax.errors.JaxRuntimeError as error:
                if "RESOURCE_EXHAUSTED" not in str(error):
                    raise
                if lanes == 1:
                    raise WorkError(
                        f"the device has no memory for a single lane ({stage}): free some of it, "
                        "fit fewer rows, or set JAX_PLATFORMS=cpu; chunks finished before are kept"
                    ) from error
            lanes = max(1, lanes // 2)  # out here: the error holds on to what it had allocated
            self._most[stage] = min(lanes, self._most.get(stage, lanes))
            self._wanted.setdefault(stage, wanted)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What to say of it in a result."""
        if not self._most:
            return ()
        parts = [
            f"{self._wanted[stage]} lanes at once ({stage}): {most} were taken instead"
            for stage, most in sorted(self._most.items())
        ]
        message = f"the device had no memory for {'; for '.join(parts)}; slower, the same result"
        return (Note("memory-short", "info", message),)
