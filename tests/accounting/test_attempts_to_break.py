"""Cases in which a careless accountant states too little."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting import ConvexSmooth, poisson
from sottovoce.algorithms import Algorithm, Exchange

UNIT = sv.noise.Gaussian(std=1.0)
ATC = sv.algorithms.atc(step_size=1.0)
observers, topologies = sv.observers, sv.topologies


def test_an_observer_reads_the_links_of_the_exchange_not_those_of_the_run():
    # On the star, agent 0 hears agent 3 directly; on the path of the run it would be three hops away.
    algorithm = sv.algorithms.three_matrix(step_size=0.4, last=topologies.star(6))
    found = sv.account(
        topologies.path(6),
        algorithm,
        sv.noise.independent(UNIT),
        observers.curious_agent(0),
        rounds=4,
        sensitivity=1.0,
        agent=3,
        losses=ConvexSmooth(1.0),
    )
    assert found.mu == pytest.approx(0.8, rel=1e-12)
    assert found.linear_mu <= 0.8 * (1 + 1e-9)
    assert found.linear_mu > 0.4


def test_noise_per_link_counts_the_links_of_the_exchange_when_these_come_and_go():
    algorithm = sv.algorithms.three_matrix(step_size=1.0, last=topologies.complete(6).with_dropout(0.1))
    noise = sv.noise.independent(UNIT, per_edge=True, self_noise=False)
    found = sv.account(topologies.ring(6), algorithm, noise, observers.eavesdropper(), rounds=1, sensitivity=1.0)
    assert found.mu == pytest.approx(np.sqrt(5.0))


def test_exchanges_through_a_relay_and_without_one_are_not_mixed():
    algorithm = sv.algorithms.three_matrix(step_size=1.0, first=topologies.ring(4), last=topologies.federation(4))
    with pytest.raises(sv.IncompatibleChoice, match="relay"):
        sv.account(
            topologies.ring(4),
            algorithm,
            sv.noise.independent(UNIT),
            observers.eavesdropper(),
            rounds=1,
            sensitivity=1.0,
        )


def silent_at_the_end() -> topologies.Topology:
    pair = np.eye(3)
    pair[:2, :2] = 0.5
    return topologies.ring(3).with_schedule([topologies.ring(3).matrix, pair])


@pytest.mark.parametrize(
    "noise",
    [sv.noise.gopa(UNIT, pairwise_std=2.0), sv.noise.independent(UNIT), sv.noise.independent(UNIT, per_edge=True)],
    ids=["gopa", "broadcast", "per edge"],
)
def test_an_agent_that_is_silent_in_the_last_round_has_an_unperturbed_part_in_the_final_model(noise):
    reads = observers.eavesdropper() + observers.final_model()
    found = sv.account(silent_at_the_end(), ATC, noise, reads, rounds=2, sensitivity=1.0, agent=2)
    assert found.mu == np.inf
    assert found.validity == "infinite"
    heard = sv.account(silent_at_the_end(), ATC, noise, observers.eavesdropper(), rounds=2, sensitivity=1.0, agent=2)
    assert heard.mu < np.inf


def test_noise_hidden_inside_a_round_makes_the_linear_view_no_guarantee():
    # Own noise of the first exchange perturbs the point of the gradient and is seen by nobody; the last exchange forgets it.
    K = 61
    first = np.zeros((K, K))
    first[0, 1:], first[1:, 0] = 0.1, 0.1 / (K - 1)
    np.fill_diagonal(first, 1.0 - first.sum(axis=0))
    last = np.zeros((K, K))
    last[0, 1:], last[1:, 0] = 1.0, 1.0 / (K - 1)
    algorithm = sv.algorithms.three_matrix(
        step_size=1.0, first=topologies.from_matrix(first), last=topologies.from_matrix(last)
    )
    noise = sv.noise.independent(UNIT, per_edge=True)
    found = sv.account(
        topologies.from_matrix(first), algorithm, noise, observers.eavesdropper(), rounds=1, sensitivity=1.0, agent=0
    )
    assert found.mu == pytest.approx(np.sqrt(K - 1), rel=1e-6)
    assert found.validity == "sent-messages"
    assert found.linear_validity == "exogenous-gradients"


def test_poisson_sampling_is_refused_where_single_rounds_are_not_known():
    algorithm = sv.algorithms.three_matrix(step_size=0.4, first=topologies.ring(4), last=topologies.ring(4))
    with pytest.raises(sv.UnsupportedClaim, match="Poisson"):
        sv.account(
            topologies.ring(4),
            algorithm,
            sv.noise.independent(UNIT),
            observers.eavesdropper(),
            rounds=20,
            sensitivity=1.0,
            unit="record",
            adjacency="add-remove",
            participation=poisson(0.02),
        )


def account_poisson(participation, **options):
    return sv.account(
        topologies.ring(4),
        ATC,
        sv.noise.independent(UNIT),
        observers.eavesdropper(),
        rounds=1,
        sensitivity=1.0,
        unit="record",
        participation=participation,
        **options,
    )


def test_poisson_sampling_with_replacement_needs_the_norm_of_one_record():
    for participation in (poisson(0.1), poisson(0.1, record_norm=0.4)):
        with pytest.raises(sv.ConfigError, match="ONE record"):
            account_poisson(participation)
    # A larger norm means less overlap with the batches that lack the record, hence less amplification.
    tight, wide = (account_poisson(poisson(0.1, record_norm=norm)).delta(0.5) for norm in (0.5, 2.0))
    assert tight < wide
    assert "norm at most 0.5" in str(account_poisson(poisson(0.1, record_norm=0.5)))
    assert "all sampling" not in str(account_poisson(poisson(0.1, record_norm=0.5)))


def test_an_algorithm_that_stops_being_linear_after_its_first_round_is_refused():
    def message(w, gradient, round_):
        stepped = w - gradient(w)
        return np.where(np.abs(stepped) > 5.0, 10.0 * stepped, stepped) if round_ > 1 else stepped

    algorithm = Algorithm("jumps", (Exchange(message, lambda w, received, gradient, round_: received),))
    with pytest.raises(sv.UnsupportedClaim, match="not linear"):
        sv.account(
            topologies.ring(4),
            algorithm,
            sv.noise.independent(UNIT),
            observers.eavesdropper(),
            rounds=4,
            sensitivity=1.0,
        )


@pytest.mark.parametrize("std", [1e-150, 1e160])
def test_scales_whose_squares_leave_floating_point_are_refused(std):
    noise = sv.noise.independent(sv.noise.Gaussian(std=std))
    with pytest.raises(sv.ConfigError, match="scale"):
        sv.account(topologies.ring(4), ATC, noise, observers.eavesdropper(), rounds=1, sensitivity=1.0)


def test_own_noise_of_others_in_the_final_model_makes_the_value_an_upper_bound():
    reads = observers.eavesdropper() + observers.final_model()
    noise = sv.noise.independent(UNIT, per_edge=True)
    found = sv.account(topologies.ring(4), ATC, noise, reads, rounds=2, sensitivity=1.0)
    assert found.validity == "sent-messages"
    assert found.mu > found.linear_mu
    alone = sv.account(topologies.ring(4), ATC, noise, reads, rounds=1, sensitivity=1.0)
    assert (alone.validity, alone.mu) == ("exact", alone.linear_mu)  # one gradient, at the point where all start


def test_noise_that_cancels_leaves_infinity_not_rounding():
    generator = np.random.default_rng(0)
    for _ in range(40):
        K = int(generator.integers(3, 6))
        weights = generator.random((K, K)) + 0.05
        topology = topologies.from_matrix(weights / weights.sum(axis=0))
        for other in (None, observers.links([(0, 1)]), observers.curious_agent(1)):
            reads = observers.final_model() if other is None else observers.final_model() + other
            found = sv.account(
                topology,
                ATC,
                sv.noise.graph_homomorphic(UNIT),
                reads,
                rounds=int(generator.integers(1, 8)),
                sensitivity=1.0,
                agent=0,
            )
            assert found.linear_mu == np.inf


def test_rounds_without_noise_that_repeat_known_messages_leak_nothing():
    # Two-stage DGD falls silent after its gradient rounds; what it sends then follows from what was sent before.
    algorithm = sv.algorithms.dgd(step_size=1.0, gradient_rounds=3)
    noise = sv.noise.independent(UNIT)
    short, long = (
        sv.account(topologies.complete(4), algorithm, noise, observers.curious_agent(0), rounds=rounds, sensitivity=1.0)
        for rounds in (4, 9)
    )
    assert long.mu == pytest.approx(short.mu)
    assert long.linear_mu == pytest.approx(short.linear_mu, rel=1e-6)
    assert long.linear_mu < np.inf


def test_one_round_is_enough_for_every_route():
    noise = sv.noise.independent(UNIT, self_noise=False)
    near, far = (
        sv.account(
            topologies.ring(4), ATC, noise, observers.curious_agent(2), rounds=1, sensitivity=1.0, agent=agent
        ).linear_mu
        for agent in (1, 0)
    )
    assert (near, far) == (pytest.approx(1.0), 0.0)


def test_a_scheme_that_only_bears_the_name_of_a_covered_one_is_accounted_by_what_it_does_or_refused():
    def nothing(links):
        return sv.noise.broadcast_map(links, np.zeros(len(links.perron)))._replace(
            link_value=np.zeros(len(links.senders))
        )

    honest = sv.noise.independent(UNIT)
    impostor = honest._replace(spread=nothing)
    question = {"rounds": 2, "sensitivity": 1.0}
    assert sv.account(topologies.ring(4), ATC, impostor, observers.eavesdropper(), **question).mu == np.inf
    for topology in (topologies.ring(4).with_dropout(0.1), topologies.ring(4).with_random_pair()):
        assert sv.account(topology, ATC, honest, observers.eavesdropper(), **question).mu < np.inf
        with pytest.raises(sv.UnsupportedClaim, match="links drawn at random"):
            sv.account(topology, ATC, impostor, observers.eavesdropper(), **question)


def test_a_linear_part_that_is_another_algorithm_is_refused():
    algorithm = sv.algorithms.atc(step_size=10.0)._replace(linear_part=sv.algorithms.atc(step_size=0.1))
    with pytest.raises(sv.UnsupportedClaim, match="linear part"):
        sv.account(
            topologies.ring(4),
            algorithm,
            sv.noise.independent(UNIT),
            observers.eavesdropper(),
            rounds=4,
            sensitivity=1.0,
        )


def test_the_worst_is_taken_at_each_delta_when_sampled_agents_are_heard_in_different_numbers_of_rounds():
    options = {
        "rounds": 2,
        "sensitivity": [1.92, 1.92, 2.5],
        "unit": "record",
        "adjacency": "add-remove",
        "participation": poisson(0.01),
    }
    arguments = (
        silent_at_the_end(),
        sv.algorithms.atc(step_size=1.0),
        sv.noise.independent(UNIT),
        observers.eavesdropper(),
    )
    worst = sv.account(*arguments, **options)
    each = sv.accounting.account_each(*arguments, **options)
    assert {guarantee.agent for guarantee in each} == {0, 1, 2}
    largest = set()
    for delta in (1e-2, 1e-6):
        epsilons = [guarantee.epsilon(delta) for guarantee in each[1:]]  # agents 0 and 1 are alike
        assert worst.epsilon(delta) == max(epsilons)
        largest.add(epsilons.index(max(epsilons)))
    assert len(largest) == 2, "no agent is the worst at every delta"
    assert "at each delta" in worst.reason


def test_the_worst_of_sampled_agents_is_the_one_with_the_largest_sensitivity():
    options = {"rounds": 3, "unit": "record", "adjacency": "add-remove", "participation": poisson(0.05)}
    arguments = (topologies.ring(3), ATC, sv.noise.independent(UNIT), observers.eavesdropper())
    worst = sv.account(*arguments, sensitivity=[0.5, 1.0, 0.7], **options)
    each = [sv.account(*arguments, sensitivity=size, **options).epsilon(1e-5) for size in (0.5, 1.0, 0.7)]
    assert worst.agent == 1
    assert worst.epsilon(1e-5) == pytest.approx(max(each))


@pytest.mark.parametrize(
    "algorithm",
    [
        sv.algorithms.fedavg(step_size=0.4, server_step_size=0.5),
        sv.algorithms.fedavg(step_size=0.4, exchange="gradient"),
        sv.algorithms.inexact_admm(penalty=2.0),
    ],
    ids=["server step", "gradient exchange", "admm"],
)
def test_a_released_model_is_free_where_it_follows_from_the_messages_and_only_there(algorithm):
    def asked(chosen, observer):
        options = {"rounds": 5, "sensitivity": 1.0}
        return sv.account(topologies.federation(4), chosen, sv.noise.independent(UNIT), observer, **options).mu

    both = observers.server() + observers.final_model()
    assert asked(algorithm, both) == pytest.approx(asked(algorithm, observers.server()), rel=1e-9)
    assert asked(algorithm, observers.final_model()) <= asked(algorithm, observers.server()) * (1 + 1e-9)
    assert asked(sv.algorithms.cta(step_size=0.4), both) == np.inf  # its last gradient is added after the last exchange
