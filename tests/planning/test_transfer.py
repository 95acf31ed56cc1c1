"""From scratch against continual."""

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import planning
from tests.fixtures.drawn_laws import CONTINUAL, SCRATCH, drawn

S, C = SCRATCH[1], CONTINUAL[1]


def test_transferred_data_in_closed_form():
    N, D = 1.4e9, 1e9
    plan = planning.data_transferred(SCRATCH, CONTINUAL, N=N, D=D)
    term = C["B"] / (D ** C["beta"] * N ** C["gamma"])
    scratch = (S["B"] / term) ** (1 / S["beta"])
    assert plan.scratch_D == pytest.approx(scratch, rel=1e-9)
    assert plan.transferred == pytest.approx(scratch - D, rel=1e-8)
    assert plan.saved == pytest.approx(1 - D / scratch, rel=1e-8)
    doubled = planning.data_transferred(SCRATCH, CONTINUAL, N=N, D=D, cost=lambda N, D: 12 * N * D)
    assert doubled.saved == pytest.approx(plan.saved, rel=1e-9)


def test_a_loss_that_scratch_never_reaches():
    floor = S["E"] + S["A"] / 1e9 ** S["alpha"]
    better = ("cpt-chinchilla", {**C, "A": 300.0})
    plan = planning.data_transferred(SCRATCH, better, N=1e9, D=1e20)
    assert plan.loss < floor
    assert plan.scratch_D == np.inf and plan.transferred == np.inf and plan.saved == 1
    assert [(n.code, n.severity) for n in plan.notes] == [("out-of-reach", "error")]
    many = planning.data_transferred(drawn(SCRATCH), CONTINUAL, N=1e9, D=1e18)
    assert np.isinf(many.draws["scratch_D"]).any() and np.isfinite(many.scratch_D)
    (note,) = (note for note in many.notes if note.code == "draws-disagree")
    assert "have an infinite number of tokens from scratch" in note.message


def test_past_the_crossing_transfer_is_negative():
    plan = planning.data_transferred(SCRATCH, CONTINUAL, N=1.4e9, D=1e10)
    assert plan.transferred < 0 and "sooner" in plan.headline


def test_the_table_holds_the_single_answers():
    scratch, continual = drawn(SCRATCH), drawn(CONTINUAL)
    table = planning.data_transferred(scratch, continual, N=[1e9, 4e9], D=[1e9, 1e10]).table
    plan = planning.data_transferred(scratch, continual, N=4e9, D=1e9)
    row = table[(table["N"].round() == 4e9) & (table["D"].round() == 1e9)].iloc[0]
    assert row["saved"] == pytest.approx(plan.saved, rel=1e-12)
    assert (row["saved_low"], row["saved_high"]) == pytest.approx(plan.interval["saved"])
    # Zheng 2024, §4.3: saved compute falls along a run, and larger models transfer more.
    saved = table.pivot(index="N", columns="D", values="saved").to_numpy()
    assert (saved[:, 0] > saved[:, 1]).all() and (saved[1] > saved[0]).all()


def test_inputs_that_one_of_the_laws_lacks_are_asked_for():
    with pytest.raises(jl.UsageError, match="also needs r; give"):
        planning.data_transferred(SCRATCH, ("dcpt", jl.simulate.TRUTHS["dcpt"]), N=1, D=1)
