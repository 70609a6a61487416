"""Exact mean-square behaviour on quadratic losses: the expected error curve without Monte Carlo, and its steady state.

The mean m and covariance V of the stacked error obey (theory/system.py)

    m' = F m + f,      V' = F V F' + sum_j N_j C_j N_j' + G Psi G'

with C_j the covariance of the noise received in exchange j and Psi the covariance of the batch gradient's deviation, block diagonal
over agents, Psi_k = spread_k sum_i D_i E[p_k p_k'] D_i' with p_k = [point of agent k; 1]. Only covariances of the noise enter, so
Laplace and Gaussian noise of equal variance have the same curve. The steady state solves the fixed-point equation; without batches
it is a discrete Lyapunov equation.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.linear import LinearRound, centroid, exchange_topologies, linear_round
from sottovoce.noise import Noise, bind, received_map
from sottovoce.theory.system import (
    Affine,
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


class _Setting(NamedTuple):
    """What stays the same over rounds."""

    quadratic: Quadratic
    optimum: np.ndarray  # [d], from the shifted origin
    topologies: tuple[Topology, ...]
    perron: np.ndarray  # [K]
    covariances: list[
        list[np.ndarray]
    ]  # [exchange][listed matrix]: [K, K] received covariance per coordinate, at factor one


def expected_msd(
    problem: Any, topology: Topology, algorithm: Algorithm, noise: Noise, *, rounds: int, batch_size: int | None = None
) -> dict[str, np.ndarray]:
    """The exact expected mean-square deviations from the optimum after every round.

    Returns:
        {"msd_centroid": [rounds], "msd_average": [rounds]}: expectations of the simulator's metrics of the same names.

    Raises:
        UnsupportedClaim: the loss is not quadratic, the algorithm not linear, or the links are drawn at random.
    """
    if rounds < 1:
        raise ConfigError(f"rounds = {rounds}; at least 1 is needed.")
    setting = _setting(problem, topology, algorithm, noise, batch_size)
    factors = noise.factors(rounds) * algorithm.noisy_rounds(rounds)
    curves = np.zeros((2, rounds))
    system: RoundSystem | None = None
    previous: list[Any] = []
    mean = covariance = np.zeros(0)
    for t in range(1, rounds + 1):
        form = linear_round(algorithm, t)
        index = [(t - 1) % len(topo.listed()) for topo in setting.topologies]
        now: list[Any] = [*_flat(form), *index]
        if not previous or any(not np.array_equal(a, b) for a, b in zip(now, previous, strict=True)):
            system, previous = round_system(form, matrices_of_round(setting.topologies, t), setting.quadratic), now
        assert system is not None
        if t == 1:
            size = system.update.state.shape[0]
            mean, covariance = (
                np.tile(-setting.quadratic.shift, size // len(setting.quadratic.shift)),
                np.zeros((size, size)),
            )
        received = [factors[t - 1] ** 2 * setting.covariances[j][i] for j, i in enumerate(index)]
        mean, covariance = step(system, setting.quadratic, received, mean, covariance)
        curves[:, t - 1] = _deviations(system, setting, mean, covariance)
    return {"msd_centroid": curves[0], "msd_average": curves[1]}


def steady_state(
    problem: Any, topology: Topology, algorithm: Algorithm, noise: Noise, *, batch_size: int | None = None
) -> dict[str, float]:
    """The limits of `expected_msd` as the rounds go to infinity.

    Raises:
        UnsupportedClaim: there is no limit: steps, weights or noise change with the round, or the recursion is unstable.
    """
    setting = _setting(problem, topology, algorithm, noise, batch_size)
    first, later = linear_round(algorithm, 1), linear_round(algorithm, 10**6)
    changes = any(not np.array_equal(a, b) for a, b in zip(_flat(first), _flat(later), strict=True))
    if (
        changes
        or noise.schedule is not None
        or any(len(t.listed()) > 1 for t in setting.topologies)
        or not algorithm.sends_fresh(1)
    ):
        raise UnsupportedClaim(
            "a steady state needs steps, weights and noise that do not change with the round. Use sv.expected_msd with many rounds."
        )
    system = round_system(first, matrices_of_round(setting.topologies, 1), setting.quadratic)
    F = system.update.state
    if np.abs(np.linalg.eigvals(F)).max() >= 1:
        raise UnsupportedClaim(
            "the mean does not converge: the step size is above the stability limit, so there is no steady state."
        )
    mean = np.linalg.solve(np.eye(len(F)) - F, system.update.constant)
    received = [held[0] for held in setting.covariances]
    covariance = np.zeros_like(F)
    for _ in range(STEADY_ITERATIONS):
        driving = _driving(system, setting.quadratic, received, mean, covariance)
        new = solve_discrete_lyapunov(F, driving)
        if not np.isfinite(new).all() or np.abs(new).max() > 1e12:
            break
        change = np.abs(new - covariance).max()
        covariance = new
        if change <= STEADY_TOLERANCE * np.abs(new).max(initial=1e-300):
            values = _deviations(system, setting, mean, covariance)
            return {"msd_centroid": float(values[0]), "msd_average": float(values[1])}
    raise UnsupportedClaim("the covariance does not converge: the step size is above the mean-square stability limit.")


def step(
    system: RoundSystem, quadratic: Quadratic, received: list[np.ndarray], mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One round of the recursion; received[j] is the [K, K] covariance per coordinate of the noise in exchange j."""
    F = system.update.state
    new = F @ covariance @ F.T + _driving(system, quadratic, received, mean, covariance)
    return F @ mean + system.update.constant, 0.5 * (new + new.T)


