"""Learning rates per step, as plain arrays, and small functions that compose them.

What a step is, everywhere in jaxlaw:

- steps count updates, from 1; ``rates[i]`` is the rate that update i + 1 uses;
- η_0 (``initial_lr``) is the rate before step 1: what the schedule's formula gives at t = 0.
  A cosine starts from its peak, a warm-up from 0, so neither begins with a jump;
- step t has the formula's rate at t: step 1 is one step under way, and the final rate is
  reached at the last step;
- :func:`warmup` and :func:`join` put steps before and after others: lengths add up. A run of
  24,000 steps, 2,000 of them warm-up, is ``warmup(cosine(3e-4, 22_000), 2_000)``.
"""

from jaxlaw.schedules.readers import from_column, from_optax, parse
from jaxlaw.schedules.shapes import (
    Schedule,
    constant,
    cosine,
    inverse_sqrt,
    join,
    linear,
    two_stage,
    warmup,
    wsd,
)

__all__ = [
    "Schedule",
    "constant",
    "cosine",
    "from_column",
    "from_optax",
    "inverse_sqrt",
    "join",
    "linear",
    "parse",
    "two_stage",
    "warmup",
    "wsd",
]
