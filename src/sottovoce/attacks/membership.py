"""Membership inference: was this record among those the model was trained on?

Two attackers who hold the trained model and the record:

    loss threshold     score = -loss(model; record)                                       (Yeom et al. 2018)
    likelihood ratio   phi = ln(p / (1 - p)), p = exp(-loss), compared with the phi of shadow models, trained by the
                       attacker with and without the record, as normal laws               (LiRA, Carlini et al. 2022)
                         online    ln N(phi; mean_in, var_in) - ln N(phi; mean_out, var_out)
                         offline   (phi - mean_out) / std_out: no shadow model needs the record

For logistic regression phi is the margin y x.w. Larger scores say "member". Shadow models differ in WHO TAKES PART, so
`train` maps one compiled program over membership masks. It runs diffusion with the noise each agent adds to what it
sends and keeps (ATC with self-noise; one agent and combination [[1]] is noisy gradient descent):

    psi_k = w_k - step g_k(w_k) + noise_k,   w_k <- sum_l a_lk psi_l,
    g_k(w) = average over the MEMBERS i of agent k of the (clipped) gradient of record i, plus the ridge's.

With equally many members in every run the divisor is a public constant, and "in" and "out" are two mixtures, with the
same weights, of runs that differ by one replaced record. A trade-off curve that holds for each pair holds for the
mixtures, so the guarantee to compare with is that of one record, replaced, with as many records per agent as members.

Scores of different records in one model are dependent. For a bound with a confidence, take ONE record and many runs (to
`bounds.clopper_pearson`), or one run and canaries with coins of their own (to `bounds.one_run`); scores of all records
pooled give an AUC to describe the attack.
"""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import ArrayLike, NDArray

from sottovoce.attacks.arrays import Floats, finite
from sottovoce.errors import ConfigError, Diverged, IncompatibleChoice
from sottovoce.numbers import checked, chosen, whole
from sottovoce.problems import Problem
from sottovoce.simulation import precision

Array = Any
Booleans = NDArray[np.bool_]
Mode = Literal["online", "offline"]
Variance = Literal["record", "shared"]

_SMALLEST_LOSS = 1e-300  # a loss of exactly 0 would have an infinite phi; this one has 690


