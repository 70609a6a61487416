"""Federated averaging against centralised gradient descent, hand-written loops and ATC."""

import numpy as np
import pytest
from typer.testing import CliRunner

import sottovoce as sv
from sottovoce.cli import app
from sottovoce.experiments import build, read
from sottovoce.experiments.privacy import guarantee, spending
from sottovoce.linear import diffusion_step, linear_round

SIZES = (5, 8, 6, 9)
STEP, ROUNDS = 0.15, 12


def problem():
    generator = np.random.default_rng(0)
    features = [generator.normal(size=(n, 3)) * 0.6 for n in SIZES]
    targets = [x @ np.array([1.0, -0.5, 0.2]) + 0.1 * generator.normal(size=len(x)) for x in features]
    return sv.problems.linear_regression(features, targets, ridge=0.05)


def federation(weights):
    return sv.topologies.federation(4, weights, records=SIZES if weights == "records" else None)


def shares(weights):
    return np.full(4, 0.25) if weights == "uniform" else np.array(SIZES) / sum(SIZES)


def gradient(given, k, w):
    """By hand, from the records."""
    x, y = given.features[k, : SIZES[k]], given.targets[k, : SIZES[k]]
    return 2 * x.T @ (x @ w - y) / SIZES[k] + 2 * 0.05 * w


def last_models(algorithm, topology, noise=None, **more):
    noise = sv.noise.none() if noise is None else noise
    options = {"rounds": ROUNDS, "dtype": "float64", "progress": False, "seed": 3, **more}
    return sv.simulate(problem(), topology, algorithm, noise, **options).models


def models_of_all(algorithms, noises, topology, **more):
    options = {"rounds": ROUNDS, "dtype": "float64", "progress": False, "seed": 3, "repeats": 2, **more}
    runs = sv.simulate(problem(), topology, algorithms, noises, **options)
    return {label: run.models for label, run in runs.items()}


@pytest.mark.parametrize("weights", ["uniform", "records"])
@pytest.mark.parametrize("exchange", ["model", "gradient"])
def test_one_local_step_is_gradient_descent_on_the_weighted_risk(weights, exchange):
    given, w = problem(), np.zeros(3)
    for _ in range(ROUNDS):
        w = w - STEP * sum(q * gradient(given, k, w) for k, q in enumerate(shares(weights)))
    found = last_models(sv.algorithms.fedavg(step_size=STEP, exchange=exchange), federation(weights))
    np.testing.assert_allclose(found[0], np.tile(w, (4, 1)), rtol=0, atol=1e-10)
    assert np.abs(w).max() > 0.1


def test_weights_by_records_descend_the_risk_of_all_records_together():
    given, w = problem(), np.zeros(3)
    x = np.concatenate([given.features[k, :n] for k, n in enumerate(SIZES)])
    y = np.concatenate([given.targets[k, :n] for k, n in enumerate(SIZES)])
    for _ in range(ROUNDS):
        w = w - STEP * (2 * x.T @ (x @ w - y) / len(x) + 2 * 0.05 * w)
    found = last_models(sv.algorithms.fedavg(step_size=STEP), federation("records"))
    np.testing.assert_allclose(found[0, 0], w, rtol=0, atol=1e-10)


