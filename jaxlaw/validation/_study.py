"""What a study gives back: scores of every fold, tables, a ranking, files."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from jaxlaw import _json as records
from jaxlaw._conditions import rows_where
from jaxlaw.errors import DataError, UsageError
from jaxlaw.notes import Note
from jaxlaw.validation._diagnostics import FROM_FRAME, on_frame
from jaxlaw.validation._ranking import rank
from jaxlaw.validation._scoring import score_text

SCHEMA = 2
_WIDE = 80  # columns of a page
#: What tables and figures call the scores.
SCORE_NAMES = {
    "huber": "Huber",
    "mean_huber": "mean Huber",
    "huber_linear": "Huber (linear)",
    "mean_huber_linear": "mean Huber (linear)",
    "r2": "R²",
    "rmse": "RMSE",
}


@dataclass(frozen=True, eq=False)
class Study:
    """Laws fitted on parts of the runs and asked for the rest.

    Attributes:
        design: name of the folds.
        laws: what a law is called here → (its name, its constraint or None).
        sizes: what a law is called here → number of fitted parameters.
        target: what is predicted.
        delta: Huber threshold of the scores.
        frame: one row a law, data set and fold: ``law``, ``data``, ``corpus`` (the last part of
            the data set's name), ``fold``, ``held_out``, ``n_fitted``, ``n_held_out``; on the
            held-out points ``huber`` (Huber loss of log residuals, summed over the points, as
            in Que's tables), ``mean_huber`` (per point), ``huber_linear`` and
            ``mean_huber_linear`` (of residuals), ``r2``, ``rmse``, and the same on the fitted
            ones, ``train_…``;
            ``extrapolates`` (some held-out point is outside the fitted range of an input);
            ``objective`` (summed Huber of the fit), ``status``, ``agreement``, ``spread``
            (largest relative difference of held-out predictions between starts that agree on
            the objective), ``failed`` (no finite fit or prediction; its scores are NaN).
        parameters: one row a law, data set, fold and ``parameter``; ``value`` is natural, in
            the law's own units, ``at_bound`` says at which end of its range it is, if it is.
        notes: what to know before relying on the numbers.
    """

    design: str
    laws: dict[str, tuple[str, str | None]]
    sizes: dict[str, int]
    target: str
    delta: float
    frame: pd.DataFrame
    parameters: pd.DataFrame
    notes: tuple[Note, ...]

    @property
    def n_folds(self) -> int:
        """Folds of a data set; the most, where they differ."""
        return int(self.frame.groupby("data")["fold"].nunique().max())

    @property
    def n_failed(self) -> int:
        """Fits that failed, of all laws, data sets and folds."""
        return int(self.frame["failed"].sum())

    def only(self, where: Any) -> Study:
        """The study of some folds, data sets or laws.

        Args:
            where: a condition on the columns of the frame, such as ``"not extrapolates"``, as
                :func:`jaxlaw.read_runs` has them; or an (n,) boolean mask of its rows.

        Raises:
            UsageError: it is no condition, or keeps nothing.
        """
        if isinstance(where, str):
            keep = rows_where(where, dict(self.frame.items()), "the frame")
        else:
            keep = np.asarray(where)
            if keep.shape != (len(self.frame),) or keep.dtype != bool:
                raise UsageError(f"where: give a condition, or a mask of {len(self.frame)} rows")
        frame = self.frame[keep]
        if frame.empty:
            raise UsageError(f"where: {where!r} keeps none of the {len(self.frame)} fits")
        keys = ["law", "data", "fold"]
        kept = frame[keys].merge(self.parameters, on=keys, how="left")
        kept = kept[list(self.parameters.columns)]
        laws = {label: law for label, law in self.laws.items() if label in set(frame["law"])}
        frame = frame.reset_index(drop=True)
        others = (note for note in self.notes if note.code not in FROM_FRAME)
        notes = (*on_frame(frame, kept), *others)
        return dataclasses.replace(self, frame=frame, parameters=kept, laws=laws, notes=notes)

    def table(
        self,
        metrics: tuple[str, ...] = ("huber", "r2"),
        *,
        average: bool = False,
        centre: Literal["mean", "median"] = "mean",
    ) -> pd.DataFrame:
        """Held-out scores over the folds, as in Que 2024, tables 1–4 and 14–21.

        As there, Huber losses are summed over the points that a fold holds out, and the sums
        averaged over the folds. Sums of sets of different sizes do not compare: ask for
        ``mean_huber``, the loss per point.

        Args:
            metrics: columns of the frame.
            average: over all data sets of a corpus (the last part of their names), as in tables
                1–4; otherwise a column for each, as in tables 14–21.
            centre: ``"mean"`` as in the paper, or ``"median"``, which no single fold decides.

        Returns:
            One row a law; columns (metric, data set) and ``("parameters", "")``.
        """
        for name in metrics:
            if name not in self.frame or self.frame[name].dtype.kind not in "iuf":
                raise UsageError(f"'{name}' is no column of numbers of the study's frame")
        if centre not in ("mean", "median"):
            raise UsageError(f"centre is 'mean' or 'median', not {centre!r}")
        by = "corpus" if average else "data"
        laws, sets = list(self.laws), list(self.frame[by].unique())
        groups = self.frame.groupby(["law", by], sort=False)[list(metrics)]
        means = getattr(groups, centre)().unstack(by)
        means = means.reindex(
            index=laws, columns=pd.MultiIndex.from_product([metrics, sets], names=[None, None])
        )
        means[("parameters", "")] = [self.sizes[law] for law in laws]
        return means

    def ranking(self, metric: str = "huber") -> pd.DataFrame:
        """Laws by held-out score, and whether the others are worse by more than noise.

        See :func:`jaxlaw.validation._ranking.rank` for the columns and the test.
        """
        return rank(self.frame, metric, self.sizes)

    @property
    def spread(self) -> pd.DataFrame:
        """How far parameters move from fold to fold.

        One row a law, data set and parameter: mean, standard deviation, lowest and highest.
        """
        groups = self.parameters.groupby(["law", "data", "parameter"], sort=False)["value"]
        return groups.agg(["mean", "std", "min", "max"]).reset_index()

    def summary(self) -> str:
        """The study as text of 80 columns."""
        sets = self.frame["data"].nunique()
        head = (
            f"{len(self.laws)} law{_s(len(self.laws))} × {sets} data set{_s(sets)} × "
            f"{self.n_folds} fold{_s(self.n_folds)} ({self.design}); "
            f"{self.n_failed} of {len(self.frame)} fits failed"
        )
        lines = [head, "", "Scores of held-out points, mean over folds", ""]
        lines += [*_pages(self.table()), ""]
        if self.n_folds > 2:
            lines += ["median over folds", "", *_pages(self.table(centre="median")), ""]
        lines += self._verdict()
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _verdict(self) -> list[str]:
        if len(self.laws) == 1:
            return []
        ranked = self.ranking()
        lines = [f"By held-out Huber, fold by fold, {ranked.index[0]} is best."]
        words = {
            "tie": "tie (the difference is noise)",
            "worse": "worse",
            "untested": "behind, by one fold",
            "failed": "failed where the best did not",
        }
        for verdict, word in words.items():
            rows = ranked[ranked["verdict"] == verdict]
            named = [
                f"{law} (× {row.ratio:.3g}" + (f", p {row.p:.2g})" if row.p == row.p else ")")
                for law, row in rows.iterrows()
            ]
            lines += [f"  {word}: {', '.join(named)}"] if named else []
        return lines

    def save(self, path: str | Path) -> None:
        """Write the study as JSON, or only its frame if the name ends in ``.csv``."""
        if Path(path).suffix.lower() == ".csv":
            records.write_whole(path, lambda file: self.frame.to_csv(file, index=False))
            return
        records.write_record(path, self.to_dict(), indent=1)

    def to_dict(self) -> dict[str, Any]:
        """The study as plain numbers and strings; infinities and NaN as strings."""
        record = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        record |= {name: _columns(record[name]) for name in ("frame", "parameters")}
        record["notes"] = [dataclasses.asdict(note) for note in self.notes]
        return {"kind": records.STUDY, "schema": SCHEMA, **record}

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read a study that :meth:`save` wrote as JSON.

        Raises:
            UsageError: no such file.
            DataError: not a study, of another schema, changed since it was written, or not whole.
        """
        return cls.from_dict(records.read_record(path, "study"), records.place_of(path))

    @classmethod
    def from_dict(cls, record: Any, source: str = "record") -> Study:
        """The study of :meth:`to_dict`; raises as :meth:`load`."""
        if not isinstance(record, dict) or record.get("kind") != records.STUDY:
            raise DataError(f"{source} is not a jaxlaw study: field 'kind' does not say so")
        schema = record.get("schema")
        if isinstance(schema, bool) or schema not in range(1, SCHEMA + 1):
            raise DataError(f"{source} has schema {schema}; this jaxlaw reads 1 to {SCHEMA}")
        found = {name: value for name, value in record.items() if name not in ("kind", "schema")}
        with records.whole(source, "study"):
            found |= {name: _table(found[name]) for name in ("frame", "parameters")}
            if schema < 2:
                found["frame"] = _with_sums(found["frame"])
            found["notes"] = records.notes_of(found["notes"])
            found["laws"] = {label: tuple(law) for label, law in found["laws"].items()}
            return cls(**found)


def _pages(table: pd.DataFrame) -> list[str]:
    """One table of all metrics where it fits a page, otherwise one each, data sets as rows."""
    table = table.copy()
    sizes = table.pop(("parameters", "")).rename("parameters")
    metrics = list(dict.fromkeys(table.columns.get_level_values(0)))
    for name in metrics:
        table[name] = table[name].map(partial(score_text, name))
    table = table.rename(columns=SCORE_NAMES, level=0)
    alone = len(set(table.columns.get_level_values(1))) == 1
    whole = table.droplevel(1, axis=1) if alone else table.copy()
    whole.columns = [c if alone else " ".join(c) for c in whole.columns]
    text = pd.concat([sizes.astype(str), whole], axis=1).rename_axis(None).to_string()
    if max(map(len, text.splitlines())) <= _WIDE:
        return text.splitlines()
    lines = []
    for name in (SCORE_NAMES.get(metric, metric) for metric in metrics):
        lines += [name, *table[name].T.rename_axis(columns=None).to_string().splitlines(), ""]
    return lines[:-1]


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    return {
        name: [
            value if not isinstance(value, float) or np.isfinite(value) else str(value)
            for value in column.tolist()
        ]
        for name, column in table.items()
    }


def _with_sums(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame of a study of schema 1, whose Huber losses were means per point.

    The sums are the means times the number of points, which is exact where all weights were 1;
    other weights were not written.
    """
    frame, points = frame.copy(), {"": frame["n_held_out"], "train_": frame["n_fitted"]}
    for prefix, count in points.items():
        for name in ("huber", "huber_linear"):
            if (column := prefix + name) in frame:
                frame[f"{prefix}mean_{name}"] = frame[column]
                frame[column] = frame[column] * count
    return frame


_WORDS = {"law", "data", "corpus", "held_out", "status", "parameter", "at_bound"}


def _table(columns: dict[str, list[Any]]) -> pd.DataFrame:
    def restored(name: str, values: list[Any]) -> list[Any]:
        if name in _WORDS:
            return values
        return [float(value) if isinstance(value, str) else value for value in values]

    return pd.DataFrame({name: restored(name, values) for name, values in columns.items()})


def _s(count: int) -> str:
    return "" if count == 1 else "s"
