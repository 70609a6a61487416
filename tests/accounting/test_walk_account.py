"""`sv.account` on a walking token: who gets the amplified guarantee, who the local one, and exact divergences on small walks."""

import contextlib
import itertools
import math

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv
from sottovoce.accounting import gaussian, walk
from sottovoce.accounting.tradeoff import WorstTradeoff

STEP, ROUNDS, DELTA = 0.4, 60, 1e-5
CONVEX = sv.problems.ConvexSmooth(beta=2.0)
ALGORITHM = sv.algorithms.random_walk(step_size=STEP, contributions=5)
RING = sv.topologies.ring(7).with_walk()
COMPLETE = sv.topologies.complete(8).with_walk()
AGENT, EVERYBODY = sv.observers.curious_agent(0), sv.observers.eavesdropper()


def gradient_noise(std):
    return sv.noise.gradient(sv.noise.Gaussian(std=std))


def account(topology=COMPLETE, algorithm=ALGORITHM, noise=None, observer=AGENT, **more):
    options = {"rounds": ROUNDS, "sensitivity": 2.0, **more}
    return sv.account(topology, algorithm, noise or gradient_noise(3.0), observer, **options)


def local_mu(contributions, std=3.0, sensitivity=2.0):
    return math.sqrt(contributions) * sensitivity / std


# Who waits for the token


@pytest.mark.parametrize("topology", [RING, COMPLETE, sv.topologies.grid(2, 4).with_walk()])
@pytest.mark.parametrize("observer", [AGENT, sv.observers.coalition([0, 2])])
def test_agents_who_wait_for_the_token_get_the_amplified_guarantee_and_never_more_than_the_local_one(
    topology, observer
):
    found = account(topology, observer=observer, losses=CONVEX)
    assert found.validity == "amplified-by-iteration"
    assert found.mu is None
    for delta in (1e-9, 1e-5, 0.1):
        assert 0 < found.epsilon(delta) <= gaussian.epsilon(local_mu(5), delta)


