"""Coefficients that papers print, and the library of the field, as laws without data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from jaxlaw import laws
from jaxlaw._quantities import written_range
from jaxlaw.data import area_options
from jaxlaw.fitting._fitted_law import FittedLaw
from jaxlaw.fitting._prior import Experiment, field_experiments
from jaxlaw.notes import Note


@dataclass(frozen=True)
class _Printed:
    """What a source prints.

    Attributes:
        law: its name.
        params: parameter → value in the law's own units.
        source: paper and place.
        remarks: notes beside the source's own.
        uncertainty: uncertainty as the source gives it.
        ranges: input → (lowest, highest) of its runs, where it says so.
        area_options: options of its areas.
    """

    law: str
    params: Mapping[str, float]
    source: str
    remarks: tuple[Note, ...] = ()
    uncertainty: str = "none given"
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    area_options: Mapping[str, Any] | None = None
    search: str = "no data, no search"


_HOFFMANN = {"N": (70e6, 16e9), "D": (5e9, 500e9)}
_ROUNDED = Note(
    "rounded",
    "info",
    "printed to two digits of the exponents: allocations far away drift with them",
)
_BADLY_CONVERGED = Note(
    "badly-converged",
    "warning",
    "known to be badly converged: its objective was averaged, and the solver stopped early "
    "(Besiroglu 2024); besiroglu-2024 is the same data's optimum",
    inherited=True,
)
_CLARK_RUNS = Note(
    "rounded",
    "info",
    "to three decimals, whose last digits move the loss by up to 3 %; all runs saw 130 B "
    "tokens, and each token uses one expert",
)
_WANG_BETA = Note(
    "not-printed",
    "warning",
    "β is not printed: 0.4 is put in its place. After S1_cpt = 1 that is 84 % of the shift, where "
    "0.2 makes 60 % and 0.8 makes 98 %: what depends on steps depends on it",
    inherited=True,
)
_WANG_SIGNS = Note(
    "misprint",
    "warning",
    "B and a2 are printed as −0.526 and 5.696, a shift beyond 100 nats: both signs are turned "
    "here, a shift of at most half a nat. a1 is printed with r_pt, and read with r_cpt as in "
    "eq. 8",
    inherited=True,
)
_WANG = {
    "source": "Wang 2025, figure 19",
    "ranges": {"r": (0.0, 1.0)},
    "area_options": area_options(decay=0.999, count_warmup=False),
}
_WANG_LEFT_OUT = Note(
    "left-out",
    "info",
    "FineWeb, then Knowledge Pile; the schedules of the fitted curves are drawn, not printed "
    "(40,000 and 10,000 steps, peak 2e-4), so areas have no ranges here",
)
_ZHENG = {"N": (50e6, 5.5e9)}
_ZHENG_LEFT_OUT = Note(
    "left-out",
    "info",
    "up to 20 tokens a parameter; the paper does not say where along the curves losses were taken",
)
_ISIK = {
    "": "Isik 2024, table 3: half English, half the target language",
    "-english": "Isik 2024, table 5: English alone",
}
_ISIK_LEFT_OUT = Note(
    "left-out",
    "info",
    "T5 of 3 B parameters, BLEU in points; the checkpoints are drawn, not printed, and rounding "
    "of log A and alpha alone moves the score by some points in the thousandfold cases",
)


_ISIK_MISPRINT = Note(
    "misprint",
    "warning",
    "log A is printed as −0.115.03: read as −115.03, which gives scores",
    inherited=True,
)
_ISIK_REPRINTED = Note("reprinted", "info", "read where table 6 prints the rows of table 5 again")
_ISIK_BREAKS = Note(
    "breaks",
    "warning",
    "the scores of this corpus fall beyond some size (§5): the law holds for the smaller ones",
    inherited=False,
)


def _isik(
    task: str, log_A: float, alpha: float, beta: float, corpus: str = "", *more: Note
) -> _Printed:
    params = {"log_A": log_A, "alpha": alpha, "beta": beta}
    source = f"{_ISIK[corpus]}; {task}"
    return _Printed("downstream-bleu", params, source, (_ISIK_LEFT_OUT, *more))


def _clark(*params: float) -> _Printed:
    """A router's coefficients, in the order in which the law has them."""
    names = ("a", "b", "c", "d", "E_start", "E_max")
    return _Printed(
        "clark",
        dict(zip(names, params, strict=True)),
        "Clark 2022, arXiv 2202.01169, table 3",
        (_CLARK_RUNS,),
        ranges={"N": (15e6, 1.3e9), "experts": (1, 512)},
    )


