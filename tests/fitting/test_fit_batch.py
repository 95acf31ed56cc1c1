"""The pure-array core inside other programs: jit, grad, vmap, devices, trees, dtypes."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import _progress, planning
from jaxlaw.fitting import _fit_batch
from jaxlaw.fitting._objective import LARGEST_DELTA, huber
from tests.conftest import compiled_with, simulated_fit

TABLE = jl.simulate.experiment("chinchilla", noise=0.004).table
INPUTS = {name: TABLE[name].to_numpy() for name in ("N", "D")}
LOSS = TABLE["loss"].to_numpy()
BUDGET = 1e21


def fitted(losses, delta=jnp.inf):
    return jl.fit_batch("chinchilla", INPUTS, losses, starts=16, delta=delta)


def log_size(losses, delta):
    """Of the best model on a budget, by the fit of these losses: (P,)."""
    return jnp.log(planning.best_run("chinchilla", fitted(losses, delta).params, BUDGET).N)


in_jit = jax.jit(fitted)  # always of eight experiments, so that it compiles once
slope_of = jax.jit(jax.grad(lambda losses, delta: log_size(losses, delta)[0]))


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def batch():
    """Eight simulated experiments, the first the table's own."""
    with jax.enable_x64(True):
        noise = 0.004 * jax.random.normal(jax.random.key(0), (8, len(LOSS)))
        return LOSS * np.exp(np.asarray(noise.at[0].set(0.0)))


@pytest.mark.full
def test_inside_a_users_jit_it_finds_what_fit_finds(batch):
    found = in_jit(batch, 1e-3)
    fit = simulated_fit("chinchilla")
    for name, value in fit.params.items():
        assert float(found.params[name][0]) == pytest.approx(value, rel=1e-7)
    assert float(found.objective[0]) == pytest.approx(fit.objective, rel=1e-9)


@pytest.mark.full
@pytest.mark.parametrize("delta", [jnp.inf, 1e-3])
def test_a_plans_gradient_in_the_data_is_that_of_refits(delta):
    slope = np.asarray(slope_of(jnp.asarray(LOSS), delta))
    rows = np.argsort(np.abs(slope))[[-1, -2, -10, -20]]
    step = 1e-4 if delta == jnp.inf else 1e-6  # no point changes sides of the threshold
    moved = [LOSS + sign * step * (np.arange(len(LOSS)) == k) for k in rows for sign in (1, -1)]
    params = in_jit(np.array(moved), delta).params
    sizes = np.log(np.asarray(planning.best_run("chinchilla", params, BUDGET).N)).reshape(-1, 2)
    refits = (sizes[:, 0] - sizes[:, 1]) / (2 * step)
    np.testing.assert_allclose(slope[rows], refits, rtol=2e-3)
    assert np.abs(refits).min() > 1e-2


COMPUTE = np.geomspace(1e18, 1e22, 24)
OF_COMPUTE = 1.7 + 2.0 * (COMPUTE / 1e20) ** -0.2
WAYS = 0.05 * np.random.default_rng(0).normal(size=(2, len(COMPUTE)))


def of_compute(moved):
    """(2,) exponent and objective of losses moved along two ways, by (2,) shares."""
    losses = OF_COMPUTE * jnp.exp(0.3 * WAYS.sum(axis=0) + moved @ WAYS)
    starts = {"E": 1.6, "A": 8000.0, "gamma": 0.2}
    found = jl.fit_batch("loss-compute-e", {"C": COMPUTE}, losses, None, starts, delta=jnp.inf)
    return jnp.stack([jnp.log(found.params["gamma"][0]), 1e3 * found.objective[0]])


@pytest.mark.full
def test_second_derivatives_are_differences_of_first_ones_and_these_of_values():
    orders = of_compute, jax.jacrev(of_compute), jax.hessian(of_compute)
    all_three = jax.jit(lambda at: [function(at) for function in orders])
    at, step = np.array([0.2, -0.1]), 1e-3
    _, first, second = all_three(at)
    moved = [[all_three(at + sign * step * way) for sign in (1, -1)] for way in np.eye(2)]
    for order, found in ((0, first), (1, second)):
        differences = [(up[order] - down[order]) / (2 * step) for up, down in moved]
        np.testing.assert_allclose(found, np.stack(differences, axis=-1), rtol=1e-4)
    assert np.abs(second).min() > 1e-3


