"""The numbers of every command's Python call, for a change that is to change none of them.

    python tests/house/golden.py record     writes tests/house/golden.json
    python tests/house/golden.py compare    compares with it to 1e-12, on the machine that wrote it

The file of another commit is compared by ``python tests/house/golden.py compare FILE``. On another
processor the last digits differ: ``test_golden.py`` allows for that.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
FILE = FOLDER / "golden.json"
#: Not of the numbers: the page is text, a saved forecast says when it was made.
LEFT_OUT = ("report",)
FEW = 25  # elements of a list, at least, that are compared


def leaves(value, where=""):
    """(path, number) of every number in a record."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, f"{where}/{name}")
    elif isinstance(value, (list, tuple)):
        every = max(1, len(value) // FEW)  # of long lists some, and the last
        for k, item in enumerate(value):
            if k % every == 0 or k == len(value) - 1:
                yield from leaves(item, f"{where}/{k}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        # How far apart the starts ended that agree is a matter of last bits, and so is the standard
        # error of a fit to runs without noise.
        exact = "/standard_errors/" in where and value < 1e-9
        if where[-7:] != "/spread" and not exact:
            yield where, float(value)


def numbers(name: str) -> dict[str, float]:
    """The numbers of a command's Python call; the working folder holds the prepared files."""
    from tests.fixtures.python_calls import PYTHON, plain

    return dict(leaves(json.loads(json.dumps(plain(PYTHON[name]())))))


def differences(old: dict[str, float], new: dict[str, float], rel: float) -> list[str]:
    """What is gone, new or farther apart than ``rel``."""
    lines = [f"{path} is gone" for path in old.keys() - new.keys()]
    lines += [f"{path} is new" for path in new.keys() - old.keys()]
    lines += [
        f"{path} was {old[path]!r}, is {new[path]!r}"
        for path in old.keys() & new.keys()
        if not math.isclose(old[path], new[path], rel_tol=rel, abs_tol=rel * 1e-3)
    ]
    return sorted(lines)


def main() -> None:
    sys.path.insert(0, str(FOLDER.parents[1]))
    from tests.fixtures.command_files import prepare
    from tests.fixtures.python_calls import PYTHON

    verb, *file = sys.argv[1:]
    path = Path(file[0]).resolve() if file else FILE
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        prepare(Path(folder))
        new = {name: numbers(name) for name in PYTHON if name not in LEFT_OUT}
    if verb == "record":
        text = json.dumps(new, indent=0, sort_keys=True) + "\n"
        path.write_text(text, encoding="utf-8")
        return
    old = json.loads(path.read_text("utf-8"))
    lines = [
        f"{name}{line}"
        for name in sorted({*old, *new})
        for line in differences(old.get(name, {}), new.get(name, {}), 1e-12)
    ]
    print("\n".join(lines) or "no number differs")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
