"""Single rows of a store's tables, read and written inside a transaction that somebody else began."""

import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np

from sottovoce.deployment.store.arrays import check_of, damaged, packed, unpacked
from sottovoce.deployment.store.blobs import drop, put, taken
from sottovoce.deployment.store.chain import BEGINNING, Entry, linked, verified
from sottovoce.deployment.store.counters import Counters
from sottovoce.deployment.store.refusals import StoreError
from sottovoce.deployment.store.values import Outgoing


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


def keep_arrays(connection: sqlite3.Connection, run: int, use: str, arrays: Mapping[str, np.ndarray]) -> int:
    """Put arrays in the place of those of the same use, and return how many bytes they have."""
    free = [
        blob
        for (blob,) in connection.execute("SELECT blob FROM arrays WHERE run = ? AND use = ? ORDER BY name", (run, use))
    ]
    connection.execute("DELETE FROM arrays WHERE run = ? AND use = ?", (run, use))
    length = 0
    for name, array in sorted(arrays.items()):
        head, content = packed(array)
        connection.execute(
            "INSERT INTO arrays VALUES (?, ?, ?, ?, ?)", (run, use, name, head, put(connection, content, free))
        )
        length += len(content)
    drop(connection, free)
    return length


def kept_arrays(connection: sqlite3.Connection, run: int, use: str) -> dict[str, np.ndarray]:
    """The arrays of a run for one use, by name."""
    rows = connection.execute("SELECT name, head, blob FROM arrays WHERE run = ? AND use = ?", (run, use)).fetchall()
    return {name: unpacked(head, taken(connection, blob), of=f"the {use} {name}".rstrip()) for name, head, blob in rows}


def keep_outgoing(
    connection: sqlite3.Connection, run: int, position: int, outgoing: Mapping[str, bytes], free: list[int]
) -> int:
    """Keep what neighbours are to be sent, in rows that are free where they fit, and return how many bytes it has."""
    for peer, payload in sorted(outgoing.items()):
        content = memoryview(payload).cast("B")
        row = (run, peer, position, check_of(content), put(connection, content, free))
        connection.execute("INSERT INTO outgoing VALUES (?, ?, ?, ?, ?)", row)
    return sum(len(memoryview(payload).cast("B")) for payload in outgoing.values())


def kept_outgoing(connection: sqlite3.Connection, run: int, known: Mapping[str, int]) -> list[Outgoing]:
    """What waits, the oldest first; `known` says up to which position each peer has everything."""
    found = []
    rows = connection.execute(
        "SELECT peer, position, proof, blob FROM outgoing WHERE run = ? ORDER BY position, peer", (run,)
    )
    for peer, position, check, blob in rows.fetchall():
        if position <= known.get(peer, -1):
            continue
        payload = taken(connection, blob)
        if check_of(memoryview(payload)) != check:
            raise damaged(f"the message for {peer} in exchange {position}")
        found.append(Outgoing(peer, position, payload))
    return found


def release_outgoing(connection: sqlite3.Connection, run: int, peer: str, position: int) -> list[int]:
    """Forget what a peer has, and return the rows of its bytes, which are free now: to be used again or dropped."""
    which = "FROM outgoing WHERE run = ? AND peer = ? AND position <= ?"
    free = [blob for (blob,) in connection.execute(f"SELECT blob {which}", (run, peer, position))]
    connection.execute(f"DELETE {which}", (run, peer, position))
    return free


def drop_arrays(connection: sqlite3.Connection, run: int, uses: Sequence[str]) -> None:
    """Erase the arrays of a run for these uses."""
    for use in uses:
        keep_arrays(connection, run, use, {})


def drop_outgoing(connection: sqlite3.Connection, run: int) -> None:
    """Erase everything that waits to be sent in a run."""
    drop(
        connection,
        [blob for (blob,) in connection.execute("SELECT blob FROM outgoing WHERE run = ?", (run,)).fetchall()],
    )
    connection.execute("DELETE FROM outgoing WHERE run = ?", (run,))


def close_served_runs(connection: sqlite3.Connection) -> bool:
    """Erase the keys of finished runs of which nothing waits to be sent."""
    return (
        connection.execute(
            "UPDATE runs SET status = 'closed', run_key = NULL WHERE status = 'finished' AND run NOT IN (SELECT run FROM outgoing)"
        ).rowcount
        > 0
    )
