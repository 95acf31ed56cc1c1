"""Help in groups, laws by family, completion: what a new user finds without reading a chapter."""

import json
import os
import subprocess
import sys

import pytest

import jaxlaw as jl
from jaxlaw._law_families import FAMILIES

pytest.importorskip("typer")
from jaxlaw import cli  # noqa: E402


def test_every_built_in_law_has_a_family():
    listed = [name for names in FAMILIES.values() for name in names]
    built_in = {name for name in jl.laws.names() if jl.laws.is_built_in(jl.laws.get(name))}
    assert set(listed) == built_in and len(listed) == len(built_in)
    assert set(jl.law_table()["family"]) >= set(FAMILIES)


@pytest.mark.parametrize(
    "law,said",
    [
        ("dcpt", "-c N=COLUMN -c D=COLUMN -c r=COLUMN -c loss=COLUMN"),
        ("annealing", "runs.csv --schedules lr -c step=COLUMN -c lr=COLUMN -c loss=COLUMN"),
    ],
)
def test_a_law_says_what_it_takes_and_how_it_is_fitted(command, law, said):
    code, out, err = command("laws", law)
    assert (code, err) == (0, "") and jl.laws.get(law).formula in out
    assert said in " ".join(out.split())
    code, out, _ = command("laws", law, "--json")
    assert [row["name"] for row in json.loads(out)] == [law]


@pytest.mark.parametrize(
    "line,found",
    [
        ("fit chin", ["chinchilla"]),
        (
            "predict published:hoff",
            ["published:hoffmann-2022", "published:hoffmann-2022-unrounded"],
        ),
        ("study --folds k", ["k-fold"]),
    ],
)
def test_completion_of_names_waits_for_nothing_heavy(line, found):
    script = (
        "import sys\nfrom jaxlaw.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        "print(sorted({'jax', 'numpy', 'pandas', 'scipy'} & set(sys.modules)), file=sys.stderr)"
    )
    shell = {"_JAXLAW_COMPLETE": "complete_bash", "COMP_WORDS": f"jaxlaw {line}"}
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True,
        env={**os.environ, **shell, "COMP_CWORD": str(len(line.split()))},
    )  # fmt: skip
    assert (ended.stdout.split(), ended.stderr) == (found, "[]\n")


def test_a_command_imports_no_module_of_others():
    """As ``jaxlaw fit`` it is made alone; an unknown name needs all of them, for suggestions."""
    script = (
        "import sys; from jaxlaw import cli; sys.argv = ['jaxlaw', *sys.argv[1:]]\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        "print(*sorted({f'jaxlaw.cli.{name}' for name in cli._MODULES} & set(sys.modules)))"
    )
    for line, modules in (
        ("--verbose bootstrap --help", ["_curves", "_uncertainty"]),
        ("design next --help", ["_experiments"]),
        ("laws --help", ["_curves", "_fit"]),
        ("--help", sorted(cli._MODULES)),
        ("fits --help", sorted(cli._MODULES)),
    ):
        ended = subprocess.run(
            [sys.executable, "-c", script, *line.split()], capture_output=True, text=True
        )
        assert ended.stdout.splitlines()[-1].split() == [f"jaxlaw.cli.{m}" for m in modules]
