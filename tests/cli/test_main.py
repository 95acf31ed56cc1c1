"""The command: exit codes, JSON, the same numbers as Python, and errors in one line."""

import csv
import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from jaxlaw import simulate
from tests.fixtures.command_files import a_forecast
from tests.fixtures.curve_tables import SPECS, logged

pytest.importorskip("typer")

TABLE = simulate.experiment("chinchilla", noise=0.004).table
USERS = TABLE.rename(columns={"N": "n_params", "D": "n_tokens"})
MAPPED = ("-c", "N=n_params", "-c", "D=n_tokens")


@pytest.fixture
def runs(tmp_path):
    """A user's file; its folder is the command's."""
    USERS.to_csv(tmp_path / "runs.csv", index=False)
    return tmp_path / "runs.csv"


@pytest.fixture
def fit_file(tmp_path, chinchilla_fit):
    chinchilla_fit.save(tmp_path / "fit.json")
    return tmp_path / "fit.json"


def assert_narrow(text):
    assert [line for line in text.splitlines() if len(line) > 80] == []


# --- laws


def test_laws_as_json_and_csv_are_the_table(command, tmp_path):
    code, out, err = command("laws", "--json", "--out", "laws.csv")
    assert (code, err) == (0, "")
    assert json.loads(out) == jl.law_table().to_dict(orient="records")
    names = pd.read_csv(tmp_path / "laws.csv")["name"]
    assert names.tolist() == jl.law_table()["name"].tolist()


def test_a_study_has_folds_of_its_own_and_says_which(command, tmp_path):
    """Rows of one run share noise: where a column names the runs, these are held out whole."""
    table = simulate.experiment("loss-compute", noise=0.01).table.iloc[:12]
    options = ("--n-starts", "16", "--n-local", "4")
    for runs, folds in ((table, "k-fold:5"),
                        (table.assign(run=np.arange(12) // 2), "k-fold:5:groups=run")):  # fmt: skip
        runs.to_csv(tmp_path / "runs.csv", index=False)
        code, out, err = command("study", "loss-compute", "runs.csv", *options)
        assert code == 0 and f"--folds {folds}; hold-out:C would" in err and "5 folds" in out


# --- fit


def test_fit_from_standard_input_prints_the_summary(command, chinchilla_fit):
    code, out, err = command("fit", "chinchilla", "-", *MAPPED, stdin=USERS.to_csv(index=False))
    assert (code, err) == (0, "")
    summary = chinchilla_fit.summary().replace("DataFrame", "standard input")
    assert out.splitlines()[1:] == summary.splitlines()[1:]


@pytest.mark.full
def test_options_reach_the_fit(command, runs):
    code, out, err = command(
        "fit", "chinchilla", "runs.csv", *MAPPED, "--n-starts", "64", "--n-local", "16",
        "-u", "N=1", "-u", "D=1", "--where", "n_params > 2e8",
        "--fix", "E=1.69", "--tie", "beta=alpha", "--bound", "A=1:",
        "--delta", "0.01", "--asymmetry", "2", "--seed", "3", "--json",
    )  # fmt: skip
    python = jl.fit(
        "chinchilla", USERS, columns={"N": "n_params", "D": "n_tokens"}, units={"N": 1, "D": 1},
        n_starts=64, n_local=16, fixed={"E": 1.69}, tied={"beta": "alpha"},
        bounds={"A": (1, None)}, where="n_params > 2e8", delta=0.01, asymmetry=2, seed=3,
    )  # fmt: skip
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert record["params"] == python.params
    assert record["params"]["E"] == 1.69
    assert record["params"]["alpha"] == record["params"]["beta"]
    assert record["n_observations"] == python.n_observations < len(USERS)
    assert (record["n_starts"], record["n_solved"]) == (64, 16)


@pytest.mark.full
def test_base_and_no_base(command, fit_file, tmp_path):
    experiment = simulate.experiment("cpt-chinchilla")
    experiment.table.to_csv(tmp_path / "cpt.csv", index=False)
    record = {"params": dict(simulate.TRUTHS["from-scratch"])}
    saved = json.loads(fit_file.read_text()) | record
    del saved["digest"], saved["probe"]  # of the parameters before
    fit_file.write_text(json.dumps(saved))
    code, out, _ = command("fit", "cpt-chinchilla", "cpt.csv", "--base", "fit.json", "--json")
    assert code == 0
    assert {"E", "A", "alpha"} == set(json.loads(out)["fixed"])
    code, out, _ = command("fit", "cpt-chinchilla", "cpt.csv", "--no-base", "--json")
    assert code == 0
    assert json.loads(out)["fixed"] == {}
    code, _, err = command("fit", "cpt-chinchilla", "cpt.csv")
    assert code == 2
    assert "--no-base" in err and "fixed={}" not in err


@pytest.mark.full
def test_a_fit_not_to_be_used_is_printed_and_exits_with_1(command, tmp_path):
    rng = np.random.default_rng(0)
    noise = TABLE.assign(loss=3 * np.exp(0.3 * rng.standard_normal(len(TABLE))))
    noise.to_csv(tmp_path / "noise.csv", index=False)
    code, out, err = command("fit", "chinchilla", "noise.csv")
    assert (code, err) == (1, "")
    assert "[error] poor-fit" in " ".join(out.split())
    assert_narrow(out)
    code, out, err = command("fit", "chinchilla", "noise.csv", "--strict")
    assert (code, out) == (1, "")
    assert "does not describe these runs" in err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("chinchila", "runs.csv"), 2, "Did you mean 'chinchilla'"),
        (("chinchilla", "runs.csv"), 1, "fit chinchilla runs.csv -c N=n_params -c D=n_tokens"),
        (("annealing", "runs.csv"), 1, "--schedules cosine:peak=PEAK"),
        (("chinchilla", "runs.csv", "-c", "N"), 2, "--column takes NAME=VALUE"),
        (("chinchilla", "runs.csv", *MAPPED, "-u", "N=T"), 1, "column n_params"),
        (("chinchilla", "runs.csv", *MAPPED, "--fix", "alpha"), 2, "--fix takes NAME=VALUE"),
        (("chinchilla", "runs.csv", *MAPPED, "--bound", "alpha=1"), 2, "LOW:HIGH"),
        (("chinchilla", "runs.csv", *MAPPED, "--n-local", "-3"), 2, "--n-local"),
        (("chinchilla",), 2, "data"),
    ],
)
def test_wrong_calls_and_bad_data(command, runs, arguments, code, said):
    seen, out, err = command("fit", *arguments)
    assert (seen, out) == (code, "")
    assert said.lower() in err.lower()


