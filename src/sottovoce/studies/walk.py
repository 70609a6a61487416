"""Studies of a walking token on the complete graph (Cyffers & Bellet 2022, arXiv 2012.05326).

    kind = "walk"              epsilon against the number of agents n: what is published, what is proven, and local privacy
    kind = "walk_learning"     test error of a token that learns, with the noise that each account asks for at the same epsilon

walk. One contribution has the noise of the classical Gaussian mechanism for (epsilon, delta); the token makes `hops_per_agent` n hops. Theorem 3
holds at a delta of its own, delta_all = (N + T/n + 2) delta with d = delta' = delta, and all lines but two are evaluated there. Theorem 4
is stated at 2 delta. Advanced composition gives N local contributions at N delta + 2 delta, below delta_all.

walk_learning. Logistic regression on made records, features uniform on the unit sphere, P(y = 1) = 1 / (1 + exp(-`margin` x.w*)) with a unit
vector w*. No record's gradient is longer than 1, so L = 1, one agent's data move its gradient by at most 2, and the losses are 1/4-smooth whatever the
data. Every noise is in the gradient, and in each hop; an agent adds `contributions` gradients at most.
"""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from sottovoce.accounting import composition, walk
from sottovoce.accounting.calibration import calibrate
from sottovoce.accounting.documents import (
    cyffers_complete_gradient_epsilon,
    cyffers_complete_sum_epsilon,
    cyffers_visits,
)
from sottovoce.algorithms import random_walk
from sottovoce.experiments.config.values import Count, Delta, Positive, Seed
from sottovoce.noise import Gaussian, Noise, gradient, none
from sottovoce.observers import curious_agent, eavesdropper
from sottovoce.problems import ConvexSmooth, LogisticRegression, logistic_regression
from sottovoce.simulation import Run, simulate
from sottovoce.studies.curves import Cell, Cells
from sottovoce.studies.privacy_study import PrivacyStudyResult, PrivacyStudySection
from sottovoce.topologies import Topology, complete

COMPOSED, LOCAL = "local, advanced composition", "local, exact"
THEOREM_3, THEOREM_4, LEMMA_1 = "published, Theorem 3", "published, Theorem 4", "published, Lemma 1"
PROVEN = "proven"
NOISE_FREE, LOCAL_NOISE, PUBLISHED_NOISE, PROVEN_NOISE = "noise-free", "local", "published", "proven"
SMOOTHNESS = 0.25  # of the logistic loss with features of norm 1, whatever the data

Say = Callable[[str], None]
Fewest = Annotated[int, Field(ge=3)]


class WalkSection(PrivacyStudySection):
    """Epsilon against the number of agents."""

    axis: ClassVar[str] = "number of agents n"
    measures: ClassVar[Mapping[str, str]] = {"epsilon": "epsilon of the whole walk"}

    kind: Literal["walk"]
    agents: list[Fewest] = Field(min_length=2)
    hops_per_agent: Count  # T / n
    epsilon: Annotated[float, Field(gt=0, lt=1)]  # of one contribution
    delta: Annotated[float, Field(gt=0, lt=0.5)]  # of one contribution

    @property
    def composed_contributions(self) -> int:
        """N as printed, rounded up; it depends on T / n only."""
        return math.ceil(cyffers_visits(num_agents=3, rounds=3 * self.hops_per_agent, failure_probability=self.delta))

    @property
    def whole_delta(self) -> float:
        """delta_all of Theorem 3."""
        visits = cyffers_visits(num_agents=3, rounds=3 * self.hops_per_agent, failure_probability=self.delta)
        return (math.ceil(visits + self.hops_per_agent) + 2) * self.delta

    @property
    def composed_delta(self) -> float:
        """What advanced composition of the local contributions comes to."""
        return (self.composed_contributions + 2) * self.delta

    def lines(self) -> list[str]:
        """Local privacy, what the document states, and what is proven."""
        return [COMPOSED, LOCAL, THEOREM_3, THEOREM_4, LEMMA_1, PROVEN]

    def places(self) -> list[str]:
        """The numbers of agents."""
        return [str(n) for n in self.agents]


class WalkLearningSection(PrivacyStudySection):
    """Test error of the token at the noise of every account."""

    axis: ClassVar[str] = "epsilon of the whole walk"
    measures: ClassVar[Mapping[str, str]] = {
        "test_error": "share of wrong answers on test records",
        "std": "standard deviation of the noise in a gradient",
    }

    kind: Literal["walk_learning"]
    agents: Fewest
    samples: Count  # records of one agent
    test_records: Count
    dimension: Count
    margin: Positive
    step_size: Annotated[float, Field(gt=0, le=2 / SMOOTHNESS)]
    hops: Count
    contributions: Count
    epsilons: list[Positive] = Field(min_length=1)
    delta: Delta
    tail: Count  # average over so many hops at the end
    repeats: Annotated[int, Field(ge=2)]
    seed: Seed

    def lines(self) -> list[str]:
        """Whose noise is used."""
        return [LOCAL_NOISE, PUBLISHED_NOISE, PROVEN_NOISE, NOISE_FREE]

    def places(self) -> list[str]:
        """The epsilons."""
        return [f"{epsilon:g}" for epsilon in self.epsilons]


def run_walk(section: WalkSection, base: Mapping[str, Any], *, source: str, progress: Say) -> PrivacyStudyResult:
    """Compute every account for every number of agents."""
    table: dict[str, dict[str, Cell]] = {line: {} for line in section.lines()}
    for n, place in zip(section.agents, section.places(), strict=True):
        progress(f"study {section.name}: {place} agents")
        for line, value in _epsilons(section, n).items():
            table[line][place] = Cell(value=value, error=0.0)
    return PrivacyStudyResult(section=section, cells={"epsilon": table})


def _epsilons(section: WalkSection, n: int) -> dict[str, float]:
    """{line: epsilon} of one number of agents."""
    epsilon, delta, hops = section.epsilon, section.delta, section.hops_per_agent * n
    shared: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "num_agents": n,
        "rounds": hops,
        "failure_probability": delta,
    }
    std = math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon  # for a change of 1, hence L = 1/2
    asked: dict[str, Any] = {
        "contributions": walk.likely_contributions(num_agents=n, rounds=hops, failure_probability=delta),
        "std": std,
        "delta": section.whole_delta,
    }
    return {
        COMPOSED: composition.advanced(epsilon, delta, section.composed_contributions, delta)[0],
        LOCAL: walk.local_epsilon(sensitivity=1.0, **asked),
        THEOREM_3: cyffers_complete_sum_epsilon(slack=delta, **shared).value,
        THEOREM_4: cyffers_complete_gradient_epsilon(**shared).value,
        LEMMA_1: walk.epsilon(num_agents=n, lipschitz=0.5, **asked),
        PROVEN: walk.proven_epsilon(num_agents=n, sensitivity=1.0, rounds=hops, **asked),
    }


def run_walk_learning(
    section: WalkLearningSection, base: Mapping[str, Any], *, source: str, progress: Say
) -> PrivacyStudyResult:
    """Let the token learn with the noise of every account."""
    progress(f"study {section.name}: noise for {', '.join(section.places())}")
    topology = complete(section.agents).with_walk()
    stds = {place: stds_for(section, topology, float(place)) for place in section.places()}
    noises: dict[float, Noise] = {0.0: none()}
    noises |= {std: gradient(Gaussian(std=std)) for row in stds.values() for std in row.values() if std > 0}
    problem, test = made_records(section)
    progress(f"study {section.name}: {len(noises)} noises together, {section.hops} hops, {section.repeats} repeats")
    runs = simulate(
        problem, topology, {"walk": _algorithm(section)}, noises, rounds=section.hops, repeats=section.repeats, seed=section.seed,
        record=("accuracy",), test=test, progress=False, repeats_together=1,  # one repeat at a time is the fastest for so many agents
    )  # fmt: skip
    cells: Cells = {measure: {line: {} for line in section.lines()} for measure in section.measures}
    for place, row in stds.items():
        for line, std in row.items():
            cells["test_error"][line][place] = _error(runs["walk", std], section.tail)
            cells["std"][line][place] = Cell(value=std, error=0.0)
    return PrivacyStudyResult(section=section, cells=cells)


def stds_for(section: WalkLearningSection, topology: Topology, epsilon: float) -> dict[str, float]:
    """{line: std of the noise in a gradient} with which every account states this epsilon; 0 is no noise."""

    def calibrated(observer: Any, losses: ConvexSmooth | None) -> float:
        found = calibrate(
            topology, _algorithm(section), gradient(Gaussian(std=1.0)), observer, rounds=section.hops, sensitivity=2.0, epsilon=epsilon,
            delta=section.delta, losses=losses, agent=1,
        )  # fmt: skip
        assert isinstance(found.law, Gaussian)
        return found.law.std

    published = walk.published_std_for(
        epsilon=epsilon,
        num_agents=section.agents,
        contributions=section.contributions,
        lipschitz=1.0,
        delta=section.delta,
    )
    return {
        LOCAL_NOISE: calibrated(eavesdropper(), None),
        PUBLISHED_NOISE: published,
        PROVEN_NOISE: calibrated(curious_agent(0), ConvexSmooth(beta=SMOOTHNESS)),
        NOISE_FREE: 0.0,
    }


def made_records(section: WalkLearningSection) -> tuple[LogisticRegression, tuple[np.ndarray, np.ndarray]]:
    """The problem, its record gradients clipped to 1 (which cuts none), and test records (features [n, d], labels [n])."""
    generator = np.random.default_rng(section.seed)
    count, d = section.agents * section.samples, section.dimension
    features = generator.standard_normal((count + section.test_records, d))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    hidden = generator.standard_normal(d)
    logits = section.margin * (features @ hidden) / np.linalg.norm(hidden)
    labels = np.where(generator.random(len(logits)) < 1.0 / (1.0 + np.exp(-logits)), 1.0, -1.0)
    shape = (section.agents, section.samples)
    problem = logistic_regression(features[:count].reshape(*shape, d), labels[:count].reshape(shape), ridge=0.0)
    return problem.with_clipping(1.0, "l2"), (features[count:], labels[count:])


def _algorithm(section: WalkLearningSection) -> Any:
    return random_walk(step_size=section.step_size, contributions=section.contributions)


def _error(run: Run, tail: int) -> Cell:
    """The mean over the last hops; its standard error is that over repeats."""
    errors = 1.0 - run.metrics["accuracy"][:, -tail:].astype(float).mean(axis=1)
    return Cell(value=float(errors.mean()), error=float(errors.std(ddof=1)) / math.sqrt(len(errors)))
