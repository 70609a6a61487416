"""Names become the right things, with the right values."""

import numpy as np
import pytest

from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.experiments import build, parse
from sottovoce.experiments.config.config import CHOICES

BASE = {
    "experiment": {"name": "x", "rounds": 3, "seed": 5},
    "topology": {"kind": "ring", "agents": 4},
    "problem": {"kind": "linear_regression", "data": "synthetic", "samples": 6, "dimension": 2, "ridge": 0.1},
    "algorithm": {"kind": "atc", "step_size": 0.1},
    "noise": {"kind": "none"},
}
CANCER = {"kind": "logistic_regression", "data": "breast_cancer", "ridge": 0.01}


def made(**changes):
    return build(parse({**BASE, **changes}, source="test"))


TOPOLOGIES = {
    "ring": ({"agents": 5}, 5),
    "path": ({"agents": 5}, 5),
    "complete": ({"agents": 5}, 5),
    "star": ({"agents": 5}, 5),
    "grid": ({"rows": 2, "columns": 3}, 6),
    "hypercube": ({"dimension": 3}, 8),
    "erdos_renyi": ({"agents": 6, "probability": 0.9}, 6),
    "geometric": ({"agents": 6, "radius": 1.2}, 6),
    "k_out": ({"agents": 6, "k": 3}, 6),
    "federation": ({"agents": 5}, 5),
}


def test_every_kind_of_topology_is_tried_here():
    assert TOPOLOGIES.keys() == CHOICES["topology"].keys()


@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_every_topology_is_built_with_data_for_each_agent(kind):
    values, num_agents = TOPOLOGIES[kind]
    experiment = made(topology={"kind": kind, **values})
    assert experiment.topology.num_agents == num_agents
    assert experiment.problem.num_agents == num_agents


def test_topology_follows_the_experiment_seed_unless_it_has_its_own():
    random = {"kind": "erdos_renyi", "agents": 12, "probability": 0.5}
    same = made(topology=random).topology.matrix
    np.testing.assert_array_equal(same, made(topology={**random, "seed": 5}).topology.matrix)
    assert not np.array_equal(same, made(topology={**random, "seed": 6}).topology.matrix)


def test_weights_reach_the_topology():
    star = made(topology={"kind": "star", "agents": 4, "weights": "uniform"}).topology
    assert star.matrix[0, 0] == pytest.approx(1 / 4)


def test_schedules_reach_the_topology():
    dropped = made(topology={"kind": "ring", "agents": 4, "dropout": 0.25}).topology
    assert dropped.describe()["schedule"] == {"kind": "dropout", "probability": 0.25}
    paired = made(topology={"kind": "ring", "agents": 4, "random_pair": True}).topology
    assert paired.describe()["schedule"] == {"kind": "random_pair"}


def test_federation_by_records_weighs_agents_by_their_data():
    experiment = made(
        topology={"kind": "federation", "agents": 4, "weights": "records"},
        problem={**CANCER, "partition": {"kind": "dirichlet", "alpha": 0.5}},
    )
    sizes = experiment.problem.sizes
    np.testing.assert_allclose(experiment.topology.perron, sizes / sizes.sum())


@pytest.mark.parametrize(
    ("section", "name", "parameters"),
    [
        ({"kind": "atc", "step_size": 0.3}, "atc", {"step_size": 0.3}),
        ({"kind": "cta", "step_size": 0.3}, "cta", {"step_size": 0.3}),
        ({"kind": "consensus", "step_size": 0.3}, "consensus", {"step_size": 0.3}),
        (
            {"kind": "dgd", "step_size": 0.3, "gradient_rounds": 2, "box": 4.0},
            "dgd",
            {"gradient_rounds": 2, "box": 4.0},
        ),
    ],
)
def test_every_algorithm_gets_its_values(section, name, parameters):
    description = made(algorithm=section).algorithm.describe()
    assert description["name"] == name
    assert parameters.items() <= description.items()


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_std_reaches_the_law(law):
    noise = made(noise={"kind": "independent", "law": law, "std": 0.25}).noise
    assert noise.law.std == 0.25


