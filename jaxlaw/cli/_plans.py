"""The commands ``jaxlaw plan …``; needs typer, which is an extra.

Their options are made of the signatures and docstrings of the functions of :mod:`jaxlaw.planning`
that they call (:func:`options_of`). A function whose docstring has a section ``Shell:`` is a
command by itself; those that read more than fits and tables, or choose between functions, are
written below.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import jaxlaw as jl
from jaxlaw._spec_strings import parse_spec
from jaxlaw.cli import _curves as curves
from jaxlaw.cli import _options as opt
from jaxlaw.cli._guard import guard_every
from jaxlaw.cli._inputs import PUBLISHED, law_named, loaded_fits
from jaxlaw.cli._options import (
    inputs_at,
    limits_of,
    number,
    numbers_in,
    numbers_of,
    pairs,
    quantity,
    searched_in,
    value_range,
    values_of,
)
from jaxlaw.cli._output import (
    ANSWER,
    check_out,
    conclude_plan,
    is_picture,
    print_frame,
)
from jaxlaw.cli._signatures import REQUIRED, Argument, home, signature, with_command
from jaxlaw.errors import UsageError, nearest

if TYPE_CHECKING:
    from jaxlaw.planning import ContinualPretraining

#: Plan written by hand → its command, and what decorates it, the outermost first.
_BY_HAND: dict[str, tuple[Callable[..., None], Sequence[Any]]] = {}

_SHOWN = 20  # steps of a predicted curve


# --- options from signatures


def _both(text: str, option: str) -> tuple[float, float]:
    low, high = value_range(text, option)
    if low is None or high is None:
        raise UsageError(f"{option} takes LOW:HIGH, both of them")
    return low, high


def _all_both(items: Any, option: str) -> dict[str, tuple[float, float]]:
    return {name: _both(text, f"{option} {name}=") for name, text in pairs(items, option).items()}


def _each_of(items: Any, option: str) -> dict[str, Any]:
    return {name: numbers_in(text, option) for name, text in pairs(items, option).items()}


def _schedule(text: str, option: str) -> Any:
    from jaxlaw.data import as_schedule

    return as_schedule(text)


def _between(text: str, option: str) -> tuple[Any, Any]:
    return value_range(text, option, quantity)


def _constraints(items: Any, option: str) -> list[Any]:
    """``["budget:1e21,served_tokens=1e12", "corpus:1e10,max_epochs=4"]`` as objects."""
    return [_constraint(item, option) for item in items]


def _constraint(item: str, option: str) -> Any:
    name, values, named = parse_spec(item)
    if name not in _CONSTRAINTS:
        listed = ", ".join(_CONSTRAINTS)
        raise UsageError(f"{option} takes {listed}, not '{name}'.{nearest(name, _CONSTRAINTS)}")
    kind = getattr(jl.planning, _CONSTRAINTS[name])
    fields = [field.name for field in dataclasses.fields(kind)]
    for key in named:
        if key not in fields:
            raise UsageError(f"{option} {name} takes no {key}.{nearest(key, fields)}")
    given = {**({fields[0]: ":".join(values)} if values else {}), **named}
    try:
        return kind(**{key: _read_field(key, text, option) for key, text in given.items()})
    except TypeError:
        raise UsageError(f"{option} {item}: {name} needs more, such as {_SUCH_AS}") from None


def _read_field(name: str, text: str, option: str) -> Any:
    """A field of a constraint: a fit, names joined by +, a name, or a quantity."""
    if name == "fit":
        return loaded_fits([text], None)[0]
    if name == "rest":
        return tuple(text.split("+"))
    if name in ("label", "share"):
        return text
    if name in ("cost", "at"):
        raise UsageError(f"{option}: {name} is for Python; --at gives the inputs of all laws")
    return quantity(text, option)


#: Constraint of the shell → its class in :mod:`jaxlaw.planning`.
_CONSTRAINTS = {"budget": "Budget", "corpus": "Corpus", "at-most": "AtMost"}
_SUCH_AS = (
    "budget:1e21,served_tokens=1e12, corpus:1e10,max_epochs=4 or "
    "at-most:general.json,loss=2.9,rest=r"
)


def _table(text: str, option: str) -> Any:
    return jl.read_runs(text).table


def _as_it_is(value: Any, option: str) -> Any:
    return value


#: Type hint → the kind of option, how its text is read, and the words of its help.
_KINDS: dict[str, tuple[Any, Callable[[Any, str], Any], str]] = {
    "float": (float, _as_it_is, ""),
    "int": (int, _as_it_is, ""),
    "int | Sequence[float]": (int, _as_it_is, ""),
    "str": (str, _as_it_is, ""),
    "Amount": (str, quantity, ""),
    "Mapping[str, tuple[float | str | None, float | str | None]]": (
        list[str],
        limits_of,
        "Write NAME=LOW:HIGH, where either side may be empty; repeatable.",
    ),
    "Mapping[str, tuple[float | str | None, float | str | None] | None]": (
        list[str],
        searched_in,
        "Write NAME, or NAME=LOW:HIGH, where either side may be empty; repeatable.",
    ),
    "tuple[float | str | None, float | str | None]": (
        str,
        _between,
        "Write LOW:HIGH, where either side may be empty.",
    ),
    "Sequence[Budget | Corpus | AtMost]": (
        list[str],
        _constraints,
        f"Write {_SUCH_AS}; repeatable.",
    ),
    "Mapping[str, tuple[float, float]]": (list[str], _all_both, "Write NAME=LOW:HIGH; repeatable."),
    "Mapping[str, Sequence[float]]": (list[str], _each_of, "NAME=VALUE,VALUE; repeatable."),
    "Mapping[str, float]": (list[str], numbers_of, "NAME=VALUE; repeatable."),
    "Mapping[str, float | str]": (list[str], inputs_at, "NAME=VALUE; repeatable."),
    "Sequence[Amount]": (str, numbers_in, "Write 1e19,1e20, or 1e19:1e23 for 13 values between."),
    "Sequence[float]": (str, numbers_in, "Write 1e19,1e20, or 1e19:1e23 for 13 values between."),
    "tuple[Amount, Amount]": (str, _both, "Write LOW:HIGH."),
    "Schedule": (str, _schedule, "Such as wsd:peak=2e-4,steps=40000,final=2e-5."),
    "Schedule | str": (str, _as_it_is, ""),
}
#: Arguments of the same name whose options commands share.
_SHARED: dict[str, tuple[Any, Callable[[Any, str], Any]]] = {
    "level": (opt.Level, _as_it_is),
    "column": (opt.Columns, pairs),
    "where": (opt.Where, _as_it_is),
    "law": (Annotated[str, typer.Option(help=f"A law of one input, or {opt.OWN_LAW}.")],
            lambda text, _: law_named(text)),
}  # fmt: skip


#: Arguments that are fits: what of.
_FITS = {
    "fit": "that `jaxlaw fit --out` wrote, or a forecast",
    "scratch": "of runs from scratch",
    "continual": "of runs from a base",
    "general": "of the general loss",
    "domain": "of the domain loss",
    "pt": "of the loss on the pre-training corpus",
    "cpt": "of the loss on the new corpus",
}
#: Arguments that are fits by name.
_NAMED_FITS = {
    "fits": "Fits over the shares: python=python.json …",
    "domains": "Fits of domain losses: code=code.json math=math.json …",
}


class Call:
    """A call of a function of planning or papers, made of options.

    Attributes:
        fits: the fits, or bootstraps, that the command was given, in their order.
        arguments: arguments of the call.
    """

    def __init__(self, function: str, fits: list[Any], arguments: dict[str, Any]) -> None:
        self.function, self.fits, self.arguments = function, fits, arguments

    def __call__(self, **more: Any) -> Any:
        """What the function finds, given more arguments."""
        package, name = home(self.function)
        return getattr(getattr(jl, package), name)(*self.fits, **{**self.arguments, **more})


class _FitFiles(NamedTuple):
    """Arguments of a function that are fits, and so files in the shell.

    Attributes:
        leading: names of those that come first, each a file.
        named: name of the one that is several fits by name; empty without one.
        optional: names of those that have a default, and so are options.
    """

    leading: Sequence[str]
    named: str
    optional: Sequence[str]

    @property
    def every(self) -> list[str]:
        """All of their names."""
        return [*self.leading, *([self.named] if self.named else []), *self.optional]

    def arguments(self) -> list[inspect.Parameter]:
        """The files that are given without an option."""
        every = [
            _parameter(name, Annotated[str, opt.fit_argument(f"A fit {_FITS[name]} (JSON).")])
            for name in self.leading
        ]
        if self.named:
            kind = Annotated[list[str], typer.Argument(help=_NAMED_FITS[self.named])]
            every.append(_parameter(self.named, kind))
        return every

    def options(self) -> list[inspect.Parameter]:
        """The others."""
        return [
            _parameter(
                name, Annotated[str | None, typer.Option(help=f"A fit {_FITS[name]} (JSON).")], None
            )
            for name in self.optional
        ]

    def loaded(self, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The leading fits, and the others by argument; taken out of what was given."""
        if not self.every:
            return [], {}
        files = [given.pop(name) for name in self.leading]
        by_name = pairs(given.pop(self.named), f"the {self.named}") if self.named else {}
        more = {name: file for name in self.optional if (file := given.pop(name))}
        every = loaded_fits([*files, *by_name.values(), *more.values()], given.pop("bootstrap"))
        rest = iter(every[len(files) :])
        others = {self.named: {name: next(rest) for name in by_name}} if self.named else {}
        return every[: len(files)], others | {name: next(rest) for name in more}


