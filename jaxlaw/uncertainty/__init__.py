"""How sure a fit is: resamples, covariance, profiles, influence, what the data leave open."""

from jaxlaw.uncertainty.bootstrapping import Bootstrap, bootstrap
from jaxlaw.uncertainty.sandwich import Covariance, covariance

__all__ = ["Bootstrap", "Covariance", "bootstrap", "covariance"]
