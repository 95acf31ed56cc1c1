"""Centre, chart and scale: every way there has its way back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlaw import laws
from jaxlaw.fitting import _starts as starts
from jaxlaw.fitting._transform import at_centre, in_own_units
from tests.fixtures.fit_problems import fit_problem
from tests.fixtures.solver_problems import problem

CASES = [(name, None) for name in laws.names()] + [("dcpt", "paper"), ("dcpt", "observed")]


def sample(law, count=16):
    values = starts.sobol(law, count, 1)
    return values, dict(zip(law.parameter_names, values.T, strict=True))


@pytest.mark.full
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("name,constraint", CASES)
def test_to_coordinates_and_back(name, constraint, linear):
    """Natural values return as they were; a raised parameter was given as its excess."""
    with jax.enable_x64(True):
        p = fit_problem(name, constraint, linear=linear)
        law = p.model.law
        params = in_own_units(law, sample(law)[1], p.means)
        at = p.transform.from_natural(params, start=True)
        assert at.shape == (16, len(law.parameters)) and np.isfinite(at).all()
        back = p.transform.to_natural(tuple(jnp.asarray(at.T)))
        np.testing.assert_allclose(p.transform.from_natural(back), at, rtol=1e-7, atol=1e-7)
        if constraint:
            raised = law.constraint.raises
            least = law.constraint.least(back, p.data.context)
            assert (np.asarray(least) > 0).all()
            back[raised] = back[raised] - least
        for key, value in params.items():
            np.testing.assert_allclose(back[key], value, rtol=1e-7, atol=1e-9, err_msg=key)


@pytest.mark.parametrize("name", laws.names())
def test_recentring_changes_the_unit_and_not_the_law(name):
    with jax.enable_x64(True):
        law, truth = laws.get(name), problem(name).truth
        inputs, target = problem(name).arrays()
        centre = {
            key: float(np.exp(np.log(inputs[key]).mean()))
            for key in {key for spec in law.parameters for key in (spec.centre or {})}
        }
        moved = at_centre(law, truth, centre)
        # Unique tokens are compared with tokens: the two have one unit.
        unit = centre | {"U": centre.get("D", 1.0)}
        scaled = {key: values / unit.get(key, 1.0) for key, values in inputs.items()}
        np.testing.assert_allclose(law(moved, **scaled), target, rtol=1e-11)
        back = in_own_units(law, moved, centre)
    assert back == pytest.approx(dict(truth), rel=1e-9)


@pytest.mark.full
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("name,constraint", CASES)
def test_the_box_is_in_order_and_holds_the_starting_range(name, constraint, linear):
    with jax.enable_x64(True):
        p = fit_problem(name, constraint, linear=linear)
        low, high = p.transform.bounds()
        assert np.isfinite(low).all() and (low < high).all()
        params = in_own_units(p.law, sample(p.law, 64)[1], p.means)
        at = p.transform.from_natural(params, start=True)
        assert ((at >= low) & (at <= high)).mean() > 0.99


def test_a_constraint_is_met_by_construction_wherever_the_search_goes():
    with jax.enable_x64(True):
        p = fit_problem("dcpt", "paper")
        low, high = np.asarray(p.data.low), np.asarray(p.data.high)
        share = np.random.default_rng(0).uniform(0.0, 0.05, (50, len(low)))
        at = low + share * np.minimum(high - low, 20)
        params = p.params(at)
        D = float(p.data.context["D"])
        # Que 2024, App. E.3: C above C0.
        least = (
            params["B"] * params["eta"] * (1 + params["eps"]) ** (params["gamma"] + 1)
            / (params["gamma"] * D ** params["beta"])
        )  # fmt: skip
        assert (params["eta"] >= 1.0).all()
        assert (params["C"] >= least * (1 - 1e-9)).all()


def test_params_are_at_the_users_values_to_the_last_bit():
    with jax.enable_x64(True):
        p = fit_problem("chinchilla", fixed={"A": 406.4, "alpha": 0.34}, tied={"beta": "alpha"})
        values = starts.sobol(p.model.law, 8, 0)
        params = p.params(p.coordinates_of_starts(values))
    assert (params["A"] == 406.4).all() and (params["alpha"] == 0.34).all()
    assert (params["beta"] == params["alpha"]).all()


def test_a_pinned_coefficient_keeps_its_input_uncentred():
    with jax.enable_x64(True):
        assert set(fit_problem("chinchilla").data.centre) == {"N", "D"}
        assert set(fit_problem("chinchilla", bounds={"A": (1.0, 1e6)}).data.centre) == {"D"}
        # Held together with its exponent, its value at the centre is known.
        assert set(fit_problem("chinchilla", fixed={"A": 400.0, "alpha": 0.3}).data.centre) == {
            "N",
            "D",
        }