def _fit_files(
    arguments: Mapping[str, Argument], leading: Sequence[str], skip: Sequence[str]
) -> _FitFiles:
    left = [name for name in arguments if name not in (*leading, *skip)]
    named = [name for name in left if name in _NAMED_FITS]
    return _FitFiles(leading, "".join(named), [name for name in left if name in _FITS])


def options_of(
    function: str, fits: Sequence[str] = (), skip: Sequence[str] = (), **renamed: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with the options that the signature of a function has.

    It is given ``call``, a :class:`Call`.

    Args:
        function: name of the function, as :func:`home` takes it.
        fits: its leading arguments that are files of fits.
        skip: arguments that the command takes in a form of its own.
        renamed: argument → name of its option, where that is another.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        meant = signature(*home(function))
        files = _fit_files(meant.arguments, fits, skip)
        from_at = _given_by_at(meant.arguments, skip)
        flags = _flags_of(meant.arguments, {*files.every, *skip, *from_at}, renamed)
        parameters = list(inspect.signature(command, eval_str=True).parameters.values())
        own = {parameter.name for parameter in parameters}
        reads_at = bool(from_at) and "at" not in own

        @wraps(command)
        def run(**given: Any) -> None:
            check_out(given["out"], *ANSWER)
            leading, arguments = files.loaded(given)
            values = inputs_at(given.pop("at")) if reads_at else {}
            inputs = {name for name in from_at if name.isupper()} & values.keys()
            arguments |= {name: values.pop(name) for name in inputs}
            arguments |= {"at": values} if values else {}
            for argument, (name, _, default, read) in flags.items():
                value = given.pop(name)
                # What was left out stays out: the function knows its default.
                if value is not None and value is not False and value != default:
                    arguments[argument] = read(value, _flag(name))
            command(**given, call=Call(function, leading, arguments))

        made = [_parameter(name, kind, default) for name, kind, default, _ in flags.values()]
        if reads_at:
            help = getattr(meant.arguments.get("at"), "help", "")
            made.append(_parameter("at", _at("best" in help), None))
        kept = _in_order(parameters, files, made)
        run.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
        text = inspect.cleandoc(command.__doc__ or "")
        if not text.partition("Example:")[0]:
            run.__doc__ = f"{meant.summary}\n\n{text}"
        return run

    return decorate


def _given_by_at(arguments: Mapping[str, Argument], skip: Sequence[str]) -> list[str]:
    """Arguments that ``--at`` gives: inputs of their own, such as N, and ``at`` with all others."""
    own = [name for name in arguments if name.isupper() and name not in skip]
    if "at" in skip or "at" not in arguments:
        return own
    return [*own, "at"] if arguments["at"].hint.startswith("Mapping[") else own


def _flags_of(
    arguments: Mapping[str, Argument], skipped: Collection[str], renamed: Mapping[str, str]
) -> dict[str, tuple[str, Any, Any, Callable[[Any, str], Any]]]:
    """Argument → its option: name, annotation, default, and how its text is read."""
    flags = {}
    for name, argument in arguments.items():
        if name not in skipped and not argument.hint.startswith("Callable"):
            kind, read = _option(argument, renamed.get(name))
            default = argument.default if argument.default != () else None
            flags[name] = _name(argument, renamed.get(name)), kind, default, read
    return flags


def _in_order(
    own: Sequence[inspect.Parameter], files: _FitFiles, made: Sequence[inspect.Parameter]
) -> list[inspect.Parameter]:
    """Files, options of the command's own, those that are made, and --out and --json at the end."""
    last = [parameter for parameter in own if parameter.name in ("out", "as_json")]
    first = [one for one in own if one not in last and one.name != "call"]
    draws = [_parameter("bootstrap", opt.Draws, None)] if files.every else []
    every = [*files.arguments(), *first, *files.options(), *made, *draws, *last]
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in every]


