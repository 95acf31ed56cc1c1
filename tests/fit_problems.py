"""Problems as the solvers see them, made from the simulated experiments."""

import numpy as np
from conftest import some_rows

from jaxlaw import laws, simulate
from jaxlaw._jit import compiled
from jaxlaw.fitting import _engine as engine
from jaxlaw.fitting import _starts as starts
from jaxlaw.fitting._options import FitOptions
from jaxlaw.fitting._problem import FitProblem, build_problem
from jaxlaw.fitting._variable_projection import solve_coefficients, solved_coordinates, terms

LIKE_A_FIT = 32, 2048  # starts solved and tried at once: its programs are there already
TRIED = 4096  # by it in all


def fit_problem(
    name: str, constraint: str | None = None, linear: bool = True, noise: float = 0.004,
    most: int | None = None, **options,
) -> FitProblem:  # fmt: skip
    """The experiment of a law, or ``most`` rows of it, as a problem; to be called in float64."""
    experiment = simulate.experiment(name, noise=noise)
    law = laws.get(experiment.law.name, constraint)
    table = some_rows(experiment.table, most)
    inputs = {key: table[key].to_numpy() for key in law.input_names}
    target = table[law.target].to_numpy()
    return build_problem(law, inputs, target, np.ones(len(table)), FitOptions(**options), linear)


def screened(p: FitProblem, count: int = 64, of: int = TRIED) -> np.ndarray:
    """The best ``count`` of Sobol starts, coordinates (count, p), like a default fit's."""
    first = p.coordinates_of_starts(starts.sobol(p.model.law, of, 0))
    values = evaluate_starts(p.model, p.data, first).value[0]
    return first[np.argsort(np.where(np.isfinite(values), values, np.inf), kind="stable")[:count]]


def evaluate_starts(model, problems, starts, batched=frozenset()) -> engine.Values:
    """Screening's values of starts (S, p), for every problem."""
    fields = {name: getattr(problems, name) for name in batched}
    queue = engine.Queue(fields, starts, np.zeros(len(starts), np.int32))
    return engine.evaluate_queues(model, problems, [queue])[0]


@compiled(optimised=False, static_argnames="model")
def solved_for(model, problem, coordinates):
    """A start (p,) with its linear coefficients solved for, as screening does."""
    _, found = solve_coefficients(model, problem, terms(model, problem, coordinates))
    return coordinates.at[np.array(solved_coordinates(model), int)].set(found)
