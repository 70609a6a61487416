"""`sottovoce audit`: what it prints and writes, its exit codes, and what it refuses."""

import json

import pytest

from sottovoce.experiments import audit as experiments_audit

AUDITED = """
[experiment]
name = "audited"
rounds = 3
seed = 4
[topology]
kind = "ring"
agents = 4
[problem]
kind = "linear_regression"
data = "synthetic"
samples = 2
dimension = 2
ridge = 0.0
[algorithm]
kind = "atc"
step_size = 0.1
[noise]
kind = "graph_homomorphic"
law = "gaussian"
epsilon = 2.0
[privacy]
unit = "agent"
clip = 1.0
clip_norm = "l2"
delta = 0.02
observers = ["eavesdropper"]
"""
ASKED = ("--pairs", 2000, "--confidence", 0.99)


@pytest.fixture
def audited(tmp_path):
    path = tmp_path / "audited.toml"
    path.write_text(AUDITED)
    return path


@pytest.fixture
def broken(monkeypatch):
    """Play a fifth of the promised noise."""
    real = experiments_audit.audit

    def played(topology, algorithm, noise, observer, **rest):
        return real(topology, algorithm, noise, observer, played=noise.scaled(0.2), **rest)

    monkeypatch.setattr(experiments_audit, "audit", played)


def flat(text):
    return " ".join(text.split())


def test_a_table_says_for_every_observer_what_is_promised_and_shown(sottovoce, audited, tmp_path):
    result = sottovoce("audit", audited, *ASKED, "--observer", "eavesdropper", "--observer", "final_model")
    assert result.exit_code == 0, result.stderr
    said = flat(result.stdout)
    assert "not refuted" in said
    assert "Promised as exact: eavesdropper" in said
    assert "no promise" in said
    assert "inf for final model: The noise cancels in the centroid" in said
    assert "epsilon much above 7.6 cannot be shown" in said  # ln 2000 = 7.60
    assert "below it, it proves nothing" in said
    assert "audit: eavesdropper, 1 of 2: 2,000 runs" in flat(result.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["audited.toml"]


def test_out_has_the_numbers_and_a_picture_for_each_observer(sottovoce, audited, tmp_path):
    out = tmp_path / "out"
    result = sottovoce("audit", audited, *ASKED, "--agent", 2, "--out", out, "--json")
    assert result.exit_code == 0, result.stderr
    stated = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    (one,) = stated["audits"]
    assert (one["observer"], one["agent"], one["pairs"], one["attack"]) == ("eavesdropper", 2, 2000, "likelihood")
    assert one["epsilon"] == pytest.approx(2.0, rel=1e-5)
    assert 0 < one["lower"]["epsilon"] < 2
    assert stated["passed"] is True
    stored = json.loads((out / "audit.json").read_text())
    assert stored["audits"] == stated["audits"]
    assert sorted(path.name for path in out.iterdir()) == ["audit.json", "scores-eavesdropper.png", "scores-eavesdropper.svg"]  # fmt: skip
    assert "proven: never more than this" in (out / "scores-eavesdropper.svg").read_text()


def test_an_attack_that_is_named_is_the_one_that_is_played(sottovoce, audited):
    result = sottovoce("audit", audited, *ASKED, "--attack", "fitted", "--json")
    assert result.exit_code == 0, result.stderr
    (one,) = json.loads(result.stdout)["audits"]
    assert one["attack"] == "fitted"
    assert 0 < one["lower"]["epsilon"] < 2


def test_a_refuted_guarantee_leaves_with_one_and_says_so(sottovoce, audited, broken):
    result = sottovoce("audit", audited, *ASKED)
    assert result.exit_code == 1
    assert "The guarantee for eavesdropper is FALSE (confidence 0.99)" in flat(result.stdout)
    as_json = sottovoce("audit", audited, *ASKED, "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["passed"] is False
    assert "is FALSE" in as_json.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pairs", "100"], "--confidence"),
        (["--confidence", "0.99"], "--pairs"),
        ([*map(str, ASKED), "--attack", "guess"], "choose one of 'best', 'likelihood'"),
        ([*map(str, ASKED), "--observer", "everybody"], "unknown observer"),
        ([*map(str, ASKED), "--observer", "server"], "has none"),
        ([*map(str, ASKED), "--observer", "curious_agent:7"], "no agent 7"),
        (["--pairs", "3", "--confidence", "0.99"], "pairs"),
        (["--pairs", "100", "--confidence", "1.0"], "confidence"),
        ([*map(str, ASKED), "--agent", "9"], "agent"),
        (["noise={kind='graph_homomorphic', law='laplace', std=1.0}", *map(str, ASKED), "--attack", "likelihood"], "Laplace"),
    ],
)  # fmt: skip
def test_bad_input_leaves_with_two_and_writes_nothing(sottovoce, audited, tmp_path, arguments, words):
    result = sottovoce("audit", audited, *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert words in flat(result.stderr)
    assert not (tmp_path / "out").exists()
