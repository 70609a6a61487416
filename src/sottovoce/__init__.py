"""Private distributed learning without a trusted server.

A Run lets agents on a Topology solve a Problem with an Algorithm, while Noise perturbs each message.

    import sottovoce as sv
    run = sv.simulate(problem, topology, sv.algorithms.atc(step_size=0.1), sv.noise.graph_homomorphic(law), rounds=500)

Modules that need JAX are imported when first used, so that topologies, problems, noise and exact theory load without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sottovoce import accounting, algorithms, clipping, noise, observers, problems, theory, topologies
from sottovoce.accounting import Guarantee, Question, account, calibrate
from sottovoce.errors import (
    BudgetExhausted,
    ConfigError,
    Diverged,
    IncompatibleChoice,
    ProtocolError,
    SottovoceError,
    UnsupportedClaim,
)
from sottovoce.theory import expected_msd

if TYPE_CHECKING:
    from sottovoce import attacks, deployment, reports
    from sottovoce.attacks.audit import audit
    from sottovoce.experiments import load, save
    from sottovoce.experiments.comparison.compare import compare
    from sottovoce.simulation import Run, simulate
    from sottovoce.simulation.views import observe

__version__ = "0.1.0"

_MODULES = ("attacks", "deployment", "reports")
_LATER = {
    "audit": "sottovoce.attacks.audit",
    "observe": "sottovoce.simulation.views",
    "simulate": "sottovoce.simulation",
    "compare": "sottovoce.experiments.comparison.compare",
    "load": "sottovoce.experiments",
    "save": "sottovoce.experiments",
    "Run": "sottovoce.simulation",
}

__all__ = [
    "BudgetExhausted",
    "ConfigError",
    "Diverged",
    "Guarantee",
    "IncompatibleChoice",
    "ProtocolError",
    "Question",
    "Run",
    "SottovoceError",
    "UnsupportedClaim",
    "account",
    "accounting",
    "algorithms",
    "attacks",
    "audit",
    "calibrate",
    "clipping",
    "compare",
    "deployment",
    "expected_msd",
    "load",
    "noise",
    "observe",
    "observers",
    "problems",
    "reports",
    "save",
    "simulate",
    "theory",
    "topologies",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"sottovoce.{name}")
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'sottovoce' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
