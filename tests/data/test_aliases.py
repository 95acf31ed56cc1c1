"""Columns that are taken by their names: which, in what unit, and which never."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import jaxlaw as jl
from jaxlaw.data import known_columns
from tests.fixtures.run_tables import codes, simple

NAMES = {"N": "n_params", "D": "tokens", "loss": "val_loss"}


def named(**names):
    return simple().rename(columns=NAMES | names)


def test_known_columns_are_taken_and_said():
    runs = jl.read_runs(named(), name="runs.csv")
    assert runs.columns == {"N": "n_params", "D": "tokens", "loss": "val_loss"}
    (note,) = runs.notes
    assert note.severity == "info"
    assert note.message == "runs.csv: N from n_params, D from tokens, loss from val_loss"
    seen, plain = runs.observations("chinchilla"), jl.read_runs(simple()).observations("chinchilla")
    for name in ("N", "D"):
        np.testing.assert_array_equal(seen.inputs[name], plain.inputs[name])
    np.testing.assert_array_equal(seen.target, plain.target)


@pytest.mark.parametrize(
    ("name", "quantity"),
    [
        ("config.model.n_params", "N"), ("Parameters", "N"), ("numParams", "N"),
        ("total_params", "N"), ("model size", "N"), ("non_embedding_params", "N"),
        ("params_non_emb", "N"), ("train_tokens", "D"), ("num_input_tokens_seen", "D"),
        ("compute_budget", "C"), ("total_flos", "C"), ("eval/loss", "loss"), ("Val Loss", "loss"),
        ("final_val_loss", "loss"), ("val_bpb", "loss"), ("val_cross_entropy", "loss"),
        ("train/learning_rate", "lr"), ("_step", "step"), ("global_step", "step"),
        ("run_id", "run"),
    ],
)  # fmt: skip
def test_names_that_are_known(name, quantity):
    assert known_columns(pd.DataFrame({name: [1e9]})) == {quantity: {name: None}}


never = ["batch", "emb", "embedding", "wte", "head", "planned", "per", "scale", "std"]
heads = ["params", "n_params", "tokens", "flops", "loss", "val_loss", "total_tokens", "lr"]


@given(
    st.lists(st.sampled_from(heads), min_size=1, max_size=2),
    st.sampled_from(never),
    st.integers(0, 2),
    st.sampled_from(["_", ".", "/", " ", "-"]),
)
def test_names_that_are_never_taken(parts, word, place, between):
    parts.insert(min(place, len(parts)), word)
    assert known_columns(pd.DataFrame({between.join(parts): [1e9]})) == {}


@given(st.permutations([*NAMES.values(), "params_wte", "batch_tokens", "planned_tokens", "extra"]))
def test_other_columns_and_their_order_change_nothing(order):
    table = named().assign(params_wte=1.0, batch_tokens=2.0, planned_tokens=3.0, extra=4.0)
    runs = jl.read_runs(table[order])
    assert dict(sorted(runs.columns.items())) == {
        "D": "tokens",
        "N": "n_params",
        "loss": "val_loss",
    }


def test_a_total_goes_before_a_part():
    table = named(N="total_params").assign(non_embedding_params=5.0)
    assert jl.read_runs(table).columns["N"] == "total_params"


def test_of_two_candidates_none_is_taken():
    runs = jl.read_runs(named().assign(train_loss=3.0))
    assert "loss" not in runs.columns
    with pytest.raises(jl.DataError, match="loss may be val_loss or train_loss"):
        runs.observations("chinchilla")
    assert jl.read_runs(runs.table, {"loss": "val_loss"}).observations("chinchilla")
    twice = jl.read_runs(named().assign(final_loss=simple()["loss"]))  # the same numbers
    assert twice.columns["loss"] == "val_loss"


def test_what_the_call_or_the_table_says_goes_first():
    table = named().assign(N=1e9)
    assert "N" not in jl.read_runs(table).columns
    assert jl.read_runs(named(), {"Dp": "tokens"}).columns["Dp"] == "tokens"
    assert "D" not in jl.read_runs(named(), {"Dp": "tokens"}).columns
    sided = named().assign(loss_d=1.0)
    assert "loss" not in jl.read_runs(sided).columns


@pytest.mark.parametrize(
    ("name", "unit"),
    [("params_M", 1e6), ("params (millions)", 1e6), ("n_params_1e9", 1e9), ("params_B", 1e9)],
)
def test_a_unit_in_a_name_counts(name, unit):
    table = named(N=name)
    table[name] = table[name] / unit
    seen = jl.read_runs(table).observations("chinchilla")
    np.testing.assert_allclose(seen.inputs["N"], simple()["N"], rtol=1e-15)
    # Numbers that cannot be in that unit: nothing is taken.
    assert known_columns(named(N=name), ("N",)) == {}


def test_columns_may_be_expressions_of_others():
    table = named().drop(columns="tokens")
    table["compute_budget"] = 6 * simple()["N"] * simple()["D"]
    for text in ("compute_budget/(6*n_params)", "C/(6*N)"):
        runs = jl.read_runs(table, {"D": text})
        np.testing.assert_allclose(runs.table["D"], simple()["D"], rtol=1e-15)
        assert runs.columns["D"] == text
        again = runs.reading.options({}, table.columns)[0]
        assert again["columns"]["D"] == text
    table.loc[3, "compute_budget"] = None
    runs = jl.read_runs(table, {"D": "C/(6*N)"})
    assert len(runs) == len(table) - 1 and runs.dropped == 1
    assert any("leaves out 1 rows" in note.message for note in runs.notes)
    with pytest.raises(jl.errors.ColumnError, match="no column n_tokens"):
        jl.read_runs(table, {"D": "n_tokens"})
    fit = jl.fit("chinchilla", table, columns={"D": "C/(6*N)"}, n_starts=8)
    assert "flops-of-table" not in codes(fit)
    assert np.isfinite(fit.score(table).rmse)


def test_a_unit_of_what_is_computed_is_not_forgotten():
    table = named(N="params_M").drop(columns="tokens").assign(C=6 * simple()["N"] * simple()["D"])
    table["params_M"] /= 1e6
    for text in ("C/(6*N)", "C/(6*params_M)"):
        with pytest.raises(jl.UsageError, match="computed of .* in units of 1e6.*units={'D'"):
            jl.read_runs(table, {"D": text})
        seen = jl.read_runs(table, {"D": text}, {"D": 1e-6}).observations("chinchilla")
        np.testing.assert_allclose(seen.inputs["D"], simple()["D"], rtol=1e-12)


def test_a_folder_a_glob_and_a_list_are_one_table(tmp_path):
    for n in (100, 200):
        simple().drop(columns="N").to_csv(tmp_path / f"run_N{n}000000.csv", index=False)
    (tmp_path / "notes.txt").write_text("no table")
    columns = {"N": "file.str.extract('N([0-9]+)')"}
    for source in (tmp_path, tmp_path / "*.csv", sorted(tmp_path.glob("*.csv"))):
        runs = jl.read_runs(source, columns)
        seen = runs.observations("chinchilla")
        assert len(seen) == 24 and set(seen.inputs["N"]) == {1e8, 2e8}
        assert runs.table["file"].nunique() == 2
    with pytest.raises(jl.DataError, match=r"run_N100000000\.csv:2"):
        jl.read_runs(source, columns | {"D": "file"}).observations("chinchilla")


def test_objects_in_records_are_dotted_columns(tmp_path):
    path = tmp_path / "runs.json"
    path.write_text('[{"model": {"n_params": 1e9}, "train": {"lr": 1e-3}, "loss": 3}]')
    runs = jl.read_runs(path, where="`train.lr` > 0")
    assert runs.columns == {"N": "model.n_params", "lr": "train.lr"}
    assert runs.table["N"].tolist() == [1e9]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("| N | D | loss |\n|---|---|---|\n| 1 | 2 | 3 |\n", "a table of Markdown"),
        (" iteration 1/ 9 | lr: 7.5E-06 | loss: 2.5 |\n", "a trainer's log"),
    ],
)
def test_what_is_no_table_is_said(tmp_path, text, what):
    (tmp_path / "runs.txt").write_text(text)
    with pytest.raises(jl.DataError, match=what):
        jl.read_runs(tmp_path / "runs.txt")
