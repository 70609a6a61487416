"""The problem of pair keys in numbers: who shares a source with whom, what has to stay hidden from whom, and at which price.

Agent k adds d_k z_k and, for every pair e = {i, j} it belongs to, c_ke z_e; all sources are independent and of variance one. Hence

    S = Diag(d^2) + sum_e c_e c_e',                                     c_e zero but at i and j,

and with any positive semi-definite 2 x 2 block M_e in place of c_e c_e' the same covariances arise: what a block has beyond one source is
diagonal and can be own noise (`one_source_each`). In (d^2, M) the problem is convex:

    minimise    tr(G S)
    such that   [S_b^-1]_pp <= kappa_bp     for every view b and every agent p honest in it,
                d_k^2 >= floor_k,   S_kk <= cap_k.

A view is the reader of every message (nobody colludes, S_b = S) or a coalition: its members' own sources and every source they share are
known, so S_b is made of the honest agents and of the pairs with two honest ends.

Units. `Units` divides agent k's noise by the least std its targets need, 1 / sqrt(min_b kappa_bk), and the price by that of own noise alone.
Own noise then has variance one (or the floor, where that is larger), and all solvers see numbers near one.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Floats = NDArray[np.float64]


class PairProblem(NamedTuple):
    """Inputs, checked. K agents, m pairs, B views, of which the first is the reader of every message."""

    price: Floats  # [K, K], positive semi-definite
    kappa: Floats  # [B, K], infinite where nothing is asked: members, and agents without a target
    honest: NDArray[np.bool_]  # [B, K]
    pairs: NDArray[np.int64]  # [m, 2], two different agents each
    floor: Floats  # [K]
    cap: Floats  # [K], infinite where there is none

    @property
    def honest_pairs(self) -> NDArray[np.bool_]:
        """[B, m]: pairs with two honest ends."""
        return np.asarray(self.honest[:, self.pairs].all(axis=2), dtype=bool)

    @property
    def own_variances(self) -> Floats:
        """[K] the least variances that meet everything without any pair; no noise at all has smaller ones on the diagonal."""
        return np.asarray(np.maximum(self.floor, 1.0 / self.kappa.min(axis=0)))


@dataclass(frozen=True, slots=True)
class Units:
    """What the numbers of a problem were divided by."""

    stds: Floats  # [K]
    price: float

    @classmethod
    def of(cls, problem: PairProblem) -> "Units":
        """Units in which own noise has variance one and the price one."""
        stds = 1.0 / np.sqrt(problem.kappa.min(axis=0))
        return cls(stds, float(np.diag(problem.price) @ problem.own_variances))

    def divide(self, problem: PairProblem) -> PairProblem:
        """The same problem in these units."""
        variances = self.stds**2
        return problem._replace(
            price=problem.price * np.outer(self.stds, self.stds) / self.price,
            kappa=problem.kappa * variances,
            floor=problem.floor / variances,
            cap=problem.cap / variances,
        )


class Blocks(NamedTuple):
    """A point: own variances and one 2 x 2 block per pair."""

    own: Floats  # [K]
    first: Floats  # [m], the block's entry at the first agent of a pair
    second: Floats  # [m], at the second
    cross: Floats  # [m], between them


def blocks_of(own: Floats, factors: Floats) -> Blocks:
    """The blocks of own variances [K] and factors [m, 2], one source per pair."""
    return Blocks(own, factors[:, 0] ** 2, factors[:, 1] ** 2, factors[:, 0] * factors[:, 1])


def one_source_each(problem: PairProblem, blocks: Blocks) -> tuple[Floats, Floats]:
    """Own variances [K] and factors [m, 2] of one source per pair that have exactly the covariance of these blocks.

    With rho = cross / sqrt(first second) the factors are sqrt(first |rho|) and sqrt(second |rho|), the sign of rho at the second. They leave
    (1 - |rho|) of both diagonal entries, which becomes own noise: S is the same, and what a coalition does not know can only have grown.
    """
    root = np.sqrt(blocks.first * blocks.second)
    rho = np.divide(blocks.cross, root, out=np.zeros_like(root), where=root > 0.0)
    share = np.minimum(np.abs(rho), 1.0)
    factors = np.stack([np.sqrt(blocks.first * share), np.sign(rho) * np.sqrt(blocks.second * share)], axis=1)
    own = blocks.own.copy()
    np.add.at(own, problem.pairs, np.stack([blocks.first, blocks.second], axis=1) * (1.0 - share)[:, None])
    return own, factors


def covariances(problem: PairProblem, blocks: Blocks, views: slice = slice(None)) -> Floats:
    """[B, K, K] the S_b of these views; a member has variance one and shares nothing, which leaves the inverse of the rest alone."""
    (i, j), count = problem.pairs.T, len(blocks.own)
    honest = problem.honest[views]
    kept = problem.honest_pairs[views].T.astype(np.float64)  # [m, B]
    entries = np.zeros((count * count, len(honest)))
    entries[:: count + 1] = np.where(honest, blocks.own, 1.0).T
    # an agent is in many pairs, and a pair may be listed more than once: add.at adds them all
    np.add.at(entries, i * (count + 1), kept * blocks.first[:, None])
    np.add.at(entries, j * (count + 1), kept * blocks.second[:, None])
    np.add.at(entries, i * count + j, kept * blocks.cross[:, None])
    np.add.at(entries, j * count + i, kept * blocks.cross[:, None])
    return np.ascontiguousarray(entries.T).reshape(-1, count, count)


def largest_ratio(problem: PairProblem, blocks: Blocks) -> float:
    """Max over views b and agents p of [S_b^-1]_pp / kappa_bp: one where everything is met and something exactly; infinite if S is singular."""
    largest = 0.0
    for view in range(len(problem.kappa)):
        s = covariances(problem, blocks, slice(view, view + 1))[0]
        try:
            lower = linalg.cholesky(s, lower=True, check_finite=False)
        except linalg.LinAlgError:
            return np.inf
        # [S^-1]_pp is the squared norm of column p of L^-1
        inverse = linalg.solve_triangular(lower, np.eye(len(s)), lower=True, check_finite=False)
        largest = max(largest, float(((inverse**2).sum(axis=0) / problem.kappa[view]).max()))
    return largest
