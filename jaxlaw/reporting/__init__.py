"""Reports: a fit or a study as one page of HTML."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.reporting._report import report as report
else:
    __getattr__, __dir__, __all__ = face(__name__)
