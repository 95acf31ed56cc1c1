"""The next runs that most reduce the variance of a prediction: c- and D-optimal design.

With M = JᵀWJ of the runs there are (:mod:`jaxlaw.design._information`), a prediction of gradient g
has the variance τ²·gᵀM⁻¹g, and a candidate with row j adds j·jᵀ to M. Which candidates are best
does not depend on τ; it is such that the variance before any new run is the sandwich
covariance's, and new runs are taken to be as noisy as those the prediction rests on now. Atkinson,
Donev and Tobias 2007, Optimum Experimental Designs, ch. 10 and 12.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from jaxlaw._arrays import real_numbers
from jaxlaw._jit import in_float64
from jaxlaw._quantities import SHARE
from jaxlaw._result import Result
from jaxlaw._rounding import first_largest, first_least
from jaxlaw._typed import ResampleCount, checked
from jaxlaw.design._information import Information, information_of, own_units
from jaxlaw.errors import UsageError, listed
from jaxlaw.fitting import FittedLaw
from jaxlaw.notes import Note
from jaxlaw.uncertainty import has_draws

_ALIKE = 1e-9  # share of a variance by which candidates that count as equal may differ


@dataclass(frozen=True, eq=False, repr=False)
class NextRuns(Result):
    """Which candidates to run.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> more = {"N": [1e10, 3e10], "D": [1e11, 1e11]}
        >>> fit = jl.fit("chinchilla", table)
        >>> chosen = jl.design.next_runs(fit, table, more, predict={"N": 7e10, "D": 1e12}, n=1)
        >>> bool(chosen.after < chosen.before)
        True

    Attributes:
        table: their rows, best first, with ``sd``: the standard deviation of the prediction
            once they and those above are there (relative where the fit is of logarithms; root
            mean square over several predictions). Without a prediction (criterion D) that of
            the parameters' joint ellipsoid, relative to now.
        before, after: standard deviation without any of them, and with all; ``before`` is the
            standard error that :func:`jaxlaw.covariance` gives the prediction, over the
            prediction where the fit is of logarithms.
        noise: τ, to which the standard deviations are proportional.
        criterion: ``c`` or ``D``.
        notes: findings to know before relying on it.
        units: number, or column → (unit, what one is worth in single things).
    """

    table: pd.DataFrame
    before: float = field(metadata={"unit": ""})
    after: float = field(metadata={"unit": ""})
    noise: float = field(metadata={"unit": ""})
    criterion: str
    notes: tuple[Note, ...] = ()
    units: dict[str, tuple[str, float]] = field(default_factory=dict)

    picture = "runs_to_make"

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of a number or of a column."""
        return self.units.get(name)

    @property
    def headline(self) -> str:
        """What the runs are worth."""
        what = "the prediction" if self.criterion == "c" else "all parameters, relative to now,"
        count = f"{len(self.table)} run" + "s" * (len(self.table) != 1)
        return (
            f"{count}: the standard deviation of {what} falls from {self.written('before')} to "
            f"{self.written('after')}"
        )

    def lines(self) -> list[str]:
        """The choice as a table."""
        return self.readable(self.table).to_string().split("\n")


