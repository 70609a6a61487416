"""A whole round at once, in arrays: the integers of the message-passing form when fed the same sources.

    hat_u = x_u + eta_u + sum_{v ~ u, v in A} Delta_uv,   r_u = sum_{v ~ u, v dropped} Delta_uv,
    total = sum_u (hat_u - r_u)

Edge e = (i, j) with mask m_e stands for Delta_ij = +m_e and Delta_ji = -m_e. For up to a million parties; sources come
from a seeded generator, so nothing here protects anybody.
"""

from typing import NamedTuple

import numpy as np

from sottovoce.deployment.gopa.encoding import ring
from sottovoce.deployment.gopa.graph import k_out_edges
from sottovoce.deployment.gopa.masks import Masks, from_words, words_per_entry
from sottovoce.deployment.gopa.rounded_gaussian import WORDS, RoundedGaussian
from sottovoce.errors import ConfigError

_CHUNK = 2**20  # entries drawn at a time: bounds what the draws need on top of their result


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


def simulated_sources(
    seed: int, *, num_parties: int, dimension: int, out_degree: int, own_noise: RoundedGaussian, masks: Masks
) -> Sources:
    """Sources of one round from a seeded generator, for simulation only."""
    generator = np.random.Generator(np.random.Philox(seed))
    edges = k_out_edges(generator.bytes(32), num_parties=num_parties, out_degree=out_degree)
    noise = np.empty(num_parties * dimension, dtype=np.int64)
    for part in _chunks(len(noise)):
        noise[part] = own_noise.from_words(_words(generator, part, WORDS))
    values = np.empty(len(edges) * dimension, dtype=np.uint64)
    for part in _chunks(len(values)):
        values[part] = from_words(masks, _words(generator, part, words_per_entry(masks)))
    return Sources(edges, values.reshape(len(edges), dimension), noise.reshape(num_parties, dimension))


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
    _check_choices(len(units), [active, survivors, repaired])
    everyone = np.ones(len(units), dtype=bool)
    active = everyone if active is None else active
    survivors = active & (everyone if survivors is None else survivors)
    repaired = survivors & (everyone if repaired is None else repaired)
    add, subtract = sources.edges[:, 0], sources.edges[:, 1]
    live = active[add] & active[subtract]
    published = ring(units) + ring(sources.own_noise)
    _scatter(published, sources, live & survivors[add], live & survivors[subtract])
    published[~survivors] = 0
    silent = active & ~survivors
    repairs = np.zeros_like(published)
    _scatter(repairs, sources, repaired[add] & silent[subtract], repaired[subtract] & silent[add])
    waiting = survivors & ~repaired
    left = int((waiting[add] & silent[subtract]).sum() + (waiting[subtract] & silent[add]).sum())
    total = published.sum(axis=0, dtype=np.uint64) - repairs.sum(axis=0, dtype=np.uint64)
    return FastRound(published, repairs, total, left)


def _scatter(target: np.ndarray, sources: Sources, plus: np.ndarray, minus: np.ndarray) -> None:
    """Add the masks of the edges in `plus` to their first end, subtract those in `minus` from their second."""
    for entry in range(target.shape[1]):
        column = np.ascontiguousarray(target[:, entry])
        values = sources.masks[:, entry]
        np.add.at(column, sources.edges[plus, 0], values[plus])
        np.subtract.at(column, sources.edges[minus, 1], values[minus])
        target[:, entry] = column


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
