"""From a run to its absorption programme: what is stated is never below what losses within the promise attain."""

import pytest

import sottovoce as sv

OBSERVERS = [
    sv.observers.curious_agent(2),
    sv.observers.curious_agent(2) + sv.observers.final_model(),
    sv.observers.coalition([2, 4]) + sv.observers.final_model(),
    sv.observers.final_model(),
]


def account(observer, *, rounds, algorithm=sv.algorithms.atc, weights="metropolis"):
    return sv.account(
        sv.topologies.path(5, weights=weights), algorithm(step_size=0.5), sv.noise.independent(sv.noise.Gaussian(std=1.0)), observer,
        rounds=rounds, sensitivity=1.0, agent=0, losses=sv.accounting.ConvexSmooth(1.0),
    )  # fmt: skip


@pytest.mark.parametrize("observer", OBSERVERS, ids=str)
@pytest.mark.parametrize("weights", ["metropolis", "uniform"])
def test_no_observer_of_a_part_is_promised_more_than_linear_losses_keep(observer, weights):
    """Linear losses are convex and smooth, and their gradients do not react: the linear view of them is attained."""
    used = set()
    for rounds in (2, 3, 5):
        found = account(observer, rounds=rounds, weights=weights)
        assert found.linear_mu * (1 - 1e-9) <= found.mu
        assert found.mu < float("inf")
        used.add(found.validity)
    assert "absorption" in used


@pytest.mark.parametrize("rounds", [2, 3, 5])
def test_a_coalition_that_knows_the_noise_it_added_is_accounted_exactly(rounds):
    """With agents 2 and 4 in it only agents 0, 1 and 3 hide anything in the final model, and the bound is reached."""
    found = account(OBSERVERS[2], rounds=rounds)
    assert found.validity == "absorption"
    assert found.mu == pytest.approx(found.linear_mu, rel=1e-9)


@pytest.mark.parametrize("algorithm", [sv.algorithms.cta, sv.algorithms.consensus])
def test_the_last_gradient_of_cta_and_consensus_is_not_sent(algorithm):
    """It enters the message of the next round: T rounds of them send what T - 1 rounds of ATC do, so far as nothing has come back."""
    assert account(OBSERVERS[0], rounds=2, algorithm=algorithm).mu == 0.0
    assert account(OBSERVERS[0], rounds=3, algorithm=algorithm).mu == pytest.approx(account(OBSERVERS[0], rounds=2).mu)
