"""Programs: functions compiled for arguments of given shapes, and kept for later processes.

A first fit spends seconds on tracing, lowering and compiling a dozen programs, and none of that
depends on the data. What is kept in the user's cache folder are therefore the executables
themselves: a process that finds one neither traces nor lowers. (JAX's own persistent cache keeps
what the compiler makes, and has to trace and lower to find it: that saves a tenth of the time.)

The key of a program holds all that it is made from: the function and its static arguments by
name, shapes and types of the others, the source of this package, the versions, the machine and the
flags. A law that is not jaxlaw's own has no such name; its programs are traced and lowered in
every process, and the text that comes of it is the key, so that a changed formula never meets an
old program.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import inspect
import itertools
import logging
import math
import os
import pickle
import platform
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import serialize_executable

from jaxlaw import _cache
from jaxlaw._devices import devices, on_accelerator, on_host, refuse_forked

_log = logging.getLogger(__name__)

#: XLA's older way to write kernels on the CPU: compiles in 60% of the time, and what it makes
#: runs as fast (``benchmarks/first_call.md``). Later versions of jaxlib do not have it.
QUICK = {"xla_cpu_use_fusion_emitters": False}

#: Without LLVM's optimisation a program compiles in under half the time, and runs four to ten
#: times as long (``benchmarks/first_call.md``). LLVM takes it in one piece: in 32, for threads,
#: it takes a fifth longer.
UNOPTIMISED = {"xla_backend_optimization_level": 0, "xla_cpu_parallel_codegen_split_count": 1}

#: Without timing several versions of every kernel and taking the fastest. Two processes may take
#: different versions, whose last bits differ; and on an H100 (jax 0.11.2) the compiler was not done
#: with one sum of many resamples after six minutes, in this step as far as could be seen.
GPU = {"xla_gpu_autotune_level": 0, "xla_gpu_experimental_enable_fusion_autotuner": False}

#: Lengths that tables of no more rows are padded to; 640 for the 540 runs of a D-CPT experiment.
SMALL_TABLES = (64, 256, 640, 1024)

#: Memory maps of a process beyond which programs are forgotten. Linux gives a process 65,530, a
#: program takes some hundreds, and without any left the compiler ends the process.
MOST_MAPS = 30_000

#: Programs that a process keeps, at most: those of a dozen laws take a gigabyte.
MOST_PROGRAMS = 160

#: Seconds that each program took to compile, and those after which a line says so, once a process.
_compiled_for: list[float] = []
_PATIENCE = 5.0

#: Whether JAX found the last program that this thread compiled: see :func:`_watch_cache_of_jax`.
_found_by_jax = threading.local()

#: Every program of this process.
_programs: weakref.WeakSet[Program] = weakref.WeakSet()

#: The functions of :func:`traced_once`, whose traces JAX keeps for ever.
_parts = []
_clock, _lock = itertools.count(), threading.Lock()
_inside = threading.local()  # whether a thread is inside of :func:`in_float64`


def compiled(*, optimised: bool = True, **options) -> Callable[[Callable], Program]:
    """Make a program of a function, like ``jax.jit`` as a decorator.

    Args:
        optimised: whether the compiler optimises. False is for programs that run once for a fit,
            or for a table, such as those of notes and of uncertainty: they take longer to
            optimise than to run. What runs for every start, draw or step is optimised.
        **options: ``static_argnames`` and ``donate_argnums`` of ``jax.jit``.
    """
    return functools.partial(Program, optimised=optimised, **options)


def traced_once(**options) -> Callable[[Callable], Callable]:
    """Make a part of programs of a function: traced once for all that call it with such arguments.

    Args:
        **options: ``static_argnames`` and ``static_argnums`` of ``jax.jit``.
    """

    def made(function):
        _parts.append(jax.jit(function, inline=True, **options))
        return _parts[-1]

    return made


class _Made:
    """A compiled program, and when it was last used, counted in calls."""

    def __init__(self, program) -> None:
        self.program, self.used = program, next(_clock)


class Program:
    """A function, and what it was compiled to for arguments of each shape.

    A call that is a part of another program (some argument is a tracer) goes to ``jax.jit``, and
    so does one under ``jax.disable_jit`` or JAX's checks for NaN, which need its own path.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        optimised: bool = True,
        static_argnames: str | tuple[str, ...] = (),
        donate_argnums: tuple[int, ...] = (),
    ) -> None:
        functools.update_wrapper(self, function)
        static = (static_argnames,) if isinstance(static_argnames, str) else static_argnames
        self._options = {"static_argnames": static, "donate_argnums": donate_argnums}
        self._optimised, self._static = optimised, tuple(static)
        self._names = tuple(inspect.signature(function).parameters)
        self._jitted = jax.jit(function, **self._options)
        self._made: dict[Any, _Made] = {}
        self._in_work: dict[Any, Future[_Made]] = {}
        _programs.add(self)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The function's result."""
        refuse_forked()
        by_name = dict(zip(self._names, args, strict=False)) | named
        static = {name: by_name[name] for name in self._static if name in by_name}
        # A compiled program is called without the static arguments it was made for.
        dynamic = (
            [value for name, value in zip(self._names, args, strict=False) if name not in static],
            {name: value for name, value in named.items() if name not in static},
        )
        leaves, structure = jax.tree.flatten(dynamic)
        checks = jax.config.jax_disable_jit or jax.config.jax_debug_nans
        if (
            checks
            or jax.config.jax_debug_infs
            or any([isinstance(leaf, jax.core.Tracer) for leaf in leaves])  # noqa: C419
        ):
            return self._jitted(*args, **named)
        key = (tuple(static.items()), structure, tuple(map(_kind, leaves)), _settings())
        made = self._made.get(key)
        if made is None:
            made = self._make_once(key, (args, named, static, dynamic, leaves))
        made.used = next(_clock)
        return made.program(*dynamic[0], **dynamic[1])

    def _make_once(self, key, arguments: tuple) -> _Made:
        """The program of a key; of threads that want the same one, one makes it."""
        with _lock:
            future = self._in_work.get(key)
            first = future is None
            if first:
                future = self._in_work[key] = Future()
        if not first:
            return future.result()
        try:
            made = self._made[key] = _Made(self._load_or_compile(*arguments))
            future.set_result(made)
        except BaseException as error:
            future.set_exception(error)
            raise
        finally:
            with _lock:
                del self._in_work[key]
        # Of too many programs the half that was used least recently is forgotten.
        with _lock:
            every = [(one.used, of, k) for of in _programs for k, one in of._made.items()]
            if len(every) > MOST_PROGRAMS or memory_maps() > MOST_MAPS:
                every.sort(key=lambda row: row[0])
                for _, of, k in every[: len(every) // 2]:
                    of._made.pop(k, None)
                # What was traced for them; jax.clear_caches() would forget the caller's, too.
                for traced in (*(of._jitted for of in list(_programs)), *_parts):
                    traced.clear_cache()
        return made

    def _load_or_compile(self, args, named, static, dynamic, leaves: list):
        wanted = _wanted_options(self._optimised)
        common = [_surroundings(devices()[0].platform), str(wanted), str(_settings())]
        lowered = None
        try:
            made_of = _described(self.__wrapped__), _described(static)
            key = "\n".join([*common, *made_of, _described(dynamic, values=False)])
        except _HasNoName:
            lowered = self._lowered(args, named)
            # The text has no names of fields, and no arguments that the function does not use.
            rest = str(lowered.in_tree), str(lowered.out_tree), str(list(map(_kind, leaves)))
            key = "\n".join([*common, *rest, lowered.as_text()])
        program = _load(key, _devices(static, leaves))
        if program is None:
            if sum(_compiled_for) > _PATIENCE:
                from jaxlaw import _progress  # short commands do without it

                # Where nobody sees it, it is said once progress is shown and more is compiled.
                if _progress.say_compiling(devices()[0].platform):
                    _compiled_for[:] = [-math.inf]
            _watch_cache_of_jax()
            began = time.monotonic()
            try:
                _found_by_jax.here = False
                program = (lowered or self._lowered(args, named)).compile()
            finally:
                _compiled_for.append(time.monotonic() - began)
            if not _found_by_jax.here:
                _keep(key, program)
        return program

    def _lowered(self, args, named):
        options = compiler_options(self._optimised) or None
        return jax.jit(self.__wrapped__, **self._options, compiler_options=options).lower(
            *args, **named
        )

    def _cache_size(self) -> int:
        return len(self._made)


def _kind(leaf):
    """What a program depends on in an argument: shape and type, and where it lies."""
    if isinstance(leaf, jax.Array):
        return leaf.shape, leaf.dtype, leaf.weak_type, leaf.sharding if leaf.committed else None
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.shape, leaf.dtype
    return type(leaf)


def _settings() -> tuple:
    """Settings of the process, or of a ``with`` block, that change what is compiled."""
    return (
        jax.config.jax_enable_x64,
        jax.config.jax_default_matmul_precision,
        jax.config.jax_numpy_dtype_promotion,
        jax.config.jax_default_device,
    )


def compiler_options(optimised: bool = True) -> dict:
    """Options of the compiler, as far as this version of jaxlib knows them."""
    wanted = _wanted_options(optimised)
    every = QUICK | UNOPTIMISED if not on_accelerator() else wanted
    known = _known(tuple(every.items())) if wanted else frozenset()
    return {name: value for name, value in wanted.items() if name in known}


def _wanted_options(optimised: bool) -> dict:
    backend = devices()[0].platform
    if backend != "cpu":
        return GPU if backend == "gpu" else {}
    return QUICK if optimised else QUICK | UNOPTIMISED


@functools.cache
def _known(options: tuple) -> frozenset[str]:
    """Names of the options that this jaxlib takes; tried together, as each trial compiles."""
    try:
        jax.jit(lambda: 0, compiler_options=dict(options))()
    except jax.errors.JaxRuntimeError:
        alone = [_known((option,)) for option in options] if len(options) > 1 else []
        return frozenset().union(*alone)
    return frozenset(dict(options))


def memory_maps() -> int:
    """How many memory maps this process has; 0 where the system does not say."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


def next_power_of_two(length: int) -> int:
    """The least power of two that is no smaller: arrays of few lengths need few programs."""
    return 2 ** (length - 1).bit_length()


def size_class(rows: int, width: int = 1) -> int:
    """The length that tables of so many rows are padded to, so that few programs serve all tables.

    Small tables, whose fits take milliseconds where compiling takes seconds, have few classes. In
    large ones there are eight between a power of two and the next: a twentieth of the rows is
    added on average, an eighth at most.

    Args:
        rows: number of rows.
        width: numbers of an input in a row.
    """
    for length in SMALL_TABLES:
        if rows <= length and length * width <= SMALL_TABLES[-1]:
            return length
    step = max(8, next_power_of_two(rows) // 16)
    return -(-rows // step) * step


def padded(rows, length: int) -> np.ndarray:
    """An array with its last row repeated up to ``length`` rows: arrays of few lengths."""
    rows = np.asarray(rows)
    return rows[np.minimum(np.arange(length), len(rows) - 1)]


def many_rows(count: int) -> int:
    """The length that points are padded to whose program costs next to nothing for each."""
    length = 2**11
    while length < count:
        length *= 8
    return length


def _load(key: str, devices: list):
    """The program that an earlier process kept under a key, or None."""
    content = _cache.read(key) if jax.process_count() == 1 else None
    if content is None:
        return None
    try:
        payload, trees, lapack = pickle.loads(content)  # only the user can have written it
        if lapack:
            _initialise_lapack()
        return serialize_executable.deserialize_and_load(
            payload, *map(jax.tree.structure, trees), execution_devices=devices
        )
    except Exception as error:  # whatever is wrong with it, the program can be made anew
        _log.debug("a kept program in %s cannot be used: %s", _cache.folder(), error)
        _cache.forget(key)
        return None


def _keep(key: str, program) -> None:
    """Keep a program, if it can be taken out of this process."""
    if jax.process_count() > 1 or _cache.folder() is None:
        return
    try:
        # Of what it calls, not of all its text, where names of Python functions stand, too.
        called = " ".join(re.findall(r'custom_call_target="([^"]*)"', program.as_text()))
        if "callback" in called:  # an address in this process
            return
        payload, *structures = serialize_executable.serialize(program)
        trees = [jax.tree.unflatten(tree, range(tree.num_leaves)) for tree in structures]
        content = pickle.dumps((payload, trees, "lapack" in called))
    except Exception as error:  # JAX names no class of error for this
        _log.debug("a program is not kept: %s", error)
        return
    _cache.write(key, content)


@functools.cache
def _watch_cache_of_jax() -> None:
    """Notice, in each thread, that JAX finds a program in its own persistent cache.

    Such a program cannot be kept here: on the CPU it loses its functions when it is serialised a
    second time, which shows only when it is called, and then in every later process. Whether that
    cache has a folder now does not tell: one that was on is still searched after it is turned off.
    """

    def notice(event, **_):
        if event == "/jax/compilation_cache/cache_hits":
            _found_by_jax.here = True

    jax.monitoring.register_event_listener(notice)


@functools.cache
def _initialise_lapack() -> None:
    """Look up the functions of LAPACK, as JAX does when it lowers a call of one.

    A program that is loaded has not been lowered in this process, and without this it jumps to an
    address that nobody has set: the process ends.
    """
    jax.jit(jnp.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), np.float32))


def _devices(static: Mapping, leaves: list) -> list:
    """The devices that a program runs on: a mesh's, its arguments', or the default one."""
    meshes = [value for value in static.values() if isinstance(value, jax.sharding.Mesh)]
    if meshes:
        return list(meshes[0].devices.flat)
    committed = [leaf for leaf in leaves if isinstance(leaf, jax.Array) and leaf.committed]
    if committed:
        return sorted(committed[0].sharding.device_set, key=lambda device: device.id)
    return devices()[:1]


class _HasNoName(Exception):
    """A value that a program depends on has no name that another process would understand."""


def _described(value, values: bool = True) -> str:
    """A value in words that mean the same in every process; arrays by shape and type.

    Args:
        value: an argument or setting that a program depends on.
        values: whether the program depends on the value of a number, or on its type alone.

    Raises:
        _HasNoName: there are no such words, as for a function that a user wrote.
    """
    describe = functools.partial(_described, values=values)
    if not values and isinstance(value, bool | int | float | complex):
        return type(value).__name__
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if not values and isinstance(value, np.ndarray | np.generic | jax.Array):
        return str(_kind(value))
    if isinstance(value, np.generic):
        return repr(value)
    if isinstance(value, Mapping):
        items = sorted((describe(key), describe(item)) for key, item in value.items())
        return f"{_name_of(type(value))}{items}"
    if isinstance(value, tuple | list):
        return f"{_name_of(type(value))}{list(map(describe, value))}"
    if isinstance(value, set | frozenset):
        return f"{_name_of(type(value))}{sorted(map(describe, value))}"
    if isinstance(value, functools.partial):
        return f"partial{_described((value.func, value.args, value.keywords))}"
    if isinstance(value, jax.sharding.Mesh):
        devices = [(device.id, device.device_kind) for device in value.devices.flat]
        return f"Mesh({value.axis_names}, {value.devices.shape}, {devices})"
    if inspect.isfunction(value) or inspect.isclass(value) or isinstance(value, Program):
        return _name_of(value)
    name = getattr(value, "program_name", None)  # laws have one, if they are jaxlaw's own
    if isinstance(name, str):
        return f"{_name_of(type(value))}:{name}"
    raise _HasNoName(type(value).__name__)


@functools.cache
def _name_of(value) -> str:
    """Name of a function or class, if it is jaxlaw's or builtin and the name leads back to it."""
    module, name = value.__module__, value.__qualname__
    if module == "builtins":
        return name
    try:
        if module.partition(".")[0] != "jaxlaw":
            raise _HasNoName(name)
        resolved = importlib.import_module(module)
        for part in name.split("."):
            resolved = getattr(resolved, part)
    except AttributeError:  # it was made inside another function
        raise _HasNoName(name) from None
    # The name of a decorated function leads to what the decorator made of it.
    if resolved is not value and getattr(resolved, "__wrapped__", None) is not value:
        raise _HasNoName(name)
    return f"{module}.{name}"


@functools.cache
def _surroundings(backend: str) -> str:
    """What every program depends on besides its function and its arguments."""
    devices = jax.local_devices(backend=backend)
    client = devices[0].client
    # The package's source, for whoever changes it without changing its version.
    folder, source = Path(__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        source.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    # What this processor can do: code compiled for another may not run on it.
    processor = platform.processor()
    with contextlib.suppress(OSError):
        wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = sorted({line for line in lines if line.startswith(wanted)})
    parts = {
        "source": source.hexdigest(),
        "versions": installed("jax", "jaxlib", "jaxopt"),
        "python": sys.version_info[:2],
        "platform": (client.platform, client.platform_version),
        "devices": [device.device_kind for device in devices],
        "machine": (platform.system(), platform.machine(), processor),
        "flags": [os.environ.get(name) for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")],
    }
    return repr(parts)


def installed(*names: str) -> list[str]:
    """Names of packages with their versions, as far as they are installed."""
    versions = []
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{name} {importlib.metadata.version(name)}")
    return versions


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Float64 inside, on the CPU, and JAX's checks of the caller's own programs off.

    A search meets infinities and NaN on its way and turns away from them, its formulas broadcast
    and mix whole numbers with others, and data come from the host: flags of a process that call
    these errors (``JAX_DEBUG_NANS``, ``JAX_DEBUG_INFS``, ``JAX_NUMPY_RANK_PROMOTION``,
    ``JAX_NUMPY_DTYPE_PROMOTION``, ``JAX_TRANSFER_GUARD``) are for the caller's code, outside.
    """
    before = getattr(_inside, "float64", False)
    if before and jax.config.jax_enable_x64:  # this thread is inside already
        yield
        return
    with (
        jax.enable_x64(True),
        jax.debug_nans(False),
        jax.debug_infs(False),
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
        jax.transfer_guard("allow"),
        on_host(),
    ):
        _inside.float64 = True
        try:
            yield
        finally:
            _inside.float64 = before
