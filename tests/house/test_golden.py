"""No number of any command's Python call changes unnoticed; ``golden.py`` records them."""

import json

import pytest

from tests.fixtures.command_files import prepare
from tests.fixtures.python_calls import SLOW
from tests.house.golden import FILE, differences, numbers

GOLDEN = json.loads(FILE.read_text("utf-8"))
# Closed forms and roots hold to rounding on every processor. A fit is where its steps end, and
# its standard errors come from a matrix that is nearly singular.
EXACT, FITTED = 1e-9, 1e-5


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    prepare(folder)
    return folder


@pytest.mark.parametrize("name", GOLDEN)
def test_no_number_changes(files, name, monkeypatch):
    monkeypatch.chdir(files)
    assert differences(GOLDEN[name], numbers(name), FITTED if name in SLOW else EXACT) == []


def test_differences_are_seen():
    old = {"/N": 1.0, "/D": 2.0, "/loss": float("inf")}
    assert differences(old, old, 1e-12) == []
    assert differences(old, {"/N": 1 + 1e-11, "/r": 2.0, "/loss": float("inf")}, 1e-12) == [
        "/D is gone", "/N was 1.0, is 1.00000000001", "/r is new",
    ]  # fmt: skip
