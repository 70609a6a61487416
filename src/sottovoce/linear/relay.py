"""The check that simulation and accountant share: what a relay can carry."""

from sottovoce.algorithms import Algorithm
from sottovoce.errors import IncompatibleChoice
from sottovoce.linear.centroid import exchange_topologies
from sottovoce.noise import Noise, bind, own_copy_is_the_message
from sottovoce.topologies import Topology


def refuse_noise_a_relay_cannot_carry(algorithm: Algorithm, noise: Noise, topology: Topology) -> None:
    """Refuse, on a federation, noise that differs between an agent's links or from its own copy: the relay has one average for all.

    Raises:
        IncompatibleChoice: the scheme needs links between agents.
    """
    for used in exchange_topologies(algorithm, topology):
        if used.relay and noise.law is not None:
            links = used.active_links()
            if not own_copy_is_the_message(bind(noise, links), links):
                raise IncompatibleChoice(
                    f"on a federation every agent sends one message to the relay and receives the same average, so '{noise.name}' "
                    f"with these options cannot be carried. Use sv.noise.independent(law, self_noise=True), or a peer graph."
                )
