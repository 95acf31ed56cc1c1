"""A question of any inputs of a law under constraints, checked: units, ranges, limits, words."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from jaxlaw._quantities import checked_number, written
from jaxlaw.errors import UsageError, nearest
from jaxlaw.laws import Input
from jaxlaw.notes import Note
from jaxlaw.planning._answers import (
    Inputs,
    checked_compute,
    checked_tokens,
    in_unit_of_runs,
    law_inputs,
    require_loss,
    source_notes,
)
from jaxlaw.planning._budgets import AT_LIMIT, SEARCH_LIMITS, flops, total_cost
from jaxlaw.planning._constraints import AtMost, Budget, Compute, Constraint, Corpus
from jaxlaw.planning._flat import bound_notes
from jaxlaw.planning._search_space import epochs_limit, epochs_notes, middle_ratio
from jaxlaw.planning._searches import GRIDS, Form, Given, cost_with
from jaxlaw.uncertainty import Draws, as_draws


@dataclass(frozen=True, eq=False)
class Question:
    """A checked question.

    Attributes:
        sources: the law whose loss is made least, if any, then those of the limited losses.
        labels: names of the limited losses.
        order: inputs that are searched.
        limits: their limits, of the user or of the runs, in the units of the runs.
        corpus: words for the limit of the corpus.
        epochs: largest D/U, and whether it is that of the runs, as :func:`epochs_limit` gives it.
    """

    form: Form
    given: Given
    sources: tuple[Draws, ...]
    labels: tuple[str, ...]
    order: tuple[str, ...]
    limits: dict[str, tuple[Any, Any]]
    corpus: str
    epochs: tuple[float, bool] | None

    @property
    def reference(self) -> Draws:
        """The law in whose units the answer is."""
        return self.sources[0]

    @property
    def params(self) -> tuple[dict[str, np.ndarray], ...]:
        """Of each law, parameter → (1 + R,)."""
        return tuple(source.values for source in self.sources)

    @property
    def losses(self) -> list[str]:
        """Names of the losses, in the order of the sources."""
        named = [f"loss[{label}]" for label in self.labels]
        return named if self.form.law is None else ["loss", *named]

    def compute(self, raw: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """FLOPs (draws,) of the runs, by name; empty for a law without N or D."""
        known = {**self.given.held, **raw}
        if not {"N", "D"} <= set(known):
            return {}
        some = 0.0 * next(iter(raw.values()))
        cost = cost_with(self.form, self.given, known)
        return {"compute": flops(cost, *(np.log(known[n] + some) for n in ("N", "D")))}

    def without_end(self, raw: Mapping[str, np.ndarray]) -> str:
        """Why there is no optimum, and what to do."""
        name, side = self.order[0], "last"
        for one in (one for one in ("D", "N") if one in self.order):
            low, high = SEARCH_LIMITS[one]
            if not low * (1 + AT_LIMIT) < raw[one][0] < high * (1 - AT_LIMIT):
                name, side = one, "smallest" if raw[one][0] < 2 * low else "largest"
        what = "the compute" if self.form.law is None else "its loss"
        return (
            f"law {self.reference.law.name} has no best {name}: {what} falls all the way to the "
            f"{side} {name} that is searched; over={{'{name}': (least, largest)}} puts an end to it"
        )

    def not_allowed(self) -> str:
        """Which limits no values keep."""
        limits = [
            f"{label} loss ≤ {most:g}"
            for label, most in zip(self.labels, self.given.targets, strict=True)
        ]
        limits += [self.corpus] if self.form.corpus else []
        return f"no values that are searched keep {', '.join(limits) or 'all limits'}"

    def binding(
        self, best: Mapping[str, float], limited: Mapping[str, float], compute: float
    ) -> str:
        """What stops the loss from falling further, in words."""
        paid = self.form.budget and math.log(compute) >= self.given.log_C - AT_LIMIT
        bound = ["compute"] if paid else []
        for (label, loss), most in zip(limited.items(), self.given.targets, strict=True):
            bound += [f"{label} loss"] if loss >= most - AT_LIMIT * abs(most) else []
        bound += self._bounds_at(best)
        bound += [self.corpus] if self._uses_up_the_corpus(best) else []
        return ", ".join(bound) or "none"

    def _bounds_at(self, best: Mapping[str, float]) -> list[str]:
        """The limits of single inputs that bind."""
        bound, units = [], self.reference.fit.input_units()
        for name, (low, high) in self._sides().items():
            if low is not None and best[name] <= low + AT_LIMIT * abs(low):
                bound.append(f"{name} ≥ {written(low, *units[name])}")
            if high is not None and best[name] >= high - AT_LIMIT * abs(high):
                bound.append(f"{name} ≤ {written(high, *units[name])}")
        return bound

    def _uses_up_the_corpus(self, best: Mapping[str, float]) -> bool:
        if not self.form.corpus:
            return False
        raw = {name: best[name] * self.reference.scale(name) for name in self.order}
        known = {**self.given.held, **raw}
        used = known["D"] * known.get(self.form.share, 1.0)
        return used >= math.exp(self.given.log_corpus) * (1 - AT_LIMIT)

    def _sides(self) -> dict[str, tuple[Any, Any]]:
        """The limits of the inputs, of shares also 0 and 1."""
        fractions = [s.name for s in self.reference.law.inputs if s.domain == "fraction"]
        ends = {n: (0.0, 1 / self.reference.units[n]) for n in self.order if n in fractions}
        return ends | self.limits

    def notes(self, best: Mapping[str, float]) -> list[Note]:
        """Where the optimum lies, and what is to be known of the fits."""
        notes: list[Note] = []
        if not any(map(math.isnan, best.values())):
            notes = bound_notes(self.reference, self.limits, best)
            if "D" in best:
                others = self.given.others[0]
                other = "a corpus with max_epochs in subject_to= sets another limit"
                notes += epochs_notes(self.reference, others, best["D"], self.epochs, other)
        own = len(self.sources) - len(self.labels)
        limits = [((), "")] * own + [
            (rest, label) for (_, rest), label in zip(self.form.limits, self.labels, strict=True)
        ]
        for source, others, (rest, label) in zip(
            self.sources, self.given.others, limits, strict=True
        ):
            at = {name: value / source.units[name] for name, value in others.items()}
            for name in source.inputs_taken(best):
                value = best[name] * self.reference.scale(name)
                at[name] = (1 - value if name in rest else value) / source.scale(name)
            notes += source_notes(source, label, **at)
        return notes


class _Asked(NamedTuple):
    """What a user asks for: the goal, the constraints by their kind, and the laws of both.

    Attributes:
        compute: how compute is counted, where it is the goal.
        every: the law whose loss is the goal, if any, then those of the limited losses.
    """

    compute: Compute | None
    budget: Budget | None
    corpus: Corpus | None
    limited: tuple[AtMost, ...]
    every: tuple[Draws, ...]

    @property
    def of_limits(self) -> tuple[Draws, ...]:
        """The laws of the limited losses."""
        return self.every[len(self.every) - len(self.limited) :]


def _asked(fit: Any, constraints: Sequence[Constraint]) -> _Asked:
    """The goal and the constraints, sorted; a UsageError of a goal or constraints that are none."""
    budget, corpus = _one(constraints, Budget), _one(constraints, Corpus)
    limited = tuple(one for one in constraints if isinstance(one, AtMost))
    compute = fit if isinstance(fit, Compute) else None
    if compute is not None and (not limited or budget is not None):
        raise UsageError(
            "the least compute is that at which a loss is reached: subject_to=[AtMost(fit, loss)], "
            "without a Budget"
        )
    every = as_draws(*([fit] if compute is None else []), *(limit.fit for limit in limited))
    for one in every:
        require_loss(one)
    return _Asked(compute, budget, corpus, limited, every)


def _one(constraints: Sequence[Constraint], kind: type) -> Any:
    """The one constraint of a kind; None without one."""
    own = [one for one in constraints if isinstance(one, kind)]
    if len(own) > 1:
        raise UsageError(f"subject_to holds {len(own)} of {kind.__name__}; give one")
    return own[0] if own else None


def question_of(
    fit: Any, over: Mapping[str, Any], subject_to: Sequence[Constraint], at: Inputs
) -> Question:
    """The question of a user, checked; arguments and errors as of ``minimise``."""
    asked, order = _asked(fit, subject_to), tuple(over)
    source = asked.every[0]
    specs = searched_inputs(source, order)
    ranges = {name: searched_range(source, spec, over[name]) for name, spec in specs.items()}
    others = _given_inputs(asked, order, at or {})
    units = {spec.name: spec.unit for spec in source.law.inputs}
    held = {name: value * units[name] for name, value in others[0].items()}
    limit = _corpus_limit(source, asked.corpus, held, order)
    form = _form(asked, ranges, held, math.isfinite(limit.log))
    given = _given(asked, ranges, held, others, limit.log)
    limits = {name: span.limits for name, span in ranges.items() if span.limits != (None, None)}
    return Question(
        form, given, asked.every, _labels(asked), order, limits, limit.words, limit.epochs
    )


def _form(
    asked: _Asked, ranges: Mapping[str, SearchedRange], held: Mapping[str, float], limited: bool
) -> Form:
    """What the programs are made of; ``limited`` where a corpus limits D or its share."""
    share = "" if asked.corpus is None else asked.corpus.share
    share = share if share in {*ranges, *held} else ""
    paid = _paid(asked, ranges, held)
    free = _coordinates(tuple(ranges), ("N", "D", share), paid)
    laws = (source.law for source in asked.of_limits)
    of_corpus = limited and share not in ranges
    return Form(
        law=asked.every[0].law if asked.compute is None else None,
        limits=tuple((law, one.rest) for law, one in zip(laws, asked.limited, strict=True)),
        free=free,
        logs=tuple(name for name, span in ranges.items() if span.log),
        paid=paid,
        budget=asked.budget is not None,
        corpus=limited,
        capped=bool(paid) and (of_corpus or not ranges["D"].open[1]),
        share=share,
        priced=_priced(asked),
    )


def _priced(asked: _Asked) -> tuple[str, ...]:
    """Inputs of the law that the cost takes by name, beside N and D."""
    counted = asked.budget or asked.compute
    if counted is None or counted.cost is None:
        return ()
    try:
        taken = list(inspect.signature(counted.cost).parameters)[2:]
    except (
        TypeError,
        ValueError,
    ):  # what is no function, or has no signature, is refused or called
        return ()
    if {"N", "D"} & {*taken}:
        raise UsageError("cost takes N and D first, other inputs after them: cost(N, D, …)")
    return tuple(name for name in taken if name in asked.every[0].law.input_names)


def _paid(asked: _Asked, ranges: Mapping[str, SearchedRange], held: Mapping[str, float]) -> str:
    """What determines D, if anything does."""
    if asked.compute is not None:
        return "loss" if "D" in ranges else ""
    if asked.budget is None:
        return ""
    if not {"N", "D"} <= {*ranges, *held} or not {"N", "D"} & {*ranges}:
        raise UsageError("a Budget limits N and D: search one of them or both, with over=")
    return "budget" if {"N", "D"} <= {*ranges} else ""


def _given(
    asked: _Asked,
    ranges: Mapping[str, SearchedRange],
    held: dict[str, float],
    others: tuple[dict[str, float], ...],
    log_corpus: float,
) -> Given:
    """The numbers of the programs."""
    source, counted = asked.every[0], asked.budget or asked.compute
    cost = None if counted is None else counted.cost
    cost = total_cost(cost, source, None if counted is None else counted.served_tokens)
    targets = [checked_number("loss of AtMost", one.loss, "real") for one in asked.limited]
    log_C = math.inf if asked.budget is None else math.log(checked_compute(asked.budget.compute))
    sides = [{name: span.sides[k] for name, span in ranges.items()} for k in range(4)]
    near = middle_ratio(source) if {"N", "D"} <= {*source.law.input_names} else math.nan
    return Given(*sides, held, others, cost, log_C, log_corpus, tuple(targets), near)


def _labels(asked: _Asked) -> tuple[str, ...]:
    """Names of the limited losses, each once."""
    laws = zip(asked.limited, asked.of_limits, strict=True)
    plain = [limit.label or source.law.name for limit, source in laws]
    return tuple(
        label if plain.count(label) == 1 else f"{label} {k + 1}" for k, label in enumerate(plain)
    )


def _coordinates(order: Sequence[str], first: Sequence[str], paid: str) -> tuple[str, ...]:
    """The inputs that are coordinates: some in front of others, and not D where it is paid for."""
    ahead = [name for name in first if name in order]
    every = [*ahead, *(name for name in order if name not in ahead)]
    free = tuple(name for name in every if not (name == "D" and paid))
    if len(free) > max(GRIDS):
        raise UsageError(f"{len(free)} inputs are searched; {max(GRIDS)} are the most")
    return free


def _given_inputs(
    asked: _Asked, order: Sequence[str], at: Mapping[str, Any]
) -> tuple[dict[str, float], ...]:
    """Of each law the inputs that are not searched, in its own units."""
    known = {name for source in asked.every for name in source.law.input_names} - {*order}
    for name in at:
        if name not in known:
            raise UsageError(
                f"no law here takes an input '{name}' that is not searched.{nearest(name, known)}"
            )
    if asked.corpus is not None and asked.corpus.tokens is not None and "U" in known:
        if "U" in at:
            raise UsageError("U is the tokens of Corpus here: leave one of them out")
        at = {**at, "U": asked.corpus.tokens}
    goal = [AtMost(None, 0.0)] * (len(asked.every) - len(asked.limited))
    return tuple(
        _inputs_of(source, limit, order, at)
        for source, limit in zip(asked.every, [*goal, *asked.limited], strict=True)
    )


def _inputs_of(
    source: Draws, limit: AtMost, order: Sequence[str], at: Mapping[str, Any]
) -> dict[str, float]:
    """Inputs of one law that are given, those of which it takes the rest among them."""
    alone = limit.at or {}
    own = law_inputs(source, {**source.inputs_taken(at), **alone}, order)
    rest = (name for name in limit.rest if name in at and name not in alone)
    return own | {name: 1 - own[name] for name in rest}


def searched_inputs(
    source: Draws, order: Sequence[str], argument: str = "over"
) -> dict[str, Input]:
    """Specifications of the inputs that are searched, named by an argument."""
    specs = {spec.name: spec for spec in source.law.inputs}
    if not order:
        raise UsageError("over names no input; name one or more that are searched")
    for name in order:
        if name not in specs:
            raise UsageError(
                f"{argument}: law {source.law.name} takes no input '{name}'.{nearest(name, specs)}",
                argument=argument,
            )
        if specs[name].levels or specs[name].per_drop or specs[name].mixture:
            why = "one share of a mixture: optimal_weights searches all of them together"
            why = why if specs[name].mixture else "no number that can be searched"
            raise UsageError(f"{argument}: {name} is {why}", argument=argument)
    return {name: specs[name] for name in order}


class SearchedRange(NamedTuple):
    """A checked range of an input.

    Attributes:
        raw: from where to where it is searched.
        log: whether its logarithm is.
        open: whether each side is where the search ends, and no limit.
        limits: limits in the user's units, None for a side without one.
    """

    raw: tuple[float, float]
    log: bool
    open: tuple[bool, bool]
    limits: tuple[float | None, float | None]

    @property
    def sides(self) -> tuple[Any, ...]:
        """From where to where its coordinate goes, and whether each side is open."""
        return (*(math.log(x) if self.log else x for x in self.raw), *self.open)


def searched_range(source: Draws, spec: Input, given: Any, argument: str = "over") -> SearchedRange:
    """From where to where an input is searched: by the user, else by the search or the runs."""
    name, scale = spec.name, source.scale(spec.name)
    own = _limits(source, spec, given or (None, None), argument)
    known = name in ("N", "D") or spec.domain == "fraction"
    ends = _ends_of_search(source, spec)
    span = tuple(end if x is None else x for x, end in zip(own, ends, strict=True))
    if not np.isfinite(span).all():
        raise UsageError(
            f"the range of {name} in the fitted runs is unknown: say by {argument}= between which "
            "values it is searched",
            argument=argument,
        )
    if not span[0] < span[1]:
        raise UsageError(
            f"{argument} of {name}: the least value, {span[0]:g}, is not below the largest, "
            f"{span[1]:g}; give a single value in at=",
            argument=argument,
        )
    return SearchedRange(
        raw=(span[0] * scale, span[1] * scale),
        log=span[0] > 0 and spec.domain != "fraction",
        open=tuple(name in ("N", "D") and x is None for x in own),
        limits=own if known else span,
    )


def _limits(source: Draws, spec: Input, given: Sequence[Any], argument: str) -> tuple[Any, ...]:
    """The user's limits of an input, checked; None for a side without one."""

    def checked(value: Any) -> float:
        own = in_unit_of_runs(source, spec.name, value)
        return checked_number(
            f"{argument} of {spec.name}", own, spec.domain, source.units[spec.name]
        )

    return tuple(x if x is None else checked(x) for x in given)


