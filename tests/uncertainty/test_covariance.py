"""What one fit says of its own uncertainty: sandwich, profile, influence, what is left open."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import jaxlaw as jl
from jaxlaw import simulate
from jaxlaw.fitting import fit_many
from jaxlaw.fitting._objective import AGREE, leave_group_out_steps
from jaxlaw.uncertainty._fit_problem import fit_with_data
from jaxlaw.uncertainty._followed import followed
from jaxlaw.uncertainty._profile import profile_interval
from tests.conftest import simulated_fit
from tests.fixtures.studies import profile_of

TABLE = simulate.experiment("chinchilla").table
TRUTH = simulate.TRUTHS["chinchilla"]
POINT = {"N": 1e11, "D": 2e12}
LEAST = {"delta": np.inf, "residuals": "linear"}


@pytest.fixture(scope="module")
def line():
    """A straight line in x, its table, its design (n, 2), and what textbooks say of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jl.laws._base, "_REGISTRY", dict(jl.laws._base._REGISTRY))

        @jl.law(linear=("a", "b"), residuals="linear")
        def straight_line(x, *, a=jl.laws.real(-3, 3), b=jl.laws.real(-3, 3)):
            return a + b * x

        draw = np.random.default_rng(5)
        x = draw.uniform(0, 4, 60)
        table = pd.DataFrame({"x": x, "loss": 4 + 0.5 * x + 0.1 * x * draw.standard_normal(60)})
        fit = jl.fit(straight_line, table, **LEAST)
        design = np.stack([np.ones(60), x], axis=1)
        yield fit, table, design, table["loss"].to_numpy() - fit.predict(x=x)


@pytest.mark.full
def test_least_squares_of_a_line_has_the_textbooks_covariance(line):
    fit, table, design, off = line
    inverse = np.linalg.inv(design.T @ design)
    plain = jl.covariance(fit, table)
    assert list(plain.matrix) == ["a", "b"] and plain.degrees == 58
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
    scores = design * (off / (1 - leverage))[:, None]
    hc3 = 59 / 60 * inverse @ scores.T @ scores @ inverse
    np.testing.assert_allclose(plain.matrix, hc3, rtol=1e-6)
    groups = np.random.default_rng(0).permutation(60) // 4  # no group's rows stand together
    covariance = jl.covariance(fit, table, groups=groups)
    np.testing.assert_allclose(
        covariance.matrix, jackknife(design, table["loss"], groups), rtol=1e-6
    )
    assert covariance.degrees == 14 and "few-groups" in [note.code for note in covariance.notes]


def jackknife(design, target, groups):
    """(G−1)/G times the scatter of the estimates without each group: CR3, by fits of the rest."""
    whole = np.linalg.lstsq(design, target)[0]
    without = [np.linalg.lstsq(design[groups != g], target[groups != g])[0] for g in set(groups)]
    moved, count = np.array(without) - whole, len(without)
    return (count - 1) / count * moved.T @ moved


def test_what_one_group_alone_decides_is_noted(line):
    """Without the second group all rows have one x: the slope is open."""
    fit, table, *_ = line
    groups = np.where(table["x"] == table["x"].max(), 1, np.arange(60) % 7 + 2)
    notes = jl.covariance(fit, table, groups=groups).notes
    assert "decided-by-one" not in [note.code for note in notes]
    flat = table.assign(x=[1.0] * 50 + [3.0] * 10)
    groups = [*(np.arange(50) % 5), *[9] * 10]
    (note,) = (
        note
        for note in jl.covariance(fit.law, flat, groups=groups, **LEAST).notes
        if note.code == "decided-by-one"
    )
    assert "1 of the 6 groups alone" in note.message


