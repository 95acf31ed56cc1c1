"""Every point is held out exactly as designed, and by the values, not by the order of rows."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import jaxlaw as jl
from jaxlaw import folds, simulate

QUE = simulate.experiment("dcpt").table
RATIOS = [0.0, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1.0]


def tables():
    """Tables of a few sizes, token counts and runs, in any order."""
    row = st.tuples(
        st.sampled_from([0.5, 1.8, 4.0]), st.integers(1, 8), st.sampled_from(["a", "b", "c", "d"])
    )
    return st.lists(row, min_size=8, max_size=40).map(
        lambda rows: pd.DataFrame(rows, columns=["N", "D", "run"])
    )


DESIGNS = [
    folds.leave_one_group_out("run"),
    folds.leave_p_groups_out("D", 2),
    folds.leave_one_group_out(["N", "run"]),
    folds.contiguous_blocks("D", 2),
    folds.contiguous_blocks("D", 2, within="run"),
    folds.hold_out("N"),
    folds.hold_out("D", "last", 0.5),
    folds.hold_out("D", "after", 1),
    folds.k_fold(2, 2, seed=1, groups="run"),
]


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
@settings(max_examples=15, deadline=None)
@given(table=tables(), seed=st.integers(0, 99))
def test_permuting_rows_permutes_masks(design, table, seed):
    try:
        folds = design.split(table)
    except jl.DataError:
        return  # too few values, which other tests are about
    order = np.random.default_rng(seed).permutation(len(table))
    moved = design.split(table.iloc[order].reset_index(drop=True))
    assert moved.labels == folds.labels
    np.testing.assert_array_equal(moved.held_out, folds.held_out[:, order])
    np.testing.assert_array_equal(moved.fitted, folds.fitted[:, order])
    assert (folds.fitted ^ folds.held_out).all()


@settings(max_examples=30, deadline=None)
@given(table=tables(), k=st.integers(2, 4), seed=st.integers(0, 99), repeats=st.integers(1, 3))
def test_k_fold_holds_every_row_out_once_a_repeat_and_no_run_straddles(table, k, seed, repeats):
    design = folds.k_fold(k, repeats, seed, groups="run")
    if table["run"].nunique() < k:
        with pytest.raises(jl.DataError, match="has no row"):
            design.split(table)
        return
    result = design.split(table)
    assert len(result) == k * repeats
    assert (result.held_out.sum(axis=0) == repeats).all()
    for rows in table.groupby("run").indices.values():
        assert (np.ptp(1 * result.fitted[:, rows], axis=1) == 0).all()
    whole = folds.k_fold(k, repeats, seed).split(table)
    sizes = whole.held_out.sum(axis=1)
    assert sizes.max() - sizes.min() <= 1


@settings(max_examples=30, deadline=None)
@given(table=tables(), k=st.integers(1, 3))
def test_leaving_values_out_holds_out_every_choice_once(table, k):
    values = sorted(table["D"].unique())
    if len(values) <= k:
        with pytest.raises(jl.DataError, match="no row left to fit|too few values"):
            folds.leave_p_groups_out("D", k).split(table)
        return
    result = folds.leave_p_groups_out("D", k).split(table)
    chosen = list(itertools.combinations(values, k))
    assert len(result) == len(chosen) == math.comb(len(values), k)
    for mask, label, some in zip(result.held_out, result.labels, chosen, strict=True):
        np.testing.assert_array_equal(mask, table["D"].isin(some))
        assert label == f"D = {', '.join(map(str, some))} held out"


def test_the_folds_of_que():
    pairs = folds.leave_p_groups_out("r", 2).split(QUE)
    assert len(pairs) == 36
    assert pairs.labels[9] == "r = 0.1, 0.33 held out"
    np.testing.assert_array_equal(pairs.held_out[9], QUE["r"].isin([0.1, 0.33]))
    assert (pairs.held_out.sum(axis=0) == 8).all()  # a ratio is in 8 of the pairs
    sizes = folds.leave_one_group_out("N").split(QUE)
    assert sizes.labels == ("N = 0.5 held out", "N = 1.8 held out", "N = 4 held out")
    six = pd.DataFrame({"domain": list("abcdef") * 3, "loss": 1.0})
    domains = folds.leave_p_groups_out("domain", 2).split(six)
    assert len(domains) == 15 and domains.labels[0] == "domain = a, b held out"


def test_blocks_hold_equal_numbers_of_points_and_divide_no_value():
    thirds = folds.contiguous_blocks("D", 3).split(QUE)
    assert (thirds.held_out.sum(axis=0) == 1).all()
    steps = [QUE["D"][mask].nunique() for mask in thirds.held_out]
    assert steps == [7, 6, 7]  # of the 20 of every curve
    assert thirds.labels[0] == "0.131072 ≤ D ≤ 0.917504 held out"
    tops = [QUE["D"][mask].max() for mask in thirds.held_out]
    assert tops == sorted(tops)
    last = folds.hold_out("D", "last", "1/3").split(QUE)
    np.testing.assert_array_equal(last.held_out[0], thirds.held_out[2])
    # Points, not the range: most of these are below 10.
    skewed = pd.DataFrame({"D": [1.0, 2, 3, 4, 5, 6, 7, 8, 1000]})
    assert folds.contiguous_blocks("D", 3).split(skewed).held_out.sum(axis=1).tolist() == [3, 3, 3]


def test_curves_of_different_lengths_are_divided_each_by_itself():
    table = pd.DataFrame({"run": ["a"] * 3 + ["b"] * 6, "D": [1, 2, 3, 10, 20, 30, 40, 50, 60]})
    held = folds.contiguous_blocks("D", 3, within="run").split(table).held_out
    assert held.sum(axis=1).tolist() == [3, 3, 3]
    assert held[0].tolist() == [True, False, False, True, True, False, False, False, False]
    assert folds.hold_out("D", "last", "1/3", within="run").split(table).held_out.sum() == 3
    nowhere = folds.hold_out("D", within=[]).split(table).held_out  # no curves: as a whole
    np.testing.assert_array_equal(nowhere, folds.hold_out("D").split(table).held_out)
    four = folds.hold_out("D", "after", 2, within="run").split(table)
    assert four.fitted[0].tolist() == [True, True, False, True, True] + [False] * 4


def test_extrapolations():
    held = folds.hold_out("N").split(QUE)
    np.testing.assert_array_equal(held.held_out[0], QUE["N"] == 4)
    assert held.labels == ("N = 4 held out",)
    early = folds.hold_out("D", "after", 4).split(QUE)
    assert sorted(QUE["D"][early.fitted[0]].unique()) == sorted(QUE["D"].unique())[:4]
    every = folds.in_sample().split(QUE)
    assert every.fitted.all() and every.held_out.all()


def test_rows_no_fold_may_have_are_in_neither_part():
    usable = np.arange(len(QUE)) % 3 > 0
    result = folds.leave_one_group_out("N").split(QUE, usable)
    assert not (result.fitted | result.held_out)[:, ~usable].any()
    assert (result.fitted ^ result.held_out)[:, usable].all()
    own = np.ones((2, len(QUE)))
    own[0, :50], own[1, 50:90] = 0, 0
    masks = folds.as_design(own).split(QUE, usable)
    np.testing.assert_array_equal(masks.fitted, (own > 0) & usable)


def test_scikit_learns_splitters():
    selection = pytest.importorskip("sklearn.model_selection")
    table = QUE.assign(run=QUE["N"].astype(str) + "/" + QUE["r"].astype(str))
    kinds = [
        folds.as_design(selection.KFold(4, shuffle=True, random_state=0)),
        folds.from_sklearn(selection.GroupKFold(3), groups="run"),
        folds.from_sklearn(selection.LeavePGroupsOut(2), groups="r"),
        folds.as_design(selection.TimeSeriesSplit(3)),
    ]
    result = [design.split(table) for design in kinds]
    assert [len(one) for one in result] == [4, 3, 36, 3]
    mine = folds.leave_p_groups_out("r", 2).split(table)
    np.testing.assert_array_equal(result[2].held_out, mine.held_out)
    for rows in table.groupby("run").indices.values():
        assert (np.ptp(1 * result[1].fitted[:, rows], axis=1) == 0).all()
    assert not (result[3].fitted[0] | result[3].held_out[0]).all()


def test_designs_by_name():
    for design in (*DESIGNS, folds.in_sample(), folds.hold_out("D", "last", "1/3", ["N", "run"])):
        again = folds.as_design(design.name)
        assert again.name == design.name
        table = QUE.assign(run=np.arange(len(QUE)) % 7)
        np.testing.assert_array_equal(again.split(table).held_out, design.split(table).held_out)


@pytest.mark.parametrize(
    ("design", "message"),
    [
        (folds.leave_one_group_out("n"), "no column n; columns: N, D, r, loss"),
        (folds.leave_one_group_out("one"), "fold 'one = x held out' has no row left to fit"),
        (folds.leave_p_groups_out("one", 2), "too few values for a fold"),
        (folds.leave_p_groups_out("loss", 3), "folds; take k_fold"),
        (folds.leave_one_group_out("holes"), "column holes is empty in rows 0, 1, 2"),
        (folds.hold_out("one"), "one is no column of numbers"),
        (folds.contiguous_blocks("N", 4), "'block 2 of 4 of N held out' has no row held out"),
    ],
)
def test_data_that_do_not_make_the_folds(design, message):
    holes = np.where(np.arange(540) < 3, np.nan, 1.0)
    with pytest.raises(jl.DataError, match=message):
        design.split(QUE.assign(one="x", holes=holes))


def test_values_that_are_equal_but_for_conversion_are_one():
    table = QUE.assign(r=1 - (1 - QUE["r"]))
    assert table["r"].nunique() == 9 and not table["r"].isin(RATIOS).all()
    result = folds.leave_p_groups_out("r", 2).split(pd.concat([table, QUE], ignore_index=True))
    assert len(result) == 36 and result.labels[-1] == "r = 0.9, 1 held out"
