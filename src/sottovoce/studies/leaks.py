"""What studies of leakage have in common: their keys of a file, and the experiment of a cell with the noise for its epsilon.

Noise is calibrated to epsilon for the very observer who attacks. `sized_as` gives a scheme that has no guarantee the size that another one needs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from sottovoce.errors import ConfigError
from sottovoce.experiments import Experiment, ObserverName, Section, size
from sottovoce.noise import none
from sottovoce.studies.cells import CONFIG, changed
from sottovoce.studies.privacy_study import PrivacyStudySection

NO_NOISE = "no noise"
ALL_OF_IT = "the record itself"
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


class Cut(NamedTuple):
    """One place in a file: the study, the configuration that it varies, the sections changed there, and what messages call the place."""

    section: LeakSection
    base: Mapping[str, Any]
    changes: Sequence[Mapping[str, Any]]
    where: str

    def experiment(self, *more: Mapping[str, Any]) -> Experiment:
        """What stands there, with further sections changed."""
        sections = ({CONFIG: change} for change in (*self.changes, *more))
        return changed(self.base, self.section.set, *sections, source=self.where)


def with_noise(cut: Cut, leak: Leak, place: str) -> Experiment:
    """The experiment with the noise for this epsilon, of the observer who looks."""
    watched = {"privacy": {"observers": [leak.observer]}}
    if place == NO_NOISE:
        return replace(cut.experiment(watched, {"noise": {**leak.noise, "std": 1.0}}), noise=none())
    wanted = {**(leak.noise if leak.sized_as is None else leak.sized_as), "epsilon": float(place)}
    experiment = cut.experiment(watched, {"noise": wanted})
    if leak.sized_as is None:
        return experiment
    assert experiment.noise.law is not None  # what is calibrated has a law
    return cut.experiment(watched, {"noise": {**leak.noise, "std": size(experiment.noise.law)}})


def described(section: LeakSection, base: Mapping[str, Any], source: str) -> dict[str, Any]:
    """What a caption says of the experiment."""
    experiment = Cut(section, base, (), source).experiment({"noise": {"kind": "none"}})
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


def require_one_record(experiment: Experiment, agent: int, where: str) -> None:
    """Refuse an agent whose gradients are those of several records."""
    sizes = experiment.problem.sizes
    if agent >= len(sizes) or sizes[agent] != 1:
        held = "there is no such agent" if agent >= len(sizes) else f"it has {sizes[agent]} records"
        raise ConfigError(f"{where}: agent {agent} must have one record; {held}. Use as many records as agents.")
