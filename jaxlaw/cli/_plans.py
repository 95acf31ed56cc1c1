"""The commands ``jaxlaw plan …``; needs typer, which is an extra.

Their options are made of the signatures and docstrings of the functions of :mod:`jaxlaw.planning`
that they call (:func:`options_of`). A function whose docstring has a section ``Shell:`` is a
command by itself; others are a row of :data:`_PLAIN`; those that read more than fits, or choose
between functions, are written below it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import jaxlaw as jl
from jaxlaw.cli import _options as opt
from jaxlaw.cli._inputs import PUBLISHED, law_named, loaded_fits
from jaxlaw.cli._options import (
    inputs_at,
    limits_of,
    number,
    numbers_in,
    numbers_of,
    pairs,
    quantity,
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

plan: typer.Typer = typer.Typer(
    help="Answer a question with a fitted law.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_SHOWN = 20  # steps of a predicted curve


# --- options from signatures


def _both(text: str, option: str) -> tuple[float, float]:
    low, high = value_range(text, option)
    if low is None or high is None:
        raise UsageError(f"{option} takes LOW:HIGH, both of them")
    return low, high


def _all_both(items: Any, option: str) -> dict[str, tuple[float, float]]:
    return {name: _both(text, f"{option} {name}=") for name, text in pairs(items, option).items()}


def _schedule(text: str, option: str) -> Any:
    from jaxlaw.data import as_schedule

    return as_schedule(text)


def _as_it_is(value: Any, option: str) -> Any:
    return value


#: Type hint → the kind of option, how its text is read, and how that is said in its help.
_KINDS: dict[str, tuple[Any, Callable[[Any, str], Any], str]] = {
    "float": (float, _as_it_is, ""),
    "int": (int, _as_it_is, ""),
    "int | Sequence[float]": (int, _as_it_is, ""),
    "str": (str, _as_it_is, ""),
    "Quantity": (str, quantity, ""),
    "Mapping[str, tuple[float | str | None, float | str | None]]": (
        list[str],
        limits_of,
        "Write NAME=LOW:HIGH, where either side may be empty; repeatable.",
    ),
    "Mapping[str, tuple[float, float]]": (list[str], _all_both, "Write NAME=LOW:HIGH; repeatable."),
    "Mapping[str, float]": (list[str], numbers_of, "NAME=VALUE; repeatable."),
    "Mapping[str, float | str]": (list[str], inputs_at, "NAME=VALUE; repeatable."),
    "Sequence[Quantity]": (str, numbers_in, "Write 1e19,1e20, or 1e19:1e23 for 13 values between."),
    "Sequence[float]": (str, numbers_in, "Write 1e19,1e20, or 1e19:1e23 for 13 values between."),
    "tuple[float, float]": (str, _both, "Write LOW:HIGH."),
    "Schedule": (str, _schedule, "Such as wsd:peak=2e-4,steps=40000,final=2e-5."),
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
    meant = signature(*home(function))
    flags: dict[str, tuple[str, Any, Any, Callable[[Any, str], Any]]] = {}
    inputs = [name for name in meant.arguments if name.isupper() and name not in skip]
    at = meant.arguments.get("at")
    takes_at = at is not None and "at" not in skip and at.hint.startswith("Mapping[")
    for argument in meant.arguments.values():
        skipped = (*fits, *skip, *inputs, "at" if takes_at else "")
        if argument.name in skipped or argument.hint.startswith("Callable"):
            continue
        kind, read = _option(argument, renamed.get(argument.name))
        flags[argument.name] = (
            _name(argument, renamed.get(argument.name)),
            kind,
            argument.default,
            read,
        )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = list(inspect.signature(command, eval_str=True).parameters.values())
        own = {parameter.name for parameter in parameters}
        reads_at = bool(inputs or takes_at) and "at" not in own

        @wraps(command)
        def run(**given: Any) -> None:
            check_out(given["out"], *ANSWER)
            files = [given.pop(name) for name in fits]
            loaded = loaded_fits(files, given.pop("bootstrap")) if fits else []
            values = inputs_at(given.pop("at")) if reads_at else {}
            arguments = {name: values.pop(name) for name in inputs if name in values}
            arguments |= {"at": values} if values else {}
            for argument, (name, _, default, read) in flags.items():
                value = given.pop(name)
                # What was left out stays out: the function knows its default.
                if value is not None and value is not False and value != default:
                    arguments[argument] = read(value, "--" + name.replace("_", "-"))
            command(**given, call=Call(function, loaded, arguments))

        added = [
            _parameter(name, Annotated[str, opt.fit_argument(f"A fit {_FITS[name]} (JSON).")])
            for name in fits
        ]
        # Options of the command's own come in front, --out and --json at the end.
        last = [parameter for parameter in parameters if parameter.name in ("out", "as_json")]
        added += [
            parameter
            for parameter in parameters
            if parameter not in last and parameter.name != "call"
        ]
        added += [_parameter(name, kind, default) for name, kind, default, _ in flags.values()]
        if reads_at:
            added.append(_parameter("at", _at(at is not None and "best" in at.help), None))
        if fits:
            added.append(_parameter("bootstrap", opt.Draws, None))
        kept = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in [*added, *last]
        ]
        run.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
        if not (command.__doc__ or "").partition("Example:")[0].strip():
            run.__doc__ = f"{meant.summary}\n\n{inspect.cleandoc(command.__doc__ or '')}"
        return run

    return decorate


def _parameter(name: str, kind: Any, default: Any = REQUIRED) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is REQUIRED else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


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
        flag = "--" + name.replace("_", "-")
        return Annotated[bool, typer.Option(flag, help=help)], _as_it_is
    kind, read, form = _KINDS.get(argument.hint, (None, _as_it_is, ""))
    if kind is None:  # a table: any that jaxlaw reads
        return Annotated[str, typer.Argument(help=help)], _as_it_is
    if argument.default is not REQUIRED and argument.default is None:
        kind = kind | None
    least = 0 if argument.hint == "int" else None
    return Annotated[kind, typer.Option(help=f"{help} {form}".strip(), min=least)], read


def _at(searched: bool) -> Any:
    more = "; r=best searches it" if searched else ""
    help = f"N=1.8e9: an input, in the units of the fitted runs{more}; repeatable."
    return Annotated[list[str] | None, typer.Option(help=help)]


# --- plans that are one call


def _isoloss(plots: Any, answer: Any, call: Call) -> Any:
    """Contours of equal loss around a budget, and the run that was found on them."""
    around = (answer.compute / 1e3, answer.compute * 10)
    return plots.isoloss(call.fits[0], around, mark=answer, **_without(call, "compute", "level"))


def _without(call: Call, *names: str) -> dict[str, Any]:
    return _without_items(call.arguments, *names)


def _without_items(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


#: Command → function, its arguments that are fits, example, picture, other names.
_PLAIN: dict[str, tuple[str, tuple[str, ...], str, Callable[..., Any], dict[str, str]]] = {
    "optimal-mixture": (
        "optimal_mixture", ("general", "domain"),
        "general.json domain.json --start 2.86 --at N=2e9 --at D=1e10",
        lambda plots, answer, call: plots.trade_off(answer), {},
    ),
    "critical-ratio": (
        "critical_ratio", ("general",), "general.json --start 2.86 --at N=1.8e9 --at D=1e10",
        lambda plots, answer, call: plots.critical_share(*call.fits, **_without(call, "level")), {},
    ),
    "optimal-mixture-data-limited": (
        "optimal_mixture_data_limited", ("domain",), "domain.json --corpus-tokens 5e7 --at N=1.8e9",
        lambda plots, answer, call: plots.limited_domain(
            *call.fits, call.arguments["corpus_tokens"], **_without(call, "corpus_tokens")
        ), {},
    ),
    "allocation": ("allocation", ("fit",), "fit.json --compute 1e21", _isoloss, {}),
    "allocation-law": (
        "allocation_law", ("fit",), "fit.json",
        lambda plots, answer, call: plots.isoloss(
            *call.fits, (1e18, 1e24), **_without(call, "level")
        ), {},
    ),
    "frontier-savings": (
        "frontier_savings", ("scratch", "continual"),
        "published:zheng-2024-frontier-scratch\npublished:zheng-2024-frontier-cpt "
        "--compute 1e17,1e20,1e23",
        lambda plots, answer, call: plots.compute_saved(answer.table), {},
    ),
    "break-even": (
        "break_even", ("scratch", "continual"), "scratch.json continual.json --at N=1.4e9",
        lambda plots, answer, call: plots.crossover(
            *call.fits, plan=answer, **_without(call, "level")
        ), {},
    ),
    "pretraining-value": (
        "papers.pretraining_value", (), "checkpoints.csv --target 25 --baseline 12 --at 1e12",
        lambda plots, answer, call: plots.value(answer, call.arguments.get("target")), {},
    ),
    "choose-model": (
        "papers.choose_model", (), "samples.csv --at 1e6",
        lambda plots, answer, call: plots.model_losses(answer), {},
    ),
}  # fmt: skip


def _plain(
    name: str, function: str, fits: tuple[str, ...], example: str, draw: Callable[..., Any],
    renamed: dict[str, str],
) -> None:  # fmt: skip
    def command(call: Call, out: opt.PlanOut = None, as_json: opt.Json = False) -> None:
        result = call()
        # The whole curve, or every model; of others the numbers in one row.
        table = getattr(result, "curve", None) if name == "optimal-mixture" else None
        table = result.table if name == "choose-model" else table
        conclude_plan(result, out, as_json, lambda plots: draw(plots, result, call), table)

    command.__doc__ = f"Example: jaxlaw plan {name} {example}"
    plan.command(name)(options_of(function, fits, **renamed)(command))


for _command, _how in _PLAIN.items():
    _plain(_command, *_how)


def _by_itself(name: str, function: str) -> None:
    """The command of a function whose docstring has a section ``Shell:``; its result draws it."""
    meant = signature(*home(function))

    def command(call: Call, out: opt.PlanOut = None, as_json: opt.Json = False) -> None:
        result = call()
        conclude_plan(result, out, as_json, lambda plots: result.plot())

    command.__doc__ = f"Example: {meant.shell}"
    fits = [argument for argument in meant.arguments if argument in _FITS]
    plan.command(name)(options_of(function, fits)(command))


for _command, _function in with_command().items():
    _by_itself(_command, _function)


# --- plans that read or choose more


@plan.command("frontier")
@opt.reads_runs
@options_of("frontier", ["fit"], computes="compute")
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
    budgets, runs = call.arguments["computes"], None
    if data is not None:
        runs = jl.read_runs(data, **reading)
    extremes, options = (min(budgets), max(budgets)), _without(call, "computes", "level")
    conclude_plan(
        call(),
        out,
        as_json,
        lambda plots: plots.isoloss(*call.fits, extremes, runs=runs, **options),
    )


@plan.command("target")
@options_of("min_compute", ["fit"], skip=["loss"])
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
    drawn = _without(call, "level")
    if {"N", "D"} & set(at := options.get("at", {})):
        searched = {"limits", "corpus_tokens", "max_epochs"} & set(options)
        if searched or "best" in at.values():
            raise UsageError(
                "--limit, --corpus-tokens, --max-epochs and r=best are for the least compute; with "
                "N or D given none is needed"
            )
        known = {name: at[name] for name in ("N", "D") if name in at}
        drawn["at"] = _without_items(at, "N", "D")
        options = {**options, **known, "at": drawn["at"]}
        result = jl.planning.tokens_or_size_for(*call.fits, loss=loss, compute=compute, **options)
    elif loss is None or compute is not None:
        raise UsageError("give --loss; or --at N=… (or D=…) with --loss or --compute")
    else:
        result = call(loss=loss)
    around = result.compute if 0 < result.compute < float("inf") else 1e21
    limits = around / 100, around * 100
    conclude_plan(
        result, out, as_json, lambda plots: plots.isoloss(*call.fits, limits, mark=result, **drawn)
    )


@plan.command("transfer")
@options_of("compute_savings", ["scratch", "continual"], skip=["loss"])
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
    if "N" not in given:
        if loss is None or "D" in given:
            raise UsageError("give --at N=… with --at D=… or --loss; or --loss without either")
        result = call(loss=loss, at=inputs)
        conclude_plan(
            result, out, as_json, lambda plots: plots.crossover(*call.fits, plan=result, at=inputs)
        )
        return
    result = jl.planning.data_transferred(
        *call.fits, N=given["N"], D=given.get("D"), loss=loss, at=inputs, **call.arguments
    )

    def draw(plots: Any) -> Any:
        tokens = numbers_in(f"{result.D / 100}:{result.D * 10}", "--at", 41)
        table = jl.planning.transfer_table(*call.fits, [result.N], tokens, at=inputs)
        return plots.compute_saved(table)

    conclude_plan(result, out, as_json, draw)


@plan.command("observed-transfer")
@options_of("papers.observed_transfer", skip=["scratch", "continual", "columns"])
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
    conclude_plan(result, out, as_json, lambda plots: plots.data_transferred(result))


@plan.command("loss-envelope")
@options_of("papers.loss_envelope", skip=["table", "columns"])
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
    read = {"format": format, "values": values_of(value)}
    table = jl.read_runs(data, pairs(column, "--column"), **read).table
    result = call(table=table)
    conclude_plan(result, out, as_json, lambda plots: plots.lowest_of_runs(result, table))


@plan.command("optimal-domain-weights")
@options_of("optimal_domain_weights", skip=["domains", "general"])
def shares_command(
    call: Call,
    domains: Annotated[list[str], typer.Argument(help="code=code.json math=math.json …")],
    general: Annotated[Path | None, typer.Option(help="A fit of the general loss.")] = None,
    bootstrap: opt.Draws = None,
    out: opt.PlanOut = None,
    as_json: opt.Json = False,
) -> None:
    """Shares of several domains at once, under a budget on the general loss.

    Example: jaxlaw plan optimal-domain-weights code=code.json law=law.json --general general.json
    --start 2.9 --at N=2e9 --at D=1e10
    """
    files = {name: Path(path) for name, path in pairs(domains, "the domains").items()}
    fits = loaded_fits([*files.values(), *([general] if general else [])], bootstrap)
    result = call(
        domains=dict(zip(files, fits, strict=False)), general=fits[-1] if general else None
    )
    conclude_plan(result, out, as_json, lambda plots: plots.domain_shares(result))


@plan.command("optimal-weights")
@options_of("optimal_weights", skip=["fits", "observed"])
def weights_command(
    call: Call,
    fits: Annotated[list[str], typer.Argument(help="Fits over the shares: python=python.json …")],
    observed: Annotated[
        str | None, typer.Option(help="Table of mixtures that were run, to compare with.")
    ] = None,
    bootstrap: opt.Draws = None,
    out: opt.PlanOut = None,
    as_json: opt.Json = False,
) -> None:
    """The mixture of many corpora at which a weighted sum of losses is least.

    Example: jaxlaw plan optimal-weights python=python.json wiki=wiki.json --cap code=0.3
    --natural web=8 --natural code=1 --natural math=1 --max-kl 0.15
    """
    files = {name: Path(path) for name, path in pairs(fits, "the fits").items()}
    loaded = loaded_fits([*files.values()], bootstrap)
    runs = None if observed is None else jl.read_runs(observed).table
    result = call(fits=dict(zip(files, loaded, strict=True)), observed=runs)
    conclude_plan(
        result, out, as_json, lambda plots: plots.mixture_weights(result), table=result.table
    )


@plan.command("compute-multiplier")
@options_of("compute_multiplier", ["fit"])
def multiplier_command(call: Call, out: opt.PlanOut = None, as_json: opt.Json = False) -> None:
    """How much compute a recipe is worth against a reference, at equal loss.

    Example: jaxlaw plan compute-multiplier groups.json --compute 1e19,1e21
    --reference group=c4 --at group=pile
    """
    answer = call()
    conclude_plan(answer, out, as_json, lambda plots: plots.compute_multiplier(answer))


@plan.command("compare-replay")
@options_of("compare_replay", skip=["fit"])
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
    conclude_plan(result, out, as_json, lambda plots: plots.replay_losses(result), result.table)


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


@plan.command("optimal-training")
@_of_a_continual_run
@options_of("optimal_training", ["pt", "cpt"], skip=["run", "over", "weight", "at", "area_options"])
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
    first = next(iter(ranges))
    curve = partial(
        jl.planning.tradeoff_curve, *call.fits, over=ranges, **setting, **call.arguments
    )
    if len(weights) > 1:
        balance = curve(weights=weights)
        conclude_plan(balance, out, as_json, lambda plots: plots.balance(balance, first))
        return
    best = call(weight=weights[0], over=ranges, **setting)
    conclude_plan(best, out, as_json, lambda plots: plots.balance(curve(), first, mark=best))


@plan.command("turning-length")
@_of_a_continual_run
@options_of("turning_length", skip=["pt", "run", "cpt", "at", "area_options"])
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
    level = {name: value for name, value in call.arguments.items() if name == "level"}

    def draw(plots: Any) -> Any:
        if not second:
            return plots.recovery(first, setting["run"], result)
        return plots.turning_lengths(
            jl.planning.turning_lengths(first, *second, **setting, **level)
        )

    conclude_plan(result, out, as_json, draw)


@plan.command("out-of-domain")
@options_of("papers.out_of_domain", skip=["nonnegative"], observed="data")
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


@plan.command("optimal-schedule")
@options_of("optimal_schedule", skip=["fit", "weights", "at"])
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
