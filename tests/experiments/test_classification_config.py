"""Networks that classify, from a configuration file: made as in Python, run, accounted for, resumed, or refused in one paragraph."""

import json
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from typer.testing import CliRunner

from sottovoce.cli import app
from sottovoce.errors import ConfigError, UnsupportedClaim
from sottovoce.experiments import build, parse, run_experiment
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.record import Record
from sottovoce.problems import classification, load, partition, split

ROUNDS, STEP, CLIP, STD, DELTA, AGENTS = 12, 2.0, 1.0, 0.04, 1e-5, 4
SIZES = [450, 449, 449, 449]  # 1797 digits, dealt out evenly
SMALLEST = 449 - int(0.2 * 449)  # of the records that an agent learns from
DIGITS = {
    "kind": "classification",
    "data": "digits_classes",
    "model": "mlp",
    "hidden": 8,
    "ridge": 0.001,
    "test_fraction": 0.2,
}
PRIVACY = {"unit": "record", "clip": CLIP, "clip_norm": "l2", "delta": DELTA, "observers": ["server"]}
BASE = {
    "experiment": {"name": "digits", "rounds": ROUNDS, "repeats": 2, "seed": 3, "chunk": 5},
    "topology": {"kind": "federation", "agents": AGENTS},
    "problem": DIGITS,
    "algorithm": {"kind": "fedavg", "step_size": STEP},
    "noise": {"kind": "independent", "law": "gaussian", "std": STD},
    "privacy": PRIVACY,
}


def config(**sections):
    data = {**BASE, **sections}
    return parse({name: table for name, table in data.items() if table is not None}, source="test")


def made(**changes):
    """The experiment with these keys of [problem] (None removes one), without noise and privacy."""
    problem = {key: value for key, value in {**DIGITS, **changes}.items() if value is not None}
    return build(config(problem=problem, noise={"kind": "none"}, privacy=None))


def toml(value):
    """A value as TOML; JSON is, but for tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(entry)}" for key, entry in value.items()) + "}"
    return json.dumps(value)


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Run a command on the configuration with these sections replaced, in a folder that holds the file alone."""
    monkeypatch.chdir(tmp_path)

    def invoke(name, *arguments, **sections):
        data = {key: table for key, table in {**BASE, **sections}.items() if table is not None}
        (tmp_path / "file.toml").write_text("\n".join(f"{key} = {toml(table)}" for key, table in data.items()))
        return CliRunner().invoke(app, [name, "file.toml", *map(str, arguments)])

    return invoke


def epsilon_of(mu):
    """The epsilon of a mu-Gaussian trade-off at DELTA, from the normal law alone (Dong et al. 2022, Cor. 1)."""
    return brentq(
        lambda e: norm.cdf(-e / mu + mu / 2) - math.exp(e) * norm.cdf(-e / mu - mu / 2) - DELTA, 0, 200, xtol=1e-12
    )


@pytest.mark.parametrize(
    ("changes", "arguments"),
    [
        ({}, {"model": "mlp", "hidden": 8}),
        ({"hidden": [8, 6]}, {"model": "mlp", "hidden": (8, 6)}),
        ({"hidden": None}, {"model": "mlp"}),
        ({"hidden": None, "model": None}, {"model": "mlp"}),
        ({"hidden": None, "model": "linear"}, {"model": "linear"}),
        ({"hidden": [3, 5], "model": "cnn"}, {"model": "cnn", "hidden": (3, 5)}),
    ],
)
def test_file_makes_the_problem_that_python_makes(changes, arguments):
    problem = made(**changes).problem
    pixels, digits = load("digits_classes")
    features, labels = partition(pixels / 8.0 - 1.0, digits, num_agents=AGENTS, seed=3)
    (features, labels), _ = split(features, labels, test_fraction=0.2, seed=3)
    if arguments["model"] == "cnn":
        features = [part.reshape(-1, 8, 8) for part in features]
    expected = classification(features, labels, ridge=0.001, seed=3, classes=10, **arguments)
    assert problem.describe() == expected.describe()
    np.testing.assert_array_equal(problem.initial_model, expected.initial_model)
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(problem.arrays[name], array)


