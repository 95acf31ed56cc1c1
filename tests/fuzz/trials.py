"""Trials of tables and of losses that nobody's law has: what comes of each, in a word."""

import warnings
from collections import Counter
from functools import partial

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, settings, strategies as st

import jaxlaw as jl
from jaxlaw.data._columns import Location, numbers
from tests.fuzz import calls as hostile_calls, tables as hostile

REFUSED_AS_THEY_ARE = {"load", "fit_decay"}  # no file there, no curves


def settled(count, derandomize=False):
    return settings(max_examples=count, deadline=None, database=None, derandomize=derandomize,
                    suppress_health_check=list(HealthCheck))  # fmt: skip


def read(case):
    """What comes of a table: ``refused``, ``read``, ``wrong: …`` or ``broken: …``."""
    source, options, cells = case
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            runs = jl.read_runs(source, **options)
            for name in {"N", "D", "loss"} & set(cells or ()) & set(runs.table):
                try:
                    values = numbers(runs.table[name], Location("", "row", name, name))
                except jl.DataError:
                    continue
                meant = cells[name]
                if None in meant or not np.array_equal(np.array(meant), values, equal_nan=True):
                    return f"wrong: {name} read as {values[:3]}, says {meant[:3]}"
            runs.observations("chinchilla")
        except jl.JaxlawError as error:
            return "refused" if len(str(error)) > 20 else f"broken: says only {error}"
        except Exception as error:  # what must not be
            return f"broken: {error!r}"
    return "read"


@st.composite
def losses(draw):
    """36 losses that a table may hold, and nobody's law has."""
    sound = hostile_calls.runs()["loss"].to_numpy()
    values = st.one_of(st.floats(0.01, 100), st.floats(1e-3, 1e3), st.floats(1e-300, 1e300))
    ways = {
        "in reach": st.lists(st.floats(0.1, 10), min_size=len(sound), max_size=len(sound)),
        "any": st.lists(values, min_size=len(sound), max_size=len(sound)),
        "few": st.lists(st.floats(0.5, 5), min_size=2, max_size=4),
        "one odd": st.tuples(st.integers(0, len(sound) - 1), values),
        "equal": values,
        "power": st.one_of(st.floats(-10, 10), st.floats(-300, 300)),
    }
    way = draw(st.sampled_from([*ways]))
    what, drawn = draw(ways[way]), sound.copy()
    if way == "one odd":
        drawn[what[0]] = what[1]
    elif way == "power":
        with np.errstate(over="ignore", under="ignore"):
            drawn = sound**what
    elif way == "few":
        drawn = np.resize(what, len(sound))
    else:
        drawn[:] = what
    return drawn


def summed_huber(residual, delta):
    """The objective, written once more."""
    size = np.abs(residual)
    return np.where(size <= delta, size**2 / 2, delta * (size - delta / 2)).sum()


def fitted(loss):
    """What comes of a fit to such losses, and of the same rows in another order."""
    table = hostile_calls.runs().assign(loss=loss)
    try:
        fit = jl.fit("chinchilla", table, n_starts=64, n_local=8)
        again = jl.fit("chinchilla", table.sample(frac=1, random_state=0), n_starts=64, n_local=8)
    except jl.JaxlawError:
        return "refused"
    except Exception as error:  # what must not be
        return f"broken: {error!r}"
    if fit.params != again.params:
        return "wrong: other numbers for the same rows"
    predicted = fit.predict(table[["N", "D"]])
    if (
        not np.isfinite([*fit.params.values(), fit.objective]).all()
        or not np.isfinite(predicted).all()
    ):
        return "wrong: not finite"
    own = summed_huber(np.log(predicted / loss), fit.delta)
    if not np.isclose(fit.objective, own, rtol=1e-9, atol=1e-20):
        return f"wrong: objective {fit.objective}, its residuals give {own}"
    return "fitted, with warnings" if fit.notes else "fitted"


def without_law(rows):
    """Runs, and ways to draw losses that N and D do not explain, by name."""
    table = pd.DataFrame(hostile.sound(rows), columns=[*hostile.NAMES]).drop(columns="note")
    loss, random = table["loss"].to_numpy(), np.random.default_rng(0)
    normal, uniform = partial(random.standard_normal, rows), partial(random.uniform, size=rows)
    return table, {
        "lognormal": lambda: 3 * np.exp(0.1 * normal()),
        "uniform": lambda: uniform(2, 5),
        "shuffled": lambda: random.permutation(loss),
        "random walk": lambda: 3 * np.exp(0.05 * np.cumsum(normal())),
        "Cauchy": lambda: 3 * np.exp(np.clip(0.1 * random.standard_cauchy(rows), -20, 20)),
        "two levels": lambda: random.choice([2.0, 4.0], rows),
        "six decades": lambda: 10 ** uniform(-3, 3),
        "upside down": lambda: loss.max() + loss.min() - loss,
        "a law under 10 % noise": lambda: loss * np.exp(0.1 * normal()),
    }


def lawless(count):
    """How grave the gravest note is of fits to losses that follow no law."""
    counted = Counter()
    for rows in (36, 12, 8, 6):
        table, ways = without_law(rows)
        for k in range(count // 4):
            way = list(ways)[k % len(ways)]
            try:
                fit = jl.fit("chinchilla", table.assign(loss=ways[way]()), n_starts=64, n_local=8)
                grave = {note.severity for note in fit.notes}
                worst = next((one for one in ("error", "warning") if one in grave), "none")
                label = f" {way}, R² {fit.r2:.2f}" if worst == "none" else ""
            except jl.JaxlawError:
                worst, label = "refused", ""
            except Exception as error:  # what must not be
                worst, label = f"broken: {error!r}", ""
            counted[f"{worst} ({rows} rows){label}"] += 1
    return counted
