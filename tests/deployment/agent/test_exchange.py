"""One party's part in an exchange: what is sent carries exactly the agreed noise, what comes is checked, and a crash changes no bit."""

import io
import re

import numpy as np
import pytest

import sottovoce as sv
from deployment.agent.cases import (
    DIMENSION,
    FEDERATED,
    FEDERATION,
    GRAPH,
    LATTICE,
    LINKS,
    PROBLEM,
    SCHEMES,
    peers,
    played,
    public_run,
)
from deployment.agent.recursion import Rehearsal, Table
from sottovoce.deployment.agent import (
    Held,
    Wiring,
    flatten,
    own_of,
    play,
    prepare,
    relay_prepare,
    relay_start,
    start,
    take,
    unflatten,
)
from sottovoce.deployment.integers import NotFinite, SecretRandomness, ring, signed

ATC = sv.algorithms.atc(step_size=0.05)
TABLE = Table(5, DIMENSION, SCHEMES["independent"].law)


def prepared(run, agent, position=0, table=TABLE, **options):
    wiring = Wiring(run, LATTICE, table, **options)
    state = start(run, LATTICE)
    return wiring, prepare(wiring, agent, own_of(PROBLEM, agent), state, position, Rehearsal(table, agent), None)


def message_of(run, agent):
    """The message of the first round in units: of ATC."""
    model = LATTICE.to_float(LATTICE.to_units(run.initial_model))
    return LATTICE.to_units(model - 0.05 * own_of(PROBLEM, agent).gradient(model, None))


def test_a_broadcast_source_is_added_once_to_one_word_for_all():
    run = public_run(GRAPH, ATC, SCHEMES["independent"])
    wiring, made = prepared(run, 0)
    assert set(made.words) == {1, 2, 4} == set(wiring.receivers(0, 0))
    for word in made.words.values():
        noise = signed(word) - message_of(run, 0)
        assert np.array_equal(noise, TABLE.source(0, 0, 0.1 / LATTICE.unit))
    assert np.array_equal(made.held.own, signed(made.words[1]))


def test_what_a_party_keeps_to_itself_is_not_shown():
    _, made = prepared(public_run(GRAPH, ATC, SCHEMES["independent"], batch_size=4), 0)
    assert repr(made) == "<Prepared: words for [1, 2, 4]>"
    assert repr(made.held) == "Held(own=int64[3], batches=int64[1, 4], gradient_noise=int64[0, 0])"
    assert repr(own_of(PROBLEM, 0)) == "<Own: 8 records of a problem 'linear_regression' with 3 parameters>"


def test_without_self_noise_the_own_copy_is_the_message():
    run = public_run(GRAPH, ATC, SCHEMES["independent, no self-noise"])
    _, made = prepared(run, 0)
    assert np.array_equal(made.held.own, message_of(run, 0))


def test_every_link_has_a_source_of_its_own_where_that_was_asked_for():
    _, made = prepared(public_run(GRAPH, ATC, SCHEMES["independent, per edge"]), 0)
    assert len({word.tobytes() for word in (*made.words.values(), ring(made.held.own))}) == 4


def test_the_own_copy_of_graph_homomorphic_noise_is_a_rounded_multiple_of_what_was_drawn():
    run = public_run(GRAPH, ATC, SCHEMES["graph_homomorphic"])
    _, made = prepared(run, 2)
    drawn = signed(made.words[1]) - message_of(run, 2)
    weight = GRAPH.self_weights[2]
    assert np.array_equal(made.held.own, message_of(run, 2) + np.rint(-(1 - weight) / weight * drawn).astype(np.int64))


def test_a_pairs_source_is_drawn_at_its_own_size_and_has_opposite_signs_at_the_two_ends():
    run = public_run(sv.topologies.complete(2), ATC, SCHEMES["gopa"])
    table = Table(1, DIMENSION, None)
    problem = sv.problems.mean_estimation([np.zeros((4, DIMENSION)), np.zeros((4, DIMENSION))], radius=1.0)
    wiring = Wiring(run, LATTICE, table)
    noises = []
    for agent in (0, 1):
        made = prepare(wiring, agent, own_of(problem, agent), start(run, LATTICE), 0, Rehearsal(table, agent), None)
        message = prepare(
            Wiring(public_run(run.topology, ATC, SCHEMES["none"]), LATTICE, table), agent, own_of(problem, agent), start(run, LATTICE), 0,
            Rehearsal(table, agent), None,
        ).held.own  # fmt: skip
        noises.append(made.held.own - message - table.source(0, 1 + agent, 0.1 / LATTICE.unit))
    pair = table.source(0, 0, 0.37 / LATTICE.unit)
    assert np.array_equal(noises[0], pair)
    assert np.array_equal(noises[1], -pair)


