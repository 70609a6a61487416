"""What `guarantees_` says is what the accountant says of the very parts that ran."""

import itertools

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.sklearn import DecentralizedClassifier, DecentralizedLogisticRegression, DecentralizedRidge

ROUNDS, STEP, RIDGE = 15, 0.3, 0.01
PROMISES = {  # of rows within [-1, 1] and a constant: ||x||^2 <= 3
    DecentralizedLogisticRegression: sv.problems.ConvexSmooth(3 / 4 + RIDGE, RIDGE),
    DecentralizedRidge: sv.problems.ConvexSmooth(2 * 3 + 2 * RIDGE, 2 * RIDGE),
    DecentralizedClassifier: None,
}
CASES = [
    (DecentralizedLogisticRegression, "eavesdropper", "record", "replace", "federation"),
    (DecentralizedLogisticRegression, "server", "agent", "replace", "federation"),
    (DecentralizedLogisticRegression, "final_model", "record", "add-remove", "ring"),
    (DecentralizedRidge, "curious_agent:0+final_model", "record", "replace", "federation"),
    (DecentralizedRidge, "final_model", "agent", "add-remove", "federation"),
    (DecentralizedClassifier, "eavesdropper", "record", "replace", "federation"),
]


@pytest.fixture(scope="module")
def records():
    """Three owners of 10, 15 and 25 records."""
    features = np.random.default_rng(1).uniform(0, 10, (50, 2))
    return features, np.where(features[:, 0] > 5, 1, -1), np.repeat([0, 1, 2], [10, 15, 25])


