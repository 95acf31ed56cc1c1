"""One self-contained HTML page: all text escaped, styles inside, nothing fetched.

A page runs no script but its own, which its policy names by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from jaxlaw.notes import Note, by_weight

# The page may show its own styles and figures, and run the scripts it was made with.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_VOID = {"meta", "input"}
_MEANING = {"error": "Do not use these numbers", "warning": "Caution", "info": "Good to know"}


class Html(str):
    """Markup; any other string is text, and is escaped."""


class Section(NamedTuple):
    """A part of the page, under a heading of its own."""

    title: str
    content: Sequence[Any]

    @property
    def anchor(self) -> str:
        """What the table of contents refers to."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


def element(name: str, /, *content, **attributes) -> Html:
    """An element; ``class_`` stands for ``class``, ``aria_label`` for ``aria-label``."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{inner(content)}</{name}>")


def inner(content: Iterable) -> Html:
    """Pieces one after another, text escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(str(part)) for part in content))


def table(
    head: Sequence[str], rows: Iterable[Sequence], caption: str, words: Sequence[int] = ()
) -> Html:
    """A table.

    Args:
        head: names of the columns.
        rows: cells; the first of each is its heading.
        caption: caption of the table.
        words: columns of sentences, which may break into lines.
    """
    rows = [
        [("" if cell != cell else f"{cell:.4g}") if isinstance(cell, float) else str(cell)
         for cell in row]
        for row in rows
    ]  # fmt: skip

    def style(k):
        return "words" if k in words else None

    top = [element("th", name, scope="col", class_=style(k)) for k, name in enumerate(head)]
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell, class_=style(k)) for k, cell in enumerate(row) if k),
        )
        for row in rows
    ]
    whole = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *top)) if any(head) else "",
        element("tbody", *body),
    )
    return element("div", whole, class_="wide", tabindex=0, role="region", aria_label=caption)


def pairs(items: Iterable[tuple[str, Any]], caption: str) -> Html:
    """Names with what they are, a table of two columns."""
    return table(("", ""), items, caption, words=(1,))


def note_list(notes: Iterable[Note]) -> Html:
    """Findings in words, the gravest first; those that decide nothing are folded."""
    notes = by_weight(notes)
    first = [_note(note) for note in notes if note.decides]
    others = [note for note in notes if not note.decides]
    shown = [element("ul", *first, class_="notes")] if first else []
    if others:
        codes = ", ".join(dict.fromkeys(note.code for note in others))
        whole = element("ul", *map(_note, others), class_="notes")
        shown.append(folded(f"{'Also g' if first else 'G'}ood to know: {codes}", whole))
    return inner(shown)


def _note(note: Note) -> Html:
    return element(
        "li",
        element("strong", _MEANING[note.severity]),
        ": ", note.message, " ", element("code", note.code), class_=note.severity,
    )  # fmt: skip


def folded(summary: str, *content) -> Html:
    """What is shown on a click."""
    return element("details", element("summary", summary), *content)


def whole_page(title: str, lead: str, first: Html, sections: Sequence[Section], footer: str) -> str:
    """The whole page.

    Args:
        title: title of the page.
        lead: line below it.
        first: markup before the table of contents.
        sections: parts of the page.
        footer: last line.
    """
    style = Html(files("jaxlaw.reporting").joinpath("page.css").read_text("utf-8"))
    parts = (
        element(
            "section", element("h2", s.title, id=s.anchor), *s.content, aria_labelledby=s.anchor
        )
        for s in sections
    )
    main = element("main", *parts)
    # What the browser lets the page do.
    digests = (hashlib.sha256(code.encode()).digest() for code in _SCRIPT.findall(main))
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    policy = f"{_POLICY}; script-src {allowed}" if allowed else _POLICY
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("title", title),
        element("style", style),
    )
    links = (element("li", element("a", s.title, href=f"#{s.anchor}")) for s in sections)
    body = element(
        "body",
        element("header", element("h1", title), element("p", lead, class_="lead"), first),
        element("nav", element("ol", *links), aria_label="Contents"),
        main,
        element("footer", footer),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"
