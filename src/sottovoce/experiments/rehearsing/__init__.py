"""A rehearsal on one machine: all parties of a run as processes, and their models held against the simulation.

saved_draws    a simulation's random numbers in files, which parties read without JAX
process        one party, started by the rehearsal
parties        folders, keys and roster for all of them; starting, watching and ending them
outcome        how far their models are from the simulation's, and how far they may be

A rehearsal's numbers follow from a seed that everybody here knows: its models must never be released.
"""

from typing import TYPE_CHECKING

from sottovoce.imported_later import imported_later

if TYPE_CHECKING:
    from sottovoce.experiments.rehearsing.outcome import Outcome, outcome_of
    from sottovoce.experiments.rehearsing.parties import MOST_PARTIES, Event, Rehearsal, prepare_rehearsal

__getattr__ = imported_later(
    __name__,
    {"outcome": ("Outcome", "outcome_of"), "parties": ("MOST_PARTIES", "Event", "Rehearsal", "prepare_rehearsal")},
)

__all__ = ["MOST_PARTIES", "Event", "Outcome", "Rehearsal", "outcome_of", "prepare_rehearsal"]


def __dir__() -> list[str]:
    return [*__all__]
