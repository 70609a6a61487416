"""One given path of a walking token: what each agent learns when the way is known, from a published seed or after the run.

The path x_0, ..., x_T does not depend on data. At hop s = 0..T-1 the holder x_s makes a step, adds N(0, sigma_s^2 I) and
hands the token to x_{s+1}. Data of u may move the token by d_s = step_s Delta at the hops of its contributions (the first
ones, where there is a cap) and by nothing at others. The observer, one agent or several together, sees the token
whenever it holds it, x_T included, and knows its own noise. Promise: losses are convex and beta-smooth and steps are at
most 2 / beta, so that a step never drives two tokens apart. Not counted: a last token that is published.

Couple two worlds that differ in u's data, and shift the noise of hop s by up to h_s >= 0 towards the other token. The
distance of the tokens is then at most e_s = e_{s-1} + d_s - h_s. Let it be 0 whenever the observer looks: it sees the
same in both worlds but for the shifts, which are fixed beforehand, so that mu^2 = sum_s h_s^2 / sigma_s^2 by Gaussian
composition. A block of hops between two looks has a cheapest plan. Count backwards from the look that ends it:

    V_i = sum of sigma_s^2 from the hop of the i-th last contribution, its own noise included, to the hop before the look,
    D_i = sum of d_s over the last i contributions.

From that hop on, the shifts must add up to D_i or more, so the least cost is the energy of the least concave majorant of
(0, 0), (V_1, D_1), ..., (V_k, D_k): the sum of rise^2 / width over its faces. (Drawn forwards: the greatest convex
minorant of the contributions so far.) What the observer itself adds comes before all contributions of its block and does
not matter; a block that has not ended when the run ends costs nothing. mu(u, v)^2 is the sum over blocks.

No smaller number holds for all such losses where they may change from hop to hop and no agent is at its cap: let c_s be
the part of the token of hop s that later steps leave over at the look. Steps of quadratic losses can give any
0 <= c_s <= 1 that rises with s, and the largest (sum d_s c_s)^2 / sum sigma_s^2 c_s^2 is the cost of the block again.

With the same step and noise in every hop, and H_i = V_i / sigma^2 counting noises, two simpler plans cost as much or more:

    gaps   sum of 1 / (H_i - H_{i-1}), H_0 = 0      a contribution is hidden before the next one is made
    even   sum of (2 j - 1) / H_j                   each is spread evenly over all noises up to the look
"""

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.accounting.walk.gaps import agents_in_range
from sottovoce.errors import ConfigError
from sottovoce.numbers import checked, chosen, whole, within_range

NoiseIn = Literal["gradients", "messages"]
Corners = list[tuple[float, float]]  # of a concave majorant, from (0, 0) on


class BlockCosts(NamedTuple):
    """What three plans pay for the contributions between two looks, in units of (step Delta / sigma)^2; see the module."""

    gaps: float
    even: float
    least: float


class WorstPair(NamedTuple):
    """Whose data are best known to whom, and how well."""

    agent: int
    observer: int
    mu: float


class _Hops(NamedTuple):
    """What happens at the hops of a path, the last one first."""

    holders: list[int]  # [T]
    changes: list[float]  # [T] d_s / Delta; 0 where the holder is at its cap
    variances: list[float]  # [T] sigma_s^2


def path_mu(
    path: ArrayLike,
    *,
    num_agents: int,
    std: ArrayLike,
    sensitivity: float,
    contributions: int | None = None,
    step_size: ArrayLike = 1.0,
    noise_in: NoiseIn = "gradients",
) -> NDArray[np.float64]:
    """Return [K, K] mu of every pair on this path; row u is whose data, column v who looks, not a number on the diagonal.

    Formal guarantee: what v sees of the token is mu-GDP in the data of u, for convex, beta-smooth losses and steps of at most 2 / beta.

    Args:
        path: [T + 1] who holds the token before the first hop and after every hop: one row of `sottovoce.topologies.walk_paths`.
        num_agents: K.
        std: of the Gaussian noise, per coordinate; one number, or one for each hop. 0 is no noise.
        sensitivity: Delta, the largest l2 distance of two gradients of one agent at the same model.
        contributions: at how many of its first visits an agent adds a gradient, whatever the step; later it adds noise only. None: always.
        step_size: one number, or one for each hop; 0 moves nothing.
        noise_in: "gradients": the step multiplies the noise, sigma = step std; "messages": sigma = std.

    Returns:
        mu from 0, where nothing is seen, to inf, where a contribution is seen behind no noise.

    Raises:
        ConfigError: no path of these agents, or numbers out of range.
    """
    K = whole("num_agents", num_agents, least=2)
    way = _path(path, K)
    hops, Delta = _hops(way, K, std, contributions, step_size, noise_in), _size(sensitivity)
    table = Delta * np.sqrt([_costs(hops, way == v, K) for v in range(K)]).T
    np.fill_diagonal(table, np.nan)
    return table


