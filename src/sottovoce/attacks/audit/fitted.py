"""An attack for any run: a linear discriminant fitted on runs of its own.

Everything an observer sees is projected on one axis e, the direction in which the protected gradients differ:

    messages and broadcasts m . e,   known sources z . e,   the final model w . e        round by round
    sum over rounds of (what agent p sends - what p was last seen to send or hear) . e    one number: its steps, also where links are drawn

With pooled within-world covariance S and difference of means v of the standardised features, the score is

    x -> (S + r I)^-1 v . x,        r from a short list, by which runs kept back are told apart best

(Fisher 1936; ridge). It is fitted on training runs and applied to others, so that its scores are honest whatever it learned. Under Gaussian noise
on fixed links it tends to the matched filter of `likelihood` as training runs grow; for other runs it is a lower bound on what can be learned.

Memory. At most `limit` features are kept of a run: first the messages far from p are added up within a round, then rounds are added up in blocks.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sottovoce.attacks.arrays import Floats, finite
from sottovoce.errors import ConfigError
from sottovoce.noise import RELAY

if TYPE_CHECKING:
    from sottovoce.simulation.views import Layout, Statistic

Array = Any
RIDGES = (1e-9, 1e-6, 1e-3, 1e-2, 1e-1, 1.0)  # penalties that are tried, in variances of one feature
LIMIT = 1024  # the most features that are read off one run


class FeaturePlan(NamedTuple):
    """Which rows of a round add up to which feature."""

    groups: Floats  # [g, rows] of zeros and ones
    blocks: int  # how many blocks of rounds
    block: int  # rounds in a block
    sent: tuple[Floats, ...]  # per exchange [E_o]: 1 for the messages of p
    touching: tuple[Floats, ...]  # per exchange [E_o]: 1 for messages from or to p, or through a relay

    @property
    def number(self) -> int:
        """Features of a run."""
        return self.blocks * len(self.groups) + 2


class Discriminant(NamedTuple):
    """A fitted score."""

    weights: Floats  # [F]
    ridge: float

    def scores(self, features: Floats) -> Floats:
        """The scores of runs, features [..., F]."""
        found: Floats = features @ self.weights
        return found


def plan_features(layout: "Layout", *, agent: int, rounds: int, limit: int = LIMIT) -> FeaturePlan:
    """Decide what is added up, so that a run has at most about `limit` features."""
    sent = tuple((links[:, 0] == agent).astype(float) for links in layout.links)
    touching = tuple(((links == agent) | (links == RELAY)).any(axis=1).astype(float) for links in layout.links)
    kinds = [*touching, *(np.ones(1) for _ in layout.links if layout.broadcast)]
    kinds += [np.zeros(len(part)) for part in layout.sources]
    parts = [np.eye(len(kind)) for kind in kinds]
    if rounds * sum(map(len, parts)) > limit:
        parts = [_joined(kind) for kind in kinds]
    groups = np.zeros((sum(map(len, parts)), sum(len(kind) for kind in kinds)))
    row = column = 0
    for part in parts:
        groups[row : row + part.shape[0], column : column + part.shape[1]] = part
        row, column = row + part.shape[0], column + part.shape[1]
    block = max(1, -(-rounds * len(groups) // limit))
    return FeaturePlan(groups, -(-rounds // block), block, sent, touching)


def feature_statistic(plan: FeaturePlan, axis: Floats) -> "Statistic":
    """The features of a run, [F], computed along it, for `sottovoce.simulation.views.measure`."""
    import jax.numpy as jnp

    from sottovoce.simulation.views import Statistic

    e = finite("axis", axis, axes=1)

    def init() -> tuple[Array, Array, Array]:
        return jnp.zeros((plan.blocks, len(plan.groups))), jnp.zeros(()), jnp.zeros(())

    def update(carry: tuple[Array, Array, Array], seen: Any, round_: Array) -> tuple[Array, Array, Array]:
        features, steps, last = carry
        on_axis = [values @ e for values in (*seen.messages, *(b[None] for b in seen.broadcast), *seen.sources)]
        features = features.at[(round_ - 1) // plan.block].add(jnp.asarray(plan.groups) @ jnp.concatenate(on_axis))
        for i, active in enumerate(seen.active):
            mean, any_sent = _mean(on_axis[i], active * plan.sent[i])
            steps = steps + jnp.where(any_sent, mean - last, 0.0)
            if seen.broadcast:
                last = seen.broadcast[i] @ e
            else:
                mean, any_seen = _mean(on_axis[i], active * plan.touching[i])
                last = jnp.where(any_seen, mean, last)
        return features, steps, last

    def finish(carry: tuple[Array, Array, Array], final_model: Array) -> Array:
        return jnp.concatenate([carry[0].ravel(), jnp.stack([carry[1], final_model @ e])])

    return Statistic(init=init, update=update, finish=finish)


def fit(features: Floats) -> Discriminant:
    """Fit the discriminant to training runs of two worlds, [2, n, F]; a quarter of them chooses the ridge.

    Raises:
        ConfigError: too few runs.
    """
    x = finite("features", features, axes=3)
    if len(x) != 2 or x.shape[1] < 8:
        raise ConfigError(f"features have shape {x.shape}; needed are two worlds with at least 8 training runs each.")
    kept = x.shape[1] // 4
    held_back, used = x[:, :kept], x[:, kept:]
    trial = _discriminant(used)
    best = max(RIDGES, key=lambda ridge: _distance(trial(ridge).scores(held_back)))
    return _discriminant(x)(best)


def _discriminant(x: Floats) -> Callable[[float], Discriminant]:
    """The fit for any ridge, from one eigendecomposition."""
    means = x.mean(axis=1)
    centred = (x - means[:, None]).reshape(-1, x.shape[2])
    spread = centred.std(axis=0)
    size = np.maximum(np.abs(means).max(axis=0), spread)
    # A feature without noise still separates; one that is always the same does not.
    scale = np.where(spread > 1e-9 * size, spread, np.where(size > 0, size, 1.0))
    covariance = (centred / scale).T @ (centred / scale) / len(centred)
    values, vectors = np.linalg.eigh(covariance)
    along = vectors.T @ ((means[1] - means[0]) / scale)

    def with_ridge(ridge: float) -> Discriminant:
        return Discriminant((vectors @ (along / (np.maximum(values, 0.0) + ridge))) / scale, ridge)

    return with_ridge


def _distance(scores: Floats) -> float:
    """How far apart two worlds' scores [2, n] are, in standard deviations; without any, how far apart they are."""
    spread = float(np.sqrt(scores.var(axis=1).mean()))
    gap = float(scores[1].mean() - scores[0].mean())
    if spread == 0.0:
        return np.inf if gap > 0 else -np.inf if gap < 0 else 0.0
    return gap / spread


def _joined(kind: Floats) -> Floats:
    """[g, rows]: rows that touch p on their own, all others added up."""
    near = np.eye(len(kind))[kind > 0]
    return np.vstack([near, (kind == 0)[None].astype(float)]) if (kind == 0).any() else near


def _mean(values: Array, mask: Array) -> tuple[Array, Array]:
    """The mean of the values in the mask, and whether there are any."""
    number = mask.sum()
    return (values * mask).sum() / (number + (number == 0)), number > 0
