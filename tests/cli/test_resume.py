"""A run killed without warning, or stopped by Ctrl-C, continues, bit for bit, when the same command is given again."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sottovoce import experiments
from sottovoce.experiments import load
from sottovoce.experiments.record import Record

# Where tests run in the background of a shell, signals of the keyboard are ignored and commands inherit that; at a terminal they are not.
LISTENS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
COMMAND = [sys.executable, "-c", f"{LISTENS}; from sottovoce.cli import main; main()", "run"]
LONG = ("experiment.rounds=3000", "experiment.chunk=10")


def start(config: Path, out: Path, **streams: int) -> subprocess.Popen[bytes]:
    command = [*COMMAND, str(config), *LONG, "--json", "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, **streams)


def kill_after_chunks(process: subprocess.Popen[bytes], out: Path, count: int) -> None:
    signal_after_chunks(process, out, count, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def signal_after_chunks(process: subprocess.Popen[bytes], out: Path, count: int, given: signal.Signals) -> None:
    deadline = time.monotonic() + 120
    while len(list(out.glob("chunks/*.safetensors"))) < count:
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, given)


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


@pytest.mark.slow
def test_interrupted_run_says_where_it_stopped_and_loses_nothing(small, tmp_path):
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    process = start(small, stopped, stderr=subprocess.PIPE)
    signal_after_chunks(process, stopped, 5, signal.SIGINT)
    said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130
    found = re.search(r"sottovoce: stopped after round ([\d,]+) of 3,000; the same command goes on from there\.", said)
    assert found, said
    chunks = sorted(int(path.stem) for path in stopped.glob("chunks/*.safetensors"))
    assert int(found.group(1).replace(",", "")) in chunks[-2:]  # a chunk counts once its checkpoint is written
    assert start(small, stopped).wait() == 0
    assert start(small, whole).wait() == 0
    for name, values in load(whole).metrics.items():
        np.testing.assert_array_equal(load(stopped).metrics[name], values)
    np.testing.assert_array_equal(load(stopped).models, load(whole).models)


@pytest.mark.parametrize(
    ("chunks", "said"),
    [
        (2, "stopped after round 10 of 12; the same command goes on from there."),
        (0, "stopped before the first of 12 rounds was stored; the same command starts again."),
    ],
)
def test_ctrl_c_has_its_own_exit_code_and_sentence(sottovoce, small, monkeypatch, chunks, said):
    real, done = Record.add_chunk, []

    def interrupted(self, *arguments, **rest):
        if len(done) == chunks:
            raise KeyboardInterrupt
        done.append(real(self, *arguments, **rest))

    monkeypatch.setattr(Record, "add_chunk", interrupted)
    result = sottovoce("run", small, "--out", "out")
    assert result.exit_code == 130
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    monkeypatch.setattr(Record, "add_chunk", real)
    assert sottovoce("run", small, "--out", "out").exit_code == 0


def test_ctrl_c_elsewhere_says_that_the_command_starts_again(sottovoce, small, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "gradient_norms", interrupted)
    result = sottovoce("gradients", small)
    assert result.exit_code == 130
    assert "stopped; the same command starts again." in result.stderr
