"""FLOPs of the runs' own table: said where they are not 6·N·D, and taken where they are mapped."""

import dataclasses

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw.data import RunFlops, counted_flops, training_flops
from jaxlaw.notes import Note
from tests.fixtures.run_tables import simple

OWN = RunFlops(scale=3.0, power=-0.05, low=1.1, high=2.0, largest=1e21)


def table(**columns):
    """Runs whose head and attention cost as much again as the smallest of them."""
    made = simple()
    factor = 1 + (made["N"].min() / made["N"]) ** 0.5
    return made.assign(spent_flops=6.0 * made["N"] * made["D"] * factor, **columns)


def seen(runs, law="chinchilla", **reading):
    found = jl.read_runs(runs, **reading).observations(law)
    return found, [note for note in found.notes if note.code.startswith("flops")]


def test_flops_that_are_not_6nd_are_taken_and_said():
    runs = table()
    found, (note,) = seen(runs.rename(columns={"spent_flops": "train_flops"}))
    assert found.flops is not None and note.code == "flops-of-table"
    assert "train_flops is 1.35 to 2 times 6·N·D" in note.message
    in_exa = runs.assign(spent_flops=runs["spent_flops"] / 1e18)
    assert seen(runs.rename(columns={"spent_flops": "C"}).assign(flops=1.0))[0].flops is not None
    for source, units in ((runs, {}), (in_exa, {"C": 1e18})):
        found, (note,) = seen(source, columns={"C": "spent_flops"}, units=units)
        assert note.code == "flops-of-table" and not note.decides
        assert found.flops.largest == pytest.approx(runs["spent_flops"].max())
        counted = counted_flops(*found.flops.numbers, runs["N"].to_numpy(), runs["D"].to_numpy())
        np.testing.assert_allclose(counted, runs["spent_flops"], rtol=0.1)
    found, (note,) = seen(in_exa, columns={"C": "spent_flops"})
    assert found.flops is None and note.severity == "warning" and "units={'C': …}" in note.message


def test_columns_that_are_6nd_or_no_compute_are_left_alone():
    exact = 6.0 * simple()["N"] * simple()["D"]
    assert seen(simple().assign(flops=exact))[1] == []
    for named in (exact, exact / 1e18, exact / simple()["D"], "a"):  # called C, whatever it is
        assert seen(simple().assign(C=named))[0].flops is None
    assert seen(table(C=exact), "loss-compute")[1] == []


def test_distances_and_files_take_the_flops_of_the_runs(tmp_path):
    plain = jl.published()["besiroglu-2024"]
    fit = dataclasses.replace(plain, ranges={"N": (1e8, 1e9), "D": (2e9, 2e10)}, flops=OWN)
    N, D = 1e10, 2e11
    cost = 6 * N * D * 1.1  # the factor is held at its least
    assert fit.times_beyond({"N": N, "D": D}) == pytest.approx(cost / 1e21)
    fit.save(tmp_path / "fit.json")
    assert jl.load(tmp_path / "fit.json").flops == OWN
    point = {"N": np.array([N]), "D": np.array([D])}
    assert training_flops(point, OWN) == pytest.approx(cost)


@pytest.mark.full
def test_plans_spend_the_flops_of_the_runs():
    fit = dataclasses.replace(jl.published()["besiroglu-2024"], flops=OWN)
    plan = jl.planning.allocation(fit, 1e20)
    at = np.array([plan.N]), np.array([plan.D])
    assert counted_flops(*OWN.numbers, *at) == pytest.approx(1e20)
    by_hand = jl.planning.allocation(
        dataclasses.replace(fit, flops=None), 1e20,
        cost=lambda N, D: 6 * N * D * (3.0 * N**-0.05).clip(1.1, 2.0),
    )  # fmt: skip
    assert plan.N == pytest.approx(by_hand.N)
    assert "FLOPs are 6·N·D" in jl.planning.allocation_law(fit).headline
    note = Note("flops-differ", "warning", "", inherited=True)
    other = dataclasses.replace(fit, flops=None, notes=(note,))
    assert "FLOPs are 6·N·D" in jl.planning.allocation(other, 1e20).headline
