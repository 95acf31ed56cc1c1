"""Help in groups: the options of a command and the commands of the app, the common ones first.

Typer draws panels by rich alone, whose import takes as long as all the rest of ``jaxlaw --help``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo, OptionInfo

#: Heading → options by the names of their arguments, those that are used most first. An option
#: that is not listed is the command's own, and stands above all groups.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "Data": (
        "column", "unit", "where", "target", "weight", "corpus", "value", "last_of", "drop_invalid",
        "format", "groups",
    ),
    "Law": (
        "fix", "tie", "bound", "residuals", "delta", "constraint", "base", "no_base", "asymmetry",
        "prior", "evaluation",
    ),
    "Loss curves": (
        "schedules", "decay", "first_step", "s1_before", "batch", "fill", "count_warmup",
        "carry_momentum", "epsilon",
    ),
    "Search": ("n_starts", "n_local", "no_screen", "starts", "solver", "seed", "strict"),
    "Long work": ("work_dir", "distributed", "compile_cache"),
    "Output": ("out", "draws", "title", "as_json", "progress", "help"),
}  # fmt: skip
_OWN = "Options"
#: Heading → commands, in the order in which a new user needs them.
_COMMANDS: dict[str, tuple[str, ...]] = {
    "Begin": ("demo", "laws"),
    "Fit and predict": ("fit", "predict", "plot", "report"),
    "Forecast": ("forecast", "scores", "compute-for-score", "backtest", "score"),
    "Decide": ("plan", "design"),
    "Uncertainty and comparison": (
        "bootstrap", "covariance", "profile", "influence", "identifiability", "study",
    ),
    "Loss curves": ("curve", "areas"),
    "Mixtures": ("inflection",),
}  # fmt: skip
#: The same of the plans; one that is not listed stands below them.
_PLANS: dict[str, tuple[str, ...]] = {
    "Size and tokens": (
        "allocation", "frontier", "target", "tokens-per-parameter", "allocation-law",
        "compute-multiplier", "loss-envelope",
    ),
    "Any inputs of any law": ("minimise", "solve"),
    "Learning rate and batch": ("hyperparameters", "critical-batch-size", "best-settings"),
    "Mixtures": (
        "optimal-mixture", "critical-ratio", "optimal-mixture-data-limited",
        "optimal-weights", "compare-replay", "out-of-domain",
    ),
    "Continual runs and schedules": (
        "continual", "optimal-training", "turning-length", "optimal-schedule",
    ),
    "From a base or from scratch": (
        "break-even", "frontier-savings", "transfer", "observed-transfer", "pretraining-value",
    ),
}  # fmt: skip
#: Argument → how its value is written; of others by the kind of value.
_FORMS = {
    "column": "NAME=COLUMN", "unit": "NAME=NUMBER", "value": "NAME=NUMBER", "fix": "NAME=NUMBER",
    "at": "NAME=NUMBER", "tie": "NAME=NAME", "bound": "NAME=LOW:HIGH", "limit": "NAME=LOW:HIGH",
    "where": "CONDITION", "groups": "COLUMNS", "work_dir": "FOLDER",
    "compile_cache": "FOLDER",
}  # fmt: skip
_KINDS = {"int": "N", "float": "NUMBER", "Path": "FILE", "str": "TEXT"}


class Command(TyperCommand):
    """A command whose help shows its options in groups."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Arguments by their metavars: some versions of typer put them in braces."""
        arguments = [param for param in self.params if param.param_type_name == "argument"]
        named = [(param, str(getattr(param, "metavar", "") or param.name)) for param in arguments]
        pieces = [
            name if param.required or name.startswith("[") else f"[{name}]" for param, name in named
        ]
        return [self.options_metavar or "", *pieces]

    def get_usage(self, ctx: Any) -> str:
        """The usage, and below it the example: an error of usage shows both."""
        example = " ".join((self.help or "").partition("Example: ")[2].split())
        return super().get_usage(ctx) + (f"\nExample: {example}" if example else "")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, the command's own options, then the groups."""
        order = {name: (heading, place) for heading, names in _OPTIONS.items()
                 for place, name in enumerate(names)}  # fmt: skip
        groups: dict[str, list[tuple[int, Any]]] = {"Arguments": [], _OWN: []}
        groups |= {heading: [] for heading in _OPTIONS}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is None:
                continue
            heading, place = _heading(param, order)
            if heading == "Arguments":
                record = record[0].partition(" <")[0], record[1]  # and not the type behind it
            groups[heading].append((place, record))
        for heading, records in groups.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl([one for _, one in sorted(records, key=lambda r: r[0])])


def _heading(param: Any, order: Mapping[str, tuple[str, int]]) -> tuple[str, int]:
    """The group of a parameter, and its place there."""
    if param.param_type_name == "argument":
        return "Arguments", 0
    if param.name == "weight" and param.metavar != "COLUMN":  # λ1 of a plan
        return _OWN, 0
    return order.get(param.name, (_OWN, 0))


class Commands(TyperGroup):
    """A group whose help shows its commands in families, each with the whole of its first line."""

    families: Mapping[str, Iterable[str]] = _COMMANDS

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the families."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        left = {name: one for name, one in commands.items() if one}
        width = max(map(len, left), default=0)
        others = "Others" if left.keys() & chain(*self.families.values()) else "Commands"
        for heading, names in [*self.families.items(), (others, tuple(left))]:
            here = [(name, left.pop(name)) for name in names if name in left]
            rows = [(name.ljust(width), _first_line(command)) for name, command in here]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


class Plans(Commands):
    """The group of the plans."""

    families = _PLANS


def _first_line(command: Any) -> str:
    """What a command does, in one sentence, not cut."""
    return command.get_short_help_str(1000)


def write_forms(signature: inspect.Signature) -> None:
    """Say of a command's options and arguments what their values look like, where none says it."""
    for name, parameter in signature.parameters.items():
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, ArgumentInfo) and info.metavar is None:
                info.metavar = name.upper() + ("..." if "list" in str(parameter.annotation) else "")
            elif isinstance(info, OptionInfo) and info.metavar is None:
                kind = re.match(r"\W*(?:list\W)?(?:\w+\.)*(\w+)", _hint(parameter.annotation))
                found = _KINDS.get(kind[1], "") if kind else ""
                info.metavar = _FORMS.get(name, found) or None


def _hint(annotation: Any) -> str:
    return str(annotation.__origin__).removeprefix("<class '")