def _of_compute(setting: str, factor: float, power: float) -> dict[str, float]:
    """A power law of the compute, 6·N·D, as one of N and D."""
    at_reference = factor * laws.REFERENCE["C"] ** power
    return {f"{setting}_0": at_reference, f"{setting}_N": power, f"{setting}_D": power}


def _of_size(setting: str, factor: float, of_N: float, of_D: float = 0.0) -> dict[str, float]:
    """A power law of N and D, counted one by one, in the parameters of the law."""
    at_reference = factor * laws.REFERENCE["N"] ** of_N * laws.REFERENCE["D"] ** of_D
    return {f"{setting}_0": at_reference, f"{setting}_N": of_N, f"{setting}_D": of_D}


# Formulas for a batch that is held (Bjorck 2024) are of another optimum, those of the loss
# (Kaplan 2020, MiniCPM) need a law of the loss first: neither is here.
_LI = Note(
    "left-out",
    "info",
    "N is counted without embeddings, of routed models all parameters; AdamW, a cosine to a final "
    "rate of 1e-5 whatever its peak, 2,048 tokens a sequence",
)
_LI_RANGES = {"N": (60e6, 1.074e9), "D": (2e9, 1e11)}
_DEEPSEEK = Note(
    "left-out",
    "info",
    "printed in C = M·D, M FLOPs a token without embeddings and with attention, which is read here "
    "as 6·N; runs of 1e17 to 2e19 FLOPs at all settings within 0.25 % of the lowest loss",
)
_PORIAN = Note(
    "left-out",
    "info",
    "of runs with some 20 tokens a parameter, so that what D does alone is not in it; N has the "
    "head, AdamW with β2 tuned; of the batch 0.00037·N^0.703 sequences of 2,048 tokens are printed",
)

