"""The laws of a study, with what was asked of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxlaw import laws as law_room
from jaxlaw.errors import UsageError
from jaxlaw.fitting._objective import LARGEST_DELTA
from jaxlaw.fitting._options import OF_LAW, FitOptions, law_and_options
from jaxlaw.laws._base import Law


@dataclass(frozen=True)
class Contender:
    """A law in a study: what it is called there, the law, the options of its fits."""

    label: str
    law: Law
    options: FitOptions

    @property
    def free(self) -> tuple[str, ...]:
        """Names of the parameters that are fitted."""
        return self.options.free(self.law)


def contenders_of(
    laws: Any, own: Mapping[str, Any], per_law: Mapping[str, Mapping[str, Any]]
) -> list[Contender]:
    """The laws of a study.

    Args:
        laws: as :func:`jaxlaw.cross_validate` takes them.
        own: keywords of every law, as :func:`jaxlaw.fit` takes them.
        per_law: label → keywords in place of those, of what is fitted.

    Raises:
        UsageError: a law or an option is unknown, or a law is there twice.
    """
    given = laws if isinstance(laws, Mapping) else None
    if given is None:
        try:
            listed = [laws] if isinstance(laws, str | Law) else list(laws)
        except TypeError:
            raise UsageError(
                f"laws is a law, its name, a list or dict of them, not {type(laws).__name__}"
            ) from None
        given = {_label(law): law for law in listed}
        if len(given) != len(listed):
            raise UsageError("a law is listed twice; give a dict, {'one': law, 'other': law}")
    if not given:
        raise UsageError("give a law, or several, to study")
    for label in per_law:
        if label not in given:
            raise UsageError(f"per_law names '{label}', which is not studied: {', '.join(given)}")
        if unknown := set(per_law[label]) - set(OF_LAW):
            raise UsageError(
                f"per_law: '{sorted(unknown)[0]}' is no option of a law; options: "
                f"{', '.join(OF_LAW)}"
            )
    return [
        Contender(str(label), *law_and_options(law, **{**own, **per_law.get(label, {})}))
        for label, law in given.items()
    ]


def _label(law: str | Law) -> str:
    if isinstance(law, str):
        return law
    law = law_room.get(law)
    return law.name if law.constraint is None else f"{law.name} ({law.constraint.name})"


def threshold_of(contenders: list[Contender]) -> float:
    """The Huber threshold of the scores: one for all laws, or they could not be compared."""
    asked = {c.law.delta if c.options.delta is None else c.options.delta for c in contenders}
    if len(asked) > 1:
        raise UsageError(
            f"these laws have Huber thresholds of their own ({', '.join(map(str, sorted(asked)))})"
            "; pass delta= to compare them by one"
        )
    return float(min(asked.pop(), LARGEST_DELTA))
