"""A run folder is whole or resumable at every moment, and says no to what it is not."""

import fcntl
import json
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import ConfigError, IncompatibleChoice
from sottovoce.experiments import record

CONFIG = {"experiment": {"name": "x", "rounds": 5}, "noise": {"kind": "none"}}
DESCRIPTION = {"rounds": 5, "problem": {"kind": "linear_regression"}}
METRICS = {"loss": np.arange(10, dtype=np.float32).reshape(2, 5), "msd_centroid": np.linspace(0, 1, 10).reshape(2, 5)}
MODELS = np.arange(12, dtype=np.float32).reshape(2, 3, 2)


def opened(folder: Path, config: dict = CONFIG):
    return record.open_record(folder, config=config, description=DESCRIPTION)


def columns(first: int, last: int) -> dict[str, np.ndarray]:
    return {name: values[:, first:last] for name, values in METRICS.items()}


def state(last_round: int) -> dict[str, np.ndarray]:
    return {"0": np.full((3, 2), last_round, dtype=np.float32)}


def write_finished(folder: Path) -> None:
    with opened(folder) as held:
        held.add_chunk(2, columns(0, 2), state(2))
        held.add_chunk(4, columns(2, 4), state(4))
        held.add_chunk(5, columns(4, 5), state(5), final_models={"models": MODELS})
        held.finish()


def test_finished_run_is_loaded_bit_for_bit(tmp_path):
    write_finished(tmp_path / "run")
    run = record.load(tmp_path / "run")
    assert run.metrics.keys() == METRICS.keys()
    for name, values in METRICS.items():
        assert run.metrics[name].dtype == values.dtype
        np.testing.assert_array_equal(run.metrics[name], values)
    np.testing.assert_array_equal(run.models, MODELS)
    assert run.description == DESCRIPTION


def test_finished_folder_holds_results_only(tmp_path):
    write_finished(tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"run.json", "run.lock", "metrics.csv", "metrics.safetensors", "models.safetensors"}


def test_run_json_says_what_was_run(tmp_path):
    write_finished(tmp_path / "run")
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    assert header["format_version"] == 1
    assert header["status"] == "finished"
    assert header["config"] == CONFIG
    assert {"python", "sottovoce", "numpy", "jax"} <= header["versions"].keys()


def test_csv_has_one_row_per_round_with_means_over_repeats(tmp_path):
    write_finished(tmp_path / "run")
    lines = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert lines[0] == "round,loss,msd_centroid"
    rows = np.array([[float(cell) for cell in line.split(",")] for line in lines[1:]])
    np.testing.assert_array_equal(rows[:, 0], [1, 2, 3, 4, 5])
    np.testing.assert_allclose(rows[:, 1], METRICS["loss"].mean(axis=0))


def test_interrupted_run_continues_after_its_last_checkpoint(tmp_path):
    with opened(tmp_path / "run") as held:
        assert held.start is None
        held.add_chunk(2, columns(0, 2), state(2))
    with opened(tmp_path / "run") as held:
        assert held.start is not None
        last_round, restored = held.start
        assert last_round == 2
        np.testing.assert_array_equal(restored["0"], state(2)["0"])
        held.add_chunk(5, columns(2, 5), state(5), final_models={"models": MODELS})
        run = held.finish()
    np.testing.assert_array_equal(run.metrics["loss"], METRICS["loss"])


def test_chunk_without_its_checkpoint_does_not_count(tmp_path, monkeypatch):
    real = record._save

    def dies_at_checkpoint(path, *arguments):
        if path.name == "checkpoint.safetensors" and arguments[1]["round"] == "4":
            raise KeyboardInterrupt
        real(path, *arguments)

    monkeypatch.setattr(record, "_save", dies_at_checkpoint)
    with opened(tmp_path / "run") as held:
        held.add_chunk(2, columns(0, 2), state(2))
        with pytest.raises(KeyboardInterrupt):
            held.add_chunk(4, columns(2, 4), state(4))
    with opened(tmp_path / "run") as held:
        assert held.start[0] == 2
        assert [path.stem for path in (tmp_path / "run" / "chunks").iterdir()] == ["0000000002"]


def test_run_killed_before_its_last_mark_only_needs_finishing(tmp_path):
    with opened(tmp_path / "run") as held:
        held.add_chunk(5, columns(0, 5), state(5), final_models={"models": MODELS})
    with opened(tmp_path / "run") as held:
        assert held.start[0] == 5
        assert not held.finished
        run = held.finish()
    np.testing.assert_array_equal(run.models, MODELS)