@checked
def next_runs(
    fit: Any,
    runs: Any,
    candidates: Any,
    *,
    predict: Mapping[str, Any] | Callable[..., Any] | None = None,
    n: ResampleCount | None = None,
    criterion: Literal["c", "D"] = "c",
    cost: Any = None,
    budget: float | None = None,
    group: Hashable | None = None,
    groups: Any = None,
) -> NextRuns:
    """Choose the runs that most reduce the variance of a prediction.

    Greedy, by gain per cost, then exchanges of one for another until none helps: not always
    the very best set, seldom far from it. Each candidate is taken once at most; list it twice
    to allow a repeat.

    Args:
        fit: fit of the runs there are, of one law. A forecast is refused: the most informative
            next run for it is the largest you can afford.
        runs: those runs, as they were fitted.
        candidates: DataFrame or dict of (m,) inputs, in units of the fitted runs.
        predict: points of the predictions that matter: inputs by name, in units of the fitted
            runs, numbers or arrays; or a function of the parameters (a dict, in the law's own
            units) in JAX, such as an optimum. Criterion c needs it.
        n: number of runs to choose.
        criterion: quantity to minimise: ``c``, the (mean) variance of the prediction; ``D``, the
            volume of the parameters' confidence ellipsoid.
        cost: column of the candidates, or (m,) positive numbers; 1 each unless given.
        budget: largest total cost.
        group: column that names the run of which a row is an evaluation: the rows of a run come
            together, and cost what the most expensive of them does.
        groups: rows of ``runs`` that share noise, as for :func:`jaxlaw.covariance`; standard
            deviations are then those of ``groups`` there.

    Returns:
        The :class:`NextRuns`.

    Raises:
        UsageError: the call is invalid, or the first argument is no fit.
        DataError: inputs outside their domain, or the law has no derivatives somewhere.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table.query("N * D < 1e19")
        >>> small = jl.fit("chinchilla", table)
        >>> more = pd.DataFrame({"N": [1e9, 3e9, 1e10], "D": [3e10, 1e11, 1e11]})
        >>> far = {"N": 7e10, "D": 1.4e12}
        >>> jl.design.next_runs(small, table, more, predict=far, n=1).table[["N", "D"]].values
        array([[1.e+10, 1.e+11]])
    """
    if not isinstance(fit, FittedLaw):
        raise _refuse_no_fit(fit)
    _check(criterion, predict, n, budget)
    frame = _frame(candidates)
    names, number, price = _group_candidates(frame, group, cost)
    # With M = JᵀWJ of the runs, c is gᵀM⁻¹g and D is −log det M; a candidate adds its j·jᵀ, the
    # rows of one run together. Neither depends on τ, so the noise is needed for the answer only.
    with in_float64():
        here = information_of(fit, runs, groups)
        rows = here.slopes(own_units(fit, frame))
        infos = np.zeros((len(names), rows.shape[1], rows.shape[1]))
        np.add.at(infos, number, rows[:, :, None] * rows[:, None, :])
        directions = None if predict is None else here.gradients_of(fit, predict)
    value = partial(_value, directions if criterion == "c" else None)
    chosen = _choose_runs(here.matrix, infos, price, value, n, budget)
    order = _best_first(here.matrix, infos, chosen, value)
    sd = _standard_deviations(here, infos, order, directions)
    parts = [frame[number == k].assign(sd=s) for k, s in zip(order, sd[1:], strict=True)]
    table = pd.concat(parts) if parts else frame.iloc[:0].assign(sd=[])
    noise = here.noise(directions)
    relative = criterion == "D" or fit.law.residuals == "log"
    of_sd = (SHARE if relative else fit.target_unit, 1.0)
    units = fit.input_units() | dict.fromkeys(("before", "after", "sd"), of_sd)
    return NextRuns(table, sd[0], sd[-1], noise, criterion, tuple(here.notes), units)


def _refuse_no_fit(given: Any) -> UsageError:
    """What to do instead with what is no fit of one law."""
    message = f"fit is a {type(given).__name__}; it must be a FittedLaw, the fit of one law"
    if has_draws(given):
        # Candidates by the variance expected to be left of a forecast were the largest run in 22 of
        # 24 simulated trials: there is nothing to search for.
        message = (
            "next_runs chooses for the fit of one law; the most informative next run of a forecast "
            "is the largest you can afford, at the tokens per parameter of the run you forecast"
        )
    return UsageError(message, argument="fit", value=given)


def _check(criterion: str, predict: Any, n: int | None, budget: float | None) -> None:
    if criterion not in ("c", "D"):
        raise UsageError(
            f"criterion is 'c' (of a prediction) or 'D' (of all), not {criterion!r}",
            argument="criterion",
            value=criterion,
        )
    if criterion == "c" and predict is None:
        raise UsageError("criterion 'c' needs predict=: inputs of the prediction that matters")
    if n is None and budget is None:
        raise UsageError("say how many runs to choose (n=) or what they may cost (budget=)")
    if n is not None and not (n >= 1 and n == int(n)):
        raise UsageError(f"n is a whole number, 1 or more, not {n}", argument="n", value=n)
    if budget is not None and not budget > 0:
        raise UsageError(f"budget must be positive, not {budget}", argument="budget", value=budget)


def _group_candidates(
    frame: pd.DataFrame, group: Hashable | None, cost: Any
) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """Names of the candidate runs (G,), each row's (m,), and what the runs cost (G,)."""
    for column in (group, cost if isinstance(cost, str) else None):
        if column is not None and column not in frame:
            raise UsageError(f"the candidates have no column {column}; columns: {listed(frame)}")
    number, names = pd.factorize(frame.index if group is None else frame[group])
    each = _costs(frame, cost)
    price = np.zeros(len(names))
    np.maximum.at(price, number, each)
    return list(names), number, price


