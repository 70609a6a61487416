"""One round on quadratic losses under noise of earlier rounds that enters again: a larger state, and fresh noise alone.

What an agent adds to its message is n_t = e_t - sum_j m[t, j] n_{t-j}, its own copy included (linear/memory.py). With r = (A' (x) I) n_t the noise
that is received, a round x' = F x + f + N r + G xi (theory/system.py) becomes one of the state (x, n_{t-1}, ..., n_{t-lags}),

    x'  = F x + f + M e_t - sum_j M Diag(m_j) n_{t-j} + G xi,      M = N (A' (x) I)
    n_t = e_t - sum_j Diag(m_j) n_{t-j}

whose noise e_t is independent over rounds, so that mean and covariance close on themselves as they do without memory.
"""

import numpy as np

from sottovoce.errors import ConfigError
from sottovoce.theory.system import MAX_SIZE, Affine, RoundSystem


def remembering_system(system: RoundSystem, matrix: np.ndarray, memory: np.ndarray) -> RoundSystem:
    """The same round with what was added lately as part of its state, and what is added freshly as its noise.

    Args:
        system: a round with one exchange.
        matrix: [K, K] the weights of its exchange.
        memory: [lags, K] the factors of this round.

    Raises:
        ConfigError: the state is too large.
    """
    size = len(system.update.deviation.T)
    (lags, agents), old = memory.shape, system.update.state.shape[1]
    d, total = size // agents, old + lags * size
    if total > MAX_SIZE:
        raise ConfigError(
            f"exact theory keeps the covariance of models and of the noise of {lags} earlier rounds, {total} numbers; the limit is {MAX_SIZE}. "
            f"Simulate instead."
        )
    combine = np.kron(matrix.T, np.eye(d))
    factors = np.repeat(memory, d, axis=1)  # [lags, K d]

    def larger(value: Affine) -> Affine:
        M = value.noise[0] @ combine
        return value._replace(state=np.hstack([value.state, *(-M * row for row in factors)]), noise=M[None])

    update = larger(system.update)
    added = np.hstack([np.zeros((size, old)), *(np.diag(-row) for row in factors)])
    kept = np.eye((lags - 1) * size, total, old)
    quiet = np.zeros((lags - 1) * size)
    bigger = Affine(
        np.vstack([update.state, added, kept]),
        np.concatenate([update.constant, np.zeros(size), quiet]),
        np.concatenate([update.noise, np.eye(size)[None], np.zeros((1, len(quiet), size))], axis=1),
        np.vstack([update.deviation, np.zeros((lags * size, size))]),
    )
    model = np.hstack([system.model, np.zeros((len(system.model), lags * size))])
    return RoundSystem(bigger, None if system.point is None else larger(system.point), model)