def path_mu_of(
    path: ArrayLike,
    *,
    agent: int,
    observers: Iterable[int],
    num_agents: int,
    std: ArrayLike,
    sensitivity: float,
    contributions: int | None = None,
    step_size: ArrayLike = 1.0,
    noise_in: NoiseIn = "gradients",
) -> float:
    """Return mu of one agent towards others who put together what they see; what is not named here is as in `path_mu`.

    Args:
        path: [T + 1] who holds the token.
        agent: u, whose data are protected.
        observers: the other agents who look, together; at least one.
        num_agents: K.
        std: of the noise.
        sensitivity: Delta.
        contributions: of each agent, at most.
        step_size: of the hops.
        noise_in: "gradients" or "messages".

    Raises:
        ConfigError: as in `path_mu`, and where the agent is among the observers.
    """
    K = whole("num_agents", num_agents, least=2)
    way = _path(path, K)
    looking, u = agents_in_range(observers, K), agents_in_range([agent], K)[0]
    if u in looking:
        raise ConfigError(f"agent {u} is among the observers; an agent knows its own data. Name others.")
    hops, Delta = _hops(way, K, std, contributions, step_size, noise_in), _size(sensitivity)
    return Delta * math.sqrt(_costs(hops, np.isin(way, looking), K)[u])


def worst_pair(matrix: ArrayLike) -> WorstPair:
    """Return the pair with the largest mu of [K, K], the first of equals; the diagonal does not count.

    Args:
        matrix: of `path_mu`.
    """
    given = _array(matrix)
    if given.dtype.kind not in "fiu" or given.ndim != 2 or given.shape[0] != given.shape[1] or given.shape[0] < 2:
        raise ConfigError(
            f"a matrix of shape {given.shape} and type {given.dtype}; mu of all pairs is a square of numbers, 2 x 2 or more. Give that of path_mu."
        )
    table = given.astype(float)
    np.fill_diagonal(table, -np.inf)
    if not (table[~np.eye(len(table), dtype=bool)] >= 0.0).all():
        raise ConfigError(
            "a matrix with negative or missing numbers beside its diagonal; mu is 0 or more. Give that of path_mu."
        )
    u, v = divmod(int(table.argmax()), len(table))
    return WorstPair(u, v, float(table[u, v]))


def block_costs(distances: Iterable[int]) -> BlockCosts:
    """Return what three plans pay for one block with the same step and noise in every hop; no contribution costs nothing.

    Args:
        distances: H_1 < ... < H_k, how many noises lie between each contribution and the look, its own included; the last
            contribution comes first.
    """
    H = [whole("a distance", distance) for distance in distances]
    if any(far <= near for near, far in pairwise(H)):
        raise ConfigError(
            f"distances = {H}; each must be larger than the one before. Give the last contribution first."
        )
    corners: Corners = [(0.0, 0.0)]
    for count, distance in enumerate(H, start=1):
        _extend(corners, float(distance), float(count))
    return BlockCosts(
        gaps=math.fsum(1.0 / (far - near) for near, far in pairwise([0, *H])),
        even=math.fsum((2 * j - 1) / distance for j, distance in enumerate(H, start=1)),
        least=_energy(corners),
    )


def _costs(hops: _Hops, looks: NDArray[np.bool_], num_agents: int) -> list[float]:
    """Return [K] mu^2 of every agent, for Delta = 1, towards whoever sees the token at the times of `looks` [T + 1].

    Sums run backwards from each look and have no negative terms. The energy falls with each V_i, rises with each D_i and
    is homogeneous in both, so that relative errors of V and D remain relative errors of mu.
    """
    costs = [0.0] * num_agents
    block: dict[int, Corners] = {}
    ended, variance = False, 0.0
    for holder, change, added, look in zip(*hops, looks[:0:-1].tolist(), strict=True):
        if look:
            _close(block, costs)
            ended, variance = True, 0.0
        variance += added
        if ended and change > 0.0:
            corners = block.setdefault(holder, [(0.0, 0.0)])
            _extend(corners, variance, corners[-1][1] + change)
    _close(block, costs)
    return costs


