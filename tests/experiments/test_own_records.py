"""A party reads its own records as a simulation of all of them would, and holds what they can change against the agreement."""

import dataclasses

import numpy as np
import pytest

from experiments.parties import COUNTS, HOSPITALS, ROSTER, Entry, config, write_files
from sottovoce.errors import ConfigError
from sottovoce.experiments import agreement, build, own_problem, own_sensitivity, public_parts

KINDS = {
    "logistic": {},
    "persons": {"problem": {"person": "id", "records_per_person": 2, "drop": None}, "privacy": {"unit": "person"}},
    "squares": {"problem": {"kind": "linear_regression", "target": "age", "labels": None, "drop": ["id", "ill"]}},
    "network": {"problem": {"kind": "classification", "hidden": [3], "intercept": None, "ridge": 0.1}},
    "several classes": {"problem": {"kind": "classification", "hidden": [3], "intercept": None, "ridge": 0.1, "labels": ["no", "yes", "perhaps"]}},
    "whole gradients": {"privacy": {"unit": "agent", "clips": "gradient"}, "deployment": {"records": None}},
    "points": {"problem": {"kind": "mean_estimation", "radius": 1.0, "target": None, "labels": None, "drop": ["id", "ill"], "ridge": None, "intercept": None}},
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("hospitals"))


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS.keys())
def test_each_party_has_its_part_of_what_a_simulation_has(changes, files):
    made = config(**{**changes, "problem": {**changes.get("problem", {}), "data": str(files["all"])}})
    together = build(made).problem
    for agent, name in enumerate(HOSPITALS):
        alone = own_problem(made, files[name], agent=name)
        assert alone.num_agents == 1
        assert alone.sizes.tolist() == [COUNTS[name]]
        assert alone.clip == together.clip
        np.testing.assert_array_equal(alone.initial_model, together.initial_model)
        model = together.initial_model + 0.1
        share = own_problem(made, None, agent=name)
        for problem in (alone, share):
            own = {key: value[0] for key, value in problem.arrays.items()}
            theirs = {key: value[agent] for key, value in together.arrays.items()}
            np.testing.assert_allclose(
                problem.gradient(model, own), together.gradient(model, theirs), rtol=1e-12, atol=1e-15
            )


def test_a_party_whose_records_are_of_one_class_learns_too(files):
    alone = own_problem(config(), files["chur"], agent="chur")
    assert set(alone.arrays["targets"][0]) == {1.0}


def test_all_records_of_one_class_are_a_mistake_in_a_simulation(files):
    with pytest.raises(ConfigError, match="both classes"):
        build(config(problem={"data": [str(files["chur"])], "owner": None}, topology={"kind": "federation"}))


def test_a_party_uses_all_its_records(files):
    made = config(problem={"test_fraction": 0.5})
    assert own_problem(made, files["bern"], agent="bern").sizes.tolist() == [20]


def test_a_party_with_the_records_of_others_is_stopped(files):
    with pytest.raises(ConfigError, match=r"records of 3 owners in its column 'hospital'.*rows of one owner"):
        own_problem(config(), files["all"], agent="basel")
    with pytest.raises(ConfigError, match="names 4 files; a party has one"):
        own_problem(config(), files["all"].parent, agent="basel")


def test_columns_are_read_as_declared(files):
    with pytest.raises(ConfigError, match="nothing is declared about this column"):
        own_problem(config(problem={"categories": None}), files["basel"], agent="basel")
    with pytest.raises(ConfigError, match="none of the declared labels"):
        own_problem(config(problem={"labels": ["ja", "nein"]}), files["basel"], agent="basel")


def test_a_batch_must_be_filled(files):
    made = config(algorithm={"batch_size": 9}, deployment={"records": None})
    assert own_problem(made, files["basel"], agent="basel").num_agents == 1
    with pytest.raises(ConfigError, match=r"batch_size = 9, and chur has 8 record\(s\)"):
        own_problem(made, files["chur"], agent="chur")


PACKAGE = {
    "topology": {"agents": 4},
    "problem": {
        "data": "breast_cancer",
        **dict.fromkeys(("owner", "target", "labels", "bounds", "categories", "drop")),
    },
    "deployment": {"records": None},
}


def test_the_share_of_a_rehearsal_is_what_the_simulation_deals_out():
    made = config(**{**PACKAGE, "problem": {**PACKAGE["problem"], "test_fraction": 0.2}})
    together = build(made).problem
    for agent in range(4):
        share = own_problem(made, None, agent=agent)
        np.testing.assert_array_equal(
            share.arrays["features"][0], together.arrays["features"][agent, : together.sizes[agent]]
        )
    with pytest.raises(ConfigError, match="there is no agent 4"):
        own_problem(made, None, agent=4)
    with pytest.raises(ConfigError, match=r"name no agent 'basel'.*Give its number, from 0 to 3"):
        own_problem(made, None, agent="basel")
    with pytest.raises(ConfigError, match="nothing is declared about its columns"):
        own_problem(made, "mine.csv", agent="basel")


def test_every_party_of_a_rehearsal_counts_the_classes_of_all():
    network = {
        "kind": "classification",
        "data": "digits_classes",
        "hidden": [2],
        "intercept": None,
        "partition": {"kind": "by_label", "labels_per_agent": 1},
    }
    made = config(
        topology={"kind": "ring", "agents": 10}, problem={**PACKAGE["problem"], **network}, deployment={"records": None}
    )
    dimensions = {own_problem(made, None, agent=agent).dimension for agent in range(3)}
    assert dimensions == {public_parts(made).run.dimension}


