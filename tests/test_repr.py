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


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("runs", "243 runs from DataFrame: N, D, loss"),
        (
            "bootstrap",
            "30 resamples (case) of 243; best determined: E 1.67 nats (90%: ",
        ),
        ("covariance", "chinchilla, sandwich covariance; best determined: E 1.67 nats (90%: "),
        ("schedule", "Schedule(rates=float64 (100000,), initial_lr=0.001, name='cosine')"),
        ("law", "<Law chinchilla: loss = E + A/N^α + B/D^β>"),
        ("folds", "held_out=bool (3, 243)"),
        ("study", "1 law × 1 data set × 3 folds"),
    ],
)
def test_a_representation_names_what_is_in_it(shown, name, says):
    assert says in repr(shown[name])


def test_loss_curves_say_how_many_points_there_are(shown):
    assert repr(shown["curves"]).splitlines() == [
        "2 loss curves, 70 points from DataFrame",
        "  steps    100 to 4000",
        "  runs     fall, hold",
        "  columns  run, step, lr, loss, schedule",
    ]


def test_a_plan_shows_its_summary(shown):
    assert repr(shown["plan"]) == shown["plan"].summary()
    assert "parameters (90%: " in repr(shown["plan"]) and "(6 of " in repr(shown["plans"])
