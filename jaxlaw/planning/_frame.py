"""What every plan shares: inputs checked, numbers with intervals and notes out."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from jaxlaw._answer import Answer
from jaxlaw._jit import in_float64
from jaxlaw._quantities import RATIO, SHARE, Quantity, checked_number, in_unit, says_unit, written
from jaxlaw._result import TARGET
from jaxlaw._rounding import SAME
from jaxlaw.errors import DataError, UsageError, nearest
from jaxlaw.fitting import outside_range, range_message
from jaxlaw.notes import LOOSE_FIT, OWN_FLOPS, Note
from jaxlaw.planning._constraints import Inputs
from jaxlaw.uncertainty import Draws, as_draws, interval_columns, intervals

#: Ratio of the ends of an interval from which on a fit is loose. In 504 fits
#: of 7 to 120 simulated runs, planned at ten times the largest, one size in four was off by more
#: than 2 where its interval was wider, and one in 25 where it was not; it held the truth in both.
_LOOSE, _SIZES = 10.0, ("N", "D", "compute")
MOST_ABOVE = 0.75  # fraction of normal draws whose loss is above the fit's
_SAID = (OWN_FLOPS, LOOSE_FIT)  # notes of a fit that are repeated in full
MISSING = 0.05  # fraction of draws without an answer from which on the others' interval misleads


def draws_taking(fits: Sequence, *names: str) -> tuple[Draws, ...]:
    """The draws of fits of a loss.

    Raises:
        UsageError: a law that lacks an input, or whose target is not better when low: a score, or a
            learning rate.
    """
    sources = as_draws(*fits)
    for law in (source.law for source in sources):
        missing = [name for name in names if name not in law.input_names]
        if missing:
            raise UsageError(
                f"law {law.name} has no input {', '.join(missing)} (it takes "
                f"{', '.join(law.input_names)}); this plan needs {', '.join(names)}"
            )
        if law.better != "low":
            raise UsageError(
                f"law {law.name} predicts {law.target}, and this plan is of a loss; predict says "
                "what it is for a run"
            )
    return sources


def law_inputs(source: Draws, given: Inputs, free: Sequence[str]) -> dict[str, float]:
    """Inputs the user holds, in the law's own units: all but the free ones, and no others.

    Raises:
        UsageError: an input is missing, unknown or not a number of its domain.
    """
    law, given = source.law, given or {}
    takes = [name for name in law.input_names if name not in free]
    for name in given:
        if name not in takes:
            raise UsageError(
                f"law {law.name} takes no input '{name}' here, beside what is searched."
                f"{nearest(name, takes)}"
            )
    if missing := [name for name in takes if name not in given]:
        raise UsageError(f"law {law.name} also needs {', '.join(missing)}; give it in at=")
    own = {}
    for spec in law.inputs:
        if (name := spec.name) in given:
            value = float(spec.codes(given[name])) if spec.levels else given[name]
            domain = "nonnegative" if spec.mixture else spec.domain
            own[name] = checked_input(source, name, value, domain) * source.units[name]
    held = [name for name in law.shares if name in given]
    if held and len(held) < len(law.shares):
        raise UsageError(
            f"{', '.join(held)}: one mixture ratio is not held while others are searched; "
            f"caps={{'{held[0]}': …}} limits it"
        )

    def not_whole(_, total, remedy):
        return UsageError(
            f"{', '.join(held)} add up to {total:.6g}, ratios of one mixture to 1; {remedy}"
        )

    return law.whole_mixtures(own, not_whole) if held else own


def law_inputs_of_each(
    every: Sequence[Draws], inputs: Inputs, free: Sequence[str]
) -> tuple[dict[str, float], ...]:
    """As :func:`law_inputs` for several laws: each takes those of the inputs that it has.

    Raises:
        UsageError: also where no law takes an input.
    """
    known = {name for source in every for name in source.law.input_names} - {*free}
    inputs = inputs or {}
    for name in inputs:
        if name not in known:
            raise UsageError(f"no law here takes an input '{name}'.{nearest(name, known)}")
    return tuple(law_inputs(source, source.inputs_taken(inputs), free) for source in every)


def in_unit_of_runs(source: Draws, name: str, value, what: str = ""):
    """A user's value of an input as a number in the unit of the runs; raises UsageError.

    ``what`` is the argument that it is given by, where that has another name.
    """
    what = what or name
    try:
        return source.fit.in_unit_of_runs(name, value)
    except (DataError, UsageError) as error:
        raise UsageError(re.sub(rf"\b{name}( =|=)", rf"{what}\1", str(error))) from None


def checked_input(
    source: Draws, name: str, value, domain: str = "positive", what: str = ""
) -> float:
    """A number, or ``"70B"``, of an input in the unit of the runs; raises UsageError."""
    unit = source.units[name] if domain == "fraction" else 1.0
    return checked_number(what or name, in_unit_of_runs(source, name, value, what), domain, unit)


def checked_compute(value) -> float:
    """A number of FLOPs; raises UsageError, also of ``"7B"``, which is surely not FLOPs."""
    number = in_unit(value, 1.0, "FLOPs")
    if isinstance(value, str) and says_unit(value) and "flop" not in value.lower():
        raise UsageError(f"compute is {value!r}; write FLOPs as 1e21 or '1e21 FLOPs'")
    return checked_number("compute", number)


def fewest_degrees(sources: Sequence[Draws]) -> float:
    """Degrees of freedom of what several sources' draws say together, with care."""
    return min(source.degrees for source in sources)


