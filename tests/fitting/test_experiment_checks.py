"""Notes on experiments: what mixed, swapped, capped or rounded tables leave to be seen."""

import dataclasses

import jax
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import laws, simulate
from jaxlaw.fitting._checks import Residuals, experiment_notes

LAW = laws.get("chinchilla")
TRUTH = simulate.TRUTHS["chinchilla"]
SIZES, LENGTHS = np.meshgrid(np.geomspace(5e7, 5e9, 6), np.geomspace(1e9, 1e11, 7), indexing="ij")
N, D = SIZES.ravel(), LENGTHS.ravel()


def shuffled(count, seed=0):
    return np.random.default_rng(seed).permutation(count)


def fitted(N, D, off=0.0, noise=0.004, seed=0, digits=None, weight=None):
    """Residuals of a least-squares fit, linear around the truth, of losses that are off it."""
    of_size, of_data = TRUTH["A"] * N ** -TRUTH["alpha"], TRUTH["B"] * D ** -TRUTH["beta"]
    loss = TRUTH["E"] + of_size + of_data
    slopes = np.stack([np.ones(len(N)), of_size, of_data, of_size * np.log(N), of_data * np.log(D)])
    slopes = slopes.T / loss[:, None]
    target = np.log(loss) + off + noise * np.random.default_rng(seed).standard_normal(len(N))
    target = target if digits is None else np.log(np.round(np.exp(target), digits))
    rest = target - np.log(loss)
    rest = rest - slopes @ np.linalg.lstsq(slopes, rest, rcond=None)[0]
    weight = np.ones(len(N)) if weight is None else weight
    rows = np.arange(2, len(N) + 2)
    return Residuals(target, rest, slopes, {"N": N, "D": D}, weight, rows, "line", True)


def messages(residuals, law=LAW, others=None, order=None, **options):
    made = dataclasses.replace(residuals, others=others, order=order)
    notes = experiment_notes(law, made.at(made.weight > 0), **options)
    assert {note.code for note in notes} <= {"mixed-runs", "doubtful-values"}
    assert all(len(note.message.split()) <= 60 for note in notes)
    return [note.message for note in notes]


# ------------------------------------------------------------- healthy


@pytest.mark.parametrize("tail", [None, 4])
def test_healthy_runs_are_seldom_doubted(tail):
    """On a grid, with columns that say nothing, in the order of the grid and in none."""
    doubted = 0
    random = np.random.default_rng(0)
    for seed in range(100):
        heavy = random.standard_normal(42) if tail is None else random.standard_t(tail, 42)
        others = pd.DataFrame({"seed": random.integers(0, 3, 42), "cluster": ["a", "b"] * 21})
        order = np.arange(42) if seed % 2 else random.permutation(42)
        doubted += bool(messages(fitted(N, D, 0.004 * heavy, 0.0), others=others, order=order))
    assert doubted <= 3


def test_columns_that_follow_the_inputs_are_no_groups():
    """Layers follow N, and a budget both; a law that lacks a bend in N would be seen in them."""
    bend = 0.01 * np.log(N / 5e8) ** 2
    others = pd.DataFrame({"layers": (4 * np.log(N)).round(), "size": N.astype(int).astype(str)})
    others["budget"] = 10.0 ** np.log10(N * D).round()
    assert messages(fitted(N, D, bend), others=others, misfit=True) == []


def test_columns_of_any_kind_are_taken():
    """Lists, dates, categories, missing values, mixed types, two columns of one name."""
    cells = np.arange(42) % 3
    columns = {
        "lists": [[k] for k in cells],
        "dates": pd.Timestamp("2026-01-01") + pd.to_timedelta(cells, "D"),
        "kinds": pd.Categorical([f"k{k}" for k in cells]),
        "some": pd.array(np.where(cells, cells, None), "Int64"),
        "mixed": [(1, "a", None)[k] for k in cells],
        "lr": ["x"] * 42,
        "LR": [np.nan] * 42,
        7: cells > 0,
        "gaps": np.where(cells, cells, np.nan),
    }
    others = pd.DataFrame(columns)
    others = pd.concat([others, others[["mixed"]]], axis=1)
    assert messages(fitted(N, D), others=others, order=np.arange(42)) == []


