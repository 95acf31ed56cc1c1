"""Plans: the papers' numbers, and CPU seconds.

    python benchmarks/planning.py [numbers] [seconds]

``seconds``: CPU seconds of the first call and of the second, on all cores together.
"""

import sys
import time

import jax
import numpy as np

import jaxlaw as jl
from jaxlaw import papers, planning, simulate, uncertainty

TRUTHS = simulate.TRUTHS
RUN = planning.ContinualPretraining(
    planning.Pretraining(40_000, 2e-4), 10_000, 1e-4, replay=0.2, warmup=500
)  # fmt: skip


def numbers() -> None:
    print("| source | quantity | printed | found |")
    print("|---|---|---|---|")
    printed = {
        "from-scratch": ("chinchilla", "0.429", "0.571", "0.324", "0.514"),
        "cpt-chinchilla": ("cpt-chinchilla", "0.385", "0.615", "4.79", "0.035"),
    }
    for name, (law, *shown) in printed.items():
        how = planning.allocation_law((law, TRUTHS[name]))
        values = (how.a, how.b, how.N_coefficient, how.D_coefficient)
        quantities = ("a", "b", "N_opt / C^a", "D_opt / C^b")
        for quantity, text, value in zip(quantities, shown, values, strict=True):
            digits = len(text.partition(".")[2])
            print(f"| Zheng 2024, eq. 8–9, {name} | {quantity} | {text} | {value:.{digits}f} |")
    # The paper prints a and G of its fit at a mixture of 1:1, and leaves the rest of it open.
    law = {**TRUTHS["dcpt"], "alpha": 0.3748, "beta": 0.6252}
    law["A"] = 4.1282 * law["beta"] * law["B"] * 0.5 ** law["eta"] / law["alpha"]
    plan = planning.allocation(("dcpt", law), 5e19, at={"r": 0.5})
    print(f"| Que 2024, App. G.3 | N_opt (10⁹) | 15.54 | {plan.N:.2f} |")
    print(f"| Que 2024, App. G.3 | D_opt (10⁹) | 0.536 | {plan.D:.3f} |")


def scattered(law: str, truth: str, count: int) -> uncertainty.Draws:
    random = np.random.default_rng(0)
    draws = {k: v * np.exp(0.01 * random.standard_normal(count)) for k, v in TRUTHS[truth].items()}
    return uncertainty.Draws(jl.FittedLaw(jl.laws.get(law), TRUTHS[truth]), draws)


AT = {"N": 1.8, "D": 10.0}
RISE = {"start": 2.8602, "threshold": 0.03}
BACK = planning.ContinualPretraining(
    planning.Pretraining(5_000, 2e-4), 10_000, 2e-4, replay=0.5, warmup=500
)  # fmt: skip
FOUR = {"loss_potential": (0, 1), "peak": (1e-5, 1e-3), "replay": (0, 1), "steps": (2e3, 5e4)}
WEIGHTED = {"epsilon": 0.1}
LIMITS = {"floor": 2e-5, "shortest_decay": 8_000}
BOTH = {
    "weights": (0.7, 0.3), "inputs": [{"r": 0.2}, {"r": 0.8}], "warmup": 500, "floor": 2e-5,
    "after": jl.schedules.wsd(2e-4, 40_000, 0.2, final=2e-5), "shortest_decay": 2_000,
}  # fmt: skip


def _observed() -> dict[str, np.ndarray]:
    old, new = np.linspace(3.2, 3.4, 200), np.linspace(3.1, 2.7, 200) ** 1.02
    noise = 0.002 * np.random.default_rng(0).standard_normal(200)
    return {"loss_pt": old, "loss_cpt": new, "loss_ood": (0.3 * old + 0.6 * new) * np.exp(noise)}


def _checkpoints() -> dict[str, np.ndarray]:
    tokens = np.geomspace(1e9, 1e11, 10)
    noise = 0.005 * np.random.default_rng(0).standard_normal(10)
    return {"Dp": tokens, "score": (3.0 + 0.9 * np.log(tokens / 1e8)) ** 1.2 * np.exp(noise)}


