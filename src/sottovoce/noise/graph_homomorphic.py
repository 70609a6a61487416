"""Graph-homomorphic noise: cancels in the network centroid, for any left-stochastic weights.

Agent p sends psi_p + z_p and keeps psi_p - ((1 - a_pp) / a_pp) z_p. The centroid receives of z_p

    sum_{m != p} q_m a_pm - q_p a_pp (1 - a_pp) / a_pp  =  (A q)_p - q_p  =  0.

Vlaski & Sayed 11.38; Rizk et al. 2023, eq. 43-44. The off-diagonal factor a_pm / a_mp printed in eq. 44 cancels only for
symmetric A; the factor 1 used here cancels for every left-stochastic A. Where a stage of a longer recursion weighs receivers by
r with A r != r, the own factor is -sum_{m != p} r_m a_pm / (r_p a_pp), which equals the above when A r = r.
"""

import numpy as np

from sottovoce.errors import IncompatibleChoice
from sottovoce.noise.laws import Law, check_law
from sottovoce.noise.noise import Noise, NoiseMap, broadcast_map, outgoing_weight
from sottovoce.topologies import ActiveLinks


def graph_homomorphic(law: Law) -> Noise:
    """Noise of one source per agent that cancels in the network centroid.

    Requires: a_kk > 0 for every agent.
    Formal guarantee: the Perron-weighted centroid receives no noise term. It is therefore in clear in the final model.
    """
    check_law(law, scheme="graph_homomorphic")
    return Noise(name="graph_homomorphic", law=law, spread=_spread, promises=("centroid",))


def _spread(links: ActiveLinks) -> NoiseMap:
    a = links.self_weights
    if isinstance(a, np.ndarray) and (a <= 0).any():
        k = int(np.flatnonzero(a <= 0)[0])
        raise IncompatibleChoice(
            f"graph_homomorphic needs a positive self-weight at every agent; agent {k} has {a[k]:g}. "
            f"Use weights='metropolis' or sv.noise.independent(law)."
        )
    return broadcast_map(links, -outgoing_weight(links) / a)
