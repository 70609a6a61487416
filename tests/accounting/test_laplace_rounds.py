"""Laplace laws at delta > 0 in sv.account: against another package, simulated worlds and enumerated placements."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

import sottovoce as sv
from sottovoce.accounting import account_each, cyclic, sent_by_round
from sottovoce.accounting.mechanisms import laplace

DELTA = 1e-5
EVE = sv.observers.eavesdropper()
RING, ATC = sv.topologies.ring(10), sv.algorithms.atc(step_size=1.0)


def composed(values, delta=DELTA, grid=1e-4):
    """Epsilon of one-dimensional Laplace mechanisms together, by dp-accounting."""
    losses = [pld.from_laplace_mechanism(1.0 / value, value_discretization_interval=grid) for value in values]
    together = losses[0]
    for other in losses[1:]:
        together = together.compose(other)
    return together.get_epsilon_for_delta(delta)


@pytest.mark.parametrize("law", [sv.noise.Laplace(std=100 * math.sqrt(2)), sv.noise.L2Laplace(scale=100.0)])
def test_a_thousand_rounds_give_away_what_their_losses_say(law):
    found = sv.account(RING, ATC, sv.noise.independent(law), EVE, rounds=1000, sensitivity=1.0)
    by_another = pld.from_laplace_mechanism(100.0, value_discretization_interval=1e-4).self_compose(1000)
    assert found.epsilon(DELTA) == pytest.approx(by_another.get_epsilon_for_delta(DELTA), rel=2e-3)  # 1.196
    assert found.epsilon(0.0) == found.pure_epsilon == pytest.approx(10.0, rel=1e-12)
    assert found.mu == pytest.approx(sv.accounting.pure.mu(10.0), rel=1e-9)
    one_dimension_is_all = isinstance(law, sv.noise.Laplace)
    assert found.validity == ("exact" if one_dimension_is_all else "sent-messages")
    assert ("attained by an attack at delta = 0" in found.explain()) == (not one_dimension_is_all)


def test_what_is_called_exact_is_attained_by_two_worlds_and_three_per_cent_less_is_refuted():
    """The readers of a ring see psi + z, and one gradient moves by 0.4 in one coordinate: 400,000 pairs of runs."""
    T, step, std, n, random = 6, 0.5, 0.5, 400_000, np.random.default_rng(3)
    noise = sv.noise.independent(sv.noise.Laplace(std=std), self_noise=False)
    found = sv.account(sv.topologies.ring(4), sv.algorithms.atc(step_size=step), noise, EVE, rounds=T, sensitivity=0.4)
    assert found.validity == "exact"
    scale, own = std / math.sqrt(2), 1.0 / 3.0  # Metropolis weight of the own copy, which carries no noise
    change, loss = 0.0, np.zeros(n)
    for _ in range(T):
        change = own * change + step * 0.4
        shift = change / scale
        z = random.laplace(size=n)
        loss += np.abs(z + shift) - np.abs(z)

    def shown(epsilon):
        reached = -np.expm1(np.minimum(epsilon - loss, 0.0))
        return reached.mean(), 4 * reached.std() / math.sqrt(n)

    for delta in (0.02, 0.1):
        mean, width = shown(found.epsilon(delta))
        assert mean - width <= delta, "the guarantee holds"
        mean, width = shown(0.97 * found.epsilon(delta))
        assert mean - width > delta, "nothing much smaller would"


def test_links_with_noise_of_their_own_are_as_many_mechanisms():
    noise = sv.noise.independent(sv.noise.Laplace(std=5 * math.sqrt(2)), per_edge=True)
    found = sv.account(
        sv.topologies.complete(4), sv.algorithms.atc(step_size=1.0), noise, EVE, rounds=1, sensitivity=1.0
    )
    assert found.epsilon(1e-3) == pytest.approx(composed([0.2] * 3, 1e-3), rel=2e-3)
    assert found.epsilon(0.1) < 0.97 * laplace.epsilon([0.6], 0.1)


def test_noise_in_gradients_counts_every_gradient_of_a_round():
    noise = sv.noise.gradient(sv.noise.Laplace(std=5 * math.sqrt(2)))
    algorithm = sv.algorithms.fedavg(step_size=0.1, local_steps=3)
    found = sv.account(sv.topologies.federation(4), algorithm, noise, sv.observers.server(), rounds=4, sensitivity=1.0)
    assert found.epsilon(DELTA) == pytest.approx(composed([0.2] * 12), rel=2e-3)


def test_a_walk_counts_the_contributions_with_least_noise():
    noise = sv.noise.gradient(sv.noise.Laplace(std=math.sqrt(2))).scaled([4.0, 2.0, 1.0, 8.0])
    algorithm = sv.algorithms.random_walk(step_size=0.1, contributions=2)
    found = sv.account(sv.topologies.complete(5).with_walk(), algorithm, noise, EVE, rounds=4, sensitivity=1.0)
    assert found.pure_epsilon == pytest.approx(1.5)
    assert found.epsilon(DELTA) == pytest.approx(composed([1.0, 0.5]), rel=2e-3)


@pytest.mark.parametrize("participation", ["once", cyclic(2, 2), cyclic(3, 1)])
@pytest.mark.parametrize("own", [True, False])
def test_every_placement_of_a_record_is_covered(participation, own):
    """Without self-noise a difference lives on; the vectors of all placements are written out by hand."""
    topology, step, T, scale = sv.topologies.ring(4), 0.5, 5, 2.0
    noise = sv.noise.independent(sv.noise.L2Laplace(scale=scale), self_noise=own)
    question = sv.Question(
        rounds=T, sensitivity=1.0, unit="record", participation=participation, losses=sv.accounting.ConvexSmooth(1.0)
    )
    found = sv.account(topology, sv.algorithms.atc(step_size=step), noise, EVE, question=question)
    rho = 0.0 if own else 1.0 / 3.0
    worst = 0.0
    for pattern in sv.accounting.question.participation.patterns(participation, T):
        change, values = 0.0, []
        for joins in pattern:
            change = rho * change + step * joins
            values.append(change / scale)
        worst = max(worst, laplace.epsilon(values, DELTA))
    assert found.epsilon(DELTA) >= worst * (1 - 2e-3)
    assert found.epsilon(DELTA) <= found.pure_epsilon


def test_the_promised_recursion_of_consensus_brings_its_own_rounds():
    """Under the promise the factor of consensus exceeds the self-weight, so the plain rounds would be too small."""
    topology, scale = sv.topologies.complete(4), 2.0
    losses = sv.accounting.ConvexSmooth(1.0)
    noise = sv.noise.independent(sv.noise.L2Laplace(scale=scale), self_noise=False)
    question = sv.Question(rounds=6, sensitivity=1.0, unit="record", losses=losses)
    found = sv.account(topology, sv.algorithms.consensus(step_size=1.5), noise, EVE, question=question)
    change, values = 0.0, []
    for _ in range(6):
        values.append(change / scale)
        change = max(0.25, abs(0.25 - 1.5)) * change + 1.5
    assert found.pure_epsilon == pytest.approx(sum(values), rel=1e-12)
    assert found.epsilon(DELTA) == pytest.approx(laplace.epsilon(values, DELTA), rel=1e-9)


def test_the_worst_agent_is_taken_at_each_delta():
    sensitivity = np.linspace(0.2, 1.0, 6)
    topology = sv.topologies.erdos_renyi(6, 0.6, seed=2)
    noise = sv.noise.graph_homomorphic(sv.noise.Laplace(std=30.0))
    parts = (topology, sv.algorithms.atc(step_size=0.5), noise, EVE)
    question = sv.Question(rounds=40, sensitivity=sensitivity)
    worst, each = sv.account(*parts, question=question), account_each(*parts, question=question)
    for delta in (0.0, 1e-8, 1e-3, 0.1):
        assert worst.epsilon(delta) >= max(one.epsilon(delta) for one in each) * (1 - 3e-3)
        assert worst.epsilon(delta) <= max(one.epsilon(delta) for one in each) * (1 + 3e-3)


def test_links_at_random_are_one_round_with_all_that_may_have_piled_up():
    noise = sv.noise.independent(sv.noise.Laplace(std=math.sqrt(2)))
    found = sv.account(RING.with_dropout(0.3), ATC, noise, EVE, rounds=5, sensitivity=1.0)
    assert found.epsilon(0.01) == pytest.approx(found.pure_epsilon + 2 * math.log(0.99), rel=1e-9)
    assert found.validity == "sent-messages"


@pytest.mark.parametrize("law", [sv.noise.Laplace(std=3.0), sv.noise.L2Laplace(scale=3.0)])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_calibrated_noise_meets_the_target(law, delta):
    parts = (RING, ATC, sv.noise.independent(law), EVE)
    question = sv.Question(rounds=50, sensitivity=1.0)
    noise = sv.calibrate(*parts, epsilon=0.7, delta=delta, question=question)
    assert 0.7 * (1 - 1e-5) <= sv.account(RING, ATC, noise, EVE, question=question).epsilon(delta) <= 0.7 * (1 + 1e-12)


def test_what_was_sent_by_the_last_round_is_what_is_stated():
    parts = (RING, sv.algorithms.atc(step_size=lambda t: 1.0 / t), sv.noise.independent(sv.noise.Laplace(std=4.0)), EVE)
    question = sv.Question(rounds=20, sensitivity=np.linspace(0.5, 1.0, 10))
    by_round = [one.epsilon(DELTA) for one in sent_by_round(*parts, question=question)]
    assert by_round == sorted(by_round)
    assert by_round[-1] == pytest.approx(sv.account(*parts, question=question).epsilon(DELTA), rel=1e-12)


def test_one_large_round_is_not_hidden_behind_an_agent_with_many_small_ones():
    """Agent 0 gives itself no weight, so that nothing piles up, and its sensitivity is larger: most in one round, less in all."""
    topology = sv.topologies.from_matrix([[0.0, 0.5, 0.5], [0.5, 0.4, 0.1], [0.5, 0.1, 0.4]])
    noise = sv.noise.independent(sv.noise.Laplace(std=2.0), self_noise=False)
    steps = [3.0] + [0.05] * 59
    algorithm = sv.algorithms.atc(step_size=lambda t: steps[t - 1])
    question = sv.Question(rounds=60, sensitivity=[1.6, 1.0, 1.0])
    parts = (topology, algorithm, noise, EVE)
    worst, each = sv.account(*parts, question=question), account_each(*parts, question=question)
    assert each[0].pure_epsilon < each[1].pure_epsilon
    assert each[0].epsilon(1e-3) > each[1].epsilon(1e-3)
    for delta in (0.0, 1e-3):
        assert worst.epsilon(delta) >= max(one.epsilon(delta) for one in each) * (1 - 1e-12)


def test_rounds_that_no_placement_fills_at_once_are_not_called_exact():
    """With the final model every placement is counted: each round may be full, but not all of them for one record."""
    noise = sv.noise.independent(sv.noise.Laplace(std=3.0))
    question = sv.Question(rounds=6, sensitivity=1.0, unit="record", participation=cyclic(2, 3))
    parts = (RING, sv.algorithms.atc(step_size=0.3), noise)
    assert sv.account(*parts, EVE, question=question).validity == "exact"
    found = sv.account(*parts, EVE + sv.observers.final_model(), question=question)
    assert found.validity == "sent-messages"
    assert "attained by an attack at delta = 0" in found.explain()


def test_of_agents_with_equal_totals_the_one_that_covers_the_other_is_stated():
    """Agent 0 may spend its total in rounds of 0.7 and 0.3, agent 1 in two of 0.5; only agent 1's messages are read directly."""

    def metropolis(pairs):
        weights, degree = np.eye(4), np.bincount(np.ravel(pairs).astype(int), minlength=4)
        for a, b in pairs:
            share = 1 / (1 + max(degree[a], degree[b]))
            weights[[a, b], [b, a]] += share
            weights[[a, b], [a, b]] -= share
        return weights

    path = [(0, 2), (2, 3), (3, 1)]
    listed = [metropolis(pairs) for pairs in ([(0, 2), (2, 3)], path, path, path, [])]
    topology = sv.topologies.from_edges(4, path).with_schedule(listed)
    noise = sv.noise.independent(sv.noise.L2Laplace(scale=1.0)).scaled([1 / 0.7, 2.0, 5.0, 2.0, 1.0])
    question = sv.Question(
        rounds=5, sensitivity=[1.0, 1.0, 0.01, 0.01], unit="record", participation=cyclic(2, 2), losses=sv.accounting.ConvexSmooth(1.0)
    )  # fmt: skip
    parts = (topology, ATC, noise, sv.observers.links([(1, 3)]))
    worst, each = sv.account(*parts, question=question), account_each(*parts, question=question)
    assert each[0].pure_epsilon == pytest.approx(each[1].pure_epsilon, rel=1e-12)
    assert each[0].epsilon(0.2) > 1.3 * each[1].epsilon(0.2)
    assert worst.epsilon(0.2) == each[0].epsilon(0.2)


