"""Studies of what messages give away about one record (Vlaski & Sayed, chapter "Privacy", eq. 11.1-11.7).

    kind = "leak_exact"         errors of what is rebuilt without noise, and of a receiver's sum under noise that cancels there
    kind = "leak_direction"     |cos| between the true and the rebuilt feature vector against epsilon, by scheme and observer

Agents have ONE record each, so that every gradient of agent p, ridge taken off, is a multiple of its feature vector x. What is rebuilt:

    gradient    g_i of agent p, from two models one step apart (gradient_recovery); all rounds together are fitted by multiples of one vector, the
                leading singular vector of the rows g_i - ridge term, whitened by the covariance of their errors
    average     sum_l q_l g_l, for whoever reads only what a relay sends out
    sum         sum_l a_lk psi_l of a receiver k in the first round of ATC, hence sum_l a_lk g_l

The truth is never taken from an attack: records come from the problem, gradients and sums without noise from `clean_run`, a plain loop. Noise is
calibrated to epsilon for the very observer who attacks (leak_sections). The mean |cos| of the first gradient alone is known exactly for Gaussian
noise (feature_recovery), and stands beside the measured one.

Errors below 1e-12 count as 1e-12: what lies below is rounding, which differs between machines.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sottovoce.algorithms.algorithm import step_at
from sottovoce.attacks.feature_recovery import directions_from_gradients, similarity_distribution
from sottovoce.attacks.gradient_recovery import (
    gradients_from_views,
    recover_average_gradient,
    weighted_sum_at_receiver,
)
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.experiments.config.privacy import observer_named
from sottovoce.experiments.experiment import Experiment
from sottovoce.noise import Gaussian
from sottovoce.observers import Observer, eavesdropper, server
from sottovoce.simulation.views import observe
from sottovoce.studies.curves import Cell, Cells
from sottovoce.studies.leaks import (
    ALL_OF_IT,
    ALLOWED,
    DirectionSection,
    ExactSection,
    Say,
    built,
    described,
    mean_over_repeats,
    with_noise,
)
from sottovoce.studies.privacy_study import PrivacyStudyResult

LEAST_ERROR = 1e-12
TOLERATED = {"gradient": 1e-10, "direction": 1e-6, "sum": 1e-10}


class Clean(NamedTuple):
    """A run without noise: [T, K, d] what agents sent, their gradients, and [T, d] the sums that a receiver (or the relay) forms."""

    messages: np.ndarray
    gradients: np.ndarray
    sums: np.ndarray


class Rebuilt(NamedTuple):
    """Gradients [repeats, n, d], the points where they were taken, and [n] the standard deviation of a coordinate (0: none, or not known)."""

    gradients: np.ndarray
    points: np.ndarray
    std: np.ndarray


def run_exact(section: ExactSection, base: Mapping[str, Any], *, source: str, progress: Say) -> PrivacyStudyResult:
    """Rebuild gradients, feature vectors and sums of every variant, and compare them with a run without noise."""
    cells: Cells = {measure: {line: {} for line in section.lines()} for measure in section.measures}
    for place, problem in section.losses.items():
        for line, change in section.series.items():
            progress(f"study {section.name}: {line}, {place}")
            where = f"{source}, study {section.name!r}, {line} with {place}"
            experiment = built(section, base, [problem, change], where)
            _require_one_record(experiment, section.agent, where)
            for measure, error in _errors(experiment, section).items():
                cells[measure][line][place] = Cell(value=max(error, LEAST_ERROR), error=0.0)
        for measure, value in TOLERATED.items():
            cells[measure][ALLOWED][place] = Cell(value=value, error=0.0)
    return PrivacyStudyResult(section=section, cells=cells)


def run_direction(
    section: DirectionSection, base: Mapping[str, Any], *, source: str, progress: Say
) -> PrivacyStudyResult:
    """Rebuild one agent's feature vector under the noise for every epsilon."""
    cells: Cells = {measure: {line: {} for line in section.lines()} for measure in section.measures}
    for line, leak in section.series.items():
        where = f"{source}, study {section.name!r}, {line}"
        for place in section.places():
            progress(f"study {section.name}: {line}, epsilon {place}")
            experiment = with_noise(section, base, [leak.config], leak, place, where)
            _require_one_record(experiment, section.agent, where)
            found = rebuild(experiment, observer_named(leak.observer), leak.rebuilds, section)
            rows = _data_parts(found, experiment)
            truth = experiment.problem.arrays["features"][section.agent, 0]
            exact = (
                _first_theory(experiment, section.agent, float(found.std[0])) if leak.rebuilds == "gradient" else None
            )
            cells["similarity"][line][place] = mean_over_repeats(_similarity(leading_direction(rows, found.std), truth))
            cells["first"][line][place] = mean_over_repeats(_similarity(rows[:, 0], truth), exact)
    for table in cells.values():
        table[ALL_OF_IT] = {place: Cell(value=1.0, error=0.0) for place in section.places()}
    return PrivacyStudyResult(section=section, cells=cells, pictures=described(section, base, source))


