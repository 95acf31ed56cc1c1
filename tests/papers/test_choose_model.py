"""The choice of a model from finetuning on little data: truth known, brute force, real data."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import DataError, UsageError, papers
from jaxlaw.papers import choose_model
from tests.conftest import DATA, named, needs_data, texts

K, SIZES, AT = 6, 200.0 * 2.0 ** np.arange(8), 6.4e5
NAMES = [f"model-{k}" for k in range(K)]
# Curves that cross: who is best on 25,600 samples is not who is best on 640,000.
E = np.array([1.6, 1.2, 1.35, 1.5, 1.0, 1.45])
A = np.array([0.5, 1.0, 0.8, 0.4, 1.6, 0.9])  # at 1,000 samples
ALPHA = np.array([0.35, 0.25, 0.3, 0.4, 0.2, 0.45])


# Two corpora as Isik 2024 prints them (tables 3 and 5, en-de, 6M tokens), and one in between.
CORPORA = {"mixed": (-180.75, 9.0, 0.75), "english": (-1.88, 0.15, 3.30), "third": (-30, 1.8, 1.0)}
TOKENS = np.geomspace(1e9, 1.3e11, 8)


def scores(corpora, tokens, noise=0.0, seed=0):
    """Rows of BLEU by corpus."""
    random = np.random.default_rng(seed)
    parts = [
        pd.DataFrame({"model": name, "D": tokens, "score": (a + b * np.log(tokens)) ** c})
        for name, (a, b, c) in corpora.items()
    ]
    rows = pd.concat(parts, ignore_index=True)
    return rows.assign(score=rows["score"] * np.exp(noise * random.standard_normal(len(rows))))


SCORES = scores(CORPORA, TOKENS, noise=0.01)


def truth(D):
    """(K, points) losses."""
    return E[:, None] + A[:, None] * (np.asarray(D, float) / 1e3) ** -ALPHA[:, None]


def table(losses, sizes=SIZES):
    """Rows of (K, n) losses."""
    rows = {"model": np.repeat(NAMES[: len(losses)], len(sizes)), "D": np.tile(sizes, len(losses))}
    return pd.DataFrame(rows | {"loss": losses.ravel()})


def noisy(seed, noise=0.003):
    normal = np.random.default_rng(seed).standard_normal((K, len(SIZES)))
    return table(truth(SIZES) * np.exp(noise * normal))


CLEAN, SEEN = table(truth(SIZES)), noisy(1)


@pytest.fixture(scope="module")
def found():
    return choose_model(SEEN, at=AT)


def codes(found):
    return {note.code for note in found.notes}


@pytest.mark.full
def test_without_noise_choice_ranking_and_losses_are_the_true_ones():
    choice = choose_model(CLEAN, at=AT)
    at_full = truth([AT])[:, 0]
    assert choice.table["model"].tolist() == [NAMES[k] for k in at_full.argsort()]
    assert choice.chosen != NAMES[truth(SIZES[-1:])[:, 0].argmin()]  # it is not the best so far
    np.testing.assert_allclose(choice.table["predicted"], np.sort(at_full), rtol=1e-6)
    assert choice.probability == 1.0 and choice.regret == 0.0
    assert choice.corrected == pytest.approx(choice.predicted, rel=1e-6)
    assert "indistinguishable" not in codes(choice) and "scatter" not in codes(choice)


@pytest.mark.full
def test_each_prediction_is_that_of_a_fit_of_its_own(found):
    model = found.table["model"][2]
    mine = SEEN[SEEN["model"] == model]
    alone = jl.fit("downstream-ce", {"Dp": mine["D"] * 1e4, "loss": mine["loss"]})
    assert found.table["predicted"][2] == pytest.approx(float(alone.predict(Dp=AT * 1e4)), rel=1e-6)


def test_numbers_are_those_of_the_resamples(found):
    assert found.predicted == found.table["predicted"].min() == found.table["predicted"][0]
    assert found.table["best"].sum() == pytest.approx(1.0)
    assert found.probability == found.table["best"][0] > 0.5
    draws = found.draws["regret"]
    assert found.regret == pytest.approx(draws.mean()) and (draws >= 0).all()
    assert (draws == 0).mean() == pytest.approx(found.probability)
    low, high = found.interval["predicted"]
    assert low < found.corrected < high
    inside = found.table["predicted"].between(
        found.table["predicted_low"], found.table["predicted_high"]
    )
    assert inside.all()


def test_the_scatter_is_the_noise(found):
    """Pooled, by the degrees of freedom: 6 models of 8 losses and 3 parameters."""
    assert np.sqrt((found.table["scatter"] ** 2).mean()) == pytest.approx(0.003, rel=0.35)


def test_the_order_and_the_unit_of_the_data_change_nothing(found):
    shuffled = SEEN.sample(frac=1, random_state=0).assign(D=lambda rows: rows["D"] * 1e3)
    other = choose_model(shuffled, at=AT * 1e3, n_resamples=0)
    pd.testing.assert_series_equal(
        other.table["predicted"], found.table["predicted"], rtol=1e-7, check_names=False
    )
    assert other.table["model"].tolist() == found.table["model"].tolist()


def test_a_later_call_gives_the_same_numbers(found):
    again = choose_model(SEEN, at=AT)
    assert again.to_dict() == found.to_dict()


@pytest.mark.full
def test_equal_models_are_indistinguishable_and_the_lowest_is_corrected():
    """The winner's curse: of equals the one that errs low is chosen."""
    equal = np.tile(truth(SIZES)[:1], (K, 1))
    above, better = 0, []
    for seed in range(8):
        normal = np.random.default_rng(seed).standard_normal(equal.shape)
        choice = choose_model(table(equal * np.exp(0.003 * normal)), at=AT)
        right = truth([AT])[0, 0]
        above += choice.interval["predicted"][1] < right
        better.append([choice.predicted / right - 1, choice.corrected / right - 1])
        assert "indistinguishable" in codes(choice) and choice.probability < 0.95
    naive, corrected = np.mean(better, axis=0)
    assert naive < -0.005 and abs(corrected) < abs(naive)
    assert above <= 1


