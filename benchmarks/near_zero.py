"""What runs without r = 0 say of the loss at r = 0: the most any fit can know, and what fits do.

    python benchmarks/near_zero.py        # the case "zero" of study.py

Que's 36 folds, made by dcpt with 0.4 % noise: six general losses with the ε that table 5 of the
paper asks for (0.018), with the one the paper calls typical (0.1), and six domain losses. Of each:
R² of the truth itself at the held-out points; R² to be expected of the best unbiased estimate
(Cramér–Rao, first order in the parameters), also where ε is known, or one for all six; R² of fits.
"""

import itertools

import jax
import numpy as np
import scale

import jaxlaw as jl
from jaxlaw import folds, laws

NOISE = 0.004
LAW = laws.get("dcpt")
NAMES = LAW.parameter_names
EPS = NAMES.index("eps")
FITS = {
    "dcpt": {},
    "dcpt, least squares": {"delta": np.inf},
    "dcpt, C > C0 and η > 1 as the paper's fits": {"constraint": "paper"},
    "dcpt, ε ≥ 0.01": {"bounds": {"eps": (0.01, None)}},
}


def r2(loss, variance):
    """R² of predictions whose squared errors are these."""
    return 1 - variance.sum() / ((loss - loss.mean()) ** 2).sum()


def logs(inputs, own):
    """Log losses (n,), and their derivatives in the logarithms of the parameters (n, p)."""
    value = np.array([own[name] for name in NAMES])

    def of(shift):
        return jax.numpy.log(
            LAW(dict(zip(NAMES, value * jax.numpy.exp(shift), strict=True)), **inputs)
        )

    with jax.enable_x64(True):
        zero = np.zeros(len(NAMES))
        return np.asarray(of(zero)), np.asarray(jax.jacobian(of)(zero))


def covariances(slopes, fitted):
    """Of each domain's own parameters: alone; with ε known; with one ε for all of them."""
    known = np.arange(len(NAMES)) != EPS
    information = [s[fitted].T @ s[fitted] / NOISE**2 for s in slopes]
    alone = [np.linalg.inv(one) for one in information]
    of_eps = 1 / sum(1 / one[EPS, EPS] for one in alone)
    for one, cov in zip(information, alone, strict=True):
        inner = np.zeros_like(cov)
        inner[np.ix_(known, known)] = np.linalg.inv(one[np.ix_(known, known)])
        along = cov[:, EPS] / cov[EPS, EPS]
        yield cov, inner, inner + np.outer(along, along) * of_eps


def limits(inputs, made):
    """What is known → (6, 36) R² of held-out points, and which folds hold out r = 0."""
    logged = [logs(inputs, own) for own, _ in made]
    pairs = list(itertools.combinations(np.unique(inputs["r"]), 2))
    errors = {key: np.empty((6, 36)) for key in ("truth", "alone", "known", "shared")}
    for k, pair in enumerate(pairs):
        held_out = np.isin(inputs["r"], pair)
        several = covariances([slopes for _, slopes in logged], ~held_out)
        for j, ((value, slopes), own, covs) in enumerate(zip(logged, made, several, strict=True)):
            clean, loss = np.exp(value[held_out]), own[1][held_out]
            errors["truth"][j, k] = r2(loss, (loss - clean) ** 2)
            for key, cov in zip(("alone", "known", "shared"), covs, strict=True):
                spread = np.einsum("ij,jk,ik->i", slopes[held_out], cov, slopes[held_out])
                errors[key][j, k] = r2(clean, (spread + NOISE**2) * clean**2)
    return errors, np.array([0 in pair for pair in pairs])


def row(name, scores, zero):
    """Means over folds; of the six domains the lowest and the highest."""

    def ends(values):
        low, high = np.sort(values.mean(axis=1))[[0, -1]]
        return f"{short(low)} to {short(high)}"

    whole = scores.mean(axis=1)
    print(f"| {name} | {ends(scores[:, ~zero])} | {ends(scores[:, zero])} "
          f"| {short(np.median(scores[:, zero]))} | {ends(scores)} | {(whole > 0.99).sum()} of 6 |",
          flush=True)  # fmt: skip


def short(value):
    return f"{value:.4f}" if abs(value) < 1e3 else f"{value:.0e}"


def near_zero():
    (_, *general), (_, *domain) = scale.domains()
    _, *typical = next(scale.domains(eps=0.1))
    for name, (inputs, made) in (
        ("general losses, ε = 0.018 (table 5)", general),
        ("general losses, ε = 0.1 (typical)", typical),
        ("domain losses, ε = 0.15", domain),
    ):
        print(f"\n## R² over 36 folds, six domains: {name}\n")
        print(
            "| prediction | 28 folds that fit r = 0 | 8 that hold it out | their median | all 36 "
            "| mean of 36 above 0.99 |\n|---|---|---|---|---|---|"
        )
        found, zero = limits(inputs, made)
        row("the truth itself", found["truth"], zero)
        row("best unbiased, expected", found["alone"], zero)
        row("the same, one ε for all six", found["shared"], zero)
        row("the same, ε known", found["known"], zero)
        data, far = {str(k + 1): inputs | {"loss": loss} for k, (_, loss) in enumerate(made)}, 0
        for name, options in FITS.items():
            studied = jl.cross_validate(
                "dcpt", data, folds.leave_p_groups_out("r", 2), n_starts=1024, n_local=16,
                progress=False, **options,
            )  # fmt: skip
            row(name, studied.frame["r2"].to_numpy().reshape(6, 36), zero)
            alone = (studied.only(f"data == '{name}'") for name in data)
            far += sum(note.code == "far-folds" for study in alone for note in study.notes)
        print(f"\n`far-folds` notes: {far} of {len(FITS) * 6} data sets and fits.")


if __name__ == "__main__":
    near_zero()
