"""The square-root innovations filter: an observer's view round by round, also where the noise is rank deficient.

State space x' = F x + G g + N z, y = H x + D g + M z. Carried along are a square root L of the state's conditional covariance and the
shift X of its conditional mean by each gradient. Per round, with the singular value decomposition [M, H L] = U S V',

    w = S^-1 U' (H X + D),    Q += w' w,    X <- F X + G - [N, F L] V w,    L <- [N, F L] (I - V V').

A shift H X + D outside the range of U is read without noise. Every row is first scaled to noise of size about one (by a power of two, which
rounds nothing), so that what is small against other rows still decides for itself; a row has no noise if what it carries is but rounding of the
terms that cancelled in it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sottovoce.accounting.linear_view.gram import Gram
from sottovoce.linear import SystemRound

RANK_TOLERANCE = 1e-9  # singular values below this share of the largest are zero
RESIDUAL_TOLERANCE = 1e-9  # a shift with more than this share outside the noise's range is in clear
ROUNDING = 1e-13  # of the largest numbers that went into a sum


class _Dense(NamedTuple):
    F: np.ndarray
    G: np.ndarray
    N: np.ndarray
    H: np.ndarray
    D: np.ndarray
    M: np.ndarray


def filtered_gram(systems: Sequence[SystemRound], scales: np.ndarray, agents: np.ndarray) -> Gram:
    """The square-root innovations filter."""
    T, P, n = len(systems), len(agents), systems[0].F.shape[0]
    dense = {key: _Dense(*(part.toarray() for part in s)) for key, s in {id(s): s for s in systems}.items()}
    L, X, sizes = (
        np.zeros((n, 0)),
        np.zeros((n, T * P)),
        np.zeros((n, T * P)),
    )  # sizes: of the terms that X is the sum of
    clear, held = (
        np.zeros(P, dtype=int),
        np.zeros(n),
    )  # held: the size of the terms that the noise of every state is the sum of
    whitened: list[np.ndarray] = []
    adaptive, public = np.ones(P, dtype=bool), np.ones(P, dtype=bool)
    others = np.arange(n)[:, None] % systems[0].G.shape[1] != agents[None, :]  # [n, P]: rows of other agents' states
    for t, system in enumerate(systems):
        d, columns, new = dense[id(system)], (t + 1) * P, slice(t * P, (t + 1) * P)
        seen, carried = np.hstack([scales[t] * d.M, d.H @ L]), np.hstack([scales[t] * d.N, d.F @ L])
        shift, rounding = d.H @ X[:, :columns], np.abs(d.H) @ sizes[:, :columns]
        shift[:, new] += d.D[:, agents]
        rounding[:, new] += np.abs(d.D[:, agents])
        np.maximum(
            rounding, 1e-3 * np.linalg.norm(rounding, axis=0), out=rounding
        )  # no sum is better than its neighbours
        moved = d.F @ X[:, :columns]
        moved[:, new] += d.G[:, agents]
        terms = scales[t] * np.abs(d.M).max(axis=1, initial=0.0) + np.abs(d.H) @ held
        held = scales[t] * np.abs(d.N).max(axis=1, initial=0.0) + np.abs(d.F) @ held
        quiet, unit = _scaled_to_noise(seen, shift, rounding, terms)
        U, S, V, sure = noisy_range(seen, unit)
        adaptive &= sure
        clear = _note_clear(clear, t, shift, U, rounding, P, quiet)
        gone = np.tile(clear > 0, t + 1)
        shift[:, gone], moved[:, gone] = 0.0, 0.0
        w = (U.T @ shift) / S[:, None]
        whitened.append(w)
        X[:, :columns] = moved - (carried @ V) @ w
        np.maximum(sizes[:, :columns], np.abs(moved), out=sizes[:, :columns])
        L = _compressed(carried, V, held[:, None])
        if adaptive.any():
            shifted = _shifted(X[:, :columns], P, sizes[:, :columns].max())  # [n, P]
            adaptive &= (L.shape[1] == 0) & ~(shifted & others).any(axis=0)
            public &= adaptive & ~shifted.any(axis=0)
    values = np.zeros((P, T, T))
    stacked = np.zeros((sum(len(w) for w in whitened), T * P))
    row = 0
    for w in whitened:
        stacked[row : row + len(w), : w.shape[1]] = w
        row += len(w)
    for p in range(P):
        one = stacked[:, p::P]
        values[p] = one.T @ one
    return Gram(values, clear, adaptive, public & adaptive)


def _scaled_to_noise(
    seen: np.ndarray, shift: np.ndarray, rounding: np.ndarray, terms: np.ndarray
) -> tuple[np.ndarray, float]:
    """Scale rows in place to noise of size about one; which rows have none [m], and the size whose rounding is now in the others."""
    norms = np.linalg.norm(seen, axis=1)
    quiet = norms <= ROUNDING * terms
    seen[quiet] = 0.0
    factors = np.where(quiet, 1.0, np.exp2(-np.round(np.log2(np.where(quiet, 1.0, norms)))))[:, None]
    for rows in (seen, shift, rounding):
        rows *= factors
    return quiet, float((terms * factors[:, 0])[~quiet].max(initial=0.0))


def noisy_range(seen: np.ndarray, noise_size: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """U, S, V of the directions that carry noise, and whether all others are no more than rounding."""
    if min(seen.shape) == 0:
        return np.zeros((seen.shape[0], 0)), np.zeros(0), np.zeros((seen.shape[1], 0)), True
    U, S, Vt = np.linalg.svd(seen, full_matrices=False)
    kept = max(RANK_TOLERANCE * S[0], ROUNDING * noise_size) < S
    sure = bool(np.all(kept | (ROUNDING * max(S[0], noise_size) >= S)))
    return U[:, kept], S[kept], Vt[kept].T, sure


def _note_clear(
    clear: np.ndarray, t: int, shift: np.ndarray, U: np.ndarray, rounding: np.ndarray, P: int, quiet: np.ndarray
) -> np.ndarray:
    """Mark agents one of whose gradients shifts the message out of the range of the noise, by more than rounding can."""
    outside = np.linalg.norm(shift - U @ (U.T @ shift), axis=0)
    leaves = outside > RESIDUAL_TOLERANCE * np.linalg.norm(shift, axis=0)
    leaves &= outside > ROUNDING * 100 * np.linalg.norm(rounding, axis=0)
    leaves |= (np.abs(shift[quiet]) > ROUNDING * 100 * rounding[quiet]).any(axis=0)
    return np.where((clear == 0) & leaves.reshape(t + 1, P).any(axis=0), t + 1, clear)


def _shifted(X: np.ndarray, P: int, size: float) -> np.ndarray:
    """[n, P]: whether the conditional mean of a state depends on p's gradients; `size` is that of the terms of X."""
    by_agent = np.abs(X).reshape(X.shape[0], -1, P).max(axis=1)
    return np.asarray(by_agent > ROUNDING * 1e3 * size)


def _compressed(carried: np.ndarray, V: np.ndarray, noise_size: np.ndarray) -> np.ndarray:
    """A square root, with at most as many columns as states, of what stays uncertain."""
    return compressed_root(carried - (carried @ V) @ V.T, noise_size)


def compressed_root(rest: np.ndarray, noise_size: np.ndarray | float) -> np.ndarray:
    """A square root of rest rest' with at most as many columns as rows, without those that are rounding of terms of this size, in every row."""
    rest = rest[:, (np.abs(rest) > ROUNDING * 10 * noise_size).any(axis=0)]
    if rest.shape[1] > rest.shape[0]:
        rest = np.asarray(np.linalg.qr(rest.T, mode="r")).T
    return np.asarray(rest)
