"""Every command and snippet of the README runs, and prints what the README shows."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jaxlaw as jl

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def blocks():
    text = README.read_text()
    text = re.sub(r"<!-- install -->\n```bash\n.*?```", "", text, flags=re.DOTALL)
    return BLOCK.findall(text)


def assert_same_output(printed, shown):
    """Words to the letter, numbers to one unit of their last three digits shown."""
    squeezed = [" ".join(text.split()) for text in (printed, shown)]
    assert NUMBER.sub("#", squeezed[0]) == NUMBER.sub("#", squeezed[1])
    numbers = [[float(n) for n in NUMBER.findall(text)] for text in squeezed]
    assert numbers[0] == pytest.approx(numbers[1], rel=2e-3, abs=1e-9)


def run_command(line, folder):
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_every_snippet_runs_and_prints_what_is_shown(tmp_path, monkeypatch, own_laws):
    monkeypatch.chdir(tmp_path)
    namespace, printed, kinds = {}, "", []
    for kind, body in blocks():
        kinds.append(kind)
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body, "README.md", "exec"), namespace)
            printed = out.getvalue()
        elif kind == "console":
            lines = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
            printed = "".join(run_command(line, tmp_path) for line in lines)
        elif kind == "text":
            assert_same_output(printed, body)
        else:
            raise AssertionError(f"a block of kind {kind} is run by nothing")
    assert kinds.count("python") >= 6 and "console" in kinds


def test_the_install_block_has_two_commands():
    block = re.search(r"<!-- install -->\n```bash\n(.*?)```", README.read_text(), re.DOTALL)
    assert block.group(1).splitlines() == [
        "pip install -e '.[all]' && jaxlaw demo",
        "pytest",
    ]


def test_the_table_of_laws_is_the_one_in_the_package():
    builtin = [row for row in jl.law_table().to_dict("records") if row["grid"] or row["source"]]
    for row in builtin:
        line = (
            f"| {row['name']} | {row['formula']} | {row['units']} | {row['grid'] or ''} "
            f"| {row['source']} |"
        )
        assert line in README.read_text()


def test_every_module_is_in_the_picture_of_the_house():
    package = Path(jl.__file__).parent
    text = README.read_text().split("## How the house is built")[1]
    for path in [*package.glob("*.py"), *package.glob("laws/*.py"), *package.glob("solvers/*.py")]:
        if path.stem not in ("__init__", "status"):
            assert path.stem in text, f"{path.name} has no place in the README's picture"
