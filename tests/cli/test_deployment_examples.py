"""The unit and the container file that come as examples: what they run exists with these options, and they keep what the page says of them."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from sottovoce.cli import app
from sottovoce.deployment.identity import load_identity, new_identity
from sottovoce.errors import ConfigError

FOLDER = Path(__file__).parents[2] / "examples" / "deployment"
UNIT, CONTAINER = FOLDER / "sottovoce-party.service", FOLDER / "Containerfile"


class Repeated(dict):
    """Keys of a unit may stand more than once: all values are kept."""

    def __setitem__(self, key, value):
        if isinstance(value, list) and key in self:
            value = self[key] + value
        super().__setitem__(key, value)


def unit() -> dict[str, list[str]]:
    """The section [Service]: key -> values."""
    parser = configparser.RawConfigParser(strict=False, dict_type=Repeated, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str
    parser.read_string(UNIT.read_text())
    assert parser.sections() == ["Unit", "Service", "Install"]
    return {key: value.split("\n") for key, value in parser["Service"].items()}


def instructions() -> list[tuple[str, str]]:
    """(instruction, rest) of the container file, continued lines joined."""
    text = "\n".join(line for line in CONTAINER.read_text().splitlines() if not line.startswith("#"))
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [tuple(line.split(None, 1)) for line in lines]


def check(words: list[str]) -> None:
    """Refuse a command line whose command does not exist, or does not know an option or lacks the value of one."""
    command = typer.main.get_command(app)
    while getattr(command, "commands", None):
        assert words[0] in command.commands, words[0]
        command, words = command.commands[words[0]], words[1:]
    with command.make_context("sottovoce", list(words), resilient_parsing=False) as context:
        assert context.params


def commands_in_comments(path: Path) -> list[list[str]]:
    """Lines of comments that people are told to type after the name of the image, as words for the entry point."""
    text = re.sub(r"\\\n#\s*", " ", path.read_text())
    return [shlex.split(found) for found in re.findall(r"sottovoce-party +(\S+\.toml .*)", text)]


def test_the_commands_of_the_unit_and_of_the_container_exist_with_these_options():
    (started,) = unit()["ExecStart"]
    program, *words = shlex.split(started)
    assert program == "/opt/sottovoce/bin/sottovoce"
    check(words)
    entry = json.loads(dict(instructions())["ENTRYPOINT"])
    assert entry == ["sottovoce", "party", "run"]
    (typed,) = commands_in_comments(CONTAINER)
    check([*entry[1:], *typed])
    check(["party", "status"])
    assert typed[typed.index("--health") + 1] == words[words.index("--health") + 1] == "127.0.0.1:9464"
    with pytest.raises(Exception, match="No such option"):
        check([*words, "--no-such-option"])


def test_the_unit_keeps_secrets_in_and_starts_again_only_what_a_start_can_mend():
    kept = {key: values[-1] for key, values in unit().items()}
    expected = {
        "NoNewPrivileges": "yes", "ProtectSystem": "strict", "PrivateTmp": "yes", "UMask": "0077", "LimitCORE": "0", "Restart": "on-failure",
        "RestartPreventExitStatus": "2 3", "SuccessExitStatus": "130 143", "KillSignal": "SIGTERM", "CapabilityBoundingSet": "",
        "StateDirectoryMode": "0700", "User": "sottovoce",
    }  # fmt: skip
    assert {key: kept[key] for key in expected} == expected
    assert "ExecStartPre" in kept
    assert kept["LoadCredential"].endswith(":/etc/sottovoce/basel.key.json")


def test_the_key_that_the_unit_hands_over_is_taken_by_a_party(tmp_path):
    new_identity("basel", tmp_path / "given", "127.0.0.1:7443")
    (tmp_path / "given" / "basel.key.json").chmod(0o440)  # as an access list makes it look
    with pytest.raises(ConfigError):
        load_identity("basel", tmp_path / "given")
    (tmp_path / "sottovoce").mkdir(mode=0o700)
    for line in unit()["ExecStartPre"]:
        subprocess.run(
            shlex.split(line.replace("%t", str(tmp_path)).replace("%d", str(tmp_path / "given"))), check=True
        )
    words = shlex.split(unit()["ExecStart"][0].replace("%t", str(tmp_path)))
    assert load_identity("basel", Path(words[words.index("--keys") + 1])).name == "basel"


def test_the_container_runs_as_nobody_special_and_asks_for_health():
    said = instructions()
    names = [name for name, _ in said]
    last = names.index("FROM", 1)
    final = dict(said[last:])
    assert final["FROM"].endswith("-slim")
    assert final["USER"] == "10001"
    assert final["VOLUME"] == "/data"
    assert "pip uninstall" in final["RUN"]
    assert not re.search(r"apt-get|gcc|build-essential|pip install", " ".join(rest for _, rest in said[last:]))
    assert "http://127.0.0.1:9464/health" in final["HEALTHCHECK"]
    code = json.loads(final["HEALTHCHECK"].partition("CMD")[2])[2]
    compile(code, "HEALTHCHECK", "exec")
    for path in re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINER.read_text(), re.MULTILINE):
        for each in path.split():
            assert (FOLDER.parents[1] / each).exists(), each


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_reads_the_unit_without_a_complaint(tmp_path):
    text = UNIT.read_text().replace("/opt/sottovoce/bin/sottovoce", sys.executable)
    copy = tmp_path / UNIT.name
    copy.write_text(text)
    told = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, timeout=60, check=False)
    said = [line for line in (told.stdout + told.stderr).splitlines() if UNIT.name in line]
    assert said == []
    copy.write_text(text.replace("RestrictSUIDSGID", "RestrictSUIDSGIT"))
    told = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, timeout=60, check=False)
    assert "RestrictSUIDSGIT" in told.stdout + told.stderr, "it would not notice"
