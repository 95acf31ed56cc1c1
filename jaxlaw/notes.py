"""Notes: what a result says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Note:
    """A finding that travels with a result.

    Attributes:
        code: stable, machine-readable name, such as ``at-bound``.
        severity: ``info`` (good to know), ``warning`` (think before you rely on the
            number) or ``error`` (do not use the number).
        message: one sentence for people.
    """

    code: str
    severity: Severity
    message: str

    def __str__(self) -> str:
        return f"[{self.severity}] {self.code}: {self.message}"
