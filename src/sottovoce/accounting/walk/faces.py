"""The law of one block under the least plan: the energy of a random hull, by its faces.

A block has k contributions, H_1 < ... < H_k hops before the next look. Its least cost is the energy of the least concave majorant of the points
(0, 0), (H_i, i): the sum over faces of l^2 / s, for a face of l contributions and s hops (`path`). The differences H_2 - H_1, ..., H_k - H_{k-1} are
independent loops; H_1 is an exit, with another law. Three facts make the law of the energy computable.

FACES OF THE LOOPS. The faces of the majorant of a walk with independent, equal increments are those of the cycles of a random permutation (Sparre
Andersen 1954; Abramson & Pitman 2011). With p_l(s) = P(l loops take s hops), and any weight f that is multiplicative for faces of equal slope,

    sum over n loops of z^n E[product of f over faces] = exp(sum over l, s of z^l p_l(s) f(l, s) / l),

so that faces of different slopes are independent of each other, and n U_n = sum_l a_l U_{n-l} computes such a series from a_l = sum_s p_l(s) f(l, s):
additions and products of numbers that are not negative.

THE EXIT JOINS THE STEEPEST FACES. Let a < b be rates. All points lie below the line of slope b if and only if 1 + L_b <= b (H_1 + S_b), L_b and S_b
the loops and hops of all faces of the loops steeper than b. If that holds for b and not for a, all faces of the block that are steeper than a
have slopes in (a, b], and together they have k' = 1 + L_a contributions and H' = H_1 + S_a hops; the others are the loops' faces up to slope a.

BETWEEN TWO RATES THE ENERGY IS ALMOST LINEAR. A face of slope r in [a, b] has l^2 / s = l r <= (a + b) l - a b s, since (r - a)(r - b) <= 0. So these
faces cost at most (a + b) k' - a b H' together, more than they do by a share of at most (b - a)^2 / (4 a b).

Hence: go through rates from 1 (no slope is larger) to 0; add the faces between two rates to what is pooled with the exit (k', H'); what lies above
the lower rate is finished, with the cost above and the loops' flatter faces at their own cost. Costs go to a grid, rounded up. How long a block lasts is
counted hop by hop in short walks, else from below: H' hops, and n loops of faces up to slope a take at least n / a hops.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from sottovoce.accounting.walk.passages import Passages

Array = NDArray[np.float64]
Spectrum = NDArray[np.complex128]
_UP = 1.0 + 1e-14  # before a cost is rounded up, for the digits that its own computation may have lost


class Grid(NamedTuple):
    """On what blocks are counted.

    Attributes:
        spacing: of costs.
        points: of the grid of costs, an even number; the spectrum has points / 2 + 1 entries.
        cells: into which the hops of the whole walk are put.
        hops: of one cell.
    """

    spacing: float
    points: int
    cells: int
    hops: int

    def bins(self, costs: Array) -> NDArray[np.int64]:
        """The points of these costs, rounded up; beyond the end they go round, which the caller must know to be rare."""
        return np.asarray(np.ceil(costs * (_UP / self.spacing))).astype(np.int64) % self.points


def rates(ratio: float, least: float) -> Array:
    """[M] from 1 down to `least`, each at most `ratio` times the next."""
    steps = max(1, math.ceil(math.log(1.0 / least) / math.log(ratio)))
    return np.asarray(least ** (np.arange(steps + 1) / steps))


def block_spectra(passages: Passages, contributions: int, levels: Array, grid: Grid) -> tuple[Spectrum, Spectrum]:
    """The law of (contributions, duration, cost) of a block, transformed over the costs: [N, cells, points / 2 + 1] each.

    Args:
        passages: of the token.
        contributions: N; row k - 1 is of blocks with k contributions.
        levels: [M] rates that decrease from 1; flatter faces cost as if they had the last one.
        grid: of costs and durations.

    Returns:
        Blocks that end by an exit, and those in which the k-th contribution is the agent's last.
    """
    N, T = contributions, passages.rounds
    loops = _Loops(passages.loops, N - 1, levels, grid)
    pooled = np.zeros((2, N, T + 1))  # by the exit, by contributions, by hops
    pooled[0, 0], pooled[1, 0] = passages.exits, passages.last_exits
    found = np.zeros((2, N, grid.cells, grid.points // 2 + 1), dtype=np.complex128)
    made, hops = np.arange(1.0, N + 1.0)[:, None], np.arange(T + 1.0)
    for m, b in enumerate(levels):
        a = float(levels[m + 1]) if m + 1 < len(levels) else 0.0
        pooled = loops.joined(pooled, m)
        finished = np.where(made > a * hops, pooled, 0.0)
        pooled = pooled - finished
        if finished.any():
            cost = np.maximum((a + b) * made - (a * b) * hops, 0.0)
            _add_finished(found, _on_grid(finished, cost, grid), loops.flatter(m), a, grid)
    return found[0], found[1]


def _on_grid(finished: Array, cost: Array, grid: Grid) -> Spectrum:
    """[2, up to N, cells used, points / 2 + 1] what is finished, by contributions, cell of duration and cost."""
    rows = int(np.flatnonzero(finished.any(axis=(0, 2))).max()) + 1
    last = int(np.flatnonzero(finished.any(axis=(0, 1))).max()) + 1
    cells = (last - 1) // grid.hops + 1
    at = (np.arange(rows)[:, None] * cells + np.arange(last) // grid.hops) * grid.points + grid.bins(cost[:rows, :last])
    size = rows * cells * grid.points
    counted = [np.bincount(at.ravel(), one[:rows, :last].ravel(), minlength=size) for one in finished]
    return np.asarray(fft.rfft(np.stack(counted).reshape(2, rows, cells, grid.points), axis=-1))


def _add_finished(found: Spectrum, finished: Spectrum, flatter: Spectrum, rate: float, grid: Grid) -> None:
    """Add what is finished together with n loops whose faces are flatter than the rate, for every n."""
    N, rows, cells = found.shape[1], finished.shape[1], finished.shape[2]
    for n, spectrum in enumerate(flatter):
        kept = min(rows, N - n)
        if grid.hops == 1:
            length = fft.next_fast_len(2 * grid.cells)
            both = fft.fft(finished[:, :kept], length, axis=2) * fft.fft(spectrum, length, axis=0)
            found[:, n : n + kept] += fft.ifft(both, axis=2)[:, :, : grid.cells]
            continue
        later = int(n / rate / grid.hops * (1.0 - 1e-12)) if n else 0
        if later >= grid.cells:
            break
        reached = min(cells, grid.cells - later)
        found[:, n : n + kept, later : later + reached] += finished[:, :kept, :reached] * spectrum[0]


class _Loops:
    """The faces of loops, by the two rates between which their slopes lie."""

    def __init__(self, loops: Array, most: int, levels: Array, grid: Grid) -> None:
        self._length = fft.next_fast_len(2 * len(loops) - 1, real=True)
        self._sums = _sums_of(loops, most, self._length)  # [most, T + 1] p_l(s)
        numbers, hops = np.arange(1.0, most + 1.0)[:, None], np.maximum(np.arange(len(loops)), 1.0)
        # Level m is between levels[m] and the next, the first included.
        self._level = np.searchsorted(-levels, -(numbers / hops), side="right") - 1
        self._bins, self._grid, self._levels = grid.bins(numbers**2 / hops), grid, len(levels)

    def joined(self, pooled: Array, level: int) -> Array:
        """[2, N, T + 1] what is pooled, with the faces of this level added."""
        here = np.where(self._level == level, self._sums, 0.0)
        if not here.any():
            return pooled
        T, N = pooled.shape[2] - 1, pooled.shape[1]
        added = self._series(here, T)
        spectra = fft.rfft(pooled, self._length)
        out = np.empty_like(spectra)
        for n in range(N):
            out[:, n] = np.einsum("jw,ejw->ew", added[: n + 1], spectra[:, n::-1])
        return np.asarray(np.maximum(fft.irfft(out, self._length)[..., : T + 1], 0.0))

    def flatter(self, level: int) -> Spectrum:
        """[up to N, cells, points / 2 + 1] n loops all of whose faces are of later levels, by hops and transformed costs; one cell if cells are longer."""
        most, points = len(self._sums), self._grid.points
        cells = self._grid.cells if self._grid.hops == 1 else 1
        found = np.zeros((1 + (most if level + 1 < self._levels else 0), cells, points // 2 + 1), dtype=np.complex128)
        found[0, 0] = 1.0
        if len(found) == 1:
            return found
        weights = np.where(self._level > level, self._sums, 0.0)
        cell = np.arange(weights.shape[1]) if cells > 1 else 0
        at = (np.arange(most)[:, None] * cells + cell) * points + self._bins
        counted = np.bincount(at.ravel(), weights.ravel(), minlength=most * cells * points)
        length = fft.next_fast_len(2 * cells) if cells > 1 else 1
        spectra = fft.fft(fft.rfft(counted.reshape(most, cells, points), axis=-1), length, axis=1)
        series = np.zeros((most + 1, length, points // 2 + 1), dtype=np.complex128)
        series[0] = 1.0
        for n in range(1, most + 1):
            together = fft.ifft(np.einsum("ltw,ltw->tw", spectra[:n], series[n - 1 :: -1][:n]) / n, axis=0)
            found[n] = together[:cells]
            series[n] = fft.fft(found[n], length, axis=0)
        return found

    def _series(self, weights: Array, last: int) -> Spectrum:
        """[most + 1, frequencies] of n loops all of whose faces have these weights, by their hops up to the last."""
        spectra = fft.rfft(weights, self._length)
        found = np.ones((len(weights) + 1, spectra.shape[1]), dtype=np.complex128)
        for n in range(1, len(weights) + 1):
            together = np.einsum("lw,lw->w", spectra[:n], found[n - 1 :: -1][:n]) / n
            # Cut at the end of the walk each time, so that no product goes round.
            found[n] = fft.rfft(np.maximum(fft.irfft(together, self._length)[: last + 1], 0.0), self._length)
        return found


def _sums_of(loops: Array, most: int, length: int) -> Array:
    """[most, T + 1] the law of the hops of 1, 2, ... loops, up to the end of the walk."""
    sums = np.zeros((most, len(loops)))
    spectrum, current = fft.rfft(loops, length), loops
    for row in sums:
        row[:] = current
        current = np.maximum(fft.irfft(fft.rfft(current, length) * spectrum, length)[: len(loops)], 0.0)
    return sums
