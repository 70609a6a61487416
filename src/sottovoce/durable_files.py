"""Files that are whole or absent: written beside, flushed to the disk, then renamed.

A private file is readable by its owner alone from its first byte on, whatever the process would give to others.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PRIVATE = 0o600
PUBLIC = 0o666  # what the process masks out is left to it


def write_json(path: Path, value: Mapping[str, Any], *, private: bool = False) -> None:
    """Write plain values; infinite numbers and those that are none are refused by JSON itself."""
    write(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode(), private=private)


def write(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write beside, flush to the disk, then rename: the final name never shows a half-written file."""
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        part.unlink(missing_ok=True)  # a leftover would keep the permissions that it has
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE if private else PUBLIC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    _flush(path.parent)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
