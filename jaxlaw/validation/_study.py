"""The result of a cross-validation: scores of every fold, tables, a ranking, notes, files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from jaxlaw._arrays import plain_array
from jaxlaw._result import Result
from jaxlaw._where import rows_where
from jaxlaw.errors import UsageError
from jaxlaw.fitting import SCORES, score_text
from jaxlaw.fitting._diagnostics import FEW
from jaxlaw.notes import Note
from jaxlaw.validation._comparison import rank

_WIDE = 80  # columns of a page
#: Columns that say which fit a row of :attr:`Study.frame` or :attr:`Study.parameters` is of.
KEYS = ("law", "data", "corpus", "fold", "held_out")
#: Columns of :attr:`Study.frame`, in order.
FRAME = (
    *KEYS, "n_fitted", "n_held_out", "extrapolates", *SCORES,
    *(f"train_{name}" for name in SCORES), "objective", "status", "agreement", "spread", "failed",
)  # fmt: skip
#: Columns of :attr:`Study.parameters`.
PARAMETERS = (*KEYS, "parameter", "value", "at_bound")
#: Codes of the notes that the frame alone decides, which :meth:`Study.only` makes anew.
_FRAME_CODES = frozenset(
    "folds-failed not-converged few-starts-agree undetermined at-bound far-folds "
    "constant-held-out one-fold".split()
)
VERDICTS = {
    "tie": "tie (the difference is noise)",
    "worse": "worse",
    "untested": "behind, by one fold",
    "failed": "failed where the best did not",
}
SPREAD = 1e-3  # relative difference of predictions that agreeing starts should not have
FAR = 100  # times the median Huber, or 1 − R²: such a fold makes the mean
_PARTS = 0.5  # share of far folds at a bound, beyond that of the others, that points to the bound


@dataclass(frozen=True, eq=False, repr=False)
class Study(Result):
    """Laws fitted on parts of the runs and scored on the rest.

    Attributes:
        design: name of the fold design.
        laws: label of a law → (its name, its constraint or None).
        sizes: label of a law → number of fitted parameters.
        target: name of what is predicted.
        delta: Huber threshold of the scores.
        frame: one row a law, data set and fold: ``law``, ``data``, ``corpus`` (the last part of
            the data set's name), ``fold``, ``held_out``, ``n_fitted``, ``n_held_out``; on the
            held-out points ``huber`` (Huber loss of log residuals, summed over the points, as
            in Que's tables; of residuals where a target is not positive), ``mean_huber`` (per
            point), ``huber_linear`` and
            ``mean_huber_linear`` (of residuals), ``r2``, ``rmse``, and the same on the fitted
            ones, ``train_…``;
            ``extrapolates`` (some held-out point is outside the fitted range of an input);
            ``objective`` (summed Huber of the fit), ``status``, ``agreement``, ``spread``
            (largest relative difference of held-out predictions between starts that agree on
            the objective), ``failed`` (no finite fit or prediction; its scores are NaN).
        parameters: one row a law, data set, fold and ``parameter``; ``value`` is natural, in
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
        where = where if isinstance(where, str) else plain_array(where)
        keep, left_out = rows_where(where, dict(self.frame.items()), "the frame")
        if keep.shape != (len(self.frame),):
            message = f"where: give a condition, or a mask of {len(self.frame)} rows"
            raise UsageError(message, argument="where", value=where)
        frame = self.frame[keep]
        if frame.empty:
            raise UsageError(
                f"where: {where!r} keeps none of the {len(self.frame)} fits{left_out}",
                argument="where",
                value=where,
            )
        keys = ["law", "data", "fold"]
        kept = frame[keys].merge(self.parameters, on=keys, how="left")
        kept = kept[list(self.parameters.columns)]
        laws = {label: law for label, law in self.laws.items() if label in set(frame["law"])}
        frame = frame.reset_index(drop=True)
        others = (note for note in self.notes if note.code not in _FRAME_CODES)
        notes = (*frame_notes(frame, kept), *others)
        if left_out:
            message = f"where keeps {len(frame)} of {len(keep)} fits{left_out}"
            notes = (*notes, Note("filtered", "info", message))
        return dataclasses.replace(self, frame=frame, parameters=kept, laws=laws, notes=notes)

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
            One row a law; columns (metric, data set) and ``("parameters", "")``.

        Raises:
            UsageError: no such metric or centre.

        Example:
            >>> table = jl.simulate.experiment("chinchilla").table
            >>> study = jl.cross_validate("chinchilla", table, "k-fold:3", n_starts=64)
            >>> study.score_table(("r2",)).columns.get_level_values(0).tolist()
            ['r2', 'parameters']
        """
        for name in metrics:
            if name not in self.frame or self.frame[name].dtype.kind not in "iuf":
                raise UsageError(f"'{name}' is no column of numbers of the study's frame")
        if centre not in ("mean", "median"):
            raise UsageError(
                f"centre is 'mean' or 'median', not {centre!r}", argument="centre", value=centre
            )
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
            One row a law, the best first: ``parameters``; the ``mean`` score; its ``ratio`` to
            the best law's (above 1 is worse) and the ``p`` of that; ``wins``, the share of folds
            in which no law's score is better; ``failed`` folds; ``verdict``: ``best``, ``tie``
            (p of 0.05 or more, or a ratio within 1 %), ``worse``, ``untested`` (one fold),
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

        One row a law, data set and parameter: mean, standard deviation, lowest and highest.
        """
        groups = self.parameters.groupby(["law", "data", "parameter"], sort=False)["value"]
        return groups.agg(["mean", "std", "min", "max"]).reset_index()

    def shown(self) -> dict[str, pd.DataFrame]:
        """Held-out scores and the ranking: the folds are thousands of rows."""
        ranked = {"ranking": self.ranking} if len(self.laws) > 1 else {}
        scores = self.table
        if self.n_folds > 2:  # where one fold makes the mean, the median tells
            medians = self.score_table(centre="median").drop(columns="parameters", level=0)
            scores = scores.join(medians.rename(columns="median {}".format, level=1))
        return {"scores": scores, **ranked}

    @property
    def headline(self) -> str:
        """The law that is best on held-out points, how the others compare, and means to doubt."""
        doubts = [
            note.message.partition(" (")[0] for note in self.notes if note.code == "far-folds"
        ]
        r2 = self.frame.groupby("law", sort=False)["r2"].median()
        over = f"R² {{:.4f}} on held-out points in the median of {self.n_folds} folds"
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
        return "; ".join([f"{best} is best, {over.format(r2[best])}", *others, *doubts])

    def lines(self) -> list[str]:
        """The scores and the verdict, as text of 80 columns."""
        sets = self.frame["data"].nunique()
        head = (
            f"{len(self.laws)} law{_s(len(self.laws))} × {sets} data set{_s(sets)} × "
            f"{self.n_folds} fold{_s(self.n_folds)} ({self.design}); "
            f"{self.n_failed} of {len(self.frame)} fits failed"
        )
        tables, title = {"": self.table}, "mean"
        if self.n_folds > 2:
            tables, title = (
                tables | {"median ": self.score_table(centre="median")},
                "mean and median",
            )
        lines = [head, "", f"Scores of held-out points, {title} over folds", ""]
        return [*lines, *_pages(tables), "", *self._verdict()]

    def _verdict(self) -> list[str]:
        if len(self.laws) == 1:
            return []
        ranked = self.ranking
        lines = [f"By held-out Huber, fold by fold, {ranked.index[0]} is best."]
        for verdict, word in VERDICTS.items():
            rows = ranked[ranked["verdict"] == verdict]
            named = [
                f"{law} (× {row.ratio:.3g}" + (f", p {row.p:.2g})" if row.p == row.p else ")")
                for law, row in rows.iterrows()
            ]
            lines += [f"  {word}: {', '.join(named)}"] if named else []
        return lines


def frame_notes(frame: pd.DataFrame, parameters: pd.DataFrame) -> list[Note]:
    """Notes that the numbers alone decide."""
    return [
        *_notes_of_outliers(frame, parameters),
        *_notes_of_fits(frame),
        *_notes_of_bounds(parameters),
        *_notes_of_scores(frame),
    ]


def _notes_of_fits(frame: pd.DataFrame) -> Iterator[Note]:
    for law, rows in frame.groupby("law", sort=False):
        failed, rest = rows[rows["failed"]], rows[~rows["failed"]]
        if len(failed):
            message = (
                f"{law}: {len(failed)} of {len(rows)} fits failed ({_first(failed)}); they have no "
                "scores, and means are over the others"
            )
            yield Note("folds-failed", "warning", message)
        short = rest[rest["status"] != "converged"]
        if len(short):
            message = f"{law}: {len(short)} of {len(rows)} fits did not converge ({_first(short)})"
            yield Note("not-converged", "warning", message)
        lonely = rest[rest["agreement"] < FEW]
        if len(lonely):
            message = (
                f"{law}: in {len(lonely)} of {len(rows)} fits less than {FEW:.0%} of the starts "
                f"agree ({_first(lonely)}): a better optimum may exist; try more starts (n_starts=)"
            )
            yield Note("few-starts-agree", "warning", message)
        loose = rest[rest["spread"] > SPREAD]
        if len(loose):
            worst = loose.loc[[loose["spread"].idxmax()]]
            message = (
                f"{law}: starts that agree on the objective differ by up to "
                f"{float(worst['spread'].iloc[0]):.2g} of the loss at held-out points, in "
                f"{len(loose)} of {len(rows)} fits ({_first(worst)}): the fitted points do not "
                "determine the held-out ones"
            )
            yield Note("undetermined", "warning", message)


def _notes_of_bounds(parameters: pd.DataFrame) -> Iterator[Note]:
    """Parameters that ended where their range does."""
    for law, rows in parameters.groupby("law", sort=False):
        total = len(rows[["data", "fold"]].drop_duplicates())
        ended = rows[rows["at_bound"] != ""]
        counts = ended.groupby("parameter", sort=False).size()
        if len(counts):
            named = ", ".join(f"{name} in {count}" for name, count in counts.items())
            message = (
                f"{law}: of {total} fits, {named} end at an end of the parameter's range "
                f"({_first(ended)}): its term is not needed, or its optimum lies beyond"
            )
            yield Note("at-bound", "warning", message)


def _notes_of_outliers(frame: pd.DataFrame, parameters: pd.DataFrame) -> Iterator[Note]:
    """Folds whose score is far from the others', so that they alone make the mean."""
    scores = pd.DataFrame({"Huber": frame["huber"], "1 − R²": 1 - frame["r2"]})
    groups = scores.groupby([frame["law"], frame["data"]])
    enough = groups.transform("size").to_numpy() > 2
    far = (scores > FAR * groups.transform("median")) & enough[:, None]
    for law, rows in frame.groupby("law", sort=False):
        score = next((name for name in scores if far.loc[rows.index, name].any()), None)
        if score is None:
            continue
        made = rows[far.loc[rows.index, score]]
        worst, outside = (
            made.loc[scores.loc[made.index, score].idxmax()],
            made["extrapolates"].sum(),
        )
        message = (
            f"{law}: {len(made)} of {len(rows)} folds make the mean ({score} over {FAR} times the "
            f"median): {worst['data']}, {worst['held_out']}, has Huber "
            f"{score_text('huber', worst['huber'])} and R² {score_text('r2', worst['r2'])}; "
            f"{'all' if outside == len(made) else outside} extrapolate. "
            f"{_bound_that_parts(parameters[parameters['law'] == law], made)}Use the median."
        )
        yield Note("far-folds", "warning", message)


def _bound_that_parts(parameters: pd.DataFrame, far: pd.DataFrame) -> str:
    """The parameter that is at a bound in the far folds and not in the others, and a remedy."""
    keys = pd.MultiIndex.from_frame(parameters[["data", "fold"]])
    is_far = np.asarray(keys.isin(list(zip(far["data"], far["fold"], strict=True))))
    at_bound = parameters["at_bound"] != ""
    rate, others = (
        at_bound[kept].groupby(parameters.loc[kept, "parameter"], sort=False).mean()
        for kept in (is_far, ~is_far)
    )
    excess = (rate - others).dropna()
    if not (excess > _PARTS).any():
        return ""
    name = excess.idxmax()
    values, named = parameters["value"], parameters["parameter"] == name
    there = values[named & is_far & at_bound].median()
    low, high = values[named & ~is_far].quantile([0.1, 0.9])
    text = (
        f"In {rate[name]:.0%} of them {name} is at its bound ({there:.3g}; elsewhere {low:.2g} to "
        f"{high:.2g})"
    )
    if 0 < low and there < (limit := 10.0 ** np.floor(np.log10(low))):
        text += f": try bounds={{'{name}': ({limit:g}, None)}}"
    elif 0 < high and there > (limit := 10.0 ** np.ceil(np.log10(high))):
        text += f": try bounds={{'{name}': (None, {limit:g})}}"
    return f"{text}. "


def _notes_of_scores(frame: pd.DataFrame) -> Iterator[Note]:
    flat = frame[frame["r2"].isna() & ~frame["failed"]]
    if len(flat):
        message = (
            f"R² has no meaning in {len(flat)} of {len(frame)} fits, whose held-out targets are "
            f"all equal ({_first(flat)}); it is left out of means"
        )
        yield Note("constant-held-out", "info", message)
    if frame["fold"].max() == 1:
        message = "one fold: differences between laws are not tested against noise over folds"
        yield Note("one-fold", "info", message)


def _first(rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    return f"{first['data']}, {first['held_out']}" + (", …" if len(rows) > 1 else "")


def _pages(tables: dict[str, pd.DataFrame]) -> list[str]:
    """One table of all metrics where it fits a page, otherwise one each, data sets as rows.

    Args:
        tables: prefix of a metric's name → the scores of :meth:`Study.score_table`.
    """
    scores = [table.drop(columns="parameters", level=0) for table in tables.values()]
    sizes = next(iter(tables.values()))[("parameters", "")].rename("parameters")
    table = pd.concat(
        [
            part[[metric]]
            .map(partial(score_text, metric))
            .rename(columns={metric: prefix + SCORES.get(metric, metric)}, level=0)
            for metric in dict.fromkeys(scores[0].columns.get_level_values(0))
            for prefix, part in zip(tables, scores, strict=True)
        ],
        axis=1,
    )
    metrics = list(dict.fromkeys(table.columns.get_level_values(0)))
    alone = len(set(table.columns.get_level_values(1))) == 1
    whole = table.droplevel(1, axis=1) if alone else table.copy()
    whole.columns = [c if alone else " ".join(c) for c in whole.columns]
    text = pd.concat([sizes.astype(str), whole], axis=1).rename_axis(None).to_string()
    if max(map(len, text.splitlines())) <= _WIDE:
        return text.splitlines()
    lines = []
    for name in metrics:
        lines += [name, *table[name].T.rename_axis(columns=None).to_string().splitlines(), ""]
    return lines[:-1]


def _s(count: int) -> str:
    return "" if count == 1 else "s"
