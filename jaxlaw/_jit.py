"""Compiled programs: made quickly on the CPU, and kept in a folder for later processes."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from jaxlaw._typed import refuse_forked

#: XLA's older way to write kernels on the CPU: compiles in 60 % of the time, and what it makes
#: runs as fast (``benchmarks/first_call.md``). Later versions of jaxlib do not have it.
QUICK = {"xla_cpu_use_fusion_emitters": False}

#: Without LLVM's optimisation a program compiles in under half the time, and runs four to ten
#: times as long (``benchmarks/first_call.md``). LLVM takes it in one piece: in 32, for threads,
#: it takes a fifth longer.
UNOPTIMISED = {"xla_backend_optimization_level": 0, "xla_cpu_parallel_codegen_split_count": 1}

#: Numbers in the arguments of little work, if each of them is evaluated once, as by a formula …
EVALUATED = 2**14
#: … or is searched, integrated over or met by every other, as in the plan of one fit.
SEARCHED = 2**9

#: Memory maps that the programs of a shelf may take; Linux gives a process 65,530 in all.
MAPS = 2**14


def compiled(
    *, optimised: bool = True, little: int = 0, **options: Any
) -> Callable[[Callable[..., Any]], Program]:
    """Like ``jax.jit`` as a decorator, with programs that compile quickly.

    Args:
        optimised: False for what always takes longer to compile than to do.
        little: … and for what does so with arguments of so many numbers in all, or fewer.
        options: those of ``jax.jit``.
    """
    return functools.partial(Program, options=options, optimised=optimised, little=little)


class Program:
    """A function and its compiled programs."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: dict[str, Any],
        optimised: bool = True,
        little: int = 0,
    ) -> None:
        functools.update_wrapper(self, function)
        self._little = little
        self._within = jax.jit(function, **options)
        self._make = functools.partial(jax.jit, function, **options)
        self._optimised = optimised

    @functools.cached_property
    def for_little_work(self) -> Program:
        """The same, on the CPU without optimisation: for what is done sooner than compiled."""
        return Program(self.__wrapped__, self._make.keywords, optimised=False)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The function's result."""
        refuse_forked()
        leaves = jax.tree.leaves((args, named))
        if _traced(leaves):
            return self._within(*args, **named)
        if self._little and _numbers(leaves) <= self._little:
            return self.for_little_work(*args, **named)
        return self.alone(*args, **named)

    @functools.cached_property
    def alone(self) -> Any:
        """The program, called a little sooner where it is never a part of another."""
        options = known_options(self._optimised)
        return self._make(compiler_options=options) if options else self._within

    def clear_cache(self) -> None:
        """Forget what was compiled, of the program for little work too."""
        self.alone.clear_cache()
        if "for_little_work" in vars(self):
            self.for_little_work.clear_cache()

    def _cache_size(self) -> int:
        return self.alone._cache_size()


def _traced(leaves: list[Any]) -> bool:
    """Whether this call becomes part of another program, of which how to compile is said."""
    of_now = jax.device_put(np.int32(0))  # a tracer inside a jit, whatever the arguments
    return any(isinstance(leaf, jax.core.Tracer) for leaf in (of_now, *leaves))


def _numbers(leaves: list[Any]) -> int:
    return sum(leaf.size for leaf in leaves if isinstance(leaf, np.ndarray | jax.Array))


def few_lengths(length: int) -> int:
    """The next power of two: arrays of few lengths need few programs."""
    return 2 ** (length - 1).bit_length()


class Shelf:
    """Programs that are forgotten together when they have grown too many.

    Without this, a process that fits many laws comes to an end in the compiler.
    """

    def __init__(self, *programs: Program) -> None:
        self._programs = programs
        self._keys: set[tuple[Any, ...]] = set()
        self._maps = 0  # in use when they were last forgotten

    def make_room(self, *key: Any) -> None:
        """Before a program is used that is compiled if its key is new."""
        if key not in self._keys and memory_maps() - self._maps > MAPS:
            for program in self._programs:
                program.clear_cache()
            self._keys.clear()
            self._maps = memory_maps()
        self._keys.add(key)


def memory_maps() -> int:
    """How many this process has, where the system tells; a program takes some hundreds."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


def known_options(optimised: bool = True) -> dict[str, Any]:
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
