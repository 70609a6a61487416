"""Noise of earlier rounds that enters again: where that may be used, and the factors of every round.

What agent k adds in round t, the same on all its links and in its own copy, is

    n_t = e_t - sum_j m[t, j, k] n_{t-j},      n_s = 0 before the first round,

with e_t the fresh noise of the scheme. So e = B n with B unit lower triangular and banded: whoever knows the n of all rounds knows the e, and the
other way round. Everything that is computed of such noise rests on four things, which are checked here and nowhere else: an agent's own copy is
what it sent, so that one number per agent and round says what it added; every agent sends in every round; every round has fresh noise, since
otherwise some combination of rounds would have none at all; and nothing else of the run is random.
"""

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear.centroid import exchange_topologies
from sottovoce.noise import Noise, bind, own_copy_is_the_message
from sottovoce.topologies import Static, Topology


def check_memory(topology: Topology, algorithm: Algorithm, noise: Noise, rounds: int) -> None:
    """Refuse noise with memory where it is not what agents send and go on from, in every round.

    Args:
        topology: who talks to whom.
        algorithm: what an agent does in a round.
        noise: with or without memory; without it nothing is refused.
        rounds: how many.

    Raises:
        ConfigError: factors that are not finite or have another shape, or a round without fresh noise.
        IncompatibleChoice: a run in which agents may be silent, send several messages, or go on from something else than they sent.
    """
    if noise.memory is None:
        return
    noise.remembered(rounds, topology.num_agents)
    _check_run(topology, algorithm, noise)
    _check_messages(topology, algorithm, noise)
    silent = np.flatnonzero(noise.factors(rounds) * algorithm.noisy_rounds(rounds) == 0)
    if silent.size:
        raise ConfigError(
            f"'{noise.name}' adds noise of earlier rounds again and has no fresh noise in round {silent[0] + 1}: what is added there would follow from "
            f"earlier rounds. Give a positive factor for every round."
        )


def refuse_memory(noise: Noise, what: str) -> None:
    """Refuse noise with memory where it is not followed.

    Args:
        noise: with or without memory.
        what: who does not follow it, as the subject of a sentence in the plural.

    Raises:
        IncompatibleChoice: it has memory.
    """
    if noise.memory is not None:
        raise IncompatibleChoice(
            f"'{noise.name}' adds noise of earlier rounds again, and {what} know only noise that is fresh in every round. Use a scheme without "
            f"memory, or sv.simulate, sv.account and sv.expected_msd, which follow it."
        )


def _check_run(topology: Topology, algorithm: Algorithm, noise: Noise) -> None:
    if noise.law is None:
        raise ConfigError(
            f"'{noise.name}' has memory and no sources, so that there is nothing to remember. Leave memory out."
        )
    reasons = {
        "is added to gradients": noise.in_gradients,
        "is added by a relay": noise.needs_relay or topology.relay,
        f"meets an algorithm, '{algorithm.name}', that hands one token on": algorithm.walks,
        f"meets an algorithm, '{algorithm.name}', that masks what agents send": algorithm.aggregation is not None,
        f"meets an algorithm, '{algorithm.name}', that draws agents": algorithm.sampling is not None,
        f"meets an algorithm, '{algorithm.name}', with several messages in a round": len(algorithm.exchanges) != 1,
    }
    for why, holds in reasons.items():
        if holds:
            raise IncompatibleChoice(
                f"'{noise.name}' adds noise of earlier rounds again and {why}; memory is for peers who all send one message in every round. Use a "
                f"scheme without memory, or an algorithm such as sv.algorithms.atc on a peer graph."
            )


def _check_messages(topology: Topology, algorithm: Algorithm, noise: Noise) -> None:
    for used in exchange_topologies(algorithm, topology):
        if not isinstance(used.schedule, Static):
            raise IncompatibleChoice(
                f"'{noise.name}' adds noise of earlier rounds again, and on links that change an agent may be silent in a round whose noise it needs "
                f"later. Use a topology without a schedule."
            )
        links = used.active_links()
        if not own_copy_is_the_message(bind(noise, links), links):
            raise IncompatibleChoice(
                f"'{noise.name}' adds noise of earlier rounds again, which is possible only where every agent itself goes on from what it sent; here own "
                f"copies and messages carry different noise. Use self-noise that is the same on all links."
            )
        sends = np.bincount(links.senders[links.weights > 0], minlength=used.num_agents) > 0
        if not sends.all():
            raise IncompatibleChoice(
                f"agent {int(np.argmin(sends))} sends nothing, so that nobody reads the noise that '{noise.name}' adds again later. Give every agent a "
                f"neighbour who listens."
            )