def test_the_slope_of_least_squares_is_the_residual_in_single_precision_too():
    """δ is then so large that nothing of a residual is left in a sum with it."""
    residuals = jnp.array([0.3, -0.02], jnp.float32)
    problem = SimpleNamespace(weight=jnp.ones(2, jnp.float32), asymmetry=1.0)
    slope = jax.grad(lambda off: huber(problem, off, LARGEST_DELTA))(residuals)
    np.testing.assert_allclose(slope, residuals, rtol=1e-6)


@pytest.mark.full
def test_experiments_of_other_designs_and_lengths_are_fitted_as_each_alone():
    """The shorter one is filled up with rows of weight 0; starts are each one's, and traced."""
    parts = [slice(0, 15), slice(4, 24)]
    rows = np.array([np.resize(np.arange(24)[part], 20) for part in parts])
    losses = OF_COMPUTE * np.exp(WAYS[0])
    weights = (np.arange(20) < [[15], [20]]).astype(float)
    starts = np.array([[[1.6, 8000.0, 0.2], [1.2, 90.0, 0.1]], [[1.5, 9000.0, 0.2], [1, 80, 0.1]]])
    found = jax.jit(
        lambda starts: jl.fit_batch(
            "loss-compute-e", {"C": COMPUTE[rows]}, losses[rows], weights, starts
        )
    )(starts)
    for k, part in enumerate(parts):
        inputs = {"C": COMPUTE[part]}
        alone = jl.fit_batch("loss-compute-e", inputs, losses[part], None, starts[k])
        for name, value in alone.params.items():
            assert float(found.params[name][k]) == pytest.approx(float(value[0]), rel=1e-8)


@pytest.mark.parametrize(
    "inputs,starts,message",
    [
        ({"C": np.ones((3, 24))}, 16, r"need \(24,\) or \(2, 24\)"),
        ({"C": COMPUTE}, np.ones((3, 1, 3)), r"\(S, 3\) or \(2, S, 3\)"),
        ({"C": COMPUTE}, {"E": 1.0, "A": 1.0}, "starts need the parameters E, A, gamma"),
    ],
)
def test_shapes_of_another_number_of_problems_are_refused(inputs, starts, message):
    with pytest.raises(jl.errors.UsageError, match=message):
        jl.fit_batch("loss-compute-e", inputs, np.stack([OF_COMPUTE] * 2), None, starts)


@pytest.mark.full
def test_over_simulated_experiments_by_vmap_each_is_as_alone(batch):
    together = np.asarray(in_jit(batch, jnp.inf).params["alpha"])
    mapped = jax.vmap(lambda losses: fitted(losses).params["alpha"][0])(jnp.asarray(batch))
    np.testing.assert_allclose(mapped, together, rtol=1e-7)
    assert np.ptp(together) > 1e-4


SHARDED = """
import json, re, sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tests.fitting.test_fit_batch import LOSS, fitted
with jax.enable_x64(True):
    losses = np.array(json.load(sys.stdin))
    alone = jax.jit(fitted)(losses)
    for how in ("auto", "map"):
        function, axis = fitted, PartitionSpec("experiment")
        mesh = jax.make_mesh((4,), ("experiment",))
        if how == "map":
            function = jax.shard_map(fitted, mesh=mesh, in_specs=axis, out_specs=axis,
                                     check_vma=False)
        else:
            mesh = Mesh(np.array(jax.devices()), ("experiment",))
        spread = jax.device_put(losses, NamedSharding(mesh, axis))
        compiled = jax.jit(function).lower(spread).compile()
        found = compiled(spread)
        same = all(np.allclose(found.params[k], v, rtol=1e-12, atol=0)
                   for k, v in alone.params.items())
        program = compiled.as_text()
        rows = sorted({int(n) for n in re.findall(rf"f64\\[(\\d+),{len(LOSS)}\\]", program)})
        moved = len(re.findall("all-(?:gather|to-all)|collective-permute", program))
        shards = [(s.device.id, s.data.shape[0]) for s in found.objective.addressable_shards]
        print(json.dumps([how, same, rows, moved, shards]))
"""


