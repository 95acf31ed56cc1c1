"""Which points are kept, and who inherits the weight of the others."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jaxlaw.data._loss_curves import (
    inherited_weight,
    keep_spaced,
)

increasing = st.lists(st.integers(1, 10**6), min_size=1, max_size=60, unique=True).map(sorted)


@given(increasing, st.integers(2, 20))
def test_ends_are_kept_and_no_more_points_than_requested(steps, points):
    steps = np.array(steps)
    kept = keep_spaced(steps, points)
    assert kept[0] == 0 and kept[-1] == len(steps) - 1
    assert len(kept) <= points and (np.diff(kept) > 0).all()


@given(increasing, st.data())
def test_the_nearest_kept_point_inherits(steps, data):
    steps = np.array(steps)
    indices = st.lists(st.integers(0, len(steps) - 1), min_size=1, unique=True)
    kept = np.array(sorted(data.draw(indices)))
    weight = np.arange(1.0, len(steps) + 1)
    result = inherited_weight(steps, kept, weight)
    assert result.sum() == weight.sum()
    distance = np.abs(steps[:, None] - 1.0 * steps[kept])
    for k in range(len(kept)):
        others = np.delete(distance, k, axis=1).min(axis=1, initial=np.inf)
        sure = distance[:, k] < others
        possible = distance[:, k] <= others
        assert weight[sure].sum() <= result[k] <= weight[possible].sum()
