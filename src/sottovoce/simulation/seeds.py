"""A seed's random numbers in the open: the sources, batches, links and participants of a simulated run, as NumPy arrays.

    drawn = sv.simulation.drawn(problem, topology, algorithm, noise, rounds=60, seed=1, fraction_bits=24)
    drawn.sources(1, 0)            # [S, d] of the first exchange, in the order of noise.spread(drawn.weights(1, 0))

They come from the functions that the compiled program calls, in float64, so that a run of `sv.simulate(..., draws="sources", dtype="float64")` can
be played again agent by agent, by hand or among processes. They are for rehearsals and tests: numbers that follow from a seed protect nobody.
"""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.algorithms import AgentSampling, Algorithm
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear import centroid, check_parts, exchange_topologies
from sottovoce.noise import Law, Noise, NoiseMap, same_structure
from sottovoce.numbers import is_whole, whole
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.batches import draw_batch
from sottovoce.simulation.rounds.draws import Lattice, draw_sources
from sottovoce.simulation.rounds.links import link_arrays, plan_links, possible_links, weights_of_round
from sottovoce.simulation.rounds.participants import draw_participants
from sottovoce.simulation.rounds.perturbation import links_of_cycle
from sottovoce.simulation.rounds.plan import noise_scales
from sottovoce.simulation.rounds.precision import precision
from sottovoce.simulation.settings import Settings
from sottovoce.topologies import ActiveLinks, Listed, Static, Topology

Array = Any


