"""Results as JSON files: written with a digest, read strictly.

A file is data, never a program: it is parsed as JSON, and every field is checked by the reader
for it. The digest tells a file that was changed after it was written; one that was only
formatted anew keeps its digest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from jaxlaw.errors import DataError, JaxlawError, NotHereError, UsageError, nearest_file

_log = logging.getLogger(__name__)

_OURS = "jaxlaw "  # the field ``kind`` of every result begins so


def plain(value):
    """A value as JSON has it: infinities and NaN as strings, tables as rows, fields by name."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if hasattr(value, "itertuples"):  # a DataFrame; pandas stays unimported here
        named = any(value.index.names) or value.index.dtype.kind not in "iu"
        return plain((value.reset_index() if named else value).to_dict("records"))
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "to_json"):
        return value.to_json()
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.compare]
        return {name: plain(getattr(value, name)) for name in names}
    if hasattr(value, "tolist"):  # arrays and numbers of numpy, which stays unimported here
        return plain(value.tolist())
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value


def write_record(path: str | Path, record: Mapping) -> None:
    """Write a record as JSON, with its digest."""
    text = json.dumps({**record, "digest": digest_of(record)}, indent=1, ensure_ascii=False) + "\n"
    write_atomic(path, lambda file: file.write_text(text, encoding="utf-8"))


def write_atomic(path: str | Path, write: Callable[[Path], Any]) -> None:
    """Write a file all or nothing: what fails, on a full disk say, leaves the older file.

    Args:
        path: the file to write. Of a link, the file that it points to is replaced; what is
            no regular file (a pipe, ``/dev/stdout``) is written to as it is.
        write: called with the path of a new file beside it, of the same suffix, which then takes
            its name.

    Raises:
        UsageError: the file cannot be written; says why.
    """
    beside = None
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            write(target)
            return
        beside = target.with_name(f".jaxlaw-{uuid4().hex}{target.suffix}")
        write(beside)
        with beside.open("rb") as file:
            os.fsync(file.fileno())  # a disk may notice only now that it is full
        if target.exists():
            shutil.copymode(target, beside)
        os.replace(beside, target)
    except JaxlawError:
        raise
    except (OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot write {str(path)!r}: {reason}") from None
    finally:
        if beside is not None:
            beside.unlink(missing_ok=True)


def kind_of(record: Mapping) -> str | None:
    """What a record is: ``fit``, ``study``, ``allocation``, …; None if nothing says."""
    kind = record.get("kind")
    marked = isinstance(kind, str) and kind.startswith(_OURS)
    return kind.removeprefix(_OURS) if marked else None


def read_record(path: str | Path, *kinds: str) -> dict:
    """The record in a file, without its digest.

    Args:
        path: path of the file; ``-`` is standard input.
        *kinds: kinds that it may hold, such as ``fit`` or ``allocation``; any if none is given.

    Raises:
        UsageError: no such file.
        DataError: not JSON in UTF-8, not an object, a key twice, changed after it was written, of
            another kind (:func:`kind_of`), or a forecast without a digest.
    """
    kind = " or ".join(kinds) or "result"
    content, path = _content(path, kind), source_name(path)
    try:
        record = parse_json(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a jaxlaw {kind}: {error}") from None
    if not isinstance(record, dict):
        raise DataError(f"{path} is not a jaxlaw {kind}: it holds no object with named fields")
    digest = record.pop("digest", None)
    if digest is not None and digest != digest_of(record):
        raise DataError(
            f"{path} was changed after jaxlaw wrote it: its content is not that of its digest; "
            f"save the {kind} again"
            + ("" if kind_of(record) == "forecast" else
               ", or remove field 'digest' to take the file as it is")
        )  # fmt: skip
    if (actual := kind_of(record)) is None or (kinds and actual not in kinds):
        reason = f"it holds a {actual}" if actual else "field 'kind' does not say so"
        raise DataError(f"{path} is not a jaxlaw {kind}: {reason}; give the file of a {kind}")
    # A forecast is made to be held against later runs: without a digest it may be of any day.
    if actual == "forecast" and digest is None:
        raise DataError(
            f"{path} is not sealed: without field 'digest' nothing says that this is the forecast "
            "as it was made; give the file that Forecast.save, --out or --json wrote"
        )
    return record


def source_name(path: str | Path) -> str:
    """A file, or standard input, as messages name it."""
    return "standard input" if str(path) == "-" else str(path)


def standard_input() -> bytes:
    """All that is piped in; raises UsageError where standard input is closed."""
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError("standard input is closed, so there is nothing to read from it: "
                         "pipe a file in, or name it")  # fmt: skip
    content = getattr(sys.stdin, "buffer", sys.stdin).read()
    return content.encode() if isinstance(content, str) else content


@contextmanager
def reading(source: str, kind: str) -> Iterator[None]:
    """What is raised within, over a field of a record, becomes a DataError that names both.

    A record that names what this process does not have is a UsageError: it may be sound.
    """
    try:
        yield
    except NotHereError as error:
        raise UsageError(f"{source}: {error}", file=source) from None
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise DataError(f"{source} is not a complete jaxlaw {kind}: {error}") from None


def _content(path: str | Path, kind: str) -> bytes:
    _log.info("reading a %s from %s", kind, path)
    try:
        return standard_input() if str(path) == "-" else Path(path).read_bytes()
    except JaxlawError:
        raise
    except (TypeError, ValueError) as error:
        raise UsageError(f"cannot read {path!r}: give the path of a {kind} ({error})") from None
    except OSError as error:
        hint = nearest_file(path) if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"cannot read {path}: {error.strerror}.{hint}") from None


def digest_of(record: Mapping) -> str:
    """SHA-256 of a record, whatever the order of its keys and the way its numbers are written."""
    text = json.dumps(_canonical(record), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(value):
    if isinstance(value, dict):
        return {name: _canonical(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return repr(float(value))
        except OverflowError:
            return str(value)
    return value


class RepeatedKey(ValueError):
    """An object of JSON has a key twice."""


def parse_json(text: str):
    """The value of a JSON text, no object of which has a key twice.

    Raises:
        RepeatedKey: one has; plain JSON would silently take the last.
        ValueError: the text is no JSON.
    """
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple]) -> dict:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RepeatedKey(f"key '{twice}' occurs twice in one object")
    return record
