"""Folders of results: refused before the work if they cannot be made, and gone again if nothing comes of the work."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from sottovoce.errors import ConfigError


def check_folder(folder: Path) -> None:
    """Refuse what cannot be a folder of results, before any work is done for it.

    Raises:
        ConfigError: a file has this name, or nothing can.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(
                f"{folder} cannot be a folder of results (something else has this name); choose another with --out."
            )
    except OSError as error:
        raise _no_folder(folder, error) from error


def make_folder(folder: Path, *, private: bool = False) -> list[Path]:
    """Make a folder and those above it, or say why it cannot be; returns those that are new, the deepest first.

    A new one that is private can be read by its owner alone.
    """
    check_folder(folder)
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        _remove_empty(new)
        raise _no_folder(folder, error) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _no_folder(folder, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    return new


@contextlib.contextmanager
def results_folder(folder: Path, *, private: bool = False) -> Iterator[None]:
    """Make a folder for results before the work, so that a bad name is refused at once; remove it if nothing comes of the work.

    Raises:
        ConfigError: the folder cannot be made, or not be written.
    """
    new = make_folder(folder, private=private)
    try:
        yield
    except OSError as error:
        _remove_empty(new)
        if error.filename is not None and Path(os.fsdecode(error.filename)).is_relative_to(folder):
            raise _no_folder(folder, error) from error
        raise
    except BaseException:
        _remove_empty(new)
        raise


def _no_folder(folder: Path, error: OSError | ValueError) -> ConfigError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    name = str(folder) if len(str(folder)) <= 80 else f"{str(folder)[:77]}..."
    return ConfigError(f"{name} cannot be a folder of results ({reason}); choose another with --out.")


def _remove_empty(folders: list[Path]) -> None:
    for each in folders:
        with contextlib.suppress(OSError):  # not empty, or never made
            each.rmdir()
