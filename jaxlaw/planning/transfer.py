"""From scratch against continual: data transferred, compute saved, where a base stops paying.

Zheng 2024, §4.2, §4.3 and figure 2; "effective data transferred" is Hernandez 2021's. The base's
own training is not counted, as there.

The paper sees 25 to 50 % of the compute saved throughout. Its two fits of the loss envelopes (§4.2)
say so: 48 to 43 % at equal loss from 1e17 to 1e23 FLOPs. The coefficients of its table 2 do not:
at 20 tokens a parameter, as its models were trained, they put the continual runs behind. Exponents
are printed to two digits, and half a unit of the last one moves what is saved by 1 B parameters on
20 B tokens between −500 % and 36 %.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw._quantities import SHARE, Amount, checked_number
from jaxlaw._result import TARGET
from jaxlaw._rounding import SAME
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import Cost
from jaxlaw.planning._frame import (
    MISSING,
    AnswerTable,
    Inputs,
    OldAnswer,
    Pictured,
    checked_compute,
    checked_input,
    context_of,
    draw,
    fewest_degrees,
    keeps_question,
    law_inputs_of_each,
    missing_draws_notes,
    require_inputs,
    require_loss,
    source_notes,
    units_of,
    without,
)
from jaxlaw.planning._optimise import (
    SEARCH_LIMITS,
    best_size,
    crossing,
    epochs_notes,
    flops,
    for_each_draw,
    log_tokens,
    loss_at,
    losses_at,
    root,
    root_or_infinity,
    total_cost,
)
from jaxlaw.planning.size_and_data import budgets_of, min_compute, runs_beyond, size_and_data
from jaxlaw.uncertainty import LEVEL, Draws, as_draws, has_draws, interval_columns, with_intervals

GRID = 129  # points at which two losses are compared, before the root between two of them
BUDGETS = (1e10, 1e36)  # FLOPs among which the frontiers are compared
LOG_COMPUTES = (0.0, math.log(1e60))  # in which two laws of compute are compared
TIE = 1e-13  # relative difference of losses that rounding may make


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Transfer(Pictured, OldAnswer):
    """What a base saves one run, against training from scratch to the same loss.

    Attributes:
        N, D: size and tokens of the continual run, in the units of its fitted runs.
        loss: loss of both.
        scratch_D: tokens from scratch to that loss; infinite where scratch never gets there.
        transferred: scratch_D − D.
        saved: share of the compute saved, (C_scratch − C_continual) / C_scratch.
    """

    N: float = field(metadata={"unit": "parameters"})
    D: float = field(metadata={"unit": "tokens"})
    loss: float = field(metadata={"unit": TARGET})
    scratch_D: float = field(metadata={"unit": "tokens"})
    transferred: float = field(metadata={"unit": "tokens"})
    saved: float = field(metadata={"unit": SHARE})

    def sentence(self) -> str:
        """What the base saves."""
        if not math.isfinite(self.transferred):
            return ""
        return (
            f"{self.written('N')} and {self.written('D')} from a base: worth "
            f"{self.written('transferred', level=True)} more from scratch, "
            f"{self.written('saved')} of the compute"
        )

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """What the base saves at this size, over the tokens around its own."""
        fits = question["scratch"], question["continual"]
        tokens = list(np.geomspace(self.D / 100, self.D * 10, 41))
        options = without(question, "scratch", "continual", "N", "D", "loss")
        return "compute_saved", (transfer_table(*fits, [self.N], tokens, **options),), {}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Saving(Pictured, OldAnswer):
    """Least compute to a loss from scratch and from a base, each with its own best size.

    Attributes:
        loss: loss of both, in nats.
        scratch_compute, continual_compute: FLOPs.
        saved: (C_scratch − C_continual) / C_scratch.
    """

    loss: float = field(metadata={"unit": TARGET})
    scratch_compute: float = field(metadata={"unit": "FLOPs"})
    continual_compute: float = field(metadata={"unit": "FLOPs"})
    saved: float = field(metadata={"unit": SHARE})

    def sentence(self) -> str:
        """What the base saves."""
        if not math.isfinite(self.scratch_compute * self.continual_compute):
            return ""
        return (
            f"loss {self.written('loss')}: {self.written('continual_compute', level=True)} from a "
            f"base, {self.written('scratch_compute')} from scratch, {self.written('saved')} saved"
        )

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """Both losses over the budget, and what is saved."""
        fits = question["scratch"], question["continual"]
        return "crossover", fits, {"plan": self, "at": question.get("at")}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class BreakEven(Pictured, OldAnswer):
    """Where training from scratch and from a base reach the same loss.

    Attributes:
        N, D: size and tokens there, in the units of the continual fit's runs (each budget's
            best continual run, where the frontiers are compared).
        compute: FLOPs there; infinite for ``always`` or ``never``.
        loss: loss of both, in nats.
        pays: where continual training has the lower loss: ``below`` or ``above`` this point
            (of D, N or compute), ``always`` or ``never``.
    """

    N: float = field(metadata={"unit": "parameters"})
    D: float = field(metadata={"unit": "tokens"})
    compute: float = field(metadata={"unit": "FLOPs"})
    loss: float = field(metadata={"unit": TARGET})
    pays: str

    def sentence(self) -> str:
        """Where continual training has the lower loss."""
        if self.pays in ("always", "never"):
            return f"continual training {self.pays} pays, over all that was searched"
        run = f"{self.written('N', level=True)} and {self.written('D')}, {self.written('compute')}"
        return (
            f"continual training pays {self.pays} {run}: there both reach loss "
            f"{self.written('loss')}"
        )

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """Both losses, and where they meet."""
        fits = question["scratch"], question["continual"]
        own = {name: question[name] for name in ("N", "compute", "at") if name in question}
        return "crossover", fits, {"plan": self, **own}


class FrontierSavings(AnswerTable):
    """Compute saved at equal loss, a row for each budget.

    ``table`` has ``compute``, ``loss``, ``continual_compute`` and ``saved``.
    """

    def sentence(self) -> str:
        """What is saved at the least and the largest budget."""
        return self.over_budgets("{compute} from scratch, loss {loss}: {saved} saved from a base")

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the share that is saved over the budget, by ``compute_saved``; needs matplotlib."""
        return draw("compute_saved", self.table, ax=ax, **options)


