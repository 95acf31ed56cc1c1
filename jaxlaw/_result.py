"""Results: what every answer is.

A result is a dataclass. From its fields follow its text, its file, its JSON Schema, its table for
a paper, and what a notebook shows; it names the picture that draws it. A field that only this
process needs has ``metadata={"saved": False}`` and a default.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import typing
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pandas as pd

from jaxlaw import _json as records
from jaxlaw import _typed
from jaxlaw._latex import escaped, latex_table, number
from jaxlaw.errors import DataError, UsageError
from jaxlaw.notes import Note

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCHEMA = 1
#: Kind of record → the class that reads it: every result, by the name of its class.
RESULTS: dict[str, type[Result]] = {}
_HEAD = ("kind", "schema")  # of every file
_ROWS = 24  # of a table that a notebook shows


class Result:
    """An answer: numbers and tables with notes, as text, file, table of LaTeX and picture.

    Attributes:
        notes: what to know before relying on it.
        picture: name of the function of :mod:`jaxlaw.plots` that draws it; empty if none does.
    """

    notes: tuple[Note, ...]
    picture: ClassVar[str] = ""
    #: Properties that its files show too; what is read does not need them.
    computed: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        RESULTS[cls.kind_of_record()] = cls

    @classmethod
    def kind_of_record(cls) -> str:
        """The field ``kind`` of its files: ``break even`` of a ``BreakEven``."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()

    # ------------------------------------------------------------------------ text

    @property
    def quantities(self) -> dict[str, float]:
        """Its own numbers, by name."""
        return {
            field.name: value
            for field in saved_fields(type(self))
            if isinstance(value := getattr(self, field.name), float) and field.name != "level"
        }

    def tables(self) -> dict[str, pd.DataFrame]:
        """Its tables, by name, the main one first."""
        values = {field.name: getattr(self, field.name) for field in saved_fields(type(self))}
        return {name: value for name, value in values.items() if isinstance(value, pd.DataFrame)}

    def summary(self) -> str:
        """The answer and its notes, for people."""
        return "\n".join([*self.lines(), *map(str, self.notes)])

    def lines(self) -> list[str]:
        """The answer without its notes."""
        own = [f"{name:<12} {value:>12.6g}" for name, value in self.quantities.items()]
        form = {"float_format": lambda value: f"{value:.5g}"}
        return [*own, *(table.to_string(**form) for table in self.tables().values())]

    def __repr__(self) -> str:
        """The summary."""
        return self.summary()

    def _repr_html_(self) -> str:
        """What a notebook shows: numbers with their intervals, tables, notes."""
        parts = [f"<p><b>{escape(self.kind_of_record())}</b></p>"]
        if numbers := self.quantities:
            rows = [[name, f"{value:.6g}", self._between(name)] for name, value in numbers.items()]
            parts.append(_html_rows(rows))
        parts += [
            table.to_html(max_rows=_ROWS, float_format=lambda value: f"{value:.5g}", border=0)
            for table in self.tables().values()
        ]
        if self.notes:
            parts.append(f"<ul>{''.join(f'<li>{escape(str(note))}</li>' for note in self.notes)}")
            parts.append("</ul>")
        return f"<div>{''.join(parts)}</div>"

    def _between(self, name: str) -> str:
        """The interval of a number in words; empty where it has none."""
        intervals = getattr(self, "interval", None)
        if not isinstance(intervals, dict) or name not in intervals:
            return ""
        low, high = intervals[name]
        return f"{low:.5g} to {high:.5g}"

    def to_latex(self) -> str:
        r"""Its numbers, or its main table, as a table of LaTeX with the package booktabs."""
        caption = escaped(self.kind_of_record().capitalize() + ".")
        if numbers := self.quantities:
            rows = [
                [escaped(name), number(value), escaped(self._between(name))]
                for name, value in numbers.items()
            ]
            return latex_table(["", "value", "interval"], rows, "lrl", caption)
        tables = self.tables()
        if not tables:
            raise UsageError(f"{_article(self.kind_of_record())} has no numbers and no table")
        table = next(iter(tables.values()))
        cells = [
            [number(cell, 5) if isinstance(cell, float) else escaped(cell) for cell in row]
            for row in table.itertuples(index=False)
        ]
        columns = "".join("r" if kind.kind in "if" else "l" for kind in table.dtypes)
        return latex_table([escaped(name) for name in table], cells, columns, caption)

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw it; needs matplotlib.

        Args:
            ax: where it is drawn; new axes if None.
            **options: options of the function of :mod:`jaxlaw.plots` that draws it
                (:attr:`picture`).

        Raises:
            UsageError: there is no picture of such a result.
        """
        if not self.picture:
            raise UsageError(f"there is no picture of {_article(self.kind_of_record())}")
        # By name, for pictures stand above all results, and need matplotlib.
        draw = getattr(importlib.import_module("jaxlaw.plots"), self.picture)
        return draw(self, ax=ax, **options)

    # ------------------------------------------------------------------------ files

    def to_dict(self) -> dict[str, Any]:
        """All saved fields as JSON has them; infinities and NaN as strings, tables as rows."""
        head = {"kind": f"jaxlaw {self.kind_of_record()}", "schema": SCHEMA}
        names = [*self.computed, *(field.name for field in saved_fields(type(self)))]
        return head | records.plain({name: getattr(self, name) for name in names})

    def save(self, path: str | Path) -> None:
        """Write it as one JSON file with a digest, which :func:`jaxlaw.load` reads.

        Args:
            path: name of the file; one that ends in ``.csv`` gets the main table alone.

        Raises:
            UsageError: the file cannot be written, or there is no table for a CSV file.
        """
        if Path(path).suffix.lower() != ".csv":
            records.write_record(path, self.to_dict(), indent=1)
            return
        tables = self.tables()
        if not tables:
            kind = _article(self.kind_of_record())
            raise UsageError(f"{kind} has no table: save it as JSON, not {path}")
        table = next(iter(tables.values()))
        records.write_whole(path, lambda file: table.to_csv(file, index=False))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote.

        Raises:
            UsageError: no such file.
            DataError: it holds something else, or was changed since.
        """
        kind = cls.kind_of_record()
        return cls.from_dict(records.read_record(path, kind), records.source_name(path))

    @classmethod
    def from_dict(cls, record: Any, source: str = "record") -> Self:
        """The result of :meth:`to_dict`; raises as :meth:`load`."""
        kind = cls.kind_of_record()
        if not isinstance(record, dict) or record.get("kind") != f"jaxlaw {kind}":
            raise DataError(f"{source} is not a jaxlaw {kind}: field 'kind' does not say so")
        if record.get("schema") != SCHEMA:
            raise DataError(
                f"{source} has schema {record.get('schema')}; this jaxlaw reads {SCHEMA}"
            )
        hints, fields = _hints(cls), saved_fields(cls)
        with records.whole(source, kind):
            given = {k: v for k, v in record.items() if k not in _HEAD and k not in cls.computed}
            _typed.only(given, [field.name for field in fields], kind)
            values = {
                field.name: _indexed(
                    _typed.load(given[field.name], hints[field.name], field.name), field
                )
                for field in fields
            }
        return cls(**values)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON Schema of :meth:`to_dict`."""
        hints = _hints(cls) | {
            name: typing.get_type_hints(getattr(cls, name).fget)["return"] for name in cls.computed
        }
        names = [*cls.computed, *(field.name for field in saved_fields(cls))]
        head = {"kind": str, "schema": int}
        return _typed.schema(head | {name: hints[name] for name in names})


@cache
def saved_fields(cls: type) -> tuple[dataclasses.Field, ...]:
    """The fields that a result's file holds."""
    fields = dataclasses.fields(cls)
    return tuple(field for field in fields if field.metadata.get("saved", True))


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def _indexed(value: Any, field: dataclasses.Field) -> Any:
    """A table of a file with the index that its field names."""
    index = field.metadata.get("index")
    return value.set_index(index) if index and isinstance(value, pd.DataFrame) else value


def _html_rows(rows: list[list[str]]) -> str:
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table><tbody>{''.join(f'<tr>{row}</tr>' for row in cells)}</tbody></table>"


def _article(kind: str) -> str:
    """A kind with its article: ``an allocation``."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