def test_masked_words_look_uniform_and_their_masks_cancel_at_every_receiver():
    noisy, clear = (public_run(LINKS["listed"], ATC, SCHEMES[name]) for name in ("local_graph_homomorphic", "none"))
    _, made = prepared(noisy, 0)
    assert all(np.abs(signed(word).astype(float)).max() > 2**58 for word in made.words.values())
    # Another key at one end: the sum is beyond what messages can reach, and is refused.

    class Wrong(Table):
        def mask(self, position, source):
            return super().mask(position, source) ^ np.uint64(1 << 60)

    def random_of(agent):
        return Rehearsal((Wrong if agent == 1 else Table)(5, DIMENSION, None), agent)

    with pytest.raises(sv.ProtocolError, match="do not cancel"):
        play(noisy, LATTICE, PROBLEM, random_of, TABLE)
    apart = np.abs(played(noisy, TABLE) - played(clear, TABLE)).max()
    assert apart < 8 * LATTICE.unit


def test_an_agent_without_an_active_link_sends_nothing_and_goes_on_alone():
    run = public_run(LINKS["random pair"], ATC, SCHEMES["independent"])
    wiring = Wiring(run, LATTICE, TABLE)
    awake = {agent for agent in range(5) if wiring.receivers(agent, 0)}
    assert len(awake) == 2
    for agent in sorted(set(range(5)) - awake):
        own, state = own_of(PROBLEM, agent), start(run, LATTICE)
        made = prepare(wiring, agent, own, state, 0, Rehearsal(TABLE, agent), None)
        assert made.words == {}
        assert wiring.senders(agent, 0) == ()
        after = take(wiring, agent, own, made.state, 0, made.held, {})
        assert np.array_equal(after, message_of(run, agent))


def test_one_way_links_send_and_take_from_others():
    weights = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])  # 0 -> 1 -> 2 -> 0
    run = public_run(sv.topologies.from_matrix(weights), ATC, SCHEMES["independent"])
    wiring = Wiring(run, LATTICE, TABLE)
    assert [wiring.receivers(k, 0) for k in range(3)] == [(1,), (2,), (0,)]
    assert [wiring.senders(k, 0) for k in range(3)] == [(2,), (0,), (1,)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda words: words.pop(1), "words came from"),
        (lambda words: words.update({3: words[1]}), "words came from"),
        (lambda words: words.update({1: words[1][:2]}), "party 1 sent"),
        (lambda words: words.update({1: words[1].astype(np.float64)}), "party 1 sent"),
        (lambda words: words.update({1: ring(np.full(DIMENSION, 2**45))}), "party 1 sent a number beyond"),
        (lambda words: words.update({1: ring(np.full(DIMENSION, -(2**63)))}), "party 1 sent a number beyond"),
    ],
)
def test_words_that_no_honest_neighbour_sends_are_refused_by_name(change, words):
    run = public_run(GRAPH, ATC, SCHEMES["independent"])
    wiring = Wiring(run, LATTICE, TABLE)
    made = {
        k: prepare(wiring, k, own_of(PROBLEM, k), start(run, LATTICE), 0, Rehearsal(TABLE, k), None) for k in range(5)
    }
    sent = {k: made[k].words[0] for k in wiring.senders(0, 0)}
    take(wiring, 0, own_of(PROBLEM, 0), made[0].state, 0, made[0].held, sent)
    change(sent)
    with pytest.raises(sv.ProtocolError, match=words):
        take(wiring, 0, own_of(PROBLEM, 0), made[0].state, 0, made[0].held, sent)


def test_the_largest_word_that_honest_neighbours_can_send_is_taken():
    wiring = Wiring(public_run(GRAPH, ATC, SCHEMES["independent"]), LATTICE, TABLE)
    _, made = prepared(wiring.run, 0)
    largest = int(wiring.part(0, 0).largest[0])
    assert largest > LATTICE.bound
    words = {k: ring(np.full(DIMENSION, largest)) for k in wiring.senders(0, 0)}
    take(wiring, 0, own_of(PROBLEM, 0), made.state, 0, made.held, words)


