"""What distance hides: epsilon of one agent towards others who see the token only when they hold it, all contributions between two looks together.

Between two looks of the observer all contributions of the agent are hidden by the same noises, the better the more hops lie between. For every way of
the token the least cost of any plan of shifts is known (`path`), the law of that cost is computed (`plans`), and delta is the average over ways
(`cost_law`). Proven for gradients that react to everything, under the promise of convex, smooth losses and steps of at most 2 / beta; whoever looks may
know the way as it is drawn. Several tokens that walk independently at the same time add up their costs.
"""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.accounting.walk.cost_law import CostLaw, PathsTradeoff
from sottovoce.accounting.walk.gaps import GapLaw, complete_gaps, graph_gaps
from sottovoce.accounting.walk.graph import transition_matrix
from sottovoce.accounting.walk.passages import Passages, complete_passages, graph_passages, passages_to
from sottovoce.accounting.walk.plans import RESOLUTIONS, Resolution, cost_law, gap_cost_law
from sottovoce.accounting.walk.tradeoffs import WalkTradeoff
from sottovoce.numbers import checked, chosen, per_agent, whole
from sottovoce.topologies import Topology

Matrix = NDArray[np.float64]
Progress = Callable[[int, int], None]


def paths_tradeoff(
    passages: Passages, gaps: GapLaw, *, contributions: int, noise_multiplier: float, resolution: Resolution = "fine"
) -> PathsTradeoff:
    """What the average over all ways says, by every plan that can be computed in time.

    Args:
        passages: of the token between the agent and the observers.
        gaps: the law of the gaps of the same walk.
        contributions: N of the agent, at most.
        noise_multiplier: std over sensitivity, of one contribution.
        resolution: how finely the law of the least costs is computed.
    """
    least = cost_law(passages, contributions, resolution=resolution)
    laws = (gap_cost_law(gaps, contributions), *([] if least is None else [least]))
    below = WalkTradeoff(gaps=gaps, contributions=contributions, noise_multiplier=noise_multiplier)
    return PathsTradeoff(laws=laws, gaps=below, clear_cost=float(contributions))


def blocks_tradeoff(
    walk: Topology | ArrayLike,
    *,
    agent: int,
    observers: Iterable[int],
    rounds: int,
    contributions: int | None,
    std: float,
    sensitivity: float,
    tokens: int = 1,
    resolution: Resolution = "fine",
) -> PathsTradeoff:
    """The guarantee behind `blocks_epsilon`; arguments as there."""
    multiplier = checked("std", std, "(0, inf)") / checked("sensitivity", sensitivity, "(0, inf)")
    T, looking = whole("rounds", rounds), list(observers)
    most = T if contributions is None else min(T, whole("contributions", contributions))
    if isinstance(walk, Topology) and walk.is_uniform:
        passages = complete_passages(walk.num_agents, rounds=T, observers=len(looking))
        gaps = complete_gaps(walk.num_agents, rounds=T, observers=len(looking))
    else:
        W = transition_matrix(walk)
        passages = graph_passages(W, agent=agent, observers=looking, rounds=T)
        gaps = graph_gaps(W, agent=agent, observers=looking, rounds=T)
    chosen("resolution", resolution, RESOLUTIONS)
    found = paths_tradeoff(
        passages, gaps, contributions=most, noise_multiplier=multiplier, resolution=resolution
    )  # fmt: skip
    return found if whole("tokens", tokens) == 1 else found.repeated(tokens)


