"""Recorded views of masked averages: they hold what the integer protocol gives away, and nothing more."""

import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2

import sottovoce as sv
from sottovoce.deployment.gopa import Sources, play_round
from sottovoce.noise import RELAY
from sottovoce.simulation.engine import precision
from sottovoce.simulation.rounds import random
from sottovoce.simulation.views import Statistic, layout, measure, observe
from sottovoce.simulation.views.masks import Graph, MaskPlan, connected, draw_graph, plan_masks, reveal

K, ROUNDS, REPEATS, SEED = 6, 5, 7, 3
HUB = sv.topologies.federation(K)
NOISE = sv.noise.independent(sv.noise.Gaussian(std=0.3))
KEYS = random.round_keys(random.repeat_keys(random.seed_words(5), np.arange(1), random.MASKS), 1, 0)
SILENT = sv.algorithms.SilentAgents(0.4, 5)


def masked(**others):
    return sv.algorithms.fedavg(step_size=0.1, aggregation=sv.algorithms.Gopa(**others))


def seen(problem, algorithm, observer, **others):
    chosen = {"rounds": ROUNDS, "repeats": REPEATS, "seed": SEED} | others
    return observe(problem, HUB, algorithm, NOISE, observer, **chosen)


def open_messages(problem, algorithm, **others):
    """What everybody sends without masks: the same noise, the same models."""
    return seen(problem, algorithm._replace(aggregation=None), sv.observers.server(), **others)


def plan(n, *, ratio=math.inf, partners=2, sampling=None, members=(), unknown=0, honest=None):
    return MaskPlan(n, partners, ratio, sampling, np.isin(np.arange(n), members), unknown, honest)


def graph_of(mask_plan, runs, seed=1):
    drawn = jax.jit(
        lambda words, ids: draw_graph(mask_plan, words, ids)
    )  # much faster than one operation after the other
    return drawn(random.seed_words(seed), np.arange(runs, dtype=np.uint32))


def revealed(mask_plan, *others):
    return jax.jit(lambda *given: reveal(mask_plan, *given))(*others)


def pairs_of(picks):
    """The pairs of one run, each once, [E, 2]."""
    return np.array(sorted({(min(u, v), max(u, v)) for u, row in enumerate(picks.tolist()) for v in row}))


@pytest.fixture(scope="module")
def rounds():
    """A round of many runs, with any members and any silence, from integers that doubles hold exactly."""
    n, runs, minimum, generator = 8, 120, 6, np.random.default_rng(4)
    chosen = plan(n, partners=1, sampling=sv.algorithms.SilentAgents(0.2, minimum))
    members = np.argsort(generator.random((n, runs)), axis=0) < generator.integers(0, 4, size=runs)
    published = generator.random((n, runs)) < 0.8
    values = generator.integers(-(2**40), 2**40, size=(n, 2, runs))
    counts = published.sum(axis=0) >= minimum
    with precision("float64"):
        graph = graph_of(chosen, runs)._replace(members=jnp.asarray(members))
        rows, board = revealed(chosen, graph, jnp.asarray(values, float), (jnp.asarray(published), jnp.asarray(counts)), KEYS, 1.0)  # fmt: skip
        rows, parts, picks = (np.asarray(one) for one in (rows, board.parts, graph.picks))
    return [
        SimpleNamespace(
            edges=pairs_of(picks[..., r]), honest=~members[:, r], published=published[:, r], counts=bool(counts[r]),
            inside=published[:, r] & ~members[:, r], values=values[..., r], rows=rows[..., r], parts=parts[:, r],
        )
        for r in range(runs)
    ]  # fmt: skip


