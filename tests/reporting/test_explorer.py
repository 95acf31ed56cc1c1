"""The explorer of a page, in a real browser: its numbers are those of Python."""

import dataclasses
import html
import itertools
import json
import re

import numpy as np
import pytest

import jaxlaw as jl
from jaxlaw import planning, schedules, simulate
from jaxlaw.reporting._explorer import explorer
from jaxlaw.reporting._javascript import javascript_of
from jaxlaw.uncertainty import as_draws, percentile_interval
from tests.reporting.test_report_in_chromium import CHROMIUM, chromium

in_browser = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.full,
]
# Puts values into the fields of page.html, one set after another, and writes down what it says.
DRIVER = """<!DOCTYPE html><title>driver</title><body><iframe src="page.html"></iframe><script>
const sets = SETS;
document.querySelector("iframe").onload = (event) => {
  const page = event.target.contentDocument, said = [];
  for (const set of sets) {
    for (const [id, value] of Object.entries(set)) {
      const field = page.getElementById("n-" + id);
      field.value = value;
      for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind));
    }
    const answer = page.getElementById("explorer-answer");
    const best = page.getElementById("explorer-optimum");
    said.push({ ...answer.dataset, text: answer.textContent,
      outside: page.getElementById("explorer-outside").textContent,
      shaded: page.querySelectorAll("#explorer-picture rect").length,
      best: best && best.textContent && { ...best.dataset, text: best.textContent } });
  }
  const out = document.createElement("pre");
  out.textContent = JSON.stringify(said);
  document.body.append(out);
};
</script></body>"""


def test_of_a_learning_rate_there_is_no_best_size():
    markup = {name: "".join(map(str, explorer(fit))) for name, fit in jl.published().items()
              if name in ("li-2025-lr", "besiroglu-2024")}  # fmt: skip
    assert "for the best N and D" in markup["besiroglu-2024"]
    assert "for the best N and D" not in markup["li-2025-lr"]


def read(dom):
    return json.loads(html.unescape(re.search(r"<pre>(.*?)</pre>", dom, re.DOTALL)[1]))


def said(folder, sets):
    """What the page says after each set of values; the driver stands beside it."""
    (folder / "driver.html").write_text(DRIVER.replace("SETS", json.dumps(sets)))
    done = chromium(folder, "driver.html", "--dump-dom")
    assert "CONSOLE" not in done.stderr
    return read(done.stdout)


def test_one_operation_is_one_line():
    lines = javascript_of(jl.laws.get("loss-compute")).splitlines()
    assert lines[0] == "(p, x) => {" and lines[-1] == "}"
    assert len(lines) == len(set(lines))


def test_areas_that_nobody_counted_are_not_summed():
    fit = jl.FittedLaw("multi-power", simulate.TRUTHS["multi-power"])
    (text,) = explorer(fit)
    assert "does not know how its areas are counted" in text


@pytest.mark.parametrize("name", ["cumsum", "rev", "iota"])
def test_drops_are_not_moved(own_laws, name):
    """The page alone knows how many drops there are: what depends on that has no JavaScript."""
    import jax.numpy as jnp

    moves = {
        "cumsum": jnp.cumsum,
        "rev": lambda drop: drop[::-1],
        "iota": lambda drop: drop * jnp.arange(drop.shape[-1]),
    }

    @jl.law(formula="L0 − Σ_k …·S1")
    def moved(S1, drop, *, L0=jl.laws.positive(1.0, 3.0)):
        return L0 - jnp.sum(moves[name](drop), axis=-1) * S1

    with pytest.raises(jl.UsageError, match="law moved uses (cumsum|rev|iota)|numbers the drops"):
        javascript_of(jl.laws.get("moved"))


def test_operations_without_javascript_are_named(own_laws):
    import jax

    @jl.law(formula="a·Γ(N)")
    def gamma_like(N, *, a=jl.laws.positive(0.1, 10.0)):
        return a * jax.scipy.special.gammaln(N)

    with pytest.raises(jl.UsageError, match="lgamma, which has no JavaScript"):
        javascript_of(jl.laws.get("gamma-like"))


def test_a_page_cannot_be_ended_by_a_name():
    """A label that ends a script in HTML does not end this one."""
    law = jl.laws.grouped("chinchilla", ["</script>", "b"], ["E"])
    params = {name: 0.5 for name in law.parameter_names}
    markup = "".join(map(str, explorer(jl.FittedLaw(law, params))))
    assert markup.count("</script>") == 1


