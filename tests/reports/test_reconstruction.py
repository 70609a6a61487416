import numpy as np
import pytest

from sottovoce.errors import ConfigError
from sottovoce.reports.reconstruction import reconstructions

ORIGINALS = np.linspace(0, 1, 2 * 4 * 4).reshape(2, 4, 4)
COLUMNS = {"no noise": ORIGINALS, "epsilon 1": 1 - ORIGINALS}
SCORES = {"no noise": [1.0, 1.0], "epsilon 1": [-0.001, -0.5]}


def test_rows_are_images_and_columns_amounts_of_noise_with_the_original_first():
    axes = np.array(reconstructions(ORIGINALS, COLUMNS, scores=SCORES, score_label="s").axes).reshape(2, 3)
    assert [a.get_title() for a in axes[0]] == ["original", "no noise", "epsilon 1"]
    for row in range(2):
        for column, images in enumerate([ORIGINALS, *COLUMNS.values()]):
            shown = axes[row, column].get_images()[0]
            np.testing.assert_array_equal(shown.get_array(), images[row])
            assert shown.get_clim() == (0.0, 1.0)
    assert [a.get_xlabel() for a in axes[:, 2]] == ["0.00", "-0.50"]
    assert axes[0, 0].get_xlabel() == ""


@pytest.mark.parametrize(
    ("originals", "rebuilt", "scores", "words"),
    [
        (ORIGINALS[0], COLUMNS, SCORES, "height, width"),
        (2 * ORIGINALS, COLUMNS, SCORES, "outside"),
        (ORIGINALS, {"a": ORIGINALS * np.nan}, {"a": [1.0, 1.0]}, "outside"),
        (ORIGINALS, {"a": ORIGINALS[:1]}, {"a": [1.0]}, "needed is"),
        (ORIGINALS, COLUMNS, {"no noise": [1.0, 1.0]}, "a score for each"),
        (ORIGINALS, COLUMNS, {**SCORES, "epsilon 1": [1.0]}, "2 finite numbers"),
        (np.zeros((60, 2, 2)), {"a": np.zeros((60, 2, 2)), "b": np.zeros((60, 2, 2))}, {"a": [0.0] * 60, "b": [0.0] * 60}, "too many"),
    ],
)  # fmt: skip
def test_what_does_not_belong_together_is_refused(originals, rebuilt, scores, words):
    with pytest.raises(ConfigError, match=words):
        reconstructions(originals, rebuilt, scores=scores, score_label="s")
