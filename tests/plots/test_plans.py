"""Pictures of plans show what the plans say."""

import numpy as np
import pytest
from matplotlib.path import Path as MplPath

import jaxlaw as jl
from jaxlaw import papers, planning
from tests.conftest import named, texts
from tests.fixtures.drawn_laws import CONTINUAL, DOMAIN, GENERAL, SCRATCH, drawn, scattered

pictures = pytest.importorskip("jaxlaw.plots")

pytestmark = pytest.mark.usefixtures("closed")

AT = {"N": 1.8e9, "D": 1e10}


@pytest.fixture(scope="module")
def mixture():
    return planning.optimal_mixture(drawn(GENERAL), drawn(DOMAIN), start=2.8602, at=AT)


def test_the_trade_off(mixture, ax):
    assert pictures.trade_off(mixture, ax) is ax
    line = next(one for one in ax.lines if len(one.get_xdata()) == len(mixture.curve))
    np.testing.assert_array_equal(line.get_xdata(), mixture.curve["general_loss"])
    low, high = mixture.interval["share"]
    assert f"r_d = {mixture.share:.3f} ({low:.3f} to {high:.3f})" in " ".join(texts(ax))
    at = np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])
    assert (mixture.general_loss, mixture.domain_loss) in [tuple(row) for row in at]


def test_a_trade_off_without_an_answer_is_still_a_curve(ax):
    plan = planning.optimal_mixture(GENERAL, DOMAIN, start=2.0, at={"N": 1.8, "D": 10.0})
    assert "r_d =" not in " ".join(texts(pictures.trade_off(plan, ax)))


def exponential_mixing(c, k, b, tried):
    """A fit of c + k·e^(−b·r) to shares in a range."""

    @jl.law(name="exponential-mixing")
    def law(
        r,
        *,
        c=jl.laws.positive(0.5, 5),
        k=jl.laws.positive(1e-4, 5),
        b=jl.laws.exponent(0.1, 5, high=50),
    ):
        """c + k·e^(−b·r)"""
        from jax.numpy import exp

        return c + k * exp(-b * r)

    return jl.FittedLaw(law, {"c": c, "k": k, "b": b}, ranges={"r": tried}, source="runs.csv")


def test_shares_that_were_never_run_are_dashed_and_cut_off(ax, own_laws):
    """The curves of 5 runs at shares of 50 to 87.5 % (continual_70m.csv, jaxlaw's own fits)."""
    pile = exponential_mixing(2.8172, 0.184, 4.2114, (0.125, 0.5))
    python = exponential_mixing(1.1408, 0.4029, 0.6564, (0.5, 0.875))
    plan = planning.optimal_mixture(pile, python, start=2.8734, threshold=0.0)
    assert plan.tried == (0.5, 0.875)
    pictures.trade_off(plan, ax, observed={"general_loss": [2.838], "domain_loss": [1.43]})
    assert "dashed: shares never run" in ax.get_title()
    dashed, solid = ax.lines[:2]
    assert (dashed.get_linestyle(), solid.get_linestyle()) == ("--", "-")
    drawn = plan.curve["domain_loss"].isin(solid.get_ydata())
    assert plan.curve["share"][drawn].agg(["min", "max"]).tolist() == [0.5, 0.87]
    drawn = plan.curve["domain_loss"].isin(dashed.get_ydata())
    assert plan.curve["share"][drawn].agg(["min", "max"]).tolist() == pytest.approx([0.45, 0.93])
    assert np.ptp(ax.get_ylim()) < 0.2  # of the whole curve 0.4 nats
    with pytest.raises(jl.UsageError, match="no column domain_loss"):
        pictures.trade_off(plan, ax, observed={"general_loss": [2.838]})
    ax.clear()
    pictures.critical_share(pile, 2.8734, ax)
    spans = sorted((p.get_x(), p.get_x() + p.get_width()) for p in ax.patches)
    assert spans == [(0.01, 0.125), (0.5, 1.0)] and "beyond the runs" in texts(ax)


