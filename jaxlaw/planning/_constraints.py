"""Constraints of plans as objects: a budget, a corpus, another loss; and compute as a goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jaxlaw._quantities import Amount

Cost = Callable[..., Any]
#: What ``at=`` is: input → value, a label or a text that says its unit.
Inputs = Mapping[str, Amount] | None
#: Input → (least, largest) of what is searched, None for an open side, or for both.
Ranges = Mapping[str, tuple[Amount | None, Amount | None] | None]


@dataclass(frozen=True, eq=False)
class Compute:
    """The compute of a run, as what :func:`jaxlaw.planning.minimise` makes least.

    Attributes:
        cost: function ``f(N, D)``, the FLOPs of a run of N parameters and D tokens (raw counts):
            pure JAX, rising in both. Left out: 6·N·D.
        served_tokens: number of tokens that the model will serve, in the units of D: 2·N FLOPs
            for each are a part of the compute (Sardana 2024, arXiv 2401.00448).

    Example:
        >>> fit = jl.published()["besiroglu-2024"]
        >>> limit = jl.planning.AtMost(fit, 2.1)
        >>> goal = jl.planning.Compute(served_tokens=1e13)
        >>> plan = jl.planning.minimise(goal, over={"N": None, "D": None}, subject_to=[limit])
        >>> f"{plan.best['D'] / plan.best['N']:.0f} tokens per parameter"
        '392 tokens per parameter'
    """

    cost: Cost | None = None
    served_tokens: Amount | None = None


@dataclass(frozen=True, eq=False)
class Budget:
    """A limit on the compute of a run; it is spent in full where no other limit forbids it.

    Attributes:
        compute: budget in FLOPs.
        cost: function ``f(N, D)`` in FLOPs, as of :class:`Compute`.
        served_tokens: number of tokens that the model will serve, as of :class:`Compute`.

    Example:
        >>> fit = jl.published()["besiroglu-2024"]
        >>> budget = jl.planning.Budget(1e21)
        >>> plan = jl.planning.minimise(fit, over={"N": None, "D": None}, subject_to=[budget])
        >>> f"{plan.best['N']:.3g} parameters"
        '2.79e+09 parameters'
    """

    compute: Amount
    cost: Cost | None = None
    served_tokens: Amount | None = None


@dataclass(frozen=True, eq=False)
class Corpus:
    """A limit on the tokens of a corpus: a run passes over it, with r·D tokens, so often at most.

    Of a law without r all tokens are of the corpus.

    Attributes:
        tokens: number of tokens of the corpus, in the units of D. Of a law with unique tokens U it
            is U; None where ``at`` gives U.
        max_epochs: largest number of times that the corpus is gone over.

    Example:
        >>> fit = ("dcpt", jl.simulate.TRUTHS["dcpt"])
        >>> corpus = jl.planning.Corpus(0.5, max_epochs=2)
        >>> plan = jl.planning.minimise(fit, over={"r": None}, subject_to=[corpus],
        ...                             at={"N": 1.8, "D": 4.0})
        >>> f"{plan.best['r']:.3f}", plan.binding
        ('0.250', 'r·D ≤ 1')
    """

    tokens: Amount | None = None
    max_epochs: float = 1.0


@dataclass(frozen=True, eq=False)
class AtMost:
    """A limit on the loss of a law: that of another corpus, or the one that is to be reached.

    Attributes:
        fit: fit of that loss: a Fit, (law, params), a bootstrap, draws or a forecast. It takes the
            inputs that are searched by their names.
        loss: largest loss that is allowed, in nats.
        rest: names of inputs of which this law takes what is left to 1, such as the mixture ratio
            ``r`` of the other of two corpora.
        label: name of the loss in the answer; the law's by default.

    Example:
        >>> general, domain = (("dcpt", jl.simulate.TRUTHS[n]) for n in ("dcpt-general", "dcpt"))
        >>> limit = jl.planning.AtMost(general, 2.884, rest=("r",), label="general")
        >>> plan = jl.planning.minimise(domain, over={"r": None}, subject_to=[limit],
        ...                             at={"N": 1.8, "D": 2.0})
        >>> f"{plan.best['r']:.3f}", plan.binding
        ('0.893', 'general loss')
    """

    fit: Any
    loss: float
    rest: tuple[str, ...] = ()
    label: str = ""


Constraint = Budget | Corpus | AtMost
