"""Who shares which stream of noise with whom, and what each coalition would learn: what agents need to make a designed noise themselves."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sottovoce.reprs import short_repr

MOST_AGENTS_IN_PAIRS = 60  # up to which what any two agents learn is listed

ROUNDING = 64 * np.finfo(float).eps  # per agent, of the largest eigenvalue
BLUR = 8 * np.finfo(float).eps  # of the largest eigenvalue: how far the others may be off


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPlan:
    """The streams of a designed noise. All are independent Gaussian numbers of std one, fresh in every round and coordinate.

    Attributes:
        own: [K] what agent k multiplies a stream of its own with.
        pairs: [m, 2] agents that share a stream.
        factors: [m, 2] what the two of them multiply it with.
        joint: [K, K] in place of these: factors of a generator, which tells agent k row k of the product alone.
        unit_mu: [K] what a reader of all messages would learn of each agent under own noise of variance one.
    """

    own: np.ndarray
    pairs: np.ndarray
    factors: np.ndarray
    joint: np.ndarray | None
    unit_mu: np.ndarray

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def covariance(self) -> np.ndarray:
        """[K, K] of what agents add in a round, in each coordinate."""
        return self._honest(np.zeros(len(self.own), dtype=bool))

    def of_agent(self, agent: int) -> dict[str, Any]:
        """What one agent adds: {"own": factor, "shared": {partner: factor}}; under a generator {"told": std of what it is told}."""
        if self.joint is not None:
            return {"told": float(np.linalg.norm(self.joint[agent]))}
        shared = {}
        for (first, second), (a, b) in zip(self.pairs.tolist(), self.factors.tolist(), strict=True):
            if agent in (first, second):
                shared[second if agent == first else first] = a if agent == first else b
        return {"own": float(self.own[agent]), "shared": shared}

    def learnt_by(self, size: int) -> dict[tuple[int, ...], float]:
        """What every coalition of so many agents that also reads all messages would learn of the agent it learns most of, as a mu.

        The value is that of sent messages: every message is given to the coalition, also those that it would not hear.
        """
        num_agents = len(self.own)
        found = {}
        for members in combinations(range(num_agents), size):
            out = np.isin(np.arange(num_agents), members)
            found[members] = float(self._learnt(out).max())
        return found

    def _learnt(self, members: np.ndarray) -> np.ndarray:
        """[honest agents] mu; infinite where a message has no noise left."""
        honest = ~members
        if self.joint is not None:  # a member knows its own sum, which the reader of its message has too
            precision = np.linalg.inv(self.covariance)
            return np.asarray(self.unit_mu[honest] * np.sqrt(np.diag(precision)[honest]))
        S = self._honest(members)[np.ix_(honest, honest)]
        sizes = np.sqrt(np.diag(S))
        if (sizes == 0).any():
            return np.full(int(honest.sum()), np.inf)
        values, vectors = np.linalg.eigh(S / np.outer(sizes, sizes))
        # As the accountant does it: what rounding may have made is no noise, and a small variance is taken no larger than it can be.
        if values[0] <= ROUNDING * len(self.own) * values[-1]:
            return np.full(int(honest.sum()), np.inf)
        return np.asarray(
            self.unit_mu[honest] * np.sqrt((vectors**2 / (values - BLUR * values[-1])).sum(axis=1)) / sizes
        )

    def _honest(self, members: np.ndarray) -> np.ndarray:
        """Covariance of what is left when every stream that a member knows is taken away."""
        if self.joint is not None:
            return np.asarray(self.joint @ self.joint.T)
        S = np.diag(np.where(members, 0.0, self.own**2))
        for (i, j), column in zip(self.pairs, self.factors, strict=True):
            if not members[i] and not members[j]:
                S[np.ix_([i, j], [i, j])] += np.outer(column, column)
        return S

    def describe(self) -> dict[str, Any]:
        """Plain values for a file."""
        if self.joint is not None:
            return {"kind": "joint generator", "agents": [self.of_agent(k) for k in range(len(self.own))]}
        num_agents = len(self.own)
        sizes = (1, 2) if num_agents <= MOST_AGENTS_IN_PAIRS else (1,)
        streams = [
            {"agents": [int(i), int(j)], "factors": [float(a), float(b)]}
            for (i, j), (a, b) in zip(self.pairs, self.factors, strict=True)
        ]
        learnt = [
            {"agents": list(members), "mu": mu if np.isfinite(mu) else None}
            for size in sizes
            if size < num_agents
            for members, mu in self.learnt_by(size).items()
        ]
        return {"kind": "own and pair keys", "own": self.own.tolist(), "streams": streams, "coalitions": learnt}
