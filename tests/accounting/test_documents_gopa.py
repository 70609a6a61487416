"""The closed forms for cancelling noise of pairs: their reference values, and that the exact accountant agrees they are enough."""

import math

import numpy as np
import pytest

from sottovoce import topologies
from sottovoce.accounting import documents, gaussian, gopa
from sottovoce.errors import ConfigError, UnsupportedClaim

TARGET = {"epsilon": 0.1, "delta": 1e-7, "delta_prime": 1e-8}


def std(statement):
    assert statement.kind == "variance"
    assert statement.upper_bound
    return math.sqrt(statement.value)


def test_reference_setting_has_its_values():
    """n = 10000, all honest, delta' = 1/n^2, delta = 10 delta': a snapshot of the formulas; 44.7 and 9392.0 are recalled as published."""
    own = documents.sabater_gopa_own_variance(honest_parties=10_000, epsilon=0.1, delta_prime=1e-8)
    assert std(own) == pytest.approx(0.610636, rel=1e-5)
    assert documents.sabater_gopa_kappa(1e-7, 1e-8, graph="k-out") == pytest.approx(14.485, rel=1e-4)
    assert documents.sabater_gopa_kappa(1e-7, 1e-8, graph="given") == pytest.approx(7.097, rel=1e-4)
    assert documents.sabater_gopa_least_k(10_000, 1.0, delta=1e-7) == 105
    assert std(documents.sabater_gopa_k_out_variance(10_000, 1.0, 105, **TARGET)) == pytest.approx(44.7217, rel=1e-5)
    assert std(documents.sabater_gopa_connected_variance(honest_parties=10_000, **TARGET)) == pytest.approx(
        9391.97, rel=1e-5
    )
    assert std(documents.sabater_gopa_complete_variance(honest_parties=10_000, **TARGET)) == pytest.approx(
        1.62674, rel=1e-5
    )


@pytest.mark.parametrize(
    ("n", "rho", "own", "complete", "least", "k_out", "connected"),
    [
        (1000, 1.0, 1.67563, 3.783, 77, 53.356, 2184.09),
        (1000, 0.5, 2.24965, 4.7695, 137, 59.31, 1376.84),
        (100, 1.0, 4.34361, 7.6439, 49, 77.27, 441.32),
        (10_000, 0.5, 0.830844, 2.11740, 192, 45.988, 6112.42),
    ],
)
def test_other_settings_have_their_values(n, rho, own, complete, least, k_out, connected):
    """delta' = 1 / H^2, delta = 10 delta', epsilon = 0.1; a snapshot of the formulas, computed apart from this code."""
    honest = int(rho * n)
    target = {"epsilon": 0.1, "delta": 10 / honest**2, "delta_prime": 1 / honest**2}
    stated = documents.sabater_gopa_own_variance(honest_parties=honest, epsilon=0.1, delta_prime=1 / honest**2)
    assert std(stated) == pytest.approx(own, rel=1e-5)
    assert std(documents.sabater_gopa_complete_variance(honest_parties=honest, **target)) == pytest.approx(
        complete, rel=2e-4
    )
    assert documents.sabater_gopa_least_k(n, rho, delta=target["delta"]) == least
    assert std(documents.sabater_gopa_k_out_variance(n, rho, least, **target)) == pytest.approx(k_out, rel=2e-4)
    assert std(documents.sabater_gopa_connected_variance(honest_parties=honest, **target)) == pytest.approx(
        connected, rel=1e-5
    )


def test_general_condition_is_on_the_safe_side_with_a_factor_of_two_in_delta():
    assert documents.sabater_gopa_theta_max(0.1, 4e-7).value == pytest.approx(3.43502e-04, rel=1e-5)
    for epsilon in np.linspace(0.001, 0.999, 25):
        for delta in np.append(np.geomspace(1e-12, 0.5, 25), 0.78):
            theta = documents.sabater_gopa_theta_max(float(epsilon), float(delta)).value
            root = math.sqrt(theta)
            assert epsilon >= root + theta / 2 - 1e-12
            assert gaussian.delta(root, float(epsilon)) <= delta / 2


