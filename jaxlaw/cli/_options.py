"""Options that several commands take, and how their texts are read; needs typer, an extra.

Nothing here imports JAX or pandas before an option is used: help and completion must not wait
for them. Choices that such a module defines are written out here; a test compares them. So are
types and defaults of the options of a fit, which :class:`jaxlaw.fitting.FitOptions` declares:
typer reads them from annotations, and to import that class would import JAX. A test holds these
equal, and fails where an option of a fit is not in the shell.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import jaxlaw as jl
from jaxlaw.cli._inputs import PUBLISHED, loaded_fit
from jaxlaw.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

LABELLED = {"group"}  # inputs that take labels
SOLVERS = ("newton", "lbfgs", "lbfgs-optax")
FORMATS = ("wandb", "tensorboard", "lm-eval", "hf-trainer")
DESIGNS = ("hold-out", "leave-one-group-out", "leave-p-groups-out", "contiguous-blocks", "k-fold",
           "shuffle-split", "in-sample")  # fmt: skip


def completed(values: Iterable[str] | Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """What the shell offers for the beginning of a word."""

    def matching(incomplete: str) -> list[str]:
        every = values() if callable(values) else values
        return [name for name in every if name.startswith(incomplete)]

    return matching


def law_names() -> list[str]:
    """Names of the built-in laws, those to begin with first; read without JAX."""
    from jaxlaw._law_families import FAMILIES, MADE

    return [*(name for names in FAMILIES.values() for name in names), *MADE]


#: Begins the names of fits of the library of the field.
OF_FIELD = "field-"


def published_names() -> list[str]:
    """Names of printed coefficients, and of the library of the field; read without JAX."""
    from jaxlaw._json import parse_json

    known = parse_json(Path(jl.__path__[0], "fitting", "field.json").read_text("utf-8"))
    of_field = [f"{OF_FIELD}{one['source']}-{one['name']}-{one['law']}"
                for one in known["experiments"]]  # fmt: skip
    return [*_printed_names(), *of_field]


def _printed_names() -> list[str]:
    """Names of printed coefficients."""
    import tomllib

    text = Path(jl.__path__[0], "fitting", "published.toml").read_text("utf-8")
    return [name for name in tomllib.loads(text) if name != "notes"]


def _published_fits() -> list[str]:
    return [PUBLISHED + name for name in published_names()]


def fit_argument(help: str) -> Any:
    """Of a fit: its file, ``-``, or coefficients that a paper prints."""
    return typer.Argument(help=help, autocompletion=completed(_published_fits))


Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]

#: What the help of every command that takes a law says of a user's own.
OWN_LAW = "FILE.py:LAW for one of your own (runs that Python file)"
LawOrFit = Annotated[
    str,
    typer.Argument(
        help=f"Name of a law, {OWN_LAW}, or a fit of these data (JSON).",
        metavar="LAW",
        autocompletion=completed(law_names),
    ),
]
Data = Annotated[str, typer.Argument(help="CSV, JSON lines or Parquet file; - for stdin.")]
Groups = Annotated[str | None, typer.Option(help="Columns whose rows share noise: run, or N,r.")]
Level = Annotated[float, typer.Option(help="Confidence level of the intervals.")]
PredictAt = Annotated[
    list[str] | None, typer.Option(help="Predict there too: N=7e9, N=1e9,7e9, or a file of points.")
]

Out = Annotated[Path | None, typer.Option(help="Write it (JSON, or the table as CSV).")]
OutOrPicture = Annotated[
    Path | None,
    typer.Option(help="Write it (JSON, or the table as CSV) or draw it (PNG, PDF, SVG)."),
]

# How data are read.
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", "-c", help="Which column is what: N=n_params; repeatable."),
]
Units = Annotated[
    list[str] | None,
    typer.Option("--unit", "-u", help="What one of a column is worth: N=1e9; repeatable."),
]
Where = Annotated[
    str | None,
    typer.Option(
        help="Rows to keep, by ==, !=, <, <=, >, >=, in [..], and, or, not: "
        "\"split == 'fit' and N > 1e8\"."
    ),
]
Weight = Annotated[str | None, typer.Option(help="Column of weights.", metavar="COLUMN")]
Corpus = Annotated[
    str | None,
    typer.Option(
        "--corpus",
        "--share",
        help="Whose share and loss, by r_d, r_g: general or domain.",
        autocompletion=completed(("general", "domain")),
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="The tool that wrote the files: wandb, tensorboard, lm-eval or hf-trainer.",
        autocompletion=completed(FORMATS),
    ),
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--value",
        help="What the data do not say: N=1e9, or N=runA:1e9,runB:7e9; repeatable.",
    ),
]
Target = Annotated[
    str | None, typer.Option(help="Column that the law predicts, whatever the law calls it.")
]
LastOf = Annotated[
    str | None,
    typer.Option(help="Column that names runs, of each of which the last row counts: run."),
]
DropInvalid = Annotated[
    bool, typer.Option("--drop-invalid", help="Drop rows without valid numbers.")
]

# What is fitted.
Constraint = Annotated[
    str | None,
    typer.Option(help="dcpt: paper or observed.", autocompletion=completed(("paper", "observed"))),
]
Delta = Annotated[float | None, typer.Option(help="Huber threshold.")]
Residuals = Annotated[
    str | None,
    typer.Option(
        "--residuals",
        "--space",
        help="Residuals: log or linear.",
        autocompletion=completed(("log", "linear")),
    ),
]
Fix = Annotated[list[str] | None, typer.Option(help="alpha=0.34; repeatable.")]
Tie = Annotated[list[str] | None, typer.Option(help="beta=alpha; repeatable.")]
Bound = Annotated[list[str] | None, typer.Option(help="alpha=0.1:1; repeatable.")]
Base = Annotated[Path | None, typer.Option(help="cpt-chinchilla: a from-scratch fit (JSON).")]
Evaluation = Annotated[
    str | None,
    typer.Option(help="Name of what the loss was measured on, for forecasts of later ones."),
]

# How it is searched for.
Starts = Annotated[
    int | None, typer.Option(min=1, help="Size of the Sobol sample; the law's own by default.")
]
Local = Annotated[
    int, typer.Option("--n-local", "--screen", min=1, help="The best of them are solved.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the Sobol sample.")]
NoScreen = Annotated[bool, typer.Option("--no-screen", help="Solve all.")]
Solver = Annotated[
    str, typer.Option(help="newton, lbfgs or lbfgs-optax.", autocompletion=completed(SOLVERS))
]

# How long work is done.
WorkDir = Annotated[
    Path | None,
    typer.Option(help="Folder that keeps finished parts; killed, the command goes on there."),
]
Progress = Annotated[
    bool | None,
    typer.Option("--progress/--quiet", help="Show progress at once, or never; else after 2 s."),
]
Distributed = Annotated[
    bool,
    typer.Option("--distributed", help="Share the work among the processes of a cluster job."),
]
CompileCache = Annotated[
    Path | None, typer.Option(help="Folder of compiled programs, in place of your cache folder.")
]


def columns_named(text: str | None) -> list[str] | None:
    """``N,r`` → ``["N", "r"]``."""
    return text.split(",") if text else None


def pairs(items: Sequence[str] | None, option: str) -> dict[str, str]:
    """``["N=n_params"]`` → ``{"N": "n_params"}``."""
    pairs = {}
    for item in items or ():
        name, sign, value = item.partition("=")
        if not sign or not name or not value:
            raise UsageError(f"{option} takes NAME=VALUE, not '{item}'")
        if name in pairs:
            raise UsageError(f"{option} names {name} twice")
        pairs[name] = value
    return pairs


def split_pairs(item: str) -> list[str]:
    """``"N=1e9,7e9,D=1e12"`` → ``["N=1e9,7e9", "D=1e12"]``: several inputs given at once."""
    return re.split(r",(?=[^,=]*=)", item)


def pairs_in(items: Sequence[str] | None, option: str) -> dict[str, str]:
    """:func:`pairs`, of items each of which may hold several."""
    return pairs([pair for item in items or () for pair in split_pairs(item)], option)


def number(text: str, option: str, name: str = "") -> Any:
    """The number, or a complaint that names the option; of an input also a label, or ``70B``."""
    from jaxlaw._quantities import says_unit

    if name in LABELLED or (name and says_unit(text)):
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{option}: '{text}' is not a number") from None


def quantity(text: str, option: str) -> Any:
    """A number, or a text that says its unit, such as 70B."""
    return number(text, option, option)


def unit_of(text: str) -> Any:
    """A number, or a word such as B for read_runs to judge."""
    try:
        return float(text)
    except ValueError:
        return text


def numbers_of(items: Sequence[str] | None, option: str) -> dict[str, Any]:
    """``["N=1e9"]`` → ``{"N": 1e9}``."""
    return {name: number(text, option, name) for name, text in pairs(items, option).items()}


def ranges_of(
    items: Sequence[str] | None, option: str
) -> dict[str, tuple[float | None, float | None]]:
    """``["alpha=0.1:1"]`` → ``{"alpha": (0.1, 1)}``."""
    return {name: value_range(text, option) for name, text in pairs(items, option).items()}


def limits_of(items: Sequence[str] | None, option: str) -> dict[str, tuple[Any, Any]]:
    """``["N=1B:70B"]`` → ``{"N": ("1B", "70B")}``."""
    return {n: value_range(text, option, quantity) for n, text in pairs(items, option).items()}


def searched_in(items: Sequence[str], option: str) -> dict[str, Any]:
    """``["lr=1e-4:1e-2,batch", "N"]`` → ``{"lr": (1e-4, 1e-2), "batch": None, "N": None}``."""
    items = [one for item in items for one in item.split(",")]
    ranges = limits_of([item for item in items if "=" in item], option)
    return {item.partition("=")[0]: ranges.get(item.partition("=")[0]) for item in items}


def value_range(
    text: str, option: str, read: Callable[[str, str], Any] = number
) -> tuple[Any, Any]:
    """``0.1:1`` → (0.1, 1), either side may be empty; each side is read by a function."""
    low, colon, high = text.partition(":")
    if not colon:
        raise UsageError(f"{option} takes LOW:HIGH, either may be empty, not '{text}'")
    return read(low, option) if low else None, read(high, option) if high else None


def combinations(items: Sequence[str] | None, option: str) -> dict[str, np.ndarray]:
    """Points as arrays (k,) by name: ``["N=1e9,7e9", "D=1e12"]``, all k combinations, or a file."""
    import numpy as np

    if items and (files := [item for item in items if "=" not in item]):
        return _points_in(files, items, option)
    given = pairs_in(items, option)
    values = [
        np.array([number(item, option, name) for item in text.split(",")], object)
        for name, text in given.items()
    ]
    grids = np.meshgrid(*values, indexing="ij")
    return {name: grid.ravel() for name, grid in zip(given, grids, strict=True)}


def _points_in(files: list[str], items: Sequence[str], option: str) -> dict[str, np.ndarray]:
    """The points of a file, a column an input and a row a point."""
    from jaxlaw._tables import read_table

    if len(items) > 1:
        raise UsageError(f"{option} takes one file of points, or NAME=VALUE for each input")
    if not Path(files[0]).suffix and not Path(files[0]).exists():
        raise UsageError(f"{option} takes NAME=VALUE, or a file of points, not '{files[0]}'")
    frame = read_table(files[0]).frame

    return {str(name): frame[name].to_numpy() for name in frame}


def values_of(items: list[str] | None) -> dict[str, Any] | None:
    """``["N=1e9"]`` → ``{"N": 1e9}``, ``["N=a:1,b:2"]`` → ``{"N": {"a": 1.0, "b": 2.0}}``."""
    values = {}
    for name, text in pairs(items, "--value").items():
        if ":" not in text:
            values[name] = number(text, "--value")
            continue
        by_run = [item.rpartition(":") for item in text.split(",")]
        values[name] = {run: number(value, "--value") for run, _, value in by_run}
    return values or None


# What a plan takes.
At = Annotated[
    list[str] | None,
    typer.Option(help="N=1.8e9: an input, in the units of the fitted runs; repeatable."),
]
Draws = Annotated[
    list[Path] | None,
    typer.Option(
        "--bootstrap",
        help="What `jaxlaw bootstrap --draws` wrote of a fit (JSON, CSV): intervals. One for "
        "each fit, in their order. The JSON may also stand in place of the fit.",
    ),
]
Limit = Annotated[
    list[str] | None,
    typer.Option(help="Limits N=1e8:7e10, where either side may be empty; repeatable."),
]
PlanOut = Annotated[
    Path | None, typer.Option(help="Write the answer (JSON, CSV) or draw it (PNG, PDF, SVG).")
]


def inputs_at(at: list[str] | None, option: str = "--at") -> dict[str, Any]:
    """``["N=1e9", "group=c4", "r=best"]`` → numbers and labels by name, and r=best as it is."""
    return {
        name: text
        if name == "group" or (name, text) == ("r", "best")
        else number(text, option, name)
        for name, text in pairs_in(at, option).items()
    }


def numbers_in(text: str, option: str, between: int = 13) -> list[float]:
    """``1e19,1e20``, or so many numbers between ``1e19:1e23``."""
    if ":" not in text:
        return [quantity(item, option) for item in text.split(",")]
    low, high = value_range(text, option)
    if low is None or high is None or not 0 < low < high:
        raise UsageError(f"{option} takes LOW:HIGH or a list, not '{text}'")
    import numpy as np

    return list(np.geomspace(low, high, between))


Command = Callable[..., None]


def with_options(command: Command, into: str, made_by: Callable[..., Any]) -> Command:
    """The command, with the options of a function; it is given what that returns.

    Args:
        command: the command.
        into: name of the argument through which the command is given it.
        made_by: the function, whose arguments are annotated as options. One that the command has
            in a form of its own stays with it.
    """
    parameters = [
        p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != into
    ]
    added = {
        name: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(made_by, eval_str=True).parameters.items()
        if name not in {p.name for p in parameters}
    }

    @functools.wraps(command)
    def call(**given: Any) -> None:
        options = {name: given.pop(name) for name in added}
        command(**given, **{into: made_by(**options)})

    kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    call.__signature__ = inspect.Signature([*kept, *added.values()])  # type: ignore[attr-defined]
    return call


def _reading(
    column: Columns = None,
    unit: Units = None,
    where: Where = None,
    weight: Weight = None,
    corpus: Corpus = None,
    drop_invalid: DropInvalid = False,
    format: Format = None,
    value: Values = None,
    target: Target = None,
    last_of: LastOf = None,
) -> dict[str, Any]:
    """Options of :func:`jaxlaw.read_runs`."""
    others = {"where": where, "weight": weight, "corpus": corpus, "format": format}
    others |= {"target": target, "last_of": last_of}
    return {
        "columns": pairs(column, "--column"),
        "units": {name: unit_of(text) for name, text in pairs(unit, "--unit").items()},
        "values": values_of(value),
        "drop_invalid": drop_invalid,
        **others,
    }


def _objective(
    constraint: Constraint = None,
    delta: Delta = None,
    residuals: Residuals = None,
    fix: Fix = None,
    tie: Tie = None,
    bound: Bound = None,
    base: Base = None,
    evaluation: Evaluation = None,
) -> dict[str, Any]:
    """Options of :func:`jaxlaw.fit` that say what is fitted, without what was left out."""
    options = {
        "constraint": constraint,
        "delta": delta,
        "residuals": residuals,
        "fixed": numbers_of(fix, "--fix"),
        "tied": pairs(tie, "--tie"),
        "bounds": ranges_of(bound, "--bound"),
        "base": loaded_fit(base) if base else None,
    }
    options["evaluation"] = evaluation
    return {name: value for name, value in options.items() if value not in (None, {})}


def _working(
    work_dir: WorkDir = None,
    progress: Progress = None,
    distributed: Distributed = False,
    compile_cache: CompileCache = None,
) -> dict[str, Any]:
    """How long work is done, in a job that has been joined; every command shows progress itself."""
    if distributed:
        jl.fitting.init_distributed()
    return {
        "work_dir": work_dir,
        "distributed": distributed,
        "compile_cache": compile_cache,
    }


reads_runs = functools.partial(with_options, into="reading", made_by=_reading)
sets_objective = functools.partial(with_options, into="objective", made_by=_objective)
works_long = functools.partial(with_options, into="working", made_by=_working)


def is_silent(working: dict[str, Any]) -> bool:
    """Whether this is a process of a job whose first one speaks for all."""
    import jax

    return working["distributed"] and jax.process_index() > 0
