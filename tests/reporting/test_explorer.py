"""The explorer of a page: every number is one that Python predicted."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.reporting._explorer import explorer

# The elements of a page, as far as the script asks for them.
DOCUMENT = """const elements = {};
for (const [id, value] of Object.entries(SLIDERS)) elements[id] = { value };
const document = { getElementById: (id) => (elements[id] ??= {}) };
for (const one of Object.values(elements)) one.addEventListener = () => {};
"""


def written(source, level=0.95):
    """The script of the page, and the data in it."""
    (markup,) = [str(part) for part in explorer(source, level) if "<script>" in part]
    script = re.fullmatch(r"<script>(.*)</script>", markup, re.DOTALL)[1]
    return script, json.loads(re.search(r"const data = (.*);\n", script)[1])


def points_of(data, law):
    """Input → (n,) of every point of the grid."""
    grid = np.meshgrid(*(axis["nodes"] for axis in data["axes"]), indexing="ij")
    return dict(zip(law.input_names, map(np.ravel, grid), strict=False))


@pytest.mark.parametrize(
    "name", ["chinchilla", "dcpt", "cpt-curve-unknown-base", "score-log-linear"]
)
def test_every_point_is_what_the_law_predicts(name):
    fit = jl.FittedLaw(name, simulate.TRUTHS[name])
    data = written(fit)[1]
    expected = fit.predict(points_of(data, fit.law))
    np.testing.assert_allclose(data["values"], expected, rtol=1e-8)
    assert not data["known"] and set(data["low"]) == {None}


def test_sliders_of_a_mixture_are_weights_and_those_of_many_inputs_are_held():
    law = jl.laws.mixing(["a", "b", "c", "d", "e"])
    fit = jl.FittedLaw(law, {"c": 1.0} | {f"t[{name}]": k / 9 for k, name in enumerate("abcde")})
    data, words = written(fit)[1], str(explorer(fit, 0.95)[0])
    assert len(data["axes"]) == 4 and "Fixed: e." in words and "sum to 1" in words
    weights = points_of(data, law)
    weights["e"] = np.full(len(data["values"]), 0.5)
    whole = sum(weights.values())
    expected = fit.predict({name: values / whole for name, values in weights.items()})
    np.testing.assert_allclose(data["values"], expected, rtol=1e-8)


def test_a_page_cannot_be_ended_by_a_name():
    law = jl.laws.grouped("chinchilla", ["</script>", "b"], ["E"])
    fit = jl.FittedLaw(law, {name: 0.5 for name in law.parameter_names})
    assert "".join(map(str, explorer(fit, 0.95))).count("</script>") == 1


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_page_says_what_the_grid_holds_at_its_sliders(chinchilla_fit):
    fit = chinchilla_fit
    script, data = written(fit)
    for nodes in ([3, 5], [data["axes"][0]["nodes"].index(fit.ranges["N"][1]), 20]):
        sliders = {f"x-{k}": node for k, node in enumerate(nodes)}
        N, D = (axis["nodes"][node] for axis, node in zip(data["axes"], nodes, strict=True))
        show = "for (const one of Object.values(elements)) console.log(one.textContent)"
        stub = DOCUMENT.replace("SLIDERS", json.dumps(sliders))
        said = subprocess.run(
            ["node", "-e", f"{stub}{script}\n{show}"], capture_output=True, text=True, check=True
        ).stdout
        assert f"loss {fit.predict(N=N, D=D):#.4g}" in said
        assert ("Beyond" in said) is bool(fit.is_extrapolation(N=N, D=D))


@pytest.mark.full
def test_a_forecast_has_its_own_intervals_at_its_points():
    runs = simulate.experiment("chinchilla", noise=0.005).table
    at = {"N": [1e10, 7e10], "D": [4e11, 1e12]}
    found = jl.forecast(runs.iloc[::8], at=at)
    data = written(found, found.level)[1]
    nodes = points_of(data, found.draws().law)
    for row in found.table.itertuples():
        (k,) = np.flatnonzero((nodes["N"] == row.N) & (nodes["D"] == row.D))
        assert [data["low"][k], data["high"][k]] == pytest.approx([row.low, row.high], rel=1e-6)