def _driving(
    system: RoundSystem, quadratic: Quadratic, received: list[np.ndarray], mean: np.ndarray, covariance: np.ndarray
) -> np.ndarray:
    d = quadratic.offset.shape[1]
    total = _noise_part(system.update, received, d)
    if system.point is not None and quadratic.spread.any():
        total = total + deviation_part(system, quadratic, _noise_part(system.point, received, d), mean, covariance)
    return total


def _noise_part(value: Affine, received: list[np.ndarray], d: int) -> np.ndarray:
    """sum_j N_j (C_j (x) I_d) N_j'."""
    size = len(value.constant)
    total = np.zeros((size, size))
    for N, C in zip(value.noise, received, strict=True):
        if C.any():
            total += N @ np.kron(C, np.eye(d)) @ N.T
    return total


def deviation_part(
    system: RoundSystem, quadratic: Quadratic, point_noise: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> np.ndarray:
    """G Psi G', from the second moment of the point at which gradients are taken."""
    assert system.point is not None
    K, d = quadratic.offset.shape
    X = system.point.state
    located = (X @ mean + system.point.constant).reshape(K, d)
    moment = np.zeros((K, d + 1, d + 1))
    for k in range(K):
        rows = slice(k * d, (k + 1) * d)
        moment[k, :d, :d] = (
            X[rows] @ covariance @ X[rows].T + point_noise[rows, rows] + np.outer(located[k], located[k])
        )
    moment[:, :d, d] = moment[:, d, :d] = located
    moment[:, d, d] = 1.0
    psi = batch_covariance(quadratic, moment)
    G = system.update.deviation
    spread = np.zeros((K * d, K * d))
    for k in range(K):
        spread[k * d : (k + 1) * d, k * d : (k + 1) * d] = psi[k]
    return np.asarray(G @ spread @ G.T)


def batch_covariance(quadratic: Quadratic, moment: np.ndarray) -> np.ndarray:
    """Psi_k = spread_k sum_i D_i moment_k D_i' for every agent; moment [K, d + 1, d + 1], result [K, d, d]."""
    D = quadratic.deviations
    turned = D @ moment[:, None]  # [K, n, d, d + 1]
    K, n, d, e = D.shape
    left = np.moveaxis(turned, 2, 1).reshape(K, d, n * e)
    right = np.moveaxis(D, 2, 1).reshape(K, d, n * e)
    return np.asarray(quadratic.spread[:, None, None] * (left @ np.swapaxes(right, 1, 2)))


def _setting(problem: Any, topology: Topology, algorithm: Algorithm, noise: Noise, batch_size: int | None) -> _Setting:
    topologies = exchange_topologies(algorithm, topology)
    matrices_of_round(topologies, 1)
    if problem.num_agents != topology.num_agents:
        raise ConfigError(
            f"the problem has {problem.num_agents} agents but the topology {topology.num_agents}; give both the same."
        )
    form = linear_round(algorithm, 1)
    shift = problem.optimum if keeps_common_shift(form) else np.zeros(problem.dimension)
    weighting = centroid(algorithm, topology)
    variance = 0.0 if noise.law is None else noise.law.variance(problem.dimension)
    covariances = []
    for topo, receivers in zip(topologies, weighting.receivers, strict=True):
        held = []
        for listed in topo.listed():
            links = listed.active_links()._replace(perron=receivers)
            combined = received_map(bind(noise, links), links)
            held.append(variance * (combined @ combined.T).toarray())
        covariances.append(held)
    quadratic = shifted_quadratic(problem, batch_size, shift)
    return _Setting(quadratic, problem.optimum - shift, topologies, weighting.weights, covariances)


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


def _flat(form: LinearRound) -> tuple[np.ndarray, ...]:
    at = np.zeros(0) if form.gradient_at is None else form.gradient_at
    return form.messages, form.state, at, form.model
