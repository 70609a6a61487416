"""Independent noise: one source per agent (broadcast) or one per directed link.

    broadcast     agent l sends psi_l + z_l to every neighbour                   (Vlaski & Sayed 11.25-11.27)
    per edge      agent l sends psi_l + z_lk to neighbour k                      (Rizk et al. 2023, eq. 24-26)
    self-noise    its own copy is perturbed too: by the same z_l (broadcast), by a source of its own (per edge)

Broadcast with self-noise is the scheme in which an agent uses exactly what it sent; several guarantees hold only for it.
"""

import numpy as np

from sottovoce.noise.laws import Law, check_law
from sottovoce.noise.noise import Noise, NoiseMap, broadcast_map, outgoing_weight
from sottovoce.topologies import ActiveLinks


def independent(law: Law, *, per_edge: bool = False, self_noise: bool = True) -> Noise:
    """Noise that does not cancel: drawn by each sender alone.

    Args:
        law: law of one source.
        per_edge: draw a fresh source for every directed link instead of one per sender.
        self_noise: perturb the agent's own copy as well. An agent that sends nothing in a round adds nothing.
    """
    check_law(law, scheme="independent")

    def spread_broadcast(links: ActiveLinks) -> NoiseMap:
        sends = (outgoing_weight(links) > 0) * 1.0
        return broadcast_map(links, sends if self_noise else 0.0 * sends)

    def spread_per_edge(links: ActiveLinks) -> NoiseMap:
        num_links, num_agents = len(links.senders), len(links.perron)
        agents = np.arange(num_agents) if self_noise else np.arange(0)
        owners = np.concatenate([links.senders, agents])
        return NoiseMap(
            owners=np.stack([owners, np.full_like(owners, -1)], axis=1),
            link_index=np.arange(num_links),
            link_source=np.arange(num_links),
            link_value=np.ones(num_links),
            self_index=agents,
            self_source=num_links + agents,
            self_value=(outgoing_weight(links) > 0)[agents] * 1.0,
        )

    return Noise(
        name="independent",
        law=law,
        spread=spread_per_edge if per_edge else spread_broadcast,
        parameters={"per_edge": per_edge, "self_noise": self_noise},
    )
