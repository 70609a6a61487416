"""The noise in the messages of a round: drawn once for all algorithms and schemes that share it, and added before or after combining."""

from typing import Any

import jax.numpy as jnp

from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.draws import Lattice, Share, draw, same_draw, share
from sottovoce.simulation.rounds.materialise import materialise
from sottovoce.simulation.rounds.perturbation import Perturbation
from sottovoce.simulation.rounds.plan import Plan

Array = Any


def lattices_in_round(plan: Plan, arrays: Any, t: Array) -> list[Lattice | None]:
    """What the sources of every scheme are rounded to in a round."""
    f = plan.fraction_bits
    return [None if f is None else Lattice(arrays["scales"][s, t - 1], f) for s in range(len(plan.noises))]


def draw_noise(
    plan: Plan, arrays: Any, weights: list[Any], t: Array, keys: Any, really: Array
) -> list[list[Share | None]]:
    """The noise of every use and scheme, at scale one or on its lattice. Schemes with the same sources at scale one share one draw."""
    exchanges = sorted({exchange for _, exchange in plan.noise_links})
    words = dict(
        zip(exchanges, materialise(really, lambda: [random.round_keys(keys, t, e) for e in exchanges]), strict=True)
    )
    first: dict[Any, tuple[int, int]] = {}  # what is drawn -> the first (use, scheme) that needs it
    for use, (_, exchange) in enumerate(plan.noise_links):
        for s, p in enumerate(plan.noise_plans[use]):
            if p.kind != "nothing":
                first.setdefault((exchange, name_of_draw(plan, p, use, s)), (use, s))
    lattices = lattices_in_round(plan, arrays, t)

    def all_draws() -> list[Array]:
        return [
            draw(
                plan.noise_plans[use][s], arrays["noise"][use][s], weights[plan.noise_links[use][0]], t, words[exchange],
                plan.shape, plan.dtype, lattices[s],
            )
            for (exchange, _), (use, s) in first.items()
        ]  # fmt: skip

    drawn = dict(zip(first, materialise(really, all_draws), strict=True))
    return [
        [
            share(p, arrays["noise"][use][s], weights[links], t, drawn.get((exchange, name_of_draw(plan, p, use, s))))
            for s, p in enumerate(plan.noise_plans[use])
        ]
        for use, (links, exchange) in enumerate(plan.noise_links)
    ]


def name_of_draw(plan: Plan, noise: Perturbation, use: int, scheme: int) -> Any:
    """What identifies a draw within an exchange; on a lattice every scheme has draws of its own, since their scales differ."""
    return (use, scheme) if plan.fraction_bits is not None else same_draw(noise) or (use, scheme)


def add_before(values: Array, shares: list[Share | None], factor: Array) -> Array:
    """Add to each lane of the messages [K, d, S, R] its scheme's noise."""
    return _add(
        values, [None if s is None or not s.before else (s.drawn, jnp.ones(1, values.dtype)) for s in shares], factor
    )


def add_after(values: Array, shares: list[Share | None], factor: Array) -> Array:
    """Add to each lane of what was combined [K, d, S, R] its scheme's noise."""
    return _add(values, [None if s is None or s.after is None else (s.drawn, s.after) for s in shares], factor)


def _add(values: Array, terms: list[tuple[Array, Array] | None], factor: Array) -> Array:
    """Add coefficient [K] or [K, R] times drawn [K, d, R], scaled by factor [S], to the lanes of [K, d, S, R]."""
    groups: dict[int, list[int]] = {}
    for s, term in enumerate(terms):
        if term is not None:
            groups.setdefault(id(term[0]), []).append(s)
    for members in groups.values():
        drawn = terms[members[0]][0]  # type: ignore[index]
        coefficients = {s: factor[s] * jnp.atleast_2d(terms[s][1].T).T for s in members}  # type: ignore[index]  # [K or 1, R or 1]
        if len(members) == 1 and len(terms) > 1:
            s = members[0]
            values = values.at[:, :, s, :].add(coefficients[s][:, None, :] * drawn)
            continue
        silent = jnp.zeros((1, 1), values.dtype)
        lanes = [coefficients.get(s, silent) for s in range(len(terms))]
        shape = jnp.broadcast_shapes(*(lane.shape for lane in lanes))
        stacked = jnp.stack([jnp.broadcast_to(lane, shape) for lane in lanes], axis=1)  # [K or 1, S, R or 1]
        values = values + stacked[:, None] * drawn[:, :, None, :]
    return values
