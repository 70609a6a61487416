"""The compilation cache: a program compiled once is not compiled again, in this process or a later one."""

import os
from pathlib import Path

import jax

SMALLEST_COMPILE_SECONDS = 0.3


def cache_folder() -> Path:
    """Where compiled programs are kept: $SOTTOVOCE_CACHE, else the user's cache folder."""
    given = os.environ.get("SOTTOVOCE_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sottovoce" / "compiled"


def enable_compilation_cache() -> Path:
    """Turn JAX's persistent cache on, unless the user has set one already; returns its folder."""
    given: str | None = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if given is not None:
        return Path(given)
    jax.config.update("jax_compilation_cache_dir", str(cache_folder()))  # type: ignore[no-untyped-call]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SMALLEST_COMPILE_SECONDS)  # type: ignore[no-untyped-call]
    return cache_folder()
