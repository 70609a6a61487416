"""The benchmark runs, reports every case, and its routes agree. Nothing is said about time: the machine may be busy."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "accounting.py"
CASES = {"one_agent", "many_rounds", "many_agents", "eavesdropper", "all_pairs", "absorption"}
TIMES = {"s", "ms", "x", "MB"}
AGREEMENTS = {  # rows that compare two routes, or a value with its certificate
    "one_agent": 4,
    "many_rounds": 2,
    "many_agents": 2,
    "eavesdropper": 3,
    "all_pairs": 2,
    "absorption": 6,  # the quick graph has agents at distances 1 to 3
}


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    output = tmp_path_factory.mktemp("benchmark") / "accounting.json"
    # Several threads are asked for, and must not be used.
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    finished = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", "--output", str(output)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=environment,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout, json.loads(output.read_text())


def holds(row):
    sign, number = row["target"].split()
    return row["value"] < float(number) if sign == "<" else row["value"] >= float(number)


@pytest.mark.slow
def test_quick_benchmark_reports_every_case_on_one_thread(quick):
    printed, results = quick
    assert results["facts"]["quick"]
    assert results["facts"]["blas_threads"] == 1
    assert set(results["cases"]) == CASES
    for name, case in results["cases"].items():
        assert f"\n{name}: agents {case['setting']['agents']}" in printed
        for row in case["rows"]:
            assert row["what"] in printed
            assert row["value"] >= 0


@pytest.mark.slow
def test_routes_agree_in_the_quick_benchmark(quick):
    _, results = quick
    for name, case in results["cases"].items():
        judged = [row for row in case["rows"] if row["unit"] not in TIMES and row["target"] is not None]
        assert len(judged) == AGREEMENTS[name]
        for row in judged:
            assert holds(row), (name, row)
            assert row["reached"]


@pytest.mark.slow
def test_no_time_is_judged_in_the_quick_benchmark(quick):
    printed, results = quick
    timed = [
        row for case in results["cases"].values() for row in case["rows"] if row["unit"] in TIMES and row["target"]
    ]
    assert timed
    lines = {row["what"]: [line for line in printed.splitlines() if row["what"] in line] for row in timed}
    assert all(any(line.endswith("not judged") for line in found) for found in lines.values())