def problem_of(kind, features, labels, owners):
    """The clipped problem of a fit, put together by hand."""
    rows = features / 5.0 - 1.0
    if kind is DecentralizedClassifier:
        held, targets = [rows[owners == k] for k in range(3)], [(labels[owners == k] + 1) // 2 for k in range(3)]
        made = sv.problems.classification(held, targets, model="mlp", classes=2, seed=3, ridge=RIDGE)
        return made.with_clipping(1.0, "l2")
    rows = np.concatenate([rows, np.ones((50, 1))], axis=1)
    make = sv.problems.linear_regression if kind is DecentralizedRidge else sv.problems.logistic_regression
    held, targets = [rows[owners == k] for k in range(3)], [1.0 * labels[owners == k] for k in range(3)]
    return make(held, targets, ridge=RIDGE).with_clipping(1.0, "l2")


def parameters_of(model, kind):
    """A fitted model as the vector that the agents learned."""
    if kind is DecentralizedClassifier:
        layers = zip(model.coefs_, model.intercepts_, strict=True)
        return np.concatenate([part.ravel() for layer in layers for part in layer])
    return np.append(5.0 * model.coef_, model.intercept_ + 5.0 * model.coef_.sum())


@pytest.mark.parametrize(("kind", "observer", "unit", "adjacency", "topology"), CASES)
def test_epsilon_is_that_of_the_account_of_the_parts_that_ran(kind, observer, unit, adjacency, topology, records):
    model = kind(
        epsilon=1.5, delta=1e-4, clip=1.0, bounds=(0, 10), observer=observer, unit=unit, adjacency=adjacency, rounds=ROUNDS,
        random_state=3, step_size=STEP, ridge=RIDGE, topology=topology,
    ).fit(*records[:2], groups=records[2])  # fmt: skip
    problem, network = problem_of(kind, *records), getattr(sv.topologies, topology)(3)
    algorithm, noise = sv.algorithms.atc(step_size=STEP), sv.noise.independent(sv.noise.Gaussian(std=model.noise_std_))
    sensitivity = [problem.sensitivity(unit=unit, adjacency=adjacency, norm="l2", agent=k) for k in range(3)]
    question = sv.Question(
        rounds=ROUNDS, sensitivity=sensitivity, unit=unit, adjacency=adjacency, losses=PROMISES[kind]
    )
    found = sv.account(network, algorithm, noise, sv.observers.observer_named(observer), question=question)
    (said,) = model.guarantees_
    assert said.epsilon == pytest.approx(found.epsilon(1e-4), rel=1e-12)
    assert 1.5 * (1 - 1e-6) < said.epsilon <= 1.5
    assert (said.observer, said.unit, said.adjacency, said.delta) == (found.observer, unit, adjacency, 1e-4)
    run = sv.simulate(
        problem, network, algorithm, noise, rounds=ROUNDS, seed=3, record=["disagreement"], progress=False
    )
    assert parameters_of(model, kind) == pytest.approx(run.models[0].mean(axis=0), abs=1e-5)


@pytest.mark.parametrize("kind", [DecentralizedLogisticRegression, DecentralizedRidge])
def test_the_promise_about_losses_holds_for_every_record_within_the_bounds(kind):
    corners = np.array(list(itertools.product([0.0, 10.0], repeat=2)))
    owners = np.repeat([0, 1], 4)
    labels = np.tile([1, -1, -1, 1], 2)
    rows = np.concatenate([corners / 5.0 - 1.0, np.ones((4, 1))], axis=1)
    make = sv.problems.linear_regression if kind is DecentralizedRidge else sv.problems.logistic_regression
    known = make([rows, rows], [1.0 * labels[owners == k] for k in range(2)], ridge=RIDGE).losses
    assert known.beta == pytest.approx(PROMISES[kind].beta, rel=1e-12)
    assert known.nu == PROMISES[kind].nu
    # A step that is just short enough for this promise uses it; a longer one does not.
    asked = {"epsilon": 1.0, "delta": 1e-4, "clip": 1.0, "bounds": (0, 10), "observer": "final_model", "unit": "record"}
    asked |= {"adjacency": "replace", "rounds": 12, "random_state": 0, "ridge": RIDGE, "topology": "ring"}
    found = []
    for share in (0.999, 1.001):
        model = kind(**asked, step_size=share * 2 / known.beta)
        model.fit(np.tile(corners, (6, 1)), np.tile(labels, 3), groups=np.repeat([0, 1, 2, 3, 4, 5], 4))
        found.append(model.guarantees_[0].guarantees[0].validity)
    assert found[0] != "sent-messages"
    assert found[1] == "sent-messages"


def test_several_observers_are_answered_for_and_the_first_is_calibrated_for(records):
    model = DecentralizedLogisticRegression(
        epsilon=1.5, delta=1e-4, clip=1.0, bounds=(0, 10), observer=["final_model", "eavesdropper"], unit="record",
        adjacency="replace", rounds=ROUNDS, random_state=3,
    ).fit(*records[:2], groups=records[2])  # fmt: skip
    first, second = model.guarantees_
    assert (first.observer, second.observer) == ("final model", "eavesdropper")
    assert first.epsilon == pytest.approx(1.5)
    assert second.epsilon > 1.5
    assert not any("giving the fitted model to" in note for note in first.notes)
    assert any("giving the fitted model to eavesdropper" in note for note in second.notes)


def test_the_words_say_that_the_model_must_not_be_released(fitted):
    (said,) = fitted.guarantees_
    assert said.releasable is False
    assert "simulated" in said.reason
    assert "random_state = 3" in said.reason
    for words in (
        "epsilon = 2 at delta = 1e-05 for eavesdropper, of this fit; protected: one record (replaced).",
        "The model must not be released: it was simulated, and anyone can draw its noise again from random_state = 3.",
        "the classes are public: they were taken from the labels",
        "every agent's number of records is public",
        "several rows about one person are not protected together",
        "choosing among fits by scores on private records, as GridSearchCV does: a model chosen so has no guarantee",
    ):
        assert words in said.statement
    assert str(said) == said.statement
    expected = "FitGuarantee(epsilon=2, delta=1e-05, observer='eavesdropper', unit='record', adjacency='replace', of 1 fit, releasable=False)"
    assert repr(said) == expected


def test_declared_classes_are_not_called_taken_from_the_labels(frame, privacy):
    model = DecentralizedLogisticRegression(**privacy, owner="hospital", classes=["no", "yes"])
    (said,) = model.fit(frame.drop(columns="ill"), frame["ill"]).guarantees_
    assert not any("taken from the labels" in one for one in said.assumptions)


def test_central_noise_trusts_the_relay_and_says_so(records):
    asked = {"epsilon": 1.5, "delta": 1e-4, "clip": 1.0, "bounds": (0, 10), "unit": "record", "adjacency": "replace"}
    asked |= {"rounds": ROUNDS, "random_state": 3, "noise": "central"}
    model = DecentralizedLogisticRegression(**asked, observer=["final_model", "server"])
    final_model, server = model.fit(*records[:2], groups=records[2]).guarantees_
    assert any("the relay, which is trusted and reads every message" in one for one in final_model.assumptions)
    assert server.statement.startswith("No guarantee for server: epsilon is infinite.")
    with pytest.raises(sv.UnsupportedClaim, match="no amount of this noise"):
        DecentralizedLogisticRegression(**asked, observer="server").fit(*records[:2], groups=records[2])


def test_all_records_of_a_person_are_protected_together(frame, privacy):
    table = frame.drop(columns="ill").assign(patient=np.arange(60) // 6 * 3 + np.arange(60) % 3)  # two visits each
    asked = {**privacy, "unit": "person", "owner": "hospital", "person": "patient"}
    model = DecentralizedLogisticRegression(**asked, records_per_person=2).fit(table, frame["ill"])
    by_record = DecentralizedLogisticRegression(**privacy, owner="hospital").fit(
        frame.drop(columns="ill"), frame["ill"]
    )
    assert list(model.feature_names_in_) == ["age", "dose"]
    assert model.guarantees_[0].unit == "person"
    assert model.guarantees_[0].epsilon == pytest.approx(by_record.guarantees_[0].epsilon)
    assert model.noise_std_ == pytest.approx(2 * by_record.noise_std_)
    assert "protected: all records of one person (replaced)" in model.guarantees_[0].statement
    assert not any("one row" in one for one in model.guarantees_[0].assumptions)
    assert (model.predict(table) == model.predict(table[["age", "dose"]])).all()
    assert (model.predict(table) == model.predict(table.drop(columns="hospital"))).all()
    with pytest.raises(sv.ConfigError, match="more than records_per_person = 1"):
        DecentralizedLogisticRegression(**asked, records_per_person=1).fit(table, frame["ill"])
    twice = [
        f"{who}.0" if visit % 6 < 3 else f"{who}" for visit, who in enumerate(table["patient"])
    ]  # in two spellings
    with pytest.raises(sv.ConfigError, match="more than records_per_person = 1"):
        DecentralizedLogisticRegression(**asked, records_per_person=1).fit(table.assign(patient=twice), frame["ill"])
    with pytest.raises(sv.ConfigError, match="records at several agents"):
        DecentralizedLogisticRegression(**asked, records_per_person=6).fit(
            table.assign(patient=np.arange(60) // 6), frame["ill"]
        )


def test_one_agent_alone_has_central_privacy(records):
    asked = {"epsilon": 1.5, "delta": 1e-4, "clip": 1.0, "bounds": (0, 10), "unit": "record", "adjacency": "replace"}
    asked |= {"rounds": ROUNDS, "random_state": 3, "agents": 1, "observer": "final_model"}
    model = DecentralizedLogisticRegression(**asked, noise="central").fit(*records[:2])
    assert model.guarantees_[0].epsilon == pytest.approx(1.5)
    with pytest.raises(sv.IncompatibleChoice, match="a federation of one agent sends no messages"):
        DecentralizedLogisticRegression(**asked).fit(*records[:2])


def test_an_owner_written_in_two_ways_is_refused(frame, privacy):
    owners = ["bern" if row % 2 else "Bern " for row in range(60)]
    with pytest.raises(sv.ConfigError, match=r"groups=: 1 name\(s\) are another owner's, written in another way"):
        DecentralizedLogisticRegression(**privacy).fit(frame[["age", "dose"]], frame["ill"], groups=owners)
