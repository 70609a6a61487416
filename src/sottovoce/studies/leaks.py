"""What studies of leakage have in common: their sections of a file, and the experiment of a cell with the noise for its epsilon.

Noise is calibrated to epsilon for the very observer who attacks. `sized_as` gives a scheme that has no guarantee the size that another one needs.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sottovoce.experiments.build import Experiment, build
from sottovoce.experiments.config.privacy import ObserverName
from sottovoce.experiments.config.toml_file import parse
from sottovoce.experiments.config.values import Positive, Section, Seed
from sottovoce.experiments.privacy import size
from sottovoce.noise import none
from sottovoce.studies.curves import CONFIG, Cell, replace_key
from sottovoce.studies.privacy_study import PrivacyStudySection

NO_NOISE = "no noise"
ALL_OF_IT = "the record itself"
ALLOWED = "allowed"

Say = Callable[[str], None]
Agent = Annotated[int, Field(ge=0)]
Several = Annotated[int, Field(ge=2)]


class LeakSection(PrivacyStudySection):
    """What all studies of leakage have."""

    set: dict[str, Any] = Field(default_factory=dict)  # keys replaced in every cell


class Leak(Section):
    """One line: who looks at which noise, and what it rebuilds."""

    observer: ObserverName
    rebuilds: Literal["gradient", "average", "sum"]
    noise: dict[str, Any]  # without its size
    sized_as: dict[str, Any] | None = None  # the scheme that decides the size instead
    config: dict[str, dict[str, Any]] = Field(default_factory=dict)  # further sections to change

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.noise.get("per_edge"):
            raise ValueError("errors of gradients are put together for one source per agent; remove per_edge")
        return self


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


def built(section: LeakSection, base: Mapping[str, Any], changes: list[dict[str, Any]], where: str) -> Experiment:
    """The experiment of the base with the keys of the study replaced, and then these sections."""
    data = copy.deepcopy(dict(base))
    for key, value in section.set.items():
        replace_key(data, key, value)
    for change in changes:
        replace_key(data, CONFIG, change)
    return build(parse(data, source=where))


def with_noise(
    section: LeakSection, base: Mapping[str, Any], changes: list[dict[str, Any]], leak: Leak, place: str, where: str
) -> Experiment:
    """The experiment with the noise for this epsilon, of the observer who looks."""
    watched = {"privacy": {"observers": [leak.observer]}}
    if place == NO_NOISE:
        unsized = {**leak.noise, "std": 1.0}
        return replace(built(section, base, [*changes, watched, {"noise": unsized}], where), noise=none())
    wanted = {**(leak.noise if leak.sized_as is None else leak.sized_as), "epsilon": float(place)}
    experiment = built(section, base, [*changes, watched, {"noise": wanted}], where)
    if leak.sized_as is None:
        return experiment
    assert experiment.noise.law is not None  # what is calibrated has a law
    return built(
        section, base, [*changes, watched, {"noise": {**leak.noise, "std": size(experiment.noise.law)}}], where
    )


def described(section: LeakSection, base: Mapping[str, Any], source: str) -> dict[str, Any]:
    """What a caption says of the experiment."""
    experiment = built(section, base, [{"noise": {"kind": "none"}}], source)
    delta = None if experiment.privacy is None else experiment.privacy.delta
    return {
        "about": f"{experiment.topology.num_agents} agents whose gradients are of one record each, "
        f"{experiment.problem.dimension} parameters, {experiment.rounds} round{'s' if experiment.rounds > 1 else ''}",
        "delta": delta,
        "dimension": experiment.problem.dimension,
    }


def require_falling(epsilons: list[float]) -> None:
    """Refuse epsilons that do not fall: claims compare the last place with the first."""
    if any(later >= sooner for sooner, later in pairwise(epsilons)):
        raise ValueError(f"epsilons {epsilons} must fall, so that every place has more noise than the one before")


def mean_over_repeats(values: np.ndarray, theory: float | None = None) -> Cell:
    """The mean over repeats; its standard error is that over repeats."""
    return Cell(value=float(values.mean()), error=float(values.std(ddof=1)) / len(values) ** 0.5, theory=theory)