def losses_of(source: Draws, **inputs) -> np.ndarray:
    """Losses (draws,) of a run, or of one a draw; (draws, K) of (1, K) runs.

    Args:
        source: the law and its draws.
        **inputs: all inputs, in the law's own units.
    """
    axes = (1,) * (max(map(np.ndim, inputs.values())) - 1)
    params = {name: column.reshape(-1, *axes) for name, column in source.values.items()}
    with in_float64():
        return np.asarray(source.law.evaluate(params, **inputs))


def of_fit(values: Mapping) -> dict[str, float]:
    """The fit's own numbers, of those (1 + R,) of the fit and its draws."""
    return {name: float(np.ravel(column)[0]) for name, column in values.items()}


def mesh(axes: Iterable, xp=np):
    """(points, d) of a grid over d axes; ``xp`` is NumPy or ``jax.numpy``."""
    return xp.stack([axis.ravel() for axis in xp.meshgrid(*axes, indexing="ij")], axis=1)


def table_of(columns: Mapping, level: float, degrees: float) -> pd.DataFrame:
    """A table of name → (rows,) values, or (1 + R, rows) of fit and draws with intervals."""
    table = {}
    for name, rows in columns.items():
        bounded = np.ndim(rows) > 1
        table |= interval_columns(name, rows, level, degrees) if bounded else {name: rows}
    return pd.DataFrame(table)


def missing_draws_notes(values: np.ndarray, what: str) -> list[Note]:
    """How many of the draws in (1 + R,) values have no answer, or an infinite one."""
    draws, notes = np.asarray(values)[1:], []
    for lacking, words in (
        (np.isnan(draws), f"no {what}; intervals leave them out"),
        (np.isinf(draws), f"an infinite {what}"),
    ):
        if lacking.any():
            share = lacking.mean()
            message = f"{share:.1%} of {len(draws)} draws have {words}"
            notes.append(Note("draws-disagree", "warning" if share > MISSING else "info", message))
    return notes


def source_notes(source: Draws, what: str = "", /, **at) -> list[Note]:
    """Where an answer (in the user's units), or some of (K,) runs, is outside the fitted range.

    And the fit's own warnings.
    """
    numbers, ranges = inputs_as_numbers(source, at), source.ranges
    of, notes = f" of the {what} loss" if what else "", []
    unknown = [name for name in numbers if np.isnan(ranges.get(name, 0.0)).any()]
    known = {
        name: value
        for name, value in numbers.items()
        if name in ranges and name not in unknown and np.isfinite(value).any()
    }
    flags = outside_range(ranges, source.joint, known)
    outside = np.asarray(sum(map(np.asarray, flags.values())))
    beyond = [label for label, flag in flags.items() if np.any(flag)]
    if beyond and outside.ndim:
        message = f"{np.sum(outside > 0)} of {outside.size} runs lie outside the fitted range of "
        notes.append(Note("extrapolation", "warning", message + " or ".join(beyond)))
    elif beyond:
        units = source.fit.input_units()
        texts = (range_message(label, ranges, source.joint, known, units) for label in beyond)
        message = f"outside the fitted range{of}: {', '.join(texts)}"
        notes.append(Note("extrapolation", "warning", message))
    if unknown:  # of published coefficients
        message = (
            f"no fitted range of {', '.join(unknown)} is known{of}: whether this is an "
            "extrapolation is unknown"
        )
        notes.append(Note("range-unknown", "warning", message))
    notes += [note for note in source.warnings if note.code in _SAID]
    if warnings := [note for note in source.warnings if note.code not in _SAID]:
        codes = ", ".join(dict.fromkeys(note.code for note in warnings))
        severity = "error" if any(n.severity == "error" for n in warnings) else "warning"
        message = f"the fit{of} has warnings, which its own notes explain: {codes}"
        notes.append(Note("doubtful-fit", severity, message))
    return notes