def _parameter(name: str, kind: Any, default: Any = REQUIRED) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is REQUIRED else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _flag(name: str) -> str:
    """The option of a name: ``for_``, which Python has a word for, is ``--for``."""
    return "--" + name.rstrip("_").replace("_", "-")


def _name(argument: Argument, renamed: str | None) -> str:
    """Of an option: what is repeated is named once, and a count without its n."""
    many = argument.hint.startswith("Mapping[")
    name = argument.name.removesuffix("s") if many else argument.name
    return renamed or {"n_resamples": "resamples", "confidence_level": "level"}.get(name, name)


def _option(argument: Argument, renamed: str | None) -> tuple[Any, Callable[[Any, str], Any]]:
    """The annotation that typer reads, and how the option's text becomes the argument."""
    if (name := _name(argument, renamed)) in _SHARED:
        return _SHARED[name]
    help = argument.help[:1].upper() + argument.help[1:]
    if argument.choices:
        listed = " or ".join(argument.choices)
        shown = help if all(choice in help for choice in argument.choices) else f"{help} ({listed})"
        shell = opt.completed(argument.choices)
        return Annotated[str, typer.Option(help=shown, autocompletion=shell)], _as_it_is
    if argument.hint == "bool":
        return Annotated[bool, typer.Option(_flag(name), help=help)], _as_it_is
    return _of_kind(argument, name, help)


