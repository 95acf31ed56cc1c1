"""What holds for every command: found from the app, so that a new one is asked the same."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jaxlaw as jl
from tests.conftest import HEEDS
from tests.fixtures import shell_lines
from tests.fixtures.command_files import OBJECTIVE, OPTIMUM, prepare
from tests.fixtures.python_calls import PYTHON, SMALLER, plain

pytest.importorskip("typer")
from jaxlaw.cli._plans import make_plans  # noqa: E402

from jaxlaw import cli  # noqa: E402


def commands(group, before=""):
    """Every command of the app by its full name."""
    found = {f"{before}{one.name}": one.callback for one in group.registered_commands}
    for inner in group.registered_groups:
        found |= commands(inner.typer_instance, f"{before}{inner.name} ")
    return found


COMMANDS = commands(cli.make_app()) | commands(make_plans(), "plan ")


def example(name):
    """The arguments of the example in a command's help."""
    said = COMMANDS[name].__doc__.split("Example: jaxlaw ")[1]
    return [*shlex.split(said), *shlex.split(SMALLER.get(name, ""))]


#: What all commands do by the same lines of code is asked of these.
FEW = ("fit", "predict", "plan allocation", "plan transfer")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    prepare(folder)
    return folder


@pytest.fixture
def folder(files, tmp_path, monkeypatch):
    """A copy of the prepared files, which is where commands run."""
    shutil.copytree(files, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def assert_narrow(text):
    assert [line for line in text.splitlines() if len(line) > 80] == []


# --- help, examples, JSON, tables


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example_and_fits_the_page(command, name):
    code, out, err = command(*name.split(), "--help")
    assert (code, err) == (0, "")
    assert f"Example: jaxlaw {name} " in out and "--json" in out and "--out" in out
    assert "--verbose" in out
    assert_narrow(out)


#: Commands whose files hold what they print, in no form that a picture takes.
NO_RESULT = {
    "predict", "areas", "curve", "influence", "identifiability", "plan observed-transfer",
    "plan loss-envelope",
}  # fmt: skip
#: Commands that write no numbers, or pages.
NO_FILE = {"plot", "report", "demo"}


@pytest.mark.full
@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])
def test_the_example_gives_the_numbers_of_python_and_is_drawn(command, folder, name):
    """A test of its own runs the demo."""
    written = () if name in NO_FILE else ("--out", "written.json")
    code, out, err = command(*example(name), *written, "--json")
    assert (code, err) == (0, "")
    record = json.loads(out, parse_constant=pytest.fail)
    if written:
        code, out, err = command("plot", "written.json", "--out", "drawn.svg")
        if name in NO_RESULT:
            assert code == 1 and "of the numbers that commands print alone there is no" in err
        else:
            assert (code, out, err) == (0, "picture: drawn.svg\n", "")
            assert Path("drawn.svg").read_text().count("<path") > 5
    if name in PYTHON:
        prepare(folder)  # as it was: examples write files
        assert record == json.loads(json.dumps(plain(PYTHON[name]())))


@pytest.mark.full
@pytest.mark.parametrize("name", ["plan allocation", "plan transfer", "plan optimal-mixture"])
def test_a_plan_takes_the_draws_that_bootstrap_wrote(command, folder, name):
    """``--draws`` writes JSON or a table: both give the same intervals."""
    random, options = np.random.default_rng(0), {"json": [], "csv": []}
    fits = [re.fullmatch(r"(?:\w+=)?(published:.+|.+\.json)", word) for word in example(name)]
    for k, file in enumerate(match[1] for match in fits if match):
        fit = shell_lines.loaded(file)
        draws = {name: v * random.normal(1, 1e-3, 6) for name, v in fit.params.items()}
        jl.uncertainty.Draws(fit, draws).save(f"draws-{k}.json")
        pd.DataFrame(draws).to_csv(f"draws-{k}.csv", index=False)
        for kind, given in options.items():
            given += ["--bootstrap", f"draws-{k}.{kind}"]
    alone, *drawn = (command(*example(name), *given, "--json") for given in ([], *options.values()))
    assert [(code, err) for code, _, err in (alone, *drawn)] == [(0, "")] * 3
    assert drawn[0] == drawn[1] != alone


def test_intervals_are_no_draws(command, folder):
    """What `bootstrap --out` writes has none: the message names the option that writes them."""
    Path("intervals.json").write_text('{"law": "chinchilla", "level": 0.95, "parameters": []}')
    line = ("plan", "allocation", "fit.json", "--compute", 1e21, "--bootstrap", "intervals.json")
    code, _, err = command(*line)
    assert code == 1 and "--draws x.json of `jaxlaw bootstrap` writes it" in err


