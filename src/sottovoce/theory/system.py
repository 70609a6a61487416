"""One round on quadratic losses as a random linear system.

With v the variables of the round (linear/form.py), stacked over agents, every quantity of a round is affine in

    x  the state before the round,    n_j  the noise received in exchange j,    xi  the deviation of the batch gradient from the full one

    g = H p - h + xi,    r_j = (A_j' (x) I) psi_j + n_j,    x' = F x + f + sum_j N_j n_j + G xi

where p is the point at which the gradient is taken. xi has mean zero given everything before it, is independent over agents, and
its second moment is quadratic in p: that is what makes mean and covariance close on themselves (theory/moments.py).
"""

from typing import Any, NamedTuple

import numpy as np

from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.linear import LinearRound
from sottovoce.problems import gradient_clip_of
from sottovoce.topologies import Listed, Static, Topology

SMALL_MAP = 200  # entries of D_i up to which the batch covariance is written out as one matrix
MAX_SIZE = 3000  # agents x parameters x state blocks; second moments are dense and each round costs the cube of this


class Affine(NamedTuple):
    """state . x + constant + sum_j noise[j] . n_j + deviation . xi, for a vector over all agents."""

    state: np.ndarray  # [K d, b K d]
    constant: np.ndarray  # [K d]
    noise: np.ndarray  # [m, K d, K d]
    deviation: np.ndarray  # [K d, K d]


class Quadratic(NamedTuple):
    """The problem seen from a shifted origin: model = shift + error."""

    hessian: np.ndarray  # [K, d, d]
    offset: np.ndarray  # [K, d]: full gradient = hessian error - offset
    # [K, n, d, d + 1]: sqrt(weight) (record gradient minus full gradient) = deviations . [error; 1]; 0 where padded
    deviations: np.ndarray
    shift: np.ndarray  # [d]


class RoundSystem(NamedTuple):
    """One round: how the state moves, and the point at which the gradient is taken (None when there is no gradient)."""

    update: Affine
    point: Affine | None
    model: np.ndarray  # [K d, b K d]


def require_quadratic(problem: Any) -> None:
    """Refuse problems whose gradient is not affine.

    Raises:
        UnsupportedClaim: the loss is not quadratic, or its gradients are clipped.
    """
    if problem.quadratic is None:
        clipped = problem.clip is not None or gradient_clip_of(problem) is not None
        what = "its gradients are clipped" if clipped else f"'{problem.kind}' is not quadratic"
        raise UnsupportedClaim(
            f"exact mean-square theory needs gradients that are affine in the model, but {what}. Simulate it with sv.simulate, "
            f"or use an unclipped linear_regression or mean_estimation."
        )


def shifted_quadratic(problem: Any, batch_size: int | None, shift: np.ndarray) -> Quadratic:
    """The affine gradients of all records around a new origin."""
    require_quadratic(problem)
    K, d, sizes = problem.num_agents, problem.dimension, problem.sizes
    quadratic = problem.quadratic
    hessian, offset = np.asarray(quadratic.hessian), np.asarray(quadratic.offset)
    offset = offset - hessian @ shift
    deviations = np.zeros((K, 0, d, d + 1))
    if batch_size is not None:
        deviations = np.zeros((K, int(sizes.max()), d, d + 1))
        move = np.eye(d + 1)
        move[:d, d] = shift
        for k in range(K):
            mean = np.concatenate([hessian[k], -offset[k][:, None]], axis=1)
            deviations[k, : sizes[k]] = quadratic.record_maps(k) @ move - mean
        # A batch of B distinct records out of n averages the deviations with variance (n - B) / (B (n - 1)) of one record's,
        # which is the mean over the n records; the weight is kept as its root in the deviations.
        weight = (sizes - batch_size) / (batch_size * np.maximum(sizes - 1, 1)) / sizes
        deviations *= np.sqrt(weight)[:, None, None, None]
    return Quadratic(hessian, offset, deviations, shift)


def keeps_common_shift(form: LinearRound) -> bool:
    """Whether adding one vector to all models adds it to every message and state: then errors can be measured from the optimum."""
    rows = [form.messages, form.state] + ([] if form.gradient_at is None else [form.gradient_at[None]])
    # Variables not yet known when a row is formed have coefficient zero, so a plain sum over all but g suffices.
    sums = [row[:, :-1].sum(axis=1) for row in rows] + [np.atleast_1d(form.model.sum())]
    return all(np.allclose(s, 1.0, rtol=0.0, atol=1e-12) for s in sums)


def round_system(
    form: LinearRound, matrices: list[np.ndarray], quadratic: Quadratic, gradient_scale: float = 1.0
) -> RoundSystem:
    """Compose one round.

    Args:
        form: the algorithm's coefficients in this round.
        matrices: [K, K] combination matrix of every exchange.
        quadratic: the problem.
        gradient_scale: multiplies every gradient; what a change of step size does.
    """
    composed = _Composition(form, len(matrices), quadratic, gradient_scale)
    composed.take_gradient()
    for j, matrix in enumerate(matrices):
        composed.receive(j, matrix)
        composed.take_gradient()
    rows = [composed.mix(coefficients) for coefficients in form.state]
    update = Affine(
        np.concatenate([r.state for r in rows]),
        np.concatenate([r.constant for r in rows]),
        np.concatenate([r.noise for r in rows], axis=1),
        np.concatenate([r.deviation for r in rows]),
    )
    size = composed.size
    model = sum(c * np.eye(size, form.blocks * size, b * size) for b, c in enumerate(form.model))
    return RoundSystem(update, composed.point, np.asarray(model))


