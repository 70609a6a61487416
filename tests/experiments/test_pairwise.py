"""Pairs of an experiment and studies of them: against single accounts, closed forms, the published formula, and what is refused."""

import math

import networkx
import numpy as np
import pytest

import sottovoce as sv
from sottovoce.accounting.documents import cyffers_muffliato_epsilon
from sottovoce.experiments import build, parse
from sottovoce.experiments.pairs import describe_pairs, distance_rows
from sottovoce.experiments.pairwise import graph_distances, most_central, pairs_of
from sottovoce.experiments.privacy import sensitivities
from sottovoce.studies.gossip import graph_of, published_shares
from sottovoce.studies.kinds import read_privacy_study, run_privacy_study

GOSSIP = {
    "experiment": {"name": "small", "rounds": 3},
    "topology": {"kind": "grid", "rows": 3, "columns": 4},
    "problem": {"kind": "mean_estimation", "data": "truncated_gaussian", "samples": 3, "dimension": 2, "radius": 1.0},
    "algorithm": {"kind": "gossip"},
    "noise": {"kind": "gradient", "law": "gaussian", "std": 0.7},
    "privacy": {"unit": "agent", "clip": 0.5, "clip_norm": "l2", "delta": 1e-5},
}
MUFFLIATO = GOSSIP | {"algorithm": {"kind": "muffliato", "step_size": 0.1, "gossip_steps": 2}}


def made(data, **sections):
    return build(parse(data | sections, source="test"))


def single(experiment, agent, attacker):
    """The same pair by sv.account, a route of its own: the square-root filter instead of the Krylov space."""
    return sv.account(
        experiment.topology, experiment.algorithm, experiment.noise, sv.observers.curious_agent(attacker), rounds=experiment.rounds,
        sensitivity=sensitivities(experiment), agent=agent,
    )  # fmt: skip


def test_distances_are_those_of_networkx_and_follow_the_direction_of_links():
    topology = sv.topologies.erdos_renyi(20, 0.2, seed=3)
    graph = networkx.Graph(topology.pairs.tolist())
    lengths = dict(networkx.all_pairs_shortest_path_length(graph))
    assert all(graph_distances(topology)[u, v] == lengths[u][v] for u in range(20) for v in range(20))
    around = sv.topologies.from_matrix(
        np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    )  # a_lk: l sends to k
    assert graph_distances(around).tolist() == [[0, 1, 2], [2, 0, 1], [1, 2, 0]]


def test_the_centre_of_a_path_and_of_a_star_is_central():
    assert most_central(graph_distances(sv.topologies.path(7))) == 3
    assert most_central(graph_distances(sv.topologies.star(5))) == 0


def test_pairs_of_gossip_are_those_of_single_accounts_and_a_guarantee():
    experiment = made(GOSSIP)
    pairs = pairs_of(experiment, attacker=0)
    assert (pairs.validity, pairs.gap < 1e-9) == ("adaptive", True)
    for agent, attacker in ((1, 0), (5, 0), (11, 0), (2, 7), (4, 11)):
        found = single(experiment, agent, attacker)
        assert pairs.mu[agent, attacker] == pytest.approx(found.mu, abs=1e-7)
    np.testing.assert_allclose(np.delete(pairs.proven_mu, 0), np.delete(pairs.mu[:, 0], 0), atol=1e-7)
    assert np.isnan(np.diag(pairs.mu)).all()
    assert np.nanmax(pairs.mu) == pytest.approx(1 / 0.7)  # 2 C / std, the local value


def test_records_of_agents_with_different_numbers_of_them_have_their_own_sensitivity():
    data = GOSSIP | {"privacy": GOSSIP["privacy"] | {"unit": "record"}}
    data["problem"] = {"kind": "mean_estimation", "data": "digits", "radius": 1.0, "bounds": [0.0, 16.0]}
    data["topology"] = {"kind": "ring", "agents": 7}
    experiment = made(data)
    sizes = sensitivities(experiment)
    assert len(set(sizes)) > 1
    pairs = pairs_of(experiment)
    for agent in range(7):
        assert pairs.mu[agent, (agent + 1) % 7] == pytest.approx(sizes[agent] / 0.7)


def test_pairs_of_learning_are_the_linear_view_and_never_above_what_is_proven():
    experiment = made(MUFFLIATO)
    pairs = pairs_of(experiment, attacker=3)
    assert (pairs.validity, pairs.resolved, pairs.gap) == ("exogenous-gradients", None, None)
    for agent, attacker in ((0, 3), (11, 3), (2, 7)):
        assert pairs.mu[agent, attacker] == pytest.approx(single(experiment, agent, attacker).linear_mu, rel=1e-6)
    others = np.delete(np.arange(12), 3)
    assert (pairs.mu[others, 3] <= pairs.proven_mu[others] * (1 + 1e-9)).all()
    np.testing.assert_allclose(pairs.proven_mu[others], math.sqrt(3) / 0.7)  # three noisy gradients, 2 C / std each


