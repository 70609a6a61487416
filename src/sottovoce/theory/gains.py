"""What noise in messages does to the error on quadratic losses: a matrix of gains, found by running the recursion of errors backwards.

Let agents add n_t to what they send and keep in round t, independent over rounds with covariance S_t between agents, alike in all coordinates. The
noise part of a mean-square deviation is then linear in these covariances, sum_t tr(G_t S_t). With x' = F x + f + N r (`system`), the received noise r =
(A' (x) I) n and the model W x, a deviation that weighs agents by M (I / K for the average of agents, q q' for the centroid) is tr(M E[W x x' W']), so that

    P_T = W' (M (x) I) W,      P_(t-1) = F' P_t F,      G_t = A [trace over coordinates of N' P_t N] A'.

`final` is the deviation after the last round, `mean` the mean over the rounds, `steady` the limit of a round far in the future.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.linear import centroid, check_agents, exchange_topologies, linear_rounds
from sottovoce.numbers import is_number, whole
from sottovoce.reprs import short_repr
from sottovoce.theory.system import Quadratic, RoundSystem, matrices_of_round, round_system, shifted_quadratic
from sottovoce.topologies import Static, Topology

When = Literal["final", "mean", "steady"]
MOST_DOUBLINGS = 64  # of the number of rounds, until the steady state stands
GROWN = 1e50  # entries of a power beyond which errors grow without end
CONVERGED = 1e-15  # what is added, relative to what is there


class Gains(NamedTuple):
    """The gains of noise.

    Attributes:
        total: [K, K] the error is tr(total S) where all rounds have the covariance S.
        by_round: [T, K, K] the part of each round; None for a steady state, or where it was not asked for.
        exact: for the losses of a problem; False: for one contraction that stands for them.
    """

    total: np.ndarray
    by_round: np.ndarray | None
    exact: bool

    def __repr__(self) -> str:
        return short_repr(self)


def noise_gains(
    topology: Topology,
    algorithm: Algorithm,
    *,
    objective: Mapping[str, float],
    when: When,
    rounds: int,
    problem: Any = None,
    curvature: float | None = None,
    each_round: bool = False,
) -> Gains:
    """How noise in messages adds to the error.

    Args:
        topology: who talks to whom.
        algorithm: what an agent does in a round; one exchange.
        objective: weights of the deviations "average" and "centroid".
        when: the deviation after the last round, its mean over rounds, or its limit.
        rounds: how many.
        problem: the data and a quadratic loss.
        curvature: in place of a problem: every Hessian is this number times the identity; the error is that of one coordinate.
        each_round: keep the gains of every round too.

    Raises:
        UnsupportedClaim: a loss that is not quadratic, links drawn at random, several exchanges, or no limit.
        ConfigError: a problem and a curvature, or neither.
    """
    whole("rounds", rounds)
    quadratic = _quadratic(problem, curvature, topology)
    used = exchange_topologies(algorithm, topology)
    if len(used) != 1:
        raise UnsupportedClaim(
            f"'{algorithm.name}' exchanges {len(used)} messages in a round, and noise is designed for one. Use atc, cta or consensus."
        )
    weights = _weights(objective, centroid(algorithm, topology).weights)
    if when == "steady":
        system, matrix = _steady_round(topology, algorithm, quadratic)
        return Gains(_traced(system, _limit(system, weights, quadratic), matrix, quadratic), None, problem is not None)
    parts = _backwards(topology, algorithm, quadratic, weights, rounds, mean=when == "mean")
    if not each_round:
        return Gains(np.asarray(sum(parts)), None, problem is not None)
    each = np.stack(list(parts))[::-1]
    return Gains(each.sum(axis=0), each, problem is not None)


def _quadratic(problem: Any, curvature: float | None, topology: Topology) -> Quadratic:
    if (problem is None) == (curvature is None):
        raise ConfigError(
            "the error of a design is computed for a problem (problem=) or for one curvature (curvature=h, every Hessian h times the "
            "identity); give exactly one of them."
        )
    if problem is not None:
        check_agents(problem, topology, None)
        return shifted_quadratic(problem, None, problem.optimum)
    if not is_number(curvature, "(0, inf)"):
        raise ConfigError(f"curvature = {curvature!r}; the curvature of the losses is a finite number above 0.")
    K = topology.num_agents
    return Quadratic(np.full((K, 1, 1), float(curvature)), np.zeros((K, 1)), np.zeros((K, 0, 1, 2)), np.zeros(1))  # type: ignore[arg-type]


def _weights(objective: Mapping[str, float], perron: np.ndarray) -> np.ndarray:
    """M: how the errors of agents are weighed."""
    known = {"average": np.eye(len(perron)) / len(perron), "centroid": np.outer(perron, perron)}
    good = bool(objective) and all(
        name in known and is_number(weight, "[0, inf)") for name, weight in objective.items()
    )
    if not good or not any(objective.values()):
        raise ConfigError(
            f"objective = {dict(objective)!r}; it weighs 'average' and 'centroid' by numbers of at least 0, not all of them 0."
        )
    return np.asarray(sum(weight * known[name] for name, weight in objective.items()))


def _steady_round(topology: Topology, algorithm: Algorithm, quadratic: Quadratic) -> tuple[RoundSystem, np.ndarray]:
    """The one round of a run whose rounds are all alike."""
    fixed = isinstance(topology.schedule, Static)
    forms = linear_rounds(algorithm, 1000) if fixed else None
    if forms is None or len({int(each) for each in forms.which}) > 1:
        raise UnsupportedClaim(
            "a steady state needs steps and weights that do not change with the round. Ask for when='final' or when='mean'."
        )
    matrix = matrices_of_round((topology,), 1)[0]
    return round_system(forms.forms[int(forms.which[0])], [matrix], quadratic), matrix


def _limit(system: RoundSystem, weights: np.ndarray, quadratic: Quadratic) -> np.ndarray:
    """sum_j F'^j W' (M (x) I) W F^j, by doubling the number of terms."""
    total, power = _seen(system, weights, quadratic), system.update.state
    for _ in range(MOST_DOUBLINGS):
        more = power.T @ total @ power
        total, power = total + more, power @ power
        if np.abs(more).max() <= CONVERGED * np.abs(total).max():
            return np.asarray(total)
        if np.abs(power).max() > GROWN:
            break
    raise UnsupportedClaim(
        "errors do not die out: the step size is above the stability limit, or the losses are flat in some direction, so there is no steady "
        "state. Lower the step size, or ask for when='final' or when='mean'."
    )


def _seen(system: RoundSystem, weights: np.ndarray, quadratic: Quadratic) -> np.ndarray:
    """W' (M (x) I) W."""
    wide = np.kron(weights, np.eye(quadratic.offset.shape[1]))
    return np.asarray(system.model.T @ wide @ system.model)


