"""The device of work: a pure choice, and a result that does not depend on it. No GPU is needed."""

import jax
import pytest

import jaxlaw as jl
from jaxlaw import _devices
from jaxlaw._devices import LARGE, devices, on_device_for, on_host, platform, platform_for

GPU = ("gpu", "cpu")


@pytest.mark.parametrize(
    ("work", "platforms", "wanted", "chosen"),
    [
        (LARGE - 1, GPU, "auto", "cpu"),
        (LARGE, GPU, "auto", "gpu"),
        (0, ("tpu", "cpu"), "auto", "cpu"),
        (0, ("gpu",), "auto", "gpu"),  # JAX_PLATFORMS=cuda
        (2 * LARGE, ("cpu",), "auto", "cpu"),
        (0, GPU, "gpu", "gpu"),
        (2 * LARGE, GPU, "cpu", "cpu"),
    ],
)
def test_small_work_runs_on_the_host_and_large_work_on_the_accelerator(
    work, platforms, wanted, chosen
):
    assert platform_for(work, platforms, wanted) == chosen


def test_a_default_fit_is_small_and_the_papers_grid_is_large():
    # 64 starts are solved on the 540 runs of D-CPT; its grid has 277,830.
    assert 64 * 540 * 9**2 < LARGE < 277_830 * 540 * 9**2


def test_a_platform_that_is_not_there_is_named():
    table = jl.simulate.experiment("chinchilla").table
    with pytest.raises(jl.UsageError, match="JAX has only cpu here"):
        jl.fit("chinchilla", table, device="gpu")


@pytest.fixture
def gpu_process(monkeypatch):
    """A process whose default platform is called gpu: what programs would be made for is asked."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(
        _devices, "devices", lambda: [Named(jax.config.jax_default_device or "gpu")]
    )


class Named:
    """A device of a platform."""

    def __init__(self, platform):
        self.platform = platform if isinstance(platform, str) else platform.platform


def test_own_programs_run_on_the_host_and_a_large_search_does_not(gpu_process):
    with on_host():
        assert platform() == "cpu"
        with on_device_for(LARGE) as name:
            assert name == "gpu"
        assert platform() == "cpu"
    assert platform() == "gpu"


def test_a_device_that_the_caller_named_is_kept():
    second = jax.devices()[-1]
    with jax.default_device(second), on_host():
        assert devices() == [second]
        with on_device_for(LARGE) as name:
            assert (devices(), name) == ([second], "cpu")


def test_a_fit_says_where_it_ran():
    fit = jl.fit("chinchilla", jl.simulate.experiment("chinchilla").table, device="cpu")
    assert fit.device == "cpu"
