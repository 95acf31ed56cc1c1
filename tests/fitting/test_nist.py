"""NIST's certified regressions: the models reproduce them, and default fits find them."""

import jax
import numpy as np
import pytest

from tests.conftest import jitted_for_once, needs_data
from tests.fixtures import nist

each_problem = pytest.mark.parametrize("name", nist.LAWS)


def half_a_last_digit(values: np.ndarray) -> np.ndarray:
    """How far numbers printed with 11 digits may be from what they stand for."""
    return 0.5 * 10.0 ** (np.floor(np.log10(np.abs(values))) - 10)


@pytest.mark.full
@needs_data
@each_problem
def test_the_model_reproduces_the_certified_squares_and_deviations(name, own_laws):
    """As far as 11 printed digits of the parameters determine them (Lanczos1: not at all)."""
    problem = nist.read(nist.folder() / f"{name}.dat")
    law = nist.law_of(problem)
    assert law.name == f"nist-{name.lower()}"
    assert len(law.parameters) == len(problem.certified)
    for spec, starts in zip(law.parameters, problem.starts.T, strict=True):
        assert spec.start[0] < starts.min() and starts.max() < spec.start[1]
    squares, deviations = nist.squares_and_deviations(law, problem, problem.certified)
    inputs = {key: problem.data[key] for key in law.input_names}
    with jax.enable_x64(True):
        slopes = jitted_for_once(jax.jacfwd(lambda b: law(b, **inputs)))(
            dict(zip(law.parameter_names, problem.certified, strict=True))
        )
    lengths = [np.linalg.norm(slopes[key]) for key in law.parameter_names]
    printed = float(lengths @ half_a_last_digit(problem.certified)) ** 2
    assert abs(squares - problem.squares) <= 1e-9 * problem.squares + printed
    if printed < 1e-6 * problem.squares:
        assert nist.digits(deviations, problem.deviations) >= 6


@pytest.mark.full
@needs_data
@pytest.mark.parametrize("name", nist.TERMS)
def test_like_terms_may_change_places(name, own_laws):
    problem = nist.read(nist.folder() / f"{name}.dat")
    terms = np.array(nist.TERMS[name])
    moved = problem.certified.copy()
    moved[terms] = moved[np.roll(terms, 1, axis=0)]
    assert nist.digits(moved, problem.certified) < 1
    assert np.array_equal(nist.in_order(problem, moved), problem.certified)
    law = nist.law_of(problem)
    squares = [nist.squares_and_deviations(law, problem, b)[0] for b in (moved, problem.certified)]
    assert squares[0] == pytest.approx(squares[1], rel=1e-2 if name == "Lanczos1" else 1e-9)


@needs_data
@pytest.mark.full
@pytest.mark.parametrize("name", ["Misra1a", "Chwirut2", "Lanczos3", "Gauss1", "MGH10"])
def test_a_default_fit_finds_what_is_certified(name, own_laws):
    problem = nist.read(nist.folder() / f"{name}.dat")
    law = nist.law_of(problem)
    fit = nist.fit_default(law, problem)
    found = nist.in_order(problem, nist.parameters(fit))
    assert fit.status == "converged"
    assert nist.digits(found, problem.certified) >= 6
    squares, deviations = nist.squares_and_deviations(law, problem, found)
    assert nist.digits(deviations, problem.deviations) >= 6
    assert nist.digits(squares, problem.squares) >= 6
