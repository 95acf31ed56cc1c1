"""A study says of each fold what a fit of the rows left says, and ranks no noise."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import folds
from jaxlaw.fitting import SCORES, metrics
from jaxlaw.laws import _base as base
from jaxlaw.validation._comparison import paired_p, rank
from jaxlaw.validation._cross_validate import candidates_of, data_set
from jaxlaw.validation._study import frame_notes

# Laws of one input and few points: what is studied here is the study, and programs compile fast.
# Eight folds or more of 72 points are one program for each law.
STEPS = np.geomspace(1e9, 1e11, 24)
OPTIONS = {"n_starts": 256, "n_local": 16, "progress": False}


@pytest.fixture(scope="module", autouse=True)
def small_laws():
    """Three laws: the truth, another of the same formula, and one without a floor."""
    before = dict(base._REGISTRY)
    centre = {"Dp": "alpha"}

    @jl.law(name="twin")
    def twin(
        Dp,
        *,
        E=jl.laws.positive(0.1, 5),
        A=jl.laws.positive(0.1, 10, centre=centre),
        alpha=jl.laws.exponent(),
    ):
        """E + A/Dp^α"""
        return E + A * jl.laws.power(Dp, -alpha)

    @jl.law(name="bare")
    def bare(Dp, *, A=jl.laws.positive(0.1, 10, centre=centre), alpha=jl.laws.exponent()):
        """A/Dp^α"""
        return A * jl.laws.power(Dp, -alpha)

    yield
    base._REGISTRY.clear()
    base._REGISTRY.update(before)


def table(seed=0, noise=0.004):
    truth = {"E": 1.2 + 0.1 * seed, "A": 60.0, "alpha": 0.2}
    runs = jl.simulate.simulate_runs("downstream-ce", truth, {"Dp": np.tile(STEPS, 3)}, noise, seed)
    runs = runs.rename(columns={"cross-entropy": "loss"})
    return runs.assign(run=np.repeat(["a", "b", "c"], len(STEPS)))


@pytest.fixture(scope="module")
def study():
    sets = {
        ("code", "G"): table(0),
        ("code", "D"): table(1),
        ("law", "D"): table(2).assign(Dp=lambda t: 1.1 * t["Dp"]),
    }
    return jl.cross_validate(
        ["downstream-ce", "twin", "bare"], sets, "k-fold:4:2:0:groups=Dp", **OPTIONS
    )


@pytest.mark.full
def test_a_fold_is_what_a_fit_of_its_rows_is(study):
    runs = table(1)
    cut = folds.k_fold(4, 2, 0, groups="Dp").split(runs)
    for fold in (0, 5):
        kept, held = runs[cut.fitted[fold]], runs[cut.held_out[fold]]
        alone = jl.fit("downstream-ce", kept, n_starts=256, n_local=16)
        mine = study.frame.query(
            f"law == 'downstream-ce' and data == 'code D' and fold == {fold + 1}"
        ).iloc[0]
        np.testing.assert_allclose(mine["objective"], alone.objective, rtol=1e-8)
        assert mine["agreement"] == alone.agreement and mine["status"] == alone.status
        expected = {"": held, "train_": kept}
        for prefix, rows in expected.items():
            by_hand = metrics(
                rows["loss"].to_numpy(), alone.predict(rows), np.ones(len(rows)), 1e-3
            )
            for name in SCORES:
                np.testing.assert_allclose(mine[prefix + name], by_hand[name], rtol=1e-4)
        values = study.parameters.query(
            f"law == 'downstream-ce' and data == 'code D' and fold == {fold + 1}"
        ).set_index("parameter")["value"]
        assert values.to_dict() == pytest.approx(alone.params, rel=1e-3)


def test_laws_that_coincide_tie_and_a_wrong_law_is_worse(study):
    ranked = study.ranking
    assert set(ranked["verdict"]) == {"best", "tie", "worse"}
    assert ranked["verdict"]["bare"] == "worse" and ranked["ratio"]["bare"] > 1.5
    assert ranked["p"]["bare"] < 0.05
    twin = next(law for law in ("twin", "downstream-ce") if ranked["verdict"][law] == "tie")
    assert ranked["ratio"][twin] == pytest.approx(1, abs=1e-4)
    text = study.summary()
    assert f"tie (the difference is noise): {twin}" in " ".join(text.split())
    assert "worse: bare" in " ".join(text.split())
    for metric in ("r2", "rmse", "huber_linear"):
        assert study.rank(metric)["verdict"]["bare"] == "worse"


def test_tables_as_in_the_paper(study):
    table = study.table
    shown = study.shown()["scores"].loc["bare"]  # a fold may dominate the mean
    each = study.frame.query("law == 'bare' and data == 'code D'")["huber"]
    assert shown["huber median", "code D"] == each.median()
    assert shown["huber", "code D"] == pytest.approx(each.mean())
    assert list(table.index) == ["downstream-ce", "twin", "bare"]
    assert list(table["huber"].columns) == ["code G", "code D", "law D"]
    mine = study.frame.query("law == 'bare' and data == 'law D'")
    assert table.loc["bare", ("r2", "law D")] == pytest.approx(mine["r2"].mean())
    assert table["parameters"].tolist() == [3, 3, 2]
    corpora = study.score_table(("train_r2",), average=True, centre="median")
    assert list(corpora["train_r2"].columns) == ["G", "D"]
    two = study.frame.query("law == 'bare' and corpus == 'D'")
    assert corpora.loc["bare", ("train_r2", "D")] == pytest.approx(two["train_r2"].median())
    spread = study.spread.set_index(["law", "data", "parameter"])
    assert spread.loc[("bare", "law D", "alpha"), "std"] > 0
    assert max(map(len, study.summary().splitlines())) <= 80


@pytest.mark.full
def test_huber_losses_are_sums_over_the_points_as_in_the_paper(study):
    """Twice the same points have twice the sum, and the same mean."""
    frame = study.frame
    assert frame["n_held_out"].nunique() == 1  # eight folds of equal size: sums compare
    for prefix, points in (("", "n_held_out"), ("train_", "n_fitted")):
        for name in ("huber", "huber_linear"):
            np.testing.assert_allclose(
                frame[prefix + name], frame[f"{prefix}mean_{name}"] * frame[points], rtol=1e-12
            )
    np.testing.assert_allclose(frame["train_huber"], frame["objective"], rtol=1e-6)
    whole = jl.cross_validate("bare", table(2), "in-sample", **OPTIONS).frame.iloc[0]
    twice = pd.concat([table(2), table(2)])
    again = jl.cross_validate("bare", twice, "in-sample", **OPTIONS).frame.iloc[0]
    assert again["huber"] == pytest.approx(2 * whole["huber"], rel=1e-6)
    assert again["mean_huber"] == pytest.approx(whole["mean_huber"], rel=1e-6)


def test_a_study_is_kept(study, tmp_path):
    study.save(tmp_path / "study.json")
    again = jl.Study.load(tmp_path / "study.json")
    pd.testing.assert_frame_equal(again.frame, study.frame)
    pd.testing.assert_frame_equal(again.parameters, study.parameters)
    assert again.summary() == study.summary() and again.laws == study.laws
    study.save(tmp_path / "study.csv")
    read = pd.read_csv(tmp_path / "study.csv").drop(columns="undetermined")  # all empty
    pd.testing.assert_frame_equal(read, study.frame.drop(columns="undetermined"))


def test_a_failed_fold_is_counted_and_kept():
    runs = table().assign(weight=1.0)
    runs.loc[0, "weight"] = 1e308  # its loss overflows, where it is fitted
    masks = np.ones((8, len(runs)))
    for k, mask in enumerate(masks):
        mask[1 if k == 0 else 0 : 20 + k] = 0
    study = jl.cross_validate(
        ["downstream-ce"], runs, folds.predefined_split(masks), weight="weight", **OPTIONS
    )
    assert study.n_failed == 1 and study.frame["failed"].tolist() == [True] + [False] * 7
    assert study.frame["status"][0] == "failed" and np.isnan(study.frame["huber"][0])
    assert study.table.loc["downstream-ce", ("huber", "DataFrame")] == pytest.approx(
        study.frame["huber"][1:].mean()
    )
    note = next(note for note in study.notes if note.code == "folds-failed")
    assert "1 of 8 fits failed (DataFrame, mask 1)" in note.message
    assert "1 of 8 fits failed" in study.summary()


def test_held_out_targets_that_are_all_equal_have_no_r2():
    held = np.ones((8, 72))
    held[0, 7] = 0
    for k in range(1, 8):
        held[k, k : k + 5] = 0
    study = jl.cross_validate("downstream-ce", table(noise=0.0), held, **OPTIONS)
    assert np.isnan(study.frame["r2"][0]) and (study.frame["r2"][1:] > 0.999).all()
    assert study.n_failed == 0 and study.frame["huber"].max() < 1e-12


@pytest.mark.parametrize(("score", "bad"), [("huber", 1.0), ("r2", -0.5)])
def test_a_fold_that_makes_the_mean_is_named_first(study, score, bad):
    """By its Huber, or by its R² alone: one fold of 36 below 0 moves a mean of 0.998 by 0.04."""

    def far(frame, parameters):
        return [n.message for n in frame_notes(frame, parameters) if n.code == "far-folds"]

    frame = study.frame[study.frame["law"] == "twin"]
    assert far(frame, study.parameters) == []
    one = frame.index[frame["data"] == "law D"][1]
    frame = frame.assign(**{score: frame[score].where(frame.index != one, bad)})
    (message,) = far(frame, study.parameters)
    named = f"law D, {frame.loc[one, 'held_out']}, has Huber"
    assert message.startswith("twin: 1 of 24 folds dominate the mean") and named in message
    made = dataclasses.replace(study, frame=frame, parameters=study.parameters)
    assert "twin: 1 of 24 folds dominate" in made.only("law == 'twin'").headline


def test_laws_are_compared_on_the_rows_that_all_of_them_can_use():
    runs = table().assign(N=1e9)
    runs.loc[:4, "N"] = np.nan
    runs.index = np.zeros(len(runs), int)  # labels need not tell rows apart

    @jl.law(name="sized")
    def sized(
        Dp, N, *, E=jl.laws.positive(0.1, 5), A=jl.laws.positive(0.1, 10), alpha=jl.laws.exponent()
    ):
        """E + A·(N/Dp)^α"""
        return E + A * jl.laws.power(N / Dp, alpha)

    read = jl.read_runs(runs, drop_invalid=True)
    data, _ = prepared(["downstream-ce", "sized"], read, folds.k_fold(2, groups=["run", "Dp"]))
    one, two = data.observations.values()
    assert len(one) == len(two) == data.folds.fitted.shape[1] == 67
    np.testing.assert_array_equal(one.target, two.target)
    np.testing.assert_array_equal(one.inputs["Dp"], runs["Dp"].iloc[5:])


def frame_of(scores, train=4):
    """A study's frame of given Huber scores: law → (folds,)."""
    rows = [
        {"law": law, "data": "d", "fold": k, "held_out": f"{k}", "huber": value, "failed": False,
         "n_fitted": train, "n_held_out": 1}
        for law, values in scores.items()
        for k, value in enumerate(values)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_folds_that_share_points_count_for_less():
    from scipy import stats

    draw = np.random.default_rng(0).normal(0.5, 1.0, 36)
    plain = stats.ttest_1samp(draw, 0).pvalue
    assert paired_p(draw, 0.0) == pytest.approx(plain)
    # Of 36 folds of 2 of 9 values, 4.5 hold out points of their own.
    statistic = draw.mean() / np.sqrt((1 / 4.5 + 2 / 7) * draw.var(ddof=1))
    assert paired_p(draw, 2 / 7) == pytest.approx(2 * stats.t.sf(statistic, 35))
    assert paired_p(draw, 2 / 7) > 0.05 > plain
    one_pass = draw[:5]
    statistic = one_pass.mean() / np.sqrt((1 / 5 + 1 / 4) * one_pass.var(ddof=1))
    assert paired_p(one_pass, 1 / 4) == pytest.approx(2 * stats.t.sf(statistic, 4))
    assert paired_p(np.zeros(4), 0.2) == 1 and paired_p(np.full(4, 0.5), 0.2) == 0
    assert np.isnan(paired_p(np.ones(1), 0.2))


@pytest.mark.parametrize("repeats", [1, 10])
def test_repeats_do_not_make_noise_a_difference(repeats):
    """Two wrong laws, equally far from 15 rows of linear truth, 5 folds: claimed in 5 % at most.

    With the repeats counted as folds of their own it is 10 %.
    """
    draw, rows, studies = np.random.default_rng(0), 15, 400
    inputs = np.hstack([np.ones((rows, 1)), draw.standard_normal((rows, 4))])
    apart, claimed = 2 * draw.standard_normal(rows), 0
    for _ in range(studies):
        order = np.argsort(draw.random((repeats, rows)), axis=1)
        held = (order[:, None, :] % 5 == np.arange(5)[:, None]).reshape(-1, rows)
        noise, fitted = draw.standard_normal(rows), (~held).astype(float)
        squares = np.einsum("fn,ni,nj->fij", fitted, inputs, inputs)
        scores = []
        for target in (noise - apart, noise + apart):
            result = np.linalg.solve(squares, ((fitted * target) @ inputs)[..., None])[..., 0]
            missed = (target - result @ inputs.T) ** 2
            scores.append(np.log((missed * held).sum(axis=1) / held.sum(axis=1)))
        claimed += paired_p(scores[0] - scores[1], 3 / 12) < 0.05
    assert 0.005 < claimed / studies < 0.065


def test_failures_come_last_and_one_fold_decides_nothing():
    sizes = {"a": 1, "b": 1, "c": 1}
    frame = frame_of({"a": [2.0, 3.0, 4.0], "b": [1.0, 1.0, np.nan], "c": [2.001, 3.0, 4.0]})
    frame.loc[frame["huber"].isna(), "failed"] = True
    ranked = rank(frame, "huber", sizes)
    assert ranked["verdict"].to_dict() == {"a": "best", "c": "tie", "b": "failed"}
    assert ranked["failed"]["b"] == 1
    # Of three folds a ties the third with c, and b wins the two that it has a score in.
    assert ranked["wins"].to_dict() == pytest.approx({"a": 1 / 3, "c": 1 / 3, "b": 1.0})
    single = rank(frame_of({"a": [2.0], "b": [1.0]}), "huber", sizes)
    assert single["verdict"].to_dict() == {"b": "best", "a": "untested"}
    # The same on one fold of several data sets: these are then the observations.
    several = pd.concat(
        [frame_of({"a": [2.0 + k / 9], "b": [1.0 + k / 7]}).assign(data=str(k)) for k in range(5)]
    )
    assert rank(several, "huber", sizes)["verdict"].to_dict() == {"b": "best", "a": "worse"}
    # Three comparisons with the best: the least p counts three times.
    draw = np.random.default_rng(2).normal(0, 1, (3, 9))
    many = {"a": np.ones(9), **{k: np.exp(1 + row) for k, row in zip("bcd", draw, strict=True)}}
    held = rank(frame_of(many), "huber", dict.fromkeys("abcd", 1))
    alone = [paired_p(np.log(many[k]), 0.25) for k in "bcd"]
    assert held["p"].min() == pytest.approx(3 * min(alone))


def test_scores_of_many_are_those_of_one():
    draw = np.random.default_rng(0)
    target, predicted = draw.uniform(1, 3, (2, 4, 30))
    weight = draw.integers(0, 3, (4, 30)).astype(float)
    scores = metrics(target, predicted, weight, 0.1)
    for k in range(4):
        one = metrics(target[k], predicted[k], weight[k], 0.1)
        for name in one:
            np.testing.assert_allclose(scores[name][k], one[name])


def prepared(law, runs, design):
    contenders = candidates_of(law, {"constraint": None})
    return data_set(("d",), runs, design, contenders, {}), contenders[0].label


def test_folds_stay_with_their_rows_where_rows_are_dropped():
    runs = table().assign(weight=1.0).sample(frac=1, random_state=0)
    runs.iloc[[3, 40, 60], runs.columns.get_loc("loss")] = np.nan
    runs.iloc[[5, 41], runs.columns.get_loc("weight")] = 0.0
    read = jl.read_runs(runs, weight="weight", drop_invalid=True)
    data, law = prepared("bare", read, folds.leave_one_group_out("run"))
    one = data.observations[law]
    left = runs[runs["loss"].notna() & (runs["weight"] > 0)]
    assert len(one) == len(left) == 67
    np.testing.assert_array_equal(one.target, left["loss"])
    np.testing.assert_array_equal(one.rows, left.index)
    for mask, run in zip(data.folds.held_out, "abc", strict=True):
        np.testing.assert_array_equal(mask, left["run"] == run)
    masks = np.ones((1, 72))
    masks[0, :6] = 0  # of the rows as they were given
    own, _ = prepared("bare", read, folds.predefined_split(masks))
    assert own.folds.held_out.sum() == 4 and own.folds.held_out[0, :4].all()


def test_labels_are_in_the_units_of_the_user_and_of_the_share_chosen():
    demo = jl.simulate.demo().table
    columns = {"N": "n_params", "D": "n_tokens", "r_d": "domain_ratio", "loss_g": "general_loss"}
    runs = jl.read_runs(demo, columns, {"N": 1, "D": 1}).for_corpus("general")
    data, law = prepared("dcpt", runs, folds.leave_p_groups_out("r", 2))
    assert data.folds.labels[9] == "r = 0.1, 0.33 held out"
    shares = data.observations[law].inputs["r"]
    np.testing.assert_array_equal(data.folds.held_out[9], np.isin(shares.round(9), [0.1, 0.33]))
    sizes, _ = prepared("dcpt", runs, folds.leave_one_group_out("N"))
    assert sizes.folds.labels[1] == "N = 1.8e+09 held out"
    theirs, _ = prepared("dcpt", runs, folds.leave_one_group_out("r_d"))
    np.testing.assert_array_equal(theirs.folds.held_out[0], np.isclose(shares, 1.0))
