"""The first section of docs/deployment.md, typed as it stands by three organisations in three folders, up to what they accept."""

import random
import re
import shutil
from pathlib import Path

import pytest

import sottovoce as package
from cli.test_own_keys import one_line

PAGE = (Path(package.__file__).parents[2] / "docs" / "deployment.md").read_text()
SECTION = PAGE.partition("## From keys to model, step by step")[2].partition("\n## ")[0]
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL) for line in block.splitlines()]
FILE = re.search(r"```toml\n(.*?)```", SECTION, re.DOTALL).group(1)
RECORDS = {"basel": 240, "bern": 200, "chur": 160}


def typed(sottovoce, monkeypatch, folder, start):
    """What the page tells this organisation to type with these first words, once."""
    (line,) = [line for line in COMMANDS if line.startswith(f"sottovoce {start}") and "--accept" not in line]
    monkeypatch.chdir(folder)
    words = line if start.startswith("roster") else line.replace("basel", folder.name)
    return sottovoce(*words.split()[1:])


def write_patients(path, count):
    draw = random.Random(5)
    rows = (f"{draw.randint(30, 90)},{draw.randint(90, 180)},{draw.choice(['yes', 'no'])},{draw.choice(['yes', 'no'])}\n" for _ in range(count))  # fmt: skip
    path.write_text("age,pressure,smoker,readmitted\n" + "".join(rows))


@pytest.fixture
def organisations(tmp_path):
    folders = [tmp_path / name for name in RECORDS]
    for folder in folders:
        folder.mkdir()
        (folder / "study.toml").write_text(FILE)
        write_patients(folder / "patients.csv", RECORDS[folder.name])
    return folders


def test_three_organisations_come_from_keys_to_one_digest(sottovoce, organisations, monkeypatch):
    for folder in organisations:
        assert typed(sottovoce, monkeypatch, folder, "keys new").exit_code == 0
    for sender in organisations:
        for receiver in organisations:
            shutil.copy(sender / "keys" / f"{sender.name}.entry.json", receiver)
    asked = []
    for folder in organisations:
        assert typed(sottovoce, monkeypatch, folder, "roster add").exit_code == 0
        assert sottovoce("check", "study.toml").exit_code == 0
        assert typed(sottovoce, monkeypatch, folder, "ledger create").exit_code == 0
        asked.append(typed(sottovoce, monkeypatch, folder, "party run"))
    assert [shown.exit_code for shown in asked] == [2, 2, 2], asked[0].output
    assert len({shown.stdout.split()[-1] for shown in asked}) == 1
    costs = [re.search(r"what it costs epsilon ([\d.]+)", one_line(shown.stdout)).group(1) for shown in asked]
    assert f"epsilon {costs[0]} for Basel, {costs[1]} for Bern, {costs[2]} for Chur" in one_line(SECTION)
