"""Orthonormal bases of what a gossiping agent hears, with the directions that floating-point numbers cannot settle.

Fixed weights A, round by round x(t+1) = A' x(t). The attacker v knows x_v(0) and hears x_w(t) = (A^t e_w)' x(0) for its senders w and
t < T. Together:

    S_T = span{e_v, A^t e_w : w in N_v, t < T} = span{e_v, e_w} + A S_{T-1},

because A e_v, column v of A, lies on v and its senders. So S_T is a block Krylov space of A, not of A', and not of powers: S_{t+1} needs A
only on the directions that round t added. The e_v and e_w split off exactly. On the other agents ("far"), with M and C the parts of A from
far to far and from N_v to far,

    S_T = span{e_v, e_w} + K_{T-1},    K_1 = range(C),    K_{t+1} = K_t + M N_t,    N_t the directions that K_t added.

Every direction is thus found from an orthonormal block, and has the size of one round instead of that of a power. Symmetric weights need
the last two blocks only (Lanczos); one pass over all blocks cleans up rounding.

A candidate smaller than SETTLED is left out. It may be exactly dependent or just small. `depth` is the last round in which that happened,
and exact arithmetic has to look at the messages up to it only: a round cannot add more directions than the one before, so that later
rounds, which add as many as their predecessors, have left nothing out.

What rounding does. The basis is that of a network whose weights differ by about ROUNDING from the given ones, which is how well 1/3 is
stored. Its effect on an exposure is estimated, not proven, by ROUNDING T / s^2, s the smallest size kept: a block turns by at most
ROUNDING / s, and once more by 1/s on its way out. In networks of 2048 agents (hypercube, Erdos-Renyi, geometric, grid; up to 25 rounds)
weights changed at random moved exposures by less than this estimate.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

SETTLED = 1e-6  # directions of at least this size are kept
WEAK = 0.05  # directions below this size are cleaned a second time
ROUNDING = 2e-15


class Space(NamedTuple):
    """How much of every agent's value lies in what was heard."""

    exposed: np.ndarray  # [K] squared length of the projection of e_u
    reached: np.ndarray  # [K] whether anything of u can have arrived
    depth: int  # the last round, or message, from which something was left out; 0 if nothing was
    rank: int  # directions kept up to there, the attacker's own among them
    error: float  # estimated effect of rounding on `exposed`


def krylov_space(weights: sparse.csr_array, attacker: int, senders: np.ndarray, rounds: int, symmetric: bool) -> Space:
    """What the attacker hears in so many rounds of fixed weights."""
    order, ends = _by_distance(weights, senders, attacker, rounds)
    own, far = len(senders) + 1, len(order) - len(senders) - 1
    near = weights[order[own:]]
    candidates, inside = near[:, senders].toarray(), near[:, order[own:]]
    sizes = np.linalg.norm(candidates, axis=0)
    candidates = candidates[:, sizes > 0] / sizes[sizes > 0]  # a neighbour without far neighbours adds nothing, exactly
    basis = np.zeros((far, min(far, (rounds - 1) * candidates.shape[1])), order="F")
    starts, depth, smallest = [0], 0, 1.0
    for heard in range(1, rounds):
        width = candidates.shape[1]
        if not width:
            break
        first = starts[max(len(starts) - 3, 0)] if symmetric else 0
        end = ends[heard] - own  # nothing has come from farther away
        block, least = _new_directions(candidates[:end], basis[:end], first, starts[-1])
        if block.shape[1] < width:
            depth = heard
        starts.append(starts[-1] + block.shape[1])
        basis[:end, starts[-2] : starts[-1]] = block
        smallest = min(smallest, least)
        candidates = inside @ basis[:, starts[-2] : starts[-1]]
    rank, full = starts[-1], starts[-1] == far
    exposed, reached = np.zeros(weights.shape[0]), np.zeros(weights.shape[0], dtype=bool)
    exposed[order[own:]] = 1.0 if full else np.einsum("ij,ij->i", basis[:, :rank], basis[:, :rank])
    exposed[order[:own]], reached[order] = 1.0, True
    error = 0.0 if full or rank == 0 else ROUNDING * rounds / smallest**2
    return Space(exposed, reached, 0 if full else depth, own + starts[depth], error)


def _by_distance(
    weights: sparse.csr_array, senders: np.ndarray, attacker: int, rounds: int
) -> tuple[np.ndarray, list[int]]:
    """(attacker, senders and all others from whom something can have arrived, nearest first; how many of them after each round)."""
    found = np.zeros(weights.shape[0], dtype=bool)
    found[senders] = found[attacker] = True
    layers = [np.append(attacker, senders)]
    for _ in range(rounds - 1):
        new = np.asarray((weights @ found.astype(float)) > 0) & ~found
        layers.append(np.flatnonzero(new))
        found |= new
    return np.concatenate(layers), np.cumsum([len(layer) for layer in layers]).tolist()


def _new_directions(candidates: np.ndarray, basis: np.ndarray, first: int, end: int) -> tuple[np.ndarray, float]:
    """(orthonormal block of what the candidates add to the first `end` columns, its smallest size)."""
    for begin in (first, 0):
        known = basis[:, begin:end]
        candidates = candidates - known @ (known.T @ candidates)
    squares, turn = np.linalg.eigh(candidates.T @ candidates)
    sizes = np.sqrt(np.maximum(squares, 0.0))
    keep = sizes >= SETTLED
    if not keep.any():
        return candidates[:, :0], 1.0
    block = candidates @ (turn[:, keep] / sizes[keep])
    weak = sizes[keep] < WEAK
    if weak.any():
        known = basis[:, :end]
        block[:, weak] -= known @ (known.T @ block[:, weak])
    block = _orthonormal(_orthonormal(block)) if sizes[keep][0] < 1e-3 else _orthonormal(block)
    return block, float(sizes[keep][0])


def _orthonormal(block: np.ndarray) -> np.ndarray:
    """Columns that are orthonormal but for rounding, made so; any turn within their span will do."""
    squares, turn = np.linalg.eigh(block.T @ block)
    return np.asarray(block @ (turn / np.sqrt(squares)))


def listed_space(vectors: np.ndarray, attacker: int) -> Space:
    """What the attacker hears when the vectors of its messages are given: [n, K], non-negative, in the order of their arrival."""
    num_agents = vectors.shape[1]
    basis, sizes, depth, rank = np.zeros((min(len(vectors), num_agents) + 1, num_agents)), [1.0], 0, 1
    basis[0, attacker] = 1.0
    for i, vector in enumerate(vectors):
        left = vector / np.linalg.norm(vector)
        size = 1.0
        for _ in range(2):
            known = basis[: len(sizes)]
            left = left - known.T @ (known @ left)
            size *= float(np.linalg.norm(left))
            if size < SETTLED:
                break
            left = left / np.linalg.norm(left)
        if size < SETTLED:
            depth, rank = i + 1, len(sizes)
        else:
            basis[len(sizes)] = left
            sizes.append(size)
    reached = np.asarray((vectors > 0).any(axis=0))
    reached[attacker] = True
    full = len(sizes) == reached.sum()
    exposed = reached.astype(float) if full else (basis**2).sum(axis=0)
    error = 0.0 if full else ROUNDING * len(vectors) / min(sizes) ** 2
    return Space(exposed, reached, 0 if full else depth, rank, error)
