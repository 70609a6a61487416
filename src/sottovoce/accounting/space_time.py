"""Readers of every message under Gaussian noise that is correlated across agents and rounds in any way.

n_t in R^K is what the messages of round t carry, Sigma = Cov(n_1, ..., n_T), iid over coordinates. If every agent goes on from what it sent, the
messages that are still to come follow from those that were read, but for gradients. With Sigma = L L', L lower triangular in time, L^-1 (y - what
follows) is standard white noise, round by round, and agent p's gradient changes v_t shift it by predictable vectors whose squares add up to

    step^2 sum_st X_st <v_s, v_t>,       X = the rows and columns of agent p in Sigma^-1,

on every path, whatever gradients react to. So mu is the largest value over |v_t| <= Delta: stated by its dual, reached by fixed v.

If the agent's own copy carries the multiple s of what its message carries, its change lives on in its next message with the factor rho = a_pp (1 - s): then
step v_t is replaced by d_t = rho d_(t-1) + step_t v_t. That is for gradients any two of which differ by at most Delta. Gradients that are bounded at
the same model only need the promise of convex and smooth losses, |d_t| <= e_t = c |rho| e_(t-1) + step_t Delta, and correlated rounds need absolute
values: a step may turn a difference round, so that signs say nothing, and mu^2 = e' |X| e.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.accounting.linear_view.worst_direction import worst_direction
from sottovoce.accounting.question.promise import contraction
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.numbers import checked, whole
from sottovoce.problems import ConvexSmooth

BLUR = 8 * np.finfo(float).eps  # of the largest eigenvalue: how far the others may be off
ROUNDING = 64 * np.finfo(float).eps  # per row, of the largest eigenvalue: below it an eigenvalue may be zero
SKEW = 1e-12  # of the standard deviations of two entries: by how much a symmetric matrix may fail to be one


class SpaceTime(NamedTuple):
    """The distance of two worlds for whoever reads every message."""

    mu: float  # proven
    attained: float  # by fixed gradient changes in enough dimensions; 0 where none were sought, under a promise


def mu(
    covariance: ArrayLike,
    *,
    num_agents: int,
    rounds: int,
    step_size: ArrayLike,
    sensitivity: float,
    agent: int,
    own: tuple[float, float] | None = None,
    losses: ConvexSmooth | None = None,
) -> SpaceTime:
    """How much one agent gives away to a reader of every message, under ATC and Gaussian noise of any covariance.

    Args:
        covariance: [K T, K T] of the noise in the messages, per coordinate: all agents of the first round, then all of the second, and so on.
        num_agents: K.
        rounds: T.
        step_size: one number, or one per round.
        sensitivity: Delta, the largest change of one gradient: at the same model where own copies are the messages or losses are promised, else
            between any two models.
        agent: whose.
        own: (a_pp, s): the weight that the agent gives its own copy, and the multiple of its message's noise that the copy carries. None: s = 1, it
            goes on from what it sent.
        losses: the promise that bounds changes of gradients at different models; needed for a record where s is not 1.

    Raises:
        ConfigError: numbers of another shape, or a covariance that is none.
        UnsupportedClaim: a covariance too close to singular: some combination of messages has no noise.
    """
    size = checked("sensitivity", sensitivity, "(0, inf)")
    if losses is not None:
        return SpaceTime(_promised(covariance, num_agents, rounds, step_size, agent, own, losses) * size, 0.0)
    Q = gram(covariance, num_agents=num_agents, rounds=rounds, step_size=step_size, agent=agent, own=own)
    found = worst_direction(Q)
    return SpaceTime(size * float(np.sqrt(found.upper)), size * float(np.sqrt(max(float(found.lower), 0.0))))


def gram(
    covariance: ArrayLike,
    *,
    num_agents: int,
    rounds: int,
    step_size: ArrayLike,
    agent: int,
    own: tuple[float, float] | None = None,
) -> np.ndarray:
    """[T, T] the matrix Q with mu^2 = sum_st Q_st <v_s, v_t> for gradient changes v_1..v_T; arguments as in `mu`."""
    X, steps, rho = _parts(covariance, num_agents, rounds, step_size, agent, own)
    moved = np.diag(steps)  # of every message, by every gradient
    for t in range(1, len(steps)):
        moved[t] += rho * moved[t - 1]
    found = moved.T @ X @ moved
    return np.asarray((found + found.T) / 2)


def _promised(
    covariance: ArrayLike, num_agents: int, rounds: int, step_size: ArrayLike, agent: int, own: tuple[float, float] | None, losses: ConvexSmooth
) -> float:  # fmt: skip
    """What is proven under the promise, at sensitivity one: differences may turn round, so that absolute values count."""
    X, steps, rho = _parts(covariance, num_agents, rounds, step_size, agent, own)
    reach, before = np.zeros(len(steps)), 0.0
    for t, step in enumerate(steps):
        reach[t] = before = contraction(float(step), losses) * abs(rho) * before + step
    return float(np.sqrt(reach @ np.abs(X) @ reach))


def _parts(
    covariance: ArrayLike,
    num_agents: int,
    rounds: int,
    step_size: ArrayLike,
    agent: int,
    own: tuple[float, float] | None,
) -> tuple[np.ndarray, np.ndarray, float]:
    """The agent's part of the inverse covariance [T, T], the steps [T], and rho."""
    T, K = whole("rounds", rounds), whole("num_agents", num_agents)
    if whole("agent", agent, least=0) >= K:
        raise ConfigError(f"agent = {agent!r}; the agents are 0 to {K - 1}.")
    steps, rho = _steps(step_size, T), 0.0 if own is None else _feedback(own)
    return _precision(covariance, K, T)[agent::K, agent::K], steps, rho


