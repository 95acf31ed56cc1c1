"""Long work in chunks: on every device, process or worker, kept in a folder, its progress said.

What a chunk holds depends on the work alone, never on how many devices, processes or attempts
do it, and its result depends on nothing else: so the whole comes out the same to the last bit.

Chunks are done by the threads of this process, by those of every process of ``jax.distributed``,
or by the workers of an executor that the user brings. A worker gets, with every chunk, all that it
needs: it can be lost, and another can take over, at any time.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import logging
import os
import pickle
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import jax
import numpy as np

from jaxlaw import _progress
from jaxlaw._cache import cache_folder
from jaxlaw._jit import in_float64
from jaxlaw._json import parse_json
from jaxlaw.errors import UsageError, WorkError, listed
from jaxlaw.fitting import solvers
from jaxlaw.fitting._engine import DeviceMemory
from jaxlaw.notes import Note

_log = logging.getLogger(__name__)

Arrays = dict[str, np.ndarray]
MANIFEST = "manifest.json"
PART = ".part"  # suffix of files that are still being written
NAME = "name"  # key in a chunk's file: digest that says which chunk of which batch it is
ATTEMPTS = 3  # of a chunk whose workers are lost


class Chunk(NamedTuple):
    """A range of problems and a range of starts, with the arrays that they are computed from.

    It holds no more than that, for it may travel to a worker. Here its arrays are views of the
    whole, so that all chunks together take no memory of their own.

    Attributes:
        problems, starts: the ranges; their upper limits are exclusive.
        fields: fields that differ between the problems, (B, …) by name.
        coordinates: (S, p) starts for all its problems, or (B, S, p) with NaN for those that there
            are not.
        floors: (B,) differences of objectives that are rounding.
    """

    problems: tuple[int, int]
    starts: tuple[int, int]
    fields: Arrays = {}  # noqa: RUF012
    coordinates: np.ndarray = np.empty((0, 0))
    floors: np.ndarray = np.empty(0)

    @property
    def count(self) -> int:
        """Number of problems."""
        return self.problems[1] - self.problems[0]

    @property
    def lanes(self) -> int:
        """Number of (problem, start) pairs."""
        return self.count * (self.starts[1] - self.starts[0])

    @property
    def has_start(self) -> np.ndarray:
        """(B, S) whether there is a start."""
        return ~np.isnan(self.coordinates).any(axis=-1)

    def without_lanes(self) -> Chunk:
        """The chunk without its starts: its program compiles, and has nothing to do."""
        return self._replace(starts=(0, 0), coordinates=self.coordinates[..., :0, :])


def folder_name(label: str) -> str:
    """A name for a folder from any label; different labels give different names.

    Example:
        >>> from jaxlaw.fitting import folder_name
        >>> folder_name("dcpt-l1"), folder_name("../dcpt"), folder_name("..")
        ('dcpt-l1', '%2E.%2Fdcpt', '%2E%2E')
    """
    name = re.sub(r"^\.|[^\w .+,=()-]|[ .]$", lambda match: f"%{ord(match[0]):02X}", label) or "%"
    if len(name.encode("utf-8", "surrogatepass")) <= 200:  # file systems take 255 bytes
        return name
    digest = hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[:40]}%{digest[:32]}"


def split(problems: int, starts: int, block: int, width: int) -> list[Chunk]:
    """Split problems × starts into chunks of ``block`` problems and ``width`` starts, in order."""
    return [
        Chunk((p, min(p + block, problems)), (s, min(s + width, starts)))
        for p in range(0, problems, block)
        for s in range(0, starts, width)
    ]


class Work:
    """How the chunks of a batch are done: where, what is kept of them, and what is shown.

    Args:
        folder: folder where finished chunks are kept, so that after a crash the same call does the
            others alone; None keeps nothing.
        progress: whether progress is shown on stderr.
        distributed: whether the chunks are shared among the processes of ``jax.distributed``,
            all of which make the same call and get the same result. Initialises it where it is
            not.
        executor: executor whose workers do the chunks; None does them here.
        compile_cache: folder where workers keep compiled programs; None for that of their user,
            False for none.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
        distributed: bool = False,
        executor: Executor | None = None,
        compile_cache: str | os.PathLike[str] | Literal[False] | None = None,
    ) -> None:
        self.folder: Path | None = None if folder is None else Path(folder)
        self.progress = progress
        self.distributed = distributed
        self.executor = executor
        self.compile_cache = compile_cache
        self.memory: DeviceMemory = DeviceMemory()
        self._batch = b""
        self._fits, self._rounds, self._round = 1, 1, 0
        self._found: list[int] | None = [0, 0]  # parts kept before, and all of them, so far
        if distributed and not jax.distributed.is_initialized():
            init_distributed()

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on how the work was done."""
        return (*self.memory.notes, *solvers.notes())

    def claim(self, parts: Mapping[str, str]) -> None:
        """Make the folder this batch's own.

        Args:
            parts: description of the batch, name → text or hash.

        Raises:
            UsageError: the folder holds another batch; the message says in what it differs.
            WorkError: the folder cannot be written.
        """
        if self.folder is None:
            return
        manifest, text = self.folder / MANIFEST, json.dumps(dict(parts), indent=1)
        self._batch = text.encode()
        files = [path for path in self.folder.glob("*") if path.suffix != PART]
        if not os.path.exists(manifest):  # another process of this work writes it first
            if files:
                raise UsageError(f"work folder {self.folder} holds other files: name an empty one")
            _write(manifest, text.encode(), keep=True)
        claimed = _read_manifest(manifest)
        differ = [name for name in parts if claimed.get(name) != parts[name]]
        if differ:
            raise UsageError(
                f"work folder {self.folder} holds another batch (its {', '.join(differ)} "
                "differ): name another folder, or delete it"
            )

    def expect(self, fits: int, rounds: int) -> None:
        """Say what is to come: so many fits, in so many calls of :meth:`map` over all of them."""
        self._fits, self._rounds, self._round = fits, rounds, 0

    def map(
        self,
        stage: str,
        function: Callable[[list[Chunk]], list[Arrays]],
        chunks: Sequence[Chunk],
        best: Callable[[Arrays], float] | None = None,
    ) -> list[Arrays]:
        """Results of all chunks, in order.

        Args:
            stage: name for files and the log.
            function: function from some chunks, at most one for each local device, to a result for
                each. Workers get it pickled.
            chunks: all chunks.
            best: function from a result to the objective that is shown.

        Raises:
            WorkError: the folder cannot be written, or too many workers are lost.
            UsageError: workers cannot read the law.
            KeyboardInterrupt: Ctrl-C, once the chunks under way here are finished and kept.
        """
        began, own = time.perf_counter(), range(len(chunks))
        if self.distributed:
            own = own[jax.process_index() :: jax.process_count()]
        done = self._kept_of(stage, own)
        left = [k for k in own if k not in done]

        with _progress.shown(bool(self.progress)), self._part() as part:
            self._say_what_was_found(len(done), len(own))
            self._say(part, chunks, done, own)
            if self.executor is None:
                new = self._done_here(stage, function, chunks, left)
            else:
                new = self._done_by_workers(stage, function, chunks, left)
            least = np.inf
            for results in new:
                done |= results
                if best is not None:
                    least = min(least, *map(best, results.values()))
                self._say(part, chunks, done, own, least)
        self._log_stage(stage, chunks, len(own) - len(left), time.perf_counter() - began)
        everything = _gather_from_processes(done) if self.distributed else done
        return [everything[k] for k in range(len(chunks))]

    def _part(self) -> contextlib.AbstractContextManager[_progress.Part]:
        """The next round; of more than there were to be, the last one goes on."""
        k, self._round = min(self._round, self._rounds - 1), self._round + 1
        return _progress.part("", k, self._rounds)

    def _say(
        self, part: _progress.Part, chunks: Sequence[Chunk], done: Iterable[int],
        own: Iterable[int], least: float = np.inf,
    ) -> None:  # fmt: skip
        """How much of the round is done, as fits of the whole, or as starts of a single fit."""
        ready, every = (sum(chunks[k].lanes for k in indices) for indices in (done, own))
        part.share = ready / max(every, 1)
        fits = int(self._fits * (part.k + part.share) / part.n)
        part.detail = f"{fits:,} of {self._fits:,} fits" if self._fits > 1 else ""
        if self._fits == 1:
            part.detail = f"{ready:,} of {every:,} starts"
            part.detail += f", best {least:.6g}" if np.isfinite(least) else ""

    def _say_what_was_found(self, kept: int, parts: int) -> None:
        """How much an earlier attempt has left, once it is known how much that is."""
        if self.folder is None or self._found is None:
            return
        self._found = [self._found[0] + kept, self._found[1] + parts]
        if kept < parts:
            if self._found[0]:
                _progress.say(
                    f"work folder {self.folder}: {self._found[0]} of {self._found[1]} parts are "
                    "there, and the others are done now"
                )
            self._found = None

    def _log_stage(self, stage: str, chunks: Sequence[Chunk], kept: int, seconds: float) -> None:
        problems, starts = chunks[-1].problems[1], chunks[-1].starts[1]
        _log.info(
            "%s: %d problems × %d starts in %d chunks%s: %.2f s", stage, problems, starts,
            len(chunks), "" if self.folder is None else f", {kept} of them kept", seconds,
        )  # fmt: skip

    def _done_here(
        self, stage: str, function: Any, chunks: Sequence[Chunk], left: list[int]
    ) -> Iterator[dict[int, Arrays]]:
        """Results of the chunks that are left, by threads of this process, as they come."""
        width = len(jax.local_devices())
        groups = [left[k : k + width] for k in range(0, len(left), width)]

        def work(group: list[int]) -> dict[int, Arrays]:
            results = self._kept_of(stage, group)  # another process may have been here by now
            group = [k for k in group if k not in results]
            if group:
                new = function([chunks[k] for k in group])
                for k, result in zip(group, new, strict=True):
                    self._keep(stage, k, result)
                    results[k] = result
            return results

        # Threads that want the same program compile it once.
        return _in_threads(work, groups, _threads(width))

    def _done_by_workers(
        self, stage: str, function: Any, chunks: Sequence[Chunk], left: list[int]
    ) -> Iterator[dict[int, Arrays]]:
        """Results of the chunks that are left, by the executor's workers, as they come."""
        packed, batch = _pickled((function, self.compile_cache)), uuid4().hex
        for attempt in range(ATTEMPTS):
            futures, lost, loss = {}, [], None
            try:
                for k in left:
                    call = f"{batch} {stage} {k} {attempt}"
                    futures[self._submit(packed, chunks[k], call)] = k, call
                for future in as_completed(futures):
                    k, call = futures[future]
                    try:
                        result = _answer_to(call, future.result())
                    # A worker returns errors of the work itself: what is raised here is its loss,
                    # by the name that each executor has for it (BrokenProcessPool, KilledWorker),
                    # or an answer that is none.
                    except (Exception, CancelledError) as error:
                        lost.append(k)
                        loss = error
                        continue
                    if isinstance(result, Exception):
                        raise result
                    self._keep(stage, k, result)
                    yield {k: result}
            finally:
                for future in futures:
                    future.cancel()
            if not lost:
                return
            _log.warning(
                "%s: %d chunks were lost with their workers (%s)", stage, len(lost), _named(loss)
            )
            left = sorted(lost)
        raise WorkError(
            f"{stage}: {len(left)} of {len(chunks)} chunks were lost with their workers "
            f"{ATTEMPTS} times ({_named(loss)}): {self._how_to_go_on()}"
        ) from loss

    def _submit(self, packed: bytes, chunk: Chunk, call: str) -> Any:
        try:
            future = self.executor.submit(_do_chunk, packed, chunk, call)
        except Exception as error:
            raise WorkError(
                f"the executor takes no more work ({_named(error)}): {self._how_to_go_on()}"
            ) from error
        if not isinstance(future, Future):
            raise UsageError(
                f"the executor's submit gives a {type(future).__name__}, and no future of "
                "concurrent.futures: give an executor that does",
                argument="executor",
            )
        return future

    def _how_to_go_on(self) -> str:
        if self.folder is None:
            return "make the call again with a new executor; work_dir= would keep finished chunks"
        return (
            f"finished chunks are kept in {self.folder}; the same call with a new executor goes on "
            "from them"
        )

    @contextlib.contextmanager
    def in_background(self, *prepare: Callable[[], None]) -> Iterator[None]:
        """Compile for later in threads of their own while the body runs; not where workers do."""
        if self.executor is not None or not prepare:
            yield
            return
        with ThreadPoolExecutor(len(prepare)) as pool:
            futures = [pool.submit(_with_settings(one)) for one in prepare]
            yield
            for future in futures:
                future.result()

    def _kept_of(self, stage: str, indices: Iterable[int]) -> dict[int, Arrays]:
        """Results of those of these chunks that an earlier attempt has kept."""
        kept = {k: self._kept(stage, k) for k in indices}
        return {k: result for k, result in kept.items() if result is not None}

    def _file(self, stage: str, k: int) -> Path:
        return self.folder / f"{stage}-{k:06d}.npz"

    def _name(self, stage: str, k: int) -> np.ndarray:
        """Digest of the batch and the file's name: that of a copied or renamed file differs."""
        name = self._batch + self._file(stage, k).name.encode()
        return np.frombuffer(hashlib.sha256(name).digest(), np.uint8)

    def _kept(self, stage: str, k: int) -> Arrays | None:
        """The chunk's result from an earlier attempt; None where there is none, or not whole."""
        if self.folder is None:
            return None
        try:
            kept = _unpacked(self._file(stage, k).read_bytes())
            return kept if np.array_equal(kept.pop(NAME), self._name(stage, k)) else None
        except (OSError, ValueError, EOFError, KeyError):
            return None

    def _keep(self, stage: str, k: int, result: Arrays) -> None:
        if self.folder is not None:
            _write(self._file(stage, k), _packed({**result, NAME: self._name(stage, k)}))