@pytest.fixture(scope="module")
def corpora():
    return choose_model(SCORES, at=1e12, law="downstream-bleu", n_resamples=60)


@pytest.mark.full
def test_corpora_are_compared_by_scores_the_highest_first(corpora):
    """Isik 2024, figure 3: the corpus that is to give the best BLEU."""
    right = scores(CORPORA, [1e12]).set_index("model")["score"]
    assert corpora.chosen == right.idxmax() == "mixed"
    assert corpora.table["model"].tolist() == right.sort_values(ascending=False).index.tolist()
    assert corpora.probability == 1.0 and corpora.regret == 0.0 and corpora.target == "BLEU"
    rows = corpora.table.set_index("model").loc[right.index]
    np.testing.assert_allclose(rows["predicted"], right, rtol=0.03)
    assert rows["predicted"].between(rows["predicted_low"], rows["predicted_high"]).all()
    assert "highest" in corpora.binding and "not-monotone" not in codes(corpora)


def test_equal_corpora_are_indistinguishable_and_the_highest_is_lowered():
    equal = dict.fromkeys(["a", "b", "c"], CORPORA["mixed"])
    choice = choose_model(
        scores(equal, TOKENS, 0.01, 3), at=1e12, law="downstream-bleu", n_resamples=60
    )
    assert "indistinguishable" in codes(choice) and choice.corrected < choice.predicted
    assert (choice.draws["regret"] >= 0).all() and choice.regret > 0


@pytest.mark.full
def test_a_corpus_whose_score_falls_is_suspect():
    """Isik 2024, §3.4."""
    rows = SCORES.copy()
    third = rows.index[rows["model"] == "third"]
    rows.loc[third[-2:], "score"] *= 0.8
    rows = pd.concat([rows, rows[rows["model"] == "mixed"].assign(score=lambda r: r.score * 0.999)])
    choice = choose_model(rows, at=1e12, law="downstream-bleu", n_resamples=0)
    (note,) = [note for note in choice.notes if note.code == "not-monotone"]
    assert note.message.startswith("third: ")


def test_the_picture_of_scores_says_what_they_are(corpora, ax):
    from jaxlaw import plots

    plots.model_losses(corpora, ax=ax)
    assert ax.get_ylabel() == "BLEU after finetuning" and len(texts(ax)) == 3