def test_seed_of_the_problem_draws_other_first_parameters_on_the_same_records():
    first, other = made(seed=3).problem, made(seed=4).problem  # 3 is the seed of the experiment, tried above
    assert not np.array_equal(first.initial_model, other.initial_model)
    np.testing.assert_array_equal(first.arrays["features"], other.arrays["features"])


def test_section_survives_json():
    for hidden in (8, [8, 6]):
        chosen = config(problem={**DIGITS, "hidden": hidden, "classes": 12, "seed": 0})
        assert Config.model_validate(json.loads(json.dumps(chosen.as_dict()))) == chosen


def test_unit_norm_and_feature_noise_reach_a_classifier():
    pixels = made(unit_norm=True).problem.arrays["features"]
    np.testing.assert_allclose(np.linalg.norm(pixels, axis=-1), 1.0)
    change = made(feature_noise=[0.2, 0.2]).problem.arrays["features"] - made().problem.arrays["features"]
    assert change.std() == pytest.approx(0.2, rel=0.02)


@pytest.mark.parametrize(("data", "changes"), [("breast_cancer", {}), ("digits", {"classes": 2})])
def test_labels_minus_one_and_one_are_classes_zero_and_one(data, changes):
    experiment = made(data=data, **changes)
    found = np.concatenate(
        [own[:n] for own, n in zip(experiment.problem.arrays["targets"], experiment.problem.sizes, strict=True)]
    )
    labels = np.concatenate([found, experiment.test[1]])
    assert experiment.problem.describe()["classes"] == 2
    assert np.bincount(labels.astype(int)).tolist() == [(load(data)[1] == sign).sum() for sign in (-1, 1)]


def test_class_that_only_a_held_out_record_has_still_counts(tmp_path):
    rows = [f"{i / 12},{i % 2}" for i in range(11)] + ["1.0,2"]
    (tmp_path / "rare.csv").write_text("x,y\n" + "\n".join(rows) + "\n")
    held_out = 0
    for seed in range(4):
        problem = {**DIGITS, "data": str(tmp_path / "rare.csv"), "test_fraction": 0.5}
        experiment = build(
            config(
                experiment={**BASE["experiment"], "seed": seed}, problem=problem, noise={"kind": "none"}, privacy=None
            )
        )
        assert experiment.problem.describe()["classes"] == 3
        held_out += 2 in experiment.test[1]
    assert 0 < held_out < 4


def test_guarantee_says_that_classes_are_public_unless_the_file_names_them():
    sentence = "the number of classes is public"
    assert any(sentence in premise for premise in build(config()).privacy.premises)
    named = build(config(problem={**DIGITS, "classes": 10}))
    assert not any(sentence in premise for premise in named.privacy.premises)
    assert named.problem.describe() == build(config()).problem.describe()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_experiment(config(), tmp_path_factory.mktemp("whole") / "run", progress=False)


def test_run_records_no_distance_to_an_optimum(whole):
    assert set(whole.metrics) == {"accuracy", "disagreement", "loss"}
    assert whole.metrics["loss"][:, -1].mean() < whole.metrics["loss"][:, 0].mean()


def test_recorded_accuracy_is_that_of_the_held_out_records(whole):
    experiment = build(config())
    features, digits = experiment.test
    learnt = experiment.problem.arrays["features"].reshape(-1, 64)
    assert len(digits) == sum(int(0.2 * size) for size in SIZES)
    # A few of the published digits occur twice, hence not exactly none.
    assert np.mean([(learnt == row).all(axis=1).any() for row in features]) < 0.01
    for repeat, models in enumerate(whole.models):
        w = models.mean(axis=0)
        # Layers one after the other, weights [inputs, outputs] before biases.
        weights, bias, out = w[: 64 * 8].reshape(64, 8), w[512:520], w[520:600].reshape(8, 10)
        answers = (np.maximum(features @ weights + bias, 0) @ out + w[600:]).argmax(axis=1)
        assert whole.metrics["accuracy"][repeat, -1] == pytest.approx((answers == digits).mean(), abs=0.004)
        assert (answers == digits).mean() > 0.3  # of ten classes, guessing finds a tenth


