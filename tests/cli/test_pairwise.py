"""`sottovoce pairwise`: what it prints and writes, and what it refuses."""

import json

import numpy as np
import pytest

from sottovoce import reports

GOSSIP = """
[experiment]
name = "averaging"
rounds = 3
[topology]
kind = "grid"
rows = 3
columns = 3
[problem]
kind = "mean_estimation"
data = "truncated_gaussian"
samples = 3
dimension = 2
radius = 1.0
[algorithm]
kind = "gossip"
[noise]
kind = "gradient"
law = "gaussian"
std = 1.0
[privacy]
unit = "agent"
clip = 0.5
clip_norm = "l2"
delta = 1e-5
"""
WALKING = """
[experiment]
name = "walking"
rounds = 30
[topology]
kind = "ring"
agents = 6
walk = true
[problem]
kind = "linear_regression"
data = "synthetic"
samples = 10
dimension = 2
ridge = 0.0
[algorithm]
kind = "random_walk"
step_size = 0.02
contributions = 3
[noise]
kind = "gradient"
law = "gaussian"
std = 0.2
[privacy]
unit = "record"
clip = 1.0
clip_norm = "l2"
delta = 1e-5
losses = "problem"
"""
LEARNING = "algorithm={kind='muffliato', step_size=0.1, gossip_steps=2}"
FIGURES = ("pairs", "distance", "network")


@pytest.fixture
def gossip(tmp_path):
    path = tmp_path / "gossip.toml"
    path.write_text(GOSSIP)
    return path


@pytest.fixture
def walking(tmp_path):
    path = tmp_path / "walking.toml"
    path.write_text(WALKING)
    return path


def flat(text):
    return " ".join(text.split())


def test_gossip_has_the_matrix_the_table_and_three_pictures(sottovoce, gossip, tmp_path):
    result = sottovoce("pairwise", gossip, "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.stderr
    stated = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert (stated["validity"], stated["attacker"], stated["num_agents"]) == ("adaptive", 4, 9)
    assert stated["gap"] < 1e-9
    with np.load(tmp_path / "out" / "pairs.npz") as stored:
        assert stored["mu"].shape == stored["distances"].shape == stored["resolved"].shape == (9, 9)
        at_one = stored["mu"][stored["distances"] == 1]
    assert at_one == pytest.approx(1.0)  # neighbours: 2 C / std
    first = stated["by_distance"][0]
    assert (first["pairs"], first["mu"]["median"]) == (24, pytest.approx(1.0))
    # mu = 1, delta = 1e-5: epsilon 4.37718 (reference R1 of the network-privacy notes)
    assert first["epsilon"]["largest"] == pytest.approx(4.37718, abs=1e-5)
    for name in FIGURES:
        text = (tmp_path / "out" / f"{name}.svg").read_text()
        for words in ("Observer", "Validity", "Source", "3 rounds"):
            assert words in text
        assert (tmp_path / "out" / f"{name}.png").stat().st_size > 10_000


def test_the_text_says_distance_by_distance_what_is_learned_and_how_far_it_holds(sottovoce, gossip, monkeypatch):
    monkeypatch.setattr(reports, "pairs_figures", lambda *_, **__: [])
    said = flat(sottovoce("pairwise", gossip).stdout)
    assert "1 24 4.38 4.38 4.38 4.38" in said
    assert "Width of the bracket" not in said
    explained = flat(sottovoce("pairwise", gossip, "--explain").stdout)
    assert "1 24 1 1 1 1 2" in explained  # mu in a table of its own
    said = explained
    assert "a guarantee, since values do not react to what agents hear" in said
    assert "Width of the bracket" in said
    assert "runs/pairwise-averaging" in said


def test_learning_is_named_a_linear_view_and_has_the_proven_value_beside(sottovoce, gossip, tmp_path):
    stated = json.loads(
        sottovoce("pairwise", gossip, LEARNING, "--attacker", 0, "--out", tmp_path / "o", "--json").stdout
    )
    assert (stated["validity"], stated["attacker"], stated["gap"]) == ("exogenous-gradients", 0, None)
    assert stated["by_distance"][3]["attacker_proven_mu"] == pytest.approx(3**0.5)
    assert stated["by_distance"][3]["mu"]["largest"] < 3**0.5
    assert len(stated["attacker_about"]) == 8
    assert "no guarantee where they do" in stated["notes"][0]


def test_a_network_too_large_for_a_picture_is_said(sottovoce, gossip, tmp_path):
    result = sottovoce(
        "pairwise", gossip, "topology={kind='ring', agents=501}", "experiment.rounds=1", "--out", tmp_path / "out"
    )
    assert "too large for a picture" in flat(result.stdout)
    assert not (tmp_path / "out" / "network.png").exists()
    assert (tmp_path / "out" / "pairs.png").exists()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["topology={kind='ring', agents=6, dropout=0.1}"], "links that change"),
        (["noise={kind='gradient', law='laplace', std=1.0}"], "Laplace noise"),
        (["privacy={unit='agent', clip=0.5, clip_norm='l2'}"], "delta"),
        (
            [
                "topology={kind='federation', agents=6}",
                "algorithm={kind='fedavg', step_size=0.1}",
                "noise={kind='none'}",
            ],
            "through a server",
        ),
        (["--attacker", "9"], "the agents are 0 to 8"),
    ],
)
def test_what_has_no_pairs_leaves_with_two_and_writes_nothing(sottovoce, gossip, tmp_path, overrides, words):
    result = sottovoce("pairwise", gossip, *overrides)
    assert result.exit_code == 2
    assert words in flat(result.stderr)
    assert not (tmp_path / "runs").exists()


