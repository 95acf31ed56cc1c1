"""A fitted law as a tree of JAX: its parameters are the leaves, all else is the structure."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlaw as jl

HERE = {"N": 1e9, "D": 2e10}
PRINTED = jl.published()["besiroglu-2024"]  # one of its ranges is not known: NaN


@pytest.mark.parametrize("through", [jax.device_get, jax.jit(lambda law: law)])
def test_a_fitted_law_comes_back_as_it_went_in(through):
    with jax.enable_x64(True):
        again = through(PRINTED)
    assert type(again) is jl.FittedLaw and jax.tree.structure(again) == jax.tree.structure(PRINTED)
    assert again.to_dict() == PRINTED.to_dict()


def test_a_fit_comes_back_without_its_evidence(chinchilla_fit, tmp_path):
    """Other parameters would make a lie of it; what the parameters mean stays."""
    moved = jax.tree.map(lambda value: 2 * value, chinchilla_fit)
    assert type(moved) is jl.FittedLaw and [note.code for note in moved.notes] == ["mapped"]
    assert moved.ranges == chinchilla_fit.ranges and not moved.is_extrapolation(**HERE)
    assert "R²" not in moved.summary() and "mapped" in moved.summary(verbose=True)
    with pytest.raises(jl.UsageError, match="went through JAX"):
        jl.covariance(moved, {"N": [1e9], "D": [1e9], "loss": [2.0]})
    moved.save(tmp_path / "fit.json")
    assert jl.load(tmp_path / "fit.json").to_dict() == moved.to_dict()
    assert "There is none" in jl.report(moved)


def test_the_structure_is_all_that_the_parameters_are_of(chinchilla_fit):
    structure = jax.tree.structure
    again = dataclasses.replace(chinchilla_fit, objective=1.0, notes=())
    assert structure(again) == structure(chinchilla_fit)
    others = [
        dataclasses.replace(chinchilla_fit, units={"N": 1e9, "D": 1.0}),
        dataclasses.replace(chinchilla_fit, ranges={}),
        dataclasses.replace(chinchilla_fit, area_options={"decay": 0.9}),
        dataclasses.replace(chinchilla_fit, law=dataclasses.replace(chinchilla_fit.law)),
    ]
    assert all(structure(other) != structure(chinchilla_fit) for other in others)
    with pytest.raises(ValueError, match="law chinchilla, units .*1000000000.0"):
        jax.tree.map(lambda a, b: a + b, chinchilla_fit, others[0])


def test_a_mapped_fit_predicts_and_plans_with_the_new_parameters(chinchilla_fit):
    fit = dataclasses.replace(chinchilla_fit, units={"N": 1e9, "D": 1e9})
    moved = jax.tree.map(lambda value: 1.01 * value, fit)
    assert moved.params == {name: 1.01 * value for name, value in fit.params.items()}
    by_hand = fit.law(moved.params, N=1e9, D=2e10)
    assert moved.predict(N=1, D=20) == pytest.approx(float(by_hand), rel=1e-6)  # float32 there
    assert moved.predict(N=1, D=20) != fit.predict(N=1, D=20)
    plan = jl.planning.allocation(moved, 1e21)
    assert plan.N != jl.planning.allocation(fit, 1e21).N


def test_laws_of_one_structure_stack_and_a_stack_is_not_taken_for_one(chinchilla_fit):
    fits = [PRINTED, PRINTED.with_params(chinchilla_fit.params)]
    both = jax.tree.map(lambda *leaf: np.stack(leaf), *fits)
    np.testing.assert_array_equal(both.predict(**HERE), [fit.predict(**HERE) for fit in fits])
    for one in (both.summary, both.to_dict, lambda: jl.planning.allocation(both, 1e21)):
        with pytest.raises(jl.UsageError, match=r"shapes \(2,\), not one law's: take one"):
            one()
    assert "law chinchilla with params" in repr(both)
    second = jax.tree.map(lambda leaf: leaf[1], both)
    assert second.predict(**HERE) == chinchilla_fit.predict(**HERE)
    json.dumps(second.to_dict())


def test_a_fit_goes_through_jit_and_grad_and_another_compiles_nothing(chinchilla_fit):
    traced = []

    @jax.jit
    def slope(fit):
        traced.append(1)
        return jax.grad(lambda fit: jnp.log(fit.law(fit.params, **HERE)))(fit)

    with jax.enable_x64(True):
        found = slope(chinchilla_fit)
        slope(dataclasses.replace(chinchilla_fit, params=PRINTED.params))
    assert len(traced) == 1 and isinstance(found, jl.FittedLaw)
    step = 1e-6 * chinchilla_fit.params["beta"]
    ends = [
        dataclasses.replace(
            chinchilla_fit,
            params=chinchilla_fit.params | {"beta": chinchilla_fit.params["beta"] + by},
        ).predict(**HERE)
        for by in (-step, step)
    ]
    by_hand = (np.log(ends[1]) - np.log(ends[0])) / (2 * step)
    assert float(found.params["beta"]) == pytest.approx(by_hand, rel=1e-6)


def test_a_share_in_percent_is_predicted_and_planned_in_percent():
    fit = jl.FittedLaw("dcpt", jl.simulate.TRUTHS["dcpt"], units={"r": 0.01})
    whole = jl.FittedLaw("dcpt", jl.simulate.TRUTHS["dcpt"])
    assert fit.predict(N=1, D=1, r=100) == whole.predict(N=1, D=1, r=1)
    with pytest.raises(jl.DataError, match=r"in \[0, 100\]"):
        fit.predict(N=1, D=1, r=101)
    with pytest.raises(jl.UsageError, match=r"r is 101; it must be in \[0, 100\]"):
        jl.planning.allocation(fit, 1e20, at={"r": 101})