@pytest.mark.full
def test_a_pair_that_is_the_same_is_a_tie():
    losses = truth(SIZES)
    losses[0] = losses[losses[:, -1].argmin()] = truth(SIZES)[truth([AT])[:, 0].argmin()]
    choice = choose_model(table(losses), at=AT)
    (note,) = [note for note in choice.notes if note.code == "indistinguishable"]
    assert NAMES[0] in note.message


def test_a_model_that_the_law_does_not_describe_has_its_own_scatter():
    losses = truth(SIZES) * np.exp(0.003 * np.random.default_rng(4).standard_normal((K, 8)))
    losses[3] *= 1 + 0.1 * (-1.0) ** np.arange(8)
    choice = choose_model(table(losses), at=AT)
    (note,) = [note for note in choice.notes if note.code == "scatter"]
    assert NAMES[3] in note.message and NAMES[2] not in note.message
    rows = choice.table.set_index("model")
    width = (rows["predicted_high"] - rows["predicted_low"]) / rows["predicted"]
    assert width[NAMES[3]] > 3 * width.drop(NAMES[3]).median()


def test_losses_before_finetuning_are_for_the_laws_that_take_them():
    before = pd.DataFrame({"model": NAMES, "D": 0.0, "loss": 4.0})
    choice = choose_model(pd.concat([before, CLEAN]), at=AT, n_resamples=0)
    assert len(choice.data) == len(CLEAN) and "before-finetuning" in codes(choice)
    assert choice.interval == {} and np.isnan(choice.probability)
    assert "nan" not in choice.summary().splitlines()[3]


def test_models_seen_at_different_sizes_and_twice_at_one():
    """What a model lacks has no weight; without noise its loss at the full size is exact."""
    some = CLEAN[CLEAN["D"] > 200].drop(index=[3, 9, 20, 21])
    choice = choose_model(pd.concat([some, some.iloc[[0]]]), at=AT, n_resamples=0)
    np.testing.assert_allclose(choice.table["predicted"], np.sort(truth([AT])[:, 0]), rtol=1e-6)
    assert choice.table.set_index("model")["rows"].to_dict() == {
        **dict.fromkeys(NAMES, 7), NAMES[1]: 6, NAMES[2]: 5
    }  # fmt: skip


def test_a_plan_far_beyond_the_data_is_noted(found):
    assert "extrapolation" in codes(found)
    assert "25 times" in next(n.message for n in found.notes if n.code == "extrapolation")
    near = choose_model(SEEN, at=9 * SIZES[-1], n_resamples=0)
    assert "extrapolation" not in codes(near)


@pytest.mark.full  # other shapes, other programs
def test_as_many_losses_as_parameters_have_no_interval():
    choice = choose_model(CLEAN[CLEAN["D"] < 1000], at=AT)
    assert "no-interval" in codes(choice) and choice.interval == {}
    few = choose_model(CLEAN[(CLEAN["D"] < 1000) | (CLEAN["model"] != NAMES[0])], at=AT)
    assert "no-spare-rows" in codes(few) and "predicted" in few.interval


@pytest.mark.full  # another law
def test_a_rectified_law_finds_its_own_truth():
    sizes = np.append(0.0, 100.0 * 4.0 ** np.arange(8))
    losses = E[:, None] + 40 * A[:, None] / (20 + sizes ** (1.2 * ALPHA[:, None] + 0.3))
    at_full = E + 40 * A / (20 + AT ** (1.2 * ALPHA + 0.3))
    choice = choose_model(table(losses, sizes), at=AT, law="rectified", n_resamples=0)
    np.testing.assert_allclose(choice.table["predicted"], np.sort(at_full), rtol=1e-4)
    assert choice.chosen == NAMES[at_full.argmin()] and len(choice.data) == K * 9


def test_the_answer_in_words_and_as_a_record(found):
    shown = found.summary()
    assert shown.startswith(f"{found.chosen}: ") and "95 %: " in shown
    record = found.to_dict()
    assert record["chosen"] == found.chosen and len(record["table"]) == K
    assert record["table"][0]["best"] == found.probability