def clean_run(experiment: Experiment, receiver: int) -> Clean:
    """ATC, CTA, consensus or FedAvg (one local step) without noise, as a plain loop.

    The simulator runs the same; this is a second route beside it on purpose, so that an attack on its messages is not held against itself.

    Raises:
        IncompatibleChoice: another algorithm.
    """
    problem, topology, algorithm = experiment.problem, experiment.topology, experiment.algorithm
    K, name = topology.num_agents, algorithm.name
    if name not in ("atc", "cta", "consensus", "fedavg") or algorithm.local_steps is not None:
        raise IncompatibleChoice(f"leakage is studied for atc, cta, consensus and one-step fedavg; this is '{name}'.")
    A = np.repeat(topology.perron[:, None], K, axis=1) if topology.relay else topology.matrix
    weights = A[:, receiver].copy()
    if not topology.relay:
        weights[receiver] = 0.0
    data = [{key: array[k] for key, array in problem.arrays.items()} for k in range(K)]
    w, kept = np.tile(problem.initial_model, (K, 1)), []
    for t in range(1, experiment.rounds + 1):
        mu = float(step_at(algorithm.parameters["step_size"], t))
        first = name in ("atc", "fedavg")
        mixed = w if first else A.T @ w
        points = w if name == "consensus" else mixed
        g = np.stack([np.asarray(problem.gradient(point, one)) for point, one in zip(points, data, strict=True)])
        sent = w - mu * g if first else w
        kept.append((sent, g, weights @ sent))
        w = A.T @ sent if first else mixed - mu * g
    return Clean(*(np.stack(part) for part in zip(*kept, strict=True)))


def rebuild(experiment: Experiment, observer: Observer, what: str, section: DirectionSection) -> Rebuilt:
    """What an observer makes of its view.

    Raises:
        IncompatibleChoice: another algorithm, a sum that the observer does not form, or sizes that change from round to round.
    """
    _check_rebuilt(experiment, observer, what)
    views = observe(
        experiment.problem, experiment.topology, experiment.algorithm, experiment.noise, observer, rounds=experiment.rounds,
        repeats=section.repeats, seed=section.seed, batch_size=experiment.batch_size,
    )  # fmt: skip
    public: dict[str, Any] = {
        "topology": experiment.topology, "algorithm": experiment.algorithm, "noise": experiment.noise, "start": experiment.problem.initial_model,
    }  # fmt: skip
    if what == "gradient":
        found = gradients_from_views(views, agent=section.agent, **public)
        return Rebuilt(found.gradients, found.points, found.gradient_std)
    if what == "average":
        found = recover_average_gradient(views.broadcast[0], **public)
        return Rebuilt(found.gradients, found.points, found.gradient_std)
    (receiver,), links = observer.members, views.layout.links[0]
    total = weighted_sum_at_receiver(views.messages[0], links, receiver=receiver, topology=experiment.topology)[:, :1]
    weight = 1.0 - experiment.topology.matrix[receiver, receiver]
    start = np.broadcast_to(experiment.problem.initial_model, total.shape)
    step = float(step_at(experiment.algorithm.parameters["step_size"], 1))
    return Rebuilt((weight * start - total) / (step * weight), start, np.zeros(1))


def _check_rebuilt(experiment: Experiment, observer: Observer, what: str) -> None:
    """Refuse what `rebuild` cannot read, before anything is simulated."""
    name = experiment.algorithm.name
    if name not in ("atc", "fedavg"):
        raise IncompatibleChoice(f"feature vectors are rebuilt from atc or fedavg here; this is '{name}'.")
    if what == "sum" and (name != "atc" or len(observer.members) != 1):
        raise IncompatibleChoice(
            f"the sum of messages is rebuilt by one curious agent under atc; this is '{observer}' under '{name}'."
        )
    require_constant_sizes(experiment)


def require_constant_sizes(experiment: Experiment) -> None:
    """Refuse steps or noise that change from round to round: `error_covariance` reads two sizes and takes the others to be alike.

    Raises:
        IncompatibleChoice: a schedule of the step size, or of the noise.
    """
    noise, step = experiment.noise, experiment.algorithm.parameters["step_size"]
    if callable(step) or noise.schedule is not None:
        what = "step size" if callable(step) else f"noise of '{noise.name}'"
        raise IncompatibleChoice(
            f"the {what} changes from round to round, and errors of gradients are put together for one size. Use a constant."
        )


