"""Results: what every answer is as text, file, schema, table of a paper, notebook and picture."""

import html
import json
from pathlib import Path

import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import papers, planning
from jaxlaw._result import HOMES
from tests.fixtures.command_files import PAIRS, a_forecast, prepare
from tests.fixtures.drawn_laws import DOMAIN, GENERAL, drawn
from tests.fixtures.python_calls import BACK
from tests.fixtures.studies import a_study

FIT = drawn(PAIRS["fit"])
CURVE = ("annealing", {"L0": 2.0, "A": 0.5, "alpha": 0.5, "C": 2.0})
MIXING = {name: drawn(PAIRS[name]).fit for name in ("python", "wiki")}
MADE = {
    "allocation": lambda: planning.allocation(FIT, 1e21),
    "allocation law": lambda: planning.allocation_law(FIT),
    "frontier": lambda: planning.frontier(FIT, [1e19, 1e21]),
    "mixture": lambda: planning.optimal_mixture(
        drawn(GENERAL).fit, drawn(DOMAIN).fit, start=2.86, at={"N": 2e9, "D": 1e10}
    ),
    "turning length": lambda: planning.turning_length(jl.published()["wang-2025-pt"], BACK),
    "critical batch size": lambda: planning.critical_batch_size(
        ("tuned-skaling", jl.simulate.TRUTHS["tuned-skaling"]), at={"N": 7e9, "D": 1e12}
    ),
    "optimal weights": lambda: planning.optimal_weights(MIXING, caps={"code": 0.3}),
    "optimal schedule": lambda: planning.optimal_schedule(CURVE, 60, 0.01, floor=1e-3),
    "valuation": lambda: papers.pretraining_value("checkpoints.csv", at=1e12, n_resamples=0),
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
    assert type(again) is type(result) and again.kind_name == kind
    assert again.to_dict() == result.to_dict() and again.summary() == result.summary()
    for name, table in result.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table, check_dtype=False)


@pytest.mark.parametrize("kind", MADE)
def test_notebooks_and_papers_show_its_numbers(made, kind):
    result = made[kind]
    page, table = result._repr_html_(), result.to_latex()
    for name, one in result.quantities.items():
        shown = one.number
        assert name in page and shown in page
        assert name.replace("_", r"\_") in table
        assert name not in ("N", "D", "compute", "loss", "share") or shown in result.summary()
    head = html.escape(result.headline)
    assert head and f"<p><b>{head}</b>" in page and r"\toprule" in table
    text = " ".join(result.summary().split())
    assert text.startswith(" ".join(result.headline.split()))


@pytest.mark.parametrize("kind", MADE)
def test_every_column_of_a_plan_says_its_unit(made, kind):
    """Or that it has none, by an empty one; limits have that of what they limit."""
    result = made[kind]
    for table in result.tables.values():
        for name in map(str, table.select_dtypes("number")):
            assert result.unit_of(name.removesuffix("_low").removesuffix("_high")) is not None, name


def test_a_changed_or_foreign_record_is_refused(made):
    record = made["allocation"].to_dict()
    for changed, message in (
        ({"quantities": {"loss": {"value": "two"}}}, "field 'quantities.loss.unit' is missing"),
        ({"level": "two"}, "field 'level' is 'two'; it must be a number"),
        ({"surprise": 1}, "'surprise' is none of"),
        ({"kind": "jaxlaw study"}, "is no jaxlaw answer: field 'kind'"),
        ({"schema": 99}, "has schema 99; this jaxlaw reads 10"),
    ):
        with pytest.raises(jl.DataError, match=message):
            planning.allocation(FIT, 1e21).from_dict(record | changed)


def a_backtest():
    runs = jl.simulate.experiment("chinchilla", noise=0.004).table.iloc[::9]
    return jl.backtest(runs, "chinchilla", cutoffs=2)


def a_bootstrap(fit):
    return jl.bootstrap(fit, jl.simulate.experiment("chinchilla").table, 5, progress=False)


#: Kind of a file → a result of that class, from a fit.
OF_CLASS = {
    "fit": lambda fit: fit,
    "fitted law": lambda fit: jl.published()["besiroglu-2024"],  # a range of it is not known: NaN
    "prior": lambda fit: jl.fitting.field_prior(),
    "draws": lambda fit: a_bootstrap(fit).draws(),
    "bootstrap": a_bootstrap,
    "covariance": lambda fit: jl.covariance(fit, jl.simulate.experiment("chinchilla").table),
    "study": lambda fit: a_study(),
    "forecast": lambda fit: a_forecast(),
    "backtest": lambda fit: a_backtest(),
}


def test_every_class_of_results_is_known():
    assert {*OF_CLASS} == {*HOMES}


@pytest.mark.parametrize("kind", OF_CLASS)
def test_every_result_is_read_as_it_was_written(kind, tmp_path, chinchilla_fit):
    result = OF_CLASS[kind](chinchilla_fit)
    record = result.to_dict()
    parsed = json.loads(json.dumps(record, allow_nan=False))
    result.save(tmp_path / "result.json")
    for again in (type(result).from_dict(parsed), jl.load(tmp_path / "result.json")):
        assert type(again) is type(result) and again.to_dict() == record
        for name, table in result.tables.items():
            pd.testing.assert_frame_equal(again.tables[name], table, check_dtype=False)
        assert again.summary() == result.summary() and again._repr_html_() == result._repr_html_()
    for name in record:
        if name != "next_step":
            with pytest.raises(jl.DataError, match=name):
                type(result).from_dict({k: v for k, v in parsed.items() if k != name})
    with pytest.raises(jl.DataError, match="'more'"):
        type(result).from_dict(parsed | {"more": 1})
