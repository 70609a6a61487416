"""Exact mean-square behaviour on quadratic losses: the expected error curve without Monte Carlo, and its steady state.

The mean m and covariance V of the stacked error obey (theory/system.py)

    m' = F m + f,      V' = F V F' + sum_j N_j C_j N_j' + G Psi G'

with C_j the covariance of the noise received in exchange j and Psi the covariance of the batch gradient's deviation, block diagonal
over agents, Psi_k = sum_i D_i E[p_k p_k'] D_i' with p_k = [point of agent k; 1]. Only covariances of the noise enter, so
Laplace and Gaussian noise of equal variance have the same curve. The steady state solves the fixed-point equation; without batches
it is a discrete Lyapunov equation. Noise of earlier rounds that enters again makes the state larger (theory/remembered.py).
"""

from typing import Any, NamedTuple

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import UnsupportedClaim
from sottovoce.linear import (
    BoundExchange,
    LinearRound,
    centroid,
    check_parts,
    check_together,
    exchange_topologies,
    linear_round,
    linear_rounds,
    noise_rows,
    state_blocks,
)
from sottovoce.noise import Noise, bind, cycle_length, received_map
from sottovoce.numbers import whole
from sottovoce.resources import refuse_too_large, refuse_too_many_rounds
from sottovoce.theory.remembered import remembering_system
from sottovoce.theory.system import (
    Affine,
    BatchCovariance,
    Quadratic,
    RoundSystem,
    keeps_common_shift,
    matrices_of_round,
    round_system,
    shifted_quadratic,
)
from sottovoce.topologies import Topology

STEADY_TOLERANCE = 1e-11
STEADY_ITERATIONS = 20_000
COVARIANCE_COPIES = 8  # matrices of all states that are held at the peak, counted in the code


class _Setting(NamedTuple):
    """What stays the same over rounds."""

    quadratic: Quadratic
    optimum: np.ndarray  # [d], from the shifted origin
    topologies: tuple[Topology, ...]
    perron: np.ndarray  # [K]
    covariances: list[
        list[np.ndarray]
    ]  # [exchange][round of the cycle]: [K, K] received covariance per coordinate, at factor one; with memory that of what agents add freshly
    remembers: bool


def expected_msd(
    problem: Any, topology: Topology, algorithm: Algorithm, noise: Noise, *, rounds: int, batch_size: int | None = None
) -> dict[str, np.ndarray]:
    """The exact expected mean-square deviations from the optimum after every round.

    Args:
        problem: the data and the loss.
        topology: who talks to whom.
        algorithm: what an agent does in a round.
        noise: how messages are perturbed.
        rounds: how many.
        batch_size: records per agent and round; None for all of them.

    Returns:
        {"msd_centroid": [rounds], "msd_average": [rounds]}: expectations of the simulator's metrics of the same names.

    Raises:
        UnsupportedClaim: the loss is not quadratic, the algorithm not linear, or the links are drawn at random.
    """
    whole("rounds", rounds)
    refuse_too_many_rounds(rounds)
    setting = _setting(problem, topology, algorithm, noise, batch_size, rounds=rounds)
    factors = noise.factors(rounds) * algorithm.noisy_rounds(rounds)
    curves = np.zeros((2, rounds))
    held: _Round | None = None
    previous: list[Any] = []
    mean = covariance = np.zeros(0)
    forms = linear_rounds(algorithm, rounds)
    memory = noise.remembered(rounds, topology.num_agents)
    for t in range(1, rounds + 1):
        form = forms.forms[forms.which[t - 1]]
        index = [(t - 1) % len(covariances) for covariances in setting.covariances]
        now: list[Any] = [*_flat(form), *index, memory[t - 1]]
        if not previous or any(not np.array_equal(a, b) for a, b in zip(now, previous, strict=True)):
            system = _system(form, setting, t, memory[t - 1])
            received = [covariances[i] for covariances, i in zip(setting.covariances, index, strict=True)]
            held = _prepare(system, setting.quadratic, received)
            previous = now
        assert held is not None
        F, f = held.system.update.state, held.system.update.constant
        if t == 1:
            mean, covariance = _start(algorithm, setting.quadratic, len(F)), np.zeros_like(F)
        driving = _driving(held, setting.quadratic, factors[t - 1], mean, covariance)
        mean, covariance = F @ mean + f, F @ covariance @ F.T + driving
        curves[:, t - 1] = _deviations(held.system, setting, mean, covariance)
    return {"msd_centroid": curves[0], "msd_average": curves[1]}


