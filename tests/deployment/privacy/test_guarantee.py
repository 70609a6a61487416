import math
import sys
from itertools import pairwise

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.deployment.privacy import (
    Cost,
    choose_fraction_bits,
    deployed_guarantee,
    gradient_arithmetic,
    guarantee_of_party,
)
from sottovoce.deployment.terms import PublicRun
from sottovoce.errors import ConfigError, UnsupportedClaim

K, N, D = 5, 40, 3
GAUSSIAN = sv.noise.Gaussian(std=1.0)
ATC = sv.algorithms.atc(step_size=0.1)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(K, N, D)), np.sign(rng.normal(size=(K, N)))
    return sv.problems.logistic_regression(features, labels).with_clipping(1.0, "l2")


def stated(problem, algorithm=ATC, noise=None, *, topology=None, unit="agent", rounds=10, bits=24, **given):
    noise = sv.noise.independent(GAUSSIAN) if noise is None else noise
    run = PublicRun(
        topology=sv.topologies.ring(K) if topology is None else topology,
        algorithm=algorithm,
        noise=noise,
        rounds=rounds,
        batch_size=None,
        initial_model=np.zeros(D),
    )
    asked = {
        "collude": "all",
        "relay_trusted": False,
        "released_to": "own",
        "losses": None,
        "adjacency": "replace",
    } | given
    return deployed_guarantee(
        run,
        agent=0,
        sensitivity=problem.sensitivity(unit=unit, adjacency=asked["adjacency"], norm="l2"),
        arithmetic=gradient_arithmetic(problem, batch_size=None),
        fraction_bits=bits,
        unit=unit,
        **asked,
    )


def exact(problem, algorithm=ATC, noise=None, *, unit="agent", rounds=10):
    return sv.account(
        sv.topologies.ring(K), algorithm, sv.noise.independent(GAUSSIAN) if noise is None else noise,
        sv.observers.coalition(range(1, K)), rounds=rounds, agent=0, unit=unit, adjacency="replace",
        sensitivity=problem.sensitivity(unit=unit, adjacency="replace", norm="l2"),
    )  # fmt: skip


def test_self_noise_is_charged_one_rounding_of_the_message_alone(problem):
    found = stated(problem, bits=10)
    step, largest = 0.1, 2.0
    one = math.sqrt(D) * 2.0**-10
    assert found.rounding == pytest.approx(one / (step * largest), rel=0.02)
    assert found.cost.value == pytest.approx(math.sqrt(10) * (step * largest + one), rel=0.02)
    assert found.cost.value >= math.sqrt(10) * (step * largest + one)


def test_the_charge_halves_with_every_bit_and_the_guarantee_goes_to_that_of_the_exact_run(problem):
    charges = [stated(problem, bits=bits).rounding for bits in (8, 9, 20)]
    assert charges[0] == pytest.approx(2 * charges[1], rel=1e-6)
    assert charges[0] == pytest.approx(2**12 * charges[2], rel=1e-6)
    near = stated(problem, bits=30)
    plain = exact(problem).mu
    assert plain < near.cost.value < plain * (1 + 1e-6)


@pytest.mark.parametrize("scheme", ["self", "clean", "homomorphic"])
def test_own_copies_that_are_not_the_word_cost_more_roundings(problem, scheme):
    noises = {
        "self": sv.noise.independent(GAUSSIAN),
        "clean": sv.noise.independent(GAUSSIAN, self_noise=False),
        "homomorphic": sv.noise.graph_homomorphic(GAUSSIAN),
    }
    found = stated(problem, noise=noises[scheme], rounds=1)
    two = stated(problem, noise=noises[scheme], rounds=2)
    assert (
        found.rounding == stated(problem, rounds=1).rounding
    )  # the first message is rounded once, whatever the scheme
    assert (two.rounding > found.rounding * 1.2) == (scheme != "self")


def test_a_record_is_protected_only_where_gradients_are_taken_at_the_same_bits(problem):
    assert stated(problem, unit="record").cost.kind == "gaussian"
    for algorithm, noise in (
        (ATC, sv.noise.independent(GAUSSIAN, self_noise=False)),
        (ATC, sv.noise.graph_homomorphic(GAUSSIAN)),
        (sv.algorithms.consensus(step_size=0.1), None),
    ):
        found = stated(problem, algorithm, noise, unit="record", losses=sv.accounting.ConvexSmooth(beta=1.0))
        assert found.cost.kind == "infinite"
        assert any("promise" in note for note in found.notes)
        assert "Among parties no promise about losses is used" in found.guarantee.reason


