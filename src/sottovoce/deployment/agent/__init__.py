"""What one party does in a run, as pure functions of its state, of what came and of random numbers that it is handed."""

from sottovoce.deployment.agent.exchange import Held, Prepared, prepare, take
from sottovoce.deployment.agent.own import Own, own_of
from sottovoce.deployment.agent.play import play
from sottovoce.deployment.agent.randomness import Randomness
from sottovoce.deployment.agent.refusals import check_deployable
from sottovoce.deployment.agent.relay import RelayPrepared, relay_prepare, relay_start
from sottovoce.deployment.agent.state import State, final_model, flatten, start, unflatten
from sottovoce.deployment.agent.wiring import Wiring

__all__ = [
    "Held",
    "Own",
    "Prepared",
    "Randomness",
    "RelayPrepared",
    "State",
    "Wiring",
    "check_deployable",
    "final_model",
    "flatten",
    "own_of",
    "play",
    "prepare",
    "relay_prepare",
    "relay_start",
    "start",
    "take",
    "unflatten",
]


def __dir__() -> list[str]:
    return [*__all__]
