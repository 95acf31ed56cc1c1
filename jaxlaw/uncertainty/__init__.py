"""How sure a fit is: resamples, covariance, profiles, influence, what the data leave open."""

from jaxlaw.uncertainty.bootstrapping import Bootstrap, bootstrap
from jaxlaw.uncertainty.identification import identifiability
from jaxlaw.uncertainty.influences import influence
from jaxlaw.uncertainty.profiles import Profile, profile
from jaxlaw.uncertainty.sandwich import Covariance, covariance

__all__ = [
    "Bootstrap",
    "Covariance",
    "Profile",
    "bootstrap",
    "covariance",
    "identifiability",
    "influence",
    "profile",
]