def test_a_released_model_is_free_only_where_it_follows_from_words(problem):
    assert stated(problem, released_to="public").cost == stated(problem).cost
    for algorithm in (sv.algorithms.cta(step_size=0.1), sv.algorithms.consensus(step_size=0.1)):
        assert stated(problem, algorithm).cost.kind == "gaussian"
        assert stated(problem, algorithm, released_to=["hospital"]).cost.kind == "infinite"
    assert stated(problem, noise=sv.noise.graph_homomorphic(GAUSSIAN), released_to="public").cost.kind == "infinite"
    assert (
        stated(problem, sv.algorithms.cta(step_size=0.1), sv.noise.gradient(GAUSSIAN), released_to="public").cost.kind
        == "gaussian"
    )


def test_masks_that_cancel_at_receivers_hide_nothing_from_them(problem):
    assert stated(problem, noise=sv.noise.local_graph_homomorphic(GAUSSIAN), collude=1).cost.kind == "infinite"
    assert stated(problem, noise=sv.noise.none()).cost.kind == "infinite"


def test_every_coalition_is_covered_also_by_what_its_draws_cost(problem):
    """On a coarse lattice sums of rounded noise cost most where few of the pairs' sources are known, and the value is largest where many are."""
    given = {
        "noise": sv.noise.gopa(GAUSSIAN, pairwise_std=0.3),
        "bits": 2,
        "algorithm": sv.algorithms.atc(step_size=0.01),
    }
    found = stated(problem, collude=2, **given)
    assert found.total_variation == found.cost.total_variation
    assert found.total_variation > 1e-9
    assert found.cost.epsilon(1e-5) > Cost.gaussian(found.cost.value).epsilon(1e-5)
    assert found.guarantee.epsilon(1e-5) == pytest.approx(found.cost.epsilon(1e-5), rel=1e-9)
    assert stated(problem, **given).total_variation < 1e-30  # all others together know every source but its own


def test_noise_of_pairs_helps_only_against_those_who_do_not_share_it(problem):
    noise = sv.noise.gopa(GAUSSIAN, pairwise_std=5.0)
    alone, few = stated(problem, noise=noise), stated(problem, noise=noise, collude=1)
    assert alone.cost.value == pytest.approx(stated(problem).cost.value)
    assert few.cost.value < alone.cost.value
    everywhere = [
        sv.account(
            sv.topologies.ring(K), ATC, noise, sv.observers.curious_agent(k), rounds=10, agent=0, adjacency="replace", unit="agent",
            sensitivity=problem.sensitivity(unit="agent", adjacency="replace", norm="l2"),
        ).mu
        for k in range(1, K)
    ]  # fmt: skip
    assert few.cost.value >= max(everywhere)


def test_a_relay_that_is_not_trusted_belongs_to_the_observer(problem):
    federation, fedavg = sv.topologies.federation(K), sv.algorithms.fedavg(step_size=0.1)
    central = sv.noise.central(GAUSSIAN)
    assert stated(problem, fedavg, central, topology=federation).cost.kind == "infinite"
    trusted = stated(problem, fedavg, central, topology=federation, relay_trusted=True, bits=12)
    one = math.sqrt(D) * 2.0**-12
    least = math.sqrt(10) * ((0.1 * 2.0 + one) / K + one)  # the message and the average are rounded
    assert least <= trusted.cost.value <= least * 1.02
    own = stated(problem, fedavg, topology=federation, relay_trusted=True)
    assert own.cost.value == pytest.approx(stated(problem, fedavg, topology=federation).cost.value)


def test_noise_of_other_agents_in_averages_is_not_counted_on(problem):
    """Whoever sees averages or a model alone sees sums of rounded noise, for which nothing is proved: what was sent is given away."""
    federation, fedavg = sv.topologies.federation(K), sv.algorithms.fedavg(step_size=0.1)
    seen = {
        "curious": ({"collude": 1}, sv.observers.curious_agent(1)),
        "model": ({"collude": "nobody", "released_to": "public"}, sv.observers.final_model()),
    }
    for given, observer in seen.values():
        found = stated(problem, fedavg, topology=federation, relay_trusted=True, **given)
        by_averages = sv.account(
            federation, fedavg, sv.noise.independent(GAUSSIAN), observer, rounds=10, agent=0, unit="agent", adjacency="replace",
            sensitivity=problem.sensitivity(unit="agent", adjacency="replace", norm="l2"),
        )  # fmt: skip
        assert found.cost.value > 1.5 * by_averages.mu
        assert found.cost.value == pytest.approx(math.sqrt(10) * 0.1 * 2.0, rel=1e-5)


