"""The page on scikit-learn shows code that runs, prints what it says, and has no type errors."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "scikit-learn.md"


def code():
    return "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))


def test_the_code_prints_what_its_comments_say(capsys):
    exec(compile(code(), "scikit-learn.md", "exec"), {})
    said = [line.partition("  # ")[2] for line in code().splitlines() if line.startswith("print(")]
    assert capsys.readouterr().out.splitlines() == said
    assert len(said) == 5


@pytest.mark.slow
def test_the_code_has_no_type_errors(tmp_path):
    config = "[mypy]\nstrict = true\n[mypy-sklearn.*]\nignore_missing_imports = true\n"  # scikit-learn has no types
    (tmp_path / "mypy.ini").write_text(config)
    command = [sys.executable, "-m", "mypy", "--config-file", tmp_path / "mypy.ini", "--cache-dir", tmp_path / "cache"]
    for text, words in ((code(), "Success"), (code().replace("epsilon=1.0", "epsilon='1'"), "incompatible type")):
        (tmp_path / "page.py").write_text(text)
        done = subprocess.run([*command, tmp_path / "page.py"], capture_output=True, text=True, check=False)
        assert words in done.stdout, done.stdout
