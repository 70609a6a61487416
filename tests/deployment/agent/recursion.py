"""Random numbers of parties from a generator that a test seeds, and the same run in float64 on the very same numbers.

`Rehearsal` answers every question of a party from one table that it keeps, so that the reference, which is the formula of the recursion on whole
matrices and knows nothing of parties, reads the same numbers.
"""

from fractions import Fraction

import numpy as np

from sottovoce.linear import centroid, exchange_topologies
from sottovoce.noise import Laplace
from sottovoce.topologies import Dropout, RandomPair


class Table:
    """Unit draws of a run, addressed by what they are for; the same question has the same answer."""

    def __init__(self, seed: int, dimension: int, law) -> None:
        self.seed, self.dimension, self.law = seed, dimension, law

    def _generator(self, *address: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *address])

    def unit(self, *address: int) -> np.ndarray:
        """[d] of standard deviation one."""
        generator = self._generator(1, *address)
        if isinstance(self.law, Laplace):
            return generator.laplace(scale=0.5**0.5, size=self.dimension)
        return generator.standard_normal(self.dimension)

    def source(self, position: int, source: int, scale: float) -> np.ndarray:
        return np.rint(scale * self.unit(0, position, source)).astype(np.int64)

    def gradient_noise(self, agent: int, round_: int, step: int, scale: float) -> np.ndarray:
        return np.rint(scale * self.unit(1, agent, round_, step)).astype(np.int64)

    def mask(self, position: int, source: int) -> np.ndarray:
        return self._generator(2, position, source).integers(0, 2**64, size=self.dimension, dtype=np.uint64)

    def batch(self, agent: int, round_: int, step: int, records: int, size: int) -> np.ndarray:
        return self._generator(3, agent, round_, step).permutation(records)[:size].astype(np.int64)

    # The public coin.
    def kept_pairs(self, round_: int, pairs: np.ndarray, probability: float) -> np.ndarray:
        return np.array([self._generator(4, round_, *pair).random() >= probability for pair in pairs.tolist()])

    def pair(self, round_: int, num_pairs: int) -> int:
        return int(self._generator(5, round_).integers(num_pairs))

    def takes_part(self, round_: int, sampling, num_agents: int) -> np.ndarray:
        generator = self._generator(6, round_)
        if hasattr(sampling, "rate"):
            drawn = generator.random(num_agents) < sampling.rate
        else:
            drawn = generator.permutation(num_agents) < sampling.size
        return drawn * sampling.weight(num_agents)


class Rehearsal:
    """One party's random numbers, from the table of all; it counts its questions, each of which may be asked once."""

    def __init__(self, table: Table, agent: int) -> None:
        self.table, self.agent = table, agent
        self.asked: set[tuple] = set()

    def _once(self, *question) -> None:
        assert question not in self.asked, f"asked twice: {question}"
        self.asked.add(question)

    def source(self, position, source, scale):
        self._once("source", position, source)
        return self.table.source(position, source, scale)

    def shared(self, position, source, other, scale):
        assert other != self.agent
        self._once("source", position, source)
        return self.table.source(position, source, scale)

    def mask(self, position, source, other):
        assert other != self.agent
        self._once("mask", position, source)
        return self.table.mask(position, source)

    def gradient_noise(self, round_, step, scale):
        self._once("gradient", round_, step)
        return self.table.gradient_noise(self.agent, round_, step, scale)

    def batch(self, round_, step, records, size):
        self._once("batch", round_, step)
        return self.table.batch(self.agent, round_, step, records, size)


