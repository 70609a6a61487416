"""What agents on a ring learn from a token that sums (`sottovoce.algorithms.ring_sum`), exactly.

Members of the observer see the token whenever one of them receives or hands it on, and know what they added. So they see the sum of what others add in
every stretch between two of their turns: values and m noises. Stretches share nothing. If agent u adds c times in a stretch, each time a value that a change
of its data moves by at most Delta, then

    mu^2 = sum over stretches of (c Delta)^2 / (m std^2),      infinite where c > 0 and m = 0,

which is reached when all changes point the same way: the value is exact, and the values need not stay the same from pass to pass. One observer
finds m = 1 and c = 1, so that mu = sqrt(K) Delta / std for K passes (K - 1 for agents whose last value never comes to it). Theorem 1 of Cyffers & Bellet
2022 states the same setting by advanced composition, `documents.cyffers_ring_epsilon`: an upper bound, and a loose one.

Two neighbours of u enclose a stretch of u alone: infinite, unless u adds the noise itself in every pass.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from sottovoce.algorithms import noisy_hops
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, whole


def ring_sum_mu(
    *,
    num_agents: int,
    passes: int,
    std: float,
    sensitivity: float,
    agent: int,
    observers: Iterable[int],
    published: bool,
) -> float:
    """Return the exact mu of one agent towards others, together; infinite where they read a value in clear.

    Args:
        num_agents: n, at least 3.
        passes: K.
        std: of every noise, per coordinate.
        sensitivity: Delta, the most that a change of the agent's data moves what it adds in one pass, in l2.
        agent: u, in the order of the ring; agent 0 begins.
        observers: other agents, who share all they see.
        published: whether everybody gets the last token. If not, agent 0 alone receives it.
    """
    if not isinstance(published, bool):
        raise ConfigError(f"published = {published!r}; say True or False.")
    noisy = noisy_hops(num_agents, passes)
    ratio = checked("sensitivity", sensitivity, "(0, inf)") / checked("std", std, "(0, inf)")
    looking = {_position("observer", one, num_agents) for one in observers}
    u = _position("agent", agent, num_agents)
    if not looking or u in looking:
        raise ConfigError(f"observers = {sorted(looking)} of agent {u}; name one or more others.")
    return ratio * math.sqrt(math.fsum(_price(*seen) for seen in _seen(noisy, num_agents, u, looking, published)))


def _seen(noisy: np.ndarray, n: int, u: int, looking: set[int], published: bool) -> Iterator[tuple[int, int]]:
    """Every stretch that the observers see the end of: how many values of u, and how many noises, were added in it."""
    values = noises = 0
    for hop, with_noise in enumerate(noisy):
        holder, last = hop % n, hop == len(noisy) - 1
        seen = (hop + 1) % n in looking or (last and published)
        if holder in looking:
            values = noises = 0
            continue
        values, noises = values + (holder == u), noises + int(with_noise)
        if seen:
            yield values, noises
            values = noises = 0


def _price(values: int, noises: int) -> float:
    if values == 0:
        return 0.0
    return math.inf if noises == 0 else values**2 / noises


def _position(name: str, value: int, num_agents: int) -> int:
    place = whole(name, value, least=0)
    if place >= num_agents:
        raise ConfigError(
            f"{name} = {value!r} on a ring of {num_agents}; agents are numbered from 0 to {num_agents - 1}."
        )
    return place
