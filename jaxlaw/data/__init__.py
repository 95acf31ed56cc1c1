"""Loss curves: read with their schedules, thinned, counted in areas, predicted."""

from jaxlaw.data._loss_curves import Curves, read_curves

__all__ = ["Curves", "read_curves"]
