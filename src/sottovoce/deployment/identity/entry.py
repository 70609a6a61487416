"""One party as others know it: a line of the roster, signed by the party itself.

    signed bytes = version | name | role | identity key | address | certificate        each with its length, 4 bytes, in front

All fields are signed, so an entry is taken as a whole or not at all. That the identity key is really the named party's is for people to compare
(`fingerprint`); everything else follows from the signature.
"""

import base64
import binascii
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.deployment.identity.certificates import check_certificate, check_valid, server_name, valid_until
from sottovoce.deployment.identity.fingerprint import fingerprint
from sottovoce.deployment.identity.names import check_name, check_role, split_address
from sottovoce.deployment.identity.refusals import Forged
from sottovoce.deployment.identity.signatures import KEY_BYTES, SIGNATURE_BYTES, sign, verify
from sottovoce.errors import ConfigError

_PURPOSE = "roster-entry"
_FIELDS = ("name", "role", "identity_key", "address", "certificate", "signature")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A party of the roster.

    Attributes:
        name: what it is called in runs.
        role: "agent", "relay", "board" or "beacon".
        identity_key: public Ed25519 key, 32 bytes.
        address: host:port where it takes messages.
        certificate: of its TLS key, DER.
        signature: by the identity key over all the others.
    """

    name: str
    role: str
    identity_key: bytes
    address: str
    certificate: bytes
    signature: bytes

    def __repr__(self) -> str:
        return f"Entry({self.name}, {self.role}, {self.address}, key {self.fingerprint})"

    @property
    def fingerprint(self) -> str:
        """The number to compare by voice; it stays the same as long as the identity key does."""
        return fingerprint("key", self.identity_key)

    @property
    def server_name(self) -> str:
        """The name for which the certificate is made out."""
        return server_name(self.identity_key)

    @property
    def valid_until(self) -> dt.datetime:
        """When the certificate ends."""
        return valid_until(self.certificate)

    def check(self) -> None:
        """Refuse an entry that is not whole, or not signed by its owner; its certificate may have expired.

        Raises:
            ConfigError: a field is wrong.
            Forged: the signature does not fit.
        """
        check_name(self.name)
        check_role(self.role)
        split_address(self.address)
        try:
            verify(self.identity_key, _PURPOSE, self._signed_bytes(), self.signature)
        except Forged as error:
            raise Forged(
                f"The entry of {self.name} is not signed by the key in it: something in it was changed. Ask {self.name} for its entry again."
            ) from error
        check_certificate(self.certificate, owner=self.name, identity_key=self.identity_key)

    def check_valid(self, now: dt.datetime | None = None) -> None:
        """Refuse an entry whose certificate is not valid now, or at another time.

        Raises:
            ConfigError: with the date.
        """
        check_valid(self.certificate, owner=self.name, now=now)

    def as_json(self) -> dict[str, str]:
        """Plain texts, as files hold them."""
        return {
            "name": self.name,
            "role": self.role,
            "identity_key": self.identity_key.hex(),
            "address": self.address,
            "certificate": base64.b64encode(self.certificate).decode("ascii"),
            "signature": self.signature.hex(),
        }

    def _signed_bytes(self) -> bytes:
        return signed_bytes(self.name, self.role, self.identity_key, self.address, self.certificate)


def signed_entry(key: Ed25519PrivateKey, *, name: str, role: str, address: str, certificate: bytes) -> Entry:
    """The entry of the party that holds the key."""
    public = key.public_key().public_bytes_raw()
    signature = sign(key, _PURPOSE, signed_bytes(name, role, public, address, certificate))
    entry = Entry(
        name=name, role=role, identity_key=public, address=address, certificate=certificate, signature=signature
    )
    entry.check()
    return entry


def entry_from_json(value: Any, where: str) -> Entry:
    """Read an entry without checking its signature.

    Raises:
        ConfigError: fields are missing, unknown or of another form.
    """
    if (
        not isinstance(value, Mapping)
        or sorted(value) != sorted(_FIELDS)
        or not all(isinstance(each, str) for each in value.values())
    ):
        raise ConfigError(
            f"{where} is no roster entry: it needs the texts {', '.join(_FIELDS)} and nothing else. `sottovoce keys show` prints one."
        )
    try:
        key, signature = bytes.fromhex(value["identity_key"]), bytes.fromhex(value["signature"])
        certificate = base64.b64decode(value["certificate"], validate=True)
    except (ValueError, binascii.Error) as error:
        raise ConfigError(
            f"{where}: keys and signatures are hexadecimal, certificates base64; these are not ({error}). Ask for the entry again."
        ) from error
    if len(key) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        raise ConfigError(
            f"{where}: an identity key has {KEY_BYTES} bytes and a signature {SIGNATURE_BYTES}; these have {len(key)} and {len(signature)}. "
            "Ask for the entry again."
        )
    return Entry(
        name=value["name"], role=value["role"], identity_key=key, address=value["address"], certificate=certificate, signature=signature
    )  # fmt: skip


def signed_bytes(name: str, role: str, identity_key: bytes, address: str, certificate: bytes) -> bytes:
    """What the owner of an entry signs; no two entries have the same bytes."""
    fields = (b"\x01", name.encode(), role.encode(), identity_key, address.encode(), certificate)
    return b"".join(len(field).to_bytes(4, "big") + field for field in fields)
