"""Analyses of one figure or table of one paper each, on data of the user's own."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.papers._inflection import inflection_ratio as inflection_ratio
    from jaxlaw.papers._observed import (
        loss_envelope as loss_envelope,
        observed_transfer as observed_transfer,
        transfer_law as transfer_law,
    )
    from jaxlaw.papers._out_of_domain import out_of_domain as out_of_domain
    from jaxlaw.papers._pretraining_value import pretraining_value as pretraining_value
else:
    __getattr__, __dir__, __all__ = face(__name__)
