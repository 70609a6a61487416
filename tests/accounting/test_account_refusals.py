"""What the accountant refuses, and that the message says what to do."""

import math

import numpy as np
import pytest

import sottovoce as sv
from accounting import brute_force as brute
from sottovoce.accounting import account_each
from sottovoce.algorithms import Algorithm, Exchange

RING = sv.topologies.ring(6)
FEDERATION = sv.topologies.federation(6)
ATC = sv.algorithms.atc(step_size=0.4)
LAW = sv.noise.Gaussian(std=0.7)
SELF, CLEAN = sv.noise.independent(LAW), sv.noise.independent(LAW, self_noise=False)
ALL = sv.observers.eavesdropper()
SMOOTH = sv.accounting.ConvexSmooth(beta=1.0)


def account(topology=RING, algorithm=ATC, noise=SELF, observer=ALL, **more):
    return sv.account(topology, algorithm, noise, observer, **{"rounds": 3, "sensitivity": 1.0, **more})


def test_the_question_these_tests_spoil_is_answered():
    assert math.isfinite(account().mu)


@pytest.mark.parametrize(
    "sensitivity",
    [
        math.nan, math.inf, -math.inf, 0.0, -1.0, True, False, None, "1", 1j, [1.0, 1.0], [1.0] * 5, [[1.0] * 6], [1.0] * 5 + [0.0],
        [1.0] * 5 + [math.nan], [True] * 6, np.zeros(0),
    ],
)  # fmt: skip
def test_a_sensitivity_must_be_positive_numbers(sensitivity):
    with pytest.raises(sv.ConfigError, match="sensitivity"):
        account(sensitivity=sensitivity)


@pytest.mark.parametrize("sensitivity", [math.nan, -1.0, None, "1", [1.0, 1.0], True], ids=str)
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_a_sensitivity_must_be_positive_numbers_under_sampling_too(adjacency, sensitivity):
    norm = 1.0 if adjacency == "replace" else None
    with pytest.raises(sv.ConfigError, match="sensitivity"):
        account(
            unit="record", adjacency=adjacency, sensitivity=sensitivity, participation=sv.accounting.poisson(0.1, record_norm=norm)
        )  # fmt: skip


def test_sampling_with_replacement_needs_the_norm_of_one_record():
    # Two records that differ by the sensitivity may both be far from zero; who was sampled then shows.
    for norm in (None, 0.4):
        with pytest.raises(sv.ConfigError, match="record_norm"):
            account(unit="record", participation=sv.accounting.poisson(0.1, record_norm=norm))
    larger = account(unit="record", participation=sv.accounting.poisson(0.1, record_norm=0.7), agent=2)
    assert larger.epsilon(1e-5) > account(
        unit="record", participation=sv.accounting.poisson(0.1, record_norm=0.5), agent=2
    ).epsilon(1e-5)  # fmt: skip


def test_a_sensitivity_has_no_default():
    with pytest.raises(TypeError, match="sensitivity"):
        sv.account(RING, ATC, SELF, ALL, rounds=3)
    with pytest.raises(TypeError, match="rounds"):
        sv.account(RING, ATC, SELF, ALL, sensitivity=1.0)


@pytest.mark.parametrize("rounds", [0, -1, 2.5, math.nan, True, "3", None])
@pytest.mark.parametrize("topology", [RING, RING.with_dropout(0.2), FEDERATION], ids=["ring", "dropout", "federation"])
def test_rounds_must_be_a_whole_number_above_zero(topology, rounds):
    with pytest.raises(sv.ConfigError, match="rounds"):
        account(topology, rounds=rounds)


@pytest.mark.parametrize(
    "changed", [{"unit": "user"}, {"unit": None}, {"adjacency": "swap"}, {"adjacency": "add_remove"}], ids=str
)
def test_unknown_choices_are_named_with_the_known_ones(changed):
    (name,) = changed
    with pytest.raises(sv.ConfigError, match=f"{name} = .*choose one of '"):
        account(**changed)


