"""The law of one block when each contribution is spread evenly over all hops until the next look.

With contributions H_1 < ... < H_k hops before the look, shifts of 1 / H_j in each of H_j hops overlap, and the block costs

    sum over i, j of 1 / max(H_i, H_j) = sum_j (2 j - 1) / H_j.

Going back from the look, H_1 is an exit and every next contribution is a loop further away, so that (H_j, cost so far) is a Markov chain:

    A_1[t, 1 / t] = P(exit of t hops),      A_{j+1}[t, c + (2 j + 1) / t] = sum_s P(loop of s hops) A_j[t - s, c],

with costs on a grid, each rounded up when it is added.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from sottovoce.accounting.walk.faces import Grid, Spectrum
from sottovoce.accounting.walk.passages import Passages

Array = NDArray[np.float64]


def even_spectra(passages: Passages, contributions: int, grid: Grid) -> tuple[Spectrum, Spectrum]:
    """The law of (contributions, duration, cost) of a block, transformed over the costs; as `faces.block_spectra`."""
    return (
        _spectra(passages.loops, passages.exits, contributions, grid),
        _spectra(passages.loops, passages.last_exits, contributions, grid),
    )


def _spectra(loops: Array, exits: Array, contributions: int, grid: Grid) -> Spectrum:
    T = len(loops) - 1
    length = fft.next_fast_len(2 * T + 1, real=True)
    step = fft.rfft(loops, length)[:, None]
    starts = np.arange(grid.cells) * grid.hops
    found = np.zeros((contributions, grid.cells, grid.points // 2 + 1), dtype=np.complex128)
    now = np.zeros((T + 1, grid.points))
    now[:, 0] = exits
    hops = np.maximum(np.arange(T + 1.0), 1.0)
    for j in range(contributions):
        now = _moved(now, grid.bins((2.0 * j + 1.0) / hops))
        found[j] = fft.rfft(np.add.reduceat(now, starts, axis=0), axis=-1)
        if j + 1 < contributions:
            spectra = fft.rfft(now, length, axis=0)
            now = np.maximum(fft.irfft(spectra * step, length, axis=0)[: T + 1], 0.0)
    return found


def _moved(laws: Array, by: NDArray[np.int64]) -> Array:
    """Every row moved by its own number of points to larger costs; beyond the end they go round."""
    points = laws.shape[1]
    return np.take_along_axis(laws, (np.arange(points) - by[:, None]) % points, axis=1)
