"""Several recipes as one law: shared and own parameters, labels, and what a recipe is worth."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import planning, simulate
from jaxlaw.errors import DataError, UsageError
from tests.conftest import DATA, needs_data

TRUTH = dict(simulate.TRUTHS["chinchilla"])
OWN = {"c4": {"E": 1.69, "B": 410.7}, "pile": {"E": 1.75, "B": 330.0}}
LAW = jl.laws.grouped("chinchilla", ["c4", "pile"], own=["B", "E"])
PARAMS = {f"{name}[{label}]": v for label, own in OWN.items() for name, v in own.items()} | {
    name: TRUTH[name] for name in ("A", "alpha", "beta")
}


def two_corpora(noise: float = 0.002, every: int = 3) -> pd.DataFrame:
    """Runs of one design on two corpora, whose E and B differ."""
    design = simulate.experiment("chinchilla", noise=0.0).table[::every]
    parts = [
        simulate.simulate_runs("chinchilla", TRUTH | own, design[["N", "D"]], noise=noise, seed=k)
        for k, own in enumerate(OWN.values())
    ]
    tables = [table.assign(corpus=label) for label, table in zip(OWN, parts, strict=True)]
    return pd.concat(tables, ignore_index=True)


@pytest.fixture(scope="module")
def fit():
    return jl.fit(LAW, two_corpora(), columns={"group": "corpus"})


@pytest.mark.full
def test_shared_and_own_parameters_are_those_of_the_groups():
    exact = jl.fit(LAW, two_corpora(noise=0.0), columns={"group": "corpus"})
    assert exact.params == pytest.approx(PARAMS, rel=1e-6)
    assert LAW.linear_parameters == ("E[c4]", "E[pile]", "A", "B[c4]", "B[pile]")
    assert LAW.parameter("B[pile]").centre == {"D": "beta"}


@pytest.mark.full
def test_with_every_parameter_its_own_it_is_a_fit_of_each_group():
    runs = two_corpora()
    law = jl.laws.grouped("chinchilla", runs["corpus"], own=TRUTH)
    together = jl.fit(law, runs, columns={"group": "corpus"})
    apart = [jl.fit("chinchilla", part) for _, part in runs.groupby("corpus")]
    assert together.objective == pytest.approx(sum(one.objective for one in apart), rel=1e-8)
    for label, one in zip(OWN, apart, strict=True):
        assert together.params[f"alpha[{label}]"] == pytest.approx(one.params["alpha"], rel=1e-5)


def test_labels_are_given_as_they_are_in_the_table(fit):
    at = {"N": 1e9, "D": 1e10}
    low, high = (float(fit.predict(**at, group=label)) for label in OWN)
    assert fit.predict(**at, group=["pile", "c4"]).tolist() == [high, low]
    assert fit.predict(pd.DataFrame({**at, "corpus": ["c4"]})).tolist() == [low]
    with pytest.raises(DataError, match="group is 'pyle'; it takes c4, pile. Did you mean 'pile'"):
        fit.predict(**at, group="pyle")
    runs = two_corpora()
    runs.loc[7, "corpus"] = "books"
    with pytest.raises(DataError, match="column corpus, row 7: input group is 'books'") as error:
        jl.fit(LAW, runs, columns={"group": "corpus"})
    assert (error.value.row, error.value.column, error.value.value) == (7, "corpus", "books")


def test_the_law_is_found_again_by_its_name(fit, tmp_path):
    assert jl.laws.get(LAW.name) is LAW
    fit.save(tmp_path / "fit.json")
    again = jl.load(tmp_path / "fit.json")
    assert again.law is LAW and again.params == fit.params


def test_kept_programs_know_it_by_its_name_as_long_as_it_is_what_that_says(own_laws):
    assert dataclasses.replace(LAW, delta=0.1).program_name is None

    @jl.law(name="of-a-user")
    def of_a_user(N, *, E=jl.laws.positive(), A=jl.laws.positive()):
        return E + A / N

    assert jl.laws.grouped(of_a_user, OWN, own=["A"]).program_name is None


def test_a_chart_stays_where_it_leaves_shared_parameters_shared():
    """κ turns A, B, α and β into what the runs see: with a κ for each group nothing is shared."""
    kept = jl.laws.grouped("skaling", OWN, own=["E", "A"]).chart
    assert set(kept.low) == {"A[c4]", "A[pile]", "B", "alpha", "beta"}
    assert jl.laws.grouped("skaling", OWN, own=["kappa"]).chart is None
    every = jl.laws.grouped("skaling", OWN, own=["A", "B", "alpha", "beta", "kappa"]).chart
    assert len(every.low) == 8
    limits = jl.laws.grouped("repetition", OWN, own=["R_D"]).chart.limits
    assert ("R_D[pile]", "high") in limits and ("R_N", "high") in limits


@pytest.mark.full
def test_folds_weights_and_asymmetry_are_those_of_any_law(fit):
    runs = two_corpora().assign(group=lambda table: table["corpus"])
    study = jl.cross_validate(
        {"shared": LAW, "one": "chinchilla"}, runs, "k-fold:3", n_starts=256, n_local=8
    )
    assert study.ranking["verdict"].to_dict() == {"shared": "best", "one": "worse"}
    lower = jl.fit(LAW, runs, asymmetry=10.0)
    assert (lower.predict(runs) < fit.predict(runs)).all()


@pytest.mark.full
def test_what_a_corpus_is_worth_has_an_interval_of_joint_draws(fit):
    boot = jl.bootstrap(LAW, two_corpora(), columns={"group": "corpus"}, n_resamples=40)
    asked = dict(reference={"group": "c4"}, at={"group": "pile"})
    result = planning.compute_multiplier(boot, [1e19, 1e21], **asked)
    true = planning.compute_multiplier((LAW, PARAMS), [1e19, 1e21], **asked).table
    for row, truth in zip(result.table.itertuples(), true["multiplier"], strict=True):
        assert row.multiplier_low < row.multiplier < row.multiplier_high
        assert row.multiplier == pytest.approx(truth, rel=0.1)
    # At equal loss: the recipe with so much less compute comes to the reference's.
    reference = planning.allocation((LAW, PARAMS), 1e21, at={"group": "c4"})
    own = planning.allocation((LAW, PARAMS), 1e21 / true["multiplier"][1], at={"group": "pile"})
    assert own.loss == pytest.approx(reference.loss, rel=1e-9)
    assert true["loss"][1] == pytest.approx(reference.loss, rel=1e-9)


def test_an_order_that_turns_with_compute_is_noted():
    """More data help pile at first; its higher floor is what counts in the end."""
    asked = dict(reference={"group": "c4"}, at={"group": "pile"})
    result = planning.compute_multiplier((LAW, PARAMS), [1e18, 1e26], **asked)
    assert result.table["multiplier"][0] > 1 > result.table["multiplier"][1]
    assert "several-solutions" in [note.code for note in result.notes]
    law = jl.laws.grouped("chinchilla", OWN, own="E")
    floors = TRUTH | {"E[c4]": 1.0, "E[pile]": 3.0}
    never = {name: floors[name] for name in law.parameter_names}
    assert planning.compute_multiplier((law, never), [1e24], **asked).table["multiplier"][0] == 0


@pytest.mark.full
def test_a_multiplier_keeps_to_the_epochs_and_counts_served_tokens():
    truth = dict(jl.simulate.TRUTHS["repetition-geometric"])
    law = jl.laws.grouped("repetition-geometric", OWN, own="E")
    params = truth | {"E[c4]": 1.9, "E[pile]": 1.8}
    params = {name: params[name] for name in law.parameter_names}
    asked = dict(reference={"group": "c4", "U": 1e9}, at={"group": "pile", "U": 2e9})
    options = dict(max_epochs=6, served_tokens=1e10)
    result = planning.compute_multiplier((law, params), [1e21], **asked, **options)
    plans = planning.allocation((law, params), 1e21, at={"group": "c4", "U": 1e9}, **options)
    own = planning.min_compute((law, params), plans.loss, at={"group": "pile", "U": 2e9}, **options)
    assert result.table["loss"][0] == pytest.approx(plans.loss, rel=1e-9)
    assert result.table["multiplier"][0] == pytest.approx(1e21 / own.compute, rel=1e-6)
    free = planning.compute_multiplier((law, params), [1e21], **asked, max_epochs=200)
    assert free.table["multiplier"][0] < result.table["multiplier"][0]
    many = planning.compute_multiplier((law, params), [1e24], **asked, max_epochs=200)
    assert "many-epochs" in [note.code for note in many.notes]
    with pytest.raises(UsageError, match="unique tokens U"):
        planning.compute_multiplier(
            (LAW, PARAMS), [1e21], reference={"group": "c4"}, at={"group": "pile"}, max_epochs=4
        )


def test_all_parameters_are_own_where_none_is_named():
    law = jl.laws.grouped("chinchilla", ["c4", "pile"])
    assert law is jl.laws.grouped("chinchilla", ["c4", "pile"], ["E", "A", "B", "alpha", "beta"])
    assert law.of_groups["pile"] == ("E[pile]", "A[pile]", "B[pile]", "alpha[pile]", "beta[pile]")


@pytest.mark.full
@needs_data
def test_shared_exponents_of_six_corpora_predict_their_larger_runs_better():
    """Loss-to-loss, up to 5e19 FLOPs → the run at 1e21 of each corpus."""
    runs = pd.read_csv(Path(DATA) / "loss_to_loss.csv").rename(
        columns={"params": "N", "tokens": "D", "data": "group", "c4_val_loss": "loss"}
    )[["N", "D", "group", "loss", "split"]]
    small, large = (runs[runs["split"] == split] for split in ("sweep", "extrapolation"))
    law = jl.laws.grouped("chinchilla", small["group"], own=["E", "A", "B"])
    shared = jl.fit(law, small).predict(large)
    apart = [
        jl.fit("chinchilla", small[small["group"] == row.group]).predict(N=row.N, D=row.D)
        for row in large.itertuples()
    ]
    first, second = (np.abs(one / large["loss"] - 1).mean() for one in (shared, np.array(apart)))
    assert first < 0.022 and second > 0.024
