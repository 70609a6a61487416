"""Noise in every gradient, before the agent itself uses it.

    grad_k(w)  ->  grad_k(w) + z_k,   a fresh z_k for every gradient the agent takes, also inside a round of several local steps

Messages carry no further noise. Whatever an agent does or sends after that is computed from noisy gradients alone, so what T L of
them give away bounds what any observer learns, whatever the algorithm, the graph and the number of local steps; released models included.
"""

from sottovoce.noise.laws import Law, check_law
from sottovoce.noise.noise import Noise, no_sources


def gradient(law: Law) -> Noise:
    """Noise that each agent adds to every gradient it takes.

    Args:
        law: law of one source: one per agent and gradient.
    """
    check_law(law, scheme="gradient")
    return Noise(name="gradient", law=law, spread=no_sources, in_gradients=True)
