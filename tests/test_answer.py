"""The one class of answers: attributes, text, file, LaTeX and picture follow from its parts."""

import pickle

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import planning
from jaxlaw._answer import PICTURES, picture
from jaxlaw._typed import checked
from jaxlaw.notes import Note
from jaxlaw.planning._frame import plan_answer, source_notes
from jaxlaw.uncertainty import LEVEL, as_draws
from tests.fixtures.drawn_laws import TRUTHS, drawn


def made(**more):
    quantities = {
        "N": jl.Quantity(2.0, "parameters", 1e9, 1.5, 2.5, np.array([1.5, 2.5])),
        "ratio": jl.Quantity(20.0),
    }
    table = pd.DataFrame({"N": [1.0, 2.0], "N_low": [0.5, np.nan], "N_high": [1.5, np.inf]})
    return jl.Answer(
        kind="toy", sentence="{N}, at {ratio} tokens a parameter", quantities=quantities,
        tables={"table": table}, units={"N": ("parameters", 1e9)}, level=0.9,
        facts={"binding": "compute", "counts": {"a": 2}}, notes=[Note("odd", "warning", "odd")],
        **more,
    )  # fmt: skip


def test_its_parts_are_attributes():
    answer = made()
    assert answer.N == 2.0 and answer.binding == "compute" and answer.counts == {"a": 2}
    assert answer.interval == {"N": (1.5, 2.5)} and answer.draws["N"].tolist() == [1.5, 2.5]
    assert answer.table is answer.tables["table"] and "ratio" in dir(answer)
    with pytest.raises(AttributeError, match="this toy has no loss; it has N, ratio, table"):
        _ = answer.loss


def test_the_sentence_says_units_intervals_and_their_level_once():
    assert made().headline.startswith(
        "2 B parameters (90%: 1.5 to 2.5 B), at 20 tokens a parameter"
    )
    unknown = {"N": jl.Quantity(np.nan, "parameters")}
    grave = (Note("no-optimum", "error", "there is none"),)
    answer = jl.Answer(kind="toy", sentence="{N}", quantities=unknown, notes=grave)
    assert answer.sentence == "" and answer.headline == "there is none"


@pytest.mark.parametrize("copy", ["file", "pickle"])
def test_a_copy_is_the_answer_with_its_points(copy, tmp_path):
    answer = made(curves=lambda: {"curve": pd.DataFrame({"x": [1.0, np.inf]})})
    if copy == "file":
        answer.save(tmp_path / "toy.json")
        again = jl.load(tmp_path / "toy.json")
    else:
        again = pickle.loads(pickle.dumps(answer))
    assert again.kind == "toy" and again.summary() == answer.summary()
    assert again.to_dict() == answer.to_dict() and again._repr_html_() == answer._repr_html_()
    pd.testing.assert_frame_equal(again.table, answer.table)
    pd.testing.assert_frame_equal(again.points["curve"], answer.points["curve"])


def test_a_csv_file_has_the_main_table_or_the_quantities(tmp_path):
    made().save(tmp_path / "toy.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "toy.csv"), made().table)
    planning.allocation_law(("chinchilla", TRUTHS["chinchilla"])).save(tmp_path / "law.csv")
    assert pd.read_csv(tmp_path / "law.csv")["quantity"].tolist()[:2] == ["a", "b"]


def test_a_picture_is_optional(monkeypatch):
    pytest.importorskip("matplotlib")
    with pytest.raises(jl.UsageError, match="there is no picture of .*toy"):
        made().plot()
    monkeypatch.setitem(PICTURES, "toy", lambda answer, ax, **options: (answer.N, ax, options))
    assert made().plot("axes", color="red") == (2.0, "axes", {"color": "red"})
    assert picture("other")(len) is len and PICTURES.pop("other") is len


# A stranger's plan, as CONTRIBUTING says: one function, one name in a face, one test.
@checked
def half_the_size(fit, N: float, D: float, level: float = LEVEL):
    """What a model of half the size costs in tokens at equal loss."""
    (source,) = as_draws(fit)
    values = source.values
    loss = values["E"] + values["A"] / N ** values["alpha"] + values["B"] / D ** values["beta"]
    left = loss - values["E"] - values["A"] / (N / 2) ** values["alpha"]
    tokens = np.where(left > 0, (values["B"] / left), np.nan) ** (1 / values["beta"])
    return plan_answer(
        "half the size", "{tokens} in place of {D}, at loss {loss}", source,
        {"tokens": tokens, "D": D, "loss": loss}, level=level, at={"N": N / 2, "D": tokens[0]},
        notes=source_notes(source, N=N, D=D),
    )  # fmt: skip


def test_a_plan_of_a_stranger_is_one_function(tmp_path):
    plan = half_the_size(drawn(("chinchilla", TRUTHS["chinchilla"])), N=1e9, D=2e10)
    assert plan.tokens > plan.D and plan.interval["tokens"][0] < plan.tokens
    assert plan.headline.startswith("39.8 B tokens (90%: ") and "of 20 B tokens" in plan.headline
    plan.save(tmp_path / "half.json")
    assert jl.load(tmp_path / "half.json").tokens == plan.tokens
    assert "tokens" in plan.to_latex() and plan.headline in plan._repr_html_()
