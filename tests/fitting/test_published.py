"""Published coefficients: what they predict, what they do not know, and that they can be kept."""

import jax
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw.fitting._prior import field_experiments
from jaxlaw.fitting._published import field_name
from tests.conftest import DATA, needs_data

FITS = jl.published()


@pytest.mark.parametrize("name", FITS)
def test_each_says_where_it_is_from_and_what_it_leaves_out(name, tmp_path):
    fit = FITS[name]
    said = [note.message for note in fit.notes if note.code == "published"]
    assert set(fit.params) == set(fit.law.parameter_names)
    assert isinstance(fit, jl.FittedLaw) and not isinstance(fit, jl.Fit)
    assert fit.source in said[0] and said[1].startswith("of the coefficients: ")
    summary = " ".join(fit.summary().split())  # a long headline is wrapped
    assert fit.source in summary and "nan" not in summary.lower()
    fit.save(tmp_path / "fit.json")
    again = jl.load(tmp_path / "fit.json")
    assert type(again) is jl.FittedLaw and again.to_dict() == fit.to_dict()


def test_the_table_has_them_all():
    table = jl.published_table()
    assert table["name"].tolist() == list(FITS) and (table["source"] != "").all()
    row = table.set_index("name").loc["besiroglu-2024"]
    assert "B 1293" in row["uncertainty"] and "E 1.81724" in row["parameters"]


def test_the_library_of_the_field_is_there_with_what_its_prior_knows():
    of_field = {name: fit for name, fit in FITS.items() if name.startswith("field-")}
    known = field_experiments()
    assert len(of_field) == len(known) == 81
    for one in known:
        fit = of_field[field_name(one)]
        with jax.enable_x64(True):
            back = fit.law.scale_free.of_params(fit.params)
        values = [float(back[name]) for name in ("log_floor", *fit.law.scale_free.words)]
        np.testing.assert_allclose(values, one.mean, atol=1e-9)
        assert fit.source == one.reference and fit.ranges == one.ranges
        assert any(f"{one.runs} runs of {one.source}" in note.message for note in fit.notes)
    row = jl.published_table().set_index("name").loc["field-olmo-loss_c4_en-chinchilla"]
    assert "Apache-2.0" in row["source"] and "25 runs" in row["left_out"]
    assert "alpha 0." in row["uncertainty"] and row["law"] == "chinchilla"


@needs_data
def test_a_fit_of_the_field_misses_its_runs_by_its_noise():
    runs = pd.read_csv(f"{DATA}/chinchilla_points.csv").query("excluded_in_paper_fit == 0")
    for one in field_experiments():
        if one.name == "chinchilla_points" and one.law != "loss-compute-e":
            fit = FITS[field_name(one)]
            off = np.log(fit.predict(N=runs["n_params"], D=runs["n_tokens"]) / runs["loss"])
            assert off.std() == pytest.approx(one.noise, rel=0.05)


def test_a_new_call_gives_new_fits():
    FITS["hoffmann-2022"].params["E"] += 0.0  # their own dictionaries
    changed = jl.published()
    changed["hoffmann-2022"].params["E"] = 0.0
    assert jl.published()["hoffmann-2022"].params["E"] == 1.69


def test_ranges_that_are_not_printed_have_no_inside():
    hoffmann, zheng = FITS["hoffmann-2022"], FITS["zheng-2024-scratch"]
    assert not hoffmann.is_extrapolation(N=1e9, D=2e10) and hoffmann.is_extrapolation(
        N=1e12, D=2e10
    )
    assert zheng.is_extrapolation(N=1e9, D=2e10).all()
    assert "gives no range of" in " ".join(note.message for note in zheng.notes)
    assert "gives no range" not in " ".join(note.message for note in hoffmann.notes)


def test_chinchilla_itself():
    """Hoffmann 2022: 70 B parameters and 1.4 T tokens, near the loss of its eq. 10."""
    assert FITS["hoffmann-2022"].predict(N=70e9, D=1.4e12) == pytest.approx(1.937, abs=1e-3)
    unrounded = FITS["hoffmann-2022-unrounded"].params
    for name, printed in FITS["hoffmann-2022"].params.items():
        assert unrounded[name] == pytest.approx(printed, rel=0.02)


@needs_data
def test_the_replication_is_the_optimum_of_its_data_and_the_original_is_not():
    runs = pd.read_csv(f"{DATA}/chinchilla_points.csv").query("excluded_in_paper_fit == 0")

    def objective(fit):
        predicted = fit.predict(N=runs["n_params"], D=runs["n_tokens"])
        off = np.abs(np.log(predicted / runs["loss"].to_numpy()))
        return np.where(off < 1e-3, off**2 / 2, 1e-3 * (off - 5e-4)).sum()

    assert objective(FITS["besiroglu-2024"]) == pytest.approx(0.00101827, rel=1e-4)
    assert objective(FITS["hoffmann-2022"]) > 2 * 0.00101827


def test_zhengs_curves_cross():
    """Zheng 2024, §4.2: the advantage of continual training at every compute."""
    C = np.geomspace(1e18, 1e21, 4)
    scratch, cpt = FITS["zheng-2024-frontier-scratch"], FITS["zheng-2024-frontier-cpt"]
    assert (cpt.predict(C=C) < scratch.predict(C=C)).all()


@pytest.mark.parametrize("name", [n for n in FITS if n.startswith("isik")])
def test_printed_scores_are_scores(name):
    """BLEU between 1 and 100 that grows, over the tokens of the paper's figures."""
    scores = FITS[name].predict(Dp=np.geomspace(2e9, 2e11, 5))
    assert (scores > 1).all() and (scores < 100).all() and (np.diff(scores) > 0).all()


@pytest.mark.parametrize("name", [n for n in FITS if n.endswith("-english")])
def test_english_alone_scores_below_the_mixture(name):
    """Isik 2024, §5: "we see smaller BLEU score" with 100 % English, for the same finetuning."""
    Dp = np.geomspace(2e10, 2e11, 5)
    assert (FITS[name].predict(Dp=Dp) < FITS[name.removesuffix("-english")].predict(Dp=Dp)).all()
