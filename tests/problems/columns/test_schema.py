import json

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.problems import BadTable, Schema

FEATURES = ("age", "créatinine", "créatinine is missing", "smoker", "sex = f", "sex = m", "(intercept)")


def test_the_schema_is_complete_without_data(schema):
    assert schema.features == FEATURES
    assert schema.classes == ("no", "yes")
    assert [(column.name, column.kind) for column in schema.columns] == [
        ("age", "number"), ("créatinine", "number"), ("smoker", "boolean"), ("sex", "category")
    ]  # fmt: skip


def test_it_is_read_back_from_json(schema):
    assert Schema.from_dict(json.loads(json.dumps(schema.as_dict()))) == schema


def test_records_by_owner_with_every_kind_of_column(patients, schema):
    records = sv.problems.read_records(patients, schema)
    assert records.names == ("Basel", "Genève")
    basel, geneva = records.features
    # age by its bounds, empty creatinine filled with 1.0 of [0, 10], told to the model, 130 years clipped to 120
    expected = [
        [2 * 61 / 120 - 1, -0.8, 1, 0, 0, 1, 1],
        [2 * 62 / 120 - 1, -0.5, 0, 0, 0, 1, 1],
        [1.0, -0.8, 1, 1, 1, 0, 1],
    ]
    np.testing.assert_allclose(basel, expected, atol=1e-15)
    np.testing.assert_allclose(geneva, [[2 * 50 / 120 - 1, 2 * 0.12 - 1, 0, 1, 1, 0, 1]], atol=1e-15)
    assert [part.tolist() for part in records.targets] == [[-1, -1, 1], [1]]
    assert [len(set(part.tolist())) for part in records.persons] == [2, 1]


def test_all_problems_of_a_file_come_in_one_answer_without_a_cell_value(tmp_path, declared):
    path = tmp_path / "bad.csv"
    path.write_text(
        "id,hôpital,age,sex,smoker,créatinine,diag,readmitted\n"
        "1,Basel,fifty,f,yes,1,X99,yes\n"
        ",,60,diverse,perhaps,1e99,X99,soon\n"
        "3,Basel,forty,f,no,,X99,\n",
        encoding="utf-8",
    )
    declared |= {"missing": {}, "indicators": (), "drop": ()}
    with pytest.raises(BadTable) as caught:
        sv.problems.read_records(path, Schema(**declared))
    text = str(caught.value)
    for part in (
        "column 'age': text where a number is needed (2 cells, the first in row 2)",
        "column 'créatinine': empty (1 cell, row 4)",
        "column 'créatinine': infinite, or above 1e+15 in size (1 cell, row 3)",
        'missing = { "créatinine" = .. }',
        "column 'sex': not among the declared categories (1 cell, row 3)",
        "column 'smoker': neither yes nor no (1 cell, row 3)",
        "column 'diag': nothing is declared about this column",
        "column 'readmitted': none of the declared labels (1 cell, row 3)",
        "column 'readmitted': nothing to predict (1 cell, row 4)",
        "column 'hôpital': nobody holds the record (1 cell, row 3)",
        "column 'id': about nobody (1 cell, row 3)",
    ):
        assert part in text
    for cell in ("fifty", "forty", "diverse", "perhaps", "X99", "soon", "1e99"):
        assert cell not in text
    assert len(caught.value.complaints) == 10


def test_a_missing_column_and_one_too_many_are_named_for_predictions(schema):
    frame = {"age": [1.0], "sex": ["f"], "smoker": [True], "kreatinin": [1.0]}
    with pytest.raises(BadTable) as caught:
        schema.inputs(frame)
    text = str(caught.value)
    assert "'créatinine': this column is not there" in text
    assert "'kreatinin': nothing is declared" in text


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, dict])
def test_frames_give_what_the_file_gives(patients, schema, make):
    columns = {
        "id": [1, 2, 2, 3], "hôpital": ["Genève", "Basel", "Basel", "Basel"], "age": [50, 61, 62, 130], "sex": ["f", "m", "m", "f"],
        "smoker": [True, False, False, True], "créatinine": [1.2, float("nan"), 2.5, None], "readmitted": ["yes", "no", "no", "yes"],
    }  # fmt: skip
    if make is dict:
        columns["créatinine"] = [1.2, float("nan"), 2.5, float("nan")]
    from_frame = sv.problems.read_records(make(columns), schema)
    from_file = sv.problems.read_records(patients, schema)
    assert from_frame.names == from_file.names
    for one, other in zip(from_frame.features, from_file.features, strict=True):
        np.testing.assert_array_equal(one, other)


