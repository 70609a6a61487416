"""The benchmark runs and reports every case. Nothing is said about time: the machine may be busy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "engine.py"
SCHEMES = {"none", "graph_homomorphic", "independent", "independent_gaussian"}


@pytest.mark.slow
def test_quick_benchmark_reports_every_case(tmp_path):
    output = tmp_path / "engine.json"
    finished = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", "--output", str(output)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    results = json.loads(output.read_text())
    assert results["facts"]["quick"]
    cases = results["cases"]
    assert set(cases) == {"reference", "many_of_both", "many_agents", "many_parameters"}
    assert set(cases["reference"]["agreement_with_theory"]) == {"engine", "batched", "loop"}
    assert set(cases["many_of_both"]["schemes"]) == set(cases["many_agents"]["schemes"]) == SCHEMES
    assert set(cases["many_parameters"]["schemes"]) == {"none", "graph_homomorphic"}
    for name, case in cases.items():
        assert name in finished.stdout
        assert case["peak_mb"]["engine"] > 0
