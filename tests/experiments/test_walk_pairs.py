"""Pairs of a walking token: against single accounts, known paths, symmetry and distance, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting import gaussian, walk
from sottovoce.experiments import AllWays, PublishedPath, build, describe_pairs, pair_arrays, pairs_of, parse
from sottovoce.experiments.pairs import distance_rows
from sottovoce.experiments.privacy import guarantee, sensitivities
from sottovoce.topologies import walk_paths

WALK = {
    "experiment": {"name": "walk", "rounds": 40},
    "topology": {"kind": "ring", "agents": 7, "walk": True},
    "problem": {"kind": "linear_regression", "data": "synthetic", "samples": 10, "dimension": 2, "ridge": 0.0},
    "algorithm": {"kind": "random_walk", "step_size": 0.02, "contributions": 3},
    "noise": {"kind": "gradient", "law": "gaussian", "std": 0.2},
    "privacy": {"unit": "record", "clip": 1.0, "clip_norm": "l2", "delta": 1e-5, "losses": "problem"},
}
MESSAGES = {"kind": "independent", "law": "gaussian", "std": 0.004}


def made(**sections):
    return build(parse(WALK | sections, source="test"))


@pytest.fixture(scope="module")
def ring():
    """A ring with its pairs, on average over all ways."""
    experiment = made()
    return experiment, pairs_of(experiment)


def single(experiment, agent, observer, *, std, **changes):
    return walk.blocks_epsilon(
        experiment.topology, agent=agent, observers=[observer], rounds=experiment.rounds, std=std,
        sensitivity=sensitivities(experiment)[agent], delta=1e-5, **{"contributions": 3, "resolution": "fast", **changes},
    )  # fmt: skip


def test_pairs_are_those_of_single_accounts_and_a_guarantee(ring):
    experiment, pairs = ring
    assert (pairs.validity, pairs.measure, pairs.drawn, pairs.proven) == ("amplified-by-iteration", "epsilon", "epsilon", ())  # fmt: skip
    assert np.isnan(np.diag(pairs.losses)).all()
    for agent, observer in ((0, 1), (0, 3), (6, 2)):
        assert pairs.losses[agent, observer] == pytest.approx(single(experiment, agent, observer, std=0.2), rel=1e-9)


def test_the_step_multiplies_noise_in_messages(ring):
    # Noise of std 0.2 in the gradient is noise of 0.02 * 0.2 in the message.
    np.testing.assert_allclose(pairs_of(made(noise=MESSAGES)).losses, ring[1].losses, rtol=1e-9)


def test_losses_fall_with_distance_on_a_ring_and_are_the_same_for_all_agents(ring):
    rows = distance_rows(ring[1])
    assert [row.distance for row in rows] == [1, 2, 3]
    assert rows[0].least > rows[1].largest > rows[2].largest > 0
    assert all(row.least == pytest.approx(row.largest, rel=1e-6) for row in rows)


def test_no_pair_loses_more_than_the_accountant_says_of_whoever_sees_every_hop(ring):
    experiment, pairs = ring
    local = guarantee(experiment, sv.observers.eavesdropper()).epsilon(1e-5)
    assert np.nanmax(pairs.losses) <= local
    waiting = guarantee(experiment, sv.observers.curious_agent(0)).epsilon(1e-5)
    assert waiting <= np.nanmax(pairs.losses[:, 0]) * (1 + 1e-9)  # the accountant takes more time over one observer


def test_more_tokens_lose_more_and_finer_numbers_are_no_larger(ring):
    experiment, pairs = ring
    two = pairs_of(experiment, ways=AllWays(tokens=2))
    others = ~np.eye(7, dtype=bool)
    assert (two.losses[others] > pairs.losses[others]).all()
    assert two.losses[0, 3] == pytest.approx(single(experiment, 0, 3, std=0.2, tokens=2), rel=1e-9)
    small = made(topology={"kind": "path", "agents": 3, "walk": True})
    fast, fine = (pairs_of(small, ways=AllWays(resolution=each)) for each in ("fast", "fine"))
    others = ~np.eye(3, dtype=bool)
    assert (fine.losses[others] <= fast.losses[others] * (1 + 1e-9)).all()


def test_agents_who_reach_all_others_alike_have_one_number_and_it_is_that_of_the_matrix():
    experiment = made(topology={"kind": "complete", "agents": 4, "walk": True})
    pairs = pairs_of(experiment)
    assert pairs.alike
    assert pairs.losses[2, 0] == pytest.approx(single(experiment, 1, 3, std=0.2), rel=1e-12)
    assert np.isnan(np.diag(pairs.losses)).all()
    W = pairs_of(replace(experiment, topology=_nearly(experiment.topology))).losses
    np.testing.assert_allclose(W, pairs.losses, rtol=1e-3)


def _nearly(topology):
    """The same weights, moved by so little that they are no longer called uniform."""
    K = topology.num_agents
    moved = np.asarray(topology.matrix) + 1e-7 * (np.eye(K) - 1.0 / K)
    return sv.topologies.from_matrix(moved).with_walk()


UNEVEN = {"kind": "mean_estimation", "data": "digits", "radius": 1.0, "bounds": [0.0, 16.0]}


@pytest.mark.parametrize("kind", ["complete", "path"])
def test_agents_with_fewer_records_lose_more(kind):
    experiment = made(
        problem=UNEVEN, topology={"kind": kind, "agents": 4, "walk": True}, noise={**WALK["noise"], "std": 0.01}
    )
    sizes = sensitivities(experiment)
    assert len(set(sizes)) > 1
    pairs = pairs_of(experiment)
    for agent, observer in ((0, 1), (3, 1)):
        assert pairs.losses[agent, observer] == pytest.approx(single(experiment, agent, observer, std=0.01), rel=1e-9)
    path = pairs_of(experiment, ways=PublishedPath(seed=5))
    one = walk.path_mu(
        walk_paths(experiment.topology, 40, seed=5)[0], num_agents=4, std=0.01, sensitivity=1.0, contributions=3
    )
    np.testing.assert_allclose(path.mu, one * np.array(sizes)[:, None], rtol=1e-9)


def test_a_published_seed_costs_what_its_path_does():
    experiment = made()
    pairs = pairs_of(experiment, ways=PublishedPath(seed=5))
    path = walk_paths(experiment.topology, 40, seed=5)[0]
    size = sensitivities(experiment)[0]
    expected = walk.path_mu(path, num_agents=7, std=0.2, sensitivity=size, contributions=3)
    np.testing.assert_allclose(pairs.mu, expected, rtol=1e-12)
    assert pairs.most_exposed == walk.worst_pair(expected)[:2]
    assert (pairs.validity, pairs.drawn) == ("amplified-by-iteration", "epsilon")
    agent, observer = pairs.most_exposed
    assert pairs.epsilons(pairs.mu)[agent, observer] == pytest.approx(gaussian.epsilon(np.nanmax(expected), 1e-5))
    other = pairs_of(experiment, ways=PublishedPath(seed=6))
    assert not np.array_equal(np.nan_to_num(other.mu), np.nan_to_num(pairs.mu))


def test_several_published_paths_add_up_their_squares_and_message_noise_is_divided_by_the_step():
    experiment = made(noise=MESSAGES)
    pairs = pairs_of(experiment, ways=PublishedPath(seed=5, tokens=2))
    size = sensitivities(experiment)[0]
    one, two = (
        walk.path_mu(path, num_agents=7, std=0.2, sensitivity=size, contributions=3)
        for path in walk_paths(experiment.topology, 40, seed=5, repeats=2)
    )
    np.testing.assert_allclose(pairs.mu, np.sqrt(one**2 + two**2), rtol=1e-9)


def falling(round_):
    return 0.02 / (1.0 + 0.1 * round_)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"algorithm": sv.algorithms.random_walk(step_size=falling, contributions=3)}, "steps that change"),
        ({"noise": sv.noise.gradient(sv.noise.Gaussian(std=0.2)).scaled(lambda t: 1.0 + t)}, "noise that change"),
    ],
)
def test_hops_that_differ_have_no_average_but_a_path_has_its_losses(change, words):
    experiment = replace(made(), **change)
    with pytest.raises(sv.UnsupportedClaim, match=words) as refused:
        pairs_of(experiment)
    assert "sottovoce account" in str(refused.value)
    pairs = pairs_of(experiment, ways=PublishedPath(seed=5))
    rounds = np.arange(1, 41)
    steps = [falling(t) for t in rounds] if "algorithm" in change else 0.02
    stds = 0.2 if "algorithm" in change else 0.2 * (1.0 + rounds)
    expected = walk.path_mu(
        walk_paths(experiment.topology, 40, seed=5)[0], num_agents=7, std=stds, sensitivity=sensitivities(experiment)[0],
        contributions=3, step_size=steps,
    )  # fmt: skip
    np.testing.assert_allclose(pairs.mu, expected, rtol=1e-9)


@pytest.mark.parametrize("ways", [AllWays(), PublishedPath(seed=0)])
def test_without_a_promise_or_with_steps_beyond_it_nothing_is_said(ways):
    promised = WALK["privacy"]
    unpromised = {key: value for key, value in promised.items() if key != "losses"}
    with pytest.raises(sv.UnsupportedClaim, match=r"without a promise .*sottovoce account"):
        pairs_of(made(privacy=unpromised), ways=ways)
    long = made(privacy=promised | {"losses": {"beta": 200.0}})
    with pytest.raises(sv.UnsupportedClaim, match="exceeds 2 / beta"):
        pairs_of(long, ways=ways)


@pytest.mark.parametrize(
    ("sections", "error", "words"),
    [
        ({"noise": {"kind": "gradient", "law": "laplace", "std": 1.0}}, sv.UnsupportedClaim, "Laplace noise"),
        ({"noise": {"kind": "none"}}, sv.UnsupportedClaim, "no noise"),
    ],
)
def test_other_noise_is_refused(sections, error, words):
    with pytest.raises(error, match=words):
        pairs_of(made(**sections))


def test_ways_of_a_token_are_refused_where_none_walks_and_numbers_that_make_no_sense():
    still = made(
        topology={"kind": "ring", "agents": 5}, algorithm={"kind": "atc", "step_size": 0.02}, noise=MESSAGES
    )  # fmt: skip
    with pytest.raises(sv.ConfigError, match="no token walks"):
        pairs_of(still, ways=AllWays())
    with pytest.raises(sv.ConfigError, match="workers = 0; it must be a whole number of at least 1"):
        AllWays(workers=0)
    for wrong in (0, 10**9, 1.5):
        with pytest.raises(sv.ConfigError, match="from 1 to 10,000"):
            AllWays(tokens=wrong)
        with pytest.raises(sv.ConfigError, match="from 1 to 10,000"):
            PublishedPath(seed=0, tokens=wrong)
    for seed in (-1, 2**64, 0.5, True):
        with pytest.raises(sv.ConfigError, match="published seed"):
            PublishedPath(seed=seed)


def test_plain_values_name_the_pair_most_exposed_and_have_mu_where_there_is_one(ring):
    experiment, pairs = ring
    stated = describe_pairs(pairs)
    assert (stated["tokens"], stated["resolution"], stated["published_seed"], stated["gap"]) == (1, "fast", None, None)
    assert "largest_mu" not in stated
    assert stated["largest_epsilon"] == pytest.approx(np.nanmax(pairs.losses))
    most = stated["most_exposed"]
    assert most == {"agent": 0, "observer": 1}  # the first of equals, whatever their last digits
    assert pairs.losses[0, 1] == pytest.approx(stated["largest_epsilon"])
    assert set(stated["by_distance"][0]) == {"distance", "pairs", "epsilon"}
    assert [set(each) for each in stated["attacker_about"]] == [{"agent", "distance", "epsilon"}] * 6
    assert set(pair_arrays(pairs)) == {"epsilon", "distances", "attacker"}
    with pytest.raises(sv.UnsupportedClaim, match="epsilon at one delta only"):
        _ = pairs.mu
    path = pairs_of(experiment, ways=PublishedPath(seed=5))
    known = describe_pairs(path)
    assert (known["resolution"], known["published_seed"]) == (None, 5)
    assert known["largest_epsilon"] == pytest.approx(gaussian.epsilon(known["largest_mu"], 1e-5))
    assert {"mu", "epsilon"} <= set(known["by_distance"][0])
    assert set(pair_arrays(path)) == {"mu", "epsilon", "distances", "attacker"}


def test_progress_counts_observers(ring):
    told = []
    pairs_of(made(topology={"kind": "path", "agents": 3, "walk": True}), progress=lambda *at: told.append(at))
    assert told == [(1, 3), (2, 3), (3, 3)]
