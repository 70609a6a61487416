"""Drawing the noise of one exchange inside a compiled round, as its plan (perturbation.py) says."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sottovoce.noise import Gaussian, L2Laplace, Laplace, Law, NoiseMap
from sottovoce.simulation.rounds import random
from sottovoce.simulation.rounds.links import Weights, expand_present
from sottovoce.simulation.rounds.neighbours import assemble, column, expand, sum_over_row, weighted_sum
from sottovoce.simulation.rounds.perturbation import Perturbation, entry_values

Array = Any
_SECOND_USE = 0x9E3779B9  # turns the keys of a source into those of its second, independent number per coordinate


def draw_unit(law: Law, keys: tuple[Array, Array], ids: Array, dimension: int, dtype: Any) -> Array:
    """Sources of standard deviation one (L2Laplace: scale one), for ids [N], or [N, R] where they differ between repeats: [N, d, R]."""
    parameters = jnp.arange(dimension, dtype=jnp.uint32)[None, :, None]
    numbers = expand(ids.astype(jnp.uint32), 3)
    words = random.threefry(keys, (numbers, parameters))
    if isinstance(law, Gaussian):
        return random.standard_normal(words, dtype)
    if isinstance(law, Laplace):
        return random.standard_laplace(words, dtype) * jnp.asarray(0.5**0.5, dtype)
    assert isinstance(law, L2Laplace)
    direction = random.standard_normal(words, dtype)
    other_keys = (keys[0], keys[1] ^ jnp.uint32(_SECOND_USE))
    lengths = random.exponential(random.threefry(other_keys, (numbers, parameters)), dtype)
    radius = lengths.sum(axis=1, keepdims=True)
    return direction * (radius / jnp.sqrt((direction**2).sum(axis=1, keepdims=True)))


def law_scale(law: Law) -> float:
    """What a unit draw is multiplied with."""
    return law.scale if isinstance(law, L2Laplace) else law.std


class Lattice(NamedTuple):
    """Where the sources of a scheme are rounded to, in one round: whole units of 2^-f, at the scale at which they are added."""

    scale: Array
    fraction_bits: int


def draw_sources(
    law: Law, keys: tuple[Array, Array], ids: Array, dimension: int, dtype: Any, lattice: Lattice | None
) -> Array:
    """Sources for ids [N] or [N, R]: [N, d, R]. At scale one without a lattice; on one as they are added, since rounding does not scale.

    Args:
        law: of the sources.
        keys: keys of the exchange, [R] each.
        ids: numbers of the sources in the bound noise map.
        dimension: d.
        dtype: of the result.
        lattice: what they are rounded to; None: they are not.
    """
    unit = draw_unit(law, keys, ids, dimension, dtype)
    if lattice is None:
        return unit
    return jnp.rint(lattice.scale * unit * 2.0**lattice.fraction_bits) * 2.0**-lattice.fraction_bits


class Share(NamedTuple):
    """How one scheme uses what was drawn for it, at scale one or, on a lattice, as it is added."""

    drawn: Array  # [K, d, R]; schemes with the same sources hold the same array
    before: bool  # whether it is added to the messages
    after: Array | None  # coefficient [K] or [K, R] with which it is added to what was combined; None for not at all


def same_draw(plan: Perturbation) -> tuple[str, type] | None:
    """What identifies a draw that other schemes can share: one source per agent, of the same law."""
    return ("one per agent", type(plan.noise.law)) if plan.kind in ("broadcast", "aggregated") else None


def draw(
    plan: Perturbation,
    arrays: dict[str, Any],
    weights: Weights | None,
    round_: Array,
    keys: tuple[Array, Array],
    shape: tuple[int, int],
    dtype: Any,
    lattice: Lattice | None,
) -> Array | None:
    """The random part of one scheme's noise in one exchange, [K, d, R]; None when nothing has to be drawn."""
    num_agents, dimension = shape
    law = plan.noise.law
    if plan.kind == "nothing" or law is None:
        return None
    if plan.kind in ("broadcast", "aggregated"):
        return draw_sources(law, keys, jnp.arange(num_agents), dimension, dtype, lattice)
    held = arrays["groups"]
    if "weight" not in held[0]:
        values = _values_of_round(plan, arrays, weights, round_)
        held = [{"source": h["source"], "weight": expand_present(h["present"], values[h["entry"]])} for h in held]
    if plan.kind in ("gathered", "sent"):
        z = draw_sources(law, keys, jnp.arange(plan.map.num_sources), dimension, dtype, lattice)
        return weighted_sum(plan.groups, held, z, None)
    parts = []
    for group, h in zip(plan.groups, held, strict=True):

        def term(slot: Any, h: dict[str, Array] = h) -> Array:
            z = draw_sources(law, keys, column(h["source"], slot), dimension, dtype, lattice)
            return expand(column(h["weight"], slot), 3) * z

        start = jnp.zeros((len(group.rows), dimension, keys[0].shape[-1]), dtype)
        parts.append(sum_over_row(group.entry.shape[1], term, start))
    return assemble(plan.groups, parts)


def share(
    plan: Perturbation, arrays: dict[str, Any], weights: Weights | None, round_: Array, drawn: Array | None
) -> Share | None:
    """Where what was drawn enters: before combining, after it, or both; None when nothing was drawn."""
    if drawn is None:
        return None
    if plan.kind == "broadcast":
        return Share(drawn, True, _after_of_round(plan, arrays, weights, round_))
    if plan.kind == "sent":
        return Share(drawn, True, None)
    if plan.kind == "aggregated":
        return Share(drawn, False, _std_of_round(plan, arrays, weights, round_))
    return Share(drawn, False, jnp.ones(drawn.shape[0], drawn.dtype))


def _spread_traced(plan: Perturbation, weights: Weights) -> NoiseMap:
    """The map of the links active in this round, one per repeat: values get a last axis R."""

    def values(link: Array, own: Array) -> tuple[Array, Array]:
        spread = plan.noise.spread(plan.links._replace(weights=link, self_weights=own))
        return jnp.asarray(spread.link_value, link.dtype), jnp.asarray(spread.self_value, link.dtype)

    link_value, self_value = jax.vmap(values, in_axes=-1, out_axes=-1)(weights.link, weights.own)
    return plan.map._replace(link_value=link_value, self_value=self_value)


def _after_of_round(plan: Perturbation, arrays: dict[str, Any], weights: Weights | None, round_: Array) -> Array:
    if "after" not in arrays:
        assert weights is not None
        return weights.own * (_spread_traced(plan, weights).self_value - 1.0)
    after = arrays["after"]
    return after if after.ndim == 1 else after[(round_ - 1) % after.shape[0]]


def _std_of_round(plan: Perturbation, arrays: dict[str, Any], weights: Weights | None, round_: Array) -> Array:
    if "std" not in arrays:
        values = _values_of_round(plan, arrays, weights, round_)
        return jnp.sqrt(
            assemble(
                plan.groups,
                [(expand_present(h["present"], values[h["entry"]]) ** 2).sum(axis=1) for h in arrays["groups"]],
            )
        )
    std = arrays["std"]
    return std if std.ndim == 1 else std[(round_ - 1) % std.shape[0]]


def _values_of_round(plan: Perturbation, arrays: dict[str, Any], weights: Weights | None, round_: Array) -> Array:
    if "values" not in arrays:
        assert weights is not None
        return entry_values(_spread_traced(plan, weights), weights.link, weights.own)
    values = arrays["values"]
    return values if values.ndim == 1 else values[(round_ - 1) % values.shape[0]]
