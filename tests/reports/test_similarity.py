import math

import pytest

from sottovoce.errors import ConfigError
from sottovoce.reports.similarity import similarity_curves

EPSILONS = [math.inf, 100.0, 1.0]
LINES = {"a": ([1.0, 0.5, 0.2], [0.0, 0.01, 0.01]), "b": ([1.0, 0.5, 0.2], [0.0, 0.01, 0.01])}


def test_no_noise_stands_apart_at_the_right_and_epsilons_are_named():
    axes = similarity_curves(EPSILONS, LINES).axes[0]
    places = dict(zip([label.get_text() for label in axes.get_xticklabels()], axes.get_xticks(), strict=True))
    assert (places["1"], places["100"]) == (0.0, 2.0)
    assert places["no noise"] > places["100"]


def test_lines_that_lie_on_each_other_stand_side_by_side_with_their_values():
    axes = similarity_curves(EPSILONS, LINES, chance=0.2).axes[0]
    first, second = (container[0] for container in axes.containers)
    assert list(first.get_ydata()) == list(second.get_ydata()) == [1.0, 0.5, 0.2]
    assert (first.get_xdata() < second.get_xdata()).all()
    assert any(line.get_label() == "_chance" for line in axes.lines)


def test_theory_is_drawn_only_where_given():
    def labels(**given):
        return [line.get_label() for line in similarity_curves(EPSILONS, LINES, **given).axes[0].lines]

    assert "_theory a" not in labels()
    assert "_theory a" in labels(theory={"a": [1.0, 0.5, 0.2]})


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
