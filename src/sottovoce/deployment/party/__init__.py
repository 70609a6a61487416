"""A party as a process: it reads what came, computes, writes down what it will send, and only then sends it.

run_party    one party in one run, or the rest of it after a crash
AgentWork    what an agent does there;   RelayWork    what a relay does
Book         the pages of the store that belong to a run
Onlooker     what people see of it: log, status file, health;   Operation    how its process is operated and asked to stop
Refused      what was refused of whom, counted
"""

from sottovoce.deployment.party.book import Book
from sottovoce.deployment.party.evidence import parse_evidence
from sottovoce.deployment.party.exclusion import Excluded, Exclusion
from sottovoce.deployment.party.going_on import Course, GoesOn
from sottovoce.deployment.party.health import health_address
from sottovoce.deployment.party.journal import Journal
from sottovoce.deployment.party.loop import Phase
from sottovoce.deployment.party.onlooker import Onlooker, Operation
from sottovoce.deployment.party.quiet import keep_memory_private, memory_kb
from sottovoce.deployment.party.refused import Refused
from sottovoce.deployment.party.run_party import (
    OthersMissing,
    Place,
    Progress,
    RunEnded,
    Served,
    begun_run,
    looked_on,
    run_party,
)
from sottovoce.deployment.party.stalls import Missing
from sottovoce.deployment.party.stalls import in_words as stall_in_words
from sottovoce.deployment.party.standing import STATUS, Other, Standing, life, read_status
from sottovoce.deployment.party.stopping import Stopped, stop_on_signals
from sottovoce.deployment.party.work import AgentWork, RelayWork, Work

__all__ = [
    "AgentWork",
    "Book",
    "Course",
    "Excluded",
    "Exclusion",
    "GoesOn",
    "Journal",
    "Onlooker",
    "Operation",
    "Other",
    "OthersMissing",
    "Phase",
    "Place",
    "Progress",
    "Refused",
    "RelayWork",
    "RunEnded",
    "Served",
    "Standing",
    "Stopped",
    "Work",
    "begun_run",
    "keep_memory_private",
    "life",
    "looked_on",
    "memory_kb",
    "read_status",
    "run_party",
    "stop_on_signals",
]


def __dir__() -> list[str]:
    return [*__all__]