def left_on_the_board(case, seed):
    """What the protocol's integers are after repairs, without the masks that members know, [n, d] modulo 2^64."""
    masks = np.random.default_rng(seed).integers(0, 2**64, size=(len(case.edges), 2), dtype=np.uint64)
    sources = Sources(case.edges, masks, np.zeros_like(case.values))
    repaired = np.full(len(case.values), case.counts)
    played = play_round(case.values, sources, survivors=case.published, repaired=repaired)
    left = played.published - played.repairs
    for (u, v), mask in zip(case.edges, masks, strict=True):
        gone = case.counts and not (case.published[u] and case.published[v])
        if not (case.honest[u] and case.honest[v]) and not gone:
            left[u], left[v] = left[u] - mask, left[v] + mask
    return left


def test_sums_are_those_that_the_integer_protocol_gives_away(rounds):
    shown = hidden = void = 0
    for number, case in enumerate(rounds):
        left = left_on_the_board(case, number)
        adjacency = np.zeros((8, 8))
        adjacency[case.edges[:, 0], case.edges[:, 1]] = 1
        labels = connected_components(adjacency * np.outer(case.inside, case.inside), directed=False)[1]
        for label in np.unique(labels[case.inside]):
            part = np.flatnonzero((labels == label) & case.inside)
            in_clear = left[part].sum(axis=0, dtype=np.uint64).view(np.int64)
            plain = case.values[part].sum(axis=0)
            if case.parts[part[0]] == part[0]:
                np.testing.assert_array_equal(in_clear, plain)
                np.testing.assert_array_equal(case.rows[part[0]], plain)
                assert (case.parts[part] == part[0]).all()
                shown, void = shown + 1, void + (not case.counts)
            else:
                assert (in_clear != plain).all()
                assert (case.parts[part] == -1).all()
                hidden += 1
        assert not case.rows[np.setdiff1d(np.arange(8), case.parts)].any()
        assert (case.parts[~case.inside] == -1).all()
    assert min(shown, hidden, void) > 10


def test_as_many_sums_are_seen_as_unknown_masks_leave_directions_free(rounds):
    for case in rounds:
        incidence = np.zeros((8, len(case.edges)))
        for e, (u, v) in enumerate(case.edges):
            revealed = case.counts and not (case.published[u] and case.published[v])
            if case.honest[u] and case.honest[v] and not revealed:
                incidence[u, e], incidence[v, e] = 1, -1
        rank = np.linalg.matrix_rank(incidence[case.inside]) if case.inside.any() else 0
        assert len(np.unique(case.parts[case.parts >= 0])) == case.inside.sum() - rank


def test_parts_are_the_connected_components_of_every_run():
    n, runs, generator = 14, 60, np.random.default_rng(2)
    picks = np.asarray(graph_of(plan(n, partners=1), runs).picks)
    inside = generator.random((n, runs)) < 0.8
    labels = np.asarray(jax.jit(connected)(jnp.asarray(picks), jnp.asarray(inside)))
    several = 0
    for r in range(runs):
        adjacency = np.zeros((n, n))
        adjacency[np.arange(n)[:, None], picks[:, :, r]] = 1
        adjacency *= np.outer(inside[:, r], inside[:, r])
        parts = connected_components(adjacency, directed=False)[1]
        for u in np.flatnonzero(inside[:, r]):
            assert labels[u, r] == np.flatnonzero((parts == parts[u]) & inside[:, r])[0]
        assert (labels[~inside[:, r], r] == n).all()
        several += len(np.unique(labels[inside[:, r], r])) > 1
    assert several > 20  # else nothing was shown


