"""Every command runs on small data, with the numbers of Python's call; what it ends with."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import planning, simulate
from jaxlaw.cli import COMMANDS
from tests.fixtures.command_files import PAIRS, prepare
from tests.fixtures.drawn_laws import drawn

pytest.importorskip("cyclopts")

NAMES = [name for group in COMMANDS.values() for name in group]
QUICK = "--n-starts 16 --n-local 4"
WANG = "published:wang-2025-pt published:wang-2025-cpt"
RUN = "--run wsd:steps=40000,peak=2e-4+cosine:steps=10000,peak=2e-5,warmup=500"
#: Command → its arguments, on the files that :func:`prepare` writes.
LINES = {
    "laws": "chinchilla",
    "fit": f"chinchilla runs.csv -c N=n_params,D=n_tokens {QUICK}",
    "predict": "fit.json --at N=1e9,7e9,D=1e12",
    "curve": "curve-fit.json wsd:peak=3e-4,steps=24000,warmup=2000 --steps 2000,24000",
    "plot": "fit.json runs.csv -o plot.png",
    "report": "fit.json runs.csv -o page.html",
    "score": "forecast.json later.csv",
    "design steps": "--budget 10 --steps 20000",
    "design next": "fit.json runs.csv candidates.csv --predict N=7e10,D=1e12 --n 4",
    "covariance": "fit.json runs.csv --groups N,r",
    "influence": "fit.json runs.csv --on N=7e9,D=1e12",
    "identifiability": "fit.json runs.csv",
    "bootstrap": f"chinchilla runs.csv --n-resamples 20 {QUICK}",
    "plan allocation": "fit.json --compute 1e21",
    "plan allocation-law": "fit.json",
    "plan frontier": "fit.json --computes 1e19:1e23",
    "plan min-compute": "fit.json --loss 2.1",
    "plan minimise": "fit.json --over N --over D=:1e12 --subject-to budget:1e22",
    "plan solve": "fit.json --for D --loss 2.1 --at N=7e9",
    "plan hyperparameters": "tuned.json --at N=7e9,D=1e12 --over lr=1e-5:1e-1,batch=1e4:1e8",
    "plan best-settings": "sweeps.csv --units batch=2048",
    "plan critical-batch-size": "tuned.json --at N=7e9,D=1e12",
    "plan optimal-mixture": "general.json domain.json --start 2.86 --at N=2e9,D=1e10",
    "plan optimal-mixture-data-limited": "domain.json --corpus-tokens 5e7 --at N=1.8e9",
    "plan critical-ratio": "general.json --start 2.86 --at N=1.8e9,D=1e10",
    "plan optimal-weights": "python=python.json,wiki=wiki.json --caps code=0.3 "
    "--natural web=8,code=1,math=1 --max-kl 0.15",
    "plan data-transferred": "scratch.json continual.json --N 1.4e9 --D 1e10",
    "plan frontier-savings": "published:zheng-2024-frontier-scratch "
    "published:zheng-2024-frontier-cpt --compute 1e17,1e20,1e23",
    "plan break-even": "scratch.json continual.json --N 1.4e9",
    "plan compute-multiplier": "groups.json --compute 1e19,1e21 --reference group=c4 "
    "--at group=pile",
    "plan observed-transfer": "scratch.csv continual.csv",
    "plan optimal-training": f"{WANG} {RUN} --weight 0.5 --over replay=0:1",
    "plan final-losses": f"{WANG} {RUN} --settings steps=5000,20000",
    "plan turning-length": "published:wang-2025-pt "
    "--run wsd:steps=10000,peak=2e-4+cosine:steps=10000,peak=2e-4,warmup=500,replay=0.9",
    "plan optimal-schedule": "curve-fit.json --steps 24000 --peak 3e-4 --floor 3e-5 "
    "--shortest-decay 5000",
    "plan loss-envelope": "runs.csv --levels 8",
    "plan out-of-domain": "losses.csv -c loss_ood=code_loss",
    "profile": "fit.json runs.csv --quantity alpha",
    "forecast": "few.csv --at N=7e9,D=1e12 --laws chinchilla",
    "forecast-run": "losses.csv -c loss=loss_cpt --schedule cosine:peak=2e-4,steps=20000",
    "watch": "losses.csv -c loss=loss_cpt --schedule cosine:peak=2e-4,steps=20000 --every 0",
}
#: Those that take more than a few seconds.
SLOW = {
    "demo": "--out demo.png",
    "backtest": "few.csv --laws chinchilla --first 3",
    "study": f"dcpt,dcpt-l1 mixtures.csv --folds k-fold:3 {QUICK} --fixed alpha=0.5,beta=0.5",
    "ladder": "bases.csv --families additive --at C=1e21,D_cpt=4e9",
    "forecast-scores": "ladder.csv --tasks acc_*:bpb_* --groups run --at N=7e9,D=4e12",
    "inflection": "shares.csv --corpus general -c r_d=domain_ratio,loss_g=general_loss "
    f"--n-resamples 2 {QUICK}",
    "plan continual": f"{WANG} --tokens 20B --batch-tokens 2M --weight 0.6 "
    "--base wsd:peak=2e-4,steps=40000",
    "plan pretraining-value": "checkpoints.csv --target 25 --baseline 12 --at 1e12 "
    "--n-resamples 40",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("files")
    prepare(made)
    return made


@pytest.fixture
def here(folder, command, monkeypatch):
    """Run a command beside the files: exit code, stdout, stderr."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("JAXLAW_QUIET", "1")
    return lambda line: command(*line.split())


