"""A draft for own files holds names and kinds of columns, lines to complete, and nothing that was found in a cell."""

import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import ConfigError
from sottovoce.experiments import Roles, draft, survey
from sottovoce.experiments.config.toml_file import parse
from sottovoce.experiments.config.unfilled import FILL_IN, lines_to_complete, without_unfilled
from sottovoce.experiments.starting.draft import key
from sottovoce.experiments.starting.survey import _kind

ROWS = 47
COLUMNS = {
    "nr": [f"X{row:03d}" for row in range(ROWS)],
    "number": [str(70017 + 13 * row) for row in range(ROWS)],
    "seen": [f"1987-0{1 + row % 9}-17" for row in range(ROWS)],
    "house": [("Quetzal", "Ocelot", "Axolotl")[row % 3] for row in range(ROWS)],
    "weight": [f"{51.25 + row % 7}" for row in range(ROWS)],
    "code": [("Z99.2", "B17", "B17", "B17")[row % 4] for row in range(ROWS)],
    "smokes": ["yes" if row % 5 else "no" for row in range(ROWS)],
    "note": [f"remark {row % 31} of the ward" for row in range(ROWS)],
    "outcome": [("perished", "recovered")[row % 2] for row in range(ROWS)],
}


def write(path, columns):
    header = ",".join(f'"{name}"' for name in columns)
    lines = [",".join(f'"{cell}"' for cell in row) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def own(tmp_path):
    return write(tmp_path / "own.csv", COLUMNS)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1.5", "2", "-3e2"], "number"),
        (["1,5", "2,25", "3,0"], "number"),  # the file is refused with advice, rather than the column dropped
        (["1"] * 95 + ["much"] * 5, "number"),
        (["yes", "No", "YES"], "yes or no"),
        (["0", "1", "1.0"], "yes or no"),
        (["f", "m", "m", "f"], "category"),
        (["007", "008", "007", "008"], "category"),
        (["2024-01-31", "2023-12-01 10:00"], "date"),
        (["31.1.2024", "1.12.23"], "date"),
        ([f"P{row}" for row in range(30)], "identifier"),
        ([str(row) for row in range(30)], "identifier"),
        ([f"{row}.5" for row in range(30)], "number"),
        ([str(row) for row in range(5)], "number"),  # too few to tell
        ([f"word {row % 20}" for row in range(30)], "text"),
    ],
)
def test_kinds_are_told_apart(cells, kind):
    assert _kind(cells) == kind


def test_empty_cells_are_counted_and_are_of_no_kind(tmp_path):
    path = write(tmp_path / "e.csv", {"a": ["", "NA", "1.5", "2"], "b": ["", "x", "x", "y"]})
    found = survey([path])
    assert [(each.kind, each.empty) for each in found.columns.values()] == [("number", 2), ("category", 1)]


def test_nothing_found_in_a_cell_is_written(own):
    text = draft(["own.csv"], survey([own]), Roles(target="outcome", owner="house"))
    for name, cells in COLUMNS.items():
        if name != "smokes":  # yes and no are words of every form
            assert not [cell for cell in set(cells) if cell in text], name
    assert str(ROWS) not in text
    assert "3" not in [word for line in text.splitlines() for word in line.split()]  # owners


def test_the_draft_is_refused_until_it_is_completed_and_nothing_else_is_wrong_with_it(own):
    text = draft([own], survey([own]), Roles(target="outcome", owner="house"))
    tables = tomllib.loads(text)
    checked, unfilled = without_unfilled(tables)
    places = [".".join(each.path) for each in unfilled]
    assert places == [
        "problem.labels", "problem.bounds.weight", "problem.categories.code", "privacy.clip", "privacy.delta", "noise.epsilon",
        "experiment.rounds",
    ]  # fmt: skip
    assert (
        lines_to_complete(text)
        == len(places)
        == text.count(f'= "{FILL_IN}') - text.count(f'\n# {"weight"} = "{FILL_IN}') - 2
    )
    with pytest.raises(ConfigError) as caught:
        parse(tables, source="own.toml")
    assert str(caught.value).startswith(f"own.toml: {len(places)} problems:")
    assert str(caught.value).count("still to be completed") == len(places)
    parse(checked, source="own.toml")


def test_columns_that_name_a_person_or_a_day_are_dropped_with_a_word_why(own):
    text = draft([own], survey([own]), Roles(target="outcome", owner="house"))
    assert tomllib.loads(text)["problem"]["drop"] == ["nr", "number", "seen", "note"]
    assert '"seen",  # looks like a date' in text


def test_a_person_is_protected_with_a_declared_number_of_records(own):
    tables = tomllib.loads(draft([own], survey([own]), Roles(target="outcome", owner="house", person="nr")))
    assert tables["privacy"]["unit"] == tables["noise"]["epsilon"].partition("of one ")[2].partition(";")[0] == "person"
    assert tables["problem"]["records_per_person"].startswith(FILL_IN)
    assert "nr" not in tables["problem"]["drop"]


