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
