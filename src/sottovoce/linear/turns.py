"""The check that simulation, theory and accountant share: where the map of a noise scheme may change from round to round."""

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear.centroid import exchange_topologies
from sottovoce.noise import Noise
from sottovoce.topologies import Listed, Static, Topology


def check_turns(algorithm: Algorithm, noise: Noise, topology: Topology) -> None:
    """Refuse maps that change from round to round where rounds are not known in advance.

    Raises:
        ConfigError: `spread` is not the first of the maps.
        IncompatibleChoice: random links, walks, samples of agents, masked sums, noise in gradients or with memory.
    """
    if not noise.turns:
        return
    if noise.spread is not noise.turns[0]:
        raise ConfigError(
            f"'{noise.name}' has {len(noise.turns)} maps for its rounds and another one as `spread`. Give the first of turns as spread."
        )
    used = exchange_topologies(algorithm, topology)
    reasons = {
        "noise is in gradients": noise.in_gradients,
        "noise of earlier rounds enters again": noise.memory is not None,
        "one token walks": algorithm.walks,
        "links are drawn at random": any(not isinstance(one.schedule, Static | Listed) for one in used),
        f"only a sample of agents takes part ({algorithm.sampling})": algorithm.sampling is not None,
        "sums are masked": algorithm.aggregation is not None,
    }
    for reason, holds in reasons.items():
        if holds:
            raise IncompatibleChoice(
                f"'{noise.name}' spreads its noise otherwise from round to round, which cannot be where {reason}. Use fixed or listed links and agents "
                f"who all take part, or a scheme with one map."
            )
