"""Several runs together, against accounts of one long run, other packages, convolved losses and enumerated draws."""

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.accounting import gaussian, pure, repeated
from sottovoce.accounting.gopa import MaskedTradeoff
from sottovoce.accounting.gopa.imperfect_noise import ChargedTradeoff, Way
from sottovoce.accounting.tradeoff import (
    FixedSizeTradeoff,
    GaussianTradeoff,
    PureTradeoff,
    SubsampledTradeoff,
    WorstTradeoff,
)
from sottovoce.accounting.walk import WalkTradeoff, complete_gaps

DELTA = 1e-5
RING, ATC = sv.topologies.ring(5), sv.algorithms.atc(step_size=0.4)
SUBSAMPLED = SubsampledTradeoff(noise_multiplier=2.0, sampling_rate=0.1, rounds=12, adjacency="add-remove")
FIXED = FixedSizeTradeoff(noise_multiplier=1.5, sampling_rate=0.2, rounds=6)
WALK = WalkTradeoff(gaps=complete_gaps(10, rounds=200), contributions=4, noise_multiplier=3.0)
MASKED = MaskedTradeoff(local=1.0, num_agents=40, partners=10, corrupted=8, published=40, ratio=math.inf, rounds=3)
CHARGED = ChargedTradeoff((Way(0.5, 1e-9), Way(0.8, 0.0)))
ALL = {
    "gaussian": GaussianTradeoff(0.7), "pure": PureTradeoff(0.3), "subsampled": SUBSAMPLED, "fixed size": FIXED, "walk": WALK,
    "worst walk": WorstTradeoff((WALK, WalkTradeoff(gaps=complete_gaps(6, rounds=200), contributions=2, noise_multiplier=2.0))),
    "masked": MASKED, "charged": CHARGED,
}  # fmt: skip


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 8), st.sampled_from(["gaussian", "laplace"]))
def test_runs_together_are_one_long_run_where_rounds_add_nothing_to_each_other(times, rounds, law):
    # ATC with self-noise: every gradient is taken at a public point, so R runs of T rounds give away what R T rounds do.
    made = sv.noise.Gaussian(std=2.0) if law == "gaussian" else sv.noise.Laplace(std=2.0)
    options = {"sensitivity": 0.5, "agent": 1}
    one, long = (
        sv.account(RING, ATC, sv.noise.independent(made), sv.observers.eavesdropper(), rounds=count, **options)
        for count in (rounds, rounds * times)
    )
    assert repeated(one.tradeoff, times).epsilon(DELTA) == pytest.approx(long.epsilon(DELTA), rel=1e-12)
    assert repeated(one.tradeoff, times).mu == pytest.approx(long.mu, rel=1e-12)


@pytest.mark.parametrize("times", [2, 10])
def test_gaussian_runs_agree_with_convolved_losses_of_another_package(times):
    one_run = pld.privacy_loss_distribution.from_gaussian_mechanism(1 / 0.7, value_discretization_interval=1e-4)
    expected = one_run.self_compose(times).get_epsilon_for_delta(DELTA)
    assert repeated(GaussianTradeoff(0.7), times).epsilon(DELTA) == pytest.approx(expected, rel=1e-3)
    assert repeated(GaussianTradeoff(0.7), times + 1).epsilon(DELTA) > 1.01 * expected  # power


@pytest.mark.parametrize("times", [2, 10])
def test_pure_runs_bound_the_composition_of_laplace_mechanisms_and_reach_it_at_delta_zero(times):
    found = repeated(PureTradeoff(0.3), times)
    assert found.epsilon(0.0) == pytest.approx(0.3 * times, rel=1e-12)
    one_run = pld.privacy_loss_distribution.from_laplace_mechanism(1 / 0.3, value_discretization_interval=1e-4)
    composed = one_run.self_compose(times)
    assert found.epsilon(DELTA) >= composed.get_epsilon_for_delta(DELTA)
    assert composed.get_epsilon_for_delta(1e-12 * 0.5**times) > 0.3 * (times - 1)  # one run less would not do
    assert found.delta(1.0) == pytest.approx(pure.delta(0.3 * times, 1.0), rel=1e-12)


def test_sampled_runs_agree_with_runs_composed_one_by_one_by_another_package():
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    event = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(2.0))
    for _ in range(5):
        accountant.compose(event, 12)
    assert repeated(SUBSAMPLED, 5).epsilon(DELTA) == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-3)
    assert repeated(SUBSAMPLED, 4).epsilon(DELTA) < 0.95 * accountant.get_epsilon(DELTA)  # power


def convolved(profile, times, epsilon, *, grid=2e-3, points=3000):
    """delta of `times` copies of the symmetric pair with delta = profile(epsilon): losses on a grid, convolved by NumPy."""
    deltas = np.array([profile(grid * i) for i in range(points + 1)])
    steps = np.append(deltas[:-1] - deltas[1:], 0.0)
    above = np.maximum(steps[:-1] + (steps[:-1] - steps[1:]) / math.expm1(grid), 0.0)
    below = above * np.exp(-grid * np.arange(1, points + 1))
    middle = max(0.0, 1.0 - deltas[-1] - above.sum() - below.sum())
    one = np.concatenate([below[::-1], [middle], above])
    together = one
    for _ in range(times - 1):
        together = np.convolve(together, one)
    losses = grid * (np.arange(len(together)) - times * points)
    return float((together * np.maximum(0.0, -np.expm1(epsilon - losses))).sum()) + 1 - together.sum()


