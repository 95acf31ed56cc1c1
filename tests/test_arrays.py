"""What is missing is missing in every container, and what is no number is none, at every entry."""

import datetime
import io

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from tests.fixtures.run_tables import assert_same, simple

FIT = jl.published()["besiroglu-2024"]
REPEATED = jl.FittedLaw("repetition", jl.simulate.TRUTHS["repetition"])
TABLE = simple().drop(columns="r")
GONE = np.isin(np.arange(12), (2, 7))
PLAIN = TABLE.assign(loss=TABLE["loss"].mask(GONE))
DROPPED = jl.read_runs(PLAIN, drop_invalid=True).observations("chinchilla")


def masked(values, gone=GONE):
    """An array with numbers behind its mask that would change a fit."""
    return np.ma.array(np.where(gone, 1.5, values), mask=gone)


def of_library(library):
    """The table of another library, with missing losses."""
    module = pytest.importorskip(library)
    columns = {name: [None if pd.isna(x) else x for x in PLAIN[name]] for name in PLAIN}
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


CONTAINERS = {
    "masked": lambda: {**TABLE, "loss": masked(TABLE["loss"])},
    "masked constants": lambda: {
        **TABLE,
        "loss": [np.ma.masked if gone else x for x, gone in zip(TABLE["loss"], GONE, strict=True)],
    },
    "structured": lambda: np.ma.array(
        TABLE.to_records(index=False), mask=[(False, False, gone) for gone in GONE]
    ),
    "nullable": lambda: PLAIN.convert_dtypes(),
    "nullable array": lambda: {**TABLE, "loss": pd.array(PLAIN["loss"], "Float64")},
    "pyarrow columns": lambda: PLAIN.convert_dtypes(dtype_backend="pyarrow"),
    "pyarrow": lambda: of_library("pyarrow"),
    "polars": lambda: of_library("polars"),
    "polars column": lambda: {**TABLE, "loss": of_library("polars")["loss"]},
    "pyarrow column": lambda: {**TABLE, "loss": of_library("pyarrow")["loss"]},
    "None": lambda: {**TABLE, "loss": [None if pd.isna(x) else x for x in PLAIN["loss"]]},
    "NaT": lambda: PLAIN.astype(object).where(PLAIN.notna(), pd.NaT),
    "JAX": lambda: {**TABLE, "loss": jnp.array(PLAIN["loss"].to_numpy(), float)},
    "texts": lambda: PLAIN.astype(object).where(PLAIN.notna(), ""),
    "CSV": lambda: io.StringIO(PLAIN.to_csv(index=False)),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_missing_losses_are_named_or_dropped(name):
    if "pyarrow" in name:
        pytest.importorskip("pyarrow")
    with jax.enable_x64(True):
        table = CONTAINERS[name]()
    with pytest.raises(jl.DataError, match=r"column loss: not positive and finite: \w+ \d+ \(nan"):
        jl.fit("chinchilla", CONTAINERS[name]())
    if name in ("structured", "CSV"):  # rows of other names
        table = jl.read_runs(table).table.reset_index(drop=True)
    assert_same(jl.read_runs(table, drop_invalid=True).observations("chinchilla"), DROPPED)


def test_masked_whole_numbers_labels_and_truths_are_missing():
    table = jl.read_runs(
        {
            "N": np.ma.array([1, 2], mask=[False, True]),
            "split": np.ma.array(["fit", "test"], mask=[False, True]),
            "ok": np.ma.array([True, True], mask=[False, True]),
            "date": np.ma.array(np.array(["2024", "2025"], "M8[s]"), mask=[False, True]),
        }
    ).table
    assert table.isna().to_numpy().tolist() == [[False] * 4, [True] * 4]
    assert table["N"][0] == 1 and table["split"][0] == "fit" and table["ok"][0] is True


def test_masked_weights_are_named():
    for weight in (masked(np.ones(12)), pd.array([1.0, None] * 6, "Float64"), [1, None] * 6):
        with pytest.raises(jl.DataError, match="rows? [12].*weights negative, missing"):
            jl.read_runs(TABLE, weight=weight)


def test_masked_inputs_of_curves_are_missing():
    curves = {"run": ["a"] * 3, "step": [1, 2, 3], "lr": [1e-3] * 3}
    loss = np.ma.array([3.0, 2.0, 1.0], mask=[False, True, False])
    read = jl.read_loss_curves({**curves, "loss": loss})
    assert read.table["loss"].tolist() == [3.0, 1.0]
    steps = np.ma.array([1, 2, 3], mask=[False, False, True])
    with pytest.raises(jl.DataError, match=r"column step: row 2 \(nan\)"):
        jl.read_loss_curves({**curves, "step": steps, "loss": [3.0, 2.0, 1.0]})
    rates = np.ma.array([1e-3, 5e-4], mask=[False, True])
    for call in (
        lambda: jl.read_loss_curves({"run": ["a"], "step": [2], "loss": [3.0]}, schedule=rates),
        lambda: jl.schedules.Schedule(rates, 1e-3),
    ):
        with pytest.raises(jl.UsageError, match="rate of step 2 is nan"):
            call()


def test_arrays_of_batches_have_no_masks():
    """Rows behind a mask are NaN in the array core, too, where every start then fails."""
    from jaxlaw._arrays import as_array

    for values in (masked(np.ones(12)), pd.array(np.where(GONE, None, 1.0), "Float64")):
        np.testing.assert_array_equal(np.isnan(as_array("targets", values)), GONE)
    kept = masked(np.ones(12, np.float32), np.zeros(12, bool))
    assert as_array("targets", kept).dtype == jnp.float32
    with pytest.raises(jl.UsageError, match="targets must be an array of numbers"):
        as_array("targets", np.array(["2024"], "M8[s]"))


@pytest.mark.parametrize(
    "value",
    [
        np.ma.array([1e9, 2e9], mask=[False, True]), [1e9, None], [1e9, np.ma.masked],
        pd.array([1_000_000_000, None], "Int64"), pd.Series([1e9, pd.NA], dtype="Float64"),
        [1e9, pd.NaT],
    ],
)  # fmt: skip
def test_missing_inputs_of_points_are_refused(value):
    calls = (
        lambda: FIT.predict(N=value, D=1e10),
        lambda: FIT.predict({"N": value, "D": [1e10, 1e10]}),
        lambda: FIT.is_extrapolation(N=value, D=1e10),
    )
    for call in calls:
        with pytest.raises(jl.DataError, match="input N must be finite and positive: 1 of 2"):
            call()
    with pytest.raises(jl.UsageError, match=r"computes?\S* is "):
        jl.planning.frontier(FIT, value)


@pytest.mark.parametrize(
    "value",
    [
        True, [1e9, True], np.array([True]), pd.array([True, None], "boolean"),
        np.datetime64(5, "ns"), np.array([5], "M8[ns]"), [np.datetime64(5, "ns")],
        pd.Timestamp(5), datetime.date(2024, 1, 1), pd.Series(pd.to_datetime(["2024-01-01"])),
        np.timedelta64(5, "ns"), np.array([5], "m8[ns]"), pd.Timedelta(5), datetime.timedelta(1),
        b"7", [b"7"], np.array([b"7"]), "seven", ["7Q"], 1j, np.array([1j]),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_number_is_refused(value):
    with pytest.raises(jl.DataError, match="input N is not numeric: .* is no number"):
        FIT.predict(N=value, D=1e10)
    with pytest.raises(jl.UsageError, match=r"U('\])? (is|must be) "):
        jl.planning.allocation(REPEATED, 1e21, at={"U": value})
    with pytest.raises(jl.UsageError, match="comput"):
        jl.planning.frontier(FIT, value)
    column = value if np.ndim(value) else [value]
    with pytest.raises(jl.JaxlawError, match=r"not a number|no column of numbers"):
        jl.read_runs({"N": column, "D": [1e10] * len(column), "loss": 2.0}).observations(
            "chinchilla"
        )


def test_numbers_of_every_kind_are_numbers():
    from decimal import Decimal
    from fractions import Fraction

    expected = FIT.predict(N=1e9, D=1e10)
    for value in (10**9, np.float32(1e9), np.int64(10**9), Decimal(10**9), Fraction(10**9),
                  jnp.float32(1e9), np.array(1e9), pd.Series([1e9])[0]):  # fmt: skip
        np.testing.assert_array_equal(FIT.predict(N=value, D=1e10), expected)
    for values in ((1e9,), range(10**9, 10**9 + 1), pd.Series([1e9], dtype="Int64"),
                   jnp.array([1e9]), [np.array(1e9)], pd.Index([1e9])):  # fmt: skip
        np.testing.assert_array_equal(FIT.predict(N=values, D=1e10), [expected])


def test_groups_are_given_by_label():
    def fitted(*labels):
        law = jl.laws.grouped("chinchilla", labels, own=["E"])
        own = {f"E[{label}]": 1.5 + k for k, label in enumerate(labels)}
        return jl.FittedLaw(law, {**own, "A": 400, "B": 410, "alpha": 0.34, "beta": 0.28})

    fit, at = fitted("a", "b"), {"N": 1e9, "D": 1e10}
    for code in (0, 1.0, np.int64(0), [0, 1], np.array([0.5]), None, np.nan):
        with pytest.raises(jl.DataError, match=r"input group is .*; it takes a, b"):
            fit.predict(**at, group=code)
    loss = fit.predict(**at, group=["a", "b"])
    sizes = fitted("7", "13")
    for label in ("7", 7, 7.0, np.int64(7)):
        assert sizes.predict(**at, group=label) == pytest.approx(loss[0], rel=1e-14)
    with pytest.raises(jl.DataError, match="it takes 7, 13"):
        sizes.predict(**at, group=1)


def test_arrays_that_jax_traces_are_refused_with_what_works_there():
    table = {"N": [1e8, 1e9], "D": [1e9, 1e10]}
    for outside in (
        lambda loss: jl.fit("chinchilla", {**table, "loss": loss}).params,
        lambda N: jl.published()["hoffmann-2022"].predict(N=N, D=1e10),
    ):
        with pytest.raises(jl.DataError, match="jl.fit_batch to fit, and law.* to predict"):
            jax.jit(outside)(np.array([3.0, 2.5]))
