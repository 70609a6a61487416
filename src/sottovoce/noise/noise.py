"""The contract of a noise scheme: independent sources and a sparse linear map that spreads them.

A scheme is a value without a topology. Binding it to the links active in a round gives, for sources z_s (independent, one law),

    link l -> k carries      psi_l + sum_s link_map[(l, k), s] z_s
    agent k's own copy       psi_k + sum_s self_map[k, s]      z_s
    so agent k combines      sum_l a_lk psi_l + (R z)_k,   R[k, s] = sum_{l != k} a_lk link_map[(l, k), s] + a_kk self_map[k, s]

Everything else is read off this map: what a simulation must draw, whether the noise cancels (in the centroid: q' R = 0; at the
receivers: R = 0), what an observer who knows some of the sources can subtract.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.noise.laws import L2Laplace, Law
from sottovoce.reprs import described_repr, short_repr
from sottovoce.schedules import schedule_of
from sottovoce.topologies import ActiveLinks

CANCELLATION_TOLERANCE = 1e-12
MAX_ENTRIES = 50_000_000  # (link, source) entries of one map: about 4 GB while it is being combined with the weights
RELAY = -1  # the owner of what a relay adds, which is no agent
GENERATOR = -2  # the owner of what a generator draws, which is no agent either: every agent is told the sum that it adds, and no source of it
Array = Any  # NumPy here; JAX when the active links are drawn inside a compiled round
Cancellation = Literal["centroid", "receivers"]
Factor = float | Sequence[float] | Callable[[int], float]


class NoiseMap(NamedTuple):
    """Which source reaches which link and which own copy, with what factor (coordinate format).

    The index arrays are NumPy and depend only on which links exist; the values may depend on the active weights.
    """

    # [S, w] who knows source s, w >= 2: agents, filled up with -1; or RELAY or GENERATOR in the first column
    owners: np.ndarray
    link_index: np.ndarray  # [m] position of the link in topology.links
    link_source: np.ndarray  # [m]
    link_value: Array  # [m]
    self_index: np.ndarray  # [n] agent whose own copy is meant
    self_source: np.ndarray  # [n]
    self_value: Array  # [n]

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def num_sources(self) -> int:
        """How many independent sources the scheme has on these links."""
        return len(self.owners)

    @property
    def of_relay(self) -> np.ndarray:
        """[S] bool: the sources that a relay owns."""
        return np.asarray(self.owners[:, 0] == RELAY)

    @property
    def of_generator(self) -> np.ndarray:
        """[S] bool: the sources of which agents know nothing but the sums that they add."""
        return np.asarray(self.owners[:, 0] == GENERATOR)


class Noise(NamedTuple):
    """A noise scheme: a law for the sources and a rule that spreads them over the active links."""

    name: str
    law: Law | None  # None only for the scheme without sources
    spread: Callable[[ActiveLinks], NoiseMap]
    promises: tuple[Cancellation, ...] = ()  # checked on every bound map; the run is refused where one fails
    schedule: Sequence[float] | Callable[[int], float] | None = None  # factor on the law, per round
    parameters: Mapping[str, Any] = {}
    needs_relay: bool = False  # the relay of a federation adds it
    in_gradients: bool = False  # agents add it to every gradient they take, and links carry none
    # [rounds or 1, lags, agents or 1]: what agent k adds in round t is fresh noise less memory[t, j, k] times what it added j + 1 rounds before
    memory: np.ndarray | None = None
    # Where rounds spread their sources otherwise: the map of round t is turns[(t - 1) % len(turns)], and `spread` is the first of them
    turns: tuple[Callable[[ActiveLinks], NoiseMap], ...] = ()

    def spread_in(self, round_: int) -> Callable[[ActiveLinks], NoiseMap]:
        """The rule by which a round, numbered from 1, spreads its sources."""
        return self.turns[(round_ - 1) % len(self.turns)] if self.turns else self.spread

    @property
    def std(self) -> float:
        """Standard deviation of one source in one coordinate; 0 for the scheme without sources.

        Raises:
            ConfigError: L2Laplace, whose standard deviation depends on how many coordinates a model has.
        """
        if isinstance(self.law, L2Laplace):
            raise ConfigError(
                f"the standard deviation of {self.law} depends on the number d of coordinates: take its scale, noise.law.scale, or "
                f"math.sqrt(noise.law.variance(d))."
            )
        return 0.0 if self.law is None else self.law.std

    def scaled(self, factor: Factor) -> "Noise":
        """The same scheme with its law multiplied: by one number, by one number per round, or by factor(round).

        Rounds are numbered from 1. A zero factor means that this round is sent without noise. Under memory what is multiplied is the
        fresh noise of a round: one number for all rounds multiplies everything that agents add, a schedule does not.
        """
        previous = self.schedule
        if callable(factor):
            if previous is None:
                return self._replace(schedule=factor)
            return self._replace(schedule=lambda round_: _factor_at(previous, round_) * _factor_at(factor, round_))
        if np.ndim(factor) == 0:
            return self if self.law is None else self._replace(law=self.law.scaled(float(factor)))  # type: ignore[arg-type]
        values = tuple(float(value) for value in factor)  # type: ignore[union-attr]
        if previous is None:
            return self._replace(schedule=values)
        if not callable(previous) and len(previous) != len(values):
            raise ConfigError(
                f"a schedule of {len(values)} rounds cannot multiply one of {len(previous)}; give as many factors."
            )
        return self._replace(schedule=tuple(_factor_at(previous, t + 1) * value for t, value in enumerate(values)))

    def factors(self, rounds: int) -> np.ndarray:
        """The factor of every round, [rounds].

        Raises:
            ConfigError: the schedule is shorter than the run, or has a negative or non-finite entry.
        """
        if self.schedule is None:
            return np.ones(rounds)
        if not callable(self.schedule) and len(self.schedule) < rounds:
            raise ConfigError(
                f"the noise schedule of '{self.name}' has {len(self.schedule)} factors but the run has {rounds} rounds. "
                f"Give one factor per round (0 for a round without noise)."
            )
        factors = (
            schedule_of(self.schedule).table(rounds)
            if callable(self.schedule)
            else np.array(self.schedule[:rounds], dtype=float)
        )
        bad = np.flatnonzero(~np.isfinite(factors) | (factors < 0))
        if bad.size:
            raise ConfigError(
                f"the noise schedule of '{self.name}' is {factors[bad[0]]} in round {bad[0] + 1}; "
                f"every factor must be finite and not negative."
            )
        return factors

    def remembered(self, rounds: int, num_agents: int) -> np.ndarray:
        """[rounds, lags, agents]: with which factor every agent takes off in every round what it added one, two, ... rounds before.

        Without memory there are no lags.

        Raises:
            ConfigError: numbers that are not finite, or of another shape than [rounds or 1, lags, agents or 1].
        """
        if self.memory is None:
            return np.zeros((rounds, 0, num_agents))
        given = self.memory
        if not isinstance(given, np.ndarray):
            raise ConfigError(
                f"the memory of '{self.name}' is a {type(given).__name__}; needed is an array [rounds or 1, lags, agents or 1]. Use np.array(...)."
            )
        if (
            given.ndim != 3
            or given.dtype.kind not in "fiu"
            or given.shape[1] == 0
            or given.shape[2] not in (1, num_agents)
        ):
            raise ConfigError(
                f"the memory of '{self.name}' has shape {given.shape} and type {given.dtype}; needed are real numbers [rounds or 1, lags, agents or 1] "
                f"with at least one lag and {num_agents} agents. Leave memory out for noise that is fresh in every round."
            )
        if given.shape[0] != 1 and given.shape[0] < rounds:
            raise ConfigError(
                f"the memory of '{self.name}' has rows for {given.shape[0]} rounds but the run has {rounds}. Give one row per round, or one for all."
            )
        if not np.isfinite(given).all():
            raise ConfigError(
                f"the memory of '{self.name}' has entries that are not finite. Every factor must be a real number."
            )
        used = given[:rounds] if given.shape[0] > 1 else given
        return np.array(np.broadcast_to(used, (rounds, given.shape[1], num_agents)), dtype=float)

    def __repr__(self) -> str:
        return described_repr(self)

    def describe(self, rounds: int | None = None) -> dict[str, Any]:
        """What was chosen, as plain values for a saved run; with `rounds`, a schedule is written out."""
        described: dict[str, Any] = {"name": self.name}
        if self.law is not None:
            described |= {"law": type(self.law).__name__, "scale": self.law.scale}
        if self.schedule is not None:
            described["schedule"] = "per round"
            if rounds is not None:
                described["factors"] = self.factors(rounds).tolist()
        if self.turns:
            described["turns"] = len(self.turns)
        if self.memory is not None:
            described["memory"] = self.memory.tolist()
        return {**described, **self.parameters}


def _factor_at(schedule: Sequence[float] | Callable[[int], float], round_: int) -> float:
    return float(schedule_of(schedule)(round_) if callable(schedule) else schedule[round_ - 1])


def broadcast_map(links: ActiveLinks, own_factor: Array) -> NoiseMap:
    """One source per agent: every link of agent l carries z_l, its own copy carries own_factor[l] z_l."""
    agents = np.arange(len(links.perron))
    return NoiseMap(
        owners=np.stack([agents, np.full_like(agents, -1)], axis=1),
        link_index=np.arange(len(links.senders)),
        link_source=links.senders,
        link_value=np.ones(len(links.senders)),
        self_index=agents,
        self_source=agents,
        self_value=own_factor,
    )


def same_everywhere(
    links: ActiveLinks, owners: np.ndarray, agent: np.ndarray, source: np.ndarray, value: Array
) -> NoiseMap:
    """What an agent adds stands on all its links and on its own copy alike.

    Args:
        links: of the round.
        owners: [S, w] who knows the sources.
        agent: [n] who adds something.
        source: [n] which source it adds.
        value: [n] with which factor.

    Raises:
        IncompatibleChoice: more entries than memory has room for.
    """
    counts = np.bincount(agent, minlength=len(links.perron))
    widths = counts[links.senders]
    total = int(widths.sum())
    if total > MAX_ENTRIES:
        raise IncompatibleChoice(
            f"this noise puts every source of an agent on all its links, {total:,} entries on these {len(links.senders):,} links; the limit "
            f"is {MAX_ENTRIES:,}. Use fewer agents or a sparser graph, such as k_out."
        )
    by_agent = np.argsort(agent, kind="stable")
    first = (np.cumsum(counts) - counts)[links.senders]
    within = np.arange(total) - np.repeat(np.cumsum(widths) - widths, widths)
    entry = by_agent[np.repeat(first, widths) + within]
    return NoiseMap(
        owners=owners,
        link_index=np.repeat(np.arange(len(links.senders)), widths),
        link_source=source[entry],
        link_value=value[entry],
        self_index=agent,
        self_source=source,
        self_value=value,
    )


def no_sources(links: ActiveLinks) -> NoiseMap:
    """Links and own copies carry no noise."""
    empty, values = np.arange(0), np.zeros(0)
    return NoiseMap(np.zeros((0, 2), dtype=int), empty, empty, values, empty, empty, values)


def known_sources(owners: np.ndarray, members: np.ndarray) -> np.ndarray:
    """[S] bool: the sources that a member [K] owns or shares; what a relay or a generator owns is known to no agent."""
    return np.asarray(((owners >= 0) & members[owners]).any(axis=1))


def shared_sources(owners: np.ndarray) -> np.ndarray:
    """[S] bool: the sources that several agents know."""
    return np.asarray((owners[:, 1:] >= 0).any(axis=1))


def joined_owners(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The owners of several maps one after the other, filled up to the width of the widest."""
    width = max(part.shape[1] for part in parts)
    return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=-1) for part in parts])