# ------------------------------------------------------------- groups


def test_a_column_that_residuals_follow_is_named_with_its_levels():
    new = np.isin(np.arange(42), shuffled(42)[:21])
    others = pd.DataFrame({"seed": np.arange(42) % 3, "corpus": np.where(new, "web", "books")})
    (message,) = messages(fitted(N, D, 0.05 * new), others=others)
    assert "residuals depend on column corpus" in message and "web differs by +" in message


def test_a_difference_that_grows_with_size_is_seen_by_its_column():
    """Embeddings counted in half of the rows matter in small models alone."""
    half = np.isin(np.arange(42), shuffled(42, 1)[:21])
    counted = N + half * 5e4 * np.cbrt(10.7 * N)
    apart = TRUTH["A"] * (N ** -TRUTH["alpha"] - counted ** -TRUTH["alpha"]) / 2.5
    others = pd.DataFrame({"counted_by": np.where(half, "all", "body")})
    (message,) = messages(fitted(counted, D, apart, 0.002), others=others)
    assert "column counted_by" in message


def test_a_change_in_the_order_of_the_table_is_placed():
    order = shuffled(42, 2)  # of each row its line in the table
    (message,) = messages(fitted(N, D, -0.02 * (order >= 25)), order=order)
    first = int(np.flatnonzero(order == 25)[0]) + 2
    assert f"rows from line {first} on differ by -" in message


def test_a_step_in_size_is_placed_and_a_bend_is_no_step():
    (message,) = messages(fitted(N, D, 0.06 * (N > 5e8), 0.002))
    assert "runs with N ≥ 7.92e+08 are higher" in message
    assert messages(fitted(N, D, 0.01 * np.log(N / 5e8) ** 2, 0.002), misfit=True) == []


def test_groups_that_nothing_tells_apart_are_listed():
    third = np.isin(np.arange(42), shuffled(42, 3)[:14])
    (message,) = messages(fitted(N, D, 0.03 * third))
    assert "two groups" in message and "of 14 and 28 rows" in message
    assert "lines " + ", ".join(str(row + 2) for row in np.flatnonzero(third)[:5]) in message


def test_noise_that_grows_with_the_target_makes_no_two_groups():
    """Of a target that passes zero, residuals in its own unit: small ones, and others."""
    law, truth = laws.get("shift-exp"), simulate.TRUTHS["shift-exp"]
    table = simulate.experiment("shift-exp", noise=0.0).table
    inputs = {name: table[name].to_numpy() for name in law.input_names}
    target, rows = table[law.target].to_numpy(), np.arange(len(table))
    with jax.enable_x64(True):
        moved = [law.evaluate({**truth, k: v * (1 + 1e-6)}, **inputs) for k, v in truth.items()]
    slopes = (np.stack(moved, axis=1) - target[:, None]) / 1e-6
    for seed in range(6):
        off = target * 0.004 * np.random.default_rng(seed).standard_normal(len(rows))
        off = off - slopes @ np.linalg.lstsq(slopes, off, rcond=None)[0]
        relative = Residuals(target, off, slopes, inputs, np.ones(len(rows)), rows, "row", False)
        assert messages(relative, law=law) == []


def test_rows_of_weight_zero_form_no_group():
    third = np.isin(np.arange(42), shuffled(42, 3)[:14])
    good = fitted(N[~third], D[~third])
    whole = fitted(N, D, 0.03 * third, weight=np.where(third, 0.0, 1.0))
    whole.off[~third] = good.off
    assert messages(whole, order=np.arange(42), others=pd.DataFrame({"kind": third})) == []


# ------------------------------------------------------------- values


def test_swapped_columns_have_fewer_tokens_than_parameters():
    (message,) = messages(fitted(D, N))
    assert "D is below N in" in message and "swapped" in message
    # Few tokens are what continual training is about.
    assert messages(fitted(D, N), law=laws.get("cpt-chinchilla")) == []