class _Composition:
    """The variables of a round as affine functions of the state before it, each known once it has been formed."""

    def __init__(self, form: LinearRound, exchanges: int, quadratic: Quadratic, gradient_scale: float) -> None:
        K, d = quadratic.offset.shape
        size, blocks = K * d, form.blocks
        if size * blocks > MAX_SIZE:
            raise ConfigError(
                f"exact theory keeps the full covariance of {K} agents x {d} parameters"
                f"{f' x {blocks} state blocks' if blocks > 1 else ''} = {size * blocks} numbers; the limit is {MAX_SIZE}. Simulate instead."
            )
        self.form, self.quadratic, self.gradient_scale, self.size = form, quadratic, gradient_scale, size
        self.zero = Affine(
            np.zeros((size, blocks * size)), np.zeros(size), np.zeros((exchanges, size, size)), np.zeros((size, size))
        )
        self.known = {b: self.zero._replace(state=np.eye(size, blocks * size, b * size)) for b in range(blocks)}
        self.point: Affine | None = None

    def mix(self, coefficients: np.ndarray) -> Affine:
        """A combination of what is known."""
        total = self.zero
        for index in np.flatnonzero(coefficients):
            parts = zip(total, self.known[int(index)], strict=True)
            total = Affine(*(t + coefficients[index] * part for t, part in parts))
        return total

    def take_gradient(self) -> None:
        """Form the gradient as soon as the point where it is taken is known."""
        at, gradient = self.form.gradient_at, len(self.form.messages[0]) - 1
        if at is None or gradient in self.known or not all(int(i) in self.known for i in np.flatnonzero(at)):
            return
        self.point = self.mix(at)
        d, hessian = self.quadratic.offset.shape[1], np.zeros((self.size, self.size))
        for k, own in enumerate(self.quadratic.hessian):
            hessian[k * d : (k + 1) * d, k * d : (k + 1) * d] = own
        slope = _left(hessian, self.point)
        value = slope._replace(
            constant=slope.constant - self.quadratic.offset.ravel(), deviation=slope.deviation + np.eye(self.size)
        )
        self.known[gradient] = Affine(*(self.gradient_scale * part for part in value))

    def receive(self, exchange: int, matrix: np.ndarray) -> None:
        """Form what every agent combines in an exchange, with the noise of that exchange."""
        d = self.quadratic.offset.shape[1]
        received = _left(np.kron(matrix.T, np.eye(d)), self.mix(self.form.messages[exchange]))
        noise = received.noise.copy()
        noise[exchange] += np.eye(self.size)
        self.known[self.form.blocks + exchange] = received._replace(noise=noise)


def _left(matrix: np.ndarray, value: Affine) -> Affine:
    return Affine(matrix @ value.state, matrix @ value.constant, matrix @ value.noise, matrix @ value.deviation)


class BatchCovariance:
    """Psi_k = sum_i D_i M_k D_i' for second moments M_k of [point; 1]: the covariance of each agent's batch gradient.

    In few dimensions the sum over records is written out once as a matrix acting on M_k.
    """

    def __init__(self, quadratic: Quadratic) -> None:
        D = quadratic.deviations
        self.K, self.n, self.d, self.e = D.shape
        self.deviations = D
        self.written_out = None
        if self.d * self.e <= min(SMALL_MAP, self.n * 4):
            self.written_out = np.einsum("kiab,kicd->kacbd", D, D).reshape(self.K, self.d**2, self.e**2)

    def __call__(self, moment: np.ndarray) -> np.ndarray:
        """[K, d + 1, d + 1] -> [K, d, d]."""
        if self.written_out is not None:
            return np.asarray((self.written_out @ moment.reshape(self.K, -1, 1)).reshape(self.K, self.d, self.d))
        turned = np.moveaxis(self.deviations @ moment[:, None], 2, 1).reshape(self.K, self.d, -1)
        straight = np.moveaxis(self.deviations, 2, 1).reshape(self.K, self.d, -1)
        return np.asarray(turned @ np.swapaxes(straight, 1, 2))

    def spread_over(self, deviation: np.ndarray, moment: np.ndarray) -> np.ndarray:
        """G Psi G' with G = deviation [b K d, K d]."""
        columns = np.moveaxis(deviation.reshape(len(deviation), self.K, self.d), 0, 1)  # [K, b K d, d]
        weighted = np.moveaxis(columns @ self(moment), 0, 1).reshape(len(deviation), -1)
        return np.asarray(weighted @ deviation.T)


def matrices_of_round(topologies: tuple[Topology, ...], round_: int) -> list[np.ndarray]:
    """The combination matrix of every exchange in a round; random schedules are refused."""
    chosen = []
    for topology in topologies:
        if not isinstance(topology.schedule, Static | Listed):
            raise UnsupportedClaim(
                "exact mean-square theory covers fixed and listed weights; with links that are drawn at random, simulate instead."
            )
        listed = topology.listed()
        chosen.append(listed[(round_ - 1) % len(listed)].matrix)
    return chosen
