"""Notes are worded for the shell where a command shows them, and for Python in its files."""

import pytest

import jaxlaw as jl

pytest.importorskip("typer")
from jaxlaw.cli._guard import flags_of, note_in_options  # noqa: E402

from jaxlaw.notes import Note, in_brief, worded  # noqa: E402


@pytest.mark.parametrize(
    ("command", "message", "shown"),
    [
        ("fit", "try more starts (n_starts=)", "try more starts (--n-starts)"),
        ("covariance", "more starts (n_starts=)", "more starts (--n-starts of jaxlaw fit)"),
        ("fit", "jl.bootstrap(…, groups=['N', 'r']) has", "jaxlaw bootstrap … --groups N,r has"),
        ("study", "bounds={'eps': (1e-05, None)}. Use", "--bound eps=1e-05:. Use"),
        ("fit", "jl.laws.get(…) stays", "jl.laws.get(…) stays"),
    ],
)
def test_a_note_is_worded_for_the_shell(command, message, shown):
    flags = flags_of(command)
    note = Note("few-starts-agree", "warning", message)
    with worded(lambda text: note_in_options(text, flags)):
        assert in_brief([note]) == [f"[warning] few-starts-agree: {shown}"]
    assert in_brief([note]) == [str(note)]


def test_a_command_shows_notes_with_its_options(command, tmp_path, monkeypatch):
    """The file keeps the words of Python, which a program reads."""
    monkeypatch.chdir(tmp_path)
    table = jl.simulate.experiment("chinchilla", noise=0.004).table
    table.loc[3, "loss"] *= 1.5
    table.to_csv("runs.csv", index=False)
    code, out, _ = command("--verbose", "fit", "chinchilla", "runs.csv", "--n-starts", "64",
                           "--n-local", "8", "--out", "fit.json")  # fmt: skip
    assert code == 0
    words = " ".join(out.split())
    assert "leave out by --where what is not of this law" in words and "where=" not in words
    assert "where= what" in " ".join(note.message for note in jl.load("fit.json").notes)
