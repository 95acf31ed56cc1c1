"""What an answer says to do next: one line after its headline, and only where it is known."""

import dataclasses
import json

import pytest

import jaxlaw as jl
from jaxlaw import planning
from jaxlaw.cli._show import _in_shell
from jaxlaw.notes import LOOSE_FIT, REMEDIES, Note, beyond_step, largest_run_step, remedy_of
from tests.fixtures.command_files import a_forecast
from tests.fixtures.drawn_laws import DOMAIN, TRUTHS, drawn


def known(pair=("chinchilla", TRUTHS["chinchilla"])):
    """A law with draws whose runs reach up to 6e21 FLOPs."""
    boot = drawn(pair)
    fit = dataclasses.replace(boot.fit, joint_ranges={"N*D": (1e17, 1e21), "D/N": (1.0, 1000.0)})
    return dataclasses.replace(boot, fit=fit)


UNSEEN = Note("unseen-ratio", "warning", "D/N of 900, which no run had")
OTHER = Note("unidentifiable", "warning", "rely on predictions")


@pytest.mark.parametrize(
    ("notes", "code"),
    [
        ([UNSEEN], "unseen-ratio"),
        ([Note("filtered", "info", "9 of 12"), UNSEEN], "unseen-ratio"),
        ([OTHER, UNSEEN], ""),  # the note that decides most says its own remedy
        ([UNSEEN, Note("poor-fit", "error", "R² is 0.1")], "poor-fit"),
        ([Note("unseen-ratio", "info", "…")], ""),
        ([], ""),
    ],
)
def test_it_is_the_remedy_of_the_note_that_decides_most(notes, code):
    assert remedy_of(notes) == REMEDIES.get(code, "")


def test_far_from_the_runs_a_plan_says_what_would_narrow_it():
    boot = known()
    far, near = planning.allocation(boot, 1e25), planning.allocation(boot, 1e20)
    assert far.beyond > 10 and near.beyond < 10 and near.next_step == ""
    at = f"{{'N': {far.N:.3g}, 'D': {far.D:.3g}}}".replace("e+", "e")
    assert far.next_step == f"jl.forecast(runs, at={at})  # the interval of a new run"
    alone = planning.allocation(boot.fit, 1e25)
    assert alone.next_step == far.next_step
    opening = alone.summary().partition("\nN    ")[0].splitlines()
    assert [line[:6] for line in opening].count("Next: ") == 1
    assert opening[-1].startswith("Next: jl.forecast(")  # below the headline, above the numbers
    assert f"Next: {alone.next_step[:11]}" in alone._repr_html_()
    assert json.loads(json.dumps(alone.to_dict()))["next_step"] == alone.next_step
    # Of many budgets it is the largest; an answer that is not to be used says nothing of runs.
    many = planning.frontier(boot, [1e20, 1e25])
    assert many.next_step == far.next_step
    grave = dataclasses.replace(far, notes=(Note("doubtful-fit", "error", "…"),))
    assert grave.next_step == ""


def test_the_other_inputs_of_a_law_are_in_the_point():
    plan = planning.allocation(known(DOMAIN), 1e25, at={"r": 0.5})
    assert plan.next_step.startswith("jl.forecast(runs, at={'N': ")
    assert "'r': 0.5}" in plan.next_step
    best = planning.allocation(known(DOMAIN).fit, 1e25, at={"r": "best"}, limits={"r": (0.1, 0.9)})
    assert "'r': " in best.next_step and "best" not in best.next_step


def test_labels_are_in_the_point_as_they_are():
    law = jl.laws.grouped("chinchilla", ["c4", "pile"], own=["B"])
    truth = dict(TRUTHS["chinchilla"])
    B = truth.pop("B")
    boot = known((law.name, truth | {"B[c4]": B, "B[pile]": 0.9 * B}))
    worth = planning.compute_multiplier(
        boot, [1e20, 1e25], reference={"group": "c4"}, at={"group": "pile"}
    )
    assert worth.point["group"] == "c4" and "'group': 'c4'" in worth.next_step
    plan = planning.allocation(boot, 1e25, at={"group": "pile"})
    assert plan.point["group"] == "pile" and "'group': 'pile'" in plan.next_step


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("jl.forecast(runs, at={'N': 1.8e10, 'D': 3e12})  # it",
         "jaxlaw forecast runs.csv --at N=1.8e10,D=3e12 --out forecast.json  # it"),
        ("jl.forecast(runs, at={'N': 1e9, 'group': 'c4'})",
         "jaxlaw forecast runs.csv --at N=1e9,group=c4 --out forecast.json"),
        (REMEDIES["at-bound"], REMEDIES["at-bound"]),
        (largest_run_step(20.0), largest_run_step(20.0)),
        ("jl.posterior adds a prior from public experiments", ""),  # no command does it
    ],
)  # fmt: skip
def test_the_shell_says_it_as_a_command(step, said):
    assert _in_shell(step, {"runs": "runs.csv"}) == said


def test_a_loose_fit_is_followed_by_the_same_plan_of_a_forecast(monkeypatch):
    plan = ["plan", "allocation", "fit.json", "--compute", "1e21"]
    monkeypatch.setattr("sys.argv", ["jaxlaw", *plan, "--out", "plan.json"])
    step = beyond_step({"N": 1e9, "D": 2e10}, REMEDIES[LOOSE_FIT])
    line = _in_shell(step, {"runs": "runs.csv", "fit": "fit.json"})
    assert " --out forecast.json && jaxlaw plan allocation forecast.json --compute 1e21  #" in line


def test_a_limit_that_holds_an_optimum_back_is_to_be_widened():
    plan = planning.allocation(known(), 1e21, limits={"N": (None, 1e9)})
    assert plan.next_step == "widen the limits and plan again"
    best = planning.minimise(
        known(), over={"N": (1e8, 1e9), "D": None}, subject_to=[planning.Budget(1e21)]
    )
    assert best.next_step == "widen the limits and plan again"


def test_a_forecast_far_from_its_runs_asks_for_the_largest_run():
    made = a_forecast()
    assert made.next_step == ""  # ±1.7 %: not wide
    wide = dataclasses.replace(made, table=made.table.assign(low=1.9, high=2.3))
    assert wide.next_step == largest_run_step(20.0)
    assert wide.next_step.startswith("the most informative next run is the largest you can afford")
    noisy = dataclasses.replace(wide, table=wide.table.assign(from_noise=0.9))
    assert noisy.next_step == ""  # most of its width is run-to-run noise


def test_few_rows_ask_for_a_prior_where_one_knows_the_law():
    runs = jl.simulate.experiment("chinchilla", noise=0.004).table.iloc[::25]
    fit = jl.fit("chinchilla", runs, n_starts=64, n_local=8)
    assert {note.code for note in fit.notes if note.decides} & {"loose", "few-spare-rows"}
    assert fit.next_step.startswith("jl.forecast(runs, at={'N': ")
    assert "Next: jl.forecast(runs" in fit._repr_html_()
    assert dataclasses.replace(fit, n_observations=400).next_step == ""
