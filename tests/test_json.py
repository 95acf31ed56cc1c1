"""Files of results: read once, taken for what they hold, refused for what they do not."""

import json
from pathlib import Path

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw.uncertainty import Draws
from tests.fixtures.studies import a_study

FIT = jl.published()["besiroglu-2024"]
DRAWN = Draws(FIT, {name: value * np.linspace(0.9, 1.1, 20)
                         for name, value in FIT.params.items()})  # fmt: skip
KEPT = {"fitted law": FIT, "study": a_study(), "draws": DRAWN}
#: What the reader of each reads: that of fitted laws reads every result.
READ = {"fitted law": "result", "study": "study", "draws": "draws"}
LOAD = {"fitted law": jl.load, "study": jl.Study.load, "draws": Draws.load}


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind, result in KEPT.items():
        result.save(f"{kind}.json")


@pytest.mark.parametrize("kind", KEPT)
def test_a_file_gives_back_its_record_and_is_refused_by_the_readers_of_others(saved, kind):
    assert LOAD[kind](f"{kind}.json").to_dict() == KEPT[kind].to_dict()
    for other, load in LOAD.items():
        if load is jl.load:
            assert load(f"{kind}.json").to_dict() == KEPT[kind].to_dict()
        elif other != kind:
            text = f"{kind}.json is not a jaxlaw {READ[other]}: it holds a {kind}"
            with pytest.raises(jl.DataError, match=f"{text}.*; give the file of a {READ[other]}"):
                load(f"{kind}.json")


@pytest.mark.parametrize("kind", KEPT)
def test_a_file_without_a_kind_is_refused(saved, kind):
    record = {k: v for k, v in KEPT[kind].to_dict().items() if k not in ("kind", "schema")}
    Path("bare.json").write_text(json.dumps(record))
    with pytest.raises(
        jl.DataError, match=f"bare.json is not a jaxlaw {READ[kind]}: field 'kind' does"
    ):
        LOAD[kind]("bare.json")


def test_records_without_a_file_are_read_as_strictly():
    assert jl.Study.from_dict(a_study().to_dict()).summary() == a_study().summary()
    half = DRAWN.to_dict()
    del half["fit"]["params"]["alpha"]
    for of, record, message in (
        (jl.Study, FIT.to_dict(), "it is no jaxlaw study"),
        (jl.Study, [], "it is no jaxlaw study"),
        (jl.Study, a_study().to_dict() | {"frame": 3}, "record is not a complete jaxlaw study"),
        (Draws, FIT.to_dict(), "it is no jaxlaw draws"),
        (Draws, half, "not a complete jaxlaw draws: field 'fit.params.alpha'"),
    ):
        with pytest.raises(jl.DataError, match=message):
            of.from_dict(record)


@pytest.mark.full
@pytest.mark.parametrize("kind", KEPT)
def test_a_report_of_standard_input_is_that_of_the_file(saved, command, kind):
    assert command("report", f"{kind}.json", "-o", "file.html")[0] == 0
    assert command("report", "-", "-o", "pipe.html", stdin=Path(f"{kind}.json").read_text())[0] == 0
    assert Path("pipe.html").read_text() == Path("file.html").read_text()


def test_a_report_of_a_bootstrap_has_its_intervals(saved, command):
    assert command("report", "draws.json", "-o", "page.html")[0] == 0
    assert Path("page.html").read_text("utf-8") == jl.report(FIT, intervals=DRAWN)


def test_a_plan_takes_draws_from_standard_input_and_no_study(saved, command):
    asked = ("--compute", "1e21", "--json")
    piped = command("plan", "allocation", "-", *asked, stdin=Path("draws.json").read_text())
    assert piped == command("plan", "allocation", "draws.json", *asked)
    assert piped[0] == 0 and json.loads(piped[1])["quantities"]["N"]["low"]
    code, out, err = command("plan", "allocation", "study.json", *asked)
    assert (code, out) == (2, "") and "not Study" in err


def test_a_broken_bootstrap_is_refused_by_name(saved, command):
    text = Path("draws.json").read_text()
    Path("cut.json").write_text(text[: len(text) // 2])
    Path("edited.json").write_text(text.replace('"E": [', '"E": [7, '))
    for name, message in (("cut", "cut.json"),
                          ("edited", "edited.json was changed after")):  # fmt: skip
        code, out, err = command("plan", "allocation", f"{name}.json", "--compute", "1e21")
        assert (code, out) == (1, "") and message in err