def test_interrupted_classifier_continues_bit_for_bit(whole, tmp_path, monkeypatch):
    real, done = Record.add_chunk, []

    def interrupted(self, last_round, *arguments, **options):
        if done:
            raise KeyboardInterrupt
        real(self, last_round, *arguments, **options)
        done.append(last_round)

    with monkeypatch.context() as patch:
        patch.setattr(Record, "add_chunk", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(config(), tmp_path / "run", progress=False)
    assert done == [5]
    resumed = run_experiment(config(), tmp_path / "run", progress=False)
    for name in whole.metrics:
        np.testing.assert_array_equal(resumed.metrics[name], whole.metrics[name])
    np.testing.assert_array_equal(resumed.models, whole.models)


def test_account_is_the_closed_form_of_clipped_gradients(command):
    # Every round sends STEP times a gradient that one record moves by 2 CLIP / n, under noise of STD.
    mu = math.sqrt(ROUNDS) * STEP * 2 * CLIP / (SMALLEST * STD)
    result = command("account", "--json")
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)["guarantees"]
    assert found["mu"] == pytest.approx(mu, rel=1e-9)
    assert next(iter(found["epsilon"].values())) == pytest.approx(epsilon_of(mu), rel=1e-6)


def test_calibrated_noise_is_the_closed_form_for_its_epsilon(command):
    result = command("calibrate", "--epsilon", 4, "--json")
    assert result.exit_code == 0, result.stderr
    std = json.loads(result.stdout)["std"]
    mu = math.sqrt(ROUNDS) * STEP * 2 * CLIP / (SMALLEST * std)
    assert 3.999 < epsilon_of(mu) <= 4


def test_budget_refuses_the_run_or_stops_it_in_time(command, tmp_path):
    per_round = STEP * 2 * CLIP / (SMALLEST * STD)
    fit = max(t for t in range(1, ROUNDS) if epsilon_of(per_round * math.sqrt(t)) <= 2.5)
    budget = {"epsilon": 2.5, "observer": "server"}
    refused = command("run", "--json", privacy={**PRIVACY, "budget": budget})
    assert refused.exit_code == 3
    assert f"{fit} of the {ROUNDS} rounds fit" in refused.stderr
    assert not (tmp_path / "runs").exists()
    stopped = command("run", "--json", "--out", "out", privacy={**PRIVACY, "budget": {**budget, "until_spent": True}})
    assert stopped.exit_code == 0, stopped.stderr
    assert json.loads((tmp_path / "out" / "run.json").read_text())["description"]["rounds"] == fit
    spent = json.loads(stopped.stdout)["final_metrics"]["epsilon_spent"]["mean"]
    assert spent == pytest.approx(epsilon_of(per_round * math.sqrt(fit)), rel=1e-4)


@pytest.mark.slow
def test_schemes_are_compared_by_the_error_on_held_out_records(command, tmp_path):
    schemes = {
        "own": {"kind": "independent", "law": "gaussian"},
        "laplace": {"kind": "independent", "law": "l2_laplace"},
    }
    compare = {"epsilons": [2.0, 30.0], "schemes": schemes, "measures": ["loss", "test_error"]}
    result = command("compare", "--json", noise=None, compare=compare)
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)["comparison"]["rows"]
    errors = {(row["scheme"], row["epsilon"]): row["measures"]["test_error"]["value"] for row in rows}
    assert errors["own", 30.0] < errors["own", 2.0]
    assert errors["own", 30.0] < 0.75


def test_comparison_by_distances_to_an_optimum_is_refused(command, tmp_path):
    compare = {"epsilons": [2.0], "schemes": {"own": {"kind": "independent", "law": "gaussian"}}}
    result = command("compare", "--json", noise=None, compare=compare)
    assert result.exit_code == 2
    assert "'classification' has no known optimum" in result.stderr
    assert not (tmp_path / "runs").exists()


def table(labels, features=1):
    """A file with these labels; its features count up."""
    header = ",".join([*(f"x{j}" for j in range(features)), "y"])
    rows = [",".join([*(f"{(i + j) / 10}" for j in range(features)), f"{y}"]) for i, y in enumerate(labels)]
    return "\n".join([header, *rows, ""])


