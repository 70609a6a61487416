"""What all parties know is made without data, and is the same as in a simulation."""

import io

import numpy as np
import pytest

from experiments.parties import COUNTS, HOSPITALS, config, write_files
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments import build, public_parts
from sottovoce.experiments.privacy import sensitivities

FEDERATION = {"kind": "federation"}
SAME = {
    "records": {},
    "by epsilon": {"noise": {"std": None, "epsilon": 1.5}},
    "by epsilon, laplace": {"noise": {"std": None, "epsilon": 1.5, "law": "laplace"}, "privacy": {"clip_norm": "l1"}},
    "agents": {"privacy": {"unit": "agent"}, "problem": {"ridge": 0.0}, "deployment": {"records": None}},
    "batches": {"algorithm": {"batch_size": 3}, "deployment": {"records": None}},
    "persons": {"problem": {"person": "id", "records_per_person": 2, "drop": None}, "privacy": {"unit": "person"}},
    "federation by records": {
        "topology": {**FEDERATION, "weights": "records"}, "algorithm": {"kind": "fedavg", "local_steps": 2}, "privacy": {"losses": {"beta": 3.0}},
    },
    "whole gradients": {"privacy": {"unit": "agent", "clips": "gradient"}, "deployment": {"records": None}},
    "whole updates": {
        "topology": FEDERATION, "algorithm": {"kind": "fedavg"}, "privacy": {"clips": "update", "unit": "agent"}, "deployment": {"records": None},
    },
    "squares": {"problem": {"kind": "linear_regression", "target": "age", "labels": None, "bounds": {"age": [0, 120], "creatinine": [0, 10]}, "drop": ["id", "ill"]}},
    "networks": {"problem": {"kind": "classification", "hidden": [3], "intercept": None, "ridge": 0.1}},
    "admm": {"topology": FEDERATION, "algorithm": {"kind": "inexact_admm", "penalty": 2.0, "step_size": None}},
    "random graph": {"topology": {"kind": "erdos_renyi", "probability": 0.9}},
    "drop-outs": {"topology": {"dropout": 0.2}},
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("hospitals"))


@pytest.mark.parametrize("changes", SAME.values(), ids=SAME.keys())
def test_public_parts_are_those_of_the_simulation(changes, files, request):
    parts = public_parts(config(**changes), names=HOSPITALS)
    problem = {**changes.get("problem", {}), "data": str(files["all"])}
    simulated = build(config(**{**changes, "problem": problem}))
    run = parts.run
    np.testing.assert_array_equal(run.topology.matrix, simulated.topology.matrix)
    assert run.topology.describe() == simulated.topology.describe()
    assert run.algorithm.describe() == simulated.algorithm.describe()
    # An epsilon is that of all others together, rounding included, where a simulation has an eavesdropper: the same noise, and a trifle more.
    assert (
        simulated.noise.std
        <= run.noise.std
        <= simulated.noise.std * (1 + (1e-3 if "by epsilon" in str(request.node.name) else 0))
    )
    assert {**run.noise.describe(run.rounds), "scale": 0} == {**simulated.noise.describe(run.rounds), "scale": 0}
    np.testing.assert_array_equal(run.initial_model, simulated.problem.initial_model)
    assert (run.rounds, run.batch_size) == (simulated.rounds, simulated.batch_size)
    assert sensitivities(parts.experiment) == sensitivities(simulated)
    assert parts.schema == simulated.schema
    assert parts.privacy.describe() == simulated.privacy.describe()


def test_no_party_s_file_is_opened(files, monkeypatch):
    opened, opening = [], io.open
    monkeypatch.setattr(
        io, "open", lambda file, *rest, **options: opened.append(file) or opening(file, *rest, **options)
    )
    made = config(problem={"data": str(files["all"])})
    parts = public_parts(made, names=HOSPITALS)
    assert (parts.run.dimension, parts.records) == (5, (12, 20, 8))
    assert files["all"] not in opened
    build(made)
    assert files["all"] in opened  # which shows that opening would have been noticed


def test_the_agreed_numbers_count_and_not_their_order():
    turned = dict(reversed(COUNTS.items()))
    parts = public_parts(config(deployment={"records": turned}), names=HOSPITALS)
    assert parts.records == (12, 20, 8)
    assert sensitivities(parts.experiment) == [2 / 12, 2 / 20, 2 / 8]


def test_fewer_agreed_records_take_more_noise():
    def std(records):
        section = {"noise": {"std": None, "epsilon": 1.0}, "deployment": {"records": {**COUNTS, "chur": records}}}
        return public_parts(config(**section), names=HOSPITALS).run.noise.std

    assert std(4) == pytest.approx(2 * std(8), rel=1e-5)


