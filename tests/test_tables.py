"""Every format is read, every broken file is refused by name."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import jaxlaw as jl
from jaxlaw.data._runs import read_runs
from jaxlaw.errors import DataError, JaxlawError, UsageError
from jaxlaw.validation._cross_validate import sources_of
from tests.fixtures.run_tables import assert_same, assert_says, codes, simple, write_csv

QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

DATA = os.environ.get("JAXLAW_DATA")


# ---------------------------------------------------------------- formats


def test_csv_gives_arrays_in_the_laws_units(tmp_path):
    path = write_csv(tmp_path, simple())
    single = read_runs(path).observations("chinchilla")
    np.testing.assert_array_equal(single.inputs["N"], simple()["N"].to_numpy())
    assert single.scale == {"N": 1.0, "D": 1.0}
    assert single.source == path
    np.testing.assert_array_equal(single.rows, np.arange(2, 14))
    assert single.target.dtype == np.float64 and len(single) == 12
    billions = read_runs(path, units={"N": 1, "D": 1}).observations("dcpt")
    np.testing.assert_allclose(billions.inputs["N"], simple()["N"] / 1e9, rtol=1e-15)
    assert billions.scale == {"N": 1e-9, "D": 1e-9, "r": 1.0}
    assert billions.ranges["N"] == (1e8, 8e8)
    assert {note.code for note in billions.notes} == {"few-spare-rows"}  # 12 rows


def test_every_source_gives_the_same(tmp_path, monkeypatch):
    frame = simple()
    expected = read_runs(frame).observations("chinchilla")
    text = frame.to_csv(index=False)
    write_csv(tmp_path, frame, "runs.txt")
    frame.to_csv(tmp_path / "runs.tsv", index=False, sep="\t")
    frame.to_json(tmp_path / "runs.jsonl", orient="records", lines=True, double_precision=15)
    records = frame.to_dict("records")
    (tmp_path / "records.json").write_text(json.dumps(records))
    (tmp_path / "lines.json").write_text("\n".join(json.dumps(record) for record in records))
    (tmp_path / "columns.json").write_text(json.dumps(frame.to_dict("list")))
    (tmp_path / "runs.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "bom.csv").write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    sources = [tmp_path / name for name in ("runs.txt", "runs.tsv", "records.json", "lines.json",
                                            "columns.json", "runs.csv.gz", "bom.csv")]  # fmt: skip
    sources += [io.StringIO(text), io.BytesIO(text.encode()), io.StringIO(json.dumps(records))]
    sources += [{name: frame[name].to_numpy() for name in frame}, frame.to_dict("list")]
    for source in sources:
        assert_same(read_runs(source).observations("chinchilla"), expected)
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    piped = read_runs("-")
    assert piped.source == "standard input"
    assert_same(piped.observations("chinchilla"), expected)
    loose = read_runs(tmp_path / "runs.jsonl").observations("chinchilla")
    np.testing.assert_allclose(loose.target, expected.target, rtol=1e-14)


def test_device_arrays_are_columns():
    frame = simple()
    source = {name: jnp.asarray(frame[name].to_numpy(), "float32") for name in frame}
    assert len(read_runs(source).observations("chinchilla")) == 12


def test_runs_pass_through_once():
    runs = read_runs(simple())
    assert read_runs(runs) is runs
    with pytest.raises(UsageError, match="read already"):
        read_runs(runs, units={"N": 1})


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    simple().to_parquet(tmp_path / "runs.parquet")
    expected = read_runs(simple()).observations("chinchilla")
    assert_same(read_runs(tmp_path / "runs.parquet").observations("chinchilla"), expected)
    stream = io.BytesIO((tmp_path / "runs.parquet").read_bytes())
    assert_same(read_runs(stream).observations("chinchilla"), expected)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError) as error:
        read_runs(tmp_path / "broken.parquet")
    assert_says(error, "broken.parquet", "Parquet", "write it again")


def test_line_numbers_count_blank_and_quoted_lines(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text('note,N,D,loss\n\n"two\nlines",1e8,1e9,2\n"a, b",1e8,1e9,-1\n')
    with pytest.raises(DataError) as error:
        read_runs(path).observations("chinchilla")
    assert_says(error, "line 5 (-1.0)")


# ---------------------------------------------------------------- files that are no tables


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("empty.csv", b"", ["is empty", "header"]),
        ("header.csv", b"N,D,loss\n", ["N, D, loss", "no rows", "add at least one"]),
        ("short.csv", b"N,D,loss\n1,2,3\n1,2\n", ["line 3", "2 fields", "has 3", "complete"]),
        ("long.csv", b"N,D\n1,2\n1,2,3\n1,2,3\n", ["line 3", "3 fields"]),
        ("latin.csv", "N,note\n1,é\n".encode("latin-1"), ["0xe9", "UTF-8"]),
        ("wide.csv", "N,D\n1,2\n".encode("utf-16"), ["UTF-8"]),
        ("nul.csv", b"N,D\n1,\x00\n", ["line 2", "NUL"]),
        ("twice.csv", b"N,loss,loss\n1,2,3\n", ["'loss'", "more than once", "rename"]),
        ("short.csv", b"N;D;loss\n1;2\n", ["line 2", "2 fields"]),
        ("both.csv", b"N;D;loss\n1e8;1e9;1,234\n", ["'1,234' is not a number"]),
        ("bare.csv", b"1,2,3\n4,5,6\n", ["no column N", "columns: 1, 2, 3"]),
        ("quote.csv", b'N,D\n1,"2\n', ["quote.csv"]),
        ("bad.json", b'[{"N": 1},\n{"N" 2}]', ["line 2", "JSON", "correct"]),
        ("scalar.json", b"3", ["list of records"]),
        ("uneven.json", b'{"N": [1, 2], "D": [1]}', ["one length"]),
        ("bad.jsonl", b'{"N": 1}\n{"N": }\n', ["line 2", "JSON", "correct"]),
        ("twice.json", b'[{"N": 1, "N": 2}]', ["'N' occurs twice"]),
        ("twice2.json", b'{"N": [1],\n"N": [2]}', ["'N' occurs twice"]),
        ("twice.jsonl", b'{"N": 1}\n{"N": 1, "N": 2}\n', ["line 2", "'N' occurs twice"]),
        ("list.jsonl", b'{"N": 1}\n[1]\n', ["line 2", "record"]),
        ("none.json", b"[]", ["no columns"]),
        ("bad.csv.gz", b"not gzip", ["gzip"]),
    ],
)
def test_broken_files_are_named(tmp_path, name, content, parts):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as error:
        read_runs(tmp_path / name).observations("chinchilla")
    assert_says(error, name, *parts)


class Foreign:
    """A table of a library that is not here, by one of the ways it may be asked."""

    def __init__(self, frame, **ways):
        self.columns, self._frame = list(frame.columns), frame
        for way, answer in ways.items():
            setattr(self, way, answer)

    def __getitem__(self, column):
        return self._frame[column].tolist()


def not_installed():
    raise ModuleNotFoundError("pyarrow is required for to_pandas")


def other_forms(frame):
    """The same table in the forms that are no pandas and no file."""
    yield "records", frame.to_dict("records")
    yield "tuple", tuple(frame.to_dict("records"))
    yield "structured", frame.to_records(index=False)
    yield "to_pandas", Foreign(frame, to_pandas=lambda: frame)
    yield "columns alone", Foreign(frame, to_pandas=not_installed)
    for library in ("pyarrow", "polars"):
        try:
            module = __import__(library)
        except ImportError:
            continue
        of_pandas = getattr(module, "from_pandas", None) or module.Table.from_pandas
        yield library, of_pandas(frame)
        if library == "pyarrow":
            stream = module.Table.from_pandas(frame).__arrow_c_stream__
            yield "__arrow_c_stream__", Foreign(frame, __arrow_c_stream__=stream)
            yield "batch", module.RecordBatch.from_pandas(frame)


def test_tables_of_other_libraries_and_records_are_runs():
    frame = simple().assign(seed=np.arange(12), split=["fit", "test"] * 6)
    expected, forms = read_runs(frame).observations("chinchilla"), 0
    for form, source in other_forms(frame):
        read = read_runs(source, where="split == 'fit' or seed % 2 == 1")
        assert_same(read.observations("chinchilla"), expected)
        assert read.table["split"].tolist() == frame["split"].tolist(), form
        forms += 1
    assert forms >= 6


def test_tables_of_other_libraries_are_predicted_studied_and_read_as_curves(chinchilla_fit):
    frame = simple().assign(seed=np.arange(12), split="fit")
    expected = chinchilla_fit.predict(frame)
    for form, source in other_forms(frame):
        np.testing.assert_array_equal(chinchilla_fit.predict(source), expected, err_msg=form)
    records = frame.to_dict("records")
    names = [name for name, _ in sources_of({"a": records, "b": frame.to_records()})]
    assert names == [("a",), ("b",)]
    assert sources_of({"N": [1.0], "D": np.ones(1)})[0][0] is None
    curve = [{"step": k, "loss": 3.0 - k / 100, "lr": 1e-3} for k in range(1, 9)]
    assert len(jl.read_loss_curves(curve).table) == 8


def test_semicolons_separate(tmp_path):
    frame = simple().assign(note="a, b")
    frame.to_csv(tmp_path / "runs.csv", index=False, sep=";")
    read = read_runs(tmp_path / "runs.csv")
    expected = read_runs(frame).observations("chinchilla")
    assert_same(read.observations("chinchilla"), expected)
    assert set(read.table["note"]) == {"a, b"} and read.table.index[0] == 2


# ---------------------------------------------------------------- any bytes


@settings(QUICK, max_examples=150)
@given(st.one_of(st.binary(max_size=80), st.text(max_size=60),
                 st.text('N,D1.e"\n\r ', max_size=60)),
       st.sampled_from(["x.csv", "x.tsv", "x.json", "x.jsonl", "x.parquet", "x"]))  # fmt: skip
def test_any_bytes_are_read_or_refused(content, name):
    stream = io.BytesIO(content) if isinstance(content, bytes) else io.StringIO(content)
    try:
        runs = read_runs(stream, name=name)
        assert len(runs) > 0
        runs.observations("chinchilla")
    except JaxlawError as error:
        assert name in str(error)


# ---------------------------------------------------------------- real tables

REAL = {
    "chinchilla_points.csv": (
        "chinchilla", {"N": "n_params", "D": "n_tokens"}, "excluded_in_paper_fit == 0", 240),
    "continual_70m.csv": (
        "dcpt", {"N": "n_params", "D": "n_tokens", "r": "python_ratio"},
        "domain == 'python' and n_tokens > 0", 50),
    "mix2_github_pilecc.csv": (
        "dcpt", {"N": "n_params", "D": "n_tokens", "r": "github_ratio"},
        "domain == 'Github' and n_tokens > 0", None),
    "slimpajama_mixtures.csv": (
        "dcpt", {"N": "n_params", "D": "n_tokens", "r": "weight_c4", "loss": "c4_loss"}, None,
        None),
    "finetune_transfer.csv": (
        "chinchilla", {"N": "n_params", "D": "n_finetune_samples"},
        "dataset == 'flan' and n_finetune_samples >= 12800", None),
    "lr_loss_curves.csv": (
        "kaplan", {"N": "model_params_millions", "D": "step"}, "split == 'fit'", None),
}  # fmt: skip


@pytest.mark.skipif(not DATA, reason="JAXLAW_DATA is unset")
@pytest.mark.parametrize("name", REAL)
def test_real_tables(name):
    law, columns, where, count = REAL[name]
    units = {"N": 1e6, "D": 5e5} if name.startswith("lr_") else {"N": 1, "D": 1}
    runs = read_runs(
        Path(DATA or ".") / name, columns, units, where=where, drop_invalid="slim" in name
    )
    result = runs.observations(law)
    assert len(result) == (count or len(runs) - result.dropped) > 20
    assert all(np.isfinite(values).all() for values in result.inputs.values())
    if name == "continual_70m.csv":
        assert "few-values" in codes(result)


@pytest.mark.skipif(not DATA, reason="JAXLAW_DATA is unset")
def test_real_schedules_are_a_table_without_a_loss():
    runs = read_runs(Path(DATA or ".") / "lr_schedules.csv")
    assert len(runs) == 9
    with pytest.raises(DataError, match="lr_schedules.csv: there is no column N .*, D .*, loss"):
        runs.observations("chinchilla")