@keeps_question
@checked
def data_transferred(
    scratch: Any,
    continual: Any,
    *,
    N: Amount,
    D: Amount | None = None,
    loss: float | None = None,
    cost: Cost | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Transfer:
    """Effective data transferred and compute saved of one continual run.

    Args:
        scratch: fit of the loss over N and D, from scratch: a Fit, (law, params), or a bootstrap.
        continual: fit of the loss over N and D, from a base.
        N: size, in the units of the continual fit's runs.
        D: tokens of the continual run, in those units; or give loss.
        loss: loss of the continual run; or give D.
        cost: function ``f(N, D)`` in FLOPs, as for :func:`jaxlaw.planning.allocation`.
        at: values of the laws' other inputs: each law takes those that it has.
        level: confidence level of the intervals.

    Returns:
        Transfer. Where scratch never reaches the loss at this size, ``scratch_D`` and
        ``transferred`` are infinite, ``saved`` is 1, and the note ``no-finite-answer`` says
        where it ends.

    Raises:
        UsageError: not one of D and loss, or an input of a law that is missing.

    Example:
        >>> fits = [jl.published()[f"zheng-2024-{base}"] for base in ("scratch", "cpt")]
        >>> plan = jl.planning.data_transferred(*fits, N=1e9, D=1e9)
        >>> print(f"{plan.transferred:.3g} tokens, {plan.saved:.0%} of the compute")
        3.62e+08 tokens, 27% of the compute
    """
    both, others = size_and_data_laws(scratch, continual, at)
    continued = both[1]
    if (D is None) == (loss is None):
        raise UsageError("give one of D, the continual run's tokens, and loss")
    log_N = math.log(checked_input(continued, "N", N) * continued.scale("N"))
    if D is None:
        target = np.full(continued.rows, checked_number("loss", loss))
        log_D, _ = _tokens_to(continued, log_N, target, others[1])
    else:
        tokens = checked_input(continued, "D", D) * continued.scale("D")
        log_D = np.full(continued.rows, math.log(tokens))
        target = losses_at(continued, log_N, log_D, others[1])
    values, lowest = _against_scratch(both, others[0], cost, log_N, log_D, target)
    notes = _transfer_notes(values, lowest)
    given = ("N", "D" if loss is None else "loss")
    answer = with_intervals(values, level, fewest_degrees(both), given)
    raw = {name: answer[name] * continued.scale(name) for name in ("N", "D")}
    from_scratch = raw | {"D": answer["scratch_D"] * continued.scale("D")}
    for source, what, run in (
        (both[0], "from-scratch", from_scratch),
        (continued, "continual", raw),
    ):
        notes += source_notes(source, what, **{k: v / source.scale(k) for k, v in run.items()})
    notes += [*missing_draws_notes(values["saved"], "answer"), *base_notes(scratch, continual)]
    there = {**(at or {}), **{name: answer[name] for name in ("N", "D")}}
    return Transfer(
        **answer, binding="equal loss at equal size", notes=tuple(notes),
        **context_of(Transfer, continued, there),
    )  # fmt: skip


@checked
def transfer_table(
    scratch: Any,
    continual: Any,
    N: Sequence[Amount],
    D: Sequence[Amount],
    *,
    cost: Cost | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> pd.DataFrame:
    """Data transferred and compute saved for every N and D (Zheng's figure 2).

    Args:
        scratch: fit of the loss over N and D, from scratch.
        continual: fit of the loss over N and D, from a base.
        N: sizes, in the units of the continual fit's runs.
        D: tokens of the continual runs, in those units.
        cost: function ``f(N, D)`` in FLOPs, as for :func:`jaxlaw.planning.allocation`.
        at: values of the laws' other inputs: each law takes those that it has.
        level: confidence level of the intervals.

    Returns:
        One row for each pair: ``N``, ``D``, ``loss``, ``scratch_D``, ``transferred``, ``saved``;
        with draws ``…_low`` and ``…_high`` of the last two.

    Example:
        >>> fits = [jl.published()[f"zheng-2024-{base}"] for base in ("scratch", "cpt")]
        >>> table = jl.planning.transfer_table(*fits, [1e9], [1e9, 1e10])
        >>> table["saved"].round(2).tolist()
        [0.27, -0.58]
    """
    both, others = size_and_data_laws(scratch, continual, at)
    continued, rows = both[1], []
    sizes, tokens = (
        [checked_input(continued, name, value) for value in values]
        for name, values in (("N", N), ("D", D))
    )
    for name, values in (("N", sizes), ("D", tokens)):
        if not values:
            raise UsageError(f"transfer_table: {name} is empty; give a number, or several")
    for size, some in itertools.product(sizes, tokens):
        log_N, log_D = math.log(size * continued.scale("N")), math.log(some * continued.scale("D"))
        loss = losses_at(continued, log_N, log_D, others[1])
        spent = np.full(continued.rows, log_D)
        rows.append(_against_scratch(both, others[0], cost, log_N, spent, loss)[0])
    values = {name: np.stack([row[name] for row in rows], axis=1) for name in rows[0]}
    table = {name: columns[0] for name, columns in values.items()}
    for name in ("transferred", "saved"):
        table |= interval_columns(name, values[name], level, fewest_degrees(both))
    return pd.DataFrame(table)


@keeps_question
@checked
def compute_savings(
    scratch: Any,
    continual: Any,
    loss: float,
    *,
    cost: Cost | None = None,
    served_tokens: Amount | None = None,
    max_epochs: float | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> Saving:
    """Compute saved at equal loss where either way takes the size that suits it best.

    At equal size :func:`data_transferred` answers.

    Args:
        scratch: fit of the loss over N and D, from scratch.
        continual: fit of the loss over N and D, from a base.
        loss: loss of both, in nats.
        cost: function ``f(N, D)`` in FLOPs, as for :func:`jaxlaw.planning.allocation`.
        served_tokens: number of tokens that the model will serve, a part of either's compute.
        max_epochs: largest D/U of a law that has U, as for :func:`jaxlaw.planning.allocation`.
        at: values of the laws' other inputs: each law takes those that it has.
        level: confidence level of the intervals.

    Returns:
        Saving. Out of reach of scratch, ``scratch_compute`` is infinite and ``saved`` is 1; out
        of reach of both, ``saved`` is NaN.

    Example:
        >>> scratch = jl.simulate.TRUTHS["chinchilla"]
        >>> continual = scratch | {"B": scratch["B"] / 2}
        >>> fits = [("chinchilla", params) for params in (scratch, continual)]
        >>> print(f"{jl.planning.compute_savings(*fits, loss=2.3).saved:.0%}")
        92%
    """
    both, _ = size_and_data_laws(scratch, continual, at)
    of_epochs = ["U" in source.law.input_names for source in both]
    plans = [
        min_compute(
            fit, loss, cost=cost, served_tokens=served_tokens, level=level,
            max_epochs=max_epochs if limited or not any(of_epochs) else None,
            at=source.inputs_taken(at or {}),
        )
        for fit, source, limited in zip((scratch, continual), both, of_epochs, strict=True)
    ]  # fmt: skip
    # One without draws stays as it is beside the draws of the other.
    rows = [np.append(plan.compute, plan.draws.get("compute", ())) for plan in plans]
    theirs, continued = np.broadcast_arrays(*rows)
    with np.errstate(invalid="ignore"):
        saved = np.where(np.isinf(theirs) & np.isfinite(continued), 1.0, 1 - continued / theirs)
    values = {
        "loss": np.full(len(saved), loss),
        "scratch_compute": theirs,
        "continual_compute": continued,
        "saved": saved,
    }
    notes = [
        Note(note.code, note.severity, f"{way}: {note.message}")
        for way, plan in zip(("from scratch", "continual"), plans, strict=True)
        for note in plan.notes
    ]
    notes += base_notes(scratch, continual)
    answer = with_intervals(values, level, fewest_degrees(both), given=("loss",))
    return Saving(
        **answer, binding="equal loss, each at its best size", notes=tuple(notes),
        units=units_of(Saving, both[1]), beyond=plans[1].beyond,
        point=plans[1].point,
    )  # fmt: skip


@checked
def frontier_savings(
    scratch: Any, continual: Any, compute: Sequence[float], *, level: ConfidenceLevel = LEVEL
) -> FrontierSavings:
    """Compute saved at equal loss, by two laws of the loss envelope (Zheng 2024, §4.2).

    Args:
        scratch: law of the compute C alone, from scratch, such as ``loss-compute-e`` fitted to
            what :func:`jaxlaw.papers.loss_envelope` returned: a Fit, (law, params), or a
            bootstrap.
        continual: law of the compute C alone, from a base.
        compute: budgets in FLOPs that are spent from scratch.
        level: confidence level of the intervals.

    Returns:
        :class:`FrontierSavings` of K rows: ``compute`` and ``loss`` from scratch,
        ``continual_compute`` to that loss, and ``saved``, the share
        1 − continual_compute/compute; with draws ``…_low`` and ``…_high`` of the last three. A
        continual law that never reaches the loss has an infinite compute, and saves −∞.

    Raises:
        UsageError: a law that takes more or less than C, or a compute that is not positive.

    Example:
        >>> fits = [jl.published()[f"zheng-2024-frontier-{base}"] for base in ("scratch", "cpt")]
        >>> jl.planning.frontier_savings(*fits, [1e17, 1e20, 1e23]).table["saved"].round(2).tolist()
        [0.48, 0.45, 0.43]

    Shell:
        jaxlaw plan frontier-savings published:zheng-2024-frontier-scratch
            published:zheng-2024-frontier-cpt --compute 1e17,1e20,1e23
    """
    both = as_draws(scratch, continual)
    for source in both:
        if source.law.input_names != ("C",):
            raise UsageError(
                f"law {source.law.name} takes {', '.join(source.law.input_names)}; savings between "
                "frontiers need laws of the compute C alone, such as loss-compute; for laws of N "
                "and D use compute_savings or data_transferred"
            )
        require_loss(source)
    budgets = budgets_of(compute)
    loss, log_C = _at_equal_loss(
        tuple(source.law for source in both), tuple(source.values for source in both),
        np.log(budgets),
    )  # fmt: skip
    values = {"loss": loss, "continual_compute": np.exp(log_C)}
    values["saved"] = 1 - values["continual_compute"] / budgets
    table = {"compute": budgets} | {name: columns[0] for name, columns in values.items()}
    for name, columns in values.items():
        table |= interval_columns(name, columns, level, fewest_degrees(both))
    notes: list[Note] = []
    spent = (budgets, values["continual_compute"][0])
    for source, what, used in zip(both, ("from-scratch", "continual"), spent, strict=True):
        for at in {used.min(), used.max()}:
            notes += source_notes(source, what, C=at / source.units["C"])
    notes = [*_savings_notes(values["saved"][0]), *dict.fromkeys(notes)]
    used = {"C": values["continual_compute"][0].max() / both[1].units["C"]}
    return FrontierSavings(
        pd.DataFrame(table), level, tuple(notes), **context_of(FrontierSavings, both[1], used)
    )


@keeps_question
@checked
def break_even(
    scratch: Any,
    continual: Any,
    *,
    N: Amount | None = None,
    compute: Amount | None = None,
    cost: Cost | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> BreakEven:
    """The size, the tokens or the budget at which a base stops paying (Zheng 2024, §4.2 and §4.3).

    Args:
        scratch: fit of the loss over N and D, from scratch: a Fit, (law, params), or a bootstrap.
        continual: fit of the loss over N and D, from a base.
        N: size at which the two are compared, over the tokens.
        compute: budget in FLOPs at which they are compared, over the size. Without a size and
            a budget they are compared over the budget, each at its own best size.
        cost: function ``f(N, D)`` in FLOPs, as for :func:`jaxlaw.planning.allocation`.
        at: values of the laws' other inputs: each law takes those that it has.
        level: confidence level of the intervals.

    Returns:
        BreakEven. Intervals are of the draws that break even on the same side. Where the
        two cross more than once, it is the crossing nearest the fitted range of the continual
        runs, and there is the note ``several-crossings``; within it, or where no range is known,
        the first at which continual training stops paying.

    Raises:
        UsageError: N and compute together, or an input of a law that is missing.

    Example:
        >>> fits = [jl.published()[f"zheng-2024-{base}"] for base in ("scratch", "cpt")]
        >>> plan = jl.planning.break_even(*fits, N=1e9)
        >>> print(f"pays {plan.pays} {plan.D:.2g} tokens")
        pays below 2.5e+09 tokens

    Shell:
        jaxlaw plan break-even scratch.json continual.json --at N=1.4e9
    """
    both, others = size_and_data_laws(scratch, continual, at)
    if N is not None and compute is not None:
        raise UsageError("give N or compute, not both: the two fix the run")
    continued = both[1]
    cost = total_cost(cost, continued)
    # The two losses are compared along one line: over D at a size, over N at a budget, or over
    # budgets, each law at its own best size.
    if N is not None:
        along, fixed = "D", math.log(checked_input(continued, "N", N) * continued.scale("N"))
        limits = SEARCH_LIMITS["D"]
    elif compute is not None:
        compute = checked_compute(compute)
        along, fixed = "N", math.log(compute)
        least, most = SEARCH_LIMITS["N"]
        limits = (least, min(most, compute / (6 * SEARCH_LIMITS["D"][0])))
    else:
        along, fixed, limits = "compute", 0.0, BUDGETS
    laws = tuple(source.law for source in both)
    params = tuple(source.values for source in both)
    limits = tuple(map(math.log, limits))
    log_N, log_D, loss, side, count = _crossings(
        laws,
        cost,
        along,
        params,
        fixed,
        limits,
        _fitted_range(continued, along),
        others,
    )
    values = {
        "N": np.exp(log_N) / continued.scale("N"),
        "D": np.exp(log_D) / continued.scale("D"),
        "compute": flops(cost, log_N, log_D),
        "loss": loss,
    }
    # A draw counts where it pays on the same side as the fit: others cross elsewhere, or nowhere,
    # and an interval over both sides would mean nothing.
    same, crosses = side == side[0], np.isin(side, (1, 2))
    values = {name: np.where(crosses & same, column, np.nan) for name, column in values.items()}
    if not crosses[0]:
        values["compute"] = np.where(same, np.inf, np.nan)
    pays = tuple(_PAYS)[int(side[0])]
    given = ["N"] if N is not None else []
    if compute is not None or pays in ("always", "never"):
        given.append("compute")
    answer = with_intervals(values, level, fewest_degrees(both), given)
    notes = _side_notes(pays, side, along)
    if count[0] >= 2:
        message = (
            f"the two cross {count[0]} times over all that was searched: this is the crossing "
            "nearest the fitted runs"
        )
        notes.append(Note("several-crossings", "warning", message))
    for source, what in zip(both, ("from-scratch", "continual"), strict=True):
        there = {k: answer[k] * continued.scale(k) / source.scale(k) for k in ("N", "D")}
        notes += source_notes(source, what, **there)
    notes += base_notes(scratch, continual)
    binding = f"equal loss; continual training pays {_PAYS[pays].format(along)}"
    there = {**(at or {}), **{name: answer[name] for name in ("N", "D")}}
    return BreakEven(
        **answer, pays=pays, binding=binding, notes=tuple(notes),
        **context_of(BreakEven, continued, there),
    )  # fmt: skip


def size_and_data_laws(
    scratch: Any, continual: Any, inputs: Inputs
) -> tuple[tuple[Draws, ...], tuple[dict[str, float], ...]]:
    """Two laws of N and D, and the other inputs of each, in its own units; or UsageError."""
    both = as_draws(scratch, continual)
    for source in both:
        require_inputs(source, "N", "D")
    return both, law_inputs_of_each(both, inputs, ("N", "D"))


def base_notes(scratch: Any, continual: Any) -> list[Note]:
    """What draws of two laws that are compared do not know of each other.

    Two bootstraps of which one holds what the other was free to fit, and not as
    that has it.
    """
    if not (has_draws(scratch) and has_draws(continual)):
        return []
    scratch, continual = scratch.draws(), continual.draws()
    fit = continual.fit
    unpaired = [
        name
        for name in fit.law.from_base
        if name in (fit.fixed or {})
        and not _same_draws(continual.params[name], scratch.params.get(name))
    ]
    if not unpaired:
        return []
    message = (
        f"the draws of the continual fit do not hold {', '.join(unpaired)} of those from scratch: "
        "intervals of sizes, tokens and savings come out too wide; right ones are of "
        "jl.bootstrap(…, base=…) of the continual runs, with the bootstrap from scratch as base"
    )
    return [Note("base-held", "warning", message)]


def _same_draws(continued: Any, theirs: Any) -> bool:
    """Whether every resample that has an answer has the other's value."""
    continued, theirs = np.asarray(continued, float), np.asarray(theirs, float)
    return continued.shape == theirs.shape and bool(
        np.all(np.isnan(continued) | np.isclose(continued, theirs, rtol=SAME, atol=0.0))
    )


def _tokens_to(
    source: Draws, log_N: float, loss: np.ndarray, others: Mapping[str, float]
) -> tuple[np.ndarray, float]:
    """(draws,) log tokens at which a law comes down to (draws,) losses; ∞ where it does not.

    And the loss to which the fit itself comes down.
    """
    held = {**others, "N": math.exp(log_N) / source.scale("N") * source.units["N"]}
    limits = map(math.log, SEARCH_LIMITS["D"])
    log_D, _, _, lowest = crossing(source, "D", True, loss, *limits, held)
    return log_D, float(lowest[0])


def _against_scratch(
    both: tuple[Draws, ...],
    others: Mapping[str, float],
    cost: Cost | None,
    log_N: float,
    log_D: np.ndarray,
    loss: np.ndarray,
) -> tuple[dict[str, np.ndarray], float]:
    """Values (draws,) of a :class:`Transfer`, and the loss to which scratch comes down.

    The other inputs are those from scratch.
    """
    scratch, continued = both
    scratch_log_D, lowest = _tokens_to(scratch, log_N, loss, others)
    cost = total_cost(cost, continued)
    needed, spent = (flops(cost, log_N, at) for at in (scratch_log_D, log_D))
    values = {
        "N": np.full(len(log_D), math.exp(log_N) / continued.scale("N")),
        "D": np.exp(log_D) / continued.scale("D"),
        "loss": loss,
        "scratch_D": np.exp(scratch_log_D) / continued.scale("D"),
    }
    with np.errstate(invalid="ignore"):
        transferred = values["scratch_D"] - values["D"]
        saved = np.where(np.isinf(scratch_log_D), 1.0, 1 - spent / needed)
    for name, column in (("transferred", transferred), ("saved", saved)):
        values[name] = np.where(np.isfinite(log_D), column, np.nan)
    return values, lowest


def _transfer_notes(values: dict[str, np.ndarray], lowest: float) -> list[Note]:
    if np.isinf(values["D"][0]):
        message = f"the continual runs do not reach a loss of {values['loss'][0]:.5g}"
        return [Note("no-finite-answer", "error", message)]
    notes = []
    if np.isinf(values["scratch_D"][0]):
        message = (
            f"from scratch no number of tokens reaches a loss of {values['loss'][0]:.5g} at this "
            f"size: it ends at {lowest:.5g}"
        )
        notes.append(Note("no-finite-answer", "error", message))
    elif values["transferred"][0] < 0:
        message = "scratch reaches this loss with fewer tokens: the base costs more than it gives"
        notes.append(Note("negative-transfer", "warning", message))
    share = np.isinf(values["scratch_D"][1:]).mean() if len(values["D"]) > 1 else 0.0
    if share and np.isfinite(values["scratch_D"][0]):
        message = f"in {share:.1%} of the draws scratch never reaches this loss"
        notes.append(Note("draws-out-of-reach", "warning", message))
    return notes


@for_each_draw("laws")
def _at_equal_loss(laws: tuple[Law, Law], params: Any, log_C: Any) -> Any:
    """(draws, K) losses of the first law at log compute (K,), and where the second has them."""

    def at(log_C: Any) -> Any:
        loss = laws[0](params[0], C=jnp.exp(log_C))
        return loss, root_or_infinity(
            lambda other: loss - laws[1](params[1], C=jnp.exp(other)), *LOG_COMPUTES
        )

    return jax.vmap(at)(log_C)


def _savings_notes(saved: np.ndarray) -> list[Note]:
    if np.isneginf(saved).any():
        message = "by its law no compute brings the continual runs to some of these losses"
        return [Note("no-finite-answer", "warning", message)]
    if (saved < -SAME).any():
        message = "scratch reaches some of these losses with less compute than the base does"
        return [Note("negative-transfer", "warning", message)]
    return []


def _fitted_range(continued: Draws, along: str) -> tuple[float, float]:
    """Logarithms between which runs were fitted; everything where that is not known."""
    N, D = (np.array(continued.ranges.get(k, (0, np.inf))) * continued.scale(k) for k in ("N", "D"))
    with np.errstate(all="ignore"):
        low, high = np.log({"N": N, "D": D, "compute": 6 * N * D}[along])
    return (low, high) if np.isfinite([low, high]).all() else (-math.inf, math.inf)


@for_each_draw("laws", "along")
def _crossings(
    laws: tuple[Law, Law], cost: Cost | None, along: str, params: Any, fixed: Any, limits: Any,
    fitted: Any, others: Any,
) -> Any:  # fmt: skip
    """Log N, log D and loss of the crossing nearest to the fitted range, its side, and how many.

    Side 0: continual is lower throughout; 1: below the crossing; 2: above it; 3: nowhere.
    """

    def run(k: int, x: Any) -> Any:
        law = laws[k]
        if along == "compute":
            return best_size(law, params[k], x, others[k], cost)
        at = (fixed, x) if along == "D" else (x, log_tokens(cost, x, fixed))
        return *at, loss_at(law, params[k], *at, others[k])

    def behind(x: Any) -> Any:
        """How far continual is above scratch, beyond rounding."""
        continued = run(1, x)[2]
        gap = continued - run(0, x)[2]
        return jnp.where(jnp.abs(gap) <= TIE * jnp.abs(continued), 0.0, gap)

    grid = jnp.linspace(*limits, GRID)
    gaps = jax.vmap(behind)(grid)
    stops = (gaps[:-1] < 0) & (gaps[1:] > 0)
    begins = (gaps[:-1] > 0) & (gaps[1:] < 0)
    # Two laws fitted apart cross once more where one of their terms is all that counts: at
    # sizes of a few thousand parameters, say. That is no answer to anybody.
    middle = (grid[:-1] + grid[1:]) / 2
    distance = jnp.maximum(jnp.maximum(fitted[0] - middle, middle - fitted[1]), 0.0)
    # Of equally near ones, where continual stops being lower.
    distance = jnp.where(stops, distance, jnp.where(begins, distance + 1e-6, jnp.inf))
    cell = jnp.argmin(distance)
    sign = jnp.where(stops[cell], 1.0, -1.0)
    x = root(lambda x: sign * behind(x), grid[cell], grid[cell + 1])
    none = jnp.where((gaps < 0).any(), 0, 3)
    side = jnp.where(stops[cell], 1, jnp.where(begins[cell], 2, none))
    return *run(1, x), side, (stops | begins).sum()


# In the order of the sides of _crossings.
_PAYS = {"always": "always", "below": "below this {}", "above": "above this {}", "never": "never"}


def _side_notes(pays: str, side: np.ndarray, along: str) -> list[Note]:
    notes = []
    if pays in ("always", "never"):
        message = f"continual training is {pays} the better one, over all that was searched"
        notes.append(Note(f"{pays}-pays", "info", message))
    elsewhere = (side[1:] != side[0]).mean() if len(side) > 1 else 0.0
    if elsewhere:
        words = [text.format(along) for text in _PAYS.values()]
        seen = ", ".join(f"{words[k]}: {np.mean(side[1:] == k):.1%}" for k in np.unique(side[1:]))
        severity = "warning" if elsewhere > MISSING else "info"
        message = f"of the draws, continual training pays {seen}"
        notes.append(Note("draws-disagree", severity, message))
    return notes


class ComputeMultiplier(AnswerTable):
    """What a recipe is worth, a row for each budget.

    ``table`` has ``compute``, ``loss`` and ``multiplier``.
    """

    picture = "compute_multiplier"

    def sentence(self) -> str:
        """What the recipe is worth at the least and the largest budget."""
        return self.over_budgets("{compute}: the recipe is worth {multiplier} × the compute")


@checked
def compute_multiplier(
    fit: Any,
    compute: Sequence[float],
    *,
    reference: Mapping[str, float | str],
    cost: Cost | None = None,
    served_tokens: Amount | None = None,
    max_epochs: float | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> ComputeMultiplier:
    """How much compute a recipe is worth against a reference, at equal loss.

    Each of the two is trained at its own best size, on its own best number of tokens. A multiplier
    of 2 says that the recipe reaches the reference's loss with half of the reference's compute.

    Args:
        fit: fit of a law of N and D with another input, such as the ``group`` of
            :func:`jaxlaw.laws.grouped`: a Fit, (law, params), or a bootstrap, whose draws of
            both recipes belong together.
        compute: (K,) budgets of the reference, in FLOPs.
        reference: inputs of the reference, such as ``{"group": "c4"}``.
        cost: function ``f(N, D)`` in FLOPs, as for :func:`jaxlaw.planning.allocation`.
        served_tokens: number of tokens that either model will serve: a part of both budgets.
        max_epochs: largest D/U of either recipe, as for :func:`jaxlaw.planning.allocation`.
        at: inputs of the recipe that is compared with it, such as ``{"group": "pile"}``.
        level: confidence level of the intervals.

    Returns:
        :class:`ComputeMultiplier` of K rows: ``compute``, the reference's ``loss`` there and the
        ``multiplier``; with draws ``…_low`` and ``…_high`` of the last two. It is 0 where the
        recipe never reaches that loss. The note ``order-turns`` says where the multiplier passes 1
        among the budgets, and ``order-unclear`` that its interval holds 1.

    Raises:
        UsageError: the law lacks N or D, or an input is missing or unknown.

    Example:
        >>> law = jl.laws.grouped("chinchilla", ["c4", "pile"], own=["B"])
        >>> params = jl.simulate.TRUTHS["chinchilla"] | {"B[c4]": 410.7, "B[pile]": 300.0}
        >>> params = {name: params[name] for name in law.parameter_names}
        >>> plan = jl.planning.compute_multiplier(
        ...     (law, params), [1e21], reference={"group": "c4"}, at={"group": "pile"}
        ... )
        >>> plan.table["multiplier"].round(2).tolist()
        [3.07]

    Shell:
        jaxlaw plan compute-multiplier groups.json --compute 1e19,1e21
            --reference group=c4 --at group=pile
    """
    budgets = budgets_of(compute)
    counted = {"cost": cost, "served_tokens": served_tokens, "max_epochs": max_epochs}
    first = size_and_data(fit, budgets[0], at=reference, **counted)
    source, best = first.reference, first.best(budgets)
    runs = first.values(best)
    second = size_and_data(fit, loss=1.0, at=at, **counted)
    needed = second.best(targets=best.losses[..., 0])
    own = second.values(needed._replace(ended=needed.ended & False))
    loss, multiplier = runs["loss"], np.where(needed.kept, budgets / own["compute"], 0.0)
    multiplier = np.where(np.isnan(loss), np.nan, multiplier)
    table = {"compute": budgets, "loss": loss[0], "multiplier": multiplier[0]}
    for name, values in (("loss", loss), ("multiplier", multiplier)):
        table |= interval_columns(name, values, level, source.degrees)
    frame = pd.DataFrame(table)
    notes = [*_order_notes(frame), *runs_beyond(source, runs, reference), *source_notes(source)]
    for question, values in ((first, runs), (second, own)):
        others, tokens = question.given.others[0], values["D"][0]
        notes += epochs_notes(source, others, tokens, question.epochs)
    largest = {name: runs[name][0][budgets.argmax()] for name in ("N", "D")}
    context = context_of(ComputeMultiplier, source, {**reference, **largest})
    return ComputeMultiplier(frame, level, tuple(dict.fromkeys(notes)), **context)


def _order_notes(table: pd.DataFrame) -> list[Note]:
    """Where the better of the two changes among the budgets, and where the interval holds both."""
    notes, better = [], table["multiplier"].to_numpy() > 1
    for k in np.flatnonzero(better[1:] != better[:-1]):
        before, after = table["compute"].iloc[[k, k + 1]]
        message = (
            f"the better recipe changes between {before:.3g} and {after:.3g} FLOPs: which one to "
            "take depends on the budget"
        )
        notes.append(Note("order-turns", "warning", message))
    if "multiplier_low" in table:
        unclear = (table["multiplier_low"] < 1) & (table["multiplier_high"] > 1)
        if unclear.any():
            message = (
                f"at {int(unclear.sum())} of {len(table)} budgets the interval of the multiplier "
                "holds 1: these runs do not say which recipe is better there"
            )
            notes.append(Note("order-unclear", "warning", message))
    return notes
