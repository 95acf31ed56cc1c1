"""How sure a fit is: resamples, covariance, profiles, influence, what the data leave open."""

from jaxlaw.uncertainty._bootstrap import Bootstrap, bootstrap
from jaxlaw.uncertainty._covariance import Covariance, covariance
from jaxlaw.uncertainty._draws import Draws, as_draws, has_draws
from jaxlaw.uncertainty._identifiability import identifiability
from jaxlaw.uncertainty._influence import influence
from jaxlaw.uncertainty._profile import Profile, profile

__all__ = [
    "Bootstrap",
    "Covariance",
    "Draws",
    "Profile",
    "as_draws",
    "bootstrap",
    "covariance",
    "has_draws",
    "identifiability",
    "influence",
    "profile",
]