#: What is asked → the call, given fits (or bootstraps of them) by name.
PLANS = {
    "largest domain share": lambda f: planning.optimal_mixture(
        f["general"], f["domain"], **RISE, at=AT
    ),
    "least replay": lambda f: planning.critical_ratio(f["general"], start=2.8602, at=AT),
    "share of little domain data": lambda f: planning.optimal_mixture_data_limited(
        f["domain"], 0.1, at={"N": 1.8}
    ),
    "replay ratios compared": lambda f: planning.compare_replay(
        f["domain"], [0.2, 0.5, 0.9], corpus_tokens=(0.1, 10), at={"N": 1.8}
    ),
    "allocation law": lambda f: planning.allocation_law(f["scratch"]),
    "allocation, closed form": lambda f: planning.allocation(f["scratch"], 1e21),
    "allocation, search (kaplan)": lambda f: planning.allocation(f["kaplan"], 1e21),
    "allocation with the share, little domain data": lambda f: planning.allocation(
        f["domain"], 5e19, at={"r": "best"}, corpus_tokens=0.1
    ),
    "frontier of 13 budgets, search (kaplan)": lambda f: planning.frontier(
        f["kaplan"], np.geomspace(1e19, 1e23, 13)
    ),
    "least compute to a loss": lambda f: planning.min_compute(f["scratch"], 2.1),
    "least compute, with the share, little domain data": lambda f: planning.min_compute(
        f["domain"], 2.0, at={"r": "best"}, corpus_tokens=0.1
    ),
    "tokens for a size and a loss": lambda f: planning.tokens_or_size_for(
        f["scratch"], N=1e9, loss=2.1
    ),
    "data transferred": lambda f: planning.data_transferred(f["scratch"], f["cpt"], N=1e9, D=1e9),
    "data transferred, 41 points": lambda f: planning.transfer_table(
        f["scratch"], f["cpt"], [1e9], np.geomspace(1e8, 1e11, 41)
    ),
    "compute saved": lambda f: planning.compute_savings(f["scratch"], f["cpt"], 2.4),
    "break-even of the frontiers": lambda f: planning.break_even(f["scratch"], f["cpt"]),
    "break-even at a size": lambda f: planning.break_even(f["scratch"], f["cpt"], N=1e9),
    "break-even at a budget": lambda f: planning.break_even(f["scratch"], f["cpt"], compute=1e20),
    "final losses, 40 runs": lambda f: planning.final_losses(
        f["pt"], f["new"], RUN, replay=np.linspace(0, 1, 20), steps=[5e3, 2e4]
    ),
    "final losses, 40 runs, ε": lambda f: planning.final_losses(
        f["pt"], f["new"], RUN, replay=np.linspace(0, 1, 20), steps=[5e3, 2e4],
        area_options=WEIGHTED,
    ),
    "best replay of a continual run": lambda f: planning.optimal_training(
        f["pt"], f["new"], RUN, 0.6, {"replay": (0, 1)}
    ),
    "best peak, ε": lambda f: planning.optimal_training(
        f["pt"], f["new"], RUN, 0.6, {"peak": (1e-5, 1e-3)}, area_options=WEIGHTED
    ),
    "four settings of a continual run": lambda f: planning.optimal_training(
        f["pt"], f["new"], RUN, 0.6, FOUR
    ),
    "best replay for 21 weights": lambda f: planning.optimal_training(
        f["pt"], f["new"], RUN, np.linspace(0, 1, 21), {"replay": (0, 1)}
    ),
    "turning length, critical point": lambda f: planning.turning_length(f["pt"], BACK),
    "turning length, critical point, ε": lambda f: planning.turning_length(
        f["pt"], BACK, area_options=WEIGHTED
    ),
    "best schedule, 40,000 steps": lambda f: planning.optimal_schedule(
        f["annealing"], 40_000, 2e-4, **LIMITS
    ),
    "best schedule, 40,000 steps, ε": lambda f: planning.optimal_schedule(
        f["annealing"], 40_000, 2e-4, **LIMITS, **WEIGHTED
    ),
    "best schedule of two losses, 10,000 steps": lambda f: planning.optimal_schedule(
        [f["pt"], f["new"]], 10_000, 2e-4, **BOTH
    ),
    "another set, 200 points": lambda f: papers.out_of_domain(
        _observed(), n_resamples=len(f["pt"].params["L0"])
    ),
    "value of a corpus, 10 checkpoints, fits included": lambda f: papers.pretraining_value(
        _checkpoints(), at=1e12, n_resamples=len(f["pt"].params["L0"]) - 1  # the first is the fit
    ),
}  # fmt: skip


def seconds() -> None:
    """CPU seconds of calls: the first, which compiles, and the second."""
    print("| plan | alone: first call | alone | 1,000 draws: first call | 1,000 draws |")
    print("|---|---|---|---|---|")
    made = {
        "scratch": ("chinchilla", "from-scratch"), "cpt": ("cpt-chinchilla", "cpt-chinchilla"),
        "kaplan": ("kaplan", "kaplan"), "domain": ("dcpt", "dcpt"),
        "general": ("dcpt", "dcpt-general"), "pt": ("cpt-curve-replay-pt", "cpt-curve-replay-pt"),
        "new": ("cpt-curve-replay-cpt", "cpt-curve-replay-cpt"),
        "annealing": ("annealing", "annealing"),
    }  # fmt: skip
    fits = [{k: scattered(*v, n) for k, v in made.items()} for n in (1, 1000)]
    for name, plan in PLANS.items():
        took = []
        for some in fits:
            for _ in range(2):
                begun = time.process_time()
                plan(some)
                took.append(time.process_time() - begun)
        cells = [f"{took[0]:.1f}", f"{took[1]:.3f}", f"{took[2]:.1f}", f"{took[3]:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    for table in sys.argv[1:] or ("numbers", "seconds"):
        globals()[table]()
        print()
