"""What an answer says to do next: one line after its headline, and only where it is known."""

import dataclasses
import json

import pytest

import jaxlaw as jl
from jaxlaw import planning
from jaxlaw._result import RESULTS
from jaxlaw.notes import REMEDIES, Note, beyond_step, largest_run_step, remedy_of, worded
from tests.fixtures.command_files import a_forecast
from tests.fixtures.drawn_laws import CONTINUAL, DOMAIN, GENERAL, TRUTHS, drawn
from tests.test_notes import texts_of_notes


def known(pair=("chinchilla", TRUTHS["chinchilla"])):
    """A law with draws whose runs reach up to 6e21 FLOPs."""
    boot = drawn(pair)
    fit = dataclasses.replace(boot.fit, joint_ranges={"N*D": (1e17, 1e21), "D/N": (1.0, 1000.0)})
    return dataclasses.replace(boot, fit=fit)


UNSEEN = Note("unseen-ratio", "warning", "D/N of 900, which no run had")
OTHER = Note("ridge", "warning", "rely on predictions")


def test_what_a_result_computes_beside_its_fields_is_added_to_that_of_all_results():
    for result in RESULTS.values():
        assert result.computed[0] == "next_step", result


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


def test_every_remedy_is_of_a_note_that_there_is():
    texts = {text for _, text in texts_of_notes()}
    assert {*REMEDIES} <= texts


def test_far_from_the_runs_a_plan_says_what_would_narrow_it():
    boot = known()
    far, near = planning.allocation(boot, 1e25), planning.allocation(boot, 1e20)
    assert far.beyond > 10 and near.beyond < 10 and near.next_step == ""
    at = f"{{'N': {far.N:.3g}, 'D': {far.D:.3g}}}".replace("e+", "e")
    assert far.next_step == f"jl.design.next_runs(…, predict={at}) says which runs narrow it most"
    alone = planning.allocation(boot.fit, 1e25)
    assert alone.next_step == f"jl.forecast(…, at={at}) gives the interval of a new run there"
    opening = alone.summary().partition("\nN    ")[0].splitlines()
    assert opening == alone.opening() and [line[:6] for line in opening].count("Next: ") == 1
    assert opening[-2].startswith("Next: jl.forecast(")  # below the headline, above the numbers
    assert f"Next: {alone.next_step[:11]}" in alone._repr_html_()
    assert json.loads(json.dumps(alone.to_dict()))["next_step"] == alone.next_step
    # Of many budgets it is the largest; an answer that is not to be used says nothing of runs.
    many = planning.frontier(boot, [1e20, 1e25])
    assert many.next_step == far.next_step
    grave = dataclasses.replace(far, notes=(Note("doubtful-fit", "error", "…"),))
    assert grave.next_step == ""


def test_the_other_inputs_of_a_law_are_in_the_point():
    plan = planning.allocation(known(DOMAIN), 1e25, at={"r": 0.5})
    assert plan.next_step.startswith("jl.design.next_runs(…, predict={'N': ")
    assert "'r': 0.5}" in plan.next_step
    best = planning.allocation(known(DOMAIN).fit, 1e25, at={"r": "best"}, limits={"r": (0.1, 0.9)})
    assert "'r': " in best.next_step and "best" not in best.next_step


