"""Central noise: a trusted relay perturbs the average, once per round, before it sends it out.

    agent k receives   sum_l a_lk psi_l + z,   the same z for everybody

One source, owned by the relay. Agents send their messages in clear, so whoever reads them, the relay itself included, reads everything; all
others see the average with its noise. This is the central model of differential privacy (Bellet 2022, "Central DP"), in which one source
protects everybody, where local noise needs one per agent.
"""

import numpy as np

from sottovoce.noise.laws import Law, check_law
from sottovoce.noise.noise import RELAY, Noise, NoiseMap
from sottovoce.topologies import ActiveLinks


def central(law: Law) -> Noise:
    """Noise that the relay of a federation adds to the average of what the agents send.

    Args:
        law: law of the one source of a round.
    """
    check_law(law, scheme="central")

    def spread(links: ActiveLinks) -> NoiseMap:
        # What every agent receives is a weighted average, so a term that stands on every link and own copy arrives whole.
        num_links, agents = len(links.senders), np.arange(len(links.perron))
        return NoiseMap(
            owners=np.array([[RELAY, -1]]),
            link_index=np.arange(num_links),
            link_source=np.zeros(num_links, dtype=int),
            link_value=np.ones(num_links),
            self_index=agents,
            self_source=np.zeros_like(agents),
            self_value=np.ones(len(agents)),
        )

    return Noise(name="central", law=law, spread=spread, needs_relay=True)
