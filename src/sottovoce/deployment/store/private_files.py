"""Files that nobody but their owner can read or exchange: checked before the first byte is read, and made so from the first byte on."""

import os
import stat
from pathlib import Path

from sottovoce.deployment.store.refusals import AnotherWriter, StoreError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

BESIDE = ("-wal", "-shm", ".lock")  # SQLite makes the first two with the mode of the file itself
_TALLY_BYTES = 8


def beside(path: Path, ending: str) -> Path:
    """The file that lies beside a store under its name with an ending."""
    return path.with_name(path.name + ending)


def check_private(path: Path) -> None:
    """Refuse a store that others could read, or put another file in the place of.

    Raises:
        StoreError: naming the file or folder, and the command that mends it.
    """
    folder = path.parent.stat()
    if folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StoreError(
            f"the folder {path.parent} of the store can be written by others (mode {stat.S_IMODE(folder.st_mode):o}), who could exchange its files. "
            f"Use a folder of its own, or run: chmod go-w {path.parent}"
        )
    for each in (path, *(beside(path, ending) for ending in BESIDE)):
        try:
            found = each.lstat()
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:  # a name that no file can have
            raise StoreError(f"{path} cannot be used ({error}). Choose another name or place.") from error
        if not stat.S_ISREG(found.st_mode):
            raise StoreError(f"{each} is no ordinary file. Give the store itself, not a link to it.")
        if found.st_mode & 0o077:
            raise StoreError(
                f"{each} can be read or written by others (mode {stat.S_IMODE(found.st_mode):o}); it holds keys and models without noise. "
                f"Run: chmod 600 {each}"
            )


def counted(path: Path) -> int | None:
    """Transactions of a store that were committed, as far as the lock's file knows; None where that file is not there or empty.

    Read it before the store itself: a process that writes may go on meanwhile.
    """
    try:
        content = beside(path, ".lock").read_bytes()
    except FileNotFoundError:
        return None
    return int.from_bytes(content[:_TALLY_BYTES], "little") if len(content) >= _TALLY_BYTES else None


class WriterLock:
    """The right to write, held by one process at a time, and given back by the system when that process ends, however it does.

    The lock's own file keeps how many transactions were committed. It is written after each commit and never flushed, so that it can lag behind
    the store and never runs ahead of it: a store that knows fewer was put back from a copy, or lost the end of its -wal file.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            AnotherWriter: another process has it.
            StoreError: a system without such locks.
        """
        if fcntl is None:  # pragma: no cover - Windows
            raise StoreError(
                "this system has no file locks (fcntl), without which two processes could write one store. Use Linux or macOS."
            )
        self.path = beside(path, ".lock")
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise AnotherWriter(
                f"another process is writing {path}: one run at a time learns from a data set. Wait until it ends, or stop it; `sottovoce ledger "
                f"{path}` can be read meanwhile."
            ) from error

    def count(self, transactions: int) -> None:
        """Keep a new number; a full disk, on which this file cannot begin, only makes it lag behind."""
        try:
            os.pwrite(self._descriptor, transactions.to_bytes(_TALLY_BYTES, "little"), 0)
        except OSError:
            return

    def release(self) -> None:
        """Give the lock back; the file stays."""
        os.close(self._descriptor)


def flush_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
