"""Private distributed learning without a trusted server.

A Run lets agents on a Topology solve a Problem with an Algorithm, while Noise perturbs each message.

    import sottovoce as sv
    run = sv.simulate(problem, topology, sv.algorithms.atc(step_size=0.1), sv.noise.graph_homomorphic(law), rounds=500)

What is made by hand (topologies, problems, algorithms, noise, observers) is imported at once; the accountant, the theory and whatever needs JAX when
first used, so that the command and small scripts start quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sottovoce import algorithms, clipping, noise, observers, problems, topologies
from sottovoce.errors import (
    BudgetExhausted,
    ConfigError,
    Diverged,
    IncompatibleChoice,
    ProtocolError,
    SottovoceError,
    UnsupportedClaim,
)

if TYPE_CHECKING:
    from sottovoce import accounting, attacks, deployment, reports, simulation, theory
    from sottovoce.accounting import Guarantee, Question, account, calibrate
    from sottovoce.attacks.audit import audit
    from sottovoce.experiments import load, load_model, recommended_setting, save
    from sottovoce.experiments.comparison.compare import compare
    from sottovoce.simulation import Run, simulate
    from sottovoce.simulation.views import observe
    from sottovoce.theory import expected_msd

__version__ = "0.1.0"

_MODULES = ("accounting", "attacks", "deployment", "reports", "simulation", "theory")
_LATER = {
    "Guarantee": "sottovoce.accounting",
    "Question": "sottovoce.accounting",
    "account": "sottovoce.accounting",
    "calibrate": "sottovoce.accounting",
    "expected_msd": "sottovoce.theory",
    "audit": "sottovoce.attacks.audit",
    "observe": "sottovoce.simulation.views",
    "simulate": "sottovoce.simulation",
    "compare": "sottovoce.experiments.comparison.compare",
    "load": "sottovoce.experiments",
    "load_model": "sottovoce.experiments",
    "recommended_setting": "sottovoce.experiments",
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
    "load_model",
    "noise",
    "observe",
    "observers",
    "problems",
    "recommended_setting",
    "reports",
    "save",
    "simulate",
    "simulation",
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
