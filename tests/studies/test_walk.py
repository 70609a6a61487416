"""Studies of a walking token: every line is the account it is named after, and the token learns with the noise it was given."""

import json
import math

import numpy as np
import pytest
from pydantic import ValidationError

import sottovoce as sv
from sottovoce.accounting import gaussian, walk
from sottovoce.studies import walk as walk_study
from sottovoce.studies.kinds import read_privacy_study, run_privacy_study
from sottovoce.studies.reproduction import read_reproduction

WALK = {"kind": "walk", "name": "w", "agents": [10, 1000], "hops_per_agent": 100, "epsilon": 0.1, "delta": 1e-7}
LEARNING = {
    "kind": "walk_learning", "name": "l", "agents": 30, "samples": 4, "test_records": 200, "dimension": 3, "margin": 10.0, "step_size": 0.05,
    "hops": 600, "contributions": 30, "epsilons": [1e4, 0.5], "delta": 1e-5, "tail": 100, "repeats": 2, "seed": 1,
}  # fmt: skip


def ran(table):
    told = []
    return run_privacy_study(read_privacy_study(table), {}, source="test", progress=told.append), told


def test_lines_are_the_accounts_they_are_named_after():
    result, told = ran(WALK)
    found = {line: {place: cell.value for place, cell in row.items()} for line, row in result.cells["epsilon"].items()}
    assert list(found) == result.section.lines()
    for place, n in (("10", 10), ("1000", 1000)):
        # N = T/n + sqrt(3 T/n ln(1/d)) = 169.5 visits as printed, hence 270 cycles of 3 epsilon / sqrt(n) in Theorem 3.
        cycles, each = 270, 0.3 / math.sqrt(n)
        log = math.log(1e7)
        theorem = math.sqrt(2 * cycles * log) * each + cycles * each * math.expm1(each)
        assert found["published, Theorem 3"][place] == pytest.approx(theorem, rel=1e-12)
        composed = math.sqrt(2 * 170 * log) * 0.1 + 170 * 0.1 * math.expm1(0.1)
        assert found["local, advanced composition"][place] == pytest.approx(composed, rel=1e-12)
        visits = walk.likely_contributions(num_agents=n, rounds=100 * n, failure_probability=1e-7).most
        mu = math.sqrt(visits) * 0.1 / math.sqrt(2 * math.log(1.25e7))
        # All at the delta of Theorem 3, less the probability of more visits.
        assert found["local, exact"][place] == pytest.approx(gaussian.epsilon(mu, 272e-7 - 1e-7), rel=1e-9)
        for network in ("proven, by gaps", "proven, averaged over ways", "published, Lemma 1"):
            assert found[network][place] < found["local, exact"][place]
    assert told == ["study w: 10 agents", "study w: 1000 agents"]


def test_the_average_over_ways_is_the_one_of_gaps_gone_through_one_by_one_and_blocks_say_less(monkeypatch):
    """n = 3, so that a gap ends with probability 2/3 at each hop; two contributions, both gaps one by one."""
    std, delta, failure, T = 2.0, 1e-3, 1e-4, 12
    law = {t: (2 / 3) * (1 / 3) ** (t - 1) for t in range(1, T + 1)}
    law[math.inf] = 1 - sum(law.values())
    asked = {"contributions": walk.LikelyContributions(2, failure), "std": std, "delta": delta}
    by_blocks = walk_study.averaged_over_ways(3, T, **asked)
    monkeypatch.setattr(walk_study, "MOST_HOPS", 1)
    by_gaps = walk_study.averaged_over_ways(3, T, **asked)
    pairs = [(a, b) for a in law for b in law if min(a, b) < math.inf]
    exact = sum(law[a] * law[b] * gaussian.delta(math.sqrt(1 / a + 1 / b) / std, by_gaps) for a, b in pairs)
    assert 0.97 * (delta - failure) < exact <= delta - failure
    assert by_blocks < 0.97 * by_gaps


def test_theorem_4_is_no_better_than_its_floor_for_many_agents():
    """q >= 2 ln(1/delta), so that epsilon' >= 2 ln(1/delta) epsilon / sqrt(ln(1.25/delta)) whatever n is."""
    result, _ = ran({**WALK, "agents": [1000, 10**5]})
    floor = 2 * math.log(1e7) * 0.1 / math.sqrt(math.log(1.25e7))
    for cell in result.cells["epsilon"]["published, Theorem 4"].values():
        assert cell.value == pytest.approx(floor, rel=1e-12)


