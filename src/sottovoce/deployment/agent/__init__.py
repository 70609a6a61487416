"""What one party does in a run, as pure functions of its state, of what came and of random numbers that it is handed."""

from sottovoce.deployment.agent.deviation import Deviation, deviation_bound
from sottovoce.deployment.agent.exchange import Held, Prepared, prepare, take
from sottovoce.deployment.agent.own import Own, own_of
from sottovoce.deployment.agent.play import play
from sottovoce.deployment.agent.randomness import Randomness
from sottovoce.deployment.agent.refusals import check_deployable
from sottovoce.deployment.agent.rehearsal import Draws, Rehearsed, RehearsedCoin
from sottovoce.deployment.agent.relay import RelayPrepared, relay_prepare, relay_start
from sottovoce.deployment.agent.state import State, final_model, flatten, start, unflatten
from sottovoce.deployment.agent.wiring import Wiring

__all__ = [
    "Deviation",
    "Draws",
    "Held",
    "Own",
    "Prepared",
    "Randomness",
    "Rehearsed",
    "RehearsedCoin",
    "RelayPrepared",
    "State",
    "Wiring",
    "check_deployable",
    "deviation_bound",
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
