import dataclasses

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from sottovoce.errors import ConfigError
from sottovoce.reports import curve_grid, learning_curves
from sottovoce.reports.painting import FACTS
from sottovoce.reports.pictures import colours
from sottovoce.reports.pictures.run_picture import MAX_POINTS


def line(axes, label):
    (found,) = [line for line in axes.get_lines() if line.get_label() == label]
    return found


def names(figure):
    """Every label a reader sees, at line ends or in the legend."""
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    return texts + [text.get_text() for legend in figure.subfigs[0].legends for text in legend.get_texts()]


def band(axes, position):
    """Lower and upper edge of a filled band by round."""
    path = axes.collections[position].get_paths()[0].vertices
    rounds = np.unique(path[:, 0])
    edges = [path[path[:, 0] == x, 1] for x in rounds]
    return rounds, np.array([edge.min() for edge in edges]), np.array([edge.max() for edge in edges])


def test_line_is_decibels_of_the_mean_not_mean_of_decibels(make_run):
    run = make_run()
    drawn = line(learning_curves({"a": run}).axes[0], "a")
    values = run.metrics["msd_centroid"]
    np.testing.assert_allclose(drawn.get_ydata(), 10 * np.log10(values.mean(axis=0)))
    assert np.abs(drawn.get_ydata() - (10 * np.log10(values)).mean(axis=0)).max() > 1.0
    np.testing.assert_array_equal(drawn.get_xdata(), np.arange(1, 61))


def test_metrics_other_than_deviations_are_drawn_in_plain_units_unless_told(make_run):
    run = make_run()
    mean = run.metrics["loss"].mean(axis=0)
    plain, decibel = learning_curves({"a": run}, "loss"), learning_curves({"a": run}, "loss", decibel=True)
    np.testing.assert_allclose(line(plain.axes[0], "a").get_ydata(), mean)
    np.testing.assert_allclose(line(decibel.axes[0], "a").get_ydata(), 10 * np.log10(mean))
    assert "decibels" in decibel.axes[0].get_ylabel()
    assert "decibels" not in plain.axes[0].get_ylabel()


@pytest.mark.parametrize("decibel", [True, False])
def test_band_is_ten_to_ninety_percent_of_repeats_and_brackets_the_median(make_run, decibel):
    run = make_run(repeats=41)
    axes = learning_curves({"a": run}, decibel=decibel).axes[0]
    rounds, low, high = band(axes, 0)
    expected = np.quantile(run.metrics["msd_centroid"], [0.1, 0.5, 0.9], axis=0)
    if decibel:
        expected = 10 * np.log10(expected)
    np.testing.assert_allclose([low, high], expected[[0, 2]])
    assert ((low < expected[1]) & (expected[1] < high)).all()
    mean = line(axes, "a").get_ydata()
    assert ((low < mean) & (mean < high)).mean() > 0.95
    np.testing.assert_array_equal(rounds, np.arange(1, 61))


def test_a_single_repeat_has_no_band(make_run):
    figure = learning_curves({"a": make_run(repeats=1)})
    assert not figure.axes[0].collections
    assert not any("repeats" in name for name in names(figure))


def test_theory_is_the_given_curve_with_one_legend_entry(make_run):
    runs = {"a": make_run(1.0), "b": make_run(10.0)}
    theory = {"a": np.linspace(3, 1, 60), "b": np.linspace(30, 10, 60)}
    figure = learning_curves(runs, theory=theory)
    for label, curve in theory.items():
        drawn = line(figure.axes[0], f"theory {label}")
        np.testing.assert_allclose(drawn.get_ydata(), 10 * np.log10(curve))
        assert to_rgb(drawn.get_color()) == (0, 0, 0)
        order = [each.get_label() for each in figure.axes[0].get_lines()]
        assert order.index(f"theory {label}") > max(order.index(each) for each in runs)  # on top of all of them
    assert names(figure).count("exact expectation") == 1


@pytest.mark.parametrize("levels", [(1.0, 1.0, 1.0), (1.0, 1e3, 1e6)], ids=["on top of each other", "far apart"])
def test_every_run_is_named_exactly_once_at_the_end_of_its_line_and_labels_stay_apart(make_run, levels):
    figure = learning_curves({f"run {level} {k}": make_run(level) for k, level in enumerate(levels)})
    for k, level in enumerate(levels):
        assert names(figure).count(f"run {level} {k}") == 1
    figure.draw_without_rendering()
    heights = sorted(Text.get_window_extent(text).y0 for text in figure.axes[0].texts)
    assert min(np.diff(heights)) > 9 * figure.dpi / 72


def test_more_than_six_runs_get_several_panels_with_one_look_for_each(make_run):
    figure = learning_curves({str(k): make_run() for k in range(8)})
    assert [len(axes.texts) for axes in figure.axes] == [4, 4]
    assert (
        len({(line.get_color(), str(line.get_linestyle())) for axes in figure.axes for line in axes.get_lines()}) == 8
    )


