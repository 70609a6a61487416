"""The hello of a party: which run, which agreement, which members, which keys; signed by its identity.

    H | run, agreement digest, roster digest, party, run key, boot, counters | signature

`run key` is the one X25519 key of the party in the run, `boot` are 32 fresh random bytes of this start of its process. A hello is no secret.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sottovoce.deployment.identity import packing
from sottovoce.deployment.identity.exchange_keys import check_exchange_key
from sottovoce.deployment.identity.identity import Identity
from sottovoce.deployment.identity.packing import framed, unframed
from sottovoce.deployment.identity.refusals import DifferentVersion, Malformed, Oversized
from sottovoce.deployment.identity.roster import Roster
from sottovoce.deployment.identity.signatures import SIGNATURE_BYTES, verify
from sottovoce.errors import ConfigError

LETTER = b"H"
DIGEST_BYTES = 32
LARGEST = 4096  # bytes of a hello
_PURPOSE = "hello"
_MOST_COUNTERS, _LONGEST_COUNTER = 16, 32


class Hello(NamedTuple):
    """What a party says when it starts."""

    run: str
    digest: bytes  # of the agreement, 32
    roster: bytes  # digest of the members, 32
    party: str
    run_key: bytes  # public, X25519, 32
    boot: bytes  # 32
    counters: dict[str, int]
    signature: bytes

    def __repr__(self) -> str:
        return f"Hello({self.party} in {self.run!r}, agreement {self.digest.hex()[:16]}, {self.counters})"


def signed_hello(identity: Identity, hello: Hello) -> bytes:
    """A hello as it travels; its signature is made here."""
    for name, count in hello.counters.items():
        if not _is_counter(name, count):
            raise ConfigError(
                f"The counter {name!r} is {count!r}; a name of 1 to {_LONGEST_COUNTER} characters and a whole number from 0 to 2^63 - 1 are needed."
            )
    if len(hello.counters) > _MOST_COUNTERS:
        raise ConfigError(
            f"A hello has {len(hello.counters)} counters; at most {_MOST_COUNTERS} are read. Leave some out."
        )
    body = framed(LETTER, [*hello[:-2], dict(sorted(hello.counters.items()))])
    return body + identity.sign(_PURPOSE, body)


def check_version(blob: bytes, sender: str, roster: Roster) -> None:
    """Refuse the hello of a release that speaks another version, if its sender has signed it; whatever else it says cannot be read here.

    Raises:
        DifferentVersion: it has.
        Forged: it has not: somebody on the way changed a byte.
    """
    if SIGNATURE_BYTES + 1 < len(blob) <= LARGEST and blob[:1] == LETTER and blob[1] != packing.VERSION:
        end = len(blob) - SIGNATURE_BYTES
        verify(roster[sender].identity_key, _PURPOSE, bytes(blob[:end]), bytes(blob[end:]))
        raise DifferentVersion(
            f"{sender} speaks version {blob[1]} of the messages between parties, and this Sottovoce version {packing.VERSION}. Install releases of one "
            "version at both; a run that has begun goes on then with the release with which it began."
        )


def read_hello(blob: bytes, roster: Roster) -> Hello:
    """A hello that is whole and signed by the member that it names.

    Raises:
        Oversized: more bytes than a hello has.
        Malformed: it is no hello.
        UnknownParty: no member has the name.
        Forged: the signature is not the member's.
    """
    if len(blob) > LARGEST:
        raise Oversized(f"A hello of {len(blob)} bytes; at most {LARGEST} are read. It is ignored.")
    header, end = unframed(LETTER, blob)
    if len(blob) != end + SIGNATURE_BYTES or not _is_hello(header):
        raise Malformed("A hello has other parts than it should have; it is ignored.")
    hello = Hello._make([*header, bytes(blob[end:])])
    verify(roster[hello.party].identity_key, _PURPOSE, bytes(blob[:end]), hello.signature)
    check_exchange_key(hello.run_key)
    return hello


def _is_hello(header: list[Any]) -> bool:
    if [type(each) for each in header] != [str, bytes, bytes, str, bytes, bytes, dict]:
        return False
    counters: Mapping[Any, Any] = header[-1]
    return (
        all(len(header[position]) == DIGEST_BYTES for position in (1, 2, 4, 5))
        and all(_is_counter(name, count) for name, count in counters.items())
        and list(counters) == sorted(counters)
    )


def _is_counter(name: Any, count: Any) -> bool:
    return isinstance(name, str) and 1 <= len(name) <= _LONGEST_COUNTER and type(count) is int and 0 <= count < 2**63
