"""What a compiled round must draw so that every receiver gets its noise, read off the bound map.

With R the map from sources to receivers, already combined with the weights (noise/noise.py), a round needs only R z:

    nothing      R = 0 (no sources, or the noise cancels at every receiver): nothing is drawn
    broadcast    one source per agent, sent on all its links: z is added to the messages, and the difference between own copy and
                 message, a_kk (own factor - 1) z_k, after combining
    aggregated   Gaussian sources that reach one receiver each: one draw per receiver with the summed variance, equal in law
    in place     any other law, sources that reach one receiver each, rows of nearly equal length: drawn where they are added up
    gathered     everything else: draw the sources once, then add them up along R
    sent         noise with memory (remembered.py), where own copy and message carry the same: the sources that every agent adds to both, added up

The choice looks at the map, never at the scheme's name. A run that draws every source (`Settings.draws`) aggregates nothing, so that its models
are those of the map with the seed's sources.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.errors import IncompatibleChoice
from sottovoce.noise import (
    Gaussian,
    Noise,
    NoiseMap,
    bind,
    check_owners,
    cycle_length,
    joined_owners,
    received_map,
    same_structure,
)
from sottovoce.simulation.rounds.links import LinkPlan, possible_links
from sottovoce.simulation.rounds.neighbours import Group, group_by_width
from sottovoce.topologies import ActiveLinks, Listed, Static, Topology, Walk

Array = Any
Kind = Literal["nothing", "broadcast", "aggregated", "in place", "gathered", "sent"]
MOST_ENTRIES = 20_000_000  # links of all rounds of a cycle whose maps differ
MAX_WASTE = 1.15  # draws into padded places cost as much as real ones: in place only while they are few


class Perturbation(NamedTuple):
    """How one noise scheme enters one exchange of a compiled round."""

    kind: Kind
    noise: Noise
    map: NoiseMap  # on the full set of links; fixes the structure
    links: ActiveLinks
    groups: tuple[Group, ...] = ()


def plan_noise(
    noise: Noise, plan: LinkPlan, centroid: np.ndarray, *, merges: bool = True
) -> tuple[Perturbation, dict[str, Any]]:
    """Bind a scheme to an exchange and decide what to draw.

    Args:
        noise: the scheme.
        plan: the links of the exchange.
        centroid: [K] weight of each receiver of this exchange in the network centroid.
        merges: whether Gaussian sources of one receiver may be drawn as one.

    Returns:
        The plan and the arrays it reads.
    """
    if isinstance(plan.topology.schedule, Walk):  # the token's noise goes with it
        links = plan.topology.active_links()
        noise_map = bind(noise, links)
        if noise_map.num_sources == 0:
            return Perturbation("nothing", noise, noise_map, links), {}
        return Perturbation("broadcast", noise, noise_map, links), {"after": np.zeros(len(links.perron))}
    if not isinstance(plan.topology.schedule, Static | Listed):
        return _plan_random(noise, plan.topology, centroid, merges=merges)
    every = links_of_cycle(noise, [links._replace(perron=centroid) for links in possible_links(plan.topology)])
    maps = [bind(noise, links, round_=place + 1) for place, links in enumerate(every)]
    if noise.law is None:
        return Perturbation("nothing", noise, maps[0], every[0]), {}
    if noise.memory is not None:
        return _plan_sent(noise, maps[0], every[0])
    if len(every) == 1:
        return _plan_fixed(noise, maps[0], every[0], merges=merges)
    return _plan_listed(noise, maps, every, merges=merges)


def links_of_cycle(noise: Noise, matrices: list[ActiveLinks]) -> list[ActiveLinks]:
    """The links of every round until they and the maps of the scheme are the same again; where it has one map, the matrices themselves.

    Raises:
        IncompatibleChoice: so many that no table holds them.
    """
    rounds = cycle_length(noise, len(matrices))
    if noise.turns and rounds * len(matrices[0].senders) > MOST_ENTRIES:
        raise IncompatibleChoice(
            f"'{noise.name}' has {len(noise.turns)} maps over {len(matrices)} matrices of {len(matrices[0].senders)} links, more than the simulator "
            f"holds. Use fewer maps, or the same ones again."
        )
    return [matrices[place % len(matrices)] for place in range(rounds)]


def _plan_fixed(
    noise: Noise, noise_map: NoiseMap, links: ActiveLinks, *, merges: bool
) -> tuple[Perturbation, dict[str, Any]]:
    combined = received_map(noise_map, links)
    if combined.nnz == 0:
        return Perturbation("nothing", noise, noise_map, links), {}
    if _is_broadcast(noise_map, links):
        return Perturbation("broadcast", noise, noise_map, links), {"after": _after(links, noise_map)}
    coordinates = combined.tocoo()
    receivers, sources, values = coordinates.coords[0], coordinates.coords[1], coordinates.data
    return _plan_entries(noise, noise_map, links, receivers, sources, values, merges=merges)


def _plan_sent(noise: Noise, noise_map: NoiseMap, links: ActiveLinks) -> tuple[Perturbation, dict[str, Any]]:
    """What every agent adds to its message and its own copy alike, which linear/memory.py has checked."""
    if _is_broadcast(noise_map, links):
        return Perturbation("broadcast", noise, noise_map, links), {"after": _after(links, noise_map)}
    groups = group_by_width(noise_map.self_index, noise_map.self_source, len(links.perron))
    held = [{"source": g.source, "weight": noise_map.self_value[g.entry] * g.present} for g in groups]
    return Perturbation("sent", noise, noise_map, links, groups), {"groups": held}


def _plan_entries(
    noise: Noise,
    noise_map: NoiseMap,
    links: ActiveLinks,
    receivers: np.ndarray,
    sources: np.ndarray,
    values: np.ndarray | None,
    *,
    merges: bool,
) -> tuple[Perturbation, dict[str, Any]]:
    """Sources added up entry by entry; values [m] (fixed), [n, m] (listed) or None (known only inside a round)."""
    num_agents = len(links.perron)
    groups = group_by_width(receivers, sources, num_agents)
    kind = _kind(noise, noise_map, receivers, sources, groups, merges=merges)
    if kind == "aggregated" and values is not None:
        squares = np.atleast_2d(values) ** 2
        stds = np.stack([np.sqrt(np.bincount(receivers, weights=row, minlength=num_agents)) for row in squares])
        return Perturbation(kind, noise, noise_map, links), {"std": stds[0] if values.ndim == 1 else stds}
    plan = Perturbation(kind, noise, noise_map, links, groups)
    if values is not None and values.ndim == 1:
        return plan, {"groups": [{"source": g.source, "weight": values[g.entry] * g.present} for g in groups]}
    arrays: dict[str, Any] = {} if values is None else {"values": values}
    held = [{"source": g.source, "entry": g.entry, "present": g.present} for g in groups]
    return plan, arrays | {"groups": held}


def _kind(
    noise: Noise, noise_map: NoiseMap, receivers: np.ndarray, sources: np.ndarray, groups: tuple[Group, ...], *, merges: bool
) -> Kind:  # fmt: skip
    """How sources that enter one by one are drawn."""
    used = len(np.unique(sources))
    if len(np.unique(receivers * np.int64(noise_map.num_sources) + sources)) != used:
        return "gathered"  # a source reaches several receivers
    if merges and isinstance(noise.law, Gaussian) and used == len(sources):
        return "aggregated"
    slots = sum(group.entry.size for group in groups)
    return "in place" if slots <= MAX_WASTE * len(sources) else "gathered"


def _plan_listed(
    noise: Noise, maps: list[NoiseMap], every: list[ActiveLinks], *, merges: bool
) -> tuple[Perturbation, dict[str, Any]]:
    if all(received_map(m, links).nnz == 0 for m, links in zip(maps, every, strict=True)):
        return Perturbation("nothing", noise, maps[0], every[0]), {}
    if all(_is_broadcast(m, links) for m, links in zip(maps, every, strict=True)):
        after = np.stack([_after(links, m) for m, links in zip(maps, every, strict=True)])
        return Perturbation("broadcast", noise, maps[0], every[0]), {"after": after}
    if not noise.turns and not all(same_structure(maps[0], m) for m in maps):
        raise IncompatibleChoice(
            f"the sources of '{noise.name}' differ between the listed matrices, which the simulator can only follow when the noise "
            f"cancels at every receiver. Use a scheme whose sources belong to agents or links, or a fixed topology."
        )
    joined, _ = joined_maps(maps)
    receivers, sources = _entries(joined, every[0])
    values = []
    for place, links in enumerate(every):
        one = joined._replace(link_value=joined.link_value[place], self_value=joined.self_value[place])
        values.append(entry_values(one, links.weights, links.self_weights))
    return _plan_entries(noise, joined, every[0], receivers, sources, np.stack(values), merges=merges)


def _plan_random(
    noise: Noise, topology: Topology, centroid: np.ndarray, *, merges: bool
) -> tuple[Perturbation, dict[str, Any]]:
    links = ActiveLinks(
        topology.links[:, 0], topology.links[:, 1], topology.link_weights, topology.self_weights, centroid
    )
    # Structure must not depend on which links are active: the scheme is spread once over traced weights to find out.
    jax.eval_shape(
        lambda link, own: noise.spread(links._replace(weights=link, self_weights=own)).self_value,
        jnp.asarray(links.weights),
        jnp.asarray(links.self_weights),
    )
    noise_map = noise.spread(links)
    check_owners(noise, noise_map, links)
    if noise.law is None:
        return Perturbation("nothing", noise, noise_map, links), {}
    if noise.promises:
        for active in possible_links(topology):
            bind(noise, active._replace(perron=centroid))
    if _is_broadcast(noise_map, links):
        return Perturbation("broadcast", noise, noise_map, links), {}
    receivers, sources = _entries(noise_map, links)
    return _plan_entries(noise, noise_map, links, receivers, sources, None, merges=merges)


def _is_broadcast(noise_map: NoiseMap, links: ActiveLinks) -> bool:
    agents = np.arange(len(links.perron))
    return (
        len(noise_map.owners) == len(agents)
        and np.array_equal(noise_map.link_index, np.arange(len(links.senders)))
        and np.array_equal(noise_map.link_source, links.senders)
        and bool(np.all(noise_map.link_value == 1.0))
        and np.array_equal(noise_map.self_index, agents)
        and np.array_equal(noise_map.self_source, agents)
    )


def joined_maps(maps: list[NoiseMap]) -> tuple[NoiseMap, np.ndarray | None]:
    """One map for all rounds of a cycle, with values [n, m], and the sources [n, S] of each; a single map stays as it is."""
    first = maps[0]
    if len(maps) == 1:
        return first, None
    if all(same_structure(first, other) for other in maps[1:]):
        stacked = first._replace(
            link_value=np.stack([one.link_value for one in maps]), self_value=np.stack([one.self_value for one in maps])
        )
        return stacked, None
    parts, start = [], 0  # every round has rows of its own among the sources
    for one in maps:
        parts.append(one._replace(link_source=one.link_source + start, self_source=one.self_source + start))
        start += one.num_sources
    owners, *columns = zip(*parts, strict=True)
    joined = NoiseMap(joined_owners(owners), *(np.concatenate(column) for column in columns))
    values = {
        "link_value": _blocks([one.link_value for one in maps]),
        "self_value": _blocks([one.self_value for one in maps]),
    }
    return joined._replace(**values), _blocks([np.ones(one.num_sources) for one in maps])


def _blocks(parts: list[Any]) -> np.ndarray:
    """[n, sum of lengths]: part i in row i, at its own place, and zeros elsewhere."""
    lengths = [len(part) for part in parts]
    table = np.zeros((len(parts), sum(lengths)))
    start = 0
    for row, part in enumerate(parts):
        table[row, start : start + lengths[row]] = part
        start += lengths[row]
    return table


def _after(links: ActiveLinks, noise_map: NoiseMap) -> Array:
    return links.self_weights * (noise_map.self_value - 1.0)


def _entries(noise_map: NoiseMap, links: ActiveLinks) -> tuple[np.ndarray, np.ndarray]:
    receivers = np.concatenate([links.receivers[noise_map.link_index], noise_map.self_index])
    return receivers, np.concatenate([noise_map.link_source, noise_map.self_source])


def entry_values(noise_map: NoiseMap, link_weights: Array, self_weights: Array) -> Array:
    """What each entry of the map contributes at its receiver: weight times factor, links first, then own copies."""
    on_links = link_weights[noise_map.link_index] * noise_map.link_value
    on_own = self_weights[noise_map.self_index] * noise_map.self_value
    return on_links.__array_namespace__().concatenate([on_links, on_own])