def inputs_as_numbers(source: Draws, at: Mapping) -> dict:
    """Inputs of an answer as numbers in the units of the runs; labels are left out.

    A number is an answer here: however large, it was meant in the unit of the runs.
    """
    numbers = {
        name: in_unit_of_runs(source, name, value) if isinstance(value, str) else value
        for name, value in at.items()
        if name in source.law.input_names
    }
    return {name: value for name, value in numbers.items() if not isinstance(value, str)}


#: What a quantity or column of a plan counts, where it is no input of the law.
UNITS = {
    name: unit
    for unit, names in {
        "parameters": "N", "FLOPs": "compute continual_compute", "nats": "kl",
        "tokens": "D U tokens scratch_D transferred interior_below corpus_tokens batch_tokens",
        "steps": "steps best_steps step decay_start decay_end", "batch": "best_batch",
        "lr": "best_lr",
        RATIO: "tokens_per_parameter",
        SHARE: "r saved share change natural cap replay loss_potential decay overhead",
        TARGET: "loss domain_loss general_loss loss_alone loss_pt loss_cpt change_pt change_cpt "
        "limit gain_natural gain_observed objective weighted start rise critical_point regret",
    }.items()
    for name in names.split()
}  # fmt: skip


def unit_of(source: Draws, name: str, noun: str | None = None) -> tuple[str, float]:
    """The unit of a plan's quantity or column, and what one is worth in single things.

    Args:
        source: law with the units of its runs.
        name: name of the quantity; an input of the law has the unit of that.
        noun: ``parameters``, ``tokens``, ``FLOPs``, ``share``, ``target``, an input of the law
            whose unit it has, or what it is measured in; that of the name if None.
    """
    inputs = source.fit.input_units()
    if noun is None:
        noun = name if name in inputs else UNITS.get(name.partition("[")[0], "")
    if noun in inputs:
        return inputs[noun]
    if noun == TARGET:
        return source.fit.target_unit, 1.0
    counted = {"parameters": "N", "tokens": "D"}.get(noun)
    worth = source.scale(counted) if counted in source.law.input_names else 1.0
    return noun, worth