def stored(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Through bytes, as a store keeps arrays."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    with np.load(file) as loaded:
        return dict(loaded)


def crashing(run, table) -> np.ndarray:
    """[K, leaves, d] the last states, where every party loses its memory after every commit and every exchange."""
    wiring = Wiring(run, LATTICE, table, relay_trusted=True)
    agents, owns = range(run.num_agents), [own_of(PROBLEM, k) for k in range(run.num_agents)]
    random = [Rehearsal(table, k) for k in (*agents, wiring.relay)]
    states = [flatten(start(run, LATTICE)) for _ in agents]
    held: list[Held | None] = [None] * run.num_agents
    relay = flatten(relay_start(wiring))
    for position in range(run.end):
        wiring = Wiring(run, LATTICE, table, relay_trusted=True) if position == run.end // 2 else wiring
        sent = {}
        for k in agents:
            carried = held[k] if run.at(position)[1] else None
            made = prepare(wiring, k, owns[k], unflatten(run, states[k]), position, random[k], carried)
            kept = stored({"state": flatten(made.state), **{str(r): word for r, word in made.words.items()}})
            states[k], sent[k] = kept.pop("state"), {int(r): word for r, word in kept.items()}
            held[k] = Held.from_arrays(stored(made.held.to_arrays()))
        if wiring.federated:
            words = {k: sent[k][wiring.relay] for k in agents if sent[k]}
            averaged = relay_prepare(wiring, unflatten(run, relay), position, words, random[-1])
            relay, sent = stored({"state": flatten(averaged.state)})["state"], {wiring.relay: averaged.words}
        for k in agents:
            words = {sender: sent[sender][k] for sender in wiring.senders(k, position)}
            states[k] = flatten(take(wiring, k, owns[k], unflatten(run, states[k]), position, held[k], words))
    return np.stack(states)


PEERS = ["consensus", "dgd", "fedavg", "gossip, accelerated", "muffliato", "three_matrix"]


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("scheme", ["gopa", "gradient"])
def test_a_party_that_goes_on_from_its_store_reaches_the_same_bits(name, scheme):
    noise = SCHEMES["independent" if (name, scheme) == ("dgd", "gradient") else scheme]
    run = public_run(GRAPH, peers(GRAPH)[name], noise, rounds=4, batch_size=3)
    kept = crashing(run, TABLE)
    assert np.array_equal(LATTICE.to_float(kept[:, 0]), played(run, TABLE))


@pytest.mark.parametrize("name", ["fedavg, a coin each", "fedavg, clipped", "inexact_admm, own"])
def test_parties_and_relay_of_a_federation_that_go_on_from_their_stores_reach_the_same_bits(name):
    run = public_run(FEDERATION, FEDERATED[name], SCHEMES["central"], rounds=5, batch_size=3)
    kept = crashing(run, TABLE)
    assert np.array_equal(LATTICE.to_float(kept[:, 0]), played(run, TABLE))


def test_what_is_held_is_checked_when_it_comes_back():
    with pytest.raises(sv.ConfigError, match="needed are"):
        Held.from_arrays({"own": np.zeros(3, dtype=np.int64)})
    run = public_run(GRAPH, peers(GRAPH)["muffliato"], SCHEMES["independent"])
    with pytest.raises(sv.ConfigError, match="keeps \\(2, 3\\)"):
        unflatten(run, np.zeros((1, 3), dtype=np.int64))
    wiring = Wiring(run, LATTICE, TABLE)
    with pytest.raises(sv.ConfigError, match="exchange 2 of round 1 was prepared without"):
        prepare(wiring, 0, own_of(PROBLEM, 0), start(run, LATTICE), 1, Rehearsal(TABLE, 0), None)


def test_a_batch_beyond_the_records_of_a_party_is_refused():
    run = public_run(GRAPH, ATC, SCHEMES["independent"], batch_size=9)
    with pytest.raises(sv.ConfigError, match=re.escape("a batch of 9 records was agreed on, and this party has 8")):
        prepared(run, 0)


def test_learning_that_leaves_the_finite_numbers_stops():
    run = public_run(GRAPH, sv.algorithms.atc(step_size=1e308), SCHEMES["independent"])
    with pytest.raises(NotFinite):
        prepared(run, 0)


def test_numbers_beyond_the_bound_are_held_at_it():
    run = public_run(GRAPH, sv.algorithms.atc(step_size=1e12), SCHEMES["none"], rounds=3)
    assert np.abs(played(run, TABLE)).max() == LATTICE.bound * LATTICE.unit


@pytest.mark.parametrize(
    "scheme",
    ["independent", "independent, Laplace", "independent, per edge", "local_graph_homomorphic", "gopa", "gradient"],
)
def test_secret_numbers_play_every_kind_of_noise(scheme):
    run = public_run(GRAPH, ATC, SCHEMES[scheme], rounds=3, batch_size=4)

    def random_of(agent):
        return SecretRandomness(run.noise.law, DIMENSION, lambda other: bytes([agent ^ other]) * 32, run=bytes(32))

    first, second = (play(run, LATTICE, PROBLEM, random_of, TABLE) for _ in range(2))
    assert np.isfinite(first).all()
    assert np.abs(first - second).max() > 1e3 * LATTICE.unit  # no two runs draw the same


def test_a_federation_of_one_agent_adds_noise_to_every_step():
    problem = sv.problems.linear_regression(PROBLEM.features[:1, :8], PROBLEM.targets[:1, :8], ridge=0.1)
    run = public_run(sv.topologies.federation(1), ATC, SCHEMES["central"], rounds=1)
    models = play(run, LATTICE, problem, lambda agent: Rehearsal(TABLE, agent), TABLE, relay_trusted=True)
    noise = LATTICE.to_units(models[0]) - message_of(run, 0)
    assert np.array_equal(noise, TABLE.source(0, 0, 0.1 / LATTICE.unit))


def test_agents_refuse_a_relay_that_sends_what_no_average_can_be():
    run = public_run(FEDERATION, FEDERATED["fedavg"], SCHEMES["central"])
    wiring, made = prepared(run, 0, relay_trusted=True)
    assert list(made.words) == [wiring.relay] == [5]
    with pytest.raises(sv.ProtocolError, match="party 5 sent a number beyond"):
        take(wiring, 0, own_of(PROBLEM, 0), made.state, 0, made.held, {5: ring(np.full(DIMENSION, 2**45))})
    words = {k: ring(np.full(DIMENSION, 2**45 if k == 2 else 0)) for k in range(5)}
    with pytest.raises(sv.ProtocolError, match="party 2 sent a number beyond"):
        relay_prepare(wiring, relay_start(wiring), 0, words, Rehearsal(TABLE, 5))


def test_agents_that_do_not_take_part_send_nothing_and_follow_the_average():
    run = public_run(FEDERATION, FEDERATED["fedavg, two agents"], SCHEMES["independent"])
    wiring = Wiring(run, LATTICE, TABLE)
    heard = wiring.senders(wiring.relay, 0)
    assert len(heard) == 2
    absent = min(set(range(5)) - set(heard))
    made = prepare(wiring, absent, own_of(PROBLEM, absent), start(run, LATTICE), 0, Rehearsal(TABLE, absent), None)
    assert made.words == {}
    assert wiring.receivers(wiring.relay, 0) == (0, 1, 2, 3, 4)
    average = ring(LATTICE.to_units(np.array([1.0, 2.0, 3.0])))
    after = take(wiring, absent, own_of(PROBLEM, absent), made.state, 0, made.held, {5: average})
    expected = LATTICE.to_float(start(run, LATTICE)) - 0.05 * np.array([1.0, 2.0, 3.0])
    assert np.array_equal(after, LATTICE.to_units(expected))


def test_a_partys_own_problem_has_the_gradients_of_its_row_in_the_problem_of_all():
    model = np.array([0.3, -0.2, 0.1])
    for k, size in enumerate(PROBLEM.sizes):
        alone = sv.problems.linear_regression([PROBLEM.features[k, :size]], [PROBLEM.targets[k, :size]], ridge=0.1)
        for batch in (None, np.array([1, 4, 7])):
            first, second = own_of(alone).gradient(model, batch), own_of(PROBLEM, k).gradient(model, batch)
            assert np.abs(first - second).max() < 1e-14


@pytest.mark.parametrize("law", [sv.noise.Gaussian(std=0.1), sv.noise.Laplace(std=0.1)])
def test_sent_noise_has_the_agreed_size(law):
    """40,000 numbers know a standard deviation to half a percent; Laplace ones, of larger kurtosis, to less than one."""
    d = 20_000
    problem = sv.problems.mean_estimation([np.zeros((2, d)), np.zeros((2, d))], radius=1.0)
    run = public_run(sv.topologies.complete(2), ATC, sv.noise.independent(law).scaled([0.5, 2.0]), rounds=2)
    run = type(run)(**{**{name: getattr(run, name) for name in run.__slots__}, "initial_model": np.zeros(d)})
    wiring = Wiring(run, LATTICE, TABLE)
    secret = SecretRandomness(law, d, lambda other: bytes(32), run=bytes(32))
    for position, expected in enumerate((0.05, 0.2)):
        own = own_of(problem, 0)
        made = prepare(wiring, 0, own, start(run, LATTICE), position, secret, None)
        found = LATTICE.to_float(signed(made.words[1])).std()
        assert abs(found / expected - 1) < 0.05  # a factor of one half, or of the other round, is far outside
