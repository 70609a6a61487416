"""FedAvg with GOPA among real parties: agents, a board and a beacon, each a process with a key of its own.

plan      what is fixed before the first round, and the terms of each
log       rounds one after the other, each opened by the board and bound to all before
agent     reads the log, computes, writes down what it will say, says it
deadlines when a publication may leave an agent, and when others may call it dropped, whatever clocks show;     clock   the two clocks of a machine
board     keeps the log and ends phases;     beacon    draws the graph of masks once all have registered
cost      what a run gives away, reserved before its first message
run_gopa  one role as a process
value     what an agent puts into a sum, and what a sum makes of the common model
"""

from sottovoce.deployment.gopa_parties.agent import Agent, Notebook, SpokenFor, Step
from sottovoce.deployment.gopa_parties.beacon import Beacon, Values
from sottovoce.deployment.gopa_parties.board import LogKeeper
from sottovoce.deployment.gopa_parties.clock import Clock
from sottovoce.deployment.gopa_parties.cost import Hidden, hidden, masked_guarantee
from sottovoce.deployment.gopa_parties.log import Ended, Log, Opening
from sottovoce.deployment.gopa_parties.plan import Plan, Times, plan_of
from sottovoce.deployment.gopa_parties.run_gopa import Records, published_rounds, run_gopa
from sottovoce.deployment.gopa_parties.value import Contribution, contribution, moved

__all__ = [
    "Agent",
    "Beacon",
    "Clock",
    "Contribution",
    "Ended",
    "Hidden",
    "Log",
    "LogKeeper",
    "Notebook",
    "Opening",
    "Plan",
    "Records",
    "SpokenFor",
    "Step",
    "Times",
    "Values",
    "contribution",
    "hidden",
    "masked_guarantee",
    "moved",
    "plan_of",
    "published_rounds",
    "run_gopa",
]


def __dir__() -> list[str]:
    return [*__all__]