def plan_answer(
    kind: str, sentence: str, source: Draws, values: Mapping = {}, *,
    level: float, at: Inputs = None, given: Collection[str] = (), degrees: float | None = None,
    units: Mapping[str, str] = {}, tables: Mapping = {}, facts: Mapping = {},
    notes: Sequence[Note] = (), **more,
) -> Answer:  # fmt: skip
    """The answer of a plan: numbers with intervals and units, and how far it is from the runs.

    Args:
        kind: kind of the answer.
        sentence: the answer in a sentence, with quantities in braces (:class:`jaxlaw.Answer`).
        source: law whose units and runs it is about.
        values: quantity → number, or (1 + R,) of the fit and of its draws.
        level: confidence level of the intervals.
        at: inputs of the run that it is about, in the units of the runs, or as a user says them.
        given: quantities without an interval: they were given, not found.
        degrees: degrees of freedom of the draws' spread; the source's if None.
        units: quantity, or column of a table → what it counts, as :func:`unit_of` takes it;
            those of :data:`UNITS` need not be named.
        tables: name → table.
        facts: facts of the answer.
        notes: its notes; where a size, tokens or compute is known to no better than a decade, one
            more says that the fit is loose.
        **more: other fields of the answer.
    """
    at, degrees = at or {}, source.degrees if degrees is None else degrees
    columns = {name: np.atleast_1d(np.asarray(x, float)) for name, x in values.items()}
    found = {name: column for name, column in columns.items() if name not in given}
    bounds, tables = intervals(found, level, degrees), dict(tables)
    quantities = {
        name: Quantity(
            float(column[0]), *unit_of(source, name, units.get(name)),
            *bounds.get(name, ()), draws=column[1:] if len(column) > 1 else None,
        )
        for name, column in columns.items()
    }  # fmt: skip
    # Where normal draws of parameters that are hardly known bend the law, so that losses (and the
    # compute that one takes) rise. Positive parameters are drawn as logarithms: of E and A, known
    # only in their sum, one rises by more than the other can fall, in every draw. Draws of a
    # covariance that has its runs follow the law and are not normal in the parameters; those of its
    # file, which has no runs, are.
    of_loss = (*source.fit.target_unit.split(), "FLOPs") if source.kind == "normal" else ()
    bent = ""
    for name, column in found.items():
        rounding = SAME * np.abs(column[0])  # of what is the same in all draws
        above = np.mean(column[1:] > column[0] + rounding) if len(column) > 1 else 0.0
        if quantities[name].unit in of_loss and above > MOST_ABOVE:
            bent, what = name, name.replace("_", " ")
            message = (
                f"{above:.0%} of the draws have a higher {what} than the fit: the parameters are "
                "poorly determined, and normal draws of them distort the law; the interval of the "
                f"{what} (and a regret) is too high. Plan with jl.covariance(fit, runs) or a "
                "bootstrap instead"
            )
            notes = (*notes, Note("draws-disagree", "warning", message))
            break
    names = {str(column) for table in tables.values() for column in table}
    known = inputs_as_numbers(source, at)
    labels = {x.name: str(at[x.name]) for x in source.law.inputs if x.levels and x.name in at}
    point = {n: labels.get(n) or float(known.get(n, math.nan)) for n in source.law.input_names}
    whole = all(isinstance(x, str) or math.isfinite(x) for x in point.values())
    forecast = {"forecast": True} if source.noise > 0 else {}
    ends = [(name, one.value, one.low, one.high) for name, one in quantities.items()]
    for table in tables.values():
        bounded = [n for n in table if f"{n}_low" in table]
        ends += [(n, table[n], table[f"{n}_low"], table[f"{n}_high"]) for n in bounded]
    with np.errstate(invalid="ignore"):  # ∞ less ∞ is NaN, which is no miss
        apart = [
            name.replace("_", " ")
            for name, value, low, high in ends
            if np.any(np.maximum(low - value, value - high) > SAME * np.abs(low)) and name != bent
        ]
    if apart:
        message = (
            f"the interval of {' and '.join(dict.fromkeys(apart))} does not contain the estimate: "
            "the parameters are poorly determined; add runs, or fix one"
        )
        notes = (*notes, Note("estimate-outside", "warning", message))
    wide = [n for n, _, low, high in ends if n in _SIZES and np.any(high > _LOOSE * low)]
    if wide and not forecast and all(note.code != LOOSE_FIT for note in notes):
        message = (
            f"the interval of {' and '.join(wide)} spans more than a factor of {_LOOSE:g}: a "
            "forecast, which adds a prior from public experiments, is the better source"
        )
        notes = (Note(LOOSE_FIT, "warning", message), *notes)
    # Notes that say the same of several losses are one, so that a text lists no code twice.
    alike = {}
    for note in dict.fromkeys(notes):
        parts = re.split(r" of the (\w+) loss", note.message, maxsplit=1)
        key = (note.code, note.severity, parts[0]) if len(parts) > 1 else note
        alike.setdefault(key, []).append((note, parts))
    joined = []
    for same in alike.values():
        note, (start, *_) = same[0]
        if len(same) > 1:
            ends = [parts[1:] for _, parts in same]
            said = f"{' and '.join(name for name, _ in ends)} losses{ends[0][1]}"
            if len({rest for _, rest in ends}) > 1:
                said = "; of the ".join(f"{name} loss{rest}" for name, rest in ends)
            note = replace(note, message=f"{start} of the {said}")
        joined.append(note)
    return Answer(
        kind=kind, sentence=sentence, quantities=quantities, tables=tables, level=level,
        units={n: unit_of(source, n, units.get(n)) for n in (*names, *(point if whole else ()))},
        facts={**facts, **forecast}, beyond=source.fit.times_beyond(known),
        point=point if whole else {}, notes=joined, **more,
    )  # fmt: skip


def over_rows(table: pd.DataFrame, form: str, source: Draws) -> str:
    """A sentence for the least and the largest of several budgets; empty where all are unknown.

    Args:
        table: a row a budget, or weight, which is its first column.
        form: the sentence, with names of columns in braces.
        source: law with the units of its runs.
    """
    names = re.findall(r"{(\w+)}", form)
    known = table[~table[names].isna().any(axis=1)].sort_values(table.columns[0])
    ends = known.iloc[[0, -1] if len(known) > 1 else slice(None)].to_dict("records")
    texts = ({n: written(row[n], *unit_of(source, n)) for n in names} for row in ends)
    return "; ".join(form.format(**row) for row in texts)