class Drawn:
    """What one repeat of a seeded run draws. Rounds are numbered from 1, exchanges and gradients of a round from 0."""

    def __init__(
        self, sizes: np.ndarray, dimension: int, topology: Topology, algorithm: Algorithm, noise: Noise, settings: Settings, repeat: int
    ) -> None:  # fmt: skip
        """Bind a seed to the parts of a run; `drawn` checks them.

        Args:
            sizes: [K] records of every agent.
            dimension: d.
            topology: who talks to whom.
            algorithm: what agents do.
            noise: how messages are perturbed.
            settings: the numbers of the run.
            repeat: which one.
        """
        self._sizes, self._dimension, self._settings = sizes, dimension, settings
        self._algorithm, self._noise, self._repeat = algorithm, noise, repeat
        self._topologies = exchange_topologies(algorithm, topology)
        self._receivers = centroid(algorithm, topology).receivers
        self._scales = noise_scales(noise, settings.rounds) * algorithm.noisy_rounds(settings.rounds)
        self._who = random.seed_words(settings.seed), np.array([repeat], np.uint32)

    def __repr__(self) -> str:
        """Which seed and repeat."""
        return f"Drawn(seed={self._settings.seed}, repeat={self._repeat}, rounds={self._settings.rounds})"

    @property
    def num_agents(self) -> int:
        """K."""
        return self._topologies[0].num_agents

    def weights(self, round_: int, exchange: int) -> ActiveLinks:
        """The weights of the links in one exchange, to bind noise to; links that are not used have weight 0."""
        self._check(round_, exchange)
        topology, every = self._topologies[exchange], self._links[exchange]
        if isinstance(topology.schedule, Static | Listed):
            return every[(round_ - 1) % len(every)]
        with precision("float64"):
            link, own = _draw_links(*self._who, np.int32(round_), topology=topology)
        return every[0]._replace(weights=np.asarray(link)[:, 0], self_weights=np.asarray(own)[:, 0])

    def sources(self, round_: int, exchange: int) -> np.ndarray:
        """[S, d] every source of the noise map of an exchange as it is added, scaled and, where that was asked for, on the lattice."""
        self._check(round_, exchange)
        first, number = self._numbers(round_, exchange)
        if number == 0 or self._noise.law is None:
            return np.zeros((0, self._dimension))
        return self._noise_of(first + np.arange(number), round_, exchange, stream=random.NOISE)

    def gradient_noise(self, round_: int, step: int) -> np.ndarray:
        """[K, d] what every agent adds to one gradient of a round; zeros where the noise is in messages."""
        self._check_step(round_, step)
        if not self._noise.in_gradients:
            return np.zeros((self.num_agents, self._dimension))
        return self._noise_of(np.arange(self.num_agents), round_, step, stream=random.GRADIENTS)

    def batch(self, round_: int, step: int) -> np.ndarray:
        """[K, B] positions of the records in every agent's batch for one gradient of a round.

        Raises:
            ConfigError: the run has no batches.
        """
        self._check_step(round_, step)
        size = self._settings.batch_size
        if size is None:
            raise ConfigError("the run has no batches: every gradient takes all records. Give batch_size to read some.")
        sizes = np.asarray(self._sizes, np.int32)
        with precision("float64"):
            found = _draw_positions(*self._who, np.int32(round_), np.int32(step), sizes, batch_size=size)
        return np.asarray(found, np.int64)[:, :, 0]

    def counts(self, round_: int) -> np.ndarray:
        """[K] how much every agent counts in a round: 1 for each where all take part, 0 for who was not drawn."""
        self._check(round_, 0)
        sampling = self._algorithm.sampling
        if sampling is None:
            return np.ones(self.num_agents)
        with precision("float64"):
            found = _draw_counts(*self._who, np.int32(round_), sampling=sampling, num_agents=self.num_agents)
        return np.asarray(found)[:, 0]

    def _noise_of(self, ids: np.ndarray, round_: int, use: int, *, stream: int) -> np.ndarray:
        """Sources by their numbers, [N, d], at the scale of the round."""
        law, scale = self._noise.law, np.float64(self._scales[round_ - 1])
        assert law is not None
        kind = _Kind(law, self._dimension, self._settings.fraction_bits, stream)
        at = np.int32(round_), np.int32(use)
        with precision("float64"):
            found = _draw_scaled(*self._who, *at, ids.astype(np.int32), scale, kind=kind)
        return np.asarray(found)[:, :, 0]

    def _numbers(self, round_: int, exchange: int) -> tuple[int, int]:
        """The number of the first source of an exchange, and how many there are."""
        maps, alike = self._maps[exchange]
        index = (round_ - 1) % len(maps)
        # The matrices of a list whose sources differ have numbers of their own, one matrix after the other, as in recorded runs.
        first = 0 if alike else sum(one.num_sources for one in maps[:index])
        return first, maps[index].num_sources

    @cached_property
    def _links(self) -> list[list[ActiveLinks]]:
        """Per exchange the weights of a list's rounds; those of a round with all links where they are drawn, or never change."""
        found = []
        for topology, perron in zip(self._topologies, self._receivers, strict=True):
            if isinstance(topology.schedule, Static | Listed):
                every = possible_links(topology)
            else:
                ends = topology.links
                every = [ActiveLinks(ends[:, 0], ends[:, 1], topology.link_weights, topology.self_weights, perron)]
            found.append([links._replace(perron=perron) for links in every])
        return found

    @cached_property
    def _maps(self) -> list[tuple[list[NoiseMap], bool]]:
        """Per exchange the noise maps on those links, and whether their sources are the same."""
        maps = [
            [self._noise.spread_in(t + 1)(links) for t, links in enumerate(links_of_cycle(self._noise, every))]
            for every in self._links
        ]
        return [(one, all(same_structure(one[0], other) for other in one)) for one in maps]

    def _check(self, round_: int, exchange: int) -> None:
        rounds, exchanges = self._settings.rounds, len(self._topologies)
        if not is_whole(round_, 1, rounds) or not is_whole(exchange, 0, exchanges - 1):
            raise ConfigError(
                f"round {round_!r}, exchange {exchange!r}; rounds are 1 to {rounds}, exchanges 0 to {exchanges - 1}."
            )

    def _check_step(self, round_: int, step: int) -> None:
        self._check(round_, 0)
        if not is_whole(step, 0, self._algorithm.gradients_per_round - 1):
            most = self._algorithm.gradients_per_round - 1
            raise ConfigError(f"step {step!r}; the gradients of a round are numbered from 0 to {most}.")


# The draws of one repeat, compiled once for all seeds and rounds. Results have the repeat as their last axis.


def _keys(seed: Array, repeat: Array, stream: int, round_: Array, use: Array) -> tuple[Array, Array]:
    return random.round_keys(random.repeat_keys(seed, repeat, stream), round_, use)


class _Kind(NamedTuple):
    """What a compiled draw of sources depends on."""

    law: Law
    dimension: int
    fraction_bits: int | None
    stream: int