def test_files_that_are_listed_name_the_agents():
    listed = config(problem={"data": ["a/basel.csv", "b/bern.csv", "chur.csv"], "owner": None})
    assert public_parts(listed).names == HOSPITALS
    assert public_parts(listed).run.num_agents == 3
    turned = config(problem={"data": ["chur.csv", "basel.csv", "bern.csv"], "owner": None})
    with pytest.raises(ConfigError, match="in the order of the roster"):
        public_parts(turned, names=HOSPITALS)


def test_data_of_the_package_may_be_used_for_a_rehearsal():
    rehearsed = config(
        topology={"agents": 4},
        problem={"data": "breast_cancer", "owner": None, "target": None, "labels": None, "bounds": None, "categories": None, "drop": None, "test_fraction": 0.2},
        deployment={"records": None},
    )  # fmt: skip
    parts, simulated = public_parts(rehearsed, names=("a", "b", "c", "d")), build(rehearsed)
    assert sensitivities(parts.experiment) == sensitivities(simulated)
    assert parts.records == tuple(simulated.problem.sizes)
    with pytest.raises(ConfigError, match="has 4 agents, and 3 are named"):
        public_parts(rehearsed, names=HOSPITALS)


def test_what_does_not_apply_to_parties_is_said():
    assert public_parts(config(), names=HOSPITALS).notes == ()
    notes = public_parts(config(problem={"test_fraction": 0.2}), names=HOSPITALS).notes
    assert notes == ("A party learns from all records of its file: test_fraction of [problem] is for simulations.",)
    dealt = config(
        problem={"owner": None, "partition": {"kind": "iid"}, "test_fraction": 0.2, "drop": ["id", "hospital"]},
        topology={"agents": 3},
    )
    assert "partition and test_fraction of [problem] are" in public_parts(dealt, names=HOSPITALS).notes[0]


PLAIN = {"owner": None, "target": None, "labels": None, "bounds": None, "categories": None, "drop": None}
REFUSED = [
    ({"problem": PLAIN, "topology": {"agents": 3}}, ConfigError, "nothing is declared about its columns.*Declare them"),
    ({"problem": {**PLAIN, "data": "a.npz"}, "topology": {"agents": 3}}, ConfigError, "nothing is declared about its columns"),
    ({"deployment": {"records": None}}, ConfigError, r"\[deployment\] records: this key is missing"),
    ({"deployment": {"records": {"basel": 1, "bern": 2}}}, ConfigError, "has no number for 'chur'"),
    ({"deployment": {"records": {**COUNTS, "zug": 2}}}, ConfigError, "names 'zug', and the agents of the roster are basel, bern, chur"),
    ({"privacy": {"losses": "problem"}}, UnsupportedClaim, r"which nobody has\. Promise numbers.*beta = 0.25 \+ ridge"),
    ({"privacy": {"adjacency": "add-remove"}}, UnsupportedClaim, 'nothing is proved. Use "replace"'),
    ({"noise": {"kind": "local_graph_homomorphic", "std": None, "epsilon": 1.0}, "topology": {"kind": "complete"}}, UnsupportedClaim, "gives all other agents together a finite epsilon"),
    ({"privacy": {"participation": "once"}}, UnsupportedClaim, "uses its records in every round"),
    ({"noise": {"law": "l2_laplace", "std": None, "scale": 0.1}}, IncompatibleChoice, 'Use "gaussian" or "laplace"'),
    ({"topology": {"kind": "complete", "walk": True}, "algorithm": {"kind": "random_walk"}}, IncompatibleChoice, "a token walks"),
    ({"topology": {"agents": 4}}, ConfigError, "has 4 agents, and 3 are named: basel, bern, chur"),
    ({"algorithm": {"kind": "dgd", "gradient_rounds": 2}, "noise": {"self_noise": False}}, IncompatibleChoice, "sent in clear"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "error", "said"), REFUSED)
def test_what_cannot_be_known_or_kept_is_refused(changes, error, said):
    with pytest.raises(error, match=said):
        public_parts(config(**changes), names=HOSPITALS)


def test_without_a_roster_somebody_must_say_how_many_there_are():
    by_batches = {"algorithm": {"batch_size": 2}, "deployment": {"records": None}}
    with pytest.raises(ConfigError, match=r"\[topology\] agents: this key is missing.*or a roster"):
        public_parts(config(**by_batches))
    assert public_parts(config(**by_batches, topology={"agents": 5})).run.num_agents == 5
    assert public_parts(config()).run.num_agents == 3
    with pytest.raises(ConfigError, match=r"records has 3 names, and .topology. 4 agents"):
        public_parts(config(topology={"agents": 4}))


def test_a_file_without_a_word_on_privacy_is_refused():
    with pytest.raises(ConfigError, match=r"\[privacy\]: this section is missing"):
        public_parts(
            config(privacy=None, deployment=None, noise={"kind": "none", "law": None, "std": None}), names=HOSPITALS
        )
