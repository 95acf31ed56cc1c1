"""A plan as a pure function: the numbers of the plan, its derivatives, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlaw import planning
from jaxlaw.errors import UsageError
from tests.conftest import jitted_for_once
from tests.fixtures.drawn_laws import CONTINUAL, DOMAIN, SCRATCH, TRUTHS


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.full
@pytest.mark.parametrize(
    "pair, inputs",
    [(SCRATCH, {}), (CONTINUAL, {}), (DOMAIN, {"r": 0.5}), (("kaplan", TRUTHS["kaplan"]), {})],
)
def test_it_is_the_plan_for_any_law_of_size_and_data(pair, inputs):
    computes = np.array([1e20, 3e21])
    found = jax.jit(lambda C: planning.best_run(*pair, C, at=inputs))(computes)
    for k, compute in enumerate(computes):
        plan = planning.allocation(pair, compute, at=inputs)
        for name in ("N", "D", "loss"):
            assert float(getattr(found, name)[k]) == pytest.approx(getattr(plan, name), rel=1e-7)


def test_its_derivatives_are_those_of_the_closed_form():
    law, params = SCRATCH[0], dict(SCRATCH[1])

    def closed(params):
        A, B, alpha, beta = (params[name] for name in ("A", "B", "alpha", "beta"))
        G = (alpha * A / (beta * B)) ** (1 / (alpha + beta))
        return G * (1e21 / 6) ** (beta / (alpha + beta))

    def along(log_C):
        return jnp.log(planning.best_run(law, params, jnp.exp(log_C)).N)

    searched = jax.grad(lambda params: planning.best_run(law, params, 1e21).N)(params)
    for name, slope in jitted_for_once(jax.grad(closed))(params).items():
        assert float(searched[name]) == pytest.approx(float(slope), rel=1e-6, abs=1e-3)
    a = jitted_for_once(jax.grad(along))(48.0)
    assert float(a) == pytest.approx(params["beta"] / (params["alpha"] + params["beta"]), rel=1e-6)


def test_a_law_without_a_best_size_has_none_there():
    rising = {**CONTINUAL[1], "gamma": CONTINUAL[1]["beta"] + 0.1}
    found = planning.best_run("cpt-chinchilla", rising, [1e20, 1e21])
    assert np.isnan(np.asarray(found)).all() and found.N.shape == (2,)


@pytest.mark.parametrize(
    "law, params, inputs, message",
    [
        ("chinchilla", {"E": 1.0}, {}, "has the parameters E, A, B, alpha, beta, not E"),
        ("chinchilla", {**SCRATCH[1], "gama": 1.0}, {}, "not A, B, E, alpha, beta, gama"),
        ("dcpt", DOMAIN[1], {}, "the inputs N, D, r, not D, N"),
        ("annealing", TRUTHS["annealing"], {}, "has the inputs S1, S2, not D, N"),
    ],
)
def test_what_does_not_fit_the_law_is_refused_by_name(law, params, inputs, message):
    with pytest.raises(UsageError, match=message):
        planning.best_run(law, params, 1e21, at=inputs)
