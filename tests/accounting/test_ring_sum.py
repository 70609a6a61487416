"""What agents on a ring learn from a summing token: the exact value against matrices, the published one, and simulated tokens."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import sottovoce as sv
from sottovoce.accounting import gaussian
from sottovoce.accounting.documents import cyffers_ring_epsilon
from sottovoce.accounting.gossip.ring_sum import ring_sum_mu
from sottovoce.algorithms.ring_sum import noisy_hops, ring_sum

SETTING = {"num_agents": 6, "passes": 4, "std": 2.0, "sensitivity": 1.0, "published": False}


def by_matrices(num_agents, passes, std, sensitivity, agent, observers, published):
    """mu from the covariance of all tokens that members receive, with their own noise known; the largest over all signs of the changes."""
    hops, noisy = num_agents * passes, noisy_hops(num_agents, passes)
    running = np.tril(np.ones((hops, hops)))  # token after hop h = sum of what hops up to h added
    rows = [h for h in range(hops) if (h + 1) % num_agents in observers or h % num_agents in observers]
    rows = sorted({*rows, hops - 1} if published else set(rows))
    if not rows:
        return 0.0
    hidden = [h for h in range(hops) if noisy[h] and h % num_agents not in observers]
    M, shifts = running[np.ix_(rows, hidden)] * std, running[rows][:, agent::num_agents] * sensitivity
    covariance = M @ M.T
    inverse = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True)
    clear = np.eye(len(rows)) - covariance @ inverse
    largest = 0.0
    for signs in itertools.product((-1.0, 0.0, 1.0), repeat=passes):
        moved = shifts @ np.array(signs)
        if np.abs(clear @ moved).max() > 1e-8:
            return math.inf
        largest = max(largest, float(moved @ inverse @ moved))
    return math.sqrt(largest)


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize(("n", "passes"), [(3, 1), (3, 4), (4, 3), (5, 5), (6, 2)])
def test_the_exact_value_is_that_of_the_matrices_for_every_agent_and_up_to_two_observers(n, passes, published):
    finite = infinite = 0
    for agent in range(n):
        others = [v for v in range(n) if v != agent]
        for observers in [*itertools.combinations(others, 1), *itertools.combinations(others, 2)]:
            given = {
                "num_agents": n,
                "passes": passes,
                "std": 1.7,
                "sensitivity": 0.6,
                "agent": agent,
                "published": published,
            }
            found = ring_sum_mu(observers=observers, **given)
            assert found == pytest.approx(by_matrices(observers=observers, **given), rel=1e-9, abs=1e-12)
            finite, infinite = finite + math.isfinite(found), infinite + math.isinf(found)
    assert finite > 0
    assert infinite > 0 or passes == 1


def test_one_observer_sees_one_noise_per_pass_however_many_agents_there_are():
    for n in (3, 10, 100):
        for agent, observers, passes in ((0, [1], 4), (1, [n - 1], 4), (n - 1, [0], 4), (n - 1, [1], 3)):
            if agent in observers:
                continue
            found = ring_sum_mu(**{**SETTING, "num_agents": n}, agent=agent, observers=observers)
            assert found == pytest.approx(math.sqrt(passes) / 2.0, rel=1e-12)


def test_the_published_bound_covers_the_exact_value_tenfold_and_a_tenth_of_the_noise_would_break_it():
    """Theorem 1 with the classical noise for (0.1, 1e-6) and 100 passes is 6.30823 (computed from the printed formula)."""
    statement = cyffers_ring_epsilon(epsilon=0.1, delta=1e-6, passes=100, slack=1e-6)
    assert statement.value == pytest.approx(6.30823, rel=1e-6)
    asked = {**SETTING, "passes": 100, "agent": 0, "observers": [3]}
    std = math.sqrt(2 * math.log(1.25e6)) / 0.1
    exact, total = ring_sum_mu(**{**asked, "std": std}), 101e-6
    assert exact == pytest.approx(10 / std, rel=1e-12)
    assert gaussian.epsilon(exact, total) < statement.value / 10  # advanced composition is that loose here
    assert gaussian.epsilon(ring_sum_mu(**{**asked, "std": std / 10}), total) > statement.value


def test_the_two_neighbours_of_an_agent_read_its_value_in_clear():
    assert ring_sum_mu(**SETTING, agent=2, observers=[1, 3]) == math.inf
    x = np.random.default_rng(0).normal(size=(4, 6, 1))
    tokens = ring_sum(x, std=50.0, seed=1).tokens[:, 0]
    assert tokens[2] - tokens[1] == pytest.approx(x[0, 2, 0], abs=1e-9)  # what 3 receives less what 1 handed on
    # Only where the agent adds the noise itself is there anything between them.
    assert math.isfinite(ring_sum_mu(**{**SETTING, "passes": 1}, agent=0, observers=[1, 5]))


def test_a_published_result_shows_the_values_after_the_last_noise_unless_the_last_hop_has_one():
    asked = {**SETTING, "published": True}
    assert ring_sum_mu(**asked, agent=5, observers=[4]) == math.inf
    x = np.random.default_rng(0).normal(size=(4, 6, 1))
    tokens = ring_sum(x, std=50.0, seed=1)
    assert tokens.result[0] - tokens.tokens[-2, 0] == pytest.approx(x[3, 5, 0], abs=1e-9)
    for passes in (1, 6, 11):  # 1 modulo n - 1
        for agent, observer in itertools.permutations(range(6), 2):
            assert math.isfinite(ring_sum_mu(**{**asked, "passes": passes}, agent=agent, observers=[observer]))


def test_what_an_observer_of_simulated_tokens_sees_has_this_mu_and_half_the_noise_is_caught():
    """Agent 3 adds up, over the passes, what moves when agent 1 has 1 instead of 0: mean K mu_1 or 0, variance K."""
    mu = ring_sum_mu(**SETTING, agent=1, observers=[3])

    def scores(own, std):
        x = np.zeros((4, 6, 1))
        x[:, 1] = own
        found = []
        for seed in range(1500):
            tokens = ring_sum(x, std=std, seed=seed).tokens[:, 0]
            received, handed = tokens[2::6], np.concatenate([[0.0], tokens[3::6][:-1]])
            found.append((received - handed).sum() / (2.0 * math.sqrt(4)))
        return np.array(found)

    assert stats.kstest(scores(0.0, 2.0), "norm").pvalue > 1e-3
    assert stats.kstest(scores(1.0, 2.0) - mu, "norm").pvalue > 1e-3
    assert stats.kstest(scores(0.0, 1.0), "norm").pvalue < 1e-6
    assert stats.kstest(scores(1.0, 2.0) - 1.5 * mu, "norm").pvalue < 1e-6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_agents": 2}, "num_agents = 2"),
        ({"passes": 0}, "passes = 0"),
        ({"std": 0.0}, "std = 0"),
        ({"sensitivity": math.nan}, "sensitivity = nan"),
        ({"agent": 6}, "agent = 6"),
        ({"agent": True}, "agent = True"),
        ({"observers": []}, "one or more others"),
        ({"observers": [1, 2]}, "one or more others"),
        ({"observers": [-1]}, "observer = -1"),
        ({"published": 1}, "published = 1"),
    ],
)
def test_what_is_no_ring_is_refused(change, words):
    with pytest.raises(sv.ConfigError, match=words):
        ring_sum_mu(**{**SETTING, "agent": 1, "observers": [3], **change})
