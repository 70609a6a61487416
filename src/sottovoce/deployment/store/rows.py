"""Single rows of a store's tables, read and written inside a transaction that somebody else began."""

import sqlite3
from collections.abc import Mapping

import numpy as np

from sottovoce.deployment.store.arrays import packed, unpacked
from sottovoce.deployment.store.chain import BEGINNING, Entry, linked, verified
from sottovoce.deployment.store.counters import Counters
from sottovoce.deployment.store.refusals import StoreError


def append_entry(connection: sqlite3.Connection, entry: Entry) -> None:
    """Add an entry, if it follows the last one."""
    last = connection.execute("SELECT number, hash FROM ledger ORDER BY number DESC LIMIT 1").fetchone()
    number, previous = (last[0] + 1, last[1]) if last else (0, BEGINNING)
    if entry != linked(number, previous, entry.body):
        raise StoreError(
            f"the ledger has {number} entries, and entry {entry.number} was prepared for another one: something was reserved in between. Reserve again."
        )
    connection.execute("INSERT INTO ledger VALUES (?, ?, ?)", entry)
    connection.execute("UPDATE store SET entries = ?", (number + 1,))


def all_entries(connection: sqlite3.Connection) -> tuple[Entry, ...]:
    """Entries of the ledger, each checked against the one before."""
    return verified(Entry(*row) for row in connection.execute("SELECT number, body, hash FROM ledger ORDER BY number"))


def counters_in(connection: sqlite3.Connection) -> Counters:
    """How far the store has come."""
    row = connection.execute("SELECT name, exchanges, boots, entries FROM store").fetchone()
    return Counters(store=row[0], exchanges=row[1], boots=row[2], entries=row[3])


def number_of(connection: sqlite3.Connection, digest: bytes, allowed: tuple[str, ...] = ()) -> int:
    """The row of a run, if its status is one of those allowed; none named: any."""
    found = connection.execute("SELECT run, status, name FROM runs WHERE digest = ?", (digest,)).fetchone()
    if found is None:
        raise unknown(digest)
    if allowed and found[1] not in allowed:
        raise StoreError(f"the run {found[2]!r} is {found[1]}: nothing more can be done in it. Begin another run.")
    return int(found[0])


def unknown(digest: bytes) -> StoreError:
    """What to say of a run that was never begun."""
    return StoreError(
        f"no run with digest {digest.hex()[:16]}... was begun in this store. Begin it, or open the store in which it was."
    )


def keep_arrays(connection: sqlite3.Connection, run: int, use: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Put arrays in the place of those of the same use."""
    for (name,) in connection.execute("SELECT name FROM arrays WHERE run = ? AND use = ?", (run, use)).fetchall():
        if name not in arrays:
            connection.execute("DELETE FROM arrays WHERE run = ? AND use = ? AND name = ?", (run, use, name))
    connection.executemany(
        "INSERT INTO arrays VALUES (?, ?, ?, ?) ON CONFLICT (run, use, name) DO UPDATE SET content = excluded.content",
        [(run, use, name, packed(array)) for name, array in sorted(arrays.items())],
    )


def kept_arrays(connection: sqlite3.Connection, run: int, use: str) -> dict[str, np.ndarray]:
    """The arrays of a run for one use, by name."""
    rows = connection.execute("SELECT name, content FROM arrays WHERE run = ? AND use = ?", (run, use)).fetchall()
    return {name: unpacked(content, of=f"the {use} {name}".rstrip()) for name, content in rows}


def close_served_runs(connection: sqlite3.Connection) -> bool:
    """Erase the keys of finished runs of which nothing waits to be sent."""
    return (
        connection.execute(
            "UPDATE runs SET status = 'closed', run_key = NULL WHERE status = 'finished' AND run NOT IN (SELECT run FROM outgoing)"
        ).rowcount
        > 0
    )
