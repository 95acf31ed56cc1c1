"""Where a base stops paying."""

import numpy as np
import pytest

from jaxlaw import planning
from tests.fixtures.drawn_laws import CONTINUAL, SCRATCH, drawn

S, C = SCRATCH[1], CONTINUAL[1]
# With equal exponents of the data continual runs are ahead, or behind, at every budget.
AHEAD = ("cpt-chinchilla", {**C, "beta": 0.30, "B": 450.0, "gamma": 0.0})
BEHIND = ("cpt-chinchilla", {**C, "beta": 0.30, "B": 900.0, "gamma": 0.0})


def test_break_even_at_a_size_in_closed_form():
    plan = planning.break_even(SCRATCH, CONTINUAL, N=1.4e9)
    D = (S["B"] * 1.4e9 ** C["gamma"] / C["B"]) ** (1 / (S["beta"] - C["beta"]))
    assert plan.D == pytest.approx(D, rel=1e-9) and plan.pays == "below"
    assert plan.compute == pytest.approx(6 * 1.4e9 * D, rel=1e-9)
    for part, sign in ((0.9, 1), (1.1, -1)):
        there = planning.data_transferred(SCRATCH, CONTINUAL, N=1.4e9, D=plan.D * part)
        assert np.sign(there.transferred) == sign


def test_break_even_of_the_frontiers():
    plan = planning.break_even(SCRATCH, CONTINUAL)
    for law in (SCRATCH, CONTINUAL):
        assert planning.allocation(law, plan.compute).loss == pytest.approx(plan.loss, rel=1e-9)
    assert plan.pays == "below" and plan.along == "compute"


@pytest.mark.parametrize("law, pays", [(AHEAD, "always"), (BEHIND, "never")])
@pytest.mark.parametrize("at", [{}, {"N": 1e9}])
def test_always_and_never_are_answers(law, pays, at):
    plan = planning.break_even(SCRATCH, law, **at)
    assert plan.pays == pays and np.isnan(plan.D) and plan.compute == np.inf
    assert not plan.notes and plan.headline.startswith(f"continual training {pays} pays")


def test_draws_that_fall_on_the_other_side_are_counted():
    near = ("cpt-chinchilla", {**C, "beta": 0.298, "B": 680.0, "gamma": 0.0})
    plan = planning.break_even(drawn(SCRATCH), near, N=1e9)
    note = next(n for n in plan.notes if n.code == "draws-disagree")
    assert "%" in note.message and np.isnan(plan.draws["D"]).any()


def test_of_two_crossings_the_one_nearest_the_runs_is_the_answer():
    # Fitted apart, the two disagree on what size gives: far beyond the runs continual leads again.
    apart = ("cpt-chinchilla", {**C, "A": 0.95 * C["A"]})
    once, twice = (planning.break_even(SCRATCH, drawn(law), N=1e9) for law in (CONTINUAL, apart))
    D = np.geomspace(1e9, 1e11, 200_001)
    size = S["A"] / 1e9 ** S["alpha"]
    ours = C["E"] + 0.95 * size + C["B"] / D ** C["beta"] / 1e9 ** C["gamma"]
    ahead = ours < S["E"] + size + S["B"] / D ** S["beta"]
    assert once.pays == twice.pays == "below" and ahead[0]
    assert twice.D == pytest.approx(D[np.argmin(ahead)], rel=1e-4)
    low, high = twice.interval["D"]
    assert low < twice.D < high
    assert "several-solutions" in [n.code for n in twice.notes]
    assert "several-solutions" not in [n.code for n in once.notes]
