"""Everybody who has the file and the roster comes to the same agreement; another file or roster gives another."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.parties import COUNTS, HOSPITALS, ROSTER, Entry, config, tables, write_files
from sottovoce.deployment.identity import Roster, load_roster, new_identity, renew_identity
from sottovoce.deployment.terms import Agreement, differences
from sottovoce.errors import BudgetExhausted, ConfigError, IncompatibleChoice
from sottovoce.experiments import agreement, build, own_guarantee, own_problem, parse, public_parts
from sottovoce.experiments.privacy import sensitivities

RELAY = [*ROSTER, Entry("a-relay", "relay")]


def test_agents_are_numbered_by_their_names():
    made = agreement(config(), RELAY[:3])
    assert made.agents == HOSPITALS
    assert [member.key for member in made.members] == [Entry(name).identity_key.hex() for name in HOSPITALS]
    assert made.protection.records == (12, 20, 8)
    federated = agreement(config(topology={"kind": "federation"}, algorithm={"kind": "fedavg"}), RELAY)
    assert [(member.name, member.role) for member in federated.members][-1] == ("a-relay", "relay")


def test_the_order_of_a_roster_and_of_keys_does_not_matter():
    first = agreement(config(), ROSTER)
    turned = {name: dict(reversed(table.items())) for name, table in reversed(tables().items())}
    assert agreement(parse(turned, source="turned.toml"), ROSTER[::-1]).digest == first.digest
    assert Agreement.parse(first.canonical()) == first


def test_sensitivities_are_those_of_the_simulation_with_as_many_records():
    made = agreement(config(), ROSTER)
    assert made.protection.sensitivity == (2 / 12, 2 / 20, 2 / 8)
    assert (made.protection.norm, made.protection.same_model) == ("l2", True)
    laplace = agreement(config(noise={"law": "laplace"}), ROSTER).protection
    assert laplace.norm == "l1"
    np.testing.assert_allclose(laplace.sensitivity, np.array(made.protection.sensitivity) * np.sqrt(5))


def test_noise_of_an_epsilon_is_resolved():
    made = config(noise={"std": None, "epsilon": 2.0})
    parts = public_parts(made, names=HOSPITALS)
    agreed = agreement(made, ROSTER)
    assert agreed.noise.scale == parts.run.noise.std > 0
    assert sensitivities(parts.experiment) == list(agreed.protection.sensitivity)


@pytest.mark.parametrize("bits", [None, 24, 30])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_the_epsilon_of_a_file_holds_for_whoever_the_parties_fear(law, bits, tmp_path):
    files = write_files(tmp_path)
    made = config(
        noise={"std": None, "epsilon": 2.0, "law": law}, privacy={"clip_norm": "l1"}, deployment={"fraction_bits": bits}
    )
    parts, terms = public_parts(made, names=HOSPITALS), agreement(made, ROSTER)
    found = [
        own_guarantee(parts, own_problem(made, files[name], agent=name), agreement=terms, agent=name)
        for name in HOSPITALS
    ]
    epsilons = [each.guarantee.epsilon(1e-5) for each in found]
    assert 2.0 * (1 - 1e-3) <= max(epsilons) <= 2.0
    assert epsilons[2] == max(epsilons)  # the smallest hospital pays most
    assert "all other agents together" in found[0].guarantee.observer
    assert max(each.rounding for each in found) < 0.01


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_a_resolution_that_is_written_down_changes_no_number_of_an_epsilon(epsilon):
    def made(bits):
        return agreement(config(noise={"std": None, "epsilon": epsilon}, deployment={"fraction_bits": bits}), ROSTER)

    chosen = made(None)
    assert differences(chosen, made(chosen.fraction_bits)) == []


def test_the_budget_of_a_file_holds_against_whoever_the_parties_fear(tmp_path):
    files = write_files(tmp_path)
    needed = 0.0
    for budget in (100.0, 0.5):
        made = config(privacy={"budget": {"epsilon": budget, "observer": "eavesdropper"}})
        parts, terms, own = (
            public_parts(made, names=HOSPITALS),
            agreement(made, ROSTER),
            own_problem(made, files["bern"], agent="bern"),
        )
        if budget > 1:
            needed = own_guarantee(parts, own, agreement=terms, agent="bern").guarantee.epsilon(1e-5)
        else:
            with pytest.raises(
                BudgetExhausted, match=rf"all other agents together have epsilon = {needed:.4f}.*budget allows 0.5"
            ):
                own_guarantee(parts, own, agreement=terms, agent="bern")


def test_a_resolution_that_is_left_out_is_chosen_by_the_noise():
    def bits(std):
        return agreement(config(noise={"std": std}, deployment={"fraction_bits": None}), ROSTER).fraction_bits

    assert 20 <= np.log2(0.1 * 2 ** bits(0.1)) <= 28
    assert bits(0.1 / 16) == bits(0.1) + 4
    silent = config(noise={"kind": "none", "law": None, "std": None}, deployment={"fraction_bits": None})
    assert agreement(silent, ROSTER).fraction_bits == 24


def test_fewer_who_collude_change_no_noise_of_an_agent_s_own():
    def scale(**section):
        return agreement(config(noise={"std": None, "epsilon": 2.0}, deployment=section), ROSTER).noise.scale

    assert scale(collude=1) == scale()
    assert scale(releases="public") >= scale()


CHANGES = {
    "run": {"deployment": {"run": "autumn"}},
    "collude": {"deployment": {"collude": 1}},
    "releases": {"deployment": {"releases": "public"}},
    "releases to some": {"deployment": {"releases": ["bern"]}},
    "fraction_bits": {"deployment": {"fraction_bits": 27}},
    "time_limit": {"deployment": {"time_limit": 60}},
    "records": {"deployment": {"records": {**COUNTS, "bern": 19}}},
    "clip": {"privacy": {"clip": 1.5}},
    "clip_norm": {"privacy": {"clip_norm": "l1"}},
    "delta": {"privacy": {"delta": 1e-6}},
    "losses": {"privacy": {"losses": {"beta": 1.0}}},
    "step": {"algorithm": {"step_size": 0.1000001}},
    "rounds": {"experiment": {"rounds": 5}},
    "graph": {"topology": {"kind": "path"}},
    "bounds": {"problem": {"bounds": {"age": [0, 121], "creatinine": [0, 10]}}},
    "labels": {"problem": {"labels": ["yes", "no"]}},
    "missing": {"problem": {"missing": {"age": 50}}},
    "ridge": {"problem": {"ridge": 0.02}},
    "noise": {"noise": {"std": 0.2}},
    "batches": {"algorithm": {"batch_size": 2}, "deployment": {"records": None}},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES.keys())
def test_whatever_a_file_says_otherwise_is_seen(changes):
    first, second = agreement(config(), ROSTER), agreement(config(**changes), ROSTER)
    assert first.digest != second.digest
    assert differences(first, second)


def test_where_the_records_of_a_simulation_lie_is_nobody_else_s_business():
    elsewhere = config(
        problem={"data": "other.csv", "owner": "clinic", "test_fraction": 0.3},
        experiment={"repeats": 3, "name": "other"},
    )
    assert agreement(elsewhere, ROSTER).digest == agreement(config(), ROSTER).digest


def test_somebody_else_makes_another_agreement():
    class Impostor(Entry):
        identity_key = bytes(32)

    other = agreement(config(), [*ROSTER[:2], Impostor("bern")])
    assert [line.partition(":")[0] for line in differences(agreement(config(), ROSTER), other)] == ["members[1].key"]


def test_numbers_of_records_are_not_published_without_need():
    made = agreement(config(privacy={"unit": "agent"}, problem={"ridge": 0.0}, deployment={"records": None}), ROSTER)
    assert made.protection.records == ()
    assert b"20" not in made.canonical().split(b'"records":')[1][:10]
    with pytest.raises(ConfigError, match=r"\[deployment\] records: .* published without need; remove records"):
        config(privacy={"unit": "agent"}, problem={"ridge": 0.0})


def test_what_the_roster_lacks_is_told():
    with pytest.raises(ConfigError, match="beside the agents relay is needed, and nobody is there"):
        agreement(config(topology={"kind": "federation"}, algorithm={"kind": "fedavg"}), ROSTER)
    with pytest.raises(ConfigError, match="beside the agents nobody is needed, and relay is there"):
        agreement(config(), RELAY)
    with pytest.raises(ConfigError, match="releases names nobody, somebody twice, or somebody who is no member"):
        agreement(config(deployment={"releases": ["zug"]}), ROSTER)
    with pytest.raises(ConfigError, match="collude is 3"):
        agreement(config(deployment={"collude": 3}), ROSTER)
    with pytest.raises(ConfigError, match="role 'auditor'; known: agent, relay, board, beacon"):
        agreement(config(), [*ROSTER, Entry("x", "auditor")])
    with pytest.raises(ConfigError, match=r"\[deployment\]: this section is missing"):
        agreement(config(deployment=None, algorithm={"batch_size": 2}), ROSTER)


def test_masked_averages_need_a_board_and_a_beacon():
    masked = config(
        topology={"kind": "federation"}, algorithm={"kind": "fedavg", "aggregation": "gopa", "partners": "all"}
    )
    made = agreement(masked, [*ROSTER, Entry("board", "board"), Entry("beacon", "beacon")])
    assert made.learning.parameters["aggregation"]["partners"] == 2
    with pytest.raises(ConfigError, match="beside the agents board and beacon is needed, and relay is there"):
        agreement(masked, RELAY)


def test_a_resolution_under_masks_is_that_of_the_own_noise():
    masked = config(
        topology={"kind": "federation"}, algorithm={"kind": "fedavg", "aggregation": "gopa", "partners": "all"},
        noise={"std": 0.1}, deployment={"fraction_bits": None},
    )  # fmt: skip
    made = agreement(masked, [*ROSTER, Entry("board", "board"), Entry("beacon", "beacon")])
    assert 20 <= np.log2(made.noise.scale * 2**made.fraction_bits) <= 28


def test_a_graph_that_another_party_drew_is_taken_from_its_agreement():
    def drawn(seed):
        return config(topology={"kind": "geometric", "radius": 0.75, "seed": seed})

    graphs = {seed: agreement(drawn(seed), ROSTER) for seed in range(40) if _connected(drawn(seed))}
    theirs = next(each for each in graphs.values() if each.digest != graphs[min(graphs)].digest)
    mine = drawn(min(graphs))  # as if the same seed gave another graph here
    assert agreement(mine, ROSTER, agreed=theirs) == theirs
    taken = public_parts(mine, names=HOSPITALS, agreed=theirs).run.topology
    np.testing.assert_array_equal(taken.link_weights, theirs.learning.networks[0].rounds[0].weights)


def _connected(made):
    try:
        return public_parts(made, names=HOSPITALS) is not None
    except ConfigError:
        return False


def test_nothing_else_is_taken_from_another_party():
    theirs = agreement(config(), ROSTER)
    assert agreement(config(), ROSTER, agreed=theirs) == theirs
    with pytest.raises(
        ConfigError,
        match=r"not the one on this file and roster.*learning.parameters.step_size: 0.2 in the first, 0.1 in the second",
    ):
        agreement(config(algorithm={"step_size": 0.2}), ROSTER, agreed=theirs)
    with pytest.raises(ConfigError, match=r'another network than .topology. kind = "path"'):
        agreement(config(topology={"kind": "path"}), ROSTER, agreed=theirs)
    with pytest.raises(ConfigError, match=r'another network than .topology. kind = "ring"'):
        agreement(config(topology={"dropout": 0.1}), ROSTER, agreed=theirs)
    four = agreement(config(deployment={"records": {**COUNTS, "zug": 5}}), [*ROSTER, Entry("zug")])
    with pytest.raises(ConfigError, match="the agreement has 4 agents, and the file 3"):
        agreement(config(), ROSTER, agreed=four)


def test_the_walk_is_refused_with_its_reason():
    walk = config(topology={"kind": "complete", "walk": True}, algorithm={"kind": "random_walk"})
    with pytest.raises(IncompatibleChoice, match="everybody sees who sends to whom"):
        agreement(walk, ROSTER)


@pytest.mark.slow
def test_a_party_with_a_linear_model_comes_to_its_problem_and_agreement_without_jax(tmp_path):
    """In a process of its own, in which JAX cannot be imported."""
    tests = Path(__file__).parents[1]
    program = f"""