@pytest.mark.parametrize("intervals", [False, True])
def test_every_plan_of_a_run_with_size_and_tokens_says_it(intervals):
    """Far beyond the runs; within them the note that decides most has the word."""
    pairs = (DOMAIN, GENERAL, ("chinchilla", TRUTHS["chinchilla"]), CONTINUAL)
    domain, general, scratch, continual = (
        known(pair) if intervals else known(pair).fit for pair in pairs
    )
    at = {"N": "70B", "D": 1.5e13}
    plans = {
        ("N", "D", "r"): [
            planning.optimal_mixture(general, domain, start=2.3, at=at),
            planning.critical_ratio(general, start=2.3, at=at),
            planning.optimal_mixture_data_limited(domain, 1e13, at={"N": "70B"}),
            planning.optimal_domain_weights({"code": domain}, at=at),
        ],
        ("N", "D"): [
            planning.data_transferred(scratch, continual, N=7e10, D=2e11),
            planning.solve(scratch, for_="D", loss=1.9, at={"N": 7e10}),
            planning.tokens_per_parameter(scratch, 1.8),
            planning.frontier(scratch, [1e20, 1e25]),
        ],
    }
    word = "jl.design.next_runs(…, predict={" if intervals else "jl.forecast(…, at={"
    for inputs, answers in plans.items():
        for plan in answers:
            assert plan.beyond > 10 and tuple(plan.point) == inputs, plan
            assert plan.next_step.startswith(word), plan
            assert f"'D': {plan.point['D']:.3g}".replace("e+", "e") in plan.next_step
    near = planning.critical_ratio(general, start=2.86, at={"N": 1.8e9, "D": 2e9})
    assert near.point and near.next_step == ""


def test_labels_are_in_the_point_as_they_are():
    law = jl.laws.grouped("chinchilla", ["c4", "pile"], own=["B"])
    truth = dict(TRUTHS["chinchilla"])
    B = truth.pop("B")
    boot = known((law.name, truth | {"B[c4]": B, "B[pile]": 0.9 * B}))
    worth = planning.compute_multiplier(
        boot, [1e20, 1e25], reference={"group": "c4"}, at={"group": "pile"}
    )
    assert worth.point["group"] == "c4" and "'group': 'c4'" in worth.next_step
    guard = pytest.importorskip("jaxlaw.cli._guard")
    shown = guard.note_in_options(worth.next_step, guard.flags_of("plan compute-multiplier"))
    assert "--at group=c4 says" in shown
    plan = planning.allocation(boot, 1e25, at={"group": "pile"})
    assert plan.point["group"] == "pile" and "'group': 'pile'" in plan.next_step


def test_a_limit_that_holds_an_optimum_back_is_to_be_widened():
    plan = planning.allocation(known(), 1e21, limits={"N": (None, 1e9)})
    assert plan.next_step == "widen limits= where that is possible"
    best = planning.minimise(
        known(), over={"N": (1e8, 1e9), "D": None}, subject_to=[planning.Budget(1e21)]
    )
    assert best.next_step == "widen over= where that is possible"


def test_a_forecast_far_from_its_runs_asks_for_the_largest_run():
    made = a_forecast()
    assert made.next_step == ""  # ±1.7 %: not wide
    wide = dataclasses.replace(made, table=made.table.assign(low=1.9, high=2.3))
    assert wide.next_step == largest_run_step(20.0)
    assert wide.next_step.startswith("the most informative next run is the largest you can afford")
    noisy = dataclasses.replace(wide, table=wide.table.assign(from_noise=0.9))
    assert noisy.next_step == ""  # most of its width is the noise of single runs


def test_few_rows_ask_for_a_prior_where_the_law_has_one():
    runs = jl.simulate.experiment("chinchilla", noise=0.004).table.iloc[::25]
    fit = jl.fit("chinchilla", runs, n_starts=64, n_local=8)
    assert {note.code for note in fit.notes if note.decides} & {"loose", "few-spare-rows"}
    assert fit.next_step == "prior='field' adds what public experiments say of such laws"
    assert "Next: prior=&#x27;field&#x27; adds" in fit._repr_html_()
    for other in (
        dataclasses.replace(fit, n_observations=400),
        dataclasses.replace(fit, fixed={"alpha": 0.3}),
        dataclasses.replace(fit, residuals="linear"),
    ):
        assert other.next_step == ""


