"""One law for many domains: its reduction, K and its order, coefficients from early curves."""

import itertools

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.fitting import metrics
from jaxlaw.fitting._fit_many import fit_many
from jaxlaw.laws.cross_domain import in_domain, learnable_coefficient

CURVES = simulate.early_curves()
DOMAINS = jl.data.learnability_coefficients(CURVES, by="domain", law="dcpt-cross-k4")
LAWS = ["dcpt-cross-k1", "dcpt-cross-k2", "dcpt-cross", "dcpt-cross-k4"]


def coefficients(law, domain=None):
    names = [name for name in laws.get(law).input_names if name in DOMAINS]
    return {name: DOMAINS[name] if domain is None else DOMAINS.loc[domain, name] for name in names}


@pytest.mark.parametrize("name", LAWS)
def test_in_one_domain_it_is_the_dcpt_law(name):
    made = simulate.experiment(name, noise=0.0)
    own = coefficients(name, "law")
    rows = made.table[made.table[list(own)].eq(pd.Series(own)).all(axis=1)]
    assert len(rows) == len(made.table) / 6
    params = in_domain(name, made.truth, **own)
    again = simulate.simulate_runs("dcpt", params, {key: rows[key] for key in ("N", "D", "r")})
    np.testing.assert_allclose(again["loss"], rows["loss"], rtol=1e-13)
    # E0 = E + F/K0^μ (Que 2024, §3.2).
    K0 = learnable_coefficient(name, made.truth, **own)
    assert params["E"] == pytest.approx(made.truth["E"] + made.truth["F"] / K0 ** made.truth["mu"])


@pytest.mark.parametrize("name", LAWS)
def test_loss_falls_with_learnability(name):
    law, truth = laws.get(name), simulate.TRUTHS[name]
    K = learnable_coefficient(name, truth, **coefficients(name))
    own = {name: values.to_numpy() for name, values in coefficients(name).items()}
    loss = law(truth, N=1.8, D=1.0, r=0.5, **own)
    assert (K > 0).all()
    assert (np.argsort(np.asarray(loss)) == np.argsort(-K.to_numpy())).all()


def test_early_curves_give_what_the_paper_defines():
    for domain, k1, k2, k3 in DOMAINS.itertuples():
        curve = CURVES[CURVES["domain"] == domain].set_index("step")["loss"]
        steps = np.arange(0, 12_000, 1000)
        change = np.diff(curve[steps])  # ΔL_0 … ΔL_10
        assert k1 == curve[1000]
        assert k2 == curve[0] - curve[5000]
        assert k3 == pytest.approx(np.mean(change[1:] - change[:-1]), rel=1e-12)


def test_only_the_steps_that_are_needed_are_required():
    short = CURVES[CURVES["step"] <= 5000]
    two = jl.data.learnability_coefficients(short, by="domain")
    pd.testing.assert_frame_equal(two, DOMAINS[["k1", "k2"]])
    initial = jl.data.learnability_coefficients(short, by="domain", k1_step=0)
    start = short[short["step"] == 0].set_index("domain")["loss"]
    assert (initial["k1"] == start).all()
    one = jl.data.learnability_coefficients(short[short["domain"] == "math"])
    assert one.to_numpy().tolist() == [two.loc["math"].tolist()]
    with pytest.raises(jl.DataError, match="code: .*none after 10000, 11000"):
        jl.data.learnability_coefficients(short, by="domain", law="dcpt-cross-k4")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: jl.data.learnability_coefficients(CURVES),
            "keep one, or say by=",
        ),
        (
            lambda: jl.data.learnability_coefficients(CURVES, by="Domain"),
            "no column Domain, which names the domain; columns: domain, step",
        ),
        (
            lambda: jl.data.learnability_coefficients(CURVES, law="dcpt"),
            "law dcpt takes none of k1, k2, k3",
        ),
        (
            lambda: jl.data.learnability_coefficients(
                {"step": [0, 1000, 5000], "loss": [2.0, 2.1, 2.2]}
            ),
            "k2 is -0.2: its loss does not fall over the first 5,000 steps",
        ),
        (
            lambda: jl.data.learnability_coefficients(
                {"step": [0, 1000, 5000], "loss": [2.0, np.nan, 1.0]}
            ),
            "losses of the curve must be positive",
        ),
        (lambda: learnable_coefficient("dcpt", {}), "dcpt has no learnable coefficient"),
        (lambda: in_domain("dcpt-cross", {"w2": 1.0}, k1=2.0), "K of law dcpt-cross needs 'k2'"),
    ],
)
def test_misuse_says_what_to_do(call, says):
    with pytest.raises(jl.JaxlawError) as error:
        call()
    assert says in str(error.value)


@pytest.fixture(scope="module")
def pairs_left_out():
    """dcpt-cross without each of the 15 pairs of domains, and the 810 runs."""
    table = simulate.experiment("dcpt-cross").table
    own = table["k1"].map({k1: name for name, k1 in DOMAINS["k1"].items()}).to_numpy()
    held_out = np.stack([np.isin(own, pair) for pair in itertools.combinations(DOMAINS.index, 2)])
    observations = jl.read_runs(table).observations("dcpt-cross")
    weights = np.vstack([~held_out, np.ones(len(own))]).astype(float)
    return fit_many(laws.get("dcpt-cross"), observations, weights), observations, held_out


@pytest.mark.full
def test_the_order_of_learnability_is_recovered(pairs_left_out):
    result, _, _ = pairs_left_out
    params = {name: values[-1] for name, values in result.params.items()}
    K = learnable_coefficient("dcpt-cross", params, **coefficients("dcpt-cross"))
    true = learnable_coefficient(
        "dcpt-cross", simulate.TRUTHS["dcpt-cross"], **coefficients("dcpt-cross")
    )
    assert (np.argsort(K) == np.argsort(true)).all()
    assert not (np.argsort(true) == np.argsort(1 / DOMAINS["k1"])).all()
    np.testing.assert_allclose(K / true, 1.0, rtol=0.02)


@pytest.mark.full
def test_two_of_six_domains_are_predicted_from_the_other_four(pairs_left_out):
    result, observations, held_out = pairs_left_out
    predicted = result.predict(**observations.inputs)
    assert held_out.shape == (15, 810)
    scores = [
        metrics(observations.target, predicted[k], held_out[k].astype(float), 1e-3)["r2"]
        for k in range(15)
    ]
    assert np.mean(scores) > 0.97 and min(scores) > 0.8


@pytest.mark.full
def test_a_new_domain_is_predicted_from_its_first_5000_steps(pairs_left_out):
    """The four fitted domains have never met the two: only their early curves speak."""
    result, observations, held_out = pairs_left_out
    truth = simulate.TRUTHS["dcpt-cross"]
    at = {"N": 4.0, "D": 2.6, "r": 0.67}
    for k, pair in enumerate(itertools.combinations(DOMAINS.index, 2)):
        early = CURVES[CURVES["domain"].isin(pair) & (CURVES["step"] <= 5000)]
        new = jl.data.learnability_coefficients(early, by="domain")
        params = {name: values[k] for name, values in result.params.items()}
        inputs = {key: np.full(2, value) for key, value in at.items()} | {
            name: new[name].to_numpy() for name in new
        }
        law = laws.get("dcpt-cross")
        error = np.log(np.asarray(law(params, **inputs)) / np.asarray(law(truth, **inputs)))
        assert np.abs(error).max() < 0.1, pair
