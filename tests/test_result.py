"""Results: what every answer is as text, file, schema, table of a paper, notebook and picture."""

import dataclasses
import html
import importlib
import json
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import _json as records
from jaxlaw import papers, planning
from jaxlaw._quantities import written
from jaxlaw._result import _PACKAGES, RESULTS, Result, saved_fields
from jaxlaw._typed import _choices
from jaxlaw.fitting._result import RunnerUp, StandardErrors
from jaxlaw.fitting._scores import METRICS
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from tests.fixtures.command_files import PAIRS, a_forecast, prepare
from tests.fixtures.drawn_laws import DOMAIN, GENERAL, drawn
from tests.fixtures.python_calls import BACK

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
    assert type(again) is type(result) and again.kind_of_record() == kind
    assert again.to_dict() == result.to_dict() and again.summary() == result.summary()
    for name, table in result.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table, check_dtype=False)


@pytest.mark.parametrize("kind", MADE)
def test_notebooks_and_papers_show_its_numbers(made, kind):
    result = made[kind]
    page, table = result._repr_html_(), result.to_latex()
    for name, value in result.quantities.items():
        shown = written(value, *result.quantity_units[name])
        assert name in page and shown in page
        assert name.replace("_", r"\_") in table
        assert name not in ("N", "D", "compute", "loss", "share") or shown in result.summary()
    head = html.escape(result.headline)
    assert head and page.startswith(f"<div><p><b>{head}</b>") and r"\toprule" in table
    text = " ".join(result.summary().split())
    assert text.startswith(" ".join(result.headline.split()))


@pytest.mark.parametrize("kind", MADE)
def test_every_column_of_a_plan_says_its_unit(made, kind):
    """Or that it has none, by an empty one; limits have that of what they limit."""
    result = made[kind]
    for table in result.tables.values():
        for name in map(str, table.select_dtypes("number")):
            assert result.unit_of(name.removesuffix("_low").removesuffix("_high")) is not None, name


@pytest.mark.parametrize(
    "kind", [kind for kind in RESULTS if RESULTS[kind].__module__[:6] == "jaxlaw"]
)
def test_every_number_of_a_result_says_its_unit(kind):
    """Or that it has none: ``metadata={"unit": ""}``."""
    hints = get_type_hints(RESULTS[kind])
    numbers = [f for f in saved_fields(RESULTS[kind]) if hints[f.name] in (float, float | None)]
    assert not [field.name for field in numbers if "unit" not in field.metadata]


def test_a_changed_or_foreign_record_is_refused(made):
    record = made["allocation"].to_dict()
    for changed, message in (
        ({"loss": "two"}, "field 'loss' is not a number"),
        ({"surprise": 1}, "'surprise' is none of"),
        ({"kind": "jaxlaw frontier"}, "is not a jaxlaw allocation: field 'kind'"),
        ({"schema": 99}, "has schema 99; this jaxlaw reads 7"),
    ):
        with pytest.raises(jl.DataError, match=message):
            planning.allocation(FIT, 1e21).from_dict(record | changed)


def test_a_table_is_saved_as_csv_and_numbers_are_not(made, tmp_path):
    made["frontier"].save(tmp_path / "frontier.csv")
    table = pd.read_csv(tmp_path / "frontier.csv")
    np.testing.assert_allclose(table["N"], made["frontier"].table["N"], rtol=1e-12)
    with pytest.raises(jl.UsageError, match="has no table: save it as JSON"):
        made["allocation law"].save(tmp_path / "law.csv")


PRINTED = jl.published()["besiroglu-2024"]
#: A value of a type, as a field may hold it; of others the type says how it is made.
PLAIN = {
    float: 0.1, int: 3, str: "nan", bool: True, np.ndarray: np.array([0.5, np.inf]),
    pd.DataFrame: pd.DataFrame({"word": ["inf", "b"], "x": [0.1, np.nan]}), type(None): None,
    Note: Note("few-rows", "warning", "öde"), jl.FittedLaw: PRINTED,
    jl.Schedule: jl.schedules.cosine(1e-3, 5), Law: PRINTED.law, Any: 1.5,
}  # fmt: skip


#: Fields that belong together: as many rows as there are points, the parameters of the law.
TOGETHER = {
    jl.Forecast: {"quantiles": np.ones((265, 1)), "posterior": a_forecast().posterior,
                  "backtest": None},
    jl.forecasting.Backtest: {"along": "compute"},
    jl.fitting.Prior: {"covariances": {"a": np.eye(2), "nan": np.eye(2)}},
    planning.ContinualRun: {"runs": pd.DataFrame({"r": [0.3], "weighted": [2.0]})},
    planning.OptimalSchedule: {
        "comparison": pd.DataFrame(
            {"loss": [2.0, 2.1]}, index=pd.Index(["optimal", "wsd"], name="schedule")
        ),
    },
    jl.uncertainty.Covariance: {"coordinates": np.eye(2), "bread": np.eye(2),
                                "jacobian": np.ones((5, 2))},
    jl.Bootstrap: {"params": {name: value * np.array([0.9, 1.0, np.nan, 1.2])
                              for name, value in PRINTED.params.items()}, "degrees": np.inf},
}  # fmt: skip