def init_distributed() -> None:
    """Initialise ``jax.distributed``: connect the processes of a run, before anything uses JAX.

    JAX finds the processes in the environment of SLURM, Open MPI, Kubernetes or a TPU pod;
    elsewhere ``JAX_COORDINATOR_ADDRESS`` (host:port), ``JAX_NUM_PROCESSES`` and
    ``JAX_PROCESS_ID`` name them. With ``distributed=True`` fits call it by themselves.

    Raises:
        UsageError: the processes are not found, or JAX is in use already.

    Example:
        In a script that ``srun`` starts on every node::

            import jaxlaw as jl

            jl.fitting.init_distributed()
            fit = jl.fit("chinchilla", "runs.csv", n_starts=10**6, distributed=True)
    """
    settings = {
        argument: int(os.environ[variable])
        for argument, variable in (
            ("num_processes", "JAX_NUM_PROCESSES"),
            ("process_id", "JAX_PROCESS_ID"),
        )
        if variable in os.environ
    }
    try:
        jax.distributed.initialize(**settings)
    except (ValueError, RuntimeError) as error:
        raise UsageError(
            f"distributed work cannot begin: {error}. Start it under SLURM, Open MPI or "
            "Kubernetes; set JAX_COORDINATOR_ADDRESS (host:port), JAX_NUM_PROCESSES and "
            "JAX_PROCESS_ID; or call jax.distributed.initialize first in your program"
        ) from error


