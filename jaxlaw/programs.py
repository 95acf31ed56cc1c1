"""Compiled programs, kept in a folder for later processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache


@contextlib.contextmanager
def programs_in(folder: str | os.PathLike[str] | None) -> Iterator[None]:
    """Programs compiled inside are kept in a folder, and found there by later processes.

    JAX's own persistent cache, which is a setting of the process, for as long as this lasts;
    None changes nothing.
    """
    if folder is None:
        yield
        return
    wanted = {
        "jax_compilation_cache_dir": os.fspath(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.2,
    }
    before = {name: getattr(jax.config, name) for name in wanted}

    def put(settings: dict[str, Any]) -> None:
        for name, value in settings.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()  # it reads its settings once

    put(wanted)
    try:
        yield
    finally:
        put(before)
