"""What Que 2024 asks of a law of mixtures: each form has what its derivatives say, and no more."""

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.laws._requirements import check_requirements
from tests.fixtures.drawn_laws import DOMAIN, drawn

RANGES = {"N": (0.5, 4.0), "D": (0.13, 2.6), "r": (0.1, 0.9)}
IMPLICIT, CONSISTENT, IN_R = "implicit trend", "consistency", "trend in r"
SHARED = {"E": 0.8, "A": 0.6, "B": 0.1, "alpha": 0.5, "beta": 0.4}
TAIL = {"C": 0.5, "gamma": 0.6, "eps": 0.1}


def unmet(law, params, ranges=RANGES):
    """Requirements that are not met everywhere → whether they are at the shares observed."""
    notes = check_requirements(laws.get(law), params, ranges)
    assert len(notes) == 6 and all((one.where == "") == one.everywhere for one in notes)
    return {one.name: one.observed for one in notes if not one.everywhere}


@pytest.mark.parametrize(
    ("law", "params", "expected"),
    [
        # L3, the paper's choice: all of them, at parameters that meet C > C0 and η > 1.
        ("dcpt", simulate.TRUTHS["dcpt"], {}),
        ("dcpt", simulate.TRUTHS["dcpt-general"], {}),
        # The paper's reason against L1: D and r side by side have no mixed derivative.
        ("dcpt-l1", SHARED | TAIL, {IMPLICIT: False}),
        # … and against L2, which is a Chinchilla law at a fixed r for η = 1 alone. Its mixed
        # derivative is η(η − 1) times a positive number.
        ("dcpt-l2", SHARED | TAIL | {"eta": 0.7}, {CONSISTENT: False}),
        ("dcpt-l2", SHARED | TAIL | {"eta": 1.5}, {CONSISTENT: False, IMPLICIT: False}),
        ("dcpt-l2", SHARED | TAIL | {"eta": 1.0}, {IMPLICIT: False}),
        # … and against L4, whose trends are what b and c make of them: ∂²L/∂D∂r has the sign of
        # −log b, and the share's own term rises for c < 1.
        ("dcpt-l4", SHARED | {"C": 0.6, "b": 1.5, "c": 4.0}, {}),
        ("dcpt-l4", SHARED | {"C": 0.6, "b": 0.7, "c": 4.0}, {IMPLICIT: False}),
        ("dcpt-l4", SHARED | {"C": 0.6, "b": 1.5, "c": 0.5}, {IN_R: False}),
        # At a fixed r below 1, L5 is a power of D plus a constant.
        ("dcpt-l5", SHARED | {"sigma": 0.02}, {CONSISTENT: False, IMPLICIT: False}),
        ("dcpt-cross", simulate.TRUTHS["dcpt-cross"], {}),
    ],
)
def test_every_form_has_what_its_derivatives_say(law, params, expected):
    more = {spec.name: (1.0, 2.0) for spec in laws.get(law).inputs if spec.name[0] == "k"}
    assert unmet(law, params, RANGES | more) == expected


def test_what_is_broken_is_broken_where_the_formula_says():
    truth = dict(simulate.TRUTHS["dcpt"])
    low = unmet("dcpt", truth | {"C": 0.2})  # below C0: the loss rises with r near 1
    assert low == {IN_R: False}
    assert unmet("dcpt", truth | {"C": 0.2}, RANGES | {"r": (0.1, 0.12)}) == {IN_R: True}
    notes = check_requirements(laws.get("dcpt"), truth | {"C": 0.2}, RANGES)
    p = truth | {"C": 0.2}
    r = np.linspace(1e-4, 1, 100_001)
    slope = p["B"] * p["eta"] * r ** (p["eta"] - 1) / RANGES["D"][0] ** p["beta"]
    slope = slope - p["gamma"] * p["C"] / (r + p["eps"]) ** (p["gamma"] + 1)
    (where,) = (one.where for one in notes if one.name == IN_R)
    start = float(where.split()[6])  # on a grid of 257 shares
    assert where.endswith("and 1") and abs(start - r[slope > 0].min()) < 1 / 256
    # ε = 0: infinite at r = 0, which is no matter where no share near it was seen.
    assert unmet("dcpt", truth | {"eps": 0.0}) == {"adaptability": True}
    assert unmet("dcpt", truth | {"eps": 0.0}, RANGES | {"r": (0.0, 1.0)})["adaptability"] is False
    # B < 0, of runs below the inflection ratio: the loss rises with D.
    assert {"trend in D", IMPLICIT} <= set(unmet("dcpt", truth | {"B": -0.06}))
    assert set(unmet("dcpt", truth | {"A": 0.0})) == {"trend in N"}
    # One value of D, and one of N: the form is asked just beyond them.
    assert unmet("dcpt", truth, {"N": (1.8, 1.8), "D": (2.0, 2.0), "r": (0.2, 0.2)}) == {}


def test_a_term_that_is_felt_next_to_zero_alone_is_not_a_trend():
    """As in fits of real mixtures, whose η goes to 0: D and r then stand side by side."""
    fitted = {"E": 1.4, "A": 1.2, "B": 2.2, "C": 0.5, "alpha": 0.1, "beta": 0.8, "gamma": 0.6}
    fitted |= {"eta": 1e-8, "eps": 0.1}
    assert unmet("dcpt", fitted) == {IMPLICIT: False}
    (one,) = (k for k in check_requirements(laws.get("dcpt"), fitted, RANGES) if not k.everywhere)
    assert one.where == "at the observed mixture ratios it is 0 throughout"


def test_a_fit_tells_in_a_table_and_in_its_notes():
    single = {name: tuple(1e9 * end for end in RANGES[name]) for name in ("N", "D")}
    fit = drawn(DOMAIN, ranges=RANGES | single).fit  # of runs in single parameters and tokens
    table = fit.requirements()
    assert table.index.name == "requirement" and list(table) == [
        "formula", "observed", "everywhere", "where",
    ]  # fmt: skip
    assert table["observed"].all() and table["everywhere"].all()
    assert fit.law.requirements(fit.law, fit.params, RANGES) == []
    for name, lacks in (("dcpt-l1", IMPLICIT), ("dcpt-l2", CONSISTENT)):
        law = laws.get(name)
        ((note, _),) = law.requirements(law, dict(simulate.TRUTHS[name]), RANGES)
        assert (note.code, note.severity) == ("requirements", "info")
        assert lacks in note.message and "fit.requirements()" in note.message
    with pytest.raises(jl.UsageError, match="law chinchilla takes no r"):
        jl.published()["hoffmann-2022"].requirements()


@pytest.mark.full
def test_the_note_is_in_the_fit():
    made = simulate.experiment("dcpt-l1")
    fit = jl.fit("dcpt-l1", made.table, fixed=made.truth)
    assert {note.code: note.severity for note in fit.notes} == {
        "requirements": "info",
    }  # fmt: skip
