"""Which rows are checkpoints of one run, and whether their residuals show it.

Checkpoints of one run share its seed, its order of data and its mishaps. Taken for independent
runs they make standard errors too short, the more so the more of them there are. A column of the
table may name the runs; else rows that share all inputs but the tokens may be checkpoints, and may
as well be a grid of separate runs: only their residuals distinguish them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw.laws import Law
from jaxlaw.notes import DEPENDENT_ROWS, Note

#: Columns that name a run, and columns that distinguish runs of equal inputs.
RUN_COLUMNS = ("run", "run_id", "run_name", "runid", "name")
_LABELS = ("seed", "mixture_id", "trial", "replicate")
#: Inputs that grow along a run, and columns that count its steps.
_ALONG = ("D", "Dp", "S1", "S1_cpt", "S1_pt")
_STEPS = ("step", "steps")
SURE = 4.0  # standard errors of a correlation that is no chance
_PAIRS = 10  # successive rows of one run: fewer do not determine their correlation
_ALIKE = 0.25  # correlation from which on rows that merely look like checkpoints are called so
_EACH = 3  # rows each, and groups, of what merely looks like checkpoints
_HISTORY = 8  # steps between points of a loss curve
# Rows that the run of a row has on average, by which variances are too small at most: less is an
# odd line that stands twice.
_SHARED = 1.25


@dataclass(frozen=True, eq=False)
class RunGroups:
    """Rows by what may be the run that each is of.

    Attributes:
        columns: columns that distinguish the runs, as ``groups=`` takes them.
        members: (n,) number of the run, from 0.
        along: (n,) what grows along a run, to order its rows by.
        named: whether a column names the runs; else rows merely look like checkpoints.
    """

    columns: tuple[str, ...]
    members: np.ndarray
    along: np.ndarray
    named: bool

    def rows(self, kept: np.ndarray) -> RunGroups:
        """Of some of the rows, or of all in another order."""
        return RunGroups(self.columns, self.members[kept], self.along[kept], self.named)

    @property
    def count(self) -> int:
        """How many runs there are."""
        return len(np.unique(self.members))


def run_groups(
    table: pd.DataFrame, inputs: Mapping[str, np.ndarray], names: Mapping
) -> RunGroups | None:
    """What looks like runs of several rows each; None where nothing does.

    Args:
        table: the n rows, columns by canonical names.
        inputs: name → (n,) of the law's inputs that have one value a row.
        names: canonical name of a column → the user's own.
    """
    for column in RUN_COLUMNS:
        members = _members([table[column]]) if column in table else None
        if members is not None and members.max() > 0:
            # How many rows the run of a row has, on average over the rows.
            if np.sum(np.bincount(members) ** 2.0) / len(members) > _SHARED:
                name = str(names.get(column, column))
                return RunGroups((name,), members, order_along(table, inputs), True)
    # Rows that agree in all inputs but their tokens, as checkpoints of one run do.
    growing = next((name for name in ("D", "Dp") if name in inputs), None)
    if growing is None or len(inputs) < 2:
        return None
    along = inputs[growing]
    others = {name: values for name, values in inputs.items() if name != growing}
    for label in (None, *(name for name in _LABELS if name in table)):
        more = [] if label is None else [table[label]]
        members = _members([*others.values(), *more])
        if members is None:
            continue
        # Several rows of each of several groups, no two of a group at one number of tokens, not
        # even with the same loss: grids of separate runs (farseer.csv) have a run in them twice.
        sizes = np.bincount(members)
        several = len(sizes) >= _EACH and np.median(sizes) >= _EACH
        if several and equal_rows([members, along]).max() == len(members) - 1:
            columns = (*others, *([] if label is None else [str(names.get(label, label))]))
            return RunGroups(columns, members, along, False)
    return None


def _members(columns: Sequence) -> np.ndarray | None:
    """(n,) the numbers of :func:`equal_rows`; None where a cell is empty."""
    return None if any(pd.isna(values).any() for values in columns) else equal_rows(columns)


def equal_rows(columns: Sequence) -> np.ndarray:
    """(n,) number, from 0 in the order of the rows, of the group of rows equal in all columns."""
    members = np.zeros(len(columns[0]), int)
    for values in columns:
        codes, levels = pd.factorize(np.asarray(values), use_na_sentinel=False)
        members = pd.factorize(members * len(levels) + codes)[0]
    return members


def order_along(table: pd.DataFrame, inputs: Mapping) -> np.ndarray:
    """(n,) what the rows of a run are put in order by: tokens, steps, or the table's own order."""
    for source, names in ((inputs, _ALONG), (table, _STEPS)):
        for name in names:
            if name in source:  # text that is no number comes last
                return np.asarray(pd.to_numeric(source[name], errors="coerce"), float)
    return np.arange(len(table), dtype=float)