def digest(tree: Any) -> str:
    """A hash of the arrays of a pytree, their shapes and types."""
    hashed = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        array = np.ascontiguousarray(leaf)
        hashed.update(f"{array.dtype}{array.shape}".encode())
        hashed.update(array.tobytes())
    return hashed.hexdigest()


def _threads(devices: int) -> int:
    """Host threads that feed the devices."""
    # On the CPU a program runs on one core; elsewhere two keep the device from waiting.
    if jax.default_backend() != "cpu" or devices > 1:
        return 2
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_threads(work: Callable[[Any], Any], items: list[Any], threads: int) -> Iterator[Any]:
    """Results as they come. After an error or an interrupt, items under way are finished alone."""
    if len(items) <= 1 or threads == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        try:
            for future in as_completed([pool.submit(_with_settings(work), item) for item in items]):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _with_settings(work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work with this thread's precision in another: JAX keeps settings by thread."""
    settings = in_float64 if jax.config.jax_enable_x64 else contextlib.nullcontext

    def in_thread(*args: Any) -> Any:
        with settings():
            return work(*args)

    return in_thread


def _pickled(work: Any) -> bytes:
    """Work for workers, as bytes.

    By cloudpickle where it is installed: it takes functions of a notebook along, which pickle only
    names. ``pickle.loads`` reads either.
    """
    try:
        from cloudpickle import dumps
    except ModuleNotFoundError:
        dumps = pickle.dumps
    try:
        return dumps(work)
    except Exception as error:
        raise UsageError(
            f"the law cannot be sent to workers ({_named(error)}): {_IMPORTABLE}",
            argument="executor",
        ) from error


def _do_chunk(packed: bytes, chunk: Chunk, call: str) -> tuple[str, Arrays | Exception]:
    """The call's name, and the result of one chunk or the error of its work.

    Runs at a worker. What is raised instead is a lost worker. The name tells an answer from that
    to another call, and has the number of the attempt, for dask does no call twice.
    """
    try:
        function, compile_cache = pickle.loads(packed)
    except Exception as error:
        return call, UsageError(f"a worker cannot read the law ({_named(error)}): {_IMPORTABLE}")
    try:
        with cache_folder(compile_cache), in_float64():
            (result,) = function([chunk])
        return _signed(call, result), result
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return call, WorkError(f"a worker: {_named(error)}")
        return call, error


def _signed(call: str, result: Arrays | Exception) -> str:
    """The call with the fields of its result, which tell whether all of them have arrived."""
    return f"{call}: {sorted(result)}" if isinstance(result, dict) else call


def _answer_to(call: str, answer: Any) -> Arrays | Exception:
    """What a worker answered to a call; raises WorkError where it is not its whole answer."""
    match answer:
        case (str(answered), dict() | Exception() as result):
            if answered == _signed(call, result):
                return result
            if answered.startswith(call):
                raise WorkError(f"the executor gave {listed(result)} alone of the chunk's result")
            raise WorkError("the executor gave the answer to another call")
    raise WorkError(f"the executor gave {answer!r:.40} in place of the chunk's result")


def _named(error: BaseException | None) -> str:
    """An error's class and message."""
    return f"{type(error).__name__}: {error}".rstrip(": ")


_IMPORTABLE = (
    "define it at the top level of a module that workers can import, or install cloudpickle here "
    "and at the workers"
)


def _gather_from_processes(own: dict[int, Arrays]) -> dict[int, Arrays]:
    """The results of all processes, from each one's own."""
    from jax.experimental import multihost_utils

    # Collectives take arrays of one shape: results travel as bytes, padded to the longest.
    flat = {f"{k}/{name}": array for k, result in own.items() for name, array in result.items()}
    packed = np.frombuffer(_packed(flat), np.uint8)
    lengths = multihost_utils.process_allgather(np.array([len(packed)], np.int32))
    longest = int(lengths.max())
    padded = multihost_utils.process_allgather(np.pad(packed, (0, longest - len(packed))))
    everything: dict[int, Arrays] = {}
    for row, length in zip(padded.reshape(-1, longest), lengths.ravel(), strict=True):
        for key, array in _unpacked(row[:length].tobytes()).items():
            k, name = key.split("/")
            everything.setdefault(int(k), {})[name] = array
    return everything


def _packed(result: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **result)
    return buffer.getvalue()


def _unpacked(packed: bytes) -> Arrays:
    import zipfile

    try:
        with np.load(io.BytesIO(packed), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from error


def _read_manifest(path: Path) -> dict[str, str]:
    try:
        manifest = parse_json(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}): delete the folder") from error
    if not isinstance(manifest, dict):
        raise UsageError(f"{path} holds no object with named fields: delete the folder")
    return manifest


def _write(path: Path, content: bytes, keep: bool = False) -> None:
    """Write a file, all or nothing: under another name first, which then becomes its own.

    With ``keep`` a file of that name stays, so that of two processes only one writes it.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}{PART}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not (keep and os.path.exists(path)):
            os.replace(part, path)
    except OSError as error:
        raise WorkError(
            f"cannot write {path} ({error.strerror}): {_ADVICE.get(error.errno, _ELSE)}; chunks "
            "finished before are kept, and the same call goes on from them"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


_ELSE = "make room, or name another folder"
_ADVICE = dict.fromkeys(
    (errno.EACCES, errno.EPERM, errno.EROFS),
    "get the right to write there, or name another folder",
)
