"""What the agents have to themselves in a round: their data, the batches of their gradients, and noise in them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sottovoce.noise import Noise
from sottovoce.problems import Batch
from sottovoce.schedules import Schedule, running_round
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.batches import draw_batch
from sottovoce.simulation.rounds.draws import Lattice, draw_sources
from sottovoce.simulation.rounds.materialise import materialise

Array = Any
GradientNoise = list[list[Array | None]]  # [gradient of the round][scheme] unit noise [K, d, R]; None: it is elsewhere


class Own(NamedTuple):
    """Everything that enters the agents' functions beside their states."""

    problem: Any
    data: Any
    records: tuple[Any, ...]  # the batch of every gradient of the round; empty: all records
    noise: tuple[Array, ...]  # per gradient of the round [K, d, S, R]; empty: none
    round: Array
    share: tuple[Array, ...] = ()  # one [K, R]: the factor on every gradient, before its noise; empty: one
    schedules: Mapping[Schedule, Array] = {}  # what each schedule says in this round
    turn: tuple[
        Any, ...
    ] = ()  # (records, weights [K, B]) whose turn it is, alike in all repeats and gradients of the round; empty: nobody's

    def apply(self, function: Any, *values: Any) -> Any:
        """Apply an agent's function to every agent, scheme and repeat; each value's leaves are [K, d, S, R]."""

        def one(data: Any, turn: Any, records: Any, share: Any, noise: Any, *own: Any) -> Any:
            def gradient(w: Array, step: int = 0) -> Array:
                if turn:
                    found = self.problem.weighted_gradient(w, *turn)
                else:
                    found = self.problem.batch_gradient(w, records[step]) if records else self.problem.gradient(w, data)
                found = share[0] * found if share else found
                return found + noise[step] if noise else found

            with running_round(self.schedules):
                return function(*own, gradient, self.round)

        lane = (-1,) * (1 + len(values))
        over_schemes = jax.vmap(one, in_axes=(None, None, None, None, *lane), out_axes=-1)
        over_repeats = jax.vmap(over_schemes, in_axes=(None, None, -1, -1, *lane), out_axes=-1)
        return jax.vmap(over_repeats)(self.data, self.turn, self.records, self.share, self.noise, *values)


def draw_records(
    problem: Any, arrays: Any, keys: Any, t: Array, *, batch_size: int, steps: int, really: Array
) -> tuple[Any, ...]:
    """The batch of every gradient of the round."""
    over_repeats = jax.vmap(problem.records, in_axes=(None, -1), out_axes=-1)

    def batch(step: int) -> Any:
        words = materialise(really, lambda: random.round_keys(keys, t, step))
        positions = materialise(really, lambda: draw_batch(words, arrays["sizes"], batch_size))
        return materialise(really, lambda: jax.vmap(over_repeats)(arrays["data"], positions))

    return tuple(batch(step) for step in range(steps))


def records_in_turn(problem: Any, batch: Batch, arrays: Any, t: Array) -> tuple[Any, Array]:
    """The records of every agent whose turn it is in a round, and their weights [K, B]."""
    turn = batch.turn_of_round(t)
    positions, weights = arrays["turns"]["positions"][turn], arrays["turns"]["weights"][turn]
    return jax.vmap(problem.records)(arrays["data"], positions), weights


def draw_gradient_noise(
    noises: Sequence[Noise], lattices: Sequence[Lattice | None], keys: Any, t: Array, *, steps: int, addresses: tuple[Array, int], dtype: Any, really: Array
) -> GradientNoise:  # fmt: skip
    """The noise in every gradient of the round; empty when no scheme has any. Equal laws at scale one share one draw, lattices none.

    Args:
        noises: the schemes.
        lattices: what each scheme's sources are rounded to; None: at scale one.
        keys: of the stream, [R] each.
        t: the round.
        steps: gradients in it.
        addresses: the agents, [K] or one per repeat, [1, R], and d.
        dtype: of the result.
        really: a truth that the compiler does not know.
    """
    names = [_name_of_draw(noise, on, s) for s, (noise, on) in enumerate(zip(noises, lattices, strict=True))]
    schemes = {name: s for s, name in enumerate(names) if name is not None}
    if not schemes:
        return []

    def of_step(step: int) -> list[Array | None]:
        words = random.round_keys(keys, t, step)

        def draws() -> list[Array]:
            every = [(noises[s].law, lattices[s]) for s in schemes.values()]
            return [draw_sources(law, words, *addresses, dtype, on) for law, on in every if law is not None]

        drawn = dict(zip(schemes, materialise(really, draws), strict=True))
        return [None if name is None else drawn[name] for name in names]

    return [of_step(step) for step in range(steps)]


def _name_of_draw(noise: Noise, lattice: Lattice | None, scheme: int) -> Any:
    """What identifies a draw: the law at scale one, and on a lattice the scheme too; None where gradients have no noise."""
    return (type(noise.law), None if lattice is None else scheme) if noise.in_gradients else None


def side_by_side(drawn: GradientNoise, factor: Array) -> tuple[Array, ...]:
    """The noise in every gradient of the round, scaled by factor [S], the schemes side by side: [K, d, S, R]."""

    def together(schemes: list[Array | None]) -> Array:
        silent = jnp.zeros_like(next(one for one in schemes if one is not None))
        return jnp.stack([silent if one is None else factor[s] * one for s, one in enumerate(schemes)], axis=2)

    return tuple(together(schemes) for schemes in drawn)
