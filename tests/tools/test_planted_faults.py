"""The list of planted faults stays true: it is run by `make faults`, and here only held against the code."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from planted_faults import ROOT, mistakes_in, read_faults, with_table


@pytest.fixture(scope="module")
def faults():
    return read_faults()


def test_every_fault_can_be_planted_and_every_test_exists(faults):
    assert mistakes_in(faults) == []
    assert len(faults) >= 45


def test_the_table_of_the_page_is_that_of_the_list(faults):
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert with_table(page, faults) == page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"find": "a text that stands nowhere"}, "0 times"),
        ({"find": "return"}, "times in"),
        ({"file": "accounting/nowhere.py"}, "0 times"),
        ({"test": "accounting/test_gaussian.py::test_that_nobody_wrote"}, "there is no test"),
        ({"test": "accounting/test_nowhere.py::test_that_nobody_wrote"}, "there is no test"),
    ],
)
def test_a_fault_that_no_longer_fits_is_named(faults, change, said):
    [found] = mistakes_in([replace(faults[0], **change)])
    assert found.startswith(faults[0].name)
    assert said in found


def test_a_fault_that_changes_nothing_and_a_name_used_twice_are_named(faults):
    same = replace(faults[0], replace=faults[0].find)
    assert [text.split(": ")[1] for text in mistakes_in([same, faults[0]])] == [
        "it changes nothing",
        "two faults have this name",
    ]


def test_mutants_are_drawn_from_files_that_exist_and_shown_to_tests_that_exist():
    root = Path(__file__).parents[2]
    asked = tomllib.loads((root / "tools" / "mutants.toml").read_text())["tests"]
    missing = [name for name in asked if not (root / "src/sottovoce/accounting" / name).exists()]
    missing += [test for tests in asked.values() for test in tests if not (root / "tests/accounting" / test).exists()]
    assert missing == []
