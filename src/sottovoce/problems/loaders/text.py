"""Text of data files: read whole, numbers taken strictly, foreign text quoted briefly."""

from __future__ import annotations

from pathlib import Path

from sottovoce.errors import ConfigError


def read_text(path: Path) -> str:
    """Return a UTF-8 file's text, line ends untouched.

    Raises:
        ConfigError: no such file, not readable, or not text.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path}: there is no such file; paths are relative to the folder the program was started in."
        ) from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give the path of a readable file.") from error
    except UnicodeDecodeError as error:
        row = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}, row {row}: not UTF-8 text; save the file as UTF-8.") from error


def to_float(text: str) -> float | None:
    """Return the number that plain ASCII text writes; None when it writes none (nor `1_000`, which Python accepts)."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def quoted(text: str) -> str:
    """Return text from a file for a one-line message: escaped, and cut when long."""
    return ascii(text if len(text) <= 40 else text[:37] + "...")
