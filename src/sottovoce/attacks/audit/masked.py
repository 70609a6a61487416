"""The likelihood ratio of a whole view of masked averages: the best test of one agent's data against whoever reads the board.

All that was published is a function of the common model, which every observer follows, and of fresh noise and masks. Let x be what is left of a round when
known masks are taken away (simulation/views/masks.py), psi_l what agent l has to send at the common model, known for every agent in both worlds, and
v = psi_p(second) - psi_p(first). Given all rounds before, with psi at the middle of the two worlds,

    uniform masks     x is the sum over the part P of p:       log ratio = <x - sum_P psi, v> / (|P| std^2)
    Gaussian masks    x_l are rows with covariance std^2 (I + q L):   log ratio = sum_l u_l <x_l - psi_l, v> / std^2,   (I + q L) u = e_p

L the Laplacian of the honest agents that published, q the square of the masks' ratio; a mask with an honest agent whose silence was not repaired adds q to
the diagonal. Rounds add up. Other parts have the same law in both worlds. If p was silent, or its part is hidden, the round tells nothing.
The ratio is that given the graph, which is public and does not depend on data: so it is also the ratio of view and graph together.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.algorithms import Algorithm, Gopa
from sottovoce.attacks.audit.canaries import Worlds, linear_change
from sottovoce.attacks.transcript import agent_gradient
from sottovoce.errors import IncompatibleChoice
from sottovoce.noise import Gaussian, Noise

if TYPE_CHECKING:
    from sottovoce.simulation.views import Board, Statistic

Array = Any
MOST_AGENTS = 512  # of Gaussian masks, where a matrix of all agents is solved in every round of every run


def masked_statistic(
    worlds: Worlds, algorithm: Algorithm, noise: Noise, *, rounds: int, agent: int, batch_size: int | None = None
) -> "Statistic":
    """The log-likelihood ratio, second world against first, computed along recorded views of masked averages.

    Args:
        worlds: two problems that differ in one agent's data.
        algorithm: with an aggregation.
        noise: as it is played.
        rounds: how many.
        agent: p, who is not a member of the observer.
        batch_size: records per agent and round; None for all of them.

    Raises:
        IncompatibleChoice: a round without noise, gradients of batches that nobody knows, or too many agents for Gaussian masks.
    """
    import jax
    import jax.numpy as jnp

    from sottovoce.simulation.views import Statistic

    aggregation, stds = _checked(worlds, algorithm, noise, rounds, agent, batch_size)
    (exchange,) = algorithm.exchanges
    gradients = [agent_gradient(world, agent) for world in worlds]

    def values(state: Any, round_: Array) -> Array:
        """[K, d] what everybody sends in the first world."""

        def one(data: Any) -> Array:
            return exchange.message(state, lambda w, step=0: worlds[0].gradient(w, data), round_)

        return jax.vmap(one)({name: jnp.asarray(value) for name, value in worlds[0].arrays.items()})

    def update(carry: tuple[Any, Array], seen: Any, round_: Array) -> tuple[Any, Array]:
        state, ratio = carry
        psi = values(state, round_)
        change = exchange.message(state, gradients[1], round_) - exchange.message(state, gradients[0], round_)
        middle = psi.at[agent].add(change / 2)
        left = _weighted(seen.messages[0], seen.board, middle, aggregation, agent)
        ratio = ratio + left @ change / jnp.asarray(stds, psi.dtype)[round_ - 1] ** 2
        return exchange.update(state, seen.broadcast[0], gradients[0], round_), ratio

    def init() -> tuple[Any, Array]:
        return algorithm.init(jnp.asarray(worlds[0].initial_model)), jnp.zeros(())

    return Statistic(init=init, update=update, finish=lambda carry, final_model: carry[1])


def _checked(
    worlds: Worlds, algorithm: Algorithm, noise: Noise, rounds: int, agent: int, batch_size: int | None
) -> tuple[Gopa, np.ndarray]:
    """The masks, and the standard deviation of own noise in every round."""
    aggregation, law = algorithm.aggregation, noise.law
    if aggregation is None:
        raise IncompatibleChoice(
            f"'{algorithm.name}' sends in the open, so there is no board to read. Use attack='transcript'."
        )
    stds = np.zeros(rounds) if not isinstance(law, Gaussian) else law.std * noise.factors(rounds)
    if (stds == 0).any():
        raise IncompatibleChoice(
            f"'{noise.name}' adds no Gaussian noise in round {int(np.argmin(stds)) + 1}, so that sums have no density to compare. Use "
            f"attack='fitted'."
        )
    if batch_size is not None and linear_change(worlds, algorithm, agent, rounds) is None:
        raise IncompatibleChoice(
            f"batch_size = {batch_size}: gradients of batches depend on a draw that the observer does not know. Use attack='fitted'."
        )
    if np.isfinite(aggregation.pairwise_ratio) and worlds[0].num_agents > MOST_AGENTS:
        raise IncompatibleChoice(
            f"{worlds[0].num_agents} agents with Gaussian masks; their likelihood is computed for up to {MOST_AGENTS}. Use attack='fitted'."
        )
    return aggregation, stds


def _weighted(rows: Array, board: "Board", middle: Array, aggregation: Gopa, agent: int) -> Array:
    """[d] the sum over l of u_l (x_l - psi_l), zero where the agent's value is in no row."""
    import jax.numpy as jnp

    part = board.parts[agent]
    if np.isinf(aggregation.pairwise_ratio):
        inside = (board.parts == part).astype(rows.dtype)
        return jnp.where(part >= 0, rows[part] - inside @ middle, 0.0) / inside.sum()
    u = jnp.linalg.solve(_precision(board, aggregation, rows.dtype), jnp.eye(len(rows), dtype=rows.dtype)[agent])
    shown = (board.parts >= 0)[:, None]
    return jnp.where(part >= 0, u @ jnp.where(shown, rows - middle, 0.0), 0.0)


def _precision(board: "Board", aggregation: Gopa, dtype: Any) -> Array:
    """[K, K] I + q L on the honest agents that published, plus q for every mask that was not revealed; the identity on all others."""
    import jax.numpy as jnp

    K = len(board.parts)
    picked = jnp.zeros((K, K), bool).at[jnp.arange(K)[:, None], board.picks].set(True)
    pairs = picked | picked.T
    shown = board.published & ~board.members
    least = aggregation.least_published(K)
    stays = shown | (~board.members & (board.published.sum() < least))
    within = (pairs & shown[:, None] & shown[None, :]).astype(dtype)
    degrees = (pairs & shown[:, None] & stays[None, :]).sum(axis=1).astype(dtype)
    q = aggregation.pairwise_ratio**2
    return jnp.eye(K, dtype=dtype) + q * (jnp.diag(degrees) - within)