@pytest.mark.parametrize("weights", ["uniform", "records"])
def test_several_local_steps_equal_a_loop_written_by_hand(weights):
    given, variants = problem(), [(2, 1.0), (5, 0.6), (3, 1.5)]
    algorithms = {
        (steps, server): sv.algorithms.fedavg(
            step_size=lambda t: STEP / t**0.5, local_steps=steps, server_step_size=server
        )
        for steps, server in variants
    }
    found = models_of_all(algorithms, {"none": sv.noise.none()}, federation(weights))
    for steps, server in variants:
        w = np.zeros(3)
        for t in range(1, ROUNDS + 1):
            walked = []
            for k in range(4):
                own = w
                for _ in range(steps):
                    own = own - (STEP / t**0.5) * gradient(given, k, own)
                walked.append(own)
            w = w + server * (shares(weights) @ np.array(walked) - w)
        np.testing.assert_allclose(found[(steps, server), "none"][0], np.tile(w, (4, 1)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_sending_gradients_or_models_visits_the_same_models_on_a_federation(batch_size):
    variants = [(steps, server) for steps in (1, 4) for server in (1.0, 0.6)]
    algorithms = {
        (*variant, exchange): sv.algorithms.fedavg(
            step_size=STEP, local_steps=variant[0], server_step_size=variant[1], exchange=exchange
        )
        for variant in variants
        for exchange in ("model", "gradient")
    }
    found = models_of_all(algorithms, {"none": sv.noise.none()}, federation("records"), batch_size=batch_size)
    for variant in variants:
        by_model, by_gradient = (found[(*variant, exchange), "none"] for exchange in ("model", "gradient"))
        np.testing.assert_allclose(by_model, by_gradient, rtol=0, atol=1e-12)
    assert np.abs(found[(1, 1.0, "model"), "none"] - found[(4, 1.0, "model"), "none"]).max() > 1e-3


def test_noise_on_gradients_enters_the_model_times_both_steps():
    options = {"step_size": STEP, "local_steps": 3, "server_step_size": 0.6}
    algorithms = {e: sv.algorithms.fedavg(**options, exchange=e) for e in ("model", "gradient")}
    noises = {
        "small": sv.noise.independent(sv.noise.Gaussian(std=0.2 * STEP)),
        "large": sv.noise.independent(sv.noise.Gaussian(std=0.2)),
        "none": sv.noise.none(),
    }
    found = models_of_all(algorithms, noises, federation("uniform"))
    clean = found["model", "none"]
    # The same draws enter with opposite sign: on quadratic losses the deviations from the clean run are opposite.
    by_model, by_gradient = found["model", "small"] - clean, found["gradient", "large"] - clean
    np.testing.assert_allclose(by_model, -by_gradient, rtol=0, atol=1e-12)
    assert np.abs(by_model).max() > 1e-3


@pytest.mark.parametrize("topology", [sv.topologies.ring(4), sv.topologies.federation(4)], ids=["ring", "federation"])
def test_one_step_and_full_server_step_is_atc(topology):
    noise = sv.noise.independent(sv.noise.Laplace(std=0.1))
    found = last_models(sv.algorithms.fedavg(step_size=STEP), topology, noise, repeats=2)
    np.testing.assert_array_equal(found, last_models(sv.algorithms.atc(step_size=STEP), topology, noise, repeats=2))
    step = diffusion_step(linear_round(sv.algorithms.fedavg(step_size=STEP), 1))
    assert step == ("atc", STEP)


@pytest.mark.parametrize(
    "options", [{}, {"server_step_size": 0.5}, {"exchange": "gradient"}], ids=["model", "server step", "gradient"]
)
def test_one_local_step_has_an_exact_mean_square_error_that_simulation_meets(options):
    algorithm, noise = sv.algorithms.fedavg(step_size=STEP, **options), sv.noise.independent(sv.noise.Gaussian(std=0.1))
    theory = sv.expected_msd(problem(), federation("records"), algorithm, noise, rounds=ROUNDS)["msd_average"][-1]
    run = sv.simulate(
        problem(), federation("records"), algorithm, noise, rounds=ROUNDS, repeats=2000, dtype="float64", progress=False
    )
    values = run.metrics["msd_average"][:, -1]
    error = values.std() / np.sqrt(len(values))
    assert abs(values.mean() - theory) < 4 * error
    assert abs(values.mean() - 1.5 * theory) > 4 * error


def test_the_exact_theory_refuses_several_local_steps():
    algorithm = sv.algorithms.fedavg(step_size=STEP, local_steps=2)
    with pytest.raises(
        sv.UnsupportedClaim, match="gradients at more than one point in a round; the exact theory covers one"
    ):
        sv.expected_msd(problem(), federation("uniform"), algorithm, sv.noise.none(), rounds=3)


def test_a_run_remembers_what_was_chosen():
    described = sv.algorithms.fedavg(step_size=0.1, local_steps=3, server_step_size=0.5, exchange="gradient").describe()
    assert described == {
        "name": "fedavg", "step_size": 0.1, "local_steps": 3, "server_step_size": 0.5, "exchange": "gradient",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"step_size": 0.0}, "step_size = 0.0"),
        ({"step_size": True}, "step_size = True"),
        ({"step_size": 0.1, "local_steps": 0}, "local_steps = 0"),
        ({"step_size": 0.1, "local_steps": True}, "local_steps = True"),
        ({"step_size": 0.1, "local_steps": 2.0}, "local_steps = 2.0"),
        ({"step_size": 0.1, "server_step_size": float("nan")}, "server_step_size = nan"),
        ({"step_size": 0.1, "server_step_size": -1.0}, "server_step_size = -1.0"),
        ({"step_size": 0.1, "server_step_size": lambda t: 1.0}, "server_step_size is a function"),
        ({"step_size": 0.1, "exchange": "weights"}, "exchange = 'weights'"),
    ],
)
def test_values_out_of_range_are_refused(given, message):
    with pytest.raises(sv.ConfigError, match=message):
        sv.algorithms.fedavg(**given)


