"""The user's cache folder: what takes long to make and is the same in every process.

Compiled programs (:mod:`jaxlaw._jit`) and samples of starting points are kept there. Loading a
program runs it, so the folder and its files must belong to the user, or to root, who fills it in an
image of a container, and no other user may write to them: others are not used. The folder is never
in the way: one that cannot be written, a file that is damaged, of another key or of another
version, a full disk cost the time of making a thing anew and no more.

Each file has the versions of jaxlaw and JAX in its name, and each version a bound of size of its
own: what one writes does not push out what another needs. What nobody uses goes by its age.

``JAXLAW_CACHE`` in the environment names another folder, or is ``off``.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import logging
import os
import stat
import sys
import tempfile
import time
from pathlib import Path

from jaxlaw._version import __version__

_log = logging.getLogger(__name__)

VARIABLE = "JAXLAW_CACHE"
OFF = ("", "0", "off", "false", "no")
LARGEST = 2**29  # bytes in the folder of each version; what was used last stays
OLDEST = 90  # days: what was not used for so long, whatever its version, is deleted
_SUFFIX = ".kept"
_DIGEST = 32  # bytes of the digest at the beginning of a file


def folder() -> Path | None:
    """The folder in use; None if there is none."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return None if named.lower() in OFF else Path(named)
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "jaxlaw"


def is_writable() -> bool:
    """Whether what is made now is kept for later processes."""
    where = folder()
    while where is not None and not os.path.exists(where):  # it is made when it is needed
        where = where.parent
    return where is not None and os.access(where, os.W_OK)


def read(key: str) -> bytes | None:
    """What is kept under a key; None if that is nothing, or nothing to be trusted."""
    path = _path(key)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            if not _only_the_user_writes(os.fstat(file.fileno())):
                return None
            content = file.read()
    except OSError:
        return None
    if _digest(key, content[_DIGEST:]) != content[:_DIGEST]:
        forget(key)
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # what was used last stays longest
    return content[_DIGEST:]


def write(key: str, content: bytes) -> None:
    """Keep something under a key, if it can be kept."""
    path = _path(key)
    if path is None:
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _only_the_user_writes(path.parent.stat()):
            return
        # Another process may write the same thing now. Each writes a file of its own and renames
        # it, so that no reader meets half a file.
        handle, temporary = tempfile.mkstemp(_SUFFIX, f"{_this_version()}_", path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_digest(key, content) + content)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        # What was not used for too long goes, and this version's oldest files beyond its size.
        kept, least, total = [], time.time_ns() - OLDEST * 86_400 * 10**9, 0
        for entry in os.scandir(path.parent):
            if entry.name.endswith(_SUFFIX):
                with contextlib.suppress(OSError):  # another process has deleted it
                    kept.append((entry.stat().st_mtime_ns, entry.stat().st_size, entry.path))
        for used, size, old in sorted(kept, reverse=True):
            own = os.path.basename(old).startswith(f"{_this_version()}_")
            total += size if own else 0
            if used < least or (own and total > LARGEST):
                with contextlib.suppress(OSError):
                    os.unlink(old)
    except OSError as error:
        _log.debug("the cache folder %s cannot be written: %s", path.parent, error)


def forget(key: str) -> None:
    """Delete what is kept under a key."""
    path = _path(key)
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink()


def _digest(key: str, content: bytes) -> bytes:
    """Digest of a key and what is kept under it: a file copied over another's has another key."""
    return hashlib.sha256(hashlib.sha256(key.encode()).digest() + content).digest()


@functools.cache
def _this_version() -> str:
    """The versions of jaxlaw and JAX, as the names of their files begin; imports no JAX."""
    try:
        of_jax = importlib.metadata.version("jax")
    except importlib.metadata.PackageNotFoundError:
        of_jax = "unknown"
    return f"jaxlaw-{__version__}-jax-{of_jax}"


def _path(key: str) -> Path | None:
    where = folder()
    try:
        if where is None or (where.exists() and not _only_the_user_writes(where.stat())):
            return None
    except OSError:  # a parent that this user may not enter
        return None
    name = hashlib.sha256(key.encode()).hexdigest()[:40]
    return where / f"{_this_version()}_{name}{_SUFFIX}"


def _only_the_user_writes(status: os.stat_result) -> bool:
    """Whether a folder or file belongs to this user or to root, and no other may write to it.

    Windows has no such bits, and keeps a user's own folders to the user by itself.
    """
    if not hasattr(os, "geteuid"):
        return True
    trusted = status.st_uid in (os.geteuid(), 0)
    return trusted and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
