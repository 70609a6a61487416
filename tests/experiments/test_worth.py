"""What a result is worth is measured as said, kept apart, and readable by its owner alone."""

import json
import re
import stat

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.errors import ConfigError
from sottovoce.experiments import alone, build, parse, run_and_weigh, run_experiment
from sottovoce.experiments import worth as module
from sottovoce.experiments.alone import models_alone
from sottovoce.experiments.hints import ONE_MORE, hints, shortened
from sottovoce.experiments.scores import measure_of
from sottovoce.experiments.worth import OWNER_ONLY
from sottovoce.simulation import Run

FILE = {
    "experiment": {"name": "x", "rounds": 30, "repeats": 2, "seed": 5},
    "topology": {"kind": "ring", "agents": 3},
    "problem": {"kind": "logistic_regression", "data": "breast_cancer", "ridge": 0.01, "test_fraction": 0.2},
    "algorithm": {"kind": "atc", "step_size": 0.5},
    "noise": {"kind": "independent", "law": "gaussian", "std": 0.02},
    "privacy": {
        "unit": "record",
        "clip": 0.5,
        "clip_norm": "l2",
        "delta": 1e-5,
        "observers": ["eavesdropper", "final_model"],
    },
}
REGRESSION = {
    **FILE,
    "problem": {"kind": "linear_regression", "data": "diabetes", "ridge": 0.01},
    "noise": {"kind": "none"},
    "privacy": None,
}


def experiment(**changes):
    tables = {name: table for name, table in {**FILE, **changes}.items() if table is not None}
    return build(parse(tables, source="test"))


@pytest.fixture(scope="module")
def weighed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("worth") / "run"
    run, told = run_and_weigh(parse(FILE, source="test"), folder, progress=False)
    return folder, run, told


def test_accuracies_stand_beside_those_without_learning_alone_and_in_clear(weighed):
    _, run, told = weighed
    parts = experiment()
    features, labels = parts.test
    rows = told["rows"]
    assert (told["measure"], told["records"], told["held_out"]) == ("accuracy", len(labels), True)
    assert rows["without learning"] == {"common": pytest.approx(max((labels == 1).mean(), (labels == -1).mean()))}
    signs = np.sign(np.einsum("nd,rd->rn", features, run.common))
    assert rows["together"]["common"] == pytest.approx((signs == labels).mean())
    own = np.sign(np.einsum("nd,rkd->rkn", features, run.models)) == labels
    assert rows["together"]["average"] == pytest.approx(own.mean())
    assert rows["together"]["worst"] == pytest.approx(own.mean(axis=2).min(axis=1).mean())
    best = [parts.problem.weighted_optimum(np.eye(3)[k]) for k in range(3)]
    own_best = [(np.sign(features @ w) == labels).mean() for w in best]
    assert rows["alone"] == {
        "average": pytest.approx(np.mean(own_best)),
        "worst": pytest.approx(min(own_best)),
        "best": pytest.approx(max(own_best)),
    }
    assert rows["in clear"]["common"] > rows["without learning"]["common"] + 0.1