@pytest.mark.parametrize(
    "groups", [np.arange(10), np.repeat(np.arange(6), 8)], ids=["rows", "runs"]
)
def test_intervals_of_a_few_rows_or_runs_hold_the_truth_at_their_level(groups):
    """1,000 lines through ten rows, or six runs that share noise; the plain sandwich holds 85 %."""
    draw, count, runs = np.random.default_rng(0), len(groups), groups.max() + 1
    x = np.log(np.geomspace(1, 100, runs))[groups] + 0.01 * np.arange(count)
    terms = [np.ones(count), x, x**2][: 3 if runs == count else 2]
    design = np.stack(terms, axis=1)
    degrees = count - len(terms) if runs == count else runs - 1
    reach = stats.t.ppf(0.975, degrees)
    one, held, plain = np.ones(count), np.zeros(len(terms)), np.zeros(len(terms))
    inverse = np.linalg.inv(design.T @ design)
    for _ in range(1000):
        noise = draw.standard_normal(count) + (runs < count) * draw.standard_normal(runs)[groups]
        wrong = inverse @ design.T @ noise
        off = design @ wrong - noise
        moves, _ = leave_group_out_steps(design, one, off, one, groups)
        error = np.sqrt((runs - 1) / runs * np.sum(moves**2, axis=0))
        held += np.abs(wrong) <= reach * error
        scores = np.stack([np.bincount(groups, each) for each in (design * off[:, None]).T])
        scatter = inverse @ scores @ scores.T @ inverse
        factor = count / degrees if runs == count else runs / degrees
        plain += np.abs(wrong) <= reach * np.sqrt(factor * np.diagonal(scatter))
    assert held.min() > 910 and held.max() < 985
    assert plain.min() < 890


@pytest.mark.full
def test_the_profile_of_least_squares_of_a_line_is_straight(line):
    fit, table, *_ = line
    rows = jl.covariance(fit, table).conf_int().set_index("parameter")
    for name in "ab":
        profile = jl.profile(fit, table, name)
        np.testing.assert_allclose(profile.interval[name], rows.loc[name, ["low", "high"]])
        straight = (profile.table["value"] - fit.params[name]) / rows["std_err"][name]
        np.testing.assert_allclose(profile.table["root"], straight, atol=1e-5)


@pytest.mark.full
def test_leaving_out_a_run_of_a_line_is_what_textbooks_say(line):
    fit, table, design, off = line
    inverse = np.linalg.inv(design.T @ design)
    first_order = -(design @ inverse) * off[:, None]
    np.testing.assert_allclose(jl.influence(fit, table), first_order, rtol=1e-6, atol=1e-12)


def test_the_sandwich_is_as_wide_as_the_bootstrap(chinchilla_fit):
    cov = jl.covariance(chinchilla_fit, TABLE)
    drawn = jl.bootstrap(chinchilla_fit, TABLE, 300, progress=False)
    for name, error in zip(*cov.conf_int()[["parameter", "std_err"]].T.values, strict=True):
        assert 0.75 < error / np.std(drawn.params[name]) < 1.25
    wide, narrow = cov.draws().predict(**POINT), drawn.predict(**POINT)
    assert 0.75 < wide.std() / narrow.std() < 1.25
    ratio = cov.interval(lambda params: params["alpha"] / params["beta"])
    assert ratio.low < 0.34 / 0.28 < ratio.high
    assert ratio.std_err == pytest.approx(
        np.std(drawn.params["alpha"] / drawn.params["beta"]), rel=0.25
    )


