"""The benchmark of designs runs at its smallest sizes and finds what was published."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_the_smallest_sizes_have_their_published_gains(tmp_path):
    out = tmp_path / "found.json"
    command = [sys.executable, BENCHMARKS / "noise_design.py", "--quick", "--json", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    readers, colluder = json.loads(out.read_text())
    assert readers["free_design"]["gain"] == pytest.approx(4.229, rel=2e-3)
    assert readers["pairs_design"]["gain"] == pytest.approx(4.078, rel=1e-3)
    assert colluder["pairs_design"]["gain"] == pytest.approx(3.300, rel=1e-3)
    for row in (readers, colluder):
        assert 0.0 <= row["pairs_design"]["gap"] < 1e-4
        assert row["pairs_over_free"] > 0.0
