"""How sure a fit is: resamples, covariance, profiles, influence, what the data leave open."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.uncertainty._bootstrap import Bootstrap as Bootstrap
    from jaxlaw.uncertainty._bootstrap import bootstrap as bootstrap
    from jaxlaw.uncertainty._covariance import Covariance as Covariance
    from jaxlaw.uncertainty._covariance import covariance as covariance
    from jaxlaw.uncertainty._covariance import covariance_of as covariance_of
    from jaxlaw.uncertainty._covariance import pooled_noise as pooled_noise
    from jaxlaw.uncertainty._draws import Draws as Draws
    from jaxlaw.uncertainty._draws import as_draws as as_draws
    from jaxlaw.uncertainty._draws import has_draws as has_draws
    from jaxlaw.uncertainty._fit_problem import fit_with_data as fit_with_data
    from jaxlaw.uncertainty._groups import group_numbers as group_numbers
    from jaxlaw.uncertainty._identifiability import identifiability as identifiability
    from jaxlaw.uncertainty._influence import influence as influence
    from jaxlaw.uncertainty._intervals import COLUMNS as COLUMNS
    from jaxlaw.uncertainty._intervals import LEVEL as LEVEL
    from jaxlaw.uncertainty._intervals import check_resamples as check_resamples
    from jaxlaw.uncertainty._intervals import few_resamples_notes as few_resamples_notes
    from jaxlaw.uncertainty._intervals import fewest_for as fewest_for
    from jaxlaw.uncertainty._intervals import interval_columns as interval_columns
    from jaxlaw.uncertainty._intervals import interval_of as interval_of
    from jaxlaw.uncertainty._intervals import intervals as intervals
    from jaxlaw.uncertainty._intervals import percentile_interval as percentile_interval
    from jaxlaw.uncertainty._profile import profile as profile
    from jaxlaw.uncertainty._profile import profile_interval as profile_interval
    from jaxlaw.uncertainty._resampling import resampled_residuals as resampled_residuals
    from jaxlaw.uncertainty._resampling import resampled_weights as resampled_weights
    from jaxlaw.uncertainty.predictions import predicted_curve as predicted_curve
    from jaxlaw.uncertainty.predictions import prediction as prediction
else:
    __getattr__, __dir__, __all__ = face(__name__)