@pytest.mark.parametrize("digits,said", [(1, True), (2, False), (3, False)])
def test_losses_rounded_to_as_much_as_their_scatter(digits, said):
    text = str(messages(fitted(N, D, digits=digits)))
    assert ("rounded to 0.1" in text) == said


def test_a_law_that_passes_through_rounded_losses_says_nothing_of_their_scatter():
    """Six losses of three digits, about which a law of five parameters scatters by chance alone."""
    table = simulate.simulate_runs(
        "chinchilla", TRUTH, {"N": N[::8], "D": D[[0, 9, 18, 27, 36, 41]]}, noise=0.004
    )
    fit = jl.fit("chinchilla", table.assign(loss=table["loss"].round(2)))
    assert "few-spare-rows" in {note.code for note in fit.notes}
    assert "rounded" not in str(fit.notes)
    some = slice(0, 42, 8)
    assert messages(fitted(N[some], D[some], digits=2)) == []
    assert "rounded to 0.1" in str(messages(fitted(N, D, digits=1)))


def test_tokens_recorded_up_to_a_cap():
    cap = np.sort(np.unique(D))[3]
    known = np.minimum(D, cap)
    apart = TRUTH["B"] * (D ** -TRUTH["beta"] - known ** -TRUTH["beta"]) / 2.5
    (message,) = messages(fitted(N, known, apart))
    assert f"24 of 42 rows have the same largest D, {cap:.3g}" in message
    # A design may have most of its rows at one D, whose losses the law describes.
    assert messages(fitted(N, known)) == []


def test_one_rate_for_all_sizes():
    (message,) = messages(fitted(N, D), others=pd.DataFrame({"lr": np.full(42, 3e-4)}))
    assert "column lr is 0.0003 in every row, for sizes that differ by a factor of 100" in message
    scaled = pd.DataFrame({"lr": 3e-4 * (1e9 / N) ** 0.3})
    assert messages(fitted(N, D), others=scaled) == []
    few = N < 5e8
    one = pd.DataFrame({"lr": np.full(few.sum(), 3e-4)})
    assert messages(fitted(N[few], D[few]), others=one) == []


# ------------------------------------------------------------- through a fit


@pytest.mark.full
def test_a_fit_names_the_users_own_column_and_line():
    table = simulate.simulate_runs("chinchilla", TRUTH, {"N": N, "D": D}, noise=0.004)
    table = table.iloc[shuffled(42, 5)].reset_index(drop=True)
    table.loc[20:, "loss"] *= 1.03
    columns = {"N": "size", "D": "tokens"}
    plain = table.rename(columns=columns)
    notes = {n.code: n.message for n in jl.fit("chinchilla", plain, columns=columns).notes}
    assert "rows from row 20 on differ by +" in notes["mixed-runs"]
    # With a column that says it the column is the better explanation.
    marked = plain.assign(Tokenizer=np.where(plain.index < 20, "old", "new"))
    marked = marked.iloc[shuffled(42, 6)]
    notes = {n.code: n.message for n in jl.fit("chinchilla", marked, columns=columns).notes}
    assert "column Tokenizer" in notes["mixed-runs"] and "new differs by +" in notes["mixed-runs"]


def test_losses_that_are_no_nats_a_token_are_the_first_note():
    """Percent, perplexities and sums fitted as well as nats, and nothing said so."""
    runs = fitted(N, D)
    for factor, doubted in ((1.0, False), (2.5, False), (100.0, True)):
        found = messages(dataclasses.replace(runs, target=runs.target + np.log(factor)))
        assert any("percent, perplexities or sums" in text for text in found) == doubted
    table = pd.DataFrame({"N": N, "D": D, "loss": 100 * np.exp(runs.target)})
    fit = jl.fit("chinchilla", table, n_starts=64, n_local=4)
    assert fit.notes[0].code == "doubtful-values" and "do" in fit.headline
    swapped = jl.fit("chinchilla", table, n_starts=64, n_local=4, columns={"N": "D", "D": "N"})
    assert [note.code for note in swapped.notes[:2]] == ["doubtful-values"] * 2