#: The same, of forecasts that are results themselves: made when they are needed.
HOLDING = {
    jl.uncertainty.Profile: lambda: {
        "table": pd.DataFrame(
            {"value": [0.1, 0.2], "objective": [2.0, 1.0], "root": [-1.0, 0.0],
             "prediction": [2.1, 2.2]}
        ),
    },
    jl.forecasting.ScoreForecast: lambda: {
        "forecasts": {"a": built(jl.Forecast)},
        "table": pd.DataFrame(
            {"task": ["a"], "N": [1e9]} | dict.fromkeys(
                ("loss", "score", "low", "high", "chance", "from_loss", "from_law", "from_noise"),
                [0.3],
            ) | {"note": [""]}
        ),
        "choices": pd.DataFrame(
            {"task": ["a"], "loss": ["bpb"], "probability": [0.9], "chosen": [True]}
        ),
        "mean": pd.DataFrame({"N": [1e9], "score": [0.3], "low": [0.2], "high": [0.4]}),
    },
}  # fmt: skip


def value_of(hint, columns=None, index=None):
    """A value that a type hint describes; a table has these columns."""
    origin, members = get_origin(hint), get_args(hint)
    if columns or index:
        kinds = columns or {"x": float}
        table = pd.DataFrame({name: [value_of(kind)] for name, kind in kinds.items()})
        table = table.assign(**{index: ["a"]}) if index else table
        return table.set_index(index) if index else table
    if origin is Annotated:
        return value_of(members[0])
    if origin is Literal:
        return members[0]
    if origin in (UnionType, Union):
        return value_of(members[0])
    if origin in (dict, Mapping):
        names = _choices(members[0]) or ("a", "nan")
        return {name: value_of(members[1]) for name in names}
    if origin is tuple:
        kinds = members[:1] * 2 if members[-1] is ... else members
        return tuple(value_of(kind) for kind in kinds)
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, Result):
        return built(hint)
    return hint(**{name: value_of(kind) for name, kind in get_type_hints(hint).items()})


def built(cls):
    """A result of a class, made of nothing but what its fields say; of fits, with a law's names."""
    hints = get_type_hints(cls, include_extras=True)
    if cls is jl.FittedLaw:
        return PRINTED
    if cls is jl.Fit:
        shared = {field.name for field in dataclasses.fields(jl.FittedLaw)}
        own = {
            field.name: value_of(hints[field.name])
            for field in dataclasses.fields(cls)
            if field.name not in shared | {"sample", "runner_up", "metrics"}
        }
        own |= {
            "residuals": "log", "metrics": dict.fromkeys(METRICS, 0.5), "tied": {"A": "B"},
            "bounds": {"E": (None, np.inf)},
            "standard_errors": StandardErrors(values={"E": 0.1}, missing={"A": "at a bound"},
                                              degrees=3),
            "runner_up": RunnerUp(0.2, 0.5, PRINTED.params),
        }  # fmt: skip
        return cls(**{name: getattr(PRINTED, name) for name in shared}, **own)
    values = {
        field.name: value_of(
            hints[field.name], field.metadata.get("columns"), field.metadata.get("index")
        )
        for field in saved_fields(cls)
    }
    if issubclass(cls, planning.Answer | planning.AnswerTable | planning.OptimalSchedule):
        values["units"] = cls.single_units()
    if issubclass(cls, planning.AnswerTable):
        values["table"] = pd.DataFrame({name: [0.1] for name in cls.declared_units()})
    return cls(**values | TOGETHER.get(cls, {}) | HOLDING.get(cls, dict)())


for module in pkgutil.walk_packages(jl.__path__, "jaxlaw."):
    if ".cli" not in module.name and "__main__" not in module.name:
        importlib.import_module(module.name)  # which makes its results known


@pytest.mark.parametrize("kind", RESULTS)
def test_a_package_lists_its_results(kind):
    """So that a file of any kind is read by importing the one package that lists it."""
    if (own := RESULTS[kind]).__module__.startswith("jaxlaw."):
        package = importlib.import_module(".".join(own.__module__.split(".")[:2]))
        assert package.__name__.split(".")[1] in _PACKAGES
        assert getattr(package, own.__name__) is own and own.__name__ in package.__all__


@pytest.mark.parametrize("kind", RESULTS)
def test_every_result_is_read_as_it_was_written(kind, tmp_path):
    """Of each class that there is: a new one is among them by being one."""
    result = built(RESULTS[kind])
    record = result.to_dict()
    parsed = json.loads(json.dumps(record, allow_nan=False))
    result.save(tmp_path / "result.json")
    for again in (type(result).from_dict(parsed), jl.load(tmp_path / "result.json")):
        assert type(again) is type(result) and again.to_dict() == record
        for name, table in result.tables.items():
            pd.testing.assert_frame_equal(again.tables[name], table, check_dtype=False)
        assert again.summary() == result.summary() and again._repr_html_() == result._repr_html_()
    added = {field.name for field in saved_fields(type(result)) if field.metadata.get("added")}
    for name in added:  # an older file of the same schema
        older = type(result).from_dict({k: v for k, v in parsed.items() if k != name})
        assert not np.nan_to_num(getattr(older, name) or 0.0) and older.summary()
    for name in record:
        if name not in ("next_step", *added):
            with pytest.raises(jl.DataError, match=name):
                type(result).from_dict({k: v for k, v in parsed.items() if k != name})
    with pytest.raises(jl.DataError, match="'more'"):
        type(result).from_dict(parsed | {"more": 1})


def test_named_tuples_and_tables_are_written_by_their_fields():
    table = pd.DataFrame({"x": [1.0, np.nan]}, index=pd.Index(["a", "b"], name="row"))
    assert records.plain({"areas": jl.data.Areas(1.0, np.inf), "table": table}) == {
        "areas": {"S1": 1.0, "S2": "inf"},
        "table": [{"row": "a", "x": 1.0}, {"row": "b", "x": "nan"}],
    }
