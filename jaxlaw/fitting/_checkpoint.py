"""Long work in chunks: by threads here or by workers, kept in a folder, its progress said.

What a chunk holds depends on the work alone, never on how many devices, processes or attempts
do it, and its result depends on nothing else: so the whole comes out the same to the last bit.

Processes that make the same call with the same folder share the chunks: each takes them in an
order of its own, and reads from the folder what the others have finished. The workers of an
executor get, with every chunk, all that it needs: a worker can be lost, and another can take over,
at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import logging
import os
import pickle
import random
import threading
import time
import zipfile
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import jax
import numpy as np

from jaxlaw import _progress
from jaxlaw._devices import Device, devices, on_accelerator, on_device_for
from jaxlaw._jit import in_float64
from jaxlaw.errors import JaxlawError, UsageError, WorkError
from jaxlaw.fitting._engine import Chunk, Lanes

_log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
PART = ".part"  # suffix of files that are still being written
NAME = "name"  # key in a chunk's file: digest that says which chunk of which batch it is
ATTEMPTS = 3  # of a chunk whose workers are lost


def folder_name(label: str) -> str:
    """A name for a folder from any label; different labels give different names.

    Example:
        >>> from jaxlaw.fitting import folder_name
        >>> folder_name("dcpt-l1"), folder_name("../dcpt"), folder_name("..")
        ('dcpt-l1', '%2E%2E%2Fdcpt', '%2E%2E')
    """
    name = quote(label, "+,=()", errors="surrogatepass").replace(".", "%2E") or "%"
    # File systems take 255 bytes.
    return name if len(name) <= 200 else f"{name[:40]}%{hashlib.sha256(name.encode()).hexdigest()}"


class Work:
    """How the chunks of a batch are done: where, what is kept of them, and what is shown.

    Args:
        folder: folder where finished chunks are kept, so that after a crash the same call does the
            others alone, and that other processes of the same call may share; None keeps nothing.
        progress: whether progress is shown on stderr.
        executor: executor whose workers do the chunks; None does them here.
        device: where searches run, see :mod:`jaxlaw._devices`.

    Attributes:
        platform: where the last search ran: cpu, gpu or tpu.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
        executor: Any = None,
        device: Device = "auto",
    ) -> None:
        self.folder: Path | None = None if folder is None else Path(folder)
        self.progress: bool | None = progress
        self.executor: Any = executor
        self.device: Device = device
        self.platform: str = "cpu"
        self._size, self._batch = 0.0, b""
        self._fits, self._rounds, self._round = 1, 1, 0

    def claim(self, parts: Mapping[str, str]) -> None:
        """Make the folder this batch's own.

        Args:
            parts: description of the batch, name → text or hash.

        Raises:
            UsageError: the folder holds another batch; the message says in what it differs.
            WorkError: the folder cannot be written.
        """
        manifest, text = self.folder / MANIFEST, json.dumps(dict(parts), indent=1)
        self._batch = text.encode()
        if not os.path.exists(manifest):  # another process of this work writes it first
            _write(manifest, text.encode(), keep=True)
        try:
            claimed = dict(json.loads(manifest.read_text()))
        except (OSError, ValueError, TypeError):
            claimed = {}
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
        self, stage: str, function: Callable[[list[Chunk]], list[Lanes]], chunks: Sequence[Chunk]
    ) -> list[Lanes]:
        """Results of all chunks, in order.

        Args:
            stage: name for files and the log.
            function: function from some chunks, at most one for each local device, to a result for
                each. Workers get it pickled.
            chunks: all chunks.

        Raises:
            WorkError: the folder cannot be written, or too many workers are lost.
            UsageError: workers cannot read the law.
            KeyboardInterrupt: Ctrl-C, once the chunks under way here are finished and kept.
        """
        began, done = time.perf_counter(), self._kept(stage, chunks, range(len(chunks)))
        left, kept = [k for k in range(len(chunks)) if k not in done], len(done)
        lanes = sum(chunk.lanes for chunk in chunks)
        # Of more rounds than there were to be, the last one goes on.
        number, self._round = min(self._round, self._rounds - 1), self._round + 1
        do = self._done_here if self.executor is None else self._done_by_workers
        with _progress.shown(bool(self.progress)), _progress.part("", number, self._rounds) as part:
            try:
                for new in itertools.chain([{}], do(stage, function, chunks, left)):
                    done |= new
                    ready = sum(chunks[k].lanes for k in done)
                    share = ready / max(lanes, 1)
                    fits = int(self._fits * (number + share) / self._rounds)
                    one = f"{ready:,} of {lanes:,} starts"
                    part.now(share, one if self._fits == 1 else f"{fits:,} of {self._fits:,} fits")
            except KeyboardInterrupt as stopped:
                if self.folder is not None:
                    stopped.add_note(
                        f"finished chunks are kept in {self.folder}; repeat the call to resume"
                    )
                raise
        _log.info(
            "%s: %d problems × %d starts in %d chunks, %d of them kept before: %.2f s", stage,
            chunks[-1].problems[1], chunks[-1].starts[1], len(chunks), kept,
            time.perf_counter() - began,
        )  # fmt: skip
        return [done[k] for k in range(len(chunks))]

    def _done_here(
        self, stage: str, function, chunks: Sequence[Chunk], left: list[int]
    ) -> Iterator[dict[int, Lanes]]:
        """Results of the chunks that are left, by threads of this process, as they come."""
        width = len(devices())
        if self.folder is not None:  # processes that share it are to begin at different chunks
            random.shuffle(left)
        groups = [left[k : k + width] for k in range(0, len(left), width)]

        def work(group):
            results = self._kept(stage, chunks, group)  # another process may have been here by now
            group = [k for k in group if k not in results]
            if group:
                new = function([chunks[k] for k in group])
                for k, result in zip(group, new, strict=True):
                    self._keep(stage, k, chunks[k], result)
                    results[k] = result
            return results

        threads = _threads(width)
        if len(groups) <= 1 or threads == 1:
            yield from map(work, groups)
            return
        # Threads that want the same program compile it once. After an error or an interrupt, chunks
        # under way are finished alone.
        with ThreadPoolExecutor(threads) as pool:
            try:
                for future in as_completed([pool.submit(_with_settings(work), g) for g in groups]):
                    yield future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _done_by_workers(
        self, stage: str, function, chunks: Sequence[Chunk], left: list[int]
    ) -> Iterator[dict[int, Lanes]]:
        """Results of the chunks that are left, by the executor's workers, as they come.

        A worker returns errors of the work itself: what is raised here is its loss, by the name
        that each executor has for it (BrokenProcessPool, KilledWorker), or an answer that is none.
        """
        try:  # cloudpickle takes functions of a notebook along, which pickle only names
            from cloudpickle import dumps  # not a dependency: dask and others bring it
        except ModuleNotFoundError:
            dumps = pickle.dumps
        try:
            packed, batch = dumps((function, self._size, self.device)), uuid4().hex
        except Exception as error:
            raise UsageError(
                f"the law cannot be sent to workers ({_named(error)}): {_IMPORTABLE}"
            ) from error
        advice = "repeat the call with a new executor; work_dir= would keep finished chunks"
        if self.folder is not None:
            advice = f"finished chunks are kept in {self.folder}; the same call with a new "
            advice += "executor resumes from them"
        for attempt in range(ATTEMPTS):
            waiting = []
            lost, loss = [], None
            try:
                for k in left:
                    # The name tells an answer from that to another call, and has the number of the
                    # attempt, for dask does no call twice.
                    call = f"{batch} {stage} {k} {attempt}"
                    try:
                        future = self.executor.submit(_do_chunk, packed, chunks[k], call)
                    except Exception as error:
                        raise WorkError(
                            f"the executor accepts no more work ({_named(error)}): {advice}"
                        ) from error
                    waiting.append((future, k, call))
                while waiting:
                    # Of a future no more is asked than that it has a result, and perhaps says
                    # whether it is there.
                    ready = [one for one in waiting if hasattr(one[0], "done") and one[0].done()]
                    for one in ready or waiting[:1]:
                        waiting.remove(one)
                        future, k, call = one
                        try:
                            match future.result():
                                case (str(answered), Lanes() | Exception() as result):
                                    if answered != call:
                                        raise WorkError("it gave the answer to another call")
                                case other:
                                    raise WorkError(f"it gave {other!r:.40} and no lanes")
                        except (Exception, CancelledError) as error:
                            lost.append(k)
                            loss = error
                            continue
                        if isinstance(result, Exception):
                            raise result
                        self._keep(stage, k, chunks[k], result)
                        yield {k: result}
            finally:
                for future, *_ in waiting:
                    if hasattr(future, "cancel"):
                        future.cancel()
            if not lost:
                return
            _log.warning(
                "%s: %d chunks were lost with their workers (%s)", stage, len(lost), _named(loss)
            )
            left = sorted(lost)
        raise WorkError(
            f"{stage}: {len(left)} of {len(chunks)} chunks were lost with their workers "
            f"{ATTEMPTS} times ({_named(loss)}): {advice}"
        ) from loss

    @contextlib.contextmanager
    def on_device_for(self, lanes: int, batch: Any) -> Iterator[None]:
        """A search of so many lanes of each problem runs inside where it, or the user, wants."""
        rows, width = batch.problems.weight.shape[-1], len(batch.model.law.parameters)
        self._size = batch.count * lanes * rows * width**2
        with on_device_for(self._size, self.device) as self.platform:
            yield

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

    def _file(self, stage: str, k: int, chunk: Chunk) -> tuple[Path, np.ndarray]:
        """A chunk's file, and the digest in it of what it is of: that of a renamed file differs."""
        file = self.folder / f"{stage}-{k:06d}.npz"
        named = f"{file.name} {chunk.problems} {chunk.starts}".encode()
        return file, np.frombuffer(hashlib.sha256(self._batch + named).digest(), np.uint8)

    def _kept(
        self, stage: str, chunks: Sequence[Chunk], indices: Iterable[int]
    ) -> dict[int, Lanes]:
        """Results of those of these chunks that are in the folder, whole."""
        found = {}
        for k in indices if self.folder is not None else ():
            file, name = self._file(stage, k, chunks[k])
            with contextlib.suppress(OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
                archive = np.load(io.BytesIO(file.read_bytes()), allow_pickle=False)
                if np.array_equal(archive[NAME], name):
                    found[k] = Lanes(**{field: archive[field] for field in Lanes._fields})
        return found

    def _keep(self, stage: str, k: int, chunk: Chunk, result: Lanes) -> None:
        if self.folder is not None:
            file, name = self._file(stage, k, chunk)
            buffer = io.BytesIO()
            np.savez(buffer, **result._asdict(), **{NAME: name})
            _write(file, buffer.getvalue())


def digest(tree) -> str:
    """A hash of the arrays of a pytree, their shapes and types."""
    hashed = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        array = np.ascontiguousarray(leaf)
        hashed.update(f"{array.dtype}{array.shape}".encode())
        hashed.update(array.tobytes())
    return hashed.hexdigest()


def _threads(width: int) -> int:
    """Host threads that feed the devices."""
    # On the CPU a program runs on one core; elsewhere two keep the device from waiting.
    if on_accelerator() or width > 1:
        return 2
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _with_settings(work: Callable) -> Callable:
    """The same work in another thread with this one's settings, which JAX keeps by thread."""
    settings = in_float64 if jax.config.jax_enable_x64 else contextlib.nullcontext
    device = jax.config.jax_default_device

    def in_thread(*args):
        with settings(), jax.default_device(device):
            return work(*args)

    return in_thread


def _do_chunk(packed: bytes, chunk: Chunk, call: str) -> tuple[str, Lanes | JaxlawError]:
    """The call's name, and the result of one chunk or the error of its work; runs at a worker."""
    try:
        function, size, device = pickle.loads(packed)
    except Exception as error:
        return call, UsageError(f"a worker cannot read the law ({_named(error)}): {_IMPORTABLE}")
    try:
        with in_float64(), on_device_for(size, device):
            (result,) = function([chunk])
        return call, result
    except JaxlawError as error:
        return call, error
    except Exception as error:  # of classes that this process may not be able to read
        return call, WorkError(f"a worker: {_named(error)}")


def _named(error: BaseException | None) -> str:
    """An error's class and message."""
    return f"{type(error).__name__}: {error}".rstrip(": ")


_IMPORTABLE = (
    "define it at the top level of a module that workers can import, or install cloudpickle here "
    "and at the workers"
)


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
            f"cannot write {path} ({error.strerror}): fix that, or name another folder; finished "
            "chunks are kept, and the same call resumes from them"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