# --- predict


@pytest.mark.parametrize(
    "at", [("--at", "N=1e9,7e9", "--at", "D=1e10,1e12"), ("--at", "N=1e9,7e9,D=1e10,1e12")]
)
def test_predict_at_values(command, fit_file, chinchilla_fit, at):
    arguments = ("predict", fit_file, *at)
    code, out, err = command(*arguments, "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    N, D = np.array(record["N"]), np.array(record["D"])
    assert list(zip(N, D, strict=True)) == [(1e9, 1e10), (1e9, 1e12), (7e9, 1e10), (7e9, 1e12)]
    assert record["loss"] == chinchilla_fit.predict(N=N, D=D).tolist()
    assert record["outside"] == chinchilla_fit.is_extrapolation(N=N, D=D).tolist()
    code, out, _ = command(*arguments)
    assert code == 0
    assert record["units"]["N"] == ["parameters", 1.0]
    assert f" {record['loss'][3]:.4g} " in out
    assert out.count(" outside\n") == sum(record["outside"])
    assert_narrow(out)


def test_predict_at_the_points_of_a_file(command, fit_file, chinchilla_fit, tmp_path):
    """Cells may say their unit, as values of --at may."""
    (tmp_path / "points.csv").write_text("N,D\n7B,1e12\n70B,1.4T\n")
    code, out, err = command("predict", "fit.json", "--at", "points.csv", "--json")
    assert (code, err) == (0, "")
    expected = chinchilla_fit.predict(N=[7e9, 7e10], D=[1e12, 1.4e12])
    assert json.loads(out)["loss"] == expected.tolist()
    for line, said in {
        "--at points.csv --at D=1e12": "--at takes one file of points, or NAME=VALUE for each",
        "--at points": "--at takes NAME=VALUE, or a file of points, not 'points'",
        "--at point.csv": "there is no file point.csv. Did you mean 'points.csv'",
    }.items():
        code, out, err = command("predict", "fit.json", *line.split())
        assert (code, out) == (2, "") and said in err


@pytest.mark.full
def test_a_forecast_reads_its_points_as_what_they_say(command, tmp_path):
    """Runs count tokens in billions; the target is said in billions and trillions, or in a file."""
    runs = TABLE[TABLE["N"] < 4e9].iloc[::4]
    runs.assign(N=runs["N"] / 1e6, D=runs["D"] / 1e9).to_csv(tmp_path / "runs.csv", index=False)
    (tmp_path / "points.csv").write_text("N,D\n8B,1.6T\n")
    line = "runs.csv -u N=1e6 -u D=1e9".split()
    tables = [
        json.loads(command("forecast", *line, "--at", at, "--json")[1])["table"]
        for at in ("N=8000,D=1600", "N=8B,D=1.6T", "points.csv")
    ]
    assert tables[0] == tables[1] == tables[2]
    assert (tables[0][0]["N"], tables[0][0]["D"]) == (8000.0, 1600.0)


def test_the_file_of_a_forecast_predicts_or_says_what_to_run(command, tmp_path):
    forecast = a_forecast()
    forecast.save(tmp_path / "one.json")
    at = ("--at", "N=7e9", "--at", "D=1e12")
    code, out, err = command("predict", "one.json", *at, "--json")
    predicted = forecast.posterior.fit.predict(N=7e9, D=1e12)
    assert code == 0 and json.loads(out)["loss"] == pytest.approx([float(predicted)])
    assert "its law without the interval, which `jaxlaw forecast` gives" in err
    USERS.to_csv(tmp_path / "runs.csv", index=False)
    code, _, err = command("design", "next", "one.json", "runs.csv", "runs.csv", *at, *MAPPED)
    assert code == 2 and "`jaxlaw design next` takes what `jaxlaw fit` wrote" in err


def test_predict_at_the_rows_of_a_file(command, fit_file, chinchilla_fit, runs, tmp_path):
    code, out, err = command("predict", fit_file, "runs.csv", *MAPPED, "--out", "pred.csv")
    assert (code, err) == (0, "")
    with open(tmp_path / "pred.csv", newline="") as file:
        written = list(csv.DictReader(file))
    # The file's own columns stay, the mapped ones under the law's names; it has losses, so errors.
    found = ["predicted", "residual", "relative_error", "outside"]
    others = [name for name in USERS if name not in ("n_params", "n_tokens")]
    assert list(written[0]) == ["N", "D", *others, *found]
    assert [row["loss"] for row in written] == [str(one) for one in USERS["loss"]]
    predicted = [float(row["predicted"]) for row in written]
    np.testing.assert_array_equal(predicted, chinchilla_fit.predict(TABLE))
    scores = chinchilla_fit.score(TABLE)
    for name in ("residual", "relative_error"):
        np.testing.assert_array_equal([float(row[name]) for row in written], scores.table[name])
    assert {row["outside"] for row in written} == {"False"}
    assert "\n".join(scores.summary().splitlines()[1:]) in out


def test_predict_of_runs_that_are_not_all_done_yet(command, fit_file, chinchilla_fit, tmp_path):
    """A table of runs, done and to come: it keeps its columns, and the errors are of those done."""
    table = TABLE.iloc[:4].assign(
        loss=[2.5, np.nan, 2.0, np.nan], run=["a", "b", None, "d"], outside="mine", scores=1
    )
    table.to_csv(tmp_path / "plan.csv", index=False)
    code, out, err = command("predict", fit_file, "plan.csv", "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    done = table.iloc[[0, 2]]
    assert record["scores"] == json.loads(json.dumps(chinchilla_fit.score(done).metrics))
    assert record["predicted"] == chinchilla_fit.predict(table).tolist()
    assert record["run"] == ["a", "b", None, "d"] and record["loss"] == [2.5, "nan", 2.0, "nan"]
    assert record["outside (as in the file)"] == ["mine"] * 4
    assert record["scores (as in the file)"] == [1] * 4
    code, out, _ = command("predict", fit_file, "plan.csv", "--where", "loss > 2.1")
    assert code == 0 and "relative error" in out and "loss" in out
    assert_narrow(out)
    table.assign(loss=np.nan).to_csv(tmp_path / "plan.csv", index=False)
    record = json.loads(command("predict", fit_file, "plan.csv", "--json")[1])
    assert "scores" not in record and record["loss"] == chinchilla_fit.predict(table).tolist()
    assert record["loss (as in the file)"] == ["nan"] * 4


def test_predict_takes_the_share_of_the_other_corpus(command, chinchilla_fit, tmp_path):
    ones = dict.fromkeys("NDr", 1.0)
    fit = dataclasses.replace(  # no fit needed: the truth of a simulation
        chinchilla_fit,
        law=jl.laws.get("dcpt"),
        params=dict(simulate.TRUTHS["dcpt"]),
        units=ones,
        ranges={"N": (0.5, 4.0), "D": (0.1, 3.0), "r": (0.0, 1.0)},
    )
    fit.save(tmp_path / "fit.json")
    points = pd.DataFrame({"N": [1.8, 1.8], "D": [2.0, 2.0], "r_d": [0.2, 0.9]})
    points.to_csv(tmp_path / "points.csv", index=False)
    for side, r in (("domain", points["r_d"]), ("general", 1 - points["r_d"])):
        code, out, _ = command("predict", "fit.json", "points.csv", "--share", side, "--json")
        assert code == 0
        assert json.loads(out)["r"] == r.tolist()
        assert json.loads(out)["loss"] == fit.predict(N=1.8, D=2.0, r=r).tolist()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "say where to predict"),
        (("--at", "N=1e9"), 2, "input D is missing"),
        (("--at", "N=-1", "--at", "D=1e9"), 1, "must be finite and positive"),
        (("runs.csv",), 1, "--column N=n_params"),
        (("runs.csv", "-c", "N=n_params", "-c", "D=text"), 1, "'abc' is not a number"),
        (("runs.csv", "-c", "N=n_params", "-c", "D=gap"), 1, "line 2 (nan)"),
    ],
)
def test_predict_says_what_is_wrong(command, fit_file, tmp_path, arguments, code, said):
    table = USERS.iloc[:3].assign(text="abc", gap=[np.nan, 1.0, 1.0])
    table.to_csv(tmp_path / "runs.csv", index=False)
    seen, out, err = command("predict", fit_file, *arguments)
    assert (seen, out) == (code, "")
    assert said in err