def test_it_is_kept_apart_under_its_heading_and_readable_by_its_owner_alone(weighed):
    folder, _, told = weighed
    path = folder / OWNER_ONLY
    for name in (OWNER_ONLY, "metrics.csv", "metrics.safetensors", "models.safetensors"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
    assert json.loads(path.read_text()) == told
    assert told["heading"].startswith("for the data's owner only")
    assert "covered by no guarantee" in told["heading"]
    for name in ("run.json", "guarantees.json"):
        assert "without learning" not in (folder / name).read_text()


def test_it_is_read_back_and_a_damaged_file_is_refused(weighed, monkeypatch):
    folder, run, told = weighed
    monkeypatch.setattr(module, "weigh", None)
    again, stored = run_and_weigh(parse(FILE, source="test"), folder, progress=False)
    assert stored == told
    np.testing.assert_array_equal(again.models, run.models)
    content = (folder / OWNER_ONLY).read_text()
    for damage in ("", "[]", '{"rows": {}}', "[" * 100_000):
        (folder / OWNER_ONLY).write_text(damage)
        with pytest.raises(ConfigError, match=r"owner-only\.json is damaged.*remove it"):
            run_and_weigh(parse(FILE, source="test"), folder, progress=False)
    (folder / OWNER_ONLY).write_text(content)


def test_who_stops_while_worth_is_measured_is_told_that_the_run_is_complete(weighed, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    folder, _, told = weighed
    (folder / OWNER_ONLY).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(module, "run_in_clear", stop)
        with pytest.raises(KeyboardInterrupt, match="the run is complete and stored"):
            run_and_weigh(parse(FILE, source="test"), folder, progress=False)
    assert run_and_weigh(parse(FILE, source="test"), folder, progress=False)[1] == told


def test_the_run_itself_is_the_same_bit_for_bit(weighed, tmp_path):
    plain = run_experiment(parse(FILE, source="test"), tmp_path / "run", progress=False)
    np.testing.assert_array_equal(plain.models, weighed[1].models)
    for name, values in plain.metrics.items():
        np.testing.assert_array_equal(values, weighed[1].metrics[name])
    assert not (tmp_path / "run" / OWNER_ONLY).exists()


def test_errors_of_a_regression_are_roots_of_mean_squares_and_the_variance_explained_follows():
    parts = experiment(**REGRESSION)
    measure = measure_of(parts)
    problem = parts.problem
    features = np.concatenate([x[:n] for x, n in zip(problem.features, problem.sizes, strict=True)])
    targets = np.concatenate([y[:n] for y, n in zip(problem.targets, problem.sizes, strict=True)])
    assert (measure.name, measure.held_out, measure.records) == ("error", False, 442)
    assert measure.without_learning == pytest.approx(targets.std())
    model = problem.optimum
    assert measure.score(model) == pytest.approx(np.sqrt(((targets - features @ model) ** 2).mean()))
    explained = 1 - ((targets - features @ model) ** 2).sum() / ((targets - targets.mean()) ** 2).sum()
    assert measure.explained(measure.score(model)) == pytest.approx(explained)
    assert measure.worst([1.0, 2.0], axis=0) == 2.0


def test_without_a_known_minimum_agents_alone_take_the_steps_of_the_run():
    """Two classes that a model separates have no best model without a ridge."""
    features, labels = [np.array([[1.0], [2.0]]), np.array([[-1.0], [1.5]])], [np.array([1, -1]), np.array([-1, 1])]
    parts = experiment(noise={"kind": "none"}, privacy=None)
    problem = sv.problems.logistic_regression(features, labels)
    object.__setattr__(parts, "problem", problem)
    models, notes = models_alone(parts, 3)
    assert notes
    model = np.zeros(1)
    data = {name: array[1] for name, array in problem.arrays.items()}
    for _ in range(3):
        model = model - 0.5 * problem.gradient(model, data)
    np.testing.assert_allclose(models[1], model, rtol=1e-5)


def test_of_very_many_agents_a_hundred_are_looked_at_and_it_says_so(monkeypatch):
    monkeypatch.setattr(alone, "MOST_AGENTS", 2)
    models, notes = models_alone(experiment(), 3)
    best = experiment().problem.weighted_optimum
    np.testing.assert_allclose(models, [best(np.eye(3)[0]), best(np.eye(3)[2])], atol=1e-6)
    assert notes == ("Alone, 2 of the 3 agents were looked at.",)


def made_up(losses: np.ndarray, models: np.ndarray | None = None) -> Run:
    models = np.zeros((1, 3, 30)) if models is None else models
    return Run(
        metrics={"loss": losses[None]}, models=models, description={"rounds": len(losses)}, common=models.mean(axis=1)
    )


ROUNDS = np.arange(200)
NOISE = np.random.default_rng(0).normal(size=200)


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        (0.7 - 0.002 * ROUNDS, r"Not converged.*by 11 %.*rounds=400 or algorithm\.step_size=1;.*more noise"),
        (0.2 + 0.5 * np.exp(-ROUNDS / 5), None),
        (0.2 + 0.5 * np.exp(-ROUNDS / 5) + 0.05 * NOISE, None),
        (0.2 + 0.5 * np.exp(-ROUNDS / 5) + 0.001 * ROUNDS, r"ended above its lowest.*step_size=0\.25"),
        (0.7 + 0.001 * ROUNDS, r"never fell.*step_size=0\.25"),
    ],
    ids=["falling", "converged", "converged with noise", "rising", "never fell"],
)
def test_a_run_that_has_not_converged_says_so_and_what_to_try(losses, said):
    parts = experiment()
    found = hints(parts, made_up(losses), measure_of(parts), {"together": 0.9, "without learning": 0.6})
    matching = [line for line in found if "loss" in line.lower()]
    if said is None:
        assert matching == []
    else:
        assert len(matching) == 1
        assert re.search(said, matching[0]), matching[0]
        assert found[-1] == ONE_MORE


