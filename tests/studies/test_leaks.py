"""Studies of leakage: exact without noise by another route, the stated theory under noise, and what is refused."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

import sottovoce as sv
from sottovoce.experiments import build, parse
from sottovoce.studies import leak_direction, leak_exact, rebuilt_records
from sottovoce.studies.kinds import KINDS, read_privacy_study, run_privacy_study
from sottovoce.studies.leak_direction import chance_of
from sottovoce.studies.leak_exact import ALLOWED, LEAST_ERROR
from sottovoce.studies.leak_images import MEAN
from sottovoce.studies.leaks import ALL_OF_IT, NO_NOISE

BASE = {
    "experiment": {"name": "leak", "rounds": 3, "seed": 2, "dtype": "float64"},
    "topology": {"kind": "ring", "agents": 5},
    "problem": {"kind": "linear_regression", "data": "synthetic", "samples": 1, "dimension": 6, "ridge": 0.0},
    "algorithm": {"kind": "atc", "step_size": 0.1},
    "noise": {"kind": "none"},
    "privacy": {"unit": "agent", "clip": 1.0, "clip_norm": "l2", "delta": 1e-5},
}
GAUSSIAN = {"kind": "independent", "law": "gaussian"}
CANCELLING = {"kind": "local_graph_homomorphic", "law": "gaussian"}
EXACT = {
    "kind": "leak_exact", "name": "e", "agent": 1, "receiver": 2, "losses": {"linear": {"problem": {"ridge": 0.1}}},
    "series": {"clear": {}, "cancels": {"noise": {**CANCELLING, "std": 1.0}}, "noisy": {"noise": {**GAUSSIAN, "std": 1.0}}},
}  # fmt: skip
DIRECTION = {
    "kind": "leak_direction", "name": "d", "agent": 1, "epsilons": [1000.0, 30.0], "repeats": 600, "seed": 1,
    "series": {
        "eavesdropper": {"observer": "eavesdropper", "rebuilds": "gradient", "noise": GAUSSIAN},
        "neighbour": {"observer": "curious_agent:2", "rebuilds": "sum", "noise": CANCELLING, "sized_as": GAUSSIAN},
    },
}  # fmt: skip
IMAGES = {
    "kind": "leak_images", "name": "i", "observer": "eavesdropper", "agents": [0, 3], "noise": GAUSSIAN, "epsilons": [3000.0, 10.0],
    "shape": [8, 8], "pixels": [-1.0, 1.0], "repeats": 4, "seed": 1,
    "set": {
        "experiment.rounds": 1,
        "topology.agents": 4,
        "problem": {"kind": "classification", "data": "digits_classes", "model": "linear", "classes": 10, "ridge": 0.0},
        "algorithm": {"kind": "atc", "step_size": 0.1, "batch_size": 1},
    },
}  # fmt: skip


def ran(table, base=BASE):
    return run_privacy_study(read_privacy_study(table), copy.deepcopy(base), source="test")


def changed(table, **changes):
    return {**copy.deepcopy(table), **changes}


@pytest.fixture(scope="module")
def direction():
    return ran(DIRECTION)


@pytest.fixture(scope="module")
def exact():
    return ran(EXACT)


def test_without_noise_gradients_records_and_sums_are_exact_and_noise_spoils_them(exact):
    cells = exact.cells
    for measure in ("gradient", "direction", "sum"):
        assert cells[measure]["clear"]["linear"].value == LEAST_ERROR < cells[measure][ALLOWED]["linear"].value
        assert cells[measure]["noisy"]["linear"].value > 0.01


def test_noise_that_cancels_at_receivers_hides_gradients_but_not_the_sum(exact):
    cells = exact.cells
    assert cells["sum"]["cancels"]["linear"].value == LEAST_ERROR
    assert cells["gradient"]["cancels"]["linear"].value > 1.0
    assert cells["sum"]["noisy"]["linear"].value > 1.0


@pytest.mark.parametrize("kind", ["atc", "cta", "consensus"])
def test_the_plain_loop_is_the_run_of_the_simulator(kind):
    experiment = build(parse({**BASE, "algorithm": {"kind": kind, "step_size": 0.1}}, source="test"))
    run = sv.simulate(
        experiment.problem, experiment.topology, experiment.algorithm, experiment.noise, rounds=3, dtype="float64", progress=False
    )  # fmt: skip
    last = leak_exact.clean_run(experiment, 0)
    A, step = experiment.topology.matrix, 0.1
    late = step * last.gradients[-1] if kind != "atc" else 0.0  # taken after the exchange
    models = A.T @ last.messages[-1] - late
    np.testing.assert_allclose(models, run.models[0], atol=1e-12)


def test_the_first_gradient_is_as_similar_as_theory_says_and_not_as_for_another_noise(direction):
    # 600 runs: standard errors of 0.001 to 0.01; the neighbouring epsilon is more than ten of them away.
    row = direction.cells["first"]["eavesdropper"]
    for place in ("1000", "30"):
        assert abs(row[place].value - row[place].theory) < 4.5 * row[place].error
    assert abs(row["1000"].value - row["30"].theory) > 10 * row["30"].error


def test_all_rounds_together_show_more_than_the_first(direction):
    together, first = (direction.cells[m]["eavesdropper"]["30"] for m in ("similarity", "first"))
    assert together.value > first.value + 4 * (together.error + first.error)


def test_without_noise_the_direction_is_the_record(direction):
    assert direction.cells["similarity"]["eavesdropper"][NO_NOISE].value == pytest.approx(1.0, abs=1e-9)
    assert direction.cells["similarity"][ALL_OF_IT][NO_NOISE].value == 1.0


def test_noise_that_cancels_at_the_receiver_changes_nothing_for_it(direction):
    values = [cell.value for cell in direction.cells["similarity"]["neighbour"].values()]
    assert values == pytest.approx([values[0]] * 3, abs=1e-9)
    assert values[0] > 0.5


def test_errors_of_neighbouring_rounds_share_a_source():
    # rho = 1, three rounds: z_1, z_2 - z_1, z_3 - z_2 by hand; their sum is z_3 alone.
    found = rebuilt_records.error_covariance(np.array([2.0, math.sqrt(8), math.sqrt(8)]))
    np.testing.assert_allclose(found, 4.0 * np.array([[1, -1, 0], [-1, 2, -1], [0, -1, 2]]), atol=1e-12)
    assert found.sum() == pytest.approx(4.0)
    np.testing.assert_allclose(rebuilt_records.error_covariance(np.full(3, 2.0)), 4.0 * np.eye(3), atol=1e-12)


def test_whitening_finds_the_direction_that_plain_rows_lose():
    rng, n, d = np.random.default_rng(0), 6, 8
    z = rng.standard_normal((500, n, d))
    rows = 0.5 * np.eye(d)[0] + z - np.concatenate([np.zeros((500, 1, d)), z[:, :-1]], axis=1)
    std = np.sqrt(np.array([1.0] + [2.0] * (n - 1)))
    best, plain = (np.abs(rebuilt_records.leading_direction(rows, s)[:, 0]).mean() for s in (std, np.ones(n)))
    assert best > plain + 0.1


def test_guessing_is_the_mean_over_the_sphere():
    x = np.random.default_rng(0).standard_normal((200_000, 6))
    assert chance_of(6) == pytest.approx(np.abs(x[:, 0] / np.linalg.norm(x, axis=1)).mean(), rel=0.01)


@pytest.mark.slow
def test_images_are_exact_without_noise_and_gone_under_much_of_it(tmp_path):
    result = ran(IMAGES)
    row = result.cells["correlation"][MEAN]
    assert row[NO_NOISE].value == pytest.approx(1.0, abs=1e-9)
    assert row["3000"].value > 0.9
    assert abs(row["10"].value) < 0.2
    features = sv.problems.load("digits_classes")[0].reshape(-1, 8, 8) / 16.0
    for image in result.pictures["originals"]:
        assert np.abs(features - image).max(axis=(1, 2)).min() < 1e-12
    files = KINDS["leak_images"].draw(result, tmp_path, "A document")
    assert [path.name for path in files] == ["i.png", "i.svg"]


def test_pictures_of_the_other_studies_are_written(direction, exact, tmp_path):
    names = [path.name for path in KINDS["leak_direction"].draw(direction, tmp_path, "A document")]
    assert names == ["d-similarity.png", "d-similarity.svg", "d-first.png", "d-first.svg"]
    assert "No epsilon holds for" in (tmp_path / "d-first.svg").read_text().replace("\n", " ")
    assert [path.name for path in KINDS["leak_exact"].draw(exact, tmp_path, "A document")] == ["e.png", "e.svg"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (changed(DIRECTION, epsilons=[1.0, 10.0]), "must fall"),
        (changed(IMAGES, agents=[0, 0]), "twice"),
        (changed(IMAGES, pixels=[1.0, 1.0]), "must differ"),
        (
            changed(DIRECTION, series={"x": {"observer": "eavesdropper", "rebuilds": "gradient", "noise": {**GAUSSIAN, "per_edge": True}}}),
            "per_edge",
        ),
    ],
)  # fmt: skip
def test_malformed_tables_are_refused(table, words):
    with pytest.raises(ValidationError, match=words):
        read_privacy_study(table)


@pytest.mark.parametrize(
    ("table", "base", "words"),
    [
        (EXACT, {**BASE, "problem": {**BASE["problem"], "samples": 2}}, "must have one record"),
        (changed(EXACT, agent=9), BASE, "no such agent"),
        (changed(EXACT, series={"x": {"algorithm": {"kind": "muffliato", "step_size": 0.1, "gossip_steps": 2}}}), BASE, "muffliato"),
        (changed(IMAGES, set={**IMAGES["set"], "algorithm": {"kind": "atc", "step_size": 0.1}}), BASE, "batch_size = 1"),
        (
            changed(DIRECTION, series={"x": {"observer": "eavesdropper", "rebuilds": "sum", "noise": GAUSSIAN}}),
            BASE,
            "one curious agent",
        ),
        (
            changed(DIRECTION, set={"algorithm.kind": "cta"}),
            BASE,
            "rebuilt from atc or fedavg",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_rebuilt_is_refused(table, base, words):
    with pytest.raises((sv.ConfigError, sv.IncompatibleChoice), match=words):
        ran(table, base)


FALLING = {
    "step": {"algorithm": sv.algorithms.atc(step_size=lambda round_: 0.1 / round_)},
    "noise": {"noise": sv.noise.independent(sv.noise.Gaussian(std=1.0)).scaled([1.0, 0.5, 0.25])},
}


@pytest.mark.parametrize("changes", FALLING)
def test_sizes_that_change_from_round_to_round_are_refused(changes):
    constant = build(parse({**BASE, "noise": {**GAUSSIAN, "std": 1.0}}, source="test"))
    rebuilt_records.require_constant_sizes(constant)
    changing = replace(constant, **FALLING[changes])
    section = read_privacy_study(DIRECTION)
    with pytest.raises(sv.IncompatibleChoice, match=f"{changes}.*changes from round to round"):
        leak_direction.rebuild(changing, sv.observers.eavesdropper(), "gradient", section)


def test_what_cannot_be_rebuilt_is_refused_before_anything_is_simulated(monkeypatch):
    monkeypatch.setattr(leak_direction, "observe", lambda *a, **k: pytest.fail("simulated"))
    experiment = build(parse({**BASE, "algorithm": {"kind": "cta", "step_size": 0.1}}, source="test"))
    with pytest.raises(sv.IncompatibleChoice, match="atc or fedavg"):
        leak_direction.rebuild(experiment, sv.observers.eavesdropper(), "gradient", read_privacy_study(DIRECTION))


def test_the_theory_of_the_first_gradient_is_refused_away_from_zero(monkeypatch):
    experiment = build(parse({**BASE, "noise": {**GAUSSIAN, "std": 1.0}}, source="test"))
    assert 0 < leak_direction._first_theory(experiment, 1, 1.0) < 1
    monkeypatch.setattr(type(experiment.problem), "initial_model", np.ones(6))
    with pytest.raises(sv.ConfigError, match="not zero"):
        leak_direction._first_theory(experiment, 1, 1.0)