def same_structure(first: NoiseMap, second: NoiseMap) -> bool:
    """Whether the same sources enter the same links and own copies, with whatever values."""
    return all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("owners", "link_index", "link_source", "self_index", "self_source")
    )


def outgoing_weight(links: ActiveLinks) -> Array:
    """What the network still gives agent p's message, relative to p's place in the centroid: sum_{m != p} r_m a_pm / r_p, [K]."""
    r = links.perron
    terms: Array = links.weights * r[links.receivers]
    if isinstance(terms, np.ndarray):
        return np.bincount(links.senders, weights=terms, minlength=len(r)) / r
    xp = terms.__array_namespace__()
    return xp.zeros(len(r), terms.dtype).at[links.senders].add(terms) / r


def received_map(noise_map: NoiseMap, links: ActiveLinks) -> sparse.csr_array:
    """The matrix R [K, S] of the module's first lines: what each receiver combines of each source."""
    weights = np.concatenate(
        [
            links.weights[noise_map.link_index] * noise_map.link_value,
            links.self_weights[noise_map.self_index] * noise_map.self_value,
        ]
    )
    rows = np.concatenate([links.receivers[noise_map.link_index], noise_map.self_index])
    columns = np.concatenate([noise_map.link_source, noise_map.self_source])
    combined = sparse.coo_array((weights, (rows, columns)), shape=(len(links.perron), noise_map.num_sources)).tocsr()
    combined.sum_duplicates()
    # Terms that cancel leave rounding of their own size; anything below that is zero.
    terms = sparse.coo_array((np.abs(weights), (rows, columns)), shape=combined.shape).tocsr()
    terms.sum_duplicates()
    terms.sort_indices(), combined.sort_indices()
    combined.data[np.abs(combined.data) <= 1e-14 * terms.data] = 0.0
    combined.eliminate_zeros()
    return combined


