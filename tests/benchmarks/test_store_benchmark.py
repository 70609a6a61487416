"""The benchmark of the store runs at a small size."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_a_commit_is_measured_beside_a_bare_write(tmp_path):
    out = tmp_path / "found.json"
    words = ["--parameters", "2000", "--turns", "5", "--folder", tmp_path, "--json", out]
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "store.py", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())
    assert row["megabytes"] == 2000 * 4 * 8 / 1e6
    assert 0.0 < row["commit_ms"] <= row["commit_worst_ms"]
    assert row["bare_ms"] > 0.0
    assert "load" in done.stdout
