import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

from jaxlaw import _jit as programs
from jaxlaw._jit import compiled


@compiled(static_argnames="power")
def raised(x, power):
    return x**power


@pytest.mark.parametrize(
    "call",
    [
        raised,
        jax.jit(raised, static_argnames="power"),
        jax.grad(lambda x, power: raised(x, power + 1) / (power + 1)),
        lambda x, power: jax.vmap(lambda one: raised(one, power))(jax.numpy.full(2, x))[0],
        lambda x, power: jax.jit(lambda: raised(x, power))(),  # no argument is traced
        lambda x, power: jax.vmap(jax.grad(lambda x: raised(x, power + 1) / (power + 1)))(
            jax.numpy.full(2, x)
        )[0],
    ],
)
def test_a_program_is_its_function_wherever_it_is_called(call):
    assert float(call(3.0, power=2)) == pytest.approx(9.0)


def test_programs_are_forgotten_before_memory_maps_run_out(monkeypatch):
    """A process that fits many laws would come to an end in the compiler."""
    monkeypatch.setattr(programs, "_programs", weakref.WeakSet())
    program = compiled()(lambda x: x + 1)
    program(1.0)
    assert program._cache_size() == 1
    monkeypatch.setattr(programs, "MOST_MAPS", -1)
    program(1)
    assert program._cache_size() == 1
    assert float(program(1.0)) == 2.0


def test_the_callers_own_functions_are_not_compiled_anew_where_programs_are_forgotten(monkeypatch):
    traced = []

    @jax.jit
    def own(x):
        traced.append(x)
        return x + 1

    own(1.0)
    monkeypatch.setattr(programs, "_programs", weakref.WeakSet())
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 1)
    program = compiled()(lambda x: x + 1)
    for size in (1, 2, 3):
        program(np.zeros(size))
    assert program._cache_size() < 3
    assert float(own(1.0)) == 2.0 and len(traced) == 1


def test_parts_of_programs_are_traced_once_and_forgotten_with_them(monkeypatch):
    """JAX keeps for ever what it traced for a function that lives as long as the process."""
    monkeypatch.setattr(programs, "_programs", weakref.WeakSet())
    monkeypatch.setattr(programs, "_parts", [])
    traced = []

    @programs.traced_once(static_argnames="law")
    def part(x, law):
        traced.append(law)
        return x + 1

    every = [compiled()(lambda x, k=k: part(x, law="own") + k) for k in range(4)]
    assert [float(program(1.0)) for program in every[:2]] == [2.0, 3.0]
    assert traced == ["own"]
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 1)
    assert [float(program(1.0)) for program in every[2:]] == [4.0, 5.0]
    assert traced == ["own"] * 2


def test_programs_used_least_recently_are_forgotten_first(monkeypatch):
    monkeypatch.setattr(programs, "_programs", weakref.WeakSet())
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 4)
    program, made = compiled()(lambda x: x + 1), []
    load = program._load_or_compile
    monkeypatch.setattr(
        program, "_load_or_compile", lambda *given: made.append(given) or load(*given)
    )
    for size in (1, 2, 3, 4, 1, 5):
        program(np.zeros(size))
    assert (program._cache_size(), len(made)) == (3, 5)
    program(np.zeros(1))
    program(np.zeros(5))
    assert len(made) == 5  # these were used last
    program(np.zeros(2))
    assert len(made) == 6


def test_threads_that_want_one_program_make_it_once(monkeypatch):
    program, made, enough = compiled()(lambda x: x + 1), [], threading.Barrier(4)
    load = program._load_or_compile

    def slowly(*given):
        made.append(given)
        time.sleep(0.2)
        return load(*given)

    def call(_):
        enough.wait()
        return float(program(1.0))

    monkeypatch.setattr(program, "_load_or_compile", slowly)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(call, range(4))) == [2.0] * 4
    assert len(made) == 1


def test_an_error_in_making_a_program_is_every_callers_and_the_next_call_tries_again():
    faulty = [True]

    def function(x):
        if faulty:
            raise ValueError("not now")
        return x + 1

    program = compiled()(function)
    with pytest.raises(ValueError, match="not now"):
        program(1.0)
    faulty.clear()
    assert float(program(1.0)) == 2.0


def test_what_this_jaxlib_does_not_take_is_left_out(monkeypatch):
    monkeypatch.setattr(programs, "QUICK", {"xla_cpu_no_such_option": True})
    assert programs.compiler_options() == {}
    assert programs.compiler_options(optimised=False) == programs.UNOPTIMISED
    assert float(compiled()(lambda x: x + 1)(1.0)) == 2.0
