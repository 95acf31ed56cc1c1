"""Tokens per parameter at which a loss is reached most cheaply."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxlaw._quantities import Quantity
from jaxlaw._result import TARGET
from jaxlaw._typed import ConfidenceLevel, checked
from jaxlaw.planning._allocation import min_compute
from jaxlaw.planning._answers import (
    Answer,
    Pictured,
    fewest_degrees,
    keeps_question,
    units_of,
    without,
)
from jaxlaw.uncertainty import LEVEL, as_draws, with_intervals


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TokensPerParameter(Pictured, Answer):
    """At how many tokens per parameter a loss costs the least compute.

    Attributes:
        ratio: tokens per parameter, single ones of both; NaN where the loss is out of reach.
        N, D: size and tokens of that run, in the units of the fitted runs.
        loss: loss that is reached, in nats.
        compute: FLOPs of the run.
    """

    ratio: float = field(metadata={"unit": ""})
    N: float = field(metadata={"unit": "parameters"})
    D: float = field(metadata={"unit": "tokens"})
    loss: float = field(metadata={"unit": TARGET})
    compute: float = field(metadata={"unit": "FLOPs"})

    def sentence(self) -> str:
        """The ratio, and the run that has it."""
        if not math.isfinite(self.ratio):
            return ""
        return (
            f"loss {self.written('loss')}: {self.written('ratio', level=True)} tokens a parameter, "
            f"{self.written('N')} and {self.written('D')} for {self.written('compute')}"
        )

    def _drawn(self, question: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        asked = question["fit"], question["loss"]
        return "tokens_per_parameter", asked, {"answer": self, **without(question, "fit", "loss")}


@keeps_question
@checked
def tokens_per_parameter(
    fit: Any,
    loss: float,
    *,
    served_tokens: Quantity | None = None,
    at: Mapping[str, float | str] | None = None,
    level: ConfidenceLevel = LEVEL,
) -> TokensPerParameter:
    """The tokens per parameter at which a loss is reached with the least compute.

    Hoffmann 2022 finds about 20 at every budget, for its two exponents are nearly equal; where they
    differ, the ratio moves with the loss.

    Args:
        fit: fit of the loss over N and D, draws, a bootstrap, a covariance, a forecast, or
            (law, params).
        loss: loss to be reached, in nats.
        served_tokens: number of tokens that the model will serve, whose compute counts too.
        at: values of the law's other inputs; ``{"r": "best"}`` searches the share.
        level: confidence level of the intervals.

    Returns:
        TokensPerParameter, with the notes of :func:`min_compute`.

    Raises:
        UsageError: as :func:`min_compute`.

    Example:
        >>> plan = jl.planning.tokens_per_parameter(jl.published()["besiroglu-2024"], loss=2.1)
        >>> f"{plan.ratio:.1f} tokens per parameter"
        '19.6 tokens per parameter'

    Shell:
        jaxlaw plan tokens-per-parameter fit.json --loss 2.1
    """
    best = min_compute(fit, loss, served_tokens=served_tokens, at=at, level=level)
    (source,) = as_draws(fit)
    values = {
        name: np.append(getattr(best, name), best.draws.get(name, ()))
        for name in ("N", "D", "compute")
    }
    ratio = values["D"] * source.scale("D") / (values["N"] * source.scale("N"))
    found = with_intervals({"ratio": ratio, **values}, level, fewest_degrees([source]))
    return TokensPerParameter(
        **found, loss=best.loss, binding=best.binding, notes=best.notes,
        units=units_of(TokensPerParameter, source), beyond=best.beyond,
        point=best.point,
    )  # fmt: skip