@pytest.mark.parametrize("unknown", [(np.nan, np.nan), None])
def test_shares_of_unknown_runs_are_all_drawn(ax, own_laws, unknown):
    pile = exponential_mixing(2.8172, 0.184, 4.2114, (0.125, 0.5))
    both = pile, exponential_mixing(1.1408, 0.4029, 0.6564, unknown or (0.0, 0.2))
    plan = planning.optimal_mixture(*both, start=2.8734, threshold=0.0)
    assert np.isnan(plan.tried).all()  # unknown, or none that both fits saw
    pictures.trade_off(plan, ax)
    assert "dashed" not in ax.get_title() and len(ax.lines[0].get_xdata()) == len(plan.curve)


def test_little_domain_data(ax):
    boot = drawn(DOMAIN)
    assert pictures.limited_domain(boot, [5e7, 1e9], ax, at={"N": 1.8e9}) is ax
    first = planning.optimal_mixture_data_limited(boot, 5e7, at={"N": 1.8e9})
    assert f"r_d = {first.share:.3f}" in texts(ax) and "r_d = 1.000" in texts(ax)
    curve = ax.lines[0].get_ydata()
    assert curve.min() == pytest.approx(first.loss, abs=1e-5)
    assert named(ax) == ["50 M tokens", "1 B tokens"]


def test_shares_of_domains(ax):
    plan = planning.optimal_domain_weights(
        {"code": DOMAIN, "law": DOMAIN}, at={"N": 1.8, "D": 10.0}
    )
    assert pictures.domain_shares(plan, ax) is ax
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([0.5, 0.5, 0], abs=1e-6)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["code", "law", "general"]


def test_weights_of_a_mixture_with_natural_shares_and_caps(ax):
    shares = ["web", "code", "math"]
    law = jl.laws.mixing(shares)
    truth = {"c": 1.2, "t[web]": 0.9, "t[code]": -1.0, "t[math]": 0.3}
    plan = planning.optimal_weights(
        {"loss": (law, truth)}, caps={"code": 0.4}, natural={"web": 8, "code": 1, "math": 1}
    )
    assert pictures.mixture_weights(plan, ax) is ax
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == pytest.approx([*plan.table["weight"], 0.8, 0.1, 0.1])
    assert [t.get_text() for t in ax.get_yticklabels()] == shares and "40.0%" in texts(ax)
    (cap,) = ax.collections[0].get_segments()
    assert cap[:, 0] == pytest.approx([0.4, 0.4]) and cap[:, 1].mean() == pytest.approx(1)


@pytest.mark.full
def test_contours_runs_and_the_best_size_count_a_cost_of_the_user(ax):
    law, truth = "chinchilla", jl.simulate.TRUTHS["chinchilla"]
    runs = {"N": [1e9], "D": [2e10], "loss": [float(jl.laws.get(law)(truth, N=1e9, D=2e10))]}
    cost = lambda N, D: 12 * N * D  # noqa: E731
    pictures.isoloss((law, truth), (1e19, 1e23), ax, cost=cost, runs=runs, levels=runs["loss"])
    (contour,) = [path.vertices for path in ax.collections[0].get_paths()]
    (run,) = np.asarray(ax.collections[-1].get_offsets())
    assert "striped" not in ax.get_title()  # nobody knows the runs of bare parameters
    assert run.tolist() == pytest.approx([12 * 1e9 * 2e10, 1e9])
    # The contour of its loss goes through the run, and its least compute is that of the plan.
    assert np.abs(np.log(contour / run)).sum(axis=1).min() < 0.1
    best = jl.planning.min_compute((law, truth), runs["loss"][0], cost=cost)
    assert contour[:, 0].min() == pytest.approx(best.compute, rel=0.05)