def test_schemes_and_groups_have_the_colours_that_they_have_everywhere(make_run):
    runs = {"independent": make_run(), "noise-free": make_run(2.0), "graph-homomorphic": make_run(3.0)}
    axes = learning_curves(runs).axes[0]
    assert line(axes, "independent").get_color() == colours.SCHEMES["independent"]
    assert line(axes, "graph-homomorphic").get_color() == colours.SCHEMES["graph homomorphic"]
    assert line(axes, "noise-free").get_color() == colours.GROUPS["without noise"]


def test_shares_are_written_in_percent_and_epsilon_where_it_is_given(make_run):
    run = make_run()
    run = dataclasses.replace(run, metrics={"accuracy": np.full((3, 60), 0.875)})
    figure = learning_curves({"mine": run}, "accuracy", privacy="epsilon 1.2 for the server")
    assert [text.get_text() for text in figure.axes[0].texts] == ["mine: 87.5 %"]
    assert figure.axes[0].get_ylabel() == "accuracy, in percent"
    assert figure.subfigs[0].get_suptitle() == "Accuracy of the common model"
    (facts,) = figure.subfigs[0].findobj(lambda artist: artist.get_gid() == FACTS)
    assert facts.get_text().startswith("epsilon 1.2 for the server")


def test_legend_lies_outside_the_axes(make_run):
    figure = learning_curves({"a": make_run(1.0), "b": make_run(1.0)}, theory={"a": np.ones(60)})
    figure.draw_without_rendering()
    (legend,) = figure.subfigs[0].legends
    assert not legend.get_window_extent().overlaps(figure.axes[0].get_tightbbox())


def test_long_runs_are_thinned_to_rounds_that_were_run_with_both_ends(make_run):
    run = make_run(rounds=12_345, repeats=3)
    drawn = line(learning_curves({"a": run}, decibel=False).axes[0], "a")
    rounds = np.asarray(drawn.get_xdata()).astype(int)
    assert len(rounds) <= MAX_POINTS
    assert (rounds[0], rounds[-1]) == (1, 12_345)
    np.testing.assert_allclose(drawn.get_ydata(), run.metrics["msd_centroid"].mean(axis=0)[rounds - 1])


def test_grid_has_one_panel_per_key_and_the_same_look_for_the_same_label(make_run):
    panels = {
        "p": {"a": make_run(1.0), "b": make_run(2.0)},
        "q": {"b": make_run(3.0), "a": make_run(4.0)},
        "r": {"b": make_run(5.0)},
        "s": {"b": make_run(5.0)},
        "t": {"b": make_run(5.0)},
    }
    theory = {"q": {"a": np.linspace(2, 1, 60)}}
    figure = curve_grid(panels, "msd_centroid", theory=theory)
    assert [axes.get_title() for axes in figure.axes] == list(panels)
    p, q = figure.axes[:2]
    for label in "ab":
        assert line(p, label).get_color() == line(q, label).get_color()
        assert line(p, label).get_marker() == line(q, label).get_marker()
    assert p.get_ylim() == q.get_ylim()
    np.testing.assert_allclose(line(q, "theory a").get_ydata(), 10 * np.log10(theory["q"]["a"]))
    mean = panels["q"]["a"].metrics["msd_centroid"].mean(axis=0)
    np.testing.assert_allclose(line(q, "a").get_ydata(), 10 * np.log10(mean))
    assert sorted(names(figure)) == sorted([*"ab", *"ba", *"bbb", "exact expectation", "10–90 % of repeats"])


def test_what_cannot_be_drawn_is_refused(make_run):
    run = make_run()
    with pytest.raises(ConfigError, match="empty"):
        learning_curves({})
    with pytest.raises(ConfigError, match="no metric 'accuracy'"):
        learning_curves({"a": run}, "accuracy")
    with pytest.raises(ConfigError, match="not among the runs"):
        learning_curves({"a": run}, theory={"b": np.ones(60)})
    with pytest.raises(ConfigError, match="60 rounds"):
        learning_curves({"a": run}, theory={"a": np.ones(59)})
    with pytest.raises(ConfigError, match="empty"):
        curve_grid({"p": {}})
    with pytest.raises(ConfigError, match="panel 'q'"):
        curve_grid({"p": {"a": run}}, theory={"q": {}})
    with pytest.raises(ConfigError, match="not empty"):
        learning_curves({"a": make_run(repeats=0)})


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_a_value_without_decibels_is_refused_and_its_round_named(make_run, bad):
    run = make_run()
    run.metrics["msd_centroid"][2, 16] = bad
    with pytest.raises(ConfigError, match="after round 17"):
        learning_curves({"a": run})
