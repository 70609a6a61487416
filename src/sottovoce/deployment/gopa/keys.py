"""Keys: who a party is, which secret two parties share in a round, and the random words that follow from it.

    identity    Ed25519, long-lived, listed in the round's roster; signs every message
    ephemeral   X25519, fresh for every round; its public part is in the registration
    pair key    HKDF-SHA256(X25519(a, B), salt = run, info = use | round | terms | lower public key | higher public key)
    words       ChaCha20 keystream of a key that is used once, read as little-endian 64-bit words

Run, round, the digest of the round's terms and both public keys are part of the derivation, so a key never serves
twice: two rounds with the same masks would show the difference of their values without noise.
"""

import hashlib
import struct
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sottovoce.deployment.gopa.refusals import Malformed
from sottovoce.errors import ConfigError

KEY_BYTES = 32
_PRIME = 2**255 - 19
_PAIR_MASK = b"sottovoce/gopa/1/pair-mask"
_OWN_NOISE = b"sottovoce/gopa/1/own-noise"
_PROBE = X25519PrivateKey.from_private_bytes(hashlib.sha256(b"sottovoce/gopa/1/low-order-probe").digest())


class Context(NamedTuple):
    """What every key of a round is bound to.

    Attributes:
        run: 16 bytes that name the run.
        round_number: the round within it.
        terms: 32 bytes, the digest of everything the parties agreed on.
    """

    run: bytes
    round_number: int
    terms: bytes


def identity_bytes(identity: Ed25519PrivateKey) -> bytes:
    """The 32 bytes by which a roster lists an identity."""
    return identity.public_key().public_bytes_raw()


def check_exchange_key(public: bytes) -> None:
    """Refuse a public key that is not canonical or that makes every shared secret zero.

    Raises:
        Malformed: the key has the wrong length, encodes a number not below 2^255 - 19, or has a small order.
    """
    if len(public) != KEY_BYTES or int.from_bytes(public, "little") >= _PRIME:
        raise Malformed(
            "An exchange key must be 32 bytes that encode a number below 2^255 - 19; generate it with X25519."
        )
    shared_secret(_PROBE, public)


def shared_secret(own: X25519PrivateKey, public: bytes) -> bytes:
    """X25519 of an own private and another's public key.

    Raises:
        Malformed: the result is the zero string, which everybody knows.
    """
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise Malformed(
            "An exchange key of small order gives everybody the same secret; generate it with X25519."
        ) from error


def pair_key(own: X25519PrivateKey, peer: bytes, context: Context) -> bytes:
    """The key of one pair in one round; both ends derive the same one."""
    mine = own.public_key().public_bytes_raw()
    if mine == peer:
        raise Malformed(
            "The other end of a pair has this party's own exchange key; a party shares no secret with itself."
        )
    info = _PAIR_MASK + _bound(context) + min(mine, peer) + max(mine, peer)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=context.run, info=info).derive(shared_secret(own, peer))


def noise_key(secret: bytes, context: Context) -> bytes:
    """The key of a party's own noise in one round, from 32 secret bytes that only this party has."""
    if len(secret) != KEY_BYTES:
        raise ConfigError(
            f"The secret for own noise has {len(secret)} bytes; 32 are needed. Use secrets.token_bytes(32)."
        )
    info = _OWN_NOISE + _bound(context)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=context.run, info=info).derive(secret)


def stream_words(key: bytes, count: int) -> np.ndarray:
    """The first words of a key's ChaCha20 stream, [count] uint64."""
    # The nonce is zero because a key has one stream; both are used once.
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    stream = bytearray(8 * count + 63)
    cipher.update_into(bytes(8 * count), stream)
    return np.frombuffer(stream, dtype="<u8", count=count).astype(np.uint64)


def _bound(context: Context) -> bytes:
    return struct.pack("<Q", context.round_number) + context.terms
