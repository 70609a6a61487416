"""FedAvg whose averages are masked in pairs."""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.deployment.gopa import FixedPoint, RoundedGaussian, UniformMasks, play_round, simulated_sources
from sottovoce.deployment.integers import signed

GOPA = sv.algorithms.Gopa(partners=3)
CLIP = sv.clipping.Clip(1.0, "l2")
OWN = sv.noise.independent(sv.noise.Gaussian(std=0.5))


def masked(aggregation: sv.algorithms.Gopa | None = GOPA, **others):
    return sv.algorithms.fedavg(step_size=0.2, local_steps=2, update_clip=CLIP, aggregation=aggregation, **others)


def problem(num_agents: int, *, seed: int = 0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(num_agents, 6, 3))
    return sv.problems.linear_regression(features, features @ np.ones(3) + rng.normal(size=(num_agents, 6)), ridge=0.0)


def test_masks_do_not_change_the_average():
    data, network = problem(8), sv.topologies.federation(8)
    runs = sv.simulate(
        data, network, {"open": masked(None), "masked": masked()}, OWN, rounds=6, repeats=2, seed=3, progress=False
    )
    assert np.array_equal(runs["open", "independent"].models, runs["masked", "independent"].models)


def test_a_learner_that_plays_the_integer_protocol_follows_the_simulated_one():
    """Every round: parties clip and encode with the algorithm's own functions, publish masked integers, and the sum moves the model."""
    n, rounds, bits = 8, 5, 30
    data, network, algorithm = problem(n), sv.topologies.federation(n), masked()
    expected = sv.simulate(data, network, algorithm, sv.noise.none(), rounds=rounds, dtype="float64", progress=False)
    encoding, nearly_none = FixedPoint(clip=1.0, fraction_bits=bits), RoundedGaussian(std=2.0**-10)
    w = np.zeros(3)
    for round_ in range(1, rounds + 1):
        units = []
        for agent in range(n):
            own = {name: values[agent] for name, values in data.arrays.items()}
            sent = algorithm.exchanges[0].message(
                w, lambda v, step=0, own=own: np.asarray(data.gradient(v, own)), round_
            )
            units.append(encoding.encode(np.asarray(sent) - w))
        sources = simulated_sources(
            round_, num_parties=n, dimension=3, out_degree=3, own_noise=nearly_none, masks=UniformMasks()
        )
        total = signed(play_round(np.array(units), sources).total)
        w = w + total / 2.0**bits / n
    assert np.abs(w - expected.models[0, 0]).max() <= rounds * 2.0**-bits * 10


def test_silent_agents_are_left_out_and_the_others_count_alike():
    """With a loss that is the same for all agents every average is theirs, however many are silent."""
    features = np.tile(np.eye(3), (6, 1, 1))
    data = sv.problems.linear_regression(features, np.tile(np.arange(3.0), (6, 1)), ridge=0.0)
    network = sv.topologies.federation(6)
    quiet = masked(sv.algorithms.Gopa(partners=2, silence=0.4, minimum_agents=2))
    runs = sv.simulate(
        data, network, {"all": masked(None), "quiet": quiet}, sv.noise.none(), rounds=1, repeats=40, dtype="float64", progress=False
    )  # fmt: skip
    first, others = runs["all", "none"].models[0, 0], runs["quiet", "none"].models[:, 0]
    counted = np.abs(others - first).max(axis=1) < 1e-12
    void = np.abs(others).max(axis=1) == 0.0  # fewer than two published: the model stays where it was
    assert (counted | void).all()
    # P(fewer than 2 of 6 publish) = 0.4^6 + 6 * 0.6 * 0.4^5 = 0.041; with a minimum of 6 it is 1 - 0.6^6 = 0.953.
    assert void.mean() < 0.2
    strict = masked(sv.algorithms.Gopa(partners=2, silence=0.4, minimum_agents=6))
    rarely = sv.simulate(data, network, strict, sv.noise.none(), rounds=1, repeats=400, dtype="float64", progress=False)
    assert 0.9 < (np.abs(rarely.models[:, 0]).max(axis=1) == 0.0).mean() < 1.0


