"""Inexact ADMM against exact ADMM and the closed-form optimum, and what its messages give away."""

import numpy as np
import pytest
from typer.testing import CliRunner

import sottovoce as sv
from sottovoce.cli import app
from sottovoce.experiments import build, read
from sottovoce.linear import linear_round

SIZES = (5, 8, 6, 9)
RIDGE, PENALTY, STD = 0.05, 6.0, 0.1
POINTS = ["global", "own"]


def problem():
    generator = np.random.default_rng(0)
    features = [generator.normal(size=(n, 3)) * 0.6 for n in SIZES]
    targets = [x @ np.array([1.0, -0.5, 0.2]) + 0.1 * generator.normal(size=len(x)) for x in features]
    return sv.problems.linear_regression(features, targets, ridge=RIDGE)


def federation(weights):
    return sv.topologies.federation(4, weights, records=SIZES if weights == "records" else None)


def shares(weights):
    return np.full(4, 0.25) if weights == "uniform" else np.array(SIZES) / sum(SIZES)


def quadratics(given):
    """Hessians and offsets by hand: grad_k(w) = H_k w - b_k."""
    parts = [(given.features[k, :n], given.targets[k, :n]) for k, n in enumerate(SIZES)]
    return (
        np.array([2 * x.T @ x / len(x) + 2 * RIDGE * np.eye(3) for x, _ in parts]),
        np.array([2 * x.T @ y / len(x) for x, y in parts]),
    )


def ridge_solution(given, q):
    H, b = quadratics(given)
    return np.linalg.solve(np.einsum("k,kij->ij", q, H), q @ b)


def admm(given, q, penalty, rounds, *, exact):
    """The recursion of the APPFL notes, agent by agent; exact=True minimises every agent's part instead of linearising it."""
    H, b = quadratics(given)
    z, dual, w = np.zeros((4, 3)), np.zeros((4, 3)), np.zeros(3)
    for t in range(1, rounds + 1):
        rho = penalty(t)
        w = q @ (z - dual / rho)
        for k in range(4):
            if exact:
                z[k] = np.linalg.solve(H[k] + rho * np.eye(3), b[k] + dual[k] + rho * w)
            else:
                z[k] = w + (dual[k] - (H[k] @ z[k] - b[k])) / rho
            dual[k] = dual[k] + rho * (w - z[k])
    return w


def last_models(algorithm, topology, rounds):
    run = sv.simulate(
        problem(), topology, algorithm, sv.noise.none(), rounds=rounds, dtype="float64", progress=False, seed=1
    )
    return run.models[0]