def leading_direction(rows: np.ndarray, std: np.ndarray) -> np.ndarray:
    """[repeats, d] the unit vector along which rows [repeats, n, d] are multiples of one vector, most likely under Gaussian errors.

    The leading right singular vector of the rows, whitened; without noise all rows count alike.
    """
    if not (std > 0).all():
        return np.asarray(np.linalg.svd(rows, full_matrices=False)[2][:, 0])
    factor = np.linalg.cholesky(error_covariance(std))
    return np.asarray(np.linalg.svd(np.linalg.solve(factor, rows), full_matrices=False)[2][:, 0])


def error_covariance(std: np.ndarray) -> np.ndarray:
    """[n, n] covariance, in one coordinate, of the errors of an agent's gradients under ATC, one source per agent and the same size in every round.

    The errors are (rho z_{i-1} - z_i) / mu with z_0 = 0: neighbouring ones share a source, and with rho = 1 they cancel in the sum over rounds.
    """
    first = std[0] ** 2
    rho = np.sqrt(max(std[-1] ** 2 / first - 1.0, 0.0))
    moving = np.eye(len(std)) - rho * np.eye(len(std), k=-1)
    return np.asarray(first * moving @ moving.T)


def _errors(experiment: Experiment, section: ExactSection) -> dict[str, float]:
    problem, topology, relay = experiment.problem, experiment.topology, experiment.topology.relay
    truth = clean_run(experiment, section.receiver)
    if experiment.noise.law is not None:
        require_constant_sizes(experiment)
    views = observe(
        problem, topology, experiment.algorithm, experiment.noise, server() if relay else eavesdropper(),
        rounds=experiment.rounds, seed=experiment.seed,
    )  # fmt: skip
    found = gradients_from_views(
        views, agent=section.agent, topology=topology, algorithm=experiment.algorithm, noise=experiment.noise,
        start=problem.initial_model,
    )  # fmt: skip
    rebuilt = Rebuilt(found.gradients, found.points, found.gradient_std)
    gradients = truth.gradients[: rebuilt.gradients.shape[1], section.agent]
    sums = (
        np.einsum("k,rtkd->rtd", topology.perron, views.messages[0])
        if relay
        else weighted_sum_at_receiver(
            views.messages[0], views.layout.links[0], receiver=section.receiver, topology=topology
        )
    )
    direction = leading_direction(_data_parts(rebuilt, experiment), rebuilt.std)
    cosine = _similarity(direction, problem.arrays["features"][section.agent, 0])
    return {
        "gradient": float(np.abs(rebuilt.gradients[0] - gradients).max() / np.abs(gradients).max()),
        "direction": 1.0 - float(cosine[0]),
        "sum": float(np.abs(sums[0] - truth.sums).max() / np.abs(truth.sums).max()),
    }


def _data_parts(found: Rebuilt, experiment: Experiment) -> np.ndarray:
    """[repeats, n, d] minus the gradients without their ridge term: multiples of the feature vector."""
    directions = directions_from_gradients(found.gradients, found.points, experiment.problem)
    return (directions.directions * directions.strengths[:, None]).reshape(found.gradients.shape)


def _similarity(directions: np.ndarray, truth: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(directions, axis=-1) * np.linalg.norm(truth)
    return np.asarray(np.abs(directions @ truth) / lengths)


def _first_theory(experiment: Experiment, agent: int, std: float) -> float:
    """The mean |cos| of the first gradient alone: the integral of P(|cos| > q) over q.

    Raises:
        ConfigError: another law than Gaussian, or a first model that is not zero.
    """
    if std == 0.0:
        return 1.0
    if experiment.problem.initial_model.any():
        raise ConfigError(
            f"the first model of '{experiment.problem.kind}' is not zero, so that its first gradient may hold a ridge term and its length is not the "
            f"record's. Use a problem that starts at zero."
        )
    if not isinstance(experiment.noise.law, Gaussian):
        raise ConfigError(
            f"'{experiment.noise.name}' with another law than Gaussian has no exact similarity. Use law = \"gaussian\"."
        )
    problem = experiment.problem
    data = {key: array[agent] for key, array in problem.arrays.items()}
    first = problem.gradient(problem.initial_model, data)  # at zero, where the ridge has no gradient
    ratio = float(np.linalg.norm(first)) / std
    nodes, weights = np.polynomial.legendre.leggauss(200)
    tail = [
        1.0 - similarity_distribution((1 + q) / 2, signal_to_noise=ratio, dimension=problem.dimension) for q in nodes
    ]
    return float(weights @ tail / 2)


def _require_one_record(experiment: Experiment, agent: int, where: str) -> None:
    sizes = experiment.problem.sizes
    if agent >= len(sizes) or sizes[agent] != 1:
        held = "there is no such agent" if agent >= len(sizes) else f"it has {sizes[agent]} records"
        raise ConfigError(f"{where}: agent {agent} must have one record; {held}. Use as many records as agents.")