def test_the_more_agents_there_are_the_more_the_guarantee_is_amplified():
    found = [account(sv.topologies.complete(K).with_walk(), losses=CONVEX).epsilon(DELTA) for K in (8, 30, 100, 300)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.5 * gaussian.epsilon(local_mu(5), DELTA)


def test_one_agent_of_the_complete_graph_has_the_law_of_its_gaps_and_a_coalition_sees_more():
    for observer, observers in ((AGENT, 1), (sv.observers.coalition([0, 2]), 2), (sv.observers.coalition(range(6)), 6)):
        found = account(observer=observer, losses=CONVEX)
        assert isinstance(found.tradeoff, walk.PathsTradeoff)
        expected = walk.proven_epsilon(
            num_agents=8, contributions=5, std=3.0, sensitivity=2.0, delta=DELTA, rounds=ROUNDS, observers=observers
        )
        assert found.tradeoff.gaps.epsilon(DELTA) == pytest.approx(expected, rel=1e-12)
        assert found.epsilon(DELTA) <= expected * (1 + 1e-12)
    # When all others look, a contribution is hidden by one noise alone.
    everyone = account(observer=sv.observers.coalition(range(7)), losses=CONVEX)
    assert everyone.epsilon(DELTA) == pytest.approx(gaussian.epsilon(local_mu(5), DELTA), rel=1e-9)
    wide = sv.topologies.complete(100).with_walk()
    alone, together = (account(wide, observer=one, losses=CONVEX) for one in (AGENT, sv.observers.coalition([0, 2])))
    assert alone.epsilon(DELTA) < 0.95 * together.epsilon(DELTA)


def test_two_thousand_agents_have_the_reference_numbers():
    """n = 2000, T = 20000, 12 contributions, delta = 1e-6: the stds are those of the published bound for epsilon 10 and 1."""
    topology = sv.topologies.complete(2000).with_walk()
    algorithm = sv.algorithms.random_walk(step_size=STEP, contributions=12)
    for std, by_gaps, local in ((2.57862, 3.74776, 15.80758), (20.3619, 0.359789, 1.480649)):
        asked = {"algorithm": algorithm, "noise": gradient_noise(std), "rounds": 20_000, "losses": CONVEX}
        proven = account(topology, agent=1, **asked)
        assert proven.tradeoff.gaps.epsilon(1e-6) == pytest.approx(by_gaps, rel=3e-6)
        assert proven.epsilon(1e-6) < 0.85 * by_gaps
        assert account(topology, agent=1, observer=EVERYBODY, **asked).epsilon(1e-6) == pytest.approx(local, rel=3e-6)
        assert gaussian.epsilon(local_mu(12, std), 1e-6) == pytest.approx(local, rel=3e-6)


def test_on_a_ring_the_worst_agent_is_the_largest_of_all_at_every_delta():
    found = account(RING, losses=CONVEX)
    assert isinstance(found.tradeoff, WorstTradeoff)
    each = [account(RING, losses=CONVEX, agent=agent) for agent in range(1, 7)]
    for delta in (1e-12, 1e-5, 0.05):
        values = [one.epsilon(delta) for one in each]
        assert found.epsilon(delta) == pytest.approx(max(values), rel=1e-12)
        assert max(values) > 1.01 * min(values)  # neighbours are more exposed
        assert values == pytest.approx(values[::-1], rel=1e-6)  # left and right are alike
    for epsilon in (0.1, 1.0, 3.0):
        assert found.delta(epsilon) == pytest.approx(max(one.delta(epsilon) for one in each), rel=1e-9)


def test_many_agents_are_counted_roughly_and_it_is_said():
    topology = sv.topologies.ring(30).with_walk()
    algorithm = sv.algorithms.random_walk(step_size=STEP, contributions=30)
    asked = {"algorithm": algorithm, "rounds": 1000, "losses": CONVEX}
    all_agents, one = account(topology, **asked), account(topology, agent=1, **asked)
    assert "Counted roughly" in all_agents.reason
    assert "Counted roughly" not in one.reason
    assert one.epsilon(DELTA) <= all_agents.epsilon(DELTA) <= 1.1 * one.epsilon(DELTA)


# Who does not


@pytest.mark.parametrize(
    ("observer", "losses"),
    [
        (AGENT, None),
        (EVERYBODY, CONVEX),
        (sv.observers.final_model(), CONVEX),
        (AGENT + sv.observers.final_model(), CONVEX),
        (AGENT + sv.observers.links([(3, 4)]), CONVEX),
        (sv.observers.links([(3, 4)]), CONVEX),
    ],
)
def test_everyone_else_gets_the_local_guarantee(observer, losses):
    for topology in (RING, COMPLETE):
        found = account(topology, observer=observer, losses=losses)
        assert found.validity == "sent-messages"
        assert found.mu == pytest.approx(local_mu(5), rel=1e-12)


def test_laplace_contributions_add_up_and_are_not_amplified():
    noise = sv.noise.gradient(sv.noise.Laplace(std=3.0 * math.sqrt(2)))
    for losses in (None, CONVEX):
        assert account(noise=noise, losses=losses).epsilon(0.0) == pytest.approx(5 * 2.0 / 3.0, rel=1e-12)


def test_records_have_the_same_guarantees_at_their_own_sensitivity():
    for losses in (None, CONVEX):
        whole = account(losses=losses, sensitivity=0.25)
        record = account(losses=losses, sensitivity=0.25, unit="record")
        assert record.epsilon(DELTA) == pytest.approx(whole.epsilon(DELTA), rel=1e-12)
        assert record.unit == "record"


@pytest.mark.parametrize(("limit", "most"), [(None, ROUNDS), (500, ROUNDS), (7, 7)])
def test_an_agent_contributes_at_most_as_often_as_there_are_hops(limit, most):
    algorithm = sv.algorithms.random_walk(step_size=STEP, contributions=limit)
    assert account(algorithm=algorithm).mu == pytest.approx(local_mu(most), rel=1e-12)


def test_without_a_constant_noise_the_contributions_with_the_least_noise_count():
    noise = gradient_noise(3.0).scaled(lambda t: 1.0 + t / 10)
    cheapest = sorted((2.0 / (3.0 * (1 + t / 10)) for t in range(1, ROUNDS + 1)), reverse=True)[:5]
    assert account(noise=noise).mu == pytest.approx(math.sqrt(sum(price**2 for price in cheapest)), rel=1e-12)


def test_without_noise_there_is_no_guarantee():
    for losses in (None, CONVEX):
        with contextlib.suppress(sv.UnsupportedClaim):  # refused or stated as infinite, never as a number
            assert account(noise=sv.noise.none(), losses=losses).validity == "infinite"


@pytest.mark.parametrize("losses", [None, CONVEX])
@pytest.mark.parametrize("observer", [AGENT, EVERYBODY])
def test_noise_on_the_message_is_noise_in_the_gradient_times_the_step(losses, observer):
    on_message = account(
        noise=sv.noise.independent(sv.noise.Gaussian(std=STEP * 3.0)), observer=observer, losses=losses
    )
    in_gradient = account(observer=observer, losses=losses)
    for delta in (1e-9, 1e-3):
        assert on_message.epsilon(delta) == pytest.approx(in_gradient.epsilon(delta), rel=1e-9)


# What is refused


def test_steps_beyond_the_promise_are_refused_and_steps_up_to_it_are_not():
    longest = sv.algorithms.random_walk(step_size=2 / CONVEX.beta, contributions=5)
    assert account(algorithm=longest, losses=CONVEX).validity == "amplified-by-iteration"
    beyond = sv.algorithms.random_walk(step_size=2.001 / CONVEX.beta, contributions=5)
    with pytest.raises(sv.UnsupportedClaim, match="step"):
        account(algorithm=beyond, losses=CONVEX)
    assert account(algorithm=beyond).mu == pytest.approx(local_mu(5), rel=1e-12)


def test_steps_and_noise_that_change_are_amplified_too_and_never_above_clear_sight():
    halving = sv.algorithms.random_walk(step_size=lambda t: 0.4 / (1 + t / 30), contributions=5)
    louder = gradient_noise(3.0).scaled(lambda t: 1.0 + t / 40)
    messages = sv.noise.independent(sv.noise.Gaussian(std=1.2))
    for asked in ({"algorithm": halving}, {"noise": louder}, {"algorithm": halving, "noise": messages}):
        found, local = account(**asked, losses=CONVEX), account(**asked)
        assert found.validity == "amplified-by-iteration"
        for delta in (1e-8, 1e-3):
            assert found.epsilon(delta) < 0.95 * local.epsilon(delta)
    # Steps that shrink fast leave so little noise behind an early contribution that hardly more than clear sight is stated.
    vanishing = sv.algorithms.random_walk(step_size=lambda t: 0.4 / t**3, contributions=5)
    found, local = account(algorithm=vanishing, losses=CONVEX), account(algorithm=vanishing)
    assert 0.97 * local.epsilon(DELTA) < found.epsilon(DELTA) <= local.epsilon(DELTA)


SCHEDULES = {
    "constant": (np.full(6, 0.4), np.full(6, 1.0)),
    "smaller steps": (0.4 / np.sqrt(np.arange(1, 7)), np.full(6, 1.0)),
    "longer steps": (0.1 * np.arange(1, 7), np.full(6, 0.7)),
    "louder": (np.full(6, 0.4), np.array([0.5, 0.6, 0.8, 1.0, 1.5, 2.0])),
    "to and fro": (np.array([0.4, 0.1, 0.3, 0.4, 0.05, 0.2]), np.array([1.0, 0.4, 2.0, 0.6, 1.1, 0.9])),
}


@pytest.mark.parametrize("in_gradients", [True, False])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("topology", [sv.topologies.ring(4), sv.topologies.path(3)])
def test_what_is_stated_is_above_the_average_of_all_given_ways(topology, schedule, in_gradients):
    """Every way of six hops has its own least mu (`walk.path_mu`), which some losses attain; delta is their average."""
    steps, stds = SCHEDULES[schedule]
    algorithm = sv.algorithms.random_walk(step_size=lambda t: float(steps[round(t) - 1]), contributions=2)
    kind = sv.noise.gradient if in_gradients else sv.noise.independent
    noise = kind(sv.noise.Gaussian(std=1.0)).scaled(lambda t: float(stds[round(t) - 1]))
    W, K, rounds = topology.matrix, topology.num_agents, 6
    means = {}
    for way in itertools.product(range(K), repeat=rounds + 1):
        probability = math.prod(W[a, b] for a, b in itertools.pairwise(way)) / K
        if probability:
            mu = walk.path_mu_of(
                np.array(way), num_agents=K, agent=1, observers=[0], std=stds, sensitivity=1.0, contributions=2, step_size=steps,
                noise_in="gradients" if in_gradients else "messages",
            )  # fmt: skip
            means[mu] = means.get(mu, 0.0) + probability
    asked = {"algorithm": algorithm, "rounds": rounds, "losses": CONVEX, "agent": 1, "sensitivity": 1.0}
    stated, half = (account(topology.with_walk(), noise=one, **asked) for one in (noise, noise.scaled(2.0)))
    for epsilon in (0.0, 0.4, 1.5):
        exact = sum(probability * gaussian.delta(mu, epsilon) for mu, probability in means.items() if mu)
        assert exact <= stated.delta(epsilon)
        if schedule == "constant":
            assert stated.delta(epsilon) <= 1.08 * exact + 1e-9
            assert half.delta(epsilon) < exact  # twice the noise is told from it


def test_noise_that_a_scheme_multiplies_is_refused_on_a_walk():
    """The map of a scheme is not played on a token, so that a factor in it must not be believed."""
    plain = sv.noise.independent(sv.noise.Gaussian(std=1.0))

    def tenth(links):
        bound = plain.spread(links)
        return bound._replace(link_value=0.1 * bound.link_value, self_value=0.1 * bound.self_value)

    own = sv.noise.designed(sv.noise.Gaussian(std=1.0), own=np.array([1.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]))
    for noise in (plain._replace(spread=tenth), own):
        for observer in (AGENT, EVERYBODY):
            with pytest.raises(sv.IncompatibleChoice, match="factors other than 1"):
                account(RING, noise=noise, observer=observer, losses=CONVEX)
    assert math.isfinite(account(RING, noise=plain, losses=CONVEX).epsilon(DELTA))


def test_steps_that_begin_late_are_accounted():
    late = sv.algorithms.random_walk(step_size=lambda t: (t > 2) * 0.5, contributions=2)
    noise = sv.noise.independent(sv.noise.Gaussian(std=1.0))
    found, local = (account(RING, algorithm=late, noise=noise, rounds=6, losses=losses) for losses in (CONVEX, None))
    assert 0 < found.epsilon(DELTA) <= local.epsilon(DELTA)


def test_participation_is_no_word_for_a_walk():
    with pytest.raises(sv.ConfigError, match="holds the token"):
        account(unit="record", participation="once")


# Calibration


@pytest.mark.parametrize("topology", [RING, COMPLETE])
@pytest.mark.parametrize("losses", [None, CONVEX])
@pytest.mark.parametrize("epsilon", [0.2, 8.0])
def test_calibrated_noise_meets_the_target_and_a_little_less_does_not(topology, losses, epsilon):
    asked = {"rounds": ROUNDS, "sensitivity": 2.0, "losses": losses}
    noise = sv.calibrate(topology, ALGORITHM, gradient_noise(1.0), AGENT, epsilon=epsilon, delta=DELTA, **asked)
    assert epsilon * (1 - 1e-4) < account(topology, noise=noise, losses=losses).epsilon(DELTA) <= epsilon * (1 + 1e-9)
    assert account(topology, noise=noise.scaled(0.99), losses=losses).epsilon(DELTA) > epsilon


# Small walks, every way of the token


def exact_delta(W, rounds, contributions, ratio, epsilon):
    """delta(epsilon) towards agent 0, who is told the whole way; agent 1's gradient is -Delta/2 or Delta/2 whatever the model.

    Between two looks of agent 0 the token moves by the sum of what others add. With c contributions of agent 1 and m noises of others
    (its own it knows) that sum is Gaussian, and its mean differs by c Delta: mu^2 = sum c^2 / (ratio^2 m). Ways are weighted by the walk.
    """
    K, total = len(W), 0.0
    for way in itertools.product(range(K), repeat=rounds + 1):
        probability = math.prod(W[a, b] for a, b in itertools.pairwise(way)) / K
        if probability == 0.0:
            continue
        made = shift = noises = squares = 0
        for holder, receiver in itertools.pairwise(way):
            noises += holder != 0
            if holder == 1 and made < contributions:
                made, shift = made + 1, shift + 1
            if receiver == 0:
                squares += shift**2 / noises if shift else 0.0
                shift = noises = 0
        total += probability * gaussian.delta(math.sqrt(squares) / ratio, epsilon) if squares else 0.0
    return total


SMALL = [(sv.topologies.complete(3), 6, 2), (sv.topologies.ring(4), 6, 3), (sv.topologies.path(3), 7, 7)]


@pytest.mark.parametrize(("topology", "rounds", "contributions"), SMALL)
def test_the_exact_divergence_over_all_ways_is_below_the_stated_delta_and_half_the_noise_is_caught(
    topology, rounds, contributions
):
    algorithm = sv.algorithms.random_walk(step_size=STEP, contributions=contributions)
    asked = {"algorithm": algorithm, "rounds": rounds, "losses": CONVEX, "agent": 1}
    for std in (1.0, 4.0):
        stated = account(topology.with_walk(), noise=gradient_noise(std), **asked)
        for epsilon in (0.0, 0.5, 2.0):
            exact = exact_delta(topology.matrix, rounds, contributions, std / 2.0, epsilon)
            assert 0 < exact <= stated.delta(epsilon)
    # Few contributions and much noise, where the bound is near enough to the truth to notice that half of the noise is missing.
    algorithm = sv.algorithms.random_walk(step_size=STEP, contributions=1)
    stated = account(topology.with_walk(), noise=gradient_noise(4.0), **{**asked, "algorithm": algorithm})
    assert exact_delta(topology.matrix, rounds, 1, 1.0, 0.5) > stated.delta(0.5)


def test_a_simulated_token_is_what_the_small_walks_assume_and_half_the_noise_is_noticed():
    """Agent 0 sees the token for the first time in the last hop: its law given the way is Gaussian with this mean and variance."""
    topology, rounds, repeats, std = sv.topologies.complete(3).with_walk(), 3, 6000, 2.0
    slopes = np.array([5.0, 0.7, -0.4])
    # a (a w - b) = -a b up to a^2 w: gradients that do not react.
    tiny = 1e-4
    given = sv.problems.linear_regression(np.full((3, 1, 1), tiny), (-slopes / tiny)[:, None], ridge=0.0)
    algorithm = sv.algorithms.random_walk(step_size=STEP, contributions=2)
    way = sv.topologies.walk_paths(topology, rounds, seed=6, repeats=repeats)
    first = (way[:, -1] == 0) & (way[:, :-1] != 0).all(axis=1)
    made = np.stack([np.minimum((way[:, :-1] == k).sum(axis=1), 2) for k in range(3)], axis=1)

    def standardised(actual):
        run = sv.simulate(
            given, topology, algorithm, gradient_noise(actual), rounds=rounds, repeats=repeats, seed=6, dtype="float64",
            record=(), progress=False,
        )  # fmt: skip
        return (run.models[first, 0, 0] + STEP * (made @ slopes)[first]) / (STEP * std * math.sqrt(rounds))

    assert first.sum() > 400
    assert stats.kstest(standardised(std), "norm").pvalue > 1e-3
    assert stats.kstest(standardised(std / 2), "norm").pvalue < 1e-6


@pytest.mark.parametrize("contributions", [1, 2, 4])
def test_the_longest_steps_count_also_where_the_last_is_the_longest(contributions):
    """Noise stands beside the step, so that a hop shows step / std of a change: the sum is over the largest ones there are."""
    algorithm = sv.algorithms.random_walk(step_size=lambda t: 0.1 * t, contributions=contributions)
    noise = sv.noise.independent(sv.noise.Gaussian(std=3.0))
    found = account(algorithm=algorithm, noise=noise, observer=EVERYBODY, rounds=4)
    longest = [0.4, 0.3, 0.2, 0.1][:contributions]
    assert found.mu == pytest.approx(2.0 / 3.0 * math.sqrt(sum(step**2 for step in longest)))


def test_how_often_an_agent_adds_to_a_token_is_assumed_on_walks_and_nowhere_else():
    assert any("adds at most 5 gradients" in one for one in account(observer=EVERYBODY).assumptions)
    assert any("every hop is drawn afresh" in one for one in account(losses=CONVEX).assumptions)
    peers = sv.account(
        sv.topologies.ring(7),
        sv.algorithms.atc(step_size=STEP),
        gradient_noise(3.0),
        EVERYBODY,
        rounds=3,
        sensitivity=2.0,
    )
    assert not any("token" in one or "adds at most" in one for one in peers.assumptions)


def test_the_reason_speaks_of_other_hops_only_where_they_hide_something():
    words = "hidden by the noise of other hops"
    assert words in account(losses=CONVEX).reason
    assert words not in account(losses=CONVEX, observer=EVERYBODY).reason
    assert words not in account().reason
