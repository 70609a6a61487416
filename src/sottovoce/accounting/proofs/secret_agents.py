"""A secret sample of agents, whose average a trusted relay perturbs.

Everybody who takes part adds at most C times its weight (its whole update is clipped), and noise of one scale is added whoever takes part. An
observer who does not see who took part faces, in every round, the Gaussian mechanism on a random sample:

    Poisson       subsampled.py, for an agent added or removed, or replaced; members of the observer know their own coins only
    fixed size    fixed_size.py, for an agent replaced; a member who knows whether it was drawn itself knows more about the others: of the K - s
                  agents outside a coalition of s, at most m are drawn, so the rate is m / (K - s)

Adaptive composition: the relay's averages determine every state, so each round is such a mechanism given the rounds before.
"""

from sottovoce.accounting.tradeoff import FixedSizeTradeoff, SampledTradeoff, SubsampledTradeoff
from sottovoce.algorithms import AgentSampling, FixedAgents, PoissonAgents
from sottovoce.problems.sensitivity import Adjacency


def sampled_tradeoff(
    sampling: AgentSampling,
    *,
    largest: float,
    scale: float,
    rounds: int,
    adjacency: Adjacency,
    num_agents: int,
    members: int,
) -> SampledTradeoff:
    """What the averages of a secret sample give away.

    Args:
        sampling: how agents are drawn.
        largest: the norm of the most that one agent adds to an average.
        scale: standard deviation of the relay's noise.
        rounds: T.
        adjacency: how the data of one agent change.
        num_agents: K.
        members: how many agents belong to the observer.
    """
    if isinstance(sampling, PoissonAgents):
        return SubsampledTradeoff(
            noise_multiplier=scale / largest, sampling_rate=sampling.rate, rounds=rounds, adjacency=adjacency
        )
    assert isinstance(sampling, FixedAgents)  # silent agents are accounted with their masks
    assert adjacency == "replace"  # with one agent more or less the sample would be drawn from another number
    rate = min(1.0, sampling.size / (num_agents - members))
    return FixedSizeTradeoff(noise_multiplier=scale / (2.0 * largest), sampling_rate=rate, rounds=rounds)
