"""Old public names warn, name the new one, and do the same."""

import types

import pytest

import jaxlaw as jl
from jaxlaw import UsageError
from jaxlaw._deprecated import (
    renamed_arguments,
    renamed_function,
    renamed_names,
    renamed_property,
)


@renamed_arguments(n="n_resamples")
def resample(data, n_resamples=10):
    return data, n_resamples


def test_an_old_argument_is_passed_on_under_its_new_name():
    with pytest.warns(DeprecationWarning, match="argument n of resample.*use n_resamples"):
        assert resample(1, n=5) == (1, 5)


def test_an_argument_under_both_names_is_refused():
    with pytest.raises(UsageError, match="n is the old name of n_resamples"):
        resample(1, n=5, n_resamples=6)


def test_an_old_function_calls_the_new_one():
    old = renamed_function("bootstrap_data", resample)
    with pytest.warns(DeprecationWarning, match="bootstrap_data is deprecated.*use resample"):
        assert old(2) == (2, 10)


def test_an_old_property_reads_the_new_one():
    class Answer:
        size = 3
        length = renamed_property("length", "size")

    with pytest.warns(DeprecationWarning, match="Answer.length is deprecated.*use size"):
        assert Answer().length == 3


def test_an_old_member_of_a_module_is_found():
    module = types.ModuleType("laws")
    module.__getattr__ = renamed_names("laws", {"new": 4}, {"old": "new"})
    with pytest.warns(DeprecationWarning, match="laws.old is deprecated.*use laws.new"):
        assert module.old == 4
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = module.other


def test_old_names_of_reading():
    table = {"N": [1e8], "D": [1e9], "r_d": [0.5], "loss_d": [2.0]}
    with pytest.warns(DeprecationWarning, match="argument share of read_runs.*use corpus"):
        runs = jl.read_runs(table, share="domain")
    with pytest.warns(DeprecationWarning, match="share is deprecated.*use for_corpus"):
        assert runs.share("general").corpus == "general"
    with pytest.warns(DeprecationWarning, match="Runs.areas is deprecated.*use area_options"):
        assert runs.areas is None
    with pytest.warns(DeprecationWarning, match="use read_loss_curves"):
        curves = jl.read_curves({"step": [1], "loss": [2.0]}, schedules="constant:lr=1,steps=1")
    with pytest.warns(DeprecationWarning, match="use LossCurves"):
        assert isinstance(curves, jl.Curves)
    with pytest.warns(DeprecationWarning, match="LossCurves.courses is deprecated"):
        assert list(curves.courses) == ["dict"]
    with pytest.warns(DeprecationWarning, match="use learnability_coefficients"):
        assert jl.learnability is jl.learnability_coefficients


def test_old_names_of_plans():
    for old, new in {
        "Replicates": "Draws",
        "BalanceCurve": "TradeoffCurve",
        "allocation_at": "tokens_or_size_for",
        "balance_curve": "tradeoff_curve",
        "lowest_losses": "loss_envelope",
        "optimal_mixture_limited": "optimal_mixture_data_limited",
        "optimal_shares": "optimal_domain_weights",
        "saved_compute": "compute_savings",
        "smallest_compute": "min_compute",
        "transferred": "data_transferred",
    }.items():
        with pytest.warns(DeprecationWarning, match=f"{old} is deprecated.*use.*{new}"):
            assert getattr(jl.planning, old) is getattr(jl.planning, new)


def test_old_names_of_fits():
    table, few = jl.simulate.experiment("kaplan").table, {"n_starts": 8}
    with pytest.warns(DeprecationWarning, match="argument screen of fit.*use n_local"):
        fit = jl.fit("kaplan", table, **{"screen": 2}, **few)
    with pytest.warns(DeprecationWarning, match="argument space of fit.*use residuals"):
        same = jl.fit("kaplan", table, **{"space": "log"}, n_local=2, **few)
    assert same.params == fit.params and fit.n_solved == 2
    with pytest.warns(DeprecationWarning, match="Fit.space is deprecated.*use residuals"):
        assert getattr(fit, "space") == "log"  # noqa: B009
    with pytest.warns(DeprecationWarning, match="argument space of law.*use residuals"):
        flat = jl.law(**{"space": "linear"}, name="flat")(lambda N, *, E=jl.real(): E + 0 * N)
    assert flat.residuals == "linear"


def test_old_names_of_plots():
    plots = pytest.importorskip("jaxlaw.plots")
    for old, new in {
        "both_ways": "crossover",
        "share_back": "critical_share",
        "way_back": "recovery",
    }.items():
        with pytest.warns(DeprecationWarning, match=f"{old} is deprecated.*use.*{new}"):
            assert getattr(plots, old) is getattr(plots, new)
