"""Reports say what fit and study say, and nothing in them is fetched or run."""

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import planning, simulate, uncertainty
from jaxlaw.errors import UsageError
from jaxlaw.notes import Note
from tests.fixtures import command_files
from tests.fixtures.drawn_laws import DOMAIN, GENERAL, drawn
from tests.fixtures.studies import EVIL, a_profile, a_study

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.usefixtures("closed")


class Seen(HTMLParser):
    """What a page holds: tags, attributes, text without styles, rows of tables."""

    VOID = ("input", "meta", "use", "path", "br", "image", "rect", "line", "polyline", "polygon")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words, self.rows = [], [], [], []
        self.feed(text)

    @property
    def figures(self):
        """Attributes of the pictures, without that of the explorer, which a script draws."""
        pictures = [attributes for tag, attributes in self.tags if tag == "svg"]
        return [one for one in pictures if one.get("id") != "explorer-picture"]

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open or "script" in self.open:
            return
        if "tr" in self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def row(self, name):
        return next(row for row in self.rows if row and row[0] == name)


@pytest.fixture(scope="module")
def runs():
    return jl.read_runs(simulate.experiment("chinchilla", noise=0.004).table, name="runs.csv")


@pytest.fixture(scope="module")
def draws(chinchilla_fit):
    random = np.random.default_rng(0)
    params = {
        name: value * np.exp(0.01 * random.standard_normal(50))
        for name, value in chinchilla_fit.params.items()
    }
    return uncertainty.Draws(chinchilla_fit, params)


@pytest.fixture(scope="module")
def whole(chinchilla_fit, runs, draws):
    plans = [planning.allocation(draws, 1e21)]
    return jl.report(chinchilla_fit, runs=runs, intervals=draws, plans=plans)


@pytest.mark.full
def test_numbers_are_those_of_the_fit(chinchilla_fit, whole):
    seen = Seen(whole)
    for name, value in chinchilla_fit.params.items():
        assert seen.row(name)[1] == f"{value:.6g}"
        assert f"{value:.6g}" in chinchilla_fit.summary()
    assert f"objective {chinchilla_fit.objective:.8g}" in seen.text
    assert f"R² {chinchilla_fit.r2:.5f}" in seen.text


def test_intervals_are_those_of_the_draws(draws, whole):
    low, high = np.quantile(draws.params["alpha"], [0.05, 0.95])
    assert Seen(whole).row("alpha")[3:5] == [f"{low:.4g}", f"{high:.4g}"]


@pytest.mark.full
def test_a_fit_has_its_own_standard_errors(chinchilla_fit, runs):
    table = jl.covariance(chinchilla_fit, runs).conf_int().set_index("parameter")
    seen = Seen(jl.report(chinchilla_fit, runs=runs))
    assert seen.row("beta")[2:5] == [f"{v:.4g}" for v in table.loc["beta"].iloc[1:]]
    assert float(seen.row("D")[5]) == pytest.approx(chinchilla_fit.ranges["D"][1], rel=1e-3)


def test_a_plan_is_shown_with_its_interval(draws, whole):
    plan = planning.allocation(draws, 1e21)
    rows = [row for row in Seen(whole).rows if row[0] == "N"]
    assert rows[0] == ["N", plan.quantities["N"].number, plan.quantities["N"].interval]


def test_a_mixture_is_drawn_with_the_runs_of_both_losses():
    size, fit = {"N": 2e9, "D": 9e9}, drawn(DOMAIN).fit
    plan = planning.optimal_mixture(GENERAL, fit, start=2.8, at=size)
    table = pd.DataFrame([size | {"r_d": 0.2, "loss_g": 2.6, "loss_d": 2.2}])
    page = jl.report(fit, runs=table, plans=[plan], corpus="domain")
    assert "black: runs of N = 2 B" in page


@pytest.mark.full
def test_a_profile_is_drawn_with_its_interval(chinchilla_fit):
    found = a_profile(chinchilla_fit)
    seen = Seen(jl.report(chinchilla_fit, plans=[found], title="Our alpha"))
    assert "Our alpha" in seen.text
    low, high = uncertainty.profile_interval(found, 0.9)  # restated from its points
    assert f"{low:.4g} to {high:.4g}" in seen.text


def test_names_are_text(chinchilla_fit):
    evil = dataclasses.replace(
        chinchilla_fit.law, name=EVIL, formula=EVIL, source=EVIL, target=EVIL
    )
    notes = (Note("x", "warning", EVIL),)
    fit = dataclasses.replace(chinchilla_fit, law=evil, source=EVIL, observed=None, notes=notes)
    text = jl.report(fit, title=EVIL)
    assert text.lower().count("<script") == 1 and text.count("&lt;script&gt;") >= 5
    assert Seen(text).text.startswith(EVIL)


