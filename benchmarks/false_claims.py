"""How often the test between laws claims a difference where there is none, and with repeats.

    python benchmarks/false_claims.py [--studies 1000]

Two linear laws of five coefficients, in five inputs of random designs, miss the truth by as much as
each other on either side (0.3 or 2 times the noise, root mean square), so that neither is better. A
study is 5 folds of the rows, once or repeated ten times; scores are mean squares. The test asks for
5 %. Beside it: the same with the variance of the mean (1/J + n_test/n_train)·s², every fold of a
repeat counted as one of J (Bouckaert and Frank 2004).
"""

import argparse

import numpy as np
from scipy import stats

from jaxlaw.validation._comparison import paired_p

FOLDS = 5


def repeats_as_folds(difference, ratio):
    error = np.sqrt((1 / len(difference) + ratio) * difference.var(ddof=1))
    return 2 * stats.t.sf(abs(difference.mean()) / error, len(difference) - 1)


def logs_of(inputs, target, held):
    """(J,) logarithms of held-out mean squares of least squares on the other rows."""
    fitted = (~held).astype(float)
    squares = np.einsum("fn,ni,nj->fij", fitted, inputs, inputs, optimize=True)
    coefficients = np.linalg.solve(squares, ((fitted * target) @ inputs)[..., None])[..., 0]
    missed = (target - coefficients @ inputs.T) ** 2
    return np.log((missed * held).sum(axis=1) / held.sum(axis=1))


def claims(rows, apart, noise, repeats, studies):
    """Shares of studies that claim a difference: by the test, and with repeats as folds."""
    draw, found = np.random.default_rng(1), []
    for _ in range(studies):
        inputs = np.hstack([np.ones((rows, 1)), draw.standard_normal((rows, 4))])
        miss = apart * draw.standard_normal(rows)
        order = np.argsort(draw.random((repeats, rows)), axis=1)
        held_out = (order[:, None, :] % FOLDS == np.arange(FOLDS)[:, None]).reshape(-1, rows)
        heavy = noise == "heavy"
        off = draw.standard_t(3, rows) / np.sqrt(3) if heavy else draw.standard_normal(rows)
        one, other = (logs_of(inputs, off + sign * miss, held_out) for sign in (-1, 1))
        ratio = float((held_out.sum(axis=1) / (~held_out).sum(axis=1)).mean())
        found.append([test(one - other, ratio) < 0.05 for test in (paired_p, repeats_as_folds)])
    return np.mean(found, axis=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--studies", type=int, default=1000)
    studies = parser.parse_args().studies
    print("| rows | laws miss by | noise | one pass | 10 repeats | 10 repeats, each fold counted |")
    print("|---|---|---|---|---|---|")
    for rows in (15, 30, 100):
        for apart in (0.3, 2.0):
            for noise in ("normal", "heavy"):
                (once, _), (ten, counted) = (
                    claims(rows, apart, noise, repeats, studies) for repeats in (1, 10)
                )
                shares = f"{once:.1%} | {ten:.1%} | {counted:.1%}"
                print(f"| {rows} | {apart:g} σ | {noise} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
