"""A user's laws at the top level of a module, which other processes import."""

import jaxlaw as jl


@jl.law(name="importable")
def importable(N, *, E=jl.positive(0.5, 3), A=jl.positive(0.1, 10), alpha=jl.exponent()):
    return E + A * jl.power(N / 1e8, -alpha)


assigned = jl.law(lambda N, *, E=jl.positive(0.5, 3): E + 0 * N, name="assigned")
