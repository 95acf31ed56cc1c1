"""How sure a fit is: resamples, covariance, profiles, influence, what the data leave open."""

from jaxlaw.uncertainty._bootstrap import Bootstrap, bootstrap
from jaxlaw.uncertainty._covariance import (
    Covariance,
    covariance,
    covariance_of,
    pooled_noise,
    residual_slopes,
)
from jaxlaw.uncertainty._draws import Draws, as_draws, has_draws
from jaxlaw.uncertainty._fit_problem import fit_with_data
from jaxlaw.uncertainty._groups import group_numbers
from jaxlaw.uncertainty._identifiability import identifiability
from jaxlaw.uncertainty._influence import influence
from jaxlaw.uncertainty._intervals import (
    COLUMNS,
    check_level,
    interval_of,
    percentile_interval,
)
from jaxlaw.uncertainty._profile import Profile, profile
from jaxlaw.uncertainty._resampling import resampled_residuals, resampled_weights, student_scales

__all__ = [
    "COLUMNS",
    "check_level",
    "covariance_of",
    "fit_with_data",
    "group_numbers",
    "interval_of",
    "percentile_interval",
    "pooled_noise",
    "resampled_residuals",
    "resampled_weights",
    "residual_slopes",
    "student_scales",
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
