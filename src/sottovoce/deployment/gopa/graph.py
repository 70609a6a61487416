"""The graph of pairs, drawn from a public beacon so that nobody chooses it.

Every party picks k distinct others uniformly; two parties form a pair when either picked the other. All picks follow
from

    ChaCha20(SHA-256(label | beacon | n | k)),

so everyone computes the same graph. The beacon must become known only after registration has closed: whoever knows the
graph before it decides which parties to corrupt can surround a victim, and pays only for its neighbours.
"""

import hashlib
import struct

import numpy as np

from sottovoce.deployment.integers import stream_words
from sottovoce.errors import ConfigError

_LABEL = b"sottovoce/gopa/1/graph"
_OPEN = -1


def k_out_edges(beacon: bytes, *, num_parties: int, out_degree: int) -> np.ndarray:
    """Pairs (low, high) in lexicographic order, [E, 2] int64.

    Raises:
        ConfigError: the beacon has not 32 bytes, there are fewer than two parties, or k is not from 1 to n - 1.
    """
    if len(beacon) != 32:
        raise ConfigError(f"The beacon has {len(beacon)} bytes; it must have 32. Hash a longer one with SHA-256.")
    if num_parties < 2 or not 1 <= out_degree < num_parties:
        raise ConfigError(
            f"{num_parties} parties with {out_degree} picks each; a k-out graph needs two parties and 1 <= k <= n - 1. "
            f"Wait for more registrations or lower out_degree."
        )
    key = hashlib.sha256(_LABEL + beacon + struct.pack("<QQ", num_parties, out_degree)).digest()
    dense = 2 * out_degree > num_parties - 1
    picks = (_ranked_picks if dense else _rejection_picks)(key, num_parties, out_degree)
    owner = np.repeat(np.arange(num_parties), out_degree)
    # Picks are numbered among the others: those from the owner on move up by one.
    other = picks.ravel() + (picks.ravel() >= owner)
    codes = np.minimum(owner, other) * num_parties + np.maximum(owner, other)
    codes.sort()
    # Not np.unique: on twenty million numbers it is a hundred times slower.
    first = np.concatenate([[True], codes[1:] != codes[:-1]])
    return np.stack(np.divmod(codes[first], num_parties), axis=1)


def neighbours(edges: np.ndarray, num_parties: int) -> list[list[int]]:
    """For every party its neighbours in increasing order."""
    lists: list[list[int]] = [[] for _ in range(num_parties)]
    for low, high in edges.tolist():
        lists[low].append(high)
        lists[high].append(low)
    return [sorted(others) for others in lists]


def _rejection_picks(key: bytes, num_parties: int, out_degree: int) -> np.ndarray:
    """Picks [n, k] in 0..n-2, distinct in each row: draw all open places, reopen repeats, until none is open."""
    others = num_parties - 1
    limit = np.uint64(2**64 - 2**64 % others - 1)  # words above it would favour the low numbers
    picks = np.full((num_parties, out_degree), _OPEN, dtype=np.int64)
    turn = 0
    rows = np.arange(num_parties)
    while len(rows):
        part = picks[rows]
        places = np.nonzero(part == _OPEN)
        words = stream_words(hashlib.sha256(key + struct.pack("<Q", turn)).digest(), len(places[0]))
        part[places] = np.where(words <= limit, (words % np.uint64(others)).astype(np.int64), _OPEN)
        # Which of two equal picks is reopened does not matter: the set that stays is the same.
        part.sort(axis=1)
        repeats = np.zeros(part.shape, dtype=bool)
        repeats[:, 1:] = part[:, 1:] == part[:, :-1]
        part[repeats] = _OPEN
        picks[rows] = part
        rows = rows[(part == _OPEN).any(axis=1)]
        turn += 1
    return picks


def _ranked_picks(key: bytes, num_parties: int, out_degree: int) -> np.ndarray:
    """Picks [n, k] as the k smallest of n - 1 random words per row, for graphs in which repeats would be frequent."""
    picks = np.empty((num_parties, out_degree), dtype=np.int64)
    for party in range(num_parties):
        words = stream_words(hashlib.sha256(key + struct.pack("<Q", party)).digest(), num_parties - 1)
        picks[party] = np.argsort(words, kind="stable")[:out_degree]
    return picks
