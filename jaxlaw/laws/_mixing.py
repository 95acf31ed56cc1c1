"""Laws of the loss over several shares: a corpus in a mixture of many.

The shares are inputs of their own, each called as the column that holds it, so that such a law is
made for the corpora at hand. They add up to 1.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import jax.numpy as jnp

from jaxlaw.errors import UsageError
from jaxlaw.laws._base import MAKERS, Law
from jaxlaw.laws._parameters import Input, positive, real

_NAME = re.compile(r"mixing\[(?P<shares>[^\[\]]+)\]")
_MARKS = "|[]"  # of a law's name, which says how it is made


def mixing(shares: Iterable[str]) -> Law:
    """The data mixing law: a loss over the shares of several corpora (Ye 2024, arXiv 2403.16952).

    loss = c + k·exp(Σ t_j·r_j). Shares add up to 1, so that k and a number added to every t_j are
    the same: k is 1 here, and t_j is the logarithm of what corpus j alone would leave above c.
    Sizes and tokens are not in it: it is for runs of one scale, or, by
    :func:`jaxlaw.laws.grouped`, for a few of them.

    Args:
        shares: columns that hold the shares, which become the inputs.

    Returns:
        A law with these inputs and the parameters ``c`` and ``t[share]``. It is named as it is
        made, ``mixing[web|code]``, and ``jl.laws.get`` finds it by that name.

    Raises:
        UsageError: fewer than two shares, one that is named twice, or a name that a law's name
            cannot hold.

    Example:
        >>> law = jl.laws.mixing(["web", "code"])
        >>> law.name, law.parameter_names
        ('mixing[web|code]', ('c', 't[web]', 't[code]'))
        >>> float(law({"c": 1.0, "t[web]": 0.0, "t[code]": 5.0}, web=1.0, code=0.0))
        2.0
    """
    names = tuple(map(str, [shares] if isinstance(shares, str) else shares))
    if len(names) < 2 or len(set(names)) < len(names):
        raise UsageError(f"shares are two or more different columns, not {', '.join(names)}")
    for name in names:
        if not name.strip() or set(_MARKS) & set(name) or " of " in name:
            raise UsageError(
                f"share '{name}': a name is not empty and has none of {' '.join(_MARKS)} and no "
                "' of '; rename the column"
            )
    return _mixing(names)


@dataclasses.dataclass(frozen=True)
class _Formula:
    """The formula of a mixing law; picklable, as its law is."""

    shares: tuple[str, ...]

    def __call__(self, *shares: Any, **params: Any) -> Any:
        """The loss at shares (n,) each."""
        exponents = [params[f"t[{name}]"] * r for name, r in zip(self.shares, shares, strict=True)]
        return params["c"] + jnp.exp(sum(exponents[1:], exponents[0]))

    def remake(self) -> tuple[Callable[..., Law], tuple[Any, ...]]:
        """How pickle makes the law of this formula again."""
        return mixing, (self.shares,)


@cache
def _mixing(shares: tuple[str, ...]) -> Law:
    floor = positive(0.3, 3.0, unit="nats", doc="what no mixture takes away")
    slope = real(-20.0, 3.0, low=-5e3, high=50.0, doc="log of what its corpus alone leaves above c")
    return Law(
        name=f"mixing[{'|'.join(shares)}]",
        function=_Formula(shares),
        inputs=tuple(
            Input(name, "share of a corpus in the mixture", 1.0, "fraction") for name in shares
        ),
        parameters=(
            dataclasses.replace(floor, name="c"),
            *(dataclasses.replace(slope, name=f"t[{name}]") for name in shares),
        ),
        formula="c + exp(Σ t_j·r_j)",
        source="Ye 2024, arXiv 2403.16952 (k is 1: shares add up to 1)",
    )


def _of_name(name: str) -> Law | None:
    """The mixing law that a name describes."""
    match = _NAME.fullmatch(name)
    return None if match is None else mixing(match["shares"].split("|"))


MAKERS.append(_of_name)
