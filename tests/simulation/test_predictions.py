"""A run answers for new records: by the same preparation, in the words of the table, with the common model or one agent's."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.simulation import Run

SCHEMA = sv.problems.Schema(
    target="ill",
    labels=("no", "yes"),
    bounds={"age": (0, 100)},
    categories={"sex": ("f", "m")},
    drop=("id",),
    intercept=True,
)
TABLE = {"age": [50, 100, 0, 250], "sex": ["f", "m", "f", "m"], "id": [1, 2, 3, 4]}
INPUTS = np.array([[0.0, 1, 0, 1], [1.0, 0, 1, 1], [-1.0, 1, 0, 1], [1.0, 0, 1, 1]])  # age, sex = f, sex = m, intercept
MODELS = np.array([[[1.0, 0.5, -0.25, 0.0], [-1.0, 0.0, 0.0, 0.5]], [[9.0, 9, 9, 9], [9.0, 9, 9, 9]]])


def made(kind="logistic_regression", models=MODELS, schema=SCHEMA, **described) -> Run:
    described = {"problem": {"kind": kind}, "rounds": 1, "agents": ["basel", "bern"], **described}
    if schema is not None:
        described["schema"] = schema.as_dict()
    return Run(metrics={}, models=models, description=described, common=models.mean(axis=1))


def test_answers_are_labels_of_the_table_and_probabilities_are_logistic():
    run = made()
    margins = INPUTS @ MODELS[0].mean(axis=0)
    np.testing.assert_array_equal(run.predict(TABLE), np.where(margins > 0, "yes", "no"))
    expected = 1 / (1 + np.exp(-margins))
    np.testing.assert_allclose(run.predict_proba(TABLE), np.column_stack([1 - expected, expected]))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_gives_the_same_answers_as_its_columns(library):
    frames = pytest.importorskip(library)
    np.testing.assert_array_equal(made().predict(frames.DataFrame(TABLE)), made().predict(TABLE))


@pytest.mark.parametrize("agent", [1, "bern", np.int64(1)])
def test_one_agents_model_is_asked_by_number_or_name(agent):
    margins = INPUTS @ MODELS[0, 1]
    np.testing.assert_array_equal(made().predict(TABLE, agent=agent), np.where(margins > 0, "yes", "no"))
    with pytest.raises(ConfigError, match=r"agent = 'genf'; give one of basel, bern, or a whole number from 0 to 1"):
        made().predict(TABLE, agent="genf")
    with pytest.raises(ConfigError, match="agent = 2"):
        made().predict(TABLE, agent=2)


@pytest.mark.parametrize(
    "other",
    [
        {**TABLE, "weight": [1, 2, 3, 4]},
        {"age": TABLE["age"]},
        {**TABLE, "sex": ["f", "m", "x", "m"]},
        {**TABLE, "age": ["50", "old", "1", "2"]},
        INPUTS,
        INPUTS.tolist(),
    ],
    ids=["one more", "one less", "unknown value", "no number", "array", "list"],
)
def test_other_columns_are_refused(other):
    with pytest.raises(ConfigError):
        made().predict(other)


def test_numbers_come_back_in_the_units_of_the_target():
    schema = sv.problems.Schema(target="days", bounds={"age": (0, 100), "days": (0, 30)}, intercept=True)
    run = made("linear_regression", np.array([[[0.5, 0.1]]]), schema)
    np.testing.assert_allclose(run.predict({"age": [50, 100]}), [15 * 1.1, 15 * 1.6])
    with pytest.raises(UnsupportedClaim, match="no probabilities"):
        run.predict_proba({"age": [50]})


def test_a_run_from_arrays_predicts_from_arrays_with_the_preparation_of_its_file():
    plain = made(schema=None)
    np.testing.assert_array_equal(plain.predict(INPUTS), np.where(INPUTS @ MODELS[0].mean(axis=0) > 0, 1, -1))
    prepared = made(
        schema=None, preparation={"bounds": [[0, 10], [0, 10], [0, 2]], "unit_norm": False, "intercept": True}
    )
    raw = np.array([[5.0, 10.0, 0.0]])
    expected = np.array([0.0, 1.0, -1.0, 1.0]) @ MODELS[0].mean(axis=0)
    np.testing.assert_allclose(prepared.predict_proba(raw)[:, 1], 1 / (1 + np.exp(-expected)))
    assert prepared.model().features == ("feature 0", "feature 1", "feature 2", "(intercept)")
    for wrong in (INPUTS[:, :2], INPUTS[0], np.full((1, 4), np.nan), [["a"] * 4], TABLE):
        with pytest.raises(ConfigError):
            plain.predict(wrong)


def test_coefficients_have_the_names_of_the_features(monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = made().coefficients(agent="basel")
    assert isinstance(frame, pandas.DataFrame)
    assert dict(frame["coefficient"]) == {"age": 1.0, "sex = f": 0.5, "sex = m": -0.25, "(intercept)": 0.0}
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert made().coefficients(agent=0) == dict(frame["coefficient"])


@pytest.mark.parametrize(
    ("model", "hidden", "shape"), [("linear", (), (4,)), ("mlp", (3,), (4,)), ("cnn", (2,), (2, 2))]
)
def test_networks_answer_as_the_problem_that_made_them_does(model, hidden, shape):
    generator = np.random.default_rng(1)
    features, labels = generator.normal(size=(2, 6, *shape)), np.tile([0, 1, 2], (2, 2))
    problem = sv.problems.classification(features, labels, model=model, **({"hidden": hidden} if hidden else {}))
    vector = generator.normal(size=problem.dimension)
    run = made("classification", np.tile(vector, (1, 2, 1)), None, problem=problem.describe())
    rows, truth = features.reshape(-1, *shape), labels.ravel()
    assert (run.predict(rows) == truth).mean() == pytest.approx(float(problem.accuracy(vector, rows, truth)))
    assert run.predict_proba(rows).shape == (12, 3)
    layers = run.coefficients()
    for layer, expected in zip(layers, problem.parameters(vector), strict=True):
        np.testing.assert_array_equal(layer.weights, expected.weights)
        np.testing.assert_array_equal(layer.bias, expected.bias)
    np.testing.assert_array_equal(problem.flatten(layers), vector)


def test_a_loss_of_ones_own_gives_its_parameters_back_and_predicts_nothing(tmp_path):
    import jax.numpy as jnp

    def loss(parameters, batch):
        return jnp.mean((batch[0] @ parameters["w"] + parameters["b"] - batch[1]) ** 2)

    generator = np.random.default_rng(2)
    problem = sv.problems.custom_loss(
        loss, {"w": np.zeros(2), "b": np.zeros(())}, generator.normal(size=(2, 4, 2)), generator.normal(size=(2, 4))
    )
    run = sv.simulate(
        problem, sv.topologies.ring(2), sv.algorithms.atc(step_size=0.1), sv.noise.none(), rounds=2, progress=False
    )
    found, expected = run.coefficients(), problem.parameters(run.common[0])
    np.testing.assert_array_equal(found["w"], expected["w"])
    assert found["b"] == expected["b"]
    with pytest.raises(UnsupportedClaim, match="your own function"):
        run.predict(np.zeros((1, 2)))
    sv.save(run, tmp_path / "run")
    with pytest.raises(UnsupportedClaim, match=r"problem\.parameters"):
        sv.load(tmp_path / "run").coefficients()


def test_a_mean_predicts_nothing_and_runs_of_version_0_1_0_say_what_they_lack():
    with pytest.raises(UnsupportedClaim, match=r"coefficients\(\)"):
        made("mean_estimation", schema=None).predict(INPUTS)
    old = Run(metrics={}, models=MODELS, description={"problem": {"kind": "logistic_regression"}, "rounds": 1})
    with pytest.raises(ConfigError, match=r"version 0\.1\.0"):
        old.predict(INPUTS)
    assert old.predict(INPUTS, agent=0).shape == (4,)
    network = {"kind": "classification", "model": "mlp", "hidden": [3], "classes": 2}
    with pytest.raises(ConfigError, match=r"version 0\.1\.0"):
        made("classification", schema=None, problem=network).predict(INPUTS)


def test_the_page_on_results_runs_and_a_run_from_python_learns_its_columns(tmp_path, monkeypatch):
    text = (Path(__file__).parents[2] / "docs" / "results.md").read_text()
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), "results.md", "exec"), names)
    assert names["answers"].tolist() == names["again"].tolist() == ["no", "yes"]
    assert names["shares"].shape == (2, 2)
    assert list(names["names"].index) == ["age", "smoker", "(intercept)"]
    run, schema = names["run"], names["schema"]
    with pytest.raises(ConfigError, match="5 inputs of a record, and the models of this run take 3"):
        run.with_schema(sv.problems.Schema(unscaled=tuple("abcde")))
    with pytest.raises(ConfigError, match="1 names were given, and the run has 3 agents"):
        run.with_schema(schema, ["basel"])