@pytest.mark.parametrize("weights", ["uniform", "records"])
@pytest.mark.parametrize("point", POINTS)
def test_it_reaches_the_closed_form_optimum_as_exact_admm_does(weights, point):
    given, q = problem(), shares(weights)
    optimum = ridge_solution(given, q)
    oracle = admm(given, q, lambda t: PENALTY, 1500, exact=True)
    found = last_models(sv.algorithms.inexact_admm(penalty=PENALTY, linearise_at=point), federation(weights), 1500)
    np.testing.assert_allclose(oracle, optimum, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found, np.tile(optimum, (4, 1)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("penalty", [PENALTY, lambda t: PENALTY + t], ids=["fixed", "scheduled"])
def test_at_the_own_model_it_is_the_recursion_of_the_notes(penalty):
    schedule = penalty if callable(penalty) else lambda t: penalty
    expected = admm(problem(), shares("records"), schedule, 7, exact=False)
    algorithm = sv.algorithms.inexact_admm(penalty=penalty, linearise_at="own")
    np.testing.assert_allclose(last_models(algorithm, federation("records"), 7)[2], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("penalty", [PENALTY, lambda t: PENALTY + t], ids=["fixed", "scheduled"])
def test_at_the_global_model_it_is_admm_with_duals_that_contain_the_noise(penalty):
    """Every agent with its own dual, updated with its own perturbed z, against the form that keeps the average dual only."""
    H, b = quadratics(problem())
    schedule = penalty if callable(penalty) else lambda t: penalty
    algorithm, q = sv.algorithms.inexact_admm(penalty=penalty), shares("records")
    generator = np.random.default_rng(5)
    z, dual = np.zeros((4, 3)), np.zeros((4, 3))
    states = [algorithm.init(np.zeros(3)) for _ in range(4)]
    (exchange,) = algorithm.exchanges
    for t in range(1, 9):
        noise = generator.normal(size=(4, 3))
        rho = schedule(t)
        w = q @ (z - dual / rho)
        z = w + (dual - (H @ w - b)) / rho + noise
        dual = dual + rho * (w - z)
        gradients = [lambda v, k=k: H[k] @ v - b[k] for k in range(4)]
        sent = [exchange.message(states[k], gradients[k], t) + noise[k] for k in range(4)]
        received = q @ np.array(sent)
        states = [exchange.update(states[k], received, gradients[k], t) for k in range(4)]
        np.testing.assert_allclose(received, q @ z, rtol=0, atol=1e-12)
        np.testing.assert_allclose(algorithm.model(states[1]), q @ z, rtol=0, atol=1e-12)
        np.testing.assert_allclose(states[3].dual, q @ dual, rtol=0, atol=1e-11)


def test_a_penalty_below_one_and_a_half_times_the_smoothness_diverges():
    given = problem()
    H, _ = quadratics(given)
    beta = np.linalg.eigvalsh(H.mean(axis=0))[-1]
    optimum = ridge_solution(given, shares("uniform"))

    def distance(factor, rounds):
        found = last_models(sv.algorithms.inexact_admm(penalty=factor * beta), federation("uniform"), rounds)
        return np.abs(found - optimum).max()

    assert distance(1.55, 600) < 1e-6
    assert distance(1.45, 200) > 10 * distance(1.45, 20)


SERVER = sv.observers.server()
NOISE = sv.noise.independent(sv.noise.Gaussian(std=STD))


def account(point, observer, **more):
    algorithm = sv.algorithms.inexact_admm(penalty=PENALTY, linearise_at=point)
    return sv.account(federation("uniform"), algorithm, NOISE, observer, **more)


@pytest.mark.parametrize("unit", ["agent", "record"])
def test_at_the_global_model_messages_have_the_sensitivity_of_the_notes(unit):
    # n = 7 records each, C = 1: 2C / (rho' I) with I = 4 n and the notes' penalty rho' = rho / 4.
    n, T = 7, 5
    expected = 2.0 / (PENALTY / 4 * 4 * n) * np.sqrt(T) / STD
    found = account("global", SERVER, rounds=T, sensitivity=2.0 / n, unit=unit)
    assert found.mu == pytest.approx(expected, rel=1e-9)
    assert account("global", sv.observers.final_model(), rounds=T, sensitivity=2.0 / n, unit=unit).mu <= expected * (
        1 + 1e-9
    )


def test_at_the_own_model_messages_are_three_times_as_sensitive():
    # Message 1 is public, message 2 changes by -2 v_1, message t by v_{t-2} - 2 v_{t-1}; the worst changes alternate in sign.
    T = 6
    expected = np.sqrt(4 + 9 * (T - 2)) / (PENALTY * STD)
    assert account("own", SERVER, rounds=T, sensitivity=1.0).mu == pytest.approx(expected, rel=1e-6)


def test_at_the_own_model_the_claim_of_the_notes_is_exceeded_by_an_attack():
    """Two worlds in which the same averages are received: alternating gradients tell them apart better than 2C / (rho I) allows."""
    algorithm, T = sv.algorithms.inexact_admm(penalty=PENALTY, linearise_at="own"), 6
    (exchange,) = algorithm.exchanges
    received = np.random.default_rng(0).normal(size=(T, 1))
    sent = []
    for world in (-0.5, 0.5):
        state = algorithm.init(np.zeros(1))
        for t in range(1, T + 1):

            def gradient(w, t=t, world=world):
                return np.array([world * (-1) ** t])

            sent.append(exchange.message(state, gradient, t))
            state = exchange.update(state, received[t - 1], gradient, t)
    distance = np.linalg.norm(np.subtract(sent[:T], sent[T:])) / STD
    assert distance == pytest.approx(np.sqrt(4 + 9 * (T - 2)) / (PENALTY * STD))
    assert distance > 2.5 * np.sqrt(T - 1) / (PENALTY * STD)  # what 2C / (rho I) over T - 1 messages would be
    assert distance <= account("own", SERVER, rounds=T, sensitivity=1.0).mu * (1 + 1e-9)


def test_at_the_own_model_no_record_is_protected():
    with pytest.raises(sv.UnsupportedClaim, match="different points"):
        account("own", SERVER, rounds=5, sensitivity=1.0, unit="record")
    with pytest.raises(sv.UnsupportedClaim, match="does not cover this algorithm"):
        account("own", SERVER, rounds=5, sensitivity=1.0, unit="record", losses=sv.accounting.ConvexSmooth(1.0))


@pytest.mark.parametrize("point", POINTS)
def test_its_exact_mean_square_error_is_met_by_simulation(point):
    algorithm = sv.algorithms.inexact_admm(penalty=PENALTY, linearise_at=point)
    theory = sv.expected_msd(problem(), federation("uniform"), algorithm, NOISE, rounds=12)["msd_centroid"]
    run = sv.simulate(
        problem(), federation("uniform"), algorithm, NOISE, rounds=12, repeats=2000, dtype="float64", progress=False
    )
    values = run.metrics["msd_centroid"]
    error = values.std(axis=0) / np.sqrt(len(values))
    # In the first round "own" sends the public start, so its error is the noise alone; four deviations at 12 rounds.
    assert (np.abs(values.mean(axis=0) - theory) < 4 * error).all()
    assert (np.abs(values.mean(axis=0) - 1.3 * theory) > 4 * error).all()


def test_it_is_linear_in_every_round_of_a_schedule():
    for point in POINTS:
        algorithm = sv.algorithms.inexact_admm(penalty=lambda t: 2.0 + t, linearise_at=point)
        assert linear_round(algorithm, 1).blocks == {"global": 2, "own": 3}[point]
        linear_round(algorithm, 5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"penalty": 0.0}, "penalty = 0.0"),
        ({"penalty": float("inf")}, "penalty = inf"),
        ({"penalty": True}, "penalty = True"),
        ({"penalty": 1.0, "linearise_at": "here"}, "linearise_at = 'here'"),
    ],
)
def test_values_out_of_range_are_refused(given, message):
    with pytest.raises(sv.ConfigError, match=message):
        sv.algorithms.inexact_admm(**given)