@pytest.mark.parametrize("n", [20, 120])
def test_complete_and_connected_graphs_meet_the_target_exactly_accounted(n):
    target = {"epsilon": 0.7, "delta": 1e-4, "delta_prime": 1e-6}
    own = std(documents.sabater_gopa_own_variance(honest_parties=n, epsilon=0.7, delta_prime=1e-6))
    allowed = gaussian.mu(0.7, 1e-4)
    complete = std(documents.sabater_gopa_complete_variance(honest_parties=n, **target))
    mu = gopa.party_mu(topologies.complete(n), independent_std=own, pairwise_std=complete)
    assert 0.5 * allowed < mu.max() < allowed
    connected = std(documents.sabater_gopa_connected_variance(honest_parties=n, **target))
    for graph in (topologies.path(n), topologies.star(n), topologies.ring(n)):
        mu = gopa.party_mu(graph, independent_std=own, pairwise_std=connected)
        assert 0.5 * allowed < mu.max() < allowed
    assert gopa.party_mu(topologies.path(n), independent_std=own, pairwise_std=complete).max() > allowed


@pytest.mark.parametrize(("n", "rho"), [(1000, 1.0), (1000, 0.5), (10_000, 0.5), (100_000, 0.3)])
def test_random_graph_form_is_proved_by_the_theorem_on_connectivity(n, rho):
    honest = int(rho * n)
    target = {"epsilon": 0.1, "delta": 10 / honest**2, "delta_prime": 1 / honest**2}
    k = documents.sabater_gopa_least_k(n, rho, delta=target["delta"])
    assert gopa.connectivity_failure(n, rho, k, lambda_2=rho * k / 3) < target["delta"] / 3
    energy = 1 / (math.floor((k - 1) * rho / 3) - 1) + (12 + 6 * math.log(honest)) / honest
    assert 3 / (rho * k) < energy
    own = std(documents.sabater_gopa_own_variance(honest_parties=honest, epsilon=0.1, delta_prime=1 / honest**2))
    pair = std(documents.sabater_gopa_k_out_variance(n, rho, k, **target))
    if n <= 10_000:
        ours = gopa.random_graph_delta(n, rho, k, independent_std=own, pairwise_std=pair, sensitivity=1.0, epsilon=0.1)
        assert ours.delta < target["delta"]


def test_exact_guarantee_of_the_reference_setting_has_half_the_epsilon():
    """n = 10000, complete: mu = 0.0174920, epsilon 0.0709820 at 1e-7, by the closed form of the complete graph."""
    own, pair, n = 0.610636, 1.62674, 10_000
    square = spectral_value(n, own, pair)
    assert math.sqrt(square) == pytest.approx(0.0174920, rel=1e-5)
    assert gaussian.epsilon(math.sqrt(square), 1e-7) == pytest.approx(0.0709820, rel=1e-5)


def spectral_value(n, own, pair):
    return float(gopa.party_bound(np.array([n - 1]), size=n, lambda_2=float(n), ratio=(pair / own) ** 2)[0]) / own**2


def test_conditions_are_enforced():
    with pytest.raises(UnsupportedClaim, match="105"):
        documents.sabater_gopa_k_out_variance(10_000, 1.0, 104, **TARGET)
    with pytest.raises(UnsupportedClaim, match="81"):
        documents.sabater_gopa_least_k(100, 0.5, delta=1e-6)
    with pytest.raises(ConfigError):
        documents.sabater_gopa_own_variance(honest_parties=100, epsilon=1.0, delta_prime=1e-6)
    with pytest.raises(ConfigError):
        documents.sabater_gopa_kappa(1e-7, 1e-7, graph="k-out")
    with pytest.raises(ConfigError):
        documents.sabater_gopa_kappa(1e-7, 1e-8, graph="ring")
    with pytest.raises(ConfigError):
        documents.sabater_gopa_theta_max(0.5, 0.8)


def test_statements_read_as_sentences():
    text = str(documents.sabater_gopa_complete_variance(honest_parties=10_000, **TARGET))
    assert "Sabater et al. 2022" in text
    assert "which holds" in text
