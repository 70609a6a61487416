"""Random numbers of one party from the operating system, and those that it shares with another from the pair's key.

    own noise, batches    ChaCha20 keystream of 32 bytes that the operating system gives for this one call
    shared, mask          keystream of HKDF-SHA256(pair key, salt = run, info = use | position | source)

A key of own noise lives as long as the call: it is derived from nothing, kept nowhere, and the buffer of its stream is
overwritten. Were it kept, or made from something that is, a party that goes back to a backup would add the same noise
to another message, and the difference of the two would show both without noise. (Python gives no way to overwrite the
32 bytes themselves; they are dropped.) What two parties share must be the same at both ends and after a restart, so it
follows from the pair's key; run, position, source and use are part of the derivation, and no stream serves twice.

A run goes forward, and asks for own noise and batches once: a second request for the same, or one for an earlier
exchange, is refused, since two noisy versions of one message are worth more than one. Whoever has to begin an exchange
again has sent nothing of it, and begins with a new value of this class.
"""

import secrets
import struct
from collections.abc import Callable

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sottovoce.deployment.integers.keystream import KEY_BYTES, stream_words
from sottovoce.deployment.integers.laws import rounded
from sottovoce.deployment.integers.positions import distinct_positions
from sottovoce.deployment.integers.rounded_gaussian import RoundedGaussian
from sottovoce.deployment.integers.rounded_laplace import RoundedLaplace
from sottovoce.errors import ConfigError, IncompatibleChoice, ProtocolError
from sottovoce.noise import Law
from sottovoce.numbers import whole

_SHARED = b"sottovoce/peers/1/shared-source"
_MASK = b"sottovoce/peers/1/uniform-mask"
_RUN_BYTES = 32


class SecretRandomness:
    """What a party of a real run draws; `agent.Randomness` says what each method is for."""

    def __init__(self, law: Law | None, dimension: int, pair_keys: Callable[[int], bytes], *, run: bytes) -> None:
        """Randomness for one party in one run.

        Args:
            law: of the scheme's sources; None for a scheme without any.
            dimension: numbers in a model.
            pair_keys: the 32 bytes that this party shares with another one in this run, by its number.
            run: 32 bytes that are the run's alone, such as the digest of its agreement.

        Raises:
            ConfigError: the run is not named by 32 bytes, or the dimension is no whole number above 0.
        """
        if not isinstance(run, bytes) or len(run) != _RUN_BYTES:
            raise ConfigError("A run is named by 32 bytes in the keys of its noise. Give the digest of its agreement.")
        self._law, self._dimension, self._pair_keys, self._run = law, whole("dimension", dimension), pair_keys, run
        self._asked: dict[str, tuple[int, set[int]]] = {}  # for each use: the latest exchange or round, and what of it

    def source(self, position: int, source: int, scale: float) -> np.ndarray:
        """[d] int64: noise that this party alone knows, once."""
        law = self._rounded(scale)
        self._once("Noise of source", source, "exchange", position)
        return law.from_key(_fresh_key(), self._dimension)

    def gradient_noise(self, round_: int, step: int, scale: float) -> np.ndarray:
        """[d] int64: noise that this party alone knows, once."""
        law = self._rounded(scale)
        self._once("Noise in gradient", step, "round", round_)
        return law.from_key(_fresh_key(), self._dimension)

    def shared(self, position: int, source: int, other: int, scale: float) -> np.ndarray:
        """[d] int64: the same at both ends of the pair, and at nobody else."""
        return self._rounded(scale).from_key(self._shared_key(_SHARED, position, source, other), self._dimension)

    def mask(self, position: int, source: int, other: int) -> np.ndarray:
        """[d] uint64, uniform: the same at both ends of the pair, and at nobody else."""
        return stream_words(self._shared_key(_MASK, position, source, other), self._dimension)

    def batch(self, round_: int, step: int, records: int, size: int) -> np.ndarray:
        """[size] int64: distinct positions in increasing order, uniform among all sets, once."""
        self._once("The batch of gradient", step, "round", round_)
        return distinct_positions(_fresh_key(), records, size)

    def _rounded(self, scale: float) -> RoundedGaussian | RoundedLaplace:
        if self._law is None:
            raise IncompatibleChoice("Noise was asked of a scheme that has no sources. Give the scheme a law of noise.")
        return rounded(self._law, scale)

    def _once(self, what: str, number: int, where: str, time: int) -> None:
        latest, numbers = self._asked.get(what, (time, set()))
        if time < latest or (time == latest and number in numbers):
            raise ProtocolError(
                f"{what} {number} at {where} {time} was asked for after {where} {latest}; it is drawn once, and never "
                "again for an earlier one. Go on from the store with what was drawn."
            )
        self._asked[what] = (time, {number, *numbers} if time == latest else {number})

    def _shared_key(self, use: bytes, position: int, source: int, other: int) -> bytes:
        pair = self._pair_keys(other)
        if len(pair) != KEY_BYTES:
            raise ConfigError(
                f"The key shared with party {other} has {len(pair)} bytes; {KEY_BYTES} are needed. "
                "Take it from the session of the run."
            )
        info = use + struct.pack("<QQ", position, source)
        return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=self._run, info=info).derive(pair)


def _fresh_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)
