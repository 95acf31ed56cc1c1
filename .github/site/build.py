"""The documentation site: ``python .github/site/build.py [FOLDER] [--no-gallery]``.

Pages are the README and the chapters, as they are for readers of the repository, with a reference
made from docstrings, a gallery of pictures and the laws as formulas. Everything is strict: a link
or a reference that leads nowhere and a public name without an entry end with exit code 1. The site
fetches nothing from elsewhere: it can be opened from the folder, or be served by any web server.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT)]

import gallery  # noqa: E402
import laws_page  # noqa: E402
import reference  # noqa: E402

# Section of the side bar → its pages, below what the README says.
CONTENTS = {
    "Start": ("jaxlaw/simulate/index", "gallery/index", "laws/index"),
    "Fit": ("jaxlaw/data/index", "jaxlaw/data/formats/index", "jaxlaw/fitting/index",
            "jaxlaw/laws/index"),
    "Validate": ("jaxlaw/uncertainty/index", "jaxlaw/validation/index", "jaxlaw/design/index"),
    "Plan": ("jaxlaw/forecasting/index", "jaxlaw/planning/index", "jaxlaw/papers/index"),
    "Plot and report": ("jaxlaw/plots/index", "jaxlaw/reporting/index", "jaxlaw/cli/index"),
    "Reference": ("reference/index", "benchmarks/index", "CHANGELOG"),
    "Contribute": (".github/CONTRIBUTING", "jaxlaw/index"),
}  # fmt: skip
#: A chapter's first lines lead to its sections: the site has them beside the text.
_LEADS = re.compile(r"^\[← README\].*?\n\n", re.MULTILINE | re.DOTALL)
_INDEX = re.compile(r"(\]\([^)#\s]*?)README\.md")
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def write_sources(folder: Path, with_gallery: bool) -> None:
    """Put all pages into a folder, where links between them lead as they do in the repository."""
    chapters = [ROOT / "README.md", *(ROOT / "jaxlaw").rglob("README.md")]
    others = [ROOT / "CHANGELOG.md", ROOT / ".github" / "CONTRIBUTING.md"]
    for page in (*chapters, *others, *(ROOT / "benchmarks").glob("*.md")):
        text = page.read_text("utf-8")
        for target in _LINK.findall(text):
            file = (page.parent / target).resolve()
            if file.suffix not in (".md", "") and file.is_file():
                _write(folder / file.relative_to(ROOT), file.read_bytes())
        text = _INDEX.sub(r"\1index.md", _LEADS.sub("", text))
        name = page.relative_to(ROOT).with_name(page.name.replace("README", "index"))
        if page == ROOT / "README.md":
            text = text.replace("```python", f"{gallery.opening(with_gallery)}\n```python", 1)
            text += "".join(
                _toctree(title, [p for p in entries if with_gallery or "gallery" not in p])
                for title, entries in CONTENTS.items()
            )
        elif name == Path("benchmarks/index.md"):
            text += _toctree("Results", ["*"], "glob")
        _write(folder / name, text)
    _write(folder / "laws" / "index.md", laws_page.page())
    for name, text in reference.pages().items():
        _write(folder / "reference" / name, text)
    if with_gallery:
        pictures = list(gallery.pictures())
        _write(folder / "gallery" / "index.md", gallery.page(pictures))
        for k, picture in enumerate(pictures):
            print(f"picture {k + 1} of {len(pictures)}: {picture.name}", file=sys.stderr)
            gallery.draw(picture, folder / "gallery" / f"{picture.name}.png")


def _toctree(title: str, entries: list[str], *options: str) -> str:
    flags = "".join(f":{option}:\n" for option in ("hidden", *options))
    return f"\n\n```{{toctree}}\n:caption: {title}\n{flags}\n" + "\n".join(entries) + "\n```\n"


def _write(file: Path, content: str | bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)


def missing(folder: Path) -> list[str]:
    """Public names that the built reference has no entry for."""
    from sphinx.util.inventory import InventoryFile

    with (folder / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", os.path.join)
    entries = {name for kind in inventory.values() for name in kind}
    return [name for name, entry in reference.documented().items() if entry not in entries]


def run_sphinx(sources: Path, folder: Path) -> int:
    """Build the pages of a folder; whatever Sphinx warns of makes the exit code 1."""
    from sphinx.cmd.build import main

    strictly = ["-W", "--keep-going", "-q"]
    return main(["-b", "html", *strictly, "-c", str(HERE), str(sources), str(folder)])


def build(folder: Path, with_gallery: bool = True) -> int:
    """Build the site; the exit code."""
    from jaxlaw._jit import UNOPTIMISED

    # Programs of the examples run once: optimising them takes longer than running them.
    os.environ.setdefault("XLA_FLAGS", " ".join(f"--{k}={v}" for k, v in UNOPTIMISED.items()))
    os.environ.setdefault("MPLBACKEND", "Agg")
    with tempfile.TemporaryDirectory() as sources:
        write_sources(Path(sources), with_gallery)
        shutil.rmtree(folder, ignore_errors=True)
        print("Sphinx builds the pages: minutes", file=sys.stderr)
        code = run_sphinx(Path(sources), folder)
    shutil.rmtree(folder / ".doctrees", ignore_errors=True)  # needed by later builds alone
    if without := [] if code else missing(folder):
        print(f"the reference has no entry for {', '.join(without)}", file=sys.stderr)
        code = 1
    if not code:
        print(folder / "index.html")
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--no-gallery", action="store_true", help="draw no pictures: faster")
    given = parser.parse_args()
    sys.exit(build(given.folder, not given.no_gallery))