_PRINTED: Mapping[str, _Printed] = {
    "kaplan-2020": _Printed(
        "kaplan",
        {"Nc": 6.4e13, "Dc": 1.8e13, "alpha_N": 0.076, "alpha_D": 0.103},
        "Kaplan 2020, eq. 1.5 and table 2",
        (Note("left-out", "info", "N is counted without embeddings; WebText2, early stopping"),),
        ranges={"N": (768.0, 1.5e9), "D": (22e6, 23e9)},
    ),
    "hoffmann-2022": _Printed(
        "chinchilla",
        {"E": 1.69, "A": 406.4, "B": 410.7, "alpha": 0.34, "beta": 0.28},
        "Hoffmann 2022, eq. 10",
        (_ROUNDED, _BADLY_CONVERGED),
        ranges=_HOFFMANN,
    ),
    "hoffmann-2022-unrounded": _Printed(
        "chinchilla",
        {
            "E": math.exp(0.52672),
            "A": math.exp(6.00734),
            "B": math.exp(6.01792),
            "alpha": 0.33917,
            "beta": 0.28491,
        },
        "Hoffmann 2022, eq. 10, unrounded as in its source files (Besiroglu 2024)",
        (_BADLY_CONVERGED,),
        ranges=_HOFFMANN,
    ),
    "besiroglu-2024": _Printed(
        "chinchilla",
        {"E": 1.81724, "A": 477.84, "B": 2143.86, "alpha": 0.347313, "beta": 0.367183},
        "Besiroglu 2024, Chinchilla scaling: a replication attempt (its repository's values)",
        (Note("left-out", "info", "240 runs read off figure 4 of Hoffmann 2022"),),
        "standard errors (4,000 resamples): E 0.0257, A 124.5, B 1293, alpha 0.0154, beta "
        "0.0206; 95 % intervals: E 1.769 to 1.871, A 285.2 to 743.6, B 1042 to 5810, alpha 0.317 "
        "to 0.373, beta 0.331 to 0.415",
        ranges={"N": (57.3342e6, 16.18335e9)},
    ),
    "farseer-2025": _Printed(
        "farseer",
        {"s": -0.06247, "q": 0.13, "S": 0.1285, "B": 230.73, "b": -0.1729, "Q": -1.5442}
        | {"A": -1.6656, "a": 0.0459, "E": 3.1333},
        "Farseer 2025, arXiv 2506.10972",
        (
            Note("rounded", "info", "rounded: the loss moves by 0.02 % with the last digits"),
            Note("left-out", "info", "the loss is per byte; N and D are counted one by one"),
        ),
        ranges={"N": (99.6e6, 6.37e9), "D": (1e9, 512e9)},
    ),
    "muennighoff-2023": _Printed(
        "repetition",
        {"E": math.exp(0.6254804), "A": math.exp(6.255414), "B": math.exp(7.3049974)}
        | {"alpha": 0.3526596, "beta": 0.3526596, "R_D": 15.387756, "R_N": 5.309743},
        "Muennighoff 2023, arXiv 2305.16264",
        (
            Note(
                "local-optimum",
                "warning",
                "of its 182 runs this is a local optimum: jl.fit reaches less than half of its "
                "objective, with an R_N that has no upper bound",
                inherited=True,
            ),
        ),
    ),
    "zheng-2024-scratch": _Printed(
        "chinchilla",
        {"E": 1.55, "A": 420.0, "B": 719.5, "alpha": 0.40, "beta": 0.30},
        "Zheng 2024, table 2: from scratch",
        (_ZHENG_LEFT_OUT, _ROUNDED),
        ranges=_ZHENG,
    ),
    "zheng-2024-cpt": _Printed(
        "cpt-chinchilla",
        {"E": 1.55, "A": 420.0, "B": 433.3, "alpha": 0.40, "beta": 0.20, "gamma": 0.08},
        "Zheng 2024, table 2: continual pre-training from English to Chinese",
        (_ZHENG_LEFT_OUT, _ROUNDED),
        ranges=_ZHENG,
    ),
    "zheng-2024-frontier-scratch": _Printed(
        "loss-compute",
        {"a": 33.69907, "b": 0.0579},
        "Zheng 2024, §4.2: lowest loss at each compute, from scratch",
    ),
    "zheng-2024-frontier-cpt": _Printed(
        "loss-compute",
        {"a": 31.9594, "b": 0.0575},
        "Zheng 2024, §4.2: lowest loss at each compute, continual",
    ),
    "clark-2022-s-base": _clark(-0.082, -0.108, 0.009, 1.104, 1.847, 314.478),
    "clark-2022-rl-r": _clark(-0.083, -0.126, 0.012, 1.111, 1.880, 469.982),
    "clark-2022-hash": _clark(-0.087, -0.136, 0.012, 1.157, 4.175, 477.741),
    "li-2025-lr": _Printed(
        "best-lr",
        _of_size("lr", math.exp(0.586), -0.713, 0.307),
        "Li 2025 (Step Law), arXiv 2503.04715",
        (_LI,),
        "95 % intervals (1,000 resamples): lr_N -0.774 to -0.655, lr_D 0.271 to 0.345",
        _LI_RANGES,
    ),
    "li-2025-batch": _Printed(
        "best-batch",
        _of_size("batch", math.exp(-0.544), 0.0, 0.571),
        "Li 2025 (Step Law), arXiv 2503.04715",
        (_LI,),
        "95 % interval (1,000 resamples): batch_D 0.534 to 0.606",
        _LI_RANGES,
    ),
    "deepseek-2024-lr": _Printed(
        "best-lr",
        _of_compute("lr", 0.3118, -0.1250),
        "Bi 2024 (DeepSeek LLM), eq. 1",
        (_DEEPSEEK,),
    ),
    "deepseek-2024-batch": _Printed(
        "best-batch",
        _of_compute("batch", 0.2920, 0.3271),
        "Bi 2024 (DeepSeek LLM), eq. 1",
        (_DEEPSEEK,),
    ),
    "porian-2024-lr": _Printed(
        "best-lr",
        _of_size("lr", 3.7, -0.36),
        "Porian 2024, arXiv 2406.19146, as others quote it",
        (_PORIAN,),
    ),
    "porian-2024-batch": _Printed(
        "best-batch",
        _of_size("batch", 0.00037 * 2048, 0.703),
        "Porian 2024, arXiv 2406.19146, as others quote it",
        (_PORIAN,),
    ),
    "openeurollm-lr": _Printed(
        "best-lr",
        {"lr_0": 5.392e-4, "lr_N": -0.3816, "lr_D": 0.1189},
        "OpenEuroLLM, dense_english_scaling_laws @781af436: the 45 minima of its sweeps",
        (
            Note(
                "left-out",
                "info",
                "minima of smoothed losses, two of them 40 % below the others (0.98 B parameters, "
                "80 and 120 B tokens); of the batch they print sequences and not how long they are",
            ),
        ),
        "standard errors (4,000 resamples): lr_0 4.4e-5, lr_N 0.045, lr_D 0.041",
        {"N": (47.6e6, 983e6), "D": (6e9, 300e9)},
        search="fitted by jaxlaw to minima that are not shipped",
    ),
    "wang-2025-pt": _Printed(
        "cpt-curve-replay-pt",
        {"L0": 3.067, "A": 0.480, "alpha": 0.510, "C1": 0.280, "C2": 0.263, "a1": 0.055}
        | {"B": 0.276, "E": 99.35, "beta": 0.4, "a2": 3.238},
        remarks=(_WANG_BETA, _WANG_LEFT_OUT),
        **_WANG,
    ),
    "wang-2025-cpt": _Printed(
        "cpt-curve-replay-cpt",
        {"L0": 2.992, "A": 0.456, "alpha": 0.510, "C1": 0.285, "C2": 0.279, "a1": 0.037}
        | {"B": 0.526, "E": 100.34, "beta": 0.4, "a2": -5.696},
        remarks=(_WANG_BETA, _WANG_SIGNS, _WANG_LEFT_OUT),
        **_WANG,
    ),
    "isik-2024-en-de-6M": _isik("en-de, 6M tokens", -180.75, 9.00, 0.75),
    "isik-2024-en-de-31M": _isik("en-de, 31M tokens", -1.68e3, 84.04, 0.49),
    "isik-2024-en-de-3B": _isik("en-de, 3B tokens", -1.64e8, 9.91e6, 0.19),
    "isik-2024-en-fr-42M": _isik("en-fr, 42M tokens", -1.82e4, 8.98e2, 0.42),
    "isik-2024-en-fr-210M": _isik("en-fr, 210M tokens", -2.33e4, 1.21e3, 0.40),
    "isik-2024-en-fr-21B": _isik("en-fr, 21B tokens", 5.08e3, 4.61e8, 0.16),
    "isik-2024-en-ro-625K": _isik("en-ro, 625K tokens", -36.02, 1.77, 1.28),
    "isik-2024-en-ro-3M": _isik("en-ro, 3M tokens", -115.03, 5.69, 0.89, "", _ISIK_MISPRINT),
    "isik-2024-en-ro-312M": _isik("en-ro, 312M tokens", -1.82e4, 9.04e2, 0.40),
    # Of table 5 the row of en-fr and 42M tokens is left out: log A = 1.00 and β = 1.11e4, and the
    # rounding of log A alone moves the score by a factor of e^55 either way.
    "isik-2024-en-de-6M-english": _isik("en-de, 6M tokens", -1.88, 0.15, 3.30, "-english"),
    "isik-2024-en-de-31M-english": _isik("en-de, 31M tokens", -1.81e4, 896.12, 0.28, "-english"),
    "isik-2024-en-de-3B-english": _isik("en-de, 3B tokens", 1.02e-7, 104.92, 0.42, "-english"),
    # Table 5 breaks off there as extracted; where table 6 should print the losses' law, it has the
    # rows of table 5 again, and these among them.
    "isik-2024-en-ro-625K-english": _isik(
        "en-ro, 625K tokens", -10.54, 0.55, 1.12, "-english", _ISIK_REPRINTED
    ),
    "isik-2024-en-ro-3M-english": _isik(
        "en-ro, 3M tokens", -40.41, 2.11, 0.79, "-english", _ISIK_REPRINTED
    ),
    "isik-2024-en-ro-312M-english": _isik(
        "en-ro, 312M tokens", 3.61, 8.17e5, 0.19, "-english", _ISIK_REPRINTED
    ),
    "isik-2024-en-fr-210M-english": _isik(
        "en-fr, 210M tokens", -6.38e7, 3.43e6, 0.20, "-english", _ISIK_BREAKS
    ),
}