def test_the_noise_in_the_sizes_of_the_document_is_the_reference():
    """n = 2000, T = 20000, 12 contributions, delta = 1e-6: computed from exact Gaussian privacy and the printed formula."""
    table = {**LEARNING, "agents": 2000, "hops": 20_000, "contributions": 12, "epsilons": [10.0, 1.0], "delta": 1e-6}
    section = read_privacy_study(table)
    topology = sv.topologies.complete(2000).with_walk()
    expected = {10.0: (3.74876, 2.57862), 1.0: (29.2694, 20.3619)}
    for epsilon, stds in expected.items():
        found = walk_study.stds_for(section, topology, epsilon)
        assert (found["local"], found["published"]) == pytest.approx(stds, rel=1e-5)
        asked = {"contributions": 12, "sensitivity": 2.0, "delta": 1e-6, "rounds": 20_000, "std": found["proven"]}
        proven = walk.blocks_epsilon(topology, agent=1, observers=[0], **asked)
        assert proven == pytest.approx(epsilon, rel=1e-4)
        assert proven < 0.9 * walk.proven_epsilon(num_agents=2000, **asked)
        assert found["proven"] < 0.5 * found["published"]
        assert found["noise-free"] == 0.0


def test_records_keep_the_promises_that_the_accounts_rest_on():
    problem, (features, labels) = walk_study.made_records(read_privacy_study(LEARNING))
    np.testing.assert_allclose(np.linalg.norm(problem.features, axis=-1), 1.0)
    np.testing.assert_allclose(np.linalg.norm(features, axis=-1), 1.0)
    assert set(np.unique(labels)) == {-1.0, 1.0}
    assert problem.losses.beta <= walk_study.SMOOTHNESS * (1 + 1e-12)
    assert problem.sensitivity(unit="agent", adjacency="replace", norm="l2") == pytest.approx(2.0)
    far = 100.0 * np.ones(3)  # clipping cuts nothing: the gradient is that of the plain problem
    plain = sv.problems.logistic_regression(problem.features, problem.labels, ridge=0.0)
    for k in range(3):
        data = {name: value[k] for name, value in problem.arrays.items()}
        np.testing.assert_allclose(problem.gradient(far, data), plain.gradient(far, data), atol=1e-12)


def test_little_noise_learns_and_much_noise_does_not_learn_so_well():
    result, told = ran(LEARNING)
    errors = {
        line: {place: cell.value for place, cell in row.items()} for line, row in result.cells["test_error"].items()
    }
    assert errors["noise-free"]["10000"] == errors["noise-free"]["0.5"] < 0.25
    assert errors["local"]["10000"] < 0.3
    assert errors["local"]["0.5"] > errors["noise-free"]["0.5"] + 0.05
    stds = {line: {place: cell.value for place, cell in row.items()} for line, row in result.cells["std"].items()}
    assert stds["proven"]["0.5"] < stds["local"]["0.5"]
    assert any("2 repeats" in text for text in told)


@pytest.mark.parametrize(
    ("table", "change"),
    [
        (WALK, {"agents": [2, 10]}),
        (WALK, {"agents": [10]}),
        (WALK, {"epsilon": 1.0}),
        (WALK, {"delta": 0.5}),
        (LEARNING, {"step_size": 8.1}),
        (LEARNING, {"delta": 0.0}),
        (LEARNING, {"repeats": 1}),
        (LEARNING, {"epsilons": [math.inf]}),
    ],
)
def test_settings_outside_what_is_stated_are_refused(table, change):
    with pytest.raises(ValidationError):
        read_privacy_study({**table, **change})


def test_the_reproduction_names_what_its_studies_have_and_its_first_study_is_as_expected():
    found = read_reproduction("cyffers2022-walk")
    expected = json.loads((found.folder / "expected.json").read_text())
    section = found.privacy_studies[0]
    result = run_privacy_study(section, found.base, source="test")
    for line, row in expected["cells"][section.name]["epsilon"].items():
        for place, value in row.items():
            assert result.cells["epsilon"][line][place].value == pytest.approx(value, rel=1e-4)
