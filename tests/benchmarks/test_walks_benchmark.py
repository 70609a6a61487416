"""The benchmark of walks runs at a small size."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
def test_accounts_are_measured_beside_what_they_say(tmp_path):
    out = tmp_path / "found.json"
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "walks.py", "--quick", "--json", out], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert len(found["one pair"]) == 6
    for row in found["one pair"]:
        assert row["fine"]["epsilon"] <= row["gaps"]["epsilon"] * (1 + 1e-9)
    assert found["all pairs"]["wall"] > 0
    assert "kept" in done.stdout
