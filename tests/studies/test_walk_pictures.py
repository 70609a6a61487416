"""Pictures of a walking token: the lines are the cells, and the captions say who looks and why it holds."""

import xml.etree.ElementTree as ET

import pytest

from sottovoce.studies.cells import Cell
from sottovoce.studies.kinds import KINDS, read_privacy_study, run_privacy_study
from sottovoce.studies.privacy_study import PrivacyStudyResult, points_of
from sottovoce.studies.walk import draw_walk, draw_walk_learning

WALK = {"kind": "walk", "name": "w", "agents": [10, 1000], "hops_per_agent": 100, "epsilon": 0.1, "delta": 1e-7}
LEARNING = {
    "kind": "walk_learning", "name": "l", "agents": 30, "samples": 4, "test_records": 50, "dimension": 3, "margin": 10.0, "step_size": 0.05,
    "hops": 600, "contributions": 30, "epsilons": [10.0, 1.0], "delta": 1e-5, "tail": 100, "repeats": 2, "seed": 1,
}  # fmt: skip


def learned():
    section = read_privacy_study(LEARNING)
    cells = {
        measure: {
            line: {place: Cell(value=0.0 if (measure, line) == ("std", "noise-free") else 0.1, error=0.01 * (measure != "std"))
                   for place in section.places()}
            for line in section.lines()
        }
        for measure in section.measures
    }  # fmt: skip
    return PrivacyStudyResult(section=section, cells=cells)


def words(path):
    return " ".join(" ".join(text.strip() for text in ET.parse(path).getroot().itertext()).split())


def test_every_kind_of_walk_study_has_its_pictures():
    assert {"walk", "walk_learning"} <= set(KINDS)
    assert KINDS["walk"].draw is draw_walk
    assert KINDS["walk_learning"].draw is draw_walk_learning


def test_the_series_are_the_cells():
    result = run_privacy_study(read_privacy_study(WALK), {}, source="test")
    found = points_of(result, "epsilon")
    assert list(found) == result.section.lines()
    for line, (x, y, errors) in found.items():
        assert x == [10.0, 1000.0]
        assert y == [cell.value for cell in result.cells["epsilon"][line].values()]
        assert errors is None  # computed, not measured
    assert points_of(learned(), "test_error")["local"][2] == [0.01, 0.01]


def test_the_figure_names_all_lines_and_its_caption_observer_validity_and_source(tmp_path):
    result = run_privacy_study(read_privacy_study(WALK), {}, source="test")
    files = draw_walk(result, tmp_path, "A document")
    assert [path.name for path in files] == ["w.png", "w.svg"]
    shown = words(files[1])
    drawn = [line for line in result.section.lines() if line != "proven, by gaps"]  # six can be told apart
    for text in (*drawn, "number of agents n", "epsilon of the whole walk", "A document"):
        assert text in shown
    for text in ("one curious agent", "amplified by iteration", "docs/guarantees.md", "(0.1, 1e-07)"):
        assert text in shown


def test_learning_has_one_figure_for_the_error_and_one_for_the_noise_without_the_line_that_has_none(tmp_path):
    files = draw_walk_learning(learned(), tmp_path, "A document")
    assert [path.name for path in files] == ["l-test-error.png", "l-test-error.svg", "l-std.png", "l-std.svg"]
    assert "noise-free" in words(files[1])
    assert "noise-free" not in words(files[3])
    for path in (files[1], files[3]):
        for text in ("600 hops", "delta = 1e-05", "whoever reads every hop"):
            assert text in words(path)


def test_results_of_another_study_are_no_picture_of_this_one(tmp_path):
    with pytest.raises(AssertionError):
        draw_walk(learned(), tmp_path, "A document")
