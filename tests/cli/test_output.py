"""Tables on a terminal: folded where a column is too narrow, plain where none is."""

import pandas as pd
import pytest

pytest.importorskip("typer")

from jaxlaw.cli._output import print_frame, print_table  # noqa: E402

FOLDED = """\
                                          a a a a a a a a a a a a a a a a
 law                                      a a a a a a a a a a a a a a        y
 ──────────────────────────────────────────────────────────────────────────────
 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx   two words, and two words more      1
 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
 xxxx
 é       b                                中中中中中中中中中中中中中中中中
                                          中中中中                           2
"""


def test_long_cells_are_folded_and_heads_stand_on_the_rule(capsys):
    rows = [["x" * 80, "two words, and two words more", 1], ["é\tb", "中" * 20, "\n2"]]
    print_table(["law", "a " * 30, "y"], rows)
    assert capsys.readouterr().out == FOLDED


def test_numbers_have_their_digits_and_counts_all_of_them(capsys):
    table = pd.DataFrame({"step": [7, 1234567], "lr": [1 / 3, 1e-9], "of": ["a", "b"]})
    print_frame(table, 3)
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["step", "lr", "of"]
    assert [row.split() for row in rows] == [["7", "0.333", "a"], ["1234567", "1e-09", "b"]]


def test_cells_that_fit_are_not_folded(capsys, monkeypatch):
    """A table of all steps of a schedule has 100,000 rows, and folding a cell costs 0.1 ms."""
    monkeypatch.setattr("rich.text.Text", None)
    print_table(["step", "S1"], [[k, k / 7] for k in range(100)])
    assert len(capsys.readouterr().out.splitlines()) == 102
    with pytest.raises(TypeError):  # this one is
        print_table(["step\tS1"], [])
