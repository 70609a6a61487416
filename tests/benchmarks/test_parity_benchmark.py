"""The benchmark of private accuracy: its releases have noise of their own, and the page says what it measured."""

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def parity():
    """The benchmark as a module; it imports its neighbours by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        names = ("parity", "federated", "engine", "measure")
        for name in names:
            patch.delitem(sys.modules, name, raising=False)
        yield importlib.import_module("parity")
        for name in names:
            sys.modules.pop(name, None)


@pytest.fixture
def released(parity, monkeypatch):
    """What was released, without running it."""
    asked = []

    def release(problem, **choices):
        asked.append((problem, choices))
        models = np.full((1, parity.AGENTS, problem.dimension), 0.25)
        return parity.Release(
            SimpleNamespace(models=models, metrics={"accuracy": np.ones((1, 1))}), 3.0 + len(asked), 0.0
        )

    monkeypatch.setattr(parity, "release", release)
    return asked


def test_the_two_releases_never_share_noise_in_any_split(parity, released):
    records = parity.split_of("breast_cancer", 0)
    for number in range(parity.SPLITS):
        parity.learn(records, 1.0, seed=number, mean_share=0.2)
    seeds = [choices["seed"] for _, choices in released]
    assert len(set(seeds)) == len(seeds) == 2 * parity.SPLITS


def test_the_model_is_tested_on_records_prepared_like_those_it_learnt_from_and_all_releases_are_counted(
    parity, released
):
    records = parity.split_of("breast_cancer", 0)
    learnt = parity.learn(records, 1.0, seed=0, mean_share=0.2)
    (points, _), (logistic, choices) = released
    assert points.kind == "mean_estimation"
    assert logistic.clip is not None
    prepared = parity.sv.problems.centred_features(records.test[0], np.full(30, 0.25))
    np.testing.assert_allclose(choices["test"][0], prepared)
    assert learnt.epsilon == pytest.approx(parity.sv.accounting.gaussian.epsilon(np.hypot(4.0, 5.0), parity.DELTA))


def test_the_split_keeps_every_record_once_and_a_fifth_of_each_agents_for_the_test(parity):
    records = parity.split_of("digits", 3)
    assert records.number + len(records.test[1]) == 1797
    assert all(len(part) in (288, 289) for part in records.labels)


def test_the_page_says_what_was_measured(parity):
    results = json.loads((ROOT / "benchmarks" / "results" / "parity.json").read_text())
    page = (ROOT / "docs" / "private-accuracy.md").read_text()
    assert results["facts"]["splits"] == 20
    for name, targets in parity.TARGETS.items():
        for epsilon, target in targets.items():
            row = results["data"][name]["epsilon"][f"{epsilon:g}"]
            assert row["accounted_epsilon"] == pytest.approx(epsilon, rel=1e-3)
            labels = ["sottovoce", "without the mean", "diffprivlib, public ranges", "diffprivlib, records of length 1"]
            medians = " | ".join(f"{row[label]['median']:.3f}" for label in labels)
            assert f"| {name} | {epsilon:g} | {medians} | {target:.2f}" in page