class TestInABrowser:
    pytestmark = in_browser

    def test_every_law_gives_what_python_gives(self, tmp_path, own_laws):
        """At its fit and at draws of it; a law of one's own, which does more to drops, too."""
        jl.law(formula="…", name="own-drops")(own_drops)
        cases, expected = [], []
        for label in jl.laws.names():
            law = jl.laws.get(label)
            made = simulate.experiment("multi-power" if label == "own-drops" else label)
            rows = made.table.sample(min(len(made.table), 40), random_state=0)
            inputs = {name: rows[name].to_numpy(float) for name in law.input_names}
            if law.inputs_per_drop:  # three drops of each run, each after the other
                factors = {"drop": (1, 0.5, -0.2), "eta_k": (1, 1.2, 0.8), "S_k": (1, 1.7, 2.5)}
                inputs |= {
                    name: inputs[name][:, None] * factors[name] for name in law.inputs_per_drop
                }
            points = [
                [value.tolist() for value in point] for point in zip(*inputs.values(), strict=True)
            ]
            truth = made.truth if label != "own-drops" else {"L0": 2.0, "B": 300.0}
            for factor in (1.0, 0.97, 1.02):
                params = {name: factor * value for name, value in truth.items()}
                expected.append(jl.FittedLaw(law, params).predict(inputs))
                numbers = json.dumps([params[one] for one in law.parameter_names])
                call = f"{json.dumps(points)}.map((x) => law({numbers}, x))"
                cases.append(f"(() => {{ const law = {javascript_of(law)}; return {call}; }})()")
        script = "document.body.append(Object.assign(document.createElement('pre'), {textContent: "
        script += f"JSON.stringify([{', '.join(cases)}])}}))"
        (tmp_path / "laws.html").write_text(f"<!DOCTYPE html><body><script>{script}</script>")
        found = read(chromium(tmp_path, "laws.html", "--dump-dom").stdout)
        labels = np.repeat(jl.laws.names(), 3)
        assert len(labels) == len(expected) and "multi-power" in labels
        for label, there, here in zip(labels, found, expected, strict=True):
            assert np.isfinite(here).all(), label
            np.testing.assert_allclose(there, here, rtol=1e-12, err_msg=label)

    def test_points_have_the_numbers_of_python(self, tmp_path, chinchilla_fit):
        runs, fit = simulate.experiment("chinchilla", noise=0.004).table, chinchilla_fit
        jl.report(fit, tmp_path / "page.html", runs=runs)
        assert (tmp_path / "page.html").stat().st_size < 1e6
        grid = list(itertools.product((1e7, 1e9, 2.5e10, 7e11), (1e9, 2e11, 1.5e13), (1e20, 1e25)))
        sets = [{"N": f"{N:.17g}", "D": f"{D:.17g}", "compute": f"{C:g}"} for N, D, C in grid]
        found = said(tmp_path, [*sets, {"N": "70B", "D": "1.4 T"}, {"N": "seventy"}])
        draws = as_draws(jl.covariance(fit, runs))[0].values
        kept = np.unique(np.linspace(0, 999, 200).astype(int)) + 1
        for (N, D, C), there in zip(grid, found, strict=False):
            assert float(there["value"]) == pytest.approx(fit.predict(N=N, D=D), rel=1e-9)
            each = draws["E"] + draws["A"] / N ** draws["alpha"] + draws["B"] / D ** draws["beta"]
            low, high = percentile_interval(each[kept])
            assert (float(there["low"]), float(there["high"])) == pytest.approx(
                (low, high), rel=1e-9
            )
            inside = not fit.is_extrapolation(N=N, D=D)
            assert there["outside"].startswith("Inside") is bool(inside), (N, D)
            best = planning.allocation(fit, C)
            assert json.loads(there["best"]["point"]) == pytest.approx([best.N, best.D], rel=1e-6)
            assert float(there["best"]["value"]) == pytest.approx(best.loss, rel=1e-9)
        assert "N 70 B parameters, D 1.4 T tokens" in found[-2]["text"]
        assert found[-1]["text"] == found[-2]["text"]  # what is no number moves nothing

    def test_forecasts_have_their_own_intervals(self, tmp_path):
        """At its points a forecast's numbers to 1e-9, elsewhere those of its weighted laws."""
        runs = simulate.experiment("chinchilla", noise=0.005).table
        at = {"N": [1e10, 7e10], "D": [4e11, 1e12]}
        found = jl.forecast(["chinchilla", "kaplan"], runs, at=at, n_starts=64)
        jl.report(found, tmp_path / "page.html")
        assert (tmp_path / "page.html").stat().st_size < 1e6
        points = [*zip(at["N"], at["D"], strict=True), (3e9, 6e10), (1e12, 2e13)]
        sets = [{"N": f"{N:.17g}", "D": f"{D:.17g}", "compute": "1e24"} for N, D in points]
        shown = said(tmp_path, sets)
        law = found.draws().fit
        for (N, D), there in zip(points, shown, strict=True):
            assert float(there["value"]) == pytest.approx(law.predict(N=N, D=D), rel=1e-9)
        for row, there in zip(found.table.itertuples(), shown, strict=False):
            limits = float(there["low"]), float(there["high"])
            assert limits == pytest.approx((row.low, row.high), rel=1e-9)
        widths = [float(there["high"]) / float(there["low"]) for there in shown]
        assert widths[2] < widths[0] < widths[3]  # nearer the runs, at a point, far from all
        assert "90 %" in shown[0]["text"]

    @pytest.mark.parametrize(
        "law", ["wang-2025-pt", "annealing", "cpt-curve-unknown-base", "multi-power"]
    )
    @pytest.mark.parametrize("more", [{}, {"count_warmup": True, "carry_momentum": True,
                                           "epsilon": 0.3}])  # fmt: skip
    def test_curves_have_the_numbers_of_python(self, tmp_path, law, more):
        if law.startswith("wang"):
            fit = jl.published()[law]
        else:
            fit = jl.FittedLaw(law, simulate.TRUTHS[law])
        options = {"decay": 0.99, "count_warmup": False, "carry_momentum": False, "epsilon": None}
        # Some of the schedules leave the range of S1.
        ranges = {name: (0.0, 0.2) if "S1" in name else (-9.0, 9.0) for name in fit.ranges}
        fit = dataclasses.replace(fit, area_options=options | more, ranges=ranges)
        rng = np.random.default_rng(0)
        draws = {name: v * rng.normal(1, 0.01, 10) for name, v in fit.numbers().items()}
        jl.report(fit, tmp_path / "page.html", intervals=jl.uncertainty.Draws(fit, draws))
        phases = {"wang-2025-pt": ["pt", "cpt"], "cpt-curve-unknown-base": ["cpt"]}.get(law, ["pt"])
        settings = [
            {"shape": shape, "peak": 2e-4, "steps": 1500, "warmup": warmup, "final": 0.1,
             "decay": 0.3}
            for shape, warmup in itertools.product(("cosine", "wsd", "linear", "constant"), (0, 70))
        ]  # fmt: skip
        sets, expected, outside = [], [], []
        for first, second in zip(settings, settings[3:] + settings[:3], strict=True):
            chosen = [first, second][: len(phases)]
            sets.append({f"{p}-{k}": v for p, one in zip(phases, chosen, strict=True)
                         for k, v in one.items()})  # fmt: skip
            schedule = schedules.parse(" + ".join(map(line, chosen)))
            more_inputs = {"r": 0.3} if "r" in fit.law.input_names else {}
            sets[-1] |= more_inputs
            last = fit.predict_curve(schedule, [len(schedule)], **more_inputs)
            each = [
                dataclasses.replace(
                    fit, params={name: float(v[k]) for name, v in draws.items()}
                ).predict_curve(schedule, [len(schedule)], **more_inputs)["loss"][0]
                for k in range(10)
            ]
            expected.append((last["loss"][0], *percentile_interval(np.array(each))))
            outside.append(bool(last["outside"][0]))
        shown = said(tmp_path, sets)
        found = [[float(one[name]) for name in ("value", "low", "high")] for one in shown]
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert [one["outside"].startswith("Beyond") for one in shown] == outside
        # S1 only grows: where the last step is inside, the whole curve is, and none of it is grey.
        assert [one["shaded"] > 0 for one in shown] == outside
        assert {*outside} == {True, False} or "pt" not in phases


