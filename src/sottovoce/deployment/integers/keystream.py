"""Random words from a key: the ChaCha20 keystream, read as little-endian 64-bit words.

A key has one stream and is used once, so the nonce is zero. Whoever has the key draws the same words, on every machine.
"""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

KEY_BYTES = 32


def stream_words(key: bytes, count: int) -> np.ndarray:
    """The first words of a key's ChaCha20 stream, [count] uint64."""
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    stream = bytearray(8 * count + 63)
    cipher.update_into(bytes(8 * count), stream)
    return np.frombuffer(stream, dtype="<u8", count=count).astype(np.uint64)
