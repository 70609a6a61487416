from pathlib import Path

import pytest
from typer.testing import CliRunner

from sottovoce.cli import app

SMALL = """
# a comment that must survive
[experiment]
name = "small"
rounds = 12
repeats = 3
chunk = 5
[topology]
kind = "ring"
agents = 4
[problem]
kind = "linear_regression"
data = "synthetic"
samples = 6
dimension = 2
ridge = 0.1
[algorithm]
kind = "atc"
step_size = 0.1
batch_size = 2
[noise]
kind = "independent"
law = "gaussian"
std = 0.1
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def sottovoce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run a command in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def invoke(*arguments: object):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke
