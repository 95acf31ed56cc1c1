"""The gallery: every picture of ``jaxlaw.plots``, drawn by the example of its docstring."""

import doctest
import inspect
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_BEFORE = "import jaxlaw as jl\n"
# Examples of docstrings end with a text that tests compare: what is left is the call that draws.
_COMPARED = re.compile(r"^(plots\..*\))\.get_\w+\(.*\)$", re.DOTALL)


#: The pictures that open the site, below that of a forecast: a file, its caption and the page that
#: explains it; or a function of jaxlaw.plots, which the gallery draws.
_FIRST: tuple[tuple[str, str, str], ...] = (
    ("loss_over_input", "fitted curves with their runs", ""),
    ("isoflops", "the best size of each budget", ""),
    ("language.png", "from scratch or from a base",
     "jaxlaw/simulate/index.md#continual-pre-training-in-a-new-language"),
    ("mixture.png", "domain mixture ratio", "jaxlaw/simulate/index.md#domain-mixture-ratio"),
    ("curve.png", "replay ratio and peak LR",
     "jaxlaw/simulate/index.md#replay-ratio-and-peak-lr"),
    ("loss_curve", "a loss curve and what it is made of", ""),
    ("corpus.png", "value of a pre-training corpus",
     "jaxlaw/simulate/index.md#value-of-a-pre-training-corpus"),
    ("turn.png", "inflection ratio", "jaxlaw/papers/index.md#inflection-ratio"),
    ("backtest_errors", "errors of earlier forecasts", ""),
    ("run.png", "the end of a run under way", "jaxlaw/forecasting/index.md#a-run-under-way"),
    ("fold_scores", "laws compared fold by fold", ""),
    ("transfer", "what a base saves", ""),
)  # fmt: skip


class Picture(NamedTuple):
    """A function that draws, what it is about, and the lines that draw it."""

    name: str
    title: str
    lines: str


def pictures() -> Iterator[Picture]:
    """One for each public function of plots, in their order."""
    from jaxlaw import plots

    for name in plots.__all__:
        document = inspect.getdoc(getattr(plots, name))
        sources = [
            example.source.strip() for example in doctest.DocTestParser().get_examples(document)
        ]
        sources[-1] = _COMPARED.sub(r"\1", sources[-1])
        title = " ".join(document.split("\n\n")[0].split())
        yield Picture(name, title, "\n".join(sources))


def draw(picture: Picture, file: Path) -> None:
    """Run the lines of a picture in an empty folder, and save what they draw."""
    import numpy as np
    import pandas as pd
    from matplotlib import pyplot as plt

    plt.close("all")
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            exec(compile(_BEFORE + picture.lines, picture.name, "exec"), {"np": np, "pd": pd})
        finally:
            os.chdir(here)
    (number,) = plt.get_fignums()  # an example draws one figure
    plt.figure(number).savefig(file, dpi=110, bbox_inches="tight")


def page(chosen: list[Picture]) -> str:
    """The gallery as Markdown: pictures in a grid, each with its lines folded below."""
    parts = [
        "# Gallery",
        "Every picture that `jaxlaw.plots` draws, with the lines that draw it. `jl` is jaxlaw, "
        "`pd` pandas, `np` numpy.",
        '<div class="gallery">',
    ]
    for picture in chosen:
        parts += [
            f'<figure id="{picture.name}">',
            f"![{picture.title}]({picture.name}.png)",
            f"<figcaption>\n\n{{func}}`{picture.name} <jaxlaw.plots.{picture.name}>`: "
            f"{_markdown(picture.title)}\n\n</figcaption>",
            f"<details><summary>the lines that draw it</summary>\n\n```python\n{_BEFORE}"
            f"{picture.lines}\n```\n\n</details>",
            "</figure>",
        ]
    return "\n\n".join([*parts, "</div>"]) + "\n"


def opening(drawn: bool) -> str:
    """The dozen pictures that open the site; where none are drawn, those that are stored."""
    parts = ['<div class="gallery first">']
    for name, caption, target in _FIRST:
        if not (drawn or target):
            continue
        file = f".github/{name}" if target else f"gallery/{name}.png"
        link = f"[{caption}]({target})" if target else f"{{func}}`{caption} <jaxlaw.plots.{name}>`"
        parts += [
            "<figure>", f"![{caption}]({file})", f"<figcaption>\n\n{link}\n\n</figcaption>",
            "</figure>",
        ]  # fmt: skip
    return "\n\n".join([*parts, "</div>"]) + "\n"


def _markdown(text: str) -> str:
    """A docstring's line in Markdown: its code spans and roles."""
    text = re.sub(r":(\w+):`([^`]*)`", r"{\1}`\2`", text)
    return text.replace("``", "`")
