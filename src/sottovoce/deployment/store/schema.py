"""The tables of a store, their version, and the way from an older one.

The file says that it is ours (`application_id`) and which version wrote it (`user_version`); what a newer version wrote is refused unread, since
it may hold rules that this one would break.
"""

import sqlite3
from collections.abc import Callable

from sottovoce.deployment.store.refusals import StoreError

APPLICATION = 0x53564C31  # "SVL1"
VERSION = 1
PAGE_BYTES = 65536  # one page holds a neighbour's words of 8,000 parameters; with 4 kB pages a million parameters take more than twice as long

_TABLES = """
CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    name BLOB NOT NULL,           -- random, signed with the counters
    secret BLOB NOT NULL,         -- keys the digests of data files
    opened INTEGER NOT NULL,      -- 1 while a process writes: the file beside it (-wal) belongs to this one then
    transactions INTEGER NOT NULL,
    exchanges INTEGER NOT NULL,
    boots INTEGER NOT NULL,
    entries INTEGER NOT NULL
) STRICT;
CREATE TABLE ledger (number INTEGER PRIMARY KEY, body BLOB NOT NULL, hash BLOB NOT NULL) STRICT;
CREATE TRIGGER ledger_keeps BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_holds BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    agreement INTEGER NOT NULL,   -- number of its bytes in `blobs`: beside numbers that change they would be written again with every exchange
    run_key BLOB,
    entry INTEGER NOT NULL REFERENCES ledger (number),
    status TEXT NOT NULL CHECK (status IN ('running', 'finished', 'closed', 'cancelled')),
    boots INTEGER NOT NULL,
    position INTEGER NOT NULL,    -- of the last committed exchange; -1: none, so that nothing can have been sent
    spent TEXT NOT NULL           -- the meter after it
) STRICT;
CREATE TABLE blobs (blob INTEGER PRIMARY KEY, content BLOB NOT NULL) STRICT;
CREATE TABLE arrays (
    run INTEGER NOT NULL REFERENCES runs (run), use TEXT NOT NULL, name TEXT NOT NULL, head BLOB NOT NULL, blob INTEGER NOT NULL,
    PRIMARY KEY (run, use, name)
) STRICT;
CREATE TABLE outgoing (
    run INTEGER NOT NULL REFERENCES runs (run), peer TEXT NOT NULL, position INTEGER NOT NULL, proof BLOB NOT NULL, blob INTEGER NOT NULL,
    PRIMARY KEY (run, peer, position)
) STRICT;
CREATE TABLE others (identity BLOB NOT NULL, store BLOB NOT NULL, counters BLOB NOT NULL, signature BLOB NOT NULL, PRIMARY KEY (identity, store)) STRICT;
"""

# From which version to the next; each runs inside one transaction of its own.
MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {}


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty file."""
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    for statement in _statements(_TABLES):
        connection.execute(statement)


def check_version(connection: sqlite3.Connection, path: object) -> int:
    """The version that wrote the file.

    Raises:
        StoreError: a file of somebody else, or of a newer version.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION:
        raise StoreError(
            f"{path} is a database, but no store of Sottovoce. Give the file that `sottovoce ledger create` made."
        )
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise StoreError(
            f"{path} has format {version}; this version of Sottovoce knows formats up to {VERSION}. Install the version that wrote it, or a newer "
            f"one; nothing was changed."
        )
    return version


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring the tables of an older version up to this one, one step and one transaction at a time."""
    for step in range(version, VERSION):
        connection.execute("BEGIN IMMEDIATE")
        MIGRATIONS[step](connection)
        connection.execute(f"PRAGMA user_version = {step + 1}")
        connection.execute("COMMIT")


def _statements(script: str) -> list[str]:
    """Single statements of a script: `executescript` would end a transaction that is under way."""
    found, held = [], ""
    for line in script.splitlines(keepends=True):
        held += line
        if sqlite3.complete_statement(held):
            found.append(held)
            held = ""
    return found
