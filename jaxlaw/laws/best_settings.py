"""Laws of the best settings of a run: learning rate and batch by size and tokens, these by compute.

Papers print such formulas beside their laws of the loss; :func:`jaxlaw.laws.tuned` has the same
parameters of learning rate and batch, and fits them to the runs of a sweep in place of its minima.
"""

from __future__ import annotations

import jax.numpy as jnp

from jaxlaw.laws._base import law, power
from jaxlaw.laws._parameters import Parameter, exponent, positive, real

#: The point at which the best settings are parameters, in single things.
REFERENCE = {"N": 1e9, "D": 2e10, "C": 1.2e20}

BEST = {
    "lr": positive(3e-4, 1e-2, low=1e-10, high=1e4, doc="best LR at the reference"),
    "batch": positive(
        1e5, 4e6, low=1.0, high=1e13, unit="tokens", doc="best batch at the reference"
    ),
}


def _power(of: str, moves: str, least: float, most: float) -> Parameter:
    return real(least, most, low=-3.0, high=3.0, doc=f"power of {of} with which {moves} moves")


POWERS = {
    "lr_N": _power("N", "the best LR", -0.9, 0.1),
    "lr_D": _power("D", "the best LR", -0.3, 0.5),
    "lr_C": _power("C", "the best LR", -0.3, 0.1),
    "batch_N": _power("N", "the best batch", -0.3, 0.3),
    "batch_D": _power("D", "the best batch", 0.2, 0.8),
    "batch_C": _power("C", "the best batch", 0.1, 0.5),
}
# Best settings scatter by a tenth and more, and a few lie far off: δ is as large as that scatter.
_OF_A_SETTING = {"better": "neither", "delta": 0.1}
_SOURCE = "power laws of the best settings, as of Li 2025, arXiv 2503.04715"


def _moved(first, N, D, of_N, of_D):
    n, d = jnp.log(N / REFERENCE["N"]), jnp.log(D / REFERENCE["D"])
    return first * jnp.exp(of_N * n + of_D * d)


_AT = "n = N/10^9, d = D/(2·10^10)"


@law(
    name="best-lr", target="best_lr", source=_SOURCE,
    formula=f"lr_0·n^lr_N·d^lr_D, {_AT}", **_OF_A_SETTING,
)  # fmt: skip
def best_lr(N, D, *, lr_0=BEST["lr"], lr_N=POWERS["lr_N"], lr_D=POWERS["lr_D"]):
    """The best peak learning rate, at the best batch."""
    return _moved(lr_0, N, D, lr_N, lr_D)


@law(
    name="best-batch", target="best_batch", source=_SOURCE,
    formula=f"batch_0·n^batch_N·d^batch_D, {_AT}", **_OF_A_SETTING,
)  # fmt: skip
def best_batch(
    N, D, *, batch_0=BEST["batch"], batch_N=POWERS["batch_N"], batch_D=POWERS["batch_D"]
):
    """The best batch in tokens a step, at the best LR."""
    return _moved(batch_0, N, D, batch_N, batch_D)


@law(
    name="optimum-compute", target="optimum", formula="a·C^b",
    source="Hoffmann 2022, table 2 (N or D at the lowest loss of each compute)", **_OF_A_SETTING,
)  # fmt: skip
def optimum_compute(
    C,
    *,
    a=positive(1e6, 1e12, low=1e-12, high=1e20, centre={"C": "-b"}, unit="FLOP^−b"),
    b=exponent(0.3, 0.8, high=3.0),
):
    """The best size, or the best number of tokens, of a compute budget."""
    return a * power(C, b)