def test_the_picture_marks_the_choice(found, ax):
    from jaxlaw import plots

    drawn = plots.model_losses(found, shown=4, ax=ax)
    assert drawn is ax and len(ax.collections) == 8  # dots and an interval each
    assert named(ax)[-1] == f"{found.chosen} {found.probability:.0%}".replace("%", " %")
    assert len(texts(ax)) == 4 and len(ax.lines) == 5
    curve = found.curves([AT])
    assert curve[found.chosen][0] == pytest.approx(found.predicted)


def test_a_choice_from_a_file_is_drawn_without_curves(found, ax, tmp_path):
    from jaxlaw import plots

    found.save(tmp_path / "choice.json")
    again = jl.load(tmp_path / "choice.json")
    drawn = plots.model_losses(again, shown=4, ax=ax)
    assert len(drawn.collections) == 8 and len(drawn.lines) == 1  # the full size
    with pytest.raises(jl.UsageError, match="does not hold the fits"):
        again.curves([AT])


@pytest.mark.parametrize(
    "change, error, message",
    [
        (lambda: choose_model(SEEN, at=-1.0), UsageError, "at is -1"),
        (lambda: choose_model(SEEN, at=AT, law="chinchilla"), UsageError, "from N, D"),
        (lambda: choose_model(SEEN, at=AT, law="downstream-bleu"), DataError, "no column score"),
        (lambda: choose_model(SCORES, at=1e12), DataError, "no column loss"),
        (lambda: choose_model(SEEN, at=AT, n_resamples=1), UsageError, "no spread"),
        (lambda: choose_model(SEEN, at=AT, n_resamples=-1), UsageError, "resamples"),
        (lambda: choose_model(SEEN, at=AT, level=95.0), UsageError, "level is 95"),
        (lambda: choose_model(SEEN.drop(columns="loss"), at=AT), DataError, "no column loss"),
        (lambda: choose_model(SEEN, at=AT, columns={"D": "n"}), DataError, "no column n"),
        (lambda: choose_model(SEEN, at=AT, columns={"size": "D"}), UsageError, "not 'size'"),
        (lambda: choose_model(SEEN[:8], at=AT), DataError, "1 models; a choice needs two"),
        (lambda: choose_model(SEEN[6:], at=AT), DataError, "model-0 of fewer than 3 sizes"),
        (lambda: choose_model(SEEN.assign(loss=-1.0), at=AT), DataError, "finite and positive"),
        (lambda: choose_model(SEEN.assign(D="many"), at=AT), DataError, "'many' is not a number"),
        (lambda: choose_model({"model": [1], "D": [2.0]}, at=AT), DataError, "no column loss"),
    ],
)
def test_what_carries_no_choice(change, error, message):
    with pytest.raises(error, match=message):
        change()


def test_columns_by_other_names_and_rows_to_keep(found):
    other = SEEN.rename(columns={"model": "name", "D": "n", "loss": "eval"}).assign(part="fit")
    other = pd.concat([other, other.assign(part="test")], ignore_index=True)
    same = choose_model(
        other, at=AT, columns={"model": "name", "D": "n", "loss": "eval"}, where="part == 'fit'"
    )
    assert same.table.equals(found.table)
    assert "filtered" in codes(same)


@needs_data
@pytest.mark.full
def test_the_choice_among_30_models_on_an_eighth_of_the_data():
    """Lin 2024, gigaword at γ = 8: the best model is chosen, Pearson's r printed as 0.951."""
    losses = pd.read_csv(Path(DATA) / "finetune_transfer.csv")
    losses = losses[(losses["dataset"].str.lower() == "gigaword")]
    full = float(losses["n_finetune_samples"].max())
    choice = choose_model(
        losses, at=full, columns={"D": "n_finetune_samples"},
        where=f"n_finetune_samples <= {full / 8}",
    )  # fmt: skip
    true = losses[losses["n_finetune_samples"] == full].set_index("model")["loss"]
    mine = choice.table.set_index("model")["predicted"]
    assert choice.chosen == true.idxmin()
    assert true.rank().corr(mine.rank()) == pytest.approx(0.895, abs=0.01)
    assert true.corr(mine) == pytest.approx(0.951, abs=0.005)
    assert "extrapolation" not in codes(choice)  # 8 times the data seen


def test_the_public_name():
    assert papers.choose_model is choose_model
