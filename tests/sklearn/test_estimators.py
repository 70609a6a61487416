"""Estimators learn, predict, and take tables as people have them; a column of owners is never a feature."""

import pickle

import numpy as np
import pandas
import polars
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import sottovoce as sv
from sottovoce.sklearn import DecentralizedClassifier, DecentralizedLogisticRegression, DecentralizedRidge


@pytest.fixture
def table(frame):
    return frame.drop(columns="ill")


def test_the_owner_is_an_agent_and_no_feature(fitted, frame):
    assert fitted.n_features_in_ == 2
    assert list(fitted.feature_names_in_) == ["age", "dose"]
    assert list(fitted.agents_) == ["basel", "bern", "genf"]
    assert fitted.coef_.shape == (1, 2)
    assert list(fitted.classes_) == ["no", "yes"]
    assert fitted.score(frame.drop(columns="ill"), frame["ill"]) > 0.8


def test_predictions_take_tables_with_and_without_the_owner(fitted, table):
    expected = fitted.predict_proba(table)
    assert (fitted.predict_proba(table.drop(columns="hospital")) == expected).all()
    assert (fitted.predict_proba(polars.from_pandas(table)) == expected).all()
    assert (fitted.predict_proba(polars.from_pandas(table).drop("hospital")) == expected).all()
    other = table.assign(hospital="elsewhere")  # somebody who took no part
    assert (fitted.predict_proba(other) == expected).all()


def test_owners_with_numbers_for_names_are_no_feature_either(frame, table, privacy):
    models = []
    for names in ({"basel": 1, "bern": 2, "genf": 3}, {"basel": 10, "bern": 200, "genf": 3000}):
        model = DecentralizedLogisticRegression(**privacy, owner="hospital")
        models.append(model.fit(table.assign(hospital=table["hospital"].map(names)), frame["ill"]))
        assert list(model.agents_) == list(names.values())
    assert models[0].coef_.tolist() == models[1].coef_.tolist()
    assert models[0].coef_.shape == (1, 2)


def test_frames_arrays_and_groups_give_the_same_model(fitted, frame, table, privacy):
    owners = frame["hospital"]
    bare = table[["age", "dose"]]
    by_polars = DecentralizedLogisticRegression(**privacy, owner="hospital").fit(
        polars.from_pandas(table), frame["ill"]
    )
    by_groups = DecentralizedLogisticRegression(**privacy).fit(bare, frame["ill"], groups=owners)
    by_position = DecentralizedLogisticRegression(**privacy, owner=1).fit(table.to_numpy(), frame["ill"].to_numpy())
    for model in (by_polars, by_groups, by_position):
        assert (model.coef_ == fitted.coef_).all()
    assert (by_position.predict(table.to_numpy()) == fitted.predict(table)).all()
    assert (by_position.predict(bare.to_numpy()) == fitted.predict(table)).all()
    with pytest.raises(ValueError, match="expecting 2 features"):
        by_position.predict(np.ones((3, 4)))


def test_coefficients_are_those_of_the_columns_as_given(fitted, table):
    inside = table[["age", "dose"]].to_numpy()
    assert inside @ fitted.coef_[0] + fitted.intercept_[0] == pytest.approx(fitted.decision_function(table))
    beyond = table.assign(age=1e6)  # clipped to the end of its range
    assert (fitted.predict_proba(beyond) == fitted.predict_proba(table.assign(age=10.0))).all()


def test_bounds_by_name_by_position_and_for_all_are_the_same(fitted, frame, table, privacy):
    for bounds in ({"dose": (0, 10), "age": [0, 10]}, [(0, 10), (0, 10)]):
        model = DecentralizedLogisticRegression(**{**privacy, "bounds": bounds}, owner="hospital")
        assert (model.fit(table, frame["ill"]).coef_ == fitted.coef_).all()
    order = DecentralizedLogisticRegression(
        **{**privacy, "bounds": {"age": (0, 10), "dose": (-30, 30)}}, owner="hospital"
    )
    reversed_columns = table[["dose", "hospital", "age"]]
    first, second = clone(order).fit(table, frame["ill"]), clone(order).fit(reversed_columns, frame["ill"])
    assert first._limits.tolist() == second._limits[::-1].tolist() == [[0, 10], [-30, 30]]


def test_records_are_dealt_out_by_the_seed(privacy):
    generator = np.random.default_rng(0)
    features, targets = generator.uniform(0, 10, (60, 2)), generator.uniform(0, 1, 60)
    first, again = (DecentralizedRidge(**privacy, agents=3).fit(features, targets) for _ in range(2))
    assert (first.coef_ == again.coef_).all()
    other = DecentralizedRidge(**{**privacy, "random_state": 4}, agents=3).fit(features, targets)
    assert (other.coef_ != first.coef_).all()
    assert any("invented" in said for said in first.guarantees_[0].assumptions)


