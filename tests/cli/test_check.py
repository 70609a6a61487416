"""`sottovoce check`: everything that is in the way in one answer, or what will run and what it shows to whom."""

import json

import pytest

PATIENTS = "id,hospital,age,sex,smokes,readmitted\n" + "".join(
    f"P{row:03d},{('Bern', 'Basel', 'Chur')[row % 3]},{'' if row in (4, 9) else 31 + row % 50},{'fm'[row % 2]},"
    f"{'yes' if row % 4 else 'no'},{('never', 'again')[row % 5 == 0]}\n"
    for row in range(60)
)
COMPLETED = {
    "labels": '["never", "again"]',
    "age": "[0, 120]",
    "sex": '["f", "m"]',
    "clip": "1.0",
    "delta": "1e-5",
    "epsilon": "4.0",
    "rounds": "5",
}


@pytest.fixture
def drafted(sottovoce, tmp_path):
    """A file for own data, not yet completed."""
    (tmp_path / "patients.csv").write_text(PATIENTS)
    result = sottovoce("new", "--data", "patients.csv", "--target", "readmitted", "--owner", "hospital", "mine.toml")
    assert result.exit_code == 0, result.stderr
    return tmp_path / "mine.toml"


def complete(path, lines, *, missing=True):
    """The one edit that a draft needs."""
    text = path.read_text(encoding="utf-8")
    kept = []
    for line in text.splitlines():
        key, _, value = line.partition(" = ")
        kept.append(f"{key} = {lines.pop(key)}" if value.startswith('"FILL IN') and key in lines else line)
    assert not lines
    done = "\n".join(kept)
    path.write_text(
        done.replace('# age = "FILL IN: a usual number"', "age = 60") if missing else done, encoding="utf-8"
    )


def test_a_draft_is_told_line_by_line_together_with_its_data(sottovoce, drafted):
    result = sottovoce("check", drafted, "noise.lw=3", "--json")
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert told["runs"] is False
    assert told["will_run"] is None
    assert [each["key"].rpartition(".")[2] for each in told["to_complete"]] == list(COMPLETED)
    assert told["mistakes"] == ["[noise] lw: unknown key; did you mean 'law'?"]
    (empty,) = told["data"]
    assert (empty["column"], empty["problem"], empty["cells"], empty["first"]) == ("age", "empty", 2, "row 6")
    text = " ".join(sottovoce("check", drafted).stdout.split())
    assert "does not run yet: 7 line(s) to complete, 1 problem(s) with the data" in text
    assert "missing = { age = .. }" in text


def test_all_problems_of_the_data_are_told_without_a_cell(sottovoce, drafted, tmp_path):
    rows = PATIENTS.splitlines()
    rows[1] = "P000,Bern,aged,x,maybe,"
    rows[2] = "P001,,33,m,yes,again"
    (tmp_path / "patients.csv").write_text("\n".join(rows) + "\n")
    complete(drafted, {**COMPLETED})
    result = sottovoce("check", drafted, "problem.drop=~", "--json")
    assert result.exit_code == 2
    told = {(each["column"], each["problem"].partition(",")[0]): each for each in json.loads(result.stdout)["data"]}
    assert set(told) == {
        ("age", "text where a number is needed"),
        ("sex", "not among the declared categories"),
        ("smokes", "neither yes nor no"),
        ("readmitted", "nothing to predict"),
        ("hospital", "nobody holds the record"),
        ("id", "nothing is declared about this column"),
    }
    assert all(each["advice"] for each in told.values())
    said = result.stdout + sottovoce("check", drafted, "problem.drop=~").stdout
    assert not [cell for cell in ("maybe", "aged", '"x"', "P000") if cell in said]


def test_categories_that_are_to_be_declared_are_not_held_against_the_data(sottovoce, drafted, tmp_path):
    (tmp_path / "patients.csv").write_text(PATIENTS.replace(",f,", ",,", 1))
    told = json.loads(sottovoce("check", drafted, "--json").stdout)["data"]
    assert {(each["column"], each["problem"]) for each in told} == {("age", "empty"), ("sex", "empty")}


def test_a_completed_draft_says_what_will_run_and_what_it_shows(sottovoce, drafted):
    complete(drafted, {**COMPLETED})
    result = sottovoce("check", drafted, "--json")
    assert result.exit_code == 0, result.stdout
    told = json.loads(result.stdout)
    assert (told["to_complete"], told["mistakes"], told["data"]) == ([], [], [])
    will = told["will_run"]
    assert will["agents"] == ["Basel", "Bern", "Chur"]
    assert will["features"] == ["age", "smokes", "sex = f", "sex = m", "(intercept)"]
    assert will["classes"] == ["never", "again"]
    assert sum(will["for_the_owner_only"]["records"].values()) + will["for_the_owner_only"]["test_records"] == 60
    first = told["guarantees"][0]
    assert first["observer"] == "server and 50 % of the agents"
    assert first["epsilon"]["1e-05"] == pytest.approx(4.0, rel=1e-4)
    text = " ".join(sottovoce("check", drafted).stdout.split())
    assert "will run: 3 agents, 5 rounds" in text
    assert "For the data's owner only: records to learn from: Basel 16" in text


def test_checking_writes_nothing(sottovoce, drafted, tmp_path):
    complete(drafted, {**COMPLETED})
    before = sorted(tmp_path.rglob("*"))
    assert sottovoce("check", drafted).exit_code == 0
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("problem.data=absent.csv",), "there is no such file"),
        (("topology.agents=4",), "names 3 owner(s), and [topology] has 4 agents"),
        (("noise.kind=central",), "noise of its own"),
        (("privacy.budget={epsilon=1.0, observer='server'}",), "budget"),
        (("algorithm=~",), "[algorithm]: this section is missing"),
    ],
)
def test_whatever_keeps_a_run_from_starting_is_a_mistake(sottovoce, drafted, overrides, expected):
    complete(drafted, {**COMPLETED})
    result = sottovoce("check", drafted, *overrides, "--json")
    assert result.exit_code == 2, result.stdout
    assert expected in " ".join(json.loads(result.stdout)["mistakes"])
    assert sottovoce("run", drafted, *overrides).exit_code in (2, 3)


def test_other_sections_may_be_wrong_and_the_data_are_looked_at_all_the_same(sottovoce, drafted):
    complete(drafted, {**COMPLETED}, missing=False)
    told = json.loads(sottovoce("check", drafted, "algorithm=~", "--json").stdout)
    assert told["mistakes"] == ["[algorithm]: this section is missing"]
    assert [each["column"] for each in told["data"]] == ["age"]


def test_a_person_with_too_many_records_is_told_once_the_number_is_declared(sottovoce, drafted, tmp_path):
    (tmp_path / "patients.csv").write_text(PATIENTS.replace("P003", "P000").replace(",,", ",50,"))
    named = ("--data", "patients.csv", "--target", "readmitted", "--owner", "hospital", "--person", "id")
    assert sottovoce("new", *named, "persons.toml").exit_code == 0
    told = json.loads(sottovoce("check", "persons.toml", "--json").stdout)
    assert "problem.records_per_person" in [each["key"] for each in told["to_complete"]]
    assert told["data"] == []
    complete(tmp_path / "persons.toml", {**COMPLETED, "records_per_person": "1"}, missing=False)
    (told,) = json.loads(sottovoce("check", "persons.toml", "--json").stdout)["data"]
    assert "more than records_per_person = 1" in told["problem"]
    assert sottovoce("check", "persons.toml", "problem.records_per_person=2").exit_code == 0
