"""From blocks to the whole walk: how many contributions are made and seen, and what they cost together.

The walk begins uniformly and comes to the agent u at some hop, with a first block; a block ends when an observer holds the token; from there it
comes back to u, and so on, until N contributions are made or T hops are over. Blocks are independent given how many contributions each has and how
long it lasts:

    F_0 = arrivals,      E_K = sum_k F_{K-k} * B_k,      F_K = E_K * returns                   (* over time and cost)

F_K is the law of (hop, cost so far) when u begins a block having made K contributions, E_K when an observer ends one. A block in which the N-th
contribution is made has a law of its own, since after it u only adds noise. A block that has not ended at hop T costs nothing. Durations are
put into cells, rounded down, so that a walk seems to have time for more than it has: which errs upwards.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from sottovoce.accounting.walk.faces import Grid, Spectrum
from sottovoce.accounting.walk.passages import Passages


def costs_of_walk(blocks: tuple[Spectrum, Spectrum], passages: Passages, grid: Grid) -> NDArray[np.float64]:
    """[points] the law of the cost of the whole walk; beyond the end of the grid costs go round.

    Args:
        blocks: [N, cells, points / 2 + 1] that end by an exit, and those with the last contribution.
        passages: of the token.
        grid: of costs and durations.
    """
    open_ended, last = blocks
    N = len(open_ended)
    length = fft.next_fast_len(2 * grid.cells)
    arrivals, returns = (_in_cells(law, grid) for law in (passages.arrivals, passages.returns))
    kernels = fft.fft(open_ended, length, axis=1)
    back = fft.fft(returns, length)[:, None]
    never = np.maximum(1.0 - np.cumsum(returns)[::-1], 0.0)  # by cell: u is not visited again
    begun = np.zeros((N, length, kernels.shape[2]), dtype=np.complex128)
    now = np.repeat(arrivals[:, None], kernels.shape[2], axis=1).astype(np.complex128)
    law = np.full(kernels.shape[2], max(0.0, 1.0 - float(arrivals.sum())), dtype=np.complex128)
    unseen = _unseen(open_ended, last)
    for made in range(N):
        law += unseen[N - made - 1] @ now
        begun[made] = fft.fft(now, length, axis=0)
        if made + 1 == N:
            break
        ended = np.einsum("ktw,ktw->tw", begun[: made + 1], kernels[made::-1][: made + 1])
        ended = fft.ifft(ended, axis=0)[: grid.cells]
        law += never @ ended
        now = fft.ifft(fft.fft(ended, length, axis=0) * back, axis=0)[: grid.cells]
    ended = np.einsum("ktw,ktw->tw", begun, fft.fft(last, length, axis=1)[::-1])
    law += fft.ifft(ended, axis=0)[: grid.cells].sum(axis=0)
    return np.asarray(fft.irfft(law, grid.points))


def _unseen(open_ended: Spectrum, last: Spectrum) -> NDArray[np.float64]:
    """[N, cells] the probability that a block that begins in this cell is not ended, with 1, 2, ..., N contributions left."""
    # The entry of frequency 0 is the mass of all costs.
    sooner = np.cumsum(open_ended[:, :, 0].real, axis=1)
    final = np.cumsum(last[:, :, 0].real, axis=1)
    before = np.concatenate([np.zeros((1, sooner.shape[1])), np.cumsum(sooner, axis=0)[:-1]])
    return np.maximum(1.0 - (before + final)[:, ::-1], 0.0)


def _in_cells(law: NDArray[np.float64], grid: Grid) -> NDArray[np.float64]:
    return np.bincount(np.arange(len(law)) // grid.hops, law, minlength=grid.cells).astype(np.float64)
