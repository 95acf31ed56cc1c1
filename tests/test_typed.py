"""The walker over type hints: what it accepts, and how it says what it does not."""

from typing import Annotated

import pytest

from jaxlaw import UsageError
from jaxlaw._typed import Between, ConfidenceLevel, checked


@checked
def plan(n: int, *, share: Annotated[float, Between(0, 1)] = 0.5, level: ConfidenceLevel = 0.95,
         counts: Annotated[int, Between(1, 9)] | list[str] = 1):  # fmt: skip
    return n, share, level, counts


def test_a_range_belongs_to_the_annotation_and_not_to_the_name():
    """Once any argument called n, steps, levels, noise or level had a range of its own."""
    assert plan(-7)[0] == -7
    assert plan(1, share=0)[1] == 0 and plan(1, share=1)[1] == 1
    with pytest.raises(UsageError, match=r"^plan: share is 1.5; it must be 0 or more, 1 at most$"):
        plan(1, share=1.5)
    for level in (0, 1, -0.1):
        with pytest.raises(UsageError, match="level is .*between 0 and 1, such as 0.95"):
            plan(1, level=level)


def test_a_range_within_a_union_is_that_of_its_member():
    assert plan(1, counts=["a"])[3] == ["a"]
    with pytest.raises(UsageError, match="counts is 10; it must be 1 or more, 9 at most or a list"):
        plan(1, counts=10)


def test_an_error_carries_the_argument_and_its_value():
    with pytest.raises(UsageError) as caught:
        plan(1, counts=[3])
    assert (caught.value.argument, caught.value.value) == ("counts", 3)
    assert "counts[0] is 3; it must be text" in str(caught.value)
