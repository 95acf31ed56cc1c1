"""Laws of ladders: what a base brings, and what continual tokens add to it."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.errors import UsageError
from tests.conftest import DATA, needs_data

PARAMS = {"E": 0.7, "A": 150.0, "gamma": 0.13, "g_cpt": 0.6, "beta_cpt": 0.2, "delta": 0.03}
AT = {"C": np.array([1e19, 1e22]), "D_cpt": 4e9}


def test_an_additive_law_is_a_sum_of_powers_and_else_tokens_gain_less_on_a_larger_base():
    law = jl.laws.continual(family="additive")
    gain = PARAMS["E"] * PARAMS["g_cpt"]
    plain = PARAMS["E"] - gain + 150 * AT["C"] ** -0.13 + gain * 1e9**0.2 * 4e9**-0.2
    np.testing.assert_allclose(law(PARAMS, **AT), plain, rtol=1e-5)
    base = jl.laws.get("loss-compute-e")({k: PARAMS[k] for k in ("E", "A", "gamma")}, C=AT["C"])
    fading = jl.laws.continual()
    np.testing.assert_allclose(fading(PARAMS, **AT | {"D_cpt": 1e9}), base, rtol=1e-6)
    small, large = base - fading(PARAMS, **AT)
    assert small / large == pytest.approx(1e3**0.03, rel=1e-3)


def test_a_ratio_raises_the_gain_and_a_swept_rate_has_a_best_one():
    law = jl.laws.continual(ratio="r", lr="lr")
    more = {"eta_cpt": 1.0, "F_cpt": 0.1, "mu_cpt": 0.5, "eps_cpt": 0.01, "s_lr": 0.5, "k": 0.0}
    more |= {"lr_0": 1e-3, "lr_C": 0.0, "h_lr": 0.02}
    at = {"C": 1e20, "D_cpt": np.array([1e9, 4e9]), "lr": 1e-3}
    pure, mixed = (np.asarray(law(PARAMS | more, **at, r=r)) for r in (1.0, 0.5))
    np.testing.assert_allclose(pure, jl.laws.continual()(PARAMS, C=1e20, D_cpt=at["D_cpt"]), 1e-5)
    assert mixed[0] - mixed[1] == pytest.approx((pure[0] - pure[1]) / 2, rel=1e-3)
    assert float(law(PARAMS | more, **at | {"lr": 4e-3}, r=1.0)[0]) > 1.01 * pure[0]


@pytest.mark.parametrize(
    "options", [{"base": "D"}, {"tokens": "C"}, {"ratio": "D_cpt"}, {"lr": "peak"}]
)
def test_laws_that_there_are_not(options):
    with pytest.raises(UsageError, match="base is|a name is taken|lr is"):
        jl.laws.continual(**options)


@needs_data
def test_bases_beyond_the_ladder_are_inside_the_intervals():
    ladder = pd.read_csv(f"{DATA}/midtraining_ladder.csv")
    later = ladder[ladder["base_compute"] > 3e20]
    forecast = jl.forecast(
        ladder[ladder["base_compute"] <= 3e20], later[["N", "D_cpt"]],
        jl.laws.continual("N"), groups="scale",
    )  # fmt: skip
    off = forecast.table["estimate"].to_numpy() / later["loss"].to_numpy() - 1
    assert np.abs(off).mean() < 0.01
    low, high = forecast.table[["low", "high"]].to_numpy().T
    assert ((low <= later["loss"]) & (later["loss"] <= high)).sum() >= 5
    assert (high - low).max() / 2 < 0.05 * later["loss"].max()


def test_more_continual_tokens_than_any_run_had_are_beyond_the_runs():
    C, D = np.meshgrid([1e19, 1e20, 1e21], [5e8, 2e9])
    law = jl.laws.continual()
    runs = jl.simulate.simulate_runs(law, PARAMS, {"C": C, "D_cpt": D}, noise=0.003)
    params = jl.posterior(law, runs).params
    assert params["end_D_cpt"][0] == 2e9 and params["slope_D_cpt"].std() > 0.005
    forecast = jl.forecast(runs, {"C": 1e21, "D_cpt": [2e9, 2e10]}, law)
    assert "unseen-input" not in [note.code for note in forecast.notes]
    assert forecast.table["from_misfit"][1] > 0.2 > forecast.table["from_misfit"][0]
