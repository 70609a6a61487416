"""Studies of a walking token on the complete graph (Cyffers & Bellet 2022, arXiv 2012.05326).

    kind = "walk"              epsilon against the number of agents n: what is published, what is proven, and local privacy
    kind = "walk_learning"     test error of a token that learns, with the noise that each account asks for at the same epsilon

walk. One contribution has the noise of the classical Gaussian mechanism for (epsilon, delta); the token makes `hops_per_agent` n hops. Theorem 3
holds at a delta of its own, delta_all = (N + T/n + 2) delta with d = delta' = delta, and all lines but two are evaluated there. Theorem 4
is stated at 2 delta. Advanced composition gives N local contributions at N delta + 2 delta, below delta_all. Two lines are proven: `proven, by
gaps` hides a contribution until the next visit of observer or agent and takes Renyi moments over the ways of the token; `proven, averaged over ways`
averages delta over them, by gaps or by whole blocks between two looks, whichever says less where both are computed.

walk_learning. Logistic regression on made records, features uniform on the unit sphere, P(y = 1) = 1 / (1 + exp(-`margin` x.w*)) with a unit
vector w*. No record's gradient is longer than 1, so L = 1, one agent's data move its gradient by at most 2, and the losses are 1/4-smooth whatever the
data. Every noise is in the gradient, and in each hop; an agent adds `contributions` gradients at most.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from sottovoce.accounting import calibrate, composition, documents, walk
from sottovoce.algorithms import random_walk
from sottovoce.experiments import Count, Delta, Positive, Seed, simulate
from sottovoce.noise import Gaussian, Noise, gradient, none
from sottovoce.observers import curious_agent, eavesdropper
from sottovoce.problems import ConvexSmooth, LogisticRegression, logistic_regression
from sottovoce.reports import save, scaling
from sottovoce.studies.cells import StudyFile, computed, empty_cells, mean_over_repeats
from sottovoce.studies.privacy_study import Kind, PrivacyStudyResult, PrivacyStudySection, points_of
from sottovoce.topologies import Topology, complete

COMPOSED, LOCAL = "local, advanced composition", "local, exact"
THEOREM_3, THEOREM_4, LEMMA_1 = "published, Theorem 3", "published, Theorem 4", "published, Lemma 1"
BY_GAPS, AVERAGED = "proven, by gaps", "proven, averaged over ways"
NOISE_FREE, LOCAL_NOISE, PUBLISHED_NOISE, PROVEN_NOISE = "noise-free", "local", "published", "proven"
MOST_HOPS = 100_000  # of a walk whose blocks are looked at: beyond, their law would be left out after a long search
SMOOTHNESS = 0.25  # of the logistic loss with features of norm 1, whatever the data
WHAT_IS_PROVEN = (
    "'proven': noises hide a contribution until the observer looks or the agent contributes again, or all that is contributed between two looks "
    "(validity amplified by iteration, convex smooth losses, steps of at most 2/beta; docs/guarantees.md, Walks), whatever the observer knows of the "
    "token's way"
)
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
        return math.ceil(
            documents.cyffers_visits(num_agents=3, rounds=3 * self.hops_per_agent, failure_probability=self.delta)
        )

    @property
    def whole_delta(self) -> float:
        """delta_all of Theorem 3."""
        visits = documents.cyffers_visits(num_agents=3, rounds=3 * self.hops_per_agent, failure_probability=self.delta)
        return (math.ceil(visits + self.hops_per_agent) + 2) * self.delta

    @property
    def composed_delta(self) -> float:
        """What advanced composition of the local contributions comes to."""
        return (self.composed_contributions + 2) * self.delta

    def lines(self) -> list[str]:
        """Local privacy, what the document states, and what is proven."""
        return [COMPOSED, LOCAL, THEOREM_3, THEOREM_4, LEMMA_1, BY_GAPS, AVERAGED]

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


def run_walk(section: WalkSection, file: StudyFile) -> PrivacyStudyResult:
    """Compute every account for every number of agents."""
    cells = empty_cells(section.measures, section.lines())
    for n, place in zip(section.agents, section.places(), strict=True):
        file.say(f"study {section.name}: {place} agents")
        for line, value in _epsilons(section, n).items():
            cells["epsilon"][line][place] = computed(value)
    return PrivacyStudyResult(section=section, cells=cells)


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
        THEOREM_3: documents.cyffers_complete_sum_epsilon(slack=delta, **shared).value,
        THEOREM_4: documents.cyffers_complete_gradient_epsilon(**shared).value,
        LEMMA_1: walk.epsilon(num_agents=n, lipschitz=0.5, **asked),
        BY_GAPS: walk.proven_epsilon(num_agents=n, sensitivity=1.0, rounds=hops, **asked),
        AVERAGED: averaged_over_ways(n, hops, **asked),
    }


def averaged_over_ways(
    num_agents: int, hops: int, *, contributions: walk.LikelyContributions, std: float, delta: float
) -> float:
    """A proven epsilon on the complete graph for a sensitivity of 1, delta averaged over the ways of the token."""
    gaps, N = walk.complete_gaps(num_agents, rounds=hops), contributions.most
    if hops <= MOST_HOPS:
        passages = walk.complete_passages(num_agents, rounds=hops)
        found = walk.paths_tradeoff(passages, gaps, contributions=N, noise_multiplier=std)
    else:
        by_gaps = walk.WalkTradeoff(gaps=gaps, contributions=N, noise_multiplier=std)
        found = walk.PathsTradeoff(laws=(walk.gap_cost_law(gaps, N),), gaps=by_gaps, clear_cost=float(N))
    # A walk that visits the agent more often is as rare as was asked for, in either world.
    return found.epsilon(delta - contributions.failure_probability)


def run_walk_learning(section: WalkLearningSection, file: StudyFile) -> PrivacyStudyResult:
    """Let the token learn with the noise of every account."""
    file.say(f"study {section.name}: noise for {', '.join(section.places())}")
    topology = complete(section.agents).with_walk()
    stds = {place: stds_for(section, topology, float(place)) for place in section.places()}
    noises: dict[float, Noise] = {0.0: none()}
    noises |= {std: gradient(Gaussian(std=std)) for row in stds.values() for std in row.values() if std > 0}
    problem, test = made_records(section)
    file.say(f"study {section.name}: {len(noises)} noises together, {section.hops} hops, {section.repeats} repeats")
    runs = simulate(
        problem, topology, {"walk": _algorithm(section)}, noises, rounds=section.hops, repeats=section.repeats, seed=section.seed,
        record=("accuracy",), test=test, progress=False,
    )  # fmt: skip
    cells = empty_cells(section.measures, section.lines())
    for place, row in stds.items():
        for line, std in row.items():
            wrong = 1.0 - runs["walk", std].metrics["accuracy"][:, -section.tail :].astype(float).mean(axis=1)
            cells["test_error"][line][place] = mean_over_repeats(wrong)
            cells["std"][line][place] = computed(std)
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


def draw_walk(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write epsilon against the number of agents; returns the files."""
    section = result.section
    assert isinstance(section, WalkSection)
    # Six lines can be told apart; what gaps say by Renyi moments is in the table.
    series = {line: points for line, points in points_of(result, "epsilon").items() if line != BY_GAPS}
    figure = scaling(
        series,
        x_label=section.axis,
        y_label=section.measures["epsilon"],
        title="What a walking token gives away to one agent",
    )
    caption = (
        f"{document}. Observer: one curious agent, and for the local lines whoever reads every hop. {section.hops_per_agent} hops for every agent; a "
        f"contribution alone has ({section.epsilon:g}, {section.delta:g})-differential privacy by the classical Gaussian mechanism. delta of the "
        f"whole walk is {section.whole_delta:.3g}, that of Theorem 3, but {2 * section.delta:.3g} for Theorem 4 and {section.composed_delta:.3g} for "
        f"advanced composition. 'published' lines are printed bounds, not relied on; {WHAT_IS_PROVEN}."
    )
    return save(figure, folder, section.name, caption=caption)


