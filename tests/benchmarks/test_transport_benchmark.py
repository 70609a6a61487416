"""The benchmark of sealed messages runs at a small size, with processes of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["ring", "complete"])
def test_three_parties_hear_each_other(tmp_path, graph):
    out = tmp_path / "found.json"
    command = [
        sys.executable,
        BENCHMARKS / "transport.py",
        "--parties",
        "3",
        "--rounds",
        "5",
        "--graph",
        graph,
        "--json",
        out,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert 0 < found["round_ms"] <= found["slowest_party_ms"]
    assert 10 < found["memory_mb"] < 120  # neither JAX nor anything else that is heavy
    assert "round, median" in done.stdout