@pytest.mark.parametrize(
    ("command", "step", "shown"),
    [
        ("plan allocation", beyond_step({"N": 3e11, "D": 5e12}, intervals=True),
         "jaxlaw design next … --at N=3e11 --at D=5e12 says which runs narrow it most"),
        ("predict", beyond_step({"N": 3e11, "D": 5e12}, intervals=False),
         "jaxlaw forecast … --at N=3e11 --at D=5e12 gives the interval of a new run there"),
        ("fit", "prior='field' adds what", "--prior field adds what"),
        ("plan allocation", "widen limits= where it", "widen --limit where it"),
        ("fit", REMEDIES["at-bound"], "--bound sets another range, --fix takes the value as known"),
        ("study", REMEDIES["poor-fit"], "jaxlaw study … compares other laws on these runs"),
    ],
)  # fmt: skip
def test_in_the_shell_it_names_commands_and_their_options(command, step, shown):
    guard = pytest.importorskip("jaxlaw.cli._guard")
    flags = guard.flags_of(command)
    assert guard.note_in_options(step, flags) == shown


def test_a_summary_has_it_in_the_words_of_its_reader():
    plan = planning.allocation(known(), 1e25)
    with worded(lambda text: text.replace("jl.design.next_runs(", "jaxlaw design next (")):
        assert "Next: jaxlaw design next (" in plan.summary()
    assert "Next: jl.design.next_runs(" in plan.summary()


def test_commands_and_pages_show_it(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    boot = known()
    boot.fit.save("fit.json")
    boot.save("draws.json")
    code, out, _ = command("plan", "allocation", "draws.json", "--compute", "1e25")
    assert code == 0 and "\nNext: jaxlaw design next … --at N=" in out
    assert out.index("beyond the") < out.index("\nNext: ") < out.index("\nN    ")
    code, out, _ = command("predict", "fit.json", "--at", "N=1e12", "--at", "D=2e13")
    assert code == 0 and out.splitlines()[-2].startswith("Next: jaxlaw forecast … --at N=1e12")
    assert "Next" not in command("predict", "fit.json", "--at", "N=1e9", "--at", "D=2e10")[1]
    far = ("predict", "fit.json", "--at", "N=1e9,1e12", "--at", "D=2e10,2e13")
    code, out, _ = command(*far)
    said = " ".join(out.partition("Next:")[0].split())
    assert said.startswith("4 points: loss 1.") and said.endswith("beyond the largest run")
    assert "3 of them outside the fitted range" in said and "--at N=1e12 --at D=2e13" in out
    record = json.loads(command(*far, "--json")[1])
    assert record["next_step"] == beyond_step({"N": 1e12, "D": 2e13}, intervals=False)
    code, out, _ = command("plan", "allocation", "draws.json", "--compute", "1e25", "--json")
    assert json.loads(out)["next_step"].startswith("jl.design.next_runs(…, predict={'N': ")
    page = jl.report(boot.fit, plans=[planning.allocation(boot.fit, 1e25)])
    head = page[: page.index("<nav")]
    assert head.index("beyond the largest run") < head.index('class="next">Next: jl.forecast(')


def test_whatever_prints_notes_as_json_has_it():
    schemas = pytest.importorskip("jaxlaw.cli._schemas").schemas()
    required = {
        name: [
            set(one["required"])
            for one in (whole, *whole.get("anyOf", ()))
            if "notes" in one.get("properties", {})
        ]
        for name, whole in schemas.items()
    }
    assert all(map(required.get, ("bootstrap", "covariance", "profile", "influence", "fit")))
    assert [name for name, own in required.items() if any("next_step" not in o for o in own)] == []
    assert "next_step" in schemas["predict"]["required"]


def test_numbers_that_a_command_prints_have_that_of_their_result(capsys):
    output = pytest.importorskip("jaxlaw.cli._output")
    plan, table = planning.allocation(known(), 1e25), None  # nothing is written
    output.conclude({"law": "chinchilla"}, plan, table, lambda: None, None, as_json=True)
    record = json.loads(capsys.readouterr().out)
    assert record["next_step"] == plan.next_step != "" and record["notes"]
    output.conclude({"a": 1}, None, table, lambda: None, None, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"a": 1, "next_step": "", "notes": []}
