"""Three people on their first day: what each of them reads, from data to answer.

A pre-training lead in the shell with a table of foreign column names, an engineer with loss curves
in a notebook, a researcher who takes jaxlaw as a JAX library. On real data where ``JAXLAW_DATA``
is set, on simulated data elsewhere.
"""

import ast
import re
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from tests.conftest import DATA
from tests.fixtures.curve_tables import BEFORE, logged, real_schedules

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("closed")]

NUMBER = r"[\d.,]+(?:e[-+]?\d+)?"
SIZE = rf"{NUMBER} [KMBT]"  # 391 B


def notes_of(text):
    """First lines of the notes that are printed whole, and of how many others there are."""
    begins = ("[error]", "[warning]", "[info]")
    lines = map(str.strip, text.splitlines())
    return [line for line in lines if line.startswith(begins) or line.endswith("--verbose")]


# --- the pre-training lead


def teams_table():
    """Runs as a team logs them: sizes in millions, tokens in billions, names of its own."""
    if DATA is None:
        table = jl.simulate.experiment("chinchilla", noise=0.004).table.assign(outlier=False)
        table = table[6 * table["N"] * table["D"] < 3e21]
    else:
        runs = pd.read_csv(Path(DATA) / "isoflops.csv")
        runs = runs[runs["experiment"].str.startswith("ml_scalefit")]
        table = runs.rename(columns={"params": "N", "tokens": "D"})
    return pd.DataFrame(
        {
            "Model Size (M)": table["N"] / 1e6,
            "train tokens (B)": table["D"] / 1e9,
            "final_eval_loss": table["loss"],
            "outlier": table["outlier"],
            "comment": "",
        }
    )


def test_a_lead_asks_what_a_budget_buys(command, tmp_path):
    """From a table of foreign names: one command to a fit, then a forecast, a plan, a page."""
    teams_table().to_csv(tmp_path / "runs.csv", index=False)

    # The columns of known names are taken, and said.
    reading = ("--where", "outlier == False", "--out", "fit.json")
    code, out, err = command("fit", "chinchilla", "runs.csv", *reading)
    assert (code, err) == (0, "") and "columns-taken" in out
    fit = jl.load(tmp_path / "fit.json")
    rows = fit.n_observations
    assert re.match(rf"chinchilla: RMSE {NUMBER} ?%, R² {NUMBER} on {rows} rows", out)
    assert "restarts agree" in " ".join(out.split())
    assert "nats" in out and len(notes_of(out)) <= 4
    assert rows == (89 if DATA else len(teams_table()))
    if DATA:  # the exponents of the published refits of these runs are 0.36 and 0.40
        assert fit.params["alpha"] == pytest.approx(0.348, abs=0.002)
        assert fit.params["beta"] == pytest.approx(0.407, abs=0.002)

    # A run not yet made, in the units that people say: the fit knows how its data were read.
    point = ("--at", "N=70B,D=1.4T")
    code, out, err = command(
        "forecast", "runs.csv", "--laws", "fit.json", *point, "--out", "run.json"
    )
    assert code == 0 and "options taken from the fit: " in err
    forecast = jl.load(tmp_path / "run.json").table.iloc[0]
    assert (forecast["N"], forecast["D"]) == (70_000, 1400)
    said = " ".join(out.split())
    assert "70 B parameters" in said and "1.4 T tokens" in said and "beyond" in said
    assert f"{forecast['estimate']:.4g}" in said or f"{forecast['estimate']:.3g}" in said
    assert 1.5 < forecast["low"] < forecast["estimate"] < forecast["high"] < 2.5
    assert len(notes_of(out)) <= 4

    # What a budget buys, with intervals: bare numbers never stand without a unit.
    code, out, err = command("plan", "allocation", "run.json", "--compute", "1e25")
    assert (code, err) == (0, "")
    headline = " ".join(" ".join(out.splitlines()[:4]).split())
    assert re.match(rf"1e25 FLOPs: {SIZE} parameters \(", headline)
    assert re.search(rf"and {SIZE} tokens", headline) and "tokens/parameter" in headline
    assert re.search(rf"loss {NUMBER} nats", headline) and "beyond the largest run" in headline
    assert len(notes_of(out)) <= 4
    refused = command("predict", "fit.json", "--at", "N=70B", "--at", "D=15e12")
    assert refused[0] == 1 and "for 15 T tokens write D=15000 or D=15T" in refused[2]

    # Pictures, and the page for those who were not there.
    assert command("plot", "fit.json", "runs.csv", "--out", "fit.png")[0] == 0
    assert command("plot", "run.json", "--out", "run.svg")[0] == 0
    allocation = ("plan", "allocation", "run.json", "--compute", "1e25")
    assert command(*allocation, "--out", "plan.json")[0] == 0
    code, _, err = command("plot", "plan.json", "--out", "plan.svg")
    assert code == 0, err
    answer = jl.load(tmp_path / "plan.json")
    assert f"{answer.N * 1e6 / 1e9:.0f} B parameters" in (tmp_path / "plan.svg").read_text("utf-8")
    code, _, _ = command(*allocation[:2], "fit.json", *allocation[3:], "--out", "of-fit.json")
    report = ("report", "fit.json", "runs.csv", "--level", "0.9")
    code, out, _ = command(*report, "--plans", "of-fit.json,run.json", "-o", "page.html")
    assert code == 0 and "page.html" in out
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "1e25 FLOPs" in page and "T tokens" in page and "<svg" in page
    assert len(page) < 1_000_000 and "http://" not in page.replace("http://www.w3.org", "")


