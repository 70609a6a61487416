"""Masked averages: what the relay and agents nobody knows can learn."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.sparse.csgraph import connected_components
from scipy.stats import norm

import sottovoce as sv
from sottovoce.accounting import gaussian
from sottovoce.accounting.calibration import noise_factor
from sottovoce.accounting.gopa import (
    MaskedTradeoff,
    disconnection,
    k_out_graph,
    party_mu,
    random_graph_delta,
    small_part,
)

CLIP = sv.clipping.Clip(1.0, "l2")
DELTA = 1e-6


def account(observer, *, n=200, std=2.0, rounds=5, **masks):
    algorithm = sv.algorithms.fedavg(
        step_size=0.1, local_steps=3, update_clip=CLIP, aggregation=sv.algorithms.Gopa(**masks) if masks else None
    )
    noise = sv.noise.independent(sv.noise.Gaussian(std=std))
    return sv.account(sv.topologies.federation(n), algorithm, noise, observer, rounds=rounds, sensitivity=2.0)


def every_pick(n: int, k: int):
    """All outcomes of the draw, each as likely as any other."""
    choices = [list(itertools.combinations([v for v in range(n) if v != u], k)) for u in range(n)]
    return itertools.product(*choices)


@pytest.mark.parametrize(("n", "k", "honest"), [(4, 1, 4), (5, 1, 3), (5, 1, 5), (4, 2, 3), (5, 2, 4)])
def test_disconnection_bounds_the_share_of_all_draws(n, k, honest):
    bad = total = 0
    for picks in every_pick(n, k):
        matrix = np.zeros((n, n))
        for u, chosen in enumerate(picks):
            matrix[u, list(chosen)] = 1
        bad += connected_components(matrix[:honest, :honest], directed=False)[0] > 1
        total += 1
    exact = bad / total
    bound = disconnection(n, honest, k)
    assert exact <= bound <= min(1.0, 3.5 * exact + 1e-12)


def test_disconnection_is_close_to_the_frequency_among_drawn_graphs():
    n, honest, k, draws = 60, 30, 5, 4000
    bad = sum(
        len(np.unique(connected_components(k_out_graph(n, k, honest_parties=honest, seed=s).adjacency)[1])) > 1
        for s in range(draws)
    )
    low, high = bad / draws - 4 * math.sqrt(bad) / draws, bad / draws + 4 * math.sqrt(bad) / draws
    bound = disconnection(n, honest, k)
    assert bound >= low
    assert bound <= 1.3 * high  # nearly tight: almost all bad graphs have one isolated agent
    assert disconnection(n, honest, k + 1) < low  # one partner more would not pass for k


@pytest.mark.parametrize(("n", "k", "honest"), [(4, 1, 4), (5, 1, 3), (5, 1, 5), (4, 2, 3), (5, 2, 4)])
def test_small_parts_are_bounded_by_the_share_of_all_draws(n, k, honest):
    sizes = []
    for picks in every_pick(n, k):
        matrix = np.zeros((n, n))
        for u, chosen in enumerate(picks):
            matrix[u, list(chosen)] = 1
        labels = connected_components(matrix[:honest, :honest], directed=False)[1]
        sizes.append(int((labels == labels[0]).sum()))
    for size in range(1, honest + 1):
        exact = np.mean(np.array(sizes) < size)
        assert exact <= small_part(n, honest, k, size) <= min(1.0, 3.5 * exact + 1e-12)


def test_risks_are_right_to_many_digits_for_many_agents_and_never_overflow():
    """One isolated agent dominates; Bonferroni's second term bounds from below what the union bounds from above."""
    n, honest, k = 100_000, 50_000, 20
    mpmath.mp.dps = 40
    ways = mpmath.binomial(n - 1, k)
    p = mpmath.binomial(n - honest, k) / ways * (mpmath.binomial(n - 2, k) / ways) ** (honest - 1)
    assert honest * p <= disconnection(n, honest, k) <= honest * p * 1.001
    assert p <= small_part(n, honest, k, honest // 2) <= p * 1.001
    assert disconnection(10**6, 2000, 1) == 1.0


def test_uniform_masks_cost_one_over_root_of_the_honest_agents():
    local = 2.0 * math.sqrt(5) / 2.0
    for share, honest in ((0.0, 200), (0.5, 100)):
        found = account(sv.observers.colluding_server(share), partners=40).epsilon(DELTA)
        assert gaussian.epsilon(local / math.sqrt(honest), DELTA) <= found
        assert found <= gaussian.epsilon(local / math.sqrt(honest), DELTA - 5 * disconnection(200, honest, 40))


def test_an_agent_fears_only_being_cut_off_itself():
    """Where somebody is cut off more often than delta allows, but hardly ever this one, masks still count."""
    n, honest, k = 200, 100, 16
    assert disconnection(n, honest, k) > 1e-7 > small_part(n, honest, k, honest // 2)
    law = MaskedTradeoff(local=1.0, num_agents=n, partners=k, corrupted=100, published=n, ratio=math.inf, rounds=1)
    assert law.epsilon(1e-7) < 1.03 * gaussian.epsilon(1.0 / math.sqrt(honest), 1e-7)


def test_the_exact_account_of_drawn_graphs_never_exceeds_the_masked_one():
    """For drawn graphs and coalitions the average of delta over graphs is below what is stated."""
    n, honest, k, std, ratio, epsilon = 60, 40, 12, 3.0, 4.0, 0.5
    for pairwise in (ratio, math.inf):
        stated = MaskedTradeoff(
            local=1.0 / std, num_agents=n, partners=k, corrupted=n - honest, published=n, ratio=pairwise, rounds=1
        ).delta(epsilon)
        deltas = []
        for seed in range(60):
            graph = k_out_graph(n, k, honest_parties=honest, seed=seed)
            mus = party_mu(graph, independent_std=std, pairwise_std=pairwise * std)
            deltas.append(gaussian.delta(float(mus[0]), epsilon))
        assert np.mean(deltas) <= stated
        assert stated < gaussian.delta(1.0 / std, epsilon)  # masks help


def test_one_round_with_gaussian_masks_is_at_least_as_good_as_the_degree_bound():
    masked = MaskedTradeoff(
        local=0.5, num_agents=500, partners=60, corrupted=250, published=500, ratio=40.0, rounds=1
    ).delta(0.1)
    by_degrees = random_graph_delta(
        500, 0.5, 60, independent_std=2.0, pairwise_std=80.0, sensitivity=1.0, epsilon=0.1
    ).delta
    assert masked <= by_degrees


def normal_delta(mu: float, epsilon: float) -> float:
    """What N(mu, 1) exceeds e^epsilon N(0, 1) by, from the normal distribution function alone."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def normal_epsilon(mu: float, delta: float) -> float:
    return float(brentq(lambda epsilon: normal_delta(mu, epsilon) - delta, 0.0, mu * mu / 2 + 40 * mu))


def counted_risk(n: int, honest: int, k: int, size: int) -> Fraction:
    """The union over all sets of fewer than `size` that hold one agent, in whole numbers."""
    every = math.comb(n - 1, k)
    return sum(
        (
            math.comb(honest - 1, j - 1)
            * Fraction(math.comb(n - 1 - honest + j, k), every) ** j
            * Fraction(math.comb(n - 1 - j, k), every) ** (honest - j)
            for j in range(1, size)
        ),
        Fraction(0),
    )


@pytest.mark.parametrize("rounds", [1, 5, 200])
def test_every_round_may_have_a_bad_graph(rounds):
    """By own arithmetic. After 200 rounds the risk of a cut is above delta: an agent is left with its own noise."""
    n, corrupted, k, local, delta = 30, 10, 4, 5.0, 1e-2
    honest = n - corrupted
    found = [normal_epsilon(local, delta)]
    for size in range(2, honest + 1):
        left = delta - rounds * float(counted_risk(n, honest, k, size))
        if left > 0:
            found.append(normal_epsilon(local / math.sqrt(size), left))
    stated = MaskedTradeoff(
        local=local, num_agents=n, partners=k, corrupted=corrupted, published=n, ratio=math.inf, rounds=rounds
    ).epsilon(delta)
    assert min(found) * (1 - 1e-6) <= stated <= min(found) * 1.02  # not every size is tried
    assert (stated > 23.0) == (rounds == 200)


def drawn_parts(n: int, honest: int, k: int, draws: int) -> np.ndarray:
    """[draws] how many honest agents the first one is connected to, itself included, when everybody picks k of n."""
    places = np.random.default_rng(5).random((draws, honest, n))
    places[:, np.arange(honest), np.arange(honest)] = 2.0  # nobody picks itself
    picked = np.zeros((draws, honest, n), dtype=bool)
    np.put_along_axis(picked, np.argsort(places, axis=2)[:, :, :k], True, axis=2)
    linked = picked[:, :, :honest] | picked[:, :, :honest].transpose(0, 2, 1)
    reached = np.arange(honest)[None, :] == np.zeros((draws, 1))
    for _ in range(honest):
        reached |= (linked & reached[:, :, None]).any(axis=1)
    return reached.sum(axis=1)


def test_an_attacker_who_waits_for_a_bad_graph_gains_no_more_than_is_stated():
    """Drawn graphs, a fresh one in each of six rounds: an agent that is alone in one of them is given away there."""
    n, honest, k, rounds, runs, a_round = 30, 20, 3, 6, 4000, 8.0  # mu of one round without masks is 8
    law = MaskedTradeoff(
        local=a_round * math.sqrt(rounds), num_agents=n, partners=k, corrupted=n - honest, published=n, ratio=math.inf, rounds=rounds
    )  # fmt: skip
    squares = (a_round**2 / drawn_parts(n, honest, k, runs * rounds)).reshape(runs, rounds).sum(axis=1)
    for epsilon in (25.0, 30.0):
        deltas = np.array([normal_delta(math.sqrt(square), epsilon) for square in squares])
        least = deltas.mean() - 4 * deltas.std() / math.sqrt(runs)
        assert least <= law.delta(epsilon)
        # The risk of one round alone would be refuted by what was drawn.
        assert least > min(
            float(counted_risk(n, honest, k, size)) + normal_delta(law.local / math.sqrt(size), epsilon)
            for size in range(2, honest + 1)
        )


def test_gaussian_masks_share_the_risk_of_a_badly_connected_graph_among_the_rounds():
    """By own arithmetic: stated is T P(lambda_2 < l) and the loss at l, for one l out of thirty."""
    n, corrupted, k, ratio, rounds, epsilon = 400, 100, 90, 6.0, 1000, 0.1
    honest, local = n - corrupted, 0.8
    s = k * honest / (n - 1)
    totals = [normal_delta(local, epsilon)]
    for failure in 10.0 ** -np.arange(1, 31):
        # T (H - 1) exp(-s (1 - x + x ln x)) = failure has a root in (0, 1) where the exponent below is in (0, 1).
        exponent = math.log(rounds * (honest - 1) / failure) / s
        if exponent >= 1:
            continue
        x = brentq(lambda x, exponent=exponent: 1 - x + x * math.log(x) - exponent, 1e-300, 1.0, xtol=1e-15)
        share = 1 / honest + (1 - 1 / honest) / (1 + ratio**2 * x * s)
        totals.append(failure + normal_delta(local * math.sqrt(share), epsilon))
    stated = MaskedTradeoff(
        local=local, num_agents=n, partners=k, corrupted=corrupted, published=n, ratio=ratio, rounds=rounds
    ).delta(epsilon)
    assert min(totals) < totals[0] / 100  # masks count here
    assert stated == pytest.approx(min(totals), rel=1e-6)


def test_epsilon_and_delta_are_inverse_and_on_the_safe_side():
    for ratio in (math.inf, 30.0):
        law = MaskedTradeoff(local=2.0, num_agents=300, partners=60, corrupted=50, published=280, ratio=ratio, rounds=7)
        epsilon = law.epsilon(DELTA)
        assert law.delta(epsilon) <= DELTA * (1 + 1e-9)
        assert law.delta(epsilon * 0.999) > DELTA
        assert law.scaled(2.0).epsilon(DELTA) < epsilon


@pytest.mark.parametrize("published", [10, 11])
def test_nobody_is_left_to_be_connected_with_where_one_agent_is_honest(published):
    law = MaskedTradeoff(
        local=1.0, num_agents=30, partners=29, corrupted=10, published=published, ratio=math.inf, rounds=3
    )
    assert law.graph_risk == 1.0
    assert law.delta(0.5) == gaussian.delta(1.0, 0.5)
    two = MaskedTradeoff(local=1.0, num_agents=30, partners=29, corrupted=10, published=12, ratio=math.inf, rounds=3)
    assert two.graph_risk == 0.0  # everybody masks with everybody


def test_masks_never_hurt_and_a_graph_that_may_fall_apart_does_not_help():
    alone = account(sv.observers.server()).epsilon(DELTA)
    assert account(sv.observers.colluding_server(0.5), partners=2).epsilon(DELTA) == alone
    assert account(sv.observers.colluding_server(0.99), partners=40).epsilon(DELTA) == alone
    assert account(sv.observers.colluding_server(0.5), partners=40).epsilon(DELTA) < alone / 5


def test_silent_agents_are_not_counted_on():
    everybody = account(sv.observers.server(), partners=40)
    quiet = account(sv.observers.server(), partners=40, silence=0.1, minimum_agents=150)
    assert quiet.tradeoff.honest == 150
    assert quiet.epsilon(DELTA) > everybody.epsilon(DELTA)
    # The risk of a bad graph is negligible here.
    assert quiet.epsilon(DELTA) == pytest.approx(gaussian.epsilon(math.sqrt(5) / math.sqrt(150), DELTA), rel=1e-6)
    released = account(sv.observers.final_model(), partners=40, silence=0.1, minimum_agents=150)
    assert released.epsilon(DELTA) == quiet.epsilon(DELTA)


def test_whoever_reads_the_board_is_as_curious_as_the_relay():
    """Members know their own noise: one agent fewer hides the others."""
    curious = account(sv.observers.curious_agent(3), partners=40)
    assert curious.tradeoff.corrupted == 1
    assert curious.epsilon(DELTA) > account(sv.observers.server(), partners=40).epsilon(DELTA)
    named = account(sv.observers.server() + sv.observers.coalition(range(100)), partners=40)
    assert named.epsilon(DELTA) == account(sv.observers.colluding_server(0.5), partners=40).epsilon(DELTA)
    assert named.agent == 100


def test_the_final_model_needs_no_graph():
    found = account(sv.observers.final_model(), partners=1)
    assert found.mu == pytest.approx(math.sqrt(5) / math.sqrt(200))


def test_calibrated_noise_meets_the_target():
    algorithm = sv.algorithms.fedavg(
        step_size=0.1, update_clip=CLIP, aggregation=sv.algorithms.Gopa(partners=40, silence=0.1, minimum_agents=170)
    )
    network, observer = sv.topologies.federation(200), sv.observers.colluding_server(0.5)
    noise = sv.calibrate(
        network, algorithm, sv.noise.independent(sv.noise.Gaussian(std=1.0)), observer, rounds=10, sensitivity=2.0, epsilon=1.0, delta=DELTA
    )  # fmt: skip
    found = sv.account(network, algorithm, noise, observer, rounds=10, sensitivity=2.0)
    assert 0.9999 < found.epsilon(DELTA) <= 1.0


def test_no_noise_is_no_guarantee():
    algorithm = sv.algorithms.fedavg(step_size=0.1, update_clip=CLIP, aggregation=sv.algorithms.Gopa(partners=40))
    found = sv.account(
        sv.topologies.federation(200), algorithm, sv.noise.none(), sv.observers.server(), rounds=1, sensitivity=2.0
    )
    assert found.validity == "infinite"


def test_agents_nobody_knows_are_accounted_under_masks_only():
    with pytest.raises(sv.UnsupportedClaim, match="Name them"):
        account(sv.observers.colluding_server(0.5))
    with pytest.raises(sv.ConfigError, match="below 1"):
        sv.observers.colluding_server(1.0)


def test_the_statement_says_what_it_counts_on():
    text = account(sv.observers.colluding_server(0.25), partners=40, silence=0.1, minimum_agents=150).explain(DELTA)
    assert "at least 100 agents outside the observer" in text
    assert "drawn after the agents are known" in text
    assert "Masked averages" in text


def test_a_promise_about_losses_is_among_the_assumptions():
    algorithm = sv.algorithms.fedavg(step_size=0.1, local_steps=3, aggregation=sv.algorithms.Gopa(partners=19))
    found = sv.account(
        sv.topologies.federation(20), algorithm, sv.noise.independent(sv.noise.Gaussian(std=1.0)), sv.observers.server(), rounds=1,
        sensitivity=0.1, unit="record", losses=sv.accounting.ConvexSmooth(1.0, 0.1),
    )  # fmt: skip
    assert any("convex" in one for one in found.assumptions)


def test_a_target_without_delta_is_refused():
    algorithm = sv.algorithms.fedavg(step_size=0.1, update_clip=CLIP, aggregation=sv.algorithms.Gopa(partners=19))
    with pytest.raises(sv.UnsupportedClaim, match="delta"):
        sv.calibrate(
            sv.topologies.federation(20), algorithm, sv.noise.independent(sv.noise.Gaussian(std=1.0)), sv.observers.server(), rounds=1,
            sensitivity=2.0, epsilon=1.0, delta=0.0,
        )  # fmt: skip


def test_no_noise_is_calibrated_for_somebody_who_learns_nothing():
    found = account(sv.observers.server(), partners=40)
    nothing = replace(found, tradeoff=replace(found.tradeoff, local=0.0))
    with pytest.raises(sv.UnsupportedClaim, match="learns nothing"):
        noise_factor(nothing, epsilon=1.0, delta=DELTA)


@pytest.mark.parametrize("factor", [0.0, -2.0, math.nan, math.inf, True])
def test_masked_noise_cannot_be_scaled_by_what_is_not_a_positive_finite_number(factor):
    found = account(sv.observers.colluding_server(0.5), partners=20)
    with pytest.raises(sv.ConfigError, match=r"factor = .*; it must be a number in \(0, inf\)"):
        found.tradeoff.scaled(factor)
