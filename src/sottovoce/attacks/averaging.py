"""Averaging the noise away: the same value, seen several times with noise of its own each time.

Copies m_i = value + noise_i, i = 1..n, with covariance C [n, n] of the noise in any one coordinate. Weights v that sum
to one give an unbiased estimate, and

    equal     v = 1/n                                   variance  1'C 1 / n^2       (C = s^2 I:  s^2 / n)
    best      v = C^-1 1 / (1'C^-1 1)                   variance  1 / (1'C^-1 1)    (the best linear unbiased estimate)

Where copies come from: a message on several links with noise per link; the same value sent again with fresh noise (a
computation that is run again, or a model that has converged and is sent for ever). A broadcast is one copy: links carry
the same noise and nothing is gained. The accountant counts all this; here it is done.

A converged model under fresh noise is not still: every round's noise passes through the network. With gradients h_k (w
- w*_k) the deviation of ATC from its fixed point obeys x_i = A' D x_{i-1} + R z_i, D = diag(1 - mu h), and agent k
sends (D x_{i-1})_k + (L z_i)_k on a link. `converged_covariance` is the exact covariance of T such messages.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.attacks.arrays import Floats, finite
from sottovoce.attacks.links import Positions, checked_messages, fixed_links, rows_of
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.linear import BoundExchange, noise_rows, refuse_memory
from sottovoce.noise import Noise, bind, received_map
from sottovoce.numbers import checked, chosen, whole
from sottovoce.topologies import Topology

Weighting = Literal["equal", "best"]
_SINGULAR = 1e-12  # relative size of an eigenvalue that counts as zero


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Averaged:
    """A value estimated from several noisy copies.

    Attributes:
        estimates: [..., d].
        weights: [n] of the copies.
        variance: exact variance of one coordinate of estimates - value.
        reduction: variance of the best single copy over `variance`; 1 means that averaging gained nothing.
    """

    estimates: Floats
    weights: Floats
    variance: float
    reduction: float

    def error_ratio(self, value: ArrayLike) -> float:
        """Mean squared error of the estimates over its theory: 1 within chance if the noise is what is said."""
        error = self.estimates - np.asarray(value, dtype=np.float64)
        if self.variance == 0.0:
            raise IncompatibleChoice(
                "these copies determine the value without noise, so there is no variance to compare with."
            )
        return float((error**2).mean() / self.variance)


def average_copies(copies: ArrayLike, covariance: ArrayLike, *, weighting: Weighting) -> Averaged:
    """Estimate a value from noisy copies of it.

    Args:
        copies: [..., n, d], at least two axes.
        covariance: [n, n] of the noise of the copies, in any one coordinate.
        weighting: "equal", or "best" for the smallest variance.

    Raises:
        IncompatibleChoice: all copies carry the same noise, so that no weights gain anything.
    """
    given = np.asarray(copies)
    values, C = finite("copies", given, axes=max(given.ndim, 2)), finite("covariance", covariance, axes=2)
    n = values.shape[-2]
    scale = np.abs(C).max()
    if (
        C.shape != (n, n)
        or not np.allclose(C, C.T, rtol=0.0, atol=1e-12 * scale)
        or np.linalg.eigvalsh(C)[0] < -1e-9 * scale
    ):
        raise ConfigError(
            f"covariance {C.shape} must be a covariance matrix of the {n} copies: symmetric, no negative eigenvalue."
        )
    if n > 1 and scale > 0.0 and np.ptp(C) <= _SINGULAR * scale:
        raise IncompatibleChoice(
            f"the {n} copies carry the same noise (a broadcast), so averaging them gains nothing. It works against "
            f"noise per link or fresh noise per round."
        )
    v = np.full(n, 1.0 / n) if chosen("weighting", weighting, ("equal", "best")) == "equal" else _best_weights(C)
    variance = max(float(v @ C @ v), 0.0)
    if variance <= _SINGULAR * scale:  # what is left of terms that cancel
        variance = 0.0
    single = float(C.diagonal().min())
    return Averaged(
        estimates=np.einsum("n,...nd->...d", v, values),
        weights=v,
        variance=variance,
        reduction=single / variance if variance > 0.0 else np.inf,
    )


def average_over_rounds(values: ArrayLike, *, variance: float) -> Averaged:
    """Average what was sent again and again with fresh noise.

    Args:
        values: [repeats, n, d] n messages of the same value, each with independent noise.
        variance: of one coordinate of one message's noise.
    """
    seen = finite("values", values, axes=3)
    size = checked("variance", variance, "(0, inf)")
    return average_copies(seen, size * np.eye(seen.shape[1]), weighting="equal")


def average_over_links(
    messages: ArrayLike, links: ArrayLike, *, sender: int, topology: Topology, noise: Noise, weighting: Weighting
) -> Averaged:
    """Average the copies of an agent's message that were seen on several links in the same round.

    Args:
        messages: [repeats, rounds, E, d] what the observed links carried.
        links: [E, 2] (sender, receiver) of each.
        sender: whose message.
        topology: the public weights; fixed in time.
        noise: the public noise scheme, the same in every round.
        weighting: "equal", or "best" for the smallest variance.

    Returns:
        Estimates [repeats, rounds, d] of what the agent sent before noise.

    Raises:
        IncompatibleChoice: fewer than two links of that agent are read, or they all carry the same noise.
    """
    seen, pairs = checked_messages(messages, links)
    copies = np.flatnonzero(pairs[:, 0] == sender)
    if len(copies) < 2:
        raise IncompatibleChoice(
            f"{len(copies)} of the observed links start at agent {sender}; copies on at least two are needed to "
            f"average."
        )
    refuse_memory(noise, "attacks that average copies")
    if noise.law is None or noise.in_gradients or noise.schedule is not None:
        raise IncompatibleChoice(
            f"'{noise.name}' puts no noise on links, or another amount in every round; averaging over links needs "
            f"noise on links, the same in every round."
        )
    rows = _link_rows(topology, noise, pairs[copies])
    covariance = noise.law.variance(seen.shape[3]) * (rows @ rows.T)
    return average_copies(seen[:, :, copies], covariance, weighting=weighting)


def converged_covariance(
    topology: Topology, noise: Noise, *, link: tuple[int, int], step_size: float, curvatures: ArrayLike, rounds: int
) -> Floats:
    """[rounds, rounds] covariance, in one coordinate, of what ATC sends on a link from its fixed point on.

    For a law of unit variance: multiply by noise.law.variance(d).

    Args:
        topology: the public weights; fixed in time.
        noise: the noise scheme.
        link: (sender, receiver).
        step_size: mu.
        curvatures: h, one number or one for each agent: gradients are h_k (w - w*_k).
        rounds: T messages, the first sent from the fixed point itself.
    """
    h = finite("curvatures", np.atleast_1d(np.asarray(curvatures)), axes=1)
    if len(h) not in (1, topology.num_agents):
        raise ConfigError(
            f"{len(h)} curvatures were given; needed is one, or one for each of {topology.num_agents} agents."
        )
    h = np.broadcast_to(h, (topology.num_agents,))
    damping = 1.0 - checked("step_size", step_size, "(0, inf)") * h  # D
    row = _link_rows(topology, noise, np.array([link]))[0]
    active = topology.active_links()
    received = received_map(bind(noise, active), active).toarray()  # R
    T = whole("rounds", rounds)
    # Response of a message to the noise of j rounds before: L, then e_k' D R, e_k' D (A'D) R, ...
    responses, transfer = [row], received
    for _ in range(T - 1):
        responses.append(damping[link[0]] * transfer[link[0]])
        transfer = topology.matrix.T @ (damping[:, None] * transfer)
    response = np.array(responses)  # [T, S]
    covariance = np.empty((T, T))
    for lag in range(T):
        sums = np.cumsum(np.einsum("ts,ts->t", response[: T - lag], response[lag:]))
        i = np.arange(T - lag)
        covariance[i, i + lag] = covariance[i + lag, i] = sums
    return covariance


def average_from_views(views: Any, *, sender: int, topology: Topology, noise: Noise, weighting: Weighting) -> Averaged:
    """`average_over_links` on a recorded view (`simulation.views.observe`).

    Args:
        views: what was recorded.
        sender: whose messages are averaged.
        topology: the public weights.
        noise: the public noise scheme.
        weighting: how the copies are weighed, as in `average_over_links`.
    """
    return average_over_links(
        views.messages[0], views.layout.links[0], sender=sender, topology=topology, noise=noise, weighting=weighting
    )


def _best_weights(C: Floats) -> Floats:
    """C^-1 1 / (1'C^-1 1); where C is singular, a direction without noise that carries the value, if there is one."""
    values, vectors = np.linalg.eigh(C)
    ones = vectors.T @ np.ones(len(C))
    silent = values <= _SINGULAR * max(values[-1], 0.0)
    if silent.any() and np.linalg.norm(ones[silent]) > 1e-9 * np.sqrt(len(C)):
        v = vectors[:, silent] @ ones[silent]
    else:
        v = vectors[:, ~silent] @ (ones[~silent] / values[~silent])
    weights: Floats = v / v.sum()
    return weights


def _link_rows(topology: Topology, noise: Noise, pairs: Positions) -> Floats:
    """[n, S] what each of these links carries of every source."""
    active = fixed_links(topology)
    carried = noise_rows(BoundExchange(active, bind(noise, active)))[0]
    rows: Floats = carried[rows_of(pairs, active)].toarray()
    return rows