def test_scale_reaches_the_law():
    assert made(noise={"kind": "graph_homomorphic", "law": "l2_laplace", "scale": 0.25}).noise.law.scale == 0.25


def test_options_of_independent_noise_reach_it():
    noise = {"kind": "independent", "law": "gaussian", "std": 0.1}
    assert made(noise=noise).noise.parameters == {"per_edge": False, "self_noise": True}
    changed = made(noise={**noise, "per_edge": True, "self_noise": False}).noise
    assert changed.parameters == {"per_edge": True, "self_noise": False}


def test_no_noise_has_no_law():
    assert made().noise.law is None


def test_noise_that_cannot_cancel_on_the_topology_is_refused():
    with pytest.raises(IncompatibleChoice):
        made(
            topology={"kind": "path", "agents": 4},
            noise={"kind": "local_graph_homomorphic", "law": "gaussian", "std": 0.1},
        )


def test_clipping_reaches_the_problem():
    assert made().problem.clip is None
    clipped = made(privacy={"unit": "record", "clip": 0.5, "clip_norm": "l1"})
    assert (clipped.problem.clip.bound, clipped.problem.clip.norm) == (0.5, "l1")
    assert clipped.privacy.unit == "record"
    assert made().privacy is None


def test_mean_estimation_takes_synthetic_points():
    problem = made(
        problem={"kind": "mean_estimation", "data": "synthetic", "samples": 6, "dimension": 2, "radius": 5.0}
    ).problem
    assert (problem.num_agents, problem.dimension, problem.radius) == (4, 2, 5.0)


def test_data_set_is_scaled_by_public_bounds_and_dealt_out_whole():
    problem = made(problem=CANCER).problem
    assert problem.sizes.sum() == 569
    assert np.abs(problem.features).max() <= 1.0


def test_partition_changes_who_has_what():
    uneven = made(problem={**CANCER, "partition": {"kind": "dirichlet", "alpha": 0.2}}).problem
    even = made(problem={**CANCER, "partition": {"kind": "iid"}}).problem
    assert np.ptp(even.sizes) <= 1
    assert np.ptp(uneven.sizes) > 20


def test_test_records_are_taken_from_every_agent_and_from_learning():
    experiment = made(problem={**CANCER, "test_fraction": 0.25})
    whole = made(problem=CANCER).problem
    held = [int(0.25 * size) for size in whole.sizes]
    np.testing.assert_array_equal(experiment.problem.sizes, whole.sizes - held)
    features, labels = experiment.test
    assert len(features) == len(labels) == sum(held)
    learned = np.concatenate(
        [x[:n] for x, n in zip(experiment.problem.features, experiment.problem.sizes, strict=True)]
    )
    everything = np.concatenate([x[:n] for x, n in zip(whole.features, whole.sizes, strict=True)])
    rejoined = np.concatenate([learned, features])
    np.testing.assert_array_equal(rejoined[np.lexsort(rejoined.T)], everything[np.lexsort(everything.T)])


def test_labels_stay_with_their_records_when_test_records_are_split_off():
    experiment = made(problem={**CANCER, "test_fraction": 0.25})
    whole = made(problem=CANCER).problem
    label_of = {
        x.tobytes(): y
        for xs, ys, n in zip(whole.features, whole.labels, whole.sizes, strict=True)
        for x, y in zip(xs[:n], ys[:n], strict=True)
    }
    features, labels = experiment.test
    assert [label_of[x.tobytes()] for x in features] == list(labels)


def test_test_fraction_that_holds_out_nothing_is_refused():
    with pytest.raises(ConfigError, match="no record to test on"):
        made(problem={**CANCER, "test_fraction": 0.001})


def test_unknown_data_set_is_refused():
    with pytest.raises(ConfigError, match="breast_cancer"):
        made(problem={**CANCER, "data": "lung_cancer"})


def test_description_is_plain_json():
    import json

    description = made(noise={"kind": "independent", "law": "gaussian", "std": 0.1}).describe()
    assert json.loads(json.dumps(description, allow_nan=False)) == description
