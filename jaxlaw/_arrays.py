"""A user's values as arrays of numpy: what is missing is missing in every container.

Masked arrays, nullable columns of pandas, columns of polars and pyarrow, arrays of JAX, lists with
None or NaT: all conversions of what users give to arrays pass through here, and a missing value is
NaN afterwards (None among labels). ``np.asarray`` would take the number behind a mask.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw.errors import UsageError

#: Confidence level of every interval, where the caller names none.
LEVEL = 0.90
# Texts of cells that hold nothing, in small letters.
EMPTY = {"", "nan", "na", "n/a", "null", "none", "<na>"}


def is_number(value) -> bool:
    """Whether a value is a real number, or an array of one, traced ones too."""
    if isinstance(value, bool | np.bool_ | str | bytes | type):  # classes have __float__, too
        return False
    if getattr(value, "ndim", None) == 0 and hasattr(value, "dtype"):
        return getattr(value.dtype, "kind", "") in "iufV"  # V: of bfloat16 and its like
    return hasattr(value, "__float__") and not hasattr(value, "__len__")


def is_missing(value) -> bool:
    """Whether one value is missing: None, NaN, NA, NaT or masked."""
    if isinstance(value, np.ma.MaskedArray):
        return value.ndim == 0 and bool(np.ma.getmaskarray(value))
    try:
        return pd.api.types.is_scalar(value) and bool(pd.isna(value))
    except ArithmeticError:  # a signalling NaN of decimals
        return False


def number_in(cell) -> float | None:
    """A cell of a table as a number, NaN where it is empty; None where it is something else."""
    if is_missing(cell) or (isinstance(cell, str) and cell.strip().lower() in EMPTY):
        return math.nan
    if isinstance(cell, str):
        if "_" in cell:  # Python's digits, which no table has
            return None
    elif not is_number(cell):
        return None
    try:
        return float(cell)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None


def plain_array(values) -> np.ndarray:
    """Values of any container as an array of numpy, of the same shape.

    Args:
        values: array, column, list or one value.

    Returns:
        Missing values are NaN among numbers, NaT among dates, and None among anything else.

    Raises:
        TypeError: JAX traces the values.
        ValueError: lists of different lengths.
    """
    if isinstance(values, jax.core.Tracer):
        raise TypeError(
            "JAX traces this array (jit, vmap or grad), so it has no values yet; there, call "
            "jl.fit_batch to fit, and law(params, N=…) to predict"
        )
    if isinstance(values, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        kind, dtype = pd.api.types, values.dtype
        is_bool = kind.is_bool_dtype(dtype)
        if not isinstance(dtype, pd.api.extensions.ExtensionDtype) or (
            kind.is_datetime64_any_dtype(dtype)
        ):
            return np.asarray(values)
        gone = np.asarray(values.isna())
        if kind.is_numeric_dtype(dtype) and not is_bool:
            return (
                values.to_numpy(dtype=float, na_value=np.nan) if gone.any() else values.to_numpy()
            )
        cells = np.array(values.astype(object), object)
        cells[gone] = None
        return cells.astype(bool) if is_bool and not gone.any() else cells
    if isinstance(values, list | tuple):
        return np.asarray([None if value is np.ma.masked else value for value in values])
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    missing, data = np.ma.getmaskarray(values), values.data
    if data.dtype.names is not None or not missing.any():
        return data
    if data.dtype.kind in "iu":
        data = data.astype(float)
    elif data.dtype.kind not in "fcmMV":
        data = data.astype(object)
    unknown = {"m": np.timedelta64("NaT"), "M": np.datetime64("NaT"), "O": None}
    # Not where(): it would give numbers and None as objects, and dates as numbers.
    data = data.copy()
    data[missing] = unknown.get(data.dtype.kind, np.nan)
    return data


def real_numbers(values) -> np.ndarray:
    """Real numbers of any container as float64, of the same shape; NaN where one is missing.

    Raises:
        TypeError: one of them is a truth value, a date, a duration, text or bytes, or complex.
        ValueError, OverflowError: lists of different lengths, an integer beyond 1e308.
    """
    if isinstance(values, list | tuple):
        # Among numbers numpy takes True for 1, and dates for their count.
        if set(map(type, values)) <= {int, float}:
            return np.array(values, float)
        return np.array([real_numbers(value) for value in values], float)
    array = plain_array(values)
    if array.dtype.kind in "iuf":
        return np.asarray(array, float)
    if array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize <= 2:
        return array.astype(float)  # bfloat16 and its like
    cells = [array[()]] if array.ndim == 0 else array.ravel()
    numbers = []
    for cell in cells:
        if not (is_missing(cell) or is_number(cell)):
            plain = isinstance(cell, np.bool_ | np.str_ | np.bytes_)
            shown = " ".join(repr(cell.item() if plain else cell).split())
            raise TypeError(f"{shown if len(shown) <= 40 else shown[:40] + '…'} is no number")
        numbers.append(math.nan if is_missing(cell) else float(cell))
    return np.array(numbers, float).reshape(array.shape)


def numbers_of(name: str, values) -> np.ndarray:
    """As :func:`real_numbers`, of an argument; raises UsageError, which names it."""
    try:
        return real_numbers(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{name} must be numbers: {error}") from None


def as_real(value):
    """Whole numbers as floats, whatever else as it is.

    Outside ``in_float64()`` JAX keeps whole numbers in 32 bits: 7e10 parameters would be
    an OverflowError as a number, and silently another number as an array.

    Raises:
        UsageError: an integer beyond 1e308.
    """
    if isinstance(value, jax.Array | float):
        return value
    try:
        array = np.asarray(value)
        whole = array.dtype.kind in "iu" or (
            array.dtype == object
            and all(
                isinstance(element, int) and not isinstance(element, bool) for element in array.flat
            )
        )
        if not whole or not array.size:
            return value
        real = array.astype(float)
    except OverflowError:
        raise UsageError("an integer is beyond 1e308") from None
    except ValueError:  # ragged: the law says what it makes of that
        return value
    return real if real.ndim else float(real)


def as_array(name: str, given, kind=None) -> jax.Array:
    """Numbers as an array; raises UsageError where they are none."""
    try:
        if not isinstance(given, jax.Array | int | float):
            given = plain_array(given)
            if given.dtype.kind not in "iufbV":
                given = real_numbers(given)
        array = jnp.asarray(as_real(given), kind)
        return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{name} must be an array of numbers: {error}") from None


def check_level(confidence_level: float) -> None:
    """Raises UsageError where the level is not between 0 and 1."""
    if not 0 < confidence_level < 1:
        raise UsageError(
            f"a confidence level is between 0 and 1, such as 0.9, not {confidence_level}"
        )
