"""How sure a schedule is: the one that each replicate of the fits likes best, beside it."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxlaw.lr_areas import Areas, PhaseAreas
from jaxlaw.planning.corners import Mixture, lean, mixed
from jaxlaw.planning.descent import NEAR, Search, Target, descend, losses_of
from jaxlaw.planning.falls import Run
from jaxlaw.programs import compiled

MOST = 1000  # replicates that are searched
ITERATIONS = 200  # from the schedule found, which is near
DONE = (0.1, 0.9)  # of the fall: where it counts as begun, and as ended


def own_schedules(targets: Sequence[Target], search: Search, run: Run) -> pd.DataFrame:
    """A row for each of the first replicates (1,000 at most): what its own search finds.

    Each starts from the schedule found, and keeps it where it finds none better.

    Args:
        targets: the losses; the replicates are those of their sources.
        search: what was found for the fits themselves.
        run: its limits.

    Returns:
        ``loss`` of the schedule found, ``best_loss`` of the replicate's own, ``regret``, their
        difference, and ``decay_start``, ``decay_end`` of its own.
    """
    count = min(targets[0].source.rows - 1, MOST)
    if not count:
        return pd.DataFrame()
    each = [_replicates(one, count) for one in targets]
    shares, mixture = search.shares[search.best], search.mixture
    own = descend(each, mixture, np.tile(shares, (count, 1)), ITERATIONS, NEAR)
    loss = np.broadcast_to(losses_of(each, search.best_ends), count)
    here, there = (losses_of(each, _ends(mixture, one)) for one in (shares[None], own))
    better = here > there  # both by the same few steps
    regret = np.where(better | np.isnan(here - there), here - there, 0.0)
    own = np.where(better[:, None], own, shares)
    begun, ended = fall_of(own, search, run)
    columns = {"loss": loss, "best_loss": loss - regret, "regret": regret}
    return pd.DataFrame(columns | {"decay_start": begun, "decay_end": ended})


def fall_of(shares: np.ndarray, search: Search, run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Steps by which a tenth and nine tenths of the fall are done, (rows,); without one the last.

    Args:
        shares: (rows, corners).
        search: whose knots they are.
        run: its limits.
    """
    steps = search.nodes[0]
    free = steps >= run.first
    rates, at = shares @ search.mixture.rates[:, free], steps[free]
    fall = rates[:, 0] - rates[:, -1]
    none = fall <= 1e-6 * run.peak
    done = (rates[:, :1] - rates) / np.where(none, 1.0, fall)[:, None]
    found = []
    for share in DONE:
        after = np.argmax(done >= share, axis=1)
        rows, before = np.arange(len(done)), np.maximum(after - 1, 0)
        low, high = done[rows, before], done[rows, after]
        way = (share - low) / np.where(high > low, high - low, 1.0)
        step = np.ceil(at[before] + way * (at[after] - at[before]))
        found.append(np.where(none, run.steps, step))
    return found[0], found[1]


def _replicates(target: Target, count: int) -> Target:
    rows = {name: values[1 : count + 1] for name, values in target.source.params.items()}
    return target._replace(params=rows)


def _ends(mixture: Mixture, shares: np.ndarray) -> Areas | PhaseAreas:
    with jax.enable_x64(True):
        found = _mixed_rows(lean(mixture), jnp.asarray(shares))
    return type(found)(*map(np.asarray, found))


@compiled()
def _mixed_rows(mixture: Mixture, shares: jax.Array) -> Areas | PhaseAreas:
    return jax.vmap(lambda one: mixed(mixture, one))(shares)
