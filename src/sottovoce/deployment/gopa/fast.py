"""A whole round at once, in arrays: the integers of the message-passing form when fed the same sources.

    hat_u = x_u + eta_u + sum_{v ~ u, v in A} Delta_uv,   r_u = sum_{v ~ u, v dropped} Delta_uv,
    total = sum_u (hat_u - r_u)

Edge e = (i, j) with mask m_e stands for Delta_ij = +m_e and Delta_ji = -m_e, so that all masks together add K m with
the signed incidence matrix K of the pairs. K is kept sparse, with -1 as 2^64 - 1 in unsigned words: products and sums
wrap around modulo 2^64 by the rules of the language, and nothing is rounded. `play_round` wants all sources at once;
`play_blocks` draws and plays a few entries of the vectors at a time, so that long vectors fit. For up to a million
parties; sources come from a seeded generator, so nothing here protects anybody.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sottovoce.deployment.gopa.graph import k_out_edges
from sottovoce.deployment.integers import WORDS, Masks, RoundedGaussian, ring
from sottovoce.deployment.integers.masks import from_words, words_per_entry
from sottovoce.errors import ConfigError
from sottovoce.numbers import whole
from sottovoce.reprs import short_repr

_CHUNK = 2**20  # entries drawn at a time: bounds what the draws need on top of their result
_HELD = 2**24  # masks of one block of entries, unless asked otherwise


class Sources(NamedTuple):
    """All random numbers of one round.

    Attributes:
        edges: pairs (who adds the mask, who subtracts it), [E, 2] int64.
        masks: the pairs' masks, [E, d] uint64.
        own_noise: the parties' own noise in units, [n, d] int64.
    """

    edges: np.ndarray
    masks: np.ndarray
    own_noise: np.ndarray

    def __repr__(self) -> str:
        return short_repr(self)


class FastRound(NamedTuple):
    """What a round leaves behind.

    Attributes:
        published: hat_u, [n, d] uint64; zero for parties that did not publish.
        repairs: r_u, [n, d] uint64; zero for parties that repair nothing.
        total: the sum modulo 2^64, [d] uint64.
        residual_masks: number of masks that are still in the sum.
    """

    published: np.ndarray
    repairs: np.ndarray
    total: np.ndarray
    residual_masks: int

    def __repr__(self) -> str:
        return short_repr(self)


class Block(NamedTuple):
    """A round on some entries of the vectors.

    Attributes:
        columns: which entries.
        sources: the random numbers of these entries.
        played: what the round leaves behind in them.
    """

    columns: slice
    sources: Sources
    played: FastRound


def simulated_sources(
    seed: int, *, num_parties: int, dimension: int, out_degree: int, own_noise: RoundedGaussian, masks: Masks
) -> Sources:
    """Sources of one round from a seeded generator, for simulation only.

    Args:
        seed: of NumPy's generator.
        num_parties: how many take part.
        dimension: numbers in a party's vector.
        out_degree: others that every party picks.
        own_noise: law of each party's own noise.
        masks: law of the masks that pairs share.
    """
    generator = np.random.Generator(np.random.Philox(seed))
    edges = k_out_edges(generator.bytes(32), num_parties=num_parties, out_degree=out_degree)
    return _draw(generator, edges, (num_parties, dimension), own_noise, masks)


def play_round(
    units: np.ndarray,
    sources: Sources,
    *,
    active: np.ndarray | None = None,
    survivors: np.ndarray | None = None,
    repaired: np.ndarray | None = None,
) -> FastRound:
    """One round.

    Args:
        units: encoded vectors, [n, d] int64.
        sources: the round's random numbers.
        active: who is in the round at the freeze, [n] bool; all if not given.
        survivors: which of them publish, [n] bool; all if not given.
        repaired: which of those reveal their masks with silent parties, [n] bool; all if not given.
    """
    _check(units, sources)
    return _play(_plan(sources.edges, len(units), active, survivors, repaired), units, sources)


def play_blocks(
    units: np.ndarray,
    seed: int,
    *,
    out_degree: int,
    own_noise: RoundedGaussian,
    masks: Masks,
    survivors: np.ndarray | None = None,
    block: int | None = None,
) -> Iterator[Block]:
    """One round on long vectors, some entries at a time; one block of all entries is `play_round`.

    Args:
        units: encoded vectors, [n, d] int64; anything that gives columns, such as a file mapped into memory.
        seed: of the simulated sources.
        out_degree: k, picks of every party.
        own_noise: law of every party's own noise, in units.
        masks: law of the pairs' masks.
        survivors: who publishes, [n] bool; all if not given. Masks with the others are repaired.
        block: entries at a time. None: as many as keep a block's masks below 2^24 words, at least one.
    """
    if units.ndim != 2 or units.dtype != np.int64:
        raise ConfigError(
            f"The vectors have type {units.dtype} and shape {units.shape}; int64 of shape [n, d] is needed."
        )
    num_parties, dimension = units.shape
    generator = np.random.Generator(np.random.Philox(seed))
    edges = k_out_edges(generator.bytes(32), num_parties=num_parties, out_degree=out_degree)
    width = max(1, _HELD // len(edges)) if block is None else whole("block", block)
    plan = _plan(edges, num_parties, None, survivors, None)
    for start in range(0, dimension, width):
        columns = slice(start, min(start + width, dimension))
        sources = _draw(generator, edges, (num_parties, columns.stop - start), own_noise, masks)
        yield Block(columns, sources, _play(plan, units[:, columns], sources))


class _Plan(NamedTuple):
    """Who adds which masks where: the same for all entries."""

    survivors: np.ndarray  # [n] bool
    publish: sparse.csc_array  # [n, E] uint64
    repair: sparse.csc_array  # [n, E] uint64
    residual_masks: int


def _plan(
    edges: np.ndarray,
    num_parties: int,
    active: np.ndarray | None,
    survivors: np.ndarray | None,
    repaired: np.ndarray | None,
) -> _Plan:
    _check_choices(num_parties, [active, survivors, repaired])
    everyone = np.ones(num_parties, dtype=bool)
    active = everyone if active is None else active
    survivors = active & (everyone if survivors is None else survivors)
    repaired = survivors & (everyone if repaired is None else repaired)
    live, silent = active[edges].all(axis=1, keepdims=True), active & ~survivors
    opposite_silent = silent[edges[:, ::-1]]
    return _Plan(
        survivors=survivors,
        publish=_incidence(edges, num_parties, live & survivors[edges]),
        repair=_incidence(edges, num_parties, repaired[edges] & opposite_silent),
        residual_masks=int(((survivors & ~repaired)[edges] & opposite_silent).sum()),
    )


def _incidence(edges: np.ndarray, num_parties: int, ends: np.ndarray) -> sparse.csc_array:
    """[n, E] +1 at the first and -1 at the second end of every edge, modulo 2^64, at the chosen `ends`, [E, 2] bool."""
    kind = np.int32 if edges.size < 2**31 - 1 else np.int64
    starts = np.zeros(len(edges) + 1, dtype=kind)
    np.cumsum(ends.sum(axis=1), out=starts[1:])
    signs = np.broadcast_to(np.array([1, 2**64 - 1], dtype=np.uint64), edges.shape)
    return sparse.csc_array((signs[ends], edges[ends].astype(kind), starts), shape=(num_parties, len(edges)))


def _play(plan: _Plan, units: np.ndarray, sources: Sources) -> FastRound:
    published = ring(units) + ring(sources.own_noise)
    published += plan.publish @ sources.masks
    published[~plan.survivors] = 0
    repairs = plan.repair @ sources.masks if plan.repair.nnz else np.zeros_like(published)
    total = published.sum(axis=0, dtype=np.uint64) - repairs.sum(axis=0, dtype=np.uint64)
    return FastRound(published, repairs, total, plan.residual_masks)


def _draw(
    generator: np.random.Generator, edges: np.ndarray, shape: tuple[int, int], own_noise: RoundedGaussian, masks: Masks
) -> Sources:
    num_parties, dimension = shape
    noise = np.empty(num_parties * dimension, dtype=np.int64)
    for part in _chunks(len(noise)):
        noise[part] = own_noise.from_words(_words(generator, part, WORDS))
    values = np.empty(len(edges) * dimension, dtype=np.uint64)
    for part in _chunks(len(values)):
        values[part] = from_words(masks, _words(generator, part, words_per_entry(masks)))
    return Sources(edges, values.reshape(len(edges), dimension), noise.reshape(num_parties, dimension))


def _words(generator: np.random.Generator, part: slice, width: int) -> np.ndarray:
    return generator.integers(0, 2**64, size=(part.stop - part.start, width), dtype=np.uint64)


def _chunks(length: int) -> list[slice]:
    return [slice(start, min(start + _CHUNK, length)) for start in range(0, length, _CHUNK)]


def _check_choices(num_parties: int, choices: list[np.ndarray | None]) -> None:
    for chosen in choices:
        if chosen is not None and (chosen.dtype != np.bool_ or chosen.shape != (num_parties,)):
            raise ConfigError(
                f"Parties are chosen by {num_parties} booleans; got type {chosen.dtype} and shape {chosen.shape}. "
                f"Use np.isin(np.arange(n), numbers)."
            )


def _check(units: np.ndarray, sources: Sources) -> None:
    shape = sources.own_noise.shape
    if units.dtype != np.int64 or units.ndim != 2 or units.shape != shape:
        raise ConfigError(
            f"The vectors have type {units.dtype} and shape {units.shape}; int64 of shape {shape} is needed."
        )
    if sources.masks.shape != (len(sources.edges), shape[1]) or sources.masks.dtype != np.uint64:
        raise ConfigError(
            f"The masks have type {sources.masks.dtype} and shape {sources.masks.shape}; uint64 of shape "
            f"{(len(sources.edges), shape[1])} is needed."
        )
