"""`sottovoce relay` and `party run --relay`, as the operator of a relay and the members use them."""

import json
import shutil
import stat
import subprocess
import sys

import pytest

from cli.test_party import FILE, NAMES, wards, words_of  # noqa: F401  a fixture
from deployment.relays import Relay, free_port
from sottovoce.deployment.identity import load_roster
from sottovoce.deployment.relays import load_relay


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def roster(sottovoce, tmp_path):
    for number, name in enumerate(("east", "west")):
        made = sottovoce("keys", "new", name, "--address", f"127.0.0.1:{7500 + number}", "--folder", "keys")
        assert made.exit_code == 0, made.output
    assert sottovoce("roster", "add", "keys/east.entry.json", "keys/west.entry.json").exit_code == 0
    return tmp_path / "roster.json"


def test_a_relay_is_configured_opened_and_looked_at(sottovoce, roster, tmp_path):
    address = f"127.0.0.1:{free_port()}"
    made = sottovoce("relay", "config", "roster.json", "--address", address, "--out", "relay", "--json")
    assert made.exit_code == 0, made.output
    value = json.loads(made.stdout)
    relay = load_relay(tmp_path / "relay" / "relay.json")
    assert (relay.address, relay.fingerprint) == (address, value["fingerprint"])
    assert value["members"] == ["east", "west"]
    for name in ("relay.key", "operator.json", "nats.conf"):
        assert stat.S_IMODE((tmp_path / "relay" / name).stat().st_mode) == 0o600
    again = sottovoce("relay", "config", "roster.json", "--address", address, "--out", "relay")
    assert again.exit_code == 0
    assert load_relay(tmp_path / "relay" / "relay.json") == relay  # members need no other file
    assert all(group in again.stdout for group in relay.fingerprint.split())
    assert (
        "(cd relay && nats-server -c nats.conf)\nsottovoce relay open relay\n" in again.stdout
    )  # both from this folder
    assert max(map(len, again.stdout.splitlines())) <= 80

    refused = sottovoce("relay", "open", "relay")
    assert refused.exit_code == 2
    assert "cannot be reached" in one_line(refused.output)

    with Relay(tmp_path / "relay", load_roster(roster)) as running:
        looked = sottovoce("relay", "check", "relay")
        assert looked.exit_code == 0, looked.output
        found = json.loads(sottovoce("relay", "open", "relay", "--json").stdout)
        assert found["waiting"] == {"east": 0, "west": 0}
        assert found["removed"] == []
        if not found["fit"]:
            assert "must not be used" in one_line(looked.output)
        assert sottovoce("roster", "remove", "west").exit_code == 0
        shutil.copy(roster, running.folder / "roster.json")
        gone = json.loads(sottovoce("relay", "open", "relay", "--json").stdout)
        assert list(gone["waiting"]) == ["east"]
        assert len(gone["removed"]) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("close", "relay"), "does not exist; there are config, open, check"),
        (("config", "roster.json", "--out", "relay"), "needs --address"),
        (("config", "roster.json", "--address", "everywhere", "--out", "relay"), "host:port"),
        (("config", "none.json", "--address", "127.0.0.1:4222", "--out", "relay"), "cannot be read"),
        (("config", "roster.json", "--address", "127.0.0.1:4222", "--out", "relay", "--hours", "0"), "from 1 to"),
        (("open", "relay", "--hours", "3"), "--hours has no meaning"),
        (("open", "nowhere"), "has no operator.json"),
    ],
)
def test_what_a_relay_cannot_be_is_refused(sottovoce, roster, words, said):
    refused = sottovoce("relay", *words)
    assert refused.exit_code == 2
    assert said in one_line(refused.output)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--relay", "none.json"), "cannot be read"),
        (("--relay", "relay/relay.json", "--listen", "127.0.0.1:7777"), "--listen 127.0.0.1:7777 has no meaning"),
        (("--shape", "1000/1"), "is for messages over a relay"),
        (("--relay", "relay/relay.json", "--shape", "large"), "needs BYTES/SECONDS"),
        (("--relay", "relay/relay.json", "--shape", "10/1"), "from 256 to"),
        (("--relay", "relay/relay.json", "--shape", "1000/nan"), "cannot be sent"),
    ],
)
def test_what_a_party_cannot_do_with_a_relay_is_refused_before_anything_is_sent(
    sottovoce, roster, tmp_path, options, said
):
    made = sottovoce("relay", "config", "roster.json", "--address", "127.0.0.1:4222", "--out", "relay")
    assert made.exit_code == 0
    (tmp_path / "wards.toml").write_text(WARDS)
    (tmp_path / "east.csv").write_text("age,pulse,ill\n" + "31,60,yes\n52,80,no\n" * 20)
    assert sottovoce("ledger", "create", "east.ledger", "-u", "record", "-a", "replace", "-d", "1e-5", "--budget", "99").exit_code == 0  # fmt: skip
    refused = sottovoce(
        "party", "run", "wards.toml", "--data", "east.csv", "--as", "east", "-k", "keys", "-s", "east.ledger", *options
    )
    assert refused.exit_code == 2
    assert said in one_line(refused.output)


def test_a_member_is_shown_the_number_of_the_relay_it_was_given(sottovoce, wards):  # noqa: F811
    assert sottovoce("relay", "config", "roster.json", "-a", "127.0.0.1:4222", "--out", "relay").exit_code == 0
    number = load_relay(wards / "relay" / "relay.json").fingerprint
    asked = sottovoce(*words_of("east", "--relay", "relay/relay.json"))
    assert asked.exit_code == 2
    assert "talks over the relay 127.0.0.1:4222" in one_line(asked.stdout)
    assert all(group in asked.stdout for group in number.split())
    assert max(map(len, asked.stdout.splitlines())) <= 80
    assert "talks over" not in sottovoce(*words_of("east")).stdout


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(), ("--shape", "3000/0.02")])
def test_three_parties_learn_together_over_a_relay(sottovoce, wards, shape):  # noqa: F811
    digest = json.loads(sottovoce(*words_of("east", "--json")).stdout)["digest"]
    with Relay(wards / "relay", load_roster(wards / "roster.json")):
        more = ("--accept", digest, "--json", "--relay", "relay/relay.json", *shape)
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", "from sottovoce.cli import main; main()", *words_of(name, *more)],
                cwd=wards, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for name in NAMES
        ]  # fmt: skip
        for process in processes:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            assert err == ""  # nothing of the library either
            value = json.loads(out)
            assert value["unacknowledged"] == []
            assert (wards / value["folder"] / "model.safetensors").exists()


WARDS = FILE.replace("agents = 3", "agents = 2").replace("rounds = 6", "rounds = 2").replace("north = 40, ", "")
