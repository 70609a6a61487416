"""How far the noise that was drawn is from the noise that proofs speak of: total variation, counted over all draws of a run.

Every draw of a rounded law is off by a little (`integers`), and draws add up. Where one source alone hides a word, rounding it is post-processing. Where pairs of
agents share Gaussian sources, a word carries a sum of rounded Gaussians, and of whole multiples of them, which is the rounding of none:
`accounting.gopa.integers` bounds how far that is from a function of the exact sum, for the connected part of honest agents in which the agent is, in
every exchange. Sizes and multiples are read off the map by the function that the agents themselves use (`terms.multiples`).
"""

import math
from typing import NamedTuple

import numpy as np

from sottovoce.accounting.gopa.integers import largest_precision, shared_noise_total_variation
from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.deployment.integers import Lattice, rounded
from sottovoce.deployment.terms import MOST_MULTIPLE, PublicRun, bind_among_parties, multiples
from sottovoce.linear import BoundExchange, exchange_topologies
from sottovoce.noise import Gaussian, known_sources, shared_sources
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
            total[t] += sum(part.off(float(stds[t]), run.dimension) for part in pairs[which[t]])
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
    """No draw, and no multiple of one, is larger than the first number, in units, and no word carries more sources than the second."""
    law, several, multiple, gaps = run.noise.law, 1, 1.0, 0
    if law is None:
        return 0.0, 0
    for links in patterns(run, agent):
        noise = bind_among_parties(run.noise, links)
        several = max(several, int(np.bincount(noise.link_index).max(initial=0)))
        multiple = max(multiple, float(np.abs(noise.link_value).max(initial=0.0)))
        # A whole multiple k of a draw is larger by less than k units than a draw at k times the size could be.
        gaps = max(gaps, MOST_MULTIPLE if shared_sources(noise.owners).any() else 0)
    std = run.noise.std / lattice.unit * float(run.noise.factors(run.rounds).max())
    return (float(rounded(law, std * multiple).bound + gaps) if std > 0 else 0.0), several


def own_sizes(run: PublicRun, agent: int) -> tuple[float, float]:
    """The smallest and the largest factor with which links carry a source of one agent's own; (1, 1) where they carry none."""
    found = []
    for links in patterns(run, agent):
        noise = bind_among_parties(run.noise, links)
        factor = np.abs(np.asarray(noise.link_value))[~shared_sources(noise.owners)[noise.link_source]]
        found += factor[factor > 0].tolist()
    return (min(found), max(found)) if found else (1.0, 1.0)


def largest_fraction(run: PublicRun, agent: int) -> float:
    """The largest factor, beside 0 and 1, with which an own copy carries a source, over what links may be up."""
    found = 0.0
    for links in patterns(run, agent):
        noise = bind_among_parties(run.noise, links)
        own = np.abs(np.asarray(noise.self_value)[noise.self_index == agent])
        found = max(found, float(own[own != 1.0].max(initial=0.0)))
    return found


class _Part(NamedTuple):
    """The connected part of honest agents that one agent is in."""

    agents: int
    pairs: int  # whose source the observer does not know
    precision: float  # lambda of `accounting.gopa.integers`, at scale one

    def off(self, std: float, dimension: int) -> float:
        """How far rounded sums are from a function of the exact ones, at this scale in units."""
        return shared_noise_total_variation(self.precision / std**2, pairs=self.pairs, dimension=dimension)


def _of_round(exchanges: tuple[BoundExchange, ...], members: np.ndarray, agent: int) -> tuple[int, float, list[_Part]]:
    """Sources that hide an agent in a round, the largest multiple at which one is drawn, and the parts in which pairs share some."""
    count, largest, parts = 0, 1.0, []
    for exchange in exchanges:
        noise = exchange.noise
        for values in (noise.link_value, noise.self_value):
            largest = max(largest, float(np.abs(values).max(initial=0.0)))
        if noise.of_relay.any():
            count += int(noise.of_relay.sum())
            continue
        part = _part(exchange, members, agent)
        if part is None:
            count += int((noise.owners == agent).any(axis=1).sum())
        else:
            count += part.agents + part.pairs
            parts.append(part)
    return count, largest, parts


def _part(exchange: BoundExchange, members: np.ndarray, agent: int) -> _Part | None:
    """The part of honest agents that pairs' sources connect with an agent; None where it shares none that the observer does not know."""
    noise, (users, sources, values) = exchange.noise, _entries(exchange)
    used = np.bincount(sources, minlength=noise.num_sources) > 0
    unknown = used & ~known_sources(noise.owners, members)
    shared = shared_sources(noise.owners) & unknown
    if not shared.any():
        return None
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components  # heavy, and schemes without shared sources do without

    first, second = noise.owners[shared, :2].T
    K = len(members)
    _, component = connected_components(coo_array((np.ones(len(first)), (first, second)), shape=(K, K)), directed=False)
    inside = component == component[agent]
    if not inside[first].any():
        return None
    pairs = np.flatnonzero(shared)[inside[first]]
    kept = unknown[sources] & inside[users]
    drawn = multiples(users[kept], sources[kept], values[kept], noise.num_sources)
    agents = np.flatnonzero(inside)
    if drawn is None:  # what nobody could draw
        return _Part(len(agents), len(pairs), math.inf)
    whole = np.zeros((K, noise.num_sources))
    whole[drawn.agents, drawn.sources] = drawn.whole
    alone = ~shared[drawn.sources]
    own = np.bincount(drawn.agents[alone], drawn.sizes[drawn.sources[alone]], minlength=K)
    own[np.bincount(drawn.agents[alone], minlength=K) != 1] = 0.0  # the proof is for one own source each
    found = largest_precision(own[agents], drawn.sizes[pairs], whole[np.ix_(agents, pairs)])
    return _Part(len(agents), len(pairs), found)


def _entries(exchange: BoundExchange) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(agent, source, value) of everything that agents add to links that are up and to own copies."""
    links, noise = exchange.links, exchange.noise
    on_link = (np.asarray(noise.link_value) != 0) & (links.weights[noise.link_index] > 0)
    on_own = np.asarray(noise.self_value) != 0
    return (
        np.concatenate([links.senders[noise.link_index[on_link]], noise.self_index[on_own]]),
        np.concatenate([noise.link_source[on_link], noise.self_source[on_own]]),
        np.concatenate([np.asarray(noise.link_value)[on_link], np.asarray(noise.self_value)[on_own]]),
    )


def total(each: np.ndarray) -> float:
    """Of all rounds together."""
    return min(1.0, math.fsum(each.tolist()))
