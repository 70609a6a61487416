"""A party as a process: it reads what came, computes, writes down what it will send, and only then sends it.

run_party    one party in one run, or the rest of it after a crash
AgentWork    what an agent does there;   RelayWork    what a relay does
Book         the pages of the store that belong to a run;   Journal    what people who look on can read
Refused      what was refused of whom, counted
"""

from sottovoce.deployment.party.book import Book
from sottovoce.deployment.party.exclusion import Excluded, Exclusion
from sottovoce.deployment.party.going_on import Course, GoesOn
from sottovoce.deployment.party.journal import Journal
from sottovoce.deployment.party.loop import Phase
from sottovoce.deployment.party.quiet import keep_memory_private, memory_kb
from sottovoce.deployment.party.refused import Refused
from sottovoce.deployment.party.run_party import (
    Onlooker,
    OthersMissing,
    Place,
    Progress,
    RunEnded,
    Served,
    begun_run,
    run_party,
)
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
    "OthersMissing",
    "Phase",
    "Place",
    "Progress",
    "Refused",
    "RelayWork",
    "RunEnded",
    "Served",
    "Work",
    "begun_run",
    "keep_memory_private",
    "memory_kb",
    "run_party",
]


def __dir__() -> list[str]:
    return [*__all__]