def test_noise_of_those_who_published_is_divided_by_their_number():
    """Var of the model after one round from zero gradients: E[std^2 / number published]."""
    n, std, silence, least = 10, 0.5, 0.3, 4
    data, network = sv.problems.mean_estimation(np.zeros((n, 1, 2)), radius=1.0), sv.topologies.federation(n)
    quiet = masked(sv.algorithms.Gopa(partners=2, silence=silence, minimum_agents=least))
    run = sv.simulate(data, network, quiet, OWN, rounds=1, repeats=20_000, seed=5, dtype="float64", progress=False)
    number = np.arange(least, n + 1)
    law = np.array([math.comb(n, m) * (1 - silence) ** m * silence ** (n - m) for m in number])
    expected = float((law * std**2 / number).sum())
    measured = float((run.models[:, 0] ** 2).mean())
    error = expected * math.sqrt(2 / run.models[:, 0].size) * 1.3  # a mixture of Gaussians has slightly heavier tails
    assert abs(measured - expected) < 4 * error
    assert abs(measured - expected * (2 / 3) ** 2) > 4 * error
    assert abs(measured - std**2 / n) > 4 * error  # as if nobody were silent


@pytest.mark.parametrize(
    ("aggregation", "message"),
    [
        (sv.algorithms.Gopa(partners=0), "partners = 0"),
        (sv.algorithms.Gopa(partners=True), "partners = True"),
        (sv.algorithms.Gopa(partners=2, pairwise_ratio=0.0), "pairwise_ratio"),
        (sv.algorithms.Gopa(partners=2, pairwise_ratio=math.nan), "pairwise_ratio"),
        (sv.algorithms.Gopa(partners=2, silence=1.0), "silence"),
        (sv.algorithms.Gopa(partners=2, silence=0.1), "minimum_agents is missing"),
        (sv.algorithms.Gopa(partners=2, silence=0.1, minimum_agents=1), "minimum_agents = 1"),
        ("gopa", "give sv.algorithms.Gopa"),
    ],
)
def test_masks_that_make_no_sense_are_refused(aggregation, message):
    with pytest.raises(sv.ConfigError, match=message):
        masked(aggregation)


def test_samples_of_agents_and_masks_do_not_go_together():
    with pytest.raises(sv.ConfigError, match="everybody take part"):
        masked(participation=0.5)


@pytest.mark.parametrize(
    ("network", "noise", "message"),
    [
        (sv.topologies.complete(8), OWN, "GOPA needs agents that all receive the same average"),
        (sv.topologies.federation(8, "records", records=np.arange(1, 9)), OWN, "weighs its agents"),
        (sv.topologies.federation(8), sv.noise.central(sv.noise.Gaussian(std=1.0)), "noise of its own"),
        (sv.topologies.federation(8), sv.noise.independent(sv.noise.Laplace(std=1.0)), "Laplace"),
        (sv.topologies.federation(8), sv.noise.gopa(sv.noise.Gaussian(std=1.0), pairwise_std=1.0), "noise of its own"),
        (sv.topologies.federation(8), sv.noise.gradient(sv.noise.Gaussian(std=1.0)), "noise of its own"),
    ],
)
def test_what_masks_cannot_carry_is_refused(network, noise, message):
    with pytest.raises(sv.IncompatibleChoice, match=message):
        sv.simulate(problem(8), network, masked(), noise, rounds=1, progress=False)


def test_more_partners_than_agents_are_refused():
    with pytest.raises(sv.ConfigError, match="below the number of agents"):
        sv.simulate(
            problem(8), sv.topologies.federation(8), masked(sv.algorithms.Gopa(partners=8)), OWN, rounds=1, progress=False
        )  # fmt: skip
