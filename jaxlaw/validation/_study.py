"""The result of a cross-validation: scores of every fold, tables, a ranking, notes, files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from jaxlaw._result import Result, table_lines
from jaxlaw._where import rows_where
from jaxlaw.errors import UsageError
from jaxlaw.fitting import SCORES, score_text
from jaxlaw.fitting._checks import FEW
from jaxlaw.notes import Note
from jaxlaw.validation._comparison import rank

#: Columns that say which fit a row of :attr:`Study.frame` or :attr:`Study.parameters` is of.
KEYS = ("law", "data", "corpus", "fold", "held_out")
#: Columns of :attr:`Study.frame`, in order.
FRAME = (
    *KEYS, "n_fitted", "n_held_out", "extrapolates", *SCORES,
    *(f"train_{name}" for name in SCORES), "objective", "status", "agreement", "spread",
    "undetermined", "failed",
)  # fmt: skip
#: Columns of :attr:`Study.parameters`.
PARAMETERS = (*KEYS, "parameter", "value", "at_bound")
#: Codes of the notes that :meth:`Study.only` makes anew, of the folds that are left.
_FRAME_CODES = ("far-folds", "folds-failed", "few-starts-agree", "undetermined", "at-bound")
VERDICTS = {
    "tie": "tie (the difference is noise)",
    "worse": "worse",
    "untested": "behind, by one fold",
    "failed": "failed where the best did not",
}
_SPREAD = 1e-3  # relative difference of predictions that agreeing starts should not have
_FAR = 100  # times the median Huber, or 1 − R²: such a fold makes the mean


@dataclass(frozen=True, eq=False, repr=False)
class Study(Result):
    """Laws fitted on parts of the runs and scored on the rest.

    Attributes:
        design: name of the fold design.
        laws: label of a law → (its name, its constraint or None).
        sizes: label of a law → number of fitted parameters.
        target: name of what is predicted.
        delta: Huber threshold of the scores.
        frame: one row per law, data set and fold: ``law``, ``data``, ``corpus`` (the last part of
            the data set's name), ``fold``, ``held_out``, ``n_fitted``, ``n_held_out``; on the
            held-out points ``huber`` (Huber loss of log residuals, summed over the points, as
            in Que's tables; of residuals where a target is not positive), ``mean_huber`` (per
            point), ``huber_linear`` and
            ``mean_huber_linear`` (of residuals), ``r2``, ``rmse``, and the same on the fitted
            ones, ``train_…``;
            ``extrapolates`` (some held-out point is outside the fitted range of an input);
            ``objective`` (summed Huber of the fit), ``status``, ``agreement``, ``spread``
            (largest relative difference of held-out predictions between starts that agree on
            the objective), ``undetermined`` (in words, which parameters the values of an input
            that are left to fit cannot distinguish; empty for none), ``failed`` (no finite fit or
            prediction; its scores are NaN).
        parameters: one row per law, data set, fold and ``parameter``; ``value`` is natural, in
            the law's own units, ``at_bound`` says at which bound of its range it is, if it is.
        notes: what to know before relying on the numbers.

    Example:
        >>> table = jl.simulate.experiment("chinchilla").table
        >>> study = jl.cross_validate(["chinchilla", "kaplan"], table, "k-fold:3", n_starts=64)
        >>> study.n_folds, study.n_failed
        (3, 0)
        >>> study.ranking["verdict"].to_dict()
        {'chinchilla': 'best', 'kaplan': 'worse'}
    """

    design: str
    laws: dict[str, tuple[str, str | None]]
    sizes: dict[str, int]
    target: str
    delta: float
    frame: pd.DataFrame
    parameters: pd.DataFrame
    notes: tuple[Note, ...]

    picture: ClassVar[str] = "fold_scores"

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
            where: condition on the columns of the frame, such as ``"not extrapolates"``, as
                :func:`jaxlaw.read_runs` has them; or an (n,) boolean mask of its rows.

        Raises:
            UsageError: it is no condition, or keeps nothing.

        Example:
            >>> table = jl.simulate.experiment("chinchilla").table
            >>> study = jl.cross_validate("chinchilla", table, "k-fold:3", n_starts=64)
            >>> len(study.only("fold < 3").frame)
            2
        """
        where = where if isinstance(where, str) else np.asarray(where)
        keep, _ = rows_where(where, dict(self.frame.items()), "the frame")
        if keep.shape != (len(self.frame),) or not keep.any():
            raise UsageError(
                f"where keeps none of the {len(self.frame)} fits: give a condition, or a mask of "
                f"{len(self.frame)} rows"
            )
        frame = self.frame[keep].reset_index(drop=True)
        keys = ["law", "data", "fold"]
        kept = frame[keys].merge(self.parameters, on=keys)[list(self.parameters)]
        laws = {label: law for label, law in self.laws.items() if label in set(frame["law"])}
        others = [note for note in self.notes if note.code not in _FRAME_CODES]
        notes = (*frame_notes(frame, kept), *others)
        return replace(self, frame=frame, parameters=kept, laws=laws, notes=notes)

    @property
    def table(self) -> pd.DataFrame:
        """The means of the summed Huber loss and of R²: :meth:`score_table` without options."""
        return self.score_table()

    def score_table(
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
            metrics: names of columns of the frame.
            average: whether scores are averaged over all data sets of a corpus (the last part
                of their names), as in tables 1–4; otherwise a column for each, as in tables 14–21.
            centre: ``"mean"`` as in the paper, or ``"median"``, which no single fold decides.

        Returns:
            One row per law; columns (metric, data set) and ``("parameters", "")``.

        Raises:
            UsageError: no such metric.

        Example:
            >>> table = jl.simulate.experiment("chinchilla").table
            >>> study = jl.cross_validate("chinchilla", table, "k-fold:3", n_starts=64)
            >>> study.score_table(("r2",)).columns.get_level_values(0).tolist()
            ['r2', 'parameters']
        """
        for name in metrics:
            if name not in self.frame or self.frame[name].dtype.kind not in "iuf":
                raise UsageError(f"'{name}' is no column of numbers of the study's frame")
        by = "corpus" if average else "data"
        laws, sets = list(self.laws), list(self.frame[by].unique())
        groups = self.frame.groupby(["law", by], sort=False)[list(metrics)]
        means = getattr(groups, centre)().unstack(by)
        means = means.reindex(
            index=laws, columns=pd.MultiIndex.from_product([metrics, sets], names=[None, None])
        )
        means[("parameters", "")] = [self.sizes[law] for law in laws]
        return means.rename_axis(index="law")

    @property
    def ranking(self) -> pd.DataFrame:
        """Laws by held-out Huber loss: :meth:`rank` without options."""
        return self.rank()

    def rank(self, metric: str = "huber") -> pd.DataFrame:
        """Laws by held-out score, and whether the others are worse by more than noise.

        Each law is compared with the best by a paired t-test of the logarithm of the ratio of
        their scores, fold by fold, its variance corrected for folds that share points (Nadeau and
        Bengio 2003) and p-values for several laws (Holm 1979).

        Args:
            metric: name of a score.

        Returns:
            One row per law, the best first: ``parameters``; the ``mean`` score; its ``ratio`` to
            the best law's (above 1 is worse) and the ``p`` of that; ``wins``, the fraction of folds
            in which no law's score is better; ``failed`` folds; ``verdict``: ``best``, ``tie``
            (p of 0.05 or more, or a ratio within 1%), ``worse``, ``untested`` (one fold),
            ``failed`` (more often than the best).

        Raises:
            UsageError: no such score.

        Example:
            >>> table = jl.simulate.experiment("chinchilla").table
            >>> study = jl.cross_validate(["chinchilla", "kaplan"], table, "k-fold:3", n_starts=64)
            >>> list(study.rank("rmse").index)
            ['chinchilla', 'kaplan']
        """
        return rank(self.frame, metric, self.sizes)

    @property
    def spread(self) -> pd.DataFrame:
        """How far parameters move from fold to fold.

        One row per law, data set and parameter: mean, standard deviation, lowest and highest.
        """
        groups = self.parameters.groupby(["law", "data", "parameter"], sort=False)["value"]
        return groups.agg(["mean", "std", "min", "max"]).reset_index()

    def shown(self) -> dict[str, pd.DataFrame]:
        """Held-out scores and the ranking: the folds are thousands of rows."""
        ranked = {"ranking": self.ranking} if len(self.laws) > 1 else {}
        scores = self.table
        if self.n_folds > 2:  # where one fold dominates the mean, see the median
            medians = self.score_table(centre="median").drop(columns="parameters", level=0)
            scores = scores.join(medians.rename(columns="{} median".format, level=0))
            scores = scores[["parameters", "huber", "huber median", "r2", "r2 median"]]
        return {"scores": scores, **ranked}

    @property
    def headline(self) -> str:
        """The law with the best held-out score, how the others compare, and dominant folds."""
        doubts = [
            note.message.partition(" (")[0] for note in self.notes if note.code == "far-folds"
        ]
        r2 = self.frame.groupby("law", sort=False)["r2"].median()
        over = f"median held-out R² {{:.4f}} over {self.n_folds} folds"
        if len(self.laws) == 1:
            (law,) = self.laws
            return "; ".join([f"{law}: {over.format(r2[law])}", *doubts])
        ranked = self.ranking
        best = ranked.index[0]
        others = [
            f"{word}: {', '.join(ranked.index[ranked['verdict'] == verdict])}"
            for verdict, word in VERDICTS.items()
            if (ranked["verdict"] == verdict).any()
        ]
        return "; ".join([f"{best} is best: {over.format(r2[best])}", *others, *doubts])

    def lines(self) -> list[str]:
        """The scores and the ranking, as text."""
        sets = self.frame["data"].nunique()
        head = (
            f"{len(self.laws)} law{_s(len(self.laws))} × {sets} data set{_s(sets)} × "
            f"{self.n_folds} fold{_s(self.n_folds)} ({self.design}); "
            f"{self.n_failed} of {len(self.frame)} fits failed"
        )
        titles = ("Scores of held-out points", "By held-out Huber, fold by fold")
        return [head, *(line for title, table in zip(titles, self.shown().values(), strict=False)
                        for line in ("", title, *table_lines(self.readable(table))))]  # fmt: skip


def frame_notes(frame: pd.DataFrame, parameters: pd.DataFrame) -> list[Note]:
    """Notes that the numbers alone decide, those of folds that dominate the mean first."""
    notes = []
    for law, rows in frame.groupby("law", sort=False):
        # Folds of a law whose score is far from the others', so that they dominate the mean.
        scores = pd.DataFrame({"Huber": rows["huber"], "1 − R²": 1 - rows["r2"]})
        groups = scores.groupby(rows["data"])
        enough = groups.transform("size").to_numpy() > 2
        far = (scores > _FAR * groups.transform("median")) & enough[:, None]
        score = next((name for name in scores if far[name].any()), None)
        if score is None:
            continue
        made = rows[far[score]]
        worst = made.loc[scores.loc[made.index, score].idxmax()]
        outside = made["extrapolates"].sum()
        message = (
            f"{law}: {len(made)} of {len(rows)} folds dominate the mean ({score} over {_FAR} times "
            f"the median): {worst['data']}, {worst['held_out']}, has Huber "
            f"{score_text('huber', worst['huber'])} and R² {score_text('r2', worst['r2'])}; "
            f"{'all' if outside == len(made) else outside} extrapolate. Use the median."
        )
        notes.append(Note("far-folds", "warning", message))
    for law, rows in frame.groupby("law", sort=False):
        count, failed = len(rows), rows[rows["failed"]]
        rest = rows[~rows["failed"]]
        short = rest[rest["status"] != "converged"]
        ended = parameters[(parameters["law"] == law) & (parameters["at_bound"] != "")]
        bounds = ended.groupby("parameter", sort=False).size()
        named = ", ".join(f"{name} in {times}" for name, times in bounds.items())
        loose = rest[rest["spread"] > _SPREAD].sort_values("spread", ascending=False)
        lonely = rest[rest["agreement"] < FEW]
        given = [
            ("folds-failed", failed, f"{len(failed)} of {count} fits failed ({{}}); they have no "
             "scores, and means are over the others"),
            ("few-starts-agree", pd.concat([lonely, short]),
             f"in {len(lonely)} of {count} fits less than {FEW:.0%} of the starts agree, and "
             f"{len(short)} did not converge ({{}}): a better optimum may exist; try more starts "
             "(n_starts=)"),
            ("undetermined", loose, "starts that agree on the objective differ by up to "
             f"{loose['spread'].max():.2g} of the loss at held-out points, in {len(loose)} of "
             f"{count} fits ({{}}): the fitted points do not determine the held-out ones; hold out "
             "less, or use a law with fewer parameters"),
            ("at-bound", ended, f"of {count} fits, {named} ended at a bound of the parameter's "
             "range ({}): its term is not needed, or its optimum lies beyond"),
        ]  # fmt: skip
        for text, those in rows[rows["undetermined"] != ""].groupby("undetermined", sort=False):
            message = f"{text} ({{}}): predictions at other values depend on where the search ended"
            given.append(("undetermined", those, message))
        for code, those, message in given:
            if len(those):
                first = f"{those['data'].iloc[0]}, {those['held_out'].iloc[0]}"
                more = ", …" if len(those) > 1 else ""
                notes.append(Note(code, "warning", f"{law}: {message.format(first + more)}"))
    return notes


def _s(count: int) -> str:
    return "" if count == 1 else "s"