def test_every_command_is_run():
    assert {*LINES} | {*SLOW} == {*NAMES} and not {*LINES} & {*SLOW}


@pytest.mark.parametrize(
    "name", [*LINES, *(pytest.param(name, marks=pytest.mark.full) for name in SLOW)]
)
def test_a_command_prints_its_answer(here, name):
    line = f"{name} {(LINES | SLOW)[name]}"
    code, out, err = here(line)
    assert (code, err) == (0, "")
    # What to do next stays in one line, so that it can be pasted.
    assert all(len(row) <= 80 or row.startswith("Next: ") for row in out.splitlines())
    code, out, _ = here(f"{line} --json")
    record = json.loads(out)
    assert code == 0 and record["kind"].startswith("jaxlaw ") and "notes" in record


@pytest.mark.parametrize(
    "line, python",
    [
        ("plan allocation fit.json --compute 1e21 --limits N=:2B --served-tokens 1e11",
         lambda: planning.allocation(jl.load("fit.json"), 1e21, limits={"N": (None, "2B")},
                                     served_tokens=1e11)),
        ("fit chinchilla runs.csv -c N=n_params,D=n_tokens --where N>1e8 --fixed E=1.69 "
         f"--tied beta=alpha --bounds A=1: --delta 0.01 --seed 3 {QUICK}",
         lambda: jl.fit("chinchilla", "runs.csv", columns={"N": "n_params", "D": "n_tokens"},
                        where="N>1e8", fixed={"E": 1.69}, tied={"beta": "alpha"},
                        bounds={"A": (1, None)}, delta=0.01, seed=3, n_starts=16, n_local=4)),
        ("plan compute-multiplier groups.json --compute 1e19,1e21 --reference group=c4 "
         "--at group=pile",
         lambda: planning.compute_multiplier(jl.load("groups.json"), [1e19, 1e21],
                                             reference={"group": "c4"}, at={"group": "pile"})),
        ("design next fit.json runs.csv candidates.csv --predict N=7e10,D=1e12 --n 4",
         lambda: jl.design.next_runs(jl.load("fit.json"), "runs.csv",
                                     pd.read_csv("candidates.csv"),
                                     predict={"N": 7e10, "D": 1e12}, n=4)),
    ],
)  # fmt: skip
def test_the_numbers_are_those_of_python(here, line, python):
    _, out, _ = here(f"{line} --json")
    shown, own = json.loads(out), json.loads(json.dumps(python().to_dict()))
    assert shown == own


def test_draws_give_predictions_and_curves_their_intervals(here):
    drawn(PAIRS["fit"]).save("draws.json")
    _, out, _ = here("predict draws.json --at N=7e9,D=1e12 --json")
    loss = json.loads(out)["quantities"]["loss"]
    draws = drawn(PAIRS["fit"])
    every = [
        draws.fit.with_params({name: values[k] for name, values in draws.values.items()})
        for k in range(draws.rows)
    ]
    losses = np.array([float(fit.predict(N=7e9, D=1e12)) for fit in every])
    assert loss["value"] == pytest.approx(losses[0])
    assert losses.min() < loss["low"] < loss["value"] < loss["high"] < losses.max()
    line = "curve curve-fit.json wsd:peak=3e-4,steps=9000 --first-step 1000 --steps 10000"
    assert here(line)[1].startswith("after 10,000 steps: loss")
    fit = jl.load("curve-fit.json")
    params = {name: value * np.array([0.99, 1.0, 1.01]) for name, value in fit.params.items()}
    jl.uncertainty.Draws(fit, params).save("curve-draws.json")
    line = "curve curve-draws.json wsd:peak=3e-4,steps=24000,warmup=2000 --out curve.csv"
    assert here(line)[0] == 0
    table = pd.read_csv("curve.csv")
    assert (table["loss_low"] < table["loss"]).all() and (table["loss"] < table["loss_high"]).all()