def steady_state(
    problem: Any, topology: Topology, algorithm: Algorithm, noise: Noise, *, batch_size: int | None = None
) -> dict[str, float]:
    """The limits of `expected_msd` as the rounds go to infinity.

    Args:
        problem: the data and the loss.
        topology: who talks to whom.
        algorithm: what an agent does in a round.
        noise: how messages are perturbed.
        batch_size: records per agent and round; None for all of them.

    Raises:
        UnsupportedClaim: there is no limit: steps, weights or noise change with the round, or the recursion is unstable.
    """
    setting = _setting(problem, topology, algorithm, noise, batch_size)
    first = linear_round(algorithm, 1)
    _require_steady(algorithm, noise, first, setting)
    if problem.constants.strong_convexity <= 0:
        raise UnsupportedClaim(
            "the risk is flat in some direction, in which errors never die out. Add a ridge, or use sv.expected_msd."
        )
    system = _system(first, setting, 1, noise.remembered(1, topology.num_agents)[0])
    F = system.update.state
    if np.abs(np.linalg.eigvals(F)).max() >= 1:
        raise UnsupportedClaim(
            "the mean does not converge: the step size is above the stability limit, or noise of earlier rounds enters again without dying out, "
            "so there is no steady state."
        )
    from scipy.linalg import solve_discrete_lyapunov

    mean = np.linalg.solve(np.eye(len(F)) - F, system.update.constant)
    held = _prepare(system, setting.quadratic, [listed[0] for listed in setting.covariances])
    covariance = np.zeros_like(F)
    for _ in range(STEADY_ITERATIONS):
        driving = _driving(held, setting.quadratic, 1.0, mean, covariance)
        new = solve_discrete_lyapunov(F, driving)
        if not np.isfinite(new).all() or np.abs(new).max() > 1e12 * max(np.abs(driving).max(), mean @ mean):
            break
        change = np.abs(new - covariance).max()
        covariance = new
        if change <= STEADY_TOLERANCE * np.abs(new).max(initial=1e-300):
            values = _deviations(system, setting, mean, covariance)
            return {"msd_centroid": float(values[0]), "msd_average": float(values[1])}
    raise UnsupportedClaim("the covariance does not converge: the step size is above the mean-square stability limit.")


def _require_steady(algorithm: Algorithm, noise: Noise, first: LinearRound, setting: _Setting) -> None:
    same = all(
        np.array_equal(a, b)
        for t in (2, 3, 5, 10**6)
        for a, b in zip(_flat(first), _flat(linear_round(algorithm, t)), strict=True)
    )
    steady = same and not callable(algorithm.parameters.get("step_size")) and algorithm.noisy_rounds(1000).all()
    changing = noise.schedule is not None or len(noise.turns) > 1
    changing = changing or (noise.memory is not None and len(noise.memory) > 1)
    if not steady or changing or any(len(t.listed()) > 1 for t in setting.topologies):
        raise UnsupportedClaim(
            "a steady state needs steps, weights and noise that do not change with the round. Use sv.expected_msd with many rounds."
        )


def _system(form: LinearRound, setting: _Setting, round_: int, memory: np.ndarray) -> RoundSystem:
    """One round, with what was added lately in its state where noise enters again with the factors `memory` [lags, K]."""
    matrices = matrices_of_round(setting.topologies, round_)
    system = round_system(form, matrices, setting.quadratic)
    return remembering_system(system, matrices[0], memory) if setting.remembers else system


class _Round(NamedTuple):
    """A round with the parts of its recursion that do not depend on the state, at noise factor one."""

    system: RoundSystem
    batch: BatchCovariance | None  # None where every gradient is the full one
    noise: np.ndarray  # sum_j N_j C_j N_j' of the state
    point_noise: np.ndarray  # the same of the point, diagonal blocks [K, d, d]


def _prepare(system: RoundSystem, quadratic: Quadratic, received: list[np.ndarray]) -> _Round:
    K, d = quadratic.offset.shape
    batch = BatchCovariance(quadratic) if system.point is not None and quadratic.deviations.any() else None
    at_point = np.zeros((K, d, d))
    if system.point is not None and batch is not None:
        at_point = np.einsum("kakb->kab", _noise_part(system.point, received, d).reshape(K, d, K, d))
    return _Round(system, batch, _noise_part(system.update, received, d), at_point)


