"""In processes whose own programs JAX checks strictly, everything works as elsewhere."""

import os
import subprocess
import sys

import pytest

from tests.conftest import compiled_with

FLAGS = {
    "JAX_DEBUG_NANS": "1",
    "JAX_DEBUG_INFS": "1",
    "JAX_NUMPY_RANK_PROMOTION": "raise",
    "JAX_NUMPY_DTYPE_PROMOTION": "strict",
    "JAX_TRANSFER_GUARD": "disallow",
}
SCRIPT = """
import numpy as np, jax, jaxlaw as jl
table = jl.simulate.experiment("chinchilla", noise=0.004).table
fit = jl.fit("chinchilla", table)
jl.bootstrap(fit, table, n_resamples=4)
jl.covariance(fit, table)
jl.cross_validate("chinchilla", table, jl.folds.k_fold(2), n_starts=64, n_local=8)
jl.areas(np.linspace(1e-3, 1e-5, 50))
jl.planning.allocation(fit, 1e21)
fit.predict(N=1e9, D=1e10)
for name, strict in (("debug_nans", True), ("debug_infs", True), ("transfer_guard", "disallow"),
                     ("numpy_rank_promotion", "raise"), ("numpy_dtype_promotion", "strict")):
    assert getattr(jax.config, "jax_" + name) == strict, name  # the caller's own, as before
print("done")
"""


def ended(flags):
    environment = os.environ | flags | {"PYTHONPATH": os.pathsep.join(sys.path)}
    environment |= {"XLA_FLAGS": compiled_with()}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        env=environment, capture_output=True, text=True, timeout=500,
    )  # fmt: skip


@pytest.mark.full
def test_fits_resamples_folds_areas_and_plans_under_every_check_of_jax():
    result = ended(FLAGS)
    assert result.stdout == "done\n", result.stderr
