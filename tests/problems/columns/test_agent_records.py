import pandas
import pytest

import sottovoce as sv
from sottovoce.problems import Schema

SCHEMA = Schema(target="y", labels=("n", "j"), bounds={"x": (0, 10)})


def write(folder, **files):
    for name, rows in files.items():
        (folder / f"{name}.csv").write_text("x,y\n" + rows, encoding="utf-8")


def test_one_file_for_each_agent_by_list_folder_and_pattern(tmp_path):
    write(tmp_path, bern="1,n\n2,j\n", basel="3,j\n")
    (tmp_path / "notes.txt").write_text("no table")
    listed = sv.problems.read_records([tmp_path / "bern.csv", tmp_path / "basel.csv"], SCHEMA)
    assert listed.names == ("bern", "basel")
    assert [len(part) for part in listed.features] == [2, 1]
    for source in (tmp_path, f"{tmp_path}/*.csv", f"{tmp_path}/b*.csv"):
        found = sv.problems.read_records(source, SCHEMA)
        assert found.names == ("basel", "bern")
        assert [len(part) for part in found.features] == [1, 2]


def test_a_list_of_frames_is_one_agent_each():
    frames = [pandas.DataFrame({"x": [1.0], "y": ["j"]}), {"x": [2.0, 3.0], "y": ["n", "j"]}]
    found = sv.problems.read_records(frames, SCHEMA)
    assert found.names == ("table 0", "table 1")
    assert [len(part) for part in found.features] == [1, 2]


def test_a_single_file_without_owners_is_not_split(tmp_path):
    write(tmp_path, all="1,n\n2,j\n")
    assert sv.problems.read_records(tmp_path / "all.csv", SCHEMA).names is None


def test_problems_of_all_files_come_together(tmp_path):
    write(tmp_path, a="1,n\nx,j\n", b="1,perhaps\n")
    with pytest.raises(sv.ConfigError) as caught:
        sv.problems.read_records(tmp_path, SCHEMA)
    assert "a.csv" in str(caught.value)
    assert "b.csv" in str(caught.value)
    assert "perhaps" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "empty list"),
        ("nothing/*.csv", "no file there"),
        ("missing.csv", "no such file"),
        ("x.json", "csv and .parquet"),
        (3, "no table"),
    ],
)
def test_what_names_no_table_is_refused(source, message):
    with pytest.raises(sv.ConfigError, match=message):
        sv.problems.read_records(source, SCHEMA)


def test_the_same_file_twice_is_refused(tmp_path):
    write(tmp_path, a="1,n\n")
    with pytest.raises(sv.ConfigError, match="named twice"):
        sv.problems.read_records([tmp_path / "a.csv", tmp_path / "a.csv"], SCHEMA)
    (tmp_path / "b").mkdir()
    write(tmp_path / "b", a="1,n\n")
    with pytest.raises(sv.ConfigError, match="two files are named 'a'"):
        sv.problems.read_records([tmp_path / "a.csv", tmp_path / "b" / "a.csv"], SCHEMA)


def test_a_person_with_too_many_records_is_refused(patients, declared):
    with pytest.raises(sv.ConfigError, match=r"1 person\(s\) have more than records_per_person = 1 records"):
        sv.problems.read_records(patients, Schema(**declared | {"records_per_person": 1}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("7", "7.0"),
        ("7", "007"),
        (7, "7.0"),
        ("Zoë", "Zoe\u0308"),
        ("ann", "Ann "),
        ("ann", "ann\u200b"),
        ("a7", "a７"),
    ],
)
def test_a_person_written_in_two_ways_is_one_person(one, other):
    held = [{"x": [1.0, 2.0], "y": ["n", "j"], "who": [str(one), "8"]}, {"x": [3.0], "y": ["j"], "who": [other]}]
    told = {"target": "y", "labels": ("n", "j"), "bounds": {"x": (0, 10)}, "owner": "h", "person": "who"}
    tables = [table | {"h": ["bern"] * len(table["x"])} for table in held]
    (persons,) = sv.problems.read_records(tables, Schema(**told, records_per_person=2)).persons
    assert persons[0] == persons[2] != persons[1]
    with pytest.raises(sv.ConfigError, match=r"1 person\(s\) have more than records_per_person = 1 records"):
        sv.problems.read_records(tables, Schema(**told, records_per_person=1))
    with pytest.raises(sv.ConfigError, match=r"1 person\(s\) have records to learn from, too"):
        sv.problems.read_records(tables[0], Schema(**told, records_per_person=2), test=tables[1])


def test_an_owner_written_in_two_ways_is_refused():
    table = {"x": [1.0, 2.0, 3.0], "y": ["n", "j", "j"], "h": ["Genève", "Gene\u0300ve", "Bern"]}
    told = Schema(target="y", labels=("n", "j"), bounds={"x": (0, 10)}, owner="h")
    with pytest.raises(sv.ConfigError, match=r"'h': 1 name\(s\) of owners are another owner's, written in another way"):
        sv.problems.read_records(table, told)
    assert sv.problems.read_records(table | {"h": ["Genève", "Genève", "Bern"]}, told).names == ("Bern", "Genève")


def test_a_person_with_two_owners_is_refused(patients, schema):
    patients.write_text(patients.read_text().replace("1,Genève", "3,Genève"), encoding="utf-8")
    with pytest.raises(sv.ConfigError, match=r"1 person\(s\) have records with more than one owner"):
        sv.problems.read_records(patients, schema)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n", "at least one record"),
        ("", "at least one record"),
        ("x,x\n1,2\n", "two columns have this name"),
        ("x,\n1,2\n", "column 2 has no name"),
        ("1,2\n3,4\n", "header is missing"),
        ("P1,2025-03-11,Bern\nP2,2025-03-12,Basel\n", "header is missing, or column 2"),
        ("Ann;1970-01-01\n", "at least one record"),
        ("x;y\n1;2\n", "separate columns by commas"),
        ("x,y\n1\n1,2,3\n", r"too few or too many cells \(2 rows, the first in row 2\)"),
        ('x,y\n"1,2\n', "not valid CSV"),
    ],
)
def test_files_that_are_no_tables_are_refused(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(sv.ConfigError, match=message):
        sv.problems.read_table(tmp_path / "t.csv")


def test_reprs_show_no_data(patients, schema):
    records = sv.problems.read_records(patients, schema)
    assert repr(records) == "AgentRecords(2 agents, 4 records, 7 features)"
    assert "4 rows, 8 columns" in repr(sv.problems.read_table(patients))


@pytest.mark.parametrize("first", ["Ann,87,Basel", "Ann,2025-03-11,Basel", "Ann,11.03.2025,Basel", "Ann;87;Basel"])
def test_a_record_in_place_of_the_header_is_refused_and_not_repeated(tmp_path, first):
    (tmp_path / "t.csv").write_text(f"{first}\n{first}\n")
    with pytest.raises(sv.ConfigError) as caught:
        sv.problems.read_table(tmp_path / "t.csv")
    for cell in ("Ann", "87", "Basel", "2025"):
        assert cell not in str(caught.value).replace(str(tmp_path), "")
