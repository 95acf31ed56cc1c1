"""Quantities as people write and read them: 70B parameters, 15 T tokens, 1e25 FLOPs.

A table of runs may count in any unit, so a bare number is in the unit of the runs. A text that says
what it is, ``"15T"`` or ``"7e10 parameters"``, is read as what it says, whatever that unit.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from jaxlaw._arrays import plain_array, real_numbers
from jaxlaw.errors import UsageError

#: A number in the unit of the runs, or a text that says its unit, such as ``"15T"``.
Amount = float | str

#: Names of units: single things (parameters, tokens, FLOPs) in one of them.
UNIT_NAMES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}

#: Units of numbers that are large, which are written in thousands, millions, billions, trillions.
COUNTED = ("parameters", "tokens", "FLOPs")
SHARE = "share"  # of 1, as a unit: written in percent
RATIO = "ratio"  # of two counts, as a unit: written without one

HUGE = 1e100  # beyond it products of two overflow
UNKNOWN = (math.nan, math.nan)  # an unknown range

_NOUNS = {
    "parameters": ("parameter", "parameters", "param", "params"),
    "tokens": ("token", "tokens"),
    "FLOPs": ("flop", "flops"),
}
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_WORDS = {word: noun for noun, words in _NOUNS.items() for word in words}
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([KMBT]?)\s*({'|'.join(_WORDS)})?\s*", re.IGNORECASE)
# Runs are extrapolated by such a factor now and then, but hardly ever by more.
_FAR = 100.0
# Toy experiments are smaller than any plausible run; a point near their own runs is none too small.
_NEAR = 1e3


def single_things(text: str, noun: str = "") -> float | None:
    """How many single things a text says: ``"15T"`` is 1.5e13.

    Args:
        text: text with a number, one of K, M, B, T, and what is counted; the last two may miss.
        noun: what is counted here, ``parameters``, ``tokens`` or ``FLOPs``; empty if unknown.

    Returns:
        None if the text is no quantity, or a bare number, whose unit it does not say.

    Raises:
        UsageError: the text counts something else.

    Example:
        >>> from jaxlaw._quantities import single_things
        >>> single_things("1.02B"), single_things("7e10 parameters"), single_things("7e10")
        (1020000000.0, 70000000000.0, None)
    """
    match = _QUANTITY.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        return None
    said = _WORDS.get((match[3] or "").lower(), "")
    if said and noun and said != noun:
        raise UsageError(f"'{text.strip()}' is a number of {said}; {noun} are counted here")
    # In decimals, so that 1.1B is 1100000000 to the last bit.
    return float(Decimal(match[1]) * Decimal(UNIT_NAMES.get(match[2].upper(), 1)))


def in_unit(value, unit: float, noun: str = ""):
    """Quantities of a user in the unit of his runs: texts that say their unit become numbers.

    Args:
        value: number, text, or container of both; one of numbers alone stays as it is.
        unit: single things in one unit of the runs.
        noun: what is counted; empty if unknown.

    Returns:
        The same with a number in place of every quantity; other texts stay texts.

    Raises:
        UsageError: a text counts something else.

    Example:
        >>> from jaxlaw._quantities import in_unit
        >>> in_unit(["15T", 300], 1e9, "tokens")
        [15000.0, 300]
    """
    if getattr(getattr(value, "dtype", None), "kind", "O") in "OUT" and hasattr(value, "dtype"):
        value = plain_array(value).tolist()
    if isinstance(value, list | tuple):
        return [in_unit(one, unit, noun) for one in value]
    if not isinstance(value, str):
        return value
    count = single_things(value, noun)
    if count is not None:
        return count / unit
    try:
        return value if "_" in value else float(value)
    except ValueError:
        return value


def says_unit(value) -> bool:
    """Whether a value is a text that says its unit, or holds such texts alone."""
    if isinstance(value, list | tuple):
        return bool(value) and all(map(says_unit, value))
    return isinstance(value, str) and single_things(value) is not None


def checked_number(name: str, value, domain: str = "positive", unit: float = 1.0) -> float:
    """The number; raises UsageError where it is none, or outside its domain (times its unit)."""
    try:
        number = real_numbers(value).item()
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{name} must be one number: {error}") from None
    low, high, words = {
        "positive": (1 / HUGE, HUGE, "positive"), "nonnegative": (0, HUGE, "not negative"),
        "fraction": (0, 1, f"in [0, {1 / unit:g}]"),
    }.get(domain, (-HUGE, HUGE, "finite"))  # fmt: skip
    if not low <= number * unit <= high:
        beyond = abs(number) > HUGE or 0 < abs(number) < 1 / HUGE
        least = f", of a size between {1 / HUGE:g} and {HUGE:g}" if beyond else ""
        raise UsageError(f"{name} is {number:g}; it must be {words}{least}")
    return number


def readable(count: float, noun: str = "") -> str:
    """A number of single things as people say it, to three digits.

    Args:
        count: number of single things.
        noun: what is counted; empty for nothing after the number.

    Example:
        >>> from jaxlaw._quantities import readable
        >>> readable(4.08216e12, "tokens"), readable(1e25, "FLOPs"), readable(7e10)
        ('4.08 T tokens', '1e25 FLOPs', '70 B')
    """
    after = f" {noun}" if noun else ""
    size = abs(count)
    if not math.isfinite(count) or size < 1e3 or size >= 9.995e14 or noun == "FLOPs":
        return exponential(count) + after
    # The next name where rounding to three digits reaches it: 999,600 is 1 M.
    name = max((n for n in UNIT_NAMES if size >= 0.9995 * UNIT_NAMES[n]), key=UNIT_NAMES.get)
    return f"{count / UNIT_NAMES[name]:.3g} {name}{after}"


def written(value: float, unit: str = "", worth: float = 1.0) -> str:
    """A number of a result as people read it: with its unit, on a readable scale.

    Args:
        value: number.
        unit: what it counts (``parameters``, ``tokens``, ``FLOPs``, ``steps``), or what it is
            measured in, such as ``nats``; ``share`` of a part of 1; empty for a plain number.
        worth: single things in one unit of the runs, of what is counted.

    Example:
        >>> from jaxlaw._quantities import written
        >>> written(391.2, "parameters", 1e9), written(2.3274, "nats"), written(0.893, "share")
        ('391 B parameters', '2.327 nats', '89.3%')
    """
    number = number_of(value, unit, worth)
    return number if unit in ("", SHARE, RATIO) or math.isnan(value) else f"{number} {unit}"


def number_of(value: float, unit: str = "", worth: float = 1.0) -> str:
    """As :func:`written`, without the unit: for the cells of a table whose head has it."""
    if not math.isfinite(value):
        return "none" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
    if unit in COUNTED:
        return readable(value * worth, unit).removesuffix(f" {unit}")
    if unit == "steps" and abs(value) < 1e9:
        return f"{value:,.0f}"
    if unit == SHARE:
        percent = 100 * value * worth
        return f"{exponential(percent if abs(percent) > 1e-9 else 0)}%"  # 2e-14 is rounding
    return grouped(value) if unit == RATIO else exponential(value, 4)


def written_range(low: float, high: float, unit: str = "", worth: float = 1.0) -> str:
    """An interval beside its number, whose unit it has: ``243 to 763 B``."""
    first, last = (number_of(end, unit, worth) for end in (low, high))
    scale = re.search(r" \S+$|%$", last)
    return f"{first.removesuffix(scale[0]) if scale else first} to {last}"


@dataclass(frozen=True)
class Quantity:
    """A number of a result, with its unit and its interval.

    Attributes:
        value: the number, in the unit of the runs.
        unit: what it counts or is measured in, such as ``tokens`` or ``nats``.
        worth: single things in one unit of the runs.
        low, high: bounds of its interval, in the unit of the value; NaN without one.
        draws: (R,) the same number for every draw of the parameters; None without. Not in files.

    Example:
        >>> from jaxlaw._quantities import Quantity
        >>> print(Quantity(1.82, "parameters", 1e9, 1.5, 2.1))
        1.82 B parameters (1.5 to 2.1 B)
    """

    value: float
    unit: str = ""
    worth: float = 1.0
    low: float = math.nan
    high: float = math.nan
    draws: np.ndarray | None = field(default=None, repr=False, compare=False)

    @property
    def number(self) -> str:
        """The number with its unit, as people read it."""
        return written(self.value, self.unit, self.worth)

    @property
    def interval(self) -> str:
        """The bounds as people read them; empty without an interval."""
        if math.isnan(self.low):
            return ""
        return written_range(self.low, self.high, self.unit, self.worth)

    def __str__(self) -> str:
        return f"{self.number} ({self.interval})" if self.interval else self.number


def times(factor: float) -> str:
    """A factor in words, to two digits: ``3,000 ×``."""
    return f"{grouped(factor, 2)} ×"


def grouped(value: float, digits: int = 3) -> str:
    """A plain number such as a ratio to so many digits, thousands with a comma: ``1,110``."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if 10 ** (digits - 1) <= rounded < 1e6 else exponential(rounded)


