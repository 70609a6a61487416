"""A malformed input is a ValueError too, and no `except ValueError` on the way hides what it says."""

import sys

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.experiments import record
from sottovoce.problems.loaders import npz_file
from sottovoce.studies import reproduction


def test_a_config_error_is_a_value_error():
    with pytest.raises(ValueError, match="rounds = 0") as caught:
        sv.Question(rounds=0, sensitivity=1.0)
    assert isinstance(caught.value, sv.ConfigError)
    assert not issubclass(sv.UnsupportedClaim, ValueError)


def test_a_matrix_that_is_not_square_is_said_to_be_that():
    with pytest.raises(sv.ConfigError, match="square") as caught:
        sv.topologies.from_matrix(np.ones((2, 3)))
    assert "not a matrix of numbers" not in str(caught.value)


def test_a_large_array_is_not_called_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(npz_file, "MAX_CELLS", 3)
    np.savez(tmp_path / "large.npz", features=np.ones((2, 2)), targets=np.ones(2))
    with pytest.raises(sv.ConfigError, match="4 entries, and 3 are the limit") as caught:
        npz_file.read_npz(tmp_path / "large.npz")
    assert "damaged" not in str(caught.value)


def test_a_large_parquet_file_is_not_called_unreadable(tmp_path, monkeypatch):
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    monkeypatch.setattr(sys.modules["sottovoce.problems.columns.table"], "MOST_CELLS", 3)
    parquet.write_table(pyarrow.table({"a": [1, 2], "b": [1, 2]}), tmp_path / "large.parquet")
    with pytest.raises(sv.ConfigError, match="4 cells, and 3 are the limit"):
        sv.problems.read_table(tmp_path / "large.parquet")


def test_what_a_run_folder_is_refused_for_is_not_called_damage(tmp_path):
    with pytest.raises(sv.ConfigError, match=r"^of another format$"), record._readable(tmp_path):
        raise sv.ConfigError("of another format")
    with pytest.raises(sv.ConfigError, match="is damaged"), record._readable(tmp_path):
        raise ValueError("of some library")


def test_expected_numbers_that_are_no_text_are_not_called_invalid_json(tmp_path):
    (tmp_path / "expected.json").write_bytes(b"\xff")
    found = type("Folder", (), {"folder": tmp_path})()
    with pytest.raises(sv.ConfigError, match="not UTF-8 text") as caught:
        reproduction.read_expected(found)
    assert "JSON" not in str(caught.value)
