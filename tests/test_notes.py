"""Notes: which decide, which plans inherit, and the order in which results list them."""

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw.notes import Note, by_weight


@pytest.mark.parametrize(
    ("name", "code"),
    [("hoffmann-2022", "badly-converged"), ("wang-2025-pt", "misprint"),
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


def test_what_changes_the_runs_comes_before_what_widens_intervals():
    """Crashed runs in the table move every parameter; that one is loose is their doing."""
    work = ["dropped-invalid", "loose", "lack-of-fit", "mixed-runs", "doubtful-values"]
    ordered = by_weight(Note(code, "warning", "") for code in work)
    assert [note.code for note in ordered] == [*work[:2:-1], work[2], *work[:2]]


def test_a_saved_fit_keeps_what_plans_inherit(tmp_path):
    fit = jl.published()["hoffmann-2022"]
    fit.save(tmp_path / "fit.json")
    assert jl.load(tmp_path / "fit.json").notes == fit.notes
