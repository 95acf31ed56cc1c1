"""Compiled programs: how they are made, on the CPU quickly, and kept in a folder for later."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache
from jax.extend.core import get_opaque_trace_state

from jaxlaw._typed import refuse_forked

#: XLA's older way to write kernels on the CPU: compiles in 60 % of the time, and what it makes
#: runs as fast (``benchmarks/first_call.md``). Later versions of jaxlib do not have it.
QUICK = {"xla_cpu_use_fusion_emitters": False}

#: Without LLVM's optimisation a program compiles in under half the time, and runs four to ten
#: times as long (``benchmarks/first_call.md``). LLVM takes it in one piece: in 32, for threads,
#: it takes a fifth longer.
UNOPTIMISED = {"xla_backend_optimization_level": 0, "xla_cpu_parallel_codegen_split_count": 1}

#: Memory maps of a process beyond which compiled programs are forgotten. Linux gives a process
#: 65,530, a program takes some hundreds, and without any left the compiler ends the process.
MOST_MAPS = 30_000


def compiled(*, optimised: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Program]:
    """Make a program of a function, like ``jax.jit`` as a decorator.

    Args:
        optimised: whether the compiler optimises. False is for programs that run once for a fit,
            or for a table, such as those of notes and of uncertainty: they take longer to
            optimise than to run. What runs for every start, draw or step is optimised.
        **options: options of ``jax.jit``, such as ``static_argnames``.
    """
    return functools.partial(Program, optimised=optimised, options=options)


class Program:
    """A function and its compiled programs."""

    def __init__(
        self, function: Callable[..., Any], optimised: bool, options: dict[str, Any]
    ) -> None:
        functools.update_wrapper(self, function)
        self._optimised, self._options = optimised, options
        self._inside = jax.jit(function, **options)

    @functools.cached_property
    def _outermost(self) -> Any:
        """The program with options of the compiler, which JAX takes of the outermost one alone."""
        options = compiler_options(self._optimised)
        return jax.jit(self.__wrapped__, compiler_options=options, **self._options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        refuse_forked()
        if get_opaque_trace_state() != _not_tracing():
            return self._inside(*args, **kwargs)
        programs = self._cache_size()
        result = self._outermost(*args, **kwargs)
        if self._cache_size() > programs and memory_maps() > MOST_MAPS:
            jax.clear_caches()
        return result

    def _cache_size(self) -> int:
        return self._outermost._cache_size()


@functools.cache
def _not_tracing() -> Any:
    with jax.core.eval_context():
        return get_opaque_trace_state()


def memory_maps() -> int:
    """How many memory maps this process has, where the system tells; 0 elsewhere."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


def few_lengths(length: int) -> int:
    """The next power of two: arrays of few lengths need few programs."""
    return 2 ** (length - 1).bit_length()


def compiler_options(optimised: bool = True) -> dict[str, Any]:
    """Those of ``QUICK`` and ``UNOPTIMISED`` that this backend and version of jaxlib take."""
    if jax.default_backend() != "cpu":
        return {}
    wanted = QUICK if optimised else QUICK | UNOPTIMISED
    known = _known(tuple((QUICK | UNOPTIMISED).items()))
    return {name: value for name, value in wanted.items() if name in known}


@functools.cache
def _known(options: tuple[tuple[str, Any], ...]) -> frozenset[str]:
    """Names of those that are, asked all at once: every question is a program."""
    try:
        jax.jit(lambda: 0, compiler_options=dict(options))()
    except jax.errors.JaxRuntimeError:
        alone = [_known((option,)) for option in options] if len(options) > 1 else []
        return frozenset().union(*alone)
    return frozenset(dict(options))


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Float64 inside, and JAX's checks of the caller's own programs off.

    A search meets infinities and NaN on its way and turns away from them, its formulas broadcast
    and mix whole numbers with others, and data come from the host: flags of a process that call
    these errors (``JAX_DEBUG_NANS``, ``JAX_DEBUG_INFS``, ``JAX_NUMPY_RANK_PROMOTION``,
    ``JAX_NUMPY_DTYPE_PROMOTION``, ``JAX_TRANSFER_GUARD``) are for the caller's code, outside.
    """
    with (
        jax.enable_x64(True),
        jax.debug_nans(False),
        jax.debug_infs(False),
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
        jax.transfer_guard("allow"),
    ):
        yield


@contextlib.contextmanager
def programs_in(folder: str | os.PathLike[str] | None) -> Iterator[None]:
    """Programs compiled inside are kept in a folder, and found there by later processes.

    JAX's own persistent cache, which is a setting of the process, for as long as this lasts;
    None changes nothing.
    """
    if folder is None:
        yield
        return
    wanted = {
        "jax_compilation_cache_dir": os.fspath(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.05,  # programs are small, and many
    }
    before = {name: getattr(jax.config, name) for name in wanted}

    def put(settings: dict[str, Any]) -> None:
        for name, value in settings.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()  # it reads its settings once

    put(wanted)
    try:
        yield
    finally:
        put(before)
