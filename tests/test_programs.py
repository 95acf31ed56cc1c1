import subprocess
import sys

import jax
import pytest

from jaxlaw.programs import programs_in

SCRIPT = """
import sys, jax, jaxlaw as jl
before = jax.config.jax_compilation_cache_dir
table = jl.simulate.experiment("loss-compute").table
print(jl.fit("loss-compute", table, compile_cache=sys.argv[1]).params)
assert jax.config.jax_compilation_cache_dir == before
"""


@pytest.mark.slow
def test_a_later_process_finds_the_programs(tmp_path):
    said, kept = [], []
    for _ in range(2):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "programs")]
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