def _frame(candidates: Any) -> pd.DataFrame:
    """The candidates, a row each."""
    if not isinstance(candidates, pd.DataFrame | Mapping):
        raise UsageError(
            "candidates are a DataFrame or a dict of inputs, a value for each candidate, not "
            f"{type(candidates).__name__}",
            argument="candidates",
            value=candidates,
        )
    try:
        frame = pd.DataFrame(candidates).reset_index(drop=True)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"candidates are no table: {error}", argument="candidates", value=candidates
        ) from None
    if not len(frame):
        raise UsageError("there are no candidates")
    if not frame.columns.is_unique:
        again = frame.columns[frame.columns.duplicated()][0]
        raise UsageError(f"the candidates have column {again} twice; rename one")
    return frame


def _costs(frame: pd.DataFrame, cost: Any) -> np.ndarray:
    """What each candidate (m,) costs."""
    if cost is None:
        return np.ones(len(frame))
    try:
        each = real_numbers(frame[cost] if isinstance(cost, str) else cost)
    except (TypeError, ValueError, OverflowError):
        each = np.zeros(0)
    if each.shape != (len(frame),) or not (np.isfinite(each) & (each > 0)).all():
        raise UsageError(
            f"cost needs {len(frame)} positive numbers, one a candidate",
            argument="cost",
            value=cost,
        )
    return each


def _value(gradients: np.ndarray | None, information: np.ndarray) -> np.ndarray:
    """What is minimised, of (…, q, q): mean variance of the predictions, or −log det."""
    if gradients is None:
        return -np.linalg.slogdet(information)[1]
    right = np.broadcast_to(gradients.T, (*information.shape[:-1], len(gradients)))
    spread = np.linalg.solve(information, right)
    return np.einsum("kq,...qk->...", gradients, spread) / len(gradients)


def _choose_runs(
    information: np.ndarray,
    infos: np.ndarray,
    price: np.ndarray,
    value: Callable[[np.ndarray], np.ndarray],
    n: int | None,
    budget: float | None,
) -> list[int]:
    """Numbers of the candidates chosen: greedy, then exchanges."""
    most = len(infos) if n is None else min(n, len(infos))
    limit = np.inf if budget is None else float(budget)
    chosen: list[int] = []
    while len(chosen) < most:
        spare = limit - price[chosen].sum()
        open_ = _affordable(price, chosen, spare)
        if not len(open_):
            break
        now = information + infos[chosen].sum(axis=0)
        gain = (value(now) - value(now + infos[open_])) / price[open_]
        chosen.append(int(open_[first_largest(gain, _ALIKE)]))
    limit = price[chosen].sum() if budget is None else limit
    return _exchange_runs(information, infos, price, value, chosen, limit)


def _affordable(price: np.ndarray, chosen: list[int], spare: float) -> np.ndarray:
    """Numbers of the candidates that are not chosen and cost no more than is left."""
    left = price <= spare * (1 + 1e-12)
    left[chosen] = False
    return np.flatnonzero(left)


def _exchange_runs(information, infos, price, value, chosen, limit) -> list[int]:
    """Swap one chosen for one that is not, as long as that helps and the costs allow it.

    Greedy choice alone often stops at a set that one exchange betters: the first run it takes
    is the best alone, not the best beside the others (Fedorov's exchange algorithm).
    """
    best = value(information + infos[chosen].sum(axis=0))
    improved = True
    while improved:
        improved = False
        for position in range(len(chosen)):
            rest = chosen[:position] + chosen[position + 1 :]
            spare = limit - price[rest].sum()
            open_ = _affordable(price, chosen, spare)
            if not len(open_):
                continue
            values = value(information + infos[rest].sum(axis=0) + infos[open_])
            k = first_least(values, _ALIKE)
            if values[k] < best - _ALIKE * abs(best):
                chosen = [*rest[:position], int(open_[k]), *rest[position:]]
                best, improved = values[k], True
    return chosen


def _best_first(information, infos, chosen, value) -> list[int]:
    order: list[int] = []
    while len(order) < len(chosen):
        rest = [k for k in chosen if k not in order]
        now = information + infos[order].sum(axis=0)
        order.append(rest[first_least(value(now + infos[rest]), _ALIKE)])
    return order


def _standard_deviations(
    here: Information, infos: np.ndarray, order: list[int], gradients: np.ndarray | None
) -> list[float]:
    """Before any, and after each."""
    path = [here.matrix + infos[order[:k]].sum(axis=0) for k in range(len(order) + 1)]
    if gradients is not None:
        noise = here.noise(gradients)
        return [noise * float(np.sqrt(_value(gradients, each))) for each in path]
    logs = np.array([_value(None, each) for each in path]) / (2 * len(here.free))
    return np.exp(logs - logs[0]).tolist()
