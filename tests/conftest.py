"""Settings for all tests: programs are compiled quickly rather than well, and once for all tests, workers and runs.

Most of the time of the tests went into compiling programs that then run for milliseconds, so the compiler is told to do without its costly
passes. That may change the last bits of a result; tests of bits therefore ask for `compiled_as_for_users`.
"""

import gc
import os
import tempfile
from functools import partial
from importlib.metadata import version

import pytest
from hypothesis import settings

# A flag that the compiler does not know ends the process, so flags are given to the version for which they were tried alone.
FLAGS_ARE_KNOWN = version("jaxlib") == "0.10.2"
FLAGS = {  # in tests, and for users
    "xla_cpu_use_fusion_emitters": (False, True),
    "xla_backend_optimization_level": (0, 3),
    "xla_cpu_parallel_codegen_split_count": (1, 32),
}
LONG_RUNS = ("slow", "exhaustive")  # they run at half the speed without optimised code, which costs more than it saves

# Compiled programs, however small, are kept for other tests, workers and runs, and out of the user's own cache. JAX reads these variables
# when it is imported, which is after this file.
folder = os.environ.setdefault("SOTTOVOCE_CACHE", os.path.join(tempfile.gettempdir(), "sottovoce-test-cache"))
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", folder)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
# A fifth of the time of tracing went into noting, for every operation, the lines that led to it.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")

# How long one example takes depends on who else is at work on the machine, and says nothing about the claim.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Give the compiler its flags, before it is first used; those that are set already stay."""
    given = os.environ.get("XLA_FLAGS", "")
    left = {"xla_backend_optimization_level"} if config.getoption("markexpr") in LONG_RUNS else set()
    if FLAGS_ARE_KNOWN:
        added = [f"--{name}={str(FLAGS[name][0]).lower()}" for name in FLAGS if name not in given and name not in left]
        os.environ["XLA_FLAGS"] = " ".join([given, *added]).strip()


def pytest_collection_finish() -> None:
    """Half a million objects of modules and tests live to the end; the collector need not look through them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def compiled_as_for_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile the programs of this test with all optimisations, on which the last bits of their results depend."""
    import jax

    if FLAGS_ARE_KNOWN:
        options = {name: for_users for name, (_, for_users) in FLAGS.items()}
        monkeypatch.setattr(jax, "jit", partial(jax.jit, compiler_options=options))
