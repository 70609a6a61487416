"""What hiding a message costs, against the least shift of the sources found by linear algebra on maps written by hand."""

import math

import numpy as np
import pytest

import sottovoce as sv
from accounting import brute_force as brute
from sottovoce.accounting.proofs import message_noise as module
from sottovoce.accounting.proofs.message_noise import sent_noise
from sottovoce.linear import BoundExchange

RATIO = 1.7
LAW = sv.noise.Gaussian(std=1.0)
NOISE = {
    "self": sv.noise.independent(LAW),
    "clean": sv.noise.independent(LAW, self_noise=False),
    "edge": sv.noise.independent(LAW, per_edge=True),
    "edge-clean": sv.noise.independent(LAW, per_edge=True, self_noise=False),
    "homomorphic": sv.noise.graph_homomorphic(LAW),
    "local": sv.noise.local_graph_homomorphic(LAW),
    "gopa": sv.noise.gopa(LAW, pairwise_std=RATIO),
}


def matrices():
    rng = np.random.default_rng(4)
    ring = sv.topologies.ring(5).matrix
    full = rng.uniform(0.2, 1.0, (4, 4))
    star = np.where(np.eye(5, dtype=bool), 1.0, 0.0) + np.where(
        np.arange(5)[:, None] * np.arange(5)[None, :] == 0, 0.5, 0.0
    )
    return {"ring": ring, "full": full / full.sum(axis=0), "star": star / star.sum(axis=0)}


def least_shift(scheme, A, known, agent, *, own_copy_seen=False):
    """The least sources that undo a unit change of the agent's message: (squared norm, l1 norm, share in the own copy, hidden).

    What an own copy carries and no message shows is given away first.
    """
    made = brute.spread(scheme, A, brute.perron(A), RATIO)
    free = np.array([not any(known[owner] for owner in owners) for owners in made.owners])
    carried, kept = made.carried[:, free], made.kept[:, free]
    mark = np.array([float(sender == agent) for sender, _ in made.pairs])
    if own_copy_seen:
        carried, mark = np.vstack([carried, kept]), np.concatenate([mark, np.arange(len(A)) == agent])
    shift = np.linalg.lstsq(carried, mark, rcond=1e-10)[0]
    if not np.allclose(carried @ shift, mark, atol=1e-8):
        return math.inf, math.inf, 0.0, False
    onto_rows = np.linalg.pinv(carried, rcond=1e-10) @ carried
    hidden = not np.allclose(kept[agent] @ onto_rows, kept[agent], atol=1e-8)
    return float(shift @ shift), float(np.abs(shift).sum()), float(kept[agent] @ shift), hidden


def exchange(noise, A):
    links = sv.topologies.from_matrix(A).active_links()
    return BoundExchange(links, noise.spread(links))


@pytest.mark.parametrize(
    ("scheme", "graph"),
    [
        (s, g) for s in NOISE for g in ("ring", "full", "star") if (s, g) != ("local", "star")
    ],  # which needs two neighbours
)
@pytest.mark.parametrize("members", [(), (0,), (1, 3)])
def test_the_price_is_the_least_squared_shift(scheme, graph, members):
    A = matrices()[graph]
    known = np.isin(np.arange(len(A)), members)
    found = sent_noise(exchange(NOISE[scheme], A), known, pure=False)
    for p in np.flatnonzero(~known):
        price, _, own, hidden = least_shift(scheme, A, known, p)
        assert found.price[p] == pytest.approx(price, rel=1e-9)
        if math.isfinite(price):
            assert found.own[p] == pytest.approx(own, abs=1e-9)
            assert bool(found.hidden[p]) == hidden


@pytest.mark.parametrize("scheme", ["self", "clean", "edge-clean", "homomorphic", "edge"])
@pytest.mark.parametrize("graph", ["ring", "full"])
def test_the_pure_price_is_the_least_sum_of_shifts(scheme, graph):
    A = matrices()[graph]
    nobody = np.zeros(len(A), dtype=bool)
    found = sent_noise(exchange(NOISE[scheme], A), nobody, pure=True)
    for p in range(len(A)):
        _, price, own, hidden = least_shift(scheme, A, nobody, p)
        assert found.price[p] == pytest.approx(price, rel=1e-9)
        assert found.own[p] == pytest.approx(own, abs=1e-9)
        assert bool(found.hidden[p]) == hidden


def test_under_a_laplace_law_shared_sources_are_given_away():
    A = matrices()["ring"]
    nobody = np.zeros(5, dtype=bool)
    found = sent_noise(exchange(sv.noise.gopa(sv.noise.Laplace(std=1.0), pairwise_std=RATIO), A), nobody, pure=True)
    np.testing.assert_allclose(found.price, 1.0)  # the own source alone
    assert sent_noise(exchange(NOISE["gopa"], A), nobody, pure=False).price.max() < 1.0


@pytest.mark.parametrize("scheme", ["self", "edge", "gopa"])
@pytest.mark.parametrize("graph", ["ring", "full"])
def test_an_own_copy_that_is_seen_costs_its_own_shift(scheme, graph):
    A = matrices()[graph]
    nobody = np.zeros(len(A), dtype=bool)
    found = sent_noise(exchange(NOISE[scheme], A), nobody, pure=False, own_copy_seen=True)
    for p in range(len(A)):
        price, *_ = least_shift(scheme, A, nobody, p, own_copy_seen=True)
        assert math.isfinite(price)
        assert found.price[p] == pytest.approx(price, rel=1e-9)


