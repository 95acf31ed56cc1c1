"""The back-test: what laws, fitted below a cut-off, would have predicted of the runs beyond it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Unpack

import numpy as np
import pandas as pd

from jaxlaw._arrays import numbers_of
from jaxlaw._quantities import SHARE, times, written
from jaxlaw._result import Result
from jaxlaw._typed import checked
from jaxlaw.errors import UsageError
from jaxlaw.fitting import FitKeywords, lists_options, split_options
from jaxlaw.forecasting._cutoffs import (
    FEW_CUTOFFS,
    N_CUTOFFS,
    Along,
    CutoffFits,
    default_laws,
    determined,
    fit_cutoffs,
    runs_read,
    without_blind_priors,
)
from jaxlaw.notes import Note
from jaxlaw.validation import Candidate, DataSet, candidates_of, data_set
from jaxlaw.validation.folds import in_sample

#: Searches of a back-test, unless the caller says otherwise: a fit's own 4096 starts serve one fit
#: that is to be published, these some fifty that are compared.
SEARCH = {"n_starts": 1024, "n_local": 16}
#: Distances of :meth:`Backtest.by_distance`: upper limits of the ratio to the cut-off.
BANDS = (2.0, 5.0, 20.0)
NAIVE = ("last-run", "best-so-far", "power-law")
_FRAME = {"law": str, "naive": bool, "cutoff": float, "row": Any} | dict.fromkeys(
    ("distance", "observed", "predicted", "error"), float
)
_APART = 1.1  # ratio of the last best-so-far run to the first that a slope needs


@dataclass(frozen=True, eq=False, repr=False)
class Backtest(Result):
    """What laws would have predicted of runs they had not seen, cut-off by cut-off.

    Attributes:
        along: what the cut-offs are of.
        target: name of what is predicted.
        cutoffs: (J,) the largest value fitted.
        frame: one row a law, cut-off and run beyond it: ``law``; ``naive`` (whether it is a rule
            and no law); ``cutoff``; ``row`` (what the run's row is called); ``distance`` (natural
            log of the ratio of its value to the cut-off); ``observed``; ``predicted``; ``error``
            (predicted over observed, less 1). NaN where a fit failed.
        notes: what to know before relying on the numbers.
        fits: laws fitted up to each cut-off; None of a back-test read from a file.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> backtest = jl.backtest(["chinchilla", "kaplan"], runs, cutoffs=3, n_starts=64)
        >>> list(backtest.frame)[:4], len(backtest.cutoffs)
        (['law', 'naive', 'cutoff', 'row'], 3)
        >>> backtest.table.index.names
        FrozenList(['law', 'beyond'])
    """

    picture = "backtest_errors"
    computed: ClassVar[tuple[str, ...]] = ("table",)
    best_is: ClassVar[Mapping[str, str]] = {
        "bias": "nearest 0", **dict.fromkeys(("between", "within", "rmse", "median"), "lowest"),
    }  # fmt: skip
    compared_within: ClassVar[str] = "beyond"

    along: str
    target: str
    cutoffs: np.ndarray
    frame: pd.DataFrame = field(metadata={"columns": _FRAME})
    notes: tuple[Note, ...]
    fits: CutoffFits | None = field(default=None, metadata={"saved": False})

    @property
    def table(self) -> pd.DataFrame:
        """Errors by law and distance, in bands of up to ×2, ×5, ×20 and beyond."""
        return self.by_distance()

    def tables(self) -> dict[str, pd.DataFrame]:
        """Errors by law and distance, then every prediction."""
        return {"table": self.table.reset_index(), **super().tables()}

    def by_distance(self, bands: Sequence[float] = BANDS) -> pd.DataFrame:
        """Errors by law and distance, bias and spread apart.

        The runs beyond one cut-off share the errors of one fit, so that the cut-off counts, not
        the run: what is averaged first is each cut-off's mean.

        Args:
            bands: upper limits of the ratio of a run's value to the cut-off; a last band has no
                limit.

        Returns:
            One row a ``law`` and band (``beyond``): ``cutoffs`` and ``runs``, how many there are;
            ``bias``, the mean over cut-offs of their mean relative errors, positive where the
            target is predicted too high; ``between``, the standard deviation of these means (NaN
            of one cut-off); ``within``, the standard deviation of the runs' errors around them;
            ``rmse`` of the runs, each cut-off counting once; ``median``, of their absolute errors.

        Raises:
            UsageError: bands that are not ratios above 1, in order.

        Example:
            >>> runs = jl.simulate.experiment("chinchilla").table
            >>> backtest = jl.backtest("chinchilla", runs, cutoffs=2, n_starts=64)
            >>> backtest.by_distance([10]).loc["chinchilla"].index.tolist()
            ['up to ×10', 'more than ×10']
        """
        limits = numbers_of("bands", list(bands))
        if not len(limits) or not (np.diff(limits, prepend=1.0) > 0).all():
            raise UsageError("bands are ratios above 1, in order, such as (2, 5, 20)")
        labels = [f"up to ×{limits[0]:g}"]
        labels += [f"×{a:g} to ×{b:g}" for a, b in zip(limits, limits[1:], strict=False)]
        labels += [f"more than ×{limits[-1]:g}"]
        # A run at a limit belongs below it, whatever the last digit of its log.
        number = np.searchsorted(np.log(limits) + 1e-9, self.frame["distance"])
        frame = self.frame.assign(beyond=pd.Categorical.from_codes(number, labels))
        frame = frame[np.isfinite(frame["error"])]
        order = list(self.frame["law"].unique())
        rows = [
            {"law": law, "beyond": band, **_errors(group)}
            for (law, band), group in frame.groupby(["law", "beyond"], observed=True, sort=True)
        ]
        table = pd.DataFrame(rows, columns=["law", "beyond", *_ERRORS])
        by = {"law": order, "beyond": labels}
        table = table.sort_values(
            ["law", "beyond"], key=lambda column: column.map(by[column.name].index)
        )
        return table.set_index(["law", "beyond"])

    def unit_of(self, name: str) -> tuple[str, float] | None:
        """The unit of a column of the table: errors are shares of the target."""
        return (SHARE, 1.0) if name in _ERRORS[2:] else None

    @property
    def headline(self) -> str:
        """How far the best law was off beyond the cut-offs, and the best rule without a law."""
        squares = self.frame["error"] ** 2
        off = np.sqrt(squares.groupby([self.frame["law"], self.frame["cutoff"]]).mean())
        off = off.groupby("law").mean().dropna()
        naive = set(self.frame.loc[self.frame["naive"], "law"])
        laws, rules = off[~off.index.isin(naive)], off[off.index.isin(naive)]
        if laws.empty:
            return ""
        farthest = times(float(np.exp(self.frame["distance"].max())))
        rule = f"; {rules.idxmin()}, a rule without a law: {rules.min():.2%}" if len(rules) else ""
        return (
            f"{laws.idxmin()} was off by {laws.min():.2%} (RMSE) on runs up to {farthest} beyond "
            f"its cut-offs{rule}"
        )

    def lines(self) -> list[str]:
        """The cut-offs and the errors by law and distance."""
        runs = self.frame["row"].nunique()
        unit = "FLOPs" if self.along == "compute" else ""
        cutoffs = ", ".join(written(value, unit) for value in self.cutoffs)
        return [
            f"{len(self.cutoffs)} cut-offs of {self.along} ({cutoffs}); {runs} runs held out",
            f"Relative errors of {self.target} beyond a cut-off, by distance from it",
            "",
            *_shown(self.table).splitlines(),
            "",
        ]


_ERRORS = ("cutoffs", "runs", "bias", "between", "within", "rmse", "median")


def _errors(group: pd.DataFrame) -> dict[str, float]:
    by_cutoff = group.groupby("cutoff")["error"]
    means = by_cutoff.mean()
    return {
        "cutoffs": len(means),
        "runs": group["row"].nunique(),
        "bias": means.mean(),
        "between": means.std() if len(means) > 1 else np.nan,
        "within": float(np.sqrt(((group["error"] - by_cutoff.transform("mean")) ** 2).mean())),
        "rmse": float(np.sqrt((group["error"] ** 2).groupby(group["cutoff"]).mean().mean())),
        "median": group["error"].abs().median(),
    }


def _shown(table: pd.DataFrame) -> str:
    shares = {name: f"{{:{'+' if name == 'bias' else ''}.2%}}".format for name in _ERRORS[2:]}
    return table.to_string(formatters=shares, na_rep="")


@lists_options(FitKeywords, **SEARCH)
@checked
def backtest(
    laws: Any,
    runs: Any,
    *,
    along: Along = "compute",
    cutoffs: Any = N_CUTOFFS,
    groups: Any = None,
    per_law: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Unpack[FitKeywords],
) -> Backtest:
    """Fit laws to the runs below each of several cut-offs and predict those beyond.

    That is evaluation from a rolling origin, as forecasters do it (Tashman 2000): what a law would
    have predicted of runs that were still to be made at the time. All cut-offs of a law are fitted
    in one batch, as rows of 0/1 weights.

    Beside the laws stand three rules that know no law: ``last-run`` (the target of the largest run
    fitted), ``best-so-far``, and ``power-law`` (a straight line, log target over log ``along``,
    through the runs that were the best so far). A law that does not beat these is of no use.

    Args:
        laws: law or its name, a list of them, a dict label → law; None takes those of
            :data:`jaxlaw.forecasting.DEFAULT_LAWS` that suit the columns.
        runs: what :func:`jaxlaw.read_runs` takes or returns.
        along: what the cut-offs are of: ``"compute"`` (C in FLOPs, or 6·N·D), a column (``"D"``,
            ``"step"`` for the rest of loss curves, ``"r"`` for shares of a mixture), or a function
            of the table of the runs to (n,) numbers.
        cutoffs: number of cut-offs, evenly spread over the log of ``along`` from where rows suffice
            for every law; or the largest values fitted.
        groups: columns whose rows are checkpoints of one run, or a label for each row: a run is
            then beyond a cut-off with all its rows if one is.
        per_law: label of a law → options of its own, as for :func:`jaxlaw.cross_validate`.
        **options: options of :func:`jaxlaw.fit` for every law (1024 starts, of which 16 are
            solved, unless given); the rest (columns, units …) is handed to
            :func:`jaxlaw.read_runs`.

    Returns:
        The :class:`Backtest`.

    Raises:
        UsageError: the call makes no sense; the message says what would.
        DataError: the runs cannot carry a law, or have too few rows below a cut-off.

    Example:
        >>> runs = jl.simulate.experiment("chinchilla").table
        >>> backtest = jl.backtest("chinchilla", runs, cutoffs=[1e20, 1e21], n_starts=64)
        >>> bool(backtest.table["rmse"]["chinchilla"].max() < 0.02)
        True
    """
    return make_backtest(fit_at_cutoffs(laws, runs, along, cutoffs, groups, per_law, options))


def fit_at_cutoffs(
    laws: Any, runs: Any, along: Along, cutoffs: Any, groups: Any,
    per_law: Mapping[str, Mapping[str, Any]] | None, options: Mapping[str, Any], *,
    needed: bool = True,
) -> CutoffFits:  # fmt: skip
    """The fits behind a back-test, from the arguments of an entry point.

    Without ``needed``, as a forecast has them, runs that are too few for any cut-off have none,
    and laws must be such as points can be given for.
    """
    candidates, data = laws_and_data(laws, runs, per_law, options, needed=needed)
    return fit_cutoffs(candidates, data, along, cutoffs, groups, needed)


def laws_and_data(
    laws: Any, runs: Any, per_law: Mapping[str, Mapping[str, Any]] | None,
    options: Mapping[str, Any], *, needed: bool,
) -> tuple[list[Candidate], DataSet]:  # fmt: skip
    """The laws of :func:`fit_at_cutoffs`, and the rows that are valid for all of them."""
    of_fit, reading = split_options(options)
    candidates_for = partial(candidates_of, own=SEARCH | of_fit, per_law=per_law or {})
    candidates = [] if laws is None else candidates_for(laws)
    read = runs_read(runs, reading, [candidate.law for candidate in candidates])
    if laws is None:
        candidates = candidates_for(default_laws(read))
    candidates = without_blind_priors(candidates)
    if laws is None:
        candidates = determined(candidates, read)
    for candidate in candidates:
        if not needed and candidate.law.inputs_per_drop:
            raise UsageError(
                f"law {candidate.label} takes every drop of a learning rate, which the points of "
                "at= cannot carry; back-test it (jl.backtest), or forecast by a law of areas: "
                "annealing"
            )
    return candidates, data_set(None, read, in_sample(), candidates, {})


def make_backtest(fits: CutoffFits) -> Backtest:
    """The back-test that fits of cut-offs amount to."""
    first = fits.observations(fits.candidates[0].label)
    beyond = ~fits.fitted & (fits.weight > 0)
    cutoff, row = np.nonzero(beyond)
    rules = naive_rules(fits)
    frames = []
    for label, predicted in (fits.predicted | rules).items():
        frames.append(pd.DataFrame({
            "law": label,
            "naive": label in rules,
            "cutoff": fits.cutoffs[cutoff],
            "row": first.rows[row],
            "distance": fits.distance[cutoff, row],
            "observed": fits.observed[row],
            "predicted": predicted[cutoff, row],
            "error": predicted[cutoff, row] / fits.observed[row] - 1,
        }))  # fmt: skip
    notes = list(fits.notes)
    if len(fits.cutoffs) < FEW_CUTOFFS:
        notes.append(Note(
            "few-cutoffs", "warning",
            f"{len(fits.cutoffs)} cut-off{'s' if len(fits.cutoffs) > 1 else ''}: the runs "
            "beyond one share the errors of one fit, so that this is hardly evidence",
            inherited=False,
        ))  # fmt: skip
    return Backtest(
        fits.along, first.target_name, fits.cutoffs, pd.concat(frames, ignore_index=True),
        tuple(notes), fits,
    )  # fmt: skip


def naive_rules(fits: CutoffFits) -> dict[str, np.ndarray]:
    """Rule → (J, n) what it predicts of every row: rules that know no law."""
    law = fits.candidates[0].law
    predicted = {name: np.full(fits.fitted.shape, np.nan) for name in NAIVE}
    sign = -1.0 if law.better == "high" else 1.0
    for j, fitted in enumerate(fits.fitted & (fits.weight > 0)):
        z, y = fits.z[fitted], fits.observed[fitted]
        order = np.lexsort((sign * y, z))
        z, y = z[order], y[order]
        best = sign * np.minimum.accumulate(sign * y)
        # Of several runs at the largest value the best stands for what that much buys.
        predicted["last-run"][j] = sign * (sign * y[z == z[-1]]).min()
        predicted["best-so-far"][j] = best[-1]
        record = np.flatnonzero((best == y) & (z > 0))
        if len(record) and z[record[-1]] > _APART * z[record[0]]:
            slope, level = np.polyfit(np.log(z[record]), np.log(y[record]), 1)
            with np.errstate(divide="ignore"):
                predicted["power-law"][j] = np.exp(level + slope * np.log(fits.z))
    return predicted
