"""unit = "person": what a file says of persons reaches every number, and a unit that the data contradict is refused."""

import dataclasses
import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.errors import ConfigError
from sottovoce.experiments import build, guarantees, parse, privacy
from sottovoce.experiments.audit import audit_observer
from sottovoce.experiments.claims import Claims
from sottovoce.experiments.protection import protection

BASE = {
    "experiment": {"name": "x", "rounds": 9, "seed": 5},
    "topology": {"kind": "ring", "agents": 5},
    "problem": {"kind": "linear_regression", "data": "synthetic", "samples": 8, "dimension": 2, "ridge": 0.1},
    "algorithm": {"kind": "atc", "step_size": 0.1},
    "noise": {"kind": "independent", "law": "gaussian", "std": 0.1},
    "privacy": {"unit": "agent", "clip": 1.0, "clip_norm": "l2", "delta": 1e-5, "observers": ["eavesdropper"]},
}


def configured(**changes):
    data = {section: {**table, **changes.get(section, {})} for section, table in BASE.items()}
    return parse({name: dict(table) for name, table in data.items()}, source="test")


def made(most=3, unit="person", **changes):
    """The experiment of a file in which persons have up to this many of the eight records of an agent."""
    plain = build(configured(**changes))
    problem = plain.problem.with_persons(most, [np.arange(8) // most + 100 * agent for agent in range(5)])
    protected = protection(configured(**(changes | {"privacy": changes.get("privacy", {}) | {"unit": unit}})), problem)
    return dataclasses.replace(plain, problem=problem, privacy=protected)


def test_epsilon_of_a_person_is_that_of_all_its_records():
    (found,) = guarantees(made())
    assert found.mu == pytest.approx(0.1 * (3 * 2 / 8) * math.sqrt(9) / 0.1)  # step (m 2C/n) sqrt(T) / std
    assert (found.unit, found.records_per_person) == ("person", 3)
    said = " ".join(found.assumptions)
    assert "all records of one person (at most 3)" in said
    assert "checked on the records at hand" in said
    assert "every agent's number of records is public: it enters the sensitivity" in said
    stated = privacy.statement(made(), [found])["guarantees"][0]
    assert (stated["unit"], stated["records_per_person"]) == ("person", 3)


def test_a_batch_holds_at_most_all_records_of_a_person():
    for size, held in ((2, 2), (5, 3)):
        (found,) = guarantees(made(algorithm={"batch_size": size}))
        assert found.mu == pytest.approx(0.1 * (held * 2 / size) * math.sqrt(9) / 0.1)
        assert any("any record may be drawn in any round" in each for each in found.assumptions)


def test_noise_is_calibrated_for_persons_and_audited_as_such():
    experiment, observer = made(), sv.observers.eavesdropper()
    noise = privacy.calibrated(experiment, observer, epsilon=2.0, delta=1e-5)
    louder = dataclasses.replace(experiment, noise=noise)
    assert guarantees(louder)[0].epsilon(1e-5) == pytest.approx(2.0, rel=1e-5)
    found = audit_observer(louder, observer, pairs=60, confidence=0.99)
    assert found.passed
    assert found.computed_mu == pytest.approx(
        found.guarantee.mu
    )  # the canary's gradients differ by all of a person's records


def test_a_clipped_update_is_bounded_whatever_number_of_records_a_person_has():
    changes = {
        "topology": {"kind": "federation", "agents": 5},
        "algorithm": {"kind": "fedavg", "step_size": 0.1, "local_steps": 2},
        "privacy": {"clips": "update", "observers": ["server"]},
    }
    (found,) = guarantees(made(**changes))
    assert found.mu == pytest.approx(2.0 * math.sqrt(9) / 0.1)
    assert found.records_per_person == 3
    assert "at most 3 of them (checked on the records at hand)" in " ".join(found.assumptions)


# Units that the data contradict.


def test_persons_of_whom_the_file_says_nothing_cannot_be_protected():
    with pytest.raises(
        ConfigError, match=r'\[privacy\] unit: "person" .* does not say whom a record is about.*\[problem\] person'
    ):
        build(configured(privacy={"unit": "person"}))


def test_single_rows_of_persons_with_several_are_not_what_is_protected():
    with pytest.raises(ConfigError, match=r"one row, not one person.*Write unit = \"person\", or remove person"):
        made(unit="record")
    assert made(unit="agent").privacy.unit == "agent"


@pytest.mark.parametrize("participation", ["once", {"times": 2, "gap": 3}])
def test_rounds_without_a_record_are_promised_for_records_only(participation):
    with pytest.raises(
        ConfigError, match='unit is "person", whose records may enter different rounds; remove participation'
    ):
        configured(privacy={"unit": "person", "participation": participation})


OWN = {"kind": "linear_regression", "data": "rows.csv", "ridge": 0.1}
BUNDLED = {"kind": "logistic_regression", "data": "breast_cancer", "ridge": 0.1}


@pytest.mark.parametrize(
    ("table", "unit", "said"),
    [(OWN, "record", True), (OWN, "agent", False), (BASE["problem"], "record", False), (BUNDLED, "record", False)],
)
def test_one_row_is_not_called_a_person(table, unit, said):
    config = parse({**BASE, "problem": table, "privacy": {**BASE["privacy"], "unit": unit}}, source="test")
    premises = protection(config, regression()).premises
    assert (
        any("one row of the file, not one person, unless each person has one row" in each for each in premises) is said
    )


# In Python: comparisons hold the same numbers against the problem.


def regression(most=None, clip=1.0):
    generator = np.random.default_rng(1)
    problem = sv.problems.linear_regression(generator.normal(size=(4, 20, 2)), generator.normal(size=(4, 20)))
    problem = problem if clip is None else problem.with_clipping(clip, "l2")
    return problem if most is None else problem.with_persons(most)


def compared(problem, **changes):
    options = {"rounds": 2, "epsilons": [2.0], "delta": 1e-5, "progress": False, "unit": "person"} | changes
    parts = sv.topologies.ring(4), {"atc": sv.algorithms.atc(step_size=0.05)}
    return sv.compare(
        problem, *parts, {"scheme": sv.noise.independent(sv.noise.Gaussian(std=1.0))}, sv.observers.eavesdropper(), **options
    )  # fmt: skip


def test_a_comparison_takes_the_sensitivity_of_all_records_of_a_person_and_no_less():
    found = compared(regression(most=5), sensitivity=0.5)
    assert found.rows[0].possible
    assert any("for all records of one person (at most 5) of the agent" in note for note in found.notes)
    with pytest.raises(ConfigError, match=r"unit='person' with adjacency='replace' change 0\.5 in a round"):
        compared(regression(most=5), sensitivity=0.1)


@pytest.mark.parametrize("clip", [1.0, None])
def test_a_comparison_needs_to_know_of_persons(clip):
    with pytest.raises(ConfigError, match="says nothing of persons" if clip else "not clipped"):
        compared(regression(clip=clip), sensitivity=0.5)


def test_claims_about_whole_updates_need_to_know_of_persons_too():
    algorithm = sv.algorithms.fedavg(step_size=0.1, update_clip=sv.clipping.Clip(1.0, "l2"))
    claims, noise = Claims(unit="person", adjacency="replace"), sv.noise.central(sv.noise.Gaussian(std=1.0))
    assert claims.enforced(regression(most=5), algorithm, noise, norm="l2") == [2.0] * 4
    with pytest.raises(ConfigError, match="says nothing of persons"):
        claims.enforced(regression(), algorithm, noise, norm="l2")