@pytest.mark.parametrize("scheme", ["clean", "edge-clean", "homomorphic"])
def test_an_own_copy_without_the_noise_that_was_sent_shows_the_message(scheme):
    A = matrices()["ring"]
    nobody = np.zeros(5, dtype=bool)
    found = sent_noise(exchange(NOISE[scheme], A), nobody, pure=False, own_copy_seen=True)
    assert (found.price == math.inf).all()
    assert least_shift(scheme, A, nobody, 0, own_copy_seen=True)[0] == math.inf


def custom(entries):
    """A scheme given as (owners, {(sender, receiver): value}, {agent: value}) per source."""

    def spread(links):
        place = {(int(s), int(r)): e for e, (s, r) in enumerate(zip(links.senders, links.receivers, strict=True))}
        on_link = [(place[pair], s, v) for s, (_, links_, _) in enumerate(entries) for pair, v in links_.items()]
        on_own = [(k, s, v) for s, (_, _, own) in enumerate(entries) for k, v in own.items()]
        columns = [np.array(part) for rows in (on_link, on_own) for part in zip(*rows, strict=True)]
        link, own = columns[:3], columns[3:] or [np.arange(0), np.arange(0), np.zeros(0)]
        return sv.noise.NoiseMap(np.array([owners for owners, _, _ in entries]), *link, *own)

    return sv.noise.Noise(name="custom", law=LAW, spread=spread)


ALONE = [((k, -1), {(k, m): 1.0 for m in range(3) if m != k}, {}) for k in range(3)]


def test_one_source_on_two_links_with_different_factors_can_be_eliminated():
    uneven = custom([((0, -1), {(0, 1): 1.0, (0, 2): 2.0}, {}), *ALONE[1:]])
    A = np.full((3, 3), 1 / 3)
    found = sent_noise(exchange(uneven, A), np.zeros(3, dtype=bool), pure=False)
    assert found.price[0] == math.inf
    assert found.price[1] == found.price[2] == pytest.approx(1.0)


def test_a_source_that_is_amplified_hides_more():
    louder = custom([((0, -1), {(0, 1): 2.0, (0, 2): 2.0}, {0: 1.0}), *ALONE[1:]])
    bound, nobody = exchange(louder, np.full((3, 3), 1 / 3)), np.zeros(3, dtype=bool)
    found = sent_noise(bound, nobody, pure=False)
    np.testing.assert_allclose(found.price, [1 / 4, 1.0, 1.0])
    np.testing.assert_allclose(found.own, [0.5, 0.0, 0.0])  # the own copy carries half of what was sent
    np.testing.assert_allclose(sent_noise(bound, nobody, pure=True).price, [1 / 2, 1.0, 1.0])


def test_several_own_sources_on_a_link_add_up_for_gaussian_noise_only():
    doubled = custom([*ALONE, ((0, -1), {(0, 1): 2.0, (0, 2): 2.0}, {})])
    bound = exchange(doubled, np.full((3, 3), 1 / 3))
    found = sent_noise(bound, np.zeros(3, dtype=bool), pure=False)
    assert found.price[0] == pytest.approx(1.0 / 5.0)  # variance 1 + 4
    with pytest.raises(sv.UnsupportedClaim, match="Gaussian"):
        sent_noise(bound, np.zeros(3, dtype=bool), pure=True)


def test_own_copies_that_give_others_away_are_refused():
    # A pair's source is on the links of 0 and 1, and doubled in the own copy of 1: to hide 0's message it must shift, and 1's model shifts
    # with it.
    shared = custom([*ALONE, ((0, 1), {(0, 1): 1.0, (0, 2): 1.0, (1, 0): -1.0, (1, 2): -1.0}, {1: 2.0})])
    with pytest.raises(sv.UnsupportedClaim, match="own copies"):
        sent_noise(exchange(shared, np.full((3, 3), 1 / 3)), np.zeros(3, dtype=bool), pure=False)


def test_large_maps_are_treated_group_by_group(monkeypatch):
    A = matrices()["ring"]
    local = brute.spread("local and own", A, brute.perron(A), RATIO)
    entries = [
        (
            (owners[0], owners[1] if len(owners) > 1 else -1),
            {pair: value for pair, value in zip(local.pairs, local.carried[:, s], strict=True) if value},
            {},
        )
        for s, owners in enumerate(local.owners)
    ]
    bound, nobody = exchange(custom(entries), A), np.zeros(5, dtype=bool)
    whole = sent_noise(bound, nobody, pure=False)
    monkeypatch.setattr(module, "DENSE_LIMIT", 0)
    parts = sent_noise(bound, nobody, pure=False)
    np.testing.assert_allclose(parts.price, whole.price, rtol=1e-9)
    np.testing.assert_allclose(parts.own, whole.own)
    for p in range(5):
        assert whole.price[p] == pytest.approx(least_shift("local and own", A, nobody, p)[0], rel=1e-9)
    bare, clear = exchange(NOISE["local"], A), sent_noise(exchange(NOISE["local"], A), nobody, pure=False)
    assert (clear.price == math.inf).all()
    np.testing.assert_array_equal(sent_noise(bare, nobody, pure=False).price, clear.price)


def test_an_agent_that_is_silent_in_a_round_has_nothing_to_hide():
    whole = sv.topologies.ring(4)
    weights = np.array([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]])
    part = whole.with_schedule([weights, whole]).listed()[0]
    for scheme in ("self", "clean", "edge", "homomorphic", "gopa"):
        links = part.active_links()
        found = sent_noise(BoundExchange(links, NOISE[scheme].spread(links)), np.zeros(4, dtype=bool), pure=False)
        assert found.price[2] == found.price[3] == 0.0
        assert found.own[2] == found.own[3] == 0.0
        assert found.price[0] > 0
