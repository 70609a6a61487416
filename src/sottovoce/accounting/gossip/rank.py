"""How many directions a list of gossip messages spans, in exact arithmetic modulo primes.

The message x_w(t) is the map x(0) -> e_w' A_{t-1}' ... A_0' x(0), so its vector is g_wt = A_0 ... A_{t-1} e_w. Floating-point numbers cannot
tell a direction that is not there from one that is small. Whole numbers can: with rational weights the g_wt are vectors over the
rationals, and

    rank_p(R g) <= rank(g)      for every prime p and every matrix R over the integers modulo p,

with equality unless p divides one particular minor or R is unlucky, of probability below n / p for n messages and random R. We take R with
n + 8 random rows, two primes near 2^23, and the larger rank. A rank found in this way is never too large. It is too small only if both
primes fail, and `gossip` uses it only where floating-point numbers say the same; for n = 300 and independent failures that is 1e-9.

Weights such as 1/3 are taken as the fractions they stand for, and self-weights as one minus the other weights of the column. Weights
that are no simple fraction are taken as the binary fractions they are stored as.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

PRIMES = (8388593, 8388587)  # below 2^23: sums of 64 products of centred residues are exact in float64
PANEL = 32
SPARE_ROWS = 8
LARGEST_DENOMINATOR = 10**6
HELD = 2e7  # numbers of all message lists that are held at once
LARGEST_LIST = 6000  # messages in one list; longer lists are left undecided

Step: TypeAlias = sparse.csr_array | tuple[int, int]  # combination weights, or a pair that averages


class Messages(NamedTuple):
    """What one observer received: message i was sent by senders[i] before step times[i] was taken."""

    times: np.ndarray  # [n], not decreasing
    senders: np.ndarray  # [n]


def as_fraction(weight: float) -> Fraction:
    """The fraction of small denominator that is stored as this number; else the number itself, which is a binary fraction."""
    simple = Fraction(weight).limit_denominator(LARGEST_DENOMINATOR)
    return simple if abs(float(simple) - weight) <= 4e-16 * abs(weight) else Fraction(weight)


def exact_entries(weights: sparse.csr_array) -> tuple[np.ndarray, np.ndarray, list[Fraction]]:
    """(rows, columns, values) of the weights as fractions whose columns sum to one."""
    given = sparse.coo_array(weights)
    off = (given.row != given.col) & (given.data != 0)
    rows, columns = given.row[off], given.col[off]
    known = {weight: as_fraction(weight) for weight in np.unique(given.data[off]).tolist()}
    values = [known[weight] for weight in given.data[off].tolist()]
    own = [Fraction(1)] * weights.shape[0]
    for column, value in zip(columns.tolist(), values, strict=True):
        own[column] -= value
    everyone = np.arange(weights.shape[0])
    return np.concatenate([rows, everyone]), np.concatenate([columns, everyone]), values + own


def exact_ranks(steps: Sequence[Step], num_agents: int, requests: Sequence[Messages]) -> np.ndarray:
    """The number of independent directions in each list of messages; -1 where the list is too long to decide."""
    ranks = np.full(len(requests), -1)
    for batch in _batches(requests):
        chosen = [requests[i] for i in batch]
        for prime in PRIMES:
            ranks[batch] = np.maximum(ranks[batch], _ranks_modulo(steps, num_agents, chosen, prime))
    return ranks


def _batches(requests: Sequence[Messages]) -> Iterator[list[int]]:
    batch: list[int] = []
    held = 0.0
    for i, request in enumerate(requests):
        size = len(request.times)
        if size > LARGEST_LIST:
            continue
        if batch and held + size**2 > HELD:
            yield batch
            batch, held = [], 0.0
        batch.append(i)
        held += size**2
    if batch:
        yield batch


def _ranks_modulo(steps: Sequence[Step], num_agents: int, requests: Sequence[Messages], prime: int) -> list[int]:
    sizes = [len(request.times) + SPARE_ROWS for request in requests]
    last = max(int(request.times[-1]) for request in requests)
    generator = np.random.default_rng(prime)
    # Row i holds r_i' A_0 ... A_{t-1}: the random combination r_i of every agent's message at time t.
    combined = generator.integers(0, prime, size=(max(sizes), num_agents))
    tables = [np.empty((size, size - SPARE_ROWS)) for size in sizes]
    residues: dict[int, sparse.csc_array] = {}
    for time in range(last + 1):
        for request, size, table in zip(requests, sizes, tables, strict=True):
            sent = request.times == time
            table[:, sent] = combined[:size, request.senders[sent]]
        if time < last:
            combined = _after(combined, steps[time], prime, residues)
    return [rank_modulo(table, prime) for table in tables]


def _after(combined: np.ndarray, step: Step, prime: int, residues: dict[int, sparse.csc_array]) -> np.ndarray:
    if isinstance(step, tuple):
        pair, half = np.array(step), (prime + 1) // 2
        combined[:, pair] = (combined[:, pair].sum(axis=1, keepdims=True) * half) % prime
        return combined
    if id(step) not in residues:
        residues[id(step)] = _residues(step, prime)
    # 46 bits a product: exact in 64-bit integers for agents with up to 2^17 neighbours.
    return np.asarray((residues[id(step)] @ combined.T).T % prime)


def _residues(weights: sparse.csr_array, prime: int) -> sparse.csc_array:
    """The transposed weights modulo the prime."""
    rows, columns, values = exact_entries(weights)

    @cache
    def residue(value: Fraction) -> int:
        return value.numerator * pow(value.denominator, -1, prime) % prime

    entries = np.array([residue(value) for value in values], dtype=np.int64)
    return sparse.csr_array((entries, (columns, rows)), shape=weights.shape)


def rank_modulo(matrix: np.ndarray, prime: int) -> int:
    """The rank of a matrix of whole numbers modulo a prime below 2^23, by elimination in panels of columns."""
    left, rank = _centred(np.array(matrix, dtype=float), prime), 0
    while left.size:
        pivots, factors = _eliminate(left[:, :PANEL].copy(), prime)
        later = left[:, PANEL:]
        rows = np.zeros((len(pivots), later.shape[1]))
        for k, pivot in enumerate(pivots):
            rows[k] = _centred(later[pivot] - factors[:k, pivot] @ rows[:k], prime)
        left = np.delete(_centred(later - factors.T @ rows, prime), pivots, axis=0)
        rank += len(pivots)
    return rank


def _eliminate(panel: np.ndarray, prime: int) -> tuple[list[int], np.ndarray]:
    """(pivot rows, [pivots, rows] how much of each pivot row was taken from every other row)."""
    free = np.ones(len(panel), dtype=bool)
    pivots: list[int] = []
    factors: list[np.ndarray] = []
    for column in range(panel.shape[1]):
        candidates = np.flatnonzero(free & (panel[:, column] != 0))
        if not len(candidates):
            continue
        pivot = int(candidates[0])
        free[pivot] = False
        inverse = pow(int(panel[pivot, column]), -1, prime)
        inverse -= prime * (inverse > prime // 2)
        factor = np.where(free, _centred(panel[:, column] * inverse, prime), 0.0)
        panel[:, column:] = _centred(panel[:, column:] - np.outer(factor, panel[pivot, column:]), prime)
        pivots.append(pivot)
        factors.append(factor)
    return pivots, np.array(factors).reshape(len(factors), len(panel))


def _centred(values: np.ndarray, prime: int) -> np.ndarray:
    """The same residues, between -prime / 2 and prime / 2."""
    return np.asarray(values - prime * np.rint(values / prime))
