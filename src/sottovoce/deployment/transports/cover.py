"""The outer seal of everything that goes over a relay, so that it reads nothing: no name, no greeting, no message of a role of GOPA.

    message = nonce, 12 bytes | sealed( length, 4 bytes | bytes | zeros )          length 0 says that it is a dummy

Sender and receiver have the key from their certificates alone: P-256 between one's own TLS key and the other's, then HKDF with both certificates in
order, so that each direction has its own. A relay that repeats, exchanges or changes a message makes one that does not open, or comes twice. What a
blob says is sealed once more inside, by keys of the run and of both starts; those keep their secrets if a TLS key is stolen later, and this one
does not: whoever has recorded what went over the relay then reads what is not sealed inside, greetings and messages of GOPA. A renewed certificate
ends that.
"""

import os
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_der_x509_certificate

from sottovoce.deployment.identity import Entry, Identity
from sottovoce.errors import ProtocolError

_NONCE, _TAG = 12, 16
_LENGTH = struct.Struct("<I")
BESIDE = _NONCE + _TAG + _LENGTH.size  # bytes of a message that are not the sender's


class Cover:
    """The outer seal between this party and one other."""

    def __init__(self, identity: Identity, peer: Entry) -> None:
        """Make both keys; nothing is exchanged for it.

        Args:
            identity: of this party.
            peer: the other one.
        """
        secret = load_pem_private_key(identity.tls_secret, None)
        public = load_der_x509_certificate(peer.certificate).public_key()
        assert isinstance(secret, ec.EllipticCurvePrivateKey)
        assert isinstance(public, ec.EllipticCurvePublicKey)
        shared, own = secret.exchange(ec.ECDH(), public), identity.certificate
        self._outgoing = ChaCha20Poly1305(_key(shared, own, peer.certificate))
        self._incoming = ChaCha20Poly1305(_key(shared, peer.certificate, own))

    def sealed(self, content: bytes, size: int = 0) -> bytes:
        """A message with some bytes in it, a dummy where there are none, of at least so many bytes in all."""
        padded = (_LENGTH.pack(len(content)) + content).ljust(size - _NONCE - _TAG, b"\0")
        nonce = os.urandom(_NONCE)
        return nonce + self._outgoing.encrypt(nonce, padded, None)

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
                "a message does not open: it was changed on its way, or made with another certificate than the roster's"
            ) from error
        return padded[_LENGTH.size : _LENGTH.size + length]


def _key(shared: bytes, sender: bytes, receiver: bytes) -> bytes:
    ends = [len(each).to_bytes(4, "big") + each for each in (sender, receiver)]
    return HKDF(SHA256(), 32, salt=None, info=b"sottovoce/cover/1\0" + b"".join(ends)).derive(shared)
