"""Cross-validation and the comparison of laws."""

from jaxlaw.validation._cross_validate import (
    Candidate,
    DataSet,
    candidates_of,
    cross_validate,
    data_set,
    notes_of_folds,
)
from jaxlaw.validation._scores import SCORES, score_text
from jaxlaw.validation._study import Study

__all__ = [
    "Candidate",
    "DataSet",
    "SCORES",
    "candidates_of",
    "data_set",
    "notes_of_folds",
    "score_text",
    "Study",
    "cross_validate",
]