@pytest.mark.parametrize("participation", ["sometimes", None, 3, 0.1])
@pytest.mark.parametrize("unit", ["agent", "record"])
def test_unknown_participation_is_refused(unit, participation):
    with pytest.raises(sv.ConfigError, match="participation"):
        account(unit=unit, participation=participation)


@pytest.mark.parametrize(
    "participation", ["once", sv.accounting.cyclic(2, 1), sv.accounting.poisson(0.1, record_norm=1.0)], ids=str
)
def test_an_agents_data_take_part_in_every_round(participation):
    with pytest.raises(sv.ConfigError, match="unit='record'"):
        account(participation=participation)


def test_a_cycle_longer_than_the_run_is_refused():
    account(unit="record", participation=sv.accounting.cyclic(2, 2))
    with pytest.raises(sv.ConfigError, match="spans 4 rounds but the run has 3"):
        account(unit="record", participation=sv.accounting.cyclic(2, 3))


def test_a_records_sensitivity_cannot_be_declared_to_hold_between_models():
    with pytest.raises(sv.ConfigError, match="same_model"):
        account(unit="record", same_model=False)


@pytest.mark.parametrize("losses", [1.0, {"beta": 1.0}, "convex", sv.accounting.ConvexSmooth])
def test_a_promise_is_a_promise_object(losses):
    with pytest.raises(sv.ConfigError, match="ConvexSmooth"):
        account(losses=losses)


@pytest.mark.parametrize(
    "observer",
    ["eavesdropper", 3, None, [ALL, "server"], sv.observers.eavesdropper],
    ids=["name", "number", "nobody", "list with a name", "factory"],
)
def test_an_observer_is_an_observer(observer):
    with pytest.raises(sv.ConfigError, match="observer"):
        account(observer=observer)


@pytest.mark.parametrize("agent", [6, -1, True, 1.0, "2"])
def test_an_agent_is_one_of_the_network(agent):
    with pytest.raises(sv.ConfigError, match="agent"):
        account(agent=agent)


@pytest.mark.parametrize(
    "observer", [sv.observers.curious_agent(2), sv.observers.coalition([1, 2]), ALL + sv.observers.curious_agent(2)], ids=str
)  # fmt: skip
def test_an_agent_is_not_protected_from_itself(observer):
    with pytest.raises(sv.ConfigError, match="agent 2 belongs to the observer"):
        account(observer=observer, agent=2)


def test_somebody_must_be_left_to_protect():
    with pytest.raises(sv.ConfigError, match="nobody"):
        account(observer=sv.observers.coalition(range(6)))
    with pytest.raises(sv.ConfigError, match="nobody"):
        account_each(RING, ATC, SELF, sv.observers.coalition(range(6)), rounds=3, sensitivity=1.0)


def test_members_are_agents_of_the_network():
    with pytest.raises(sv.ConfigError, match="no agent 6"):
        account(observer=sv.observers.curious_agent(6))


def test_a_link_must_exist():
    with pytest.raises(sv.ConfigError, match="no link from 0 to 3"):
        account(observer=sv.observers.links([(0, 3)]))


def test_a_server_needs_a_federation():
    with pytest.raises(sv.IncompatibleChoice, match="federation"):
        account(observer=sv.observers.server())


def test_single_links_need_a_peer_graph():
    with pytest.raises(sv.IncompatibleChoice, match="relay"):
        account(FEDERATION, observer=sv.observers.links([(0, 1)]))


@pytest.mark.parametrize(
    "noise",
    [CLEAN, sv.noise.independent(LAW, per_edge=True), sv.noise.graph_homomorphic(LAW), sv.noise.local_graph_homomorphic(LAW)],
    ids=["clean own copy", "per edge", "homomorphic", "local"],
)  # fmt: skip
def test_a_relay_carries_one_message_per_agent(noise):
    with pytest.raises(sv.IncompatibleChoice, match="relay"):
        account(FEDERATION, noise=noise, observer=sv.observers.server())