@pytest.mark.full
def test_the_prepared_fit_is_the_optimum_of_the_prepared_runs(folder):
    fit = jl.fit("chinchilla", "runs.csv")
    assert fit.params == pytest.approx(OPTIMUM, rel=1e-6)
    assert fit.objective == pytest.approx(OBJECTIVE, rel=1e-9)


# --- exit codes and pipes


@pytest.mark.parametrize("name", FEW)
def test_an_unknown_option_and_an_impossible_file_are_wrong_usage(command, folder, name):
    code, out, err = command(*example(name), "--nope")
    assert (code, out) == (2, "") and "--nope" in err
    code, out, err = command(*example(name), "--out", "no/such/folder.json")
    assert (code, out) == (2, "") and "a folder that exists" in err


@pytest.mark.parametrize("name", FEW)
def test_a_file_that_a_command_does_not_write_is_refused_before_any_work(command, folder, name):
    there = sorted(folder.iterdir())
    for path in there:
        path.write_bytes(b"")  # nothing that could be read, should any of it be
    for ending in (".gif", ".xlsx"):
        code, out, err = command(*example(name), "--out", f"here{ending}")
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert f"here{ending}: this command writes" in err and "give here." in err
    assert sorted(folder.iterdir()) == there


@pytest.mark.parametrize(
    "name", ["laws", "laws --published", "laws --field", "areas", "curve", "predict"]
)
def test_a_table_is_written_as_what_its_file_is_named(command, folder, name):
    asked = name.split() if name.startswith("laws") else inputs(name)
    for ending in ("csv", "json"):
        code, _, err = command(*asked, "--out", f"here.{ending}")
        assert (code, err) == (0, "")
    table = pd.read_csv(folder / "here.csv")
    record = json.loads((folder / "here.json").read_text("utf-8"))
    if isinstance(record, dict):
        for name in ("units", "next_step"):
            record.pop(name, None)
    assert pd.DataFrame(record).columns.tolist() == table.columns.tolist()
    assert len(pd.DataFrame(record)) == len(table) > 0


def inputs(name):
    """The example without what it writes."""
    parts = example(name)
    return parts[: parts.index("--out")] if "--out" in parts else parts


@pytest.mark.parametrize("name", FEW)
def test_missing_files_are_wrong_usage_and_broken_ones_bad_data(command, folder, name):
    for path in folder.iterdir():
        path.write_bytes(b"\x00\x01")
    code, out, err = command(*inputs(name))
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    for path in folder.iterdir():
        path.unlink()
    code, out, err = command(*inputs(name))
    assert (code, out, len(err.splitlines())) == (2, "", 1)


@pytest.mark.parametrize("name", FEW)
def test_what_a_command_reads_is_never_overwritten(command, folder, name):
    read = {part.split("=")[-1] for part in inputs(name)}
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    files = sorted(read & set(before))
    assert files
    Path("link.json").symlink_to(files[-1])
    Path("hard.csv").hardlink_to(files[0])
    for out in (*files, f"./{files[0]}", "link.json", "hard.csv"):
        code, said, err = command(*inputs(name), "--out", out)
        assert (code, said) == (2, "") and "would overwrite" in err and str(Path(out)) in err
    assert {file: Path(file).read_bytes() for file in before} == before


@pytest.fixture
def behind_stdin():
    """Puts a file behind standard input, as ``< file`` does."""
    before = os.dup(0)

    def put(file):
        with open(file, "rb") as opened:
            os.dup2(opened.fileno(), 0)

    yield put
    os.dup2(before, 0)
    os.close(before)


@pytest.mark.parametrize("name", FEW)
def test_the_file_behind_standard_input_is_not_overwritten(command, folder, behind_stdin, name):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    files = [part for part in inputs(name) if part in before]
    for file in files:
        behind_stdin(file)
        Path("link.csv").unlink(missing_ok=True)
        Path("link.csv").symlink_to(file)
        piped = ["-" if part == file else part for part in inputs(name)]
        for out in (file, "link.csv"):
            code, said, err = command(*piped, "--out", out)
            assert (code, said) == (2, "") and f"{out} would overwrite standard input" in err
    assert {file: Path(file).read_bytes() for file in before} == before


