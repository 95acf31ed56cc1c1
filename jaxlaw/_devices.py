"""Where work runs: small work on the CPU of the host, large work on the accelerator.

A GPU saves time where there is much to do, and costs it where there is little: for it a program
compiles two to five times as long, and a fit of one table has too few lanes to fill it. On an H200
beside 16 cores (``benchmarks/accelerator.md``) a first forecast of 20 runs took 77 s, against 12.5
on the CPU, and later ones no less.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Literal

import jax

from jaxlaw.errors import UsageError

Device = Literal["auto", "cpu", "gpu", "tpu"]

#: Lanes × rows × parameters² of a search from which the accelerator does it. Sixteen cores need
#: 1.3e-8 to 2.4e-8 s for each (100,000 starts of chinchilla on 243 rows 7.5 s, 277,830 of dcpt on
#: 540 rows 291 s), so this is about two seconds: what an H200 takes longer to compile the programs
#: of one law. Below it, a default fit (4e5 to 3e6) runs on the CPU as fast as on the GPU.
LARGE = 2**27

#: The device that the caller named, in threads that are inside of :func:`on_host`.
_callers = threading.local()


def platform_for(work: float, platforms: Sequence[str], wanted: Device = "auto") -> str:
    """The platform that work runs on.

    Args:
        work: lanes × rows × parameters².
        platforms: those of this process, the default one first.
        wanted: what the user asks for.

    Raises:
        UsageError: there is no such platform here.

    Example:
        >>> platform_for(1e6, ["gpu", "cpu"]), platform_for(1e9, ["gpu", "cpu"])
        ('cpu', 'gpu')
        >>> platform_for(1e6, ["gpu"]), platform_for(1e9, ["cpu"])
        ('gpu', 'cpu')
    """
    if wanted == "auto":
        return "cpu" if work < LARGE and "cpu" in platforms else platforms[0]
    if wanted not in platforms:
        raise UsageError(f"device is {wanted!r}, but JAX has only {' and '.join(platforms)} here")
    return wanted


def devices() -> list[jax.Device]:
    """Devices that work is spread over: of the default platform, or the one that a caller named."""
    named = jax.config.jax_default_device
    if named is not None and not isinstance(named, str):
        return [named]
    try:
        return jax.local_devices(backend=named)
    except (RuntimeError, AssertionError) as error:  # of cuda without its plugin JAX says nothing
        wanted = os.environ.get("JAX_PLATFORMS") or jax.config.jax_platforms
        raise UsageError(
            f"JAX cannot run on the platform it has to use (JAX_PLATFORMS={wanted}): "
            f"{str(error) or 'it has no such backend here'}; install jaxlib for it, or set "
            "JAX_PLATFORMS=cpu"
        ) from None


def platform() -> str:
    """The platform that programs are made for now: cpu, gpu, tpu."""
    return devices()[0].platform


def on_accelerator() -> bool:
    """Whether programs are made for a GPU or TPU.

    There memory and the number of kernels cost time, and on a CPU arithmetic and compiling: a few
    functions are written in two ways, which agree to rounding.
    """
    return platform() != "cpu"


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Programs of jaxlaw's own run on the CPU inside, unless the caller has named a device.

    ``jax.default_device`` is a caller's word; a process without a CPU (``JAX_PLATFORMS=cuda``)
    stays on what it has.
    """
    _callers.device = jax.config.jax_default_device
    with on_device_for(0):
        yield


@contextlib.contextmanager
def on_device_for(work: float, wanted: Device = "auto") -> Iterator[str]:
    """A search runs inside where :func:`platform_for` says; gives the platform's name."""
    named, here = getattr(_callers, "device", jax.config.jax_default_device), platform()
    if named is None:
        platforms = [jax.default_backend()]
    else:
        platforms = [named if isinstance(named, str) else named.platform]
    with contextlib.suppress(RuntimeError):  # JAX_PLATFORMS may name others alone
        if named is None or wanted != "auto":
            platforms += [device.platform for device in jax.local_devices(backend="cpu")[:1]]
    chosen = platform_for(work, [*dict.fromkeys(platforms)], wanted)
    # A process that has a CPU alone keeps its settings, which are in the key of every program.
    with contextlib.nullcontext() if chosen == here else jax.default_device(chosen):
        yield chosen


_forked = False  # whether this process has JAX's state of another one, and not its threads


def _after_fork() -> None:
    global _forked
    bridge = sys.modules.get("jax._src.xla_bridge")  # JAX has no public word for it
    _forked = _forked or bool(getattr(bridge, "_backends", None))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def refuse_forked() -> None:
    """Raise a UsageError in a child that was forked after its parent had used JAX: it would hang.

    The threads that compile and compute stay behind in the parent.
    """
    if _forked:
        raise UsageError(
            "this process was forked from one in which JAX had run already, and JAX would wait "
            "here for threads that it has only there: start workers with "
            "multiprocessing.get_context('spawn'), or with joblib, or fork before anything is "
            "fitted or predicted"
        )
