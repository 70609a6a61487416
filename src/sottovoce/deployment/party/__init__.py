"""A party as a process: it reads what came, computes, writes down what it will send, and only then sends it.

run_party    one party in one run, or the rest of it after a crash
AgentWork    what an agent does there;   RelayWork    what a relay does
"""

from sottovoce.deployment.party.run_party import OthersMissing, Place, Progress, Served, run_party
from sottovoce.deployment.party.work import AgentWork, RelayWork, Work

__all__ = ["AgentWork", "OthersMissing", "Place", "Progress", "RelayWork", "Served", "Work", "run_party"]


def __dir__() -> list[str]:
    return [*__all__]
