"""Compiled programs: made quickly on the CPU, and kept in a folder for later processes."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

#: XLA's older way to write kernels on the CPU: compiles in 60 % of the time, and what it makes
#: runs as fast (``benchmarks/first_call.md``). Later versions of jaxlib do not have it.
QUICK = {"xla_cpu_use_fusion_emitters": False}


def compiled(*, optimised: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Program]:
    """Like ``jax.jit`` as a decorator, with programs that compile quickly.

    Args:
        optimised: False for what always takes longer to compile than to do.
        options: those of ``jax.jit``.
    """
    return functools.partial(Program, options=options, optimised=optimised)


#: Without LLVM's optimisation a program compiles in under half the time, and runs four to ten
#: times as long (``benchmarks/first_call.md``).
UNOPTIMISED = {"xla_backend_optimization_level": 0}


class Program:
    """A function and its compiled programs."""

    def __init__(
        self, function: Callable[..., Any], options: dict[str, Any], optimised: bool = True
    ) -> None:
        functools.update_wrapper(self, function)
        self._within = jax.jit(function, **options)
        self._make = functools.partial(jax.jit, function, **options)
        self._optimised = optimised

    @functools.cached_property
    def for_little_work(self) -> Program:
        """The same, on the CPU without optimisation: for what is done sooner than compiled."""
        return Program(self.__wrapped__, self._make.keywords, optimised=False)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The function's result."""
        program = self._within if _traced(args, named) else self._outermost
        return program(*args, **named)

    @functools.cached_property
    def _outermost(self) -> Any:
        options = known_options()
        if not self._optimised and jax.default_backend() == "cpu":
            options = options | UNOPTIMISED
        return self._make(compiler_options=options) if options else self._within

    def clear_cache(self) -> None:
        """Forget what was compiled, of the program for little work too."""
        self._outermost.clear_cache()
        if "for_little_work" in vars(self):
            self.for_little_work.clear_cache()

    def _cache_size(self) -> int:
        return self._outermost._cache_size()


def _traced(*arguments: Any) -> bool:
    """Whether this call becomes part of another program, of which how to compile is said."""
    of_now = jax.device_put(np.int32(0))  # a tracer inside a jit, whatever the arguments
    leaves = jax.tree.leaves((of_now, arguments))
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


@functools.cache
def known_options() -> dict[str, Any]:
    """Those of ``QUICK`` if this backend and version of jaxlib take them, or none."""
    if jax.default_backend() != "cpu":
        return {}
    try:
        jax.jit(lambda: 0, compiler_options=QUICK)()
    except jax.errors.JaxRuntimeError:
        return {}
    return QUICK


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
        "jax_persistent_cache_min_compile_time_secs": 0.2,
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
