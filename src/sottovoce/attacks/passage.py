"""A linear run as an observer reads it, followed forwards to innovations and backwards to weights on what was read.

Per coordinate x' = F x + G g + N z, y = H x + D g + M z, sources that the observer knows left out (linear/network.py). Forwards, the
square-root filter of accounting/linear_view/innovations.py carries a root L of the state's conditional covariance and the shift X of its conditional mean
when one agent's gradients change by c_t. With [M, H L] = U S V' in every round,

    w = S^-1 U' (H X + D c_t),   a_t = U S^-1 w,   K_t = [N, F L] V S^-1 U',   mu^2 = sum_t w'w,

and sum_t a_t' (y_t - H x_t), with the estimate x_{t+1} = F x_t + K_t (y_t - H x_t), is the log-likelihood ratio up to a constant. Backwards,
the weights on y itself are

    W_t = a_t + K_t' p_{t+1},     p_t = F' p_{t+1} - H' W_t,     p_{T+1} = 0,

and the same rows followed down to sources, gradients and the first model say what the weighted sum holds of each. A shift outside the range of
U is read without noise: there the sum is the part outside, scaled so that it moves by one.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sottovoce.accounting.linear_view.innovations import RESIDUAL_TOLERANCE, ROUNDING, compressed_root, noisy_range
from sottovoce.errors import IncompatibleChoice
from sottovoce.linear import NetworkRound, Rounds, SeenRows, distinct_rows, seen_rows, sources_known
from sottovoce.noise import same_structure
from sottovoce.observers import View


class Gathered(NamedTuple):
    """The fields of a filter that are weights."""

    messages: tuple[np.ndarray, ...]
    broadcast: tuple[np.ndarray, ...]
    final_model: np.ndarray
    sources: tuple[np.ndarray, ...]
    gradients: np.ndarray
    start: np.ndarray


class PassageRound(NamedTuple):
    """One distinct round, dense; the observation rows without repetitions."""

    network: NetworkRound
    seen: SeenRows
    kept: np.ndarray  # where the rows that count stand among all recorded ones
    rows: sparse.csr_array  # these rows, over all columns
    F: np.ndarray
    G: np.ndarray  # [n] of the agent
    N: np.ndarray
    H: np.ndarray
    D: np.ndarray  # [m]
    M: np.ndarray


class Forwards(NamedTuple):
    """What the filter leaves for the way back: weights on innovations, and gains."""

    weights: list[np.ndarray]  # per round [m, r]
    gains: list[np.ndarray]  # per round [n, m]
    squared: float
    clear_round: int
    column: int  # which direction is in clear


class Passage(NamedTuple):
    """A run as an observer sees it, to be followed forwards and backwards."""

    rounds: list[PassageRound]  # one entry per round; equal rounds share one object
    scales: np.ndarray
    known: list[np.ndarray]  # per round [q] bool

    @staticmethod
    def of(bound: Rounds, networks: list[NetworkRound], seen: View, agent: int) -> "Passage":
        """What the observer reads of every round, and how it depends on the agent."""
        q = bound.centroid.weights
        made = [_dense_round(network, seen, agent, last=False, centroid=q) for network in networks]
        every = [made[index] for index in bound.which]
        if seen.final_model:
            every[-1] = _dense_round(networks[bound.which[-1]], seen, agent, last=True, centroid=q)
        masks = [sources_known(network, seen) for network in networks]
        if seen.members.any() or any(mask.any() for mask in masks):
            _refuse_other_sources(bound)
        return Passage(every, bound.scales, [masks[index] for index in bound.which])

    def forwards(self, direction: np.ndarray) -> Forwards:
        """The square-root filter on the shifts of these directions; it stops where one of them is in clear."""
        n, r = self.rounds[0].F.shape[0], direction.shape[1]
        L, X, sizes, noise_size = np.zeros((n, 0)), np.zeros((n, r)), np.zeros((n, r)), 0.0
        squared = 0.0
        weights: list[np.ndarray] = []
        gains: list[np.ndarray] = []
        for t, one in enumerate(self.rounds):
            scale = self.scales[t]
            noise_size = max(noise_size, scale * max(np.abs(part).max(initial=0.0) for part in (one.M, one.N)))
            observed, carried = np.hstack([scale * one.M, one.H @ L]), np.hstack([scale * one.N, one.F @ L])
            shift = one.H @ X + np.outer(one.D, direction[t])
            size = np.abs(one.H) @ sizes + np.abs(np.outer(one.D, direction[t]))
            U, S, V, _ = noisy_range(observed, noise_size)
            outside = shift - U @ (U.T @ shift)
            lengths = np.linalg.norm(outside, axis=0)
            clear = lengths > RESIDUAL_TOLERANCE * np.linalg.norm(shift, axis=0)
            clear &= lengths > 100 * ROUNDING * np.linalg.norm(size, axis=0)
            if clear.any():
                column = int(np.argmax(np.where(clear, lengths, -1.0)))
                reads = np.zeros_like(shift)
                reads[:, column] = outside[:, column] / lengths[column] ** 2
                return Forwards([*weights, reads], gains, math.inf, t + 1, column)
            white = (U.T @ shift) / S[:, None]
            weights.append(U @ (white / S[:, None]))
            gains.append(((carried @ V) / S) @ U.T)
            squared += float(np.sum(white**2))
            moved = one.F @ X + np.outer(one.G, direction[t])
            X = moved - (carried @ V) @ white
            np.maximum(sizes, np.abs(moved), out=sizes)
            L = compressed_root(carried - (carried @ V) @ V.T, noise_size)
        return Forwards(weights, gains, squared, 0, 0)

    def backwards(self, found: Forwards) -> list[np.ndarray]:
        """Per round [m, r]: the weights on what is read itself."""
        T, (n, r) = len(self.rounds), (self.rounds[0].F.shape[0], found.weights[0].shape[1])
        weights = [np.zeros((len(one.kept), r)) for one in self.rounds]
        if found.clear_round:  # earlier rounds only take out what the combination holds of the past
            weights[found.clear_round - 1] = found.weights[-1]
            costate = -self.rounds[found.clear_round - 1].H.T @ found.weights[-1]
            last = found.clear_round - 1
        else:
            costate, last = np.zeros((n, r)), T
        for t in range(last - 1, -1, -1):
            own = 0.0 if found.clear_round else found.weights[t]
            weights[t] = own + found.gains[t].T @ costate
            costate = self.rounds[t].F.T @ costate - self.rounds[t].H.T @ weights[t]
        return weights

    def gather(self, weights: list[np.ndarray], start: np.ndarray) -> Gathered:
        """Put weights where a recorded view has its rows, and follow them back to sources, gradients and the first model."""
        T, r, network = len(self.rounds), weights[0].shape[1], self.rounds[0].network
        K, n = network.num_agents, network.num_states
        costate = np.zeros((n, r))
        on_gradients, on_sources = np.zeros((T, K, r)), [np.zeros(0)] * T
        for t in range(T - 1, -1, -1):
            one = self.rounds[t]
            back = one.rows.T @ weights[t] + one.network.state.T @ costate  # [n + K + q, r]
            costate, on_gradients[t] = back[:n], back[n : n + K]
            on_sources[t] = back[n + K :]
        placed = []
        for one, W in zip(self.rounds, weights, strict=True):
            full = np.zeros((_recorded(one.seen), r))
            full[one.kept] = W
            placed.append(full)
        counts = [rows.shape[0] for rows in self.rounds[0].seen.messages]
        ends = np.cumsum([0, *counts])
        messages = tuple(np.stack([W[a:b] for W in placed]) for a, b in pairwise(ends))
        heard = len(self.rounds[0].seen.broadcast)
        broadcast = tuple(np.stack([W[ends[-1] + j] for W in placed]) for j in range(heard))
        start_told = [ends[-1] + heard + one.seen.final_model.shape[0] for one in self.rounds]
        final = placed[-1][ends[-1] + heard : start_told[-1]].sum(axis=0)
        told = [W[a:] for W, a in zip(placed, start_told, strict=True)]
        of_agents = costate[: len(start) * K]  # noise of earlier rounds starts at zero
        blocks = of_agents.reshape(len(start), K, r).sum(axis=1)
        return Gathered(messages, broadcast, final, self._by_exchange(on_sources, told), on_gradients, start @ blocks)

    def _by_exchange(self, on_sources: list[np.ndarray], told: list[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The weights of known sources, exchange by exchange as a recorded view lists them.

        Sums that a generator has told members follow the sources of their exchange. They are read, not taken out, and what is known is
        subtracted in a score: hence their sign.
        """
        lists = []
        for one, V, known, W in zip(self.rounds, on_sources, self.known, told, strict=True):
            ends = np.cumsum([0, *one.network.sources])
            parts = [V[a:b][known[a:b]] for a, b in pairwise(ends)]
            first = 0
            for e, rows in enumerate(one.seen.told):
                parts[e] = np.concatenate([parts[e], -W[first : first + rows.shape[0]]])
                first += rows.shape[0]
            lists.append(parts)
        return tuple(np.stack(parts) for parts in zip(*lists, strict=True))