def test_observed_points_are_scored(here):
    _, out, _ = here("predict fit.json runs.csv --json")
    record = json.loads(out)
    assert record == json.loads(json.dumps(jl.load("fit.json").score("runs.csv").to_dict()))


def test_points_come_as_combinations_as_runs_or_from_a_file(here):
    pd.DataFrame({"N": [1e9, 7e9], "D": [1e11, 1e12]}).to_csv("points.csv", index=False)

    def points(line):
        _, out, _ = here(f"predict fit.json {line} --json")
        return [(row["N"], row["D"]) for row in json.loads(out)["tables"]["points"]]

    assert len(points("--at N=1e9,7e9,D=1e11,1e12")) == 4
    runs = points("--at N=1e9,D=1e11 --at N=7B,D=1T")
    assert runs == points("points.csv") == points("--at points.csv") == [(1e9, 1e11), (7e9, 1e12)]


def test_loss_curves_are_read_along_their_schedules(here):
    table = pd.read_csv("curves.csv")
    table.query("step > 0").to_csv("one.csv", index=False)
    along = "--schedule cosine:peak=3e-4,steps=24000,warmup=2000 --decay 0.99"
    code, out, _ = here(f"fit annealing one.csv -c run=domain {along} {QUICK} --json")
    assert code in (0, 1) and json.loads(out)["area_options"]["decay"] == 0.99
    along = along.removesuffix(" --decay 0.99")
    code, out, _ = here(f"study annealing one.csv -c run=domain {along} --folds k-fold:2 {QUICK}")
    assert code == 0 and "over 2 folds" in out
    code, _, err = here(f"fit chinchilla runs.csv {QUICK} --first-step 3")
    assert code == 2 and "loss curves" in err


def test_a_plans_weight_is_no_column_of_its_curves(here):
    step = np.arange(1, 6)
    made = pd.DataFrame({"step": step, "loss_g": 3.0, "loss_d": 2.0, "r_g": 0.3, "lr": 1e-4})
    made.to_csv("log.csv", index=False)
    code, _, err = here("plan continual log.csv --tokens 2e9 --batch-tokens 2e6 --weight 0.3")
    assert code == 1 and "no run has a continual phase" in err


def test_files_are_what_their_names_say(here):
    assert here("plan frontier fit.json --computes 1e20,1e21 -o plan.json")[0] == 0
    assert jl.load("plan.json").kind == "frontier"
    assert here("plan frontier fit.json --computes 1e20,1e21 -o plan.csv")[0] == 0
    assert len(pd.read_csv("plan.csv")) == 2
    assert here("plan frontier fit.json --computes 1e20,1e21 -o plan.png")[0] == 0
    with open("plan.png", "rb") as file:
        assert file.read(4) == b"\x89PNG"
    line = f"study chinchilla runs.csv -c N=n_params,D=n_tokens --folds k-fold:2 {QUICK}"
    assert here(f"{line} -o study.html")[0] == 0
    with open("study.html", encoding="utf-8") as page:
        assert page.read().startswith("<!DOCTYPE html>")  # it was JSON once