def _driving(held: _Round, quadratic: Quadratic, factor: float, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """What enters the covariance in a round: received noise, and the deviation of the batch gradients."""
    total = factor**2 * held.noise
    point = held.system.point
    if held.batch is None or point is None:
        return np.asarray(total)
    K, d = quadratic.offset.shape
    X = point.state.reshape(K, d, -1)
    located = (point.state @ mean + point.constant).reshape(K, d)
    moment = np.ones((K, d + 1, d + 1))
    moment[:, :d, :d] = X @ covariance @ np.swapaxes(X, 1, 2) + factor**2 * held.point_noise
    moment[:, :d, :d] += located[:, :, None] * located[:, None, :]
    moment[:, :d, d] = moment[:, d, :d] = located
    return np.asarray(total + held.batch.spread_over(held.system.update.deviation, moment))


def _noise_part(value: Affine, received: list[np.ndarray], d: int) -> np.ndarray:
    """sum_j N_j (C_j (x) I_d) N_j'."""
    size = len(value.constant)
    total = np.zeros((size, size))
    for N, C in zip(value.noise, received, strict=True):
        if C.any():
            total += N @ np.kron(C, np.eye(d)) @ N.T
    return total


def _require_room(problem: Any, algorithm: Algorithm) -> None:
    """Refuse a covariance of all agents' states that does not fit into memory."""
    size = float(problem.num_agents) * problem.dimension * len(state_blocks(algorithm.init(np.zeros(1))))
    refuse_too_large(
        f"the covariance of {problem.num_agents:,} agents with {problem.dimension:,} parameters",
        COVARIANCE_COPIES * 8.0 * size * size,
        "Lower agents or parameters, or use sv.simulate.",
    )


def _setting(
    problem: Any, topology: Topology, algorithm: Algorithm, noise: Noise, batch_size: int | None, *, rounds: int = 1
) -> _Setting:
    check_parts(problem=problem, topology=topology, algorithm=algorithm, noise=noise)
    _refuse_other_randomness(algorithm, noise)
    _require_room(problem, algorithm)
    topologies = exchange_topologies(algorithm, topology)
    matrices_of_round(topologies, 1)
    check_together(topology, algorithm, noise, rounds=rounds, problem=problem, batch_size=batch_size, remembers=True)
    form = linear_round(algorithm, 1)
    shift = problem.optimum if keeps_common_shift(form) else np.zeros(problem.dimension)
    weighting = centroid(algorithm, topology)
    variance = 0.0 if noise.law is None else noise.law.variance(problem.dimension)
    covariances = []
    for topo, receivers in zip(topologies, weighting.receivers, strict=True):
        every = [listed.active_links()._replace(perron=receivers) for listed in topo.listed()]
        held = []
        # Links and maps come back together; a run that ends before needs no more, but every matrix is bound.
        for place in range(max(len(every), min(rounds, cycle_length(noise, len(every))))):
            links = every[place % len(every)]
            bound = bind(noise, links, round_=place + 1)
            combined = (
                received_map(bound, links) if noise.memory is None else noise_rows(BoundExchange(links, bound))[1]
            )
            held.append(variance * (combined @ combined.T).toarray())
        covariances.append(held)
    quadratic = shifted_quadratic(problem, batch_size, shift)
    return _Setting(
        quadratic, problem.optimum - shift, topologies, weighting.weights, covariances, noise.memory is not None
    )


def _refuse_other_randomness(algorithm: Algorithm, noise: Noise) -> None:
    if algorithm.sampling is None and not noise.in_gradients:
        return
    what = "noise in gradients" if algorithm.sampling is None else f"a sample of agents ({algorithm.sampling})"
    raise UnsupportedClaim(
        f"exact mean-square theory covers noise in messages and agents who all take part, not {what}. Simulate it with sv.simulate."
    )


def _deviations(system: RoundSystem, setting: _Setting, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """(msd_centroid, msd_average) of the models in a state."""
    K, d = setting.quadratic.offset.shape
    W = system.model
    error = (W @ mean).reshape(K, d) - setting.optimum
    spread = (W @ covariance @ W.T).reshape(K, d, K, d)
    q = setting.perron
    center = q @ error
    centroid_part = center @ center + np.einsum("k,kala,l->", q, spread, q)
    average_part = (error**2).sum() / K + np.einsum("kaka->", spread) / K
    return np.array([centroid_part, average_part])


def _start(algorithm: Algorithm, quadratic: Quadratic, size: int) -> np.ndarray:
    """The state before the first round, from the shifted origin: every agent's model is zero, and no noise was added yet."""
    K, d = quadratic.offset.shape
    blocks = [np.asarray(leaf, dtype=float) - quadratic.shift for leaf in state_blocks(algorithm.init(np.zeros(d)))]
    models = np.concatenate([np.tile(block, K) for block in blocks])
    return np.concatenate([models, np.zeros(size - len(models))])


def _flat(form: LinearRound) -> tuple[np.ndarray, ...]:
    at = np.zeros(0) if form.gradient_at is None else form.gradient_at
    return form.messages, form.state, at, form.model
