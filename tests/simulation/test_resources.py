"""A run is estimated before its first round: the estimate is honest, what cannot fit is refused, what fits is not."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import sottovoce as sv
from sottovoce import resources
from sottovoce.simulation import Settings, size_of_run

RING, ATC, NOISE = sv.topologies.ring(4), sv.algorithms.atc(step_size=0.1), sv.noise.none()
PROBLEM = sv.problems.linear_regression(np.ones((4, 3, 2)), np.ones((4, 3)), ridge=0.1)
HUGE = 10**12


def squares(parameters, batch):
    return ((batch[0] @ parameters - batch[1]) ** 2).mean()


def clipped(records=3, dimension=2):
    problem = sv.problems.custom_loss(
        squares, np.zeros(dimension), np.ones((4, records, dimension)), np.ones((4, records))
    )
    return problem.with_clipping(1.0, "l2")


@pytest.mark.parametrize(
    ("numbers", "part"),
    [
        ({"rounds": HUGE}, "lists of rounds|metrics"),
        ({"rounds": 10, "repeats": 10**9}, r"metrics \(rounds x repeats x schemes\)"),
        ({"rounds": 1, "repeats": HUGE, "record": []}, r"models \(agents x parameters x repeats x schemes\)"),
    ],
)
def test_what_cannot_fit_is_refused_with_the_numbers_and_the_largest_part(numbers, part, monkeypatch):
    monkeypatch.setattr(resources, "free_memory", lambda: 8 * 2**30)
    with pytest.raises(
        sv.ConfigError, match=rf"4 agents.*would need .*iB of memory and 8 GiB are free\. Most of it.*({part}).*Lower"
    ):
        sv.simulate(PROBLEM, RING, ATC, NOISE, progress=False, **numbers)


def test_noise_and_walks_are_not_listed_round_by_round_before_the_check():
    walk, token = RING.with_walk(), sv.algorithms.random_walk(step_size=0.1)
    with pytest.raises(sv.ConfigError, match="would need"):
        sv.simulate(PROBLEM, walk, token, NOISE, rounds=HUGE, progress=False)
    scheduled = sv.noise.gradient(sv.noise.Gaussian(std=1.0)).scaled(lambda round_: 1.0 / round_)
    with pytest.raises(sv.ConfigError, match="would need"):
        sv.simulate(PROBLEM, RING, ATC, scheduled, rounds=HUGE, progress=False)
    with pytest.raises(sv.ConfigError, match="would need"):
        sv.observe(PROBLEM, RING, ATC, scheduled, sv.observers.eavesdropper(), rounds=HUGE)
    with pytest.raises(sv.ConfigError, match="would need"):
        sv.expected_msd(PROBLEM, RING, ATC, scheduled, rounds=HUGE)


def test_clipped_gradients_of_single_records_count_and_batches_help(monkeypatch):
    problem = clipped(records=5_000, dimension=200)
    monkeypatch.setattr(resources, "free_memory", lambda: 100 * 2**20)
    with pytest.raises(
        sv.ConfigError, match=r"5,000 record\(s\) per gradient.*agents x records x parameters.*batch_size"
    ):
        sv.simulate(problem, RING, ATC, NOISE, rounds=1, record=[], progress=False)
    monkeypatch.setattr(resources, "free_memory", lambda: 150 * 2**20)
    sv.simulate(problem, RING, ATC, NOISE, rounds=1, record=[], batch_size=5, progress=False)


def test_on_a_walk_only_the_holders_gradients_count():
    problem, walk = clipped(records=5_000, dimension=200), RING.with_walk()
    token = sv.algorithms.random_walk(step_size=0.1)
    sizes = [
        size_of_run(problem, topology, (algorithm,), Settings(rounds=1), schemes=1, metrics=0)
        for topology, algorithm in ((RING, ATC), (walk, token))
    ]
    assert sizes[1].parts["gradients"] == sizes[0].parts["gradients"] / 4
    assert sizes[1].seconds < sizes[0].seconds
    assert sizes[1].parts["models"] == sizes[0].parts["models"]


def test_the_compiler_is_asked_for_what_no_formula_knows(monkeypatch):
    def deep(parameters, batch):
        hidden = jnp.tanh((batch[0] * parameters) @ np.ones((50, 5000)))
        return ((hidden @ np.ones((5000, 10))) ** 2).mean()

    problem = sv.problems.custom_loss(deep, np.zeros(50), np.ones((4, 2000, 50)))
    size = size_of_run(problem, RING, (ATC,), Settings(rounds=1), schemes=1, metrics=1)
    assert size.bytes < 100 * 2**20  # by the formula alone
    monkeypatch.setattr(resources, "free_memory", lambda: 100 * 2**20)
    with pytest.raises(sv.ConfigError, match=r"a round of a run of 1 rounds.*would need"):
        sv.simulate(problem, RING, ATC, NOISE, rounds=1, progress=False)


def test_what_takes_more_than_a_year_is_refused(monkeypatch):
    monkeypatch.setattr(resources, "free_memory", lambda: 10**30)
    with pytest.raises(sv.ConfigError, match=r"would take about .* years, and more than a year is refused\. Lower"):
        sv.simulate(PROBLEM, RING, ATC, NOISE, rounds=10**13, record=[], progress=False)
    with pytest.raises(sv.ConfigError, match=r"10,000,000,000,000 pairs of runs of 3 rounds would take about"):
        audit(pairs=10**13)


def audit(**given):
    law = sv.noise.independent(sv.noise.Gaussian(std=1.0))
    asked = {"rounds": 3, "sensitivity": 1.0, "delta": 0.01, "confidence": 0.9, "pairs": 100, **given}
    return sv.audit(RING, ATC, law, sv.observers.eavesdropper(), **asked)


def test_an_audit_and_an_account_are_estimated_too():
    with pytest.raises(sv.ConfigError, match=r"1,000,000,000,000 pairs of runs of 3 rounds would need 136 TiB"):
        audit(pairs=HUGE)
    law, observer = sv.noise.independent(sv.noise.Gaussian(std=1.0)), sv.observers.eavesdropper()
    with pytest.raises(sv.ConfigError, match=r"rounds = 1,000,000,000,000: the list of rounds alone would need"):
        sv.account(RING, ATC, law, observer, rounds=HUGE, sensitivity=1.0)
    with pytest.raises(sv.ConfigError, match=r"an account of 100,000,000 rounds and 10,000 agents would need"):
        sv.account(sv.topologies.ring(10_000), ATC, law, observer, rounds=10**8, sensitivity=1.0)
    wide = sv.problems.linear_regression(np.ones((4, 1, 20_000)), np.ones((4, 1)))
    with pytest.raises(sv.ConfigError, match=r"the covariance of 4 agents with 20,000 parameters would need"):
        sv.expected_msd(wide, RING, ATC, NOISE, rounds=3)


def test_groups_of_clipped_runs_stay_below_a_gibibyte_of_gradients():
    problem, settings = clipped(records=10_000, dimension=100), Settings(rounds=1, repeats=400)
    size = size_of_run(problem, RING, (ATC,), settings, schemes=1, metrics=1)
    assert 4 * 4 * 10_000 * 100 * size.together <= 2**30 < 4 * 4 * 10_000 * 100 * 400


def test_a_long_run_says_how_long_before_it_starts(monkeypatch, capsys):
    from sottovoce.simulation import progress

    monkeypatch.setattr(progress, "LONG", 1e-9)
    sv.simulate(PROBLEM, RING, ATC, NOISE, rounds=2)
    assert "about 1 second for 2 rounds, by estimate" in " ".join(capsys.readouterr().err.split())


CASES = {
    "metrics": "problem(10, 10, 5), rounds=40_000, repeats=200",
    "models": "problem(100, 2, 10_000), rounds=3, repeats=40, record=[]",
    "records": "problem(10, 40_000, 100).with_clipping(1.0, 'l2'), rounds=3, repeats=2, record=[]",
    "clipped as vectors": "custom(10, 500, 1000), rounds=3, repeats=10, record=['disagreement']",
    "clipped, one run": "custom(10, 4000, 1000), rounds=3, repeats=1, record=['disagreement']",
    "clipped batches": "custom(10, 2000, 1000), rounds=3, repeats=20, batch_size=200, record=['disagreement']",
}
MEASURED = """
import numpy as np
import sottovoce as sv
import sottovoce.simulation.engine as engine
random = np.random.default_rng(0)
def problem(K, n, d):
    return sv.problems.linear_regression(random.standard_normal((K, n, d)), random.standard_normal((K, n)), ridge=0.1)