def test_a_multiplier_is_drawn_over_the_compute_of_the_reference(ax):
    law = jl.laws.grouped("chinchilla", ["c4", "pile"], own=["B"])
    params = jl.simulate.TRUTHS["chinchilla"] | {"B[c4]": 410.7, "B[pile]": 300.0}
    plan = jl.planning.compute_multiplier(
        (law, {name: params[name] for name in law.parameter_names}), [1e20, 1e21, 1e22],
        reference={"group": "c4"}, at={"group": "pile"},
    )  # fmt: skip
    assert pictures.compute_multiplier(plan, ax) is ax
    drawn, even = ax.lines
    assert drawn.get_ydata() == pytest.approx(plan.table["multiplier"])
    assert list(even.get_ydata()) == [1, 1]


@pytest.mark.full
def test_contours_end_where_the_plan_allows_no_more_epochs(ax):
    law = jl.published()["muennighoff-2023"]
    pictures.isoloss(law, (1e20, 1e23), ax, at={"U": 1e10}, max_epochs=20, served_tokens=1e10)
    C, N = np.concatenate([path.vertices for path in ax.collections[0].get_paths()]).T
    assert ((C / (6 * N) - 1e10 / 3) / 1e10).max() == pytest.approx(20, rel=0.1)
    assert "20 epochs" in texts(ax)
    best, limit = ax.lines[0].get_xydata(), ax.lines[-1].get_xydata()
    held_back = best[:, 0] > 1e22
    assert best[held_back, 1] == pytest.approx(limit[held_back, 1], rel=1e-6)
    ax.clear()
    pictures.isoloss(law, (1e20, 1e23), ax, at={"U": 1e12}, limits={"N": (1e9, 4e9)})
    N = np.concatenate([path.vertices for path in ax.collections[0].get_paths()])[:, 1]
    assert 1e9 <= N.min() < 1.1e9 and 3.6e9 < N.max() <= 4e9


def test_contours_with_the_best_size(ax):
    boot = scattered()
    assert pictures.isoloss(boot, (1e19, 1e23), ax, label="scratch") is ax
    line = ax.lines[0]
    k = 60
    budget, N = line.get_xdata()[k], line.get_ydata()[k]
    assert planning.allocation(boot, budget).N == pytest.approx(N, rel=1e-9)
    pictures.isoloss(CONTINUAL, (1e19, 1e23), ax, color="#c05621", label="continual")
    assert sorted(named(ax)) == ["continual", "scratch"]


def test_an_answer_among_the_contours(ax):
    found = planning.allocation(scattered(), 1e21)
    pictures.isoloss(scattered(), (1e19, 1e20), ax, mark=found)
    low, high = found.interval["loss"]
    (words,) = (text for text in texts(ax) if "tokens" in text)
    assert words.splitlines()[2] == f"loss {found.loss:.4g} ({low:.4g} to {high:.4g})"
    assert words.splitlines()[0] == f"{found.N / 1e9:.3g} B parameters,"
    assert ax.get_xlim()[1] >= found.compute and "band: 95% of draws" in ax.get_title()
    bars = [one.get_segments() for one in ax.collections if hasattr(one, "get_segments")]
    (bar,) = (each[0] for each in bars if len(each) == 1 and each[0].shape == (2, 2))
    assert bar[:, 1] == pytest.approx(found.interval["N"])
    at = np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])
    assert (found.compute, found.N) in [tuple(row) for row in at]


