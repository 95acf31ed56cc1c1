"""Results: what every answer is as text, file, schema, table of a paper, notebook and picture."""

import inspect
import json
from pathlib import Path
from typing import get_type_hints

import jsonschema
import numpy as np
import pandas as pd
import pytest
from planned import DOMAIN, GENERAL, drawn
from prepared import PAIRS, prepare
from python_calls import BACK

import jaxlaw as jl
from jaxlaw import _json as records
from jaxlaw import planning
from jaxlaw._result import RESULTS, Result

FIT = drawn(PAIRS["fit"])
CURVE = ("annealing", {"L0": 2.0, "A": 0.5, "alpha": 0.5, "C": 2.0})
MIXING = {name: drawn(PAIRS[name]).fit for name in ("python", "wiki")}
MADE = {
    "allocation": lambda: planning.allocation(FIT, 1e21),
    "allocation law": lambda: planning.allocation_law(FIT),
    "frontier": lambda: planning.frontier(FIT, [1e19, 1e21]),
    "mixture": lambda: planning.optimal_mixture(
        drawn(GENERAL).fit, drawn(DOMAIN).fit, start=2.86, N=2e9, D=1e10
    ),
    "turning length": lambda: planning.turning_length(jl.published()["wang-2025-pt"], BACK),
    "optimal weights": lambda: planning.optimal_weights(MIXING, caps={"code": 0.3}),
    "optimal schedule": lambda: planning.optimal_schedule(CURVE, 60, 0.01, floor=1e-3),
    "model choice": lambda: planning.choose_model("samples.csv", at=1e6, n_resamples=0),
    "valuation": lambda: planning.pretraining_value("checkpoints.csv", at=1e12, n_resamples=0),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A result of each kind; those of tables read the prepared files."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("results"))
        prepare(Path())
        return {kind: make() for kind, make in MADE.items()}


@pytest.mark.full
@pytest.mark.parametrize("kind", MADE)
def test_a_file_gives_back_the_result(made, kind, tmp_path):
    result, path = made[kind], tmp_path / "result.json"
    result.save(path)
    again = jl.load(path)
    assert type(again) is type(result) and again.kind_of_record() == kind
    assert again.to_dict() == result.to_dict() and again.summary() == result.summary()
    for name, table in result.tables().items():
        pd.testing.assert_frame_equal(again.tables()[name], table, check_dtype=False)


@pytest.mark.parametrize("kind", MADE)
def test_its_schema_describes_its_record(made, kind):
    record = json.loads(json.dumps(made[kind].to_dict(), allow_nan=False))
    jsonschema.validate(record, made[kind].json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(record | {"notes": "none"}, made[kind].json_schema())


@pytest.mark.parametrize("kind", MADE)
def test_notebooks_and_papers_show_its_numbers(made, kind):
    result = made[kind]
    page, table = result._repr_html_(), result.to_latex()
    for name, value in result.quantities.items():
        assert name in page and f"{value:.6g}" in page
        assert name.replace("_", r"\_") in table
    assert page.startswith(f"<div><p><b>{kind}</b>") and r"\toprule" in table


@pytest.mark.parametrize("kind", [k for k in MADE if RESULTS[k].picture])
def test_its_picture_is_drawn(made, kind, ax):
    assert made[kind].plot(ax) is ax and ax.has_data()


def test_what_has_no_picture_says_so(made):
    with pytest.raises(jl.UsageError, match="no picture of an allocation law"):
        made["allocation law"].plot()


def test_a_changed_or_foreign_record_is_refused(made):
    record = made["allocation"].to_dict()
    for changed, message in (
        ({"loss": "two"}, "field 'loss' is not a number"),
        ({"surprise": 1}, "'allocation.surprise' is none of"),
        ({"kind": "jaxlaw frontier"}, "is not a jaxlaw allocation: field 'kind'"),
        ({"schema": 99}, "has schema 99; this jaxlaw reads 1"),
    ):
        with pytest.raises(jl.DataError, match=message):
            planning.allocation(FIT, 1e21).from_dict(record | changed)


def test_a_table_is_saved_as_csv_and_numbers_are_not(made, tmp_path):
    made["frontier"].save(tmp_path / "frontier.csv")
    table = pd.read_csv(tmp_path / "frontier.csv")
    np.testing.assert_allclose(table["N"], made["frontier"].table["N"], rtol=1e-12)
    with pytest.raises(jl.UsageError, match="has no table: save it as JSON"):
        made["allocation law"].save(tmp_path / "law.csv")


def test_every_plan_returns_a_result_or_a_table():
    for name in planning.__all__:
        function = getattr(planning, name)
        if inspect.isfunction(function) and name != "best_run":
            returned = get_type_hints(function)["return"]
            assert returned is pd.DataFrame or issubclass(returned, Result), name


def test_named_tuples_and_tables_are_written_by_their_fields():
    table = pd.DataFrame({"x": [1.0, np.nan]}, index=pd.Index(["a", "b"], name="row"))
    assert records.plain({"areas": jl.Areas(1.0, np.inf), "table": table}) == {
        "areas": {"S1": 1.0, "S2": "inf"},
        "table": [{"row": "a", "x": 1.0}, {"row": "b", "x": "nan"}],
    }
