"""Long bytes, each in a row of its own, written in place where the length is the same.

A model's state has the same length in every exchange. Written over the pages that it has, it costs one write; as a new value of a row it would be
copied twice more. A connection of Python remembers every opened blob as long as it lives, though, so that what is short, and costs little to copy, is
written as a value: SQLite puts one of the same length over the old one, too.
"""

import sqlite3
from collections.abc import Iterable

LONG = 2**20  # bytes from which in place is worth being remembered


def put(connection: sqlite3.Connection, content: memoryview, free: list[int]) -> int:
    """Keep bytes and return the number of their row.

    Args:
        connection: in a transaction.
        content: what to keep.
        free: rows that nobody needs any longer; one of the same length is used, and taken out of the list.
    """
    for number in free:
        (length,) = connection.execute("SELECT length(content) FROM blobs WHERE blob = ?", (number,)).fetchone()
        if length == len(content):
            free.remove(number)
            break
    else:
        made = connection.execute("INSERT INTO blobs (content) VALUES (zeroblob(?))", (len(content),)).lastrowid
        number = int(made or 0)
    if len(content) < LONG:
        connection.execute("UPDATE blobs SET content = ? WHERE blob = ?", (content, number))
    else:
        with connection.blobopen("blobs", "content", number) as blob:
            blob.write(content)
    return number


def taken(connection: sqlite3.Connection, number: int) -> bytes:
    """The bytes of a row."""
    return bytes(connection.execute("SELECT content FROM blobs WHERE blob = ?", (number,)).fetchone()[0])


def drop(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Delete rows; SQLite overwrites them with zeros (secure_delete)."""
    connection.executemany("DELETE FROM blobs WHERE blob = ?", [(number,) for number in numbers])
