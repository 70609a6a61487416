"""The view as one large Gaussian vector: cheap for few messages, however large the network.

Rows are all messages read, in time order. Their covariance is built without the network's full noise map and factorised once; the
shifts by each agent's gradients are then whitened, Q = (S^-1/2 Phi_p)' (S^-1/2 Phi_p).

    rounds alike     y_t = sum_{s <= t} O_{t-s} z_s, O_0 = M, O_l = H F^(l-1) N: cov(y_t, y_r) = cov(y_{t-1}, y_{r-1}) + O_t O_r'
    in general       from the last round backwards, carrying every later message as a function of the current state

A covariance that is close to singular is refused (None): there the Cholesky route loses digits, and the filter takes over.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse

from sottovoce.accounting.linear_view.gram import Gram
from sottovoce.linear import SystemRound

SMALLEST_PIVOT = 1e-5  # of the scaled covariance, down to which the Cholesky route keeps ten digits
SMALLEST_SPREAD = 1e-8  # of a message, against the noise that entered the network
SMALL = 200  # states up to which a dense product is the faster one
HELD = 5e7  # numbers held at once for the shifts of a group of agents


def stacked_gram(systems: Sequence[SystemRound], scales: np.ndarray, agents: np.ndarray) -> Gram | None:
    """Q of these agents; None when the covariance is too close to singular."""
    from scipy.linalg import solve_triangular

    T, P = len(systems), len(agents)
    later = _later_messages(systems[0], T) if all(system is systems[0] for system in systems) else None
    if later is not None and rounds_alike(systems, scales):
        covariance = _covariance_alike(systems[0], later, float(scales[0]))
    else:
        covariance = _covariance(systems, scales)
    factored = _factored(covariance, systems, scales)
    if factored is None:
        return None
    root, spread = factored
    values = np.zeros((P, T, T))
    share = max(1, int(HELD / (len(root) * T)))
    for start in range(0, P, share):
        group = agents[start : start + share]
        shift = _shifts(systems, group) if later is None else _shifts_alike(systems[0], later, group)
        shift /= spread[:, None]
        w = solve_triangular(root, shift, lower=True, check_finite=False, overwrite_b=True)
        for position in range(len(group)):
            one = w[:, position * T : (position + 1) * T]
            values[start + position] = one.T @ one
    none = np.zeros(P, dtype=bool)
    return Gram(values, np.zeros(P, dtype=int), none, none)


def _factored(
    covariance: np.ndarray, systems: Sequence[SystemRound], scales: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The Cholesky factor of the covariance scaled to variances of one, and its standard deviations; None when it is too close to singular."""
    from scipy.linalg import LinAlgError, cholesky

    spread = np.sqrt(np.diag(covariance))
    distinct = {id(system): system for system in systems}.values()
    entered = max(float(np.abs(part.data).max(initial=0.0)) for system in distinct for part in (system.M, system.N))
    if (spread <= SMALLEST_SPREAD * entered * scales.max()).any():
        return None  # noise that cancels leaves rounding, which must not count as noise
    covariance /= spread[:, None]
    covariance /= spread[None, :]
    try:
        root = cholesky(covariance.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    return (root, spread) if np.diag(root).min() >= SMALLEST_PIVOT else None


def rounds_alike(systems: Sequence[SystemRound], scales: np.ndarray) -> bool:
    """Whether every round is the same."""
    return all(system is systems[0] for system in systems) and bool(np.all(scales == scales[0]))


def _later_messages(system: SystemRound, rounds: int) -> np.ndarray:
    """[T, m, n] messages as functions of the state one, two, ... rounds before: H, H F, H F^2, ..."""
    F = system.F.toarray() if system.F.shape[0] <= SMALL else system.F
    later = np.zeros((rounds, *system.H.shape))
    later[0] = system.H.toarray()
    for lag in range(1, rounds):
        later[lag] = _times(later[lag - 1], F)
    return later


def _responses(later: np.ndarray, at_once: sparse.csr_array, entering: sparse.csr_array) -> np.ndarray:
    """[T, m, .] what a message carries of an input of its own round, and of one, two, ... rounds before."""
    rounds, m, n = later.shape
    carried = _times(later[:-1].reshape(-1, n), entering).reshape(rounds - 1, m, entering.shape[1])
    return np.concatenate([at_once.toarray()[None], carried])


def _covariance_alike(system: SystemRound, later: np.ndarray, scale: float) -> np.ndarray:
    rounds, m = later.shape[:2]
    flat = scale * _responses(later, system.M, system.N).reshape(rounds * m, -1)
    covariance = np.asarray(flat @ flat.T)
    for t in range(1, rounds):
        here, before = slice(t * m, (t + 1) * m), slice((t - 1) * m, t * m)
        covariance[here, m:] += covariance[before, :-m]
    return covariance


def _shifts_alike(system: SystemRound, later: np.ndarray, agents: np.ndarray) -> np.ndarray:
    """[rows, P T] what each message moves with each gradient; agent by agent."""
    rounds, m, P = *later.shape[:2], len(agents)
    responses = _responses(later, system.D[:, agents], system.G[:, agents])  # [T, m, P]
    shift = np.zeros((rounds * m, P * rounds), order="F")
    for s in range(rounds):
        shift[s * m :, s::rounds] = responses[: rounds - s].reshape(-1, P)
    return shift


def _covariance(systems: Sequence[SystemRound], scales: np.ndarray) -> np.ndarray:
    total = sum(system.H.shape[0] for system in systems)
    covariance = np.zeros((total, total))
    for t, first, after, later in _backwards(systems):
        system = systems[t]
        noise = np.zeros((total - first, system.M.shape[1]))
        noise[: after - first] = system.M.toarray()
        noise[after - first :] = _times(later, system.N)
        covariance[first:, first:] += scales[t] ** 2 * (noise @ noise.T)
    return covariance


def _shifts(systems: Sequence[SystemRound], agents: np.ndarray) -> np.ndarray:
    T, P = len(systems), len(agents)
    shift = np.zeros((sum(system.H.shape[0] for system in systems), P * T), order="F")
    for t, first, after, later in _backwards(systems):
        shift[first:after, t::T] = systems[t].D[:, agents].toarray()
        shift[after:, t::T] = _times(later, systems[t].G[:, agents])
    return shift


def _backwards(systems: Sequence[SystemRound]) -> Iterator[tuple[int, int, int, np.ndarray]]:
    """(round, its first row, the first later row, later messages as functions of the state after it), last round first."""
    starts = np.concatenate([[0], np.cumsum([system.H.shape[0] for system in systems])])
    later = np.zeros((0, systems[0].F.shape[0]))
    for t in range(len(systems) - 1, -1, -1):
        yield t, int(starts[t]), int(starts[t + 1]), later
        later = np.vstack([systems[t].H.toarray(), _times(later, systems[t].F)])


def _times(dense: np.ndarray, matrix: sparse.csr_array | np.ndarray) -> np.ndarray:
    return np.asarray((matrix.T @ dense.T).T)