def test_the_worst_of_several_is_exact_only_if_every_part_is():
    """Agent 2 is exact; agent 0, with one link and then three, is only bounded, and larger at some delta."""
    first, then = (
        sv.topologies.from_edges(4, pairs)
        for pairs in ([(0, 2), (1, 2), (1, 3)], [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)])
    )
    topology = sv.topologies.complete(4).with_schedule([first, then])
    noise = sv.noise.independent(sv.noise.Laplace(std=math.sqrt(8)), per_edge=True, self_noise=False)
    parts, question = (topology, ATC, noise, EVE), sv.Question(rounds=2, sensitivity=[1.0, 0.7, 1.3, 0.5])
    each = account_each(*parts, question=question)
    assert (each[0].validity, each[2].validity) == ("sent-messages", "exact")
    assert each[0].epsilon(0.05) > each[2].epsilon(0.05)
    assert each[0].pure_epsilon < each[2].pure_epsilon
    assert sv.account(*parts, question=question).validity == "sent-messages"


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (0.2, 0.01), (1.0, 0.01)])
def test_noise_of_unequal_rounds_is_calibrated_from_the_private_side_and_more_of_it_hides_more(epsilon, delta):
    noise = sv.noise.independent(sv.noise.Laplace(std=1.0)).scaled([0.5, 4.0, 4.0])
    parts = (sv.topologies.ring(3), sv.algorithms.atc(step_size=0.3))
    question = sv.Question(rounds=3, sensitivity=1.0)
    made = sv.calibrate(*parts, noise, EVE, epsilon=epsilon, delta=delta, question=question)
    found = [
        sv.account(*parts, made.scaled(f), EVE, question=question).epsilon(delta) for f in (1, 1 + 1e-9, 1.0001, 1.001)
    ]
    assert found[0] <= epsilon * (1 + 1e-12)
    assert found == sorted(found, reverse=True)
