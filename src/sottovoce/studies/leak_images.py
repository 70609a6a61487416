"""A study of images in gradients: digits rebuilt from the first gradient of a classifier, against epsilon.

    kind = "leak_images"

Agents take gradients of one record. The first layer of a classifier gives its input away without any search: with G = x delta' the gradient of its
weights and delta that of its biases, x = G delta / (delta'delta) (attacks/gradient_matching). Gradients are rebuilt from the messages that an
observer reads (attacks/gradient_recovery), under noise that is calibrated to epsilon for that observer; only the first round is used.

Which record was drawn is seen in the run without noise, where the rebuilt features are compared with all records of the agent; the true image is the
agent's own record. The score is the correlation of pixels: 1 for the image itself, about 0 for one that has nothing to do with it.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sottovoce.attacks import dense_input, gradients_from_views
from sottovoce.errors import ConfigError
from sottovoce.experiments import Count, Experiment, ObserverName, Positive, Seed
from sottovoce.noise import none
from sottovoce.observers import observer_named
from sottovoce.reports import pictures, reconstructions, save
from sottovoce.simulation.views import observe
from sottovoce.studies.cells import StudyFile, computed, empty_cells, mean_over_repeats
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
    with_noise,
)
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult

MEAN = "mean over images"
_SAME = 1e-6  # largest difference of a rebuilt feature from the record's own


class ImagesSection(LeakSection):
    """Images against epsilon."""

    axis: ClassVar[str] = "epsilon"
    measures: ClassVar[Mapping[str, str]] = {"correlation": "correlation of the rebuilt image with the true one"}

    kind: Literal["leak_images"]
    observer: ObserverName
    agents: list[Agent] = Field(min_length=1)  # whose images
    noise: dict[str, Any]  # without its size
    epsilons: list[Positive] = Field(min_length=2)
    shape: Annotated[list[Count], Field(min_length=2, max_length=2)]
    pixels: Annotated[list[float], Field(min_length=2, max_length=2)]  # the features of an empty and of a full pixel
    repeats: Several
    seed: Seed

    def lines(self) -> list[str]:
        """Every image, their mean, and the record itself."""
        return [*(f"agent {agent}" for agent in self.agents), MEAN, ALL_OF_IT]

    def places(self) -> list[str]:
        """No noise, then falling epsilon."""
        return [NO_NOISE, *(f"{epsilon:g}" for epsilon in self.epsilons)]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        require_falling(self.epsilons)
        if len(set(self.agents)) < len(self.agents):
            raise ValueError(f"agents {self.agents} names one of them twice; keep one")
        if self.pixels[0] == self.pixels[1]:
            raise ValueError(f"pixels {self.pixels} are one number; an empty and a full pixel must differ")
        return self


def run_images(section: ImagesSection, file: StudyFile) -> PrivacyStudyResult:
    """Rebuild an image of each agent from its first gradient, under the noise for every epsilon."""
    lines, where = section.lines(), f"{file.source}, study {section.name!r}"
    cells = empty_cells(section.measures, lines)
    leak = Leak(observer=section.observer, rebuilds="gradient", noise=section.noise)
    shown: dict[str, np.ndarray] = {}
    scores: dict[str, np.ndarray] = {}
    noiseless = with_noise(Cut(section, file.base, (), where), leak, NO_NOISE)
    true_images = _pixels(_drawn_records(noiseless, section, where), section)
    for place in section.places():
        file.say(f"study {section.name}: epsilon {place}")
        experiment = with_noise(Cut(section, file.base, (), where), leak, place)
        images = _pixels(_rebuilt(experiment, section), section)
        found = _correlations(images, true_images)  # [agents, repeats]
        for line, row in zip(lines, found, strict=False):
            cells["correlation"][line][place] = mean_over_repeats(row)
        cells["correlation"][MEAN][place] = mean_over_repeats(found.mean(axis=0))
        cells["correlation"][ALL_OF_IT][place] = computed(1.0)
        shown[place], scores[place] = images[:, 0], found[:, 0]
    pictures = {"originals": true_images[:, 0], "rebuilt": shown, "scores": scores} | described(
        section, file.base, file.source
    )
    return PrivacyStudyResult(section=section, cells=cells, pictures=pictures)


def _rebuilt(experiment: Experiment, section: ImagesSection) -> np.ndarray:
    """[agents, repeats, pixels] what the observer rebuilds of each agent's record in the first round."""
    views = observe(
        experiment.problem, experiment.topology, experiment.algorithm, experiment.noise, observer_named(section.observer),
        rounds=experiment.rounds, repeats=section.repeats, seed=section.seed, batch_size=experiment.batch_size,
    )  # fmt: skip
    problem: Any = experiment.problem
    rows = []
    for agent in section.agents:
        found = gradients_from_views(
            views, agent=agent, topology=experiment.topology, algorithm=experiment.algorithm, noise=experiment.noise,
            start=problem.initial_model,
        )  # fmt: skip
        rows.append([dense_input(g, problem.initial_model, problem).ravel() for g in found.gradients[:, 0]])
    return np.array(rows)


