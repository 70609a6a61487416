"""An experiment gives the same numbers from a file, from Python, in one go or in pieces."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sottovoce.errors import ConfigError, Diverged
from sottovoce.experiments import build, default_folder, load, parse, run_experiment, save, simulate, trajectory
from sottovoce.experiments.record import Record

DATA = {
    "experiment": {"name": "x", "rounds": 23, "repeats": 2, "seed": 5, "chunk": 5},
    "topology": {"kind": "ring", "agents": 4, "dropout": 0.2},
    "problem": {"kind": "linear_regression", "data": "synthetic", "samples": 6, "dimension": 2, "ridge": 0.1},
    "algorithm": {"kind": "atc", "step_size": 0.1, "batch_size": 2},
    "noise": {"kind": "independent", "law": "gaussian", "std": 0.1},
}
CONFIG = parse(DATA, source="test")


def assert_same(first, second):
    assert first.metrics.keys() == second.metrics.keys()
    for name in first.metrics:
        np.testing.assert_array_equal(first.metrics[name], second.metrics[name])
    np.testing.assert_array_equal(first.models, second.models)


def test_run_from_a_configuration_equals_the_same_run_from_python(tmp_path):
    parts = build(CONFIG)
    direct = simulate(
        parts.problem,
        parts.topology,
        parts.algorithm,
        parts.noise,
        rounds=23,
        repeats=2,
        seed=5,
        batch_size=2,
        progress=False,
        chunk=5,
    )
    assert_same(run_experiment(CONFIG, tmp_path / "run", progress=False), direct)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_experiment(CONFIG, tmp_path_factory.mktemp("whole") / "run", progress=False)


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("chunks_before", [0, 3])
def test_interrupted_experiment_continues_bit_for_bit(whole, tmp_path, monkeypatch, chunks_before):
    real, done = Record.add_chunk, []

    def interrupted(self, last_round, *arguments, **options):
        if len(done) == chunks_before:
            interrupt()
        real(self, last_round, *arguments, **options)
        done.append(last_round)

    with monkeypatch.context() as patch:
        patch.setattr(Record, "add_chunk", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(CONFIG, tmp_path / "run", progress=False)
    assert done == [5, 10, 15, 20, 23][:chunks_before]
    assert_same(run_experiment(CONFIG, tmp_path / "run", progress=False), whole)
    assert_same(load(tmp_path / "run"), whole)


MODELS = parse({**DATA, "experiment": {**DATA["experiment"], "record": ["loss", "models"]}}, source="test")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return run_experiment(MODELS, tmp_path_factory.mktemp("models") / "run", progress=False)


def test_models_of_all_rounds_are_read_from_the_disk_as_they_lie_there(recorded, whole):
    assert isinstance(recorded.models_by_round, np.memmap)
    assert recorded.models_by_round.shape == (2, 23, 4, 2)
    np.testing.assert_array_equal(recorded.models_by_round[:, -1], recorded.models)
    np.testing.assert_array_equal(recorded.models, whole.models)
    assert whole.models_by_round is None


@pytest.mark.parametrize("chunks_before", [0, 3])
def test_models_of_all_rounds_go_on_after_an_interruption(recorded, tmp_path, monkeypatch, chunks_before):
    real, done = Record.add_chunk, []

    def interrupted(self, last_round, *arguments, **options):
        if len(done) == chunks_before:
            interrupt()
        real(self, last_round, *arguments, **options)
        done.append(last_round)

    with monkeypatch.context() as patch:
        patch.setattr(Record, "add_chunk", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(MODELS, tmp_path / "run", progress=False)
    again = run_experiment(MODELS, tmp_path / "run", progress=False)
    np.testing.assert_array_equal(again.models_by_round, recorded.models_by_round)


def test_a_run_from_python_keeps_its_models_when_it_is_saved(recorded, tmp_path):
    save(recorded, tmp_path / "saved")
    for folder in (tmp_path / "saved", Path(recorded.models_by_round.filename).parent):
        assert (
            folder / "models_by_round.npy"
        ).stat().st_mode & 0o077 == 0  # nobody was promised anything about these models
    np.testing.assert_array_equal(load(tmp_path / "saved").models_by_round, recorded.models_by_round)
    (tmp_path / "saved" / "models_by_round.npy").write_bytes(b"no array")
    with pytest.raises(ConfigError, match="damaged or belongs to another run"):
        load(tmp_path / "saved")


def test_a_disk_without_room_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(trajectory.shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    with pytest.raises(
        ConfigError, match=r"the models of 23 rounds .* need 1\.44 KiB and 100 bytes are free on the disk"
    ):
        run_experiment(MODELS, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_experiment_interrupted_after_its_last_round_is_only_finished(whole, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Record, "finish", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(CONFIG, tmp_path / "run", progress=False)
    monkeypatch.setattr(Record, "add_chunk", None)
    assert_same(run_experiment(CONFIG, tmp_path / "run", progress=False), whole)


def test_finished_run_is_read_back_not_run_again(tmp_path, monkeypatch):
    first = run_experiment(CONFIG, tmp_path / "run", progress=False)
    monkeypatch.setattr(Record, "add_chunk", None)
    assert_same(run_experiment(CONFIG, tmp_path / "run", progress=False), first)


def test_diverging_run_says_so_and_is_not_finished(tmp_path):
    wild = parse({**DATA, "algorithm": {"kind": "atc", "step_size": 1e30}}, source="test")
    with pytest.raises(Diverged):
        run_experiment(wild, tmp_path / "run", progress=False)
    assert not (tmp_path / "run" / "metrics.csv").exists()


def test_progress_goes_to_stderr_only(tmp_path, capsys):
    run_experiment(CONFIG, tmp_path / "run", progress=True)
    assert capsys.readouterr().out == ""


def test_default_folder_depends_on_every_value():
    other = parse({**DATA, "noise": {**DATA["noise"], "std": 0.2}}, source="test")
    assert default_folder(CONFIG) == default_folder(parse(DATA, source="elsewhere"))
    assert default_folder(CONFIG) != default_folder(other)
