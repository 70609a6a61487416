from pathlib import Path

import pytest
from typer.testing import CliRunner

from sottovoce import reports
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


def undrawn(run: object, path: Path, **_: object) -> list[Path]:
    """The files of a figure without the second that it takes to draw it."""
    files = [Path(path), Path(path).with_suffix(".svg")]
    for each in files:
        each.touch()
    return files


@pytest.fixture
def sottovoce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run a command in an empty working directory; `run` draws nothing there (test_predict.py draws)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reports, "run_figure", undrawn)
    monkeypatch.setenv("COLUMNS", "80")

    def invoke(*arguments: object):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke
