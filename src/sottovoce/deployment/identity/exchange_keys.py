"""The secret that two parties share: X25519 with the checks that it needs, and keys derived from it.

    pair key    HKDF-SHA256(X25519(a, B), salt, info = use | lower public key | higher public key)

Both ends derive the same key, and nobody else does; `salt` and `use` bind it to one purpose in one run, so that no key serves twice.
"""

import hashlib

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sottovoce.deployment.identity.refusals import Malformed
from sottovoce.deployment.integers import KEY_BYTES

_PRIME = 2**255 - 19
_PROBE = X25519PrivateKey.from_private_bytes(hashlib.sha256(b"sottovoce/gopa/1/low-order-probe").digest())


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


def pair_key(own: X25519PrivateKey, peer: bytes, *, salt: bytes, use: bytes) -> bytes:
    """A key of one pair, 32 bytes; both ends derive the same one.

    Args:
        own: this party's private exchange key.
        peer: the other's public exchange key.
        salt: what all keys of the run have in common, such as its name.
        use: what the key is for, with all else it is bound to.

    Raises:
        Malformed: the two ends are one, or the other's key gives a secret that everybody knows.
    """
    mine = own.public_key().public_bytes_raw()
    if mine == peer:
        raise Malformed(
            "The other end of a pair has this party's own exchange key; a party shares no secret with itself."
        )
    info = use + min(mine, peer) + max(mine, peer)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=info).derive(shared_secret(own, peer))
