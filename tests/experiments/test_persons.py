"""unit = "person": what a file says of persons reaches every number, and a unit that the data contradict is refused."""

import dataclasses
import math
import pathlib

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.errors import ConfigError
from sottovoce.experiments import build, guarantees, parse, privacy
from sottovoce.experiments.audit import audit_observer
from sottovoce.experiments.claims import Claims
from sottovoce.experiments.protection import protection
from sottovoce.problems import Persons

BASE = {
    "experiment": {"name": "x", "rounds": 9, "seed": 5},
    "topology": {"kind": "ring"},
    "problem": {
        "kind": "linear_regression", "data": "visits.csv", "owner": "hospital", "person": "patient", "records_per_person": 3,
        "target": "cost", "bounds": {"age": [0, 100], "cost": [0, 9]}, "ridge": 0.1,
    },
    "algorithm": {"kind": "atc", "step_size": 0.1},
    "noise": {"kind": "independent", "law": "gaussian", "std": 0.1},
    "privacy": {"unit": "person", "clip": 1.0, "clip_norm": "l2", "delta": 1e-5, "observers": ["eavesdropper"]},
}  # fmt: skip
NOBODY = {"person": None, "records_per_person": None}


def visits(places=5, records=8, most=3):
    """Rows of a table: every hospital has eight visits, by two patients with three and one with two."""
    rows = [
        f"H{place},{place * 1000 + visit // most},{10 * visit},{(visit * 7 + place) % 10}"
        for place in range(places)
        for visit in range(records)
    ]
    return ["hospital,patient,age,cost", *rows]


@pytest.fixture(autouse=True)
def _in_a_folder_with_visits(tmp_path, monkeypatch):
    (tmp_path / "visits.csv").write_text("\n".join(visits()))
    monkeypatch.chdir(tmp_path)


def configured(**changes):
    """The configuration with these keys changed; None removes a key."""
    data = {section: {**table, **changes.get(section, {})} for section, table in BASE.items()}
    kept = {name: {key: value for key, value in table.items() if value is not None} for name, table in data.items()}
    return parse(kept, source="test")


def made(**changes):
    return build(configured(**changes))


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
        "topology": {"kind": "federation"},
        "algorithm": {"kind": "fedavg", "step_size": 0.1, "local_steps": 2},
        "privacy": {"clips": "update", "observers": ["server"]},
    }
    (found,) = guarantees(made(**changes))
    assert found.mu == pytest.approx(2.0 * math.sqrt(9) / 0.1)
    assert found.records_per_person == 3
    assert "at most 3 of them (checked on the records at hand)" in " ".join(found.assumptions)


def test_where_persons_come_and_go_the_other_records_are_the_same():
    (found,) = guarantees(made(privacy={"adjacency": "add-remove"}))
    assert found.mu == guarantees(made())[0].mu
    assert any("which other records an agent learns from is the same" in each for each in found.assumptions)
    assert not any("which other records" in each for each in guarantees(made())[0].assumptions)


# Units that the data contradict.


def test_persons_of_whom_the_file_says_nothing_cannot_be_protected():
    with pytest.raises(
        ConfigError,
        match=r'\[privacy\] unit: "person" .* does not say whom a record is about; name the column in person',
    ):
        configured(problem=NOBODY)


def test_single_rows_of_persons_with_several_are_not_what_is_protected():
    with pytest.raises(ConfigError, match=r"one row, not one person.*write unit = \"person\", or remove person"):
        configured(privacy={"unit": "record"})
    assert made(privacy={"unit": "agent"}).privacy.unit == "agent"


def test_the_records_kept_for_testing_are_nobodys_of_those_learnt_from():
    labelled = {
        "kind": "logistic_regression",
        "target": "ill",
        "positive": 1,
        "bounds": {"age": [0, 100]},
        "drop": ["cost"],
    }
    header, *rows = visits(records=12)
    text = "\n".join([f"{header},ill", *(f"{row},{place % 2}" for place, row in enumerate(rows))])
    pathlib.Path("visits.csv").write_text(text)
    experiment = made(problem=labelled | {"test_fraction": 0.25})
    assert (
        experiment.problem.sizes.tolist() == [9] * 5
    )  # one of four patients of each hospital is kept apart, with three visits
    assert experiment.problem.persons == Persons(3, checked=True)
    assert guarantees(experiment)[0].mu == pytest.approx(0.1 * (3 * 2 / 9) * math.sqrt(9) / 0.1)


@pytest.mark.parametrize(
    ("change", "said"),
    [(("1002", "1001"), "have more than records_per_person = 3"), (("1002", "2002"), "more than one owner")],
)
def test_a_file_in_which_persons_are_not_as_declared_is_refused(change, said):
    pathlib.Path("visits.csv").write_text("\n".join(visits()).replace(f"H1,{change[0]}", f"H1,{change[1]}"))
    with pytest.raises(ConfigError, match=said) as refused:
        made()
    assert change[1] not in str(refused.value)


@pytest.mark.parametrize("participation", ["once", {"times": 2, "gap": 3}])
def test_rounds_without_a_record_are_promised_for_records_only(participation):
    with pytest.raises(
        ConfigError, match='unit is "person", whose records may enter different rounds; remove participation'
    ):
        configured(privacy={"participation": participation})


MADE = {"kind": "linear_regression", "data": "synthetic", "samples": 8, "dimension": 2, "ridge": 0.1}
BUNDLED = {"kind": "logistic_regression", "data": "breast_cancer", "ridge": 0.1}


@pytest.mark.parametrize(
    ("table", "unit", "said"),
    [
        (BASE["problem"] | NOBODY, "record", True),
        (BASE["problem"] | NOBODY | {"owner": None, "data": ["a.csv", "b.csv"]}, "record", True),
        (BASE["problem"], "agent", False),
        (BASE["problem"], "person", False),
        (MADE, "record", False),
        (BUNDLED, "record", False),
    ],
)  # fmt: skip
def test_one_row_is_not_called_a_person(table, unit, said):
    agents = {} if "bounds" in table else {"agents": 5}
    problem = {key: value for key, value in table.items() if value is not None}
    changed = {"problem": problem, "privacy": BASE["privacy"] | {"unit": unit}, "topology": BASE["topology"] | agents}
    premises = protection(parse(BASE | changed, source="test"), regression()).premises
    assert (
        any("one row of the file, not one person, unless each person has one row" in each for each in premises) is said
    )


def test_whoever_reads_an_epsilon_reads_what_is_protected():
    persons, rows = made(), made(problem=NOBODY | {"drop": ["patient"]}, privacy={"unit": "record"})
    sentence = "All records of one person are protected together: at most 3, all at one agent; how many each has, and at which agent, is public."
    assert sentence in privacy.statement(persons, guarantees(persons))["notes"]
    (row,) = [note for note in privacy.statement(rows, guarantees(rows))["notes"] if "one row of the file" in note]
    assert row in privacy.protection_notes(rows)


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


def test_who_is_learnt_from_does_not_depend_on_what_somebody_is_called():
    """A person is replaced by another, with another name: were all others sorted behind it, they would move between learning and testing."""

    def features(name):
        rows = visits(records=60)
        named = [row.replace("H0,0,", f"H0,{name},") for row in rows]
        pathlib.Path("visits.csv").write_text("\n".join(named))
        return made(problem={"test_fraction": 0.5, "bounds": {"age": [0, 600], "cost": [0, 9]}}).problem.arrays[
            "features"
        ]

    np.testing.assert_array_equal(features("#1"), features("zoe"))
