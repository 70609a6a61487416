"""A guarantee in words, in JSON, and under Poisson sampling against another package."""

import json
import math

import dp_accounting
import pytest
from dp_accounting import pld

import sottovoce as sv
from sottovoce.accounting import gaussian, pure
from sottovoce.accounting.mechanisms import laplace as laplace_rounds

RING = sv.topologies.ring(6)
ATC = sv.algorithms.atc(step_size=0.4)
LAW = sv.noise.Gaussian(std=0.7)
SELF = sv.noise.independent(LAW)
LAPLACE = sv.noise.independent(sv.noise.Laplace(std=5.0))
ALL, FAR = sv.observers.eavesdropper(), sv.observers.curious_agent(5)
SMOOTH = sv.accounting.ConvexSmooth(beta=1.0)


def account(noise=SELF, observer=ALL, algorithm=ATC, **more):
    return sv.account(RING, algorithm, noise, observer, **{"rounds": 7, "sensitivity": 1.0, "agent": 2, **more})


GUARANTEES = {
    "exact": lambda: account(),
    "sent-messages": lambda: account(observer=FAR),
    "absorption": lambda: account(observer=FAR, losses=SMOOTH),
    "amplified-by-iteration": lambda: account(
        observer=sv.observers.final_model(), losses=sv.accounting.ConvexSmooth(beta=1.0, nu=1.0)
    ),
    "infinite": lambda: account(noise=sv.noise.local_graph_homomorphic(LAW), observer=sv.observers.curious_agent(3)),
    "pure": lambda: account(noise=LAPLACE),
    "record": lambda: account(unit="record", adjacency="add-remove", participation=sv.accounting.cyclic(2, 3)),
    "poisson": lambda: account(
        SELF.scaled(4.0), unit="record", participation=sv.accounting.poisson(0.2, record_norm=0.5)
    ),
}


@pytest.mark.parametrize("name", ["exact", "sent-messages", "absorption", "infinite"])
def test_each_kind_of_validity_is_reached(name):
    assert GUARANTEES[name]().validity == name


def test_forgetting_is_reached_where_steps_contract():
    # step * nu = 0.1, so c = 0.9 and mu = (step / std) sqrt(1.9 / 0.1 (1 - c^T) / (1 + c^T)), below the sent messages' from T = 20 on.
    found = account(
        algorithm=sv.algorithms.atc(step_size=0.1), observer=sv.observers.final_model(), rounds=100,
        losses=sv.accounting.ConvexSmooth(beta=1.0, nu=1.0),
    )  # fmt: skip
    c = 0.9**100
    assert found.validity in ("amplified-by-iteration", "absorption")
    assert found.mu <= 0.1 / 0.7 * math.sqrt(1.9 / 0.1 * (1 - c) / (1 + c)) * (1 + 1e-9)
    assert found.mu < 0.1 / 0.7 * math.sqrt(100)


@pytest.mark.parametrize("name", GUARANTEES)
def test_a_guarantee_reads_as_one_paragraph(name):
    found = GUARANTEES[name]()
    text = str(found)
    assert "\n" not in text
    assert text.startswith(f"Observer: {found.observer}.")
    assert ("one record" if found.unit == "record" else "all data") + " of agent 2" in text
    assert ("added or removed" if found.adjacency == "add-remove" else "replaced") in text
    assert "7 rounds" in text
    assert found.reason in text
    assert text.endswith(f"Source: {found.source}.")
    assert "nan" not in text.lower().split()
    for line in found.assumptions:
        assert line in text