def cancels_at_receivers(noise_map: NoiseMap, links: ActiveLinks) -> bool:
    """Whether every receiver's combination is free of noise (R = 0) although the links carry some."""
    return noise_map.num_sources > 0 and received_map(noise_map, links).nnz == 0


def centroid_residual(noise_map: NoiseMap, links: ActiveLinks) -> float:
    """Largest entry of r' R: what the (Perron-weighted) centroid receives of any source of unit scale."""
    combined = received_map(noise_map, links)
    return float(np.abs(combined.T @ links.perron).max(initial=0.0))


def cancels_in_centroid(noise_map: NoiseMap, links: ActiveLinks) -> bool:
    """Whether the centroid receives no noise term (to 1e-12)."""
    return noise_map.num_sources > 0 and centroid_residual(noise_map, links) <= CANCELLATION_TOLERANCE


def own_copy_is_the_message(noise_map: NoiseMap, links: ActiveLinks) -> bool:
    """Whether every agent itself uses exactly what it sent: own copy and all its active links carry the same noise."""
    num_links, num_agents, num_sources = len(links.senders), len(links.perron), noise_map.num_sources
    if num_sources == 0:
        return True
    carried = sparse.csr_array(
        (noise_map.link_value, (noise_map.link_index, noise_map.link_source)), shape=(num_links, num_sources)
    )
    kept = sparse.csr_array(
        (noise_map.self_value, (noise_map.self_index, noise_map.self_source)), shape=(num_agents, num_sources)
    )
    active = np.flatnonzero(links.weights > 0)
    difference = carried[active] - kept[links.senders[active]]
    return bool(np.abs(difference.data).max(initial=0.0) == 0.0)
