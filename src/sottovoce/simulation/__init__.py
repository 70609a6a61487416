"""Simulation: one compiled program for all agents, schemes and repeats, driven chunk by chunk.

What needs JAX is imported when first used, so that a finished run can be looked at without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sottovoce.simulation.common_model import common_models
from sottovoce.simulation.generator import GENERATOR
from sottovoce.simulation.run import Run, join, model_of
from sottovoce.simulation.settings import Settings
from sottovoce.simulation.simulate import simulate

if TYPE_CHECKING:
    from sottovoce.simulation.engine import chunks, size_of_run
    from sottovoce.simulation.progress import expected_seconds, round_bar, working_on
    from sottovoce.simulation.resources import RunSize, check_run_size
    from sottovoce.simulation.rounds.cache import enable_compilation_cache
    from sottovoce.simulation.rounds.metrics import choose_metrics, keeps_models
    from sottovoce.simulation.rounds.precision import precision
    from sottovoce.simulation.seeds import Drawn, drawn

_LATER = {
    "Drawn": "seeds",
    "RunSize": "resources",
    "check_run_size": "resources",
    "choose_metrics": "rounds.metrics",
    "chunks": "engine",
    "drawn": "seeds",
    "enable_compilation_cache": "rounds.cache",
    "expected_seconds": "progress",
    "keeps_models": "rounds.metrics",
    "precision": "rounds.precision",
    "round_bar": "progress",
    "working_on": "progress",
    "size_of_run": "engine",
}

__all__ = ["GENERATOR", "Drawn", "Run", "drawn", "simulate"]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"sottovoce.simulation.{_LATER[name]}"), name)
    raise AttributeError(f"module 'sottovoce.simulation' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "views"]