@pytest.mark.parametrize("counts", [True, False])
def test_gaussian_rows_have_the_covariance_of_the_masks_that_stay(counts):
    n, runs, ratio, std = 6, 40_000, 3.0, 0.5
    chosen = plan(n, ratio=ratio, partners=2, sampling=SILENT, members=[1])
    one = graph_of(chosen, 1, seed=8)
    many = Graph(*(jnp.broadcast_to(part, (*part.shape[:-1], runs)) for part in one))
    published = np.arange(n) != 4
    presence = jnp.broadcast_to(jnp.asarray(published)[:, None], (n, runs)), jnp.full(runs, counts)
    keys = random.round_keys(random.repeat_keys(random.seed_words(1), np.arange(runs), random.MASKS), 1, 0)
    rows, board = revealed(chosen, many, jnp.zeros((n, 1, runs)), presence, keys, jnp.asarray(std))
    inside = published & ~chosen.members
    expected = np.zeros((n, n))
    for u, v in pairs_of(np.asarray(one.picks)[..., 0]):
        stays = inside | (~published & ~counts)
        if stays[u] and stays[v]:
            step = np.zeros(n)
            step[u], step[v] = 1, -1
            expected += np.outer(step * inside, step * inside) * (ratio * std) ** 2
    assert expected.any()
    found = np.asarray(rows)[:, 0]
    assert not found[~inside].any()
    assert (np.asarray(board.parts)[:, 0] == np.where(inside, np.arange(n), -1)).all()
    # Six standard errors of a covariance of normal numbers; a ratio of 2/3 or 3/2 of the true one is far outside.
    variances = np.diag(expected)
    error = 6 * np.sqrt((expected**2 + np.outer(variances, variances)) / runs)
    assert (np.abs(np.cov(found) - expected) <= error + 1e-9).all()
    for wrong in (4 / 9, 9 / 4):
        assert (np.abs(np.cov(found) - wrong * expected) > error + 1e-9).any()


def test_every_agent_picks_k_others_alike_and_mutual_picks_are_one_pair():
    n, k, runs = 7, 3, 6000
    graph = graph_of(plan(n, partners=k), runs)
    picks, first = np.asarray(graph.picks), np.asarray(graph.first)
    assert (np.diff(np.sort(picks, axis=1), axis=1) > 0).all()
    picked = np.zeros((n, n, runs), dtype=int)
    np.put_along_axis(picked, picks, 1, axis=1)
    assert not picked[np.arange(n), np.arange(n)].any()
    for r in range(200):
        assert first[:, :, r].sum() == len(pairs_of(picks[:, :, r]))
    times = picked.sum(axis=2)[~np.eye(n, dtype=bool)].reshape(n, n - 1)
    share = k / (n - 1)
    # Of every agent's picks: k of n - 1 without replacement, whose chi-square statistic has n - 2 degrees of freedom.
    factor = runs * share * (1 - share) * (n - 1) / (n - 2)
    statistic = ((times - runs * share) ** 2).sum() / factor
    assert chi2.sf(statistic, n * (n - 2)) > 1e-4
    tilted = times + np.linspace(-0.05, 0.05, n - 1) * runs * share  # a twentieth more or less often
    assert chi2.sf(((tilted - runs * share) ** 2).sum() / factor, n * (n - 2)) < 1e-4


def test_unknown_members_are_drawn_for_every_run_and_spare_the_honest_one():
    n, runs = 9, 8000
    members = np.asarray(graph_of(plan(n, members=[2], unknown=3, honest=5), runs).members)
    assert (members.sum(axis=0) == 4).all()
    assert members[2].all()
    assert not members[5].any()
    others = np.setdiff1d(np.arange(n), [2, 5])
    share, error = 3 / 7, 5 * math.sqrt(3 / 7 * 4 / 7 / runs)
    assert (np.abs(members[others].mean(axis=1) - share) < error).all()
    assert abs(3 / 8 - share) > error  # drawn among one agent more, it would be noticed