def test_files_of_options_and_of_folders_are_not_overwritten_either(command, folder):
    asked = (
        ("bootstrap", "chinchilla", "runs.csv", "--draws", "runs.csv"),
        ("fit", "cpt-chinchilla", "runs.csv", "--base", "fit.json", "--out", "fit.json"),
        ("report", "fit.json", "--data", "runs.csv", "-o", "runs.csv"),
    )
    for arguments in asked:
        code, _, err = command(*arguments)
        assert code == 2 and "would overwrite" in err
    code, _, err = command("bootstrap", "chinchilla", "runs.csv", "--out", "x", "--draws", "./x")
    assert code == 2 and "name one file" in err
    Path("logs/a").mkdir(parents=True)
    shutil.copy("runs.csv", "logs/a/history.csv")
    logs = ("plan", "loss-envelope", "logs", "--format", "wandb", "--out", "logs/a/history.csv")
    code, _, err = command(*logs)
    assert code == 2 and "would overwrite logs" in err


def test_a_file_that_is_not_read_may_be_replaced(command, folder):
    Path("answer.csv").write_text("old")
    Path("answer.csv").chmod(0o640)
    Path("link.csv").symlink_to("answer.csv")
    asked = ("predict", "fit.json", "--at", "N=1e9", "--at", "D=1e10", "--out", "link.csv")
    assert command(*asked)[0] == 0
    assert Path("link.csv").is_symlink() and Path("answer.csv").read_text().startswith("N,D,loss")
    assert Path("answer.csv").stat().st_mode & 0o777 == 0o640
    Path("chinchilla").write_text("a file with the name of a law")
    mapped = ("-c", "N=n_params", "-c", "D=n_tokens", "--n-starts", "64")
    assert command("fit", "chinchilla", "runs.csv", *mapped, "--out", "chinchilla")[0] == 0
    assert jl.load("chinchilla").law.name == "chinchilla"
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert not left


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="limits on file sizes are POSIX")
@pytest.mark.parametrize("out", ["answer.csv", "answer.png"])
def test_a_full_disk_leaves_the_older_file(folder, out):
    """Files beyond a limit fail as on a full disk."""
    Path(out).write_text("old")
    asked = {
        "answer.csv": ["laws", "--out", out],
        "answer.json": ["laws", "--name", "hoffmann-2022", "--out", out],
        "answer.png": ["plan", "frontier", "fit.json", "--compute", "1e19:1e22", "--out", out],
        "page.html": ["report", "fit.json", "-o", out],
    }[out]
    script = f"""
import resource, signal, sys
from jaxlaw import cli
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.argv = ["jaxlaw", *{asked!r}]
import matplotlib.figure
resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.RLIM_INFINITY))
cli.main()
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 2 and f"cannot write {out}: File too large" in ended.stderr
    assert Path(out).read_text() == "old" and not list(folder.glob(".jaxlaw-*"))


@pytest.mark.parametrize("name", FEW)
def test_an_interrupt_ends_with_130(command, folder, monkeypatch, name):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    found = cli._commands(name.split()[0])
    for part in name.split():
        found = found.commands[part]
    monkeypatch.setattr(found, "callback", interrupted)
    code, out, err = command(*example(name))
    assert (code, out) == (130, "") and err.startswith("jaxlaw: interrupted")


def shell(line, folder, **options):
    root = Path(__file__).parents[2]
    python = shlex.quote(sys.executable)
    environment = os.environ | {"PYTHONPATH": str(root)}
    line = line.replace("jaxlaw ", f"{python} -m jaxlaw ")
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=300, **options,
    )  # fmt: skip


on_linux = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")


@pytest.mark.full
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("jaxlaw areas constant:lr=1e-4,steps=9", 0),
        ("jaxlaw predict runs.csv --at N=1e9", 1),
        ("jaxlaw areas constant:lr=1e-4", 2),
        ("jaxlaw areas constant:lr=1e-4,steps=3000 --at all | head -1", 141),
        ("jaxlaw laws | true", 141),
        pytest.param("jaxlaw laws --json > /dev/full", 2, marks=on_linux),
        pytest.param("jaxlaw --help > /dev/full", 2, marks=on_linux),
        pytest.param("jaxlaw areas constant:lr=1e-4,steps=9 > /dev/full", 2, marks=on_linux),
    ],
)
def test_exit_codes_of_the_process(files, line, code):
    done = shell(line, files)
    assert done.returncode == code
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert len(done.stderr.splitlines()) == (code in (1, 2))
    assert "cannot write to standard output: No space left" in done.stderr or "full" not in line


@pytest.mark.full
def test_ctrl_c_ends_the_process_with_130_in_one_line(files):
    root = Path(__file__).parents[2]
    script = HEEDS + "from jaxlaw.cli import main; main()"
    waiting = subprocess.Popen(
        [sys.executable, "-c", script, "--verbose", "predict", "-", "--at", "N=1"], cwd=files,
        env=os.environ | {"PYTHONPATH": str(root)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "reading" in waiting.stderr.readline()
    time.sleep(0.2)
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (130, "")
    assert "interrupted" in err and "Traceback" not in err


def test_a_fit_goes_through_pipes(command, folder):
    saved = Path("fit.json").read_text()
    at = ("--at", "N=1e9", "--at", "D=1e12")
    assert command("predict", "-", *at, stdin=saved) == command("predict", "fit.json", *at)
    plan = ("allocation", "--compute", "1e21")
    piped = command("plan", plan[0], "-", *plan[1:], stdin=saved)
    assert piped == command("plan", plan[0], "fit.json", *plan[1:]) and piped[0] == 0
    points = ("predict", "fit.json", "-")
    assert command(*points, stdin=Path("runs.csv").read_text())[0] == 0
    code, out, err = command("plan", "transfer", "-", "-", "--loss", 2, stdin=saved)
    assert (code, out) == (1, "") and "stands once" in err
    code, _, err = command("predict", "-", *at, stdin="")
    assert code == 1 and "standard input is not a jaxlaw fit or forecast: it is empty" in err


@pytest.mark.full
def test_a_fit_is_piped_into_a_prediction(files):
    fit = (
        "cat runs.csv | jaxlaw fit chinchilla - --n-starts 64 --n-local 16 --json | tee piped.json"
    )
    done = shell(f"{fit} | jaxlaw predict - --at N=1e9 --at D=1e12 --json", files)
    assert (done.returncode, done.stderr) == (0, "")
    fitted = jl.load(files / "piped.json")
    assert fitted.params == pytest.approx(OPTIMUM, rel=1e-6)
    assert json.loads(done.stdout)["loss"] == [float(fitted.predict(N=1e9, D=1e12))]


# --- names nearly right


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("fti chinchilla", 2, "'fit'"),
        ("plan optimal-mixtur a b", 2, "'optimal-mixture'"),
        ("fit chinchila runs.csv", 2, "'chinchilla'"),
        ("fit chinchilla run.csv", 2, "'runs.csv'"),
        ("fit chinchilla runs.csv -c N=n_parms", 2, "N=n_params"),
        ("fit chinchilla runs.csv --where n_parms>1", 2, "'n_params'"),
        ("fit chinchilla runs.csv --fix alhpa=1", 2, "'alpha'"),
        ("study chinchilla runs.csv --folds leave-one-grup-out:N", 2, "'leave-one-group-out'"),
        ("predict published:hofmann-2022 --at N=1", 2, "'hoffmann-2022'"),
        ("areas cosine:paek=1", 2, "'peak'"),
        ("plan allocation fit.json --compute 1e21 --bootstrap fit-drws.csv", 2, "fit-draws.csv"),
    ],
)
def test_a_name_nearly_right_is_suggested(command, folder, line, code, said):
    seen, out, err = command(*shlex.split(line))
    assert (seen, out) == (code, "")
    assert said in err.splitlines()[-1]


# --- completion


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("fit chinch", ["chinchilla"]),
        ("laws --name isik", [name for name in jl.published() if name.startswith("isik")]),
        ("fit dcpt runs.csv --solver ", ["newton", "lbfgs", "lbfgs-optax"]),
        ("predict published:kap", ["published:kaplan-2020"]),
        ("plan allocation published:kap", ["published:kaplan-2020"]),
        ("plan alloc", ["allocation", "allocation-law"]),
        ("fit --n-l", ["--n-local"]),
    ],
)
def test_the_shell_completes(command, monkeypatch, line, offered):
    words = f"jaxlaw {line}"
    monkeypatch.setenv("_JAXLAW_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    code, out, err = command()
    assert (code, err) == (0, "") and offered
    assert out.split() == offered


# --- verbosity


# --- without the extras

WITHOUT = "import sys; sys.modules['{0}'] = None; from jaxlaw.cli import main; main()"


@pytest.mark.full
@pytest.mark.parametrize(
    ("missing", "line", "said"),
    [
        ("typer", "laws", "jaxlaw[cli]"),
        ("rich", "laws", "jaxlaw[cli]"),
        ("matplotlib", "plan allocation fit.json --compute 1e21 --out a.png", "jaxlaw[plot]"),
    ],
)
def test_without_an_extra_one_line_says_how_to_install_it(files, missing, line, said):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing), *line.split()], cwd=files,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and len(done.stderr.splitlines()) == 1
