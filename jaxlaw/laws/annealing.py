"""Laws of a whole loss curve in the areas under its learning rate (Tissue 2024, Wang 2025).

S1 is the sum of the learning rates up to a step, S2 the annealing area: what momentum has made
of the drops of the LR. Both count learning rate × steps and are computed beforehand, so that
a point of a curve is an observation like any other. Two phases have areas of their own, each
counted from its own first step: during pre-training S1_cpt and S2_cpt are 0; afterwards S1_pt
and S2_pt stay what they were. Learning rates that rise make S2 negative.

The multi-power law (Luo 2025) has no area for annealing: every drop of the learning rate pays by
itself, as the learning rates since add up. A point then has one value for every drop before it; see
:func:`jaxlaw.data._row_areas.drops_along`.

C, C1 and C2 are positive: annealing lowers the loss. B is of either sign: the shift lifts the
loss on the corpus left behind and lowers it on the new one. A variant of Wang's App. J weights
S2 by the learning rate to the ε: other areas for the same laws.

With replay, r is the mixture ratio, in the continual phase, of the corpus whose validation loss is
L: r_pt for the pre-training corpus (``-pt``), r_cpt = 1 − r_pt for the new one (``-cpt``). Before
that phase r makes no difference.

Where the continual phase has another batch size or sequence length (App. F), the hidden
pre-training curve goes on in tokens: its areas count steps of the pre-training batch, as
``read_loss_curves(…, batch=)`` does. The shift is another for each batch size: ``cpt-curve-batch``
gives either of two its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp

from jaxlaw.laws._base import Law, add_law, law, power
from jaxlaw.laws._parameters import INPUTS, Input, exponent, positive, real
from jaxlaw.laws.transfer import chart, context, exponential_shift, shift, trained
from jaxlaw.notes import Note

_L0 = positive(0.5, 5.0, unit="nats", doc="irreducible loss")
_A = positive(0.01, 10.0, unit="nats·S1^α")
_C = positive(0.01, 10.0, unit="nats/S2", doc="loss reduction per annealing area")
_B = real(unit="nats", doc="full distribution shift; negative where it lowers the loss")
_E = positive(0.1, 1e4, unit="1/S1", doc="speed of the shift")
_EXP = exponent()
_IN_N = real(-0.2, 0.6, low=-3.0, high=3.0)
# Starts on either side of what is nearly linear in the mixture ratio, as far as the 5.7 that Wang
# prints.
_IN_R = real(-6.0, 6.0, low=-50.0, high=50.0)


@law(
    formula="L0 + A·S1^−α − C·S2",
    source="Tissue 2024; Wang 2025, eq. 1",
    components={"annealing": ("C",)},
)
def annealing(S1, S2, *, L0=_L0, A=replace(_A, centre={"S1": "alpha"}), C=_C, alpha=_EXP):
    """Loss over one phase of training."""
    return trained(S1, L0, A, alpha) - C * S2


@law(
    name="multi-power",
    formula="L0 + A·S1^−α − B·Σ_k drop_k·(1 − (1 + C·η_k^−γ·S_k)^−β)",
    source="Luo 2025, arXiv 2503.12811 (S1 with the warm-up's S_W)",
    components={"annealing": ("B",)},
)
def multi_power(
    S1, drop, eta_k, S_k,
    *, L0=_L0, A=replace(_A, centre={"S1": "alpha"}),
    B=positive(10.0, 1e4, unit="nats/rate", doc="final gain per drop of the learning rate"),
    C=positive(1.0, 1e4, centre={"eta_k": "gamma"}, unit="η^γ/S1", doc="how fast a drop acts"),
    alpha=_EXP, beta=_EXP, gamma=_EXP,
):  # fmt: skip
    """Every drop of the LR lowers the loss by a power law of its own, slower at high LRs."""
    paid = -jnp.expm1(-beta * jnp.log1p(C * power(eta_k, -gamma) * S_k))
    # (n, K) of K drops each, summed to (n,); (n,) are single drops.
    each = drop * paid
    gained = jnp.sum(each, axis=-1) if jnp.ndim(each) > jnp.ndim(S1) else each
    return trained(S1, L0, A, alpha) - B * gained


_PARTS = {"annealing": ("C1", "C2"), "shift": ("B",)}
_TWO_PHASES = {
    "chart": chart(),
    "context": context,
    "components": _PARTS,
    "continual_alone": "cpt-curve-unknown-base",
}


@law(
    name="cpt-curve",
    formula="L0 + A·(S1_pt+S1_cpt)^−α − C1·S2_pt − C2·S2_cpt + B·(1 − (1+E·S1_cpt)^−β)",
    source="Wang 2025, eq. 4",
    **_TWO_PHASES,
)
def cpt_curve(
    S1_pt, S1_cpt, S2_pt, S2_cpt,
    *, L0=_L0, A=_A, C1=_C, C2=_C, B=_B, E=_E, alpha=_EXP, beta=_EXP,
):  # fmt: skip
    """Pre-training, and continual pre-training on another corpus."""
    annealed = C1 * S2_pt + C2 * S2_cpt
    return trained(S1_pt + S1_cpt, L0, A, alpha) - annealed + shift(S1_cpt, B, E, beta)


@law(
    name="cpt-curve-exp",
    formula="L0 + A·(S1_pt+S1_cpt)^−α − C1·S2_pt − C2·S2_cpt + B·(1 − e^(−E·S1_cpt))",
    source="Wang 2025, §3.2 (compared and rejected)",
    **_TWO_PHASES,
)
def cpt_curve_exp(
    S1_pt, S1_cpt, S2_pt, S2_cpt, *, L0=_L0, A=_A, C1=_C, C2=_C, B=_B, E=_E, alpha=_EXP
):
    """An exponential shift: what cpt-curve tends to as β grows and E falls."""
    annealed = C1 * S2_pt + C2 * S2_cpt
    return trained(S1_pt + S1_cpt, L0, A, alpha) - annealed + exponential_shift(S1_cpt, B, E)


@law(
    name="cpt-curve-power",
    formula="L0 + A·(S1_pt+S1_cpt)^−α − C1·S2_pt^ζ1 − C2·S2_cpt^ζ2 + B·(1 − (1+E·S1_cpt)^−β)",
    source="Wang 2025, eq. 10 (a negative S2 keeps its sign)",
    **_TWO_PHASES,
)
def cpt_curve_power(
    S1_pt, S1_cpt, S2_pt, S2_cpt,
    *, L0=_L0, A=_A, C1=replace(_C, unit="nats/S2^ζ1"), C2=replace(_C, unit="nats/S2^ζ2"),
    B=_B, E=_E, alpha=_EXP, beta=_EXP, zeta1=exponent(0.3, 2.0), zeta2=exponent(0.3, 2.0),
):  # fmt: skip
    """Annealing areas to a power of their own."""
    # Re-warmup makes an area negative: a power of it keeps the sign.
    pt, cpt = (
        jnp.sign(S2) * power(jnp.abs(S2), zeta) for S2, zeta in ((S2_pt, zeta1), (S2_cpt, zeta2))
    )
    annealed = C1 * pt + C2 * cpt
    return trained(S1_pt + S1_cpt, L0, A, alpha) - annealed + shift(S1_cpt, B, E, beta)


@law(
    name="cpt-curve-n",
    formula="L0 + A·(S1_pt+S1_cpt)^−α − C1·S2_pt·N^γ1 − C2·S2_cpt·N^γ2 "
    "+ B·(1 − (1+E·S1_cpt)^−β) + F·N^−γ3",
    source="Wang 2025, eq. 7",
    **_TWO_PHASES,
)
def cpt_curve_n(
    S1_pt, S1_cpt, S2_pt, S2_cpt, N,
    *, L0=_L0, A=_A, C1=replace(_C, centre={"N": "-gamma1"}, unit="nats/(S2·N^γ1)"),
    C2=replace(_C, centre={"N": "-gamma2"}, unit="nats/(S2·N^γ2)"), B=_B, E=_E,
    F=positive(0.01, 10.0, centre={"N": "gamma3"}, unit="nats·N^γ3"),
    alpha=_EXP, beta=_EXP, gamma1=_IN_N, gamma2=_IN_N, gamma3=_EXP,
):  # fmt: skip
    """Several model sizes; the shift is the same for all."""
    annealed = C1 * S2_pt * power(N, gamma1) + C2 * S2_cpt * power(N, gamma2)
    hidden = trained(S1_pt + S1_cpt, L0, A, alpha) + F * power(N, -gamma3) - annealed
    return hidden + shift(S1_cpt, B, E, beta)


@law(
    name="cpt-curve-batch",
    inputs={"b": Input("b", "0 for one batch size, 1 for the other", domain="fraction")},
    formula="L0 + A·(S1_pt+S1_cpt)^−α − C1·S2_pt − C2·S2_cpt "
    "+ (1−b)·B·(1 − (1+E·S1_cpt)^−β) + b·B_b·(1 − (1+E_b·S1_cpt)^−β_b)",
    source="Wang 2025, App. F (eq. 4, a shift for each batch size)",
    **_TWO_PHASES
    | {"chart": chart(shifts=("", "_b")), "components": _PARTS | {"shift": ("B", "B_b")}},
)
def cpt_curve_batch(
    S1_pt, S1_cpt, S2_pt, S2_cpt, b,
    *, L0=_L0, A=_A, C1=_C, C2=_C, B=_B, E=_E, B_b=_B, E_b=_E,
    alpha=_EXP, beta=_EXP, beta_b=_EXP,
):  # fmt: skip
    """Two batch sizes (or sequence lengths) in the continual phase, one pre-training."""
    annealed = C1 * S2_pt + C2 * S2_cpt
    moved = (1 - b) * shift(S1_cpt, B, E, beta) + b * shift(S1_cpt, B_b, E_b, beta_b)
    return trained(S1_pt + S1_cpt, L0, A, alpha) - annealed + moved


# The shift by itself is a difference of losses, of either sign, which has no logarithm.
_SHIFT = {
    "target": "shift",
    "residuals": "linear",
    "chart": chart(hidden=False),
    "context": context,
    "components": {"shift": ("B",)},
}


@law(
    name="shift",
    formula="B·(1 − (1+E·S1_cpt)^−β)",
    source="Wang 2025, eq. 3",
    **_SHIFT,
)
def distribution_shift(S1_cpt, *, B=_B, E=_E, beta=_EXP):
    """What a new corpus adds to the hidden pre-training curve, as a power law."""
    return shift(S1_cpt, B, E, beta)


@law(
    name="shift-exp",
    formula="B·(1 − e^(−E·S1_cpt))",
    source="Wang 2025, §3.2 (compared and rejected)",
    **_SHIFT,
)
def distribution_shift_exp(S1_cpt, *, B=_B, E=_E):
    """An exponential shift: what the power law tends to as β grows and E falls."""
    return exponential_shift(S1_cpt, B, E)


# Figure 19 prints B = −0.526 and a2 = 5.696 for the new corpus: a shift beyond 100 nats unless β
# is tiny. With both signs turned it is −0.526·(1 − e^(−5.696·r)). a2 is of either sign.
_WITH_REPLAY = {
    "pt": (
        lambda a2, r: -jnp.expm1(-a2 * (1 - r)), 0.0, "(1 − e^(−a2·(1−r)))",
        "on the pre-training corpus, r = r_pt",
    ),
    "cpt": (lambda a2, r: jnp.expm1(a2 * r), 1.0, "(e^(a2·r) − 1)", "on the new corpus, r = r_cpt"),
}  # fmt: skip
_REPLAYED = {"r": replace(INPUTS["r"], doc="mixture ratio of the loss's corpus in phase 2")}


def _replay(own: str) -> Law:
    """The law of replay for the loss on one of the corpora."""
    share, new_alone, formula, words = _WITH_REPLAY[own]

    @law(
        name=f"cpt-curve-replay-{own}",
        inputs=_REPLAYED,
        formula="L0 + A·(S1_pt+S1_cpt)^−α − C1·S2_pt − C2·S2_cpt·e^(a1·r) "
        f"+ B·(1 − (1+E·S1_cpt)^−β)·{formula}",
        source=f"Wang 2025, eq. 8, loss {words}",
        chart=chart(partial(share, r=new_alone)),
        context=context,
        components=_PARTS,
        continual_alone=f"cpt-curve-replay-{own}-unknown-base",
    )
    def replayed(
        S1_pt, S1_cpt, S2_pt, S2_cpt, r,
        *, L0=_L0, A=_A, C1=_C, C2=_C, B=_B, E=_E, alpha=_EXP, beta=_EXP, a1=_IN_R, a2=_IN_R,
    ):  # fmt: skip
        annealed = C1 * S2_pt + C2 * S2_cpt * jnp.exp(a1 * r)
        moved = shift(S1_cpt, B, E, beta) * share(a2, r)
        return trained(S1_pt + S1_cpt, L0, A, alpha) - annealed + moved

    return replayed


def _exceeds_curves(law, params, ranges):
    """Whether the fitted base is far beyond what its continual curves can show."""
    L0, S1_pt, seen = params["L0"], params["S1_pt"], ranges["S1_cpt"][1]
    if 0 < L0 and 0.1 * seen < S1_pt < 3 * seen:
        return []
    message = (
        f"the curves reach S1_cpt = {seen:.3g} only, too little to separate L0 ({L0:.3g}), A, "
        f"alpha and S1_pt ({S1_pt:.3g}): rely on predictions within that range, not on these "
        "parameters"
    )
    return [(Note("base-extrapolated", "warning", message, inherited=True), math.inf)]


# Where it is unknown how a base model was trained, S1_pt is a parameter, the annealing before is
# part of L0, and the final LR is taken as 0 (for S2_cpt). With a constant learning rate
# S2_cpt is the rise from 0 alone, over within some 1/(1 − λ) steps, which the shift's own start
# resembles: fix C2 (and a1) at 0; S1_cpt is learning rate × steps.
def _unknown_base(known: Law, share: Callable[[Any], Any] | None = None) -> None:
    """Register a law for curves of the continual phase alone; ``share`` as for ``chart``."""

    def function(S1_cpt, S2_cpt, *r, S1_pt, **params):
        return known.function(S1_pt, S1_cpt, 0.0, S2_cpt, *r, C1=0.0, **params)

    specs = {spec.name: spec for spec in known.parameters if spec.name != "C1"}
    L0 = real(0.5, 5.0, unit="nats", doc="extrapolated irreducible loss")
    specs["L0"] = replace(L0, name="L0")
    length = positive(0.1, 100.0, unit="S1", doc="how long the base was trained")
    order = ["L0", "A", "C2", "B", "E", "S1_pt", "alpha", "beta", "a1", "a2"]
    specs["S1_pt"] = replace(length, name="S1_pt")
    add_law(
        replace(
            known,
            name=known.continual_alone,
            function=function,
            inputs=tuple(spec for spec in known.inputs if not spec.name.endswith("_pt")),
            parameters=tuple(specs[name] for name in order if name in specs),
            formula=f"{known.formula.replace(' − C1·S2_pt', '')}, S1_pt fitted",
            source=f"{known.source}; base unknown: §6 and App. G",
            chart=chart(share, base_known=False),
            components={"annealing": ("C2",), "shift": ("B",)},
            requirements=_exceeds_curves,
            continual_alone="",
        )
    )


_unknown_base(cpt_curve)
for _own, (_share, _new_alone, *_rest) in _WITH_REPLAY.items():
    _unknown_base(_replay(_own), partial(_share, r=_new_alone))