def _refuse_other_sources(bound: Rounds) -> None:
    """Refuse rounds whose sources go to other places: a recorded view lists the sources of each of them apart, a filter does not."""
    first, *others = [one.exchanges for one in bound.distinct]
    if not all(same_structure(a.noise, b.noise) for other in others for a, b in zip(first, other, strict=True)):
        raise IncompatibleChoice(
            "the observer knows sources that go to different places in different rounds, which the matched filter cannot follow. Use a scheme whose "
            "sources belong to agents or links, or a fixed topology."
        )


def _dense_round(network: NetworkRound, seen: View, agent: int, *, last: bool, centroid: np.ndarray) -> PassageRound:
    recorded = seen_rows(network, seen, last=last, centroid=centroid)
    rows = sparse.vstack([*recorded.messages, *recorded.broadcast, recorded.final_model, *recorded.told]).tocsr()
    heard = np.concatenate([*recorded.active, np.ones(rows.shape[0] - sum(map(len, recorded.active)), dtype=bool)])
    positions = np.flatnonzero(heard)
    kept = positions[distinct_rows(rows[positions])]
    n, K = network.num_states, network.num_agents
    hidden = np.flatnonzero(~sources_known(network, seen)) + n + K
    own = rows[kept]
    F, N, H, M = (part[:, columns].toarray() for part in (network.state, own) for columns in (slice(0, n), hidden))
    G, D = (part[:, [n + agent]].toarray()[:, 0] for part in (network.state, own))
    return PassageRound(network, recorded, kept, own, F, G, N, H, D, M)


def _recorded(seen: SeenRows) -> int:
    return sum(rows.shape[0] for rows in (*seen.messages, *seen.broadcast, seen.final_model, *seen.told))
