"""Results: text, file, LaTeX, notebook's view and picture of what every function returns.

Most return an :class:`jaxlaw.Answer`, whose quantities and tables are its own. A few, such as a
fit or a study, are classes with methods: dataclasses that say below what they show. Their files
hold all fields that two equal ones have in common, not those with ``compare=False``, which only
this process needs.
"""

from __future__ import annotations

import importlib
import math
import shutil
import textwrap
import typing
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd

from jaxlaw import _json as records, _typed
from jaxlaw._quantities import COUNTED, RATIO, SHARE, Quantity, number_of, written_range
from jaxlaw.errors import UsageError
from jaxlaw.notes import Note, in_brief, remedy_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from jaxlaw.fitting import Fit, FittedLaw
    from jaxlaw.forecasting import Forecast
    from jaxlaw.uncertainty import Draws
    from jaxlaw.validation import Study
else:  # the ground floor knows none of them
    Fit = FittedLaw = Study = Forecast = Draws = Any

#: Of the files of all results.
SCHEMA = 10
#: Kind of a file → the package of its class; all others are answers.
HOMES = {
    "fit": "fitting", "fitted law": "fitting", "prior": "fitting",
    "draws": "uncertainty", "bootstrap": "uncertainty", "covariance": "uncertainty",
    "study": "validation", "forecast": "forecasting", "backtest": "forecasting",
}  # fmt: skip
#: Field → its name in a file, which begins with the kind of the result.
_KEYS = {"kind": "resampling"}
#: Unit of a number that has that of what the law predicts.
TARGET = "target"
_ROWS = 24  # of a table that a notebook shows