@pytest.mark.slow
def test_samples_of_agents_amplify_nothing(problem):
    federation = sv.topologies.federation(K)
    clip = sv.clipping.Clip(1.0, "l2")
    sampled = sv.algorithms.fedavg(step_size=0.1, update_clip=clip, participation=0.2)
    amplified = sv.account(
        federation, sampled, sv.noise.central(GAUSSIAN), sv.observers.final_model(), rounds=10, agent=0, unit="agent", adjacency="replace", sensitivity=2.0,
    )  # fmt: skip
    found = stated(
        problem, sampled, sv.noise.central(GAUSSIAN), topology=federation, relay_trusted=True, released_to="public"
    )
    assert found.guarantee.epsilon(1e-5) > 1.5 * amplified.epsilon(1e-5)


def test_whoever_trains_on_one_machine_answers_to_those_who_get_the_model(problem):
    one = sv.problems.logistic_regression(problem.features[:1], problem.labels[:1]).with_clipping(1.0, "l2")
    given = {"topology": sv.topologies.federation(1), "collude": "nobody", "relay_trusted": True}
    fedavg, central = sv.algorithms.fedavg(step_size=0.1), sv.noise.central(GAUSSIAN)
    found = stated(one, fedavg, central, released_to="public", unit="record", **given)
    assert found.cost.value == pytest.approx(math.sqrt(10) * 0.1 * 2.0 / N, rel=1e-3)
    with pytest.raises(ConfigError, match="nobody is told"):
        stated(one, fedavg, central, **given)


def test_what_is_spent_grows_with_every_exchange_up_to_the_whole(problem):
    for noise in (sv.noise.independent(GAUSSIAN), sv.noise.graph_homomorphic(GAUSSIAN)):
        found = stated(problem, sv.algorithms.atc(step_size=0.1), noise)
        spent = [cost.value for cost in found.by_position]
        assert len(spent) == 10
        assert all(early <= late for early, late in pairwise(spent))
        assert spent[-1] == pytest.approx(found.cost.value, rel=1e-12)
        assert found.by_position[-1].total_variation == pytest.approx(found.total_variation)
    several = stated(problem, sv.algorithms.muffliato(step_size=0.1, gossip_steps=3))
    assert len(several.by_position) == 30


def test_draws_are_paid_for_from_delta(problem):
    found = stated(problem)
    draw = 13.2 * 2.0**24 * 2.0**-128
    assert found.total_variation == pytest.approx(10 * D * draw, rel=1e-3)
    assert found.guarantee.epsilon(1e-300) == math.inf
    assert found.guarantee.epsilon(1e-5) >= found.cost.epsilon(1e-5) * (1 - 1e-12)


def test_the_words_of_a_guarantee_name_what_was_added(problem):
    said = stated(problem, bits=10).explain(1e-5)
    assert said.count("Rounding to") == 1
    for words in (
        "Rounding to 2^-10 adds",
        "float64",
        "total variation",
        "In whole numbers",
        "all other agents together",
    ):
        assert words in said


def test_what_is_not_proved_is_refused(problem):
    with pytest.raises(UnsupportedClaim, match="add-remove"):
        stated(problem, adjacency="add-remove")
    with pytest.raises(UnsupportedClaim, match="L2Laplace"):
        stated(problem, noise=sv.noise.independent(sv.noise.L2Laplace(scale=1.0)))
    with pytest.raises(ConfigError, match="other agents"):
        stated(problem, collude=K)


def chosen(problem, std=1.0, unit="agent", noise=None, algorithm=ATC):
    noise = sv.noise.independent(sv.noise.Gaussian(std=std)) if noise is None else noise
    run = PublicRun(
        topology=sv.topologies.ring(K),
        algorithm=algorithm,
        noise=noise,
        rounds=10,
        batch_size=None,
        initial_model=np.zeros(D),
    )
    return choose_fraction_bits(
        run, agent=0, sensitivity=problem.sensitivity(unit=unit, adjacency="replace", norm="l2"), arithmetic=gradient_arithmetic(problem, batch_size=None),
        collude="all", relay_trusted=False, released_to="own",
    )  # fmt: skip


def test_chosen_fraction_bits_give_noise_enough_units_and_a_charge_below_a_percent(problem):
    for std in (1e-4, 0.3, 1.0, 7e3):
        bits = chosen(problem, std)
        assert 2**20 <= std * 2.0**bits <= 2**28
        assert stated(problem, noise=sv.noise.independent(sv.noise.Gaussian(std=std)), bits=bits).rounding < 0.01
    with pytest.raises(UnsupportedClaim, match="percent"):
        chosen(problem, 1e9, unit="record")


def test_bits_are_chosen_by_the_noise_where_no_guarantee_is_finite(problem):
    assert chosen(problem, noise=sv.noise.local_graph_homomorphic(GAUSSIAN)) == 20
    assert chosen(problem, noise=sv.noise.none()) == 24