def reference(run, lattice, problem, table: Table) -> np.ndarray:
    """[K, d] the models of the recursion in float64, its noise made of the whole numbers of the table."""
    K, algorithm, noise = run.num_agents, run.algorithm, run.noise
    topologies, weighing = exchange_topologies(algorithm, run.topology), centroid(algorithm, run.topology).receivers
    scales = noise.std * noise.factors(run.rounds) * algorithm.noisy_rounds(run.rounds) / lattice.unit
    states = [algorithm.init(np.array(run.initial_model, dtype=float)) for _ in range(K)]
    for t in range(1, run.rounds + 1):
        scale = float(scales[t - 1])
        gradients = [_gradient(run, lattice, problem, table, k, t, scale) for k in range(K)]
        counts = np.ones(K) if algorithm.sampling is None else table.takes_part(t, algorithm.sampling, K)
        states = [algorithm.begun(state, g, t) for state, g in zip(states, gradients, strict=True)]
        for e, exchange in enumerate(algorithm.exchanges):
            position = (t - 1) * run.exchanges + e
            links = _links(topologies[e], table, t)._replace(perron=weighing[e])
            spread = noise.spread(links)
            z = lattice.unit * _sources(spread, table, position, scale, run.dimension)  # [S, d]
            psi = np.stack([exchange.message(s, g, t) for s, g in zip(states, gradients, strict=True)])
            if algorithm.sampling is not None:  # noise comes with the messages, and only of those that are heard
                own = np.zeros_like(psi)
                np.add.at(own, spread.self_index, spread.self_value[:, None] * z[spread.self_source])
                of_relay = own[0] if noise.needs_relay else 0.0
                silent = np.stack([exchange.silent(s, t) for s in states])
                heard = silent + counts[:, None] * (psi + (0.0 if noise.needs_relay else own) - silent)
                received = np.tile(links.perron @ heard + of_relay, (K, 1))
            else:
                received = _combined(links, spread, psi, z)
            states = [exchange.update(s, r, g, t) for s, r, g in zip(states, received, gradients, strict=True)]
    return np.stack([algorithm.model(state) for state in states])


def _gradient(run, lattice, problem, table, k, t, scale):
    data = {name: values[k] for name, values in problem.arrays.items()}

    def gradient(w, step=0):
        if run.batch_size is None:
            found = problem.gradient(w, data)
        else:
            records = problem.records(data, table.batch(k, t, step, int(problem.sizes[k]), run.batch_size))
            found = problem.batch_gradient(w, records)
        if run.noise.in_gradients:
            found = found + lattice.unit * table.gradient_noise(k, t, step, scale)
        return np.asarray(found)

    return gradient


def _links(topology, table, t):
    if isinstance(topology.schedule, Dropout):
        return topology.dropped(table.kept_pairs(t, topology.pairs, topology.schedule.probability))
    if isinstance(topology.schedule, RandomPair):
        return topology.paired(table.pair(t, topology.num_pairs))
    listed = topology.listed()
    return listed[(t - 1) % len(listed)].active_links()


def _sources(spread, table, position, scale, d):
    """[S, d] in units; a source that links carry in a multiple is a whole number at that multiple, as the parties draw it."""
    z = np.zeros((spread.num_sources, d))
    for s in range(spread.num_sources):
        on_links = np.abs(np.asarray(spread.link_value)[spread.link_source == s])
        size = on_links.max() if on_links.size and on_links.max() > 0 else 1.0
        if on_links.size and on_links.min() < on_links.max() * (
            1 - 1e-9
        ):  # shared, in two multiples: the largest size that divides both
            size = _divisor(on_links.max(), on_links.min())
        z[s] = table.source(position, s, scale * size) / size
    return z


def _divisor(larger: float, smaller: float) -> float:
    """Euclid's: the largest number of which both are whole multiples."""
    first, second = Fraction(larger), Fraction(smaller)
    while second:
        first, second = second, first % second
    return float(first)


def _combined(links, spread, psi, z):
    """sum_l a_lk (psi_l + noise), written with dense matrices."""
    E, K, S = len(links.senders), len(links.perron), spread.num_sources
    on_links, on_own = np.zeros((E, S)), np.zeros((K, S))
    np.add.at(on_links, (spread.link_index, spread.link_source), np.asarray(spread.link_value))
    np.add.at(on_own, (spread.self_index, spread.self_source), np.asarray(spread.self_value))
    received = links.self_weights[:, None] * (psi + on_own @ z)
    np.add.at(received, links.receivers, links.weights[:, None] * (psi[links.senders] + on_links @ z))
    return received
