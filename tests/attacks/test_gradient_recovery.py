"""Gradients from messages: exact without noise, with the stated error under noise, refused where messages are missing."""

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv
from sottovoce.attacks.gradient_recovery import (
    gradients_from_views,
    recover_average_gradient,
    recover_from_uplinks,
    recover_gradients,
    weighted_sum_at_receiver,
)
from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.simulation.views import observe

K, D, MU = 5, 3, 0.1
START = np.zeros(D)
RNG = np.random.default_rng(3)
PROBLEM = sv.problems.linear_regression(RNG.standard_normal((K, 6, D)), RNG.standard_normal((K, 6)), ridge=0.1)
RING = sv.topologies.ring(K)
PEERS = {name: getattr(sv.algorithms, name)(step_size=MU) for name in ("atc", "cta", "consensus")}


def data_of(agent):
    return {name: array[agent] for name, array in PROBLEM.arrays.items()}


def gradients_at(points, agent):
    return np.stack([[PROBLEM.gradient(w, data_of(agent)) for w in run] for run in points])


def play(name, own_factor, std, rounds, repeats, seed):
    """The three algorithms by hand, one source per agent: messages [r, t, K, d], every agent's gradients and points."""
    rng, A = np.random.default_rng(seed), RING.matrix
    H, b = PROBLEM.arrays["hessian"], PROBLEM.arrays["linear"]

    def gradient(w):
        return np.einsum("kij,rkj->rki", H, w) - b

    w, out = np.zeros((repeats, K, D)), []
    for _ in range(rounds):
        z = std * rng.standard_normal((repeats, K, D))
        psi = w - MU * gradient(w) if name == "atc" else w
        sent = psi + z
        others = np.einsum("lk,rld->rkd", A - np.diag(np.diag(A)), sent)
        mixed = others + np.diag(A)[:, None] * (psi + own_factor[:, None] * z)
        point = {"atc": w, "cta": mixed, "consensus": w}[name]
        out.append((sent, gradient(point), point))
        w = mixed if name == "atc" else mixed - MU * gradient(point)
    return tuple(np.stack(part, axis=1) for part in zip(*out, strict=True))


def on_links(sent):
    return sent[:, :, RING.links[:, 0]]


def is_variance(samples, variance):
    """Two-sided chi-square test at 1e-4 that Gaussian samples have mean 0 and this variance."""
    p = stats.chi2.cdf((samples**2).sum() / variance, samples.size)
    return min(p, 1 - p) > 5e-5


@pytest.mark.parametrize("name", PEERS)
def test_gradients_are_exact_without_noise_for_who_reads_all_links(name):
    views = observe(PROBLEM, RING, PEERS[name], sv.noise.none(), sv.observers.eavesdropper(), rounds=8)
    for agent in range(K):
        found = gradients_from_views(
            views, agent=agent, topology=RING, algorithm=PEERS[name], noise=sv.noise.none(), start=START
        )
        assert found.gradients.shape == (1, 8 if name == "atc" else 7, D)
        np.testing.assert_allclose(found.gradients, gradients_at(found.points, agent), atol=1e-10)
        assert not found.gradient_std.any()
        assert not found.point_std.any()


@pytest.mark.parametrize("name", PEERS)
def test_points_are_those_of_the_recursion_by_hand(name):
    sent, gradients, points = play(name, np.ones(K), 0.0, 6, 1, 0)
    found = recover_gradients(
        on_links(sent), RING.links, agent=2, topology=RING, algorithm=PEERS[name], noise=sv.noise.none(), start=START
    )
    n = found.points.shape[1]
    np.testing.assert_allclose(found.points, points[:, :n, 2], atol=1e-12)
    np.testing.assert_allclose(found.gradients, gradients[:, :n, 2], atol=1e-10)


LAW = sv.noise.Gaussian(std=0.3)
SCHEMES = {
    "self-noise": (sv.noise.independent(LAW), np.ones(K), 0.0),
    "none of its own": (sv.noise.independent(LAW, self_noise=False), np.zeros(K), RING.matrix[0, 0]),
    "graph-homomorphic": (sv.noise.graph_homomorphic(LAW), 1 - 1 / np.diag(RING.matrix), 1.0),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PEERS)
