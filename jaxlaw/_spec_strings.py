"""One-word choices of the shell: ``wsd:peak=2e-4,steps=50000``, ``k-fold:5:groups=run``."""

from __future__ import annotations

import re
from typing import NamedTuple

from jaxlaw.errors import UsageError


class Spec(NamedTuple):
    """A name with its arguments, as text.

    Attributes:
        name: the choice.
        positional: arguments given by their place.
        named: arguments given by name.
    """

    name: str
    positional: list[str]
    named: dict[str, str]


def parse_spec(text: str) -> Spec:
    """The parts of ``name:value:key=value,…``: arguments are divided by colons or commas.

    What the name and the arguments mean, and whether they are any, is for the caller to say.

    Raises:
        UsageError: an argument that is given twice.
    """
    name, *arguments = (part.strip() for part in re.split("[:,]", text))
    arguments = [part for part in arguments if part]
    named = {}
    for part in (part for part in arguments if "=" in part):
        key, _, value = map(str.strip, part.partition("="))
        if key in named:
            raise UsageError(f"{text.strip()!r} has {key} twice: give it once")
        named[key] = value
    return Spec(name, [part for part in arguments if "=" not in part], named)