@pytest.mark.full
def test_contours_where_the_share_is_searched_and_its_corpus_is_limited(ax):
    # As `jaxlaw plan allocation … --at r=best --corpus-tokens 1e8 --out x.png` draws it.
    asked = {"at": {"r": "best"}, "corpus_tokens": 1e8}
    found = planning.allocation(drawn(DOMAIN), 5e19, **asked)
    pictures.isoloss(drawn(DOMAIN), (5e16, 5e20), ax, mark=found, **asked)
    assert f"loss {found.loss:.4g}" in " ".join(texts(ax)) and "best share" in ax.get_title()
    C, N = ax.lines[0].get_data()
    contours = next(one for one in ax.collections if hasattr(one, "levels"))
    turns = 0
    for path in contours.get_paths():  # the least compute to a loss is at the best size
        left = path.vertices[np.argmin(path.vertices[:, 0])]
        if len(path.vertices) and left[0] > 1.05 * C[0]:
            assert left[1] == pytest.approx(np.interp(left[0], C, N), rel=0.15)
            turns += left[0] > 5e18
    assert turns >= 2  # there the corpus is the limit


def test_loss_over_compute(ax):
    found = planning.frontier(scattered(), np.geomspace(1e19, 1e22, 7))
    observed = {"C": np.array([1e20]), "loss": np.array([2.7])}
    assert pictures.loss_frontier(found, ax, observed=observed) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), found.table["loss"])


def test_the_frontier_shows_where_the_fitted_range_ends(ax):
    found = planning.frontier(scattered(), np.geomspace(1e19, 1e25, 25))
    pictures.loss_frontier(found, ax, fit=scattered())
    low, high = scattered().fit.ranges["N"]
    inside = found.table["N"].between(low, high)
    low, high = scattered().fit.ranges["D"]
    inside &= found.table["D"].between(low, high)
    assert 0 < inside.sum() < 25
    grey = [patch for patch in ax.patches if patch.get_hatch()]
    shaded = np.zeros(25, bool)
    for patch in grey:
        x = patch.get_x(), patch.get_x() + patch.get_width()
        shaded |= found.table["compute"].between(*x, inclusive="neither").to_numpy()
    assert not (shaded & inside).any()
    assert (shaded | inside | (found.table["compute"] >= ax.get_xlim()[1])).sum() >= 24
    assert "beyond the runs" in texts(ax)


def test_contours_show_the_runs_and_the_fitted_range(ax):
    N, D = (np.array(scattered().fit.ranges[name]) for name in ("N", "D"))
    sizes = np.geomspace(*N, 3)
    table = {"N": np.repeat(sizes, 2), "D": np.tile(D, 3), "loss": np.linspace(3, 2, 6)}
    pictures.isoloss(scattered(), (1e19, 1e23), ax, runs=jl.read_runs(table))
    at = np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])
    for spent, size in [(6 * n * d, n) for n in sizes for d in D]:
        assert np.isclose(at, (spent, size), rtol=1e-12).all(axis=1).any()
    # Striped is what is_extrapolation says, and the runs are inside the frame, off its edges.
    assert "striped: beyond the runs" in ax.get_title()
    (stripes,) = (one for one in ax.collections if "////" in getattr(one, "hatches", ()))
    parts = [MplPath(each) for path in stripes.get_paths() for each in path.to_polygons()]
    draw = np.random.default_rng(0)
    C, sizes = (np.exp(draw.uniform(*np.log(lim), 300)) for lim in (ax.get_xlim(), ax.get_ylim()))
    fit = scattered().fit
    far = np.asarray(fit.is_extrapolation(N=sizes, D=C / (6 * sizes)))
    # A hole is a polygon inside another one.
    inside = sum(part.contains_points(np.stack([C, sizes], axis=1)) for part in parts)
    there = inside % 2 == 1
    assert 0.05 < far.mean() < 0.95 and (far == there).mean() > 0.95


def test_the_frame_of_contours_holds_runs_and_target(ax):
    """Contours around a budget a thousand times the largest run once began beyond all runs."""
    found = planning.allocation(scattered(), 1e25)
    pictures.isoloss(scattered(), (found.compute / 1e3, found.compute * 10), ax, mark=found)
    N, D = (np.array(scattered().fit.ranges[name]) for name in ("N", "D"))
    assert ax.get_xlim()[0] < 6 * N[0] * D[0] * 1.01 and ax.get_xlim()[1] > found.compute
    assert ax.get_ylim()[0] <= N[0] * 1.001 and ax.get_ylim()[1] >= max(found.N, N[1])


