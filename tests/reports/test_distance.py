import numpy as np
import pytest

from sottovoce.errors import ConfigError
from sottovoce.reports import LossLine, loss_by_distance, save

X = [1, 2, 3]
LINE = LossLine(X, [1.0, 0.1, 0.01], [0.9, 0.05, 0.005], [1.0, 0.2, 0.02])


def lines(figure):
    return {line.get_label(): line for line in figure.axes[0].get_lines()}


def test_lines_bands_and_comparisons_are_the_given_values():
    figure = loss_by_distance(
        {"grid": LINE}, compared={"grid": LossLine(X, [1.0, 0.2, 0.001])}, local=("local", 1.0), y_label="mu"
    )
    drawn = lines(figure)
    np.testing.assert_allclose(drawn["grid"].get_xydata(), np.column_stack([X, LINE.middle]))
    np.testing.assert_allclose(drawn["_grid compared"].get_ydata(), [1.0, 0.2, 0.001])
    assert drawn["grid"].get_color() == drawn["_grid compared"].get_color()
    assert drawn["grid"].get_linestyle() != drawn["_grid compared"].get_linestyle()
    (band,) = figure.axes[0].collections
    edges = band.get_paths()[0].vertices
    for x, low, high in zip(X, LINE.low, LINE.high, strict=True):
        assert {low, high} <= set(edges[edges[:, 0] == x][:, 1])
    np.testing.assert_allclose(drawn["_local"].get_ydata(), 1.0)


def test_the_legend_names_graphs_both_kinds_of_line_and_the_local_value():
    figure = loss_by_distance(
        {"ring": LINE, "grid": LINE}, compared={"ring": LINE}, names=("exact", "published"), local=("local", 1.0),
        y_label="mu",
    )  # fmt: skip
    (legend,) = figure.subfigs[0].legends
    assert [text.get_text() for text in legend.get_texts()] == ["ring", "grid", "exact", "published", "local"]
    assert figure.axes[0].get_xlabel() == "graph distance (links)"
    assert figure.axes[0].get_ylabel() == "mu"


def test_zeros_leave_a_logarithmic_axis_and_stay_on_a_linear_one():
    given = LossLine(X, [1.0, 0.5, 0.0])
    assert len(lines(loss_by_distance({"a": given}, y_label="mu"))["a"].get_xdata()) == 2
    linear = loss_by_distance({"a": given}, y_label="mu", log_y=False)
    assert len(lines(linear)["a"].get_xdata()) == 3
    assert linear.axes[0].get_ylim()[0] == 0


def test_an_axis_begins_where_it_is_told_to_and_ticks_are_the_places():
    figure = loss_by_distance({"a": LossLine([1, 2, 4, 8, 16], 10.0 ** -np.arange(0, 25, 5))}, y_label="mu", least=1e-6)
    assert figure.axes[0].get_ylim()[0] == 1e-6
    assert figure.axes[0].get_xscale() == "log"
    assert figure.axes[0].get_xticks().tolist() == [1, 2, 4, 8, 16]


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
