"""The check that simulation, theory and accountant share: what needs a relay, and what a relay can carry."""

import numpy as np

from sottovoce.algorithms import Algorithm, Gopa, check_aggregation
from sottovoce.errors import IncompatibleChoice
from sottovoce.linear.centroid import exchange_topologies
from sottovoce.noise import Gaussian, Noise, bind_turns, own_copy_is_the_message, shared_sources
from sottovoce.topologies import Topology, Walk


def check_relay(algorithm: Algorithm, noise: Noise, topology: Topology) -> None:
    """Refuse what only works when all agents receive the same average where they do not, and on a federation noise it cannot carry.

    Raises:
        IncompatibleChoice: the algorithm or the scheme needs a relay, or needs links between agents.
    """
    for used in exchange_topologies(algorithm, topology):
        _check_walk(algorithm, noise, used)
        if not used.relay:
            _refuse_without_relay(algorithm, noise, used)
            continue
        if algorithm.aggregation is not None:
            _check_masks(algorithm.aggregation, noise, used)
        if noise.law is None:
            continue
        if used.num_agents == 1:
            _refuse_messages_of_one(noise)
        links = used.active_links()
        maps = bind_turns(noise, links)
        if not all(own_copy_is_the_message(bound, links) for bound in maps):
            raise IncompatibleChoice(
                f"on a federation every agent sends one message to the relay and receives the same average, so '{noise.name}' "
                f"with these options cannot be carried. Use sv.noise.independent(law, self_noise=True), or a peer graph."
            )
        if algorithm.sampling is not None and any(shared_sources(bound.owners).any() for bound in maps):
            raise IncompatibleChoice(
                f"'{noise.name}' has noise shared by pairs or groups of agents, which does not cancel when only some agents take part in a round. Let all take "
                f"part (participation=1.0), or use sv.noise.independent(law)."
            )


def _refuse_messages_of_one(noise: Noise) -> None:
    if not (noise.needs_relay or noise.in_gradients):
        raise IncompatibleChoice(
            f"a federation of one agent sends no messages, and '{noise.name}' is noise in messages. Use sv.noise.central(law), which perturbs "
            f"every step of the model, or sv.noise.gradient(law)."
        )


def _check_masks(aggregation: Gopa, noise: Noise, topology: Topology) -> None:
    check_aggregation(aggregation, num_agents=topology.num_agents)
    if np.ptp(topology.perron) > 1e-12 * topology.perron.max():
        raise IncompatibleChoice(
            "aggregation by GOPA adds up what the agents publish, all alike, and this federation weighs its agents by their records. Use "
            "sv.topologies.federation(n), with weights='uniform'."
        )
    if noise.law is None:
        return
    elsewhere = noise.needs_relay or noise.in_gradients or _shares(noise, topology)
    if elsewhere or not isinstance(noise.law, Gaussian):
        raise IncompatibleChoice(
            f"under aggregation by GOPA every agent adds Gaussian noise of its own to what it publishes; given '{noise.name}' with the law "
            f"{type(noise.law).__name__}. Use sv.noise.independent(sv.noise.Gaussian(std=...)); the masks come with the aggregation."
        )


def _check_walk(algorithm: Algorithm, noise: Noise, topology: Topology) -> None:
    walks = isinstance(topology.schedule, Walk)
    if algorithm.walks and not walks:
        raise IncompatibleChoice(
            f"'{algorithm.name}' is one token that walks over the agents, and '{topology.name}' has none. Use topology.with_walk()."
        )
    if walks and not algorithm.walks:
        raise IncompatibleChoice(
            f"on '{topology.name}' a token walks, and in '{algorithm.name}' all agents work in every round. Use sv.algorithms.random_walk, or "
            f"the topology without a walk."
        )
    if walks and noise.law is not None:
        _check_noise_of_token(noise, topology)


def _check_noise_of_token(noise: Noise, topology: Topology) -> None:
    if not _sends_what_it_keeps(noise, topology):
        raise IncompatibleChoice(
            f"a token is one message with one noise, and '{noise.name}' with these options has several. Use "
            f"sv.noise.independent(law, self_noise=True), or sv.noise.gradient(law)."
        )
    if _shares(noise, topology):
        raise IncompatibleChoice(
            f"'{noise.name}' has noise shared by pairs or groups of agents, which does not cancel on a token. Use sv.noise.independent(law)."
        )
    if not (noise.in_gradients or _adds_sources_as_they_are(noise, topology)):
        raise IncompatibleChoice(
            f"'{noise.name}' multiplies its sources by factors other than 1, and a token is played and accounted with the law itself. Use "
            f"sv.noise.independent(law) with the law scaled, the same for all agents."
        )


def _shares(noise: Noise, topology: Topology) -> bool:
    """Whether agents share sources."""
    return any(bool(shared_sources(bound.owners).any()) for bound in bind_turns(noise, topology.active_links()))


def _adds_sources_as_they_are(noise: Noise, topology: Topology) -> bool:
    """Whether every message and own copy carries its source with the factor 1."""
    maps = bind_turns(noise, topology.active_links())
    return all(bool(np.all(values == 1.0)) for one in maps for values in (one.link_value, one.self_value))


def _sends_what_it_keeps(noise: Noise, topology: Topology) -> bool:
    links = topology.active_links()
    return all(own_copy_is_the_message(bound, links) for bound in bind_turns(noise, links))


def _refuse_without_relay(algorithm: Algorithm, noise: Noise, topology: Topology) -> None:
    if noise.needs_relay:
        raise IncompatibleChoice(
            f"'{noise.name}' noise is added by a relay that everybody trusts; the agents of '{topology.name}' talk to each other. Use "
            f"sv.topologies.federation(n), or noise that agents add themselves, such as sv.noise.independent(law)."
        )
    if algorithm.needs_relay is not None:
        raise IncompatibleChoice(
            f"{algorithm.needs_relay} needs agents that all receive the same average, and '{topology.name}' has no relay. Use a federation "
            f"(sv.topologies.federation(n)), or an algorithm for peers, such as fedavg with exchange='model' or atc."
        )
