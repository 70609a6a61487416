"""Files are read right, or refused with one line that names file and row; scalings look at one record only."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from sottovoce.errors import ConfigError
from sottovoce.problems import (
    LOADERS,
    add_intercept,
    load,
    load_points,
    logistic_regression,
    partition,
    public_bounds,
    scale_features,
    unit_norm,
)
from sottovoce.problems.loaders import csv_file, libsvm_file
from sottovoce.problems.loaders.npz_file import read_npz

DATA = Path(csv_file.__file__).parent / "data"

finite = st.floats(allow_nan=False, allow_infinity=False)
tables = st.integers(2, 5).flatmap(
    lambda width: st.lists(st.lists(finite, min_size=width, max_size=width), min_size=1, max_size=12)
)


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path, **options) -> str:
    """The message without the folder; it must be one line that starts with the file."""
    with pytest.raises(ConfigError) as caught:
        load(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.replace(str(path), path.name)


@settings(max_examples=50, deadline=None)
@given(tables, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_csv_gives_back_every_number_that_was_written(tmp_path_factory, table, line_end, mark):
    names = [f"c{j}" for j in range(len(table[0]))]
    lines = [",".join(names), *(",".join(map(repr, row)) for row in table)]
    text = line_end.join(lines) + line_end
    path = written(tmp_path_factory.mktemp("csv"), "a.csv", ("\ufeff" if mark else "") + text)
    features, targets = load(path)
    assert np.array_equal(np.column_stack([features, targets]), np.array(table))
    assert features.dtype == targets.dtype == np.float64


@settings(max_examples=50, deadline=None)
@given(tables)
def test_libsvm_gives_back_every_number_that_was_written(tmp_path_factory, table):
    lines = [
        f"{row[0]!r} " + " ".join(f"{j}:{x!r}" for j, x in enumerate(row[1:], start=1) if x != 0 or j == len(row) - 1)
        for row in table
    ]
    path = written(tmp_path_factory.mktemp("svm"), "a.libsvm", "\n".join(lines))
    features, labels = load(path)
    assert np.array_equal(np.column_stack([labels, features]), np.array(table))


def test_csv_target_is_the_named_column_wherever_it_stands(tmp_path):
    path = written(tmp_path, "a.csv", 'age," dose ",y\n1,2,3\n\n4, 5 ,"6"\n')
    features, targets = load(path, target="dose")
    assert features.tolist() == [[1.0, 3.0], [4.0, 6.0]]
    assert targets.tolist() == [2.0, 5.0]
    assert load(str(path))[1].tolist() == [3.0, 6.0]


def test_points_of_a_csv_are_all_columns_unless_one_holds_labels(tmp_path):
    path = written(tmp_path, "a.csv", "x,y\n1,2\n3,4\n")
    assert load_points(path)[0].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert load_points(path)[1] is None
    points, labels = load_points(path, target="x")
    assert (points.tolist(), labels.tolist()) == ([[2.0], [4.0]], [1.0, 3.0])
    assert load_points(written(tmp_path, "one.csv", "x\n1\n2\n"))[0].shape == (2, 1)
    assert load_points("digits")[1].shape == (1797,)


def test_csv_of_many_blocks_is_read_whole_and_errors_count_rows_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "_BLOCK", 3)
    lines = ["a,b", *(f"{i},{-i}" for i in range(10))]
    features, _ = load(written(tmp_path, "a.csv", "\n".join(lines)))
    assert features[:, 0].tolist() == list(range(10))
    lines[9] = "8,?"
    assert "column 'b': text where a number is needed (1 cell, row 10)" in refusal(
        written(tmp_path, "b.csv", "\n".join(lines))
    )


def test_large_csv_is_fast(tmp_path):
    import time

    path = written(tmp_path, "a.csv", "a,b,c,d\n" + "0.123456789,1.5,-2.25,1\n" * 25_000)
    start = time.process_time()
    assert load(path)[0].shape == (25_000, 3)
    assert time.process_time() - start < 2.0  # takes a tenth of that; 100 000 cells


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "a.csv, row 1: the file is empty"),
        ("\n\n", "the file is empty"),
        ("a,b\n", "a.csv, row 1: no record follows the header"),
        ("1,2\n3,4\n", "a.csv, row 1: the header is missing"),
        ("a,,b\n1,2,3\n", "row 1: column 2 has no name"),
        ("a,b,a\n1,2,3\n", "row 1: two columns are named 'a'"),
        ("a\n1\n", "row 1: 'a' is the only column"),
        ("a;b\n1;2\n", "row 1: one column, with marks that may separate several"),
        ("a,b\n1,2\n3\n", "a.csv: too few or too many cells (1 row, row 3)"),
        ("a,b\n1,2\n3,4,5\n", "too few or too many cells (1 row, row 3)"),
        ("a,b\n1,2\n3,abc\n", "a.csv: column 'b': text where a number is needed (1 cell, row 3)"),
        ("a,b\n\n\n1,2\nx,4\n", "column 'a': text where a number is needed (1 cell, row 5)"),
        ("a,b\n1,\n", "column 'b': empty (1 cell, row 2)"),
        ("a,b\n1, \n", "column 'b': empty (1 cell, row 2)"),
        ("a,b\n1,nan\n", "column 'b': not finite (1 cell, row 2)"),
        ("a,b\n-inf,1\n", "column 'a': not finite (1 cell, row 2)"),
        ("a,b\n1e999,1\n", "column 'a': not finite (1 cell, row 2)"),
        ("a,b\n1_000,1\n", "column 'a': text where a number is needed"),
        ("a,b\n\u0661,1\n", "column 'a': text where a number is needed"),
        ('a,b\n1,"2\n3,4\n', "not valid CSV"),
        ("a,größe\n1,\n", "column 'größe': empty"),
        (b"a,b\n1,2\n\xff,3\n", "a.csv, row 3: not UTF-8"),
        ("a,b\n1,\x00\n", "row 2"),
    ],
)
def test_bad_csv_is_refused_with_file_row_and_column(tmp_path, content, expected):
    assert expected in refusal(written(tmp_path, "a.csv", content))


def test_everything_wrong_with_a_csv_is_said_at_once_and_no_cell_is_repeated(tmp_path):
    path = written(tmp_path, "a.csv", "a,b\nsecret,\nother,2\n1,nan\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    lines = str(caught.value).split("\n")
    assert "3 problems" in lines[0]
    assert "column 'a': text where a number is needed (2 cells, the first in row 2)" in lines[2]
    assert "secret" not in str(caught.value)


def test_missing_target_column_is_refused_with_a_suggestion(tmp_path):
    path = written(tmp_path, "a.csv", "age,label\n1,2\n")
    assert "row 1: no column is named 'lable'; did you mean 'label'?" in refusal(path, target="lable")
    assert "columns are age, label" in refusal(path, target="zzz")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "a.svm, row 1: the file is empty"),
        ("# nothing\n\n", "the file is empty"),
        ("1\n-1\n", "no record has a feature"),
        ("1 1:2\n-1 2:1 2:3\n", "a.svm, row 2: index 2 follows 2; indices must increase"),
        ("1 1:2\n\n-1 3:1 2:3\n", "a.svm, row 3: index 2 follows 3"),
        ("1 0:2\n", "a.svm, row 1: index 0 is below 1"),
        ("1 -3:2\n", "a.svm, row 1: index -3 is below 1"),
        ("1 1.5:2\n", "a.svm, row 1: index '1.5' is not a whole number"),
        ("1 qid:2\n", "index 'qid' is not a whole number"),
        ("1 1_0:2\n", "index '1_0' is not a whole number"),
        ("1 :2\n", "index '' is not a whole number"),
        ("1 7\n", "a.svm, row 1: '7' has no colon"),
        ("1 1:\n", "a.svm, row 1: feature 1 is '', not a finite number"),
        ("1 1:x\n", "feature 1 is 'x'"),
        ("1 1:nan\n", "feature 1 is 'nan'"),
        ("1 1:2:3\n", "feature 1 is '2:3'"),
        ("1:2 2:3\n", "a.svm, row 1: the label is missing before '1:2'"),
        ("yes 1:2\n", "a.svm, row 1: the label 'yes' is not a finite number"),
        ("inf 1:2\n", "the label 'inf' is not a finite number"),
        ("a,b,c\n1,2,3\n", "a comma-separated file must end in .csv"),
        (f"1 {'9' * 30}:1\n", "is too large"),
        ("1 1000000000:1\n", "1 records of 1000000000 features need 7.45 GiB as a dense table, and 1 GiB is the limit"),
    ],
)
def test_bad_libsvm_is_refused_with_file_and_row(tmp_path, content, expected):
    assert expected in refusal(written(tmp_path, "a.svm", content))


def test_libsvm_fills_in_zeros_skips_comments_and_guards_the_size(tmp_path, monkeypatch):
    path = written(tmp_path, "a.txt", "1 2:3 # why\r\n\n-1\n")
    features, labels = load(path)
    assert (features.tolist(), labels.tolist()) == ([[0.0, 3.0], [0.0, 0.0]], [1.0, -1.0])
    monkeypatch.setattr(libsvm_file, "MAX_CELLS", 3)
    assert "2 records of 2 features" in refusal(path)


@pytest.mark.parametrize("names", [("features", "targets"), ("X", "y"), ("X", "labels")])
def test_npz_gives_back_its_arrays(tmp_path, names):
    path = tmp_path / "a.npz"
    np.savez(path, **{names[0]: np.arange(6, dtype=np.int32).reshape(3, 2), names[1]: np.array([True, False, True])})
    features, targets = load(path)
    assert features.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert targets.tolist() == [1.0, 0.0, 1.0]
    assert features.dtype == targets.dtype == np.float64


X, Y = np.ones((3, 2)), np.ones(3)


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({}, "named 'features' or 'X', but holds nothing"),
        ({"a": X}, "named 'features' or 'X', but holds a"),
        ({"X": X}, "named 'targets' or 'labels' or 'y', but holds X"),
        ({"X": X, "features": X, "y": Y}, "exactly one array named 'features' or 'X'"),
        ({"X": X, "y": np.ones(4)}, "3 rows of features but 4 targets"),
        ({"X": Y, "y": Y}, "array 'X' has shape (3,), but [N, d] is needed"),
        ({"X": X, "y": np.ones((3, 1))}, "array 'y' has shape (3, 1), but [N] is needed"),
        (
            {"X": X, "y": np.array([1, None, 2], dtype=object)},
            "array 'y' cannot be read, it is damaged or holds Python",
        ),
        ({"X": X.astype(str), "y": Y}, "array 'X' is of type <U"),
        ({"X": X * 1j, "y": Y}, "array 'X' is of type complex128"),
        ({"X": np.ones((0, 2)), "y": np.ones(0)}, "at least one record"),
        ({"X": np.where(np.eye(3, 2) > 0, np.nan, 1.0), "y": Y}, "a.npz, record 0: array 'X', column 0 is nan"),
        ({"X": X, "y": np.array([1.0, 1.0, np.inf])}, "a.npz, record 2: array 'y' is inf"),
    ],
)
def test_bad_npz_is_refused(tmp_path, arrays, expected):
    np.savez(tmp_path / "a.npz", **arrays)
    assert expected in refusal(tmp_path / "a.npz")


def test_damaged_npz_is_refused(tmp_path):
    assert "not a NumPy archive" in refusal(written(tmp_path, "a.npz", "text"))
    assert "not a NumPy archive" in refusal(written(tmp_path, "b.npz", ""))
    np.savez(tmp_path / "c.npz", X=np.arange(2000.0).reshape(1000, 2), y=np.ones(1000))
    whole = (tmp_path / "c.npz").read_bytes()
    broken = whole[:2000] + bytes(100) + whole[2100:]
    assert "damaged" in refusal(written(tmp_path, "d.npz", broken))
    np.save(tmp_path / "e.npy", Y)
    assert "one array, not an archive" in refusal((tmp_path / "e.npy").rename(tmp_path / "e.npz"))


@pytest.mark.parametrize("name", ["a.csv", "a.npz", "a.libsvm", "deep/a.txt"])
def test_missing_file_is_refused(tmp_path, name):
    assert "there is no such file" in refusal(tmp_path / name)


def test_folder_instead_of_a_file_is_refused(tmp_path):
    (tmp_path / "a.csv").mkdir()
    assert "this is a folder; a plain file is needed" in refusal(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["a.parquet", "a.csv.gz", "folder/file", "a."])
def test_unknown_kind_of_file_is_refused_with_the_known_ones(tmp_path, name):
    assert "known endings are .csv, .npz, .libsvm, .svm, .txt" in refusal(tmp_path / name)


@pytest.mark.parametrize("source", ["breast_cancer", "a.npz", "a.svm"])
def test_target_is_refused_where_columns_have_no_names(source):
    with pytest.raises(ConfigError, match=r"only a \.csv file has"):
        load(source, target="y")


def test_breast_cancer_is_loaded_unscaled_with_signed_labels():
    features, labels = load("breast_cancer")
    assert features.shape == (569, 30)
    assert features.max() > 1000
    assert ((labels == 1).sum(), (labels == -1).sum()) == (357, 212)


def test_breast_cancer_is_learnable_after_public_scaling():
    features, labels = load("breast_cancer")
    scaled = unit_norm(scale_features(features, public_bounds("breast_cancer")))
    problem = logistic_regression(*partition(scaled, labels, num_agents=5), ridge=1e-3)
    assert problem.accuracy(problem.optimum, scaled, labels) > 0.9
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), 1.0)


@pytest.mark.parametrize(
    ("name", "published"), [("breast_cancer", load_breast_cancer), ("digits", load_digits), ("diabetes", load_diabetes)]
)
def test_bundled_sets_are_those_of_scikit_learn_to_the_bit(name, published):
    features, targets = read_npz(DATA / f"{name}.npz")
    original, wanted = published(return_X_y=True)
    assert features.tobytes() == np.asarray(original, dtype=np.float64).tobytes()
    assert targets.tobytes() == np.asarray(wanted, dtype=np.float64).tobytes()


def test_bundled_sets_need_no_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert all(len(load(name)[0]) > 400 for name in LOADERS)


def test_every_bundled_file_is_listed_with_its_source_and_licence():
    stated, page = (DATA / "README.md").read_text(), (DATA.parents[4] / "docs" / "data.md").read_text()
    for path in DATA.glob("*.npz"):
        (row,) = (line for line in stated.splitlines() if line.startswith(f"| `{path.name}`"))
        assert "https://" in row
        assert "CC BY 4.0" in row or "BSD 3-Clause" in row
        assert f"`{path.stem}`" in page.partition("## Whose they are")[2].partition("##")[0]
    assert "Neither the name of the copyright holder" in (DATA / "LICENSE-scikit-learn").read_text()


def test_unknown_data_set_is_refused():
    with pytest.raises(ConfigError, match="known are 'breast_cancer'"):
        load("iris")


def test_scaling_uses_the_given_bounds_and_clips_beyond_them():
    scaled = scale_features([[0.0, 5.0], [20.0, -3.0]], [(0.0, 10.0), (0.0, 10.0)])
    assert scaled.tolist() == [[-1.0, 0.0], [1.0, -1.0]]


def test_scaling_one_record_does_not_depend_on_the_others():
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((6, 3))
    limits = [(-1.0, 1.0)] * 3
    for scaling in (lambda x: scale_features(x, limits), unit_norm):
        assert np.array_equal(scaling(rows)[2:3], scaling(rows[2:3]))


def test_zero_record_survives_normalisation():
    np.testing.assert_allclose(unit_norm([[0.0, 0.0], [3.0, 4.0]]), [[0.0, 0.0], [0.6, 0.8]])


@pytest.mark.parametrize("limits", [[(0, 1)], [(0, 1), (1, 1)], [(0, 1), (2, 1)], [(0, 1), (0, np.inf)]])
def test_bounds_that_scale_nothing_are_refused(limits):
    with pytest.raises(ConfigError, match="bounds"):
        scale_features(np.ones((2, 2)), limits)


def test_one_range_serves_all_features():
    rows = np.array([[0.0, 5.0], [20.0, -3.0]])
    assert np.array_equal(scale_features(rows, (0.0, 10.0)), scale_features(rows, [(0.0, 10.0), (0.0, 10.0)]))


@pytest.mark.parametrize("name", sorted(LOADERS))
def test_public_bounds_of_every_bundled_set_hold_its_features(name):
    features, _ = load(name)
    bounds = public_bounds(name)
    assert bounds.shape == (features.shape[1], 2)
    assert ((bounds[:, 0] <= features) & (features <= bounds[:, 1])).all()
    bounds[0] = 0.0
    assert not np.array_equal(bounds, public_bounds(name))


def test_bounds_of_unknown_data_must_come_from_the_user():
    with pytest.raises(ConfigError, match=r"No public bounds are known for 'mine\.csv'.*not from the data"):
        public_bounds("mine.csv")


def test_digits_are_told_apart_by_parity_and_keep_their_classes_beside():
    features, labels = load("digits")
    pixels, digits = load_digits(return_X_y=True)
    assert np.array_equal(features, pixels)
    assert np.array_equal(labels == 1, digits % 2 == 0)
    assert np.array_equal(load("digits_classes")[1], digits)


def test_progression_of_diabetes_is_scaled_by_its_published_range():
    features, targets = load("diabetes")
    patients, progression = load_diabetes(return_X_y=True)
    assert np.array_equal(features, patients)
    np.testing.assert_allclose(targets, 2 * (progression - 25) / 321 - 1)
    assert np.abs(targets).max() <= 1.0


def test_intercept_is_one_more_feature_that_can_keep_the_norm():
    rows = np.array([[[3.0, 4.0], [0.0, 0.0]]])
    assert add_intercept(rows).tolist() == [[[3.0, 4.0, 1.0], [0.0, 0.0, 1.0]]]
    norms = np.linalg.norm(add_intercept(unit_norm(rows), keep_norm=True), axis=-1)
    np.testing.assert_allclose(norms, [[1.0, np.sqrt(0.5)]])
    np.testing.assert_allclose(add_intercept(rows, keep_norm=True)[..., -1], np.sqrt(0.5))


def test_example_of_the_documentation_runs():
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    names: dict = {}
    exec(page.partition("```python\n")[2].partition("```")[0], names)
    assert names["counts"].sum() == names["problem"].sizes.sum()
    assert all(f"`{name}`" in page for name in LOADERS)
