"""Binding a scheme to the links of a round: the one place where a map is made, and checked before anything is read off it."""

import math

import numpy as np

from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.noise.noise import (
    GENERATOR,
    Noise,
    NoiseMap,
    cancels_at_receivers,
    cancels_in_centroid,
    centroid_residual,
)
from sottovoce.topologies import ActiveLinks


def bind_turns(noise: Noise, links: ActiveLinks) -> list[NoiseMap]:
    """The map of a scheme on these links; all its maps, bound one by one, where rounds spread their sources otherwise.

    Raises:
        ConfigError, IncompatibleChoice: as `bind` does.
    """
    return [bind(noise, links, round_=turn + 1) for turn in range(max(1, len(noise.turns)))]


def cycle_length(noise: Noise, matrices: int) -> int:
    """After how many rounds links that go through so many matrices, and the maps of a scheme, are the same again."""
    return math.lcm(matrices, max(1, len(noise.turns)))


def check_owners(noise: Noise, noise_map: NoiseMap, links: ActiveLinks) -> None:
    """Refuse sources whose owners cannot be, and agents who use a source that they do not know.

    Raises:
        ConfigError: a table of owners that is none, with the row and what it should say.
    """
    owners, K = np.asarray(noise_map.owners), len(links.perron)
    if owners.ndim != 2 or owners.shape[1] < 2 or owners.dtype.kind not in "iu":
        raise ConfigError(
            f"the owners of the sources of '{noise.name}' are an array {owners.shape} of {owners.dtype}; needed are whole numbers [sources, 2 or "
            f"more]: the agents who know each source, filled up with -1, or RELAY or GENERATOR in the first place."
        )
    _refuse_rows(noise, owners, (owners < GENERATOR) | (owners >= K), f"the agents are 0 to {K - 1}")
    named = owners >= 0
    gaps = (named[:, 1:] & ~named[:, :-1]) | (owners[:, 1:] == GENERATOR)
    _refuse_rows(
        noise, owners, gaps, "agents stand first and are filled up with -1; a RELAY or a GENERATOR owns a source alone"
    )
    ordered = np.sort(owners, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    _refuse_rows(noise, owners, twice, "an agent is named once")
    on_link, on_own = np.asarray(noise_map.link_value) != 0, np.asarray(noise_map.self_value) != 0
    users = np.concatenate([links.senders[noise_map.link_index[on_link]], noise_map.self_index[on_own]])
    sources = np.concatenate([noise_map.link_source[on_link], noise_map.self_source[on_own]])
    knows = (owners[sources] == users[:, None]).any(axis=1) | (owners[sources, 0] < 0)
    if not knows.all():
        row = int(np.argmin(knows))
        raise ConfigError(
            f"'{noise.name}' lets agent {users[row]} add source {sources[row]}, which only {owners[sources[row]][named[sources[row]]].tolist()} "
            f"know(s). Name every agent that adds a source among its owners."
        )


def _refuse_rows(noise: Noise, owners: np.ndarray, wrong: np.ndarray, needed: str) -> None:
    if wrong.any():
        source = int(np.argmax(wrong.any(axis=1)))
        raise ConfigError(
            f"the owners of source {source} of '{noise.name}' are {owners[source].tolist()}; {needed}. Correct the map of the scheme."
        )


def bind(noise: Noise, links: ActiveLinks, *, round_: int | None = None) -> NoiseMap:
    """Spread a scheme over the active links and check its owners and what it promises.

    Args:
        noise: the scheme.
        links: active in the round.
        round_: which one, from 1; None: any, for whoever does not know, and a scheme whose rounds differ is refused.

    Raises:
        ConfigError: sources whose owners cannot be, or agents who use a source that they do not know.
        IncompatibleChoice: the scheme cannot work on these links, or a cancellation it promises fails on them.
    """
    if noise.turns and noise.spread is not noise.turns[0]:
        raise ConfigError(
            f"'{noise.name}' has {len(noise.turns)} maps for its rounds and another one as `spread`. Give the first of turns as spread."
        )
    if round_ is None and noise.turns:
        raise IncompatibleChoice(
            f"'{noise.name}' spreads its noise otherwise from round to round ({len(noise.turns)} maps), and here one map is needed. Use a scheme with "
            f"one map, or sv.simulate, sv.expected_msd and sv.account, which know the round."
        )
    noise_map = noise.spread_in(1 if round_ is None else round_)(links)
    check_owners(noise, noise_map, links)
    if "receivers" in noise.promises and not cancels_at_receivers(noise_map, links):
        raise IncompatibleChoice(
            f"'{noise.name}' must cancel at every receiver, but on these links it does not. "
            f"Use a scheme without that promise, such as sv.noise.independent(law)."
        )
    if "centroid" in noise.promises and not cancels_in_centroid(noise_map, links):
        raise IncompatibleChoice(
            f"'{noise.name}' must cancel in the centroid, but on these links {centroid_residual(noise_map, links):.3g} of one "
            f"source is left. Use weights for which the Perron vector stays the same on the active links "
            f"(for example weights='metropolis'), or sv.noise.independent(law)."
        )
    return noise_map
