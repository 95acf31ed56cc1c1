"""The core without its extras: a fit, a plan, and advice where an extra is missing."""

import subprocess
import sys

import jaxlaw as jl

table = jl.simulate.experiment("chinchilla").table
fit = jl.fit("chinchilla", table, n_starts=256, n_local=16)
assert fit.status == "converged" and fit.notes == (), fit.summary()
assert 1e9 < jl.planning.allocation(fit, 1e21).N < 1e10
extras = {"cyclopts", "rich", "tqdm", "matplotlib"}
assert not extras & set(sys.modules), extras & set(sys.modules)
try:
    import matplotlib  # noqa: F401
except ModuleNotFoundError:
    try:
        from jaxlaw import plots  # noqa: F401
    except ModuleNotFoundError as error:
        assert "jaxlaw[plot]" in str(error), error
    script = [sys.executable, "-c", "from jaxlaw.cli import main; main()"]
    ended = subprocess.run(script, capture_output=True, text=True)
    assert ended.returncode == 2 and "jaxlaw[cli]" in ended.stderr, ended
    assert "Traceback" not in ended.stderr
print("a fit, a plan and the missing extras: as they should be")
