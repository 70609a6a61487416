"""One SQLite file that is written by one process, durably, in whole transactions.

WAL with synchronous=FULL: a transaction is on the disk when its commit returns, and readers never wait for it. secure_delete overwrites what is
deleted. One process holds the writer's lock; besides, every transaction begins by asking SQLite whether somebody else has written since
(`data_version`), so that a lock which a file system ignores is noticed before anything is built upon it.

What goes wrong comes out as a StoreError, and the connection is not used again: after a failed flush no later one can be trusted.
"""

import contextlib
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from sottovoce.deployment.store.counters import STORE_ID_BYTES
from sottovoce.deployment.store.private_files import WriterLock, beside, check_private, counted, flush_folder
from sottovoce.deployment.store.refusals import AnotherWriter, RestoredBackup, StoreError
from sottovoce.deployment.store.schema import PAGE_BYTES, check_version, create_tables, migrate

Reached = Callable[[str], None]
_OLDEST_SQLITE = (3, 37)
_PATIENCE_S = 10.0  # for a reader that keeps a checkpoint waiting
_CACHE_KB = 65536  # a transaction that outgrows it is written twice
# The -wal file is written back once it is longer than this, and than so many transactions: writing back costs as much as they do.
_CHECKPOINT_PAGES = 256
_CHECKPOINT_TRANSACTIONS = 6

_CAUSES = {
    "SQLITE_FULL": "the disk is full. Free some space and start the same command again",
    "SQLITE_NOTADB": "it is no database, or its beginning is damaged. Put back a whole copy",
    "SQLITE_CORRUPT": "it is damaged. Put back a whole copy, the newest there is",
    "SQLITE_READONLY": "it may not be written. Make the file and its folder writable for its owner",
    "SQLITE_CANTOPEN": "it cannot be opened. Check that it and its folder are there, and may be read and written by you",
    "SQLITE_BUSY": "another process keeps it busy. Wait until that one ends",
    "SQLITE_IOERR": "the disk reported an error, or is full. Check the disk and start the same command again",
}


def nothing(point: str) -> None:
    """What happens at a named point of a commit, unless a test asks for more."""