def test_a_proof_that_is_not_on_the_list_is_not_used(problem, monkeypatch):
    """However small its number: the accountant would state it, a deployed run does not."""
    from sottovoce.accounting.proofs.proof import Proof, Statement
    from sottovoce.accounting.tradeoff import GaussianTradeoff

    before = stated(problem)
    small = Proof(
        "new",
        where=frozenset(),
        states=lambda evidence, agent: Statement(GaussianTradeoff(1e-6), 1e-6, "exact", "Because.", "The linear view"),
    )
    smallest = sys.modules["sottovoce.accounting.account"]._smallest
    monkeypatch.setattr(smallest, "__defaults__", ((*smallest.__defaults__[0], small),))
    assert exact(problem).mu == 1e-6
    assert stated(problem).cost == before.cost


def test_the_list_of_proofs_is_the_one_that_the_page_explains():
    from sottovoce.deployment.privacy.proofs import PROOFS

    assert [proof.name for proof in PROOFS] == ["no noise", "Laplace rounds", "sent messages"]


def test_a_party_computes_its_guarantee_from_its_own_problem(problem):
    noise = sv.noise.independent(GAUSSIAN)
    run = PublicRun(
        topology=sv.topologies.ring(K), algorithm=ATC, noise=noise, rounds=10, batch_size=8, initial_model=np.zeros(D)
    )
    own = sv.problems.logistic_regression(problem.features[2:3], problem.labels[2:3]).with_clipping(1.0, "l2")
    given = {
        "agent": 2, "fraction_bits": 24, "collude": "all", "relay_trusted": False, "released_to": "own", "losses": None, "unit": "record",
        "adjacency": "replace",
    }  # fmt: skip
    found = guarantee_of_party(run, own, **given)
    assert found.cost.value == pytest.approx(
        math.sqrt(10) * 0.1 * 2.0 / 8, rel=1e-3
    )  # the batch, not the records, divides
    assert found.guarantee.agent == 2
    assert guarantee_of_party(run, problem, **given).cost == found.cost
    with pytest.raises(ConfigError, match="agents"):
        guarantee_of_party(run, sv.problems.mean_estimation(np.zeros((2, 3, D)), radius=1.0), **given)


def test_a_gradient_that_adds_the_model_is_charged_at_points_beyond_the_lattice(problem):
    """What is received is not saturated, so that CTA takes gradients at larger models than ATC does."""
    ridged = sv.problems.logistic_regression(problem.features, problem.labels, ridge=0.1).with_clipping(1.0, "l2")
    atc, cta = (stated(ridged, algorithm, unit="record") for algorithm in (ATC, sv.algorithms.cta(step_size=0.1)))
    assert atc.floating_point < cta.floating_point
    assert stated(problem, unit="record").floating_point < atc.floating_point


def test_links_that_change_are_accounted_with_what_each_of_them_draws(problem):
    ring = sv.topologies.ring(K)
    listed = ring.with_schedule([ring.matrix, np.eye(K)])
    for topology in (listed, ring.with_dropout(0.3), ring.with_random_pair()):
        for noise in (sv.noise.independent(GAUSSIAN), sv.noise.independent(GAUSSIAN, per_edge=True)):
            found = stated(problem, noise=noise, topology=topology)
            assert found.cost.kind == "gaussian"
            assert 0 < found.rounding < 1e-4
            assert 0 < found.total_variation < 1e-26
    silent = stated(problem, topology=listed)
    assert silent.cost.value > stated(problem).cost.value  # who is silent sends two gradients at once


def test_points_of_local_steps_beyond_the_lattice_are_counted_under_noise_in_gradients(problem):
    """A ridge adds the model wherever a gradient is taken, and noisy local steps may walk far."""
    ridged = sv.problems.logistic_regression(problem.features, problem.labels, ridge=0.1).with_clipping(1.0, "l2")
    given = {"noise": sv.noise.gradient(GAUSSIAN), "topology": sv.topologies.federation(K), "unit": "record"}
    one, several = (stated(ridged, sv.algorithms.fedavg(step_size=2.0, local_steps=steps), **given) for steps in (1, 4))
    assert several.floating_point > 3 * one.floating_point
    clip = sv.clipping.Clip(1.0, "l2")
    clipped = sv.algorithms.fedavg(step_size=2.0, local_steps=4, update_clip=clip)
    assert (
        stated(ridged, clipped, **given).cost.kind == "infinite"
    )  # how far they walk is not read through a clip of the whole
    assert stated(problem, clipped, **given).cost.kind == "gaussian"  # without a ridge it does not matter
