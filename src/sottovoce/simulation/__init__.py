"""Simulation: one compiled program for all agents, schemes and repeats, driven chunk by chunk.

What needs JAX is imported when first used, so that a finished run can be looked at without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sottovoce.simulation.run import Run
from sottovoce.simulation.run import join as join
from sottovoce.simulation.settings import Settings as Settings
from sottovoce.simulation.simulate import simulate

if TYPE_CHECKING:
    from sottovoce.simulation.engine import chunks as chunks
    from sottovoce.simulation.engine import size_of_run as size_of_run
    from sottovoce.simulation.progress import expected_seconds as expected_seconds
    from sottovoce.simulation.progress import round_bar as round_bar
    from sottovoce.simulation.resources import RunSize as RunSize
    from sottovoce.simulation.resources import check_run_size as check_run_size
    from sottovoce.simulation.rounds.cache import enable_compilation_cache as enable_compilation_cache
    from sottovoce.simulation.rounds.metrics import choose_metrics as choose_metrics
    from sottovoce.simulation.rounds.precision import precision as precision

_LATER = {
    "RunSize": "resources",
    "check_run_size": "resources",
    "choose_metrics": "rounds.metrics",
    "chunks": "engine",
    "enable_compilation_cache": "rounds.cache",
    "expected_seconds": "progress",
    "precision": "rounds.precision",
    "round_bar": "progress",
    "size_of_run": "engine",
}

__all__ = ["Run", "simulate"]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"sottovoce.simulation.{_LATER[name]}"), name)
    raise AttributeError(f"module 'sottovoce.simulation' has no attribute {name!r}")