def _drawn_records(experiment: Experiment, section: ImagesSection, where: str) -> np.ndarray:
    """[agents, repeats, pixels] the records of which the first gradients were taken.

    Raises:
        ConfigError: gradients of several records, or of records that are not the agent's.
    """
    problem = experiment.problem
    rebuilt = _rebuilt(replace(experiment, noise=none()), section)
    found = np.empty_like(rebuilt)
    for position, agent in enumerate(section.agents):
        records = problem.arrays["features"][agent, : problem.sizes[agent]].reshape(int(problem.sizes[agent]), -1)
        off = np.abs(rebuilt[position][:, None] - records).max(axis=2)  # [repeats, records]
        if (off.min(axis=1) > _SAME).any():
            raise ConfigError(
                f"{where}: without noise the features behind a gradient of agent {agent} are {off.min(axis=1).max():.3g} away from "
                f"each of its records. Use gradients of one record: [algorithm] batch_size = 1."
            )
        found[position] = records[off.argmin(axis=1)]
    return found


def _pixels(features: np.ndarray, section: ImagesSection) -> np.ndarray:
    """[..., height, width] features as pixels in [0, 1]; the range is public, so that the observer cuts off what lies outside."""
    low, high = section.pixels
    shaped = features.reshape(*features.shape[:-1], *section.shape)
    return np.asarray(np.clip((shaped - low) / (high - low), 0.0, 1.0))


def _correlations(images: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """[agents, repeats]; an image of one colour has none, which counts as 0."""
    x, y = (part - part.mean(axis=(-2, -1), keepdims=True) for part in (images, truths))
    lengths = np.sqrt((x**2).sum(axis=(-2, -1)) * (y**2).sum(axis=(-2, -1)))
    products = (x * y).sum(axis=(-2, -1))
    return np.asarray(np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0))


def draw_images(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write the images of a study; returns the files."""
    section, given = result.section, result.pictures
    assert isinstance(section, ImagesSection)
    headings = {place: place if place == NO_NOISE else f"epsilon\n{float(place):,.0f}" for place in section.places()}
    figure = reconstructions(
        given["originals"],
        {headings[place]: images for place, images in given["rebuilt"].items()},
        scores={headings[place]: values for place, values in given["scores"].items()},
        score_label="likeness to the original (correlation), in percent",
        percent=True,
        title=f"What {pictures.words.observer(str(observer_named(section.observer)))} rebuilds of the images",
    )
    caption = (
        f"{document}. One image of each of {len(section.agents)} agents, rebuilt from the first gradient that it took, "
        f"as far as the messages show it. Observer: {section.observer.replace('_', ' ')}; {given['about']}. Noise in "
        f"every column is calibrated for this observer, epsilon of an agent at delta = {given['delta']:g}. An image "
        f"that cannot be recognised is no proof of privacy: an epsilon of some hundreds hides it from this attack, but "
        f"promises next to nothing."
    )
    return save(figure, folder, section.name, caption=caption)


KINDS = {"leak_images": Kind(ImagesSection, run_images, draw_images)}
