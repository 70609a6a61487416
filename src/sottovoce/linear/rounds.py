"""All rounds of a run, bound to their links and noise: what accountant and attacks start from.

A run of T rounds uses few distinct rounds (one, for a fixed network and step), so these are kept once and a list says which round is
which. The noise of round t is `scales[t]` times a unit source; a round in which the algorithm sends nothing new has scale 0. Noise of earlier
rounds that enters again is part of a round (`BoundRound.memory`); then the sources are those of its fresh noise.
"""

from typing import Any, NamedTuple

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear.centroid import Centroid, centroid, exchange_topologies
from sottovoce.linear.form import LinearRound
from sottovoce.linear.linearity import check_linear_part, linear_rounds
from sottovoce.noise import Noise, NoiseMap, bind, cycle_length
from sottovoce.numbers import whole
from sottovoce.reprs import short_repr
from sottovoce.topologies import ActiveLinks, Listed, Static, Topology


class BoundExchange(NamedTuple):
    """The weights and the noise map of one exchange."""

    links: ActiveLinks
    noise: NoiseMap


class BoundRound(NamedTuple):
    """One distinct round: what an agent does, over which links, with which noise."""

    form: LinearRound
    exchanges: tuple[BoundExchange, ...]
    noisy_gradients: bool = False  # every agent's gradient carries a source of its own
    memory: np.ndarray | None = (
        None  # [lags, K] what every agent takes off of the noise it added one, two, ... rounds before
    )

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def remembered(self) -> np.ndarray:
        """[lags, K] the memory; without it there are no lags."""
        return np.zeros((0, len(self.exchanges[0].links.perron))) if self.memory is None else self.memory


class Rounds(NamedTuple):
    """A whole run."""

    distinct: tuple[BoundRound, ...]
    which: np.ndarray  # [T] position of every round in `distinct`
    scales: np.ndarray  # [T] scale of the law in every round; 0 where no noise is added
    centroid: Centroid
    projected: bool  # the agents project on convex sets, which these linear rounds leave out

    def __repr__(self) -> str:
        return short_repr(self)

    def __len__(self) -> int:
        return len(self.which)

    @property
    def values_are_fixed(self) -> bool:
        """Whether gradients enter in the first round only, at the point from which everybody starts: nothing reacts to what agents hear."""
        first, *others = [self.distinct[index].form for index in dict.fromkeys(self.which)]
        later = [*others, *([first] if np.any(self.which[1:] == self.which[0]) else [])]
        at_start = first.gradient_at is None or not first.gradient_at[first.blocks :].any()
        return at_start and not any(form.messages[:, -1].any() or form.state[:, -1].any() for form in later)

    def at(self, position: int) -> BoundRound:
        """The round at a position counted from 0."""
        return self.distinct[int(self.which[position])]


def bound_rounds(topology: Topology, algorithm: Algorithm, noise: Noise, rounds: int) -> Rounds:
    """Bind every round of a run; links that are drawn at random are refused.

    An algorithm with projections is represented by its linear part, and marked.

    Args:
        topology: who talks to whom.
        algorithm: what an agent does in a round.
        noise: how messages are perturbed.
        rounds: how many.

    Raises:
        UnsupportedClaim: the functions are not linear, or the links are random.
        IncompatibleChoice: the noise does not fit the links.
    """
    whole("rounds", rounds)
    linear = algorithm if algorithm.linear_part is None else algorithm.linear_part
    topologies = exchange_topologies(algorithm, topology)
    _refuse_random(topologies)
    weighing = centroid(linear, topology)
    cycles = [
        _Cycle(used, receivers, noise, rounds) for used, receivers in zip(topologies, weighing.receivers, strict=True)
    ]
    forms = linear_rounds(linear, rounds)
    if algorithm.linear_part is not None:
        check_linear_part(algorithm, linear, rounds)
    keys = [tuple(part.tobytes() for part in _flat(form)) for form in forms.forms]
    memory = _memory(noise, rounds, topology.num_agents)
    distinct: dict[tuple[Any, ...], int] = {}
    made: list[BoundRound] = []
    which = np.zeros(rounds, dtype=int)
    for t in range(rounds):
        places = tuple(cycle.place(t) for cycle in cycles)
        key = (keys[forms.which[t]], places, memory[t][1])
        if key not in distinct:
            distinct[key] = len(made)
            exchanges = tuple(cycle.exchange(t) for cycle in cycles)
            made.append(BoundRound(forms.forms[forms.which[t]], exchanges, noise.in_gradients, memory[t][0]))
        which[t] = distinct[key]
    scale = 0.0 if noise.law is None else noise.law.scale
    scales = scale * noise.factors(rounds) * linear.noisy_rounds(rounds)
    return Rounds(tuple(made), which, scales, weighing, algorithm.linear_part is not None)