def test_the_error_under_noise_has_mean_zero_and_the_stated_variance(name, scheme):
    # 400 runs x 3 coordinates in one round: a factor 2/3 or 3/2 of the scale is more than ten standard deviations away.
    noise, own, rho = SCHEMES[scheme]
    sent, gradients, points = play(name, own, LAW.std, 5, 400, 1)
    found = recover_gradients(
        on_links(sent), RING.links, agent=1, topology=RING, algorithm=PEERS[name], noise=noise, start=START
    )
    t = 2  # both terms of the error are there
    assert found.gradient_std[t] == pytest.approx(LAW.std * np.sqrt(1 + rho**2) / MU, rel=1e-12)
    error = found.gradients[:, t] - gradients[:, t, 1]
    assert abs(error.mean()) < 4 * found.gradient_std[t] / np.sqrt(error.size)
    assert is_variance(error, found.gradient_std[t] ** 2)
    assert not is_variance(error, (2 / 3 * found.gradient_std[t]) ** 2)
    assert not is_variance(error, (3 / 2 * found.gradient_std[t]) ** 2)
    off = found.points[:, t] - points[:, t, 1]
    if found.point_std[t] == 0.0:
        np.testing.assert_allclose(off, 0.0, atol=1e-12)
    else:
        assert is_variance(off, found.point_std[t] ** 2)


def test_the_first_gradient_of_atc_needs_no_message_before_it():
    noise = SCHEMES["graph-homomorphic"][0]
    sent, _, _ = play("atc", SCHEMES["graph-homomorphic"][1], LAW.std, 3, 1, 1)
    found = recover_gradients(
        on_links(sent), RING.links, agent=0, topology=RING, algorithm=PEERS["atc"], noise=noise, start=START
    )
    assert found.gradient_std[0] == pytest.approx(LAW.std / MU)
    assert found.point_std[0] == 0.0


def test_noise_per_link_is_averaged_over_the_links_that_are_read():
    noise = sv.noise.independent(sv.noise.Laplace(std=0.2), per_edge=True, self_noise=False)
    views = observe(PROBLEM, RING, PEERS["atc"], noise, sv.observers.eavesdropper(), rounds=1, repeats=2000)
    found = gradients_from_views(views, agent=3, topology=RING, algorithm=PEERS["atc"], noise=noise, start=START)
    assert found.gradient_std[0] == pytest.approx(0.2 / np.sqrt(2) / MU)
    error = (found.gradients[:, 0] - PROBLEM.gradient(START, data_of(3))) / found.gradient_std[0]
    # Mean square of 6000 numbers with kurtosis 3 + 3/2 (mean of two Laplace draws): standard deviation sqrt(3.5 / 6000) = 0.024.
    assert abs((error**2).mean() - 1) < 0.1


def test_a_noise_schedule_and_a_falling_step_enter_round_by_round():
    algorithm = sv.algorithms.atc(step_size=lambda t: MU / t)
    noise = sv.noise.independent(LAW).scaled([1.0, 0.0, 2.0])
    views = observe(PROBLEM, RING, algorithm, noise, sv.observers.eavesdropper(), rounds=3, repeats=500)
    found = gradients_from_views(views, agent=0, topology=RING, algorithm=algorithm, noise=noise, start=START)
    np.testing.assert_allclose(found.gradient_std, LAW.std * np.array([1 / MU, 0.0, 2 * 3 / MU]))
    error = found.gradients - gradients_at(found.points, 0)
    np.testing.assert_allclose(error[:, 1], 0.0, atol=1e-10)
    assert is_variance(error[:, 2], found.gradient_std[2] ** 2)


def test_noise_in_gradients_is_all_the_error_there_is():
    noise = sv.noise.gradient(LAW)
    views = observe(PROBLEM, RING, PEERS["cta"], noise, sv.observers.eavesdropper(), rounds=3, repeats=500)
    found = gradients_from_views(views, agent=0, topology=RING, algorithm=PEERS["cta"], noise=noise, start=START)
    np.testing.assert_allclose(found.gradient_std, LAW.std)
    assert is_variance((found.gradients - gradients_at(found.points, 0))[:, 1], LAW.std**2)