def agreed(**changes):
    made = config(**changes)
    return made, public_parts(made, names=HOSPITALS), agreement(made, ROSTER)


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS.keys())
def test_a_party_finds_what_was_agreed_on(changes, files):
    made, parts, terms = agreed(**changes)
    for number, name in enumerate(HOSPITALS):
        found = own_sensitivity(parts, own_problem(made, files[name], agent=name), agreement=terms, agent=name)
        assert float(found) == terms.protection.sensitivity[number]
        assert (found.unit, found.adjacency, found.norm) == (made.privacy.unit, "replace", "l2")


def test_more_records_than_agreed_change_less(files):
    made, parts, terms = agreed(deployment={"records": {**COUNTS, "chur": 4}})
    found = own_sensitivity(parts, own_problem(made, files["chur"], agent="chur"), agreement=terms, agent="chur")
    assert found == 2 / 8
    assert terms.protection.sensitivity[2] == 2 / 4


def test_fewer_records_than_agreed_are_refused(files):
    made, parts, terms = agreed(deployment={"records": {**COUNTS, "chur": 9}})
    with pytest.raises(
        ConfigError, match=r"counts on at least 9 records of chur, and its file has 8.*Agree on chur = 8 or less"
    ):
        own_sensitivity(parts, own_problem(made, files["chur"], agent="chur"), agreement=terms, agent="chur")


def test_a_smaller_change_than_a_party_finds_is_refused(files):
    made, parts, terms = agreed()
    less = dataclasses.replace(terms.protection, sensitivity=(2 / 12, 2 / 20, 0.2499))
    wrong = dataclasses.replace(terms, protection=less)
    with pytest.raises(
        ConfigError,
        match=r"one record of chur changes at most 0.2499 .l2. in a round, and with its 8 record.s. it is 0.25",
    ):
        own_sensitivity(parts, own_problem(made, files["chur"], agent="chur"), agreement=wrong, agent="chur")
    with pytest.raises(ConfigError, match="no agent of the run"):
        own_sensitivity(parts, own_problem(made, files["chur"], agent="chur"), agreement=terms, agent="zug")


def test_updates_that_are_clipped_as_a_whole_change_by_their_clip(files):
    made = config(
        topology={"kind": "federation"}, algorithm={"kind": "fedavg", "local_steps": 3}, privacy={"clips": "update", "unit": "agent"},
        deployment={"records": None},
    )  # fmt: skip
    parts, terms = public_parts(made, names=HOSPITALS), agreement(made, [*ROSTER, Entry("relay", "relay")])
    found = own_sensitivity(parts, own_problem(made, files["chur"], agent="chur"), agreement=terms, agent="chur")
    assert found == 2.0
    assert found.compares == "any two models"


PLAIN = dict.fromkeys(("owner", "target", "labels", "bounds", "categories", "drop"))


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("arrays"), np.random.default_rng(0)
    for name in HOSPITALS:
        labels = np.ones(COUNTS[name]) if name == "chur" else random.integers(0, 2, COUNTS[name])
        np.savez(folder / f"{name}.npz", features=random.uniform(-1, 5, (COUNTS[name], 4)), targets=labels)
    return folder


@pytest.mark.parametrize(
    "problem",
    [
        {"intercept": True, "unit_norm": True, "bounds": [0.0, 4.0]},
        {"kind": "linear_regression"},
        {"kind": "classification", "hidden": [2], "intercept": None, "classes": 3},
        {"kind": "classification", "model": "cnn", "hidden": [1], "intercept": None, "classes": 2},
    ],
)
def test_files_of_plain_numbers_need_the_number_of_features_alone(problem, arrays):
    files = [str(arrays / f"{name}.npz") for name in HOSPITALS]
    made = config(problem={**PLAIN, **problem, "data": files}, deployment={"features": 4})
    parts, together, terms = public_parts(made, names=HOSPITALS), build(made).problem, agreement(made, ROSTER)
    assert parts.run.dimension == together.dimension
    for agent, (name, file) in enumerate(zip(HOSPITALS, files, strict=True)):
        alone = own_problem(made, file, agent=name)
        for key in ("features", "targets"):
            np.testing.assert_array_equal(alone.arrays[key][0], together.arrays[key][agent, : COUNTS[name]])
        assert own_sensitivity(parts, alone, agreement=terms, agent=name) == 2 / COUNTS[name]


def test_files_of_plain_numbers_of_another_kind_are_refused(arrays, files):
    base = {**PLAIN, "data": ["basel.npz", "bern.npz", "chur.npz"]}
    made = config(problem=base, deployment={"features": 5})
    with pytest.raises(ConfigError, match=r"has 4 features, and \[deployment\] features = 5"):
        own_problem(made, arrays / "bern.npz", agent="bern")
    with pytest.raises(ConfigError, match="no party's own file of plain numbers"):
        own_problem(made, "breast_cancer", agent="bern")
    with pytest.raises(ConfigError, match="no party's own file of plain numbers"):
        own_problem(made, {"a": [1.0]}, agent="bern")
    with pytest.raises(ConfigError, match=r"\[problem\] classes: this key is missing"):
        public_parts(
            config(problem={**base, "kind": "classification", "intercept": None}, deployment={"features": 4}),
            names=HOSPITALS,
        )
    with pytest.raises(ConfigError, match="feature_noise makes agents of a study differ"):
        public_parts(config(problem={**base, "feature_noise": [0.0, 0.1]}, deployment={"features": 4}), names=HOSPITALS)
    with pytest.raises(ConfigError, match="features: the number of features is known"):
        config(deployment={"features": 4})
