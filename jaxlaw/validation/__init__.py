"""Cross-validation and the comparison of laws."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.validation._cross_validate import (
        cross_validate as cross_validate,
        named_laws as named_laws,
    )
    from jaxlaw.validation._study import Study as Study
else:
    __getattr__, __dir__, __all__ = face(__name__)
