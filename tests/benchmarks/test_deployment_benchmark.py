"""The benchmark of whole parties runs at a small size, with processes, keys, stores and sockets of its own. Nothing is said about time."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
def test_three_parties_are_measured_without_jax(tmp_path):
    out = tmp_path / "found.json"
    sizes = ["--parties", "3", "--parameters", "400", "--rounds", "4"]
    command = [sys.executable, BENCHMARKS / "deployment.py", "--only", "ring", *sizes, "--json", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())["ring"]
    assert (found["parties"], found["parameters"], found["jax_imported"]) == (3, 400, False)
    assert 0 < found["round_ms"] <= found["slowest_party_ms"]
    assert found["where_ms"]["commit"] > 0
    assert found["times_messages_alone"] == pytest.approx(found["round_ms"] / found["messages_alone_ms"])
    assert "load" in done.stdout
    assert "target" not in done.stdout  # other sizes than those that were asked for
    assert all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout


@pytest.fixture(scope="module")
def deployment():
    """The benchmark as a module; it imports its neighbours by name."""
    names = ("deployment", "deployment_party", "samplers", "store", "transport", "measure")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        for name in names:
            patch.delitem(sys.modules, name, raising=False)
        yield importlib.import_module("deployment")
        for name in names:
            sys.modules.pop(name, None)


def test_every_case_is_a_file_that_parties_can_run(deployment):
    from sottovoce.experiments import parse, public_parts

    for case in deployment.CASES.values():
        run = public_parts(parse(deployment.tables(case), source="the benchmark")).run
        assert (run.num_agents, run.exchanges) == (case.parties, 1)
        assert 0.95 * case.parameters <= run.dimension <= case.parameters


def test_a_missed_target_is_said(deployment):
    assert deployment.verdict(81.0, 80.0).endswith("missed")
    assert deployment.verdict(79.0, 80.0).endswith("reached")
    assert deployment.verdict(79.0, None) == ""
