"""Cross-validation and the comparison of laws."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.validation._cross_validate import Candidate as Candidate
    from jaxlaw.validation._cross_validate import DataSet as DataSet
    from jaxlaw.validation._cross_validate import candidates_of as candidates_of
    from jaxlaw.validation._cross_validate import cross_validate as cross_validate
    from jaxlaw.validation._cross_validate import data_set as data_set
    from jaxlaw.validation._cross_validate import label_of as label_of
    from jaxlaw.validation._cross_validate import notes_of_folds as notes_of_folds
    from jaxlaw.validation._study import VERDICTS as VERDICTS
    from jaxlaw.validation._study import Study as Study
else:
    __getattr__, __dir__, __all__ = face(__name__)