def test_a_fit_goes_through_pipes(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    fit = (folder / "fit.json").read_text()
    code, out, _ = command("plan", "allocation", "-", "--compute", "1e21", "--json", stdin=fit)
    own = planning.allocation(jl.load("fit.json"), 1e21)
    assert code == 0 and json.loads(out)["quantities"]["N"]["value"] == pytest.approx(own.N)


def test_an_answer_that_is_not_to_be_used_is_printed_and_ends_with_1(command, tmp_path):
    rng, table = np.random.default_rng(0), simulate.experiment("chinchilla").table
    noise = table.assign(loss=3 * np.exp(0.3 * rng.standard_normal(len(table))))
    noise.to_csv(tmp_path / "noise.csv", index=False)
    code, out, _ = command("fit", "chinchilla", "noise.csv", *QUICK.split(), "--quiet")
    assert code == 1 and "[error] poor-fit" in " ".join(out.split())


@pytest.mark.parametrize(
    "line, code, said",
    [
        ("plan alocation fit.json", 2, 'Did you mean "allocation"'),
        ("plan allocation fit.json --computes 1e21", 2, "--compute"),
        ("plan allocation fit.json", 2, "--compute"),
        ("plan allocation nothere.json --compute 1e21", 2, "nothere.json"),
        ("plan allocation runs.csv --compute 1e21", 2, "jaxlaw fit chinchilla runs.csv"),
        ("plan frontier fit.json", 2, "needs --computes. Example: jaxlaw plan frontier fit.json"),
        ("fit runs.csv", 2, "needs RUNS. Example: jaxlaw fit chinchilla runs.csv"),
        ("forecast runs.csv --at 7e9,1e12", 2, "such as N=7e9,D=1e12"),
        ("plot runs.csv", 2, "jaxlaw fit chinchilla runs.csv"),
        ("plan allocation published:hofmann-2022 --compute 1e21", 2, "hoffmann-2022"),
        ("plan allocation fit.json --compute 1e21 --at q=3", 2, "'q'"),
        ("plan allocation fit.json --compute many", 2, "compute"),
        ("plan minimise fit.json --over N --subject-to bugdet:1e21", 2, "budget"),
        ("fit chinchila runs.csv", 2, "chinchilla"),
        ("fit chinchilla runs.csv -c N=sise", 2, "sise"),
        ("fit chinchilla few.csv", 1, "4 rows"),
        ("fit chinchilla my runs.csv", 2, "unexpected runs.csv"),
        ("fit chinchilla runs.csv --fixed E", 2, "fixed takes NAME=VALUE"),
        ("predict fit.json", 2, "at="),
        ("plan allocation fit.json --compute 1e21 --out fit.json", 2, "is read by this command"),
        ("plan allocation fit.json --compute 1e21 --out plan.docx", 2, ".docx"),
        ("plan allocation fit.json --compute 1e21 --out no/plan.json", 2, "that you can write"),
        ("plot fit.json --kind isoflop", 2, "isoflops"),
    ],
)
def test_errors_are_one_line_and_a_code(here, line, code, said):
    found, out, err = here(line)
    assert (found, out) == (code, "")
    assert err.startswith("jaxlaw: ") and err.count("\n") == 1 and said in err


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(here, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    code, _, err = here("plan allocation fit.json --compute 1e21 --out plan.json")
    assert code == 2 and "that you can write" in err
    monkeypatch.setattr("jaxlaw.simulate.demo", None)
    code, _, err = here("demo")
    assert code == 2 and "cannot write jaxlaw_demo.png" in err


def test_an_ascii_stream_gets_a_question_mark(folder):
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    words = [sys.executable, "-m", "jaxlaw", "laws", "chinchilla"]
    run = subprocess.run(words, env=ascii_only, capture_output=True, text=True)
    assert run.returncode == 0 and "A/N^?" in run.stdout, run.stderr


def test_the_picture_of_a_plan_is_drawn_beside_runs(here, tmp_path):
    here(f"plan allocation fit.json --compute 1e21 --out {tmp_path}/plan.json")
    code, out, _ = here(f"plot {tmp_path}/plan.json runs.csv -o {tmp_path}/plan.png")
    assert code == 0 and "--kind isoloss" in " ".join(out.split())
    assert (tmp_path / "plan.png").stat().st_size > 0


def test_help_and_completion_wait_for_neither_jax_nor_pandas(folder):
    script = (
        "import sys; from jaxlaw.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert not {'jax', 'pandas', 'numpy'} & set(sys.modules)"
    )
    own = ["plan", "allocation", "--help"]  # of the second time on: kept with the programs
    first = subprocess.run([sys.executable, "-m", "jaxlaw", *own], capture_output=True, text=True)
    for words in (["--help"], ["plan", "--help"], ["--version"], ["version"], own):
        run = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, text=True, cwd=folder
        )
        assert run.returncode == 0 and run.stdout, run.stderr
    assert run.stdout == first.stdout and "--compute" in run.stdout


def test_a_kept_help_is_of_these_sources_and_this_width(command, monkeypatch, tmp_path):
    words = ("plan", "allocation", "--help")
    _, wide, _ = command(*words)
    monkeypatch.setenv("COLUMNS", "60")
    _, narrow, _ = command(*words)
    assert max(map(len, narrow.splitlines())) <= 60 < max(map(len, wide.splitlines()))
    made = []
    monkeypatch.setattr("jaxlaw.cli._call", lambda words, **options: made.append(words))
    command(*words)
    assert not made
    (tmp_path / "new.py").touch()
    monkeypatch.setattr("jaxlaw.cli._PACKAGE", tmp_path)
    command(*words)
    assert made == [[*words]]


@pytest.mark.parametrize("name", NAMES)
def test_help_names_every_option_and_an_example_that_is_a_line_of_this_command(command, name):
    code, out, _ = command(*name.split(), "--help")
    assert code == 0 and all(flag in out for flag in ("--out", "--json", "--quiet", "--verbose"))
    example = " ".join(out.partition("Example:")[2].split())
    assert not example or example.startswith(f"jaxlaw {name}")


def test_a_closed_pipe_is_no_error(folder):
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run([sys.executable, "-m", "jaxlaw", "laws"], stdout=writer, stderr=-1,
                         text=True)  # fmt: skip
    assert "Traceback" not in run.stderr