def sampled_profile(epsilon):
    """One round on a sample of a fixed size, rate 0.2 and noise multiplier 1.5 (Balle, Barthe & Gaboardi 2018)."""
    return 0.2 * gaussian.delta(1 / 1.5, math.log1p(math.expm1(epsilon) / 0.2))


@pytest.mark.parametrize(
    ("one", "profile", "epsilon"),
    [
        (GaussianTradeoff(0.7), lambda epsilon: gaussian.delta(0.7, epsilon), 1.5),
        (FixedSizeTradeoff(noise_multiplier=1.5, sampling_rate=0.2, rounds=1), sampled_profile, 0.7),
    ],
)
def test_runs_of_one_round_agree_with_losses_convolved_by_hand(one, profile, epsilon):
    expected = convolved(profile, 3, epsilon)
    assert repeated(one, 3).delta(epsilon) == pytest.approx(expected, rel=0.02)
    assert repeated(one, 2).delta(epsilon) < 0.8 * expected < 1.2 * expected < repeated(one, 4).delta(epsilon)  # power


def shares_of_masks(n, ratio):
    """b of agent 0 under every outcome of the draw of one partner each, all equally likely: mu = local sqrt(b)."""
    found = []
    for picks in itertools.product(*([v for v in range(n) if v != u] for u in range(n))):
        weights = np.zeros((n, n))
        for u, v in enumerate(picks):
            weights[u, v] = weights[v, u] = 1.0
        laplacian = np.diag(weights.sum(axis=1)) - weights
        found.append(np.linalg.inv(np.eye(n) + ratio**2 * laplacian)[0, 0])
    return np.array(found)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.0])
def test_masked_runs_bound_the_average_over_all_graphs_of_every_run(epsilon):
    local, n, ratio = 1.0, 5, 1e4
    one = MaskedTradeoff(local=local, num_agents=n, partners=1, corrupted=0, published=n, ratio=math.inf, rounds=1)
    values, counts = np.unique(np.round(shares_of_masks(n, ratio), 9), return_counts=True)
    exact = sum(
        first * second / counts.sum() ** 2 * gaussian.delta(local * math.sqrt(a + b), epsilon)
        for (a, first), (b, second) in itertools.product(zip(values, counts, strict=True), repeat=2)
    )
    assert exact <= repeated(one, 2).delta(epsilon)


def test_the_risk_of_a_bad_graph_and_the_loss_both_grow_with_masked_runs():
    found = repeated(MASKED, 7)
    assert found.graph_risk == pytest.approx(7 * MASKED.graph_risk, rel=1e-12)
    together = math.sqrt(7) * MASKED.local / math.sqrt(MASKED.honest)  # as if the graph were certain
    assert found.epsilon(1e-3) >= gaussian.epsilon(together, 1e-3)
    assert found.epsilon(1e-3) <= gaussian.epsilon(math.sqrt(7) * MASKED.local, 1e-3)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_charged_runs_add_up_squares_and_distances(epsilon):
    expected = min(gaussian.delta(0.5 * 3, epsilon) + (1 + math.exp(epsilon)) * 9e-9, gaussian.delta(0.8 * 3, epsilon))
    assert repeated(CHARGED, 9).delta(epsilon) == pytest.approx(expected, rel=1e-9)
    assert repeated(ChargedTradeoff((Way(0.1, 0.4),)), 5).ways[0].total_variation == 1.0


def test_walks_bound_a_mixture_of_drawn_gaps_and_their_divergences_add_up():
    times, epsilon, draws = 6, 0.6, 20_000
    found = repeated(WALK, times)
    assert found.renyi(3.0) == pytest.approx(times * WALK.renyi(3.0), rel=1e-12)
    generator = np.random.default_rng(0)
    gaps, probabilities = WALK.gaps.lengths, WALK.gaps.probabilities
    inverse = np.append(1.0 / gaps, 0.0)
    chosen = generator.choice(
        inverse, p=np.append(probabilities, max(0.0, 1 - probabilities.sum())), size=(draws, times * 4)
    )
    mus = np.sqrt(chosen.sum(axis=1)) / WALK.noise_multiplier
    exact = np.mean([gaussian.delta(mu, epsilon) for mu in mus])
    assert exact < found.delta(epsilon)
    assert WALK.delta(epsilon) < 0.5 * exact  # one run alone would be too small


@pytest.mark.parametrize("name", sorted(ALL))
def test_more_runs_never_give_away_less_and_one_run_is_itself(name):
    one = ALL[name]
    assert repeated(one, 1) is one
    values = [repeated(one, times).epsilon(1e-3) for times in (1, 2, 5)]
    assert values[0] < values[1] < values[2]
    nested, direct = repeated(repeated(one, 2), 3), repeated(one, 6)
    assert nested.epsilon(1e-3) == pytest.approx(direct.epsilon(1e-3), rel=1e-9)


def test_nothing_hidden_stays_nothing_hidden():
    assert repeated(GaussianTradeoff(math.inf), 3).epsilon(DELTA) == math.inf
    assert repeated(PureTradeoff(math.inf), 3).epsilon(DELTA) == math.inf


@pytest.mark.parametrize("times", [0, -1, 1.5, True, "2"])
def test_a_number_of_runs_is_a_whole_number(times):
    with pytest.raises(sv.ConfigError, match=r"times = .*whole number of at least 1"):
        repeated(GaussianTradeoff(1.0), times)


def test_a_guarantee_without_a_proved_rule_is_refused():
    unknown = sv.accounting.walk.RenyiTradeoff(rate=0.1, largest_order=5.0)
    with pytest.raises(sv.UnsupportedClaim, match="3 runs together were asked of a RenyiTradeoff; no rule"):
        repeated(unknown, 3)
