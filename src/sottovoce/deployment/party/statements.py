"""Statements: what a party signs when it says the same to several others, so that it cannot say something else to some of them.

    digest     = SHA-256(salt | words)                                    salt: 32 bytes that only receivers get
    statement  = sender | position | digest | signature of (agreement, position, digest, name of the sender)

All receivers of a broadcast get the same words with the same salt and signature. They pass statements on (`passing`), also to parties that get no
words of the sender: without the salt a digest tells them nothing about the words. Two genuine statements of one sender for one position with
different digests are evidence against it that anybody can check (`evidence`).

Salts follow from the secret key of the run, so that after a crash the same statement is made again.
"""

import hashlib
import struct
from typing import NamedTuple

from sottovoce.deployment.identity import verify
from sottovoce.deployment.identity.refusals import Malformed

PURPOSE = "statement"
SALT, SIGNATURE, DIGEST = 32, 64, 32  # bytes
_FORM = struct.Struct("<HQ32s64s")
SIZE = _FORM.size
_POSITION = struct.Struct("<Q")


class Statement(NamedTuple):
    """That a party has said words with this digest at this position."""

    sender: int  # its number in the agreement
    position: int
    digest: bytes
    signature: bytes


class Claim(NamedTuple):
    """What travels beside words that are said to several receivers."""

    salt: bytes
    signature: bytes


NO_CLAIM = Claim(bytes(SALT), bytes(SIGNATURE))  # beside words for one receiver, and where there are no words


def digest_of(salt: bytes, words: bytes) -> bytes:
    """What stands for words in a statement."""
    return hashlib.sha256(salt + words).digest()


def signed_bytes(agreement: bytes, sender: str, position: int, digest: bytes) -> bytes:
    """What the sender of words signs."""
    return agreement + _POSITION.pack(position) + digest + sender.encode()


def check_signature(identity_key: bytes, agreement: bytes, sender: str, statement: Statement) -> None:
    """Refuse a statement that its sender did not make.

    Raises:
        Forged: it did not.
    """
    content = signed_bytes(agreement, sender, statement.position, statement.digest)
    verify(identity_key, PURPOSE, content, statement.signature)


def packed(statements: list[Statement]) -> bytes:
    """Statements as they travel and are kept."""
    return b"".join(_FORM.pack(*each) for each in statements)


def unpacked(content: bytes) -> list[Statement]:
    """What `packed` was given.

    Raises:
        Malformed: bytes that are no whole statements.
    """
    if len(content) % SIZE:
        raise Malformed(f"{len(content)} bytes are no whole number of statements of {SIZE} bytes; they are ignored.")
    return [Statement._make(each) for each in _FORM.iter_unpack(content)]
