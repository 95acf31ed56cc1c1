"""``jaxlaw plot`` draws what any command has written, or says what it needs."""

import json
from pathlib import Path

import pytest

import jaxlaw as jl
from tests.fixtures.command_files import PAIRS, a_forecast, prepare
from tests.fixtures.drawn_laws import DOMAIN, GENERAL, drawn

pytest.importorskip("typer")
pytest.importorskip("matplotlib")
pytestmark = pytest.mark.usefixtures("closed")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Results of several packages as files, in a folder."""
    folder = tmp_path_factory.mktemp("saved")
    prepare(folder)
    fit = jl.load(folder / "fit.json")
    at = {"N": 2e9, "D": 1e10}
    general, domain = map(drawn, (GENERAL, DOMAIN))
    for name, result in {
        "draws": general.draws(),
        "forecast": a_forecast(),
        "frontier": jl.planning.frontier(fit, [1e19, 1e21]),
        "mixture": jl.planning.optimal_mixture(general.fit, domain.fit, start=2.86, at=at),
        "limited": jl.planning.allocation(drawn(PAIRS["fit"]), 1e21, limits={"N": (None, 1e9)}),
        "costly": jl.planning.allocation(fit, 1e21, cost=lambda N, D: 7 * N * D),
        "steps": jl.design.evaluation_steps(5, 20_000),
    }.items():
        result.save(folder / f"{name}.json")
    return folder


@pytest.fixture
def here(saved, command, monkeypatch):
    """In that folder; ``command`` moves to an empty one first."""
    monkeypatch.chdir(saved)


@pytest.mark.parametrize(
    "line,kind",
    [
        ("fit.json runs.csv -c N=n_params -c D=n_tokens", "observed_against_predicted"),
        ("fit.json --kind isoflops --option computes=1e19:1e20", "isoflops"),
        ("fit.json --kind starts-agreement", None),  # drawn parameters do not know their starts
        ("general.json --option along=r --at N=1.8e9", "loss_over_input"),
        ("published:hoffmann-2022 --kind isoloss --option computes=1e20:1e23", "isoloss"),
        ("draws.json --option level=0.5", "parameter_intervals"),
        ("forecast.json", "forecast_intervals"),
        ("frontier.json", "plan"),
        ("mixture.json", "trade_off"),
        ("steps.json", "evaluations"),
    ],
)
def test_a_saved_result_is_drawn(command, here, line, kind):
    out = Path("drawn.svg")
    out.unlink(missing_ok=True)
    code, said, err = command("plot", *line.split(), "--out", out, "--json")
    if kind is None:
        assert code == 2 and "starts" in err and not out.exists()
        return
    assert code == 0 and json.loads(said) == {"picture": "drawn.svg", "kind": kind}
    assert out.read_text().count("<path") > 5


def test_what_a_command_printed_is_no_saved_result(command, here):
    Path("printed.json").write_text('{"law": "chinchilla", "level": 0.95}')
    code, _, err = command("plot", "printed.json")
    assert code == 1 and "there is no picture, but some draw them themselves, by --out x.png" in err


def test_intervals_that_a_command_wrote_are_drawn_at_their_level(command, here):
    options = ("fit.json", "runs.csv", "-c", "N=n_params", "-c", "D=n_tokens", "--level", 0.9)
    assert command("covariance", *options, "--out", "intervals.json")[0] == 0
    code, said, _ = command("plot", "intervals.json", "--out", "intervals.svg", "--json")
    assert (code, json.loads(said)["kind"]) == (0, "parameter_intervals")
    assert "90% intervals" in Path("intervals.svg").read_text()
    code, _, err = command("plot", "intervals.json", "--option", "level=0.5")
    assert code == 2 and "holds intervals of 90%, not 50%" in err


def test_a_plan_that_was_made_elsewhere_is_read_with_its_question(here):
    """A fit's draws come back as draws, a tuple as a tuple; what is no question is refused."""
    plan = jl.load("limited.json")
    assert plan.question["limits"] == {"N": (None, 1e9)}
    draws = plan.question["fit"]
    assert len(draws.params["E"]) == len(drawn(PAIRS["fit"]).params["E"])
    assert jl.load("costly.json").question is None
    record = json.loads(Path("limited.json").read_text()) | {"question": 3}
    record.pop("digest")
    with pytest.raises(jl.DataError, match="field 'question' is int, not an object"):
        jl.planning.Allocation.from_dict(record)
