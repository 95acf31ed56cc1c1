"""What the inputs and parameters of a law are: their kind, unit, range and starting values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from jaxlaw._arrays import is_number, number_in, plain_array
from jaxlaw._typed import checked
from jaxlaw.errors import DataError, listed, nearest


@dataclass(frozen=True)
class Input:
    """A quantity a law takes, one value per observation.

    Attributes:
        name: the symbol, as in the papers (``N``, ``D``, ``r`` …).
        doc: its meaning.
        unit: size of 1 in the law's own unit, in single things (parameters, tokens,
            FLOPs): 1.0 where the law counts single ones, 1e9 where it counts billions.
        domain: the values that are possible at all.
        plausible: range in single things outside which the unit is surely mistaken.
        per_drop: whether an observation has one value for every drop of its learning rate so
            far, (n, K) for n observations; then the law sums over K. Given one value an
            observation, (n,), that is its only drop.
        levels: labels that the input may take, such as names of corpora; the law sees the number
            of the label, from 0 on.
        above_zero: whether 0, though a fraction, is refused: the law is infinite there.
        mixture: whether it is a mixture ratio, together with the law's other inputs
            that say so: they add up to 1 and are refused where they do not.
        counts: what it is a number of, for people: ``parameters``, ``tokens``, ``FLOPs``; empty
            for a quantity without such a unit.

    Example:
        >>> jl.laws.Input("N", "parameters, in billions", unit=1e9, domain="positive").unit
        1000000000.0
    """

    name: str
    doc: str = ""
    unit: float = 1.0
    domain: Literal["positive", "nonnegative", "fraction", "real"] = "real"
    plausible: tuple[float, float] | None = None
    per_drop: bool = False
    levels: tuple[str, ...] = ()
    above_zero: bool = False
    mixture: bool = False
    counts: Literal["", "parameters", "tokens", "FLOPs"] = ""

    def codes(self, values: Any) -> Any:
        """Labels as their numbers, of the same shape; whatever has no levels stays as it is.

        Args:
            values: labels.

        Raises:
            DataError: a label that the input does not take.

        Example:
            >>> jl.laws.Input("group", levels=("c4", "pile")).codes(["pile", "c4"]).tolist()
            [1.0, 0.0]
        """
        if not self.levels:
            return values
        labels = np.asarray(plain_array(values), object)
        known = {label: k for k, label in enumerate(self.levels)}
        # Labels that are numbers: 1 and 1.0 are one, whatever the column of a table made of it.
        known |= {number_in(label): k for label, k in known.items() if number_in(label) is not None}
        codes = []
        for label in labels.ravel():
            code = known.get(str(label), known.get(label) if is_number(label) else None)
            if code is None:
                raise DataError(
                    f"input {self.name} is {label!r}; it takes {listed(self.levels)}."
                    f"{nearest(str(label), self.levels)}",
                    value=label,
                )
            codes.append(code)
        return np.asarray(codes, float).reshape(labels.shape)

    def labels_of(self, codes: Any) -> Any:
        """What :meth:`codes` takes for these numbers; whatever has no levels stays as it is."""
        if not self.levels:
            return codes
        return np.array(self.levels, object)[np.round(np.asarray(codes, float)).astype(int)]


#: Inputs known by name; a law that uses another name gets a plain real input.
INPUTS = {
    known.name: known
    for known in (
        Input("N", "model parameters", 1.0, "positive", (1e3, 1e15), counts="parameters"),
        Input("D", "training tokens", 1.0, "positive", (1e4, 1e17), counts="tokens"),
        Input("U", "unique training tokens", 1.0, "positive", (1e4, 1e17), counts="tokens"),
        Input("r", "mixture ratio of the corpus", 1.0, "fraction"),
        Input("C", "training compute in FLOPs", 1.0, "positive", (1e10, 1e30), counts="FLOPs"),
        Input(
            "experts", "experts of a routed layer, 1 for a dense model", 1.0, "positive", (0.5, 1e6)
        ),
        Input("Dp", "pretraining tokens", 1.0, "positive", (1e4, 1e17), counts="tokens"),
        Input("S1", "sum of learning rates over steps", 1.0, "positive"),
        Input("S2", "annealing area, learning rate × steps"),
        Input("S1_pt", "sum of learning rates over the steps of pre-training", 1.0, "positive"),
        Input("S1_cpt", "sum of learning rates over the continual steps", 1.0, "nonnegative"),
        Input("S2_pt", "annealing area of pre-training, learning rate × steps"),
        Input("S2_cpt", "annealing area of the continual phase, learning rate × steps"),
        Input("group", "group of runs, such as a corpus"),
        Input("drop", "fall of the learning rate at step k, η_(k−1) − η_k", per_drop=True),
        Input("eta_k", "the learning rate it fell to", 1.0, "positive", per_drop=True),
        Input("S_k", "sum of learning rates from step k on", 1.0, "nonnegative", per_drop=True),
    )
}


@dataclass(frozen=True)
class Parameter:
    """A number a law is fitted by.

    Attributes:
        name: ASCII name of the symbol.
        scale: the coordinate it is searched in, ``log`` (a positive number of unknown
            size) or ``linear``.
        low, high: its range. For a centred parameter this is the value at the
            centre of the data (see ``centre``), so the range does not depend on units.
        start: the range starting values are drawn from, likewise.
        centre: exponents by which its value moves with the unit of an input:
            ``{"N": "alpha"}`` says that it carries the unit N^alpha. The search then moves
            A / N0^alpha, its size at the geometric mean N0 of the data, which is uncorrelated
            with alpha, where A itself is not. A wrong centre makes the search slower, and the
            fitted law is the same.
        grid: starting values (natural, not centred): the source's, or where it prints
            none jaxlaw's own; None: there are none.
        unit: text for people.
        doc: its meaning.

    Example:
        >>> jl.laws.get("chinchilla").parameter("A").centre
        {'N': 'alpha'}
    """

    name: str
    scale: Literal["log", "linear"]
    low: float
    high: float
    start: tuple[float, float]
    centre: Mapping[str, str | float] | None = None
    grid: tuple[float, ...] | None = None
    unit: str = "1"
    doc: str = ""

    @property
    def domain(self) -> str:
        """The domain in words: positive, ``[low, high]`` or signed."""
        if self.scale == "log":
            return "positive"
        return f"[{self.low:g}, {self.high:g}]" if self.low >= 0 else "signed"


@checked
def positive(
    start_low: float = 0.01,
    start_high: float = 10.0,
    *,
    low: float = 1e-8,
    high: float = 1e8,
    **details: Any,
) -> Any:
    """A positive number searched on the log scale: a coefficient, a size, a scale.

    A :class:`Parameter`; typed ``Any``, for it stands where a law's formula has a number.

    Args:
        start_low, start_high: range that starts are drawn from; of a centred parameter its size at
            the centre of the data.
        low, high: range it may lie in, likewise.
        **details: other attributes of :class:`Parameter`.

    Example:
        >>> jl.laws.positive(0.1, 10, centre={"N": "alpha"}).start
        (0.1, 10)
    """
    return Parameter("", "log", low, high, (start_low, start_high), **details)


@checked
def exponent(
    start_low: float = 0.05,
    start_high: float = 1.0,
    *,
    low: float = 1e-3,
    high: float = 10.0,
    **details: Any,
) -> Any:
    """A positive exponent, searched as it is. Typed as :func:`positive` is.

    Args:
        start_low, start_high: range that starts are drawn from.
        low, high: range it may lie in.
        **details: other attributes of :class:`Parameter`.

    Example:
        >>> jl.laws.exponent(0.2, 0.5).scale
        'linear'
    """
    return Parameter("", "linear", low, high, (start_low, start_high), **details)


@checked
def real(
    start_low: float = -1.0,
    start_high: float = 1.0,
    *,
    low: float = -1e8,
    high: float = 1e8,
    **details: Any,
) -> Any:
    """A number of either sign. Typed as :func:`positive` is.

    Args:
        start_low, start_high: range that starts are drawn from.
        low, high: range it may lie in.
        **details: other attributes of :class:`Parameter`.

    Example:
        >>> jl.laws.real(unit="nats").domain
        'signed'
    """
    return Parameter("", "linear", low, high, (start_low, start_high), **details)
