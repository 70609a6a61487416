"""A study of what messages give away without noise about one record (Vlaski & Sayed, chapter "Privacy", eq. 11.1-11.7).

    kind = "leak_exact"         errors of what is rebuilt without noise, and of a receiver's sum under noise that cancels there

The truth is never taken from an attack: records come from the problem, gradients and sums without noise from `clean_run`, a plain loop. Errors below
1e-12 count as 1e-12: what lies below is rounding, which differs between machines.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from sottovoce.algorithms import step_at
from sottovoce.attacks import gradients_from_views, weighted_sum_at_receiver
from sottovoce.errors import IncompatibleChoice
from sottovoce.experiments import Experiment
from sottovoce.observers import eavesdropper, server
from sottovoce.reports import paint, readable_picture, save
from sottovoce.simulation.views import Views, observe
from sottovoce.studies.cells import StudyFile, computed, empty_cells
from sottovoce.studies.leaks import Agent, Cut, LeakSection, require_one_record
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult
from sottovoce.studies.rebuilt_records import Rebuilt, data_parts, leading_direction, require_constant_sizes, similarity
from sottovoce.topologies import Topology

ALLOWED = "allowed"
LEAST_ERROR = 1e-12
TOLERATED = {"gradient": 1e-10, "direction": 1e-6, "sum": 1e-10}


class ExactSection(LeakSection):
    """Errors without noise."""

    axis: ClassVar[str] = "loss"
    measures: ClassVar[Mapping[str, str]] = {
        "gradient": "largest error of an agent's gradients, relative to the largest gradient",
        "direction": "1 - |cos| between the rebuilt and the true feature vector",
        "sum": "largest error of a receiver's sum of messages, relative to the largest sum",
    }

    kind: Literal["leak_exact"]
    agent: Agent  # whose record
    receiver: Agent  # whose sum, on a network without a relay
    series: dict[str, dict[str, Any]] = Field(min_length=1)  # label -> sections to change
    losses: dict[str, dict[str, Any]] = Field(min_length=1)  # label -> sections to change

    def lines(self) -> list[str]:
        """The variants, and what counts as exact."""
        return [*self.series, ALLOWED]

    def places(self) -> list[str]:
        """The losses."""
        return list(self.losses)


class Clean(NamedTuple):
    """A run without noise: [T, K, d] what agents sent, their gradients, and [T, d] the sums that a receiver (or the relay) forms."""

    messages: np.ndarray
    gradients: np.ndarray
    sums: np.ndarray


def run_exact(section: ExactSection, file: StudyFile) -> PrivacyStudyResult:
    """Rebuild gradients, feature vectors and sums of every variant, and compare them with a run without noise."""
    cells = empty_cells(section.measures, section.lines())
    for place, problem in section.losses.items():
        for line, change in section.series.items():
            file.say(f"study {section.name}: {line}, {place}")
            where = f"{file.source}, study {section.name!r}, {line} with {place}"
            experiment = Cut(section, file.base, (problem, change), where).experiment()
            require_one_record(experiment, section.agent, where)
            for measure, error in _errors(experiment, section).items():
                cells[measure][line][place] = computed(max(error, LEAST_ERROR))
        for measure, value in TOLERATED.items():
            cells[measure][ALLOWED][place] = computed(value)
    return PrivacyStudyResult(section=section, cells=cells)


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
    A, weights = _weights(topology, receiver)
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


def _weights(topology: Topology, receiver: int) -> tuple[np.ndarray, np.ndarray]:
    """[K, K] the weights of a combination, and [K] those with which a receiver, or the relay, adds up what others send."""
    if topology.relay:
        return np.repeat(topology.perron[:, None], topology.num_agents, axis=1), topology.perron
    others = topology.matrix[:, receiver].copy()
    others[receiver] = 0.0
    return topology.matrix, others


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
    sums = _sums(views, section.receiver, topology)
    direction = leading_direction(data_parts(rebuilt, experiment), rebuilt.std)
    cosine = similarity(direction, problem.arrays["features"][section.agent, 0])
    return {
        "gradient": float(np.abs(rebuilt.gradients[0] - gradients).max() / np.abs(gradients).max()),
        "direction": 1.0 - float(cosine[0]),
        "sum": float(np.abs(sums[0] - truth.sums).max() / np.abs(truth.sums).max()),
    }


def _sums(views: Views, receiver: int, topology: Topology) -> np.ndarray:
    """[repeats, T, d] what a receiver, or the relay, adds up of the messages that were read."""
    if topology.relay:
        return np.asarray(np.einsum("k,rtkd->rtd", topology.perron, views.messages[0]))
    return weighted_sum_at_receiver(views.messages[0], views.layout.links[0], receiver=receiver, topology=topology)


def draw_exact(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write the errors of what is rebuilt, one panel per quantity; returns the files."""
    section = result.section
    assert isinstance(section, ExactSection)
    columns = {"gradient": "gradient", "direction": "record", "sum": "sum of what\na receiver gets"}
    errors = {
        place: {
            line: {columns[measure]: result.cells[measure][line][place].value for measure in columns}
            for line in section.series
        }
        for place in section.places()
    }
    picture = readable_picture(
        errors,
        exact_below={columns[measure]: TOLERATED[measure] for measure in columns},
        title="What can be read off the messages",
        subtitle="Rows without noise: epsilon is infinite",
    )
    figure = paint(picture)
    caption = (
        f"{document}. What an eavesdropper (or the server) rebuilds of agent {section.agent}'s gradients and record, "
        f"and agent {section.receiver} of the sum of its neighbours' messages, in double precision; "
        f"exact: with a relative error of at most {TOLERATED['gradient']:g}, of the direction of the record {TOLERATED['direction']:g}. Noise that cancels at receivers hides "
        f"gradients from readers of single links, and nothing of the sum."
    )
    return save(figure, folder, section.name, caption=caption)


KINDS = {"leak_exact": Kind(ExactSection, run_exact, draw_exact)}