def own_drops(
    S1, drop, S_k, *, L0=jl.laws.positive(1.0, 3.0), B=jl.laws.positive(1.0, 1e3)
):  # fmt: skip
    """Several folds and broadcasts of what a law takes for every drop."""
    import jax.numpy as jnp

    if jnp.ndim(drop) == jnp.ndim(S1):
        drop, S_k = drop[..., None], S_k[..., None]
    both = jnp.stack([drop * 2.0, jnp.where(S_k > 3, S_k, 1.0)])
    share = drop / (1 + jnp.sum(jnp.abs(drop), axis=-1, keepdims=True))
    most = jnp.max(drop, axis=-1)
    return L0 - B * (jnp.sum(share * S_k, axis=-1) + most) + 1e-3 * jnp.sum(both, axis=(0, -1)) / S1


def line(phase):
    """A phase of the explorer as the line that jl.schedules.parse reads."""
    shape, peak = phase["shape"], phase["peak"]
    if shape == "constant":
        text = f"constant:lr={peak}"
    else:
        text = f"{shape}:peak={peak},final={phase['final'] * peak!r}"
        text += f",decay={phase['decay']}" if shape == "wsd" else ""
    text += f",steps={phase['steps']}"
    return text + (f",warmup={phase['warmup']}" if phase["warmup"] else "")
