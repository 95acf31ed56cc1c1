"""Columns, units, shares, filters and weights: what is said in the call."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jaxlaw import laws, simulate
from jaxlaw.data._runs import read_runs
from jaxlaw.errors import DataError, UsageError
from tests.fixtures.run_tables import assert_same, assert_says, codes, simple, with_cell, write_csv

# ---------------------------------------------------------------- names


def test_mapped_columns(tmp_path):
    frame = simple().rename(columns={"N": "n_params", "loss": "c4_loss"})
    path = write_csv(tmp_path, frame.assign(loss=9.0))
    runs = read_runs(path, columns={"N": "n_params", "loss": "c4_loss"})
    observations = runs.observations("chinchilla")
    np.testing.assert_array_equal(observations.target, simple()["loss"])
    assert observations.columns == {"N": "n_params", "D": "D", "loss": "c4_loss"}
    assert (runs.table["loss (as in the file)"] == 9.0).all()
    swapped = read_runs(simple(), columns={"N": "D", "D": "N"}).observations("chinchilla")
    np.testing.assert_array_equal(swapped.inputs["N"], simple()["D"])


def test_cross_entropy_is_found_as_loss():
    frame = pd.DataFrame({"Dp": [1e9, 2e9, 4e9, 8e9], "loss": [3.0, 2.8, 2.7, 2.65]})
    observations = read_runs(frame).observations("downstream-ce")
    assert observations.target_name == "cross-entropy"
    assert observations.columns["cross-entropy"] == "loss"


# ---------------------------------------------------------------- units


def test_billions_for_a_law_of_single_units(tmp_path):
    path = write_csv(tmp_path, simple().assign(n_params=simple()["N"] / 1e9).drop(columns="N"))
    with pytest.raises(DataError) as error:
        read_runs(path, columns={"N": "n_params"}).observations("chinchilla")
    assert_says(error, "runs.csv", "n_params", "line ", "single ones", "model parameters",
                "units={'N': 1e9} for billions", "units={'N': 1e6} for millions")  # fmt: skip


def test_one_table_has_one_unit_for_every_law():
    """Also of toy models, whose counts would be plausible as billions."""
    toy = simple().assign(N=simple()["N"] / 1e3, D=simple()["D"] / 1e3)
    for table in (simple(), toy):
        single, seen = read_runs(table, units={"N": 1, "D": 1}), read_runs(table)
        assert_same(seen.observations("chinchilla"), single.observations("chinchilla"))
        mixed = seen.observations("dcpt")
        assert "columns-taken" in codes(mixed)
        assert mixed.units == {"N": 1.0, "D": 1.0, "r": 1.0}
        np.testing.assert_array_equal(mixed.inputs["N"], single.observations("dcpt").inputs["N"])
    billions = simple().assign(N=simple()["N"] / 1e9, D=simple()["D"] / 1e9)
    assert read_runs(billions).observations("dcpt").units["D"] == 1e9


def test_a_batch_in_sequences_is_told_its_unit():
    tuned = laws.tuned("chinchilla", over="batch")
    runs = simple().assign(batch=192)
    with pytest.raises(DataError, match="units={'batch': 2048} for sequences") as error:
        read_runs(runs).observations(tuned)
    assert " or " not in str(error.value).partition("pass units")[2]
    assert read_runs(runs, units={"batch": 2048}).observations(tuned).inputs["batch"][0] == 393216


def test_declared_units_have_some_slack():
    toy = simple().assign(N=[50, 100, 200, 400] * 3)
    with pytest.raises(DataError):
        read_runs(toy).observations("chinchilla")
    assert codes(read_runs(toy, units={"N": 1}).observations("chinchilla")) == ["implausible-value"]
    mixed = with_cell(3, "N", 0.8)
    assert "row 3 (0.8)" in read_runs(mixed).observations("chinchilla").notes[0].message


# ---------------------------------------------------------------- shares


def sided() -> pd.DataFrame:
    frame = simple()[["N", "D"]]
    share = np.array([0.0, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1.0, 0.25, 0.75, 0.6])
    return frame.assign(share=share, general=3.0 + share, domain=2.0 - share)


SIDED = {"r_d": "share", "loss_g": "general", "loss_d": "domain"}


def test_one_set_of_runs_two_fits():
    runs = read_runs(sided(), columns=SIDED, units={"N": 1, "D": 1})
    general = runs.for_corpus("general").observations("dcpt")
    domain = runs.for_corpus("domain").observations("dcpt")
    np.testing.assert_array_equal(general.inputs["r"], 1 - sided()["share"])
    np.testing.assert_array_equal(domain.inputs["r"], sided()["share"])
    np.testing.assert_array_equal(general.target, sided()["general"])
    np.testing.assert_array_equal(domain.target, sided()["domain"])
    asked = read_runs(sided(), columns=SIDED, units={"N": 1, "D": 1}, corpus="general")
    assert_same(asked.observations("dcpt"), general)


def test_tokens_of_either_corpus_are_tokens_and_a_share():
    """Que 2024, eq. 19 to 22: D = D_d + D_g, r_d = D_d/D."""
    whole = simulate.experiment("dcpt").table.rename(columns={"r": "r_d"})
    mine = whole["D"] * whole["r_d"]
    parts = whole.assign(D_d=mine, D_g=whole["D"] - mine).drop(columns=["D", "r_d"])
    columns = {"D": "D_d + D_g", "r_d": "D_d/(D_d + D_g)", "loss_d": "loss"}
    runs = read_runs(parts, columns, corpus="domain")
    seen = runs.observations("dcpt")
    np.testing.assert_allclose(seen.inputs["D"], whole["D"], rtol=1e-12)
    np.testing.assert_allclose(seen.inputs["r"], whole["r_d"], atol=1e-11)
    assert len(np.unique(seen.inputs["r"])) == len(np.unique(whole["r_d"]))


def test_share_mistakes():
    runs = read_runs(sided(), columns=SIDED, units={"N": 1, "D": 1})
    with pytest.raises(UsageError) as error:
        runs.observations("dcpt")
    assert_says(error, "r_d", "corpus='general'", "corpus='domain'")
    with pytest.raises(UsageError, match="'general' or 'domain', not 'both'"):
        runs.for_corpus("both")
    with pytest.raises(UsageError) as error:
        read_runs(simple(), corpus="general")
    assert_says(error, "r_d, r_g, loss_d, loss_g", "columns={'r_d': 'domain_share'}")
    plain = read_runs(sided(), {"r": "share", "loss_g": "general"}, corpus="general")
    with pytest.raises(UsageError, match="column share does not say whose ratio"):
        plain.observations("dcpt")
    one = read_runs(sided(), columns={"r_d": "share", "loss_d": "domain"}, corpus="general",
                    units={"N": 1, "D": 1})  # fmt: skip
    with pytest.raises(DataError, match="no column loss_g"):
        one.observations("dcpt")


# ---------------------------------------------------------------- rows: where and weight


def test_where_by_query_and_mask():
    frame = simple().assign(split=["fit", "test"] * 6, n_params=simple()["N"])
    columns = {"N": "n_params"}
    frame = frame.drop(columns="N")
    by_query = read_runs(frame, columns, where="split == 'fit'")
    by_mask = read_runs(frame, columns, where=np.arange(12) % 2 == 0)
    assert_same(by_query.observations("chinchilla"), by_mask.observations("chinchilla"))
    assert by_query.dropped == 6 and by_query.notes[0].code == "filtered"
    assert "6 of 12 rows" in by_query.notes[0].message
    both = read_runs(frame, columns, where="N >= 2e8 and n_params < 8e8")
    assert set(both.table["N"]) == {2e8, 4e8}
    assert len(read_runs(frame, columns, where=(frame["split"] == "fit").astype("boolean"))) == 6


def test_a_mapped_name_goes_before_a_column_of_the_file():
    frame = simple().assign(n_params=simple()["N"][::-1].to_numpy(), w=1.0)
    columns = {"N": "n_params"}
    low = read_runs(frame, columns, where="N < 3e8")
    assert (low.table["N"] < 3e8).all() and len(low) == (frame["n_params"] < 3e8).sum()
    assert not (low.table["N (as in the file)"] < 3e8).all()
    own = read_runs(frame, columns, where="`N (as in the file)` < 3e8")
    assert own.table.index.tolist() == frame.index[frame["N"] < 3e8].tolist()
    np.testing.assert_array_equal(read_runs(frame, columns, weight="N").weight, frame["n_params"])
    assert_same(
        read_runs(frame, columns, where="n_params < 3e8").observations("chinchilla"),
        low.observations("chinchilla"),
    )


def test_weights():
    frame = simple().assign(w=np.arange(12.0))
    by_name = read_runs(frame, weight="w", where="loss > 0").observations("chinchilla")
    by_array = read_runs(frame, weight=np.arange(12)).observations("chinchilla")
    assert_same(by_name, by_array)
    np.testing.assert_array_equal(by_name.weight, np.arange(12))
    kept = read_runs(frame, weight="w", where="w > 5").observations("chinchilla", free=["E"])
    np.testing.assert_array_equal(kept.weight, np.arange(6, 12))
    flags = np.arange(12) > 5
    of_flags = read_runs(simple(), weight=flags).observations("chinchilla", free=["E"])
    np.testing.assert_array_equal(of_flags.weight, flags)
    assert (read_runs(simple().assign(weight=3)).observations("chinchilla").weight == 1).all()


def test_weight_mistakes(tmp_path):
    path = write_csv(tmp_path, simple().assign(w=[1, -1, np.nan] + [1] * 9, z=0, t="x"))
    with pytest.raises(DataError) as error:
        read_runs(path, weight="w")
    assert_says(error, "runs.csv", "column w", "lines 3 (-1.0), 4 (nan)", "≥ 0")
    with pytest.raises(DataError, match="column z: all weights are 0; give"):
        read_runs(path, weight="z")
    with pytest.raises(DataError, match="column t, line 2: 'x' is not a number"):
        read_runs(path, weight="t")
    with pytest.raises(DataError, match="no column weights.*columns: N, D"):
        read_runs(path, weight="weights")
    with pytest.raises(UsageError, match="weight: .* one value for each .* not .3,."):
        read_runs(path, weight=[1, 2, 3])
    with pytest.raises(DataError, match="cannot determine the 5 parameters"):
        read_runs(simple(), weight=[1, 1] + [0] * 10).observations("chinchilla")


# ---------------------------------------------------------------- tables for other functions


def test_target_names_the_column_that_laws_predict():
    table = {"N": [1e8, 2e8, 4e8], "D": [2e9, 4e9, 8e9], "loss": [3.0, 2.9, 2.8]}
    table |= {"bpb": [1.3, 1.2, 1.1], "acc": [0.3, 0.4, 0.5]}
    runs = read_runs(table, target="bpb")
    seen = runs.observations("chinchilla", free=())
    np.testing.assert_array_equal(seen.target, table["bpb"])
    assert seen.columns["loss"] == "bpb" and seen.mapped == {"loss": "bpb"}
    # Runs that are read may be asked for another column, and by a canonical name.
    again = read_runs(runs, target="loss").observations("chinchilla", free=())
    np.testing.assert_array_equal(again.target, table["loss"])
    score = read_runs(table, {"task_loss": "bpb", "accuracy": "acc"}, target="acc")
    np.testing.assert_array_equal(score.observations("sigmoid", free=()).target, table["acc"])


def test_a_missing_column_names_the_likely_one():
    with pytest.raises(DataError, match="r may be domain_ratio"):
        read_runs({"N": [1e9], "D": [1e9], "domain_ratio": [0.3], "loss": [2.0]}).observations(
            "dcpt"
        )