def exponential(value: float, digits: int = 3) -> str:
    """A number to so many digits, its exponent without sign and zeros: ``1e25``, ``1.5e-7``."""
    return re.sub(r"e([+-])0*(\d)", lambda m: f"e{m[1].strip('+')}{m[2]}", f"{value:.{digits}g}")


def mistaken_unit(
    values: np.ndarray, unit: float, plausible: tuple[float, float], fitted: tuple[float, float]
) -> tuple[float, float] | None:
    """A value that was surely meant in another unit, and the single things then meant.

    As given, such a value is implausible, and read in another unit it is plausible and lies nearer
    to the runs; or it lies a hundredfold beyond the runs (a
    thousandfold, where these count single things), and within that in the other unit.

    Args:
        values: values of any shape, in units of the runs.
        unit: single things in one of these units.
        plausible: plausible range of raw counts.
        fitted: lowest and highest of the runs, in their units.

    Returns:
        The value, and the single things that were meant; None if none is mistaken.
    """
    low, high = (end * unit for end in fitted)
    if not (values.size and 0 < low <= high < math.inf):
        return None
    least, most = min(plausible[0], low / _NEAR), max(plausible[1], high * _NEAR)

    def distance(count):
        return max(low / count, count / high, 1.0)

    for value in {float(values.min()), float(values.max())}:
        count = value * unit
        if not 0 < count < math.inf:
            continue
        implausible = not least <= count <= most
        # Of single things the runs say less: they may be a toy's, and the point a smaller toy.
        far = distance(count) > (_FAR if unit != 1.0 else _NEAR)
        if not (implausible or far):
            continue
        # Bare numbers mean single things, or one of the named units.
        others = [value * scale for scale in (1.0, *UNIT_NAMES.values()) if scale != unit]
        if not implausible:
            others = others if unit == 1.0 else [value]
            others = [other for other in others if distance(other) <= _FAR]
        others = [other for other in others if least <= other <= most]
        meant = min(others, key=distance, default=None)
        if meant is not None and distance(meant) < distance(count):
            return value, meant
    return None


def two_readings(name: str, value: float, meant: float, unit: float, noun: str) -> str:
    """The message about a mistaken unit: how a value reads, and how to write what was meant."""
    counted = "single ones" if unit == 1 else f"units of {exponential(unit)}"
    text = readable(meant).replace(" ", "")
    plain = f"{name}={_short(meant / unit)}"
    return (
        f"{name} = {_short(value)} is {readable(value * unit, noun)}, since the runs count {name} "
        f"in {counted}; for {readable(meant, noun)} write {plain} or {name}={text}, and for "
        f"{readable(value * unit, noun)} write {name}='{_short(value * unit)} {noun}'"
    )


def _short(value: float) -> str:
    """A number as short as it is exact, to 12 digits."""
    return exponential(value, 12)