# --- the engineer


NOTEBOOK = """
import jaxlaw as jl
curves = jl.read_loss_curves(log.assign(schedule=log["run"].map(rates)), **how)
curves

fit = jl.fit("annealing", curves.only(where="split == 'fit'"))
fit

held_out = curves.only(where="split == 'heldout'").table
errors = [
    curve["loss"] - fit.predict_curve(rates[run], curve["step"].to_numpy(), **before)["loss"].values
    for run, curve in held_out.groupby("run")
]
max(abs(error).mean() for error in errors)

best = jl.planning.optimal_schedule(fit, steps=4000, peak=3e-4, floor=3e-5, shortest_decay=800)
best

ax = jl.plots.loss_curve(fit.predict_curve(best.schedule, **before))
ax.figure.savefig("best.png")
"""


def execute(notebook, names):
    """Run the cells, as a notebook does; the HTML or text that each one shows."""
    shown = []
    for cell in notebook.strip().split("\n\n"):
        body = ast.parse(textwrap.dedent(cell)).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        value = last and eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        show = getattr(value, "_repr_html_", None)
        shown.append(show() if show else repr(value))
    return shown


def test_an_engineer_reads_loss_curves_in_a_notebook(tmp_path, monkeypatch, capfd):
    """Curves of a few schedules: a law of them, tested on others, and the best schedule."""
    monkeypatch.chdir(tmp_path)
    if DATA is None:
        lines = {
            "cosine": "cosine:peak=3e-4,steps=4000,final=3e-5,warmup=200",
            "wsd": "wsd:peak=3e-4,steps=3000,warmup=200,decay_steps=600",
            "long": "wsd:peak=3e-4,steps=4000,warmup=200,decay_steps=1200",
        }
        table = logged(lines)
        table["split"] = np.where(table["run"] == "long", "heldout", "fit")
        noise = np.random.default_rng(0).normal(scale=0.002, size=len(table))
        names = {
            "log": table.assign(loss=table["loss"] + noise),
            "rates": {name: jl.schedules.parse(line) for name, line in lines.items()},
            "how": {}, "before": {},
        }  # fmt: skip
    else:
        names = {
            "log": pd.read_csv(Path(DATA) / "lr_loss_curves.csv").rename(
                columns={"schedule": "run"}
            ),
            "rates": real_schedules(), "before": BEFORE,
            "how": {"where": "model_params_millions == 25", **BEFORE},
        }  # fmt: skip
    read, fitted, error, best, _ = execute(NOTEBOOK, names)

    assert ("9 loss curves, 2059 points" if DATA else "3 loss curves") in read
    fit = names["fit"]
    assert f"on {fit.n_observations:,} rows" in fitted and "restarts agree" in " ".join(
        fitted.split()
    )
    assert "nats" in fitted and fitted.count("<li>") <= 5
    # The plain fit of the source misses the six held-out schedules by 0.0048 nats in the mean.
    assert float(re.sub(r"np.float64\((.*)\)", r"\1", error)) < (0.01 if DATA else 0.003)
    plan = names["best"]
    assert f"{plan.loss:.4g}" in best and "nats" in best
    assert plan.schedule["lr"].max() == pytest.approx(3e-4)
    assert plan.schedule["lr"].iloc[-1] == pytest.approx(3e-5)
    assert Path("best.png").stat().st_size > 10_000
    assert capfd.readouterr() == ("", "")  # a library prints nothing


