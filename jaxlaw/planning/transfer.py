"""From scratch against continual: data transferred, compute saved, where a base no longer helps.

Zheng 2024, §4.2, §4.3 and figure 2; "effective data transferred" is Hernandez 2021's. The base's
own training is not counted, as there.

The paper sees 25 to 50% of the compute saved throughout. Its two fits of the loss envelopes (§4.2)
say so: 48 to 43% at equal loss from 1e17 to 1e23 FLOPs. The coefficients of its table 2 do not:
at 20 tokens a parameter, as its models were trained, they put the continual runs behind. Exponents
are printed to two digits, and half a unit of the last one moves what is saved by 1 B parameters on
20 B tokens between −500% and 36%.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlaw._answer import Answer
from jaxlaw._quantities import Amount
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.errors import UsageError
from jaxlaw.laws import Law
from jaxlaw.notes import Note
from jaxlaw.planning._constraints import Cost, Inputs
from jaxlaw.planning._frame import (
    MISSING,
    checked_input,
    draws_taking,
    fewest_degrees,
    law_inputs_of_each,
    losses_of,
    missing_draws_notes,
    of_fit,
    over_rows,
    plan_answer,
    source_notes,
    table_of,
)
from jaxlaw.planning._optimise import (
    SEARCH_LIMITS,
    best_size,
    crossing,
    epochs_notes,
    flops,
    for_each_draw,
    loss_at,
    losses_at,
    root,
    total_cost,
)
from jaxlaw.planning.size_and_data import budgets_of, size_and_data
from jaxlaw.uncertainty import LEVEL, Draws

GRID = 129  # points at which two losses are compared, before the root between two of them
BUDGETS = (1e10, 1e36)  # FLOPs among which the frontiers are compared
LOG_COMPUTES = (0.0, math.log(1e60))  # in which two laws of compute are compared
TIE = 1e-13  # relative difference of losses that rounding may make


@checked
def data_transferred(
    scratch: Any,
    continual: Any,
    *,
    N: Amount | Sequence[Amount],
    D: Amount | Sequence[Amount],
    cost: Cost | None = None,
    at: Inputs = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """Effective data transferred and compute saved of continual runs (Zheng 2024, figure 2).

    Args:
        scratch: fit of the loss over N and D, from scratch: a Fit, (law, params), or a bootstrap.
        continual: fit of the loss over N and D, from a base.
        N: size, in the units of the continual fit's runs.
        D: tokens of the continual run, in those units. Several, or several sizes, are a table.
            Those of a loss are found by :func:`jaxlaw.planning.solve`.
        cost: function ``f(N, D)`` in FLOPs, as for :func:`jaxlaw.planning.allocation`.
        at: values of the laws' other inputs: each law takes those that it has.
        level: confidence level of the intervals.

    Returns:
        Answer with ``N`` and ``D`` of the continual run, the ``loss`` of both, ``scratch_D``, the
        tokens from scratch to that loss, ``transferred`` = scratch_D − D, and ``saved``,
        (C_scratch − C_continual) / C_scratch. Where scratch never reaches the loss at this size,
        ``scratch_D`` and ``transferred`` are infinite, ``saved`` is 1, and the note
        ``out-of-reach`` says where it ends. Of several runs a ``table`` with a row for each pair of
        N and D: all these, with draws ``…_low`` and ``…_high`` of the last two.

    Raises:
        UsageError: an input of a law that is missing.

    Example:
        >>> fits = [jl.published()[f"zheng-2024-{base}"] for base in ("scratch", "cpt")]
        >>> plan = jl.planning.data_transferred(*fits, N=1e9, D=1e9)
        >>> print(f"{plan.transferred:.3g} tokens, {plan.saved:.0%} of the compute")
        3.62e+08 tokens, 27% of the compute
        >>> plan = jl.planning.data_transferred(*fits, N=1e9, D=[1e9, 1e10])
        >>> plan.table["saved"].round(2).tolist()
        [0.27, -0.58]

    Shell:
        jaxlaw plan data-transferred scratch.json continual.json --N 1.4e9 --D 1e10
    """
    both = draws_taking((scratch, continual), "N", "D")
    others, ours = law_inputs_of_each(both, at, ("N", "D")), both[1]
    cost, degrees = total_cost(cost, ours), fewest_degrees(both)

    def worth(size, tokens):
        """Name → (1 + R,) numbers of a run; the loss at which scratch ends at this size."""
        log_N, log_D = (
            np.full(ours.rows, math.log(x * ours.scale(name)))
            for name, x in (("N", size), ("D", tokens))
        )
        loss = losses_at(ours, log_N, log_D, others[1])
        at_size = {"N": size * ours.scale("N") / both[0].scale("N") * both[0].units["N"]}
        limits = map(math.log, SEARCH_LIMITS["D"])
        needed, *_, lowest = crossing(both[0], "D", True, loss, *limits, others[0] | at_size)
        D, scratch_D = np.full(ours.rows, tokens), np.exp(needed) / ours.scale("D")
        return {
            "N": np.full(ours.rows, size), "D": D, "loss": loss, "scratch_D": scratch_D,
            "transferred": scratch_D - D,
            "saved": 1 - flops(cost, log_N, log_D) / flops(cost, log_N, needed),
        }, lowest[0]  # fmt: skip

    def table(tokens):
        every = [worth(*run)[0] for run in itertools.product(sizes, tokens)]
        columns = {name: np.stack([one[name] for one in every], axis=1) for name in every[0]}
        columns |= {name: columns[name][0] for name in ("N", "D", "loss", "scratch_D")}
        return {"table": table_of(columns, level, degrees)}

    sizes, tokens = (
        [checked_input(ours, name, one) for one in np.atleast_1d(given)]
        for name, given in (("N", N), ("D", D))
    )
    if np.ndim(N) or np.ndim(D):
        return plan_answer("transfer table", "", ours, level=level, tables=table(tokens))
    (size,), (values, lowest) = sizes, worth(sizes[0], tokens[0])
    first, notes = of_fit(values), []
    sentence = (
        "{N} and {D} from a base: worth {transferred} more from scratch, {saved} of the compute"
    )
    if math.isinf(first["scratch_D"]):
        message = (
            f"from scratch no number of tokens reaches a loss of {first['loss']:.5g} at this "
            f"size: it ends at {lowest:.5g}"
        )
        notes.append(Note("out-of-reach", "error", message))
    else:
        notes += missing_draws_notes(values["scratch_D"], "number of tokens from scratch")
        if first["transferred"] < 0:
            sentence = (
                "{N} and {D} from a base: scratch is at its loss, {loss}, sooner, by {scratch_D}"
            )
    raw = {name: first[name] * ours.scale(name) for name in ("N", "D")}
    notes += _notes_of_both(both, raw | {"D": first["scratch_D"] * ours.scale("D")}, raw)
    around = tokens[0] * np.geomspace(0.01, 10, 41)
    return plan_answer(
        "data transferred", sentence, ours, values, level=level, degrees=degrees, notes=notes,
        at={**(at or {}), "N": size, "D": tokens[0]}, given=("N", "D"),
        # What the base saves at this size, over the tokens around its own.
        curves=lambda: table(around),
    )  # fmt: skip


@checked
def frontier_savings(
    scratch: Any, continual: Any, compute: Sequence[float], *, level: ConfidenceLevel = LEVEL
) -> Answer:
    """Compute saved at equal loss, by two laws of the loss envelope (Zheng 2024, §4.2).

    Args:
        scratch: law of the compute C alone, from scratch, such as ``loss-compute-e`` fitted to
            what :func:`jaxlaw.papers.loss_envelope` returned: a Fit, (law, params), or a
            bootstrap.
        continual: law of the compute C alone, from a base.
        compute: budgets in FLOPs that are spent from scratch.
        level: confidence level of the intervals.

    Returns:
        Answer whose ``table`` has a row a budget: ``compute`` and ``loss`` from scratch,
        ``continual_compute`` to that loss, and ``saved``, the fraction
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
    both = draws_taking((scratch, continual))
    for source in both:
        if source.law.input_names != ("C",):
            raise UsageError(
                f"law {source.law.name} takes {', '.join(source.law.input_names)}; savings between "
                "frontiers need laws of the compute C alone, such as loss-compute; for laws of N "
                "and D use data_transferred or break_even"
            )
    budgets = budgets_of(compute)
    loss = losses_of(both[0], C=budgets[None])
    ours = [crossing(both[1], "C", True, each, *LOG_COMPUTES, {})[0] for each in loss.T]
    needed = np.exp(np.stack(ours, axis=1))
    columns = {"compute": budgets, "loss": loss, "continual_compute": needed}
    table = table_of(columns | {"saved": 1 - needed / budgets}, level, fewest_degrees(both))
    notes, spent = [], needed[0]
    if np.isinf(spent).any():
        message = "by its law no compute brings the continual runs to some of these losses"
        notes.append(Note("out-of-reach", "warning", message))
    for end in (np.min, np.max):
        notes += _notes_of_both(both, {"C": end(budgets)}, {"C": end(spent)})
    said = "{compute} from scratch, loss {loss}: {saved} saved from a base"
    said = re.sub(r"-(\S+) saved from", r"\1 more from", over_rows(table, said, both[1]))
    return plan_answer(
        "frontier savings", said, both[1], level=level,
        at={"C": spent.max() / both[1].scale("C")}, tables={"table": table},
        notes=notes,
    )  # fmt: skip