def test_saved_compute(ax):
    table = planning.transfer_table(SCRATCH, CONTINUAL, [1e9, 4e9], [1e9, 3e9, 1e10])
    assert pictures.compute_saved(table, ax) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), table["saved"][:3])
    assert texts(ax) == ["N = 1 B", "N = 4 B"]


def test_the_share_that_brings_the_loss_back(ax):
    boot = drawn(GENERAL)
    assert pictures.critical_share(boot, 2.8602, ax, at=AT) is ax
    plan = planning.critical_ratio(boot, start=2.8602, at=AT)
    low, high = plan.interval["share"]
    assert f"r_g = {plan.share:.3f} ({low:.3f} to {high:.3f})" in texts(ax)
    r, loss = ax.lines[0].get_data()
    np.testing.assert_allclose(np.interp(plan.share, r, loss), plan.loss, atol=1e-3)
    assert named(ax) == ["start"]


@pytest.mark.full
def test_both_ways_cross_where_the_base_stops_paying(ax):
    at_size = {"N": 1e9}
    for given in (at_size, {"compute": 1e19}, {}):
        found = planning.break_even(SCRATCH, CONTINUAL, **given)
        ax = pictures.crossover(SCRATCH, CONTINUAL, plan=found, **given)
        x, scratch = ax.lines[0].get_data()
        gap = scratch - ax.lines[1].get_ydata()  # above 0: the base is ahead
        crossed = x[np.argmax(np.sign(gap) != np.sign(gap[0]))]
        at = found.D if given is at_size else found.N if given else found.compute
        assert abs(np.log(crossed / at)) < 1.01 * np.log(x[1] / x[0])
        assert f"the base pays {found.pays}" in texts(ax)
        assert sorted(named(ax)) == ["from scratch", "from the base"]


def test_compute_saved_at_one_loss(ax):
    found = planning.compute_savings(SCRATCH, CONTINUAL, 2.8)
    pictures.crossover(SCRATCH, CONTINUAL, ax, plan=found)
    both = [found.scratch_compute, found.continual_compute]
    np.testing.assert_array_equal(ax.lines[-1].get_xdata(), both)
    for line, compute in zip(ax.lines[:2], both, strict=True):
        along = np.interp(np.log(compute), np.log(line.get_xdata()), line.get_ydata())
        assert along == pytest.approx(2.8, abs=2e-3)


def test_the_lowest_of_the_runs(ax):
    points = {"N": [1e8] * 3 + [1e9] * 3, "D": [1e9, 2e9, 4e9] * 2}
    points["loss"] = [3.0, 2.8, 2.7, 2.9, 2.6, 2.4]
    lowest = papers.loss_envelope(points, 5)
    assert pictures.lowest_of_runs(lowest, {k: np.array(v) for k, v in points.items()}, ax) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), lowest["loss"])
    seen = np.asarray(ax.collections[0].get_offsets())
    assert (seen[:, 1].max(), seen[0, 0]) == (3.0, 6e17)


def test_replay(ax):
    plan = planning.compare_replay(DOMAIN, [0.2, 0.9], corpus_tokens=(0.1, 10), at={"N": 1.8})
    assert pictures.replay_losses(plan, ax) is ax and len(ax.lines) == 2
    assert "compute" in ax.get_xlabel()
    met = planning.compare_replay(
        DOMAIN, [0.8, 0.9], corpus_tokens=(0.1, 10), tolerance=plan.spread_last / 8, at={"N": 1.8}
    )
    lines = len(pictures.replay_losses(met).lines)
    assert lines == 2 + (0 < met.meet < np.inf)


def test_each_makes_its_own_axes(mixture):
    assert pictures.trade_off(mixture) is not pictures.trade_off(mixture)
