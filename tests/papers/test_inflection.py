"""Where the trend with D turns: found where it is known, denied where there is none."""

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import laws, papers, simulate

UPPER = {
    "E": 1.78, "A": 0.8, "B": 0.1, "C": 0.22, "alpha": 0.5, "beta": 0.5, "gamma": 0.4, "eta": 1.0,
    "eps": 0.018,
}  # fmt: skip
TURN = 0.07
SHARES = [0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.33, 0.5]  # 300 runs, as in the README
AT = {"N": 1.5, "D": 1.0}

pytestmark = pytest.mark.full  # all of them take the fits of one fixture


def lower():
    """A law that rises with D and meets the upper one at the turn, for the N and D of ``AT``."""
    law = laws.get("dcpt")
    params = UPPER | {"B": -0.06, "eta": 0.2, "C": 0.34}
    gap = [float(law(each, **AT, r=TURN)) for each in (UPPER, params)]
    return params | {"E": params["E"] + gap[0] - gap[1]}


def runs(below, noise=0.002, seed=0):
    """Runs that obey one law below the turn and the upper one above it."""
    grid = np.meshgrid([0.5, 1.8, 4.0], np.arange(1, 11) * 0.262144, SHARES, indexing="ij")
    inputs = dict(zip("NDr", (axis.ravel() for axis in grid), strict=True))
    parts = [simulate.simulate_runs("dcpt", each, inputs, noise, seed) for each in (below, UPPER)]
    return parts[0].where(parts[0]["r"] < TURN, parts[1])


@pytest.fixture(scope="module")
def found():
    return papers.inflection_ratio(runs(lower()), at=AT, n_resamples=20)


@pytest.mark.full
def test_a_known_ratio_is_found(found):
    low, high = found.interval["ratio"]
    assert low < TURN < high and high - low < 0.05
    assert found.ratio == pytest.approx(TURN, abs=0.015)
    assert found.below["B"] < 0 < found.above["B"]
    assert found.bracket == (0.05, 0.1) and 0.05 < found.split < 0.1
    assert 0.05 < found.zero_slope < 0.1


@pytest.mark.full
def test_what_it_rests_on_is_in_the_result(found):
    assert found.trends["r"].tolist() == SHARES[1:]
    assert (found.trends["slope"] > 0).tolist() == [r < TURN for r in SHARES[1:]]
    assert len(found.draws["ratio"]) == 20
    assert found.left_out == 30
    assert "few-resamples" not in {note.code for note in found.notes}  # 20 just do
    assert "at a mixture ratio of 5 to 10%" in found.headline and "(90%: " in found.headline


def test_both_laws_predict_their_side(found, tmp_path):
    found.save(tmp_path / "turn.json")
    again, table = jl.load(tmp_path / "turn.json"), runs(lower(), noise=0.0)
    table = table[(table["r"] > 0) & ~table["r"].between(*found.bracket)]
    for side, rows in ((again.below, table["r"] < TURN), (again.above, table["r"] >= TURN)):
        losses = jl.FittedLaw("dcpt", side).predict(table[rows])
        assert np.abs(losses / table["loss"][rows] - 1).max() < 0.005
    # They meet where they were compared.
    both = [jl.FittedLaw("dcpt", side) for side in (found.below, found.above)]
    met = [float(law.predict(**AT, r=found.ratio)) for law in both]
    assert met[1] == pytest.approx(met[0], abs=1e-4)


def test_slopes_are_those_of_a_regression():
    table = runs(lower())
    law = papers.inflection_ratio(table[table["r"] > 0.1])
    r, slope, error = law.trends.iloc[0]
    rows = table[table["r"] == r]
    design = np.column_stack([np.log(rows["D"]), pd.get_dummies(rows["N"]).to_numpy(float)])
    solved, square = np.linalg.lstsq(design, np.log(rows["loss"]))[:2]
    assert slope == pytest.approx(solved[0], rel=1e-9)
    spread = np.linalg.inv(design.T @ design)[0, 0] * square[0] / (len(rows) - 4)
    assert error == pytest.approx(np.sqrt(spread), rel=1e-9)


def test_no_inflection_within_the_data_is_an_answer():
    falling = papers.inflection_ratio(runs(UPPER))
    assert not falling.quantities and "bracket" not in falling.facts
    assert "no inflection within the data: the loss falls with D at every" in falling.headline
    assert "down to 1%" in falling.headline
    table = runs(lower())
    rising = papers.inflection_ratio(table[table["r"] < TURN])
    assert "rises with D up to 5%, and falls at none above it" in rising.headline


def test_shares_without_a_trend_are_refused():
    table = runs(UPPER)
    with pytest.raises(jl.DataError, match="do not show how the loss moves with D"):
        papers.inflection_ratio(table[table["D"] == table["D"].max()])
