"""One pair of starts: keys for the two directions, and which messages have come.

    key(source -> target) = HKDF-SHA256(X25519 of the two run keys, salt = run digest,
        info = "sottovoce/message/1" | identities of source and target | boots of source and target | both run keys)
    nonce = number of the message under its key, from 0

Both boots are fresh random bytes, so a key is never met again, and its numbers may begin at 0. A receiver keeps the numbers it has seen in a window:
what falls behind it counts as seen.
"""

from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256, Hash

from sottovoce.deployment.identity.exchange_keys import pair_key
from sottovoce.deployment.identity.refusals import Forged, Repeated

TAG_BYTES = 16
KEY_NAME_BYTES = 8
WINDOW = 4096  # numbers behind the newest that can still come
_MOST_MESSAGES = 2**48
_USE = b"sottovoce/message/1"


class End(NamedTuple):
    """One of the two ends."""

    identity: bytes  # public Ed25519 key, 32
    run_key: bytes  # public X25519 key, 32
    boot: bytes  # 32


class Channel:
    """The two keys between this start of this party and one start of another."""

    def __init__(self, own_key: X25519PrivateKey, salt: bytes, me: End, peer: End) -> None:
        there, back = _bound(me, peer), _bound(peer, me)
        self.sealing_name, self.opening_name = _name(salt, there), _name(salt, back)
        self._sealing = ChaCha20Poly1305(pair_key(own_key, peer.run_key, salt=salt, use=_USE + there))
        self._opening = ChaCha20Poly1305(pair_key(own_key, peer.run_key, salt=salt, use=_USE + back))
        self._sealed = 0
        self._newest, self._seen = -1, 0  # bit i of `seen`: number newest - i has come

    def next_number(self) -> int:
        """The number of the next message, which no other one gets."""
        number = self._sealed
        if number >= _MOST_MESSAGES:
            raise RuntimeError("too many messages under one key; start the party again")
        self._sealed += 1
        return number

    def seal(self, number: int, header: bytes, payload: bytes) -> bytes:
        """Payload that only the other end can read, bound to its header."""
        return self._sealing.encrypt(_nonce(number), payload, header)

    def open(self, number: int, header: bytes, body: memoryview) -> bytes:
        """The payload of a message that has not come before.

        Raises:
            Forged: header or body were changed, or made without the key.
            Repeated: it is genuine, and was opened before.
        """
        try:
            payload = self._opening.decrypt(_nonce(number), body, header)
        except InvalidTag as error:
            raise Forged(
                "A sealed message does not open: it was changed on its way, or made by somebody without the key. It is ignored."
            ) from error
        self._note(number)
        return payload

    def _note(self, number: int) -> None:
        behind = self._newest - number
        if behind >= WINDOW or (behind >= 0 and self._seen >> behind & 1):
            raise Repeated("A sealed message came before; this copy of it is ignored.")
        if behind < 0:
            # Numbers that a jump passes by may still come, unless it leaves them behind the window.
            self._seen = (self._seen << min(-behind, WINDOW) | 1) & ((1 << WINDOW) - 1)
            self._newest = number
        else:
            self._seen |= 1 << behind


def _bound(source: End, target: End) -> bytes:
    return source.identity + target.identity + source.boot + target.boot


def _name(salt: bytes, bound: bytes) -> bytes:
    digest = Hash(SHA256())
    digest.update(b"sottovoce/key-name/1\0" + salt + bound)
    return digest.finalize()[:KEY_NAME_BYTES]


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "little")
