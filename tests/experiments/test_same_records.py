"""A run folder knows its records again, and tells nobody else which they are."""

import hashlib
import json
import stat
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import ConfigError
from sottovoce.experiments import load, record, save
from sottovoce.experiments.same_records import plain_digest

RECORDS = {"features": np.arange(6.0).reshape(1, 3, 2), "targets": np.array([[1.0, -1.0, 1.0]])}
OTHER = {**RECORDS, "targets": -RECORDS["targets"]}
MODELS = np.zeros((1, 2, 2), dtype=np.float32)


def opened(folder: Path, records=RECORDS):
    return record.open_record(folder, config={"a": 1}, description={"rounds": 1}, records=records)


def finished(folder: Path) -> Path:
    with opened(folder) as held:
        held.add_chunk(1, {"loss": np.ones((1, 1))}, {"0": np.zeros(1)}, final_models={"models": MODELS})
        held.finish()
    return folder


def rewritten(folder: Path, **changes) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def guesses() -> set[str]:
    """Digests that anybody who has guessed these records can compute."""
    raw = b"".join(array.tobytes() for array in RECORDS.values())
    named = b"".join(
        f"{name} {array.dtype.str} {array.shape}\n".encode() + array.tobytes() for name, array in RECORDS.items()
    )
    functions = (hashlib.sha256, hashlib.blake2b, lambda text: hashlib.blake2b(text, digest_size=32))
    return {function(text).hexdigest()[:16] for function in functions for text in (raw, named)}


@pytest.mark.parametrize("done", [False, True])
def test_the_same_records_go_on_and_others_are_refused(tmp_path, done):
    folder = tmp_path / "run"
    if done:
        finished(folder)
    else:
        with opened(folder) as held:
            held.add_chunk(1, {"loss": np.ones((1, 1))}, {"0": np.zeros(1)})
    with opened(folder) as held:
        assert held.finished == done
    for other in (OTHER, {}, {"features": RECORDS["features"]}, {**RECORDS, "targets": RECORDS["targets"].T}):
        with pytest.raises(ConfigError, match=r"other records.*--out"), opened(folder, other):
            raise AssertionError("other records were accepted")


def test_no_file_that_others_may_read_confirms_a_guess_of_the_records(tmp_path):
    folder = finished(tmp_path / "run")
    save(load(folder), tmp_path / "saved")
    readable = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "resume.key"]
    assert len(readable) > 5
    for path in readable:
        assert not [guess for guess in guesses() if guess.encode() in path.read_bytes()], path


def test_two_runs_on_the_same_records_have_nothing_in_common_that_says_so(tmp_path):
    first, second = (
        json.loads((finished(tmp_path / name) / "run.json").read_text())["records"] for name in ("one", "two")
    )
    assert len(first) == len(second) == 64
    assert first != second


def test_the_key_is_readable_by_its_owner_alone(tmp_path):
    key = finished(tmp_path / "run") / "resume.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(bytes.fromhex(key.read_text())) == 32


def test_a_leftover_that_others_can_read_does_not_lend_the_key_its_permissions(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "resume.key.part").touch(mode=0o644)
    finished(folder)
    assert stat.S_IMODE((folder / "resume.key").stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [None, "", "ab", "zz" * 32, "\N{SNOWMAN}"])
def test_without_its_key_a_folder_can_be_read_but_not_opened(tmp_path, content):
    folder = finished(tmp_path / "run")
    key = folder / "resume.key"
    key.unlink()
    if content is not None:
        key.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"resume\.key.*--out"), opened(folder):
        raise AssertionError("records were taken for the same without a key")
    assert load(folder).description == {"rounds": 1}


def test_a_folder_of_version_0_1_0_is_recognised_and_its_digest_replaced(tmp_path):
    folder = finished(tmp_path / "run")
    (folder / "resume.key").unlink()
    plain = plain_digest(RECORDS.values())
    assert plain in guesses()
    rewritten(folder, records=None, description={"rounds": 1, "data_digest": plain})
    assert "data_digest" not in load(folder).description
    with pytest.raises(ConfigError, match="other records"), opened(folder, OTHER):
        raise AssertionError("other records were accepted")
    with opened(folder) as held:
        assert held.finished
    assert plain not in (folder / "run.json").read_text()
    with opened(folder) as held:
        assert held.finished
    with pytest.raises(ConfigError, match="other records"), opened(folder, OTHER):
        raise AssertionError("other records were accepted")


def test_a_run_that_leaves_nothing_leaves_no_key(tmp_path):
    with pytest.raises(KeyboardInterrupt), opened(tmp_path / "run"):
        raise KeyboardInterrupt
    assert not (tmp_path / "run").exists()
