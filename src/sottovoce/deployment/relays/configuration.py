"""The configuration of a relay for the members of a roster: nats.conf and the files that it names.

    nats.conf       for `nats-server -c nats.conf`, started in the folder
    members.pem     certificates that may connect: the members' and the operator's
    relay.key, relay.pem        the server's own TLS key and certificate
    operator.json   the key with which mailboxes are made, and the limits
    roster.json     the members
    relay.json      for the members

NATS knows a member by the names in its certificate, whichever kind of name comes first, and lets in whoever has a certificate that one of
members.pem has signed. So a certificate that has any name but its owner's, or that may sign others, is refused here. One sender has so many
messages to one receiver of room, and its newer ones take the place of its own older ones: a member that floods loses its own messages and nobody
else's.
"""

import base64
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509

from sottovoce import durable_files
from sottovoce.deployment.identity import (
    DAYS,
    Entry,
    Roster,
    check_valid,
    der,
    is_loopback,
    new_certificate,
    pem,
    server_name,
    split_address,
)
from sottovoce.deployment.relays.mailboxes import may_do, operator_may_do, token
from sottovoce.deployment.relays.relay_file import LEAST_PAYLOAD, MOST_PAYLOAD, Relay
from sottovoce.errors import ConfigError

OPERATOR, OPERATOR_FORMAT = "operator.json", "sottovoce relay operator"
CONFIGURATION, MEMBERS, ROSTER, RELAY = "nats.conf", "members.pem", "roster.json", "relay.json"
_KEY, _CERTIFICATE = "relay.key", "relay.pem"
_LEAST_MESSAGES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What members can make the relay keep.

    Attributes:
        max_payload: bytes of a message.
        messages: of one sender to one receiver that wait.
        hours: after which a message is forgotten.
    """

    max_payload: int = 2**20
    messages: int = 128
    hours: int = 24

    def __post_init__(self) -> None:
        for value, least, most, what in (
            (self.max_payload, LEAST_PAYLOAD, MOST_PAYLOAD, "bytes of a message"),
            (self.messages, _LEAST_MESSAGES, 65536, "messages of one sender to one receiver"),
            (self.hours, 1, 24 * 365, "hours until a message is forgotten"),
        ):
            if not least <= value <= most:
                raise ConfigError(
                    f"{value} {what} cannot be asked for; from {least} to {most} can. Leave it out for the usual number."
                )

    def disk(self, members: int) -> int:
        """Bytes that all mailboxes hold at most."""
        return members * (members - 1) * self.messages * self.max_payload


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A relay that is configured.

    Attributes:
        folder: with all files.
        relay: as members know it.
        disk: bytes that its mailboxes hold at most.
    """

    folder: Path
    relay: Relay
    disk: int


def configured(roster: Roster, address: str, folder: Path, limits: Limits | None = None) -> Written:
    """Write all files of a relay; keys that the folder has stay.

    Args:
        roster: the members.
        address: host:port under which members reach the relay.
        folder: where the files go; made if there is none.
        limits: what members can make it keep.

    Raises:
        ConfigError: a member's certificate cannot be let in, the address is none, or the folder cannot be written.
    """
    limits = limits or Limits()
    split_address(address)
    if not len(roster):
        raise ConfigError("The roster lists nobody; a relay is for its members. Add entries: sottovoce roster add.")
    for entry in roster:
        check_member(entry)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _written(roster, address, folder, limits)
    except OSError as error:
        raise ConfigError(
            f"The folder {folder} cannot be written ({error.strerror}). Name one that this user may write to."
        ) from error


def check_member(entry: Entry) -> None:
    """Refuse a certificate by which a member could be taken for somebody else at the relay, or let others in.

    Raises:
        ConfigError: with what is wrong, and what to do.
    """
    entry.check_valid()
    certificate = x509.load_der_x509_certificate(entry.certificate)
    again = f"Ask {entry.name} for one that `sottovoce keys renew` makes."
    try:
        names = list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        signs = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError) as error:
        raise ConfigError(
            f"The certificate of {entry.name} does not say for whom it is made out, or whether it may sign others. {again}"
        ) from error
    if signs:
        raise ConfigError(
            f"The certificate of {entry.name} may sign others, with which it could let anybody in at the relay, in anybody's name. {again}"
        )
    if names != [x509.DNSName(entry.server_name)]:
        raise ConfigError(
            f"The certificate of {entry.name} has other names beside its own, under which the relay could take it for somebody else. {again}"
        )


def _written(roster: Roster, address: str, folder: Path, limits: Limits) -> Written:
    certificate = _server_certificate(folder)
    operator = operator_keys(folder)
    members = b"".join(pem(each) for each in (*(entry.certificate for entry in roster), operator.certificate))
    disk = limits.disk(len(roster))
    durable_files.write(folder / MEMBERS, members)
    roster.save(folder / ROSTER)
    durable_files.write_json(folder / OPERATOR, operator.as_json(limits), private=True)
    durable_files.write(
        folder / CONFIGURATION, configuration(roster, address, limits, operator.name).encode("ascii"), private=True
    )
    relay = Relay(address=address, certificate=certificate, max_payload=limits.max_payload)
    relay.save(folder / RELAY)
    return Written(folder=folder, relay=relay, disk=disk)


