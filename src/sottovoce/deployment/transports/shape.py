"""Messages of one size at fixed times, so that a relay learns neither when a party sends nor how much.

    message = nonce, 12 bytes | sealed( length, 4 bytes | bytes | zeros ), always `size` bytes long; length 0 says that it is a dummy

Every `seconds` one message goes to every other member of the roster, whether there is something to send or not. The outer seal is by a key that
sender and receiver have from their certificates alone (P-256, then HKDF), so that a relay cannot tell a dummy from a part of a blob; what a blob says
is sealed once more inside, by keys of the run. Messages are acknowledged as they arrive and not after the commit, since the time of that would tell.

Still seen: who is connected and since when, who is in the roster, and when a run begins and ends.
"""

import math
import os
import struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_der_x509_certificate

from sottovoce.deployment.identity import Entry, Identity
from sottovoce.errors import ConfigError, ProtocolError

_NONCE, _TAG = 12, 16
_LENGTH = struct.Struct("<I")
BESIDE = _NONCE + _TAG + _LENGTH.size  # bytes of a message that are not the sender's
LEAST_SIZE, LEAST_SECONDS, MOST_SECONDS = 256, 0.005, 3600.0


class Shape(NamedTuple):
    """What every message looks like, the same for all members of a run."""

    size: int  # bytes
    seconds: float  # between two messages to the same member

    def check(self, max_payload: int) -> None:
        """Refuse what cannot be kept up.

        Raises:
            ConfigError: with the numbers that can.
        """
        if not LEAST_SIZE <= self.size <= max_payload:
            raise ConfigError(
                f"Messages of {self.size} bytes cannot be sent; this relay carries from {LEAST_SIZE} to {max_payload}. Choose a size in between."
            )
        if not (math.isfinite(self.seconds) and LEAST_SECONDS <= self.seconds <= MOST_SECONDS):
            raise ConfigError(
                f"One message every {self.seconds} seconds cannot be sent; from {LEAST_SECONDS} to {MOST_SECONDS:g} seconds can. Choose a time in between."
            )


def read_shape(text: str) -> Shape:
    """A shape from `BYTES/SECONDS`, such as 90000/0.1.

    Raises:
        ConfigError: it has another form.
    """
    size, slash, seconds = text.partition("/")
    try:
        if not slash:
            raise ValueError
        return Shape(int(size), float(seconds))
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is no shape of messages: it needs BYTES/SECONDS, such as 90000/0.1 for a message of 90000 bytes ten times a second."
        ) from error


class Cover:
    """The outer seal between this party and one other."""

    def __init__(self, identity: Identity, peer: Entry, size: int) -> None:
        """Make both keys; nothing is exchanged for it.

        Args:
            identity: of this party.
            peer: the other one.
            size: bytes of every message.
        """
        secret = load_pem_private_key(identity.tls_secret, None)
        public = load_der_x509_certificate(peer.certificate).public_key()
        assert isinstance(secret, ec.EllipticCurvePrivateKey)
        assert isinstance(public, ec.EllipticCurvePublicKey)
        shared, own = secret.exchange(ec.ECDH(), public), identity.certificate
        self._size = size
        self._outgoing = ChaCha20Poly1305(_key(shared, own, peer.certificate))
        self._incoming = ChaCha20Poly1305(_key(shared, peer.certificate, own))

    def sealed(self, content: bytes) -> bytes:
        """A message with some bytes in it; a dummy where there are none."""
        padded = _LENGTH.pack(len(content)) + content
        nonce = os.urandom(_NONCE)
        return nonce + self._outgoing.encrypt(nonce, padded.ljust(self._size - _NONCE - _TAG, b"\0"), None)

    def opened(self, message: bytes) -> bytes:
        """The bytes in a message; empty where it is a dummy.

        Raises:
            ProtocolError: it is not from the other party, or was changed.
        """
        try:
            padded = self._incoming.decrypt(message[:_NONCE], message[_NONCE:], None)
            (length,) = _LENGTH.unpack_from(padded)
        except (InvalidTag, ValueError, struct.error) as error:
            raise ProtocolError(
                "a message is not of the shape that was agreed on, or was changed on its way"
            ) from error
        return padded[_LENGTH.size : _LENGTH.size + length]


def _key(shared: bytes, sender: bytes, receiver: bytes) -> bytes:
    digest = [len(each).to_bytes(4, "big") + each for each in (sender, receiver)]
    return HKDF(SHA256(), 32, salt=None, info=b"sottovoce/cover/1\0" + b"".join(digest)).derive(shared)
