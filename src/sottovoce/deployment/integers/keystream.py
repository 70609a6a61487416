"""Random words from a key: the ChaCha20 keystream, read as little-endian 64-bit words.

A key has one stream and is used once, so the nonce is zero. Whoever has the key draws the same words, on every machine.
`stream_words` gives the first words at once; `Keystream` gives them some at a time in one buffer that stays in the
cache of a core, where the cipher is ten times as fast as with new memory for every call.
"""

from types import TracebackType

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms

from sottovoce.errors import ConfigError

KEY_BYTES = 32
_NONCE = bytes(16)
_SLACK = 63  # bytes: the cipher asks for room for an unfinished block
_ZEROS = bytes(2**18)  # what is encrypted


class Keystream:
    """The words of a key in their order, a few thousand at a time; its buffer is overwritten when it is left.

    Example:
        with Keystream(key, 4096) as stream:
            words = stream.next(4096)  # [4096] uint64, valid until the next call
    """

    def __init__(self, key: bytes, most: int) -> None:
        """Prepare a buffer for at most so many words at a time."""
        if not 1 <= most <= len(_ZEROS) // 8:
            raise ConfigError(f"{most} words at a time; 1 to {len(_ZEROS) // 8} are possible. Ask more often.")
        self._cipher = _cipher(key)
        self._room = bytearray(8 * most + _SLACK)
        self._words = np.frombuffer(self._room, dtype="<u8", count=most)

    def __enter__(self) -> "Keystream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._words.fill(0)

    def next(self, count: int) -> np.ndarray:
        """The next words, [count] uint64, in the buffer that the next call overwrites."""
        if not 0 <= count <= len(self._words):
            raise ConfigError(f"{count} words were asked for; at most {len(self._words)} fit. Ask more often.")
        self._cipher.update_into(memoryview(_ZEROS)[: 8 * count], self._room)
        return self._words[:count].astype(np.uint64, copy=False)


def stream_words(key: bytes, count: int) -> np.ndarray:
    """The first words of a key's ChaCha20 stream, [count] uint64."""
    cipher, zeros = _cipher(key), memoryview(_ZEROS)
    room = bytearray(8 * count + _SLACK)
    for start in range(0, 8 * count, len(zeros)):
        length = min(len(zeros), 8 * count - start)
        cipher.update_into(zeros[:length], memoryview(room)[start:])
    return np.frombuffer(room, dtype="<u8", count=count).astype(np.uint64, copy=False)


def _cipher(key: bytes) -> CipherContext:
    if len(key) != KEY_BYTES:
        raise ConfigError(f"The key has {len(key)} bytes; {KEY_BYTES} are needed. Use secrets.token_bytes(32).")
    return Cipher(algorithms.ChaCha20(key, _NONCE), mode=None).encryptor()
