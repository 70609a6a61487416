"""Text of data files: read whole, numbers taken strictly, foreign text quoted briefly."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sottovoce.errors import ConfigError


def check_plain_file(path: Path) -> None:
    """Refuse what is no plain file: reading a pipe or a device may never end.

    Raises:
        ConfigError: no such file, or something else than a file.
    """
    name = str(path) if len(str(path)) <= 200 else f"{str(path)[:197]}..."
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError as error:
        raise ConfigError(
            f"{name}: there is no such file; paths are relative to the folder the program was started in."
        ) from error
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read ({error.strerror}); give the path of a readable file.") from error
    except ValueError as error:
        raise ConfigError(f"{quoted(name)}: no file can have this name ({error}); give another.") from error
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise ConfigError(
            f"{name}: this is {kinds.get(stat.S_IFMT(mode), 'a device')}; a plain file is needed, so give the path of one."
        )


def read_text(path: Path) -> str:
    """Return a UTF-8 file's text, line ends untouched.

    Raises:
        ConfigError: no such file, no plain file, not readable, or not text.
    """
    check_plain_file(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give the path of a readable file.") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = content[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}, row {row}: not UTF-8 text; save the file as UTF-8.") from error


def to_float(text: str) -> float | None:
    """Return the number that plain ASCII text writes; None when it writes none (nor `1_000`, which Python accepts)."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def quoted(text: str, longest: int = 40) -> str:
    """Return text from a file for a one-line message: cut when long, accents as they are, what a terminal would obey escaped."""
    cut = text if len(text) <= longest else text[: longest - 3] + "..."
    return repr(cut) if cut.isprintable() else ascii(cut)


def brief(text: str, longest: int = 40) -> str:
    """Return text from a file as `quoted` does, without the quotation marks."""
    return quoted(text, longest)[1:-1]
