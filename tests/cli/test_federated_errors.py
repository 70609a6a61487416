"""Bad input to federated learning: one clear sentence each, exit code 2, and nothing written."""

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import sottovoce as sv
from sottovoce.cli import app

FILE = """
[experiment]
name = "bad"
rounds = 3
[topology]
kind = "federation"
agents = 4
[problem]
kind = "logistic_regression"
data = "breast_cancer"
ridge = 0.01
[algorithm]
kind = "fedavg"
step_size = 0.1
[noise]
kind = "central"
law = "gaussian"
std = 0.1
[privacy]
unit = "agent"
clips = "update"
clip = 1.0
clip_norm = "l2"
delta = 1e-5
observers = ["curious_agent:0"]
"""


def outcome(tmp_path, monkeypatch, *overrides):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text(FILE)
    result = CliRunner().invoke(app, ["run", "bad.toml", *overrides])
    written = [path for path in tmp_path.rglob("*") if path.name != "bad.toml"]
    return result, written


def test_the_file_itself_runs(tmp_path, monkeypatch):
    result, written = outcome(tmp_path, monkeypatch)
    assert result.exit_code == 0, result.output
    assert any(path.name == "guarantees.json" for path in written)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["topology.agents=570"], "record"),  # more agents than records: somebody would have none
        (["privacy.clip=0"], "clip"),
        (["privacy.clip=-1.5"], "clip"),
        (["algorithm.participation=0"], "participation"),
        (["algorithm.participation=1.2"], "participation"),
        (["algorithm.agents_per_round=5"], "there are 4 agents"),
        (["algorithm.agents_per_round=0"], "agents_per_round"),
        (["algorithm.participation=0.5", "algorithm.agents_per_round=2"], "keep one"),
        (["algorithm.batch_size=400"], "batch_size"),
        (["algorithm={kind='atc', step_size=0.1}"], "fedavg"),
        (["privacy.losses=problem"], "need no promise"),
        (["privacy.participation=once"], "participation"),
        (["noise.kind=gradient"], 'clips = "records"'),
        (["topology={kind='ring', agents=4}"], "relay"),
        (["noise={kind='gopa', law='gaussian', std=1.0, pairwise_std=1.0}", "algorithm.participation=0.5"], "shared by pairs"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_one_paragraph_and_nothing_is_written(overrides, words, tmp_path, monkeypatch):
    result, written = outcome(tmp_path, monkeypatch, *overrides)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert not written


def test_an_agent_without_records_is_refused_in_python_too():
    with pytest.raises(sv.ConfigError, match="Agent 1"):
        sv.problems.logistic_regression([np.ones((3, 2)), np.ones((0, 2))], [np.ones(3), np.ones(0)], ridge=0.1)


def test_a_loss_that_is_no_number_stops_the_run_and_names_the_agent():
    def loss(w, batch):
        return jnp.mean((batch[0] @ w) ** 2) + jnp.where(batch[0].max() > 5, jnp.nan, 0.0)

    records = np.ones((3, 4, 2))
    records[2] = 9.0
    problem = sv.problems.custom_loss(loss, np.zeros(2), records)
    with pytest.raises(sv.Diverged, match=r"round 1, first at agent 2"):
        sv.simulate(
            problem,
            sv.topologies.federation(3),
            sv.algorithms.fedavg(step_size=0.1),
            sv.noise.none(),
            rounds=2,
            progress=False,
        )