# --- the researcher


def corpora():
    """Shares r (4,) of the old corpus, final losses (corpora, 4), and losses of the base."""
    if DATA is None:
        r = np.array([0.125, 0.25, 0.375, 0.5])
        k = np.linspace(0.1, 0.3, 6)[:, None]
        return r, 2.8 + k * np.exp(-3.7 * r), 2.8 + k[:, 0] * np.exp(-3.7 * 0.3)
    table = pd.read_csv(Path(DATA) / "continual_70m.csv")
    table = table[~table["domain"].isin(["python"])]
    ends = table[(table["step"] == 10_000) & (table["pile_ratio"] != 0.28515625)]
    losses = ends.pivot(index="domain", columns="pile_ratio", values="loss")
    base = table[table["step"] == 0].set_index("domain")["loss"].reindex(losses.index)
    first = losses.index != "PILE_WEIGHTED"  # which then stands last
    order = np.argsort(~first, kind="stable")
    return losses.columns.to_numpy(), losses.to_numpy()[order], base.to_numpy()[order]


def test_a_researcher_differentiates_through_many_fits(own_laws, capfd):
    """One's own law, fitted to every corpus at once inside jit; a plan, and its derivative."""

    @jl.law(name="mixing-of-one")
    def mixing(
        r,
        *,
        c=jl.laws.positive(0.2, 5),
        k=jl.laws.positive(1e-4, 5),
        b=jl.laws.exponent(0.1, 5, high=50),
    ):
        """c + k·e^(−b·r)"""
        return c + k * jnp.exp(-b * r)

    r, losses, base = corpora()
    with jax.enable_x64(True):

        @jax.jit
        def critical_share(losses, base):
            """The share at which each corpus is back at the loss of the base, (P,)."""
            fit = jl.fit_batch(mixing, {"r": r}, losses, None, 64, residuals="linear", delta=0.02)
            params = fit.params
            return -jnp.log((base - params["c"]) / params["k"]) / params["b"], fit.objective

        def last(losses, base):
            return critical_share(losses, base)[0][-1]

        shares, objective = map(np.asarray, critical_share(losses, base))
        by_losses, by_base = map(np.asarray, jax.grad(last, (0, 1))(jnp.asarray(losses), base))
        moved = np.asarray(critical_share(losses, base + 1e-5)[0])
    assert shares.shape == objective.shape == (len(losses),) and np.isfinite(objective).all()
    # Published for the whole Pile: 0.28623; the run made at 0.28516 came back to the base.
    expected, near = (0.28623, 4e-3) if DATA else (0.3, 1e-6)
    assert shares[-1] == pytest.approx(expected, abs=near)
    # The derivative is that of the plan: a worse base is reached at a smaller share, and no other
    # corpus has a say in it.
    assert by_base[-1] == pytest.approx((moved[-1] - shares[-1]) / 1e-5, rel=1e-3)
    assert by_base[-1] < 0 and not by_base[:-1].any()
    met = np.isfinite(shares)  # some corpora never come back, and their share is no number
    assert by_losses.shape == losses.shape and by_losses[-1].any()
    assert met[-1] and not by_losses[met][:-1].any()

    # The same question by name, with evidence: one fit, one plan, both in words.
    fit = jl.fit(mixing, {"r": r, "loss": losses[-1]}, residuals="linear", delta=0.02, n_starts=64)
    plan = jl.planning.critical_ratio(fit, start=float(base[-1]))
    assert plan.share == pytest.approx(shares[-1], abs=1e-4)
    assert "%" in plan.headline and f"{100 * plan.share:.3g}" in plan.headline
    assert len(notes_of(plan.summary())) <= 3
    assert capfd.readouterr() == ("", "")
