"""Numbers are of float64 whatever a process has set: no answer passes through float32.

The answers of the commands are held to the same in ``test_commands.py``.
"""

import jax
import pytest

import jaxlaw as jl
from jaxlaw import planning, simulate
from tests.fixtures.drawn_laws import TRUTHS, drawn
from tests.fixtures.python_calls import plain

#: Laws with a closed form of the best run: each gives its terms to the plans itself.
CLOSED = [
    name
    for name in TRUTHS
    if name in jl.laws.names() and jl.laws.get(name).power_law_terms is not None
]


def plans(name):
    at = {"r": 0.3} if "r" in jl.laws.get(name).input_names else {}
    boot = drawn((name, TRUTHS[name]), draws=3)
    return [
        planning.allocation(boot, 3e20, at=at).to_dict(),
        planning.allocation_law(boot, at=at).to_dict(),
        planning.frontier(boot, [1e20, 3e20], at=at).table.to_dict("list"),
    ]


def predictions(name):
    experiment = simulate.experiment(name)
    fit = jl.FittedLaw(experiment.law.name, TRUTHS[name])
    rows = experiment.table.iloc[:3]
    inputs = {key: rows[key].to_numpy() for key in fit.law.input_names}
    made = simulate.simulate_runs(fit.law, TRUTHS[name], inputs)
    return [fit.predict(rows), made[fit.law.target].to_numpy()]


def forecast():
    table = simulate.experiment("chinchilla", noise=0.004).table.iloc[::6]
    made = jl.forecast(table, at={"N": 7e10, "D": 1.4e12}).to_dict()
    return {key: value for key, value in made.items() if key not in ("created", "package_versions")}


def twice(answer):
    """An answer as a process has it by default, and in one that works in float64."""
    with jax.enable_x64(False):
        alone = plain(answer())
    with jax.enable_x64(True):
        return alone, plain(answer())


@pytest.mark.full
@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_are_in_float64(name):
    alone, inside = twice(lambda: plans(name))
    assert alone == inside


@pytest.mark.full
@pytest.mark.parametrize("name", TRUTHS)
def test_predictions_of_every_law_are_in_float64(name):
    alone, inside = twice(lambda: predictions(name))
    assert alone == inside


@pytest.mark.full
def test_a_forecast_is_in_float64():
    alone, inside = twice(forecast)
    assert alone == inside
