"""A fit as a tree of JAX: its parameters are the leaves, and evidence does not outlive them."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlaw as jl

HERE = {"N": 1e9, "D": 2e10}


def leaves_of(fit):
    return {
        jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(fit)
    }


def test_the_leaves_of_a_fit_are_its_parameters(chinchilla_fit):
    expected = {f".params['{name}']": value for name, value in chinchilla_fit.params.items()}
    assert leaves_of(chinchilla_fit) == expected


def test_the_structure_is_the_law_with_its_units_and_areas(chinchilla_fit):
    structure = jax.tree.structure
    again = dataclasses.replace(chinchilla_fit, objective=1.0, ranges={}, notes=())
    assert structure(again) == structure(chinchilla_fit)
    others = [
        dataclasses.replace(chinchilla_fit, units={"N": 1e9, "D": 1.0}),
        dataclasses.replace(chinchilla_fit, areas={"decay": 0.9}),
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
    assert "range-unknown" in {note.code for note in plan.notes}


def test_no_evidence_outlives_the_parameters_it_was_of(chinchilla_fit, tmp_path):
    moved = jax.tree.map(lambda value: 2 * value, chinchilla_fit)
    assert chinchilla_fit.has_evidence and not moved.has_evidence
    assert moved.status == "mapped" and [note.code for note in moved.notes] == ["mapped"]
    numbers = [moved.objective, moved.agreement, *moved.metrics.values()]
    assert np.isnan([*numbers, *np.ravel([*moved.ranges.values()])]).all()
    assert moved.n_observations == moved.n_solved == 0 and moved.runner_up is moved.ends is None
    assert "R²" not in moved.summary() and "went through JAX" in moved.summary()
    with pytest.raises(jl.UsageError, match="went through JAX"):
        jl.covariance(moved, {"N": [1e9], "D": [1e9], "loss": [2.0]})
    moved.save(tmp_path / "fit.json")
    assert jl.load(tmp_path / "fit.json").params == moved.params
    assert "there is none" in jl.report(moved)


def test_fits_of_one_law_stack_and_a_stack_is_not_taken_for_one(chinchilla_fit):
    fits = [jl.published()["besiroglu-2024"], chinchilla_fit]
    both = jax.tree.map(lambda *leaf: np.stack(leaf), *fits)
    np.testing.assert_array_equal(both.predict(**HERE), [fit.predict(**HERE) for fit in fits])
    for one in (both.summary, both.to_dict, lambda: jl.planning.allocation(both, 1e21)):
        with pytest.raises(jl.UsageError, match=r"shapes \(2,\), not one law's: take one"):
            one()
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
        slope(jl.published()["besiroglu-2024"])
    assert len(traced) == 1 and isinstance(found, jl.Fit)
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
