import numpy as np
import pytest

from sottovoce.errors import ConfigError
from sottovoce.reports import LossLine, loss_by_distance, save
from sottovoce.reports.pictures.distance_picture import Shown, distance_picture

X = [1, 2, 3]
LINE = LossLine(X, [1.0, 0.1, 0.01], [0.9, 0.05, 0.005], [1.0, 0.2, 0.02])


def drawn(given, *, compared=None, **shown):
    return distance_picture(given, Shown(y_label="mu", **shown), compared=compared)


def test_lines_bands_and_comparisons_are_the_given_values():
    (panel,) = drawn(
        {"grid": LINE},
        compared={"grid": LossLine(X, [1.0, 0.2, 0.001])},
        names=("exact", "published"),
        local=("local", 1.0),
    ).panels
    line, other = panel.lines
    assert (line.x, line.y) == ((1.0, 2.0, 3.0), (1.0, 0.1, 0.01))
    assert (line.low, line.high) == (tuple(LINE.low), tuple(LINE.high))
    assert other.y == (1.0, 0.2, 0.001)
    assert other.low is None
    assert line.colour == other.colour
    assert line.dash != other.dash
    assert (line.label, other.label) == ("exact", "published")
    assert [(level.value, level.label) for level in panel.levels] == [(1.0, "local")]


def test_every_line_is_named_and_at_most_six_share_a_panel():
    two = drawn({"ring": LINE, "grid": LINE}, compared={"ring": LINE}, names=("exact", "published")).panels
    assert [line.label for line in two[0].lines] == ["ring, exact", "ring, published", "grid, exact"]
    four = {name: LINE for name in ("ring", "grid", "star", "path")}
    panels = drawn(four, compared=four, names=("exact", "published")).panels
    assert [panel.title for panel in panels] == list(four)
    assert all([line.label for line in panel.lines] == ["exact", "published"] for panel in panels)
    many = drawn({str(number): LINE for number in range(8)}).panels
    assert [len(panel.lines) for panel in many] == [4, 4]


def test_the_figure_has_the_words_of_the_picture():
    figure = loss_by_distance({"ring": LINE}, y_label="mu", local=("local", 1.0), title="The title")
    assert figure.axes[0].get_xlabel() == "graph distance (links)"
    assert figure.axes[0].get_ylabel() == "mu"
    assert {text.get_text() for text in figure.axes[0].texts} == {"ring", "local"}
    assert figure.subfigs[0].get_suptitle() == "The title"


def test_zeros_leave_a_logarithmic_axis_and_stay_on_a_linear_one():
    given = LossLine(X, [1.0, 0.5, 0.0])
    assert len(drawn({"a": given}).panels[0].lines[0].x) == 2
    (linear,) = drawn({"a": given}, log_y=False).panels
    assert len(linear.lines[0].x) == 3
    assert linear.y.limits[0] == 0


def test_an_axis_begins_where_it_is_told_to_and_ticks_are_the_places():
    given = {"a": LossLine([1, 2, 4, 8, 16], 10.0 ** -np.arange(0, 25, 5))}
    figure = loss_by_distance(given, y_label="mu", least=1e-6)
    assert figure.axes[0].get_ylim()[0] == 1e-6
    assert figure.axes[0].get_xscale() == "log"
    assert figure.axes[0].get_xticks().tolist() == [1, 2, 4, 8, 16]
    (name,) = figure.axes[0].texts  # the line leaves the panel, its name does not
    assert name.get_window_extent().y1 > figure.axes[0].bbox.y0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "empty"),
        ({"a": LossLine([1, 2], [1.0])}, "one value for every distance"),
        ({"a": LossLine([], [])}, "at least one distance"),
        ({"a": LossLine([1], [np.nan])}, "value nan"),
        ({"a": LossLine([1], [np.inf])}, "value inf"),
        ({"a": LossLine([1], [-1.0])}, "not negative"),
        ({"a": LossLine([1], [0.0])}, "0 everywhere"),
    ],
)
def test_what_cannot_be_drawn_is_refused(given, words):
    with pytest.raises(ConfigError, match=words):
        loss_by_distance(given, y_label="mu")


def test_a_comparison_without_its_line_is_refused():
    with pytest.raises(ConfigError, match="'b' is compared with no line"):
        loss_by_distance({"a": LINE}, compared={"b": LINE}, y_label="mu")


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        save(loss_by_distance({"a": LINE}, y_label="mu"), tmp_path, name, caption="what was run, in words")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
