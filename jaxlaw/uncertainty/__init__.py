"""How sure a fit is: resamples, covariance, profiles, influence, what the data leave open."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.uncertainty._bootstrap import Bootstrap as Bootstrap, bootstrap as bootstrap
    from jaxlaw.uncertainty._covariance import (
        Covariance as Covariance,
        covariance as covariance,
        covariance_of as covariance_of,
        pooled_noise as pooled_noise,
    )
    from jaxlaw.uncertainty._draws import (
        Draws as Draws,
        as_draws as as_draws,
        has_draws as has_draws,
    )
    from jaxlaw.uncertainty._fit_problem import fit_with_data as fit_with_data
    from jaxlaw.uncertainty._groups import group_numbers as group_numbers
    from jaxlaw.uncertainty._identifiability import identifiability as identifiability
    from jaxlaw.uncertainty._influence import influence as influence
    from jaxlaw.uncertainty._intervals import (
        COLUMNS as COLUMNS,
        LEVEL as LEVEL,
        few_resamples_notes as few_resamples_notes,
        fewest_for as fewest_for,
        interval_columns as interval_columns,
        interval_of as interval_of,
        intervals as intervals,
        percentile_interval as percentile_interval,
    )
    from jaxlaw.uncertainty._profile import profile as profile, profile_interval as profile_interval
    from jaxlaw.uncertainty._resampling import (
        resampled_residuals as resampled_residuals,
        resampled_weights as resampled_weights,
    )
    from jaxlaw.uncertainty.predictions import (
        predicted_curve as predicted_curve,
        prediction as prediction,
    )
else:
    __getattr__, __dir__, __all__ = face(__name__)
