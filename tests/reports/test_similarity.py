import math

import numpy as np
import pytest

from sottovoce.errors import ConfigError
from sottovoce.reports.painting import paint
from sottovoce.reports.pictures import colours
from sottovoce.reports.pictures.leak_pictures import readable_picture, similarity_picture
from sottovoce.reports.similarity import similarity_curves

EPSILONS = [math.inf, 100.0, 1.0]
LINES = {"a, eavesdropper": ([1.0, 0.5, 0.2], [0.0, 0.01, 0.01]), "b": ([1.0, 0.5, 0.2], [0.0, 0.01, 0.01])}


def test_no_noise_stands_apart_at_the_right_and_epsilons_are_named():
    (panel,) = similarity_picture(EPSILONS, LINES).panels
    places = {text: place for place, text in panel.x.ticks}
    assert (places["1"], places["100"]) == (0.0, 2.0)
    assert places["no noise"] > places["100"]


def test_lines_that_lie_on_each_other_stand_side_by_side_with_their_values_in_percent():
    (panel,) = similarity_picture(EPSILONS, LINES, chance=0.2).panels
    first, second = panel.lines
    assert first.y == second.y == (0.2, 0.5, 1.0)
    assert (np.array(first.x) < np.array(second.x)).all()
    assert first.high == pytest.approx((0.22, 0.52, 1.0))
    assert panel.y.percent
    assert first.label == "a, eavesdropper: 100 %"
    assert [level.label for level in panel.levels] == ["guessing: 20 %"]


def test_observers_have_their_colours_and_lines_of_one_observer_differ_in_dash():
    named = {
        "independent, eavesdropper": LINES["b"],
        "masks, eavesdropper": LINES["b"],
        "independent, server": LINES["b"],
    }
    one, two, other = similarity_picture(EPSILONS, named).panels[0].lines
    assert one.colour == two.colour == colours.OBSERVERS["eavesdropper"]
    assert one.dash != two.dash
    assert other.colour == colours.OBSERVERS["server"]


def test_theory_is_drawn_only_where_given():
    picture = similarity_picture(EPSILONS, LINES, theory={"b": [1.0, 0.5, 0.2]})
    assert [line.name for line in picture.panels[0].lines] == ["a, eavesdropper", "b", "theory b"]
    assert [key.name for key in picture.keys] == ["exact expectation"]
    assert similarity_picture(EPSILONS, LINES).keys == ()


def test_the_figure_names_its_lines_beside_them():
    figure = similarity_curves(EPSILONS, LINES, title="What is left")
    assert {text.get_text() for text in figure.axes[0].texts} == {"a, eavesdropper: 100 %", "b: 100 %"}


def test_what_is_read_exactly_and_by_how_much_the_rest_is_off_is_written_in_words():
    errors = {"linear": {"without noise": {"record": 1e-12, "sum": 1e-12}, "noise": {"record": 0.871, "sum": 123.4}}}
    picture = readable_picture(
        errors, exact_below={"record": 1e-6, "sum": 1e-10}, title="t", subtitle="epsilon is infinite"
    )
    cells = picture.panels[0].cells
    assert cells.texts == (("read exactly", "read exactly"), ("off by 87 %", "off by 12,000 %"))
    assert len({*cells.colours[0]}) == len({*cells.colours[1]}) == 1
    assert cells.colours[0][0] != cells.colours[1][0]
    assert "off by 87 %" in [text.get_text() for text in paint(picture).axes[0].texts]


@pytest.mark.parametrize(
    ("epsilons", "lines", "words"),
    [
        ([1.0, 100.0], {}, "must fall"),
        ([1.0], {}, "two or more"),
        ([1.0, -1.0], {}, "above 0"),
        (EPSILONS, {"a": ([0.5], [0.0])}, "needs 3"),
        (EPSILONS, {"a": ([0.5, 1.5, 0.1], [0.0] * 3)}, "in"),
        (EPSILONS, {"a": ([0.5, math.nan, 0.1], [0.0] * 3)}, "needs 3"),
    ],
)
def test_what_is_no_similarity_is_refused(epsilons, lines, words):
    with pytest.raises(ConfigError, match=words):
        similarity_curves(epsilons, lines)
