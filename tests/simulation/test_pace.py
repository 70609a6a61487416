"""Chunks start with one round and grow to about a second; the bar says how far a run is and how long it still takes."""

import io
import os
import pty
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.simulation import Settings, chunks
from sottovoce.simulation.pace import GROWTH, MOMENT, next_rounds
from sottovoce.simulation.progress import _left, _speed, round_bar, working_on


@given(st.integers(1, 512), st.floats(0, 100), st.integers(1, 512))
def test_the_next_chunk_takes_a_moment_grows_slowly_and_has_a_round(rounds, seconds, most):
    found = next_rounds(rounds, seconds, most=most)
    assert 1 <= found <= min(most, GROWTH * rounds)
    assert found == 1 or found * seconds / rounds <= MOMENT * (1 + 1e-9)


def test_chunks_begin_with_one_round_and_the_numbers_are_those_of_any_other_division():
    topology = sv.topologies.ring(3)
    features, targets, _ = sv.problems.synthetic_regression(num_agents=3, samples=4, dimension=2, seed=1)
    problem = sv.problems.linear_regression(features, targets, ridge=0.1)
    parts = ({"a": sv.algorithms.atc(step_size=0.1)}, {"n": sv.noise.none()})
    ends = [part.round for part in chunks(problem, topology, *parts, Settings(rounds=100))]
    assert ends[0] == 1
    assert ends[-1] == 100
    assert len(ends) < 100  # they grow
    fixed = [part.round for part in chunks(problem, topology, *parts, Settings(rounds=100, chunk=40))]
    assert fixed == [40, 80, 100]


@pytest.mark.parametrize(
    ("seconds", "said"), [(None, ""), (5.2, "0:05 left"), (65, "1:05 left"), (3725, "1:02:05 left")]
)
def test_time_left_is_said_in_words(seconds, said):
    assert _left(seconds) == said


@pytest.mark.parametrize(("speed", "said"), [(None, "compiling"), (0.123, "0.12 rounds/s"), (1234.5, "1234 rounds/s")])
def test_speed_is_said_in_words(speed, said):
    assert _speed(speed) == said


def test_nothing_is_drawn_where_there_is_no_terminal(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with working_on("working", shown=True), round_bar(10) as advance:
        advance(10)
    assert stream.getvalue() == ""


def test_the_bar_says_rounds_and_time_left_within_80_columns():
    program = """
import time
from sottovoce.simulation.progress import round_bar
with round_bar(500) as advance:
    for done in (10, 20, 30, 40, 50):
        time.sleep(0.12)
        advance(done)
"""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    try:
        subprocess.run([sys.executable, "-c", program], env=environment, stderr=theirs, check=True, timeout=60)
        os.set_blocking(ours, False)
        shown = os.read(ours, 100_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    frames = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame) for frame in re.split(r"[\r\n]", shown)]
    assert any(re.search(r"[1-5]0/500 rounds \d+ rounds/s 0:0\d left", frame) for frame in frames), frames
    assert max(map(len, frames)) <= 80
