"""Noise schemes given as tables, and the stacked view of ATC under them, written out by hand.

In a scheme of tables agent k adds n_k = sum_s factors[k, s] z_s to all that it sends and to its own copy. `stacked` sends unit impulses of all
gradients and sources through w <- A' (w - step g + n) and keeps the rows that somebody reads, as in `brute_force`.
"""

from collections.abc import Sequence

import numpy as np

import sottovoce as sv
from accounting.brute_force import Stack
from sottovoce.noise import GENERATOR, Noise, NoiseMap


def owners_table(owners: Sequence[Sequence[int]]) -> np.ndarray:
    """[S, w] filled up with -1."""
    width = max(2, *(len(row) for row in owners))
    return np.array([[*row, *([-1] * (width - len(row)))] for row in owners])


def table_spread(factors: np.ndarray, owners: np.ndarray):
    """The map of a table, for `Noise`."""

    def spread(links) -> NoiseMap:
        agent, source = np.nonzero(factors)
        link, column = np.nonzero(factors[links.senders])
        return NoiseMap(
            owners=owners,
            link_index=link,
            link_source=column,
            link_value=factors[links.senders[link], column],
            self_index=agent,
            self_source=source,
            self_value=factors[agent, source],
        )

    return spread


def table_noise(factors: np.ndarray, owners: Sequence[Sequence[int]], *, std: float = 1.0, law=None) -> Noise:
    """The scheme of one table."""
    law = sv.noise.Gaussian(std=std) if law is None else law
    return Noise(name="table", law=law, spread=table_spread(np.asarray(factors, float), owners_table(owners)))


def generated_noise(factors: np.ndarray, *, std: float = 1.0, law=None) -> Noise:
    """The scheme of one table, drawn by a generator."""
    return table_noise(factors, [[GENERATOR]] * np.shape(factors)[1], std=std, law=law)


def stacked(
    A: np.ndarray,
    step: float,
    factors: Sequence[np.ndarray],
    *,
    known: Sequence[np.ndarray] | None = None,
    members: Sequence[int] = (),
    everything: bool = False,
    told: bool = False,
    final: bool = False,
    memory: np.ndarray | None = None,
) -> Stack:
    """What is read of len(factors) rounds.

    Args:
        A: weights, column k those of receiver k.
        step: of the gradients.
        factors: per round [K, S_t] what agents add of unit sources, scale included.
        known: per round [S_t] bool, sources without a secret; None: there are none.
        members: agents who read what is sent to them.
        everything: all messages are read.
        told: members know what they add themselves, as a sum.
        final: the average of the last models is read.
        memory: [T, lags, K] what agents take away again of what they added before; None: nothing.
    """
    K, T = len(A), len(factors)
    sizes = [table.shape[1] for table in factors]
    width, start = T * K + sum(sizes), T * K
    hidden = np.ones(width, dtype=bool)
    w, rows = np.zeros((K, width)), []
    added: list[np.ndarray] = []
    for t, table in enumerate(factors):
        columns = slice(start, start + sizes[t])
        start += sizes[t]
        if known is not None:
            hidden[columns] = ~known[t]
        sent = w.copy()
        sent[np.arange(K), t * K + np.arange(K)] -= step
        noise = np.zeros((K, width))
        noise[:, columns] = table
        for lag in range(min(t, 0 if memory is None else memory.shape[1])):
            noise -= memory[t, lag][:, None] * added[t - lag - 1]
        added.append(noise)
        sent += noise
        read = [k for k in range(K) if everything or any(A[k, m] > 0 and m != k for m in members)]
        rows.extend(sent[read])
        if told:
            own = noise[list(members)]
            own[:, ~hidden] = 0.0
            rows.extend(own)
        w = A.T @ sent
    if final:
        rows.append(w.mean(axis=0))
    seen = np.array(rows)
    size = 1e-12 * max(np.abs(table).max() for table in factors)
    return Stack(seen[:, : T * K].reshape(-1, T, K), seen[:, T * K :][:, hidden[T * K :]], size)