def test_parquet_gives_what_the_file_gives(patients, schema, tmp_path):
    pandas.read_csv(patients).to_parquet(tmp_path / "patients.parquet")
    from_parquet = sv.problems.read_records(tmp_path / "patients.parquet", schema)
    from_csv = sv.problems.read_records(patients, schema)
    for one, other in zip(from_parquet.features, from_csv.features, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_damaged_parquet_file_is_refused(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(sv.ConfigError, match="not a Parquet file"):
        sv.problems.read_table(tmp_path / "x.parquet")


def test_undeclared_values_can_count_as_other(declared):
    schema = Schema(
        **declared | {"unknown": "other", "categories": {"sex": ("f",)}, "missing": {"sex": "other"}, "indicators": ()}
    )
    assert [name for name in schema.features if name.startswith("sex")] == ["sex = f", "sex = other"]
    frame = {"age": [1.0] * 3, "créatinine": [1.0] * 3, "smoker": [True] * 3, "sex": ["f", "m", ""]}
    assert schema.inputs(frame)[:, 3:5].tolist() == [[1, 0], [0, 1], [0, 1]]


def test_text_codes_are_not_taken_for_numbers():
    schema = Schema(categories={"code": ("007", "7", "A")})
    assert schema.inputs({"code": ["7", "007", "A"]}).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    with pytest.raises(BadTable):
        schema.inputs({"code": ["7.0"]})


def test_declared_numbers_are_met_however_they_are_written():
    schema = Schema(categories={"stage": (1, 2)})
    for cells in (["1", "2.0"], [1, 2], [1.0, 2.0]):
        assert schema.inputs({"stage": cells}).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("target", "declared", "classes", "expected"),
    [
        (["yes", "no", "no"], {"positive": "yes"}, ("not yes", "yes"), [1, -1, -1]),
        ([True, False, True], {"labels": (False, True)}, ("false", "true"), [1, -1, 1]),
        ([1, 0, 1], {"labels": (0, 1)}, ("0", "1"), [1, -1, 1]),
        (["a", "c", "b"], {"labels": ("a", "b", "c")}, ("a", "b", "c"), [0, 2, 1]),
    ],
)
def test_labels(target, declared, classes, expected):
    schema = Schema(target="y", unscaled=("x",), **declared)
    assert schema.classes == classes
    assert schema.targets({"x": [1, 2, 3], "y": target}).tolist() == expected


@given(st.lists(st.floats(-50, 150), min_size=1, max_size=20))
def test_a_target_with_bounds_comes_back_in_its_units(values):
    schema = Schema(target="days", unscaled=("x",), bounds={"days": (0, 100)})
    coded = schema.targets({"x": values, "days": values})
    assert (np.abs(coded) <= 1).all()
    np.testing.assert_allclose(schema.in_units_of_target(coded), np.clip(values, 0, 100), atol=1e-12)


def test_unit_norm_and_intercept_act_on_the_coded_record(declared):
    schema = Schema(**declared | {"unit_norm": True})
    frame = {"age": [100.0], "créatinine": [3.0], "smoker": [True], "sex": ["f"]}
    row = schema.inputs(frame)[0]
    assert row[-1] == pytest.approx(np.sqrt(0.5))
    assert np.linalg.norm(row) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"drop": ("age",)}, "'age' is declared in drop and in bounds"),
        ({"booleans": ("hôpital",)}, "declared in owner and in booleans"),
        ({"bounds": {"age": (120, 0)}}, "finite low < high"),
        ({"bounds": {"age": (0, float("inf"))}}, "finite low < high"),
        ({"bounds": {"age": "wide"}}, "two numbers"),
        ({"categories": {"sex": ("f", "f")}}, "twice"),
        ({"categories": {"sex": ()}}, "list of values"),
        ({"categories": {"sex": "fm"}}, "list of values"),
        ({"missing": {"weight": 1.0}}, "no declared feature"),
        ({"missing": {"sex": "x"}}, "one of its categories"),
        ({"missing": {"smoker": 1}}, "true or false"),
        ({"missing": {"age": "1"}}, "a number is needed"),
        ({"indicators": ("age",)}, "missing says nothing"),
        ({"labels": ("yes",)}, "two or more"),
        ({"positive": "yes"}, "keep one"),
        ({"target": None}, "not named"),
        ({"records_per_person": None}, "given together"),
        ({"records_per_person": 0}, "at least 1"),
        ({"unknown": "ignore"}, '"refuse" or "other"'),
        ({"bounds": {"age": (0, 1), "readmitted": (0, 1)}}, "do not go with labels"),
    ],
)
def test_contradictions_are_refused(declared, changes, message):
    made = {**declared, "bounds": {"age": (0, 120), "créatinine": (0, 10)}} | changes
    if "missing" not in changes:
        made |= {"missing": {}} | ({} if "indicators" in changes else {"indicators": ()})
    with pytest.raises(sv.ConfigError, match=message.replace("(", r"\(")):
        Schema(**made)


def test_nothing_to_learn_from_is_refused():
    with pytest.raises(sv.ConfigError, match="no column to learn from"):
        Schema(target="y", labels=("a", "b"))


@pytest.mark.parametrize(
    "plain", [{"colour": 1}, {"bounds": [1]}, {"unscaled": "x"}, {"intercept": 1}, {"categories": {"a": 3}}, {"labels": {}}, {"missing": {1: 2}}]
)  # fmt: skip
def test_what_is_no_schema_is_refused(plain):
    with pytest.raises(sv.ConfigError, match="schema"):
        Schema.from_dict({"unscaled": ["x"]} | plain)