def _steps(step_size: ArrayLike, rounds: int) -> np.ndarray:
    given = np.asarray(step_size, dtype=float)
    if given.shape not in ((), (rounds,)) or not np.isfinite(given).all() or (given <= 0).any():
        raise ConfigError(
            f"step_size has shape {given.shape}; needed is one positive number, or one for each of the {rounds} rounds."
        )
    return np.array(np.broadcast_to(given, rounds))


def _feedback(own: tuple[float, float]) -> float:
    given = np.asarray(own, dtype=float)
    if given.shape != (2,) or not np.isfinite(given).all() or not 0 <= given[0] <= 1:
        raise ConfigError(
            f"own = {own!r}; needed are the weight of the agent's own copy, from 0 to 1, and the multiple of its message's noise in that copy."
        )
    return float(given[0] * (1.0 - given[1]))


def _precision(covariance: ArrayLike, num_agents: int, rounds: int) -> np.ndarray:
    """The inverse of a covariance, no smaller than rounding allows."""
    given, n = np.asarray(covariance, dtype=float), num_agents * rounds
    if given.shape != (n, n) or not np.isfinite(given).all():
        raise ConfigError(
            f"covariance has shape {given.shape}; needed are finite numbers [{n}, {n}], {num_agents} agents in each of {rounds} rounds."
        )
    spread = np.sqrt(np.clip(np.diag(given), 0.0, None))
    if not spread.all():
        raise UnsupportedClaim(
            f"message {int(np.argmin(spread))} of the covariance has no noise, so that it is in clear. Give every message noise."
        )
    scaled = given / spread[:, None] / spread[None, :]
    if np.abs(scaled - scaled.T).max() > SKEW:
        raise ConfigError("covariance is not symmetric. Give the covariance of all messages, or its symmetric part.")
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    if values[0] <= ROUNDING * n * values[-1]:
        raise UnsupportedClaim(
            f"the smallest eigenvalue of the covariance, at variances of one, is {values[0]:.3g}: some combination of messages has no noise that could "
            f"be told from rounding. Give every agent and round noise of its own."
        )
    inverse = (vectors / (values - BLUR * values[-1])) @ vectors.T
    return np.asarray(inverse / spread[:, None] / spread[None, :])
