import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlaw._cse import share_across_cases, share_subexpressions
from jaxlaw.fitting._objective import evaluate
from tests.fixtures.fit_problems import fit_problem


def count(function, *arguments):
    """How often each operation on a whole array occurs, calls opened."""
    result = collections.Counter()

    def visit(jaxpr):
        for equation in jaxpr.eqns:
            names = ("jaxpr", "call_jaxpr", "body_jaxpr")  # the last of a loop over blocks of rows
            inner = next(filter(None, map(equation.params.get, names)), None)
            if inner is not None:
                visit(inner.jaxpr)
            elif equation.outvars[0].aval.ndim:
                result[equation.primitive.name] += 1

    visit(jax.make_jaxpr(function)(*arguments).jaxpr)
    return result


def test_what_repeats_is_done_once_and_what_differs_is_not():
    def repeats(x, y):
        return jnp.exp(x) + jnp.exp(y) + jnp.where(x > 1, jnp.exp(x), jnp.exp(2 * x) + 1)

    x, y = jnp.asarray([0.5, 1.5]), jnp.asarray([2.0, 0.25])
    assert count(repeats, x, y)["exp"] == 4
    assert count(share_subexpressions(repeats), x, y)["exp"] == 3
    np.testing.assert_array_equal(share_subexpressions(repeats)(x, y), repeats(x, y))


def test_cases_are_traced_once_and_share_what_they_have_in_common():
    traced = []

    def scaled(a, x):
        traced.append(a)
        return a * jnp.exp(x) + 1

    def several(x):
        return share_across_cases(scaled, [(np.float32(a), x) for a in (2, 3, 2)])

    x = jnp.asarray([0.5, 1.5])
    result = count(several, x)
    assert (result["exp"], result["mul"], len(traced)) == (1, 2, 1)
    for a, one in zip((2, 3, 2), several(x), strict=True):
        np.testing.assert_allclose(one, a * np.exp(x) + 1, rtol=1e-6)


def test_constants_differ_by_value_and_kind():
    def constants(x):
        return x * 2.0, x * 3.0, x * 2.0, x.astype(int) * 2

    result = share_subexpressions(constants)(jnp.asarray([1.0, 2.5]))
    for mine, plain in zip(result, constants(jnp.asarray([1.0, 2.5])), strict=True):
        np.testing.assert_array_equal(mine, plain)


def test_rules_of_derivatives_inside_are_kept():
    @jax.custom_jvp
    def odd(x):
        return x * x

    odd.defjvp(lambda primals, tangents: (odd(primals[0]), 100.0 * tangents[0]))
    slope = share_subexpressions(lambda x: jax.jvp(odd, (x,), (1.0,))[1])
    assert slope(jnp.asarray(3.0)) == 100.0


# chinchilla: N^-α, D^-β. dcpt: those, r^η, (r+ε)^-γ.
@pytest.mark.parametrize("law,powers", [("chinchilla", 2), ("dcpt", 4)])
def test_an_evaluation_does_every_power_of_its_law_once(law, powers):
    with jax.enable_x64(True):
        p = fit_problem(law)
        at = jnp.full(len(p.model.law.parameters), 0.5)
        result = count(lambda u: evaluate(p.model, p.data, u, p.data.delta, 1.0), at)
    assert result["exp"] == powers


def test_long_constants_that_differ_in_the_middle_stay_different():
    """Their text is the same: of more than 1,000 numbers numpy prints the ends."""
    table = np.ones(4_000)
    other = np.where(np.arange(4_000) == 2_000, 5.0, table)

    def constants(x):
        return (x * table).sum() + (x * other).sum()

    assert float(share_subexpressions(constants)(jnp.ones(4_000))) == 8_004