class Result:
    """An answer: numbers and tables with notes, as text, file, table of LaTeX and picture.

    Attributes:
        notes: findings to know before relying on it.
        kind_name: what it is in words, such as ``fitted law``: the field ``kind`` of its file.
        picture: name of the function of :mod:`jaxlaw.plots` that draws it; empty if none does.
    """

    notes: tuple[Note, ...]
    kind_name: ClassVar[str]
    picture: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind_name" not in cls.__dict__:
            cls.kind_name = "".join(f" {c.lower()}" if c.isupper() else c for c in cls.__name__)[1:]
        # A result may be a field of another one.
        _typed.READERS[cls] = cls._read

    # ------------------------------------------------------------------------ text

    @property
    def quantities(self) -> dict[str, Quantity]:
        """Its own numbers, by name."""
        return {}

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Its tables, by name, the main one first."""
        values = {name: getattr(self, name) for name in _typed.in_files(type(self))}
        return {name: value for name, value in values.items() if isinstance(value, pd.DataFrame)}

    def shown(self) -> dict[str, pd.DataFrame]:
        """The tables that people are shown, where those of its files say too much."""
        return self.tables

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of a number, or of a column of a table, and what one is worth in raw counts.

        None where nothing is said of it, as of a column of words.
        """
        return None

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

    @property
    def _level(self) -> str:
        """The confidence level of its intervals in words."""
        return level_in_words(getattr(self, "level", math.nan))

    def summary(
        self, *, verbose: bool = False, next_step: str | None = None, width: int = 80
    ) -> str:
        """The answer in a sentence, what makes it doubtful, what to do next, its other numbers.

        Args:
            verbose: whether all notes are listed whole, with the numbers that the sentence has and
                how the result was made: without, one or two notes that decide, others by code.
            next_step: what to do next in other words, as those of the shell.
            width: characters of a line, at which the first sentence is wrapped.
        """
        step = self.next_step if next_step is None else next_step
        head, lines = self.headline, self.lines()
        if not verbose and head:
            known = [one for one in self.quantities.values() if not math.isnan(one.value)]
            head = head.replace(f"({self._level}: ", "(")
            said = zip(self.number_lines(), known, strict=True)
            said = {line for line, one in said if f"{one.number} ({one.interval})" in head}
            lines = [line for line in lines if line not in said]
        # An error that is the headline is not said twice.
        notes = in_brief([n for n in self.notes if verbose or n.message != head], verbose)
        first = [note for note in notes if note.startswith(("[error]", "[warning]"))][:2]
        opening = textwrap.wrap(
            self.headline, width, subsequent_indent="  ", break_on_hyphens=False
        )
        # What to do next stays in one line, so that it can be pasted.
        opening += [*first, *[f"Next: {step}"] * bool(step)]
        details = self.details() if verbose else []
        return "\n".join([*opening, *lines, *details, *notes[len(first) :]])

    def details(self) -> list[str]:
        """How the result was made, which a summary has where it is asked for all."""
        return []

    def lines(self) -> list[str]:
        """The answer without its notes."""
        tables = (table_lines(self.readable(table)) for table in self.shown().values())
        return [*self.number_lines(), *(line for lines in tables for line in lines)]

    def number_lines(self) -> list[str]:
        """A line for each of its numbers: name, number with unit, interval."""
        known = {name: one for name, one in self.quantities.items() if not math.isnan(one.value)}
        wide = max([12, *map(len, known)])
        most = max((len(one.number) for one in known.values()), default=0)
        lines = []
        for name, one in known.items():
            between = f"   {self._level}: {one.interval}" if one.interval else ""
            lines.append(f"{name:<{wide}} {one.number:<{most}}{between}".rstrip())
        return lines

    def readable(self, table: pd.DataFrame, *, beside: bool = False) -> pd.DataFrame:
        """A table as people read it: units in the heads, intervals in one column each.

        With ``beside`` an interval stands in the cell of its number, and no unit in a head.
        """
        # One name for each column; an index that has a name is one, too.
        table = table.reset_index() if any(table.index.names) else table.copy()
        if table.columns.nlevels > 1:
            # One data set alone need not be named in every head.
            alone = len({column[1] for column in table if column[1]}) == 1
            named = (column[:1] if alone else column for column in table)
            table.columns = [" ".join(filter(None, map(str, column))) for column in named]
        columns = {}
        for name in table:
            base, _, side = str(name).rpartition("_")
            if side in ("low", "high") and {base, f"{base}_low", f"{base}_high"} <= {*table}:
                continue
            unit = self.unit_of(str(name)) or ("", 1.0)
            noun = "" if unit[0] in ("", SHARE, RATIO) else f" ({unit[0]})"
            cells, between = [_cell(value, *unit) for value in table[name]], []
            if {f"{name}_low", f"{name}_high"} <= {*table}:
                limits = zip(table[f"{name}_low"], table[f"{name}_high"], strict=True)
                between = [written_range(low, high, *unit) for low, high in limits]
            if beside and between:
                pairs = zip(cells, between, strict=True)
                columns[f"{name} ({self._level})"] = [f"{cell} ({ends})" for cell, ends in pairs]
                continue
            columns[name if beside else f"{name}{noun}"] = cells
            if between:
                columns[f"{self._level} of {name}"] = between
        return pd.DataFrame(columns, index=table.index)

    def _all_shown(self) -> list[pd.DataFrame]:
        """Its numbers as a table, then its tables, as a notebook shows them."""
        rows = [(name, one.number, one.interval) for name, one in self.quantities.items()]
        numbers = pd.DataFrame(rows, columns=["quantity", "value", f"{self._level} interval"])
        numbers = numbers.loc[:, (numbers != "").any()]  # intervals, where there are any
        return [numbers] * bool(rows) + [self.readable(table) for table in self.shown().values()]

    def __repr__(self) -> str:
        """The summary."""
        return self.summary()

    def _repr_html_(self) -> str:
        """What a notebook shows: numbers with their intervals, tables, notes."""
        first = f"<p><b>{escape(self.headline or self.kind_name)}</b>"
        step = self.next_step
        parts = [first + f"<br>Next: {escape(step)}" * bool(step) + "</p>"]
        parts += [
            table.to_html(max_rows=_ROWS, border=0, index=False) for table in self._all_shown()
        ]
        parts += [f"<p>{escape(line)}</p>" for line in in_brief(self.notes)]
        return f'<div style="overflow-x: auto">{"".join(parts)}</div>'

    def to_latex(self, table: pd.DataFrame | None = None, *, label: str = "") -> str:
        r"""Its numbers, or its main table, as a table of LaTeX (``\usepackage{booktabs}``).

        Args:
            table: table of the result that is set instead, such as
                ``study.score_table(("r2",), average=True)``.
            label: name for ``\ref``, such as ``tab:study``.

        Raises:
            UsageError: it has neither numbers nor a table.
        """
        # For papers alone.
        from jaxlaw._latex import cell_in_latex, escape_latex, symbol

        tables = self._all_shown() if table is None else [self.readable(table)]
        if not tables:
            raise UsageError(f"this {self.kind_name} has no numbers and no table")
        main = tables[0].astype(str)
        form = {"parameter": symbol}
        columns = [list(map(form.get(name, cell_in_latex), main[name])) for name in main]
        sides = ("r" if main[name].str.match(r"-?[\d.]|$").all() else "l" for name in main)
        caption = escape_latex(self.headline or f"{self.kind_name.capitalize()}.")
        lines = [
            r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{''.join(sides)}}}", r"\toprule",
            " & ".join(map(escape_latex, main)) + r" \\", r"\midrule",
            *(" & ".join(row) + r" \\" for row in zip(*columns, strict=True)),
            r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}",
            *([rf"\label{{{label}}}"] if label else []), r"\end{table}",
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

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
            raise UsageError(f"there is no picture of a result of kind '{self.kind_name}'")
        # By name, for pictures stand above all results, and need matplotlib.
        draw = getattr(importlib.import_module("jaxlaw.plots"), self.picture)
        return draw(self, ax=ax, **options)

    # ------------------------------------------------------------------------ files

    def to_dict(self) -> dict[str, Any]:
        """Its fields as JSON has them; infinities and NaN as strings, tables as rows."""
        head = {"kind": f"jaxlaw {self.kind_name}", "schema": SCHEMA, "next_step": self.next_step}
        return head | records.plain(
            {_KEYS.get(name, name): getattr(self, name) for name in _typed.in_files(type(self))}
        )

    def save(self, path: str | Path) -> None:
        """Write it as one JSON file with a digest, which :func:`jaxlaw.load` reads.

        Args:
            path: name of the file; one that ends in ``.csv`` gets the main table alone, or the
                numbers, a row each, of a result without a table.

        Raises:
            UsageError: the file cannot be written.
        """
        if Path(path).suffix.lower() != ".csv":
            records.write_record(path, self._file_record())
            return
        rows = [{"quantity": name, **records.plain(one)} for name, one in self.quantities.items()]
        table = next(iter(self.tables.values()), pd.DataFrame(rows))
        records.write_atomic(path, lambda file: table.to_csv(file, index=False))

    def _file_record(self) -> dict:
        """What its files hold: :meth:`to_dict`, and what only reading or a picture needs."""
        return self.to_dict()

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote.

        Raises:
            UsageError: no such file.
            DataError: it holds something else, or was changed since.
        """
        known = (
            [] if cls is Result else [kind for kind in HOMES if issubclass(_class_of(kind), cls)]
        )
        return cls.from_dict(records.read_record(path, *known), records.source_name(path))

    @classmethod
    def from_dict(cls, record: Any, source: str = "record") -> Self:
        """The result of :meth:`to_dict`; raises as :meth:`load`."""
        with records.reading(source, cls.kind_name):
            return cls._read(record)

    @classmethod
    def _read(cls, record, where: str = "") -> Self:
        """The result of a record, or of a field of one; raises ValueError."""
        kind = records.kind_of(record) if isinstance(record, dict) else None
        of = _class_of(kind) if kind else None
        at = f"field '{where}'" if where else "it"
        if of is None or not issubclass(of, cls):
            raise ValueError(f"{at} is no jaxlaw {cls.kind_name}: field 'kind' does not say so")
        if record.get("schema") != SCHEMA:
            raise ValueError(
                f"{at} has schema {record.get('schema')}; this jaxlaw reads {SCHEMA}: make it "
                "again from its data, or read it by the version that wrote it"
            )
        try:
            return of._read_fields(record)
        except ValueError as error:
            inner = str(error).replace("field '", f"field '{where}." if where else "field '", 1)
            raise type(error)(inner) from None

    @classmethod
    def _read_fields(cls, record: dict) -> Self:
        hints = typing.get_type_hints(cls, include_extras=True)
        keys = {_KEYS.get(name, name): name for name in _typed.in_files(cls)}
        given = {k: v for k, v in record.items() if k not in ("kind", "schema", "next_step")}
        _typed.only(given, [*keys], "")
        values = {name: _typed.load(given[key], hints[name], key) for key, name in keys.items()}
        return cls(**cls._consistent(values))

    @classmethod
    def _consistent(cls, values: dict) -> dict:
        """The fields that were read, held against each other.

        Raises:
            ValueError: they cannot be those of one result.
        """
        return values


Result.kind_name = "result"


def _class_of(kind: str) -> type[Result]:
    """The class of a file's kind."""
    home, name = f".{HOMES[kind]}" if kind in HOMES else "", kind.title().replace(" ", "")
    return getattr(importlib.import_module(f"jaxlaw{home}"), name if home else "Answer")


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
    pages = [[]]
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


def level_in_words(level: float) -> str:
    """A confidence level in words: ``90%``."""
    return f"{100 * level:.4g}%"


def _cell(value, unit: str, worth: float) -> str:
    """A cell of a table for people, without the unit, which the head has."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return "" if value is None else str(value)
    if isinstance(value, int | np.integer) and unit not in COUNTED:
        return str(value)
    return "" if math.isnan(value) else number_of(float(value), unit, worth)
