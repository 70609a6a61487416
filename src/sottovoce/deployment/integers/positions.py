"""Distinct positions, uniform among all sets of that size.

Positions come from 64-bit words, one after the other: a word above the largest multiple of n is passed over, so that
every position is equally likely; a position that has come before is passed over as well. Whatever was chosen so far,
the next new position is uniform among those left, hence the set of the first m distinct ones is uniform among all sets
of m. Of more than half of the positions, those left out are drawn instead.
"""

import numpy as np

from sottovoce.deployment.integers.keystream import Keystream
from sottovoce.errors import ConfigError
from sottovoce.numbers import is_whole

_WORDS = 2**9  # at a time


def distinct_positions(key: bytes, records: int, size: int) -> np.ndarray:
    """A uniform set of `size` distinct numbers from 0 to records - 1, in increasing order, [size] int64.

    Args:
        key: whose stream decides; 32 secret bytes that are used once.
        records: how many there are.
        size: how many are chosen.

    Raises:
        ConfigError: more are to be chosen than there are.
    """
    if not is_whole(records, 1, 2**53) or not is_whole(size, 1, records):
        raise ConfigError(
            f"A batch of {size!r} out of {records!r} records; it must have 1 to all of them. Lower batch_size."
        )
    few = min(size, records - size)
    drawn = np.empty(0, dtype=np.int64)
    with Keystream(key, _WORDS) as stream:
        while len(drawn) < few:
            # About as many words as are needed: of at most half of the positions, 1.4 words for each on average.
            blocks = -(-2 * (few - len(drawn)) // _WORDS)
            more = [_uniform(stream.next(_WORDS), records) for _ in range(blocks)]
            drawn = _first_of_each(np.concatenate([drawn, *more]))
    if few == size:
        return np.sort(drawn[:few])
    kept = np.ones(records, dtype=bool)
    kept[drawn[:few]] = False
    return np.flatnonzero(kept)


def _uniform(words: np.ndarray, records: int) -> np.ndarray:
    largest = np.uint64(2**64 - 2**64 % records - 1)
    return (words[words <= largest] % np.uint64(records)).astype(np.int64)


def _first_of_each(numbers: np.ndarray) -> np.ndarray:
    """The distinct numbers in the order in which they came first."""
    places = np.unique(numbers, return_index=True)[1]
    return numbers[np.sort(places)]
