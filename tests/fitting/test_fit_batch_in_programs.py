"""Laws inside a caller's programs: each transform, both precisions, each backend.

What is compiled is little: two programs a law. What a backend would run is lowered, not compiled.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import jaxlaw as jl
from jaxlaw.fitting.solvers import Status
from jaxlaw.laws import _base as base
from tests.fixtures.solver_problems import SIGNED, problem

ROWS = 40
MESH = Mesh(np.array(jax.devices()[:1]), ("experiment",))


#: One of each form: free exponents, one term, a share, a constraint, a schedule's areas, a score.
SEVERAL = ("chinchilla", "kaplan", "dcpt:paper", "annealing", "sigmoid")


@pytest.fixture(scope="module", params=SEVERAL)
def case(request):
    """A law with inputs, targets (2, n) and starts (2, p)."""
    law = base._REGISTRY[request.param]
    made = problem(law.name)
    inputs, target = made.arrays(noise=0.004)
    rows = np.random.default_rng(0).permutation(len(target))[:ROWS]
    inputs, target = {name: values[rows] for name, values in inputs.items()}, target[rows]
    starts = made.starts(2, spread=0.02)
    if law.constraint is not None:  # given as its excess over the least value
        starts[:, law.parameter_names.index(law.constraint.raises)] *= 0.5
    return law, inputs, np.stack([target, target * 1.01]), starts


def levels(law, inputs, params):
    """The mean logarithm of what each fit predicts, (2,), or the mean of what may be negative."""
    predicted = jax.vmap(lambda one: law(one, **inputs))(params)
    return jnp.mean(predicted if law.name in SIGNED else jnp.log(predicted), axis=1)


def fitted(law, inputs, targets, starts):
    return jl.fit_batch(law, inputs, targets, starts=starts, delta=jnp.inf)


def exported(law, *arrays):
    """``jit`` of ``shard_map`` of ``vmap`` of ``grad`` of a fit, lowered for each backend.

    All but the law is traced. Called, it gives (level (2,), fit) and slopes in the targets.
    """

    def level(target, inputs, starts):
        found = fitted(law, inputs, target, starts)
        return levels(law, inputs, found.params)[0], jax.tree.map(lambda leaf: leaf[0], found)

    def shard(inputs, targets, starts):
        slope = jax.value_and_grad(level, has_aux=True)
        return jax.vmap(slope, (0, None, None))(targets, inputs, starts)

    shared, split = PartitionSpec(), PartitionSpec("experiment")
    over = jax.shard_map(
        shard, mesh=MESH, in_specs=(shared, split, shared), out_specs=split, check_vma=False
    )
    program = jax.export.export(jax.jit(over), platforms=("cpu", "cuda", "tpu"))(*arrays)
    return jax.jit(program.call)


def kinds(tree):
    return {leaf.dtype for leaf in jax.tree.leaves(tree)} - {np.dtype(np.int32)}


@pytest.mark.full
def test_every_transform_in_double_an_eager_call_in_single_precision(case):
    law, inputs, targets, starts = case
    with jax.enable_x64(True):
        program = exported(law, inputs, targets, starts)
        (level, found), slopes = program(inputs, targets, starts)
        assert kinds((found, slopes)) == {np.dtype(np.float64)}
        predicted = jax.vmap(lambda one: law(one, **inputs))(found.params)
        off = np.log(predicted / targets) if law.residuals == "log" else predicted - targets
        # The objective reported is that of the parameters reported.
        np.testing.assert_allclose(found.objective, np.sum(off**2, axis=1) / 2, rtol=1e-9)
        # The slopes in the targets, along one direction in each, against refits.
        ways = np.random.default_rng(1).normal(size=targets.shape) * targets
        (there, up), _ = program(inputs, targets + 1e-4 * ways, starts)
        (back, down), _ = program(inputs, targets - 1e-4 * ways, starts)
        ended = np.all([fit.status == Status.CONVERGED for fit in (found, up, down)], axis=0)
        assert ended.all() or law.constraint is not None  # whose optimum may be a kink
        along, refitted = np.sum(slopes * ways, axis=1), (there - back) / 2e-4
        # Terms of either sign may cancel, and what a difference leaves out does not with them.
        size = np.linalg.norm(slopes * ways, axis=1)
        assert (np.abs(along - refitted) <= 2e-3 * np.abs(refitted) + 1e-4 * size)[ended].all()
    with jax.enable_x64(False):
        single = fitted(law, inputs, targets, starts)
        assert kinds(single) == {np.dtype(np.float32)}
        again = np.asarray(levels(law, inputs, single.params))
    np.testing.assert_allclose(again, level, atol=1e-4)