import sys
sys.modules["jax"] = None
sys.path.insert(0, {str(tests)!r})
from pathlib import Path
from experiments.parties import HOSPITALS, ROSTER, config, write_files
from sottovoce.experiments import agreement, own_problem, own_sensitivity, public_parts
files = write_files(Path({str(tmp_path)!r}))
made = config(noise={{"std": None, "epsilon": 2.0}})
own = own_sensitivity(public_parts(made, names=HOSPITALS), own_problem(made, files["bern"], agent="bern"), agreement=agreement(made, ROSTER), agent="bern")
print(float(own), "scipy.linalg" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("0.1 False", 0), done.stderr


def test_a_simulation_of_the_same_file_has_the_agreed_numbers(tmp_path):
    files = write_files(tmp_path)
    simulated = build(config(problem={"data": str(files["all"])}))
    agreed = agreement(config(), ROSTER)
    assert simulated.noise.std == agreed.noise.scale
    assert tuple(sensitivities(simulated)) == agreed.protection.sensitivity
    links = agreed.learning.networks[0].rounds[0]
    np.testing.assert_array_equal(links.weights, simulated.topology.link_weights)


def test_a_roster_of_signed_entries_names_the_members(tmp_path):
    keys = [
        new_identity(name, tmp_path, f"127.0.0.1:{7000 + number}")
        for number, name in enumerate(("chur", "basel", "bern"))
    ]
    roster = Roster.of([key.entry() for key in keys])
    roster.save(tmp_path / "roster.json")
    made = agreement(config(), load_roster(tmp_path / "roster.json"))
    assert made.agents == HOSPITALS
    assert {member.name: member.key for member in made.members} == {
        key.entry().name: key.entry().identity_key.hex() for key in keys
    }
    moved = roster.replaced(renew_identity("bern", tmp_path, address="127.0.0.1:9000").entry())
    assert agreement(config(), moved).digest == made.digest  # where a party listens is not agreed on
