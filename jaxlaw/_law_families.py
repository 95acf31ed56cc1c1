"""The built-in laws by family; a module without JAX, so that a shell completes names."""

from __future__ import annotations

#: Family → its laws, that to begin with first.
FAMILIES: dict[str, tuple[str, ...]] = {
    "size and tokens": (
        "chinchilla", "skaling", "kaplan", "kaplan-e", "farseer", "overtraining", "loss-size",
    ),
    "routed models": ("clark",),
    "vocabularies": ("vocabulary",),
    "the best learning rate and batch": ("best-lr", "best-batch"),
    "compute": ("loss-compute-e", "loss-compute", "optimum-compute"),
    "repeated tokens": ("repetition", "repetition-geometric"),
    "continual runs from a base": ("cpt-chinchilla",),
    "mixture ratio of a corpus": ("dcpt", "dcpt-l1", "dcpt-l2", "dcpt-l4", "dcpt-l5", "bimix"),
    "mixture ratio of a corpus, many domains": (
        "dcpt-cross", "dcpt-cross-k1", "dcpt-cross-k2", "dcpt-cross-k4",
    ),
    "loss curves": ("annealing", "multi-power"),
    "loss curves of continual runs": (
        "cpt-curve", "cpt-curve-replay-pt", "cpt-curve-replay-cpt", "cpt-curve-n",
        "cpt-curve-batch", "cpt-curve-power", "cpt-curve-exp", "cpt-curve-unknown-base",
        "cpt-curve-replay-pt-unknown-base", "cpt-curve-replay-cpt-unknown-base", "shift",
        "shift-exp",
    ),
    "scores of a task": (
        "sigmoid", "score-exponential", "score-log-linear", "downstream-ce", "downstream-bleu",
        "downstream-bleu-ce", "rectified",
    ),
}  # fmt: skip