FILES = {
    "one.csv": table([1] * 20),
    "minus.csv": table([-1] * 20),
    "parts.csv": table([0, 1, 0.5, 2] * 5),
    "negative.csv": table([0, 1, -1, 2] * 5),
    "codes.csv": table([0, 1, 2, 90210] * 5),
    "signs.csv": table([1, -1] * 10),
    "wide.csv": table([0, 1] * 10, features=13),
}


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"problem": {"data": "one.csv"}}, "one.csv: all records are of one class; a classifier needs two"),
        ({"problem": {"data": "minus.csv"}}, "minus.csv: all records are of one class"),
        ({"problem": {"data": "parts.csv"}}, "parts.csv: a label is no whole number from 0 on"),
        ({"problem": {"data": "negative.csv"}}, "negative.csv: a label is no whole number from 0 on"),
        (
            {"problem": {"data": "codes.csv"}},
            "the largest label makes more classes than there are records",
        ),
        ({"problem": {"data": "signs.csv", "classes": 3}}, "labels are -1 and 1, which are two classes"),
        ({"problem": {"data": "wide.csv", "model": "cnn"}}, "a record has 13 features, which is no square number"),
        ({"problem": {"classes": 5}}, "a label is too large: [problem] classes = 5 are numbered 0 to 4"),
        ({"problem": {"classes": 1}}, "[problem] classes: input should be greater than or equal to 2; given 1"),
        ({"problem": {"data": "digits"}}, 'write data = "digits_classes" for the ten digits, or add classes = 2'),
        ({"problem": {"data": "diabetes"}}, "diabetes: a label is no whole number"),
        ({"problem": {"data": "synthetic"}}, 'data = "synthetic" is made for linear_regression, mean_estimation only'),
        ({"problem": {"hidden": 0}}, "[problem] hidden: write one whole number of at least 1"),
        ({"problem": {"hidden": [8, 0]}}, "[problem] hidden: write one whole number of at least 1"),
        ({"problem": {"hidden": []}}, "[problem] hidden: write one whole number of at least 1"),
        ({"problem": {"hidden": True}}, "[problem] hidden: write one whole number of at least 1"),
        ({"problem": {"hidden": 8.0}}, "[problem] hidden: write one whole number of at least 1"),
        ({"problem": {"model": "linear"}}, 'hidden does not apply to model = "linear"'),
        ({"problem": {"model": "cnn", "hidden": [2, 2, 2, 2]}}, "Images of 8 x 8 are halved by each of the 4 hidden"),
        ({"problem": {"model": "rnn"}}, "[problem] model: unknown value 'rnn'; did you mean 'cnn'?"),
        ({"problem": {"ridge": None}}, "[problem] ridge: this key is missing"),
        ({"problem": {"intercept": True}}, "intercept: does not apply to kind = 'classification'"),
        ({"problem": {"radius": 1.0}}, "radius: does not apply to kind = 'classification', only to mean_estimation"),
        ({"problem": {"records": 9}}, "records: does not apply to kind = 'classification'"),
        (
            {"problem": {"partition": {"kind": "by_size", "growth": "exponential"}}, "topology": {"agents": 20}},
            "gives agent 0 0 of 1797 records",
        ),
        ({"topology": {"agents": 1798}}, "1798 agents with at least 1 record(s) each need 1798 records"),
        ({"algorithm": {"batch_size": 500}}, "batch_size = 500, but agent 0 has 360 records"),
        ({"algorithm": {"batch_size": 500}, "privacy": None}, "batch_size = 500, but agent 0 has 360 records"),
        ({"experiment": {"record": ["msd_average"]}}, "'classification' has no known optimum"),
        ({"privacy": {"losses": "problem"}}, "[privacy] losses: a promise of convex, smooth losses does not hold"),
        ({"privacy": {"losses": {"beta": 1.0}}}, "[privacy] losses: a promise of convex, smooth losses does not hold"),
    ],
)
def test_what_does_not_fit_gives_one_paragraph_and_leaves_nothing(command, tmp_path, sections, expected):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    changed = {
        name: None if keys is None else {k: v for k, v in {**BASE[name], **keys}.items() if v is not None}
        for name, keys in sections.items()
    }
    result = command("run", "--json", **changed)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert expected in result.stderr
    assert result.stderr.strip().count("\n") == 0
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_refusals_have_their_own_types():
    with pytest.raises(UnsupportedClaim, match="Remove losses"):
        build(config(privacy={**PRIVACY, "losses": "problem"}))
    with pytest.raises(ConfigError, match=r"a label is no whole number"):
        made(data="diabetes")