@partial(jax.jit, static_argnames="kind")
def _draw_scaled(
    seed: Array, repeat: Array, round_: Array, use: Array, ids: Array, scale: Array, *, kind: _Kind
) -> Array:
    lattice = None if kind.fraction_bits is None else Lattice(scale, kind.fraction_bits)
    keys = _keys(seed, repeat, kind.stream, round_, use)
    z = draw_sources(kind.law, keys, ids, kind.dimension, jnp.dtype("float64"), lattice)
    return scale * z if lattice is None else z


@partial(jax.jit, static_argnames="batch_size")
def _draw_positions(seed: Array, repeat: Array, round_: Array, step: Array, sizes: Array, *, batch_size: int) -> Array:
    return draw_batch(_keys(seed, repeat, random.BATCH, round_, step), sizes, batch_size)


@partial(jax.jit, static_argnames=("sampling", "num_agents"))
def _draw_counts(seed: Array, repeat: Array, round_: Array, *, sampling: AgentSampling, num_agents: int) -> Array:
    keys = _keys(seed, repeat, random.AGENTS, round_, jnp.uint32(0))
    return draw_participants(sampling, keys, num_agents, jnp.dtype("float64"))


@partial(jax.jit, static_argnames="topology")
def _draw_links(seed: Array, repeat: Array, round_: Array, *, topology: Topology) -> tuple[Array, Array]:
    plan = plan_links(topology)
    arrays = jax.tree.map(jnp.asarray, link_arrays(plan))
    weights = weights_of_round(plan, arrays, round_, random.repeat_keys(seed, repeat, random.LINKS))
    return weights.link, weights.own


def drawn(
    problem: Any,
    topology: Topology,
    algorithm: Algorithm,
    noise: Noise,
    *,
    rounds: int,
    seed: int,
    repeat: int = 0,
    batch_size: int | None = None,
    fraction_bits: int | None = None,
    dimension: int | None = None,
) -> Drawn:
    """The random numbers of one repeat of `sv.simulate(..., draws="sources", dtype="float64")`.

    Args:
        problem: of the run; or, where its data is elsewhere, how many records each agent has, with `dimension`.
        topology: who talks to whom.
        algorithm: what agents do.
        noise: how messages are perturbed.
        rounds: of the run.
        seed: of the run.
        repeat: which repetition.
        batch_size: records of one gradient; None: all of them.
        fraction_bits: f, sources in whole units of 2^-f; None: as drawn.
        dimension: the number of parameters, where no problem is given.

    Raises:
        ConfigError: numbers that no run has.
        IncompatibleChoice: a walk, whose token and gradients are not the agents' own to draw.
    """
    check_parts(topology=topology, algorithm=algorithm, noise=noise)
    settings = Settings(
        rounds=rounds, seed=seed, batch_size=batch_size, dtype="float64", draws="sources", fraction_bits=fraction_bits
    )
    whole("repeat", repeat, least=0)
    if algorithm.walks:
        raise IncompatibleChoice(
            f"'{algorithm.name}' moves one token, and its path is drawn for all repeats together (sv.topologies.walk_paths). Read the "
            f"draws of an algorithm whose agents all send."
        )
    sizes, d = _sizes(problem, dimension)
    if len(sizes) != topology.num_agents:
        raise ConfigError(f"records of {len(sizes)} agents were given, and the topology has {topology.num_agents}.")
    if batch_size is not None and batch_size > sizes.min():
        raise ConfigError(f"batch_size = {batch_size}, but agent {sizes.argmin()} has {sizes.min()} record(s).")
    return Drawn(sizes, d, topology, algorithm, noise, settings, repeat)


def _sizes(problem: Any, dimension: int | None) -> tuple[np.ndarray, int]:
    """[K] records of every agent, and d."""
    if hasattr(problem, "sizes"):
        if dimension is not None:
            raise ConfigError("dimension was given beside a problem, which has one. Leave it out.")
        return np.asarray(problem.sizes), int(problem.dimension)
    if not isinstance(problem, Sequence | np.ndarray) or dimension is None:
        raise ConfigError("give a problem, or the number of every agent's records together with dimension=.")
    return np.array([whole("records", int(size)) for size in problem]), whole("dimension", dimension)
