import numpy as np
import pytest

from sottovoce.errors import ConfigError
from sottovoce.reports import heat_map

MATRIX = np.array([[np.nan, 0.2, np.inf], [0.4, np.nan, 0.0], [0.1, 0.3, np.nan]])


def test_squares_are_the_given_numbers_rows_whose_data_and_columns_who_looks():
    figure = heat_map(MATRIX, label="mu", largest=1.0)
    axes = figure.axes[0]
    finite, infinite = axes.get_images()
    shown = finite.get_array()
    np.testing.assert_allclose(shown.filled(np.nan), np.where(np.isfinite(MATRIX), MATRIX, np.nan))
    assert finite.get_clim() == (0.0, 1.0)
    assert np.argwhere(~infinite.get_array().mask).tolist() == [[0, 2]]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("whose data: agent u", "who looks: agent v")
    assert figure.axes[1].get_ylabel() == "mu"


def test_the_legend_explains_grey_and_vermilion_only_where_they_occur():
    def texts(matrix):
        legends = heat_map(matrix, label="mu").subfigs[0].legends
        return [text.get_text() for legend in legends for text in legend.get_texts()]

    assert texts(MATRIX) == ["the agent itself", "infinite: something is in clear"]
    assert texts(np.where(np.isinf(MATRIX), 1.0, MATRIX)) == ["the agent itself"]
    assert texts(np.ones((2, 2))) == []


def test_colours_end_at_the_largest_loss_unless_told_otherwise():
    assert heat_map(MATRIX, label="mu").axes[0].get_images()[0].get_clim() == (0.0, 0.4)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.ones((2, 3)), r"must be \[K, K\]"),
        (np.ones(4), r"must be \[K, K\]"),
        (np.full((2, 2), np.nan), "finite loss"),
        (-np.ones((2, 2)), "below 0"),
    ],
)
def test_other_arrays_are_refused(matrix, words):
    with pytest.raises(ConfigError, match=words):
        heat_map(matrix, label="mu")
