"""Every command and snippet of the pages runs, prints what is shown, and links hold.

Pages are README.md and its chapters, the README.md beside a room. A snippet that begins with
``import jaxlaw as jl`` begins a session: whoever pastes from there needs nothing said before,
so it is run in a namespace and folder of its own, with all that follows up to the next one.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import pytest

import jaxlaw as jl
from benchmarks.pictures import CHAPTERS, FOLDER, FROM_DATA, PICTURES
from jaxlaw.cli import main

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "jaxlaw").rglob("README.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
INSTALL = re.compile(r"<!-- install -->\n```bash\n(.*?)```", re.DOTALL)
FRESH = "import jaxlaw as jl"


class Session(NamedTuple):
    """Blocks (kind, body) of a page that run one after the other."""

    name: str
    blocks: list[tuple[str, str]]


def sessions():
    result = []
    for page in PAGES:
        parts: list[Session] = []
        text = INSTALL.sub("", page.read_text("utf-8"))
        for match in BLOCK.finditer(text):
            kind, body = match.groups()
            if not parts or (kind == "python" and FRESH in body.splitlines()):
                heading = re.findall(r"^#+ (.*)$", text[: match.start()], re.MULTILINE)[-1]
                parts.append(Session(f"{page.relative_to(ROOT)}: {heading}", []))
            parts[-1].blocks.append((kind, body))
        result += parts
    return result


def assert_same_output(printed, shown):
    """Words to the letter, numbers to one unit of their last three digits shown."""
    squeezed = [" ".join(text.split()) for text in (printed, shown)]
    assert NUMBER.sub("#", squeezed[0]) == NUMBER.sub("#", squeezed[1])
    numbers = [[float(n) for n in NUMBER.findall(text)] for text in squeezed]
    assert numbers[0] == pytest.approx(numbers[1], rel=2e-3, abs=1e-9)


def run_command(line, folder):
    """In this process, where programs are compiled already, but for what needs a shell."""
    line = line.replace("\\\n", " ")
    unquoted = re.sub(r"\"[^\"]*\"", "", line)
    if set("|<>&`") & set(unquoted) or "jaxlaw" not in line:
        return run_in_shell(line, folder)
    # A shell takes loops and quotes apart, and says what it would run.
    said = run_in_shell("jaxlaw() { printf '%s\\0' \"$@\"; printf '\\n\\0'; }; " + line, folder)
    return "".join(run_here(words.split("\0")[:-1]) for words in said.split("\n\0")[:-1])


def run_here(arguments):
    out, code = io.StringIO(), None
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(out):
        patched.setattr(sys, "argv", ["jaxlaw", *arguments])
        try:
            main()
        except SystemExit as end:
            code = end.code
    assert not code, f"{arguments}\n{out.getvalue()}"
    return out.getvalue()


def run_in_shell(line, folder):
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_session(session, folder):
    namespace, printed = {}, ""
    for kind, body in session.blocks:
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body, session.name, "exec"), namespace)
            printed = out.getvalue()
        elif kind == "console":
            printed = "".join(run_command(line, folder) for line in COMMAND.findall(body))
        elif kind == "text":
            assert_same_output(printed, body)
        else:
            raise AssertionError(f"a block of kind {kind} is run by nothing")
    return namespace


def class_of(session):
    """A class with one test: among processes xdist spreads classes, not tests of a file."""

    def test_it_runs_and_prints_what_is_shown(self, tmp_path, monkeypatch, own_laws):
        monkeypatch.chdir(tmp_path)
        namespace = run_session(session, tmp_path)
        for chapter, section, draw in PICTURES.values():
            if session.name == f"jaxlaw/{chapter}/README.md: {section}":
                assert all(ax.has_data() for ax in draw(namespace).axes)
        plt.close("all")

    test = pytest.mark.full(test_it_runs_and_prints_what_is_shown)
    return type(session.name, (), {test.__name__: test, "__module__": __name__})


for one in sessions():
    globals()["Test_" + re.sub(r"\W+", "_", one.name)] = class_of(one)


def test_every_picture_shown_is_drawn_by_a_script():
    shown = {path for page in PAGES for path in pictures(page)}
    # benchmarks/leaderboard.py draws that of its own page.
    assert shown - {FOLDER / "leaderboard.png"} == {
        FOLDER / name for name in (*PICTURES, *FROM_DATA)
    }
    assert FOLDER / "leaderboard.png" in pictures(ROOT / "benchmarks" / "leaderboard.md")
    for name, (chapter, section, _) in PICTURES.items():
        text = (CHAPTERS / chapter / "README.md").read_text("utf-8")
        part = text.split(f"## {section}\n")[1].split("\n## ")[0]
        assert f".github/{name})" in part, f"{name} belongs to {section}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in links(page):
        path, _, anchor = target.partition("#")
        where = (page.parent / path).resolve() if path else page
        assert where.exists(), f"{target}: there is no {path}"
        assert where.is_relative_to(ROOT)
        if anchor:
            assert anchor in anchors(where), f"{target}: no such heading"


def test_every_chapter_is_linked_from_the_readme():
    linked = {(ROOT / target.partition("#")[0]).resolve() for target in links(README)}
    assert set(PAGES) <= linked | {README}


def pictures(page):
    text = page.read_text("utf-8")
    return {(page.parent / path).resolve() for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)}


def links(page):
    """Links within the repository: what a page leads to, pictures included."""
    result = LINK.findall(page.read_text("utf-8"))
    return [target for target in result if not target.startswith(("https:", "http:"))]


def anchors(page):
    """As GitHub makes them of headings: lower case, no punctuation, hyphens for spaces."""
    text = BLOCK.sub("", page.read_text("utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


def test_a_session_begins_where_jaxlaw_is_imported():
    names = [session.name for session in sessions()]
    assert len(set(names)) == len(names)
    first = [session.blocks[0] for session in sessions()]
    assert all(kind == "console" or FRESH in body for kind, body in first)


def test_the_install_block_has_two_commands():
    assert INSTALL.search(README.read_text("utf-8")).group(1).splitlines() == [
        "pip install -e '.[all]' && jaxlaw demo",
        "pytest",
    ]


def test_the_table_of_laws_is_the_one_in_the_package():
    text = (ROOT / "jaxlaw" / "laws" / "README.md").read_text("utf-8")
    builtin = [row for row in jl.law_table().to_dict("records") if row["grid"] or row["source"]]
    for row in builtin:
        line = (
            f"| {row['name']} | {row['formula']} | {row['units']} | {row['grid'] or ''} "
            f"| {row['source']} |"
        )
        assert line in text


def test_every_module_is_on_the_map():
    package = ROOT / "jaxlaw"
    text = (package / "README.md").read_text("utf-8")
    for path in package.rglob("*.py"):
        if path.name != "__init__.py":
            within = path.relative_to(package)
            names = {within.as_posix(), "/".join(within.parts[1:])}
            assert any(f"| `{name}` |" in text for name in names), f"{within} is not on the map"


def test_the_ratios_of_speed_are_those_of_the_page_of_peers():
    def ratios(text):
        cells = [line.split("|")[-2] for line in text.splitlines() if line.startswith("| ")]
        numbers = [re.sub(r"\(.*\)", "", cell).replace(";", ",").split(",") for cell in cells]
        return [one.strip() for cell in numbers for one in cell if NUMBER.fullmatch(one.strip())]

    readme = (ROOT / "README.md").read_text().partition("\n## Speed\n")[2].partition("\n## ")[0]
    measured = set(ratios((ROOT / "benchmarks" / "peers.md").read_text()))
    shown = ratios(readme)
    assert len(shown) >= 10
    for one in shown:
        digits = len(one.partition(".")[2])
        assert any(f"{float(value):.{digits}f}" == one for value in measured), one


def test_the_readme_is_short():
    assert len(README.read_text("utf-8").splitlines()) <= 150