def _traced(system: RoundSystem, backwards: np.ndarray, matrix: np.ndarray, quadratic: Quadratic) -> np.ndarray:
    """A [trace over coordinates of N' P N] A'."""
    K, d = quadratic.offset.shape
    N = system.update.noise[0]
    inside = np.einsum("kala->kl", (N.T @ backwards @ N).reshape(K, d, K, d))
    gains = matrix @ inside @ matrix.T
    return np.asarray((gains + gains.T) / 2)


def _backwards(
    topology: Topology, algorithm: Algorithm, quadratic: Quadratic, weights: np.ndarray, rounds: int, *, mean: bool
) -> Iterator[np.ndarray]:
    """G_T, .., G_1."""
    forms = linear_rounds(algorithm, rounds)
    topologies = exchange_topologies(algorithm, topology)
    held: dict[tuple[int, int], tuple[RoundSystem, np.ndarray]] = {}
    backwards: np.ndarray | None = None
    for t in range(rounds, 0, -1):
        key = (int(forms.which[t - 1]), (t - 1) % len(topologies[0].listed()))
        if key not in held:
            matrices = matrices_of_round(topologies, t)
            held[key] = round_system(forms.forms[key[0]], matrices, quadratic), matrices[0]
        system, matrix = held[key]
        if backwards is None:
            backwards = _seen(system, weights, quadratic) / (rounds if mean else 1)
        elif mean:
            backwards = backwards + _seen(system, weights, quadratic) / rounds
        yield _traced(system, backwards, matrix, quadratic)
        backwards = system.update.state.T @ backwards @ system.update.state
