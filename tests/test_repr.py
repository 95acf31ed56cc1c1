"""What the console shows of a container: short, whatever its size, and what one asks first."""

import numpy as np
import pytest

import jaxlaw as jl
from tests.fixtures.curve_tables import logged, scheduled


@pytest.fixture(scope="module")
def shown():
    table = jl.simulate.experiment("chinchilla").table
    boot = jl.bootstrap("chinchilla", table, n_resamples=30, n_starts=16)
    return {
        "runs": jl.read_runs(table),
        "observations": jl.read_runs(table).observations("chinchilla"),
        "bootstrap": boot,
        "draws": boot.draws(),
        "covariance": jl.covariance(boot.fit, table),
        "study": jl.cross_validate("chinchilla", table, jl.folds.k_fold(3), n_starts=16),
        "schedule": jl.schedules.cosine(1e-3, 100_000),
        "experiment": jl.simulate.experiment("chinchilla"),
        "law": boot.fit.law,
        "folds": jl.folds.k_fold(3).split(table),
        "curves": jl.read_loss_curves(scheduled(logged())),
        "plan": jl.planning.allocation(boot, 1e21),
        "plans": jl.planning.frontier(boot, np.geomspace(1e19, 1e25, 200)),
    }


@pytest.mark.full
def test_every_container_is_short(shown):
    lengths = {name: len(repr(one)) for name, one in shown.items()}
    table = lengths.pop("plans")  # a table as pandas cuts it
    assert max(lengths.values()) < 500 and table < 8000, lengths
    assert not any("array(" in repr(one) for one in shown.values())
