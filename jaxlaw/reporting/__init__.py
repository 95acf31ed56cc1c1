"""Reports: a fit or a study as one page of HTML."""

from jaxlaw.reporting._report import report

__all__ = ["report"]
