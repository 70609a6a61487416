"""The check that simulation, theory and accountant share: where noise of a generator can be played and is understood.

A generator draws sources for all agents and tells every agent the sum that it adds. What an observer's members know are then sums, which
the proofs take as messages without content: they need Gaussian laws, links that are known in advance, and agents who use what they send.
"""

from sottovoce.algorithms import Algorithm
from sottovoce.errors import IncompatibleChoice
from sottovoce.linear.centroid import exchange_topologies
from sottovoce.noise import Gaussian, Noise, NoiseMap, own_copy_is_the_message
from sottovoce.topologies import ActiveLinks, Listed, RandomPair, Static, Topology


def check_generator(algorithm: Algorithm, noise: Noise, topology: Topology) -> None:
    """Refuse sources of a generator where nothing is proved about them.

    Raises:
        IncompatibleChoice: random links, walks, samples of agents, masked sums, other laws, or own copies that differ from messages.
    """
    if noise.law is None or noise.in_gradients:
        return
    for used in exchange_topologies(algorithm, topology):
        reason = _reason(algorithm, noise, used)
        for links in _some_links(used):
            for turn in noise.turns or (noise.spread,):
                _check_map(noise, turn(links), links, reason)


def _check_map(noise: Noise, bound: NoiseMap, links: ActiveLinks, reason: str | None) -> None:
    if not bound.of_generator.any():
        return
    if reason is None and not own_copy_is_the_message(bound, links):
        reason = "own copies carry another noise than the messages"
    if reason is not None:
        raise IncompatibleChoice(
            f"a generator draws the noise of '{noise.name}' and tells every agent its own sum; nothing is proved of that where {reason}. Use fixed or "
            f"listed links, agents who all take part and use what they send, and a Gaussian law, or noise that agents draw themselves."
        )


def _some_links(topology: Topology) -> list[ActiveLinks]:
    """The links of every round that can be listed, or of one round that can be drawn."""
    if isinstance(topology.schedule, Static | Listed):
        return [one.active_links() for one in topology.listed()]
    return [topology.paired(0) if isinstance(topology.schedule, RandomPair) else topology.active_links()]


def _reason(algorithm: Algorithm, noise: Noise, topology: Topology) -> str | None:
    """Why noise of a generator cannot be here; None: it can."""
    reasons = {
        "one token walks": algorithm.walks,
        "links are drawn at random": not isinstance(topology.schedule, Static | Listed),
        f"only a sample of agents takes part ({algorithm.sampling})": algorithm.sampling is not None,
        "sums are masked": algorithm.aggregation is not None,
        f"the law is {type(noise.law).__name__}": not isinstance(noise.law, Gaussian),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)