def loss(w, batch):
    return ((batch[0] @ w - batch[1]) ** 2).mean()
def custom(K, n, d):
    made = sv.problems.custom_loss(loss, np.zeros(d), random.standard_normal((K, n, d)), random.standard_normal((K, n)))
    return made.with_clipping(1.0, "l2")
def status(name):  # of this program alone: ru_maxrss would start with that of the program which started it
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
def start():  # forget the peak of everything before
    open("/proc/self/clear_refs", "w").write("5")
    return status("VmRSS")
def run(data, **numbers):
    topology = sv.topologies.k_out(data.num_agents, 3)
    noise = sv.noise.independent(sv.noise.Gaussian(std=0.1))
    return sv.simulate(data, topology, sv.algorithms.atc(step_size=1e-3), noise, progress=False, **numbers)
run(problem(5, 3, 2), rounds=2)
found = []
engine.check_run_size = lambda size: found.append(size.bytes)
def measured(data, **numbers):
    data.arrays
    before = start()
    kept = run(data, **numbers)
    print(found[0], status("VmHWM") - before)
measured(CALL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("call", CASES.values(), ids=CASES.keys())
def test_the_estimate_is_within_a_factor_of_two_of_the_peak(call):
    script = MEASURED.replace("CALL", call)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    estimated, measured = map(float, done.stdout.split())
    assert measured / 2 < estimated < 2 * measured, (estimated / 2**20, measured / 2**20)