@pytest.mark.parametrize(
    ("target", "kind", "labels", "bounds"),
    [
        ("smokes", "logistic_regression", True, ["weight"]),
        ("weight", "linear_regression", False, ["weight"]),
        ("outcome", "logistic_regression", True, ["weight"]),
        ("house", "classification", True, ["weight"]),
    ],
)
def test_the_kind_of_problem_follows_the_target(own, target, kind, labels, bounds):
    problem = tomllib.loads(draft([own], survey([own]), Roles(target=target, owner="code")))["problem"]
    assert (problem["kind"], "labels" in problem) == (kind, labels)
    assert list(problem["bounds"]) == bounds


def test_rows_without_owners_are_dealt_out_to_a_number_that_is_to_be_said(own):
    checked, unfilled = without_unfilled(tomllib.loads(draft([own], survey([own]), Roles(target="outcome"))))
    assert ("topology", "agents") in [each.path for each in unfilled]
    assert checked["topology"]["agents"] == 5


def test_several_files_are_several_agents_and_a_folder_is_written_as_one(tmp_path):
    folder = tmp_path / "wards"
    folder.mkdir()
    for name in ("east", "west"):
        write(folder / f"{name}.csv", COLUMNS)
    data = [f"{folder}"]
    tables = tomllib.loads(draft(data, survey(data), Roles(target="weight")))
    assert tables["problem"]["data"] == f"{folder}/"
    assert "agents" not in tables["topology"]
    assert not {"east", "west"} & set(str(tables).replace("'", " ").split())


def test_files_with_other_columns_are_refused(tmp_path):
    one = write(tmp_path / "one.csv", {"a": ["1", "2"], "b": ["1", "2"]})
    two = write(tmp_path / "two.csv", {"a": ["1", "2"], "c": ["1", "2"]})
    with pytest.raises(ConfigError, match="only one of them has b, c"):
        survey([one, two])


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (Roles(target="outcom"), "--target 'outcom': no column has this name; did you mean 'outcome'?"),
        (Roles(target="outcome", owner="zzz"), "--owner 'zzz': no column has this name; known: nr, number"),
        (Roles(target="outcome", owner="outcome"), "--target and --owner both name 'outcome'"),
        (Roles(target="outcome", person="nr"), "--person needs to be known who holds the records"),
        (Roles(target="outcome", kind="logistic"), "--kind = 'logistic'; choose one of"),
    ],
)
def test_roles_that_no_column_can_have_are_refused(own, roles, expected):
    with pytest.raises(ConfigError) as caught:
        draft([own], survey([own]), roles)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "name", ["a.b", "a b", 'say "so"', "back\\slash", "créatinine", "#", "=", "[x]", "age", "1st", "年齢", "a'b", "-"]
)
def test_odd_names_are_quoted_as_toml_wants_it(tmp_path, name):
    assert tomllib.loads(f"{key(name)} = 1") == {name: 1}
    quoted = name.replace('"', '""')
    columns = {quoted: ["1.5", "2.5", "3.5"], "t": ["yes", "no", "yes"]}
    path = write(tmp_path / "odd.csv", columns)
    problem = tomllib.loads(draft([path], survey([path]), Roles(target="t")))["problem"]
    assert list(problem["bounds"]) == [name]
    problem = tomllib.loads(draft([path], survey([path]), Roles(target=name)))["problem"]
    assert (problem["target"], list(problem["bounds"])) == (name, [name])


@given(st.text(min_size=1, max_size=20).filter(lambda name: name.isprintable() and name.strip() == name))
@settings(max_examples=50, deadline=None)
def test_every_printable_name_survives(name):
    assert tomllib.loads(f"{key(name)} = 1") == {name: 1}


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "twice.csv"
    path.write_text("a,b,a\n1,2,3\n")
    with pytest.raises(ConfigError, match="two columns have this name"):
        survey([str(path)])


def test_values_are_for_the_owner_and_never_in_a_repr(own):
    found = survey([own])
    assert found.columns["code"].values() == "B17, Z99.2"
    assert found.columns["weight"].values() == "51.25 to 57.25"
    assert found.columns["nr"].values() == f"{ROWS} values"
    assert "B17" not in repr(found) + repr(found.columns["code"])


def test_numbers_of_a_parquet_file_are_numbers(tmp_path):
    pytest.importorskip("pyarrow")
    import pandas as pd

    path = tmp_path / "own.parquet"
    frame = pd.DataFrame({"a": np.arange(30) / 4, "b": [True, False] * 15, "c": ["x", "y", None] * 10})
    frame.loc[3, "a"] = np.nan
    frame.to_parquet(path)
    found = survey([str(path)]).columns
    assert {name: (each.kind, each.empty) for name, each in found.items()} == {
        "a": ("number", 1),
        "b": ("yes or no", 0),
        "c": ("category", 10),
    }
