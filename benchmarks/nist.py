"""The nonlinear-regression problems of NIST's Statistical Reference Datasets, as user laws.

https://www.itl.nist.gov/div898/strd/nls/nls_main.shtml: 27 problems with two starts each, and
parameters, standard deviations and residual sums of squares certified to 11 digits. Files as
NIST distributes them lie in the folder ``nist_strd`` of ``JAXLAW_DATA``.
"""

import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from jax.numpy import arctan, cos, exp, pi, sin

import jaxlaw as jl

WIDEN = 2.0  # factor by which every starting range reaches beyond the file's two starts


@dataclass(frozen=True)
class Problem:
    """One file.

    Attributes:
        name: as NIST writes it.
        level: of difficulty, as the file states it: lower, average or higher.
        model: the text of the model.
        data: name → (n,) of the predictors and of the response ``y``, which is its logarithm
            where that is what the model predicts.
        starts: (2, p).
        certified, deviations: (p,) parameters and their standard deviations.
        squares: the residual sum of squares.
    """

    name: str
    level: str
    model: str
    data: dict[str, np.ndarray]
    starts: np.ndarray
    certified: np.ndarray
    deviations: np.ndarray
    squares: float


def read(path: str | Path) -> Problem:
    """Read a file as NIST distributes it."""
    lines = Path(path).read_text().splitlines()
    text = "\n".join(lines)

    def stated(pattern: str) -> str:
        return re.search(pattern, text)[1]

    model = stated(r"Model:(?s:.*?)Parameters? \(.*\)\n((?s:.*?))\n *Start").strip()
    rows = re.findall(r"^ *b\d+ =(.*)$", text, re.MULTILINE)
    start_1, start_2, certified, deviations = np.array([row.split() for row in rows], float).T
    first, last = map(int, re.search(r"Data +\(lines (\d+) to +(\d+)\)", text).groups())
    table = np.array([line.split() for line in lines[first - 1 : last]], float)
    names = lines[first - 2].removeprefix("Data:").split()
    data = dict(zip(names, table.T, strict=True))
    if model.startswith("log[y]"):
        data["y"] = np.log(data["y"])
    return Problem(
        name=stated(r"Dataset Name: +(\w+)"),
        level=stated(r"(\w+) Level of Difficulty").lower(),
        model=model,
        data=data,
        starts=np.stack([start_1, start_2]),
        certified=certified,
        deviations=deviations,
        squares=float(stated(r"Residual Sum of Squares: +(\S+)")),
    )


def folder() -> Path:
    """Where the files are."""
    return Path(os.environ["JAXLAW_DATA"]) / "nist_strd"


def law_of(problem: Problem) -> jl.Law:
    """The problem's model as a law, ``nist-`` and its name in small letters.

    One rule makes every starting range: from the least to the greatest of half and twice the
    file's two starts.
    """
    reach = np.concatenate([problem.starts / WIDEN, problem.starts * WIDEN])
    names = [f"b{k}" for k in range(1, len(problem.certified) + 1)]
    ranges = zip(names, reach.min(axis=0).tolist(), reach.max(axis=0).tolist(), strict=True)
    return jl.law(
        partial(LAWS[problem.name], **{name: jl.real(low, high) for name, low, high in ranges}),
        name=f"nist-{problem.name.lower()}",
        formula=problem.model,
        source="NIST StRD, nonlinear regression",
        target="y",
        residuals="linear",
    )


def _gauss(x, b1, b2, b3, b4, b5, b6, b7, b8):
    return (
        b1*exp( -b2*x ) + b3*exp( -(x-b4)**2 / b5**2 )
                        + b6*exp( -(x-b7)**2 / b8**2 )
    )  # fmt: skip


def _lanczos(x, b1, b2, b3, b4, b5, b6):
    return b1*exp(-b2*x) + b3*exp(-b4*x) + b5*exp(-b6*x)  # fmt: skip


def _enso(x, b1, b2, b3, b4, b5, b6, b7, b8, b9):
    return (
        b1 + b2*cos( 2*pi*x/12 ) + b3*sin( 2*pi*x/12 )
           + b5*cos( 2*pi*x/b4 ) + b6*sin( 2*pi*x/b4 )
           + b8*cos( 2*pi*x/b7 ) + b9*sin( 2*pi*x/b7 )
    )  # fmt: skip


def _cubic_cubic(x, b1, b2, b3, b4, b5, b6, b7):
    return (b1 + b2*x + b3*x**2 + b4*x**3) / (1 + b5*x + b6*x**2 + b7*x**3)  # fmt: skip


#: Name → the model as the file prints it, ``f(predictors, parameters)``.
LAWS = {
    "Bennett5": lambda x, b1, b2, b3: b1 * (b2+x)**(-1/b3),
    "BoxBOD": lambda x, b1, b2: b1*(1-exp(-b2*x)),
    "Chwirut1": lambda x, b1, b2, b3: exp(-b1*x)/(b2+b3*x),
    "Chwirut2": lambda x, b1, b2, b3: exp(-b1*x)/(b2+b3*x),
    "DanWood": lambda x, b1, b2: b1*x**b2,
    "ENSO": _enso,
    "Eckerle4": lambda x, b1, b2, b3: (b1/b2) * exp(-0.5*((x-b3)/b2)**2),
    "Gauss1": _gauss,
    "Gauss2": _gauss,
    "Gauss3": _gauss,
    "Hahn1": _cubic_cubic,
    "Kirby2": lambda x, b1, b2, b3, b4, b5: (b1 + b2*x + b3*x**2) / (1 + b4*x + b5*x**2),
    "Lanczos1": _lanczos,
    "Lanczos2": _lanczos,
    "Lanczos3": _lanczos,
    "MGH09": lambda x, b1, b2, b3, b4: b1*(x**2+x*b2) / (x**2+x*b3+b4),
    "MGH10": lambda x, b1, b2, b3: b1 * exp(b2/(x+b3)),
    "MGH17": lambda x, b1, b2, b3, b4, b5: b1 + b2*exp(-x*b4) + b3*exp(-x*b5),
    "Misra1a": lambda x, b1, b2: b1*(1-exp(-b2*x)),
    "Misra1b": lambda x, b1, b2: b1 * (1-(1+b2*x/2)**(-2)),
    "Misra1c": lambda x, b1, b2: b1 * (1-(1+2*b2*x)**(-.5)),
    "Misra1d": lambda x, b1, b2: b1*b2*x*((1+b2*x)**(-1)),
    "Nelson": lambda x1, x2, b1, b2, b3: b1 - b2*x1 * exp(-b3*x2),
    "Rat42": lambda x, b1, b2, b3: b1 / (1+exp(b2-b3*x)),
    "Rat43": lambda x, b1, b2, b3, b4: b1 / ((1+exp(b2-b3*x))**(1/b4)),
    "Roszman1": lambda x, b1, b2, b3, b4: b1 - b2*x - arctan(b3/(x-b4))/pi,
    "Thurber": _cubic_cubic,
}  # fmt: skip

_PEAKS = ((2, 3, 4), (5, 6, 7))
_EXPONENTIALS = ((0, 1), (2, 3), (4, 5))

#: Name → places of the parameters of like terms: exchanged, they are the same model.
TERMS = {
    "Gauss1": _PEAKS,
    "Gauss2": _PEAKS,
    "Gauss3": _PEAKS,
    "Lanczos1": _EXPONENTIALS,
    "Lanczos2": _EXPONENTIALS,
    "Lanczos3": _EXPONENTIALS,
    "MGH17": ((1, 3), (2, 4)),
}