def _ends_of_search(source: Draws, spec: Input) -> tuple[float, ...]:
    """From where to where an input is searched, in the user's units, where nobody limits it."""
    if spec.name in ("N", "D"):
        return tuple(x / source.scale(spec.name) for x in SEARCH_LIMITS[spec.name])
    if spec.domain == "fraction":
        return 0.0, 1 / source.units[spec.name]
    return source.ranges.get(spec.name, (math.nan, math.nan))


class _CorpusLimit(NamedTuple):
    """Log tokens of a corpus times its epochs, raw; words for it; the epochs of a law with U."""

    log: float = math.inf
    words: str = ""
    epochs: tuple[float, bool] | None = None


def _corpus_limit(
    source: Draws, corpus: Corpus | None, held: Mapping[str, float], order: Sequence[str]
) -> _CorpusLimit:
    """What a corpus, or the epochs of the runs of a law with U, allow."""
    most = None if corpus is None else checked_number("max_epochs", corpus.max_epochs)
    if "U" in source.law.input_names:
        return _epochs_limit(source, most, held, order)
    if corpus is None or most is None:
        return _CorpusLimit()
    if corpus.tokens is None:
        raise UsageError("Corpus needs tokens: the law has no unique tokens U that would say them")
    share = [corpus.share] if corpus.share in source.law.input_names else []
    if not {"D", *share} & {*order} or "D" not in {*held, *order}:
        raise UsageError(f"a Corpus limits {' and '.join([*share, 'D'])}: search one, with over=")
    tokens = checked_tokens(source, "tokens of Corpus", corpus.tokens) * most
    words = f"{'·'.join([*share, 'D'])} ≤ {tokens:g}"
    return _CorpusLimit(math.log(tokens * source.scale("D")), words)


def _epochs_limit(
    source: Draws, most: float | None, held: Mapping[str, float], order: Sequence[str]
) -> _CorpusLimit:
    """The same of a law with unique tokens U, whose runs have a limit without a Corpus too."""
    if "U" not in held or "D" not in order:
        if most is not None:
            raise UsageError("Corpus limits D at a given U: search D, and give U")
        return _CorpusLimit()
    epochs = epochs_limit(source, most)
    if epochs is None:
        return _CorpusLimit()
    return _CorpusLimit(math.log(epochs[0] * held["U"]), f"D/U ≤ {epochs[0]:.4g}", epochs)