def _of_kind(argument: Argument, name: str, help: str) -> tuple[Any, Callable[[Any, str], Any]]:
    """The same of an argument that the kind of its values tells all of; others are tables."""
    optional = argument.default is None or argument.default == ()
    if argument.hint not in _KINDS:
        kind = Annotated[str | None, typer.Option(help=help)] if optional else None
        return kind or Annotated[str, typer.Argument(help=help)], _table if optional else _as_it_is
    kind, read, form = _KINDS[argument.hint]
    least = 0 if argument.hint == "int" else None
    flags = [_flag(name)] if name.endswith("_") else []
    option = typer.Option(*flags, help=f"{help} {form}".strip(), min=least)
    return Annotated[kind | None if optional else kind, option], read


def _at(searched: bool) -> Any:
    more = "; r=best searches it" if searched else ""
    help = f"N=1.8e9: an input, in the units of the fitted runs{more}; repeatable."
    return Annotated[list[str] | None, typer.Option(help=help)]


# --- plans that are one call


def _without_items(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _by_itself(function: str) -> Callable[..., None]:
    """The command of a function whose docstring has a section ``Shell:``; its result draws it."""
    meant = signature(*home(function))
    fits = [name for name in meant.arguments if name in _FITS]
    if "curves" in meant.arguments:
        run = _of_curves(function, fits)
    else:
        required = [name for name in fits if meant.arguments[name].default is REQUIRED]
        run = _of_fits(function, required)
    run.__doc__ = f"{meant.summary}\n\nExample: {meant.shell}"
    return run


def _of_fits(function: str, fits: list[str]) -> Callable[..., None]:
    @options_of(function, fits)
    def command(call: Call, out: opt.PlanOut = None, as_json: opt.Json = False) -> None:
        result = call()
        conclude_plan(result, out, as_json, lambda plots: result.plot())

    return command


def _of_curves(function: str, fits: list[str]) -> Callable[..., None]:
    """Of a function that takes fits, loss curves in place of them, or both."""

    @opt.reads_runs
    @curves.reads_curves
    @options_of(function, skip=[*fits, "curves"])
    def command(
        call: Call,
        files: Annotated[
            list[str],
            typer.Argument(help="Fits (JSON), loss curves (CSV), or both.", metavar="FIT... DATA"),
        ],
        bootstrap: opt.Draws = None,
        out: opt.PlanOut = None,
        as_json: opt.Json = False,
        *,
        along: dict[str, Any],
        reading: dict[str, Any],
    ) -> None:
        known = [file for file in files if file.endswith(".json") or file.startswith(PUBLISHED)]
        read = _curves_in([file for file in files if file not in known], along, reading)
        given = dict(zip(fits, loaded_fits(known, bootstrap), strict=False))
        result = call(**given, curves=read) if given else call(**{fits[0]: read})
        conclude_plan(result, out, as_json, lambda plots: result.plot())

    return command


def _curves_in(files: list[str], along: dict[str, Any], reading: dict[str, Any]) -> Any:
    """The loss curves of the one file that is no fit; None where there is none."""
    if len(files) > 1:
        raise UsageError(f"{' and '.join(files)}: give one file of loss curves; fits are JSON")
    if files:
        return curves.curves_of(files[0], **along or curves.AS_LOGGED, **reading)
    if along or any(reading.values()):
        raise UsageError("options say how loss curves are read, and there are none: name a file")
    return None


def make_plans(only: str = "") -> typer.Typer:
    """The group of the plans.

    Args:
        only: plan that is used: sources of others' functions are then not read. Empty for all.
    """
    plans = typer.Typer(
        help="Answer a question with a fitted law.", no_args_is_help=True, rich_markup_mode=None
    )
    for name, function in with_command().items():
        if only in ("", name):
            plans.command(name)(_by_itself(function))
    for name, (command, decorators) in _BY_HAND.items():
        if only in ("", name):
            for decorate in reversed(decorators):
                command = decorate(command)
            plans.command(name)(command)
    guard_every(plans)
    return plans


def _by_hand(name: str, *decorators: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: the function is the command of a plan, decorated once that is used."""

    def keep(command: Callable[..., None]) -> Callable[..., None]:
        _BY_HAND[name] = command, decorators
        return command

    return keep


# --- plans that read or choose more: what a signature and a docstring do not say


# By hand: the runs of the fit are read for the picture alone.
@_by_hand("frontier", opt.reads_runs, options_of("frontier", ["fit"], computes="compute"))
def frontier_command(
    call: Call,
    data: Annotated[str | None, typer.Option(help="The runs of the fit, for the picture.")] = None,
    out: opt.PlanOut = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """The best run of every budget; as a picture, on contours of equal loss.

    Example: jaxlaw plan frontier fit.json --compute 1e19:1e23 --data runs.csv --out frontier.png
    """
    if data is None and any(reading.values()):
        raise UsageError("options say how data are read, and there are none: --data FILE")
    more = {} if data is None else {"runs": jl.read_runs(data, **reading)}
    result = call()
    conclude_plan(result, out, as_json, lambda plots: result.plot(**more))


# By hand: what --at gives chooses between two functions.
@_by_hand("target", options_of("min_compute", ["fit"], skip=["loss"]))
def target_command(
    call: Call,
    loss: Annotated[float | None, typer.Option(help="Loss to be reached, in nats.")] = None,
    compute: Annotated[float | None, typer.Option(help="With N or D: FLOPs to spend.")] = None,
    out: opt.PlanOut = None,
    as_json: opt.Json = False,
) -> None:
    """The least compute to a loss; at a given N or D (--at), the other one.

    Example: jaxlaw plan target fit.json --loss 2.1 --at N=7e9
    """
    options = call.arguments
    if {"N", "D"} & set(at := options.get("at", {})):
        searched = {"limits", "corpus_tokens", "max_epochs"} & set(options)
        if searched or "best" in at.values():
            raise UsageError(
                "--limit, --corpus-tokens, --max-epochs and r=best are for the least compute; with "
                "N or D given none is needed"
            )
        known = {name: at[name] for name in ("N", "D") if name in at}
        options = {**options, **known, "at": _without_items(at, "N", "D")}
        result = jl.planning.tokens_or_size_for(*call.fits, loss=loss, compute=compute, **options)
    elif loss is None or compute is not None:
        raise UsageError("give --loss; or --at N=… (or D=…) with --loss or --compute")
    else:
        result = call(loss=loss)
    conclude_plan(result, out, as_json, lambda plots: result.plot())


# By hand: what --at gives chooses between two functions.
@_by_hand("transfer", options_of("compute_savings", ["scratch", "continual"], skip=["loss"]))
def transfer_command(
    call: Call,
    loss: Annotated[
        float | None, typer.Option(help="Loss at which they are compared, nats.")
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(help="N=1.4e9 and D=1e10, of the continual run; repeatable."),
    ] = None,
    out: opt.PlanOut = None,
    as_json: opt.Json = False,
) -> None:
    """Data transferred and compute saved by a base; without N, each at its best size.

    Example: jaxlaw plan transfer scratch.json continual.json --at N=1.4e9 --at D=1e10
    """
    given = inputs_at(at)
    inputs = _without_items(given, "N", "D")
    if "N" in given:
        result = jl.planning.data_transferred(
            *call.fits, N=given["N"], D=given.get("D"), loss=loss, at=inputs, **call.arguments
        )
    elif loss is None or "D" in given:
        raise UsageError("give --at N=… with --at D=… or --loss; or --loss without either")
    else:
        result = call(loss=loss, at=inputs)
    conclude_plan(result, out, as_json, lambda plots: result.plot())


# By hand: its fits are tables of curves, and its answer is a table that no plan draws.
@_by_hand(
    "observed-transfer",
    options_of("papers.observed_transfer", skip=["scratch", "continual", "columns"]),
)
def observed_transfer_command(
    call: Call,
    scratch: Annotated[str, typer.Argument(help="Curves from scratch: columns N, D and loss.")],
    continual: Annotated[str, typer.Argument(help="Curves from a base: the same columns.")],
    column: opt.Columns = None,
    format: opt.Format = None,
    value: opt.Values = None,
    out: opt.PlanOut = None,
    as_json: opt.Json = False,
) -> None:
    """Data transferred and compute saved by a base at equal loss, of observed curves.

    Example: jaxlaw plan observed-transfer scratch.csv continual.csv --out transfer.csv
    """
    tables = {
        name: jl.read_runs(
            data, pairs(column, "--column"), format=format, values=values_of(value)
        ).table
        for name, data in (("scratch", scratch), ("continual", continual))
    }
    result = call(**tables)
    saved, met = result["saved"], result["saved"].notna()
    head = (
        f"at equal loss the base saves {saved.min():.0%} to {saved.max():.0%} of the compute, "
        f"{saved.median():.0%} in the median of {met.sum():,} points"
    )
    if not met.all():
        head += f"; {(~met).sum():,} points have a loss that no curve from scratch has"
    draw = lambda plots: plots.transfer(result, quantity="transferred")  # noqa: E731
    conclude_plan(result, out, as_json, draw, head=head)


# By hand: it reads a table of runs, and its answer is one that `jaxlaw fit` reads.
@_by_hand("loss-envelope", options_of("papers.loss_envelope", skip=["table", "columns"]))
def envelope_command(
    call: Call,
    data: Annotated[str, typer.Argument(help="Points of curves: columns N, D (or C) and loss.")],
    column: opt.Columns = None,
    format: opt.Format = None,
    value: opt.Values = None,
    out: opt.PlanOut = None,
    as_json: opt.Json = False,
) -> None:
    """The lowest loss at each level of compute: a table for `jaxlaw fit loss-compute-e`.

    Example: jaxlaw plan loss-envelope runs.csv -c N=n_params -c D=n_tokens --out frontier.csv
    """
    from jaxlaw._quantities import written

    read = {"format": format, "values": values_of(value)}
    table = jl.read_runs(data, pairs(column, "--column"), **read).table
    result = call(table=table)
    first, last = result.iloc[0], result.iloc[-1]
    head = (
        f"the lowest loss at {len(result)} levels of compute: {first['loss']:.4g} at "
        f"{written(first['C'], 'FLOPs')} to {last['loss']:.4g} at {written(last['C'], 'FLOPs')}"
    )
    draw = lambda plots: plots.lowest_of_runs(result, table)  # noqa: E731
    conclude_plan(result, out, as_json, draw, head=head)


# By hand: it reads a table of runs, and no fit.
@_by_hand("best-settings", opt.reads_runs, options_of("best_settings", skip=["runs", "over"]))
def best_settings_command(
    call: Call,
    data: Annotated[str, typer.Argument(help="Runs: columns N, D, lr, batch and loss.")],
    over: Annotated[
        list[str] | None,
        typer.Option(help="Setting that was swept: lr or batch; repeatable. Both if not given."),
    ] = None,
    out: opt.PlanOut = None,
    as_json: opt.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """The best learning rate and batch of each cell of a sweep, and which only bound the optimum.

    Example: jaxlaw plan best-settings sweeps.csv --unit batch=2048 --out best.png
    """
    result = call(runs=jl.read_runs(data, **reading), **({"over": over} if over else {}))
    conclude_plan(result, out, as_json, lambda plots: result.plot())


# By hand: its fit may be a table of observed losses.
@_by_hand("compare-replay", options_of("compare_replay", skip=["fit"]))
def replay_command(
    call: Call,
    fit: Annotated[
        Path, typer.Argument(help="A fit (JSON), or observed losses: columns D, r, loss[, N].")
    ],
    column: opt.Columns = None,
    bootstrap: opt.Draws = None,
    out: opt.PlanOut = None,
    as_json: opt.Json = False,
) -> None:
    """Shares compared at equal compute on the corpus: where their losses meet.

    Example: jaxlaw plan compare-replay domain.json --shares 0.2,0.5,0.8 --at N=1.8e9
    """
    by_law = fit.suffix.lower() == ".json" or str(fit).startswith(PUBLISHED)
    if by_law and column:
        raise UsageError("--column is for a table of observed losses; a fit knows its columns")
    if by_law:
        (loaded,) = loaded_fits([fit], bootstrap)
    else:
        loaded = jl.read_runs(fit, pairs(column, "--column")).table
    result = call(fit=loaded)
    conclude_plan(result, out, as_json, lambda plots: result.plot(), result.table)


# --- plans of a continual run


def _continual_run(
    pretraining: Annotated[
        str,
        typer.Option(
            help="wsd:steps=40000,peak=2e-4[,decay=0.2][,warmup=…]; or cosine, linear, constant; "
            "or unknown.",
        ),
    ],
    run: Annotated[
        str,
        typer.Option(
            help="cosine:steps=10000[,peak=1e-4][,warmup=500][,start=0][,final=0]; without a peak "
            "it goes on from the last rate.",
        ),
    ],
    loss_potential: Annotated[
        float, typer.Option(help="Last rate of pre-training over its peak.")
    ] = 0.0,
    replay: Annotated[float, typer.Option(help="Share of the pre-training corpus.")] = 0.0,
    at: Annotated[list[str] | None, typer.Option(help="Other inputs: N=1e9; repeatable.")] = None,
    decay: Annotated[
        float | None, typer.Option(help="λ of the areas, for fits that do not know.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="ε of areas whose momentum is weighted with the rate.")
    ] = None,
) -> dict[str, Any]:
    """What ``run``, ``at`` and ``area_options`` of a plan are."""
    base = None
    if pretraining != "unknown":
        keys = ("steps", "peak", "decay", "warmup")
        shape, given = _phase(pretraining, "--pretraining", keys)
        if not {"steps", "peak"} <= set(given):
            raise UsageError("--pretraining needs steps= and peak=")
        base = jl.planning.Pretraining(shape=shape, **given)
    shape, given = _phase(run, "--run", ("steps", "peak", "decay", "warmup", "start", "final"))
    if "steps" not in given:
        raise UsageError("--run needs steps=")
    areas = {"decay": decay, "epsilon": epsilon}
    continual: ContinualPretraining = jl.planning.ContinualPretraining(
        base, shape=shape, loss_potential=loss_potential, replay=replay, **given
    )
    return {
        "run": continual,
        "at": numbers_of(at, "--at"),
        "area_options": {name: value for name, value in areas.items() if value is not None},
    }


def _phase(text: str, option: str, keys: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """The shape and the numbers of ``wsd:steps=40000,peak=2e-4``."""
    shape, _, rest = text.partition(":")
    given = numbers_of([part for part in rest.split(",") if part], option)
    for name in given:
        if name not in keys:
            raise UsageError(f"{option} takes {', '.join(keys)}, not {name}.{nearest(name, keys)}")
    return shape, given


_of_a_continual_run = partial(opt.with_options, into="setting", made_by=_continual_run)


# By hand: its run is made of seven options, and it answers three questions.
@_by_hand(
    "optimal-training",
    _of_a_continual_run,
    options_of(
        "optimal_training", ["pt", "cpt"], skip=["run", "over", "weight", "at", "area_options"]
    ),
)
def training_command(
    call: Call,
    weight: Annotated[
        str | None, typer.Option(help="λ1 of the first loss, λ2 is 1 − λ1: 0.7; or several.")
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(help="Range to search of replay, loss_potential, peak or steps: replay=0:1."),
    ] = None,
    vary: Annotated[
        list[str] | None, typer.Option(help="Values to tabulate: steps=5000,20000; repeatable.")
    ] = None,
    out: opt.PlanOut = None,
    as_json: opt.Json = False,
    *,
    setting: dict[str, Any],
) -> None:
    """Losses at the end of a continual run, or its best settings (Wang 2025, §4 and §5).

    Fits are files of `jaxlaw fit --out`, or published:NAME (`jaxlaw laws --published`).

    Example: jaxlaw plan optimal-training published:wang-2025-pt published:wang-2025-cpt
    --pretraining wsd:steps=40000,peak=2e-4 --run cosine:steps=10000,peak=2e-5,warmup=500
    --weight 0.5 --over replay=0:1
    """
    if (weight is None) != (over is None) or (over is None) == (vary is None):
        raise UsageError("give --vary for a table, or --weight and --over for the best settings")
    if vary is not None:
        settings = {
            name: [number(item, "--vary") for item in text.split(",")]
            for name, text in pairs(vary, "--vary").items()
        }
        level = {name: value for name, value in call.arguments.items() if name == "level"}
        result = jl.planning.final_losses(*call.fits, **setting, **level, **settings)
        drawn = next(iter(settings))
        conclude_plan(result, out, as_json, lambda plots: plots.losses_over(result, drawn))
        return
    ranges = _all_both(over, "--over")
    weights = [number(item, "--weight") for item in (weight or "").split(",")]
    if len(weights) > 1:
        curve = jl.planning.tradeoff_curve(
            *call.fits, over=ranges, weights=weights, **setting, **call.arguments
        )
        first = next(iter(ranges))
        conclude_plan(curve, out, as_json, lambda plots: plots.balance(curve, first))
        return
    best = call(weight=weights[0], over=ranges, **setting)
    conclude_plan(best, out, as_json, lambda _: best.plot())


# By hand: its run is made of seven options, and its second fit is an option.
@_by_hand(
    "turning-length",
    _of_a_continual_run,
    options_of("turning_length", skip=["pt", "run", "cpt", "at", "area_options"]),
)
def turning_command(
    call: Call,
    pt: Annotated[str, opt.fit_argument("Fit of the loss on the pre-training corpus.")],
    cpt: Annotated[
        str | None, typer.Option(help="Fit of the loss on the new corpus, for a weight.")
    ] = None,
    bootstrap: opt.Draws = None,
    out: opt.PlanOut = None,
    as_json: opt.Json = False,
    *,
    setting: dict[str, Any],
) -> None:
    """The steps after which a loss is back at its start, or never (Wang 2025, §4.4).

    Example: jaxlaw plan turning-length published:wang-2025-pt --replay 0.9
    --pretraining wsd:steps=10000,peak=2e-4 --run cosine:steps=10000,peak=2e-4,warmup=500
    """
    first, *second = loaded_fits([pt] if cpt is None else [pt, cpt], bootstrap)
    result = call(pt=first, cpt=second[0] if second else None, **setting)
    conclude_plan(result, out, as_json, lambda _: result.plot())


# By hand: with fits and a schedule it predicts a curve beside the weights.
@_by_hand(
    "out-of-domain", options_of("papers.out_of_domain", skip=["nonnegative"], observed="data")
)
def out_of_domain_command(
    call: Call,
    free: Annotated[bool, typer.Option("--free", help="Weights may be negative.")] = False,
    pt: Annotated[
        str | None, typer.Option(help="With --cpt, --schedule: predict the curve from these fits.")
    ] = None,
    cpt: Annotated[str | None, typer.Option(help="Fit of the loss on the new corpus.")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="wsd:peak=2e-4,steps=40000+cosine:peak=1e-4,steps=10000")
    ] = None,
    replay: Annotated[float | None, typer.Option(help="Share of replay of that run.")] = None,
    out: opt.PlanOut = None,
    as_json: opt.Json = False,
) -> None:
    """Another validation loss as a mixture of the two: its weights, its balance, its curve.

    Training it best is `jaxlaw plan optimal-training` at --weight BALANCE (Wang 2025, eq. 6).

    Example: jaxlaw plan out-of-domain losses.csv -c loss_ood=code_loss
    """
    given = [option is not None for option in (pt, cpt, schedule)]
    if any(given) and not all(given) or replay is not None and not any(given):
        raise UsageError("a curve is predicted from --pt, --cpt and --schedule, all of them")
    answer, curve, more = call(nonnegative=not free), None, {}
    if pt is not None and cpt is not None and schedule is not None:
        along = _schedule(schedule, "--schedule")
        curve = answer.predict_curve(*loaded_fits([pt, cpt], None), along, replay=replay)
        more = {"curve": {name: values.tolist() for name, values in curve.items()}}
    table = answer.table if curve is None else curve
    conclude_plan(answer, out, as_json, lambda plots: plots.ood_losses(answer, curve), table, more)
    if curve is not None and not as_json and (out is None or is_picture(out)):
        import numpy as np

        rows = np.unique(np.linspace(0, len(curve) - 1, _SHOWN).astype(int))
        print_frame(curve.iloc[rows].drop(columns="outside"))


# By hand: it balances as many fits as are given, and writes rates for each step.
@_by_hand("optimal-schedule", options_of("optimal_schedule", skip=["fit", "weights", "at"]))
def schedule_command(
    call: Call,
    fits: Annotated[list[str], opt.fit_argument("A fit of loss curves; several are balanced.")],
    weight: Annotated[
        str | None,
        typer.Option(help="Weight λ1 of the first of two losses; or 0.7,0.3."),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(help="Other inputs: N=1e9; r=0.2,0.8 one each; repeatable."),
    ] = None,
    bootstrap: opt.Draws = None,
    out: Annotated[
        Path | None, typer.Option(help="Write it (JSON), its rates (CSV) or draw it (PNG, …).")
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """The rates of a run at whose end the predicted loss is lowest, under the limits given.

    Example: jaxlaw plan optimal-schedule curve-fit.json --steps 24000 --peak 3e-4 --floor 3e-5
    --shortest-decay 5000
    """
    import pandas as pd

    loaded = loaded_fits(fits, bootstrap)
    result = call(
        fit=loaded if len(loaded) > 1 else loaded[0],
        weights=_weights(weight, len(loaded)),
        at=_at_of_each(at, len(loaded)),
    )
    steps = range(1, len(result.schedule) + 1)
    rates = pd.DataFrame({"step": steps, "lr": result.schedule.rates})
    conclude_plan(result, out, as_json, lambda plots: plots.best_rates(result), rates)


def _weights(text: str | None, losses: int) -> list[float] | None:
    """``0.7,0.3``; of two losses ``0.7`` says the same."""
    if text is None:
        return None
    weights = [number(item, "--weight") for item in text.split(",")]
    return [*weights, 1 - weights[0]] if losses == 2 and len(weights) == 1 else weights


def _at_of_each(items: list[str] | None, losses: int) -> list[dict[str, float]]:
    """Other inputs of each loss, from ``N=1e9`` for all and ``r=0.2,0.8``."""
    each: list[dict[str, float]] = [{} for _ in range(losses)]
    for name, text in pairs(items, "--at").items():
        values = [number(item, "--at") for item in text.split(",")]
        if len(values) not in (1, losses):
            raise UsageError(f"--at {name}= has {len(values)} numbers for {losses} losses: one "
                             "for all, or one each")  # fmt: skip
        for inputs, own in zip(each, values * (losses // len(values)), strict=True):
            inputs[name] = own
    return each