@pytest.mark.parametrize(
    ("together", "clear", "said"), [(0.5, 0.9, "larger epsilon"), (0.5, 0.5, "another step size"), (0.9, 0.9, None)]
)
def test_a_model_no_better_than_none_is_called_so(together, clear, said):
    parts = experiment()
    scores = {"together": together, "in clear": clear, "without learning": 0.6}
    found = hints(parts, made_up(0.2 + 0.5 * np.exp(-ROUNDS / 5)), measure_of(parts), scores)
    assert any("no better than an answer without learning" in line for line in found) == (said is not None)
    assert said is None or any(said in line for line in found)


@pytest.mark.parametrize(
    ("together", "clear", "alone", "said"), [(0.7, 0.9, 0.8, True), (0.85, 0.9, 0.8, False), (0.7, 0.75, 0.8, False)]
)
def test_noise_that_makes_learning_together_pointless_is_called_so(together, clear, alone, said):
    parts = experiment()
    scores = {"together": together, "in clear": clear, "without learning": 0.6, "alone": alone}
    found = hints(parts, made_up(0.2 + 0.5 * np.exp(-ROUNDS / 5)), measure_of(parts), scores)
    assert any("no better than each agent alone" in line for line in found) is said


def test_the_share_of_shortened_gradients_is_counted():
    """Record i has gradient -2 x_i (t_i - 0) of norm 2 |t_i|; a clip of 5 shortens those above 2.5; the ridge does not count."""
    features = np.ones((2, 4, 1))
    targets = np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 2.0, 2.0, 9.0]])
    problem = sv.problems.linear_regression(features, targets, ridge=100.0).with_clipping(5.0, "l2")
    run = made_up(np.ones(3), np.zeros((1, 2, 1)))
    assert shortened(problem, run) == 3 / 8
    assert shortened(sv.problems.linear_regression(features, targets), run) is None


def test_a_distance_to_the_mean_needs_no_records_kept_apart():
    parts = experiment(
        problem={
            "kind": "mean_estimation",
            "data": "truncated_gaussian",
            "samples": 4,
            "dimension": 2,
            "radius": 1.0,
        }
    )
    measure = measure_of(parts)
    assert measure.name == "distance"
    assert measure.without_learning is None
    assert measure.score(parts.problem.optimum + np.array([3.0, 4.0])) == pytest.approx(5.0)
    run = Run(
        metrics={"loss": np.ones((1, 30))},
        models=np.zeros((1, 3, 2)),
        description={"rounds": 30},
        common=np.zeros((1, 2)),
    )
    told = module.weigh(parts, run, None).describe()
    assert set(told["rows"]) == {"alone", "together"}
    assert not any("testing" in note for note in told["notes"])


def test_whole_gradients_that_are_clipped_and_persons_are_weighed_too(tmp_path):
    """At w = 0 the whole gradient of an agent is -(2/n) sum x t, ridge and all; in the clear run nothing is clipped."""
    features, targets = np.ones((2, 4, 1)), np.array([[1.0, 2.0, 3.0, 4.0], [0.1, 0.1, 0.1, 0.1]])
    problem = sv.problems.linear_regression(features, targets, ridge=100.0).with_gradient_clipping(1.0, "l2")
    assert shortened(problem, made_up(np.ones(3), np.zeros((1, 2, 1)))) == 0.5
    private = {**FILE["privacy"], "unit": "agent", "clips": "gradient", "clip": 1e-3}
    tables = {**FILE, "privacy": private, "experiment": {**FILE["experiment"], "repeats": 1}}
    _, told = run_and_weigh(parse(tables, source="test"), tmp_path / "run", progress=False)
    assert told["rows"]["in clear"]["common"] > told["rows"]["together"]["common"]
    assert any("100 % of the agents" in note for note in told["notes"])
    parts = experiment()
    object.__setattr__(parts, "problem", parts.problem.with_persons(records_per_person=2))
    np.testing.assert_array_equal(models_alone(parts, 3)[0], models_alone(experiment(), 3)[0])
