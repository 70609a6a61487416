"""A start of the user's choice, and every agent's model after every round."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce import resources

SETTINGS = {"repeats": 2, "seed": 4, "progress": False, "dtype": "float64"}
RING, CLEAR = sv.topologies.ring(6), sv.noise.none()
ATC = sv.algorithms.atc(step_size=0.1)


def run(problem, rounds=5, algorithm=ATC, noise=CLEAR, topology=RING, **options):
    return sv.simulate(problem, topology, algorithm, noise, rounds=rounds, **{**SETTINGS, **options})


@pytest.fixture(scope="module")
def noisy(regression):
    noise = sv.noise.independent(sv.noise.Gaussian(std=0.1))
    return run(regression, noise=noise, record=["loss", "models"], chunk=2)


def test_the_models_of_every_round_are_those_of_shorter_runs(regression, noisy):
    assert noisy.models_by_round.shape == (2, 5, 6, 3)
    np.testing.assert_array_equal(noisy.models_by_round[:, -1], noisy.models)
    noise = sv.noise.independent(sv.noise.Gaussian(std=0.1))
    shorter = run(regression, rounds=3, noise=noise, record=["loss"])
    np.testing.assert_array_equal(noisy.models_by_round[:, 2], shorter.models)
    assert shorter.models_by_round is None


@pytest.mark.parametrize("options", [{"chunk": 5}, {"repeats_together": 1}])
def test_models_do_not_depend_on_chunks_or_groups(regression, noisy, options):
    noise = sv.noise.independent(sv.noise.Gaussian(std=0.1))
    again = run(regression, noise=noise, record=["loss", "models"], **options)
    np.testing.assert_allclose(again.models_by_round, noisy.models_by_round, rtol=1e-12)


def test_every_scheme_of_a_comparison_has_its_own(regression):
    noises = {"clear": CLEAR, "loud": sv.noise.independent(sv.noise.Gaussian(std=1.0))}
    algorithms = {"atc": ATC, "cta": sv.algorithms.cta(step_size=0.1)}
    runs = run(regression, rounds=3, algorithm=algorithms, noise=noises, record=["models"])
    for each in runs.values():
        np.testing.assert_array_equal(each.models_by_round[:, -1], each.models)
        assert "loss" in each.metrics  # "models" alone leaves the metrics at their default
    assert not np.array_equal(runs["atc", "clear"].models_by_round, runs["cta", "clear"].models_by_round)


def test_all_agents_start_where_they_are_told(regression):
    start = np.array([1.0, -2.0, 0.5])
    found = run(regression, rounds=1, start=start, record=["loss"])
    rows = [{name: value[k] for name, value in regression.arrays.items()} for k in range(6)]
    stepped = np.stack([start - 0.1 * regression.gradient(start, row) for row in rows])
    np.testing.assert_allclose(found.models[0], RING.matrix.T @ stepped, rtol=1e-12)
    assert found.description["start"] == "one model for all agents"
    assert "start" not in run(regression, rounds=1, record=["loss"]).description


@pytest.mark.parametrize(
    "algorithm", [ATC, sv.algorithms.gossip(acceleration=RING.spectral_gap)], ids=["array", "tuple"]
)
def test_every_agent_may_start_elsewhere(regression, algorithm):
    starts = np.random.default_rng(0).standard_normal((6, 3))
    found = run(regression, rounds=1, start=starts, algorithm=algorithm, record=["loss"])
    rows = [{name: value[k] for name, value in regression.arrays.items()} for k in range(6)]
    step = 0.1 if algorithm is ATC else 1.0
    stepped = np.stack([w - step * regression.gradient(w, row) for w, row in zip(starts, rows, strict=True)])
    np.testing.assert_allclose(found.models[0], RING.matrix.T @ stepped, rtol=1e-12)
    assert found.description["start"] == "a model for each agent"


def test_equal_starts_are_one(regression):
    start = np.array([1.0, -2.0, 0.5])
    runs = [run(regression, rounds=2, start=given, record=["loss"]) for given in (start, np.tile(start, (6, 1)))]
    np.testing.assert_array_equal(runs[0].models, runs[1].models)
    assert runs[1].description["start"] == "one model for all agents"


def test_a_run_goes_on_from_the_models_of_another(regression):
    whole, first = run(regression, rounds=5, record=["loss"]), run(regression, rounds=2, record=["loss"])
    rest = run(regression, rounds=3, start=first.models[0], record=["loss"])
    np.testing.assert_allclose(rest.models, whole.models, rtol=1e-10)


def custom():
    draw = np.random.default_rng(1)
    parameters = {"slope": np.zeros((2, 1)), "shift": np.zeros(1)}

    def loss(p, batch):
        features, targets = batch
        return (((features @ p["slope"])[:, 0] + p["shift"][0] - targets) ** 2).mean()

    return sv.problems.custom_loss(loss, parameters, draw.standard_normal((6, 4, 2)), draw.standard_normal((6, 4)))


@pytest.mark.parametrize("clipped", [False, True])
def test_parameters_may_be_the_start(clipped):
    problem = custom().with_gradient_clipping(1.0, "l2") if clipped else custom()
    start = {"slope": np.ones((2, 1)), "shift": np.full(1, 3.0)}
    flat = problem.flatten(start)
    np.testing.assert_array_equal(flat, [3.0, 1.0, 1.0])  # leaves in the order of their names
    runs = [run(problem, rounds=1, start=given, record=["loss"]) for given in (start, flat)]
    np.testing.assert_array_equal(runs[0].models, runs[1].models)
    assert runs[0].structure.keys() == start.keys()


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (np.zeros(4), r"shape \(4,\); needed are finite numbers: one model \[3\], one for each agent \[6, 3\]"),
        (np.zeros((3, 6)), r"shape \(3, 6\)"),
        ([0.0, np.nan, 0.0], "needed are finite numbers"),
        ({"slope": np.zeros(3)}, "neither numbers nor parameters"),
        ("zero", "neither numbers nor parameters"),
    ],
)
def test_what_is_no_model_of_the_problem_is_refused(regression, start, said):
    with pytest.raises(sv.ConfigError, match=said):
        run(regression, start=start, record=["loss"])


def test_parameters_of_another_structure_are_refused():
    with pytest.raises(sv.ConfigError, match="neither numbers nor parameters as this problem structures them"):
        run(custom(), start={"slope": np.ones((2, 1))}, record=["loss"])


def test_agents_that_share_a_model_cannot_start_apart(regression):
    starts = np.random.default_rng(0).standard_normal((6, 3))
    with pytest.raises(sv.IncompatibleChoice, match=r"'federation' share one.*Give one model \[3\]"):
        run(regression, topology=sv.topologies.federation(6), start=starts, record=["loss"])
    walk = sv.algorithms.random_walk(step_size=0.1)
    with pytest.raises(sv.IncompatibleChoice, match="share one"):
        run(regression, topology=RING.with_walk(), algorithm=walk, start=starts, record=["loss"])


def test_models_that_do_not_fit_are_refused_before_the_first_round(regression, monkeypatch):
    # 10^7 rounds x 6 agents x 3 parameters x 2 repeats x 8 bytes = 2.7 GiB beside a run that needs little.
    monkeypatch.setattr(resources, "free_memory", lambda: 3 * 2**30)
    with pytest.raises(
        sv.ConfigError, match=r"models of all rounds, which were to be recorded.*leave 'models' out of record"
    ):
        run(regression, rounds=10_000_000, record=["loss", "models"])


def test_an_unknown_metric_is_told_of_the_models(regression):
    with pytest.raises(
        sv.ConfigError, match=r"'modls' is not a metric.*'models' for every agent's model of every round"
    ):
        run(regression, record=["modls"])
