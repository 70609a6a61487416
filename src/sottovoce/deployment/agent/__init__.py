"""What one party does in a run, as pure functions of its state, of what came and of random numbers that it is handed."""

from sottovoce.deployment.agent.randomness import Randomness

__all__ = ["Randomness"]


def __dir__() -> list[str]:
    return [*__all__]
