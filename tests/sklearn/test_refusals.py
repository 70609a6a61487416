"""What decides privacy is refused where it is missing, by name; and so is whatever says nothing."""

import subprocess
import sys

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.sklearn import DecentralizedClassifier, DecentralizedLogisticRegression, DecentralizedRidge
from sottovoce.sklearn.demands import MEANING

ESTIMATORS = [DecentralizedLogisticRegression, DecentralizedRidge, DecentralizedClassifier]
X, Y = np.linspace(0, 10, 24).reshape(12, 2), np.arange(12) % 2


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("missing", MEANING)
def test_each_missing_parameter_is_refused_by_name(estimator, missing, privacy):
    with pytest.raises(ValueError, match=f"was not given {missing}\\. ") as caught:
        estimator(**{**privacy, missing: None}, agents=2).fit(X, Y)
    assert isinstance(caught.value, sv.ConfigError)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_all_missing_parameters_are_named_at_once(estimator):
    with pytest.raises(sv.ConfigError) as caught:
        estimator().fit(X, Y)
    expected = "epsilon, delta, clip, bounds, observer, unit, adjacency, rounds"
    assert f"{estimator.__name__} was not given {expected}." in str(caught.value)


def test_no_seed_would_mean_real_training_which_does_not_exist(privacy):
    with pytest.raises(sv.ConfigError, match=r"random_state = None would mean secret randomness.*does not exist yet"):
        DecentralizedRidge(**{**privacy, "random_state": None}, agents=2).fit(X, Y)


WRONG = [
    ({"epsilon": 0.0}, "epsilon = 0.0"),
    ({"epsilon": float("nan")}, "epsilon = nan"),
    ({"delta": 0.0}, "delta = 0.0"),
    ({"delta": 1.0}, "delta = 1.0"),
    ({"clip": -1.0}, "clip bound must be a positive"),
    ({"observer": "eavesdroper"}, "did you mean 'eavesdropper'"),
    ({"observer": 3}, "observer = 3; give a text"),
    ({"observer": []}, r"observer = \[\]"),
    ({"unit": "patient"}, "unit = 'patient'; choose one of 'record', 'agent', 'person'"),
    ({"unit": "person"}, "unit = 'person' needs person and records_per_person"),
    ({"unit": "person", "person": 0}, "unit = 'person' needs records_per_person"),
    ({"person": 0}, "unit = 'record' protects one row, not one person"),
    ({"owner": 0, "person": 0, "unit": "agent"}, "owner and person are both 0"),
    ({"adjacency": "swap"}, "adjacency = 'swap'"),
    ({"rounds": 2.5}, "rounds = 2.5"),
    ({"random_state": -1}, "random_state = -1"),
    ({"random_state": True}, "random_state = True"),
    ({"bounds": (5, 5)}, "low < high"),
    ({"bounds": [(0, 1)]}, "one for each of 2 features"),
    ({"bounds": "wide"}, "bounds are no numbers"),
    ({"bounds": {"age": (0, 1)}}, "array without names"),
    ({"topology": "circle"}, "topology = 'circle'; choose one of 'federation'"),
    ({"topology": sv.topologies.ring(5)}, "has 5 agents, but the records have 2 owners"),
    ({"algorithm": "sgd"}, "algorithm = 'sgd'"),
    ({"noise": "none"}, "noise = 'none'"),
    ({"step_size": 0.0}, "step_size = 0.0"),
    ({"ridge": -1.0}, "ridge = -1.0"),
    ({"ridge": "much"}, "ridge = 'much'"),
    ({"agents": 0}, "agents = 0"),
    ({"agents": 13}, "n_samples = 12, and agents = 13"),
    ({"agents": None}, r"nothing says who owns the records; needed is one of: owner="),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_what_says_nothing_is_refused(wrong, words, privacy):
    with pytest.raises(sv.ConfigError, match=words):
        DecentralizedLogisticRegression(**{**privacy, "agents": 2, **wrong}).fit(X, Y)


def test_a_server_is_no_observer_where_there_is_none(privacy):
    with pytest.raises(sv.IncompatibleChoice, match="a server was named as observer"):
        DecentralizedRidge(**{**privacy, "observer": "server"}, agents=3, topology="ring").fit(X, Y)


def test_bounds_by_name_must_be_those_of_the_features(frame, privacy):
    estimator = DecentralizedLogisticRegression(
        **{**privacy, "bounds": {"age": (0, 10), "hospital": (0, 1), "weight": (0, 1)}}, owner="hospital"
    )
    with pytest.raises(sv.ConfigError, match=r"bounds: no range for dose; no column hospital, weight\."):
        estimator.fit(frame[["age", "hospital", "dose"]], frame["ill"])


@pytest.mark.parametrize(
    ("parameters", "groups", "words"),
    [
        ({"owner": "hospita"}, None, "names no column of the table; did you mean 'hospital'"),
        ({"owner": "hospital"}, np.zeros(60), "owner= and groups= say who owns the records"),
        ({"owner": "hospital", "agents": 3}, None, "owner= and agents="),
        ({}, np.zeros(59), r"groups= has shape \(59,\); needed is one for each of the 60 records"),
        ({}, np.array([None, "a"] * 30), "groups=: 30 record.s. have none, the first is record 0"),
        ({}, np.array([1, "a"] * 30, dtype=object), "several types cannot be sorted"),
    ],
)
def test_owners_must_be_said_once_and_for_every_record(frame, privacy, parameters, groups, words):
    table = frame.drop(columns="ill") if "owner" in parameters else frame[["age", "dose"]]
    with pytest.raises(sv.ConfigError, match=words):
        DecentralizedLogisticRegression(**privacy, **parameters).fit(table, frame["ill"], groups=groups)


def test_an_owner_of_an_array_is_a_position_in_it(privacy):
    with pytest.raises(sv.ConfigError, match="owner = 2, but X is an array with 2 columns"):
        DecentralizedRidge(**privacy, owner=2).fit(X, Y)
    with pytest.raises(sv.ConfigError, match="owner = 'hospital', but X is an array"):
        DecentralizedRidge(**privacy, owner="hospital").fit(X, Y)


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (["a", "b"], "12 label.s. are none of the declared classes, the first is that of record 0"),
        ([0, 1, 1], "names a class twice"),
        ([0], "one class only"),
    ],
)
@pytest.mark.parametrize("estimator", [DecentralizedLogisticRegression, DecentralizedClassifier])
def test_declared_classes_must_cover_the_labels(estimator, classes, words, privacy):
    with pytest.raises(sv.ConfigError, match=words):
        estimator(**privacy, agents=2, classes=classes).fit(X, Y)


@pytest.mark.parametrize("bounds", [(1, 1), 3, (0, 1, 2), ("a", "b"), (0, float("inf"))])
def test_a_range_of_the_target_is_two_numbers(bounds, privacy):
    with pytest.raises(sv.ConfigError, match="target_bounds ="):
        DecentralizedRidge(**privacy, agents=2, target_bounds=bounds).fit(X, Y)


def test_without_scikit_learn_the_import_says_what_to_install():
    code = "import sys; sys.modules['sklearn'] = None\nimport sottovoce.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ConfigError: sottovoce.sklearn needs scikit-learn 1.6 or later" in done.stderr
    assert "pip install 'sottovoce[sklearn]'" in done.stderr


def test_the_library_itself_does_not_import_scikit_learn():
    code = "import sottovoce, sys; sys.exit('sklearn' in sys.modules or 'sottovoce.sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
