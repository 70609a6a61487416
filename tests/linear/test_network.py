"""One round of the whole network: matrices against the round carried out link by link on random numbers."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.linear import bound_rounds, network_round, noise_rows, observed_round
from sottovoce.linear.network import distinct_rows, seen_rows, sources_known
from sottovoce.observers import view

LAW = sv.noise.Gaussian(std=1.0)
NOISE = {
    "self": sv.noise.independent(LAW),
    "clean": sv.noise.independent(LAW, self_noise=False),
    "edge": sv.noise.independent(LAW, per_edge=True),
    "homomorphic": sv.noise.graph_homomorphic(LAW),
    "local": sv.noise.local_graph_homomorphic(LAW),
    "gopa": sv.noise.gopa(LAW, pairwise_std=2.0),
    "none": sv.noise.none(),
}
RING, COMPLETE = sv.topologies.ring(5), sv.topologies.complete(5)
STEP = 0.3
ALGORITHMS = {
    "atc": sv.algorithms.atc(step_size=STEP),
    "cta": sv.algorithms.cta(step_size=STEP),
    "consensus": sv.algorithms.consensus(step_size=STEP),
    "three": sv.algorithms.three_matrix(step_size=STEP, first=RING, middle=COMPLETE, last=RING),
}


def exchanged(sent, links, noise_map, z):
    """What every link and own copy carries, and what is combined."""
    carried, kept = sent[links.senders].copy(), sent.copy()
    for e, s, value in zip(noise_map.link_index, noise_map.link_source, noise_map.link_value, strict=True):
        carried[e] += value * z[s]
    for k, s, value in zip(noise_map.self_index, noise_map.self_source, noise_map.self_value, strict=True):
        kept[k] += value * z[s]
    combined = links.self_weights * kept
    for e, (k, weight) in enumerate(zip(links.receivers, links.weights, strict=True)):
        combined[k] += weight * carried[e]
    return carried, kept, combined


def by_hand(name, bound, w, g, z):
    """The round of each algorithm; the noise of its exchanges lies in z in their order."""
    parts, start = [], 0
    for exchange in bound.exchanges:
        parts.append((exchange.links, exchange.noise, z[start : start + exchange.noise.num_sources]))
        start += exchange.noise.num_sources
    if name == "atc":
        one = exchanged(w - STEP * g, *parts[0])
        return [one], one[2]
    if name in ("cta", "consensus"):
        one = exchanged(w, *parts[0])
        return [one], one[2] - STEP * g
    first = exchanged(w, *parts[0])
    middle = exchanged(first[2], *parts[1])
    last = exchanged(middle[2] - STEP * g, *parts[2])
    return [first, middle, last], last[2]


def drawn(name, scheme):
    rounds = bound_rounds(RING, ALGORITHMS[name], NOISE[scheme], 2)
    network = network_round(rounds.distinct[0])
    rng = np.random.default_rng(7)
    z = rng.normal(size=sum(exchange.noise.num_sources for exchange in rounds.distinct[0].exchanges))
    w, g = rng.normal(size=5), rng.normal(size=5)
    return rounds, network, w, g, z


@pytest.mark.parametrize("scheme", NOISE)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_round_of_the_network_is_the_round_link_by_link(name, scheme):
    rounds, network, w, g, z = drawn(name, scheme)
    everything = np.concatenate([w, g, z])
    exchanges, after = by_hand(name, rounds.distinct[0], w, g, z)
    assert network.num_agents == network.num_states == 5
    assert len(network.links) == len(exchanges)
    for j, (carried, kept, combined) in enumerate(exchanges):
        np.testing.assert_allclose(network.links[j] @ everything, carried, atol=1e-12)
        np.testing.assert_allclose(network.own[j] @ everything, kept, atol=1e-12)
        np.testing.assert_allclose(network.received[j] @ everything, combined, atol=1e-12)
        assert network.active[j].all()
    np.testing.assert_allclose(network.state @ everything, after, atol=1e-12)
    np.testing.assert_allclose(network.model @ everything, after, atol=1e-12)
    assert len(network.owners) == len(z)


OBSERVERS = {
    "all": (sv.observers.eavesdropper(), lambda s, r: True, ()),
    "curious": (sv.observers.curious_agent(1), lambda s, r: r == 1, (1,)),
    "coalition": (sv.observers.coalition([1, 4]), lambda s, r: r in (1, 4), (1, 4)),
    "link": (sv.observers.links([(2, 3)]), lambda s, r: (s, r) == (2, 3), ()),
}


@pytest.mark.parametrize("who", OBSERVERS)
@pytest.mark.parametrize("scheme", ["self", "edge", "homomorphic", "gopa", "local"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_observer_sees_its_rows_without_the_noise_it_knows(name, scheme, who):
    rounds, network, w, g, z = drawn(name, scheme)
    observer, reads, members = OBSERVERS[who]
    topologies = [RING, COMPLETE, RING] if name == "three" else [RING]
    system = observed_round(network, view(observer, *topologies), last=False, centroid=rounds.centroid.weights)
    known = np.array([any(owner in members for owner in owners) for owners in network.owners])
    exchanges, after = by_hand(name, rounds.distinct[0], w, g, np.where(known, 0.0, z))  # it subtracts what it knows
    expected = [
        carried[e]
        for (carried, _, _), topology in zip(exchanges, topologies, strict=True)
        for e, (s, r) in enumerate(topology.links)
        if reads(s, r)
    ]
    seen = system.H @ w + system.D @ g + system.M @ z[~known]
    # Repeated rows are left out: the same set of values remains.
    assert set(np.round(seen, 10)) == set(np.round(expected, 10))
    np.testing.assert_allclose(system.F @ w + system.G @ g + system.N @ z[~known], after, atol=1e-12)


def test_a_broadcast_heard_twice_is_one_row():
    rounds, network, *_ = drawn("atc", "self")
    q = rounds.centroid.weights
    whole = observed_round(network, view(sv.observers.eavesdropper(), RING), last=False, centroid=q)
    assert whole.H.shape[0] == 5  # ten links, five broadcasts
    rounds, network, *_ = drawn("atc", "edge")
    each = observed_round(network, view(sv.observers.eavesdropper(), RING), last=False, centroid=q)
    assert each.H.shape[0] == 10


@pytest.mark.parametrize("name", ["atc", "cta"])
def test_the_final_model_is_one_more_row_in_the_last_round(name):
    graph = sv.topologies.from_matrix(np.array([[0.5, 0.2, 0.3], [0.4, 0.7, 0.1], [0.1, 0.1, 0.6]]))
    rounds = bound_rounds(graph, ALGORITHMS[name], NOISE["self"], 2)
    network, q = network_round(rounds.distinct[0]), rounds.centroid.weights
    np.testing.assert_allclose(graph.matrix @ q, q, atol=1e-12)
    seen = view(sv.observers.final_model(), graph)
    assert observed_round(network, seen, last=False, centroid=q).H.shape[0] == 0
    last = observed_round(network, seen, last=True, centroid=q)
    everything = np.random.default_rng(0).normal(size=network.model.shape[1])
    expected = q @ (network.model @ everything)
    shown = last.H @ everything[:3] + last.D @ everything[3:6] + last.M @ everything[6:]
    assert shown == pytest.approx(expected)


@pytest.mark.parametrize(
    ("observer", "rows"),
    [
        (sv.observers.server(), 4),
        (sv.observers.eavesdropper(), 4),
        (sv.observers.curious_agent(1), 1),
        (sv.observers.final_model(), 0),
    ],
    ids=str,
)
def test_a_federation_is_seen_at_its_relay(observer, rows):
    graph = sv.topologies.federation(4, "records", records=[1, 2, 3, 4])
    bound = bound_rounds(graph, ALGORITHMS["atc"], NOISE["self"], 1)
    network = network_round(bound.distinct[0])
    system = observed_round(network, view(observer, graph), last=False, centroid=bound.centroid.weights)
    assert system.H.shape[0] == rows
    if rows == 1:  # the average by records, in which agent 1 knows its own noise
        np.testing.assert_allclose(system.H.toarray()[0], np.array([1, 2, 3, 4]) / 10, atol=1e-12)
        np.testing.assert_allclose(system.M.toarray()[0], np.array([1, 3, 4]) / 10, atol=1e-12)
    if rows == 4:
        np.testing.assert_allclose(np.sort(system.M.toarray(), axis=0)[-1], np.ones(4))


def test_inactive_links_of_a_schedule_are_not_read():
    pair = np.eye(5)
    pair[:2, :2] = 0.5
    listed = RING.with_schedule([pair, RING])
    bound = bound_rounds(listed, ALGORITHMS["atc"], NOISE["edge"], 2)
    seen = view(sv.observers.eavesdropper(), listed)
    rows = [
        observed_round(network_round(bound.at(t)), seen, last=False, centroid=bound.centroid.weights).H.shape[0]
        for t in (0, 1)
    ]
    assert rows == [2, 10]


def test_noise_that_cancels_leaves_no_rounding_behind():
    # Left-stochastic weights that are no binary fractions: the centroid of graph-homomorphic noise must be exactly free of it.
    for seed in range(20):
        weights = np.random.default_rng(seed).uniform(0.2, 1.0, (4, 4))
        graph = sv.topologies.from_matrix(weights / weights.sum(axis=0))
        for scheme in ("homomorphic", "local"):
            bound = bound_rounds(graph, ALGORITHMS["atc"], NOISE[scheme], 1)
            seen = view(sv.observers.final_model(), graph)
            system = observed_round(network_round(bound.distinct[0]), seen, last=True, centroid=bound.centroid.weights)
            assert np.abs(system.M.toarray()).max(initial=0.0) == 0.0
            if scheme == "local":
                assert np.abs(system.N.toarray()).max(initial=0.0) == 0.0


@pytest.mark.parametrize("scheme", NOISE)
def test_noise_rows_are_the_map_as_matrices(scheme):
    links = RING.active_links()
    noise_map = NOISE[scheme].spread(links)
    exchange = bound_rounds(RING, ALGORITHMS["atc"], NOISE[scheme], 1).distinct[0].exchanges[0]
    carried, kept = noise_rows(exchange)
    rng = np.random.default_rng(1)
    z = rng.normal(size=noise_map.num_sources)
    on_links, on_own, _ = exchanged(np.zeros(5), links, noise_map, z)
    np.testing.assert_allclose(carried @ z, on_links, atol=1e-14)
    np.testing.assert_allclose(kept @ z, on_own, atol=1e-14)


@pytest.mark.parametrize(
    "who", [sv.observers.eavesdropper(), sv.observers.curious_agent(2), sv.observers.links([(0, 1)])]
)
def test_every_read_link_has_a_row_in_the_order_of_the_links_used_or_not(who):
    one, other = np.eye(4), np.eye(4)
    one[:2, :2] = one[2:, 2:] = 0.5
    other[1:3, 1:3] = 0.5
    other[[0, 0, 3, 3], [0, 3, 0, 3]] = 0.5
    graph = sv.topologies.from_matrix((one + other) / 2).with_schedule([one, other])
    bound = bound_rounds(graph, ALGORITHMS["atc"], NOISE["clean"], 2)
    seen = view(who, graph)
    read = graph.links[seen.links[0]]
    for t, weights in enumerate((one, other)):
        network = network_round(bound.at(t))
        rows = seen_rows(network, seen, last=False, centroid=bound.centroid.weights)
        assert rows.messages[0].shape[0] == len(read)
        np.testing.assert_array_equal(rows.active[0], weights[read[:, 0], read[:, 1]] > 0)
        assert (rows.broadcast, rows.final_model.shape[0]) == ((), 0)
        senders = rows.messages[0][:, :4].toarray().argmax(axis=1)  # the state that a message is made from
        np.testing.assert_array_equal(senders, read[:, 0])


def test_a_repeated_row_is_kept_where_it_stands_first():
    rows = seen_rows(
        network_round(bound_rounds(RING, ALGORITHMS["atc"], NOISE["self"], 1).distinct[0]), view(sv.observers.eavesdropper(), RING),
        last=False, centroid=np.full(5, 0.2),
    ).messages[0]  # fmt: skip
    kept = distinct_rows(rows)
    senders = list(RING.links[:, 0])
    assert sorted(kept) == sorted(senders.index(k) for k in range(5))  # a broadcast is heard over two links


def test_uplinks_are_read_before_the_relay_adds_its_noise_and_who_reads_them_knows_it():
    hub, algorithm = sv.topologies.federation(3), sv.algorithms.fedavg(step_size=STEP)
    network = network_round(bound_rounds(hub, algorithm, sv.noise.central(LAW), 1).distinct[0])
    served, told = (view(who, hub) for who in (sv.observers.server(), sv.observers.curious_agent(0)))
    rows = seen_rows(network, served, last=False, centroid=np.full(3, 1 / 3))
    assert rows.messages[0].shape[0] == 3
    assert not rows.messages[0][:, 6:].toarray().any()  # columns: three states, three gradients, the sources
    assert sources_known(network, served).all()
    heard = seen_rows(network, told, last=False, centroid=np.full(3, 1 / 3))
    assert heard.messages[0].shape[0] == 0
    assert heard.broadcast[0][:, 6:].toarray().any()
    assert not sources_known(network, told).any()
