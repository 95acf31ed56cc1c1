"""Saved fits, broken in every way a file can be: cut, edited, of other kinds."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jaxlaw as jl

EDITS: list[Any] = [
    None, True, 0, -1, 1.5, 10**400, "x", "nan", "inf", "1", [], {}, [1], {"a": 1}, [[1, 2]],
    {"N": 1}, {"E": None}, [None], -0.0, float("nan"), float("inf"), "__import__('os')",
]  # fmt: skip


def broken(text: str, every: int) -> Iterator[tuple[str, str | bytes]]:
    """(what was done, content) from the text of a whole file, cut after each ``every`` bytes."""
    for k in range(0, len(text) - 2, every):
        yield f"cut at {k}", text[:k]
    record = json.loads(text)
    for path in paths(record):
        for value in EDITS:
            yield (
                f"{'.'.join(map(str, path))} = {value!r:.30}",
                json.dumps(changed(record, path, value)),
            )
        yield f"without {'.'.join(map(str, path))}", json.dumps(changed(record, path))
    for law in ("kaplan", "dcpt", "dcpt-l2", "no-such-law"):
        yield f"of law {law}", json.dumps(record | {"law": law})
    for schema in (0, 99, -1, 2.5):
        yield f"of schema {schema}", json.dumps(record | {"schema": schema})
    yield "a key twice", text.replace('"params": {', '"params": {"E": 5,', 1)
    yield "an object twice", text.replace('"objective"', '"params": {}, "objective"', 1)
    yield "another key", json.dumps(record | {"more": 1})
    yield "nested", "[" * 100_000
    yield "nested within", '{"schema": 3, "a":' + "[" * 100_000 + "]" * 100_000 + "}"
    yield "a huge number", text.replace('"schema": 3', '"schema": ' + "9" * 5000)
    yield "UTF-16", text.encode("utf-16")
    yield "pickled", b"\x80\x04\x8c\x05posix\x8c\x06system\x93."
    yield "NUL bytes", "\0" * 100
    yield "with a byte order mark", "\ufeff" + text
    yield "of Windows' line ends", text.replace("\n", "\r\n")
    yield "formatted anew", json.dumps(record, sort_keys=True)


def paths(value: Any, above: tuple = ()) -> Iterator[tuple]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*above, key)
        if isinstance(item, dict | list):
            yield from paths(item, (*above, key))


def changed(record: Any, path: tuple, *value: Any) -> Any:
    made = copy.deepcopy(record)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    if value:
        inner[path[-1]] = value[0]
    else:
        del inner[path[-1]]
    return made


def outcome(path: Path, content: str | bytes, sound: jl.Fit) -> str:
    """``refused``, ``same`` numbers, or what should not be: ``changed``, or an error's name."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    try:
        loaded = jl.load(path)
    except jl.JaxlawError as error:
        return "refused" if str(path) in str(error) else f"unnamed: {error}"
    except Exception as error:  # what must not be
        return repr(error)
    point = dict.fromkeys(sound.law.input_names, 1e9)
    same = loaded.to_dict() == sound.to_dict() and loaded.predict(point) == sound.predict(point)
    return "same" if same else "changed"
