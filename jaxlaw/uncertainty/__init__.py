"""How sure a fit is: resamples, covariance, profiles, influence, what the data leave open."""

from jaxlaw.uncertainty._bootstrap import Bootstrap, bootstrap
from jaxlaw.uncertainty._covariance import Covariance, covariance
from jaxlaw.uncertainty._identifiability import identifiability
from jaxlaw.uncertainty._influence import influence
from jaxlaw.uncertainty._profile import Profile, profile

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
