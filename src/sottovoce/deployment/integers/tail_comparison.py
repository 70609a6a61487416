"""Whole numbers from 128 random bits each, by comparing them with the tail of a symmetric law.

    X = round(Y),  Y symmetric with upper tail Q(x) = P(Y > x) and no atoms:      P(|X| >= j) = 2 Q(j - 1/2),  j >= 1

One bit gives the sign S. The other 127 form V, uniform on 0..2^127 - 1, and |X| is the quantile at the upper tail
probability (V + 1/2) / 2^128:

    |X| >= j   exactly when   V + 1/2 < 2^128 Q(j - 1/2)                                                          (*)

Floating point proposes |X|. Where its value lies within `doubt` of the edge between two whole numbers, (*) is decided
in decimal arithmetic: of 36 digits where that is enough, of 90 otherwise. So draws are the same on every machine whose
floating-point quantile is right to `doubt`. A draw takes 16 bytes, whatever its value.

TOTAL VARIATION. Given the sign, P(|X| >= j) is a multiple of 2^-127 in place of 2 Q(j - 1/2): it is off by D_j with
|D_j| <= 2^-128. Where 2 Q(j - 1/2) <= 2^-128 no V is left, and |X| < j always; let J be the first such j. Then

    TV(|X|) = 1/2 sum_{j >= 0} |D_j - D_{j+1}|  <=  sum_{0 < j < J} |D_j| + 1/2 (|D_J| + 2 Q(J - 1/2))  <=  J 2^-128

with D_0 = 0; beyond J the tail falls, so that its differences add up to its value at J. S is fair and independent of
|X| in the true law as well, zero included, and X = S |X| is a function of both: TV(X) <= TV(|X|), with nothing counted
twice at zero. A law states `bound` >= J - 1, the largest |X| there is, and total_variation = (bound + 1) 2^-128.

WHAT FLOATING POINT SEES. The low 64 bits of V enter only where V < 2^112, a share 2^-15 of the draws. Elsewhere 2^-65
is missing at most in a probability of at least 2^-16, relatively 2^-49; conversion and scaling add 2^-52. For both laws
here a relative error r of the probability moves the quantile by at most 1.26 r of the law's scale.
"""

from decimal import Context, Decimal
from typing import Protocol

import numpy as np

from sottovoce.deployment.integers.keystream import Keystream
from sottovoce.errors import ConfigError

WORDS = 2  # 64-bit words per draw
CHUNK = 2**14  # draws at a time: what they need stays in the cache of a core
DOUBT = 2.0**-40  # in scales: four thousand units in the last place of a number near 1, sixty near the farthest draw
SHORT, LONG = Context(prec=36), Context(prec=90)
_ENOUGH = Decimal("1e-30")  # tails of 36 digits err less, for both laws: a thousand roundings add 1e-32 at most
_RING = Decimal(2**129)
_SIZE_BITS = np.int64(2**63 - 1)
_FAR = 2**48  # of the high word of V


class TailLaw(Protocol):
    """What a law must know of its tail."""

    @property
    def doubt(self) -> float:
        """How far `quantile` may be off, in units."""

    def quantile(self, tail: np.ndarray) -> None:
        """Replace upper tail probabilities in (0, 1/2] by where they are reached, in units, in place."""

    def tail_beyond(self, size: int, digits: Context) -> Decimal:
        """Q(size - 1/2) for size >= 1, with so many digits."""


def from_words(law: TailLaw, words: np.ndarray) -> np.ndarray:
    """Draws from uniform words, [..., 2] uint64 -> [...] int64.

    The first word holds the sign and the 63 high bits of V, the second the 64 low bits.
    """
    if words.dtype != np.uint64 or words.ndim < 2 or words.shape[-1] != WORDS:
        raise ConfigError(
            f"The words have type {words.dtype} and shape {words.shape}; needed are uint64, two of them for every draw."
        )
    flat = words.reshape(-1, WORDS)
    sizes = np.empty(len(flat), dtype=np.int64)
    for start in range(0, len(flat), CHUNK):
        part = slice(start, start + CHUNK)
        draw_into(law, flat[part], sizes[part])
    return sizes.reshape(words.shape[:-1])


def from_key(law: TailLaw, key: bytes, count: int) -> np.ndarray:
    """The first draws of a key's stream, [count] int64: what `from_words` makes of `stream_words`, in less memory."""
    sizes = np.empty(count, dtype=np.int64)
    with Keystream(key, WORDS * min(max(count, 1), CHUNK)) as stream:
        for start in range(0, count, CHUNK):
            part = sizes[start : start + CHUNK]
            draw_into(law, stream.next(WORDS * len(part)).reshape(-1, WORDS), part)
    return sizes


def draw_into(law: TailLaw, words: np.ndarray, out: np.ndarray) -> None:
    """Draws from uniform words, [n, 2] uint64, into [n] int64; best for some ten thousand at a time."""
    first = words[:, 0].view(np.int64)
    np.bitwise_and(first, _SIZE_BITS, out=out)
    value = out.astype(np.float64)
    value += 0.5
    value *= 2.0**-64
    far = np.flatnonzero(out < _FAR)
    if len(far):
        value[far] = np.ldexp(out[far].astype(np.float64), -64) + np.ldexp(words[far, 1].astype(np.float64) + 0.5, -128)
    law.quantile(value)
    nearest = np.rint(value)
    value -= nearest
    out[:] = nearest
    for index in np.flatnonzero(np.abs(value) >= 0.5 - law.doubt):
        edge = int(nearest[index]) + int(value[index] > 0)
        tail = ((int(words[index, 0]) & int(_SIZE_BITS)) << 64) | int(words[index, 1])
        out[index] = edge if reaches(law, edge, tail) else edge - 1
    sign = first >> 63  # 0, or -1 where the number is negative: x ^ -1 is -x - 1
    out ^= sign
    out -= sign


def reaches(law: TailLaw, size: int, tail: int) -> bool:
    """Whether |X| >= size >= 1 at V = tail, by (*)."""
    probability = LONG.divide(Decimal(2 * tail + 1), _RING)
    distance = LONG.subtract(probability, law.tail_beyond(size, SHORT))
    if distance.copy_abs() <= _ENOUGH:
        distance = LONG.subtract(probability, law.tail_beyond(size, LONG))
    return distance < 0
