"""What a report says of a study."""

from __future__ import annotations

from typing import Any

import pandas as pd

from jaxlaw.reporting.fits import NO_PICTURES
from jaxlaw.reporting.page import Html, Section, element, folded, note_list, pairs, table, tiles
from jaxlaw.reporting.pictures import can_draw, of_study
from jaxlaw.validation import Study
from jaxlaw.validation._scoring import score_text

_FOLDS = 400  # rows of the table of folds: a study has thousands
_SPREADS = 20  # rows of the table of parameters that are shown at once
_SCORES = {"huber": "Huber", "r2": "R²"}
_VERDICTS = {
    "best": "best",
    "tie": "tie: the difference is noise",
    "worse": "worse",
    "untested": "behind, by one fold",
    "failed": "failed where the best did not",
}


def study_parts(study: Study) -> tuple[str, str, Html, list[Section]]:
    """Title, lead, first numbers and sections of the report on a study."""
    names = ", ".join(study.laws)
    said = "Nothing in the fits gave reason for a warning."
    sections = [
        Section(
            "What to know first",
            (note_list(study.notes) if study.notes else element("p", said),),
        ),
        Section("Laws and folds", _design(study)),
        Section("Scores", _scores(study)),
        Section("Ranking", _ranking(study)),
        Section("Pictures", tuple(of_study(study)) if can_draw() else (NO_PICTURES,)),
        Section("Parameters", _parameters(study)),
        Section("Folds", _folds(study)),
    ]
    first = tiles(
        [
            ("laws", f"{len(study.laws)}"),
            ("data sets", f"{study.frame['data'].nunique()}"),
            ("folds", f"{study.n_folds}"),
            ("fits", f"{len(study.frame)}"),
            ("failed", f"{study.n_failed}"),
        ]
    )
    lead = f"Fitted on parts of the runs, asked for the rest: {study.design}"
    return f"A study of {names}", lead, first, sections


def _design(study: Study) -> tuple[Any, ...]:
    laws = [
        (label, name, constraint or "none", study.sizes[label])
        for label, (name, constraint) in study.laws.items()
    ]
    items = [
        ("folds", study.design),
        ("target", study.target),
        ("score", f"Huber loss of log residuals, summed, δ {study.delta:g}, and R²"),
        ("data sets", ", ".join(study.frame["data"].unique())),
    ]
    head = ("called", "law", "constraint", "fitted parameters")
    return table(head, laws, "The laws"), pairs(items, "The design")


def _scores(study: Study) -> tuple[Any, ...]:
    parts = []
    for centre in ("mean", "median") if study.n_folds > 2 else ("mean",):
        scores = study.table(centre=centre)
        for metric, name in _SCORES.items():
            rows = [
                (law, *(score_text(metric, value) for value in row))
                for law, row in zip(scores.index, scores[metric].to_numpy(float), strict=True)
            ]
            caption = f"{name} of held-out points, {centre}"
            parts.append(table(("law", *map(str, scores[metric].columns)), rows, caption))
    return (element("div", *parts, class_="side"),)


def _ranking(study: Study) -> tuple[Any, ...]:
    if len(study.laws) == 1:
        return (element("p", "One law: there is nothing to rank."),)
    ranked = study.ranking()
    rows = [
        (law, row.parameters, f"{row['mean']:.3g}", f"{row.ratio:.3g}",
         "" if pd.isna(row.p) else f"{row.p:.2g}", f"{row.wins:.0%}", row.failed,
         _VERDICTS[row.verdict])
        for law, row in ranked.iterrows()
    ]  # fmt: skip
    head = (
        "law",
        "parameters",
        "Huber, mean of folds",
        "× best",
        "p",
        "folds won",
        "failed",
        "verdict",
    )
    said = (
        "Laws are compared by the ratio of their held-out Huber, fold by fold: a paired t-test, "
        "corrected for folds that share points and for several laws."
    )
    return table(head, rows, "Laws, the best first", words=(7,)), element("p", said)


def _parameters(study: Study) -> tuple[Any, ...]:
    rows = [
        (row["parameter"], row["law"], row["data"],
         *(f"{row[one]:.4g}" for one in ("mean", "std", "min", "max")))
        for row in study.spread.to_dict("records")
    ]  # fmt: skip
    head = ("parameter", "law", "data", "mean", "deviation", "lowest", "highest")
    whole = table(head, rows, "How far parameters move from fold to fold")
    return (folded(f"{len(rows)} parameters", whole) if len(rows) > _SPREADS else whole,)


def _folds(study: Study) -> tuple[Any, ...]:
    frame = study.frame
    failed = frame[frame["failed"]]
    parts = [element("p", f"{len(failed)} of {len(frame)} fits failed.")]
    if len(failed):
        parts.append(_fold_table(failed, "Fits that failed"))
    return *parts, folded("Every fold", _fold_table(frame, "Every fold"))


def _fold_table(frame: pd.DataFrame, caption: str) -> Html:
    shown = frame.head(_FOLDS)
    if len(shown) < len(frame):
        caption += f": the first {len(shown)} of {len(frame)}; the rest is in the saved study"
    rows = [
        (*(row[one] for one in ("held_out", "law", "data", "n_fitted", "n_held_out")),
         f"{row['huber']:.3g}", score_text("r2", row["r2"]), score_text("r2", row["train_r2"]),
         f"{row['agreement']:.0%}", row["status"])
        for row in shown.to_dict("records")
    ]  # fmt: skip
    head = ("held out", "law", "data", "fitted", "asked", "Huber", "R²", "R² fitted",
            "starts agree", "status")  # fmt: skip
    return table(head, rows, caption)