FILE = """
[experiment]
name = "federated"
rounds = 6
repeats = 2
dtype = "float64"
[topology]
kind = "federation"
agents = 4
weights = "records"
[problem]
kind = "logistic_regression"
data = "breast_cancer"
unit_norm = true
ridge = 0.01
[algorithm]
kind = "fedavg"
step_size = 0.5
local_steps = 3
[noise]
kind = "independent"
law = "gaussian"
std = 0.05
[privacy]
unit = "record"
clip = 1.0
clip_norm = "l2"
delta = 1e-5
losses = "problem"
observers = ["server", "final_model"]
budget = { epsilon = 50.0, observer = "server" }
"""


@pytest.fixture
def sottovoce(tmp_path, monkeypatch):
    """Run a command on the file above, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "federated.toml").write_text(FILE)

    def invoke(command, *overrides):
        return CliRunner().invoke(app, [command, "federated.toml", *overrides])

    return invoke


def test_a_file_runs_on_a_federation_and_its_budget_counts_all_local_steps(sottovoce, tmp_path):
    result = sottovoce("run")
    assert result.exit_code == 0, result.output
    experiment = build(read(tmp_path / "federated.toml"))
    stated = guarantee(experiment, sv.observers.server())
    spent = spending(experiment)
    assert spent[-1] == pytest.approx(stated.epsilon(1e-5), rel=1e-6)
    # By hand: T rounds of S gradients, S = 1 + c + c^2, each 2C/n for the smallest agent.
    losses, n = experiment.problem.losses, experiment.problem.sizes.min()
    c = 1 - 0.5 * losses.nu
    assert stated.mu == pytest.approx((1 + c + c**2) * 0.5 * (2 / n) * np.sqrt(6) / 0.05, rel=1e-9)
    shorter = guarantee(experiment, sv.observers.server(), rounds=3)
    assert spent[2] == pytest.approx(shorter.epsilon(1e-5), rel=1e-6)


def test_a_file_without_the_promise_is_told_how_to_make_it(sottovoce, tmp_path):
    (tmp_path / "federated.toml").write_text(
        FILE.replace('losses = "problem"\n', "").replace(FILE.splitlines()[-1], "")
    )
    result = sottovoce("account")
    assert result.exit_code != 0
    assert "3 local gradient steps" in result.output
    assert '[privacy] losses = "problem"' in result.output


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("algorithm.local_step=2", "did you mean 'local_steps'?"),
        ("algorithm.local_steps=0", "greater than or equal to 1"),
        ("algorithm.server_step_size=0.0", "greater than 0"),
        ("algorithm.exchange=weights", "unknown value 'weights'"),
        ("algorithm.penalty=1.0", "only to inexact_admm"),
    ],
)
def test_unknown_keys_and_wrong_values_in_a_file_are_refused(tmp_path, override, expected):
    (tmp_path / "federated.toml").write_text(FILE)
    with pytest.raises(sv.ConfigError) as caught:
        read(tmp_path / "federated.toml", [override])
    assert expected in str(caught.value)


def test_a_file_may_send_gradients_through_a_relay_only(tmp_path):
    (tmp_path / "federated.toml").write_text(FILE)
    overrides = [
        "algorithm.exchange=gradient",
        "privacy.observers=['eavesdropper']",
        "privacy.budget.observer=eavesdropper",
    ]
    built = build(read(tmp_path / "federated.toml", overrides))
    assert built.algorithm.describe()["exchange"] == "gradient"
    ring = [*overrides, "topology={kind='ring', agents=4}"]
    with pytest.raises(sv.IncompatibleChoice, match="'ring' has no relay"):
        build(read(tmp_path / "federated.toml", ring))


@pytest.mark.parametrize("steps", [10_001, 10**12, 10**18])
def test_more_steps_than_a_compiled_round_can_hold_are_refused(steps):
    with pytest.raises(
        sv.ConfigError, match=r"local_steps = .*a part of the compiled round.*fewer steps and more rounds"
    ):
        sv.algorithms.fedavg(step_size=0.1, local_steps=steps)
    with pytest.raises(
        sv.ConfigError, match=r"gossip_steps = .*a part of the compiled round.*fewer steps and more rounds"
    ):
        sv.algorithms.muffliato(step_size=0.1, gossip_steps=steps)
