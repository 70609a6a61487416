import dataclasses

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.errors import ConfigError
from sottovoce.experiments.comparison.result import Measured
from sottovoce.reports import comparison_figures, frontier
from sottovoce.reports.comparisons import frontier_caption
from sottovoce.reports.painting import LABEL
from sottovoce.reports.pictures import colours
from sottovoce.reports.pictures.comparison_picture import comparison_picture, without_guarantee


@pytest.fixture(scope="module")
def comparison():
    """Unclipped, so that exact theory is there; graph-homomorphic noise has no guarantee for the second observer."""
    problem = sv.problems.mean_estimation(np.random.default_rng(1).uniform(-1, 1, size=(4, 20, 2)), radius=1.0)
    law = sv.noise.Gaussian(std=1.0)
    return sv.compare(
        problem,
        sv.topologies.complete(4),
        {"atc": sv.algorithms.atc(step_size=0.05), "cta": sv.algorithms.cta(step_size=0.05)},
        {"graph-homomorphic": sv.noise.graph_homomorphic(law), "independent": sv.noise.independent(law)},
        [sv.observers.eavesdropper(), sv.observers.eavesdropper() + sv.observers.final_model()],
        rounds=6,
        sensitivity=problem.sensitivity(unit="record", adjacency="replace", norm="l2"),
        unit="record",
        losses=problem.losses,
        epsilons=[1.0, 4.0],
        delta=1e-5,
        repeats=5,
        progress=False,
    )


def row_of(comparison, observer, algorithm, scheme):
    return [r for r in comparison.rows if (r.observer, r.algorithm, r.scheme) == (observer, algorithm, scheme)]


def test_points_and_bars_are_those_of_the_comparison(comparison):
    panel = comparison_picture(comparison, "msd_average", algorithm="cta").panels[0]
    assert {line.name for line in panel.lines} == {"graph-homomorphic", "independent"}
    for line in panel.lines:
        found = [row.measured["msd_average"] for row in row_of(comparison, "eavesdropper", "cta", line.name)]
        np.testing.assert_allclose(line.y, [each.value for each in found])
        np.testing.assert_allclose(line.low, [each.value - each.standard_error for each in found])
        np.testing.assert_allclose(line.high, [each.value + each.standard_error for each in found])
        assert line.x == (1.0, 4.0)
        assert line.label == line.name
    assert (panel.x.scale, panel.y.scale) == ("log", "log")


def test_one_panel_per_observer_and_algorithm_with_epsilon_below_and_the_line_without_noise(comparison):
    picture = comparison_picture(comparison)
    assert [panel.title for panel in picture.panels] == [
        "Someone who reads every message\nATC",
        "Someone who reads every message, and gets the final model\nATC",
        "Someone who reads every message\nCTA",
        "Someone who reads every message, and gets the final model\nCTA",
    ]
    for panel, algorithm in zip(picture.panels, ("atc", "atc", "cta", "cta"), strict=True):
        assert panel.x.label == "epsilon at delta = 1e-05"
        assert panel.x.ticks == ((1.0, "1"), (4.0, "4"))
        (reference,) = [row for row in comparison.references if row.algorithm == algorithm]
        (level,) = panel.levels
        assert level.value == reference.measured["msd_centroid"].value
        assert level.colour == colours.GROUPS["without noise"]


def test_schemes_have_the_colour_that_they_have_everywhere(comparison):
    for panel in comparison_picture(comparison).panels:
        for line in panel.lines:
            assert line.colour == colours.known_colour(line.name, colours.SCHEMES)


def test_what_has_no_guarantee_is_named_below_its_panel_and_not_drawn(comparison):
    first, second = comparison_picture(comparison, algorithm="atc").panels
    assert first.note == ""
    assert second.note == "no guarantee, not drawn: graph-homomorphic"
    assert [line.name for line in second.lines] == ["independent"]
    assert comparison_picture(comparison, algorithm="cta").panels[1].note == "no scheme has a guarantee here"
    assert without_guarantee(comparison, "eavesdropper + final model", "cta") == ["graph-homomorphic", "independent"]


def test_more_than_six_schemes_are_drawn_in_several_panels(comparison):
    def copies(count, laws):
        made = []
        for number in range(count):
            noise = sv.noise.independent(laws[number % len(laws)])
            made += [
                dataclasses.replace(row, scheme=f"scheme {number}", noise=noise)
                for row in comparison.rows
                if row.scheme == "independent" and (row.observer, row.algorithm) == ("eavesdropper", "atc")
            ]
        return dataclasses.replace(comparison, rows=tuple(made))

    one, two = sv.noise.Gaussian(std=1.0), sv.noise.L2Laplace(scale=1.0)
    by_law = comparison_picture(copies(8, [one, two]), algorithm="atc").panels
    assert [panel.title.partition("\n")[2] for panel in by_law] == ["Gaussian noise", "L2Laplace noise"]
    in_order = comparison_picture(copies(8, [one]), algorithm="atc").panels
    assert [len(panel.lines) for panel in in_order] == [4, 4]
    looks = {line.name: (line.colour, line.dash) for panel in by_law for line in panel.lines}
    assert looks == {line.name: (line.colour, line.dash) for panel in in_order for line in panel.lines}


def test_the_figure_shows_every_line_with_its_label(comparison):
    figure = frontier(comparison, "msd_average", algorithm="atc")
    for axes, panel in zip(
        figure.axes, comparison_picture(comparison, "msd_average", algorithm="atc").panels, strict=True
    ):
        names = {text.get_text() for text in axes.texts if text.get_gid() == LABEL}
        assert names == {line.name for line in panel.lines} | {panel.levels[0].label}
        assert [container.get_label() for container in axes.containers] == [line.name for line in panel.lines]
        for container, line in zip(axes.containers, panel.lines, strict=True):
            np.testing.assert_allclose(container[0].get_ydata(), line.y)


def test_figures_are_saved_with_a_caption_that_says_what_was_run_and_what_was_promised(comparison, tmp_path):
    paths = comparison_figures(comparison, tmp_path)
    assert [path.name for path in paths] == [
        f"frontier-{measure}-{algorithm}.{kind}"
        for measure in ("msd-centroid", "msd-average") for algorithm in ("atc", "cta") for kind in ("png", "svg")
    ]  # fmt: skip
    caption = frontier_caption(comparison)
    for part in (
        "mean estimation",
        "4 agents",
        "6 rounds",
        "5 repeats",
        "equal epsilon",
        "Promised, checked on the data at hand",
        "the models must not be released",
    ):
        assert part in caption
    assert "Bars are one standard error" in " ".join(paths[1].read_text().split())


def test_a_measure_that_was_not_taken_and_a_value_without_logarithm_are_refused(comparison):
    with pytest.raises(ConfigError, match="'loss' was not measured"):
        frontier(comparison, "loss")
    with pytest.raises(ConfigError, match="'dgd' was not compared"):
        frontier(comparison, algorithm="dgd")
    first = comparison.rows[0]
    zero = dataclasses.replace(first, measured={"msd_centroid": Measured(per_repeat=np.zeros(5), theory=None)})
    with pytest.raises(ConfigError, match="above 0"):
        frontier(dataclasses.replace(comparison, rows=(zero, *comparison.rows[1:])), "msd_centroid")
