"""Loss curves: read with their schedules, thinned, counted in areas, predicted."""

from jaxlaw.curves.reading import Curves, read_curves

__all__ = ["Curves", "read_curves"]
