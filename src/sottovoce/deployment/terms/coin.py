"""What a run draws in public: which pairs drop out, which pair is awake, who takes part.

    words of a use in a round = ChaCha20(HKDF-SHA256(digest of the agreement, info = label | use | round)); of a pair, nonce = its two agents

Everybody computes the same. Draws are no secret: whoever knows the agreement knows all of them beforehand, and whoever writes the file could try
names of runs until it likes what they draw. So guarantees count on no draw; they hold for every pattern of links and of agents that take part.
Draws are exact: a whole number below n is drawn again where a remainder would favour small ones, and a
probability is compared with 64 random bits, so that it is off by less than 2^-64.
"""

import struct
from fractions import Fraction
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sottovoce.algorithms import AgentSampling, FixedAgents, PoissonAgents
from sottovoce.deployment.integers import stream_words
from sottovoce.errors import ConfigError, IncompatibleChoice

_LABEL = b"sottovoce/public-coin/1/"
_DIGEST_BYTES = 32


class Coin(Protocol):
    """The public draws of a run. Rounds are numbered from 1."""

    def kept_pairs(self, round_: int, pairs: np.ndarray, probability: float) -> np.ndarray:
        """[P] bool: which of the pairs [P, 2] of agents exchange in a round, where each is absent with this probability."""

    def pair(self, round_: int, num_pairs: int) -> int:
        """The one pair that is awake in a round."""

    def takes_part(self, round_: int, sampling: AgentSampling, num_agents: int) -> np.ndarray:
        """[K] how many times as much each agent counts in a round as when all take part; 0 for those that do not."""


class PublicCoin:
    """Draws that follow from the digest of an agreement."""

    def __init__(self, digest: bytes) -> None:
        if not isinstance(digest, bytes) or len(digest) != _DIGEST_BYTES:
            raise ConfigError(f"a public coin follows from the {_DIGEST_BYTES} bytes of an agreement's digest.")
        self._digest = digest

    def kept_pairs(self, round_: int, pairs: np.ndarray, probability: float) -> np.ndarray:
        """[P] bool: which of the pairs [P, 2] of agents exchange in a round, where each is absent with this probability."""
        key = self._key(b"pairs", round_)
        # Addressed by its two agents, a pair is there or not in all exchanges of a round, whatever other links they use.
        ends = (struct.pack("<QII", 0, *sorted(map(int, pair))) for pair in pairs)
        words = b"".join(
            Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor().update(bytes(8)) for nonce in ends
        )
        return ~_happens(np.frombuffer(words, dtype="<u8"), probability)

    def pair(self, round_: int, num_pairs: int) -> int:
        """The one pair that is awake in a round."""
        if num_pairs < 1:
            raise ConfigError("no pair can be drawn where there is none. Use a topology with links.")
        refused = 2**64 % num_pairs  # so many words at the end would favour small numbers
        for attempt in range(128):
            word = int(self._words(b"pair", round_, attempt + 1)[attempt])
            if word < 2**64 - refused:
                return word % num_pairs
        raise AssertionError("each attempt fails with probability below one half")

    def takes_part(self, round_: int, sampling: AgentSampling, num_agents: int) -> np.ndarray:
        """[K] how many times as much each agent counts in a round as when all take part; 0 for those that do not.

        Raises:
            IncompatibleChoice: silence, which among real parties happens and is not drawn.
        """
        if isinstance(sampling, PoissonAgents):
            drawn = _happens(self._words(b"agents", round_, num_agents), sampling.rate)
        elif isinstance(sampling, FixedAgents):
            drawn = self._subset(round_, num_agents, sampling.size)
        else:
            raise IncompatibleChoice(
                f"{sampling} was asked of a public coin; among real parties silence happens and is not drawn. Leave silence out."
            )
        return drawn * sampling.weight(num_agents)

    def _subset(self, round_: int, num_agents: int, size: int) -> np.ndarray:
        """[K] bool: so many of the agents, every set alike: those with the smallest of distinct random words."""
        if not 1 <= size <= num_agents:
            raise ConfigError(f"{size} of {num_agents} agents cannot be drawn. Choose from 1 to {num_agents}.")
        for attempt in range(1, 129):
            words = self._words(b"agents", round_, attempt * num_agents)[-num_agents:]
            if len(np.unique(words)) == num_agents:
                return np.asarray(np.argsort(np.argsort(words)) < size)
        raise AssertionError("two of so few random words are alike with probability below 2^-30")

    def _words(self, use: bytes, round_: int, count: int) -> np.ndarray:
        """[count] uint64: the first words of a use in a round."""
        return stream_words(self._key(use, round_), count)

    def _key(self, use: bytes, round_: int) -> bytes:
        info = _LABEL + use + struct.pack("<Q", round_)
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self._digest)


def _happens(words: np.ndarray, probability: float) -> np.ndarray:
    """[..] bool: which words [..] uint64 lie in the first part of all words, of this share."""
    limit = int(Fraction(probability) * 2**64)
    return np.ones(len(words), dtype=bool) if limit >= 2**64 else words < np.uint64(limit)