def assert_alone(text):
    """Nothing from elsewhere, every picture described, headings without a gap."""
    seen = Seen(text)
    assert seen.open == []
    for tag, attributes in seen.tags:
        assert tag != "script" or attributes == {}
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "xlink:href", "data"):
                assert value.startswith(("#", "data:"))
        if tag == "svg":
            assert attributes["role"] == "img" and len(attributes["aria-label"]) > 30
    assert "http://" not in text and "https://" not in text and "@import" not in text
    anchors = {attributes.get("id") for _, attributes in seen.tags}
    links = [attributes["href"] for tag, attributes in seen.tags if tag == "a"]
    assert len(links) >= 5 and {link[1:] for link in links} <= anchors


def test_a_fit_stands_alone(whole):
    assert_alone(whole)


def test_a_study_stands_alone_and_says_its_scores(tmp_path):
    study = a_study()
    study.save(tmp_path / "study.json")
    text = jl.report(jl.Study.load(tmp_path / "study.json"))
    assert_alone(text)
    seen, ranked = Seen(text), study.ranking
    assert "log residuals, summed" in text
    assert any(f"{ranked.loc['dcpt', 'ratio']:.4g}" in row for row in seen.rows)
    assert len([row for row in seen.rows if row[0].startswith("r = ")]) == len(study.frame)
    assert "<script" not in text


def test_the_report_of_curves_shows_the_longest_run_and_what_its_loss_is_made_of():
    table = simulate.continual_curves(every=5000).table
    columns = {"r_g": "replay", "loss_g": "loss_pt", "loss_d": "loss_cpt"}
    curves = jl.read_loss_curves(table, columns, corpus="domain")
    fit = dataclasses.replace(
        jl.FittedLaw("cpt-curve-replay-cpt", simulate.TRUTHS["cpt-curve-replay-cpt"]),
        area_options={"decay": 0.999},
    )
    run = max(curves.run_schedules, key=lambda name: curves.run_schedules[name].last_step)
    seen = Seen(jl.report(fit, runs=curves))
    assert seen.figures[0]["aria-label"].startswith(f"Logged loss of run {run} ")
    assert {"base", "annealing", "shift", "observed", "predicted"} <= {*seen.words}


# --- forecasts


def a_forecast(source="runs.csv"):
    """The forecast of made-up numbers, of runs by another name."""
    return dataclasses.replace(command_files.a_forecast(), source=source)


@pytest.mark.full
def test_a_forecast_has_a_page_with_its_table_picture_laws_and_plan(tmp_path):
    made = a_forecast()
    note = Note("prior-conflict", "warning", "the runs contradict the prior")
    made = dataclasses.replace(made, notes=(note,))
    plan = planning.allocation(made, 6 * 2e10 * 4e11, level=made.level)
    page = jl.report(made, tmp_path / "page.html", plans=[plan])
    assert (tmp_path / "page.html").read_text("utf-8") == page
    seen = Seen(page)
    cells = [" ".join(row) for row in seen.rows]
    row = next(row for row in cells if "2.115" in row)
    assert "2.08" in row and "2.046" in row and "noise 40%" in row
    assert "as good as the best within run-to-run noise" in seen.text.lower()
    assert len(seen.figures) == 2  # intervals, contours
    assert "the runs contradict the prior" in " ".join(seen.words)


@pytest.mark.full
def test_all_intervals_of_a_page_have_one_level():
    """The page of a forecast once had its 90 % beside a plan's 95 %."""
    made = a_forecast()
    plan = planning.allocation(made, 6 * 2e10 * 4e11, level=0.8)
    page = Seen(jl.report(made, plans=[plan]))
    heads = [
        cell for row in page.rows for cell in row if re.fullmatch(r"\d+ ?% (interval|of .*)", cell)
    ]
    assert set(heads) == {"80% of estimate", "80% interval"}
    low, high = made.interval(0.8)
    assert any(f"{low[0]:.4g} to {high[0]:.4g}" in row for row in page.rows)
    with pytest.raises(UsageError, match="intervals of 90%, a plan of 80%"):
        jl.report(made, plans=[plan], level=0.9)
    with pytest.raises(UsageError, match="intervals of 80%, a plan of 95%"):
        jl.report(made, plans=[plan, planning.allocation(made, 1e22, level=0.95)])


def test_the_page_of_a_fit_shows_forecasts_and_escapes_them():
    fit = jl.published()["besiroglu-2024"]
    page = jl.report(fit, plans=[a_forecast(EVIL)])
    seen = Seen(page)
    assert "Forecast" in seen.words and sum(tag == "script" for tag, _ in seen.tags) == 1
    with pytest.raises(UsageError, match="belong to a fit"):
        jl.report(a_forecast(), runs="runs.csv")