def test_the_table_counts_every_pair_once_and_has_epsilon_by_the_gaussian_relation():
    pairs = pairs_of(made(GOSSIP))
    rows = distance_rows(pairs)
    assert sum(row.pairs for row in rows) == 12 * 11
    assert (rows[0].least, rows[0].largest) == (pytest.approx(1 / 0.7), pytest.approx(1 / 0.7))
    assert [row.largest for row in rows[3:]] == [0.0, 0.0]  # out of reach in three rounds
    stated = describe_pairs(pairs)["by_distance"][1]
    assert stated["epsilon"]["median"] == pytest.approx(sv.accounting.gaussian.epsilon(rows[1].median, 1e-5))


@pytest.mark.parametrize(
    ("sections", "error", "words"),
    [
        ({"topology": {"kind": "ring", "agents": 6, "dropout": 0.1}}, sv.IncompatibleChoice, "links that change"),
        ({"topology": {"kind": "ring", "agents": 6, "random_pair": True}}, sv.IncompatibleChoice, "links that change"),
        ({"noise": {"kind": "gradient", "law": "laplace", "std": 1.0}}, sv.UnsupportedClaim, "Laplace noise"),
        ({"noise": {"kind": "none"}}, sv.UnsupportedClaim, "no noise"),
        ({"privacy": {"unit": "agent", "clip": 0.5, "clip_norm": "l2"}}, sv.ConfigError, "delta: this key is missing"),
        (
            {
                "topology": {"kind": "federation", "agents": 6},
                "algorithm": {"kind": "fedavg", "step_size": 0.1},
                "noise": {"kind": "independent", "law": "gaussian", "std": 1.0},
            },
            sv.IncompatibleChoice,
            "through a server",
        ),
    ],
)
def test_what_has_no_pairs_is_refused(sections, error, words):
    with pytest.raises(error, match=words):
        pairs_of(made(GOSSIP, **sections))


def test_an_attacker_who_does_not_exist_and_a_file_without_privacy_are_refused():
    with pytest.raises(sv.ConfigError, match="the agents are 0 to 11"):
        pairs_of(made(GOSSIP), attacker=12)
    with pytest.raises(sv.ConfigError, match="nothing is said about privacy"):
        pairs_of(made({key: value for key, value in GOSSIP.items() if key != "privacy"}))


# Studies


def test_the_published_sum_of_all_pairs_is_that_of_the_document():
    topology = sv.topologies.erdos_renyi(12, 0.3, seed=1)
    found = published_shares(topology, 4)
    for u, v in ((0, 5), (7, 2), (3, 11), (9, 0)):
        one = cyffers_muffliato_epsilon(topology, agent=u, attacker=v, rounds=4, order=2.0, std=1.0, sensitivity=1.0)
        assert found[u, v] == pytest.approx(one.value, rel=1e-12)
    with pytest.raises(sv.ConfigError, match="symmetric"):
        published_shares(sv.topologies.star(5, weights="uniform"), 2)


def distance_study(**changes):
    values = {
        "kind": "gossip_distance", "name": "s", "rounds": 5, "distances": [1, 2, 3, 4, 5], "order": 2.0, "local_epsilon": 1.0,
        "graphs": {"cube": {"kind": "hypercube", "dimension": 5}}, "picture": "cube",
    }  # fmt: skip
    return read_privacy_study(values | changes)


def test_the_loss_on_a_hypercube_is_the_dimension_over_the_size_of_the_shell():
    # Every round adds n directions, all in the next shell by symmetry, and the C(n, d) agents of shell d share them.
    found = run_privacy_study(distance_study(), {}, source="test").cells
    exact = [cell.value for cell in found["renyi_epsilon"]["cube, exact"].values()]
    assert exact[:4] == pytest.approx([5 / math.comb(5, d) for d in range(1, 5)], abs=1e-9)
    assert exact[3] == pytest.approx(1.0)  # four links away and fully exposed: the loss does not fall with distance
    assert found["mu"]["cube, exact"]["2"].value == pytest.approx(math.sqrt(0.5))
    assert found["least_ratio"]["cube, published"]["4"].value < 0.5


def test_noise_and_order_scale_the_loss():
    values = [
        run_privacy_study(distance_study(**change), {}, source="test").cells["renyi_epsilon"]["cube, exact"]["2"].value
        for change in ({}, {"local_epsilon": 0.5}, {"order": 4.0})
    ]
    assert values == pytest.approx([0.5, 0.25, 0.5])


def test_drawn_attackers_are_the_same_for_the_same_seed_and_a_sample_of_all():
    graphs = {"er": {"kind": "erdos_renyi", "agents": 40, "probability": 0.15, "seed": 0}}

    def cells(**changes):
        study = distance_study(graphs=graphs, picture=None, distances=[1, 2, 3], rounds=3, **changes)
        return run_privacy_study(study, {}, source="test").cells["renyi_epsilon"]["er, exact"]["3"].value

    assert cells(attackers=10) == cells(attackers=10)
    assert cells(attackers=10, seed=1) != cells(attackers=10)
    assert cells(attackers=20) == pytest.approx(cells(), rel=0.5)


