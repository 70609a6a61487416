"""Is a run continued on the very records that it began with? A digest keyed by a secret tells, and tells nobody else.

A plain digest of the records would let anybody who sees it confirm a guess of the whole data set. So every run folder has a random key of its
own (`resume.key`, readable by its owner alone), and run.json holds the digest under this key: without the key it is a random number. Whoever
passes on a folder leaves the key out.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.durable_files import write
from sottovoce.errors import ConfigError

KEY_FILE = "resume.key"
KEY_BYTES = 32
Parts = Mapping[str, np.ndarray]


def keyed_digest(records: Parts, folder: Path) -> str:
    """The digest of the records under the folder's key, which is made if the folder has none."""
    if not (folder / KEY_FILE).exists():
        write(folder / KEY_FILE, (secrets.token_hex(KEY_BYTES) + "\n").encode(), private=True)
    return _digest(records, _key(folder))


def check_same_records(header: Mapping[str, Any], records: Parts, folder: Path) -> None:
    """Refuse other records than those that the folder's run began with.

    Raises:
        ConfigError: the records differ, or the key that would tell is missing or damaged.
    """
    before = header["description"].get("data_digest")
    if before is not None:  # a folder of version 0.1.0, whose digest has no key
        same = before == plain_digest(records.values())
    elif header.get("records") is None:
        same = not records
    else:
        same = hmac.compare_digest(str(header["records"]), _digest(records, _key(folder)))
    if not same:
        raise ConfigError(
            f"{folder} holds a run on other records: the data file has changed. Choose another folder with --out."
        )


def plain_digest(arrays: Iterable[np.ndarray]) -> str:
    """The digest without a key that folders of version 0.1.0 hold; computed to recognise them, never written."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _digest(records: Parts, key: bytes) -> str:
    digest = hashlib.blake2b(key=key, digest_size=32)
    for name, array in records.items():
        held = np.ascontiguousarray(array)
        digest.update(f"{name} {held.dtype.str} {held.shape}\n".encode())
        digest.update(held.tobytes())
    return digest.hexdigest()


def _key(folder: Path) -> bytes:
    path = folder / KEY_FILE
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        raise ConfigError(
            f"{folder} has no {KEY_FILE}, the secret by which a run knows its records again, so it cannot be seen whether the data are the "
            f"same. Put the file back, read a finished run with sv.load, or choose another folder with --out."
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}); it holds the secret by which a run knows its records again. Put it back, or choose another folder "
            f"with --out."
        ) from error
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"{path} holds {len(key)} bytes instead of {KEY_BYTES}; it is damaged. Put it back, or choose another folder with --out."
        )
    return key