@pytest.mark.parametrize("exchange", ["model", "gradient"])
@pytest.mark.parametrize("server_step", [1.0, 0.5])
def test_a_server_has_the_exact_gradient_of_every_agent(exchange, server_step):
    federation = sv.topologies.federation(K, "records", records=[1, 2, 3, 4, 5])
    algorithm = sv.algorithms.fedavg(step_size=MU, exchange=exchange, server_step_size=server_step)
    views = observe(PROBLEM, federation, algorithm, sv.noise.none(), sv.observers.server(), rounds=4)
    for agent in (0, 3):
        found = gradients_from_views(
            views, agent=agent, topology=federation, algorithm=algorithm, noise=sv.noise.none(), start=START
        )
        np.testing.assert_allclose(found.gradients, gradients_at(found.points, agent), atol=1e-10)


def test_local_steps_show_the_sum_of_their_gradients():
    federation = sv.topologies.federation(K)
    algorithm = sv.algorithms.fedavg(step_size=MU, local_steps=3)
    views = observe(PROBLEM, federation, algorithm, sv.noise.none(), sv.observers.server(), rounds=1)
    found = gradients_from_views(
        views, agent=2, topology=federation, algorithm=algorithm, noise=sv.noise.none(), start=START
    )
    w, total = START, 0.0
    for _ in range(3):
        g = PROBLEM.gradient(w, data_of(2))
        w, total = w - MU * g, total + g
    np.testing.assert_allclose(found.gradients[0, 0], total, atol=1e-10)


def test_a_broadcast_shows_the_average_gradient_with_the_noise_of_all():
    federation, noise = sv.topologies.federation(K), sv.noise.independent(LAW)
    algorithm = sv.algorithms.fedavg(step_size=MU)
    views = observe(PROBLEM, federation, algorithm, noise, sv.observers.curious_agent(0), rounds=2, repeats=500)
    found = recover_average_gradient(
        views.broadcast[0], topology=federation, algorithm=algorithm, noise=noise, start=START
    )
    assert found.gradient_std[1] == pytest.approx(LAW.std / np.sqrt(K) / MU)
    truth = np.mean([gradients_at(found.points, agent) for agent in range(K)], axis=0)
    assert is_variance((found.gradients - truth)[:, 1], found.gradient_std[1] ** 2)
    assert not is_variance((found.gradients - truth)[:, 1], LAW.std**2 / MU**2)
    with pytest.raises(IncompatibleChoice, match="recover_average_gradient"):
        gradients_from_views(views, agent=1, topology=federation, algorithm=algorithm, noise=noise, start=START)


def test_central_noise_is_not_on_the_uplinks():
    federation, noise = sv.topologies.federation(K), sv.noise.central(LAW)
    algorithm = sv.algorithms.fedavg(step_size=MU)
    views = observe(PROBLEM, federation, algorithm, noise, sv.observers.server(), rounds=1)
    given = {"agent": 1, "topology": federation, "algorithm": algorithm, "noise": noise, "start": START}
    with pytest.raises(IncompatibleChoice, match="broadcasts="):
        recover_from_uplinks(views.messages[0], **given)
    found = recover_from_uplinks(views.messages[0], **given, broadcasts=np.zeros((1, 1, D)))
    np.testing.assert_allclose(found.gradients[0, 0], PROBLEM.gradient(START, data_of(1)), atol=1e-10)
    assert found.gradient_std[0] == 0.0


def test_a_receiver_undoes_noise_that_cancels_at_receivers():
    noise, receiver = sv.noise.local_graph_homomorphic(LAW), sv.observers.curious_agent(2)
    noisy = observe(PROBLEM, RING, PEERS["atc"], noise, receiver, rounds=6)
    clear = observe(PROBLEM, RING, PEERS["atc"], sv.noise.none(), receiver, rounds=6)
    assert np.abs(noisy.messages[0] - clear.messages[0]).min() > 1e-6  # every message is perturbed
    sums = [
        weighted_sum_at_receiver(view.messages[0], view.layout.links[0], receiver=2, topology=RING)
        for view in (noisy, clear)
    ]
    np.testing.assert_allclose(sums[0], sums[1], atol=1e-12)
    one_link = np.flatnonzero(noisy.layout.links[0][:, 0] == 1)
    with pytest.raises(IncompatibleChoice, match=r"from \[3\] are not read"):
        weighted_sum_at_receiver(
            noisy.messages[0][:, :, one_link], noisy.layout.links[0][one_link], receiver=2, topology=RING
        )