def _server_certificate(folder: Path) -> bytes:
    """The server's certificate, DER, made with its key unless the folder has both."""
    key, certificate = folder / _KEY, folder / _CERTIFICATE
    if key.exists() and certificate.exists():
        try:
            found = der(certificate.read_bytes())
        except ValueError as error:
            raise ConfigError(
                f"{certificate} is no certificate. Put back the file as it was written, or remove it and {key.name}: members then need relay.json again."
            ) from error
        check_valid(found, owner="the relay")
        return found
    secret, made = new_certificate(os.urandom(32), days=DAYS)
    durable_files.write(key, secret, private=True)
    durable_files.write(certificate, pem(made))
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The keys of whoever makes the mailboxes, and what these hold.

    Attributes:
        secret: P-256 key, PEM.
        certificate: DER.
        limits: None before a configuration was written.
    """

    secret: bytes
    certificate: bytes
    limits: Limits | None

    def __repr__(self) -> str:
        return f"<Operator of a relay: {self.name}>"

    @property
    def name(self) -> str:
        """For whom the certificate is made out."""
        certificate = x509.load_der_x509_certificate(self.certificate)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return names.get_values_for_type(x509.DNSName)[0]

    def as_json(self, limits: Limits) -> dict[str, Any]:
        """What the file holds."""
        return {
            "format": OPERATOR_FORMAT,
            "version": 1,
            "tls_secret": self.secret.decode("ascii"),
            "certificate": base64.b64encode(self.certificate).decode("ascii"),
            "max_payload": limits.max_payload,
            "messages": limits.messages,
            "hours": limits.hours,
        }


def operator_keys(folder: Path, *, needed: bool = False) -> Operator:
    """The operator's keys of a folder, or fresh ones where it has none.

    Args:
        folder: of a relay.
        needed: refuse where there are none.

    Raises:
        ConfigError: they are missing, or cannot be read.
    """
    path = folder / OPERATOR
    if not path.exists():
        if needed:
            raise ConfigError(
                f"{folder} has no {OPERATOR}; it is written together with the configuration. Name the folder that `sottovoce relay config` wrote."
            )
        secret, certificate = new_certificate(os.urandom(32), days=DAYS)
        return Operator(secret=secret, certificate=certificate, limits=None)
    try:
        value = json.loads(path.read_bytes())
        limits = Limits(max_payload=value["max_payload"], messages=value["messages"], hours=value["hours"])
        certificate = base64.b64decode(value["certificate"], validate=True)
        check_valid(certificate, owner="the relay's operator")
        found = Operator(secret=value["tls_secret"].encode("ascii"), certificate=certificate, limits=limits)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} is damaged and cannot be read. Remove it and run `sottovoce relay config` again: it makes another key."
        ) from error
    return found


def configuration(roster: Roster, address: str, limits: Limits, operator: str) -> str:
    """The text of nats.conf."""
    host, port = split_address(address)
    listen = f"{('127.0.0.1' if host.lower() == 'localhost' else host) if is_loopback(host) else '0.0.0.0'}:{port}"
    users: list[dict[str, Any]] = [{"user": operator, "permissions": operator_may_do()}]
    users += [
        {"user": server_name(each.identity_key), "permissions": may_do(token(each.identity_key))} for each in roster
    ]
    nobody = {"publish": {"deny": [">"]}, "subscribe": {"deny": [">"]}}
    said: dict[str, Any] = {
        "server_name": "sottovoce-relay",
        "listen": listen,
        "tls": {
            "cert_file": _CERTIFICATE, "key_file": _KEY, "ca_file": MEMBERS, "verify_and_map": True, "timeout": 5,
        },
        "authorization": {"timeout": 5, "default_permissions": nobody, "users": users},
        "max_payload": limits.max_payload,
        "max_pending": max(64 * 2**20, 64 * limits.max_payload),
        "max_control_line": 1024,
        "max_connections": max(256, 16 * len(roster)),
        "max_subscriptions": 8,
        "write_deadline": "10s",
        "ping_interval": "20s",
        "ping_max": 2,
        "jetstream": {"store_dir": "store", "max_memory_store": 2**20, "max_file_store": limits.disk(len(roster)) * 2},
        "logtime": True,
        "debug": False,
        "trace": False,
    }  # fmt: skip
    heading = "# Written by `sottovoce relay config`; write it again after every change of the roster. Start: nats-server -c nats.conf"
    # NATS reads JSON as one of the forms of its configuration.
    return f"{heading}\n{json.dumps(said, indent=2)}\n"