@pytest.mark.parametrize("silence", [{}, {"silence": 0.3, "minimum_agents": 4}])
def test_recorded_rows_are_sums_of_what_is_sent_in_the_open(regression, silence):
    algorithm = masked(partners=1, **silence)
    observer = sv.observers.curious_agent(2)
    found, plain = seen(regression, algorithm, observer), open_messages(regression, algorithm)
    board, (rows,), (active,), (sent,) = found.board, found.messages, found.active, plain.messages
    counted = board.published.sum(axis=-1) >= silence.get("minimum_agents", K)
    np.testing.assert_array_equal(plain.active[0], board.published & counted[..., None])
    assert counted.any()
    assert bool(silence) == (not counted.all())
    several = 0
    for r, t in np.argwhere(counted):
        parts = board.parts[r, t]
        for row in range(K):
            expected = sent[r, t, parts == row].sum(axis=0)
            np.testing.assert_allclose(rows[r, t, row], expected, atol=1e-12)
            assert active[r, t, row] == (parts == row).any()
        several += active[r, t].sum() > 1
        together = rows[r, t].sum(axis=0) + sent[r, t, 2]  # the member's own value, zero if it was silent
        np.testing.assert_allclose(together / board.published[r, t].sum(), found.broadcast[0][r, t], atol=1e-12)
    assert several > 0
    assert (board.picks == board.picks[:, :1]).all()  # one graph for all rounds
    assert (found.sources[0].shape, found.layout.broadcast) == ((REPEATS, ROUNDS, 1, 3), True)
    assert (found.layout.links[0][:, 1] == RELAY).all()


def test_chunks_groups_and_company_change_no_view(regression):
    algorithm = masked(partners=2, pairwise_ratio=2.0, silence=0.3, minimum_agents=4)
    observer = sv.observers.colluding_server(0.4)
    whole = seen(regression, algorithm, observer, honest=1, chunk=2)
    assert whole.messages[0].shape == (REPEATS, ROUNDS, K, 3)
    assert (whole.board.members.sum(axis=-1) == 2).all()
    assert not whole.board.members[..., 1].any()
    total = Statistic(
        lambda: jnp.zeros(()), lambda c, s, t: c + s.messages[0].sum() + (s.board.parts * t).sum(), lambda c, f: c
    )
    found = measure(
        [regression, regression], HUB, algorithm, NOISE, observer, total, rounds=ROUNDS, repeats=REPEATS, seed=SEED, together=3, honest=1
    )  # fmt: skip
    numbered = whole.board.parts.sum(axis=2) @ np.arange(1, ROUNDS + 1)
    np.testing.assert_allclose(found[0], whole.messages[0].sum(axis=(1, 2, 3)) + numbered, rtol=1e-10)
    assert (np.abs(found[1] - found[0]) > 1e-6).all()  # another world draws graph, masks and noise of its own


def test_whoever_gets_the_final_model_alone_sees_no_board(regression):
    found = seen(regression, masked(partners=2), sv.observers.final_model())
    assert found.board is None
    assert (found.messages[0].shape, found.final_model.shape) == ((REPEATS, ROUNDS, 0, 3), (REPEATS, 3))


@pytest.mark.parametrize(
    ("observer", "algorithm", "honest", "message"),
    [
        (sv.observers.colluding_server(0.5), sv.algorithms.fedavg(step_size=0.1), None, "Name them"),
        (
            sv.observers.colluding_server(0.9) + sv.observers.curious_agent(0),
            masked(partners=2),
            None,
            "nobody is left",
        ),
        (sv.observers.server(), masked(partners=2, pairwise_ratio=1e6), None, "uniform masks"),
        (sv.observers.curious_agent(1), masked(partners=2), 1, "no member"),
        (sv.observers.server(), masked(partners=2), K, "honest = 6"),
        (sv.observers.server(), masked(partners=2), True, "honest = True"),
    ],
)
def test_what_cannot_be_recorded_is_refused(observer, algorithm, honest, message):
    members = np.isin(np.arange(K), observer.members)
    with pytest.raises((sv.ConfigError, sv.IncompatibleChoice), match=message):
        plan_masks(algorithm, observer, members, honest)
    if honest is None:
        with pytest.raises((sv.ConfigError, sv.IncompatibleChoice), match=message):
            layout(HUB, algorithm, NOISE, observer)