def test_a_ridge_regression_predicts_in_the_units_of_its_target(privacy):
    generator = np.random.default_rng(0)
    features = generator.uniform(0, 10, (900, 2))
    targets = 100.0 + 20.0 * features[:, 0] - 5.0 * features[:, 1]
    model = DecentralizedRidge(
        **{**privacy, "epsilon": 50.0, "rounds": 200}, agents=3, target_bounds=(0, 300), ridge=0.0
    )
    model.fit(features, targets)
    assert model.score(features, targets) > 0.98
    assert model.coef_ == pytest.approx([20.0, -5.0], abs=2.0)
    assert features @ model.coef_ + model.intercept_ == pytest.approx(model.predict(features))


@pytest.mark.parametrize("estimator", [DecentralizedLogisticRegression, DecentralizedClassifier])
def test_several_classes_are_told_apart(estimator, privacy):
    generator = np.random.default_rng(0)
    features = generator.uniform(0, 10, (300, 2))
    labels = np.array(["low", "middle", "high"])[np.digitize(features[:, 0], [3.3, 6.6])]
    model = estimator(**{**privacy, "epsilon": 20.0, "rounds": 100}, agents=3, classes=["low", "middle", "high"])
    model.fit(features, labels)
    assert list(model.classes_) == ["high", "low", "middle"]
    assert model.predict_proba(features).sum(axis=1) == pytest.approx(np.ones(300))
    assert model.score(features, labels) > 0.7
    if estimator is DecentralizedLogisticRegression:
        assert features @ model.coef_.T + model.intercept_ == pytest.approx(model.decision_function(features))


def test_a_class_that_was_declared_but_does_not_occur_keeps_its_place(privacy):
    features = np.linspace(0, 10, 24).reshape(12, 2)
    model = DecentralizedClassifier(**privacy, agents=2, classes=[0, 1, 2], hidden=(4, 3))
    model.fit(features, np.arange(12) % 2)
    assert model.predict_proba(features).shape == (12, 3)
    assert [layer.shape for layer in model.coefs_] == [(2, 4), (4, 3), (3, 3)]


def test_a_fitted_model_can_be_kept(fitted, table):
    kept = pickle.loads(pickle.dumps(fitted))
    assert (kept.predict_proba(table) == fitted.predict_proba(table)).all()
    assert kept.guarantees_ == fitted.guarantees_
    assert not hasattr(clone(fitted), "guarantees_")


def test_it_stands_in_a_pipeline_with_declared_categories(frame, privacy):
    table = frame[["age", "dose"]].assign(sex=np.array(["f", "m"])[np.arange(60) % 2])
    coded = ColumnTransformer(
        [("sex", OneHotEncoder(categories=[["f", "m"]], sparse_output=False), ["sex"])], remainder="passthrough"
    )
    bounds = [(0, 1), (0, 1), (0, 10), (0, 10)]
    model = make_pipeline(coded, DecentralizedLogisticRegression(**{**privacy, "epsilon": 20.0, "bounds": bounds}))
    model.fit(table, frame["ill"], decentralizedlogisticregression__groups=frame["hospital"])
    assert model.score(table, frame["ill"]) > 0.7
    assert model[-1].coef_.shape == (1, 4)
    assert list(model[-1].agents_) == ["basel", "bern", "genf"]
    assert (
        "as a StandardScaler or an imputer in a pipeline does" in model[-1].guarantees_[0].statement
    )  # it cannot know what stood before


def test_a_grid_search_on_private_records_leaves_a_model_that_says_what_is_not_covered(frame, table, privacy):
    model = DecentralizedLogisticRegression(**privacy, owner="hospital")
    found = GridSearchCV(model, {"clip": [0.5, 1.0]}, cv=2).fit(table, frame["ill"])
    assert found.best_score_ > 0.7
    (said,) = found.best_estimator_.guarantees_
    assert "choosing among fits by scores on private records" in said.notes[1]


def test_a_topology_of_the_users_own_is_taken(frame, table, privacy):
    model = clone(DecentralizedLogisticRegression(**privacy, owner="hospital", topology=sv.topologies.path(3)))
    assert model.fit(table, frame["ill"]).score(table, frame["ill"]) > 0.7


def test_pandas_columns_without_text_names_are_taken(frame, privacy):
    unnamed = pandas.DataFrame(frame[["age", "dose"]].to_numpy())
    model = DecentralizedLogisticRegression(**privacy).fit(unnamed, frame["ill"], groups=frame["hospital"])
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