def test_the_words_carry_the_numbers():
    assert f"mu = {GUARANTEES['exact']().mu:.6g}" in str(GUARANTEES["exact"]())
    assert "exact: an attack with this success exists" in str(GUARANTEES["exact"]())
    assert f"pure epsilon = {GUARANTEES['pure']().pure_epsilon:.6g}" in str(GUARANTEES["pure"]())
    partial = GUARANTEES["sent-messages"]()
    assert "an upper bound" in str(partial)
    assert f"Linear view: mu = {partial.linear_mu:.6g}, which is no guarantee" in str(partial)
    assert "Linear view" not in str(GUARANTEES["exact"]())
    infinite = str(GUARANTEES["infinite"]())
    assert "No guarantee: epsilon is infinite." in infinite
    assert "It assumes" not in infinite
    tapped = account(noise=sv.noise.local_graph_homomorphic(LAW), observer=sv.observers.links([(2, 3)]))
    assert "No guarantee: epsilon is infinite." in str(tapped)
    assert f"Linear view: mu = {tapped.linear_mu:.6g}, which is no guarantee" in str(tapped)
    assert "promised, not checked" in str(GUARANTEES["absorption"]())


def test_only_the_sampling_that_is_not_used_may_be_known():
    # Amplification by sampling holds only while nobody sees who was sampled; without it, sampling may be public.
    assert any("all sampling of batches" in line for line in GUARANTEES["record"]().assumptions)
    sampled = " ".join(GUARANTEES["poisson"]().assumptions)
    assert "may know them and all sampling" not in sampled
    assert "nobody else knows" in sampled


@pytest.mark.parametrize("name", GUARANTEES)
def test_a_description_is_valid_json(name):
    found = GUARANTEES[name]()
    deltas = [1e-5, 1e-3]
    described = json.loads(json.dumps(found.describe(deltas), allow_nan=False))
    for key in ("observer", "agent", "unit", "adjacency", "rounds", "validity", "reason", "source"):
        assert described[key] == getattr(found, key)
    assert described["assumptions"] == list(found.assumptions)
    if found.validity == "infinite":
        assert described["mu"] is None
        assert described["linear_mu"] is None
        assert described["linear_infinite"] is True
        assert described["epsilon"] == {"1e-05": None, "0.001": None}
    else:
        assert described["linear_infinite"] is False
        assert described["epsilon"] == {"1e-05": found.epsilon(1e-5), "0.001": found.epsilon(1e-3)}
        assert described["mu"] == found.mu
        assert described["linear_mu"] == found.linear_mu
        assert described["pure_epsilon"] == found.pure_epsilon


@pytest.mark.parametrize("name", GUARANTEES)
def test_numbers_are_plain_python_numbers(name):
    found = GUARANTEES[name]()
    for value in (found.mu, found.pure_epsilon, found.linear_mu, found.linear_gap):
        assert value is None or isinstance(value, float)
    assert isinstance(found.agent, int)


def test_a_guarantee_cannot_be_changed():
    with pytest.raises(AttributeError):
        GUARANTEES["exact"]().validity = "infinite"


@pytest.mark.parametrize("name", [name for name in GUARANTEES if name != "infinite"])
def test_epsilon_and_delta_are_inverse_and_monotone(name):
    found = GUARANTEES[name]()
    epsilons = [found.epsilon(delta) for delta in (1e-8, 1e-5, 1e-2)]
    assert epsilons == sorted(epsilons, reverse=True)
    assert all(0 < epsilon < math.inf for epsilon in epsilons)
    assert found.delta(found.epsilon(1e-5)) == pytest.approx(1e-5, rel=1e-3 if name == "poisson" else 1e-8)


def test_gaussian_and_pure_trade_offs_are_those_of_their_modules():
    found, laplace = GUARANTEES["exact"](), GUARANTEES["pure"]()
    assert found.epsilon(1e-5) == gaussian.epsilon(found.mu, 1e-5)
    assert found.delta(1.0) == gaussian.delta(found.mu, 1.0)
    assert laplace.epsilon(0.0) == laplace.pure_epsilon
    assert laplace.epsilon(1e-2) == pytest.approx(
        laplace_rounds.epsilon([laplace.pure_epsilon / 7] * 7, 1e-2), rel=1e-12
    )
    assert laplace.epsilon(1e-2) < pure.epsilon(laplace.pure_epsilon, 1e-2)
    assert laplace.mu == pure.mu(laplace.pure_epsilon)
    assert laplace.mu > 0


