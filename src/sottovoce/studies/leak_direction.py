"""A study of what messages give away about one record under noise (Vlaski & Sayed, chapter "Privacy", eq. 11.1-11.7).

    kind = "leak_direction"     |cos| between the true and the rebuilt feature vector against epsilon, by scheme and observer

What is rebuilt:

    gradient    g_i of agent p, from two models one step apart (attacks/gradient_recovery)
    average     sum_l q_l g_l, for whoever reads only what a relay sends out
    sum         sum_l a_lk psi_l of a receiver k in the first round of ATC, hence sum_l a_lk g_l

and from it the feature vector (rebuilt_records). The mean |cos| of the first gradient alone is known exactly for Gaussian noise
(attacks/feature_recovery), and stands beside the measured one.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sottovoce.algorithms import step_at
from sottovoce.attacks import (
    gradients_from_views,
    recover_average_gradient,
    similarity_distribution,
    weighted_sum_at_receiver,
)
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.experiments import Experiment, Positive, Seed
from sottovoce.noise import Gaussian
from sottovoce.observers import Observer, observer_named
from sottovoce.reports import save, similarity_curves
from sottovoce.simulation.views import observe
from sottovoce.studies.cells import Cell, StudyFile, computed, empty_cells, mean_over_repeats
from sottovoce.studies.leaks import (
    ALL_OF_IT,
    NO_NOISE,
    Agent,
    Cut,
    Leak,
    LeakSection,
    Several,
    described,
    require_falling,
    require_one_record,
    with_noise,
)
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult
from sottovoce.studies.rebuilt_records import Rebuilt, data_parts, leading_direction, require_constant_sizes, similarity


class DirectionSection(LeakSection):
    """Similarity against epsilon."""

    axis: ClassVar[str] = "epsilon"
    measures: ClassVar[Mapping[str, str]] = {
        "similarity": "|cos| between rebuilt and true feature vector, all rounds",
        "first": "the same from the first round alone",
    }

    kind: Literal["leak_direction"]
    agent: Agent
    series: dict[str, Leak] = Field(min_length=1)
    epsilons: list[Positive] = Field(min_length=2)
    repeats: Several
    seed: Seed

    def lines(self) -> list[str]:
        """Schemes and observers, and the record itself."""
        return [*self.series, ALL_OF_IT]

    def places(self) -> list[str]:
        """No noise, then falling epsilon."""
        return [NO_NOISE, *(f"{epsilon:g}" for epsilon in self.epsilons)]

    @model_validator(mode="after")
    def _falls(self) -> Self:
        require_falling(self.epsilons)
        return self


def run_direction(section: DirectionSection, file: StudyFile) -> PrivacyStudyResult:
    """Rebuild one agent's feature vector under the noise for every epsilon."""
    cells = empty_cells(section.measures, section.lines())
    for line, leak in section.series.items():
        where = f"{file.source}, study {section.name!r}, {line}"
        for place in section.places():
            file.say(f"study {section.name}: {line}, epsilon {place}")
            experiment = with_noise(Cut(section, file.base, (leak.config,), where), leak, place)
            require_one_record(experiment, section.agent, where)
            found = rebuild(experiment, observer_named(leak.observer), leak.rebuilds, section)
            rows = data_parts(found, experiment)
            truth = experiment.problem.arrays["features"][section.agent, 0]
            exact = (
                _first_theory(experiment, section.agent, float(found.std[0])) if leak.rebuilds == "gradient" else None
            )
            cells["similarity"][line][place] = mean_over_repeats(similarity(leading_direction(rows, found.std), truth))
            cells["first"][line][place] = mean_over_repeats(similarity(rows[:, 0], truth), exact)
    for table in cells.values():
        table[ALL_OF_IT] = {place: computed(1.0) for place in section.places()}
    return PrivacyStudyResult(section=section, cells=cells, pictures=described(section, file.base, file.source))


def rebuild(experiment: Experiment, observer: Observer, what: str, section: DirectionSection) -> Rebuilt:
    """What an observer makes of its view.

    Args:
        experiment: what is run.
        observer: who looks.
        what: "gradient" of the study's agent, "average" of all gradients, or "sum" of what a receiver is sent.
        section: the study, with its repeats and seed.

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


def draw_directions(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write the similarity of all rounds, and of the first round with exact theory; returns the files."""
    section, given = result.section, result.pictures
    assert isinstance(section, DirectionSection)
    told = (
        f"{document}. |cos| of the angle between the feature vector of agent {section.agent} and what is rebuilt of "
        f"it, mean over {section.repeats:,} runs with bars of two standard errors; {given['about']}. Noise is "
        f"calibrated to epsilon (of an agent, at delta = {given['delta']:g}) for the very observer who looks. "
    )
    told += _unsized(section)
    told += "A reader of averages and a neighbour see a sum over several agents, which is like each of them in part. "
    paths: list[Path] = []
    asked = "How much of a record can be rebuilt from "
    for measure, title in {"similarity": f"{asked}all rounds", "first": f"{asked}the first round"}.items():
        table = {line: list(row.values()) for line, row in result.cells[measure].items() if line != ALL_OF_IT}
        exact = {line: theory for line, cells in table.items() if (theory := _exact_means(cells))}
        figure = similarity_curves(
            [math.inf if place == NO_NOISE else float(place) for place in section.places()],
            {line: ([cell.value for cell in cells], [cell.error for cell in cells]) for line, cells in table.items()},
            chance=chance_of(given["dimension"]),
            theory=exact or None,
            x_label=f"epsilon at delta = {given['delta']:g}",
            y_label="likeness to the true record, in percent",
            title=title,
        )
        paths += save(figure, folder, f"{section.name}-{measure}", caption=told)
    return paths


def _exact_means(cells: list[Cell]) -> list[float]:
    """What theory says at every place; nothing where it is silent at one."""
    known = [cell.theory for cell in cells if cell.theory is not None]
    return known if len(known) == len(cells) else []


def chance_of(dimension: int) -> float:
    """The mean |cos| of the angle between a vector and one drawn uniformly on the sphere."""
    return math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)


def _unsized(section: DirectionSection) -> str:
    """The sentence about a line whose noise has no guarantee, and takes its size from another scheme."""
    for line, leak in section.series.items():
        if leak.sized_as is not None:
            scheme = str(leak.sized_as.get("kind", "")).replace("_", " ")
            return f"No epsilon holds for '{line}': its noise has the size that {scheme} noise needs. "
    return ""


KINDS = {"leak_direction": Kind(DirectionSection, run_direction, draw_directions)}
