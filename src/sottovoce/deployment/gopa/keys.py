"""Keys of a round: who a party is, which secret two parties share, and the key of a party's own noise.

    identity    Ed25519, long-lived, listed in the round's roster; signs every message
    ephemeral   X25519, fresh for every round; its public part is in the registration
    pair key    HKDF-SHA256(X25519(a, B), salt = run, info = use | round | terms | lower public key | higher public key)

Run, round, the digest of the round's terms and both public keys are part of the derivation, so a key never serves
twice: two rounds with the same masks would show the difference of their values without noise.
"""

import struct
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sottovoce.deployment.identity import exchange_keys
from sottovoce.deployment.integers import KEY_BYTES
from sottovoce.errors import ConfigError

_PAIR_MASK = b"sottovoce/gopa/1/pair-mask"
_OWN_NOISE = b"sottovoce/gopa/1/own-noise"


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


def pair_key(own: X25519PrivateKey, peer: bytes, context: Context) -> bytes:
    """The key of one pair in one round; both ends derive the same one."""
    return exchange_keys.pair_key(own, peer, salt=context.run, use=_PAIR_MASK + _bound(context))


def noise_key(secret: bytes, context: Context) -> bytes:
    """The key of a party's own noise in one round, from 32 secret bytes that only this party has."""
    if len(secret) != KEY_BYTES:
        raise ConfigError(
            f"The secret for own noise has {len(secret)} bytes; 32 are needed. Use secrets.token_bytes(32)."
        )
    info = _OWN_NOISE + _bound(context)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=context.run, info=info).derive(secret)


def _bound(context: Context) -> bytes:
    return struct.pack("<Q", context.round_number) + context.terms