def test_many_rounds_expose_a_ring_and_not_a_hypercube():
    study = read_privacy_study(
        {
            "kind": "gossip_rounds", "name": "s", "rounds": [1, 8, 16], "order": 2.0, "local_epsilon": 1.0,
            "graphs": {"ring": {"kind": "ring", "agents": 8}, "cube": {"kind": "hypercube", "dimension": 4}},
        }
    )  # fmt: skip
    found = run_privacy_study(study, {}, source="test").cells
    assert found["renyi_epsilon"]["ring, exact"]["1"].value == pytest.approx(
        2 / 7
    )  # the two neighbours of seven others
    assert found["exposed"]["ring, exact"]["16"].value == 1.0
    # Rank 13 of 15 on the 4-cube (network-privacy notes, findings on Muffliato).
    assert found["renyi_epsilon"]["cube, exact"]["16"].value == pytest.approx(13 / 15)


def test_learning_studies_have_the_linear_view_and_the_proven_value():
    study = read_privacy_study(
        {"kind": "learning_distance", "name": "s", "distances": [1, 3], "series": {"two": {}, "one": {"algorithm": {"gossip_steps": 1}}}}
    )  # fmt: skip
    found = run_privacy_study(study, MUFFLIATO, source="test").cells["mu"]
    pairs = pairs_of(made(MUFFLIATO))
    assert found["two, linear view"]["3"].value == pytest.approx(pairs.mu[pairs.distances == 3].mean())
    assert found["one, linear view"]["3"].value < found["two, linear view"]["3"].value
    assert found["one, proven"]["3"].value == pytest.approx(math.sqrt(3) / 0.7)
    far = read_privacy_study({"kind": "learning_distance", "name": "s", "distances": [1, 9], "series": {"two": {}}})
    with pytest.raises(sv.ConfigError, match="no agent at distance 9"):
        run_privacy_study(far, MUFFLIATO, source="test")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "gossip_distanc"}, "did you mean 'gossip_distance'"),
        ({"distances": [1, 6]}, "out of reach in 5 rounds"),
        ({"picture": "ring"}, "not one of the graphs"),
        ({"order": 1.0}, "greater than 1"),
        ({"local_epsilon": 0.0}, "greater than 0"),
        ({"extra": 1}, "not permitted"),
    ],
)
def test_a_malformed_study_is_refused(change, words):
    with pytest.raises((ValueError, sv.ConfigError), match=words):
        distance_study(**change)


def test_graphs_that_change_and_random_ones_without_seed_are_refused():
    graphs = {
        "with dropout": {"kind": "ring", "agents": 4, "dropout": 0.1},
        "kind 'federation'": {"kind": "federation", "agents": 4},
        "give its seed": {"kind": "k_out", "agents": 8, "k": 3},
    }
    for words, graph in graphs.items():
        with pytest.raises(sv.ConfigError, match=words):
            graph_of(distance_study(graphs={"g": graph}, picture=None).graphs["g"])
    with pytest.raises(sv.ConfigError, match=r"no pair of g is at distance 3"):
        run_privacy_study(distance_study(graphs={"g": {"kind": "ring", "agents": 4}}, picture=None), {}, source="test")


def test_the_first_connected_seed_of_the_published_erdos_renyi_graph_is_one():
    with pytest.raises(sv.ConfigError, match="not connected"):
        sv.topologies.erdos_renyi(2048, math.log(2048) / 2048, seed=0)
    assert sv.topologies.erdos_renyi(2048, math.log(2048) / 2048, seed=1).num_agents == 2048


def test_pairs_of_learning_are_never_called_a_guarantee_even_if_one_attacker_reads_everything():
    learning = GOSSIP | {
        "topology": {"kind": "star", "agents": 5},
        "algorithm": {"kind": "atc", "step_size": 0.1},
        "noise": {"kind": "independent", "law": "gaussian", "std": 0.7},
    }
    pairs = pairs_of(made(learning))
    assert pairs.attacker == 0  # the hub, who hears everybody
    assert pairs.validity == "exogenous-gradients"


def test_a_proven_infinity_is_told_apart_from_no_number():
    clear = GOSSIP | {
        "topology": {"kind": "ring", "agents": 5},
        "algorithm": {"kind": "atc", "step_size": 0.1},
        "noise": {"kind": "local_graph_homomorphic", "law": "gaussian", "std": 0.7},
    }
    stated = describe_pairs(pairs_of(made(clear), attacker=0))
    assert stated["by_distance"][0]["attacker_proven_infinite"]
    assert stated["by_distance"][0]["attacker_proven_mu"] is None
    assert not describe_pairs(pairs_of(made(GOSSIP), attacker=0))["by_distance"][0]["attacker_proven_infinite"]
