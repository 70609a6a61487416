"""The relay of a federation: a party without data that averages what agents send and sends the average to all of them.

    average = sum_l q_l (known_l + c_l (word_l - known_l)),   rounded to the lattice, plus noise of its own where the parties trust it with that

with q the shares of the agents, c_l how much l counts in this round (1 where all take part; 0 for those that do not, of whom no word comes), and
known_l what the relay takes of an agent that is not heard: `silent` of the common state. All agents have the same state where agents are
sampled, and the relay follows it with the algorithm's own `update`. It has no records, and a gradient asked of it is refused.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from sottovoce.deployment.agent.exchange import check_words
from sottovoce.deployment.agent.own import no_gradient
from sottovoce.deployment.agent.randomness import Randomness
from sottovoce.deployment.agent.state import State, off_lattice, on_lattice, start
from sottovoce.deployment.agent.wiring import Wiring
from sottovoce.deployment.integers import ring, signed


class RelayPrepared(NamedTuple):
    """What the relay commits before it sends."""

    words: dict[int, np.ndarray]  # per agent [d] uint64, the same for all
    state: State

    def __repr__(self) -> str:
        return f"<RelayPrepared: one word for each of {len(self.words)} agents>"


def relay_start(wiring: Wiring) -> State:
    """The state of the relay before the first round: the common one where agents are sampled, else nothing."""
    return start(wiring.run, wiring.lattice) if wiring.run.algorithm.sampling is not None else ()


def relay_prepare(
    wiring: Wiring, state: State, position: int, words: Mapping[int, np.ndarray], randomness: Randomness
) -> RelayPrepared:
    """Average the words of an exchange.

    Args:
        wiring: what is public.
        state: of the relay, after the exchange before.
        position: of the exchange in the run.
        words: per agent that takes part [d] uint64.
        randomness: where noise of the relay's own comes from.

    Raises:
        ProtocolError: words are missing, or no honest agent sends them.
        NotFinite: learning left the finite numbers.
    """
    run, lattice = wiring.run, wiring.lattice
    round_, number = run.at(position)
    part = wiring.part(wiring.relay, position)
    check_words(part, words, run.dimension, position)
    average = lattice.to_units(lattice.unit * _average(wiring, state, position, words))
    for source in part.sources:
        average = average + randomness.source(position, source.number, source.scale)
    sent = ring(average)
    if run.algorithm.sampling is not None:
        exchange = run.algorithm.exchanges[number]
        with np.errstate(all="ignore"):
            updated = exchange.update(off_lattice(state, lattice), lattice.to_float(average), no_gradient, round_)
        state = on_lattice(updated, lattice)
    return RelayPrepared(dict.fromkeys(part.receivers, sent), state)


def _average(wiring: Wiring, state: State, position: int, words: Mapping[int, np.ndarray]) -> np.ndarray:
    """[d] float64, in units."""
    run, shares = wiring.run, wiring.run.topology.perron
    round_, exchange = run.at(position)
    if run.algorithm.sampling is None:
        return np.asarray(sum(shares[agent] * signed(words[agent]) for agent in sorted(words)), dtype=np.float64)
    silent = run.algorithm.exchanges[exchange].silent
    assert silent is not None  # an algorithm that samples agents says what it takes of the others
    known = np.asarray(silent(off_lattice(state, wiring.lattice), round_), dtype=np.float64) / wiring.lattice.unit
    counts = wiring.counts(round_)
    total = known * shares.sum()
    for agent in sorted(words):
        total = total + shares[agent] * counts[agent] * (signed(words[agent]) - known)
    return np.asarray(total)
