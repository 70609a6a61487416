"""What a party must not forget: one file for a data set and all its runs, written before anything is sent."""

from sottovoce.deployment.store.chain import Entry, linked
from sottovoce.deployment.store.counters import Counters, Proof, signed_by
from sottovoce.deployment.store.refusals import AnotherWriter, RestoredBackup, StoreError
from sottovoce.deployment.store.store import Store
from sottovoce.deployment.store.values import Current, Meter, Outgoing, Reservation, RunRecord

__all__ = [
    "AnotherWriter",
    "Counters",
    "Current",
    "Meter",
    "Outgoing",
    "Proof",
    "Reservation",
    "RestoredBackup",
    "RunRecord",
    "Store",
    "StoreError",
]


def __dir__() -> list[str]:
    return [*__all__]