# --- demo


@pytest.mark.full
def test_demo_recovers_the_truth_and_draws_it(command, tmp_path):
    code, out, err = command("demo", "--out", "here.png", "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert (tmp_path / "here.png").read_bytes().startswith(b"\x89PNG")
    for side in ("general", "domain"):
        page = record[side]
        assert page["rms_error"] < 0.004 / 2  # predictions: far within the noise
        assert page["fitted"]["E"] == pytest.approx(page["true"]["E"], rel=0.05)


# --- curves

LINE = "cosine:peak=3e-4,steps=4000,final=3e-5,warmup=200"


@pytest.fixture
def curve_files(tmp_path):
    """curves.csv and schedules.json, in the command's folder."""
    logged().to_csv(tmp_path / "curves.csv", index=False)
    (tmp_path / "schedules.json").write_text(json.dumps(SPECS))


@pytest.fixture(scope="module")
def curve_fit():
    return jl.fit("annealing", jl.read_loss_curves(logged(), schedules=SPECS))


def test_areas_of_a_schedule(command, tmp_path):
    code, out, err = command("areas", LINE, "--at", "200,4000", "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    areas = jl.areas(jl.schedules.parse(LINE), at=[200, 4000], count_warmup=False)
    assert record["step"] == [200, 4000] and record["lr"] == pytest.approx([3e-4, 3e-5])
    assert record["S1"] == areas.S1.tolist() and record["S2"] == areas.S2.tolist()
    code, out, _ = command(
        "areas", LINE, "--at", "4000", "--count-warmup", "--decay", "0.99", "--json"
    )
    assert json.loads(out)["S2"] == jl.areas(jl.schedules.parse(LINE), 0.99, at=[4000]).S2.tolist()
    code, out, _ = command("areas", f"{LINE}+constant:lr=1e-4,steps=500", "--carry-momentum")
    assert code == 0 and "S2_cpt" in out and len(out.splitlines()) == 22
    assert_narrow(out)
    code, out, _ = command("areas", LINE, "--at", "all", "--out", "areas.csv")
    assert (code, out) == (0, "")
    assert len(pd.read_csv(tmp_path / "areas.csv")) == 4000


def test_the_decay_is_given_or_fitted(command, curve_files):
    fit = ("fit", "annealing", "curves.csv", "--schedules", "schedules.json", "--json")
    record = json.loads(command(*fit, "--decay", "0.99")[1])
    assert record["area_options"]["decay"] == 0.99
    code, out, _ = command(*fit, "--decay", "fit")
    assert code == 0
    assert json.loads(out)["area_options"]["decay"] == pytest.approx(0.999, abs=1e-4)


def test_a_curve_is_predicted_and_drawn(command, curve_fit, tmp_path):
    curve_fit.save(tmp_path / "fit.json")
    predict = ("curve", "fit.json", "--schedule", LINE)
    expected = curve_fit.predict_curve(LINE, [200, 4000])
    code, out, err = command(*predict, "--at", "200,4000", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {name: column.tolist() for name, column in expected.items()}
    code, out, _ = command("curve", "fit.json", "--schedule", "constant:lr=3e-4,steps=9000")
    said = " ".join(out.split())
    assert code == 0 and said.startswith("after 9,000 steps: loss ") and " nats" in said
    assert "75% of these steps lie beyond what was fitted on" in said
    assert_narrow(out)
    later = (*predict, "--at", "300", "--first-step", "100", "--s1-before", "0.1", "--out", "c.csv")
    assert command(*later)[:2] == (0, "")
    expected = curve_fit.predict_curve(LINE, [300], first_step=100, S1_before=0.1)
    written = pd.read_csv(tmp_path / "c.csv")
    pd.testing.assert_frame_equal(written, expected)
    pytest.importorskip("matplotlib")
    assert command(*predict, "--out", "c.png") == (0, "picture: c.png\n", "")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


FIT = ("fit", "annealing", "curves.csv")


def test_areas_are_counted_as_the_flags_say(command, curve_files, tmp_path):
    table = pd.read_csv(tmp_path / "curves.csv").assign(worth=0.5)
    table.to_csv(tmp_path / "curves.csv", index=False)
    flags = ("--carry-momentum", "--count-warmup", "--epsilon", "0.1", "--batch", "worth")
    code, out, err = command(
        "fit", "annealing", "curves.csv", "--schedules", "schedules.json", *flags,
        "--out", "counted.json", "--json",
    )  # fmt: skip
    assert (code, err) == (0, "")
    options = {"carry_momentum": True, "count_warmup": True, "epsilon": 0.1}
    assert json.loads(out)["area_options"] == {"decay": 0.999} | options
    code, out, _ = command(
        "curve", "counted.json", "--schedule", LINE, "--at", "3000", "--batch", "0.5", "--json"
    )
    fit = jl.load(tmp_path / "counted.json")
    assert json.loads(out)["loss"] == fit.predict_curve(LINE, [3000], batch=0.5)["loss"].tolist()
    curves = jl.read_loss_curves(logged(), schedules=SPECS, batch=0.5).runs(**options)
    assert fit.ranges["S1"] == curves.observations("annealing").ranges["S1"]
    code, out, _ = command(
        "areas", LINE, "--epsilon", "0.1", "--batch", "0.5", "--at", "9", "--json"
    )
    areas = jl.areas(jl.schedules.parse(LINE), at=[9], count_warmup=False, epsilon=0.1)
    assert json.loads(out)["S2"] == (0.5 * areas.S2).tolist()


BOTH = ("--schedules", "schedules.json")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("areas", "cosin:peak=1"), 2, "Did you mean 'cosine'"),
        (("areas", LINE, "--at", "4001"), 2, "0 to 4000"),
        ((*FIT, "--epsilon", "0.1"), 2, "give their learning rates with"),
        ((*FIT, *BOTH, "--batch", "worth"), 2, "there is no column worth"),
        (("areas", LINE, "--decay", "2"), 2, "one number in [0, 1]"),
        ((*FIT, "--schedules", "none.json"), 2, "there is no file none.json"),
        ((*FIT, "--schedules", "lr"), 1, "pass --fill linear"),
        ((*FIT, *BOTH, "--first-step", "50"), 2, "pass --s1-before"),
        ((*FIT, *BOTH, "--decay", "best"), 2, "'best' is not a number"),
        (("curve", "none.json", "--schedule", LINE), 2, "cannot read none.json"),
        (("curve", "fit.json", "--schedule", LINE, "--at", "5000"), 2, "0 to 4000"),
        (("curve", "fit.json", "--schedule", LINE, "--decay", "0.9"), 2, "leave --decay out"),
    ],
)
def test_curves_say_what_is_wrong(command, curve_files, curve_fit, tmp_path, arguments, code, said):
    curve_fit.save(tmp_path / "fit.json")
    seen, out, err = command(*arguments)
    assert (seen, out) == (code, "")
    assert said in err


# --- long work


def test_long_work_is_kept_shown_and_refused_to_others(command, runs, tmp_path):
    long = ("fit", "chinchilla", runs, *MAPPED, "--work-dir", tmp_path / "work")
    code, first, shown = command(*long, "--progress", "--json")
    assert code == 0 and shown.startswith("jaxlaw: ") and "lanes" not in shown
    assert (tmp_path / "work" / "manifest.json").exists()
    assert list((tmp_path / "work").glob("newton-*.npz"))
    assert command(*long, "--quiet", "--json") == (0, first, "")
    code, _, said = command(*long, "--seed", "1")
    assert code == 2 and "holds another batch (its starts differ)" in said
