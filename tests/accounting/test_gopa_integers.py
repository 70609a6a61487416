"""Whole numbers: both proofs against the exact laws of rounded noise and rounded masks, by enumeration."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from sottovoce.accounting import gaussian, gopa
from sottovoce.accounting.gopa.imperfect_noise import ChargedTradeoff
from sottovoce.accounting.gopa.integers import IntegerNoise, integer_delta, integer_ways
from sottovoce.errors import ConfigError

EPSILONS = np.linspace(0.0, 4.0, 9)
GRAPHS = {"pair": (2, [(0, 1)]), "path": (3, [(0, 1), (1, 2)]), "triangle": (3, [(0, 1), (1, 2), (0, 2)])}


def rounded(std):
    """Probabilities of a rounded Gaussian, centred."""
    width = math.ceil(8 * std + 1)
    return np.diff(norm.cdf((np.arange(-width, width + 2) - 0.5) / std))


def law_of_sum(std, parties):
    law = np.array([1.0])
    for _ in range(parties):
        law = np.convolve(law, rounded(std))
    return law


def law_of_view(parties, pairs, own, mask):
    """Joint law of what all parties publish, [width] * parties, by adding one mask after the other."""
    one, pair = rounded(own), rounded(mask)
    reach = len(pair) // 2
    law = np.array(1.0)
    for party in range(parties):
        degree = sum(party in ends for ends in pairs)
        law = np.multiply.outer(law, np.pad(one, degree * reach))
    for u, v in pairs:
        law = sum(p * np.roll(law, (j - reach, reach - j), axis=(u, v)) for j, p in enumerate(pair))
    return law


def exact_delta(law, shift, epsilon, axis=0):
    """Hockey-stick divergence between a law on whole numbers and its shift."""
    ahead = [(shift, 0) if a == axis else (0, 0) for a in range(law.ndim)]
    behind = [(0, shift) if a == axis else (0, 0) for a in range(law.ndim)]
    return np.maximum(np.pad(law, behind) - math.exp(epsilon) * np.pad(law, ahead), 0.0).sum()


def uniform(std, parties, dimension=1):
    return IntegerNoise(own_std=std, honest_parties=parties, dimension=dimension, mask_std=math.inf)


def masked(parties, pairs, own, mask, dimension=1):
    degree = max(sum(party in ends for ends in pairs) for party in range(parties))
    return IntegerNoise(
        own_std=own,
        honest_parties=parties,
        dimension=dimension,
        mask_std=mask,
        pairs=len(pairs),
        largest_degree=degree,
    )


def incidence(parties, pairs):
    K = np.zeros((parties, len(pairs)))
    for column, (u, v) in enumerate(pairs):
        K[u, column], K[v, column] = 1.0, -1.0
    return K


@pytest.mark.parametrize("std", [0.2, 0.4, 1.0, 3.0])
@pytest.mark.parametrize("parties", [1, 2, 7, 20])
@pytest.mark.parametrize("shift", [1, 3, 10])
def test_each_proof_covers_the_exact_sum_of_rounded_noise(std, parties, shift):
    law, mu = law_of_sum(std, parties), shift / (std * math.sqrt(parties))
    ways = integer_ways(uniform(std, parties), mu=mu, sensitivity=shift)
    for epsilon in EPSILONS:
        exact = exact_delta(law, shift, epsilon)
        for way in ways:
            assert exact <= ChargedTradeoff((way,)).delta(epsilon) + 1e-12


def test_the_continuous_guarantee_is_not_one_for_coarse_whole_numbers():
    # Twenty parties with a fifth of a unit each: their rounded noise is almost always zero.
    law, mu = law_of_sum(0.2, 20), 1 / (0.2 * math.sqrt(20))
    assert exact_delta(law, 1, 1.0) > gaussian.delta(mu, 1.0) + 0.05


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("own", "mask"), [(0.3, 0.5), (0.6, 0.3), (0.7, 1.0), (1.0, 2.0)])
@pytest.mark.parametrize("shift", [1, 3])
def test_each_proof_covers_the_exact_view_of_rounded_masks(graph, own, mask, shift):
    parties, pairs = GRAPHS[graph]
    law, noise = law_of_view(parties, pairs, own, mask), masked(parties, pairs, own, mask)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    mus = gopa.party_mu(
        gopa.from_pairs(parties, np.array(pairs)), independent_std=own, pairwise_std=mask, sensitivity=shift
    )
    for party in range(parties):
        ways = integer_ways(noise, mu=float(mus[party]), sensitivity=shift)
        for epsilon in (0.0, 1.0, 3.0):
            exact = exact_delta(law, shift, epsilon, axis=party)
            for way in ways:
                assert exact <= ChargedTradeoff((way,)).delta(epsilon) + 1e-12


def test_rounded_masks_break_the_gaussian_guarantee_where_they_are_coarse_and_not_where_they_are_fine():
    parties, pairs = GRAPHS["pair"]
    graph = gopa.from_pairs(parties, np.array(pairs))
    coarse = float(gopa.party_mu(graph, independent_std=0.3, pairwise_std=0.5)[0])
    assert exact_delta(law_of_view(parties, pairs, 0.3, 0.5), 1, 0.0) > gaussian.delta(coarse, 0.0) + 0.01
    fine = float(gopa.party_mu(graph, independent_std=2.5, pairwise_std=5.0, sensitivity=4.0)[0])
    law = law_of_view(parties, pairs, 2.5, 5.0)
    for epsilon in (0.0, 0.5, 1.5):
        stated = integer_delta(epsilon, masked(parties, pairs, 2.5, 5.0), mu=fine, sensitivity=4.0)
        # Rounding adds 1/12 to each variance: the truth lies a little below what is stated.
        assert 0.95 * stated < exact_delta(law, 4, epsilon) <= stated


@given(st.integers(1, 4), st.integers(1, 2), st.integers(1, 6))
def test_shifts_are_above_the_best_split_into_whole_numbers(parties, dimension, radius):
    best = 0.0
    for change in product(range(-radius, radius + 1), repeat=dimension):
        if sum(c * c for c in change) <= radius**2:
            squares = 0
            for c in change:
                q, r = divmod(abs(c), parties)
                squares += r * (q + 1) ** 2 + (parties - r) * q**2
            best = max(best, squares)
    bound = uniform(1.0, parties, dimension).shifted_mu(radius / math.sqrt(parties), radius) ** 2
    assert best <= bound * (1 + 1e-12)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("own", "mask"), [(1.0, 1.0), (0.5, 2.0), (3.0, 0.7)])
def test_shifts_are_above_the_best_whole_flow_and_the_real_one_is_below(graph, own, mask):
    parties, pairs = GRAPHS[graph]
    K, noise = incidence(parties, pairs), masked(parties, pairs, own, mask)
    inverse = np.linalg.inv(own**2 * np.eye(parties) + mask**2 * K @ K.T)
    for party, change in product(range(parties), (1, 2, 5)):
        flows = np.array(list(product(range(-change, change + 1), repeat=len(pairs)))).T
        left = change * np.eye(parties)[:, [party]] - K @ flows
        best = ((left**2).sum(axis=0) / own**2 + (flows**2).sum(axis=0) / mask**2).min()
        mu = change * math.sqrt(inverse[party, party])
        assert mu**2 <= best * (1 + 1e-12)
        assert best <= noise.shifted_mu(mu, change) ** 2 * (1 + 1e-12)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("own", "mask"), [(0.8, 0.8), (1.0, 0.5), (1.2, 3.0)])
def test_rounding_error_of_masks_is_above_the_sum_over_the_dual_lattice(graph, own, mask):
    parties, pairs = GRAPHS[graph]
    K = incidence(parties, pairs)
    C = np.linalg.inv(np.eye(len(pairs)) / mask**2 + K.T @ K / own**2)
    points = np.array(list(product(range(-6, 7), repeat=len(pairs))))
    terms = np.exp(-2 * math.pi**2 * np.einsum("za,ab,zb->z", points, C, points))
    assert terms.sum() - 1.0 <= masked(parties, pairs, own, mask).total_variation < 1.0


def test_the_smaller_delta_is_stated_and_either_proof_can_give_it():
    coarse, fine = uniform(0.2, 7), uniform(3.0, 7)
    for noise, winner in ((coarse, 1), (fine, 0)):
        mu = 3 / (noise.own_std * math.sqrt(7))
        values = [ChargedTradeoff((way,)).delta(1.0) for way in integer_ways(noise, mu=mu, sensitivity=3.0)]
        assert values[winner] < values[1 - winner]
        assert integer_delta(1.0, noise, mu=mu, sensitivity=3.0) == min(values)


def test_with_enough_fraction_bits_whole_numbers_cost_nothing():
    mu = 1 / (0.57 * math.sqrt(5000))
    fine = IntegerNoise(own_std=0.57 * 2**16, honest_parties=5000, dimension=10_000, mask_std=math.inf)
    assert integer_delta(0.1, fine, mu=mu, sensitivity=2.0**16) == gaussian.delta(mu, 0.1)
    masks = IntegerNoise(
        own_std=0.57 * 2**16,
        honest_parties=5000,
        dimension=10_000,
        mask_std=28.0 * 2**16,
        pairs=100_000,
        largest_degree=80,
    )
    assert integer_delta(0.1, masks, mu=mu, sensitivity=2.0**16) == gaussian.delta(mu, 0.1)
    # Shifts alone would need far more bits: the split has more parts than the vector has units.
    coarse = IntegerNoise(own_std=0.04 * 2**16, honest_parties=10**6, dimension=1, mask_std=math.inf)
    assert coarse.shifted_mu(1 / (0.04 * 1e3), 2.0**16) > 3 / (0.04 * 1e3)


def test_one_party_alone_has_the_continuous_guarantee():
    for noise in (uniform(0.4, 1, 9), IntegerNoise(own_std=0.4, honest_parties=1, dimension=9, mask_std=2.0)):
        assert noise.total_variation == 0.0
        assert noise.shifted_mu(5.0, 2.0) == pytest.approx(5.0)


def test_imperfect_draws_are_charged_in_both_proofs():
    ways = integer_ways(uniform(3.0, 4), mu=0.5, sensitivity=3.0, sampler_error=1e-9)
    assert ways[0].total_variation == pytest.approx(uniform(3.0, 4).total_variation + 1e-9)
    assert ways[1].total_variation == 1e-9


@pytest.mark.parametrize(
    "wrong",
    [
        {"own_std": 0.0},
        {"own_std": math.nan},
        {"honest_parties": 0},
        {"honest_parties": True},
        {"dimension": 1.5},
        {"mask_std": 0.0},
        {"mask_std": -math.inf},
        {"pairs": 1},
        {"pairs": 4},
        {"largest_degree": 3},
    ],
)
def test_noise_out_of_range_is_refused(wrong):
    given = {"own_std": 1.0, "honest_parties": 3, "dimension": 1, "mask_std": 2.0, "pairs": 3, "largest_degree": 2}
    IntegerNoise(**given)
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))}|connect"):
        IntegerNoise(**given | wrong)


@pytest.mark.parametrize("wrong", [{"mu": 0.0}, {"sensitivity": -1.0}, {"sampler_error": 2.0}, {"mu": math.nan}])
def test_questions_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        integer_delta(1.0, uniform(1.0, 2), **{"mu": 1.0, "sensitivity": 1.0} | wrong)


def test_whole_shifts_cost_a_quarter_per_entry_of_noise_and_of_masks():
    """By hand: three parties on a path, own noise of 2 and masks of 3 units, a change by 4 units."""
    part = {"own_std": 2.0, "honest_parties": 3, "dimension": 1}
    masked = IntegerNoise(**part, mask_std=3.0, pairs=2, largest_degree=2)
    assert masked.shifted_mu(1.2, 4.0) == pytest.approx(math.sqrt(1.44 + 3 / 4 / 4 + 2 / 4 / 9))
    assert masked.shifted_mu(1.99, 4.0) == pytest.approx(4.0 / 2.0)  # no worse than alone
    uniform = IntegerNoise(**part, mask_std=math.inf)
    assert uniform.shifted_mu(1.2, 4.0) == pytest.approx(math.sqrt(1.44 + 3 / 4 / 4))
    # Own noise takes shifts of one sign: no more than sqrt(d) times the change of them.
    many = IntegerNoise(own_std=2.0, honest_parties=50, dimension=1, mask_std=math.inf)
    assert many.shifted_mu(0.3, 4.0) == pytest.approx(math.sqrt(0.09 + 4.0 / 4))


def test_rounded_masks_are_charged_for_the_largest_eigenvalue_a_degree_allows():
    """Two sides of four parties, everybody masked with the other side: the Laplacian reaches twice the degree."""
    across = np.block([[np.zeros((4, 4)), np.ones((4, 4))], [np.ones((4, 4)), np.zeros((4, 4))]])
    largest = float(np.linalg.eigvalsh(np.diag(across.sum(axis=1)) - across)[-1])
    own, mask, dimension, pairs = 3.0, 2.0, 2, 16
    q = math.exp(-2 * math.pi**2 / (1 / mask**2 + largest / own**2))
    exact = math.expm1(pairs * dimension * math.log1p(2 * sum(q ** (j * j) for j in range(1, 10))))
    noise = IntegerNoise(
        own_std=own, honest_parties=8, dimension=dimension, mask_std=mask, pairs=pairs, largest_degree=4
    )
    assert exact * (1 - 1e-12) <= noise.total_variation <= exact * 1.001
