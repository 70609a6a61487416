"""`sottovoce deploy-local`: all parties as processes on this machine, against the simulation."""

import json

import pytest

from cli.test_party import FILE, NAMES
from cli.test_privacy_commands import PRIVACY


@pytest.mark.slow
def test_parties_end_where_the_simulation_does(sottovoce, small):
    small.write_text(small.read_text() + PRIVACY)
    told = sottovoce("deploy-local", small, "--out", "kept", "--json")
    assert told.exit_code == 0, told.output
    value = json.loads(told.stdout)
    assert len(value["parties"]) == 4
    assert 0 < value["difference_units"] <= value["bound_units"]
    assert value["releasable"] is False
    assert len(list((small.parent / "kept").glob("party-*/log.jsonl"))) == 4


@pytest.mark.slow
def test_with_secret_noise_nothing_is_compared_and_nothing_may_be_released(sottovoce, small):
    small.write_text(small.read_text() + PRIVACY)
    told = sottovoce("deploy-local", small, "--secret")
    assert told.exit_code == 0, told.output
    words = " ".join(told.stdout.split())
    assert "these models must not be released" in words
    assert "difference from the simulation" not in words
    assert all(len(line) <= 80 for line in told.stdout.splitlines())


@pytest.mark.slow
def test_owners_of_a_column_are_the_parties_that_the_agreement_names(sottovoce, tmp_path):
    rows = [f"{ward},{20 + 2 * k},{60 + k},{'yes' if k % 3 else 'no'}" for ward in NAMES for k in range(40)]
    (tmp_path / "all.csv").write_text("ward,age,pulse,ill\n" + "\n".join(rows) + "\n")
    (tmp_path / "wards.toml").write_text(FILE)
    # Parties keep no record aside, so that 40 of each are learnt from.
    told = sottovoce("deploy-local", "wards.toml", "problem.test_fraction=0.25", "--json")
    assert told.exit_code == 0, told.output
    value = json.loads(told.stdout)
    assert tuple(value["parties"]) == NAMES
    assert 0 < value["difference_units"] <= value["bound_units"]


def test_more_parties_than_a_machine_should_bear_are_refused(sottovoce, small):
    small.write_text(small.read_text() + PRIVACY)
    told = sottovoce("deploy-local", small, "topology.agents=40")
    assert told.exit_code == 2
    assert "at most 32" in told.stderr


MASKED = """
[experiment]
name = "masked"
rounds = 3
repeats = 1
seed = 5
[topology]
kind = "federation"
agents = 5
[problem]
kind = "logistic_regression"
data = "digits"
ridge = 0.001
[algorithm]
kind = "fedavg"
step_size = 0.5
aggregation = "gopa"
partners = "all"
[noise]
kind = "independent"
law = "gaussian"
std = 0.02
[privacy]
unit = "record"
clip = 1.0
clip_norm = "l2"
delta = 1e-5
observers = ["server"]
[deployment]
run = "masked"
roster = "roster.json"
fraction_bits = 26
collude = 1
time_limit = 60
"""


@pytest.mark.slow
def test_agents_board_and_beacon_end_where_the_simulation_does(sottovoce, tmp_path):
    file = tmp_path / "masked.toml"
    file.write_text(MASKED)
    told = sottovoce("deploy-local", file, "--out", "kept", "--json")
    assert told.exit_code == 0, told.output
    value = json.loads(told.stdout)
    assert value["parties"][-2:] == ["board", "beacon"]
    assert len(value["parties"]) == 7
    assert 0 < value["difference_units"] <= value["bound_units"]


@pytest.mark.slow
def test_a_board_is_shown_what_it_is_asked_for_and_needs_no_records(sottovoce, tmp_path):
    file = tmp_path / "masked.toml"
    file.write_text(MASKED)
    kept = tmp_path / "kept"
    assert sottovoce("deploy-local", file, "--out", kept, "--json").exit_code == 0
    given = ("--roster", kept / "roster.json", "--store", tmp_path / "new.ledger", "--json")
    told = sottovoce("party", "run", file, "--as", "board", "--keys", kept / "board" / "keys", *given)
    assert told.exit_code == 2
    value = json.loads(told.stdout)
    assert value["role"] == "board"
    assert "epsilon" not in value
    told = sottovoce("party", "run", file, "--as", "board", "--keys", kept / "board" / "keys", "--data", file, *given)
    assert told.exit_code == 2
    assert "is the board, which has no records" in told.stderr
