import numpy as np
import pytest

from sottovoce.errors import ConfigError
from sottovoce.reports import scaling
from sottovoce.reports.pictures import colours
from sottovoce.reports.pictures.picture import Axis
from sottovoce.reports.pictures.sweep_picture import sweep_picture

X = np.array([10.0, 100.0, 1000.0])
LABELS = {"x_label": "agents", "y_label": "deviation"}


def test_points_and_error_bars_are_the_given_values():
    figure = scaling({"a": (X[::-1], 1 / X[::-1], 0.1 / X[::-1])}, **LABELS)
    (container,) = figure.axes[0].containers
    line, _, (bars,) = container
    np.testing.assert_allclose(line.get_xdata(), X)
    np.testing.assert_allclose(line.get_ydata(), 1 / X)
    np.testing.assert_allclose(np.array(bars.get_segments())[:, :, 1], np.stack([0.9 / X, 1.1 / X], axis=1))
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("agents", "deviation")


def test_reference_lines_have_their_slope_and_say_it():
    axes = scaling({"a": (X, X**-1.3, None)}, reference_slopes=[-1, -2], **LABELS).axes[0]
    for slope, text in ((-1, "slope −1"), (-2, "slope −2")):
        (line,) = [line for line in axes.get_lines() if line.get_label() == f"slope {slope}"]
        x, y = np.log(line.get_xdata()), np.log(line.get_ydata())
        assert (y[1] - y[0]) / (x[1] - x[0]) == pytest.approx(slope)
        assert text in [note.get_text() for note in axes.texts]


def test_every_series_is_named_at_its_end_and_at_most_six_share_a_panel():
    figure = scaling({name: (X, X, None) for name in "abcd"}, log_x=False, log_y=False, **LABELS)
    assert sorted(text.get_text() for text in figure.axes[0].texts) == list("abcd")
    many = scaling({name: (X, X, None) for name in "abcdefgh"}, title="t", subtitle="epsilon = 1", **LABELS)
    assert [len(axes.texts) for axes in many.axes] == [4, 4]
    assert many.subfigs[0].get_suptitle() == "t\nepsilon = 1"


def test_what_is_proven_published_and_local_has_its_colour_and_shares_are_percent():
    names = ("proven", "published, Theorem 3", "published, Lemma 1", "local")
    figure = scaling({name: (X, 1 / X, None) for name in names}, percent=True, **LABELS)
    found = {line.get_label(): line.get_color() for line in figure.axes[0].get_lines()}
    assert found["proven"] == colours.PROMISED
    assert found["published, Theorem 3"] == found["published, Lemma 1"] == colours.STANDINGS["published"]
    assert len(set(found.values())) == 3
    figure.canvas.draw()
    assert all(tick.get_text().endswith(" %") for tick in figure.axes[0].get_yticklabels() if tick.get_text())


def test_what_is_flat_without_noise_is_a_level_in_every_panel():
    series = {name: (X, 1 / X, None) for name in "abcdefg"} | {"noise-free": (X, np.full(3, 0.1), None)}
    picture = sweep_picture(series, Axis(label="x", scale="log"), Axis(label="y", scale="log"))
    assert [[line.name for line in panel.lines] for panel in picture.panels] == [list("abcd"), list("efg")]
    assert [[level.value for level in panel.levels] for panel in picture.panels] == [[0.1], [0.1]]
    assert picture.panels[0].levels[0].colour == colours.GROUPS["without noise"]
    alone = sweep_picture({"noise-free": series["noise-free"]}, Axis(label="x"), Axis(label="y"))
    assert [line.name for line in alone.panels[0].lines] == ["noise-free"]


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (([1.0, 2.0], [1.0], None), "one length"),
        (([], [], None), "not empty"),
        (([1.0], [np.nan], None), "value nan"),
        (([0.0], [1.0], None), "logarithmic"),
        (([1.0], [-1.0], None), "logarithmic"),
        (([1.0], [1.0], [-1.0]), "not negative"),
    ],
)
def test_bad_points_are_refused(point, message):
    with pytest.raises(ConfigError, match=message):
        scaling({"a": point}, **LABELS)


def test_empty_series_and_slopes_on_linear_axes_are_refused():
    with pytest.raises(ConfigError, match="empty"):
        scaling({}, **LABELS)
    with pytest.raises(ConfigError, match="log_x and log_y"):
        scaling({"a": (X, X, None)}, log_y=False, reference_slopes=[1], **LABELS)


def test_ticks_are_the_swept_values_and_short_axes_have_plain_numbers():
    x = np.array([0.5, 1, 2, 16])
    figure = scaling({"a": (x, 0.1 * x**-0.3, None)}, **LABELS)
    figure.canvas.draw()
    axes = figure.axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.5", "1", "2", "16"]
    low, high = axes.get_ylim()
    shown = [tick.get_text() for tick in axes.get_yticklabels() if low <= tick.get_position()[1] <= high]
    assert len(shown) >= 2
    assert all(float(text) > 0 for text in shown)


def test_a_reference_slope_runs_below_the_series_that_is_nearest_to_it():
    axes = scaling({"flat": (X, X**-1.0, None), "steep": (X, 0.1 * X**-2, None)}, reference_slopes=[-2], **LABELS).axes[
        0
    ]
    (line,) = [line for line in axes.get_lines() if line.get_label() == "slope -2"]
    np.testing.assert_allclose(line.get_ydata(), 0.06 * X[[0, -1]] ** -2)
