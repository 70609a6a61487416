"""A run killed without warning continues, bit for bit, when the same command is given again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sottovoce.experiments import load

COMMAND = [sys.executable, "-c", "from sottovoce.cli import main; main()", "run"]
LONG = ("experiment.rounds=3000", "experiment.chunk=10")


def start(config: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, str(config), *LONG, "--json", "--out", str(out)], stdout=subprocess.DEVNULL)


def kill_after_chunks(process: subprocess.Popen[bytes], out: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while len(list(out.glob("chunks/*.safetensors"))) < count:
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_killed_run_resumes_to_the_same_numbers(small, tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    seen = 0
    for _ in range(2):
        kill_after_chunks(start(small, killed), killed, seen + 5)
        assert json.loads((killed / "run.json").read_text())["status"] == "running"
        seen = len(list(killed.glob("chunks/*.safetensors")))
    assert 0 < seen < 300
    assert start(small, killed).wait() == 0
    assert start(small, whole).wait() == 0
    resumed, uninterrupted = load(killed), load(whole)
    assert resumed.metrics.keys() == uninterrupted.metrics.keys()
    for name, values in uninterrupted.metrics.items():
        assert values.shape == (3, 3000)
        np.testing.assert_array_equal(resumed.metrics[name], values)
    np.testing.assert_array_equal(resumed.models, uninterrupted.models)
    assert (killed / "metrics.csv").read_bytes() == (whole / "metrics.csv").read_bytes()