def _close(block: dict[int, Corners], costs: list[float]) -> None:
    for agent, corners in block.items():
        costs[agent] += _energy(corners)
    block.clear()


def _extend(corners: Corners, variance: float, total: float) -> None:
    """Add a point to the right of a concave majorant; corners that fall below the line to it are dropped."""
    while len(corners) > 1:
        (V_0, D_0), (V_1, D_1) = corners[-2:]
        if (D_1 - D_0) * (variance - V_1) > (total - D_1) * (V_1 - V_0):
            break
        corners.pop()
    corners.append((variance, total))


def _energy(corners: Corners) -> float:
    """Return the sum of rise^2 / width over the faces; a rise over no width is seen behind no noise."""
    energy = 0.0
    for (V_0, D_0), (V_1, D_1) in pairwise(corners):
        if V_1 == V_0:
            return math.inf
        energy += (D_1 - D_0) ** 2 / (V_1 - V_0)
    return energy


def _size(sensitivity: float) -> float:
    Delta = checked("sensitivity", sensitivity, "(0, inf)")
    within_range("the sensitivity", Delta)
    return Delta


def _hops(
    path: NDArray[np.int64],
    num_agents: int,
    std: ArrayLike,
    contributions: int | None,
    step_size: ArrayLike,
    noise_in: NoiseIn,
) -> _Hops:
    """Return what each hop adds, once all numbers are checked."""
    holders = path[:-1]
    steps, sigma = _each_hop("step_size", step_size, len(holders)), _each_hop("std", std, len(holders))
    if chosen("noise_in", noise_in, ("gradients", "messages")) == "gradients":
        sigma = steps * sigma
        within_range("a step times the std of its noise", sigma)
    if contributions is not None:
        most = whole("contributions", contributions)
        steps = np.where(_visits_before(holders, num_agents) < most, steps, 0.0)
    return _Hops(holders[::-1].tolist(), steps[::-1].tolist(), (sigma**2)[::-1].tolist())


def _visits_before(holders: NDArray[np.int64], num_agents: int) -> NDArray[np.int64]:
    """Return [T] how often each holder has held the token before."""
    earlier = np.empty_like(holders)
    for agent in range(num_agents):
        own = np.flatnonzero(holders == agent)
        earlier[own] = np.arange(len(own))
    return earlier


def _path(path: ArrayLike, num_agents: int) -> NDArray[np.int64]:
    """Return [T + 1] agents, or refuse what is no path."""
    given = _array(path)
    if given.dtype.kind not in "iu" or given.ndim != 1 or len(given) < 2:
        raise ConfigError(
            f"a path of shape {given.shape} and type {given.dtype}; needed are two or more whole numbers in a row: who holds the token before the "
            f"first hop and after every hop. Give one row of walk_paths."
        )
    outside = given[(given < 0) | (given >= num_agents)]
    if len(outside):
        raise ConfigError(
            f"the path leads to agent {outside[0]}; the agents are 0 to {num_agents - 1}. Give the path of a walk on these agents."
        )
    return given.astype(np.int64)


def _each_hop(name: str, value: ArrayLike, hops: int) -> NDArray[np.float64]:
    """Return [T] finite numbers of at least 0 from one number or one for each hop."""
    given = _array(value)
    if given.dtype.kind not in "fiu" or given.shape not in ((), (hops,)):
        raise ConfigError(
            f"{name} has shape {given.shape} and type {given.dtype}; it must be one number, or one for each of the {hops} hops of the path."
        )
    wrong = given[~(np.isfinite(given) & (given >= 0))]
    if wrong.size:
        raise ConfigError(
            f"{name} has the value {wrong.flat[0]}; it must be finite and at least 0. Give {name} in that range."
        )
    within_range(name, given)
    return np.broadcast_to(given.astype(float), (hops,))


def _array(value: ArrayLike) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:  # lists of unequal lengths
        return np.asarray(None)