@pytest.mark.parametrize(
    ("algorithm", "noise"),
    [
        (ATC, CLEAN),
        (ATC, sv.noise.graph_homomorphic(LAW)),
        (sv.algorithms.cta(step_size=0.4), CLEAN),
        (sv.algorithms.consensus(step_size=0.4), SELF),
        (ATC, sv.noise.independent(LAW, per_edge=True)),
    ],
    ids=["atc clean", "atc homomorphic", "cta clean", "consensus self", "atc per edge"],
)
def test_one_record_needs_a_promise_where_gradient_points_are_not_public(algorithm, noise):
    with pytest.raises(sv.UnsupportedClaim, match="ConvexSmooth"):
        account(algorithm=algorithm, noise=noise, unit="record")
    assert math.isfinite(account(algorithm=algorithm, noise=noise, unit="record", losses=SMOOTH).mu)
    with pytest.raises(sv.UnsupportedClaim, match="same model"):
        account(algorithm=algorithm, noise=noise, same_model=True)
    assert math.isfinite(account(algorithm=algorithm, noise=noise, same_model=False).mu)


@pytest.mark.parametrize("law", [sv.noise.Laplace(std=1.0), sv.noise.L2Laplace(scale=1.0)], ids=["l1", "l2"])
def test_one_record_under_laplace_noise_needs_its_l2_version_where_differences_live_on(law):
    noise = sv.noise.independent(law, self_noise=False)
    if law.norm == "l1":
        with pytest.raises(sv.UnsupportedClaim, match="L2Laplace"):
            account(noise=noise, unit="record", losses=SMOOTH)
    else:
        assert math.isfinite(account(noise=noise, unit="record", losses=SMOOTH).pure_epsilon)
    assert math.isfinite(account(noise=noise.scaled(1.0), unit="agent").pure_epsilon)


def test_steps_longer_than_the_promise_covers_are_refused():
    account(algorithm=sv.algorithms.atc(step_size=2.0), noise=CLEAN, unit="record", losses=SMOOTH)
    for make in (sv.algorithms.atc, sv.algorithms.cta, sv.algorithms.consensus):
        with pytest.raises(sv.UnsupportedClaim, match="exceeds 2 / beta"):
            account(algorithm=make(step_size=2.001), noise=CLEAN, unit="record", losses=SMOOTH)


@pytest.mark.parametrize("observer", [ALL, sv.observers.curious_agent(5)], ids=str)
def test_poisson_sampling_amplifies_only_where_gradient_points_are_public(observer):
    poisson = {
        "unit": "record",
        "participation": sv.accounting.poisson(0.1, record_norm=0.5),
        "observer": observer,
        "agent": 2,
    }
    assert account(**poisson).epsilon(1e-5) < account(unit="record", observer=observer, agent=2).epsilon(1e-5)
    for noise in (CLEAN, sv.noise.graph_homomorphic(LAW)):
        with pytest.raises(sv.UnsupportedClaim, match="self-noise"):
            account(noise=noise, losses=SMOOTH, **poisson)
        with pytest.raises(sv.UnsupportedClaim):
            account(noise=noise, **poisson)
    with pytest.raises(sv.UnsupportedClaim):
        account(algorithm=sv.algorithms.consensus(step_size=0.4), losses=SMOOTH, **poisson)
    with pytest.raises(sv.UnsupportedClaim, match="same step"):
        account(algorithm=sv.algorithms.atc(step_size=lambda t: 0.4 / t), **poisson)
    with pytest.raises(sv.UnsupportedClaim, match="Gaussian"):
        account(noise=sv.noise.independent(sv.noise.Laplace(std=1.0)), **poisson)


def test_a_promise_never_turns_a_guarantee_into_a_refusal():
    arguments = {
        "unit": "record",
        "participation": sv.accounting.poisson(0.1, record_norm=0.5),
        "observer": sv.observers.curious_agent(5),
        "agent": 2,
    }
    without = account(**arguments)
    with_promise = account(losses=SMOOTH, **arguments)
    assert with_promise.epsilon(1e-5) <= without.epsilon(1e-5)


def test_an_algorithm_that_is_not_linear_is_refused():
    def message(w, gradient, round_):
        return w.clip(-1.0, 1.0) - 0.4 * gradient(w)

    def update(w, received, gradient, round_):
        return received

    with pytest.raises(sv.UnsupportedClaim, match="not linear"):
        account(algorithm=Algorithm("clipped", (Exchange(message, update),)))


