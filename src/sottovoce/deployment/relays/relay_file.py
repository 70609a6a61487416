"""relay.json: where a relay is, and its certificate. The operator gives it to all members, who compare its number by voice.

    {"format": "sottovoce relay", "version": 1, "address": "host:port", "certificate": base64, "max_payload": bytes}

Whoever has another certificate than this one, byte for byte, is not the relay. The file is not secret.
"""

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce import durable_files
from sottovoce.deployment.identity import fingerprint, read_json, split_address, valid_until
from sottovoce.errors import ConfigError

FORMAT, VERSION = "sottovoce relay", 1
_FIELDS = ("address", "certificate", "format", "max_payload", "version")
LEAST_PAYLOAD, MOST_PAYLOAD = 4096, 8 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """A relay as members know it.

    Attributes:
        address: host:port.
        certificate: of its TLS key, DER.
        max_payload: the most bytes of one message.
    """

    address: str
    certificate: bytes
    max_payload: int

    def __repr__(self) -> str:
        return f"Relay({self.address}, certificate {self.fingerprint})"

    @property
    def fingerprint(self) -> str:
        """The number to compare by voice."""
        return fingerprint("relay", self.certificate)

    @property
    def in_words(self) -> str:
        """What a member compares with whoever runs the relay."""
        return f"the relay {self.address}, number {self.fingerprint}"

    def as_json(self) -> dict[str, Any]:
        """What the file holds."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "address": self.address,
            "certificate": base64.b64encode(self.certificate).decode("ascii"),
            "max_payload": self.max_payload,
        }

    def save(self, path: Path) -> None:
        """Write the file: whole, or not at all."""
        durable_files.write_json(path, self.as_json())


def load_relay(path: Path) -> Relay:
    """Read the file of a relay.

    Raises:
        ConfigError: it cannot be read, or is something else.
    """
    value = read_json(path, FORMAT)
    try:
        if sorted(value) != sorted(_FIELDS):
            raise ValueError(f"it needs {', '.join(_FIELDS)} and nothing else")
        certificate = base64.b64decode(value["certificate"], validate=True)
        valid_until(certificate)
        payload = value["max_payload"]
        if type(payload) is not int or not LEAST_PAYLOAD <= payload <= MOST_PAYLOAD:
            raise ValueError(f"max_payload is a whole number from {LEAST_PAYLOAD} to {MOST_PAYLOAD}")
    except (ValueError, TypeError, binascii.Error) as error:
        raise ConfigError(
            f"{path} is no file of a relay that can be used ({error}). Ask the relay's operator for relay.json again."
        ) from error
    split_address(value["address"])
    return Relay(address=value["address"], certificate=certificate, max_payload=payload)
