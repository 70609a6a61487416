"""What an absorption certificate is asked about: links, sources, local steps and read-out, checked once.

Own copies become links k -> k, so that every difference that reaches agent k in round i + 1 has one form
(`absorption`):

    alpha_lk e_l + gamma_lk H_s,     diffusion: alpha = contraction_k a_lk, gamma = -alpha c  (c = 1 on links)
                                     consensus: alpha = a_lk, gamma = -a_lk on links; for the own copy the larger of
                                                (a_kk - step nu) e - a_kk c H  and  (step beta - a_kk) e + a_kk c H.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sottovoce.accounting.proofs.absorption_prices import Prices, prices, shortest_undo
from sottovoce.errors import ConfigError
from sottovoce.reprs import short_repr


class RoundLinks(NamedTuple):
    """Who sends what to whom in one round, and what the observer has of it. A static network reuses one object."""

    senders: np.ndarray  # [E] int
    receivers: np.ndarray  # [E] int
    weights: np.ndarray  # [E] a_lk >= 0
    link_source: np.ndarray  # [E] int, a source of the sender
    self_weights: np.ndarray  # [K] a_kk >= 0
    own_source: np.ndarray  # [K] int, a source of the agent; -1: bare
    own_factor: np.ndarray  # [K] c_k <= 1; ignored where bare
    owners: np.ndarray  # [S] int
    read: np.ndarray  # [S] bool: carried by a link the observer reads
    known: np.ndarray  # [S] bool: the observer knows its value
    precision: np.ndarray | None = None  # [S, S] X, a price of shifts h' X h at unit scale; None: independent sources

    def __repr__(self) -> str:
        return short_repr(self)


class Diffusion(NamedTuple):
    """The combination passes through the local step (ATC, CTA, federated averaging)."""

    contraction: np.ndarray | float  # scalar, [n-1] or [n-1, K]: the step from round i to i + 1; may exceed 1

    def __repr__(self) -> str:
        return short_repr(self)


class Consensus(NamedTuple):
    """The gradient is taken at the un-noised own model, nu I <= Hessian <= beta I."""

    step_size: np.ndarray | float  # scalar or [n-1]: the step from round i to i + 1
    strong_convexity: float  # nu >= 0
    smoothness: float  # beta >= nu

    def __repr__(self) -> str:
        return short_repr(self)


class Terminal(NamedTuple):
    """A linear read-out of the last round: message_weights . psi_n + source_weights . z_n."""

    message_weights: np.ndarray  # [K] r
    source_weights: np.ndarray  # [S of the last round] g

    def __repr__(self) -> str:
        return short_repr(self)


class Round(NamedTuple):
    """A round with own copies as links k -> k at the end, and a silent last source for copies without noise."""

    senders: np.ndarray  # [E + K]
    receivers: np.ndarray  # [E + K]
    weights: np.ndarray  # [E + K]
    sources: np.ndarray  # [E + K]
    factors: np.ndarray  # [E + K] c; 1 on links
    own: np.ndarray  # [E + K] bool
    owners: np.ndarray  # [W], W = 1 + the largest number of sources in a round
    read: np.ndarray  # [W] bool
    known: np.ndarray  # [W] bool, also the silent ones
    prices: Prices | None = None  # None: every source at its own square


class Problem(NamedTuple):
    """Checked input, every array with its full shape."""

    rounds: list[Round]
    std: np.ndarray  # [n]
    injection: np.ndarray  # [n, K]
    steps: Diffusion | Consensus
    residual: np.ndarray  # [K] how much of each message the read-out shows beyond read links; zeros without one
    spread: np.ndarray  # [W] the read-out's g on sources that may hide it
    undo: np.ndarray  # [W] w, how these are shifted to take one unit out of the read-out

    def usable(self, i: int) -> np.ndarray:
        """Sources [W] that may be shifted in round i."""
        return np.asarray(~self.rounds[i].known & (self.std[i] > 0))

    def coefficients(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Factors alpha, gamma of the step from round i to i + 1, [branches, E + K]; the largest branch counts."""
        r, steps = self.rounds[i], self.steps
        if isinstance(steps, Diffusion):
            alpha = (r.weights * np.asarray(steps.contraction)[i, r.receivers])[None, :]
            return alpha, -alpha * r.factors
        curvature = np.asarray(steps.step_size)[i] * np.array([[-steps.strong_convexity], [steps.smoothness]])
        sign = np.where(r.own, [[1.0], [-1.0]], 1.0)
        return sign * r.weights + np.where(r.own, curvature, 0.0), -sign * r.weights * r.factors


def checked_problem(
    links: Sequence[RoundLinks],
    std: np.ndarray,
    injection: np.ndarray,
    steps: Diffusion | Consensus,
    terminal: Terminal | None,
) -> Problem:
    """Check everything that `absorption.absorption_certificate` is given.

    Raises:
        ConfigError: a wrong shape, type, range or owner.
    """
    n = len(links)
    agents = int(np.size(links[0].self_weights)) if n else 0
    if not agents:
        raise ConfigError("links has no round or no agent; give one RoundLinks per round, with self_weights [K].")
    width = 1 + max(int(np.size(one.owners)) for one in links)
    distinct = {id(one): _round(one, agents, width) for one in {id(one): one for one in links}.values()}
    problem = Problem(
        rounds=[distinct[id(one)] for one in links],
        std=_numbers("std", std, (n,)),
        injection=_numbers("injection", injection, (n, agents)),
        steps=_steps(steps, n - 1, agents),
        residual=np.zeros(agents),
        spread=np.zeros(width),
        undo=np.zeros(width),
    )
    return problem if terminal is None else _with_readout(problem, terminal, int(np.size(links[-1].owners)))


