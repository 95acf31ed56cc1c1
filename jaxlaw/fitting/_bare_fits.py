"""Fits with no evidence: coefficients of a paper, and what is left where JAX maps a fit.

To JAX a :class:`Fit` is a tree whose leaves are its parameters. Its other numbers were true of
these parameters and of no others, so a fit that JAX puts together again has none of them: it knows
its law, the units of its inputs, how its areas are counted, and its parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
from jax.tree_util import GetAttrKey

from jaxlaw.fitting._result import METRICS, Fit
from jaxlaw.laws._base import Law
from jaxlaw.notes import Note

NAN = math.nan
_MAPPED = Note(
    "mapped", "info", "parameters that went through JAX: how good the fit was is not carried along"
)


def bare_fit(
    law: Law,
    params: dict[str, Any],
    *,
    status: str,
    notes: tuple[Note, ...],
    units: dict[str, float],
    ranges: Mapping[str, tuple[float, float]],
    source: str,
    areas: dict[str, Any] | None,
) -> Fit:
    """A law with parameters as a fit; what only runs can tell is NaN, None or 0.

    Args:
        law: the law.
        params: name → value, in the law's own units.
        status, notes, units, source, areas: as a :class:`Fit` has them.
        ranges: as a :class:`Fit` has them; inputs left out have none.
    """
    return Fit(
        law=law, params=params, objective=NAN, metrics=dict.fromkeys(METRICS, NAN), status=status,
        agreement=NAN, n_starts=0, n_solved=0, runner_up=None, notes=notes, units=units,
        ranges={name: ranges.get(name, (NAN, NAN)) for name in law.input_names},
        n_observations=0, n_dropped=0, delta=law.delta, space=law.space, asymmetry=1.0,
        solver="none", source=source, areas=areas,
    )  # fmt: skip


class _Meaning(NamedTuple):
    """What parameters are of: the part of the tree that no map changes."""

    law: Law
    units: tuple[tuple[str, float], ...]
    areas: tuple[tuple[str, Any], ...] | None

    def __repr__(self) -> str:
        """Short, for JAX's messages."""
        return f"law {self.law.name}, units {self.units}, areas {self.areas}"


def _parts(fit: Fit) -> tuple[tuple[tuple[GetAttrKey, dict[str, Any]]], _Meaning]:
    areas = None if fit.areas is None else tuple(fit.areas.items())
    return ((GetAttrKey("params"), fit.params),), _Meaning(fit.law, (*fit.units.items(),), areas)


def _whole(meaning: _Meaning, parts: Any) -> Fit:
    return bare_fit(
        meaning.law, parts[0], status="mapped", notes=(_MAPPED,), units=dict(meaning.units),
        ranges={}, source="", areas=None if meaning.areas is None else dict(meaning.areas),
    )  # fmt: skip


jax.tree_util.register_pytree_with_keys(Fit, _parts, _whole)