def random_halves(problem: Problem, *, runs: int, seed: int) -> Booleans:
    """Draw who takes part: in every run an independent, uniformly random half of each agent's records.

    Returns:
        [runs, K, n]; False on padding.

    Raises:
        IncompatibleChoice: an agent with an odd number of records, which has no half.
    """
    runs, seed = whole("runs", runs), whole("seed", seed, least=0)
    odd = np.flatnonzero(problem.sizes % 2)
    if len(odd):
        raise IncompatibleChoice(
            f"Agent {odd[0]} has {problem.sizes[odd[0]]} records; halves need an even number. Leave one record out."
        )
    random = np.random.default_rng(seed)
    longest = int(problem.sizes.max())
    order = random.random((runs, problem.num_agents, longest))
    order[:, np.arange(longest)[None, :] >= problem.sizes[:, None]] = 2.0  # padding comes last
    ranks = order.argsort(axis=-1).argsort(axis=-1)
    members: Booleans = ranks < (problem.sizes // 2)[:, None]
    return members


def train(
    problem: Problem,
    members: ArrayLike,
    *,
    combination: ArrayLike,
    step_size: float,
    rounds: int,
    noise_std: float,
    seed: int,
) -> Floats:
    """Train one network of models per membership mask, all in one compiled program.

    It has a loop of its own beside the simulator's, whose runs share their records: here every run masks records of its
    own, and all runs are mapped over masks in one program.

    Args:
        problem: the records of all agents, the loss and its clipping.
        members: whose records take part, [runs, K, n]; at least one per agent, none on padding.
        combination: a_lk, the weight receiver k gives sender l, [K, K]; columns sum to 1 (topology.matrix).
        step_size: above 0.
        rounds: at least 1.
        noise_std: of the Gaussian noise on every coordinate an agent sends, 0 for none.
        seed: of the noise; every run has its own.

    Returns:
        Every agent's model after the last round, [runs, K, d].

    Raises:
        Diverged: a model left the finite numbers.
    """
    mask = _checked_members(problem, members)
    weights = _checked_combination(combination, problem.num_agents)
    step, std = checked("step_size", step_size, "(0, inf)"), checked("noise_std", noise_std, "[0, inf)")
    rounds, seed = whole("rounds", rounds), whole("seed", seed, least=0)
    with precision("float64"):
        data = {name: jnp.asarray(array) for name, array in problem.arrays.items()}

        def gradient(model: Array, agent: Any, mask: Array) -> Array:
            records = problem.records(agent, jnp.arange(mask.shape[0]))
            alone: Any = jax.vmap(lambda record: problem.batch_gradient(model, tuple(part[None] for part in record)))
            return (mask / mask.sum()) @ alone(records)

        def one_run(mask: Array, key: Array) -> Array:
            def one_round(models: Array, round_: Array) -> tuple[Array, None]:
                steps = jax.vmap(gradient)(models, data, mask)
                noise = jax.random.normal(jax.random.fold_in(key, round_), models.shape, models.dtype)
                return weights.T @ (models - step * steps + std * noise), None

            start = jnp.tile(jnp.asarray(problem.initial_model), (problem.num_agents, 1))
            return lax.scan(one_round, start, jnp.arange(rounds))[0]

        keys = jax.random.split(jax.random.key(seed), len(mask))
        models: Floats = np.asarray(jax.jit(jax.vmap(one_run))(jnp.asarray(mask, jnp.float64), keys))
    if not np.isfinite(models).all():
        raise Diverged(f"Training left the finite numbers with step_size = {step:g}. Use a smaller step_size.")
    return models


def record_losses(problem: Problem, models: ArrayLike) -> Floats:
    """Return every record's own loss, without the ridge, at every model.

    The risk of an agent is a data part divided by its count, plus the ridge. The loss of a record is the risk of an agent
    that holds it alone, minus that of an agent whose count is infinite, which is the ridge.

    Args:
        problem: with features and targets.
        models: one per run, [runs, d].

    Returns:
        [runs, K, n]; 0 on padding.
    """
    given = finite("models", models, axes=2)
    if "targets" not in problem.arrays:
        raise IncompatibleChoice(
            f"'{problem.kind}' has no features and targets. Membership inference by losses needs a problem that has."
        )
    with precision("float64"):
        longest = int(problem.sizes.max())
        rows = {name: array for name, array in problem.arrays.items() if np.shape(array)[1:2] == (longest,)}
        data = {name: jnp.asarray(array)[:, :, None] for name, array in rows.items()}

        def loss(model: Array, record: Any) -> Array:
            alone, nobody = ({**record, "count": jnp.asarray(count)} for count in (1.0, jnp.inf))
            risk, ridge = problem.local_risk(model, alone), problem.local_risk(model, nobody)
            rounding = 1e-14 * abs(ridge)  # what the subtraction may leave of a loss of 0
            return jnp.where(abs(risk - ridge) > rounding, risk - ridge, 0.0)

        over_records = jax.vmap(jax.vmap(loss, in_axes=(None, 0)), in_axes=(None, 0))
        losses = np.asarray(jax.jit(jax.vmap(over_records, in_axes=(0, None)))(jnp.asarray(given), data))
    present = np.arange(losses.shape[2])[None, :] < problem.sizes[:, None]
    kept: Floats = np.where(present, losses, 0.0)
    return kept


def loss_threshold(losses: ArrayLike) -> Floats:
    """Return the scores of the attacker who calls records with a small loss members: -loss, in the shape given."""
    return -_losses(losses)


def logit_confidence(losses: ArrayLike) -> Floats:
    """Return phi = ln(p / (1 - p)) with p = exp(-loss), stable for losses near 0 and large ones, in the shape given."""
    loss = np.maximum(_losses(losses), _SMALLEST_LOSS)
    phi: Floats = -loss - np.log(-np.expm1(-loss))
    return phi


def likelihood_ratio(
    observed: ArrayLike, shadows: ArrayLike, members: ArrayLike, *, mode: Mode, variance: Variance
) -> Floats:
    """Score records of observed models against shadow models (LiRA).

    Args:
        observed: phi of N records at M attacked models, [M, N].
        shadows: phi of the same records at S shadow models, [S, N].
        members: which shadow models were trained on which record, [S, N], booleans.
        mode: "online" uses shadow models with and without the record, "offline" only those without.
        variance: "record" estimates each record's own, which needs many shadow models; "shared" pools over records.

    Returns:
        Scores, larger for members, [M, N].

    Raises:
        ConfigError: malformed arrays, or fewer than two shadow models on a side that is used.
    """
    phi, held, inside = finite("observed", observed, axes=2), finite("shadows", shadows, axes=2), np.asarray(members)
    mode_, variance_ = chosen("mode", mode, ("online", "offline")), chosen("variance", variance, ("record", "shared"))
    if inside.dtype != np.bool_ or inside.shape != held.shape or phi.shape[1] != held.shape[1]:
        raise ConfigError(
            f"observed {phi.shape}, shadows {held.shape}, members {inside.shape} of type {inside.dtype}; needed are "
            f"[M, N], [S, N] and booleans [S, N]."
        )
    centre, squared = _normal_fit(held, ~inside, variance_, side="without")
    if mode_ == "offline":
        return (phi - centre) / np.sqrt(squared)
    centre_in, squared_in = _normal_fit(held, inside, variance_, side="with")
    return _log_density(phi, centre_in, squared_in) - _log_density(phi, centre, squared)


def by_membership(scores: ArrayLike, members: ArrayLike) -> tuple[Floats, Floats]:
    """Return (scores of non-members, scores of members) as vectors, the two worlds of `sottovoce.attacks.bounds`."""
    values, inside = np.asarray(scores, dtype=np.float64), np.asarray(members)
    if inside.dtype != np.bool_ or inside.shape != values.shape:
        raise ConfigError(
            f"scores have shape {values.shape}, members {inside.shape} of type {inside.dtype}; give a boolean each."
        )
    return values[~inside], values[inside]


def _normal_fit(phi: Floats, used: Booleans, variance: str, *, side: str) -> tuple[Floats, Floats]:
    """Means and variances over the shadow models used, [N] each."""
    counts = used.sum(axis=0)
    if counts.min() < 2:
        raise ConfigError(
            f"Record {int(counts.argmin())} has {int(counts.min())} shadow models {side} it; at least 2 are needed. "
            f"Train more shadow models."
        )
    centre = (phi * used).sum(axis=0) / counts
    squares = (used * (phi - centre) ** 2).sum(axis=0)
    spread = (
        squares / (counts - 1) if variance == "record" else np.full_like(centre, squares.sum() / (counts - 1).sum())
    )
    if not (spread > 0.0).all():
        raise ConfigError(
            f"The shadow models {side} record {int(spread.argmin())} all agree on it; no normal law fits. Train shadow "
            f"models on different records or with noise."
        )
    return centre, spread


def _log_density(phi: Floats, centre: Floats, squared: Floats) -> Floats:
    density: Floats = -0.5 * (np.log(squared) + (phi - centre) ** 2 / squared)
    return density


def _losses(losses: ArrayLike) -> Floats:
    array = np.asarray(losses)
    if array.dtype.kind not in "fiu" or not (array >= 0.0).all() or np.isinf(array).any():
        raise ConfigError("losses must be finite numbers of at least 0, such as -ln of the probability of the label.")
    return array.astype(np.float64)


def _checked_members(problem: Problem, members: ArrayLike) -> Booleans:
    mask = np.asarray(members)
    longest = int(problem.sizes.max())
    shape = (problem.num_agents, longest)
    if mask.dtype != np.bool_ or mask.ndim != 3 or mask.shape[1:] != shape or not len(mask):
        raise ConfigError(
            f"members has shape {mask.shape} and type {mask.dtype}; needed are booleans [runs, {shape[0]}, {shape[1]}]."
        )
    if (mask & (np.arange(longest)[None, :] >= problem.sizes[:, None])).any():
        raise ConfigError("members names records beyond an agent's own; set those entries to False.")
    if not mask.any(axis=-1).all():
        raise ConfigError("members leaves an agent without records in some run; every agent needs one to learn from.")
    return mask


def _checked_combination(combination: ArrayLike, num_agents: int) -> Floats:
    weights = finite("combination", combination, axes=2)
    if weights.shape != (num_agents, num_agents) or (weights < 0.0).any() or np.abs(weights.sum(0) - 1.0).max() > 1e-9:
        raise ConfigError(
            f"combination has shape {weights.shape}; needed is a non-negative [{num_agents}, {num_agents}] matrix whose "
            f"columns sum to 1, such as topology.matrix."
        )
    return weights