def test_gaussian_noise_has_no_pure_epsilon():
    found = account()
    assert found.epsilon(0.0) == math.inf
    assert found.pure_epsilon is None
    for delta in (-0.1, 1.5, math.nan, True):
        with pytest.raises(sv.ConfigError, match="delta"):
            found.epsilon(delta)


def test_nothing_is_added_is_nothing_is_promised():
    for observer in (ALL, sv.observers.curious_agent(3), sv.observers.final_model()):
        found = account(noise=sv.noise.none(), observer=observer, agent=2)
        assert found.mu == math.inf
        assert found.validity == "infinite"
        assert "No noise" in found.reason


def test_a_round_without_noise_is_in_clear():
    found = account(noise=SELF.scaled([1.0, 0.0, 1.0]))
    assert found.mu == math.inf
    assert "round 2" in found.reason


def test_a_list_of_observers_gives_a_list():
    observers = [ALL, sv.observers.curious_agent(3)]
    found = account(observer=observers, agent=2)
    assert [one.observer for one in found] == ["eavesdropper", "curious agent 3"]
    assert [one.mu for one in found] == [account(observer=one, agent=2).mu for one in observers]


# Exchanges may have weights of their own. Who reads what is then a matter of those links, not of the run's topology.

OTHER = sv.topologies.from_edges(4, [(0, 1), (0, 2), (0, 3), (1, 2)])  # as many links as a ring of four


def own_weights(topology, observer, last=OTHER):
    algorithm = sv.algorithms.three_matrix(step_size=0.4, last=last)
    return sv.account(topology, algorithm, SELF, observer, rounds=3, sensitivity=1.0, agent=3)


def refused_or(question):
    """The answer, or None where the accountant says that it has none."""
    try:
        return question()
    except (sv.UnsupportedClaim, sv.IncompatibleChoice):
        return None


@pytest.mark.parametrize("observer", [sv.observers.curious_agent(0), sv.observers.curious_agent(1), ALL], ids=str)
def test_links_are_those_of_the_exchange_or_the_question_is_refused(observer):
    expected = own_weights(OTHER, observer)
    found = refused_or(lambda: own_weights(sv.topologies.ring(4), observer))
    if found is not None:
        assert found.linear_mu == pytest.approx(expected.linear_mu, rel=1e-9)
        assert found.mu == pytest.approx(expected.mu, rel=1e-9)
        assert found.validity == expected.validity


def test_reading_all_of_the_runs_links_is_not_reading_all_of_the_exchanges():
    # In the run's star agent 0 hears everybody; on the exchange's ring it does not.
    ring, observer = sv.topologies.ring(4), sv.observers.curious_agent(0)
    found = refused_or(lambda: own_weights(sv.topologies.star(4), observer, last=ring))
    assert found is None or found.validity == "sent-messages"


@pytest.mark.parametrize("observer", [sv.observers.curious_agent(0), sv.observers.final_model(), ALL], ids=str)
def test_exchanges_over_different_links_are_accounted_or_refused(observer):
    ring, complete = sv.topologies.ring(4), sv.topologies.complete(4)
    algorithm = sv.algorithms.three_matrix(step_size=0.4, first=ring, last=complete)
    for topology in (ring, complete):
        found = refused_or(
            lambda topology=topology: sv.account(
                topology, algorithm, SELF, observer, rounds=3, sensitivity=1.0, agent=3
            )
        )
        if found is not None:
            rounds = [brute.Round(first=ring.matrix, last=complete.matrix, step=0.4, scale=0.7)] * 3
            watcher = brute.Watcher(everything=observer.all_links, members=observer.members, final=observer.final_model)
            assert found.linear_mu == pytest.approx(brute.mu(rounds, "self", watcher, 3), rel=1e-5)


def test_a_link_that_no_exchange_uses_is_refused():
    with pytest.raises(sv.SottovoceError):
        own_weights(sv.topologies.ring(4), sv.observers.links([(2, 3)]))  # the exchange has no such link
