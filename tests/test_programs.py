import subprocess
import sys

import jax
import pytest

import jaxlaw as jl
from jaxlaw import _jit as programs
from jaxlaw import simulate
from jaxlaw._jit import compiled, programs_in
from jaxlaw.fitting import _engine as engine

SCRIPT = """
import sys, jax, jaxlaw as jl
assert not {"jaxopt", "scipy"} & set(sys.modules)  # only a fit takes them
jl.engine.STEPWISE = 0  # programs that take long to compile
before = jax.config.jax_compilation_cache_dir
table = jl.simulate.experiment("loss-compute").table
print(jl.fit("loss-compute", table, compile_cache=sys.argv[1]).params)
assert jax.config.jax_compilation_cache_dir == before
"""


@pytest.mark.slow
def test_a_later_process_finds_the_programs(tmp_path):
    said, kept = [], []
    for _ in range(2):
        command = [sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path / "programs")]
        said.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        # Those that take long by any clock; small ones are kept when the machine is busy.
        kept.append({p.name for p in (tmp_path / "programs").glob("jit__rounds-*-cache")})
    assert len(kept[0]) >= 2 and kept[0] == kept[1]
    assert said[0] == said[1]


def test_without_a_folder_nothing_is_set():
    before = jax.config.jax_compilation_cache_dir
    with programs_in(None):
        assert jax.config.jax_compilation_cache_dir == before


def test_the_setting_is_put_back_after_an_error(tmp_path):
    before = jax.config.jax_compilation_cache_dir
    with pytest.raises(RuntimeError), programs_in(tmp_path):
        assert jax.config.jax_compilation_cache_dir == str(tmp_path)
        raise RuntimeError
    assert jax.config.jax_compilation_cache_dir == before


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


def test_without_optimisation_the_same_is_computed():
    program = compiled(static_argnames="power")(lambda x, power: jax.numpy.exp(x) ** power)
    quick = program.for_little_work
    assert quick is program.for_little_work and quick is not program
    assert float(quick(0.5, power=3)) == pytest.approx(float(program(0.5, power=3)), rel=1e-6)
    quick.clear_cache()
    assert (quick._cache_size(), program._cache_size()) == (0, 1)


def test_a_fit_of_a_few_lanes_is_compiled_quickly_and_comes_to_the_same(monkeypatch):
    made = simulate.experiment("loss-compute", noise=0.004)
    monkeypatch.setattr(engine, "STEPWISE", 0)
    found = []
    for little in (0, engine.LITTLE):
        monkeypatch.setattr(engine, "LITTLE", little)
        engine._rounds.for_little_work.clear_cache()
        fit = jl.fit(made.law, made.table, n_starts=64, screen=8)
        found.append((fit.objective, engine._rounds.for_little_work._cache_size()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)
    assert [count for _, count in found] == [0, 2]  # the solver and the finisher


def test_what_this_jaxlib_does_not_take_is_left_out(monkeypatch):
    monkeypatch.setattr(programs, "QUICK", {"xla_cpu_no_such_option": True})
    assert programs.known_options() == {}
    assert programs.known_options(optimised=False) == programs.UNOPTIMISED
    assert float(compiled()(lambda x: x + 1)(1.0)) == 2.0
