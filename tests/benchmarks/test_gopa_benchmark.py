"""The benchmark of GOPA runs at a small size and reaches its targets."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(tmp_path, *arguments):
    out = tmp_path / "found.json"
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "gopa.py", *arguments, "--json", out], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(out.read_text())


def test_the_variance_is_near_that_of_a_trusted_curator(tmp_path):
    text, found = run(tmp_path, "variance", "--parties", "300", "--entries", "4000", "--picks", "40")
    assert text.count("reached") == 2
    exact = {"5 % slack": 2 * 1.05**2, "uniform masks": 2.0}  # 1 / rho, times the slack
    for row in found:
        error = exact[row["name"]] * (2 / 4000) ** 0.5
        assert abs(row["times_central"] - exact[row["name"]]) < 4 * error
        assert abs(row["times_central"] - exact[row["name"]] * (2 / 3) ** 2) > 4 * error
        assert row["times_below_local"] * row["times_central"] == pytest.approx(300)
