"""Entries that can be added to and not changed: each one's hash covers the one before it.

    hash_n = SHA-256( "sottovoce ledger 1" | hash_(n-1) | n | body_n ),    hash_(-1) = 32 zero bytes

A changed, removed or exchanged entry breaks every hash after it, which is seen when the store is opened. Whoever may write the file can also
compute all hashes anew: against that helps only a head kept elsewhere (`ledger export`).
"""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from sottovoce.deployment.store.refusals import StoreError

_PREFIX = b"sottovoce ledger 1\n"
BEGINNING = bytes(32)


class Entry(NamedTuple):
    """One entry: its number from 0 on, what it says, and the hash that covers it and all before it."""

    number: int
    body: bytes
    hash: bytes


def linked(number: int, previous: bytes, body: bytes) -> Entry:
    """The entry that follows one with the hash `previous`."""
    return Entry(number, body, hashlib.sha256(_PREFIX + previous + number.to_bytes(8, "little") + body).digest())


def verified(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """All entries, if they are what was once written.

    Raises:
        StoreError: naming the first entry that does not fit.
    """
    previous, held = BEGINNING, []
    for position, entry in enumerate(entries):
        if entry != linked(position, previous, entry.body):
            raise StoreError(
                f"entry {position} of the ledger is not what was written: its hash does not fit. Somebody changed the file, or the disk did; put back "
                f"a whole copy, and compare it with an exported head (`sottovoce ledger check`)."
            )
        held.append(entry)
        previous = entry.hash
    return tuple(held)