def test_half_written_files_are_swept_away(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json.part").write_text('{"form')
    with opened(folder) as held:
        assert held.start is None
    assert not list(folder.rglob("*.part"))


def test_refused_run_leaves_no_folder(tmp_path):
    with pytest.raises(IncompatibleChoice), opened(tmp_path / "run"):
        raise IncompatibleChoice("no")
    assert not (tmp_path / "run").exists()


def test_refusal_after_a_chunk_keeps_what_was_done(tmp_path):
    def refused_late():
        with opened(tmp_path / "run") as held:
            held.add_chunk(2, columns(0, 2), state(2))
            raise IncompatibleChoice("no")

    with pytest.raises(IncompatibleChoice):
        refused_late()
    with opened(tmp_path / "run") as held:
        assert held.start[0] == 2


def test_other_configuration_is_refused_and_the_keys_named(tmp_path):
    write_finished(tmp_path / "run")
    other = {"experiment": {"name": "x", "rounds": 6}, "noise": {"kind": "none"}}
    with pytest.raises(ConfigError, match=r"experiment\.rounds.*--out"), opened(tmp_path / "run", other):
        pass


def test_an_unfinished_run_of_another_generator_is_refused(tmp_path, monkeypatch):
    with opened(tmp_path / "run") as record_:
        record_.add_chunk(2, {"loss": np.ones((1, 2))}, {"0": np.ones(3)})
    now = record.versions()
    monkeypatch.setattr(record, "versions", lambda: {**now, "generator": "philox4x32-10/1"})
    with pytest.raises(ConfigError, match="generator threefry2x32-20/1, now philox4x32-10/1"), opened(tmp_path / "run"):
        pass


def test_unfinished_run_of_other_versions_is_refused(tmp_path, monkeypatch):
    with opened(tmp_path / "run") as held:
        held.add_chunk(2, columns(0, 2), state(2))
    monkeypatch.setattr(record, "versions", lambda: {"python": "3.11.0", "jax": "99.0"})
    with pytest.raises(ConfigError, match=r"unfinished run begun with.*jax"), opened(tmp_path / "run"):
        pass


def test_second_writer_is_refused(tmp_path):
    with opened(tmp_path / "run"), pytest.raises(ConfigError, match="another process"), opened(tmp_path / "run"):
        pass


def test_lock_is_free_after_the_run(tmp_path):
    write_finished(tmp_path / "run")
    with (tmp_path / "run" / "run.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_folder_of_something_else_is_not_touched(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ConfigError, match="not a run folder"), opened(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_load_refuses_missing_folder_and_unfinished_run(tmp_path):
    with pytest.raises(ConfigError, match="not a run folder"):
        record.load(tmp_path / "absent")
    with opened(tmp_path / "run") as held:
        held.add_chunk(2, columns(0, 2), state(2))
    with pytest.raises(ConfigError, match="run it again to resume"):
        record.load(tmp_path / "run")


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_unknown_format_version_is_refused(tmp_path, version):
    write_finished(tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": version}))
    with pytest.raises(ConfigError, match="format_version"):
        record.load(tmp_path / "run")


@pytest.mark.parametrize("name", ["run.json", "metrics.safetensors", "models.safetensors"])
def test_damaged_file_gives_a_clear_error(tmp_path, name):
    write_finished(tmp_path / "run")
    path = tmp_path / "run" / name
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ConfigError, match="damaged"):
        record.load(tmp_path / "run")


def test_missing_chunk_is_noticed(tmp_path):
    with opened(tmp_path / "run") as held:
        held.add_chunk(2, columns(0, 2), state(2))
        held.add_chunk(5, columns(2, 5), state(5), final_models={"models": MODELS})
        (tmp_path / "run" / "chunks" / "0000000002.safetensors").unlink()
        with pytest.raises(ConfigError, match="chunk is missing"):
            held.finish()


def test_a_run_simulated_in_python_is_saved_and_read_back(tmp_path):
    import sottovoce as sv

    problem = sv.problems.mean_estimation(np.random.default_rng(0).uniform(-1, 1, size=(3, 2, 2)), radius=1.0)
    noise = sv.noise.independent(sv.noise.Gaussian(std=0.1)).scaled([1.0, 0.5, 0.25])
    run = sv.simulate(
        problem, sv.topologies.ring(3), sv.algorithms.atc(step_size=0.1), noise, rounds=3, repeats=2, progress=False
    )
    sv.save(run, tmp_path / "new" / "run")
    back = sv.load(tmp_path / "new" / "run")
    np.testing.assert_array_equal(back.models, run.models)
    assert back.description == run.description
    assert back.metrics.keys() == run.metrics.keys()
    for name, values in run.metrics.items():
        np.testing.assert_array_equal(back.metrics[name], values)
    assert (tmp_path / "new" / "run" / "metrics.csv").read_text().count("\n") == 4
    with pytest.raises(sv.ConfigError, match="new one"):
        sv.save(run, tmp_path / "new" / "run")


def test_results_cannot_go_where_a_file_is_or_into_a_run_saved_from_python(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with (
            pytest.raises(ConfigError, match="cannot be a folder"),
            record.open_record(place, config={}, description={}),
        ):
            raise AssertionError("a record was opened on a file")
    import sottovoce as sv

    problem = sv.problems.mean_estimation(np.zeros((3, 1, 1)), radius=1.0)
    run = sv.simulate(
        problem, sv.topologies.ring(3), sv.algorithms.atc(step_size=0.1), sv.noise.none(), rounds=1, progress=False
    )
    sv.save(run, tmp_path / "saved")
    with (
        pytest.raises(ConfigError, match="saved from Python"),
        record.open_record(tmp_path / "saved", config={"a": 1}, description={}),
    ):
        raise AssertionError("a saved run was opened for writing")