FILE = """
[experiment]
name = "admm"
rounds = 6
[topology]
kind = "federation"
agents = 4
[problem]
kind = "linear_regression"
data = "synthetic"
samples = 6
dimension = 2
ridge = 0.1
[algorithm]
kind = "inexact_admm"
penalty = 20.0
[noise]
kind = "independent"
law = "gaussian"
std = 0.1
[privacy]
unit = "record"
clip = 1.0
clip_norm = "l2"
delta = 1e-5
observers = ["server", "final_model"]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "admm.toml"
    path.write_text(FILE)
    return path


def test_a_file_runs_on_a_federation(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    result = CliRunner().invoke(app, ["run", str(file)])
    assert result.exit_code == 0, result.output
    experiment = build(read(file))
    assert experiment.algorithm.describe() == {"name": "inexact_admm", "penalty": 20.0, "linearise_at": "global"}
    assert build(read(file, ["algorithm.linearise_at=own"])).algorithm.describe()["linearise_at"] == "own"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("algorithm.penalti=2.0", "did you mean 'penalty'?"),
        ("algorithm.penalty=0.0", "greater than 0"),
        ("algorithm.step_size=0.1", "does not apply to kind = 'inexact_admm'"),
        ("algorithm.linearise_at=here", "unknown value 'here'"),
        ("algorithm={kind='inexact_admm'}", "[algorithm] penalty: this key is missing"),
    ],
)
def test_unknown_keys_and_wrong_values_in_a_file_are_refused(file, override, expected):
    with pytest.raises(sv.ConfigError) as caught:
        read(file, [override])
    assert expected in str(caught.value)


def test_a_file_without_a_relay_is_refused(file):
    with pytest.raises(sv.IncompatibleChoice, match="'ring' has no relay"):
        build(read(file, ["topology={kind='ring', agents=4}", "privacy.observers=['eavesdropper']"]))
