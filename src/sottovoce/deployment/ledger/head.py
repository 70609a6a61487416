"""The head of a ledger, signed by its owner, to be kept where the ledger is not: with a colleague, an auditor, or on paper.

Whoever may write a ledger's file can compute all its hashes anew, and a file put back from a copy looks sound. A head kept elsewhere tells: it has
the number of entries and the last one's hash, which covers all of them. A ledger agrees with a head if its entry of that number has that hash.
"""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from sottovoce.deployment.ledger.ledger import Ledger, now
from sottovoce.deployment.store import signed_by
from sottovoce.errors import ConfigError, ProtocolError

FORMAT = "sottovoce ledger head 1"
_PURPOSE = "ledger-head"
_LARGEST = 65536  # bytes of a file


class Signer(Protocol):
    """Who signs a head: an `Identity`."""

    @property
    def public_key(self) -> bytes:
        """32 bytes."""

    def sign(self, purpose: str, message: bytes) -> bytes:
        """A signature that is good for one purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a ledger came to at some time.

    Attributes:
        name: of the data set.
        store: the store's random name, in hex.
        entries: how many there were.
        hash: of the last one, in hex.
        runs: reserved and not given back.
        epsilon: reserved, at `delta`; None: infinite.
        delta: of the ledger.
        at: the time, UTC.
        key: the Ed25519 key of whoever signed, in hex.
        signature: of all the rest, in hex.
    """

    name: str
    store: str
    entries: int
    hash: str
    runs: int
    epsilon: float | None
    delta: float
    at: str
    key: str
    signature: str

    def to_bytes(self) -> bytes:
        """The file that is deposited."""
        return (
            json.dumps({"format": FORMAT, **asdict(self)}, indent=2, sort_keys=True, allow_nan=False) + "\n"
        ).encode()

    @staticmethod
    def parse(content: bytes) -> "Head":
        """Read a head, if its signature is that of the key in it.

        Raises:
            ConfigError: it is no head.
            ProtocolError: it was changed after it was signed.
        """
        try:
            values: dict[str, Any] = json.loads(content[:_LARGEST])
            if values.pop("format") != FORMAT:
                raise ValueError("another format")
            head = Head(**values)
            signed = signed_by(bytes.fromhex(head.key), _PURPOSE, _message(values), bytes.fromhex(head.signature))
            sound = isinstance(head.entries, int) and head.entries >= 1 and isinstance(head.hash, str)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ConfigError(
                f"this is no head of a ledger ({error}). Give the file that `sottovoce ledger export` wrote."
            ) from error
        if not signed or not sound:
            raise ProtocolError(
                "the head of a ledger was changed after it was signed. Take it from where it was deposited."
            )
        return head


def export_head(ledger: Ledger, signer: Signer) -> Head:
    """The head of a ledger as it is now, signed."""
    entries, totals = ledger.store.entries(), ledger.totals()
    values: dict[str, Any] = {
        "name": ledger.created.name,
        "store": ledger.store.counters().store.hex(),
        "entries": len(entries),
        "hash": entries[-1].hash.hex(),
        "runs": totals.runs,
        "epsilon": totals.reserved if totals.reserved < math.inf else None,
        "delta": totals.delta,
        "at": now(),
        "key": signer.public_key.hex(),
    }
    return Head(**values, signature=signer.sign(_PURPOSE, _message(values)).hex())


def disagreement(ledger: Ledger, head: Head) -> str:
    """Why a ledger cannot be what it was when the head was taken, in a sentence; empty where it is, or has grown since.

    Raises:
        ConfigError: a head of another ledger.
    """
    if ledger.store.counters().store.hex() != head.store:
        raise ConfigError(
            f"the head is that of the ledger {head.name!r} with number {head.store[:16]}..., and this one is {ledger.created.name!r} with number "
            f"{ledger.store.counters().store.hex()[:16]}.... Compare a ledger with its own heads; a copy keeps its number."
        )
    entries = ledger.store.entries()
    if len(entries) < head.entries:
        return f"the ledger has {len(entries)} entries, and had {head.entries} when the head was taken: an older copy was put back."
    if entries[head.entries - 1].hash.hex() != head.hash:
        return f"entry {head.entries - 1} is another one than when the head was taken: the ledger was written anew."
    return ""


def read_head(path: str | Path) -> Head:
    """Read a head from its file.

    Raises:
        ConfigError: it cannot be read, or is no head.
        ProtocolError: it was changed after it was signed.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror or error}). Give the file that `sottovoce ledger export` wrote."
        ) from error
    return Head.parse(content)


def _message(values: dict[str, Any]) -> bytes:
    signed = {name: value for name, value in values.items() if name != "signature"}
    return json.dumps({"format": FORMAT, **signed}, sort_keys=True, allow_nan=False).encode()
