"""Everything that is public about every exchange of a run: who sends to whom with which weight, and which sources enter where.

All parties compute it from the same `PublicRun` and the same public coin, so they agree on it without a word. Links that drop out or pair up
follow from the coin, and noise is bound to the links that are active. In a federation agents talk to the relay alone, which counts as number K:
it takes a word of every agent that takes part in the round, and sends one to all agents.
"""

from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from sottovoce.deployment.agent.perturbation import Perturbation, perturbation
from sottovoce.deployment.agent.refusals import check_deployable
from sottovoce.deployment.integers import Lattice, rounded
from sottovoce.deployment.terms import Coin, PublicRun, bind_among_parties
from sottovoce.errors import ConfigError
from sottovoce.linear import centroid, exchange_topologies
from sottovoce.noise import RELAY
from sottovoce.topologies import ActiveLinks, Dropout, Listed, RandomPair, Topology

ROOM = 2  # words, own copies and noisy gradients stay within so many times the bound of the lattice, which the rounding charge counts on
HALF_RING = 2**63
KEPT = 512  # exchanges, and parts of agents in them, that are kept because they may come again


class Source(NamedTuple):
    """One source that a party draws in an exchange."""

    number: int  # its place in the bound map
    other: int  # the agent that shares it; -1 where nobody does
    scale: float  # at which it is drawn, in units


class Part(NamedTuple):
    """What one party has to do with one exchange."""

    receivers: tuple[int, ...]
    senders: tuple[int, ...]
    sent_weights: np.ndarray  # [receivers] the weight that each receiver gives this sender
    weights: np.ndarray  # [senders] the weight that this receiver gives each sender
    own_weight: float
    sources: tuple[Source, ...]
    on_links: np.ndarray  # [receivers, sources] int64: -1, 0 or 1; other whole multiples of what two agents share
    on_own: np.ndarray  # [sources] factor in the own copy
    largest: np.ndarray  # [senders] no entry of an honest word from there is larger, in units
    masked: bool  # words are weighed by their senders and masked modulo 2^64


class Bound(NamedTuple):
    """An exchange over the links of one round, with its sources."""

    links: ActiveLinks
    sources: Perturbation