def _memory(noise: Noise, rounds: int, num_agents: int) -> list[tuple[np.ndarray | None, bytes]]:
    """The factors of every round on the noise of earlier ones, [lags, K], each with what tells it from others."""
    if noise.memory is None:
        return [(None, b"")] * rounds
    return [(factors, factors.tobytes()) for factors in noise.remembered(rounds, num_agents)]


def _refuse_random(topologies: tuple[Topology, ...]) -> None:
    for used in topologies:
        if not isinstance(used.schedule, Static | Listed):
            raise UnsupportedClaim(
                "the links are drawn at random, so there is no one linear system of the run. Use topology.with_schedule([...]), or "
                "sv.account, which bounds every pattern of links."
            )


class _Cycle:
    """An exchange over every matrix that its topology goes through, in order, with every map that its noise goes through."""

    def __init__(self, topology: Topology, receivers: np.ndarray, noise: Noise, rounds: int) -> None:
        first = {id(turn): place for place, turn in reversed(list(enumerate(noise.turns)))}
        self.turns = [first[id(turn)] for turn in noise.turns] or [0]
        self.links = [part.active_links()._replace(perron=receivers) for part in topology.listed()]
        self.bound: dict[tuple[int, int], BoundExchange] = {}
        # Every matrix is bound, used or not, so that a promise that fails on one of them is refused.
        for t in range(max(len(self.links), min(rounds, cycle_length(noise, len(self.links))))):
            links = self.links[t % len(self.links)]
            if self.place(t) not in self.bound:
                self.bound[self.place(t)] = BoundExchange(links, bind(noise, links, round_=t + 1))

    def place(self, t: int) -> tuple[int, int]:
        """Which matrix, and which map, counted by the first of those that are the same function; t from 0."""
        return t % len(self.links), self.turns[t % len(self.turns)]

    def exchange(self, t: int) -> BoundExchange:
        """The exchange of a round, t from 0."""
        return self.bound[self.place(t)]


def _flat(form: LinearRound) -> list[np.ndarray]:
    at = np.full(form.messages.shape[1], np.nan) if form.gradient_at is None else form.gradient_at
    return [form.messages, at, form.state, form.model]


class Step(NamedTuple):
    """What an agent of diffusion type does in a round: when it takes its gradient, and how far it goes."""

    kind: str  # "atc" (before sending), "cta" (at the combination), "consensus" (beside it), "average" (no gradient)
    size: float


# By whether the gradient enters before sending, and where it is taken: (own model, combination, gradient).
_DIFFUSION = {(True, 1, 0, 0): "atc", (False, 0, 1, 0): "cta", (False, 1, 0, 0): "consensus"}


def diffusion_step(form: LinearRound) -> Step | None:
    """Recognise the rounds for which norms of differences have simple recursions; None for any other round."""
    if form.blocks != 1 or len(form.messages) != 1:
        return None
    message, state = form.messages[0], form.state[0]
    sends_model, keeps_received = np.array_equal(message[:2], [1, 0]), np.array_equal(state[:2], [0, 1])
    if not sends_model or not keeps_received or form.model[0] != 1:
        return None
    before, after = -float(message[2]), -float(state[2])
    if form.gradient_at is None or before == after == 0:
        return Step("average", 0.0)
    if min(before, after) != 0:  # a gradient that enters twice, or a step uphill
        return None
    kind = _DIFFUSION.get((before > 0, *form.gradient_at.tolist()))
    return None if kind is None else Step(kind, before + after)
