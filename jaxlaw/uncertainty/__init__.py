"""How sure a fit is: resamples, covariance, profiles, influence, what the data leave open."""

from jaxlaw.uncertainty.bootstrapping import Bootstrap, bootstrap

__all__ = ["Bootstrap", "bootstrap"]