@pytest.mark.parametrize("quantity", ["alpha", "A"])
def test_a_profile_is_near_the_sandwich_and_its_minimum_is_the_fit(chinchilla_fit, quantity):
    profile = jl.profile(chinchilla_fit, TABLE, quantity)
    ((low, high),) = profile.interval.values()
    table = profile.table
    assert low < profile.estimate < high
    assert (high - low) / 4 == pytest.approx(profile.std_err, rel=0.2)
    middle = table.iloc[len(table) // 2]
    assert middle["value"] == pytest.approx(profile.estimate, rel=1e-6)
    assert middle["objective"] == pytest.approx(chinchilla_fit.objective, rel=1e-6)
    assert table["objective"].min() >= chinchilla_fit.objective * (1 - AGREE)
    assert (np.diff(table["root"]) > 0).all()
    wider = jl.uncertainty.profile_interval(profile, 0.999)
    assert wider[0] < low and wider[1] > high


@pytest.mark.full
@pytest.mark.parametrize("noise", [1e-5, 4e-3])
def test_nothing_about_a_fit_passes_through_float32(noise):
    """Losses rounded to float32 are wrong by 1e-7 of them, and noise may be as small."""
    fit = simulated_fit("chinchilla", noise)
    table = simulate.experiment("chinchilla", noise).table
    boot, point = jl.bootstrap(fit, table, 4), {"N": 7e9, "D": 1e12}

    def of(params):
        return jnp.log(params["A"]) + params["E"]

    def answers():
        cov = jl.covariance(fit, table)
        return {
            "parameter": jl.profile(fit, table, "alpha").table.to_numpy(),
            "covariance": cov.matrix.to_numpy(),
            "interval": np.stack(cov.interval(of)),
            "bootstrap": np.stack(boot.interval(of)),
            "predicted": boot.predict(**point),
            "influence": jl.influence(fit, table, point).to_numpy(),
            "directions": jl.identifiability(fit, table).select_dtypes("number").to_numpy(),
        }

    assert not jax.config.jax_enable_x64
    result = answers()
    with jax.enable_x64(True):
        exact = answers()
    for name, values in result.items():
        assert values.dtype == np.float64, name
        np.testing.assert_array_equal(values, exact[name], err_msg=name)


def test_an_end_that_the_profile_never_reaches_is_infinite():
    table = pd.DataFrame({"value": [0.0, 1, 2, 3, 4], "root": [-1.5, -1, 0, 2, 4]})
    low, high = profile_interval(profile_of(simulated_fit("chinchilla"), table, 2.0, (0, 4)), 0.95)
    assert low == -np.inf and high == pytest.approx(2.992, abs=1e-3)


@pytest.mark.full
def test_influence_is_what_leaving_out_does(chinchilla_fit):
    first_order = jl.influence(chinchilla_fit, TABLE)
    weights = 1.0 - np.eye(len(TABLE))[::6]
    left_out = fit_many(
        chinchilla_fit.law, jl.read_runs(TABLE).observations(chinchilla_fit.law), weights,
        extra_starts=np.array([[*chinchilla_fit.params.values()]]),
    ).params  # fmt: skip
    assert list(first_order) == list(chinchilla_fit.params)
    for name in first_order:
        few, moved = first_order[name].iloc[::6], left_out[name] - chinchilla_fit.params[name]
        assert np.corrcoef(few, moved)[0, 1] > 0.98
        assert np.polyfit(few, moved, 1)[0] == pytest.approx(1, abs=0.1)


def test_influence_on_a_prediction_and_of_groups(chinchilla_fit):
    by_point = jl.influence(chinchilla_fit, TABLE, POINT)["value"]
    own, step, total = chinchilla_fit.params, 1e-6, 0.0
    for name, column in jl.influence(chinchilla_fit, TABLE).items():
        moved = chinchilla_fit.with_params(own | {name: own[name] * (1 + step)}).at_point(POINT)
        slope = (moved - chinchilla_fit.at_point(POINT)) / (own[name] * step)
        total = total + slope * column.to_numpy()
    np.testing.assert_allclose(total, by_point, rtol=1e-3, atol=1e-9)
    groups = np.arange(len(TABLE)) // 27
    grouped = jl.influence(chinchilla_fit, TABLE, POINT, groups=groups)["value"]
    np.testing.assert_allclose(grouped, by_point.to_numpy().reshape(9, 27).sum(axis=1))
    assert list(grouped.index) == list(range(9)) and grouped.index.name == "group"
    named = TABLE.assign(run=[f"run {k}" for k in groups], kind=groups % 3)
    by_run = jl.influence(chinchilla_fit, named, POINT, groups="run")["value"]
    assert by_run.index.tolist() == [f"run {k}" for k in range(9)]
    both = jl.influence(chinchilla_fit, named, POINT, groups=["run", "kind"])["value"]
    assert both.index.names == ["run", "kind"] and both["run 4", 1] == by_run["run 4"]
    np.testing.assert_allclose(by_run.to_numpy(), grouped.to_numpy())


def test_two_sizes_leave_e_a_and_alpha_open():
    inputs = {"N": np.tile([1e8, 1e9], 122)[:243], "D": np.geomspace(1e9, 1e11, 243)}
    truth = simulate.TRUTHS["chinchilla"]
    two = simulate.simulate_runs("chinchilla", truth, inputs, noise=0.002)
    identifiability = jl.identifiability("chinchilla", two)
    assert identifiability["advice"][0] == (
        "E, A and alpha cannot be distinguished: fix one (best E), or add runs with another N "
        "(it has 2 values)"
    )
    assert np.isinf(identifiability["std_err"][0]) and not identifiability["advice"][1:].any()
    fixed = jl.identifiability("chinchilla", two, fixed={"alpha": 0.34})
    assert not fixed["advice"].any() and np.isfinite(fixed["std_err"]).all()
    with pytest.raises(jl.DataError, match=r"jl\.identifiability says which"):
        jl.covariance("chinchilla", two)


@pytest.mark.full
def test_a_narrow_range_leaves_a_term_loose(chinchilla_fit):
    assert not jl.identifiability(chinchilla_fit, TABLE)["advice"].any()
    truth = simulate.TRUTHS["chinchilla"]
    inputs = {"N": np.geomspace(1e8, 1e10, 243), "D": np.tile([1e11, 1.4e11, 2e11], 81)}
    narrow = simulate.simulate_runs("chinchilla", truth, inputs, noise=0.002)
    fit = jl.fit("chinchilla", narrow)
    identifiability = jl.identifiability(fit, narrow)
    worst = identifiability["advice"][0]
    assert "B" in worst and "beta" in worst and "determined only in combination" in worst
    assert worst.endswith("add runs (jl.design.next_runs chooses them)")
    assert identifiability["std_err"][0] > 1
    notes = jl.bootstrap(fit, narrow, 300, progress=False).notes
    assert worst in [note.message for note in notes if note.code == "loose"]


def test_directions_know_noise_that_differs_from_row_to_row(line):
    """The line's noise grows with x: HC3 of (log a, log b), not the textbook's."""
    fit, table, design, off = line
    inverse = np.linalg.inv(design.T @ design)
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
    scores = design * (off / (1 - leverage))[:, None]
    values = np.array([*fit.params.values()])
    white, plain = (
        np.linalg.eigh(inverse @ middle @ inverse / np.outer(values, values))
        for middle in (59 / 60 * scores.T @ scores, off @ off / 58 * design.T @ design)
    )
    identifiability = jl.identifiability(fit, table)
    np.testing.assert_allclose(identifiability["std_err"] ** 2, white[0][::-1], rtol=1e-6)
    way = identifiability[["a", "b"]].to_numpy()[0] / identifiability["std_err"][0]
    np.testing.assert_allclose(np.abs(way), np.abs(white[1][:, -1]), rtol=1e-5)
    assert np.abs(white[0] / plain[0] - 1).max() > 0.1


def test_draws_have_the_covariance_and_plans_take_it(chinchilla_fit):
    table = simulate.experiment("chinchilla", noise=0.004).table
    covariance = jl.covariance(chinchilla_fit, table)
    draws, known = covariance.draws(20_000, seed=1), covariance.conf_int().set_index("parameter")
    for name, values in draws.params.items():
        spread = np.log(values).std() * chinchilla_fit.params[name]
        assert spread == pytest.approx(known["std_err"][name], rel=0.02), name
    drawn = np.corrcoef([np.log(values) for values in draws.params.values()])
    matrix = covariance.matrix.to_numpy()
    sizes = np.sqrt(np.diag(matrix))
    np.testing.assert_allclose(drawn, matrix / np.outer(sizes, sizes), atol=0.02)
    at = {"N": 7e10, "D": 1e13}
    first_order = covariance.interval(lambda params: chinchilla_fit.law(params, **at)).std_err
    assert draws.predict(**at).std() == pytest.approx(float(first_order), rel=0.15)
    plan = jl.planning.allocation(covariance, 1e22)
    low, high = plan.interval["N"]
    assert low < jl.planning.allocation(chinchilla_fit, 1e22).N < high


def test_draws_hold_what_was_held_and_know_few_rows():
    table = simulate.experiment("chinchilla", noise=0.004).table.sample(12, random_state=0)
    fit = jl.fit("chinchilla", table, fixed={"alpha": 0.34}, n_starts=64)
    draws = jl.covariance(fit, table).draws(50)
    assert set(draws.params["alpha"]) == {0.34} and draws.degrees == 8
    assert (np.array(list(draws.params.values())) > 0).all()


def ten_rows(noise=0.004, seed=0):
    """Five sizes at two lengths each: E, A and alpha are hardly known apart."""
    size = np.repeat(np.geomspace(5e7, 5e9, 5), 2)
    inputs = {"N": size, "D": size * np.tile([6.0, 20, 60, 10, 40], 2)}
    return simulate.simulate_runs("chinchilla", TRUTH, inputs, noise=noise, seed=seed)


def from_file(covariance):
    """The same as its file has it: without the runs."""
    return dataclasses.replace(covariance, problem=None)


def test_draws_of_few_runs_follow_the_law_and_normal_ones_bend_it():
    """Normal draws bend the law, so that what they predict is taken from its tangent."""
    table = ten_rows()
    covariance = jl.covariance("chinchilla", table)
    at = {"N": 1e9, "D": 2e10}
    within = float(covariance.fit.predict(**at))

    def upper(draws):
        return np.quantile(draws.predict(**at), [0.005, 0.5, 0.995]) / within

    low, middle, high = upper(covariance.draws())
    assert 0.95 < low < 0.995 and abs(middle - 1) < 0.002 and 1.005 < high < 1.05
    normal = from_file(covariance).draws()
    low, middle, high = upper(normal)
    assert 0.95 < low < 0.995 and abs(middle - 1) < 0.002 and 1.005 < high < 1.05
    bent = jl.laws.get("chinchilla").evaluate(normal.params, **at)
    assert np.quantile(bent, 0.995) > 1.15 * within
    plan = jl.planning.allocation(covariance, 1e23)
    assert plan.interval["loss"][1] < 1.1 * plan.loss
    assert "draws-disagree" not in [note.code for note in plan.notes]
    by_file = jl.planning.allocation(from_file(covariance), 1e23)
    assert by_file.loss == plan.loss
    (table,) = jl.planning.frontier(from_file(covariance), [1e21, 1e23]).tables.values()
    for low, best, high in (
        (by_file.interval["loss"][0], by_file.loss, by_file.interval["loss"][1]),
        *table[["loss_low", "loss", "loss_high"]].to_numpy(),
    ):
        assert 0.8 * best < low < best < high < 1.2 * best
    # The compute that a loss takes is that of the normal draws, and says so.
    least = jl.planning.min_compute(from_file(covariance), within)
    said = [note.message for note in least.notes if note.code == "draws-disagree"]
    assert any("a higher compute than the fit" in message for message in said)


def test_a_draw_is_the_same_alone_and_among_others_and_again(chinchilla_fit):
    covariance = jl.covariance("chinchilla", ten_rows())
    problem, scale = covariance.problem, np.sqrt(np.diagonal(covariance.coordinates))
    moves = scale * np.random.default_rng(0).standard_normal((300, len(scale)))
    together = followed(problem, moves, {})
    alone = np.concatenate([followed(problem, move[None], {}) for move in moves[:20]])
    np.testing.assert_allclose(together[:20], alone, rtol=1e-9)
    draws, again = covariance.draws(50), jl.covariance(covariance.fit, ten_rows()).draws(50)
    for name, values in draws.params.items():
        np.testing.assert_array_equal(values, again.params[name])
        assert not np.array_equal(values, covariance.draws(50, seed=1).params[name])
    # They keep within the ranges of the parameters, which normal ones do not know.
    built = problem.fit_problem
    assert (together >= np.asarray(built.data.low) - 1e-12).all()
    assert (together <= np.asarray(built.data.high) + 1e-12).all()


def test_rows_of_many_runs_are_enough_to_follow_a_draw():
    """2,000 rows, of which five alone tell E from A: those are kept."""
    N = np.append(np.full(1995, 1e8), np.geomspace(2e8, 1e10, 5))
    D = np.append(np.geomspace(1e9, 1e11, 1995), np.full(5, 2e10))
    table = simulate.simulate_runs("chinchilla", TRUTH, {"N": N, "D": D}, noise=0.0005)
    problem = fit_with_data("chinchilla", table)
    moves = 1e-5 * np.random.default_rng(0).standard_normal((8, 5))
    moved = followed(problem, moves, {}) - problem.coordinates
    np.testing.assert_allclose(moved, moves, rtol=0.02, atol=2e-7)
