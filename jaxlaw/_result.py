"""Results: text, file, LaTeX, notebook's view and picture of what every function returns.

Most return an :class:`jaxlaw.Answer`, whose quantities and tables are its own. A few, such as a
fit or a study, are classes with methods: dataclasses whose fields say what there is to show. The
metadata of a field say what its type does not:

- ``saved``: False where only this process needs it; such a field has a default;
- ``key``: the name that its files have for it, where that is another;
- ``index``: the column of a table that is its index;
- ``columns``: column of a table → the type of its cells, which a file has to hold;
- ``unit``: what a number counts, such as ``tokens``, or is measured in; ``target`` for the unit of
  what the law predicts, ``share`` for a part of 1, empty for a number without a unit;
- ``added``: True where files of this schema may lack it, being older: it then has its default;
- ``setting``: True where a number was chosen, so that it is no answer, as every ``level`` is.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import re
import shutil
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd

from jaxlaw import _json as records
from jaxlaw import _typed
from jaxlaw._latex import bold, escape_latex, even_digits, latex_table, numbers_in_maths
from jaxlaw._quantities import COUNTED, SHARE, Quantity, number_of, written_range
from jaxlaw.errors import DataError, UsageError
from jaxlaw.notes import Note, by_weight, in_brief, remedy_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from jaxlaw.fitting import Fit, FittedLaw
    from jaxlaw.forecasting import Forecast
    from jaxlaw.uncertainty import Draws
    from jaxlaw.validation import Study
else:  # the ground floor knows none of them
    Fit = FittedLaw = Study = Forecast = Draws = Any

#: Of the files of all results.
SCHEMA = 8
#: Kind of record → the class that reads it: every result, by the name of its class.
RESULTS: dict[str, type[Result]] = {}
#: Packages that list results in their faces.
_PACKAGES = ("fitting", "uncertainty", "validation", "design", "forecasting", "planning", "papers")
_HEAD = ("kind", "schema", "next_step")  # of every file, and no field
#: Unit of a number that has that of what the law predicts.
TARGET = "target"
_COLORS = {"error": "#b00020", "warning": "#8a5a00", "info": "inherit"}  # of notes
_ROWS = 24  # of a table that a notebook shows


class Result:
    """An answer: numbers and tables with notes, as text, file, table of LaTeX and picture.

    Attributes:
        notes: findings to know before relying on it.
        picture: name of the function of :mod:`jaxlaw.plots` that draws it; empty if none does.
    """

    notes: tuple[Note, ...]
    picture: ClassVar[str] = ""
    #: Column of its tables → its unit, as the metadata of a field say it.
    column_units: ClassVar[Mapping[str, str]] = {}
    #: Column of a table that compares laws → its best value: lowest or highest.
    best_is: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        RESULTS[cls.kind_of_record()] = cls
        # A result may be a field of another one.
        _typed.register(cls, cls._read)

    @property
    def kind_name(self) -> str:
        """What it is in words, such as ``break even``: the field ``kind`` of its file."""
        return self.kind_of_record()

    @classmethod
    def kind_of_record(cls) -> str:
        """The field ``kind`` of its files: ``break even`` of a ``BreakEven``."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()

    # ------------------------------------------------------------------------ text

    @property
    def quantities(self) -> dict[str, Quantity]:
        """Its own numbers, by name."""
        numbers = {
            field.name: getattr(self, field.name)
            for field in saved_fields(type(self))
            if not (field.name == "level" or field.metadata.get("setting"))
        }
        return self._quantities({n: x for n, x in numbers.items() if isinstance(x, float)})

    def _quantities(self, numbers: Mapping[str, float]) -> dict[str, Quantity]:
        """Numbers with the units and the intervals that the fields say."""
        bounds, none = getattr(self, "interval", None), (math.nan, math.nan)
        bounds = bounds if isinstance(bounds, dict) else {}
        return {
            name: Quantity(value, *(self.unit_of(name) or ("", 1.0)), *bounds.get(name, none))
            for name, value in numbers.items()
        }

    @property
    def words(self) -> dict[str, str]:
        """Its own words, by name."""
        values = {field.name: getattr(self, field.name) for field in saved_fields(type(self))}
        return {name: value for name, value in values.items() if isinstance(value, str)}

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of a number, or of a column of a table, and what one is worth in raw counts.

        None where nothing is said of it, as of a column of words.
        """
        unit = self.declared_units().get(name)
        return None if unit is None else (unit, 1.0)

    @classmethod
    def declared_units(cls) -> dict[str, str]:
        """Number, or column of a table, → its unit, as the class says it."""
        of_columns = (part.__dict__.get("column_units", {}) for part in reversed(cls.__mro__))
        fields = {f.name: f.metadata["unit"] for f in saved_fields(cls) if "unit" in f.metadata}
        return {name: unit for units in of_columns for name, unit in units.items()} | fields

    def written(self, name: str, *, level: bool = False) -> str:
        """A number of its own as people read it, with its unit and its interval.

        Args:
            name: name of the number.
            level: whether the level of the interval is said.
        """
        found = self.quantities[name]
        if level and found.interval:
            return f"{found.number} ({_level(self.level)}: {found.interval})"
        return str(found)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Its tables, by name, the main one first."""
        values = {field.name: getattr(self, field.name) for field in saved_fields(type(self))}
        return {name: value for name, value in values.items() if isinstance(value, pd.DataFrame)}

    def shown(self) -> dict[str, pd.DataFrame]:
        """The tables that people are shown, where those of its files say too much."""
        return self.tables

    @property
    def headline(self) -> str:
        """The answer in one sentence: the number, its interval, how far it is from the runs.

        Empty where a result has no single answer.
        """
        return ""

    @property
    def next_step(self) -> str:
        """What to do next, in the words of Python; empty where that is not known.

        It is what to do about the note that decides most, where its own message does not say so,
        or about an answer that lies far beyond the runs.
        """
        return remedy_of(self.notes)

    def opening(self, headline: str | None = None) -> list[str]:
        """What a text of it begins with: the headline, and what to do next.

        Args:
            headline: another headline, as of another level.
        """
        step = self.next_step
        texts = [self.headline if headline is None else headline, f"Next: {step}" * bool(step)]
        wrap = partial(textwrap.wrap, width=80, subsequent_indent="  ", break_on_hyphens=False)
        return [line for text in texts for line in wrap(text)]

    def summary(self, *, verbose: bool = False) -> str:
        """The answer in one sentence, what to do next, its numbers and its notes, for people.

        Args:
            verbose: whether all notes are listed whole: without, those that decide come first, in
                five lines at most, and the others by code.
        """
        return "\n".join([*self.opening(), *self.lines(), *in_brief(self.notes, verbose)])

    def lines(self) -> list[str]:
        """The answer without its notes."""
        tables = (table_lines(self.readable(table)) for table in self.shown().values())
        return [*self.number_lines(), *(line for lines in tables for line in lines)]

    def number_lines(self, names: Iterable[str] | None = None) -> list[str]:
        """A line for each of its numbers: name, number with unit, interval.

        Args:
            names: names of the numbers; all if None.
        """
        rows = [
            (name, one.number, one.interval)
            for name, one in self.quantities.items()
            if names is None or name in names
        ]
        wide = [max((len(row[k]) for row in rows), default=0) for k in (0, 1)]
        lines = []
        for name, number, between in rows:
            line = f"{name:<{max(12, wide[0])}} {number:<{wide[1]}}"
            lines.append(f"{line}   {_level(self.level)}: {between}" if between else line.rstrip())
        return lines

    def readable(self, table: pd.DataFrame) -> pd.DataFrame:
        """A table as people read it: units in the heads, intervals in one column each."""
        return readable(table, self.unit_of, getattr(self, "level", math.nan))

    def __repr__(self) -> str:
        """The summary."""
        return self.summary()

    def _repr_html_(self) -> str:
        """What a notebook shows: numbers with their intervals, tables, notes."""
        first = f"<p><b>{escape(self.headline or self.kind_name)}</b>"
        step = self.next_step
        parts = [first + f"<br>Next: {escape(step)}" * bool(step) + "</p>"]
        if numbers := self.quantities:
            parts.append(
                _html_rows([[name, one.number, one.interval] for name, one in numbers.items()])
            )
        parts += [
            self.readable(table).to_html(max_rows=_ROWS, border=0, index=False)
            for table in self.shown().values()
        ]
        return f"<div>{''.join(parts)}{notes_in_html(self.notes)}</div>"

    def to_latex(self, table: pd.DataFrame | None = None, *, label: str = "") -> str:
        r"""Its numbers, or its main table, as a table of LaTeX (``\usepackage{booktabs}``).

        In a table that compares laws the best of each column is bold.

        Args:
            table: table of the result that is set instead, such as
                ``study.score_table(("r2",), average=True)``.
            label: name for ``\ref``, such as ``tab:study``.

        Raises:
            UsageError: it has neither numbers nor a table, or the label is none.
        """
        caption = escape_latex(self.kind_name.capitalize() + ".")
        if table is None and (numbers := self.quantities):
            rows = [
                [escape_latex(name), numbers_in_maths(number_of(one.value, one.unit, one.worth)),
                 escape_latex("" if one.unit == SHARE else one.unit),
                 numbers_in_maths(one.interval)]
                for name, one in numbers.items()
            ]  # fmt: skip
            return latex_table(["", "value", "unit", "interval"], rows, "lrll", caption, label)
        tables = self.shown().values() if table is None else [table]
        if not tables:
            raise UsageError(f"{_article(self.kind_name)} has no numbers and no table")
        main = flat(next(iter(tables)))
        return _latex_of(main, self.readable(main), caption, label, self._best(main))

    def _best(self, table: pd.DataFrame) -> dict[str, np.ndarray]:
        """Column of a table → (n,) whether a row has its best value; of those that have one."""
        best = {}
        for name in map(str, table):
            # A column of several data sets is called ``huber math``, after its score and its set.
            which = self.best_is.get(name.partition(" ")[0])
            if which and table[name].nunique() > 1:
                size = table[name]
                best[name] = (size == (size.max() if which == "highest" else size.min())).to_numpy()
        return best

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw it; needs matplotlib.

        Args:
            ax: axes to draw on; new ones if None.
            **options: options of the function of :mod:`jaxlaw.plots` that draws it
                (:attr:`picture`).

        Raises:
            UsageError: there is no picture of such a result.
        """
        if not self.picture:
            raise UsageError(f"there is no picture of {_article(self.kind_name)}")
        # By name, for pictures stand above all results, and need matplotlib.
        draw = getattr(importlib.import_module("jaxlaw.plots"), self.picture)
        return draw(self, ax=ax, **options)

    # ------------------------------------------------------------------------ files

    def to_dict(self) -> dict[str, Any]:
        """All saved fields as JSON has them; infinities and NaN as strings, tables as rows."""
        kind = f"jaxlaw {self.kind_name}"
        head = {"kind": kind, "schema": SCHEMA, "next_step": self.next_step}
        values = {_key(field): getattr(self, field.name) for field in saved_fields(type(self))}
        return head | records.plain(values)

    def file_record(self) -> dict[str, Any]:
        """What its files hold: :meth:`to_dict`, and what only its picture needs, if anything."""
        return self.to_dict()

    def save(self, path: str | Path) -> None:
        """Write it as one JSON file with a digest, which :func:`jaxlaw.load` reads.

        Args:
            path: name of the file; one that ends in ``.csv`` gets the main table alone, or the
                numbers, a row each, of a result without a table.

        Raises:
            UsageError: the file cannot be written.
        """
        if Path(path).suffix.lower() != ".csv":
            records.write_record(path, self.file_record(), indent=1)
            return
        table = next(iter(self.tables.values()), None)
        if table is None:
            rows = [{"quantity": n, **one.to_dict()} for n, one in self.quantities.items()]
            table = pd.DataFrame(
                rows, columns=["quantity", "value", "low", "high", "unit", "worth"]
            )
        records.write_atomic(path, lambda file: table.to_csv(file, index=False))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote.

        Raises:
            UsageError: no such file.
            DataError: it holds something else, or was changed since.
        """
        known = [] if cls is Result else cls._kinds()
        return cls.from_dict(records.read_record(path, *known), records.source_name(path))

    @classmethod
    def from_dict(cls, record: Any, source: str = "record") -> Self:
        """The result of :meth:`to_dict`; raises as :meth:`load`."""
        result = cls._class_of(record)
        if result is None:
            kind = cls.kind_of_record()
            raise DataError(f"{source} is not a jaxlaw {kind}: field 'kind' does not say so")
        if record.get("schema") != SCHEMA:
            raise DataError(
                f"{source} has schema {record.get('schema')}; this jaxlaw reads {SCHEMA}: make "
                "it again from its data, or read it by the version that wrote it"
            )
        with records.reading(source, result.kind_of_record()):
            return result._read_fields(record)

    @classmethod
    def _kinds(cls) -> list[str]:
        """The kinds of this class and of those made of it, which its own package lists."""
        package = importlib.import_module(".".join(cls.__module__.split(".")[:2]))
        for name in getattr(package, "__all__", ()):
            getattr(package, name)
        return [kind for kind, result in RESULTS.items() if issubclass(result, cls)]

    @classmethod
    def _class_of(cls, record: Any) -> type[Self] | None:
        """The class of a record: this one, or one that is made of it; None of another's."""
        kind = record.get("kind") if isinstance(record, dict) else None
        named = kind.removeprefix("jaxlaw ") if isinstance(kind, str) else ""
        result = _class_named(named) if kind == f"jaxlaw {named}" else None
        return result if result is not None and issubclass(result, cls) else None

    @classmethod
    def _read(cls, record: Any, where: str) -> Self:
        """The result that is a field of another; raises what :func:`jaxlaw._typed.load` does."""
        result = cls._class_of(record)
        if result is None or record.get("schema") != SCHEMA:
            raise TypeError(
                f"field '{where}' is no jaxlaw {cls.kind_of_record()} of schema {SCHEMA}"
            )
        try:
            return result._read_fields(record)
        except (TypeError, ValueError) as error:
            named = str(error).replace("field '", f"field '{where}.", 1)
            raise type(error)(named) from None

    @classmethod
    def _read_fields(cls, record: dict[str, Any]) -> Self:
        hints, fields = _hints(cls), saved_fields(cls)
        given = {k: v for k, v in record.items() if k not in _HEAD}
        older = [f for f in fields if f.metadata.get("added") and _key(f) not in given]
        fields = [field for field in fields if field not in older]
        _typed.only(given, [_key(field) for field in fields], "")
        values = {
            field.name: _read_field(given[_key(field)], hints[field.name], field)
            for field in fields
        }
        return cls(**cls._consistent(values))

    @classmethod
    def _consistent(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields that were read, held against each other.

        Raises:
            ValueError: they cannot be those of one result.
        """
        return values


@_typed.checked
def table_lines(table: pd.DataFrame) -> list[str]:
    """The lines of a table, no wider than the terminal.

    Columns that do not fit follow in a table below, each with the first column again.

    Example:
        >>> from jaxlaw._result import table_lines
        >>> table_lines(pd.DataFrame({"law": ["kaplan"], "r2": ["0.99"]}))
        ['   law   r2', 'kaplan 0.99']
    """
    columns = [table.iloc[:, [k]].to_string(index=False).split("\n") for k in range(table.shape[1])]
    sizes = [max(map(len, column)) for column in columns]
    width = shutil.get_terminal_size((80, 24)).columns
    pages: list[list[int]] = [[]]
    for k, size in enumerate(sizes):
        if len(pages[-1]) > 1 and sum(sizes[j] + 1 for j in pages[-1]) + size > width:
            pages.append([0])
        pages[-1].append(k)
    lines = [
        " ".join(columns[k][row].rjust(sizes[k]) for k in page).rstrip()
        for page in pages
        for row in range(len(table) + 1)
    ]
    return lines if len(table) else []


def load(path: str | Path) -> Fit | FittedLaw | Study | Forecast | Draws | Result:
    """Read any saved result: of fits, studies, draws, forecasts and plans.

    Nothing in the file is executed. It is checked as a whole (its digest), field by field, and,
    of a fit, by a prediction it holds, which the law in this process must give again.

    Args:
        path: name of the file, or ``-`` for standard input.

    Returns:
        What was saved: :class:`jaxlaw.Fit`; a :class:`jaxlaw.FittedLaw` where the file holds no
        search; :class:`jaxlaw.Study`, :class:`jaxlaw.Forecast`, :class:`jaxlaw.uncertainty.Draws`;
        the result of a plan.

    Raises:
        UsageError: no such file, or a law is not registered in this process.
        DataError: it holds no result, was changed since it was written, is of a newer schema or
            another formula, or a field is missing or malformed (named).

    Example:
        >>> jl.published()["hoffmann-2022"].save("hoffmann.json")
        >>> jl.load("hoffmann.json").params["E"]
        1.69
        >>> plan = jl.planning.allocation(jl.load("hoffmann.json"), 1e21)
        >>> plan.save("plan.json")
        >>> jl.load("plan.json").N == plan.N
        True
    """
    return Result.load(path)


def _class_named(kind: str) -> type[Result] | None:
    """The class of a kind, imported from the package that lists it; else that of all answers."""
    wanted = kind.title().replace(" ", "")
    for package in _PACKAGES if kind not in RESULTS else ():
        face = importlib.import_module(f"jaxlaw.{package}")
        if wanted in face.__all__:
            getattr(face, wanted)
            break
    return RESULTS.get(kind) or RESULTS.get("answer")


@cache
def saved_fields(cls: type) -> tuple[dataclasses.Field, ...]:
    """The fields that a result's file holds."""
    fields = dataclasses.fields(cls)
    return tuple(field for field in fields if field.metadata.get("saved", True))


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def _key(field: dataclasses.Field) -> str:
    """The name of a field in a file."""
    return field.metadata.get("key", field.name)


def _read_field(value: Any, hint: Any, field: dataclasses.Field) -> Any:
    """A field of a file: by its type, a table with its columns and its index."""
    name = _key(field)
    if columns := field.metadata.get("columns"):
        read = _typed.load_table(value, name, columns)
    else:
        read = _typed.load(value, hint, name)
    index = field.metadata.get("index")
    return read.set_index(index) if index and isinstance(read, pd.DataFrame) else read


def flat(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose columns have one name each; of an index that has a name they hold it too."""
    table = table.reset_index() if any(table.index.names) else table.copy()
    if table.columns.nlevels > 1:
        # One data set alone need not be named in every head.
        alone = len({column[1] for column in table if column[1]}) == 1
        named = (column[:1] if alone else column for column in table)
        table.columns = [" ".join(filter(None, map(str, column))) for column in named]
    return table


def readable(
    table: pd.DataFrame,
    unit_of: Callable[[str], tuple[str, float] | None],
    level: float = math.nan,
) -> pd.DataFrame:
    """A table as people read it: units in the heads, intervals in one column each.

    Args:
        table: any table.
        unit_of: column → its unit and what one is worth in single things; None if unknown.
        level: confidence level of the columns ``…_low`` and ``…_high``.
    """
    table, columns = flat(table), {}
    for name in table:
        base, _, side = str(name).rpartition("_")
        if side in ("low", "high") and {base, f"{base}_low", f"{base}_high"} <= {*table}:
            continue
        unit = unit_of(str(name)) or ("", 1.0)
        noun = "" if unit[0] in ("", SHARE) else f" ({unit[0]})"
        columns[f"{name}{noun}"] = [_cell(value, *unit) for value in table[name]]
        if {f"{name}_low", f"{name}_high"} <= {*table}:
            limits = zip(table[f"{name}_low"], table[f"{name}_high"], strict=True)
            between = [written_range(low, high, *unit) for low, high in limits]
            columns[f"{_level(level)} of {name}"] = between
    return pd.DataFrame(columns, index=table.index)


def _level(level: float) -> str:
    """A confidence level in words: ``95 %``."""
    return f"{100 * level:.4g} %"


def _cell(value: Any, unit: str, worth: float) -> str:
    """A cell of a table for people, without the unit, which the head has."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return "" if value is None else str(value)
    if isinstance(value, int | np.integer) and unit not in COUNTED:
        return str(value)
    return "" if math.isnan(value) else number_of(float(value), unit, worth)


def notes_in_html(notes: Iterable[Note]) -> str:
    """Notes in a notebook: those that decide, and the others behind a click."""
    ordered = by_weight(dict.fromkeys(notes))
    shown, folded = (
        "".join(
            f'<li style="color:{_COLORS[note.severity]}">{escape(str(note))}</li>'
            for note in ordered
            if note.decides is decides
        )
        for decides in (True, False)
    )
    codes = ", ".join(dict.fromkeys(note.code for note in ordered if not note.decides))
    more = f"<details><summary>also: {escape(codes)}</summary><ul>{folded}</ul></details>"
    return (f"<ul>{shown}</ul>" if shown else "") + (more if folded else "")


def _latex_of(
    table: pd.DataFrame, shown: pd.DataFrame, caption: str, label: str,
    best: Mapping[str, np.ndarray],
) -> str:  # fmt: skip
    """A table as LaTeX: words to the left, numbers to the right and in maths, the best bold."""
    kinds = {str(name): table[name].dtype.kind for name in table}
    words = [kinds.get(name, "f") not in "if" for name in shown]
    columns = [
        _column(shown[name], is_words, kinds.get(name) == "f", best.get(name))
        for name, is_words in zip(shown, words, strict=True)
    ]
    more = " The best of each column is in bold." if best else ""
    return latex_table(
        [escape_latex(name) for name in shown], list(zip(*columns, strict=True)),
        "".join("l" if is_words else "r" for is_words in words), caption + more, label,
    )  # fmt: skip


def _column(cells: Iterable[str], words: bool, even: bool, best: np.ndarray | None) -> list[str]:
    """Cells of a column in LaTeX: words, or numbers, with digits alike and the best in bold."""
    form = escape_latex if words else numbers_in_maths
    texts = [form(cell) for cell in (even_digits(cells) if even else cells)]
    marks = [False] * len(texts) if best is None else best
    return [bold(text) if mark else text for text, mark in zip(texts, marks, strict=True)]


def _html_rows(rows: list[list[str]]) -> str:
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table><tbody>{''.join(f'<tr>{row}</tr>' for row in cells)}</tbody></table>"


def _article(kind: str) -> str:
    """A kind with its article: ``an allocation``."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