@pytest.mark.full
def test_over_devices_each_fits_its_own_share_to_the_same_numbers(batch):
    flags = f"--xla_force_host_platform_device_count=4 {compiled_with()}"
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SHARDED],
        input=json.dumps(batch.tolist()),
        env=os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stderr
    for line in ended.stdout.splitlines():
        how, same, rows, moved, shards = json.loads(line)
        assert same, how
        # Eight experiments on four devices: a program sees two, and no device asks for others'.
        assert (max(rows), moved) == (2, 0), how
        assert shards == [[0, 2], [1, 2], [2, 2], [3, 2]], how
    assert len(ended.stdout.splitlines()) == 2


def test_data_that_cannot_be_fitted_have_no_parameters_and_a_status_that_says_so():
    target, weight, C = (np.tile(one, (7, 1)) for one in (OF_COMPUTE, np.ones(24), COMPUTE))
    target[1, 3], target[2, 3], target[3, 3] = np.nan, -1.0, 0.0
    weight[4, 3], weight[5], C[6, 3] = -1.0, 0.0, 0.0

    @jax.jit
    def fit(target, weight, C):
        return jl.fit_batch("loss-compute-e", {"C": C}, target, weight, starts=16)

    found = fit(target, weight, C)
    assert found.ends == ["converged", *["invalid data"] * 6]
    for values in (*found.params.values(), found.agreement):
        assert np.isnan(values).tolist() == [False, *[True] * 6]
    assert np.isinf(found.objective).tolist() == [False, *[True] * 6]


def test_a_batch_is_a_tree_of_arrays(batch):
    found = in_jit(batch, jnp.inf)
    third = jax.tree.map(lambda leaf: leaf[2], found)
    assert isinstance(third, jl.fitting.BatchFit) and third.params["beta"].shape == ()
    host = jax.tree.map(np.asarray, found)
    assert len(jax.tree.leaves(host)) == 8 and isinstance(host.objective, np.ndarray)
    assert pd.DataFrame(host.params).shape == (8, 5)


@pytest.mark.full
def test_it_follows_the_dtype_of_the_targets():
    found = fitted(np.asarray(LOSS, np.float32), delta=1e-3)
    assert found.params["alpha"].dtype == jnp.float32
    exact = fitted(LOSS, delta=1e-3)
    for name, value in exact.params.items():
        assert float(found.params[name][0]) == pytest.approx(float(value[0]), rel=1e-4)
    whole = jl.fit_batch("chinchilla", INPUTS, np.round(LOSS).astype(int), starts=16)
    assert whole.objective.dtype == jnp.float64 and np.isfinite(whole.objective)


def test_called_again_it_compiles_nothing():
    fitted(LOSS)
    count = _fit_batch._solve._cache_size()
    fitted(LOSS * 1.01)
    assert _fit_batch._solve._cache_size() == count


def test_much_work_outside_of_jit_shows_what_is_done_and_gives_the_same_numbers(
    monkeypatch, capsys
):
    losses = LOSS * np.exp(0.004 * np.random.default_rng(0).normal(size=(7, len(LOSS))))
    with jax.enable_x64(True):
        whole = fitted(losses)
        monkeypatch.setattr(_fit_batch, "_PART", {"cpu": 2 * 16 * len(LOSS) * 5**2})
        monkeypatch.setattr(_progress, "_people_see", lambda: True)
        monkeypatch.setattr(_progress, "PATIENCE", 0.0)
        in_parts = fitted(losses)
        said = capsys.readouterr().err
        jax.jit(lambda losses: fitted(losses).objective)(losses)
    assert "jaxlaw: fit_batch of chinchilla, 16 starts each, 4 of 7 fits, 40%" in said
    assert not capsys.readouterr().err  # a part of the caller's own program
    for name, values in whole.params.items():
        np.testing.assert_allclose(in_parts.params[name], values, rtol=1e-9)
    assert repr(whole).startswith("BatchFit(params={'A': float64 (7,), ")


@pytest.mark.parametrize("starts", [16.0, np.float32(16)])
def test_a_number_of_starts_that_is_not_static_is_refused(starts):
    with pytest.raises(jl.UsageError, match="number of starts is a Python int"):
        jl.fit_batch("chinchilla", INPUTS, LOSS, starts=starts)


def test_jax_checks_of_the_callers_program_do_not_stop_it():
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        assert jl.fit_batch("chinchilla", INPUTS, LOSS, starts=4).ends == ["converged"]