def test_a_curious_agent_of_a_ring_lacks_what_its_neighbour_is_sent():
    noise = sv.noise.none()
    views = observe(PROBLEM, RING, PEERS["atc"], noise, sv.observers.curious_agent(0), rounds=3)
    with pytest.raises(IncompatibleChoice, match=r"what agents \[0, 2\] sent to agent 1"):
        gradients_from_views(views, agent=1, topology=RING, algorithm=PEERS["atc"], noise=noise, start=START)
    with pytest.raises(IncompatibleChoice, match="does not read"):
        gradients_from_views(views, agent=2, topology=RING, algorithm=PEERS["atc"], noise=noise, start=START)


@pytest.mark.parametrize("per_edge", [False, True])
def test_on_a_complete_graph_one_agent_suffices_against_broadcast_but_not_per_link_noise(per_edge):
    complete, noise = sv.topologies.complete(K), sv.noise.independent(LAW, per_edge=per_edge)
    views = observe(PROBLEM, complete, PEERS["atc"], noise, sv.observers.eavesdropper(), rounds=3)
    # What agent 0 reads and what it sent itself.
    kept = np.flatnonzero((complete.links == 0).any(axis=1))
    given = {"agent": 1, "topology": complete, "algorithm": PEERS["atc"], "noise": noise, "start": START}
    if per_edge:
        with pytest.raises(IncompatibleChoice, match=r"agents \[2, 3, 4\]"):
            recover_gradients(views.messages[0][:, :, kept], complete.links[kept], **given)
    else:
        found = recover_gradients(views.messages[0][:, :, kept], complete.links[kept], **given)
        everything = recover_gradients(views.messages[0], complete.links, **given)
        np.testing.assert_allclose(found.gradients, everything.gradients, atol=1e-12)


@pytest.mark.parametrize("name", PEERS)
def test_an_algorithm_is_known_by_its_functions_and_not_by_its_name(name):
    messages = np.random.default_rng(3).standard_normal((1, 4, len(RING.links), D))
    given = {"agent": 0, "topology": RING, "noise": sv.noise.none(), "start": START}
    found = recover_gradients(messages, RING.links, algorithm=PEERS[name], **given)
    renamed = recover_gradients(messages, RING.links, algorithm=PEERS[name]._replace(name="mine"), **given)
    np.testing.assert_array_equal(found.gradients, renamed.gradients)
    with pytest.raises(IncompatibleChoice, match="one step apart"):
        recover_gradients(messages, RING.links, algorithm=sv.algorithms.gossip()._replace(name=name), **given)


def test_what_was_not_derived_is_refused():
    messages = np.zeros((1, 2, len(RING.links), D))
    given = {"agent": 0, "noise": sv.noise.none(), "start": START}
    with pytest.raises(IncompatibleChoice, match="gossip"):
        recover_gradients(messages, RING.links, topology=RING, algorithm=sv.algorithms.gossip(), **given)
    with pytest.raises(IncompatibleChoice, match="change from round to round"):
        recover_gradients(messages, RING.links, topology=RING.with_dropout(0.1), algorithm=PEERS["atc"], **given)
    with pytest.raises(IncompatibleChoice, match="next message"):
        recover_gradients(messages[:, :1], RING.links, topology=RING, algorithm=PEERS["cta"], **given)
    with pytest.raises(IncompatibleChoice, match="federation"):
        recover_from_uplinks(np.zeros((1, 2, K, D)), topology=RING, algorithm=PEERS["atc"], **given)
    sampled = sv.algorithms.fedavg(step_size=MU, participation=0.5)
    with pytest.raises(IncompatibleChoice, match="sampled agents"):
        recover_from_uplinks(np.zeros((1, 2, K, D)), topology=sv.topologies.federation(K), algorithm=sampled, **given)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"messages": np.full((1, 2, 10, D), np.nan)}, "finite"),
        ({"links": RING.links[:4]}, "links have"),
        ({"links": RING.links * 1.0}, "links have"),
        ({"links": np.array([[0, 2]] * 10)}, "not in the topology"),
        ({"start": np.zeros(2)}, "2 parameters"),
    ],
)
def test_malformed_input_is_named(change, words):
    given = {"messages": np.zeros((1, 2, 10, D)), "links": RING.links, "start": START} | change
    with pytest.raises(ConfigError, match=words):
        recover_gradients(**given, agent=0, topology=RING, algorithm=PEERS["atc"], noise=sv.noise.none())
