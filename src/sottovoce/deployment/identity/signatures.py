"""Ed25519 signatures that mean one thing each: what is signed begins with its purpose.

    signed bytes = "sottovoce/" purpose "/1" 0x00 message

No message of one purpose can be shown as one of another.
"""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sottovoce.deployment.identity.refusals import Forged

KEY_BYTES = 32
SIGNATURE_BYTES = 64


def sign(key: Ed25519PrivateKey, purpose: str, message: bytes) -> bytes:
    """The signature of a message for one purpose."""
    return key.sign(_with_purpose(purpose, message))


def verify(public: bytes, purpose: str, message: bytes, signature: bytes) -> None:
    """Check a signature.

    Args:
        public: the signer's identity key, 32 bytes.
        purpose: what the signature has to be for.
        message: what was signed.
        signature: 64 bytes.

    Raises:
        Forged: it is not this key's signature of this message for this purpose.
    """
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _with_purpose(purpose, message))
    except (InvalidSignature, ValueError) as error:
        raise Forged(
            f"The signature of a {purpose.replace('-', ' ')} does not fit the key of whom it names; it was changed, or made by somebody else."
        ) from error


def _with_purpose(purpose: str, message: bytes) -> bytes:
    return b"sottovoce/" + purpose.encode("ascii") + b"/1\0" + message
