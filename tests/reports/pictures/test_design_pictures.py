"""Pictures of designed noise: every number given is drawn where it belongs, and what cannot be drawn is refused."""

import json

import numpy as np
import pytest

import sottovoce as sv
from sottovoce import reports
from sottovoce.reports.networks import paint_network
from sottovoce.reports.pictures import colours
from sottovoce.reports.pictures.design_pictures import (
    FrontierPoint,
    design_network_picture,
    error_picture,
    frontier_picture,
    gains_picture,
)

GAINS = {"ring": {"best gopa": 2.0, "designed": 2.5, "central bound": 20.0}, "star": {"designed": 1.1}}


def test_every_network_has_its_row_and_every_scheme_its_marks():
    picture = gains_picture(GAINS, title="Gains")
    (panel,) = picture.panels
    assert dict(panel.y.ticks) == {1.0: "ring", 0.0: "star"}
    drawn = {line.name: list(zip(line.x, line.y, strict=True)) for line in panel.lines}
    assert drawn == {"best gopa": [(2.0, 1.0)], "designed": [(2.5, 1.0), (1.1, 0.0)], "central bound": [(20.0, 1.0)]}
    assert [key.name for key in picture.keys] == list(drawn)
    assert len({key.colour for key in picture.keys}) == 3
    assert panel.x.limits[0] < 1.0 < panel.x.limits[1]
    json.dumps(picture.as_dict())


def test_error_falls_with_the_square_of_mu_through_the_given_point():
    picture = error_picture({"independent": 3.0, "designed": 1.0}, 0.5, measure="error", observer="somebody")
    for line, error in zip(picture.panels[0].lines, (3.0, 1.0), strict=True):
        at = dict(zip(line.x, line.y, strict=True))
        assert at[0.5] == pytest.approx(error)
        assert at[1.0] == pytest.approx(error / 4)
    odd = error_picture({"designed": 2.0}, 0.9249, measure="error", observer="somebody").panels[0]
    assert [text for _, text in odd.x.ticks] == ["0.2", "0.5", "1", "2", "5"]
    assert odd.lines[0].y[0] == pytest.approx(2.0 * (0.9249 / 0.2) ** 2)
    assert "somebody" in picture.panels[0].x.label


def test_the_frontier_joins_designs_and_leaves_schemes_as_points():
    picture = frontier_picture(
        [FrontierPoint(1.0, 0.5, "0"), FrontierPoint(2.0, 0.1, "10")], {"independent": FrontierPoint(3.0, 2.0)}
    )
    designed, other = picture.panels[0].lines
    assert (designed.x, designed.y, designed.dash) == ((1.0, 2.0), (0.5, 0.1), "solid")
    assert (other.x, other.y, other.dash) == ((3.0,), (2.0,), "none")
    assert [text.text for text in picture.panels[0].texts] == ["0", "10"]


def test_a_strong_pair_is_wide_and_its_colour_says_whether_noise_cancels():
    topology = sv.topologies.ring(4)
    picture = design_network_picture(topology, [[0, 1], [1, 2], [0, 2]], [-4.0, 1.0, 0.0], [1.0, 0.5, 0.0, 1 + 1e-16])
    cancels, adds, nothing = picture.shared_widths
    assert cancels > adds > nothing
    assert picture.shared_colours == (colours.BLUE, colours.VERMILION, colours.BLUE)
    assert picture.shared == ((0, 1), (1, 2), (0, 2))
    assert picture.values == (1.0, 0.5, 0.0, 1.0)
    assert len(picture.links) == 4  # links stay, shared or not
    json.dumps(picture.as_dict())


def test_the_network_is_painted_with_a_line_per_pair_and_a_legend_of_the_colours_that_occur():
    topology = sv.topologies.ring(4)
    figure = paint_network(design_network_picture(topology, topology.pairs, -np.ones(4), np.full(4, 0.5)))
    axes = figure.subfigs[0].axes[0]
    assert [len(each.get_segments()) for each in axes.collections if hasattr(each, "get_segments")] == [4, 4]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["takes back what the other adds"]
    for picture in (gains_picture(GAINS), error_picture({"designed": 1.0}, 1.0, measure="error", observer="somebody")):
        assert reports.paint(picture).subfigs[0].axes


@pytest.mark.parametrize(
    "draw",
    [
        lambda: gains_picture({}),
        lambda: gains_picture({"ring": {"designed": 0.0}}),
        lambda: gains_picture({"ring": {"designed": np.inf}}),
        lambda: error_picture({"designed": 1.0}, 0.0, measure="error", observer="somebody"),
        lambda: frontier_picture([], {}),
        lambda: frontier_picture([FrontierPoint(1.0, -1.0)], {}),
        lambda: design_network_picture(sv.topologies.ring(4), [[0, 1]], [1.0, 2.0], np.ones(4)),
        lambda: design_network_picture(sv.topologies.ring(4), [[0, 1]], [np.nan], np.ones(4)),
        lambda: design_network_picture(sv.topologies.ring(4), [[0, 1]], [1.0], np.ones(3)),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw):
    with pytest.raises(sv.ConfigError):
        draw()
