"""Studies of audits: what is computed is measured, a broken noise is caught, and what has no guarantee is told apart from what has."""

import copy
import math

import pytest
from pydantic import ValidationError

import sottovoce as sv
from sottovoce.experiments import audit as experiments_audit
from sottovoce.experiments import build, parse
from sottovoce.experiments.audit import audit_observer, audits, describe_audits
from sottovoce.studies.audit import LARGEST, LEAST_CLEAR, PROMISED, SMALLEST
from sottovoce.studies.kinds import KINDS, read_privacy_study, run_privacy_study

BASE = {
    "experiment": {"name": "audited", "rounds": 3, "seed": 4},
    "topology": {"kind": "ring", "agents": 4},
    "problem": {"kind": "linear_regression", "data": "synthetic", "samples": 2, "dimension": 2, "ridge": 0.0},
    "algorithm": {"kind": "atc", "step_size": 0.1},
    "noise": {"kind": "independent", "law": "gaussian", "epsilon": 2.0},
    "privacy": {"unit": "agent", "clip": 1.0, "clip_norm": "l2", "delta": 0.02, "observers": ["eavesdropper"]},
}
CANCELS = {"noise": {"kind": "graph_homomorphic", "law": "gaussian", "std": 1.0}}
STUDY = {
    "kind": "audit", "name": "a", "pairs": 20_000, "confidence": 0.99, "across": {"ATC": {}},
    "series": {"eavesdropper": {"observer": "eavesdropper"}},
    "clear": {"final model": {"observer": "final_model", "config": CANCELS}},
}  # fmt: skip


def ran(table):
    return run_privacy_study(read_privacy_study(table), copy.deepcopy(BASE), source="test")


@pytest.fixture(scope="module")
def found():
    return ran(STUDY)


@pytest.fixture(scope="module")
def experiment():
    return build(parse(copy.deepcopy(BASE), source="test"))


def broken(monkeypatch, factor):
    """Play less noise than is promised."""
    real = experiments_audit.audit

    def played(topology, algorithm, noise, observer, **rest):
        return real(topology, algorithm, noise, observer, played=noise.scaled(factor), **rest)

    monkeypatch.setattr(experiments_audit, "audit", played)


def test_the_promise_is_that_of_the_account_and_not_refuted(found):
    cells = found.cells
    assert cells["epsilon"]["eavesdropper"]["ATC"].value == pytest.approx(2.0, rel=1e-5)
    assert 0.5 < cells["share"]["eavesdropper"]["ATC"].value <= 1.0
    assert cells["share"][LARGEST]["ATC"] == cells["share"]["eavesdropper"]["ATC"] == cells["share"][SMALLEST]["ATC"]
    assert cells["share"][PROMISED]["ATC"].value == 1.0


def test_the_distance_of_scores_is_the_closed_form_and_measured(found):
    # Three rounds of independent noise: mu = sqrt(3) * 2 * 0.1 / std with the calibrated std.
    audit = found.pictures["audits"]["eavesdropper"]["ATC"]
    experiment = build(parse(copy.deepcopy(BASE), source="test"))
    expected = math.sqrt(3) * 0.2 / experiment.noise.law.std
    assert audit.computed_mu == pytest.approx(expected, rel=1e-6)
    cell = found.cells["measured"]["eavesdropper"]["ATC"]
    assert abs(cell.value - expected) < 4.5 * cell.error
    assert abs(cell.value - 1.5 * expected) > 10 * cell.error


def test_lines_without_a_guarantee_are_told_apart_every_time_and_have_no_share(found):
    assert found.cells["auc"]["final model"]["ATC"].value == found.cells["auc"][LEAST_CLEAR]["ATC"].value == 1.0
    assert "final model" not in found.cells["share"]
    assert found.cells["shown"]["final model"]["ATC"].value > 5


def test_all_audits_of_a_study_share_one_error(found):
    every = [audit for row in found.pictures["audits"].values() for audit in row.values()]
    assert [audit.confidence for audit in every] == pytest.approx([0.995, 0.995])


def test_the_picture_and_the_table_are_written(found, tmp_path):
    names = [path.name for path in KINDS["audit"].draw(found, tmp_path, "A document")]
    assert names == ["a.png", "a.svg", "a.md"]
    assert "cancels in the centroid" in (tmp_path / "a.md").read_text()


def test_half_the_promised_noise_is_refuted(monkeypatch, experiment):
    observer = sv.observers.eavesdropper()
    assert audit_observer(experiment, observer, pairs=5000, confidence=0.99).passed
    broken(monkeypatch, 0.5)
    failed = audit_observer(experiment, observer, pairs=5000, confidence=0.99)
    assert not failed.passed
    assert failed.lower.epsilon > 2.0


def test_observers_of_the_experiment_are_played_unless_others_are_named(experiment):
    said = []
    one = audits(experiment, pairs=50, confidence=0.9, progress=said.append)
    assert [each.guarantee.observer for each in one] == ["eavesdropper"]
    assert said == ["eavesdropper, 1 of 1: 50 runs of each of two worlds"]
    other = audits(experiment, [sv.observers.curious_agent(2)], pairs=50, confidence=0.9, agent=3)
    assert (other[0].guarantee.observer, other[0].agent) == ("curious agent 2", 3)
    stated = describe_audits(one + other)
    assert stated["passed"] is True
    assert [each["observer"] for each in stated["audits"]] == ["eavesdropper", "curious agent 2"]
    assert "lower bound" in stated["meaning"]


def test_an_observer_that_does_not_fit_is_refused_before_anything_is_played(experiment):
    said = []
    with pytest.raises(sv.IncompatibleChoice, match="server"):
        audits(experiment, [sv.observers.eavesdropper(), sv.observers.server()], pairs=50, confidence=0.9, progress=said.append)  # fmt: skip
    assert said == []
    sized = {"noise": {**BASE["noise"], "std": 1.0, "epsilon": None}, "privacy": {**BASE["privacy"], "observers": None}}
    nobody = build(parse(BASE | sized, source="t"))
    with pytest.raises(sv.ConfigError, match="no observer is named"):
        audits(nobody, pairs=50, confidence=0.9)


def test_a_line_on_the_wrong_side_is_refused():
    wrong = {**STUDY, "pairs": 100, "series": STUDY["clear"], "clear": {}}
    with pytest.raises(sv.ConfigError, match="Move it to clear"):
        ran(wrong)
    wrong = {**STUDY, "pairs": 100, "clear": {"e": {"observer": "eavesdropper"}}}
    with pytest.raises(sv.ConfigError, match="Move it to series"):
        ran(wrong)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"confidence": 1.0}, "less than 1"),
        ({"pairs": 10}, "greater than or equal to 100"),
        ({"clear": {"eavesdropper": {"observer": "final_model"}}}, "stands in series and in clear"),
        ({"series": {"x": {"observer": "nobody"}}}, "unknown observer"),
    ],
)
def test_malformed_studies_are_refused(change, words):
    with pytest.raises(ValidationError, match=words):
        read_privacy_study({**STUDY, **change})
