"""Who this party is: an Ed25519 identity key, and a P-256 key with a self-signed certificate for TLS.

    folder/NAME.key.json      secrets; mode 0600 in a folder of mode 0700, and refused when others can read them
    folder/NAME.entry.json    the signed roster entry, for the others

There is no passphrase: a party has to come back by itself after a crash or a loss of power, so a passphrase would lie beside the key. Keep the
folder on an encrypted disk. Files carry the version of their format, and later releases read them all.
"""

import base64
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_der_x509_certificate

from sottovoce import durable_files
from sottovoce.deployment.identity.certificates import new_certificate, pem
from sottovoce.deployment.identity.entry import Entry, signed_entry
from sottovoce.deployment.identity.names import check_name, check_role, split_address
from sottovoce.deployment.identity.roster import entry_file, read_json
from sottovoce.deployment.identity.signatures import KEY_BYTES, sign
from sottovoce.errors import ConfigError

FORMAT, VERSION = "sottovoce key", 1
DAYS = 1826  # five years, unless told otherwise
_FIELDS = ("format", "version", "name", "role", "address", "identity_secret", "tls_secret", "certificate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The keys of one party. Only public parts are shown when it is printed.

    Attributes:
        name: what the party is called.
        role: "agent", "relay", "board" or "beacon".
        address: host:port where it takes messages.
        signing_key: Ed25519.
        tls_secret: P-256 private key, PEM.
        certificate: of the TLS key, DER.
    """

    name: str
    role: str
    address: str
    signing_key: Ed25519PrivateKey = field(repr=False)
    tls_secret: bytes = field(repr=False)
    certificate: bytes = field(repr=False)

    def __repr__(self) -> str:
        return f"Identity({self.name}, {self.role}, {self.address}, key {self.entry().fingerprint})"

    @property
    def public_key(self) -> bytes:
        """The 32 bytes by which a roster lists the party."""
        return self.signing_key.public_key().public_bytes_raw()

    @property
    def certificate_pem(self) -> bytes:
        """The certificate as gRPC reads it."""
        return pem(self.certificate)

    def sign(self, purpose: str, message: bytes) -> bytes:
        """A signature that is good for one purpose; `verify` checks it."""
        return sign(self.signing_key, purpose, message)

    def entry(self) -> Entry:
        """The signed entry for the roster."""
        return signed_entry(
            self.signing_key, name=self.name, role=self.role, address=self.address, certificate=self.certificate
        )


def new_identity(name: str, folder: Path, address: str, *, role: str = "agent", days: int = DAYS) -> Identity:
    """Make keys and write them to a folder; files that exist stay as they are, and make it refuse.

    Args:
        name: what the party is called, in every run.
        folder: where its two files go; it is made if there is none.
        address: host:port under which the others reach the party.
        role: "agent", "relay", "board" or "beacon".
        days: how long the certificate is valid.

    Raises:
        ConfigError: the name, role or address cannot be used, or there is such a key already.
    """
    check_name(name), check_role(role), split_address(address)
    _make_private(folder)
    path = key_path(folder, name)
    if path.exists():
        raise ConfigError(
            f"{path} exists; a second key in its place would make the first one lost. Choose another name or folder, or remove the file if no run "
            "needs it."
        )
    signing_key = Ed25519PrivateKey.generate()
    tls_secret, certificate = new_certificate(signing_key.public_key().public_bytes_raw(), days=_checked_days(days))
    identity = Identity(
        name=name, role=role, address=address, signing_key=signing_key, tls_secret=tls_secret, certificate=certificate
    )
    _save(identity, folder)
    return identity


def renew_identity(name: str, folder: Path, *, address: str | None = None, days: int = DAYS) -> Identity:
    """A fresh TLS key and certificate, perhaps at another address, for the same identity.

    Args:
        name: whose.
        folder: where its key is.
        address: host:port from now on; left out: as before.
        days: how long the new certificate is valid.

    Raises:
        ConfigError: there is no such key, or the address cannot be used.
    """
    old = load_identity(name, folder)
    tls_secret, certificate = new_certificate(old.public_key, days=_checked_days(days))
    split_address(address or old.address)
    identity = replace(old, address=address or old.address, tls_secret=tls_secret, certificate=certificate)
    _save(identity, folder)
    return identity


def load_identity(name: str, folder: Path) -> Identity:
    """Read the keys of a party.

    Raises:
        ConfigError: there are none, others than their owner can read them, or the file is damaged.
    """
    path = key_path(folder, check_name(name))
    if not path.exists():
        raise ConfigError(
            f"There is no key {path}. Make one: sottovoce keys new {name} --address host:port --folder {folder}"
        )
    _refuse_readable(path)
    value = read_json(path, FORMAT)
    if sorted(value) != sorted(_FIELDS) or value["name"] != name:
        raise ConfigError(
            f"{path} is damaged: it needs exactly {', '.join(_FIELDS)}, and the name {name}. Put back the file as it was written."
        )
    return _identity_of(value, path)


def write_entry(identity: Identity, folder: Path) -> None:
    """Write the entry of a party for the others; it follows from its keys, so it can be written again at any time."""
    durable_files.write_json(entry_path(folder, identity.name), entry_file(identity.entry()), private=True)


def key_path(folder: Path, name: str) -> Path:
    """Where the secrets of a party are."""
    return folder / f"{name}.key.json"


def entry_path(folder: Path, name: str) -> Path:
    """Where the entry of a party is, for the others."""
    return folder / f"{name}.entry.json"


def _identity_of(value: Mapping[str, str], path: Path) -> Identity:
    try:
        secret = bytes.fromhex(value["identity_secret"])
        tls_secret = value["tls_secret"].encode("ascii")
        certificate = base64.b64decode(value["certificate"], validate=True)
        tls_key = load_pem_private_key(tls_secret, password=None)
        fits = (
            len(secret) == KEY_BYTES
            and isinstance(tls_key, ec.EllipticCurvePrivateKey)
            and tls_key.public_key() == load_der_x509_certificate(certificate).public_key()
        )
    except (ValueError, TypeError, AttributeError):
        fits, secret, tls_secret, certificate = False, b"", b"", b""
    if not fits:
        # What the file holds is not repeated: it may be most of a secret.
        raise ConfigError(
            f"{path} is damaged: its keys cannot be read, or do not belong to each other. Put back the file as it was written."
        )
    return Identity(
        name=value["name"],
        role=check_role(value["role"]),
        address=value["address"],
        signing_key=Ed25519PrivateKey.from_private_bytes(secret),
        tls_secret=tls_secret,
        certificate=certificate,
    )


def _save(identity: Identity, folder: Path) -> None:
    value = {
        "format": FORMAT,
        "version": VERSION,
        "name": identity.name,
        "role": identity.role,
        "address": identity.address,
        "identity_secret": identity.signing_key.private_bytes_raw().hex(),
        "tls_secret": identity.tls_secret.decode("ascii"),
        "certificate": base64.b64encode(identity.certificate).decode("ascii"),
    }
    durable_files.write_json(key_path(folder, identity.name), value, private=True)
    write_entry(identity, folder)


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"The folder {folder} cannot be made ({error.strerror}). Name one that this user may write to."
        ) from error
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        raise ConfigError(
            f"Others may look into the folder {folder}, where secret keys would go. Name an empty one, or run: chmod 700 {folder}"
        )


def _refuse_readable(path: Path) -> None:
    for each, mode in ((path, "600"), (path.parent, "700")):
        if stat.S_IMODE(os.stat(each).st_mode) & 0o077:
            raise ConfigError(
                f"Others than its owner may read {each}, which keeps secret keys. If nobody did, run: chmod {mode} {each}. If somebody may have, make "
                "a new key and have the old one removed from every roster."
            )


def _checked_days(days: int) -> int:
    if not 1 <= days <= 36525:
        raise ConfigError(
            f"A certificate cannot be valid for {days} days; from 1 to 36525 can be asked for. Five years are {DAYS}."
        )
    return days
