"""Recorded views: they show the run that is simulated, row by row, whatever the chunks, groups and worlds."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import sottovoce as sv
from sottovoce.noise import RELAY
from sottovoce.simulation.views import Statistic, layout, measure, observe, recorder, views
from sottovoce.simulation.views import recorded as module

LAPLACE, GAUSSIAN = sv.noise.Laplace(std=0.3), sv.noise.Gaussian(std=0.3)
RING, FEDERATION = sv.topologies.ring(6), sv.topologies.federation(6)
ATC = sv.algorithms.atc(step_size=0.1)
ALL = sv.observers.eavesdropper() + sv.observers.coalition([1, 4]) + sv.observers.final_model()
ROUNDS, REPEATS, SEED = 5, 3, 7
ALGORITHMS = {
    "consensus": sv.algorithms.consensus(step_size=0.1),
    "cta": sv.algorithms.cta(step_size=0.1),
    "atc": ATC,
    "dgd": sv.algorithms.dgd(step_size=0.5, gradient_rounds=3, box=2.0),
    "fedavg": sv.algorithms.fedavg(step_size=0.1, local_steps=2, server_step_size=0.5),
    "inexact_admm": sv.algorithms.inexact_admm(penalty=20.0),
    "gossip": sv.algorithms.gossip(acceleration=0.2),
    "muffliato": sv.algorithms.muffliato(step_size=0.1, gossip_steps=2),
    "random_walk": sv.algorithms.random_walk(step_size=0.1, contributions=2),
}
# None of these is drawn as a sum by an ordinary run, so that both runs use the very same numbers.
SCHEMES = {
    "none": sv.noise.none(),
    "independent": sv.noise.independent(LAPLACE, per_edge=True),
    "graph_homomorphic": sv.noise.graph_homomorphic(sv.noise.L2Laplace(scale=0.1)).scaled(lambda t: 1 / t),
    "local_graph_homomorphic": sv.noise.local_graph_homomorphic(LAPLACE),
    "gopa": sv.noise.gopa(LAPLACE, pairwise_std=0.5),
    "central": sv.noise.central(GAUSSIAN),
    "gradient": sv.noise.gradient(GAUSSIAN),
    "broadcast": sv.noise.independent(LAPLACE),
}
TOPOLOGIES = {
    "ring": RING,
    "dropout": RING.with_dropout(0.3),
    "random pair": RING.with_random_pair(),
    "listed": RING.with_schedule([RING, sv.topologies.complete(6)]),
    "walk": RING.with_walk(),
    "federation": FEDERATION,
}
CHOSEN = [("consensus", "independent", "dropout"), ("fedavg", "central", "federation")]  # all of them are slow


def seen(problem, topology, algorithm, noise, observer=ALL, **others):
    chosen = {"rounds": ROUNDS, "repeats": REPEATS, "seed": SEED} | others
    return observe(problem, topology, algorithm, noise, observer, **chosen)


@pytest.fixture(scope="module")
def whole(regression):
    """A view of everything."""
    return seen(regression, RING, ATC, SCHEMES["broadcast"])


def ordinary(problem, topology, algorithm, noise, *, batch_size=None):
    """The centroids of the final models of an ordinary run, [repeats, d]."""
    run = sv.simulate(
        problem, topology, algorithm, noise, rounds=ROUNDS, repeats=REPEATS, seed=SEED, batch_size=batch_size,
        dtype="float64", record=("loss",), progress=False,
    )  # fmt: skip
    return np.einsum("k,rkd->rd", topology.perron, run.models)


def test_the_combinations_tried_cover_the_registries():
    assert ALGORITHMS.keys() == sv.algorithms.ALGORITHMS.keys()
    assert SCHEMES.keys() >= sv.noise.SCHEMES.keys()


@pytest.mark.parametrize(("algorithm", "scheme", "topology"), CHOSEN)
def test_a_recorded_run_is_the_ordinary_run(regression, algorithm, scheme, topology):
    parts, batch = (TOPOLOGIES[topology], ALGORITHMS[algorithm], SCHEMES[scheme]), 2 if algorithm == "fedavg" else None
    found = seen(regression, *parts, batch_size=batch)
    np.testing.assert_allclose(found.final_model, ordinary(regression, *parts, batch_size=batch), rtol=0, atol=1e-12)


def places(algorithm):
    """The topologies on which an algorithm is tried."""
    if algorithm == "random_walk":
        return ["walk"]
    if algorithm == "inexact_admm":
        return ["federation"]
    return {"atc": ["ring", "dropout", "random pair", "listed"], "fedavg": ["ring", "federation"]}.get(
        algorithm, ["ring"]
    )


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "place"), [(name, place) for name in ALGORITHMS for place in places(name)])
def test_with_every_scheme_a_recorded_run_is_the_ordinary_one_or_both_are_refused(regression, algorithm, place):
    parts, fitting = (TOPOLOGIES[place], ALGORITHMS[algorithm]), {}
    for name, noise in SCHEMES.items():
        try:
            views(regression, *parts, noise, ALL, rounds=ROUNDS)
        except sv.IncompatibleChoice:
            with pytest.raises(sv.IncompatibleChoice):
                sv.simulate(regression, *parts, noise, rounds=ROUNDS, progress=False)
        else:
            fitting[name] = noise
    assert {"none", "broadcast"} <= fitting.keys()
    runs = sv.simulate(
        regression, *parts, fitting, rounds=ROUNDS, repeats=REPEATS, seed=SEED, dtype="float64", record=("loss",),
        progress=False,
    )  # fmt: skip
    for (_, name), run in runs.items():
        expected = np.einsum("k,rkd->rd", parts[0].perron, run.models)
        found = seen(regression, *parts, fitting[name]).final_model
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, err_msg=name)


def test_where_an_ordinary_run_draws_sums_a_recorded_one_has_the_same_law(regression):
    """4000 runs: what noise adds to the error of the centroid within four standard errors of theory; a scale wrong by 5 % is rejected."""
    noise = sv.noise.independent(GAUSSIAN, per_edge=True, self_noise=False)
    final = Statistic(lambda: jnp.zeros(()), lambda carry, seen, t: carry, lambda carry, w: w)
    found = measure([regression], RING, ATC, noise, ALL, final, rounds=ROUNDS, repeats=4000, seed=1)[0]
    squares = ((found - found.mean(axis=0)) ** 2).sum(axis=1)
    mean, error = squares.mean(), squares.std(ddof=1) / len(squares) ** 0.5
    # Losses are quadratic, so noise does not move the mean.
    quiet, exact = (
        sv.expected_msd(regression, RING, ATC, one, rounds=ROUNDS)["msd_centroid"][-1]
        for one in (sv.noise.none(), noise)
    )
    assert abs(mean - (exact - quiet)) < 4 * error
    for wrong in (0.95, 1.05):
        assert abs(mean - wrong**2 * (exact - quiet)) > 4 * error


@pytest.mark.usefixtures("compiled_as_for_users")
def test_chunks_do_not_change_what_is_seen(regression):
    whole = seen(regression, RING, ATC, SCHEMES["broadcast"])
    numbers = dict(rounds=ROUNDS, repeats=REPEATS, seed=SEED)
    parts = list(views(regression, RING, ATC, SCHEMES["broadcast"], ALL, **numbers, chunk=2))
    assert [part.first_round for part in parts] == [1, 3, 5]
    assert all(part.final_model is None for part in parts[:-1])
    np.testing.assert_array_equal(parts[-1].final_model, whole.final_model)
    again = seen(regression, RING, ATC, SCHEMES["broadcast"], chunk=2)
    assert again.first_round == 1
    np.testing.assert_array_equal(again.messages[0], whole.messages[0])
    for name in ("messages", "active", "sources"):
        joined = np.concatenate([getattr(part, name)[0] for part in parts], axis=1)
        np.testing.assert_array_equal(joined, getattr(whole, name)[0])
    assert (whole.repeats, whole.rounds) == (REPEATS, ROUNDS)


def weighted(num_links, d):
    """Round-weighted sums of messages, sources and uses, and the final model."""
    return Statistic(
        lambda: (jnp.zeros((num_links, d)), jnp.zeros(d), jnp.zeros((), int)),
        lambda carry, seen, t: (
            carry[0] + t * seen.messages[0],
            carry[1] + t**2 * seen.sources[0].sum(axis=0),
            carry[2] + seen.active[0].sum(),
        ),
        lambda carry, final: {"sums": carry, "final": final},
    )


def test_a_statistic_is_the_fold_over_the_recorded_view_in_groups_of_any_size(regression, whole, monkeypatch):
    monkeypatch.setattr(recorder, "GROUP_BYTES", 1)  # one run at a time, unless told
    t = np.arange(1, ROUNDS + 1)
    expected = (
        np.einsum("t,rted->red", t, whole.messages[0]),
        np.einsum("t,rtsd->rd", t**2, whole.sources[0]),
        whole.active[0].sum(axis=(1, 2)),
    )
    for together in (None, 2):  # two and one, which is filled up
        found = measure(
            [regression], RING, ATC, SCHEMES["broadcast"], ALL, weighted(12, 3), rounds=ROUNDS,
            repeats=REPEATS, seed=SEED, together=together,
        )  # fmt: skip
        for left, right in zip(found["sums"], expected, strict=True):
            np.testing.assert_allclose(left[0], right, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found["final"][0], whole.final_model, rtol=0, atol=1e-13)


def test_worlds_repeats_and_coordinates_have_noise_of_their_own(regression):
    """3000 runs of two equal worlds: correlations below five standard errors; the first world is the recorded run itself."""
    noise, tap = sv.noise.independent(GAUSSIAN), sv.observers.links([(0, 1)])
    keep = Statistic(
        lambda: jnp.zeros((2, 3)), lambda kept, seen, t: kept.at[t - 1].set(seen.messages[0][0]), lambda kept, _: kept
    )
    found = measure([regression, regression], RING, ATC, noise, tap, keep, rounds=2, repeats=3000, seed=SEED)
    expected = observe(regression, RING, ATC, noise, tap, rounds=2, repeats=REPEATS, seed=SEED)
    np.testing.assert_allclose(found[0, :REPEATS], expected.messages[0][:, :, 0], rtol=0, atol=1e-13)
    first_round = found[:, :, 0, 0]  # nothing but noise differs between runs
    limit = 5 / 3000**0.5
    assert abs(np.corrcoef(first_round[0], first_round[1])[0, 1]) < limit
    assert abs(np.corrcoef(first_round[0, 1:], first_round[0, :-1])[0, 1]) < limit
    assert abs(np.corrcoef(found[0, :, 0, 0], found[0, :, 0, 1])[0, 1]) < limit
    # A dependence is seen where there is one: the second message holds a third of the first one's noise.
    assert np.corrcoef(found[0, :, 0, 0], found[0, :, 1, 0])[0, 1] > limit
    assert abs(first_round.std() / 0.3 - 1) < 0.05


def test_a_token_is_seen_on_the_link_it_takes_and_nowhere_else(regression):
    topology, token = sv.topologies.complete(6).with_walk(), ALGORITHMS["random_walk"]
    found = seen(regression, topology, token, sv.noise.independent(LAPLACE), rounds=9)
    path = sv.topologies.walk_paths(topology, 9, seed=SEED, repeats=REPEATS)
    links, kept = found.layout.links[0], path[:, 1:] == path[:, :-1]
    hops = np.stack([path[:, :-1], path[:, 1:]], axis=-1)  # [repeats, rounds, 2]
    np.testing.assert_array_equal(found.active[0], (links == hops[:, :, None]).all(axis=-1))
    assert kept.any()
    assert not found.active[0][kept].any()
    assert not found.messages[0][~found.active[0]].any()
    run = sv.simulate(
        regression, topology, token, sv.noise.independent(LAPLACE), rounds=9, repeats=REPEATS, seed=SEED, dtype="float64",
        record=("loss",), progress=False,
    )  # fmt: skip
    for repeat in range(REPEATS):
        last = np.flatnonzero(found.active[0][repeat].any(axis=1))[-1]
        if last == 8:  # the last hop went over a link: what it carried is what its receiver holds
            message = found.messages[0][repeat, last][found.active[0][repeat, last]][0]
            np.testing.assert_allclose(run.models[repeat, path[repeat, -1]], message, atol=1e-13)
    # Members' sources are zero while others hold the token.
    holds = path[:, :-1, None] == found.layout.sources[0][:, 0]
    np.testing.assert_array_equal(found.sources[0].any(axis=-1), holds)
    assert holds.any()


def test_links_that_drop_out_carry_nothing_in_either_direction(regression):
    found = seen(regression, TOPOLOGIES["dropout"], ALGORITHMS["consensus"], SCHEMES["independent"])
    active = found.active[0]
    for pair in range(RING.num_pairs):
        first, second = np.flatnonzero(RING.link_pairs == pair)
        np.testing.assert_array_equal(active[:, :, first], active[:, :, second])
    assert 0.5 < active.mean() < 0.9
    np.testing.assert_array_equal(found.messages[0].any(axis=-1), active)


def test_the_broadcast_is_the_average_of_the_uplinks_and_the_noise_of_the_relay(regression):
    """The server's view and an agent's view of the same runs, in which agents take part by coins."""
    noise = sv.noise.central(GAUSSIAN)
    algorithm = sv.algorithms.fedavg(step_size=0.1, exchange="gradient", participation=0.5)
    server = seen(regression, FEDERATION, algorithm, noise, sv.observers.server())
    agent = seen(regression, FEDERATION, algorithm, noise, sv.observers.curious_agent(2))
    np.testing.assert_array_equal(server.layout.links[0], [[k, RELAY] for k in range(6)])
    np.testing.assert_array_equal(server.layout.sources[0], [[RELAY, -1]])
    assert (server.broadcast, agent.messages[0].size, agent.sources[0].size) == ((), 0, 0)
    assert (server.layout.broadcast, agent.layout.broadcast) == (False, True)
    took_part = server.active[0]
    assert 0.3 < took_part.mean() < 0.7
    assert not server.messages[0][~took_part].any()
    average = server.messages[0].sum(axis=2) / (6 * 0.5)  # gradients: a silent agent counts as 0
    np.testing.assert_allclose(agent.broadcast[0], average + server.sources[0][:, :, 0], rtol=0, atol=1e-13)
    assert np.abs(server.sources[0]).min() > 0


def test_tapped_links_are_the_rows_of_an_eavesdropper_and_a_curious_agent_reads_what_comes_in(regression):
    whole = seen(regression, RING, ATC, SCHEMES["none"])
    rows = whole.layout.links[0]
    np.testing.assert_array_equal(rows, RING.links)
    for observer, chosen in (
        (sv.observers.links([(1, 0), (3, 4)]), (rows == (1, 0)).all(axis=1) | (rows == (3, 4)).all(axis=1)),
        (sv.observers.curious_agent(4), rows[:, 1] == 4),
    ):
        part = seen(regression, RING, ATC, SCHEMES["none"], observer)
        np.testing.assert_array_equal(part.layout.links[0], rows[chosen])
        np.testing.assert_allclose(part.messages[0], whole.messages[0][:, :, chosen], rtol=0, atol=1e-13)
        assert part.final_model is None


def test_rows_have_names_before_anything_is_run():
    found = layout(RING, ATC, SCHEMES["gopa"], sv.observers.curious_agent(4))
    np.testing.assert_array_equal(found.links[0], [[3, 4], [5, 4]])
    assert sorted(map(tuple, found.sources[0].tolist())) == [(3, 4), (4, -1), (4, 5)]  # each pair's, and its own
    steps = layout(FEDERATION, ALGORITHMS["fedavg"], SCHEMES["gradient"], sv.observers.coalition([1, 4]))
    assert steps.noisy_gradients
    np.testing.assert_array_equal(steps.sources[1][:, 0], [1, 4, 1, 4])  # two local steps


def test_the_final_model_alone_comes_without_messages_and_in_the_precision_of_the_run(regression):
    observer = sv.observers.final_model()
    found = seen(regression, RING, ATC, SCHEMES["none"], observer, dtype="float32")
    assert (found.messages[0].shape, found.sources[0].shape) == ((REPEATS, ROUNDS, 0, 3), (REPEATS, ROUNDS, 0, 3))
    assert (found.final_model.shape, found.final_model.dtype) == ((REPEATS, 3), np.float32)


@pytest.mark.parametrize(
    ("observer", "algorithm", "topology", "message"),
    [
        (sv.observers.server(), ATC, RING, "federation"),
        (sv.observers.links([(0, 3)]), ATC, RING, "no link from 0 to 3"),
        (sv.observers.curious_agent(6), ATC, RING, "no agent 6"),
        (sv.observers.eavesdropper(), ALGORITHMS["random_walk"], RING, "with_walk"),
        (sv.observers.eavesdropper(), ALGORITHMS["inexact_admm"], RING, "federation"),
        (sv.observers.eavesdropper(), ATC, sv.topologies.ring(5), "6 agents"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_first_round(regression, observer, algorithm, topology, message):
    with pytest.raises((sv.ConfigError, sv.IncompatibleChoice), match=message):
        views(regression, topology, algorithm, sv.noise.none(), observer, rounds=2)


def test_views_that_do_not_fit_into_memory_are_refused_and_streamed_instead(regression):
    long = dict(rounds=10_000, repeats=1_000)
    with pytest.raises(sv.ConfigError, match=r"views\(\)"):
        observe(regression, RING, ATC, sv.noise.none(), sv.observers.eavesdropper(), **long)
    with pytest.raises(sv.ConfigError, match="smaller chunks"):
        views(regression, RING, ATC, sv.noise.none(), sv.observers.eavesdropper(), **long, chunk=10_000)
    first = next(views(regression, RING, ATC, sv.noise.none(), sv.observers.eavesdropper(), **long))
    assert sum(part.nbytes for part in (*first.messages, *first.active)) <= module.CHUNK_BYTES


def test_members_without_names_are_refused_where_nothing_is_masked():
    noise = sv.noise.independent(GAUSSIAN)
    with pytest.raises(sv.ConfigError, match="Name them"):
        layout(FEDERATION, ALGORITHMS["fedavg"], noise, sv.observers.colluding_server(0.5))


@pytest.mark.parametrize(("name", "value"), [("rounds", 0), ("repeats", True), ("seed", -1), ("dtype", "float16"), ("chunk", 0)])  # fmt: skip
def test_malformed_numbers_are_refused(regression, name, value):
    with pytest.raises(sv.ConfigError, match=name):
        seen(regression, RING, ATC, sv.noise.none(), **{name: value})


def test_worlds_that_differ_in_more_than_records_are_refused(regression):
    def two(other):
        return measure(other, RING, ATC, sv.noise.none(), ALL, weighted(12, 3), rounds=1, repeats=1)

    with pytest.raises(sv.ConfigError, match="one problem per world"):
        two(regression)
    with pytest.raises(sv.ConfigError, match="one problem per world"):
        two([])
    with pytest.raises(sv.ConfigError, match="ridge"):
        two([regression, dataclasses.replace(regression, ridge=0.1)])
    with pytest.raises(sv.ConfigError, match="kind"):
        two([regression, sv.problems.mean_estimation(np.zeros((6, 9, 3)), radius=1.0)])
    with pytest.raises(sv.ConfigError, match="clip"):
        two([regression, regression.with_clipping(1.0, "l2")])
    with pytest.raises(sv.ConfigError, match="shapes"):
        two(
            [
                regression,
                dataclasses.replace(
                    regression, features=regression.features[:, :-1], targets=regression.targets[:, :-1]
                ),
            ]
        )


def test_worlds_made_one_after_the_other_are_the_same_problem_unless_their_losses_differ():
    def made(factor, features):
        return sv.problems.custom_loss(lambda w, batch: factor * (batch[0] @ w).mean(), np.zeros(2), features)

    def classified(hidden, features):
        labels = [[0, 1, 2]] * 4
        return sv.problems.classification(features, labels, model="mlp", hidden=hidden)

    one, other = np.random.default_rng(0).normal(size=(2, 4, 3, 2))
    for problem in (made, classified):
        worlds = [problem(2, one), problem(2, other)]
        assert recorder.checked_worlds(worlds) == worlds
    with pytest.raises(sv.ConfigError, match="its loss"):
        recorder.checked_worlds([made(2, one), made(3, other)])
    with pytest.raises(sv.ConfigError, match="its"):
        recorder.checked_worlds([classified(2, one), classified(3, other)])


def test_an_unstable_run_is_refused_with_its_cause(regression):
    with pytest.raises(sv.Diverged, match="between rounds 1 and 2000, seen at agent"):
        observe(
            regression, RING, sv.algorithms.atc(step_size=50.0), sv.noise.none(), sv.observers.final_model(), rounds=2000
        )  # fmt: skip