def blocks_epsilon(
    walk: Topology | ArrayLike,
    *,
    agent: int,
    observers: Iterable[int],
    rounds: int,
    contributions: int | None,
    std: float,
    sensitivity: float,
    delta: float,
    tokens: int = 1,
    resolution: Resolution = "fine",
) -> float:
    """Return a proven epsilon of one agent towards others who look together and may know all of the token's way.

    Args:
        walk: topology with symmetric weights, or W.
        agent: u, whose data are protected.
        observers: who looks.
        rounds: T, hops of the whole walk.
        contributions: of the protected agent, at most; None is no cap.
        std: of the Gaussian noise added to every gradient, per coordinate.
        sensitivity: the largest l2 distance of two gradients of the agent.
        delta: in (0, 1).
        tokens: how many walk at the same time, independently, each with this many hops and contributions.
        resolution: "fast" for a first picture, "fine", or "finest" for the smallest number.
    """
    found = blocks_tradeoff(
        walk, agent=agent, observers=observers, rounds=rounds, contributions=contributions, std=std, sensitivity=sensitivity,
        tokens=tokens, resolution=resolution,
    )  # fmt: skip
    return found.epsilon(checked("delta", delta, "(0, 1)"))


def pairwise_epsilon(
    walk: Topology | ArrayLike,
    *,
    rounds: int,
    contributions: int | None,
    std: float,
    sensitivity: ArrayLike,
    delta: float,
    tokens: int = 1,
    resolution: Resolution = "fast",
    workers: int = 1,
    progress: Progress | None = None,
) -> Matrix:
    """Return [K, K] a proven epsilon of every pair: row u is whose data, column v who looks, no number on the diagonal.

    Args:
        walk: topology with symmetric weights, or W.
        rounds: T, hops of the whole walk.
        contributions: of every agent, at most; None is no cap.
        std: of the Gaussian noise added to every gradient, per coordinate.
        sensitivity: the largest l2 distance of two gradients of an agent, one number or one for each.
        delta: in (0, 1).
        tokens: how many walk at the same time, independently.
        resolution: "fast" for a first picture; "fine" and "finest" take some ten and fifty times as long.
        workers: processes; with more than one a script needs the guard of `__main__`.
        progress: called with (observers done, observers in all).
    """
    W, T, delta = transition_matrix(walk), whole("rounds", rounds), checked("delta", delta, "(0, 1)")
    K = len(W)
    most = T if contributions is None else min(T, whole("contributions", contributions))
    multipliers = checked("std", std, "(0, inf)") / per_agent("sensitivity", sensitivity, K)
    chosen("resolution", resolution, RESOLUTIONS)
    column = partial(
        _towards, W, rounds=T, contributions=most, multipliers=multipliers, delta=delta, tokens=whole("tokens", tokens),
        resolution=resolution,
    )  # fmt: skip
    table = np.full((K, K), np.nan)
    for done, (v, values) in enumerate(_each(column, K, whole("workers", workers)), start=1):
        table[:, v] = values
        if progress is not None:
            progress(done, K)
    return table


def _each(column: Callable[[int], tuple[int, Matrix]], count: int, workers: int) -> Iterable[tuple[int, Matrix]]:
    """The columns as they are done."""
    if workers == 1:
        yield from map(column, range(count))
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(max_workers=min(workers, count), mp_context=get_context("spawn")) as pool:
        yield from pool.map(column, range(count))


def _towards(
    W: Matrix,
    observer: int,
    *,
    rounds: int,
    contributions: int,
    multipliers: Matrix,
    delta: float,
    tokens: int,
    resolution: Resolution,
) -> tuple[int, Matrix]:
    """(v, [K] epsilon of every agent towards v)."""
    values = np.full(len(W), np.nan)
    for u, passages in passages_to(W, observer, rounds=rounds):
        # A gap ends with a loop or an exit.
        law = passages.loops + passages.exits
        gaps = GapLaw(lengths=np.arange(1.0, rounds + 1.0), probabilities=law[1:])
        found = paths_tradeoff(
            passages, gaps, contributions=contributions, noise_multiplier=float(multipliers[u]), resolution=resolution
        )  # fmt: skip
        values[u] = found.repeated(tokens).epsilon(delta)
    return observer, values


def least_law_of(tradeoff: PathsTradeoff) -> CostLaw | None:
    """The law of the least costs, where it was computed."""
    return next((law for law in tradeoff.laws if law.plan == "least"), None)