class Wiring:
    """The public side of a run among parties; see the module.

    Attributes:
        run: what was agreed on.
        lattice: on which parties compute.
        coin: what is drawn in public.
        relay: K, the number under which the relay of a federation sends and takes; agents are 0 to K - 1.
    """

    def __init__(self, run: PublicRun, lattice: Lattice, coin: Coin, *, relay_trusted: bool = False) -> None:
        """Check that the run can be carried out among parties.

        Args:
            run: its public parts.
            lattice: on which parties compute.
            coin: which links are up, and who takes part.
            relay_trusted: whether the parties agreed that the relay may read everything; without it noise that the relay adds is refused.

        Raises:
            ConfigError: malformed parts, or noise beyond what a word holds.
            IncompatibleChoice: the parts do not go together, or cannot be carried out among parties; with the reason.
        """
        check_deployable(run, relay_trusted=relay_trusted)
        self.run, self.lattice, self.coin = run, lattice, coin
        self.relay = run.num_agents
        self._topologies = exchange_topologies(run.algorithm, run.topology)
        self._weighing = centroid(run.algorithm, run.topology).receivers
        self._bound = lru_cache(KEPT)(self._bind)
        self._part = lru_cache(KEPT)(self._peer_part)
        self._alike = lru_cache(KEPT)(self._says_the_same)
        self._counts = lru_cache(KEPT)(self._drawn_counts)
        self._check_room()

    def __repr__(self) -> str:
        return f"<Wiring of '{self.run.algorithm.name}' with '{self.run.noise.name}', {self.relay} agents, {self.run.rounds} rounds>"

    @property
    def federated(self) -> bool:
        """Whether agents talk to a relay and to nobody else."""
        return self.run.topology.relay

    @cached_property
    def scales(self) -> np.ndarray:
        """[rounds] the standard deviation of a source in units, with the factor of the round; 0 in rounds without noise."""
        run = self.run
        factors = run.noise.factors(run.rounds) * run.algorithm.noisy_rounds(run.rounds)
        return np.asarray(run.noise.std / self.lattice.unit * factors)

    def receivers(self, agent: int, position: int) -> tuple[int, ...]:
        """To whom a party sends in an exchange."""
        return self.part(agent, position).receivers

    def senders(self, agent: int, position: int) -> tuple[int, ...]:
        """From whom a party takes a word in an exchange, in increasing order."""
        return self.part(agent, position).senders

    def is_broadcast(self, sender: int, position: int) -> bool:
        """Whether all receivers of a party get the same words in an exchange, and there are two of them at least."""
        if self.federated:
            return sender == self.relay and self.relay > 1
        round_, exchange = self.run.at(position)
        return self._alike(exchange, self._place(exchange, round_), sender, float(self.scales[round_ - 1]))

    def _says_the_same(self, exchange: int, place: int, sender: int, scale: float) -> bool:
        part = self._part(exchange, place, sender, scale)
        return len(part.receivers) > 1 and not part.masked and bool((part.on_links == part.on_links[:1]).all())

    def counts(self, round_: int) -> np.ndarray:
        """[K] how many times as much each agent counts in a round as when all take part; 0: it does not take part."""
        return self._counts(round_)

    def _drawn_counts(self, round_: int) -> np.ndarray:
        sampling = self.run.algorithm.sampling
        if sampling is None:
            return np.ones(self.relay)
        return np.asarray(self.coin.takes_part(round_, sampling, self.relay), dtype=np.float64)

    def takes_part(self, agent: int, round_: int) -> bool:
        """Whether an agent works in a round; without a sample all do."""
        return bool(self.counts(round_)[agent] > 0)

    def gradient_scale(self, round_: int) -> float:
        """The scale of noise in gradients in a round, in units; 0 where noise is elsewhere."""
        return float(self.scales[round_ - 1]) if self.run.noise.in_gradients else 0.0

    def part(self, agent: int, position: int) -> Part:
        """What a party has to do with an exchange."""
        round_, exchange = self.run.at(position)
        scale = float(self.scales[round_ - 1])
        if not self.federated:
            return self._part(exchange, self._place(exchange, round_), agent, scale)
        heard = tuple(int(one) for one in np.flatnonzero(self.counts(round_) > 0))
        if agent == self.relay:
            return self._relay_part(exchange, heard, scale)
        return self._member_part(exchange, heard, agent, scale)

    def _place(self, exchange: int, round_: int) -> int:
        """What the links of an exchange depend on: nothing, the place in a list, or the round."""
        schedule = self._topologies[exchange].schedule
        if isinstance(schedule, Listed):
            return (round_ - 1) % len(schedule.matrices)
        return round_ if isinstance(schedule, Dropout | RandomPair) else 0

    def _bind(self, exchange: int, place: int) -> Bound:
        return self._bound_to(exchange, self._links(self._topologies[exchange], place))

    def _bound_to(self, exchange: int, links: ActiveLinks) -> Bound:
        links = links._replace(perron=self._weighing[exchange])
        return Bound(links, perturbation(self.run.noise, bind_among_parties(self.run.noise, links), links))

    def _links(self, topology: Topology, place: int) -> ActiveLinks:
        if isinstance(topology.schedule, Dropout):
            kept = self.coin.kept_pairs(place, topology.pairs, topology.schedule.probability)
            return topology.dropped(np.asarray(kept, dtype=bool))
        if isinstance(topology.schedule, RandomPair):
            return topology.paired(int(self.coin.pair(place, topology.num_pairs)))
        return topology.listed()[place].active_links()

    def _peer_part(self, exchange: int, place: int, agent: int, scale: float) -> Part:
        links, made = self._bound(exchange, place)
        active = links.weights > 0
        sent = np.flatnonzero(active & (links.senders == agent))
        taken = np.flatnonzero(active & (links.receivers == agent))
        sent, taken = sent[np.argsort(links.receivers[sent])], taken[np.argsort(links.senders[taken])]
        drawn, on_links, on_own = _sources_of(made, agent, sent) if scale > 0 else _no_sources(len(sent))
        return Part(
            receivers=tuple(links.receivers[sent].tolist()),
            senders=tuple(links.senders[taken].tolist()),
            sent_weights=links.weights[sent],
            weights=links.weights[taken],
            own_weight=float(links.self_weights[agent]),
            sources=tuple(self._source(made, int(s), agent, scale) for s in drawn),
            on_links=on_links,
            on_own=on_own,
            largest=self._link_bounds(made, scale, len(links.weights))[taken],
            masked=made.masked,
        )

    def _member_part(self, exchange: int, heard: tuple[int, ...], agent: int, scale: float) -> Part:
        """An agent of a federation: its own copy, in which the relay has no part yet, is what it sends."""
        _, made = self._bound(exchange, 0)
        mine = (made.self_index == agent) & (made.owners[made.self_source, 0] != RELAY)
        sends = agent in heard
        drawn, signs, factors = _no_sources(int(sends))
        if sends and scale > 0:
            drawn, signs = made.self_source[mine], made.self_factor[mine][None].astype(np.int64)
            factors = np.zeros(len(drawn))
        return Part(
            receivers=(self.relay,) if sends else (),
            senders=(self.relay,),
            sent_weights=np.ones(int(sends)),
            weights=np.ones(1),
            own_weight=0.0,
            sources=tuple(self._source(made, int(s), agent, scale) for s in drawn),
            on_links=signs,
            on_own=factors,
            largest=np.array([self.lattice.bound + self._relay_bound(made, scale)], dtype=np.float64),
            masked=False,
        )

    def _relay_part(self, exchange: int, heard: tuple[int, ...], scale: float) -> Part:
        _, made = self._bound(exchange, 0)
        drawn = np.flatnonzero((made.owners[:, 0] == RELAY) & (made.sizes > 0)) if scale > 0 else np.arange(0)
        senders = np.array(heard, dtype=np.int64)
        own = np.bincount(made.self_index, self._kept_noise(made, scale), minlength=self.relay)
        return Part(
            receivers=tuple(range(self.relay)),
            senders=heard,
            sent_weights=np.ones(self.relay),
            weights=self.run.topology.perron[senders],
            own_weight=0.0,
            sources=tuple(self._source(made, int(s), RELAY, scale) for s in drawn),
            on_links=np.ones((self.relay, len(drawn)), dtype=np.int64),
            on_own=np.ones(len(drawn)),
            largest=self.lattice.bound + own[senders],
            masked=False,
        )

    def _source(self, made: Perturbation, number: int, agent: int, scale: float) -> Source:
        first, second = (int(owner) for owner in made.owners[number, :2])
        return Source(number, second if first == agent else first, float(made.sizes[number]) * scale)

    def _source_bounds(self, made: Perturbation, scale: float) -> np.ndarray:
        """[S] no draw of a source is larger, in units; 0 for those that are not drawn."""
        bounds = np.zeros(len(made.sizes))
        for size in () if made.masked else np.unique(made.sizes[made.sizes > 0]):
            bounds[made.sizes == size] = self._largest_draw(float(size) * scale)
        return bounds

    def _link_bounds(self, made: Perturbation, scale: float, num_links: int) -> np.ndarray:
        """[E] no entry of an honest word on a link is larger, in units."""
        noise = self._source_bounds(made, scale)[made.link_source] * np.abs(made.link_multiple)
        return self.lattice.bound + np.bincount(made.link_index, noise, minlength=num_links)

    def _kept_noise(self, made: Perturbation, scale: float) -> np.ndarray:
        """[n] no entry of what an own copy carries of a source is larger, in units."""
        return np.asarray(self._source_bounds(made, scale)[made.self_source] * np.abs(made.self_factor))

    def _relay_bound(self, made: Perturbation, scale: float) -> float:
        of_relay = made.owners[:, 0] == RELAY
        return float(self._source_bounds(made, scale)[of_relay].sum())

    def _check_room(self) -> None:
        """Refuse noise with which a sum could wrap round, or a number leave what the arithmetic was proved for."""
        scales = self.scales[self.scales > 0]
        for scale in (scales.min(), scales.max()) if len(scales) else (0.0,):
            if self.run.noise.in_gradients:
                self._require(
                    self.lattice.bound + self._largest_draw(float(scale)), ROOM * self.lattice.bound, "a gradient"
                )
            for exchange in range(len(self._topologies)):
                for bound in self._fullest(exchange):
                    self._check_exchange(bound, float(scale))

    def _fullest(self, exchange: int) -> list[Bound]:
        """An exchange over all the links that rounds have, or over more: fewer links carry no more noise."""
        topology = self._topologies[exchange]
        if isinstance(topology.schedule, Dropout):
            return [self._bound_to(exchange, topology.active_links())]
        if isinstance(topology.schedule, RandomPair):
            return [self._bound_to(exchange, topology.paired(0))]
        return [self._bound(exchange, place) for place in range(len(topology.listed()))]

    def _check_exchange(self, bound: Bound, scale: float) -> None:
        links, made = bound
        if made.masked:
            most = int(np.bincount(links.receivers, minlength=self.relay).max()) + 1
            self._require(most * self.lattice.bound, HALF_RING - 1, "a sum of masked words")
            return
        own = self.lattice.bound + np.bincount(made.self_index, self._kept_noise(made, scale), minlength=self.relay) + 1
        words = self._link_bounds(made, scale, len(links.weights))
        self._require(max(own.max(), words.max(initial=0.0)), ROOM * self.lattice.bound, "a word")

    def _largest_draw(self, scale: float) -> int:
        """No draw of the law at this scale is larger, in units."""
        law = self.run.noise.law
        return 0 if law is None or scale == 0 else rounded(law, scale).bound

    def _require(self, largest: float, limit: int, what: str) -> None:
        if largest > limit:
            raise ConfigError(
                f"{what} of '{self.run.algorithm.name}' with '{self.run.noise.name}' can reach {largest:.3g} units of {self.lattice.unit:.3g}; there "
                f"is room for {limit:.3g}. Use fewer fraction bits."
            )


def _sources_of(made: Perturbation, agent: int, sent: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sources that an agent draws, their multiples on the links that it sends over, and their factors in its own copy."""
    on_link, on_own = np.isin(made.link_index, sent), made.self_index == agent
    drawn = np.unique(np.concatenate([made.link_source[on_link], made.self_source[on_own]]))
    rows = np.argsort(sent)[np.searchsorted(sent, made.link_index[on_link], sorter=np.argsort(sent))]
    signs, factors = np.zeros((len(sent), len(drawn)), dtype=np.int64), np.zeros(len(drawn))
    signs[rows, np.searchsorted(drawn, made.link_source[on_link])] = made.link_multiple[on_link]
    factors[np.searchsorted(drawn, made.self_source[on_own])] = made.self_factor[on_own]
    return drawn, signs, factors


def _no_sources(num_links: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.arange(0), np.zeros((num_links, 0), dtype=np.int64), np.zeros(0)
