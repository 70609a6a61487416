import numpy as np
import pytest

from sottovoce.errors import ConfigError
from sottovoce.reports import label_distribution
from sottovoce.reports.pictures.label_picture import MAX_LABELS


def random_labels(num_labels, agents=5, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(num_labels, size=generator.integers(200, 300)) for _ in range(agents)]


@pytest.mark.parametrize("num_labels", [2, 7, MAX_LABELS])
def test_bars_are_the_counts_stacked_without_gaps(num_labels):
    targets = random_labels(num_labels)
    containers = label_distribution(targets).axes[0].containers
    assert len(containers) == num_labels
    below = np.zeros(len(targets))
    for label, bars in enumerate(containers):
        heights = np.array([bar.get_height() for bar in bars])
        np.testing.assert_array_equal(heights, [np.sum(values == label) for values in targets])
        np.testing.assert_allclose([bar.get_y() for bar in bars], below)
        below += heights
    np.testing.assert_array_equal(below, [len(values) for values in targets])


def test_no_two_labels_look_the_same():
    containers = label_distribution(random_labels(MAX_LABELS)).axes[0].containers
    looks = {(bars[0].get_facecolor(), bars[0].get_hatch()) for bars in containers}
    assert len(looks) == MAX_LABELS


def test_every_label_is_in_the_legend_whatever_its_type():
    for targets, expected in [
        ([np.array([-1.0, 1.0]), np.array([1.0])], {"-1", "1"}),
        ([np.array(["cat"]), np.array(["dog", "cat"]), np.array([], dtype="U3")], {"cat", "dog"}),
        ([np.array([True, False])], {"True", "False"}),
    ]:
        (legend,) = label_distribution(targets).subfigs[0].legends
        assert {text.get_text() for text in legend.get_texts()} == expected


@pytest.mark.parametrize("kind", ["real", "many labels"])
def test_real_targets_and_many_labels_become_quantiles_per_agent(kind):
    targets = random_labels(40)
    if kind == "real":
        targets = [values + np.random.default_rng(1).random(len(values)) for values in targets]
    targets.insert(2, np.array([]))
    axes = label_distribution(targets).axes[0]
    assert not axes.containers
    present = [0, 1, 3, 4, 5]
    thin, thick = (np.array(part.get_segments())[:, :, 1] for part in axes.collections)
    (median,) = axes.get_lines()
    np.testing.assert_array_equal(median.get_xdata(), present)
    expected = np.array([np.quantile(targets[k], [0.05, 0.25, 0.5, 0.75, 0.95]) for k in present])
    np.testing.assert_allclose(thin, expected[:, [0, 4]])
    np.testing.assert_allclose(thick, expected[:, [1, 3]])
    np.testing.assert_allclose(median.get_ydata(), expected[:, 2])


def test_what_cannot_be_drawn_is_refused():
    for empty in ([], [np.array([])]):
        with pytest.raises(ConfigError, match="no records"):
            label_distribution(empty)
    with pytest.raises(ConfigError, match="not finite"):
        label_distribution([np.array([1.0, np.nan])])
    with pytest.raises(ConfigError, match="13 texts"):
        label_distribution([np.array([f"label {k}" for k in range(13)])])
    with pytest.raises(ConfigError, match="numbers or texts"):
        label_distribution([np.array([1 + 2j])])
