"""Laws over several shares, and the mixture of many corpora that makes losses least."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import planning, plots
from jaxlaw.errors import DataError, UsageError
from tests.conftest import DATA, needs_data

SHARES = ["web", "code", "math"]
LAW = jl.laws.mixing(SHARES)
PYTHON = {"c": 1.2, "t[web]": 0.9, "t[code]": -1.0, "t[math]": 0.3}
WIKI = {"c": 2.0, "t[web]": -0.5, "t[code]": 0.6, "t[math]": 0.4}
BOTH = {"python": (LAW, PYTHON), "wiki": (LAW, WIKI)}


def mixtures(count: int = 40, seed: int = 0) -> pd.DataFrame:
    drawn = np.random.default_rng(seed).dirichlet([2, 1, 1], count)
    return pd.DataFrame(drawn, columns=SHARES)


def runs(params: dict, noise: float = 0.003) -> pd.DataFrame:
    return jl.simulate.simulate_runs(LAW, params, mixtures(), noise=noise)


def total(r: np.ndarray) -> np.ndarray:
    """The mean of the two losses at mixtures (…, 3), in numpy."""
    return sum(p["c"] + np.exp(r @ [p[f"t[{s}]"] for s in SHARES]) for p in (PYTHON, WIKI)) / 2


def grid(step: float = 0.01) -> np.ndarray:
    """Mixtures all over the simplex."""
    a, b = np.meshgrid(np.arange(0, 1 + step / 2, step), np.arange(0, 1 + step / 2, step))
    inside = a + b <= 1 + 1e-9
    return np.stack([a[inside], b[inside], 1 - a[inside] - b[inside]], axis=1)


def divergence(r: np.ndarray, natural: np.ndarray) -> np.ndarray:
    return np.sum(np.where(r > 0, r * np.log(np.maximum(r, 1e-300) / natural), 0.0), axis=-1)


@pytest.mark.full
def test_it_is_fitted_and_found_again(tmp_path):
    fit = jl.fit(LAW, runs(PYTHON, noise=0.0))
    assert fit.params == pytest.approx(PYTHON, rel=1e-6) and fit.agreement > 0.9
    fit.save(tmp_path / "fit.json")
    assert jl.load(tmp_path / "fit.json").law is LAW
    sizes = jl.laws.grouped(LAW, ["70M", "410M"], own=["c"])
    assert jl.laws.get(sizes.name) is sizes and sizes.linear_parameters == ("c[70M]", "c[410M]")


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"caps": {"code": 0.2, "web": 0.6}},
        {"natural": {"web": 8, "code": 1, "math": 1}, "max_kl": 0.2},
        {"natural": {"web": 6, "code": 3, "math": 1}, "max_kl": 0.1, "caps": {"code": 0.32}},
    ],
)
def test_no_mixture_of_a_grid_is_better(limits):
    plan = planning.optimal_weights(BOTH, **limits)
    weights, allowed = plan.table["weight"].to_numpy(), grid()
    cap = np.array([limits.get("caps", {}).get(share, 1.0) for share in SHARES])
    allowed = allowed[(allowed <= cap + 1e-9).all(axis=1)]
    if "max_kl" in limits:
        natural = np.array(list(limits["natural"].values())) / 10
        allowed = allowed[divergence(allowed, natural) <= limits["max_kl"]]
        assert plan.kl <= limits["max_kl"] * (1 + 1e-3)
        assert plan.gain_natural == pytest.approx(total(natural) - plan.loss)
    assert weights.sum() == pytest.approx(1) and (weights <= cap + 1e-9).all()
    assert plan.loss == pytest.approx(total(weights), rel=1e-9)
    assert plan.loss <= total(allowed).min() + 1e-9
    assert plan.loss >= total(allowed).min() - 2e-3  # the grid is that fine


@pytest.mark.full
def test_a_bootstrap_says_whether_it_beats_what_was_run():
    boots = {
        name: jl.bootstrap(LAW, runs(params), n_resamples=40)
        for name, params in (("python", PYTHON), ("wiki", WIKI))
    }
    plan = planning.optimal_weights(boots, observed=mixtures())
    low, high = plan.interval["gain_observed"]
    assert low <= plan.gain_observed <= high and "weight_low" in plan.table
    true = total(mixtures().to_numpy()).min() - total(plan.table["weight"].to_numpy())
    assert plan.gain_observed == pytest.approx(true, abs=2e-3) and high - low < 0.01
    best = plan.table.set_index("share")["weight"]
    again = planning.optimal_weights(boots, observed=pd.DataFrame([best]))
    assert again.gain_observed == pytest.approx(0, abs=1e-9)
    assert "draws-disagree" in [note.code for note in again.notes]
    said = " ".join(plan.summary().split())
    assert "less than the best observed mixture" in said


@pytest.mark.parametrize(
    "asked, error, message",
    [
        (dict(caps={"web": 0.3, "code": 0.3, "math": 0.3}), UsageError, "caps add up to 0.9"),
        (dict(caps={"wbe": 0.3}), UsageError, "Did you mean 'web'"),
        (
            dict(observed={"web": [0.2, 0.5], "code": [0.3, 0.3], "math": [0.5, 0.3]}),
            DataError,
            r"do not add up to 1: row 1 \(sum 1.1\)",
        ),
        (
            dict(natural={"web": 9, "code": 0.5, "math": 0.5}, max_kl=0.01, caps={"web": 0.1}),
            DataError,
            "no mixture was found",
        ),
    ],
)
def test_what_leaves_no_mixture_is_refused(asked, error, message):
    with pytest.raises(error, match=message):
        planning.optimal_weights(BOTH, **asked)


@pytest.mark.full
@needs_data
def test_unseen_mixtures_of_regmix_are_ranked():
    table = pd.read_csv(Path(DATA) / "regmix.csv")
    shares = [name for name in table if name.startswith("share_")]
    small, law = table[table["model"] == "1m"], jl.laws.mixing(shares)
    fitted, unseen = (small[small["split"] == split] for split in ("train", "test"))
    for loss, least in (("loss_freelaw", 0.975), ("loss_dm_mathematics", 0.955)):
        fit = jl.fit(law, fitted[shares].assign(loss=fitted[loss]), n_starts=128, n_local=8)
        ranks = pd.DataFrame({"predicted": fit.predict(unseen), "real": unseen[loss]})
        assert ranks.corr("spearman").iloc[0, 1] > least


@pytest.mark.full
@needs_data
def test_one_law_of_four_sizes_predicts_unseen_mixtures_of_five_domains():
    table = pd.read_csv(Path(DATA) / "domain_mixture.csv")
    shares = [name for name in table if name.startswith("proportion")]
    law, scores = jl.laws.grouped(jl.laws.mixing(shares), table["group"], own=["c"]), []
    for k in range(1, 6):
        runs = table[[*shares, "group", "split"]].assign(loss=table[f"loss_domain_{k}"])
        fitted, unseen = (runs[runs["split"] == split] for split in ("train", "test"))
        fit = jl.fit(law, fitted, n_starts=256, n_local=8)
        scores.append(fit.score(unseen).r2)
    assert np.mean(scores) > 0.95


def test_shares_that_do_not_add_up_to_1_are_refused_wherever_they_come_in(tmp_path):
    made = runs(PYTHON)
    made.loc[[3, 7], "web"] += 0.2
    made.to_csv(tmp_path / "runs.csv", index=False)
    with pytest.raises(DataError, match=r"runs.csv: columns web, code, math: .*lines 5 \(sum 1.2"):
        jl.fit(LAW, tmp_path / "runs.csv")
    with pytest.raises(DataError, match="they look like percent: divide them by 100"):
        jl.fit(LAW, runs(PYTHON).assign(**mixtures() * 100))
    fit = jl.FittedLaw(LAW, PYTHON)
    with pytest.raises(DataError, match=r"rows 3 \(sum 1.2\), 7 \(sum 1.2\)"):
        fit.predict(made)
    with pytest.raises(DataError, match=r"point 1 \(sum 0.8\)"):
        fit.predict(web=0.3, code=[0.3, 0.1], math=0.4)
    with pytest.raises(UsageError, match="row 0: mixture ratios add up to 2"):
        jl.simulate.simulate_runs(LAW, PYTHON, 2 * mixtures())
    with pytest.raises(UsageError, match="web: one mixture ratio is not held"):
        planning.optimal_weights({"loss": fit}, at={"web": 0.3})
    sizes = jl.laws.additive(["web", "code"])
    truth = {"C[web]": 1, "C[code]": 3, "gamma[web]": 0.2, "gamma[code]": 0.5}
    truth |= {"E": 1, "A": 400, "B": 400, "alpha": 0.34, "beta": 0.28}
    with pytest.raises(UsageError, match=r"web, code add up to 0.9"):
        planning.allocation((sizes, truth), compute=1e20, at={"web": 0.5, "code": 0.4})
    # A fit is saved with a point in the middle of its ranges, which is no mixture.
    ranges = {"web": (0.2, 0.9), "code": (0.0, 0.5), "math": (0.0, 0.7)}
    jl.FittedLaw(LAW, PYTHON, ranges=ranges).save(tmp_path / "fit.json")
    assert jl.load(tmp_path / "fit.json").params == PYTHON


@pytest.mark.parametrize(
    "shares, whole",
    [
        ([0.333, 0.333, 0.333], True),  # three digits each
        ([0.33, 0.33, 0.33], True),
        ([0.3, 0.3, 0.3], False),  # one digit each, and a tenth is missing
        ([0.3331, 0.3331, 0.3331], False),
        ([1 / 3, 1 / 3, 1 / 3 - 1e-8], True),
        ([0.7, 0.3, -1e-17], True),  # one less the others
    ],
)
def test_sums_may_be_off_by_the_rounding_of_the_shares_digits(shares, whole):
    made = dict(zip(SHARES, np.array([shares]).T, strict=True))
    if whole:
        jl.read_runs(made | {"loss": [2.0]}).observations(LAW, free=())
    else:
        with pytest.raises(DataError, match="do not add up to 1"):
            jl.FittedLaw(LAW, PYTHON).predict(made)


def test_a_picture_over_a_share_keeps_to_the_simplex():
    ranges = dict.fromkeys(SHARES, (0.0, 1.0))
    fit = jl.FittedLaw(LAW, PYTHON, ranges=ranges)
    (line,) = plots.loss_over_input(fit, None, "code").lines
    code, loss = line.get_data()
    rest = (1 - code) / 2
    np.testing.assert_allclose(loss, fit.predict(web=rest, code=code, math=rest))
    with pytest.raises(UsageError, match="draw over one of them alone"):
        law, values = "mixing[web|code]", {"c": 1, "t[web]": 0, "t[code]": 1}
        fitted = jl.FittedLaw(law, values, ranges={"web": (0, 1), "code": (0, 1)})
        plots.loss_over_input(fitted, None, "code", by="web")


def test_no_share_goes_beyond_the_largest_that_was_run_unless_a_cap_allows_it():
    tried = {"web": (0.2, 0.9), "code": (0.0, 0.026), "math": (0.05, 0.5)}
    fits = {name: jl.FittedLaw(law, params, ranges=tried) for name, (law, params) in BOTH.items()}
    plan = planning.optimal_weights(fits, targets={"python": 1, "wiki": 0})
    assert plan.table["weight"].to_numpy() == pytest.approx([0.474, 0.026, 0.5])
    assert plan.table["cap"].tolist() == [0.9, 0.026, 0.5]
    (note,) = plan.notes
    assert note.code == "optimum-at-tried"
    assert "was run: code (0.026), math (0.5); more may do better" in note.message
    wider = planning.optimal_weights(fits, targets={"python": 1, "wiki": 0}, caps={"code": 0.2})
    assert wider.table["weight"].to_numpy() == pytest.approx([0.3, 0.2, 0.5])
    assert [note.code for note in wider.notes] == ["optimum-at-tried", "extrapolation"]
    assert "code = 20% (fitted 0 to 2.6%)" in wider.notes[1].message
    few = {name: dataclasses.replace(fit, ranges={"web": (0, 0.3)}) for name, fit in fits.items()}
    with pytest.raises(UsageError, match="is the largest mixture ratio that was run"):
        planning.optimal_weights(few, caps={"code": 0.2, "math": 0.2})


BIMIX = dict(jl.simulate.TRUTHS["bimix"])


@pytest.mark.full
def test_fits_over_own_shares_plan_one_mixture():
    fits = {
        name: ("bimix", BIMIX | own)
        for name, own in (("web", {}), ("code", {"alpha": 0.16}), ("math", {"alpha": 0.02}))
    }
    caps = {"code": 0.4}
    plan = planning.optimal_weights(
        fits, at={"D": 20}, caps=caps, natural={"web": 8, "code": 1, "math": 1}
    )
    r = plan.table.set_index("share")["weight"]
    assert list(r.index) == SHARES and r["code"] == pytest.approx(0.4)
    for name, (_, p) in fits.items():
        own = (p["B"] / 20 ** p["beta"] + p["C"]) / r[name] ** p["alpha"]
        assert plan.quantities[f"loss[{name}]"].value == pytest.approx(own)
    mixtures = grid()[(grid() > 0).all(axis=1) & (grid()[:, 1] <= 0.4)]
    levels = [p["B"] / 20 ** p["beta"] + p["C"] for _, p in fits.values()]
    totals = np.mean(levels * mixtures ** -np.array([p["alpha"] for _, p in fits.values()]), axis=1)
    assert totals.min() - 2e-3 < plan.loss <= totals.min() + 1e-9
    with pytest.raises(UsageError, match="without code its law has an infinite loss"):
        planning.optimal_weights(fits, at={"D": 20}, caps={"code": 0})
    # Laws that exist at a share of 0 may leave a corpus out.
    dcpt = dict(jl.simulate.TRUTHS["dcpt"])
    both = {"law": ("dcpt", dcpt), "code": ("dcpt", dcpt | {"C": 1e-3})}
    law, code = planning.optimal_weights(both, at={"N": 1, "D": 20}).table["weight"]
    assert law == pytest.approx(1) and code == pytest.approx(0, abs=1e-6)


def test_a_share_of_0_is_refused_where_a_law_is_infinite():
    made = jl.simulate.experiment("bimix").table
    made.loc[3, "r"] = 0.0
    with pytest.raises(DataError, match=r"column r: not positive and finite: row 3 \(0"):
        jl.fit("bimix", made)
    assert "dropped-invalid" in [
        note.code for note in jl.fit("bimix", made, drop_invalid=True).notes
    ]
    fit = jl.fit("bimix", jl.simulate.experiment("bimix", noise=0.003).table)
    assert fit.params == pytest.approx(BIMIX, rel=0.05)
    with pytest.raises(DataError, match=r"r must be in \[0, 1\] and above 0"):
        fit.predict(D=1, r=0)


@pytest.mark.full
def test_an_additive_law_of_shares_size_and_tokens_is_recovered():
    law, draw = jl.laws.additive(SHARES), np.random.default_rng(0)
    truth = {"C[web]": 1.0, "C[code]": 2.5, "C[math]": 0.6, "E": 1.2, "A": 400.0, "B": 900.0}
    truth |= {"gamma[web]": 0.3, "gamma[code]": 0.7, "gamma[math]": 0.5, "alpha": 0.34, "beta": 0.3}
    design = mixtures(90).assign(
        N=draw.choice([1e8, 4e8, 1.6e9], 90), D=draw.choice([2e9, 8e9, 3e10], 90)
    )
    made = jl.simulate.simulate_runs(law, truth, design)
    web, code, math, N, D = design.to_numpy().T
    worth = 1.0 * web**0.3 + 2.5 * code**0.7 + 0.6 * math**0.5
    np.testing.assert_allclose(made["loss"], 1.2 + 1 / worth + 400 / N**0.34 + 900 / D**0.3)
    fit = jl.fit(law, made)
    assert fit.params == pytest.approx(truth, rel=1e-6) and fit.agreement > 0.9
    assert law.linear_parameters == ("E", "A", "B")
    # The best mixture is the same at every scale, the best size that of chinchilla at a mixture.
    small, large = (
        planning.optimal_weights({"loss": fit}, at={"N": size, "D": 20 * size}).table["weight"]
        for size in (1e8, 1e10)
    )
    assert small.to_numpy() == pytest.approx(large.to_numpy(), abs=1e-4)
    powers = {name: truth[name] for name in ("E", "A", "B", "alpha", "beta")}
    even = dict.fromkeys(SHARES, 1 / 3)
    ours = planning.allocation(fit, compute=1e20, at=even)
    assert ours.N == pytest.approx(planning.allocation(("chinchilla", powers), compute=1e20).N)
    # At one scale its terms are a part of the floor.
    shares_alone = jl.laws.additive(SHARES, scale=False)
    worths = {name: truth[name] for name in shares_alone.parameter_names}
    rows = {name: column.to_numpy() for name, column in mixtures().items()}
    at_one = shares_alone(worths | {"E": 1.2 + 400 / 1e8**0.34 + 900 / 2e9**0.3}, **rows)
    np.testing.assert_allclose(at_one, law(truth, **rows, N=1e8, D=2e9), rtol=1e-6)
    with pytest.raises(UsageError, match="has the name of a size"):
        jl.laws.additive(["web", "N"])


@pytest.mark.full
@needs_data
def test_own_share_and_tokens_tell_the_loss_of_each_corpus_of_slimpajama():
    table = pd.read_csv(Path(DATA) / "slimpajama_mixtures.csv").query("n_params == 1.235e9")
    for name, least in (("arxiv", 0.985), ("github", 0.935), ("wikipedia", 0.985)):
        columns = {"D": "n_tokens", "r": f"weight_{name}", "loss": f"{name}_loss"}
        fit = jl.fit("bimix", jl.read_runs(table, columns, {"D": 1}))
        assert fit.r2 > least and fit.agreement == 1 and 0 < fit.params["alpha"] < 0.1


@pytest.mark.full
@needs_data
def test_an_additive_law_predicts_the_largest_models_of_slimpajama():
    table = pd.read_csv(Path(DATA) / "slimpajama_mixtures.csv")
    table = table.rename(columns={"n_params": "N", "n_tokens": "D", "book_loss": "loss"})
    shares = [name for name in table if name.startswith("weight_")]
    table = table[[*shares, "N", "D", "loss"]].dropna()
    fit = jl.fit(
        jl.laws.additive(shares), table.query("3e8 < N < 1.3e9")[::4], n_starts=128, n_local=8
    )
    largest = table.query("N > 1.3e9")
    assert np.abs(fit.predict(largest) / largest["loss"] - 1).mean() < 0.015


def test_steep_slopes_at_a_share_of_0_do_not_stop_the_search():
    """Of 17 corpora with powers of a share below and above 1 no shift of a share gains anything."""
    shares, draw = [f"s{k}" for k in range(17)], np.random.default_rng(2)
    law = jl.laws.additive(shares, scale=False)
    worth = draw.uniform(0.1, 0.5, (3, 17)) * np.where(draw.random((3, 17)) < 0.15, 5, 1)
    powers = draw.uniform(0.3, 1.2, (3, 17))
    fits = {
        f"loss{k}": (
            law,
            {"E": 3.0}
            | {f"C[{name}]": worth[k, i] for i, name in enumerate(shares)}
            | {f"gamma[{name}]": powers[k, i] for i, name in enumerate(shares)},
        )
        for k in range(3)
    }
    r = planning.optimal_weights(fits).table["weight"].to_numpy()
    inside = np.maximum(r, 1e-12)
    slopes = worth * powers * inside ** (powers - 1)
    gains = (slopes / (worth * inside**powers).sum(axis=1, keepdims=True) ** 2).sum(axis=0)
    level = np.average(gains, weights=r)
    assert gains[r > 1e-5] == pytest.approx(level, rel=1e-3)
    assert (gains[r <= 1e-5] < level * 1.001).all()