def draw_walk_learning(result: PrivacyStudyResult, folder: str | Path, document: str) -> list[Path]:
    """Write test error and noise against epsilon; returns the files."""
    section = result.section
    assert isinstance(section, WalkLearningSection)
    paths: list[Path] = []
    told = (
        f"{document}. {section.agents:,} agents with {section.samples} made records each, {section.hops:,} hops on the complete graph, step "
        f"{section.step_size:g}, at most {section.contributions} contributions of an agent, delta = {section.delta:g}, all data of an agent "
        f"protected. Observer: 'local' holds towards whoever reads every hop, the others towards one curious agent. 'published' is Lemma 1 of "
        f"the document, as printed; {WHAT_IS_PROVEN}. "
    )
    ends = {
        "test_error": f"Mean over the last {section.tail:,} hops and {section.repeats} repeats; bars of one standard error over repeats.",
        "std": "The noise that each account asks for.",
    }
    titles = {
        "test_error": "Wrong answers of a model learnt by a walking token",
        "std": "Noise that a walking token needs",
    }
    for measure, end in ends.items():
        series = points_of(result, measure)
        if measure == "std":
            series = {line: points for line, points in series.items() if min(points[1]) > 0}
        figure = scaling(
            series, x_label=section.axis, y_label=section.measures[measure] + (", in percent" if measure == "test_error" else ""),
            percent=measure == "test_error", title=titles[measure],
        )  # fmt: skip
        paths += save(figure, folder, f"{section.name}-{measure}".replace("_", "-"), caption=told + end)
    return paths


KINDS = {
    "walk": Kind(WalkSection, run_walk, draw_walk),
    "walk_learning": Kind(WalkLearningSection, run_walk_learning, draw_walk_learning),
}
