"""How far the noise that was drawn is from the noise that proofs speak of: total variation, counted over all draws of a run.

Every draw of a rounded law is off by a little (`integers`), and draws add up. Where one source alone hides a word, rounding it is post-processing. Where pairs of
agents share Gaussian sources, a word carries a sum of rounded Gaussians, which is the rounding of none: `accounting.gopa.integers` bounds how far that is
from a function of the exact sum, for the connected part of honest agents in which the agent is, in every exchange.
"""

import math

import numpy as np

from sottovoce.accounting.gopa import IntegerNoise
from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.deployment.integers import Lattice, rounded
from sottovoce.deployment.terms import PublicRun, bind_among_parties
from sottovoce.linear import BoundExchange, exchange_topologies
from sottovoce.noise import Gaussian, NoiseMap, known_sources, shared_sources
from sottovoce.topologies import ActiveLinks, Listed, RandomPair


def by_round(run: PublicRun, lattice: Lattice, evidence: Evidence, agent: int) -> np.ndarray:
    """[T] the total variation of one agent's protection in every round."""
    stds = _scales(run, lattice)
    if run.noise.in_gradients:
        return _draws(run, stds, np.full(run.rounds, run.algorithm.gradients_per_round), 1.0)
    if evidence.rounds is None:  # links drawn at random: the most that any pattern of them draws
        drawn = [BoundExchange(links, bind_among_parties(run.noise, links)) for links in patterns(run, agent)]
        counted = [_of_round((one,), evidence.asked.view.members, agent) for one in drawn]
        most = max(one[0] for one in counted)
        return _draws(run, stds, np.full(run.rounds, run.exchanges * most), max(one[1] for one in counted))
    exchanges, which = [one.exchanges for one in evidence.rounds.distinct], evidence.rounds.which
    members = evidence.asked.view.members
    counts, largest, pairs = zip(*(_of_round(one, members, agent) for one in exchanges), strict=True)
    total = _draws(run, stds, np.array(counts)[which], max(largest))
    if isinstance(run.noise.law, Gaussian):
        for t in np.flatnonzero(stds > 0):
            total[t] += sum(_sums(part, float(stds[t]), run.dimension) for part in pairs[which[t]])
    return np.asarray(np.minimum(total, 1.0))


def _scales(run: PublicRun, lattice: Lattice) -> np.ndarray:
    """[T] the standard deviation of a source in every round, in units; 0 where no noise is added."""
    fresh = 1.0 if run.noise.in_gradients else run.algorithm.noisy_rounds(run.rounds)
    return np.asarray(run.noise.std / lattice.unit * run.noise.factors(run.rounds) * fresh)


def _draws(run: PublicRun, stds: np.ndarray, counts: np.ndarray, largest: float) -> np.ndarray:
    law = run.noise.law
    assert law is not None
    off = {std: rounded(law, std * largest).total_variation for std in set(stds[stds > 0].tolist())}
    return np.array([counts[t] * run.dimension * off.get(float(std), 0.0) for t, std in enumerate(stds)])


def patterns(run: PublicRun, agent: int) -> list[ActiveLinks]:
    """Links that may be up in some exchange: all of them, every list of them, or every pair that an agent is in.

    Where links drop out, the most sources are drawn, and own copies carry the largest fractions, when all are up.
    """
    found: list[ActiveLinks] = []
    for one in exchange_topologies(run.algorithm, run.topology):
        if isinstance(one.schedule, RandomPair):
            found += [one.paired(int(pair)) for pair in np.flatnonzero((one.pairs == agent).any(axis=1))]
        elif isinstance(one.schedule, Listed):
            found += [part.active_links() for part in one.listed()]
        else:
            found.append(one.active_links())
    return found


def largest(run: PublicRun, lattice: Lattice, agent: int) -> tuple[float, int]:
    """No draw is larger than the first number, in units, and no word carries more sources than the second."""
    law, several, multiple = run.noise.law, 1, 1.0
    if law is None:
        return 0.0, 0
    for links in patterns(run, agent):
        noise = bind_among_parties(run.noise, links)
        several = max(several, int(np.bincount(noise.link_index).max(initial=0)))
        multiple = max(multiple, float(np.abs(noise.link_value).max(initial=0.0)))
    std = run.noise.std / lattice.unit * float(run.noise.factors(run.rounds).max())
    return (float(rounded(law, std * multiple).bound) if std > 0 else 0.0), several


def largest_fraction(run: PublicRun, agent: int) -> float:
    """The largest factor, beside 0 and 1, with which an own copy carries a source, over what links may be up."""
    found = 0.0
    for links in patterns(run, agent):
        noise = bind_among_parties(run.noise, links)
        own = np.abs(np.asarray(noise.self_value)[noise.self_index == agent])
        found = max(found, float(own[own != 1.0].max(initial=0.0)))
    return found


class _Part(tuple[int, int, int, float]):
    """(agents, pairs, largest degree, size of a pair's source) of the connected part of honest agents that one agent is in."""


def _of_round(exchanges: tuple[BoundExchange, ...], members: np.ndarray, agent: int) -> tuple[int, float, list[_Part]]:
    """Sources that hide an agent in a round, the largest multiple at which one is drawn, and the parts in which pairs share some."""
    count, largest, parts = 0, 1.0, []
    for _, noise in exchanges:
        for values in (noise.link_value, noise.self_value):
            largest = max(largest, float(np.abs(values).max(initial=0.0)))
        if noise.of_relay.any():
            count += int(noise.of_relay.sum())
            continue
        part = _part(noise, members, agent)
        if part is None:
            count += int((noise.owners == agent).any(axis=1).sum())
        else:
            count += part[0] + part[1]
            parts.append(part)
    return count, largest, parts


def _part(noise: NoiseMap, members: np.ndarray, agent: int) -> _Part | None:
    """The part of honest agents that pairs' sources connect with an agent; None where it shares none that the observer does not know."""
    used = np.zeros(noise.num_sources)
    np.maximum.at(used, noise.link_source, np.abs(noise.link_value))
    shared = shared_sources(noise.owners) & (used > 0) & ~known_sources(noise.owners, members)
    if not shared.any():
        return None
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components  # heavy, and schemes without shared sources do without

    first, second = noise.owners[shared, :2].T
    K = len(members)
    _, component = connected_components(coo_array((np.ones(len(first)), (first, second)), shape=(K, K)), directed=False)
    inside = component[first] == component[agent]
    if not inside.any():
        return None
    degrees = np.bincount(np.concatenate([first[inside], second[inside]]), minlength=K)
    return _Part((int(np.count_nonzero(degrees)), int(inside.sum()), int(degrees.max()), float(used[shared].min())))


def _sums(part: _Part, std: float, dimension: int) -> float:
    agents, pairs, degree, size = part
    noise = IntegerNoise(
        own_std=std, honest_parties=agents, dimension=dimension, mask_std=size * std, pairs=pairs, largest_degree=degree
    )
    return noise.total_variation


def total(each: np.ndarray) -> float:
    """Of all rounds together."""
    return min(1.0, math.fsum(each.tolist()))
