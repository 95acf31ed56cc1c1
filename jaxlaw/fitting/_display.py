"""A fit in a notebook: a table, its notes, and predicted against observed as a small SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from jaxlaw._result import notes_in_html
from jaxlaw.notes import Note

_SIZE, _EDGE = 220, 34  # pixels of the picture, and of its margin for the text


def html_of(
    title: str, lead: Sequence[str], head: Sequence[str], rows: Iterable[Sequence[str]],
    notes: Iterable[Note], sample: np.ndarray | None,
) -> str:  # fmt: skip
    """What Jupyter shows of a fit.

    Args:
        title: law and formula.
        lead: lines on the data and on how good the fit is.
        head: heads of the columns.
        rows: a row for each parameter.
        notes: findings; those that only inform are behind a click.
        sample: (2, k) observed and predicted target, drawn if there is any.
    """
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    heads = "".join(f"<th>{escape(text)}</th>" for text in head)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    first = "<br>".join(escape(line.strip()) for line in lead if line.strip())
    picture = "" if sample is None or not sample.size else _picture(sample)
    return (
        f"<div><p><b>{escape(title)}</b><br>{first}</p>"
        f'<div style="display:flex;gap:1em;align-items:flex-start">{table}{picture}</div>'
        + f"{notes_in_html(notes)}</div>"
    )


def _picture(sample: np.ndarray) -> str:
    """Predicted against observed: points on the diagonal are predicted exactly."""
    low, high = float(sample.min()), float(sample.max())
    if not np.isfinite([low, high]).all():
        return ""
    logarithmic = low > 0 and high > 10 * low
    values = np.log(sample) if logarithmic else sample
    start, stop = values.min(), values.max()
    span = stop - start if stop > start else 1.0
    inner = _SIZE - 2 * _EDGE
    across, up = (values - start) / span * inner + _EDGE
    points = "".join(
        f'<circle cx="{x:.1f}" cy="{_SIZE - y:.1f}" r="2"/>'
        for x, y in zip(across, up, strict=True)
    )
    end = _SIZE - _EDGE
    text = 'font-size="10" fill="currentColor"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_SIZE}" height="{_SIZE}" role="img" '
        'aria-label="predicted against observed">'
        f'<path d="M{_EDGE} {end} H{end} M{_EDGE} {end} V{_EDGE}" stroke="currentColor" '
        f'fill="none"/><path d="M{_EDGE} {end} L{end} {_EDGE}" stroke="#999"/>'
        f'<g fill="#0072b2" fill-opacity="0.6">{points}</g>'
        f'<text x="{_EDGE}" y="{end + 12}" {text}>{low:.3g}</text>'
        f'<text x="{end}" y="{end + 12}" text-anchor="end" {text}>{high:.3g}</text>'
        f'<text x="{_SIZE / 2}" y="{_SIZE - 6}" text-anchor="middle" {text}>observed'
        f"{', log' if logarithmic else ''}</text>"
        f'<text transform="translate(12 {_SIZE / 2}) rotate(-90)" text-anchor="middle" {text}>'
        "predicted</text></svg>"
    )
