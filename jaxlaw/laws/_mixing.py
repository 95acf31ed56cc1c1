"""Laws of the loss over several mixture ratios: a corpus in a mixture of many.

The mixture ratios are inputs of their own, each called as the column that holds it, so that such a
law is made for your corpora. They add up to 1: rows that do not are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import jax.numpy as jnp

from jaxlaw.errors import UsageError
from jaxlaw.laws._base import Derived, Law, power
from jaxlaw.laws._parameters import INPUTS, Input, positive, real
from jaxlaw.laws.scaling import EXPONENT, FLOOR, OF_DATA, OF_SIZE, sum_of_terms

_MARKS = "|[]"  # of a law's name, which says how it is made


def mixing(shares: Iterable[str]) -> Law:
    """The data mixing law: loss over mixture ratios of several corpora (Ye 2024, arXiv 2403.16952).

    loss = c + k·exp(Σ t_j·r_j). Mixture ratios add up to 1, so that k and a number added to every
    t_j are the same: k is 1 here, and t_j is the log of what corpus j alone would leave above c.
    Sizes and tokens are not in it: it is for runs of one scale, or, by
    :func:`jaxlaw.laws.grouped`, for a few of them.

    Args:
        shares: columns that hold the mixture ratios, which become the inputs.

    Returns:
        A law with these inputs and the parameters ``c`` and ``t[share]``. It is named as it is
        made, ``mixing[web|code]``, and ``jl.laws.get`` finds it by that name.

    Raises:
        UsageError: fewer than two mixture ratios, one that is named twice, or a name that a law's
            name cannot hold.

    Example:
        >>> law = jl.laws.mixing(["web", "code"])
        >>> law.name, law.parameter_names
        ('mixing[web|code]', ('c', 't[web]', 't[code]'))
        >>> float(law({"c": 1.0, "t[web]": 0.0, "t[code]": 5.0}, web=1.0, code=0.0))
        2.0
    """
    return _make_mixing(_names(shares))


def additive(shares: Iterable[str], *, scale: bool = True) -> Law:
    """The additive law of mixture ratios, size and tokens (Shukor 2025, arXiv 2507.09404).

    loss = E + 1/Σ C_j·h_j^γ_j + A/N^α + B/D^β, h_j the mixture ratio of corpus j. No term has the
    mixture ratios and the size or the tokens together, so that the best mixture is the same at
    every scale. Only runs at several scales show whether that is so.

    Args:
        shares: columns that hold the mixture ratios, which become the inputs before ``N``
            and ``D``.
        scale: whether the size and the tokens are inputs. For runs of one size and one number of
            tokens they are not: ``scale=False`` leaves E + 1/Σ C_j·h_j^γ_j, and their terms are a
            part of E. The law is then ``additive-of-shares[web|code]``.

    Returns:
        A law with these inputs and the parameters ``E``, ``C[share]``, ``gamma[share]``, ``A``,
        ``B``, ``alpha`` and ``beta``. It is named as it is made, ``additive[web|code]``, and
        ``jl.laws.get`` finds it by that name.

    Raises:
        UsageError: fewer than two mixture ratios, one that is named twice or ``N`` or ``D``, or a
            name that a law's name cannot hold.

    Example:
        >>> law = jl.laws.additive(["web", "code"])
        >>> params = {"E": 1.0, "A": 400.0, "B": 400.0, "alpha": 0.34, "beta": 0.28}
        >>> params |= {"C[web]": 1.0, "C[code]": 3.0, "gamma[web]": 0.2, "gamma[code]": 0.5}
        >>> float(law(params, web=1.0, code=0.0, N=1e9, D=2e10)).__round__(3)
        2.871
    """
    names = _names(shares)
    for name in set(names) & {"N", "D"}:
        raise UsageError(f"mixture ratio {name} has the name of a size or tokens; rename it")
    return _make_additive(names, scale)


def _names(shares: Iterable[str]) -> tuple[str, ...]:
    """The columns of the mixture ratios, checked; raises UsageError."""
    names = tuple(map(str, [shares] if isinstance(shares, str) else shares))
    if len(names) < 2 or len(set(names)) < len(names):
        raise UsageError(f"give two or more columns of mixture ratios, not {', '.join(names)}")
    for name in names:
        if not name.strip() or set(_MARKS) & set(name) or " of " in name:
            raise UsageError(
                f"column '{name}': a name is not empty and has none of {' '.join(_MARKS)} and no "
                "' of '; rename the column"
            )
    return names


def _inputs(shares: tuple[str, ...]) -> tuple[Input, ...]:
    doc = "mixture ratio of a corpus"
    return tuple(Input(name, doc, 1.0, "fraction", mixture=True) for name in shares)


@cache
def _make_mixing(shares: tuple[str, ...]) -> Law:
    floor = replace(FLOOR, doc="irreducible loss")
    slope = real(-20.0, 3.0, low=-5e3, high=50.0, doc="log of the excess over c, alone")

    def formula(*given, **params):
        """The loss at mixture ratios (n,) each."""
        exponents = [params[f"t[{name}]"] * r for name, r in zip(shares, given, strict=True)]
        return params["c"] + jnp.exp(sum(exponents[1:], exponents[0]))

    return Law(
        name=f"mixing[{'|'.join(shares)}]",
        function=Derived(formula, mixing, (shares,)),
        inputs=_inputs(shares),
        parameters=(
            replace(floor, name="c"),
            *(replace(slope, name=f"t[{name}]") for name in shares),
        ),
        formula="c + exp(Σ t_j·r_j)",
        source="Ye 2024, arXiv 2403.16952 (k is 1: mixture ratios add up to 1)",
    )


@cache
def _make_additive(shares: tuple[str, ...], scale: bool) -> Law:
    specs = {f"C[{name}]": positive(0.1, 10.0, doc="value of its corpus") for name in shares}
    specs |= dict.fromkeys((f"gamma[{name}]" for name in shares), EXPONENT)
    specs |= {"E": replace(FLOOR, doc="irreducible loss")}
    if scale:
        specs |= {"A": OF_SIZE, "B": OF_DATA, "alpha": EXPONENT, "beta": EXPONENT}

    def formula(*inputs, **params):
        """The loss at mixture ratios, and N and D where they are inputs, (n,) each."""
        worth = [
            params[f"C[{name}]"] * power(h, params[f"gamma[{name}]"])
            for name, h in zip(shares, inputs, strict=False)
        ]
        loss = params["E"] + 1.0 / sum(worth[1:], worth[0])
        if not scale:
            return loss
        N, D = inputs[-2:]
        of_size = params["A"] * power(N, -params["alpha"])
        return loss + of_size + params["B"] * power(D, -params["beta"])

    return Law(
        name=f"additive{'' if scale else '-of-shares'}[{'|'.join(shares)}]",
        function=Derived(formula, _make_additive, (shares, scale)),
        inputs=(*_inputs(shares), *([INPUTS["N"], INPUTS["D"]] if scale else [])),
        parameters=tuple(replace(spec, name=name) for name, spec in specs.items()),
        formula="E + 1/Σ C_j·h_j^γ_j" + (" + A/N^α + B/D^β" if scale else ""),
        source="Shukor 2025, arXiv 2507.09404 (the additive law)",
        power_law_terms=sum_of_terms if scale else None,
    )
