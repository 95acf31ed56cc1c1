"""Pictures of plans. Those of answers register themselves; :mod:`jaxlaw.plots` lists the others."""

from jaxlaw.planning.plots import _continual, _mixture, _settings  # noqa: F401
from jaxlaw.planning.plots._allocation import isoloss
from jaxlaw.planning.plots._isoflops import isoflops
from jaxlaw.planning.plots._transfer import transfer

__all__ = ["isoflops", "isoloss", "transfer"]