@contextlib.contextmanager
def told_in_words(path: Path) -> Iterator[None]:
    """Turn what SQLite says into what was done, why it failed and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", None) or ""
        cause = next((words for code, words in _CAUSES.items() if name.startswith(code)), f"{error}. Look at the file")
        raise StoreError(
            f"{path}: {cause}. Nothing of the last step was kept ({name or type(error).__name__})."
        ) from error


class Database:
    """The open file; `transaction` is the only way to write."""

    def __init__(self, path: Path, *, writer: bool, reached: Reached = nothing) -> None:
        """Open a store, and check that it is whole.

        Raises:
            StoreError: missing, damaged, readable by others, of a newer version, or in use by another writer.
        """
        if not _is_there(path):
            raise StoreError(
                f"{path} is not there, or is no file. Make the ledger of a data set with `sottovoce ledger create`, or give the right file."
            )
        check_private(path)
        self.path, self.writer, self._reached = path, writer, reached
        self._mutex, self._usable, self._pages = threading.RLock(), True, _CHECKPOINT_PAGES
        self._lock = WriterLock(path) if writer else None
        try:
            with told_in_words(path):
                known, has_wal = counted(path), beside(path, "-wal").exists()
                self.connection = _connected(path, writer=writer)
                self._check(known, has_wal=has_wal)
        except BaseException:
            self._let_go()
            raise

    def _check(self, known: int | None, *, has_wal: bool) -> None:
        version = check_version(self.connection, self.path)
        found = self.connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise StoreError(f"{self.path} is damaged ({found}). Put back a whole copy, the newest there is.")
        transactions, opened = self.connection.execute("SELECT transactions, opened FROM store").fetchone()
        if known is not None and transactions < known:
            raise RestoredBackup(
                f"{self.path} knows {transactions} transactions, and {self.path.name}.lock beside it counted {known}: an older copy was put back, or "
                f"{self.path.name}-wal, which holds what was committed last, is lost or damaged. Put the newest files back; without them this store "
                f"has forgotten what was sent, and cannot go on."
            )
        if known is None and opened and not has_wal:
            raise RestoredBackup(
                f"{self.path} was in use when it was copied, and the file {self.path.name}-wal, which holds what was committed last, did not come "
                f"with it. Put that file beside it; without it this store has forgotten messages that were sent, and cannot go on."
            )
        if self.writer:
            migrate(self.connection, version)
            self._seen_version = self._data_version()
            self._mark(opened=True)

    @contextlib.contextmanager
    def transaction(self, name: str) -> Iterator[sqlite3.Connection]:
        """All that is done inside is kept, durably, or nothing of it.

        Args:
            name: of what is done: a test may ask to be told at "NAME: begun", "NAME: written" and "NAME: committed".

        Raises:
            StoreError: it could not be kept; the store has to be opened again.
        """
        with self._mutex:
            self._check_usable()
            with told_in_words(self.path):
                self.connection.execute("BEGIN IMMEDIATE")
                try:
                    self._check_alone()
                    self._reached(f"{name}: begun")
                    yield self.connection
                    self.connection.execute("UPDATE store SET transactions = transactions + 1")
                    (transactions,) = self.connection.execute("SELECT transactions FROM store").fetchone()
                    self._reached(f"{name}: written")
                    self.connection.execute("COMMIT")
                except sqlite3.Error:
                    self._usable = False
                    self._roll_back()
                    raise
                except BaseException:
                    self._roll_back()
                    raise
            self._reached(f"{name}: committed")
            if self._lock is not None:
                self._lock.count(transactions)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent view of everything, whoever writes meanwhile."""
        with self._mutex, told_in_words(self.path):
            self._check_usable(to_write=False)
            if self.connection.in_transaction:  # inside one of our own
                yield self.connection
                return
            self.connection.execute("BEGIN")
            try:
                yield self.connection
            finally:
                self._roll_back()

    def expect(self, length: int) -> None:
        """Say how many bytes transactions have, so that large ones are not written back after each."""
        pages = max(_CHECKPOINT_PAGES, _CHECKPOINT_TRANSACTIONS * (length // PAGE_BYTES + 1))
        if pages != self._pages:
            self.connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
            self._pages = pages

    def erase(self) -> None:
        """Take what was deleted out of the files: everything is written back, and the -wal file is emptied.

        Raises:
            StoreError: a reader holds on to an old view; the next time the store is opened, this is done first.
        """
        with self._mutex, told_in_words(self.path):
            busy, _, _ = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreError(
                f"another process is reading {self.path}, so that what was deleted is still in {self.path.name}-wal. Close that process and open the "
                f"store once more: it is erased then."
            )

    def close(self) -> None:
        """Write everything back and give the lock back. What fails here is lost nowhere: the next opening finds it in the -wal file."""
        if self._usable and self.writer:
            with contextlib.suppress(StoreError, sqlite3.Error):
                self._mark(opened=False)
        self._let_go()

    def _mark(self, *, opened: bool) -> None:
        """Say in the file itself, and not only in its -wal, whether a process writes."""
        with self.transaction("open" if opened else "close") as connection:
            connection.execute("UPDATE store SET opened = ?", (int(opened),))
        self.erase()

    @property
    def usable(self) -> bool:
        """Whether it is open, and nothing has failed since."""
        return self._usable

    def _check_usable(self, *, to_write: bool = True) -> None:
        if not self._usable:
            raise StoreError(f"{self.path} failed or was closed. Open it again: what was committed before is there.")
        if to_write and not self.writer:
            raise StoreError(f"{self.path} was opened to be read. Open it with writer=True.")

    def _check_alone(self) -> None:
        if self._data_version() != self._seen_version:
            raise AnotherWriter(
                f"another process has written {self.path} since it was opened here, although this one holds its lock. Find and stop it; keep stores "
                f"on a local disk, since network file systems may ignore locks."
            )

    def _data_version(self) -> int:
        return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def _roll_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def _let_go(self) -> None:
        self._usable = False
        if hasattr(self, "connection"):
            with contextlib.suppress(sqlite3.Error):
                self.connection.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def make_database(path: Path, first_entry: Callable[[sqlite3.Connection, bytes], None]) -> None:
    """Make a store under its name, whole from the start: it is written beside, flushed, and then gets its name.

    Args:
        path: where; nothing may be there.
        first_entry: writes the beginning of the ledger, given the connection and the store's random name.

    Raises:
        StoreError: something is there, or the folder is not private.
    """
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreError(
            f"Python has SQLite {sqlite3.sqlite_version}; a store needs {'.'.join(map(str, _OLDEST_SQLITE))} or newer. Install a newer Python."
        )
    if not path.name or not path.parent.is_dir():
        raise StoreError(
            f"the folder {path.parent} is not there. Make it first, for its owner alone: mkdir -m 700 {path.parent}"
        )
    check_private(path)
    if any(each.exists() for each in (path, beside(path, "-wal"), beside(path, ".lock"))):
        raise StoreError(
            f"{path} is there already, or files that belong to it are. Choose another name; a ledger is never begun anew."
        )
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with told_in_words(path):
            _fill(part, first_entry)
        os.link(part, path)  # unlike a renaming this fails where the name is taken
    except FileExistsError:
        raise StoreError(f"{path} is there already. Choose another name; a ledger is never begun anew.") from None
    except OSError as error:
        raise StoreError(
            f"{path} cannot be made ({error.strerror or error}). Choose another place, on a local disk of yours."
        ) from error
    finally:
        for ending in ("", "-wal", "-shm"):
            beside(part, ending).unlink(missing_ok=True)
    flush_folder(path.parent)


def _is_there(path: Path) -> bool:
    try:
        return bool(path.name) and path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _fill(path: Path, first_entry: Callable[[sqlite3.Connection, bytes], None]) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        create_tables(connection)
        name = secrets.token_bytes(STORE_ID_BYTES)
        connection.execute("INSERT INTO store VALUES (1, ?, ?, 0, 0, 0, 0, 0)", (name, secrets.token_bytes(32)))
        first_entry(connection, name)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def _connected(path: Path, *, writer: bool) -> sqlite3.Connection:
    mode = "rw" if writer else "ro"
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=_PATIENCE_S,
        check_same_thread=False,
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
    if writer:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # on macOS fsync alone leaves bytes in the disk's own memory
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    return connection
