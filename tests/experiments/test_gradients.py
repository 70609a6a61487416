"""Norms of gradients are those of the records at the models of a run in clear, without ridge and clipping."""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.experiments import build, parse
from sottovoce.experiments.gradients import gradient_norms

DATA = {
    "experiment": {"name": "x", "rounds": 20, "seed": 5},
    "topology": {"kind": "ring", "agents": 4},
    "problem": {"kind": "linear_regression", "data": "synthetic", "samples": 6, "dimension": 3, "ridge": 0.5},
    "algorithm": {"kind": "atc", "step_size": 0.05},
    "noise": {"kind": "independent", "law": "gaussian", "std": 10.0},
    "privacy": {"unit": "record", "clip": 0.7, "clip_norm": "l2"},
}


@pytest.fixture(scope="module")
def shown():
    return found()


def found(**changes):
    rows = gradient_norms(parse({**DATA, **changes}, source="test"))
    return {(row.round, row.whose, row.norm): row for row in rows}


def by_hand(rounds):
    """[4, 6, 3] gradients -2 x (y - x.w) of all records, at models learnt without noise or clipping."""
    clear = {name: table for name, table in DATA.items() if name != "privacy"} | {"noise": {"kind": "none"}}
    parts = build(parse(clear, source="test"))
    models = np.zeros((4, 3))
    if rounds:
        run = sv.simulate(
            parts.problem, parts.topology, parts.algorithm, parts.noise, rounds=rounds, seed=5, progress=False
        )
        models = run.models[0].astype(float)
    features, targets = parts.problem.features, parts.problem.targets
    errors = targets - np.einsum("knd,kd->kn", features, models)
    return -2 * features * errors[:, :, None]


@pytest.mark.parametrize("rounds", [0, 2, 10, 20])
def test_norms_are_those_of_every_record_and_of_every_agents_average(shown, rounds):
    rows, gradients = shown, by_hand(rounds)
    order = {"l1": 1, "l2": 2}
    for norm, number in order.items():
        records = np.linalg.norm(gradients, ord=number, axis=-1).ravel()
        agents = np.linalg.norm(gradients.mean(axis=1), ord=number, axis=-1)
        for whose, norms in (("record", records), ("agent", agents)):
            row = rows[rounds, whose, norm]
            assert row.count == len(norms)
            assert row.percentiles["50"] == pytest.approx(np.median(norms), rel=1e-4)
            assert row.percentiles["100"] == pytest.approx(norms.max(), rel=1e-4)
            assert sum(row.histogram) == len(norms)
    clipped = np.linalg.norm(gradients, axis=-1) > 0.7
    assert rows[rounds, "record", "l2"].above_clip == pytest.approx(clipped.mean(), abs=1e-9)


def test_the_clip_is_compared_in_its_own_norm_with_records_only(shown):
    assert {key[1:] for key, row in shown.items() if row.above_clip is not None} == {("record", "l2")}
    without = {name: table for name, table in DATA.items() if name != "privacy"}
    assert all(row.above_clip is None for row in gradient_norms(parse(without, source="test")))


def test_a_clip_of_whole_gradients_is_compared_with_agents_ridge_and_all():
    whole = {"unit": "agent", "clip": 0.7, "clip_norm": "l2", "clips": "gradient"}
    rows = found(privacy=whole)
    assert {key[1:] for key, row in rows.items() if row.above_clip is not None} == {("agent", "l2")}
    clear = {name: table for name, table in DATA.items() if name != "privacy"} | {"noise": {"kind": "none"}}
    problem = build(parse(clear, source="test")).problem
    run = sv.simulate(problem, sv.topologies.ring(4), sv.algorithms.atc(step_size=0.05), sv.noise.none(), rounds=20, seed=5, progress=False)  # fmt: skip
    agents = by_hand(20).mean(axis=1) + 2 * 0.5 * run.models[0]  # the ridge of linear regression is ridge ||w||^2
    assert rows[20, "agent", "l2"].percentiles["100"] == pytest.approx(np.linalg.norm(agents, axis=1).max(), rel=1e-4)


def test_padding_of_agents_with_fewer_records_is_not_counted():
    cancer = {"kind": "logistic_regression", "data": "breast_cancer", "ridge": 0.1}
    cancer |= {"partition": {"kind": "dirichlet", "alpha": 0.5}, "unit_norm": True}
    row = found(problem=cancer, experiment={"name": "x", "rounds": 1})[0, "record", "l2"]
    assert row.count == 569
    assert row.percentiles["10"] == pytest.approx(0.5, abs=1e-5)  # s(0) = 1/2 at the start, times ||x|| = 1


@pytest.mark.parametrize("rounds", [1, 25])
def test_start_and_end_are_always_shown(rounds):
    places = sorted({key[0] for key in found(experiment={"name": "x", "rounds": rounds})})
    assert places[0] == 0
    assert places[-1] == rounds
    assert len(places) == min(4, rounds + 1)


def test_points_have_gradients_too():
    points = {"kind": "mean_estimation", "data": "synthetic", "samples": 6, "dimension": 2, "radius": 5.0}
    rows = found(problem=points)
    assert math.isfinite(rows[20, "record", "l1"].percentiles["100"])
    problem = build(parse({**DATA, "problem": points}, source="test")).problem
    largest = np.linalg.norm(problem.points.reshape(-1, 2), axis=-1).max()
    assert rows[0, "record", "l2"].percentiles["100"] == pytest.approx(largest, rel=1e-5)