#: Begins the names of fits of the library of the field.
FIELD = "field-"


def published() -> dict[str, FittedLaw]:
    """Coefficients that papers print, and the library of the field, as laws without data.

    Of papers there was no search and there are no data, so they have no evidence. A range that the
    source does not print is NaN, so that :meth:`jaxlaw.FittedLaw.is_extrapolation` is True there.
    Inputs are in the law's own units. Notes give the uncertainty, what the source leaves out, and
    what was put in its place.

    The library of the field is what the default prior rests on: public experiments, each fitted by
    skaling and chinchilla (``benchmarks/field.py``), and the frontier of skaling by loss-compute-e.
    Notes say who made the runs, under which licence, how many there are and how they scatter.

    Returns:
        Name → :class:`jaxlaw.FittedLaw`; those of the field are named
        ``field-SOURCE-EXPERIMENT-LAW``.

    Example:
        >>> float(jl.published()["hoffmann-2022"].predict(N=70e9, D=1.4e12).round(3))
        1.937
        >>> floor = jl.published()["field-stepfun-farseer-chinchilla"].params["E"]
        >>> bool(0.3 < floor < 0.6)  # per byte
        True
    """
    return {name: _fitted(name, printed) for name, printed in _all().items()}


def published_table() -> pd.DataFrame:
    """The coefficients of :func:`published` as a table, one row each.

    Returns:
        Columns ``name``, ``law``, ``parameters``, ``units``, ``source``, ``uncertainty`` and
        ``left_out``.

    Example:
        >>> "besiroglu-2024" in set(jl.published_table()["name"])
        True
    """
    rows = []
    for name, printed in _all().items():
        params = ", ".join(f"{key} {value:.6g}" for key, value in printed.params.items())
        left_out = "; ".join(note.message for note in printed.remarks)
        units = laws.units_of(laws.built_in(printed.law))
        rows.append(
            (name, printed.law, params, units, printed.source, printed.uncertainty, left_out)
        )
    names = ["name", "law", "parameters", "units", "source", "uncertainty", "left_out"]
    return pd.DataFrame(rows, columns=names)