def history_notes(law: Law, runs: RunGroups | None, table: pd.DataFrame) -> list[Note]:
    """A warning where a law of finished runs is given their loss curves, as loggers write them.

    While a learning rate decays the loss lies above that of a run that ended there. Curves are
    logged every so many tokens; finished runs of one size seldom are so many, and their tokens grow
    by ratios.

    Args:
        law: the law; one of a continual phase, or of mixture ratios, is of checkpoints.
        runs: the rows by run, or None.
        table: the rows.
    """
    of_checkpoints = law.from_base or any(spec.domain == "fraction" for spec in law.inputs)
    of_runs = law.target == "loss" and {"N", "D"} <= {*law.input_names} and not of_checkpoints
    if runs is None or not of_runs:
        return []
    if "lr" in table and (table["lr"].groupby(runs.members).nunique() <= 1).all():
        return []  # one constant learning rate is as good at any step
    gaps = [np.diff(np.sort(runs.along[runs.members == run])) for run in np.unique(runs.members)]
    logged = [
        len(gap) >= _HISTORY and np.isclose(gap, np.median(gap), rtol=0.01).mean() > 0.5
        for gap in gaps
    ]
    if np.mean(logged) < 0.5:
        return []
    columns = ",".join(runs.columns)
    message = (
        f"{len(table)} rows are {runs.count} loss curves (by {columns}), and law {law.name} "
        "describes finished runs: before its learning rate has decayed, a run's loss is above "
        f"that of a run that ended there; keep the last row of each, last_of='{columns}', or fit "
        "law annealing by jl.read_loss_curves"
    )
    return [Note("checkpoints-as-runs", "warning", message, inherited=True)]


def dependence_note(runs: RunGroups, residuals: np.ndarray, smoothed: np.ndarray) -> Note | None:
    """A warning where the residuals within runs are correlated; None where they are independent.

    Named runs with too few rows to decide are warned of as well. Rows that merely look like
    checkpoints may be correlated because the law lacks a term: only the residuals without their
    smooth part count, and they must be more correlated than those of rows of equal tokens.

    Args:
        runs: the rows by run.
        residuals: (n,) residuals of the rows of positive weight.
        smoothed: (n,) residuals without the part that is smooth in the inputs.
    """
    used = residuals if runs.named else smoothed
    successive, z_successive, pairs = successive_correlation(used, runs.members, runs.along)
    within, z_within = correlation_within(used, runs.members)
    size, count = len(used), runs.count
    if runs.named:
        if pairs >= _PAIRS and max(z_successive, z_within) < SURE:
            return None
        what = f"{size} rows are of {count} runs (column {runs.columns[0]})"
    else:
        at_equal = np.unique(runs.along, return_inverse=True)[1].reshape(-1)
        least = correlation_within(used, at_equal)[0] + _ALIKE
        both = ((z_successive, successive), (z_within, within))
        if not any(z > SURE and correlation > least for z, correlation in both):
            return None
        shared = ", ".join(runs.columns)
        what = f"{size} rows are {count} groups of equal {shared}, as checkpoints of one run are"
    unit = "run" if runs.named else "group"
    seen = (
        f"and residuals within a {unit} are correlated ({within:.2f}, successive rows "
        f"{successive:.2f})"
        if pairs >= _PAIRS
        else f"too few to test residuals for correlation within a {unit}"
    )
    shown = repr(runs.columns[0]) if len(runs.columns) == 1 else repr(list(runs.columns))
    message = (
        f"{what}, {seen}: intervals that assume independent rows are too narrow; use "
        f"jl.bootstrap(…, groups={shown})"
    )
    return Note(DEPENDENT_ROWS, "warning", message, inherited=False)


def successive_correlation(
    residuals: np.ndarray, members: np.ndarray, along: np.ndarray
) -> tuple[float, float, int]:
    """Correlation of successive rows of a run, in standard errors of no correlation, and pairs."""
    order = np.lexsort((along, members))
    residuals, members = (residuals - residuals.mean())[order], members[order]
    same = members[1:] == members[:-1]
    pairs, spread = int(same.sum()), float(np.mean(residuals**2))
    if not pairs or not spread > 0:
        return 0.0, 0.0, pairs
    correlation = float(np.sum(residuals[1:][same] * residuals[:-1][same]) / (spread * pairs))
    return correlation, correlation * pairs**0.5, pairs


def correlation_within(residuals: np.ndarray, members: np.ndarray) -> tuple[float, float]:
    """Intra-class correlation: of any two rows of a group; in standard errors of none."""
    residuals = residuals - residuals.mean()
    sizes, spread = np.bincount(members), float(np.mean(residuals**2))
    pairs = float(np.sum(sizes * (sizes - 1.0)))
    if not pairs or not spread > 0:
        return 0.0, 0.0
    correlation = float(
        (np.sum(np.bincount(members, residuals) ** 2) - np.sum(residuals**2)) / (spread * pairs)
    )
    return correlation, correlation * (pairs / 2) ** 0.5


def without_dependence_note(notes: Any, groups: Any) -> tuple[Note, ...]:
    """Notes without that on dependent rows where ``groups`` say which rows depend on each other."""
    return tuple(note for note in notes if groups is None or note.code != DEPENDENT_ROWS)