def test_infinite_means_infinite_everywhere():
    found = GUARANTEES["infinite"]()
    assert found.epsilon(1e-5) == math.inf
    assert found.epsilon(0.5) == math.inf
    assert found.delta(100.0) == 1.0
    laplace = account(
        noise=sv.noise.local_graph_homomorphic(sv.noise.Laplace(std=1.0)), observer=sv.observers.curious_agent(3)
    )
    assert laplace.pure_epsilon == math.inf == laplace.mu
    assert laplace.epsilon(0.1) == math.inf
    assert laplace.delta(1.0) == 1.0
    json.dumps(laplace.describe([0.1]), allow_nan=False)


# Poisson sampling: T rounds of a subsampled Gaussian mechanism, by the privacy-loss distributions of dp-accounting, called directly.
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize(("kind", "visible"), [("atc", 12), ("cta", 11)])
@pytest.mark.parametrize("observer", [ALL, FAR], ids=str)
def test_poisson_sampling_is_that_of_dp_accounting(kind, visible, adjacency, observer):
    clip, rate, step, std = 1.5, 0.05, 0.4, 3.0
    noise = sv.noise.independent(sv.noise.Gaussian(std=std))
    sensitivity = {"replace": 2.0 * clip, "add-remove": clip}[adjacency]
    found = account(
        noise, observer, getattr(sv.algorithms, kind)(step_size=step), rounds=12, unit="record", adjacency=adjacency,
        sensitivity=sensitivity, 
        participation=sv.accounting.poisson(rate, record_norm=clip if adjacency == "replace" else None),
    )  # fmt: skip
    relation = {
        "replace": dp_accounting.NeighboringRelation.REPLACE_ONE,
        "add-remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    }[adjacency]
    accountant = pld.PLDAccountant(relation)
    multiplier = std / (step * clip)  # one record moves the message by step * clip
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier)), visible)
    assert found.epsilon(1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-4)
    assert found.delta(0.5) == pytest.approx(accountant.get_delta(0.5), rel=1e-4)
    assert found.mu is None
    full = account(
        noise, observer, getattr(sv.algorithms, kind)(step_size=step), rounds=12, unit="record", adjacency=adjacency,
        sensitivity=sensitivity,
    )  # fmt: skip
    assert found.epsilon(1e-5) < full.epsilon(1e-5) / 2


def test_the_two_adjacencies_of_poisson_sampling_differ():
    numbers = {
        adjacency: account(
            SELF.scaled(4.0), unit="record", adjacency=adjacency, sensitivity=2.0 if adjacency == "replace" else 1.0,
            participation=sv.accounting.poisson(0.05, record_norm=1.0 if adjacency == "replace" else None),
        ).epsilon(1e-5)
        for adjacency in ("replace", "add-remove")
    }  # fmt: skip
    assert numbers["replace"] > 1.02 * numbers["add-remove"]


def test_sampling_everybody_is_no_sampling():
    sampled = account(unit="record", participation=sv.accounting.poisson(1.0, record_norm=0.5))
    assert sampled.epsilon(1e-5) == pytest.approx(account(unit="record").epsilon(1e-5), rel=1e-9)


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan, math.inf, -math.inf, True, "2", None])
@pytest.mark.parametrize("name", sorted(GUARANTEES))
def test_noise_cannot_be_scaled_by_what_is_not_a_positive_finite_number(name, factor):
    found = GUARANTEES[name]()
    with pytest.raises(sv.ConfigError, match=r"factor = .*; it must be a number in \(0, inf\)"):
        found.scaled(factor)
    with pytest.raises(sv.ConfigError, match=r"factor = .*; it must be a number in \(0, inf\)"):
        found.tradeoff.scaled(factor)