# Walks


def test_a_walk_has_epsilon_of_every_pair_and_three_pictures_of_it(sottovoce, walking, tmp_path):
    result = sottovoce("pairwise", walking, "--out", tmp_path / "out", "--workers", 1, "--json")
    assert result.exit_code == 0, result.stderr
    stated = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert (stated["validity"], stated["tokens"], stated["resolution"]) == ("amplified-by-iteration", 1, "fast")
    assert {"largest_epsilon", "most_exposed", "published_seed", "by_distance", "attacker_about"} <= set(stated)
    medians = [row["epsilon"]["median"] for row in stated["by_distance"]]
    assert medians == sorted(medians, reverse=True)
    with np.load(tmp_path / "out" / "pairs.npz") as stored:
        assert set(stored) == {"epsilon", "distances", "attacker"}
        assert np.isnan(np.diag(stored["epsilon"])).all()
        assert np.nanmax(stored["epsilon"]) == pytest.approx(stated["largest_epsilon"])
    for name in FIGURES:
        text = flat((tmp_path / "out" / f"{name}.svg").read_text())
        for words in ("epsilon at delta = 1e-05", "sees the token only when it holds it", "Validity", "30 rounds"):
            assert words in text
        assert "coin" not in text
        assert (tmp_path / "out" / f"{name}.png").stat().st_size > 10_000


def test_the_text_of_a_walk_says_what_it_holds_for(sottovoce, walking, monkeypatch):
    monkeypatch.setattr(reports, "pairs_figures", lambda *_, **__: [])
    said = flat(sottovoce("pairwise", walking, "--workers", 1).stdout)
    for words in (
        "Average over all ways of the token; a guarantee for convex, smooth losses", "Most exposed: agent", "drawn afresh by the weights",
        "--resolution fine", "links epsilon epsilon epsilon",
    ):  # fmt: skip
        assert words in said
    assert "proven for" not in said
    assert "An agent adds at most 3 gradients" not in said
    quiet = flat(sottovoce("pairwise", walking, "--workers", 1, "--quiet").stdout)
    assert "--resolution fine" not in quiet
    assert "drawn afresh by the weights" in quiet
    explained = flat(sottovoce("pairwise", walking, "--workers", 1, "--explain").stdout)
    assert "An agent adds at most 3 gradients; one of them, seen at once, costs mu = 1" in explained  # 2 C / 10 / std


def test_two_tokens_cost_more_and_two_processes_find_the_same(sottovoce, walking, monkeypatch):
    monkeypatch.setattr(reports, "pairs_figures", lambda *_, **__: [])

    def largest(*options):
        return json.loads(sottovoce("pairwise", walking, *options, "--json").stdout)["largest_epsilon"]

    one = largest("--workers", 1)
    assert largest("--workers", 1, "--tokens", 2) > one
    assert largest("--workers", 2) == one


def test_a_published_seed_names_the_pair_that_its_path_exposes_most(sottovoce, walking, tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "pairs_figures", lambda *_, **__: [])
    arguments = ("pairwise", walking, "--published-seed", 4, "--out", tmp_path / "out")
    stated = json.loads(sottovoce(*arguments, "--json").stdout)
    assert (stated["published_seed"], stated["resolution"]) == (4, None)
    with np.load(tmp_path / "out" / "pairs.npz") as stored:
        mu = stored["mu"]
    agent, observer = stated["most_exposed"].values()
    assert mu[agent, observer] == np.nanmax(mu) == stated["largest_mu"]
    said = flat(sottovoce(*arguments, "--explain").stdout)
    assert "Path of the token drawn from seed 4" in said
    assert f"Most exposed: agent {agent}, towards agent {observer}." in said
    assert "mu mu mu" in said
    assert "--resolution" not in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["privacy.losses=~"], "without a promise"),
        (["algorithm.step_size=5.0"], "exceeds 2 / beta"),
        (["noise.law=laplace"], "Laplace noise"),
        (["--tokens", "0"], "from 1 to 10,000"),
        (["--resolution", "quick"], "choose one of 'fast', 'fine', 'finest'"),
        (["--published-seed", "1", "--workers", "2"], "--workers: such options speak of the average"),
        (["--published-seed", "-1"], "published seed = -1"),
    ],
)
def test_a_walk_that_cannot_be_accounted_leaves_with_two_and_writes_nothing(
    sottovoce, walking, tmp_path, arguments, words
):
    result = sottovoce("pairwise", walking, *arguments)
    assert result.exit_code == 2
    assert words in flat(result.stderr)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("option", ["--resolution", "--tokens", "--workers", "--published-seed"])
def test_options_of_a_walk_are_refused_where_none_is(sottovoce, gossip, option):
    result = sottovoce("pairwise", gossip, option, "fine" if option == "--resolution" else 1)
    assert result.exit_code == 2
    assert f"{option}: such options speak of a walking token" in flat(result.stderr)
    assert "'gossip'" in result.stderr
