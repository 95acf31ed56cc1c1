"""Cross-validation and the comparison of laws."""

from jaxlaw.study.result import Study
from jaxlaw.study.running import cross_validate

__all__ = ["Study", "cross_validate"]