@checked
def break_even(
    scratch: Any,
    continual: Any,
    *,
    N: Amount | None = None,
    cost: Cost | None = None,
    at: Inputs = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
    """The size, tokens or budget beyond which a base saves nothing (Zheng 2024, §4.2 and §4.3).

    Args:
        scratch: fit of the loss over N and D, from scratch: a Fit, (law, params), or a bootstrap.
        continual: fit of the loss over N and D, from a base.
        N: size at which the two are compared, over the tokens.
            Without a size they are compared over the budget, each at its own best size.
        cost: function ``f(N, D)`` in FLOPs, as for :func:`jaxlaw.planning.allocation`.
        at: values of the laws' other inputs: each law takes those that it has.
        level: confidence level of the intervals.

    Returns:
        Answer with ``N`` and ``D`` there, in the units of the continual fit's runs (of the best
        continual run, where budgets are compared), ``compute`` in FLOPs, infinite for ``always``
        and ``never``, the ``loss`` of both, and the facts ``pays``, where continual training has
        the lower loss: ``below`` or ``above`` this point, ``always`` or ``never``, and ``along``,
        over what they were compared: ``D`` or ``compute``. Intervals are of the draws that
        break even on the same side. Where the two cross more than once, it is the crossing nearest
        the fitted range of the continual runs, and there is the note ``several-solutions``; within
        it, or where no range is known, the first from which continual training saves nothing.

    Raises:
        UsageError: an input of a law that is missing.

    Example:
        >>> fits = [jl.published()[f"zheng-2024-{base}"] for base in ("scratch", "cpt")]
        >>> plan = jl.planning.break_even(*fits, N=1e9)
        >>> print(f"pays {plan.pays} {plan.D:.2g} tokens")
        pays below 2.5e+09 tokens

    Shell:
        jaxlaw plan break-even scratch.json continual.json --N 1.4e9
    """
    both = draws_taking((scratch, continual), "N", "D")
    others, ours = law_inputs_of_each(both, at, ("N", "D")), both[1]
    scale, cost = {name: ours.scale(name) for name in ("N", "D")}, total_cost(cost, ours)
    # The two losses are compared along one line: over D at a size, or over budgets, each law at its
    # own best size.
    along, log_N, limits = "compute", 0.0, BUDGETS
    if N is not None:
        along, limits = "D", SEARCH_LIMITS["D"]
        log_N = math.log(checked_input(ours, "N", N) * scale["N"])
    with np.errstate(divide="ignore"):
        seen = {n: np.log(np.multiply(ours.ranges.get(n, math.nan), scale[n])) for n in scale}
    fitted = (seen | {"compute": math.log(6) + seen["N"] + seen["D"]})[along]
    if not np.isfinite(fitted).all():  # it is unknown
        fitted = (-math.inf, math.inf)
    log_N, log_D, loss, side, count = _crossings(
        tuple(source.law for source in both), cost, along, tuple(source.values for source in both),
        log_N, tuple(map(math.log, limits)), tuple(fitted), others,
    )  # fmt: skip
    # A draw counts where it pays on the same side as the fit: others cross elsewhere, or nowhere,
    # and an interval over both sides would mean nothing.
    same, crosses = side == side[0], np.isin(side, (1, 2))
    values = {"N": np.exp(log_N) / scale["N"], "D": np.exp(log_D) / scale["D"],
              "compute": flops(cost, log_N, log_D), "loss": loss}  # fmt: skip
    values = {name: np.where(crosses & same, column, np.nan) for name, column in values.items()}
    if not crosses[0]:
        values["compute"] = np.where(same, np.inf, np.nan)
    run = {name: float(values[name][0]) for name in scale}
    notes, pays = [], _PAYS[int(side[0])]
    if not same.all():
        shares = (f"{_PAYS[k]}: {np.mean(side[1:] == k):.1%}" for k in np.unique(side[1:]))
        severity = "warning" if np.mean(~same[1:]) > MISSING else "info"
        message = f"of the draws, continual training pays {', '.join(shares)} of that {along}"
        notes.append(Note("draws-disagree", severity, message))
    if count[0] >= 2:
        message = (
            f"the two cross {count[0]} times over all that was searched: this is the crossing "
            "nearest the fitted runs"
        )
        notes.append(Note("several-solutions", "warning", message))
    notes += _notes_of_both(both, *[{name: run[name] * scale[name] for name in run}] * 2)
    sentence = f"continual training {pays} pays, over all that was searched"
    if crosses[0]:
        rest = ", ".join(f"{{{name}}}" for name in ("N", "D", "compute") if name != along)
        sentence = f"continual training pays {pays} {{{along}}} ({rest}, loss {{loss}})"
    given = ["N"] * (N is not None) + ["compute"] * (not crosses[0])
    return plan_answer(
        "break even", sentence, ours, values, level=level, degrees=fewest_degrees(both),
        at={**(at or {}), **run}, given=given, notes=notes, facts={"pays": pays, "along": along},
    )  # fmt: skip


@checked
def compute_multiplier(
    fit: Any,
    compute: Sequence[float],
    *,
    reference: Mapping[str, float | str],
    cost: Cost | None = None,
    served_tokens: Amount | None = None,
    max_epochs: float | None = None,
    at: Inputs = None,
    level: ConfidenceLevel = LEVEL,
) -> Answer:
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
        Answer whose ``table`` has a row a budget: ``compute``, the reference's ``loss`` there and
        the ``multiplier``; with draws ``…_low`` and ``…_high`` of the last two. It is 0 where the
        recipe never reaches that loss. The note ``several-solutions`` says where the multiplier
        passes 1 among the budgets.

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
    multiplier = np.where(needed.kept, budgets / own["compute"], 0.0)
    multiplier = np.where(np.isnan(runs["loss"]), np.nan, multiplier)
    columns = {"compute": budgets, "loss": runs["loss"], "multiplier": multiplier}
    table, notes, better = table_of(columns, level, source.degrees), [], multiplier[0] > 1
    for k in np.flatnonzero(better[1:] != better[:-1]):
        message = (
            f"the better recipe changes between {budgets[k]:.3g} and {budgets[k + 1]:.3g} FLOPs: "
            "which one to take depends on the budget"
        )
        notes.append(Note("several-solutions", "warning", message))
    notes += source_notes(source, **{**reference, "N": runs["N"][0], "D": runs["D"][0]})
    for question, values in ((first, runs), (second, own)):
        others, tokens = question.given.others[0], values["D"][0]
        notes += epochs_notes(source, others, tokens, question.epochs)
    largest = {name: runs[name][0][budgets.argmax()] for name in ("N", "D")}
    said = "{compute}: the recipe is worth {multiplier} × the compute"
    return plan_answer(
        "compute multiplier", over_rows(table, said, source), source, level=level,
        at={**reference, **largest}, tables={"table": table}, notes=notes,
    )  # fmt: skip


def _notes_of_both(both: Sequence[Draws], *runs: Mapping[str, float]) -> list[Note]:
    """Notes of each law at a run of its own, in raw counts."""
    return [
        note
        for source, what, run in zip(both, ("from-scratch", "continual"), runs, strict=True)
        for note in source_notes(source, what, **{n: x / source.scale(n) for n, x in run.items()})
    ]


@for_each_draw("laws", "along")
def _crossings(
    laws: tuple[Law, Law], cost: Cost | None, along: str, params, log_N, limits, fitted, others
):
    """Log N, log D and loss of the crossing nearest to the fitted range, its side, and how many.

    Side 0: continual is lower throughout; 1: below the crossing; 2: above it; 3: nowhere.
    """

    def run(k, x):
        if along == "compute":
            return best_size(laws[k], params[k], x, others[k], cost)
        return log_N, x, loss_at(laws[k], params[k], log_N, x, others[k])

    def behind(x):
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
    distance = jnp.abs(middle - jnp.clip(middle, *fitted))
    # Of equally near ones, where continual stops being lower.
    distance = jnp.where(stops, distance, jnp.where(begins, distance + 1e-6, jnp.inf))
    cell = jnp.argmin(distance)
    sign = jnp.where(stops[cell], 1.0, -1.0)
    x = root(lambda x: sign * behind(x), grid[cell], grid[cell + 1])
    none = jnp.where((gaps < 0).any(), 0, 3)
    side = jnp.where(stops[cell], 1, jnp.where(begins[cell], 2, none))
    return *run(1, x), side, (stops | begins).sum()


_PAYS = ("always", "below", "above", "never")  # by the sides of _crossings
