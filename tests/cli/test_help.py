"""Help in groups, laws by family, completion: what a new user finds without reading a chapter."""

import json
import os
import subprocess
import sys

import pytest

import jaxlaw as jl
from jaxlaw._law_families import FAMILIES, MADE

pytest.importorskip("typer")
from jaxlaw import cli  # noqa: E402
from jaxlaw.cli import _help, _options, make_app  # noqa: E402
from jaxlaw.cli._plans import make_plans  # noqa: E402


def headings(out):
    return [line[:-1] for line in out.splitlines() if line.endswith(":") and line[0] != " "]


def options(out, heading):
    """The first word of each entry below a heading."""
    lines = (out + "\n").partition(f"\n{heading}:\n")[2].partition("\n\n")[0].splitlines()
    return [line.split()[0].rstrip(",") for line in lines if line[2:3].strip()]


def test_the_options_of_fit_are_grouped_and_begin_with_the_columns(command):
    code, out, _ = command("fit", "--help")
    assert code == 0
    assert headings(out) == [
        "Arguments", "Data", "Law", "Loss curves", "Search", "Long work", "Output",
    ]  # fmt: skip
    assert out.index("--column") < out.index("--where") < out.index("--decay")
    assert options(out, "Data")[:3] == ["-c", "-u", "--where"]
    assert options(out, "Output")[:2] == ["--out", "--json"]
    assert "Usage: jaxlaw fit [OPTIONS] LAW DATA" in out
    for form in ("--column NAME=COLUMN", "--out FILE", "--n-starts N", "--delta NUMBER"):
        assert form in out
    assert "<str>" not in out and "list[" not in out


def test_options_of_a_command_alone_stand_above_its_groups(command):
    _, out, _ = command("forecast", "--help")
    assert headings(out)[:3] == ["Arguments", "Options", "Data"]
    assert options(out, "Options")[0] == "--at"
    assert "Usage: jaxlaw forecast [OPTIONS] DATA" in out
    assert "Usage: jaxlaw predict [OPTIONS] FIT [DATA]" in command("predict", "--help")[1]
    assert "Usage: jaxlaw cache [OPTIONS] [ACTION] [LAW]..." in command("cache", "--help")[1]


def test_commands_are_in_families_and_none_is_left_out(command):
    _, out, _ = command("--help")
    assert headings(out) == ["Options", *_help._COMMANDS]
    assert "..." not in out.partition("Options:")[2]  # no sentence is cut
    shown = [name for heading in _help._COMMANDS for name in options(out, heading)]
    there = {one.name for one in make_app().registered_commands} | {"plan", "design"}
    assert set(shown) == there and len(shown) == len(there)


def test_plans_are_in_families(command):
    _, out, _ = command("plan", "--help")
    shown = [name for heading in [*_help._PLANS, "Others"] for name in options(out, heading)]
    assert sorted(shown) == sorted(
        one.name for one in make_plans().registered_commands if one.hidden is not True
    )
    _, out, _ = command("design", "--help")
    assert options(out, "Commands") == ["steps", "next"]


def test_every_built_in_law_has_a_family():
    listed = [name for names in FAMILIES.values() for name in names]
    built_in = {name for name in jl.laws.names() if jl.laws.is_built_in(jl.laws.get(name))}
    assert set(listed) == built_in and len(listed) == len(built_in)
    assert set(jl.law_table()["family"]) >= set(FAMILIES)


def test_laws_are_listed_by_family_with_inputs_and_the_one_to_begin_with(command, own_laws):
    @jl.law(name="our-own")
    def our_own(N, *, E=jl.laws.positive(1.0)):
        """loss = E"""
        return E + 0 * N

    code, out, err = command("laws")
    assert (code, err) == (0, "")
    assert "Size and tokens: begin with chinchilla" in out
    row = next(line for line in out.splitlines() if line.startswith(" dcpt "))
    assert "N, D, r" in row and "C/(r+ε)^γ" in row
    assert out.index("Your own") < out.index(" our-own")
    for made in MADE:
        assert (
            f" {made} " in out and jl.laws.get(made).name == made and made in _options.law_names()
        )


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


def test_a_law_nearly_named_is_proposed_without_a_list_of_all(command):
    for arguments in (("laws", "chinchila"), ("fit", "chinchila", "runs.csv")):
        code, out, err = command(*arguments)
        assert (code, out) == (2, "") and "Did you mean 'chinchilla'" in err and "dcpt" not in err
    code, _, err = command("fit", "xyz", "runs.csv")
    assert code == 2 and "dcpt" in err


@pytest.mark.parametrize("line", ["fit", "plan allocation fit.json", "design next"])
def test_an_incomplete_line_is_answered_by_an_example(command, line):
    code, out, err = command(*line.split())
    name = line.removesuffix(" fit.json")
    assert (code, out) == (2, "") and f"\nExample: jaxlaw {name} " in err and "Missing" in err


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


def test_names_that_complete_are_those_there_are():
    assert _options.published_names() == list(jl.published())
    assert set(_options.DESIGNS) == set(jl.folds.DESIGNS)


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


def test_a_plan_reads_the_source_of_its_own_function_alone():
    script = (
        "import sys; from jaxlaw.cli import _signatures, main\n"
        "sys.argv = ['jaxlaw', *sys.argv[1:]]\ntry: main()\nexcept SystemExit: pass\n"
        "print(_signatures.signature.cache_info().currsize)"
    )
    for line in ("plan allocation --help", "plan turning-length --help"):
        ended = subprocess.run(
            [sys.executable, "-c", script, *line.split()], capture_output=True, text=True
        )
        assert ended.stdout.splitlines()[-1] == "1"
