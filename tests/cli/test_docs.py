"""What messages cite, and what the first commands need, comes with the package and is found from any folder."""

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

import sottovoce as package
from cli.test_refusals import refused

SOURCE = Path(package.__file__).parent
PAGES = sorted(path.stem for path in (SOURCE.parents[1] / "docs").glob("*.md"))


def test_pages_are_listed_with_their_titles(sottovoce):
    listed = json.loads(sottovoce("docs", "--json").stdout)["pages"]
    assert list(listed) == PAGES
    assert listed["guarantees"] == "Guarantees: what is promised, to whom, and why"
    assert sottovoce("docs", "--quiet").stdout.split() == PAGES


@pytest.mark.parametrize("page", ["guarantees", "guarantees.md", "docs/guarantees.md"])
def test_a_page_is_found_as_messages_cite_it(sottovoce, page):
    found = json.loads(sottovoce("docs", page, "--json").stdout)
    assert found["text"] == (SOURCE.parents[1] / "docs" / "guarantees.md").read_text()
    assert Path(found["path"]).read_text() == found["text"]


@pytest.mark.parametrize("page", ["papers", "data"])
def test_a_page_fits_the_terminal_and_neither_names_nor_lines_to_copy_are_cut(sottovoce, page):
    shown, source = sottovoce("docs", page).stdout, (SOURCE.parents[1] / "docs" / f"{page}.md").read_text()
    code = [line.rstrip() for block in source.split("```")[1::2] for line in block.splitlines()[1:]]
    assert all(line.rstrip() in code for line in shown.splitlines() if len(line) > 80)
    assert set(filter(None, code)) <= {line.rstrip() for line in shown.splitlines()}
    assert "…" not in shown
    for word in ("diabetes", "CC BY 4.0") if page == "data" else ("graph_homomo", "rphic"):
        assert word in shown


def test_an_unknown_page_is_refused_with_the_known_ones(sottovoce):
    refused(sottovoce("docs", "nothing"), "no page 'nothing'", "guarantees")


def test_every_page_that_code_cites_exists():
    for path in SOURCE.rglob("*.py"):
        for name in re.findall(r"docs/([a-z][\w-]*)\.md", path.read_text(encoding="utf-8")):
            assert name in PAGES, f"{path.name} cites docs/{name}.md"


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them from headings."""
    lines = re.findall(r"(?m)^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", [*(f"docs/{name}.md" for name in PAGES), "README.md"])
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page):
    page = SOURCE.parents[1] / page
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        name, _, anchor = link.partition("#")
        if not name.startswith("http"):
            target = page.parent / name if name else page
            assert target.exists(), f"{page.name} links to {link}"
            assert not anchor or anchor in headings(target), f"{page.name} links to {link}"


def test_expected_numbers_of_the_package_are_never_written(sottovoce, tmp_path):
    stored = files("sottovoce.studies") / "reproductions" / "cyffers2022-walk" / "expected.json"
    before = stored.read_text()
    refused(sottovoce("reproduce", "cyffers2022-walk", "--accept", "0.1"), "installed package", "Copy this folder")
    assert stored.read_text() == before
    assert not list(tmp_path.iterdir())


def test_a_folder_of_results_named_reproductions_hides_none_of_the_package(sottovoce, tmp_path):
    (tmp_path / "reproductions" / "cyffers2022-walk").mkdir(parents=True)
    assert "rizk2023-regression" in json.loads(sottovoce("reproduce", "list", "--json").stdout)["reproductions"]


def test_a_comparison_of_the_package_is_found_by_its_name(sottovoce, tmp_path):
    from sottovoce.experiments import read_comparison

    assert read_comparison("rizk-regression").name == "rizk-regression"
    (tmp_path / "rizk-regression").write_text("[compare]\n")
    refused(sottovoce("compare", "rizk-regression"), "rizk-regression: [compare]")
    refused(sottovoce("compare", "elsewhere/rizk-regression"), "elsewhere/rizk-regression")
