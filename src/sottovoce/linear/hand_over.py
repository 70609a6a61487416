"""The check that every run shares, simulated or among parties: no gradient is sent in clear once the noise has stopped."""

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import IncompatibleChoice
from sottovoce.linear.centroid import exchange_topologies
from sottovoce.noise import Noise, bind_turns, own_copy_is_the_message
from sottovoce.topologies import Static, Topology


def check_hand_over(algorithm: Algorithm, noise: Noise, topology: Topology, rounds: int) -> None:
    """Refuse an algorithm that falls silent after noisy rounds unless everyone goes on from what it sent.

    Raises:
        IncompatibleChoice: an own copy without the sent noise would carry an unperturbed gradient into the quiet rounds.
    """
    noisy = algorithm.noisy_rounds(rounds)
    if noise.law is None or not noisy.any() or noisy[int(np.argmax(noisy)) :].all():
        return
    for used in exchange_topologies(algorithm, topology):
        if not isinstance(used.schedule, Static):
            raise IncompatibleChoice(
                f"'{algorithm.name}' stops adding noise after its gradient rounds, which is safe only if every agent has sent its last "
                f"gradient perturbed by then; when links come and go, an agent may be silent in that round and send it in clear later. "
                f"Use a topology without a schedule."
            )
        links = used.active_links()
        if not all(own_copy_is_the_message(bound, links) for bound in bind_turns(noise, links)):
            raise IncompatibleChoice(
                f"'{algorithm.name}' stops adding noise after its gradient rounds, which is safe only if every agent itself continues "
                f"from the perturbed message it sent; under '{noise.name}' own copies differ from the messages, so the rest would be "
                f"sent in clear. Use sv.noise.independent(law, self_noise=True)."
            )
    silent = np.flatnonzero(noisy & (noise.factors(rounds) == 0))
    if silent.size:
        raise IncompatibleChoice(
            f"the noise schedule is 0 in round {silent[0] + 1}, in which '{algorithm.name}' sends a new gradient that would then be in "
            f"clear. Give a positive factor for every round in which it perturbs its messages."
        )