def _all() -> dict[str, _Printed]:
    """What papers print, then the library of the field."""
    return {**_PRINTED, **{field_name(one): _of_field(one) for one in field_experiments()}}


def field_name(one: Experiment) -> str:
    """What an experiment of the library of the field is called here."""
    return f"{FIELD}{one.source}-{one.name}-{one.law}"


def _of_field(one: Experiment) -> _Printed:
    """The fit of an experiment: natural parameters of its coordinates, and what is known of it."""
    law = laws.built_in(one.law)
    names = ("log_floor", *law.scale_free.words)
    known = dict(zip(names, one.mean, strict=True))
    # The loss at the reference point, of which the floor is the share that is said.
    loss = np.exp(known["log_floor"]) * (1 + np.exp(-known["share"]))
    params = law.scale_free.to_params(loss, known)
    errors = zip(names, np.sqrt(np.diag(one.covariance)), strict=True)
    counts = {spec.name: spec.counts for spec in law.inputs}
    ranges = "; ".join(
        f"{name} {written_range(*pair, counts[name], 1.0)}" for name, pair in one.ranges.items()
    )
    message = (
        f"{one.runs} runs of {one.source}, evaluation {one.evaluation}; {ranges}; a run lies "
        f"{one.noise:.2%} off the law"
    )
    return _Printed(
        one.law,
        {name: float(params[name]) for name in law.parameter_names},
        one.reference,
        (Note("of-the-field", "info", message),),
        "standard errors of the coordinates "
        + ", ".join(f"{name} {error:.2g}" for name, error in errors),
        ranges=one.ranges,
        search="fitted by jaxlaw to runs that are not shipped",
    )


def _fitted(name: str, printed: _Printed) -> FittedLaw:
    law = laws.built_in(printed.law)
    notes = [
        Note("published", "info", f"{name}: {printed.source}; {printed.search}"),
        Note("uncertainty", "info", f"of the coefficients: {printed.uncertainty}"),
        *printed.remarks,
    ]
    unknown = [key for key in law.input_names if key not in printed.ranges]
    if unknown:
        missing = ", ".join(unknown)
        message = f"the source prints no range of {missing}: every point counts as outside"
        notes.append(Note("range-unknown", "info", message))
    return FittedLaw(
        law, dict(printed.params), ranges=dict(printed.ranges), source=printed.source,
        notes=tuple(notes),
        area_options=None if printed.area_options is None else dict(printed.area_options),
    )  # fmt: skip
