"""sv.calibrate: the noise that meets a target exactly, the inverse of `account`.

Every value of `account` is inversely proportional to the scale of the noise: mu for Gaussian noise, epsilon for the Laplace laws. So one
account suffices, and the factor is value / target. Only sampling and walks need a search.
"""

from numpy.typing import ArrayLike

from sottovoce.accounting.account import account
from sottovoce.accounting.guarantee import Guarantee
from sottovoce.accounting.question.participation import Participation
from sottovoce.accounting.question.question import ADJACENCY, PARTICIPATION, UNIT, Question
from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.noise import Noise
from sottovoce.numbers import checked
from sottovoce.observers import Observer
from sottovoce.problems import Adjacency, ConvexSmooth, Unit
from sottovoce.topologies import Topology


def calibrate(
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    observer: Observer,
    *,
    rounds: int | None = None,
    sensitivity: ArrayLike | None = None,
    epsilon: float,
    delta: float,
    unit: Unit = UNIT,
    adjacency: Adjacency = ADJACENCY,
    participation: Participation = PARTICIPATION,
    losses: ConvexSmooth | None = None,
    agent: int | None = None,
    same_model: bool | None = None,
    question: Question | None = None,
) -> Noise:
    """The same noise rescaled so that `account(...).epsilon(delta)` is `epsilon`; other arguments as in `account`.

    Raises:
        UnsupportedClaim: no scale gives this observer a finite guarantee.
        ConfigError: epsilon or delta outside their ranges.
    """
    checked("epsilon", epsilon, "(0, inf)"), checked("delta", delta, "[0, 1)")  # before the long account
    if not isinstance(observer, Observer):
        raise ConfigError(f"observer = {observer!r}; noise is calibrated for one observer. Give one of sv.observers.")
    found = account(
        topology, algorithm, noise, observer, rounds=rounds, sensitivity=sensitivity, unit=unit, adjacency=adjacency,
        participation=participation, losses=losses, agent=agent, same_model=same_model, question=question,
    )  # fmt: skip
    return noise.scaled(noise_factor(found, epsilon=epsilon, delta=delta))


def noise_factor(found: Guarantee, *, epsilon: float, delta: float) -> float:
    """The factor on the noise of `found` with which `found.scaled(factor).epsilon(delta)` is `epsilon`.

    Raises:
        UnsupportedClaim: no factor gives this observer that epsilon.
    """
    epsilon, delta = checked("epsilon", epsilon, "(0, inf)"), checked("delta", delta, "[0, 1)")
    if found.validity == "infinite":
        raise UnsupportedClaim(f"no amount of this noise gives {found.observer} a finite epsilon. {found.reason}")
    return found.tradeoff.factor_for(epsilon, delta)
