"""Notes: which decide, which plans inherit, and the order in which results list them."""

import ast
from pathlib import Path

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw.notes import Note, by_weight

PACKAGE = Path(jl.__file__).parent
#: Packages whose notes may stand in what a plan is given: a fit, draws, a forecast.
CORE = ("laws", "data", "fitting", "uncertainty", "forecasting")
INHERITED = {
    "at-bound", "badly-converged", "base-extrapolated", "decay-held", "doubtful-values",
    "farther-than-tested", "few-groups", "few-resamples", "few-rows", "few-spare-rows",
    "few-starts-agree", "intervals-failed", "lack-of-fit", "limiting-form", "local-optimum",
    "misprint", "mixed-runs", "no-floor", "not-converged", "not-printed", "objective-disagrees",
    "one-budget", "one-law", "poor-fit", "prior-width", "resamples-at-bound", "resamples-disagree",
    "resamples-failed", "ridge", "solvers-disagree", "trend-observed", "unidentifiable", "weak-fit",
}  # fmt: skip


def calls(tree):
    """The calls of ``Note`` in a module: severity, code and ``inherited`` as they are written."""
    constants = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Note"):
            continue
        code, severity = node.args[0], ast.unparse(node.args[1])
        texts = {
            constants.get(part.id, "") if isinstance(part, ast.Name) else part.value
            for part in ast.walk(code)
            if isinstance(part, ast.Name | ast.Constant)
        }
        given = {word.arg: ast.unparse(word.value) for word in node.keywords}
        yield severity, texts, given.get("inherited")


def written():
    for package in CORE:
        for path in sorted((PACKAGE / package).rglob("*.py")):
            for call in calls(ast.parse(path.read_text("utf-8"))):
                yield path.name, *call


def test_every_warning_of_the_core_says_whether_plans_inherit_it():
    silent = [
        (name, texts)
        for name, severity, texts, inherited in written()
        if severity != "'info'" and inherited is None
    ]
    assert silent == []


def test_the_codes_that_plans_inherit():
    always = {code for _, _, texts, given in written() if given == "True" for code in texts}
    # These two have a condition where they are made.
    assert always | {"trend-observed", "unidentifiable"} == INHERITED
    conditions = {given for _, _, _, given in written()} - {None, "True", "False"}
    assert conditions == {"code == 'trend-observed'", "error > OPEN"}


def test_the_reader_of_calls_sees_what_is_missing():
    text = "CODE = 'a'\nNote(CODE, 'warning', text)\nNote('b', 'error', text, inherited=True)"
    assert list(calls(ast.parse(text))) == [
        ("'warning'", {"a"}, None),
        ("'error'", {"b"}, "True"),
    ]


@pytest.mark.parametrize(
    ("name", "code"),
    [("hoffmann-2022", "badly-converged"), ("wang-2025-pt", "not-printed"),
     ("wang-2025-cpt", "misprint"), ("isik-2024-en-ro-3M", "misprint")],
)  # fmt: skip
def test_what_papers_print_wrongly_goes_on_into_plans(name, code):
    notes = {note.code: note for note in jl.published()[name].notes}
    assert notes[code].inherited and notes[code].decides
    assert not notes["published"].inherited and not notes["published"].decides


def test_a_plan_repeats_what_is_inherited_and_nothing_else():
    fit = jl.FittedLaw("chinchilla", jl.published()["besiroglu-2024"].params)
    own = (
        Note("mine", "warning", "of the parameters", inherited=True),
        Note("other", "warning", "of the data"),
    )
    draws = jl.uncertainty.Draws(fit, {}, notes=own)
    assert draws.warnings == own[:1]
    plan = jl.planning.allocation(draws, 1e21)
    (note,) = (note for note in plan.notes if note.code == "doubtful-fit")
    assert note.message.endswith(": mine")


def test_dependent_rows_are_repeated_where_single_rows_were_drawn():
    fit = jl.published()["besiroglu-2024"]
    note = Note("dependent-rows", "warning", "checkpoints of one run")
    params = {name: np.repeat(value, 3) for name, value in fit.params.items()}
    by_row = jl.uncertainty.Draws(fit, params, notes=(note,))
    assert note in by_row.warnings
    for other in (
        jl.uncertainty.Draws(fit, params, notes=(note,), groups=("run",)),
        jl.uncertainty.Draws(fit, {}, notes=(note,)),
    ):
        assert note not in other.warnings


def test_results_list_first_what_decides():
    notes = [
        Note("a", "info", "one"),
        Note("b", "warning", "two"),
        Note("c", "error", "three"),
        Note("d", "warning", "four"),
    ]
    assert [note.code for note in by_weight(notes)] == ["c", "b", "d", "a"]
    assert [note.decides for note in by_weight(notes)] == [True, True, True, False]


def test_a_saved_fit_keeps_what_plans_inherit(tmp_path):
    fit = jl.published()["hoffmann-2022"]
    fit.save(tmp_path / "fit.json")
    assert jl.load(tmp_path / "fit.json").notes == fit.notes
