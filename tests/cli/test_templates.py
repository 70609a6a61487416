"""Every template that `sottovoce new` writes runs as it is, and says what each observer learns."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from sottovoce.experiments import TEMPLATES

ROOT = Path(__file__).parents[2]
FEW = ("experiment.rounds=3", "experiment.repeats=1")


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_is_commented_and_runs_as_it_is(sottovoce, name, tmp_path):
    assert sottovoce("new", "mine.toml", "--template", name).exit_code == 0
    text = (tmp_path / "mine.toml").read_text()
    assert text.startswith("# ")
    result = sottovoce("run", "mine.toml", *FEW, "--json")
    assert result.exit_code == 0, result.stderr
    stated = json.loads(result.stdout)
    told = [row["epsilon"]["1e-05"] for row in stated["guarantees"]]
    assert len(told) >= len(tomllib.loads(text)["privacy"]["observers"])
    assert any(epsilon is not None for epsilon in told)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_without_noise_runs_with_one_word_on_the_command_line(sottovoce, name):
    sottovoce("new", "mine.toml", "--template", name)
    result = sottovoce("account", "mine.toml", "noise.kind=none", *FEW, "--json")
    assert result.exit_code == 0, result.stderr
    assert all(row["epsilon"]["1e-05"] is None for row in json.loads(result.stdout)["guarantees"])


def test_the_gossip_template_names_the_command_that_the_readme_shows(sottovoce):
    assert "sottovoce pairwise gossip.toml" in (ROOT / "README.md").read_text()
    assert "Next: sottovoce pairwise gossip.toml" in sottovoce("new", "gossip.toml", "--template", "gossip").stdout
    assert "Next: sottovoce deploy-local our.toml" in sottovoce("new", "our.toml", "--template", "parties").stdout


@pytest.mark.slow
def test_the_gossip_template_serves_the_command_that_the_readme_shows(sottovoce):
    sottovoce("new", "gossip.toml", "--template", "gossip")
    assert (
        sottovoce("pairwise", "gossip.toml", "experiment.rounds=2", "topology.rows=3", "topology.columns=5").exit_code
        == 0
    )


def test_an_unknown_template_is_refused_with_those_there_are(sottovoce, tmp_path):
    result = sottovoce("new", "mine.toml", "--template", "pears")
    assert result.exit_code == 2
    assert all(name in result.stderr for name in TEMPLATES)
    assert not (tmp_path / "mine.toml").exists()


def test_help_names_every_template(sottovoce):
    words = set(re.findall(r"\w+", sottovoce("new", "--help").stdout))
    assert set(TEMPLATES) <= words


def test_every_template_is_shipped():
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["sottovoce"]
    assert "experiments/starting/templates/*.toml" in shipped
    folder = ROOT / "src/sottovoce/experiments/starting/templates"
    assert {path.stem for path in folder.iterdir()} == set(TEMPLATES)


@pytest.mark.slow
def test_the_template_of_parties_is_rehearsed_as_it_is(sottovoce):
    sottovoce("new", "mine.toml", "--template", "parties")
    result = sottovoce("deploy-local", "mine.toml", *FEW, "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["releasable"] is False
    assert len(told["parties"]) == 6
