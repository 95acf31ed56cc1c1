"""Cross-validation and the comparison of laws."""

from jaxlaw.validation._cross_validate import cross_validate
from jaxlaw.validation._study import Study

__all__ = ["Study", "cross_validate"]