def _round(links: RoundLinks, agents: int, width: int) -> Round:
    edges, sources = int(np.size(links.weights)), int(np.size(links.owners))
    senders = _indices("senders", links.senders, edges, agents)
    receivers = _indices("receivers", links.receivers, edges, agents)
    link_source = _indices("link_source", links.link_source, edges, sources)
    own_source = _indices("own_source", links.own_source, agents, sources, low=-1)
    owners = _indices("owners", links.owners, sources, agents)
    bare = own_source < 0
    factor = np.where(bare, 0.0, _numbers("own_factor", links.own_factor, (agents,), low=-np.inf))
    if (senders == receivers).any():
        raise ConfigError(
            "A link joins an agent with itself; give its own copy by self_weights, own_source, own_factor."
        )
    if (factor > 1.0).any():
        raise ConfigError(f"own_factor reaches {factor.max():g}; the certificate is proved for factors up to 1.")
    if (owners[link_source] != senders).any() or (owners[own_source[~bare]] != np.flatnonzero(~bare)).any():
        raise ConfigError(
            "A message carries a source of another agent; each source must belong to the agent that sends it."
        )
    weights = [_numbers("weights", links.weights, (edges,)), _numbers("self_weights", links.self_weights, (agents,))]
    loop, silent = np.arange(agents), (0, width - sources)
    return Round(
        senders=np.concatenate([senders, loop]),
        receivers=np.concatenate([receivers, loop]),
        weights=np.concatenate(weights),
        sources=np.concatenate([link_source, np.where(bare, width - 1, own_source)]),
        factors=np.concatenate([np.ones(edges), factor]),
        own=np.arange(edges + agents) >= edges,
        owners=np.pad(owners, silent),
        read=np.pad(_flags("read", links.read, sources), silent),
        known=np.pad(_flags("known", links.known, sources), silent, constant_values=True),
        prices=None if links.precision is None else _prices(links.precision, sources, width),
    )


def _prices(given: np.ndarray, sources: int, width: int) -> Prices:
    precision = _numbers("precision", given, (sources, sources), low=-np.inf)
    if not np.array_equal(precision, precision.T) or (np.diag(precision) < 0).any():
        raise ConfigError(
            "precision is not symmetric, or has a negative number on its diagonal; give the inverse of a covariance."
        )
    return prices(precision, width)


def _steps(steps: Diffusion | Consensus, transitions: int, agents: int) -> Diffusion | Consensus:
    if isinstance(steps, Diffusion):
        contraction = _numbers("contraction", steps.contraction, (), (transitions,), (transitions, agents))
        contraction = contraction[:, None] if contraction.ndim == 1 else contraction
        return Diffusion(np.broadcast_to(contraction, (transitions, agents)))
    step_size = np.broadcast_to(_numbers("step_size", steps.step_size, (), (transitions,)), (transitions,))
    nu = float(_numbers("strong_convexity", steps.strong_convexity, ()))
    beta = float(_numbers("smoothness", steps.smoothness, ()))
    if beta < nu:
        raise ConfigError(
            f"smoothness = {beta:g} is below strong_convexity = {nu:g}; give the larger bound as smoothness."
        )
    return Consensus(step_size, nu, beta)


def _with_readout(problem: Problem, terminal: Terminal, sources: int) -> Problem:
    last, agents = problem.rounds[-1], problem.injection.shape[1]
    r = _numbers("message_weights", terminal.message_weights, (agents,), low=-np.inf)
    g = np.zeros(problem.spread.size)
    g[:sources] = _numbers("source_weights", terminal.source_weights, (sources,), low=-np.inf)
    read = np.where(last.read, g, 0.0)
    residual = np.abs(r - np.bincount(last.owners, read, agents))
    rounding = 1e-12 * (np.abs(r) + np.bincount(last.owners, np.abs(read), agents))
    g[last.read | ~problem.usable(-1)] = 0.0
    g[np.abs(g) <= 1e-12 * np.abs(r).max()] = 0.0  # noise that cancels up to rounding hides nothing
    precision = None if last.prices is None else last.prices.precision
    undo = shortest_undo(precision, g, problem.usable(-1) & ~last.read)
    return problem._replace(residual=np.where(residual > rounding, residual, 0.0), spread=g, undo=undo)


def _numbers(name: str, given: np.ndarray | float, *shapes: tuple[int, ...], low: float = 0.0) -> np.ndarray:
    array = np.asarray(given)
    if array.dtype.kind not in "iuf" or array.shape not in shapes:
        raise ConfigError(
            f"{name} has shape {array.shape} and type {array.dtype}; it needs real numbers, shape {shapes}."
        )
    if not np.isfinite(array).all() or (array < low).any():
        raise ConfigError(f"{name} holds a value that is not finite or below {low:g}; check how it was computed.")
    return array.astype(np.float64)


def _indices(name: str, given: np.ndarray, size: int, limit: int, *, low: int = 0) -> np.ndarray:
    array = np.asarray(given)
    if array.shape != (size,) or (size and array.dtype.kind not in "iu"):
        raise ConfigError(f"{name} has shape {array.shape} and type {array.dtype}; it needs integers, shape ({size},).")
    if ((array < low) | (array >= limit)).any():
        raise ConfigError(
            f"{name} must lie between {low} and {limit - 1}; it ranges from {array.min()} to {array.max()}."
        )
    return array.astype(np.int64)


def _flags(name: str, given: np.ndarray, size: int) -> np.ndarray:
    array = np.asarray(given)
    if array.shape != (size,) or (size and array.dtype.kind != "b"):
        raise ConfigError(f"{name} has shape {array.shape} and type {array.dtype}; it needs booleans, shape ({size},).")
    return array.astype(bool)
