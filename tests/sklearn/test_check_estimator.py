"""scikit-learn's own list of what an estimator must do: all of it in the slow suite, the checks that need little time here."""

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

from sottovoce.sklearn import DecentralizedClassifier, DecentralizedLogisticRegression, DecentralizedRidge

SET = {
    "epsilon": 20.0,
    "delta": 1e-5,
    "clip": 1.0,
    "bounds": (-3, 3),  # the records of the checks are standardised
    "observer": "final_model",
    "unit": "record",
    "adjacency": "replace",
    "rounds": 50,
    "agents": 2,
    "random_state": 0,
}
ESTIMATORS = [
    DecentralizedLogisticRegression(**SET),
    DecentralizedRidge(**{**SET, "clip": 5.0, "rounds": 100}),
    DecentralizedClassifier(**SET),
]
# Name of a check -> why it cannot pass. None is known.
EXPECTED_FAILURES: dict[str, str] = {}
QUICK = [
    "check_dtype_object",
    "check_estimator_cloneable",
    "check_estimators_empty_data_messages",
    "check_estimators_unfitted",
    "check_fit2d_1sample",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_n_features_in_after_fitting",
    "check_no_attributes_set_in_init",
    "check_requires_y_none",
    "check_set_params",
]


@pytest.mark.parametrize("name", QUICK)
def test_quick_checks_of_scikit_learn_pass(name):
    estimator = DecentralizedLogisticRegression(**SET)
    getattr(estimator_checks, name)(type(estimator).__name__, estimator)


def test_parameters_have_defaults_and_one_class_is_refused_in_words_that_scikit_learn_knows():
    for estimator in (DecentralizedLogisticRegression, DecentralizedRidge, DecentralizedClassifier):
        estimator_checks.check_parameters_default_constructible(estimator.__name__, estimator())
    estimator_checks.check_classifiers_one_label("one label", DecentralizedLogisticRegression(**SET))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_all_checks_of_scikit_learn_pass(estimator):
    found = check_estimator(estimator, expected_failed_checks=EXPECTED_FAILURES, on_skip=None)
    assert {one["status"] for one in found} <= {"passed", "skipped"}
    assert sum(one["status"] == "passed" for one in found) >= 48
    # One that needs an environment variable set before anything is imported.
    assert {one["check_name"] for one in found if one["status"] == "skipped"} == {"check_array_api_input"}
