"""Gossip averaging and Muffliato: rates, what they compute, and their exact accounts."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.algorithms.gossip import chebyshev_rate

GRAPHS = {
    "ring": sv.topologies.ring(20),
    "grid": sv.topologies.grid(4, 5),
    "random": sv.topologies.erdos_renyi(24, 0.2, seed=3),
    "hypercube": sv.topologies.hypercube(4),
}
GAUSS = sv.noise.Gaussian(std=1.0)
ONCE = sv.noise.gradient(GAUSS)


def averaging(K, d=3):
    points = np.random.default_rng(1).normal(size=(K, 4, d))
    return sv.problems.mean_estimation(points, radius=10.0), points.mean(axis=1)


def run(topology, algorithm, noise=None, *, given=None, rounds=100, **more):
    given = averaging(topology.num_agents)[0] if given is None else given
    noise = sv.noise.none() if noise is None else noise
    options = {"dtype": "float64", "progress": False, "seed": 2, **more}
    return sv.simulate(given, topology, algorithm, noise, rounds=rounds, **options)


def measured_rate(topology, algorithm, rounds):
    """The factor per round by which the distance to the average shrinks, from the second half of the run."""
    error = np.sqrt(run(topology, algorithm, rounds=rounds).metrics["msd_average"][0])
    half = rounds // 2
    return (error[-1] / error[half]) ** (1 / (rounds - 1 - half))


@pytest.mark.parametrize("name", GRAPHS)
def test_gossip_shrinks_the_error_by_the_second_eigenvalue_in_every_round(name):
    topology = GRAPHS[name]
    rounds = int(np.ceil(16 / topology.spectral_gap))  # far from rounding, long after the start
    expected = 1 - topology.spectral_gap
    assert np.log(measured_rate(topology, sv.algorithms.gossip(), rounds)) == pytest.approx(np.log(expected), rel=0.02)


@pytest.mark.parametrize("name", GRAPHS)
def test_accelerated_gossip_shrinks_it_at_the_rate_of_the_square_root(name):
    topology = GRAPHS[name]
    gap = topology.spectral_gap
    shrink = chebyshev_rate(gap)
    accelerated = sv.algorithms.gossip(acceleration=gap)
    rounds = int(np.ceil(20 / -np.log(shrink)))
    error = np.sqrt(run(topology, accelerated, rounds=rounds).metrics["msd_average"][0])
    values = averaging(topology.num_agents)[1]
    start = np.sqrt(((values - values.mean(axis=0)) ** 2).sum(axis=1).mean())
    # Chebyshev: after t rounds at most 2 s^t / (1 + s^2t) of what there was, and about that for the slowest eigenvector.
    bound = 2 * shrink ** np.arange(1, rounds + 1) / (1 + shrink ** (2 * np.arange(1, rounds + 1))) * start
    assert (error <= bound * (1 + 1e-9) + 1e-12).all()
    slope = np.polyfit(np.arange(5, rounds), np.log(error[5:]), 1)[0]
    assert slope == pytest.approx(np.log(shrink), rel=0.1)
    assert slope < 1.4 * np.log(1 - gap)  # plain gossip is slower
    assert np.log(shrink) == pytest.approx(-np.sqrt(2 * gap), rel=0.5)


@pytest.mark.parametrize("acceleration", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_gossip_ends_at_the_exact_average(name, acceleration):
    topology = GRAPHS[name]
    given, values = averaging(topology.num_agents)
    algorithm = sv.algorithms.gossip(acceleration=topology.spectral_gap if acceleration else None)
    models = run(topology, algorithm, given=given, rounds=1500).models[0]
    np.testing.assert_allclose(models, np.tile(values.mean(axis=0), (len(values), 1)), atol=1e-12)


def test_random_pairs_average_too():
    topology = sv.topologies.ring(8).with_random_pair()
    given, values = averaging(8)
    models = run(topology, sv.algorithms.gossip(), given=given, rounds=2500).models[0]
    np.testing.assert_allclose(models, np.tile(values.mean(axis=0), (8, 1)), atol=1e-9)


def test_noise_on_values_is_added_once_and_averaged_with_them():
    topology = sv.topologies.complete(6)
    given, values = averaging(6)
    models = run(topology, sv.algorithms.gossip(), ONCE, given=given, rounds=7, repeats=2000).models
    error = (models - values.mean(axis=0)).reshape(2000, -1)
    assert error.std() == pytest.approx(1 / np.sqrt(6), rel=0.05)
    every = run(
        topology, sv.algorithms.gossip(), sv.noise.independent(GAUSS), given=given, rounds=7, repeats=2000
    ).models
    assert (every - values.mean(axis=0)).std() == pytest.approx(
        np.sqrt(7 / 6), rel=0.05
    )  # noise in each of seven rounds


@pytest.mark.parametrize("acceleration", [None, 0.3])
def test_muffliato_is_a_gradient_step_and_several_averagings(acceleration):
    topology, steps = sv.topologies.grid(3, 3), 4
    generator = np.random.default_rng(0)
    features, targets = generator.normal(size=(9, 6, 2)), generator.normal(size=(9, 6))
    given = sv.problems.linear_regression(features, targets, ridge=0.1)
    algorithm = sv.algorithms.muffliato(step_size=0.1, gossip_steps=steps, acceleration=acceleration)
    found = run(topology, algorithm, given=given, rounds=5).models[0]
    W, x = topology.matrix, np.zeros((9, 2))
    shrink = None if acceleration is None else chebyshev_rate(acceleration)
    for _ in range(5):
        gradients = np.stack([2 * features[k].T @ (features[k] @ x[k] - targets[k]) / 6 + 0.2 * x[k] for k in range(9)])
        x = x - 0.1 * gradients
        before = x
        for j in range(1, steps + 1):
            weight = 1.0
            if shrink is not None and j > 1:
                weight = (1 + shrink**2) * (1 + shrink ** (2 * j - 2)) / (1 + shrink ** (2 * j))
            x, before = weight * W.T @ x + (1 - weight) * before, x
    np.testing.assert_allclose(found, x, atol=1e-12)


# Accounts


def test_what_two_rounds_show_of_the_far_end_of_a_path():
    # By hand: agent 0 reads x_1 + z_1, then (x_0 + x_1 + x_2 with their noises) / 3, and knows its own: x_2 + z_2 is left.
    # Reference R10 of the network-privacy notes: 1 with the own noise known.
    found = sv.account(
        sv.topologies.path(3),
        sv.algorithms.gossip(),
        ONCE,
        sv.observers.curious_agent(0),
        rounds=2,
        sensitivity=1.0,
        agent=2,
    )
    assert found.mu**2 == pytest.approx(1.0, abs=1e-12)
    assert (found.validity, found.linear_validity) == ("exact", "adaptive")
    assert "do not react" in found.reason
    assert any("follow the protocol" in one for one in found.assumptions)


def test_the_account_of_gossip_is_the_projection_on_what_was_read():
    topology, rounds, watcher = sv.topologies.grid(3, 3), 3, 0
    W = topology.matrix
    rows = [np.linalg.matrix_power(W, t)[w] for t in range(rounds) for w in topology.neighbours(watcher)]
    B = np.delete(np.array(rows), watcher, axis=1)
    inside = np.linalg.pinv(B) @ B
    exact = np.insert(np.sqrt(np.clip(np.diag(inside), 0, None)), watcher, np.nan)
    for u in range(1, 9):
        for acceleration in (None, topology.spectral_gap):
            found = sv.account(
                topology, sv.algorithms.gossip(acceleration=acceleration), ONCE, sv.observers.curious_agent(watcher), rounds=rounds,
                sensitivity=1.0, agent=u,
            )  # fmt: skip
            assert found.mu == pytest.approx(exact[u], abs=1e-7)


def test_noise_once_never_costs_more_than_local_privacy_and_fresh_noise_has_its_linear_view_beside():
    topology = sv.topologies.ring(12)
    for observer in (sv.observers.eavesdropper(), sv.observers.final_model(), sv.observers.curious_agent(0)):
        found = sv.account(topology, sv.algorithms.gossip(), ONCE, observer, rounds=6, sensitivity=0.7)
        assert found.mu <= 0.7 + 1e-9
    # Fresh noise in every gradient, one averaging step: values of the exact view at distance 2 and 6 on a ring of 12, ten rounds
    # (network-privacy notes, findings on Muffliato, second point).
    muffliato = sv.algorithms.muffliato(step_size=1.0, gossip_steps=1)
    for agent, squared in ((2, 2.0678), (6, 0.0049)):
        found = sv.account(
            topology, muffliato, ONCE, sv.observers.curious_agent(0), rounds=10, sensitivity=1.0, agent=agent
        )
        assert found.linear_mu**2 == pytest.approx(squared, abs=6e-5)
        assert found.linear_validity == "exogenous-gradients"
        assert found.mu == pytest.approx(np.sqrt(10))  # proven: what ten noisy gradients give away


def test_the_final_average_of_gossip_hides_a_value_among_all():
    found = sv.account(
        sv.topologies.complete(9), sv.algorithms.gossip(), ONCE, sv.observers.final_model(), rounds=3, sensitivity=1.0
    )
    assert found.mu == pytest.approx(1 / 3, rel=1e-9)  # one of nine values, and nine noises: sensitivity 1/9 over 1/3
    assert found.validity == "exact"


def test_values_that_enter_once_count_once_also_on_random_pairs():
    topology = sv.topologies.ring(6).with_random_pair()
    for law, local in ((GAUSS, 0.7), (sv.noise.Laplace(std=np.sqrt(2.0)), None)):
        found = sv.account(
            topology,
            sv.algorithms.gossip(),
            sv.noise.gradient(law),
            sv.observers.curious_agent(0),
            rounds=40,
            sensitivity=0.7,
        )
        assert found.mu == pytest.approx(local) if local else found.pure_epsilon == pytest.approx(0.7)
    learning = sv.algorithms.muffliato(step_size=0.1, gossip_steps=2)
    found = sv.account(topology, learning, ONCE, sv.observers.curious_agent(0), rounds=40, sensitivity=0.7)
    assert found.mu == pytest.approx(0.7 * np.sqrt(40))


# What is refused


@pytest.mark.parametrize("gap", [0.0, -0.1, 1.2, True, "0.1", float("nan")])
def test_a_spectral_gap_outside_its_range_is_refused(gap):
    with pytest.raises(sv.ConfigError, match="acceleration = "):
        sv.algorithms.gossip(acceleration=gap)
    with pytest.raises(sv.ConfigError, match="acceleration = "):
        sv.algorithms.muffliato(step_size=0.1, gossip_steps=2, acceleration=gap)


@pytest.mark.parametrize("steps", [0, -1, 1.5, True])
def test_averaging_steps_are_whole_and_positive(steps):
    with pytest.raises(sv.ConfigError, match="gossip_steps = "):
        sv.algorithms.muffliato(step_size=0.1, gossip_steps=steps)
